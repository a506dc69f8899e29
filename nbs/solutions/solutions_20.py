"""Solutions of the exercises of chapter 20."""
from math import inf
import torch
from transformer_nb.embedding import rotate
from transformer_nb.parts import GroupedQueryAttention

def rotate_part(x, n, positions):
    """Exercise 1. Turn the first n numbers as if there were no others.

    Their frequencies are 10000^(-2i/n): n numbers get the whole range from fast to slow.
    With n = 0 nothing turns, and the head knows no positions; with n = d_k all of it turns.
    """
    turned = rotate(x[..., :n], positions) if n else x[..., :n]
    return torch.cat([turned, x[..., n:]], -1)

@torch.no_grad()
def average_heads(attention, n_kv_heads):
    """Exercise 2. The mean matrix of each group; queries and output stay.

    Nothing changes if each head is its own group, or if the heads of a group have equal
    keys and values.
    """
    h, d_model = attention.n_heads, attention.query.in_features
    d_k = attention.query.out_features // h
    d_v = attention.value.out_features // h
    new = GroupedQueryAttention(d_model, h, d_k, d_v, n_kv_heads)
    new.query, new.output = attention.query, attention.output
    for name in ('key', 'value'):
        weight = getattr(attention, name).weight
        heads = weight.unflatten(0, (n_kv_heads, h//n_kv_heads, -1))
        mean = heads.mean(1).flatten(0, 1)
        getattr(new, name).weight = torch.nn.Parameter(mean)
    return new

def alibi(n_heads, t):
    """Exercise 3. Distances times slopes; the future is -inf.

    Without any positions, a causal decoder still sees one token at the first position and
    three at the third. Chapter 04 says so: the mask lets some order leak in. A head that
    attends evenly to all it sees gives `<s>`, which stands only at the start, the weight
    1/t. So the share of `<s>` in its output is the position.
    """
    slopes = 2. ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    position = torch.arange(t)
    distance = position[:, None] - position        # (t, t), m - n
    bias = -slopes[:, None, None] * distance
    return bias.masked_fill(distance < 0, -inf)
