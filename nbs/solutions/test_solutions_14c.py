"Solutions of the exercises of chapter 14c, each with a check like the chapter's."
import numpy as np
import torch
from torch.testing import assert_close
from transformer_nb.speed.gpu import best_widths
from transformer_nb.optimizer import smoothed_loss

def test_predicted():
    """Exercise 1.

    4 and 20. The pair of 6 tokens could have a width of its own, but then the ten short
    ones would be padded to 6: 11 · 6 + 3 · 20 = 126 places. With 4 and 20 it is the one
    pair of 6 that is padded, to 20: 10 · 4 + 4 · 20 = 120.
    """
    widths = best_widths(np.array([4]*10 + [6] + [20]*3), n=2)
    assert widths.tolist() == [4, 20]

def plain_and_recorded(shapes):
    """Exercise 2.

    The first step of each shape is plain, the second is recorded. A shape that comes once
    in the epoch is never recorded.
    """
    often = {shape for shape in shapes if shapes.count(shape) > 1}
    return len(set(shapes)), len(often)

def slope(z, y, label_smoothing):
    """Exercise 3.

    Whoever expects a term for the mean of the logits finds it in ε/v, which is the same
    for all entries.
    """
    gradient = z.softmax(-1) - label_smoothing / len(z)
    gradient[y] -= 1 - label_smoothing
    return gradient

def test_plain_and_recorded():
    shapes = [(2, 8), (1, 9), (2, 8), (2, 8), (3, 5)]
    assert plain_and_recorded(shapes) == (3, 1)
    assert plain_and_recorded([]) == (0, 0) and plain_and_recorded(2*shapes) == (3, 3)

def test_slope():
    for smoothing in (0., 0.1, 0.9):
        z = torch.randn(9, dtype=torch.float64, requires_grad=True)
        loss = smoothed_loss(z[None, None], torch.tensor([[5]]), smoothing)
        [by_autograd] = torch.autograd.grad(loss, z)
        assert_close(slope(z.detach(), 5, smoothing), by_autograd, rtol=1e-12, atol=1e-12)
