"""Stage 6: schedule and label smoothing (§5.3, §5.4)

"We used the Adam optimizer with β₁ = 0.9, β₂ = 0.98 and ε = 10⁻⁹. We varied the learning rate
over the course of training, according to the formula:"

    lrate = d_model^-0.5 · min(step_num^-0.5, step_num · warmup_steps^-1.5)

Label smoothing gives the right token the share 1 − ε, and spreads the share ε evenly over the
whole vocabulary, the right token and <pad> included.
"""
import torch
from torch import Tensor, nn

def paper_lr(
    step_num: int,  # counted from 1
    d_model: int,
    warmup_steps: int = 4000,
) -> float:         # the learning rate of that step
    raise NotImplementedError

def make_adam(model: nn.Module) -> torch.optim.Optimizer:
    "With the paper's constants; lr may be 0, as it is set before every step"
    raise NotImplementedError

def smoothed_loss(
    logits: Tensor,                 # (b, t, vocab_size)
    labels: Tensor,                 # (b, t); positions with the id 0 are padding: no loss
    label_smoothing: float = 0.1,   # ε
) -> Tensor:                        # cross-entropy, summed over all tokens, in nats
    raise NotImplementedError
