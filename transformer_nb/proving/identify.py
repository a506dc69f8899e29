"Which Transformer is it? Found from its own weights, from front to back"
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, permutations, product
from math import inf
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from ..embedding import rotate
from ..model import TransformerConfig
from ..parts import ACTIVATIONS
from .foreign import Foreign
from .record import Linear, Recorder, record

B, S, T = 3, 11, 7 # sentences and lengths, so that every axis can be told from the others

def apart(a:Tensor, b:Tensor)->Tensor: # inf where one is NaN; 0 for equal infinities
    return torch.where(a == b, 0., a - b).abs().nan_to_num(torch.inf)

def differs(a:Tensor, b:Tensor)->float: # the most, in units of the largest number
    if a.shape != b.shape: return torch.inf
    scale = b.nan_to_num(0., 0., 0.).abs().max()
    return (apart(a, b).max() / scale.clamp(min=1e-30)).item()

def same(a:Tensor, b:Tensor)->bool: return differs(a, b) < 1e-6 # some is in float32

def ratio(a:Tensor, b:Tensor)->float: # times b is nearest to a
    return ((a*b).sum() / b.square().sum()).item()

# Norms

NORMS = { # what x less its mean is divided by; eps is solved for
    'layernorm': lambda x: (x.var(-1, unbiased=False), True),
    'layernorm, unbiased deviation + eps': lambda x: (x.std(-1), False),
    'layernorm, unbiased variance + eps': lambda x: (x.var(-1), True),
    'layernorm, deviation + eps': lambda x: (x.std(-1, unbiased=False), False),
    'rmsnorm': lambda x: (x.square().mean(-1), True),
    'rmsnorm, root + eps': lambda x: (x.square().mean(-1).sqrt(), False)}

class Norm(nn.Module):
    def __init__(self, kind:str, # of `NORMS`
                 eps:float, weight:Tensor|None, bias:Tensor|None):
        super().__init__()
        self.kind, self.eps, self.weight, self.bias = kind, eps, weight, bias

    def forward(self, x:Tensor)->Tensor:
        amount, is_square = NORMS[self.kind](x)
        amount = (amount + self.eps)[..., None]
        if self.kind.startswith('layer'): x = x - x.mean(-1, keepdim=True)
        x = x / (amount.sqrt() if is_square else amount)
        if self.weight is not None: x = x * self.weight
        return x if self.bias is None else x + self.bias

def find_norms(x:Tensor, ys:list[Tensor], vectors:list[Tensor])->list[tuple[Norm,Tensor]]:
    "Those of the ys that a norm makes of x (n, d), with gain and bias among the vectors"
    ys = [y for y in ys if y.shape == x.shape]
    if not ys: return []
    found, all_ys = {}, torch.stack(ys) # (m, n, d)
    for centred in (True, False):
        u = x - x.mean(-1, keepdim=True) if centred else x
        unit = u / u.square().mean(-1, keepdim=True).sqrt()
        middle, du = all_ys.mean(1, keepdim=True), unit - unit.mean(0)
        gains = (du * (all_ys - middle)).sum(1, keepdim=True) / du.square().sum(0)
        shifts = middle - gains*unit.mean(0) # both by least squares (m, 1, d)
        miss = (unit*gains + shifts - all_ys).flatten(1).norm(dim=1)
        near = miss < 0.2*all_ys.flatten(1).norm(dim=1)
        for i in near.nonzero().flatten().tolist():
            norm = _fit_norm(x, u, ys[i], gains[i, 0], shifts[i, 0], vectors, centred)
            if norm: found.setdefault(i, norm)
    return [(found[i], ys[i]) for i in sorted(found)]

