"""Chapter 20 beyond its own proofs: every part against an independent form on random sizes,
what each part touches, and trainings that are interrupted."""
import json
from collections import Counter
from copy import deepcopy
from functools import partial
from hashlib import sha256
from itertools import islice
from math import ceil, log, sqrt
from pathlib import Path
from unittest import mock
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from running import sample as as_sample
from searching import check, check_samples, plain_beam, random_model, random_sentences
from transformer_nb.support.core import BOS, EOS, InputError, set_seed
from transformer_nb.corpora import load_corpus
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
from transformer_nb.training import batch_groups, token_loss
from transformer_nb.studies import variations
from transformer_nb.studies.since_2017 import (
    MUON_ROW, PARTS, RATES_SINCE, ROWS_SINCE, LatentAttention, MixtureOfExperts,
    attend_latents, best_rate, build_modern, modernize, muon, next_rates, orthogonalize,
    rates_tried)
from transformer_nb.studies.variations import N_STEPS
import train_since_2017 as protocol
from runs import read_results
from train_since_2017 import train_best, train_modern, train_rates, train_since

RESULTS = Path(__file__).parent.parent/'nbs'/'results'/'since_2017.jsonl'
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

@pytest.fixture(scope='module')
def mini():
    pairs = load_corpus('mini', 'en', 'de')
    return {'train': pairs['train'][:60], 'valid': pairs['valid'][:3]}

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

STORED = { # of commit 9b972b3, which exchanged parts in a finished base
    'base': '37328f219a31',
    'rotary': '37328f219a31',
    'swiglu': '8b66a28c537d',
    'gqa': '85e4f2675055',
    'mqa': 'a7afc1a30740',
    'qk-norm': '5968133f453b',
    'no-bias': '9fa3e37f2c93',
    'together': 'b1f097951e7f'}

@pytest.mark.parametrize('row', STORED)
def test_rows_begin_with_the_weights_of_the_stored_runs(row):
    digest = sha256()
    set_seed(0)
    for name, w in sorted(build_modern(ROWS_SINCE[row], 500).state_dict().items()):
        digest.update(name.encode() + w.numpy().tobytes())
    assert digest.hexdigest()[:12] == STORED[row]

def test_base_is_trained_as_in_chapter_18(mini):
    theirs = variations.train_row({}, 5, mini, 3)
    ours = train_modern('base', 5, mini, 3)
    shared = set(ours) - {'seconds'}
    assert {'valid_loss', 'train_loss', 'parameters', 'epochs', 'bleu'} < shared
    for name in shared: assert ours[name] == theirs[name], name

def timeless(result): return {k: v for k, v in result.items() if k != 'seconds'}

@pytest.mark.parametrize('row', as_sample(['together', 'adamw'], 2))
def test_a_training_repeats(mini, row):
    first, second = (train_modern(row, 2, mini, 3) for _ in range(2))
    assert timeless(first) == timeless(second)
    assert first['valid_loss'] != train_modern(row, 3, mini, 3)['valid_loss']

def seen_by(row, mini):
    "Batches, learning rates, and the optimizer of a row"
    seen = []
    def note(model, optimizer, batches, n_steps, lr_of, loss_of):
        decays = [group['weight_decay'] for group in optimizer.param_groups]
        for step, (_, _, [rows]) in enumerate(islice(batch_groups(batches, 1), n_steps), 1):
            batch = batches.batch(rows)
            seen.append((batch.src.tolist(), batch.labels.tolist(), lr_of(step)))
        return dict(optimizer=(type(optimizer).__name__, decays)) | loss_of.keywords, []
    with (mock.patch.object(variations, 'train_steps', note),
          mock.patch.object(variations, 'measure_losses', return_value={}),
          mock.patch.object(variations, '_scores', return_value={}),
          mock.patch.object(variations, 'BATCH_TOKENS', 100)):
        result = train_modern(row, 1, mini, 4)
    assert result['label_smoothing'] == 0.1
    return seen, result['optimizer']

def test_rows_differ_in_their_change_only(mini):
    batches, optimizer = seen_by('base', mini)
    assert len(batches) == 4 and optimizer == ('Adam', [0])
    for row in [*ROWS_SINCE, 'muon@1']:
        theirs, their_optimizer = seen_by(row, mini)
        assert theirs == batches, row
        decays = row in ('adamw', 'together')
        expected = ('AdamW', [0.1, 0.]) if decays else ('Adam', [0])
        if row == 'muon@1': expected = ('TwoOptimizers', [0.1, 0.1, 0.])
        assert their_optimizer == expected, row

def test_a_skipped_step_is_counted(mini):
    def infinite(model, batch, **options): return token_loss(model, batch) * torch.inf
    with mock.patch.object(variations, 'token_loss', infinite):
        assert train_modern('rmsnorm', 0, mini, 3)['skipped'] == 3

