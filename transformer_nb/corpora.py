"""Sentence pairs from files (chapter 10a): read strictly, downloaded once, split without
leaks; Multi30k, Tatoeba, and your own."""

import gzip, hashlib, json, os, random, re, zipfile, zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPException
from importlib import resources
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO
import torch
from .support.core import (
    FieldError, InputError, check_choice, check_names, check_plain_file)

_MAX_LINE_BYTES = 2**20

_PACKED = b'\x1f\x8b', b'\xfd7zXZ', b'PK\x03\x04', b'%PDF-' # gzip, xz, office files, PDF

def _without_mark(line:bytes, where:str|Path)->bytes: # the first of a file
    if line.startswith(_PACKED): raise InputError(f'{where} is packed, or not plain text')
    if line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)): # no byte of it would be right
        raise InputError(f'{where} is UTF-16; convert the file to UTF-8')
    return line.removeprefix(BOM_UTF8)

def decode_lines(file:BinaryIO,  # lines end at `\n` or `\r\n`; a BOM is dropped
                 where:str|Path, # name for messages
                 tell:Callable|None=None, # of bytes replaced; by default an error
                )->Iterator[str]: # without line ends
    "Raises `InputError` with the line for invalid UTF-8, or one of more than a megabyte"
    n = 0
    while line := file.readline(_MAX_LINE_BYTES + 1):
        n += 1
        if len(line) > _MAX_LINE_BYTES:
            raise InputError(f'{where}:{n}: more than {_MAX_LINE_BYTES} bytes without '
                             'a line end; is it a text file?')
        if n == 1: line = _without_mark(line, where)
        try: text = line.decode('utf8')
        except UnicodeDecodeError as e:
            fault = f'{where}:{n}: byte 0x{line[e.start]:02x} is not UTF-8'
            if not tell: raise InputError(f'{fault}; convert the file to UTF-8') from None
            tell(f'{fault}; it is replaced')
            text = line.decode('utf8', 'replace')
        yield text.removesuffix('\n').removesuffix('\r')

def stream_lines(path:str|Path,  # a text file in UTF-8, or a gzip of one (.gz)
                 tell:Callable|None=None, # as for `decode_lines`
                )->Iterator[str]:
    path = Path(path)
    with (gzip.open if path.suffix == '.gz' else open)(path, 'rb') as file:
        try: yield from decode_lines(file, path, tell)
        except (gzip.BadGzipFile, zlib.error, EOFError) as e:
            raise InputError(f'{path}: not a whole gzip file ({e})') from None

def read_lines(path:str|Path)->list[str]: return list(stream_lines(path))

class PairFiles:
    """The pairs of two files, line by line, read anew at every pass; raises `InputError` at
    the end if they are empty or differ in their number of lines"""
    def __init__(self, src:str|Path,  # sentences, one per line (plain or .gz)
                 tgt:str|Path):       # their translations, line by line
        self.src = src
        self.tgt = tgt

    def __iter__(self)->Iterator[tuple[str,str]]:
        n_src = n_tgt = 0
        lines = zip_longest(stream_lines(self.src), stream_lines(self.tgt))
        for src, tgt in lines:
            if src is not None: n_src += 1
            if tgt is not None: n_tgt += 1
            if n_src == n_tgt: yield src, tgt
        if n_src != n_tgt:
            raise InputError(f'{self.src} has {n_src} lines and {self.tgt} has {n_tgt}; '
                             'they must match line by line')
        if n_src == 0: raise InputError(f'{self.src} is empty')

def read_pairs(src:str|Path, tgt:str|Path)->list[tuple[str,str]]: # as for `PairFiles`
    return list(PairFiles(src, tgt))

def _split_of_sentence(english:str
                      )->str: # 'train', 'valid' or 'test'
    "By the hash of the sentence: valid and test get one in a hundred each"
    digest = hashlib.sha256(english.encode()).digest()
    number = int.from_bytes(digest[:4], 'big') % 100
    return {0: 'valid', 1: 'test'}.get(number, 'train')

