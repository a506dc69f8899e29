"""Beam search against a slow and plain one, which keeps a list of hypotheses and runs the
whole model for all of them in each step. (Chapter 13 tries every sentence.)"""
from collections import Counter
from random import Random
import pytest, torch
from searching import (all_log_probs, check, check_samples, hypotheses_of, log_probs_of,
                       random_model, random_sentences, ranked, token_ids)
from running import definitions
from transformer_nb import decoding
from transformer_nb.support.core import BOS, EOS, InputError
from transformer_nb.data import pad
from transformer_nb.decoding import (Beams, alignment, beam_search, draw_tokens,
                                     length_penalty, output_limits,
                                     power_penalty, sample, search, top_tokens)
from transformer_nb.model import attention_weights

def best_ids(model, sentences, beam_size=1, **options):
    found = search(model, sentences, beam_size=beam_size, **options)
    return [best.ids for best, *_ in found]

@pytest.mark.parametrize('norm', ['post', 'pre'])
@pytest.mark.parametrize('beam_size', [1, 2, 4])
@pytest.mark.smoke
def test_equals_the_plain_search(norm, beam_size):
    for seed, end in enumerate((-1., 1., 3.)):
        model = random_model(seed, norm, end=end, max_len=10)
        sentences = random_sentences(seed, 3)
        plain = [hypotheses_of(model, s, beam_size) for s in sentences]
        pairs = (0., length_penalty), (0.6, length_penalty), (1., power_penalty)
        for alpha, penalty in pairs:
            options = dict(alpha=alpha, n_best=min(beam_size, 3), penalty=penalty)
            found = search(model, sentences, 20, beam_size=beam_size, **options)
            for hypotheses, wanted in zip(found, plain):
                check(hypotheses, ranked(wanted, **options))

@pytest.mark.parametrize('norm', ['post', 'pre'])
def test_company_does_not_matter(norm):
    model, sentences = random_model(3, norm, max_len=40), random_sentences(3, 20)
    rng = Random(3)
    alone = search(model, sentences, search_tokens=1, n_best=4)
    for search_tokens in (30, 10_000):
        together = search(model, sentences, search_tokens, n_best=4)
        for hypotheses, wanted in zip(together, alone):
            check(hypotheses, [(h.score, h.ids, h.log_probs) for h in wanted])
    for _ in range(3):
        rows = rng.sample(range(20), rng.randint(2, 20))
        longer_neighbour = [5] * rng.randint(9, 30)
        company = [sentences[i] for i in rows] + [longer_neighbour]
        src = pad([s + [EOS] for s in company])
        for i, hypotheses in zip(rows, beam_search(model, src, n_best=4)):
            check(hypotheses, [(h.score, h.ids, h.log_probs) for h in alone[i]])

@pytest.mark.parametrize('beam_size', [1, 3])
def test_limits(beam_size):
    for max_len in (20, 70):
        model = random_model(5, end=-60., max_len=max_len)
        sentences = random_sentences(5, 5)
        for s, [h] in zip(sentences, search(model, sentences, beam_size=beam_size)):
            assert len(h.ids) == len(h.log_probs) == min(len(s) + 50, max_len)
    src = pad([[5, EOS], [5, 5, 5, 5, EOS]])
    assert output_limits(random_model(5, max_len=53), src).tolist() == [51, 53]

def test_ended_hypotheses_come_before_cut_off_ones():
    model = random_model(6, end=0., max_len=6)
    sentences = random_sentences(6, 30, longest=5)
    for hypotheses in search(model, sentences, beam_size=4, n_best=4):
        whole = [len(h.log_probs) == len(h.ids) + 1 for h in hypotheses]
        assert len(set(whole)) == 1 and 1 <= len(whole) <= 4

def test_one_is_greedy():
    model, sentences = random_model(7, end=1., max_len=30), random_sentences(7, 20)
    wanted = []
    for s in sentences:
        ids = []
        while len(ids) < 30 and EOS not in ids:
            ids.append(int(log_probs_of(model, s, ids).argmax()))
        wanted.append(token_ids(ids))
    assert best_ids(model, sentences) == wanted
    for alpha in (0., 0.6, 2.):
        assert best_ids(model, sentences, alpha=alpha, penalty=power_penalty) == wanted

