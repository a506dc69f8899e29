#!/usr/bin/env python3
"""The numbers of the figures: 1, 2, 3 … in each chapter, in captions and references.

    python tools/figures.py     # renumbers, after a figure came, went or moved

A new figure has a caption without a number, `*Figure: what it shows.*`. What refers to the
others, in any chapter, follows.
"""
import json, re, sys
from collections import Counter
from book import ROOT, cells, chapters, number

CAPTION = re.compile(r'^\*Figure(?: (\w+\.\d+))?(?=: )', re.M)
REFERENCE = re.compile(r'(?<!^\*)\bFigure (\w+\.\d+)', re.M)

def stored(path): # None where a figure is new
    "The numbers of a chapter's captions as they stand"
    texts = [cell.source for cell in cells(path, 'markdown')]
    return [m[1] for text in texts for m in CAPTION.finditer(text)]

def expected(path):
    "The numbers that they should have"
    chapter = number(path.stem).removeprefix('0') # 5 of `05_model`
    return [f'{chapter}.{i}' for i, _ in enumerate(stored(path), 1)]

def renumber(root):
    "Writes the numbers into the chapters; those that were changed"
    new = {}
    for path in chapters(root):
        if path.stem != 'index': new |= new_numbers(path) # the first page has none
    return [path for path in chapters(root) if write_numbers(path, new)]

def new_numbers(path):
    "The number that each figure of a chapter should have, by the one that it has"
    counts = Counter(filter(None, stored(path)))
    twice = [n for n, count in counts.items() if count > 1]
    if twice: sys.exit(f'{path.name}: two captions say Figure {twice[0]}; leave out the '
                       'number of the new one')
    return {old: n for old, n in zip(stored(path), expected(path)) if old}

def write_numbers(path, new):
    "True if the chapter was changed"
    before, numbers = path.read_text(encoding='utf8'), iter(expected(path))
    notebook = json.loads(before)
    def caption(m): return m[0] if path.stem == 'index' else f'*Figure {next(numbers)}'
    def reference(m): return f'Figure {new.get(m[1], m[1])}'
    for cell in notebook['cells']:
        if cell['cell_type'] == 'code': continue
        text = CAPTION.sub(caption, REFERENCE.sub(reference, ''.join(cell['source'])))
        cell['source'] = text.splitlines(keepends=True)
    after = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + '\n'
    if after != before: path.write_text(after, encoding='utf8')
    return after != before

if __name__ == '__main__':
    for path in renumber(ROOT): print(f'numbered the figures of {path.name}')
