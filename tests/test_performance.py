"Chapter 19 beyond its own proofs: peers and counters on more cases, and the benchmark."
from functools import partial
from unittest import mock
import bench, pytest, torch
from beside import BOY, MODEL
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode
from transformer_nb.attention import scaled_dot_product_attention
from transformer_nb.support.core import PAD
from transformer_nb.data import make_batch
from transformer_nb.decoding import Beams, power_penalty
from transformer_nb.speed.fast import accelerate
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam
from transformer_nb.training import train_step
from transformer_nb.studies.performance import (
    Marian, OpCounter, TorchTransformer, compared, interleave, product_seconds,
    ratio_interval, where_time_goes)
from transformer_nb.translation import Translator

PAIRS = [([5, 6, 7], [8, 9, 10, 11]), ([5, 6, 7, 8, 9], [8, 9]),
         ([4], [12, 13, 14, 15, 16])]
SMALL = dict(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=2, n_decoder_layers=3,
             max_len=32)

def n_trained(model): return sum(p.numel() for p in model.parameters() if p.requires_grad)

def make_step(model, batch):
    return partial(train_step, model, adam(model, fused=True), [batch], 1e-3, 0.1)

def plain_attention(*args): return scaled_dot_product_attention(*args)[0]
plainly = mock.patch('transformer_nb.multihead.attention', plain_attention)

def peer_of(name, model):
    if name == 'Marian': pytest.importorskip('transformers')
    return dict(torch=TorchTransformer, Marian=Marian)[name](model)

@pytest.mark.parametrize('make_fast', [False, True])
@pytest.mark.parametrize('name', ['torch', 'Marian'])
@pytest.mark.parametrize('changes', [{}, dict(d_model=8, n_heads=4, n_decoder_layers=1)])
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
@pytest.mark.parametrize('changes', [{}, dict(d_ff=8, n_heads=4, n_encoder_layers=1)])
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

def test_systems_take_turns():
    calls = []
    systems = {name: lambda i, name=name: calls.append(f'{name}{i}') for name in 'ABC'}
    assert set(map(len, interleave(systems, range(4), warm_up=1).values())) == {3}
    assert ' '.join(calls) == 'A0 B0 C0 B1 C1 A1 C2 A2 B2 A3 B3 C3'
    _, peer = compared(dict(ours=[1., 1., 1.], peer=[2., 3., 4.]), [100] * 3)
    assert peer == dict(system='peer', tokens_per_second=100/3, ratio=3.)
    low, middle, high = ratio_interval([1.25, 1/1.25])
    assert [middle, low * high] == pytest.approx([1, 1]) and high > 10

def test_the_parts_of_a_step():
    model = Transformer(TransformerConfig(20, **SMALL))
    seconds = where_time_goes(make_step(model, make_batch(PAIRS)))
    assert {'attention', 'feed-forward', 'vocabulary', 'optimizer'} <= set(seconds)
    assert min(seconds.values()) >= 0

CAPTIONS = [BOY, 'Two dogs.', 'A man in a red shirt is standing in front of a building.']

def test_our_arrangements_of_the_benchmark_translate():
    "CTranslate2's rule takes fewer steps, to one of the best that the search finds"
    ours = Translator(MODEL, bench.CPU, penalty=power_penalty, n_best=4)
    extend = mock.patch.object(Beams, 'extend', autospec=True, side_effect=Beams.extend)
    with extend as steps: ranked = [[h.ids for h in h4] for h4 in ours.search(CAPTIONS)]
    for name in bench.OUR_DECODERS.keys() - {'ours, two processes'}:
        with extend as taken: found = bench.translator(name, MODEL)(CAPTIONS)
        is_early = 'early' in bench.OUR_DECODERS[name]
        assert not is_early or 0 < taken.call_count < steps.call_count
        assert all(map(list.count, [h[:4 if is_early else 1] for h in ranked], found)), name
