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
from book import (
    ROOT, cells, chapters, exported, exported_modules, imported_modules, module, package)

COLUMNS, OPERATIONS, MEAN_OPERATIONS = 92, 10, 3.2
COUNTED = (ast.Call, ast.Attribute, ast.Subscript, ast.BinOp, ast.BoolOp, ast.UnaryOp,
           ast.Compare, ast.comprehension, ast.Lambda, ast.IfExp)
CODE_FOLDERS = ('tests', 'tests/robustness', 'tools', 'docs', 'benchmarks', 'nbs/solutions')

RULES = []
def rule(func):
    RULES.append(func)
    return func

def read(path): return Path(path).read_text(encoding='utf8')

# What is made, and what imports what

NEEDED = ('Makefile', 'constraints.txt', 'settings.ini', 'setup.py', 'README.md',
          'CITATION.cff', 'transformer.py')

@rule
def export_changes_nothing(root):
    "Package, README, folds, numbers of figures, and clean notebooks, in a copy"
    left_out = shutil.ignore_patterns('__pycache__', '.*', 'models', '_modidx.py')
    with TemporaryDirectory() as folder:
        for name in ('nbs', 'transformer_nb', 'tools'):
            shutil.copytree(Path(root, name), Path(folder, name), ignore=left_out)
        for name in NEEDED: shutil.copy(Path(root, name), folder)
        made = files_of(folder)
        for path in exported_modules(folder): path.unlink() # a chapter may have gone
        Path(folder, '.venv').mkdir()
        Path(folder, '.venv/ready').touch() # it is set up: the Python that runs this
        env = {k: v for k, v in os.environ.items() if k != 'IN_TEST'} # or it does nothing
        command = ['make', '-s', 'export', f'BIN={Path(sys.executable).parent}']
        run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        if run.returncode: return [f'make export fails: {run.stderr.strip()[-200:]}']
        made |= files_of(folder)
        _, differing, missing = filecmp.cmpfiles(root, folder, made, shallow=False)
    return [f'{name} is stale; run `make export`' for name in sorted(differing + missing)]

def files_of(folder): # that are, or may be, made
    kinds = 'nbs/*.ipynb', 'transformer_nb/**/[a-z]*.py', '*.md', '*.cff', '*.py'
    return {str(p.relative_to(folder)) for kind in kinds for p in Path(folder).glob(kind)}

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

# The budget

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
