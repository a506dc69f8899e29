"""Stage 12: a model that writes, which a student trains and hands in with its weights"""
from functools import cache
from importlib import import_module
import torch
from ..attention import held_out_loss, ladder_text, read_sentences, to_ids, to_text
from ..proving.draw import Ids, Made, Part
from .special import of_outputs
from .table import BOS, Check, Stage
from .toys import Speaker, Steps

WEIGHTS, PROMPT = 'writer.safetensors', 'I want to '
MOST = 1.75 # nats per character; 07a has 1.30, and counted pairs of characters have 2.42

@cache
def sentences()->tuple: # read before a submission runs, which may not
    "Ids of held-out ones, and the words of all"
    words = {word.strip('.,!?"').lower() for line in read_sentences() for word in line.split()}
    return ladder_text()[1][:300], words

def blind(model, args)->str:
    "Does no score depend on what comes later?"
    if model.training: return 'no: it is in training mode'
    ids, _ = sentences()
    other = ids[:8].clone()
    other[:, 12:] = other[:, 12:].roll(1, 0)
    with torch.no_grad(): moved = (model(ids[:8]) - model(other)).abs()[:, :12].amax((0, 2))
    first = (moved > 1e-9).nonzero().flatten().tolist()
    return f'no: position {first[0]} changes with position 12' if first else 'yes'

def learned(model, args)->str:
    nats = held_out_loss(model.eval(), sentences()[0])
    return 'yes' if nats <= MOST else f'no: {nats:.2f} nats per character'

def continues(model, args)->str:
    "Are most of the words that it writes English ones?"
    begun = to_ids([PROMPT])[:, :-1]
    with torch.no_grad(): ids = import_module('writer').write(model.eval(), begun, 40)
    text = PROMPT + to_text([int(i) for i in ids])
    words = [word.strip('.,!?"').lower() for word in text.split()[3:]]
    known = sum(word in sentences()[1] for word in words)
    return 'yes' if words and 2 * known > len(words) else f'no: {text!r}'

READ = '07a_without_a_source', 'To write is to draw'
TRAINED = '07a_without_a_source', 'A minute of training'
def loaded(shown)->Part:
    return Part('load_writer', {'': dict(path=Made(lambda case: WEIGHTS))}, cases=1,
                once=True, shown=shown)
def judged(points:int, title:str, shown)->Check:
    return Check(points, title, loaded(shown), TRAINED,
                 expected={'load_writer · result': 'yes'})

def speaker(case)->Speaker:
    case.model = Speaker(case.random.randrange(10**6), max_len=case.size('t') + 320,
                         pads=case.has('the model may choose <pad> or <s>', .3))
    return case.model

STAGE = Stage(12, 'writer.py', 'a model that writes', (
    Check(1, 'it writes, by toy models', Part('write', {'': dict(
        model=Made(speaker), ids=Ids('1 t', vocab='8', first=BOS, padded=False),
        max_steps=Steps((9, 1, 4, 20), begun='t'))}, cases=20, batched=True,
        sizes=dict(t=lambda case: 90 if case.n % 7 == 6 else case.pool.pop()),
        special=of_outputs), READ),
    judged(1, 'it evaluates, and no score depends on later characters', blind),
    judged(2, f'held-out sentences cost at most {MOST} nats per character', learned),
    judged(1, f'it goes on after "{PROMPT.strip()}"', continues)), optional=True)
