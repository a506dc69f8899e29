"""What a part may be called with: a table of signatures, drawn case by case

A `Part` says, argument by argument, what may be drawn: numbers of these axes, masks of every
shape that broadcasts, ids with padding. A `Case` fixes sizes and numbers by its number, the
plainest first. What is special about it, it notes as its features, in words."""
import random, torch
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from torch import Tensor

AXES = dict(b='sentences', h='heads', t='queries', s='keys', k='d_k', v='d_v', d='d_model',
            N='encoder layers', M='decoder layers')
LEAST = 'kvdf'                                # a case for each of these axes being 1, or 2
MOST = {'b': 70, 'h': 40, 't': 600, 's': 600, 'N': 14, 'M': 14, 'the beam': 40,
        'max_steps': 300, 'step_num': 10**7, 'warmup_steps': 10**7, 'd_model': 5000}
PLAIN = 2                                     # so many cases have nothing special
KINDS = 'unlike', 'unlike', 'alike', 'ones'   # of sizes, in turn
LONGER = 3                                    # positions, or sentences, of some second calls
SCALES = 1., 1., 1., 30., 1., 1000., 1e-3, 1. # of numbers, for two cases each
LAYOUTS = {3: 'turned', 5: 'cut'}             # of one case in seven each
BIG = 64                                      # sizes above it are asked in few cases

