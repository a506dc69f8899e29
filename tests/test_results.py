"What is kept beside the chapters: four small trained models, and the reports of real runs."
import json
from pathlib import Path
import pytest
from transformer_nb.translation import Translator

ROOT = Path(__file__).parent.parent
CAPTIONS = [ROOT/'nbs/models/multi30k-en-de', ROOT/'nbs/models/multi30k-de-en']
EVERYDAY = [ROOT/'nbs/models/everyday-en-de', ROOT/'nbs/models/everyday-de-en']
RESULTS = ROOT/'nbs/results'

def read_jsonl(path):
    return [json.loads(line) for line in path.read_text(encoding='utf8').splitlines()]

all_models = pytest.mark.parametrize('model', CAPTIONS + EVERYDAY, ids=lambda f: f.name)

@all_models
def test_model_is_small_and_has_a_card(model):
    files = {path.name for path in model.iterdir()}
    assert files == {'README.md', 'config.json', 'metrics.jsonl', 'model.safetensors',
                     'run.yaml', 'tokenizer.json'}
    assert sum(path.stat().st_size for path in model.iterdir()) <= 6.5e6
    card = (model/'README.md').read_text(encoding='utf8')
    terms = 'CC BY 2.0 FR', 'Tatoeba', 'any purpose'
    if model in CAPTIONS: terms = 'non-commercial', 'Multi30k'
    assert all(words in card for words in terms) and '@' not in card
    if model in EVERYDAY: assert 'Multi30k' not in card

@pytest.mark.parametrize('model, text, translation', [
    (CAPTIONS[0], 'Two dogs are playing in the snow.', 'Zwei Hunde spielen im Schnee.'),
    (CAPTIONS[1], 'Zwei Hunde spielen im Schnee.', 'Two dogs play in the snow.'),
    (EVERYDAY[0], 'I love you.', 'Ich liebe dich.'),
    (EVERYDAY[1], 'Ich liebe dich.', 'I love you.')])
@pytest.mark.smoke
def test_model_translates(model, text, translation):
    assert Translator(model).translate([text, '']) == [translation, '']

def judgements(model): # of what the model of the book wrote
    direction = model.name.removeprefix('everyday-')
    rows = [row for row in read_jsonl(RESULTS/'everyday.jsonl')
            if row['direction'] == direction and 'second' in row['models']]
    assert len(rows) == 100
    return rows

@pytest.mark.parametrize('model', EVERYDAY, ids=lambda folder: folder.name)
def test_what_was_judged_is_what_the_model_writes(model):
    rows = judgements(model)
    sources = [row['source'] for row in rows]
    assert Translator(model).translate(sources) == [row['translation'] for row in rows]
