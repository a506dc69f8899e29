"Which Transformer is it? Found from its own weights, from front to back"
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
import torch
from torch import Tensor
from torch.nn import functional as F
from ..embedding import positional_encoding, rotate
from ..parts import ACTIVATIONS
from .record import Linear

TOLERANCE = 1e-6 # of a part in float64: wide, since constants may be in single precision

def differs(a:Tensor, b:Tensor)->float: # the largest difference, in units of the largest b
    if a.shape != b.shape: return float('inf')
    largest = b.abs().max().item() or 1.
    found = (a - b).abs().max().item() / largest
    return found if found == found else float('inf')

def same(a:Tensor, b:Tensor)->bool: return differs(a, b) < TOLERANCE

# Norms

@dataclass
class Norm:
    kind: str # of `NORMS`
    eps: float
    weight: Tensor|None
    bias: Tensor|None

NORMS = { # what x less its mean is divided by; eps is solved for
    'layernorm': lambda x: (x.var(-1, unbiased=False), True),
    'layernorm, unbiased deviation + eps': lambda x: (x.std(-1), False),
    'layernorm, unbiased variance + eps': lambda x: (x.var(-1), True),
    'layernorm, deviation + eps': lambda x: (x.std(-1, unbiased=False), False),
    'rmsnorm': lambda x: (x.square().mean(-1), True),
    'rmsnorm, root + eps': lambda x: (x.square().mean(-1).sqrt(), False)}

def normalize(norm:Norm, x:Tensor)->Tensor:
    amount, is_square = NORMS[norm.kind](x)
    amount = (amount + norm.eps)[..., None]
    if norm.kind.startswith('layer'): x = x - x.mean(-1, keepdim=True)
    x = x / (amount.sqrt() if is_square else amount)
    if norm.weight is not None: x = x * norm.weight
    return x if norm.bias is None else x + norm.bias

def find_norms(x:Tensor, ys:list[Tensor], vectors:list[Tensor])->list[tuple[Norm,Tensor]]:
    "Those of the ys that a norm makes of x (n, d), with gain and bias among the vectors"
    ys = [y for y in ys if y.shape == x.shape]
    if not ys: return []
    found, all_ys = {}, torch.stack(ys) # (m, n, d)
    for centred in (True, False):
        u = x - x.mean(-1, keepdim=True) if centred else x
        unit = u / u.square().mean(-1, keepdim=True).sqrt()
        weight, bias = _per_column(unit, all_ys, centred)
        miss = (unit*weight + bias - all_ys).flatten(1).norm(dim=1)
        near = miss < 0.2*all_ys.flatten(1).norm(dim=1)
        for i in near.nonzero().flatten().tolist():
            fit = _fit_norm(x, u, ys[i], weight[i, 0], bias[i, 0], vectors, centred)
            if fit and (i not in found or fit[0] < found[i][0]): found[i] = fit
    return [(found[i][1], ys[i]) for i in sorted(found)]

def _fit_norm(x, u, y, weight, bias, vectors, centred:bool)->tuple[float,Norm]|None:
    weight = _nearest(weight, vectors, torch.ones_like(weight))
    bias = _nearest(bias, vectors, torch.zeros_like(bias)) if centred else None
    shifted = y if bias is None else y - bias
    u_w = u if weight is None else u*weight
    s = u_w.square().sum(-1) / (u_w*shifted).sum(-1) # what each row was divided by
    if not same(u_w / s[:, None], shifted): return None
    kinds = [kind for kind in NORMS if kind.startswith('layer') == centred]
    fits = [_solve_eps(kind, x, s) for kind in kinds]
    best = min(spread for spread, *_ in fits)
    if best > 1e-4: return None
    near = [fit for fit in fits if fit[0] <= max(30*best, 1e-13)] # the usual one first
    spread, kind, eps = near[0]
    return spread, Norm(kind, eps, weight, bias)

