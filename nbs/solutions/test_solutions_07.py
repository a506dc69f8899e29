"""Solutions of the exercises of chapter 07, each with the check that the chapter makes."""
from math import log
import pytest, torch
from transformer_nb.copy_task import (
    N_TOKENS, copy_batch, copy_model, cross_weights, draw_sequences, exact_match,
    train_copy)
from transformer_nb.support.core import BOS, EOS, PAD, set_seed
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

def log_factorial(n): return torch.lgamma(n + 1.)

def orders(seqs):
    "As the chapter writes it"
    one_hot = torch.nn.functional.one_hot(seqs, 4 + N_TOKENS)
    counts = one_hot[..., 4:].sum(1)
    repetitions = log_factorial(counts).sum(1)
    return (log_factorial(counts.sum(1)) - repetitions).exp()

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

def test_reversed_batch():
    src, tgt, labels = reversed_batch(torch.tensor([[7, 8, 9, PAD], [4, 5, 6, 7]]))
    assert src.tolist() == [[7, 8, 9, EOS, PAD], [4, 5, 6, 7, EOS]]
    assert tgt.tolist() == [[BOS, 9, 8, 7, PAD], [BOS, 7, 6, 5, 4]]
    assert labels.tolist() == [[9, 8, 7, EOS, PAD], [7, 6, 5, 4, EOS]]

@pytest.fixture(scope='module')
def backwards():
    set_seed(0)
    model = copy_model()
    train_copy(model, 600, longest=6, task=reversed_batch)
    return model

def test_repeats_it_backwards_along_the_other_diagonal(backwards):
    test = draw_sequences(200, held_out=True, longest=6)
    right = exact_match(backwards, test, reversed_batch)
    tokens = torch.tensor([[4, 11, 18, 5, 12, 19]])
    weights = cross_weights(backwards, tokens, reversed_batch)
    assert right.float().mean() > 0.9
    looks_at = weights[0].mean(0).argmax(-1)
    assert looks_at[:6].tolist() == [5, 4, 3, 2, 1, 0]

def test_greedy_until_end(backwards):
    seqs = torch.tensor([[7, 8, 9], [4, PAD, PAD], [9, 5, PAD]])
    src, _, labels = reversed_batch(seqs)
    assert greedy_until_end(backwards.eval(), src, 50).tolist() == labels.tolist()

def test_bag_floor():
    two_orders = torch.tensor([[4, 5]])
    assert bag_floor(two_orders) == pytest.approx(log(2)/3, abs=1e-6)
    one_order_each = torch.tensor([[7, 7], [8, PAD]])
    assert bag_floor(one_order_each) == pytest.approx(0, abs=1e-6)
    six_orders_and_one = torch.tensor([[4, 5, 6], [9, PAD, PAD]])
    assert bag_floor(six_orders_and_one) == pytest.approx(log(6)/6, abs=1e-6)

def test_misled():
    first, after_a, after_b = misled()
    pairs = dict(aa=first*after_a, ab=first*(1 - after_a),
                 ba=(1 - first)*after_b, bb=(1 - first)*(1 - after_b))
    assert first > 0.5 and after_a > 0.5 and sum(pairs.values()) == pytest.approx(1)
    assert max(pairs, key=pairs.get)[0] == 'b'
