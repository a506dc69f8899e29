"""Solutions of the exercises of chapter 06."""
from math import log

def mixed_loss(logits, labels, eps):
    "Exercise 2. The label gets 1 - ε of the weight, and every token an equal share of ε."
    losses = -logits.log_softmax(-1) # -ln p_k
    at_label = losses.gather(-1, labels[..., None])
    plain = at_label.squeeze(-1)
    mixed = (1 - eps)*plain + eps*losses.mean(-1)
    return mixed.sum()

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
