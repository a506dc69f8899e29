"What the page says of heads is what chapter 16 measures."
import json
import pytest, torch
import notes
from transformer_nb.translation import Translator

@pytest.fixture(scope='module')
def heads():
    translator = Translator(notes.MODEL, torch.device('cpu'))
    translator.model.double()
    return {key: (name, measures) for key, name, measures in notes.measured(translator)}

def on_the_page():
    known = json.loads(notes.NOTES.read_text(encoding='utf8')).values()
    return {of['model']: of['heads'] for of in known}[notes.MODEL.name]

def test_classes_are_those_of_chapter_16(heads):
    assert {key: name for key, (name, _) in heads.items()} == {
        key: head['class'] for key, head in on_the_page().items()}
    assert all(head['letter'] == notes.LETTERS[head['class']]
               for head in on_the_page().values())

def test_notes_give_the_measures_of_chapter_16(heads):
    for key, (name, measures) in heads.items():
        kind = key.split('.')[0]
        described = f'{name}: {notes.describe(kind, name, measures)}. Without it, '
        assert on_the_page()[key]['note'].startswith(described)

@pytest.mark.parametrize('percent, said', [
    (0.04, 'stays as it is'), (-0.04, 'stays as it is'),
    (0.06, 'rises by 0.1%'), (-2.345, 'falls by 2.3%')])
def test_what_a_head_is_worth(percent, said): assert notes.change(percent) == said
