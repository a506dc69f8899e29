"What must hold of any Transformer, asked from outside, each with its counterexample"
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice, product
from time import process_time
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from ..support.core import InputError
from .foreign import Foreign, as_precise_as, told_of
from .identify import Found, apart, differs, ratio
from .record import record
from .settings import identify

@dataclass
class Verdict:
    "What a property came to"
    outcome: str   # 'holds', 'differs' (but works), 'fails', 'undecided' or 'not asked'
    told: str = '' # one or two sentences
    case: str = '' # two inputs, two outputs, the place
    where: str = ''# the line of their code
    name: str = '' # of the property

def show(ids:Tensor)->str: return '[' + ' '.join(map(str, ids.tolist())) + ']'

def numbers(a:Tensor, b:Tensor)->str: # where they are furthest apart
    i = apart(a, b).argmax()
    return f'{a.flatten()[i].item():.6g} and {b.flatten()[i].item():.6g}'

# Properties of pairs of calls, which must agree where both have a logit

@dataclass
class Pair:
    one: tuple[Tensor,Tensor] # source and target
    two: tuple[Tensor,Tensor] # the same sentences, or longer ones, and more after them
    note: str = ''

    def logits(self, f:Foreign, model:nn.Module|None=None)->tuple[Tensor,Tensor]:
        a, b = f(*self.one, model), f(*self.two, model)
        return a, b[:len(a), :a.shape[1]]

    def case(self, a:Tensor, b:Tensor)->str:
        "The sentence whose logits are furthest apart"
        i = int(apart(a, b).flatten(1).amax(1).argmax())
        told = []
        for name, one, two in zip(('source', 'target'), self.one, self.two):
            told.append(f'{name} {show(one[i])}')
            if not one[i].equal(two[i]): told[-1] += f' and {show(two[i])}'
        return f'{", ".join(told)}{self.note}: a logit is {numbers(a[i], b[i])}'

SHAPES = (3, 6, 8), (1, 5, 4), (4, 4, 4), (2, 9, 5), (5, 5, 5), (8, 8, 8)

def agree(f:Foreign, pairs:Callable)->Verdict|None: # one of `TOLD`
    "Of every shape; the first that does not agree, and in another pair the line"
    for pair in chain.from_iterable(pairs(f, *shape) for shape in SHAPES):
        a, b = pair.logits(f)
        if differs(a, b) <= f.tolerance: continue
        return Verdict('fails', TOLD[pairs], pair.case(a, b), first_difference(f, pairs))

def first_difference(f:Foreign, pairs:Callable)->str:
    "The line of the first step that differs where two calls of few sentences have it"
    n = 3 if pairs is batch_mates else 1
    pair = next(pairs(f, n, 11, 7))
    calls = pair.one, tuple(ids[:n] for ids in pair.two)
    try: one, two = (record(f.model, lambda x=x: f(*x))[1].steps for x in calls)
    except Exception: return '' # no padding in all sentences, as in OpenNMT-py
    blank = 'empty', 'empty_like', 'new_empty', 'empty_strided', 'bernoulli_'
    for x, y in zip(one, two):
        if x.name != y.name or x.output.dim() != y.output.dim(): break
        longer = y.output[tuple(map(slice, x.output.shape))] # both have its beginning
        if x.name in blank or longer.shape != x.output.shape: continue
        if differs(x.output, longer) > f.tolerance: return x.line
    return ''

def causality(f:Foreign, b:int, s:int, t:int)->Iterator[Pair]:
    "No logit may move with a later target token"
    src, tgt = f.draw(b, s, t + 2)
    for n in range(t, 0, -1): yield Pair((src, tgt[:, :n]), (src, tgt))

def source_padding(f:Foreign, b:int, s:int, t:int)->Iterator[Pair]:
    "Padding after a source that stands beside a longer one changes nothing"
    src, tgt = f.draw(b, s, t)
    padded, longer = (F.pad(src, (0, 2), value=f.pad), tgt), f.draw(1, s + 2, t)
    two = tuple(map(torch.cat, zip(padded, longer)))
    yield Pair((src, tgt), two, ', beside a longer one')

