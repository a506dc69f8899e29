"Given: the sizes of a model"
from dataclasses import dataclass

@dataclass(frozen=True)
class TransformerConfig:
    vocab_size: int            # one vocabulary for source and target
    d_model: int = 512         # size of every position's vector
    d_ff: int = 2048           # inner size of the feed-forward network
    n_heads: int = 8           # number of attention heads
    d_k: int = 64              # size of a head's queries and keys
    d_v: int = 64              # size of a head's values
    n_encoder_layers: int = 6
    n_decoder_layers: int = 6
    dropout: float = 0.1       # probability that an element is dropped
    max_len: int = 512         # maximum sequence length in tokens
