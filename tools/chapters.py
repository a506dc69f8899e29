#!/usr/bin/env python3
"""Run the chapters, each in a kernel of its own, and compare what they print with what is
stored.

    python tools/chapters.py [NAME ...]            # check (what `make test` does)
    python tools/chapters.py --update [NAME ...]   # store the new outputs (`make outputs`)
    python tools/chapters.py --twice [NAME ...]    # run every cell twice in a row

Where chapters train for long, a check does so once, or for a moment (TNB_TWIN, SHORTER).

NAME is the beginning of a file name, such as 01. Cells headed `#| slow`, `#| cuda` or
`#| notest` are not run and keep their outputs. Text must come out the same, numbers within
1 %; of figures, and of cells headed `#| varies`, only the kind of output is compared.
"""
import ast, os, re, sys, time
from argparse import ArgumentParser
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
import kernels
from book import Cell, is_quick, number

NBS = Path(__file__).parent.parent/'nbs'
WORKERS = 2 # with one thread each: the tensors are small
NUMBER = re.compile(r'(?<![A-Za-z_])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?')
ANSI = re.compile(r'\x1b\[[0-9;]*m')
SHORTER = 'import transformer_nb.attention as a; a.learn_sentences.__defaults__ = 50, 0.01'

def is_run(cell): return Cell(0, cell.cell_type, cell.source).is_run

def run_cells(cells, **more):
    "Run cells, in place, in a new kernel; raises `CellExecutionError`"
    for cell in cells:
        if cell.cell_type == 'code': cell.outputs, cell.execution_count = [], None
    notebook = nbformat.v4.new_notebook(cells=cells)
    env = os.environ | {'IN_TEST': '1', 'OMP_NUM_THREADS': '1'} | more
    with TemporaryDirectory() as sockets:
        kernel = AsyncKernelManager(transport='ipc', ip=f'{sockets}/kernel')
        client = NotebookClient(notebook, km=kernel, timeout=600, coalesce_streams=True,
                                record_timing=False,
                                resources={'metadata': {'path': str(NBS)}})
        try: client.execute(env=env, stderr=DEVNULL)
        finally: run_sync(kernel.shutdown_kernel)(now=True)
    return notebook.cells

def execute(path, further=(), first=(), **more): # cells; the kernel's environment
    "A copy of the notebook with fresh outputs; cells that are not run keep theirs"
    stored = nbformat.read(path, as_version=4)
    copies = [nbformat.from_dict(dict(cell)) for cell in stored.cells if is_run(cell)]
    asked = [i for i, cell in enumerate(copies) if 'with attempt(' in cell.source]
    end = asked[-1] + 1 if asked else len(copies) # what cleans up comes last
    ran = run_cells([*first, *copies[:end], *further, *copies[end:]], **more)
    outputs = {cell.id: cell.outputs for cell in ran}
    for cell in stored.cells:
        if cell.cell_type == 'code': cell.execution_count = None
        if cell.id in outputs: cell.outputs = [tidy(o) for o in outputs[cell.id]]
    return stored

def tidy(output):
    if 'execution_count' in output: output.execution_count = None
    if 'metadata' in output: output.metadata = {}
    return output

def execute_twice(path):
    "Run every cell, and run it again before the next"
    twice = []
    for cell in nbformat.read(path, as_version=4).cells:
        if not is_run(cell): continue
        for suffix in ('first', 'second'):
            copy = nbformat.from_dict(dict(cell))
            copy.id = f'{cell.id}-{suffix}'
            twice.append(copy)
    run_cells(twice, TNB_TWIN='1')

def text(output):
    "What a reader sees of an output, figures by their kind"
    if output.output_type == 'stream': return output.text
    if output.output_type == 'error': return f'{output.ename}: {output.evalue}'
    figures = sorted(kind for kind in output.data if kind.startswith('image/'))
    if figures: return ' '.join(figures)
    kinds = ('text/markdown', 'text/html', 'text/plain')
    return next((output.data[kind] for kind in kinds if kind in output.data), '')

