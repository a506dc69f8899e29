"Chapter 22 beyond its own proofs: damaged outputs, EVALB's rules, and the sets."
from collections import Counter
from random import Random
from unittest import mock
import pytest
from hypothesis import given, settings, strategies as st
from running import definitions

parsing = definitions('22_parsing')
Tree, brackets, compare, draw_tree, leaves, linearize, parse_brackets = (
    getattr(parsing, name) for name in
    'Tree brackets compare draw_tree leaves linearize parse_brackets'.split())
parse_scores, treebank = parsing.parse_scores, parsing.treebank
with_leaves = parsing.with_leaves

@pytest.fixture(scope='module')
def bank(): return treebank(2, 300, 40, 20)

def read(text):
    "A tree in the notation of treebanks, without recursion"
    stack = [('', [])]
    for part in text.replace('(', ' ( ').replace(')', ' ) ').split():
        if part == '(': stack.append(None)
        elif stack[-1] is None: stack[-1] = part, []
        elif part == ')':
            label, children = stack.pop()
            stack[-1][1].append(Tree(label, tuple(children)))
        else: stack[-1][1].append(part)
    [tree] = stack[0][1]
    return tree

def sentence(tree): return ' '.join(leaves(tree))

# There and back

labels = st.text('SNPVX-1', min_size=1, max_size=3)
trees = st.recursive(
    st.builds(lambda label: Tree(label, ('word',)), labels),
    lambda smaller: st.builds(
        lambda label, children: Tree(label, tuple(children)), labels,
        st.lists(smaller | st.sampled_from(['a', 'the', '.']), min_size=1, max_size=4)),
    max_leaves=12)

@settings(deadline=None) # the machine may be busy
@given(trees)
def test_round_trip_of_random_trees(tree):
    tokens = linearize(tree)
    words = leaves(tree)
    assert tokens.count('XX') == len(words)
    assert with_leaves(parse_brackets(tokens), words) == tree

TOKENS = ['(S', ')S', '(NP', ')NP', 'XX']

@settings(deadline=None)
@given(st.lists(st.sampled_from(TOKENS + ['dog', '(', ')', 'X']), max_size=9))
def test_what_is_read_is_what_was_written(tokens):
    "Whatever a model writes: None, or the tree whose linearization it is"
    tree = parse_brackets(tokens)
    assert tree is None or linearize(tree) == tokens

@settings(deadline=None)
@given(st.integers(0, 10**6), st.randoms())
def test_damaged_outputs(seed, rng):
    "A token less, more, or another: not a tree, or not this one"
    tree, _ = draw_tree(Random(seed))
    tokens = linearize(tree)
    i = rng.randrange(len(tokens))
    less = tokens[:i] + tokens[i + 1:]
    more = tokens[:i] + [rng.choice(TOKENS)] + tokens[i:]
    other = tokens[:i] + [rng.choice(TOKENS)] + tokens[i + 1:]
    for damaged in (less, more, other, tokens[:i]):
        if damaged == tokens: continue
        assert parse_brackets(damaged) != parse_brackets(tokens)
        counts = compare(tree, damaged)
        assert counts['exact'] == 0 and counts['gold'] == brackets(tree).total()
        if damaged.count('XX') != len(leaves(tree)):
            assert counts['well_formed'] == counts['matched'] == 0
    for token in '()': assert parse_brackets([token]) is None

# EVALB

def percent(gold, *outputs): # trees, or tokens as text
    tokens = [linearize(x) if isinstance(x, Tree) else x.split() for x in outputs]
    return parse_scores(sum((compare(gold, x) for x in tokens), Counter()))

COAT = read('(S (NP We) (VP put (PRT on) (NP the old coat)) .)') # 5 brackets

@pytest.mark.parametrize('text, matched, predicted', [
    ('(S (NP We) (VP put (PRT on) (NP the old coat)) .)', 5, 5),
    ('(S (NP We) (VP put (PP on) (NP the old coat)) .)', 4, 5),           # another label
    ('(S (S (NP We) (VP put (PRT on) (NP the old coat)) .))', 5, 6),      # gold has one S
    ('(S We put on the old coat .)', 1, 1),
    ('(S (NP We) (VP put on the old) (NP coat) .)', 2, 4),
    ('(S (NP (NP We)) (VP put (PRT on) (NP the old coat)) .)', 5, 6)])
def test_brackets_of_a_case(text, matched, predicted):
    tree = read(text)
    counts = compare(COAT, linearize(tree))
    found = counts['matched'], counts['gold'], counts['predicted']
    assert found == (matched, 5, predicted)
    scores = percent(COAT, tree)
    assert scores['precision'] == pytest.approx(100 * matched / predicted, abs=1e-3)
    assert scores['recall'] == pytest.approx(100 * matched / 5, abs=1e-3)
    assert scores['f1'] == pytest.approx(200 * matched / (5 + predicted), abs=1e-3)
    assert scores['exact'] == (100 if tree == COAT else 0)
    assert scores['well_formed'] == scores['balanced'] == 100

@pytest.mark.parametrize('text, balanced, predicted', [
    ('', 0, 0),
    ('(S (NP XX )NP (VP XX', 0, 3),
    ('(S (NP XX XX )NP (VP XX )VP XX )S', 1, 3),        # one XX too many
    ('(S (NP XX )NP (VP XX )VP XX )S )S', 0, 3)])
def test_malformed_outputs_count_as_wrong(text, balanced, predicted):
    gold = read('(S (NP Dogs) (VP sleep) .)')
    counts = compare(gold, text.split())
    wanted = Counter(sentences=1, gold=3, balanced=balanced, predicted=predicted)
    assert counts == wanted
    both = percent(gold, gold, text)
    assert both['f1'] == pytest.approx(200 * 3 / (6 + 3 + predicted), abs=1e-3)
    assert both['kept_f1'] == 100 # EVALB leaves it out
    assert both['exact'] == both['well_formed'] == 50
    assert both['balanced'] == 50 + 50*balanced

# The sets

def test_depths_of_the_sets(bank):
    def depths(name): return {linearize(tree).count('(SBAR') for tree in bank[name]}
    assert depths('train') == depths('test') == {0, 1, 2}
    assert depths('longer') == {0} and depths('deeper') == {3}
    assert depths('both') <= {3, 4, 5, 6, 7}

def test_other_sets_combine_what_train_never_does():
    homes = {}
    def noting(*args):
        tree, homes[tree] = draw_tree(*args)
        return tree, homes[tree]
    with mock.patch.object(parsing, 'draw_tree', noting): bank = treebank(1, 100, 20, 10)
    for name, trees in bank.items():
        assert {homes[tree] for tree in trees} == {'train' if name == 'train' else 'test'}

def test_no_sentence_twice(bank):
    seen = Counter(sentence(tree) for found in bank.values() for tree in found)
    assert set(seen.values()) == {1}
