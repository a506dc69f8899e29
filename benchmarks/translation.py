#!/usr/bin/env python3
"""The trainings of chapter 15 and their reports, by the commands that anyone can give.

    python benchmarks/translation.py --runs FOLDER [--results nbs/results] [--processes 2]

Trains what FOLDER does not have yet, and continues what was interrupted. Then the
validation set chooses the exponent of the length penalty, and the test set is translated.
A line of translation.jsonl is a report of tnb_evaluate, with its command; what the search
with a beam wrote lies beside it in the folder translations.
"""
import argparse, json, os, shlex, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
import torch
from transformer_nb.core import provenance, write_atomically
from transformer_nb.corpora import corpus_folder
from transformer_nb.distributed import write_results

RECIPE = ('--dropout 0.1 --batch_tokens 1024 --lr 3e-3 --warmup_steps 1000 '
          '--max_steps 55000 --decay_steps 55000 --weights last '
          '--valid_every 1000 --save_every 1000')
RUNS = {'en-de-0': ('en', 'de', 0), 'en-de-1': ('en', 'de', 1), 'en-de-2': ('en', 'de', 2),
        'de-en-0': ('de', 'en', 0)}
ALPHAS = (0.6, 1.0, 1.4, 1.8)
VALID, TEST = 'val', 'test_2016_flickr'

def call(command, runs): # what it prints
    "A command of the package with one thread; in it, *runs/* is the folder of the runs"
    words = shlex.split(command.replace('runs/', f'{runs.resolve()}/'))
    words[0] = Path(sys.executable).with_name(words[0])
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True,
                          cwd=corpus_folder('multi30k', f'{VALID}.en.gz', None),
                          env=os.environ | dict(OMP_NUM_THREADS='1')).stdout

def train(name, runs):
    if (runs/name/'model.safetensors').exists(): return
    src, tgt, seed = RUNS[name]
    command = (f'tnb_train --out runs/{name} --corpus multi30k --src_lang {src} '
               f'--tgt_lang {tgt} --seed {seed} {RECIPE}')
    if (runs/name/'checkpoints').exists(): command += ' --resume'
    call(command, runs)

def evaluate(runs, name, split, alpha=None):
    "A report of tnb_evaluate, without alpha on greedy search; translations beside the run"
    src, tgt, seed = RUNS[name]
    beam = f'--beam_size 5 --alpha {alpha}' if alpha else '--beam_size 1'
    command = (f'tnb_evaluate runs/{name} --src {split}.{src}.gz --ref {split}.{tgt}.gz '
               f'--lang {tgt} {beam}')
    scores = json.loads(call(f'{command} --out runs/{name}.{split}.txt', runs))
    search = f'beam 5, α {alpha}' if alpha else 'greedy'
    row = f'{src.upper()} → {tgt.upper()}, seed {seed}, {split}, {search}'
    return dict(row=row, command=command) | scores | provenance()

def choose_alpha(runs):
    "The exponent of the length penalty that suits the first run, and the reports"
    found = {alpha: evaluate(runs, 'en-de-0', VALID, alpha) for alpha in ALPHAS}
    best = max(found, key=lambda alpha: found[alpha]['bleu_moses_lc'])
    return best, list(found.values())

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--runs', type=Path, required=True)
    parser.add_argument('--results', type=Path, default=Path('nbs/results'))
    parser.add_argument('--processes', type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(1) # as the commands have
    a.runs.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(a.processes) as pool:
        for _ in pool.map(partial(train, runs=a.runs), RUNS): pass

    alpha, reports = choose_alpha(a.runs)
    for name in RUNS:
        if name != 'en-de-0': reports.append(evaluate(a.runs, name, VALID, alpha))
        reports.append(evaluate(a.runs, name, TEST))
        reports.append(evaluate(a.runs, name, TEST, alpha)) # last: these are kept
        text = (a.runs/f'{name}.{TEST}.txt').read_bytes()
        write_atomically(a.results/'translations'/f'{name}.txt', text)
    write_results(a.results/'translation.jsonl', reports)

if __name__ == '__main__': main()
