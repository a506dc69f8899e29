"""Tokenizers that others made: any that the library *tokenizers* reads, and Marian's."""
import base64, json, re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self
import tokenizers
from transformer_nb.support.core import (
    SPECIAL_TOKENS, UNK, FieldError, InputError, as_texts)
from transformer_nb.pieces import MAX_VOCAB, encode_all, normalize
from transformer_nb.text import BPETokenizer, Tokenizer

class ForeignTokenizer(Tokenizer):
    "One that the library reads and others made; its ids stand after our special tokens"
    tags = () # texts that are one token each are not told from the others

    def __init__(self, tokenizer:tokenizers.Tokenizer):
        tokenizer.encode_special_tokens = True # as in `BPETokenizer`
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer

    @property
    def vocab_size(self)->int:
        largest = max(self.tokenizer.get_vocab().values(), default=-1)
        return len(SPECIAL_TOKENS) + largest + 1

    def encode(self, text:str)->list[int]: return self.encode_batch([text])[0]
    def encode_batch(self, texts:list[str])->list[list[int]]:
        rows = encode_all(self.tokenizer, as_texts(texts))
        return [[i + len(SPECIAL_TOKENS) for i in ids] for ids in rows]
    def decode(self, ids:Iterable[int])->str:
        theirs = [i - len(SPECIAL_TOKENS) for i in ids if i >= len(SPECIAL_TOKENS)]
        return self.tokenizer.decode(theirs)
    def to_json(self)->str: return self.tokenizer.to_str(pretty=True)

    @classmethod
    def from_json(cls, text:str)->Self:
        tokenizer = tokenizers.Tokenizer.from_str(text)
        ids = tokenizer.get_vocab().values()
        if ids and max(ids) < MAX_VOCAB: return cls(tokenizer)
        raise ValueError(f'its ids should be below {MAX_VOCAB}, and not none')

class SentencePieceTokenizer(Tokenizer):
    "Marian's: one SentencePiece model cuts the source, another one joins the target"
    def __init__(self, source:bytes, target:bytes, # the models
                 pieces:list[str],                 # the piece of each id
                 added:Iterable[str]=()):          # those that are tags of ours
        self.models, self.pieces, self.added = (source, target), pieces, list(added)
        self.source, self.target = _pieces_of(source), _pieces_of(target)
        self.ids = {piece: i for i, piece in enumerate(pieces)}
        self.tags = [x for x in pieces if x.startswith('>>') and x.endswith('<<')
                     and x not in self.added]
        self.needs_tag = bool(self.tags)
        self.tags += self.added

    @property
    def vocab_size(self)->int: return len(self.pieces)

    def _cut(self, text:str)->list[str]: # a source
        added = next((tag for tag in self.added if text.startswith(tag)), '')
        if added: text = text.removeprefix(added).lstrip(' ')
        code, text = re.fullmatch('(>>.*?<<)?(.*)', text, re.S).groups('')
        pieces = self.source.encode(text, out_type=str)
        return [piece for piece in [added, code, *pieces] if piece]

    def encode(self, text:str)->list[int]: # may begin with a tag, such as `>>fra<<`
        return [self.ids.get(piece, UNK) for piece in self._cut(text)]

    def unknown(self, text:str)->list[str]:
        return [x.strip('▁') or x for x in self._cut(text) if x not in self.ids]

    def encode_targets(self, texts:list[str])->list[list[int]]: # by the other model
        cut = self.target.encode(as_texts(texts), out_type=str)
        return [[self.ids.get(piece, UNK) for piece in pieces] for pieces in cut]

    def normalize(self, text:str)->str: return normalize(text)

    def decode(self, ids)->str:
        pieces = [self.pieces[i] for i in ids if i >= len(SPECIAL_TOKENS)]
        return self.target.decode(pieces).replace('▁', ' ').strip()

    def to_json(self)->str:
        source, target = (base64.b64encode(model).decode() for model in self.models)
        content = dict(source=source, target=target, pieces=self.pieces)
        if self.added: content['added'] = self.added
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def from_json(cls, text:str)->Self:
        content = json.loads(text)
        pieces = [str(piece) for piece in content['pieces']]
        models = [base64.b64decode(content[name]) for name in ('source', 'target')]
        return cls(*models, pieces, map(str, content.get('added', ())))

def _pieces_of(model:bytes): # a SentencePiece processor
    try: from sentencepiece import SentencePieceProcessor
    except ImportError:
        message = 'SentencePiece is not installed; run: pip install sentencepiece'
        raise InputError(message) from None
    try: return SentencePieceProcessor(model_proto=model)
    except RuntimeError:
        raise InputError('source.spm or target.spm is no model of SentencePiece') from None

def add_tags(tokenizer:Tokenizer, tags:Iterable[str])->Tokenizer:
    "With a last token for each tag that it does not have; raises `FieldError` if it can't"
    new = [tag for tag in tags if not _is_token(tokenizer, tag)]
    if not new: return tokenizer
    if isinstance(tokenizer, SentencePieceTokenizer):
        return SentencePieceTokenizer(*tokenizer.models, tokenizer.pieces + new,
                                      tokenizer.added + new)
    if not isinstance(tokenizer, BPETokenizer):
        raise FieldError('tag', f'is {new[0]!r}, which is not a token of this tokenizer')
    content, n = json.loads(tokenizer.to_json()), tokenizer.vocab_size
    like = content['added_tokens'][0] | dict(special=False)
    content['added_tokens'] += [like | dict(id=i, content=tag)
                                for i, tag in enumerate(new, n)]
    return BPETokenizer.from_json(json.dumps(content))

def _is_token(tokenizer:Tokenizer, text:str)->bool:
    ids = tokenizer.encode(text)
    return len(ids) == 1 and UNK not in ids

_KINDS = BPETokenizer, ForeignTokenizer, SentencePieceTokenizer

def tokenizer_class(name:str)->type[Tokenizer]|None: # as the folder of a model names it
    return next((kind for kind in _KINDS if kind.__name__ == name), None)

def load_any_tokenizer(path:str|Path)->Tokenizer: # from a `tokenizer.json`
    "Ours, or else any that the library reads; raises `InputError` for other files"
    if Path(path).suffix in ('.model', '.spm', '.txt', '.vocab', '.yml') or (
            Path(path).name == 'vocab.json'):
        raise InputError(f'{path} is a model of SentencePiece or a plain vocabulary, which '
                         'cannot be read here; AutoTokenizer of the library transformers '
                         'saves most of them as a tokenizer.json')
    try: return BPETokenizer.load(path)
    except InputError:
        for name in ('ForeignTokenizer', 'SentencePieceTokenizer'):
            with suppress(InputError): return tokenizer_class(name).load(path)
        raise
