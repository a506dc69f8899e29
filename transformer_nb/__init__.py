"""*Attention Is All You Need* as a book that runs: the Transformer, trained, searched and proved.

    from transformer_nb import Transformer, TransformerConfig, Translator
    Translator('everyday-en-de').translate(['I love you.'])

The names of `__all__` are loaded when they are first used; docs/reference/python.md shows them
at work. The modules of the paper are attention, multihead, layers, embedding, model, optimizer,
copy_task, text, data, training, decoding, evaluation and translation."""
import gc as _gc, os as _os, signal as _signal, sys as _sys
from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING
if TYPE_CHECKING: # for editors; Python loads each name when it is used
    from .checkpoint import save_model # noqa: F401
    from .decoding import search # noqa: F401
    from .formats.page import export_page # noqa: F401
    from .hub import open_model # noqa: F401
    from .model import Transformer, TransformerConfig # noqa: F401
    from .translation import Translator, train_translator # noqa: F401

__version__ = "1.0.0.dev0"

# On a busy machine, threads that spin stop each other. Only before PyTorch is imported.
if 'OMP_WAIT_POLICY' not in _os.environ: _os.environ.setdefault('GOMP_SPINCOUNT', '3000')

_HOMES = dict(
    Transformer='model', TransformerConfig='model', Translator='translation',
    train_translator='translation', search='decoding', open_model='hub',
    save_model='checkpoint', export_page='formats.page')
__all__ = list(_HOMES)

def __getattr__(name):
    if name not in _HOMES: raise AttributeError(f'transformer_nb has no {name}')
    is_first = 'torch' not in _sys.modules and _gc.isenabled()
    if is_first: _gc.disable() # what PyTorch and the package define is no garbage
    try: found = getattr(_import_module(f'transformer_nb.{_HOMES[name]}'), name)
    finally:
        if is_first:
            _gc.freeze()
            _gc.enable()
    globals()[name] = found
    for part in (found, *map(vars(found).get, ('forward', 'translate'))): _tell(part)
    return found

def _tell(part): # help() and Shift+Tab show docstrings; ours say in comments what goes in
    from fastcore.docments import docments
    says = {name: text for name, text in docments(part).items() if text} if part else {}
    lines = [f'{name}: {text}' for name, text in says.items()]
    if lines: part.__doc__ = '\n\n'.join(filter(None, [part.__doc__, '\n'.join(lines)]))

def __dir__(): return sorted([*globals(), *__all__])

# While a command imports, Ctrl-C ends it without a traceback, and no garbage is looked for in
# what stays; `support.core.command` then turns both back
_name = _Path(_sys.argv[0]).name if _sys.argv else ''
if _name.startswith('tnb_'):
    _gc.disable()
    if _signal.getsignal(_signal.SIGINT) == _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
