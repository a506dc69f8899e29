import torch.nn as nn
from attention import scaled_dot_product_attention

class MultiHeadAttention(nn.Module):
    def __init__(self, hid_dim, n_heads, d_k, d_v):
        super().__init__()
        self.n_heads = n_heads
        self.fc_q = nn.Linear(hid_dim, n_heads * d_k)
        self.fc_k = nn.Linear(hid_dim, n_heads * d_k)
        self.fc_v = nn.Linear(hid_dim, n_heads * d_v)
        self.fc_o = nn.Linear(n_heads * d_v, hid_dim)

    def forward(self, query, memory=None, mask=None):
        if memory is None: memory = query
        size = query.shape[0]
        Q, K, V = self.fc_q(query), self.fc_k(memory), self.fc_v(memory)
        Q, K, V = (x.view(size, x.shape[1], self.n_heads, -1).permute(0, 2, 1, 3)
                   for x in (Q, K, V))
        x, attention = scaled_dot_product_attention(Q, K, V, mask)
        x = x.permute(0, 2, 1, 3).contiguous()
        return self.fc_o(x.flatten(2)), attention
