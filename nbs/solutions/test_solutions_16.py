"Solutions of the exercises of chapter 16, each with the check that the chapter makes."
import pytest, torch
from torch.testing import assert_close

def alignment_error_rate(chosen, linked):
    """Exercise 1. *Fußballspieler* has two links, and one of them is always missed.

    Each German word chooses one English word. Our score counts the choice as right and
    asks no further; the rate counts the missed link.
    """
    n_right = len(chosen & linked)
    return 1 - 2*n_right / (len(chosen) + len(linked))

def average_out(head, n_heads, module, args):
    """Exercise 2. Keep what the head always brings: its mean over all positions.

    Nothing that it says about this sentence is left.
    """
    heads = args[0].unflatten(-1, (n_heads, -1)).clone() # (b, t, h, d_v)
    heads[..., head, :] = heads[..., head, :].mean((0, 1))
    return heads.flatten(-2)

def rollout(weights):
    """Exercise 3. The rows of each factor sum to one, and so do those of the product.

    It follows where vectors are carried. Whether what is carried matters, it does not ask:
    weight is not effect.
    """
    identity = torch.eye(weights.shape[-1], dtype=weights.dtype)
    product = identity
    for layer in weights.mean(1):
        carried = (layer + identity) / 2
        product = carried @ product
    return product

def test_alignment_error_rate():
    assert alignment_error_rate({(0, 0), (1, 1)}, {(0, 0), (1, 1)}) == 0
    assert alignment_error_rate({(0, 1)}, {(0, 0)}) == 1
    three = {(0, 0), (1, 1), (2, 1)}
    assert alignment_error_rate({(0, 0), (1, 1)}, three) == pytest.approx(0.2)

def test_average_out():
    x = torch.randn(2, 5, 12)
    y = average_out(1, 3, None, (x,))
    assert_close(y[..., 4:8], x[..., 4:8].mean((0, 1)).expand(2, 5, 4))
    assert torch.equal(y[..., :4], x[..., :4]) and torch.equal(y[..., 8:], x[..., 8:])

def test_rollout():
    r = rollout(torch.rand(4, 3, 6, 6, dtype=torch.float64).softmax(-1))
    assert_close(r.sum(-1), torch.ones(6, dtype=torch.float64))
    assert_close(rollout(torch.eye(5).expand(3, 2, 5, 5)), torch.eye(5))
    back = torch.eye(5)[[0, 0, 1, 2, 3]].expand(2, 1, 5, 5)
    assert_close(rollout(back)[4], torch.tensor([0, 0, .25, .5, .25]))

def test_rollout_puts_the_last_layer_leftmost():
    "Position 2 of the last layer looks at position 1, which took in word 0 in the first"
    first, last = torch.eye(3), torch.eye(3)
    first[1], last[2] = torch.tensor([1., 0, 0]), torch.tensor([0., 1, 0])
    assert rollout(torch.stack([first, last])[:, None])[2, 0] > 0
    assert rollout(torch.stack([last, first])[:, None])[2, 0] == 0
