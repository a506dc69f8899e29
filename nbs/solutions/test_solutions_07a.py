"Solutions of the exercises of chapter 07a, without a source"
import torch
from torch import nn
from transformer_nb.attention import N_IDS, held_out_loss, to_ids

def log_probability(model, sentence):
    """Exercise 2. The scores at each place are those of the next token, so the ids are
    shifted by one, as in training. The mean loss times the number of tokens is the same."""
    ids = to_ids([sentence])
    with torch.no_grad(): log_p = model(ids[:, :-1]).log_softmax(-1)
    return log_p.gather(2, ids[:, 1:, None]).sum().item()

def top_k(scores, k):
    """Exercise 3. Whatever is below the k-th largest score gets the probability 0, and the
    softmax divides the rest by its sum."""
    least = scores.topk(k).values[:, -1:]
    return scores.masked_fill(scores < least, -torch.inf).softmax(-1)

def test_log_probability():
    torch.manual_seed(0)
    model = nn.Embedding(N_IDS, N_IDS) # any scores of the next token
    for sentence in ('She is ill.', 'No!'):
        mean = held_out_loss(model, to_ids([sentence]))
        assert abs(log_probability(model, sentence) + mean * (len(sentence) + 1)) < 1e-3

def test_top_k():
    odds = top_k(torch.tensor([[1., 3., 2., 0.], [0., 0.5, 9., 1.]]), 2)
    assert (odds > 0).tolist() == [[False, True, True, False], [False, False, True, True]]
    assert torch.allclose(odds.sum(1), torch.ones(2))
    assert abs(odds[0, 1] / odds[0, 2] - torch.e) < 1e-4
