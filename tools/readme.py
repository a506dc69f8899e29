#!/usr/bin/env python3
"""README.md from nbs/index.ipynb: Markdown as it is, code fenced, hidden cells left out, links bent to nbs/, figures as files.

    python tools/readme.py
"""
import json, re
from pathlib import Path

ROOT = Path(__file__).parent.parent

def readme(root):
    "The text of README.md"
    parts = []
    for cell in json.loads((root/'nbs/index.ipynb').read_text(encoding='utf8'))['cells']:
        source = ''.join(cell['source'])
        if re.match(r'#\| *(hide|export)', source): continue
        if cell['cell_type'] == 'markdown':
            parts.append(re.sub(r'(\]\()(?![a-z]+:|#|/)(?!\.\./)', r'\1nbs/', source).replace('](../', ']('))
            continue
        code = '\n'.join(l for l in source.splitlines() if not l.startswith('#|'))
        parts.append(f'```python\n{code}\n```')
        printed = ''.join(''.join(o.get('text') or o['data'].get('text/plain', '')) for o in cell['outputs'] if not figure(o))
        if printed: parts.append(f'```\n{printed.rstrip()}\n```')
    return '\n\n'.join(parts) + '\n'

def figure(output): return any(k.startswith('image/') for k in output.get('data', {}))

if __name__ == '__main__': (ROOT/'README.md').write_text(readme(ROOT), encoding='utf8')
