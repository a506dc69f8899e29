"""Stage 5: encoder, decoder, whole model (§3.1)

"… composed of a stack of N = 6 identical layers. … The decoder inserts a third sub-layer,
which performs multi-head attention over the output of the encoder stack."

Each sub-layer is wrapped in a ResidualNorm, the only place of dropout in a layer.

"This masking, combined with fact that the output embeddings are offset by one position,
ensures that the predictions for position i can depend only on the known outputs at positions
less than i."

Masks of this kit: boolean, True where attention is allowed.
"""
import torch
from torch import Tensor, nn
from attention import causal_mask, padding_mask
from config import TransformerConfig
from embedding import Embedding, PositionalEncoding
from layers import FeedForward, ResidualNorm
from multihead import MultiHeadAttention

class EncoderLayer(nn.Module):
    """Parameters, in this order: those of self_attention (a MultiHeadAttention), of
    feed_forward (a FeedForward), of residuals.0 and residuals.1 (a ResidualNorm for each)"""
    def __init__(self, config: TransformerConfig):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,     # (b, s, d_model)
        mask: Tensor,  # padding_mask of the source (b, 1, 1, s)
    ) -> Tensor:       # (b, s, d_model)
        raise NotImplementedError

class DecoderLayer(nn.Module):
    """Parameters, in this order: those of self_attention, of cross_attention, of
    feed_forward, of residuals.0, residuals.1 and residuals.2, in the order of use"""
    def __init__(self, config: TransformerConfig):
        super().__init__()
        raise NotImplementedError

    def forward(
        self,
        x: Tensor,            # (b, t, d_model)
        memory: Tensor,       # the encoder's output (b, s, d_model)
        mask: Tensor,         # causal_mask, for the target itself (t, t)
        memory_mask: Tensor,  # padding_mask of the source (b, 1, 1, s)
    ) -> Tensor:              # (b, t, d_model)
        raise NotImplementedError

class Transformer(nn.Module):
    """Parameters, in this order: embedding.weight; the encoder's layers, encoder.0,
    encoder.1, …; the decoder's layers, decoder.0, decoder.1, … One embedding serves source,
    target and output. The stacks have no norm of their own at the end."""
    def __init__(self, config: TransformerConfig):
        super().__init__()
        raise NotImplementedError

    def encode(
        self,
        src: Tensor,  # ids (b, s)
    ) -> Tensor:      # the last layer's output, which is called the memory (b, s, d_model)
        raise NotImplementedError

    def decode(
        self,
        tgt: Tensor,          # ids that begin with <s> (b, t)
        memory: Tensor,       # (b, s, d_model)
        memory_mask: Tensor,  # padding_mask of the source (b, 1, 1, s)
    ) -> Tensor:              # at each position, the scores of the
                              # next token, before a softmax (b, t, vocab_size)
        """The padding of the target needs no mask here: it stands at the end, where the
        causal mask hides it from the tokens before it. (Hiding it, too, costs nothing.)"""
        raise NotImplementedError

    def forward(
        self,
        src: Tensor,  # ids (b, s)
        tgt: Tensor,  # ids, shifted already: they begin with <s>; decode them all (b, t)
    ) -> Tensor:      # logits (b, t, vocab_size)
        raise NotImplementedError
