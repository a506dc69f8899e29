"Training: accumulation, processes, kills, damage, and what else goes wrong in long runs."
import json, math, os, signal, time
from dataclasses import fields
from itertools import count, islice
from multiprocessing import active_children
from pathlib import Path
from typing import get_args
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
    TrainingState, Trainer, TrainingConfig, accumulate_gradients, batch_groups,
    valid_loss)
from running import BIN, call, run

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

def test_what_diverged_is_not_written(tmp_path):
    "No weights that are NaN or infinite, no losses either, and no promise about the rest"
    t = trainer(tmp_path, warmup_steps=1, lr=1e38, save_every=1, valid_every=9)
    with pytest.raises(InputError, match='diverged: .*nothing had been validated before'):
        t.run()
    for path in t.files.checkpoints.folder.iterdir():
        tensors, _ = load_verified(path)
        assert all(x.isfinite().all() for x in tensors.values()), path
    assert not (tmp_path/'metrics.jsonl').exists()

def is_number(field): return bool({int, float} & {field.type, *get_args(field.type)})

def test_numbers_of_no_use_are_refused_by_their_name():
    "Of every field, also of those that come"
    for field in filter(is_number, fields(TrainingConfig)):
        for value in (math.nan, math.inf, -math.inf, -1):
            with pytest.raises(InputError, match=f'^{field.name} is'):
                TrainingConfig(**{field.name: value})

def test_decay_that_cannot_be_is_refused():
    for steps, message in ((1000, 'decay_steps is 1000'), (9000, 'max_steps is 10000')):
        with pytest.raises(InputError, match=message): TrainingConfig(decay_steps=steps)

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

def test_validation_has_the_precision_of_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr(training, 'choose_precision', lambda *_: 'bf16')
    t = trainer(tmp_path, max_steps=1, weights='last')
    t.run()
    exact, rounded = (valid_loss(t.model, t.valid, name) for name in ('fp32', 'bf16'))
    assert t.state.valid_loss == rounded != exact
    assert abs(rounded - exact) < 0.1
    for mode in (True, False): # which it leaves as it was
        valid_loss(t.model.train(mode), t.valid)
        assert t.model.training == mode

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

def test_fp16_resumes_with_its_scale(fp16, tmp_path):
    "An overflow halves it, and skips the step"
    def overflowing(t):
        on_training_batch(t.model, lambda n, logits: logits * (1e30 if n == 1 else 1))
        return t
    whole = overflowing(trainer(tmp_path/'whole'))
    whole.run()
    assert whole.state.skipped == 1
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

# Killed, damaged, resumed

