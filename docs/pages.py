#!/usr/bin/env python3
"""The pages of the site, made from the notebooks and written to docs/_build/pages, where Sphinx finds them.

    python docs/pages.py

A chapter stays as it is; its directives become folds, labels and anchors, and below its exercises their solutions are
folded. Backticked names link to their definitions, paper sections to where they are quoted. Four pages are gathered from
all chapters: the claims (docs/claims.md has them in words), the deviations from the paper, the results, the exported names.
"""
import ast, json, re, shutil, sys
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from statistics import mean, stdev
from types import SimpleNamespace

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT/'tools'))
from house import chapters, head

QUOTE = re.compile(r'^(?=>.*— §([\d.]*\d))', re.M) # before a quotation that ends with its section
PROTECTED = re.compile(r'(^```.*?^```|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]+`|\]\([^)\n]*\)|^#.*?$)', re.M | re.S) # no prose

def read(path):
    "The cells of a notebook: directives, source without them, outputs"
    for c in json.loads(path.read_text(encoding='utf8'))['cells']:
        source = ''.join(c['source'])
        lines = head(source) if c['cell_type'] == 'code' else []
        yield SimpleNamespace(kind=c['cell_type'], text='\n'.join(source.splitlines()[len(lines):]).strip(), outputs=c.get('outputs', []),
                              flags={d.split()[0].rstrip(':') for d in lines if d}, labels=[], names=[],
                              claims=re.findall(r'C\d+', ' '.join(d for d in lines if d.startswith('claim'))))

def one_line(node, source):
    "First line of a docstring, else the last comment of the signature, else signature or assignment"
    if isinstance(node, ast.Assign): line = ast.unparse(node); return f'`{line[:70]}{" …" * (len(line) > 70)}`'
    if doc := ast.get_docstring(node): return doc.split('\n')[0]
    signature = source.splitlines()[node.lineno - 1:max(node.lineno, node.body[0].lineno - 1)]
    comments = re.findall(r'#\s*(.*)', '\n'.join(signature))
    return comments[-1] if comments else f'`{node.name}({", ".join(a.arg for a in node.args.args)})`'

def definitions(source):
    "Names that a cell defines, each with its line: functions, classes and their methods, constants; `_private` ones left out"
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign): names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        elif not isinstance(node, (ast.FunctionDef, ast.ClassDef)): names = []
        elif any('patch' in ast.unparse(d) for d in node.decorator_list): # a method of the class that its first argument names
            names = [f'{ast.unparse(node.args.args[0].annotation)}.{node.name}']
        else: names = [node.name]
        methods = [f for f in node.body if isinstance(f, ast.FunctionDef)] if isinstance(node, ast.ClassDef) else []
        found = [(n, one_line(node, source)) for n in names] + [(f'{node.name}.{f.name}', one_line(f, source)) for f in methods]
        yield from ((n, line) for n, line in found if not re.search(r'(^|\.)_', n))

