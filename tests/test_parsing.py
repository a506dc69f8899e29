"""Chapter 22 beyond its own proofs: the trees of thousands of sentences, outputs that are
damaged on purpose, EVALB's rules, and the stored trainings."""
import json, re
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest import mock
import pytest
from hypothesis import given, settings, strategies as st
from transformer_nb.support.core import EOS, UNK, InputError
from transformer_nb.lessons.grammar import PATTERNS, draw_pair
from transformer_nb.studies import parsing
from transformer_nb.studies.parsing import (
    LONGEST, PARSER_STEPS, Tree, brackets, compare, draw_tree, encode_trees, leaves,
    linearize, parse, parse_brackets, parse_scores, train_parser, treebank,
    treebank_tokenizer, with_leaves)
import train_parsing as protocol
from runs import read_results, run_in_processes
from train_parsing import SHARES, train_share, train_shares

RESULTS = Path(__file__).parent.parent/'nbs'/'results'/'parsing.jsonl'
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
BY_HAND = re.split(r'\n(?=\()', BY_HAND)

@pytest.mark.parametrize('text', BY_HAND)
def test_trees_drawn_by_hand(bank, text):
    tree = read(text)
    found = [t for t in bank['train'] + bank['test'] if leaves(t) == leaves(tree)]
    assert found == [tree]

def test_sentences_are_those_of_chapter_09():
    "Drawn with the same random numbers, the leaves of the trees are the same sentences"
    ours, theirs = Random(7), Random(7)
    for _ in range(3000):
        _, english, _ = draw_pair(theirs)
        tree, _ = parsing._draw_simple(ours, ours.choice(PATTERNS))
        assert sentence(parsing._finished(tree)) == f'{english[:-1]} {english[-1]}'

def test_a_wrong_tree_is_seen_where_it_is_drawn():
    short = lambda *args: (Tree('NP', ('nobody',)), Tree('VP', ('sleeps',)))
    with mock.patch.object(parsing, '_clause_trees', short), pytest.raises(AssertionError):
        for seed in range(3): parsing._draw_simple(Random(seed), parsing.draw_statement)

LABELS = {'S', 'NP', 'VP', 'PP', 'ADVP', 'PRT', 'SBAR', 'SBARQ', 'SQ', 'WHNP', 'WHADVP'}
ONE_WORD = 'PRT', 'ADVP', 'WHNP', 'WHADVP'

def constituents(tree):
    found = [tree]
    for child in tree.children:
        if isinstance(child, Tree): found += constituents(child)
    return found

@pytest.mark.parametrize('kind', SETS)
def test_form_of_the_trees(kind):
    rng, used = Random(3), set()
    for _ in range(1500 if kind == 'test' else 300):
        tree, home = draw_tree(rng, kind)
        *words, mark = leaves(tree)
        assert mark == ('.' if tree.label == 'S' else '?') and words[0][0].isupper()
        assert tree.children[-1] == mark and home in ('train', 'valid', 'test')
        assert not any(set(word) & set('.,?() ') for word in words)
        for part in constituents(tree):
            assert part.children and all(part.children)
            used.add(part.label)
            if part.label in ONE_WORD: assert len(part.children) == 1
            if part.label == 'SBAR': assert part.children[-1].label == 'S'
            if part.label == 'SBARQ': assert part.children[1].label == 'SQ'
        assert tree.label in ('S', 'SQ', 'SBARQ')
    assert used == LABELS if kind == 'test' else used <= LABELS

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

def test_round_trip_of_the_grammar(bank):
    for tree in (tree for split in bank.values() for tree in split):
        assert with_leaves(parse_brackets(linearize(tree)), leaves(tree)) == tree

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

@pytest.mark.parametrize('text', [
    '', 'XX', '(S', ')S', '(S XX', 'XX )S', '(S XX )NP', '(S )S', '(S (NP )NP XX )S',
    '(S XX )S XX', 'XX (S XX )S', '(S XX )S (S XX )S', '(S XX )S )S', '(S dog )S',
    '(S (NP XX )S )NP', '( XX )S', '(S XX )', 'XX )'])
def test_not_a_tree(text): assert parse_brackets(text.split()) is None

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

def test_question_marks_do_not_count():
    tree = read('(SQ Is (NP he) (VP sleeping) ?)')
    assert brackets(tree) == {('SQ', 0, 3): 1, ('NP', 1, 2): 1, ('VP', 2, 3): 1}

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

def test_scores_of_nothing():
    assert percent(COAT, '')['f1'] == percent(COAT, '')['kept_f1'] == 0

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

