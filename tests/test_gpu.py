"""Chapter 14c without a GPU: shapes, orders, bytes; steps on a device without numbers."""
import math, sys
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from itertools import combinations
import numpy as np
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close
from transformer_nb import training
from transformer_nb.speed import gpu
from transformer_nb.checkpoint import check_described
from transformer_nb.support.core import PAD, set_seed
from transformer_nb.decoding import Beams, power_penalty, search
from transformer_nb.speed.fast import accelerate
from transformer_nb.speed.gpu import (
    MAX_SHAPES, FixedBatches, RecordedSearch, RecordedSteps, accelerate_on_gpu,
    best_widths)
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam
from transformer_nb.training import (
    Trainer, TrainingConfig, token_loss, train_step)

CPU, CUDA, META = map(torch.device, ('cpu', 'cuda', 'meta'))

def model_of(dropout=0., **options):
    small = dict(vocab_size=50, d_model=16, d_ff=32, n_heads=2, n_encoder_layers=2,
                 n_decoder_layers=2, dropout=dropout, max_len=64)
    set_seed(0)
    return Transformer(TransformerConfig(**small | options))

def pairs(n, longest=30, seed=0):
    rng = np.random.default_rng(seed)
    def ids(): return rng.integers(4, 50, rng.integers(1, longest)).tolist()
    return [(ids(), ids()) for _ in range(n)]

# Shapes

@given(st.lists(st.integers(1, 511), min_size=1), st.integers(30, 3000), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_every_pair_once_and_few_shapes(lengths, budget, seed):
    corpus = [([5]*n, [6]*max(1, n - seed)) for n in lengths]
    batches = FixedBatches(corpus, budget, seed)
    plan = batches.plan(1)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(corpus)))
    shapes = set()
    for rows in plan:
        batch = batches.batch(rows)
        b, t = batch.src.shape
        assert batch.tgt.shape == batch.labels.shape == (b, t) and len(rows) <= b
        assert b*t <= budget or b == 1
        assert batch.n_tokens == (batch.labels != PAD).sum() == batches.count_targets(rows)
        assert (batch.src != PAD).any(1).all()
        assert (batch.labels[len(rows):] == PAD).all()
        shapes.add((b, t))
    assert len(shapes) <= MAX_SHAPES

@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_no_other_widths_cost_less(sizes, n):
    sizes = np.array(sizes)
    def places(widths): return widths[np.searchsorted(widths, sizes)].sum()
    found = best_widths(sizes, n)
    assert len(found) <= n and (np.diff(found) > 0).all()
    assert (found % 2 == 0).all()
    possible = sorted({int(size) + size % 2 for size in sizes})
    *narrower, widest = possible
    others = [places(np.array([*some, widest])) for k in range(n)
              for some in combinations(narrower, k)]
    assert places(found) == min(others)

# The layers

@pytest.mark.parametrize('options', [dict(), dict(tie_embeddings=False), dict(norm='pre'),
                                     dict(positions='rotary'), dict(positions='learned')])
def test_layers_exchanged_for_a_gpu_are_equal(options):
    model = model_of(**options).double()
    [batch] = list(FixedBatches(pairs(8), 400).epoch(0))[:1]
    def results(model):
        loss = token_loss(model, batch, 0.1, 17)
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))]
    on_gpu = accelerate_on_gpu(accelerate(deepcopy(model)))
    assert_close(results(on_gpu), results(model), rtol=1e-9, atol=1e-12)
    check_described(on_gpu) # can be saved
    assert {type(m.self_attention).__name__ for m in on_gpu.decoder.layers} <= {
        'CausalByName', 'CausalByNameRotary'}

# Steps on a device without numbers: whoever asks for one, raises