def _fit_norm(x, u, y, gain:Tensor, shift:Tensor, vectors, centred:bool)->Norm|None:
    weight = _nearest(gain, vectors, torch.ones_like(gain))
    bias = _nearest(shift, vectors, torch.zeros_like(shift))
    shifted = y if bias is None else y - bias
    u_w = u if weight is None else u*weight
    s = u_w.square().sum(-1) / (u_w*shifted).sum(-1) # what each row was divided by
    if not same(u_w / s[:, None], shifted): return None
    kinds = [kind for kind in NORMS if kind.startswith('layer') == centred]
    fits = [_solve_eps(kind, x, s) for kind in kinds]
    best = min(spread for spread, *_ in fits)
    if best > 1e-4: return None
    near = [fit for fit in fits if fit[0] <= max(30*best, 1e-13)] # the usual one first
    _, kind, eps = near[0]
    return Norm(kind, eps, weight, bias)

def _nearest(estimate:Tensor, vectors:list[Tensor], neutral:Tensor)->Tensor|None:
    "One of the vectors, or None where the neutral one is nearest"
    rivals = [neutral, *(v for v in vectors if v.shape == neutral.shape)]
    best = min(rivals, key=lambda v: (estimate - v).norm())
    return None if best is neutral else best

def _solve_eps(kind:str, x:Tensor, s:Tensor)->tuple[float,str,float]:
    amount, is_square = NORMS[kind](x)
    eps = (s.square() if is_square else s) - amount
    middle, noise = eps.median().item(), eps.max().item() - eps.min().item()
    spread = noise / amount.max().item()
    usual = [e for e in (1e-6, 1e-5) if noise > 1e-9 and abs(e - middle) < noise]
    if usual: return spread, kind, usual[0] # in single precision
    return spread, kind, float(f'{middle:.2g}') if middle > 1e-13 else 0.

# Positions and embeddings

SINUSOIDS = { # in dimension i of d: the power of 1/10000, and whether it is a cosine
    'sinusoidal': lambda i, d: ((i - i % 2) / d, i % 2 == 1),
    'sinusoidal, in halves': lambda i, d: (i % (d/2) / (d/2), i >= d/2),
    'sinusoidal, in halves, to 1/10000': lambda i, d: (i % (d/2) / (d/2 - 1), i >= d/2),
    'sinusoidal, cosines by the next frequency': lambda i, d: (i / d, i % 2 == 1),
    'sinusoidal, exponents doubled': lambda i, d: (2*i / d, i % 2 == 1)}

@dataclass
class Embedded:
    "What a stack begins with: scale · row of the matrix + position"
    weight: Tensor
    scale: float
    positions: str # of `SINUSOIDS`, 'learned', 'none' or 'a table of its own'
    offset: int    # of the first position
    exact: Tensor  # their table (t, d), by the formula if there is one
    table: Tensor  # as measured
    x: Tensor      # (b·t, d)

def find_embedding(ids:Tensor, values:list[Tensor], matrices:list[Tensor])->Embedded|None:
    "The last value that is an affine function of the embeddings, position by position"
    for flat in [x for x in reversed(values) if len(x) == ids.numel()]:
        x = flat.view(*ids.shape, -1)
        for matrix in matrices:
            if matrix.shape[1] != x.shape[2] or len(matrix) <= ids.max(): continue
            rows = matrix[ids]
            scale = ratio(x[0] - x[1], rows[0] - rows[1])
            table = (x - scale*rows)[0]
            if abs(scale) < 1e-3 or not same(rows*scale + table, x): continue
            return Embedded(matrix, scale, *_name_positions(table, matrices), table, flat)

def _name_positions(table:Tensor, matrices:list[Tensor])->tuple[str,int,Tensor]:
    "What they are, the first of them, and their exact table"
    t, d = table.shape
    if table.abs().max() < 1e-6: return 'none', 0, table
    for offset, kind in product(range(4), SINUSOIDS):
        power, is_cosine = SINUSOIDS[kind](torch.arange(d).double(), d)
        angle = torch.arange(offset, offset + t)[:, None] / 10000.**power
        exact = angle.cos().where(is_cosine, angle.sin()).to(table)
        if (exact - table).abs().max() < 1e-5: return kind, offset, exact
    for matrix, offset in product(matrices, range(4)):
        rows = matrix[offset:offset + t]
        if rows.shape != table.shape: continue
        if same(rows * ratio(table, rows), table): return 'learned', offset, table
    return 'a table of its own', 0, table

