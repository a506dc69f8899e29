"Training: accumulation, processes, kills, damage, and what else goes wrong in long runs."
import json, math, os, re, shutil, signal, subprocess, sys, threading, time
from dataclasses import fields
from itertools import count, islice
from multiprocessing import active_children
from pathlib import Path
from types import SimpleNamespace
import pytest, torch
from safetensors.torch import load_file
from transformer_nb import training
from transformer_nb.checkpoint import (
    Checkpoints, average, cpu_state_dict, load_model, load_verified, save_verified)
from transformer_nb.commands import tnb_train
from transformer_nb.support.core import FieldError, InputError
from transformer_nb.data import TokenBatches, make_batch
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam, set_lr, smoothed_loss
from transformer_nb.training import (
    TrainingState, ProgressBar, Trainer, TrainingConfig, accumulate_gradients, batch_groups,
    choose_precision, plot_training, valid_loss, wrap_model)
from running import BIN, call, refuses, run, sample, write

ROOT = Path(__file__).parent.parent

def pairs(n, seed=0):
    rng = torch.Generator().manual_seed(seed)
    def ids():
        length = torch.randint(1, 12, (1,), generator=rng).item()
        return torch.randint(4, 50, (length,), generator=rng).tolist()
    return [(ids(), ids()) for _ in range(n)]

def small(dropout=0.):
    config = TransformerConfig(50, d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1,
                               n_decoder_layers=1, dropout=dropout)
    return Transformer(config)

def trainer(folder, on_validate=None, **settings):
    torch.manual_seed(0)
    batches = TokenBatches(pairs(150), 100)
    defaults = dict(max_steps=12, warmup_steps=5, valid_every=3, save_every=2, average=3)
    config = TrainingConfig(**defaults | settings)
    valid = list(batches.epoch(0))[:2]
    return Trainer(small(0.2), batches, valid, config, folder, dict(corpus='random'),
                   on_validate=on_validate)

def run_to_end(folder, **settings):
    t = trainer(folder, **settings)
    t.run()
    return t

def resumed(folder, **settings):
    t = trainer(folder, **settings)
    assert t.resume()
    return t

def saved_steps(folder): # of which the weights are there
    paths = Checkpoints(folder/'checkpoints', 3).paths()
    return [int(path.stem.split('-')[1]) for path in paths]

def assert_same_weights(a, b):
    a, b = cpu_state_dict(a.model), cpu_state_dict(b.model)
    for name in a: assert torch.equal(a[name], b[name]), name

def on_training_batch(model, change):
    "Let `change(number of the batch, logits)` give the logits of each training batch"
    numbers = count()
    def hook(module, inputs, logits):
        if module.training: return change(next(numbers), logits)
    model.register_forward_hook(hook)

# The gradient

@pytest.mark.parametrize('n_parts', [1, 2, 3, 7])
def test_accumulation_equals_the_large_batch(n_parts):
    model, rows = small().double(), pairs(21)
    def gradient(batches):
        model.zero_grad()
        loss = accumulate_gradients(model, batches, label_smoothing=0.1)
        return loss, torch.cat([p.grad.flatten() for p in model.parameters()])
    inner = torch.randperm(20)[:n_parts - 1] + 1
    cuts = [0, *sorted(inner.tolist()), 21]
    loss, grad = gradient([make_batch(rows[a:b]) for a, b in zip(cuts, cuts[1:])])
    whole_loss, whole = gradient([make_batch(rows)])
    torch.testing.assert_close(loss, whole_loss, rtol=0, atol=1e-10)
    torch.testing.assert_close(grad, whole, rtol=0, atol=1e-10)

