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
