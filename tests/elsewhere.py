"""Runs a command of the book as on a system without fcntl, resource and os.fork, whose
processes are spawned: `python tests/elsewhere.py commands tnb_train --out …`. The new
processes import this file, too."""
import builtins, errno, multiprocessing, os, signal, sys
import subprocess # noqa: F401 asks for msvcrt, to know whether this is Windows
from fcntl import LOCK_EX, LOCK_NB, flock
from importlib import import_module
from types import ModuleType

def locking(descriptor, mode, n_bytes): # as Windows does, by flock
    try: flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, 'Permission denied') from None

def without(name, space=None, *rest, **named): # libraries have ways of their own
    importer = (space or {}).get('__name__', '')
    if name in ('fcntl', 'resource') and importer.startswith('transformer_nb'):
        raise ModuleNotFoundError(f'No module named {name!r}', name=name)
    return import_as_before(name, space, *rest, **named)

import_as_before, builtins.__import__ = builtins.__import__, without
sys.modules['msvcrt'] = msvcrt = ModuleType('msvcrt')
msvcrt.locking, msvcrt.LK_NBLCK = locking, 2
del os.fork, signal.setitimer
multiprocessing.set_start_method('spawn', force=True)

if __name__ == '__main__':
    module, name = sys.argv[1:3]
    sys.argv[:3] = [name]
    vars(import_module(f'transformer_nb.{module}'))[name]()
