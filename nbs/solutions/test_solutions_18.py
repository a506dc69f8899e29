"""Solutions of the exercises of chapter 18, each with the check that the chapter makes."""
from itertools import product
from math import sqrt
import pytest, torch

def t_quantile(p, free): # as in the chapter
    x = torch.linspace(0, 200, 2_000_001, dtype=torch.float64)
    area = torch.cumulative_trapezoid((1 + x**2/free)**(-(free + 1)/2), x)
    i = torch.searchsorted(area / area[-1], 2*p - 1)
    return x[i + 1].item()

def margin(s, n, rows): # of n seeds
    free = (rows - 1)*(n - 1)
    return t_quantile(0.95, free) * s * sqrt(2 / n)

def seeds_needed(s, d, rows=20):
    "Exercise 1. Add seeds until the margin is small enough"
    n = 2
    while margin(s, n, rows) > d: n += 1
    return n

def sign_flip_p(differences):
    """Exercise 2. Try every way to set the signs.

    With three seeds the smallest p is 1/8, when all three differences have the same sign.
    No difference, however large, could pass 5 %; five seeds could, with 1/32.
    """
    found, sums = sum(differences), []
    for signs in product((1, -1), repeat=len(differences)):
        sums.append(sum(sign*d for sign, d in zip(signs, differences)))
    n_as_large = sum(x >= found - 1e-12 for x in sums)
    return n_as_large / len(sums)

def test_seeds_needed():
    assert [seeds_needed(0.02, d) for d in (0.036, 0.025, 0.015)] == [2, 4, 10]

def test_seeds_needed_is_the_least():
    for s, d in ((0.02, 0.02), (0.01, 0.03), (0.05, 0.04)):
        n = seeds_needed(s, d)
        margins = [margin(s, k, rows=20) for k in range(2, n + 1)]
        assert margins[-1] <= d
        assert all(m > d for m in margins[:-1])

@pytest.mark.parametrize('differences, p', [
    ([0.2, 0.1, 0.3], 1/8),
    ([-0.2, -0.1, -0.3], 1),
    ([0.3, -0.1, 0.2, 0.1], 3/16),
    ([1.]*5, 1/32)])
def test_sign_flip_p(differences, p):
    assert abs(sign_flip_p(differences) - p) < 1e-12
