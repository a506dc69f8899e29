"""The faster layers of chapter 14a, exchanged in a finished model, compute the same."""
from copy import deepcopy
from itertools import product
from pathlib import Path
from unittest import mock
import pytest, torch
from hypothesis import example, given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.checkpoint import load_model
from transformer_nb.support.core import PAD, set_seed
from transformer_nb.decoding import search
from transformer_nb.speed.fast import (
    HAS_ONEDNN, FastDropout, FastLinear, accelerate, linear_map,
    unaccelerate)
from transformer_nb.model import DecoderLayer, Transformer, TransformerConfig

forced = mock.patch('transformer_nb.speed.fast.USE_ONEDNN', HAS_ONEDNN)
MODEL = Path(__file__).parent.parent/'nbs/models/multi30k-en-de'
CAPTIONS = ['A man is riding a bicycle down the street.', 'Two dogs are playing.',
            'A young girl in a red dress is sitting on a bench next to her mother.']
OPTIONS = dict(norm=('post', 'pre'), positions=('sinusoidal', 'learned', 'rotary'),
               tie_embeddings=(True, False), d_v=(None, 3))
OPTION_SETS = [dict(zip(OPTIONS, values)) for values in product(*OPTIONS.values())]

def model_of(seed=0, **options):
    set_seed(seed)
    small = dict(vocab_size=23, d_model=16, d_ff=24, n_heads=4, dropout=0., max_len=20,
                 n_encoder_layers=2, n_decoder_layers=2)
    return Transformer(TransformerConfig(**small | options))

def types(model): return [type(m) for m in model.modules()]

def results(model, src, tgt):
    "Logits, and the gradient of their squares with respect to every parameter"
    logits = model(src, tgt)
    return logits, *torch.autograd.grad(logits.square().mean(), list(model.parameters()))

@pytest.mark.parametrize('options', OPTION_SETS, ids=str)
def test_same_model(options):
    model = model_of(**options).double()
    fast = accelerate(deepcopy(model))
    assert types(fast) != types(model)
    before, after = model.state_dict(), fast.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    src, tgt = torch.randint(4, 23, (3, 7)), torch.randint(4, 23, (3, 5))
    src[0, 4:] = PAD
    assert_close(results(fast, src, tgt), results(model, src, tgt), rtol=1e-9, atol=1e-12)
    assert types(accelerate(deepcopy(fast))) == types(fast) # twice is once
    assert types(unaccelerate(fast)) == types(model)
    assert_close(results(fast, src, tgt), results(model, src, tgt), rtol=0, atol=0)

@forced
@pytest.mark.parametrize('beam_size', [1, 4])
@pytest.mark.smoke
def test_same_translations(beam_size):
    "By a trained model in 32-bit numbers, whose vocabulary oneDNN multiplies by"
    model, tokenizer = load_model(MODEL)
    sentences = tokenizer.encode_batch(CAPTIONS)
    def best_ids(model):
        found = search(model, sentences, beam_size=beam_size)
        return [[hypothesis.ids for hypothesis in best] for best in found]
    expected = best_ids(model)
    assert best_ids(accelerate(model)) == expected

def found(model): # by a search: ids and scores
    texts = [5, 6, 7, 8, 9], [4], [10, 11, 12]
    hypotheses = sum(search(model, texts, beam_size=3, n_best=2), [])
    return [(h.ids, round(h.score, 9)) for h in hypotheses]

@pytest.mark.parametrize('options, layers_called', [
    (dict(), 0), (dict(norm='pre'), 0), (dict(biases='all', d_v=3), 0),
    (dict(activation='swiglu', norm_type='rmsnorm'), 0), (dict(positions='learned'), 0),
    (dict(positions='rotary'), 2), (dict(n_kv_heads=2), 2), (dict(qk_norm=True), 2)])
def test_a_search_without_detours_finds_the_same(options, layers_called):
    model = model_of(**options).double().eval()
    expected, how = found(model), dict(autospec=True, side_effect=DecoderLayer.forward)
    with mock.patch.object(DecoderLayer, 'forward', **how) as called:
        assert found(accelerate(deepcopy(model))) == expected
    assert len({call.args[0] for call in called.call_args_list}) == layers_called

def squared(x): return 2 * x**2

