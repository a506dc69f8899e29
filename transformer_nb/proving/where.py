"""Where two parts differ: both runs traced, number by number

`traced` runs a case and notes every tensor that is made, with its line. `where` finds the
first number that the other never makes, and the line of the other whose number never comes.
Sums that no order of axes changes tell tensors apart."""
import re, sys, torch
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from torch import Tensor, nn
from .compare import (
    BY_NAME, ERROR, LINE, NEW, NO_GRAD, SCALED, SECOND, TRAINS, Chance, built, change,
    copied, noted, quiet, ready, scale)
from .draw import Part
from .record import Line, Tracer, memory_of

SAME = 'detach', 'alias', 'clone', '_to_copy', 'lift_fresh'

class Made:
    "A tensor that was made"
    def __init__(self, name:str,   # of the operation
                 line:Line|None, x:Tensor,
                 inputs=()):       # of the operation, as they were made
        x, self.name, self.line, self.inputs = x.detach(), name, line, [*inputs]
        self.sums, self.order, self.shape = sums_of(x), order_of(x), tuple(x.shape)
        self.weak = not x.is_floating_point() or bool( # too little to tell it from others
            (x == x.round()).all() or (x == x.flatten()[:1]).all())

@dataclass
class Place:
    kind: str                  # 'number', 'order' (the right numbers, arranged otherwise) …
    line: Line|None            # of the part that differs
    book: Line|None            # ours, whose number never comes

@dataclass
class Run: # a call in a process of its own
    made: list                 # every number, in turn
    notes: dict                # what it gives, as in `observed`
    lines: dict                # where a result was made; '': the last line that returned

# How a tensor is known again

def sums_of(x:Tensor)->Tensor: # which no order changes
    x = x.detach().double().flatten().nan_to_num(123.456, torch.inf, -torch.inf)
    x = x[x != 0] # of one sum, whether zeros stand for padding or padding is left out
    n, x = len(x), x[x.isfinite()] # beside a 1e4 for each, no sum would tell others apart
    n += 2**30 * (n - len(x))
    x = x if len(x) else torch.zeros(1, dtype=torch.float64)
    sums = x.sum(), x.abs().sum(), x.square().sum()
    return torch.stack([x.new_tensor(n), *sums, x.min(), x.max()])

def order_of(x:Tensor)->float: # which every order changes
    x = x.detach().double().flatten().nan_to_num(123.456, 1e4, -1e4)
    weights = torch.arange(1, len(x) + 1, dtype=torch.float64).mul(.7548776662).frac()
    return float(x @ weights)

def is_among(x:Tensor, others:Tensor)->bool: # the same numbers in any order: (6,), (n, 6)
    most = 1e-7 + 1e-6 * others[:, 1:].abs().amax(1, keepdim=True)
    near = ((x - others).abs() <= most).all(1) & (x[0] == others[:, 0])
    return bool(near.any())

def arranged_alike(a:Made, b:Made)->bool:
    most = 1e-7 + 1e-6 * float(b.sums[2])
    return a.shape == b.shape and abs(a.order - b.order) <= most

# A run

class Trace(Tracer):
    largest = 2**16
    def __init__(self, is_own:Callable):
        super().__init__(is_own)
        self.found, self.made = [], {} # in turn; by place
        self.lines, self.born = {}, {} # by id: the line that made a module
        self.written = {} # memory that was written to: by what, where, from what

    def note(self, name:str, args:tuple, inputs:list, outputs:list, line:Line|None):
        inputs = [self.known(x) for x in inputs]
        if line and re.search('bernoulli|dropout|rand', name):
            self.lines.setdefault('chance', line)
        for x in outputs:
            if name.endswith('_'): self.forget(x, name, line, inputs)
            if _place(x) in self.made: continue # a view of it all
            if name in SAME and inputs: self.made[_place(x)] = inputs[0]
            else: self.add(Made(name, line, x, inputs), x)

    def known(self, x:Tensor)->Made:
        "As it was made; what was not made here is given"
        place, writing = _place(x), self.written.get(memory_of(x))
        if place not in self.made and writing: # a part of it was
            name, line, inputs = writing
            self.add(Made(name, line, x, inputs), x)
        if place not in self.made: self.add(Made('given', None, x), x)
        return self.made[place]

    def forget(self, x:Tensor, *how):
        "What shares its memory has other numbers from now on"
        self.written[memory_of(x)] = how
        for place in [p for p in self.made if p[0] == memory_of(x)]: del self.made[place]

    def add(self, found:Made, x:Tensor):
        self.made[_place(x)] = found
        self.found.append(found)

    @contextmanager
    def watching(self):
        "Where a model is made or given weights, and the last line that returned"
        before = sys.getprofile()
        sys.setprofile(self.profile)
        try: yield
        finally: sys.setprofile(before)

    def profile(self, frame, event, _):
        code = frame.f_code
        if event == 'return' and self.is_own(code.co_filename):
            self.lines[''] = Line(code.co_filename, frame.f_lineno)
        if event != 'call' or code.co_name not in ('__init__', 'load_state_dict'): return
        owner, line = frame.f_locals.get('self'), self.line_of(frame.f_back)
        if not line or not isinstance(owner, nn.Module): return
        if code.co_name == '__init__': self.born.setdefault(id(owner), line)
        else: self.lines.setdefault('given weights', line)
        self.kept.append(owner)

    def note_lines(self, result):
        "Where each tensor of a result was made"
        several = isinstance(result, (list, tuple))
        for i, x in enumerate(result if several else [result]):
            line = isinstance(x, Tensor) and self.known(x).line
            if line: self.lines[f'result[{i}]' if several else 'result'] = line

