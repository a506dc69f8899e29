#!/usr/bin/env python3
"""Writes transformer.py: the right stages of *Build it yourself*, joined to one file that
depends on nothing of this repository.

    python tools/onefile.py
"""
import re
from pathlib import Path
from book import ROOT

RIGHT = 'transformer_nb/assignment/right'
STAGES = { # in the order of the file, with the sections of the paper
    'config': '§3, Table 3: the sizes of a model',
    'attention': '§3.2.1: attention, and two masks',
    'multihead': '§3.2.2: several heads',
    'layers': '§3.3, §3.1, §5.4: what lies between two attentions',
    'embedding': '§3.4, §3.5: tokens and positions',
    'model': '§3.1: the model',
    'optimizer': '§5.3, §5.4: learning rate, Adam, label smoothing',
    'training': 'The training loop, on the copy task',
    'decoding': '§6.1: greedy and beam search',
    'translation': "The book's weights"}

HEAD = '''"""The Transformer of *Attention Is All You Need* (Vaswani et al., 2017), whole:
model, masks, schedule, label smoothing, training loop, greedy and beam search. The book is
this file, explained. It needs torch alone; to translate, also safetensors and tokenizers.

    python transformer.py                                         # learns to copy, a minute
    python transformer.py translate everyday-en-de "I love you."  # with the book's weights

Axes: b batch, h head, t target position, s source position, d feature. Masks are True where
attention is allowed. Ids: <pad> 0, <s> 1, </s> 2, <unk> 3. Made by `make export` from the
right stages of Build it yourself (tools/onefile.py); tests/test_one_file.py proves it equal
to the package."""
import json, math, sys
from dataclasses import dataclass
from pathlib import Path
import torch
from torch import nn
'''

MAIN = '''
# Run it

def draw(n, held_out): # sequences of 4 to 20 tokens; training never sees the held-out ones
    seqs = torch.randint(4, 24, (20 * n, 20))
    seqs[torch.arange(20) >= torch.randint(4, 21, (20 * n, 1))] = 0
    side = (seqs * torch.arange(1, 21)).sum(1) % 10 == 0
    return seqs[side == held_out][:n]

def learn_to_copy(steps=1000, n_test=500):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(24, 64, 128, 4, 16, 16, 1, 1, 0., 64))
    def lr_of(step): return 5e-3 * min(12 * step / steps, 12/11 * (1 - step / (steps + 1)))
    batches = (draw(32, held_out=False) for _ in range(steps))
    losses = train(model, make_adam(model), batches, lr_of)
    seqs = draw(n_test, held_out=True)
    with torch.no_grad(): copies = greedy(model.eval(), shifted(seqs)[0], 21)
    right = sum(copy == [i for i in seq if i] for copy, seq in zip(copies, seqs.tolist()))
    print(f'loss {losses[0]:.2f} -> {losses[-1]:.4f} nats per token in {steps} steps;',
          f'{right} of {len(seqs)} sequences that it never saw are copied',
          'without a mistake')

class Tokens: # what `translate` asks of a tokenizer
    def __init__(self, path):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(str(path))
        self.tokenizer.encode_special_tokens = True # a typed </s> is text, not the end
    def encode(self, text): return self.tokenizer.encode(text).ids
    def decode(self, ids): return self.tokenizer.decode(ids)

if __name__ == '__main__':
    if len(sys.argv) == 1: learn_to_copy()
    elif sys.argv[1] == 'translate' and len(sys.argv) == 4:
        shipped = Path(__file__).parent/'nbs/models'/sys.argv[2]
        folder = shipped if shipped.is_dir() else Path(sys.argv[2])
        if not (folder/'config.json').is_file(): sys.exit(f'{folder} is not a model folder')
        print(translate(load_model(folder), Tokens(folder/'tokenizer.json'), sys.argv[3]))
    else: sys.exit(__doc__)
'''

def stage(root, name):
    "A right file without its imports"
    folder = 'transformer_nb/assignment' if name == 'config' else RIGHT
    text = Path(root, folder, f'{name}.py').read_text(encoding='utf8')
    text = re.sub(r'^(?:import|from) .*\n', '', text, flags=re.M)
    text = re.sub(r'\A(?:""".*?"""|".*?")\n', '', text, flags=re.S).strip()
    text = text.replace('.float()', '.double()').replace('float(loss)', 'loss.item()')
    needed = 'def load_model(folder):\n'
    return text.replace(needed, f'{needed}    from safetensors.torch import load_file\n')

def one_file(root):
    parts = [HEAD.rstrip()]
    parts += [f'# {sections}\n\n{stage(root, name)}' for name, sections in STAGES.items()]
    return '\n\n'.join([*parts, MAIN.strip()]) + '\n'

if __name__ == '__main__':
    Path(ROOT, 'transformer.py').write_text(one_file(ROOT), encoding='utf8')