def to_rows(x:Tensor)->Tensor: # (n, d), of time first, sentence by sentence
    return x.unflatten(0, (-1, B)).transpose(0, 1).flatten(0, 1)

# Attention

@dataclass
class Attention:
    "Which columns are queries, keys, and values, and what is done with them"
    index: list[Tensor]    # of the columns (heads, features), in the book's order
    positions: str         # '', 'rotary', `HALVES` or `BIAS`
    scale: str             # of `SCALES`
    factor: float          # what the scores are multiplied by
    causal: bool
    gains: list[Tensor]    # of queries and keys that are normalized
    qk_norm: list[Norm]    # with the gains in the book's order
    bias: Tensor|None = None # in the scores, by position (h, t, s)
    maps: list|None = None # weight and bias of q, k, v and output, in the book's order
    output: Tensor|None = None
    uses: list[Linear]|None = None

    def heads(self, x:Tensor, source:Tensor, seen:list[Tensor])->Tensor: # (b·t, h·d_v)
        "Of all columns of what makes the queries, and of what makes keys and values"
        q, k, v = (y[:, i].unflatten(0, (B, -1)).transpose(1, 2)
                   for y, i in zip((x, source, source), self.index))
        if self.qk_norm: q, k = (norm(y) for norm, y in zip(self.qk_norm, (q, k)))
        if self.positions in ('rotary', HALVES): q, k = rotate(q), rotate(k)
        k, v = (y.repeat_interleave(q.shape[1] // y.shape[1], 1) for y in (k, v))
        scores = q @ k.mT * self.factor
        if self.positions == BIAS:
            self.bias = find_bias(scores, seen)
            scores = scores + self.bias
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1) & self.causal
        heads = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
        return heads.transpose(1, 2).flatten(2).flatten(0, 1)

SCALES = {'1/√d_k': lambda d_k, d, h: d_k**-.5, 'none': lambda d_k, d, h: 1.,
          '1/√d_model': lambda d_k, d, h: d**-.5, '1/d_k': lambda d_k, d, h: 1 / d_k,
          '√d_k': lambda d_k, d, h: d_k**.5, '1/√h': lambda d_k, d, h: h**-.5}

BIAS = 'a bias in the scores'
HALVES = 'rotary, in halves' # as in GPT-NeoX: the book's, of features in another order

def find_attention(own:list[Linear], other:list[Linear], heads:list[int],
                   readers:list[Linear], vectors:list[Tensor], causal:bool,
                   seen:list[Tensor] # inputs of softmaxes
                  )->Attention|None:
    "The attention whose heads some linear map reads afterwards"
    sources = own, other or own, other or own
    x, source, _ = map(columns, sources)
    for index in chain.from_iterable(readings(own, other, h) for h in heads):
        for found in _tries(index, own, vectors, causal, bool(other)):
            rows = found.heads(x, source, seen)
            by_head = torch.arange(rows.shape[1])
            orders = by_head, by_head.view(-1, len(index[0])).T.flatten()
            for use, read in product(readers, orders):
                if use.input.shape != rows.shape: continue
                if not same(use.input[:, read], rows): continue
                found.maps = [weights(*pair) for pair in zip(sources, found.index)]
                found.maps.append((use.weight[:, read], use.bias))
                found.output, found.uses = use.output, [*own, *other, use]
                return found

def _tries(index:list[Tensor], own:list[Linear], vectors:list[Tensor], causal:bool,
           is_cross:bool)->Iterator[Attention]:
    "Positions, eps of normalized queries and keys, scale, causal or not; the usual first"
    (h, d_k), d = index[0].shape, own[0].weight.shape[1]
    gains = [v for v in vectors if v.numel() == d_k][:2]
    all_eps = (None, 1e-6, 1e-5, 1e-8) if len(gains) == 2 else (None,)
    kinds = ('',) if is_cross or d_k % 2 else ('', 'rotary', HALVES, BIAS)
    tries = product(kinds, all_eps, SCALES, (True, False) if causal else (False,))
    usual = '', None, '1/√d_k'
    for positions, eps, scale, is_causal in sorted(tries, key=lambda s: s[:3] != usual):
        order = torch.arange(d_k)
        if positions == HALVES: order = order.view(2, -1).T.flatten()
        q, k, v = index
        own_gains = [] if eps is None else gains
        yield Attention([q[:, order], k[:, order], v], positions, scale,
                        SCALES[scale](d_k, d, h), is_causal, own_gains,
                        [Norm('rmsnorm', eps, gain[order], None) for gain in own_gains])

def readings(own:list[Linear], other:list[Linear], h:int)->Iterator[list[Tensor]]:
    """Of queries, keys and values from one input, or of keys and values from another, the
    columns (heads, features); either number may run faster"""
    q = [torch.arange(sum(len(u.weight) for u in own))] if other else []
    for kv in [n for n in range(h, 0, -1) if h % n == 0]:
        counts = [h, kv, kv]
        for index in _split(other or own, counts[len(q):]):
            pairs = [*zip(counts, [*q, *index])]
            if any(len(i) % n for n, i in pairs): continue
            by_head = [i.view(n, -1) for n, i in pairs]
            if by_head[0].shape[1] != by_head[1].shape[1]: continue
            yield by_head
            if h > 1: yield [i.view(-1, n).T for n, i in pairs]

def _split(uses:list[Linear], counts:list[int])->Iterator[list[Tensor]]:
    "A matrix for each role, all fused, or fused for each head"
    sizes, roles = [len(u.weight) for u in uses], range(len(counts))
    index, is_each = torch.arange(sum(sizes)), len(sizes) == len(counts)
    for order in permutations(roles):
        size = len(index) // sum(counts)
        widths = sizes if is_each else [counts[i] * size for i in order]
        if sum(widths) != len(index): continue
        parts = dict(zip(order, index.split(widths)))
        yield [parts[i] for i in roles]
        if is_each or len({*counts}) > 1: continue
        by_head = index.view(counts[0], len(counts), -1)
        yield [by_head[:, i].flatten() for i in order]

def columns(uses:list[Linear])->Tensor: return torch.cat([u.output for u in uses], 1)

def weights(uses:list[Linear], index:Tensor)->tuple[Tensor,Tensor|None]:
    rows, weight = index.flatten(), torch.cat([u.weight for u in uses])
    if all(u.bias is None for u in uses): return weight[rows], None
    biases = [u.weight.new_zeros(len(u.weight)) if u.bias is None else u.bias for u in uses]
    return weight[rows], torch.cat(biases)[rows]

def find_bias(scores:Tensor, seen:list[Tensor])->Tensor: # (h, t, s)
    "What was added to the scores, if it is the same for all sentences"
    for x in seen:
        if x.numel() != scores.numel(): continue
        bias = x.reshape(scores.shape).to(scores) - scores
        is_open = (bias > -1e4).all(0)
        first, others = bias[0], bias[1:, is_open]
        if is_open.any() and same(others, first[is_open].expand_as(others)):
            return first.where(is_open, 0.)
    return torch.zeros_like(scores[0])

# Feed-forward networks

ACTIVATE = ACTIVATIONS | {'relu²': lambda x: F.relu(x)**2, 'tanh': torch.tanh,
                          'leaky relu': F.leaky_relu, 'sigmoid': torch.sigmoid,
                          'elu': F.elu, 'none': lambda x: x}
GATES = {'swiglu': 'silu', 'geglu': 'gelu', 'reglu': 'relu', 'geglu_new': 'gelu_new',
         'glu': 'sigmoid'} # the activation of each gate

def activate(name:str, x:Tensor, *gated:Tensor)->Tensor: # of `ACTIVATE` or `GATES`
    x = ACTIVATE[GATES.get(name, name)](x)
    return x * gated[0] if gated else x

class FeedForward(nn.Module):
    def __init__(self, activation:str,
                 maps:list,            # weight and bias, in order; a gate first
                 output:Tensor, uses:list[Linear]):
        super().__init__()
        self.activation, self.maps, self.output, self.uses = activation, maps, output, uses

    def forward(self, x:Tensor)->Tensor:
        *inner, outer = self.maps
        hidden = activate(self.activation, *(F.linear(x, *pair) for pair in inner))
        return F.linear(hidden, *outer)

def find_feed_forward(own:list[Linear], readers:list[Linear])->FeedForward|None:
    x = columns(own)
    index = torch.arange(x.shape[1])
    tries = [(name, [index]) for name in ACTIVATE]
    if len(index) % 2 == 0: # a gate, before or behind
        halves = index.chunk(2)
        tries += product(GATES, (halves, halves[::-1]))
    for name, parts in tries:
        hidden = activate(name, *(x[:, i] for i in parts))
        for use in readers:
            if not same(use.input, hidden): continue
            maps = [*(weights(own, i) for i in parts), (use.weight, use.bias)]
            return FeedForward(name, maps, use.output, [*own, use])

# The walk from front to back

class Part(nn.Module):
    "A sub-layer that settings explain, and what is around it"
    def __init__(self, name:str, # 'encoder layer 1, self-attention'
                 what:Attention|FeedForward, before:Norm|None, after:Norm|None,
                 residual:str):  # of `RESIDUALS`, or `AROUND`
        super().__init__()
        self.name, self.what, self.residual = name, what, residual
        self.before, self.after = before, after

    def forward(self, x:Tensor, sublayer:nn.Module, *args, **options)->Tensor:
        y = self.before(x) if self.before else x
        z = sublayer(y, *args, **options)
        if self.residual == AROUND: return x + self.after(z)
        x = RESIDUALS[self.residual](x, y, z)
        return self.after(x) if self.after else x

RESIDUALS = { # of the input, what the sub-layer reads, and what it gives
    '': lambda x, y, z: x + z, 'missing': lambda x, y, z: z,
    'of the normalized': lambda x, y, z: y + z}
AROUND = 'around sub-layer and norm' # as in Swin Transformer V2

PHASES = dict(encoder=('self-attention', 'feed-forward network'),
              decoder=('self-attention', 'cross-attention', 'feed-forward network'))

@dataclass
class State:
    "How far all is explained"
    x: Tensor
    target: Tensor      # what the decoder begins with
    start_norms: tuple[Norm|None,Norm|None]
    side: str = 'encoder'
    parts: tuple[Part,...] = ()
    memory: Tensor|None = None
    norms: tuple = ()   # at the end of the stacks that are explained
    output: Linear|None = None # the last linear map: all is explained

    @property
    def kinds(self)->tuple[int,int]: # around the sub-layers: one if all are alike; odd ones
        kinds = {(bool(p.before), bool(p.after), p.residual) for p in self.parts}
        return len(kinds), sum(residual != '' for *_, residual in kinds)
    @property
    def used(self)->set[int]: # numbers of linear maps
        return {u.number for p in self.parts for u in p.what.uses}
    @property
    def name(self)->str: # of the sub-layer that comes next
        n, phases = sum(p.name.startswith(self.side) for p in self.parts), PHASES[self.side]
        return f'{self.side} layer {n // len(phases) + 1}, {phases[n % len(phases)]}'
    @property
    def phase(self)->str: return self.name.split(', ')[1]

class Walk:
    "Explains one part after another, and remembers how far it came"
    def __init__(self, rec:Recorder, vectors:list[Tensor], values:list[Tensor],
                 logits:Tensor):
        self.vectors, self.values, self.logits = vectors, values, logits
        self.softmaxes, self.scores = rec.softmaxes, rec.scores
        self.uses = [u for u in rec.linears if len(u.input) in (B*S, B*T)]
        self.uses += [replace(u, input=to_rows(u.input), output=to_rows(u.output))
                      for u in self.uses] # one model may have both orders
        self.inputs, self.read_by = [], {} # and who reads each of them, by its id
        for use in self.uses:
            alike = [y for y in self.inputs if same(y, use.input)]
            if not alike: self.inputs.append(use.input)
            self.read_by.setdefault(id([*alike, use.input][0]), []).append(use)
        self.furthest, self.came, self.seen = None, (-1, 0, False), {}
        self.known = {} # what was explained or not, by the maps that read

    def read(self, x:Tensor)->list[tuple[Norm|None,Tensor]]:
        "The inputs of linear maps that are x, and those that are a norm of x"
        if id(x) not in self.seen:
            plain = [(None, y) for y in self.inputs if same(y, x)]
            other = [y for y in self.inputs if not same(y, x)]
            found = plain + find_norms(x, other, self.vectors)
            self.seen[id(x)] = x, found # x is kept, and so is its id
        return self.seen[id(x)][1]

    def run(self, state:State)->State|None: # where all is explained
        if state.output: return state
        came = len(state.parts), len(state.norms), bool(self.read(state.x))
        if came > self.came: self.furthest, self.came = state, came
        for following in self.options(state):
            if found := self.run(following): return found

    def options(self, state:State)->Iterator[State]:
        for norm, y in self.read(state.x):
            key = state.phase, id(state.memory), id(y)
            if key not in self.known:
                self.known[key] = self.explain(state, self.read_by[id(y)])
            what = self.known[key]
            for after, residual, x in self.streams(state.x, norm, y, what) if what else ():
                part = Part(state.name, what, norm, after, residual)
                yield replace(state, x=x, parts=(*state.parts, part))
        if state.phase == 'self-attention' and state.parts: yield from self.ends(state)

    def explain(self, state:State, uses:list[Linear])->Attention|FeedForward|None:
        phase, used = state.phase, state.used
        free = [u for u in self.uses if u.number not in used and u not in uses]
        if phase == 'feed-forward network': return find_feed_forward(uses, free)
        causal, sources = state.side == 'decoder' and phase == 'self-attention', [[]]
        heads = self.heads(len(uses[0].input) * (T if causal else S))
        if phase == 'cross-attention': # two matrices, one, or two for each head
            readers = [u for u in self.read_by[id(state.memory)] if u.number not in used]
            counts = [n for n in (2, 1, *(2*h for h in heads)) if n <= len(readers)]
            sources = [readers[:n] for n in counts]
        taken = {id(gain) for p in state.parts if isinstance(p.what, Attention)
                 for gain in p.what.gains}
        vectors = [v for v in self.vectors if id(v) not in taken]
        for source in sources:
            found = find_attention(uses, source, heads, free, vectors, causal, self.scores)
            if found: return found

    def heads(self, size:int)->list[int]: # possible numbers; of the weights of one
        counts = Counter(n // size for n in self.softmaxes if n % size == 0)
        traced = [h for h, _ in counts.most_common() if 1 < h <= 64]
        return traced or [1, 2, 3, 4, 8]

    def streams(self, x:Tensor, norm:Norm|None, y:Tensor, what:Attention|FeedForward
               )->Iterator[tuple[Norm|None,str,Tensor]]: # a norm, a residual, their result
        "What goes on: the sum, or a norm of it; the paper's residual first"
        for residual, total in RESIDUALS.items():
            z = total(x, y, what.output)
            normed = self.read(z) or find_norms(z, self.values, self.vectors)[-1:]
            normed, plain = [pair for pair in normed if pair[0]], [(None, z)]
            for after, u in plain + normed if norm else normed + plain:
                yield after, residual, u
        for after, z in find_norms(what.output, self.values, self.vectors)[-1:]:
            yield after, AROUND, x + z

    def ends(self, state:State)->Iterator[State]:
        "Of a stack: its norm, and what goes on as the memory or makes the logits"
        is_last = state.side == 'decoder'
        pairs = self.read(state.x) or find_norms(state.x, self.values, self.vectors)[-1:]
        for (norm, y), z in product(pairs, self.inputs):
            if z.shape != y.shape: continue
            scaled = y * ratio(z, y) if is_last else y # as T5 does
            if not same(z, scaled): continue
            uses = self.read_by[id(z)]
            rest = {u.number for u in self.uses if len(u.input) == len(y)} - state.used
            if not rest <= {u.number for u in uses}: continue # something else comes
            following = replace(state, side='decoder', norms=(*state.norms, norm))
            if not is_last: yield replace(following, x=state.target, memory=z)
            elif uses[0].output.shape == self.logits.shape:
                yield replace(following, x=y, output=uses[0])

    def unexplained(self)->tuple[State,tuple[str,str]]:
        "All before what no setting explains; its name, and the lines around it"
        state, maps = self.furthest, {u.number: u for u in self.uses}
        name, last = state.name, max(state.used, default=-1)
        own = [p for p in state.parts if p.name.startswith(state.side)]
        if own and not self.read(state.x):
            state = replace(state, parts=state.parts[:-1])
            name = f'{own[-1].name}: the sum or the norm after it'
        following = [maps[n] for n in sorted(maps) if n > last][:1]
        if not following or following[0].output.shape == self.logits.shape:
            name = f'{state.side}: what follows its last layer'
        ends = [u.line for u in [*(maps[n] for n in maps if n == last), *following]]
        return state, (name, ' to '.join(dict.fromkeys(ends)))

def values_of(rec:Recorder)->list[Tensor]: # (n, d), in both orders of rows
    found = []
    for y in (step.output for step in rec.steps):
        if y.dim() == 3 and y.shape[::2] in ((B, S), (B, T)): y = y.mT # features first
        d = y.shape[-1] if y.dim() else 0
        if d > 1 and y.numel() in (B*S*d, B*T*d):
            x = y.reshape(-1, d)
            found += [x, to_rows(x)]
    return found

# All of it

@dataclass
class Found:
    "What was found, and how far the book's model with it is from theirs"
    src: Embedded|None
    tgt: Embedded|None
    single: str      # a line that computes in single precision, though the model does not
    state: State|None = None # all that is explained
    unexplained: tuple[str,str]|None = None # the part, and where
    output_scale: float = 1.
    rows: list = field(default_factory=list)     # what, here, paper, verdict, lines
    config: TransformerConfig|None = None
    difference: float = inf  # from the book's model, in units of the largest logit
    own_tables: float|None = None # the same, with the model's own table of positions

def explain(f:Foreign)->Found:
    src, tgt = f.draw(B, S, T)
    logits, rec = record(f.model, lambda: f(src, tgt))
    logits, values = logits.flatten(0, 1), values_of(rec)
    parameters = [p.detach() for p in f.model.parameters()]
    matrices = [p.squeeze() for p in parameters if p.squeeze().dim() == 2]
    matrices += [m.T for m in matrices]
    vectors = [p.flatten() for p in parameters if p.numel() == max(p.shape, default=0)]
    vectors += [x.detach().flatten() for x in rec.made]
    x, y = (find_embedding(ids, values, matrices) for ids in (src, tgt))
    if not (x and y):
        place = f'the {"target" if x else "source"} embedding', ''
        return Found(x, y, f.single, unexplained=place)
    walk = Walk(rec, vectors, values, logits)
    starts = [[(None, e.x), *find_norms(e.x, values, vectors)[-1:]] for e in (x, y)]
    states = [State(a, b, (norm_s, norm_t)) for (norm_s, a), (norm_t, b) in zip(*starts)]
    ends = [end for end in map(walk.run, states) if end]
    if not ends: return Found(x, y, f.single, *walk.unexplained())
    state = min(ends, key=lambda end: end.kinds) # the simplest
    scale = ratio(state.output.input, state.x) # the last map may read a multiple of x,
    scale *= ratio(centered(logits), centered(state.output.output)) # logits be one of its
    return Found(x, y, f.single, state, None, scale)

def centered(x:Tensor)->Tensor: # so that logits may be logarithms of probabilities
    return x - x.mean(-1, keepdim=True)
