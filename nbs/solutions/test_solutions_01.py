"""Solutions of the exercises of chapter 01, each followed by the check that the chapter makes of it."""
from math import exp, inf, log, sqrt
import torch
from torch import tensor
from torch.testing import assert_close
from transformer_nb.attention import scaled_dot_product_attention


def halves_and_quarters():
    """Exercise 1. The weights 1/2, 1/4, 1/4 come from scores ln 2, 0, 0 (or any common number more).

    Keys 2 and 3 must score the same, and they differ only in their first component: the query's first component is 0, and
    both score 0. Key 1 then scores y·ln 4 / √2 = y·√2·ln 2, which is ln 2 for y = 1/√2.
    """
    return tensor([0, 1/sqrt(2)])

def test_halves_and_quarters():
    keys, values = tensor([[0, log(4)], [log(2), 0], [log(3), 0]]), torch.eye(3)
    _, weights = scaled_dot_product_attention(halves_and_quarters()[None], keys, values)
    assert_close(weights, tensor([[0.5, 0.25, 0.25]]))


def window_mask(t, r):
    """Exercise 2. Positions as a column and as a row: broadcasting compares every i with every j."""
    i = torch.arange(t)
    return (i[:, None] - i[None, :]).abs() <= r

def test_window_mask():
    assert_close(window_mask(4, 1).int(), tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]], dtype=torch.int32))
    assert window_mask(3, 5).all() and window_mask(3, 5).dtype == torch.bool


def attend_streaming(query, keys, values):
    """Exercise 3. The sum and the mixture are kept relative to the largest score so far, so that no exponential overflows.

    When a larger score turns up, both were taken relative to a number too small: they shrink by e^(old − new).
    """
    largest, total, mixture = -inf, 0., torch.zeros_like(values[0])
    for key, value in zip(keys, values):
        score = float(query @ key) / sqrt(len(query))
        new = max(largest, score)
        shrink, share = exp(largest - new), exp(score - new)
        total, mixture, largest = total*shrink + share, mixture*shrink + share*value, new
    return mixture / total

def test_attend_streaming():
    torch.manual_seed(0)
    q, k, v = (torch.randn(*shape, dtype=torch.float64) for shape in [(8,), (50, 8), (50, 3)])
    for size in (1, 1000):
        expected, _ = scaled_dot_product_attention(size * q[None], k, v)
        assert_close(attend_streaming(size * q, k, v), expected[0], rtol=0, atol=1e-9)
