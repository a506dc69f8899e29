"""Chapter 18 beyond its own proofs: what a row changes, what it leaves alone, and a table
that is interrupted."""
import json, os, subprocess, sys
from copy import deepcopy
from math import sqrt
from pathlib import Path
from unittest import mock
import pytest, torch
from torch.testing import assert_close
from transformer_nb import variations
from transformer_nb.core import BOS, EOS, InputError, set_seed
from transformer_nb.corpora import load_corpus
from transformer_nb.decoding import search
from transformer_nb.embedding import Embedding
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.optimizer import paper_lr
from transformer_nb.variations import (
    BASE, DEPTH, LEFT_OUT, PEAK_LR, RATES, ROWS, TABLE, WARMUP_STEPS, _lr_of, ablate,
    read_results, train_row, train_rows)

BIN = Path(sys.executable).parent
NOT_CONFIG = 'label_smoothing', 'warmup', 'without', 'rate'
RESULTS = Path(__file__).parent.parent/'nbs'/'results'/'variations.jsonl'

def config(name, vocab_size=2000):
    settings = BASE | ROWS[name]
    for field in NOT_CONFIG: settings.pop(field, None)
    return TransformerConfig(vocab_size, **settings)

def n_parameters(c): # by hand, as in chapter 05
    attention = c.d_model * c.n_heads * (2*c.d_k + 2*c.d_v)
    norm = 2*c.d_model
    feed_forward = 2*c.d_model*c.d_ff + c.d_ff + c.d_model
    total = c.vocab_size*c.d_model * (1 if c.tie_embeddings else 3)
    if c.positions == 'learned': total += 2*c.max_len*c.d_model
    if c.norm == 'pre': total += 2*norm
    total += c.n_encoder_layers * (attention + feed_forward + 2*norm)
    total += c.n_decoder_layers * (2*attention + feed_forward + 3*norm)
    return total

@pytest.mark.parametrize('name', ROWS)
def test_parameters(name):
    with torch.device('meta'): model = Transformer(config(name))
    assert sum(p.numel() for p in model.parameters()) == n_parameters(model.config)

def test_parameters_beside_base():
    count = {name: n_parameters(config(name)) for name in ROWS}
    same = ['A1', 'A2', 'A8', 'A16', 'D-drop0', 'D-drop0.2', 'D-ls0', 'D-ls0.2',
            'no-sqrt-d', 'no-sqrt-dk']
    assert {count[name] for name in same} == {count['base']}
    for name, d_k in (('B4', 4), ('B8', 8)):
        saved = 9 * 2*64*4*(16 - d_k) # W^Q and W^K of 9 attentions
        assert count['base'] - count[name] == saved
    chains = ['C-N1 C-N2 base C-N4', 'C-d32 base C-d128 big', 'C-ff128 base C-ff512',
              'base E', 'base untied']
    for chain in chains:
        sizes = [count[name] for name in chain.split()]
        assert sizes == sorted(set(sizes)), chain

def test_rows_change_one_thing():
    one_thing = [
        {'n_heads', 'd_k', 'd_v'}, {'d_k'}, {'n_encoder_layers', 'n_decoder_layers'},
        {'d_model'}, {'d_ff'}, {'dropout'}, {'label_smoothing'}, {'positions'},
        {'tie_embeddings'}, {'without'}]
    for name in {*TABLE, *LEFT_OUT} - {'base', 'big'}:
        assert set(ROWS[name]) in one_thing, name
    for changes in DEPTH.values():
        assert set(changes) == {'n_encoder_layers', 'n_decoder_layers', 'norm', 'warmup'}
    assert not any(set(name) & set(', /') for name in ROWS) # names that --rows can hold

