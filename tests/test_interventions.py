"""Patching on small random models: the other run by everything, the same run by nothing,
planted heads, one head or position at a time; minimal pairs of known truth."""
from dataclasses import replace
import pytest, torch
from torch.testing import assert_close
from running import definitions
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.model import Transformer, TransformerConfig, attention_modules
import transformer_nb.studies.interventions as iv
from transformer_nb.studies.interventions import (
    Pair, Place, all_heads, effects, encode_runs, next_logits_of, patched, recorded,
    swap_partners)

PAIRS = [Pair('cat/dog', ('the old cat sleeps .', 'the old dog sleeps .'), 'die alte',
              ('katze', 'hund')),
         Pair('sun/moon', ('a sun .', 'a moon .'), 'eine', ('sonne', 'mond')),
         Pair('sun/moon', ('the old sun .', 'the old moon .'), 'die', ('sonne', 'mond'))]
TEXTS = [text for pair in PAIRS for text in pair.sources]
TEXTS += [f'{pair.prefix} {word}' for pair in PAIRS for word in pair.targets]

@pytest.fixture(scope='module')
def tokenizer(): return definitions('08_text').WordTokenizer.train(TEXTS, 'de', 100)

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

def test_a_direction_that_was_planted_is_found(model, runs):
    "A head whose outputs differ along one direction: it carries all, the rest nothing"
    head = Place('cross', 2, head=1)
    d, u = 5, torch.nn.functional.normalize(torch.arange(1., 6).double(), dim=0)
    sign = torch.tensor([1., -1] * 3, dtype=torch.float64)[:, None, None]
    with recorded(model, [head]) as values: next_logits_of(model, runs)
    planted = {head: 1 + 0 * values[head] + sign * u} # and something that both share
    eye, along = torch.eye(d, dtype=torch.float64), torch.outer(u, u)
    with patched(model, planted):
        # `changes_through` replaces what the hook before it wrote: read it back that way
        found = iv.direction_between(model, runs, head)
        whole, one, rest = iv.changes_through(model, runs, head, [eye, along, eye - along])
    assert_close(found, u)
    assert_close(one, whole)
    assert_close(rest, 0 * rest, rtol=0, atol=1e-12)
    assert whole.abs().min() > 1e-6

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

STUDY = definitions('16a_interventions')

@pytest.mark.parametrize('luck, alike, word', [
    (.1, .2, 'one direction carries it'), (.1, 1.8, 'a direction carries a part'),
    (1., .2, 'undecided')])
def test_the_rule_of_a_direction(monkeypatch, luck, alike, word):
    "It beats chance, and does more between genders than within one"
    def changes(model, runs, head, matrices): # of six pairs, both ways
        shares = [2*alike] if len(matrices) == 1 else [.95, .9, .05] + [luck]*20
        return 2 * torch.tensor(shares)[:, None].expand(-1, 12)
    for name, fake in dict(direction_between=torch.ones(5), differences=torch.ones(12),
                           encode_runs=None).items():
        monkeypatch.setattr(STUDY, name, lambda *args, fake=fake: fake)
    monkeypatch.setattr(STUDY, 'changes_through', changes)
    monkeypatch.setattr(STUDY, 'by_nouns', lambda x, runs: x)
    found = STUDY.study_direction(None, None, Place('cross', 0, head=0), [], [], [], 20)
    assert found['word'] == word
    assert STUDY.one_gender('mat/fence box/bed') == 'mat/box fence/bed'
