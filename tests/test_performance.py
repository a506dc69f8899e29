"Chapter 19 beyond its own proofs: peers and counters on more cases, and the benchmark."
import json, os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock
import pytest, torch
from hypothesis import given, settings, strategies as st
from running import call_script
from torch import nn
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode
from transformer_nb.attention import scaled_dot_product_attention
from transformer_nb.support.core import PAD, provenance
from transformer_nb.data import make_batch
from transformer_nb.speed.fast import HAS_ONEDNN, accelerate
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam
from transformer_nb.training import train_step
from transformer_nb.studies import performance
from transformer_nb.studies.performance import (
    Marian, OpCounter, TorchTransformer, compared, interleave, product_seconds,
    where_time_goes)

ROOT = Path(__file__).parent.parent
few = settings(max_examples=25, deadline=None)
PAIRS = [
    ([5, 6, 7], [8, 9, 10, 11]),
    ([5, 6, 7, 8, 9], [8, 9]),
    ([4], [12, 13, 14, 15, 16])]
SMALL = dict(
    d_model=16,
    d_ff=32,
    n_heads=2,
    n_encoder_layers=2,
    n_decoder_layers=3,
    max_len=32)

def n_trained(model): return sum(p.numel() for p in model.parameters() if p.requires_grad)

def make_step(model, batch):
    return partial(train_step, model, adam(model, fused=True), [batch], 1e-3, 0.1)

def plain_attention(*args): return scaled_dot_product_attention(*args)[0]
plainly = mock.patch('transformer_nb.multihead.attention', plain_attention)

# Turns and ratios

@few
@given(systems=st.integers(1, 5), batches=st.integers(0, 12), warm_up=st.integers(0, 3))
def test_turns(systems, batches, warm_up):
    seen = []
    def noting(name): return lambda batch: seen.append((name, batch))
    names = [f's{i}' for i in range(systems)]
    seconds = interleave({name: noting(name) for name in names}, range(batches), warm_up)
    everything = [(name, i) for name in names for i in range(batches)]
    assert sorted(seen) == sorted(everything)    # once
    beginners = [name for name, _ in seen[::systems]]
    assert beginners == [names[i % systems] for i in range(batches)]
    for times in seconds.values():
        assert len(times) == max(0, batches - warm_up)
        assert min(times, default=0) >= 0

def test_compared():
    first, second = compared(dict(ours=[1., 2., 4.], theirs=[2., 2., 2.]), [10, 20, 80])
    assert first == dict(system='ours', tokens_per_second=10., ratio=1.)
    assert second == dict(system='theirs', tokens_per_second=10., ratio=1.)

# Peers

def peer_of(name, model):
    if name == 'Marian': pytest.importorskip('transformers')
    return dict(torch=TorchTransformer, Marian=Marian)[name](model)

@pytest.mark.parametrize('make_fast', [False, True])
@pytest.mark.parametrize('name', ['torch', 'Marian'])
@pytest.mark.parametrize('changes', [
    {},
    dict(n_heads=4),
    dict(n_encoder_layers=1),
    dict(d_model=8, n_decoder_layers=1)])
def test_peers_predict_and_learn_the_same(name, changes, make_fast):
    torch.manual_seed(0)
    ours = Transformer(TransformerConfig(20, dropout=0., **SMALL | changes)).double()
    if make_fast: accelerate(ours)
    peer = peer_of(name, ours).double()
    batch = make_batch(PAIRS)
    def logits(model): return model(batch.src, batch.tgt)[batch.labels != PAD]
    for mode in (True, False):
        assert_close(logits(peer.train(mode)), logits(ours.train(mode)), rtol=0, atol=1e-5)
    steps = [make_step(model.train(), batch) for model in (ours, peer)]
    for _ in range(3): losses = [step()[0] for step in steps] # so every gradient must agree
    assert_close(*losses, rtol=1e-5, atol=0)
    for parameter_name, p in peer.named_parameters():
        if p.requires_grad or 'positions' in parameter_name: continue
        assert not p.any(), parameter_name # a bias that ours does not have
    assert n_trained(peer) == n_trained(ours)

