"""Chapter 14b beyond its own proofs: distributions in closed form, other implementations of
the same intervals, and what is said where SciPy is missing."""
import subprocess, sys
from itertools import combinations, product
from math import atan, inf, pi, sqrt
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from torch.testing import assert_close
from transformer_nb import judging
from transformer_nb.core import InputError
from transformer_nb.judging import (
    Difference, compare_rows, critical_value, detectable_effect, fit_rows, holm,
    mean_interval, pooled_rows, rank_test, t_p_value, t_quantile)

def made_up(rows, n=10, s=0.02, seed=1):
    "Losses that are a number for the row, one for the seed, and luck"
    rng = np.random.default_rng(seed)
    return [dict(row=row, seed=i, valid_loss=2.9 + 0.03*np.sin(i) + s*rng.normal())
            for i in range(n) for row in rows]

def losses_of(results, row):
    return np.array([r['valid_loss'] for r in results if r['row'] == row])

def test_student():
    for t in (0.3, 1., 2.5, 9.): # in closed form for one and two degrees of freedom
        assert abs(t_p_value(t, 1) - (1 - 2/pi*atan(t))) < 1e-9
        assert abs(t_p_value(-t, 2) - (1 - t/sqrt(2 + t*t))) < 1e-9
    printed = {(0.975, 4): 2.776, (0.975, 9): 2.262, (0.95, 38): 1.686, (0.8, 5): 0.920}
    for (p, free), t in printed.items(): assert abs(t_quantile(p, free) - t) < 1e-3

@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12))
@settings(deadline=None)
def test_intervals_are_those_of_scipy(values):
    if len(set(values)) == 1: return
    found = mean_interval(iter(values), 0.9)
    wanted = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert_close(found, (float(np.mean(values)), *map(float, wanted)), rtol=1e-6, atol=1e-9)

def test_complete_tables_by_the_formula():
    results = made_up(['base', 'A1', 'E'], 4)
    y = np.array([losses_of(results, row) for row in ('base', 'A1', 'E')])
    left = y - y.mean(1, keepdims=True) - y.mean(0) + y.mean()
    error = sqrt(np.square(left).sum() / 6 * 2/4)
    critical = judging._dunnett_value((np.eye(2)/2 + 1/2).tobytes(), 6)
    power = detectable_effect(critical, 6)
    for i, d in enumerate(pooled_rows(results).values(), 1):
        mean = y[i].mean() - y[0].mean()
        assert abs(d.mean - mean) < 1e-9
        assert abs((d.high - d.mean) / error - critical) < 1e-3
        assert abs(d.detectable / error - power) < 1e-3
        assert abs(d.low + d.high - 2*d.mean) < 1e-9

@pytest.mark.parametrize('n, n_rows', [(4, 2), (6, 5), (10, 10)])
def test_the_dunnett_value_is_that_of_scipys_dunnett(n, n_rows):
    "Without blocks: each row and the base have n values, and the errors are independent"
    values = np.random.default_rng(n).normal(size=(n_rows + 1, n))
    theirs = stats.dunnett(*values[1:], control=values[0], rng=0).confidence_interval()
    s = sqrt(values.var(1, ddof=1).mean())
    half = (theirs.high - theirs.low) / 2
    shape = np.eye(n_rows)/2 + 1/2
    critical = judging._dunnett_value(shape.tobytes(), (n_rows + 1)*(n - 1))
    assert_close(half / (s * sqrt(2/n)), np.full(n_rows, critical), rtol=0, atol=6e-3)

def test_one_row_is_the_paired_test():
    results = made_up(['base', 'E'], 7)
    difference = losses_of(results, 'E') - losses_of(results, 'base')
    for compare in (compare_rows, pooled_rows):
        [found] = compare(results).values()
        assert_close(found[:3], mean_interval(difference), rtol=1e-9, atol=1e-12)

def test_further_seeds_of_base_change_nothing():
    results = made_up(['base', 'A1', 'E'])
    more = [r | dict(seed=r['seed'] + 10) for r in results if r['row'] == 'base'][:3]
    for compare in (compare_rows, pooled_rows):
        before, after = compare(results), compare(results + more)
        for row in before: assert_close(before[row], after[row], rtol=1e-6, atol=1e-9)

@pytest.mark.parametrize('n', [6, 7, 10])
def test_the_critical_value_by_turning_signs_one_by_one(n):
    d = np.random.default_rng(n).normal(size=(n, 4)) * [1, 1, 5, .1]
    largest = []
    for signs in product([1, -1], repeat=n): # the first one, too
        turned = (d - d.mean(0)) * np.array(signs)[:, None]
        ts = [abs(stats.ttest_1samp(column, 0).statistic) for column in turned.T]
        largest.append(max(ts))
    found = critical_value(d)
    assert np.mean(np.array(largest) > found + 1e-9) <= 0.05
    assert np.mean(np.array(largest) > found - 1e-9) > 0.05
    assert critical_value(d * [1, 2, 30, .4]) == pytest.approx(found) # no unit matters

