"Files that outlast a power cut, and commands that end in one line whatever they are given."
import argparse, io, os, resource, signal, stat, subprocess, sys
from pathlib import Path
import pytest
from transformer_nb.support import core
from transformer_nb.support.core import (
    InputError, check_new_file, check_positive, command, find_device,
    find_in, read_arguments, write_atomically)

@pytest.fixture
def steps(monkeypatch):
    "What reaches the disk, in its order: files and folders forced to it, files renamed"
    done = []
    fsync, replace = os.fsync, os.replace
    def noted_fsync(descriptor):
        kind = 'folder' if stat.S_ISDIR(os.fstat(descriptor).st_mode) else 'file'
        done.append((kind, Path(os.readlink(f'/proc/self/fd/{descriptor}')).name))
        fsync(descriptor)
    def noted_replace(old, new):
        done.append(('renamed', Path(new).name))
        replace(old, new)
    monkeypatch.setattr(os, 'fsync', noted_fsync)
    monkeypatch.setattr(os, 'replace', noted_replace)
    return done

linux = pytest.mark.skipif(not Path('/proc/self/fd').exists(), reason='names by /proc')

@linux
def test_a_file_is_on_the_disk_before_its_name_and_then_the_folder(tmp_path, steps):
    for _ in range(2): # new, and in place of an older one
        steps.clear()
        write_atomically(tmp_path/'x', b'data')
        assert steps == [('file', core.temporary_path(Path('x')).name), ('renamed', 'x'),
                         ('folder', tmp_path.name)]

def test_a_failed_write_names_the_file_and_leaves_nothing(tmp_path, monkeypatch):
    def full(descriptor): raise OSError(28, 'No space left on device')
    write_atomically(tmp_path/'x', b'first')
    monkeypatch.setattr(os, 'fsync', full)
    with pytest.raises(OSError, match='No space left on device: .*x'):
        write_atomically(tmp_path/'x', b'second')
    assert [path.name for path in tmp_path.iterdir()] == ['x']
    assert (tmp_path/'x').read_bytes() == b'first'

@command
def tnb_example(problem=None):
    if problem: raise problem
    return 'done'

def stopped(capsys, *args): # exit status, and what stands on stderr
    with pytest.raises(SystemExit) as caught: tnb_example(*args)
    return caught.value.code, capsys.readouterr().err

@pytest.mark.parametrize('name', ['x\x1b[2J', 'a\rb', 'two\nlines', '\u202e', '\x9b'])
def test_a_message_gives_no_orders_to_the_terminal(name, capsys):
    for problem in (InputError(f'{name} is wrong'), FileNotFoundError(2, 'No such', name)):
        status, message = stopped(capsys, problem)
        assert status == 2 and message.startswith('tnb_example: ')
        assert message.endswith('\n') and message[:-1].isprintable()

def test_an_argument_that_is_not_utf8(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['tnb_example', '--out', os.fsdecode(b'model\xff')])
    status, message = stopped(capsys)
    assert status == 2 and r"'model\udcff' is not UTF-8" in message

def test_ctrl_c_during_the_imports():
    code = ('import signal, sys; sys.argv[0] = "/usr/bin/{}"; '
            'signal.signal(signal.SIGINT, signal.default_int_handler); '
            'import transformer_nb; '
            'print(signal.getsignal(signal.SIGINT) == signal.SIG_DFL)')
    for name, ends in (('tnb_train', 'True'), ('jupyter-lab', 'False')):
        run = subprocess.run([sys.executable, '-c', code.format(name)], text=True,
                             capture_output=True, cwd=Path(__file__).parent.parent)
        assert run.stdout.strip() == ends, run.stderr

def test_ctrl_c_in_a_command(capsys):
    before = signal.signal(signal.SIGINT, signal.SIG_DFL) # as during the imports
    try:
        tnb_example()
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
        assert stopped(capsys, KeyboardInterrupt()) == (130, 'tnb_example: interrupted\n')
    finally: signal.signal(signal.SIGINT, before)

def test_what_is_not_positive():
    for value in (0, -1, float('nan'), float('inf'), -float('inf')):
        with pytest.raises(InputError, match=f'minutes is {value}; it must be'):
            check_positive(minutes=value)

