#!/usr/bin/env python3
"""The controls that chapters 18 and 20 lacked, as nbs/results/RULES.md asks for them
(*Unequal spreads, and base at its best*).

    python benchmarks/controls.py --out nbs/results/controls.jsonl

Base at one and 1.4 times its learning rate, and at twice the rate one head and a model
without label smoothing. A line also has the loss of each caption of test_2016_flickr,
all 1,000 of them: nats and tokens.
"""
import argparse
import torch
from torch.nn.functional import cross_entropy
from transformer_nb.core import default_device
from transformer_nb.corpora import load_corpus
from transformer_nb.data import TokenBatches, encode_pairs
from transformer_nb.studies import variations as v
from runs import run_missing

CONTROLS = {'base@1': dict(rate=1), 'base@1.4': dict(rate=1.4),
            'A1@2': dict(n_heads=1, rate=2), 'D-ls0@2': dict(label_smoothing=0., rate=2)}
SEEDS = {'base@1': range(3, 10), 'base@1.4': range(10),
         'A1@2': range(3, 10), 'D-ls0@2': range(3, 10)}

@torch.no_grad()
def nats_of_each(model, pairs): # encoded; [nats, tokens] of each pair, in their order
    found = []
    for pair in pairs:
        [batch] = TokenBatches([pair], 10_000).epoch(0)
        batch = batch.to(default_device())
        logits = model(batch.src, batch.tgt)[0]
        nats = cross_entropy(logits, batch.labels[0], reduction='sum').item()
        found.append([round(nats, 3), batch.labels.shape[1]])
    return found

def train_control(row, seed, corpus, captions, n_steps):
    "As chapter 18 trains a row, and the loss of each caption"
    models = []
    def build(changes, vocab_size):
        models.append(v.build_row(changes, vocab_size))
        return models[0]
    result = v.train_row(CONTROLS[row], seed, corpus, n_steps, build)
    tokenizer, _, _ = v.prepare_task(corpus)
    encoded, _ = encode_pairs(captions, tokenizer, v.BASE['max_len'])
    assert len(encoded) == len(captions), 'a caption was left out'
    return result | dict(captions=nats_of_each(models[0].eval(), encoded))

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--out', default='nbs/results/controls.jsonl')
    parser.add_argument('--rows', nargs='+', default=list(CONTROLS))
    a = parser.parse_args()
    torch.set_num_threads(1)
    corpus, captions = v.task_corpus(), load_corpus('multi30k', 'en', 'de')['test']
    settings = v.row_settings(CONTROLS, corpus | dict(test=captions), v.N_STEPS)
    jobs = {(row, seed): (row, seed, corpus, captions, v.N_STEPS)
            for row in a.rows for seed in SEEDS[row]}
    def show(r): return f"{r['valid_loss']} nats, test {r['test_loss']}"
    run_missing(a.out, train_control, jobs, settings, 0, show)

if __name__ == '__main__': main()
