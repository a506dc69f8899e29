"""What the tokenizers of chapter 08 rest on: one way of writing a text, merges learned by the
library, and files that may hold anything."""

import json, re
from collections.abc import Collection, Iterable
from itertools import chain
import tokenizers
from tokenizers import (
    AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers)
from .support.core import SPECIAL_TOKENS, InputError, check_choice

_PLAIN = {'"': '[“”„‟«»]',
          "'": '[‘’‚‛‹›]',
          '-': '[‐‑‒–—―−]',
          '...': '…',
          ' ': '[\u00a0\u202f]'}

def _replace(any_of:str, plain:str): return normalizers.Replace(Regex(any_of), plain)

_REPLACE = [_replace(any_of, plain) for plain, any_of in _PLAIN.items()]

_EMOJI = '\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff'
_JOINING = ( # scripts in which a joiner, or a non-joiner, changes how a word is written
    r'\u0600-\u109f\u1780-\u18af\u1a00-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc'
    '\U00010a00-\U00011fff')
_INVISIBLE = ( # controls, soft hyphens, marks of direction and of order, fillers
    r'\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u034f\u061c\u115f\u1160'
    r'\u17b4\u17b5\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff'
    r'\uffa0\ufff0-\ufffc'
    '\U0001d173-\U0001d17a\U000e0000-\U000e001f\U000e0080-\U000e0fff')
_FLAG, _OF_FLAG = '\U0001f3f4', '\U000e0020-\U000e007f' # as that of Wales, in seven parts

_SPACES = [
    (r'[\u0009-\u000d\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a]', ' '),
    (r'[\u2028\u2029\u202f\u205f\u3000]', ' '),
    (r'\u001b\[[0-9;]*[A-Za-z]', ''), # colors of a terminal
    (f'[{_INVISIBLE}]', ''),
    (f'(?<![{_FLAG}{_OF_FLAG}])[{_OF_FLAG}]+', ''),
    (rf'(?<![{_EMOJI}])\ufe0f', ''),
    (rf'(?<![{_EMOJI}\ufe0f{_JOINING}])[\u200c\u200d]', '')]

_WIDE = [*range(0xff10, 0xff1a), *range(0xff21, 0xff3b), *range(0xff41, 0xff5b)]
_WIDE += map(ord, '＃＄％＆＊＋／＝＠')
_LETTERS = [(chr(n), chr(n - 0xfee0)) for n in _WIDE] # full width, for Chinese keyboards
_LETTERS += [('ﬀ', 'ff'), ('ﬁ', 'fi'), ('ﬂ', 'fl'), ('ﬃ', 'ffi'), ('ﬄ', 'ffl'),
             ('[ﬅﬆ]', 'st'), ('ſ', 's')] # ligatures, as in a PDF

_LATIN = '[ -~À-ɏ\u0300-\u036f]'
_MARK = '[！（），．：；？]' # right in Chinese, and a slip of the keyboard after Latin letters
_AFTER_LATIN = f'(?<={_LATIN}|{_LATIN}{_MARK}|{_LATIN}{_MARK}{_MARK})'
_MARKS = [
    (r'[“”„‟«»〝〞″＂❝❞]', '"'),
    (r"[‘’‚‛‹›ʹʻʼʽˊˋ´`′‵＇❛❜\u0374\u1fef\u1ffd]", "'"),
    (r'[\u2010-\u2013\u2212\ufe58\ufe63\uff0d]', '-'),
    (r' ?[\u2014\u2015] ?', ' - '),
    ('…', '...')]
_MARKS += [(_AFTER_LATIN + mark, plain) for mark, plain in zip('！（），．：；？', '!(),.:;?')]
_MARKS += [("''", '"'), (r"""(?<![^ (\["']),,(?=[^ ,])""", '"')] # typed in two strokes

_ENDS = [(' {2,}', ' '), ('^ | $', '')]

_PLAINER = [_replace(*pair) for pair in _SPACES + _LETTERS + _MARKS + _ENDS]

NORMALIZERS = dict(none=None,
                    nfc=normalizers.NFC(),
                    punctuation=normalizers.Sequence([normalizers.NFC(), *_REPLACE]),
                    plain=normalizers.Sequence([*_PLAINER, normalizers.NFC()]))

_HALF = re.compile('[\ud800-\udfff]') # of a surrogate pair, which is not a character
_ODD = re.compile('[^ -_a-~À-ÖØ-öø-žΑ-ΡΣ-ώЀ-џ一-鿿]') # what some rule may change
_EASY = str.maketrans({c: plain for plain, any_of in _PLAIN.items() # in any place
                       for c in any_of.strip('[]') if c not in '—―'})

def is_settled(text:str)->bool: # does no rule change it? soon said of most text
    if text.isascii():
        if not text.isprintable() or '`' in text: return False
    elif _ODD.search(text): return False
    has_two = "''" in text or ',,' in text or '  ' in text
    return not (has_two or text.startswith(' ') or text.endswith(' '))

