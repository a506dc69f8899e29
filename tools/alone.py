#!/usr/bin/env python3
"""Run chapters as a reader does who has downloaded them: copies that run alone, each in an
empty folder, in the environment of the Python that runs this. It needs nbclient, ipykernel
and PyTorch, and not the package, which the first copy installs.

    python tools/alone.py SOURCE [NAME ...]

SOURCE is an archive of the repository, a file or an address, NAME the beginning of a file
name, such as 01. Cells headed `#| slow` or `#| cuda` skip themselves.
"""
import json, sys, time
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT/'docs'))
import doors
from book import chapters

def run(path, source):
    "Empty, or how it failed"
    copy = json.dumps(doors.alone(path, source))
    notebook = nbformat.reads(copy, as_version=4)
    with TemporaryDirectory() as folder:
        resources = {'metadata': {'path': folder}}
        client = NotebookClient(notebook, timeout=900, resources=resources)
        try: client.execute()
        except CellExecutionError as error: return str(error)
    return ''

def main(source, *names):
    if '://' not in source: source = Path(source).resolve().as_uri()
    before, failed = version('torch'), 0
    for path in chapters(ROOT):
        if path.stem == 'index' or not path.name.startswith(names or ''): continue
        start = time.perf_counter()
        problem = run(path, source)
        failed += bool(problem)
        seconds = time.perf_counter() - start
        print(f'{"FAILED" if problem else "ok":6} {path.stem:20} {seconds:5.1f} s')
        if problem: print(problem)
        sys.stdout.flush()
    after = version('torch')
    print(f'torch {before} before, {after} after; package {version("transformer_nb")}')
    sys.exit(bool(failed) or before != after)

if __name__ == '__main__': main(*sys.argv[1:])