class Book:
    "The chapters, and where they define names, quote sections and answer claims"
    def __init__(self, root):
        self.root, self.cells = root, {p.stem: list(read(p)) for p in chapters(root)}
        self.title = {c: f"{c[:2]} {re.match('# (.*)', rows[0].text)[1]}" for c, rows in self.cells.items()}
        self.claims_text = (root/'docs/claims.md').read_text(encoding='utf8')
        self.names, self.quotes, self.claims = defaultdict(dict), defaultdict(list), defaultdict(list)
        for chapter, rows in self.cells.items():
            for cell in rows: self.collect(chapter, cell)

    def collect(self, chapter, cell):
        if cell.flags & {'export', 'exports'}:
            for name, line in definitions(cell.text):
                if chapter in self.names[name]: continue
                self.names[name][chapter] = line
                cell.names.append(name)
                cell.labels.append(f'def-{chapter[3:]}.{name}')
        for claim in cell.claims:
            again = sum(c == chapter for _, c, _ in self.claims[claim])
            cell.labels.append(f'claim-{claim}-{chapter[3:]}'.lower() + (f'-{again + 1}' if again else ''))
            self.claims[claim].append((bool(cell.flags & {'slow', 'cuda', 'notest'}), chapter, cell.labels[-1]))
        for section in QUOTE.findall(cell.text) if cell.kind == 'markdown' else []:
            if chapter not in self.quotes[section]: self.quotes[section].append(chapter)

    def chapter_of(self, name, chapter):
        "Where a name is defined, as seen from a chapter; a plain word must be imported or defined there"
        homes = self.names.get(name, {})
        if chapter in homes or not homes: return chapter if homes else None
        code = '\n'.join(cell.text for cell in self.cells.get(chapter, []) if cell.kind == 'code')
        imported = [h for h in homes if re.search(rf'^from transformer_nb\.{h[3:]} import .*\b{name}\b', code, re.M)]
        return (imported or [h for h in homes if re.search('[A-Z_]', name)] or [None])[0]

    def section(self, number, chapter):
        "A paper section as a link to where it is quoted first, else to its first claim; no link within a chapter"
        homes = [(c, f'quote-{number}-{c[3:]}') for c in self.quotes[number]]
        if m := re.search(rf'^## §{re.escape(number)} .*\n\n- (C\d+)', self.claims_text, re.M): homes += [h[1:] for h in self.claims[m[1]]]
        return f'[§{number}](#{homes[0][1]})' if homes and homes[0][0] != chapter else f'§{number}'

    def linked(self, text, chapter):
        "Markdown with its names and sections as links, and what it says of files bent to the site"
        parts = PROTECTED.split(text.replace('](../', ']('))
        for i, part in enumerate(parts):
            if i % 2 == 0: parts[i] = re.sub(r'§(\d[\d.]*\d|\d)', lambda m: self.section(m[1], chapter), part)
            elif re.match(r'`\([^`]{,30}\)`$', part): parts[i] = part.replace(' ', '\N{NO-BREAK SPACE}') # a shape stays in one piece
            elif part[0] == '`' and not parts[i-1].endswith('['):
                name = re.sub(r'\(.*\)$', '', part.strip('`')) # of a call, what is called
                if home := self.chapter_of(name, chapter): parts[i] = f'[{part}](#def-{home[3:]}.{name})'
        return ''.join(parts)

# A chapter

def page(book, chapter):
    "The cells as the site shows them"
    quoted, stubs = set(), []
    def anchor(m): return '' if m[1] in quoted else quoted.add(m[1]) or f'(quote-{m[1]}-{chapter[3:]})=\n\n'
    for cell, below in zip(book.cells[chapter], book.cells[chapter][1:] + [SimpleNamespace(text='')]):
        if cell.kind == 'markdown':
            text = re.sub(r'^\*(Figure: .*)\*$', r'{.caption}\n\1', book.linked(QUOTE.sub(anchor, cell.text), chapter), flags=re.M)
            if cell is book.cells[chapter][0] and chapter != 'index': text = re.sub('^# .*', f'# {book.title[chapter]}', text)
            yield markdown(text)
        elif cell.text and 'hide' not in cell.flags:
            above = ''.join(f'({label})=\n' for label in cell.labels)
            if cell.names: above += '```{index} ' + ', '.join('! ' * ('.' not in n) + n for n in cell.names) + '\n```\n'
            if cell.claims: above += '\n{.claim}\nClaim ' + ' · '.join(f'[{c}](#{c.lower()})' for c in cell.claims) + '\n'
            if above: yield markdown(above)
            yield code(cell.text, look(cell, below.text), cell.outputs)
            stubs += re.findall(r'^(?:def|class) (\w+)', cell.text, re.M) if not cell.names and 'raise NotImplementedError' in cell.text else []
            if 'with attempt()' in cell.text:
                for name in stubs: yield code(solution(book, chapter, name), folded('Solution', 'solution'))
                stubs = []

