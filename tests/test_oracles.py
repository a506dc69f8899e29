"""The model against independent implementations with copied weights: PyTorch's own modules and Hugging Face's Marian.

Outputs and gradients in float64, random shapes and masks, post- and pre-norm, training (dropout 0) and evaluation mode.
PyTorch's masks say True where attention is *forbidden*; ours say True where it is allowed.
"""
import sys
from shutil import which
from unittest import mock
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from transformer_nb.attention import attention, scaled_dot_product_attention
from transformer_nb.fast import HAS_ONEDNN, linear_map
from transformer_nb.core import PAD, set_seed
from transformer_nb.model import DecoderLayer, EncoderLayer, Transformer, TransformerConfig
from transformer_nb.multihead import MultiHeadAttention, causal_mask

F64 = dict(dtype=torch.float64)
close = lambda a, b, atol=1e-10: torch.testing.assert_close(a, b, rtol=0, atol=atol)
shapes = settings(max_examples=25, deadline=None)
dims = dict(b=st.integers(1, 4), t=st.integers(1, 9), s=st.integers(1, 9), h=st.sampled_from([1, 2, 4]), d_k=st.sampled_from([2, 5]), seed=st.integers(0, 999))

def random_mask(b, t, s):
    "Every query may see something"
    mask = torch.rand(b, 1, t, s) < 0.6
    mask[..., 0] = True
    return mask

def gradients(output, tensors):
    set_seed(1)
    return torch.autograd.grad((output * torch.randn(output.shape, **F64)).sum(), tensors)

@shapes
@given(shape=st.lists(st.integers(0, 5), max_size=3), n=st.sampled_from([1, 7, 512]), m=st.sampled_from([1, 256, 300]), bias=st.booleans(),
       transposed=st.booleans(), dtype=st.sampled_from([torch.float32, torch.float64]), seed=st.integers(0, 999))
def test_linear(shape, n, m, bias, transposed, dtype, seed):
    set_seed(seed)
    x, weight, b = (torch.randn(size, dtype=dtype, requires_grad=True) for size in ((*shape, n), (m, n), m))
    read = (x.transpose(0, 1) if transposed and len(shape) > 1 else x, weight, b if bias else None)
    with mock.patch('transformer_nb.core.USE_ONEDNN', HAS_ONEDNN): ours, theirs = linear_map(*read), F.linear(*read)
    assert ours.shape == theirs.shape and ('OneDNN' in ours.grad_fn.name()) == (HAS_ONEDNN and m*n >= 2**17 and len(shape) > 0 and dtype == torch.float32)
    wanted = [x, weight] + [b]*bias
    for a, b in zip([ours, *torch.autograd.grad(ours.square().sum(), wanted)], [theirs, *torch.autograd.grad(theirs.square().sum(), wanted)]):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6 * max(1., b.abs().max().item() if b.numel() else 0.) * 10)
    with torch.no_grad(), mock.patch('transformer_nb.core.USE_ONEDNN', HAS_ONEDNN): torch.testing.assert_close(linear_map(*read), ours.detach(), rtol=1e-6, atol=1e-6)

@pytest.mark.skipif(not which('g++'), reason='torch.compile needs a compiler')
@pytest.mark.skipif(' ' in sys.prefix, reason='torch.compile cannot build in a path with a blank')
@pytest.mark.filterwarnings('ignore::DeprecationWarning')
def test_linear_compiled():
    x, weight = torch.randn(3, 512, requires_grad=True), torch.randn(300, 512)
    y = torch.compile(linear_map, dynamic=True)(x, weight)
    torch.testing.assert_close(y, F.linear(x, weight), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], weight.sum(0).expand(3, -1), rtol=1e-4, atol=1e-4)

def test_linear_has_one_derivative():
    x, weight = torch.randn(3, 512, requires_grad=True), torch.randn(300, 512, requires_grad=True)
    if not HAS_ONEDNN: pytest.skip('no oneDNN beside MKL')
    with mock.patch('transformer_nb.core.USE_ONEDNN', True): y = linear_map(x, weight)
    [grad] = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match='once_differentiable'): grad.sum().backward() # and never a wrong second one

