"""Solutions of the exercises of chapter 01, each with the check that the chapter makes."""
from math import exp, inf, log, sqrt
import torch
from torch import tensor
from torch.testing import assert_close
from transformer_nb.attention import scaled_dot_product_attention


def halves_and_quarters():
    """Exercise 2. The weights 1/2, 1/4, 1/4 come from the scores ln 2, 0, 0.

    Keys 2 and 3 must score the same, and they differ only in their first component, so the
    query's first component is 0 and both score 0. Key 1 then scores y·ln 4 / √2, which is
    y·√2·ln 2, and that is ln 2 for y = 1/√2. (Any common shift of the scores would do.)
    """
    return tensor([0, 1/sqrt(2)])

def test_halves_and_quarters():
    keys = tensor([[0, log(4)], [log(2), 0], [log(3), 0]])
    query = halves_and_quarters()[None]
    _, weights = scaled_dot_product_attention(query, keys, torch.eye(3))
    assert_close(weights, tensor([[0.5, 0.25, 0.25]]))


def slope_of_query(query, keys, values):
    """Exercise 3. The softmax has the slopes ∂w_j/∂score_i = w_j (δ_ij − w_i).

    Hence ∂o/∂score_i = Σ_j v_j w_j (δ_ij − w_i) = w_i (v_i − o), and score_i has the
    gradient k_i / √d_k. The sum of w_i (v_i − o) k_i is E[v k] − E[v] E[k], the covariance
    of values and keys. It is 0 if one key has all the weight, or all values are equal.
    """
    root = sqrt(len(query))
    weights = (keys @ query / root).softmax(0)
    output = weights @ values
    mean_key = weights @ keys
    return ((weights * values) @ keys - output * mean_key) / root

def test_slope_of_query():
    torch.manual_seed(0)
    q = torch.randn(8, dtype=torch.float64, requires_grad=True)
    k = torch.randn(5, 8, dtype=torch.float64)
    v = torch.randn(5, dtype=torch.float64)
    output, _ = scaled_dot_product_attention(q[None], k, v[:, None])
    (expected,) = torch.autograd.grad(output.sum(), q)
    assert_close(slope_of_query(q.detach(), k, v), expected)
    sharp = slope_of_query(1000 * q.detach(), k, v) # one key has all the weight
    assert_close(sharp, torch.zeros_like(sharp))


def attend_streaming(query, keys, values):
    """Exercise 4. Keep the sum and the mixture relative to the largest score so far.

    So no exponential overflows. When a larger score turns up, both were taken relative to a
    number that is too small, and shrink by e^(old − new).
    """
    largest, total, mixture = -inf, 0., torch.zeros_like(values[0])
    for key, value in zip(keys, values):
        score = float(query @ key) / sqrt(len(query))
        new = max(largest, score)
        shrink = exp(largest - new)
        share = exp(score - new)
        total = total*shrink + share
        mixture = mixture*shrink + share*value
        largest = new
    return mixture / total

def test_attend_streaming():
    torch.manual_seed(0)
    q = torch.randn(8, dtype=torch.float64)
    k = torch.randn(50, 8, dtype=torch.float64)
    v = torch.randn(50, 3, dtype=torch.float64)
    for size in (1, 1000):
        query = size * q
        expected, _ = scaled_dot_product_attention(query[None], k, v)
        assert_close(attend_streaming(query, k, v), expected[0], rtol=0, atol=1e-9)
