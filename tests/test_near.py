"""benchmarks/near.py beside the edit distance of words."""
import random
from near import is_near, words_of

def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            other = before[j - 1] + (x != y)
            row.append(min(other, before[j] + 1, row[-1] + 1))
    return row[-1]

def test_near_is_one_word_at_most():
    def draw(): return ' '.join(random.choices('abc', k=random.randint(0, 5)))
    for _ in range(300):
        known, text = [draw() for _ in range(3)], draw()
        wanted = any(distance(words_of(text), words_of(k)) <= 1 for k in known)
        assert is_near([text], known) == [wanted], (text, known)

def test_case_and_punctuation_do_not_count():
    assert is_near(['I am tired!', 'I was so tired.'], ["i'm tired", 'I am very TIRED']) \
        == [True, False]
