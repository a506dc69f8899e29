"""Several corpora, filtered, mixed, and tagged, become one folder that any number of runs can use."""

import json, random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice, repeat
from pathlib import Path
from unicodedata import category
import numpy as np
from transformer_nb.support.core import (
    SPECIAL_TOKENS, FieldError, InputError, as_pairs, check_choice, check_names,
    check_positive, check_range, check_types, read_json, untrusted, write_atomically)
from transformer_nb.checkpoint import write_folder
from transformer_nb.corpora import JoinedPairs, PairFiles, load_corpus, stream_lines
from transformer_nb.data import (
    EncodedPairs, check_encoded, encode_to_disk, fingerprint_text, open_encoded)
from transformer_nb.foreign import add_tags, load_any_tokenizer
from transformer_nb.pieces import normalize
from transformer_nb.text import BPETokenizer, Tokenizer

@dataclass(frozen=True)
class DataConfig:
    "What a translator learns from, and how it becomes tokens and batches"
    data: str|None = None      # folder written by tnb_prepare, in place of text
    corpus: str|None = None    # mini, multi30k, tatoeba, everyday, typed; or four files
    src: str|list[str]|None = None # training sentences, one per line (plain or .gz)
    tgt: str|list[str]|None = None # their translations
    valid_src: str|list[str]|None = None # validation sentences, one per line
    valid_tgt: str|list[str]|None = None # their translations
    tag: str|list[str]|None = None # token before each source of a corpus, such as >>de<<
    valid_tag: str|list[str]|None = None # the same for the validation sentences
    mix: float|list[float]|None = None # times that an epoch has each pair of a corpus
    src_lang: str|None = None  # language to translate from; of a corpus by default de
    tgt_lang: str|None = None  # language to translate into; of a corpus by default en
    data_dir: str|None = None  # folder with the files of a public corpus
    normalize: str = 'plain'   # forms of writing: plain, punctuation, nfc, or none
    vocab_size: int = 6000     # maximum size of the shared vocabulary
    tokenizer_pairs: int|None = None # pairs to learn the tokenizer from; a million if none
    batch_tokens: int = 4096   # maximum tokens per batch, each side
    max_ratio: float = 9.      # maximum length ratio of the two sides, in tokens
    min_letters: float = 0.    # minimum share of letters in either side, spaces left out
    drop_duplicates: bool = False # leave out pairs that stood before, in any corpus
    drop_same: bool = False    # leave out pairs with the same text on both sides
    drop_leaks: bool = False   # leave out pairs with a sentence of validation or held_out
    held_out: str|list[str]|None = None # more sentences, of either language, not to learn

    def __post_init__(self): # raises `FieldError`
        for name, value in list(vars(self).items()):
            object.__setattr__(self, name, _without_paths(value))
        for name, usual in dict(src_lang='de', tgt_lang='en').items():
            if self.corpus and not getattr(self, name):
                object.__setattr__(self, name, usual) # it is frozen
        _check_data(self)

def _without_paths(value): # which are kept as text
    if isinstance(value, list): return list(map(_without_paths, value))
    return str(value) if isinstance(value, Path) else value

def as_list(value)->list: # of what may be a list, one value, or None
    return value if isinstance(value, list) else [] if value is None else [value]

def _check_data(c:DataConfig):
    check_positive(vocab_size=c.vocab_size, batch_tokens=c.batch_tokens,
                   max_ratio=c.max_ratio, tokenizer_pairs=c.tokenizer_pairs)
    for times in as_list(c.mix):
        check_positive(mix=times)
        check_range(0, 1000, mix=times)
    check_choice('normalize', c.normalize, _RULES)
    check_range(0, 1, min_letters=c.min_letters)
    for name in ('tag', 'valid_tag'):
        for tag in as_list(getattr(c, name)): _check_tag(name, tag)
    n_corpora = len(as_list(c.src))
    for name in ('tag', 'mix'):
        if n_corpora: for_each(c, name, n_corpora)

_RULES = 'none', 'nfc', 'punctuation', 'plain' # of `normalize`

