"""The prose of the chapters: spelled as an English dictionary and `words.txt` have it
(names, German examples, terms of the field), in American English, and without the habits
of the first edition."""
import re
from pathlib import Path
import pytest
from spellchecker import SpellChecker
from book import cells

ROOT = Path(__file__).parent.parent
PLACES = ('nbs/*.ipynb', '*.md', 'nbs/*/README.md', 'nbs/models/*/README.md')
PAGES = [path for place in PLACES for path in sorted(ROOT.glob(place))]
LISTED = (ROOT/'tests/words.txt').read_text(encoding='utf8').split()
# code, formulas, addresses, tags
NOT_PROSE = re.compile(r'```.*?```|\$\$.*?\$\$|`[^`]*`|\$[^$]*\$|\]\([^)]*\)|<[^>]*>', re.S)

def words(text):
    "Without those that have a capital or a digit inside, such as `LayerNorm`"
    found = re.findall(r"\w[\w’']*\w", NOT_PROSE.sub(' ', text))
    stems = {re.sub(r"['’]s$", '', word) for word in found}
    return {word for word in stems if word[1:].islower() and word.isalpha()}

def prose(path):
    if path.suffix != '.ipynb': return path.read_text(encoding='utf8')
    return '\n\n'.join(cell.source for cell in cells(path, 'markdown'))

@pytest.fixture(scope='module')
def dictionary():
    known = SpellChecker()
    known.word_frequency.load_words(LISTED)
    return known

@pytest.mark.parametrize('path', PAGES, ids=lambda p: p.parent.name + '/' + p.stem)
def test_spelling(path, dictionary):
    unknown = dictionary.unknown(words(prose(path)))
    assert not unknown, 'a mistake, or a word for tests/words.txt'

# The habits of the first edition, and what to write instead
HABITS = {
    'shall': 'will, should, must',
    '(is|are) to be(?! found)': 'will, should, must',
    'the ones? that': 'the noun',
    '(is|are) no (model|valid|file|folder|bytes|text|number|error)': 'is not a, invalid',
    'so many': 'that many, N',
    '(nats|bits|tokens|words) an? (token|sentence|second|step|batch)(?! has)': 'per',
    'the most (tokens|sentences|bytes) (of|that)': 'maximum',
    'says the (sequence|sentence) again': 'repeats',
    '(is|are) asked': 'queries, keys',
    '(printed|asserted|checked) by the (cell|assertion)': 'the result',
    r'by hand and by library|a blank\b': 'what is shown; a space',
    r'\w*(colour|neighbour|behaviour|favour|labour)\w*': 'American spelling',
    r'(normal|token|optim|regular|initial|real|util|summar)is(e|ed|es|ing|ation)': 'with z',
    r'[\d.,]*\d%?, [\d.]*\d%? (and|or) \d+': 'a comma before the last of three numbers',
    r'\w+, \w+ and \w+,? \(?(19|20)\d\d': 'a comma before the last of three authors',
    'grey|centred|centre|licence|whilst|amongst|learnt|analys(ed|es)': 'American spelling'}

@pytest.mark.parametrize('path', PAGES, ids=lambda p: p.parent.name + '/' + p.stem)
def test_habits(path):
    text = NOT_PROSE.sub(' ', re.sub('^>.*$', '', prose(path), flags=re.M)) # not quotations
    found = [m[0] for habit in HABITS for m in re.finditer(rf'\b({habit})\b', text, re.I)]
    assert not found, 'English of the first edition'

def test_a_mistake_is_seen(dictionary):
    text = 'The $x$ `qqq` teh Trasnformer’s decoder'
    assert dictionary.unknown(words(text)) == {'teh', 'trasnformer'}

def test_no_word_is_left_over():
    "words.txt is sorted, and has no word that is no longer used"
    used = {word.lower() for path in PAGES for word in words(prose(path))}
    assert LISTED == sorted(LISTED)
    assert not set(LISTED) - used