def test_brackets_of_the_grammar(bank):
    for tree in bank['test'] + bank['both']: assert brackets(tree) == spans(tree)

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

def test_each_length_of_longer_sentences_is_as_frequent(bank):
    counts = Counter(map(n_words, bank['longer'])).values() # 8 lengths, at most 38 each
    assert max(counts) == 38 and min(counts) >= 300 - 7*38

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

def test_facts_of_every_clause_decide():
    "One clause of a test combination is enough"
    told = []
    def noting(facts):
        told.append(facts)
        return 'test'
    with mock.patch.object(parsing, 'split_of_facts', noting):
        for seed in range(40):
            tree, _ = draw_tree(Random(seed), 'longer')
            left, right = (child for child in tree.children if isinstance(child, Tree))
            assert len(told[-1]) >= 2 and len(told[-1][0]) == 3

def test_another_seed_draws_others(bank):
    first, second = (treebank(seed, 200, 20, 10) for seed in (1, 2))
    assert first != second and treebank(1, 200, 20, 10) == first
    assert first['train'] == bank['train'][:200]

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

def test_every_bracket_and_word_is_known(bank):
    tokenizer = treebank_tokenizer(bank['train'])
    words = {word for name in SETS for tree in bank[name] for word in leaves(tree)}
    tokens = {token for name in SETS for tree in bank[name] for token in linearize(tree)}
    assert (words | tokens) <= set(tokenizer.tokens)

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

TINY = dict(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1)

@pytest.fixture
def quick(monkeypatch):
    "A small model, and a search that ends soon"
    monkeypatch.setattr(parsing, 'PARSER', parsing.PARSER | TINY)
    monkeypatch.setattr(parsing, 'PARSER_SEARCH', dict(beam_size=2, alpha=.3, max_extra=4))

def test_training_repeats(quick):
    trees = treebank(3, 60, 1, 1)['train']
    first, second, other = (train_parser(trees, seed, 3) for seed in (4, 4, 5))
    models = [model for model, *_ in (first, second, other)]
    weights = [[p.tolist() for p in model.parameters()] for model in models]
    assert weights[0] == weights[1] != weights[2] and first[2] == second[2]
    assert first[2]['steps'] == 3 and not first[0].training

def test_labels_are_smoothed(quick):
    trees = treebank(3, 60, 1, 1)['train']
    def noted(model, optimizer, batches, n_steps, lr_of, loss_of):
        smoothing.append(loss_of.keywords['label_smoothing'])
        return {}, [1.]
    smoothing = []
    with mock.patch.object(parsing, 'train_steps', noted): train_parser(trees, 0, 3)
    assert smoothing == [0.1] # the paper's, §5.4

def test_a_share_of_the_pairs(quick):
    "Drawn by the seed; every measure is one of the whole test set"
    small = treebank(3, 300, 6, 3)
    trained = []
    def noting(trees, seed, n_steps):
        trained.append(trees)
        return train_parser(trees, seed, 1)
    with mock.patch.object(protocol, 'train_parser', noting):
        results = [train_share('10%', seed, small, 1) for seed in (0, 0, 1)]
        everything = train_share('100%', 0, small, 1)
    assert [r['pairs'] for r in results] == [30]*3 and everything['pairs'] == 300
    assert trained[0] == trained[1] != trained[2]
    assert set(trained[0]) <= set(small['train'])
    assert set(trained[3]) == set(small['train'])
    for name in SETS:
        total = sum((Counter(c) for c in everything[name]['by_words'].values()), Counter())
        assert total['sentences'] == len(small[name])
        assert parse_scores(total).items() <= everything[name].items()
    assert everything['commit'] and everything['threads'] == 1

def test_examples_are_wrong_ones_first():
    small = treebank(3, 10, 8, 2)['test']
    outputs = [linearize(tree) for tree in small]
    outputs[2] = outputs[5] = ['XX']
    with mock.patch.object(protocol, 'parse', lambda *args: outputs):
        result = protocol.judge(None, None, small)
    assert result['exact'] == 75
    sentences = [words for words, *_ in result['examples']]
    assert sentences == [sentence(small[i]) for i in (2, 5, 0, 7)]

# The file of results

def measured(share, seed, bank, n_steps):
    scores = {name: dict(f1=1.) for name in SETS}
    return scores | dict(commit='0000000', threads=1)

SMALL = dict(processes=0, n_steps=1, sizes=(20, 2, 1))

def jobs_in(path): return [(r['row'], r['seed']) for r in read_results(path)]

