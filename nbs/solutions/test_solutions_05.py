"Solutions of the exercises of chapter 05, the model"
import pytest, torch
from torch import nn
from torch.nn import functional as F
from transformer_nb.support.core import set_seed
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.multihead import causal_mask, padding_mask
from transformer_nb.support.notebook import swap

SMALL = TransformerConfig(vocab_size=20, d_model=16, d_ff=32, n_heads=4, dropout=0.,
                          n_encoder_layers=2, n_decoder_layers=3)

def language_model(model, ids):
    """Exercise 2. An encoder layer has no bridge to another stack. All that kept it from
    being the layer of a language model was its mask.

    What remains of the model is what is today called decoder-only: the encoder's layers
    under the decoder's mask.
    """
    x = model.tgt_positions(model.tgt_embedding(ids))
    mask = causal_mask(ids.shape[1], ids.device)
    return model.output.logits(model.encoder(x, mask))

def kept_numbers(config, s, t):
    """Exercise 3. Each layer of the decoder keeps a key and a value per head for every
    source token (its attention to the memory) and for every target token written so far
    (its self-attention).
    """
    c = config
    per_token = c.n_decoder_layers * c.n_heads * (c.d_k + c.d_v)
    return per_token * (s + t)

def sees_the_future():
    """Exercise 4. Suppose that every vector entering a sub-layer of the decoder depends on
    inputs up to its own position only. The embedding and its position do.

    Self-attention under the causal mask mixes positions up to i, which depend on inputs up
    to i. Cross-attention takes its query from position i, and its keys and values from the
    source. The feed-forward network, dropout, norm and output map each work on position i
    alone, and so does the sum of the residual connection. So what leaves depends on inputs
    up to i only, and after the last sub-layer that is the claim. ∎

    (1) The proof never used the mask of the padding. (2) A norm over the sentence puts the
    mean of all positions, later ones too, into each of them. (3) Fewer positions are mixed,
    and none of them is later.
    """
    return False, True, False

def test_language_model():
    set_seed(0)
    model = Transformer(SMALL).eval()
    ids = torch.randint(4, 20, (2, 8))
    logits = language_model(model, ids)
    assert logits.shape == (2, 8, 20)
    for j in range(1, 8):
        other = ids.clone()
        other[:, j:] = 4 + (other[:, j:] - 3) % 16
        changed = (language_model(model, other) != logits).any(-1)
        assert not changed[:, :j].any()
        assert changed[:, j:].any(0).all()

@pytest.mark.parametrize('n_heads', [8, 1])
def test_kept_numbers(n_heads):
    assert kept_numbers(TransformerConfig.base(37_000, n_heads=n_heads), 25, 25) == 307_200

def test_kept_numbers_by_looking():
    "Against the keys and values themselves, for d_k and d_v that differ"
    config = TransformerConfig.tiny(100, d_k=5, d_v=7, n_decoder_layers=3)
    model, memory, y = Transformer(config), torch.randn(1, 10, 128), torch.randn(1, 4, 128)
    n_found = 0
    for layer in model.decoder.layers:
        _, *from_memory = layer.cross_attention.project(y, memory)
        _, *from_target = layer.self_attention.project(y, y)
        n_found += sum(x.numel() for x in from_memory + from_target)
    assert n_found == kept_numbers(config, 10, 4) == 2016

class SentenceNorm(nn.Module):
    def forward(self, x): return F.layer_norm(x, x.shape[1:])

def see_only_before(t, device=None):
    mask = torch.ones(t, t, dtype=torch.bool, device=device).tril(-1)
    mask[0, 0] = True
    return mask

def with_norm(norm):
    model = Transformer(SMALL)
    for layer in model.decoder.layers:
        for residual in layer.residuals: residual.norm = norm()
    return model

@torch.no_grad()
def sees_later_inputs(model):
    set_seed(0)
    src, tgt = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 8))
    other = tgt.clone()
    other[:, 4:] = 4 + (other[:, 4:] - 3) % 16
    changed = model(src, tgt) != model(src, other)
    return changed[:, :4].any().item()

def test_sees_the_future():
    without_padding, by_sentence, stricter = sees_the_future()
    with swap(padding_mask, lambda ids: torch.ones(1, 1, 1, ids.shape[1]).bool()):
        assert sees_later_inputs(Transformer(SMALL)) == without_padding
    assert sees_later_inputs(with_norm(SentenceNorm)) == by_sentence
    with swap(causal_mask, see_only_before):
        assert sees_later_inputs(Transformer(SMALL)) == stricter
