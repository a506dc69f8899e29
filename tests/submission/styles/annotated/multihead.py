import torch.nn as nn
from attention import scaled_dot_product_attention

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_k, d_v):
        super().__init__()
        sizes = [(d_model, n_heads * d_k), (d_model, n_heads * d_k),
                 (d_model, n_heads * d_v), (n_heads * d_v, d_model)]
        self.linears = nn.ModuleList([nn.Linear(a, b) for a, b in sizes])
        self.h = n_heads

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        n = x.size(0)
        q, k, v = [linear(y).view(n, y.size(1), self.h, -1).transpose(1, 2)
                   for linear, y in zip(self.linears, (x, memory, memory))]
        y, self.attn = scaled_dot_product_attention(q, k, v, mask)
        y = y.transpose(1, 2).contiguous().view(n, x.size(1), -1)
        return self.linears[-1](y)