def on_meta(monkeypatch, **options):
    "A model there; PyTorch has neither a fused Adam for this device, nor autocast"
    def fused(*lists, lr, found_inf, **_):
        tensors = [x for part in lists for x in part] + [lr, found_inf]
        assert len(tensors) > 100 and all(x.device == META for x in tensors)
    of_adam = sys.modules['torch.optim.adam']
    monkeypatch.setattr(of_adam, '_device_dtype_check_for_fused', lambda *_: None)
    monkeypatch.setattr(torch, '_fused_adam_', fused)
    monkeypatch.setattr(torch, 'autocast', lambda *_, **options: nullcontext())
    with META: model = model_of(**options)
    return accelerate_on_gpu(accelerate(model)).train()

@pytest.mark.parametrize('positions', ['sinusoidal', 'rotary'])
@pytest.mark.parametrize('max_grad_norm', [None, 1.])
def test_no_step_waits_for_the_device(positions, max_grad_norm, monkeypatch):
    model = on_meta(monkeypatch, dropout=0.1, positions=positions)
    optimizer = adam(model, fused=True)
    batch = FixedBatches(pairs(30), 200).batch(range(5)).to(META)
    step = RecordedSteps(train_step, Plain(), META)
    for lr in (1e-3, 2e-3):
        results = step(model, optimizer, [batch], lr, 0.1, max_grad_norm, 9, 'fp32', None)
        assert all(x.device == META for x in results)
    with pytest.raises((RuntimeError, NotImplementedError)): results[0].item()

# Recorded steps

class Plain:
    "A stand-in for `CudaGraphs` that records nothing"
    def run(self, function): return function()
    def record(self, function):
        return (lambda: None), function()

class Never(RecordedSteps):
    "Every step is the first of its shape"
    def _play(self, step, batch): return step(batch)

class Replayed:
    "A stand-in whose replay calls the function again; recording computes nothing"
    def __init__(self): self.n_records = self.n_replays = 0
    def run(self, function): return function()
    def record(self, function):
        self.n_records += 1
        results = torch.zeros(()), torch.zeros((), dtype=torch.bool)
        def replay():
            self.n_replays += 1
            for held, new in zip(results, function()): held.copy_(new)
        return replay, results

def trainer(folder, take_step, fixed_shapes=True, **settings):
    batches = FixedBatches(pairs(150, 12), 100)
    defaults = dict(max_steps=40, warmup_steps=5, valid_every=10, save_every=10, average=2)
    config = TrainingConfig(**defaults | settings, fixed_shapes=fixed_shapes)
    model = accelerate_on_gpu(accelerate(model_of(0.2)))
    return Trainer(model, batches, list(batches.epoch(0))[:2], config, folder,
                   take_step=take_step)

def weights(model): return torch.cat([w.detach().flatten() for w in model.parameters()])

def recorded(graphs=None, kind=RecordedSteps):
    return kind(train_step, graphs or Replayed(), CPU)

def test_a_run_with_records_is_the_run_without(tmp_path):
    graphs = Replayed()
    with_records = trainer(tmp_path/'a', recorded(graphs))
    lines = with_records.run()
    without = trainer(tmp_path/'b', recorded(kind=Never))
    assert [x['train_loss'] for x in lines] == [x['train_loss'] for x in without.run()]
    assert torch.equal(weights(with_records.model), weights(without.model))
    epoch = with_records.batches.epoch(0)
    shapes = len({(batch.src.shape, batch.tgt.shape) for batch in epoch})
    assert 1 < graphs.n_records <= shapes and graphs.n_replays >= 40 - 2*shapes

def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    whole = trainer(tmp_path/'whole', recorded())
    whole.run()
    trainer(tmp_path/'cut', recorded(), max_steps=20).run()
    again = trainer(tmp_path/'cut', recorded())
    assert again.resume()
    again.run()
    assert torch.equal(weights(again.model), weights(whole.model))

def steps(take_step, n=6, lr=lambda i: 2.**-(9 - i % 3), model=None, batch=None):
    "Losses, whether they were taken, and the weights after n steps"
    model = model or model_of().double()
    optimizer = adam(model, fused=True)
    batch = batch or FixedBatches(pairs(30), 200).batch(range(5))
    rest = 0.1, 1., batch.n_tokens, 'fp32', None
    results = [take_step(model, optimizer, [batch], lr(i), *rest) for i in range(n)]
    losses, taken = zip(*results)
    return torch.stack(losses), torch.stack(taken), weights(model)

