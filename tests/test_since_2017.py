"""Chapter 20 beyond its own proofs: every part against an independent form on random sizes,
what each part touches, and trainings that are interrupted."""
from functools import partial
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close
from searching import random_model
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.decoding import Cache, next_logits
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.optimizer import set_lr
from running import definitions
from transformer_nb.studies.since_2017 import (
    LatentAttention, MixtureOfExperts, attend_latents, delta_chunk, gated_delta, muon,
    orthogonalize)

chapter = definitions('20_since_2017')
build_modern, ROWS_SINCE = chapter.build_modern, chapter.ROWS_SINCE

few = settings(max_examples=25, deadline=None)
close = partial(assert_close, rtol=1e-9, atol=1e-9)

@pytest.fixture(autouse=True)
def seeded(): set_seed(0)

def randn64(*size): return torch.randn(*size, dtype=torch.float64)

@few
@given(n=st.integers(1, 9))
def test_a_chunk_is_the_loop_over_its_tokens(n):
    drawn = *(randn64(n, d) for d in (4, 4, 3)), *torch.rand(2, n).double(), randn64(3, 4)
    close(delta_chunk(*drawn), gated_delta(*drawn)) # queries, keys, values, gates, a state

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

# Searching them

@pytest.mark.parametrize('part, n_kv', [('gqa', 2), ('mqa', 1), ('modern-attention', 2)])
def test_the_cache_stores_shared_heads_once(part, n_kv):
    model = random_model(3, parts=[part], n_heads=4, d_k=4, d_v=3)
    cache = Cache(model, torch.tensor([[5, 6, EOS]]), max_steps=7)
    next_logits(model, torch.full((1, 3), BOS), cache)
    for keys, values in cache.target.values():
        assert keys.shape == (1, n_kv, 7, 3, 4) and values.shape == (1, n_kv, 7, 3, 3)
    for keys, values in cache.source.values():
        assert keys.shape == (1, n_kv, 3, 4) and values.shape == (1, n_kv, 3, 3)

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
