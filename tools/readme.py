#!/usr/bin/env python3
"""README.md from nbs/index.ipynb: Markdown as it is, code fenced, hidden cells left out,
links bent to nbs/, figures as files.

    python tools/readme.py
"""
import re
from pathlib import Path
from book import ROOT, cells

def readme(root):
    "The text of README.md"
    parts = []
    for cell in cells(Path(root, 'nbs/index.ipynb')):
        if cell.kind == 'markdown': parts.append(bent(cell.source))
        elif 'hide' not in cell.flags and not cell.is_exported:
            parts.append(fenced(cell.text, 'python'))
            printed = ''.join(map(text_of, cell.outputs)).rstrip()
            if printed: parts.append(fenced(printed))
    return '\n\n'.join(parts) + '\n'

def bent(text):
    "Links as seen from the root instead of nbs/"
    into_nbs = re.sub(r'(\]\()(?![a-z]+:|#|/)(?!\.\./)', r'\1nbs/', text)
    return into_nbs.replace('](../', '](')

def fenced(text, language=''): return f'```{language}\n{text}\n```'

def text_of(output):
    "What an output says; a figure says nothing"
    data = output.get('data', {})
    if any(kind.startswith('image/') for kind in data): return ''
    return ''.join(output.get('text') or data.get('text/plain', ''))

if __name__ == '__main__': (ROOT/'README.md').write_text(readme(ROOT), encoding='utf8')
