#!/usr/bin/env python3
"""The trainings of chapter 18: Table 3 in small, or any rows of it.

    python benchmarks/train_variations.py --rows base,A1 --seeds 1 --out mine.jsonl

The settings of a row are a fingerprint of the corpus and of everything that can be set.
They do not cover the code: a file that is continued after an update mixes versions, and the
commit in each line shows where. The rule stands in nbs/results/RULES.md.
"""
from pathlib import Path
from transformer_nb.support.core import Arg, FieldError, check_positive, command
from transformer_nb.corpora import load_corpus
from transformer_nb.studies.variations import (
    GROUPS, N_STEPS, ROWS, row_settings, short_corpus, train_row)
from runs import run_missing

def train_rows(out:str|Path, # file of results
               rows:list[str], seeds:range,
               corpus:dict,  # sentence pairs of each split
               n_steps:int=N_STEPS,
               processes:int=0, # runs at the same time; 0: here, one after the other
              )->list[dict]:    # all results in the file
    "Train what is missing; raises `InputError` where a row in the file has other settings"
    jobs = {(row, seed): (ROWS[row], seed, corpus, n_steps)
            for row in rows for seed in seeds}
    def show(result): return f"perplexity {result['ppl']}, BLEU {result['bleu']}"
    settings = row_settings(ROWS, corpus, n_steps)
    return run_missing(out, train_row, jobs, settings, processes, show)

def row_names(rows:str)->list[str]: # of names and groups, separated by commas
    names = []
    for name in rows.split(','):
        if name not in GROUPS | ROWS:
            plain = [row for row in ROWS if '@' not in row] # at the usual rate
            known = ', '.join([*GROUPS, *plain]) + ', and rates such as base@2'
            raise FieldError('rows', f'has {name!r}; there are {known}')
        names += GROUPS.get(name, [name])
    return list(dict.fromkeys(names)) # each once

@command
def train_variations(
    out:Arg('file of results; rows it already has are not trained again', str,
            'FILE')='variations.jsonl',
    rows:Arg('names of rows, or groups; rates is a group, too', str,
             'NAMES')='table,left_out,depth',
    seeds:Arg('runs of each row', int)=3,
    processes:Arg('runs at the same time, one thread each', int)=2,
    corpus:Arg('multi30k or mini', str, 'NAME')='multi30k',
    n_steps:Arg('steps of each run', int)=N_STEPS,
    data_dir:Arg('folder with the files of multi30k', str, 'DIR')=None):
    "Train Table 3 in small, in the order of --rows: English to German, short captions"
    check_positive(seeds=seeds, processes=processes, n_steps=n_steps)
    names = row_names(rows)
    short = short_corpus(load_corpus(corpus, 'en', 'de', data_dir))
    train_rows(out, names, range(seeds), short, n_steps, processes)

if __name__ == '__main__': train_variations()
