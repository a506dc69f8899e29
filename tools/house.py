"""The house rules that can be checked. Each rule takes the root of a checkout and returns a line for every violation."""
import ast, filecmp, json, os, re, shutil, subprocess, sys
from configparser import ConfigParser
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

RULES = []
def rule(func):
    RULES.append(func)
    return func

def chapters(root): return sorted(Path(root, 'nbs').glob('*.ipynb'))

def cells(path, kind='code'):
    "Number and source of the cells of a kind"
    nb = json.loads(path.read_text(encoding='utf8'))
    return [(i, ''.join(c['source'])) for i, c in enumerate(nb['cells']) if c['cell_type'] == kind]

def head(source):
    "The directives that lead a cell"
    lines = []
    for line in source.splitlines():
        if not line.startswith('#|'): break
        lines.append(line[2:].strip())
    return lines

def exported(path):
    "Number and source of the exported cells"
    return [(i, s) for i, s in cells(path) if any(re.match(r'exports?i?\b', d) for d in head(s))]

def code_lines(source): return [l for l in source.splitlines() if l.strip() and not l.startswith('#|')]

def module(path):
    "What `#| default_exp` names, or None"
    names = [d.split()[1] for _, s in cells(path) for d in head(s) if d.startswith('default_exp')]
    return names[0] if names else None

@rule
def package_in_sync(root):
    "The package is what the notebooks export"
    with TemporaryDirectory() as d:
        for name in ('nbs', 'transformer_nb'): shutil.copytree(Path(root, name), Path(d, name), ignore=shutil.ignore_patterns('__pycache__', '.*'))
        shutil.copy(Path(root, 'settings.ini'), d)
        for old in Path(d, 'transformer_nb').glob('*.py'):
            if old.name != '__init__.py': old.unlink()
        env = {k: v for k, v in os.environ.items() if k != 'IN_TEST'} # with it nbdev_export does nothing
        run = subprocess.run([sys.executable, '-c', 'from nbdev.doclinks import nbdev_export; nbdev_export()'],
                             cwd=d, env=env, capture_output=True, text=True)
        if run.returncode: return [f'nbdev_export fails: {run.stderr.strip().splitlines()[-1]}']
        names = {p.name for folder in (root, d) for p in Path(folder, 'transformer_nb').glob('*.py')}
        _, mismatch, errors = filecmp.cmpfiles(Path(root, 'transformer_nb'), Path(d, 'transformer_nb'), sorted(names), shallow=False)
        return [f'transformer_nb/{name} is not what the notebooks export; run `make export`' for name in mismatch + errors]

@rule
def notebooks_clean(root):
    "Cells have ids of their own, no run numbers and no foreign metadata"
    found = []
    for p in chapters(root):
        nb = json.loads(p.read_text(encoding='utf8'))
        ids = [c.get('id') for c in nb['cells']]
        if None in ids or len(set(ids)) < len(ids): found.append(f'{p.name}: a cell without an id of its own')
        for i, c in enumerate(nb['cells']):
            if c.get('execution_count') is not None: found.append(f'{p.name} cell {i}: run number {c["execution_count"]} is stored; run nbdev_clean')
            if set(c['metadata']) - {'tags', 'jupyter'}: found.append(f'{p.name} cell {i}: metadata {sorted(c["metadata"])}; run nbdev_clean')
    return found

@rule
def one_module_each(root):
    "`01_attention` exports to `attention`, and no two chapters to one module"
    return [f'{p.name}: default_exp is {module(p)}, expected {p.stem[3:]}' for p in chapters(root)
            if p.stem != 'index' and module(p) != p.stem[3:]]

@rule
def imports_point_back(root):
    "A chapter imports only modules of lower number"
    number = {module(p): p.stem[:2] for p in chapters(root) if module(p)}
    found = []
    for p in chapters(root):
        if p.stem == 'index': continue
        for i, source in cells(p):
            for name in re.findall(r'^\s*(?:from|import) transformer_nb\.(\w+)', source, re.M):
                if number.get(name, '99') >= p.stem[:2]: found.append(f'{p.name} cell {i}: imports {name}, which is no earlier chapter')
    return found

