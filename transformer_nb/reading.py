"""Sentences apart, capitals as the model knows them, what is not language left alone."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html.entities import name2codepoint
from pathlib import Path
from unicodedata import category
from transformer_nb.text import BPETokenizer, Tokenizer

@cache
def _sets(is_ascii:bool)->dict[str,str]: # for %letters% and %capitals%, such as `A-ZÀ-Ö`
    if is_ascii: return dict(letters='A-Za-z', capitals='A-Z')
    kinds = ''.join(map(category, map(chr, range(0x40000)))) # two letters each
    def characters(wanted): # ranges for a set of a pattern
        runs = re.finditer(f'(?:{wanted})+', kinds)
        ranges = [(run.start() // 2, run.end() // 2 - 1) for run in runs]
        return ''.join(f'{chr(first)}-{chr(last)}' for first, last in ranges)
    return dict(letters=characters('Lu|Ll|Lt|Lm|Lo'), capitals=characters('Lu|Lt'))

_BASE = '\u00a9\u00ae\u2022\u2023\u2043\u2122\u2190-\u21ff\u2300-\u2bff\ue000-\uf8ff'
_BASE += '\ufffd\U0001f000-\U0001faff'
_GLUE = '\u200d\u20e3\ufe0f\U000e0020-\U000e007f' # what joins the parts of an emoji
_SYMBOLS = f'[{_BASE}][{_BASE}{_GLUE}]*'

SPACES = ( # of `str.strip`
    '\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000')

_LOW, _HIGH = 'a-zß-öø-ÿ', 'A-ZÀ-ÖØ-Þ'

def _read_table()->tuple[dict[str,str],str,dict[str,str]]:
    """Of reading.tsv, whose rows are a part of patterns (%part%), a kind of what is not
    language, or a rule (=rule), its pattern, and an example or what it is"""
    parts = dict(spaces=SPACES, symbols=_SYMBOLS, low=_LOW, high=_HIGH, latin=_LOW + _HIGH)
    patterns, rules = [], {}
    text = Path(__file__).with_name('reading.tsv').read_text(encoding='utf8')
    for kind, pattern, _ in (row.split('\t') for row in text.splitlines()):
        for name, part in parts.items(): pattern = pattern.replace(f'%{name}%', part)
        if kind[0] == '%': parts[kind.strip('%')] = pattern
        elif kind[0] == '=': rules[kind[1:]] = pattern
        else: patterns.append(pattern)
    return parts, '|'.join(patterns), rules

# What is not language: the model gets it as it was typed, no rule looks into it, and what
# a translation has not got is told. No pattern begins anew within a run
_PARTS, _NOT_LANGUAGE, _RULES = _read_table()
_HELD = '\ufdd0' # stands for one of these
_LITERAL = f'({_NOT_LANGUAGE}|{_HELD})'

_CLOSING, _OPENING = '["\'”’“»)\\]]*', '["\'“‘„«(\\[]*'
_FIRST = f'(?<![{_BASE}])(?<![{_BASE}{_GLUE}][{_GLUE}])' # of a run of symbols
_AFTER = f'(?<![.!?…])[.!?…]+{_CLOSING}(?: {_SYMBOLS})?|{_FIRST}{_SYMBOLS}' # at an end
_NEXT = f'(?:- )?{_OPENING}' # a dash, where another speaks
_LAZY = f'(?:(?<=[{_LOW}]{{2}})|(?<=[{_HIGH}]{{4}}))[.!?](?= [{_LOW}])' # no capital
_BREAK = f'((?:{_AFTER})(?= {_NEXT}[%capitals%0-9])|{_LAZY}) '
_BREAK_SMALL = f'({_AFTER}) (?={_NEXT}[%letters%0-9])' # in a text without capitals

READING = _RULES | dict( # which the page gets as they are, and the two sets once
    literal=_LITERAL,
    capital='[%capitals%]', letter='[%letters%]', break_=_BREAK, break_small=_BREAK_SMALL)

@cache
def _compiled(name:str, is_ascii:bool)->re.Pattern: # ASCII needs no long sets
    pattern = READING[name]
    for part, long in _sets(is_ascii).items(): pattern = pattern.replace(f'%{part}%', long)
    return re.compile(pattern)

_SPECIAL = re.compile(r'[`{%<>｟\]:/@_#$\\=+*·×÷≤≥≈≠\ufdd0]|[.][^ ]|[(][)]')
_NONE = re.compile('((?!))')

def _pattern(name:str, text:str)->re.Pattern:
    if name == 'literal' and not _SPECIAL.search(text): return _NONE # soon said
    return _compiled(name, text.isascii())

def _sub(name:str, new, text:str)->str: return _pattern(name, text).sub(new, text)

def _has(name:str, text:str)->bool: return bool(_pattern(name, text).search(text))

def _hold(name:str, text:str)->tuple[str,Callable]: # and what puts the literals back
    held = []
    def hold(found): # `symbols` finds others, too, which stand apart then
        if not found[1]: return f' {found[0]} '
        held.append(found[1])
        return _HELD
    text, rest = _sub(name, hold, text), iter(held)
    return text, lambda part: re.sub(_HELD, lambda _: next(rest, _HELD), part)

def _outside(change:Callable[[str],str], text:str)->str: # of what is not language
    parts = _pattern('literal', text).split(text) # text, literal, text, and so on
    return ''.join(x if i % 2 else change(x) for i, x in enumerate(parts))

_LONGEST = 40 # characters of the longest pattern that ends at a mark, and more

def _goes_on(piece:str, rest:str)->bool: # does the sentence go on after this mark?
    tail = piece.lower()
    if _has('no_ordinal', tail): return False
    if _has('short', tail) or _has('ordinal', tail): return True
    if _has('short_number', tail) and _has('digit', rest): return True
    if _has('short_small', tail) and _has('small', rest): return True
    return _has('number_end', tail) and _has('month', rest)

def split_sentences(text:str     # normalized
                   )->list[str]: # joined by spaces, they are the text
    name = 'break_' if _has('capital', text) else 'break_small'
    sentences, start, seen, has_letter = [], 0, 0, False
    whole = _sub('literal', lambda found: '_' * len(found[0]), text)
    for match in _pattern(name, whole).finditer(whole):
        end, after = match.end(1), match.end()
        has_letter = has_letter or _has('letter', text[seen:end])
        seen = end
        near = text[max(start, end - _LONGEST):end]
        # what has no letter is such as the number of an item
        if not has_letter or _goes_on(near, text[after:after + _LONGEST]): continue
        sentences.append(text[start:end])
        start, seen, has_letter = after, after, False
    return sentences + [text[start:]] if text[start:] else sentences

def _spellings(word:str, is_loud:bool)->list[str]: # of a word in small letters
    if word == 'i': return ['I'] # which is English: German has no such word
    spellings = [word, word[:1].upper() + word[1:], word.upper()]
    if is_loud and 'ss' in word: # capitals have no ß
        sharp = word.replace('ss', 'ß')
        spellings += [sharp, sharp[:1].upper() + sharp[1:]]
    return spellings

def _rareness(word:str, encode:Callable[[str],list[int]])->tuple[int,int]:
    _, *ids = encode('a ' + word) # with the space before it
    return len(ids), max(ids)

def recase(text:str,               # a sentence in small letters
           encode:Callable|None,   # of the tokenizer; None: the first letter only
           is_loud:bool=False      # was it in capitals?
          )->str:
    is_english = _has('english', text)
    def best(match):
        is_pronoun = match[0] == 'i' or match[0].startswith("i'")
        if is_english and is_pronoun: return 'I' + match[0][1:]
        return min(_spellings(match[0], is_loud), key=lambda x: _rareness(x, encode))
    if encode: text = _outside(lambda part: _sub('word', best, part), text)
    return capitalize(text)

def capitalize(text:str)->str: # at its beginning, unless that word has any within
    found = _pattern('first', text).search(text)
    if _has('begins', text) or not found or found[2] != found[2].lower(): return text
    i = len(found[1])
    return text[:i] + text[i].upper() + text[i + 1:]

_UMLAUTS = {'ae': 'ä', 'oe': 'ö', 'ue': 'ü', 'Ae': 'Ä', 'Oe': 'Ö', 'Ue': 'Ü'}

def _respellings(word:str)->list[str]: # of one that looks odd
    if _has('acronym', word): return [word]
    if word[1:] != word[1:].lower(): return [word.lower(), word.capitalize()]
    umlauts = _sub('digraph', lambda found: _UMLAUTS[found[0]], word)
    return [umlauts, word.replace('ss', 'ß'), umlauts.replace('ss', 'ß')]

def _respell(text:str,
             encode:Callable # of the tokenizer
            )->str:          # odd words in another spelling, if that is one piece
    def n_pieces(word): # within a text, or at its beginning
        return min(len(encode('a ' + word)) - 1, len(encode(word))) - word.count("'")
    def better(found):
        best = min(_respellings(found[0]), key=lambda x: _rareness(x, encode))
        is_better = n_pieces(best) == 1 < n_pieces(found[0])
        return best if is_better else found[0]
    return _sub('odd', better, text)

READING |= dict(
    symbols=f'{_PARTS["aside"]}|{_LITERAL}|{_PARTS["emphasis"]}', group=_PARTS["group"],
    token=f'{_PARTS["aside"]}|[^{SPACES}]+', begins=f'^["\'(\\[. -]*{_LITERAL}',
    symbolic=f'^(?:!?\\[|{_PARTS["aside"]}|[*_~]+'
             '|[:;=8][-o^]?[()DPpO/|*3]+|<3+|[xX]D+|\\^[_.]?\\^|[-oO][_.][-oO])$')

def _is_item(token:str, following:str)->bool: # does it number or mark what follows?
    if not _has('item', token) or _has('month', following): return False
    return not (token[-1] in '.0123456789' and following[0].islower())

def _is_symbol(token:str, encode:Callable|None)->bool:
    is_group = len(token) > 1 and token[0] in '(['
    if is_group and encode and len(encode('a ' + token[0])) == 2: return False # it is known
    return _has('symbolic', token)

def _strip_symbols(tokens:list[str], encode:Callable|None
                  )->tuple[list[str],list[str],list[str]]:
    "Tokens before, between, and after; markup of a part of the sentence is between"
    start, end = 0, len(tokens)
    while start < end and _is_symbol(tokens[start], encode): start += 1
    while end > start and _is_symbol(tokens[end - 1], encode): end -= 1
    inner = tokens[start:end]
    if len(inner) > 1 and _is_item(*inner[:2]): start += 1
    while start < end and _is_symbol(tokens[start], encode): start += 1
    if any(_has('markup', token) for token in tokens[start:end]):
        while start and _has('markup', tokens[start - 1]): start -= 1
        while end < len(tokens) and _has('markup', tokens[end]): end += 1
    return tokens[:start], tokens[start:end], tokens[end:]

@dataclass
class Sentence:
    "A sentence as the model reads it, and what the translation gets back"
    typed: str           # normalized
    read: str            # what the model reads; empty where nothing is to be translated
    before: str = ''     # symbols to put back
    after: str = ''
    left_out: str = ''   # symbols from the middle
    is_loud: bool = False   # typed in capitals
    has_mark: bool = True   # or was a mark added at its end?
    tail: str = ''          # marks at the end that the model does not read, such as `:`

    def write(self, translation:str)->str: # of `read` -> of `typed`
        if not self.read: return self.typed
        if self.is_loud: translation = _outside(str.upper, translation)
        if self.tail: translation = re.sub('[.!?]+$', '', translation) + self.tail
        elif not self.has_mark: translation = re.sub('[.](["“”]?)$', r'\1', translation)
        is_apart = self.before and self.typed.startswith(self.before + ' ')
        is_apart_after = self.after and self.typed.endswith(' ' + self.after)
        return (self.before + ' '*bool(is_apart) + translation
                + ' '*bool(is_apart_after) + self.after)

    @property
    def kept(self)->list[str]: # words in brackets that come back as they are
        around = f'{self.before} {self.after}' if self.read else self.typed
        groups = _pattern('group', around).findall(around)
        return [x for x in groups if _is_language([x]) and not _has('item', x)]

def read_sentence(text:str,               # normalized
                  encode:Callable|None=None # of the tokenizer, for `recase`
                 )->Sentence:
    if _has('whole', text): return _read_in_brackets(text, encode)
    apart, back = _hold('symbols', text)
    tokens = list(map(back, _pattern('token', apart).findall(apart)))
    before, inner, after = _strip_symbols(tokens, encode)
    left_out = [token for token in inner if _is_symbol(token, encode)]
    words = [token for token in inner if not _is_symbol(token, encode)]
    if not _is_language(words): return Sentence(text, '')
    plain = _sub('stray', '', ' '.join(words))
    read = Sentence(text, plain, ' '.join(before), ' '.join(after), ' '.join(left_out))
    found = _pattern('tail', plain).search(plain)
    if found: read.tail, plain = found[0], plain[:found.start()]
    if read.tail[:1] in tuple('!?'): # of `?!` the model reads the question mark
        run = plain[-1] + read.tail
        read.tail, plain = run, plain[:-1] + ('?' if '?' in run else '!')
    read.read = _as_sentence(read, plain, encode)
    return read

def _as_sentence(read:Sentence, # `is_loud` and `has_mark` are filled in
                 plain:str, encode:Callable|None)->str:
    bare = _sub('literal', '', plain)
    bare = bare.replace('ß', '') # which many keyboards write among capitals
    letters = [c for c in bare if c != c.lower() or c != c.upper()]
    read.is_loud = len(letters) > 1 and bare == bare.upper()
    is_small = bool(letters) and bare == bare.lower()
    is_title = _has('title', plain) and _has('english', plain.lower())
    def respelled(part):
        if read.is_loud or is_title: part = part.lower()
        part = _sub('is_short', r"\1's", _sub('negation', r"\1't", part)) # English
        return _respell(part, encode) if encode else part
    plain = _outside(respelled, plain)
    if read.is_loud or is_small or is_title: plain = recase(plain, encode, read.is_loud)
    read.has_mark = _has('mark', plain)
    return capitalize(plain if read.has_mark else _with_mark(plain))

def _read_in_brackets(text:str, encode:Callable|None)->Sentence:
    read = read_sentence(text[1:-1].strip(), encode)
    if not read.read: return Sentence(text, '')
    read.typed, read.before = text, text[0] + read.before
    read.after += text[-1]
    return read

def _with_mark(text:str)->str: # at its end, or within the quotation that ends it
    mark = '?' if _has('question', text.lower()) else '.'
    is_quotation = text.endswith('"') and text.count('"') % 2 == 0
    at = len(text) - is_quotation
    return text[:at] + mark + text[at:]

def _is_language(tokens:list[str])->bool: # or does it come back as it is?
    return _has('letter', _sub('literal', '', ' '.join(tokens)))

_MARKS = {'。': '. ', '｡': '. ', '、': ', ', '،': ', ', '؛': '; ', '؟': '? ', '।': '. '}
_ENTITIES = {name: chr(n) for name, n in name2codepoint.items()} | {'apos': "'"}

def _character(entity:re.Match)->str:
    name = entity[1]
    if name[0] != '#': return _ENTITIES.get(name, entity[0])
    code = int(name[2:], 16) if name[1] == 'x' else int(name[1:])
    is_half = 0xD800 <= code < 0xE000 # of a pair
    return entity[0] if is_half or code > 0x10FFFF else chr(code)

def tidy(text:str,
         normalize:Callable # of the tokenizer
        )->str:             # entities are characters, and spaces are where they belong
    text = _sub('entity', _character, text)
    text, back = _hold('literal', text)
    text = _sub('foreign', lambda found: _MARKS[found[0]], text)
    text = _sub('escape', ' ', _sub('needless', '', text))
    plain = _sub('stray', '', normalize(_sub('inner', 'i', text)))
    return back(_sub('dash', ' - ', _sub('gap', ' ', plain)).removeprefix(' '))

def packed_reading()->dict: # what a page reads texts by
    others = dict(longest=_LONGEST, held=_HELD, umlauts=_UMLAUTS, marks=_MARKS,
                  entities=_ENTITIES)
    return _sets(False) | others | READING

def read_text(text:str,             # a line, or a paragraph
              tokenizer:Tokenizer,
              split:bool=True,      # at the ends of sentences?
              exact:bool=False      # as typed, without any change but `normalize`
             )->list[Sentence]:     # none for an empty text
    if exact: plain = tokenizer.normalize(text)
    else: plain = tidy(text, tokenizer.normalize)
    if not plain.strip(): return []
    if exact: return [Sentence(plain, plain)]
    tags, plain = _split_tags(plain, tokenizer)
    sentences = split_sentences(plain) if split else [plain]
    encode = tokenizer.encode if isinstance(tokenizer, BPETokenizer) else None
    found = [read_sentence(sentence, encode) for sentence in sentences]
    for sentence in found: # each begins with the tags of the line
        if sentence.read: sentence.read = tags + sentence.read
    return found

def _split_tags(text:str, tokenizer:Tokenizer)->tuple[str,str]: # `>>de<< `, and the rest
    known, words = getattr(tokenizer, 'tags', ()), text.split(' ')
    n = 0
    while n < len(words) and words[n] in known: n += 1
    return ''.join(f'{tag} ' for tag in words[:n]), ' '.join(words[n:])

def _value(number:str)->str: return re.sub('[,:]', '.', number) # 3.50 and 3,50 are one
def _is_small(value:str)->bool: # of any length: Python reads at most 4,300 digits
    return '.' not in value and int(value.lstrip('0')[:9] or 0) <= 12

def _beyond(text:str, other:str)->list[str]: # numbers as they are written, each once
    numbers, others = (_pattern('number', x).findall(x) for x in (text, other))
    values = Counter(map(_value, numbers)) - Counter(map(_value, others))
    written = {_value(number): number for number in reversed(numbers)}
    return [written[value] for value in values if not _is_small(value)]

def strange(text:str, tokenizer:Tokenizer)->str: # characters or words it hardly knows
    if not isinstance(tokenizer, BPETokenizer):
        return ' '.join(dict.fromkeys(tokenizer.unknown(text)))
    plain = tokenizer.normalize(text)
    odd = dict.fromkeys(_pattern('uncommon', plain).findall(plain))
    return ' '.join(c for c in odd if c not in tokenizer.characters)

def rare_words(text:str, tokenizer:Tokenizer)->list[str]: # cut into three pieces or more
    if not isinstance(tokenizer, BPETokenizer): return []
    words, goes_on = [], False # ids of each word; was the last piece one of letters?
    for i in tokenizer.encode(text):
        piece = tokenizer.decode([i])
        is_of_letters = bool(re.match(r' ?([^\W_]|\ufffd)', piece)) # or a part of one
        if goes_on and is_of_letters and piece[0] != ' ': words[-1].append(i)
        else: words.append([i])
        goes_on = is_of_letters
    rare = (tokenizer.decode(ids).strip() for ids in words if len(ids) >= 3)
    return list(dict.fromkeys(rare))

def doubts(source:str, translation:str)->list[str]: # sentences for the reader, mostly none
    lost, new = _beyond(source, translation), _beyond(translation, source)
    notes = []
    if lost or new:
        sides = ' and '.join(filter(None, [
            lost and f'{", ".join(lost)} is missing', new and f'{", ".join(new)} is new']))
        notes.append(f'the numbers differ: {sides}')
    literals = _pattern('literal', source).findall(source)
    missing = [x for x in dict.fromkeys(literals) if x not in translation]
    if missing: notes.append(f'not copied: {", ".join(missing)}')
    if translation.count('"') % 2 > source.count('"') % 2:
        notes.append('a quotation mark is missing')
    return notes
