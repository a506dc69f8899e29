"""Chapter 18 beyond its own proofs: what a row changes, what it leaves alone, a table that
is interrupted, and the rule on losses whose effects are known."""
from copy import deepcopy
from itertools import islice
from math import nan, sqrt
from pathlib import Path
from unittest import mock
import numpy as np
import pytest, torch
from running import call_script, refuses
from scipy import stats
from torch.testing import assert_close
from transformer_nb.checkpoint import _n_parameters as n_parameters
from transformer_nb.support.core import BOS, EOS, InputError, set_seed
from transformer_nb.corpora import load_corpus
from transformer_nb.decoding import search
from transformer_nb.embedding import Embedding
from transformer_nb.judging import Difference, holm, t_quantile
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.optimizer import paper_lr
from transformer_nb.training import batch_groups
from transformer_nb.studies import variations
from transformer_nb.studies.variations import (
    BASE, DEPTH, LADDERS, LEFT_OUT, PEAK_LR, RATES, ROWS, TABLE, THEIRS, WARMUP_STEPS,
    Slope, ablate, after_rates, beside_paper, best_rates, confirmation, direction,
    judge_heads, row_lr, slope, train_row, trends, whole_seeds)
import train_variations as protocol
from train_variations import train_rows

NOT_CONFIG = 'label_smoothing', 'warmup', 'without', 'rate'
RESULTS = Path(__file__).parent.parent/'nbs'/'results'/'variations.jsonl'
TEN = RESULTS.parent/'variations_ten.jsonl'

def config(name, vocab_size=2000):
    settings = BASE | ROWS[name]
    for field in NOT_CONFIG: settings.pop(field, None)
    return TransformerConfig(vocab_size, **settings)

def test_parameters_beside_base():
    count = {name: n_parameters(config(name)) for name in ROWS}
    same = ['A1', 'A2', 'A8', 'A16', 'D-drop0', 'D-drop0.2', 'D-ls0', 'D-ls0.2',
            'no-sqrt-d', 'no-sqrt-dk']
    assert {count[name] for name in same} == {count['base']}
    for name, d_k in (('B4', 4), ('B8', 8)):
        saved = 9 * 2*64*4*(16 - d_k) # W^Q and W^K of 9 attentions
        assert count['base'] - count[name] == saved
    chains = ['C-N1 C-N2 base C-N4', 'C-d32 base C-d128 big', 'C-ff128 base C-ff512',
              'base E', 'base untied']
    for chain in chains:
        sizes = [count[name] for name in chain.split()]
        assert sizes == sorted(set(sizes)), chain

@pytest.mark.smoke
def test_rows_change_one_thing():
    one_thing = [
        {'n_heads', 'd_k', 'd_v'}, {'d_k'}, {'n_encoder_layers', 'n_decoder_layers'},
        {'d_model'}, {'d_ff'}, {'dropout'}, {'label_smoothing'}, {'positions'},
        {'tie_embeddings'}, {'without'}]
    for name in {*TABLE, *LEFT_OUT} - {'base', 'big'}:
        assert set(ROWS[name]) in one_thing, name
    for changes in DEPTH.values():
        assert set(changes) == {'n_encoder_layers', 'n_decoder_layers', 'norm', 'warmup'}
    assert not any(set(name) & set(', /') for name in ROWS) # names that --rows can hold

