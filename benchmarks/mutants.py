#!/usr/bin/env python3
"""Small mistakes, put into the package one after the other: which test says so?

    python benchmarks/mutants.py 7dfb14d
    python benchmarks/mutants.py . --only multihead decoding

mutants.jsonl has the file of each at 7dfb14d, the text, what takes its place, and the tests
that should fail. The text is looked for in the whole package, so that code may move, or in
one line of a chapter, which may be the test, too. `was` is what became of it when it was
tried first, or null. The status is 1 if one that was killed survives or is not found.
"""
import argparse, json, os, signal, subprocess, sys, tempfile, time
from importlib import import_module
from pathlib import Path
import pytest, torch

for name in ('matplotlib.pyplot', 'safetensors.torch', 'scipy.stats', 'spacy'):
    import_module(name) # once: a process that is forked has them
MUTANTS = Path(__file__).with_name('mutants.jsonl')

def git(folder, *args): # what it prints
    return subprocess.check_output(['git', '-C', folder, *args], text=True).strip()

def place_of(file, text, folder):
    "The one file that has it, once"
    package = (path for path in (folder/'transformer_nb').rglob('*.py')
               if 'assignment' not in path.parts) # which has a second copy of much
    paths = [folder/'nbs'/file] if is_chapter(file) else package
    found = [path for path in paths for _ in range(path.read_text('utf8').count(text))]
    return found[0] if len(found) == 1 else None

def is_chapter(name): return name.endswith('.ipynb')

def tests_of(names, folder):
    paths = [folder/(f'nbs/{name}' if is_chapter(name) else f'tests/{name}.py')
             for name in names]
    return [str(path) for path in paths if path.exists()]

def run_tests(tests, folder, seconds):
    "Status of pytest in a process of its own; None: it took too long"
    child = os.fork()
    if not child:
        os.setsid()
        os.chdir(folder)
        os.environ['PYTHONPATH'] = sys.path[0] = str(folder)
        sys.dont_write_bytecode = True
        with open(os.devnull, 'wb') as null:
            for stream in 1, 2: os.dup2(null.fileno(), stream)
        chapter = [sys.executable, 'tools/chapters.py', Path(tests[0]).stem]
        if is_chapter(tests[0]): os.execv(sys.executable, chapter)
        os._exit(pytest.main(['-x', '-q', '-p', 'no:cacheprovider', *tests]))
    for _ in range(10 * seconds):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended: return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)

def fate(mutant, folder, seconds):
    old, new = mutant['old'], mutant['new']
    if is_chapter(mutant['file']): # as JSON has it
        old, new = (json.dumps(x, ensure_ascii=False)[1:-1] for x in (old, new))
    place = place_of(mutant['file'], old, folder)
    if place is None: return 'not found'
    tests = tests_of(mutant['tests'], folder)
    if not tests: return 'no such test'
    source = place.read_text('utf8')
    try:
        place.write_text(source.replace(old, new), 'utf8')
        status = run_tests(tests, folder, seconds)
    finally: place.write_text(source, 'utf8')
    return {0: 'survives', 1: 'killed', 2: 'killed', None: 'took too long'}.get(
        status, f'pytest ended with {status}')

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('commit', help='or a folder, whose commit it is')
    parser.add_argument('--only', nargs='+', help='beginnings of the names of files')
    parser.add_argument('--seconds', type=int, default=600, help='for the tests of each')
    parser.add_argument('--store', action='store_true', help='put the fates into `was`')
    a = parser.parse_args()
    torch.set_num_threads(1)
    mutants, bad = [json.loads(line) for line in MUTANTS.open(encoding='utf8')], 0
    top = a.commit if Path(a.commit).is_dir() else '.'
    commit = git(top, 'rev-parse', 'HEAD' if Path(a.commit).is_dir() else a.commit)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, 'checkout')
        git(top, 'worktree', 'add', '--detach', '--quiet', str(folder), commit)
        for mutant in mutants:
            if a.only and not mutant['file'].startswith(tuple(a.only)): continue
            found = fate(mutant, folder, a.seconds)
            bad += found != 'killed' and mutant['was'] == 'killed'
            print(found, mutant['file'], repr(mutant['new'][:60]), sep='\t', flush=True)
            if not a.store: continue
            mutant['was'] = found
            MUTANTS.write_text(''.join(json.dumps(x, ensure_ascii=False) + '\n'
                                       for x in mutants), 'utf8')
        git(top, 'worktree', 'remove', '--force', str(folder))
    sys.exit(bad > 0)

if __name__ == '__main__': main()
