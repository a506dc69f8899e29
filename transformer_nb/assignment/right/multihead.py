import torch.nn as nn
from attention import scaled_dot_product_attention

class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_k, d_v):
        super().__init__()
        self.n_heads, self.d_k, self.d_v, self.d_model = n_heads, d_k, d_v, d_model
        self.query = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.key = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.value = nn.Linear(d_model, n_heads * d_v, bias=False)
        self.output = nn.Linear(n_heads * d_v, d_model, bias=False)

    def to_heads(self, x, size): # (b, t, h·size) to (b, h, t, size)
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.n_heads, size).permute(0, 2, 1, 3)

    def forward(self, x, memory=None, mask=None): # queries are made of x
        source = x if memory is None else memory
        q = self.to_heads(self.query(x), self.d_k)
        k = self.to_heads(self.key(source), self.d_k)
        v = self.to_heads(self.value(source), self.d_v)
        out, _ = scaled_dot_product_attention(q, k, v, mask)
        batch, heads, length, size = out.shape
        out = out.permute(0, 2, 1, 3).reshape(batch, length, heads * size)
        return self.output(out)