def _per_column(x:Tensor, y:Tensor, with_bias:bool)->tuple[Tensor,Tensor]: # (m, 1, d)
    if not with_bias:
        slope = (x*y).sum(1, keepdim=True) / x.square().sum(0)
        return slope, torch.zeros_like(slope)
    mean, dx = y.mean(1, keepdim=True), x - x.mean(0)
    slope = (dx * (y - mean)).sum(1, keepdim=True) / dx.square().sum(0)
    return slope, mean - slope*x.mean(0)

def _nearest(estimate:Tensor, vectors:list[Tensor], neutral:Tensor)->Tensor|None:
    "One of the vectors, or None where the neutral one is nearest"
    rivals = [v for v in vectors if v.shape == estimate.shape]
    distances = [(estimate - v).norm().item() for v in [neutral, *rivals]]
    best = distances.index(min(distances))
    return None if best == 0 else rivals[best - 1]

def _solve_eps(kind:str, x:Tensor, s:Tensor)->tuple[float,str,float]:
    amount, is_square = NORMS[kind](x)
    total = s.square() if is_square else s
    eps = total - amount
    spread = (eps.max() - eps.min()) / amount.max()
    middle, noise = eps.median().item(), (eps.max() - eps.min()).item()
    usual = [e for e in (1e-5, 1e-6) if noise > 1e-9 and abs(e - middle) < noise]
    if usual: return spread.item(), kind, usual[-1] # in single precision
    return spread.item(), kind, float(f'{middle:.2g}') if middle > 1e-13 else 0.

# Positions and embeddings