def target_padding(f:Foreign, b:int, s:int, t:int)->Iterator[Pair]:
    "Padding after a target changes nothing before it"
    src, tgt = f.draw(b, s, t)
    yield Pair((src, tgt), (src, F.pad(tgt, (0, 2), value=f.pad)))

def batch_mates(f:Foreign, b:int, s:int, t:int)->Iterator[Pair]:
    "A sentence's logits are those that it has alone"
    ids = f.draw(b, s, t)
    for i in range(b):
        src, tgt = (x.roll(i, 0) for x in ids)
        yield Pair((src[:1], tgt[:1]), (src, tgt), f', alone and with {b - 1} others')

TOLD = {causality: 'Logits depend on later target tokens.',
        source_padding: 'Logits depend on the padding of the source.',
        target_padding: 'Logits depend on padding after them.',
        batch_mates: 'Sentences of a batch change one another.'}

# Properties that return a verdict, or None where they hold

def source_is_read(f:Foreign)->Verdict|None:
    "Every token of the source counts, at every target position"
    return unread(f, 'source')

def target_is_read(f:Foreign)->Verdict|None:
    "Every target token counts, at its position and at every later one"
    return unread(f, 'target')

def unread(f:Foreign, side:str)->Verdict|None:
    "The first token that moves no logit at some position"
    pair = dict(zip(('source', 'target'), f.draw(3, 9, 7)))
    before, ids = f(*pair.values()), pair[side]
    for i in range(ids.shape[1]):
        changed = ids.clone()
        changed[:, i] = ids[:, abs(i - 1)] # its neighbor
        after = f(*(pair | {side: changed}).values())
        moved = (after != before).any(-1).any(0) # (t,): in the last digit
        if side == 'target': moved[:i] = True
        if moved.all(): continue
        place = f'target position {moved.tolist().index(False)}'
        case = f'{side} {show(ids[0])} and {show(changed[0])}: no logit moves at {place}'
        return Verdict('fails', f'Position {i} of the {side} is not read.', case)

def order(f:Foreign)->Verdict|None:
    "Two tokens that change places change the logits"
    src, tgt = f.draw(2, 7, 7)
    before, swap = f(src, tgt)[:, -1], [0, 2, 1, 5, 4, 3, 6]
    calls = ('source', src, f(src[:, swap], tgt)), ('target', tgt, f(src, tgt[:, swap]))
    for side, ids, after in calls:
        if differs(before, after[:, -1]) > 1e-9: continue
        case = f'{side} {show(ids[0])} and {show(ids[0, swap])}: the same last logits'
        return Verdict('fails', f'The order of the {side} does not matter.', case)

def evaluation(f:Foreign)->Verdict|None:
    "In eval mode a call gives the same again, and leaves its arguments and the model alone"
    src, tgt = f.draw(3, 6, 5)
    first, case = f(src, tgt), f'source {show(src[0])}, target {show(tgt[0])}'
    between = {'Two equal calls differ in eval mode.': lambda: None,
               'A call changes what later calls give.': lambda: f(*f.draw(2, 9, 7)),
               'A call in training mode changes later ones.':
                   lambda: in_training(f, src, tgt)}
    for told, call in between.items():
        call()
        again, rec = record(f.model, lambda: f(src, tgt))
        if differs(first, again) <= f.tolerance: continue
        where = rec.dropouts[0][-1] if rec.dropouts else ''
        return Verdict('fails', told, f'{case}: {numbers(first, again)}', where)
    with torch.inference_mode(): without = f(src, tgt)
    if differs(first, without) > f.tolerance:
        return Verdict('fails', 'Without gradients it gives something else.', case)
    before = src.clone(), tgt.clone()
    f.adapter.logits(f.model, src, tgt)
    if not (src.equal(before[0]) and tgt.equal(before[1])):
        return Verdict('fails', 'A call changes its arguments.', case)

