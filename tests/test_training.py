"Training: accumulation, processes, kills, damage, and what else goes wrong in long runs."
import json, os, re, signal, subprocess, sys, time
from itertools import count
from pathlib import Path
import pytest, torch
from safetensors.torch import load_file
from transformer_nb import training
from transformer_nb.checkpoint import Checkpoints, load_model, cpu_state_dict
from transformer_nb.core import InputError
from transformer_nb.data import TokenBatches, make_batch
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.training import Progress, Trainer, TrainingConfig, accumulate_gradients
from transformer_nb.training import batch_groups, plot_training, wrap_model
from test_commands import BIN, refuses, run, texts, write # noqa: F401 (texts is a fixture)

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

def trainer(folder, **settings):
    torch.manual_seed(0)
    batches = TokenBatches(pairs(150), 100)
    defaults = dict(max_steps=12, warmup_steps=5, valid_every=3, save_every=2, average=3)
    config = TrainingConfig(**defaults | settings)
    valid = list(batches.epoch(0))[:2]
    return Trainer(small(0.2), batches, valid, config, folder, dict(corpus='random'))

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
    assert seen == plan[:len(seen)]

def test_one_bad_batch_is_skipped(tmp_path):
    t = trainer(tmp_path)
    on_training_batch(t.model, lambda n, x: x * float('nan') if n in (4, 5) else x)
    last = t.run()[-1]
    assert last['skipped'] == 2 and last['step'] == 12
    assert all(w.isfinite().all() for w in cpu_state_dict(t.model).values())

def test_ten_bad_batches_stop_the_run(tmp_path):
    t = trainer(tmp_path, max_steps=40)
    on_training_batch(t.model, lambda n, x: x * float('inf') if n >= 6 else x)
    with pytest.raises(InputError, match='steps 7 to 16'): t.run()
    again = resumed(tmp_path, max_steps=40) # from the last checkpoint before it stopped
    assert again.progress.step == 14 and again.progress.skipped == 8
    assert all(w.isfinite().all() for w in cpu_state_dict(again.model).values())

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
    assert min(losses) == losses[-3] == lines[-1]['best_loss']

def test_progress_is_finished():
    c = TrainingConfig(max_steps=10, max_minutes=1, patience=2)
    assert not Progress(step=9, seconds=59., evals_since_best=1).finished(c)
    assert Progress(step=10).finished(c)
    assert Progress(seconds=60.).finished(c)
    assert Progress(evals_since_best=2).finished(c)

def test_precision_is_chosen_at_the_start(tmp_path):
    t = trainer(tmp_path)
    assert TrainingConfig().precision == 'auto'
    expected = 'bf16' if t.device.type == 'cuda' else 'fp32'
    assert t.config.precision == t.run_settings['precision'] == expected

def test_compiled_path_with_a_space_is_refused(monkeypatch):
    monkeypatch.setattr(sys, 'prefix', '/a path')
    config = TrainingConfig(compile=True)
    with pytest.raises(InputError, match='space'): wrap_model(small(), config)

# Killed, damaged, resumed

@pytest.mark.slow
def test_kills():
    "Twenty kills at random moments, and not one number differs"
    command = [sys.executable, ROOT/'tools'/'kills.py', '20']
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = (r'20 kills, [1-9]\d* of them while a file was being written, '
                r'[1-9]\d* trainings completed, 0 numbers differ')
    assert re.search(expected, done.stdout), done.stdout

