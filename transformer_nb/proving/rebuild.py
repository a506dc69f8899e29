"The book's model with what was found, and the table that says which Transformer it is"
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import product
from math import sqrt
import torch
from torch import Tensor, nn
from ..support.core import PAD
from ..embedding import Embedding
from ..model import Transformer, TransformerConfig
from ..parts import (
    ACTIVATIONS, BiasedEmbedding, RMSNorm, UnscaledBiasedEmbedding, UnscaledEmbedding)
from .foreign import Foreign
from .identify import (
    ACTIVATE, GATES, SINUSOIDS, Attention, Embedded, Norm, Part, State, Walk, differs,
    find_embedding, find_norms, normalize, to_rows)
from .record import Linear, Recorder, record

B, S, T = 3, 11, 7 # sentences and lengths, so that every axis can be told from the others

@dataclass
class Found:
    "How far the walk came, and what it saw"
    state: State
    src: Embedded
    tgt: Embedded
    start_norms: tuple[Norm|None,Norm|None]
    walk: Walk
    output: Linear|None = None # the last linear map; None where something is unexplained
    output_scale: float = 1.
    rows: list = field(default_factory=list)     # what, here, paper, verdict
    config: TransformerConfig|None = None
    beyond: list[str] = field(default_factory=list) # what no field of the config says
    difference: float|None = None # from the book's model, in units of the largest logit
    own_tables: float|None = None # the same, with the model's own table of positions
    single: str = '' # a line that computes in single precision, though the model does not

    @property
    def unexplained(self)->tuple[str,str]|None: # the part, and where
        return None if self.output else self.walk.unexplained()

def explain(f:Foreign)->Found|str: # or the embedding that was not found
    src, tgt = f.draw(B, S, T)
    logits, rec = record(f.model, lambda: f(src, tgt))
    parameters = [p.detach() for p in f.model.parameters()]
    matrices = [p.squeeze() for p in parameters if p.squeeze().dim() == 2]
    matrices += [m.T for m in matrices]
    vectors = [p.flatten() for p in parameters if p.numel() == max(p.shape, default=0)]
    vectors += [x.detach().flatten() for x in rec.made]
    for time_major in (False, True):
        x = find_embedding(src, rec.steps, matrices, time_major)
        y = find_embedding(tgt, rec.steps, matrices, time_major)
        if x and y: break
    if not x: return 'source embedding'
    if not y: return 'target embedding'
    uses = [u for u in rec.linears if len(u.input) in (B*S, B*T)]
    uses += [_time_major(u) for u in uses] # one model may have both orders
    values, best = _values(rec), None
    starts = [[(None, e.x), *find_norms(e.x, values, vectors)[-1:]] for e in (x, y)]
    for odd, ((norm_s, a), (norm_t, b)) in product((False, True), zip(*starts)):
        if odd and best.walk.half[2] is None: break # a sub-layer itself is not known
        walk = Walk(uses, (a, b), B, _heads(rec), vectors, values, rec.scores,
                    logits.flatten(0, 1))
        walk.odd = odd
        end = walk.run(State('encoder', (), frozenset(), a))
        found = Found(end or walk.furthest, x, y, (norm_s, norm_t), walk)
        single = [s.line for s in rec.steps if s.output.dtype == torch.float32
                  and s.n_inputs > 0]
        found.single = single[0] if single and f.exact else ''
        if end: return _with_output(found, logits)
        if best is None or len(found.state.parts) > len(best.state.parts): best = found
    return best

def _time_major(use:Linear)->Linear:
    return replace(use, input=to_rows(use.input, B, True),
                   output=to_rows(use.output, B, True))

def _values(rec:Recorder)->list[Tensor]: # (n, d), in both orders of rows
    found = []
    for step in rec.steps:
        d = step.output.shape[-1] if step.output.dim() else 0
        if d > 1 and step.output.numel() in (B*S*d, B*T*d):
            x = step.output.reshape(-1, d)
            found += [x, to_rows(x, B, True)]
    return found

