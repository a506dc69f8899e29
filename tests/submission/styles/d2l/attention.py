import math
import torch
from torch import nn

def scaled_dot_product_attention(queries, keys, values, mask=None):
    d = queries.shape[-1]
    scores = torch.matmul(queries, keys.transpose(2, 3)) / math.sqrt(d)
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-1e6, dtype=scores.dtype))
    weights = nn.functional.softmax(scores, dim=-1)
    return torch.matmul(weights, values), weights

def padding_mask(ids):
    valid_lens = (ids != 0).sum(dim=1)
    return (torch.arange(ids.shape[1])[None, :] < valid_lens[:, None])[:, None, None, :]

def causal_mask(t):
    lens = torch.arange(1, t + 1)
    return torch.arange(t)[None, :] < lens[:, None]
