"""All that calls do, noted, and how two notes differ

`observed` runs one case of a part, anybody's or ours, and notes results, gradients and
arguments afterward: of a first call, a second one, with other weights, without gradients, in
training mode, and of the first call once more. `differences` compares two such notes, entry
by entry. The two run apart, so that what is not trusted can run in a process of its own."""
import contextlib, io, re, torch, traceback, types, warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from torch import Tensor, nn
from .draw import Later, Part
from .match import Unset, fill, shape_of, shapes_of, unlike
from .record import Mode

ERROR, LINE, DRAWS, NEW, TOLD = 'error', 'line', 'draws', 'new', 'told parameters'
BY_NAME, AGAIN, TRAINS = 'by name', 'the first call again', 'in training mode'
LATER, NO_GRAD, OTHER = 'a second call', 'without gradients', 'with other weights'
SECOND, SCALED = (LATER, NO_GRAD), (OTHER, NO_GRAD) # of these arguments; of these weights
SINGLE, ROUNDING, FAR = 'in single precision', 'rounding', 1000.
TEXTS = FRESH, GROWN = 'fresh', 'grown' # told in whole sentences

NOT_WRITTEN, STATE = 'not written yet', "PyTorch's switch for gradients"

@dataclass
class Difference:
    n: int                     # of the case
    step: str                  # which call of the case
    what: str                  # a result, a gradient, an argument, 'error' …
    came: object               # None: nothing
    right: object

    @property
    def in_first_call(self)->bool: return ', ' not in self.step and self.step != NEW

# What a call does, as tensors and texts by their places

def places(x, at:str)->Iterator[tuple]:
    if isinstance(x, Tensor): yield at, x.detach().clone()
    elif isinstance(x, (bool, int, float)): yield at, torch.tensor(x)
    elif isinstance(x, (list, tuple)) and {*map(type, x)} in PLAIN:
        yield at, torch.tensor(x)
    elif isinstance(x, (list, tuple)):
        if not x or at.count('[') > 2: yield at, f'{len(x)} results'
        for i, y in enumerate(x[:40]): yield from places(y, f'{at}[{i}]')
    elif isinstance(x, nn.Module):
        for name, p in x.named_parameters(): yield f'{at}.{name}', p.detach().clone()
        yield f'{at}.training', torch.tensor(x.training)
    elif isinstance(x, (str, dict)): yield at, str(x)
    elif x is None: yield at, 'nothing'
    elif callable(x) or isinstance(x, (types.GeneratorType, torch.optim.Optimizer)): return
    else: yield at, f'a {type(x).__name__}'

PLAIN = {int}, {float}, {int, float}, {bool} # what a tensor may be made of

def _floats(x)->list[Tensor]:
    if isinstance(x, (list, tuple)): return [z for y in x for z in _floats(y)]
    is_float = isinstance(x, Tensor) and x.is_floating_point() and x.requires_grad
    return [x] if is_float else []

def seeded(n:int): torch.default_generator.manual_seed(n) # no GPU's, which takes a while

def copied(args:dict)->dict:
    "Arguments of one's own for each call; without those that are left to their defaults"
    made = {}
    for name, x in args.items():
        if x is ...: continue
        if isinstance(x, Tensor | dict): x = deepcopy(x) # which lies in memory as it does
        if hasattr(x, 'fresh'): x = x.fresh()
        made[name] = x.make(list(made.values())) if isinstance(x, Later) else x
    return made

