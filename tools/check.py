#!/usr/bin/env python3
"""What a change touches, checked in under two minutes: the house rules, the changed
chapters, their exercises, and the tests that import their modules. `make test` runs
everything.

    python tools/check.py            # against the last commit
    python tools/check.py COMMIT     # against an earlier one
"""
import re, subprocess, sys
from pathlib import Path
from book import ROOT, imported_modules, module, number
from house import violations

def git(*args):
    command = ['git', *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()

def changed_files(commit): # names as seen from the root
    names = git('diff', '--name-only', commit) + git('ls-files', '-o', '--exclude-standard')
    return [name for name in names if (ROOT/name).is_file()]

def touched_tests(changed, chapters):
    "Changed tests, solutions of changed chapters, and tests that import a changed module"
    modules = {module(path) for path in chapters}
    modules |= {Path(name).stem for name in changed if name.endswith('.py')} # of tools
    numbers = {number(path.stem) for path in chapters}
    for path in sorted([*ROOT.glob('tests/test_*.py'), *ROOT.glob('nbs/solutions/*.py')]):
        text = path.read_text(encoding='utf8')
        imported = imported_modules(text)
        imported += re.findall(r'^(?:from|import) (\w+)', text, re.M) # tools
        is_changed = path.relative_to(ROOT).as_posix() in changed
        is_solution = path.stem.rpartition('_')[2] in numbers
        if is_changed or is_solution or modules & set(imported): yield path

NO_TEST_WAS_SELECTED = 5 # by pytest: all of them are slow

def run(what, *command):
    "Say what is run, run it, and say whether it failed"
    print(f'— {what}', flush=True)
    done = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT)
    return done.returncode not in (0, NO_TEST_WAS_SELECTED)

def main(commit='HEAD'):
    changed = changed_files(commit)
    chapters = [ROOT/name for name in changed if re.fullmatch(r'nbs/\w+\.ipynb', name)]
    print('— house rules', flush=True)
    problems = violations(ROOT)
    if problems: print(*problems, sep='\n')
    failed = [bool(problems)]
    if chapters:
        names = [path.stem for path in chapters]
        failed.append(run(', '.join(names), 'tools/chapters.py', *names))
    tests = list(touched_tests(changed, chapters))
    if tests:
        names = ', '.join(path.stem for path in tests)
        quick = ['-q', '-n', '2', '--dist', 'worksteal', '-m', 'not slow']
        failed.append(run(names, '-m', 'pytest', *quick, *tests))
    sys.exit(any(failed))

if __name__ == '__main__': main(*sys.argv[1:])
