"""Processes and folders, watched. A case fails where a command hangs, needs more than 5 GB,
dies of a signal or with a traceback, says more than one short line, prints nothing or NaN
as if all were well, changes a file that is not its own, or leaves half a file behind.

Linux only. A command takes two seconds to start, so this process imports it once and is
copied by `fork` for each case, which then runs the console script as the shell would have.
"""
import hashlib, json, os, re, resource, runpy, shlex, shutil, signal, sys, time, traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
# forking is safe as long as this process starts no threads
os.environ |= dict(OMP_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1', IN_TEST='1',
                   TOKENIZERS_PARALLELISM='false', TRANSFORMER_NB_DATA='')
import numpy as np
from safetensors.numpy import load_file
from transformer_nb.support.core import command

IMPORTED_ONCE = ('commands', 'evaluation', 'formats.page', 'studies.variations')
for name in IMPORTED_ONCE: import_module(f'transformer_nb.{name}')
import_module('torch._dynamo') # or every optimizer does it at its first step

BIN = Path(sys.executable).parent
SECONDS, MEMORY, PROCESSES, COLUMNS = 30, 5 * 2**30, 50, 400 # the last: of a message
TEXT = 'Ein Hund rennt.\n\nEine Frau liest ein Buch.\n'.encode()

class Bad(Exception): "How a case was handled badly"

def must(good, reason):
    if not good: raise Bad(reason)

# A process, watched

@dataclass
class Ran:
    "What a command did"
    command: str
    status: int # negative: of that signal
    out: bytes
    error: str

    def messages(self):
        "Lines of standard error, without the usage and without what is no complaint"
        error = re.sub(r'(?m)^usage: (.|\n)*?(?=^\w+: error:)', '', self.error)
        return [line for line in error.splitlines() if line and not NOTICE.search(line)]

NOTICE = re.compile('pairs to train on, |continued after step|starting from the beginning|'
                    'it is left out|left out of the perplexity|translated up to|'
                    r'finishing this step|\d%\||step/s|^step \d+: validation loss|'
                    # what `Line.notes` says of one line
                    '^tnb_translate: line [0-9]+: (the model hardly knows|left out|'
                    'not translated|not copied|the numbers differ|the translation was cut|'
                    'it begins with none of the tags|has more than|doubtful: |'
                    'probably nonsense: )|^tnb_train: it ended after')

def exit_status(work):
    "Of a function, as the interpreter does it"
    status = 0
    try: work()
    except SystemExit as e:
        status = e.code or 0
        if isinstance(status, str): status = print(status, file=sys.stderr) or 1
    except BaseException:
        traceback.print_exc()
        status = 1
    try: sys.stdout and sys.stdout.flush()
    except OSError:
        traceback.print_exc()
        status = 120
    return status

def connect(number, name, target, mode):
    "A standard stream: a path, an open file's number, or None where it is closed"
    if target is None:
        os.close(number)
        setattr(sys, name, None)
        return
    opened = target if isinstance(target, int) else os.open(target, mode, 0o666)
    os.dup2(opened, number)
    how = dict(stdin=dict(mode='r'), stdout=dict(mode='w'), stderr=STDERR)[name]
    setattr(sys, name, open(number, closefd=False, encoding='utf8', **how))

STDERR = dict(mode='w', buffering=1, errors='backslashreplace')

def in_child(work, folder, streams, file_size, env):
    "The other side of a fork; never returns"
    status = 1
    try:
        os.setsid() # so that it can be killed with all it started
        os.chdir(folder)
        os.environ.update(env)
        new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        for i, name in enumerate(('stdin', 'stdout', 'stderr')):
            connect(i, name, streams[name], new if i else os.O_RDONLY)
        os.closerange(3, 1000)
        if file_size: resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        status = exit_status(work)
    finally: os._exit(status)

def console_script(args):
    "A function that does what the shell would start"
    def run():
        sys.argv = [str(BIN/args[0]), *args[1:]]
        runpy.run_path(sys.argv[0], run_name='__main__')
    return run

