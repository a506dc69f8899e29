"""Files damaged on purpose, full disks and kills. Whatever happens, a command ends in time,
at most with one short line; and what is resumed ends with the same bits."""
import os, random, re, resource, shutil, signal, socket, subprocess, sys, threading, time
import pytest, yaml
from multiprocessing import get_context
from safetensors.numpy import load_file
from running import BIN, call_script
from transformer_nb import commands
from transformer_nb.lessons.grammar import mini_corpus

TINY = dict(
    model=dict(d_model=32, d_ff=64, n_heads=2, n_encoder_layers=1, n_decoder_layers=1,
               max_len=64),
    data=dict(src='train.de', tgt='train.en', valid_src='valid.de', valid_tgt='valid.en',
              vocab_size=400, batch_tokens=512),
    training=dict(max_steps=20, warmup_steps=50, valid_every=5, save_every=5, average=2,
                  weights='mean'))
TRAIN = 'tnb_train', '--config', 'tiny.yaml', '--out'
PREPARE = 'tnb_prepare', '--config', 'tiny.yaml'
NO_COMPLAINT = ('pairs to train on', 'left out', 'step', 'it ended',
                'starting from the beginning')

def start(folder, *words, file_size=resource.RLIM_INFINITY, **env):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    env = {**os.environ, 'IN_TEST': '1', 'OMP_NUM_THREADS': '1', **env}
    pipes = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.PIPE)
    return subprocess.Popen([BIN/words[0], *map(str, words[1:])], cwd=folder, env=env,
                            preexec_fn=limit, **pipes)

def ran(folder, *words, **how):
    "Did it complain? In one line, and without a traceback"
    _, error = start(folder, *words, **how).communicate(timeout=120)
    lines = [line for line in error.decode().splitlines()
             if not any(word in line for word in NO_COMPLAINT)]
    assert len(lines) <= 1 and 'Traceback' not in error.decode(), error
    assert all(len(line) < 400 and line.isprintable() for line in lines), error
    assert not list(folder.rglob('.*.tmp')), words
    return bool(lines)

@pytest.fixture(scope='session')
def stage(tmp_path_factory):
    "Texts, and a finished training `f`"
    folder = tmp_path_factory.mktemp('stage')
    pairs = mini_corpus()['train'][:300]
    for name, part in dict(train=pairs[:250], valid=pairs[250:]).items():
        for i, language in enumerate(('de', 'en')):
            text = ''.join(pair[i] + '\n' for pair in part)
            (folder/f'{name}.{language}').write_text(text, encoding='utf8')
    (folder/'tiny.yaml').write_text(yaml.safe_dump(TINY))
    assert not ran(folder, *TRAIN, 'f')
    return folder

@pytest.fixture
def scene(stage, tmp_path): return shutil.copytree(stage, tmp_path/'here')

VARIES = 'metrics.jsonl', 'config.json', 'state-00000015.safetensors' # times, and stops

def written(folder):
    paths = [x for x in folder.rglob('*') if x.is_file() and x.name not in VARIES]
    def bits(path):
        if path.suffix != '.safetensors': return path.read_bytes()
        return {name: x.tobytes() for name, x in load_file(path).items()}
    return {path.relative_to(folder): bits(path) for path in paths}

def changed(folder, wanted):
    found = written(folder)
    return [path for path, content in wanted.items() if found.get(path) != content]

# A training that goes on

@pytest.mark.parametrize('kind', ['state', 'weights', 'best', 'metrics', 'model', 'run'])
def test_a_damaged_training_goes_on(kind, scene):
    rng = random.Random(kind)
    path = sorted((scene/'f').rglob(f'{kind}*'))[-1]
    whole = path.read_bytes()
    for _ in range(3):
        place = rng.randrange(len(whole))
        cut, flipped = whole[:place], bytearray(whole)
        flipped[place] ^= 0x10
        path.write_bytes(rng.choice([cut, bytes(flipped), b'']))
        ran(scene, *TRAIN, 'f', '--resume', '--max_steps', 25)

@pytest.mark.parametrize('size', [1000, 20_000, 300_000])
def test_a_full_disk(size, scene):
    "Then there is room again, and the result is the same to the bit"
    assert ran(scene, *TRAIN, 'n', file_size=size)
    assert not ran(scene, *TRAIN, 'n', '--resume')
    assert not changed(scene/'n', written(scene/'f'))

KILLS = int(os.environ.get('TNB_KILLS', 3)) # of each command by each signal
FORKS = get_context('forkserver') # each process forks from one that has imported them
FORKS.set_forkserver_preload(['transformer_nb.commands'])

def dying(folder, words, number, among, seed):
    "Gets a signal at most 50 ms after a file operation, drawn from `among` of them"
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler) # jobs ignore it
    rng = random.Random(f'{number} {seed}')
    left = iter(range(rng.randrange(among), -1, -1))
    def note(event, args):
        if event not in ('open', 'os.rename', 'os.remove'): return
        is_ours = re.search(r'(^|/)n/|/\.n\.', str(args[0])) # or what becomes `n`
        if not is_ours or next(left, None) != 0: return
        threading.Timer(rng.random() / 20, os.kill, (os.getpid(), number)).start()
    sys.addaudithook(note)
    sys.exit(call_script(getattr(commands, words[0]), *words[1:]).returncode)

@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize('words, among', [((*TRAIN, 'n', '--resume'), 140),
                                          ((*PREPARE, 'n'), 20)])
def test_killed_and_resumed(words, among, number, scene):
    "The bits are those of a run that nobody disturbed"
    ran(scene, *words)
    wanted, kills, starts = written(scene/'n'), 0, 0
    while kills < KILLS:
        if not changed(scene/'n', wanted): shutil.rmtree(scene/'n')
        starts += 1
        process = FORKS.Process(target=dying, args=(scene, words, number, among, starts))
        process.start()
        process.join(120)
        assert process.exitcode not in (2, None), starts
        kills += process.exitcode != 0
        if process.exitcode and kills < KILLS: continue
        if process.exitcode: ran(scene, *words)
        assert not changed(scene/'n', wanted), starts

def test_one_of_two_processes_is_killed(scene):
    "The other ends, too; then both go on"
    with socket.create_server(('127.0.0.1', 0)) as free: port = free.getsockname()[1]
    def both(*more):
        env = dict(WORLD_SIZE='2', MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
        return [start(scene, *TRAIN, 'n', '--resume', *more, RANK=str(i), LOCAL_RANK=str(i),
                      **env) for i in range(2)]
    first, second = both('--max_steps', 100_000)
    while not list(scene.glob('n/checkpoints/state-0*5.*')): time.sleep(0.1)
    second.kill()
    first.communicate(timeout=120)
    assert first.returncode == 2
    steps = max(int(path.stem[-8:]) for path in scene.glob('n/checkpoints/state*'))
    for process in both('--max_steps', steps + 5):
        process.communicate(timeout=120)
        assert process.returncode == 0
