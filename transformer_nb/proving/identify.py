"Which Transformer is it? Found from its own weights, from front to back"
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, permutations, product
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from ..embedding import rotate
from ..parts import ACTIVATIONS
from .record import Linear, Recorder

B, S, T = 3, 11, 7 # sentences and lengths, so that every axis can be told from the others

def apart(a:Tensor, b:Tensor)->Tensor: # inf where one is NaN; 0 for equal infinities
    return torch.where(a == b, 0., a - b).abs().nan_to_num(torch.inf)

def differs(a:Tensor, b:Tensor)->float: # the most, in units of the largest number
    if a.shape != b.shape: return torch.inf
    scale = b.nan_to_num(0., 0., 0.).abs().max()
    return (apart(a, b).max() / scale.clamp(min=1e-30)).item()

def same(a:Tensor, b:Tensor)->bool: return differs(a, b) < 1e-6 # some is in float32

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

SINUSOIDS = { # in dimension i of d: the power of 1/10000, and whether it is a cosine
    'sinusoidal': lambda i, d: ((i - i % 2) / d, i % 2 == 1),
    'sinusoidal, in halves': lambda i, d: (i % (d/2) / (d/2), i >= d/2),
    'sinusoidal, in halves, to 1/10000': lambda i, d: (i % (d/2) / (d/2 - 1), i >= d/2),
    'sinusoidal, cosines by the next frequency': lambda i, d: (i / d, i % 2 == 1),
    'sinusoidal, exponents doubled': lambda i, d: (2*i / d, i % 2 == 1)}

def sinusoids(kind:str, t:int, d:int)->Tensor: # (t, d), in float64
    power, is_cosine = SINUSOIDS[kind](torch.arange(d).double(), d)
    angle = torch.arange(t)[:, None] / 10000.**power
    return angle.cos().where(is_cosine, angle.sin())

@dataclass
class Embedded:
    "What a stack begins with: scale · row of the matrix + position"
    weight: Tensor
    scale: float
    positions: str # of `SINUSOIDS`, 'learned', 'none' or 'a table of its own'
    offset: int    # of the first position
    table: Tensor  # (t, d), as measured
    x: Tensor      # (b·t, d)

def find_embedding(ids:Tensor, values:list[Tensor], matrices:list[Tensor])->Embedded|None:
    "The last value that is an affine function of the embeddings, position by position"
    for flat in [x for x in reversed(values) if len(x) == ids.numel()]:
        x = flat.view(*ids.shape, -1)
        for matrix in matrices:
            if matrix.shape[1] != x.shape[2] or len(matrix) <= ids.max(): continue
            rows = matrix[ids]
            dx, de = x[0] - x[1], rows[0] - rows[1]
            scale = ((dx*de).sum() / de.square().sum()).item()
            if abs(scale) < 1e-3 or not same(dx, scale*de): continue
            table = (x - scale*rows)[0]
            if not same(rows*scale + table, x): continue
            return Embedded(matrix, scale, *_name_positions(table, matrices), table, flat)

def _name_positions(table:Tensor, matrices:list[Tensor])->tuple[str,int]: # and the first
    t, d = table.shape
    if table.abs().max() < 1e-6: return 'none', 0
    for offset, kind in product(range(4), SINUSOIDS):
        right = sinusoids(kind, t + offset, d)[offset:].to(table)
        if (right - table).abs().max() < 1e-5: return kind, offset
    for matrix, offset in product(matrices, range(4)):
        rows = matrix[offset:offset + t]
        if rows.shape != table.shape: continue
        factor = (rows*table).sum() / rows.square().sum()
        if same(rows*factor, table): return 'learned', offset
    return 'a table of its own', 0

def to_rows(x:Tensor)->Tensor: # (n, d), of time first, sentence by sentence
    return x.unflatten(0, (-1, B)).transpose(0, 1).flatten(0, 1)

# Attention

@dataclass
class Reading:
    "Where the queries, keys and values of each head lie among columns"
    counts: list[int]   # of heads, for each of the three
    index: list[Tensor] # heads one after another
    is_inner: bool = False # the heads' number runs fastest

    def inner(self)->'Reading': # the same columns, where heads run fastest
        index = [i.view(-1, n).T.flatten() for i, n in zip(self.index, self.counts)]
        return Reading(self.counts, index, True)

    def heads(self, *outputs:Tensor)->list[Tensor]: # (b·t, h·d) to (b, h, t, d)
        return [x[:, i].unflatten(1, (n, -1)).unflatten(0, (B, -1)).transpose(1, 2)
                for x, i, n in zip(outputs, self.index, self.counts)]

