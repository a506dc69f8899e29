"Solutions of the exercises of chapter 08."
from itertools import accumulate

def lengths(words, n_merges):
    """Exercise 1. Every merge of a pair counted n times shortens the text by n, save where
    pairs overlap, as in `aaa`.

    So the gains fall from merge to merge, while each costs one row of the vocabulary.
    Nothing is gained by a pair that is seen once: one token less in the text, one more in
    the vocabulary, and a new text hardly ever has it. With no pair left, nothing is
    shortened.
    """
    def total(words): return sum(n * len(pieces) for pieces, n in words.items())
    return [total(words), *(total(now) for _, now in learn(words, n_merges))]

def words_needed(counts, share):
    """Exercise 2. Take the most frequent words until they make up the share. The last
    percents cost the most words."""
    needed = share * counts.total()
    sums = accumulate((n for _, n in counts.most_common()), initial=0)
    return next(k for k, covered in enumerate(sums) if covered >= needed)

def stream(tokenizer, ids):
    """Exercise 3. Decode what is held; if it ends in a character that is not whole, wait
    for the next id.

    A text may hold a � of its own. It waits with the others and is given at the end at the
    latest.
    """
    held = []
    for i in ids:
        held.append(i)
        text = tokenizer.decode(held)
        if not text.endswith('\ufffd'):
            yield text
            held = []
    if held: yield tokenizer.decode(held)
