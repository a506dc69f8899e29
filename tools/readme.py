#!/usr/bin/env python3
"""README.md from nbs/index.ipynb: Markdown as it is, code fenced, hidden cells left out,
links bent to nbs/, figures as files. And into README.md and CITATION.cff the addresses of
the book, if it has any.

    python tools/readme.py
"""
import re
from pathlib import Path
from book import ROOT, cells
from repository import citation, repository

LEFT_OUT = re.compile(r'<!-- not in README -->.*?<!-- until here -->\n\n', re.S)
FILM = 'figures/translate_here.png', 'figures/tour.webp' # tools/film.py makes it

def readme(root):
    "The text of README.md"
    parts = []
    for cell in cells(Path(root, 'nbs/index.ipynb')):
        if cell.kind == 'markdown': parts.append(bent(cell.source))
        elif 'hide' not in cell.flags and not cell.is_exported:
            parts.append(fenced(cell.text, 'python'))
            printed = ''.join(map(text_of, cell.outputs)).rstrip()
            if printed: parts.append(fenced(printed))
    return with_addresses('\n\n'.join(parts) + '\n', repository(root))

def with_addresses(text, home):
    "Links to the site and to Colab under the promise, and the address to clone"
    if not home: return text
    links = (f"[Read it online]({home.site}) · "
             f"[Open the introduction in Colab]({home.colab('00_introduction')})")
    text = re.sub('^> .*$', rf'\g<0>\n\n{links}', text, count=1, flags=re.M)
    command = rf'git clone {home.url} \1'
    return re.sub('^git clone URL (.*?) *#.*$', command, text, flags=re.M)

def made_files(root):
    "Text of the files that are made from others, by name"
    cited = Path(root, 'CITATION.cff').read_text(encoding='utf8')
    return {'README.md': readme(root), 'CITATION.cff': citation(cited, root)}

def bent(text):
    "Links as seen from the root instead of nbs/; the page that is alive as a film"
    text = re.sub(r' "\w+"\)', ')', LEFT_OUT.sub('', text.replace(*FILM))) # no tab to open
    into_nbs = re.sub(r'(\]\()(?![a-z]+:|#|/)(?!\.\./)', r'\1nbs/', text)
    return into_nbs.replace('](../', '](')

def fenced(text, language=''): return f'```{language}\n{text}\n```'

def text_of(output):
    "What an output says; a figure says nothing"
    data = output.get('data', {})
    if any(kind.startswith('image/') for kind in data): return ''
    return ''.join(output.get('text') or data.get('text/plain', ''))

if __name__ == '__main__':
    for name, text in made_files(ROOT).items():
        (ROOT/name).write_text(text, encoding='utf8')
