"""Solutions of the exercises of chapter 03, each with the check that the chapter makes."""
import pytest, torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.layers import FeedForward
from transformer_nb.multihead import MultiHeadAttention

def blind_directions(x):
    """Exercise 2. By b: J·1 = 0. By a, at a = 1: J·x = 0.

    So the gradient that a norm sends down is orthogonal to its input, which in a layer is
    the sum of x and the sub-layer's output, and has no mean: no step tries to make the
    sum longer, or to shift all of its components. (To the sub-layer's output alone, the
    gradient need not be orthogonal.)
    """
    return torch.stack([torch.ones_like(x), x])

def test_blind_directions():
    torch.manual_seed(0)
    x = torch.randn(8, dtype=torch.float64)
    def norm(x): return F.layer_norm(x, (8,), eps=0.)
    jacobian = torch.autograd.functional.jacobian(norm, x)
    moved = blind_directions(x) @ jacobian.T
    assert_close(moved, torch.zeros(2, 8, dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.linalg.matrix_rank(blind_directions(x)) == 2

@torch.no_grad()
def sorter():
    """Exercise 3. Two units carry the sum, a + b = relu(a + b) - relu(-a - b), and two the
    distance of a and b.

    The smaller number is half of sum minus distance, the larger half of sum plus distance.
    """
    ffn = FeedForward(2, 4)
    inner = torch.tensor([[1., 1.], [-1., -1.], [1., -1.], [-1., 1.]])
    outer = torch.tensor([[1., -1., -1., -1.], [1., -1., 1., 1.]]) / 2
    ffn.inner.weight.copy_(inner)
    ffn.inner.bias.zero_()
    ffn.outer.weight.copy_(outer)
    ffn.outer.bias.zero_()
    return ffn

def rms_norm(x, gain, eps=1e-5):
    """Exercise 4. The same as the layer normalization (without bias) for vectors whose mean
    is 0: their variance is the mean square."""
    mean_square = x.square().mean(-1, keepdim=True)
    return gain * x / (mean_square + eps).sqrt()

class GatedResidual(nn.Module):
    """Exercise 5. The gradient of alpha is the sub-layer's output, weighted by the gradient
    from above, so it does not vanish at alpha = 0. The gradient that goes into the
    sub-layer is multiplied by alpha, and does.
    """
    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, x, sublayer, *args, **kwargs):
        return x + self.alpha * sublayer(x, *args, **kwargs)

def test_sorter():
    torch.manual_seed(0)
    by_hand = torch.tensor([[3., 1.], [-2., 5.], [-1., -4.], [0., 0.]])
    for x in (by_hand, torch.randn(3, 50, 2)):
        assert_close(sorter()(x), x.sort(-1).values)

@pytest.mark.parametrize('d', [1, 8, 33])
def test_rms_norm(d):
    torch.manual_seed(0)
    x = torch.randn(2, 5, d, dtype=torch.float64)
    gain = torch.randn(d, dtype=torch.float64)
    assert_close(rms_norm(x, gain), F.rms_norm(x, (d,), gain, eps=1e-5))
    centered = x - x.mean(-1, keepdim=True)
    assert_close(rms_norm(centered, torch.ones_like(gain)), F.layer_norm(x, (d,)))

@pytest.mark.parametrize('sublayer', [FeedForward, MultiHeadAttention])
def test_gated_residual(sublayer):
    torch.manual_seed(0)
    f = FeedForward(8, 32) if sublayer is FeedForward else MultiHeadAttention(8, 2, 4, 4)
    f, gate = f.double(), GatedResidual().double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    assert_close(gate(x, f), x)
    gate(x, f).square().sum().backward()
    (alpha,) = gate.parameters()
    assert alpha.numel() == 1 and alpha.grad.abs() > 1e-3
    assert all((p.grad == 0).all() for p in f.parameters())
    with torch.no_grad(): alpha.fill_(1.)
    assert_close(gate(x, f), x + f(x))
