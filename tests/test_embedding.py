"Positions that are learned begin at the scale of the embeddings."
import pytest, torch
from transformer_nb.embedding import PositionalEncoding

def test_the_scale_of_learned_positions():
    torch.manual_seed(0)
    table = PositionalEncoding(64, 0., 512, 'learned').table
    assert table.std().item() == pytest.approx(64**-0.5, rel=0.02)
