"What must hold of any Transformer, asked from outside, each with its counterexample"
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from time import process_time
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from ..support.core import InputError
from .foreign import Foreign
from .record import record
from .settings import identify

@dataclass
class Verdict:
    "What a property came to"
    name: str
    outcome: str   # 'holds', 'differs' (from the paper, and works), 'fails' or 'not asked'
    told: str = '' # one or two sentences
    case: str = '' # two inputs, two outputs, the place
    where: str = ''# the line of their code

def gap(a:Tensor, b:Tensor)->float: # in units of the largest number; inf for NaN
    scale = max(a[a.isfinite()].abs().max().item() if a.isfinite().any() else 0., 1e-30)
    found = ((a - b).abs().max() / scale).item()
    return found if found == found else float('inf')

def show(ids:Tensor)->str: return '[' + ' '.join(map(str, ids.tolist())) + ']'

def numbers(a:Tensor, b:Tensor)->str: # where they are furthest apart
    i = (a - b).abs().nan_to_num(torch.inf).flatten().argmax()
    return f'{a.flatten()[i].item():.6g} and {b.flatten()[i].item():.6g}'

def others(f:Foreign, ids:Tensor, size:int)->Tensor: # another token everywhere
    other = f._ids(len(ids), ids.shape[1], size)
    return other.where(other != ids, f._ids(len(ids), ids.shape[1], size).roll(1, 1))

SHAPES = (3, 6, 8), (1, 5, 4), (4, 4, 4), (2, 9, 5), (5, 5, 5), (8, 8, 8)

# Both runs side by side: where do they part?

def first_difference(f:Foreign, a:tuple, b:tuple, cut:Callable, model=None)->str:
    "The line of the first step whose shared part differs"
    _, one = record(f.model, lambda: f(*a, model))
    _, two = record(f.model, lambda: f(*b, model))
    for x, y in zip(one.steps, two.steps):
        if x.name != y.name: return ''
        if not x.output.is_floating_point() or x.name in _BLANK: continue
        p, q = cut(x.output, y.output)
        if p.shape != q.shape: continue
        if not p.equal(q) and gap(p, q) > f.tolerance: return x.line
    return ''

_BLANK = 'empty', 'empty_like', 'new_empty', 'empty_strided', 'bernoulli_'

def _narrow(x:Tensor, sizes:dict[int,int])->Tensor: # each axis of such a size, cut
    for axis, n in enumerate(x.shape):
        if n in sizes: x = x.narrow(axis, 0, sizes[n])
    return x

# The properties

def causality(f:Foreign)->Verdict:
    "No logit may move with a later target token"
    for b, s, t in SHAPES:
        src, tgt = f.draw(b, s, t)
        before = f(src, tgt)
        for i in range(1, t):
            changed = tgt.clone()
            changed[:, i:] = others(f, tgt, f.tgt_size)[:, i:]
            after = f(src, changed)
            if gap(before[:, :i], after[:, :i]) > f.tolerance:
                return _leak(f, src, tgt, changed, before, after, i)
    return Verdict('causality', 'holds')

def _leak(f, src, tgt, changed, before, after, i)->Verdict:
    moved = (before[:, :i] - after[:, :i]).abs().nan_to_num(torch.inf)
    row = moved.flatten(1).amax(1).argmax()
    case = (f'target {show(tgt[row])} and {show(changed[row])}: they part at position {i}; '
            f'a logit before it is {numbers(before[row, :i], after[row, :i])}')
    src, tgt = f.draw(1, 11, 13)
    changed = tgt.clone()
    changed[:, 5:] = others(f, tgt, f.tgt_size)[:, 5:]
    def cut(x, y): return _narrow(x, {13: 5}), _narrow(y, {13: 5})
    where = first_difference(f, (src, tgt), (src, changed), cut)
    return Verdict('causality', 'fails', 'Logits depend on later target tokens.', case,
                   where)

