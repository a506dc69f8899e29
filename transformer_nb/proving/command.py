"`tnb_prove adapter.py`: somebody's model, asked what it is and what holds of it"
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
import torch
from ..support.core import Arg, InputError, check_plain_file, command
from .foreign import told_of
from .prove import Proof, prove

def load_adapter(path:str|Path):
    "The module in a file; its folder is where it may import from"
    check_plain_file(path)
    path = Path(path).resolve()
    spec = spec_from_file_location(path.stem, path)
    if spec is None: raise InputError(f'{path} is not a Python file')
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try: spec.loader.exec_module(module)
    except Exception as e:
        raise InputError(f'{path.name} cannot be run: {told_of(e)}') from None
    return module

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
