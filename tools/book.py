"""The chapters as the tools read them: their cells, and the directives that head a cell."""
import ast, json, re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAVY = {'slow', 'cuda'} # cells that run for minutes, or need a GPU
EXPORTS = {'export', 'exports', 'exporti', 'grading'} # the last is tools/grading.py's
HIDING = {'default_exp', 'hide', 'echo', 'fold', 'export'} # directives that fold the code

@dataclass
class Cell:
    number: int                # place in the notebook, from 0
    kind: str                  # 'code' or 'markdown'
    source: str
    outputs: list = field(default_factory=list)

    @property
    def directives(self)->dict[str,str]:
        "What stands behind `#|` in the leading lines, by name; `claim` may come twice"
        found = {}
        for line in head(self.source):
            name, _, rest = line.partition(' ')
            name = name.rstrip(':')
            found[name] = f'{found[name]} {rest}' if name in found else rest.strip()
        return found

    @property
    def flags(self)->set[str]: return set(self.directives)
    @property
    def is_exported(self)->bool: return bool(self.flags & EXPORTS)
    @property
    def is_slow(self)->bool: return bool(self.flags & HEAVY)
    @property
    def is_run(self)->bool: # by the tests
        return self.kind == 'code' and not self.flags & {*HEAVY, 'notest'}

    @property
    def hides_code(self)->bool: # on the site and in JupyterLab; a click shows it
        return self.kind == 'code' and (
            bool(self.flags & HIDING) or is_preparation(self.text))

    @property
    def folds(self)->dict[str,bool]: # its metadata for JupyterLab
        wanted = dict(source_hidden=self.hides_code,
                      outputs_hidden='predict' in self.flags)
        return {name: True for name, is_wanted in wanted.items() if is_wanted}

    @property
    def text(self)->str:
        "The source without its directives"
        lines = self.source.splitlines()
        return '\n'.join(lines[len(head(self.source)):]).strip()

def head(source:str)->list[str]:
    "The directives that lead a cell, without `#|`"
    lines = []
    for line in source.splitlines():
        if not line.startswith('#|'): break
        lines.append(line[2:].strip())
    return lines

def is_import(node)->bool: return isinstance(node, (ast.Import, ast.ImportFrom))

def is_preparation(source:str)->bool:
    "Imports, and at most assignments beside them"
    if source.startswith(('!', '%')): return False
    nodes = ast.parse(source).body
    prepares = all(is_import(n) or isinstance(n, ast.Assign) for n in nodes)
    return prepares and any(map(is_import, nodes))

def chapters(root)->list[Path]: # in reading order: 00a, 00b, 01, …; index comes last
    return sorted(Path(root, 'nbs').glob('*.ipynb'))

def read_notebook(path)->dict: # not to be changed: the next reader gets the same
    about = Path(path).stat()
    return parsed(path, about.st_mtime_ns, about.st_size)

@cache
def parsed(path, *version)->dict: return json.loads(Path(path).read_text(encoding='utf8'))

def cells(path, kind=None)->list[Cell]: # all, or those of a kind
    return cells_of(read_notebook(path), kind)

def cells_of(notebook:dict, kind=None)->list[Cell]:
    found = [Cell(i, c['cell_type'], ''.join(c['source']), c.get('outputs', []))
             for i, c in enumerate(notebook['cells'])]
    return [c for c in found if kind in (None, c.kind)]

def exported(path)->list[Cell]: return [c for c in cells(path, 'code') if c.is_exported]

def number(stem:str)->str: return stem.partition('_')[0] # of a chapter: 07, 15a

def is_workshop(stem:str)->bool:
    "Plumbing: what is lettered, but for two chapters of the line, and two without a letter"
    is_lettered = number(stem)[2:] != ''
    return is_lettered != (number(stem) in ('07a', '09', '11', '16a'))

def module(path)->str|None:
    "What `#| default_exp` names"
    for cell in cells(path, 'code'):
        if 'default_exp' in cell.directives: return cell.directives['default_exp']
    return None

def exported_modules(root)->list[Path]:
    "Files that chapters write: the library's, then the grader's, then the studies'"
    package = Path(root, 'transformer_nb')
    return [path for pattern in ('[a-z]*.py', 'grading/[a-z]*.py', 'studies/[a-z]*.py')
            for path in sorted(package.glob(pattern))]

def imported_modules(source:str)->list[str]:
    "What of the package a cell or file imports: `model`, `grading`, `studies.parsing`"
    dotted = r'^\s*(?:from|import) transformer_nb\.(studies\.\w+|(?!studies\b)\w+)'
    beside = r'^\s*from transformer_nb\.studies import (.+)$'
    lists = re.findall(beside, source, re.M)
    return re.findall(dotted, source, re.M) + [
        f'studies.{name}' for names in lists for name in re.findall(r'\w+', names)]

# More than ten seconds each: `make check` runs them where they are changed, no more
LONG = ('00_', '01', '02', '03', '05', '06', '07', '10_', '12', '13', '15_', '15a',
        '15e', '16', '17', '18', '19', '21', '22')

def is_quick(path)->bool: return not path.name.startswith(LONG)

def prints_usage(path)->bool:
    "Does a cell print the help of a command, which any chapter below may change?"
    return any('format_help()' in cell.source for cell in cells(path, 'code'))

def depending(changed:list[Path], root)->list[Path]:
    "Chapters that import modules of these, directly or through others"
    paths = [path for path in chapters(root) if path not in changed]
    touched = {module(path) for path in changed}
    found = []
    for path in sorted(paths, key=lambda path: module(path) is None): # imports point back
        sources = [cell.source for cell in cells(path, 'code')]
        if touched & {name for source in sources for name in imported_modules(source)}:
            touched.add(module(path))
            found.append(path)
    return found
