import math
import torch

PAD = 0

def scaled_dot_product_attention(query, key, value, mask=None): # Eq. (1)
    d_k = key.size(-1)
    scores = torch.einsum('bhtd,bhsd->bhts', query, key) / math.sqrt(d_k) # (b, h, t, s)
    if mask is not None:
        scores = scores.masked_fill(~mask, float('-inf'))
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0) # no key allowed: 0, not NaN
    return torch.einsum('bhts,bhsd->bhtd', weights, value), weights

def padding_mask(ids): # (b, 1, 1, s)
    not_pad = ids != PAD
    return not_pad.unsqueeze(1).unsqueeze(2)

def causal_mask(t): # (t, t)
    row = torch.arange(t)
    return row[None, :] <= row[:, None]
