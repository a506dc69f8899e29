"Checkpoints and model folders: damaged, foreign, hostile, locked; processes that fail."
import json, os, random, signal, socket, subprocess, sys
from copy import deepcopy
from dataclasses import replace
from hashlib import sha256
from multiprocessing import get_context
import pytest, torch
from safetensors.torch import save
from torch import nn
from transformer_nb import checkpoint
from transformer_nb.support import distributed
from transformer_nb.checkpoint import (
    Checkpoints, average, check_output_folder, check_same_run, cpu_state_dict,
    fingerprint, last_weights,
    load_model, load_verified, load_weights, mark_begun, random_state, save_model,
    save_verified, set_random_state, set_training_state, training_lock, training_state,
    write_folder)
from transformer_nb.support.core import InputError, remove_half_written
from transformer_nb.data import TokenBatches
from transformer_nb.support.distributed import broadcast_from_rank0, process_group
from transformer_nb.embedding import RotaryAttention
from transformer_nb.speed.fast import accelerate
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.parts import GroupedQueryAttention, RMSNorm, SwiGLU
from transformer_nb.studies.variations import ablate
from transformer_nb.text import BPETokenizer
from transformer_nb.training import Trainer, TrainingConfig

# Random states

class FakeGPU:
    "Generators of the devices of one kind, by index; reports which were touched"
    def __init__(self): self.states, self.touched = {}, []
    def _index(self, device): return 0 if device is None else torch.device(device).index
    def get_rng_state(self, device=None):
        self.touched.append(self._index(device))
        return self.states[self._index(device)]
    def set_rng_state(self, state, device=None):
        self.touched.append(self._index(device))
        self.states[self._index(device)] = state
    def is_available(self): return True

def test_the_generator_of_the_models_own_gpu(monkeypatch):
    "Not of the current one, which is 0 however a training was started"
    gpu = FakeGPU()
    for name in ('get_rng_state', 'set_rng_state', 'is_available'):
        monkeypatch.setattr(torch.cuda, name, getattr(gpu, name))
    gpu.states = {i: torch.tensor([i], dtype=torch.uint8) for i in range(2)}
    second = torch.device('cuda', 1)
    state = random_state(second)
    assert state['cuda'].tolist() == [1] and gpu.touched == [1]
    gpu.states[1] = torch.tensor([9], dtype=torch.uint8)
    set_random_state(state, second)
    assert gpu.states[1].tolist() == [1] and gpu.touched == [1, 1]

def test_a_training_on_the_cpu_touches_no_gpu(monkeypatch):
    "`get_rng_state` would open a context there, which fails if its memory is full"
    def refuse(*args): raise torch.OutOfMemoryError('CUDA out of memory')
    for name in ('get_rng_state', 'set_rng_state'):
        monkeypatch.setattr(torch.cuda, name, refuse)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    for device in (None, torch.device('cpu')):
        state = random_state(device)
        assert set(state) == {'python', 'numpy', 'torch'}
        set_random_state(state | dict(cuda=torch.zeros(1)), device) # begun on a GPU

def test_the_generator_of_mps(monkeypatch):
    states = [torch.tensor([7], dtype=torch.uint8)]
    monkeypatch.setattr(torch.mps, 'get_rng_state', lambda: states[-1])
    monkeypatch.setattr(torch.mps, 'set_rng_state', states.append)
    state = random_state(torch.device('mps'))
    assert state['mps'].tolist() == [7]
    set_random_state(state, torch.device('mps'))
    assert len(states) == 2 and states[-1].tolist() == [7]

# Half-written files

@pytest.fixture(scope='module')
def dead_pid():
    "The number of a process that has ended"
    process = subprocess.Popen(['true'])
    process.wait()
    return process.pid

def put(path, content='important'):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path

def test_resume_deletes_nothing_of_a_stranger(tmp_path):
    "A home directory, say"
    files = [put(tmp_path/name) for name in ('notes.txt', '.a.tmp', 'docs/.thesis.tmp')]
    (tmp_path/'.x.tmp').mkdir()
    with pytest.raises(InputError, match='no state to resume from'):
        check_output_folder(tmp_path, resume=True)
    remove_half_written(tmp_path)
    assert all(path.read_text() == 'important' for path in files)
    assert (tmp_path/'.x.tmp').is_dir()

