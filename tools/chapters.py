#!/usr/bin/env python3
"""Run the chapters, each in a kernel of its own, and compare what they print with what is stored.

    python tools/chapters.py [NAME ...]            # check (what `make test` does)
    python tools/chapters.py --update [NAME ...]   # store the new outputs (what `make outputs` does)

NAME is the beginning of a file name, such as 01. Cells headed `#| slow`, `#| cuda` or `#| notest` are not run and keep
their outputs. Text must come out the same, numbers within 1 %; of figures, and of cells headed `#| varies`, only the kind
of output is compared.
"""
import os, re, sys, time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
import nbformat
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NBS = Path(__file__).parent.parent/'nbs'
NUMBER = re.compile(r'(?<![A-Za-z_])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?')

def directives(source):
    "The words behind `#|` in the leading lines of a cell, by name"
    lines = []
    for line in source.splitlines():
        if not line.startswith('#|'): break
        lines.append(line[2:].strip())
    return {line.split()[0].rstrip(':'): line for line in lines if line}

def skipped(cell): return cell.cell_type != 'code' or bool({'slow', 'cuda', 'notest'} & set(directives(cell.source)))

def execute(path):
    "A copy of the notebook with fresh outputs; flagged cells keep theirs"
    stored = nbformat.read(path, as_version=4)
    fresh = nbformat.from_dict({**stored, 'cells': [c for c in stored.cells if not skipped(c)]})
    fresh = nbformat.from_dict(fresh)
    for cell in fresh.cells: cell.outputs, cell.execution_count = [], None
    with TemporaryDirectory() as sockets:
        kernel = AsyncKernelManager(transport='ipc', ip=f'{sockets}/kernel')
        NotebookClient(fresh, km=kernel, timeout=600, coalesce_streams=True, record_timing=False,
                       resources={'metadata': {'path': str(NBS)}}).execute(env={**os.environ, 'IN_TEST': '1', 'OMP_NUM_THREADS': '1'}, stderr=DEVNULL)
    outputs = {c.id: c.outputs for c in fresh.cells}
    for cell in stored.cells:
        if cell.cell_type == 'code': cell.execution_count = None
        if cell.id in outputs: cell.outputs = [tidy(o) for o in outputs[cell.id]]
    return stored

def tidy(output):
    if 'execution_count' in output: output.execution_count = None
    if 'metadata' in output: output.metadata = {}
    return output

def text(output):
    "What a reader sees of an output, figures by their kind"
    if output.output_type == 'stream': return output.text
    if output.output_type == 'error': return f'{output.ename}: {output.evalue}'
    kinds = sorted(k for k in output.data if k.startswith('image/'))
    return ' '.join(kinds) or output.data.get('text/markdown') or output.data.get('text/html') or output.data.get('text/plain', '')

def same(a, b):
    "Equal text, numbers within 1 %"
    if NUMBER.sub('#', a).split() != NUMBER.sub('#', b).split(): return False
    pairs = zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b)))
    return all(abs(x - y) <= 0.01*max(abs(x), abs(y)) + 1e-12 for x, y in pairs)

def differences(stored, fresh):
    "One line for each cell whose stored output is not what it prints now"
    found = []
    for i, (old, new) in enumerate(zip(stored.cells, fresh.cells)):
        if skipped(old): continue
        if 'varies' in directives(old.source): ok = len(old.outputs) == len(new.outputs)
        else: ok = [o.output_type for o in old.outputs] == [o.output_type for o in new.outputs] and \
                   all(same(text(a), text(b)) for a, b in zip(old.outputs, new.outputs))
        if not ok:
            was, now = (' '.join(text(o) for o in c.outputs).strip()[:200] for c in (old, new))
            found.append(f'cell {i} ({old.id}): stored output is not what it prints now\n  stored: {was!r}\n  now:    {now!r}')
    return found

def run(path, update):
    "Seconds, and what is wrong"
    start, problems = time.perf_counter(), []
    try: fresh = execute(path)
    except CellExecutionError as e: problems = [str(e)]
    else:
        if update: path.write_text(nbformat.writes(fresh, indent=1, sort_keys=True, ensure_ascii=False) + '\n', encoding='utf8')
        else: problems = differences(nbformat.read(path, as_version=4), fresh)
    return time.perf_counter() - start, problems

def main(names, update=False):
    paths = [p for p in sorted(NBS.glob('*.ipynb')) if not names or any(p.name.startswith(n) for n in names)]
    if not paths: sys.exit(f'no chapter begins with {" or ".join(names)}')
    failed = 0
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1)) as pool: # one thread each: the tensors are small
        for path, (seconds, problems) in zip(paths, pool.map(run, paths, [update] * len(paths))):
            failed += bool(problems)
            print(f'{"FAILED" if problems else "ok":6} {path.stem:20} {seconds:5.1f} s', *problems, sep='\n' if problems else '', flush=True)
    print(f'{len(paths) - failed} passed, {failed} failed', flush=True)
    sys.exit(bool(failed))

if __name__ == '__main__': main([a for a in sys.argv[1:] if a != '--update'], '--update' in sys.argv)
