"""Patching on small random models: the other run by everything, the same run by nothing,
planted heads, one head or position at a time; minimal pairs of known truth."""
from dataclasses import replace
from random import Random
import pytest, torch
from torch.testing import assert_close
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.model import Transformer, TransformerConfig, attention_modules
from transformer_nb.text import WordTokenizer
from transformer_nb.studies.attention_maps import without_heads
from running import definitions
import transformer_nb.studies.interventions as iv
from transformer_nb.studies.interventions import (
    Pair, Place, all_heads, effects, encode_runs, next_logits_of, patched, recorded,
    swap_partners)

chapter = definitions('16a_interventions')

PAIRS = [Pair('cat/dog', ('the old cat sleeps .', 'the old dog sleeps .'), 'die alte',
              ('katze', 'hund')),
         Pair('sun/moon', ('a sun .', 'a moon .'), 'eine', ('sonne', 'mond')),
         Pair('sun/moon', ('the old sun .', 'the old moon .'), 'die', ('sonne', 'mond'))]
TEXTS = [text for pair in PAIRS for text in pair.sources]
TEXTS += [f'{pair.prefix} {word}' for pair in PAIRS for word in pair.targets]

@pytest.fixture(scope='module')
def tokenizer(): return WordTokenizer.train(TEXTS, 'de', 100)

def new_model(tokenizer, **options):
    set_seed(1)
    config = TransformerConfig.tiny(tokenizer.vocab_size, d_model=24, d_ff=32, n_heads=3,
                                    d_v=5, n_encoder_layers=2, n_decoder_layers=3)
    return Transformer(replace(config, **options)).double().eval().requires_grad_(False)

@pytest.fixture(scope='module')
def model(tokenizer): return new_model(tokenizer)

@pytest.fixture(scope='module')
def runs(tokenizer): return encode_runs(tokenizer, PAIRS)

def every_place(model):
    places = all_heads(model)
    for kind, n in (('encoder', 2), ('decoder', 3), ('cross', 3)):
        layers = range(n) if kind == 'cross' else range(n + 1)
        places += [Place(kind, layer, 'stream') for layer in layers]
        parts = 'query', 'key', 'value'
        places += [Place(kind, layer, part, 1) for layer in range(n) for part in parts]
    return places

def exchanged(model, runs, places):
    "Logits with these places as the partners have them"
    with recorded(model, places) as values: next_logits_of(model, runs)
    with patched(model, {place: swap_partners(x) for place, x in values.items()}):
        return next_logits_of(model, runs)

@pytest.mark.parametrize('options', [{}, dict(norm='pre'), dict(positions='rotary')],
                         ids=str)
def test_everything_is_the_other_run_and_nothing_is_the_same(tokenizer, runs, options):
    model = new_model(tokenizer, **options)
    plain = next_logits_of(model, runs)
    heads = [place for place in all_heads(model) if place.kind == 'cross']
    layers = [Place('cross', layer) for layer in range(3)]
    for places in (heads, layers, [Place('encoder', 2, 'stream')],
                   [Place('encoder', 0, 'stream')]):
        found = exchanged(model, runs, places)
        assert_close(found, swap_partners(plain), rtol=0, atol=1e-12)
    with recorded(model, every_place(model)) as values:
        assert next_logits_of(model, runs).equal(plain)
    assert set(values) == set(every_place(model))
    with patched(model, values): assert next_logits_of(model, runs).equal(plain)
    assert next_logits_of(model, runs).equal(plain)

def test_no_hook_stays_after_an_error(model, runs):
    plain = next_logits_of(model, runs)
    place = Place('encoder', 1, 'stream')
    with recorded(model, [place]) as values: next_logits_of(model, runs)
    with pytest.raises(KeyboardInterrupt), patched(model, {place: 0 * values[place]}):
        assert not next_logits_of(model, runs).equal(plain)
        raise KeyboardInterrupt
    kept = values[place]
    assert next_logits_of(model, runs).equal(plain)
    assert values[place] is kept # the run after the block has not been recorded

@pytest.mark.parametrize('part', ['output', 'query', 'key', 'value'])
def test_a_patch_changes_its_head_and_position_and_nothing_else(model, runs, part):
    place = Place('encoder', 1, part, head=2, position=1)
    whole = Place('encoder', 1, part)
    with recorded(model, [place, whole]) as before: next_logits_of(model, runs)
    patch = {place: before[place] + 1}
    with patched(model, patch), recorded(model, [whole]) as after:
        next_logits_of(model, runs)
    size = before[whole].shape[-1] // 3
    wanted = before[whole].clone()
    wanted[:, 1, 2*size:] += 1
    assert after[whole].equal(wanted)
    assert before[place].equal(before[whole][:, 1, 2*size:])

