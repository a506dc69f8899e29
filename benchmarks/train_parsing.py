#!/usr/bin/env python3
"""The trainings of chapter 22: parsers that learn from all pairs, a tenth, a hundredth.

    python benchmarks/train_parsing.py --out parsing.jsonl

Each line has a fingerprint of the settings and of all sentences, so a change in the
grammar, the sizes or the search makes stored results foreign, and they are refused. The
rule stands in nbs/results/RULES.md.
"""
import time
from collections import Counter
from pathlib import Path
from random import Random
import torch
from transformer_nb.checkpoint import fingerprint
from transformer_nb.support.core import provenance
from transformer_nb.model import Transformer
from transformer_nb.studies.parsing import (
    PARSER, PARSER_BATCH, PARSER_LR, PARSER_SEARCH, PARSER_STEPS, PARSER_WARMUP,
    SpacedTokenizer, Tree, compare, leaves, linearize, parse, parse_scores, train_parser,
    treebank)
from runs import main, run_missing

SHARES = {'100%': 1., '10%': 0.1, '1%': 0.01} # of the training pairs
TESTS = 'test', 'longer', 'deeper', 'both'

def judge(model:Transformer, tokenizer:SpacedTokenizer, trees:list[Tree])->dict:
    "Scores of a test set, counts by length, and some outputs, wrong ones first"
    outputs = parse(model, tokenizer, [leaves(tree) for tree in trees])
    by_words = {}
    examples = []
    for tree, output in zip(trees, outputs):
        counts = compare(tree, output)
        by_words.setdefault(len(leaves(tree)) - 1, Counter()).update(counts)
        texts = ' '.join(leaves(tree)), ' '.join(linearize(tree)), ' '.join(output)
        examples.append((counts['exact'], texts))
    examples.sort(key=lambda example: example[0]) # in order within the wrong and the right
    examples = [texts for _, texts in examples[:3] + examples[-1:]]
    by_words = {n: dict(by_words[n]) for n in sorted(by_words)}
    total = sum(map(Counter, by_words.values()), Counter())
    return parse_scores(total) | dict(by_words=by_words, examples=examples)

def train_share(share:str,  # a key of `SHARES`
                seed:int,   # of weights, batches, and which of the pairs
                bank:dict,  # as `treebank` makes it
                n_steps:int=PARSER_STEPS,
               )->dict:     # what was measured
    torch.set_num_threads(1)
    start = time.perf_counter()
    n = round(SHARES[share] * len(bank['train']))
    trees = Random(seed).sample(bank['train'], n)
    model, tokenizer, result = train_parser(trees, seed, n_steps)
    result |= dict(pairs=n, vocab_size=tokenizer.vocab_size,
                   parameters=sum(p.numel() for p in model.parameters()))
    trained = time.perf_counter()
    for name in TESTS: result[name] = judge(model, tokenizer, bank[name])
    seconds = [round(trained - start, 1), round(time.perf_counter() - trained, 1)]
    result |= dict(seconds=seconds)
    return result | provenance()

def train_shares(out:str|Path,   # file of results; what it has is not trained again
                 seeds:range=range(5),
                 processes:int=2, # runs at the same time, one thread each; 0: here
                 n_steps:int=PARSER_STEPS,
                 sizes:tuple=(22_000, 500, 300), # as for `treebank`
                )->list[dict]:    # all results in the file
    "Raises `InputError` where a row in the file has other settings"
    bank = treebank(1, *sizes) # seed 0 was for choosing the settings
    sentences = [' '.join(leaves(tree)) for trees in bank.values() for tree in trees]
    shared = [PARSER_BATCH, PARSER_WARMUP, PARSER_LR, PARSER_SEARCH]
    same = fingerprint([PARSER, n_steps, sentences, *shared])
    jobs = {(share, seed): (share, seed, bank, n_steps)
            for seed in seeds for share in SHARES}
    def show(result):
        return 'F1 on ' + ', '.join(f"{name} {result[name]['f1']:.2f}" for name in TESTS)
    settings = dict.fromkeys(SHARES, same)
    return run_missing(out, train_share, jobs, settings, processes, show)

if __name__ == '__main__': main(__doc__, train_shares)
