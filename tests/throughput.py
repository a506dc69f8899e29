#!/usr/bin/env python3
"""Training speed beside PyTorch's own Transformer and Hugging Face's Marian classes.

    TRANSFORMER_NB_DATA=... python tests/throughput.py [tiny|wide] [BATCHES]

The same batches of Multi30k (English to German, vocabulary of 6,000), loss, optimizer and dropout sites for all three; the
three take turns at every batch, in an order that rotates. Prints medians over the batches, in target tokens a second, and
the median and quartiles of the ratio to ours.
"""
import platform, sys, time
from statistics import median, quantiles
import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel
from transformer_nb.core import BOS, EOS, PAD, set_seed
from transformer_nb.data import TokenBatches, encode_pairs, load_corpus
from transformer_nb.embedding import Embedding, PositionalEncoding
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam
from transformer_nb.text import BPETokenizer
from transformer_nb.training import train_step

class TorchTransformer(nn.Module):
    "nn.Transformer between our embedding and output, with the paper's dropout sites only"
    def __init__(self, c):
        super().__init__()
        self.embedding, self.positions = Embedding(c.vocab_size, c.d_model), PositionalEncoding(c.d_model, c.dropout, c.max_len)
        self.body = nn.Transformer(c.d_model, c.n_heads, c.n_encoder_layers, c.n_decoder_layers, c.d_ff, c.dropout, batch_first=True)
        for m in self.body.modules():
            if isinstance(m, nn.MultiheadAttention): m.dropout = 0.
            if isinstance(m, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)): m.dropout.p = 0. # inside the feed-forward

    def forward(self, src, tgt):
        x, y = (self.positions(self.embedding(ids)) for ids in (src, tgt))
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        return self.embedding.logits(self.body(x, y, tgt_mask=causal, src_key_padding_mask=src == PAD, memory_key_padding_mask=src == PAD, tgt_is_causal=True))

class Marian(nn.Module):
    "Hugging Face's Marian classes, with the paper's dropout sites only"
    def __init__(self, c):
        super().__init__()
        self.body = MarianMTModel(MarianConfig(
            vocab_size=c.vocab_size, d_model=c.d_model, encoder_layers=c.n_encoder_layers, decoder_layers=c.n_decoder_layers,
            encoder_attention_heads=c.n_heads, decoder_attention_heads=c.n_heads, encoder_ffn_dim=c.d_ff, decoder_ffn_dim=c.d_ff,
            dropout=c.dropout, attention_dropout=0., activation_dropout=0., activation_function='relu', max_position_embeddings=c.max_len,
            scale_embedding=True, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=BOS, attn_implementation='sdpa'))

    def forward(self, src, tgt): return self.body(input_ids=src, attention_mask=(src != PAD).long(), decoder_input_ids=tgt, use_cache=False).logits

def main(size='tiny', n_batches=24):
    corpus = load_corpus('multi30k', 'en', 'de')['train']
    bpe = BPETokenizer.train((s for pair in corpus for s in pair), 6000)
    wide = dict(d_model=512, d_ff=2048, n_heads=8, n_encoder_layers=3, n_decoder_layers=3, dropout=0.1)
    c = TransformerConfig(bpe.vocab_size, **wide) if size == 'wide' else TransformerConfig.tiny(bpe.vocab_size)
    set_seed(0)
    models = dict(ours=Transformer(c), torch=TorchTransformer(c), marian=Marian(c))
    for name, m in models.items(): print(f'{name:7} {sum(p.numel() for p in m.parameters()):,} parameters')
    optimizers = {name: adam(m.train()) for name, m in models.items()}
    batches = list(TokenBatches(encode_pairs(corpus, bpe, 512)[0], 4096).epoch(0))[:n_batches + 2]
    speeds, names = {name: [] for name in models}, list(models)
    for i, batch in enumerate(batches):
        for name in names[i % 3:] + names[:i % 3]:
            start = time.perf_counter()
            train_step(models[name], optimizers[name], [batch], 1e-4, label_smoothing=0.1)
            if i >= 2: speeds[name].append(batch.n_tokens / (time.perf_counter() - start)) # the first two warm up
    print(f'{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, {size}, {n_batches} batches')
    for name, values in speeds.items():
        ratios = [a / b for a, b in zip(speeds['ours'], values)]
        low, mid, high = quantiles(ratios, n=4)
        print(f'{name:7} {median(values):8,.0f} target tokens/s   ours is {mid:.2f} times as fast (quartiles {low:.2f} to {high:.2f})')

if __name__ == '__main__': main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
