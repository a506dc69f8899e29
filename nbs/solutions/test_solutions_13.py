"""Solutions of the exercises of chapter 13, each with the check that the chapter makes."""
import pytest, torch
from transformer_nb.decoding import length_penalty

def keep_min_p(logits, min_p):
    """Exercise 1. A share of the best probability is a distance from the best logit.

    The logarithm of p/p_max is the difference of the two logits: the normalizer cancels.
    With a `min_p` of 1 only the likeliest is left, which is greedy search.
    """
    best = logits.amax(-1, keepdim=True)
    share = (logits - best).exp()
    return logits.masked_fill(share < min_p, -torch.inf)

def best_reachable(log_prob, n, limit, alpha):
    """Exercise 2. Divide by the largest penalty that is still to come.

    Where the penalty grows with the length, it is that of the limit. With a negative α it
    falls, so the best case is to end at once, with `</s>` as token n + 1.
    """
    next_token, last_token = length_penalty(n + 1, alpha), length_penalty(limit, alpha)
    return log_prob / max(next_token, last_token)

def lossless(p, q):
    """Exercise 3. Accept what the small model draws too rarely; what it draws too often,
    accept only at the rate p/q. Replace a rejected draft by what is still missing of p.

    A token is drafted and accepted with q·min(1, p/q) = min(p, q). So p - q is missing
    where it is positive, which adds up to exactly the probability of a rejection. A pass
    with n drafts yields 1 + a + a² + … + aⁿ = (1 - aⁿ⁺¹)/(1 - a) tokens, since the large
    model always adds one.
    """
    accept = (p / q).clamp(max=1)
    missing = (p - q).clamp(min=0)
    instead = missing / missing.sum() if missing.sum() > 0 else p
    return accept, instead

@pytest.mark.parametrize('min_p, n_kept', [(0., 5), (0.1, 4), (0.15, 3), (0.5, 2), (1., 1)])
def test_keep_min_p(min_p, n_kept):
    probabilities = torch.tensor([[0.5, 0.1, 0.3, 0.06, 0.04], [0.04, 0.06, 0.3, 0.1, 0.5]])
    logits = probabilities.log() + 7.
    filtered = keep_min_p(logits, min_p)
    kept = filtered > -torch.inf
    assert kept.sum(1).tolist() == [n_kept] * 2
    assert torch.equal(filtered[kept], logits[kept])
    assert torch.equal(kept[0], kept[1].flip(0))

@pytest.mark.parametrize('alpha', [-1., -0.3, 0., 0.6, 2.])
def test_best_reachable(alpha):
    for n in (1, 5, 29):
        reachable = [-3. / length_penalty(m, alpha) for m in range(n + 1, 31)]
        assert abs(best_reachable(-3., n, 30, alpha) - max(reachable)) < 1e-12

@pytest.mark.parametrize('seed', range(20))
def test_lossless(seed):
    """The distribution is that of the large model, and no rule accepts more drafts"""
    generator = torch.Generator().manual_seed(seed)
    p, q = torch.rand(2, 7, dtype=torch.float64, generator=generator).pow(seed % 4)
    p, q = p / p.sum(), q / q.sum()
    accept, instead = lossless(p, q)
    assert 0 <= accept.min() and accept.max() <= 1
    assert abs(instead.sum() - 1) < 1e-12
    drawn = q*accept + (q*(1 - accept)).sum() * instead
    assert torch.allclose(drawn, p, atol=1e-12)
    assert abs((q*accept).sum() - torch.minimum(p, q).sum()) < 1e-12
    assert torch.equal(lossless(p, p)[0], torch.ones_like(p))
