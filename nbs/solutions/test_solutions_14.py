"""Solutions of the exercises of chapter 14, each with the check that the chapter makes."""
from collections import Counter
from random import Random
import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest
from transformer_nb.grammar import mini_corpus

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

def bootstrap_p(first, second, n_samples=1000):
    """Exercise 2. Centre the signed differences, then take how far each strays.

    Without signs, the draws on the far side of zero are folded over and the mean of the
    rest is subtracted: what is left of the comparison looks to one side.
    """
    rng = np.random.default_rng(12345)
    draws = rng.choice(len(first), size=(n_samples, len(first)))
    differences = bleu_of(second[draws].sum(1)) - bleu_of(first[draws].sum(1))
    measured = abs(bleu_of(second.sum(0)) - bleu_of(first.sum(0)))
    strays = np.abs(differences - differences.mean())
    n_as_far = (strays >= measured - 1e-9).sum()
    return (n_as_far + 1) / (n_samples + 1)

def perplexity_per(perplexity, n_tokens, n_units):
    """Exercise 3. Only the root that is taken depends on the unit.

    The probability of the text, perplexity^(-n_tokens), does not.
    """
    return perplexity**(n_tokens / n_units)

# these three are the chapter's

def ngrams(words, n):
    starts = range(len(words) - n + 1)
    return Counter(tuple(words[i:i+n]) for i in starts)

def counts(t, r):
    found = [ngrams(t, n) for n in range(1, 5)]
    wanted = [ngrams(r, n) for n in range(1, 5)]
    n_common = [(f & w).total() for f, w in zip(found, wanted)]
    n_found = [f.total() for f in found]
    return [len(t), len(r), *n_common, *n_found]

def bleu_of(sums):
    c, r = sums[..., 0], sums[..., 1]
    precisions = sums[..., 2:6] / sums[..., 6:]
    brevity_penalty = np.minimum(1, np.exp(1 - r/c))
    return 100 * brevity_penalty * np.prod(precisions, -1)**0.25

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

def test_bootstrap_p():
    references = [english for _, english in mini_corpus()['test'][:300]]
    def spoiled(seed, share=0.15):
        rng = Random(seed)
        def spoil(word): return 'x' if rng.random() < share else word
        return [' '.join(map(spoil, line.split())) for line in references]
    def rows(lines):
        return np.array([counts(t.split(), r.split()) for t, r in zip(lines, references)])
    first, other = spoiled(0), spoiled(1)
    mended = [r if i % 8 == 0 else t for i, (t, r) in enumerate(zip(first, references))]
    assert bootstrap_p(rows(first), rows(first)) == 1
    assert bootstrap_p(rows(first), rows(mended)) < 0.01
    metric = BLEU(tokenize='none', force=True) # words are parted by blanks here
    systems = [('first', first), ('other', other)]
    _, results = PairedTest(systems, {'BLEU': metric}, [references], 'bs')()
    one_sided = results['BLEU'][1].p_value
    assert bootstrap_p(rows(first), rows(other)) > max(0.05, 1.5*one_sided)

@pytest.mark.parametrize('perplexity, n_tokens, n_units, wanted',
                         [(16, 30, 30, 16), (16, 30, 120, 2), (10, 24, 12, 100)])
def test_perplexity_per(perplexity, n_tokens, n_units, wanted):
    assert perplexity_per(perplexity, n_tokens, n_units) == pytest.approx(wanted)
