"""Solutions of the exercises of chapter 02, each with the check that the chapter makes."""
from math import ceil
import pytest, torch
from torch.testing import assert_close
from transformer_nb.attention import scaled_dot_product_attention
from transformer_nb.multihead import MultiHeadAttention, causal_mask

def bias_matters():
    """Exercise 2. Keys: q·(k_j + b) = q·k_j + q·b, the same for every key of the row.

    A softmax sees only differences, so the weights stay. A bias on the queries adds b·k_j,
    which differs from key to key. A bias on the values is added to every output, because
    the weights of a row sum to one: Σ w_j (v_j + b) = Σ w_j v_j + b.
    """
    return True, False, True

def test_bias_matters():
    torch.manual_seed(0)
    q, k, v = (torch.randn(n, 8, dtype=torch.float64) for n in (4, 6, 6))
    bias = torch.randn(8, dtype=torch.float64)
    before, _ = scaled_dot_product_attention(q, k, v)
    biased = (q + bias, k, v), (q, k + bias, v), (q, k, v + bias)
    for answer, inputs in zip(bias_matters(), biased):
        after, _ = scaled_dot_product_attention(*inputs)
        assert answer == (not torch.allclose(before, after))

def soft_difference(p, d):
    """Exercise 3. Head 0 minus head 1 is (2p - 1)(x_1 - x_2), so divide by 2p - 1.

    The entries grow without bound as p approaches 1/2: heads that hardly differ bring
    almost the same average, and the little that tells them apart has to be amplified, along
    with any noise. At p = 1/2 both bring the same, and nothing helps.
    """
    eye = torch.eye(d) / (2*p - 1)
    return torch.cat([eye, -eye])

def window_mask(t, width):
    """Exercise 4. The causal triangle without the one that ends `width` positions earlier.

    Each layer carries information `width - 1` positions further, so the last of n positions
    depends on the first after ceil((n - 1) / (width - 1)) layers.
    """
    too_far = causal_mask(t).tril(-width)
    return causal_mask(t) & ~too_far

@torch.no_grad()
def permute_heads(m, order):
    """Exercise 5. All four matrices move: the three projections head by head, and W^O in
    blocks of d_v rows, which are the rows of one head.

    Indexing with a list makes a copy, so that nothing is overwritten before it is read.
    """
    blocks = m.W_O.unflatten(0, (m.n_heads, -1))
    for W in (m.W_Q, m.W_K, m.W_V, blocks): W.copy_(W[order])

@pytest.mark.parametrize('p', [1., 0.9, 0.2])
def test_soft_difference(p):
    x_1, x_2 = torch.randn(2, 5, 4, dtype=torch.float64)
    head_0 = p*x_1 + (1 - p)*x_2
    head_1 = (1 - p)*x_1 + p*x_2
    W_O = soft_difference(p, 4).double()
    assert_close(torch.cat([head_0, head_1], -1) @ W_O, x_1 - x_2, rtol=0, atol=1e-6)

def test_window_mask():
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert window_mask(4, 2).int().tolist() == expected
    assert window_mask(7, 7).equal(causal_mask(7))

@pytest.mark.parametrize('n, width', [(7, 3), (8, 3), (9, 2), (10, 4)])
def test_layers_until_the_first_position_is_seen(n, width):
    step = window_mask(n, width).int()
    seen = torch.eye(n, dtype=torch.int)
    layers = 0
    while not seen[-1, 0]:
        seen = step @ seen
        layers += 1
    assert layers == ceil((n - 1) / (width - 1))

@pytest.mark.parametrize('d_k, d_v', [(4, 4), (3, 5)])
def test_permute_heads(d_k, d_v):
    m = MultiHeadAttention(16, 4, d_k, d_v).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    memory = torch.randn(2, 7, 16, dtype=torch.float64)
    before, W_Q = m(x, memory), m.W_Q.detach().clone()
    permute_heads(m, [2, 0, 3, 1])
    assert_close(m.W_Q.detach(), W_Q[[2, 0, 3, 1]])
    assert_close(m(x, memory), before, rtol=1e-12, atol=1e-12)
