import torch.nn as nn
from attention import scaled_dot_product_attention

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_k, d_v):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.key = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.value = nn.Linear(d_model, n_heads * d_v, bias=False)
        self.output = nn.Linear(n_heads * d_v, d_model, bias=False)

    def to_heads(self, x): # (b, t, h·d) to (b, h, t, d)
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x, memory=None, mask=None): # queries are made of x
        source = x if memory is None else memory
        q = self.to_heads(self.query(x))
        k = self.to_heads(self.key(source))
        v = self.to_heads(self.value(source))
        out, _ = scaled_dot_product_attention(q, k, v, mask)
        return self.output(out.transpose(1, 2).flatten(2))
