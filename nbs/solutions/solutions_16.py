"Solutions of the exercises of chapter 16."
import torch

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
