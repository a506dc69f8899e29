"""The prose of the chapters, spelled as an English dictionary and `words.txt` have it:
names, German examples, terms of the field, British forms."""
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

def test_a_mistake_is_seen(dictionary):
    text = 'The $x$ `qqq` teh Trasnformer’s decoder'
    assert dictionary.unknown(words(text)) == {'teh', 'trasnformer'}

def test_no_word_is_left_over():
    "words.txt is sorted, and has no word that is no longer used"
    used = {word.lower() for path in PAGES for word in words(prose(path))}
    assert LISTED == sorted(LISTED) and not set(LISTED) - used
