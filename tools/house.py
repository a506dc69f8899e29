#!/usr/bin/env python3
"""The house rules that can be checked. Each takes the root of a checkout and returns a line
for every violation.

    python tools/house.py        # prints them all; exit status 1 where there are any
"""
import ast, builtins, filecmp, os, re, shutil, subprocess, sys
from collections import Counter, defaultdict
from configparser import ConfigParser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import mean, median
from symtable import symtable
from tempfile import TemporaryDirectory
from book import (ROOT, cells, chapters, exported, exported_modules, imported_modules,
                  is_workshop, module, number, package, read_notebook)
from readme import made_files
import figures, scripts

COLUMNS, OPERATIONS, MEAN_OPERATIONS = 92, 10, 3.2
COUNTED = (ast.Call, ast.Attribute, ast.Subscript, ast.BinOp, ast.BoolOp, ast.UnaryOp,
           ast.Compare, ast.comprehension, ast.Lambda, ast.IfExp)
UNUSED = 40 # exported names that only a reader calls
FIRST_STUDY = '16' # the chapters before it export the library
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
def what_is_made_stays_out(root):
    "What .gitignore names, such as nbdev's index of the package, is not in git"
    listing = ['git', 'ls-files', '--cached', '--ignored', '--exclude-standard']
    run = subprocess.run(listing, cwd=root, capture_output=True, text=True)
    return [f'{name} is made by a program; run `git rm --cached {name}`'
            for name in run.stdout.splitlines()] # nothing where there is no repository

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
def asides_are_folded(root):
    "A section that a first reader may skip begins its cell, and JupyterLab folds it"
    found = []
    for path in chapters(root):
        for i, cell in enumerate(read_notebook(path)['cells']):
            source = ''.join(cell['source'])
            if cell['cell_type'] == 'code' or '### Aside:' not in source: continue
            first_line = source.startswith('### Aside:') and source.count('### Aside:') == 1
            folded = cell['metadata'].get('jp-MarkdownHeadingCollapsed')
            if not (first_line and folded):
                found.append(f'{path.name} cell {i}: an aside begins its cell, whose '
                             'metadata has "jp-MarkdownHeadingCollapsed": true')
    return found

@rule
def folds_agree(root):
    "JupyterLab hides what the site hides, by metadata that tools/folds.py writes"
    found = []
    for path in chapters(root):
        for cell, stored in zip(cells(path), read_notebook(path)['cells']):
            hidden = stored['metadata'].get('jupyter', {})
            if hidden != cell.folds:
                found.append(f'{path.name} cell {cell.number}: metadata "jupyter" is '
                             f'{hidden}, not {cell.folds}; run `make export`')
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

@rule
def every_name_has_one_home(root):
    "No name is exported by two chapters"
    homes = defaultdict(set)
    for path in chapters(root):
        for cell in exported(path):
            for name in defined_names(cell.text): homes[name].add(path.stem)
    return [f'{name} is exported by {" and ".join(sorted(stems))}'
            for name, stems in sorted(homes.items()) if len(stems) > 1]

# Methods that `@patch` adds to a class of an earlier cell, and why. Editors and type
# checkers see them by declarations in the class; a module may have any attribute.
PATCHED = {
    'Beams.drop_rows': 'rows leave a batch two sections after the beam',
    'Cache.drop_rows': 'rows leave a batch two sections after the cache',
    'Checkpoints.read': 'damage is the subject of a section of its own',
    'Checkpoints.intact': 'the same',
    'Checkpoints.last_state': 'the same',
    'MultiHeadAttention.W_Q': 'as in the paper, for proofs; nothing computes with it',
    'MultiHeadAttention.W_K': 'the same',
    'MultiHeadAttention.W_V': 'the same',
    'MultiHeadAttention.W_O': 'the same',
    'Trainer.resume': 'what a run goes on from has a paragraph of its own',
    'Translator.translate_lines': 'a section of its own tells how a line is read',
    'Translator.candidates': 'candidates and alignments have a section of their own',
    'Translator.sample': 'translations drawn at random have a section of their own'}

@rule
def patches_are_declared(root):
    "Public methods stand in their class, or in PATCHED and declared in the class"
    found = []
    for path in chapters(root):
        declared = {}
        for cell in exported(path):
            for node in ast.parse(cell.text).body:
                where = f'{path.name} cell {cell.number}'
                if isinstance(node, ast.ClassDef):
                    declared[node.name] = declarations(node)
                else: found += undeclared(node, declared, where)
    return found

