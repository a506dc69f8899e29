"`tnb_prove adapter.py`: somebody's model, asked what it is and what holds of it"
import sys
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
import torch
from ..support.core import Arg, InputError, check_plain_file, command
from .foreign import told_of
from .prove import Proof, prove

def load_adapter(path:str|Path):
    "What a file defines; its folder is where it may import from"
    check_plain_file(path)
    path = Path(path).resolve()
    sys.path.insert(0, str(path.parent))
    try: return SimpleNamespace(**run_path(str(path)))
    except Exception as e:
        raise InputError(f'{path.name} cannot be run: {told_of(e)}') from None

def prove_adapter(path:str|Path, seed:int=0, **options)->Proof: # of `prove`
    "Run an adapter's file, and ask its model"
    torch.manual_seed(seed)
    adapter = load_adapter(path)
    name = Path(path).name
    if not hasattr(adapter, 'make') and not hasattr(adapter, 'model'):
        raise InputError(f'{name} defines neither model nor make()')
    try: model = adapter.make() if hasattr(adapter, 'make') else adapter.model
    except Exception as e: raise InputError(f'make() of {name}: {told_of(e)}') from None
    return prove(model, adapter, **options)

@command
def tnb_prove(adapter:Arg('Python file that says how the model is called', str,
                          'ADAPTER.py'),
              seed:Arg('of the model, where the adapter makes one', int)=0):
    "Say which Transformer a model is, and what holds of it"
    torch.set_num_threads(1)
    proof = prove_adapter(adapter, seed)
    print(proof.text())
    if proof.failures: sys.exit(1)
