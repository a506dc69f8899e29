#!/usr/bin/env python3
"""JupyterLab folds what the site folds: writes the metadata of the cells in all chapters.
It hides what follows a heading, up to the cell of the next one; so the heading of an aside
is a cell of its own, and the heading that ends an aside begins one. Of folded code it shows
the first line, so that line says what the cell holds.

    python tools/folds.py
"""
import json, re, sys
from book import ROOT, cells_of, chapters, is_preparation

FOLDED = '### Aside:', '## Relative to ' # headings of what is folded
COLLAPSED = 'jp-MarkdownHeadingCollapsed'
SECTION = re.compile(r'^(?=#{1,3} )', re.M)
FENCED = re.compile(r'^```.*?^```', re.M | re.S)

def sections(source):
    "What begins with a heading, after what stands before the first one"
    plain = FENCED.sub(lambda m: re.sub('(?m)^#', '.', m[0]), source)
    ends = [*(m.start() for m in SECTION.finditer(plain)), len(source)]
    return [source[a:b] for a, b in zip([0, *ends], ends) if a < b]

def divided(source, is_open):
    "The texts of the cells that JupyterLab needs, and whether an aside is open at the end"
    parts = []
    for text in sections(source):
        is_heading = bool(SECTION.match(text))
        if parts and not (is_heading and is_open) and not text.startswith(FOLDED):
            parts[-1] += text
        else: parts.append(text)
        if is_heading: is_open = text.startswith(FOLDED)
        if is_heading and is_open:
            heading, _, rest = parts.pop().partition('\n')
            parts += [heading, rest] if rest.strip() else [heading]
    return [part.strip('\n') for part in parts], is_open

# What a cell holds, in the words on its fold

def words_of(cell, after): # after: the text below it, where it is a caption
    "Figures and imports name themselves; for the rest, a person finds the words"
    figure = re.match(r'\*(Figure \w+\.\d+):', after)
    if 'echo' in cell.flags and figure: return f'draws {figure[1]}'
    if is_preparation(cell.text):
        return f"Imports of {'the module' if 'export' in cell.flags else 'this chapter'}"
    first = cell.text.splitlines()[0]
    raise ValueError(f'what is in the folded cell {first!r}? Write #| fold NAME above it')

def told(cell, after):
    "Its source, with a first line that JupyterLab shows where the code is folded"
    name = cell.directives.get('fold')
    is_told = name and not name.startswith('draws Figure') # whose number may change
    if is_told or not cell.hides_code or not cell.text: return cell.source
    if is_preparation(cell.text) and not cell.flags: return cell.source # it imports
    source = re.sub(r'^#\| fold\b.*\n', '', cell.source, count=1, flags=re.M)
    return f'#| fold {words_of(cell, after)}\n{source}'

def folded(notebook):
    "The cells as they should be stored"
    made, is_open, all_cells = [], False, cells_of(notebook)
    below = [*(cell.text for cell in all_cells[1:]), '']
    for cell, stored, after in zip(all_cells, notebook['cells'], below):
        metadata = {name: x for name, x in stored['metadata'].items()
                    if name not in ('jupyter', COLLAPSED)}
        if cell.folds: metadata['jupyter'] = cell.folds
        parts = [told(cell, after) if cell.kind == 'code' else cell.source]
        if cell.kind == 'markdown': cut, is_open = divided(cell.source, is_open)
        if cell.kind == 'markdown' and len(cut) > 1: parts = cut
        for i, part in enumerate(parts): # the first keeps the id
            own = {COLLAPSED: True} if part.startswith(FOLDED) else {}
            name = f'{stored["id"]}-{i}' if i else stored['id']
            made.append(stored | dict(id=name, metadata=metadata | own,
                                      source=part.splitlines(keepends=True)))
    return made

def fold(path):
    "True if the file was changed"
    before = path.read_text(encoding='utf8')
    notebook = json.loads(before)
    try: notebook['cells'] = folded(notebook)
    except ValueError as e: sys.exit(f'{path.name}: {e}')
    after = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + '\n'
    if after != before: path.write_text(after, encoding='utf8')
    return after != before

if __name__ == '__main__':
    for path in chapters(ROOT):
        if fold(path): print(f'folded {path.name}')