@shapes
@given(**dims)
def test_plain_and_fused_attention(b, t, s, h, d_k, seed):
    set_seed(seed)
    q, k, v = (torch.randn(b, h, n, d_k, **F64, requires_grad=True) for n in (t, s, s))
    mask = torch.rand(b, 1, t, s) < 0.5 # whole rows may be masked
    plain, fused = scaled_dot_product_attention(q, k, v, mask)[0], attention(q, k, v, mask)
    close(plain, fused)
    for a, b in zip(gradients(plain, (q, k, v)), gradients(fused, (q, k, v))): close(a, b)
    assert (plain[~mask.any(-1).expand(plain.shape[:-1])] == 0).all()

@shapes
@given(**dims)
def test_multihead_attention(b, t, s, h, d_k, seed):
    set_seed(seed)
    d, ours = h*d_k, MultiHeadAttention(h*d_k, h, d_k, d_k).double()
    theirs = nn.MultiheadAttention(d, h, bias=False, batch_first=True, **F64)
    theirs.in_proj_weight, theirs.out_proj.weight = ours.qkv, ours.output.weight # the very same parameters
    x, memory = torch.randn(b, t, d, **F64, requires_grad=True), torch.randn(b, s, d, **F64, requires_grad=True)
    mask = random_mask(b, t, s)
    forbidden = (~mask).expand(b, h, t, s).reshape(b*h, t, s)
    mine, other = ours(x, memory, mask), theirs(x, memory, memory, attn_mask=forbidden, need_weights=False)[0]
    close(mine, other)
    inputs = (x, memory, ours.qkv, ours.output.weight)
    for a, b in zip(gradients(mine, inputs), gradients(other, inputs)): close(a, b)

def tie(ours, theirs):
    "Let a PyTorch layer use our layer's parameters; its attention biases become zero"
    attentions = [('self_attn', ours.self_attention)]
    if hasattr(ours, 'cross_attention'): attentions.append(('multihead_attn', ours.cross_attention))
    for name, a in attentions:
        module = getattr(theirs, name)
        module.in_proj_weight, module.out_proj.weight = a.qkv, a.output.weight
        nn.init.zeros_(module.in_proj_bias), nn.init.zeros_(module.out_proj.bias)
    f = ours.feed_forward
    theirs.linear1, theirs.linear2 = f.inner, f.outer
    for i, r in enumerate(ours.residuals, 1): setattr(theirs, f'norm{i}', r.norm)
    return theirs

def config(norm='post', **more):
    return TransformerConfig(**dict(vocab_size=23, d_model=16, d_ff=24, n_heads=4, n_encoder_layers=2, n_decoder_layers=3, dropout=0., norm=norm) | more)

def torch_layer(kind, c):
    return kind(c.d_model, c.n_heads, c.d_ff, dropout=0., batch_first=True, norm_first=c.norm == 'pre', **F64)

def perturb(module):
    "Norms and biases away from one and zero, so that swapped ones would be seen"
    for p in module.parameters():
        if p.dim() == 1: nn.init.normal_(p, 1., 0.3)
    return module.double()

both = pytest.mark.parametrize('norm', ['post', 'pre'])
modes = pytest.mark.parametrize('training', [True, False], ids=['train', 'eval'])

@both
@modes
def test_encoder_layer(norm, training):
    set_seed(0)
    c = config(norm)
    ours = perturb(EncoderLayer(c)).train(training)
    theirs = tie(ours, torch_layer(nn.TransformerEncoderLayer, c)).train(training)
    x, real = torch.randn(3, 7, 16, **F64, requires_grad=True), torch.rand(3, 7) < 0.7
    real[:, 0] = True
    mine, other = ours(x, real[:, None, None]), theirs(x, src_key_padding_mask=~real)
    close(mine[real], other[real]) # PyTorch's fast path in evaluation mode zeroes the padded positions
    params = [x, *ours.parameters()]
    if training:
        for a, b in zip(gradients(mine, params), gradients(other, params)): close(a, b)

@both
@modes
def test_decoder_layer(norm, training):
    set_seed(0)
    c = config(norm)
    ours = perturb(DecoderLayer(c)).train(training)
    theirs = tie(ours, torch_layer(nn.TransformerDecoderLayer, c)).train(training)
    x, memory = torch.randn(3, 5, 16, **F64, requires_grad=True), torch.randn(3, 7, 16, **F64, requires_grad=True)
    real = torch.rand(3, 7) < 0.7
    real[:, 0] = True
    mine = ours(x, memory, causal_mask(5), real[:, None, None])
    other = theirs(x, memory, tgt_mask=~causal_mask(5), memory_key_padding_mask=~real)
    close(mine, other)
    params = [x, memory, *ours.parameters()]
    for a, b in zip(gradients(mine, params), gradients(other, params)): close(a, b)