def test_lr_is_the_curve_of_the_paper():
    factor = PEAK_LR / paper_lr(WARMUP_STEPS, BASE['d_model'], WARMUP_STEPS)
    for step in (1, WARMUP_STEPS//2, WARMUP_STEPS, 3*WARMUP_STEPS):
        for d_model in (32, 64, 128):
            lr = row_lr(dict(d_model=d_model), step)
            assert abs(lr / paper_lr(step, d_model, WARMUP_STEPS) - factor) < 1e-9
        after_warmup = row_lr({}, max(step, WARMUP_STEPS))
        assert abs(row_lr(dict(warmup=False), step) - after_warmup) < 1e-12
    assert row_lr(dict(warmup=False), 1) == PEAK_LR
    assert row_lr(dict(rate=0.5), 70) == row_lr({}, 70)/2
    assert row_lr(RATES['A1@2'], 70) == row_lr(TABLE['A1'], 70)*2

@pytest.fixture(scope='module')
def mini():
    pairs = load_corpus('mini', 'en', 'de')
    return {'train': pairs['train'][:60], 'valid': pairs['valid'][:3]}

def trained_on(name, seed, mini):
    "The batches that a row sees, and its label smoothing"
    seen = []
    def note(model, optimizer, batches, n_steps, lr_of, loss_of):
        for _, _, [rows] in islice(batch_groups(batches, 1), n_steps):
            batch = batches.batch(rows)
            seen.append((batch.src.tolist(), batch.labels.tolist(),
                         loss_of.keywords['label_smoothing']))
        return {}, []
    with (mock.patch.object(variations, 'train_steps', note),
          mock.patch.object(variations, 'measure_losses', return_value={}),
          mock.patch.object(variations, '_scores', return_value={})):
        train_row(ROWS[name], seed, mini, 5)
    return seen

def test_equal_batches_for_all_rows_of_a_seed(mini):
    with mock.patch.object(variations, 'BATCH_TOKENS', 100):
        base = trained_on('base', 0, mini)
        assert len(base) == 5
        for name in ('A1', 'E', 'C-d32', 'post6-cold'):
            assert trained_on(name, 0, mini) == base
        assert trained_on('base', 1, mini) != base
        smooth = trained_on('D-ls0.2', 0, mini)
    assert [batch[:2] for batch in smooth] == [batch[:2] for batch in base]
    assert {label_smoothing for _, _, label_smoothing in smooth} == {0.2}

def timeless(result): return {k: v for k, v in result.items() if k != 'seconds'}

def test_a_result_repeats(mini):
    first, second = (train_row(ROWS['C-N1'], 3, mini, 2) for _ in range(2))
    assert timeless(first) == timeless(second)

def small_model(seed):
    set_seed(seed)
    return Transformer(TransformerConfig(30, d_model=16, d_ff=32, n_heads=2,
                                         n_encoder_layers=2, n_decoder_layers=2)).eval()

PARTS = ['√d_model', '1/√d_k']

@pytest.mark.parametrize('part', PARTS)
def test_ablate_in_training_and_in_search(part):
    "A search without a part scores its tokens as the model without it does"
    model = small_model(1)
    source = [5, 6, 7, 8]
    whole = search(model, [source])[0][0]
    ablate(model, part)
    found = search(model, [source])[0][0]
    src, tgt = torch.tensor([source + [EOS]]), torch.tensor([[BOS] + found.ids])
    with torch.no_grad(): log_probs = model(src, tgt)[0].log_softmax(-1)
    labels = (found.ids + [EOS])[:len(found.log_probs)]
    expected = log_probs[range(len(labels)), labels]
    assert_close(expected, torch.tensor(found.log_probs), rtol=0, atol=1e-5)
    assert found.score != whole.score

def loss_and_gradients(model):
    src = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, 0]])
    tgt = torch.tensor([[BOS, 4, 3], [BOS, 11, 12]])
    loss = model(src, tgt).square().mean()
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]

embed, project = Embedding.forward, MultiHeadAttention.project

def divided(self, ids): return embed(self, ids) / sqrt(self.weight.shape[1])

def longer(self, x, memory):
    q, k, v = project(self, x, memory)
    return q * sqrt(q.shape[-1]), k, v

PATCHES = {
    '√d_model': mock.patch.object(Embedding, 'forward', divided),
    '1/√d_k': mock.patch.object(MultiHeadAttention, 'project', longer)}

