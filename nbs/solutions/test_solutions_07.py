"""Solutions of the exercises of chapter 07, each with the check that the chapter makes."""
from math import log
from unittest import mock
import pytest, torch
from transformer_nb.copy_task import N_SYMBOLS, copy_model, cross_weights, draw_sequences, exact_match, shifted, train_copy
from transformer_nb.core import BOS, EOS, PAD, set_seed
from transformer_nb.multihead import padding_mask

def shifted_backwards(seqs):
    """Exercise 1. Turn each row by what its length says, and leave the padding at the end.

    The map is the other diagonal, from the last symbol of the source to the first. The end is said last in both directions.
    """
    b, t = seqs.shape
    lengths = (seqs != PAD).sum(1, keepdim=True)
    back = lengths - 1 - torch.arange(t)                               # below 0 where there is padding
    turned = seqs.gather(1, back.clamp(min=0)).masked_fill(back < 0, PAD)
    return shifted(seqs)[0], *shifted(turned)[1:]

@torch.no_grad()
def greedy_until_end(model, src, steps):
    "Exercise 2. Remember which sequences have ended; they get padding, and when all have, leave the loop."
    memory, mask = model.encode(src), padding_mask(src)
    tgt = src.new_full((len(src), 1), BOS)
    ended = torch.zeros(len(src), dtype=torch.bool)
    for _ in range(steps):
        best = model.decode(tgt, memory, mask)[:, -1].argmax(-1).masked_fill(ended, PAD)
        tgt = torch.cat([tgt, best[:, None]], 1)
        ended |= best == EOS
        if ended.all(): break
    return tgt[:, 1:]

def orders(seqs):
    "As the chapter writes it"
    counts = torch.nn.functional.one_hot(seqs, 4 + N_SYMBOLS)[..., 4:].sum(1)
    return (torch.lgamma((seqs != PAD).sum(1) + 1.) - torch.lgamma(counts + 1.).sum(1)).exp()

def bag_floor(seqs):
    "Exercise 3. All orders of a bag are equally likely, so its order costs ln(orders) nats, spread over n + 1 labels."
    return (orders(seqs).log().sum() / ((seqs != PAD).sum() + len(seqs))).item()

def test_shifted_backwards():
    src, tgt, labels = shifted_backwards(torch.tensor([[7, 8, 9, PAD], [4, 5, 6, 7]]))
    assert src.tolist() == [[7, 8, 9, EOS, PAD], [4, 5, 6, 7, EOS]]
    assert tgt.tolist() == [[BOS, 9, 8, 7, PAD], [BOS, 7, 6, 5, 4]]
    assert labels.tolist() == [[9, 8, 7, EOS, PAD], [7, 6, 5, 4, EOS]]

@pytest.fixture(scope='module')
def backwards():
    set_seed(0)
    model = copy_model()
    with mock.patch('transformer_nb.copy_task.shifted', shifted_backwards): train_copy(model, 600, longest=6)
    return model

def test_says_it_backwards_along_the_other_diagonal(backwards):
    with mock.patch('transformer_nb.copy_task.shifted', shifted_backwards):
        assert exact_match(backwards, draw_sequences(200, held_out=True, longest=6)).float().mean() > 0.9
        looks_at = cross_weights(backwards, torch.tensor([[4, 11, 18, 5, 12, 19]]))[0].mean(0).argmax(-1)
    assert looks_at[:6].tolist() == [5, 4, 3, 2, 1, 0]

def test_greedy_until_end(backwards):
    seqs = torch.tensor([[7, 8, 9], [4, PAD, PAD], [9, 5, PAD]])
    src, _, labels = shifted_backwards(seqs)
    assert greedy_until_end(backwards.eval(), src, 50).tolist() == labels.tolist()

def test_bag_floor():
    assert bag_floor(torch.tensor([[4, 5]])) == pytest.approx(log(2)/3, abs=1e-6)
    assert bag_floor(torch.tensor([[7, 7], [8, PAD]])) == pytest.approx(0, abs=1e-6)
    assert bag_floor(torch.tensor([[4, 5, 6], [9, PAD, PAD]])) == pytest.approx(log(6)/6, abs=1e-6)
