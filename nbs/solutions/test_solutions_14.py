"""Solutions of the exercises of chapter 14, each with the check that the chapter makes."""
from collections import Counter
from random import Random
import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest
from transformer_nb.grammar import mini_corpus

def broken(length, position):
    """Exercise 1. A run of n words is broken if it begins at one of the n places up to `position`, as far as runs begin there.

    Runs begin at 0 to length - n. In the middle that makes n broken runs, at either end only one for each n. So a wrong word
    costs least as the first or the last word of a sentence: there it breaks four runs, and ten in the middle.
    """
    return [min(position, length - n) - max(position - n + 1, 0) + 1 for n in range(1, 5)]

def bootstrap_p(first, second, n_samples=1000):
    """Exercise 2. Centre the signed differences, then take how far each strays.

    Without signs, the draws on the far side of zero are folded over and the mean of the rest is subtracted: what is left
    of the comparison looks to one side.
    """
    draws = np.random.default_rng(12345).choice(len(first), size=(n_samples, len(first)))
    differences = bleu_of(second[draws].sum(1)) - bleu_of(first[draws].sum(1))
    measured = abs(bleu_of(second.sum(0)) - bleu_of(first.sum(0)))
    return ((np.abs(differences - differences.mean()) >= measured - 1e-9).sum() + 1) / (n_samples + 1)

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

def test_bootstrap_p():
    references = [english for _, english in mini_corpus()['test'][:300]]
    def spoiled(seed, share=0.15):
        rng = Random(seed)
        return [' '.join('x' if rng.random() < share else w for w in line.split()) for line in references]
    def rows(lines): return np.array([counts(t.split(), r.split()) for t, r in zip(lines, references)])
    first, other = spoiled(0), spoiled(1)
    mended = [r if i % 8 == 0 else t for i, (t, r) in enumerate(zip(first, references))]
    assert bootstrap_p(rows(first), rows(first)) == 1
    assert bootstrap_p(rows(first), rows(mended)) < 0.01
    metric = BLEU(tokenize='none', force=True) # words are parted by blanks here
    one_sided = PairedTest([('first', first), ('other', other)], {'BLEU': metric}, [references], 'bs')()[1]['BLEU'][1].p_value
    assert bootstrap_p(rows(first), rows(other)) > max(0.05, 1.5*one_sided)

@pytest.mark.parametrize('perplexity, n_tokens, n_units, wanted', [(16, 30, 30, 16), (16, 30, 120, 2), (10, 24, 12, 100)])
def test_perplexity_per(perplexity, n_tokens, n_units, wanted):
    assert perplexity_per(perplexity, n_tokens, n_units) == pytest.approx(wanted)
