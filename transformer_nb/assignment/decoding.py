"""Stage 8: greedy and beam search (§6.1)

A model here has two methods, `encode(src)` and `decode(tgt, memory, memory_mask)`, as in
stage 5. It is in evaluation mode, and may be any model, not only yours: what `encode` gives,
with a row for each sentence, goes to `decode` as it is. The paper searches
with a beam of 4 and the length penalty of Wu et al. (2016),

    lp(Y) = ((5 + |Y|) / 6)^α, with α = 0.6,

where |Y| counts the tokens of an output, </s> included and <s> not.
"""
import torch
from torch import Tensor, nn
from attention import padding_mask

PAD, BOS, EOS = 0, 1, 2

def greedy(
    model: nn.Module,
    src: Tensor,       # ids (b, s), padded at the end
    max_steps: int,    # maximum number of tokens of an output, </s> included; at least 1
) -> list[list[int]]:  # ids of each output: without <s>, up to but not including the first
                       # </s>; all max_steps of them where none comes
    raise NotImplementedError

def length_penalty(
    n: int,        # tokens of an output, </s> included
    alpha: float,  # 0: no penalty
) -> float:
    raise NotImplementedError

def beam_search(
    model: nn.Module,
    src: Tensor,                # ids of one sentence (1, s), perhaps padded
    beam_size: int,             # k
    alpha: float,               # exponent of the length penalty
    max_steps: int,             # maximum number of tokens of an output, </s> included; ≥ 1
) -> tuple[list[int], float]:   # ids of the best output, without <s> and </s>; its score
    """Begin with one hypothesis, <s>. In each step keep, of all continuations of all live
    hypotheses, the k with the largest log-probability. Those among them that end with </s>
    are finished: set them aside, with the score log-probability / lp. The others live on;
    the next step keeps k again, however many have finished.
    The best finished hypothesis wins; where none has finished after `max_steps`, the best
    live one, and its score is log-probability / lp, too. Log-probabilities are natural
    logarithms, summed over the tokens that were chosen. (You may stop as soon as no live
    hypothesis can win any more. The beam may be wider than the vocabulary: then keep what
    there is. Nothing is asked where two are equally likely, or where a score is −∞.)"""
    raise NotImplementedError