def _check_tag(name:str, tag:str|None):
    if tag is None: return
    has_space = any(c.isspace() for c in tag)
    if not tag or has_space or tag in SPECIAL_TOKENS:
        raise FieldError(name, f'is {tag!r}; it must be text without spaces, '
                         'such as >>de<<')
    is_marked = not (tag[0].isalnum() or tag[-1].isalnum()) # or a word could contain it
    if not tag.isascii() or not is_marked or normalize(tag) != tag:
        raise FieldError(name, f'is {tag!r}; it must be ASCII between marks, as no word '
                         'is, such as >>de<<')

def for_each(config:DataConfig, name:str, n:int # number of corpora
            )->list: # the values of a field, one for each corpus
    value = getattr(config, name)
    if not isinstance(value, list): return [value] * n
    if len(value) == n: return value
    raise FieldError(name, f'has {len(value)} values; there are {n} corpora')

def _share_of(bare:str)->float: # of letters and marks of any script, without spaces
    n_letters = sum(category(c)[0] in 'LM' for c in bare)
    return n_letters / len(bare) if bare else 1.

def _find_repeats(corpora:list[Iterable[tuple[str,str]]],
                  how:str='none' # the rule of `normalize`
                 )->list[np.ndarray]: # for each corpus: stood the pair before? (n,)
    hashes, sizes = [], []
    for pairs in corpora:
        plain = ((normalize(src, how), normalize(tgt, how)) for src, tgt in pairs)
        hashes.append(np.fromiter(map(hash, plain), dtype=np.int64))
        sizes.append(len(hashes[-1]))
    _, first = np.unique(np.concatenate(hashes), return_index=True)
    is_repeat = np.ones(sum(sizes), dtype=bool)
    is_repeat[first] = False
    return np.split(is_repeat, np.cumsum(sizes)[:-1])

def _plain(text:str, how:str)->int: # for comparison: as it is cut, without spaces and case
    return hash(''.join(normalize(text, how).split()).casefold())

def find_held_out(valid:Iterable[tuple[str,str]], config:DataConfig
                 )->frozenset[int]: # what no sentence of the training should be
    sentences = chain.from_iterable(valid)
    files = map(stream_lines, as_list(config.held_out))
    held_out = {_plain(text, config.normalize) for text in chain(sentences, *files)}
    return frozenset(held_out - {hash('')})

def _find_fault(src:str, tgt:str, is_repeat:bool, held_out:frozenset[int],
                c:DataConfig)->str: # in words; 'leak' if that is all, '' if none
    if is_repeat: return 'duplicate'
    bare = ''.join(src.split()), ''.join(tgt.split())
    is_leak = not held_out.isdisjoint(_plain(text, c.normalize) for text in (src, tgt))
    if c.drop_leaks and is_leak: return 'held out'
    if c.drop_same and src.strip() == tgt.strip(): return 'same on both sides'
    if c.min_letters and min(map(_share_of, bare)) < c.min_letters: return 'few letters'
    return 'leak' if is_leak else ''

class CleanPairs:
    """The pairs of a corpus that pass the filters; `dropped` counts the others by reason,
    and `leaks` those that pass with a sentence that is held out"""
    def __init__(self, pairs:Iterable[tuple[str,str]], config:DataConfig,
                 tag:str|None=None,
                 is_repeat:np.ndarray|None=None, # from `_find_repeats`
                 held_out:frozenset[int]=frozenset()): # from `find_held_out`
        self.pairs, self.config, self.tag, self.is_repeat = pairs, config, tag, is_repeat
        self.held_out = held_out
        self.faults = [] # of the pairs: text is read several times and judged once
        reasons = {'duplicate': config.drop_duplicates,
                   'held out': config.drop_leaks,
                   'same on both sides': config.drop_same,
                   'few letters': config.min_letters > 0}
        self.reasons = [reason for reason, is_checked in reasons.items() if is_checked]

    def __iter__(self)->Iterator[tuple[str,str]]:
        self.dropped, self.leaks = dict.fromkeys(self.reasons, 0), 0
        for i, (src, tgt) in enumerate(self.pairs):
            if i == len(self.faults):
                is_repeat = self.is_repeat is not None and bool(self.is_repeat[i])
                fault = _find_fault(src, tgt, is_repeat, self.held_out, self.config)
                self.faults.append(fault)
            fault = self.faults[i]
            self.leaks += fault == 'leak'
            if fault in self.dropped: self.dropped[fault] += 1
            else: yield src, tgt

    def tagged(self)->Iterable[tuple[str,str]]: # the same, behind the tag of the corpus
        if self.tag is None: return self
        return ((f'{self.tag} {src}', tgt) for src, tgt in self)

