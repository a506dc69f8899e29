"""Chapter 20 beyond its own proofs: every part against an independent form on random sizes,
what each part touches, and trainings that are interrupted."""
from collections import Counter
from copy import deepcopy
from functools import partial
from math import ceil, sqrt
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from searching import check, check_samples, plain_beam, random_model, random_sentences
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.decoding import Cache, length_penalty, next_logits, sample, search
from transformer_nb.embedding import (PositionalEncoding, RotaryAttention,
                                      positional_encoding, rotate)
from transformer_nb.layers import FeedForward, ResidualNorm
from transformer_nb.model import (EncoderLayer, Transformer, TransformerConfig,
                                  attention_weights)
from transformer_nb.multihead import MultiHeadAttention, causal_mask
from transformer_nb.optimizer import adamw, set_lr
from transformer_nb.parts import (
    GroupedQueryAttention, ModernAttention, QKNormAttention, RMSNorm, SwiGLU)
from running import definitions
from transformer_nb.studies.since_2017 import (
    PARTS, LatentAttention, MixtureOfExperts, attend_latents, modernize, muon,
    orthogonalize)

chapter = definitions('20_since_2017')
build_modern, ROWS_SINCE = chapter.build_modern, chapter.ROWS_SINCE

few = settings(max_examples=25, deadline=None)
close = partial(assert_close, rtol=1e-9, atol=1e-9)

@pytest.fixture(autouse=True)
def seeded(): set_seed(0)

def randn64(*size): return torch.randn(*size, dtype=torch.float64)

def drawn_gains(module):
    "Weights of norms away from 1, where they would hide"
    for weight in module.parameters():
        if weight.dim() == 1: nn.init.normal_(weight, 1., 0.5)
    return module.double()

# The parts

@few
@given(d=st.integers(1, 20), eps=st.sampled_from([1e-6, 1e-3, 1.]))
def test_rms_norm(d, eps):
    ours, theirs = RMSNorm(d, eps).double(), nn.RMSNorm(d, eps).double()
    nn.init.normal_(ours.weight)
    theirs.load_state_dict(ours.state_dict())
    outputs, gradients = [], []
    x = randn64(2, 3, d)
    for norm in (ours, theirs):
        leaf = x.clone().requires_grad_()
        y = norm(leaf)
        y.square().sum().backward()
        outputs.append(y)
        gradients.append(leaf.grad)
    close(*outputs)
    close(*gradients)
    close(ours.weight.grad, theirs.weight.grad)
    assert ours.eps == eps and RMSNorm(d).eps == 1e-6

@few
@given(t=st.integers(1, 30), pairs=st.integers(1, 8), start=st.integers(0, 500))
def test_rotate_is_a_complex_product(t, pairs, start):
    x = randn64(2, t, 2*pairs)
    position = torch.arange(start, start + t, dtype=torch.float64)
    omega = 10000. ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    turn = torch.polar(torch.ones(t, pairs).double(), position[:, None] * omega)
    theirs = torch.view_as_complex(x.unflatten(-1, (pairs, 2))) * turn
    close(rotate(x, torch.arange(start, start + t)), torch.view_as_real(theirs).flatten(-2))

@few
@given(m=st.integers(0, 60), n=st.integers(0, 60), moved=st.integers(0, 60))
def test_scores_depend_on_the_distance(m, n, moved):
    q, k = randn64(2, 1, 8)
    def at(x, m): return rotate(x, torch.tensor([m]))
    def score(m, n): return at(q, m) @ at(k, n).T
    close(score(m, n), score(m + moved, n + moved))
    close(at(at(q, m), n), at(q, m + n)) # turns add up

@pytest.mark.parametrize('k', [1, 5, 64])
def test_the_turn_is_the_shift_of_chapter_04(k):
    PE = positional_encoding(200, 12, torch.float64)
    M_k = rotate(torch.eye(12, dtype=torch.float64), torch.tensor([k]))
    close(PE[:200 - k] @ M_k.T, PE[k:])

def test_rotary_attention_turns_queries_and_keys_only():
    attention = RotaryAttention(8, 2, 4, 4).double()
    x = randn64(2, 5, 8)
    q, k, v = attention.project(x, x)
    plain = MultiHeadAttention.project(attention, x, x)
    close(q, rotate(plain[0]))
    close(k, rotate(plain[1]))
    close(v, plain[2])

def test_rotary_adds_nothing_to_embeddings():
    x = randn64(2, 5, 8)
    positions = PositionalEncoding(8, 0.5, max_len=9, kind='rotary')
    close(positions.eval()(x), x)
    close(positions(x, torch.arange(3, 8)), x)
    dropped = positions.train()(x)
    assert 0 < (dropped == 0).sum() < x.numel()
    with pytest.raises(ValueError, match="kind is 'rotary '"):
        PositionalEncoding(8, 0.5, max_len=9, kind='rotary ')

