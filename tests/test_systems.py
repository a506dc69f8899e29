"""What other systems lack, taken away from this one: fcntl, resource, fork, locks, UTF-8.
The systems themselves are for CI (.github/workflows/versions.yml)."""
import errno, os, subprocess, sys
from pathlib import Path
import pytest
from running import ROOT
from transformer_nb.checkpoint import training_lock
from transformer_nb.support.core import remove_half_written

ELSEWHERE = ROOT/'tests/elsewhere.py'

def elsewhere(*arguments):
    command = [sys.executable, ELSEWHERE, *map(str, arguments)]
    env = {**os.environ, 'TRANSFORMER_NB_DATA': ''}
    return subprocess.run(command, capture_output=True, text=True, encoding='utf8',
                          env=env, timeout=300)

def test_the_grader_without_fork():
    right = ROOT/'transformer_nb/assignment/right'
    done = elsewhere('grading.commands', 'tnb_check', right, '--stage', 1)
    assert done.returncode == 2 and 'here no process can fork' in done.stderr, done.stderr

# Locks

@pytest.mark.parametrize('number', [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(number, tmp_path, monkeypatch, capsys):
    "NFS, as it is sometimes mounted: a training runs, with one warning"
    def refuse(*args): raise OSError(number, os.strerror(number))
    monkeypatch.setattr('fcntl.flock', refuse)
    with training_lock(tmp_path/'m'): pass
    [line] = capsys.readouterr().err.splitlines()
    assert f'{tmp_path}' in line and 'has no locks' in line
    assert list(tmp_path.iterdir()) == []

def test_on_windows_what_is_open_cannot_be_removed(tmp_path, monkeypatch):
    unlink = Path.unlink
    def unlink_closed(path, *args, **options):
        if 'open' in path.name: raise PermissionError(errno.EACCES, 'in use')
        unlink(path, *args, **options)
    monkeypatch.setattr(Path, 'unlink', unlink_closed)
    for name in ('.open.1.tnb.tmp', '.left.2.tnb.tmp', 'notes.txt'):
        (tmp_path/name).write_bytes(b'')
    remove_half_written(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {'.open.1.tnb.tmp', 'notes.txt'}

# Text

PRINTS = r"""
from transformer_nb.support.core import command
@command
def prints(): print('\u2192 Gr\u00f6\u00dfe')
prints()
"""

def test_commands_speak_utf8_whatever_the_locale():
    env = dict(LC_ALL='C', PYTHONUTF8='0', PYTHONCOERCECLOCALE='0')
    done = subprocess.run([sys.executable, '-c', PRINTS], capture_output=True,
                          env={**os.environ, **env})
    assert done.stdout.decode('utf8') == '→ Größe\n', done.stderr
