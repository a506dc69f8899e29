"Training: accumulation, processes, kills, damaged checkpoints, and what else goes wrong in long runs."
import json, os, re, signal, subprocess, sys, time
from pathlib import Path
import pytest, torch
from safetensors.torch import load_file
from transformer_nb.checkpoint import Checkpoints, load_model, cpu_state_dict
from transformer_nb.core import InputError
from transformer_nb.data import TokenBatches, make_batch
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.training import Trainer, TrainingConfig, Progress, accumulate_gradients, plot_training, wrap_model, batch_groups
from test_commands import BIN, refuses, run, texts, write # noqa: F401 (texts is a fixture)

def pairs(n, seed=0):
    rng = torch.Generator().manual_seed(seed)
    ids = lambda: torch.randint(4, 50, (int(torch.randint(1, 12, (1,), generator=rng)),), generator=rng).tolist()
    return [(ids(), ids()) for _ in range(n)]

def small(dropout=0., **more):
    return Transformer(TransformerConfig(50, d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, dropout=dropout, **more))

def trainer(folder, dropout=0.2, **settings):
    torch.manual_seed(0)
    batches = TokenBatches(pairs(150), 100)
    config = TrainingConfig(**dict(max_steps=12, warmup_steps=5, valid_every=3, save_every=2, average=3) | settings)
    return Trainer(small(dropout), batches, list(batches.epoch(0))[:2], config, folder, about=dict(corpus='random'))

def same(a, b): return all(torch.equal(x, b[name]) for name, x in a.items())

@pytest.mark.parametrize('parts', [1, 2, 3, 7])
def test_accumulation_equals_the_large_batch(parts):
    model, rows = small().double(), pairs(21)
    def gradient(batches):
        model.zero_grad()
        loss = accumulate_gradients(model, batches, label_smoothing=0.1)
        return loss, torch.cat([p.grad.flatten() for p in model.parameters()])
    cuts = sorted({0, 21, *torch.randperm(20)[:parts - 1].add(1).tolist()})
    loss, grad = gradient([make_batch(rows[a:b]) for a, b in zip(cuts, cuts[1:])])
    whole_loss, whole = gradient([make_batch(rows)])
    torch.testing.assert_close(loss, whole_loss, rtol=0, atol=1e-10)
    torch.testing.assert_close(grad, whole, rtol=0, atol=1e-10)

