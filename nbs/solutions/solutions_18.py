"""Solutions of the exercises of chapter 18."""
from itertools import product
from math import sqrt
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