def declarations(node): # of a class; None where anything may be an attribute
    if 'nn.Module' in map(ast.unparse, node.bases): return None
    return {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)}

def undeclared(node, declared, where):
    decorators = ' '.join(map(ast.unparse, getattr(node, 'decorator_list', [])))
    if 'patch' not in decorators or node.name.startswith('_'): return
    owner = ast.unparse(node.args.args[0].annotation)
    if f'{owner}.{node.name}' not in PATCHED:
        yield f'{where}: {owner}.{node.name} is patched, and PATCHED gives no reason'
    names = declared.get(owner, set())
    if names is not None and node.name not in names:
        yield f'{where}: {node.name} is patched and not declared in {owner}'

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

@rule
def exports_are_used(root):
    "Few exported names are used by no other module, chapter, tool or benchmark"
    users = defaultdict(set) # of a name, the rooms that mention it
    for room, source in rooms(root):
        for name in mentioned(source): users[name].add(room)
    unused = []
    for path in exported_modules(root):
        own = {module_name(path, root), module_name(path, root).partition('.')[0]}
        unused += [f'{path.stem}.{name}' for name in listed(read(path))
                   if not users[name] - own]
    if len(unused) <= UNUSED: return []
    return [f'{len(unused)} exported names are used nowhere else, {UNUSED} is the limit; '
            f'let their cells begin with `exporti`: {", ".join(unused)}']

def rooms(root): # names of modules, chapters without one, and files; with their sources
    for path in chapters(root):
        for cell in cells(path, 'code'): yield module(path) or path.stem, cell.source
    for path in exported_modules(root): yield module_name(path, root), read(path)
    for folder in ('tools', 'docs', 'benchmarks'):
        for path in Path(root, folder).glob('*.py'): yield path.name, read(path)
    scripts = re.findall(r':(\w+)', read(Path(root, 'settings.ini')))
    yield 'settings.ini', '\n'.join(scripts)

def module_name(path, root): # `studies.parsing`
    return '.'.join(path.relative_to(Path(root, 'transformer_nb')).with_suffix('').parts)

def listed(source): # the names in `__all__`
    lists = [n.value for n in ast.parse(source).body
             if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == '__all__']
    return [name for node in lists for name in ast.literal_eval(node)]

@cache
def mentioned(source):
    "Names in code: of things, attributes, and what is imported"
    lines = ['pass' if re.match(r'\s*[%!]', l) else l for l in source.splitlines()]
    found = set()
    for node in ast.walk(ast.parse('\n'.join(lines))):
        if isinstance(node, ast.Name): found.add(node.id)
        if isinstance(node, ast.Attribute): found.add(node.attr)
        if isinstance(node, ast.alias): found |= set(node.name.split('.'))
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
def the_library_needs_no_study(root):
    "No chapter of the library, 00 to 15, imports what a study exports, or the grader"
    return [f'{path.name} cell {cell.number}: imports {what}'
            for what, name in (('a study', 'studies'), ('the grader', 'grading'))
            for path in chapters(root) if path.stem < FIRST_STUDY
            for cell in cells(path, 'code')
            if re.search(rf'\btransformer_nb(\.| import ){name}\b', cell.source)]

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

OPTION = re.compile(r'(^|[^\w-])--[a-z_]+\b')

@rule
def the_library_speaks_of_fields(root):
    "Only a command, which carries that decorator, knows that a field is an `--option`"
    found = []
    for path in exported_modules(root):
        if path.stem == 'commands': continue
        tree = ast.parse(read(path))
        commands = [node for node in tree.body if isinstance(node, ast.FunctionDef)
                    and 'command' in map(ast.unparse, node.decorator_list)]
        of_commands = {n for command in commands for n in ast.walk(command)}
        for node in ast.walk(tree):
            if node in of_commands or not isinstance(node, ast.Constant): continue
            text = node.value if isinstance(node.value, str) else ''
            if ' ' in text and OPTION.search(text): # not one argument of a call
                found.append(f'{path.stem}: {text!r} names an option; write the field in '
                             'backticks, or raise a FieldError')
    return found

@rule
def speed_has_its_room(root):
    "Chapters 01 to 13 know nothing of `fast`"
    return [f'{path.name} cell {cell.number}: imports fast'
            for path in chapters(root) if path.stem < '14a'
            for cell in cells(path, 'code')
            if 'speed.fast' in imported_modules(cell.source)]

