#!/usr/bin/env python3
"""What a change touches and what depends on it, checked in under two minutes.

    python tools/check.py            # against the last commit
    python tools/check.py COMMIT     # against an earlier one

1. The house rules, ruff among them.
2. The changed chapters, and of the chapters that import them, directly or through others,
   those that are quick and those that print what a command can do.
3. The cells of changed chapters again, each twice in a row, where the chapter is quick.
4. The tests of what was changed, their files named after it or listed in TESTS_OF; and
   where the package changed the tests marked `smoke`, a few of each room. Slow tests and
   everything else are for `make test`.
"""
import subprocess, sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from book import ROOT, chapters, depending, is_quick, module, number, prints_usage
from house import read, violations

# Test files, and what they test beside the module of their name
TESTS_OF = {
    'test_alone': 'docs/doors.py tools/repository.py tools/readme.py setup.py',
    'test_check': 'tools/*',
    'test_checkpoint': 'nbs/11a_*',
    'test_commands': 'nbs/10a_* nbs/12_* nbs/15_*',
    'test_engine': 'nbs/15b_* transformer_nb/playground/*',
    'test_gpu_day': 'nbs/00b_* nbs/15_* nbs/19_* benchmarks/gpu.py',
    'test_house': 'tools/* ruff.toml',
    'test_live': 'docs/live.py docs/static/* transformer_nb/playground/*',
    'test_jupyterlab': 'nbs/00b_*',
    'test_multi30k': 'nbs/10a_*',
    'test_notes': 'nbs/16_* tools/notes.py transformer_nb/playground/notes.json',
    'test_oracles': 'nbs/0[1-7]_*',
    'test_package': 'setup.py settings.ini MANIFEST.in',
    'test_performance': 'benchmarks/bench.py',
    'test_playground': 'nbs/15b_* transformer_nb/playground/*',
    'test_readme': 'nbs/index.ipynb README.md',
    'test_release': '.github/workflows/* tools/release.py RELEASING.md settings.ini',
    'test_results': 'nbs/results/* nbs/models/*',
    'test_pdf': 'docs/pdf.py docs/static/*',
    'test_site': 'docs/*',
    'test_systems': 'nbs/00a_* nbs/11_* tests/elsewhere.py',
    'test_types': 'mypy.ini',
    'test_spelling': '*.md docs/*.md tests/words.txt'}

def git(*args):
    command = ['git', *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()

def changed_files(commit): # names as seen from the root
    names = git('diff', '--name-only', commit) + git('ls-files', '-o', '--exclude-standard')
    return [name for name in names if (ROOT/name).is_file()]

@dataclass
class Selection:
    "What a change makes necessary"
    changed: list[Path]    # chapters
    dependents: list[Path] # chapters
    tests: list[Path]      # files of tests and of solutions
    smoke: bool            # the tests of that mark, too?

def select(names, root=ROOT):
    "`names` are those of changed files, as seen from the root"
    changed = [path for path in chapters(root) if f'nbs/{path.name}' in names]
    dependents = [path for path in depending(changed, root)
                  if is_quick(path) or prints_usage(path)]
    tests = sorted([*root.glob('tests/test_*.py'), *root.glob('nbs/solutions/*.py')])
    modules = {name_of(path) for path in changed}
    numbers = {number(path.stem) for path in changed}
    chosen = [path for path in tests
              if is_test_of(path, names, modules) or solves(path, numbers)]
    smoke = any(name.startswith('transformer_nb/') for name in names) or bool(modules)
    return Selection(changed, dependents, chosen, smoke)

def name_of(path): # of the module that a chapter exports, without its folder
    return (module(path) or '').rpartition('.')[2]

def is_test_of(path, names, modules):
    patterns = TESTS_OF.get(path.stem, '').split()
    if any(fnmatch(name, pattern) for name in names for pattern in patterns): return True
    return f'tests/{path.name}' in names or path.stem.removeprefix('test_') in modules

def solves(path, numbers): return path.stem.rpartition('_')[2] in numbers

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
    selection = select(changed_files(commit))
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
        files = ROOT.glob('tests/test_*.py')
        marked = [path for path in files if 'mark.smoke' in read(path)]
        failed.append(run_tests('a few tests of each room', '-m', 'smoke', *marked))
    sys.exit(any(failed))

if __name__ == '__main__': main(*sys.argv[1:])