def noted(part:Part, call:Callable, args:dict, seed:int, kit=None,
          parameters:dict|None=None, by_name:bool=False, method:str='')->dict:
    "One call: its result, the gradients and the arguments afterward, or its error"
    seeded(seed)
    before = torch.is_grad_enabled()
    try:
        with quiet():
            result = call(**args) if by_name else call(*positional(args, seed))
            if part.back: result = part.back(result, kit)
            if part.shown: result = part.shown(result, part.ours(method, args, kit))
            found = dict(places(result, 'result'))
            if part.once: return found
            is_kept = torch.is_grad_enabled() == before
            found[STATE] = 'as before' if is_kept else 'left otherwise'
            torch.set_grad_enabled(before)
            found.update(_gradients(result, args, parameters or {}))
            found['the precision'] = ', '.join(str(x.dtype)[6:] for x in _floats(result))
    except Exception as e: return error_of(e)
    for name, x in args.items():
        found.update((f'{at} afterward', y) for at, y in places(x, name))
    return found

def positional(args:dict, n:int)->list: # in some cases, without None at the end
    given = list(args.values())
    while n % 4 == 1 and given and given[-1] is None: given.pop()
    return given

@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter('ignore')
        yield

def _gradients(result, args:dict, parameters:dict)->Iterator[tuple]:
    inputs = {name: x for name, x in args.items()
              if isinstance(x, Tensor) and x.requires_grad}
    inputs |= {name: p for name, p in parameters.items() if p.requires_grad}
    outputs = [x for x in _floats(result) if x.isfinite().all()]
    if not inputs or not torch.is_grad_enabled(): return
    grads = map(torch.zeros_like, inputs.values())
    if outputs:
        weights = torch.Generator().manual_seed(7)
        total = sum((x.double() * torch.randn(x.shape, generator=weights,
                                              dtype=torch.float64)).sum() for x in outputs)
        grads = torch.autograd.grad(total, list(inputs.values()), materialize_grads=True)
    for (name, x), grad in zip(inputs.items(), grads):
        yield f'gradient of {name}', grad.reshape(shape_of(x)) if name in parameters else grad

def error_of(e:BaseException)->dict:
    "An error in words, with the last line that does not belong to a library"
    rows = [row for row in traceback.extract_tb(e.__traceback__) if row.filename[0] != '<'
            and not any(name in row.filename for name in _OTHERS)]
    try: text = str(e)[:200]
    except Exception: text = '' # an error of one's own may do anything
    if not isinstance(e, Unset): text = f'{type(e).__name__}: {text}'
    if isinstance(e, NotImplementedError): text = NOT_WRITTEN
    found = {ERROR: text}
    if rows: found[LINE] = f'{rows[-1].filename}:{rows[-1].lineno}'
    return found

_OTHERS = '/torch/', '/proving/', '/grading/', '/assignment/right/'

# One case

def observed(part:Part, *args)->dict[str, object]: # of `steps`; 'step · what' → tensor or text
    return {f'{step} · {what}': x for step, notes in steps(part, *args)
            for what, x in notes.items()}