def test_lr_is_the_curve_of_the_paper():
    factor = PEAK_LR / paper_lr(WARMUP_STEPS, BASE['d_model'], WARMUP_STEPS)
    for step in (1, WARMUP_STEPS//2, WARMUP_STEPS, 3*WARMUP_STEPS):
        for d_model in (32, 64, 128):
            lr = _lr_of(dict(d_model=d_model), step)
            assert abs(lr / paper_lr(step, d_model, WARMUP_STEPS) - factor) < 1e-9
        after_warmup = _lr_of({}, max(step, WARMUP_STEPS))
        assert abs(_lr_of(dict(warmup=False), step) - after_warmup) < 1e-12
    assert _lr_of(dict(warmup=False), 1) == PEAK_LR
    assert _lr_of(dict(rate=0.5), 70) == _lr_of({}, 70)/2
    assert _lr_of(RATES['A1@2'], 70) == _lr_of(TABLE['A1'], 70)*2

@pytest.fixture(scope='module')
def mini():
    pairs = load_corpus('mini', 'en', 'de')
    return {'train': pairs['train'][:60], 'valid': pairs['valid'][:3]}

def trained_on(name, seed, mini):
    "The batches that a row sees, and its label smoothing"
    seen = []
    def note(model, optimizer, batches, lr, label_smoothing):
        [batch] = batches
        seen.append((batch.src.tolist(), batch.labels.tolist(), label_smoothing))
        return 0., True
    with (mock.patch.object(variations, 'train_step', note),
          mock.patch.object(variations, '_losses', return_value={}),
          mock.patch.object(variations, '_scores', return_value={})):
        train_row(ROWS[name], seed, mini, 5)
    return seen

def test_equal_batches_for_all_rows_of_a_seed(mini):
    with mock.patch.object(variations, 'BATCH_TOKENS', 100):
        base = trained_on('base', 0, mini)
        assert len(base) == 5
        for name in ('A1', 'E', 'C-d32', 'post6-cold'):
            assert trained_on(name, 0, mini) == base
        assert trained_on('base', 1, mini) != base
        smooth = trained_on('D-ls0.2', 0, mini)
    assert [batch[:2] for batch in smooth] == [batch[:2] for batch in base]
    assert {label_smoothing for _, _, label_smoothing in smooth} == {0.2}

def timeless(result): return {k: v for k, v in result.items() if k != 'seconds'}

def test_a_result_repeats(mini):
    first, second = (train_row(ROWS['C-N1'], 3, mini, 2) for _ in range(2))
    assert timeless(first) == timeless(second)

def small_model(seed):
    set_seed(seed)
    return Transformer(TransformerConfig(30, d_model=16, d_ff=32, n_heads=2,
                                         n_encoder_layers=2, n_decoder_layers=2)).eval()

PARTS = ['√d_model', '1/√d_k']

@pytest.mark.parametrize('part', PARTS)
def test_ablate_in_training_and_in_search(part):
    "A search without a part scores its tokens as the model without it does"
    model = small_model(1)
    source = [5, 6, 7, 8]
    whole = search(model, [source])[0][0]
    ablate(model, part)
    found = search(model, [source])[0][0]
    src, tgt = torch.tensor([source + [EOS]]), torch.tensor([[BOS] + found.ids])
    with torch.no_grad(): log_probs = model(src, tgt)[0].log_softmax(-1)
    labels = (found.ids + [EOS])[:len(found.log_probs)]
    expected = log_probs[range(len(labels)), labels]
    assert_close(expected, torch.tensor(found.log_probs), rtol=0, atol=1e-5)
    assert found.score != whole.score

def loss_and_gradients(model):
    src = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, 0]])
    tgt = torch.tensor([[BOS, 4, 3], [BOS, 11, 12]])
    loss = model(src, tgt).square().mean()
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]

embed, project = Embedding.forward, MultiHeadAttention.project

def divided(self, ids): return embed(self, ids) / sqrt(self.weight.shape[1])

def longer(self, x, memory):
    q, k, v = project(self, x, memory)
    return q * sqrt(q.shape[-1]), k, v

PATCHES = {
    '√d_model': mock.patch.object(Embedding, 'forward', divided),
    '1/√d_k': mock.patch.object(MultiHeadAttention, 'project', longer)}

@pytest.mark.parametrize('part', PARTS)
def test_ablate_computes_what_other_methods_in_its_place_do(part):
    "The rows on disk were trained by a patched model; the numbers must be the same"
    model = small_model(2)
    with PATCHES[part]: patched = loss_and_gradients(model)
    assert_close(loss_and_gradients(ablate(deepcopy(model), part)), patched)
    whole = loss_and_gradients(model)
    assert whole[0] != patched[0]

def test_ablate_nothing_and_one_model_only():
    model = small_model(3)
    whole = loss_and_gradients(model)
    for part in PARTS:
        changed = ablate(deepcopy(model), part)
        assert changed.state_dict().keys() == model.state_dict().keys()
    for now in (model, ablate(model, ''), small_model(3)):
        assert_close(loss_and_gradients(now), whole, rtol=0, atol=0)
    with pytest.raises(KeyError): ablate(model, '√d_k')

def jobs_in(path): return [(r['row'], r['seed']) for r in read_results(path)]

def test_interrupted_and_continued(mini, tmp_path):
    out, calls = tmp_path/'sub'/'x.jsonl', []
    def interrupted(*job):
        calls.append(job)
        if len(calls) == 3: raise KeyboardInterrupt
        return dict(ppl=1., bleu=0.)
    with mock.patch.object(variations, 'train_row', interrupted):
        with pytest.raises(KeyboardInterrupt):
            train_rows(out, ['E', 'base'], range(2), mini, 1)
        assert jobs_in(out) == [('E', 0), ('E', 1)]
        train_rows(out, ['E', 'base'], range(2), mini, 1)
        train_rows(out, ['base'], range(3), mini, 1) # one seed more
        train_rows(out, ['base', 'E'], range(3), mini, 1)
    in_order = [('E', 0), ('E', 1), ('base', 0), ('base', 1), ('base', 2), ('E', 2)]
    assert jobs_in(out) == in_order
    assert len(calls) == 7
    assert [p.name for p in out.parent.iterdir()] == ['x.jsonl']

