"""Runs a command of the book as on a system without fcntl, resource and os.fork, whose
processes are spawned: `python tests/elsewhere.py commands tnb_train --out …`. The new
processes import this file, too."""
import builtins, multiprocessing, os, signal, sys
from importlib import import_module

def without(name, space=None, *rest, **named): # libraries have ways of their own
    importer = (space or {}).get('__name__', '')
    if name in ('fcntl', 'resource') and importer.startswith('transformer_nb'):
        raise ModuleNotFoundError(f'No module named {name!r}', name=name)
    return import_as_before(name, space, *rest, **named)

import_as_before, builtins.__import__ = builtins.__import__, without
del os.fork, signal.setitimer
multiprocessing.set_start_method('spawn', force=True)

if __name__ == '__main__':
    module, name = sys.argv[1:3]
    sys.argv[:3] = [name]
    vars(import_module(f'transformer_nb.{module}'))[name]()