def test_only_own_files_of_dead_processes_are_removed(tmp_path, dead_pid):
    def temporary(name, pid=dead_pid, end='tnb.tmp'):
        folder, _, name = name.rpartition('/')
        return put(tmp_path/folder/f'.{name}.{pid}.{end}')
    names = ('run.yaml', 'config.json', 'data/train.ids', 'checkpoints/best.safetensors',
             'a file.of any.name')
    own = [temporary(name) for name in names]
    kept = [temporary('run.yaml', os.getppid()), # alive
            temporary('thesis.odt', end='tmp'), # of another program
            temporary('run.yaml', 'x'), temporary('run.yaml', '1' * 30),
            put(tmp_path/'.tnb.tmp'), put(tmp_path/f'run.yaml.{dead_pid}.tnb.tmp')]
    a_folder = tmp_path/f'.config.json.{dead_pid - 1}.tnb.tmp'
    a_folder.mkdir()
    remove_half_written(tmp_path)
    assert not any(path.exists() for path in own)
    assert all(path.exists() for path in kept) and a_folder.is_dir()

def test_killed_before_the_first_state_begins_again(tmp_path, dead_pid, capsys):
    mark_begun(tmp_path)
    for name in ('tokenizer.json', 'data/train.ids', 'data/train.lengths'):
        put(tmp_path/name)
    half = put(tmp_path/f'.run.yaml.{dead_pid}.tnb.tmp')
    assert '`resume` the run' in refusal(tmp_path)
    assert not check_output_folder(tmp_path, resume=True)
    assert 'starting from the beginning' in capsys.readouterr().err
    assert not half.exists() and (tmp_path/'data'/'train.ids').exists()
    put(tmp_path/'config.json') # a model is there, and its checkpoints were removed
    assert 'no state to resume from' in refusal(tmp_path, resume=True)

@pytest.mark.parametrize('names', [
    ['run.yaml'], ['tokenizer.json'], ['data/train.json'],
    ['data/train.ids', 'data/valid.json', 'run.yaml'],
    ['tokenizer.json', 'run.yaml', 'data/train.json', 'checkpoints/state-1.safetensors']])
def test_names_do_not_make_a_folder_ours(names, tmp_path):
    "The advice to resume had a training overwrite a stranger's data/train.json"
    for name in names: put(tmp_path/name)
    assert '`resume`' not in refusal(tmp_path)
    assert 'no state to resume from' in refusal(tmp_path, resume=True)
    with pytest.raises(InputError):
        with training_lock(tmp_path): check_output_folder(tmp_path, resume=True)
    left = {path.relative_to(tmp_path).as_posix(): path.read_text()
            for path in tmp_path.rglob('*') if path.is_file()}
    assert left == dict.fromkeys(names, 'important')

def test_the_marker_stays_until_there_is_a_state(tmp_path):
    def begin():
        with training_lock(tmp_path/'m'):
            mark_begun(tmp_path/'m')
            put(tmp_path/'m'/'tokenizer.json')
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt): begin()
    assert not check_output_folder(tmp_path/'m', resume=True)
    checkpoints = Checkpoints(tmp_path/'m'/'checkpoints', 1)
    with training_lock(tmp_path/'m'): checkpoints.save('state', 0, dict(w=torch.ones(1)))
    assert check_output_folder(tmp_path/'m', resume=True)
    assert {path.name for path in (tmp_path/'m').iterdir()} == {'tokenizer.json',
                                                                'checkpoints'}

# The output folder

def refusal(folder, **options):
    with pytest.raises(InputError) as refused: check_output_folder(folder, **options)
    return str(refused.value)

def test_resume_is_advised_only_where_it_helps(tmp_path):
    stranger, training = tmp_path/'stranger', tmp_path/'training'
    put(stranger/'notes.txt')
    written(training, kind='state')
    put(training/'config.json')
    assert '`resume`' not in refusal(stranger)
    assert '`resume`' in refusal(training)
    assert '`resume`' not in refusal(training, can_resume=False)
    assert check_output_folder(training, resume=True)

def test_no_state_left_to_resume(tmp_path):
    put(tmp_path/'checkpoints'/'weights-00000003.safetensors')
    message = refusal(tmp_path, resume=True)
    assert 'no state to resume from' in message and 'or `resume`' not in message

# One training per folder

LOCKING = '''
import sys, time
from pathlib import Path
from fcntl import LOCK_EX, lockf
file = open(Path(sys.argv[1], '.training.lock'), 'a')
lockf(file, LOCK_EX)
print('locked', flush=True)
time.sleep(600)
'''

