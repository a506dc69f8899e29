"""Chapter 18 beyond its own proofs: the rule on losses whose effects are known, beside
NumPy and SciPy."""
from math import sqrt
import numpy as np
from scipy import stats
from torch.testing import assert_close
from transformer_nb.judging import holm, t_quantile
from transformer_nb.studies.variations import (
    LADDERS, TABLE, judge_heads, slope, trends)

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
