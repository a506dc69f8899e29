"""The model against PyTorch's own modules and Hugging Face's Marian, with copied weights.

Outputs and gradients in float64, random shapes and masks, post- and pre-norm, training
(dropout 0) and evaluation mode. PyTorch's masks are True where attention is *forbidden*;
ours are True where it is allowed.
"""
import numpy as np
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from transformer_nb.attention import attention, scaled_dot_product_attention
from transformer_nb.support.core import PAD, set_seed
from transformer_nb.speed.fast import accelerate
from transformer_nb.model import (
    EncoderLayer, Transformer, TransformerConfig, attention_weights)
from transformer_nb.multihead import MultiHeadAttention, causal_mask
from transformer_nb.parts import (
    RMSNorm)
from transformer_nb.embedding import rotate
from transformer_nb.optimizer import adamw, linear_lr, set_lr
from transformer_nb.studies.since_2017 import modernize
from torch.testing import assert_close
from searching import random_model

shapes = settings(max_examples=25, deadline=None)
dims = dict(b=st.integers(1, 4),
            t=st.integers(1, 9),
            s=st.integers(1, 9),
            h=st.sampled_from([1, 2, 4]),
            d_k=st.sampled_from([2, 5]),
            seed=st.integers(0, 999))
both = pytest.mark.parametrize('norm', ['post', 'pre'])
modes = pytest.mark.parametrize('training', [True, False], ids=['train', 'eval'])

def randn(*shape): return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

def close(a, b, atol=1e-10): torch.testing.assert_close(a, b, rtol=0, atol=atol)

def random_mask(b, t, s):
    "Every query may see something"
    mask = torch.rand(b, 1, t, s) < 0.6
    mask[..., 0] = True
    return mask

def gradients(output, tensors):
    set_seed(1)
    weights = torch.randn(output.shape, dtype=torch.float64)
    return torch.autograd.grad((output * weights).sum(), tensors)

def close_gradients(mine, other, tensors, atol=1e-10):
    ours, theirs = gradients(mine, tensors), gradients(other, tensors)
    for a, b in zip(ours, theirs): close(a, b, atol)

def tie_attention(ours, theirs):
    "Let PyTorch's attention use the parameters of ours; its biases become zero"
    projections = ours.query.weight, ours.key.weight, ours.value.weight
    del theirs.in_proj_weight # a parameter: it could not take a tensor made from others
    theirs.in_proj_weight = torch.cat(projections)
    theirs.out_proj.weight = ours.output.weight
    for bias in (theirs.in_proj_bias, theirs.out_proj.bias):
        if bias is not None: nn.init.zeros_(bias)

def tie(ours, theirs):
    "Let a PyTorch layer use the parameters of ours"
    tie_attention(ours.self_attention, theirs.self_attn)
    if hasattr(ours, 'cross_attention'):
        tie_attention(ours.cross_attention, theirs.multihead_attn)
    theirs.linear1 = ours.feed_forward.inner
    theirs.linear2 = ours.feed_forward.outer
    for i, residual in enumerate(ours.residuals, 1):
        setattr(theirs, f'norm{i}', residual.norm)
    return theirs

def config(norm='post', **more):
    small = dict(vocab_size=23, d_model=16, d_ff=24, n_heads=4, dropout=0., norm=norm,
                 n_encoder_layers=2, n_decoder_layers=3)
    return TransformerConfig(**small | more)

def torch_layer(kind, c):
    return kind(c.d_model, c.n_heads, c.d_ff, dropout=0., batch_first=True,
                norm_first=c.norm == 'pre', dtype=torch.float64)

def perturb(module):
    "Gains and biases away from one and zero, where they would hide"
    for p in module.parameters():
        if p.dim() == 1: nn.init.normal_(p, 1., 0.3)
    return module.double()

@shapes
@given(**dims)
@pytest.mark.smoke
def test_plain_and_fused_attention(b, t, s, h, d_k, seed):
    set_seed(seed)
    q, k, v = randn(b, h, t, d_k), randn(b, h, s, d_k), randn(b, h, s, d_k)
    mask = torch.rand(b, 1, t, s) < 0.5 # whole rows may be masked
    plain, _ = scaled_dot_product_attention(q, k, v, mask)
    fused = attention(q, k, v, mask)
    close(plain, fused)
    close_gradients(plain, fused, (q, k, v))
    empty = ~mask.any(-1).expand(b, h, t)
    assert (plain[empty] == 0).all()

@shapes
@given(**dims)
def test_multihead_attention(b, t, s, h, d_k, seed):
    set_seed(seed)
    d = h * d_k
    ours = MultiHeadAttention(d, h, d_k, d_k).double()
    theirs = nn.MultiheadAttention(d, h, bias=False, batch_first=True, dtype=torch.float64)
    tie_attention(ours, theirs)
    x, memory, mask = randn(b, t, d), randn(b, s, d), random_mask(b, t, s)
    forbidden = (~mask).expand(b, h, t, s).flatten(0, 1)
    mine = ours(x, memory, mask)
    other, _ = theirs(x, memory, memory, attn_mask=forbidden, need_weights=False)
    close(mine, other)
    close_gradients(mine, other, (x, memory, *ours.parameters()))

