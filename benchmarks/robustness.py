#!/usr/bin/env python3
"""What the commands make of damaged files, absurd numbers, full disks, kills and strangers.

    python benchmarks/robustness.py [GROUP ...]   # all groups, or some, such as: 1 7 keep

Every case has a fresh folder with a model, two trainings and a few sentences. It is handled
badly where a command hangs, needs more than 5 GB, dies of a signal or with a traceback,
says more than one short line, prints nothing or NaN as if all were well, changes a file
that is not its own, or leaves half a file behind. The groups are those of the first such
test (577 cases by hand), whose bad cases are all among these. Linux only; ten minutes on
one core. The exit status is 1 where anything was handled badly.

A command takes two seconds to start, so this process imports it once and is copied by
`fork` for each case, which then runs the console script as the shell would have.
"""
import gzip, hashlib, json, math, os, random, re, resource, runpy, select, shlex, shutil
import signal, socket, subprocess, sys, time, traceback, urllib.request, zipfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
# forking is safe as long as this process starts no threads
os.environ |= dict(OMP_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1', IN_TEST='1',
                   TOKENIZERS_PARALLELISM='false', TRANSFORMER_NB_DATA='')
import numpy as np
import yaml
from safetensors.numpy import load_file, save_file
import transformer_nb.commands, transformer_nb.evaluation
import transformer_nb.export, transformer_nb.studies.variations
from transformer_nb import corpora
from transformer_nb.checkpoint import load_verified, save_verified
from transformer_nb.core import InputError, command
from transformer_nb.translation import Translator

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
                    r'finishing this step|\d%\||step/s')

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
    writer = os.fsdecode(name).split('.')[-2]
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

def after(prepare, check, *args, **how):
    "A case in which something is done to the folder first"
    def case(scene):
        prepare(scene)
        check(scene, *args, **how)
    return case

# What every scene begins with

TRAIN = 'tnb_train --config tiny.yaml --out new'
TINY = dict(
    model=dict(d_model=32, d_ff=64, n_heads=2, n_encoder_layers=1, n_decoder_layers=1,
               dropout=0.1, max_len=64),
    data=dict(src='train.de', tgt='train.en', valid_src='valid.de', valid_tgt='valid.en',
              vocab_size=400, batch_tokens=512),
    training=dict(max_steps=4, warmup_steps=50, valid_every=2, save_every=2, average=2))

def set_stage(folder):
    "Texts, a finished training, a stopped one, and a model without its checkpoints"
    corpora.mini_corpus = cache(corpora.mini_corpus) # for all processes
    pairs = corpora.mini_corpus()['train'][:700]
    parts = dict(train=pairs[:600], valid=pairs[600:], short=pairs[:3])
    for name, part in parts.items():
        for i, language in enumerate(('de', 'en')):
            text = ''.join(pair[i] + '\n' for pair in part)
            (folder/f'{name}.{language}').write_text(text, encoding='utf8')
    (folder/'tiny.yaml').write_text(yaml.safe_dump(TINY))

def fill_stage(scene):
    finished = TRAIN.replace('new', 'f') + ' --max_steps 300 --save_every 50'
    works(scene, finished, may='f', seconds=120)
    (scene/'m').mkdir()
    for name in ('config.json', 'tokenizer.json', 'model.safetensors'):
        shutil.copy(scene/'f'/name, scene/'m')
    endless = TRAIN.replace('new', 't') + ' --max_steps 1000000 --valid_every 1000000'
    stop(scene.start(endless), scene/'t', signal.SIGTERM)

def last_step(folder):
    "Of the newest state of a training; 0 before there is one"
    states = sorted(Path(folder, 'checkpoints').glob('state-0*.safetensors'))
    return int(states[-1].stem.split('-')[1]) if states else 0

def await_step(child, folder, step):
    until = time.monotonic() + SECONDS
    while last_step(folder) < step and not child.ended():
        must(time.monotonic() < until, 'it does not come to train')
        time.sleep(0.005)

def stop(child, folder, *signals):
    "As soon as it has taken a few steps"
    await_step(child, folder, 4)
    for number in signals:
        if not child.ended(): os.kill(child.pid, number)
        time.sleep(0.05)
    ran = child.wait()
    check_end(ran)
    must(ran.status == 130, f'exit status {ran.status} after {signals}')

def resume(scene, name, more=4): # the command that goes on for some steps
    steps = last_step(scene/name) + more
    return f'tnb_train --config tiny.yaml --out {name} --resume --max_steps {steps}'

def resumes(scene, name, check=copes, options='', **how):
    return check(scene, f'{resume(scene, name)} {options}', may=name, **how)

# Groups

GROUPS = {}
def group(name, title):
    def add(cases):
        GROUPS[name] = (title, cases)
        return cases
    return add

FOREIGN = [ # files, and where a training should go
    ('proj/docs/.thesis.tmp proj/notes.txt', 'proj --resume'),
    ('proj/.metrics.jsonl.123.tmp proj/notes.txt', 'proj --resume'),
    ('proj/checkpoints/.state-00000001.safetensors.12.tmp proj/a.txt', 'proj --resume'),
    ('proj/.x.tmp/ proj/notes.txt', 'proj --resume'),
    ('.thesis.tmp', '. --resume'),
    ('proj/checkpoints/notes.txt', 'proj --resume'),
    ('proj/run.yaml proj/tokenizer.json proj/thesis.txt', 'proj --resume'),
    ('proj/config.json', 'proj'),
    ('proj/notes.txt', 'proj'),
    ('proj/.hidden', 'proj'),
    ('proj/docs/deep/a.txt', 'proj'),
    ('proj', 'proj'),
    ('proj', 'proj --resume'),
    ('proj', 'proj/x')]

@group('1', 'foreign files')
def foreign_files():
    start = 'tnb_train --config tiny.yaml --out '
    for names, out in FOREIGN:
        put = partial(Scene.put, names=names)
        yield f'{out}: {names}', after(put, refuses, start + out)
    for name in ('.thesis.tmp', 'docs/.thesis.tmp', 'docs/.thesis.txt.123.tmp'):
        put = partial(Scene.put, names=f'proj/{name}')
        alone = after(put, copes, start + 'proj --resume', may='proj')
        yield f'proj/{name} alone', alone
    for name in ('.thesis.tmp', 'docs/.thesis.tmp', 'checkpoints/.notes.tmp',
                 'docs/.thesis.txt.12.tmp', '.x.tmp/', '.x.tmp/a', 'notes.txt'):
        put = partial(Scene.put, names=f't/{name}')
        yield f'{name} in a training', after(put, resumes, 't', works)
    yield 'its own half-written files go', own_half_files
    yield 'a link named .x.tmp', foreign_link
    for line in ('tnb_export m proj', 'tnb_demo --out proj'):
        yield line, after(partial(Scene.put, names='proj/notes.txt'), refuses, line)
    yield 'tnb_export over its model', lambda s: refuses(s, 'tnb_export m m')
    variations = 'tnb_variations --corpus mini --rows base --seeds 1 --n_steps 1 --out f'
    yield variations, lambda s: refuses(s, variations)
    copy = 'tnb_copy_task --steps 1 --out train.de'
    yield copy, lambda s: refuses(s, copy)

def own_half_files(scene):
    names = ('.metrics.jsonl.99999.tmp',
             'checkpoints/.state-00000099.safetensors.99999.tmp')
    paths = [scene/'t'/name for name in names]
    for path in paths: path.write_text('half')
    resumes(scene, 't', works)
    must(not any(path.exists() for path in paths), 'half-written files are still there')

def foreign_link(scene):
    scene.put('proj/notes.txt')
    (scene/'proj/.x.tmp').symlink_to('../train.de')
    refuses(scene, 'tnb_train --config tiny.yaml --out proj --resume')

@group('2', 'two trainings in one folder')
def two_trainings():
    yield 'the same one twice', partial(together, second=TRAIN)
    yield 'another seed', partial(together, second=TRAIN + ' --seed 1')
    yield 'one resumes, one begins', partial(together, second=TRAIN + ' --resume')
    yield 'resumed twice', resumed_twice
    yield 'many resume beside one', many_beside_one
    yield 'SIGKILL leaves no lock', lock_of_the_dead

def one_wins(children, names):
    runs = [child.wait(60) for child in children]
    statuses = sorted(ran.status for ran in runs)
    for ran in runs: check_end(ran)
    must(statuses == [0] + [2] * (len(runs) - 1), f'exit statuses {statuses}')
    must(not list(names.rglob('.*.tmp')), 'half a file is left behind')

def together(scene, second):
    use_mini(scene) # whose vocabulary takes a while
    lines = [f'{line} --max_steps 60' for line in (TRAIN, second)]
    one_wins([scene.start(line) for line in lines], scene/'new')

def use_mini(scene):
    run = dict(TINY, data=dict(corpus='mini', vocab_size=1000, batch_tokens=512))
    (scene/'tiny.yaml').write_text(yaml.safe_dump(run))

