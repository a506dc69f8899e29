"""Where two parts differ: both runs traced, number by number and call by call

`traced` runs a case and notes every tensor that is made, with its line, and every call
of another part. `where` finds the first number that the other never makes, and the line of
the other whose number never comes. Sums that no order of axes changes tell tensors apart."""
import linecache, re, sys, torch
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from .compare import (
    BY_NAME, NEW, NO_GRAD, SCALED, SECOND, TRAINS, Chance, built, change, copied, error_of, positional,
    quiet, ready, results, scale, seeded)
from .draw import Part

LIKE = tuple(f'aten.{name}' for kind in ('zeros', 'ones', 'full', 'empty')
             for name in (f'{kind}_like', f'new_{kind}')) # of which the shape counts alone
CUTS = 'aten.slice', 'aten.select', 'aten.split', 'aten.split_with_sizes', 'aten.unbind'
SAME = 'aten.detach', 'aten.alias', 'aten.clone', 'aten._to_copy', 'aten.lift_fresh'

@dataclass
class Line:
    file: str
    number: int
    @property
    def text(self)->str: return linecache.getline(self.file, self.number).strip()
    @property
    def name(self)->str: return Path(self.file).name

@dataclass
class Made:
    "A tensor that was made, or that another part was handed"
    name: str                  # of the operation; 'part.argument' of a call
    line: Line|None
    sums: Tensor               # which no order changes
    order: float               # which every order changes
    shape: tuple
    weak: bool                 # too little to tell it from others: truth values, constants
    inputs: list = field(default_factory=list) # of the operation, as they were made
    is_call: bool = False

@dataclass
class Place:
    kind: str                  # 'number', 'order' (the right numbers, arranged otherwise),
                               # 'argument' (of a part that is called), 'missing'
    line: Line|None            # of the part that differs
    book: Line|None            # ours, whose number never comes
    called: str = ''           # the part and the argument

@dataclass
class Run: # a call in a process of its own
    made: list                 # every number, in turn
    notes: dict                # what it gives, as in `observed`
    lines: dict                # where a result was made; '': the last line that returned

# How a tensor is known again

def sums_of(x:Tensor)->Tensor:
    x = x.detach().double().flatten().nan_to_num(123.456, torch.inf, -torch.inf)
    x = x[x != 0] # of one sum, whether zeros stand for padding or padding is left out
    n, x = len(x), x[x.isfinite()] # beside a 1e4 for each, no sum would tell others apart
    n += 2**30 * (n - len(x))
    if not len(x): return torch.tensor([n, 0., 0., 0., 0., 0.], dtype=torch.float64)
    return torch.stack([torch.tensor(float(n), dtype=torch.float64), x.sum(),
                        x.abs().sum(), x.square().sum(), x.min(), x.max()])

def order_of(x:Tensor)->float:
    x = x.detach().double().flatten().nan_to_num(123.456, 1e4, -1e4)
    weights = torch.arange(1, len(x) + 1, dtype=torch.float64).mul(.7548776662).frac()
    return float(x @ weights)

def alike(a:Made, b:Made)->bool: # the same numbers, in whatever order
    return _is_among(a.sums, b.sums[None])

def _is_among(x:Tensor, others:Tensor)->bool: # (6,), (n, 6)
    most = 1e-7 + 1e-6 * others[:, 1:].abs().amax(1, keepdim=True)
    near = ((x - others).abs() <= most).all(1) & (x[0] == others[:, 0])
    return bool(near.any())

def arranged_alike(a:Made, b:Made)->bool:
    most = 1e-7 + 1e-6 * float(b.sums[2])
    return a.shape == b.shape and abs(a.order - b.order) <= most

def made(name:str, line:Line|None, x:Tensor, **rest)->Made:
    y = x.detach()
    weak = '.empty' in name or not y.is_floating_point() or y.numel() < 2 # or chance
    weak = weak or bool(((y - y.round()).abs() < 1e-9).all()) # whole numbers, all of them
    weak = weak or bool((y == y.flatten()[0]).all())
    return Made(name, line, sums_of(y), order_of(y), tuple(y.shape), weak, **rest)

