"Many runs, one file of results: interrupted, damaged, of other settings, two at once."
import os, time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
import pytest, torch
import runs
from runs import read_results, run_in_processes, run_missing
from transformer_nb.support.core import InputError

@pytest.mark.parametrize('processes', [0, 2])
def test_calls_side_by_side(processes, copies):
    jobs = {'two to the third': (2, 3), 'three squared': (3, 2)}
    found = dict(run_in_processes(pow, jobs, processes))
    assert found == {'two to the third': 8, 'three squared': 9}

def test_what_is_there_is_not_run_again(tmp_path, capsys):
    def squares(n, settings): # of the numbers below n, each as a seed
        jobs = {('square', i): (dict(value=i**2),) for i in range(n)}
        return run_missing(tmp_path/'powers.jsonl', dict, jobs, settings, processes=0)
    squares(2, dict(square='exponent 2'))
    assert [r['value'] for r in squares(3, dict(square='exponent 2'))] == [0, 1, 4]
    assert capsys.readouterr().out.count('\n') == 3
    with pytest.raises(InputError, match='square was run with other settings'):
        squares(3, dict(square='exponent 3'))

def number(n): return dict(n=n)

def test_a_second_process_does_not_lose_results(tmp_path):
    out, jobs = tmp_path/'out.jsonl', {('a', 0): (1,)}
    settings = dict(a='as it is', b='as it is')
    fork = get_context('fork')
    held, done = fork.Event(), fork.Event()
    def hold():
        with runs._for_itself(out):
            held.set()
            done.wait(60)
    other = fork.Process(target=hold)
    other.start()
    assert held.wait(60)
    with pytest.raises(InputError, match='another process is adding to it'):
        run_missing(out, number, jobs, settings, 0)
    done.set()
    other.join()
    run_missing(out, number, jobs, settings, 0)
    run_missing(out, number, {('b', 0): (2,)}, settings, 0)
    assert [(r['row'], r['n']) for r in read_results(out)] == [('a', 1), ('b', 2)]
    assert [path.name for path in tmp_path.iterdir()] == ['out.jsonl']

def test_settings_stand_in_a_field_of_another_name(tmp_path):
    out, jobs = tmp_path/'out.jsonl', {('a', 0): (1,)}
    for _ in range(2): # the second time nothing is missing
        [line] = run_missing(out, number, jobs, dict(a='x'), 0, field='task')
    assert line == dict(row='a', seed=0, n=1, task='x')
    with pytest.raises(InputError, match='other settings'):
        run_missing(out, number, jobs, dict(a='y'), 0, field='task')

def noted(folder, name): # a job: the first fails while the second runs
    if name == 'first': raise ValueError(name)
    time.sleep(0.3)
    (folder/name).touch()

def test_after_an_error_no_other_job_begins(tmp_path, monkeypatch):
    def pool(n, *rest, **more): return ThreadPoolExecutor(n) # begins at once
    monkeypatch.setattr(runs, 'ProcessPoolExecutor', pool)
    jobs = {name: (tmp_path, name) for name in ('first', 'second', 'third', 'fourth')}
    with pytest.raises(ValueError, match='first'):
        dict(runs.run_in_processes(noted, jobs, 1))
    begun = {path.name for path in tmp_path.iterdir()}
    assert begun <= {'second'}

def test_lines_that_came_meanwhile_are_kept(tmp_path, monkeypatch):
    out, settings = tmp_path/'out.jsonl', dict(a='s', b='s')
    lock = runs._for_itself
    def late(path): # another command ends just before this one begins
        line = dict(row='b', seed=0, n=2, settings='s')
        runs.write_results(out, [line])
        return lock(path)
    monkeypatch.setattr(runs, '_for_itself', late)
    results = run_missing(out, number, {('a', 0): (1,)}, settings, 0)
    assert [r['row'] for r in results] == ['b', 'a'] and read_results(out) == results

WHOLE = b'{"row": "base", "seed": 0, "settings": "x"}\n'

@pytest.mark.parametrize('line', [
    b'half a li', b'7', b'{}', b'[1]', b'{"row": ["base"], "seed": 0}',
    b'{"row": "base", "seed": {}}', 5000*b'['])
def test_a_damaged_line_is_named(line, tmp_path):
    (tmp_path/'x').write_bytes(WHOLE + line)
    with pytest.raises(InputError, match='x:2: not a result'): read_results(tmp_path/'x')

def test_a_file_that_is_not_text(tmp_path):
    (tmp_path/'x').write_bytes(WHOLE + b'\xff\x00')
    with pytest.raises(InputError, match='x:2: byte 0xff is not UTF-8'):
        read_results(tmp_path/'x')

ASKED = ['train_x.py', '--out', 'x.jsonl', '--again']

def test_the_command_of_a_file_of_trainings(monkeypatch):
    monkeypatch.setattr('sys.argv', ASKED)
    given = {}
    runs.main('Trainings.', given.update, processes=3, again=dict(action='store_true'))
    assert given == dict(out=Path('x.jsonl'), processes=3, again=True)

def test_the_command_refuses_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr('sys.argv', ASKED[:3])
    def train(out, processes): raise InputError(f'{out}:2: not a result')
    with pytest.raises(SystemExit) as end: runs.main('Trainings.', train)
    assert end.value.code == 2
    assert capsys.readouterr().err == 'train_x.py: x.jsonl:2: not a result\n'

def test_every_process_has_one_thread(monkeypatch):
    "Though by default a process has as many as there are cores, and forks keep the number"
    def pool(n, context, *start, **more): return ThreadPoolExecutor(n, '', *start)
    monkeypatch.setattr(runs, 'ProcessPoolExecutor', pool)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try: found = dict(run_in_processes(torch.get_num_threads, dict(a=(), b=()), 1))
    finally: torch.set_num_threads(before)
    assert found == dict(a=1, b=1)

@pytest.mark.slow
def test_a_killed_training_says_how_to_go_on(copies):
    with pytest.raises(InputError, match='makes only what is missing'):
        list(run_in_processes(os._exit, dict(a=(1,)), 1))

@pytest.mark.parametrize('processes', [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_error_of_a_training_is_its_own(processes):
    "The process is a new Python, as a user's; those of other tests are copies of one"
    with pytest.raises(ZeroDivisionError):
        list(run_in_processes(divmod, dict(a=(1, 0)), processes))
