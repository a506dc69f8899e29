#!/usr/bin/env python3
"""The small tasks of chapters 00 to 07a with ten seeds; the chapters print up to three.

    python benchmarks/small_tasks.py               # two hours of one core
    python benchmarks/small_tasks.py 02 03         # with one of these in their names
    python benchmarks/small_tasks.py 02 --end 3    # seeds 0 to 2 alone

The code is that of the chapters: the cells named below are run, and what they define is
trained. Adds to nbs/results/small_tasks.jsonl the runs that it lacks.
"""
import argparse, json, os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
import torch
from transformer_nb.attention import learn_sentences
from transformer_nb.support.core import provenance, set_seed
from transformer_nb.embedding import PositionalEncoding
from transformer_nb.lessons.digits import learn_digits, share_exact
from transformer_nb.multihead import DigitModel
from transformer_nb.support.notebook import swap
from runs import run_missing

NBS = Path(__file__).parents[1]/'nbs'
FILE = NBS/'results/small_tasks.jsonl'

CELLS = { # that define the task, by their ids; import cells come first
    '00_introduction': 'i00imports i00copyi i00gru i00curvd i00lookback',
    '01_attention': '14b5ecfd 5bf48901 w01lad02 w01lad3a w01lad06',
    '02_multihead': '878e7bbf 8a07b8fc w02lad00 w02lay01',
    '03_layers': 'dea5d63d 6ee2bcd0 w03nopat w03lad02 w03clock0 w03clock1 w03drop1',
    '04_embedding': '46dc3ebc c5b69af7 w04lad02',
    '05_model': 'b7279186 8d884e8f w05seeal w05lad02',
    '06_optimizer': '9cfcb705 718536d4 p4need01',
    '07_copy_task': '8d6d145a 8dc561da',
    '07a_without_a_source': 'w7aimpor w7awrite w7acheck w7asampl w7alearn'}

@cache
def chapter(name):
    "What the module of a chapter and its cells define"
    module = f"transformer_nb.{name.partition('_')[2]}"
    found = dict(vars(import_module(module))) if find_spec(module) else {}
    notebook = json.loads((NBS/f'{name}.ipynb').read_text(encoding='utf8'))
    sources = {cell['id']: ''.join(cell['source']) for cell in notebook['cells']}
    for key in CELLS[name].split(): exec(sources[key], found)
    return SimpleNamespace(**found)

def digits(make, task, **options): # percent; both are given the chapter
    def run(c, seed):
        set_seed(seed)
        model = DigitModel(*make(c))
        learn_digits(model, task(c), **options)
        return 100 * share_exact(model, task(c))
    return run

def looks_up(kind):
    def run(c, seed):
        def attend(d_k):
            if kind == 'table': return c.Table()
            return c.average if kind == 'average' else c.scaled_dot_product_attention
        _, right = c.learn(16, attend, seed)
        return 100 * right[-50:].mean().item()
    return run

def who_bites(positions):
    return lambda c, seed: 100 * c.share_right(seed, positions(c))

def writes(masked):
    def run(c, seed):
        if masked: writer, _ = c.train_writer(seed)
        else:
            with swap(c.causal_mask, c.see_all):
                writer, _ = c.train_writer(seed)
                return 100 * c.share_written(writer)
        return 100 * c.share_written(writer)
    return run

def copies(make, steps): # percent, for each length from 4 to 12
    def run(c, seed):
        set_seed(seed)
        copier = getattr(c, make)()
        c.train_copy(copier, steps, longest=12)
        return list(c.exact_by_length(copier).values())
    return run

def exact(c, model, seqs): # percent
    return 100 * c.exact_match(model, seqs).float().mean().item()

def repeats_without_mask(c, seed):
    set_seed(seed)
    model = c.copy_model()
    with swap(c.causal_mask, chapter('05_model').see_all):
        c.train_copy(model, steps=400, longest=6)
        return exact(c, model, c.draw_sequences(500, held_out=True, longest=6))

def repeats_without_positions(c, seed): # and what chance alone would give
    set_seed(seed)
    model = c.copy_model()
    model.src_positions = torch.nn.Identity()
    c.train_copy(model, steps=600, longest=5)
    seqs = c.draw_sequences(500, held_out=True, longest=5)
    return [exact(c, model, seqs), 100 * (1 / c.orders(seqs)).mean().item()]

def two_layers(norm): # nats per character, after the ladder's 500 steps at thrice its rate
    def run(c, seed):
        set_seed(10 + seed) # others had been seen before the rule
        layers = [c.Block() if norm else c.ResidualBlock() for _ in range(2)]
        if norm == 'pre':
            for layer in layers:
                for around in layer.around: around.pre = True
            layers.append(torch.nn.LayerNorm(64))
        places = PositionalEncoding(64, 0., max_len=64)
        model = c.SentenceModel(torch.nn.Sequential(places, *layers))
        train, held_out = c.ladder_text()
        learn_sentences(model, train, peak=0.03)
        return c.held_out_loss(model, held_out)
    return run

