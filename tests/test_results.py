"What is kept beside the chapters: one small trained model, and the reports of the runs that the book speaks of."
import json
from pathlib import Path
from transformer_nb.translation import Translator

ROOT = Path(__file__).parent.parent
MODEL = ROOT/'nbs/models/multi30k-en-de'

def read_jsonl(path): return [json.loads(line) for line in path.read_text(encoding='utf8').splitlines()]

def test_model_is_small_and_has_a_card():
    assert {p.name for p in MODEL.iterdir()} == {'README.md', 'config.json', 'metrics.jsonl', 'model.safetensors', 'tokenizer.json'}
    assert sum(p.stat().st_size for p in MODEL.iterdir()) <= 6e6
    card = (MODEL/'README.md').read_text(encoding='utf8')
    assert 'non-commercial' in card and 'Multi30k' in card and '@' not in card

def test_model_translates_captions():
    assert Translator(MODEL).translate(['Two dogs are playing in the snow.', '']) == ['Zwei Hunde spielen im Schnee.', '']

def test_reports_are_complete():
    rows = read_jsonl(ROOT/'nbs/results/translation.jsonl')
    assert len({row['row'] for row in rows}) == len(rows)
    for row in rows:
        assert row['command'].startswith('tnb_evaluate runs/') and row['sentences'] == 1000
        assert row['ci'][0] < row['bleu'] < row['ci'][1] and row['bleu'] <= row['bleu_lc'] and row['signatures']['bleu_moses_lc']

def test_first_page_has_the_scores_of_the_reports():
    readme = (ROOT/'README.md').read_text(encoding='utf8')
    for row in read_jsonl(ROOT/'nbs/results/translation.jsonl'):
        if row['row'].endswith('mean of 10, beam 5'):
            for name in ('bleu', 'bleu_moses_lc'): assert f'{row[name]:.1f}' in readme, (row['row'], name, row[name])
