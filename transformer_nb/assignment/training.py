"""Stage 7: the training loop

The copy task: the model repeats a sequence. "… the output embeddings are offset by one
position" (§3.1): what the decoder reads lags one token behind what it predicts.
"""
from collections.abc import Callable, Iterable
import torch
from torch import Tensor, nn
from optimizer import smoothed_loss

PAD, BOS, EOS = 0, 1, 2

def shifted(
    seqs: Tensor,                     # ids, padded at the end (b, t)
) -> tuple[Tensor, Tensor, Tensor]:   # source, target and labels (b, t + 1)
    """Source and labels: the sequence, then </s>, then padding.
    Target: <s>, then the sequence, then padding."""
    raise NotImplementedError

def copy_loss(
    model: nn.Module,  # called with source and target; returns logits
    seqs: Tensor,      # ids, padded at the end (b, t)
) -> Tensor:           # cross-entropy without smoothing, the mean over all tokens
    raise NotImplementedError

def train(
    model: nn.Module,                       # to be trained in place
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Tensor],              # of sequences, one for each step
    lr_of: Callable[[int], float],          # the learning rate of step 1, 2, 3, …
) -> list[float]:                           # the loss of every step
    raise NotImplementedError
