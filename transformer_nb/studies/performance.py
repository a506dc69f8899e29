"""How chapter 19 and the benchmarks measure: counts of operations and bytes, systems that take
turns, peers with our weights, and the parts of a profile."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from math import exp, log
from statistics import median
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import (register_module_forward_hook,
                                     register_module_forward_pre_hook)
from torch.profiler import profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from ..support.core import BOS, EOS, PAD
from ..speed.fast import by_onednn, unaccelerate
from ..judging import mean_interval
from ..layers import FeedForward
from ..model import Transformer, TransformerConfig
from ..multihead import MultiHeadAttention, causal_mask

def _bytes_moved(func, args:tuple, kwargs:dict, result)->int: # by one operation
    "What it reads and writes; of an expanded tensor no more than is stored"
    if result is None: # it writes into its arguments, and its schema says into which
        declared = func._schema.arguments
        result = [x for x, argument in zip(args, declared) if argument.alias_info]
    total = 0
    for x in tree_leaves((args, kwargs, result)):
        if isinstance(x, Tensor): total += min(x.nbytes, x.untyped_storage().nbytes())
    return total

class OpCounter(TorchDispatchMode):
    "Counts the FLOPs of matrix products, and the bytes that operations read and write"
    def __init__(self):
        super().__init__()
        self.flops = 0
        self.bytes = 0
        self.products = Counter() # calls of each operation with operands of these layouts

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not func.is_view: self.bytes += _bytes_moved(func, args, kwargs, result)
        if func.overloadpacket in flop_registry: self._count(func, args, kwargs, result)
        return result

    def _count(self, func, args, kwargs, result):
        count_flops = flop_registry[func.overloadpacket]
        self.flops += count_flops(*args, **kwargs, out_val=result)
        layouts = tuple((x.shape, x.stride()) for x in args if isinstance(x, Tensor))
        self.products[func, layouts] += 1

def interleave(systems:dict[str,Callable], # what is timed; each is called with a batch
               batches:Iterable,
               warm_up:int=2,              # number of first batches that do not count
              )->dict[str,list[float]]:    # seconds per batch
    "Every system gets every batch; with each batch another one begins"
    names = list(systems)
    seconds = {name: [] for name in names}
    for i, batch in enumerate(batches):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            start = time.perf_counter()
            systems[name](batch)
            elapsed = time.perf_counter() - start
            if i >= warm_up: seconds[name].append(elapsed)
    return seconds

def seconds_of(func:Callable, n:int=5)->float:
    "Median of n calls, after two that do not count"
    seconds = interleave({'it': lambda _: func()}, range(n + 2))
    return median(seconds['it'])

def compared(seconds:dict[str,list[float]], # from `interleave`
             work:list[int],                # target tokens of each batch
            )->list[dict]:                  # of each system: medians of speed and ratio
    "Each system's time for a batch is divided by that of the first system"
    first, *_ = seconds.values()
    rows = []
    for name, times in seconds.items():
        speed = median(n / s for n, s in zip(work, times))
        ratio = median(s / f for s, f in zip(times, first))
        rows.append(dict(system=name, tokens_per_second=speed, ratio=ratio))
    return rows

def ratio_interval(ratios:list[float] # one per round, at least two
                  )->tuple[float,...]: # lower end, middle, upper end
    "Geometric mean of the ratios with its 95% interval, by Student's t on their logarithms"
    middle, low, high = mean_interval(map(log, ratios))
    return exp(low), exp(middle), exp(high)

def _joint_weights(model:Transformer)->list[Tensor]:
    "The parameters of our model, W^Q, W^K and W^V of each attention as one matrix"
    weights = []
    for name, p in model.named_parameters(): # query, key and value follow each other
        if name.endswith(('key.weight', 'value.weight')):
            weights[-1] = torch.cat([weights[-1], p])
        else: weights.append(p)
    return weights

def _copy_weights(theirs:list[nn.Parameter], # a peer's, in our order
                  ours:Iterable[Tensor]):
    "Give a peer's parameters our weights, and let them be trained"
    with torch.no_grad():
        for p, weight in zip(theirs, ours, strict=True): p.copy_(weight)
    for p in theirs: p.requires_grad_()

def _torch_body(c:TransformerConfig)->nn.Transformer: # made the paper's; not trained
    body = nn.Transformer(
        d_model=c.d_model,
        nhead=c.n_heads,
        num_encoder_layers=c.n_encoder_layers,
        num_decoder_layers=c.n_decoder_layers,
        dim_feedforward=c.d_ff,
        dropout=c.dropout,
        batch_first=True)
    body.encoder.use_nested_tensor = False
    body.encoder.norm = None # the paper's stacks end without a norm
    body.decoder.norm = None
    for layer in (*body.encoder.layers, *body.decoder.layers):
        layer.dropout.p = 0. # inside the feed-forward network
        layer.self_attn.dropout = 0.
    for layer in body.decoder.layers: layer.multihead_attn.dropout = 0.
    return body.requires_grad_(False)

class TorchTransformer(nn.Module):
    "PyTorch's `nn.Transformer` between our embedding and output, with our weights"
    def __init__(self, model:Transformer): # post-norm, sinusoids, one embedding matrix
        super().__init__()
        self.embedding = unaccelerate(deepcopy(model.output))
        self.positions = unaccelerate(deepcopy(model.src_positions))
        self.body = _torch_body(model.config)
        untrained = ('in_proj_bias', 'out_proj.bias') # ours has none; these stay zero
        named = self.body.named_parameters()
        theirs = [p for name, p in named if not name.endswith(untrained)]
        _copy_weights([self.embedding.weight, *theirs], _joint_weights(model))

    def forward(self, src:Tensor, tgt:Tensor)->Tensor: # logits (b, t, v)
        x = self.positions(self.embedding(src))
        y = self.positions(self.embedding(tgt))
        y = self.body(x, y,
                      tgt_mask=~causal_mask(tgt.shape[1], tgt.device),
                      tgt_is_causal=True,
                      src_key_padding_mask=src == PAD,
                      memory_key_padding_mask=src == PAD)
        return F.linear(y, self.embedding.weight)

def _marian_config(c:TransformerConfig): # the same sizes, as a `MarianConfig`
    from transformers import MarianConfig
    return MarianConfig(
        vocab_size=c.vocab_size,
        d_model=c.d_model,
        encoder_layers=c.n_encoder_layers,
        decoder_layers=c.n_decoder_layers,
        encoder_ffn_dim=c.d_ff,
        decoder_ffn_dim=c.d_ff,
        encoder_attention_heads=c.n_heads,
        decoder_attention_heads=c.n_heads,
        activation_function='relu',
        dropout=c.dropout,
        attention_dropout=0.,
        activation_dropout=0.,
        max_position_embeddings=c.max_len,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        attn_implementation='sdpa')

def _marian_weights(layer:nn.Module # of Marian's encoder or decoder
                   )->list[nn.Parameter]: # in the order of our layers
    children = list(layer.children())
    weights = []
    for m in children:
        if not hasattr(m, 'q_proj'): continue # not an attention
        projections = m.q_proj, m.k_proj, m.v_proj, m.out_proj
        weights += [p.weight for p in projections] # their biases are zero and stay so
    for kind in (nn.Linear, nn.LayerNorm):
        for m in children:
            if isinstance(m, kind): weights += [m.weight, m.bias]
    return weights

class Marian(nn.Module):
    "Hugging Face's Marian classes with our weights and dropout sites"
    def __init__(self, model:Transformer): # post-norm, sinusoids, one embedding matrix
        from transformers import MarianMTModel
        super().__init__()
        self.body = MarianMTModel(_marian_config(model.config))
        self.body.requires_grad_(False)
        theirs = [self.body.model.shared.weight]
        for stack in (self.body.model.encoder, self.body.model.decoder):
            stack.embed_positions.weight.copy_(model.src_positions.table)
            for layer in stack.layers: theirs += _marian_weights(layer)
        _copy_weights(theirs, model.parameters())

    def forward(self, src:Tensor, tgt:Tensor)->Tensor: # logits (b, t, v)
        mask = (src != PAD).long()
        output = self.body(input_ids=src,
                          attention_mask=mask,
                          decoder_input_ids=tgt,
                          use_cache=False)
        return output.logits

def _random_like(shape:tuple, stride:tuple)->Tensor: # random numbers in that layout
    last = sum((size - 1)*step for size, step in zip(shape, stride))
    return torch.randn(last + 1).as_strided(shape, stride)

def product_seconds(products:Counter # of `OpCounter`
                   )->float:         # what they take with nothing between them
    total = 0.
    for (func, layouts), n in products.items():
        if func.namespace == 'mkldnn': func = by_onednn
        operands = [_random_like(shape, stride) for shape, stride in layouts]
        total += n * seconds_of(partial(func, *operands))
    return total

_PART_OF_MODULE = {
    MultiHeadAttention: 'attention',
    FeedForward: 'feed-forward',
    nn.LayerNorm: 'normalisation',
    nn.Dropout: 'dropout'}

_PART_OF_OPERATION = { # outside these modules; by how the name begins
    'aten::linear': 'vocabulary',
    'LinearByOneDNN': 'vocabulary',
    'mkldnn::': 'vocabulary',
    'aten::cross_entropy': 'softmax and loss',
    'Optimizer': 'optimizer',
    'data': 'data'}

def _part_of_module(module:nn.Module)->str|None:
    for kind, part in _PART_OF_MODULE.items():
        if isinstance(module, kind): return part

def _part_of_name(name:str)->str|None:
    if name in _PART_OF_MODULE.values(): return name # the range of a module
    for start, part in _PART_OF_OPERATION.items():
        if name.startswith(start): return part

def _part_of(event,      # an operation that the profiler saw
             parts:dict, # of the operations before it, by sequence number
            )->str:
    "That of its outermost caller; in the backward pass, that of the forward operation"
    part = 'rest'
    while event is not None:
        backward = event.name.startswith('autograd::engine')
        if backward: return parts.get(event.sequence_nr, part)
        part = _part_of_name(event.name) or part
        event = event.cpu_parent
    return part

def _seconds_by_part(events)->Counter:
    parts, seconds = {}, Counter()
    for event in sorted(events, key=lambda e: e.time_range.start): # callers come first
        part = _part_of(event, parts)
        parts[event.sequence_nr] = part
        is_range = event.name in ('module', part) and part != 'data'
        account = 'Python' if is_range else part
        seconds[account] += event.self_cpu_time_total / 1e6
    return seconds

def where_time_goes(step:Callable # is called once
                   )->Counter:    # seconds of each part
    "By PyTorch's profiler, which itself costs time; what lies between operations is Python"
    ranges = []
    def enter(module, args):
        ranges.append(record_function(_part_of_module(module) or 'module'))
        ranges[-1].__enter__()
    def leave(module, args, output): ranges.pop().__exit__(None, None, None)
    with register_module_forward_pre_hook(enter), register_module_forward_hook(leave):
        with profile() as seen, record_function('module'): step()
    return _seconds_by_part(seen.events())
