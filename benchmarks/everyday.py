#!/usr/bin/env python3
"""Short trainings that choose the recipe of the everyday model, on validation data alone.

    python benchmarks/everyday.py --out nbs/results/everyday_sweep.jsonl --minutes 20

Every recipe gets the processor time of *start*, by steps of both in turns. The rule
stands in nbs/results/RULES.md; the sentences that no training sees are those of
transformer_nb/everyday.jsonl. A recipe that the file already has is not trained again.
"""
import argparse, random, re, time
from math import exp
from pathlib import Path
from statistics import median
import torch
from transformer_nb.core import default_device, provenance, set_seed
from transformer_nb.corpora import (
    first_translations, load_corpus, rename_tom, with_other_names,
    without_everyday_sentences)
from transformer_nb.data import TokenBatches, encode_pairs
from transformer_nb.decoding import search
from transformer_nb.distributed import read_results, write_results
from transformer_nb.evaluation import score
from transformer_nb.fast import accelerate
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adamw, linear_lr, set_lr, smoothed_loss
from transformer_nb.text import BPETokenizer
from transformer_nb.training import valid_loss

START = dict(d_model=128, d_ff=512, n_heads=4, n_encoder_layers=4, n_decoder_layers=4,
             vocab_size=8000, dropout=0.1, weight_decay=0.1, batch_tokens=2048, lr=4e-3,
             warmup=500, names=True, captions=False, one_translation=False, bpe_dropout=0.)
RECIPES = {
    'start': {},
    'd 256, 3 + 3 layers': dict(d_model=256, d_ff=1024, n_encoder_layers=3,
                                n_decoder_layers=3, lr=2e-3),
    'd 192, 6 + 2 layers': dict(d_model=192, d_ff=768, n_encoder_layers=6,
                                n_decoder_layers=2, lr=3e-3),
    'vocabulary 5,000': dict(vocab_size=5000),
    'captions, too': dict(captions=True),
    'no other names': dict(names=False),
    'BPE-dropout 0.1': dict(bpe_dropout=0.1),
    'one translation': dict(one_translation=True),
    'dropout 0.2': dict(dropout=0.2),
    'invented names, too': dict(names='invented')}
MAX_LEN = 128
N_TIMED = 30     # steps whose median time says how many fit
N_ENCODINGS = 4  # by BPE-dropout, one for each epoch, then again
N_NAMED = 300    # validation pairs that ask whether a new name is copied

NEW_NAMES = """Adrian Alexander Anton Bastian Clemens Dennis Dominik Ethan Erik Gregor Guido
Henrik Ismail Jerome Jonah Kenji Kurt Leon Logan Lorenzo Malik Mason Norbert Olaf Pablo
Quentin Rainer Ravi Samuele Thorsten Valentin Wesley Yannick Zachary""".split()

# The data

def load(src_lang, tgt_lang):
    corpus = load_corpus('tatoeba', src_lang, tgt_lang)
    train = without_everyday_sentences(corpus['train'])
    captions = load_corpus('multi30k', src_lang, tgt_lang)['train']
    return corpus | dict(train=train, captions=captions)

def training_pairs(recipe, corpus):
    pairs = corpus['train']
    if recipe['one_translation']: pairs = first_translations(pairs)
    if recipe['names']:
        invented = 0.5 if recipe['names'] == 'invented' else 0.
        pairs = with_other_names(pairs, invented)
    return pairs + corpus['captions'] if recipe['captions'] else pairs

class ManyEncodings:
    "Each epoch has the next of several encodings of the same pairs"
    def __init__(self, encodings, batch_tokens):
        self.parts = [TokenBatches(pairs, batch_tokens, 0) for pairs in encodings]

    def steps(self):
        epoch = 0
        while True:
            part = self.parts[epoch % len(self.parts)]
            for rows in part.plan(epoch): yield part.batch(rows)
            epoch += 1

def encode(pairs, tokenizer, bpe_dropout):
    if not bpe_dropout: return [encode_pairs(pairs, tokenizer, MAX_LEN)[0]]
    model = tokenizer.tokenizer.model
    model.dropout = bpe_dropout
    tokenizer.tokenizer.model = model
    encodings = [encode_pairs(pairs, tokenizer, MAX_LEN)[0] for _ in range(N_ENCODINGS)]
    model.dropout = None
    tokenizer.tokenizer.model = model
    return encodings

# The training

SIZES = 'd_model', 'd_ff', 'n_heads', 'n_encoder_layers', 'n_decoder_layers', 'dropout'

