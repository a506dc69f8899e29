"""Solutions of the exercises of chapter 21a, each with the check that the chapter makes."""
from pathlib import Path
import pytest, torch
from torch import nn, tensor
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.support.core import set_seed
from transformer_nb.embedding import rotate
from transformer_nb.hub import WeightFile, alternate
from transformer_nb.model import TransformerConfig
from transformer_nb.studies.families import DecoderOnly
from transformer_nb.studies.pretrained import (
    _QWEN3, _QWEN3_PARTS, _qwen3_model, _qwen3_weights, empty_model)

def rotate_halves(x, angle):
    """Exercise 1. Two halves take the places of the even and the odd numbers.

    This is the one without a step of two: a vector is cut once, and put together once.
    """
    first, second = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first*cos - second*sin, first*sin + second*cos], -1)

def read_llama(folder, c):
    """Exercise 2. The same model without one field, the same names without two.

    `fill` sees to it that no tensor of the file is left over and none is missing.
    """
    parts = {theirs: ours for theirs, ours in _QWEN3_PARTS.items()
             if theirs not in ('self_attn.q_norm', 'self_attn.k_norm')}
    model = empty_model(folder, lambda c: _qwen3_model(c, qk_norm=False), c)
    file = WeightFile(folder)
    weights = _qwen3_weights(file, c['num_hidden_layers'], c['head_dim'], parts)
    file.fill(model, weights)
    return model

@torch.no_grad()
def surprises(model, ids):
    """Exercise 3. One pass predicts every token but the first.

    Their mean is the loss with which the model was trained, here of a single text.
    """
    logits = model(tensor([ids]))[0, :-1]
    return F.cross_entropy(logits, tensor(ids[1:]), reduction='none')

def test_rotate_halves():
    x, order = torch.randn(3, 7, 12, dtype=torch.float64), alternate(12)
    angle = torch.arange(7)[:, None] / 500**(torch.arange(6, dtype=torch.float64) / 6)
    found = rotate_halves(x, angle)[..., order]
    assert_close(found, rotate(x[..., order], base=500))

def test_read_llama(tmp_path):
    transformers = pytest.importorskip('transformers', reason='needs the extra `bench`')
    sizes = dict(vocab_size=90, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
                 num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                 tie_word_embeddings=True, head_dim=8, rms_norm_eps=1e-6)
    set_seed(1)
    theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval()
    for p in theirs.parameters(): nn.init.normal_(p, mean=float(p.dim() == 1), std=0.2)
    theirs.save_pretrained(tmp_path)
    ours = read_llama(Path(tmp_path), _QWEN3 | sizes | dict(rope_theta=1e4))
    ids = torch.randint(90, (2, 30))
    with torch.no_grad(): assert_close(ours(ids), theirs(ids).logits, atol=1e-4, rtol=0)

def test_surprises():
    set_seed(0)
    config = TransformerConfig(20, d_model=16, d_ff=32, n_heads=2, n_encoder_layers=2)
    model, ids = DecoderOnly(config).eval(), [4, 9, 9, 17, 5]
    with torch.no_grad(): log_probs = model(tensor([ids]))[0].log_softmax(-1)
    expected = [-log_probs[i, token] for i, token in enumerate(ids[1:])]
    assert_close(surprises(model, ids), torch.stack(expected))