def quick(row, seed, corpus, n_steps):
    return dict(parameters=1, valid_loss=seed + 0.5, test_loss=1., skipped=0, commit='none')

@pytest.fixture
def trained():
    "Rows and seeds that were trained, in place of a training"
    calls = []
    def note(row, seed, corpus, n_steps):
        calls.append((row, seed))
        return quick(row, seed, corpus, n_steps)
    with mock.patch.object(protocol, 'train_modern', note): yield calls

def test_seed_by_seed(trained, mini, tmp_path):
    out = tmp_path/'r.jsonl'
    results = train_since(out, range(3), mini, 5, processes=0)
    assert trained == [(row, seed) for seed in range(3) for row in ROWS_SINCE]
    assert read_results(out) == results

@pytest.mark.parametrize('n_left', [0, 1, 14, 21])
def test_goes_on_where_it_was_cut(trained, mini, tmp_path, n_left):
    out = tmp_path/'r.jsonl'
    whole = train_since(out, range(2), mini, 5, processes=0)
    lines = out.read_text().splitlines(keepends=True)
    out.write_text(''.join(lines[:n_left]))
    trained.clear()
    assert train_since(out, range(2), mini, 5, processes=0) == whole
    assert trained == [(r['row'], r['seed']) for r in whole[n_left:]]
    assert out.read_text() == ''.join(lines)

def test_what_was_trained_is_kept_when_a_training_fails(mini, tmp_path):
    out, n = tmp_path/'r.jsonl', 0
    def fail_at_the_fourth(*args):
        nonlocal n
        n += 1
        if n == 4: raise RuntimeError('no memory')
        return quick(*args)
    with (mock.patch.object(protocol, 'train_modern', fail_at_the_fourth),
          pytest.raises(RuntimeError, match='no memory')):
        train_since(out, range(1), mini, 5, processes=0)
    assert [r['row'] for r in read_results(out)] == list(ROWS_SINCE)[:3]

def test_half_a_line_is_refused(trained, mini, tmp_path):
    out = tmp_path/'r.jsonl'
    train_since(out, range(1), mini, 5, processes=0)
    damaged = out.read_text()[:-20]
    out.write_text(damaged)
    with pytest.raises(InputError, match=r'r\.jsonl:11: not a result'):
        train_since(out, range(1), mini, 5, processes=0)
    assert out.read_text() == damaged

@pytest.mark.parametrize('change', ['steps', 'corpus', 'row', 'learning rate'])
def test_other_settings_are_refused(trained, mini, tmp_path, change):
    out = tmp_path/'r.jsonl'
    train_since(out, range(1), mini, 5, processes=0)
    before = out.read_text()
    corpus = mini | dict(valid=mini['valid'][:2]) if change == 'corpus' else mini
    rows = dict(ROWS_SINCE)
    if change == 'row': rows['adamw'] = dict(weight_decay=0.2)
    lr = 1e-3 if change == 'learning rate' else variations.PEAK_LR
    with (mock.patch.object(protocol, 'ROWS_SINCE', rows),
          mock.patch.object(variations, 'PEAK_LR', lr),
          pytest.raises(InputError, match='run with other settings')):
        train_since(out, range(1), corpus, 6 if change == 'steps' else 5, processes=0)
    assert out.read_text() == before

def test_a_row_that_is_not_there_is_refused(trained, mini, tmp_path):
    out = tmp_path/'r.jsonl'
    out.write_text(json.dumps(dict(row='alibi', seed=0, settings='x')) + '\n')
    with pytest.raises(InputError, match='row alibi'): train_since(out, range(1), mini, 5)

# Other learning rates

BEST = {'together': 2, 'mqa': 0.25, 'muon': 0.5} # 1 for all others

def loss_at(name):
    row, _, rate = name.partition('@')
    ratio = float(rate or 1) / BEST.get(row, 1)
    return 3 + abs(log(ratio))

@pytest.fixture
def rated(mini, tmp_path):
    "Runs whose loss has its minimum at `BEST`, and the stored file beside them"
    calls = []
    def note(row, seed, corpus, n_steps):
        calls.append((row, seed))
        assert set(corpus) == {'train', 'valid', 'test'} or '@' not in row
        return quick(row, seed, corpus, n_steps) | dict(valid_loss=loss_at(row))
    with mock.patch.object(protocol, 'train_modern', note):
        train_since(tmp_path/'since_2017.jsonl', range(3), mini, 5, processes=0)
        calls.clear()
        yield calls