def normalize(text:str,          # any string
              how:str='plain'    # or a weaker rule: 'none', 'nfc' or 'punctuation'
             )->str:             # what the tokenizer cuts
    """The same text for every way of writing it. `'plain'` replaces, in this order: white
    space by spaces; invisible characters by nothing, except for joiners in scripts and
    emoji that need them; full-width letters and ligatures by plain letters; quotation
    marks, apostrophes, dashes and the ellipsis by those of a keyboard, and full-width
    marks after Latin letters, too; spaces in a row by one, and those at the ends by
    nothing. Then it composes letters and accents (NFC)"""
    if is_settled(text): return text
    if how == 'plain':
        easy = text.translate(_EASY)
        if is_settled(easy): return easy # as the rule would, but soon
    rule = NORMALIZERS[how]
    text = _HALF.sub('\ufffd', text)
    return rule.normalize_str(text) if rule else text

def _state(rule:normalizers.Normalizer|None)->dict|None: # as a `tokenizer.json` has it
    return rule and json.loads(rule.__getstate__())

def _rule_named(state:dict|None)->str: # its name in `NORMALIZERS`
    for how, rule in NORMALIZERS.items():
        if _state(rule) == state: return how
    raise ValueError(f'its normalizer is {str(state)[:60]}, which is not one of ours')

def rule_of(tokenizer:tokenizers.Tokenizer)->str:
    return _rule_named(_state(tokenizer.normalizer))

def encode_all(tokenizer:tokenizers.Tokenizer, texts:list[str])->list[list[int]]:
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]

def encode_normalized(bpe, texts:list[str])->list[list[int]]:
    "As the library would, whose normalizer takes most of the time, even for plain text"
    bare = tokenizers.Tokenizer(bpe.tokenizer.model) # without normalizer and tags
    bare.pre_tokenizer = bpe.tokenizer.pre_tokenizer
    if not bpe.tags: return encode_all(bare, [normalize(x, bpe.rule) for x in texts])
    longest_first = sorted(bpe.tags, key=len, reverse=True)
    is_tag = '|'.join(map(re.escape, longest_first)) or '(?!)'
    rows = [re.split(f'({is_tag})', text) for text in texts] # text, tag, text, and so on
    plain = [normalize(part, bpe.rule) for row in rows for part in row[::2]]
    found = iter(encode_all(bare, plain))
    def ids(i, part): return [bpe.tokenizer.token_to_id(part)] if i % 2 else next(found)
    return [[*chain(*(ids(*part) for part in enumerate(row)))] for row in rows]

MAX_VOCAB = 10**6 # for which the library reserves memory; the largest in use have 260,000

def assemble(model:models.BPE, normalize:str, tags:Collection[str]=()
             )->tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = NORMALIZERS[normalize]
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL_TOKENS)
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in tags])
    return tokenizer

_LONGEST_WORD = 1000 # characters; the time to learn from a word grows with their square

_TOO_LONG = re.compile(rf'\S{{{_LONGEST_WORD + 1}}}|\s{{{_LONGEST_WORD + 1}}}')

def _has_words(text:str)->bool: # or is it something else, such as an encoded image?
    return len(text) <= _LONGEST_WORD or not _TOO_LONG.search(text)

def learn_merges(texts:Iterable[str], vocab_size:int, how:str, tags:Collection[str]
                 )->tokenizers.Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    least = len(SPECIAL_TOKENS) + len(alphabet) + len(tags)
    if not least <= vocab_size <= MAX_VOCAB:
        raise InputError(f'vocab_size is {vocab_size}; byte-pair encoding needs '
                         f'at least {least} and at most {MAX_VOCAB}')
    check_choice('normalize', how, NORMALIZERS)
    tokenizer = assemble(models.BPE(), 'none')
    trainer = trainers.BpeTrainer(vocab_size=vocab_size - len(tags),
                                  special_tokens=SPECIAL_TOKENS,
                                  initial_alphabet=alphabet,
                                  show_progress=False)
    plain = (normalize(text, how) for text in filter(_has_words, texts))
    tokenizer.train_from_iterator(plain, trainer)
    return assemble(tokenizer.model, how, tags)

def _check_vocab(vocab:dict[str,int]):
    "Raise `ValueError` if it cannot belong to a `BPETokenizer`"
    tokens = sorted(vocab, key=vocab.get)
    if [vocab[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError('its ids should be 0, 1, 2 and so on, each once')
    if tokens[:len(SPECIAL_TOKENS)] != SPECIAL_TOKENS:
        raise ValueError(f'its first tokens should be {" ".join(SPECIAL_TOKENS)}')
    alphabet = set(pre_tokenizers.ByteLevel.alphabet())
    if not vocab.keys() >= alphabet: raise ValueError('it should hold all 256 bytes')
    for token in tokens[len(SPECIAL_TOKENS):]:
        if not token or not alphabet.issuperset(token):
            raise ValueError(f'its token {token!r} should be one byte or more')

def bpe_from_json(text:str)->tokenizers.Tokenizer:
    "Raises `ValueError`, or what the library does, for what `to_json` does not write"
    content = json.loads(text)
    vocab, merges = content['model']['vocab'], content['model']['merges']
    _check_vocab(vocab)
    model = models.BPE(vocab, [(first, second) for first, second in merges])
    tags = [token['content'] for token in content['added_tokens'][len(SPECIAL_TOKENS):]]
    built = assemble(model, _rule_named(content['normalizer']), tags)
    ours = json.loads(built.to_str())
    for known, found in ((ours['model'], content['model']), (ours, content)):
        for name, value in found.items():
            if name in known and known[name] == value: continue
            raise ValueError(f'its {name} is {str(value)[:60]}, which is not one of ours')
    return built
