#!/usr/bin/env python3
"""JupyterLab folds what the site folds: writes the metadata of the cells in all chapters.

    python tools/folds.py
"""
import json
from book import ROOT, cells, chapters

def fold(path):
    "True if the file was changed"
    before = path.read_text(encoding='utf8')
    notebook = json.loads(before)
    for cell, stored in zip(cells(path), notebook['cells']):
        stored['metadata'].pop('jupyter', None)
        if cell.folds: stored['metadata']['jupyter'] = cell.folds
    after = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + '\n'
    if after != before: path.write_text(after, encoding='utf8')
    return after != before

if __name__ == '__main__':
    for path in chapters(ROOT):
        if fold(path): print(f'folded {path.name}')
