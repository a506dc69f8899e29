"Solutions of the exercises of chapter 12."
import torch
from transformer_nb.training import accumulate_gradients

def agreement(model, a, b):
    """Exercise 1.

    A gradient of n batches is the true one plus noise that shrinks like 1/√n. While the
    noise is the larger part, the cosine of two independent gradients grows in
    proportion to n. Once the signal dominates, it comes near 1, and a larger batch buys
    little.
    """
    def gradient(batches):
        model.zero_grad()
        accumulate_gradients(model, batches)
        return torch.cat([p.grad.flatten() for p in model.parameters()])
    return torch.cosine_similarity(gradient(a), gradient(b), dim=0).item()

def stopped_at(losses, patience):
    "Exercise 2."
    best, evals_since_best = float('inf'), 0
    for n, loss in enumerate(losses, 1):
        evals_since_best += 1
        if loss < best: best, evals_since_best = loss, 0
        if evals_since_best == patience: return n
