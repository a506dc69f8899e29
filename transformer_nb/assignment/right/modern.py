import math
import torch

def rotate(x):
    t, d = x.shape[-2:]
    i = torch.arange(d // 2)
    angle = torch.outer(torch.arange(t).double(), 10000.0 ** (-2 * i / d))
    a, b = x[..., ::2], x[..., 1::2]
    out = torch.empty_like(x)
    out[..., ::2] = a * angle.cos() - b * angle.sin()
    out[..., 1::2] = a * angle.sin() + b * angle.cos()
    return out

def grouped_attention(query, key, value, mask=None):
    b, h, t, d = query.shape
    groups = key.size(1)
    q = query.reshape(b, groups, h // groups, t, d)
    scores = q @ key.unsqueeze(2).transpose(-1, -2) / math.sqrt(d)
    mask = torch.ones(1, 1, dtype=torch.bool) if mask is None else mask
    mask = mask.expand(b, h, t, key.size(2)).reshape(scores.shape)
    weights = torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1)
    out = weights.masked_fill(~mask, 0.) @ value.unsqueeze(2) # no key allowed: 0, not NaN
    return out.reshape(b, h, t, value.size(-1))