def is_free(folder): # for another process than this one
    code = ('import fcntl, sys; file = open(sys.argv[1] + "/.training.lock", "a"); '
            'fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)')
    done = subprocess.run([sys.executable, '-c', code, folder], capture_output=True)
    return done.returncode == 0

def test_one_training_per_folder(tmp_path):
    other = subprocess.Popen([sys.executable, '-c', LOCKING, tmp_path],
                             stdout=subprocess.PIPE)
    other.stdout.readline()
    with pytest.raises(InputError, match='another run is using'):
        with training_lock(tmp_path): pass
    other.send_signal(signal.SIGKILL)
    other.communicate()
    with training_lock(tmp_path):
        assert not is_free(tmp_path)
        assert not check_output_folder(tmp_path, resume=False) # the lock does not count
    assert list(tmp_path.iterdir()) == []

def test_forked_workers_neither_hold_nor_release_the_lock(tmp_path):
    reader, writer = os.pipe()
    with training_lock(tmp_path):
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1) # until the parent closes its end
            os._exit(0)
        assert not is_free(tmp_path)
    assert is_free(tmp_path) # although the child lives
    os.close(writer)
    os.waitpid(child, 0)

def test_a_lock_that_its_owner_has_just_removed_counts_for_nothing(tmp_path):
    path = put(tmp_path/'lock')
    with open(path, 'a') as file:
        path.unlink() # a third training could make and lock a new one
        assert not checkpoint._lock(file)

def test_a_refused_training_leaves_no_folder(tmp_path):
    with pytest.raises(InputError, match='no pairs'):
        with training_lock(tmp_path/'m'): raise InputError('no pairs')
    assert not (tmp_path/'m').exists()

# Checkpoints

def written(folder, run='a', kind='weights', n=3, size=2):
    checkpoints = Checkpoints(folder/'checkpoints', n, run)
    for step in range(n):
        checkpoints.save(kind, step, dict(w=torch.full((size,), float(step))))
    return checkpoints

def test_names_that_are_no_checkpoints_are_ignored(tmp_path):
    checkpoints = written(tmp_path)
    put(checkpoints.folder/'weights-abc.safetensors')
    put(checkpoints.folder/'weights-7.safetensors.bak')
    checkpoints.keep_only([1])
    assert [path.name for path in checkpoints.paths()] == ['weights-00000001.safetensors']
    assert len(list(checkpoints.folder.iterdir())) == 3

def test_more_than_eight_digits_are_in_order(tmp_path):
    checkpoints = Checkpoints(tmp_path, 2)
    for step in (99_999_999, 100_000_000): checkpoints.save('state', step, {})
    _, info = checkpoints.last_state()
    assert len(checkpoints.paths('state')) == 2
    assert checkpoints.paths('state')[-1].stem == 'state-100000000'

@pytest.mark.parametrize('kind, other', [('weights', 'state'), ('state', 'weights'),
                                         ('state', 'best')])
def test_a_file_of_another_kind_is_left_out(kind, other, tmp_path, capsys):
    checkpoints = written(tmp_path, kind=kind, n=2)
    if other == 'best': checkpoints.save_best(dict(w=torch.ones(2)), {})
    else: written(tmp_path, kind=other, n=2)
    source = checkpoints.folder/('best.safetensors' if other == 'best' else
                                 f'{other}-00000001.safetensors')
    path = checkpoints.paths(kind)[-1]
    path.write_bytes(source.read_bytes())
    assert checkpoints.intact(kind) == checkpoints.paths(kind)[:1]
    message = f'{path} is damaged: it holds {other}, not {kind}; it is left out'
    assert message in capsys.readouterr().err

def test_weights_of_another_training(tmp_path, capsys):
    "With another seed, of the same shapes"
    ours, theirs = written(tmp_path/'ours', 'seed 0'), written(tmp_path/'theirs', 'seed 1')
    path = ours.paths()[1]
    path.write_bytes(theirs.paths()[1].read_bytes())
    with pytest.raises(InputError, match='belong to two runs'):
        average(ours.paths())
    with pytest.raises(InputError, match='belong to two runs'):
        last_weights(tmp_path/'ours', 2)
    assert ours.intact() == [ours.paths()[0], ours.paths()[2]]
    assert f'{path} belongs to another run; it is left out' in capsys.readouterr().err