def test_interrupted_and_continued(tmp_path):
    out, calls = tmp_path/'sub'/'x.jsonl', []
    def interrupted(*job):
        calls.append(job[:2])
        if len(calls) == 3: raise KeyboardInterrupt
        return measured(*job)
    with mock.patch.object(protocol, 'train_share', interrupted):
        with pytest.raises(KeyboardInterrupt): train_shares(out, range(2), **SMALL)
        assert jobs_in(out) == [('100%', 0), ('10%', 0)]
        results = train_shares(out, range(2), **SMALL)
        again = train_shares(out, range(2), **SMALL)
    wanted = [(share, seed) for seed in range(2) for share in SHARES]
    assert jobs_in(out) == wanted and results == again == read_results(out)
    assert calls == wanted[:3] + wanted[2:]
    assert [p.name for p in out.parent.iterdir()] == ['x.jsonl']

def test_other_settings_are_refused(tmp_path):
    out = tmp_path/'x.jsonl'
    def refuses(**changes):
        with pytest.raises(InputError, match='x.jsonl: row .* was run with other settings'):
            train_shares(out, range(1), **(SMALL | changes))
    with mock.patch.object(protocol, 'train_share', measured):
        train_shares(out, range(1), **SMALL)
        before = out.read_bytes()
        refuses(n_steps=2)
        refuses(sizes=(20, 2, 2))
        changes = dict(PARSER_LR=1e-3, PARSER_WARMUP=1, PARSER_BATCH=7, PARSER=TINY,
                       PARSER_SEARCH=dict(beam_size=1))
        for name, value in changes.items():
            with mock.patch.object(protocol, name, value): refuses()
        with mock.patch.object(parsing, '_finished', lambda tree: tree): refuses()
        train_shares(out, range(1), **SMALL)
    assert out.read_bytes() == before

def test_real_trainings_are_written(quick, tmp_path):
    out = tmp_path/'x.jsonl'
    results = train_shares(out, range(1), **(SMALL | dict(sizes=(100, 2, 1))))
    assert jobs_in(out) == [(share, 0) for share in SHARES]
    assert read_results(out) == json.loads(json.dumps(results)) # lengths become strings
    assert [r['pairs'] for r in results] == [100, 10, 1]
    assert {len(r['settings']) for r in results} == {16}

@pytest.mark.slow
def test_a_process_of_its_own(copies):
    job = '1%', 0, treebank(1, 100, 1, 1), 30 # steps, after which its outputs end
    [(key, result)] = run_in_processes(train_share, {('1%', 0): job}, processes=1)
    assert key == ('1%', 0) and result['pairs'] == result['threads'] == 1
    assert set(SETS) <= set(result)

@pytest.fixture(scope='module')
def stored():
    return read_results(RESULTS)

def test_stored_results_are_those_of_this_code(bank, stored, tmp_path):
    "The same settings and sentences: nothing is refused, and nothing trained again"
    copy = tmp_path/'x.jsonl'
    copy.write_bytes(RESULTS.read_bytes())
    with (mock.patch.object(protocol, 'treebank', return_value=bank) as made,
          mock.patch.object(protocol, 'train_share', side_effect=AssertionError)):
        assert train_shares(copy, processes=0) == stored
    made.assert_called_once_with(1, 22_000, 500, 300) # as `bank`, whose sizes are its own
    assert copy.read_bytes() == RESULTS.read_bytes()

def test_stored_results_add_up(stored):
    jobs = [(r['row'], r['seed']) for r in stored]
    assert sorted(jobs) == sorted((share, seed) for share in SHARES for seed in range(5))
    for r in stored:
        assert r['pairs'] == round(22_000 * SHARES[r['row']])
        assert r['steps'] == PARSER_STEPS and r['threads'] == 1
        for name, n in dict(test=500, longer=300, deeper=300, both=300).items():
            total = sum((Counter(c) for c in r[name]['by_words'].values()), Counter())
            assert total['sentences'] == n
            assert parse_scores(total).items() <= r[name].items()

def test_stored_examples(bank, stored):
    "The right trees are those of the sentences; a single one gives the score it had"
    trees = {sentence(tree): tree for name in SETS for tree in bank[name]}
    for r in stored:
        for name in SETS:
            for words, gold, output in r[name]['examples']:
                tree = trees[words]
                assert ' '.join(linearize(tree)) == gold
                assert compare(tree, output.split())['exact'] == (gold == output)

def test_result_lines_are_json(stored):
    for line in RESULTS.read_text(encoding='utf8').splitlines():
        assert {'commit', 'hardware', 'torch', 'python'} <= set(json.loads(line))
