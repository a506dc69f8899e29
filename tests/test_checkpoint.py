"Checkpoints and model folders: damaged, foreign, hostile, locked; processes that fail."
import json, os, subprocess, sys
from copy import deepcopy
from dataclasses import replace
from hashlib import sha256
import pytest, torch
from safetensors.torch import save
from torch import nn
from transformer_nb.checkpoint import (
    Checkpoints, average, check_output_folder, cpu_state_dict, last_weights, load_model,
    load_verified, load_weights, mark_begun, random_state, save_model, save_verified,
    set_random_state, set_training_state, training_lock, training_state, write_folder)
from transformer_nb.support.core import InputError, remove_half_written
from transformer_nb.data import TokenBatches
from transformer_nb.speed.fast import accelerate
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.parts import GroupedQueryAttention
from transformer_nb.studies.variations import ablate
from transformer_nb.text import BPETokenizer
from transformer_nb.training import Trainer, TrainingConfig

# Random states

def test_the_generator_of_the_models_own_gpu(monkeypatch):
    "Not of the current one, which is 0 however a training was started"
    states = {i: torch.tensor([i], dtype=torch.uint8) for i in range(2)}
    def get(device=0): return states[torch.device(device).index]
    def put(state, device=0): states[torch.device(device).index] = state
    for name, fake in dict(is_available=lambda: True, get_rng_state=get,
                           set_rng_state=put).items():
        monkeypatch.setattr(torch.cuda, name, fake)
    second = torch.device('cuda', 1)
    state = random_state(second)
    states[1] = torch.tensor([9], dtype=torch.uint8)
    set_random_state(state, second)
    assert [state['cuda'].item(), *map(int, states.values())] == [1, 0, 1]

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

