"""The stages of *Build it yourself*, in the order of their numbers"""
from .kit import Kit
from .table import FIRST, OPTIONAL, Stage
from .together import stage_9, together
from .writer import STAGE as writer

STAGES = [*FIRST, stage_9(''), *OPTIONAL, writer]

def with_kit(number:int, kit:Kit, own:bool=False, numbers:tuple=())->Stage:
    "A stage with the numbers of a key and of a text; stage 9 with the model of a kit"
    stages = together(kit.model) if own else [*FIRST, stage_9(kit.model), *OPTIONAL, writer]
    return next(x for x in stages if x.number == number).keyed(kit.key, numbers)