def test_weights_of_another_shape_are_not_averaged(tmp_path):
    paths = [*written(tmp_path/'a').paths(), *written(tmp_path/'b', size=1).paths()]
    with pytest.raises(InputError, match='belong to two runs'): average(paths)

def test_only_the_newest_state_is_read(tmp_path, monkeypatch, capsys):
    checkpoints = written(tmp_path, kind='state')
    seen = []
    def noting(path):
        seen.append(path)
        return load_verified(path)
    monkeypatch.setattr(checkpoint, 'load_verified', noting)
    tensors, _ = checkpoints.last_state()
    older, newest = checkpoints.paths('state')
    assert tensors['w'].tolist() == [2, 2] and seen == [newest]
    newest.write_bytes(b'half')
    tensors, _ = checkpoints.last_state()
    assert tensors['w'].tolist() == [1, 1] and seen == [newest, newest, older]
    assert f'{newest} is damaged' in capsys.readouterr().err

def test_a_checkpoint_is_serialized_once(tmp_path, monkeypatch):
    calls = []
    def noting(*args):
        calls.append(args)
        return save(*args)
    monkeypatch.setattr(checkpoint, 'save', noting)
    checkpoints = written(tmp_path, n=1)
    assert checkpoints.intact() and len(calls) == 1

@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.int64, torch.bool, torch.float64])
@pytest.mark.smoke
def test_verified_tensors_of_any_type(dtype, tmp_path):
    tensors = dict(scalar=torch.tensor(1, dtype=dtype), none=torch.empty(0, dtype=dtype),
                   table=torch.ones(2, 3, dtype=dtype))
    path = tmp_path/'file'
    path.write_bytes(save_verified(tensors, dict(step=1)))
    loaded, info = load_verified(path)
    assert info == dict(step=1) and set(loaded) == set(tensors)
    for name, x in tensors.items(): assert torch.equal(loaded[name], x)

def test_the_checksum_covers_the_info(tmp_path):
    path = tmp_path/'file'
    path.write_bytes(save_verified({}, dict(step=1)).replace(b'1}', b'2}'))
    with pytest.raises(InputError, match='checksum is wrong'): load_verified(path)

def test_fingerprint_is_that_of_the_whole_text():
    "Those in nbs/results were made from one string"
    data = [['ein Haus', 'ü "\n'], dict(a=[1, 2.5, None])]
    assert fingerprint(data) == sha256(json.dumps(data).encode()).hexdigest()[:16]

# Model folders of strangers

BPE = BPETokenizer.train(['ein Haus', 'a house'], 265)
CONFIG = TransformerConfig(BPE.vocab_size, d_model=8, d_ff=16, n_heads=2,
                           n_encoder_layers=1, n_decoder_layers=1, max_len=16)

@pytest.fixture
def model(tmp_path):
    save_model(tmp_path/'m', Transformer(CONFIG), BPE)
    return tmp_path/'m'

def refuses(folder, *words, **options):
    "In one line"
    with pytest.raises(InputError) as refused: load_model(folder, **options)
    message = str(refused.value)
    assert '\n' not in message and len(message) < 400
    for word in words: assert word in message, message

def change_config(folder, change):
    path = folder/'config.json'
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))

def replace_weights(folder, weights):
    "With a checksum that fits"
    data = save(weights)
    (folder/'model.safetensors').write_bytes(data)
    checksum = sha256(data).hexdigest()
    change_config(folder, lambda c: c['sha256'].update({'model.safetensors': checksum}))

@pytest.mark.parametrize('name', ['config.json', 'tokenizer.json', 'model.safetensors'])
def test_pipes_and_devices_are_not_read(name, model):
    path = model/name
    path.unlink()
    os.mkfifo(path)
    refuses(model, name)
    path.unlink()
    path.symlink_to('/dev/zero')
    refuses(model, name)

@pytest.mark.parametrize('name', ['config.json', 'tokenizer.json'])
def test_a_vast_file_is_not_read(name, model):
    with open(model/name, 'r+b') as file: file.truncate(10**9) # which takes no room
    refuses(model, name, 'more than')

