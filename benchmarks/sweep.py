#!/usr/bin/env python3
"""Short trainings that choose the recipe of chapter 15, on validation data alone.

    python benchmarks/sweep.py --out recipes.jsonl --start_steps 4168
    python benchmarks/sweep.py --out recipes.jsonl --start_steps 13893 --longer

Every recipe gets the same processor time: as many steps as cost what those of *start* do,
by steps of both in turns. A line of the file has the recipe, its steps and what the
validation set says. A recipe that the file already has is not trained again.
"""
import argparse, time
from functools import partial
from math import exp
from pathlib import Path
from statistics import median
import torch
from torch.nn import functional as F
from transformer_nb.core import PAD, default_device, provenance, set_seed
from transformer_nb.corpora import load_corpus
from transformer_nb.data import Batch, TokenBatches, encode_pairs
from transformer_nb.decoding import search
from transformer_nb.distributed import run_missing
from transformer_nb.evaluation import score
from transformer_nb.fast import accelerate
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import (
    adam, adamw, inverse_sqrt_lr, linear_lr, set_lr, smoothed_loss)
from transformer_nb.text import BPETokenizer
from transformer_nb.training import train_steps, valid_loss

START = dict(vocab_size=6000, batch_tokens=1024, lr=3e-3, warmup=1000, dropout=0.2,
             schedule='linear', bpe_dropout=0., r_drop=0., d_ff=256, label_smoothing=0.1,
             weight_decay=0.)
RECIPES = {
    'start': {},
    'inverse square root': dict(schedule='inverse sqrt', lr=5e-3),
    'dropout 0.1': dict(dropout=0.1),
    'dropout 0.3': dict(dropout=0.3),
    'batch 2,048': dict(batch_tokens=2048, lr=4e-3),
    'lr 5e-3': dict(lr=5e-3),
    'vocabulary 4,000': dict(vocab_size=4000),
    'vocabulary 10,000': dict(vocab_size=10_000),
    'd_ff 512': dict(d_ff=512),
    'BPE-dropout 0.1': dict(bpe_dropout=0.1),
    'BPE-dropout 0.05': dict(bpe_dropout=0.05),
    'R-Drop 1': dict(r_drop=1.),
    'weight decay 0.1': dict(weight_decay=0.1)}
BETTER = dict(dropout=0.1, weight_decay=0.1) # by the first stage
LONGER = {
    'longer': BETTER,
    'longer, dropout 0.2': BETTER | dict(dropout=0.2),
    'longer, BPE-dropout 0.1': BETTER | dict(bpe_dropout=0.1),
    'longer, dropout 0.2, BPE-dropout 0.1': BETTER | dict(dropout=0.2, bpe_dropout=0.1)}
N_TIMED = 40    # steps whose median time says how many fit
N_ENCODINGS = 8 # by BPE-dropout; epoch n uses number n modulo 8

# The data

class ManyEncodings(TokenBatches):
    "Each epoch has the next of several encodings of the same pairs (BPE-dropout)"
    def __init__(self, encodings, batch_tokens, seed):
        all_pairs = [pair for pairs in encodings for pair in pairs]
        super().__init__(all_pairs, batch_tokens, seed)
        self.parts = [TokenBatches(pairs, batch_tokens, seed) for pairs in encodings]
        self.starts = [sum(map(len, encodings[:i])) for i in range(len(encodings))]

    def plan(self, n):
        part = n % len(self.parts)
        return [rows + self.starts[part] for rows in self.parts[part].plan(n)]

def encode_train(pairs, tokenizer, recipe, max_len):
    if not recipe['bpe_dropout']: return [encode_pairs(pairs, tokenizer, max_len)[0]]
    model = tokenizer.tokenizer.model
    model.dropout = recipe['bpe_dropout']
    tokenizer.tokenizer.model = model
    found = [encode_pairs(pairs, tokenizer, max_len)[0] for _ in range(N_ENCODINGS)]
    model.dropout = None
    tokenizer.tokenizer.model = model
    return found

# The training

def twice(batch):
    "Every pair two times: dropout will treat the two differently"
    doubled = [torch.cat([x, x]) for x in (batch.src, batch.tgt, batch.labels)]
    return Batch(*doubled, 2 * batch.n_tokens)

def r_drop(logits, labels):
    "Half the divergences between the two halves, both ways, summed over the tokens"
    first, second = logits.log_softmax(-1).chunk(2)
    there = F.kl_div(first, second, reduction='none', log_target=True).sum(-1)
    back = F.kl_div(second, first, reduction='none', log_target=True).sum(-1)
    is_token = labels.chunk(2)[0] != PAD
    return ((there + back) * is_token).sum() / 2

def loss_of(model, batch, recipe):
    if not recipe['r_drop']:
        total = smoothed_loss(model(batch.src, batch.tgt), batch.labels,
                              recipe['label_smoothing'])
        return total / batch.n_tokens
    batch = twice(batch)
    logits = model(batch.src, batch.tgt)
    total = smoothed_loss(logits, batch.labels, recipe['label_smoothing'])
    total += 2 * recipe['r_drop'] * r_drop(logits, batch.labels) # as often as the loss
    return total / batch.n_tokens

