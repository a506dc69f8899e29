"""Beam search against slow and plain searches.

One keeps a list of hypotheses and runs the whole model for each; one tries every sentence.
"""
from itertools import product
from random import Random
from unittest import mock
import pytest, torch
from transformer_nb.core import BOS, EOS
from transformer_nb.data import pad
from transformer_nb.decoding import (Cache, alignment, beam_search, greedy, length_penalty,
                                     next_logits, output_limits, power_penalty, search)
from transformer_nb.model import Transformer, TransformerConfig

def best_ids(model, sentences, beam_size=1, **options):
    found = search(model, sentences, beam_size=beam_size, **options)
    return [best.ids for best, *_ in found]

def random_model(seed, norm='post', vocab_size=12, max_len=12, end=1., **options):
    "Random weights, float64; `end` is added to the logit of `</s>` on average"
    torch.manual_seed(seed)
    small = dict(d_model=16, d_ff=24, n_heads=2, d_k=6, d_v=5, n_encoder_layers=1,
                 n_decoder_layers=2, positions='learned', tie_embeddings=False)
    config = TransformerConfig(vocab_size, norm=norm, max_len=max_len, **small | options)
    m = Transformer(config).double().eval().requires_grad_(False)
    for p in m.parameters():
        if p.dim() > 1: torch.nn.init.normal_(p, std=0.4)
    torch.nn.init.normal_(m.tgt_positions.table, std=2)
    src = torch.randint(4, vocab_size, (30, 5))
    tgt = torch.randint(vocab_size, (30, min(5, max_len)))
    with mock.patch.object(m.output, 'logits', lambda x: x):
        outputs = m(src[:, :max_len], tgt)
    common = outputs.mean((0, 1))
    common /= common.norm()
    W = m.output.weight
    W.copy_(2 * (W - torch.outer(W @ common, common)))
    W[EOS] += end * common / 4
    return m

def random_sentences(seed, n, vocab_size=12, longest=7):
    rng = Random(seed)
    def sentence():
        length = rng.randint(1, longest)
        return [rng.randrange(3, vocab_size) for _ in range(length)]
    return [sentence() for _ in range(n)]

def log_probs_of(model, sentence, prefix):
    src, tgt = torch.tensor([sentence + [EOS]]), torch.tensor([[BOS] + prefix])
    return model(src, tgt)[0, -1].log_softmax(-1)

def token_ids(ids): return [t for t in ids if t != EOS]

def plain_beam(model, sentence, k, alpha, n_best, penalty):
    """The definition, one hypothesis at a time, without a cache and without an early stop

    Returns (score, ids, log-probabilities) of the `n_best`.
    """
    live, ended = [([], [])], []
    limit = min(len(sentence) + 50, model.config.max_len)
    for n in range(1, limit + 1):
        candidates = []
        for ids, log_probs in live:
            for token, p in enumerate(log_probs_of(model, sentence, ids).tolist()):
                candidates.append((ids + [token], log_probs + [p]))
        kept = sorted(candidates, key=lambda c: -sum(c[1]))[:k]
        ended += [c for c in kept if c[0][-1] == EOS]
        live = [c for c in kept if c[0][-1] != EOS]
        if not live: break
    scored = [(sum(p) / penalty(len(p), alpha), ids, p) for ids, p in ended or live]
    best = sorted(scored, key=lambda c: -c[0])[:n_best]
    return [(score, token_ids(ids), p) for score, ids, p in best]

def check(hypotheses, wanted, atol=1e-10):
    assert [h.ids for h in hypotheses] == [ids for _, ids, _ in wanted]
    for h, (score, _, log_probs) in zip(hypotheses, wanted):
        assert abs(h.score - score) < atol and len(h.log_probs) == len(log_probs)
        assert max(abs(a - b) for a, b in zip(h.log_probs, log_probs)) < atol

@pytest.mark.parametrize('norm', ['post', 'pre'])
@pytest.mark.parametrize('beam_size', [1, 2, 4, 8])
def test_equals_the_plain_search(norm, beam_size):
    for seed, end in enumerate((-1., 1., 3.)):
        model = random_model(seed, norm, end=end, max_len=10)
        sentences = random_sentences(seed, 3)
        pairs = (0., length_penalty), (0.6, length_penalty), (1., power_penalty)
        for alpha, penalty in pairs:
            options = dict(alpha=alpha, n_best=min(beam_size, 3), penalty=penalty)
            found = search(model, sentences, 20, beam_size=beam_size, **options)
            for s, hypotheses in zip(sentences, found):
                check(hypotheses, plain_beam(model, s, beam_size, **options))

