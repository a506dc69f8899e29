import torch
import torch.nn as nn

class FeedForward(nn.Module):
    def __init__(self, hid_dim, pf_dim, dropout=0.1):
        super().__init__()
        self.fc_1 = nn.Linear(hid_dim, pf_dim)
        self.fc_2 = nn.Linear(pf_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc_2(self.dropout(torch.relu(self.fc_1(x))))

class LayerNorm(nn.LayerNorm):
    pass

class ResidualNorm(nn.Module):
    def __init__(self, hid_dim, dropout):
        super().__init__()
        self.layer_norm = LayerNorm(hid_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src, sublayer, *args, **kwargs):
        _src = sublayer(src, *args, **kwargs)
        return self.layer_norm(src + self.dropout(_src))
