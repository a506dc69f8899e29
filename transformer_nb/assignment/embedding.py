"""Stage 4: embedding and positions (§3.4, §3.5)

"In our model, we share the same weight matrix between the two embedding layers and the
pre-softmax linear transformation. In the embedding layers, we multiply those weights by
√d_model."

"… we add "positional encodings" to the input embeddings at the bottoms of the encoder and
decoder stacks."

    PE(pos, 2i)   = sin(pos / 10000^(2i/d_model))
    PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))

with i = 0 … d_model/2 − 1.
"""
import torch
from torch import Tensor, nn

class Embedding(nn.Module):
    """One matrix and no other parameter: weight (vocab_size, d_model), at first normally
    distributed with standard deviation d_model^-0.5. A tensor of your own becomes a
    parameter only as an nn.Parameter."""
    def __init__(self, vocab_size: int, d_model: int):
        super().__init__()
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:  # (b, t) to vectors (b, t, d_model)
        raise NotImplementedError

    def logits(
        self,
        x: Tensor,  # (b, t, d_model)
    ) -> Tensor:    # scores before the softmax (b, t, vocab_size)
        raise NotImplementedError

def positional_encoding(
    n_positions: int,  # counted from 0
    d_model: int,      # even
) -> Tensor:           # (n_positions, d_model)
    raise NotImplementedError

class PositionalEncoding(nn.Module):
    "Adds the encodings, then drops elements of the sum (§5.4); has no parameters"
    def __init__(self, d_model: int, dropout: float, max_len: int):
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:  # embeddings (b, t, d_model), t at most max_len
        raise NotImplementedError
