"""Chapter 22 beyond its own proofs: trees drawn by hand, outputs that are damaged on
purpose, EVALB's rules, and the sets."""
import re
from collections import Counter
from random import Random
from types import SimpleNamespace
from unittest import mock
import pytest
from hypothesis import given, settings, strategies as st
from transformer_nb.support.core import EOS, UNK
from transformer_nb.lessons.grammar import PATTERNS, draw_pair
from running import definitions

parsing = definitions('22_parsing')
(LONGEST, Tree, brackets, compare, draw_tree, encode_trees, leaves, linearize, parse,
 parse_brackets, parse_scores, treebank, treebank_tokenizer, with_leaves) = (
    getattr(parsing, name) for name in (
        'LONGEST Tree brackets compare draw_tree encode_trees leaves linearize parse '
        'parse_brackets parse_scores treebank treebank_tokenizer with_leaves').split())
SETS = 'test', 'longer', 'deeper', 'both'

@pytest.fixture(scope='module')
def bank():
    "The sentences of the stored trainings"
    return treebank(1)

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
def n_words(tree): return len(leaves(tree)) - 1

# The trees of the grammar

BY_HAND = """
(S (NP Our brother) (VP puts (PRT on) (NP my warm jacket) (PP in (NP the evening))) .)
(SBARQ (WHNP What) (SQ can (NP your father) (VP put (PRT on))) ?)
(S (NP You) (VP are (VP fetching (NP a cup) (SBAR because (S (NP my aunt) (VP needs (NP
   it)))))) .)
(S (PP On (NP Sunday)) (NP the children) (VP play (PP in (NP (NP front) (PP of (NP the
   house))))) .)
(SBARQ (WHNP Who) (SQ (VP can (VP come (PP out (PP of (NP the house)))))) ?)
(SBARQ (WHNP What) (SQ did (NP the teacher) (VP look (PP for))) ?)
(SBARQ (WHNP Who) (SQ does (NP my jacket) (VP belong (PP to))) ?)
(SBARQ (WHNP Who) (SQ (VP is (VP fetching (NP a small cup) (ADVP now)))) ?)
(SBARQ (WHADVP Where) (SQ is (NP the glass) (VP standing (NP today))) ?)
(S (NP Last week) (NP our brother) (VP came (PP without (NP the dogs))) .)
(S (ADVP Now) (NP the bottle) (VP is not (VP standing (PP on (NP our shelf)))) .)
(S (NP She) (VP asks (SBAR if (S (NP I) (VP know (SBAR that (S (NP she) (VP saw (NP your
   neighbour)))))))) .)
(S (NP You) (VP cannot (VP help (NP the doctor))) .)
(S (NP You) (VP do not (VP need (NP any small glasses))) .)
(SQ Is (NP my father) (VP talking (PP to (NP the old man)) (ADVP now)) ?)
""".strip()
BY_HAND = list(map(read, re.split(r'\n(?=\()', BY_HAND)))

def test_trees_drawn_by_hand(bank):
    drawn = {sentence(tree): tree for tree in bank['train'] + bank['test']}
    assert [drawn.get(sentence(tree)) for tree in BY_HAND] == BY_HAND

def test_sentences_are_those_of_chapter_09():
    "Drawn with the same random numbers, the leaves of the trees are the same sentences"
    ours, theirs = Random(7), Random(7)
    for _ in range(3000):
        _, english, _ = draw_pair(theirs)
        tree, _ = parsing._draw_simple(ours, ours.choice(PATTERNS))
        assert sentence(parsing._finished(tree)) == f'{english[:-1]} {english[-1]}'

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

def test_with_leaves_counts():
    tree = read('(S (NP the dog) sleeps)')
    for words in (['a'], ['a'] * 4):
        with pytest.raises(ValueError, match=f'3 leaves and {len(words)} words'):
            with_leaves(tree, words)

# EVALB

def percent(gold, *outputs): # trees, or tokens as text
    tokens = [linearize(x) if isinstance(x, Tree) else x.split() for x in outputs]
    return parse_scores(sum((compare(gold, x) for x in tokens), Counter()))

def f1(gold, output): return percent(gold, output)['f1']

COAT = read('(S (NP We) (VP put (PRT on) (NP the old coat)) .)') # 5 brackets