def test_only_own_files_are_removed(tmp_path, dead_pid):
    def temporary(name, pid=dead_pid, end='tnb.tmp'):
        folder, _, name = name.rpartition('/')
        return put(tmp_path/folder/f'.{name}.{pid}.{end}')
    names = ('run.yaml', 'config.json', 'data/train.ids', 'checkpoints/best.safetensors',
             'a file.of any.name')
    own = [temporary(name) for name in names]
    kept = [temporary('thesis.odt', end='tmp'), # of another program
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

def test_names_do_not_make_a_folder_ours(tmp_path):
    "The advice to resume had a training overwrite a stranger's data/train.json"
    names = ['tokenizer.json', 'run.yaml', 'data/train.json',
             'checkpoints/state-1.safetensors']
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

def refusal(folder, **options):
    with pytest.raises(InputError) as refused: check_output_folder(folder, **options)
    return str(refused.value)

# One training per folder

LOCK = '''
import fcntl, sys
file = open(sys.argv[1] + '/.training.lock', 'a')
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print('locked', flush=True)
sys.stdin.read()
'''

def locking(folder):
    "Another process, which says whether it has the lock"
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process = subprocess.Popen([sys.executable, '-c', LOCK, folder], **pipes)
    return process, process.stdout.readline() == b'locked\n'

def test_one_training_per_folder(tmp_path):
    other, is_locked = locking(tmp_path)
    with pytest.raises(InputError, match='another run is using'):
        with training_lock(tmp_path): pass
    other.kill()
    other.communicate()
    with training_lock(tmp_path):
        with pytest.raises(InputError), training_lock(tmp_path): pass # in one process, too
        _, has_it_too = locking(tmp_path)
        assert is_locked and not has_it_too
        assert not check_output_folder(tmp_path, resume=False) # the lock does not count
    assert list(tmp_path.iterdir()) == []

# Checkpoints

def written(folder, run='a', kind='weights', n=3, size=2):
    checkpoints = Checkpoints(folder/'checkpoints', n, run)
    for step in range(n):
        checkpoints.save(kind, step, dict(w=torch.full((size,), float(step))))
    return checkpoints

def test_a_file_of_another_kind_is_left_out(tmp_path, capsys):
    checkpoints = written(tmp_path, n=2)
    written(tmp_path, kind='state', n=2)
    path = checkpoints.paths('weights')[-1]
    path.write_bytes((checkpoints.folder/'state-00000001.safetensors').read_bytes())
    assert checkpoints.intact('weights') == checkpoints.paths('weights')[:1]
    message = f'{path} is damaged: it holds state, not weights; it is left out'
    assert message in capsys.readouterr().err

def test_weights_of_another_training(tmp_path, capsys):
    "With another seed, of the same shapes"
    ours, theirs = written(tmp_path/'ours', 'seed 0'), written(tmp_path/'theirs', 'seed 1')
    path = ours.paths()[1]
    path.write_bytes(theirs.paths()[1].read_bytes())
    with pytest.raises(InputError, match='belong to two runs'): average(ours.paths())
    with pytest.raises(InputError, match='belong to two runs'):
        last_weights(tmp_path/'ours', 2)
    assert ours.intact() == [ours.paths()[0], ours.paths()[2]]
    assert f'{path} belongs to another run; it is left out' in capsys.readouterr().err

@pytest.mark.smoke
def test_verified_tensors_of_any_type(tmp_path):
    path = tmp_path/'file'
    for dtype in (torch.bfloat16, torch.int64, torch.bool, torch.float64):
        tensors = dict(scalar=torch.tensor(1), none=torch.empty(0), table=torch.ones(2, 3))
        tensors = {name: x.to(dtype) for name, x in tensors.items()}
        path.write_bytes(save_verified(tensors, dict(step=1)))
        loaded, info = load_verified(path)
        assert info == dict(step=1) and set(loaded) == set(tensors)
        for name, x in tensors.items(): assert torch.equal(loaded[name], x)

def test_the_checksum_covers_the_info(tmp_path):
    path = tmp_path/'file'
    path.write_bytes(save_verified({}, dict(step=1)).replace(b'1}', b'2}'))
    with pytest.raises(InputError, match='checksum is wrong'): load_verified(path)

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

def test_sizes_are_compared_before_memory_is_taken(model):
    text = (model/'config.json').read_text()
    for changes, words in [
            (dict(d_ff=10**7), ['asks for']),
            (dict(n_encoder_layers=10**5), ['asks for', '100,001 layers']),
            (dict(max_len=10**30), ['max_len']),
            (dict(d_ff=10**4000), ['damaged'])]:
        (model/'config.json').write_text(text)
        change_config(model, lambda c: c['model'].update(changes))
        refuses(model, *words)

def test_as_many_parameters_of_other_shapes(model):
    def swap(c): c['model'].update(d_k=2, d_v=6)
    change_config(model, swap)
    refuses(model, 'another model', 'key.weight is (8, 8), in the model (4, 8)')

def test_weights_that_are_not_finite(model):
    weights = cpu_state_dict(Transformer(CONFIG))
    name = 'decoder.layers.0.feed_forward.inner.bias'
    weights[name][3] = float('inf')
    replace_weights(model, weights)
    refuses(model, 'model.safetensors', f'{name} has values that are NaN or infinite')

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

# States that lack something, and locks that are none

def a_step():
    "A model and its optimizer after one step, and the state"
    model = nn.Linear(30, 20)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    model(torch.ones(1, 30)).sum().backward()
    optimizer.step()
    return model, optimizer, training_state(model, optimizer, [random_state()])

def test_a_state_without_random_states():
    model, optimizer, state = a_step()
    del state['random.0.torch']
    with pytest.raises(KeyError): set_training_state(model, optimizer, state)
    set_training_state(model, optimizer, state, rank=1) # there was no second process

def test_weights_that_are_no_real_numbers():
    model = nn.Linear(2, 2)
    for kind in (torch.int8, torch.complex64):
        weights = {name: w.detach().to(kind) for name, w in model.named_parameters()}
        with pytest.raises(InputError, match=f'is of {kind}'): load_weights(model, weights)
    for kind in (torch.float8_e4m3fn, torch.bfloat16): # fewer bits than ours are read
        weights = {name: w.detach().to(kind) for name, w in model.named_parameters()}
        load_weights(model, weights)
        assert torch.equal(model.weight, weights['weight'].float())

def test_a_lock_is_a_plain_file(tmp_path):
    "The target of a link was created"
    (tmp_path/'.training.lock').symlink_to('elsewhere')
    with pytest.raises(OSError), training_lock(tmp_path): pass
    assert not (tmp_path/'elsewhere').exists()

# A model has one truth, its configuration

def another_attention(model):
    model.decoder.layers[0].self_attention = GroupedQueryAttention(128, 4, 32, 32, 2)

def without_table(model): model.src_positions.table = None

def more_bias(model):
    model.encoder.layers[2].self_attention.query.bias = nn.Parameter(torch.zeros(128))

def without_scale(model): ablate(model, '√d_model')

def another_config(model): model.config = replace(model.config, activation='gelu')

BEHIND = {
    another_attention: 'self_attention is GroupedQueryAttention, by its config MultiHead',
    without_table: r'src_positions.table is not there, by its config \(512, 128\)',
    more_bias: r'query.bias is \(128,\), by its config not there',
    without_scale: 'embeddings.0 is UnscaledEmbedding',
    another_config: 'feed_forward is FeedForward, by its config ActivatedFeedForward'}

def test_a_model_changed_behind_its_config_is_neither_saved_nor_trained(tmp_path):
    [pair], out = [([5, 6], [7])], tmp_path/'m'
    for how, message in BEHIND.items():
        for make in (nn.Module.eval, accelerate):
            model = Transformer(TransformerConfig.tiny(270))
            how(model)
            with pytest.raises(InputError, match=message): save_model(out, make(model), BPE)
        with pytest.raises(InputError, match='not what its config describes'):
            Trainer(model, TokenBatches([pair], 9), [], TrainingConfig(), out)
        assert not out.exists()

@pytest.mark.parametrize('make', [accelerate, nn.Module.half, nn.Module.eval, deepcopy])
def test_what_changes_no_function_is_saved(make, tmp_path):
    model = make(Transformer(CONFIG).requires_grad_(False))
    save_model(tmp_path/'m', model, BPE)
    loaded, _ = load_model(tmp_path/'m')
    for name, weight in loaded.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name].float())

def test_a_folder_is_whole_or_not_there_and_kills_leave_nothing_for_good(tmp_path):
    left, other = tmp_path/'.k.tnb.tmp', tmp_path/'.other.tnb.tmp'
    for path in (left, other): (path/'inner').mkdir(parents=True)
    def fail(folder):
        (folder/'a').write_text('half')
        raise OSError(28, 'No space left on device')
    with pytest.raises(OSError, match='No space left.*/k'): write_folder(tmp_path/'k', fail)
    def read(folder): (tmp_path/'source').read_bytes()
    with pytest.raises(OSError, match='No such.*/source'): write_folder(tmp_path/'k', read)
    assert list(tmp_path.iterdir()) == [other]
    def twice(folder):
        (folder/'a').write_text('whole')
        with pytest.raises(InputError, match='another'): write_folder(tmp_path/'k', fail)
    write_folder(tmp_path/'k', twice)
    assert (tmp_path/'k'/'a').read_text() == 'whole'
    assert [path.name for path in (tmp_path/'k').iterdir()] == ['a']
    assert sorted(tmp_path.iterdir()) == [other, tmp_path/'k']
