#!/usr/bin/env python3
"""The trainings of chapter 17: networks whose paths have different lengths, 361 in all.

    python benchmarks/train_paths.py --out path_lengths.jsonl

Seeds 0 to 2 choose a learning rate for each network, and seeds 3 to 12 are judged. It takes
hours; each training is a line of the file as soon as it ends. The rule stands in
nbs/results/RULES.md.
"""
from itertools import product
from pathlib import Path
from transformer_nb.checkpoint import fingerprint
from transformer_nb.studies.layer_types import (
    BATCH, CAP, CHECK, CYCLE, DOSE_DEPTH, DOSE_LRS, DOSE_SIZES, dose_rates, dose_rows,
    train_path)
from runs import main, run_missing

def train_paths(out:str|Path,     # file of results; what it has is not trained again
                distances:tuple=(8, 32, 128),
                choosing:range=range(3),   # seeds that choose the learning rate
                judged:range=range(3, 13), # seeds trained at the chosen one
                processes:int=2,  # at the same time, one thread each; 0: here
                cap:int=CAP,
               )->list[dict]:     # all results in the file
    "Seed by seed. Raises `InputError` where a line of the file has other settings"
    arms = [(row, distance) for distance in distances for row in dose_rows(distance)]
    same = fingerprint([cap, CHECK, BATCH, DOSE_DEPTH, CYCLE, DOSE_SIZES, DOSE_LRS])
    settings = {row: same for distance in (8, 32, 128) for row in dose_rows(distance)}
    def train(keys): # row, distance, rate, seed of each
        jobs = {key: (*key, cap) for key in keys}
        def show(result): return result['steps'] or 'not learned'
        names = 'row', 'distance', 'rate', 'seed'
        return run_missing(out, train_path, jobs, settings, processes, show, names)
    results = train((*arm, rate, seed)
                    for seed, arm, rate in product(choosing, arms, DOSE_LRS))
    rates = dose_rates([r for r in results if r['seed'] in choosing])
    return train((*arm, rates[arm], seed) for seed, arm in product(judged, arms))

if __name__ == '__main__': main(__doc__, train_paths)