@rule
def drawing_is_imported_late(root):
    "No chapter's module imports pyplot, so that who draws nothing need not wait for it"
    found = []
    for path in chapters(root):
        for cell in exported(path):
            at_top = re.search(r'^(from|import) matplotlib', cell.source, re.M)
            inside = re.search(r'^\s+(from|import) matplotlib', cell.source, re.M)
            if at_top or inside:
                found.append(f'{path.name} cell {cell.number}: imports matplotlib')
    return found

@rule
def cells_are_short(root):
    "Exported cells: none over 40 lines, half of a chapter's have at most 12"
    found = []
    for path in chapters(root):
        sizes = {cell.number: len(code_lines(cell.source)) for cell in exported(path)}
        found += [f'{path.name} cell {i}: {n} exported lines; 40 is the limit'
                  for i, n in sizes.items() if n > 40]
        if sizes and median(sizes.values()) > 12:
            found.append(f'{path.name}: median of {median(sizes.values())} exported lines; '
                         '12 is the limit')
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
def names_come_first(root):
    "A cell uses what cells above it define, so that slow ones, which no test runs, can run"
    found = []
    for path in chapters(root):
        known = {*dir(builtins), 'get_ipython'}
        for cell in cells(path, 'code'):
            table = symtable(cell.source, path.name, 'exec')
            known |= {s.get_name() for s in table.get_symbols()
                      if s.is_assigned() or s.is_imported()}
            found += [f'{path.name} cell {cell.number}: {name} is not defined yet'
                      for name in sorted(names_used(table) - known)]
    return found

def names_used(table): # when the cell runs: not in the bodies of its functions
    names = {s.get_name() for s in table.get_symbols()
             if s.is_global() and s.is_referenced()}
    for inner in table.get_children():
        is_at_once = inner.get_name() in ('listcomp', 'setcomp', 'dictcomp', 'genexpr')
        if is_at_once or inner.get_type() == 'class': names |= names_used(inner)
    return names

@rule
def no_star_imports(root):
    "Exported code imports explicit names"
    return [f'{path.name} cell {cell.number}: import * in exported code'
            for path in chapters(root) for cell in exported(path)
            if re.search(r'^from \S+ import \*', cell.source, re.M)]

@rule
def claims_assert(root):
    "A cell that answers a claim asserts something"
    asserts = re.compile(r'\bassert\b|\btest_\w+\(|assert_close|assert_equal')
    return [f'{path.name} cell {cell.number}: answers a claim and asserts nothing'
            for path in chapters(root) for cell in cells(path, 'code')
            if 'claim' in cell.flags and not asserts.search(cell.source)]

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

# Tests

CHANCE = re.compile(r'\b(Random|SystemRandom|default_rng|RandomState|seed|uuid4)\(\)'
                    r'|\b(secrets\.|urandom\()')
TEST_FOLDERS = ('tests', 'tests/robustness', 'nbs/solutions')

@rule
def tests_leave_nothing_to_chance(root):
    """One `conftest.py` seeds every test by its name and starts the browser, and no test
    makes a generator without a seed"""
    fixture = r'^@pytest.fixture\(autouse=True\)\ndef \w+\(request\): seed_by_name\('
    common = read(Path(root, 'conftest.py'))
    found = []
    if not re.search(fixture, common, re.M) or '--random-seed=' not in common:
        found.append('conftest.py: not every test, or no page, starts from a seed')
    files = [p for folder in TEST_FOLDERS for p in sorted(Path(root, folder).glob('*.py'))]
    for path in files:
        lines = list(enumerate(read(path).splitlines(), 1))
        found += [f'{path.name}:{i}: draws without a seed' for i, line in lines
                  if CHANCE.search(line)]
        found += [f'{path.name}:{i}: starts a browser of its own; take `chromium`'
                  for i, line in lines if 'chromium.launch' in line]
    return found

# The page's JavaScript

@rule
def scripts_carry_one_thought(root):
    "At most 92 columns and ten operations per line, and 40 lines per function"
    found = []
    for path in page_scripts(root):
        source = read(path)
        lines, code = source.splitlines(), scripts.code_of(source).splitlines()
        widths = enumerate(map(len, lines), 1)
        counts = enumerate(map(scripts.operations, code), 1)
        found += [f'{path.name}:{i}: {n} columns; {COLUMNS} is the limit'
                  for i, n in widths if n > COLUMNS]
        found += [f'{path.name}:{i}: {n} operations; {OPERATIONS} is the limit'
                  for i, n in counts if n > OPERATIONS]
        found += [f'{path.name}:{i}: a function of {n} lines; 40 is the limit'
                  for i, n in scripts.functions(source) if n > 40]
    return found

def page_scripts(root): return sorted(Path(root, 'transformer_nb/playground').glob('*.js'))