NO_USE = {search: dict(beam_size=[0, 2.5], alpha=[-0.5, float('nan')], precision=['fp8']),
          sample: dict(temperature=[0., float('inf')], top_k=[0], top_p=[0., 1.5],
                       precision=['half'])}

def test_what_is_of_no_use_is_refused_by_name():
    for how, options in NO_USE.items():
        for name, values in options.items():
            for value in values:
                with pytest.raises(InputError, match=f'^{name} is {value!r}'):
                    how(random_model(8), [[5]], **{name: value})

@pytest.mark.parametrize('how', [search, sample])
def test_a_sentence_beyond_the_positions_is_named(how):
    model = random_model(8) # 12 positions
    assert len(how(model, [[5], [6] * 11])) == 2
    with pytest.raises(InputError, match='sentence 2 has 12 tokens; the model .* most 11'):
        how(model, [[5], [6] * 12, [7]])

@pytest.mark.parametrize('wrong', [float('nan'), float('inf'), -float('inf')])
@pytest.mark.parametrize('vocab_size', [12, 100]) # `top_tokens` has a way for each
@pytest.mark.parametrize('how', [search, sample])
def test_nan_is_an_error(how, vocab_size, wrong):
    model = random_model(8, vocab_size=vocab_size)
    model.decoder.layers[0].feed_forward.outer.weight[0, 0] = wrong
    with pytest.raises(InputError, match='NaN'): how(model, [[5], [6, 7]])

def test_nan_is_an_error_where_a_hypothesis_ends_by_it():
    beams = Beams(torch.tensor([3]), torch.ones(4), beam_size=1, n_best=1)
    beams.extend(*torch.tensor([[[0]], [[EOS]]]), torch.tensor([[torch.nan]]))
    for _ in range(2): beams.extend(*torch.tensor([[[0]], [[5]]]), torch.zeros(1, 1))
    with pytest.raises(InputError, match='NaN'): beams.results()

@pytest.mark.parametrize('beam_size', [1, 4, 40])
@pytest.mark.parametrize('search_tokens', [1, 100, 1000])
def test_memory_is_bounded(beam_size, search_tokens):
    "By the positions of the hypotheses, too; but for a sentence alone"
    model = random_model(8, max_len=90, end=9.)
    sentences = random_sentences(8, 120, longest=60) + [[5]] * 60
    assert max(len(s) for s in sentences) + 50 > 90
    batches = list(decoding._batches(model, sentences, search_tokens, beam_size, 50))
    for rows, src in batches:
        n, s = src.shape
        t = int(output_limits(model, src).max())
        assert n == len(rows) and t == min(s + 49, 90)
        small = n * s <= search_tokens and n * beam_size * t <= 16 * search_tokens
        assert small or n == 1
    assert sorted(i for rows, _ in batches for i in rows) == list(range(180))
    assert len(batches) == 180 or search_tokens > 1

