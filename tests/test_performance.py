"Chapter 19 beyond its own proofs: peers, counters and turns on more cases, and the command that measures."
import json, os, subprocess, sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode
from transformer_nb.attention import scaled_dot_product_attention
from transformer_nb.fast import HAS_ONEDNN
from transformer_nb.core import PAD
from transformer_nb.data import make_batch
from transformer_nb.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam
from transformer_nb.performance import OpCounter, Marian, TorchTransformer, compared, part_of, product_seconds, interleave, where_time_goes
from transformer_nb.training import train_step

ROOT = Path(__file__).parent.parent
few = settings(max_examples=25, deadline=None)
PAIRS = [([5, 6, 7], [8, 9, 10, 11]), ([5, 6, 7, 8, 9], [8, 9]), ([4], [12, 13, 14, 15, 16])]
SMALL = dict(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=2, n_decoder_layers=3, max_len=32)

def peer_of(name, model):
    if name == 'Marian': pytest.importorskip('transformers')
    return dict(torch=TorchTransformer, Marian=Marian)[name](model)

@few
@given(systems=st.integers(1, 5), batches=st.integers(0, 12), warm_up=st.integers(0, 3))
def test_turns(systems, batches, warm_up):
    seen = []
    names = [f's{i}' for i in range(systems)]
    seconds = interleave({n: lambda b, n=n: seen.append((n, b)) for n in names}, range(batches), warm_up)
    assert sorted(seen) == sorted((n, b) for n in names for b in range(batches))       # everyone gets everything, once
    rounds = [seen[i:i + systems] for i in range(0, len(seen), systems)]
    assert [row[0][0] for row in rounds] == [names[i % systems] for i in range(batches)] # and everyone begins in turn
    assert all(len(times) == max(0, batches - warm_up) and min(times, default=0) >= 0 for times in seconds.values())

def test_compared():
    first, second = compared(dict(ours=[1., 2., 4.], theirs=[2., 2., 2.]), [10, 20, 80])
    assert first == dict(system='ours', per_second=10., ratio=[1., 1., 1.])
    assert second == dict(system='theirs', per_second=10., ratio=[0.5, 1., 2.])

@pytest.mark.parametrize('name', ['torch', 'Marian'])
@pytest.mark.parametrize('changes', [{}, dict(n_heads=4), dict(n_encoder_layers=1), dict(d_model=8, n_decoder_layers=1)])
def test_peers_say_and_learn_the_same(name, changes):
    torch.manual_seed(0)
    ours = Transformer(TransformerConfig(20, dropout=0., **SMALL | changes)).double()
    peer, batch = peer_of(name, ours).double(), make_batch(PAIRS)
    real = batch.labels != PAD
    for mode in (True, False):
        assert_close(peer.train(mode)(batch.src, batch.tgt)[real], ours.train(mode)(batch.src, batch.tgt)[real], rtol=0, atol=1e-5)
    optimizers = adam(ours), adam(peer)
    for _ in range(3): # three updates, so every gradient must agree
        found = [train_step(m.train(), optimizer, [batch], 1e-3, 0.1)[0] for m, optimizer in zip((ours, peer), optimizers)]
    assert_close(*found, rtol=1e-5, atol=0)
    assert all(p.requires_grad or not p.any() or 'positions' in n for n, p in peer.named_parameters()) # biases that ours has not
    assert sum(p.numel() for p in peer.parameters() if p.requires_grad) == sum(p.numel() for p in ours.parameters())

def step_flops(c, b, s, t):
    def attention(t, s): return 4*(t + s)*c.d_model**2 + 4*t*s*c.d_model
    def feed_forward(t): return 4*t*c.d_model*c.d_ff
    return 3*b*(c.n_encoder_layers*(attention(s, s) + feed_forward(s))
                + c.n_decoder_layers*(attention(t, t) + attention(t, s) + feed_forward(t)) + 2*t*c.d_model*c.vocab_size)

@pytest.mark.parametrize('changes', [{}, dict(n_heads=4), dict(d_ff=8), dict(n_encoder_layers=1)])
def test_flops_of_a_step(changes):
    c = TransformerConfig(20, **SMALL | changes)
    model, batch = Transformer(c), make_batch(PAIRS)
    optimizer = adam(model)
    def step(): train_step(model, optimizer, [batch], 1e-3, 0.1)
    with mock.patch('transformer_nb.multihead.attention', lambda *args: scaled_dot_product_attention(*args)[0]):
        with OpCounter() as ours: step()
        with FlopCounterMode(display=False) as theirs: step()
    assert ours.flops == theirs.get_total_flops() == step_flops(c, 3, batch.src.shape[1], batch.tgt.shape[1])
    assert product_seconds(ours.products) > 0

