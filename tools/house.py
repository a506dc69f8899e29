#!/usr/bin/env python3
"""The house rules that can be checked. Each takes the root of a checkout and returns a line
for every violation.

    python tools/house.py        # prints them all; exit status 1 where there are any
"""
import ast, filecmp, json, os, re, shutil, subprocess, sys
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from book import (ROOT, cells, chapters, exported, exported_modules, imported_modules,
                  module, package, read_notebook)
from readme import made_files
import figures, folds, scripts

COLUMNS, OPERATIONS, MEAN_OPERATIONS = 92, 10, 3.2
COUNTED = (ast.Call, ast.Attribute, ast.Subscript, ast.BinOp, ast.BoolOp, ast.UnaryOp,
           ast.Compare, ast.comprehension, ast.Lambda, ast.IfExp)
CODE_FOLDERS = ('tests', 'tests/robustness', 'tools', 'docs', 'benchmarks', 'nbs/solutions')

RULES = []
def rule(func):
    RULES.append(func)
    return func

def read(path): return Path(path).read_text(encoding='utf8')

# What the notebooks are made of

@rule
def package_in_sync(root):
    "The package is what the notebooks export"
    hidden = shutil.ignore_patterns('__pycache__', '.*')
    with TemporaryDirectory() as folder:
        for name in ('nbs', 'transformer_nb'):
            shutil.copytree(Path(root, name), Path(folder, name), ignore=hidden)
        shutil.copy(Path(root, 'settings.ini'), folder)
        for old in exported_modules(folder): old.unlink()
        env = {k: v for k, v in os.environ.items() if k != 'IN_TEST'} # or it does nothing
        export = 'from nbdev.doclinks import nbdev_export; nbdev_export()'
        run = subprocess.run([sys.executable, '-c', export], cwd=folder, env=env,
                             capture_output=True, text=True)
        if run.returncode:
            last = run.stderr.strip().splitlines()[-1]
            return [f'nbdev_export fails: {last}']
        return stale_modules(Path(root), Path(folder))

def stale_modules(committed, fresh):
    names = {'transformer_nb/__init__.py'}
    for folder in (committed, fresh):
        names |= {str(path.relative_to(folder)) for path in exported_modules(folder)}
    _, differing, missing = filecmp.cmpfiles(committed, fresh, sorted(names), shallow=False)
    return [f'{name} is not what the notebooks export; run `make export`'
            for name in differing + missing]

@rule
def notebooks_clean(root):
    "Cells have ids of their own, no run numbers and no foreign metadata"
    allowed = {'tags', 'jupyter', 'jp-MarkdownHeadingCollapsed'}
    found = []
    for path in chapters(root):
        raw = read_notebook(path)['cells']
        ids = [c.get('id') for c in raw]
        if None in ids or len(set(ids)) < len(ids):
            found.append(f'{path.name}: a cell without an id of its own')
        for i, cell in enumerate(raw):
            where, foreign = f'{path.name} cell {i}', set(cell['metadata']) - allowed
            if cell.get('execution_count') is not None:
                found.append(f'{where}: a run number is stored; run nbdev_clean')
            if foreign:
                found.append(f'{where}: metadata {sorted(foreign)}; run nbdev_clean')
    return found

@rule
def folds_agree(root):
    "JupyterLab hides what the site hides, by metadata that tools/folds.py writes"
    found = []
    for path in chapters(root):
        notebook = read_notebook(path)
        wanted = folds.folded(notebook)
        if wanted != notebook['cells']:
            found.append(f'{path.name}: what is folded; run `make export`')
    return found

@rule
def one_module_each(root):
    "`01_attention` exports to `attention`, in whatever room"
    found = []
    for path in chapters(root):
        expected, name = path.stem.partition('_')[2], module(path) or ''
        if path.stem == 'index' or not name: continue
        if name.rpartition('.')[2] != expected:
            found.append(f'{path.name}: default_exp is {name}, expected {expected}')
    return found

@rule
def no_circle(root):
    "Modules import each other in one direction, also inside functions and by name"
    homes = {module_name(path, root): read(path) for path in package(root)}
    graph = {name: {*imports_of(name, text)} & {*homes} - {name}
             for name, text in homes.items()}
    try: TopologicalSorter(graph).prepare()
    except CycleError as e: return [f'modules import each other: {" -> ".join(e.args[1])}']
    return []

