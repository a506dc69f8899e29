"""Small models, sub-layers and tokenizers that a submission is given"""
import torch
from copy import deepcopy
from dataclasses import dataclass
from torch import Tensor, nn
from torch.nn import functional as F
from ..proving.draw import Choice
from ..support.core import EOS, PAD
from .kit import Kit

class SubLayer(nn.Module):
    "What it gives depends on its arguments, and on how often it has been called"
    def __init__(self, same:bool=False):
        super().__init__()
        self.calls, self.same, self.factor = 0, same, nn.Parameter(torch.tensor(2.))
    def fresh(self): return SubLayer(self.same)
    def forward(self, x, more=1., added=0.): # to which None is something else
        if self.same: return x
        self.calls += 1
        more, added = (.7 if y is None else y for y in (more, added))
        return (self.factor * x).tanh() * more + .1 * x.square() + added + self.calls - 1

class Toy(nn.Module):
    """A model of tables: the next token depends on the last two, on their number and on the
    source. In training mode it says something else, and it notes nothing"""
    def __init__(self, seed:int, v:int=8, max_len:int=60, end:float=1., pads:bool=False,
                 positions:int=0, # at most, if any number
                 kit:Kit=Kit()):
        nn.Module.__init__(self) # whatever else it is: see `long_running`
        generator = torch.Generator().manual_seed(seed)
        def draw(*shape):
            return torch.randn(shape, generator=generator, dtype=torch.float64)
        self.inner, self.made, self.kit = nn.Module(), (seed, v, max_len, end, pads, positions), kit
        self.last, self.before = nn.Parameter(1.5 * draw(v, v)), nn.Parameter(draw(v, v))
        self.place, self.source = draw(max_len + 1, v), nn.Parameter(draw(v, v))
        with torch.no_grad():
            self.last[:, EOS] += end     # outputs of several lengths
            if not pads: self.last[:, :EOS] -= 30 # `<pad>`, `<s>` are never predicted
        self.eval()

    def __repr__(self): return f'{type(self).__name__}{self.made}' # as the book's `grading.toys` has it
    def fresh(self): return self.under(self.kit)
    def limit(self, n:int): self.made = (*self.made[:-1], n)
    def under(self, kit):
        new = type(self)(*self.made, kit).train(self.training)
        new.inner.train(self.inner.training)
        return new

    def encode(self, src): # which depends on the order of its tokens (b, s, v)
        places = torch.arange(1., 1 + src.shape[1])
        return self.source[src] / places[:, None].sqrt()

    def decode(self, tgt, memory, memory_mask):
        most = self.made[-1] or tgt.shape[1]
        if tgt.shape[1] > most: raise ValueError(f'more than {most} positions')
        allowed = self.kit.allowed(memory_mask) # (b, 1, 1, s)
        read = (memory * allowed[:, 0, 0, :, None]).sum(1, keepdim=True)
        before = F.pad(tgt, (1, 0))[:, :-1]
        own = self.last[tgt] + self.before[before] + self.place[:tgt.shape[1]]
        return own * (1.7 if self.inner.training else 1.) + .5 * read # logits (b, t, v)

    def forward(self, src, tgt):
        real = (src != PAD)[:, None, None]
        return self.decode(tgt, self.encode(src), self.kit.mask(real))

class Steep(Toy): # any clip would cut its gradients
    def decode(self, *args): return 60 * super().decode(*args)

class Speaker(Toy): # of tables, without a source
    def forward(self, ids): return self.decode(ids, torch.zeros(1, 1, 8), torch.ones(1, 1, 1, 1))

def searched(case)->Toy:
    "A model for a search: most end soon, some seldom, and some may choose `<pad>`"
    if case.n % 24 == 12 and hasattr(case, 'model'): return case.model # for another source
    kind = case.random.choice(['', '', '', 'pad', 'long', 'even', 'soon'])
    if kind == 'pad': case.features.add('the model may choose <pad> or <s>')
    if kind == 'long': case.features.add('the model seldom ends an output')
    end = {'long': -2.5, 'even': 0., 'soon': 9.}.get(kind, 1.)
    most = case.fixed.get('max_steps', 0) # so many tokens, which no end cuts off
    case.model = Toy(case.random.randrange(10**6), max_len=max(60, most + 3),
                     end=-30. if most else end, pads=kind == 'pad')
    case.model.fresh = lambda model=case.model: model
    return case.model

@dataclass
class Steps(Choice):
    "`max_steps`; in some cases, the model has no more positions than it needs"
    name: str = 'max_steps'
    begun: str = '1'           # an axis: so many tokens are given
    def draw(self, case):
        n = super().draw(case)
        if case.n % 24 != 12 and case.has('the model has no more positions than that needs', .3):
            case.model.limit(n + case.size(self.begun) - 1)
        return n

class Net(nn.Module):
    "Two linear maps, for an optimizer"
    def __init__(self, seed:int, is_tiny:bool=False):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.second, self.made = nn.Linear(3, 4), nn.Linear(4, 2), (seed, is_tiny)
        self.second.bias.requires_grad_(seed % 2 == 0)
        self.double()
    def fresh(self): return Net(*self.made)

def steps_of(optimizer, args)->list[Tensor]: # of the model
    "What the parameters are after steps at several rates, with gradients of several sizes"
    [net] = args
    generator = torch.Generator().manual_seed(3)
    sizes = (1e-9, 1e-8, 1e-9, 1e-7) if net.made[1] else (1., 1e-3, 10., .1)
    for i, size in enumerate(sizes, 1):
        for group in optimizer.param_groups: group['lr'] = .01 * i
        for p in net.parameters():
            drawn = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            p.grad = size * drawn if p.requires_grad else None
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]

class Batches:
    "Batches that can be taken once, as from a loader"
    def __init__(self, rows): self.rows, self.taken = rows, 0
    def fresh(self): return Batches(self.rows)
    def __iter__(self):
        while self.taken < len(self.rows):
            self.taken += 1
            yield deepcopy(self.rows[self.taken - 1])

class Digits:
    "A tokenizer of digits, several of which make a word"
    def __init__(self, shift:int=0): self.shift = shift
    def fresh(self): return Digits(self.shift)
    def encode(self, text):
        return [4 + (int(c) - 4 + self.shift) % 4 for c in text if c != ' ']
    def decode(self, ids): return ' '.join(str(int(i)) for i in ids)
