"What the corpus of chapter 09 promises, whose forms and word order its hash holds."
import hashlib
from random import Random
import pytest
from transformer_nb.lessons.grammar import draw_pair, mini_corpus

@pytest.fixture(scope='module')
def corpus(): return mini_corpus()

@pytest.fixture(scope='module')
def pairs(corpus): return [pair for split in corpus.values() for pair in split]

def test_a_translation_is_a_function_both_ways(pairs):
    german, english = zip(*pairs)
    assert len(pairs) == len(set(german)) == len(set(english))
    rng = Random(5)
    to_english = dict(pairs)
    to_german = {en: de for de, en in pairs}
    for _ in range(5000):
        de, en, _ = draw_pair(rng)
        assert to_english.setdefault(de, en) == en
        assert to_german.setdefault(en, de) == de

def test_sentences_are_short_and_the_corpus_is_the_same_everywhere(corpus, pairs):
    assert all(3 <= len(sentence.split()) <= 16 for pair in pairs for sentence in pair)
    assert hashlib.sha256(repr(corpus).encode()).hexdigest()[:12] == '432c03c260d8'
    small = mini_corpus(n_train=100, n_valid=2, n_test=2)
    assert small['train'] == corpus['train'][:100]

def test_held_out_means_held_out(corpus, pairs):
    german, _ = zip(*pairs)
    rng = Random(0)
    facts = {} # of each German sentence
    missing = set(german)
    while missing:
        de, _, combinations = draw_pair(rng)
        facts[de] = combinations
        missing.discard(de)

    trained = {fact for de, _ in corpus['train'] for fact in facts[de]}
    sentences = [sentence for pair in corpus['train'] for sentence in pair]
    forms = {word for sentence in sentences for word in sentence.split()}
    for de, en in corpus['valid'] + corpus['test']:
        assert not set(facts[de]) <= trained
        assert {*de.split(), *en.split()} <= forms
