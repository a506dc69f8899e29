"""The prose of the chapters, spelled as an English dictionary and `words.txt` have it: names, German examples, terms of the field, British forms."""
import json, re
from pathlib import Path
import pytest
from spellchecker import SpellChecker

ROOT = Path(__file__).parent.parent
NOT_PROSE = re.compile(r'```.*?```|\$\$.*?\$\$|`[^`]*`|\$[^$]*\$|\]\([^)]*\)|<[^>]*>', re.S) # code, formulas, addresses, tags

def words(text):
    "Without those that have a capital or a digit inside, such as `LayerNorm`"
    found = re.findall(r"\w[\w’']*\w", NOT_PROSE.sub(' ', text))
    return {w for w in (re.sub(r"['’]s$", '', w) for w in found) if w[1:].islower() and w.isalpha()}

def prose(path):
    if path.suffix != '.ipynb': return path.read_text(encoding='utf8')
    return '\n\n'.join(''.join(c['source']) for c in json.loads(path.read_text(encoding='utf8'))['cells'] if c['cell_type'] == 'markdown')

@pytest.fixture(scope='module')
def dictionary():
    known = SpellChecker()
    known.word_frequency.load_words((ROOT/'tests/words.txt').read_text(encoding='utf8').split())
    return known

@pytest.mark.parametrize('path', [*sorted(ROOT.glob('nbs/*.ipynb')), *sorted(ROOT.glob('*.md')), *sorted(ROOT.glob('nbs/models/*/README.md'))], ids=lambda p: p.stem)
def test_spelling(path, dictionary):
    assert not dictionary.unknown(words(prose(path))), 'a mistake, or a word for tests/words.txt'

def test_a_mistake_is_seen(dictionary): assert dictionary.unknown(words('The $x$ `qqq` teh Trasnformer’s decoder')) == {'teh', 'trasnformer'}

def test_no_word_is_left_over():
    "words.txt is sorted, and has no word that is no longer used"
    listed = (ROOT/'tests/words.txt').read_text(encoding='utf8').split()
    used = {w.lower() for p in [*ROOT.glob('nbs/*.ipynb'), *ROOT.glob('*.md'), *ROOT.glob('nbs/models/*/README.md')] for w in words(prose(p))}
    assert listed == sorted(listed) and not set(listed) - used
