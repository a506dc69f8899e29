#!/usr/bin/env python3
"""What a change touches and what depends on it, checked in under two minutes.

    python tools/check.py            # against the last commit
    python tools/check.py COMMIT     # against an earlier one

1. The house rules, ruff among them.
2. The chapters whose code changed; and where an exported cell did, of the chapters that
   import them, directly or through others, those that are quick and those that print what
   a command can do.
3. The cells of these chapters again, each twice in a row, where the chapter is quick.
4. The tests of what was changed, their files named after it or listed in TESTS_OF, those of
   a chapter where it exports something else; and where the package changed the tests marked
   `smoke`, a few of each room. Slow tests and everything else are for `make test`.

Where a chapter's prose changed and nothing else, its code does not run again.
"""
import json, subprocess, sys
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from book import (
    ROOT, cells_of, chapters, depending, is_quick, module, read_notebook)
from house import read, violations

# Test files, and what they test beside the chapter, program or script of their name
TESTS_OF = {
    'test_page_in_node': 'transformer_nb/playground/* tests/js/*',
    'test_one_file': 'tools/onefile.py transformer_nb/assignment/right/*',
    'test_proving': 'transformer_nb/proving/*',
    'test_prove': 'transformer_nb/proving/* benchmarks/adapters/*',
    'test_seams': 'nbs/15_* transformer_nb/*.py docs/reference/python.md',
    'test_paper': 'nbs/0[0-7]*_*',
    'test_export': 'transformer_nb/formats/page.py',
    'test_build': 'transformer_nb/grading/* transformer_nb/proving/* tests/*submission* '
                  'transformer_nb/assignment/*',
    'test_checkpoint': 'transformer_nb/support/distributed.py',
    'test_commands': 'nbs/10a_* nbs/11_* nbs/15_* transformer_nb/commands/*',
    'test_decoding': 'nbs/05_* tests/searching.py',
    'test_engine': 'nbs/15b_* transformer_nb/playground/*',
    'test_house': 'tools/* ruff.toml conftest.py nbs/solutions/*',
    'test_ladder': 'nbs/0[1-7]*_* benchmarks/ladder.py',
    'test_live': 'docs/static/* transformer_nb/playground/*',
    'test_notes': 'nbs/16_* transformer_nb/playground/notes.json',
    'test_oracles': 'nbs/0[1-7]_*',
    'test_package': 'setup.py settings.ini MANIFEST.in',
    'test_parsing': 'nbs/22_*',
    'test_pasted': 'transformer_nb/reading.py nbs/models/*',
    'test_page': 'transformer_nb/playground/*',
    'test_performance': 'benchmarks/bench.py',
    'test_playground': 'transformer_nb/playground/*',
    'test_readme': 'nbs/index.ipynb README.md',
    'test_results': 'nbs/0[0-7]*_* nbs/results/* nbs/models/* benchmarks/*',
    'test_search_settings': 'nbs/13_* nbs/15_*',
    'test_since_2017': 'nbs/0[4-6]_* nbs/20_*',
    'test_site': 'docs/*',
    'test_systems': 'transformer_nb/support/core.py nbs/11_* tests/elsewhere.py',
    'test_teaching': 'docs/teaching.md docs/questions.yaml',
    'test_variations': 'benchmarks/train_variations.py'}

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
    changed: list[Path]    # chapters
    dependents: list[Path] # chapters
    tests: list[Path]      # files
    smoke: bool            # the tests of that mark, too?

def select(names, root=ROOT, what=lambda path: 'exports'):
    "`names` are those of changed files, as seen from the root; `what` changed in a chapter"
    kinds = {path: what(path) for path in chapters(root) if f'nbs/{path.name}' in names}
    changed = [path for path, kind in kinds.items() if kind != 'prose']
    sources = [path for path, kind in kinds.items() if kind == 'exports']
    dependents = [path for path in (depending(sources, root) if sources else [])
                  if path not in changed and is_quick(path)]
    modules = {name_of(path) for path in sources}
    inside = {f'nbs/{path.name}' for path in kinds if module(path) and path not in sources}
    names = [name for name in names if name not in inside]
    modules |= {Path(name).stem for name in names if name.endswith(('.py', '.js'))}
    tests = sorted(root.glob('tests/test_*.py'))
    chosen = [path for path in tests if is_test_of(path, names, modules)]
    smoke = any(name.startswith('transformer_nb/') for name in names) or bool(sources)
    return Selection(changed, dependents, chosen, smoke)

def name_of(path): # of the module that a chapter exports, without its folder
    return (module(path) or '').rpartition('.')[2]

def is_test_of(path, names, modules):
    patterns = TESTS_OF.get(path.stem, '').split()
    if any(fnmatch(name, pattern) for name in names for pattern in patterns): return True
    return f'tests/{path.name}' in names or path.stem.removeprefix('test_') in modules

NO_TEST_WAS_SELECTED = 5 # by pytest: all of them are slow

def run(what, *command):
    "Say what is run, run it, and say whether it failed"
    print(f'— {what}', flush=True)
    done = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT)
    return done.returncode not in (0, NO_TEST_WAS_SELECTED)

def run_tests(what, *options):
    quick = ['-m', 'pytest', '-q', '-n', '2', '--dist', 'worksteal']
    return run(what, *quick, *options)

def stems(paths): return [path.stem for path in paths]

def main(commit='HEAD'):
    what = partial(what_changed, commit=commit)
    selection = select(changed_files(commit), what=what)
    print('— house rules', flush=True)
    problems = violations(ROOT)
    if problems: print(*problems, sep='\n')
    failed = [bool(problems)]
    names = stems(selection.changed + selection.dependents)
    if names: failed.append(run('chapters', 'tools/chapters.py', *names))
    again = [path.stem for path in selection.changed if is_quick(path)]
    if again: failed.append(run('every cell twice', 'tools/chapters.py', '--twice', *again))
    if selection.tests:
        names = ', '.join(stems(selection.tests))
        failed.append(run_tests(names, '-m', 'not slow', *selection.tests))
    if selection.smoke:
        files = {*ROOT.glob('tests/test_*.py')} - {*selection.tests} # these have run
        marked = sorted(path for path in files if 'mark.smoke' in read(path))
        failed.append(run_tests('a few tests of each room', '-m', 'smoke', *marked))
    sys.exit(any(failed))

if __name__ == '__main__': main(*sys.argv[1:])
