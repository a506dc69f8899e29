from torch import nn
from attention import scaled_dot_product_attention

class MultiHeadAttention(nn.Module):
    def __init__(self, num_hiddens, num_heads, d_k, d_v, bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.W_q = nn.Linear(num_hiddens, num_heads * d_k, bias=bias)
        self.W_k = nn.Linear(num_hiddens, num_heads * d_k, bias=bias)
        self.W_v = nn.Linear(num_hiddens, num_heads * d_v, bias=bias)
        self.W_o = nn.Linear(num_heads * d_v, num_hiddens, bias=bias)

    def transpose_qkv(self, X):
        return X.reshape(*X.shape[:2], self.num_heads, -1).permute(0, 2, 1, 3)

    def forward(self, queries, memory=None, mask=None):
        keys = queries if memory is None else memory
        q, k, v = (self.transpose_qkv(W(X)) for W, X in
                   ((self.W_q, queries), (self.W_k, keys), (self.W_v, keys)))
        output, self.weights = scaled_dot_product_attention(q, k, v, mask)
        output = output.permute(0, 2, 1, 3)
        return self.W_o(output.reshape(*output.shape[:2], -1))
