"""Solutions of the exercises of chapter 18, each with the check that the chapter makes."""
from itertools import product
from math import sqrt
import pytest
from transformer_nb.judging import t_quantile

def detectable(s, n, rows): # of n seeds
    critical = t_quantile(1 - 0.05/2/(rows - 1), n - 1)
    return (critical + t_quantile(0.8, n - 1)) * s / sqrt(n)

def seeds_needed(s, d, rows=20):
    """Exercise 1. Add seeds until the smallest effect that is found is small enough.

    An effect of 5 % takes ten seeds, one of 3 % takes nineteen; with few seeds the critical
    value falls as well, so half the effect takes less than four times the seeds.
    """
    n = 2
    while detectable(s, n, rows) > d: n += 1
    return n

def sign_flip_p(differences):
    """Exercise 2. Try every way to set the signs.

    With five seeds the smallest p is 1/32, when all differences have the same sign. That
    is more than 2.5 %: by this test, no difference of heads could have counted.
    """
    found, sums = sum(differences), []
    for signs in product((1, -1), repeat=len(differences)):
        sums.append(sum(sign*d for sign, d in zip(signs, differences)))
    n_as_large = sum(x >= found - 1e-12 for x in sums)
    return n_as_large / len(sums)

def test_seeds_needed():
    assert [seeds_needed(0.03, d) for d in (0.08, 0.05, 0.03)] == [6, 10, 19]

def test_seeds_needed_is_the_least():
    for s, d in ((0.02, 0.05), (0.01, 0.03), (0.05, 0.09)):
        n = seeds_needed(s, d)
        found = [detectable(s, k, rows=20) for k in range(2, n + 1)]
        assert found[-1] <= d
        assert all(x > d for x in found[:-1])
    assert seeds_needed(0.02, 0.05, rows=2) < seeds_needed(0.02, 0.05)

@pytest.mark.parametrize('differences, p', [
    ([0.2, 0.1, 0.3], 1/8),
    ([-0.2, -0.1, -0.3], 1),
    ([0.3, -0.1, 0.2, 0.1], 3/16),
    ([1.]*5, 1/32)])
def test_sign_flip_p(differences, p):
    assert abs(sign_flip_p(differences) - p) < 1e-12
