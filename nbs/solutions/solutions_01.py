"""Solutions of the exercises of chapter 01."""
from math import exp, inf, sqrt
import torch
from torch import tensor

def halves_and_quarters():
    """Exercise 2. The weights 1/2, 1/4, 1/4 come from the scores ln 2, 0, 0.

    Keys 2 and 3 must score the same, and they differ only in their first component, so the
    query's first component is 0 and both score 0. Key 1 then scores y·ln 4 / √2, which is
    y·√2·ln 2, and that is ln 2 for y = 1/√2. (Any common shift of the scores would do.)
    """
    return tensor([0, 1/sqrt(2)])

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
