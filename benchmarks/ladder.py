#!/usr/bin/env python3
"""The ladder of chapters 01 to 05: each rung trained with ten seeds on the same sentences.

    python benchmarks/ladder.py          # some eight minutes of one core
    python benchmarks/ladder.py 0 3      # seeds 0 to 2 alone

Writes nbs/results/ladder.jsonl anew, or a file named after the seeds. The chapters say what
each rung adds.
"""
import json, sys
from pathlib import Path
import torch
from torch import nn
from transformer_nb.attention import (
    OneHead, SentenceModel, count_pairs, held_out_loss, ladder_text, learn_sentences,
    write_sentences)
from transformer_nb.core import provenance, set_seed, write_atomically
from transformer_nb.embedding import PositionalEncoding
from transformer_nb.layers import Block, PlainBlock, ResidualBlock
from transformer_nb.multihead import CausalAttention

FILE = Path(__file__).parents[1]/'nbs/results/ladder.jsonl'

def places(): return PositionalEncoding(64, dropout=0., max_len=64)

RUNGS = { # name: chapter that brings it, and the body of the model
    'one head': ('01', OneHead),
    'four heads': ('02', CausalAttention),
    'feed-forward': ('03', PlainBlock),
    'residual connection': ('03', ResidualBlock),
    'normalization': ('03', Block),
    'positions': ('04', lambda: nn.Sequential(places(), Block())),
    'second layer': ('05', lambda: nn.Sequential(places(), Block(), Block()))}

def measured(model, held_out, **more):
    wrote = write_sentences(model, 3)
    return dict(more, nats=held_out_loss(model, held_out), wrote=wrote, **provenance())

def runs(seeds):
    train, held_out = ladder_text()
    pairs = count_pairs(train)
    yield measured(lambda ids: pairs[ids], held_out, rung='pairs counted', chapter='01')
    for rung, (chapter, make_body) in RUNGS.items():
        for seed in seeds:
            set_seed(seed)
            model = SentenceModel(make_body())
            learn_sentences(model, train)
            size = sum(p.numel() for p in model.parameters())
            about = dict(rung=rung, chapter=chapter, seed=seed, parameters=size)
            yield measured(model.eval(), held_out, **about)
            print(f'{rung:20} seed {seed}', flush=True)

def main(first=0, end=10, out=FILE):
    torch.set_num_threads(1)
    lines = [json.dumps(run) + '\n' for run in runs(range(int(first), int(end)))]
    write_atomically(Path(out), ''.join(lines).encode())

if __name__ == '__main__': main(*sys.argv[1:])