@rule
def cells_are_short(root):
    "Exported cells: none over 40 lines, median at most 12; chapters 01-05 at most 500 lines, the package at most 2,500"
    sizes = {p: [(i, len(code_lines(s))) for i, s in exported(p)] for p in chapters(root)}
    found = [f'{p.name} cell {i}: {n} exported lines; 40 is the most' for p, rows in sizes.items() for i, n in rows if n > 40]
    for p, rows in sizes.items():
        if rows and (m := median(n for _, n in rows)) > 12: found.append(f'{p.name}: median of {m} exported lines a cell; 12 is the most')
    total = {p: sum(n for _, n in rows) for p, rows in sizes.items()}
    part1 = sum(n for p, n in total.items() if '01' <= p.stem[:2] <= '05')
    if part1 > 500: found.append(f'chapters 01-05 export {part1} lines; 500 is the most')
    if sum(total.values()) > 2500: found.append(f'the package has {sum(total.values())} lines; 2500 is the most')
    return found

@rule
def directives_lead(root):
    "A directive below code is silently ignored by nbdev"
    return [f'{p.name} cell {i}: `{line.strip()}` stands below the first line of code' for p in chapters(root) for i, s in cells(p)
            for line in s.splitlines()[len(head(s)):] if re.match(r'\s*#\|', line)]

@rule
def no_star_imports(root):
    "Exported code imports explicit names"
    return [f'{p.name} cell {i}: import * in exported code' for p in chapters(root) for i, s in exported(p) if re.search(r'^from \S+ import \*', s, re.M)]

@rule
def claims_assert(root):
    "A cell that answers a claim asserts something"
    return [f'{p.name} cell {i}: answers a claim and asserts nothing' for p in chapters(root) for i, s in cells(p)
            if any(d.startswith('claim') for d in head(s)) and not re.search(r'\bassert\b|\btest_\w+\(|assert_close|assert_equal', s)]

@rule
def errors_are_rare(root):
    "At most one stored error a chapter"
    found = []
    for p in chapters(root):
        nb = json.loads(p.read_text(encoding='utf8'))
        n = sum(o['output_type'] == 'error' for c in nb['cells'] for o in c.get('outputs', []))
        if n > 1: found.append(f'{p.name}: {n} stored errors; 1 is the most')
    return found

@rule
def links_exist(root):
    "Files that the chapters and the Markdown pages link to are there"
    pages = [(p.name, p.parent, s) for p in chapters(root) for _, s in cells(p, 'markdown')]
    pages += [(p.name, p.parent, p.read_text(encoding='utf8')) for p in sorted(Path(root).glob('*.md'))]
    return [f'{name}: no file {target}' for name, folder, text in pages
            for target in re.findall(r'\]\(([^)#\s]+)', text)
            if not re.match(r'[a-z]+:', target) and not (folder/target).exists()]

@rule
def readme_is_fresh(root):
    "README.md is made from nbs/index.ipynb"
    from readme import readme
    return [] if Path(root, 'README.md').read_text(encoding='utf8') == readme(Path(root)) else ['README.md is not what index.ipynb says; run `make export`']

@rule
def scripts_exist(root):
    "Every console script of settings.ini names a function of the package"
    cfg = ConfigParser(delimiters=['='])
    cfg.read(Path(root, 'settings.ini'), encoding='utf8')
    found = []
    for line in cfg['DEFAULT']['console_scripts'].split():
        name, target = line.split('=')
        mod, func = target.split(':')
        path = Path(root, *mod.split('.')).with_suffix('.py')
        names = [n.name for n in ast.parse(path.read_text(encoding='utf8')).body if isinstance(n, ast.FunctionDef)] if path.exists() else []
        if func not in names: found.append(f'settings.ini: {name} names {target}, which is not there')
    return found

if __name__ == '__main__':
    root = Path(__file__).parent.parent
    problems = [f'{r.__name__}: {line}' for r in RULES for line in r(root)]
    print(*problems, sep='\n')
    sys.exit(bool(problems))
