"""Solutions of the exercises of chapter 20, each with the check that the chapter makes."""
from functools import partial
from math import inf
import pytest, torch
from torch import tensor
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.embedding import rotate
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.parts import GroupedQueryAttention

close = partial(assert_close, rtol=1e-10, atol=1e-10)

def rotate_part(x, n, positions):
    """Exercise 1. Turn the first n numbers as if there were no others.

    Their frequencies are 10000^(-2i/n): n numbers get the whole range from fast to slow.
    With n = 0 nothing turns, and the head knows no positions; with n = d_k all of it turns.
    """
    turned = rotate(x[..., :n], positions) if n else x[..., :n]
    return torch.cat([turned, x[..., n:]], -1)

@torch.no_grad()
def average_heads(attention, n_kv_heads):
    """Exercise 2. The mean matrix of each group; queries and output stay.

    Nothing changes if each head is its own group, or if the heads of a group have equal
    keys and values.
    """
    h, d_model = attention.n_heads, attention.query.in_features
    d_k = attention.query.out_features // h
    d_v = attention.value.out_features // h
    new = GroupedQueryAttention(d_model, h, d_k, d_v, n_kv_heads)
    new.query, new.output = attention.query, attention.output
    for name in ('key', 'value'):
        weight = getattr(attention, name).weight
        heads = weight.unflatten(0, (n_kv_heads, h//n_kv_heads, -1))
        mean = heads.mean(1).flatten(0, 1)
        getattr(new, name).weight = torch.nn.Parameter(mean)
    return new

def alibi(n_heads, t):
    """Exercise 3. Distances times slopes; the future is -inf.

    Without any positions, a causal decoder still sees one token at the first position and
    three at the third. Chapter 04 says so: the mask lets some order leak in. A head that
    attends evenly to all it sees gives `<s>`, which stands only at the start, the weight
    1/t. So the share of `<s>` in its output is the position.
    """
    slopes = 2. ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    position = torch.arange(t)
    distance = position[:, None] - position        # (t, t), m - n
    bias = -slopes[:, None, None] * distance
    return bias.masked_fill(distance < 0, -inf)

def test_rotate_part():
    x, positions = torch.randn(2, 5, 8, dtype=torch.float64), torch.arange(3, 8)
    part = rotate_part(x, 4, positions)
    assert torch.equal(part[..., 4:], x[..., 4:])
    close(part[..., :4], rotate(x[..., :4], positions))
    close(rotate_part(x, 8, positions), rotate(x, positions))
    assert torch.equal(rotate_part(x, 0, positions), x)

@pytest.mark.parametrize('n', [0, 2, 6, 8])
def test_scores_of_turned_parts_depend_on_the_distance(n):
    q, k = (v.expand(9, 8) for v in torch.randn(2, 1, 8, dtype=torch.float64))
    positions = torch.arange(9)
    scores = rotate_part(q, n, positions) @ rotate_part(k, n, positions).T
    for offset in range(-8, 9):
        along = scores.diagonal(offset)
        close(along, along[:1].expand_as(along))

def test_average_heads():
    attention = MultiHeadAttention(8, 4, 2, 2).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    close(average_heads(attention, 4)(x), attention(x))
    one = average_heads(attention, 1)
    close(one.key.weight, attention.key.weight.unflatten(0, (4, 2)).mean(0))
    for weight in (attention.key.weight, attention.value.weight):
        weight.data[:] = weight[:2].repeat(4, 1)
    close(average_heads(attention, 2)(x), attention(x))

def test_alibi():
    bias = alibi(4, 6)
    assert bias.shape == (4, 6, 6)
    assert_close(bias[0, 5, :], tensor([-1.25, -1, -.75, -.5, -.25, 0]))
    assert bias[3, 2, 0] == -2/256
    assert bias[:, 1, 2].isneginf().all()
    assert_close(alibi(8, 3)[:, 1, 0], -2. ** -torch.arange(1, 9))

def test_alibi_as_a_loop():
    bias = alibi(3, 4)
    for h in range(3):
        for m in range(4):
            for n in range(4):
                slope = 2 ** (-8*(h + 1)/3)
                expected = -slope*(m - n) if n <= m else -inf
                assert_close(bias[h, m, n].item(), expected)

def test_alibi_forgets_the_distant():
    "Added to equal scores, nearer keys weigh more, and the first head looks least far"
    weights = F.softmax(alibi(4, 6), -1)
    last = weights[:, 5]
    assert (last.diff(dim=-1) > 0).all()
    assert (last[:, 0].diff() > 0).all()