def prepare(recipe, corpus):
    "A tokenizer, a new model, its optimizer, and batches"
    pairs = training_pairs(recipe, corpus)
    texts = [text for pair in pairs for text in pair]
    tokenizer = BPETokenizer.train(texts, recipe['vocab_size'])
    batches = ManyEncodings(encode(pairs, tokenizer, recipe['bpe_dropout']),
                            recipe['batch_tokens'])
    set_seed(0)
    sizes = {name: recipe[name] for name in SIZES}
    config = TransformerConfig(tokenizer.vocab_size, max_len=MAX_LEN, **sizes)
    model = accelerate(Transformer(config)).to(default_device())
    optimizer = adamw(model, recipe['weight_decay'], fused=True)
    return tokenizer, model, optimizer, batches

def take_step(model, optimizer, batch, lr):
    set_lr(optimizer, lr)
    batch = batch.to(default_device())
    total = smoothed_loss(model(batch.src, batch.tgt), batch.labels, 0.1)
    (total / batch.n_tokens).backward()
    optimizer.step()
    optimizer.zero_grad()

def step_cost(trainings):
    "Median processor seconds of a step of each, with a learning rate of zero, in turns"
    streams = [batches.steps() for *_, batches in trainings]
    times = [[] for _ in trainings]
    for _ in range(N_TIMED):
        for i, (_, model, optimizer, _) in enumerate(trainings):
            batch = next(streams[i])
            start = time.process_time()
            take_step(model, optimizer, batch, 0.)
            times[i].append(time.process_time() - start)
    return [median(x) for x in times]

def train(recipe, corpus, start_steps):
    n_steps = start_steps
    if recipe != START:
        of_start, cost = step_cost([prepare(START, corpus), prepare(recipe, corpus)])
        n_steps = int(start_steps * of_start / cost)
    tokenizer, model, optimizer, batches = prepare(recipe, corpus)
    set_seed(0)
    start = time.process_time()
    n_tokens = 0
    for step, batch in zip(range(1, n_steps + 1), batches.steps()):
        take_step(model, optimizer, batch,
                  linear_lr(step, recipe['lr'], recipe['warmup'], n_steps))
        n_tokens += batch.n_tokens
    used = (time.process_time() - start) / 60
    scores = validate(model.eval(), tokenizer, corpus['valid'])
    return dict(recipe=recipe, parameters=sum(p.numel() for p in model.parameters()),
                steps=n_steps, target_tokens=n_tokens, minutes=round(used, 1)
               ) | scores | provenance()

# The report

def translate(model, tokenizer, sources):
    ids = [tokenizer.encode(source) for source in sources]
    found = search(model, sentences=ids, beam_size=4, alpha=0.6)
    return [tokenizer.decode(best.ids) for best, *_ in found]

def copied_names(model, tokenizer, pairs):
    "Share of translations that have the name, of sentences whose Tom has a new name"
    draws = random.Random(1)
    with_tom = [pair for pair in pairs if rename_tom(pair, 'x') != pair][:N_NAMED]
    names = [draws.choice(NEW_NAMES) for _ in with_tom]
    sources = [rename_tom(pair, name)[0] for pair, name in zip(with_tom, names)]
    translations = translate(model, tokenizer, sources)
    hits = [bool(re.search(rf'\b{name}s?\b', text))
            for name, text in zip(names, translations)]
    return sum(hits) / len(hits)

def validate(model, tokenizer, pairs):
    "Loss in nats per sentence, since vocabularies differ; BLEU by the paper's search"
    encoded, _ = encode_pairs(pairs, tokenizer, MAX_LEN)
    batches = [b.to(default_device()) for b in TokenBatches(encoded, 4096).epoch(0)]
    loss = valid_loss(model, batches)
    per_sentence = loss * sum(b.n_tokens for b in batches) / len(encoded)
    translations = translate(model, tokenizer, [source for source, _ in pairs])
    scores = score(translations, [reference for _, reference in pairs])
    return dict(valid_loss=round(loss, 4), nats_per_sentence=round(per_sentence, 3),
                ppl=round(exp(loss), 3), bleu=scores['bleu'], chrf=scores['chrf'],
                names_copied=round(copied_names(model, tokenizer, pairs), 3))

def start_steps(minutes, corpus):
    [cost] = step_cost([prepare(START, corpus)])
    return int(60 * minutes / cost)

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--minutes', type=float, default=20., help='of start')
    parser.add_argument('--steps', type=int, help='of start, instead of minutes')
    parser.add_argument('--only', nargs='*', default=list(RECIPES))
    a = parser.parse_args()
    torch.set_num_threads(1)
    corpus = load('en', 'de')
    results = read_results(a.out)
    done = {result['row']: result for result in results}
    n_steps = a.steps or (done['start']['steps'] if 'start' in done
                          else start_steps(a.minutes, corpus))
    for name in a.only:
        if name in done: continue
        result = train(START | RECIPES[name], corpus, n_steps)
        results.append(dict(row=name, seed=0) | result)
        write_results(a.out, results)
        print(name, result, flush=True)

if __name__ == '__main__': main()