def imports_of(name, source):
    "Absolute and relative imports, as `imported_modules` names them"
    room = name.rpartition('.')[0]
    def absolute(m):
        folder = room if len(m[2]) == 1 and room else ''
        origin = '.'.join(filter(None, ['transformer_nb', folder, m[3]]))
        return f'{m[1]}from {origin} import'
    relative = re.compile(r'^(\s*)from (\.+)([\w.]*) import', re.M)
    return imported_modules(relative.sub(absolute, source))

def defined_names(source):
    "Public functions, classes and constants that a cell defines; patched methods are none"
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            targets = [n for t in node.targets for n in ast.walk(t)]
            found += [n.id for n in targets if isinstance(n, ast.Name)]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            decorators = ' '.join(map(ast.unparse, node.decorator_list))
            if 'patch' not in decorators: found.append(node.name)
    return [name for name in found if not name.startswith('_')]

def module_name(path, root): # `studies.parsing`
    return '.'.join(path.relative_to(Path(root, 'transformer_nb')).with_suffix('').parts)

ABOVE = 'commands', 'grading', 'proving', 'studies' # rooms that the library does not need

@rule
def the_library_stands_alone(root):
    "It imports nothing of the rooms that stand on it"
    found = []
    for path in package(root):
        name = module_name(path, root)
        if name.partition('.')[0] in ABOVE: continue
        found += [f'{name} imports {other}' for other in imports_of(name, read(path))
                  if other.partition('.')[0] in ABOVE]
    return found

@rule
def imports_point_back(root):
    "A chapter imports only modules of chapters before it"
    homes = {module(path): path.stem for path in chapters(root) if module(path)}
    found = []
    for path in chapters(root):
        if module(path) is None: continue # the introduction and the index use all of it
        for cell in cells(path, 'code'):
            for name in imported_modules(cell.source):
                if homes.get(name, '') > path.stem: # plain modules: see `no_circle`
                    where = f'{path.name} cell {cell.number}'
                    found.append(f'{where}: imports {name} of a later chapter')
    return found

@rule
def private_names_stay_at_home(root):
    "What begins with `_`, or stands in a cell headed `exporti`, no other chapter imports"
    imports = r'^from transformer_nb\.([\w.]+) import (\([^)]*\)|.*)'
    internal = {name for path in chapters(root) for cell in cells(path, 'code')
                if 'exporti' in cell.flags for name in defined_names(cell.text)}
    return [f'{path.name} cell {cell.number}: imports {name}, a private name'
            for path in chapters(root) for cell in cells(path, 'code')
            for origin, names in re.findall(imports, cell.source, re.M)
            for name in re.findall(r'\b[A-Za-z_]\w*', names)
            if origin != module(path) and (name in internal or re.match('_[A-Za-z]', name))]

@rule
def cells_are_short(root):
    "Exported cells: none over 40 lines"
    found = []
    for path in chapters(root):
        sizes = {cell.number: len(code_lines(cell.source)) for cell in exported(path)}
        found += [f'{path.name} cell {i}: {n} exported lines; 40 is the limit'
                  for i, n in sizes.items() if n > 40]
    return found

def code_lines(source):
    return [l for l in source.splitlines() if l.strip() and not l.startswith('#|')]

@rule
def directives_lead(root):
    "A directive below code is silently ignored by nbdev"
    found = []
    for path in chapters(root):
        for cell in cells(path, 'code'):
            for line in cell.text.splitlines():
                if re.match(r'\s*#\|', line):
                    found.append(f'{path.name} cell {cell.number}: `{line.strip()}` stands '
                                 'below the first line of code')
    return found

@rule
def errors_are_rare(root):
    "At most one stored error per chapter"
    found = []
    for path in chapters(root):
        outputs = [o for cell in cells(path, 'code') for o in cell.outputs]
        n = sum(o['output_type'] == 'error' for o in outputs)
        if n > 1: found.append(f'{path.name}: {n} stored errors; 1 is the limit')
    return found

