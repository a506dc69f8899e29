"Solutions of the exercises of chapter 08, each with the check that the chapter makes."
from collections import Counter
from itertools import accumulate
import pytest
from transformer_nb.text import BPETokenizer

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

# What the chapter defines and does not export
def merge(pieces, pair):
    merged = []
    for piece in pieces:
        if merged and (merged[-1], piece) == pair: merged[-1] += piece
        else: merged.append(piece)
    return tuple(merged)

def learn(words, n_merges):
    letters = {letter for word in words for letter in word}
    number = {letter: i for i, letter in enumerate(sorted(letters))}
    for _ in range(n_merges):
        pairs = Counter()
        for pieces, n in words.items():
            for pair in zip(pieces, pieces[1:]): pairs[pair] += n
        pair = min(pairs, key=lambda pair: (-pairs[pair], number[pair[0]], number[pair[1]]))
        number.setdefault(''.join(pair), len(number))
        words = {merge(pieces, pair): n for pieces, n in words.items()}
        yield pair, words

DOZEN = ['haus', 'hauses', 'hausboot', 'rathaus', 'kaufhaus', 'baumhaus',
         'baum', 'baumes', 'boot', 'bootes', 'hafen', 'bootshafen']

def test_lengths():
    seen = {tuple(word): 1 for word in DOZEN}
    expected = [76, 66, 60, 54, 50, 46, 42, 39, 36, 33, 31, 29, 27, 25]
    assert lengths(seen, 13) == expected
    assert lengths({tuple('aab'): 10, tuple('ab'): 1}, 2) == [32, 21, 11]

def test_words_needed():
    counts = Counter(a=5, b=3, c=1, d=1)
    shares = (0, 0.5, 0.51, 0.8, 0.9, 1)
    assert [words_needed(counts, share) for share in shares] == [0, 1, 2, 2, 3, 4]

TEXTS = ['Die Mäuse 👩‍🔬 im Haus', '', 'a\ufffd', '\ufffd\ufffd b', '日本']

@pytest.mark.parametrize('text', TEXTS)
def test_stream(text):
    bpe = BPETokenizer.train(DOZEN, 270)
    parts = list(stream(bpe, bpe.encode(text)))
    assert ''.join(parts) == text
    if '\ufffd' not in text: assert not any('\ufffd' in part for part in parts)