def goes_on(steps, one_matrix=False): # nats per character, by the chapter's own loop
    def run(c, seed):
        set_seed(seed)
        writer = c.Writer(c.small)
        if one_matrix:
            del writer.score
            writer.score = writer.embedding.logits
        train, held_out = c.ladder_text()
        c.learn(writer, train, steps)
        return c.held_out_loss(writer, held_out)
    return run

def counts(lr, climb=1): # nats, mean of the last twenty of 200 steps
    return lambda c, seed: c.at_end(c.train_to_count(lr, climb, seed))

def stack(around): return lambda c: (c.Layers(getattr(c, around)),)
def copied(c): return c.copied
def differences(c): return c.differences
def on_a_clock(c): return c.on_a_clock

TASKS = { # row: what a run of it measures
    '00 one vector, 4 × the steps': copies('RecurrentCopier', 2400),
    '00 one vector, 16 × the steps': copies('RecurrentCopier', 9600),
    '00 looking back': copies('LookingBack', 600),
    '01 average': looks_up('average'),
    '01 table': looks_up('table'),
    '01 attention': looks_up('attention'),
    '02 one head subtracts': digits(
        lambda c: (c.bare(1), 19), differences, steps=300),
    '02 two heads subtract': digits(
        lambda c: (c.bare(2), 19), differences, steps=300),
    '02 one head adds': digits(
        lambda c: (c.bare(1), 19), lambda c: c.sums, steps=300),
    '02 one head fetches both': digits(
        lambda c: (c.Fetches(1), 19), differences, steps=300),
    '02 one head fetches both, 1,000 steps': digits(
        lambda c: (c.Fetches(1), 19), differences, steps=1000),
    '02 two heads fetch both': digits(
        lambda c: (c.Fetches(2), 19), differences, steps=300),
    '02 one head, one digit is there': digits(
        lambda c: (c.HasOneDigit(1), 19), differences, steps=300),
    '03 NoPath': digits(stack('NoPath'), copied, steps=80, lr=0.003, batch_size=32),
    '03 NoNorm': digits(stack('NoNorm'), copied, steps=80, lr=0.003, batch_size=32),
    '03 ResidualNorm': digits(
        stack('ResidualNorm'), copied, steps=80, lr=0.003, batch_size=32),
    '03 NoNorm, fast': digits(stack('NoNorm'), copied, steps=200, lr=0.02),
    '03 ResidualNorm, fast': digits(stack('ResidualNorm'), copied, steps=200, lr=0.02),
    '03 attention alone': digits(lambda c: (c.Answer(False),), on_a_clock, steps=600),
    '03 and a feed-forward network': digits(
        lambda c: (c.Answer(True),), on_a_clock, steps=600),
    '03 digits query, two heads': digits(
        lambda c: (c.SelfAttention(2),), on_a_clock, steps=600),
    '03 digits query, four heads': digits(
        lambda c: (c.SelfAttention(4),), on_a_clock, steps=600),
    '03 without dropout': lambda c, seed: c.by_heart(0., seed), # nats, known and new
    '03 with dropout': lambda c, seed: c.by_heart(0.3, seed),
    '03 two layers, no norm, fast': two_layers(None),
    '03 two layers, post-norm, fast': two_layers('post'),
    '03 two layers, pre-norm, fast': two_layers('pre'),
    '04 without positions': who_bites(lambda c: torch.nn.Identity()),
    '04 with positions': who_bites(lambda c: c.PositionalEncoding(32, 0., max_len=3)),
    '05 with the causal mask': writes(True),
    '05 without it': writes(False),
    '06 0.005 from the first step': counts(0.005),
    '06 0.005 after a climb': counts(0.005, 100),
    '06 0.001 from the first step': counts(0.001),
    '07 without the mask': repeats_without_mask,
    '07 without positions': repeats_without_positions,
    '07a one matrix': goes_on(500, one_matrix=True),
    '07a two matrices': goes_on(500),
    '07a 2,000 steps': goes_on(2000)}

def measure(row, seed):
    [name] = [name for name in CELLS if name.startswith(row.split()[0] + '_')]
    return dict(measured=TASKS[row](chapter(name), seed), **provenance())

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('parts', nargs='*', default=[''], help='of the names of rows')
    parser.add_argument('--end', type=int, default=10)
    parser.add_argument('--out', default=str(FILE))
    a = parser.parse_args()
    torch.set_num_threads(1)
    os.environ['IN_TEST'] = '1' # no progress bars
    rows = [row for row in TASKS if any(part in row for part in a.parts)]
    jobs = {(row, seed): (row, seed) for seed in range(a.end) for row in rows}
    settings = {row: 'as in the chapter' for row in TASKS}
    run_missing(Path(a.out).resolve(), measure, jobs, settings, 0, lambda r: r['measured'])

if __name__ == '__main__': main()
