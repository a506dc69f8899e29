"""Stage 3: feed-forward, residual, normalization (§3.1, §3.3)

"This consists of two linear transformations with a ReLU activation in between."

"The output of each sub-layer is LayerNorm(x + Sublayer(x))."

In training, elements of a sub-layer's output are dropped before it is added (§5.4).
"""
from collections.abc import Callable
import torch
from torch import Tensor, nn

class FeedForward(nn.Module):
    """Parameters, in this order: inner.weight (d_ff, d_model), inner.bias, outer.weight
    (d_model, d_ff), outer.bias. No dropout inside."""
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:  # (..., d_model) both
        raise NotImplementedError

class LayerNorm(nn.Module):
    """weight · (x − mean) / √(variance + eps) + bias, with the mean and the variance of each
    position's own features; the variance divides by d_model, not by d_model − 1. Parameters,
    in this order: weight (d_model), ones at first; bias (d_model), zeros at first. A tensor
    of your own becomes a parameter only as an nn.Parameter."""
    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:  # (..., d_model) both
        raise NotImplementedError

class ResidualNorm(nn.Module):
    "LayerNorm(x + Dropout(Sublayer(x))). Parameters: norm.weight and norm.bias"
    def __init__(
        self,
        d_model: int,
        dropout: float,  # below 1: how likely an element of the sub-layer's output is dropped
    ):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,           # (b, t, d_model)
        sublayer: Callable,  # sublayer(x, *args, **kwargs) is (b, t, d_model), too
        *args, **kwargs,     # handed on to the sub-layer, None included: a mask, for example
    ) -> Tensor:             # (b, t, d_model)
        raise NotImplementedError