@pytest.mark.parametrize('part', PARTS)
def test_ablate_computes_what_other_methods_in_its_place_do(part):
    "The rows on disk were trained by a patched model; the numbers must be the same"
    model = small_model(2)
    with PATCHES[part]: patched = loss_and_gradients(model)
    assert_close(loss_and_gradients(ablate(deepcopy(model), part)), patched)
    whole = loss_and_gradients(model)
    assert whole[0] != patched[0]

def test_ablate_nothing_and_one_model_only():
    model = small_model(3)
    whole = loss_and_gradients(model)
    for part in PARTS:
        changed = ablate(deepcopy(model), part)
        assert changed.state_dict().keys() == model.state_dict().keys()
    for now in (model, ablate(model, ''), small_model(3)):
        assert_close(loss_and_gradients(now), whole, rtol=0, atol=0)
    with pytest.raises(KeyError): ablate(model, '√d_k')

def test_other_settings_are_refused(mini, tmp_path):
    out = tmp_path/'x.jsonl'
    other = mini | dict(valid=mini['valid'][:1])
    def refuses(words, rows, corpus=mini, n_steps=1):
        with pytest.raises(InputError, match=words):
            train_rows(out, rows, range(2), corpus, n_steps)
    with mock.patch.object(protocol, 'train_row', return_value=dict(ppl=1., bleu=0.)):
        train_rows(out, ['base', 'A1'], range(1), mini, 1)
        before = out.read_bytes()
        words = 'row base was run with other settings'
        refuses(words, ['A1'], n_steps=2)
        refuses(words, ['A1'], corpus=other)
        with mock.patch.dict(ROWS, A1=dict(n_heads=2)): refuses('row A1', ['base'])
        assert out.read_bytes() == before
        out.write_text(before.decode().replace('"A1"', '"A7"')) # there is no such row
        refuses('row A7', ['base'])

def run(*args): return call_script(protocol.train_variations, *args)

def test_command_refuses(tmp_path):
    out = tmp_path/'x'
    done = run('--corpus', 'mini', '--out', out, '--rows', 'base,A3')
    refuses(done, "--rows has 'A3'", 'table, left_out, depth', 'base, A1')
    assert not out.exists()

def made_up(effects, seeds=range(10), rows=TABLE, s=0.02, measure='valid_loss'):
    "Trainings whose losses are a number for the row, one for the seed, and luck"
    rng, results = np.random.default_rng(1), []
    for seed in seeds:
        of_seed = 0.03*np.sin(seed)
        for row in rows:
            loss = 2.9 + effects.get(row, 0.) + of_seed + s*rng.normal()
            results.append(dict(row=row, seed=seed, skipped=0) | {measure: loss})
    return results

def losses_of(results, row):
    return np.array([r['valid_loss'] for r in results if r['row'] == row])

def paired(results, row, base='base'):
    "Mean and standard error of the differences within each seed"
    d = losses_of(results, row) - losses_of(results, base)
    return d.mean(), d.std(ddof=1) / sqrt(len(d))

def test_whole_seeds():
    results = made_up({}, range(3), ['base', 'A1']) + made_up({}, range(5, 7), ['base'])
    assert whole_seeds(results, ['base', 'A1']) == [0, 1, 2]
    assert whole_seeds(results[:-2], ['base']) == [0, 1, 2]
    assert whole_seeds(results, ['base']) == [0, 1, 2, 5, 6]
    assert whole_seeds(results, ['base', 'E']) == []

WORSE, SURELY = Difference(.04, .01, .07), Difference(.09, .06, .12)
BETTER, SURELY_BETTER = Difference(-.04, -.07, -.01), Difference(-.09, -.12, -.06)
LARGE = Difference(.06, .01, .11) # in the mean, but not surely
LOW = Difference(-.02, -.045, .009) # not found better, and not as much as worse
EQUAL, OPEN = Difference(0., -.008, .008), Difference(.04, -.02, .1)