def drawn(model, sentences, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    return sample(model, sentences, generator=generator, **options)

@pytest.mark.parametrize('options', [
    {}, dict(temperature=3., top_k=7), dict(top_p=0.5)])
def test_samples(options):
    model, sentences = random_model(3, max_len=40), random_sentences(3, 15)
    found = drawn(model, sentences, **options)
    for search_tokens in (1, 60): # company does not matter
        others = drawn(model, sentences, search_tokens=search_tokens, **options)
        assert [h.ids for h in others] == [h.ids for h in found]
    check_samples(model, sentences, found)
    for s, h in zip(sentences, found):
        labels = (h.ids + [EOS])[:len(h.log_probs)]
        for row, token in zip(all_log_probs(model, s, h).tolist(), labels):
            likelier = sum(p > row[token] for p in row)
            assert likelier < options.get('top_k', 12)

def test_samples_are_drawn_anew():
    model, sentences = random_model(3, max_len=40), [[5, 6, 7]] * 20
    def ids(found): return [h.ids for h in found]
    first = ids(drawn(model, sentences))
    assert len(set(map(tuple, first))) > 5
    assert first == ids(drawn(model, sentences)) != ids(drawn(model, sentences, seed=1))
    generator = torch.Generator().manual_seed(0)
    in_turn = [ids(sample(model, sentences, generator=generator)) for _ in range(2)]
    assert in_turn[0] == first != in_turn[1]
    generator.manual_seed(0) # the sentences may come in several calls
    in_parts = [ids(sample(model, sentences[:n], generator=generator)) for n in (3, 16, 1)]
    assert sum(in_parts, []) == first
    torch.manual_seed(5) # without a generator: the global one
    globally = ids(sample(model, sentences))
    torch.manual_seed(5)
    assert ids(sample(model, sentences)) == globally
    assert sample(model, []) == []

@pytest.mark.parametrize('tame', [dict(top_k=1), dict(top_p=1e-9), dict(temperature=1e-6)])
def test_tame_samples_are_greedy(tame):
    model, sentences = random_model(7, max_len=30), random_sentences(7, 20)
    assert [h.ids for h in drawn(model, sentences, **tame)] == best_ids(model, sentences)

def test_draw_tokens_at_the_edges():
    logits = torch.tensor([[0., 3., 3., -torch.inf, 1.]] * 3)
    numbers = torch.tensor([0., 0.5, 1 - 2**-24])
    assert draw_tokens(logits, numbers).tolist()[2] == 0 # never the impossible one
    assert set(draw_tokens(logits, numbers, top_p=0.1).tolist()) <= {1, 2}
    assert draw_tokens(logits, numbers, top_k=100).tolist() == \
        draw_tokens(logits, numbers, top_p=1.).tolist()
    exact = torch.tensor([[0.5, 0.25, 0.25]] * 3).log()
    # the first alone has at least 0.5, and no more is taken
    assert draw_tokens(exact, numbers, top_p=0.5).tolist() == [0, 0, 0]

@pytest.mark.smoke
def test_alignment():
    model, sentence = random_model(10), [5, 6, 7]
    [ids] = best_ids(model, [sentence], beam_size=4)
    weights = alignment(model, sentence, ids)
    assert weights.shape == (len(ids) + 1, 4)
    assert torch.allclose(weights.sum(1), torch.ones(len(ids) + 1).double())
    src, tgt = torch.tensor([sentence + [EOS]]), torch.tensor([[BOS] + ids])
    layers = attention_weights(model, src, tgt)['cross'] # of two layers
    assert torch.equal(weights, layers[-1, 0].mean(0))
    assert torch.equal(alignment(model, sentence, ids, layer=0), layers[0, 0].mean(0))

@pytest.mark.parametrize('top_p', [1e-46, 1e-300, 5e-324])
def test_the_likeliest_token_is_in_the_smallest_nucleus(top_p):
    "These are 0 in float32, and the least likely token was drawn, always"
    logits = torch.tensor([[0., 1., 2., 1.], [3., 1., 2., 0.]])
    drawn = draw_tokens(logits, torch.tensor([0.999, 0.5]), top_p=top_p)
    assert drawn.tolist() == [2, 0]

@pytest.mark.parametrize('v', [7, 300, 400, 6000])
def test_top_tokens_are_those_of_topk(v):
    logits = torch.randn(3, 2, v)
    for ours, wanted in zip(top_tokens(logits, 4), logits.topk(4)):
        assert torch.equal(ours, wanted)

def test_draws_have_the_probabilities_of_the_model():
    "Of 4,000 draws, every sentence there is, within four standard deviations and one draw"
    #| claim C30
    chapter, n = definitions('13_decoding'), 4000
    model = chapter.tiny_model(5)
    draws = sample(model, [[3]] * n, generator=torch.Generator().manual_seed(0))
    counts = Counter(tuple(h.ids) for h in draws if len(h.log_probs) > len(h.ids))
    for h in chapter.exhaustive(model, [3]):
        p = torch.tensor(h.score).exp().item()
        share = counts[tuple(h.ids)] / n
        assert abs(share - p) <= 4 * (p * (1 - p) / n)**0.5 + 1/n

@pytest.mark.parametrize('alpha', [0., 0.6, 2.])
def test_the_length_penalty_of_wu(alpha):
    assert [length_penalty(n, alpha) for n in (1, 7, 19)] == [1, 2**alpha, 4**alpha]