def steps(part:Part,
          own:Callable,                # a function or a class, anybody's
          n:int,                       # the number of the case
          right:Callable|None=None,    # ours; of a class, to give both the same weights
          kit=None,                    # the conventions of `own`, where they are not ours
         )->Iterator[tuple[str,dict]]: # each call of a case, and what it gives
    drawn = part.drawn(n, kit)
    model = parameters = None
    if part.new is not None:
        try: model, parameters, told = built(part, own, right or own, drawn, kit)
        except Exception as e:
            yield NEW, error_of(e)
            return
        yield NEW, {'parameters': _sizes(model), TOLD: told}
        names = {*shapes_of(model)}
    for method, (first, second) in drawn.calls.items():
        title = method or part.name
        call = own if model is None else getattr(model, method or '__call__')
        def step(name, args, given=None, title=title, method=method, call=call, **options):
            notes = noted(part, call, given or copied(args), n, kit, method=method, **options)
            return title + name, _in_our_way(notes, part.calls[method], kit) if kit else notes
        is_heavy = model is not None and drawn.case.is_big # too much for gradients
        with torch.set_grad_enabled(not is_heavy): found = step('', first, parameters=parameters)
        yield found
        if ERROR in found[1] or part.once: continue
        if part.new is None and n % 3 or drawn.case.is_big: continue
        if n % 4 == 3 and len(first) > 1: yield step(f', {BY_NAME}', first, by_name=True)
        if are_tensors(second): forget(call, copied(second), torch.bfloat16)
        yield step(f', {LATER}', second)
        if model is not None or are_tensors(second):
            kept = copied(second)
            forget(call, kept)
            scale(parameters or {}, 1.5)
            change(kept)
            with torch.no_grad(): found = step(f', {NO_GRAD}', kept, given=kept)
            yield found
        if model is not None: yield from _with_model(part, model, parameters, drawn, step, first)
        yield step(f', {AGAIN}', first)
        if part.single and n % 3 == 0:
            yield f'{title}, {SINGLE}', _single(part, own, model, method, first, n, kit, right)
    if model is not None:
        more = ', '.join(sorted({*shapes_of(model)} - names))
        told = more and f'after a call, it has parameters that it had not before: {more}'
        yield f'{part.name}, afterward', {GROWN: told}
    if n in part.drops and part.chance: yield _drawn(part, model, drawn, kit)
    if model is not None and (n < 1 or n < 3 and len(part.first) > 1): # of several depths
        try: yield NEW, _first_values(part, own, drawn, model, parameters)
        except Exception as e: yield NEW, error_of(e)

def _in_our_way(notes:dict, wanted:dict, kit)->dict:
    "Gradients of arguments, and what they are afterward, in our own conventions"
    for name, draw in wanted.items():
        for key in (f'gradient of {name}', f'{name} afterward'):
            if isinstance(notes.get(key), Tensor): notes[key] = draw.ours(notes[key], kit)
    return notes

def change(args:dict):
    "Other numbers in the same tensors, where no two places share one"
    with torch.no_grad():
        for x in args.values():
            if not isinstance(x, Tensor) or 0 in x.stride(): continue
            if x.requires_grad: x.mul_(-.5)
            elif x.dtype == torch.long: x -= (x > 4).long()

def are_tensors(args:dict)->bool: # or what is plain beside them
    kinds = {type(x) for x in args.values()}
    return Tensor in kinds and kinds <= {Tensor, int, float, type(None)}

def forget(call:Callable, args:dict, dtype=None):
    "A call that counts only by what is kept of it"
    if dtype: args = {name: x.detach().to(dtype) if isinstance(x, Tensor)
                      and x.is_floating_point() else x for name, x in args.items()}
    with torch.no_grad(), quiet(), contextlib.suppress(Exception): call(*args.values())

def _with_model(part, model, parameters, drawn, step, first)->Iterator[tuple[str,dict]]:
    yield step(f', {OTHER}', first, parameters=parameters)
    scale(parameters, 1 / 1.5)
    drops = [getattr(x, 'dropout', name == 'dropout' and x) for name, x in drawn.new.items()]
    share = max(map(float, drops), default=0.)
    if share and drawn.case.n not in part.drops or share >= .5: return
    model.train()
    with Chance(): found = step(f', {TRAINS}', first) # nothing happens to be dropped
    model.eval()
    yield found

class Chance(Mode):
    "Drawn numbers are known ones: `of` what is spread evenly over 0 to 1"
    def __init__(self, of:Callable=lambda spread: torch.full_like(spread, .5)):
        super().__init__()
        self.of = of

    def __torch_dispatch__(self, function, kinds, args=(), options=None):
        result, name = function(*args, **(options or {})), str(function)
        if not re.search('bernoulli|rand|uniform', name): return result
        spread = torch.arange(1, result.numel() + 1, dtype=torch.float64).mul(.7548776662)
        drawn = self.of(spread.frac().view(result.shape))
        if 'bernoulli' in name: # of a share, or of the shares in a tensor
            drawn = drawn < (args[1] if len(args) > 1 else args[0])
        return result.copy_(drawn)

