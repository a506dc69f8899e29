#!/usr/bin/env python3
"""The controls that chapters 18 and 20 lacked, as nbs/results/RULES.md asks for them
(*Unequal spreads, and base at its best*).

    python benchmarks/controls.py --out nbs/results/controls.jsonl
    python benchmarks/controls.py --five --out nbs/results/five.jsonl
    python benchmarks/controls.py --equal --out nbs/results/equal.jsonl

Base at one and 1.4 times its learning rate, and at twice the rate one head and a model
without label smoothing. With --five, base at 1.4 times its rate and the five rows of
chapter 20 that are better at their best rates (*The five on all captions*). With --equal,
base and RMSNorm with ninety seeds each, and the verdict (*One row with enough seeds for
equal*). A line also has the loss of each caption of test_2016_flickr, all 1,000 of them:
nats and tokens.
"""
import argparse
import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformer_nb.support.core import default_device
from transformer_nb.corpora import load_corpus
from transformer_nb.data import TokenBatches, encode_pairs
from transformer_nb.judging import Difference, judge_rows, wider_interval
from transformer_nb.studies import variations as v
from transformer_nb.studies.since_2017 import RATES_SINCE, build_modern
from runs import run_missing

CONTROLS = {'base@1': dict(rate=1), 'base@1.4': dict(rate=1.4),
            'A1@2': dict(n_heads=1, rate=2), 'D-ls0@2': dict(label_smoothing=0., rate=2)}
SEEDS = {'base@1': range(3, 10), 'base@1.4': range(10),
         'A1@2': range(3, 10), 'D-ls0@2': range(3, 10)}
FIVE = {row: RATES_SINCE[row] for row in (
    'pre-norm@2', 'rotary@2', 'swiglu@2', 'qk-norm@2', 'together@4')}
FIVE['base@1.4'] = CONTROLS['base@1.4']
FIVE_SEEDS = range(3, 10)
EQUAL = {'base': {}, 'rmsnorm': dict(parts=['rmsnorm'])}
EQUAL_SEEDS = range(100, 190)

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

def train_control(changes, seed, corpus, captions, n_steps):
    "As chapters 18 and 20 train a row, and the loss of each caption"
    models = []
    def build(changes, vocab_size):
        make = build_modern if 'parts' in changes else v.build_row
        models.append(make(changes, vocab_size))
        return models[0]
    result = v.train_row(changes, seed, corpus, n_steps, build)
    tokenizer, _, _ = v.prepare_task(corpus)
    encoded, _ = encode_pairs(captions, tokenizer, v.BASE['max_len'])
    assert len(encoded) == len(captions), 'a caption was left out'
    return result | dict(captions=nats_of_each(models[0].eval(), encoded))

def judge_equal(results:list[dict])->Difference: # RMSNorm minus base
    return judge_rows(results, 'test_loss')[0]['rmsnorm']

def over_captions(results:list[dict], row:str, base:str)->tuple: # mean, and its interval
    "Over seeds and all captions"
    def table(row): # nats and tokens (seeds, captions)
        runs = sorted((r['seed'], r['captions']) for r in results if r['row'] == row)
        return np.array([captions for _, captions in runs]).transpose(2, 0, 1)
    nats, [tokens, *_] = table(row)
    return wider_interval(nats - table(base)[0], tokens)

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--out', default='nbs/results/controls.jsonl')
    parser.add_argument('--rows', nargs='+', help='these alone; default: all')
    parser.add_argument('--five', action='store_true', help='better rows, and base')
    parser.add_argument('--equal', action='store_true', help='base and RMSNorm, 90 seeds')
    parser.add_argument('--processes', type=int, default=0, help='side by side')
    a = parser.parse_args()
    torch.set_num_threads(1)
    rows, seeds = CONTROLS, SEEDS
    if a.five: rows, seeds = FIVE, dict.fromkeys(FIVE, FIVE_SEEDS)
    if a.equal: rows, seeds = EQUAL, dict.fromkeys(EQUAL, EQUAL_SEEDS)
    corpus, captions = v.task_corpus(), load_corpus('multi30k', 'en', 'de')['test']
    settings = v.row_settings(rows, corpus | dict(test=captions), v.N_STEPS)
    wanted = [(row, seed) for row in a.rows or rows for seed in seeds[row]]
    wanted.sort(key=lambda job: job[1]) # whole seeds, if it is cut off
    jobs = {(row, seed): (rows[row], seed, corpus, captions, v.N_STEPS)
            for row, seed in wanted}
    def show(r): return f"{r['valid_loss']} nats, test {r['test_loss']}"
    results = run_missing(a.out, train_control, jobs, settings, a.processes, show)
    if not a.equal or len(results) < len(EQUAL) * len(EQUAL_SEEDS): return
    d = judge_equal(results)
    wider = over_captions(results, 'rmsnorm', 'base')
    for what, (mean, low, high) in (('seeds', d[:3]), ('seeds and captions', wider)):
        print(f'RMSNorm minus base over {what}: {mean:+.4f} [{low:+.4f}, {high:+.4f}]')
    print(d.verdict())

if __name__ == '__main__': main()
