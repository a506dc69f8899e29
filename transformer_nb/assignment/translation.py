"""Stage 9: the book's weights

A model folder holds `config.json`, whose entry "model" has the fields of `TransformerConfig`
(and three more, which have the paper's values: norm, positions, tie_embeddings), and
`model.safetensors`, to be read by `safetensors.torch.load_file`. Its names are nearly those
of this kit:

    embeddings.0.weight                                here embedding.weight
    encoder.layers.0.self_attention.query.weight       here encoder.0.self_attention.…
    decoder.layers.3.residuals.2.norm.bias             here decoder.3.residuals.2.…

`Transformer` may come from the right version, whatever your `model.py` calls its parameters:
go by the names that its `state_dict()` has. The file holds parameters alone, so a table of
positions that a model keeps as a buffer is not in it. (If you load with `strict=False` for
that, a name that fits nothing is passed over without a word, too.) The file's numbers are in
half precision, and the model's should not be: copy them into its parameters, as
`load_state_dict` does.
"""
from pathlib import Path
import torch
from safetensors.torch import load_file
from config import TransformerConfig
from decoding import beam_search
from model import Transformer

PAD, BOS, EOS = 0, 1, 2

def load_model(folder: str | Path) -> Transformer:  # in evaluation mode, on the CPU
    raise NotImplementedError

def translate(
    model: Transformer,
    tokenizer,  # tokenizer.encode(text) gives ids without </s>, tokenizer.decode(ids) a text
    text: str,  # one sentence
) -> str:
    """By a beam of 4 with α = 0.6. The source ends with </s>; `max_steps` is the number of its
    tokens without </s>, plus 50."""
    raise NotImplementedError
