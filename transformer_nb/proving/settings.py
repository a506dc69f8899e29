"Which settings of the book's model those are, what the paper says, and that model itself"
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import isclose, sqrt
import torch
from torch import Tensor, nn
from ..embedding import POSITIONS, PositionalEncoding
from ..model import Transformer, TransformerConfig
from ..parts import ACTIVATIONS
from .foreign import Foreign
from .identify import (
    AROUND, BIAS, HALVES, B, S, T, Attention, Found, Norm, centered, differs, explain)

def rows_of(found:Found)->list[tuple[str,str,str,str,str]]:
    "Setting, here, in the paper, verdict, and the lines of what is unusual"
    rows = []
    for name, here, paper, known in describe(found):
        values = here if isinstance(here, dict) else {'': here}
        if not values: continue
        [(usual, _)] = Counter(values.values()).most_common(1)
        odd = {part: value for part, value in values.items() if value != usual}
        told = [f'{value} in ' + ' and in '.join(p for p in odd if odd[p] == value)
                for value in dict.fromkeys(odd.values())]
        text = f'{usual}; but {"; ".join(told)}' if odd else usual
        if odd: verdict = 'unusual'
        elif paper in (usual, 'not told'): verdict = 'as in the paper'
        elif known is None or usual.split(', from ')[0] in known: verdict = 'a choice'
        else: verdict = 'unusual'
        shown = odd or [*values][:verdict == 'unusual'] # one of those that are alike
        lines = [f'{p.name}: {p.what.uses[-1].line}' for p in found.state.parts
                 if p.name in shown]
        rows.append((name, text, paper, verdict, ', '.join(lines)))
    return rows

def describe(found:Found)->Iterator[tuple[str,dict|str,str,tuple|None]]:
    """Setting, here (of all parts or by part), in the paper, what others do as well, and
    works (None: anything): all else is unusual"""
    state = found.state
    attentions = {p.name: p.what for p in state.parts if isinstance(p.what, Attention)}
    networks = {p.name: p.what for p in state.parts if p.name not in attentions}
    own = {name: a for name, a in attentions.items() if 'self' in name}
    places = ('none', 'post'), ('pre', 'before and after') # before the sub-layer, after it
    placement = {p.name: places[bool(p.before)][bool(p.after)] for p in state.parts}
    norms = norms_of(found)
    d, positions = found.src.x.shape[1], _positions(found)
    (h, d_k), _, (_, d_v) = (i.shape for i in state.parts[0].what.index)
    layers = [sum(name.startswith(side) for name in networks)
              for side in ('encoder', 'decoder')]
    yield 'layers', '{} and {}'.format(*layers), '6 and 6', None
    sizes = _one(f'{d}, {len(w.maps[0][0])}, {h}, {d_k}, {d_v}' for w in networks.values())
    yield 'd_model, d_ff, heads, d_k, d_v', sizes, '512, 2048, 8, 64, 64', None
    yield 'norm', placement, 'post', ('pre',)
    yield 'kind of norm', {name: n.kind for name, n in norms.items()}, 'layernorm', None
    yield 'eps', {name: f'{n.eps:g}' for name, n in norms.items()}, 'not told', None
    if state.output:
        ends, known = _both(state.norms), ('yes and yes',)
        if ends == 'no and no' and 'pre' in placement.values(): ends += ', though pre'
        yield 'norm at the end of the stacks', ends, 'no and no', known
    yield 'norm of the embeddings', _both(state.start_norms), 'no and no', ('yes and yes',)
    yield 'residual', {p.name: p.residual or 'yes' for p in state.parts}, 'yes', (AROUND,)
    shared = {name: str(len(a.index[1])) for name, a in attentions.items()}
    yield 'heads of keys and values', shared, f'{h}', None
    scales = {name: a.scale for name, a in attentions.items()}
    yield 'attention scale', scales, '1/√d_k', ('none',) if BIAS in positions else () # T5
    normed = {name: 'yes' if a.qk_norm else 'no' for name, a in own.items()}
    yield 'queries and keys normalized', normed, 'no', None
    causal = {name: 'yes' if a.causal else 'no' for name, a in own.items() if 'dec' in name}
    yield 'causal', causal, 'yes', ()
    activations = {name: w.activation for name, w in networks.items()}
    yield 'activation', activations, 'relu', (
        'gelu', 'gelu_new', 'silu', 'swiglu', 'geglu', 'geglu_new', 'reglu', 'relu²')
    yield 'biases in attention', _biases(attentions), 'no', None
    yield 'biases in the networks', _biases(networks), 'yes', None
    yield 'positions', positions, 'sinusoidal', (
        'sinusoidal, in halves', 'sinusoidal, in halves, to 1/10000', 'learned', 'rotary',
        HALVES, BIAS)
    scales = [_scale_name(e.scale, d) for e in (found.src, found.tgt)]
    yield 'embedding scale', _one(scales), '√d_model', ('1',)
    if state.output:
        yield 'one matrix for', _tied(found), 'source, target and output', None
        yield 'bias of the output', 'no' if state.output.bias is None else 'yes', 'no', None
        yield 'output scale', _scale_name(found.output_scale, d), '1', ('1/√d_model',)

