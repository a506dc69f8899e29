import torch
from attention import padding_mask

def greedy(model, src, max_steps):
    mask = padding_mask(src)
    memory = model.encode(src)
    ys = torch.ones(src.size(0), 1).type_as(src)
    for _ in range(max_steps):
        _, word = model.decode(ys, memory, mask)[:, -1].max(dim=1)
        ys = torch.cat([ys, word[:, None]], dim=1)
    return [row[:row.index(2)] if 2 in row else row for row in ys.tolist()]

def length_penalty(n, alpha):
    return ((5 + n) / 6) ** alpha

def beam_search(model, src, beam_size, alpha, max_steps):
    raise NotImplementedError
