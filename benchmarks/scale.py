#!/usr/bin/env python3
"""What a corpus of millions costs each process of a training: memory and time.

    python benchmarks/scale.py [--pairs N] [--processes P] [--steps N] [--workers N]

Writes N made-up pairs of 26 + 26 tokens, prepares them as `tnb_prepare` does, trains the
preset tiny on them for some steps, and prints one JSON object: seconds and peak of resident
memory of the preparation, the seconds until the first step of a training is taken, and of
one that is resumed, the peak of each process, seconds and memory of an epoch's plan, and
the milliseconds of making a batch.
"""
import json, resource, subprocess, sys, time
from argparse import ArgumentParser
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
import numpy as np
from transformer_nb import training
from transformer_nb.support.core import provenance
from transformer_nb.data import TokenBatches, open_encoded
from transformer_nb.support.distributed import all_gather, process_group, rank
from transformer_nb.prepare import DataConfig, prepare_data
from transformer_nb.translation import preset, train_translator

N_WORDS = 26 # per sentence; nearly all of them become one token each
SYLLABLES = [a + b for a, b in product('bdfgklmnprst', 'aeiou')]

def lexicon(rng:np.random.Generator)->np.ndarray: # 1,500 words
    syllables = rng.choice(SYLLABLES, (1500, 2))
    return np.array([''.join(word) for word in syllables])

def write_text(path:Path, n_lines:int, rng:np.random.Generator):
    "Words by Zipf's law, ten thousand lines at a time"
    words = lexicon(rng)
    weights = 1 / np.arange(1, len(words) + 1)
    with open(path, 'w', encoding='utf8') as file:
        for start in range(0, n_lines, 10_000):
            shape = min(10_000, n_lines - start), N_WORDS
            rows = rng.choice(words, shape, p=weights / weights.sum())
            file.writelines(' '.join(row) + '\n' for row in rows)

def write_corpus(folder:Path, n_pairs:int):
    rng = np.random.default_rng(0)
    for name, n in dict(src=n_pairs, tgt=n_pairs, valid_src=100, valid_tgt=100).items():
        write_text(folder/name, n, rng)

def peak_mb()->int: # resident, of this process so far
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

def prepare(folder:Path, args):
    "With every filter, and a tokenizer from a sample"
    files = {name: str(folder/name) for name in ('src', 'tgt', 'valid_src', 'valid_tgt')}
    config = DataConfig(**files, drop_duplicates=True, drop_same=True, min_letters=0.5,
                        tokenizer_pairs=args.tokenizer_pairs)
    started = time.perf_counter()
    data = prepare_data(folder/'data', config)
    seconds = round(time.perf_counter() - started, 1)
    print(json.dumps(dict(seconds=seconds, peak_mb=peak_mb(),
                          dropped=data.splits['train']['dropped'])))

def plan(folder:Path):
    "Two epochs' plans, as one process of a training makes them"
    batches = TokenBatches(open_encoded(folder/'data'/'train'), 4096)
    before = peak_mb()
    seconds = median_seconds(batches.plan, range(2))
    print(json.dumps(dict(seconds=round(seconds, 2), more_mb=peak_mb() - before)))

def train(folder:Path, steps:int, workers:int, resume:bool):
    "One process of the training; the first one prints what was measured"
    started = time.perf_counter()
    at = []
    take_step = training.train_step
    def timed(*args, **kwargs):
        taken = take_step(*args, **kwargs)
        at.append(time.perf_counter() - started)
        return taken
    training.train_step = timed
    config = preset('tiny').override(
        data=str(folder/'data'), max_steps=steps, workers=workers, valid_every=steps)
    with process_group():
        train_translator(folder/'model', config, resume)
        open_encoded(folder/'data'/'train').ids.max() # every page once, as an epoch
        peaks = all_gather(peak_mb())
        if rank() > 0: return
    seconds = np.diff(at)
    print(json.dumps(dict(
        seconds_to_first_step=round(at[0], 1),
        seconds_per_step=round(float(np.median(seconds)), 3),
        peak_mb=peaks)))

def run_child(args, what:str)->dict: # what it printed; 'prepare', 'plan', 'first', ...
    steps = args.steps * (2 if what == 'resumed' else 1)
    this = [__file__, '--child', what, '--out', args.out, '--steps', str(steps)]
    this += ['--workers', str(args.workers)]
    this += ['--tokenizer_pairs', str(args.tokenizer_pairs)]
    start = [sys.executable]
    if args.processes > 1 and what in ('first', 'resumed'):
        start = [str(Path(sys.executable).with_name('torchrun')), '--standalone',
                 f'--nproc_per_node={args.processes}']
    run = subprocess.run(start + this, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])

def median_seconds(make, things)->float:
    seconds = []
    for thing in things:
        started = time.perf_counter()
        make(thing)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds))

def measure_batches(folder:Path)->dict:
    batches = TokenBatches(open_encoded(folder/'data'/'train'), 4096)
    batch_seconds = median_seconds(batches.batch, batches.plan(0)[:200])
    tokens = batches.lengths.sum(axis=0) / len(batches.lengths)
    return dict(pairs=len(batches.lengths), tokens_per_side=tokens.round(1).tolist(),
                batch_ms=round(1000*batch_seconds, 2))

def run_part(args):
    folder = Path(args.out)
    if args.child == 'prepare': return prepare(folder, args)
    if args.child == 'plan': return plan(folder)
    train(folder, args.steps, args.workers, resume=args.child == 'resumed')

def main():
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add('--pairs', type=int, default=1_000_000)
    add('--processes', type=int, default=1)
    add('--steps', type=int, default=10)
    add('--workers', type=int, default=0, help='processes that make batches ahead')
    add('--out', help='folder; by default one that is removed at the end')
    add('--tokenizer_pairs', type=int, default=200_000)
    add('--child', help='used by this program')
    args = parser.parse_args()
    if args.child: return run_part(args)
    with TemporaryDirectory() as temporary:
        args.out = args.out or temporary
        folder = Path(args.out)
        folder.mkdir(parents=True, exist_ok=True)
        write_corpus(folder, args.pairs)
        parts = {what: run_child(args, what)
                 for what in ('prepare', 'plan', 'first', 'resumed')}
        result = measure_batches(folder) | dict(processes=args.processes)
        result |= parts | provenance()
    print(json.dumps(result, indent=1))

if __name__ == '__main__': main()
