"""Solutions of the exercises of chapter 21, each with the check that the chapter makes."""
from math import exp
from pathlib import Path
import pytest, torch
from torch import nn, tensor
from torch.nn import functional as F
from transformer_nb.checkpoint import load_model
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.model import TransformerConfig
from transformer_nb.studies.families import (
    MASK, DecoderOnly, EncoderOnly, OneStack, family_loss, next_token_loss)

MODELS = Path(__file__).parent.parent/'models/families'

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

def small(family):
    set_seed(0)
    config = TransformerConfig(20, d_model=16, d_ff=32, n_heads=2, n_encoder_layers=2)
    return family(config).eval()

def test_text_perplexity():
    model = small(DecoderOnly)
    for ids in ([7], [5, 6, 7, 8]):
        loss = family_loss(model, [([], ids)], next_token_loss)
        assert abs(text_perplexity(model, ids) / exp(loss) - 1) < 1e-5

@pytest.fixture(scope='module')
def readers():
    (captioner, bpe), (filler, _) = [
        load_model(MODELS/name, family=family)
        for name, family in (('decoder', DecoderOnly), ('encoder-long', EncoderOnly))]
    return captioner, filler, bpe

def test_order_matters(readers):
    captioner, _, bpe = readers
    forward = bpe.encode('A dog is running in the grass.')
    backward = bpe.encode('Grass the in running is dog a.')
    assert text_perplexity(captioner, backward) > text_perplexity(captioner, forward)

def test_window_mask():
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert window_mask(4, 2).int().tolist() == expected
    assert window_mask(5, 9).equal(torch.ones(5, 5).tril().bool())

class WindowDecoder(OneStack):
    def mask(self, ids): return window_mask(ids.shape[1], 3)

def test_window_reaches_further_with_every_layer():
    model = small(WindowDecoder)
    before, after = model(tensor([[5]*8])), model(tensor([[6] + [5]*7]))
    reached = (before != after)[0].any(-1)
    assert reached.int().tolist() == [1, 1, 1, 1, 1, 0, 0, 0]

class Neighbors(nn.Module): # as in the chapter
    def forward(self, ids):
        left = ids.roll(1)
        likely = F.one_hot((left + 1) % 20, 20)
        return likely * (5. + 5.*(left != MASK))[..., None]

def test_fill_surest_first():
    found = fill_surest_first(Neighbors(), [7, MASK, MASK, 12, MASK])
    assert found == [7, 8, 9, 12, 13]

def test_filled_captions(readers):
    _, filler, bpe = readers
    for n in (1, 4):
        ids = bpe.encode('A man is') + [MASK]*n + bpe.encode('.')
        filled = fill_surest_first(filler, ids)
        assert MASK not in filled and len(filled) == len(ids)
        given = [(i, j) for i, j in zip(ids, filled) if i != MASK]
        assert all(i == j for i, j in given)
