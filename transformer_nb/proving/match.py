"""Whose parameter is which: known numbers for two models that name theirs differently

By name, else in the order of definition, else in that of use, else part by part, else by any
order that the shapes allow: the first by which both models say the same."""
import torch
from collections.abc import Callable, Iterator
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cache
from itertools import permutations, product
from math import factorial, prod, sqrt
from torch import Tensor, nn
from zlib import crc32

class Unset(ValueError):
    "Parameters that cannot be set: told as it is"

@cache
def known_values(name:str, shape:tuple)->Tensor: # the same for the same name
    generator = torch.Generator().manual_seed(crc32(name.encode()))
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    return values / sqrt(shape[-1]) if len(shape) > 1 else values

def shapes_of(module:nn.Module)->dict[str, tuple]: # of its parameters, by name
    return {name: shape_of(p) for name, p in module.named_parameters()}

def shape_of(p:Tensor)->tuple: # of a convolution of kernel size 1, that of the matrix
    return tuple(p.shape[:2]) if p.shape[2:].numel() == 1 else tuple(p.shape)

def fill(module:nn.Module,  # anybody's
         truth:nn.Module,   # ours, which gets the same numbers
         call:Callable,     # of a model: what it says to an example
        )->dict[str, Tensor]: # the module's parameters, by our names
    wanted = shapes_of(truth)
    if len(shapes_of(module)) < len(wanted): refuse_unregistered(module)
    set_values(truth, list(wanted), wanted)
    names = matched(module, truth, call)
    set_values(module, names, wanted)
    found = dict(zip(names, module.parameters()))
    return {name: found[name] for name in wanted if name in found}

def matched(module:nn.Module, truth:nn.Module, call:Callable)->list[str]:
    "Our names for a module's parameters: the first that agree, or else that are possible"
    actual, wanted = shapes_of(module), shapes_of(truth)
    if wanted.items() <= actual.items(): return list(actual) # names are taken at their word
    right, possible, problem = answer(truth, call), [], None
    for names in _matchings(module, truth, call):
        if isinstance(names, Unset): problem = problem or names
        elif names not in possible:
            possible.append(names)
            set_values(module, names, wanted)
            if agree(answer(module, call), right): return names
    if not possible: raise problem
    return possible[0]

def set_values(module:nn.Module, names:list[str], wanted:dict):
    with torch.no_grad():
        for name, p in zip(names, module.parameters()):
            if name not in wanted and not p.requires_grad: continue # a table of its own
            p.copy_(_value(name, p, wanted).view_as(p))

def _value(name:str, p:Tensor, wanted:dict)->Tensor:
    if name in wanted: return known_values(name, shape_of(p))
    if p.dim() > 1: return known_values('extra', tuple(p.shape))
    return torch.full_like(p, 'bias' not in name) # of a norm, or of a linear map

def answer(module:nn.Module, call:Callable): # None: an error
    with torch.no_grad(), torch.random.fork_rng(devices=[]), suppress(Exception):
        return call(module.double().eval())

def agree(mine, right)->bool:
    if not isinstance(mine, Tensor) or not isinstance(right, Tensor): return False
    if mine.shape != right.shape: return False
    return torch.allclose(mine.double(), right.double(), 1e-6, 1e-6, equal_nan=True)

# Which names could be meant

def _matchings(module, truth, call)->Iterator: # lists of our names, or problems
    defined = _tried(_aligned, shapes_of(module), shapes_of(truth))
    yield defined
    mine, ours = _as_used(module, call), _as_used(truth, call)
    used = _tried(_by_use, list(shapes_of(module)), mine, ours)
    yield used
    yield _tried(_by_parts, module, truth, call)
    for names in (defined, used):
        if isinstance(names, list): yield from _exchanged(module, names)
    yield from _by_shape(shapes_of(module), shapes_of(truth))

def _tried(function, *args):
    try: return function(*args)
    except Unset as e: return e

def _by_use(names:list[str], mine:dict, ours:dict)->list[str]:
    found = dict(zip(mine, _aligned(mine, ours)))
    return [found[name] for name in names]

def _as_used(module:nn.Module, call:Callable)->dict[str, tuple]:
    "Shapes in the order in which a call uses the parameters, then those without a use"
    order, shapes = [], shapes_of(module)
    def remember(inner, _): order.append(inner)
    hooks = [inner.register_forward_pre_hook(remember) for inner in module.modules()]
    answer(module, call)
    for hook in hooks: hook.remove()
    names = {id(p): name for name, p in module.named_parameters()}
    used = [names[id(p)] for inner in order for p in inner.parameters(recurse=False)]
    return {name: shapes[name] for name in dict.fromkeys([*used, *shapes])}

def _exchanged(module, names:list[str], most:int=24)->Iterator[list[str]]:
    "Parameters that a class defines in an order of its own, in all its parts alike"
    places = {id(p): i for i, p in enumerate(module.parameters())}
    classes = {}
    for part in module.modules():
        if type(part).__module__.startswith('torch.'): continue
        own = {id(p): shape_of(p) for p in part.parameters(recurse=False)}
        rows = classes.setdefault((type(part), tuple(own.values())), [])
        rows.append([places[p] for p in own])
    orders = [[order for order in permutations(range(len(shapes)))
               if [shapes[i] for i in order] == list(shapes)] for _, shapes in classes]
    if prod(map(len, orders)) > most: return
    for chosen in product(*orders):
        new = list(names)
        for rows, order in zip(classes.values(), chosen):
            for row in rows:
                for place, i in zip(row, order): new[place] = names[row[i]]
        yield new