def _place(x:Tensor)->tuple: return memory_of(x), x.data_ptr(), tuple(x.shape), x.stride()

def traced(part:Part, own, n:int, step:str, right=None, kit=None,
           is_own:Callable=lambda file: False, # the files whose lines are told
           which:str='',       # call of the case, such as 'a second call'
          )->Run:
    "A call of a method in a case, as the first in its process"
    drawn, model = part.drawn(n, kit), None
    trace = Trace(is_own)
    if step == NEW: # where its parts are made, and its parameters, or were last written to
        with quiet(), trace, trace.watching(): model = ready(own, drawn)
        parts = {name: trace.born.get(id(x)) for name, x in model.named_modules() if name}
        return Run([], {}, parts | {
            name: trace.written.get(memory_of(p), ('', trace.known(p).line))[1]
            for name, p in model.named_parameters()})
    if part.once: # a function that makes a model, perhaps
        with quiet(), trace.watching(): result = own(*copied(drawn.calls[''][0]).values())
        if isinstance(result, nn.Module): trace.lines['made'] = trace.born.get(id(result))
        return Run([], {}, trace.lines)
    if part.new is not None: model, *_ = built(part, own, right or own, drawn, kit)
    method = next(m for m in drawn.calls if (m or part.name) == step)
    call = own if model is None else getattr(model, method or '__call__')
    args = copied(drawn.calls[method][which in SECOND])
    if which in SCALED: scale(dict(model.named_parameters()), 1.5)
    if which == TRAINS: model.train()
    if which == NO_GRAD: change(args)
    for x in [*args.values(), *(model.parameters() if model is not None else ())]:
        if isinstance(x, Tensor): trace.known(x)
    trace.kept += args.values() # what is given is known by its place
    def seen(*inputs, **options):
        with trace if not part.batched else nullcontext(), trace.watching():
            result = call(*inputs, **options)
        trace.note_lines(result)
        trace.lines |= {f'{name} afterward': trace.written[memory_of(x)][1] for name, x in
                        args.items() if isinstance(x, Tensor) and memory_of(x) in trace.written}
        return result
    luck = Chance() if which == TRAINS else nullcontext()
    with luck, torch.set_grad_enabled(which != NO_GRAD):
        notes = noted(part, seen, args, n, kit, by_name=which == BY_NAME, method=method)
    told = {at: x for at, x in notes.items() if at.startswith((ERROR, LINE, 'result'))}
    return Run(trace.found, told, trace.lines)

# Two runs

def where(mine:list[Made], ours:list[Made])->Place|None:
    """The first number of one's own from which no way leads back to a number of ours, and
    ours from which none leads back to it: another way to the same is not told"""
    own, book = _Run(mine, ours), _Run(ours, mine)
    alien, lost = own.first_lost(), book.first_lost()
    line = lost.line if lost and book.follows(lost) else None
    if not alien: # ours goes on from what own ends with
        ends = own.made and id(own.made[-1]) in own.shared
        return Place('missing', None, line) if line and ends else None
    if turned := lost and _turned(alien, lost, ours):
        return Place('order', turned.line or alien.line, line)
    own_line = alien.line if own.follows(alien) else None
    return Place('number', own_line, line) if own_line or line else None

class _Run:
    "What one run made, and what of it the other run has, too"
    def __init__(self, found:list[Made], other:list[Made]):
        self.made = [x for x in found if x.line]
        sums = torch.cat([torch.zeros(0, 6), *(y.sums[None] for y in other)])
        right = {id(x) for x in found if is_among(x.sums, sums)}
        are_strong = not all(x.weak for x in found + other) # some of them
        self.weak = {id(x) for x in found if x.weak and are_strong}
        self.shared, self.right = right - self.weak, right
        self.reaching = set() # from which a way leads to a shared one
        for x in reversed(self.made):
            if id(x) in self.shared | self.reaching: self.reaching.update(map(id, x.inputs))

    def first_lost(self)->Made|None:
        return next((x for x in self.made
                     if id(x) not in self.shared | self.reaching | self.weak), None)

    def follows(self, x:Made)->bool: # are all numbers that go into it right?
        known = [y.name == 'given' or id(y) in self.right for y in x.inputs]
        return bool(known) and all(known)

def _turned(x:Made, y:Made, ours:list[Made])->Made|None:
    "Of the same operation, the view that put the numbers of an input in another order"
    def is_alike(a, b): return is_among(a.sums, b.sums[None])
    for a, b in zip(x.inputs, y.inputs) if x.name == y.name else ():
        is_turned = a.shape == b.shape and not arranged_alike(a, b)
        if a.weak or not is_turned or not is_alike(a, b): continue
        while a.inputs and is_alike(a, a.inputs[0]) and not any(
                arranged_alike(a.inputs[0], z) for z in ours): a = a.inputs[0]
        return a