# A run

class Trace(TorchDispatchMode):
    def __init__(self, is_own:Callable, is_part:Callable):
        super().__init__()
        self.is_own, self.is_part, self.found = is_own, is_part, []
        self.made, self.inside, self.kept = {}, None, []
        self.asking = False # for sums of its own, which no run makes
        self.lines, self.born = {}, {} # by id: the line that made a module
        self.written = {} # memory that was written to: by what, where, from what

    def __torch_dispatch__(self, function, kinds, args=(), options=None):
        result = function(*args, **(options or {}))
        if self.asking: return result
        name, line = str(function).rpartition('.')[0], self.line_of(sys._getframe(1))
        given = [x for x in _flat([*args, *(options or {}).values()]) if _is_traced(x)]
        inputs = [] if name in LIKE else [self.known(x) for x in given]
        if line and re.search('bernoulli|dropout|rand', name):
            self.lines.setdefault('chance', line)
        for x in filter(_is_traced, _flat([result])):
            self.kept.append(x) # so that no other tensor takes its place
            is_new = name.endswith('_') or _place(x) not in self.made # no view of it all
            if name.endswith('_'): self.forget(x, name, line, inputs)
            if not is_new: continue
            if name in SAME and inputs: self.made[_place(x)] = inputs[0]
            else: self.note(made(name, line, x, inputs=inputs), x)
        return result

    def known(self, x:Tensor)->Made:
        "As it was made; what was not made here is given"
        place, writing = _place(x), self.written.get(_memory(x))
        if place not in self.made and writing: # a part of it was
            name, line, inputs = writing
            self.note(made(name, line, x, inputs=inputs), x)
        if place not in self.made: self.note(made('given', None, x), x)
        return self.made[place]

    def forget(self, x:Tensor, *how):
        "What shares its memory has other numbers from now on"
        self.written[_memory(x)] = how
        for place in [p for p in self.made if p[0] == _memory(x)]: del self.made[place]

    def note(self, found:Made, x:Tensor):
        self.made[_place(x)] = found
        self.found.append(found)

    def line_of(self, frame)->Line|None: # the innermost of the files that are traced
        while frame:
            if self.is_own(frame.f_code.co_filename):
                return Line(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back

    def profile(self, frame, event, _):
        "Calls of other parts, from a file that is traced"
        if event == 'return' and frame is self.inside: self.inside = None
        if event == 'return' and self.is_own(frame.f_code.co_filename):
            self.lines[''] = Line(frame.f_code.co_filename, frame.f_lineno)
        if event != 'call' or self.inside: return
        if frame.f_code.co_name in ('__init__', 'load_state_dict'): self._note_module(frame)
        if self.is_part(frame.f_code.co_filename) and (name := _part_of(frame)):
            self._note(name, frame)

    def _note_module(self, frame):
        "Where it is made, from a file that is traced, or given weights"
        owner, line = frame.f_locals.get('self'), self.line_of(frame.f_back)
        if not line or not isinstance(owner, nn.Module): return
        if frame.f_code.co_name == '__init__':
            self.born.setdefault(id(owner), line)
            self.kept.append(owner)
        else: self.lines.setdefault('given weights', line)

    @contextmanager
    def watching(self):
        before = sys.getprofile()
        sys.setprofile(self.profile)
        try: yield
        finally: sys.setprofile(before)

    def _note(self, name:str, frame):
        self.inside, line, self.asking = frame, self.line_of(frame.f_back), True
        if not line: self.inside = None
        n = frame.f_code.co_argcount
        for argument in frame.f_code.co_varnames[:n]:
            x = frame.f_locals.get(argument)
            if isinstance(x, Tensor):
                self.found.append(made(f'{name}.{argument}', line, x, is_call=True,
                                       inputs=[self.known(x)]))
        self.asking = False

    def note_lines(self, result):
        "Where each tensor of a result was made"
        several = isinstance(result, (list, tuple))
        for i, x in enumerate(result if several else [result]):
            line = isinstance(x, Tensor) and self.known(x).line
            if line: self.lines[f'result[{i}]' if several else 'result'] = line

Trace.__torch_dispatch__ = getattr( # as in `record`
    Trace.__torch_dispatch__, '__wrapped__', Trace.__torch_dispatch__)

def _flat(x)->list: # tensors in lists, as `cat` gets them
    return [z for y in x for z in (_flat(y) if isinstance(y, (list, tuple)) else [y])]

def _is_traced(x)->bool: return isinstance(x, Tensor) and x.numel() <= 2**16

def _memory(x:Tensor)->int: return x.untyped_storage().data_ptr()
def _place(x:Tensor)->tuple: return _memory(x), x.data_ptr(), tuple(x.shape), x.stride()

def _part_of(frame)->str: # what is called; empty: no part
    code, owner = frame.f_code, frame.f_locals.get('self')
    if owner is None: return code.co_name if code.co_name[0] not in '_<' else ''
    return type(owner).__name__ if code.co_name in ('forward', 'logits') else ''

def traced(part:Part, own, n:int, step:str, right=None, kit=None,
           is_own:Callable=lambda file: False, # the files whose lines are told
           is_part:Callable=lambda file: False, # those of other parts
           which:str='',       # call of the case, such as 'a second call'
          )->Run:
    "A call of a method in a case, as the first in its process"
    drawn, model = part.drawn(n, kit), None
    trace = Trace(is_own, is_part)
    if step == NEW: # where its parts are made, and its parameters, or were last written to
        with quiet(), trace, trace.watching(): model = ready(own, drawn)
        parts = {name: trace.born.get(id(x)) for name, x in model.named_modules() if name}
        return Run([], {}, parts | {
            name: trace.written.get(_memory(p), ('', trace.known(p).line))[1]
            for name, p in model.named_parameters()})
    if part.once: # a function that makes a model, perhaps
        with quiet(), trace.watching(): result = own(*copied(drawn.calls[''][0]).values())
        made = dict(made=trace.born.get(id(result))) if isinstance(result, nn.Module) else {}
        return Run([], {}, trace.lines | made)
    if part.new is not None: model, *_ = built(part, own, right or own, drawn, kit)
    method = next(m for m in drawn.calls if (m or part.name) == step)
    first = drawn.calls[method][which in SECOND]
    call = own if model is None else getattr(model, method or '__call__')
    if which in SCALED: scale(dict(model.named_parameters()), 1.5)
    luck = Chance(.5) if which == TRAINS else nullcontext()
    if which == TRAINS: model.train()
    args = copied(first)
    if which == NO_GRAD: change(args)
    seeded(n)
    given = [*args.values(), *(model.parameters() if model is not None else ())]
    for x in given:
        if isinstance(x, Tensor): trace.known(x)
    trace.kept += args.values() # what is given is known by its place
    try:
        is_by_name, grads = which == BY_NAME, torch.set_grad_enabled(which != NO_GRAD)
        with grads, quiet(), luck, trace if not part.batched else nullcontext():
            with trace.watching():
                result = call(**args) if is_by_name else call(*positional(args, n))
        trace.note_lines(result)
        trace.lines |= {f'{name} afterward': trace.written[_memory(x)][1] for name, x in args.items()
                        if isinstance(x, Tensor) and _memory(x) in trace.written}
        _, notes = results(part, result, args, kit, method)
    except Exception as e: notes = error_of(e)
    return Run(trace.found, notes, trace.lines)

# Two runs

def where(mine:list[Made], ours:list[Made])->Place|None:
    """The first number of one's own from which no way leads back to a number of ours, and
    ours from which none leads back to it: another way to the same is not told"""
    own, book = _Run(mine), _Run(ours)
    if all(x.weak for x in book.made): own.all = book.all = True
    own.compare(book)
    book.compare(own)
    called = _first_call(own.calls, book.calls)
    alien, lost = own.first_lost(), book.first_lost()
    if called and (alien is None or own.comes_first(called[0], alien)):
        return _of_call(*called, book)
    line = lost.line if lost and book.follows(lost) else None
    if not alien: # ours goes on from what own ends with
        ends = own.made and id(own.made[-1]) in own.shared
        return Place('missing', None, line) if line and ends else None
    if turned := lost and _turned(alien, lost, book):
        return Place('order', turned.line or alien.line, line)
    twins = sum((x.name, x.line) == (alien.name, alien.line) for x in own.made)
    if alien.name in CUTS and twins > 1 and not (lost and lost.name in CUTS): return None
    own_line = alien.line if own.follows(alien) else None
    return Place('number', own_line, line) if own_line or line else None

class _Run:
    "What one run made, and what of it the other run has, too"
    def __init__(self, found:list[Made]):
        self.order = {id(x): i for i, x in enumerate(found)}
        self.given = [x for x in found if x.name == 'given']
        self.calls = [x for x in found if x.is_call]
        self.made = [x for x in found if x.line and not x.is_call]
        self.all, self.shared = False, set()

    def counts(self, x:Made)->bool: return self.all or not x.weak

    def compare(self, other:'_Run'):
        theirs = [y.sums for y in other.made + other.given if other.counts(y)]
        theirs = torch.stack(theirs) if theirs else torch.zeros(0, 6)
        self.shared = {id(x) for x in self.made + self.given
                       if self.counts(x) and _is_among(x.sums, theirs)}
        every = torch.stack([torch.zeros(6), *(y.sums for y in other.made + other.given)])
        self.right = {id(x) for x in self.made + self.given # also if too weak to be shared
                      if x.name == 'given' or _is_among(x.sums, every)}
        self.reaching = set() # from which a way leads to a shared one
        for x in reversed(self.made):
            if id(x) in self.shared or id(x) in self.reaching:
                self.reaching.update(id(y) for y in x.inputs)

    def first_lost(self)->Made|None:
        for x in self.made:
            if self.counts(x) and id(x) not in self.shared | self.reaching: return x

    def follows(self, x:Made)->bool: # are all numbers that go into it right?
        return bool(x.inputs) and all(id(y) in self.right for y in x.inputs)

    def comes_first(self, x:Made, y:Made)->bool:
        return self.order[id(x)] < self.order[id(y)]

def _turned(x:Made, y:Made, book:_Run)->Made|None:
    "Of the same operation, an input with the right numbers in another order"
    if x.name != y.name: return None
    for a, b in zip(x.inputs, y.inputs):
        is_turned = a.shape == b.shape and not arranged_alike(a, b)
        if not a.weak and alike(a, b) and is_turned: return _origin(a, book)
    return None

def _origin(x:Made, book:_Run)->Made:
    "The first of a chain of views that no number of ours is arranged like"
    chain = [x]
    while chain[-1].inputs and alike(chain[-1].inputs[0], x):
        chain.append(chain[-1].inputs[0])
    for y in reversed(chain):
        if y.line and not any(alike(y, z) and arranged_alike(y, z)
                              for z in book.made + book.given): return y
    return x

def _first_call(calls:list[Made], book:list[Made])->tuple|None:
    "The first argument of a part that is not ours, though all before it are"
    for x, y in zip(calls, book):
        if x.name != y.name: return None
        if not alike(x, y) or not arranged_alike(x, y): return x, y
    return None

def _of_call(x:Made, y:Made, book:_Run)->Place:
    if alike(x, y): return Place('order', _origin(x.inputs[0], book).line or x.line, y.line,
                                 x.name)
    return Place('argument', x.line, y.line, x.name)
