import torch.nn as nn
from attention import causal_mask, padding_mask
from embedding import Embedding, PositionalEncoding
from layers import FeedForward, ResidualNorm
from multihead import MultiHeadAttention

class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        sizes = (config.d_model, config.n_heads, config.d_k, config.d_v)
        self.self_attention = MultiHeadAttention(*sizes)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.residuals = nn.ModuleList(
            [ResidualNorm(config.d_model, config.dropout) for _ in range(2)])

    def forward(self, x, mask):
        x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))
        return self.residuals[1](x, self.feed_forward)

class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        sizes = (config.d_model, config.n_heads, config.d_k, config.d_v)
        self.self_attention = MultiHeadAttention(*sizes)
        self.cross_attention = MultiHeadAttention(*sizes)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.residuals = nn.ModuleList(
            [ResidualNorm(config.d_model, config.dropout) for _ in range(3)])

    def forward(self, x, memory, mask, memory_mask):
        x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))
        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, memory_mask))
        return self.residuals[2](x, self.feed_forward)

class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = Embedding(config.vocab_size, config.d_model)
        self.positions = PositionalEncoding(config.d_model, config.dropout, config.max_len)
        self.encoder = nn.ModuleList(
            [EncoderLayer(config) for _ in range(config.n_encoder_layers)])
        self.decoder = nn.ModuleList(
            [DecoderLayer(config) for _ in range(config.n_decoder_layers)])

    def encode(self, src): # ids (b, s) to (b, s, d)
        x = self.positions(self.embedding(src))
        mask = padding_mask(src)
        for layer in self.encoder:
            x = layer(x, mask)
        return x

    def decode(self, tgt, memory, memory_mask): # logits (b, t, v)
        x = self.positions(self.embedding(tgt))
        # padding comes last: no token sees it, and the loss skips what it predicts
        mask = causal_mask(tgt.size(1)).to(tgt.device)
        for layer in self.decoder:
            x = layer(x, memory, mask, memory_mask)
        return self.embedding.logits(x)

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), padding_mask(src))