def test_a_restless_row_widens_no_other():
    results = made_up(['base', 'A1', 'E', 'B4'], 8)
    stumbled = [r | dict(valid_loss=r['valid_loss'] + 0.5)
                if (r['row'], r['seed']) == ('E', 5) else r for r in results]
    before, after = compare_rows(results), compare_rows(stumbled)
    width = lambda d: d.high - d.low
    assert width(after['E']) > 5*width(before['E'])
    assert width(after['A1']) < 1.5*width(before['A1'])
    pooled = pooled_rows(stumbled)
    assert width(pooled['A1']) > 3*width(pooled_rows(results)['A1']) # what it was

def test_few_seeds_are_students_divided():
    results = made_up(['base', 'A1', 'E'], 4)
    d = losses_of(results, 'E') - losses_of(results, 'base')
    found, half = compare_rows(results)['E'], t_quantile(1 - 0.025/2, 3) * d.std(ddof=1)/2
    assert_close((found.low, found.high), (d.mean() - half, d.mean() + half))

def test_many_seeds_draw_the_ways():
    d = np.random.default_rng(0).normal(size=(40, 3))
    assert 2.3 < critical_value(d) < 2.7 # of three independent normal rows: 2.39 or more

def test_a_missing_run_is_named():
    results = [r for r in made_up(['base', 'E']) if (r['row'], r['seed']) != ('base', 4)]
    with pytest.raises(InputError, match="'base' has no run with seed 4"):
        compare_rows(results)
    one = made_up(['base', 'E'], 1)
    with pytest.raises(InputError, match='two seeds'): compare_rows(one)

def test_rows_with_missing_seeds_by_least_squares():
    complete = made_up(['base', 'A1', 'E'], 5)
    results = [r for r in complete if (r['row'], r['seed']) != ('E', 3)]
    rows, means, covariance, free = fit_rows(results, 'valid_loss')
    assert rows == ['base', 'A1', 'E'] and free == 14 - 3 - 4
    base, a1 = losses_of(results, 'base'), losses_of(results, 'A1')
    assert abs(means[1] - means[0] - (a1 - base).mean()) < 1e-9 # complete: of the pairs
    assert covariance[2, 2] > covariance[1, 1]                  # less is known of E

def test_a_detectable_effect_is_found_in_80_of_100():
    for critical, free in ((2.776, 4), (2.926, 171)):
        effect = detectable_effect(critical, free)
        assert abs(stats.nct.sf(critical, free, effect) - 0.8) < 1e-9

def test_verdicts():
    assert Difference(0., -.01, .01, .1).verdict() == 'equal'
    wide = Difference(0., -.011, .01, .1)
    assert wide.verdict() == 'no difference found' and wide.at_most() == .011
    assert Difference(.02, -.01, .05, .1).at_most() == .05
    assert wide.verdict(.011) == 'equal'
    assert Difference(.01, .005, .02, .1).verdict() == 'worse' # small, but above 0
    assert Difference(-.01, -.02, -.005, .1).verdict(1.) == 'better'

@pytest.mark.parametrize('ps, corrected', [
    ([.01, .04, .03, .005], [.03, .06, .06, .02]),
    ([.5, .9, .4, .8], [1., 1., 1., 1.]),
    ([.0125, .0126, .04, .0001], [.0375, .0375, .04, .0004]),
    ([.04, .04, .04, .04], [.16, .16, .16, .16]),
    ([.02], [.02]), ([], [])])
def test_holm(ps, corrected): assert_close(holm(ps), corrected)

@pytest.mark.parametrize('a, b', [
    ([1, 2, 3], [4, 5, 6]), ([1, 5, 5, 2], [5, 3, 9]), ([3, inf, inf], [2, inf, 7, 8]),
    ([1, 1], [1, 1, 1])])
def test_ranks_by_listing_every_way_to_deal(a, b):
    values, n = [*a, *b], len(a)
    def share(chosen):
        rest = [i for i in range(len(values)) if i not in chosen]
        pairs = [(values[i], values[j]) for i in chosen for j in rest]
        return sum((x < y) + (x == y)/2 for x, y in pairs) / len(pairs)
    found = share(range(n))
    ways = [share(chosen) for chosen in combinations(range(len(values)), n)]
    p = np.mean([abs(x - 0.5) >= abs(found - 0.5) - 1e-9 for x in ways])
    assert_close(rank_test(a, b), (found, float(p)), rtol=0, atol=1e-9)
    assert_close(rank_test(b, a), (1 - found, float(p)), rtol=0, atol=1e-9)

def test_ranks_without_ties_are_those_of_mann_and_whitney():
    rng = np.random.default_rng(0)
    for _ in range(5):
        a, b = rng.normal(size=9).tolist(), rng.normal(0.8, size=8).tolist()
        theirs = stats.mannwhitneyu(a, b, method='exact')
        share, p = rank_test(a, b)
        assert_close((1 - share, p), (theirs.statistic / 72, theirs.pvalue))

def test_without_scipy_the_extra_is_named():
    program = '''
import sys
sys.modules['scipy'] = None
from transformer_nb.studies import variations, layer_types, performance # need it later
from transformer_nb.core import InputError
from transformer_nb.judging import mean_interval
try: mean_interval([1, 2])
except InputError as e: print(e)
'''
    run = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "pip install 'transformer_nb[studies]'" in run.stdout