def source_padding(f:Foreign)->Verdict:
    "Padding after a source changes nothing, beside a longer one or without"
    name, raised = 'source padding', ''
    if f.pad is None: return Verdict(name, 'not asked', 'the adapter has no pad')
    for b, s, t in SHAPES:
        src, tgt = f.draw(b, s, t)
        one, padded = f(src, tgt), F.pad(src, (0, 3), value=f.pad)
        longer = torch.cat([f.draw(1, s + 3, t)[0], padded])
        pairs = {' beside a longer one': f(longer, torch.cat([tgt[:1], tgt]))[1:]}
        try: pairs[''] = f(padded, tgt)
        except Exception as e: raised = type(e).__name__
        for beside, two in pairs.items():
            if gap(one, two) > f.tolerance:
                return _padding(f, src, padded, tgt, one, two, beside)
    if not raised: return Verdict(name, 'holds')
    return Verdict(name, 'differs', f'A batch wider than its longest source raises {raised}.')

def _padding(f, src, padded, tgt, one, two, beside)->Verdict:
    row = (one - two).abs().nan_to_num(torch.inf).flatten(1).amax(1).argmax()
    case = (f'source {show(src[row])} and {show(padded[row])}{beside}, target '
            f'{show(tgt[row])}: a logit is {numbers(one[row], two[row])}')
    src, tgt = f.draw(1, 11, 7)
    padded, b = F.pad(src, (0, 2), value=f.pad), 1 + bool(beside)
    if beside: padded = torch.cat([padded, f.draw(1, 13, 7)[0]])
    def cut(x, y): return x, _rows(x, _narrow(y, {13: 11}), b)
    where = first_difference(f, (src, tgt), (padded, tgt.repeat(b, 1)), cut)
    return Verdict('source padding', 'fails', 'Logits depend on the padding of the source.',
                   case, where)

def _rows(x, y, b:int): # of y, whose batch is b times as large: the first of them
    for axis, (m, n) in enumerate(zip(x.shape, y.shape)):
        if n == b*m: y = y.narrow(axis, 0, m)
    return y

def target_padding(f:Foreign)->Verdict:
    "Padding after a target changes nothing before it"
    name = 'target padding'
    if f.pad is None: return Verdict(name, 'not asked', 'the adapter has no pad')
    for b, s, t in SHAPES:
        src, tgt = f.draw(b, s, t)
        padded = F.pad(tgt, (0, 3), value=f.pad)
        one, two = f(src, tgt), f(src, padded)[:, :t]
        if gap(one, two) > f.tolerance:
            case = f'target {show(tgt[0])} and {show(padded[0])}: {numbers(one, two)}'
            return Verdict(name, 'fails', 'Logits depend on padding after them.', case)
    return Verdict(name, 'holds')

def batch_mates(f:Foreign)->Verdict:
    "A sentence's logits are those that it has alone"
    for b, s, t in SHAPES:
        src, tgt = f.draw(b, s, t)
        together = f(src, tgt)
        for i in range(b):
            alone = f(src[i:i+1], tgt[i:i+1])
            if gap(alone, together[i:i+1]) > f.tolerance:
                return _mates(f, b, i, src, tgt, alone, together)
    return Verdict('batch mates', 'holds')

def _mates(f, b, i, src, tgt, alone, together)->Verdict:
    case = (f'source {show(src[i])}, target {show(tgt[i])}, alone and as row {i} of {b}: '
            f'a logit is {numbers(alone[0], together[i])}')
    def cut(x, y): return x, _rows(x, y, b)
    where = first_difference(f, (src[:1], tgt[:1]), (src, tgt), cut)
    told = 'Sentences of a batch change one another'
    told += f' where b = t = {b}.' if b == tgt.shape[1] else '.'
    return Verdict('batch mates', 'fails', told, case, where)

def source_read(f:Foreign)->Verdict:
    "Every token of the source counts, at every target position"
    src, tgt = f.draw(3, 9, 6)
    before, other = f(src, tgt), others(f, src, f.src_size)
    for i in range(src.shape[1]):
        changed = src.clone()
        changed[:, i] = other[:, i]
        is_same = (f(changed, tgt) == before).all(-1).all(0) # (t,): to the last digit
        if not is_same.any(): continue
        case = (f'source {show(src[0])} and {show(changed[0])}: '
                f'no logit moves at target position {int(is_same.float().argmax())}')
        return Verdict('source is read', 'fails', f'Source position {i} is not read.', case)
    return Verdict('source is read', 'holds')

