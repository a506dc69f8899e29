import math
import torch
import torch.nn as nn

class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
        self.project = nn.Linear(d_model, vocab_size)
        self.d_model = d_model

    def forward(self, ids):
        return self.table(ids) * math.sqrt(self.d_model)

    def logits(self, x):
        return torch.log_softmax(self.project(x), dim=-1)

def positional_encoding(n_positions, d_model):
    table = torch.zeros(n_positions, d_model)
    place = torch.arange(0, n_positions).unsqueeze(1)
    rate = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate)
    return table

class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=5000):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        self.register_buffer('pe', positional_encoding(max_len, d_model).unsqueeze(0))

    def forward(self, x):
        return self.dropout(x + self.pe[:, :x.size(1)].requires_grad_(False))
