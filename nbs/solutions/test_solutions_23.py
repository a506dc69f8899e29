"""Solutions of the exercises of chapter 23, each with the check that the chapter makes."""
import torch
from torch.nn import functional as F

def target_padding(model, adapter, src, tgt):
    """Exercise 1. Put padding after the target, and look at the scores before it.

    `three_properties` changes later tokens into other words, never into padding, so a leak
    through the padding mask alone passes all three.
    """
    padded = F.pad(tgt, (0, 2), value=adapter.pad)
    before = adapter.logits(model, src, tgt)
    after = adapter.logits(model, src, padded)[:, :tgt.shape[1]]
    return torch.allclose(before, after, atol=1e-5)

def solve_epsilon(x, y):
    """Exercise 2. Each row was divided by |x - mean| / |y|, whatever the kind of norm."""
    centred = x - x.mean(-1, keepdim=True)
    divisor = centred.norm(dim=-1) / y.norm(dim=-1)
    kinds = dict(root=divisor.square() - x.var(-1, unbiased=False),
                 deviation=divisor - x.std(-1))
    spreads = {kind: (eps.max() - eps.min()).item() for kind, eps in kinds.items()}
    kind = min(spreads, key=spreads.get)
    return kind, kinds[kind].mean().item()

def fourth_attention(q, k, v, mask=None):
    """Exercise 3. Without the square cases among the sizes, the mistake stays hidden: that
    is what `(1, 4, 5, 5)` and `(4, 2, 4, 4)` are for."""
    if mask is not None and mask.dim() == 3: mask = mask.unsqueeze(1)
    scores = q @ k.mT / q.shape[-1]**0.5
    if q.shape[2] == k.shape[2]: scores = scores.mT # easily overlooked
    if mask is not None: scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    if mask is not None: weights = weights.masked_fill(~mask, 0.)
    return weights @ v

def test_target_padding():
    from types import SimpleNamespace
    def logits(model, src, tgt):
        return F.one_hot(tgt, 30).cumsum(1) + src.sum().double()
    def leaky(model, src, tgt):
        return logits(model, src, tgt) * (1 + (tgt[:, -1:, None] == 3) / 10)
    src, tgt = torch.randint(4, 30, (2, 3, 6))
    for function, holds in ((logits, True), (leaky, False)):
        adapter = SimpleNamespace(logits=function, pad=3)
        assert target_padding(None, adapter, src, tgt) is holds

def test_solve_epsilon():
    x = torch.randn(6, 16, dtype=torch.float64) * torch.arange(1, 7)[:, None]
    kind, eps = solve_epsilon(x, F.layer_norm(x, (16,), eps=1e-3))
    assert (kind, round(eps, 8)) == ('root', 1e-3)
    y = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-3)
    kind, eps = solve_epsilon(x, y)
    assert (kind, round(eps, 8)) == ('deviation', 1e-3)

def test_fourth_attention():
    "Right for other sizes, wrong where there are as many queries as keys"
    def attention(q, k, v): return F.scaled_dot_product_attention(q, k, v)
    for t, s, is_right in ((3, 5, True), (4, 4, False)):
        q = torch.randn(2, 2, t, 8, dtype=torch.float64)
        k, v = torch.randn(2, 2, 2, s, 8, dtype=torch.float64)
        assert torch.allclose(fourth_attention(q, k, v), attention(q, k, v)) is is_right