def history_read(f:Foreign)->Verdict:
    "Every target token counts, at its position and at every later one"
    src, tgt = f.draw(3, 6, 7)
    before, other = f(src, tgt), others(f, tgt, f.tgt_size)
    for i in range(tgt.shape[1]):
        changed = tgt.clone()
        changed[:, i] = other[:, i]
        is_same = (f(src, changed) == before).all(-1).all(0)
        is_same[:i] = False
        if not is_same.any(): continue
        j = int(is_same.float().argmax())
        case = f'target {show(tgt[0])} and {show(changed[0])}: no logit moves at {j}'
        told = f'Target position {i} is not read at position {j}.'
        return Verdict('target is read', 'fails', told, case)
    return Verdict('target is read', 'holds')

def order(f:Foreign)->Verdict:
    "Two tokens that change places change the logits"
    src, tgt = f.draw(2, 7, 7)
    before, swap = f(src, tgt)[:, -1], [0, 2, 1, 5, 4, 3, 6]
    for side, after in ('source', f(src[:, swap], tgt)), ('target', f(src, tgt[:, swap])):
        if gap(before, after[:, -1]) > 1e-9: continue
        ids = src[0] if side == 'source' else tgt[0]
        case = f'{side} {show(ids)} and {show(ids[swap])}: the last logits are the same'
        return Verdict('order', 'fails', f'The order of the {side} does not matter.', case)
    return Verdict('order', 'holds')

def evaluation(f:Foreign)->Verdict:
    "In eval mode a call gives the same again, and leaves its arguments and the model alone"
    name, (src, tgt) = 'evaluation', f.draw(3, 6, 5)
    first, weights = f(src, tgt), deepcopy(f.model.state_dict())
    def fails(told):
        return Verdict(name, 'fails', told, f'source {show(src[0])}, target {show(tgt[0])}')
    again = f(src, tgt)
    if gap(first, again) > f.tolerance:
        _, rec = record(f.model, lambda: f(src, tgt))
        verdict = fails('Two equal calls differ in eval mode.')
        verdict.case += f': {numbers(first, again)}'
        verdict.where = rec.dropouts[0][-1] if rec.dropouts else ''
        return verdict
    f(*f.draw(2, 9, 7))
    if gap(first, f(src, tgt)) > f.tolerance:
        return fails('A call changes what later calls give.')
    with torch.inference_mode():
        if gap(first, f(src, tgt)) > f.tolerance:
            return fails('Without gradients it gives something else.')
    before = src.clone(), tgt.clone()
    f.adapter.logits(f.model, src, tgt)
    if not (src.equal(before[0]) and tgt.equal(before[1])):
        return fails('A call changes its arguments.')
    f.model.train()
    f(src, tgt)
    f.model.eval()
    if gap(first, f(src, tgt)) > f.tolerance:
        changed = [k for k, v in f.model.state_dict().items() if not v.equal(weights[k])]
        what = ', '.join(changed) or 'a hidden state'
        return fails(f'A call in training mode changes later ones: {what}.')
    return Verdict(name, 'holds')

def dropout(f:Foreign)->Verdict:
    "Where elements are dropped in training, and how many"
    src, tgt = f.draw(3, 11, 7)
    f.model.train()
    try: _, rec = record(f.model, lambda: f(src, tgt))
    finally: f.model.eval()
    outputs = [u.output for u in rec.linears]
    places = {}
    for x, p, line in rec.dropouts:
        places.setdefault((_place(x, outputs), round(p, 4)), []).append(line)
    if not places: return Verdict('dropout', 'differs', 'Nothing is dropped in training.')
    told = ', '.join(f'{place} {p:g} ({len(lines)} times)' for (place, p),
                     lines in places.items())
    usual = {place for place, _ in places} == {'embeddings', 'outputs of sub-layers'}
    return Verdict('dropout', 'holds' if usual else 'differs', f'Dropped: {told}.')