def test_places_by_the_formulas(model, runs):
    "What is recorded, computed from the layers one by one"
    stream = [Place('encoder', layer, 'stream') for layer in range(3)]
    cross = Place('cross', 0, 'stream')
    key, output = Place('encoder', 0, 'key', 1), Place('encoder', 0, head=1)
    places = [*stream, cross, key, output]
    with recorded(model, places) as values: next_logits_of(model, runs)
    x = model.src_positions(model.src_embedding(runs.src))
    assert values[stream[0]].equal(x)
    attention = attention_modules(model)['encoder'][0]
    q, k, v = attention.project(x, x)
    assert_close(values[key], k[:, 1])
    mask = (runs.src != 0)[:, None]
    scores = (q[:, 1] @ k[:, 1].mT) / 8**0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    assert_close(values[output], weights @ v[:, 1])
    assert_close(values[stream[2]], model.encode(runs.src))
    first = model.decoder.layers[0]
    without_ff = first.residuals[2](values[cross], first.feed_forward)
    with recorded(model, [Place('decoder', 1, 'stream')]) as after:
        next_logits_of(model, runs)
    assert_close(without_ff, after[Place('decoder', 1, 'stream')])

def test_a_planted_head_is_found(model, runs):
    heads = [place for place in all_heads(model) if place.kind == 'cross']
    for planted in heads[::4]:
        silent = [('cross', p.layer, p.head) for p in heads if p != planted]
        with without_heads(model, silent):
            found = effects(model, runs, [[place] for place in heads])
        wanted = torch.tensor([[float(place == planted)] for place in heads])
        assert_close(found, wanted.double().expand(-1, 3), rtol=0, atol=1e-7)

@pytest.mark.parametrize('places', [
    [Place('cross', 1, head=2)],
    [Place('encoder', 0, head=1)],
    [Place('decoder', 2, 'key', 0), Place('encoder', 1, 'stream')]], ids=str)
def test_the_effect_by_hand(model, runs, tokenizer, places):
    "One sentence at a time, without batches"
    found = effects(model, runs, [places, []])
    assert_close(found[1], torch.zeros(3, dtype=torch.float64))
    for pair, effect in zip(PAIRS, found[0]):
        tgt = torch.tensor([[BOS, *tokenizer.encode(pair.prefix)]])
        a, b = (torch.tensor([[*tokenizer.encode(text), EOS]]) for text in pair.sources)
        ids = [tokenizer.encode(f'{pair.prefix} {word}')[-1] for word in pair.targets]
        def margin(src, values): # of the first target
            with patched(model, values), torch.no_grad(): logits = model(src, tgt)[0, -1]
            return (logits[ids[0]] - logits[ids[1]]).item()
        shares = []
        for one, other in ((a, b), (b, a)):
            with recorded(model, places) as values: margin(other, {})
            change = margin(one, {}) - margin(one, values)
            shares.append(change / (margin(one, {}) - margin(other, {})))
        assert effect.item() == pytest.approx(sum(shares) / 2, abs=1e-9)

def test_the_direction_turns_with_the_pair(model, runs, tokenizer):
    turned = [pair._replace(sources=pair.sources[::-1], targets=pair.targets[::-1])
              for pair in PAIRS]
    other = encode_runs(tokenizer, turned)
    assert_close(iv.differences(model, other), swap_partners(iv.differences(model, runs)))
    sets = [[place] for place in all_heads(model)]
    assert_close(effects(model, other, sets), effects(model, runs, sets))
    plain, place = next_logits_of(model, runs), [Place('cross', 1)]
    change, back = (exchanged(model, r, place) - p for r, p in
                    ((runs, plain), (other, swap_partners(plain))))
    assert_close(back, swap_partners(change))

def test_runs_are_partners(runs, tokenizer):
    assert runs.last.tolist() == [2, 2, 1, 1, 1, 1] # `<s>` is 0
    words = [tokenizer.decode([i]).strip() for i in runs.own.tolist()]
    assert words == [word for pair in PAIRS for word in pair.targets]
    assert runs.other.equal(swap_partners(runs.own))
    assert (runs.src != swap_partners(runs.src)).sum(1).tolist() == [1] * 6