def resumed_twice(scene):
    line = resume(scene, 't', 60)
    one_wins([scene.start(line), scene.start(line)], scene/'t')

def many_beside_one(scene):
    first = scene.start(f'{TRAIN} --max_steps 1000000 --max_minutes 0.1')
    await_step(first, scene/'new', 1)
    for _ in range(4): refuses(scene, f'{TRAIN} --resume', may='new')
    ran = first.wait()
    check_end(ran)
    must(ran.status == 0, 'the first one did not survive')

def lock_of_the_dead(scene):
    child = scene.start(f'{TRAIN} --max_steps 1000000')
    await_step(child, scene/'new', 1)
    child.kill()
    resumes(scene, 'new', works)

SHORT = '--src short.de --ref short.en'
POISON = dict(nan=math.nan, inf=math.inf, minus_inf=-math.inf, huge=3e38)

@group('3', 'NaN')
def not_a_number():
    for alpha in ('nan', 'inf', '-inf', '-1', '1e308', '-nan'):
        yield f'translate, alpha {alpha}', line(f'tnb_translate m --alpha={alpha}')
        yield f'evaluate, alpha {alpha}', line(f'tnb_evaluate m {SHORT} --alpha={alpha}')
    for (name, value), every in product(POISON.items(), (True, False)):
        poison = partial(poison_model, value=value, every=every)
        what = f'{name} in {"all weights" if every else "one"}'
        commands = ('tnb_translate m', f'tnb_evaluate m {SHORT}', 'tnb_export m new')
        for text in commands:
            yield f'{text}: {what}', after(poison, copes, text, may='new')
    for option in ('lr inf', 'lr 1e308', 'lr 1e30', 'lr nan', 'max_grad_norm nan',
                   'label_smoothing nan', 'dropout nan', 'max_ratio nan', 'lr 1e38'):
        for steps in (2, 30):
            text = f'{TRAIN} --max_steps {steps} --{option}'
            yield text, partial(copes, work=text, may='new')
    for name in ('weights', 'best'):
        yield f'NaN in a {name} checkpoint', partial(poisoned_checkpoint, kind=name)

def line(text, check=None, **how):
    "A case of one command"
    return partial(check or copes, work=text, **how)

def seal(folder):
    "Make the checksums in config.json right"
    config = json.loads((folder/'config.json').read_text())
    for name in config['sha256']:
        with (folder/name).open('rb') as file:
            config['sha256'][name] = hashlib.file_digest(file, 'sha256').hexdigest()
    (folder/'config.json').write_text(json.dumps(config))

def poison_model(scene, value, every):
    path = scene/'m/model.safetensors'
    weights = load_file(path)
    for weight in weights.values():
        if every: weight[:] = value
    for weight in weights.values(): weight.flat[-1] = value
    save_file(weights, path)
    seal(scene/'m')

def change_checkpoint(path, change):
    "Its tensors and its info, with a right checksum"
    tensors, info = load_verified(path)
    change(tensors, info)
    path.write_bytes(save_verified(tensors, info))

def checkpoint_paths(scene, name, kind):
    return sorted((scene/name/'checkpoints').glob(f'{kind}*.safetensors'))

def poisoned_checkpoint(scene, kind):
    def change(tensors, info):
        for x in tensors.values(): x.fill_(math.nan)
    for path in checkpoint_paths(scene, 'f', kind): change_checkpoint(path, change)
    copes(scene, f'tnb_evaluate f {SHORT} --average 2')
    resumes(scene, 'f')

BOM = b'\xef\xbb\xbf'

@group('4', 'byte order mark')
def byte_order_marks():
    for text in (b'Ein Hund rennt.\n', TEXT, b'x\n', b'Ein Hund rennt.'):
        yield f'stdin {text[:9]!r}', partial(bom_in_stdin, text=text)
    yield 'a file', partial(bom_in_file, name='text')
    yield 'a .gz file', partial(bom_in_file, name='text.gz')
    yield 'to train on', bom_in_training
    yield 'to evaluate', bom_in_evaluation
    yield 'run.yaml', after(partial(prepend, name='tiny.yaml'), works, TRAIN, may='new')
    yield 'nothing else', line('tnb_translate m', stdin=BOM, check=Scene.run)
    yield 'in a later line', line('tnb_translate m', stdin=b'x\n' + BOM + b'x\n')
    utf16 = 'Ein Hund.\n'.encode('utf-16')
    yield 'UTF-16', line('tnb_translate m', refuses, stdin=utf16)

def prepend(scene, name):
    path = scene/name
    path.write_bytes(BOM + path.read_bytes())

def bom_in_stdin(scene, text):
    plain = works(scene, 'tnb_translate m', stdin=text)
    marked = works(scene, 'tnb_translate m', stdin=BOM + text)
    must(plain.out == marked.out, f'{marked.out[:40]} instead of {plain.out[:40]}')

def bom_in_file(scene, name):
    pack = gzip.compress if name.endswith('.gz') else bytes
    (scene/name).write_bytes(pack(BOM + TEXT))
    plain = works(scene, 'tnb_translate m')
    marked = works(scene, f'tnb_translate m {name}')
    must(plain.out == marked.out, f'{marked.out[:40]} instead of {plain.out[:40]}')

def bom_in_training(scene):
    works(scene, TRAIN, may='new')
    for name in ('train.de', 'train.en', 'valid.de', 'valid.en'): prepend(scene, name)
    works(scene, TRAIN.replace('new', 'marked'), may='marked')
    same = bits(scene/'new') == bits(scene/'marked')
    must(same, 'another model is trained')

def bits(folder): return (folder/'model.safetensors').read_bytes()

def bom_in_evaluation(scene):
    plain = works(scene, f'tnb_evaluate m {SHORT}')
    for name in ('short.de', 'short.en'): prepend(scene, name)
    marked = works(scene, f'tnb_evaluate m {SHORT}')
    scores = [json.loads(ran.out)['bleu'] for ran in (plain, marked)]
    must(scores[0] == scores[1], f'BLEU {scores}')

@group('5', 'resume past its limit')
def past_limits():
    for options in ('--max_steps 1', '--max_steps 4', '--max_minutes 0.0001',
                    '--max_minutes 1e-9', '--patience 1', '--average 1',
                    '--valid_every_minutes 1e-9', '--save_every_minutes 1e-9'):
        further = partial(resumes, options=options, check=works)
        yield f'stopped, {options}', partial(further, name='t')
        yield f'finished, {options}', partial(further, name='f')

@contextmanager
def server(reply):
    "The address of one that answers every request so, in a process of its own"
    listening = socket.create_server(('127.0.0.1', 0))
    port = listening.getsockname()[1]
    pid = os.fork()
    if pid == 0: serve(listening, reply)
    listening.close()
    try: yield f'http://127.0.0.1:{port}/file'
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

def serve(listening, reply): # until it is killed
    while True:
        connection, _ = listening.accept()
        try:
            with connection:
                connection.recv(10_000)
                for part in reply(): connection.sendall(part)
        except OSError: pass

def parts(*data): return lambda: data
def head(length, more=''):
    return f'HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{more}\r\n'.encode()

def endless():
    yield b'HTTP/1.1 200 OK\r\n\r\n'
    while True: yield bytes(2**20)

def larger(): # than memory
    yield head(10**12)
    while True: yield bytes(2**20)

def silent():
    time.sleep(60)
    yield b''

def dripping():
    yield head(10**6)
    while True:
        time.sleep(0.05)
        yield b'x'

CHUNKED = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
REPLIES = {
    'too short': parts(head(1000), b'only this'),
    'a bad chunk': parts(CHUNKED, b'ZZ\r\nxx\r\n'),
    'a chunk cut off': parts(CHUNKED, b'ff\r\nxx'),
    'garbage': parts(b'\x00\xff\x13garbage\r\n\r\n'),
    'nothing': parts(),
    'a very long header': parts(b'HTTP/1.1 200 OK\r\nX: ' + b'x' * 10**6 + b'\r\n\r\n'),
    'many headers': parts(b'HTTP/1.1 200 OK\r\n' + b'X: y\r\n' * 1000 + b'\r\n'),
    'a bad length': parts(head('many'), b'x'),
    'a negative length': parts(head(-5), b'x'),
    'a bad status': parts(b'HTTP/1.1 abc OK\r\n\r\n'),
    'not there': parts(b'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n'),
    'an error': parts(b'HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n'),
    'round and round': parts(b'HTTP/1.1 302 Found\r\nLocation: /file\r\n\r\n'),
    'elsewhere, badly': parts(b'HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n'),
    'to a local file': parts(b'HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n'),
    'another file': parts(head(5), b'other'),
    'an empty file': parts(head(0)),
    'without end': endless,
    'a terabyte': larger,
    'drop by drop': dripping,
    'silent': silent}

