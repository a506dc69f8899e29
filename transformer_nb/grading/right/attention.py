import math
import torch

def scaled_dot_product_attention(query, key, value, mask=None):
    d_k = query.size(-1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.) # also where all scores are -inf
    output = weights @ value
    return output, weights

def padding_mask(ids):
    not_pad = ids != 0
    return not_pad.unsqueeze(1).unsqueeze(2)

def causal_mask(t):
    row = torch.arange(t)
    return row[None, :] <= row[:, None]