def in_training(f:Foreign, src:Tensor, tgt:Tensor)->tuple: # with its recorder
    f.model.train()
    try: return record(f.model, lambda: f(src, tgt))
    finally: f.model.eval()

def dropout(f:Foreign)->Verdict|None:
    "Where elements are dropped in training, and how many"
    ids, places = f.draw(3, 11, 7), Counter()
    found, rec = in_training(f, *ids)
    outputs = [u.output for u in rec.linears]
    for x, p, _ in rec.dropouts: places[_place(x, outputs), round(p, 4)] += 1
    if not places:
        told = ('Nothing is dropped in training.' if found.equal(in_training(f, *ids)[0])
                else 'Calls in training differ, by another dropout than PyTorch\'s.')
        return Verdict('differs', told)
    told = ', '.join(f'{place} {p:g} ({n} times)' for (place, p), n in places.items())
    usual = {place for place, _ in places} == {'embeddings', 'outputs of sub-layers'}
    return Verdict('holds' if usual else 'differs', f'Dropped: {told}.')

def _place(x:Tensor, outputs:list[Tensor])->str:
    if sum(n in (11, 7) for n in x.shape) > 1: return 'attention weights'
    alike = [y for y in outputs if y.numel() == x.numel()]
    values = [y.flatten().sort().values for y in (x, *alike)]
    if any(values[0].equal(y) for y in values[1:]): return 'outputs of sub-layers'
    narrow = min(y.shape[-1] for y in outputs)
    return 'embeddings' if x.shape[-1] == narrow else 'inner values of networks'

def gradients(f:Foreign)->Verdict|None:
    "Every parameter has a gradient, and it is the slope of the loss"
    src, tgt = f.draw(3, 7, 6)
    named = {n: p for n, p in f.model.named_parameters() if p.requires_grad}
    if not f(src, tgt).requires_grad:
        return Verdict('fails', 'Logits have no gradient: no_grad, or detached?')
    mixture = torch.randn(3, 6, f.tgt_size, generator=f.draws).to(f(src, tgt))
    def loss(): return (f(src, tgt).log_softmax(-1) * mixture).sum()
    found = torch.autograd.grad(loss(), list(named.values()), allow_unused=True)
    missing = [n for n, g in zip(named, found) if g is None]
    if missing: return Verdict('fails', f'No gradient ever comes to {_names(missing)}.')
    if f.single: named = {} # two calls do not tell a slope
    for (name, p), g in zip(named.items(), found):
        for size in (1e-6, 1e-5, 1e-4): # a kink may be near, or numbers be rounded
            a, b = _slope(f, p, g, loss, size)
            if abs(a - b) <= 0.02 * max(0.1, abs(a), abs(b)): break
        else:
            case = f'along one direction the loss rises by {b:.6g}, not by {a:.6g}'
            return Verdict('fails', f'The gradient of {name} is not the slope.', case)
    if twice := _shared(f): return Verdict('differs', f'{_names(twice)} are one parameter.')

@torch.no_grad()
def _slope(f:Foreign, p:Tensor, g:Tensor, loss:Callable, size:float)->tuple[float,float]:
    "By the gradient and by two calls"
    step = size * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)).to(p)
    if f.pad is not None and f.has_rows(p):
        step[f.pad] = 0. # nn.Embedding's padding_idx keeps that row as it is
    p += step
    high = loss().item()
    p -= 2*step
    low = loss().item()
    p += step
    return ((g*step).sum() / size).item(), (high - low) / (2*size)

def _names(names:list[str])->str:
    return ', '.join(names[:3]) + (f' and {len(names) - 3} more' if len(names) > 3 else '')

def _shared(f:Foreign)->list[str]: # parameters inside layers that are one
    names = {}
    for name, p in f.original.named_parameters(remove_duplicate=False):
        if not f.has_rows(p): names.setdefault(p, []).append(name)
    return [name for alike in names.values() if len(alike) > 1 for name in alike]

