import math
import torch

def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p = scores.softmax(dim=-1)
    return p @ value, p

def padding_mask(ids, pad=0):
    return (ids != pad).unsqueeze(-2)

def causal_mask(t):
    later = torch.triu(torch.ones(1, t, t), diagonal=1)
    return later == 0
