import math
import torch
import torch.nn as nn

class Embedding(nn.Module): # its first values are the book's; other layers have PyTorch's
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.d_model = d_model
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) / math.sqrt(d_model))

    def forward(self, ids):
        return self.weight[ids] * math.sqrt(self.d_model)

    def logits(self, x): # the same matrix, (b, t, d) to (b, t, v)
        return x @ self.weight.t()

def positional_encoding(n_positions, d_model):
    pe = torch.zeros(n_positions, d_model)
    position = torch.arange(n_positions).unsqueeze(1)
    angle = position / 10000 ** (torch.arange(0, d_model, 2).double() / d_model)
    pe[:, 0::2] = torch.sin(angle)
    pe[:, 1::2] = torch.cos(angle)
    return pe

class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer('pe', positional_encoding(max_len, d_model), persistent=False)

    def forward(self, x):
        assert x.size(1) <= len(self.pe), f'{x.size(1)} tokens, {len(self.pe)} positions'
        return self.dropout(x + self.pe[:x.size(1)])
