"""Stage 2: several heads (§3.2.2)

"… we found it beneficial to linearly project the queries, keys and values h times with
different, learned linear projections to d_k, d_k and d_v dimensions, respectively. … These
are concatenated and once again projected, resulting in the final values."

Masks of this kit: boolean, True where attention is allowed.
"""
from torch import Tensor, nn
from attention import scaled_dot_product_attention # queries (b, h, t, d_k) and so on

class MultiHeadAttention(nn.Module):
    """Parameters, without biases, in this order:
    query.weight (h·d_k, d_model), key.weight (h·d_k, d_model), value.weight (h·d_v, d_model),
    output.weight (d_model, h·d_v). Rows 0 to d_k of query.weight belong to the first head."""
    def __init__(self, d_model: int, n_heads: int, d_k: int, d_v: int):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,                     # makes the queries (b, t, d_model)
        memory: Tensor | None = None,  # makes keys and values (b, s, d_model); by default x
        mask: Tensor | None = None,    # broadcastable to (b, h, t, s)
    ) -> Tensor:                       # (b, t, d_model)
        raise NotImplementedError
