"What the page says of heads is what chapter 16 measures."
import json
import torch
import notes
from transformer_nb.translation import Translator

KNOWN = json.loads(notes.NOTES.read_text(encoding='utf8')).values()

def test_notes_give_the_measures_of_chapter_16():
    of = next(of for of in KNOWN if of['heads']) # the tool writes all of them
    pairs = notes.sentences(*notes.MODELS[of['model']])
    translator = Translator(notes.ROOT/'nbs/models'/of['model'], torch.device('cpu'))
    translator.model.double()
    measured = {key: (name, measures)
                for key, name, measures in notes.measured(translator, pairs)}
    assert measured.keys() == of['heads'].keys()
    for key, (name, measures) in measured.items():
        head, kind = of['heads'][key], key.split('.')[0]
        assert (head['class'], head['letter']) == (name, notes.LETTERS[name])
        described = f'{name}: {notes.describe(kind, name, measures)}. Without it, '
        assert head['note'].startswith(described)