@dataclass
class Attention:
    reading: Reading
    scale: str     # of `SCALES`
    causal: bool
    positions: str # '', 'rotary', `HALVES` or `BIAS`
    order: Tensor  # of a head's features, where the book's rotary turns them
    qk_norm: list[Norm]
    maps: list     # weight and bias of q, k, v and output, in the book's order
    factor: float  # what its scores are multiplied by
    output: Tensor
    uses: list[Linear]
    bias: Tensor|None = None # in the scores, by position (h, t, s)

SCALES = {'1/√d_k': lambda d_k, d, h: d_k**-.5, 'none': lambda d_k, d, h: 1.,
          '1/√d_model': lambda d_k, d, h: d**-.5, '1/d_k': lambda d_k, d, h: 1 / d_k,
          '√d_k': lambda d_k, d, h: d_k**.5, '1/√h': lambda d_k, d, h: h**-.5}

BIAS = 'a bias in the scores'
HALVES = 'rotary, in halves' # as in GPT-NeoX: the book's, of features in another order

def columns(uses:list[Linear])->Tensor: return torch.cat([u.output for u in uses], 1)

def weights(uses:list[Linear], index:Tensor)->tuple[Tensor,Tensor|None]:
    weight = torch.cat([u.weight for u in uses])[index]
    if all(u.bias is None for u in uses): return weight, None
    biases = [u.weight.new_zeros(len(u.weight)) if u.bias is None else u.bias for u in uses]
    return weight, torch.cat(biases)[index]

def readings(own:list[Linear], other:list[Linear], h:int)->Iterator[Reading]:
    "Of queries, keys and values from one input, or of keys and values from another"
    q = [torch.arange(sum(len(u.weight) for u in own))] if other else []
    for kv in [n for n in range(h, 0, -1) if h % n == 0]:
        counts = [h, kv, kv]
        for index in _split(other or own, counts[len(q):]):
            reading = Reading(counts, [*q, *index])
            d_q, d_k, d_v = (len(i) / n for i, n in zip(reading.index, counts))
            if d_q != d_k or d_k % 1 or d_v % 1: continue
            yield reading
            if h > 1: yield reading.inner()

def _split(uses:list[Linear], counts:list[int])->Iterator[list[Tensor]]:
    "A matrix for each role, all fused, or fused for each head"
    sizes, orders = [len(u.weight) for u in uses], list(permutations(range(len(counts))))
    index, is_each = torch.arange(sum(sizes)), len(sizes) == len(counts)
    for order in orders:
        size = len(index) // sum(counts)
        widths = sizes if is_each else [counts[i] * size for i in order]
        if sum(widths) != len(index): continue
        parts = index.split(widths)
        yield [parts[order.index(i)] for i in range(len(counts))]
    if is_each or len({*counts}) > 1 or len(index) % sum(counts): return
    for order in orders:
        by_head = index.view(counts[0], len(counts), -1)
        yield [by_head[:, i].flatten() for i in order]

def find_bias(scores:Tensor, seen:list[Tensor])->Tensor|None: # (h, t, s)
    "What was added to the scores, if it is the same for all sentences"
    for x in seen:
        if x.numel() != scores.numel(): continue
        bias = x.reshape(scores.shape).to(scores) - scores
        is_open = (bias > -1e4).all(0)
        if is_open.any() and same(bias[1:, is_open],
                                  bias[:1, is_open].expand(len(bias) - 1, -1)):
            return bias[0].where(is_open, torch.zeros_like(bias[0]))

def _settings(vectors:list[Tensor], d_k:int, causal:bool)->Iterator[tuple]:
    "Positions, eps of normalized queries and keys, scale, causal or not; the usual first"
    has_norms = sum(v.numel() == d_k for v in vectors) > 1
    eps = (None, 1e-6, 1e-5, 1e-8) if has_norms else (None,)
    tries = product(('', 'rotary', HALVES, BIAS), eps, SCALES,
                    (True, False) if causal else (False,))
    yield from sorted(tries, key=lambda s: s[:3] != ('', None, '1/√d_k'))