def test_updates_share_every_batch_once():
    batches = TokenBatches(pairs(150), 100)
    plan, groups = batches.plan(0) + batches.plan(1), batch_groups(batches, 4)
    flat = [rows for _ in range(len(plan) // 4) for rows in next(groups)[2]]
    assert flat == plan[:len(flat)]

def test_kills():
    "Twenty kills at random moments, and not one number differs"
    done = subprocess.run([sys.executable, Path(__file__).with_name('kills.py'), '20'], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r'20 kills, [1-9]\d* of them while a file was being written, [1-9]\d* trainings completed, 0 numbers differ', done.stdout), done.stdout

@pytest.mark.parametrize('harm', ['cut', 'altered', 'empty', 'foreign'])
def test_damaged_state_falls_back(harm, tmp_path, capsys):
    peace = trainer(tmp_path/'peace')
    peace.run()
    broken = trainer(tmp_path/'broken', max_steps=7)
    broken.run()
    path = Checkpoints(tmp_path/'broken'/'checkpoints', 3).paths('state')[-1]
    data = bytearray(path.read_bytes())
    if harm == 'altered': data[len(data)//2] ^= 4
    path.write_bytes(dict(cut=data[:-7], altered=data, empty=b'', foreign=b'what is this').get(harm))
    again = trainer(tmp_path/'broken')
    assert again.resume() and again.progress.step == 6
    assert f'{path} is damaged' in capsys.readouterr().err
    again.run()
    assert same(cpu_state_dict(peace.model), cpu_state_dict(again.model))

def test_damaged_weights_are_left_out_of_the_mean(tmp_path, capsys):
    trainer(tmp_path, max_steps=7).run()
    checkpoints = Checkpoints(tmp_path/'checkpoints', 3)
    checkpoints.paths()[0].write_bytes(b'')
    again = trainer(tmp_path, max_steps=7)
    assert again.resume() and again.progress.step == 7
    again.run()
    assert 'left out' in capsys.readouterr().err and len(checkpoints.intact()) == 2

@pytest.mark.parametrize('change, word', [(dict(lr=1e-3), 'peak_rate was 0.005 and is 0.001'), (dict(seed=3), 'seed was 0 and is 3'),
                                          (dict(grad_accum_steps=2), 'batches_an_update was 1 and is 2'), (dict(save_every=5), 'save_every')])
def test_resume_refuses_other_settings(change, word, tmp_path):
    trainer(tmp_path, max_steps=3).run()
    with pytest.raises(InputError, match=word): trainer(tmp_path, **change).resume()

def test_longer_after_the_end_is_the_same_training(tmp_path):
    straight = trainer(tmp_path/'straight', max_steps=12)
    straight.run()
    trainer(tmp_path/'parts', max_steps=5).run() # not at a checkpoint of the other
    more = trainer(tmp_path/'parts', max_steps=12)
    assert more.resume()
    more.run()
    assert same(cpu_state_dict(straight.model), cpu_state_dict(more.model))

def test_one_bad_batch_is_skipped(tmp_path):
    t, calls = trainer(tmp_path), iter(range(1000))
    t.model.register_forward_hook(lambda m, i, out: out * float('nan') if m.training and next(calls) in (4, 5) else out)
    lines = t.run()
    assert lines[-1]['skipped'] == 2 and lines[-1]['step'] == 12
    assert all(w.isfinite().all() for w in cpu_state_dict(t.model).values())

def test_ten_bad_batches_stop_the_run(tmp_path):
    t, calls = trainer(tmp_path, max_steps=40), iter(range(1000))
    t.model.register_forward_hook(lambda m, i, out: out * float('inf') if m.training and next(calls) >= 6 else out)
    with pytest.raises(InputError, match='updates 7 to 16'): t.run()
    again = trainer(tmp_path, max_steps=40)
    assert again.resume() and (again.progress.step, again.progress.skipped) == (14, 8) # the last checkpoint before it stopped
    assert all(w.isfinite().all() for w in cpu_state_dict(again.model).values())

def test_clipping_limits_the_step(tmp_path):
    t = trainer(tmp_path, max_grad_norm=1e-3, max_steps=2)
    seen = []
    step = t.optimizer.step
    t.optimizer.step = lambda: (seen.append(torch.cat([p.grad.flatten() for p in t.model.parameters()]).norm().item()), step())
    t.run()
    assert seen and max(seen) < 1.001e-3

def test_patience(tmp_path):
    lines = trainer(tmp_path, max_steps=500, lr=10., warmup_steps=1, patience=2, valid_every=1).run()
    losses = [line['valid_loss'] for line in lines]
    assert len(losses) < 500 and min(losses) == losses[-3] and lines[-1]['best_loss'] == losses[-3]

def test_progress_is_over():
    c = TrainingConfig(max_steps=10, max_minutes=1, patience=2)
    assert [Progress(step=9).over(c), Progress(step=10).over(c), Progress(seconds=60).over(c), Progress(stale=2).over(c)] == [False, True, True, True]

def test_compiled_path_with_a_blank_is_refused(monkeypatch):
    monkeypatch.setattr(sys, 'prefix', '/a path')
    with pytest.raises(InputError, match='blank'): wrap_model(small(), TrainingConfig(compile=True))

# The command

def options(texts, out, *more):
    files = [x for name in ('src', 'tgt', 'valid_src', 'valid_tgt') for x in
             (f'--{name}', texts/f'{"valid" if "valid" in name else "train"}.{"de" if "src" in name else "en"}')]
    return ['--out', out, *files, '--vocab_size', 400, '--save_every', 2, '--valid_every', 2, '--average', 3, '--batch_tokens', 512,
            '--warmup_steps', 5, *more]

def test_two_processes_are_one(texts, tmp_path):
    "With the same batches an update, and going on with the other number of processes"
    torchrun = ['torchrun', '--standalone', '--nproc_per_node=2', '--no-python', '--', BIN/'tnb_train']
    one = run('tnb_train', *options(texts, tmp_path/'one', '--dropout', 0, '--accumulate', 2, '--max_steps', 6))
    two = run(*torchrun, *options(texts, tmp_path/'two', '--dropout', 0, '--max_steps', 4))
    assert one.returncode == two.returncode == 0, two.stderr.decode()
    two = run(*torchrun, *options(texts, tmp_path/'two', '--dropout', 0, '--max_steps', 6, '--resume'))
    assert two.returncode == 0 and two.stdout.count(b'6 updates') == 1, two.stderr.decode()
    a, b = ([json.loads(line) for line in (tmp_path/name/'metrics.jsonl').read_text().splitlines()[1:]] for name in ('one', 'two'))
    assert len(a) == len(b) == 3
    for x, y in zip(a, b):
        for key in ('train_loss', 'valid_loss'): assert abs(x[key] - y[key]) < 1e-4 # they are rounded to 1e-4
    a, b = (load_file(tmp_path/name/'model.safetensors') for name in ('one', 'two'))
    for name in a: torch.testing.assert_close(a[name], b[name], rtol=0, atol=1e-5)

def test_ctrl_c_ends_with_a_checkpoint_and_resumes(texts, tmp_path):
    command = [str(x) for x in (BIN/'tnb_train', *options(texts, tmp_path/'m', '--max_steps', 100_000, '--save_every', 1000))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, 'TRANSFORMER_NB_DATA': ''})
    metrics = tmp_path/'m'/'metrics.jsonl'
    until = time.time() + 120
    while time.time() < until and not metrics.exists(): time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and 'Traceback' not in err, err
    step = int(re.search(r'tnb_train: stopped after update (\d+); go on with --resume', err)[1])
    more = run('tnb_train', *options(texts, tmp_path/'m', '--max_steps', step + 2, '--save_every', 1000, '--resume'))
    assert more.returncode == 0 and f'continued after update {step}'.encode() in more.stderr, more.stderr.decode()
    load_model(tmp_path/'m')

def test_resume_of_nothing_begins_anew_and_says_so(texts, tmp_path):
    done = run('tnb_train', *options(texts, tmp_path/'m', '--max_steps', 1, '--resume'))
    assert done.returncode == 0 and b'holds no checkpoint; the training begins anew' in done.stderr

def test_resume_refuses_another_corpus_or_vocabulary(texts, tmp_path):
    assert run('tnb_train', *options(texts, tmp_path/'m', '--max_steps', 1)).returncode == 0
    swapped = [{'--src': '--tgt', '--tgt': '--src'}.get(x, x) for x in options(texts, tmp_path/'m', '--max_steps', 2, '--resume')]
    refuses(run('tnb_train', *swapped), 'another training', 'corpus was')
    refuses(run('tnb_train', *options(texts, tmp_path/'m', '--resume', '--vocab_size', 350)), 'vocab_size_asked was 400 and is 350')

def test_a_folder_with_something_else_is_refused(texts, tmp_path):
    write(tmp_path/'notes.txt', ['mine'])
    for more in ([], ['--resume']): refuses(run('tnb_train', *options(texts, tmp_path, *more)), 'not empty')
    assert (tmp_path/'notes.txt').read_text() == 'mine\n'

def test_vocabulary_larger_than_the_data_gives(texts, tmp_path):
    done = run('tnb_train', *options(texts, tmp_path/'m', '--max_steps', 1, '--vocab_size', 50_000))
    assert done.returncode == 0 and re.search(r'vocabulary of \d+ tokens \(the texts give no more; 50000 were asked for\)', done.stderr.decode())

def test_only_long_lines(texts, tmp_path):
    write(tmp_path/'long', ['sehr ' * 3000] * 3)
    files = [x for name in ('src', 'tgt', 'valid_src', 'valid_tgt') for x in (f'--{name}', tmp_path/'long')]
    refuses(run('tnb_train', '--out', tmp_path/'m', *files, '--vocab_size', 300), 'no sentence pair is left to train on', '3 too long')
    assert not (tmp_path/'m').exists()

def test_budget_smaller_than_any_sentence(texts, tmp_path):
    refuses(run('tnb_train', *options(texts, tmp_path/'m', '--batch_tokens', 3)), 'no sentence pair is left', 'at most 3 tokens')

def test_dropped_pairs_are_counted(texts, tmp_path):
    lines = (texts/'train.de').read_text().splitlines()[:100], (texts/'train.en').read_text().splitlines()[:100]
    for i, (name, side) in enumerate(zip(('de', 'en'), lines)):
        write(tmp_path/name, side + [['', 'x ' * 600, 'Ja.'][k] if i == 0 else ['Oh.', 'x ' * 600, 'so ' * 60][k] for k in range(3)])
    done = run('tnb_train', '--out', tmp_path/'m', '--src', tmp_path/'de', '--tgt', tmp_path/'en', '--valid_src', tmp_path/'de', '--valid_tgt',
               tmp_path/'en', '--vocab_size', 300, '--max_steps', 1)
    assert b'100 pairs to train on, left out: 1 empty, 1 too long, 1 out of proportion' in done.stderr
    first = json.loads((tmp_path/'m'/'metrics.jsonl').read_text().splitlines()[0])
    assert first['dropped'] == {'empty': 1, 'too long': 1, 'out of proportion': 1} and first['pairs'] == 100

@pytest.fixture
def full_disk(tmp_path):
    "A file system of 3 MB"
    folder = tmp_path/'small'
    folder.mkdir()
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=3m', 'tmpfs', folder], capture_output=True).returncode: pytest.skip('may not mount a tmpfs here')
    yield folder
    subprocess.run(['umount', folder])

def test_full_disk(texts, full_disk):
    refuses(run('tnb_train', *options(texts, full_disk/'m', '--max_steps', 1)), 'state-00000000.safetensors', 'No space left on device')
    assert not list(full_disk.rglob('.*.tmp'))

def test_full_disk_keeps_the_checkpoint_before(full_disk):
    "Room for two states of the small model and not for three"
    (full_disk/'filler').write_bytes(bytes(2_600_000))
    t = trainer(full_disk/'m', max_steps=200, average=200)
    with pytest.raises(OSError, match='No space left'): t.run()
    again = trainer(full_disk/'m', max_steps=200, average=200)
    assert again.resume() and again.progress.step > 0

def test_unwritable_folder(texts, tmp_path):
    write(tmp_path/'file', ['x'])
    refuses(run('tnb_train', *options(texts, tmp_path/'file'/'m')), 'file')

def test_bf16_needs_a_gpu(texts, tmp_path):
    if torch.cuda.is_available(): pytest.skip('there is a GPU here')
    refuses(run('tnb_train', *options(texts, tmp_path/'m', '--precision', 'bf16')), 'needs a CUDA GPU')
    refuses(run('tnb_train', *options(texts, tmp_path/'m', '--precision', 'fp64')), "'fp64'", 'auto, fp32 or bf16')

def test_the_bar_shows_what_matters(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv('IN_TEST')
    trainer(tmp_path, max_minutes=5).run()
    err = capsys.readouterr().err
    for word in ('loss=', 'valid_ppl=', 'tok/s=', 'rate=', '12/12'): assert word in err

def test_learning_curve(tmp_path):
    ax = plot_training([dict(pairs=3)] + trainer(tmp_path).run())
    assert [line.get_xdata().tolist() for line in ax.lines] == [[3, 6, 9, 12]] * 2
