#!/usr/bin/env python3
"""The trainings of chapter 20: base and eleven changes, and each at other learning rates.

    python benchmarks/train_since_2017.py --out since_2017.jsonl
    python benchmarks/train_since_2017.py --out since_2017_rates.jsonl --rates

The first goes seed by seed, so that the seeds before an interruption are complete. The
second trains seeds 0 to 2 at half and at twice the rate as well, and further out as long as
the best rate is the last that was tried; then seeds 3 to 9 at the best rates. The runs at
the rate 1 are those of since_2017.jsonl, which lies beside the new file, if today's code
repeats the first of them. The rule stands in nbs/results/RULES.md.
"""
from pathlib import Path
from transformer_nb.corpora import load_corpus
from transformer_nb.studies.since_2017 import (
    MUON_ROW, RATES_SINCE, ROWS_SINCE, at_rate, best_rate, build_modern, modern_optimizer,
    next_rates)
from transformer_nb.studies.variations import (
    N_STEPS, row_settings, short_corpus, task_corpus, train_row)
from runs import main, read_results, run_missing

def train_modern(row:str,     # a name in `ROWS_SINCE` or `RATES_SINCE`
                 seed:int,
                 corpus:dict, # sentence pairs of 'train', 'valid' and perhaps 'test'
                 n_steps:int,
                )->dict:      # what was measured
    "Train a row; all rows of a seed see the same batches in the same order"
    changes = (ROWS_SINCE | RATES_SINCE)[row]
    return train_row(changes, seed, corpus, n_steps, build_modern, modern_optimizer)

def train_since(out:str|Path,    # file of results; what it already has is not trained again
                seeds:range,
                corpus:dict|None=None, # of 'train' and 'valid'; by default chapter 18's
                n_steps:int=N_STEPS,
                processes:int=2, # runs at the same time; 0: here, one after the other
               )->list[dict]:    # all results in the file
    "Train every row at seed 0, then at seed 1, and so on; raises `InputError`"
    if corpus is None: corpus = short_corpus(load_corpus('multi30k', 'en', 'de'))
    jobs = {(row, seed): (row, seed, corpus, n_steps)
            for seed in seeds for row in ROWS_SINCE}
    def show(result): return f"{result['valid_loss']} nats"
    settings = row_settings(ROWS_SINCE, corpus, n_steps)
    return run_missing(out, train_modern, jobs, settings, processes, show)

def train_missing(out, names, seeds, corpus, n_steps, processes):
    jobs = {(name, seed): (name, seed, corpus, n_steps) for seed in seeds for name in names}
    def show(r): return f"{r['valid_loss']} nats, test {r['test_loss']}"
    settings = row_settings(RATES_SINCE, corpus, n_steps)
    return run_missing(out, train_modern, jobs, settings, processes, show)

def same_loss(r:dict, s:dict)->bool: return abs(r['valid_loss'] - s['valid_loss']) < 1e-3

def at_rate_1(out, new:list[dict])->list[dict]:
    "The stored runs beside `out`, if the new run of base and seed 0 repeats theirs"
    stored = read_results(Path(out).with_name('since_2017.jsonl'))
    def first(results, name):
        return [r for r in results if (r['row'], r['seed']) == (name, 0)]
    pair = first(stored, 'base') + first(new, 'base@1')
    return stored if len(pair) == 2 and same_loss(*pair) else []

def train_rates(out:str|Path,    # file of results, beside `since_2017.jsonl`
                corpus:dict|None=None, # of 'train', 'valid' and 'test'; None: chapter 18's
                n_steps:int=N_STEPS,
                processes:int=2,
               )->list[dict]:    # all results in the file
    "Seeds 0 to 2 of every row at every rate that the rule asks for"
    corpus = corpus or task_corpus()
    new = train_missing(out, ['base@1'], range(1), corpus, n_steps, processes)
    stored = at_rate_1(out, new)
    while True:
        names = [at_rate(row, rate) for row in ROWS_SINCE | MUON_ROW
                 for rate in next_rates(stored + new, row)]
        if not names: return new
        new = train_missing(out, names, range(3), corpus, n_steps, processes)

def train_best(out:str|Path, # the file of `train_rates`
               corpus:dict|None=None, n_steps:int=N_STEPS, processes:int=2,
              )->list[dict]: # all results in the file
    "Seeds 3 to 9 of every row at its best rate"
    corpus, new = corpus or task_corpus(), read_results(out)
    results = at_rate_1(out, new) + new
    best = [at_rate(row, best_rate(results, row)) for row in ROWS_SINCE | MUON_ROW]
    return train_missing(out, best, range(3, 10), corpus, n_steps, processes)

def command(out:Path, processes:int, rates:bool):
    if not rates: return train_since(out, range(10), processes=processes)
    train_rates(out, processes=processes)
    train_best(out, processes=processes)

if __name__ == '__main__':
    main(__doc__, command,
         rates=dict(action='store_true', help='at other learning rates'))
