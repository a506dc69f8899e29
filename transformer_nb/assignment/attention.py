"""Stage 1: attention and masks (§3.2.1, §3.2.3)

"We compute the dot products of the query with all keys, divide each by √d_k, and apply a
softmax function to obtain the weights on the values."

"We implement this inside of scaled dot-product attention by masking out (setting to −∞) all
values in the input of the softmax which correspond to illegal connections."

Masks of this kit: boolean, True where attention is allowed.
"""
import torch
from torch import Tensor

PAD, BOS, EOS = 0, 1, 2 # the ids of <pad>, <s> and </s>

def scaled_dot_product_attention(
    query: Tensor,               # (b, h, t, d_k)
    key: Tensor,                 # (b, h, s, d_k)
    value: Tensor,               # (b, h, s, d_v); d_v may differ from d_k
    mask: Tensor | None = None,  # (t, s), (b, 1, 1, s), (b, h, t, s) …: it
                                 # broadcasts to the scores
) -> tuple[Tensor, Tensor]:      # output (b, h, t, d_v), weights: batch, head, query, key
    """A query that may attend to nothing gets weights and output of zeros, not NaN; nor is a
    gradient NaN"""
    raise NotImplementedError

def padding_mask(
    ids: Tensor,  # token ids (b, s), padded at the end with PAD
) -> Tensor:      # the mask that hides padded keys (b, 1, 1, s):
                  # True at real tokens, False at padding
    raise NotImplementedError

def causal_mask(
    t: int,   # number of positions
) -> Tensor:  # the mask that lets a position attend to itself and earlier ones (t, t):
              # boolean, True where attention is allowed; rows are queries, columns keys
    raise NotImplementedError
