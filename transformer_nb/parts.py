"""The parts that later models put in the places of the paper's, so that the model of the next chapter can have them by name."""

from functools import partial
from math import ceil
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformer_nb.embedding import Embedding, RotaryAttention
from transformer_nb.layers import FeedForward, ResidualNorm
from transformer_nb.multihead import MultiHeadAttention

class RMSNorm(nn.Module):
    "Divides by the root mean square; no mean, no bias (Zhang and Sennrich, 2019)"
    def __init__(self, d_model:int,
                 eps:float=1e-6): # keeps the root away from 0
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x:Tensor # (..., d)
               )->Tensor:      # (..., d)
        mean_square = x.square().mean(-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight

ACTIVATIONS = dict(relu=F.relu, gelu=F.gelu, silu=F.silu,
                   gelu_new=partial(F.gelu, approximate='tanh'))

class ActivatedFeedForward(FeedForward):
    "`FeedForward` with another activation, one of `ACTIVATIONS` by name"
    def __init__(self, d_model:int, d_ff:int, activation:str):
        super().__init__(d_model, d_ff)
        self.activation = activation

    def forward(self, x:Tensor # (..., d)
               )->Tensor:      # (..., d)
        activate = ACTIVATIONS[self.activation]
        return self.outer(activate(self.inner(x)))

class SwiGLU(nn.Module):
    "A feed-forward network with a gate, as large as one of size d_ff (Shazeer, 2020)"
    def __init__(self, d_model:int,
                 d_ff:int): # of the `FeedForward` that has as many parameters
        super().__init__()
        d_hidden = 4 * ceil(d_ff / 6) # 2/3 of d_ff: three matrices instead of two
        self.gate = nn.Linear(d_model, d_hidden, bias=False)
        self.inner = nn.Linear(d_model, d_hidden, bias=False)
        self.outer = nn.Linear(d_hidden, d_model, bias=False)

    def forward(self, x:Tensor # (..., d)
               )->Tensor:      # (..., d)
        gate = F.silu(self.gate(x))
        return self.outer(gate * self.inner(x))

class GroupedQueryAttention(MultiHeadAttention):
    "Groups of heads share keys and values (Ainslie et al., 2023); one group: multi-query"
    def __init__(self, d_model:int, n_heads:int, d_k:int, d_v:int,
                 n_kv_heads:int): # heads of keys and values; divides n_heads
        super().__init__(d_model, n_heads, d_k, d_v)
        self.n_kv_heads = n_kv_heads
        self.key = nn.Linear(d_model, n_kv_heads*d_k, bias=False)
        self.value = nn.Linear(d_model, n_kv_heads*d_v, bias=False)

    def split_groups(self, x:Tensor # (b, s, n_kv·d_k), or with d_v
                    )->Tensor:      # (b, n_kv, s, d_k)
        return x.unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2)

    def keys_values(self, memory:Tensor)->tuple[Tensor,Tensor]: # of (b, s, d)
        k = self.split_groups(self.key(memory))   # (b, n_kv, s, d_k)
        v = self.split_groups(self.value(memory)) # (b, n_kv, s, d_v)
        return k, v

    def attend(self, q:Tensor, k:Tensor, v:Tensor, mask:Tensor|None=None)->Tensor:
        b, h, t, d_k = q.shape
        n = h // self.n_kv_heads                          # heads of a group
        q = q.reshape(b, self.n_kv_heads, n*t, d_k)       # their queries, one after another
        if mask is not None and mask.shape[-2] > 1: mask = torch.cat([mask]*n, -2)
        heads = F.scaled_dot_product_attention(q, k, v, mask).view(b, h, t, -1)
        return self.output(heads.transpose(1, 2).flatten(2)) # (b, t, d)

class QKNormAttention(MultiHeadAttention):
    "Normalizes each head's queries and keys before their product (Henry et al., 2020)"
    def __init__(self, d_model:int, n_heads:int, d_k:int, d_v:int, **options):
        super().__init__(d_model, n_heads, d_k, d_v, **options)
        self.query_norm = RMSNorm(d_k)
        self.key_norm = RMSNorm(d_k)

    def queries(self, x:Tensor)->Tensor: # (b, t, d) to (b, h, t, d_k)
        return self.query_norm(super().queries(x))

    def keys_values(self, memory:Tensor)->tuple[Tensor,Tensor]: # of (b, s, d)
        k, v = super().keys_values(memory)
        return self.key_norm(k), v