def test_peers_are_plain():
    from transformer_nb.speed import fast
    model = accelerate(Transformer(TransformerConfig(20, **SMALL)))
    faster = fast.FastLinear, fast.FastDropout, fast.FastEmbedding, fast.FusedAttention
    assert any(isinstance(m, faster) for m in model.modules())
    assert not any(isinstance(m, faster) for m in TorchTransformer(model).modules())

# What a step computes and moves

def step_flops(c, b, s, t):
    d = c.d_model
    def attention(t, s): return 4*(t + s)*d**2 + 4*t*s*d
    def feed_forward(t): return 4*t*d*c.d_ff
    encoder = c.n_encoder_layers * (attention(s, s) + feed_forward(s))
    decoder_layer = attention(t, t) + attention(t, s) + feed_forward(t)
    return 3*b*(encoder + c.n_decoder_layers*decoder_layer + 2*t*d*c.vocab_size)

def flops_of(config, batch):
    return step_flops(config, len(batch.src), batch.src.shape[1], batch.tgt.shape[1])

@pytest.mark.parametrize('make_fast', [False, True])
@pytest.mark.parametrize('changes', [
    {},
    dict(n_heads=4),
    dict(d_ff=8),
    dict(n_encoder_layers=1)])
def test_flops_of_a_step(changes, make_fast):
    config, batch = TransformerConfig(20, **SMALL | changes), make_batch(PAIRS)
    model = Transformer(config)
    if make_fast: accelerate(model)
    step = make_step(model, batch)
    with plainly:
        with OpCounter() as ours: step()
        with FlopCounterMode(display=False) as theirs: step()
    assert ours.flops == theirs.get_total_flops() == flops_of(config, batch)
    assert product_seconds(ours.products) > 0

@pytest.mark.skipif(not HAS_ONEDNN, reason='no oneDNN beside MKL')
@mock.patch('transformer_nb.speed.fast.USE_ONEDNN', True)
def test_large_matrices_are_counted():
    config, batch = TransformerConfig(20_000, **SMALL), make_batch(PAIRS)
    step = make_step(accelerate(Transformer(config)), batch)
    with plainly, OpCounter() as counted: step()
    assert counted.flops == flops_of(config, batch)
    assert 'mkldnn' in {func.namespace for func, _ in counted.products}
    assert product_seconds(counted.products) > 0
    seen = []
    part_of = performance._part_of
    def noting(event, parts):
        part = part_of(event, parts)
        if 'linear_pointwise' in event.name: seen.append(part)
        return part
    with mock.patch.object(performance, '_part_of', noting): where_time_goes(step)
    assert set(seen) == {'vocabulary'}

def bytes_of(func):
    with OpCounter() as counted: func()
    return counted.bytes

X = torch.ones(10, 10) # 400 bytes
@pytest.mark.parametrize('func, n_tensors', [
    (lambda x: x + x, 3),
    (lambda x: x.add_(1), 2),
    (lambda x: x.exp(), 2),
    (lambda x: x.view(-1), 0),
    (lambda x: x.T.contiguous(), 2),
    (lambda x: x @ x, 3),
    (lambda x: x.sum(), 1)])
def test_bytes(func, n_tensors):
    assert abs(bytes_of(lambda: func(X)) - 400*n_tensors) <= 4

def test_bytes_of_making_a_tensor(): bytes_of(lambda: torch.zeros(10, 10))

def test_bytes_of_adam():
    p = nn.Parameter(torch.ones(100))
    p.grad = torch.ones(100)
    optimizer = torch.optim.Adam([p], fused=True)
    optimizer.step()
    # weight, gradient and both means are read; PyTorch declares all four as written
    assert 7*400 <= bytes_of(optimizer.step) <= 8*400 + 100

FORWARD = {'attention', 'feed-forward', 'vocabulary'}
EVERY_PART = FORWARD | {'softmax and loss', 'dropout', 'normalisation', 'optimizer', 'rest',
                        'Python'}

@pytest.mark.parametrize('make_fast', [False, True])
def test_time_of_parts(make_fast):
    model, batch = Transformer(TransformerConfig(20, **SMALL)), make_batch(PAIRS)
    if make_fast: accelerate(model)
    found = where_time_goes(make_step(model, batch))
    assert set(found) == EVERY_PART
    assert not model._forward_hooks and min(found.values()) >= 0
    model.eval() # no backward pass, no optimizer
    with torch.no_grad(): found = where_time_goes(lambda: model(batch.src, batch.tgt))
    assert FORWARD <= set(found)
    assert not {'optimizer', 'softmax and loss'} & set(found)