def extremes(f:Foreign)->Verdict|None:
    "Large scores stay finite and masked; an empty source harms no other sentence"
    single, large = f.copy(torch.float32), deepcopy(f.model)
    for p in (*single.parameters(), *large.parameters()):
        spread, is_small = p.std(unbiased=False), p.dim() < 2 or f.has_rows(p)
        if not is_small and p.requires_grad and spread > 1e-6 * p.abs().max():
            p.data *= 5 * p[0].numel()**-.5 / spread
    src, tgt = f.draw(2, 7, 6)
    if not f(src, tgt, single).isfinite().equal(f(src, tgt).isfinite()):
        told = 'Where scores are large, logits are not finite.'
        return Verdict('fails', told, f'source {show(src[0])}, target {show(tgt[0])}')
    leaks = [causality] if f.pad is None else [causality, source_padding]
    for pair in chain.from_iterable(pairs(f, 1, 5, 6) for pairs in leaks):
        a, b = pair.logits(f, large)
        if differs(a, b) <= max(1e-6, f.tolerance): continue
        return Verdict('fails', 'Where scores are large, masks leak.', pair.case(a, b))
    return None if f.pad is None else _empty_source(f, src, tgt)

def _empty_source(f:Foreign, src:Tensor, tgt:Tensor)->Verdict|None:
    told, empty = 'A source of padding alone', src.clone()
    empty[1] = f.pad
    case = f'source {show(src[0])} beside {show(empty[1])}'
    try: found = f(empty, tgt)
    except InputError: raise
    except Exception as e: return Verdict('differs', f'{told} raises {type(e).__name__}.')
    if differs(f(src, tgt)[0], found[0]) > f.tolerance:
        return Verdict('fails', f'{told} changes its neighbour.', case)
    if found.isnan().any():
        return Verdict('differs', f'{told} gives NaN, to itself only.', case)

def ties(f:Foreign)->Verdict|None:
    "Matrices that begin equal are one parameter, so that they stay equal"
    big = [(n, p) for n, p in f.original.named_parameters()
           if p.requires_grad and f.has_rows(p)]
    pairs = [f'{n} and {m}' for (m, q), (n, p) in combinations(big, 2) if p.equal(q)]
    told = f'{_names(pairs)} begin equal, but are trained apart.'
    return Verdict('fails', told) if pairs else None

def encode_and_decode(f:Foreign)->Verdict|None:
    "Encoder and decoder, called one after the other, give the logits"
    src, tgt = f.draw(3, 6, 5)
    halves = f.adapter.decode(f.model, tgt, f.adapter.encode(f.model, src), src)
    whole, halves = f(src, tgt), f.checked(halves, (3, 5, f.tgt_size))
    if differs(whole, halves) > f.tolerance:
        return Verdict('fails', 'The whole gives other logits.', numbers(whole, halves))

# Loss and schedule

def loss(f:Foreign)->Verdict|None:
    "Padding counts nothing; from two gradients, the distribution that is the target"
    labels = f.ids(3, 6, f.tgt_size)
    if f.pad is not None: labels[1, 4:] = labels[2, 2:] = f.pad
    draws = [torch.randn(3, 6, f.tgt_size, generator=f.draws).double() for _ in range(2)]
    slopes = [_loss_slope(f, x, labels) for x in draws]
    real = labels != (-1 if f.pad is None else f.pad)
    if any((g[~real].abs() > 1e-9).any() for g in slopes):
        told = 'Labels that are padding count.'
        return Verdict('fails', told, f'labels {show(labels[2])}')
    p, q = (x.softmax(-1)[real] for x in draws)
    dp, dg = p - q, (slopes[0] - slopes[1])[real]
    factor = ratio(dg, dp)
    if (dg - factor*dp).abs().max() > 1e-5 * abs(factor):
        return Verdict('differs', 'It is not a cross-entropy.')
    told, mean = _target(f, p - slopes[0][real] / factor, labels[real]), 1 / factor
    sizes = {'a sum': 1, 'a mean over tokens': int(real.sum()), 'a mean over sentences': 3,
             'a mean over places, padding too': labels.numel()}
    kind = next((name for name, size in sizes.items() if abs(mean - size) < 1e-3*size),
                f'divided by {mean:.4g}')
    fails = 'padding too' in kind or mean < 0
    return Verdict('fails' if fails else 'holds', f'It is {kind}; {told}.')