class QKNormRotaryAttention(RotaryAttention, QKNormAttention):
    "Normalizes, then turns"

class GroupedRotaryAttention(RotaryAttention, GroupedQueryAttention):
    "Llama's: projects for groups, then turns"

class GroupedQKNormAttention(QKNormAttention, GroupedQueryAttention):
    "Projects for groups, then normalizes"

class ModernAttention(RotaryAttention, QKNormAttention, GroupedQueryAttention):
    "Qwen3's: projects for groups, then normalizes, then turns"

class UnscaledEmbedding(Embedding):
    "`Embedding` without the factor √d_model"
    def forward(self, ids:Tensor # token ids (b, t)
               )->Tensor:        # rows of the matrix (b, t, d)
        return F.embedding(ids, self.weight)

class BiasedEmbedding(Embedding):
    "Adds one number to the score of each token"
    def __init__(self, vocab_size:int, d_model:int):
        super().__init__(vocab_size, d_model)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def logits(self, x:Tensor # (b, t, d)
              )->Tensor:      # (b, t, v)
        return super().logits(x) + self.bias

class UnscaledBiasedEmbedding(UnscaledEmbedding, BiasedEmbedding):
    "Both"

NORM_TYPES = 'layernorm', 'rmsnorm'
BIASES = 'paper', 'none', 'attention', 'all' # 'paper': in norms and feed-forward networks

def new_norm(c)->nn.Module:
    eps = {} if c.norm_eps is None else dict(eps=c.norm_eps)
    kinds = dict(layernorm=partial(nn.LayerNorm, bias=c.biases != 'none'), rmsnorm=RMSNorm)
    return kinds[c.norm_type](c.d_model, **eps)

def new_residual(c)->ResidualNorm:
    residual = ResidualNorm(c.d_model, c.dropout, c.norm)
    residual.norm = new_norm(c)
    return residual

def new_feed_forward(c)->nn.Module:
    if c.activation == 'swiglu': return SwiGLU(c.d_model, c.d_ff)
    if c.activation == 'relu': network = FeedForward(c.d_model, c.d_ff)
    else: network = ActivatedFeedForward(c.d_model, c.d_ff, c.activation)
    if c.biases == 'none': network.inner.bias = network.outer.bias = None
    return network

def new_embedding(c, scores:bool # does it also score the vocabulary?
                 )->Embedding:
    kinds = {(True, False): Embedding, (False, False): UnscaledEmbedding,
             (True, True): BiasedEmbedding, (False, True): UnscaledBiasedEmbedding}
    kind = kinds[c.scale_embeddings, scores and c.biases == 'all']
    return kind(c.vocab_size, c.d_model)

_ATTENTIONS = { # rotary? normalized? grouped?
    (False, False, False): MultiHeadAttention, (False, False, True): GroupedQueryAttention,
    (False, True, False): QKNormAttention, (False, True, True): GroupedQKNormAttention,
    (True, False, False): RotaryAttention, (True, False, True): GroupedRotaryAttention,
    (True, True, False): QKNormRotaryAttention, (True, True, True): ModernAttention}

def _new_attention(c, rotary:bool, normalized:bool)->MultiHeadAttention:
    grouped = dict(n_kv_heads=c.n_kv_heads) if c.n_kv_heads else {}
    kind = _ATTENTIONS[rotary, normalized, bool(grouped)]
    attention = kind(c.d_model, c.n_heads, c.d_k, c.d_v, **grouped)
    if rotary: attention.base = c.rope_base
    if normalized and c.norm_eps:
        attention.query_norm.eps = attention.key_norm.eps = c.norm_eps
    if c.biases not in ('attention', 'all'): return attention
    for linear in (attention.query, attention.key, attention.value, attention.output):
        linear.bias = nn.Parameter(linear.weight.new_zeros(linear.out_features))
    return attention

def new_self_attention(c)->MultiHeadAttention:
    return _new_attention(c, c.positions == 'rotary', c.qk_norm)

def new_cross_attention(c)->MultiHeadAttention:
    return _new_attention(c, False, False)