@pytest.mark.parametrize('changes, words', [
    (dict(d_ff=10**7), ['asks for']),
    (dict(d_model=2 * 10**5), ['asks for']),
    (dict(n_encoder_layers=10**5), ['asks for', '100,001 layers']),
    (dict(vocab_size=10**12), ['asks for']),
    (dict(max_len=10**8), ['max_len', '100,000,000']),
    (dict(max_len=10**30), ['max_len']),
    (dict(positions='learned', max_len=10**30), ['max_len']),
    (dict(positions='learned', max_len=10**5), ['asks for']),
    (dict(d_ff=10**4000), ['damaged'])])
def test_sizes_are_compared_before_memory_is_taken(changes, words, model):
    change_config(model, lambda c: c['model'].update(changes))
    def build(config):
        built = Transformer(config)
        assert all(w.is_meta for w in built.state_dict().values()), 'memory is taken'
        n_layers = config.n_encoder_layers + config.n_decoder_layers
        assert n_layers <= 3
        return built
    refuses(model, *words, family=build)

@pytest.mark.parametrize('changes', [
    {}, dict(norm='pre'), dict(positions='learned'), dict(tie_embeddings=False),
    dict(d_k=3, d_v=5), dict(n_encoder_layers=3, n_decoder_layers=5)], ids=str)
def test_a_new_weight_is_counted_too(changes):
    "By a formula of its own, the count was wrong for any model that had one more"
    config = replace(CONFIG, **changes)
    n_plain = sum(w.numel() for w in Transformer(config).parameters())
    assert checkpoint._n_parameters(config) == n_plain
    class Gated(Transformer):
        def __init__(self, config):
            super().__init__(config)
            for layer in self.decoder.layers: layer.gate = nn.Linear(8, 8)
            self.offset = nn.Parameter(torch.zeros(7))
    n_gated = sum(w.numel() for w in Gated(config).parameters())
    assert checkpoint._n_parameters(config, Gated) == n_gated > n_plain

def test_counting_imports_nothing():
    "Drawing a number on the device meta imports 800 modules, for seconds"
    code = ('import sys; from transformer_nb.checkpoint import _n_parameters; '
            'from transformer_nb.model import TransformerConfig; n = len(sys.modules); '
            '_n_parameters(TransformerConfig.tiny(300)); print(len(sys.modules) - n)')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert int(done.stdout) < 100, done.stderr

def test_as_many_parameters_of_other_shapes(model):
    def swap(c): c['model'].update(d_k=2, d_v=6)
    change_config(model, swap)
    refuses(model, 'another model', 'key.weight is (8, 8), in the model (4, 8)')

def test_as_many_layers_as_tensors_at_most(tmp_path):
    "One large tensor cannot stand for a million layers"
    config = TransformerConfig(10, d_model=2, d_ff=1, n_heads=1, d_k=1, d_v=1,
                               n_encoder_layers=100)
    path = tmp_path/'weights'
    n = checkpoint._n_parameters(config)
    path.write_bytes(save(dict(x=torch.zeros(n))))
    with pytest.raises(ValueError, match='in 1 tensors'):
        checkpoint._check_header(config, path)

@pytest.mark.parametrize('value', [float('nan'), float('inf')])
def test_weights_that_are_not_finite(value, model):
    weights = cpu_state_dict(Transformer(CONFIG))
    name = 'decoder.layers.0.feed_forward.inner.bias'
    weights[name][3] = value
    replace_weights(model, weights)
    refuses(model, 'model.safetensors', f'{name} has values that are NaN or infinite')

def test_tokenizer_of_another_size(model):
    other = BPETokenizer.train(['ein Haus', 'a house'], 262).to_json().encode()
    (model/'tokenizer.json').write_bytes(other)
    checksum = sha256(other).hexdigest()
    change_config(model, lambda c: c['sha256'].update({'tokenizer.json': checksum}))
    refuses(model, 'tokenizer.json has 262 tokens', 'is 265')

def test_loaded_weights_must_fit():
    "Checkpoints of another vocabulary, and a matrix of the old format cut too short"
    model = Transformer(CONFIG)
    other = cpu_state_dict(Transformer(TransformerConfig(300, **SIZES)))
    with pytest.raises(InputError, match=r'embeddings.0.weight is \(300, 8\)'):
        load_weights(model, other)
    old = cpu_state_dict(model)
    old['encoder.layers.0.self_attention.qkv'] = torch.zeros(5, 8)
    with pytest.raises(InputError, match=r"qkv is \(5, 8\), in the model not there"):
        load_weights(model, old)

