#!/usr/bin/env python3
"""The ladder of chapters 01 to 05: each rung trained with ten seeds on the same sentences.

    python benchmarks/ladder.py          # some twelve minutes of one core
    python benchmarks/ladder.py 0 3      # seeds 0 to 2 alone

Adds to nbs/results/ladder.jsonl, or to a file that is named third, what it lacks.
"""
import json, sys
from itertools import product
from pathlib import Path
import torch
from torch import nn
from transformer_nb.attention import (
    SentenceModel, held_out_loss, ladder_text, learn_sentences, write_sentences)
from transformer_nb.support.core import provenance, set_seed
from transformer_nb.embedding import PositionalEncoding

sys.path[:0] = [str(Path(__file__).parents[1]/room) for room in ('tests', 'tools')]
from running import definitions

FILE = Path(__file__).parents[1]/'nbs/results/ladder.jsonl'
chapter_01, chapter_03 = definitions('01_attention'), definitions('03_layers')
Block, CausalAttention = chapter_03.Block, chapter_03.CausalAttention

def places(): return PositionalEncoding(64, dropout=0., max_len=64)

RUNGS = { # name: chapter that brings it, and the body of the model
    'one head': ('01', chapter_01.OneHead),
    'one head and W^O': ('02', lambda: CausalAttention(n_heads=1)),
    'four heads': ('02', CausalAttention),
    'feed-forward': ('03', chapter_03.PlainBlock),
    'residual connection': ('03', chapter_03.ResidualBlock),
    'normalization': ('03', Block),
    'positions': ('04', lambda: nn.Sequential(places(), Block())),
    'second layer': ('05', lambda: nn.Sequential(places(), Block(), Block()))}

def measured(model, held_out, **more):
    wrote = write_sentences(model, 3)
    return dict(more, nats=held_out_loss(model, held_out), wrote=wrote, **provenance())

def train(rung, seed):
    text, held_out = ladder_text()
    if rung == 'pairs counted':
        pairs = chapter_01.count_pairs(text)
        return measured(lambda ids: pairs[ids], held_out, rung=rung, chapter='01')
    chapter, make_body = RUNGS[rung]
    set_seed(seed)
    model = SentenceModel(make_body())
    learn_sentences(model, text)
    size = sum(p.numel() for p in model.parameters())
    about = dict(rung=rung, chapter=chapter, seed=seed, parameters=size)
    return measured(model.eval(), held_out, **about)

def main(first=0, end=10, out=FILE):
    torch.set_num_threads(1)
    text = Path(out).read_text(encoding='utf8') if Path(out).exists() else ''
    done = {(run['rung'], run.get('seed')) for run in map(json.loads, text.splitlines())}
    seeds = range(int(first), int(end))
    for rung, seed in [('pairs counted', None), *product(RUNGS, seeds)]: # no seed to count
        if (rung, seed) in done: continue
        run = train(rung, seed)
        with open(out, 'a', encoding='utf8') as file: print(json.dumps(run), file=file)
        print(f'{rung:20} seed {seed}: {run["nats"]:.3f}', flush=True)

if __name__ == '__main__': main(*sys.argv[1:])
