#!/usr/bin/env python3
"""The trainings of chapter 16: do heads follow dependencies whose place is known?

    python benchmarks/train_roles.py --out head_roles.jsonl [--models FOLDER]

Three seeds translate German into English, and three English into German. In each model the
heads are chosen on one half of the labeled sentences and scored on the other, beside
baselines that follow nothing. The rule stands in nbs/results/RULES.md. What the file
already has is not trained again.
"""
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import NormalDist, fmean
import torch
from torch import Tensor
from transformer_nb.checkpoint import fingerprint, save_model
from transformer_nb.support.core import provenance
from transformer_nb.data import Ids, encode_pairs, make_batch
from transformer_nb.decoding import search
from transformer_nb.evaluation import score
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.model import Transformer, attention_weights
from transformer_nb.studies.attention_maps import (
    FAR, GRAMMAR_MODEL, GRAMMAR_STEPS, LEARNING, Cases, Half, Pairs, encode_labeled,
    find_cases, flat, grammar_tokenizer, head_hits, judge_task, labeled_pairs,
    new_grammar_model, redundancy, rounded, specialization, train_grammar_model)
from transformer_nb.text import WordTokenizer
from runs import main, run_missing

FEWEST = 100 # cases in each half, for a task to be judged

def tasks_of(halves:tuple[Half,Half], place:str, distances:str)->list[tuple]: # with enough
    def enough(half, key): return int(half.pick(key, distances).sum()) >= FEWEST
    shared = [key for key in halves[0].cases if key in halves[1].cases]
    return [key for key in shared
            if key[0] == place and all(enough(half, key) for half in halves)]

def judge_place(halves:tuple[Half,Half], place:str)->dict:
    "Intervals hold together for all far tasks of the place (Bonferroni)"
    n_far = max(len(tasks_of(halves, place, 'far')), 1)
    z = NormalDist().inv_cdf(1 - 0.05 / (2 * n_far))
    tasks = []
    for distances in ('far', 'near'):
        for key in tasks_of(halves, place, distances):
            judged = judge_task(*halves, key, distances, z)
            tasks.append(dict(task=key[1]) | judged | profile(halves[1], key, distances))
    special = {x: special_of(halves, place, x) for x in ('all', 'far')}
    return dict(tests=n_far, tasks=tasks, specialization=special)

def profile(half:Half, key:tuple, distances:str)->dict: # hit rate of every head (N·h)
    return dict(heads=rounded(flat(half.hits[key][half.pick(key, distances)]).mean(0)))

def special_of(halves:tuple[Half,Half], place:str, distances:str)->dict|None:
    "Of the trained model with its standard error, and of the untrained ones"
    keys = tasks_of(halves, place, distances)
    if len(keys) < 2: return None
    trained = specialization(*halves, *(half.hits for half in halves), keys, distances)
    pairs = zip(*(half.untrained for half in halves))
    untrained = [specialization(*halves, a, b, keys, distances)[0] for a, b in pairs]
    return dict(tasks=len(keys), mean=round(trained[0], 4), error=round(trained[1], 5),
                untrained=[round(x, 4) for x in untrained])

def costs_where(costs:Tensor, # (heads, n)
                 full:Tensor,  # (n, 2)
                 half:Half)->dict[str,list]:
    "Of each far task of the encoder, what each head costs in the sentences that have it"
    by_task = {}
    for place, task in half.cases:
        if place != 'encoder' or not task.endswith('→'): continue
        sentence = half.cases[place, task][half.pick((place, task), 'far')][:, 0].unique()
        sentence = sentence[sentence < len(full)]
        if not len(sentence): continue
        rise = costs[:, sentence].sum(1) / full[sentence, 1].sum()
        by_task[task] = dict(sentences=len(sentence), costs=rounded(rise))
    return by_task

def translation_scores(model:Transformer, tokenizer:WordTokenizer, pairs:Pairs)->dict:
    "BLEU of greedy translations, and the share that is right word for word"
    results = search(model, [tokenizer.encode(source.text) for source, _ in pairs],
                   beam_size=1)
    translations = [tokenizer.decode(best.ids) for [best] in results]
    references = [target.text for _, target in pairs]
    exact = fmean(a == b for a, b in zip(translations, references))
    scores = score(translations, references)
    return dict(bleu=scores['bleu'], exact=round(exact, 4),
                signature=scores['signatures']['bleu'])

def examples_of(model:Transformer, pairs:Pairs, ids:list[Ids], half:Half, tasks:list[dict]
             )->list[dict]: # one map for each far task of the encoder
    examples = []
    for task in tasks:
        key = 'encoder', task['task']
        cases = half.cases[key][half.pick(key, 'far')]
        n, row, column, _ = cases[0].tolist()
        batch = make_batch([ids[n]])
        layer, head = task['head']
        weights = attention_weights(model, batch.src, batch.tgt)['encoder'][layer, 0, head]
        examples.append(dict(task=task['task'], head=task['head'], words=pairs[n][0].words,
                          row=row, column=column,
                          weights=torch.round(weights, decimals=2).tolist()))
    return examples

