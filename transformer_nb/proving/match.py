"""Whose parameter is which: known numbers for two models that name theirs differently

By name, else in the order of definition, else in that of use, else part by part, else by
any order that the shapes allow: the first by which both models say the same."""
import torch
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cache
from itertools import permutations, product
from math import factorial, prod, sqrt
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
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
    actual, wanted = shapes_of(module), shapes_of(truth)
    if len(actual) < len(wanted): refuse_unregistered(module)
    names = matched(module, truth, call)
    if names is None: raise Unset(unlike(actual, wanted))
    set_values(truth, list(wanted), wanted)
    set_values(module, names, wanted)
    found = dict(zip(names, module.parameters()))
    return {name: found[name] for name in wanted if name in found}

def matched(module:nn.Module, truth:nn.Module, call:Callable)->list[str]|None:
    "Our names for a module's parameters: the first that agree, or else that are possible"
    actual, wanted = shapes_of(module), shapes_of(truth)
    if wanted.items() <= actual.items(): return list(actual) # names are taken at their word
    set_values(truth, list(wanted), wanted)
    right, possible = answer(truth, call), []
    for names in _matchings(module, truth, call):
        if not names or names in possible: continue
        possible.append(names)
        set_values(module, names, wanted)
        if agree(answer(module, call), right): return names
    return possible[0] if possible else None

def set_values(module:nn.Module, names:list[str], wanted:dict):
    for name, p in zip(names, module.parameters()):
        if name in wanted: value = known_values(name, shape_of(p))
        elif not p.requires_grad: continue # a table of its own
        elif p.dim() > 1: value = known_values('extra', tuple(p.shape))
        else: value = torch.full_like(p, 'bias' not in name) # of a norm, or a linear map
        p.data.copy_(value.view_as(p))

def answer(module:nn.Module, call:Callable): # None: an error
    with torch.no_grad(), torch.random.fork_rng(devices=[]), suppress(Exception):
        return call(module.double().eval())

def agree(mine, right)->bool:
    are_numbers = isinstance(mine, Tensor) and isinstance(right, Tensor)
    if not are_numbers or mine.shape != right.shape: return False
    return torch.allclose(mine.double(), right.double(), 1e-6, 1e-6, equal_nan=True)

# Which names could be meant

def _matchings(module, truth, call)->Iterator[list[str]]: # an empty list: they do not fit
    actual, wanted = shapes_of(module), shapes_of(truth)
    yield _aligned(actual, wanted)
    mine, ours = _as_used(module, call), _as_used(truth, call)
    by_use = dict(zip(mine, _aligned(mine, ours)))
    yield [by_use[name] for name in actual if by_use]
    yield _by_parts(module, truth, call)
    yield from _by_shape(actual, wanted)

def _used(module:nn.Module, call:Callable)->list[tuple]:
    "The parts of a model in the order in which a call uses them, and what they get"
    order = []
    def remember(part, args, options): order.append((part, (args, options)))
    hooks = [part.register_forward_pre_hook(remember, with_kwargs=True)
             for part in module.modules()]
    answer(module, call)
    for hook in hooks: hook.remove()
    return order

def _as_used(module:nn.Module, call:Callable)->dict[str, tuple]:
    "Shapes in the order in which a call uses the parameters, then those without a use"
    names, shapes = {id(p): n for n, p in module.named_parameters()}, shapes_of(module)
    used = [names[id(p)] for part, _ in _used(module, call)
            for p in part.parameters(recurse=False)]
    return {name: shapes[name] for name in dict.fromkeys([*used, *shapes])}

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
    mine, ours = (_outermost(m, kinds, call) for m in (module, truth))
    places, found = {id(part): name for name, part in truth.named_modules()}, {}
    if [type(p).__name__ for p, _ in mine] == [type(p).__name__ for p, _ in ours]:
        for (own, _), (right, given) in zip(mine, ours):
            def example(part, given=given): return part(*given[0], **given[1])
            names = matched(own, right, example)
            if names is None: return []
            for p, name in zip(own.parameters(), names):
                found[id(p)] = f'{places[id(right)]}.{name}'
    names = [found.get(id(p), name) for name, p in module.named_parameters()]
    return names if {*shapes_of(truth)}.issubset(names) else []

def _outermost(module, kinds:set[str], call)->list[tuple]:
    "The parts that are no parts of others, in the order of their first use; what they got"
    found, inside = [], {id(module)}
    for part, given in _used(module, call):
        is_asked = type(part).__name__ in kinds and [*part.parameters()]
        if id(part) in inside or not is_asked: continue
        found.append((part, given))
        inside.update(map(id, part.modules()))
    return found

def _aligned(actual:dict, wanted:dict)->list[str]: # shapes by name; empty: they do not fit
    "Our names for parameters; extra ones keep theirs"
    if names := _in_order(actual, wanted): return names
    shared = {name for name, shape in actual.items() if wanted.get(name) == shape}
    if not shared: return []
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
    "Layers and tensors that `parameters()` does not see are refused by their names"
    known, names = {id(p) for p in module.parameters()}, []
    for owner in module.modules():
        for name, value in vars(owner).items():
            if name in vars(nn.Module()): continue
            held = [p for x in tree_leaves(value) for p in _trained(x, name)]
            if not known.issuperset(map(id, held)):
                names.append(f'{type(owner).__name__}.{name}')
    if names: raise Unset('layers or tensors that `parameters()` does not find (use '
                          '`nn.ModuleList`, `nn.ModuleDict`, or `nn.Parameter`): '
                          + ', '.join(dict.fromkeys(names)))

def _trained(x, name:str)->Iterable[Tensor]: # in an attribute of this name
    if isinstance(x, nn.Module): return x.parameters()
    is_tensor = isinstance(x, Tensor)
    is_trained = is_tensor and (x.requires_grad or name in ('weight', 'bias'))
    return [x] if is_trained else []
