import torch
import torch.nn as nn

class Embedding(nn.Module):
    def __init__(self, input_dim, hid_dim):
        super().__init__()
        self.tok_embedding = nn.Embedding(input_dim, hid_dim)
        self.fc_out = nn.Linear(hid_dim, input_dim)
        self.scale = hid_dim ** 0.5

    def forward(self, src):
        return self.tok_embedding(src) * self.scale

    def logits(self, x):
        return self.fc_out(x)

def positional_encoding(n_positions, d_model):
    raise NotImplementedError

class PositionalEncoding(nn.Module):
    def __init__(self, hid_dim, dropout, max_length=100):
        super().__init__()
        self.pos_embedding = nn.Embedding(max_length, hid_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        pos = torch.arange(0, x.shape[1]).unsqueeze(0).repeat(x.shape[0], 1)
        return self.dropout(x + self.pos_embedding(pos))
