#!/usr/bin/env python3
"""Write what the page of `tnb_export` says about the heads of the English-German model.

    python tools/notes.py

What a head looks at is measured on the sentences of chapter 16, and what it is worth on
the validation captions of Multi30k. Examples and tour, which people wrote, stay as they
are.
"""
import json
from pathlib import Path
import torch
from transformer_nb.core import write_atomically
from transformer_nb.corpora import load_corpus
from transformer_nb.data import TokenBatches, encode_pairs
from transformer_nb.export import _header_and_weights
from transformer_nb.translation import Translator
from transformer_nb.studies.attention_maps import (
    SENTENCE_PAIRS, head_classes, head_costs, mean_measures)

ROOT = Path(__file__).parent.parent
MODEL = ROOT/'nbs/models/multi30k-en-de'
NOTES = ROOT/'transformer_nb/playground/notes.json'
LETTERS = {'delimiter': 'D', 'broad': 'B', 'local': 'L', 'long-distance': 'F'}

def measured(translator): # of each head: its class, and its measures
    "On the sentences of chapter 16, by its rule"
    for kind, measures in mean_measures(translator, SENTENCE_PAIRS).items():
        for i, names in enumerate(head_classes(measures)):
            for j, name in enumerate(names):
                numbers = {x: m[i, j].item() for x, m in measures.items()}
                yield f'{kind}.{i + 1}.{j + 1}', name, numbers

def describe(kind, name, m):
    share = {x: f'{m[x]:.0%} of its weight is on' for x in m}
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

def measure_costs(model, tokenizer): # of each kind (N, h), in nats per target token
    captions = load_corpus('multi30k', 'en', 'de')['valid']
    pairs, _ = encode_pairs(captions, tokenizer, model.config.max_len)
    return head_costs(model, [*TokenBatches(pairs, 4096).epoch(0)])

def main():
    translator = Translator(MODEL, torch.device('cpu'))
    costs = measure_costs(translator.model, translator.tokenizer)
    translator.model.double() # as in chapter 16
    heads = {}
    for key, name, measures in measured(translator):
        kind, layer, head = key.split('.')
        cost = costs[kind][int(layer) - 1, int(head) - 1]
        percent = 100 * cost.expm1().item()
        note = (f'{name}: {describe(kind, name, measures)}. Without it, perplexity on the '
                f'validation captions {change(percent)}.')
        heads[key] = {'letter': LETTERS[name], 'class': name, 'note': note}

    known = json.loads(NOTES.read_text(encoding='utf8'))
    [old] = [key for key, notes in known.items() if notes['model'] == MODEL.name]
    checksum = _header_and_weights(MODEL)[0]['checksum']
    known = {checksum: known.pop(old) | dict(heads=heads)} | known
    text = json.dumps(known, ensure_ascii=False, indent=1)
    write_atomically(NOTES, (text + '\n').encode())

if __name__ == '__main__': main()
