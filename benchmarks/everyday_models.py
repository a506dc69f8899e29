#!/usr/bin/env python3
"""The everyday models of chapter 15, trained by tnb_train and scored by tnb_evaluate.

    python benchmarks/everyday_models.py train --runs FOLDER --only en-de-0 de-en-0
    python benchmarks/everyday_models.py report --runs FOLDER [--book nbs]

*train* continues what was interrupted and leaves what is complete. *report* scores every
complete run, adds its lines to results/everyday_models.jsonl and its translations of
Tatoeba's test set, and makes the models of the book, everyday-*, from the second printing,
which goes on from seed 0, rounded to eight bits. The rules stand in nbs/results/RULES.md;
judge.py of commit 7dfb14d had the sentences judged.
"""
import argparse, json
from pathlib import Path
import torch
from transformer_nb.support.core import provenance, write_atomically
from runs import write_results
from translation import call, minutes, ship

N_STEPS = 25_000
RECIPE = ('--corpus everyday --vocab_size 8000 --d_ff 512 --dropout 0.1 --weight_decay 0.1 '
          '--batch_tokens 2048 --lr 4e-3 --warmup_steps 500 '
          f'--decay_steps {N_STEPS} --max_steps {N_STEPS} --weights auto '
          '--valid_every 1000 --save_every 1000')
SECOND = ('--corpus typed --dropout 0.1 --weight_decay 0.1 --batch_tokens 2048 '
          '--warmup_steps 500 --decay_steps 16000 --max_steps 16000 --weights auto '
          '--valid_every 1000 --save_every 1000')
RUNS = {'en-de-0': ('en', 'de', 0), 'de-en-0': ('de', 'en', 0), 'en-de-1': ('en', 'de', 1),
        'en-de-2': ('en', 'de', 2)}
RATES = {f'{src}-{tgt}-second-{lr}': (src, tgt, lr) # of which one is taken
         for src, tgt in (('en', 'de'), ('de', 'en')) for lr in ('1e-3', '2e-3')}
TAKEN = 'en-de-second-2e-3', 'de-en-second-2e-3'

def is_complete(run): return (run/'model.safetensors').exists()

def train(name, runs, book):
    if is_complete(runs/name): return
    if name in RATES:
        src, tgt, lr = RATES[name]
        recipe = f'--seed 0 --init runs/{src}-{tgt}-0 --lr {lr} {SECOND}'
    else:
        src, tgt, seed = RUNS[name]
        recipe = f'--seed {seed} {RECIPE}'
    command = f'tnb_train --out runs/{name} --src_lang {src} --tgt_lang {tgt} {recipe}'
    if (runs/name/'checkpoints').exists(): command += ' --resume'
    call(command, runs=runs, models=book/'models')

OURS = 'Tatoeba, test' # which counts
TESTS = {'Tatoeba, validation': '--corpus tatoeba --split valid',
         OURS: '--corpus tatoeba',
         'captions, validation': '--corpus multi30k --split valid',
         'captions, test': '--corpus multi30k'}

def evaluate(folder, name, on, **folders):
    src, tgt, seed = (RUNS | RATES)[name]
    command = f'tnb_evaluate {folder} {TESTS[on]} --lang {tgt}'
    found = folders['runs']/f'{name}.txt'
    if on == OURS: found.unlink(missing_ok=True) # of an earlier report
    out = f' --out runs/{found.name}' if on == OURS else ''
    report = json.loads(call(command + out, **folders))
    place, _, model = folder.rpartition('/')
    which = 'second printing' if name in RATES else f'seed {seed}'
    if place != 'runs': which = 'in the book, eight bits'
    about = dict(row=f'{src.upper()} → {tgt.upper()}, {which}: {on}', command=command,
                 minutes=minutes(folders[place]/model))
    return about | report | provenance()

def report(runs, book):
    reports = []
    places = {'runs': runs, 'nbs/models': book/'models'}
    for name in filter(lambda name: is_complete(runs/name), [*RUNS, *TAKEN]):
        reports += [evaluate(f'runs/{name}', name, on, **places) for on in TESTS]
        if name in TAKEN: # the test set is translated anew, by what ships
            model = f'everyday-{name[:5]}'
            ship(runs/name, book/'models'/model, is_rounded=True)
            reports.append(evaluate(f'nbs/models/{model}', name, OURS, **places))
        text = (runs/f'{name}.txt').read_bytes()
        write_atomically(book/'results/translations'/f'everyday-{name}.txt', text)
    path, rows = book/'results/everyday_models.jsonl', {line['row'] for line in reports}
    kept = [line for line in map(json.loads, path.read_text().splitlines())
            if line['row'] not in rows]
    write_results(path, kept + reports)

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('task', choices=['train', 'report'])
    parser.add_argument('--runs', type=Path, required=True)
    parser.add_argument('--book', type=Path, default=Path('nbs'))
    names = [*RUNS, *RATES]
    parser.add_argument('--only', nargs='+', choices=names, default=names)
    a = parser.parse_args()
    torch.set_num_threads(1) # as the commands have
    a.runs.mkdir(parents=True, exist_ok=True)
    if a.task == 'report': return report(a.runs, a.book)
    for name in a.only: train(name, a.runs, a.book)

if __name__ == '__main__': main()