def resident(pid):
    "Bytes; none where the process has just ended"
    try: pages = Path(f'/proc/{pid}/statm').read_text().split()[1]
    except (OSError, IndexError): return 0
    return int(pages) * resource.getpagesize()

def n_together(group):
    "How many processes a group has"
    found = 0
    for path in Path('/proc').glob('[0-9]*/stat'):
        try: text = path.read_text()
        except OSError: continue # it has just ended
        found += int(text.rpartition(')')[2].split()[2]) == group
    return found

def kill_group(pid):
    try: os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError: pass

class Child:
    "A process in a scene, from its start to its end"
    def __init__(self, scene, work, name, stdin, stdout, stderr, file_size, env):
        self.name, self.n = name, len(scene.children)
        self.streams = {}
        given = dict(stdin=stdin, stdout=stdout, stderr=stderr)
        for stream, target in given.items():
            self.streams[stream] = self.path(scene, stream) if target == '' else target
        if isinstance(stdin, bytes):
            self.streams['stdin'] = path = self.path(scene, 'stdin')
            path.write_bytes(stdin)
        self.pid = os.fork()
        if self.pid == 0: in_child(work, scene.folder, self.streams, file_size, env)
        self.status, self.peak = None, 0

    def path(self, scene, stream): return scene.folder.parent/f'{stream}{self.n}'

    def ended(self):
        if self.status is not None: return True
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if not pid: return False
        self.status = os.waitstatus_to_exitcode(status)
        self.peak = usage.ru_maxrss * 1024
        kill_group(self.pid) # what it left behind
        return True

    def kill(self):
        if not self.ended(): kill_group(self.pid)
        while not self.ended(): time.sleep(0.001)

    def wait(self, seconds=SECONDS):
        until = time.monotonic() + seconds
        waits = 0
        while not self.ended():
            reason = None
            waits += 1
            crowded = waits % 20 == 0 and n_together(self.pid) > PROCESSES
            if crowded: reason = f'starts more than {PROCESSES} processes'
            if time.monotonic() > until: reason = f'hangs: more than {seconds} s'
            if resident(self.pid) > MEMORY: reason = 'needs more than 5 GB'
            if reason:
                self.kill()
                raise Bad(f'{self.name}: {reason}')
            time.sleep(0.01)
        return self.result()

    def result(self):
        texts = dict(stdout=b'', stderr=b'')
        for name in texts:
            path = self.streams[name]
            if isinstance(path, Path) and path.is_file(): texts[name] = path.read_bytes()
        error = texts['stderr'].decode(errors='replace')
        return Ran(self.name, self.status, texts['stdout'], error)

# A folder, watched

def snapshot(folder):
    "What is in a folder, by path"
    found = {}
    for path in folder.rglob('*'):
        content = '' # of a pipe, for one
        if path.is_symlink(): content = os.readlink(path)
        elif path.is_file():
            with path.open('rb') as file: content = file_digest(file)
        found[os.fsencode(path.relative_to(folder))] = content
    return found

def file_digest(file): return hashlib.file_digest(file, 'md5').hexdigest()

def is_left_behind(name:bytes)->bool:
    "Is it half a file, of a process that is gone?"
    if not name.endswith(b'.tmp'): return False
    writer = os.fsdecode(name).removesuffix('.tmp').removesuffix('.tnb').split('.')[-1]
    return not Path('/proc', writer).is_dir() or not writer.isdigit()

