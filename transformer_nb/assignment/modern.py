"""Optional: rotary positions and grouped queries, which came after the paper

Masks of this kit: boolean, True where attention is allowed.
"""
from torch import Tensor

def rotate(
    x: Tensor,   # queries or keys: batch, head, position, feature, in this order whatever the
                 # axes of the kit; an even number of features
) -> Tensor:     # the same shape
    """Su et al. (2021): turn the pair of features (2i, 2i + 1) of position pos, counted from
    0, by the angle pos / 10000^(2i/d): (a, b) becomes (a cos − b sin, a sin + b cos)"""
    raise NotImplementedError

def grouped_attention(
    query: Tensor,              # (b, h, t, d_k)
    key: Tensor,                # the same axes, with fewer heads; their number divides h
    value: Tensor,              # as the keys, with d_v features
    mask: Tensor | None = None, # broadcastable to batch, head, query, key
) -> Tensor:                    # (b, h, t, d_v)
    """Ainslie et al. (2023): scaled dot-product attention in which neighbouring query heads
    share keys and values. With six query heads and two of keys, the first three share.
    A query that may attend to nothing gets zeros."""
    raise NotImplementedError
