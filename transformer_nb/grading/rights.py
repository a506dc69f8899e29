"""The right version of each file: the truth, and what stands in for earlier stages"""
import sys
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from ..assignment import config as given # whose class the cases are made of
from .kit import EMPTY, Kit

FOLDER = EMPTY/'right'
FILES = ('config', 'attention', 'multihead', 'layers', 'embedding', 'model', 'optimizer',
         'training', 'decoding', 'translation', 'bpe', 'modern', 'writer')

@cache
def text_of(name:str)->str: return (FOLDER/f'{name}.py').read_text(encoding='utf8')

@contextmanager
def only(modules:dict):
    "Inside, these are the modules of the kit's names"
    before = {name: sys.modules.pop(name) for name in FILES if name in sys.modules}
    sys.modules.update(modules)
    try: yield
    finally:
        for name in FILES: sys.modules.pop(name, None)
        sys.modules.update(before)

def right_modules()->dict[str, ModuleType]: # new ones
    made = dict(config=given)
    with only(made):
        for name in FILES[1:]:
            sys.modules[name] = made[name] = ModuleType(name)
            exec(compile(text_of(name), str(FOLDER/f'{name}.py'), 'exec'), vars(made[name]))
    return made

right = cache(right_modules)

def stand_ins(kit:Kit)->dict[str, ModuleType]:
    "The right modules as a submission calls them, in the conventions of its kit"
    modules = right_modules()
    if kit.is_ours: return modules
    ours = right()['attention']
    def padding_mask(ids): return kit.mask(ours.padding_mask(ids))
    def causal_mask(t): return kit.mask(ours.causal_mask(t))
    def masked(query, key, value, mask=None): # as other right files call it
        return ours.scaled_dot_product_attention(query, key, value, kit.allowed(mask))
    def scaled_dot_product_attention(query, key, value, mask=None):
        out, weights = masked(*map(kit.heads, (query, key, value)), mask)
        return kit.heads(out), weights
    def grouped_attention(query, key, value, mask=None):
        return kit.heads(right()['modern'].grouped_attention(
            *map(kit.heads, (query, key, value)), kit.allowed(mask)))
    for module in modules.values():
        for name, own in (('padding_mask', padding_mask), ('causal_mask', causal_mask),
                          ('scaled_dot_product_attention', masked)):
            if name in vars(module): setattr(module, name, own)
    modules['attention'].scaled_dot_product_attention = scaled_dot_product_attention
    modules['modern'].grouped_attention = grouped_attention
    return modules