@pytest.mark.skipif(not HAS_ONEDNN, reason='no oneDNN beside MKL')
@mock.patch('transformer_nb.core.USE_ONEDNN', True)
def test_large_matrices_are_counted():
    c = TransformerConfig(20_000, **SMALL)
    model, batch = Transformer(c), make_batch(PAIRS)
    optimizer = adam(model)
    def step(): train_step(model, optimizer, [batch], 1e-3, 0.1)
    with mock.patch('transformer_nb.multihead.attention', lambda *args: scaled_dot_product_attention(*args)[0]), OpCounter() as counted: step()
    assert counted.flops == step_flops(c, 3, batch.src.shape[1], batch.tgt.shape[1])
    assert 'mkldnn' in {func.namespace for func, _ in counted.products} and product_seconds(counted.products) > 0
    seen = []
    def noted(event, made): return seen.append((event.name, part_of(event, made))) or seen[-1][1]
    with mock.patch('transformer_nb.performance.part_of', noted): where_time_goes(step)
    assert {part for name, part in seen if 'linear_pointwise' in name} == {'vocabulary'}

def test_bytes():
    x, p = torch.ones(10, 10), nn.Parameter(torch.ones(100))
    for func, size in [(lambda: x + x, 3), (lambda: x.add_(1), 2), (lambda: x.exp(), 2), (lambda: x.view(-1), 0), (lambda: x.T.contiguous(), 2),
                       (lambda: x @ x, 3), (lambda: x.sum(), 1), (lambda: torch.zeros(10, 10), None)]:
        with OpCounter() as counted: func()
        if size is not None: assert abs(counted.bytes - 400*size) <= 4
    optimizer, p.grad = torch.optim.Adam([p], fused=True), torch.ones(100)
    optimizer.step()
    with OpCounter() as counted: optimizer.step()
    assert 7*400 <= counted.bytes <= 8*400 + 100 # weight, gradient and both means are read; PyTorch declares all four as written

def test_time_of_parts():
    model, batch = Transformer(TransformerConfig(20, **SMALL)), make_batch(PAIRS)
    optimizer = adam(model)
    found = where_time_goes(lambda: train_step(model, optimizer, [batch], 1e-3, 0.1))
    assert set(found) == {'attention', 'feed-forward', 'vocabulary', 'softmax and loss', 'dropout', 'normalisation', 'optimizer', 'rest', 'Python'}
    assert not model._forward_hooks and min(found.values()) >= 0
    model.eval()
    with torch.no_grad(): found = where_time_goes(lambda: model(batch.src, batch.tgt)) # no backward pass, no optimizer
    assert {'attention', 'feed-forward', 'vocabulary'} <= set(found) and not {'optimizer', 'softmax and loss'} & set(found)

def bench(*args, **env):
    return subprocess.run([sys.executable, ROOT/'tests'/'bench.py', *map(str, args)], capture_output=True, text=True, timeout=600, cwd=ROOT,
                          env={**os.environ, 'TRANSFORMER_NB_DATA': '', 'PYTHONPATH': str(ROOT), **env})

@pytest.mark.parametrize('args, said', [(['--parts', 'speed'], "'speed' is not known"), (['--sizes', 'huge:3'], "'huge' is not known"), (['--sizes', 'tiny:x'], "'x' must be"),
                                        (['--n', 0], '--n is 0'), (['--models', 'nowhere', '--parts', 'decoding', '--corpus', 'mini'], 'nowhere')])
def test_bench_refuses(args, said, tmp_path):
    if 'decoding' in args: pytest.importorskip('ctranslate2')
    done = bench('--out', tmp_path/'out', *args)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count('\n') == 1, done.stderr
    assert not (tmp_path/'out').exists()

def test_bench_without_peers(tmp_path):
    (tmp_path/'transformers.py').write_text('raise ImportError("No module named transformers")')
    done = bench('--out', tmp_path/'out', '--parts', 'training', '--sizes', 'tiny:2', '--corpus', 'mini', PYTHONPATH=f'{tmp_path}{os.pathsep}{ROOT}')
    assert done.returncode == 2 and 'transformers' in done.stderr and 'bench' in done.stderr and done.stderr.count('\n') == 1, done.stderr

