"Several processes: what launchers leave out, processes that die, one GPU for several."
import os, signal, socket
from unittest import mock
import pytest
import torch
from torch import distributed as dist
from transformer_nb.support import distributed
from transformer_nb.checkpoint import Checkpoints
from transformer_nb.support.core import FieldError, InputError
from transformer_nb.data import TokenBatches
from transformer_nb.support.distributed import (
    check_shared_device, process_group, world_size)
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.training import RunFiles, Trainer, TrainingConfig, _final_weights

LAUNCHED = dict(WORLD_SIZE='2', RANK='0', MASTER_ADDR='localhost', MASTER_PORT='29511')

@pytest.fixture
def launcher(monkeypatch):
    "Sets the variables of a launcher, and nothing else of one"
    names = [*LAUNCHED, 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'CUDA_VISIBLE_DEVICES']
    for name in names: monkeypatch.delenv(name, raising=False)
    def set_them(**variables):
        for name, value in variables.items(): monkeypatch.setenv(name, value)
    return set_them

def joined():
    with process_group(): raise AssertionError('joined')

@pytest.mark.parametrize('change, words', [
    (dict(MASTER_ADDR=None), 'MASTER_ADDR expected, but not set; start .* with torchrun'),
    (dict(WORLD_SIZE='two'), "'two'; start"), (dict(MASTER_PORT='x'), "'x'; start")])
def test_what_a_launcher_set_wrongly_is_named(change, words, launcher):
    "A number that is none was a traceback"
    variables = LAUNCHED | change
    launcher(**{name: value for name, value in variables.items() if value})
    with pytest.raises(InputError, match=words): joined()

def test_each_process_has_a_gpu_of_its_own(launcher, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 4)
    with pytest.raises(InputError, match='set LOCAL_RANK'): distributed._own_gpu()
    launcher(LOCAL_RANK='1')
    assert distributed._own_gpu() == 1
    launcher(LOCAL_RANK='4')
    with pytest.raises(InputError, match='process 4 .* there are 4'): distributed._own_gpu()
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 1)
    launcher(LOCAL_RANK='3')
    with pytest.raises(InputError, match='process 3 .* there are 1'): distributed._own_gpu()
    launcher(LOCAL_RANK='3', CUDA_VISIBLE_DEVICES='5') # as Slurm's --gpus-per-task=1
    assert distributed._own_gpu() == 0
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 2)
    with pytest.raises(InputError, match='process 3 .* there are 2'): distributed._own_gpu()

@pytest.mark.parametrize('name, n, n_here, is_refused', [
    ('cuda:0', 2, '2', True), ('cuda', 2, '2', False), (None, 2, '2', False),
    ('cuda:0', 1, '1', False), ('cuda:0', 2, '1', False)]) # one on each of two machines
def test_one_gpu_for_several_processes(name, n, n_here, is_refused, launcher, monkeypatch):
    monkeypatch.setattr(distributed, 'world_size', lambda: n)
    launcher(LOCAL_WORLD_SIZE=n_here)
    if not is_refused: return check_shared_device(name)
    with pytest.raises(FieldError, match='device is cuda:0, one GPU for 2 processes'):
        check_shared_device(name)

@pytest.mark.parametrize('error, is_lost', [
    (RuntimeError('[gloo/transport/tcp/pair.cc:547] Connection closed by peer'), True),
    (RuntimeError('Timed out waiting 1800000ms for recv operation to complete'), True),
    (dist.DistBackendError('NCCL error: remote process exited'), True),
    (RuntimeError('mat1 and mat2 shapes cannot be multiplied'), False),
    (torch.OutOfMemoryError('CUDA out of memory'), False)])
def test_only_lost_processes_are_explained(error, is_lost):
    found = distributed._if_others_left(error)
    if is_lost: assert isinstance(found, InputError) and 'go on with `resume`' in str(found)
    else: assert found is error