class Scene:
    "A fresh folder: the model `m`, the trainings `f` (finished) and `t` (stopped), texts"
    def __init__(self, folder, stage):
        self.folder = Path(folder)/'here'
        shutil.copytree(stage, self.folder)
        self.foreign = set()
        self.children = []

    def __truediv__(self, name): return self.folder/name

    def close(self):
        for child in self.children: child.kill()

    def put(self, names):
        "Files that are nobody's business but their owner's; a folder ends in a slash"
        for name in names.split():
            path = self/name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith('/'): path.mkdir()
            else: path.write_text('important')
            self.foreign.add(os.fsencode(name.rstrip('/')))

    def start(self, work, stdin=TEXT, stdout='', stderr='', file_size=None, **env):
        "A command line, a list of arguments, or a function"
        name = work if isinstance(work, str) else str(work)
        if isinstance(work, str): work = shlex.split(work)
        if isinstance(work, list): work = console_script(work)
        else:
            name = work.__name__
            work = command(work)
        child = Child(self, work, name, stdin, stdout, stderr, file_size, env)
        self.children.append(child)
        return child

    def run(self, work, may='', seconds=SECONDS, **how):
        "Runs to its end without an accident; `may` names what it may write"
        before = snapshot(self.folder)
        ran = self.start(work, **how).wait(seconds)
        check_end(ran)
        self.check_files(before, may)
        return ran

    def check_files(self, before, may=''):
        after = snapshot(self.folder)
        names = before.keys() | after.keys()
        allowed = tuple(map(os.fsencode, may.split()))
        for name in sorted(names):
            shown = os.fsdecode(name)
            if before.get(name) == after.get(name): continue
            must(name not in self.foreign, f'{shown}: a foreign file is changed or gone')
            own = name.split(b'/')[0] in allowed
            must(own, f'{shown}: changed, removed or left behind')
            is_half = is_left_behind(name) and name in after
            must(not is_half, f'{shown}: half a file is left behind')

def check_end(ran):
    "No traceback, no signal, one short line"
    error = ran.error
    accident = 'Traceback' in error or 'panicked' in error
    last = ([''] + re.findall('.*[a-z].*', error))[-1][:160]
    must(not accident, f'traceback: {last}')
    must(ran.status >= 0, f'signal {-ran.status}: {last}')
    must(ran.status in (0, 2, 130), f'exit status {ran.status}: {last}')
    lines = ran.messages()
    must(len(lines) == (ran.status > 0), f'{len(lines)} lines: {" / ".join(lines)[:160]}')
    must(all(len(line) <= COLUMNS for line in lines), 'a message of many screens')
    must('\x1b' not in error, 'escapes reach the terminal')

def json_without_nan(text):
    def refuse(name): raise Bad(f'{name} in {text[:200]}')
    return json.loads(text, parse_constant=refuse)

def check_result(scene, ran, stdin):
    "What a command that is content has done"
    name = ran.command.split()[0]
    text = ran.out.decode()
    must(not re.search(r'\b(nan|inf)\b', text), f'NaN in the output: {text[:160]}')
    if name == 'tnb_evaluate': json_without_nan(text)
    if name == 'tnb_train': check_weights(scene, ran.command)
    if name == 'tnb_translate' and '--n_best' not in ran.command:
        check_lines(stdin.decode(), text)

def check_lines(given, translated):
    "A line for each line, empty for empty"
    given = given.removesuffix('\n').split('\n')
    lines = translated.removesuffix('\n').split('\n')
    must(len(lines) == len(given), f'{len(given)} lines give {len(lines)}')
    for source, line in zip(given, lines):
        same = bool(source.strip()) == bool(line.strip())
        must(same, f'{source!r} gives {line!r}')

def check_weights(scene, line):
    out = re.search(r'--out (\S+)', line)
    path = scene/out[1]/'model.safetensors'
    weights = load_file(path).values()
    must(all(np.isfinite(w).all() for w in weights), 'a model of NaN is written')

# Three verdicts

def refuses(scene, work, has='', **how):
    "One line, exit status 2, nothing changed"
    ran = scene.run(work, **how)
    must(ran.status == 2, f'accepted: {ran.out[:100].decode()}')
    must(has in ran.error, f'does not name {has}: {ran.error[:160]}')
    return ran

def works(scene, work, **how):
    ran = copes(scene, work, **how)
    must(ran.status == 0, f'refused: {ran.error[:160]}')
    return ran

def copes(scene, work, stdin=TEXT, **how):
    "Either is right: to refuse it, or to do it well"
    ran = scene.run(work, stdin=stdin, **how)
    if ran.status == 0: check_result(scene, ran, stdin)
    return ran