def test_bench(tmp_path):
    pytest.importorskip('transformers')
    done = bench('--out', tmp_path/'out', '--parts', 'limit', '--sizes', 'tiny:2', '--corpus', 'mini', '--batch_tokens', 128)
    assert done.returncode == 0, done.stderr
    [row] = [json.loads(line) for line in (tmp_path/'out').read_text().splitlines()]
    assert row['torch'] == torch.__version__ and row['cores'] == os.cpu_count() and row['corpus'] == 'mini' and row['threads'] == 2 and row['kept']
    assert row['flops'] > row['bytes'] > 0 and min(row[x] for x in ('step', 'products', 'square_rate', 'bandwidth')) > 0

def test_two_processes():
    pytest.importorskip('transformers')
    from bench import in_own_process
    rows = in_own_process('training', dict(n=2, round=0, size='tiny', corpus='mini', batch_tokens=128), threads=2, processes=2, kept=False)
    assert [r['system'] for r in rows] == ['ours', 'torch', 'Marian'] and all(r['off'] < 1e-4 and r['per_second'] > 0 for r in rows)
    assert {(r['processes'], r['threads'], r['kept']) for r in rows} == {(2, 1, False)}

def test_all_parts():
    for name in ('transformers', 'ctranslate2'): pytest.importorskip(name)
    from bench import DECODERS, GROWTH, beams, decoding, growth, memory, parts, training, variants
    options, folder = dict(size='tiny', corpus='mini', batch_tokens=128), ROOT/'nbs/models/multi30k-en-de'
    pairs = [pair[::-1] for pair in mini_corpus()['train'][:200]]
    with mock.patch.dict(GROWTH, length=(8, 64)), mock.patch.multiple('bench', load_corpus=lambda *_: dict(train=pairs, test=pairs[:4]), which=lambda _: None, BEAMS=(1, 4)):
        assert [r['system'] for r in training(2, round=0, **options)] == ['ours', 'torch', 'Marian']
        names = [r['system'] for r in variants(2, **options)]
        assert names[:2] == ['ours', 'nn.Dropout'] and names[2] in ('products by MKL', 'products by oneDNN')
        assert {'data', 'Python', 'attention'} <= {r['name'] for r in parts(2, **options)}
        small, large = growth(1, 'length')
        assert (small['value'], large['value']) == (8, 64) and small['peak'] < large['peak']
        assert [r['translated'] for r in memory(20, folder, 4, 'mini')] == [4, 8, 12, 16, 20]
        assert [r['value'] for r in beams(2, folder, 'mini')] == [1, 4]
        rows = [row for system in DECODERS for row in decoding(0, system, folder, False, 4, 'mini')]
        [wide] = decoding(0, 'ours', folder, True, 4, 'mini')
    assert all(r['d_model'] == 128 and r['folder'] == folder.name and r['seconds'] > 0 and len(r['latency']) == 9 for r in rows)
    assert rows[0]['ids'] == rows[3]['ids'] == wide['ids'] and len(rows[1]['ids']) == len(rows[2]['ids']) == 4 and wide['d_model'] == 512

@pytest.mark.parametrize('more', [{}, dict(norm='pre'), dict(positions='learned', tie_embeddings=False, d_k=6, d_v=10)], ids=str)
def test_widened(more):
    from bench import widened
    model = Transformer(TransformerConfig(20, **SMALL | more)).double().eval()
    for p in model.parameters(): nn.init.normal_(p, std=0.5)
    batch, wide = make_batch(PAIRS), widened(model)
    assert (wide.config.d_model, wide.config.d_ff) == (4*model.config.d_model, 8*model.config.d_ff)
    real = batch.labels != PAD
    assert_close(wide(batch.src, batch.tgt)[real], model(batch.src, batch.tgt)[real])

def test_jobs():
    from bench import DECODERS, PARTS, jobs
    o = SimpleNamespace(parts=','.join(PARTS), sizes='tiny:24,d512:8', corpus=None, batch_tokens=4096, n=5, models='a,b', rounds=4, sentences=9, translations=90)
    found = jobs(o)
    assert [x for p, x, _ in found if p == 'decoding'] == [dict(round=i, system=system, folder=f, wide=wide, sentences=9, corpus=found[0][1]['corpus'])
                                                           for f, wide in (('a', False), ('b', False), ('a', True)) for i in range(4) for system in DECODERS]
    assert [(x['size'], x['n']) for p, x, _ in found if p == 'limit'] == [('tiny', 24), ('d512', 8)]
    arranged = [dict(kept=False), dict(kept=True), dict(kept=True, processes=2)]
    assert [(x['round'], how) for p, x, how in found if p == 'training' and x['size'] == 'tiny'] == [(i, how) for i in range(4) for how in arranged]
