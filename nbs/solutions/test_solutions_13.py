"""Solutions of the exercises of chapter 13, each with the check that the chapter makes."""
import pytest, torch
from transformer_nb.core import BOS, EOS
from transformer_nb.data import pad
from transformer_nb.decoding import (Cache, greedy, length_penalty, next_logits,
                                     output_limits)
from transformer_nb.model import Transformer, TransformerConfig

@torch.no_grad()
def sample(model, src, temperature, generator):
    """Exercise 1. One line of the greedy loop changes: the next token is drawn.

    As the temperature goes to 0 the likeliest token takes all, which is greedy search.
    As it goes to infinity all tokens become equally likely, and the model no longer
    matters. Softmax shifts the logits, so none of them overflows.
    """
    limits = output_limits(model, src)
    cache = Cache(model, src, int(limits.max()))
    tokens = src.new_full((len(src),), BOS)
    going = torch.ones(len(src), dtype=torch.bool)
    chosen = []
    while going.any():
        logits = next_logits(model, tokens, cache)
        probabilities = (logits / temperature).softmax(-1)
        tokens = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
        chosen.append(tokens.where(going, EOS))
        going = going & (tokens != EOS) & (cache.n < limits)
    rows = torch.stack(chosen, 1).tolist()
    return [[t for t in row if t != EOS] for row in rows]

def best_reachable(log_prob, n, limit, alpha):
    """Exercise 2. Divide by the largest penalty that is still to come.

    Where the penalty grows with the length, it is that of the limit. With a negative α it
    falls, so the best case is to end at once, with `</s>` as token n + 1.
    """
    next_token, last_token = length_penalty(n + 1, alpha), length_penalty(limit, alpha)
    return log_prob / max(next_token, last_token)

def test_sample():
    torch.manual_seed(0)
    config = TransformerConfig.tiny(20, n_encoder_layers=1, n_decoder_layers=1, d_model=16,
                                    tie_embeddings=False, max_len=30)
    model = Transformer(config).double().eval()
    src = pad([[5, 6, 7, EOS], [8, EOS], [9, 9, EOS]])
    def draw(seed, temperature=1.):
        return sample(model, src, temperature, torch.Generator().manual_seed(seed))
    assert draw(0) == draw(0) != draw(1)
    assert draw(0, 1e-6) == greedy(model, src)
    first = {t for seed in range(40) for row in draw(seed, 1e6) for t in row[:1]}
    assert len(first) >= 15 # of 19: all tokens alike, and `</s>` leaves no first token

@pytest.mark.parametrize('alpha', [-1., -0.3, 0., 0.6, 2.])
def test_best_reachable(alpha):
    for n in (1, 5, 29):
        reachable = [-3. / length_penalty(m, alpha) for m in range(n + 1, 31)]
        assert abs(best_reachable(-3., n, 30, alpha) - max(reachable)) < 1e-12