def _place(x:Tensor, outputs:list[Tensor])->str:
    if sum(n in (11, 7) for n in x.shape) > 1: return 'attention weights'
    if any(x.numel() == y.numel() and x.shape[-1] == y.shape[-1]
           and _sorted(x).equal(_sorted(y)) for y in outputs): return 'outputs of sub-layers'
    return 'embeddings' if x.shape[-1] == min(y.shape[-1] for y
                                              in outputs) else 'inner values of networks'

def _sorted(x:Tensor)->Tensor: return x.flatten().sort().values

def gradients(f:Foreign)->Verdict:
    "Every parameter has a gradient, and it is the slope of the loss"
    src, tgt = f.draw(3, 7, 6)
    named = {n: p for n, p in f.model.named_parameters() if p.requires_grad}
    def loss(): return (f(src, tgt).log_softmax(-1) * mixture).sum()
    mixture = torch.randn(3, 6, f.tgt_size, generator=f.draws).to(f(src, tgt))
    found = torch.autograd.grad(loss(), list(named.values()), allow_unused=True)
    missing = [n for (n, p), g in zip(named.items(), found) if g is None]
    if missing:
        return Verdict('gradients', 'fails',
                       f'{_names(missing)} never {_get(missing)} a gradient.')
    exact = f.exact and not f.rounds # else two calls do not tell a slope
    for (name, p), g in zip(named.items(), found) if exact else ():
        for size in (1e-6, 1e-5, 1e-4): # a kink may be near, or numbers be rounded
            a, b = _slope(f, p, g, loss, size)
            if abs(a - b) <= 0.02 * max(0.1, abs(a), abs(b)): break
        else:
            case = f'along one direction the loss rises by {b:.6g}, not by {a:.6g}'
            return Verdict('gradients', 'fails',
                           f'The gradient of {name} is not the slope.', case)
    twice = _shared(f)
    if twice: return Verdict('gradients', 'differs', f'{_names(twice)} are one parameter.')
    return Verdict('gradients', 'holds')

@torch.no_grad()
def _slope(f:Foreign, p:Tensor, g:Tensor, loss:Callable, size:float)->tuple[float,float]:
    "By the gradient and by two calls"
    step = size * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)).to(p)
    if f.pad is not None and len(p) in (f.src_size, f.tgt_size) and p.dim() == 2:
        step[f.pad] = 0. # nn.Embedding's padding_idx keeps that row as it is
    p += step
    high = loss().item()
    p -= 2*step
    low = loss().item()
    p += step
    return ((g*step).sum() / size).item(), (high - low) / (2*size)

def _names(names:list[str])->str:
    return ', '.join(names[:3]) + (f' and {len(names) - 3} more' if len(names) > 3 else '')
def _get(names)->str: return 'gets' if len(names) == 1 else 'get'

def _shared(f:Foreign)->list[str]: # parameters inside layers that are one
    first, found = {}, []
    for name, p in f.original.named_parameters(remove_duplicate=False):
        if p in first and not {f.src_size, f.tgt_size} & {*p.shape}:
            found += [n for n in (first[p], name) if n not in found]
        first.setdefault(p, name)
    return found

def extremes(f:Foreign)->Verdict:
    "Large scores stay finite and masked; an empty source harms no other sentence"
    name, model = 'extremes', f.copy(torch.float32)
    large = deepcopy(f.model)
    with torch.no_grad():
        for m in (model, large):
            for p in m.parameters():
                if p.dim() > 1 and p.requires_grad: p.mul_(20 * p.shape[-1]**-.5 / p.std())
    src, tgt = f.draw(2, 7, 6)
    if not f(src, tgt, model).isfinite().all():
        return Verdict(name, 'fails',
                       'With weights 20 times as large, logits are not finite.',
                       f'source {show(src[0])}, target {show(tgt[0])}')
    changed = tgt.clone()
    changed[:, 4:] = others(f, tgt, f.tgt_size)[:, 4:]
    pairs = [('later targets', f(src, tgt, large)[:, :4], f(src, changed, large)[:, :4])]
    if f.pad is not None:
        padded = src.clone()
        padded[1, 5:] = f.pad
        alone = f(src[1:, :5], tgt[1:], large)
        pairs.append(('padding', alone, f(padded, tgt, large)[1:]))
    for what, a, b in pairs:
        if gap(a, b) > max(1e-6, f.tolerance):
            return Verdict(name, 'fails', f'Where scores are large, masks leak {what}.',
                           numbers(a, b))
    return _empty_source(f, name, src, tgt) if f.pad is not None else Verdict(name, 'holds')