@pytest.mark.parametrize('harm', ['cut', 'altered', 'empty', 'foreign'])
def test_damaged_state_falls_back(harm, tmp_path, capsys):
    peace = run_to_end(tmp_path/'peace')
    broken = run_to_end(tmp_path/'broken', max_steps=7)
    path = broken.checkpoints.paths('state')[-1]
    data = path.read_bytes()
    altered = bytearray(data)
    altered[len(data)//2] ^= 4
    harmed = dict(cut=data[:-7], altered=altered, empty=b'', foreign=b'what is this')
    path.write_bytes(harmed[harm])
    again = resumed(tmp_path/'broken')
    assert again.progress.step == 6
    assert f'{path} is damaged' in capsys.readouterr().err
    again.run()
    assert_same_weights(peace, again)

def test_damaged_weights_are_left_out_of_the_mean(tmp_path, capsys):
    t = run_to_end(tmp_path, max_steps=7)
    t.checkpoints.paths()[0].write_bytes(b'')
    again = resumed(tmp_path, max_steps=7)
    assert again.progress.step == 7
    again.run()
    assert 'left out' in capsys.readouterr().err
    assert len(again.checkpoints.intact()) == 2

@pytest.mark.parametrize('change, message', [
    (dict(lr=1e-3), 'lr was 0.005 and is 0.001'),
    (dict(seed=3), 'seed was 0 and is 3'),
    (dict(grad_accum_steps=2), 'batches_per_step was 1 and is 2'),
    (dict(label_smoothing=0.2), 'label_smoothing was 0.1 and is 0.2')])
def test_resume_refuses_other_settings(change, message, tmp_path):
    run_to_end(tmp_path, max_steps=3)
    with pytest.raises(InputError, match=message): trainer(tmp_path, **change).resume()

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
        assert saved_steps(t.folder) == [8, 10, 12]
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
    assert again.progress.step == 6
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

def test_signal_in_the_last_step(tmp_path, capsys):
    "Stopped at step 4; resumed with 4 as the last, it only validates and takes the mean"
    t = trainer(tmp_path, valid_every=100)
    def interrupt(n, logits):
        if n == 3: os.kill(os.getpid(), signal.SIGINT)
    on_training_batch(t.model, interrupt)
    message = 'stopped after step 4; go on with --resume'
    with pytest.raises(KeyboardInterrupt, match=message): t.run()
    assert 'finishing this step, then saving a checkpoint' in capsys.readouterr().err
    lines = resumed(tmp_path, valid_every=100, max_steps=4).run()
    assert [line['step'] for line in lines] == [4] and 'average_loss' in lines[0]

# The command

def options(texts, out, *more):
    files = []
    for split in ('train', 'valid'):
        prefix = '--valid_' if split == 'valid' else '--'
        files += [prefix + 'src', texts/f'{split}.de', prefix + 'tgt', texts/f'{split}.en']
    settings = ['--vocab_size', 400, '--save_every', 2, '--valid_every', 2, '--average', 3,
                '--batch_tokens', 512, '--warmup_steps', 5]
    return ['--out', out, *files, *settings, *more]

def two_processes(*arguments):
    torchrun = ['torchrun', '--standalone', '--nproc_per_node=2', '--no-python', '--']
    done = run(*torchrun, BIN/'tnb_train', *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done

@pytest.mark.slow
def test_two_processes_are_one(texts, tmp_path):
    "With the same batches per step, and going on with the other number of processes"
    one, two = (tmp_path/name for name in ('one', 'two'))
    done = run('tnb_train', *options(texts, one, '--dropout', 0, '--max_steps', 6,
                                     '--grad_accum_steps', 2))
    assert done.returncode == 0, done.stderr.decode()
    two_processes(*options(texts, two, '--dropout', 0, '--max_steps', 4))
    done = two_processes(*options(texts, two, '--dropout', 0, '--max_steps', 6, '--resume'))
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
    more = run('tnb_train', *arguments('--max_steps', step + 2, '--resume'))
    assert more.returncode == 0, more.stderr.decode()
    assert f'continued after step {step}' in more.stderr.decode()
    load_model(tmp_path/'m')

def test_resume_of_nothing_begins_anew_and_says_so(texts, tmp_path):
    done = run('tnb_train', *options(texts, tmp_path/'m', '--max_steps', 1, '--resume'))
    assert done.returncode == 0
    assert b'holds no checkpoint; starting from the beginning' in done.stderr

@pytest.mark.slow
def test_resume_refuses_another_corpus_or_vocabulary(texts, tmp_path):
    done = run('tnb_train', *options(texts, tmp_path/'m', '--max_steps', 1))
    assert done.returncode == 0, done.stderr.decode()
    other_way = {'--src': '--tgt', '--tgt': '--src'}
    arguments = options(texts, tmp_path/'m', '--max_steps', 2, '--resume')
    swapped = [other_way.get(x, x) for x in arguments]
    refuses(run('tnb_train', *swapped), 'another training', 'corpus was')
    smaller = options(texts, tmp_path/'m', '--resume', '--vocab_size', 350)
    refuses(run('tnb_train', *smaller), 'vocab_size_asked was 400 and is 350')

def test_a_folder_with_something_else_is_refused(texts, tmp_path):
    write(tmp_path/'notes.txt', ['mine'])
    for more in ([], ['--resume']):
        refuses(run('tnb_train', *options(texts, tmp_path, *more)), 'not empty')
    assert (tmp_path/'notes.txt').read_text() == 'mine\n'

def test_vocabulary_larger_than_the_data_gives(texts, tmp_path):
    more = ['--max_steps', 1, '--vocab_size', 50_000]
    done = run('tnb_train', *options(texts, tmp_path/'m', *more))
    assert done.returncode == 0, done.stderr.decode()
    message = r'vocabulary of \d+ tokens \(the texts give no more; 50000 were asked for\)'
    assert re.search(message, done.stderr.decode())

def all_from(path): # training and validation, both sides
    names = ('src', 'tgt', 'valid_src', 'valid_tgt')
    return [x for name in names for x in (f'--{name}', path)]

def test_only_long_lines(texts, tmp_path):
    write(tmp_path/'long', ['sehr ' * 3000] * 3)
    arguments = ['--out', tmp_path/'m', *all_from(tmp_path/'long'), '--vocab_size', 300]
    done = run('tnb_train', *arguments)
    refuses(done, 'no sentence pair is left to train on', '3 too long')
    assert not (tmp_path/'m').exists()

def test_budget_smaller_than_any_sentence(texts, tmp_path):
    done = run('tnb_train', *options(texts, tmp_path/'m', '--batch_tokens', 3))
    refuses(done, 'no sentence pair is left', 'at most 3 tokens')

def test_dropped_pairs_are_counted(texts, tmp_path):
    unfit = dict(de=['', 'x ' * 600, 'Ja.'], en=['Oh.', 'x ' * 600, 'so ' * 60])
    for lang, lines in unfit.items():
        good = (texts/f'train.{lang}').read_text().splitlines()[:100]
        write(tmp_path/lang, good + lines)
    de, en = tmp_path/'de', tmp_path/'en'
    arguments = ['--out', tmp_path/'m', '--src', de, '--tgt', en, '--valid_src', de,
                 '--valid_tgt', en, '--vocab_size', 300, '--max_steps', 1]
    done = run('tnb_train', *arguments)
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
    done = run('tnb_train', *options(texts, full_disk/'m', '--max_steps', 1))
    refuses(done, 'state-00000000.safetensors', 'No space left on device')
    assert not list(full_disk.rglob('.*.tmp'))

def test_full_disk_keeps_the_checkpoint_before(full_disk):
    "Room for two states of the small model and not for three"
    (full_disk/'filler').write_bytes(bytes(2_600_000))
    t = trainer(full_disk/'m', max_steps=200, average=200)
    with pytest.raises(OSError, match='No space left'): t.run()
    assert resumed(full_disk/'m', max_steps=200, average=200).progress.step > 0

def test_unwritable_folder(texts, tmp_path):
    write(tmp_path/'file', ['x'])
    refuses(run('tnb_train', *options(texts, tmp_path/'file'/'m')), 'file')

def test_bf16_needs_a_gpu(texts, tmp_path):
    if torch.cuda.is_available(): pytest.skip('there is a GPU here')
    def with_precision(name):
        return run('tnb_train', *options(texts, tmp_path/'m', '--precision', name))
    refuses(with_precision('bf16'), 'needs a CUDA GPU')
    refuses(with_precision('fp64'), "'fp64'", 'auto, fp32 or bf16')

# What it shows

def test_the_bar_shows_what_matters(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv('IN_TEST')
    trainer(tmp_path, max_minutes=5).run()
    err = capsys.readouterr().err
    for word in ('loss=', 'valid_ppl=', 'tok/s=', 'lr=', '12/12'): assert word in err

def test_learning_curve(tmp_path):
    ax = plot_training([dict(pairs=3)] + trainer(tmp_path).run())
    steps = [line.get_xdata().tolist() for line in ax.lines]
    assert steps == [[3, 6, 9, 12]] * 2