def torch_model(ours, c):
    "`nn.Transformer` with the parameters of our stacks, and their final norms if any"
    def final(stack): return stack.norm if c.norm == 'pre' else None
    encoder_layer = torch_layer(nn.TransformerEncoderLayer, c)
    decoder_layer = torch_layer(nn.TransformerDecoderLayer, c)
    encoder = nn.TransformerEncoder(encoder_layer, c.n_encoder_layers,
                                    norm=final(ours.encoder), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder_layer, c.n_decoder_layers,
                                    norm=final(ours.decoder))
    for stack, other in ((ours.encoder, encoder), (ours.decoder, decoder)):
        for a, b in zip(stack.layers, other.layers): tie(a, b)
    return nn.Transformer(c.d_model, c.n_heads, custom_encoder=encoder,
                          custom_decoder=decoder, batch_first=True)

@both
@modes
@pytest.mark.smoke
def test_whole_model(norm, training):
    set_seed(0)
    c = config(norm)
    ours = perturb(Transformer(c)).train(training)
    theirs = torch_model(ours, c).train(training)
    src, tgt = torch.randint(4, 23, (4, 9)), torch.randint(4, 23, (4, 6))
    src[0, 5:] = src[1, 1:] = tgt[2, 4:] = PAD
    padded = src == PAD
    embedded_src = ours.src_positions(ours.src_embedding(src))
    embedded_tgt = ours.tgt_positions(ours.tgt_embedding(tgt))
    hidden = theirs(embedded_src, embedded_tgt, tgt_mask=~causal_mask(6),
                    src_key_padding_mask=padded, memory_key_padding_mask=padded)
    mine, other = ours(src, tgt), ours.output.logits(hidden)
    close(mine, other)
    close_gradients(mine, other, list(ours.parameters()), atol=1e-9)

@pytest.mark.parametrize('positions', ['sinusoidal', 'learned', 'rotary'])
@pytest.mark.parametrize('change', [lambda model: model, accelerate], ids=['plain', 'fast'])
@both
def test_a_second_device(norm, positions, change):
    "On `meta` nothing may be left behind on the CPU, and no number may be waited for"
    config = TransformerConfig(30, d_model=8, d_ff=16, n_heads=2, n_encoder_layers=1,
                               n_decoder_layers=1, norm=norm, positions=positions)
    model = change(Transformer(config)).to('meta')
    src, tgt = torch.ones(2, 2, 5, dtype=torch.long, device='meta')
    logits = model(src, tgt)
    assert logits.device.type == 'meta' and logits.shape == (2, 5, 30)
    logits.sum().backward()
    grads = {p.grad.device.type for p in model.parameters() if p.grad is not None}
    assert grads == {'meta'}

def test_initial_weights_are_those_of_linear_layers():
    "Larger ones, by Xavier's rule, made the post-norm model learn far slower (chapter 05)"
    bound = 16**-0.5
    for m in Transformer(config()).modules():
        if not isinstance(m, MultiHeadAttention): continue
        for w in m.parameters():
            largest = w.abs().max()
            assert 0.8 * bound < largest <= bound

def randn64(*size): return torch.randn(*size, dtype=torch.float64)

@shapes
@given(d=st.integers(1, 20), eps=st.sampled_from([1e-6, 1e-3, 1.]))
def test_rms_norm(d, eps):
    ours, theirs = RMSNorm(d, eps).double(), nn.RMSNorm(d, eps).double()
    nn.init.normal_(ours.weight)
    theirs.weight, x = ours.weight, randn(2, 3, d)
    close(ours(x), theirs(x))
    close_gradients(ours(x), theirs(x), [x, ours.weight])
    assert ours.eps == eps and RMSNorm(d).eps == 1e-6

@shapes
@given(t=st.integers(1, 30), pairs=st.integers(1, 8), start=st.integers(0, 500))
def test_rotate_is_a_complex_product(t, pairs, start):
    x = randn64(2, t, 2*pairs)
    position = torch.arange(start, start + t, dtype=torch.float64)
    omega = 10000. ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    turn = torch.polar(torch.ones(t, pairs).double(), position[:, None] * omega)
    theirs = torch.view_as_complex(x.unflatten(-1, (pairs, 2))) * turn
    close(rotate(x, torch.arange(start, start + t)), torch.view_as_real(theirs).flatten(-2))