def test_steps_share_every_batch_once():
    batches = TokenBatches(pairs(150), 100)
    plan, groups = batches.plan(0) + batches.plan(1), batch_groups(batches, 4)
    seen = []
    for _ in range(len(plan) // 4):
        _, _, group = next(groups)
        seen += group
    assert [rows.tolist() for rows in seen] == [rows.tolist() for rows in plan[:len(seen)]]

def test_processes_share_the_batches_of_a_step(monkeypatch):
    batches, config = TokenBatches(pairs(150), 100), TrainingConfig(grad_accum_steps=2)
    monkeypatch.setattr(training, 'world_size', lambda: 2)
    shares = []
    for n in range(2):
        monkeypatch.setattr(training, 'rank', lambda: n)
        state, cpu = TrainingState(), torch.device('cpu')
        steps = training._training_steps(batches, config, state, cpu)
        shares.append(next(steps))
    (first, n_tokens), (second, known_by_both) = shares
    assert n_tokens == known_by_both == sum(batch.n_tokens for batch in first + second)
    for rows, batch in zip(batches.plan(0), [first[0], second[0], first[1], second[1]]):
        assert torch.equal(batch.src, batches.batch(rows).src)

def test_processes_differ_in_their_dropout(tmp_path, monkeypatch):
    monkeypatch.setattr(training, 'rank', lambda: 1)
    trainer(tmp_path, seed=5)
    assert torch.initial_seed() == 1_000_008

def test_buffers_are_not_sent_around(monkeypatch):
    "They are the position tables, which no process changes"
    monkeypatch.setattr(training, 'world_size', lambda: 2)
    monkeypatch.setattr(training, 'DistributedDataParallel', lambda model, **kwargs: kwargs)
    assert wrap_model(small(), TrainingConfig()) == dict(broadcast_buffers=False)

@pytest.mark.smoke
def test_one_bad_batch_is_skipped(tmp_path):
    t = trainer(tmp_path)
    on_training_batch(t.model, lambda n, x: x * float('nan') if n in (4, 5) else x)
    last = t.run()[-1]
    assert last['skipped'] == 2 and last['step'] == 12
    assert all(w.isfinite().all() for w in cpu_state_dict(t.model).values())

def test_ten_bad_batches_stop_the_run(tmp_path):
    t = trainer(tmp_path, max_steps=40, valid_every=6)
    on_training_batch(t.model, lambda n, x: x * float('inf') if n >= 6 else x)
    with pytest.raises(InputError, match='steps 7 to 16') as error: t.run()
    _, info = load_verified(tmp_path/'checkpoints'/'best.safetensors')
    kept = f"best.safetensors keeps the weights of validation loss {info['valid_loss']:.4f}"
    assert kept in str(error.value)
    again = resumed(tmp_path, max_steps=40, valid_every=6) # from the checkpoint before
    assert again.state.step == 14 and again.state.skipped == 8
    assert all(w.isfinite().all() for w in cpu_state_dict(again.model).values())

@pytest.mark.parametrize('settings', [
    dict(lr=1e308), dict(lr=1e38, max_steps=1), dict(lr=1e38, save_every=1, valid_every=9),
    dict(lr=1e30, save_every=1), dict(lr=1e10, max_steps=2)])
def test_what_diverged_is_not_written(settings, tmp_path):
    "No weights that are NaN or infinite, no losses either, and no promise about the rest"
    t = trainer(tmp_path, warmup_steps=1, **settings)
    with pytest.raises(InputError, match='diverged: .*nothing had been validated before'):
        t.run()
    for path in t.files.checkpoints.folder.iterdir():
        tensors, _ = load_verified(path)
        assert all(x.isfinite().all() for x in tensors.values()), path
    assert not (tmp_path/'metrics.jsonl').exists()

def test_nan_in_a_weight_that_no_sentence_needs(tmp_path):
    t = trainer(tmp_path)
    t.model.spare = torch.nn.Parameter(torch.tensor([float('nan')]))
    with pytest.raises(InputError, match='spare has weights that are not finite'):
        t._validate()
    assert not t.files.checkpoints.folder.exists()

def test_a_diverged_training_is_bad_input(texts, tmp_path):
    more = ['--max_steps', 1, '--lr', 1e38, '--warmup_steps', 1]
    done = train(*options(texts, tmp_path/'m', *more))
    assert done.returncode == 2 and done.stdout == b''
    assert b'the training has diverged: after step 1' in done.stderr
    assert not (tmp_path/'m'/'model.safetensors').exists()

@pytest.mark.parametrize('name, value, wanted', [
    ('lr', float('inf'), 'finite'), ('lr', float('nan'), 'above 0'), ('lr', 0., 'above 0'),
    ('max_minutes', float('inf'), 'finite'), ('label_smoothing', 1., 'at least 0'),
    ('seed', 99999999999999999999999, 'from 0 to 4294967295'), ('seed', -1, 'from 0'),
    ('weights', 'first', 'one of: auto, mean, best, last')])
def test_settings_out_of_range_are_refused(name, value, wanted):
    with pytest.raises(InputError, match=f'^{name} is .*; it must be {wanted}'):
        TrainingConfig(**{name: value})

@pytest.mark.parametrize('settings, message', [
    (dict(decay_steps=1000), 'decay_steps is 1000; it must be more than warmup_steps'),
    (dict(decay_steps=9000), 'max_steps is 10000; it must be at most decay_steps')])
def test_decay_that_cannot_be_is_refused(settings, message):
    with pytest.raises(InputError, match=message): TrainingConfig(**settings)

def test_decay_to_zero_in_a_straight_line(tmp_path):
    t = run_to_end(tmp_path/'straight', lr=5e-3, decay_steps=15, valid_every=1)
    assert [line['lr'] for line in t.history] == pytest.approx(
        [1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 4.5e-3, 4e-3, 3.5e-3, 3e-3, 2.5e-3, 2e-3, 1.5e-3])
    run_to_end(tmp_path/'parts', lr=5e-3, decay_steps=15, max_steps=7)
    again = resumed(tmp_path/'parts', lr=5e-3, decay_steps=15)
    again.run()
    assert_same_weights(t, again)

def test_weight_decay_shrinks_matrices(tmp_path):
    "One step with decay is the step without, and a share off every matrix, of no vector"
    torch.manual_seed(0)
    start = cpu_state_dict(small())
    def after_one_step(name, **more):
        t = run_to_end(tmp_path/name, max_steps=1, warmup_steps=1, lr=0.01, **more)
        return cpu_state_dict(t.model)
    plain, decayed = after_one_step('plain'), after_one_step('decayed', weight_decay=0.5)
    for name, w in plain.items():
        share = 0.01 * 0.5 if w.dim() > 1 else 0.
        torch.testing.assert_close(decayed[name], w - share * start[name])

def test_weight_decay_goes_on_after_a_resume(tmp_path):
    whole = run_to_end(tmp_path/'whole', weight_decay=0.1)
    run_to_end(tmp_path/'parts', weight_decay=0.1, max_steps=7)
    again = resumed(tmp_path/'parts', weight_decay=0.1)
    again.run()
    assert_same_weights(whole, again)

def test_clipping_limits_the_step(tmp_path):
    t = trainer(tmp_path, max_grad_norm=1e-3, max_steps=2)
    norms, step = [], t.optimizer.step
    def noting_step():
        gradient = torch.cat([p.grad.flatten() for p in t.model.parameters()])
        norms.append(gradient.norm().item())
        step()
    t.optimizer.step = noting_step
    t.run()
    assert norms and max(norms) < 1.001e-3

# The end

def test_patience(tmp_path):
    settings = dict(max_steps=500, lr=10., warmup_steps=1, patience=2, valid_every=1)
    lines = trainer(tmp_path, **settings).run()
    losses = [line['valid_loss'] for line in lines]
    assert len(losses) < 500
    last = lines[-1]
    assert min(losses) == losses[-3] == last['best_loss']
    assert last['weights'] == 'mean' # of three, each thrown about by such steps
    assert last['final_loss'] == last['average_loss'] < last['best_loss']

PATIENT = dict(max_steps=500, lr=0.1, patience=3, valid_every=1)

@pytest.fixture(scope='module')
def ended(tmp_path_factory):
    "A training whose best weights are neither its last nor its mean"
    folder = tmp_path_factory.mktemp('ended')
    t = run_to_end(folder, **PATIENT)
    last = t.history[-1]
    assert last['best_loss'] < min(last['valid_loss'], last['average_loss'])
    return t

def weights_of(path): return load_verified(path)[0]

@pytest.mark.parametrize('asked', ['auto', 'mean', 'best', 'last'])
def test_the_model_ends_with_the_weights_asked_for(asked, ended):
    t = resumed(ended.files.folder, weights=asked, **PATIENT)
    last = t.run()[-1]
    paths = t.files.checkpoints.paths()
    best = t.files.checkpoints.folder/'best.safetensors'
    files = dict(mean=paths, best=[best], last=paths[-1:])
    losses = dict(mean='average_loss', best='best_loss', last='valid_loss')
    chosen = last['weights']
    assert chosen == ('best' if asked == 'auto' else asked)
    assert last['final_loss'] == last[losses[chosen]]
    weights = average(files[chosen])
    for name, w in cpu_state_dict(t.model).items(): assert torch.equal(w, weights[name])

def test_damaged_best_weights(ended, capsys):
    path = ended.files.checkpoints.folder/'best.safetensors'
    data = path.read_bytes()
    path.write_bytes(data[:-7])
    with pytest.raises(InputError, match='best.safetensors is damaged'):
        resumed(ended.files.folder, weights='best', **PATIENT).run()
    last = resumed(ended.files.folder, **PATIENT).run()[-1] # nobody asked for the best
    assert last['weights'] == 'mean' and last['final_loss'] == last['average_loss']
    assert 'best.safetensors is damaged' in capsys.readouterr().err
    path.write_bytes(data)

@pytest.mark.parametrize('change', [
    lambda state, info: info.pop('progress'),
    lambda state, info: info['progress'].update(stranger=1),
    lambda state, info: info.pop('run_settings'),
    lambda state, info: [state.pop(name) for name in list(state) if 'model.' in name]])
def test_a_state_that_lacks_something(change, ended, tmp_path):
    t = trainer(tmp_path, **PATIENT)
    state, info = ended.files.checkpoints.last_state()
    change(state, info)
    t.files.checkpoints.save('state', 1, state, info)
    with pytest.raises(InputError) as e: t.resume()
    assert len(str(e.value)) < 1500

def test_progress_is_finished():
    c = TrainingConfig(max_steps=10, max_minutes=1, patience=2)
    assert not TrainingState(step=9, seconds=59., evals_since_best=1).finished(c)
    assert TrainingState(step=10).finished(c)
    assert TrainingState(seconds=60.).finished(c)
    assert TrainingState(evals_since_best=2).finished(c)

def test_precision_is_chosen_at_the_start(tmp_path):
    t = trainer(tmp_path)
    assert TrainingConfig().precision == 'auto'
    expected = 'bf16' if t.device.type == 'cuda' else 'fp32'
    assert t.config.precision == t.files.run_settings['precision'] == expected

def test_emulated_bf16_is_not_chosen(monkeypatch):
    "As on a T4, which PyTorch lets compute in bf16, slowly"
    def has_bf16(including_emulation=True): return including_emulation
    monkeypatch.setattr(torch.cuda, 'is_bf16_supported', has_bf16)
    assert choose_precision('auto', torch.device('cuda')) == 'fp16'
    with pytest.raises(InputError, match='fp16 needs a CUDA GPU'):
        choose_precision('fp16', torch.device('cpu'))

def test_validation_has_the_precision_of_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr(training, 'choose_precision', lambda *_: 'bf16')
    t = trainer(tmp_path, max_steps=1, weights='last')
    t.run()
    exact, rounded = (valid_loss(t.model, t.valid, name) for name in ('fp32', 'bf16'))
    assert t.state.valid_loss == rounded != exact
    assert abs(rounded - exact) < 0.1

def test_16_bits_end_before_the_softmax():
    "Logits come from rounded products; softmax, logarithm and sum are float32's"
    torch.manual_seed(0)
    model, batch = small(), next(TokenBatches(pairs(8), 100).epoch(0))
    with torch.autocast('cpu', torch.bfloat16):
        loss = training.token_loss(model, batch, 0.1)
        logits = model(batch.src, batch.tgt)
    exact = smoothed_loss(logits.float(), batch.labels, 0.1) / batch.n_tokens
    assert logits.dtype == torch.bfloat16 and loss.dtype == torch.float32
    assert torch.equal(loss, exact)

@pytest.fixture
def fp16(monkeypatch):
    "A CPU can compute in fp16, too, only slowly"
    monkeypatch.setattr(training, 'choose_precision', lambda *_: 'fp16')

def test_fp16_learns_what_fp32_learns(fp16, tmp_path):
    half = run_to_end(tmp_path/'half')
    assert half.scaler.get_scale() == 65536 and half.state.skipped == 0
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as patch:
        patch.setattr(training, 'choose_precision', lambda *_: 'fp32')
        full = run_to_end(tmp_path/'full')
    assert full.scaler is None
    losses = [[line['train_loss'] for line in t.history] for t in (half, full)]
    assert losses[0] == pytest.approx(losses[1], abs=0.02)

def test_an_overflow_halves_the_scale_and_skips_the_step(fp16, tmp_path):
    t = trainer(tmp_path, max_steps=3)
    on_training_batch(t.model, lambda n, logits: logits * (1e30 if n == 1 else 1))
    t.run()
    assert t.state.skipped == 1 and t.scaler.get_scale() == 32768

def test_fp16_resumes_with_its_scale(fp16, tmp_path):
    def overflowing(t):
        on_training_batch(t.model, lambda n, logits: logits * (1e30 if n == 1 else 1))
        return t
    whole = overflowing(trainer(tmp_path/'whole'))
    whole.run()
    overflowing(trainer(tmp_path/'cut', max_steps=4)).run()
    t = resumed(tmp_path/'cut')
    assert t.scaler.get_scale() == 32768
    t.run()
    assert t.scaler.state_dict() == whole.scaler.state_dict()
    assert_same_weights(t, whole)

# Without waiting for the device

@pytest.mark.parametrize('is_bad', [False, True])
def test_the_optimizer_skips_by_itself(is_bad):
    "As on a GPU, where nobody reads the answer; fused optimizers of a CPU can, too"
    model = small()
    optimizer = adam(model, fused=True)
    set_lr(optimizer, 0.1)
    for p in model.parameters(): p.grad = torch.full_like(p, math.nan if is_bad else 0.1)
    before = {name: w.clone() for name, w in cpu_state_dict(model).items()}
    class OnDevice: # a flag that cannot be read
        device = torch.device('cuda')
        def float(self): return torch.tensor(float(is_bad))
        def __bool__(self): raise AssertionError('somebody waited')
    training._step_unless(OnDevice(), optimizer)
    after = cpu_state_dict(model)
    changed = [not torch.equal(before[name], after[name]) for name in before]
    assert any(changed) != is_bad
    steps = {state['step'].item() for state in optimizer.state.values()}
    assert steps == {0. if is_bad else 1.}

def test_results_read_later_are_the_same(tmp_path, monkeypatch):
    "A look at every step, or only when one is due"
    def run(folder, **settings):
        t = trainer(folder, save_every=6, valid_every=6, **settings)
        on_training_batch(t.model, lambda n, logits: logits * (math.nan if n == 2 else 1))
        t.run()
        return t
    every = run(tmp_path/'every')
    reads = []
    read = training.StepResults.read
    def counted(self, s):
        reads.append(len(self.unread))
        read(self, s)
    monkeypatch.setattr(training.StepResults, 'read', counted)
    monkeypatch.setattr(training.Trainer, '_next_look', lambda t, *_: t.state.step + 50)
    late = run(tmp_path/'late')
    assert sorted(reads)[-1] == 6 and sum(reads) == 12
    assert_same_weights(every, late)
    assert losses_of(every) == losses_of(late)

def losses_of(t):
    names = ('train_loss', 'valid_loss', 'skipped')
    return [[line[name] for name in names] for line in t.history]

def test_ten_bad_steps_are_named_even_when_read_late(tmp_path, monkeypatch):
    monkeypatch.setattr(training.Trainer, '_next_look', lambda t, *_: t.state.step + 50)
    t = trainer(tmp_path, max_steps=30, save_every=20, valid_every=20)
    on_training_batch(t.model, lambda n, logits: logits * (math.nan if n >= 3 else 1))
    with pytest.raises(InputError, match='steps 4 to 13 had no finite'): t.run()

def test_a_gpu_is_looked_at_about_once_a_second():
    t = SimpleNamespace(device=torch.device('cuda'), state=TrainingState(step=100))
    looks = [training.Trainer._next_look(t, seconds, steps) - 100
             for seconds, steps in ((1., 20), (2., 1), (0.1, 10), (0., 1))]
    assert looks == [20, 1, 50, 50]
    t.device = torch.device('cpu')
    assert training.Trainer._next_look(t, 1., 20) == 101

def test_a_long_plan_is_made_before_it_is_needed(monkeypatch):
    monkeypatch.setattr(training, '_LONG_PLAN', 5)
    batches = TokenBatches(pairs(300), 60)
    made = []
    plan = TokenBatches.plan
    def noted(self, n):
        made.append((n, threading.current_thread() is threading.main_thread()))
        return plan(self, n)
    monkeypatch.setattr(TokenBatches, 'plan', noted)
    groups = batch_groups(batches, 1)
    n = len(plan(batches, 0))
    walked = [next(groups) for _ in range(n + 1)]
    assert made[:2] == [(0, True), (1, False)]
    for (_, _, [rows]), expected in zip(walked[:n], plan(batches, 0)):
        assert rows.tolist() == expected.tolist()
    epoch, _, [rows] = walked[n]
    assert epoch == 1 and rows.tolist() == plan(batches, 1)[0].tolist()

def test_compiled_path_with_a_space_is_refused(monkeypatch):
    monkeypatch.setattr(sys, 'prefix', '/a path')
    config = TrainingConfig(compile=True)
    with pytest.raises(InputError, match='space'): wrap_model(small(), config)

@pytest.mark.parametrize('compiler', sample(['/no/such/compiler', 'false'], 2))
def test_without_a_compiler_one_line_says_so(compiler):
    "As in slim images; `false` is one that is there and fails"
    from torch._inductor import config
    torch._dynamo.reset()
    lacking = {'cpp.cxx': (None, compiler), 'force_disable_caches': True}
    message = '^compile cannot build here; it needs a C.. compiler: .+'
    with config.patch(lacking), pytest.raises(FieldError, match=message) as error:
        wrap_model(small(), TrainingConfig(compile=True))
    assert '\n' not in str(error.value) and len(str(error.value)) < 180

# Killed, damaged, resumed

@pytest.mark.slow
def test_kills():
    "Eight kills at random moments, and not one number differs; a hundred in the weekly job"
    command = [sys.executable, ROOT/'tools'/'kills.py', '8']
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = (r'8 kills, [1-9]\d* of them while a file was being written, '
                r'[1-9]\d* trainings completed, 0 numbers differ')
    assert re.search(expected, done.stdout), done.stdout

@pytest.mark.parametrize('harm', ['cut', 'altered', 'empty', 'foreign'])
@pytest.mark.smoke
def test_damaged_state_falls_back(harm, tmp_path, capsys):
    peace = run_to_end(tmp_path/'peace')
    broken = run_to_end(tmp_path/'broken', max_steps=7)
    path = broken.files.checkpoints.paths('state')[-1]
    data = path.read_bytes()
    altered = bytearray(data)
    altered[len(data)//2] ^= 4
    harmed = dict(cut=data[:-7], altered=altered, empty=b'', foreign=b'what is this')
    path.write_bytes(harmed[harm])
    again = resumed(tmp_path/'broken')
    assert again.state.step == 6
    assert f'{path} is damaged' in capsys.readouterr().err
    again.run()
    assert_same_weights(peace, again)

def test_damaged_weights_are_left_out_of_the_mean(tmp_path, capsys):
    t = run_to_end(tmp_path, max_steps=7)
    t.files.checkpoints.paths()[0].write_bytes(b'')
    again = resumed(tmp_path, max_steps=7)
    assert again.state.step == 7
    again.run()
    assert 'left out' in capsys.readouterr().err
    assert len(again.files.checkpoints.intact()) == 2

def test_weights_of_another_training_are_left_out_of_the_mean(tmp_path, capsys):
    t, other = run_to_end(tmp_path/'ours'), run_to_end(tmp_path/'other', seed=1)
    weights = 'weights-00000008.safetensors'
    data = (other.files.checkpoints.folder/weights).read_bytes()
    (t.files.checkpoints.folder/weights).write_bytes(data)
    again = resumed(tmp_path/'ours', weights='mean')
    again.run()
    assert f'{weights} belongs to another run' in capsys.readouterr().err
    weights = average(t.files.checkpoints.paths()[1:])
    for name, w in cpu_state_dict(again.model).items(): assert torch.equal(w, weights[name])

OTHER_SETTINGS = [
    (dict(lr=1e-3), 'lr was 0.005 and is 0.001'),
    (dict(seed=3), 'seed was 0 and is 3'),
    (dict(decay_steps=20), 'decay_steps was None and is 20'),
    (dict(weight_decay=0.1), 'weight_decay was None and is 0.1'),
    (dict(grad_accum_steps=2), 'batches_per_step was 1 and is 2'),
    (dict(fixed_shapes=True), 'fixed_shapes was None and is True'),
    (dict(label_smoothing=0.2), 'label_smoothing was 0.1 and is 0.2'),
    (dict(max_grad_norm=1.), 'max_grad_norm was None and is 1.0'),
    (dict(warmup_steps=6), 'warmup_steps was 5 and is 6')]

@pytest.mark.parametrize('change, message', OTHER_SETTINGS)
def test_resume_refuses_other_settings(change, message, tmp_path):
    run_to_end(tmp_path, max_steps=3)
    with pytest.raises(InputError, match=message): trainer(tmp_path, **change).resume()

MAY_CHANGE = '''max_steps max_minutes patience patience_on valid_bleu log_every valid_every
    valid_every_minutes save_every save_every_minutes average weights compile workers
    device'''.split()

def test_every_setting_may_change_or_is_compared():
    "A new field belongs into one of the two lists; on a CPU there is only one precision"
    compared = [name for change, _ in OTHER_SETTINGS for name in change]
    there = [field.name for field in fields(TrainingConfig)]
    assert sorted([*compared, *MAY_CHANGE, 'precision']) == sorted(there)

def test_settings_that_no_step_depends_on_may_change(tmp_path):
    "The last steps before the mean are the same bits"
    straight = run_to_end(tmp_path/'straight', average=1)
    run_to_end(tmp_path/'parts', max_steps=5)
    changed = resumed(tmp_path/'parts', average=1, save_every=5, valid_every=4, patience=50,
                      max_minutes=60, device='cpu')
    steps = [line['step'] for line in changed.run() if line['step'] > 5]
    assert steps == [8, 12] and saved_steps(tmp_path/'parts') == [12]
    assert_same_weights(straight, changed)

@pytest.fixture
def half_minutes(monkeypatch):
    "Every step takes half a minute"
    def stopwatch(seconds):
        ticks = count(1)
        return lambda: seconds + 30 * next(ticks)
    monkeypatch.setattr(training, '_stopwatch', stopwatch)

IN_STEPS = dict(save_every=2, valid_every=3)
IN_MINUTES = dict(save_every_minutes=1, save_every=1,
                  valid_every_minutes=1.5, valid_every=1)

def test_minutes_come_before_steps(tmp_path, half_minutes):
    "A minute is two steps here, so both ways give the same training"
    in_steps = run_to_end(tmp_path/'steps', **IN_STEPS)
    in_minutes = run_to_end(tmp_path/'minutes', **IN_MINUTES)
    for t in (in_steps, in_minutes):
        assert [line['step'] for line in t.history] == [3, 6, 9, 12]
        assert saved_steps(t.files.folder) == [8, 10, 12]
    assert_same_weights(in_steps, in_minutes)

@pytest.mark.parametrize('cadence', [IN_STEPS, IN_MINUTES])
def test_broken_off_keeps_its_cadence(cadence, tmp_path, half_minutes):
    straight = run_to_end(tmp_path/'straight', **cadence)
    broken = trainer(tmp_path/'parts', **cadence)
    def crash(n, logits):
        if n == 7: raise MemoryError # in step 8, after checkpoint 6
    on_training_batch(broken.model, crash)
    with pytest.raises(MemoryError): broken.run()
    again = resumed(tmp_path/'parts', **cadence)
    assert again.state.step == 6
    again.run()
    assert [line['step'] for line in again.history] == [3, 6, 9, 12]
    assert saved_steps(tmp_path/'parts') == [8, 10, 12]
    assert_same_weights(straight, again)

@pytest.mark.parametrize('cadence', [IN_STEPS, IN_MINUTES])
def test_longer_after_the_end_is_the_same_training(cadence, tmp_path, half_minutes):
    straight = run_to_end(tmp_path/'straight', max_steps=7, **cadence)
    run_to_end(tmp_path/'parts', max_steps=5, **cadence)
    assert saved_steps(tmp_path/'parts') == [2, 4, 5] # 5 is no checkpoint of the other
    more = resumed(tmp_path/'parts', max_steps=7, **cadence)
    assert saved_steps(tmp_path/'parts') == [2, 4]
    more.run()
    assert saved_steps(tmp_path/'parts') == saved_steps(tmp_path/'straight') == [4, 6, 7]
    assert_same_weights(straight, more)

@pytest.mark.parametrize('number, limit', [
    (signal.SIGINT, dict(max_steps=4)), (signal.SIGTERM, dict(max_steps=1)),
    (signal.SIGTERM, dict(max_minutes=1e-9)),
    (signal.SIGUSR1, dict(max_steps=1))]) # as a scheduler warns before it kills
def test_signal_then_no_step_left(number, limit, tmp_path, capsys):
    "Stopped at step 4; resumed at or past its limit, it only validates and ends"
    t = trainer(tmp_path, valid_every=100, save_every=100)
    def interrupt(n, logits):
        if n == 3: os.kill(os.getpid(), number)
    on_training_batch(t.model, interrupt)
    message = 'stopped after step 4; go on with `resume`'
    with pytest.raises(KeyboardInterrupt, match=message): t.run()
    assert 'finishing this step, then saving a checkpoint' in capsys.readouterr().err
    again = resumed(tmp_path, valid_every=100, save_every=100, **limit)
    [line] = again.run()
    assert line['step'] == 4
    assert line['valid_loss'] == line['average_loss'] == line['best_loss']
    assert_same_weights(t, again)

# Batches made ahead

def test_workers_change_no_bit(tmp_path):
    "Two make batches, the training is broken off, and it ends without them"
    straight = run_to_end(tmp_path/'straight', workers=0, grad_accum_steps=2)
    broken = trainer(tmp_path/'broken', workers=2, grad_accum_steps=2)
    def crash(n, logits):
        if n == 13: raise MemoryError # in step 7, after checkpoint 6
    on_training_batch(broken.model, crash)
    with pytest.raises(MemoryError): broken.run()
    more = dict(grad_accum_steps=2, max_steps=9)
    resumed(tmp_path/'broken', workers=2, **more).run()
    again = resumed(tmp_path/'broken', workers=0, grad_accum_steps=2)
    again.run()
    losses = [[line['train_loss'] for line in t.history] for t in (straight, again)]
    assert losses[0] == losses[1]
    assert_same_weights(straight, again)
    assert not active_children()

WORKER_LOST = 'workers are processes, and one of them was killed; go on with `resume`'

def test_a_worker_that_is_killed_while_the_loop_waits_is_told(tmp_path, monkeypatch):
    load = training._StepData.__getitem__
    def lost(data, place):
        _, position, _ = place
        if position > 1: # the second step; the loop waits for it by then
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        return load(data, place)
    monkeypatch.setattr(training._StepData, '__getitem__', lost)
    with pytest.raises(FieldError, match=WORKER_LOST): trainer(tmp_path, workers=1).run()

def test_a_worker_that_is_killed_during_a_step_is_told(tmp_path, monkeypatch):
    def step(t, batches, n_tokens):
        [worker] = active_children()
        os.kill(worker.pid, signal.SIGKILL)
        for _ in range(100): time.sleep(0.1) # PyTorch's signal comes
        raise AssertionError('nobody noticed')
    monkeypatch.setattr(training.Trainer, '_take_one_step', step)
    with pytest.raises(FieldError, match=WORKER_LOST): trainer(tmp_path, workers=1).run()

@pytest.mark.parametrize('error', [ConnectionResetError, EOFError])
def test_a_batch_that_breaks_off_is_a_lost_worker(error, tmp_path, monkeypatch):
    def handing_over(*args): raise error
    monkeypatch.setattr(training.Trainer, '_take_one_step', handing_over)
    with pytest.raises(FieldError, match=WORKER_LOST): trainer(tmp_path).run()

def test_other_errors_of_a_step_are_not_a_lost_worker(tmp_path, monkeypatch):
    def fail(*args): raise RuntimeError('out of memory')
    monkeypatch.setattr(training.Trainer, '_take_one_step', fail)
    with pytest.raises(RuntimeError, match='out of memory'): trainer(tmp_path).run()

@pytest.mark.parametrize('name', ['Queue', 'share_memory_'])
def test_too_little_shared_memory_is_told_before_anything_waits(name, monkeypatch):
    "A worker that cannot hand over its batch says so and goes on, and the training waits"
    def full(*args): raise OSError(28, 'No space left on device')
    owner = torch.multiprocessing if name == 'Queue' else torch.Tensor
    monkeypatch.setattr(owner, name, full)
    batches, cpu = TokenBatches(pairs(9), 100), torch.device('cpu')
    def start(n):
        config = TrainingConfig(workers=n, grad_accum_steps=2)
        next(training._training_steps(batches, config, TrainingState(), cpu))
    start(0)
    message = 'workers is 3, for which /dev/shm lacks 28,800 bytes'
    with pytest.raises(FieldError, match=message): start(3)

def test_each_process_drops_out_its_own_units(tmp_path, monkeypatch):
    def seed(n):
        monkeypatch.setattr(training, 'rank', lambda: n)
        batches = TokenBatches(pairs(9), 100)
        Trainer(small(), batches, list(batches.epoch(0)), TrainingConfig(seed=5), tmp_path)
        return torch.initial_seed()
    assert seed(0) == 5 and len({seed(n) for n in range(4)}) == 4

def test_workers_leave_signals_to_the_training(tmp_path):
    "Ctrl-C reaches every process of a terminal; whether to end is decided by the loop"
    t = trainer(tmp_path, workers=1)
    def interrupt_worker(n, logits):
        if n != 3: return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            os.kill(active_children()[0].pid, number)
    on_training_batch(t.model, interrupt_worker)
    assert t.run()[-1]['step'] == 12
    assert not active_children()

# The lines of metrics.jsonl

def untimed(history):
    timed = ('tokens_per_second', 'seconds')
    return [{k: v for k, v in line.items() if k not in timed} for line in history]

@pytest.mark.parametrize('max_steps', [6, 12]) # ended before, and at the end
def test_lost_metrics_are_written_anew(max_steps, tmp_path):
    straight, folder = run_to_end(tmp_path/'straight'), tmp_path/'parts'
    run_to_end(folder, max_steps=max_steps)
    for harm in (None, b'', b'\xff\0', b'[1, 2]\n', b'{"step": 3'):
        if harm is None: (folder/'metrics.jsonl').unlink()
        else: (folder/'metrics.jsonl').write_bytes(harm)
        again = resumed(folder)
        steps = [line['step'] for line in read_metrics(folder)]
        assert steps == [*range(3, max_steps + 1, 3)]
    again.run()
    assert untimed(read_metrics(folder)) == untimed(straight.history)

def test_on_validate_gets_each_new_line(tmp_path):
    first, more = [], []
    trainer(tmp_path, first.append, max_steps=6).run()
    again = trainer(tmp_path, more.append)
    assert again.resume()
    history = again.run()
    assert [line['step'] for line in first + more] == [3, 6, 9, 12]
    assert [line | history[-1] for line in more[-1:]] == history[-1:]

def test_on_validate_is_for_the_first_process(tmp_path, monkeypatch):
    monkeypatch.setattr(training, 'rank', lambda: 1)
    lines = []
    history = training.MetricsLog(tmp_path, [], lines.append)
    history.report(TrainingState(valid_loss=1.))
    assert lines == [] and len(history) == 1 and not history.path.exists()

# The command

def options(texts, out, *more):
    files = []
    for split in ('train', 'valid'):
        prefix = '--valid_' if split == 'valid' else '--'
        files += [prefix + 'src', texts/f'{split}.de', prefix + 'tgt', texts/f'{split}.en']
    settings = ['--vocab_size', 400, '--save_every', 2, '--valid_every', 2, '--average', 3,
                '--batch_tokens', 512, '--warmup_steps', 5, '--d_model', 32, '--d_ff', 64,
                '--n_encoder_layers', 1, '--n_decoder_layers', 1]
    return ['--out', out, *files, *settings, *more]

def train(*arguments): return call(tnb_train, [str(x) for x in arguments])

def two_processes(*arguments):
    torchrun = ['torchrun', '--standalone', '--nproc_per_node=2', '--no-python', '--']
    done = run(*torchrun, BIN/'tnb_train', *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done

@pytest.mark.slow
def test_two_processes_are_one(texts, tmp_path):
    "With the same batches per step, and going on with the other number of processes"
    one, two = (tmp_path/name for name in ('one', 'two'))
    def arguments(out, *more): return options(texts, out, '--dropout', 0, *more)
    both = ['--grad_accum_steps', 2] # batches of a step
    for out, n in ((one, 6), (two, 2)):
        done = train(*arguments(out, *both, '--max_steps', n))
        assert done.returncode == 0, done.stderr.decode()
    done = two_processes(*arguments(two, '--max_steps', 6, '--resume'))
    assert done.stdout.count(b'6 steps') == 1 # one of them speaks
    a, b = (read_metrics(folder)[1:] for folder in (one, two))
    assert len(a) == len(b) == 3
    for x, y in zip(a, b):
        for key in ('train_loss', 'valid_loss'):
            assert abs(x[key] - y[key]) < 1e-4 # they are rounded to 1e-4
    a, b = (load_file(folder/'model.safetensors') for folder in (one, two))
    for name in a: torch.testing.assert_close(a[name], b[name], rtol=0, atol=1e-5)

def read_metrics(folder):
    return [json.loads(line) for line in (folder/'metrics.jsonl').read_text().splitlines()]

def test_ctrl_c_ends_with_a_checkpoint_and_resumes(texts, tmp_path):
    def arguments(*more): return options(texts, tmp_path/'m', '--save_every', 1000, *more)
    command = [str(x) for x in (BIN/'tnb_train', *arguments('--max_steps', 100_000))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env={**os.environ, 'TRANSFORMER_NB_DATA': ''})
    metrics, until = tmp_path/'m'/'metrics.jsonl', time.time() + 120
    while time.time() < until and not metrics.exists(): time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and 'Traceback' not in err, err
    stopped = re.search(r'tnb_train: stopped after step (\d+); go on with --resume', err)
    step = int(stopped[1])
    more = train(*arguments('--max_steps', step + 2, '--resume'))
    assert more.returncode == 0, more.stderr.decode()
    assert f'continued after step {step}' in more.stderr.decode()
    load_model(tmp_path/'m')

def test_resume_of_nothing_begins_anew_and_says_so(texts, tmp_path):
    done = train(*options(texts, tmp_path/'m', '--max_steps', 1, '--resume'))
    assert done.returncode == 0
    assert b'holds no checkpoint; starting from the beginning' in done.stderr

def test_resume_refuses_another_corpus_or_vocabulary(texts, tmp_path):
    done = train(*options(texts, tmp_path/'m', '--max_steps', 1))
    assert done.returncode == 0, done.stderr.decode()
    other_way = {'--src': '--tgt', '--tgt': '--src'}
    arguments = options(texts, tmp_path/'m', '--max_steps', 2, '--resume')
    swapped = [other_way.get(x, x) for x in arguments]
    refuses(train(*swapped), 'another run', 'src was')
    smaller = options(texts, tmp_path/'m', '--resume', '--vocab_size', 350)
    refuses(train(*smaller), 'vocab_size_asked was 400 and is 350')

def test_a_folder_with_something_else_is_refused(texts, tmp_path):
    write(tmp_path/'notes.txt', ['mine'])
    for more in ([], ['--resume']):
        refuses(train(*options(texts, tmp_path, *more)), 'not empty')
    assert (tmp_path/'notes.txt').read_text() == 'mine\n'

def test_vocabulary_larger_than_the_data_gives(texts, tmp_path):
    more = ['--max_steps', 1, '--vocab_size', 50_000]
    done = train(*options(texts, tmp_path/'m', *more))
    assert done.returncode == 0, done.stderr.decode()
    message = r'vocabulary of \d+ tokens \(the text yields no more; 50000 were requested\)'
    assert re.search(message, done.stderr.decode())

def all_from(path): # training and validation, both sides
    names = ('src', 'tgt', 'valid_src', 'valid_tgt')
    return [x for name in names for x in (f'--{name}', path)]

def test_only_long_lines(texts, tmp_path):
    write(tmp_path/'long', ['sehr ' * 3000] * 3)
    arguments = ['--out', tmp_path/'m', *all_from(tmp_path/'long'), '--vocab_size', 300]
    done = train(*arguments)
    refuses(done, 'no sentence pair is left to train on', '3 too long')
    assert not (tmp_path/'m').exists()

def test_budget_smaller_than_any_sentence(texts, tmp_path):
    done = train(*options(texts, tmp_path/'m', '--batch_tokens', 3))
    refuses(done, 'no sentence pair is left', 'at most 3 tokens')

def test_dropped_pairs_are_counted(texts, tmp_path):
    unfit = dict(de=['', 'x ' * 600, 'Ja.'], en=['Oh.', 'x ' * 600, 'so ' * 60])
    for lang, lines in unfit.items():
        good = (texts/f'train.{lang}').read_text().splitlines()[:100]
        write(tmp_path/lang, good + lines)
    de, en = tmp_path/'de', tmp_path/'en'
    arguments = ['--out', tmp_path/'m', '--src', de, '--tgt', en, '--valid_src', de,
                 '--valid_tgt', en, '--vocab_size', 300, '--max_steps', 1]
    done = train(*arguments)
    message = b'100 pairs to train on, left out: 1 empty, 1 too long, 1 out of proportion'
    assert message in done.stderr
    first = read_metrics(tmp_path/'m')[0]
    assert first['dropped'] == {'empty': 1, 'too long': 1, 'out of proportion': 1}
    assert first['pairs'] == 100

@pytest.fixture
def full_disk(tmp_path):
    "A file system of 3 MB"
    folder = tmp_path/'small'
    folder.mkdir()
    mount = ['mount', '-t', 'tmpfs', '-o', 'size=3m', 'tmpfs', folder]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip('may not mount a tmpfs here')
    yield folder
    subprocess.run(['umount', folder])

def test_full_disk(texts, full_disk):
    done = train(*options(texts, full_disk/'m', '--max_steps', 1, '--d_model', 256))
    refuses(done, 'state-00000000.safetensors', 'No space left on device')
    assert not list(full_disk.rglob('.*.tmp'))

def test_full_disk_keeps_the_checkpoint_before(full_disk):
    "Room for two states of the small model and not for three"
    (full_disk/'filler').write_bytes(bytes(2_600_000))
    t = trainer(full_disk/'m', max_steps=200, average=200)
    with pytest.raises(OSError, match='No space left'): t.run()
    assert resumed(full_disk/'m', max_steps=200, average=200).state.step > 0

def test_unwritable_folder(texts, tmp_path):
    write(tmp_path/'file', ['x'])
    refuses(train(*options(texts, tmp_path/'file'/'m')), 'file')

def test_bf16_needs_a_gpu(texts, tmp_path):
    if torch.cuda.is_available(): pytest.skip('there is a GPU here')
    def with_precision(name):
        return train(*options(texts, tmp_path/'m', '--precision', name))
    refuses(with_precision('bf16'), 'needs a CUDA GPU')
    refuses(with_precision('fp64'), "'fp64'", 'auto, fp32, bf16')

# What it shows

def show(monkeypatch, on_terminal):
    monkeypatch.delenv('IN_TEST')
    monkeypatch.delitem(sys.modules, 'ipykernel', raising=False) # of an earlier test
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: on_terminal)

def test_a_log_has_lines(tmp_path, monkeypatch, capsys):
    "One for `log_every` steps, one for each validation, no carriage return"
    show(monkeypatch, on_terminal=False)
    trainer(tmp_path, log_every=5, valid_every=4).run()
    err = capsys.readouterr().err
    assert '\r' not in err
    lines = err.splitlines()
    starts = [line.partition(':')[0] for line in lines]
    assert starts == ['step 4', 'step 5 of 12, epoch 0', 'step 8', 'step 10 of 12, epoch 0',
                      'step 12']
    for word in ('loss ', 'tokens/s', 'lr ', 'min left'): assert word in lines[1], word
    assert 'validation loss' in lines[0] and 'perplexity' in lines[0]

def test_speed_is_that_of_the_steps(tmp_path, monkeypatch):
    "Slow validations and checkpoints make no difference"
    now = [0.]
    def spending(seconds, call):
        def spend(*args, **options):
            now[0] += seconds
            return call(*args, **options)
        return spend
    monkeypatch.setattr(training, 'time', SimpleNamespace(perf_counter=lambda: now[0]))
    for name, seconds in dict(train_step=1, valid_loss=50, _save_state=20).items():
        monkeypatch.setattr(training, name, spending(seconds, getattr(training, name)))
    t = trainer(tmp_path)
    lines = t.run()
    tokens = [n for _, n in islice(training._training_steps(
        t.batches, t.config, TrainingState(), t.device), 12)]
    for i, line in enumerate(lines):
        assert line['tokens_per_second'] == round(sum(tokens[3*i:3*i + 3]) / 3)
    assert lines[-1]['seconds'] > 12 + 3 * 50 # the clock has all of it

def test_patience_on_bleu(tmp_path):
    "The loss falls on, and the training ends because BLEU does not rise"
    scores = iter([dict(bleu=b) for b in (1., 3., 3., 2., 2.5)])
    t = trainer(tmp_path, max_steps=100, valid_every=1, patience=2, patience_on='bleu',
                valid_bleu=9)
    modes = []
    def score(model):
        modes.append(model.training)
        return next(scores)
    t.scores = score
    lines = t.run()
    assert [line['bleu'] for line in lines] == [1., 3., 3., 2.]
    assert not any(modes) and t.model.training
    assert lines[-1]['best_loss'] == min(line['valid_loss'] for line in lines)
    again = resumed(tmp_path, max_steps=100, valid_every=1, patience=3, patience_on='bleu',
                    valid_bleu=9)
    again.scores = score
    assert [line['bleu'] for line in again.run()] == [1., 3., 3., 2., 2.5]

def test_the_bar_shows_what_matters(tmp_path, monkeypatch, capsys):
    show(monkeypatch, on_terminal=True)
    trainer(tmp_path, max_minutes=5).run()
    err = capsys.readouterr().err
    for word in ('loss=', 'valid_ppl=', 'tok/s=', 'lr=', '12/12'): assert word in err

def test_the_bar_bears_large_numbers(monkeypatch, capsys):
    show(monkeypatch, on_terminal=True)
    p = TrainingState(step=1, seconds=1., valid_loss=5000.)
    c = TrainingConfig(max_minutes=1e308)
    with ProgressBar(p, c) as bar:
        bar.show(p)
        bar.refresh()
    assert 'valid_ppl=inf' in capsys.readouterr().err

def test_learning_curve(tmp_path):
    ax = plot_training([dict(pairs=3)] + trainer(tmp_path).run())
    steps = [line.get_xdata().tolist() for line in ax.lines]
    assert steps == [[3, 6, 9, 12]] * 2

# Forged progress

WRONG = [('step', 'x'), ('step', None), ('step', -5), ('step', 1.5), ('epoch', -1),
         ('position', -1), ('seconds', math.nan), ('due_steps', 'x'), ('due_steps', ['a']),
         ('best_loss', 'x'), ('scaler', []), ('skipped', True)]

@pytest.fixture(scope='module')
def stored(tmp_path_factory):
    "A run of two steps"
    folder = tmp_path_factory.mktemp('run')
    run_to_end(folder, max_steps=2, valid_every=1, save_every=1)
    return folder

def forge(stored, folder, change):
    "A copy of which the newest state is changed, with a right checksum"
    shutil.copytree(stored, folder)
    newest = Checkpoints(folder/'checkpoints', 3).paths('state')[-1]
    tensors, info = load_verified(newest)
    change(tensors, info)
    newest.write_bytes(save_verified(tensors, info))
    return trainer(folder, max_steps=3, valid_every=1, save_every=1)

@pytest.mark.parametrize('name, value', WRONG)
def test_progress_of_another_kind_is_refused(name, value, stored, tmp_path):
    t = forge(stored, tmp_path/'m', lambda _, info: info['progress'].update({name: value}))
    with pytest.raises(InputError, match=f'the state is damaged: {name}'): t.resume()

@pytest.mark.parametrize('lines', ['text', [1], {}, None, [[1]], [{'valid_loss': 'x'}]])
def test_a_history_of_another_kind_is_refused(lines, stored, tmp_path):
    t = forge(stored, tmp_path/'m', lambda _, info: info.update(history=lines))
    with pytest.raises(InputError, match='the state is damaged: history'): t.resume()

@pytest.mark.parametrize('settings', [[], 'x', None, 5])
def test_run_settings_of_another_kind_are_refused(settings, stored, tmp_path):
    t = forge(stored, tmp_path/'m', lambda _, info: info.update(run_settings=settings))
    with pytest.raises(InputError, match='belongs to another run'): t.resume()

def test_a_state_without_moments_is_not_whole(stored, tmp_path):
    def drop(tensors, info):
        for name in [n for n in tensors if n.startswith('optimizer.')]: del tensors[name]
    t = forge(stored, tmp_path/'m', drop)
    with pytest.raises(InputError, match='the state is damaged: optimizer'): t.resume()

def test_too_many_batches_per_step():
    with pytest.raises(InputError, match='grad_accum_steps is 10001.*at most 10,000'):
        TrainingConfig(grad_accum_steps=10_001)

# What a long run counts

def test_only_skips_in_a_row_end_a_run():
    s = TrainingState()
    for step in range(1, 41):
        if step % 3: s.record(1., 5)
        else: s.skip(step)
    assert (s.skipped, s.consecutive_skips) == (13, 0)

def test_a_line_tells_of_its_own_steps(tmp_path):
    log, s = training.MetricsLog(tmp_path, []), TrainingState(valid_loss=1.)
    for loss, n_tokens in ((4., 10), (2., 30)):
        s.step, s.seconds = s.step + 1, s.seconds + 1
        s.record(loss, n_tokens)
        log.report(s)
    assert [line['train_loss'] for line in log] == [4., 2.]
    assert [line['tokens_per_second'] for line in log] == [10, 30]

def test_only_the_first_process_measures_time(monkeypatch):
    assert training._stopwatch(5.)() >= 5
    monkeypatch.setattr(training, 'rank', lambda: 1)
    assert training._stopwatch(5.)() == 0

def test_the_end_of_an_epoch_is_not_its_beginning():
    batches, s = TokenBatches(pairs(30), 100), TrainingState()
    n = len(batches.plan(0))
    steps = training._training_steps(batches, TrainingConfig(), s, torch.device('cpu'))
    for _ in islice(steps, n): pass
    assert (s.step, s.epoch, s.position) == (n, 0, n)
