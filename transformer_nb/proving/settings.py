"Which settings of the book's model those are, and what the paper says"
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations
from math import isclose, sqrt
import torch
from ..embedding import POSITIONS
from ..model import TransformerConfig
from ..parts import ACTIVATIONS
from .foreign import Foreign
from .identify import AROUND, BIAS, HALVES, Attention, Norm
from .rebuild import Found, compare, explain

# What others do as well, and works; anything else is unusual
KNOWN_ACTIVATIONS = ('gelu', 'gelu_new', 'silu', 'swiglu', 'geglu', 'geglu_new', 'reglu',
                     'relu²')
KNOWN_POSITIONS = ('sinusoidal, in halves', 'sinusoidal, in halves, to 1/10000', 'learned',
                   'rotary', HALVES, BIAS)

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
        lines = [f'{p.name}: {p.what.uses[-1].line}' for p in found.parts
                 if p.name in shown]
        rows.append((name, text, paper, verdict, ', '.join(lines)))
    return rows

def describe(found:Found)->Iterator[tuple[str,dict|str,str,tuple|None]]:
    "Setting, here (of all parts or by part), in the paper, what others do (None: anything)"
    attentions = {p.name: p.what for p in found.parts if isinstance(p.what, Attention)}
    networks = {p.name: p.what for p in found.parts if p.name not in attentions}
    own = {name: a for name, a in attentions.items() if 'self' in name}
    norms, placement = norms_of(found), {p.name: _placement(p) for p in found.parts}
    first, positions = next(iter(attentions.values())), _positions(found)
    d, h, (d_k, d_v) = found.src.x.shape[1], first.reading.counts[0], sizes_of(first)
    layers = [sum(name.startswith(side) for name in networks)
              for side in ('encoder', 'decoder')]
    yield 'layers', '{} and {}'.format(*layers), '6 and 6', None
    sizes = _one(f'{d}, {len(w.maps[0][0])}, {h}, {d_k}, {d_v}' for w in networks.values())
    yield 'd_model, d_ff, heads, d_k, d_v', sizes, '512, 2048, 8, 64, 64', None
    yield 'norm', placement, 'post', ('pre',)
    yield 'kind of norm', {name: n.kind for name, n in norms.items()}, 'layernorm', None
    yield 'eps', {name: f'{n.eps:g}' for name, n in norms.items()}, 'not told', None
    if found.output:
        ends, known = _both(found.norms), ('yes and yes',)
        if ends == 'no and no' and 'pre' in placement.values(): ends += ', though pre'
        yield 'norm at the end of the stacks', ends, 'no and no', known
    yield 'norm of the embeddings', _both(found.start_norms), 'no and no', ('yes and yes',)
    yield 'residual', {p.name: p.residual or 'yes' for p in found.parts}, 'yes', (AROUND,)
    shared = {name: str(a.reading.counts[1]) for name, a in attentions.items()}
    yield 'heads of keys and values', shared, f'{h}', None
    scales = {name: a.scale for name, a in attentions.items()}
    yield 'attention scale', scales, '1/√d_k', ('none',) if BIAS in positions else () # T5
    normed = {name: 'yes' if a.qk_norm else 'no' for name, a in own.items()}
    yield 'queries and keys normalized', normed, 'no', None
    causal = {name: 'yes' if a.causal else 'no' for name, a in own.items() if 'dec' in name}
    yield 'causal', causal, 'yes', ()
    activations = {name: w.activation for name, w in networks.items()}
    yield 'activation', activations, 'relu', KNOWN_ACTIVATIONS
    yield 'biases in attention', _biases(attentions), 'no', None
    yield 'biases in the networks', _biases(networks), 'yes', None
    yield 'positions', positions, 'sinusoidal', KNOWN_POSITIONS
    scales = [_scale_name(e.scale, d) for e in (found.src, found.tgt)]
    yield 'embedding scale', _one(scales), '√d_model', ('1',)
    if found.output:
        yield 'one matrix for', tied(found), 'source, target and output', None
        yield 'bias of the output', 'no' if found.output.bias is None else 'yes', 'no', None
        yield 'output scale', _scale_name(found.output_scale, d), '1', ('1/√d_model',)

def _both(norms:tuple)->str: return ' and '.join('yes' if n else 'no' for n in norms)
def _one(values:Iterable[str])->str: return ' and '.join(dict.fromkeys(values))

def sizes_of(a:Attention)->tuple[int,int]: # d_k and d_v
    h, kv, _ = a.reading.counts
    query, _, value, _ = (len(weight) for weight, _ in a.maps)
    return query // h, value // kv