@group('6', 'interrupted download')
def downloads():
    for name, reply in REPLIES.items(): yield name, partial(bad_download, reply=reply)
    yield 'nobody there', partial(fetch, url='http://127.0.0.1:9/file', check=refuses)
    yield 'as it should be', good_download

def fetch(scene, url, check, content=b'right'):
    sha256 = hashlib.sha256(content).hexdigest()
    def download():
        hurry()
        corpora.data_file('file', url, Path('cache'), sha256)
    check(scene, download, may='cache')

def hurry():
    "The clock runs 300 times as fast, and who is silent is given up after a second"
    urlopen, clock = urllib.request.urlopen, time.monotonic
    def soon(*args, timeout, **more): return urlopen(*args, timeout=timeout/30, **more)
    def fast(): return 300 * clock()
    urllib.request.urlopen = soon
    time.monotonic = time.perf_counter = time.time = fast
    corpora.monotonic = corpora.perf_counter = fast # however it is imported there

def bad_download(scene, reply):
    with server(reply) as url: fetch(scene, url, refuses)
    must(not list(scene.folder.glob('cache/*')), 'it is stored all the same')

def good_download(scene):
    with server(parts(head(5), b'right')) as url: fetch(scene, url, Scene.run)
    must((scene/'cache/file').read_bytes() == b'right', 'not stored')

SIZES = [ # fields of a model, and what a stranger wrote there
    *product(['d_ff'], [10**7, 10**12, 10**30, 0, -1, 1.5, '64', None, True, [64]]),
    *product(['d_model'], [2 * 10**5, 10**12, 10**30, 31, 0]),
    *product(['n_encoder_layers', 'n_decoder_layers'], [10**5, 10**12, 0, 2]),
    *product(['n_heads'], [10**6, 10**30, 0, 3]),
    *product(['d_k', 'd_v'], [10**7, 10**30, -1]),
    *product(['vocab_size'], [10**12, 10**30, 10**8, 401, 399, 0]),
    *product(['max_len'], [10**8, 10**12, 10**30, 0, -1, 1]),
    *product(['dropout'], [math.nan, -1, 1, 'x', None]),
    *product(['norm', 'positions'], ['x', None, 5, []]),
    *product(['tie_embeddings'], [False, None, 'yes']),
    ('stranger', 1)]

CONFIGS = {
    'empty': b'', 'null': b'null', 'a list': b'[]', 'a number': b'1', 'cut off': b'{"a',
    'deep': b'[' * 100_000, 'deeper': b'{"a":' * 10**6, 'not UTF-8': b'{"\xff": 1}',
    'UTF-16': '{}'.encode('utf-16'), 'long number': b'{"format": ' + b'9' * 5000 + b'}',
    'format 3': b'{"format": 3}', 'format text': b'{"format": "2"}',
    'format list': b'{"format": [2]}', 'format NaN': b'{"format": NaN}',
    'nothing': b'{}', 'NULs': bytes(1000), 'a pickle': b'\x80\x04cos\nsystem\n(S"id"\ntR.'}

def edit(name, change):
    "A preparation: part of a model's JSON file is changed, with right checksums"
    def prepare(scene):
        path = scene/'m'/name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
        seal(scene/'m')
    return prepare

def setting(*keys, value): # a change of one entry
    def change(content):
        *way, last = keys
        for key in way: content = content[key]
        content[last] = value
    return change

def removal(*keys):
    def change(content):
        *way, last = keys
        for key in way: content = content[key]
        del content[last]
    return change

def overwrite(name, data):
    def prepare(scene): (scene/name).write_bytes(data)
    return prepare

def shown(value): return repr(value)[:40]

TRANSLATE = 'tnb_translate m'

@group('7', 'a model from a stranger')
def strangers():
    for name, value in SIZES:
        change = edit('config.json', setting('model', name, value=value))
        yield f'{name} {shown(value)}', after(change, copes, TRANSLATE)
    for name, data in CONFIGS.items():
        change = overwrite('m/config.json', data)
        yield f'config.json: {name}', after(change, refuses, TRANSLATE)
    for keys in (['model'], ['sha256'], ['format'], ['model', 'vocab_size'],
                 ['sha256', 'tokenizer.json'], ['sha256', 'model.safetensors']):
        change = removal(*keys)
        yield f'without {keys}', after(unsealed(change), refuses, TRANSLATE)
        for value in (None, 5, [], 'x', {}):
            change = unsealed(setting(*keys, value=value))
            yield f'{keys} is {value}', after(change, refuses, TRANSLATE)
    yield from stranger_tokenizers()
    yield from stranger_weights()
    yield from stranger_files()

def unsealed(change):
    def prepare(scene):
        path = scene/'m/config.json'
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
    return prepare

PADDING = dict(direction='Right', pad_to_multiple_of=None, pad_id=0, pad_type_id=0,
               pad_token='<pad>')
def padding(n): return dict(PADDING, strategy=dict(Fixed=n))
TRUNCATION = dict(direction='Right', max_length=2, strategy='LongestFirst', stride=0)
SPLIT = dict(type='Split', behavior='Isolated', invert=False)
def split_at(regex): return dict(SPLIT, pattern=dict(Regex=regex))
def replaced(regex, by): return dict(type='Replace', pattern=dict(Regex=regex), content=by)
def special(i): # one more token
    return dict(id=i, content='<x>', single_word=False, lstrip=False, rstrip=False,
                normalized=False, special=True)

TOKENIZERS = {
    'fixed padding': (['padding'], padding(3 * 10**8)),
    'padding': (['padding'], padding(20)),
    'padding of 0': (['padding'], padding(0)),
    'truncation': (['truncation'], TRUNCATION),
    'truncation to 0': (['truncation'], TRUNCATION | dict(max_length=0)),
    'a slow regex': (['pre_tokenizer'], split_at('(a+)+b')),
    'a slower regex': (['pre_tokenizer'], split_at('(x+x+)+y')),
    'a bad regex': (['pre_tokenizer'], split_at('(')),
    'normalizer of spaces': (['normalizer'], replaced('.', ' ')),
    'normalizer that grows': (['normalizer'], replaced('.', 'x' * 10**6)),
    'normalizer regex': (['normalizer'], replaced('(a|a)*b', '')),
    'no pre-tokenizer': (['pre_tokenizer'], None),
    'whitespace': (['pre_tokenizer'], dict(type='Whitespace')),
    'no decoder': (['decoder'], None),
    'subword prefix': (['model', 'continuing_subword_prefix'], '##'),
    'a long subword prefix': (['model', 'continuing_subword_prefix'], 'x' * 500),
    'word suffix': (['model', 'end_of_word_suffix'], '</w>'),
    'dropout of merges': (['model', 'dropout'], 0.5),
    'dropout 2': (['model', 'dropout'], 2.),
    'unknown token': (['model', 'unk_token'], '<none>'),
    'byte fallback': (['model', 'byte_fallback'], True),
    'no merges': (['model', 'merges'], []),
    'a strange merge': (['model', 'merges'], [['strange', 'merge']]),
    'a merge of three': (['model', 'merges'], ['a b c']),
    'an empty vocabulary': (['model', 'vocab'], {}),
    'an id too large': (['model', 'vocab', 'a'], 400),
    'an id far too large': (['model', 'vocab', 'a'], 10**9),
    'an id beyond 32 bits': (['model', 'vocab', 'a'], 2**32),
    'a negative id': (['model', 'vocab', 'a'], -1),
    'an id twice': (['model', 'vocab', 'a'], 10),
    'an id as text': (['model', 'vocab', 'a'], '10'),
    'one more token': (['added_tokens'], [special(400)]),
    'a far token': (['added_tokens'], [special(10**9)]),
    'another first token': (['added_tokens', 0, 'content'], '<x>'),
    'the second twice': (['added_tokens', 1, 'id'], 2),
    'no added tokens': (['added_tokens'], []),
    'words': (['model'], dict(type='WordLevel', vocab={'<unk>': 0}, unk_token='<unk>')),
    'a stranger model': (['model', 'type'], 'Stranger'),
    'another version': (['version'], '9.0'),
    'post-processor': (['post_processor'], dict(type='ByteLevel', trim_offsets=True,
                                                add_prefix_space=True, use_regex=True))}

def stranger_tokenizers():
    text = ('a' * 60 + ' xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx Ein Hund.\n').encode()
    for name, (keys, value) in TOKENIZERS.items():
        change = edit('tokenizer.json', setting(*keys, value=value))
        yield f'tokenizer: {name}', after(change, copes, TRANSLATE, stdin=text)
        train = after(change, copes, f'{TRAIN} --init m --tokenizer m/tokenizer.json',
                      may='new')
        if name in TRIED_IN_TRAINING: yield f'tokenizer: {name}, --init', train
    for name, data in CONFIGS.items():
        yield f'tokenizer.json: {name}', partial(stranger_bytes, name='tokenizer.json',
                                                 data=data)

