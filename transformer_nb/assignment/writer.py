"""Stage 12, optional: a model that writes (chapter 07a)

"… the decoder … generates an output sequence (y1, …, ym) of symbols one element at a time.
At each step the model is auto-regressive, consuming the previously generated symbols as
additional input when generating the next." Without a source, that is a language model.

Train one yourself, of any size and parts, by a script of your own, which may use the book:
`ladder_text()` of `transformer_nb.attention` gives ids for training and held-out ones, from 0
to 62. Two minutes are enough. This file may not import the book. Hand in the weights, too, as
`writer.safetensors` beside it (`safetensors.torch.save_file`, at most 64 MB).
"""
from pathlib import Path
import torch
from torch import Tensor, nn

PAD, BOS, EOS = 0, 1, 2

def load_writer(
    path: str | Path,  # of the weights
) -> nn.Module:        # called with ids (b, t), BOS first, it gives the scores of each next
                       # character (b, t, 63); in evaluation mode, with these weights
    raise NotImplementedError

def write(
    model: nn.Module,  # as above, and perhaps not yours
    ids: Tensor,       # BOS and what was begun (1, t)
    max_steps: int,    # maximum number of characters to write, at least 1
) -> list[int]:        # the likeliest next character (PAD and BOS, too), again and again, up to
                       # but not including EOS, and without what was begun
    raise NotImplementedError