def test_an_unusable_device_is_one_short_line():
    for name in ('meta', 'hpu', 'vulkan', 'abacus', 'cuda:-1', 'cuda:99', '1', '\x1b[31m'):
        with pytest.raises(InputError) as caught: find_device(name)
        reason = str(caught.value).removeprefix(f'device {name}: ')
        assert 10 < len(reason) <= 121 and '\n' not in reason

PRINTS = """
from transformer_nb.support.core import command
@command
def prints(): print('result')
prints()
"""

@pytest.mark.parametrize('unreadable', ['/dev/full', 'a pipe that nobody reads'])
def test_a_result_that_cannot_be_written_is_one_line(unreadable):
    if unreadable == '/dev/full': out = open(unreadable, 'w')
    else:
        reader, writer = os.pipe()
        os.close(reader)
        out = open(writer, 'w')
    program = [sys.executable, '-c', PRINTS]
    with out: done = subprocess.run(program, stdout=out, stderr=subprocess.PIPE, text=True)
    if unreadable != '/dev/full': assert (done.returncode, done.stderr) == (0, '')
    else:
        assert done.returncode == 2
        assert done.stderr == 'prints: file: No space left on device\n'

@pytest.mark.parametrize('room, status, way', [(10**6, 0, 'buffer'), (1000, 2, 'print')])
def test_all_is_written_or_an_error(room, status, way, tmp_path, monkeypatch, capsys):
    "To a file as PYTHONUNBUFFERED leaves it, on a disk that takes a part of a write"
    lines = ''.join(f'line {i}\n' for i in range(1000))
    @command
    def work():
        if way == 'print': print(lines, end='')
        else: sys.stdout.buffer.write(lines.encode())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open(tmp_path/'out', 'wb', buffering=0) as raw:
        stdout = io.TextIOWrapper(raw, write_through=True)
        monkeypatch.setattr(sys, 'stdout', stdout)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try: work()
        except SystemExit as end: assert end.code == status
        else: assert status == 0
        finally: resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path/'out').read_bytes() == lines.encode()[:room]
    assert ('File too large' in capsys.readouterr().err) == bool(status)

def test_only_plain_files_are_replaced_and_keep_their_mode(tmp_path):
    os.mkfifo(tmp_path/'pipe')
    with pytest.raises(OSError, match='not a plain file'):
        write_atomically(tmp_path/'pipe', b'x')
    assert stat.S_ISFIFO(os.stat(tmp_path/'pipe').st_mode)
    secret = tmp_path/'secret'
    secret.touch(0o600)
    write_atomically(secret, b'x')
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600

def test_a_new_file_is_new_and_can_be_written(tmp_path):
    check_new_file(None)
    check_new_file(tmp_path/'a'/'b')
    assert list((tmp_path/'a').iterdir()) == []
    (tmp_path/'link').symlink_to('nothing')
    (tmp_path/'file').touch()
    for name in ('link', 'file', 'a'):
        with pytest.raises(InputError, match='already'): check_new_file(tmp_path/name)
    for name in ('file/x', 250*'x'):
        with pytest.raises(OSError): check_new_file(tmp_path/name)

def test_what_json_of_a_stranger_holds():
    record = dict(a=dict(b='x', c=[1]), d=None)
    assert find_in(record, 'a', 'b') == 'x' and find_in(record, 'a', 'c', kind=list) == [1]
    for names in ('a', 'ac', 'az', 'db', 'abc', 'acd'):
        assert find_in(record, *names) is None

def test_what_python_reads_and_json_does_not_say(tmp_path):
    "1e999 was infinite"
    for text, message in {
            '{"a": -1e999}': '-1e999', '{"a": NaN}': 'NaN',
            '[1]': 'not a JSON object', '\ufeff{}': 'BOM'}.items():
        (tmp_path/'x.json').write_text(text, encoding='utf8')
        with pytest.raises(InputError, match=f'x.json is damaged: .*{message}'):
            core.read_json(tmp_path/'x.json')

def test_an_empty_option_is_not_one_that_was_left_out():
    parser = argparse.ArgumentParser()
    for name in ('--out', 'file'): parser.add_argument(name)
    for arguments, name in ((['x', '--out', ''], '--out'), ([''], 'file')):
        with pytest.raises(InputError, match=f'^{name} is empty'):
            read_arguments(parser, arguments)
    parser.add_argument('--key', default='') # which means: none
    assert read_arguments(parser, ['x'])['key'] == ''
