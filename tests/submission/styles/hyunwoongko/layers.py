import torch
from torch import nn

class FeedForward(nn.Module):
    def __init__(self, d_model, hidden, drop_prob=0.1):
        super().__init__()
        self.linear1 = nn.Linear(d_model, hidden)
        self.linear2 = nn.Linear(hidden, d_model)
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(p=drop_prob)

    def forward(self, x):
        return self.linear2(self.dropout(self.relu(self.linear1(x))))

class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-12):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, unbiased=False, keepdim=True)
        return self.gamma * ((x - mean) / torch.sqrt(var + self.eps)) + self.beta

class ResidualNorm(nn.Module):
    def __init__(self, d_model, drop_prob):
        super().__init__()
        self.norm = LayerNorm(d_model=d_model)
        self.dropout = nn.Dropout(p=drop_prob)

    def forward(self, x, sublayer, *args, **kwargs):
        _x = x
        x = self.dropout(sublayer(x, *args, **kwargs))
        return self.norm(x + _x)