def _single(part, own, model, method:str, args:dict, n:int, kit, right)->dict:
    "Results on numbers around 1000; ours are in double precision, with what rounding does"
    call, found = own if model is None else getattr(model, method or '__call__'), []
    for dtype in (torch.float32, torch.float64)[:1 + (right is None)]:
        torch.set_default_dtype(dtype)
        if model is not None: model.float().to(dtype)
        given = {name: (x.detach() + FAR).float().to(dtype).requires_grad_()
                 if isinstance(x, Tensor) and x.requires_grad else x
                 for name, x in args.items()}
        found.append(noted(part, call, copied(given), n, kit, method=method))
    torch.set_default_dtype(torch.float64)
    if model is not None: model.double()
    told = {at: x for at, x in found[-1].items() if at.startswith('result')}
    if right is None: told |= {f'{ROUNDING} {at}': 1e-4 * x.abs().max()
                               + 50 * (x - found[0][at]).abs().max() for at, x in told.items()}
    return told

def scale(parameters:dict, factor:float):
    with torch.no_grad():
        for p in parameters.values(): p.mul_(factor)

def built(part:Part, own, right, drawn, kit=None)->tuple[nn.Module, dict, str]:
    "A model in evaluation mode, with known numbers; its parameters; which do not fit"
    truth, model = ready(right, drawn), ready(own, drawn)
    method, calls = next(iter(drawn.calls.items()), ('', ({},)))
    examples = [{name: part.calls[method][name].lively(x, kit) for name, x in args.items()}
                for args in calls]
    def call(m): # on numbers that any exchange of parameters shows
        m = getattr(m, method) if method and hasattr(m, method) else m
        results = [m(*copied(args).values()) for args in examples]
        return torch.cat([(x[0] if isinstance(x, tuple) else x).flatten() for x in results])
    parameters = fill(model, truth, call)
    mine, wanted = shapes_of(model), shapes_of(truth)
    frozen = ', '.join(name for name, p in model.named_parameters() if not p.requires_grad)
    told = unlike(mine, wanted) if sorted(mine.values()) != sorted(wanted.values()) else (
        f'with requires_grad=False: {frozen}')
    return model, parameters, told

def ready(make, drawn)->nn.Module:
    seeded(drawn.case.n)
    with quiet(): model = make(*copied(drawn.new).values())
    if not isinstance(model, nn.Module):
        raise Unset(f'a {type(model).__name__} is no nn.Module')
    return model.double().eval()

def _sizes(model)->Tensor: # sorted: names and order are free
    sizes = sorted((*shape_of(p), *(0,) * (4 - len(shape_of(p))), p.requires_grad)
                   for p in model.parameters())
    return torch.tensor(sizes)

# First values, and dropout

