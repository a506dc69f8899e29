"""Solutions of the exercises of chapter 14."""
from math import ceil

def broken(length, position):
    """Exercise 1. A broken run of n words begins at one of the n places up to `position`.

    Runs begin at 0 to length - n. In the middle that makes n broken runs, at either end
    only one for each n. So a wrong word costs least as the first or the last word of a
    sentence: there it breaks four runs, and ten in the middle.
    """
    broken_runs = []
    for n in range(1, 5):
        first = max(position - n + 1, 0)
        last = min(position, length - n)
        broken_runs.append(last - first + 1)
    return broken_runs

def sentences_needed(half_width, n, wanted):
    """Exercise 2. The interval narrows with the square root of the number of sentences.

    Half the width takes four times as many.
    """
    return ceil(n * (half_width / wanted)**2)

def perplexity_per(perplexity, n_tokens, n_units):
    """Exercise 3. Only the root that is taken depends on the unit.

    The probability of the text, perplexity^(-n_tokens), does not.
    """
    return perplexity**(n_tokens / n_units)