SIZES = dict(d_model=8, d_ff=16, n_heads=2, n_encoder_layers=1, n_decoder_layers=1,
             max_len=16)

# Processes

def member(rank, port, folder, make):
    "One of two processes; writes down how it ended"
    torchrun = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=2, MASTER_ADDR='127.0.0.1',
                    MASTER_PORT=port)
    os.environ |= {name: str(value) for name, value in torchrun.items()}
    try:
        with process_group(): ended = broadcast_from_rank0(make)
    except BaseException as e: ended = repr(e)
    (folder/str(rank)).write_text(ended)

def two_processes(folder, make, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    processes = [get_context('fork').Process(target=member, args=(rank, port, folder, make))
                 for rank in range(2)]
    for process in processes: process.start()
    for process in processes:
        process.join(60)
        process.kill() # where it hangs
    return [(folder/str(rank)).read_text() for rank in range(2)]

def test_what_fails_in_the_first_process_ends_the_others(tmp_path, monkeypatch):
    def fail(): raise InputError('m is not empty')
    ends = two_processes(tmp_path, fail, monkeypatch)
    assert ends == ["InputError('m is not empty')", 'SystemExit(1)']

@pytest.fixture
def two_gpus(monkeypatch):
    "A machine with two GPUs, as the fourth process sees it, and what it asks PyTorch for"
    asked = {}
    for name, value in dict(WORLD_SIZE='4', LOCAL_RANK='3').items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 2)
    monkeypatch.setattr(torch.cuda, 'set_device', lambda n: asked.update(gpu=n))
    def init(backend, **options): asked.update(options, backend=backend)
    monkeypatch.setattr(distributed.dist, 'init_process_group', init)
    monkeypatch.setattr(distributed.dist, 'destroy_process_group', lambda: None)
    return asked

def test_a_process_without_a_gpu_of_its_own(two_gpus):
    with pytest.raises(InputError, match='process 3 .* there are 2'):
        with process_group(): pass
    assert two_gpus == {}

def test_a_step_may_take_half_an_hour_and_the_data_a_day(two_gpus, monkeypatch):
    launched = dict(LOCAL_RANK='1', RANK='1', MASTER_ADDR='localhost', MASTER_PORT='1')
    for name, value in launched.items(): monkeypatch.setenv(name, value)
    patient = {}
    def new_group(**options): patient.update(options)
    monkeypatch.setattr(distributed.dist, 'new_group', new_group)
    with process_group(): pass
    assert two_gpus['gpu'] == 1 and two_gpus['backend'] == 'cpu:gloo,cuda:nccl'
    assert two_gpus['timeout'].total_seconds() == 30 * 60
    assert patient['timeout'].total_seconds() == 24 * 60 * 60

# Forged states, and locks that are none

def a_step():
    "A model and its optimizer after one step, and the state"
    model = nn.Linear(30, 20)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    model(torch.ones(1, 30)).sum().backward()
    optimizer.step()
    return model, optimizer, training_state(model, optimizer, [random_state()])

def a_number(x): return torch.zeros(1)
def of_8_bits(x): return x.to(torch.int8)
def as_nan(x): return x * torch.nan

@pytest.mark.parametrize('change', [a_number, of_8_bits, as_nan])
@pytest.mark.parametrize('field', ['step', 'exp_avg', 'exp_avg_sq'])
def test_forged_moments_never_reach_the_optimizer(field, change):
    "Its compiled code wrote beyond the end of those that were too small"
    model, optimizer, state = a_step()
    state[f'optimizer.1.{field}'] = change(state[f'optimizer.1.{field}'])
    with pytest.raises(InputError, match=f'{field} of parameter 1'):
        set_training_state(model, optimizer, state)

@pytest.mark.parametrize('name', ['1.step', '1.x', 'a.exp_avg', '9.exp_avg', '1.2.step'])
def test_moments_of_another_name(name):
    model, optimizer, state = a_step()
    state[f'optimizer.{name}'] = state.pop('optimizer.0.step')
    with pytest.raises(InputError, match='damaged'):
        set_training_state(model, optimizer, state)

@pytest.mark.parametrize('kind', ['python', 'numpy', 'torch'])
@pytest.mark.parametrize('data', [
    b'', b'[1]', b'null', b'["MT19937",[1],0,0,0.0]', b'['*9999])
