"""Files damaged on purpose, full disks and kills. Whatever happens, a command ends in time:
with status 0, or with status 2 and one short line; it writes no NaN; and a training that is
resumed ends with the same bits."""
import json, os, random, resource, shutil, signal, socket, subprocess, time
import numpy as np
import pytest, yaml
from hashlib import sha256
from safetensors.numpy import load_file, save_file
from running import BIN
from transformer_nb.checkpoint import load_verified, save_verified
from transformer_nb.lessons.grammar import mini_corpus

TINY = dict(
    model=dict(d_model=32, d_ff=64, n_heads=2, n_encoder_layers=1, n_decoder_layers=1,
               max_len=64),
    data=dict(src='train.de', tgt='train.en', valid_src='valid.de', valid_tgt='valid.en',
              vocab_size=400, batch_tokens=512),
    training=dict(max_steps=20, warmup_steps=50, valid_every=5, save_every=5, average=2))
TRAIN = 'tnb_train', '--config', 'tiny.yaml', '--out'
TRANSLATE = 'tnb_translate', 'm'
NO_COMPLAINT = ('pairs to train on', 'tnb_translate: line', 'left out', 'step', 'it ended',
                'starting from the beginning')
MEMORY = 8 * 2**30

def start(folder, *words, file_size=resource.RLIM_INFINITY, **env):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    env = {**os.environ, 'IN_TEST': '1', 'OMP_NUM_THREADS': '1', **env}
    pipes = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.PIPE)
    return subprocess.Popen([BIN/words[0], *map(str, words[1:])], cwd=folder, env=env,
                            preexec_fn=limit, **pipes)

def ran(folder, *words, **how):
    "Its status; what it said is one line, and neither a traceback nor an answer of NaN"
    out, error = start(folder, *words, **how).communicate(b'Ein Hund.\n', timeout=120)
    return checked(folder, out, error, words)

def checked(folder, out, error, words):
    lines = [line for line in error.decode().splitlines()
             if not any(word in line for word in NO_COMPLAINT)]
    assert len(lines) <= 1 and 'Traceback' not in error.decode(), error
    assert all(len(line) < 400 and line.isprintable() for line in lines), error
    assert b'nan' not in out.lower(), out
    assert not list(folder.rglob('.*.tmp')), words
    return bool(lines)

@pytest.fixture(scope='session')
def stage(tmp_path_factory):
    "Texts, a finished training `f`, and its model alone, `m`"
    folder = tmp_path_factory.mktemp('stage')
    pairs = mini_corpus()['train'][:300]
    for name, part in dict(train=pairs[:250], valid=pairs[250:]).items():
        for i, language in enumerate(('de', 'en')):
            text = ''.join(pair[i] + '\n' for pair in part)
            (folder/f'{name}.{language}').write_text(text, encoding='utf8')
    (folder/'tiny.yaml').write_text(yaml.safe_dump(TINY))
    assert not ran(folder, *TRAIN, 'f')
    (folder/'m').mkdir()
    for name in ('config.json', 'tokenizer.json', 'model.safetensors'):
        shutil.copy(folder/'f'/name, folder/'m')
    return folder

@pytest.fixture
def scene(stage, tmp_path): return shutil.copytree(stage, tmp_path/'here')

def seal(folder):
    "Make the checksums in config.json right"
    config = json.loads((folder/'config.json').read_text())
    for name in config['sha256']:
        config['sha256'][name] = sha256((folder/name).read_bytes()).hexdigest()
    (folder/'config.json').write_text(json.dumps(config))

def bits(folder): return (folder/'model.safetensors').read_bytes()

# A model from a stranger

ENDLESS = dict(type='Split', pattern=dict(Regex='(x+x+)+y'), behavior='Isolated',
               invert=False)
GROWS = dict(type='Replace', pattern=dict(Regex='.'), content='x' * 10**6)
OF_CONFIG = [('d_model', 10**12), ('d_ff', 0), ('n_decoder_layers', 10**6), ('max_len', -1),
             ('vocab_size', 1.5), ('d_ff', '64'), ('n_heads', None)]
OF_TOKENIZER = [(['pre_tokenizer'], ENDLESS), (['normalizer'], GROWS),
                (['model', 'vocab', 'a'], 10**9), (['model', 'merges'], ['a b c']),
                (['added_tokens', 1, 'id'], 2), (['model', 'dropout'], 0.5)]

def put(path, way, value):
    content = part = json.loads(path.read_text())
    for key in way[:-1]: part = part[key]
    part[way[-1]] = value
    path.write_text(json.dumps(content))

@pytest.mark.parametrize('name, value', OF_CONFIG)
def test_a_strangers_configuration(name, value, scene):
    put(scene/'m'/'config.json', ['model', name], value)
    ran(scene, *TRANSLATE)

@pytest.mark.parametrize('way, value', OF_TOKENIZER)
def test_a_strangers_tokenizer(way, value, scene):
    put(scene/'m'/'tokenizer.json', way, value)
    seal(scene/'m')
    ran(scene, *TRANSLATE)

def test_strange_weights(scene):
    path = scene/'m'/'model.safetensors'
    whole = path.read_bytes()
    for data in (b'', (10**12).to_bytes(8, 'little'), bytes(10_000), whole[:-9]):
        path.write_bytes(data)
        seal(scene/'m')
        assert ran(scene, *TRANSLATE)
    path.write_bytes(whole)
    weights = load_file(path)
    for value in (np.nan, np.inf, 3e38):
        for weight in weights.values(): weight.flat[-1] = value
        save_file(weights, path)
        seal(scene/'m')
        ran(scene, *TRANSLATE)

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

def test_a_state_of_another_program(scene):
    path = sorted((scene/'f'/'checkpoints').glob('state*'))[-1]
    tensors, info = load_verified(path)
    for start_of in ('random', 'optimizer', 'model'):
        left = {name: x for name, x in tensors.items() if not name.startswith(start_of)}
        data = save_verified(left, info)
        path.unlink() # it is mapped
        path.write_bytes(data)
        assert ran(scene, *TRAIN, 'f', '--resume', '--max_steps', 25)

@pytest.mark.parametrize('size', [1000, 20_000, 300_000])
def test_a_full_disk(size, scene):
    "Then there is room again, and the result is the same to the bit"
    assert ran(scene, *TRAIN, 'n', file_size=size)
    assert not ran(scene, *TRAIN, 'n', '--resume')
    assert bits(scene/'n') == bits(scene/'f')

@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_killed_and_resumed(number, scene):
    rng = random.Random(int(number))
    for _ in range(3):
        process = start(scene, *TRAIN, 'n', '--resume')
        time.sleep(rng.uniform(2, 8))
        process.send_signal(number)
        process.communicate(timeout=120)
    assert not ran(scene, *TRAIN, 'n', '--resume')
    assert bits(scene/'n') == bits(scene/'f')

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
