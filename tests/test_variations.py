"Chapter 18 beyond its own proofs: what a row changes, what it leaves alone, and a table that is interrupted."
import json, os, subprocess, sys
from math import sqrt
from pathlib import Path
from unittest import mock
import pytest, torch
from transformer_nb import variations
from transformer_nb.core import BOS, EOS, InputError, set_seed
from transformer_nb.corpora import load_corpus
from transformer_nb.decoding import search
from transformer_nb.embedding import Embedding
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.optimizer import paper_lr
from transformer_nb.variations import BASE, DEPTH, LEFT_OUT, PEAK, ROWS, TABLE, WARMUP, rate_of, read_results, train_row, train_rows, without

BIN = Path(sys.executable).parent
NOT_CONFIG = 'label_smoothing', 'warmup', 'without'

def config(name, vocab_size=2000): return TransformerConfig(vocab_size, **{k: v for k, v in (BASE | ROWS[name]).items() if k not in NOT_CONFIG})

def n_parameters(c): # by hand, as in chapter 05
    attention, norm = c.d_model * c.n_heads * (2*c.d_k + 2*c.d_v), 2*c.d_model
    feed_forward = 2*c.d_model*c.d_ff + c.d_ff + c.d_model
    matrices = (1 if c.tie_embeddings else 3) * c.vocab_size*c.d_model + 2*c.max_len*c.d_model*(c.positions == 'learned')
    ends = 2*norm if c.norm == 'pre' else 0
    return matrices + ends + c.n_encoder_layers*(attention + feed_forward + 2*norm) + c.n_decoder_layers*(2*attention + feed_forward + 3*norm)

@pytest.mark.parametrize('name', ROWS)
def test_parameters(name):
    with torch.device('meta'): model = Transformer(config(name))
    assert sum(p.numel() for p in model.parameters()) == n_parameters(model.config)

def test_parameters_beside_base():
    count = {name: n_parameters(config(name)) for name in ROWS}
    same = 'A1 A2 A8 A16 D-drop0 D-drop0.2 D-ls0 D-ls0.2 no-sqrt-d no-sqrt-dk'.split()
    assert {count[name] for name in same} == {count['base']}
    for name, d_k in (('B4', 4), ('B8', 8)): assert count['base'] - count[name] == 9 * 2*64*4*(16 - d_k) # 9 attentions, W^Q and W^K
    chains = 'C-N1 C-N2 base C-N4', 'C-d32 base C-d128 big', 'C-ff128 base C-ff512', 'base E', 'base untied'
    for chain in chains:
        sizes = [count[name] for name in chain.split()]
        assert sizes == sorted(set(sizes)), chain

def test_rows_change_one_thing():
    fields = [{'n_heads', 'd_k', 'd_v'}, {'d_k'}, {'n_encoder_layers', 'n_decoder_layers'}, {'d_model'}, {'d_ff'}, {'dropout'}, {'label_smoothing'},
              {'positions'}, {'tie_embeddings'}, {'without'}]
    for name in [*TABLE, *LEFT_OUT]:
        if name not in ('base', 'big'): assert set(ROWS[name]) in fields, name
    assert all(set(changes) == {'n_encoder_layers', 'n_decoder_layers', 'norm', 'warmup'} for changes in DEPTH.values())
    assert not any(set(name) & set(', /') for name in ROWS) # names that --rows can hold

