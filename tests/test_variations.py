"""Chapter 18 beyond its own proofs: what a row changes, what it leaves alone, a table that
is interrupted, and the rule on losses whose effects are known."""
from itertools import islice
from math import sqrt
from unittest import mock
import numpy as np
import pytest, torch
from scipy import stats
from torch.testing import assert_close
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.corpora import load_corpus
from transformer_nb.decoding import search
from transformer_nb.judging import holm, t_quantile
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.training import batch_groups
from transformer_nb.studies import variations
from transformer_nb.studies.variations import (
    LADDERS, ROWS, TABLE, ablate, judge_heads, slope, train_row, trends)

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
