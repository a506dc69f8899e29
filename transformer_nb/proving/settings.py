"Which settings of the book's model those are, and what the paper says"
from collections import Counter
from math import isclose, sqrt
from ..model import TransformerConfig
from .foreign import Foreign
from .identify import Attention, Norm
from .rebuild import Found, compare, explain

KNOWN = { # what others do as well, and that works; anything else is unusual
    'activation': ('gelu', 'gelu_new', 'silu', 'swiglu', 'geglu', 'geglu_new', 'reglu',
                   'relu²'),
    'positions': ('sinusoidal, in halves', 'sinusoidal, in halves, to 1/10000', 'learned',
                  'rotary', 'rotary, in halves', 'a bias in the scores'),
    'embedding scale': ('1',), 'output scale': ('1/√d_model',), 'norm': ('pre',),
    'residual': (), 'attention scale': (), 'causal': (), 'source sees': ()}

def judge(name:str, here:str, paper:str, rows:dict)->str:
    "'as in the paper', 'a choice' or 'unusual'"
    if here == paper or paper == 'not told' and ';' not in here: return 'as in the paper'
    if ';' in here: return 'unusual'
    if here == 'none' and 'bias' in rows['positions']: return 'a choice' # as in T5
    if name in KNOWN:
        is_known = here.split(', from ')[0] in KNOWN[name]
        return 'a choice' if is_known else 'unusual'
    ends = {'norm at the end of the stacks', 'norm of the embeddings'}
    if name in ends and here not in ('yes and yes', 'no and no'): return 'unusual'
    return 'a choice'

def rows_of(found:Found)->list[tuple[str,str,str,str,str]]: # and verdict, lines
    rows = describe(found)
    values = {name: here for name, here, _ in rows}
    result = []
    for name, here, paper in rows:
        verdict = judge(name, here, paper, values)
        is_pre = values['norm'] == 'pre'
        if name.endswith('of the stacks') and is_pre and here == 'no and no':
            verdict = 'unusual'
        parts = [p for p in found.state.parts if p.name in here]
        if verdict == 'unusual' and not parts: parts = _examples(name, found)
        lines = [f'{p.name}: {p.what.uses[-1].line}' for p in parts]
        result.append((name, here, paper, verdict, ', '.join(lines)))
    return result

def _examples(name:str, found:Found)->list: # a part where all are alike
    is_network = name == 'activation'
    if not is_network and name not in KNOWN or name in ('positions', 'embedding scale'): return []
    parts = found.state.parts
    return [p for p in parts if isinstance(p.what, Attention) != is_network][:1]

def _most(values:dict)->str: # by name of part
    "The commonest value, and where another one stands"
    counts = Counter(values.values())
    if not counts: return 'none'
    usual = counts.most_common(1)[0][0]
    odd = [f'{value} in {name}' for name, value in values.items() if value != usual]
    return f'{usual}; but {"; ".join(odd)}' if odd else str(usual)

def _placement(part)->str:
    if part.before and part.after: return 'before and after'
    return 'pre' if part.before else 'post' if part.after else 'none'

def _norms(found:Found)->dict[str,Norm]:
    norms = {f'{p.name}': p.before or p.after for p in found.state.parts if p.before
             or p.after}
    ends = zip(('end of the encoder', 'end of the decoder'), found.state.norms)
    return norms | {name: norm for name, norm in ends if norm}

def _has_bias(pairs)->str:
    have = [bias is not None for _, bias in pairs]
    return 'yes' if all(have) else 'no' if not any(have) else 'some'

def _scale_name(scale:float, d:int)->str:
    names = {'√d_model': sqrt(d), '1': 1., '1/√d_model': 1 / sqrt(d)}
    return next((n for n, x in names.items() if isclose(scale, x, rel_tol=1e-6)),
                f'{scale:.4g}')

def _positions(found:Found)->tuple[str,str]:
    own = [p.what.positions for p in found.state.parts
           if isinstance(p.what, Attention) and 'self' in p.name]
    result = []
    for e in (found.src, found.tgt):
        kind = e.positions if e.positions != 'none' or not own else own[0] or 'none'
        result.append(kind + (f', from {e.offset} on' if e.offset else ''))
    return tuple(result)