@few
@given(d=st.integers(1, 12), d_ff=st.integers(1, 40))
def test_swiglu(d, d_ff):
    network, x = SwiGLU(d, d_ff).double(), randn64(3, d)
    assert network.inner.out_features == 4*ceil(2*d_ff/3/4)
    gate, inner = x @ network.gate.weight.T, x @ network.inner.weight.T
    silu = gate / (1 + torch.exp(-gate))
    close(network(x), (silu * inner) @ network.outer.weight.T)

@few
@given(n_kv=st.integers(1, 3), group=st.integers(1, 3), d_k=st.integers(1, 5),
       d_v=st.integers(1, 5), masked=st.booleans())
def test_groups(n_kv, group, d_k, d_v, masked):
    h, t, s, d = n_kv*group, 4, 6, 8
    attention = GroupedQueryAttention(d, h, d_k, d_v, n_kv).double()
    x, memory = randn64(2, t, d), randn64(2, s, d)
    mask = torch.ones(t, s, dtype=torch.bool).tril() if masked else None
    heads = []
    for i in range(h): # head by head, its keys those of head i // group
        j = i // group
        q = x @ attention.query.weight[d_k*i:d_k*(i + 1)].T
        k = memory @ attention.key.weight[d_k*j:d_k*(j + 1)].T
        v = memory @ attention.value.weight[d_v*j:d_v*(j + 1)].T
        scores = q @ k.mT / sqrt(d_k)
        if masked: scores = scores.masked_fill(~mask, -torch.inf)
        heads.append(scores.softmax(-1) @ v)
    close(attention(x, memory, mask), attention.output(torch.cat(heads, -1)))
    _, k, v = attention.project(x, memory) # what a cache holds
    assert k.shape == (2, n_kv, s, d_k) and v.shape == (2, n_kv, s, d_v)

def test_as_many_groups_as_heads_is_multi_head():
    grouped = GroupedQueryAttention(8, 4, 2, 3, n_kv_heads=4).double()
    plain = MultiHeadAttention(8, 4, 2, 3).double()
    plain.load_state_dict(grouped.state_dict())
    x = randn64(2, 5, 8)
    close(grouped(x), plain(x))

def test_qk_norm():
    attention = drawn_gains(QKNormAttention(8, 2, 4, 4))
    assert attention.query_norm.weight.shape == (4,)
    x = 100*randn64(2, 5, 8) # next to which eps is nothing
    q = MultiHeadAttention.queries(attention, x)
    k, v = MultiHeadAttention.keys_values(attention, x)
    norm = partial(F.rms_norm, normalized_shape=[4], eps=1e-6)
    ours = attention.project(x, x)
    close(ours[0], norm(q, weight=attention.query_norm.weight))
    close(ours[1], norm(k, weight=attention.key_norm.weight))
    close(ours[2], v)
    for weight in (attention.query.weight, attention.key.weight): weight.data *= 1000
    close(attention.project(x, x)[:2], ours[:2], atol=1e-4, rtol=1e-4)

def test_modern_attention_normalizes_and_then_turns():
    attention = drawn_gains(ModernAttention(16, 4, 4, 4, n_kv_heads=2))
    x = randn64(2, 7, 16)
    q = GroupedQueryAttention.queries(attention, x)
    k, v = GroupedQueryAttention.keys_values(attention, x)
    ours = attention.project(x, x)
    close(ours[0], rotate(attention.query_norm(q)))
    close(ours[1], rotate(attention.key_norm(k)))
    close(ours[2], v)

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

def test_adamw_has_every_weight_once():
    model = build_modern({}, 50)
    groups = adamw(model).param_groups
    found = [id(w) for group in groups for w in group['params']]
    assert sorted(found) == sorted(id(w) for w in model.parameters())
    assert [group['weight_decay'] for group in groups] == [0.1, 0.]

# Muon

@few
@given(m=st.integers(1, 9), n=st.integers(1, 9), rank=st.integers(1, 9))
def test_orthogonalize_keeps_singular_vectors(m, n, rank):
    g = randn64(m, rank) @ randn64(rank, n)
    U, S, V = torch.linalg.svd(g, full_matrices=False)
    x = S / S.norm()
    for _ in range(5): x = 3.4445*x - 4.7750*x**3 + 2.0315*x**5
    close(orthogonalize(g), U @ torch.diag(x) @ V, atol=1e-8)
    sizes = torch.linalg.svdvals(orthogonalize(g))
    large = S > 0.02 * S.norm()
    assert x[large].min() > 0.3 and sizes.max() < 1.3

