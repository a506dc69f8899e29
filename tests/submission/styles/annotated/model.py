import torch.nn as nn
from attention import causal_mask, padding_mask
from embedding import Embedding, PositionalEncoding
from layers import FeedForward, LayerNorm, ResidualNorm
from multihead import MultiHeadAttention

class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn = MultiHeadAttention(c.d_model, c.n_heads, c.d_k, c.d_v)
        self.feed_forward = FeedForward(c.d_model, c.d_ff)
        self.sublayer = nn.ModuleList(ResidualNorm(c.d_model, c.dropout) for _ in range(2))

    def forward(self, x, mask):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, None, mask))
        return self.sublayer[1](x, self.feed_forward)

class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        sizes = c.d_model, c.n_heads, c.d_k, c.d_v
        self.self_attn = MultiHeadAttention(*sizes)
        self.src_attn = MultiHeadAttention(*sizes)
        self.feed_forward = FeedForward(c.d_model, c.d_ff)
        self.sublayer = nn.ModuleList(ResidualNorm(c.d_model, c.dropout) for _ in range(3))

    def forward(self, x, memory, mask, memory_mask):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, None, mask))
        x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory_mask))
        return self.sublayer[2](x, self.feed_forward)

class Transformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = Embedding(c.vocab_size, c.d_model)
        self.position = PositionalEncoding(c.d_model, c.dropout, c.max_len)
        self.encoder = nn.ModuleList(EncoderLayer(c) for _ in range(c.n_encoder_layers))
        self.encoder_norm = LayerNorm(c.d_model)
        self.decoder = nn.ModuleList(DecoderLayer(c) for _ in range(c.n_decoder_layers))
        self.decoder_norm = LayerNorm(c.d_model)

    def encode(self, src):
        x, mask = self.position(self.embed(src)), padding_mask(src)
        for layer in self.encoder: x = layer(x, mask)
        return self.encoder_norm(x)

    def decode(self, tgt, memory, memory_mask):
        x, mask = self.position(self.embed(tgt)), causal_mask(tgt.size(-1))
        for layer in self.decoder: x = layer(x, memory, mask, memory_mask)
        return self.embed.logits(self.decoder_norm(x))

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), padding_mask(src))