@pytest.mark.parametrize('decay', [0., 0.1, 3.])
def test_adamw_written_out(decay):
    set_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), RMSNorm(3), nn.Linear(3, 2, bias=False)).double()
    optimizer = adamw(model, decay)
    inputs = randn64(5, 4)
    theta = [w.detach().clone() for w in model.parameters()]
    m = [torch.zeros_like(w) for w in theta]
    v = [torch.zeros_like(w) for w in theta]
    for step, lr in enumerate([0.01, 0.02, 0.005], 1):
        set_lr(optimizer, lr)
        optimizer.zero_grad()
        model(inputs).square().sum().backward()
        for i, w in enumerate(model.parameters()):
            m[i] = 0.9*m[i] + 0.1*w.grad
            v[i] = 0.98*v[i] + 0.02*w.grad**2
            if w.dim() > 1: theta[i] -= lr*decay*theta[i]
            moved = m[i] / (1 - 0.9**step)
            theta[i] -= lr * moved / ((v[i] / (1 - 0.98**step)).sqrt() + 1e-9)
        optimizer.step()
        for w, expected in zip(model.parameters(), theta): close(w, expected)

def test_the_straight_rate_is_an_interpolation():
    corners = [0, 40, 200], [0., 3e-3, 0.]
    for step in range(1, 260):
        assert linear_lr(step, 3e-3, 40, 200) == pytest.approx(np.interp(step, *corners))

def by_halves(n_heads, d_k):
    order = torch.cat([torch.arange(0, d_k, 2), torch.arange(1, d_k, 2)])
    return (d_k*torch.arange(n_heads)[:, None] + order).flatten()

def in_their_names(layer, h, n_kv, d_k):
    a, f = layer.self_attention, layer.feed_forward
    weights = {
        'self_attn.q_proj': a.query.weight[by_halves(h, d_k)],
        'self_attn.k_proj': a.key.weight[by_halves(n_kv, d_k)],
        'self_attn.v_proj': a.value.weight, 'self_attn.o_proj': a.output.weight,
        'mlp.gate_proj': f.gate.weight, 'mlp.up_proj': f.inner.weight,
        'mlp.down_proj': f.outer.weight, 'input_layernorm': layer.residuals[0].norm.weight,
        'post_attention_layernorm': layer.residuals[1].norm.weight}
    if hasattr(a, 'query_norm'):
        weights['self_attn.q_norm'] = a.query_norm.weight[by_halves(1, d_k)]
        weights['self_attn.k_norm'] = a.key_norm.weight[by_halves(1, d_k)]
    return {f'{name}.weight': w for name, w in weights.items()}

@pytest.mark.parametrize('name, qk_norm', [('llama', False), ('qwen3', True)])
@pytest.mark.parametrize('h, n_kv, d_k, t', [(4, 2, 8, 9), (6, 1, 4, 3), (2, 2, 6, 20)])
def test_layer_of_hugging_face(name, qk_norm, h, n_kv, d_k, t):
    "As it is, float32 norms and angles included"
    pytest.importorskip('transformers', reason='needs the extra `bench`')
    from importlib import import_module
    theirs = import_module(f'transformers.models.{name}.modeling_{name}')
    prefix = name.capitalize()
    d = h*d_k
    c = TransformerConfig(50, d_model=d, d_ff=40, n_heads=h, dropout=0., norm='pre',
                          n_kv_heads=n_kv, qk_norm=qk_norm)
    ours = perturb(EncoderLayer(modernize(c, 'rmsnorm', 'swiglu', 'rotary')))
    config = getattr(theirs, prefix + 'Config')(
        hidden_size=d, intermediate_size=28, num_attention_heads=h, head_dim=d_k,
        num_key_value_heads=n_kv, rms_norm_eps=1e-6, attn_implementation='sdpa')
    layer = getattr(theirs, prefix + 'DecoderLayer')(config, 0).double()
    layer.load_state_dict(in_their_names(ours, h, n_kv, d_k))
    x, mask = randn64(2, t, d), causal_mask(t)
    rotary = getattr(theirs, prefix + 'RotaryEmbedding')(config)
    turns = rotary(x, torch.arange(t)[None])
    output = layer(x, attention_mask=mask[None, None], position_embeddings=turns)
    assert_close(ours(x, mask), output, rtol=1e-5, atol=1e-5)

@pytest.mark.parametrize('part, groups', [('gqa', [0, 0, 1, 1]), ('mqa', [0, 0, 0, 0])])
def test_attention_weights_are_those_of_the_group(part, groups):
    "Head by head: neighbours share keys"
    model = random_model(4, parts=[part], n_heads=4, d_k=4, d_v=3)
    src, tgt = torch.randint(4, 12, (2, 2, 6))
    layer, inputs = model.encoder.layers[0].self_attention, []
    layer.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    found = attention_weights(model, src, tgt)['encoder'][0]
    q, k, _ = layer.project(inputs[0], inputs[0])
    for head, group in enumerate(groups):
        scores = q[:, head] @ k[:, group].mT / 2 # the root of d_k
        close(found[:, head], scores.softmax(-1))
