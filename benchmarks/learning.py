#!/usr/bin/env python3
"""How the model of Figure 0.3 learns to copy, as twenty-one pictures: where it looks at
first, and after every 30 of its 600 steps. The site shows them with a slider.

    python benchmarks/learning.py    # a minute of one core

Writes nbs/results/learning.jsonl.
"""
import json
from pathlib import Path
from statistics import mean
from transformer_nb.copy_task import (
    copy_loss, copy_model, cross_weights, draw_sequences, exact_match, greedy_decode,
    train_copy)
from transformer_nb.support.core import EOS, provenance, set_seed, write_atomically
import torch

FILE = Path(__file__).parents[1]/'nbs/results/learning.jsonl'
STEPS, EVERY, LONGEST = 600, 30, 12
SHOWN = 4 + 7*torch.arange(LONGEST)[None] % 20 # as in Figure 0.3

@torch.no_grad()
def picture(model, step, losses, unseen):
    "What can be seen of the model after a step: of 100, in every square"
    model.eval()
    weights = cross_weights(model, SHOWN)[0].mean(0)
    source = torch.cat([SHOWN, torch.tensor([[EOS]])], 1)
    written = greedy_decode(model, source, source.shape[1])[0].tolist()
    exact = int(exact_match(model, unseen).sum())
    loss = mean(losses[-EVERY:]) if losses else copy_loss(model, unseen).item()
    model.train()
    return dict(step=step, loss=round(loss, 2), exact=exact, of=len(unseen),
                source=source[0].tolist(), written=written,
                weights=[[round(100*w) for w in row] for row in weights.tolist()])

def learn():
    set_seed(0)
    unseen = draw_sequences(200, held_out=True, longest=LONGEST)
    set_seed(0) # the run of chapter 00
    model = copy_model()
    found = [picture(model, 0, [], unseen)]
    def watch(step, losses):
        if step % EVERY == 0: found.append(picture(model, step, losses, unseen))
    train_copy(model, STEPS, longest=LONGEST, watch=watch)
    return found

if __name__ == '__main__':
    about = dict(commit=provenance()['commit'])
    rows = [json.dumps(row | about) for row in learn()]
    write_atomically(FILE, ('\n'.join(rows) + '\n').encode())