@dataclass
class RolesSetup:
    "What all runs of one direction share"
    tokenizer: WordTokenizer
    train: list[Ids]
    pairs: list[Pairs]     # of the choosing half and of the scoring half
    ids: list[list[Ids]]   # the same, encoded
    cases: list[Cases]

def prepare_roles(direction:str,       # 'de-en' or 'en-de'
                  n_train:int=22_000,
                  n_labeled:int=2_000, # sentences of each half
                 )->RolesSetup:
    corpus = mini_corpus(0, n_train, 0, 0)
    tokenizer = grammar_tokenizer(corpus)
    texts = corpus['train']
    if direction == 'en-de': texts = [(english, german) for german, english in texts]
    train, _ = encode_pairs(texts, tokenizer, GRAMMAR_MODEL['max_len'])
    pairs = [labeled_pairs(split, n_labeled, tokenizer, direction)
             for split in ('valid', 'test')]
    ids = [encode_labeled(half, tokenizer) for half in pairs]
    return RolesSetup(tokenizer, train, pairs, ids, [find_cases(half) for half in pairs])

def half_of(setup:RolesSetup, n:int, model:Transformer, untrained:list[Transformer])->Half:
    ids, cases = setup.ids[n], setup.cases[n]
    src = torch.tensor([len(s) + 1 for s, _ in ids])
    tgt = torch.tensor([len(t) + 1 for _, t in ids])
    def only_hits(m): return {key: x[:, :1] for key, x in head_hits(m, ids, cases).items()}
    return Half(cases, dict(encoder=src, decoder=tgt, cross=src),
                head_hits(model, ids, cases), [only_hits(m) for m in untrained])

PLACES = 'encoder', 'decoder reads', 'decoder predicts', 'cross reads', 'cross predicts'

def measure_roles(model:Transformer, setup:RolesSetup, seed:int,
                  n_untrained:int=10,
                  n_losses:int=1_000, # sentences of each half for the costs of heads
                 )->dict:             # everything that the rule needs
    vocab_size = setup.tokenizer.vocab_size
    seeds = range(1000 * seed + 1000, 1000 * seed + 1000 + n_untrained)
    untrained = [new_grammar_model(vocab_size, k) for k in seeds]
    halves = tuple(half_of(setup, n, model, untrained) for n in range(2))
    places = {place: judge_place(halves, place) for place in PLACES}
    batches = [[make_batch(ids[i:i + 200]) for i in range(0, min(len(ids), n_losses), 200)]
               for ids in setup.ids]
    removal, costs, full = redundancy(model, *batches, seed)
    far = [t for t in places['encoder']['tasks'] if t['distances'] == 'far']
    examples = examples_of(model, setup.pairs[1], setup.ids[1], halves[1], far)
    return dict(places=places, redundancy=removal, examples=examples,
                costs_where=costs_where(costs, full, halves[1]))

def train_roles(direction:str, seed:int, n_steps:int, sizes:dict, models:Path|None)->dict:
    torch.set_num_threads(1)
    start = time.perf_counter()
    setup = prepare_roles(direction, sizes['n_train'], sizes['n_labeled'])
    tokenizer = setup.tokenizer
    model, result = train_grammar_model(setup.train, tokenizer.vocab_size, seed, n_steps)
    trained = time.perf_counter()
    result |= translation_scores(model, tokenizer, setup.pairs[1][:500])
    result |= dict(parameters=sum(p.numel() for p in model.parameters()),
                   vocab_size=tokenizer.vocab_size)
    result |= measure_roles(model, setup, seed, sizes['n_untrained'], sizes['n_losses'])
    if models: save_model(models/f'{direction}-{seed}', model, tokenizer)
    seconds = [round(trained - start, 1), round(time.perf_counter() - trained, 1)]
    return result | dict(seconds=seconds) | provenance()

SIZES = dict(n_train=22_000, n_labeled=2_000, n_untrained=10, n_losses=1_000)

def train_head_roles(out:str|Path,     # file of results; what it has is not trained again
                     seeds:range=range(3),
                     processes:int=2,  # at the same time, one thread each; 0: here
                     n_steps:int=GRAMMAR_STEPS,
                     models:str|Path|None=None, # folder for the models
                     **sizes           # in place of `SIZES`, to try it out
                    )->list[dict]:     # all results in the file
    "Seed by seed. Raises `InputError` where a line of the file has other settings"
    sizes = SIZES | sizes
    directions = 'de-en', 'en-de'
    same = fingerprint([GRAMMAR_MODEL, LEARNING, n_steps, sizes, FAR, FEWEST])
    rest = n_steps, sizes, models and Path(models)
    jobs = {(direction, seed): (direction, seed, *rest)
            for seed, direction in product(seeds, directions)}
    def show(result): return f"BLEU {result['bleu']:.1f}"
    settings = dict.fromkeys(directions, same)
    return run_missing(out, train_roles, jobs, settings, processes, show)

if __name__ == '__main__':
    main(__doc__, train_head_roles,
         models=dict(type=Path, help='folder for the six models'))
