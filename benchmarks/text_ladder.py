#!/usr/bin/env python3
"""The ladder of text: what label smoothing, one head and dropout are worth on 4,000,
8,000, 16,000 and all 29,000 captions (chapter 18; rule in nbs/results/RULES.md).

    python benchmarks/text_ladder.py --out nbs/results/text_ladder.jsonl
    python benchmarks/text_ladder.py --out nbs/results/text_ladder.jsonl --verdict_only

The first goes on where it was stopped, the main question first: base and no smoothing on
all amounts, seed by seed; then both with as many passes as 8,000 captions get; then one
head; then dropout. A seed draws its captions, each amount within the next; all rows of a
seed see the same. One tokenizer, of all captions, so that every loss has the same unit. A
line has the loss of each validation caption, in nats, in the order of the file.
"""
import json, time
from functools import cache, partial
from math import isnan, nan
from pathlib import Path
from random import Random
import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformer_nb.checkpoint import fingerprint
from transformer_nb.support.core import PAD, provenance
from transformer_nb.corpora import load_corpus
from transformer_nb.data import TokenBatches
from transformer_nb.judging import has_diverged, mean_interval
from transformer_nb.studies import variations as v
from transformer_nb.training import token_loss, train_steps
from runs import main, read_results, run_missing

ROWS = {'base': {}, 'D-ls0': dict(label_smoothing=0.), 'A1': v.ROWS['A1'],
        'D-drop0': dict(dropout=0.), 'D-drop0.3': dict(dropout=0.3)}
AMOUNTS = 4000, 8000, 16000, 29000
SEEDS = range(7)
N_STEPS = 1000
NAMES = 'row', 'amount', 'steps', 'seed' # of a run
SAME_STEPS = dict.fromkeys(AMOUNTS, N_STEPS)
SAME_PASSES = {n: round(N_STEPS * n/8000) for n in AMOUNTS} # as many as 8,000 have

def jobs():
    "Row, amount, steps and seed of every run, in their order"
    fixed = SAME_STEPS
    parts = [(['base', 'D-ls0'], fixed), (['base', 'D-ls0'], SAME_PASSES), (['A1'], fixed),
             (['D-drop0'], fixed), (['D-drop0.3'], fixed)]
    found = [(row, n, steps[n], seed) for rows, steps in parts for seed in SEEDS
             for n in AMOUNTS for row in rows]
    return list(dict.fromkeys(found)) # each once

@cache
def task(data_dir): # number of tokens in the vocabulary, encoded pairs of each split
    corpus = load_corpus('multi30k', 'en', 'de', data_dir)
    corpus = {split: list(corpus[split]) for split in ('train', 'valid', 'test')}
    tokenizer, train, valid = v.prepare_task(corpus)
    test = v.encode_pairs(corpus['test'], tokenizer, v.BASE['max_len'])[0]
    return tokenizer.vocab_size, dict(train=train, valid=valid, test=test)

@torch.no_grad()
def nats_of_captions(model, pairs):
    "The loss of each pair, added up over its labels, and how many there are"
    batches, nats = TokenBatches(pairs, 4096), np.empty(len(pairs))
    for rows in batches.plan(0):
        batch = batches.batch(rows)
        logits = model(batch.src, batch.tgt).transpose(1, 2)
        losses = cross_entropy(logits, batch.labels, ignore_index=PAD, reduction='none')
        nats[rows] = losses.sum(1)
    return nats, np.array([len(target) + 1 for _, target in pairs])

def train(row, amount, n_steps, seed, data_dir):
    start, changes = time.process_time(), ROWS[row]
    vocab_size, pairs = task(data_dir)
    text = Random(seed).sample(pairs['train'], len(pairs['train']))[:amount]
    model = v.seeded(partial(v.build_row, changes, vocab_size), seed)
    batches = TokenBatches(text, v.BATCH_TOKENS, seed)
    smoothing = (v.BASE | changes)['label_smoothing']
    result, _ = train_steps(
        model, v.row_optimizer(model, changes), batches, n_steps,
        partial(v.row_lr, changes), partial(token_loss, label_smoothing=smoothing))
    result['passes'] = round(n_steps / len(batches.plan(0)), 2)
    nats, tokens = nats_of_captions(model.eval(), pairs['valid'])
    for split, some in ('test', pairs['test']), ('train', text[:1000]):
        losses, labels = nats_of_captions(model, some)
        result[f'{split}_loss'] = round(float(losses.sum() / labels.sum()), 5)
    result['valid_loss'] = round(float(nats.sum() / tokens.sum()), 5)
    result['captions'] = [round(x, 2) for x in nats.tolist()]
    return result | dict(cpu_seconds=round(time.process_time() - start, 1)) | provenance()