TRIED_IN_TRAINING = ('fixed padding', 'a slow regex', 'subword prefix', 'an id too large')

def stranger_bytes(scene, name, data): # whose checksum is right
    (scene/'m'/name).write_bytes(data)
    seal(scene/'m')
    refuses(scene, TRANSLATE)
    (scene/'m'/name).unlink()
    refuses(scene, TRANSLATE)

def packed(header, body=b''): # a safetensors file
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, 'little') + text + body

def entry(shape, offsets, dtype='F32'):
    return dict(dtype=dtype, shape=shape, data_offsets=offsets)

WEIGHTS = {
    'empty': b'', 'short': b'abc', 'a header without end': b'\xff' * 8,
    'a header of 10^12': (10**12).to_bytes(8, 'little'), 'only zeros': bytes(10_000),
    'no JSON': packed(b'{"a'), 'a list': packed([]), 'nothing': packed({}),
    'deep': packed(b'[' * 100_000), 'a pickle': b'\x80\x04cos\nsystem\n(S"id"\ntR.',
    'a zip': b'PK\x03\x04' + bytes(100),
    'negative offsets': packed(dict(a=entry([1], [-4, 0]))),
    'offsets beyond': packed(dict(a=entry([10**9], [0, 4 * 10**9])), bytes(4)),
    'reversed offsets': packed(dict(a=entry([1], [4, 0])), bytes(4)),
    'an overflow': packed(dict(a=entry([2**40, 2**40], [0, 4])), bytes(4)),
    'many sizes': packed(dict(a=entry([1] * 10_000, [0, 4])), bytes(4)),
    'a strange type': packed(dict(a=entry([1], [0, 4], 'X32')), bytes(4)),
    'another tensor': packed(dict(a=entry([1], [0, 4])), bytes(4)),
    'text as offsets': packed(dict(a=entry([1], ['a', 'b'])), bytes(4)),
    'metadata only': packed(dict(__metadata__=dict(a='b')))}

def lose_one(weights): weights.popitem()
def add_one(weights): weights['stranger'] = np.zeros(3, np.float32)
def empty_one(weights): weights[min(weights)] = np.zeros(0, np.float32)
def enlarge(weights): change_type(weights, lambda x: np.tile(x, 3))
def turn(weights): change_type(weights, lambda x: x.T.copy())
def halve(weights): change_type(weights, lambda x: x.astype(np.float16))
def round_off(weights): change_type(weights, lambda x: x.astype(np.int64))
def double(weights): change_type(weights, lambda x: x.astype(np.float64))
def change_type(weights, change):
    for name, x in weights.items(): weights[name] = change(x)

def stranger_weights():
    for name, data in WEIGHTS.items():
        strange = partial(stranger_bytes, name='model.safetensors', data=data)
        yield f'weights: {name}', strange
    for change in (lose_one, add_one, empty_one, enlarge, turn, halve, round_off, double):
        yield f'weights: {change.__name__}', partial(changed_weights, change=change)

def changed_weights(scene, change):
    path = scene/'m/model.safetensors'
    weights = load_file(path)
    change(weights)
    save_file(weights, path)
    seal(scene/'m')
    copes(scene, TRANSLATE)

def make_pipe(path): os.mkfifo(path)
def make_folder(path): path.mkdir()
def link_to(target): return lambda path: path.symlink_to(target)
def make_socket(path):
    with socket.socket(socket.AF_UNIX) as s: s.bind(os.path.relpath(path))
ODD = {'a pipe': make_pipe, 'a folder': make_folder, '/dev/zero': link_to('/dev/zero'),
       'a link to nothing': link_to('nothing'), 'a link to itself': link_to('config.json'),
       'a socket': make_socket, 'a terminal': link_to('/dev/tty')}

def stranger_files():
    names = ('config.json', 'tokenizer.json', 'model.safetensors')
    for file, odd in product(names, ODD):
        yield f'{file} is {odd}', partial(odd_file, file=f'm/{file}', make=ODD[odd])
    for odd in ('a pipe', '/dev/zero'):
        place = partial(odd_file, file='m/config.json', make=ODD[odd],
                        line='tnb_export m new')
        yield f'tnb_export: config.json is {odd}', place
    for name in ('nothing', 'train.de', '/dev/null', '/', 'm/config.json', 'checkpoints'):
        yield f'the model is {name}', line(f'tnb_translate {name}', refuses)

def odd_file(scene, file, make, line=TRANSLATE):
    (scene/file).unlink()
    make(scene/file)
    refuses(scene, line)

@group('8', "tnb_demo's time limit")
def demo_limits():
    for minutes in ('0', '-1', 'nan', 'inf', '-inf', 'x'):
        text = f'tnb_demo --out new --max_minutes={minutes}'
        yield text, line(text, refuses, seconds=10)

WHOLE = ('d_model d_ff n_heads d_k d_v n_encoder_layers n_decoder_layers max_len '
         'vocab_size batch_tokens max_steps patience warmup_steps valid_every save_every '
         'average seed grad_accum_steps workers').split()
REAL = ('dropout max_ratio max_minutes lr label_smoothing max_grad_norm '
        'valid_every_minutes save_every_minutes').split()
HUGE = '1' + 23 * '0'
WEIRD_WHOLE = ('0', '-1', 'nan', '1.5', HUGE, '')
WEIRD_REAL = ('0', '-1', 'nan', 'inf', '1e308', 'word')
DEVICES = ('meta', 'hpu', 'cuda', 'cuda:99', 'cpu:-1', 'xpu', 'vulkan', '../x', 'cpu;rm',
           '1', 'CPU')
TEXTS = ('norm x', 'positions x', 'precision fp8', 'precision bf16', 'corpus x', 'preset x',
         'src_lang xx --corpus multi30k', 'src nothing', 'src .', 'src /dev/null',
         'config .', 'config nothing', 'config train.de', 'config /dev/null', 'unknown 1',
         'max_steps', 'corpus mini', 'data_dir nothing --corpus tatoeba', 'normalize x',
         'weights x', 'init nothing', 'init .', 'tokenizer nothing', 'tokenizer train.de',
         'preset tiny x')

@group('9', 'absurd numbers and names')
def absurd():
    for option, value in [*product(WHOLE, WEIRD_WHOLE), *product(REAL, WEIRD_REAL)]:
        if (option, value) == ('grad_accum_steps', HUGE): continue # asked for, and given
        yield absurd_training(option, value)
    for value in ('999999999', '10000000', '100000'):
        yield absurd_training('vocab_size', value)
    for minutes in ('1e308', '1e300', 'inf', '1e-300', '0.001'):
        text = f'{TRAIN} --max_minutes {minutes}'
        yield f'{text}, with a bar', line(text, may='new', IN_TEST='')
    search, evaluation = 'tnb_translate m', f'tnb_evaluate m {SHORT}'
    sizes = [('beam_size', '6000'), ('beam_size', '100000')]
    whole = product(('beam_size', 'n_best', 'search_tokens', 'min_len'), WEIRD_WHOLE)
    real = product(['alpha'], WEIRD_REAL)
    for option, value in [*sizes, *whole, *real]:
        yield absurd_search(search, option, value)
        if option in ('beam_size', 'alpha'): yield absurd_search(evaluation, option, value)
    sampling = [*product(('top_k', 'seed'), WEIRD_WHOLE),
                *product(('temperature', 'top_p'), WEIRD_REAL)]
    for option, value in sampling: yield absurd_search(f'{search} --sample', option, value)
    for value in WEIRD_WHOLE:
        yield absurd_search(f'tnb_evaluate f {SHORT}', 'average', value)
    commands = ('tnb_translate m', f'tnb_evaluate m {SHORT}', TRAIN)
    for device, text in product(DEVICES, commands):
        may = 'new' if text == TRAIN else ''
        yield f'{text} --device {device}', line(f'{text} --device {device}', may=may)
    for text in TEXTS: yield f'--{text}', line(f'{TRAIN} --{text}', may='new')
    yield from absurd_commands()

def absurd_training(option, value):
    minutes = '' if option == 'max_minutes' else ' --max_minutes 0.02'
    text = f"{TRAIN}{minutes} --{option}='{value}'"
    return f'{option} {value!r}', line(text, may='new')

def absurd_search(start, option, value):
    text = f"{start} --{option}='{value}'"
    return text, line(text)

