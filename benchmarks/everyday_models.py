#!/usr/bin/env python3
"""The everyday models of chapter 15, trained by tnb_train and scored by tnb_evaluate.

    python benchmarks/everyday_models.py train --runs FOLDER --only en-de-0 de-en-0
    python benchmarks/everyday_models.py report --runs FOLDER [--book nbs]

*train* continues what was interrupted and leaves what is complete. *report* scores every
complete run, writes results/everyday_models.jsonl and translations of Tatoeba's test set,
and makes the models of the book from seed 0, in half precision. The rule stands in
nbs/results/RULES.md; judge.py has the everyday sentences judged.
"""
import argparse, json
from pathlib import Path
import torch
from transformer_nb.core import provenance, write_atomically
from runs import write_results
from translation import call, minutes, ship

N_STEPS = 25_000
RECIPE = ('--corpus everyday --vocab_size 8000 --d_ff 512 --dropout 0.1 --weight_decay 0.1 '
          '--batch_tokens 2048 --lr 4e-3 --warmup_steps 500 '
          f'--decay_steps {N_STEPS} --max_steps {N_STEPS} --weights auto '
          '--valid_every 1000 --save_every 1000')
RUNS = {'en-de-0': ('en', 'de', 0), 'de-en-0': ('de', 'en', 0), 'en-de-1': ('en', 'de', 1),
        'en-de-2': ('en', 'de', 2)}

def is_complete(run): return (run/'model.safetensors').exists()

def train(name, runs):
    if is_complete(runs/name): return
    src, tgt, seed = RUNS[name]
    command = (f'tnb_train --out runs/{name} --src_lang {src} --tgt_lang {tgt} '
               f'--seed {seed} {RECIPE}')
    if (runs/name/'checkpoints').exists(): command += ' --resume'
    call(command, runs=runs)

OURS = 'Tatoeba, test' # which counts
TESTS = {'Tatoeba, validation': '--corpus tatoeba --split valid',
         OURS: '--corpus tatoeba',
         'captions, validation': '--corpus multi30k --split valid',
         'captions, test': '--corpus multi30k'}

def evaluate(folder, name, on, **folders):
    src, tgt, seed = RUNS[name]
    command = f'tnb_evaluate {folder} {TESTS[on]} --lang {tgt}'
    found = folders['runs']/f'{name}.txt'
    if on == OURS: found.unlink(missing_ok=True) # of an earlier report
    out = f' --out runs/{found.name}' if on == OURS else ''
    report = json.loads(call(command + out, **folders))
    place, _, model = folder.rpartition('/')
    which = f'seed {seed}' if place == 'runs' else 'in the book'
    about = dict(row=f'{src.upper()} → {tgt.upper()}, {which}: {on}', command=command,
                 minutes=minutes(folders[place]/model))
    return about | report | provenance()

def report(runs, book):
    reports = []
    places = {'runs': runs, 'nbs/models': book/'models'}
    for name in filter(lambda name: is_complete(runs/name), RUNS):
        reports += [evaluate(f'runs/{name}', name, on, **places) for on in TESTS]
        text = (runs/f'{name}.txt').read_bytes()
        write_atomically(book/'results/translations'/f'everyday-{name}.txt', text)
        if not name.endswith('0'): continue
        model = f'everyday-{name[:-2]}'
        ship(runs/name, book/'models'/model)
        reports.append(evaluate(f'nbs/models/{model}', name, OURS, **places))
    write_results(book/'results/everyday_models.jsonl', reports)

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('task', choices=['train', 'report'])
    parser.add_argument('--runs', type=Path, required=True)
    parser.add_argument('--book', type=Path, default=Path('nbs'))
    parser.add_argument('--only', nargs='+', choices=list(RUNS), default=list(RUNS))
    a = parser.parse_args()
    torch.set_num_threads(1) # as the commands have
    a.runs.mkdir(parents=True, exist_ok=True)
    if a.task == 'report': return report(a.runs, a.book)
    for name in a.only: train(name, a.runs)

if __name__ == '__main__': main()
