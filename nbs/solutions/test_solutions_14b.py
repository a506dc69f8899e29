"""Solutions of the exercises of chapter 14b, each with the check that the chapter makes."""
from math import sqrt
import numpy as np
import pytest
from transformer_nb.judging import holm, t_quantile

def runs_needed(width):
    """Exercise 1. Half the width takes about four times the runs: the root sees to that.

    With few runs it is a little less, because Student's factor still falls: 7 and 18.
    """
    n = 2
    while t_quantile(0.975, n - 1) / sqrt(n) > width: n += 1
    return n

def bonferroni(ps):
    """Exercise 2. Holm multiplies by a number that is at most the number of all tests.

    Raising a value to the one before it keeps this true, since that one, a smaller p value
    times at most this number, is not larger than the larger p value times this number.
    """
    return [min(1., p * len(ps)) for p in ps]

def winners_luck(k, draws, rng):
    """Exercise 3. The mean of the largest of k standard normal numbers."""
    return rng.normal(size=(draws, k)).max(1).mean()

def test_runs_needed():
    assert [runs_needed(width) for width in (2.5, 1, 0.5)] == [3, 7, 18]

def test_bonferroni():
    assert bonferroni([0.01, 0.04, 0.3]) == pytest.approx([0.03, 0.12, 0.9])
    for n in range(1, 9):
        ps = np.random.default_rng(n).random(n).tolist()
        assert all(a <= b + 1e-12 for a, b in zip(holm(ps), bonferroni(ps)))

def test_winners_luck():
    luck = [winners_luck(k, 20_000, np.random.default_rng(0)) for k in (1, 2, 5)]
    assert luck == pytest.approx([0, 0.564, 1.163], abs=0.03)