def test_kept_are_pairs_of_one_token_with_both_right(tokenizer, monkeypatch):
    pairs = [PAIRS[0], PAIRS[1], # the second is answered wrong
             PAIRS[2]._replace(sources=('the sun .', 'a moon .')),
             PAIRS[2]._replace(sources=('the sun .', 'the old moon .'))]
    right = encode_runs(tokenizer, pairs).own.clone()
    right[3] = right[2]
    def answers(model, runs): return torch.eye(tokenizer.vocab_size)[right]
    monkeypatch.setattr(iv, 'next_logits_of', answers)
    assert iv.keep_right(None, tokenizer, pairs) == pairs[:1]

def test_pairs_with_the_same_nouns_are_one_observation(runs):
    effect = torch.tensor([[1., 2, 4], [0, 6, 8]])
    assert iv.by_nouns(effect, runs).tolist() == [[1, 3], [0, 7]]

HEADS = [Place(kind, 0, head=head) for kind in ('encoder', 'cross') for head in range(3)]

@pytest.mark.parametrize('best, others, word', [
    ([.9, .8, .9, .7, .8], 0., 'carries it'),
    ([.4, .3, .4, .3, .4], 0., 'carries a part'),
    ([.4, .3, .4, .3, .4], .4, 'undecided'),
    ([.9, .1, .9, .1, .9], .6, 'undecided'),
    ([.9, .1, .9, .1, .9], .4, 'undecided'), # ahead, but not by its interval
    ([.9, .8, .9, .7], 0., 'no verdict')])
def test_verdicts(best, others, word):
    scoring = torch.full((6, len(best)), 9.) # the other kind does not count
    scoring[3:] = others
    scoring[4] = torch.tensor(best)
    choosing = torch.zeros_like(scoring)
    choosing[4] = 1
    found = chapter.judge_head(HEADS, choosing, scoring)
    assert (found['word'], found['head']) == (word, ['cross', 0, 1])
    assert found['best_on_both'] is False
    assert found['effect'][0] == pytest.approx(sum(best) / len(best))

def test_sets_have_heads_of_the_same_kinds():
    choosing = torch.tensor([[.1], [0], [.2], [.9], [0], [.3]])
    sets = chapter.top_sets(HEADS, choosing)
    assert sets[1] == [HEADS[3], HEADS[5]] and [len(s) for s in sets] == [1, 2, 4, 6, 6]
    for like in (sets[0], [HEADS[0], HEADS[3]]):
        for drawn in chapter.random_sets(HEADS, like, Random(0)):
            assert sorted(p.kind for p in drawn) == sorted(p.kind for p in like)
            assert not set(drawn) & set(like)

def test_the_captions_differ_in_one_word_and_halves_share_no_noun():
    halves = [chapter.gender_pairs(half) for half in range(3)]
    nouns = [{noun for pair in half for noun in pair.nouns.split('/')} for half in halves]
    assert not nouns[0] & nouns[1]
    assert not nouns[2] & (nouns[0] | nouns[1])
    assert [len(half) for half in halves] == [32, 32, 36]
    verbs = chapter.verb_pairs(0) + chapter.verb_pairs(1)
    for pair in sum(halves, verbs):
        a, b = (text.rstrip('.').split() for text in pair.sources)
        assert len(a) == len(b) and sum(x != y for x, y in zip(a, b)) == 1

def test_one_gender_pairs_are_neighbors_of_one_column():
    assert chapter.one_gender('a/x b/y c/z') == 'a/b b/c x/y y/z'

def test_a_direction_that_was_planted_is_found(model, runs):
    "A head whose outputs differ along one direction: it carries all, the rest nothing"
    head = Place('cross', 2, head=1)
    d, u = 5, torch.nn.functional.normalize(torch.arange(1., 6).double(), dim=0)
    sign = torch.tensor([1., -1] * 3, dtype=torch.float64)[:, None, None]
    with recorded(model, [head]) as values: next_logits_of(model, runs)
    planted = {head: 0 * values[head] + sign * u}
    eye, along = torch.eye(d, dtype=torch.float64), torch.outer(u, u)
    with patched(model, planted):
        # `changes_through` replaces what the hook before it wrote: read it back that way
        found = iv.direction_between(model, runs, head)
        whole, one, rest = iv.changes_through(model, runs, head, [eye, along, eye - along])
    assert_close(found, u)
    assert_close(one, whole)
    assert_close(rest, 0 * rest, rtol=0, atol=1e-12)
    assert whole.abs().min() > 1e-6