def test_muon_has_every_weight_once():
    model = build_modern({}, 50)
    optimizer = muon(model)
    groups = optimizer.param_groups
    held = [id(w) for group in groups for w in group['params']]
    assert sorted(held) == sorted(id(w) for w in model.parameters())
    hidden = {id(w) for w in groups[0]['params']}
    inside = [*model.encoder.parameters(), *model.decoder.parameters()]
    assert hidden == {id(w) for w in inside if w.dim() == 2}
    assert [group['weight_decay'] for group in groups] == [0.1, 0.1, 0.]
    set_lr(optimizer, 0.25)
    assert {group['lr'] for group in groups} == {0.25}

def test_two_optimizers_step_and_forget():
    model = build_modern({}, 50)
    optimizer = muon(model)
    set_lr(optimizer, 1e-3)
    model(*torch.randint(4, 50, (2, 2, 6))).square().sum().backward()
    before = deepcopy(model.state_dict())
    optimizer.step()
    assert not any(torch.equal(w, before[name]) for name, w in model.named_parameters())
    optimizer.zero_grad()
    assert all(w.grad is None for w in model.parameters())

# Hugging Face

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
    ours = drawn_gains(EncoderLayer(modernize(c, 'rmsnorm', 'swiglu', 'rotary')))
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

# What each part changes

def kinds(model): return Counter(type(m) for m in model.modules())

def changed(before, after):
    return {k: after[k] - before[k] for k in {*before, *after} if after[k] != before[k]}

BARE = TransformerConfig(50, d_model=16, d_ff=24, n_heads=4, n_encoder_layers=2,
                         n_decoder_layers=3)

# 2 + 3 layers: 2 + 3 self-attentions, 3 cross-attentions, 5 networks, 2·2 + 3·3 norms
TOUCHED = {
    'rmsnorm': {nn.LayerNorm: -13, RMSNorm: 13},
    'rotary': {MultiHeadAttention: -5, RotaryAttention: 5},
    'swiglu': {FeedForward: -5, SwiGLU: 5, nn.Linear: 5},
    'gqa': {MultiHeadAttention: -8, GroupedQueryAttention: 8},
    'mqa': {MultiHeadAttention: -8, GroupedQueryAttention: 8},
    'qk-norm': {MultiHeadAttention: -5, QKNormAttention: 5, RMSNorm: 10},
    'no-bias': {},
    'modern-attention': {MultiHeadAttention: -8, ModernAttention: 5, RMSNorm: 10,
                         GroupedQueryAttention: 3}}

def test_every_part_is_listed(): assert set(TOUCHED) == set(PARTS)

@pytest.mark.parametrize('part', PARTS)
@pytest.mark.smoke
def test_a_part_touches_what_it_says(part):
    plain, model = Transformer(BARE), Transformer(modernize(BARE, part))
    assert changed(kinds(plain), kinds(model)) == TOUCHED[part]
    n_kv = {'gqa': 2, 'mqa': 1, 'modern-attention': 2}.get(part)
    for m in model.modules():
        if isinstance(m, GroupedQueryAttention): assert m.n_kv_heads == n_kv
    before, after = set(plain.state_dict()), set(model.state_dict())
    if part == 'no-bias':
        assert before - after == {name for name in before if name.endswith('bias')}
    if part == 'rotary': assert after == before
    src, tgt = torch.randint(4, 50, (2, 2, 6))
    model(src, tgt).sum().backward()
    assert all(p.grad is not None for p in model.parameters())

def test_the_dropout_of_positions_stays():
    model = Transformer(modernize(BARE, 'rotary'))
    assert model.src_positions.dropout.p == model.tgt_positions.dropout.p == 0.1

# Searching them

SEARCHED = {row: changes for row, changes in ROWS_SINCE.items() if row != 'adamw'}

@pytest.mark.parametrize('row', SEARCHED)
def test_every_row_can_be_searched(row):
    "By beams and by samples, in batches that rows leave, as without a cache"
    changes = dict(SEARCHED[row])
    parts, norm = changes.pop('parts', ()), changes.pop('norm', 'post')
    model = random_model(3, norm, max_len=10, parts=parts, n_heads=4, d_k=4, d_v=3)
    sentences = random_sentences(3, 4)
    for beam_size in (1, 4):
        options = dict(alpha=0.6, n_best=min(beam_size, 3), penalty=length_penalty)
        found = search(model, sentences, beam_size=beam_size, **options)
        for s, hypotheses in zip(sentences, found):
            check(hypotheses, plain_beam(model, s, beam_size, **options))
    check_samples(model, sentences, sample(model, sentences))