def test_rates_are_extended_until_the_best_lies_inside(rated, mini, tmp_path):
    corpus = mini | dict(test=mini['valid'])
    run = partial(train_rates, tmp_path/'r.jsonl', corpus, 5, processes=0)
    results = run()
    rates = {row: {rate for name, rate in (r.split('@') for r, _ in rated) if name == row}
             for row in ROWS_SINCE | MUON_ROW}
    assert rates['base'] == {'0.5', '1', '2'} and rated[0] == ('base@1', 0)
    assert rates['gqa'] == {'0.5', '2'} and rates['muon'] == {'0.25', '0.5', '1', '2'}
    assert rates['together'] == {'0.5', '2', '4'}
    assert rates['mqa'] == {'0.125', '0.25', '0.5', '2'}
    assert {seed for _, seed in rated} == {0, 1, 2} and len(set(rated)) == len(rated)
    rated.clear()
    assert run() == results and not rated

    train_best(tmp_path/'r.jsonl', corpus, 5, processes=0)
    assert rated == [(f'{row}@{BEST.get(row, 1):g}', seed) for seed in range(3, 10)
                     for row in ROWS_SINCE | MUON_ROW]

def test_stored_runs_that_are_not_repeated_are_made_anew(rated, mini, tmp_path):
    corpus, file = mini | dict(test=mini['valid']), tmp_path/'since_2017.jsonl'
    lines = read_results(file)
    for r in lines: r['valid_loss'] += 0.002
    file.write_text(''.join(json.dumps(r) + '\n' for r in lines))
    train_rates(tmp_path/'r.jsonl', corpus, 5, processes=0)
    assert {(f'{row}@1', seed) for row in ROWS_SINCE for seed in range(3)} <= set(rated)

def test_failed_runs_are_never_the_best():
    def runs(**changes):
        losses = {'gqa@0.5': 3., 'gqa': 2., 'gqa@2': 1.}
        def run(row, seed):
            line = dict(row=row, seed=seed, skipped=0, valid_loss=losses[row])
            return line | changes.get(row[3:], {})
        return [run(row, seed) for row in losses for seed in range(3)]
    assert best_rate(runs(), 'gqa') == 2 and next_rates(runs(), 'gqa') == [4]
    for failure in (dict(skipped=1), dict(valid_loss=float('nan'))):
        broken = runs(**{'@2': failure})
        assert best_rate(broken, 'gqa') == 1 and next_rates(broken, 'gqa') == []

def test_rate_rows_are_the_rows_at_another_rate():
    for name, changes in RATES_SINCE.items():
        row, rate = name.split('@')
        assert changes == (ROWS_SINCE | MUON_ROW)[row] | dict(rate=float(rate))
        for step in (1, 200, 700):
            expected = float(rate) * variations.row_lr({}, step)
            assert abs(variations.row_lr(changes, step) - expected) < 1e-12

def test_a_run_measures_the_test_split(mini):
    "Without changing anything else, and as the same sentences would be measured elsewhere"
    plain = train_modern('gqa', 1, mini, 3)
    tested = train_modern('gqa', 1, mini | dict(test=mini['valid']), 3)
    assert tested.pop('test_loss') == plain['valid_loss']
    assert timeless(tested) == timeless(plain)

# The stored results

@pytest.fixture(scope='module')
def stored():
    if not RESULTS.exists(): pytest.skip('the trainings are not stored')
    return read_results(RESULTS)

def test_stored_results(stored):
    assert {r['row'] for r in stored} == set(ROWS_SINCE)
    assert len({(r['row'], r['seed']) for r in stored}) == len(stored)
    assert {r['steps'] for r in stored} == {N_STEPS}
    assert len({r['commit'] for r in stored}) == 1
    for row, changes in ROWS_SINCE.items():
        size = sum(p.numel() for p in build_modern(changes, 2000).parameters())
        assert {r['parameters'] for r in stored if r['row'] == row} == {size}

def test_stored_settings(stored, multi30k_dir):
    pairs = load_corpus('multi30k', 'en', 'de', multi30k_dir)
    corpus = variations.short_corpus(pairs)
    expected = variations.row_settings(ROWS_SINCE, corpus, N_STEPS)
    assert all(r['settings'] == expected[r['row']] for r in stored)

def test_stored_rates_are_what_the_rule_asked_for(multi30k_dir):
    results = read_results(RESULTS.with_name('since_2017_rates.jsonl'))
    rows, asked = ROWS_SINCE | MUON_ROW, set()
    for row in rows:
        assert next_rates(results, row) == []
        asked |= {(f'{row}@{rate:g}', seed) for rate in rates_tried(results, row)
                  for seed in range(3)}
        asked |= {(f'{row}@{best_rate(results, row):g}', seed) for seed in range(3, 10)}
    assert sorted((r['row'], r['seed']) for r in results) == sorted(asked)
    pairs = load_corpus('multi30k', 'en', 'de', multi30k_dir)
    corpus = variations.short_corpus(pairs, ('train', 'valid', 'test'))
    expected = variations.row_settings(RATES_SINCE, corpus, N_STEPS)
    assert all(r['settings'] == expected[r['row']] for r in results)

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