def _split_without_leaks(pairs:Iterable[tuple[str,str]] # (German, English)
                        )->dict[str,list[tuple[str,str]]]:
    "No sentence of either language is in two splits; pairs that would be are left out"
    by_split = dict(train=[], valid=[], test=[])
    for german, english in pairs:
        by_split[_split_of_sentence(english)].append((german, english))
    taken = set()
    for split in ('test', 'valid', 'train'):
        by_split[split] = [pair for pair in by_split[split] if pair[0] not in taken]
        taken.update(german for german, _ in by_split[split])
    return by_split

_MULTI30K_URL = ('https://raw.githubusercontent.com/multi30k/dataset/'
                 'a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/')
_MULTI30K_SHA256 = dict(line.split() for line in """
train.de.gz            726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6
train.en.gz            d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f
train.fr.gz            622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c
val.de.gz              f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a
val.en.gz              14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28
val.fr.gz              ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9
test_2016_flickr.de.gz 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8
test_2016_flickr.en.gz 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9
test_2016_flickr.fr.gz 6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90
""".strip().splitlines())
_TATOEBA_URL = 'https://www.manythings.org/anki/'

def data_file(name:str,    # such as 'train.de.gz'
              url:str,     # where it can be downloaded
              folder:Path, # that holds it, or will
              sha256:str|None=None, # expected checksum; by default any version will do
             )->Path:
    "A file of a public corpus, downloaded when it is not there; its checksum is verified"
    path = folder/name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try: torch.hub.download_url_to_file(url, str(path), sha256, progress=False)
        except (OSError, HTTPException, ValueError, RuntimeError) as e:
            raise InputError(f'{path} is not there and cannot be downloaded ({e}); '
                             f'get {url} elsewhere and put it there, or name its folder '
                             'by `data_dir` or TRANSFORMER_NB_DATA') from None
    check_plain_file(path) # a pipe or a device could be read forever
    if sha256 and hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise InputError(f'{path}: its SHA-256 is not {sha256[:12]}…; remove it, it is '
                         'damaged or another version')
    return path

def corpus_folder(corpus:str,             # name of its own folder, such as 'multi30k'
                  file:str,               # one of its files
                  data_dir:str|Path|None, # folder with that file, or with a folder `corpus`
                 )->Path:
    "By default in the folder TRANSFORMER_NB_DATA, else in ~/.cache/transformer_nb"
    cache = Path(os.path.expanduser('~'))/'.cache'/'transformer_nb'
    folder = Path(data_dir or os.environ.get('TRANSFORMER_NB_DATA') or cache)
    return folder if (folder/file).exists() else folder/corpus

def multi30k(src_lang:str, tgt_lang:str,  # 'de', 'en' or 'fr'
             data_dir:str|Path|None=None, # its folder, or the one above `multi30k/`
            )->dict[str,list[tuple[str,str]]]:
    "Multi30k, task 1, in its own splits"
    folder = corpus_folder('multi30k', 'train.en.gz', data_dir)
    corpus = {}
    for split, file in dict(train='train', valid='val', test='test_2016_flickr').items():
        names = [f'{file}.{lang}.gz' for lang in (src_lang, tgt_lang)]
        src, tgt = [data_file(name, _MULTI30K_URL + name, folder, _MULTI30K_SHA256[name])
                    for name in names]
        corpus[split] = read_pairs(src, tgt)
    return corpus

def _tatoeba_pairs(path:Path,  # an archive, of which nothing is written anywhere
                   name:str    # of its file, such as deu.txt
                  )->Iterator[tuple[str,str]]: # (German, English)
    n = 0
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as file:
            for n, line in enumerate(decode_lines(file, name), 1):
                if '\t' not in line: raise ValueError(f'{name}:{n}: no tab')
                english, other, *_ = line.split('\t') # newer files name the authors, too
                yield other, english
    except Exception as e: # `zipfile` raises ten kinds
        raise InputError(f'{path} is damaged ({e}); remove it') from None
    if n == 0: raise InputError(f'{path} is damaged ({name} is empty); remove it')