def by_class(part): # as an adapter such as LoRA may do it
    forward = type(part).forward
    own = dict(forward=lambda self, x: squared(forward(self, x)))
    part.__class__ = type('Own', (type(part),), own)

def by_object(part):
    plain = part.forward
    part.forward = lambda x: squared(plain(x))

def by_hook(part): part.register_forward_hook(lambda _, args, result: squared(result))

@pytest.mark.parametrize('change', [by_class, by_object, by_hook])
def test_a_part_of_ones_own_is_used_in_a_search(change):
    plain = model_of(tie_embeddings=False).double().eval()
    for place in ('self_attention.query', 'self_attention.output', 'cross_attention.query',
                  'residuals.0.dropout', 'residuals.1.norm', 'feed_forward.inner'):
        model = deepcopy(plain)
        change(model.decoder.layers[1].get_submodule(place))
        expected = found(model)
        assert expected != found(plain) and found(accelerate(model)) == expected, place

def test_layers_of_a_subclass_are_left_alone():
    class Special(nn.Linear): pass
    model = nn.Sequential(Special(4, 4), nn.Linear(4, 4))
    assert types(accelerate(model))[1:] == [Special, FastLinear]
    assert types(unaccelerate(model))[1:] == [Special, nn.Linear]

@settings(max_examples=25, deadline=None)
@given(shape=st.lists(st.integers(0, 5), max_size=3), n=st.sampled_from([1, 7, 512]),
       m=st.sampled_from([1, 256, 300]), with_bias=st.booleans(), transposed=st.booleans(),
       dtype=st.sampled_from([torch.float32, torch.float64]), seed=st.integers(0, 999))
@example([3, 2], 512, 300, True, False, torch.float32, 0) # by oneDNN, which chance may miss
@example([3, 2], 512, 300, True, True, torch.float32, 0)
def test_linear_map(shape, n, m, with_bias, transposed, dtype, seed):
    set_seed(seed)
    def randn(*size): return torch.randn(*size, dtype=dtype, requires_grad=True)
    x, weight, bias = randn(*shape, n), randn(m, n), randn(m) if with_bias else None
    given_x = x.transpose(0, 1) if transposed and len(shape) > 1 else x
    with forced: ours = linear_map(given_x, weight, bias)
    theirs = F.linear(given_x, weight, bias)
    large = m*n >= 2**17 and len(shape) > 0 and dtype == torch.float32
    assert ('OneDNN' in ours.grad_fn.name()) == (HAS_ONEDNN and large)
    wanted = [x, weight] + [bias]*with_bias
    g_ours = torch.autograd.grad(ours.square().sum(), wanted)
    g_theirs = torch.autograd.grad(theirs.square().sum(), wanted)
    for a, b in zip([ours, *g_ours], [theirs, *g_theirs]):
        largest = b.abs().max().item() if b.numel() else 0.
        assert_close(a, b, rtol=1e-3, atol=1e-5 * max(1., largest))
    with torch.no_grad(), forced: # another way through
        assert_close(linear_map(given_x, weight, bias), ours.detach(), rtol=1e-6, atol=1e-6)

@pytest.mark.filterwarnings('ignore::DeprecationWarning')
def test_linear_map_compiled():
    "Its own derivative goes into one graph; what is built from that graph is PyTorch's"
    x, weight = torch.randn(3, 512, requires_grad=True), torch.randn(300, 512)
    options = dict(dynamic=True, fullgraph=True, backend='aot_eager')
    y = torch.compile(linear_map, **options)(x, weight)
    assert_close(y, F.linear(x, weight), rtol=1e-4, atol=1e-4)
    [grad] = torch.autograd.grad(y.sum(), x)
    assert_close(grad, weight.sum(0).expand(3, -1), rtol=1e-4, atol=1e-4)

def test_dropout_keeps_the_mean():
    "What is kept grows by what is dropped, to 1/65,536"
    x = torch.full((40, 250), 3.)
    for p in (0.1, 0.3, 0.5):
        found = FastDropout(p).train()(x)
        kept = found[found != 0]
        assert_close(kept, torch.full_like(kept, 3 / (1 - p)), rtol=1e-4, atol=0)
        assert abs(len(kept) / x.numel() - (1 - p)) < 0.03
