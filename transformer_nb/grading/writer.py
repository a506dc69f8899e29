"""Stage 12: a model that writes, which a student trains and hands in with its weights"""
from functools import cache
from pathlib import Path
import torch
from ..attention import held_out_loss, ladder_text
from ..proving.draw import Ids, Made, Part
from .table import BOS, Check, Stage
from .toys import Speaker, Steps

WEIGHTS = 'writer.safetensors'
MOST = 1.75 # nats per character; 07a has 1.30, and counted pairs of characters have 2.42

@cache
def sentences()->torch.Tensor: # held-out ones, read before a submission runs, which may not
    return ladder_text()[1][:300]

def blind(model, args)->str:
    "Does no score depend on what comes later?"
    if model.training: return 'no: it is in training mode'
    ids = sentences()
    other = ids[:8].clone()
    other[:, 12:] = other[:, 12:].roll(1, 0)
    with torch.no_grad(): moved = (model(ids[:8]) - model(other)).abs()[:, :12].amax((0, 2))
    first = (moved > 1e-9).nonzero().flatten().tolist()
    return f'no: position {first[0]} changes with position 12' if first else 'yes'

def learned(model, args)->str:
    nats = held_out_loss(model.eval(), sentences())
    return 'yes' if nats <= MOST else f'no: {nats:.2f} nats per character'

READ = '07a_without_a_source', 'To write is to draw'
TRAINED = '07a_without_a_source', 'A minute of training'
def judged(points:int, title:str, shown, kind)->Check: # one path is text, the other is not
    part = Part('load_writer', {'': dict(path=Made(lambda case: kind(WEIGHTS)))}, cases=1,
                once=True, shown=shown)
    return Check(points, title, part, TRAINED, expected={'load_writer · result': 'yes'})

def speaker(case)->Speaker:
    case.model = Speaker(case.random.randrange(10**6), max_len=case.size('t') + 320,
                         pads=case.has('the model may choose <pad> or <s>', .3))
    return case.model

STAGE = Stage(12, 'writer.py', 'a model that writes', (
    Check(1, 'it writes, by toy models', Part('write', {'': dict(
        model=Made(speaker), ids=Ids('1 t', vocab='8', first=BOS, padded=False),
        max_steps=Steps((9, 1, 4, 20), begun='t'))}, cases=20, batched=True,
        sizes=dict(t=lambda case: 90 if case.n % 7 == 6 else case.pool.pop())), READ),
    judged(1, 'it evaluates, and no score depends on later characters', blind, str),
    judged(3, f'held-out sentences cost at most {MOST} nats per character', learned, Path)),
    optional=True)
