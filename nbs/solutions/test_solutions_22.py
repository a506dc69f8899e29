"""Solutions of the exercises of chapter 22, each with the check that the chapter makes."""
from random import Random
import pytest
from running import definitions

chapter = definitions('22_parsing')
Tree, brackets, compare = chapter.Tree, chapter.brackets, chapter.compare
draw_tree, leaves, linearize = chapter.draw_tree, chapter.leaves, chapter.linearize
parse_brackets = chapter.parse_brackets

def cross(a, b): # two brackets (label, start, end)
    _, start, end = a
    _, other_start, other_end = b
    return start < other_start < end < other_end or other_start < start < other_end < end

def n_crossing(gold, output):
    """Exercise 1. Compare every bracket of the output with every one of gold.

    The example has none: its seventh bracket lies between two others. Nothing crosses the
    bracket of a flat tree, which holds all words.
    """
    wanted = brackets(gold)
    crossing = [bracket for bracket in brackets(output).elements()
                if any(cross(bracket, other) for other in wanted)]
    return len(crossing)

def next_kinds(tokens, n):
    """Exercise 2. Keep the labels that are open, and count the words.

    A bracket may open while a word is left for it. The innermost may close once it has a
    child; the root must wait for the last word. What remains possible are trees over the
    sentence that are wrong, and outputs that open brackets without end.
    """
    opened, n_words, has_child = [], 0, False
    for token in tokens:
        if token[0] == '(': opened.append(token[1:])
        elif token[0] == ')': opened.pop()
        else: n_words += 1
        has_child = token[0] != '('
    if not opened: return {'</s>'} if tokens else {'('}
    kinds = {'(', 'XX'} if n_words < n else set()
    may_end = len(opened) > 1 or n_words == n
    return kinds | {')' + opened[-1]} if has_child and may_end else kinds

# The checks

def np(*words): return Tree('NP', words)

TELESCOPE = Tree('PP', ('with', np('the', 'telescope')))
SAW = Tree('VP', ('saw', np('the', 'man'), TELESCOPE))
BY_BOY = Tree('S', (np('The', 'boy'), SAW, '.'))
MAN = Tree('NP', (np('the', 'man'), TELESCOPE))
BY_MAN = Tree('S', (np('The', 'boy'), Tree('VP', ('saw', MAN)), '.'))

def test_n_crossing():
    assert n_crossing(BY_BOY, BY_MAN) == 0
    across = Tree('S', (np('The', 'boy', 'saw'), Tree('VP', ('the', 'man', 'with')),
                        np('the', 'telescope'), '.'))
    assert n_crossing(BY_BOY, across) == 2
    assert n_crossing(BY_BOY, Tree('S', tuple(leaves(BY_BOY)))) == 0
    fork = Tree('S', (Tree('NP', ('The', np('boy', 'saw'))), Tree('VP', ('the', 'man')),
                      'with', 'the', 'telescope', '.'))
    assert n_crossing(fork, BY_BOY) == n_crossing(BY_BOY, fork) == 2

def test_no_bracket_crosses_its_own_tree():
    rng = Random(0)
    for _ in range(100):
        tree, _ = draw_tree(rng)
        assert n_crossing(tree, tree) == 0

@pytest.mark.parametrize('tokens, n, kinds', [
    ('', 2, {'('}),
    ('(S', 2, {'(', 'XX'}),
    ('(S (NP XX', 2, {'(', 'XX', ')NP'}),
    ('(S (NP XX )NP', 2, {'(', 'XX'}),
    ('(S (NP XX )NP', 1, {')S'}),
    ('(S (NP XX XX', 2, {')NP'}),
    ('(S XX XX )S', 2, {'</s>'})])
def test_next_kinds(tokens, n, kinds): assert next_kinds(tokens.split(), n) == kinds

def test_trees_are_allowed():
    rng = Random(1)
    for _ in range(100):
        tree, _ = draw_tree(rng)
        tokens = linearize(tree) + ['</s>']
        for i, token in enumerate(tokens):
            kind = '(' if token[0] == '(' else token
            assert kind in next_kinds(tokens[:i], len(leaves(tree)))

def test_what_is_allowed_is_well_formed():
    "Random choices among the kinds, fewer brackets with every token"
    rng = Random(2)
    for _ in range(200):
        words = ['word'] * rng.randint(1, 8)
        gold, tokens = Tree('S', tuple(words)), []
        while True:
            kinds = sorted(next_kinds(tokens, len(words)))
            if len(tokens) > 20 and len(kinds) > 1: kinds.remove('(')
            kind = rng.choice(kinds)
            if kind == '</s>': break
            tokens.append('(' + rng.choice(['S', 'NP']) if kind == '(' else kind)
        assert parse_brackets(tokens)
        assert compare(gold, tokens)['well_formed']