def test_dropout_differs_between_replays():
    losses, _, _ = steps(recorded(), lr=lambda i: 0., model=model_of(0.5))
    assert len(set(losses.tolist())) == len(losses)

@pytest.mark.parametrize('bad', [0, 1, 3])
def test_a_bad_step_is_skipped(bad):
    "Be it plain, recorded or replayed"
    model, n = model_of(), 0
    def spoil(*_):
        nonlocal n
        n += 1
        return torch.full((), math.nan) if n == bad + 1 else torch.ones(())
    def loss_of(*args): return token_loss(*args) * spoil()
    step = RecordedSteps(partial(train_step, loss_of=loss_of), Replayed(), CPU)
    losses, taken, after = steps(step, 5, model=model)
    assert taken.tolist() == [i != bad for i in range(5)]
    assert after.isfinite().all() and losses.isnan().sum() == 1

# Recorded searches

def sentences(n=20, longest=18, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(4, 12, rng.integers(0, longest + 1)).tolist() for _ in range(n)]

def sharper(**options):
    "A model whose hypotheses end at different times"
    small = dict(max_len=20, vocab_size=12, tie_embeddings=False)
    return model_of(**small | options).double().eval()

@pytest.mark.parametrize('options, how', [
    (dict(), dict()), (dict(norm='pre'), dict(beam_size=1)),
    (dict(positions='rotary'), dict(beam_size=5, n_best=3, max_extra=4)),
    (dict(norm='pre'), dict(alpha=0., penalty=power_penalty))])
def test_a_recorded_search_is_the_search(options, how):
    model = accelerate(sharper(**options))
    searching = RecordedSearch(model, Replayed())
    for seed in range(2): # the second time, all of it is replayed
        texts = sentences(10, seed=seed)
        ours = searching(texts, search_tokens=100, **how)
        theirs = search(model, texts, search_tokens=100, **how)
        for a, b in zip(ours, theirs, strict=True):
            assert [h.ids for h in a] == [h.ids for h in b]
            assert_close([h.score for h in a], [h.score for h in b], rtol=1e-9, atol=1e-9)
            assert [len(h.log_probs) for h in a] == [len(h.log_probs) for h in b]
    with pytest.raises(TypeError): searching(texts, min_len=2) # nothing is passed over
    lengths = {len(h.ids) for [h, *_] in theirs}
    assert len(lengths) > 1 or 'max_extra' in how # they end at different times

def test_no_step_of_a_search_waits_for_the_device(monkeypatch):
    model = on_meta(monkeypatch).eval()
    beams = Beams(torch.full((3,), 9, device=META), torch.ones(10, device=META), 4, 2)
    src = torch.full((3, 7), 5, device=META)
    with torch.inference_mode():
        searcher = gpu._Searcher(model, src, beams, Plain())
        for _ in range(3): assert searcher.step() == ()
    held = [x for pair in searcher.cache.target.values() for x in pair]
    assert len(held) == 4 and all(x.device == META for x in held)
    with pytest.raises((RuntimeError, NotImplementedError)): bool(beams.is_done.all())

# Layer by layer

def test_few_graphs_are_compiled(monkeypatch):
    "One for each kind of layer and a few more, however many layers and shapes"
    torch._dynamo.reset()
    n_graphs = 0
    def counting(graph, inputs):
        nonlocal n_graphs
        n_graphs += 1
        return graph.forward
    model = model_of(n_encoder_layers=4, n_decoder_layers=4)
    network = training._compile_layers(model, counting)
    assert all(a is b for a, b in zip(model.parameters(), network.parameters()))
    assert list(model.state_dict()) == list(network.state_dict())
    for batch in FixedBatches(pairs(300), 150).epoch(0):
        assert_close(network(batch.src, batch.tgt), model(batch.src, batch.tgt))
    assert 2 <= n_graphs <= 6, n_graphs
    model.eval()
    assert network.training # what validates is the plain model
