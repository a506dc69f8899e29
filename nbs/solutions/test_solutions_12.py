"Solutions of the exercises of chapter 12, each with a check like the chapter's."
import torch
from transformer_nb.data import TokenBatches
from transformer_nb.model import Transformer, TransformerConfig
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

def test_agreement():
    torch.manual_seed(0)
    config = TransformerConfig(30, d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1,
                               n_decoder_layers=1, dropout=0.)
    model = Transformer(config)
    sentences = [torch.randint(4, 30, (5,)).tolist() for _ in range(400)]
    batches = list(TokenBatches([(s, s) for s in sentences], 60).epoch(0))
    a, b = batches[:16], batches[16:32]
    assert abs(agreement(model, a, a) - 1) < 1e-5
    assert agreement(model, a, b) > agreement(model, a[:1], b[:1])

def test_stopped_at():
    assert stopped_at([3., 2., 2., 2.5, 1.], 2) == 4
    assert stopped_at([3., 2., 2.5, 1.9, 2., 1.8], 2) is None
