from torch import nn
from attention import causal_mask, padding_mask
from embedding import Embedding, PositionalEncoding
from layers import FeedForward, ResidualNorm
from multihead import MultiHeadAttention

class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention = MultiHeadAttention(c.d_model, c.n_heads, c.d_k, c.d_v)
        self.norm1 = ResidualNorm(c.d_model, c.dropout)
        self.ffn = FeedForward(c.d_model, c.d_ff)
        self.norm2 = ResidualNorm(c.d_model, c.dropout)

    def forward(self, x, src_mask):
        x = self.norm1(x, lambda x: self.attention(x, mask=src_mask))
        return self.norm2(x, self.ffn)

class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attention = MultiHeadAttention(c.d_model, c.n_heads, c.d_k, c.d_v)
        self.norm1 = ResidualNorm(c.d_model, c.dropout)
        self.enc_dec_attention = MultiHeadAttention(c.d_model, c.n_heads, c.d_k, c.d_v)
        self.norm2 = ResidualNorm(c.d_model, c.dropout)
        self.ffn = FeedForward(c.d_model, c.d_ff)
        self.norm3 = ResidualNorm(c.d_model, c.dropout)

    def forward(self, dec, enc, trg_mask, src_mask):
        x = self.norm1(dec, lambda x: self.self_attention(x, mask=trg_mask))
        x = self.norm2(x, lambda x: self.enc_dec_attention(x, enc, src_mask))
        return self.norm3(x, self.ffn)

class Transformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.src_emb = Embedding(c.vocab_size, c.d_model)
        self.trg_emb = Embedding(c.vocab_size, c.d_model)
        self.pos = PositionalEncoding(c.d_model, c.dropout, c.max_len)
        self.encoder = nn.ModuleList([EncoderLayer(c) for _ in range(c.n_encoder_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(c) for _ in range(c.n_decoder_layers)])
        self.linear = nn.Linear(c.d_model, c.vocab_size)

    def encode(self, src):
        x, mask = self.pos(self.src_emb(src)), padding_mask(src)
        for layer in self.encoder: x = layer(x, mask)
        return x

    def decode(self, trg, enc_src, src_mask):
        x, mask = self.pos(self.trg_emb(trg)), causal_mask(trg.shape[1])
        for layer in self.decoder: x = layer(x, enc_src, mask, src_mask)
        return self.linear(x)

    def forward(self, src, trg):
        return self.decode(trg, self.encode(src), padding_mask(src))
