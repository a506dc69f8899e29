#!/usr/bin/env python3
"""The trainings of chapter 15 and their reports, by the commands that anyone can give.

    python benchmarks/translation.py --runs FOLDER [--book nbs] [--processes 2]

Trains what FOLDER does not have yet, and continues what was interrupted. The validation
set chooses the exponent of the length penalty, and of each direction the run whose weights
become a model of the book, in half precision. A line of results/translation.jsonl is a
report of tnb_evaluate, with its command; results/translations has what the search with a
beam made of the test set.
"""
import argparse, json, os, shlex, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
import torch
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.support.core import provenance, write_atomically
from transformer_nb.corpora import corpus_folder
from transformer_nb.formats.page import round_to_8_bits
from transformer_nb.translation import load_search
from runs import write_results

RECIPE = ('--dropout 0.2 --weight_decay 0.1 --batch_tokens 1024 --lr 3e-3 '
          '--warmup_steps 1000 --decay_steps 52200 --max_steps 52200 --weights last '
          '--valid_every 1000 --save_every 1000')
RUNS = {'en-de-0': ('en', 'de', 0), 'en-de-1': ('en', 'de', 1), 'en-de-2': ('en', 'de', 2),
        'de-en-0': ('de', 'en', 0)}
PAIRS = ('en-de', 'de-en')
ALPHAS = (0.6, 1.0, 1.4, 1.8)
VALID, TEST = 'val', 'test_2016_flickr'

def call(command, **folders): # what it prints
    "A command of the package with one thread, on folders that have names"
    for name, folder in folders.items():
        command = command.replace(f' {name}/', f' {folder.resolve()}/')
    words = shlex.split(command)
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
    call(command, runs=runs)

def minutes(run): # of its training, or of the model that it became
    lines = (run/'metrics.jsonl').read_text(encoding='utf8').splitlines()
    return round(json.loads(lines[-1])['seconds'] / 60, 1)

GREEDY, STORED = '--beam_size 1', '' # what a command says of the search

def by_rule(alpha): return f'--beam_size 5 --alpha {alpha}'

def name_search(options, report): # as in the name of a row
    if options == GREEDY: return 'greedy'
    return f"beam {report['search']['beam_size']}, α {report['search']['alpha']}"

def evaluate(folder, name, split, options, **folders):
    "A report of tnb_evaluate; translations of all but the stored search go into the runs"
    src, tgt, seed = RUNS[name]
    command = (f'tnb_evaluate {folder} --src {split}.{src}.gz --ref {split}.{tgt}.gz '
               f'--lang {tgt} {options}').rstrip()
    found = folders['runs']/f'{name}.{split}.txt'
    if options: found.unlink(missing_ok=True) # of an earlier search
    out = f' --out runs/{found.name}' if options else ''
    report = json.loads(call(command + out, **folders))
    which = f'seed {seed}' if folder.startswith('runs') else 'in the book'
    row = f'{src.upper()} → {tgt.upper()}, {which}, {split}, {name_search(options, report)}'
    place, _, model = folder.rpartition('/')
    about = dict(row=row, command=command, minutes=minutes(folders[place]/model))
    return about | report | provenance()

def ship(run, folder, is_rounded=False):
    "The weights of a run in half precision, or rounded to eight bits; and its training"
    model, tokenizer = load_model(run)
    if is_rounded: round_to_8_bits(model)
    about = json.loads((run/'config.json').read_text(encoding='utf8'))['training']
    search = asdict(load_search(run))
    save_model(folder, model.half(), tokenizer, about, search)
    for file in ('run.yaml', 'metrics.jsonl'):
        write_atomically(folder/file, (run/file).read_bytes())

def best_of(reports): # by the score that is compared
    return max(reports, key=lambda key: reports[key]['bleu_moses_lc'])

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--runs', type=Path, required=True)
    parser.add_argument('--book', type=Path, default=Path('nbs'))
    parser.add_argument('--processes', type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(1) # as the commands have
    a.runs.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(a.processes) as pool:
        for _ in pool.map(partial(train, runs=a.runs), RUNS): pass

    places = {'runs': a.runs, 'nbs/models': a.book/'models'}
    of_run = partial(evaluate, **places)
    first, *others = RUNS
    by_alpha = {alpha: of_run(f'runs/{first}', first, VALID, by_rule(alpha))
                for alpha in ALPHAS}
    alpha = best_of(by_alpha)
    search = by_rule(alpha)
    valid = {name: of_run(f'runs/{name}', name, VALID, search) for name in others}
    reports = [*by_alpha.values(), *valid.values()]
    valid[first] = by_alpha[alpha]
    for name in RUNS:
        reports.append(of_run(f'runs/{name}', name, TEST, GREEDY))
        reports.append(of_run(f'runs/{name}', name, TEST, search)) # these are kept
        text = (a.runs/f'{name}.{TEST}.txt').read_bytes()
        write_atomically(a.book/'results/translations'/f'{name}.txt', text)
    for pair in PAIRS:
        name = best_of({name: valid[name] for name in RUNS if name.startswith(pair)})
        ship(a.runs/name, a.book/'models'/f'multi30k-{pair}')
        for options in (search, STORED):
            model = f'nbs/models/multi30k-{pair}'
            reports.append(of_run(model, name, TEST, options))
    write_results(a.book/'results/translation.jsonl', reports)

if __name__ == '__main__': main()