def test_shares_of_a_patch_by_hand(model, runs):
    head, generator = Place('cross', 2, head=0), torch.Generator().manual_seed(0)
    projection = torch.randn(5, 5, generator=generator, dtype=torch.float64)
    with recorded(model, [head]) as values: before = iv.differences(model, runs)
    x = values[head]
    wanted = torch.empty_like(x)
    for i in range(len(x)): wanted[i] = x[i] + (x[i ^ 1] - x[i]) @ projection
    with patched(model, {head: wanted}): after = iv.differences(model, runs)
    found = iv.changes_through(model, runs, head, [projection])
    assert_close(found[0], before - after)

@pytest.mark.parametrize('effect, rest, one, word', [
    (.9, .05, .1, 'one direction carries it'),
    (.9, .95, .1, 'a direction carries a part'), # as much without it
    (.9, .05, 9., 'a direction carries a part'), # nouns of one gender move it, too
    (.4, .05, .1, 'a direction carries a part'),
    (.02, .05, .1, 'undecided')])                # no better than a random one
def test_verdicts_of_directions(monkeypatch, effect, rest, one, word):
    groups = [Pair(str(i), ('', ''), '', ('', '')) for i in range(6)]
    fake = chapter.Runs(*[torch.zeros(12)] * 5, groups)
    monkeypatch.setattr(chapter, 'direction_between', lambda *args: torch.eye(4)[0])
    monkeypatch.setattr(chapter, 'encode_runs', lambda tokenizer, pairs: fake)
    monkeypatch.setattr(chapter, 'differences', lambda *args: torch.ones(12))
    noise = 1 + .01 * torch.arange(12)
    def changes(model, runs, head, projections):
        if len(projections) == 1: return one * noise[None]
        shares = torch.tensor([1., effect, rest, *[.1] * (len(projections) - 3)])
        return 2 * shares[:, None] * noise
    monkeypatch.setattr(chapter, 'changes_through', changes)
    found = chapter.study_direction(None, None, HEADS[0], groups, groups, groups)
    assert found['word'] == word

def test_attributions_are_the_slope_of_a_patch(model, runs):
    "A ten-thousandth of the way, times ten thousand"
    heads = all_heads(model)
    found = iv.attributions(model, runs, heads)
    for head, estimate in zip(heads, found):
        with recorded(model, [head]) as values: before = iv.differences(model, runs)
        step = values[head] + 1e-4 * (swap_partners(values[head]) - values[head])
        with patched(model, {head: step}): after = iv.differences(model, runs)
        shares = 1e4 * (before - after) / (before + swap_partners(before))
        assert_close(estimate, shares.view(-1, 2).mean(1), rtol=1e-2, atol=1e-4)

def test_a_study_is_whole_and_a_model_that_knows_nothing_is_refused(model, tokenizer, runs,
                                                                  monkeypatch):
    halves = [PAIRS[:2], PAIRS]
    monkeypatch.setattr(chapter, 'keep_right', lambda model, tokenizer, pairs: pairs)
    found = chapter.study(model, tokenizer, halves)
    assert found['kept'] == [2, 3] and found['groups'] == [2, 2]
    assert found['word'] == 'no verdict' and len(found['alone'][1]) == 24
    heads, measured = all_heads(model), []
    for half, alone in zip(halves, found['alone']):
        r = encode_runs(tokenizer, half)
        measured.append(iv.by_nouns(effects(model, r, [[h] for h in heads]), r).mean(1))
        assert_close(torch.tensor(alone, dtype=torch.float64), measured[-1])
    best = heads[measured[0].argmax()]
    rest = [h for h in heads if h.kind == best.kind and h != best]
    without = iv.by_nouns(effects(model, runs, [rest]), runs).mean().item()
    assert found['without'][0] == pytest.approx(without)
    scored = measured[1][heads.index(best)].item()
    assert found['curve'][0]['effect'][0] == pytest.approx(scored)
    monkeypatch.setattr(chapter, 'keep_right', lambda model, tokenizer, pairs: [])
    with pytest.raises(ValueError, match='not right about any pair'):
        chapter.study(model, tokenizer, halves)
