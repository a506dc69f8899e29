"Closed streams, full disks, signals, kills, and one of two processes that fails."
import os, random, re, shutil, signal, socket, subprocess, time
from functools import partial
from itertools import product
from pathlib import Path
from watched import BIN, SECONDS, Bad, Ran, check_end, check_weights, must, refuses, works
from staged import SHORT, TRAIN, await_step, bits, cases, resume, resumes, runs, stop

COMMANDS = ('tnb_translate m', 'tnb_translate m short.de', f'tnb_evaluate m {SHORT}',
            TRAIN, 'tnb_translate nothing', 'tnb_export m new', 'tnb_copy_task --steps 1')

@cases
def test_streams():
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

@cases
def test_full_disk():
    for size in (1000, 5000, 50_000, 100_000, 130_000):
        yield f'tnb_export, {size} bytes', partial(full_export, size=size)
    for size in (1000, 10_000, 20_000, 100_000, 139_000, 300_000):
        yield f'tnb_train, {size} bytes', partial(full_training, size=size)
        yield f'--resume, {size} bytes', partial(full_resume, size=size)
    yield 'tnb_copy_task', runs('tnb_copy_task --steps 1 --out new', file_size=2000,
                                may='new', check=refuses)
    yield 'translations', runs('tnb_translate m train.de', refuses, file_size=5000)

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

# Signals and kills

@cases
def test_signals():
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

@cases
def test_kills():
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

# Two processes

@cases
def test_two_processes():
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
