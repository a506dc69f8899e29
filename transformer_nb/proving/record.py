"What runs inside, operation by operation, each with the line that asked for it"
import linecache, sys, torch
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

@dataclass
class Line:
    file: str
    number: int
    def __str__(self)->str:
        return f'{Path(self.file).parent.name}/{self.name}:{self.number}'
    @property
    def text(self)->str: return linecache.getline(self.file, self.number).strip()
    @property
    def name(self)->str: return Path(self.file).name

class Mode(TorchDispatchMode):
    "PyTorch's own has the first call import its compiler, for seconds"
    def __init_subclass__(cls): pass

class Tracer(Mode):
    "Every operation inside is told to `note`"
    largest = inf # tensors with more elements are passed over
    def __init__(self, is_own:Callable): # the files whose lines are told
        super().__init__()
        self.is_own, self.kept = is_own, []

    def __torch_dispatch__(self, function, kinds, args=(), options=None):
        result, name = function(*args, **(options or {})), function.overloadpacket.__name__
        inputs, outputs = self.tensors_in((args, options)), self.tensors_in(result)
        self.kept += outputs # so that no memory is used twice
        self.note(name, args, inputs, outputs, self.line_of(sys._getframe(1)))
        return result

    def tensors_in(self, x)->list[Tensor]:
        return [y for y in tree_leaves(x) if isinstance(y, Tensor)
                and y.numel() <= self.largest]

    def line_of(self, frame)->Line|None: # the innermost
        while frame:
            file = frame.f_code.co_filename
            if self.is_own(file): return Line(file, frame.f_lineno)
            frame = frame.f_back

def memory_of(x:Tensor)->int: return x.untyped_storage().data_ptr()

_THEIRS = *(str(Path(file).parent) for file in (torch.__file__, __file__)), '<frozen'

def is_authors(file:str)->bool: # neither PyTorch's nor ours
    return not file.startswith(_THEIRS)

@dataclass
class Step:
    "One operation on the data"
    name: str       # PyTorch's, as 'mm'
    line: str       # file and number of the line that asked for it
    output: Tensor  # a copy, since later operations may overwrite it

@dataclass(eq=False)
class Linear:
    "A product with a matrix that is made of parameters alone, whatever made it"
    weight: Tensor  # (o, i)
    bias: Tensor|None
    input: Tensor   # (n, i)
    output: Tensor  # (n, o), with the bias
    line: str
    memory: int     # where the output lies
    number: int     # in order of time

class Recorder(Tracer):
    "Notes the steps, the linear maps and the numbers of heads of what runs inside"
    def __init__(self, model:nn.Module):
        super().__init__(is_authors)
        self.steps, self.linears = [], []
        self.made = [] # vectors out of parameters
        self.single = '' # the first line that computes in single precision
        self.dropouts, self.softmaxes, self.scores, self.noises = [], [], [], {}
        self.weights = {memory_of(p) for p in model.parameters()}

    def note(self, name:str, args:tuple, inputs:list, outputs:list, line:Line|None):
        floats = [x for x in inputs if x.is_floating_point()]
        are_weights = [memory_of(x) in self.weights for x in floats]
        if floats and len(floats) == len(inputs) and all(are_weights):
            self.weights.update(map(memory_of, outputs))
            self.made += [x for x in outputs if x.numel() == max(x.shape, default=0)]
        elif outputs and outputs[0].is_floating_point():
            self._note(name, args, inputs, outputs[0], str(line))

    def _note(self, name:str, args:tuple, inputs:list, output:Tensor, line:str):
        self.steps.append(Step(name, line, output.clone()))
        if inputs and output.dtype == torch.float32: self.single = self.single or line
        if product := getattr(self, f'of_{name}', None):
            self._product(product(output, *args), output, line)
        elif name in ('add', 'add_'): self._bias(args, output)
        elif name == 'bernoulli_' and len(args) > 1:
            self.noises[memory_of(output)] = 1 - args[1]
        elif name == 'mul': # by noise?
            for x, noise in (args, args[::-1]):
                if isinstance(noise, Tensor) and memory_of(noise) in self.noises:
                    self.dropouts.append((x.clone(), self.noises[memory_of(noise)], line))
        elif 'softmax' in name and 'log' not in name:
            self.softmaxes.append(output.numel())
            self.scores.append(args[0].clone())
        elif 'scaled_dot_product' in name:
            q, k = args[:2]
            self.softmaxes.append(q.shape[:-1].numel() * k.shape[-2])

    def _is_weight(self, x)->bool:
        return isinstance(x, Tensor) and memory_of(x) in self.weights

    def _product(self, found:tuple|None, output:Tensor, line:str):
        if found is None: return
        weight, bias, x, y = found
        x, y = x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
        copies = map(_copy, (weight, bias, x, y))
        self.linears.append(Linear(*copies, line, memory_of(output), len(self.linears)))

    def _bias(self, args:tuple, output:Tensor):
        "A vector added to what a linear map has just returned"
        a, b = (*args, None)[:2]
        if self._is_weight(a): a, b = b, a
        if not self._is_weight(b) or not isinstance(a, Tensor): return
        for use in self.linears[::-1][:8]:
            n = len(use.weight)
            if use.memory == memory_of(a) and b.numel() == n == output.shape[-1]:
                use.bias, use.output = _copy(b.flatten()), output.reshape(-1, n).clone()
                return

    def of_mm(self, output, a, b): # weight, bias, x, and their product with the bias
        if self._is_weight(b): return b.T, None, a, output
        if self._is_weight(a): return a, None, b.T, output.T

    def of_addmm(self, output, bias, a, b, *rest):
        found = self.of_mm(output, a, b)
        if found is None or not self._is_weight(bias): return found
        return found[0], bias, *found[2:]

    def of_bmm(self, output, a, b):
        if self._is_weight(a): a, b, output = b.mT, a.mT, output.mT
        if not self._is_weight(b): return None
        if len(b) == 1 or b.stride(0) == 0: return b[0].T, None, a, output
        if a.stride(0) != 0: return None
        weight = b.mT.flatten(0, 1) # a matrix for each head, all of the same input
        return weight, None, a[0], output.transpose(0, 1).flatten(1)

    def of_convolution(self, output, x, weight, bias=None, *rest):
        is_pointwise = self._is_weight(weight) and weight.shape[2:].numel() == 1
        if is_pointwise and x.dim() == 3: return weight[..., 0], bias, x.mT, output.mT

def _copy(x:Tensor|None): return None if x is None else x.detach().clone()

def record(model:nn.Module, call:Callable)->tuple[Tensor,Recorder]:
    "The result of a call, and what was computed on the way"
    with torch.enable_grad(), Recorder(model) as recorder: result = call()
    return result.detach(), recorder
