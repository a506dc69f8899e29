#!/usr/bin/env python3
"Writes transformer.py: the right stages of Build it yourself, joined to one file"
import re
from pathlib import Path
from book import ROOT

RIGHT = 'transformer_nb/assignment/right'
STAGES = { # in the order of the file, with the sections of the paper and the chapters
    'config': '§3, Table 3: the sizes of a model (chapter 05)',
    'attention': '§3.2.1, §3.2.3: attention, and two masks (chapters 01 and 02)',
    'multihead': '§3.2.2: several heads (chapter 02)',
    'layers': '§3.3, §3.1, §5.4: feed-forward; residual, dropout, norm (chapter 03)',
    'embedding': '§3.4, §3.5: tokens and positions (chapter 04)',
    'model': '§3.1: the model (chapter 05)',
    'optimizer': '§5.3, §5.4: learning rate, Adam, label smoothing (chapter 06)',
    'training': 'The training loop, on the copy task (chapter 07)',
    'decoding': '§6.1: greedy and beam search (chapter 13)',
    'translation': "The book's weights (chapter 15)"}

HEAD = '''
"""The Transformer of *Attention Is All You Need* (Vaswani et al., 2017) in one file

    python transformer.py                                         # learns to copy, a minute
    python transformer.py translate everyday-en-de "I love you."  # with the book's weights

Needs torch; to translate, also safetensors and tokenizers. Axes: b batch, h head, t queries
(target), s keys (source), d feature, v vocabulary. Masks: True where attention is allowed.
The chapters are in nbs/. tools/onefile.py writes this file; tests compare it with them."""
import json, math, sys
from dataclasses import dataclass
from pathlib import Path
import torch
from torch import nn

PAD, BOS, EOS = 0, 1, 2 # the ids of <pad>, <s> and </s>'''

MAIN = '''
# Run it
def draw(n, held_out): # n sequences of 4 to 20 tokens, padded
    seqs = torch.randint(4, 24, (20 * n, 20)) # more than n, as only one side is taken
    seqs[torch.arange(20) >= torch.randint(4, 21, (20 * n, 1))] = PAD
    side = (seqs * torch.arange(1, 21)).sum(1) % 10 == 0 # a tenth: for the test alone
    return seqs[side == held_out][:n]

def learn_to_copy(steps=1000, n_test=500):
    torch.manual_seed(0)
    config = TransformerConfig(24, d_model=64, d_ff=128, n_heads=4, d_k=16, d_v=16,
                               n_encoder_layers=1, n_decoder_layers=1, dropout=0)
    model = Transformer(config)
    batches = (draw(32, held_out=False) for _ in range(steps))
    warmup = steps / 12
    def lr_of(step): # falls to nearly 0, which helps so short a run; paper_lr falls slowly
        return 5e-3 * min(step / warmup, (steps + 1 - step) / (steps + 1 - warmup))
    losses = train(model, make_adam(model), batches, lr_of)
    seqs = draw(n_test, held_out=True)
    copies = greedy(model.eval(), shifted(seqs)[0], max_steps=21)
    right = sum(copy == [i for i in seq if i] for copy, seq in zip(copies, seqs.tolist()))
    print(f'loss {losses[0]:.2f} -> {losses[-1]:.4f} nats per token in {steps} steps;',
          f'{right} of {n_test} sequences that it never saw are copied without a mistake')

if __name__ == '__main__':
    if len(sys.argv) == 1: learn_to_copy()
    elif sys.argv[1] == 'translate' and len(sys.argv) == 4:
        from tokenizers import Tokenizer
        shipped = Path(__file__).parent/'nbs/models'/sys.argv[2]
        folder = shipped if shipped.is_dir() else Path(sys.argv[2])
        if not (folder/'tokenizer.json').is_file(): sys.exit(f'{folder} has no tokenizer')
        tokenizer = Tokenizer.from_file(str(folder/'tokenizer.json'))
        tokenizer.encode_special_tokens = True # a typed </s> is text, not the end
        try: print(translate(load_model(folder), tokenizer, sys.argv[3]))
        except AssertionError as error: sys.exit(str(error))
    else: sys.exit(__doc__)
'''

SHORTER = ( # what the right files spell out, a step a line, for the grader's arrows
    (r'\nclass LayerNorm(?s:.*?)(?=\nclass )', ''), (r'= LayerNorm\(', '= nn.LayerNorm('),
    (r'hidden = torch.clamp\((.*), min=0\)\n.*\n', r'return self.outer(torch.relu(\1))\n'),
    (r'x, sublayer, .*\n(?s:.*)\(total\)', 'x, out): # of the sub-layer\n'
     '        return self.norm(x + self.dropout(out))'),
    (r'lambda y: (self\.\w+)\(y, ', r'\1(x, '), (r'(self\.feed_forward)\)', r'\1(x))'),
    (r'(def load_model.*\n)', r'\1    from safetensors.torch import load_file\n'),
    (r'(er\.encode\(text\))', r'\1.ids'))

def stage(root, name):
    "A right file without its imports"
    folder = 'transformer_nb/assignment' if name == 'config' else RIGHT
    text = Path(root, folder, f'{name}.py').read_text(encoding='utf8')
    text = re.sub(r'^(?:import|from|PAD\b.*=) .*\n', '', text, flags=re.M)
    text = re.sub(r'\A(?:""".*?"""|".*?")\n', '', text, flags=re.S).strip()
    for long, short in SHORTER: text = re.sub(long, short, text)
    return text

def one_file(root):
    parts = [f'# {sections}\n{stage(root, name)}' for name, sections in STAGES.items()]
    return '\n\n'.join([HEAD.strip(), *parts, MAIN.strip()]) + '\n'

if __name__ == '__main__':
    Path(ROOT, 'transformer.py').write_text(one_file(ROOT), encoding='utf8')