def _empty_source(f:Foreign, name:str, src:Tensor, tgt:Tensor)->Verdict:
    empty = src.clone()
    empty[1] = f.pad
    try: found = f(empty, tgt)
    except InputError: raise
    except Exception as e:
        return Verdict(name, 'differs',
                       f'A source of padding alone raises {type(e).__name__}.')
    case = f'source {show(src[0])} beside {show(empty[1])}'
    if gap(f(src, tgt)[0], found[0]) > f.tolerance:
        return Verdict(name, 'fails', 'A source of padding alone changes its neighbour.',
                       case)
    if not found.isfinite().all():
        return Verdict(name, 'differs',
                       'A source of padding alone gives NaN, to itself only.', case)
    return Verdict(name, 'holds')

def ties(f:Foreign)->Verdict:
    "Matrices that begin equal are one parameter, so that they stay equal"
    named = {n: p for n, p in f.original.named_parameters() if p.requires_grad}
    big = [(n, p) for n, p in named.items() if p.dim() > 1 and {f.src_size,
                                                                f.tgt_size} & {*p.shape}]
    apart = [f'{n} and {m}' for i, (n, p) in enumerate(big) for m, q in big[:i]
             if p.shape == q.shape and p is not q and p.equal(q)]
    if apart:
        return Verdict('ties', 'fails',
                       f'{_names(apart)} begin equal, but are trained apart.')
    return Verdict('ties', 'holds')

def two_halves(f:Foreign)->Verdict:
    "Encoder and decoder, called one after the other, give the logits"
    name = 'encode and decode'
    if not (f.has('encode') and f.has('decode')):
        return Verdict(name, 'not asked', 'the adapter lacks them')
    src, tgt = f.draw(3, 6, 5)
    halves = f.adapter.decode(f.model, tgt, f.adapter.encode(f.model, src), src)
    whole, halves = f(src, tgt), f.checked(halves, (3, 5, f.tgt_size))
    if gap(whole, halves) > f.tolerance:
        return Verdict(name, 'fails', 'They give other logits than the whole.',
                       numbers(whole, halves))
    return Verdict(name, 'holds')

# Loss and schedule

def loss(f:Foreign)->Verdict:
    "Padding counts nothing; from two gradients, the distribution that is the target"
    if not f.has('loss'): return Verdict('loss', 'not asked', 'the adapter lacks it')
    v, pad = f.tgt_size, f.pad
    labels = f.draw(3, 5, 6, first=False)[1]
    if pad is not None: labels[1, 4:] = labels[2, 2:] = pad
    draws = [torch.randn(3, 6, v, generator=f.draws).double() for _ in range(2)]
    slopes = [_loss_slope(f, x, labels) for x in draws]
    p, q = (x.softmax(-1) for x in draws)
    real = labels != pad if pad is not None else torch.ones_like(labels, dtype=torch.bool)
    if any(g[~real].abs().max() > 1e-9 for g in slopes if not real.all()):
        return Verdict('loss', 'fails', 'Labels that are padding count.',
                       f'labels {show(labels[2])}')
    dp, dg = (p - q)[real], (slopes[0] - slopes[1])[real]
    factor = (dp*dg).sum() / dp.square().sum()
    if (dg - factor*dp).abs().max() > 1e-5 * factor.abs():
        return Verdict('loss', 'differs', 'It is not a cross-entropy.')
    target = p[real] - slopes[0][real] / factor # (n, v)
    gold = target.gather(1, labels[real][:, None])[:, 0]
    rest = target.scatter(1, labels[real][:, None], 0.)
    told = f'{1 - gold.mean():.3g} of the target is not the label\'s'
    special = rest[:, pad].mean().item() if pad is not None else -1.
    usual = rest.sum(1).mean().item() / (v - 1)
    if usual > 1e-6:
        if pad is None or abs(special - usual) < 1e-5: told += ', spread evenly over all others'
        elif abs(special) < 1e-7: told += ', spread over others, none on padding'
        else: told += ', spread unevenly'
    n, per = int(real.sum()), 1 / factor.item()
    names = {1: 'a sum', n: 'a mean over tokens',
             labels.numel(): 'a mean over places, padding too',
             3: 'a mean over sentences'}
    near = next((name for size, name in names.items() if abs(per - size) < 1e-3*size),
                f'divided by {per:.4g}')
    if 'padding too' in near or per < 0:
        return Verdict('loss', 'fails', f'It is {near}; {told}.')
    return Verdict('loss', 'holds', f'It is {near}; {told}.')

