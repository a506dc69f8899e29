"""The model against PyTorch's own modules and Hugging Face's Marian, with copied weights.

Outputs and gradients in float64, random shapes and masks, post- and pre-norm, training
(dropout 0) and evaluation mode. PyTorch's masks are True where attention is *forbidden*;
ours are True where it is allowed.
"""
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from transformer_nb.attention import attention, scaled_dot_product_attention
from transformer_nb.support.core import PAD, set_seed
from transformer_nb.speed.fast import accelerate
from transformer_nb.model import DecoderLayer, EncoderLayer, Transformer, TransformerConfig
from transformer_nb.multihead import MultiHeadAttention, causal_mask, padding_mask

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

def random_padding(b, s):
    "True at real positions; the first is one"
    real = torch.rand(b, s) < 0.7
    real[:, 0] = True
    return real

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
    "Norms and biases away from one and zero, so that swapped ones would be seen"
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

@both
@modes
def test_encoder_layer(norm, training):
    set_seed(0)
    c = config(norm)
    ours = perturb(EncoderLayer(c)).train(training)
    theirs = tie(ours, torch_layer(nn.TransformerEncoderLayer, c)).train(training)
    x, real = randn(3, 7, 16), random_padding(3, 7)
    mine = ours(x, real[:, None, None])
    other = theirs(x, src_key_padding_mask=~real)
    close(mine[real], other[real]) # PyTorch's fast path in evaluation mode zeroes padding
    if training: close_gradients(mine, other, [x, *ours.parameters()])

@both
@modes
def test_decoder_layer(norm, training):
    set_seed(0)
    c = config(norm)
    ours = perturb(DecoderLayer(c)).train(training)
    theirs = tie(ours, torch_layer(nn.TransformerDecoderLayer, c)).train(training)
    x, memory, real = randn(3, 5, 16), randn(3, 7, 16), random_padding(3, 7)
    mine = ours(x, memory, causal_mask(5), real[:, None, None])
    other = theirs(x, memory, tgt_mask=~causal_mask(5), memory_key_padding_mask=~real)
    close(mine, other)
    close_gradients(mine, other, [x, memory, *ours.parameters()])

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

def marian_names(ours, state):
    "Our parameters by Marian's names; its attention biases are zero"
    new = {'final_logits_bias': torch.zeros(1, 23)}
    for name in state: # the tied matrix
        if name.endswith(('shared.weight', 'embed_tokens.weight', 'lm_head.weight')):
            new[name] = ours.output.weight
    def put(name, module):
        new[f'{name}.weight'] = module.weight
        bias = getattr(module, 'bias', None)
        new[f'{name}.bias'] = torch.zeros(16) if bias is None else bias
    for side, stack in (('encoder', ours.encoder), ('decoder', ours.decoder)):
        new[f'model.{side}.embed_positions.weight'] = ours.src_positions.table
        for i, layer in enumerate(stack.layers):
            at = f'model.{side}.layers.{i}'
            attentions = {'self_attn': layer.self_attention}
            if side == 'decoder': attentions['encoder_attn'] = layer.cross_attention
            for (name, a), residual in zip(attentions.items(), layer.residuals):
                put(f'{at}.{name}.q_proj', a.query)
                put(f'{at}.{name}.k_proj', a.key)
                put(f'{at}.{name}.v_proj', a.value)
                put(f'{at}.{name}.out_proj', a.output)
                put(f'{at}.{name}_layer_norm', residual.norm)
            put(f'{at}.fc1', layer.feed_forward.inner)
            put(f'{at}.fc2', layer.feed_forward.outer)
            put(f'{at}.final_layer_norm', layer.residuals[-1].norm)
    return new

def test_marian():
    transformers = pytest.importorskip('transformers', reason='needs the extra `bench`')
    set_seed(0)
    ours = perturb(Transformer(config(max_len=32))).float().eval()
    theirs = transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=23, d_model=16, encoder_layers=2, decoder_layers=3,
        encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=24, decoder_ffn_dim=24, activation_function='relu', dropout=0.,
        scale_embedding=True, max_position_embeddings=32, attn_implementation='eager',
        pad_token_id=PAD, decoder_start_token_id=1, eos_token_id=2)).eval()
    state = theirs.state_dict()
    new = marian_names(ours, state)
    assert set(new) == set(state)
    theirs.load_state_dict(new)
    src, tgt = torch.randint(4, 23, (4, 9)), torch.randint(4, 23, (4, 6))
    src[0, 5:] = PAD
    real = (src != PAD).long()
    with torch.no_grad():
        logits = theirs(input_ids=src, attention_mask=real, decoder_input_ids=tgt).logits
        close(ours(src, tgt), logits, atol=1e-5)

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

def test_masks_are_made_where_they_are_needed():
    for mask in (causal_mask(3, 'meta'), padding_mask(torch.ones(2, 3, device='meta'))):
        assert mask.device.type == 'meta'

def test_initial_weights_are_those_of_linear_layers():
    "Larger ones, by Xavier's rule, made the post-norm model learn far slower (chapter 05)"
    bound = 16**-0.5
    for m in Transformer(config()).modules():
        if not isinstance(m, MultiHeadAttention): continue
        for w in m.parameters():
            largest = w.abs().max()
            assert 0.8 * bound < largest <= bound