# The benchmark as a command

def bench(*words):
    "Here; what it measures has processes of its own"
    from bench import main
    return call_script(main, *words)

def check_refusal(done, *messages):
    stderr = done.stderr.decode()
    assert done.returncode == 2 and stderr.count('\n') == 1, stderr
    for message in messages: assert message in stderr

@pytest.mark.parametrize('args, message', [
    ('--parts speed', "'speed' is not known"),
    ('--sizes huge:3', "'huge' is not known"),
    ('--sizes tiny:x', "'x' must be"),
    ('--n 0', '--n is 0'),
    ('--models nowhere --parts decoding --corpus mini', 'nowhere')])
def test_bench_refuses(args, message, tmp_path):
    if 'decoding' in args: pytest.importorskip('ctranslate2')
    out = tmp_path/'out'
    done = bench('--out', out, *args.split())
    check_refusal(done, message)
    assert not out.exists()

SHORT = '--sizes tiny:2 --corpus mini --batch_tokens 128'.split()

def test_bench_without_peers(tmp_path, monkeypatch):
    missing = 'raise ImportError("No module named transformers")'
    (tmp_path/'transformers.py').write_text(missing)
    monkeypatch.setenv('PYTHONPATH', f'{tmp_path}{os.pathsep}{ROOT}')
    done = bench('--out', tmp_path/'out', '--parts', 'training', *SHORT)
    check_refusal(done, 'transformers', 'bench')

@pytest.mark.slow
def test_bench(tmp_path):
    pytest.importorskip('transformers')
    out = tmp_path/'out'
    here = provenance()['hardware']
    elsewhere = dict(hardware='another', part='limit')
    other_part = dict(hardware=here, part='growth')
    before = dict(hardware=here, part='limit')
    rows = [elsewhere, before, other_part]
    out.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    done = bench('--out', out, '--parts', 'limit', *SHORT)
    assert done.returncode == 0, done.stderr
    assert '2 lines stay, 1 of this machine' in done.stdout.decode()
    *kept, row = [json.loads(line) for line in out.read_text().splitlines()]
    assert kept == [elsewhere, other_part] and [out] == list(tmp_path.iterdir())
    assert row['torch'] == torch.__version__
    assert row['hardware'].endswith(f', {os.cpu_count()} cores') and row['commit']
    assert (row['corpus'], row['threads'], row['memory_kept']) == ('mini', 2, True)
    assert row['flops'] > row['bytes'] > 0
    assert min(row[x] for x in ('step', 'products', 'square_rate', 'bandwidth')) > 0

@pytest.mark.long
def test_two_processes():
    pytest.importorskip('transformers')
    from bench import in_own_process
    options = dict(n=2, round=0, size='tiny', corpus='mini', batch_tokens=128)
    rows = in_own_process('training', options, processes=2, memory_kept=False)
    assert [r['system'] for r in rows] == ['ours']
    for r in rows:
        assert r['logit_difference'] < 1e-4 and r['tokens_per_second'] > 0
        assert (r['processes'], r['threads'], r['memory_kept']) == (2, 1, False)

# The parts of the benchmark

TASK = dict(size='tiny', corpus='mini', batch_tokens=128)
FOLDER = ROOT/'nbs'/'models'/'multi30k-en-de'

@pytest.fixture
def small_bench(copies):
    "The benchmark with little to do"
    for name in ('transformers', 'ctranslate2'): pytest.importorskip(name)
    import bench
    pairs = [(english, german) for german, english in mini_corpus(0, 200, 0, 0)['train']]
    corpus = dict(train=pairs, test=pairs[:4])
    changes = dict(load_corpus=lambda *_: corpus, which=lambda _: None, BEAMS=(1, 4),
                   get_context=copies)
    shorter = mock.patch.dict(bench.GROWTH, length=(8, 64))
    threads = torch.get_num_threads()
    with shorter, mock.patch.multiple(bench, **changes): yield bench
    torch.set_num_threads(threads)

