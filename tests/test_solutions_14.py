"""Solutions of the exercises of chapter 14, each with the check that the chapter makes."""
from collections import Counter
from math import log
from random import Random
import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from transformer_nb.grammar import mini_corpus

def broken(length, position):
    """Exercise 1. A run of n words is broken if it begins at one of the n places up to `position`, as far as runs begin there.

    Runs begin at 0 to length - n. In the middle that makes n broken runs, at either end only one for each n. So a wrong word
    costs least as the first or the last word of a sentence: there it breaks four runs, and ten in the middle.
    """
    return [min(position, length - n) - max(position - n + 1, 0) + 1 for n in range(1, 5)]

def exchange_test(first, second, n_samples=1000):
    """Exercise 2. One toss for each sentence and sample; where it shows heads, the two rows change places.

    One mended sentence: exchanged or not, the difference is as large as before, so every sample counts, and p = 1. The test
    that counts only larger differences finds none and calls that significant.
    """
    def distance(a, b): return np.abs(bleu_of(a) - bleu_of(b))
    heads = np.random.default_rng(0).integers(2, size=(n_samples, len(first)))
    moved = heads @ (second - first) # what the exchanges bring to the sums of the first, and take from the second
    found = distance(first.sum(0) + moved, second.sum(0) - moved)
    return ((found >= distance(first.sum(0), second.sum(0)) - 1e-9).sum() + 1) / (n_samples + 1)

def perplexity_per(perplexity, n_tokens, n_units):
    """Exercise 3. The probability of the text, perplexity^(-n_tokens), does not depend on the unit; only the root that is taken does."""
    return perplexity**(n_tokens / n_units)

def ngrams(words, n): return Counter(tuple(words[i:i+n]) for i in range(len(words) - n + 1)) # these three as in the chapter

def counts(t, r):
    pairs = [(ngrams(t, n), ngrams(r, n)) for n in range(1, 5)]
    return [len(t), len(r)] + [(f & w).total() for f, w in pairs] + [f.total() for f, _ in pairs]

def bleu_of(sums):
    c, r, common, found = sums[..., 0], sums[..., 1], sums[..., 2:6], sums[..., 6:]
    return 100 * np.minimum(1, np.exp(1 - r/c)) * np.prod(common / found, -1)**0.25

@pytest.mark.parametrize('length', [4, 5, 10, 17])
def test_broken(length):
    words, totals = list('abcdefghijklmnopq')[:length], []
    for position in range(length):
        wrong = words[:position] + ['?'] + words[position+1:]
        _, _, *c = counts(wrong, words)
        assert broken(length, position) == [found - common for common, found in zip(c[:4], c[4:])]
        totals.append(sum(broken(length, position)))
    assert totals[0] == totals[-1] == min(totals) == 4

def test_a_wrong_word_costs_least_at_the_ends():
    words = list('abcdefghij')
    def bleu(position): return BLEU().corpus_score([' '.join(words[:position] + ['z'] + words[position+1:])], [[' '.join(words)]]).score
    found = [bleu(position) for position in range(10)]
    assert min(found[0], found[9]) > max(found[1:9]) and found[3] == found[4] == found[5] == min(found)

def test_exchange_test():
    references = [english.split() for _, english in mini_corpus()['test'][:300]]
    def spoiled(seed, share=0.15):
        rng = Random(seed)
        return [['x' if rng.random() < share else w for w in line] for line in references]
    def rows(lines): return np.array([counts(t, r) for t, r in zip(lines, references)])
    first, other = spoiled(0), spoiled(1)
    one = next(i for i, (t, r) in enumerate(zip(first, references)) if t != r)
    assert exchange_test(rows(first), rows(first[:one] + [references[one]] + first[one+1:])) == 1
    assert exchange_test(rows(first), rows([r if i % 8 == 0 else t for i, (t, r) in enumerate(zip(first, references))])) < 0.01
    assert exchange_test(rows(first), rows(other)) > 0.05
    assert exchange_test(rows(first), rows(first)) == 1

@pytest.mark.parametrize('perplexity, n_tokens, n_units, wanted', [(16, 30, 30, 16), (16, 30, 120, 2), (10, 24, 12, 100)])
def test_perplexity_per(perplexity, n_tokens, n_units, wanted):
    assert perplexity_per(perplexity, n_tokens, n_units) == pytest.approx(wanted)

def test_two_models_that_know_nothing():
    "300 tokens a guess for 37,192 tokens, or 1,200 for 11,662: as long as the text is the same, so many characters"
    assert log(perplexity_per(300, 37192, 50000)) / log(perplexity_per(1200, 11662, 50000)) == pytest.approx(37192*log(300) / (11662*log(1200)))
