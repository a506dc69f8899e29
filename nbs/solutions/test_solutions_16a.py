"Solutions of the exercises of chapter 16a, each with the check that the chapter makes."
from pathlib import Path
import pytest, torch
from torch import Tensor
from torch.testing import assert_close
from transformer_nb.translation import Translator
from transformer_nb.studies.interventions import (
    Pair, Place, all_heads, effects, encode_runs, keep_right)

def needed(model, runs, places:list[Place])->Tensor: # of each place (places, n)
    """Exercise 2. What is missing when everything else is patched.

    For the article, head 4.4 is about as necessary as it is sufficient. Where two heads
    do the same thing and one of them is enough, this is smaller than the effect alone;
    where two are of use only together, it is larger.
    """
    others = [[p for p in places if p != place] for place in places]
    return 1 - effects(model, runs, others)

def my_pair()->Pair:
    "Exercise 3. What the woman does decides the verb, and nothing else differs."
    sources = ('A woman is sitting on the street.', 'A woman is standing on the street.')
    return Pair('sitting/standing', sources, 'Eine Frau', ('sitzt', 'steht'))

@pytest.fixture(scope='module')
def translator():
    folder = Path(__file__).parent.parent/'models/multi30k-en-de'
    translator = Translator(folder, torch.device('cpu'))
    translator.model.double()
    return translator

def test_needed(translator):
    sources = tuple(f'A man in a blue {noun} is smiling.' for noun in ('jacket', 'shirt'))
    pair = Pair('jacket/shirt', sources, 'Ein Mann in', ('einer', 'einem'))
    model, runs = translator.model, encode_runs(translator.tokenizer, [pair])
    cross_heads = [place for place in all_heads(model) if place.kind == 'cross']
    found = needed(model, runs, cross_heads)
    assert found.shape == (16, 1)
    assert_close(1 - found[0], effects(model, runs, [cross_heads[1:]])[0])
    assert found.argmax() == cross_heads.index(Place('cross', 3, head=3))

def test_my_pair(translator):
    assert keep_right(translator.model, translator.tokenizer, [my_pair()])
