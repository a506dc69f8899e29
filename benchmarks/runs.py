"""Many runs, one file of results.

The studies of Parts III and IV compare hundreds of small runs. Each has a process of its
own with one thread, so that no run leaves anything behind for the next, and adds a line to
the file as soon as it is done. The same call goes on after an interruption. Every line
keeps the settings of its row: a file with a line of other settings is refused, because half
of it would come from the old ones.
"""
import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
import torch
from transformer_nb.checkpoint import locked
from transformer_nb.support.core import InputError, write_atomically
from transformer_nb.corpora import stream_lines

def run_in_processes(function:Callable,  # importable by name: a new process has to find it
                     jobs:dict,          # of each key, the arguments of a call
                     processes:int,      # at the same time; 0: here, one after the other
                    )->Iterator[tuple]:  # key and result, as they come
    "Calls side by side, with one thread each; raises `InputError` if one is killed"
    if not processes:
        for key, job in jobs.items(): yield key, function(*job)
        return
    with ProcessPoolExecutor(processes, get_context('spawn'), torch.set_num_threads, (1,),
                             max_tasks_per_child=1) as pool:
        futures = {pool.submit(function, *job): key for key, job in jobs.items()}
        try:
            for future in as_completed(futures): yield futures[future], future.result()
        except BrokenExecutor:
            raise InputError('a run was killed; repeat the call or command, which then '
                             'makes only what is missing') from None
        finally: pool.shutdown(cancel_futures=True)

def read_results(path:str|Path # a JSON object per line
                )->list[dict]: # empty where there is no file
    "Raises `InputError` with file and line where a line is not a result"
    if not Path(path).exists(): return []
    results = []
    for n, line in enumerate(stream_lines(path), 1):
        try: result = dict(json.loads(line))
        except (ValueError, TypeError, RecursionError): result = {}
        if not _names_a_training(result):
            raise InputError(f'{path}:{n}: not a result; remove the line, '
                             'or choose another file')
        results.append(result)
    return results

def _names_a_training(result:dict)->bool:
    return isinstance(result.get('row'), str) and isinstance(result.get('seed'), int)

def write_results(path:str|Path, results:list[dict]): # the whole file, or as it was before
    lines = [json.dumps(result, ensure_ascii=False) + '\n' for result in results]
    write_atomically(path, ''.join(lines).encode())

def run_missing(out:str|Path,            # file of results
                function:Callable,       # as for `run_in_processes`; returns a dictionary
                jobs:dict,               # of each key, the arguments of a call
                settings:dict,           # of every row that the file may hold
                processes:int=2,         # at the same time; 0: here, one after the other
                show:Callable|None=None, # what to print of a result, beside its key
                names:tuple=('row', 'seed'), # fields of a line that make up its key
                )->list[dict]:            # all results in the file
    "Run what the file lacks; raises `InputError` where a line has other settings"
    def read(): # what is there, and what is missing
        results = read_results(out)
        _check_settings(out, results, settings)
        done = {tuple(r[name] for name in names) for r in results}
        return results, {key: job for key, job in jobs.items() if key not in done}
    results, missing = read()
    if not missing: return results
    with _for_itself(Path(out)):
        results, missing = read() # once more: it may have grown
        _run_all(out, function, missing, results, settings, processes, show, names)
    return results

def _run_all(out, function, missing, results, settings, processes, show, names):
    for n, (key, measured) in enumerate(run_in_processes(function, missing, processes), 1):
        line = dict(zip(names, key))
        title = ', '.join(str(x) if name == 'row' else f'{name} {x}'
                          for name, x in line.items())
        results.append(line | measured | dict(settings=settings[line['row']]))
        write_results(out, results)
        shown = f': {show(measured)}' if show else ''
        print(f'{n} of {len(missing)}: {title}{shown}', flush=True)

@contextmanager
def _for_itself(out:Path)->Iterator[None]: # else two would lose each other's results
    out.parent.mkdir(parents=True, exist_ok=True)
    lock = out.with_name(f'.{out.name}.lock')
    with locked(lock, f'{out}: another process is adding to it; choose another file'): yield

def _check_settings(path:str|Path, results:list[dict], settings:dict):
    for r in results:
        if r['row'] not in settings or r.get('settings') != settings[r['row']]:
            raise InputError(f"{path}: row {r['row']} was run with other settings; "
                             'choose another file')

def main(about:str,       # what the program does, in its first line
         train:Callable,  # gets the options by name
         processes:int=2, # by default
         **options):      # further ones: arguments of `add_argument`, by name
    "The command of a file of trainings: --out, --processes, and what else it has"
    parser = ArgumentParser(description=about.split('\n')[0])
    parser.add_argument('--out', type=Path, required=True, help='file of results')
    parser.add_argument('--processes', type=int, default=processes,
                        help='runs at the same time, one thread each')
    for name, how in options.items(): parser.add_argument(f'--{name}', **how)
    given = vars(parser.parse_args())
    try: train(**given)
    except InputError as e: parser.exit(2, f'{parser.prog}: {e}\n')