def _target(f:Foreign, target:Tensor, labels:Tensor)->str: # (n, v) and (n,)
    gold = target.gather(1, labels[:, None])
    rest = target.scatter(1, labels[:, None], 0.)
    told = f'{1 - gold.mean():.3g} of the target is not the label\'s'
    if (gold - 1).abs().max() < 1e-6: return 'the label is the whole target'
    usual = rest.sum(1).mean().item() / (f.tgt_size - 1)
    special = usual if f.pad is None else rest[:, f.pad].mean().item()
    if abs(special - usual) < 1e-5: return f'{told}, spread evenly over all others'
    if abs(special) < 1e-7: return f'{told}, spread over others, none on padding'
    return f'{told}, spread unevenly'

def _loss_slope(f:Foreign, logits:Tensor, labels:Tensor)->Tensor:
    logits = logits.clone().requires_grad_()
    found = f.adapter.loss(logits, labels)
    if not isinstance(found, Tensor) or found.numel() != 1:
        raise InputError('loss must return one number, as a tensor')
    return torch.autograd.grad(found, logits)[0]

def schedule(f:Foreign)->Verdict|None:
    "The learning rate of Eq. (3), and where it peaks"
    steps = torch.tensor([*range(1, 1000), *range(1000, 20001, 50)]).double()
    rates = torch.tensor([float(f.adapter.schedule(int(step))) for step in steps])
    top, at = rates.max(0)
    peak = int(steps[at])
    paper = torch.minimum(steps**-.5, steps * peak**-1.5)
    factor, told = (rates / paper)[0], f'Peak at step {peak}, rate {top:.4g}'
    for step, rate, right in zip(steps, rates, factor * paper):
        if abs(rate - right) < 1e-3 * abs(right): continue
        case = f'at step {step:g} the rate is {rate:.4g}; Eq. (3) would give {right:.4g}'
        return Verdict('differs', f'{told}; not the curve of Eq. (3).', case)
    told = f'{told}; {factor:.4g} · min(step^-0.5, step · {peak}^-1.5).'
    return Verdict('holds', told)

# Search

def step_by_step(f:Foreign, src:Tensor, n:int, model:nn.Module|None=None)->Tensor:
    "The likeliest token each time, by the whole model"
    tgt = torch.full((len(src), 1), f.bos or 0)
    for _ in range(n): tgt = torch.cat([tgt, f(src, tgt, model)[:, -1:].argmax(-1)], 1)
    return tgt[:, 1:]

def not_greedy(f:Foreign, src:Tensor, found:list, told:str)->Verdict|None:
    for x, came, right in zip(src, found, step_by_step(f, src, 9).tolist()):
        came, right = came[:end_of(f, came)], right[:end_of(f, right)]
        if came == right: continue
        case = f'source {show(x)}: it gives {came}, step by step {right}'
        return Verdict('fails', told, case)

def end_of(f:Foreign, ids:list[int])->int: # where the first eos stands
    return ids.index(f.eos) if f.eos in ids else len(ids)

def ids_of(found, door:str, n:int)->list[list[int]]: # as an adapter's door must give
    try: rows = [[int(i) for i in row] for row in found]
    except (TypeError, ValueError): rows = []
    if len(rows) == n: return rows
    raise InputError(f'{door} must return ids (and beam a score) for each of {n} sources')

@torch.no_grad()
def greedy_search(f:Foreign)->Verdict|None:
    "The likeliest token at each step, as without a cache, until eos"
    src = f.draw(6, 7, 1)[0]
    found = ids_of(f.adapter.greedy(f.model, src, 9), 'greedy', len(src))
    wrong = not_greedy(f, src, found, 'It is not the likeliest token at each step.')
    if wrong: return wrong
    for row in found:
        if {*row[end_of(f, row):]} - {f.pad, f.eos}:
            return Verdict('differs', 'It goes on after eos.', str(row))

