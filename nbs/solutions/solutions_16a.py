"Solutions of the exercises of chapter 16a."
from torch import Tensor
from transformer_nb.studies.interventions import Pair, Place, effects

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