_ISO_639 = """
af afr  ar ara  az aze  be bel  bg bul  bn ben  ca cat  cs ces  da dan  de deu  el ell
en eng  eo epo  es spa  et est  eu eus  fa pes  fi fin  fr fra  ga gle  gl glg  he heb
hi hin  hr hrv  hu hun  hy hye  id ind  is isl  it ita  ja jpn  ka kat  kk kaz  ko kor
la lat  lt lit  lv lvs  mk mkd  mr mar  ms zsm  nb nob  nl nld  no nob  pl pol  pt por
ro ron  ru rus  sk slk  sl slv  sq sqi  sr srp  sv swe  ta tam  te tel  th tha  tl tgl
tr tur  uk ukr  ur urd  vi vie  zh cmn
""".split()
_LONG_CODES = dict(zip(_ISO_639[::2], _ISO_639[1::2])) # of ISO 639-1, to ISO 639-3
_SHORT_CODES = {three: two for two, three in _LONG_CODES.items()}

def short_code(lang:str|None # by either standard
              )->str|None:   # by ISO 639-1, where the code is known
    return _SHORT_CODES.get(lang, lang)

def _language_beside_english(src_lang:str, tgt_lang:str)->str: # its code
    others = [lang for lang in (src_lang, tgt_lang) if short_code(lang) != 'en']
    if len(others) != 1:
        raise InputError('tatoeba pairs English with another language; '
                         f'these are {src_lang!r} and {tgt_lang!r}')
    [lang] = others
    if not re.fullmatch('[a-z]{3}', lang):
        check_names([lang], _LONG_CODES, 'a language of tatoeba')
    return lang

def tatoeba(data_dir:str|Path|None=None, # its folder, or the one above `tatoeba-deu-eng/`
            lang:str='de'                # the language beside English, by ISO 639-1 or -3
           )->dict[str,list[tuple[str,str]]]:
    "Pairs (`lang`, English) of tatoeba.org, distributed by manythings.org/anki (CC BY 2.0)"
    code = _LONG_CODES.get(lang, lang)
    name = f'{code}-eng.zip'
    folder = corpus_folder(f'tatoeba-{code}-eng', name, data_dir)
    path = data_file(name, _TATOEBA_URL + name, folder)
    return _split_without_leaks(_tatoeba_pairs(path, f'{code}.txt'))

def _shipped_lines(name:str)->list[str]:
    path = resources.files('transformer_nb')/name
    return path.read_text(encoding='utf8').splitlines()

def everyday_sentences(name:str='everyday' # of the list; `typed` is the newer one
                      )->list[dict]: # direction, number, kind, source and references
    "Chapter 15 judges its models by them; training may see only those that are `learned`"
    return [json.loads(line) for line in _shipped_lines(f'{name}.jsonl')]

def _words_alone(text:str)->str: # without case, punctuation and apostrophes
    return ' '.join(re.findall(r'\w+', re.sub("['’]", '', text.casefold())))

def without_everyday_sentences(pairs:Iterable[tuple[str,str]], # in either direction
                               name:str='everyday'            # of the list
                              )->list[tuple[str,str]]:
    texts = [text for row in everyday_sentences(name) if not row.get('learned')
             for text in (row['source'], *row['references'])]
    held_out = set(map(_words_alone, texts))
    return [pair for pair in pairs if held_out.isdisjoint(map(_words_alone, pair))]

def first_translations(pairs:Iterable[tuple[str,str]] # in either direction
                      )->list[tuple[str,str]]:        # each source once
    first = {}
    for source, target in pairs: first.setdefault(source, target)
    return list(first.items())