@torch.no_grad()
def beam_search(f:Foreign)->Verdict|None:
    "Of one: greedy. Its score is the model's own, by a length penalty"
    src = f.draw(6, 7, 1)[0]
    one, four = (f.adapter.beam(f.model, src, size, 9) for size in (1, 4))
    one, ids = (ids_of((ids for ids, _ in found), 'beam', 6) for found in (one, four))
    if wrong := not_greedy(f, src, one, 'A beam of one is not greedy search.'): return wrong
    scored = [(x, row, score) for x, row, (_, score) in zip(src, ids, four)
              if score is not None]
    if not scored:
        return Verdict('holds', 'A beam of one is greedy; scores were not given.')
    n, own, scores = torch.tensor([_scored(f, *row) for row in scored]).double().T
    if penalty := _penalty((own / scores).log(), n):
        return Verdict('holds', f'Scores are the model\'s log-probabilities, {penalty}.')
    told = 'Its scores are not log-probabilities under a known length penalty.'
    case = f'{n[0]:g} tokens: it says {scores[0]:.6g}, the model says {own[0]:.6g}'
    return Verdict('fails', told, case)

def _scored(f:Foreign, x:Tensor, ids:list, score:float)->tuple[int,float,float]:
    "Length, the model's own log-probability, and the score"
    ids = ids[:end_of(f, ids) + 1]
    tgt = torch.tensor([[f.bos or 0, *ids]])
    log_probs = f(x[None], tgt[:, :-1]).log_softmax(-1)
    return len(ids), log_probs.gather(2, tgt[:, 1:, None]).sum().item(), float(score)

def _penalty(divisor:Tensor, n:Tensor)->str: # its logarithm
    "The power of the length, or of (5 + length) / 6, that it is"
    kinds = {'length': lambda n: n, '((5 + length) / 6)': lambda n: (5 + n) / 6}
    for extra, (kind, of) in product((0, -1, 1), kinds.items()): # eos or bos may count
        log = of((n + extra).clamp(min=1)).log()
        best = (log*divisor).sum() / log.square().sum().clamp(min=1e-9)
        alpha = (20*best).round() / 20
        if not 0 <= alpha <= 2 or (divisor - alpha*log).abs().max() > 1e-3: continue
        return f'divided by {kind}^{alpha:g}' if alpha else 'no length penalty'
    return ''

# Training

def overfits_a_batch(f:Foreign, seconds:float=15.)->Verdict|None:
    "A few sentences are learned by heart"
    batch = f.draw(4, 6, 7)
    steps = islice(_training(f, lambda: batch, 30, seconds), 100)
    losses = [value for _, value in steps]
    first, last, n = losses[0], losses[-1], len(losses)
    outcome = 'holds' if last < 0.5*first else 'fails' if n == 100 else 'undecided'
    return Verdict(outcome, f'{first:.3g} to {last:.3g} nats per token in {n} steps.')

def learns_to_copy(f:Foreign, seconds:float=25.)->Verdict|None:
    "Training ends as soon as what it writes is a copy"
    [some] = f.ids(1, 6, min(f.src_size, f.tgt_size))
    def batch():
        src = some[torch.randint(6, (64, 3), generator=f.draws)]
        return src, F.pad(src, (1, 0), value=f.bos or 0)
    for n, (model, _) in enumerate(islice(_training(f, batch, 300, seconds), 1501)):
        if n % 50: continue
        src, _ = batch()
        with torch.no_grad(): right = step_by_step(f, src, 3, model) == src
        share = right.float().mean().item()
        told = f'After {n} steps {100*share:.0f} % of the tokens that it writes are right.'
        if share > 0.9: return Verdict('holds', told)
    return Verdict('undecided', told)