def _halves(t:int, d:int, last:int)->Tensor:
    wave = 10000.**(torch.arange(d // 2) / last)
    angle = torch.arange(t)[:, None] / wave
    return torch.cat([angle.sin(), angle.cos()], 1)

def _squared(t:int, d:int)->Tensor: # another frequency in each dimension, squared
    i = torch.arange(d)
    angle = torch.arange(t)[:, None] / 10000.**(2*i / d)
    return angle.sin().where(i % 2 == 0, angle.cos())

def _each(t:int, d:int)->Tensor: # another frequency in each dimension
    i = torch.arange(d)
    angle = torch.arange(t)[:, None] / 10000.**(i / d)
    return angle.sin().where(i % 2 == 0, angle.cos())

SINUSOIDS = { # by name, a table (t, d)
    'sinusoidal': lambda t, d: positional_encoding(t, d, torch.float64),
    'sinusoidal, in halves': lambda t, d: _halves(t, d, d / 2),
    'sinusoidal, in halves, to 1/10000': lambda t, d: _halves(t, d, d/2 - 1),
    'sinusoidal, cosines by the next frequency': _each,
    'sinusoidal, exponents doubled': _squared}

@dataclass
class Embedded:
    "What a stack begins with: scale · row of the matrix + position"
    weight: Tensor
    scale: float
    positions: str # of `SINUSOIDS`, 'learned', 'none' or 'a table of its own'
    offset: int    # of the first position
    table: Tensor  # (t, d), as measured
    x: Tensor      # (b·t, d)
    rows: Tensor|None = None # of a learned table

def find_embedding(ids:Tensor, steps:list, matrices:list[Tensor], time_major:bool
                  )->Embedded|None:
    "The last step that is an affine function of the embeddings, position by position"
    b, t = ids.shape
    for step in reversed(steps):
        d = step.output.shape[-1] if step.output.dim() else 0
        if step.output.numel() != b*t*d or d < 2: continue
        x = to_rows(step.output.reshape(-1, d), b, time_major).view(b, t, d)
        for matrix in matrices:
            if matrix.shape[1] != d or matrix.shape[0] <= ids.max(): continue
            rows = matrix[ids]
            dx, de = x[0] - x[1], rows[0] - rows[1]
            scale = ((dx*de).sum() / de.square().sum()).item()
            if abs(scale) < 1e-3 or not same(dx, scale*de): continue
            table = (x - scale*rows)[0]
            if not same(rows*scale + table, x): continue
            return _name_positions(matrix, scale, table, x.flatten(0, 1), matrices)

def _name_positions(matrix, scale, table, x, matrices)->Embedded:
    t, d = table.shape
    if table.abs().max() < 1e-6: return Embedded(matrix, scale, 'none', 0, table, x)
    for offset, (name, make) in product(range(4), SINUSOIDS.items()):
        right = make(t + offset, d)[offset:].to(table)
        if (right - table).abs().max() < 1e-5:
            return Embedded(matrix, scale, name, offset, table, x)
    for rows in matrices:
        for offset in range(4):
            part = rows[offset:offset + t]
            if part.shape != table.shape: continue
            factor = (part*table).sum() / part.square().sum()
            if same(part*factor, table):
                return Embedded(matrix, scale, 'learned', offset, table, x, rows)
    return Embedded(matrix, scale, 'a table of its own', 0, table, x)

def to_rows(x:Tensor, b:int, time_major:bool)->Tensor: # (n, d), sentence by sentence
    if not time_major: return x
    return x.unflatten(0, (-1, b)).transpose(0, 1).flatten(0, 1)

# Attention

@dataclass
class Reading:
    "Where the queries, keys and values of each head lie among columns"
    name: str
    n_heads: int
    n_kv_heads: int
    index: list[Tensor] # of q, k and v; heads one after another
    is_inner: bool = False # the heads' number runs fastest

@dataclass
class Attention:
    reading: Reading
    scale: str     # of `SCALES`
    causal: bool
    positions: str # of `ROTARY`
    qk_norm: list[Norm]
    maps: list     # weight and bias of q, k, v and output, in the book's order
    factor: float  # what its scores are multiplied by
    output: Tensor
    uses: list[Linear]
    bias: Tensor|None = None # in the scores, by position (h, t, s)

SCALES = {'1/√d_k': lambda d_k, d, h: d_k**-.5, 'none': lambda d_k, d, h: 1.,
          '1/√d_model': lambda d_k, d, h: d**-.5, '1/d_k': lambda d_k, d, h: 1 / d_k,
          '√d_k': lambda d_k, d, h: d_k**.5, '1/√h': lambda d_k, d, h: h**-.5}

def _turn_halves(x:Tensor)->Tensor: # as in GPT-NeoX
    order = torch.arange(x.shape[-1]).view(2, -1).T.flatten()
    return rotate(x[..., order])[..., order.argsort()]

BIAS = 'a bias in the scores'
ROTARY = {'': lambda x: x, 'rotary': rotate, 'rotary, in halves': _turn_halves,
          BIAS: lambda x: x}

def columns(uses:list[Linear])->Tensor: return torch.cat([u.output for u in uses], 1)

def weights(uses:list[Linear], index:Tensor)->tuple[Tensor,Tensor|None]:
    weight = torch.cat([u.weight for u in uses])[index]
    if all(u.bias is None for u in uses): return weight, None
    biases = [u.weight.new_zeros(len(u.weight)) if u.bias is None else u.bias for u in uses]
    return weight, torch.cat(biases)[index]

def readings(own:list[Linear], other:list[Linear], h:int)->Iterator[Reading]:
    "Of queries, keys and values from one input, or of keys and values from another"
    if not other: yield from _split(own, h, 3)
    else:
        q = torch.arange(sum(len(u.weight) for u in own))
        for r in _split(other, h, 2): yield Reading(r.name, h, r.n_kv_heads, [q, *r.index])

def _split(uses:list[Linear], h:int, n_roles:int)->Iterator[Reading]:
    sizes = [len(u.weight) for u in uses]
    index, orders = torch.arange(sum(sizes)), list(permutations(range(n_roles)))
    if len(sizes) == n_roles:
        parts = index.split(sizes)
        for order in orders:
            mine = [parts[i] for i in order]
            kv = h * len(mine[-2]) // len(mine[0]) if n_roles == 3 else None
            for n in [kv] if kv else range(h, 0, -1):
                if h % n == 0: yield Reading('a matrix each', h, n, mine)
        return
    for kv in [n for n in range(h, 0, -1) if h % n == 0]:
        n_heads = [h, kv, kv][-n_roles:]
        size, rest = divmod(len(index), sum(n_heads))
        if rest: continue
        for order in orders:
            parts = index.split([n_heads[i] * size for i in order])
            yield Reading('fused', h, kv, [parts[order.index(i)] for i in range(n_roles)])
    for order in orders if len(index) % (h*n_roles) == 0 else ():
        by_head = index.view(h, n_roles, -1)
        yield Reading('by head', h, h, [by_head[:, i].flatten() for i in order])

def _inner(r:Reading)->Reading: # the same columns, where heads run fastest
    counts = r.n_heads, r.n_kv_heads, r.n_kv_heads
    index = [i.view(-1, n).T.flatten() for i, n in zip(r.index, counts)]
    return Reading(f'{r.name}, heads innermost', *counts[:2], index, True)

def _in_heads(x:Tensor, b:int, h:int)->Tensor: # (b·t, h·d) to (b, h, t, d)
    return x.reshape(b, -1, h, x.shape[1] // h).transpose(1, 2)

def attend(q:Tensor, k:Tensor, v:Tensor, factor:float, causal:bool, seen:list[Tensor]|None
          )->tuple[Tensor|None,Tensor]: # bias, heads
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores, bias = q @ k.mT * factor, None
    if seen is not None:
        bias = find_bias(scores, seen)
        if bias is None: return None, v
        scores = scores + bias
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1) & causal
    return bias, scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v

def find_bias(scores:Tensor, seen:list[Tensor])->Tensor|None: # (h, t, s)
    "What was added to the scores, if it is the same for all sentences"
    for x in seen:
        if x.numel() != scores.numel(): continue
        bias = x.reshape(scores.shape).to(scores) - scores
        is_open = (bias > -1e4).all(0)
        if is_open.any() and same(bias[1:, is_open],
                                  bias[:1, is_open].expand(len(bias) - 1, -1)):
            return bias[0].where(is_open, torch.zeros_like(bias[0]))

def _settings(vectors:list[Tensor], d_k:int)->Iterator[tuple[str,float|None,str]]:
    "Positions, eps of normalized queries and keys, scale; the usual first"
    has_norms = sum(v.numel() == d_k for v in vectors) > 1
    eps = (None, 1e-6, 1e-5, 1e-8) if has_norms else (None,)
    yield from sorted(product(ROTARY, eps, SCALES), key=lambda s: s != ('', None, '1/√d_k'))

def find_attention(own:list[Linear], other:list[Linear], heads:list[int], b:int,
                   readers:list[Linear], vectors:list[Tensor], causal:bool,
                   seen:list[Tensor] # inputs of softmaxes
                  )->Attention|None:
    "The attention whose heads some linear map reads afterwards"
    x, source = columns(own), columns(other or own)
    by_shape = {} # so that all of one shape are compared at once
    for use in readers: by_shape.setdefault(use.input.shape, []).append(use)
    stacks = {shape: (torch.stack([u.input for u in uses]), uses)
              for shape, uses in by_shape.items()}
    for h in heads:
        for r in readings(own, other, h):
            if not _fits(r): continue
            for reading in (r, _inner(r)) if h > 1 else (r,):
                q, k, v = _projected(reading, x, source, b)
                for s in _settings(vectors, q.shape[-1]):
                    for c in dict.fromkeys([causal, causal and not other, False]):
                        found = _try(reading, q, k, v, s, c, own, other, stacks, vectors, seen)
                        if found: return found

def _fits(r:Reading)->bool:
    q, k, v = map(len, r.index)
    counts = (q, r.n_heads), (k, r.n_kv_heads), (v, r.n_kv_heads)
    return all(n % c == 0 for n, c in counts) and q*r.n_kv_heads == k*r.n_heads

def _projected(r:Reading, x:Tensor, source:Tensor, b:int)->list[Tensor]:
    inputs, counts = (x, source, source), (r.n_heads, r.n_kv_heads, r.n_kv_heads)
    return [_in_heads(y[:, i], b, n) for y, i, n in zip(inputs, r.index, counts)]

def _try(r, q, k, v, settings, causal, own, other, stacks, vectors, seen)->Attention|None:
    rotary, eps, scale = settings
    h, d_k, norms = r.n_heads, q.shape[-1], []
    if rotary and (other or d_k % 2): return None
    if eps is not None:
        pair = [v for v in vectors if v.numel() == d_k][:2]
        norms = [Norm('rmsnorm', eps, w, None) for w in pair]
        q, k = normalize(norms[0], q), normalize(norms[1], k)
    q, k = ROTARY[rotary](q), ROTARY[rotary](k)
    factor = SCALES[scale](d_k, own[0].weight.shape[1], h)
    is_biased = rotary == BIAS
    bias, out = attend(q, k, v, factor, causal, seen if is_biased else None)
    if is_biased and bias is None: return None
    rows = out.transpose(1, 2) # (b, t, h, d_v)
    if r.is_inner: rows = rows.transpose(2, 3)
    rows = rows.flatten(2).flatten(0, 1)
    if rows.shape not in stacks: return None
    inputs, uses = stacks[rows.shape]
    near = (inputs - rows).abs().flatten(1).amax(1) < TOLERANCE * rows.abs().max()
    for use in [uses[i] for i in near.nonzero().flatten().tolist()]:
        order = torch.arange(rows.shape[1])
        if r.is_inner: order = order.view(-1, h).T.flatten()
        source = other or own
        maps = [weights(own, r.index[0]), *(weights(source, i) for i in r.index[1:]),
                (use.weight[:, order], use.bias)]
        uses = list(dict.fromkeys([*own, *other, use]))
        return Attention(r, scale, causal, rotary, norms, maps, factor, use.output, uses,
                         bias)

# Feed-forward networks

def _gated(name:str): return lambda a, b: ACTIVATIONS[name](a) * b
ACTIVATE = ACTIVATIONS | {'relu²': lambda x: F.relu(x)**2, 'tanh': torch.tanh,
                          'leaky relu': F.leaky_relu, 'sigmoid': torch.sigmoid,
                          'elu': F.elu, 'none': lambda x: x}
GATES = {'swiglu': _gated('silu'), 'geglu': _gated('gelu'), 'reglu': _gated('relu'),
         'geglu_new': _gated('gelu_new'), 'glu': lambda a, b: torch.sigmoid(a) * b}

@dataclass
class FeedForward:
    activation: str
    maps: list # weight and bias, in order; a gate first
    output: Tensor
    uses: list[Linear]

def find_feed_forward(own:list[Linear], readers:list[Linear])->FeedForward|None:
    x = columns(own)
    d_ff, is_even = x.shape[1] // 2, x.shape[1] % 2 == 0
    half, other = torch.arange(x.shape[1]).split(d_ff)[:2] if is_even else (None, None)
    tries = [(name, act(x), []) for name, act in ACTIVATE.items()]
    for gate, inner in ((half, other), (other, half)) if is_even else ():
        tries += [(name, act(x[:, gate], x[:, inner]), [gate, inner])
                  for name, act in GATES.items()]
    for (name, hidden, parts), use in product(tries, readers):
        if not same(use.input, hidden): continue
        parts = parts or [torch.arange(x.shape[1])]
        maps = [*(weights(own, i) for i in parts), (use.weight, use.bias)]
        return FeedForward(name, maps, use.output, [*own, use])

# The walk from front to back

@dataclass
class Part:
    "A sub-layer that settings explain"
    name: str   # 'encoder layer 1, self-attention'
    what: Attention|FeedForward
    before: Norm|None
    after: Norm|None
    residual: str # '' as in the paper, 'of the normalized' or 'missing'

@dataclass
class State:
    side: str
    parts: tuple[Part,...]
    used: frozenset
    x: Tensor
    memory: Tensor|None = None
    norms: tuple = ()   # at the end of the stacks, by side
    phase: int = 0

    @property
    def progress(self)->tuple[int,bool]: return len(self.parts), self.side == 'decoder'

PHASES = dict(encoder=('self-attention', 'feed-forward network'),
              decoder=('self-attention', 'cross-attention', 'feed-forward network'))

class Walk:
    "Explains one part after another, and remembers how far it came"
    def __init__(self, uses:list[Linear], starts:tuple[Tensor,Tensor], b:int,
                 heads:dict, vectors:list[Tensor], values:list[Tensor], scores:list[Tensor],
                 logits:Tensor):
        self.uses, self.starts, self.b, self.heads = uses, starts, b, heads
        self.vectors, self.values, self.logits = vectors, values, logits
        self.seen_scores = scores
        self.groups = [] # an input and those that read it
        for use in uses:
            for y, readers in self.groups:
                if same(y, use.input):
                    readers.append(use)
                    break
            else: self.groups.append((use.input, [use]))
        self.furthest, self.seen = None, {}
        self.known = {} # what was explained or not, by the maps that read
        self.factor = 1. # of the input of the output
        self.half = 0, '', None # a sub-layer without what should follow it
        self.odd = False # whether residuals may be other than the paper's

    def readers(self, x:Tensor, used:frozenset)->list[tuple[Norm|None,Tensor,list]]:
        "Who reads x, and who reads a norm of x"
        if id(x) not in self.seen:
            found = [(None, y, uses) for y, uses in self.groups if same(y, x)]
            others = {id(y): uses for y, uses in self.groups if not same(y, x)}
            ys = [y for y, _ in self.groups if id(y) in others]
            norms = find_norms(x, ys, self.vectors)
            found += [(norm, y, others[id(y)]) for norm, y in norms]
            self.seen[id(x)] = x, found
        found = [(norm, y, [u for u in uses if u.number not in used])
                 for norm, y, uses in self.seen[id(x)][1]]
        return [group for group in found if group[2]]

    def name(self, state:State)->str:
        done = [p for p in state.parts if p.name.startswith(state.side)]
        phases = PHASES[state.side]
        layer = 1 + len(done) // len(phases)
        return f'{state.side} layer {layer}, {phases[state.phase]}'

    def run(self, state:State)->State|None: # where all is explained
        if self.furthest is None or state.progress > self.furthest.progress:
            self.furthest = state
        for following in self.options(state):
            if following.phase < 0: return following
            found = self.run(following)
            if found: return found

    def options(self, state:State)->Iterator[State]:
        for norm, y, uses in self.readers(state.x, state.used):
            key = state.phase, id(state.memory), *(id(u) for u in uses)
            if key not in self.known: self.known[key] = self.explain(state, uses)
            what = self.known[key]
            if what is None: continue
            following = list(self.streams(state, norm, y, what))
            if not following and len(state.parts) >= self.half[0]:
                self.half = len(state.parts), self.name(state), what
            yield from following
        if state.phase == 0 and state.parts: yield from self.ends(state)

    def explain(self, state:State, uses:list[Linear])->Attention|FeedForward|None:
        phase, side = PHASES[state.side][state.phase], state.side
        free = [u for u in self.uses if u.number not in state.used and u not in uses]
        if phase == 'feed-forward network': return find_feed_forward(uses, free)
        of = self.heads[side, phase]
        rest = self.b, free, self.free_vectors(state), side == 'decoder', self.seen_scores
        if phase == 'self-attention': return find_attention(uses, [], of, *rest)
        own = [u for u in self.memory_readers(state)]
        for n in (2, 1, *(2*h for h in of)):
            if len(own) < n: continue
            found = find_attention(uses, own[:n], of, self.b, free, rest[2], False,
                                   self.seen_scores)
            if found: return found

    def memory_readers(self, state:State)->list[Linear]:
        return [u for y, uses in self.groups if same(y, state.memory)
                for u in uses if u.number not in state.used]

    def free_vectors(self, state:State)->list[Tensor]:
        taken = [id(n.weight) for p in state.parts if isinstance(p.what, Attention)
                 for n in p.what.qk_norm]
        return [v for v in self.vectors if id(v) not in taken]

    def streams(self, state:State, norm, y, what)->Iterator[State]:
        "What goes on: the sum, or a norm of it"
        used = state.used | {u.number for u in what.uses}
        sums = {'': state.x + what.output}
        if self.odd: sums['missing'] = what.output
        if self.odd and norm: sums['of the normalized'] = y + what.output
        n = len(PHASES[state.side])
        for residual, x in sums.items():
            after = [(found, z) for found, z, _ in self.readers(x, used)]
            plain = [(None, x)] if after else []
            normed = [(found, z) for found, z in after if found]
            if not after: normed = find_norms(x, self.values, self.vectors)[-1:]
            if norm and normed: plain = [(None, x)]
            for found, z in plain + normed if norm else normed + plain:
                part = Part(self.name(state), what, norm, found, residual)
                yield State(state.side, (*state.parts, part), used, z, state.memory,
                            state.norms, (state.phase + 1) % n)

    def ends(self, state:State)->Iterator[State]:
        for norm, y, uses in self.readers(state.x, state.used):
            norms = *state.norms, norm
            rest = {u.number for u in self.uses if len(u.input) == len(y)} - state.used
            if not rest <= {u.number for u in uses}: continue # something else comes
            if state.side == 'encoder':
                yield State('decoder', state.parts, state.used, self.starts[1], y, norms)
            elif uses[0].output.shape == self.logits.shape:
                self.output = uses[0]
                yield State('decoder', state.parts, state.used, y, state.memory, norms, -1)
        if state.side == 'decoder' and not self.readers(state.x, state.used):
            yield from self.scaled_end(state)

    def scaled_end(self, state:State)->Iterator[State]: # as T5's
        "The output reads a multiple of the last norm"
        for norm, y in find_norms(state.x, self.values, self.vectors)[-1:]:
            for x, uses in self.groups:
                if x.shape != y.shape: continue
                factor = (x*y).sum() / y.square().sum()
                if not same(x, factor*y) or uses[0].output.shape != self.logits.shape:
                    continue
                self.output, self.factor = uses[0], factor.item()
                norms = *state.norms, norm
                yield State('decoder', state.parts, state.used, y, state.memory, norms, -1)

    def unexplained(self)->tuple[str,str]: # the part, and the lines between which it lies
        "What no setting explains: a sub-layer, or what should follow it"
        state, (n, name, what) = self.furthest, self.half
        done = [p.what for p in state.parts]
        if what and n == len(state.parts):
            name, done = f'{name}: the sum or the norm after it', [*done, what]
        else: name = self.name(state)
        used = {u.number for d in done for u in d.uses}
        last = max((u for u in self.uses if u.number in used), key=lambda u: u.number,
                   default=None)
        rest = [u for u in self.uses if u.number not in used
                and (not last or u.number > last.number)]
        following = min(rest, key=lambda u: u.number, default=None)
        if not following or following.output.shape == self.logits.shape:
            name = f'{state.side}: what follows its last layer'
        ends = [u.line for u in (last, following) if u]
        return name, ' to '.join(dict.fromkeys(ends))