_FIRST_NAMES = """Aaron Abdul Adam Ahmed Akira Alan Alberto Alejandro Alfred Ali Amir
Andreas Andrew Antonio Arthur Ben Benjamin Bernd Bjorn Boris Brian Bruno Carlos Charles Chen
Christian Christoph Daniel Dario David Denis Diego Dieter Dmitri Eduardo Edward Elias
Emil Eric Ernst Fabian Felipe Felix Fernando Florian Francesco Frank Franz Frederick
Fritz Gabriel George Georg Gerald Gianni Giovanni Greg Gunther Gustav Hamid Hannes Hans
Harald Harry Hassan Heinz Henry Herbert Hiroshi Hugo Ian Igor Isaac Ivan Jack Jakob
James Jan Javier Jens Jim Joachim Joe Johann Jonas Jonathan Jorge Josef Joshua Juan
Julian Kai Karim Karl Kevin Klaus Konrad Lars Leo Leonard Liam Linus Louis Luca Lukas
Manuel Marc Marcel Marco Mario Mark Martin Matthew Matthias Max Michael Miguel Mohammed
Moritz Nathan Nico Nils Noah Oliver Omar Oscar Otto Patrick Paul Pedro Philip Pierre
Rafael Ralf Raj Rene Richard Robert Roland Roman Rudolf Ryan Samir Samuel Sebastian
Sergei Simon Stefan Stephen Steve Sven Tariq Theodor Tim Tobias Toni Udo Uwe Victor
Viktor Vincent Walter Werner Wilhelm William Wolfgang Xavier Yusuf Zoltan""".split()
_ONSETS = 'B Br Ch D Dr F Fl G H J K Kl L M N P R S Sch Sh St T Th Tr V W Y Z'.split()
_NUCLEI = 'a a e e i i o o u ai au ea ee ei ia ie io y'.split()
_CODAS = ['', '', '', *'l ll m n n nn r r s ss t th x ck ld nd rt st'.split()]

def rename_tom(pair:tuple[str,str], name:str)->tuple[str,str]:
    "The pair about somebody else; unchanged if Tom is not on both sides"
    if not all(re.search(r'\bTom\b', text) for text in pair): return pair
    source, target = [re.sub(r'\bTom(?=s?\b)', name, text) for text in pair] # also *Toms*
    return source, target

def _invent_name(draws:random.Random)->str: # that nobody may ever have been called
    n_syllables = draws.choice([2, 2, 3])
    syllables = [draws.choice(_ONSETS) + draws.choice(_NUCLEI) + draws.choice(_CODAS)
                 for _ in range(n_syllables)]
    return ''.join(syllables).capitalize()

def with_other_names(pairs:Iterable[tuple[str,str]], # in either direction
                     invented:float=0.5              # share of invented names
                    )->list[tuple[str,str]]:
    "The same at every call: Tom keeps his name in half of his pairs"
    draws = random.Random(0)
    def new_name():
        if draws.random() < invented: return _invent_name(draws)
        return draws.choice(_FIRST_NAMES)
    return [rename_tom(pair, new_name()) if draws.random() < 0.5 else pair
            for pair in pairs]

def everyday(corpus:dict[str,list[tuple[str,str]]], # `tatoeba`, in either direction
            )->dict[str,list[tuple[str,str]]]:
    """Without the sentences that judge a model, with one translation of each source, and
    with more names than Tom's; valid and test stay as they are"""
    pairs = first_translations(without_everyday_sentences(corpus['train']))
    return corpus | dict(train=with_other_names(pairs))

_TIMES = 3 # that a pass reads a pair of our own

def own_pairs()->list[tuple[str,str]]: # (English, German)
    return [tuple(line.split('\t')) for line in _shipped_lines('typed.tsv')]

def in_a_hurry(text:str, draws:random.Random)->str:
    "Some capitals are missing, and perhaps the last mark"
    share = draws.random()
    words = [word.lower() if draws.random() < share else word for word in text.split(' ')]
    text = ' '.join(words)
    return text.rstrip('.!?') if draws.random() < 0.5 else text

def with_typing(pairs:list[tuple[str,str]], share:float=1/6)->list[tuple[str,str]]:
    "Every sixth source a second time, in a hurry; the same at every call"
    draws = random.Random(0)
    return pairs + [(in_a_hurry(source, draws), target) for source, target in pairs
                    if draws.random() < share]

