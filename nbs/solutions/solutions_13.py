"""Solutions of the exercises of chapter 13."""
import torch
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