def clean_corpora(pairs:Iterable[tuple[str,str]], # a `JoinedPairs`, or one corpus
                  config:DataConfig,
                  split:str='train', # or 'valid', which has no filters
                  held_out:frozenset[int]=frozenset() # from `find_held_out`
                 )->list[CleanPairs]:
    corpora = getattr(pairs, 'corpora', [pairs])
    tags = for_each(config, 'tag' if split == 'train' else 'valid_tag', len(corpora))
    if split != 'train': config = DataConfig()
    repeats = [None] * len(corpora)
    if config.drop_duplicates: repeats = _find_repeats(corpora, config.normalize)
    return [CleanPairs(part, config, tag, repeat, held_out)
            for part, tag, repeat in zip(corpora, tags, repeats)]

def clean_splits(corpus:dict, config:DataConfig)->dict[str,list[CleanPairs]]:
    check_names(SPLITS, list(map(str, corpus)), 'in the corpus')
    corpus = {split: pairs if isinstance(pairs, (JoinedPairs, PairFiles)) # text anyway
              else as_pairs(pairs) for split, pairs in corpus.items()}
    known = find_held_out(corpus['valid'], config)
    return dict(train=clean_corpora(corpus['train'], config, 'train', known),
                valid=clean_corpora(corpus['valid'], config, 'valid'))

def _draw_sample(pairs:Iterable[tuple[str,str]], n:int)->list[tuple[str,str]]:
    rng = random.Random(0)
    pairs = iter(pairs)
    sample = list(islice(pairs, n))
    for i, pair in enumerate(pairs, n):
        place = rng.randrange(i + 1)
        if place < n: sample[place] = pair
    return sample

def _mixed(corpora:list[Iterable[tuple[str,str]]], config:DataConfig
          )->Iterator[tuple[str,str]]: # each pair as often as an epoch has it
    rng = random.Random(1)
    for corpus, times in zip(corpora, for_each(config, 'mix', len(corpora))):
        times = 1 if times is None else times
        for pair in corpus:
            copies = int(times) + (rng.random() < times % 1)
            yield from repeat(pair, copies)

_MOST_PAIRS = 1_000_000 # to learn from, unless `tokenizer_pairs` says more

def learn_tokenizer(corpora:list[Iterable[tuple[str,str]]], config:DataConfig
                   )->BPETokenizer:
    pairs = _draw_sample(_mixed(corpora, config), config.tokenizer_pairs or _MOST_PAIRS)
    texts = (text for pair in pairs for text in pair)
    return BPETokenizer.train(texts, config.vocab_size, config.normalize, _tags(config))

def _tags(c:DataConfig)->list[str]: # of all corpora
    return sorted({tag for tag in as_list(c.tag) + as_list(c.valid_tag) if tag})

SPLITS = dict(train='train', valid='validate') # what each is for

@dataclass
class PreparedData:
    "A folder that `prepare_data` wrote"
    folder: Path
    config: DataConfig       # how it was prepared
    tokenizer: Tokenizer
    splits: dict[str,dict]   # of 'train' and 'valid', what `encode_to_disk` returned

    def pairs(self, split:str)->EncodedPairs: return open_encoded(self.folder/split)

    def is_made_from(self, corpus:dict)->bool: # pairs of 'train' and 'valid'
        for split, parts in clean_splits(corpus, self.config).items():
            info = self.splits[split]
            text = (pair for part in parts for pair in part.tagged())
            if fingerprint_text(text) != info['fingerprint']: return False
        return True

    def mix(self, config:DataConfig # of the run
           )->list[list]|None: # sizes and times per epoch, as for `TokenBatches`
        sizes = [corpus['pairs'] for corpus in self.splits['train']['corpora']]
        times = for_each(config, 'mix', len(sizes))
        if set(times) <= {None, 1.}: return None # all once
        return [list(part) for part in zip(sizes, times)]