def test_forged_random_states(kind, data):
    model, optimizer, state = a_step()
    state[f'random.0.{kind}'] = torch.tensor(list(data), dtype=torch.uint8)
    with pytest.raises(InputError, match='random state'):
        set_training_state(model, optimizer, state)

def test_a_state_without_random_states():
    model, optimizer, state = a_step()
    for name in ('python', 'numpy', 'torch'): del state[f'random.0.{name}']
    with pytest.raises(InputError, match='random state'):
        set_training_state(model, optimizer, state)
    set_training_state(model, optimizer, state, rank=1) # there was no second process

@pytest.mark.parametrize('info', [[], None, 'x', 5])
def test_info_of_another_kind(info, tmp_path):
    path = tmp_path/'weights-1.safetensors'
    path.write_bytes(save_verified(dict(w=torch.ones(2)), info))
    with pytest.raises(InputError, match='is damaged'): load_verified(path)

def test_complex_weights_have_no_mean(tmp_path):
    for i in range(2):
        weights = dict(w=torch.ones(2, dtype=torch.complex64))
        (tmp_path/f'{i}').write_bytes(save_verified(weights, {}))
    with pytest.raises(InputError, match='complex'): average([tmp_path/'0', tmp_path/'1'])

@pytest.mark.parametrize('kind', [torch.int8, torch.complex64])
def test_weights_that_are_no_real_numbers(kind):
    model = nn.Linear(2, 2)
    weights = {name: w.detach().to(kind) for name, w in model.named_parameters()}
    with pytest.raises(InputError, match=f'is of {kind}'): load_weights(model, weights)

def test_a_lock_is_a_plain_file(tmp_path):
    "A pipe was waited for, and the target of a link was created"
    for name in ('pipe', 'link'): (tmp_path/name).mkdir()
    os.mkfifo(tmp_path/'pipe'/'.training.lock')
    (tmp_path/'link'/'.training.lock').symlink_to('../elsewhere')
    for name in ('pipe', 'link'):
        with pytest.raises(OSError), training_lock(tmp_path/name): pass
    assert not (tmp_path/'elsewhere').exists()

def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path/'file').touch()
    with pytest.raises(InputError, match='is not a folder'):
        check_output_folder(tmp_path/'file')

def test_eight_differences_are_all_named():
    "And no message ends in *and 0 more*"
    for n, end in ((8, 'x7 was 0 and is 1'), (9, 'and 1 more')):
        old, new = ({f'x{i}': x for i in range(n)} for x in (0, 1))
        with pytest.raises(InputError, match=f'{end}$'): check_same_run(old, new, 'm')

def test_the_second_of_two_normal_numbers():
    "Python draws them in pairs, and keeps one"
    random.gauss(0, 1)
    state = random_state()
    second = random.gauss(0, 1)
    set_random_state(state)
    assert random.gauss(0, 1) == second

def test_weights_of_no_run_are_not_ours(tmp_path):
    Checkpoints(tmp_path, 3).save('weights', 1, dict(w=torch.ones(1)))
    [path] = Checkpoints(tmp_path, 3).paths()
    with pytest.raises(InputError, match='belongs to another run'):
        Checkpoints(tmp_path, 3, 'ours').read(path)

def test_the_last_of_three_are_averaged(tmp_path):
    files = Checkpoints(tmp_path/'checkpoints', 3)
    for step in (1, 2, 4): files.save('weights', step, dict(w=torch.tensor([float(step)])))
    assert last_weights(tmp_path, 2)['w'].item() == 3.

# A model has one truth, its configuration

def another_attention(model):
    model.decoder.layers[0].self_attention = GroupedQueryAttention(128, 4, 32, 32, 2)

def gated(model): model.encoder.layers[1].feed_forward = SwiGLU(128, 256)
def another_norm(model): model.encoder.layers[0].residuals[1].norm = RMSNorm(128)
def another_eps(model): model.decoder.layers[0].residuals[2].norm.eps = 1e-3
def without_table(model): model.src_positions.table = None
def without_bias(model): model.encoder.layers[2].feed_forward.inner.bias = None
def more_bias(model):
    model.encoder.layers[2].self_attention.query.bias = nn.Parameter(torch.zeros(128))
def turned(model): model.encoder.layers[0].self_attention.__class__ = RotaryAttention
def without_scale(model): ablate(model, '√d_model')
def without_division(model): ablate(model, '1/√d_k')
def another_config(model): model.config = replace(model.config, activation='gelu')

