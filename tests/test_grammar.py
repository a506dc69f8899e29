"""The grammar of chapter 09: forms and word order by hand, and what the corpus promises."""
import hashlib
from random import Random
import pytest
from transformer_nb.lessons.grammar import (
    NOUNS, VERBS, Clause, Complement, Phrase, _negate, draw_pair, english_clause,
    german_clause,
    english_phrase, german_phrase, mini_corpus)

noun = {n.german: n for n in NOUNS}
verb = {v.infinitive: v for v in VERBS}

def phrase(word, determiner='der', adjective='', person=2):
    return Phrase(noun[word], determiner, adjective, person)

def bare(p, case='acc'): return Complement(case, '', case, '', p) # without a preposition

def clause(subject, infinitive, *complements, tense='present', time=('', ''), negation=''):
    return Clause(subject, verb[infinitive], [*complements], tense, time, negation)

def equal(found, wanted): assert found == wanted

def test_forms_of_a_phrase():
    for (case, *words), expected in [
        # neuter: accusative as nominative
        (('acc', 'Haus', 'der', 'alt'), 'das alte Haus'),
        # weak noun, and one that is not
        (('acc', 'Bauer', 'ein', 'klug'), 'einen klugen Bauern'),
        (('acc', 'Lehrer', 'ein', 'alt'), 'einen alten Lehrer'),
        # dative plural with -n, but not after -s
        (('dat', 'Kind', 'der', '', 3), 'den Kindern'),
        (('dat', 'Park', 'der', '', 3), 'den Parks'),
        # plural after kein, and after a number
        (('nom', 'Buch', 'kein', 'neu', 3), 'keine neuen Bücher'),
        (('nom', 'Tasse', 'zwölf', 'blau', 3), 'zwölf blaue Tassen'),
    ]: equal(german_phrase(phrase(*words), case), expected)
    equal(english_phrase(phrase('Apfel', 'ein')), 'an apple')
    equal(english_phrase(phrase('Apfel', 'ein', 'frisch')), 'a fresh apple')
    equal(english_phrase(phrase('Haus', 'ein', 'alt')), 'an old house')
    equal(english_phrase(phrase('Kind', 'kein', 'klug', 3)), 'any clever children')

def test_clauses_in_both_languages():
    ich = Phrase(noun['ich'], '-', '', 0)
    boys = phrase('Junge', 'der', '', 3)
    woman = phrase('Frau')
    doctor = bare(phrase('Ärztin'))
    into_garden = Complement('', 'in', 'acc', 'into', phrase('Garten'))
    in_house = Complement('', 'in', 'dat', 'in', phrase('Haus'))
    to_school = Complement('', 'zu', 'dat', 'to', phrase('Schule'))
    for_aunt = Complement('', 'auf', 'acc', 'for', phrase('Tante', 'mein'))

    equal(german_clause(clause(woman, 'gehen', into_garden, tense='ist')),
            'die Frau ist in den Garten gegangen')
    equal(german_clause(clause(boys, 'spielen', in_house)),
            'die Jungen spielen im Haus')
    equal(german_clause(clause(ich, 'gehen', to_school), 'last'),
            'ich zur Schule gehe')
    equal(german_clause(clause(ich, 'warten', for_aunt, negation='nicht')),
            'ich warte nicht auf meine Tante')
    equal(german_clause(clause(ich, 'helfen', bare(boys, 'dat'), negation='nicht')),
            'ich helfe den Jungen nicht')
    equal(german_clause(clause(boys, 'an-rufen', doctor, tense='hat'), 'last'),
            'die Jungen die Ärztin angerufen haben')

    book = bare(phrase('Buch'))
    a_book = bare(phrase('Buch', 'ein'))
    next_to_shelf = Complement('', 'neben', 'acc', 'next to', phrase('Regal'))
    evening = ('am Abend', 'in the evening')

    equal(english_clause(clause(ich, 'gehen', into_garden)),
            'I am going into the garden')
    equal(english_clause(clause(boys, 'brauchen', a_book, tense='state'), 'ask'),
            'do the boys need a book')
    equal(english_clause(clause(woman, 'gehen', to_school, tense='habit', time=evening)),
            'the woman goes to the school in the evening')
    equal(english_clause(clause(woman, 'legen', book, next_to_shelf, tense='hat')),
            'the woman put the book next to the shelf')

    apple = bare(phrase('Apfel', 'ein', 'frisch'))
    eggs = bare(phrase('Ei', 'drei', '', 3))
    shirt = Complement('acc', '', 'acc', 'on', phrase('Hemd'))
    for c, de, en in [
        (clause(ich, 'essen', apple),
         'ich esse keinen frischen Apfel', 'I am not eating a fresh apple'),
        (clause(boys, 'kaufen', eggs, tense='hat'),
         'die Jungen haben keine Eier gekauft', 'the boys did not buy any eggs'),
        (clause(boys, 'an-ziehen', shirt, tense='kann'),
         'die Jungen können das Hemd nicht anziehen', 'the boys cannot put on the shirt'),
    ]:
        equal(german_clause(_negate(c)), de)
        equal(english_clause(_negate(c)), en)

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
        equal(to_english.setdefault(de, en), en)
        equal(to_german.setdefault(en, de), de)

def test_sentences_are_short_and_the_corpus_is_the_same_everywhere(corpus, pairs):
    assert all(3 <= len(sentence.split()) <= 16 for pair in pairs for sentence in pair)
    equal(hashlib.sha256(repr(corpus).encode()).hexdigest()[:12], '432c03c260d8')
    small = mini_corpus(n_train=100, n_valid=2, n_test=2)
    equal(small['train'], corpus['train'][:100])

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