def solution(book, chapter, name):
    "Source of a solution, from the chapter's file in nbs/solutions/, after the functions that it alone uses"
    source = (book.root/f'nbs/solutions/test_solutions_{chapter[:2]}.py').read_text(encoding='utf8')
    nodes = {n.name: n for n in ast.parse(source).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    def text(n): return '\n'.join(source.splitlines()[min(x.lineno for x in [n, *n.decorator_list]) - 1:n.end_lineno])
    known = '\n'.join(cell.text for cell in book.cells[chapter])
    helpers = [n for n in nodes if re.search(rf'\b{n}\(', text(nodes[name])) and not re.search(rf'^(def|class) {n}\b', known, re.M)]
    return '\n\n'.join(text(nodes[n]) for n in [*helpers, name])

def code(source, metadata, outputs=()): return dict(cell_type='code', execution_count=None, metadata=metadata, source=source, outputs=list(outputs))

def folded(prompt, *tags): return dict(tags=['hide-input', *tags], mystnb=dict(code_prompt_show=prompt, code_prompt_hide=prompt))

def markdown(text): return dict(cell_type='markdown', metadata={}, source=text)

def look(cell, below):
    "Folds, labels and the words for a figure, its caption, as metadata that MyST-NB understands"
    nodes, tags, more = ast.parse(cell.text).body, [f for f in ('slow', 'cuda') if f in cell.flags], {}
    imports = [isinstance(n, (ast.Import, ast.ImportFrom)) for n in nodes]
    if cell.flags & {'export', 'exports'}: tags.append('exported')
    if 'echo' in cell.flags: tags.append('remove-input')
    elif 'export' in cell.flags or any(imports) and all(i or isinstance(n, ast.Assign) for i, n in zip(imports, nodes)):
        tags.append('hide-input')
        if any(imports): prompt = 'Imports of the module' if 'export' in cell.flags else 'Imports of this chapter'
        else: prompt = ' · '.join(line if line[0] == '`' else f'{n}: {line}' for n, line in definitions(cell.text)).replace('`', '')
        more = folded(prompt)['mystnb']
    if m := re.match(r'\*Figure: (.*)\*$', below, re.M): more['image'] = dict(alt=re.sub(r'[*`$\\]', '', m[1]))
    return dict(tags=tags, mystnb=more)

def contents(text):
    "A table of contents for each part, from the map of chapters in index.ipynb, and one for the gathered pages"
    parts = [('', [])]
    for part, title, chapter in re.findall(r'^\| (?:\*\*(.+?)\*\*|\[(.+?)\]\((\w+)\.ipynb\))', text, re.M):
        if part: parts.append((part, []))
        else: parts[-1][1].append(f'{title} <{chapter}>')
    parts.append(('At a glance', ['claims', 'deviations', 'results', 'api', 'genindex', 'CONTRIBUTING']))
    return '\n'.join('\n'.join(['```{toctree}', ':hidden:', *[f':caption: {part}'] * bool(part), '', *rows, '```']) for part, rows in parts)

# The gathered pages

def claims(book):
    "docs/claims.md, each line with links to the cells that answer it, each section with those that quote it"
    def answered(m):
        cells = sorted(book.claims[m[1]], key=lambda found: found[0])
        links = [f'[{n}](#{label})' for n, (_, _, label) in enumerate(cells, 1)]
        if cells: links[0] = f'[{book.title[cells[0][1]]}](#{cells[0][2]})'
        return f'({m[1].lower()})=\n**{m[1]}**\n: {m[2]} → {", ".join(links) or "open"}'
    def quoted(m):
        links = ' · '.join(f'[{book.title[c]}](#quote-{m[1]}-{c[3:]})' for c in book.quotes[m[1]])
        return f'{m[0]}\n\n```{{index}} ! §{m[1]}\n```\n' + (f'\n{{.quoted}}\nQuoted in {links}\n' if links else '')
    return re.sub(r'^## §([\d.]*\d) .*$', quoted, re.sub(r'^- (C\d+) (.*)$', answered, book.claims_text, flags=re.M), flags=re.M)

def deviations(book):
    yield '# Relative to the paper\n\nWhere the code and the paper differ, and why: the tables that stand at the end of the chapters.'
    for chapter, rows in book.cells.items():
        for m in (re.search(r'^## Relative to the paper\n+((?:\|.*\n?)+)', cell.text, re.M) for cell in rows):
            if m: yield f'## {book.title[chapter]}\n\n[To the chapter]({chapter}.ipynb#relative-to-the-paper)\n\n{book.linked(m[1], chapter)}'

def api(book):
    yield '# Exported names\n\nEvery name of the package, chapter by chapter, with a link to its definition. [From A to Z](genindex)'
    for chapter in book.cells:
        rows = [(name, homes[chapter]) for name, homes in book.names.items() if chapter in homes]
        lines = [f"| {' '.join(f'[`{n}`](#def-{chapter[3:]}.{n})' for n, _ in same)} | {book.linked(escape(line), chapter)} |"
                 for line, same in groupby(rows, key=lambda row: row[1])]
        if rows: yield f'## {book.title[chapter]}\n\n`transformer_nb.{chapter[3:]}`\n\n| name | what it is |\n|---|---|\n' + '\n'.join(lines)

def escape(text): return re.sub(r'(`[^`]*`)|([|<])', lambda m: m[1].replace('|', '\\|') if m[1] else '\\' + m[2], text)

def table(rows):
    "Dictionaries as a Markdown table"
    columns = list(dict.fromkeys(k for row in rows for k in row))
    def show(x): return ('–' if len(x) == 2 else ', ').join(map(str, x)) if isinstance(x, list) else '' if x is None else escape(str(x))
    rule = ['---' if isinstance(rows[0].get(c, ''), str) and '±' not in rows[0].get(c, '') else '--:' for c in columns]
    lines = [[c.replace('_', ' ') for c in columns], rule] + [[show(row.get(c)) for c in columns] for row in rows]
    return '\n'.join(f'| {" | ".join(line)} |' for line in lines)

def over_seeds(rows):
    "Rows that differ in their seed and in what was measured, as one: mean ± standard deviation"
    groups = defaultdict(list)
    for row in rows: groups[tuple((k, v) for k, v in row.items() if k != 'seed' and isinstance(v, (str, int)))].append(row)
    for key, same in groups.items():
        measured = {k: [row[k] for row in same] for k, v in same[0].items() if isinstance(v, float)}
        yield dict(key) | {k: f'{mean(v):.2f} ± {stdev(v):.2f}' if len(v) > 1 else v[0] for k, v in measured.items()} | {'seeds': len(same)}

def results(book):
    yield '# Results\n\nAs the measurements wrote them, from `nbs/results` and `nbs/models`; no number on this page was typed.'
    for path in sorted((book.root/'nbs/results').glob('*.jsonl')):
        rows = [json.loads(line) for line in path.read_text(encoding='utf8').splitlines()]
        texts = {c: '\n'.join(cell.text for cell in cells).partition(f'results/{path.name}') for c, cells in book.cells.items()}
        readers = [(c, re.findall('^##+ (.*)', before, re.M)[-1]) for c, (before, found, _) in texts.items() if found and c != 'index']
        chapter, heading = readers[0] if readers else ('', path.stem.capitalize())
        short = [{k: v for k, v in row.items() if not isinstance(v, dict) and len(str(v)) < 50} for row in rows]
        seeds = all('seed' in row for row in rows)
        note = f', read in [{book.title[chapter]}]({chapter}.ipynb)' if chapter else ''
        yield f'## {heading}\n\n`{path.name}`{note}.' + ' Mean ± standard deviation over the seeds.' * seeds
        yield table(list(over_seeds(short)) if seeds else short)
        long = [(row.get('row', ''), k, v) for row, kept in zip(rows, short) for k, v in row.items() if k not in kept]
        lines = [f'{row}, {k}\n: ' + ' \\\n  '.join(f'{a} `{b}`' for a, b in (v.items() if isinstance(v, dict) else [('', v)])) for row, k, v in long]
        if lines: yield '\n\n'.join(['<details><summary>Commands and signatures</summary>', *lines, '</details>'])
    for path in sorted((book.root/'nbs/models').glob('*/README.md')): yield re.sub('^#', '##', path.read_text(encoding='utf8'), flags=re.M)

def write(root, out):
    book = Book(root)
    shutil.rmtree(out.parent, ignore_errors=True) # no page outlives its chapter
    out.mkdir(parents=True)
    prose = '\n'.join(cell.text for rows in book.cells.values() for cell in rows if cell.kind == 'markdown')
    for link in {'../CONTRIBUTING.md', *re.findall(r'\]\(([^)#:\s]+)', prose)}: # figures, and what else is linked to
        target = out/link.removeprefix('../')
        target.parent.mkdir(parents=True, exist_ok=True)
        if (root/'nbs'/link).is_file() and target.suffix != '.ipynb': shutil.copy(root/'nbs'/link, target)
    for chapter, rows in book.cells.items():
        made = list(page(book, chapter))
        if chapter == 'index': made.append(markdown(contents('\n'.join(cell.text for cell in rows))))
        nb = dict(cells=made, metadata=dict(language_info=dict(name='python')), nbformat=4, nbformat_minor=4)
        (out/f'{chapter}.ipynb').write_text(json.dumps(nb), encoding='utf8')
    pages = dict(claims=[claims(book)], deviations=deviations(book), results=results(book), api=api(book))
    for name, parts in pages.items(): (out/f'{name}.md').write_text('\n\n'.join(parts) + '\n', encoding='utf8')

if __name__ == '__main__': write(ROOT, ROOT/'docs/_build/pages')
