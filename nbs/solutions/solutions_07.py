"""Solutions of the exercises of chapter 07."""
import torch
from transformer_nb.copy_task import (
    copy_batch)
from transformer_nb.support.core import BOS, EOS, PAD
from transformer_nb.multihead import padding_mask

def reversed_batch(seqs):
    """Exercise 2. Turn each row by what its length says, and leave the padding at the end.

    The map is the other diagonal, from the last token of the source to the first. In both
    directions `</s>` is predicted last.
    """
    b, t = seqs.shape
    lengths = (seqs != PAD).sum(1, keepdim=True)
    from_the_end = lengths - 1 - torch.arange(t) # below 0 where there is padding
    turned = seqs.gather(1, from_the_end.clamp(min=0))
    turned = turned.masked_fill(from_the_end < 0, PAD)
    src, _, _ = copy_batch(seqs)
    _, tgt, labels = copy_batch(turned)
    return src, tgt, labels

@torch.no_grad()
def greedy_until_end(model, src, steps):
    """Exercise 3. Remember which sequences have ended. They get padding, and when all have
    ended, leave the loop.
    """
    memory = model.encode(src)
    memory_mask = padding_mask(src)
    tgt = src.new_full((len(src), 1), BOS)
    ended = torch.zeros(len(src), 1, dtype=torch.bool)
    for _ in range(steps):
        logits = model.decode(tgt, memory, memory_mask)
        best = logits[:, -1].argmax(-1, keepdim=True).masked_fill(ended, PAD)
        tgt = torch.cat([tgt, best], 1)
        ended |= best == EOS
        if ended.all(): break
    return tgt[:, 1:]

def bag_floor(seqs):
    """Exercise 4. All orders of a bag are equally likely, so its order costs ln(orders)
    nats, spread over n + 1 labels.
    """
    nats = orders(seqs).log().sum()
    n_labels = (seqs != PAD).sum() + len(seqs)
    return (nats / n_labels).item()

def misled():
    """Exercise 5. If one sequence has a probability above ½, all others together have less
    than ½, and so has each of them.

    Factors above ½ do not suffice, because their product may be small. Greedy decoding
    begins with a, whose continuations are undecided: 0.6 · 0.55 = 0.33. After b the model
    would have been certain: 0.4 · 1 = 0.4.
    """
    return 0.6, 0.55, 1.