@rule
def scripts_import_what_is_there(root):
    "The page's modules import what others export, use it, and never go in a circle"
    sources = {path.stem: read(path) for path in page_scripts(root)}
    found, needs = [], {}
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

@rule
def shown_code_fits(root):
    "Fenced code is at most 92 columns wide, in the chapters and on the Markdown pages"
    pages = [(p, cell.source) for p in chapters(root) for cell in cells(p, 'markdown')]
    pages += [(p.relative_to(root), read(p)) for p in markdown_pages(root)]
    return [f'{path}: {len(line)} columns of code; {COLUMNS} is the limit: {line[:40]}'
            for path, text in pages
            for block in re.findall(r'^```\w*\n(.*?)^```', text, re.M | re.S)
            for line in block.splitlines() if len(line) > COLUMNS]

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

@rule
def scripts_exist(root):
    "Every console script of settings.ini names a function of the package"
    config = ConfigParser(delimiters=['='])
    config.read(Path(root, 'settings.ini'), encoding='utf8')
    found = []
    for line in config['DEFAULT']['console_scripts'].split():
        name, target = line.split('=')
        module_name, function = target.split(':')
        folder = Path(root, *module_name.split('.'))
        places = folder.with_suffix('.py'), folder/'__init__.py'
        defined = [n for path in places if path.exists() for n in defined_names(read(path))]
        if function not in defined:
            found.append(f'settings.ini: {name} names {target}, which is not there')
    return found

EFFECT = re.compile(
    r'better|worse|lower|higher|faster|cheaper|helps?\b|learn(s|ed)\b|matters?\b|'
    r'costs?\b|can go|change the loss|holds? back|train(s|ed)\b|fails?\b|carries|'
    r's differ\b|undecided|open$|unlike|no difference|enough|predicts?\b|gained|'
    r'\bnot\b|nothing|keeps?\b|only\b|multiply|shrink|bound|dominate|connects|most\b|'
    r'caches|equal|\brun GPT', re.I)

@rule
def headings_are_judged(root):
    "A heading of 15 to 22 that names an effect is listed in docs/headings.md, with verdict"
    text = Path(root, 'docs/headings.md').read_text(encoding='utf8')
    listed = set(re.findall(r'^\| (\d+a?) \| (.*?) \|', text, re.M))
    found = set()
    for path in chapters(root):
        if not '15_' <= path.name < '23' or is_workshop(path.stem): continue
        prose = '\n'.join(cell.source for cell in cells(path, 'markdown'))
        for heading in re.findall(r'^#{2,4} (.*[^?\s])$', prose, re.M):
            row, told = (number(path.stem), heading), heading.removeprefix('Aside: ')
            if told.lower().startswith(('how ', 'what ')): continue
            if EFFECT.search(told) or row in listed: found.add(row)
    return [f'docs/headings.md and chapter {chapter} disagree on “{heading}”'
            for chapter, heading in sorted(found ^ listed)]

@rule
def every_chapter_is_on_the_map(root):
    "index.ipynb lists each chapter once: the line, then the workshop, in reading order"
    first_page = cells(Path(root, 'nbs/index.ipynb'), 'markdown')
    text = '\n'.join(cell.source for cell in first_page)
    listed = re.findall(r'^\| \[[^\]]+\]\((\w+)\.ipynb\)', text, re.M)
    there = [path.stem for path in chapters(root) if path.stem != 'index']
    there.sort(key=is_workshop) # each stays in reading order
    return [] if listed == there else [f'index.ipynb lists {listed}, there are {there}']

@rule
def next_follows_the_line(root):
    "*Next* leads from each chapter of the line to the next one; it names others workshop"
    line = [p for p in chapters(root) if p.stem != 'index' and not is_workshop(p.stem)]
    found = []
    for path, following in zip(line, line[1:]):
        prose = '\n'.join(cell.source for cell in cells(path, 'markdown'))
        for text in re.findall(r'^\*\*Next:\*\* .*', prose, re.M) or ['']:
            first, *others = re.findall(r'\]\((\w+)\.ipynb', text) or ['nowhere']
            if first != following.stem:
                found.append(f'{path.name}: Next leads to {first}, not {following.stem}')
            if any(map(is_workshop, others)) and 'workshop' not in text:
                found.append(f'{path.name}: Next does not call {others} workshop chapters')
    return found

def violations(root): return [f'{r.__name__}: {line}' for r in RULES for line in r(root)]

if __name__ == '__main__':
    problems = violations(ROOT)
    print(*problems, sep='\n')
    sys.exit(bool(problems))
