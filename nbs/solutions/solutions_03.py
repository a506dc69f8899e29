"""Solutions of the exercises of chapter 03."""
import torch
from torch import nn
from transformer_nb.layers import FeedForward

def blind_directions(x):
    """Exercise 2. By b: J·1 = 0. By a, at a = 1: J·x = 0.

    So the gradient that a norm sends down is orthogonal to its input, which in a layer is
    the sum of x and the sub-layer's output, and has no mean: no step tries to make the
    sum longer, or to shift all of its components. (To the sub-layer's output alone, the
    gradient need not be orthogonal.)
    """
    return torch.stack([torch.ones_like(x), x])

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