def absurd_commands():
    for option, value in product(('steps', 'seed'), WEIRD_WHOLE):
        if (option, value) == ('steps', HUGE): continue # asked for, and given
        steps = '--steps 2 ' if option == 'seed' else ''
        text = f"tnb_copy_task {steps}--{option}='{value}'"
        yield text, line(text)
    numbers = ('seeds', 'processes', 'n_steps')
    for option, value in product(numbers, ('0', '-1', 'x', '1.5')):
        text = f'tnb_variations --corpus mini --rows base --out new --{option}={value}'
        yield text, line(text, refuses)
    for text in ('tnb_train', 'tnb_translate', 'tnb_evaluate m', 'tnb_export m',
                 'tnb_variations --rows x', 'tnb_translate m nothing', 'tnb_translate m m',
                 'tnb_evaluate m --src short.de --ref train.en',
                 'tnb_translate m --beam 2 3', 'tnb_translate m --n_best 9',
                 'tnb_evaluate m --src nothing --ref nothing',
                 f'tnb_evaluate m {SHORT} --average 2',
                 f'tnb_evaluate f {SHORT} --average 99',
                 f'tnb_evaluate m {SHORT} --lang ../x', 'tnb_variations --corpus tatoeba2'):
        yield text, line(text, refuses)
    for text in RUN_FILES: yield f'run file: {text[:30]!r}', partial(run_file, text=text)

RUN_FILES = (
    '[', '- 1', '5', 'model: 5', 'model: [1]', 'preset: x', 'preset: [tiny]', 'x: {}',
    'model: {x: 1}', 'model: {d_model: 2017-06-12}', 'model: {d_model: [1]}', 'a: *b',
    'training: {lr: .nan}', 'training: {lr: .inf}', 'training: {seed: 1e3}', '\t', '\x00',
    'training: {max_steps: yes}', '!!python/object/apply:os.system ["touch new"]',
    'data: {src: 5}', 'data: {src: [train.de]}', 'training: {lr: 1_0}', '{' * 5000,
    'training: {seed: ' + '9' * 5000 + '}', 'data: &a {src: *a}', '? {a: 1}\n: 2')

def run_file(scene, text):
    (scene/'bad.yaml').write_text(text)
    refuses(scene, 'tnb_train --config bad.yaml --out new')

METRICS = {
    'cut off': b'{"pairs": 1}\n{"step": 2, "tr', 'empty': b'',
    'binary': b'\xff\x00\xfe' * 99, 'a list': b'[]\n', 'a number': b'5\n',
    'null': b'null\n', 'text as step': b'{"step": "a"}\n',
    'NaN': b'{"step": NaN}\n', 'step null': b'{"step": null}\n', 'empty lines': b'\n\n\n',
    'no losses': b'{"pairs": 1}\n{"step": 2}\n', 'deep': b'[' * 100_000}

@group('10', 'a damaged training is resumed')
def damaged_trainings():
    for (what, data), name in product(METRICS.items(), ('t', 'f')):
        damage = overwrite(f'{name}/metrics.jsonl', data)
        yield f'{name}/metrics.jsonl: {what}', after(damage, resumes, name)
        if name == 'f': yield f'{what}, nothing to do', after(damage, resumes_nothing)
    for file in ('f/metrics.jsonl', 'f/tokenizer.json', 'f/run.yaml', 'f/checkpoints',
                 't/tokenizer.json', 't/run.yaml', 't/checkpoints'):
        gone = partial(remove, name=file)
        yield f'no {file}', after(gone, resumes, file[0])
    for name in ('t', 'f'):
        for change in INFO_CHANGES:
            changed = partial(changed_state, name=name, change=change)
            yield f'{name}: {change.__name__}', changed
        for place in MISPLACED:
            shown = ' as '.join(place)
            yield f'{name}: {shown}', partial(misplaced, name=name, place=place)
    for file in ('tokenizer.json', 'run.yaml', 'config.json', 'model.safetensors'):
        for data in (b'', b'{}', b'\xff\x00'):
            damage = overwrite(f'f/{file}', data)
            yield f'{file} is {data}', after(damage, resumes, 'f')
    yield 'nothing to do, no metrics', after(partial(remove, name='f/metrics.jsonl'),
                                             resumes_nothing)
    for options, check in FOREIGN_WEIGHTS.items():
        foreign = partial(foreign_weights, options=options, check=check)
        yield f'weights of {options}', foreign
    for kind in ('weights', 'state', 'best'):
        for odd in ('a pipe', 'a folder', '/dev/zero', 'a link to nothing'):
            yield f'{kind} is {odd}', partial(odd_checkpoint, kind=kind, make=ODD[odd])

def resumes_nothing(scene):
    copes(scene, resume(scene, 'f', 0), may='f')

def remove(scene, name):
    path = scene/name
    if path.is_dir(): shutil.rmtree(path)
    else: path.unlink()

# states of other programs, or of other versions of this one
def no_progress(tensors, info): del info['progress']
def strange_progress(tensors, info): info['progress']['stranger'] = 1
def no_random(tensors, info): drop(tensors, 'random')
def no_optimizer(tensors, info): drop(tensors, 'optimizer')
def no_model(tensors, info): drop(tensors, 'model')
def drop(tensors, start):
    for name in list(tensors):
        if name.startswith(start): del tensors[name]
INFO_CHANGES = (no_progress, strange_progress, no_random, no_optimizer, no_model)

def changed_state(scene, name, change):
    for path in checkpoint_paths(scene, name, 'state'): change_checkpoint(path, change)
    resumes(scene, name)

MISPLACED = [('state', 'weights'), ('weights', 'state'), ('state', 'best'),
             ('weights', 'best'), ('best', 'state'), ('weights', 'weights-abc'),
             ('state', 'state-abc'), ('state', 'state-99999999'),
             ('weights', 'weights-00000001'), ('best', 'other')]

def misplaced(scene, name, place):
    "A checkpoint in the place of another, or under a name of nobody's"
    source, target = place
    sources = checkpoint_paths(scene, name, source)
    if not sources: return
    folder = scene/name/'checkpoints'
    exact = checkpoint_paths(scene, name, target)
    path = exact[-1] if exact else folder/f'{target}.safetensors'
    shutil.copy(sources[-1], path)
    resumes(scene, name)

FOREIGN_WEIGHTS = {'--seed 0': works, '--seed 1': refuses, '--vocab_size 300': refuses,
                   '--vocab_size 401': refuses, '--d_ff 32': refuses, '--norm pre': refuses}

def foreign_weights(scene, options, check):
    "Those of another training, among the checkpoints whose mean is asked for"
    other = TRAIN.replace('new', 'other')
    works(scene, f'{other} {options} --max_steps 8', may='other')
    target = checkpoint_paths(scene, 'f', 'weights')[-1]
    shutil.copy(checkpoint_paths(scene, 'other', 'weights')[-1], target)
    check(scene, f'tnb_evaluate f {SHORT} --average 2')
    resumes(scene, 'f')

def odd_checkpoint(scene, kind, make):
    path = checkpoint_paths(scene, 'f', kind)[-1]
    path.unlink()
    make(path)
    resumes(scene, 'f')

@group('11', 'advice that helps')
def advice():
    empty = partial(remove, name='f/checkpoints')
    yield 'no checkpoints are left', after(empty, no_such_advice, TRAIN, 'f')
    yield 'a model only', partial(no_such_advice, line=TRAIN, name='m')
    for text in ('tnb_export m new', 'tnb_demo --out new'):
        yield text, partial(no_such_advice, line=text, name='f', more='')
    yield 'where it is right', line(TRAIN.replace('new', 't'), refuses, has='--resume')

def no_such_advice(scene, line, name, more=' --resume'):
    "`--resume` is advised only where it exists and has not just been given"
    ran = refuses(scene, line.replace('new', name) + more)
    must('or --resume' not in ran.error, f'bad advice: {ran.error}')

@group('12', 'divergence')
def divergence():
    for lr, every in product(('1e30', '1e10', '1e20'), (1, 2)):
        options = f'--lr {lr} --warmup_steps 1 --save_every {every} --max_steps 50'
        yield options, partial(diverges, options=options)

def diverges(scene, options):
    "What is said to be kept must be worth keeping, and a resume must not crash"
    ran = refuses(scene, f'{TRAIN} {options}', may='new')
    paths = checkpoint_paths(scene, 'new', 'weights')
    largest = max((largest_weight(path) for path in paths), default=0)
    told = not paths or 'kept' not in ran.error or largest < 1e6
    must(told, f'kept, with weights of {largest:.0e}: {ran.error}')
    copes(scene, f'{TRAIN} --resume {options}', may='new')

def largest_weight(path): return max(np.abs(x).max() for x in load_file(path).values())

RESULTS = {
    'binary': b'\xff\xfe\x00', 'a list as row': b'{"row": [1]}\n',
    'a dict': b'{"row": {}}\n', 'a list': b'[]\n',
    'a number': b'5\n', 'null': b'null\n', 'cut off': b'{"row": "ba',
    'a pair': b'[["row", 1]]\n', 'deep': b'[' * 100_000,
    'a list as seed': b'{"seed": []}\n',
    'strange': b'{"row": "base", "seed": 0, "settings": "x"}\n', 'empty line': b'\n',
    'a list as settings': b'{"row": "base", "settings": [1]}\n'}