def differences(results, row, steps):
    "Row minus base of each seed, by amount: mean, interval and word beside it"
    loss = {tuple(r[name] for name in NAMES): nan if has_diverged(r) else r['valid_loss']
            for r in results}
    def one(n): return [loss[row, n, steps[n], seed] - loss['base', n, steps[n], seed]
                        for seed in SEEDS]
    table = {n: one(n) for n in AMOUNTS}
    def interval(d): # by Bonferroni
        return [nan]*3 if any(map(isnan, d)) else mean_interval(d, 1 - .05/len(AMOUNTS))
    intervals = {n: interval(d) for n, d in table.items()}
    return table, intervals, {n: word(*x) for n, x in intervals.items()}

def word(mean, low, high):
    if isnan(mean): return 'diverges'
    return 'worse' if low > 0 else 'better' if high < 0 else 'no difference found'

def over_all(words): # of one row, by amount
    if {'worse', 'better'} <= set(words.values()): return 'depends on the amount of text'
    [first, *others] = set(words.values())
    return 'not decided over all amounts' if others else f'{first} with every amount'

def crossing(table):
    "Amounts whose mean difference is 0, and all that a test at 5 % does not refuse"
    amounts = np.geomspace(AMOUNTS[0], AMOUNTS[-1], 2001)
    by_seed = np.array([np.interp(np.log(amounts), np.log(AMOUNTS), d)
                        for d in np.transpose(list(table.values()))])
    mean, low, high = np.transpose([mean_interval(d) for d in by_seed.T])
    possible = amounts[(low <= 0) & (high >= 0)]
    return amounts[1:][mean[1:] * mean[:-1] <= 0], possible[[0, -1]]

def slope(table): # of the difference: nats per doubling of the text
    slopes = np.polyfit(np.log2(AMOUNTS), list(table.values()), 1)[0]
    return mean_interval(slopes, 1 - .05/2)

def show_row(results, row, title, steps):
    pairs = [(x, n, steps[n], s) for x in ('base', row) for n in AMOUNTS for s in SEEDS]
    done = {tuple(r[name] for name in NAMES) for r in results}
    missing = len(set(pairs) - done)
    print(f'{row}, {title} fixed:', f'{missing} of {len(pairs)} runs are missing'
          if missing else '')
    if missing: return
    table, intervals, words = differences(results, row, steps)
    for n, (mean, low, high) in intervals.items():
        print(f'  {n:6,} {mean:+.4f} [{low:+.4f}, {high:+.4f}] {words[n]}')
    print(' ', over_all(words))
    if 'diverges' in words.values(): return
    mean, low, high = slope(table)
    print(f'  per doubling {mean:+.4f} [{low:+.4f}, {high:+.4f}]')
    if over_all(words).startswith('depends'):
        at, (first, last) = crossing(table)
        print('  crosses at', *map(round, at), f'[{first:.0f}, {last:.0f}] captions')

def verdict(out):
    results = read_results(out)
    for row in list(ROWS)[1:]: show_row(results, row, 'steps', SAME_STEPS)
    show_row(results, 'D-ls0', 'passes', SAME_PASSES)

def train_ladder(out, processes, verdict_only, data_dir):
    if verdict_only: return verdict(out)
    torch.set_num_threads(1)
    _, pairs = task(data_dir)
    tokens = [len(target) + 1 for _, target in pairs['valid']]
    Path(out).with_suffix('.tokens.json').write_text(json.dumps(tokens) + '\n')
    given = fingerprint([pairs, v.BATCH_TOKENS, v.PEAK_LR, v.WARMUP_STEPS])
    settings = {row: fingerprint([v.BASE | x, given]) for row, x in ROWS.items()}
    wanted = {job: (*job, data_dir) for job in jobs()}
    def show(r): return f"{r['valid_loss']} nats, {r['cpu_seconds']} CPU seconds"
    run_missing(out, train, wanted, settings, processes, show, NAMES)
    verdict(out)

if __name__ == '__main__':
    main(__doc__, train_ladder, 0, data_dir=dict(help='folder with the corpus'),
         verdict_only=dict(action='store_true', help='of what is there alone'))