def test_other_settings_are_refused(mini, tmp_path):
    out = tmp_path/'x.jsonl'
    other = mini | dict(valid=mini['valid'][:1])
    def refuses(words, rows, corpus=mini, n_steps=1):
        with pytest.raises(InputError, match=words):
            train_rows(out, rows, range(2), corpus, n_steps)
    with mock.patch.object(variations, 'train_row', return_value=dict(ppl=1., bleu=0.)):
        train_rows(out, ['base', 'A1'], range(1), mini, 1)
        before = out.read_bytes()
        words = 'row base was trained with other settings'
        refuses(words, ['A1'], n_steps=2)
        refuses(words, ['A1'], corpus=other)
        with mock.patch.dict(ROWS, A1=dict(n_heads=2)): refuses('row A1', ['base'])
        assert out.read_bytes() == before
        out.write_text(before.decode().replace('"A1"', '"A7"')) # there is no such row
        refuses('row A7', ['base'])

def test_reported_results_are_those_of_this_code(multi30k_dir, tmp_path):
    "`tnb_variations` finds nothing missing in the file that the chapter reads"
    copy = tmp_path/'x.jsonl'
    copy.write_bytes(RESULTS.read_bytes())
    for rows, seeds in (('table,left_out', 3), ('depth', 1)):
        options = ['--rows', rows, '--seeds', seeds, '--data_dir', multi30k_dir]
        done = run(*options, '--out', copy)
        assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')
    assert copy.read_bytes() == RESULTS.read_bytes()

def test_processes(mini, tmp_path):
    "Trainings in processes of their own come out as one in this process does"
    rows = ['C-N1', 'no-sqrt-dk']
    results = train_rows(tmp_path/'x.jsonl', rows, range(1), mini, 1, processes=2)
    assert {r['row'] for r in results} == set(rows)
    assert {r['threads'] for r in results} == {1}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    here = timeless(train_row(ROWS['C-N1'], 0, mini, 1))
    torch.set_num_threads(threads)
    there = next(r for r in results if r['row'] == 'C-N1')
    assert {k: there[k] for k in here} == here
    numbers = ['parameters', 'steps', 'epochs', 'valid_loss', 'train_loss', 'ppl', 'bleu',
               'seconds']
    assert all(type(there[k]) in (int, float) for k in numbers)
    assert there['commit']

def run(*args):
    return subprocess.run([BIN/'tnb_variations', *map(str, args)], capture_output=True,
                          timeout=300, env=os.environ | {'TRANSFORMER_NB_DATA': ''})

@pytest.mark.parametrize('options, words', [
    (['--rows', 'base,A3'], ["'A3'", 'table, left_out, depth', 'base, A1']),
    (['--rows', ''], ["''"]),
    (['--seeds', 0], ['--seeds is 0']),
    (['--processes', -1], ['--processes is -1']),
    (['--n_steps', 0], ['--n_steps is 0']),
    (['--corpus', 'wmt'], ["'wmt'"]),
], ids=lambda x: ' '.join(map(str, x)))
def test_command_refuses(options, words, tmp_path):
    out = tmp_path/'x'
    done = run('--corpus', 'mini', '--out', out, *options)
    error = done.stderr.decode()
    assert done.returncode == 2, error
    assert error.count('\n') == 1, error
    assert not done.stdout
    assert not out.exists()
    for word in words: assert word in error

WHOLE = b'{"row": "base", "seed": 0, "settings": "x"}\n'

@pytest.mark.parametrize('line', [
    b'half a li', b'7', b'{}', b'[1]', b'{"row": ["base"], "seed": 0}',
    b'{"row": "base", "seed": {}}', 5000*b'['])
def test_a_damaged_line_is_named(line, tmp_path):
    (tmp_path/'x').write_bytes(WHOLE + line)
    with pytest.raises(InputError, match='x:2: not a result'): read_results(tmp_path/'x')

def test_a_file_that_is_not_text(tmp_path):
    (tmp_path/'x').write_bytes(WHOLE + b'\xff\x00')
    with pytest.raises(InputError, match='x:2: byte 0xff is not UTF-8'):
        read_results(tmp_path/'x')

@pytest.mark.slow
def test_command(tmp_path):
    out = tmp_path/'x.jsonl'
    options = ['--corpus', 'mini', '--rows', 'C-N1', '--seeds', 1, '--processes', 1]
    for n in (1, 0): # what is there is not trained again
        done = run(*options, '--n_steps', 40, '--out', out)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.count(b'\n') == n
    [result] = map(json.loads, out.read_text().splitlines())
    assert result['row'] == 'C-N1' and result['steps'] == 40
    assert result['hardware'] and result['commit']
    assert result['torch'] == torch.__version__