def _loss_slope(f:Foreign, logits:Tensor, labels:Tensor)->Tensor:
    logits = logits.clone().requires_grad_()
    found = f.adapter.loss(logits, labels)
    if not isinstance(found, Tensor) or found.numel() != 1:
        raise InputError('loss must return one number, as a tensor')
    return torch.autograd.grad(found, logits)[0]

def schedule(f:Foreign)->Verdict:
    "The learning rate of Eq. (3), and where it peaks"
    if not f.has('schedule'):
        return Verdict('schedule', 'not asked', 'the adapter lacks it')
    steps = [*range(1, 1000), *range(1000, 20001, 50)]
    rates = [float(f.adapter.schedule(step)) for step in steps]
    peak = steps[rates.index(max(rates))]
    paper = [min(step**-.5, step * peak**-1.5) for step in steps]
    ratios = [rate / right for rate, right in zip(rates, paper)]
    odd = [i for i, r in enumerate(ratios) if abs(r / ratios[0] - 1) > 1e-3]
    told = f'Peak at step {peak}, rate {max(rates):.4g}'
    if not odd:
        return Verdict('schedule', 'holds',
                       f'{told}; {ratios[0]:.4g} · min(step^-0.5, step · {peak}^-1.5).')
    step, rate = steps[odd[0]], rates[odd[0]]
    wanted = ratios[0] * paper[odd[0]]
    case = f'at step {step} the rate is {rate:.4g}; Eq. (3) would give {wanted:.4g}'
    return Verdict('schedule', 'differs', f'{told}; not the curve of Eq. (3).', case)

# Search

def _plain(f:Foreign, src:Tensor, n:int)->list[list[int]]: # greedy, by the whole model
    tgt = torch.full((len(src), 1), f.bos or 0)
    for _ in range(n): tgt = torch.cat([tgt, f(src, tgt)[:, -1:].argmax(-1)], 1)
    return [_cut(row, f.eos) for row in tgt[:, 1:].tolist()]

def _cut(ids, eos)->list[int]: # up to the first eos
    ids = [int(i) for i in ids]
    return ids[:ids.index(eos)] if eos in ids else ids

def greedy(f:Foreign)->Verdict:
    "The likeliest token at each step, as without a cache, until eos"
    if not f.has('greedy'):
        return Verdict('greedy search', 'not asked', 'the adapter lacks it')
    name, src = 'greedy search', f.draw(6, 7, 1)[0]
    with torch.no_grad(): wanted = _plain(f, src, 9)
    raw = [list(map(int, row)) for row in f.adapter.greedy(f.model, src, 9)]
    found = [_cut(row, f.eos) for row in raw]
    for x, a, b in zip(src, found, wanted):
        if a == b: continue
        return Verdict(name, 'fails', 'It is not the likeliest token at each step.',
                       f'source {show(x)}: it gives {a}, step by step {b}')
    allowed = {f.pad, f.eos}
    late = [row for row in raw if f.eos in row and {*row[row.index(f.eos):]} - allowed]
    if late: return Verdict(name, 'differs', 'It goes on after eos.', f'{late[0]}')
    return Verdict(name, 'holds')

