"Files that outlast a power cut, and commands that end in one line whatever they are given."
import argparse, errno, fcntl, io, os, resource, signal, stat, subprocess, sys
import threading, time
from pathlib import Path
import pytest, torch
from transformer_nb.support import core
from transformer_nb.support.core import (
    InputError, check_new_file, check_positive, command, default_device, find_device,
    find_in, read_arguments, set_seed, write_atomically)

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
        assert steps == [('file', f'.x.{os.getpid()}.tnb.tmp'), ('renamed', 'x'),
                         ('folder', tmp_path.name)]

@linux
def test_new_folders_are_on_the_disk_too(tmp_path, steps):
    write_atomically(tmp_path/'a'/'b'/'x', b'data')
    folders = [name for kind, name in steps if kind == 'folder']
    assert folders == [tmp_path.name, 'a', 'b']

def test_a_reader_keeps_the_whole_old_file(tmp_path):
    write_atomically(tmp_path/'x', b'first')
    with open(tmp_path/'x', 'rb') as file:
        write_atomically(tmp_path/'x', b'second')
        assert file.read() == b'first'

def test_a_file_system_that_cannot_sync_folders(tmp_path, monkeypatch):
    def refuse(*args): raise OSError(22, 'Invalid argument')
    n_open = len(os.listdir('/proc/self/fd')) if Path('/proc/self/fd').exists() else 0
    def files_only(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode): refuse()
    monkeypatch.setattr(os, 'fsync', files_only)
    write_atomically(tmp_path/'x', b'data')
    assert (tmp_path/'x').read_bytes() == b'data'
    if n_open: assert len(os.listdir('/proc/self/fd')) == n_open # nothing is left open

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

def test_other_letters_are_printed_as_they_are(capsys):
    message = 'Größe “x” – 大'
    assert stopped(capsys, InputError(message)) == (2, f'tnb_example: {message}\n')

@pytest.mark.parametrize('name', ['x' * 10**5, 'Ein Hund. ' * 10**4, '\x1b' * 10**4])
def test_a_message_quotes_a_long_name_in_short(name, capsys):
    for problem in (InputError(f'{name} is wrong'), OSError(36, 'is wrong', name)):
        status, message = stopped(capsys, problem)
        assert status == 2 and len(message) < 1100 and '…' in message
        assert message.startswith('tnb_example: ') and message.endswith(' is wrong\n')
    path = '/' + 'a/long/folder/' * 10 # the names of usual files are printed whole
    assert path in stopped(capsys, InputError(path))[1]

def test_closed_streams(monkeypatch, capsys):
    with monkeypatch.context() as patched:
        patched.setattr(sys, 'stdout', None)
        status, message = stopped(capsys)
        assert status == 2 and 'standard output is closed' in message
    monkeypatch.setattr(sys, 'stderr', None)
    with pytest.raises(SystemExit) as caught: tnb_example(InputError('a message'))
    assert caught.value.code == 2
    assert 'a message' not in capsys.readouterr().out # print(file=None) would put it there

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

@pytest.mark.parametrize('seed', [10**22, 2**63, -2**63 - 1])
def test_seeds_that_do_not_fit(seed):
    with pytest.raises(InputError, match=f'seed is {seed}; it must be'): set_seed(seed)

def test_seeds_at_the_limits():
    for seed in (-2**63, 2**63 - 1):
        set_seed(seed)
        first = torch.rand(1)
        set_seed(seed)
        assert torch.equal(torch.rand(1), first)

@pytest.mark.parametrize('value', [0, -1, float('nan'), float('inf'), -float('inf')])
def test_what_is_not_positive(value):
    with pytest.raises(InputError, match=f'minutes is {value}; it must be'):
        check_positive(minutes=value)

@pytest.mark.parametrize('name', [
    'meta', 'hpu', 'xla', 'vulkan', 'mtia', 'privateuseone', 'abacus', 'cuda:-1', 'cuda:99',
    'cuda:99999999999', '1', '\x1b[31m'])
def test_an_unusable_device_is_one_short_line(name):
    with pytest.raises(InputError) as caught: find_device(name)
    reason = str(caught.value).removeprefix(f'device {name}: ')
    assert 10 < len(reason) <= 121 and '\n' not in reason