def typed(corpus:dict[str,list[tuple[str,str]]], # `tatoeba`, in either direction
          src_lang:str # 'de' or 'en'
         )->dict[str,list[tuple[str,str]]]:
    "`everyday` with pairs of our own, in the forms that people type"
    asked = {text for split in ('valid', 'test') for pair in corpus[split]
             for text in pair}
    own = [pair for pair in own_pairs() if asked.isdisjoint(pair)]
    if src_lang == 'de': own = [(german, english) for english, german in own]
    pairs = without_everyday_sentences(own + corpus['train'], 'typed')
    both = everyday(corpus | dict(train=pairs))
    again = set(first_translations(own)) & set(both['train'])
    train = both['train'] + (_TIMES - 1)*sorted(again)
    return both | dict(train=with_typing(train))

class JoinedPairs:
    "Corpora one after the other, read anew at every pass"
    def __init__(self, corpora:list[Iterable[tuple[str,str]]]): self.corpora = corpora
    def __iter__(self)->Iterator[tuple[str,str]]: return chain.from_iterable(self.corpora)

def _join_files(src_name:str, src, tgt_name:str, tgt)->JoinedPairs: # each a path, or a list
    sources, targets = (x if isinstance(x, list) else [x] for x in (src, tgt))
    if len(sources) != len(targets):
        raise FieldError(src_name, f'has {len(sources)} files, and {tgt_name} '
                         f'{len(targets)}; they belong together in pairs')
    return JoinedPairs([PairFiles(*pair) for pair in zip(sources, targets)])

def _own_corpus(src=None, tgt=None, valid_src=None, valid_tgt=None
               )->dict[str,JoinedPairs]:
    files = dict(src=src, tgt=tgt, valid_src=valid_src, valid_tgt=valid_tgt)
    for name, paths in files.items():
        if paths is None:
            raise InputError(f'`{name}` is needed, or `corpus`; '
                             'training needs `src`, `tgt`, `valid_src` and `valid_tgt`')
        for path in paths if isinstance(paths, list) else [paths]:
            check_plain_file(path) # which is read more than once
    return dict(train=_join_files('src', src, 'tgt', tgt),
                valid=_join_files('valid_src', valid_src, 'valid_tgt', valid_tgt))

_LANGUAGES = {
    'mini': ('de', 'en'),
    'multi30k': ('de', 'en', 'fr'),
    'tatoeba': (), # English and any other
    'everyday': ('de', 'en'),
    'typed': ('de', 'en')}

def _check_languages(corpus:str, src_lang:str, tgt_lang:str):
    languages = _LANGUAGES[corpus]
    if not languages: _language_beside_english(src_lang, tgt_lang)
    for lang in (src_lang, tgt_lang):
        if languages and lang not in languages:
            raise InputError(f'{corpus} has no language {lang!r}; '
                             f'it has {", ".join(languages)}')
    if src_lang == tgt_lang:
        raise InputError(f'source and target language are both {src_lang!r}')

def load_corpus(name:str|None=None, # 'mini', 'multi30k', 'tatoeba', 'everyday', 'typed'
                src_lang:str='de',
                tgt_lang:str='en',  # another of the corpus's languages
                data_dir:str|Path|None=None, # folder of the files of a public corpus
                **files             # src, tgt, valid_src, valid_tgt: one sentence per line
               )->dict[str,Iterable[tuple[str,str]]]: # pairs (source, target) of each split
    "A corpus in its splits; raises `InputError` for an unusable name, language or file"
    if name is None: return _own_corpus(**files)
    if any(files.values()):
        raise InputError('`corpus` and files of your own cannot be used together')
    check_choice('corpus', name, _LANGUAGES)
    _check_languages(name, src_lang, tgt_lang)
    if name == 'multi30k': return multi30k(src_lang, tgt_lang, data_dir)
    if name == 'mini':
        from transformer_nb.lessons.grammar import mini_corpus # needed for nothing else
        corpus = mini_corpus()
    else: corpus = tatoeba(data_dir, _language_beside_english(src_lang, tgt_lang))
    if short_code(src_lang) == 'en':
        corpus = {split: [(en, de) for de, en in pairs] for split, pairs in corpus.items()}
    if name == 'typed': return typed(corpus, short_code(src_lang))
    return everyday(corpus) if name == 'everyday' else corpus
