"""Solutions of the exercises of chapter 14b."""
from math import sqrt
from transformer_nb.judging import t_quantile

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
