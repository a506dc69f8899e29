"""Solutions of the exercises of chapter 04, each with the check that the chapter makes."""
from math import pi
import pytest, torch
from torch.testing import assert_close
from transformer_nb.embedding import positional_encoding, rotate

def squared_distance(k, d):
    """Exercise 2. Every encoding has the squared length d/2, and the dot product of two is
    Σ_i (sin a_i sin b_i + cos a_i cos b_i) = Σ_i cos(a_i − b_i) = Σ_i cos ω_i k.

    So ‖PE_p − PE_{p+k}‖² = d/2 + d/2 − 2 Σ_i cos ω_i k, in which p does not occur.
    """
    omega = 10000**(-2*torch.arange(d // 2).double() / d)
    return d - 2*(omega * k).cos().sum().item()

def test_squared_distance():
    PE = positional_encoding(500, 64, torch.float64)
    for p, k in ((0, 1), (17, 1), (3, 40), (300, 40)):
        expected = (PE[p] - PE[p + k]).square().sum().item()
        assert abs(squared_distance(k, 64) - expected) < 1e-10

def position_of(encodings):
    """Exercise 3. The slowest pair: its angle is pos·ω, so pos is the angle divided by ω.

    It reaches one wavelength, 2π/ω positions; then the hand stands where it stood before.
    Any faster pair reaches less far.
    """
    d_model = encodings.shape[-1]
    omega = 10000**-((d_model - 2) / d_model)
    sine, cosine = encodings[..., -2], encodings[..., -1]
    angle = torch.atan2(sine, cosine) % (2*pi)
    return (angle / omega).round().long()

def shift_matrix(k, d_model):
    i = torch.arange(d_model // 2, dtype=torch.float64)
    turn = k / 10000**(2*i / d_model)
    upper = torch.stack([turn.cos(), turn.sin()], -1)
    lower = torch.stack([-turn.sin(), turn.cos()], -1)
    return torch.block_diag(*torch.stack([upper, lower], -2))

def turned(x, positions):
    """Exercise 4. `rotate` turns a pair one way and M_pos the other, so M_{-pos} is wanted,
    which is the transpose of M_pos.

    The other way gives the same scores: M_t q · M_s k = qᵀ M_tᵀ M_s k = qᵀ M_{s-t} k, and
    the offset alone counts, whichever way one counts it.
    """
    d_model = x.shape[-1]
    rows = [shift_matrix(-pos, d_model) @ row for row, pos in zip(x, positions)]
    return torch.stack(rows)

@pytest.mark.parametrize('d_model, n', [(2, 6), (4, 600), (64, 5000), (512, 60_000)])
def test_position_of(d_model, n):
    PE = positional_encoding(n, d_model, torch.float64)
    assert position_of(PE).tolist() == list(range(n))

def test_turned():
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 8, dtype=torch.float64)
    def score(t, s): return (turned(q, [t]) * turned(k, [s])).sum()
    assert_close(score(0, 0), (q * k).sum())
    for shift in (1, 10, 100):
        assert_close(score(3 + shift, 7 + shift), score(3, 7), rtol=1e-10, atol=1e-10)
    assert (score(3, 7) - score(7, 3)).abs() > 1e-3
    x, places = torch.randn(4, 8, dtype=torch.float64), [0, 1, 10, 100]
    assert_close(turned(x, places), rotate(x, torch.tensor(places)))

def test_shift_matrix():
    "It is the chapter's"
    PE = positional_encoding(50, 8, torch.float64)
    assert_close(PE[:-5] @ shift_matrix(5, 8).T, PE[5:])
