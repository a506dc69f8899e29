"Solutions of the exercises of chapter 07a, without a source"
import torch

def top_k(scores, k):
    """Exercise 4. Whatever is below the k-th largest score gets the probability 0, and the
    softmax divides the rest by its sum."""
    least = scores.topk(k).values[:, -1:]
    return scores.masked_fill(scores < least, -torch.inf).softmax(-1)

def test_top_k():
    odds = top_k(torch.tensor([[1., 3., 2., 0.], [0., 0.5, 9., 1.]]), 2)
    assert (odds > 0).tolist() == [[False, True, True, False], [False, False, True, True]]
    assert torch.allclose(odds.sum(1), torch.ones(2))
    assert abs(odds[0, 1] / odds[0, 2] - torch.e) < 1e-4
