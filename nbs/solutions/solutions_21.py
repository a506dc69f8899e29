"""Solutions of the exercises of chapter 21."""
from math import exp
import torch
from torch import tensor
from transformer_nb.support.core import BOS, EOS
from transformer_nb.studies.families import MASK

@torch.no_grad()
def text_perplexity(model, ids):
    """Exercise 1. One pass gives all predictions.

    A caption read backward surprises the captioner far more than one read forward.
    """
    log_probs = model(tensor([[BOS] + ids])).log_softmax(-1)[0]
    labels = tensor(ids + [EOS])
    found = log_probs.gather(1, labels[:, None])
    return exp(-found.mean())

def window_mask(n, width):
    """Exercise 2. Causal, but not further back than the window.

    Each layer reaches width - 1 tokens further back: two layers of width 3, four tokens.
    """
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    return causal.triu(1 - width)

@torch.no_grad()
def fill_surest_first(model, ids):
    """Exercise 3. One gap at a time, the surest first.

    From gaps alone, the first tokens are the most common ones. The caption that grows
    around them is simple, and often repeats itself.
    """
    ids = list(ids)
    while MASK in ids:
        probs = model(tensor([ids + [EOS]]))[0, :-1].softmax(-1)
        best, tokens = probs[:, MASK + 1:].max(-1) # no special tokens
        is_gap = tensor(ids) == MASK
        place = int(best.masked_fill(~is_gap, -1.).argmax())
        ids[place] = int(tokens[place]) + MASK + 1
    return ids
