"What is kept beside the chapters: one small trained model, and the reports of real runs."
import json
from dataclasses import asdict
from pathlib import Path
import pytest, yaml
from transformer_nb.checkpoint import load_model
from transformer_nb.translation import RunConfig, Translator

ROOT = Path(__file__).parent.parent
MODEL = ROOT/'nbs/models/multi30k-en-de'
RESULTS = ROOT/'nbs/results'

def read_jsonl(path):
    return [json.loads(line) for line in path.read_text(encoding='utf8').splitlines()]

def test_model_is_small_and_has_a_card():
    files = {path.name for path in MODEL.iterdir()}
    assert files == {'README.md', 'config.json', 'metrics.jsonl', 'model.safetensors',
                     'run.yaml', 'tokenizer.json'}
    assert sum(path.stat().st_size for path in MODEL.iterdir()) <= 6e6
    card = (MODEL/'README.md').read_text(encoding='utf8')
    assert 'non-commercial' in card and 'Multi30k' in card and '@' not in card

def test_model_translates_captions():
    texts = ['Two dogs are playing in the snow.', '']
    assert Translator(MODEL).translate(texts) == ['Zwei Hunde spielen im Schnee.', '']

def test_model_says_how_it_was_trained():
    about = json.loads((MODEL/'config.json').read_text(encoding='utf8'))['training']
    stored = yaml.safe_load((MODEL/'run.yaml').read_text(encoding='utf8'))
    run = RunConfig.from_dict(stored)
    model, _ = load_model(MODEL)
    assert about['config'] == stored
    for section, fields in run.to_dict().items(): # later fields have their defaults
        assert stored[section].items() <= fields.items()
    assert asdict(run.model) == asdict(model.config)
    data, *lines = read_jsonl(MODEL/'metrics.jsonl')
    assert about['data'] == data and about['result'] == lines[-1]
    assert all(line['lr'] <= run.training.lr for line in lines)

@pytest.mark.parametrize('name', ['ablations', 'families', 'head_roles', 'parsing',
                                  'path_lengths', 'since_2017', 'sweep', 'translation',
                                  'variations_ten'])
def test_every_result_names_its_commit(name):
    for row in read_jsonl(RESULTS/f'{name}.jsonl'):
        assert len(row['commit']) >= 7 and int(row['commit'], 16), row

def test_reports_are_complete():
    rows = read_jsonl(RESULTS/'translation.jsonl')
    assert len({row['row'] for row in rows}) == len(rows)
    for row in rows:
        low, high = row['ci']
        assert row['command'].startswith('tnb_evaluate runs/') and row['sentences'] == 1000
        assert low < row['bleu'] < high and row['bleu'] <= row['bleu_lc']
        assert row['signatures']['bleu_moses_lc']

def test_first_page_has_the_scores_of_the_reports():
    readme = (ROOT/'README.md').read_text(encoding='utf8')
    for row in read_jsonl(RESULTS/'translation.jsonl'):
        if not row['row'].endswith('mean of 10, beam 5'): continue
        for name in ('bleu', 'bleu_moses_lc'):
            assert f'{row[name]:.1f}' in readme, (row['row'], name, row[name])
