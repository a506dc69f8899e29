"Solutions of the exercises of chapter 10, each with the check that the chapter makes."
import numpy as np
from transformer_nb.support.core import PAD
from transformer_nb.data import order_by_length, make_batch, split_by_budget

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

def test_by_target_length():
    rng = np.random.default_rng(0)
    src_lengths = rng.integers(3, 21, 2000)
    tgt_lengths = (src_lengths + rng.integers(-4, 5, 2000)).clip(min=1)
    lengths = np.stack([src_lengths, tgt_lengths], axis=1)
    pairs = [([5]*s, [6]*t) for s, t in lengths.tolist()]

    def target_padding(order):
        rows = order(lengths, np.random.default_rng(0))
        sizes = lengths[rows].max(axis=1) + 1
        pieces = split_by_budget(sizes.tolist(), 512)
        made = [make_batch([pairs[rows[i]] for i in piece]) for piece in pieces]
        return sum(int((b.labels == PAD).sum()) for b in made), len(made)

    assert sorted(by_target_length(lengths, rng)) == list(range(len(pairs)))
    ours, n_ours = target_padding(order_by_length)
    theirs, n_theirs = target_padding(by_target_length)
    assert theirs < ours and n_theirs > n_ours

def test_without_leaks():
    leaky = [('Ein Hund.', 'A dog.'), ('ein hund. ', 'The dog.'), ('Eine Katze.', 'A cat.')]
    assert without_leaks(leaky, [('EIN HUND.', 'A dog.')]) == [('Eine Katze.', 'A cat.')]
    assert without_leaks(leaky, []) == leaky