def beam(f:Foreign)->Verdict:
    "Of one: greedy. Its score is the model's own, by a length penalty"
    if not f.has('beam'): return Verdict('beam search', 'not asked', 'the adapter lacks it')
    name, src = 'beam search', f.draw(6, 7, 1)[0]
    with torch.no_grad():
        wanted = _plain(f, src, 9)
        one = [_cut(ids, f.eos) for ids, _ in f.adapter.beam(f.model, src, 1, 9)]
        pairs = [(list(map(int, ids)), score) for ids,
                 score in f.adapter.beam(f.model, src, 4, 9)]
    for x, a, b in zip(src, one, wanted):
        if a != b:
            return Verdict(name, 'fails', 'A beam of one is not greedy search.',
                           f'source {show(x)}: {a} and {b}')
    scored = [(x, ids, float(score)) for x,
              (ids, score) in zip(src, pairs) if score is not None]
    if not scored:
        return Verdict(name, 'holds', 'A beam of one is greedy; scores were not given.')
    return _penalty(f, name, scored)

def _penalty(f:Foreign, name:str, scored:list)->Verdict:
    ratios = []
    for x, ids, score in scored:
        ids = _cut(ids, f.eos) + ([f.eos] if f.eos in ids else [])
        tgt = torch.tensor([[f.bos or 0, *ids]])
        with torch.no_grad(): log_probs = f(x[None], tgt[:, :-1]).log_softmax(-1)
        own = log_probs[0].gather(1, tgt[0, 1:, None]).sum().item()
        ratios.append((len(ids), own / score if score else float('nan'), own, score))
    kinds = {'no length penalty': lambda n: 1., 'divided by length': lambda n: float(n)}
    for a in (0.6, 0.7, 0.5, 0.8, 1.0):
        kinds[f'((5 + length) / 6)^{a}'] = lambda n, a=a: ((5 + n) / 6)**a
        kinds[f'length^{a}'] = lambda n, a=a: n**a
    for kind, penalty in kinds.items():
        for extra in (0, -1, 1): # whether eos or bos counts
            if all(abs(r - penalty(max(1, n + extra))) < 1e-3*r for n, r, *_ in ratios):
                return Verdict(name, 'holds',
                               f'Scores are the model\'s log-probabilities, {kind}.')
    n, _, own, score = ratios[0]
    return Verdict(name, 'fails',
                   'Its scores are not log-probabilities under a known length penalty.',
                   f'{n} tokens: it says {score:.6g}, their log-probability is {own:.6g}')

# Training

def _fresh(f:Foreign, model:nn.Module)->nn.Module: return deepcopy(model).float().eval()

def overfits(f:Foreign, seconds:float=15.)->Verdict:
    "A few sentences are learned by heart"
    name, model = 'overfits a batch', _fresh(f, f.original)
    src, tgt = f.draw(4, 6, 7)
    first, last, n = _train(f, model, lambda: (src, tgt), 100, seconds)
    if n < 100 and last > 0.5*first:
        return Verdict(name, 'not asked', f'{n} steps took {seconds:g} seconds')
    told = f'{first:.3g} to {last:.3g} nats per token in {n} steps.'
    return Verdict(name, 'holds' if last < 0.3*first else 'fails', told)

def copies(f:Foreign, seconds:float=20.)->Verdict:
    "It learns to copy, and its own output is a copy, too"
    name, model = 'learns to copy', _fresh(f, f.original)
    some = f.draw(1, 1, 1)[0].new_tensor(f._ids(1, 6,
                                                min(f.src_size, f.tgt_size))[0].tolist())
    def batch(n=16):
        src = some[torch.randint(6, (n, 5), generator=f.draws)]
        first = torch.full((n, 1), f.bos or 0)
        return src, torch.cat([first, src], 1)
    *_, n = _train(f, model, batch, 250, seconds)
    with torch.no_grad():
        src, tgt = batch(64)
        forced = (f(src, tgt[:, :-1], model).argmax(-1) == src).float().mean().item()
        out = tgt[:, :1]
        for _ in range(5): out = torch.cat([out, f(src, out, model)[:, -1:].argmax(-1)], 1)
        free = (out[:, 1:] == src).float().mean().item()
    told = f'After {n} steps {100*forced:.0f} % of the tokens given the right ones before, '
    told += f'{100*free:.0f} % on its own.'
    if forced > 0.9 and free < 0.5: return Verdict(name, 'fails', told)
    return Verdict(name, 'holds' if free > 0.9 else 'differs', told)

