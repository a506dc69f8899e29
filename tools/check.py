#!/usr/bin/env python3
"""What a change touches, checked in about a minute.

    python tools/check.py            # against the last commit
    python tools/check.py COMMIT     # against an earlier one

1. The house rules, ruff among them.
2. The chapters whose code changed; their cells again, each twice in a row, where the
   chapter is quick.
3. The tests of what was changed, their files named after it or listed in TESTS_OF, those of
   a chapter where it exports something else; and where the package changed the tests marked
   `smoke`, a few of each room.

What depends on the change, slow tests and everything else are for `make test`. Where a
chapter's prose changed and nothing else, its code does not run again.
"""
import json, subprocess, sys
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from book import ROOT, cells_of, chapters, is_quick, module, read_notebook
from house import read, violations

TESTS_OF = { # beside those that have the name of a chapter's module, a file or a script
    'nbs/0[0-7]*': 'ladder oracles paper results',
    'nbs/0[4-6]_*': 'decoding since_2017',
    'nbs/1[0135]*': 'commands search_settings seams systems',
    'nbs/16_*': 'notes',
    'nbs/index.ipynb': 'readme',
    'nbs/models/*': 'pasted results',
    'nbs/results/*': 'results',
    'transformer_nb/reading.py': 'pasted',
    'transformer_nb/assignment/*': 'build one_file',
    'transformer_nb/commands/*': 'commands',
    'transformer_nb/formats/page.py': 'export',
    'transformer_nb/grading/*': 'build',
    'transformer_nb/playground/*': 'engine live notes page page_in_node playground',
    'transformer_nb/proving/*': 'build prove proving',
    'transformer_nb/support/*': 'checkpoint systems',
    'tests/js/*': 'page_in_node',
    'tests/*submission*': 'build',
    'tests/searching.py': 'decoding',
    'benchmarks/adapters/*': 'prove',
    'benchmarks/bench.py': 'performance',
    'benchmarks/train_variations.py': 'variations',
    'docs/*': 'site',
    'docs/static/*': 'live',
    'docs/questions.yaml': 'teaching',
    'tools/*': 'house',
    'README.md': 'readme',
    'set*': 'package'} # setup.py, settings.ini

def git(*args):
    command = ['git', *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()

def changed_files(commit): # names as seen from the root
    names = git('diff', '--name-only', commit) + git('ls-files', '-o', '--exclude-standard')
    return [name for name in names if (ROOT/name).is_file()]

def code_of(notebook): # exported, and all of it
    code = cells_of(notebook, 'code')
    exported = [cell.source for cell in code if cell.is_exported]
    return exported, [cell.source for cell in code]

def difference(then, now): # of two notebooks
    "'exports', other 'code', or only 'prose'"
    (exports, code), (now_exports, now_code) = map(code_of, (then, now))
    if exports != now_exports: return 'exports'
    return 'prose' if code == now_code else 'code'

def what_changed(path, commit): # in a chapter since then
    show = ['git', 'show', f'{commit}:nbs/{path.name}']
    shown = subprocess.run(show, cwd=ROOT, capture_output=True, text=True)
    if shown.returncode: return 'exports' # it is new
    return difference(json.loads(shown.stdout), read_notebook(path))

@dataclass
class Selection:
    "What a change makes necessary"
    chapters: list[Path]
    tests: list[Path]      # files
    smoke: bool            # the tests of that mark, too?

def select(names, what=lambda path: 'exports'):
    "`names` are those of changed files, as seen from the root; `what` changed in a chapter"
    kinds = {path: what(path) for path in chapters(ROOT) if f'nbs/{path.name}' in names}
    stale = [path for path, kind in kinds.items() if kind != 'prose']
    sources = [path for path, kind in kinds.items() if kind == 'exports']
    inside = {f'nbs/{path.name}' for path in kinds if module(path) and path not in sources}
    names = [name for name in names if name not in inside]
    known = {(module(path) or '').rpartition('.')[2] for path in sources}
    known |= {Path(name).stem for name in names if name.endswith(('.py', '.js'))}
    for pattern, tests in TESTS_OF.items():
        if any(fnmatch(name, pattern) for name in names): known |= {*tests.split()}
    known |= {name.removeprefix('test_') for name in known}
    chosen = [path for path in sorted(ROOT.glob('tests/test_*.py'))
              if path.stem.removeprefix('test_') in known]
    smoke = any(name.startswith('transformer_nb/') for name in names) or bool(sources)
    return Selection(stale, chosen, smoke)

NO_TEST_WAS_SELECTED = 5 # by pytest: all of them are slow

def run(what, *command):
    "Say what is run, run it, and say whether it failed"
    print(f'— {what}', flush=True)
    done = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT)
    return done.returncode not in (0, NO_TEST_WAS_SELECTED)

def run_tests(what, *options):
    quick = ['-m', 'pytest', '-q', '-n', '2', '--dist', 'worksteal']
    return run(what, *quick, *options)

def main(commit='HEAD'):
    selection = select(changed_files(commit), partial(what_changed, commit=commit))
    print('— house rules', flush=True)
    problems = violations(ROOT)
    if problems: print(*problems, sep='\n')
    failed = [bool(problems)]
    names = [path.stem for path in selection.chapters]
    if names: failed.append(run('chapters', 'tools/chapters.py', *names))
    again = [path.stem for path in selection.chapters if is_quick(path)]
    if again: failed.append(run('every cell twice', 'tools/chapters.py', '--twice', *again))
    if selection.tests:
        names = ', '.join(path.stem for path in selection.tests)
        failed.append(run_tests(names, '-m', 'not slow', *selection.tests))
    if selection.smoke:
        files = {*ROOT.glob('tests/test_*.py')} - {*selection.tests} # these have run
        marked = sorted(path for path in files if 'mark.smoke' in read(path))
        failed.append(run_tests('a few tests of each room', '-m', 'smoke', *marked))
    sys.exit(any(failed))

if __name__ == '__main__': main(*sys.argv[1:])
