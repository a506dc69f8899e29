import torch

def scaled_dot_product_attention(query, key, value, mask=None):
    scale = torch.sqrt(torch.FloatTensor([key.shape[-1]]))
    energy = torch.matmul(query, key.permute(0, 1, 3, 2)) / scale
    if mask is not None:
        energy = energy.masked_fill(mask == 0, -1e10)
    attention = torch.softmax(energy, dim=-1)
    return torch.matmul(attention, value), attention

def padding_mask(src):
    return (src != 0).unsqueeze(1).unsqueeze(2)

def causal_mask(t):
    return torch.tril(torch.ones((t, t))).bool()