def _training(f:Foreign, batch:Callable, warmup:int, seconds:float
             )->Iterator[tuple[nn.Module,float]]:
    "The model and its loss before each step, while there is time"
    model = deepcopy(f.original).float().eval()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, betas=(0.9, 0.98))
    begin, n = process_time(), 0
    while process_time() - begin < seconds:
        n += 1
        for group in optimizer.param_groups: group['lr'] = 5e-3 * min(1., n / warmup)
        src, tgt = batch()
        logits = f(src, tgt[:, :-1], model).flatten(0, 1)
        value = F.cross_entropy(logits, tgt[:, 1:].flatten())
        yield model, value.item()
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.)
        optimizer.step()

# All together

PROPERTIES = { # and what each needs of the adapter
    causality: [], source_padding: ['pad'], target_padding: ['pad'], batch_mates: [],
    source_is_read: [], target_is_read: [], order: [], evaluation: [], dropout: [],
    gradients: [], extremes: [], ties: [], encode_and_decode: ['encode', 'decode'],
    loss: ['loss'], schedule: ['schedule'], greedy_search: ['greedy'],
    beam_search: ['beam'], overfits_a_batch: [], learns_to_copy: []}

def ask(f:Foreign, asked:Callable)->Verdict: # one of `PROPERTIES`
    lacks = [door for door in PROPERTIES[asked] if not f.has(door)]
    with torch.random.fork_rng(), as_precise_as(f.model):
        torch.manual_seed(0)
        f.draws.manual_seed(0) # whatever was asked before
        try:
            found = Verdict('not asked', f'the adapter lacks {" and ".join(lacks)}')
            if not lacks:
                found = agree(f, asked) if asked in TOLD else asked(f)
                found = found or Verdict('holds')
        except InputError: raise
        except Exception as e: found = Verdict('fails', f'It raises {told_of(e)}')
    return replace(found, name=asked.__name__.replace('_', ' '))

@dataclass
class Proof:
    "What a model is, and what holds of it"
    verdicts: list[Verdict]
    found: Found

    @property
    def failures(self)->list[Verdict]:
        return [v for v in self.verdicts if v.outcome == 'fails']

    def identity(self)->str:
        x, told = self.found, 'Which Transformer it is:'
        if x.unexplained:
            part, lines = x.unexplained
            ends = f' ({lines})' if lines else ''
            return f'{told} the first part that no known setting explains is {part}{ends}.'
        if x.difference > 1e-4: # more than rounding
            return (f'{told} every part is known, but on other sentences, padded ones '
                    f'among them, the whole is {x.difference:.0e} off.')
        told = (f'The book\'s model with these settings is the same function to '
                f'{max(x.difference, 1e-17):.0e}')
        if x.difference > 1e-10 > x.own_tables:
            told += ('; with its own tables of positions, which are rounded, '
                     f'to {x.own_tables:.0e}')
        elif x.difference > 1e-10 and x.single:
            told += f'; what is left is single precision, as at {x.single}'
        return f'{told}.'

    def text(self)->str:
        lines, x = [self.identity(), ''], self.found
        if x.rows and (x.unexplained or x.difference <= 1e-4):
            rows = [('', 'here', 'paper', '', ''), *x.rows]
            widths = [max(map(len, column)) for column in zip(*rows)]
            for row in rows:
                cells = [cell.ljust(n) for cell, n in zip(row[:3], widths)]
                lines.append('  '.join([*cells, *row[3:]]).rstrip())
        lines.append('')
        for v in self.verdicts:
            lines.append(f'{v.outcome.ljust(9)}  {v.name.ljust(17)}  {v.told}'.rstrip())
            lines += [f'{"":30}{y}' for y in (v.case, v.where and f'at {v.where}') if y]
        return '\n'.join(lines)

def prove(model:nn.Module, adapter, training:bool=True,
          only:list[Callable]|None=None)->Proof:
    "Ask a model everything that its adapter has a door for; raises `InputError`"
    f = Foreign(model, adapter)
    if only is None: only = [*PROPERTIES][:None if training else -2]
    return Proof([ask(f, asked) for asked in only], identify(f))