def exhaustive(model, sentence, alpha, penalty):
    v, limit = model.config.vocab_size, model.config.max_len
    words = token_ids(range(v))
    every = [list(ids) for n in range(limit) for ids in product(words, repeat=n)]
    src = torch.tensor([sentence + [EOS]]).expand(len(every), -1)
    tgt = pad([[BOS] + ids for ids in every])
    log_p = model(src, tgt).log_softmax(-1)
    found = []
    for ids, row in zip(every, log_p.tolist()):
        p = [row[i][t] for i, t in enumerate(ids + [EOS])]
        found.append((sum(p) / penalty(len(p), alpha), ids, p))
    return sorted(found, key=lambda c: -c[0])

@pytest.mark.parametrize('norm', ['post', 'pre'])
@pytest.mark.parametrize('vocab_size, limit', [(5, 4), (6, 3)])
def test_as_wide_as_the_space_is_exhaustive(norm, vocab_size, limit):
    for seed in range(2 if limit == 3 else 1):
        model = random_model(seed, norm, vocab_size, limit)
        sentences = random_sentences(seed, 2, vocab_size, limit - 1)
        wide = vocab_size * (vocab_size - 1)**(limit - 1) # continuations in the last step
        for alpha, penalty in product((0., 0.6, 2.), (length_penalty, power_penalty)):
            options = dict(alpha=alpha, penalty=penalty)
            found = search(model, sentences, beam_size=wide, n_best=4, **options)
            for s, hypotheses in zip(sentences, found):
                check(hypotheses, exhaustive(model, s, **options)[:4])

@pytest.mark.parametrize('norm', ['post', 'pre'])
def test_company_does_not_matter(norm):
    model, sentences = random_model(3, norm, max_len=40), random_sentences(3, 40)
    rng = Random(3)
    alone = search(model, sentences, batch_tokens=1, n_best=4)
    for batch_tokens in (30, 100, 10_000):
        together = search(model, sentences, batch_tokens, n_best=4)
        for hypotheses, wanted in zip(together, alone):
            check(hypotheses, [(h.score, h.ids, h.log_probs) for h in wanted])
    for _ in range(4):
        rows = rng.sample(range(40), rng.randint(2, 40))
        longer_neighbour = [5] * rng.randint(9, 30)
        company = [sentences[i] for i in rows] + [longer_neighbour]
        src = pad([s + [EOS] for s in company])
        for i, hypotheses in zip(rows, beam_search(model, src, n_best=4)):
            check(hypotheses, [(h.score, h.ids, h.log_probs) for h in alone[i]])

def test_float32_is_close():
    model, sentences = random_model(4, max_len=40), random_sentences(4, 60)
    exact, single = search(model, sentences), search(model.float(), sentences)
    same = [(a, b) for [a], [b] in zip(exact, single) if a.ids == b.ids]
    assert len(same) >= 58 # near ties may be decided either way
    for a, b in same:
        assert max(abs(x - y) for x, y in zip(a.log_probs, b.log_probs)) < 1e-5
    for [a], [b] in zip(exact, single): assert abs(a.score - b.score) < 1e-4

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
    src = pad([s + [EOS] for s in sentences])
    assert best_ids(model, sentences) == wanted == greedy(model, src)
    for alpha in (0., 0.6, 2.):
        assert best_ids(model, sentences, alpha=alpha, penalty=power_penalty) == wanted

def test_arguments():
    model = random_model(8)
    assert best_ids(model, []) == search(model, []) == []
    for n_best in (0, 3):
        with pytest.raises(ValueError, match='n_best'):
            beam_search(model, pad([[5, EOS]]), beam_size=2, n_best=n_best)
    # wider than the vocabulary, and fewer than 20 end
    [few] = search(model, [[5]], beam_size=20, n_best=20)
    check(few, plain_beam(model, [5], 20, 0.6, 20, length_penalty))

def test_the_source_is_not_copied_per_hypothesis():
    model, src = random_model(9), pad([[5, 6, EOS], [7, EOS]])
    one, four = Cache(model, src, 8), Cache(model, src, 8, beam_size=4)
    for a, b in zip(one.source, four.source):
        assert [x.shape for x in a] == [x.shape for x in b]
    def places(): return [y.data_ptr() for pair in four.target for y in pair]
    before = places()
    for _ in range(8): next_logits(model, torch.full((2, 4), 5), four)
    assert places() == before # allocated once

def test_alignment():
    model, sentence = random_model(10), [5, 6, 7]
    [ids] = best_ids(model, [sentence], beam_size=4)
    weights = alignment(model, sentence, ids)
    assert weights.shape == (len(ids) + 1, 4)
    assert torch.allclose(weights.sum(1), torch.ones(len(ids) + 1).double())
