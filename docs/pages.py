#!/usr/bin/env python3
"""The pages of the site, made from the notebooks and written to docs/_build/pages, where Sphinx finds them.

    python docs/pages.py

A chapter stays as it is but for its directives: they become folds, labels and anchors. Backticked names link to their
definitions, paper sections to the chapter that quotes them. The other pages are gathered: the claims (docs/claims.md says
them in words), the exported names, the deviations from the paper, the results.
"""
import ast, json, re, shutil, sys
from collections import defaultdict
from configparser import ConfigParser
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT/'tests'))
from house import chapters, head, module

OUT = ROOT/'docs/_build/pages'
PROTECTED = re.compile(r'(^```.*?^```|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]+`|\]\([^)\n]*\)|^#.*?$)', re.M | re.S)

QUOTE = re.compile(r'^(?=>.*— §([\d.]*\d))', re.M) # before a quotation that ends with its section

def cells(path):
    return [{k: v for k, v in c.items() if k != 'id'} | dict(source=''.join(c['source'])) for c in json.loads(path.read_text(encoding='utf8'))['cells']]

def flags(cell): return [d.split()[0].rstrip(':') for d in head(cell['source']) if d] if cell['cell_type'] == 'code' else []

def code(cell): return '\n'.join(cell['source'].splitlines()[len(head(cell['source'])):]).strip()

def markdown(text): return dict(cell_type='markdown', metadata={}, source=text)

# What is exported, quoted and claimed, and where

def receiver(node):
    "The class that `@patch` gives a method to, or None"
    if isinstance(node, ast.FunctionDef) and any('patch' in ast.unparse(d) for d in node.decorator_list):
        return ast.unparse(node.args.args[0].annotation).split('|')[0]

def one_line(node, source):
    "First line of the docstring, else the last comment of the signature, else the signature or the assignment"
    if isinstance(node, ast.Assign): line = ast.unparse(node); return f'`{line if len(line) < 70 else line[:70] + " …"}`'
    if doc := ast.get_docstring(node): return doc.split('\n')[0]
    comments = re.findall(r'#\s*(.*)', '\n'.join(source.splitlines()[node.lineno - 1:max(node.lineno, node.body[0].lineno - 1)]))
    return comments[-1] if comments else f'`{node.name}({", ".join(a.arg for a in node.args.args)})`'

