"Solutions of the exercises of chapter 05, the model"
import pytest, torch
from torch.testing import assert_close
from transformer_nb.core import set_seed
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.multihead import causal_mask

SMALL = TransformerConfig(vocab_size=20, d_model=16, d_ff=32, n_heads=4, n_encoder_layers=2, n_decoder_layers=3, dropout=0.)

def language_model(model, ids):
    """Exercise 1. An encoder layer has no bridge; only its mask kept it from being a decoder of one stack.

    What remains of the model is what is today called decoder-only: the encoder's layers under the decoder's mask.
    """
    x = model.tgt_positions(model.tgt_embedding(ids))
    return model.output.logits(model.encoder(x, causal_mask(ids.shape[1], ids.device)))

def kept_numbers(config, s, t):
    """Exercise 2. Each layer of the decoder keeps a key and a value per head for every source token (its attention to the
    memory) and for every target token written so far (its self-attention)."""
    c = config
    return c.n_decoder_layers * c.n_heads * (c.d_k + c.d_v) * (s + t)

def depends_on(model, src, tgt, i):
    """Exercise 3. A logit that a later input cannot reach has a gradient of exactly zero there: the masked weight is 0.

    One random mixture of the logits at position i serves for all of them; that a dependence cancels in it has
    probability zero.
    """
    kept = []
    def keep(module, args, output):
        output.retain_grad()
        kept.append(output)
    with model.tgt_positions.register_forward_hook(keep): logits = model(src, tgt)
    (logits[0, i] * torch.randn_like(logits[0, i])).sum().backward()
    return (kept[0].grad[0] != 0).any(-1)

def test_language_model():
    set_seed(0)
    model, ids = Transformer(SMALL).eval(), torch.randint(4, 20, (2, 8))
    logits = language_model(model, ids)
    assert logits.shape == (2, 8, 20)
    for j in range(1, 8):
        other = ids.clone()
        other[:, j:] = 4 + (other[:, j:] - 3) % 16
        changed = (language_model(model, other) != logits).any(-1)
        assert not changed[:, :j].any() and changed[:, j:].any(0).all()

@pytest.mark.parametrize('changes, s, t, numbers', [({}, 25, 25, 307_200), (dict(n_heads=1), 25, 25, 307_200)])
def test_kept_numbers(changes, s, t, numbers): assert kept_numbers(TransformerConfig.base(37_000, **changes), s, t) == numbers

def test_kept_numbers_by_looking():
    "Against the keys and values themselves, for d_k and d_v that differ"
    config = TransformerConfig.tiny(100, d_k=5, d_v=7, n_decoder_layers=3)
    model, memory, y = Transformer(config), torch.randn(1, 10, 128), torch.randn(1, 4, 128)
    found = [x for layer in model.decoder.layers for x in (*layer.cross_attention.keys_values(memory), *layer.self_attention.keys_values(y))]
    assert sum(x.numel() for x in found) == kept_numbers(config, 10, 4) == 2016

def test_depends_on():
    set_seed(0)
    model, src, tgt = Transformer(SMALL), torch.randint(4, 20, (1, 5)), torch.randint(4, 20, (1, 8))
    for i in range(8): assert_close(depends_on(model, src, tgt, i), torch.arange(8) <= i)
    assert not any(module._forward_hooks for module in model.modules())
