"Solutions of the exercises of chapter 11."
from torch.nn.functional import gelu
from transformer_nb.model import Transformer

def running_mean(mean, new, m):
    """Exercise 1.

    The parameters of n steps ago have the weight (1 - m) mⁿ, here 0.1 · 0.9¹⁰ = 0.035.
    """
    for name, w in new.items(): mean[name].lerp_(w, 1 - m)

def gelu_family():
    "Exercise 2."
    class GELUTransformer(Transformer):
        def __init__(self, config):
            super().__init__(config)
            for x in [x for x in self.modules() if hasattr(x, 'inner')]:
                x.forward = lambda y, own=x: own.outer(gelu(own.inner(y)))
    return GELUTransformer
