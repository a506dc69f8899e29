"""Stage 3: feed-forward, residual, normalization (§3.1, §3.3)

"This consists of two linear transformations with a ReLU activation in between."

"The output of each sub-layer is LayerNorm(x + Sublayer(x))."

In training, elements of a sub-layer's output are dropped before it is added (§5.4).
"""
from collections.abc import Callable
from torch import Tensor, nn

class FeedForward(nn.Module):
    """Parameters, in this order: inner.weight (d_ff, d_model), inner.bias, outer.weight
    (d_model, d_ff), outer.bias"""
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:  # (..., d_model) both
        raise NotImplementedError

class LayerNorm(nn.Module):
    """weight · (x − mean) / √(variance + eps) + bias, with the mean and the variance of a
    token's features; the variance divides by d_model. Parameters: weight (d_model), ones at first; bias (d_model), zeros at first."""
    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:  # (..., d_model) both
        raise NotImplementedError

class ResidualNorm(nn.Module):
    "Parameters: norm.weight and norm.bias, those of a LayerNorm"
    def __init__(
        self,
        d_model: int,
        dropout: float,  # probability that an element of the sub-layer's output is dropped
    ):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,           # (b, t, d_model)
        sublayer: Callable,  # maps (b, t, d_model), and the arguments below, to its like
        *args, **kwargs,     # of the sub-layer, such as a mask
    ) -> Tensor:             # (b, t, d_model)
        raise NotImplementedError