@pytest.mark.parametrize('d, effect, says', [
    (WORSE, .01, 'agrees'), (WORSE, .009, 'undecided'), (WORSE, -.009, 'undecided'),
    (WORSE, -.01, 'disagrees'), (LARGE, 0., 'undecided'), (LOW, .02, 'disagrees'),
    (LOW, -.02, 'undecided'), (LOW, 0., 'undecided'),
    (SURELY, 0., 'disagrees'), (SURELY, .2, 'agrees'),
    (BETTER, -.01, 'agrees'), (BETTER, 0., 'undecided'), (BETTER, .01, 'disagrees'),
    (SURELY_BETTER, 0., 'disagrees'), (EQUAL, .009, 'agrees'), (EQUAL, .01, 'disagrees'),
    (EQUAL, -.009, 'agrees'), (EQUAL, .051, 'disagrees'), (EQUAL, -.051, 'disagrees'),
    (OPEN, 0., 'undecided'), (OPEN, .2, 'undecided'), (OPEN, -.2, 'undecided')])
def test_beside_the_paper(d, effect, says):
    assert beside_paper(d, d.verdict(), effect) == says
    word = 'depends on the learning rate'
    assert beside_paper(d, word, effect) == 'undecided'

@pytest.mark.parametrize('word, d, says', [
    ('worse', WORSE, 'confirmed'), ('worse', BETTER, 'contradicted'),
    ('worse', EQUAL, 'not confirmed'), ('worse', OPEN, 'not confirmed'),
    ('better', BETTER, 'confirmed'), ('better', WORSE, 'contradicted'),
    ('better', OPEN, 'not confirmed')])
def test_a_verdict_asked_again(word, d, says):
    assert confirmation(word, d) == says

RATED = [*TABLE, *RATES]

def test_best_rates():
    effects = dict.fromkeys(RATES, .1) | {'A2': -.1, 'A8@2': -.1}
    effects |= {'base@2': -.3, 'A1@0.5': -.2}
    results = made_up(effects, range(4), RATED, s=0.)
    for r in results:
        if r['row'] == 'A16@2': r['valid_loss'] = nan if r['seed'] == 1 else 0.1
        if r['row'] == 'E' and r['seed'] == 0: r['valid_loss'] = nan
        if r['row'] == 'E@2': r['valid_loss'] -= 50*(r['seed'] == 3) # is not looked at
        if r['row'] == 'A8@2': r['valid_loss'] += .6*(r['seed'] == 0) # the mean decides
    best = best_rates(results)
    assert set(best) == set(TABLE)
    rates = {row: rate for row, (_, rate) in best.items()}
    special = dict(base=2, A1=0.5, E=0.5)
    assert rates == dict.fromkeys(TABLE, 1) | special
    mean = np.mean([2.9 + 0.03*np.sin(seed) for seed in range(3)])
    assert abs(best['base'][0] - (mean - .3)) < 1e-9
    assert abs(best['A2'][0] - (mean - .1)) < 1e-9

@pytest.mark.parametrize('word, loss, says', [
    ('worse', 3., 'worse'), ('worse', 2.7, ''), ('worse', 2.8, ''),
    ('better', 2.7, 'better'),
    ('better', 3., ''), ('equal', 3., 'equal'), ('equal', 2.7, 'equal'),
    ('no difference found', 2.7, 'no difference found')])
def test_after_rates(word, loss, says):
    best = dict(base=(2.8, 1), E=(loss, 2))
    assert after_rates(word, 'E', best) == (says or 'depends on the learning rate')

def test_heads():
    "Chosen on five seeds, judged on five others"
    results = made_up({'A1': .1, 'A16': -.1, 'A8': -.05})
    for r in results: # later, the chosen row is bad, and another would be chosen
        if r['row'] == 'A8' and r['seed'] >= 5: r['valid_loss'] += .2
        if r['row'] in ('A1', 'A16') and r['seed'] < 5: r['valid_loss'] += 9
    chosen, found = judge_heads(results)
    assert chosen == 'A8' and set(found) == {'A1', 'A16'}
    later = [r for r in results if 5 <= r['seed'] < 10]
    for row, d in found.items():
        mean, error = paired(later, row, 'A8')
        assert abs(d.mean - mean) < 1e-9
        assert abs((d.mean - d.low) / error - t_quantile(0.975, 4)) < 1e-6