@pytest.mark.smoke
def test_damaged_state_falls_back(tmp_path, capsys):
    peace = run_to_end(tmp_path/'peace')
    broken = run_to_end(tmp_path/'broken', max_steps=7)
    path = broken.files.checkpoints.paths('state')[-1]
    data = path.read_bytes()
    altered = bytearray(data)
    altered[len(data)//2] ^= 4
    for harmed in (data[:-7], b'', b'what is this', altered):
        path.write_bytes(harmed)
        again = resumed(tmp_path/'broken')
        assert again.state.step == 6
        assert f'{path} is damaged' in capsys.readouterr().err
    again.run()
    assert_same_weights(peace, again)

COMPARED = dict(lr=1e-3, seed=3, decay_steps=20, weight_decay=0.1, grad_accum_steps=2,
                fixed_shapes=True, label_smoothing=0.2, max_grad_norm=1., warmup_steps=6)

def test_resume_refuses_other_settings(tmp_path):
    run_to_end(tmp_path, max_steps=3)
    for name, value in COMPARED.items():
        told = name.replace('grad_accum_steps', 'batches_per_step')
        with pytest.raises(InputError, match=f'{told} was .* and is {value}'):
            trainer(tmp_path, **{name: value}).resume()

MAY_CHANGE = '''max_steps max_minutes patience patience_on valid_bleu log_every valid_every
    valid_every_minutes save_every save_every_minutes average weights compile workers
    device'''.split()

def test_every_setting_may_change_or_is_compared():
    "A new field belongs into one of the two lists; on a CPU there is only one precision"
    there = [field.name for field in fields(TrainingConfig)]
    assert sorted([*COMPARED, *MAY_CHANGE, 'precision']) == sorted(there)

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

@pytest.mark.parametrize('number, limit', [
    (signal.SIGINT, dict(max_steps=4)), (signal.SIGTERM, dict(max_minutes=1e-9)),
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

def test_a_worker_that_is_killed_or_has_no_room_is_told(tmp_path, monkeypatch):
    load = training._StepData.__getitem__
    def lost(data, place):
        _, position, _ = place
        if position > 1: # the second step; the loop waits for it by then
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        return load(data, place)
    monkeypatch.setattr(training._StepData, '__getitem__', lost)
    killed = 'workers are processes, and one of them was killed; go on with `resume`'
    with pytest.raises(FieldError, match=killed): trainer(tmp_path, workers=1).run()
    monkeypatch.setattr(torch.Tensor, 'share_memory_', torch.Tensor.backward) # raises
    with pytest.raises(FieldError, match='shm lacks'): trainer(tmp_path, workers=1).run()

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

def test_lost_metrics_are_written_anew(tmp_path):
    straight, folder = run_to_end(tmp_path/'straight'), tmp_path/'parts'
    run_to_end(folder, max_steps=6)
    for harm in (b'', b'\xff\0', b'[1, 2]\n', b'{"step": 3'):
        (folder/'metrics.jsonl').write_bytes(harm)
        again = resumed(folder)
        assert [line['step'] for line in read_metrics(folder)] == [3, 6]
    again.run()
    assert untimed(read_metrics(folder)) == untimed(straight.history)

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

def test_ctrl_c_ends_with_a_checkpoint_and_resumes(texts, tmp_path, monkeypatch):
    def arguments(n): return options(texts, tmp_path/'m', '--max_steps', n)
    take, steps = Trainer._take_one_step, count(1)
    def interrupted(*given):
        if next(steps) == 3: os.kill(os.getpid(), signal.SIGINT)
        return take(*given)
    monkeypatch.setattr(Trainer, '_take_one_step', interrupted)
    stopped = train(*arguments(9))
    assert stopped.returncode == 130
    assert b'tnb_train: stopped after step 3; go on with --resume' in stopped.stderr
    more = train(*arguments(5), '--resume')
    assert more.returncode == 0 and b'continued after step 3' in more.stderr
    load_model(tmp_path/'m')

# What it shows

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

# Another program's progress

def test_a_state_of_another_version_is_refused(tmp_path):
    t = run_to_end(tmp_path, max_steps=2, valid_every=1, save_every=1)
    newest = t.files.checkpoints.paths('state')[-1]
    tensors, info = load_verified(newest)
    without = [{name: x for name, x in info.items() if name != lost}
               for lost in ('history', 'run_settings')]
    others = *without, info | dict(progress=info['progress'] | dict(x=1))
    for data in [save_verified(tensors, other) for other in others]:
        newest.write_bytes(data)
        t = trainer(tmp_path, max_steps=3, valid_every=1, save_every=1)
        with pytest.raises(InputError, match='not written by this program'): t.resume()

def test_only_skips_in_a_row_end_a_run():
    s = TrainingState()
    for step in range(1, 41):
        if step % 3: s.record(1., 5)
        else: s.skip(step)
    assert (s.skipped, s.consecutive_skips) == (13, 0)

def test_a_line_tells_of_its_own_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'get_device_name', lambda: 'NVIDIA H100 80GB HBM3')
    log, s = training.MetricsLog(tmp_path, [dict(parameters=1e12)]), TrainingState()
    for loss, n_tokens in ((4., 10), (2., 30)):
        s.step, s.seconds, s.valid_loss = s.step + 1, s.seconds + 1, 1.
        s.record(loss, n_tokens)
        log.report(s)
    found = [(x['train_loss'], x['tokens_per_second'], x['mfu']) for x in log[1:]]
    assert found == [(4., 10, .061), (2., 30, .182)] # six FLOPs each, of 989e12
    assert training.mfu(0, 10.) == {} # where nobody says how many parameters there are

def test_the_end_of_an_epoch_is_not_its_beginning():
    batches, s = TokenBatches(pairs(30), 100), TrainingState()
    n = len(batches.plan(0))
    steps = training._training_steps(batches, TrainingConfig(), s, torch.device('cpu'))
    for _ in islice(steps, n): pass
    assert (s.step, s.epoch, s.position) == (n, 0, n)