def _both(norms:tuple)->str: return ' and '.join('yes' if n else 'no' for n in norms)
def _one(values:Iterable[str])->str: return ' and '.join(dict.fromkeys(values))

def norms_of(found:Found)->dict[str,Norm]:
    norms = {p.name: p.before or p.after for p in found.state.parts}
    norms |= zip(('end of the encoder', 'end of the decoder'), found.state.norms)
    return {name: norm for name, norm in norms.items() if norm}

def _biases(parts:dict)->dict[str,str]:
    words = {(True,): 'yes', (False,): 'no'} # of all its maps
    have = {name: {bias is not None for _, bias in what.maps}
            for name, what in parts.items()}
    return {name: words.get(tuple(kinds), 'some') for name, kinds in have.items()}

def _scale_name(scale:float, d:int)->str:
    names = {'√d_model': sqrt(d), '1': 1., '1/√d_model': 1 / sqrt(d)}
    return next((n for n, x in names.items() if isclose(scale, x, rel_tol=1e-6)),
                f'{scale:.4g}')

def _positions(found:Found)->str:
    kinds = [p.what.positions for p in found.state.parts if 'self' in p.name]
    def named(e):
        kind = kinds[0] or 'none' if e.positions == 'none' else e.positions
        return kind + (f', from {e.offset} on' if e.offset else '')
    return _one(map(named, (found.src, found.tgt)))

def _tied(found:Found)->str:
    matrices = dict(source=found.src.weight, target=found.tgt.weight,
                    output=found.state.output.weight)
    pairs = [f'{a} and {b}' for a, b in combinations(matrices, 2)
             if matrices[a].equal(matrices[b])]
    return 'source, target and output' if len(pairs) == 3 else (pairs or ['none'])[0]

def config_of(found:Found, f:Foreign)->TransformerConfig:
    "As most parts are; what the book's model does not know stays as in the paper"
    here = {name: text.split(';')[0] for name, text, *_ in found.rows}
    attention, network, *_ = (p.what for p in found.state.parts)
    (h, d_k), (kv, _), (_, d_v) = (i.shape for i in attention.index)
    n, m = map(int, here['layers'].split(' and '))
    d_ff, positions = len(network.maps[0][0]), here['positions'].split(',')[0]
    kind = 'rmsnorm' if here.get('kind of norm', '').startswith('rms') else 'layernorm'
    eps, usual = float(here.get('eps', 0)), 1e-6 if kind == 'rmsnorm' else 1e-5
    is_ours = network.activation in (*ACTIVATIONS, 'swiglu')
    return TransformerConfig(
        max(f.src_size, f.tgt_size), d_model=found.src.x.shape[1], n_heads=h, n_kv_heads=kv,
        d_ff=d_ff * 3 // 2 if network.activation == 'swiglu' else d_ff, d_k=d_k, d_v=d_v,
        n_encoder_layers=n, n_decoder_layers=m, dropout=0.,
        norm='pre' if here['norm'] == 'pre' else 'post', norm_type=kind,
        norm_eps=eps if eps and eps != usual else None, biases=_biases_of(here, found),
        activation=network.activation if is_ours else 'relu',
        qk_norm=here['queries and keys normalized'] == 'yes',
        positions=positions if positions in POSITIONS else 'sinusoidal',
        tie_embeddings=here['one matrix for'] == 'source, target and output',
        scale_embeddings=here['embedding scale'] == '√d_model')