def definitions(source):
    "(name, its line) of what a cell defines: functions, classes and their methods, constants"
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            yield from ((n.id, one_line(node, source)) for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            owner = receiver(node)
            yield f'{owner}.{node.name}' if owner else node.name, one_line(node, source)
            for f in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(f, ast.FunctionDef): yield f'{node.name}.{f.name}', one_line(f, source)

class Book:
    "All chapters, and where their names, paper sections and claims are"
    def __init__(self, root):
        self.paths = [p for p in chapters(root) if p.stem != 'index']
        self.cells = {p.stem: cells(p) for p in chapters(root)}
        self.title = {s: f"{s[:2]} {re.search('^# (.*)', self.cells[s][0]['source'])[1]}" for s in self.cells}
        self.names, self.quoted, self.claims, self.labels = defaultdict(dict), defaultdict(list), defaultdict(list), defaultdict(list)
        self.section_claims = defaultdict(list)
        for line in (root/'docs/claims.md').read_text(encoding='utf8').splitlines():
            if line.startswith('## '): number = line.split()[1].strip('§')
            elif line.startswith('- C'): self.section_claims[number].append(line.split()[1])
        for path in self.paths:
            for i, cell in enumerate(self.cells[path.stem]): self.collect(path, i, cell)

    def collect(self, path, i, cell):
        chapter, found = path.stem, flags(cell)
        if {'export', 'exports'} & set(found):
            for name, line in definitions(code(cell)):
                if any(part.startswith('_') for part in name.split('.')) or chapter in self.names[name]: continue
                self.names[name][chapter] = f'def-{module(path)}.{name}'.lower(), line
                self.labels[chapter, i].append((self.names[name][chapter][0], name))
        for section in set(QUOTE.findall(cell['source'])) if cell['cell_type'] == 'markdown' else []:
            self.quoted[section].append((f'quote-{section}-{chapter}-{i}', chapter))
        for claim in re.findall(r'C\d+', ' '.join(d for d in head(cell['source']) if d.startswith('claim'))) if found else []:
            label = f'claim-{claim}-{chapter}-{i}'.lower()
            self.claims[claim].append((label, chapter, bool({'slow', 'cuda', 'notest'} & set(found))))
            self.labels[chapter, i].append((label, None))

    def definition(self, name, chapter):
        "Label of a name's definition as seen from a chapter: its own, else an earlier one, else a later one if the name is no plain word"
        where = self.names.get(name, {})
        if chapter in where: return where[chapter][0]
        earlier = [c for c in where if c < chapter]
        if earlier: return where[earlier[-1]][0]
        return next(iter(where.values()))[0] if where and re.search('[_A-Z]', name) else None

    def linked(self, text, chapter=''):
        "Markdown with names and paper sections as links, and links into the repository bent to the site"
        parts = PROTECTED.split(re.sub(r'\]\(\.\./', '](', text))
        for i, part in enumerate(parts):
            if i % 2 == 0: parts[i] = re.sub(r'§(\d[\d.]*\d|\d)', lambda m: self.section(m[1], chapter), part)
            elif re.match(r'`\([^`]{,30}\)`$', part): parts[i] = part.replace(' ', '\N{NO-BREAK SPACE}') # a shape stays in one piece
            elif part[0] == '`' and not part.startswith('```') and not parts[i-1].endswith('['):
                name = part[1:-1]
                label = self.definition(re.sub(r'\(\)$', '', name), chapter)
                if label: parts[i] = f'[{part}](#{label})'
                elif (ROOT/name).is_file() and re.match(r'tests/test_solutions', name): parts[i] = f'[{part}]({Path(name).stem}.md)'
        return ''.join(parts)

    def section(self, number, chapter):
        "A paper section as a link to where it is quoted first, else to its first claim"
        homes = self.quoted[number] or [w[:2] for c in self.section_claims[number] for w in self.claims[c][:1]]
        return f'[§{number}](#{homes[0][0]})' if homes and homes[0][1] != chapter else f'§{number}'

# One chapter

def page(book, chapter):
    "The notebook as the site shows it"
    made, source = [], book.cells[chapter]
    for i, cell in enumerate(source):
        anchors = ''.join(f'({label})=\n' for label, _ in book.labels[chapter, i])
        names = [n for _, n in book.labels[chapter, i] if n]
        entries = '```{index} ' + ', '.join('! ' * ('.' not in n) + n for n in names) + '\n```\n' if names else ''
        if cell['cell_type'] == 'markdown':
            new = set(QUOTE.findall(cell['source']))
            def anchor(m): return f'(quote-{m[1]}-{chapter}-{i})=\n\n' if m[1] in new and not new.discard(m[1]) else ''
            text = book.linked(QUOTE.sub(anchor, cell['source']), chapter)
            text = re.sub(r'^\*(Figure: .*)\*$', r'{.caption}\n\1', text, flags=re.M)
            if i == 0 and chapter != 'index': text = re.sub('^# .*', f'# {book.title[chapter]}', text)
            made.append(cell | dict(source=text))
            continue
        if 'hide' in flags(cell) or not code(cell): continue
        claims = list(dict.fromkeys(c for c, where in book.claims.items() for label, *_ in where if (label, None) in book.labels[chapter, i]))
        shown = ' · '.join(f'[{c}](#{c.lower()})' for c in claims)
        if anchors: made.append(markdown(anchors + entries + (f'\n{{.claim}}\nClaim {shown}\n' if claims else '')))
        caption = source[i+1]['source'] if i + 1 < len(source) else ''
        made.append(cell | dict(source=code(cell), metadata=look(cell, caption)))
    return made

def look(cell, below):
    "Folds, labels and the alternative text of a figure, as metadata that MyST-NB understands"
    found, nodes = flags(cell), ast.parse(code(cell)).body
    tags, more = [f for f in found if f in ('slow', 'cuda')] + ['exported'] * bool({'export', 'exports'} & set(found)), {}
    imports = [isinstance(n, (ast.Import, ast.ImportFrom)) for n in nodes]
    if 'echo' in found: tags.append('remove-input')
    elif 'export' in found or any(imports) and all(i or isinstance(n, ast.Assign) for i, n in zip(imports, nodes)):
        tags.append('hide-input')
        prompt = ('Imports of the module' if 'export' in found else 'Imports of this chapter') if any(imports) else ' · '.join(line if line[0] == '`' else f'{n}: {line}' for n, line in definitions(code(cell)))
        more = dict.fromkeys(['code_prompt_show', 'code_prompt_hide'], prompt.replace('`', ''))
    if m := re.match(r'\*Figure: (.*?)\*\n', below + '\n', re.S): more['image'] = dict(alt=re.sub(r'[*`$\\]', '', m[1]))
    return dict(tags=tags, mystnb=more) if more else dict(tags=tags)

# The gathered pages

def contents(text):
    "The tables of contents, part by part, from the map of chapters in index.ipynb, and the gathered pages"
    parts = [('', [])]
    for heading, title, stem in re.findall(r'^\| (?:\*\*(.+?)\*\*|\[(.+?)\]\((\w+)\.ipynb\))', text, re.M):
        if heading: parts.append((heading, []))
        else: parts[-1][1].append(f'{title} <{stem}>')
    parts.append(('At a glance', ['claims', 'deviations', 'results', 'api', 'genindex', 'CONTRIBUTING']))
    return '\n'.join('```{toctree}\n:hidden:\n' + (f':caption: {caption}\n' if caption else '') + '\n' + '\n'.join(rows) + '\n```\n' for caption, rows in parts if rows)

def claims_page(book, text):
    "docs/claims.md, each line linked to the cells that answer it, each section to the places that quote it"
    def answered(m):
        where = sorted(book.claims[m[1]], key=lambda w: w[2])
        links = ', '.join(f'[{book.title[c]}](#{label})' if c not in [w[1] for w in where[:k]] else f'[{k + 1}](#{label})' for k, (label, c, _) in enumerate(where))
        return f'({m[1].lower()})=\n**{m[1]}**\n: {m[2]} → {links or "open"}'
    def quoted(m):
        where = dict(reversed([(c, label) for label, c in book.quoted[m[1]]]))
        links = ' · '.join(f'[{book.title[c]}](#{label})' for c, label in reversed(where.items()))
        return f'{m[0]}\n\n```{{index}} ! §{m[1]}\n```\n' + (f'\n{{.quoted}}\nQuoted in {links}\n' if links else '')
    text = re.sub(r'^- (C\d+) (.*)$', answered, text, flags=re.M)
    return re.sub(r'^## §([\d.]*\d) .*$', quoted, text, flags=re.M)

def deviations_page(book):
    parts = ['# Relative to the paper\n\nWhere the code and the paper differ, chapter by chapter, and why.\n']
    for chapter, rows in book.cells.items():
        for cell in rows:
            if m := re.search(r'^## Relative to the paper\n+((?:\|.*\n?)+)', cell['source'], re.M):
                parts.append(f'## {book.title[chapter]}\n\nAt the end of [the chapter]({chapter}.ipynb#relative-to-the-paper).\n\n{book.linked(m[1], chapter)}')
    return '\n\n'.join(parts)

def api_page(book):
    parts = ['# Exported names\n\nEvery name of the package, in the order of the chapters; each links to its definition. '
             'The [index](genindex) has them in the order of the alphabet.\n']
    for path in book.paths:
        rows = [(name, *where[path.stem]) for name, where in book.names.items() if path.stem in where]
        lines = '\n'.join(f'| [`{name}`](#{label}) | {book.linked(escape(line), path.stem)} |' for name, label, line in rows)
        parts.append(f'## {book.title[path.stem]}\n\n`transformer_nb.{module(path)}`, made in [the chapter]({path.name}).\n\n| name | what it is |\n|---|---|\n{lines}\n')
    return '\n'.join(parts)

def escape(line): return re.sub(r'(`[^`]*`)|([|<])', lambda m: m[1].replace('|', '\\|') if m[1] else '\\' + m[2], line)

def table(rows):
    "Dictionaries as a Markdown table: numbers as they are, intervals as from–to"
    columns = list(dict.fromkeys(k for row in rows for k in row))
    def show(x): return '–'.join(map(str, x)) if isinstance(x, list) else '' if x is None else escape(str(x))
    lines = [[c.replace('_', ' ') for c in columns], ['---'] + ['--:' if isinstance(rows[0].get(c), (int, float, list)) or '±' in str(rows[0].get(c)) else '---' for c in columns[1:]]]
    return '\n'.join('| ' + ' | '.join(r) + ' |' for r in lines + [[show(row.get(c)) for c in columns] for row in rows])

def over_seeds(rows):
    "Rows that differ in their seed as one row: mean ± standard deviation of what is not whole"
    groups = defaultdict(list)
    for row in rows: groups[tuple((k, v) for k, v in row.items() if k != 'seed' and not isinstance(v, (float, dict, list)))].append(row)
    def merged(k, values): return f'{mean(values):.2f} ± {stdev(values):.2f}' if len(values) > 1 else values[0]
    return [dict(key) | {k: merged(k, [r[k] for r in same]) for k in same[0] if isinstance(same[0][k], float)} | {'seeds': len(same)} for key, same in groups.items()]

def reader(book, name):
    "Chapter and heading under which a file of results is named first"
    for chapter, rows in book.cells.items():
        before, found, _ = '\n'.join(c['source'] for c in rows).partition(f'results/{name}')
        if found and chapter != 'index': return chapter, re.findall('^##+ (.*)', before, re.M)[-1]
    raise SystemExit(f'nbs/results/{name}: no chapter reads it')

def results_page(book, root):
    parts = ['# Results\n\nAs the measurements wrote them, from `nbs/results` and `nbs/models`; no number on this page was typed.\n']
    for path in sorted((root/'nbs/results').glob('*.jsonl')):
        rows = [json.loads(line) for line in path.read_text(encoding='utf8').splitlines()]
        chapter, heading = reader(book, path.name)
        short = [{k: v for k, v in row.items() if not isinstance(v, dict) and len(str(v)) < 50} for row in rows]
        seeds = all('seed' in row for row in rows)
        note = ' Mean ± standard deviation over the seeds.' if seeds else ''
        parts.append(f'## {heading}\n\n`results/{path.name}`, read in [{book.title[chapter]}]({chapter}.ipynb).{note}\n\n' + table(over_seeds(short) if seeds else short))
        long = [(row, k, v) for row in rows for k, v in row.items() if isinstance(v, dict) or len(str(v)) >= 50]
        lines = [f"{row.get('row', '')}, {k}\n: " + (' \\\n  '.join(f'{a} `{b}`' for a, b in v.items()) if isinstance(v, dict) else f'`{v}`') for row, k, v in long]
        if lines: parts.append('<details><summary>Commands and signatures</summary>\n\n' + '\n\n'.join(lines) + '\n\n</details>')
    for path in sorted((root/'nbs/models').glob('*/README.md')):
        parts.append(re.sub('^#', '##', path.read_text(encoding='utf8'), flags=re.M))
    return '\n\n'.join(parts) + '\n'

def write(root=ROOT, out=OUT):
    book = Book(root)
    shutil.rmtree(out.parent, ignore_errors=True) # no page outlives its chapter
    shutil.copytree(root/'nbs/figures', out/'figures')
    for name in ('LICENSE', 'CONTRIBUTING.md'): shutil.copy(root/name, out)
    for chapter in book.cells:
        made = page(book, chapter)
        if chapter == 'index': made.append(markdown(contents('\n'.join(c['source'] for c in book.cells['index']))))
        nb = dict(cells=made, metadata={'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}, 'language_info': {'name': 'python'}}, nbformat=4, nbformat_minor=4)
        (out/f'{chapter}.ipynb').write_text(json.dumps(nb), encoding='utf8')
    pages = dict(claims=claims_page(book, (root/'docs/claims.md').read_text(encoding='utf8')), api=api_page(book),
                 deviations=deviations_page(book), results=results_page(book, root))
    for path in sorted((root/'tests').glob('test_solutions_*.py')):
        pages[path.stem] = f'---\norphan: true\n---\n# Solutions {path.stem[-2:]}\n\n```python\n{path.read_text(encoding="utf8")}```\n'
    for name, text in pages.items(): (out/f'{name}.md').write_text(text, encoding='utf8')

if __name__ == '__main__': write()