def lr_of(step, recipe, n_steps):
    warmup = max(1, min(recipe['warmup'], n_steps // 4))
    if recipe['schedule'] == 'linear': return linear_lr(step, recipe['lr'], warmup, n_steps)
    return inverse_sqrt_lr(step, recipe['lr'], warmup)

def steps(batches):
    epoch = 0
    while True:
        for rows in batches.plan(epoch): yield batches.batch(rows)
        epoch += 1

def take_step(model, optimizer, batch, recipe, lr):
    set_lr(optimizer, lr)
    loss = loss_of(model, batch.to(default_device()), recipe)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss

def step_costs(recipes, corpus):
    "Median processor time of a step with a learning rate of zero; all recipes take turns"
    trainings = [prepare(recipe, corpus) for recipe in recipes]
    streams = [steps(batches) for *_, batches in trainings]
    times = [[] for _ in recipes]
    for _ in range(N_TIMED):
        for i, (_, model, optimizer, _) in enumerate(trainings):
            batch = next(streams[i])
            start = time.process_time()
            take_step(model, optimizer, batch, recipes[i], 0.)
            times[i].append(time.process_time() - start)
    return [median(x) for x in times]

def count_steps(recipe, corpus, start_steps):
    of_start, cost = step_costs([START, recipe], corpus)
    return int(start_steps * of_start / cost)

def build(recipe, vocab_size):
    set_seed(0)
    config = TransformerConfig.tiny(vocab_size, dropout=recipe['dropout'],
                                    d_ff=recipe['d_ff'], max_len=256)
    model = accelerate(Transformer(config)).to(default_device())
    if not recipe['weight_decay']: return model, adam(model, fused=True)
    return model, adamw(model, recipe['weight_decay'], fused=True)

def prepare(recipe, corpus):
    "A tokenizer, a new model, its optimizer, and batches"
    texts = [text for pair in corpus['train'] for text in pair]
    tokenizer = BPETokenizer.train(texts, recipe['vocab_size'])
    encodings = encode_train(corpus['train'], tokenizer, recipe, 256)
    batches = ManyEncodings(encodings, recipe['batch_tokens'], 0)
    return tokenizer, *build(recipe, tokenizer.vocab_size), batches

def train(recipe, corpus, start_steps):
    n_steps = count_steps(recipe, corpus, start_steps)
    start = time.process_time()
    tokenizer, model, optimizer, batches = prepare(recipe, corpus)
    set_seed(0)
    n_tokens = 0
    def loss(model, batch):
        nonlocal n_tokens
        n_tokens += batch.n_tokens
        return loss_of(model, batch, recipe)
    lr = partial(lr_of, recipe=recipe, n_steps=n_steps)
    train_steps(model, optimizer, batches, n_steps, lr, loss)
    used = (time.process_time() - start) / 60
    found = validate(model.eval(), tokenizer, corpus['valid'])
    parameters = sum(p.numel() for p in model.parameters())
    return dict(parameters=parameters, steps=n_steps,
                target_tokens=n_tokens, minutes=round(used, 1)) | found | provenance()

def validate(model, tokenizer, pairs):
    "Loss in nats per sentence, since vocabularies differ; BLEU by the search of chapter 15"
    encoded, _ = encode_pairs(pairs, tokenizer, 256)
    batches = [b.to(default_device()) for b in TokenBatches(encoded, 4096).epoch(0)]
    loss = valid_loss(model, batches)
    per_sentence = loss * sum(b.n_tokens for b in batches) / len(encoded)
    sources = [tokenizer.encode(source) for source, _ in pairs]
    found = search(model, sentences=sources, beam_size=5, alpha=1.4)
    translations = [tokenizer.decode(best.ids) for best, *_ in found]
    scores = score(translations, [reference for _, reference in pairs], lang='de')
    return dict(valid_loss=round(loss, 4), nats_per_sentence=round(per_sentence, 2),
                ppl=round(exp(loss), 3), bleu=scores['bleu'],
                bleu_moses_lc=scores['bleu_moses_lc'])

# The command

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--out', type=Path, default=Path('recipes.jsonl'))
    parser.add_argument('--start_steps', type=int, default=4168, help='steps of start')
    parser.add_argument('--longer', action='store_true', help='the second stage')
    parser.add_argument('--processes', type=int, default=2)
    a = parser.parse_args()
    corpus = load_corpus('multi30k', 'en', 'de')
    recipes = {name: START | changes for name, changes in (RECIPES | LONGER).items()}
    jobs = {(name, 0): (recipes[name], corpus, a.start_steps)
            for name in (LONGER if a.longer else RECIPES)}
    run_missing(a.out, train, jobs, recipes, a.processes, show=dict, field='recipe')

if __name__ == '__main__': main()
