#!/usr/bin/env python3
"""Tatoeba's test sentences apart: those that are near a training sentence, and the rest.

    python benchmarks/near.py            # writes nbs/results/everyday_near.jsonl

An English test sentence is *near* if one word more, one word less or one other word makes
it an English sentence of the training set; case and punctuation do not count. Scored are
the stored translations of the everyday models, with intervals over sentences.
"""
import re
from pathlib import Path
from transformer_nb.support.core import provenance
from transformer_nb.corpora import load_corpus, read_lines
from transformer_nb.evaluation import score
from runs import write_results

RESULTS = Path('nbs/results')

def words_of(text): return re.findall(r'\w+', text.lower())
PRINTINGS = {'': '0', ', second printing': 'second-2e-3'} # and their runs

def forms(text):
    "Two texts share one of these if a word at most makes the difference"
    words = words_of(text)
    another = [(*words[:i], '*', *words[i + 1:]) for i in range(len(words))]
    one_more = [(*words[:i], '*', *words[i:]) for i in range(len(words) + 1)]
    return {*another, *one_more}

def is_near(texts, known):
    "Of each text: is it a word at most away from a known one?"
    seen = set().union(*map(forms, known))
    return [not seen.isdisjoint(forms(text)) for text in texts]

def main():
    everyday = load_corpus('everyday', 'en', 'de')['train']
    test = load_corpus('tatoeba', 'en', 'de')['test']
    near = is_near([english for english, _ in test], {english for english, _ in everyday})
    lines = []
    for direction, column in (('en-de', 1), ('de-en', 0)):
        for printing, run in PRINTINGS.items():
            found = read_lines(RESULTS/f'translations/everyday-{direction}-{run}.txt')
            for name, wanted in (('near', True), ('far', False)):
                rows = [i for i, is_it in enumerate(near) if is_it == wanted]
                references = [test[i][column] for i in rows]
                report = score([found[i] for i in rows], references, n_bootstrap=1000)
                row = f'{direction}, {name}{printing}'
                lines.append(dict(row=row, sentences=len(rows)) | report | provenance())
                print(row, len(rows), report['bleu'], report.get('ci'))
    write_results(RESULTS/'everyday_near.jsonl', lines)

if __name__ == '__main__': main()
