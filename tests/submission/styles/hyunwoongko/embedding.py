import torch
from torch import nn

class Embedding(nn.Embedding):
    def __init__(self, vocab_size, d_model):
        super().__init__(vocab_size, d_model, padding_idx=0)

    def logits(self, x):
        return x @ self.weight.T

def positional_encoding(n_positions, d_model):
    encoding = torch.zeros(n_positions, d_model)
    encoding.requires_grad = False
    pos = torch.arange(0, n_positions).float().unsqueeze(dim=1)
    _2i = torch.arange(0, d_model, step=2).float()
    encoding[:, 0::2] = torch.sin(pos / (10000 ** (_2i / d_model)))
    encoding[:, 1::2] = torch.cos(pos / (10000 ** (_2i / d_model)))
    return encoding

class PositionalEncoding(nn.Module):
    def __init__(self, d_model, drop_prob, max_len):
        super().__init__()
        self.encoding = positional_encoding(max_len, d_model)
        self.drop_out = nn.Dropout(p=drop_prob)

    def forward(self, tok_emb):
        batch_size, seq_len, _ = tok_emb.size()
        return self.drop_out(tok_emb + self.encoding[:seq_len, :])
