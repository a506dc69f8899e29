#!/usr/bin/env python3
"""Write what the page of `tnb_export` says about the heads of the book's models.

    python tools/notes.py [multi30k-en-de …]

What a head looks at is measured on sentences of the model's own world, those of chapter 16
or the everyday ones of chapter 15, and what it is worth on the validation set. Examples
and tour, which people wrote, stay as they are.
"""
import json, sys
from pathlib import Path
import torch
from transformer_nb.support.core import write_atomically
from transformer_nb.corpora import everyday_sentences, load_corpus
from transformer_nb.data import TokenBatches, encode_pairs
from transformer_nb.formats.page import _header_and_weights
from transformer_nb.translation import Translator
from transformer_nb.studies.attention_maps import (
    SENTENCE_PAIRS, head_classes, head_costs, mean_measures)

ROOT = Path(__file__).parent.parent
MODELS = {'multi30k-en-de': ('multi30k', 'en', 'de'), # and what they were validated on
          'everyday-en-de': ('everyday', 'en', 'de'),
          'everyday-de-en': ('everyday', 'de', 'en')}
NOTES = ROOT/'transformer_nb/playground/notes.json'
LETTERS = {'delimiter': 'D', 'broad': 'B', 'local': 'L', 'long-distance': 'F'}

def sentences(corpus, src, tgt): # pairs of the model's own world
    if corpus == 'multi30k': return SENTENCE_PAIRS # of chapter 16, from English
    return [(row['source'], row['references'][0]) for row in everyday_sentences()
            if row['direction'] == f'{src}-{tgt}']

def measured(translator, pairs): # of each head: its class, and its measures
    "By the rule of chapter 16"
    for kind, measures in mean_measures(translator, pairs).items():
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

def measure_costs(model, tokenizer, texts): # of each kind (N, h), in nats per target token
    pairs, _ = encode_pairs(texts, tokenizer, model.config.max_len)
    return head_costs(model, [*TokenBatches(pairs, 4096).epoch(0)])

def heads_of(folder, corpus, src, tgt): # a letter, a class and a note for each
    translator = Translator(folder, torch.device('cpu'))
    valid = load_corpus(corpus, src, tgt)['valid']
    costs = measure_costs(translator.model, translator.tokenizer, valid)
    translator.model.double() # as in chapter 16
    for key, name, measures in measured(translator, sentences(corpus, src, tgt)):
        kind, layer, head = key.split('.')
        cost = costs[kind][int(layer) - 1, int(head) - 1]
        note = (f'{name}: {describe(kind, name, measures)}. Without it, perplexity on the '
                f'validation set {change(100 * cost.expm1().item())}.')
        yield key, {'letter': LETTERS[name], 'class': name, 'note': note}

def main():
    for name in sys.argv[1:] or MODELS:
        folder = ROOT/'nbs/models'/name
        heads = dict(heads_of(folder, *MODELS[name]))
        known = json.loads(NOTES.read_text(encoding='utf8'))
        [old] = [key for key, notes in known.items() if notes['model'] == name]
        known[old]['heads'] = heads
        checksum = _header_and_weights(folder)[0]['checksum']
        known = {checksum if key == old else key: of for key, of in known.items()}
        text = json.dumps(known, ensure_ascii=False, indent=1)
        write_atomically(NOTES, (text + '\n').encode())

if __name__ == '__main__': main()
