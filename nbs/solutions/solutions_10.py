"Solutions of the exercises of chapter 10."
import numpy as np

def by_target_length(lengths, rng):
    """Exercise 1. The targets of a batch are now as good as equal, and their sources are
    whatever comes with them.

    The longer side decides how many pairs fit into the budget, and a source far longer than
    its neighbours ends a batch early: more batches for the same pairs.
    """
    return np.lexsort((rng.random(len(lengths)), lengths[:, 1]))

def without_leaks(train, test):
    "Exercise 2. Sentences of the test, brought into one form, are looked up in a set."
    known = {src.strip().casefold() for src, _ in test}
    return [pair for pair in train if pair[0].strip().casefold() not in known]
