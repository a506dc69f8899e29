"The book's model with what was found, and the table that says which Transformer it is"
from dataclasses import dataclass, field
from itertools import product
from math import inf, sqrt
import torch
from torch import Tensor, nn
from ..support.core import PAD
from ..model import Transformer, TransformerConfig
from .foreign import Foreign
from .identify import (
    B, S, SINUSOIDS, T, Attention, Embedded, Norm, Part, State, Walk, differs,
    find_embedding, find_norms, sinusoids, values_of)
from .record import Linear, record

@dataclass
class Found:
    "What was found, and how far the book's model with it is from theirs"
    src: Embedded|None
    tgt: Embedded|None
    single: str      # a line that computes in single precision, though the model does not
    parts: tuple[Part,...] = ()
    start_norms: tuple[Norm|None,Norm|None] = (None, None)
    norms: tuple = () # at the end of the stacks
    unexplained: tuple[str,str]|None = None # the part, and where
    output: Linear|None = None # the last linear map, where all is explained
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
    found = Found(x, y, f.single)
    if not (x and y):
        found.unexplained = f'the {"target" if x else "source"} embedding', ''
        return found
    walk = Walk(rec, vectors, values, logits)
    starts = [[(None, e.x), *find_norms(e.x, values, vectors)[-1:]] for e in (x, y)]
    ends = [] # explanations: one in which all sub-layers are alike, or else the simplest
    for odd, ((norm_s, a), (norm_t, b)) in product((False, True), zip(*starts)):
        walk.odd = odd
        end = walk.run(State(a, b, (norm_s, norm_t)))
        if end: ends.append(end)
        if end and end.kinds == 1: break
    end = min(ends, key=lambda end: end.kinds, default=None)
    state = end or walk.furthest
    found.parts, found.norms = state.parts, state.norms
    found.start_norms = state.start_norms
    if not end: found.unexplained = walk.unexplained()
    else: _set_output(found, walk.output, end.x, logits)
    return found

def _set_output(found:Found, output:Linear, x:Tensor, logits:Tensor):
    "The last linear map; it may read a multiple of x, and the logits be one of its result"
    found.output = output
    theirs, own = centered(logits), centered(output.output)
    found.output_scale = ((theirs*own).sum() / own.square().sum()).item()
    found.output_scale *= ((output.input*x).sum() / x.square().sum()).item()

def centered(x:Tensor)->Tensor: # so that logits may be logarithms of probabilities
    return x - x.mean(-1, keepdim=True)

# The book's model

def _set(linear:nn.Linear, weight:Tensor, bias:Tensor|None, factor:float=1.):
    linear.weight = nn.Parameter(weight * factor)
    linear.bias = None if bias is None else nn.Parameter(bias * factor)

def _set_attention(attention:nn.Module, what:Attention):
    linears = attention.query, attention.key, attention.value, attention.output
    for linear, pair in zip(linears, what.maps): _set(linear, *pair)
    if what.bias is not None: attention.attend = _biased(attention, what.bias)
    d_k = len(what.maps[0][0]) // what.reading.counts[0]
    scale = what.factor * sqrt(d_k) # 1 in the paper
    if not what.qk_norm: return _set(attention.query, *what.maps[0], scale)
    for own, norm in zip((attention.query_norm, attention.key_norm), what.qk_norm):
        own.weight.data, own.eps = norm.weight[what.order], norm.eps
    attention.query_norm.weight.data *= scale

def _biased(attention:nn.Module, bias:Tensor): # (h, t, s)
    "Its `attend` with a bias in the scores, as T5's"
    def attend(q, k, v, mask):
        t, s = q.shape[2], k.shape[2]
        added = bias[:, :t, :s].masked_fill(~mask, -torch.inf)
        heads = nn.functional.scaled_dot_product_attention(q, k, v, added)
        return attention.output(heads.transpose(1, 2).flatten(2))
    return attend

def _set_embeddings(model:Transformer, found:Found, ids:Tensor):
    out = found.output
    def set_rows(module, name, rows, scale):
        missing = rows.new_zeros(len(ids) - len(rows), *rows.shape[1:])
        setattr(module, name, nn.Parameter(torch.cat([rows, missing])[ids] * scale))
    if not model.config.tie_embeddings:
        for module, e in zip(model.embeddings, (found.src, found.tgt)):
            set_rows(module, 'weight', e.weight, e.scale / sqrt(module.d_model))
    set_rows(model.output, 'weight', out.weight, found.output_scale)
    if out.bias is not None: set_rows(model.output, 'bias', out.bias, found.output_scale)

def _set_positions(model:Transformer, found:Found, own:bool):
    for name, e, norm in zip(('src', 'tgt'), (found.src, found.tgt), found.start_norms):
        module = getattr(model, f'{name}_positions')
        module._parameters.pop('table', None)
        module._buffers.pop('table', None)
        module.table, (t, d) = e.table, e.table.shape
        if e.positions in SINUSOIDS and not own:
            module.table = sinusoids(e.positions, t + e.offset, d)[e.offset:].to(e.table)
        if norm: setattr(model, f'{name}_positions', nn.Sequential(module, norm))

def build(found:Found, ids:Tensor, own_tables:bool)->Transformer:
    "The book's model with the weights, networks and norms that were found; ids in order"
    model = Transformer(found.config).double().eval()
    layers = [*model.encoder.layers, *model.decoder.layers]
    places = [(layer, i) for layer in layers for i in range(len(layer.residuals))]
    for part, (layer, i) in zip(found.parts, places):
        name = part.name.split(', ')[1].replace('-', '_')
        if isinstance(part.what, Attention): _set_attention(getattr(layer, name), part.what)
        else: layer.feed_forward = part.what
        layer.residuals[i] = part
    ends = (norm or nn.Identity() for norm in found.norms)
    model.encoder.norm, model.decoder.norm = ends
    _set_embeddings(model, found, ids)
    _set_positions(model, found, own_tables)
    return model

@torch.no_grad()
def compare(found:Found, f:Foreign, own_tables:bool=False)->float:
    "The largest difference of logits on other sentences, padded ones among them"
    src, tgt = f.draw(B, S - 2, T - 1)
    if f.pad is not None: src[1, 5:] = src[2, 8:] = f.pad
    ids, pad = torch.arange(found.config.vocab_size), f.pad or PAD
    ids[[PAD, pad]] = ids[[pad, PAD]] # theirs becomes ours
    model = build(found, ids, own_tables)
    own = model(ids[src], ids[tgt])[..., ids][..., :f.tgt_size]
    return differs(centered(own), centered(f(src, tgt).double()))