def _train(f:Foreign, model:nn.Module, batch:Callable, steps:int, seconds:float):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad],
                                 betas=(0.9, 0.98))
    begin, first = process_time(), None
    for step in range(steps):
        for group in optimizer.param_groups: group['lr'] = 5e-3 * min(1., (step + 1) / 30)
        src, tgt = batch()
        logits = f(src, tgt[:, :-1], model).log_softmax(-1)
        value = F.nll_loss(logits.flatten(0, 1), tgt[:, 1:].flatten())
        if first is None: first = value.item()
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.)
        optimizer.step()
        if process_time() - begin > seconds: break
    return first, value.item(), step + 1

PROPERTIES = (causality, source_padding, target_padding, batch_mates, source_read,
              history_read, order, evaluation, dropout, gradients, extremes, ties, two_halves,
              loss, schedule, greedy, beam, overfits, copies)

# All together

@dataclass
class Proof:
    "What a model is, and what holds of it"
    verdicts: list[Verdict]
    found: object # of `settings.identify`

    @property
    def failures(self)->list[Verdict]:
        return [v for v in self.verdicts if v.outcome == 'fails']

    def identity(self)->str:
        x = self.found
        if isinstance(x, str):
            return f'Which Transformer it is: not found, since the {x} is not known.'
        if x.unexplained:
            told = 'known settings explain all up to {} ({})'.format(*x.unexplained)
            return f'Which Transformer it is: {told}.'
        if x.difference > 1e-4: # more than rounding
            return f'Which Transformer it is: not found (nearest: {x.difference:.0e} off).'
        told = (f'The book\'s model with these settings is the same function to '
                f'{max(x.difference, 1e-17):.0e}')
        if x.difference > 1e-10 > x.own_tables:
            told += ('; with its own tables of positions, which are rounded, '
                     f'to {x.own_tables:.0e}')
        elif x.difference > 1e-10 and x.single:
            told += f'; what is left is single precision, as at {x.single}'
        return told + '.'

    def text(self)->str:
        lines = [self.identity(), '']
        if not isinstance(self.found, str) and (self.found.difference or 0) <= 1e-4:
            rows = [('', 'here', 'paper', '', ''), *self.found.rows]
            widths = [max(len(row[i]) for row in rows) for i in range(3)]
            for name, here, paper, verdict, where in rows:
                cells = name.ljust(widths[0]), here.ljust(widths[1]), paper.ljust(widths[2])
                lines.append('  '.join([*cells, verdict, where]).rstrip())
        lines.append('')
        for v in self.verdicts:
            lines.append(f'{v.outcome.ljust(9)}  {v.name.ljust(17)}  {v.told}'.rstrip())
            lines += [f'{"":30}{x}' for x in (v.case, v.where and f'at {v.where}') if x]
        return '\n'.join(lines)

def prove(model:nn.Module, adapter, training:bool=True,
          only:list[Callable]|None=None)->Proof:
    "Ask a model everything that its adapter has a door for; raises `InputError`"
    f = Foreign(model, adapter)
    verdicts = []
    if only is None: only = PROPERTIES if training else PROPERTIES[:-2]
    for ask in only:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            try: verdicts.append(ask(f))
            except InputError: raise
            except Exception as e:
                words = ' '.join(str(e).split())
                told = f'The model raises {type(e).__name__}: {words}'
                verdicts.append(Verdict(ask.__name__.replace('_', ' '), 'fails', told))
    return Proof(verdicts, identify(f))