def archive(content=None, name='deu.txt'):
    "By default a good one"
    def prepare(scene):
        texts = [(scene/f'train.{side}').read_text() for side in ('en', 'de')]
        sides = [text.splitlines() for text in texts]
        good = ''.join(f'{english}\t{german}\n' for english, german in zip(*sides))
        text = good if content is None else content
        with zipfile.ZipFile(scene/'deu-eng.zip', 'w', zipfile.ZIP_DEFLATED) as file:
            file.writestr(name, text)
    return prepare

def altered_archive(change): # of its bytes
    def prepare(scene):
        archive()(scene)
        path = scene/'deu-eng.zip'
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)
    return prepare

def field(local, central, new):
    "The same field in the file's own header and in the archive's directory"
    def change(data):
        start = data.index(b'PK\x01\x02')
        for place in (local, start + central): data[place:place + len(new)] = new
    return altered_archive(change)

def corrupt(data): data[45:60] = b'\xff' * 15
def cut_off(data): del data[-300:]
def cut_within(data): del data[100:2000]
def bit_within(data): data[len(data) // 2] ^= 4

def bomb(scene):
    packing = dict(compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    with zipfile.ZipFile(scene/'deu-eng.zip', 'w', **packing) as file:
        with file.open('deu.txt', 'w', force_zip64=True) as text:
            for _ in range(3000): text.write(bytes(10**6))

ARCHIVES = {
    'corrupt deflate': altered_archive(corrupt), 'cut off': altered_archive(cut_off),
    'cut within': altered_archive(cut_within), 'a bit': altered_archive(bit_within),
    'method 98': field(8, 10, b'\x62\x00'), 'encrypted': field(6, 8, b'\x01\x00'),
    'a false checksum': field(14, 16, b'1234'), 'a false size': field(22, 24, b'5\0\0\0'),
    'empty': archive(b''),
    'only a line end': archive(b'\n'), 'no tab': archive(b'Hi.\n'),
    'not UTF-8': archive(b'\xff\tx\n'), 'another file': archive(b'x', 'x.txt'),
    'a folder': archive(b'', 'deu.txt/'), 'a path': archive(b'x', '../../deu.txt'),
    'not a zip': overwrite('deu-eng.zip', b'x' * 99),
    'no bytes': overwrite('deu-eng.zip', b''),
    'only an end': overwrite('deu-eng.zip', b'PK\x05\x06' + bytes(18)),
    'three gigabytes': bomb}

def squeezed(change=bytes):
    def prepare(scene):
        data = gzip.compress((scene/'train.de').read_bytes())
        (scene/'train.gz').write_bytes(change(data))
    return prepare

def flip(data, place):
    data = bytearray(data)
    data[place % len(data)] ^= 0x10
    return bytes(data)

SQUEEZED = {
    'cut off': lambda data: data[:-20], 'a byte short': lambda data: data[:-1],
    'only a head': lambda data: data[:10], 'empty': lambda data: b'',
    'a false checksum': lambda data: flip(data, -6),
    'a false size': lambda data: flip(data, -2),
    'more after it': lambda data: data + b'garbage',
    'not gzip': lambda data: b'Ein Hund.\n',
    'a false method': lambda data: flip(data, 2),
    'false flags': lambda data: flip(data, 3)}

@group('13', 'damaged results and archives')
def archives():
    variations = 'tnb_variations --corpus mini --rows base --seeds 1 --n_steps 1 --out bad'
    for name, data in RESULTS.items():
        yield f'results: {name}', after(overwrite('bad', data), refuses, variations)
    yield 'deu-eng.zip as it should be', after(archive(), archive_case, works)
    for name, damage in ARCHIVES.items():
        yield f'deu-eng.zip: {name}', after(damage, archive_case, refuses)
    train = f'{TRAIN} --src train.gz'
    for name, change in SQUEEZED.items():
        yield f'train.gz: {name}', after(squeezed(change), refuses, train)
        yield f'to translate: {name}', after(squeezed(change), gz_case)
    for place in range(0, 3000, 300):
        damage = squeezed(partial(flip, place=place))
        yield f'train.gz: byte {place} changed', after(damage, copes, train, may='new')
    for name in ('train.de.gz', 'val.en.gz'):
        yield f'multi30k: a false {name}', partial(false_multi30k, name=name)

def archive_case(scene, check):
    data = dict(corpus='tatoeba', data_dir='.', vocab_size=400, batch_tokens=512)
    (scene/'tiny.yaml').write_text(yaml.safe_dump(dict(TINY, data=data)))
    check(scene, TRAIN, may='new')

def gz_case(scene):
    "What could be read may have been translated"
    ran = scene.run('tnb_translate m train.gz')
    empty = (scene/'train.gz').stat().st_size == 0
    must(ran.status == 2 or empty, 'accepted')

def false_multi30k(scene, name):
    (scene/'multi30k').mkdir()
    (scene/'multi30k'/name).write_bytes(gzip.compress(b'Hi.\n'))
    for other in ('train.en.gz', 'train.de.gz'):
        (scene/'multi30k'/other).write_bytes(gzip.compress(b'Hi.\n'))
    refuses(scene, 'tnb_train --out new --corpus multi30k --data_dir .')

COMMANDS = ('tnb_translate m', 'tnb_translate m short.de', f'tnb_evaluate m {SHORT}',
            TRAIN, 'tnb_translate nothing', 'tnb_export m new', 'tnb_copy_task --steps 1')

@group('14', 'closed streams and early signals')
def streams():
    for text, name in product(COMMANDS, ('stdin', 'stdout', 'stderr')):
        yield f'{text}, {name} closed', partial(closed, line=text, name=name)
    for text in COMMANDS:
        yield f'{text} to a full device', partial(full_device, line=text)
        yield f'{text} to a pipe that nobody reads', partial(unread, line=text)
    for seconds in (0.15, 0.3, 0.5, 0.7, 0.9, 1.2):
        yield f'Ctrl-C after {seconds} s', partial(early_signal, seconds=seconds)

def closed(scene, line, name):
    child = scene.start(line, **{name: None})
    ran = child.wait()
    if name == 'stderr' and ran.status == 2: return # it had nowhere to say so
    check_end(ran)

def full_device(scene, line):
    ran = scene.run(line, may='new', stdout=Path('/dev/full'))
    silent = line == TRAIN or 'export' in line or 'nothing' in line
    must(ran.status == 2 or silent, 'as if it had been written')

def unread(scene, line):
    reading, writing = os.pipe()
    os.close(reading)
    child = scene.start(line, stdout=writing)
    os.close(writing)
    ran = child.wait()
    check_end(ran)

def early_signal(scene, seconds):
    "While it still imports; before that, it is Python's own business"
    pipes = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.PIPE)
    process = subprocess.Popen([BIN/'tnb_translate', 'm'], cwd=scene.folder, **pipes)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    try: _, error = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired: raise Bad('it takes no notice') from None
    finally: process.kill()
    ran = Ran('tnb_translate m', process.returncode, b'', error.decode())
    if ran.status == -signal.SIGINT: ran.status = 0 # as programs in C end
    ours = re.search(r'transformer_nb/\w+\.py|from transformer_nb', ran.error)
    lines = len(error.splitlines())
    must(not ours, f'a traceback of {lines} lines')
    if 'Traceback' not in ran.error: check_end(ran)

@group('15', 'lines without end')
def endless_lines():
    yield 'a .gz of 200 MB of NULs', nuls_squeezed
    yield '1 GB of NULs', partial(sparse, size=10**9)
    yield '20 GB of NULs', partial(sparse, size=20 * 10**9)
    for text in ('tnb_translate m /dev/zero',
                 'tnb_evaluate m --src /dev/zero --ref short.en',
                 f'{TRAIN} --src /dev/zero', f'{TRAIN} --config /dev/zero',
                 'tnb_evaluate m --src short.de --ref /dev/zero',
                 f'{TRAIN} --tokenizer /dev/zero'):
        yield text, line(text, refuses)
    yield 'stdin is /dev/zero', zero_stdin
    for size in (10**4, 10**5, 9 * 10**5):
        for letter in ('a', 'ab ', 'ü'):
            text = (letter * (size // len(letter)) + '\nEin Hund.\n').encode()
            yield f'a line of {size} {letter!r}', line('tnb_translate m', stdin=text)
    yield 'a pipe as a file', pipe_as_file

def nuls_squeezed(scene):
    with gzip.open(scene/'text.gz', 'wb', 1) as file:
        for _ in range(200): file.write(bytes(10**6))
    refuses(scene, 'tnb_translate m text.gz')

def sparse(scene, size):
    with open(scene/'text', 'wb') as file: file.truncate(size)
    try: ran = scene.start('tnb_translate m text').wait()
    finally: (scene/'text').unlink()
    check_end(ran)
    must(ran.status == 2, 'accepted')

def zero_stdin(scene):
    ran = scene.run('tnb_translate m', stdin=Path('/dev/zero'))
    must(ran.status == 2, 'accepted')

def pipe_as_file(scene):
    "Such as the shell makes of <(zcat file)"
    reading, writing = os.pipe()
    os.write(writing, TEXT)
    os.close(writing)
    child = scene.start('tnb_translate m /dev/stdin', stdin=reading)
    os.close(reading)
    ran = child.wait()
    check_end(ran)
    check_result(scene, ran, TEXT)

@group('16', 'a full disk')
def full_disk():
    for size in (1000, 5000, 50_000, 100_000, 130_000):
        yield f'tnb_export, {size} bytes', partial(full_export, size=size)
    for size in (1000, 10_000, 20_000, 100_000, 139_000, 300_000):
        yield f'tnb_train, {size} bytes', partial(full_training, size=size)
        yield f'--resume, {size} bytes', partial(full_resume, size=size)
    yield 'tnb_copy_task', line('tnb_copy_task --steps 1 --out new', file_size=2000,
                                may='new', check=refuses)
    yield 'translations', line('tnb_translate m train.de', refuses, file_size=5000)

def full_export(scene, size):
    refuses(scene, 'tnb_export m new', file_size=size, has='new', may='new')
    works(scene, 'tnb_export m new', may='new')
    left = [path for path in (scene/'new').rglob('*') if path.stat().st_size == 0]
    must(not left, f'empty files are left: {left}')

def full_training(scene, size):
    "Then there is room again, and the result is the same to the bit"
    refuses(scene, TRAIN, file_size=size, has='new', may='new')
    works(scene, f'{TRAIN} --resume', may='new')
    works(scene, TRAIN.replace('new', 'peace'), may='peace')
    must(bits(scene/'new') == bits(scene/'peace'), 'other bits')

def full_resume(scene, size):
    shutil.copytree(scene/'t', scene/'peace')
    goes_on = resume(scene, 't', 8)
    refuses(scene, goes_on, file_size=size, has='t/', may='t')
    works(scene, goes_on, may='t')
    works(scene, resume(scene, 'peace', 8), may='peace')
    must(bits(scene/'t') == bits(scene/'peace'), 'other bits')

ESCAPE = '\x1b[31mred\x07'
NAMES = (b'\xff', b'a\xffb', 'ü'.encode(), b'with space', b'-x', b'a\nb', b'x' * 300, b'',
         b"quote'", b'\x1b[31m', '\u202e'.encode(), b'a/../new', b'new/')

@group('17', 'strings, escapes and names')
def strings():
    for text in ('Ein Hund.', 'x', ''):
        yield f'translate({text!r})', partial(bare_string, text=text)
    for name in ('norm', 'positions', 'd_model', ESCAPE):
        change = edit('config.json', setting('model', name, value=ESCAPE))
        yield f'escapes in {name!r}', after(change, escapes)
    for keys in (['format'], ['sha256', 'tokenizer.json']):
        change = unsealed(setting(*keys, value=ESCAPE))
        yield f'escapes in {keys[0]}', after(change, escapes)
    for file in ('tokenizer.json', 'config.json', 'model.safetensors'):
        data = f'{{"{ESCAPE}": "{ESCAPE}"}}'.encode()
        yield f'escapes in {file}', partial(escape_file, name=file, data=data)
    for name in NAMES:
        yield f'--out {name!r}', partial(strange_name, name=name)
        yield f'translate {name!r}', partial(strange_source, name=name)
    for env in (dict(LC_ALL='C'), dict(LC_ALL='C', PYTHONUTF8='0', PYTHONCOERCECLOCALE='0'),
                dict(PYTHONIOENCODING='ascii')):
        yield f'{env}', partial(other_locale, env=env)

def bare_string(scene, text):
    "A line that says so, instead of a translation of every letter"
    def translate(): print(Translator('m').translate(text))
    refuses(scene, translate)

def escapes(scene): refuses(scene, TRANSLATE)

def escape_file(scene, name, data):
    (scene/'m'/name).write_bytes(data)
    if name != 'config.json': seal(scene/'m')
    refuses(scene, TRANSLATE)

def strange_name(scene, name):
    "Either it is refused before anything is trained, or it works"
    args = [*shlex.split(TRAIN)[:-1], os.fsdecode(name)]
    before = snapshot(scene.folder)
    ran = scene.start(args).wait()
    check_end(ran)
    if ran.status: scene.check_files(before)

def other_locale(scene, env):
    "In a new process, since a locale belongs to the start of one"
    run = subprocess.run([BIN/'tnb_translate', 'm'], input=TEXT, capture_output=True,
                         cwd=scene.folder, env=os.environ | env)
    ran = Ran('tnb_translate m', run.returncode, run.stdout, run.stderr.decode())
    check_end(ran)
    check_result(scene, ran, TEXT)

def strange_source(scene, name):
    path = os.path.join(os.fsencode(scene.folder), name)
    try: Path(os.fsdecode(path)).write_bytes(TEXT)
    except OSError: pass # there can be no such file
    scene.run(['tnb_translate', 'm', '--', os.fsdecode(name)])

# What was handled well, and should stay so

@group('keep', 'especially good')
def especially_good():
    yield from bit_flips()
    yield from kills()
    yield from same_translations()
    yield from line_ends()
    yield from other_settings()
    yield from signals()
    yield from two_processes()

def bit_flips():
    rng = random.Random(0)
    for name in ('config.json', 'tokenizer.json', 'model.safetensors'):
        verdict = copes if name == 'config.json' else refuses
        for share in [rng.random() for _ in range(12)]:
            yield f'a bit of {name}', partial(damaged, name=f'm/{name}', share=share,
                                              check=verdict)
        for share in (0, 0.01, 0.3, 0.5, 0.9, 0.999):
            yield f'{share:.1%} of {name}', partial(damaged, name=f'm/{name}', share=share,
                                                   check=refuses, cut=True)
    for kind, cut in product(('state', 'weights', 'best'), (False, True)):
        for share in [rng.random() for _ in range(4)]:
            yield f'a damaged {kind}', partial(damaged_checkpoint, kind=kind, share=share,
                                               cut=cut)
    yield 'no state is whole', partial(damaged_checkpoint, kind='state', share=0.5,
                                       cut=True, check=refuses, every=True)

def damage(path, share, cut):
    data = path.read_bytes()
    place = int(share * len(data))
    path.write_bytes(data[:place] if cut else flip(data, place))

def damaged(scene, name, share, check, cut=False):
    damage(scene/name, share, cut)
    check(scene, TRANSLATE)

def damaged_checkpoint(scene, kind, share, cut, check=works, every=False):
    paths = checkpoint_paths(scene, 'f', kind)
    for path in paths if every else paths[-1:]: damage(path, share, cut)
    resumes(scene, 'f', check)

def kills():
    for seed in range(4): yield f'SIGKILLs, chain {seed}', partial(killed, seed=seed)

def killed(scene, seed, n_kills=4):
    "Killed at random times and resumed, it ends with the same bits"
    line = f'{TRAIN} --max_steps 40'
    began = time.monotonic()
    works(scene, line.replace('new', 'peace'), may='peace')
    seconds = time.monotonic() - began
    rng = random.Random(seed)
    for _ in range(n_kills):
        child = scene.start(f'{line} --resume')
        time.sleep(rng.uniform(0, seconds))
        child.kill()
    works(scene, f'{line} --resume', may='new')
    must(bits(scene/'new') == bits(scene/'peace'), 'other bits')
    must(not list((scene/'new').rglob('.*.tmp')), 'half a file is left behind')

def same_translations():
    for n in (64, 1000): yield f'batches of {n} tokens', partial(batch_sizes, n=n)
    yield 'shuffled', shuffled
    yield '500 duplicates', duplicates
    yield 'four threads', four_threads
    yield 'flat memory', flat_memory

def batch_sizes(scene, n):
    plain = scene.run('tnb_translate m train.de')
    other = scene.run(f'tnb_translate m train.de --search_tokens {n}')
    must(plain.out == other.out, 'other translations')

def shuffled(scene):
    lines = (scene/'train.de').read_bytes().splitlines(True)[:200]
    order = random.Random(0).sample(range(len(lines)), len(lines))
    plain = translated(scene, lines)
    other = translated(scene, [lines[i] for i in order])
    must([plain[i] for i in order] == other, 'other translations')

def translated(scene, lines):
    return works(scene, 'tnb_translate m', stdin=b''.join(lines)).out.splitlines()

def duplicates(scene):
    lines = translated(scene, [b'Ein Hund rennt.\n'] * 500)
    must(len(set(lines)) == 1, f'{len(set(lines))} translations of one sentence')

def four_threads(scene):
    def threads():
        from concurrent.futures import ThreadPoolExecutor
        translator = Translator('m')
        texts = Path('train.de').read_text().splitlines()[:60]
        parts = [texts[i:i + 15] for i in range(0, 60, 15)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(translator.translate, parts))
        if sum(found, []) != translator.translate(texts): raise InputError('others')
    ran = scene.run(threads)
    must(ran.status == 0, ran.error)

def flat_memory(scene):
    peaks = []
    lines = (scene/'train.de').read_bytes().splitlines(True)
    for n in (2000, 10_000):
        text = b''.join(random.Random(n).choices(lines, k=n))
        child = scene.start('tnb_translate m --beam_size 1', stdin=text)
        check_end(child.wait(60))
        peaks.append(child.peak / 2**20)
    must(peaks[1] < peaks[0] + 50, f'{peaks[0]:.0f} MB, then {peaks[1]:.0f} MB')

LINES = {
    'CRLF': b'Ein Hund.\r\nEine Katze.\r\n', 'a lone CR': b'Ein\rHund.\n',
    'NUL': b'a\x00b\nc\n', 'U+2028': 'a\u2028b\nc\n'.encode(),
    'U+0085': 'a\x85b\nc\n'.encode(), 'form feed': b'a\x0cb\x0bc\n',
    'no end': b'Ein Hund.', 'empty lines': b'\n\n\n',
    'spaces': b'  \n\t\nx\n', 'an escape': b'\x1b[31mx\n', 'emoji': '🐕‍🦺\n'.encode(),
    'combining': ('e' + '\u0301' * 500 + '\n').encode(), 'right to left': 'שלום\n'.encode(),
    'special tokens': b'<pad> <s> </s> <unk>\n', 'bars': b'a ||| b\n',
    'controls': b'\x01\x02\x03\x07\x08\n', 'the largest': '\U0010ffff\n'.encode(),
    'CR CR LF': b'a\r\r\n'}
NOT_UTF8 = (b'\xff\n', b'ok\nf\xfcr\n', b'\xed\xa0\x80\n', b'\xc0\x80\n', b'\xe2\x82',
            b'\xf5\x80\x80\x80\n')

def line_ends():
    for name, text in LINES.items(): yield name, partial(works, work=TRANSLATE, stdin=text)
    for text in NOT_UTF8: yield f'{text}', partial(refuses, work=TRANSLATE, stdin=text)
    yield 'nothing', partial(Scene.run, work=TRANSLATE, stdin=b'')
    yield 'a pipe is answered line by line', line_by_line
    for text in ('tnb_translate m --n_best 4', f'tnb_evaluate m {SHORT}',
                 'tnb_translate m train.de --beam_size 1', 'tnb_export m new',
                 f'tnb_evaluate f {SHORT} --average 2',
                 f'tnb_evaluate m {SHORT} --lang en'):
        yield text, partial(Scene.run, work=text, may='new')

def line_by_line(scene):
    "As an editor or a server would ask"
    (in_reading, in_writing), (out_reading, out_writing) = os.pipe(), os.pipe()
    child = scene.start(TRANSLATE, stdin=in_reading, stdout=out_writing)
    try:
        for n in range(1, 8):
            os.write(in_writing, b'Ein Hund rennt.\n')
            ready, _, _ = select.select([out_reading], [], [], 5)
            must(ready, f'line {n} is not answered before the next is there')
            answer = os.read(out_reading, 10_000)
            must(answer.count(b'\n') == 1, f'{answer}')
    finally:
        for number in (in_reading, in_writing, out_reading, out_writing): os.close(number)
        child.kill()

OTHER = {
    'seed': 1, 'lr': 0.001, 'batch_tokens': 300, 'd_ff': 32, 'dropout': 0.2, 'norm': 'pre',
    'label_smoothing': 0.2, 'warmup_steps': 9, 'max_ratio': 5, 'grad_accum_steps': 2,
    'src': 'train.en', 'max_grad_norm': 1, 'positions': 'learned', 'vocab_size': 300,
    'n_heads': 4, 'max_len': 32}
NAMED = dict(src='corpus', grad_accum_steps='batches_per_step', vocab_size='vocab')

def other_settings():
    for name, value in OTHER.items():
        has = NAMED.get(name, name)
        text = f'--{name} {value}'
        yield f'resume with {text}', partial(resumes, name='t', check=refuses, options=text,
                                             has=has)

def signals():
    for numbers in ((signal.SIGTERM,), (signal.SIGINT,), (signal.SIGINT, signal.SIGINT),
                    (signal.SIGTERM, signal.SIGINT, signal.SIGTERM)):
        names = ', '.join(number.name for number in numbers)
        yield names, partial(stopped, numbers=numbers)
    yield 'SIGINT while it translates', interrupted

def stopped(scene, numbers):
    line = f'{TRAIN} --max_steps 1000000'
    stop(scene.start(line), scene/'new', *numbers)
    resumes(scene, 'new', works)

def interrupted(scene):
    child = scene.start('tnb_translate m train.de')
    time.sleep(0.4)
    os.kill(child.pid, signal.SIGINT)
    ran = child.wait()
    check_end(ran)

def two_processes():
    yield 'two processes', two_ranks
    yield 'one pair for two', one_pair
    yield 'one of two is killed', one_of_two
    yield 'an error reaches both', error_for_both

def ranks(scene, line):
    "The command in two processes that torchrun would have started"
    with socket.create_server(('127.0.0.1', 0)) as free: port = free.getsockname()[1]
    common = dict(WORLD_SIZE='2', MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    return [scene.start(line, RANK=str(i), LOCAL_RANK=str(i), **common) for i in range(2)]

def two_ranks(scene, line=TRAIN):
    runs = [child.wait() for child in ranks(scene, line)]
    for ran in runs:
        check_end(ran)
        must(ran.status == 0, ran.error[-200:])
    check_weights(scene, line)

def one_pair(scene):
    for name in ('de', 'en'):
        text = (scene/f'train.{name}').read_text().splitlines()[0] + '\n'
        for part in ('train', 'valid'): (scene/f'{part}.{name}').write_text(text)
    two_ranks(scene, TRAIN)

def one_of_two(scene):
    "The other must end, too; then both go on"
    first, second = ranks(scene, f'{TRAIN} --max_steps 1000000')
    await_step(first, scene/'new', 4)
    second.kill()
    ran = first.wait()
    must(ran.status != 0, 'the other one took no notice')
    two_ranks(scene, resume(scene, 'new'))

def error_for_both(scene):
    runs = [child.wait() for child in ranks(scene, f'{TRAIN} --vocab_size 10')]
    must(all(ran.status != 0 for ran in runs), 'accepted')
    first = runs[0]
    must(first.status == 2 and 'vocab_size' in first.error, first.error[-200:])

# The run

def run_case(case, stage):
    "None where it was handled well, else how not"
    with TemporaryDirectory() as folder:
        scene = Scene(folder, stage)
        try: case(scene)
        except Bad as e: return str(e)
        except Exception as e: return f'{UNDECIDED}: {e!r}' # an error of this script
        finally: scene.close()

UNDECIDED = 'undecided'

def run_group(name, stage):
    "Prints the bad cases; returns the row of the table"
    title, cases = GROUPS[name]
    verdicts = Counter(well=0, badly=0, undecided=0)
    began = time.monotonic()
    for what, case in cases():
        start = time.monotonic()
        how = run_case(case, stage)
        verdict = 'well' if how is None else 'badly'
        if how and how.startswith(UNDECIDED): verdict = UNDECIDED
        verdicts[verdict] += 1
        seconds = time.monotonic() - start
        if how: print(f'{name}. {one_line(what)} ({seconds:.0f} s)\n      {one_line(how)}')
    seconds = round(time.monotonic() - began)
    return [name, title, verdicts.total(), *verdicts.values(), seconds]

def one_line(text): return ' '.join(text.split())[:300]

HEAD = ['group', 'what', 'cases', 'well', 'badly', 'undecided', 'seconds']
def format_row(row):
    name, title, *numbers = row
    return f'{name:>5} {title:<34}' + ''.join(f'{n:>10}' for n in numbers)

def make_stage(folder):
    empty = folder/'empty'
    empty.mkdir()
    set_stage(empty)
    scene = Scene(folder, empty)
    fill_stage(scene)
    return scene.folder

def main(names):
    signal.signal(signal.SIGINT, signal.default_int_handler) # a shell's & ignores it
    sys.stdout.reconfigure(line_buffering=True)
    for name in names:
        if name not in GROUPS: sys.exit(f'no group {name}; there are {" ".join(GROUPS)}')
    print(f'handled badly by {Path(transformer_nb.__file__).parent}:\n')
    with TemporaryDirectory() as folder:
        stage = make_stage(Path(folder))
        rows = [run_group(name, stage) for name in names or GROUPS]
    totals = [sum(numbers) for numbers in list(zip(*rows))[2:]]
    print()
    for row in [HEAD, *rows, ['', 'all', *totals]]: print(format_row(row))
    return totals[1] < totals[0]

if __name__ == '__main__': sys.exit(main(sys.argv[1:]))