def test_rate_is_the_curve_of_the_paper():
    factor = PEAK / paper_lr(WARMUP, BASE['d_model'], WARMUP)
    for step in (1, WARMUP//2, WARMUP, 3*WARMUP):
        for d_model in (32, 64, 128): assert abs(rate_of(dict(d_model=d_model), step) / paper_lr(step, d_model, WARMUP) - factor) < 1e-9
        assert abs(rate_of(dict(warmup=False), step) - max(rate_of({}, max(step, WARMUP)), rate_of({}, step))) < 1e-12
    assert rate_of(dict(warmup=False), 1) == PEAK

@pytest.fixture(scope='module')
def mini():
    return {split: pairs[:n] for (split, pairs), n in zip(load_corpus('mini', 'en', 'de').items(), (60, 3))}

def trained_on(changes, seed, mini):
    "The batches that a row sees"
    seen = []
    def note(model, optimizer, batches, rate, smoothing):
        seen.append((batches[0].src.tolist(), batches[0].labels.tolist(), smoothing))
        return 0., True
    with mock.patch.object(variations, 'train_step', note), mock.patch.object(variations, 'measured', lambda *args: {}): train_row(changes, seed, mini, 5)
    return seen

def test_equal_batches_for_all_rows_of_a_seed(mini):
    with mock.patch.object(variations, 'BATCH_TOKENS', 100):
        base = trained_on({}, 0, mini)
        assert len(base) == 5
        for name in ('A1', 'E', 'C-d32', 'post6-cold'): assert trained_on(ROWS[name], 0, mini) == base
        assert trained_on({}, 1, mini) != base
        smooth = trained_on(ROWS['D-ls0.2'], 0, mini)
    assert [b[:2] for b in smooth] == [b[:2] for b in base] and {b[2] for b in smooth} == {0.2}

def test_a_result_repeats(mini):
    first, second = (train_row(ROWS['C-N1'], 3, mini, 2) for _ in range(2))
    assert {k: v for k, v in first.items() if k != 'seconds'} == {k: v for k, v in second.items() if k != 'seconds'}

@pytest.mark.parametrize('part', ['√d_model', '1/√d_k'])
def test_without_in_training_and_in_search(part):
    "A search without a part scores its tokens as the model without it does"
    set_seed(1)
    model = Transformer(TransformerConfig(30, d_model=16, d_ff=32, n_heads=2, n_encoder_layers=2, n_decoder_layers=2)).eval()
    source = [5, 6, 7, 8]
    whole = search(model, [source])[0][0]
    with without(part), torch.no_grad():
        found = search(model, [source])[0][0]
        log_probs = model(torch.tensor([source + [EOS]]), torch.tensor([[BOS] + found.ids]))[0].log_softmax(-1)
    labels = (found.ids + [EOS])[:len(found.log_probs)]
    torch.testing.assert_close(log_probs[range(len(labels)), labels], torch.tensor(found.log_probs), rtol=0, atol=1e-5)
    assert found.score != whole.score

def test_without_is_over_when_it_is_over():
    before = Embedding.forward, MultiHeadAttention.queries, MultiHeadAttention.queries_keys_values
    for part in ('', '√d_model', '1/√d_k'):
        with pytest.raises(MemoryError):
            with without(part): raise MemoryError
        assert before == (Embedding.forward, MultiHeadAttention.queries, MultiHeadAttention.queries_keys_values)

def test_interrupted_and_continued(mini, tmp_path):
    out, calls = tmp_path/'sub'/'x.jsonl', []
    def interrupted(*job):
        calls.append(job)
        if len(calls) == 3: raise KeyboardInterrupt
        return dict(ppl=1., bleu=0.)
    with mock.patch.object(variations, 'train_row', interrupted):
        with pytest.raises(KeyboardInterrupt): train_rows(out, ['E', 'base'], range(2), mini, 1)
        assert [(r['row'], r['seed']) for r in read_results(out)] == [('E', 0), ('E', 1)]
        train_rows(out, ['E', 'base'], range(2), mini, 1)
        train_rows(out, ['base'], range(3), mini, 1) # one seed more
        train_rows(out, ['base', 'E'], range(3), mini, 1)
    assert [(r['row'], r['seed']) for r in read_results(out)] == [('E', 0), ('E', 1), ('base', 0), ('base', 1), ('base', 2), ('E', 2)]
    assert len(calls) == 7 and [p.name for p in out.parent.iterdir()] == ['x.jsonl']

def test_other_settings_are_refused(mini, tmp_path):
    out = tmp_path/'x.jsonl'
    with mock.patch.object(variations, 'train_row', lambda *job: dict(ppl=1., bleu=0.)):
        train_rows(out, ['base', 'A1'], range(1), mini, 1)
        before = out.read_bytes()
        for change in (lambda: train_rows(out, ['A1'], range(1), mini, 2), lambda: train_rows(out, ['A1'], range(1), mini | dict(valid=mini['valid'][:1]), 1)):
            with pytest.raises(InputError, match='row base was trained with other settings'): change()
        with mock.patch.dict(ROWS, A1=dict(n_heads=2)), pytest.raises(InputError, match='row A1'): train_rows(out, ['base'], range(2), mini, 1)
        out.write_text(before.decode().replace('"A1"', '"A7"')) # a row that there is not
        with pytest.raises(InputError, match='row A7'): train_rows(out, ['base'], range(1), mini, 1)
        out.write_bytes(before)
    assert out.read_bytes() == before

def test_processes(mini, tmp_path):
    "Trainings in processes of their own come out as one in this process does"
    results = train_rows(tmp_path/'x.jsonl', ['C-N1', 'no-sqrt-dk'], range(1), mini, 1, processes=2)
    assert {r['row'] for r in results} == {'C-N1', 'no-sqrt-dk'} and {r['threads'] for r in results} == {1}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    here = train_row(ROWS['C-N1'], 0, mini, 1)
    torch.set_num_threads(threads)
    there = next(r for r in results if r['row'] == 'C-N1')
    assert {k: there[k] for k in here if k != 'seconds'} == {k: v for k, v in here.items() if k != 'seconds'}
    assert all(type(there[k]) in (int, float) for k in ('parameters', 'updates', 'epochs', 'valid_loss', 'train_loss', 'ppl', 'bleu', 'seconds'))

def run(*args): return subprocess.run([BIN/'tnb_variations', *map(str, args)], capture_output=True, timeout=300, env={**os.environ, 'TRANSFORMER_NB_DATA': ''})

@pytest.mark.parametrize('options, words', [
    (['--rows', 'base,A3'], ["'A3'", 'table, left_out, depth', 'base, A1']),
    (['--rows', ''], ["''"]),
    (['--seeds', 0], ['--seeds is 0']),
    (['--processes', -1], ['--processes is -1']),
    (['--n_updates', 0], ['--n_updates is 0']),
    (['--corpus', 'wmt'], ["'wmt'"]),
], ids=lambda x: ' '.join(map(str, x)))
def test_command_refuses(options, words, tmp_path):
    done = run('--corpus', 'mini', '--out', tmp_path/'x', *options)
    error = done.stderr.decode()
    assert done.returncode == 2 and error.count('\n') == 1 and not done.stdout and not (tmp_path/'x').exists(), error
    for word in words: assert word in error

def test_command_names_a_damaged_line(tmp_path):
    for text in ('{"row": "base", "seed": 0, "settings": "x"}\nhalf a li', '{"row": "base", "seed": 0}\n7'):
        (tmp_path/'x').write_text(text)
        done = run('--corpus', 'mini', '--out', tmp_path/'x')
        assert done.returncode == 2 and b'x:2: no JSON object' in done.stderr and done.stderr.count(b'\n') == 1, done.stderr

def test_command(tmp_path):
    out = tmp_path/'x.jsonl'
    for n in (1, 0): # what is there is not trained again
        done = run('--corpus', 'mini', '--rows', 'C-N1', '--seeds', 1, '--processes', 1, '--n_updates', 40, '--out', out)
        assert done.returncode == 0 and done.stdout.count(b'\n') == n, done.stderr.decode()
    [result] = map(json.loads, out.read_text().splitlines())
    assert result['row'] == 'C-N1' and result['updates'] == 40 and result['hardware'] and result['torch'] == torch.__version__