def trainer(folder, n):
    torch.manual_seed(0)
    config = TransformerConfig(10, d_model=8, d_ff=8, n_heads=2, n_encoder_layers=1,
                               n_decoder_layers=1, dropout=0.)
    batches = TokenBatches([([5, 6], [7, 8])] * 4, 64, 0)
    settings = TrainingConfig(max_steps=n, save_every=2, valid_every=2, lr=0.01,
                              grad_accum_steps=2 // world_size())
    return Trainer(Transformer(config), batches, [*batches.epoch(0)], settings, folder)

def total(weights): return sum(w.double().sum() for w in weights).item()

def resumed(rank, folder, said):
    "In a process of its own: the step, and sums of the weights and of their mean"
    everything = Checkpoints.paths
    def listed(self, kind): # the newest file isn't in what the second process sees
        found = everything(self, kind)
        return found[:-1] if rank == 1 else found
    os.environ.update(LAUNCHED, RANK=str(rank), LOCAL_RANK=str(rank))
    with process_group(), mock.patch.object(Checkpoints, 'paths', listed):
        t = trainer(folder, 100)
        assert t.resume()
        mean = _final_weights(t.files.checkpoints, 'mean')
        sums = total(t.model.parameters()), total(mean.values())
        said.put((rank, t.state.step, sums))

@pytest.mark.slow
def test_processes_resume_from_one_state(tmp_path, copies):
    "Though one of them does not see the newest file yet, as on a network's folder"
    trainer(tmp_path, 4).run()
    context = copies('spawn')
    said = context.Queue()
    both = [context.Process(target=resumed, args=(rank, tmp_path, said))
            for rank in range(2)]
    for process in both: process.start()
    (_, *first), (_, *second) = [said.get(timeout=120) for _ in both]
    for process in both: process.join(60)
    assert first == second and first[0] == 4
    assert [process.exitcode for process in both] == [0, 0]

PHASES = dict( # the method, and at which of its calls a process is killed
    resume=(RunFiles, 'restore', 1), step=(Trainer, '_take_one_step', 2),
    checkpoint=(Trainer, 'save', 2), validation=(Trainer, '_validate', 2),
    end=(Trainer, '_choose_weights', 1))

def mortal(rank, who, phase, port, folder, said):
    "In a process of its own: trains, unless it is the one that is killed"
    os.environ.update(LAUNCHED, RANK=str(rank), LOCAL_RANK=str(rank), MASTER_PORT=port)
    of, name, n_calls = PHASES[phase]
    whole, calls = getattr(of, name), []
    def dying(self, *args, **options):
        calls.append(name)
        if rank == who and len(calls) == n_calls: os.kill(os.getpid(), signal.SIGKILL)
        return whole(self, *args, **options)
    try:
        with process_group(), mock.patch.object(of, name, dying):
            t = trainer(folder, 8)
            t.resume()
            t.run()
    except InputError as e:
        said.put(str(e))
        said.close()
        said.join_thread() # it is written before the process ends
        os._exit(2)

@pytest.mark.slow
@pytest.mark.parametrize('phase, who', [ # the first process or the second
    ('resume', 0), ('resume', 1), ('step', 0), ('checkpoint', 1), ('validation', 0),
    ('end', 1)])
def test_a_process_is_killed(phase, who, tmp_path, copies):
    "The other ends soon and says why; the training goes on as if nothing had happened"
    trainer(tmp_path/'left alone', 8).run()
    trainer(tmp_path/'killed', 4).run()
    with socket.create_server(('127.0.0.1', 0)) as server: port = server.getsockname()[1]
    context = copies('spawn')
    said = context.Queue()
    arguments = who, phase, str(port), tmp_path/'killed', said
    both = [context.Process(target=mortal, args=(rank, *arguments)) for rank in (0, 1)]
    for process in both: process.start()
    try: message = said.get(timeout=60)
    finally:
        for process in both: process.join(30)
        for process in both: process.kill() # if it still waits
    assert f'process {1 - who} has lost the others' in message and '\n' not in message
    statuses = [process.exitcode for process in both]
    killed, other = statuses[who], statuses[1 - who]
    assert (killed, other) == (-signal.SIGKILL, 2)
    t = trainer(tmp_path/'killed', 8)
    assert t.resume() and t.state.step in (4, 6, 8)
    t.run()
    undisturbed = trainer(tmp_path/'left alone', 8)
    undisturbed.resume()
    assert t.state.step == undisturbed.state.step == 8
    sums = [total(run.model.parameters()) for run in (t, undisturbed)]
    assert sums[0] == pytest.approx(sums[1])