@pytest.mark.parametrize('part, n_kv', [('gqa', 2), ('mqa', 1), ('modern-attention', 2)])
def test_the_cache_stores_shared_heads_once(part, n_kv):
    model = random_model(3, parts=[part], n_heads=4, d_k=4, d_v=3)
    cache = Cache(model, torch.tensor([[5, 6, EOS]]), max_steps=7)
    next_logits(model, torch.full((1, 3), BOS), cache)
    for keys, values in cache.target.values():
        assert keys.shape == (1, n_kv, 7, 3, 4) and values.shape == (1, n_kv, 7, 3, 3)
    for keys, values in cache.source.values():
        assert keys.shape == (1, n_kv, 3, 4) and values.shape == (1, n_kv, 3, 3)

@pytest.mark.parametrize('part', PARTS)
def test_attention_weights_of_every_part(part):
    model = random_model(4, parts=[part], n_heads=4, d_k=4, d_v=3)
    src, tgt = torch.randint(4, 12, (2, 2, 6))
    weights = attention_weights(model, src, tgt)
    for kind, n_layers in dict(encoder=1, decoder=2, cross=2).items():
        assert weights[kind].shape == (n_layers, 2, 4, 6, 6)
        close(weights[kind].sum(-1), torch.ones(n_layers, 2, 4, 6).double())

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

def test_sizes_of_heads_stay():
    c = TransformerConfig(50, d_model=16, n_heads=2, d_k=6, d_v=10, n_encoder_layers=1,
                          n_decoder_layers=1)
    model = Transformer(modernize(c, 'gqa'))
    a = model.encoder.layers[0].self_attention
    sizes = [part.weight.shape for part in (a.query, a.key, a.value, a.output)]
    assert sizes == [(12, 16), (12, 16), (20, 16), (16, 20)]

def test_together_has_no_bias_and_no_plain_part():
    model = build_modern(ROWS_SINCE['together'], 50)
    assert not any('bias' in name for name, _ in model.named_parameters())
    found = kinds(model)
    assert found[ModernAttention] == 6 and found[GroupedQueryAttention] == 3
    for kind in (MultiHeadAttention, FeedForward, nn.LayerNorm): assert kind not in found
    assert model.src_positions.table is model.tgt_positions.table is None
    assert all(m.pre for m in model.modules() if isinstance(m, ResidualNorm))

# The rows and their trainings

def test_a_row_begins_with_the_weights_of_base():
    def weights(row):
        set_seed(3)
        return build_modern(ROWS_SINCE[row], 60).state_dict()
    base = weights('base')
    drawn_anew = {'swiglu': 'feed_forward', 'gqa': ('key.', 'value.'),
                  'mqa': ('key.', 'value.')}
    for row in ROWS_SINCE:
        if row == 'together': continue
        for name, w in weights(row).items():
            new = any(word in name for word in drawn_anew.get(row, ()))
            if row == 'swiglu' and 'feed_forward' in name: new = True
            if name in base and not new: assert torch.equal(w, base[name]), (row, name)

# Parts that no row trains

@few
@given(h=st.integers(1, 4), d_k=st.integers(1, 5), d_v=st.integers(1, 5),
       r=st.integers(1, 9))
def test_latents_are_keys_and_values_at_once(h, d_k, d_v, r):
    attention = LatentAttention(8, h, d_k, d_v, n_latent=r).double()
    x, memory = randn64(2, 3, 8), randn64(2, 6, 8)
    absorbed = attend_latents(attention, x, attention.latent(memory))
    close(absorbed, attention(x, memory))
    whole = MultiHeadAttention(8, h, d_k, d_v).double() # its matrices multiplied out
    whole.query, whole.output = attention.query, attention.output
    whole.key.weight.data = attention.key.weight @ attention.latent.weight
    whole.value.weight.data = attention.value.weight @ attention.latent.weight
    close(absorbed, whole(x, memory))

@few
@given(n=st.integers(1, 6), k=st.integers(1, 6), d=st.integers(1, 5))
def test_a_mixture_is_a_weighted_sum_of_the_chosen(n, k, d):
    k = min(n, k)
    mixture, x = MixtureOfExperts(d, 12, n, k).double(), randn64(2, 5, d)
    scores = mixture.router(x)
    kept = scores >= scores.topk(k).values[..., -1:]
    weights = scores.masked_fill(~kept, -torch.inf).softmax(-1)
    every = torch.stack([expert(x) for expert in mixture.experts], -1)
    output = mixture(x)
    close(output, (every * weights[..., None, :]).sum(-1))
    assert abs(mixture.load(x).sum() - 1) < 1e-6
    output.sum().backward()
    chosen = kept.flatten(0, 1).any(0) # experts that nobody chose get no gradient
    for expert, is_chosen in zip(mixture.experts, chosen):
        assert (expert.outer.weight.grad.abs().sum() > 0) == is_chosen