def prepare_data(folder:str|Path,  # where to write
                 config:DataConfig,
                 max_len:int=512,  # maximum tokens per side, `</s>` included
                 corpus:dict|None=None, # pairs of 'train' and 'valid'; by default read
                 tokenizer:Tokenizer|None=None, # by default one is learned
                )->PreparedData:
    "Read, filter, learn a tokenizer, encode; raises `InputError` if no pair is left"
    folder = Path(folder)
    if corpus is None: corpus = _read_corpus(config)
    corpora = clean_splits(corpus, config)
    if tokenizer is None: tokenizer = learn_tokenizer(corpora['train'], config)
    else:
        tokenizer = add_tags(tokenizer, _tags(config))
        config = replace(config, vocab_size=tokenizer.vocab_size)
    splits = {}
    def write(made): # the folder, which gets its name when all is in it
        for split, parts in corpora.items():
            splits[split] = _encode_split(made/split, parts, config, max_len, tokenizer)
        tokenizer.save(made/'tokenizer.json')
        record = dict(format=1, data=asdict(config), max_len=max_len, splits=splits)
        write_atomically(made/'prepared.json', json.dumps(record, indent=1).encode())
    write_folder(folder, write)
    return PreparedData(folder, config, tokenizer, splits)

def _read_corpus(c:DataConfig)->dict:
    return load_corpus(c.corpus, c.src_lang, c.tgt_lang, c.data_dir, src=c.src, tgt=c.tgt,
                       valid_src=c.valid_src, valid_tgt=c.valid_tgt)

def _encode_split(stem:Path, corpora:list[CleanPairs], config:DataConfig, max_len:int,
                  tokenizer:Tokenizer)->dict: # as `encode_to_disk`, with all reasons
    text = [pairs.tagged() for pairs in corpora]
    info = encode_to_disk(stem, text, tokenizer, max_len, config.max_ratio)
    total = Counter()
    for part, pairs in zip(info['corpora'], corpora):
        part['dropped'] = pairs.dropped | part['dropped']
        part['leaks'] = pairs.leaks
        total.update(part['dropped'])
    info['dropped'] = dict(total)
    info['leaks'] = sum(part['leaks'] for part in info['corpora'])
    if info['pairs']: return info
    raise InputError(f'no sentence pair is left to {SPLITS[stem.name]} on; left out: '
                     f'{format_dropped(info["dropped"])}; at most {max_len} tokens fit')

def format_dropped(dropped:dict[str,int])->str: # how many pairs, by reason
    return ', '.join(f'{n} {reason}' for reason, n in dropped.items())

def format_leaks(info:dict)->str: # of a split or of a corpus, as the end of its line
    n = info['leaks']
    if not n: return ''
    return (f'; of those kept, {n} also have a sentence of the validation or held_out '
            '(see drop_leaks)')

def format_vocabulary(n:int, wanted:int)->str: # number of tokens
    short = f' (the text yields no more; {wanted} were requested)' if n < wanted else ''
    return f'vocabulary of {n} tokens{short}'

def open_prepared(folder:str|Path # what `prepare_data` wrote
                 )->PreparedData:
    "Raises `InputError` if it is not such a folder, or not whole"
    folder = Path(folder)
    path = folder/'prepared.json'
    if not path.is_file():
        raise InputError(f'{folder} is not prepared data: it has no prepared.json; '
                         'tnb_prepare writes it')
    record = read_json(path)
    with untrusted(path):
        if record['format'] != 1:
            raise ValueError(f'its format is {record["format"]!r}, and not 1')
        check_types(DataConfig, record['data'])
        config = DataConfig(**record['data'])
        splits = {split: record['splits'][split] for split in SPLITS}
    tokenizer = load_any_tokenizer(folder/'tokenizer.json')
    for split, info in splits.items(): check_encoded(folder/split, info)
    return PreparedData(folder, config, tokenizer, splits)

_CHOSEN = ('data', 'batch_tokens', 'mix') # by each run
_TAKEN = ('vocab_size', 'normalize')      # with the tokenizer

def settle(config:DataConfig, data:PreparedData)->DataConfig: # for a run from a folder
    "Raises `FieldError` if it asks for other data than were prepared"
    default, settled = DataConfig(), asdict(data.config)
    for name, prepared in asdict(data.config).items():
        asked, usual = getattr(config, name), getattr(default, name)
        if name in _TAKEN or asked in (usual, prepared): continue
        if name not in _CHOSEN:
            raise FieldError(name, f'is {asked!r}; {data.folder} was prepared '
                             f'with {prepared!r}')
        settled[name] = asked
    settled['batch_tokens'] = config.batch_tokens
    settled['data'] = config.data
    return DataConfig(**settled)
