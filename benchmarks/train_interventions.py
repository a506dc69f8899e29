#!/usr/bin/env python3
"""The trainings of chapter 16a: models of the grammar, and what their heads carry.

    python benchmarks/train_interventions.py --out interventions.jsonl

The rule stands in nbs/results/RULES.md. What the file already has is not trained again.
"""
import time
from pathlib import Path
import torch
from transformer_nb.checkpoint import fingerprint
from transformer_nb.support.core import provenance
from transformer_nb.data import encode_pairs
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.studies.attention_maps import GRAMMAR_MODEL, train_grammar_model
from transformer_nb.studies.interventions import OBJECTS, grammar_pairs, study
from transformer_nb.text import WordTokenizer
from runs import main, run_missing

GRAMMAR_TRAINING = dict(n_train=22_000, n_steps=800)

def train_and_study(seed:int, n_train:int, n_steps:int)->dict:
    "A model of chapter 16, from English to German, and what its heads carry"
    torch.set_num_threads(1)
    start = time.perf_counter()
    corpus = mini_corpus(0, n_train, 0, 0)
    texts = [text for pair in corpus['train'] for text in pair]
    tokenizer = WordTokenizer.train(texts, 'de', 10_000)
    pairs = [(english, german) for german, english in corpus['train']]
    ids, _ = encode_pairs(pairs, tokenizer, GRAMMAR_MODEL['max_len'])
    model, progress = train_grammar_model(ids, tokenizer.vocab_size, seed, n_steps)
    found = study(model.double(), tokenizer, [grammar_pairs(half) for half in range(2)])
    seconds = round(time.perf_counter() - start, 1)
    return progress | found | dict(seconds=seconds) | provenance()

def train_interventions(out:str|Path,    # file of results; what it has is not run again
                        seeds:range=range(3),
                        processes:int=1, # at the same time, one thread each; 0: here
                        **sizes          # in place of `GRAMMAR_TRAINING`, to try it out
                       )->list[dict]:
    "Raises `InputError` where a line of the file has other settings"
    sizes = GRAMMAR_TRAINING | sizes
    jobs = {('grammar', seed): (seed, *sizes.values()) for seed in seeds}
    settings = dict(grammar=fingerprint([GRAMMAR_MODEL, sizes, OBJECTS]))
    def show(result): return f"kept {result['kept']}, {result['word']}"
    return run_missing(out, train_and_study, jobs, settings, processes, show)

if __name__ == '__main__': main(__doc__, train_interventions, processes=1)
