#!/usr/bin/env python3
"""The ladder of chapters 01 to 05: each rung trained with ten seeds on the same sentences.

    python benchmarks/ladder.py          # some twelve minutes of one core
    python benchmarks/ladder.py 0 3      # seeds 0 to 2 alone

Adds to nbs/results/ladder.jsonl, or to a file named after the seeds, what it lacks. The
chapters say what each rung adds.
"""
import json, sys
from itertools import product
from pathlib import Path
import torch
from torch import nn
from transformer_nb.attention import (
    OneHead, SentenceModel, count_pairs, held_out_loss, ladder_text, learn_sentences,
    write_sentences)
from transformer_nb.support.core import provenance, set_seed, write_atomically
from transformer_nb.embedding import PositionalEncoding
from transformer_nb.layers import Block, PlainBlock, ResidualBlock
from transformer_nb.multihead import CausalAttention

FILE = Path(__file__).parents[1]/'nbs/results/ladder.jsonl'

def places(): return PositionalEncoding(64, dropout=0., max_len=64)

RUNGS = { # name: chapter that brings it, and the body of the model
    'one head': ('01', OneHead),
    'one head and W^O': ('02', lambda: CausalAttention(n_heads=1)),
    'four heads': ('02', CausalAttention),
    'feed-forward': ('03', PlainBlock),
    'residual connection': ('03', ResidualBlock),
    'normalization': ('03', Block),
    'positions': ('04', lambda: nn.Sequential(places(), Block())),
    'second layer': ('05', lambda: nn.Sequential(places(), Block(), Block()))}

def measured(model, held_out, **more):
    wrote = write_sentences(model, 3)
    return dict(more, nats=held_out_loss(model, held_out), wrote=wrote, **provenance())

def missing(stored, seeds):
    "Name of a rung and seed of each run that is not stored; counting needs no seed"
    wanted = [('pairs counted', None), *product(RUNGS, seeds)]
    done = {(run['rung'], run.get('seed')) for run in stored}
    return [run for run in wanted if run not in done]

def train(rung, seed):
    text, held_out = ladder_text()
    if rung == 'pairs counted':
        pairs = count_pairs(text)
        return measured(lambda ids: pairs[ids], held_out, rung=rung, chapter='01')
    chapter, make_body = RUNGS[rung]
    set_seed(seed)
    model = SentenceModel(make_body())
    learn_sentences(model, text)
    size = sum(p.numel() for p in model.parameters())
    about = dict(rung=rung, chapter=chapter, seed=seed, parameters=size)
    return measured(model.eval(), held_out, **about)

def place(run): # in the file: rung by rung, seed by seed
    rungs = ['pairs counted', *RUNGS]
    return rungs.index(run['rung']), run.get('seed', 0)

def main(first=0, end=10, out=FILE):
    torch.set_num_threads(1)
    out = Path(out)
    text = out.read_text(encoding='utf8') if out.exists() else ''
    stored = [json.loads(line) for line in text.splitlines()]
    for rung, seed in missing(stored, range(int(first), int(end))):
        stored.append(train(rung, seed))
        lines = [json.dumps(run) + '\n' for run in sorted(stored, key=place)]
        write_atomically(out, ''.join(lines).encode())
        print(f'{rung:20} seed {seed}: {stored[-1]["nats"]:.3f}', flush=True)

if __name__ == '__main__': main(*sys.argv[1:])