def test_parts_of_training(small_bench):
    rows = small_bench.training(2, round=0, **TASK)
    assert [r['system'] for r in rows] == ['ours', 'torch', 'Marian']
    rows = small_bench.variants(2, round=0, **TASK)
    ours, dropout, layers, library, *adams = rows
    assert ours['system'] == 'ours'
    assert dropout['system'] == 'nn.Dropout'
    assert layers['system'] == 'plain layers'
    assert library['system'] in ('products by MKL', 'products by oneDNN')
    assert len(adams) == 2
    names = {r['name'] for r in small_bench.parts(2, **TASK)}
    assert {'data', 'Python', 'attention'} <= names

@pytest.mark.long
def test_parts_of_growth(small_bench):
    small, large = small_bench.growth(1, 'length')
    assert (small['value'], large['value']) == (8, 64)
    assert small['peak'] < large['peak']
    rows = small_bench.memory(20, FOLDER, 4, 'mini')
    assert [r['translated'] for r in rows] == [4, 8, 12, 16, 20]
    assert [r['value'] for r in small_bench.beams(2, FOLDER, 'mini')] == [1, 4]

@pytest.mark.long
def test_part_decoding(small_bench):
    def decode(system, wide=False):
        [row] = small_bench.decoding(0, system, FOLDER, wide, 4, 'mini')
        assert row['seconds'] > 0 and len(row['latency']) == 9
        assert row['d_model'] == (512 if wide else 128) and row['folder'] == FOLDER.name
        assert len(row['ids']) == 4
        return row['ids']
    found = {system: decode(system) for system in small_bench.DECODERS}
    patient = found['CTranslate2, one thread each, patience 10']
    ours = found['ours']
    assert ours == found['ours, one thread'] == found['ours, two processes'] == patient
    assert ours == decode('ours', wide=True)
    assert set(small_bench.WIDE_DECODERS) <= set(found)

@pytest.mark.parametrize('more', [
    {},
    dict(norm='pre'),
    dict(positions='learned', tie_embeddings=False, d_k=6, d_v=10)], ids=str)
def test_widened(more):
    from bench import widened
    config = TransformerConfig(20, **SMALL | more)
    model = Transformer(config).double().eval()
    for p in model.parameters(): nn.init.normal_(p, std=0.5)
    wide, batch = widened(model), make_batch(PAIRS)
    assert wide.config.d_model == 4*config.d_model
    assert wide.config.d_ff == 8*config.d_ff
    def logits(model): return model(batch.src, batch.tgt)[batch.labels != PAD]
    assert_close(logits(wide), logits(model))

def test_jobs():
    from bench import DECODERS, PARTS, WIDE_DECODERS, jobs
    found = jobs(SimpleNamespace(
        parts=','.join(PARTS),
        sizes='tiny:24,d512:8',
        corpus=None,
        batch_tokens=4096,
        n=5,
        models='a,b',
        rounds=4,
        sentences=16,
        translations=90))
    def of_part(part): return [(x, settings) for name, x, settings in found if name == part]
    assert {name for name, _, _ in found} == set(PARTS)
    expected = []
    for folder, wide in (('a', False), ('b', False), ('a', True)):
        systems = WIDE_DECODERS if wide else DECODERS
        for i in range(4): # every second round the other way round
            expected += [(folder, wide, i, x) for x in systems[::-1 if i % 2 else 1]]
    keys = 'folder', 'wide', 'round', 'system'
    assert [tuple(x[k] for k in keys) for x, _ in of_part('decoding')] == expected
    [(small, _), (large, _)] = of_part('limit')
    assert (small['size'], small['n']) == ('tiny', 24)
    assert (large['size'], large['n']) == ('d512', 8)
    assert small['corpus'] in ('multi30k', 'mini')
    for x, how in of_part('decoding'):
        assert x['sentences'] == (4 if x['wide'] else 16)
        assert (how == {}) == ('memory as it is' not in x['system'])
    kept = dict(memory_kept=True)
    arranged = [dict(memory_kept=False), kept, kept | dict(processes=2)]
    in_turns = [(x['round'], how) for x, how in of_part('training') if x['size'] == 'tiny']
    assert in_turns == [(i, how) for i in range(4) for how in arranged]
    large = [how for x, how in of_part('training') if x['size'] == 'd512']
    assert large == arranged[:2] * 4