def test_slopes():
    "Of each seed by least squares, and Student over the seeds"
    true = {'B4': .04, 'B8': .02, 'C-N1': .3, 'C-d32': .2, 'C-d128': -.2, 'C-ff512': -.01}
    results = made_up(true)
    slopes = {name: slope(results, ladder) for name, ladder in LADDERS.items()}
    for name, ladder in LADDERS.items():
        x = np.log2([*ladder.values()])
        of_seeds = [np.polyfit(x, losses, 1)[0] for losses in
                    zip(*(losses_of(results, row) for row in ladder))]
        wanted = stats.ttest_1samp(of_seeds, 0)
        assert_close(slopes[name][:3], (np.mean(of_seeds), *wanted.confidence_interval()))
        assert_close(slopes[name].p, float(wanted.pvalue))
    assert abs(slope(made_up(true, s=1e-6), LADDERS['d_k']).mean + .02) < 1e-5
    corrected = [s.p for s in trends(results).values()]
    assert_close(corrected, holm([s.p for s in slopes.values()]))
    at_twice = [r | dict(row=f"{r['row']}@2") for r in results]
    assert slope(results + at_twice, LADDERS['N'], 2) == slopes['N']

@pytest.mark.parametrize('slopes, says', [
    ([(-.1, .01)], 'agrees'), ([(-.1, .05)], 'agrees'), ([(-.1, .051)], 'undecided'),
    ([(.1, .01)], 'disagrees'), ([(.1, .06)], 'undecided'),
    ([(-.1, .01), (-.1, .2), (-.1, .01)], 'undecided'),
    ([(-.1, .01), (.1, .02), (-.1, .3)], 'disagrees')])
def test_direction(slopes, says):
    assert direction([Slope(mean, mean, mean, p) for mean, p in slopes]) == says

FACTORS = dict(n_encoder_layers=2, n_decoder_layers=2, n_heads=2, d_model=8, d_ff=8, d_k=4)

def test_rows_are_the_papers_in_proportion():
    "But for one head, which has no half"
    theirs = BASE | dict(d_model=512, d_ff=2048, n_heads=8, n_encoder_layers=6,
                         n_decoder_layers=6)
    of_paper = { # its Table 3
        'A2': dict(n_heads=4, d_k=128), 'A8': dict(n_heads=16, d_k=32),
        'A16': dict(n_heads=32, d_k=16), 'B4': dict(d_k=16), 'B8': dict(d_k=32),
        'C-N1': dict(n_encoder_layers=2, n_decoder_layers=2),
        'C-N2': dict(n_encoder_layers=4, n_decoder_layers=4),
        'C-N4': dict(n_encoder_layers=8, n_decoder_layers=8),
        'C-d32': dict(d_model=256), 'C-d128': dict(d_model=1024),
        'C-ff128': dict(d_ff=1024), 'C-ff512': dict(d_ff=4096),
        'D-drop0': dict(dropout=0.), 'D-drop0.2': dict(dropout=0.2),
        'D-ls0': dict(label_smoothing=0.), 'D-ls0.2': dict(label_smoothing=0.2),
        'E': dict(positions='learned'),
        'big': dict(d_model=1024, d_ff=4096, n_heads=16, dropout=0.3)}
    def full(settings):
        return dict(d_k=settings['d_model'] // settings['n_heads']) | settings
    for row, changes in of_paper.items():
        ours, paper = full(BASE | TABLE[row]), full(theirs | changes)
        ours.pop('d_v', None)
        assert ours | {k: ours[k]*x for k, x in FACTORS.items()} == paper, row
    assert TABLE['A1'] == dict(n_heads=1, d_k=64, d_v=64) and list(TABLE) == list(THEIRS)
