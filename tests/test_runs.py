"Many runs, one file of results: interrupted, damaged, of other settings, two at once."
import os
from multiprocessing import get_context
import pytest
import runs
from runs import read_results, run_in_processes, run_missing
from transformer_nb.support.core import InputError

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

WHOLE = b'{"row": "base", "seed": 0, "settings": "x"}\n'

@pytest.mark.parametrize('line', [
    b'half a li', b'7', b'{}', b'[1]', b'{"row": ["base"], "seed": 0}',
    b'{"row": "base", "seed": {}}', 5000*b'['])
def test_a_damaged_line_is_named(line, tmp_path):
    (tmp_path/'x').write_bytes(WHOLE + line)
    with pytest.raises(InputError, match='x:2: not a result'): read_results(tmp_path/'x')

@pytest.mark.slow
def test_a_killed_training_says_how_to_go_on(copies):
    with pytest.raises(InputError, match='makes only what is missing'):
        list(run_in_processes(os._exit, dict(a=(1,)), 1))

@pytest.mark.slow
def test_an_error_of_a_training_is_its_own(copies):
    for processes in (0, 1):
        with pytest.raises(ZeroDivisionError):
            list(run_in_processes(divmod, dict(a=(1, 0)), processes))