@rule
def stored_runs_name_their_commit(root):
    "Outputs of cells that no test runs, and lines of results, say which commit made them"
    found = []
    for path in chapters(root):
        for cell in cells(path, 'code'):
            commit = cell.directives.get('commit', '')
            if cell.is_slow and cell.outputs and not re.fullmatch('[0-9a-f]{7,}', commit):
                found.append(f'{path.name} cell {cell.number}: its stored output needs a '
                             'line `#| commit HASH`')
            if 'skipped: a ' in str(cell.outputs):
                found.append(f'{path.name} cell {cell.number}: its stored output is a note '
                             'that it was skipped; take the output back from git')
    for path in sorted(Path(root, 'nbs/results').glob('*.jsonl')):
        for i, line in enumerate(read(path).splitlines(), 1):
            if '"commit": "' not in line: found.append(f'{path.name}:{i}: names no commit')
    return found

@rule
def stored_outputs_are_of_this_code(root):
    "The words that a slow cell prints, outside of any `if`, stand in its stored output"
    found = []
    for path in chapters(root):
        for cell in cells(path, 'code'):
            if not (cell.is_slow and cell.outputs): continue
            texts = [''.join(output.get('text', '')) for output in cell.outputs]
            stored = ' '.join(' '.join(texts).split())
            found += [f'{path.name} cell {cell.number}: stored output lacks "{words}"'
                      for words in printed(ast.parse(cell.text)) if words not in stored]
    return found

def printed(node): # the strings that calls of print hold, also those inside f-strings
    if isinstance(node, ast.If): return
    if isinstance(node, ast.Call) and ast.unparse(node.func) == 'print':
        parts = [getattr(arg, 'values', [arg]) for arg in node.args
                 if isinstance(arg, (ast.JoinedStr, ast.Constant))]
        texts = [p.value for part in parts for p in part if isinstance(p, ast.Constant)]
        yield from (' '.join(text.split()) for text in texts if isinstance(text, str))
    for child in ast.iter_child_nodes(node): yield from printed(child)

# Lines

@cache
def operations(source):
    "Number of operations by line"
    lines = ['pass' if re.match(r'\s*[%!]', l) else l for l in source.splitlines()] # magics
    counts = Counter()
    for node in ast.walk(ast.parse('\n'.join(lines))):
        if isinstance(node, COUNTED):
            at = node.target if isinstance(node, ast.comprehension) else node
            counts[at.lineno] += 1
    return counts

def long_lines(where, source):
    "A line for each that is too wide, or does too much"
    for i, line in enumerate(source.splitlines(), 1):
        if len(line) > COLUMNS:
            yield f'{where} line {i}: {len(line)} columns; {COLUMNS} is the limit'
    for i, n in operations(source).items():
        if n > OPERATIONS:
            yield f'{where} line {i}: {n} operations; {OPERATIONS} is the limit'

@rule
def lines_carry_one_thought(root):
    "At most 92 columns and ten operations per line; in the package 3.2 in the mean"
    found = []
    for path in chapters(root):
        for cell in cells(path, 'code'):
            found += long_lines(f'{path.name} cell {cell.number}', cell.source)
    files = [p for folder in CODE_FOLDERS for p in sorted(Path(root, folder).glob('*.py'))]
    files += [Path(root, name) for name in ('setup.py', 'conftest.py')]
    for path in files: found += long_lines(path.name, read(path))
    counts = [n for path in exported_modules(root) for n in operations(read(path)).values()]
    if mean(counts) > MEAN_OPERATIONS:
        found.append(f'the package has {mean(counts):.2f} operations per line; '
                     f'{MEAN_OPERATIONS} is the limit')
    return found

@rule
def ruff_is_silent(root):
    "No unused name, no trap that bugbear knows (ruff.toml)"
    command = [sys.executable, '-m', 'ruff', 'check', '-q', '--output-format', 'concise']
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()

# The page's JavaScript

def page_scripts(root): return sorted(Path(root, 'transformer_nb/playground').glob('*.js'))