def same(a, b):
    "Equal text, numbers within 1 %"
    if NUMBER.sub('#', a).split() != NUMBER.sub('#', b).split(): return False
    return all(map(close, NUMBER.findall(a), NUMBER.findall(b)))

def close(a, b):
    a, b = float(a), float(b)
    return abs(a - b) <= 0.01*max(abs(a), abs(b)) + 1e-12

def differences(stored, fresh):
    "One line for each cell whose stored output is not what it prints now"
    found = []
    for i, (old, new) in enumerate(zip(stored.cells, fresh.cells)):
        if not is_run(old): continue
        varies = 'varies' in Cell(i, old.cell_type, old.source).flags
        was, now = ([text(o) for o in cell.outputs] for cell in (old, new))
        as_many = len(was) == len(now)
        if as_many and (varies or all(map(same, was, now))): continue
        was, now = '\n'.join(was), '\n'.join(now)
        found.append(f'cell {i} ({old.id}): stored output is not what it prints now\n'
                     f'  stored: {was!r}\n  now:    {now!r}')
    return found

def exercises(path):
    "Cells that define the solutions of a chapter, and that check its exercises again"
    file = NBS/f'solutions/solutions_{number(path.stem)}.py'
    if not file.exists(): return []
    solutions = file.read_text(encoding='utf8')
    names = {getattr(node, 'name', '') for node in ast.parse(solutions).body}
    found = [nbformat.v4.new_code_cell(solutions)]
    for cell in filter(is_run, nbformat.read(path, as_version=4).cells):
        if 'with attempt(' not in cell.source: continue
        tree = ast.parse(cell.source)
        tree.body = [node for node in tree.body if getattr(node, 'name', None) not in names]
        found.append(nbformat.v4.new_code_cell(ast.unparse(tree)))
    return found

def unsolved(cells):
    return [f'not solved by its solution:\n{cell.source}\n{printed}' for cell in cells
            if 'solved' not in (printed := '\n'.join(map(text, cell.outputs)))]

def check(path):
    stored, further = nbformat.read(path, as_version=4), exercises(path)
    fresh = execute(path, further, [nbformat.v4.new_code_cell(SHORTER)], TNB_TWIN='1')
    return differences(stored, fresh) + unsolved(further[1:])

def update(path):
    fresh = nbformat.writes(execute(path), indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(fresh + '\n', encoding='utf8')

def timed(what, path):
    "Seconds, and what is wrong"
    start = time.perf_counter()
    try: problems = what(path) or []
    except CellExecutionError as error: problems = [ANSI.sub('', str(error))]
    return time.perf_counter() - start, problems

def main(names, what=check):
    paths = [p for p in sorted(NBS.glob('*.ipynb'))
             if not names or p.name.startswith(tuple(names))]
    if not paths: sys.exit(f'no chapter begins with {" or ".join(names)}')
    kernels.prepare(len(paths))
    failed = 0
    with ProcessPoolExecutor(WORKERS) as pool:
        longest_first = sorted(paths, key=is_quick)
        runs = {pool.submit(timed, what, path): path for path in longest_first}
        for run in as_completed(runs):
            path, (seconds, problems) = runs[run], run.result()
            failed += bool(problems)
            word = 'FAILED' if problems else 'ok'
            print(f'{word:6} {path.stem:20} {seconds:5.1f} s', flush=True)
            if problems: print(*problems, sep='\n', flush=True)
    print(f'{len(paths) - failed} passed, {failed} failed', flush=True)
    sys.exit(bool(failed))

if __name__ == '__main__':
    parser = ArgumentParser(description=__doc__.partition('\n\n')[0])
    parser.add_argument('names', nargs='*', metavar='NAME')
    parser.add_argument('--update', action='store_const', const=update, dest='what')
    parser.add_argument('--twice', action='store_const', const=execute_twice, dest='what')
    options = parser.parse_args()
    main(options.names, options.what or check)