BEHIND = {
    another_attention: 'self_attention is GroupedQueryAttention, by its config MultiHead',
    gated: 'encoder.layers.1.feed_forward is SwiGLU, by its config FeedForward',
    another_norm: 'residuals.1.norm is RMSNorm, by its config LayerNorm',
    another_eps: 'layers.0.residuals.2.norm.eps is 0.001, by its config 1e-05',
    without_table: r'src_positions.table is not there, by its config \(512, 128\)',
    without_bias: r'inner.bias is not there, by its config \(256,\)',
    more_bias: r'query.bias is \(128,\), by its config not there',
    turned: 'self_attention is RotaryAttention, by its config MultiHeadAttention',
    without_scale: 'embeddings.0 is UnscaledEmbedding',
    without_division: 'self_attention is _UnscaledAttention',
    another_config: 'feed_forward is FeedForward, by its config ActivatedFeedForward'}

@pytest.mark.parametrize('how', BEHIND)
@pytest.mark.parametrize('fast', [False, True])
def test_a_model_changed_behind_its_config_is_not_saved(how, fast, tmp_path):
    model, message = Transformer(TransformerConfig.tiny(270)), BEHIND[how]
    how(model)
    if fast: accelerate(model)
    with pytest.raises(InputError, match=message): save_model(tmp_path/'m', model, BPE)
    assert not (tmp_path/'m').exists()

@pytest.mark.parametrize('how', BEHIND)
def test_nor_trained(how, tmp_path):
    model, [pair] = Transformer(TransformerConfig.tiny(270)), [([5, 6], [7])]
    how(model)
    with pytest.raises(InputError, match='not what its config describes'):
        Trainer(model, TokenBatches([pair], 9), [], TrainingConfig(), tmp_path/'m')
    assert not (tmp_path/'m').exists()

@pytest.mark.parametrize('make', [accelerate, nn.Module.half, nn.Module.eval, deepcopy])
def test_what_changes_no_function_is_saved(make, tmp_path):
    model = make(Transformer(CONFIG).requires_grad_(False))
    save_model(tmp_path/'m', model, BPE)
    loaded, _ = load_model(tmp_path/'m')
    for name, weight in loaded.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name].float())

def test_a_folder_is_whole_or_not_there_and_kills_leave_nothing_for_good(tmp_path):
    dead, alive = (tmp_path/f'.k.{pid}.tnb.tmp' for pid in (999999999, 1))
    other = tmp_path/'.other.999999999.tnb.tmp'
    for path in (dead, alive, other): (path/'inner').mkdir(parents=True)
    def fail(folder):
        (folder/'a').write_text('half')
        raise OSError(28, 'No space left on device')
    with pytest.raises(OSError, match='No space left.*/k'): write_folder(tmp_path/'k', fail)
    assert sorted(tmp_path.iterdir()) == sorted([alive, other])
    write_folder(tmp_path/'k', lambda folder: (folder/'a').write_text('whole'))
    assert (tmp_path/'k'/'a').read_text() == 'whole'
    assert sorted(tmp_path.iterdir()) == sorted([alive, other, tmp_path/'k'])

def test_a_link_to_itself_is_an_error_that_names_it(tmp_path):
    (tmp_path/'loop').symlink_to('loop')
    for name in ('loop', 'loop/x'):
        with pytest.raises(OSError, match='loop'):
            write_folder(tmp_path/name, lambda folder: (folder/'a').touch())
    assert [path.name for path in tmp_path.iterdir()] == ['loop']

@pytest.mark.parametrize('file', ['config.json', 'tokenizer.json'])
def test_a_name_that_stands_twice(file, tmp_path):
    "Of two values the last was taken, without a word"
    save_model(tmp_path/'m', Transformer(CONFIG), BPE)
    path = tmp_path/'m'/file
    text = path.read_text(encoding='utf8').rstrip()[:-1]
    path.write_text(text + ', "twice": 1, "twice": 2}', encoding='utf8')
    if file != 'config.json': # its checksum is looked at first
        digest = sha256(path.read_bytes()).hexdigest()
        config = json.loads((tmp_path/'m'/'config.json').read_text())
        config['sha256'][file] = digest
        (tmp_path/'m'/'config.json').write_text(json.dumps(config))
    with pytest.raises(InputError, match=f"{file}.*'twice' is there twice"):
        load_model(tmp_path/'m')