def _biases_of(here:dict, found:Found)->str: # a value of the config's field
    if here['bias of the output'] == 'yes': return 'all'
    if here['biases in attention'] == 'yes': return 'attention'
    if here['biases in the networks'] == 'yes': return 'paper'
    has_shifts = any(norm.bias is not None for norm in norms_of(found).values())
    return 'paper' if has_shifts else 'none' # SwiGLU has no biases

# The book's model

def _set(linear:nn.Linear, weight:Tensor, bias:Tensor|None, factor:float=1.):
    linear.weight = nn.Parameter(weight * factor)
    linear.bias = None if bias is None else nn.Parameter(bias * factor)

def _set_attention(attention:nn.Module, what:Attention):
    linears = attention.query, attention.key, attention.value, attention.output
    for linear, pair in zip(linears, what.maps): _set(linear, *pair)
    if what.bias is not None: attention.attend = partial(_attend, attention, what.bias)
    scale = what.factor * sqrt(what.index[0].shape[1]) # 1 in the paper
    if not what.qk_norm: return _set(attention.query, *what.maps[0], scale)
    for own, norm in zip((attention.query_norm, attention.key_norm), what.qk_norm):
        own.weight.data, own.eps = norm.weight.clone(), norm.eps
    attention.query_norm.weight.data *= scale

def _attend(attention:nn.Module, bias:Tensor, q, k, v, mask)->Tensor:
    "With a bias in the scores (h, t, s), as T5's"
    t, s = q.shape[2], k.shape[2]
    added = bias[:, :t, :s].masked_fill(~mask, -torch.inf)
    heads = nn.functional.scaled_dot_product_attention(q, k, v, added)
    return attention.output(heads.transpose(1, 2).flatten(2))

def build(found:Found, own_tables:bool)->Transformer:
    "The book's model with the weights, networks and norms that were found"
    state = found.state
    config = replace(found.config, tie_embeddings=False, scale_embeddings=True)
    model = Transformer(config).double().eval()
    layers = [*model.encoder.layers, *model.decoder.layers]
    places = [(layer, i) for layer in layers for i in range(len(layer.residuals))]
    for part, (layer, i) in zip(state.parts, places):
        name = part.name.split(', ')[1].replace('-', '_')
        if isinstance(part.what, Attention): _set_attention(getattr(layer, name), part.what)
        else: layer.feed_forward = part.what
        layer.residuals[i] = part
    model.encoder.norm, model.decoder.norm = (norm or nn.Identity() for norm in state.norms)
    starts = zip(('src', 'tgt'), (found.src, found.tgt), state.start_norms)
    for embedding, (name, e, norm) in zip(model.embeddings, starts):
        embedding.weight = nn.Parameter(e.weight * e.scale / sqrt(config.d_model))
        positions = PositionalEncoding(config.d_model, 0., len(e.table))
        positions.table = e.table if own_tables else e.exact
        setattr(model, f'{name}_positions', nn.Sequential(positions, norm or nn.Identity()))
    _set(model.output, state.output.weight, state.output.bias, found.output_scale)
    return model

@torch.no_grad()
def compare(found:Found, f:Foreign, own_tables:bool=False)->float:
    "The largest difference of logits on other sentences, padded ones among them"
    src, tgt = f.draw(B, S - 2, T - 1)
    is_real = torch.ones_like(src, dtype=torch.bool)
    is_real[1, 5:] = is_real[2, 8:] = f.pad is None
    src[~is_real] = f.pad or 0
    model, mask = build(found, own_tables), is_real[:, None, None]
    memory = model.encoder(model.src_positions(model.src_embedding(src)), mask)
    own = model.decode(tgt, memory, mask)
    return differs(centered(own), centered(f(src, tgt).double()))

def identify(f:Foreign)->Found:
    found = explain(f)
    if not found.state or not found.state.parts: return found
    found.rows = rows_of(found)
    if not found.state.output: return found
    found.config = config_of(found, f)
    found.difference = compare(found, f)
    if found.difference > 1e-10: found.own_tables = compare(found, f, own_tables=True)
    return found
