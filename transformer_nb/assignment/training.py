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
    """Source and labels: the tokens of the sequence, then </s>, then its padding.
    Target: <s>, then the tokens, then padding."""
    raise NotImplementedError

def copy_loss(
    model: nn.Module,  # called with source and target; returns logits
    seqs: Tensor,      # ids, padded at the end (b, t)
) -> Tensor:           # cross-entropy without smoothing, the mean over all labels that are
                      # not padding; </s> counts
    raise NotImplementedError

def train(
    model: nn.Module,                       # trained in place, all its parts in training mode
    optimizer: torch.optim.Optimizer,
    batches: Iterable[Tensor],              # of sequences, one for each step
    lr_of: Callable[[int], float],          # the learning rate of step 1, 2, 3, …
) -> list[float]:                           # the loss of each step, before its update; gradients
                                            # from before do not count, none is clipped
    raise NotImplementedError
