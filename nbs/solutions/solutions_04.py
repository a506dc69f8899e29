"""Solutions of the exercises of chapter 04."""
from math import pi
import torch

def squared_distance(k, d):
    """Exercise 2. Every encoding has the squared length d/2, and the dot product of two is
    Σ_i (sin a_i sin b_i + cos a_i cos b_i) = Σ_i cos(a_i − b_i) = Σ_i cos ω_i k.

    So ‖PE_p − PE_{p+k}‖² = d/2 + d/2 − 2 Σ_i cos ω_i k, in which p does not occur.
    """
    omega = 10000**(-2*torch.arange(d // 2).double() / d)
    return d - 2*(omega * k).cos().sum().item()

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

def turned(x, positions):
    """Exercise 4. `rotate` turns a pair one way and M_pos the other, so M_{-pos} is wanted,
    which is the transpose of M_pos.

    The other way gives the same scores: M_t q · M_s k = qᵀ M_tᵀ M_s k = qᵀ M_{s-t} k, and
    the offset alone counts, whichever way one counts it.
    """
    d_model = x.shape[-1]
    rows = [shift_matrix(-pos, d_model) @ row for row, pos in zip(x, positions)]
    return torch.stack(rows)