def test_a_device_that_is_not_here(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    for name in ('tpu', 'cuda', 'cuda:1'):
        with pytest.raises(InputError, match=f'{name}: this machine has no such device'):
            find_device(name)

@pytest.mark.parametrize('cuda, mps, expected', [
    (True, True, 'cuda'), (False, True, 'cpu'), (False, False, 'cpu')])
def test_the_default_device(cuda, mps, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, 'is_available', lambda: mps)
    assert default_device() == torch.device(expected)

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

# Where nobody reads, and where a file may not be written

@pytest.fixture(params=['nobody', 'full'])
def unwritable(request):
    "A stream that cannot be written: its reader has gone, or its disk is full"
    if request.param == 'full': number = os.open('/dev/full', os.O_WRONLY)
    else:
        reader, number = os.pipe()
        os.close(reader)
    with open(number, 'w', buffering=1, encoding='utf8') as stream: yield stream

def test_the_work_goes_on_when_nobody_reads_standard_error(unwritable, monkeypatch):
    monkeypatch.setattr(sys, 'stderr', unwritable)
    done = []
    @command
    def work():
        print('a message', file=sys.stderr)
        done.append(1)
    work()
    assert done and sys.stderr is unwritable

def test_an_error_is_status_2_although_nobody_reads_it(unwritable, monkeypatch):
    monkeypatch.setattr(sys, 'stderr', unwritable)
    @command
    def work(): raise InputError('bad')
    with pytest.raises(SystemExit) as e: work()
    assert e.value.code == 2

def test_help_that_cannot_be_written_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'stdout', open('/dev/full', 'w', encoding='utf8'))
    @command
    def work():
        print('usage')
        sys.exit(0) # as argparse does
    with pytest.raises(SystemExit) as e: work()
    assert e.value.code == 2 and 'No space left' in capsys.readouterr().err

# Streams in any state

@pytest.mark.parametrize('way', ['print', 'buffer'])
@pytest.mark.parametrize('room, status', [(10**6, 0), (1000, 2)])
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
        assert sys.stdout is stdout
    assert (tmp_path/'out').read_bytes() == lines.encode()[:room]
    assert ('File too large' in capsys.readouterr().err) == bool(status)

def test_a_pipe_that_does_not_wait_is_waited_for(monkeypatch):
    "In both directions: a late writer is not the end, and a slow reader loses nothing"
    their_end, our_out = os.pipe()
    our_in, their_in = os.pipe()
    for end in (our_in, our_out): os.set_blocking(end, False)
    fcntl.fcntl(our_out, fcntl.F_SETPIPE_SZ, 4096)
    lines = b''.join(b'line %d\n' % i for i in range(2000))
    def write_late():
        time.sleep(0.3)
        with open(their_in, 'wb') as stream: stream.write(lines)
    def read_late():
        time.sleep(0.6)
        with open(their_end, 'rb') as stream: seen.append(stream.read())
    seen = []
    threads = [threading.Thread(target=work) for work in (write_late, read_late)]
    for thread in threads: thread.start()
    @command
    def work():
        while data := sys.stdin.buffer.read1(500): sys.stdout.buffer.write(data)
    with open(our_in) as stdin, open(our_out, 'wb', buffering=0) as raw:
        monkeypatch.setattr(sys, 'stdin', stdin)
        monkeypatch.setattr(sys, 'stdout', io.TextIOWrapper(raw, write_through=True))
        work()
    for thread in threads: thread.join()
    assert seen == [lines]

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

@pytest.mark.parametrize('text, message', [
    ('{"a": 1, "a": 2}', "'a' is there twice"),
    ('{"b": [{"a": 1, "a": 1}]}', "'a' is there"),
    ('{"a": 1e999}', '1e999'), ('{"a": -1e999}', '-1e999'), ('{"a": NaN}', 'NaN'),
    ('[1]', 'not a JSON object'), ('\ufeff{}', 'BOM')])
def test_what_python_reads_and_json_does_not_say(text, message, tmp_path):
    "Of equal names the last was taken in silence, and 1e999 was infinite"
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

def test_help_on_a_full_disk_is_an_error(monkeypatch):
    "argparse leaves out, without a word, what cannot be written"
    parser, full = argparse.ArgumentParser(), io.StringIO()
    def write(text): raise OSError(errno.ENOSPC, 'No space left on device')
    full.write = write
    monkeypatch.setattr(sys, 'stdout', full)
    with pytest.raises(OSError, match='No space'): read_arguments(parser, ['--help'])

def test_a_process_of_another_user_is_alive(monkeypatch):
    "Its files are not removed"
    def refuse(pid, number): raise PermissionError(1, 'Operation not permitted')
    monkeypatch.setattr(os, 'kill', refuse)
    assert core._is_alive(1)

def test_results_of_an_edited_checkout_say_so(tmp_path, monkeypatch):
    package = tmp_path/'__init__.py'
    package.touch()
    monkeypatch.setattr(core.transformer_nb, '__file__', str(package))
    who = ['-c', 'user.name=a', '-c', 'user.email=a@b.c']
    for arguments in (['init', '-q'], ['add', '.'], [*who, 'commit', '-qm', 'x']):
        subprocess.run(['git', '-C', tmp_path, *arguments], check=True)
    assert not core._commit().endswith('-dirty')
    package.write_text('# edited')
    assert core._commit().endswith('-dirty')

def test_what_a_message_quotes_is_short_and_gives_no_orders():
    "Also in Python, where no command prints it"
    message = str(InputError('x' * 10**5 + ' \x1b[2J \u202e ' + 'y ' * 10**5))
    assert len(message) <= 1000 and message.isprintable()
