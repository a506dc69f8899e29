#!/usr/bin/env python3
"""Write what the page of `tnb_export` says about the heads of the English-German model.

    python tools/notes.py

Chapter 16 prints what each head looks at; what it is worth is measured here, on the
validation captions of Multi30k. The examples, which people chose, stay as they are.
"""
import json
from pathlib import Path
from book import cells
from transformer_nb.checkpoint import load_model
from transformer_nb.core import write_atomically
from transformer_nb.corpora import load_corpus
from transformer_nb.data import TokenBatches, encode_pairs
from transformer_nb.export import _header_and_weights
from transformer_nb.studies.attention_maps import head_costs

ROOT = Path(__file__).parent.parent
MODEL = ROOT/'nbs/models/multi30k-en-de'
NOTES = ROOT/'transformer_nb/playground/notes.json'
COLUMNS = ('entropy', 'distance', 'delimiter', 'previous', 'same', 'next')
LETTERS = {'delimiter': 'D', 'broad': 'B', 'local': 'L', 'long-distance': 'F'}

def read_measures(): # of each head: its class, and numbers
    "The table that chapter 16 prints"
    [cell] = [c for c in cells(ROOT/'nbs/16_attention_maps.ipynb', 'code')
              if "label = f'{kind:8}{layer" in c.source]
    _, *lines = ''.join(cell.outputs[0]['text']).splitlines()
    found = {}
    for line in lines:
        kind, head, *numbers, name = line.split()
        found[f'{kind}.{head}'] = name, dict(zip(COLUMNS, map(float, numbers)))
    return found

def describe(kind, name, m):
    share = {x: f'{m[x]:.0%} of its weight is on' for x in COLUMNS}
    spread = (f"(entropy {m['entropy']:.2f}, "
              f"distance {m['distance']:.2f} of an even spread's)")
    if name == 'delimiter': return f"{share['delimiter']} <s>, </s> and punctuation"
    if name == 'broad': return f'spread wide, close to a plain average {spread}'
    if name == 'long-distance':
        return f'chooses, and not because it is near {spread}'
    place = max(('previous', 'same', 'next'), key=m.get)
    if m[place] < 0.25: return f'chooses, and looks nearby {spread}'
    if kind == 'cross': return f'{share[place]} the source token at the {place} place'
    return f'{share[place]} the {place} token'

def change(percent): # of perplexity
    if round(abs(percent), 1) == 0: return 'stays as it is'
    return f"{'rises' if percent > 0 else 'falls'} by {abs(percent):.1f}%"

def main():
    model, tokenizer = load_model(MODEL)
    pairs, _ = encode_pairs(load_corpus('multi30k', 'en', 'de')['valid'], tokenizer, 512)
    costs = head_costs(model.eval(), [*TokenBatches(pairs, 4096).epoch(0)])
    heads = {}
    for key, (name, measures) in read_measures().items():
        kind, layer, head = key.split('.')
        cost = costs[kind][int(layer) - 1, int(head) - 1] # in nats
        percent = 100 * cost.expm1().item()
        note = (f'{name}: {describe(kind, name, measures)}. Without it, perplexity on the '
                f'validation captions {change(percent)}.')
        heads[key] = {'letter': LETTERS[name], 'class': name, 'note': note}

    [old] = json.loads(NOTES.read_text(encoding='utf8')).values()
    checksum = _header_and_weights(MODEL)[0]['checksum']
    text = json.dumps({checksum: old | dict(heads=heads)}, ensure_ascii=False, indent=1)
    write_atomically(NOTES, (text + '\n').encode())

if __name__ == '__main__': main()
