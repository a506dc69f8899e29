from torch import nn

class FeedForward(nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens):
        super().__init__()
        self.dense1 = nn.Linear(num_hiddens, ffn_num_hiddens)
        self.relu = nn.ReLU()
        self.dense2 = nn.Linear(ffn_num_hiddens, num_hiddens)

    def forward(self, X):
        return self.dense2(self.relu(self.dense1(X)))

LayerNorm = nn.LayerNorm

class ResidualNorm(nn.Module):
    def __init__(self, norm_shape, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.ln = LayerNorm(norm_shape)

    def forward(self, X, sublayer, *args, **kwargs):
        return self.ln(self.dropout(sublayer(X, *args, **kwargs)) + X)
