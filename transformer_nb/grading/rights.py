"""The right version of each file: the truth, and what stands in for earlier stages"""
import sys, types
from contextlib import contextmanager
from functools import cache
from ..assignment import config as given # whose class the cases are made of
from .kit import Kit, kit_folder

FOLDER = kit_folder()/'right'
FILES = ('attention', 'multihead', 'layers', 'embedding', 'model', 'optimizer', 'training',
         'decoding', 'translation', 'bpe', 'modern', 'writer')

@cache
def text_of(name:str)->str:
    return (FOLDER/f'{name}.py').read_text(encoding='utf8')

@contextmanager
def only(modules:dict):
    "Inside, these are the modules of the kit's names"
    names = ('config', *FILES)
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.modules.update(modules)
    try: yield
    finally:
        for name in names: sys.modules.pop(name, None)
        sys.modules.update(before)

def right_modules()->dict[str, types.ModuleType]: # new ones
    made = {}
    with only({}):
        for name in ('config', *FILES):
            made[name] = given if name == 'config' else _executed(name, text_of(name))
            sys.modules[name] = made[name]
    return made

def _executed(name:str, text:str)->types.ModuleType:
    module = types.ModuleType(name)
    exec(compile(text, str(FOLDER/f'{name}.py'), 'exec'), vars(module))
    return module

@cache
def right()->dict[str, types.ModuleType]: return right_modules()

def stand_ins(kit:Kit)->dict[str, types.ModuleType]:
    "The right modules as a submission calls them, in the conventions of its kit"
    modules = right_modules()
    if kit.is_ours: return modules
    for name, module in modules.items(): vars(module).update(_adapted(name, module, kit))
    return modules

def _adapted(name:str, code, kit:Kit)->dict:
    adapt = globals().get(f'_{name}')
    found = adapt(code, kit) if adapt else {}
    for kind in found.values():
        if isinstance(kind, type): kind.__module__, kind.__qualname__ = name, kind.__name__
    return found

def _attention(code, kit):
    inner, padding, causal = (code.scaled_dot_product_attention, code.padding_mask,
                              code.causal_mask)
    def scaled_dot_product_attention(query, key, value, mask=None):
        out, weights = inner(*map(kit.heads, (query, key, value)), kit.allowed(mask))
        return kit.heads(out), weights
    def padding_mask(ids): return kit.mask(padding(ids))
    def causal_mask(t): return kit.mask(causal(t))
    # the other right files have their names of the right ones already
    return locals_of(scaled_dot_product_attention, padding_mask, causal_mask)

def locals_of(*things): return {thing.__name__: thing for thing in things}

def _multihead(code, kit):
    class MultiHeadAttention(code.MultiHeadAttention):
        def forward(self, x, memory=None, mask=None):
            return super().forward(x, memory, kit.allowed(mask))
    return locals_of(MultiHeadAttention)

def _model(code, kit):
    padding_mask = code.padding_mask
    class EncoderLayer(code.EncoderLayer):
        def forward(self, x, mask): return super().forward(x, kit.allowed(mask))
    class DecoderLayer(code.DecoderLayer):
        def forward(self, x, memory, mask, memory_mask):
            masks = kit.allowed(mask), kit.allowed(memory_mask)
            return super().forward(x, memory, *masks)
    class Transformer(code.Transformer):
        def decode(self, tgt, memory, memory_mask):
            return super().decode(tgt, memory, kit.allowed(memory_mask))
        def forward(self, src, tgt):
            return self.decode(tgt, self.encode(src), kit.mask(padding_mask(src)))
    # `code.Transformer` goes on to build its own layers, which take our masks
    inner = right_modules()['model']
    Transformer.__bases__ = (inner.Transformer,)
    return locals_of(EncoderLayer, DecoderLayer, Transformer)

def _decoding(code, kit):
    greedy, beam_search = code.greedy, code.beam_search
    class Ours:
        def __init__(self, model): self.model = model
        def encode(self, src): return self.model.encode(src)
        def decode(self, tgt, memory, mask):
            return self.model.decode(tgt, memory, kit.mask(mask))
    def adapted_greedy(model, src, max_steps): return greedy(Ours(model), src, max_steps)
    def adapted_beam(model, *args, **options): return beam_search(Ours(model), *args, **options)
    return dict(greedy=adapted_greedy, beam_search=adapted_beam)

def _modern(code, kit):
    inner = code.grouped_attention
    def grouped_attention(query, key, value, mask=None):
        found = inner(*map(kit.heads, (query, key, value)), kit.allowed(mask))
        return kit.heads(found)
    return locals_of(grouped_attention)