@rule
def scripts_import_what_is_there(root):
    "The page's modules import what others export, use it, and never go in a circle"
    exporter = read(Path(root, 'transformer_nb/formats/page.py')) # writes what is shared
    shared = exporter.partition('def shared(')[2].partition('\n\n')[0]
    sources = {path.stem: read(path) for path in page_scripts(root)}
    found, needs = [], {}
    sources['shared'] = f'export {{{", ".join(re.findall("([A-Z]+)=", shared))}}}'
    for stem, source in sources.items():
        needs[stem] = {module for _, module in scripts.imports(source)}
        code = scripts.code_of(scripts.IMPORT.sub('', source))
        for names, other in scripts.imports(source):
            exported = scripts.exports(sources.get(other, ''))
            found += [f'{stem}.js: {other}.js exports no {x}' for x in names
                      if x not in exported]
            found += [f'{stem}.js: {x} is imported and not used' for x in names
                      if not re.search(rf'(?<![\w$]){re.escape(x)}(?![\w$])', code)]
    try: TopologicalSorter(needs).prepare()
    except CycleError as e: found.append(f'modules import in a circle: {e.args[1]}')
    return found

# What stands beside the notebooks

def markdown_pages(root):
    texts = Path(root).glob('*.md'), Path(root, 'nbs').rglob('*.md')
    return sorted(path for paths in texts for path in paths)

@rule
def links_exist(root):
    "Files that the chapters and the Markdown pages link to are there"
    pages = [(p, cell.source) for p in chapters(root) for cell in cells(p, 'markdown')]
    pages += [(p, read(p)) for p in markdown_pages(root)]
    found = []
    for path, text in pages:
        for target in re.findall(r'\]\(([^)#\s]+)', text):
            outside = re.match(r'[a-z]+:', target)
            if not outside and not (path.parent/target).exists():
                found.append(f'{path.name}: no file {target}')
    return found

@rule
def figures_are_numbered(root):
    "Captions run 1, 2, 3 … in each chapter, and the figures that are referred to exist"
    found, there = [], set()
    for path in figures.numbered(root):
        stored, expected = figures.stored(path), figures.expected(path)
        there |= set(expected)
        found += [f'{path.name}: a caption says {number or "no number"} where Figure '
                  f'{wanted} stands; run `make export`'
                  for number, wanted in zip(stored, expected) if number != wanted]
    for path in chapters(root):
        for cell in cells(path):
            found += [f'{path.name} cell {cell.number}: there is no Figure {number}'
                      for number in figures.REFERENCE.findall(cell.source)
                      if number not in there]
    return found

@rule
def made_files_are_fresh(root):
    "README.md is made from nbs/index.ipynb; with CITATION.cff it follows settings.ini"
    return [f'{name} is not what index.ipynb and settings.ini say; run `make export`'
            for name, text in made_files(Path(root)).items()
            if read(Path(root, name)) != text]

def lines_of(root, *patterns):
    paths = {path for pattern in patterns for path in Path(root).glob(pattern)
             if path.name != '_modidx.py'} # which is not in git
    return sum(read(path).count('\n') for path in paths)

PYTHON = 'transformer_nb/**/*.py'
BUILD = [f'transformer_nb/{room}/**/*.py' for room in ('proving', 'grading', 'assignment')]
ROOMS = { # what `budget` counts, as HOUSE.md has the rooms
    'studies': ['transformer_nb/studies/*.py'],
    'proving, grading, kit': BUILD,
    'page': [f'transformer_nb/playground/*.{kind}' for kind in ('js', 'css', 'html')],
    'tests': ['tests/**/*.py', 'tests/**/*.mjs', 'nbs/solutions/*.py'],
    'tools, docs, benchmarks': ['tools/*.py', 'docs/*.py', 'benchmarks/**/*.py']}

def budget(root):
    counted = {room: lines_of(root, *patterns) for room, patterns in ROOMS.items()}
    above = counted['studies'] + counted['proving, grading, kit']
    return {'library': lines_of(root, PYTHON) - above} | counted

@rule
def the_budget_only_falls(root):
    "No room has more lines than tools/budget.json says; what comes names what leaves"
    kept = json.loads(read(Path(root, 'tools/budget.json')))
    return [f'{room} has {n:,} lines, {kept[room]:,} are its budget'
            for room, n in budget(root).items() if n > kept[room]]

def violations(root): return [f'{r.__name__}: {line}' for r in RULES for line in r(root)]

if __name__ == '__main__':
    problems = violations(ROOT)
    print(*problems, sep='\n')
    sys.exit(bool(problems))