def find_attention(own:list[Linear], other:list[Linear], heads:list[int],
                   readers:list[Linear], vectors:list[Tensor], causal:bool,
                   seen:list[Tensor] # inputs of softmaxes
                  )->Attention|None:
    "The attention whose heads some linear map reads afterwards"
    x, source = columns(own), columns(other or own)
    for reading in chain.from_iterable(readings(own, other, h) for h in heads):
        qkv = reading.heads(x, source, source)
        for s in _settings(vectors, qkv[0].shape[-1], causal):
            found = _try(reading, *qkv, *s, own, other, readers, vectors, seen)
            if found: return found

def _try(r, q, k, v, positions, eps, scale, causal, own, other, readers, vectors, seen
        )->Attention|None:
    d_k, norms = q.shape[-1], []
    if positions and (other or d_k % 2): return None
    if eps is not None:
        pair = [v for v in vectors if v.numel() == d_k][:2]
        norms = [Norm('rmsnorm', eps, w, None) for w in pair]
        q, k = norms[0](q), norms[1](k)
    order = torch.arange(d_k)
    if positions == HALVES: order = order.view(2, -1).T.flatten()
    if positions in ('rotary', HALVES): q, k = rotate(q[..., order]), rotate(k[..., order])
    h, kv, _ = r.counts
    k, v = (x.repeat_interleave(h // kv, 1) for x in (k, v))
    factor, bias = SCALES[scale](d_k, own[0].weight.shape[1], h), None
    scores = q @ k.mT * factor
    if positions == BIAS:
        bias = find_bias(scores, seen)
        if bias is None: return None
        scores = scores + bias
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1) & causal
    heads = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    rows, source = heads.transpose(1, 2).flatten(2).flatten(0, 1), other or own
    read = torch.arange(rows.shape[1])
    if r.is_inner: read = read.view(-1, h).T.flatten()
    for use in readers:
        if use.input.shape != rows.shape or not same(use.input[:, read], rows): continue
        in_order = [i.view(-1, d_k)[:, order].flatten() for i in r.index[:2]]
        maps = [weights(own, in_order[0]), weights(source, in_order[1]),
                weights(source, r.index[2]), (use.weight[:, read], use.bias)]
        uses = list(dict.fromkeys([*own, *other, use]))
        return Attention(r, scale, causal, positions, order, norms, maps, factor,
                         use.output, uses, bias)

# Feed-forward networks

def _gated(name:str): return lambda a, b: ACTIVATIONS[name](a) * b
ACTIVATE = ACTIVATIONS | {'relu²': lambda x: F.relu(x)**2, 'tanh': torch.tanh,
                          'leaky relu': F.leaky_relu, 'sigmoid': torch.sigmoid,
                          'elu': F.elu, 'none': lambda x: x}
GATES = {'swiglu': _gated('silu'), 'geglu': _gated('gelu'), 'reglu': _gated('relu'),
         'geglu_new': _gated('gelu_new'), 'glu': lambda a, b: torch.sigmoid(a) * b}

class FeedForward(nn.Module):
    def __init__(self, activation:str, # of `ACTIVATE` or `GATES`
                 maps:list,            # weight and bias, in order; a gate first
                 output:Tensor, uses:list[Linear]):
        super().__init__()
        self.activation, self.maps, self.output, self.uses = activation, maps, output, uses

    def forward(self, x:Tensor)->Tensor:
        *inner, outer = self.maps
        hidden = [F.linear(x, *pair) for pair in inner]
        return F.linear((ACTIVATE | GATES)[self.activation](*hidden), *outer)

def find_feed_forward(own:list[Linear], readers:list[Linear])->FeedForward|None:
    x, all_columns = columns(own), torch.arange(sum(len(u.weight) for u in own))
    tries = [(name, [all_columns]) for name in ACTIVATE]
    if len(all_columns) % 2 == 0: # a gate, before or behind
        halves = all_columns.chunk(2)
        tries += product(GATES, (halves, halves[::-1]))
    for name, parts in tries:
        hidden = (ACTIVATE | GATES)[name](*(x[:, i] for i in parts))
        for use in readers:
            if not same(use.input, hidden): continue
            maps = [*(weights(own, i) for i in parts), (use.weight, use.bias)]
            return FeedForward(name, maps, use.output, [*own, use])

# The walk from front to back

class Part(nn.Module):
    "A sub-layer that settings explain, and what is around it"
    def __init__(self, name:str, # 'encoder layer 1, self-attention'
                 what:Attention|FeedForward, before:Norm|None, after:Norm|None,
                 residual:str):  # '' as in the paper, 'missing', 'of the normalized' or `AROUND`
        super().__init__()
        self.name, self.what, self.residual = name, what, residual
        self.before, self.after = before, after

    def forward(self, x:Tensor, sublayer:nn.Module, *args, **options)->Tensor:
        y = self.before(x) if self.before else x
        z = sublayer(y, *args, **options)
        if self.residual == AROUND: return x + self.after(z)
        x = z + {'': x, 'missing': 0., 'of the normalized': y}[self.residual]
        return self.after(x) if self.after else x

AROUND = 'around sub-layer and norm' # as in Swin Transformer V2

PHASES = dict(encoder=('self-attention', 'feed-forward network'),
              decoder=('self-attention', 'cross-attention', 'feed-forward network'))

def numbers_of(found:Iterable[Attention|FeedForward])->set[int]: # of their linear maps
    return {u.number for what in found for u in what.uses}

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

    @property
    def kinds(self)->int: # of what is around the sub-layers: one, if nothing is wrong
        return len({(bool(p.before), bool(p.after), p.residual) for p in self.parts})
    @property
    def used(self)->set[int]: return numbers_of(p.what for p in self.parts)
    @property
    def place(self)->tuple[int,str]: # layers that are explained, and the sub-layer
        n = sum(p.name.startswith(self.side) for p in self.parts)
        phases = PHASES[self.side]
        return n // len(phases), phases[n % len(phases)]
    @property
    def name(self)->str: return '{} layer {}, {}'.format(
        self.side, self.place[0] + 1, self.place[1])

class Walk:
    "Explains one part after another, and remembers how far it came"
    def __init__(self, rec:Recorder, vectors:list[Tensor], values:list[Tensor],
                 logits:Tensor):
        self.vectors, self.values, self.logits = vectors, values, logits
        self.softmaxes, self.scores = rec.softmaxes, rec.scores
        self.uses = [u for u in rec.linears if len(u.input) in (B*S, B*T)]
        self.uses += [_time_major(u) for u in self.uses] # one model may have both orders
        self.groups = [] # an input and those that read it
        for use in self.uses:
            for y, readers in self.groups:
                if same(y, use.input):
                    readers.append(use)
                    break
            else: self.groups.append((use.input, [use]))
        self.furthest, self.came, self.seen = None, (-1, 0), {}
        self.known = {} # what was explained or not, by the maps that read
        self.half = 0, '', None # a sub-layer without what should follow it
        self.odd = False # whether residuals may be other than the paper's

    def readers(self, x:Tensor, used:set[int])->list[tuple[Norm|None,Tensor,list]]:
        "Who reads x, and who reads a norm of x"
        if id(x) not in self.seen:
            own, other = [], {}
            for y, uses in self.groups:
                if same(y, x): own.append((None, y, uses))
                else: other[id(y)] = y, uses
            norms = find_norms(x, [y for y, _ in other.values()], self.vectors)
            own += [(norm, *other[id(y)]) for norm, y in norms]
            self.seen[id(x)] = x, own
        found = [(norm, y, [u for u in uses if u.number not in used])
                 for norm, y, uses in self.seen[id(x)][1]]
        return [group for group in found if group[2]]

    def run(self, state:State)->State|None: # where all is explained
        if len(state.norms) == 2: return state
        came = len(state.parts), len(state.norms)
        if came > self.came: self.furthest, self.came = state, came
        for following in self.options(state):
            found = self.run(following)
            if found: return found

    def options(self, state:State)->Iterator[State]:
        phase = state.place[1]
        for norm, y, uses in self.readers(state.x, state.used):
            key = phase, id(state.memory), *(id(u) for u in uses)
            if key not in self.known: self.known[key] = self.explain(state, uses)
            what = self.known[key]
            if what is None: continue
            following = list(self.streams(state, norm, y, what))
            if not following and len(state.parts) >= self.half[0]:
                self.half = len(state.parts), state.name, what
            yield from following
        if phase == 'self-attention' and state.parts: yield from self.ends(state)

    def explain(self, state:State, uses:list[Linear])->Attention|FeedForward|None:
        phase, used = state.place[1], state.used
        free = [u for u in self.uses if u.number not in used and u not in uses]
        if phase == 'feed-forward network': return find_feed_forward(uses, free)
        causal, sources = state.side == 'decoder' and phase == 'self-attention', [[]]
        heads = self.heads(len(uses[0].input) * (T if causal else S))
        if phase == 'cross-attention': # two matrices, one, or two for each head
            readers = [u for y, uses in self.groups if same(y, state.memory)
                       for u in uses if u.number not in used]
            counts = [n for n in (2, 1, *(2*h for h in heads)) if n <= len(readers)]
            sources = [readers[:n] for n in counts]
        taken = [id(n.weight) for p in state.parts if isinstance(p.what, Attention)
                 for n in p.what.qk_norm]
        vectors = [v for v in self.vectors if id(v) not in taken]
        for source in sources:
            found = find_attention(uses, source, heads, free, vectors, causal, self.scores)
            if found: return found

    def heads(self, size:int)->list[int]: # possible numbers; of the weights of one
        counts = Counter(n // size for n in self.softmaxes if n % size == 0)
        traced = [h for h, _ in counts.most_common() if 1 < h <= 64]
        return traced or [1, 2, 3, 4, 8]

    def streams(self, state:State, norm, y, what)->Iterator[State]:
        "What goes on: the sum, or a norm of it"
        def following(after, residual, x):
            part = Part(state.name, what, norm, after, residual)
            return replace(state, x=x, parts=(*state.parts, part))
        used = state.used | numbers_of([what])
        sums = {'': state.x + what.output}
        if self.odd: sums['missing'] = what.output
        if self.odd and norm: sums['of the normalized'] = y + what.output
        for residual, x in sums.items():
            after = [(found, z) for found, z, _ in self.readers(x, used)]
            plain = [(None, x)] if after else []
            normed = [(found, z) for found, z in after if found]
            if not after: normed = find_norms(x, self.values, self.vectors)[-1:]
            if norm and normed: plain = [(None, x)]
            for found, z in plain + normed if norm else normed + plain:
                yield following(found, residual, z)
        normed = find_norms(what.output, self.values, self.vectors) if self.odd else []
        for found, z in normed[-1:]: yield following(found, AROUND, state.x + z)

    def ends(self, state:State)->Iterator[State]:
        used, is_last = state.used, state.side == 'decoder'
        readers = self.readers(state.x, used)
        if is_last and not readers: readers = self.scaled(state.x)
        for norm, y, uses in readers:
            following = replace(state, side='decoder', norms=(*state.norms, norm))
            rest = {u.number for u in self.uses if len(u.input) == len(y)} - used
            if not rest <= {u.number for u in uses}: continue # something else comes
            if not is_last: yield replace(following, x=state.target, memory=y)
            elif uses[0].output.shape == self.logits.shape:
                self.output = uses[0]
                yield replace(following, x=y)

    def scaled(self, x:Tensor)->Iterator[tuple[Norm,Tensor,list]]: # as T5's
        "Who reads a multiple of the last norm of x"
        for norm, y in find_norms(x, self.values, self.vectors)[-1:]:
            for z, uses in self.groups:
                if z.shape == y.shape and same(z, y * (z*y).sum() / y.square().sum()):
                    yield norm, y, uses

    def unexplained(self)->tuple[str,str]: # the part, and the lines between which it lies
        "What no setting explains: a sub-layer, or what should follow it"
        state, (n, name, what) = self.furthest, self.half
        found, maps = [p.what for p in state.parts], {u.number: u for u in self.uses}
        if what and n == len(found):
            name, found = f'{name}: the sum or the norm after it', [*found, what]
        else: name = state.name
        last = max(numbers_of(found), default=-1)
        following = [maps[n] for n in sorted(maps) if n > last][:1]
        if not following or following[0].output.shape == self.logits.shape:
            name = f'{state.side}: what follows its last layer'
        ends = [u.line for u in [*(maps[n] for n in maps if n == last), *following]]
        return name, ' to '.join(dict.fromkeys(ends))

def _time_major(use:Linear)->Linear:
    return replace(use, input=to_rows(use.input), output=to_rows(use.output))

def values_of(rec:Recorder)->list[Tensor]: # (n, d), in both orders of rows
    found = []
    for y in (step.output for step in rec.steps):
        if y.dim() == 3 and y.shape[::2] in ((B, S), (B, T)): y = y.mT # features first
        d = y.shape[-1] if y.dim() else 0
        if d > 1 and y.numel() in (B*S*d, B*T*d):
            x = y.reshape(-1, d)
            found += [x, to_rows(x)]
    return found
