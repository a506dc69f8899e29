"Somebody's model behind an adapter: checked at the door, copied, made exact and lively"
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
import torch
from torch import Tensor, nn
from ..support.core import InputError
from .record import is_authors, record

class Foreign:
    "A model and how to call it"
    def __init__(self, model:nn.Module, adapter):
        self.adapter, self.original = adapter, model
        self.pad, self.bos, self.eos = (
            getattr(adapter, name, None) for name in ('pad', 'bos', 'eos'))
        both = getattr(adapter, 'vocab_size', None)
        self.src_size = getattr(adapter, 'src_vocab_size', both)
        self.tgt_size = getattr(adapter, 'tgt_vocab_size', both)
        for problem in _problems(self): raise InputError(problem)
        self.draws = torch.Generator().manual_seed(0)
        self._check_call()

    def has_rows(self, p:Tensor)->bool: # one for each token
        return p.dim() == 2 and len(p) in (self.src_size, self.tgt_size)

    def has(self, door:str)->bool: return getattr(self.adapter, door, None) is not None

    def copy(self, dtype:torch.dtype)->nn.Module:
        try: copied = deepcopy(self.original)
        except Exception as e:
            raise InputError(f'the model cannot be copied: {e}') from None
        return copied.to(dtype).eval()

    def draw(self, b:int, s:int, t:int)->tuple[Tensor,Tensor]:
        "Ids of ordinary tokens, different where there are enough; targets begin with bos"
        src, tgt = self.ids(b, s, self.src_size), self.ids(b, t, self.tgt_size)
        if self.bos is not None: tgt[:, 0] = self.bos
        return src, tgt

    def ids(self, b:int, t:int, size:int)->Tensor:
        special = {0, self.pad, self.bos, self.eos}
        usual = torch.tensor([i for i in range(size) if i not in special])
        orders = [torch.randperm(len(usual), generator=self.draws) for _ in range(b)]
        return torch.stack([usual[order].repeat(t)[:t] for order in orders])

    def __call__(self, src:Tensor, tgt:Tensor, model:nn.Module|None=None)->Tensor:
        model = self.model if model is None else model
        with as_precise_as(model):
            result = self.adapter.logits(model, src.clone(), tgt.clone())
        return self.checked(result, (*tgt.shape, self.tgt_size))

    def checked(self, result, shape:tuple)->Tensor:
        kind = getattr(result, 'dtype', type(result).__name__)
        if not isinstance(result, Tensor) or not result.is_floating_point():
            raise InputError(f'logits returned {kind}; it must be a tensor of floats')
        if result.shape != shape:
            found = tuple(result.shape)
            raise InputError(f'logits returned shape {found}; it must be {shape}: '
                             'sentences, target positions, vocabulary')
        return result

    def _check_call(self):
        src, tgt = self.draw(3, 7, 5)
        with torch.no_grad(): found = self._first(src, tgt)
        if not found.isfinite().any():
            raise InputError('logits are all NaN or infinite; do masks hide everything?')
        sums = found.sum(-1)
        if (found >= 0).all() and (sums - 1).abs().max() < 1e-3:
            raise InputError('logits are probabilities (they sum to 1); return them before '
                             'the softmax, or their logarithms')
        enliven(self.model)
        changed, recorder = record(self.model, lambda: self(src, tgt))
        self.single = recorder.single # the first line that computes in single precision
        if changed.equal(found):
            raise InputError('logits does not use the model that it is given: '
                             'call the argument, not a global one')

    def _first(self, src:Tensor, tgt:Tensor)->Tensor:
        "In double precision, or in single where the model insists on that"
        for dtype in (torch.float64, torch.float32):
            self.model = self.copy(dtype)
            try: return self(src, tgt)
            except InputError: raise
            except RuntimeError as e: error = e
            except Exception as e: raise self._failed(e) from None
        raise self._failed(error)

    def _failed(self, error:Exception)->InputError:
        words = told_of(error)
        if isinstance(error, IndexError):
            words += f'; are vocabularies of {self.src_size} and {self.tgt_size} right?'
        try: self(*self.draw(3, 5, 5))
        except Exception: return InputError(f'logits(model, src, tgt) failed: {words}')
        return InputError('sources of 7 and targets of 5 tokens failed, though equal '
                          'lengths work; does cross-attention get the mask of the target? '
                          + words)

    @property
    def tolerance(self)->float: # of differences that are rounding
        if next(self.model.parameters()).dtype == torch.float32: return 1e-4
        return 1e-5 if self.single else 1e-8

def told_of(error:Exception)->str: # with the last line that is neither PyTorch's nor ours
    lines = [f' ({Path(x.filename).name}:{x.lineno})'
             for x in traceback.extract_tb(error.__traceback__) if is_authors(x.filename)]
    words = ' '.join(str(error).split())
    return f'{type(error).__name__}: {words}{"".join(lines[-1:])}'

@contextmanager
def as_precise_as(model:nn.Module)->Iterator[None]:
    "What is made inside has the precision of the model"
    before = torch.get_default_dtype()
    torch.set_default_dtype(next(model.parameters()).dtype)
    try: yield
    finally: torch.set_default_dtype(before)

def _problems(f:Foreign)->Iterator[str]: # before any call
    for door in ('logits', 'encode', 'decode', 'greedy', 'beam', 'loss', 'schedule'):
        if f.has(door) and not callable(getattr(f.adapter, door)):
            yield f'{door} of the adapter is not a function'
    if not f.has('logits'): yield 'the adapter lacks logits(model, src, tgt)'
    if not isinstance(f.original, nn.Module):
        yield f'model is {type(f.original).__name__}, not a torch.nn.Module'
    if not [*f.original.parameters()]: yield 'the model has no parameters'
    for name, size in (('src', f.src_size), ('tgt', f.tgt_size)):
        if type(size) is not int or size < 8:
            yield (f'{name}_vocab_size is {size}; the adapter must give vocab_size, '
                   'a whole number of at least 8')
        for door, i in (('pad', f.pad), ('bos', f.bos), ('eos', f.eos)):
            if i is not None and not (type(i) is int and 0 <= i < size):
                yield f'{door} is {i!r}; it must be an id below {size}'
    for name, p in f.original.named_parameters():
        if p.device.type != 'cpu':
            yield f'{name} is on {p.device}; move the model: model.cpu()'
        if p.dtype not in (torch.float32, torch.float64):
            yield f'{name} is in {p.dtype}; convert the model: model.float()'

@torch.no_grad()
def enliven(model:nn.Module, seed:int=0):
    "Move numbers away from 0 and 1, where a part would not be seen"
    draws = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        if not p.requires_grad: continue # a table, as Marian's
        noise = torch.randn(p.shape, generator=draws).to(p)
        is_constant = p.dim() < 2 or p.eq(p.flatten()[0]).all()
        p.add_(noise * (0.3 if is_constant else 0.5*p.std()))