@pytest.mark.parametrize('text, matched, predicted', [
    ('(S (NP We) (VP put (PRT on) (NP the old coat)) .)', 5, 5),
    ('(S (NP We) (VP put (ADVP on) (NP the old coat)) .)', 5, 5),         # as good as PRT
    ('(S (NP We) (VP put (PP on) (NP the old coat)) .)', 4, 5),           # another label
    ('(S (NP We) (VP put (PRT on) (NP the old coat .)))', 5, 5),          # the mark inside
    ('(S (NP We) (VP put (PRT on) (NP the old coat)) (NP .))', 5, 5),     # only a mark
    ('(S (S (NP We) (VP put (PRT on) (NP the old coat)) .))', 5, 6),      # gold has one S
    ('(S (NP We) (VP put (PRT on) (NP the) (NP old coat)) .)', 4, 6),
    ('(S We put on the old coat .)', 1, 1),
    ('(NP We put on the old coat .)', 0, 1),
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

def test_a_bracket_twice():
    twice = read('(S (NP (NP dogs)) (VP sleep) .)')
    once = read('(S (NP dogs) (VP sleep) .)')
    assert brackets(twice)['NP', 0, 1] == 2
    assert compare(twice, linearize(once)) == Counter(
        sentences=1, gold=4, balanced=1, well_formed=1, matched=3, predicted=3,
        kept_gold=4, kept_predicted=3)
    assert compare(once, linearize(twice))['matched'] == 3

@pytest.mark.parametrize('text, balanced, predicted', [
    ('', 0, 0),
    ('(S (NP XX )NP (VP XX', 0, 3),
    ('(S (NP XX )NP (VP XX )NP XX )S', 0, 3),
    ('(S (NP XX XX )NP (VP XX )VP XX )S', 1, 3),        # one XX too many
    ('(S (NP XX )NP XX )S', 1, 2),                      # one missing
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

def test_sums_not_means():
    short, long = read('(S (NP We) (VP sleep) .)'), COAT
    total = compare(short, '(S XX XX XX )S'.split()) + compare(long, linearize(long))
    scores = parse_scores(total) # 1 of 3 found, and 5 of 5
    assert scores['recall'] == pytest.approx(100 * 6 / 8, abs=1e-3)
    assert scores['precision'] == 100
    assert scores['f1'] == pytest.approx(200 * 6 / (8 + 6), abs=1e-3)

def spans(tree):
    "Brackets another way: from the linearization, by the places of its words"
    words, stack, found, n = iter(leaves(tree)), [], [], 0
    for token in linearize(tree):
        if token == 'XX': n += next(words) not in ('.', '?')
        elif token[0] == '(': stack.append((token[1:], n))
        else:
            label, start = stack.pop()
            if label == 'PRT': label = 'ADVP'
            if n > start: found.append((label, start, n))
    return Counter(found)

@settings(deadline=None)
@given(trees)
def test_brackets_of_random_trees(tree): assert brackets(tree) == spans(tree)

@settings(deadline=None)
@given(trees, st.randoms())
def test_scores_of_random_trees(tree, rng):
    "100 for itself; precision and recall change places with the trees"
    if not brackets(tree): return # only marks
    assert f1(tree, tree) == percent(tree, tree)['exact'] == 100
    other = with_leaves(Tree('S', ('x',)*len(leaves(tree))), leaves(tree))
    there, back = percent(tree, other), percent(other, tree)
    assert there['precision'] == back['recall'] and there['f1'] == back['f1']

# The sets

def test_lengths_of_the_sets(bank):
    assert {name: len(found) for name, found in bank.items()} == dict(
        train=22_000, test=500, longer=300, deeper=300, both=300)
    words = {name: {n_words(tree) for tree in found} for name, found in bank.items()}
    assert max(words['train']) == LONGEST == 16
    assert words['longer'] == set(range(17, 25))
    assert min(words['both']) == 17 and max(words['both']) == 30
    for name in ('test', 'deeper'): assert max(words[name]) <= LONGEST

def test_depths_of_the_sets(bank):
    def depths(name): return {linearize(tree).count('(SBAR') for tree in bank[name]}
    assert depths('train') == depths('test') == {0, 1, 2}
    assert depths('longer') == {0} and depths('deeper') == {3}
    assert depths('both') == {3, 4, 5, 6, 7}
    longest = max(len(linearize(tree)) for tree in bank['train'])
    assert all(len(linearize(tree)) <= longest for tree in bank['deeper'])

def test_no_sentence_twice(bank):
    seen = Counter(sentence(tree) for found in bank.values() for tree in found)
    assert set(seen.values()) == {1}

def test_every_other_set_combines_what_training_does_not():
    "A sentence goes to the set that its facts say, whatever the seed"
    homes = {}
    def noting(rng, kind='test'):
        tree, home = draw_tree(rng, kind)
        homes[tree] = home
        return tree, home
    with mock.patch.object(parsing, 'draw_tree', noting):
        small = treebank(2, 300, 40, 20)
    assert {homes[tree] for tree in small['train']} == {'train'}
    for name in SETS: assert {homes[tree] for tree in small[name]} == {'test'}

# The parser

def test_tokenizer():
    once = read('(S (NP the dog) (VP sleeps) .)')
    trees = [once, read('(S (NP the cat) (VP (PRT up)) .)')]
    tokenizer = treebank_tokenizer(trees)
    known = tokenizer.tokens[4:]
    assert known == sorted('(S )S (NP )NP (VP )VP (PRT )PRT XX'.split()) + ['.', 'the']
    [(words, tree), _] = encode_trees(trees, tokenizer)
    assert words == [tokenizer.ids['the'], UNK, UNK, tokenizer.ids['.']]
    assert tokenizer.decode(tree).split() == linearize(once)
    assert tokenizer.decode([1, *tree, EOS, 0]).split() == linearize(once)
    assert tokenizer.vocab_size == len(tokenizer.tokens) == len(set(tokenizer.tokens))

@pytest.mark.smoke
def test_parse_searches_as_the_paper_does():
    "And returns the tokens of the best output, in the order of the sentences"
    tokenizer = treebank_tokenizer([COAT, COAT])
    calls = []
    def search(model, ids, **options):
        calls.append((ids, options))
        best = [tokenizer.ids['(S'], tokenizer.ids['XX'], UNK]
        return [[SimpleNamespace(ids=best[:n]), None] for n, _ in enumerate(ids, 1)]
    with mock.patch.object(parsing, 'search', search):
        outputs = parse('model', tokenizer, [['We', 'put'], ['coat'], ['cat']])
        parse('model', tokenizer, [['We']], beam_size=1)
    ids, options = calls[0]
    we, put, coat = map(tokenizer.ids.get, ('We', 'put', 'coat'))
    assert ids == [[we, put], [coat], [UNK]]
    assert options == dict(beam_size=21, alpha=0.3, max_extra=300)
    assert calls[1][1] == options | dict(beam_size=1)
    assert outputs == [['(S'], ['(S', 'XX'], ['(S', 'XX', '<unk>']]