def _placement(part)->str:
    if part.before and part.after: return 'before and after'
    return 'pre' if part.before else 'post' if part.after else 'none'

def norms_of(found:Found)->dict[str,Norm]:
    norms = {p.name: p.before or p.after for p in found.parts}
    norms |= zip(('end of the encoder', 'end of the decoder'), found.norms)
    return {name: norm for name, norm in norms.items() if norm}

def _biases(parts:dict)->dict[str,str]:
    have = {name: [bias is not None for _, bias in what.maps] for name, what in parts.items()}
    return {n: 'yes' if all(x) else 'some' if any(x) else 'no' for n, x in have.items()}

def _scale_name(scale:float, d:int)->str:
    names = {'√d_model': sqrt(d), '1': 1., '1/√d_model': 1 / sqrt(d)}
    return next((n for n, x in names.items() if isclose(scale, x, rel_tol=1e-6)),
                f'{scale:.4g}')

def _positions(found:Found)->str:
    kinds = [p.what.positions for p in found.parts if 'self' in p.name]
    result = []
    for e in (found.src, found.tgt):
        kind = kinds[0] or 'none' if e.positions == 'none' else e.positions
        result.append(kind + (f', from {e.offset} on' if e.offset else ''))
    return _one(result)

def tied(found:Found)->str:
    matrices = {'source': found.src.weight, 'target': found.tgt.weight,
                'output': found.output.weight}
    pairs = [(a, b) for a, b in combinations(matrices, 2)
             if torch.equal(matrices[a], matrices[b])]
    if len(pairs) == 3: return 'source, target and output'
    return ' and '.join(pairs[0]) if pairs else 'none'

def config_of(found:Found, f:Foreign)->TransformerConfig:
    here = {name: value.split(';')[0] for name, value, *_ in found.rows}
    whats = [p.what for p in found.parts]
    first = next(what for what in whats if isinstance(what, Attention))
    network = next(what for what in whats if not isinstance(what, Attention))
    n, m = map(int, here['layers'].split(' and '))
    d_ff, scale = len(network.maps[0][0]), here['embedding scale']
    usual_scale = scale in ('√d_model', '1') and here['output scale'] == '1'
    is_tied = here['one matrix for'] == 'source, target and output' and usual_scale
    norms = list(norms_of(found).values())
    kind = 'rmsnorm' if norms and norms[0].kind.startswith('rms') else 'layernorm'
    eps, usual = norms[0].eps if norms else 0., 1e-6 if kind == 'rmsnorm' else 1e-5
    positions = here['positions'].split(',')[0]
    (d_k, d_v), (h, kv, _) = sizes_of(first), first.reading.counts
    return TransformerConfig(
        max(f.src_size, f.tgt_size), d_model=found.src.x.shape[1], n_heads=h, n_kv_heads=kv,
        d_ff=d_ff * 3 // 2 if network.activation == 'swiglu' else d_ff, d_k=d_k, d_v=d_v,
        n_encoder_layers=n, n_decoder_layers=m, dropout=0.,
        norm='pre' if here['norm'] == 'pre' else 'post', norm_type=kind,
        norm_eps=eps if eps and eps != usual else None, biases=_biases_of(here, norms),
        activation=network.activation if network.activation in _OURS else 'relu',
        qk_norm=here['queries and keys normalized'] == 'yes',
        positions=positions if positions in POSITIONS else 'sinusoidal',
        tie_embeddings=is_tied, scale_embeddings=not is_tied or scale == '√d_model')

_OURS = *ACTIVATIONS, 'swiglu'

def _biases_of(here:dict, norms:list[Norm])->str: # a value of the config's field
    kinds = {('no', 'yes', 'no'): 'paper', ('yes', 'yes', 'no'): 'attention',
             ('no', 'no', 'no'): 'none'}
    kind = kinds.get(tuple(here[name] for name in ('biases in attention',
                           'biases in the networks', 'bias of the output')), 'all')
    has_shifts = any(norm.bias is not None for norm in norms)
    return 'paper' if kind == 'none' and has_shifts else kind # SwiGLU

def identify(f:Foreign)->Found:
    found = explain(f)
    if not found.parts: return found
    found.rows = rows_of(found)
    if not found.output: return found
    found.config = config_of(found, f)
    found.difference = compare(found, f)
    if found.difference > 1e-10: found.own_tables = compare(found, f, own_tables=True)
    return found
