"""Solutions of the exercises of chapter 14, each with the check that the chapter makes."""
from collections import Counter
from math import ceil
from random import Random
import pytest
from sacrebleu.metrics import BLEU
from transformer_nb.evaluation import score
from transformer_nb.lessons.grammar import mini_corpus

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

# these two are the chapter's

def ngrams(words, n):
    starts = range(len(words) - n + 1)
    return Counter(tuple(words[i:i+n]) for i in starts)

def counts(t, r):
    found = [ngrams(t, n) for n in range(1, 5)]
    wanted = [ngrams(r, n) for n in range(1, 5)]
    n_common = [(f & w).total() for f, w in zip(found, wanted)]
    n_found = [f.total() for f in found]
    return [len(t), len(r), *n_common, *n_found]

@pytest.mark.parametrize('length', [4, 5, 10, 17])
def test_broken(length):
    words, totals = list('abcdefghijklmnopq')[:length], []
    for position in range(length):
        wrong = words[:position] + ['?'] + words[position+1:]
        _, _, *numbers = counts(wrong, words)
        common, found = numbers[:4], numbers[4:]
        assert broken(length, position) == [f - c for f, c in zip(found, common)]
        totals.append(sum(broken(length, position)))
    assert totals[0] == totals[-1] == min(totals) == 4

def test_a_wrong_word_costs_least_at_the_ends():
    words = list('abcdefghij')
    def bleu(position):
        wrong = words[:position] + ['z'] + words[position+1:]
        return BLEU().corpus_score([' '.join(wrong)], [[' '.join(words)]]).score
    found = [bleu(position) for position in range(10)]
    assert min(found[0], found[9]) > max(found[1:9])
    assert found[3] == found[4] == found[5] == min(found)

def test_sentences_needed():
    assert sentences_needed(2., 300, 1.) == 1200 and sentences_needed(2., 300, 2.) == 300
    references = [english for _, english in mini_corpus(0, 300, 0, 0)['train']]
    rng = Random(0)
    def spoil(word): return 'x' if rng.random() < 0.15 else word
    spoiled = [' '.join(map(spoil, line.split())) for line in references]
    def half_width(n):
        low, high = score(spoiled[:n], references[:n], n_bootstrap=1000)['ci']
        return (high - low) / 2
    assert 200 < sentences_needed(half_width(75), 75, half_width(300)) < 450

@pytest.mark.parametrize('perplexity, n_tokens, n_units, wanted',
                         [(16, 30, 30, 16), (16, 30, 120, 2), (10, 24, 12, 100)])
def test_perplexity_per(perplexity, n_tokens, n_units, wanted):
    assert perplexity_per(perplexity, n_tokens, n_units) == pytest.approx(wanted)
