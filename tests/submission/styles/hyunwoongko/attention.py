import math
import torch

def scaled_dot_product_attention(q, k, v, mask=None):
    batch, head, length, d_tensor = k.size()
    score = (q @ k.transpose(2, 3)) / math.sqrt(d_tensor)
    if mask is not None:
        score = score.masked_fill(mask == 0, -10000)
    score = torch.softmax(score, dim=-1)
    return score @ v, score

def padding_mask(ids):
    return (ids != 0).unsqueeze(1).unsqueeze(2)

def causal_mask(t):
    return torch.tril(torch.ones(t, t)).type(torch.BoolTensor)
