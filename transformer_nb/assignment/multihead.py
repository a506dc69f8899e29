"""Stage 2: several heads (§3.2.2)

"… we found it beneficial to linearly project the queries, keys and values h times with
different, learned linear projections to d_k, d_k and d_v dimensions, respectively. … These
are concatenated and once again projected, resulting in the final values."

Masks of this kit: boolean, True where attention is allowed.
"""
import torch
from torch import Tensor, nn
from attention import scaled_dot_product_attention # queries (b, h, t, d_k) and so on

class MultiHeadAttention(nn.Module):
    """Parameters, without biases, in this order:
    query.weight (h·d_k, d_model), key.weight (h·d_k, d_model), value.weight (h·d_v, d_model),
    output.weight (d_model, h·d_v). The first d_k rows of query.weight are the first head's,
    the next d_k rows the second's. The first d_v columns of output.weight belong to the
    first head's result, the next d_v columns to the second's: nn.Linear stores its matrix
    transposed, and computes x @ weight.T. d_model need not be h·d_k. No dropout inside."""
    def __init__(self, d_model: int, n_heads: int, d_k: int, d_v: int):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,                     # queries are made from it (b, t, d_model)
        memory: Tensor | None = None,  # keys and values are made from it (b, s, d_model);
                                       # None: from x, which is self-attention
        mask: Tensor | None = None,    # (t, s), (b, 1, 1, s), (b, h, t, s) …: it
                                       # broadcasts to the scores
    ) -> Tensor:                       # (b, t, d_model)
        raise NotImplementedError
