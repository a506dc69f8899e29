"""Chapter 14b beyond its own proofs, and ranks of 17: distributions in closed form, other
implementations of the same intervals, and what is said where SciPy is missing."""
import sys
from itertools import combinations
from math import atan, inf, nan, pi, sqrt
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from torch.testing import assert_close
from running import definitions
from transformer_nb.support.core import InputError
from transformer_nb.judging import (
    Difference, compare_rows, holm, judge_rows, mean_interval, t_p_value, t_quantile,
    wider_interval)

rank_test = definitions('17_layer_types').rank_test

def made_up(rows, n=10, s=0.02, seed=1):
    "Losses that are a number for the row, one for the seed, and luck"
    rng = np.random.default_rng(seed)
    return [dict(row=row, seed=i, skipped=0,
                 valid_loss=2.9 + 0.03*np.sin(i) + s*rng.normal())
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

@pytest.mark.parametrize('n, n_rows', [(3, 1), (4, 2), (10, 19)])
def test_rows_have_students_intervals_at_5_percent_divided(n, n_rows):
    rows = [f'row {i}' for i in range(n_rows)]
    results = made_up(['base', *rows], n)
    found = compare_rows(results)
    assert list(found) == rows
    for row, d in found.items():
        paired = losses_of(results, row) - losses_of(results, 'base')
        wanted = stats.ttest_1samp(paired, 0).confidence_interval(1 - 0.05/n_rows)
        assert_close(d[:3], (paired.mean(), *wanted), rtol=1e-6, atol=1e-9)

def test_all_intervals_hold_at_once_in_95_of_100():
    "Also where two rows are seven times as restless, and share their base"
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(400):
        losses = rng.normal(size=(7, 11)) * ([1]*9 + [7]*2)
        table = [dict(row=['base', *'ABCDEFGHIJ'][row], seed=seed, valid_loss=x)
                 for (seed, row), x in np.ndenumerate(losses)]
        alarms += any(d.low > 0 or d.high < 0 for d in compare_rows(table).values())
    assert alarms < 400 * 0.08

FAILURES = [dict(skipped=1), dict(valid_loss=5.), dict(valid_loss=nan)]

@pytest.mark.parametrize('failure', FAILURES)
def test_a_row_with_a_failed_run_diverges(failure):
    before = made_up(['base', 'A1', 'E', 'D-ls0'])
    results = [dict(r) for r in before]
    next(r for r in results if r['row'] == 'D-ls0').update(failure)
    found, gone = judge_rows(results)
    assert gone == ['D-ls0'] and found['D-ls0'].verdict() == 'diverges'
    assert found['A1'] == compare_rows(before)['A1'] # it still counts among the rows
    next(r for r in results if r['row'] == 'base').update(failure)
    with pytest.raises(AssertionError, match='nothing to compare with'): judge_rows(results)

def test_sentences_are_weighed_by_their_tokens():
    "Without luck the mean, to the last digit; with luck of sentences alone, their width"
    tokens = np.array([1, 2, 3, 4])
    assert_close(wider_interval(tokens * np.ones((3, 1)), tokens, 50), (1., 1., 1.))
    rng = np.random.default_rng(0)
    nats, tokens = np.tile(rng.normal(size=400), (5, 1)), np.ones(400)
    mean, low, high = wider_interval(nats, tokens, 2000)
    assert abs((high - low) / 2 - 1.96 * nats[0].std() / 20) < 0.005

def test_a_missing_run_is_named():
    results = [r for r in made_up(['base', 'E']) if (r['row'], r['seed']) != ('base', 4)]
    with pytest.raises(InputError, match="'base' has no run with seed 4"):
        compare_rows(results)
    one = made_up(['base', 'E'], 1)
    with pytest.raises(InputError, match='two seeds'): compare_rows(one)

def test_verdicts():
    assert Difference(0., -.01, .01).verdict() == 'equal'
    wide = Difference(0., -.011, .01)
    assert wide.verdict() == 'no difference found' and wide.at_most() == .011
    assert Difference(.02, -.01, .05).at_most() == .05
    assert wide.verdict(.011) == 'equal'
    assert Difference(.01, .005, .02).verdict() == 'worse' # small, but above 0
    assert Difference(-.01, -.02, -.005).verdict(1.) == 'better'

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

def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'scipy', None)
    with pytest.raises(InputError, match=r"pip install 'transformer_nb\[studies\]'"):
        mean_interval([1, 2])