def _by_shape(actual:dict, wanted:dict, most:int=24)->Iterator[list[str]]:
    "Every way to give our names to parameters of their shapes, where there are few"
    if sorted(actual.values()) != sorted(wanted.values()): return
    groups = [[name for name in wanted if wanted[name] == shape]
              for shape in dict.fromkeys(wanted.values())]
    if prod(factorial(len(group)) for group in groups) > most: return
    for chosen in product(*map(permutations, groups)):
        left = {wanted[names[0]]: list(names) for names in chosen}
        yield [left[shape].pop(0) for shape in actual.values()]

def _by_parts(module, truth, call)->list[str]:
    "By the parts in the order of their use, and in each of them by its own matching"
    kinds = {type(part).__name__ for part in truth.modules()
             if not type(part).__module__.startswith('torch.')} - {type(truth).__name__}
    mine, ours = (_parts_used(m, kinds, call) for m in (module, truth))
    places, found = {id(part): name for name, part in truth.named_modules()}, {}
    if [type(p).__name__ for p, _ in mine] == [type(p).__name__ for p, _ in ours]:
        for (own, _), (right, given) in zip(mine, ours):
            def example(part, given=given): return part(*given[0], **given[1])
            for p, name in zip(own.parameters(), matched(own, right, example)):
                found[id(p)] = f'{places[id(right)]}.{name}'
    names = [found.get(id(p), name) for name, p in module.named_parameters()]
    if not {*shapes_of(truth)}.issubset(names):
        raise Unset(unlike(shapes_of(module), shapes_of(truth)))
    return names

def _parts_used(module, kinds:set[str], call)->list[tuple]:
    "The parts that are no parts of others, in the order of their first use; what they got"
    order, inside = [], {id(module)}
    def remember(part, args, options):
        if id(part) in inside: return
        order.append((part, (args, options)))
        inside.update(map(id, part.modules()))
    hooks = [part.register_forward_pre_hook(remember, with_kwargs=True)
             for part in module.modules()
             if type(part).__name__ in kinds and [*part.parameters()]]
    answer(module, call)
    for hook in hooks: hook.remove()
    return order

def _aligned(actual:dict, wanted:dict)->list[str]: # shapes by name
    "Our names for parameters; extra ones keep theirs"
    if all(actual.get(name) == shape for name, shape in wanted.items()): return list(actual)
    if names := _in_order(actual, wanted): return names
    shared = {name for name, shape in actual.items() if wanted.get(name) == shape}
    if not shared: raise Unset(unlike(actual, wanted))
    mine, ours = ({name: shape for name, shape in shapes.items() if name not in shared}
                  for shapes in (actual, wanted))
    found = dict(zip(mine, _in_order(mine, ours) or mine)) # the names of its own
    return [found.get(name, name) for name in actual]

def _in_order(actual:dict, wanted:dict)->list[str]: # empty: they do not fit
    left, names = list(wanted), []
    for name, shape in actual.items():
        is_next = bool(left) and shape == wanted[left[0]]
        names.append(left.pop(0) if is_next else f'extra {name}')
    return [] if left else names

# What is said of parameters that cannot be matched

def unlike(actual:dict, wanted:dict)->str: # shapes by name
    "Which parameters have another shape, are missing or too many, whatever their names"
    ours = [name for name in wanted if actual.get(name) != wanted[name]]
    own = [name for name in actual if wanted.get(name) != actual[name]]
    both = [name for name in ours if name in own]
    said = [f'{name} should have shape {wanted[name]}, and has {actual[name]}'
            for name in both[:4]]
    ours, own = ([name for name in names if name not in both] for names in (ours, own))
    shapes = [wanted[name] for name in ours], [actual[name] for name in own]
    parts = SequenceMatcher(None, *shapes, autojunk=False).get_opcodes()
    changes = [rows for tag, *rows in parts if tag != 'equal']
    missing = [name for i, j, _, _ in changes for name in ours[i:j]]
    extra = [name for _, _, i, j in changes for name in own[i:j]]
    if missing: said.append(_listed('missing parameters', missing, wanted))
    if extra: said.append(_listed('parameters not asked for', extra, actual))
    return '; '.join(said)

def _listed(title:str, names:list[str], shapes:dict, most:int=4)->str:
    rows = [f'{name} {shapes[name]}' for name in names]
    more = f' and {len(rows) - most} more' if len(rows) > most else ''
    return f'{title}: {", ".join(rows[:most])}{more}'

def refuse_unregistered(module:nn.Module):
    "Lists and tensors that `parameters()` does not see are refused by their names"
    known, lists, tensors = {id(p) for p in module.parameters()}, [], []
    for owner in module.modules():
        for name, value in vars(owner).items():
            own = f'{type(owner).__name__}.{name}'
            if name in vars(nn.Module()): continue
            if not known.issuperset(_held(value)): lists.append(own)
            if isinstance(value, Tensor) and (value.requires_grad or name in _WEIGHTS):
                tensors.append(own)
    for names, what in ((lists, 'layers in a plain Python list or dict, where `parameters()` does '
                         'not find them (use `nn.ModuleList` or `nn.ModuleDict`)'),
                        (tensors, 'a tensor that is no parameter (wrap it in '
                         '`nn.Parameter`)')):
        if names: raise Unset(f'{what}: {", ".join(dict.fromkeys(names))}')

_WEIGHTS = 'weight', 'bias'

def _held(value)->set[int]: # the parameters in a plain list, by their ids
    if isinstance(value, dict): value = list(value.values())
    if not isinstance(value, (list, tuple)): return set()
    parameters = [x for x in value if isinstance(x, nn.Parameter)]
    for x in value:
        if isinstance(x, nn.Module): parameters += x.parameters()
    return {id(p) for p in parameters}