class Case:
    "Sizes by the name of an axis, and numbers; the same n and seed give the same again"
    def __init__(self, n:int, part:'Part', fixed:dict): # axes, and their sizes here
        self.n, self.part, self.fixed, self.sizes = n, part, fixed, {}
        self.random = random.Random(1000*part.seed + n)
        self.torch = torch.Generator().manual_seed(self.random.randrange(2**60))
        self.scale = SCALES[n // 2 % 8] if n >= 4 else 1.
        self.is_big = max(self.fixed.values(), default=0) > BIG
        self.kind = 'unlike' if self.is_big else KINDS[n % 4]
        self.pool = [2, 1] * 5 if self.is_big else self.random.sample(range(2, 12), 10)
        self.features, self.counts = set(), {} # counts: what is drawn as a whole number
        if self.scale > 1: self.features.add('the numbers are large')
        if self.scale < 1: self.features.add('the numbers are tiny')

    def size(self, name:str)->int:
        if name.isdigit(): return int(name)
        if name not in self.sizes: self.sizes[name] = self._new_size(name)
        return self.sizes[name]

    def _new_size(self, name:str)->int:
        if n := self.fixed.get(name): return n + n % 2 if name in self.part.even else n
        own = self.part.sizes.get(name)
        if own is not None: return own(self) if callable(own) else own
        if self.kind == 'ones' and name in 'bhts' and self.random.random() < .5: return 1
        n = 4 if self.kind == 'alike' else self.pool.pop()
        return n + n % 2 if name in self.part.even else n

    def grow(self): # for a later call, whatever was kept at the first
        for name in 'ts' * (self.n % 2) + 'b' * (self.n % 4 > 1):
            if name in self.sizes: self.sizes[name] += LONGER

    def shape(self, axes:str)->list[int]: return [self.size(name) for name in axes.split()]

    def normal(self, *shape:int)->Tensor:
        return torch.randn(shape, generator=self.torch, dtype=torch.float64)

    def has(self, feature:str, share:float=.5)->bool:
        "Is it so in this case? Never in the plainest"
        if self.n < PLAIN or self.random.random() >= share: return False
        self.features.add(feature)
        return True

    def laid(self, x:Tensor)->Tensor:
        "In some cases, otherwise in memory"
        kind = LAYOUTS.get(self.n % 7) if self.n >= PLAIN and x.dim() else None
        if kind: self.features.add('tensors do not lie in one piece')
        needs, y = x.requires_grad, x.detach()
        if kind == 'turned' and x.dim() > 1: y = y.mT.contiguous().mT
        if kind == 'cut': y = torch.cat([y[..., :1], y, y[..., -1:]], -1)[..., 1:-1]
        return y.requires_grad_(needs)

    def described(self)->set[str]:
        "Features, with how the sizes of axes compare"
        named = {name: n for name, n in self.sizes.items() if name in AXES}
        said = {f'there is one of {AXES[a]}' for a in named if named[a] == 1}
        said |= {f'{AXES[a]} = {AXES[b]}' for a in named for b in named
                 if a < b and named[a] == named[b]}
        if {'d', 'h', 'k'} <= named.keys() and named['d'] != named['h'] * named['k']:
            said.add('d_model is not h·d_k')
        for name, n in (self.sizes | self.counts | self.fixed).items():
            said |= {_above(name, number) for number in self.part.numbers if n > number}
        return self.features | said

def _above(name:str, number:int)->str:
    if name in 'bhtsNM': return f'there are more than {number} {AXES[name]}'
    return f'{AXES.get(name, name)} is more than {number}'

class Draw:
    "One argument: `draw` gives its value, `given` turns that into the conventions of a kit"
    def given(self, value, kit): return value
    def ours(self, value, kit): return value # and back: the value or its gradient
    def lively(self, value, kit): return value # of the same shape, but nothing special

@dataclass
class Numbers(Draw):
    axes: str
    scaled: bool = True        # large and tiny, too
    heads: bool = False        # (b, h, t, d): a kit may exchange axes 1 and 2
    free: bool = False         # of any axes but the last
    def draw(self, case):
        shape = case.shape(self.axes)
        if self.free and case.has('there is no axis of sentences', .3): del shape[0]
        elif self.free and case.has('there is one axis alone', .2): del shape[:-1]
        elif self.free and case.has('there are four axes', .3): shape.insert(1, 3)
        x = case.normal(*shape)
        if self.scaled:
            x = x * case.scale
            if self.heads and case.n % 16 == 14: # scores of 10^10
                x = x * 1e5
                case.features.add('the numbers are around 100,000')
            if case.n >= 8 and case.has('all features of a position are alike', .15):
                x = x[..., :1].expand_as(x).clone()
        return x.requires_grad_()
    def given(self, value, kit): return kit.heads(value) if self.heads else value
    ours = given
    def lively(self, value, kit):
        return None if value is None else torch.randn(
            value.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

@dataclass
class Memory(Numbers):
    "Numbers, or None: what is read is the input itself"
    def draw(self, case):
        if case.n == 0 or case.has('there is a memory'): return super().draw(case)
        case.sizes['s'] = case.size('t')

@dataclass
class Ids(Draw):
    "Tokens (b, t), padded at the end in most cases"
    axes: str
    vocab: str = 'w'           # an axis, whose size is that of the vocabulary
    first: int|None = None     # what stands first in each row
    padded: bool = True
    least: int = 4             # the smallest id, but for padding
    empty: bool = False        # may a row be padding alone?
    def draw(self, case):
        b, t = case.shape(self.axes)
        ids = torch.randint(self.least, case.size(self.vocab), (b, t), generator=case.torch)
        if self.padded and case.has('there is padding', .7):
            lengths = torch.randint(1, t + 1, (b, 1), generator=case.torch)
            if t > 1 and case.has('the last column is padding', .25): lengths.clamp_(max=t - 1)
            elif b > 1: lengths[case.random.randrange(b)] = t
            ids = ids.masked_fill(torch.arange(t) >= lengths, 0)
        if self.empty and case.has('a row is padding alone', .2):
            ids[case.random.randrange(b)] = 0
        if self.first is not None: ids[:, 0] = self.first
        return ids

class _OfMasks(Draw):
    def given(self, value, kit): return kit.mask(value)
    def ours(self, value, kit): return kit.allowed(value)
    def lively(self, value, kit): # nothing is hidden
        if value is None: return None
        all_of_it = torch.ones(value.shape, dtype=torch.bool)
        return self.given(all_of_it, kit) if kit else all_of_it

@dataclass
class Mask(_OfMasks):
    "True where attention is allowed, in every shape that broadcasts to the four axes"
    axes: str                  # of the scores, such as 'b h t s'
    needed: bool = False       # or None in some cases
    empty: bool = True         # may a query attend to nothing?
    def draw(self, case):
        if self.needed: case.features.add('there is a mask')
        elif not case.has('there is a mask', .75): return None
        b, h, t, s = case.shape(self.axes)
        shapes = ((t, s), (b, 1, 1, s), (b, 1, t, s), (h, t, s), (b, h, t, s), (1, h, t, s),
                  (b, h, 1, s), (1, s), (1, 1, t, s))
        shape = shapes[case.n % 9] # each with each of the four kinds of sizes
        kinds = 'some', 'some', 'causal', 'all', *(2 * ('empty',) if self.empty else ())
        kind = kinds[case.n % len(kinds)] if case.n < PLAIN else case.random.choice(kinds)
        mask = torch.rand(shape, generator=case.torch) < .6
        mask[..., case.random.randrange(s)] = True
        if kind == 'all': mask[:] = True
        if kind == 'causal': mask = torch.ones(shape, dtype=torch.bool).tril()
        if kind == 'empty': mask[..., case.random.randrange(shape[-2]), :] = False
        self._note(case, mask)
        return mask

    def _note(self, case, mask):
        if not mask.all(): case.features.add('a mask hides something')
        if (~mask).all(-1).any(): case.features.add('a query may attend to nothing')
        if mask.dim() > 1 and mask.shape[-2] == 1 < case.sizes['t']:
            case.features.add('the mask is the same for all queries')
        if mask.dim() < 3: return
        if mask.dim() == 3: case.features.add('the mask has three axes')
        if mask.shape[-3] > 1: case.features.add('each head has its mask')
        if mask.dim() == 4 and mask.shape[0] > 1: case.features.add('each sentence has its mask')

@dataclass
class Padding(_OfMasks):
    "The mask of a padded source (b, 1, 1, s)"
    axes: str
    def draw(self, case):
        b, s = case.shape(self.axes)
        lengths = torch.full((b, 1), s)
        if case.has('there is padding', .7):
            lengths = torch.randint(1, s + 1, (b, 1), generator=case.torch)
        if case.has('a source is padding alone', .2): lengths[case.random.randrange(b)] = 0
        return (torch.arange(s) < lengths)[:, None, None]

@dataclass
class Causal(_OfMasks):
    axis: str
    def draw(self, case):
        mask = torch.ones([case.size(self.axis)] * 2, dtype=torch.bool)
        if not case.has('the mask is not causal', .3): return mask.tril()
        return mask.triu() | mask.tril(-2)

@dataclass
class Size(Draw):
    axis: str
    def draw(self, case): return case.size(self.axis)

@dataclass
class Choice(Draw):
    "One of several values; the first in the plainest cases; `...` is not given at all"
    values: tuple
    name: str = ''             # for the feature that a value is
    def draw(self, case):
        value = self.values[0] if case.n < PLAIN else case.random.choice(self.values)
        value = case.fixed.get(self.name, value)
        said = 'not given' if value is ... else value
        if self.name and value != self.values[0]: case.features.add(f'{self.name} is {said}')
        if type(value) is int: case.counts[self.name] = value
        return value

@dataclass
class Made(Draw):
    "Anything else, by a function of the case; what has `fresh()` is new for each call"
    make: Callable
    def draw(self, case): return self.make(case)
    def given(self, value, kit):
        return value.under(kit) if hasattr(value, 'under') else value

@dataclass
class Later:
    "An argument that is made of those before it, such as the optimizer of a model"
    make: Callable             # of the list of arguments

@dataclass(frozen=True)
class Part:
    "What is called, and with what"
    name: str                  # of a function or a class
    calls: dict                # method ('': the thing itself) → argument → what is drawn
    new: dict|None = None      # of a class: what its constructor gets
    cases: int = 24
    first: tuple = ()          # parameters whose first values are compared, too
    drops: tuple = ()          # numbers of the cases in training mode, dropout being on
    chance: bool = True        # is it asked which elements are dropped?
    shown: Callable|None = None # of a result and the arguments: what of it counts
    back: Callable|None = None # of a result and a kit: in our own conventions
    tolerance: float = 1e-6
    even: str = ''             # axes whose size is even
    sizes: dict = field(default_factory=dict) # of axes: a number, or f(case)
    seed: int = 0
    once: bool = False         # one call of a case is enough, and its result
    single: bool = False       # asked in single precision, too
    batched: bool = False      # its numbers may come in batches, or one by one
    numbers: tuple = ()        # of a submission's text: sizes near them are asked

    def ours(self, method:str, args:dict, kit)->list: # arguments, in our conventions
        wanted = self.calls[method]
        return [wanted[name].ours(x, kit) if kit else x for name, x in args.items()]

    @cached_property
    def edges(self)->list[tuple]: # an axis, and its size in a case behind the others
        if self.once or self.cases < 5: return []
        case = Case(0, self, {})
        wanted = [d for args in (self.new or {}, *self.calls.values()) for d in args.values()]
        for d in wanted: d.draw(case)
        drawn = {'N': 3, 'M': 3} | dict.fromkeys(case.sizes.keys() - {*'NM'}, 11) # so far
        names = [name for name in case.sizes if not isinstance(self.sizes.get(name), int)]
        names += [d.name for d in wanted if isinstance(d, Choice) and d.name
                  and {*map(type, d.values)} <= {int, type(...)}]
        beside = [(name, number + more) for number in self.numbers for more in (1, 3, 0)
                  for name in names if drawn.get(name, 2) < number <= MOST.get(name, 130)]
        cheap = [x for x in beside if x[1] <= BIG or MOST.get(x[0], 0) > 1000]
        big = [x for x in beside if x not in cheap][:2] # which take long
        return [(name, 1) for name in names if name in LEAST] + big + cheap[:12]

    def case(self, n:int)->Case:
        return Case(n, self, dict([self.edges[n - self.cases]] if n >= self.cases else []))

    def case_features(self, n:int)->set[str]: return self.drawn(n).features

    def drawn(self, n:int, kit=None)->'Drawn':
        "All that case n calls for, in an order that no answer changes"
        case = self.case(n)
        def draw(wanted):
            drawn = {name: d.draw(case) for name, d in wanted.items()}
            if kit: drawn = {name: wanted[name].given(x, kit) for name, x in drawn.items()}
            return {name: case.laid(x) if isinstance(x, Tensor) else x
                    for name, x in drawn.items()}
        new = draw(self.new or {})
        first = {method: draw(wanted) for method, wanted in self.calls.items()}
        features, sizes = case.described(), dict(case.sizes) # of a first call
        case.grow()
        calls = {name: (first[name], draw(wanted)) for name, wanted in self.calls.items()}
        return Drawn(case, features, new, calls, sizes)

@dataclass
class Drawn:
    case: Case
    features: set[str]
    new: dict                  # of the constructor, by name
    calls: dict                # method → the arguments of a first and of a second call
    sizes: dict                # of a first call