def describe(found:Found)->list[tuple[str,str,str]]: # setting, here, paper
    parts = found.state.parts
    attentions = {p.name: p.what for p in parts if isinstance(p.what, Attention)}
    networks = {p.name: p.what for p in parts if not isinstance(p.what, Attention)}
    d, norms = found.src.x.shape[1], _norms(found)
    n_layers = [sum(p.name.startswith(side) and 'feed' in p.name for p in parts)
                for side in ('encoder', 'decoder')]
    src, tgt = _positions(found)
    scales = [_scale_name(e.scale, d) for e in (found.src, found.tgt)]
    first = next(iter(attentions.values()))
    d_k, d_v = (len(first.maps[i][0]) // h for i, h in
                ((0, first.reading.n_heads), (2, first.reading.n_kv_heads)))
    rows = [
        ('layers', f'{n_layers[0]} and {n_layers[1]}', '6 and 6'),
        ('d_model, d_ff, heads, d_k, d_v', f'{d}, {_d_ff(networks)}, '
         f'{first.reading.n_heads}, {d_k}, {d_v}', '512, 2048, 8, 64, 64'),
        ('norm', _most({p.name: _placement(p) for p in parts}), 'post'),
        ('kind of norm', _most({n: norm.kind for n, norm in norms.items()}), 'layernorm'),
        ('eps', _most({n: f'{norm.eps:g}' for n, norm in norms.items()}), 'not told'),
        ('norm at the end of the stacks', ' and '.join(
            'yes' if n else 'no' for n in found.state.norms), 'no and no'),
        ('norm of the embeddings', ' and '.join(
            'yes' if n else 'no' for n in found.start_norms), 'no and no'),
        ('residual', _most({p.name: p.residual or 'yes' for p in parts}), 'yes'),
        ('heads of keys and values', _most(
            {n: str(a.reading.n_kv_heads) for n, a in attentions.items()}),
         f'{first.reading.n_heads}'),
        ('attention scale', _most({n: a.scale for n, a in attentions.items()}), '1/√d_k'),
        ('queries and keys normalized', _most({n: 'yes' if a.qk_norm else 'no'
            for n, a in attentions.items() if 'self' in n}), 'no'),
        ('causal', _most({n: 'yes' if a.causal else 'no' for n, a in attentions.items()
            if n.startswith('decoder') and 'self' in n}), 'yes'),
        ('source sees', _most({n: 'what stands before' if a.causal else 'all'
            for n, a in attentions.items() if 'self' not in n or n.startswith('enc')}), 'all'),
        ('activation', _most({n: w.activation for n, w in networks.items()}), 'relu'),
        ('biases in attention', _most(
            {n: _has_bias(a.maps) for n, a in attentions.items()}), 'no'),
        ('biases in the networks', _most(
            {n: _has_bias(w.maps) for n, w in networks.items()}), 'yes'),
        ('positions', src if src == tgt else f'{src} and {tgt}', 'sinusoidal'),
        ('embedding scale', scales[0] if scales[0] == scales[1] else ' and '.join(scales),
         '√d_model')]
    if found.output: rows += _outer(found)
    return rows

def _d_ff(networks:dict)->str:
    return _most({n: str(len(w.maps[0][0])) for n, w in networks.items()})

def _outer(found:Found)->list[tuple[str,str,str]]:
    return [('one matrix for', tied(found), 'source, target and output'),
            ('bias of the output', 'no' if found.output.bias is None else 'yes', 'no'),
            ('output scale', _scale_name(found.output_scale, found.src.x.shape[1]), '1')]

def tied(found:Found)->str:
    src, tgt, out = found.src.weight, found.tgt.weight, found.output.weight
    pairs = {'source and target': (src, tgt), 'target and output': (tgt, out),
             'source and output': (src, out)}
    shared = [name for name, (a, b) in pairs.items() if a.shape == b.shape and a.equal(b)]
    if len(shared) == 3: return 'source, target and output'
    return shared[0] if shared else 'none'

def config_of(found:Found, f:Foreign)->TransformerConfig:
    here = {name: value.split(';')[0] for name, value, *_ in found.rows}
    parts = [p.what for p in found.state.parts]
    first = next(p for p in parts if isinstance(p, Attention))
    network = next(p for p in parts if not isinstance(p, Attention))
    h, kv = first.reading.n_heads, first.reading.n_kv_heads
    n, m = map(int, here['layers'].split(' and '))
    d, d_ff, scale = found.src.x.shape[1], len(network.maps[0][0]), here['embedding scale']
    usual_scale = scale in ('√d_model', '1') and here['output scale'] == '1'
    is_tied = here['one matrix for'] == 'source, target and output' and usual_scale
    norms = list(_norms(found).values())
    kind = 'rmsnorm' if here['kind of norm'].startswith('rms') else 'layernorm'
    positions = here['positions'].split(',')[0]
    known = ('sinusoidal', 'learned', 'rotary')
    bias = tuple(here[name] for name in ('biases in attention', 'biases in the networks',
                                         'bias of the output'))
    biases = {('no', 'yes', 'no'): 'paper', ('yes', 'yes', 'no'): 'attention',
              ('yes', 'yes', 'yes'): 'all', ('no', 'no', 'no'): 'none'}.get(bias, 'all')
    if biases == 'none' and any(n.bias is not None for n in norms):
        biases = 'paper' # SwiGLU
    eps = norms[0].eps if norms else 0.
    usual = 1e-6 if kind == 'rmsnorm' else 1e-5
    return TransformerConfig(
        max(f.src_size, f.tgt_size), d_model=d, n_heads=h, n_kv_heads=kv,
        d_ff=d_ff * 3 // 2 if network.activation == 'swiglu' else d_ff,
        d_k=len(first.maps[0][0]) // h, d_v=len(first.maps[2][0]) // kv,
        n_encoder_layers=n, n_decoder_layers=m, dropout=0.,
        norm='pre' if here['norm'] == 'pre' else 'post', norm_type=kind,
        norm_eps=eps if eps and eps != usual else None, biases=biases,
        activation=here['activation'] if here['activation'] in _OURS else 'relu',
        qk_norm=here['queries and keys normalized'] == 'yes',
        positions=positions if positions in known else 'sinusoidal', tie_embeddings=is_tied,
        scale_embeddings=not is_tied or scale == '√d_model')

_OURS = 'relu', 'gelu', 'gelu_new', 'silu', 'swiglu'

def identify(f:Foreign)->Found|str:
    found = explain(f)
    if isinstance(found, str) or not found.state.parts: return found
    found.rows = rows_of(found)
    if not found.output: return found
    found.config = config_of(found, f)
    found.difference = compare(found, f)
    if found.difference > 1e-10: found.own_tables = compare(found, f, own_tables=True)
    return found
