"""One training run, shared by several processes that take the same steps as a single one would, except for dropout."""

import os, re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
import torch
from torch import Tensor
from torch import distributed as dist
from transformer_nb.support.core import FieldError, InputError

def world_size()->int: # number of processes that train together
    return dist.get_world_size() if dist.is_initialized() else 1

def rank()->int: # number of this process, counted from 0
    return dist.get_rank() if dist.is_initialized() else 0

_A_STEP, _A_DAY = timedelta(minutes=30), timedelta(days=1) # how long a process may wait
_patient = None # a group for what may take a day; None: the usual one

@contextmanager
def process_group()->Iterator[None]:
    "Join the processes that torchrun started, for as long as the block runs"
    global _patient
    if os.environ.get('WORLD_SIZE', '1') == '1':
        yield # alone
        return
    backend = 'gloo'
    if torch.cuda.is_available():
        torch.cuda.set_device(_own_gpu())
        backend = 'cpu:gloo,cuda:nccl'
    try: dist.init_process_group(backend, timeout=_A_STEP)
    except ValueError as e: # a variable is missing, or no number
        raise InputError(f'{e}; start the processes with torchrun') from None
    _patient = dist.new_group(backend='gloo', timeout=_A_DAY)
    try: yield
    except RuntimeError as e: raise _if_others_left(e) from None
    finally:
        _patient = None
        dist.destroy_process_group()

def _own_gpu()->int: # number of this process on its own machine
    gpu, n_gpus = os.environ.get('LOCAL_RANK'), torch.cuda.device_count()
    if gpu is None:
        raise InputError('WORLD_SIZE says that there are several processes, but not which '
                         'GPU is for this one: set LOCAL_RANK, as torchrun does')
    if int(gpu) < n_gpus: return int(gpu)
    if n_gpus == 1 and 'CUDA_VISIBLE_DEVICES' in os.environ: return 0 # its own
    raise InputError(f'process {gpu} of this machine has no GPU of its own: there are '
                     f'{n_gpus}; start at most that many processes')

def check_shared_device(name:str|None): # as the user wrote it, such as 'cuda:0'
    "Raise `FieldError` if several processes would compute on one GPU"
    n_here = int(os.environ.get('LOCAL_WORLD_SIZE', world_size()))
    if world_size() > 1 and n_here > 1 and ':' in (name or ''):
        kind = name.partition(':')[0]
        raise FieldError('device', f'is {name}, one GPU for {n_here} processes; '
                         f'with {kind} each takes its own')

_PEAKS = dict(H200=989e12, H100=989e12, A100=312e12, V100=125e12, T4=65e12) # in 16 bits

def mfu(n:int, speed:float)->dict: # parameters, tokens per second; {} without a known peak
    "Model FLOPs utilization (Chowdhery et al., 2022): of the peak, six a weight and token"
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ''
    peaks = [peak for x, peak in _PEAKS.items() if re.search(rf'\b{x}\b(?!.*PCIe)', name)]
    return dict(mfu=round(6*n*speed / peaks[0] / world_size(), 3)) if n and peaks else {}

_LOST = re.compile('connection (closed|reset|refused)|broken pipe|timed out|timeout|'
                   'nccl.*(error|abort)|watchdog', re.I)

def _if_others_left(e:RuntimeError)->Exception: # what to raise instead
    if not isinstance(e, dist.DistError) and not _LOST.search(str(e)): return e
    if isinstance(e, InputError): return e
    return InputError(f'process {rank()} has lost the others: one of them ended, and says '
                      'why, or was killed; go on with `resume`')

def all_reduce_sum(*numbers:float)->list[float]: # each number, summed over all processes
    total = torch.tensor(numbers, dtype=torch.float64)
    if world_size() > 1: dist.all_reduce(total)
    return total.tolist()

def in_any_process(flag:Tensor # a boolean, on the device of the model
                  )->Tensor:   # there, too: nobody waits for a GPU
    if world_size() == 1: return flag
    n = flag.float()
    dist.all_reduce(n)
    return n > 0

def broadcast_from_rank0(make:Callable): # called by the first process only
    "What the first process makes, given to all; if it fails, the others exit"
    if world_size() == 1: return make()
    result = [False, None] # was it made?
    try:
        if rank() == 0: result = [True, make()]
    finally: # the others wait for the first process as long as it takes
        dist.broadcast_object_list(result, device=torch.device('cpu'), group=_patient)
    was_made, made = result
    if not was_made: raise SystemExit(1)
    return made

def all_gather(x)->list: # what each process passed, by rank
    gathered = [x] * world_size()
    if world_size() > 1: dist.all_gather_object(gathered, x)
    return gathered