def _heads(rec:Recorder)->dict:
    places = {('encoder', 'self-attention'): B*S*S, ('decoder', 'self-attention'): B*T*T,
              ('decoder', 'cross-attention'): B*T*S}
    heads = {}
    for place, size in places.items():
        counts = Counter(n // size for n in rec.softmaxes if n % size == 0)
        traced = [h for h, _ in counts.most_common() if 1 < h <= 64]
        heads[place] = traced or [1, 2, 3, 4, 8]
    return heads

def _with_output(found:Found, logits:Tensor)->Found:
    found.output = found.walk.output
    theirs, own = logits.flatten(0, 1), found.output.output
    theirs, own = (x - x.mean(-1, keepdim=True) for x in (theirs, own))
    found.output_scale = ((theirs*own).sum() / own.square().sum()).item()
    found.output_scale *= found.walk.factor
    return found

# The book's model

class FoundNorm(nn.Module):
    "A norm that the book has not"
    def __init__(self, norm:Norm):
        super().__init__()
        self.norm = norm
    def forward(self, x:Tensor)->Tensor: return normalize(self.norm, x)

class FoundResidual(nn.Module):
    "A sub-layer's surroundings, other than the book's two"
    def __init__(self, part:Part):
        super().__init__()
        self.before, self.after = new_norm(part.before), new_norm(part.after)
        self.kind = part.residual
    def forward(self, x:Tensor, sublayer, *args, **options)->Tensor:
        y = self.before(x)
        path = {'': x, 'missing': 0., 'of the normalized': y}[self.kind]
        return self.after(path + sublayer(y, *args, **options))

class FoundFeedForward(nn.Module):
    "A network with an activation that the book has not"
    def __init__(self, what):
        super().__init__()
        self.what = what
    def forward(self, x:Tensor)->Tensor:
        *inner, outer = self.what.maps
        hidden = [nn.functional.linear(x, *pair) for pair in inner]
        return nn.functional.linear((ACTIVATE | GATES)[self.what.activation](*hidden),
                                    *outer)

def new_norm(norm:Norm|None)->nn.Module:
    if norm is None: return nn.Identity()
    if norm.kind not in ('layernorm', 'rmsnorm') or norm.weight is None:
        return FoundNorm(norm)
    if norm.kind == 'rmsnorm': made = RMSNorm(len(norm.weight), norm.eps)
    else: made = nn.LayerNorm(len(norm.weight), norm.eps, bias=norm.bias is not None)
    made.weight.data = norm.weight
    if norm.bias is not None: made.bias.data = norm.bias
    return made

def _set(linear:nn.Linear, weight:Tensor, bias:Tensor|None, factor:float=1.):
    linear.weight = nn.Parameter(weight * factor)
    linear.bias = None if bias is None else nn.Parameter(bias * factor)

def _set_attention(attention:nn.Module, what:Attention):
    linears = attention.query, attention.key, attention.value, attention.output
    for linear, pair in zip(linears, what.maps): _set(linear, *pair)
    if what.bias is not None: attention.attend = _biased(attention, what.bias)
    d_k = len(what.maps[0][0]) // what.reading.n_heads
    scale = what.factor * sqrt(d_k) # 1 in the paper
    if not what.qk_norm: return _set(attention.query, *what.maps[0], scale)
    for own, norm in zip((attention.query_norm, attention.key_norm), what.qk_norm):
        own.weight.data, own.eps = norm.weight, norm.eps
    attention.query_norm.weight.data = scale * what.qk_norm[0].weight

def _biased(attention:nn.Module, bias:Tensor): # (h, t, s)
    "Its `attend` with a bias in the scores, as T5's"
    def attend(q, k, v, mask):
        t, s = q.shape[2], k.shape[2]
        added = bias[:, :t, :s].masked_fill(~mask, -torch.inf)
        heads = nn.functional.scaled_dot_product_attention(q, k, v, added)
        return attention.output(heads.transpose(1, 2).flatten(2))
    return attend

def _set_feed_forward(layer:nn.Module, what):
    network = layer.feed_forward
    if what.activation not in (*ACTIVATIONS, 'swiglu'):
        layer.feed_forward = FoundFeedForward(what)
        return
    linears = [network.inner, network.outer]
    if what.activation == 'swiglu': linears.insert(0, network.gate)
    for linear, pair in zip(linears, what.maps): _set(linear, *pair)

def _set_embeddings(model:Transformer, found:Found, swap:Tensor):
    c, d = model.config, model.config.d_model
    def rows(weight): return _taller(weight, c.vocab_size)[swap]
    out, scale = found.output, found.output_scale
    bias = None if out.bias is None else _taller(out.bias, c.vocab_size)[swap]
    places = [(e.weight, e.scale) for e in (found.src, found.tgt)]
    if c.tie_embeddings: places = []
    made = []
    for weight, factor in places:
        made.append(Embedding(c.vocab_size, d))
        made[-1].weight.data = rows(weight) * (factor / sqrt(d))
    kinds = {(True, False): Embedding, (False, False): UnscaledEmbedding,
             (True, True): BiasedEmbedding, (False, True): UnscaledBiasedEmbedding}
    made.append(kinds[c.scale_embeddings, bias is not None](c.vocab_size, d))
    made[-1].weight.data = rows(out.weight) * scale
    if bias is not None: made[-1].bias.data = bias * scale
    model.embeddings = nn.ModuleList(made)

def _taller(x:Tensor, n:int)->Tensor: # with rows of zeros
    return torch.cat([x, x.new_zeros(n - len(x), *x.shape[1:])])

def _table(e:Embedded, own:bool)->Tensor: # (t, d)
    t, d = e.table.shape
    if e.positions in SINUSOIDS and not own:
        return SINUSOIDS[e.positions](t + e.offset, d)[e.offset:].to(e.table)
    return e.table

def _set_positions(model:Transformer, found:Found, own:bool):
    for name, e, norm in zip(('src', 'tgt'), (found.src, found.tgt), found.start_norms):
        module = getattr(model, f'{name}_positions')
        module._parameters.pop('table', None)
        module._buffers.pop('table', None)
        module.table = _table(e, own)
        if norm: setattr(model, f'{name}_positions', nn.Sequential(module, new_norm(norm)))

def build(found:Found, pad:int|None, own_tables:bool=False)->Transformer:
    "The book's model in float64 with the weights that were found; `pad` becomes 0"
    model = Transformer(found.config).double().eval()
    layers = [*model.encoder.layers, *model.decoder.layers]
    places = [(layer, i) for layer in layers for i in range(len(layer.residuals))]
    for part, (layer, i) in zip(found.state.parts, places):
        name = part.name.split(', ')[1].replace('-', '_')
        if isinstance(part.what, Attention): _set_attention(getattr(layer, name), part.what)
        else: _set_feed_forward(layer, part.what)
        residual = layer.residuals[i]
        if part.residual or bool(part.before) == bool(part.after):
            layer.residuals[i] = FoundResidual(part)
        else:
            residual.pre = bool(part.before)
            residual.norm = new_norm(part.before or part.after)
    model.encoder.norm, model.decoder.norm = map(new_norm, found.state.norms)
    swap = torch.arange(found.config.vocab_size)
    if pad: swap[[PAD, pad]] = swap[[pad, PAD]]
    _set_embeddings(model, found, swap)
    _set_positions(model, found, own_tables)
    return model

@torch.no_grad()
def compare(found:Found, f:Foreign, own_tables:bool=False)->float:
    "The largest difference of logits on other sentences, padded ones among them"
    model = build(found, f.pad, own_tables)
    src, tgt = f.draw(B, S - 2, T - 1)
    if f.pad is not None: src[1, 5:] = src[2, 8:] = f.pad
    n, pad = found.config.vocab_size, f.pad or PAD
    swap = torch.arange(n)
    swap[[PAD, pad]] = swap[[pad, PAD]]
    own = model(swap[src], swap[tgt])[..., swap][..., :f.tgt_size]
    theirs = f(src, tgt).double()
    own, theirs = (x - x.mean(-1, keepdim=True) for x in (own, theirs)) # or logarithms
    return differs(own, theirs)
