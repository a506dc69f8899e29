import torch
import torch.nn as nn

class FeedForward(nn.Module): # Eq. (2)
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x):
        hidden = torch.clamp(self.inner(x), min=0)
        return self.outer(hidden)

class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        centered = x - x.mean(dim=-1, keepdim=True)
        variance = (centered ** 2).mean(dim=-1, keepdim=True)
        normal = centered / torch.sqrt(variance + self.eps)
        return normal * self.weight + self.bias

class ResidualNorm(nn.Module):
    def __init__(self, d_model, dropout):
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer, *args, **kwargs):
        out = sublayer(x, *args, **kwargs)
        out = self.dropout(out)
        total = x + out
        return self.norm(total)