def _first_values(part, own, drawn, model, parameters:dict)->dict:
    "Of new models, the first values of parameters, sorted; are they drawn anew?"
    found, places = {}, {id(p): i for i, p in enumerate(model.parameters())}
    seeded(1)
    one, other = (own(*copied(drawn.new).values()).named_parameters() for _ in range(2))
    same = [name for (name, x), (_, y) in zip(one, other)
            if x.dim() > 1 and x.requires_grad and x.equal(y)]
    found[FRESH] = f'two new models begin with equal {", ".join(same[:4])}' if same else ''
    wanted = {name: p for name, p in parameters.items() if name.endswith(part.first)}
    if not part.first or not wanted: return found
    seeded(1)
    n = min(12, max(2, 8000 // sum(p.numel() for p in wanted.values()))) # models
    made = [list(own(*copied(drawn.new).values()).parameters()) for _ in range(n)]
    for name, p in wanted.items():
        values = torch.cat([new[places[id(p)]].detach().flatten() for new in made])
        found[f'first values of {name}'] = values.double().sort().values
    return found

def _drawn(part, model, drawn, kit)->tuple[str, dict]:
    "Training mode: what is dropped where chance is known; in either order of its numbers"
    [(method, (first, _)), *_] = drawn.calls.items()
    call, found = getattr(model, method or '__call__'), []
    model.train()
    for of in (lambda x: x, lambda x: 1 - x): # who keeps what is above a share, or below
        with torch.no_grad(), Chance(of):
            found.append(noted(part, call, copied(first), drawn.case.n, kit, method=method))
    model.eval()
    rows = [x['result'] for x in found if isinstance(x.get('result'), Tensor)]
    rows.sort(key=lambda x: float(x.sum()))
    step = f'{method or part.name}, {TRAINS}'
    return step, {DRAWS: torch.stack(rows)} if len(rows) == 2 else found[0]

# Two notes

def differences(came:dict, right:dict, n:int, tolerance:float=1e-6)->list[Difference]:
    "Entry by entry; after an error, what did not come is not told"
    steps = {key.partition(' · ')[0] for key in came}
    errors = {key.partition(' · ')[0] for key in came if key.endswith(f' · {ERROR}')}
    found, sizes = [], _sizes_of(right)
    for key in dict.fromkeys([*right, *came]):
        step, _, what = key.partition(' · ')
        rounding = right.get(f'{step} · {ROUNDING} {what}')
        is_lost = errors and (step in errors or step not in steps)
        if what in (LINE, TOLD) or is_lost and what != ERROR or ROUNDING in what: continue
        if rounding is not None and _is_near(came.get(key), right[key], rounding): continue
        size = sizes.get(step, 0.)
        if not same(came.get(key), right.get(key), what, tolerance, size):
            found.append(Difference(n, step, what, came.get(key), right.get(key)))
    return found

def _is_near(x, y:Tensor, most:Tensor)->bool: # an error or another shape is told elsewhere
    if not isinstance(x, Tensor) or x.shape != y.shape or not most.isfinite(): return True
    return bool(((x - y).abs() <= most).all())

def _sizes_of(notes:dict)->dict[str, float]:
    "The largest number of each step: what is left of it by rounding is no difference"
    found = {}
    for key, x in notes.items():
        if not isinstance(x, Tensor) or not x.is_floating_point(): continue
        finite = x[x.isfinite()].abs()
        size, step = float(finite.max()) if len(finite) else 0., key.partition(' · ')[0]
        found[step] = max(size, found.get(step, 0.))
    return found

def same(x, y, what:str, tolerance:float, # x came, y is right
         size:float)->bool: # of the largest number beside them
    if not isinstance(x, Tensor) or not isinstance(y, Tensor): return x is y or x == y
    kinds = kind_of(x), kind_of(y) # whole numbers are numbers, too
    if x.shape != y.shape or kinds[0] != kinds[1] and kinds != ('whole numbers', 'numbers'):
        return False
    x, y = x.double(), y.double()
    if what.startswith('first values'):
        is_near = float((x - y).abs().mean()) <= max(.08 * float(y.std()), 1e-9)
        mine, ours = (int((z.abs() > 3 * y.std()).sum()) for z in (x, y)) # in the tails
        return is_near and abs(mine - ours) <= 6 * (mine + ours + 1)**.5
    least = tolerance if tolerance > 1e-6 else 1e-7 * max(1., size) # a float32 constant
    return torch.allclose(x, y, tolerance, least, equal_nan=True)

def kind_of(x:Tensor)->str:
    if x.dtype == torch.bool: return 'truth values'
    return 'numbers' if x.is_floating_point() else 'whole numbers'

# In one process

def compare(part:Part, own:Callable, right:Callable,
            most:int=9)->list[Difference]: # so many failing cases are enough
    "Both on the same drawn calls, the plainest first"
    found = []
    for n in range(part.cases):
        ours = observed(part, right, n)
        found += differences(observed(part, own, n, right), ours, n, part.tolerance)
        if len({d.n for d in found}) >= most: break
    return found