@both
@modes
def test_whole_model(norm, training):
    set_seed(0)
    c = config(norm)
    ours = perturb(Transformer(c)).train(training)
    final = lambda stack: stack.norm if norm == 'pre' else None
    encoder = nn.TransformerEncoder(torch_layer(nn.TransformerEncoderLayer, c), 2, norm=final(ours.encoder), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(torch_layer(nn.TransformerDecoderLayer, c), 3, norm=final(ours.decoder))
    theirs = nn.Transformer(16, 4, custom_encoder=encoder, custom_decoder=decoder, batch_first=True).train(training)
    for stack, other in ((ours.encoder, encoder), (ours.decoder, decoder)):
        for a, b in zip(stack.layers, other.layers): tie(a, b)
    src, tgt = torch.randint(4, 23, (4, 9)), torch.randint(4, 23, (4, 6))
    src[0, 5:], src[1, 1:], tgt[2, 4:] = PAD, PAD, PAD
    embedded = (ours.src_positions(ours.src_embedding(src)), ours.tgt_positions(ours.tgt_embedding(tgt)))
    hidden = theirs(*embedded, tgt_mask=~causal_mask(6), src_key_padding_mask=src == PAD, memory_key_padding_mask=src == PAD)
    mine, other = ours(src, tgt), ours.output.logits(hidden)
    close(mine, other)
    params = list(ours.parameters())
    for a, b in zip(gradients(mine, params), gradients(other, params)): close(a, b, atol=1e-9)

def test_marian():
    transformers = pytest.importorskip('transformers', reason='the extra `bench` is not installed')
    set_seed(0)
    c = config(max_len=32)
    ours = perturb(Transformer(c)).float().eval()
    theirs = transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=23, d_model=16, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=24, decoder_ffn_dim=24, activation_function='relu', dropout=0., scale_embedding=True,
        max_position_embeddings=32, pad_token_id=PAD, decoder_start_token_id=1, eos_token_id=2, attn_implementation='eager')).eval()
    state, new = theirs.state_dict(), {}
    for side, stack in (('encoder', ours.encoder), ('decoder', ours.decoder)):
        new[f'model.{side}.embed_positions.weight'] = ours.src_positions.table
        for i, layer in enumerate(stack.layers):
            at = f'model.{side}.layers.{i}.'
            attentions = [('self_attn', layer.self_attention)]
            if side == 'decoder': attentions.append(('encoder_attn', layer.cross_attention))
            for (name, a), r in zip(attentions, layer.residuals):
                for proj, w in zip(('q_proj', 'k_proj', 'v_proj'), a.qkv.split(a.sizes)): new[f'{at}{name}.{proj}.weight'] = w
                new[f'{at}{name}.out_proj.weight'] = a.output.weight
                for proj in ('q_proj', 'k_proj', 'v_proj', 'out_proj'): new[f'{at}{name}.{proj}.bias'] = torch.zeros(16)
                for p in ('weight', 'bias'): new[f'{at}{name}_layer_norm.{p}'] = getattr(r.norm, p)
            for p in ('weight', 'bias'):
                new[f'{at}fc1.{p}'], new[f'{at}fc2.{p}'] = getattr(layer.feed_forward.inner, p), getattr(layer.feed_forward.outer, p)
                new[f'{at}final_layer_norm.{p}'] = getattr(layer.residuals[-1].norm, p)
    shared = [k for k in state if k.endswith(('shared.weight', 'embed_tokens.weight', 'lm_head.weight'))]
    new |= {k: ours.output.weight for k in shared} | {'final_logits_bias': torch.zeros(1, 23)}
    assert set(new) == set(state)
    theirs.load_state_dict(new)
    src, tgt = torch.randint(4, 23, (4, 9)), torch.randint(4, 23, (4, 6))
    src[0, 5:] = PAD
    with torch.no_grad(): logits = theirs(input_ids=src, attention_mask=(src != PAD).long(), decoder_input_ids=tgt).logits
    close(ours(src, tgt).detach(), logits, atol=1e-5)

def test_initial_weights_are_those_of_linear_layers():
    "Larger ones, by Xavier's rule, made the post-norm model far slower to learn (chapter 05)"
    model = Transformer(config())
    for m in model.modules():
        if isinstance(m, MultiHeadAttention):
            for w in (m.qkv, m.output.weight): assert 0.8 * 16**-0.5 < w.abs().max() <= 16**-0.5
