"""Solutions of the exercises of chapter 06, each with the check that the chapter makes."""
from math import log
import pytest, torch
from torch import nn
from torch.testing import assert_close
from transformer_nb.optimizer import smoothed_loss

def mixed_loss(logits, labels, eps):
    "Exercise 2. The label gets 1 - ε of the weight, and every token an equal share of ε."
    losses = -logits.log_softmax(-1) # -ln p_k
    at_label = losses.gather(-1, labels[..., None])
    plain = at_label.squeeze(-1)
    mixed = (1 - eps)*plain + eps*losses.mean(-1)
    return mixed.sum()

def adam_step(theta, g, m, v, t, lr, beta_1=0.9, beta_2=0.98, eps=1e-9):
    "As the chapter writes it"
    m = beta_1*m + (1 - beta_1)*g
    v = beta_2*v + (1 - beta_2)*g**2
    m_hat = m / (1 - beta_1**t)
    v_hat = v / (1 - beta_2**t)
    theta = theta - lr * m_hat / (v_hat**0.5 + eps)
    return theta, m, v

def adamw_step(theta, g, m, v, t, lr, decay):
    """Exercise 3. Shrink, then step.

    Whatever is added to the gradient goes through the averages and is divided by √v: a
    parameter with large gradients would be pulled less toward zero than one with small
    gradients. Here both are pulled by the same share.
    """
    shrunk = theta * (1 - lr*decay)
    return adam_step(shrunk, g, m, v, t, lr)

def best_margin(eps, vocab_size):
    """Exercise 4. KL(q‖p) = −Σ q_k ln(p_k/q_k) ≥ −Σ q_k (p_k/q_k − 1) = −Σ p_k + Σ q_k = 0.

    ln x = x − 1 at x = 1 alone, so it is zero only where p_k = q_k for every k. The
    cross-entropy is KL + H(q), and H(q) does not depend on p.

    The scores are ln p_k up to a common number, and at the best p = q. So the margin is
    ln(q_right / q_other), with q_right = 1 − ε + ε/V and q_other = ε/V.
    """
    return log(1 + vocab_size * (1 - eps) / eps)

@pytest.mark.parametrize('eps', [0., 0.1, 0.5])
def test_mixed_loss(eps):
    logits, labels = torch.randn(2, 6, 11), torch.randint(4, 11, (2, 6))
    assert_close(mixed_loss(logits, labels, eps), smoothed_loss(logits, labels, eps))

def test_adamw_step():
    p = nn.Parameter(torch.randn(4, dtype=torch.float64))
    optimizer = torch.optim.AdamW(
        [p], lr=0.1, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.3)
    theta, m, v = p.detach().clone(), 0., 0.
    for t in range(1, 6):
        p.grad = torch.randn(4, dtype=torch.float64)
        theta, m, v = adamw_step(theta, p.grad, m, v, t, lr=0.1, decay=0.3)
        optimizer.step()
    assert_close(p.detach(), theta, rtol=1e-12, atol=1e-12)

@pytest.mark.parametrize('eps, vocab_size', [(0.1, 5), (0.1, 37_000), (0.3, 20)])
def test_best_margin(eps, vocab_size):
    def loss(margin):
        scores = torch.zeros(1, 1, vocab_size, dtype=torch.float64)
        scores[0, 0, 4] = margin
        return smoothed_loss(scores, torch.tensor([[4]]), eps).item()
    best = best_margin(eps, vocab_size)
    for other in (best - 0.1, best + 0.1): assert loss(best) < loss(other)
