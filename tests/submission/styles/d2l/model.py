from torch import nn
from attention import causal_mask, padding_mask
from embedding import Embedding, PositionalEncoding
from layers import FeedForward, ResidualNorm
from multihead import MultiHeadAttention

class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention = MultiHeadAttention(c.d_model, c.n_heads, c.d_k, c.d_v)
        self.addnorm1 = ResidualNorm(c.d_model, c.dropout)
        self.ffn = FeedForward(c.d_model, c.d_ff)
        self.addnorm2 = ResidualNorm(c.d_model, c.dropout)

    def forward(self, X, mask):
        Y = self.addnorm1(X, self.attention, mask=mask)
        return self.addnorm2(Y, self.ffn)

class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention1 = MultiHeadAttention(c.d_model, c.n_heads, c.d_k, c.d_v)
        self.addnorm1 = ResidualNorm(c.d_model, c.dropout)
        self.attention2 = MultiHeadAttention(c.d_model, c.n_heads, c.d_k, c.d_v)
        self.addnorm2 = ResidualNorm(c.d_model, c.dropout)
        self.ffn = FeedForward(c.d_model, c.d_ff)
        self.addnorm3 = ResidualNorm(c.d_model, c.dropout)

    def forward(self, X, memory, mask, memory_mask):
        mask = mask if self.training else None
        Y = self.addnorm1(X, self.attention1, mask=mask)
        Z = self.addnorm2(Y, self.attention2, memory, memory_mask)
        return self.addnorm3(Z, self.ffn)

class Transformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embedding = Embedding(c.vocab_size, c.d_model)
        self.pos_encoding = PositionalEncoding(c.d_model, c.dropout, c.max_len)
        self.enc_blks = nn.Sequential(*[EncoderLayer(c) for _ in range(c.n_encoder_layers)])
        self.dec_blks = nn.Sequential(*[DecoderLayer(c) for _ in range(c.n_decoder_layers)])
        self.dense = nn.Linear(c.d_model, c.vocab_size)

    def encode(self, src):
        X, mask = self.pos_encoding(self.embedding(src)), padding_mask(src)
        for blk in self.enc_blks: X = blk(X, mask)
        return X

    def decode(self, tgt, memory, memory_mask):
        X, mask = self.pos_encoding(self.embedding(tgt)), causal_mask(tgt.shape[1])
        for blk in self.dec_blks: X = blk(X, memory, mask, memory_mask)
        return self.dense(X)

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), padding_mask(src))
