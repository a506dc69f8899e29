"Solutions of the exercises of chapter 11, each with the check that the chapter makes."
import torch
from transformer_nb.checkpoint import load_verified, save_verified

def running_mean(mean, new, m):
    """Exercise 1.

    The parameters of n steps ago have the weight (1 - m) mⁿ, here 0.1 · 0.9¹⁰ = 0.035.
    """
    for name, w in new.items(): mean[name].lerp_(w, 1 - m)

def movement(a, b):
    "Exercise 2."
    old, _ = load_verified(a)
    new, _ = load_verified(b)
    moved = {}
    for name, w in old.items():
        distance = (new[name] - w).norm()
        moved[name] = (distance / w.norm()).item()
    return moved

def test_running_mean():
    mean = {'w': torch.zeros(3)}
    for n in (1., 2.): running_mean(mean, {'w': torch.full((3,), n)}, m=0.9)
    torch.testing.assert_close(mean['w'], torch.full((3,), 0.29))

def test_movement(tmp_path):
    for name, n in (('a', 1.), ('b', 1.5)):
        weights = dict(w=torch.full((4,), n))
        (tmp_path/name).write_bytes(save_verified(weights, {}))
    assert movement(tmp_path/'a', tmp_path/'b') == dict(w=0.5)
