"What a model computes, operation by operation, each with the line of its author's code"
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

@dataclass
class Step:
    "One operation on the data"
    name: str       # PyTorch's, as 'mm'
    line: str       # file, number and text of the line that asked for it
    output: Tensor  # a copy, since later operations may overwrite it

@dataclass(eq=False)
class Linear:
    "A product with a matrix that is made of parameters alone, whatever made it"
    weight: Tensor  # (o, i)
    bias: Tensor|None
    input: Tensor   # (n, i)
    output: Tensor  # (n, o), with the bias
    line: str
    storage: int    # where the output lies
    number: int     # in order of time

class Recorder(TorchDispatchMode):
    "Notes the steps, the linear maps and the numbers of heads of what runs inside"
    def __init__(self, model:nn.Module):
        super().__init__()
        self.steps, self.linears, self.kept = [], [], []
        self.made = [] # vectors out of parameters
        self.single = '' # the first line that computes in single precision
        self.dropouts, self.softmaxes, self.scores, self.noises = [], [], [], {}
        self.weights = {_storage(p) for p in model.parameters()}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        outputs = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        self.kept += outputs # so that no storage is used twice
        floats = [x for x in inputs if x.is_floating_point()]
        are_weights = [_storage(x) in self.weights for x in floats]
        if floats and len(floats) == len(inputs) and all(are_weights):
            self.weights.update(map(_storage, outputs))
            self.made += [x for x in outputs if x.numel() == max(x.shape, default=0)]
        elif outputs and outputs[0].is_floating_point():
            line = _line()
            self.steps.append(Step(name, line, outputs[0].clone()))
            is_single = inputs and outputs[0].dtype == torch.float32
            if is_single and not self.single: self.single = line
            self._note(name, args, outputs[0], line)
        return result

    def _note(self, name:str, args:tuple, output:Tensor, line:str):
        if name in _PRODUCTS: self._product(name, args, output, line)
        elif name in ('add', 'add_'): self._bias(args, output)
        elif name == 'bernoulli_' and len(args) > 1:
            self.noises[_storage(output)] = 1 - args[1]
        elif name == 'mul': self._dropout(args, line)
        elif 'softmax' in name and 'log' not in name:
            self.softmaxes.append(output.numel())
            self.scores.append(args[0].clone())
        elif 'scaled_dot_product' in name:
            q, k = args[:2]
            self.softmaxes.append(q.shape[:-1].numel() * k.shape[-2])

    def _dropout(self, args:tuple, line:str):
        "What is multiplied by noise"
        for x, noise in (args, args[::-1]):
            if isinstance(noise, Tensor) and _storage(noise) in self.noises:
                self.dropouts.append((x.clone(), self.noises[_storage(noise)], line))

    def _is_weight(self, x)->bool:
        return isinstance(x, Tensor) and _storage(x) in self.weights

    def _product(self, name:str, args:tuple, output:Tensor, line:str):
        found = _PRODUCTS[name](self, output, *args)
        if found is None: return
        weight, bias, x, y = found
        x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
        storage = _storage(output)
        self.linears.append(Linear(*map(_copy, (weight, bias, x, y)), line, storage,
                                   len(self.linears)))

    def _bias(self, args:tuple, output:Tensor):
        "A vector added to what a linear map has just returned"
        a, b = (*args, None)[:2]
        if self._is_weight(a): a, b = b, a
        if not self._is_weight(b) or not isinstance(a, Tensor): return
        for use in self.linears[::-1][:8]:
            n = len(use.weight)
            if use.storage == _storage(a) and b.numel() == n == output.shape[-1]:
                use.bias, use.output = _copy(b.flatten()), output.reshape(-1, n).clone()
                return

    def _mm(self, output, a, b):
        if self._is_weight(b): return b.T, None, a, output
        if self._is_weight(a): return a, None, b.T, output.T

    def _addmm(self, output, bias, a, b, *rest):
        found = self._mm(output, a, b)
        if found is None or not self._is_weight(bias): return found
        weight, _, x, y = found
        return weight, bias, x, y

    def _bmm(self, output, a, b):
        if self._is_weight(a): a, b, output = b.mT, a.mT, output.mT
        if not self._is_weight(b): return None
        if len(b) == 1 or b.stride(0) == 0: return b[0].T, None, a, output
        if a.stride(0) != 0: return None
        weight = b.mT.flatten(0, 1) # a matrix for each head, all of the same input
        return weight, None, a[0], output.transpose(0, 1).flatten(1)

    def _convolution(self, output, x, weight, bias=None, *rest):
        is_pointwise = self._is_weight(weight) and weight.shape[2:].numel() == 1
        if is_pointwise and x.dim() == 3: return weight[..., 0], bias, x.mT, output.mT

_PRODUCTS = dict(mm=Recorder._mm, addmm=Recorder._addmm, bmm=Recorder._bmm,
                 convolution=Recorder._convolution)

# PyTorch wraps it so that the first call imports its compiler, for seconds
Recorder.__torch_dispatch__ = getattr(
    Recorder.__torch_dispatch__, '__wrapped__', Recorder.__torch_dispatch__)

def _storage(x:Tensor)->int: return x.untyped_storage().data_ptr()
def _copy(x:Tensor|None): return None if x is None else x.detach().clone()

_OURS = str(Path(__file__).parent)
_TORCH = str(Path(torch.__file__).parent)

def _line()->str: # of the nearest frame that is neither PyTorch's nor ours
    frame = sys._getframe(2)
    first = frame
    while frame and frame.f_code.co_filename.startswith((_TORCH, _OURS)):
        frame = frame.f_back
    code = (frame or first).f_code
    path = Path(code.co_filename)
    return f'{path.parent.name}/{path.name}:{(frame or first).f_lineno}'

def record(model:nn.Module, call:Callable)->tuple[Tensor,Recorder]:
    "The result of a call, and what was computed on the way"
    with torch.enable_grad(), Recorder(model) as recorder: result = call()
    return result.detach(), recorder
