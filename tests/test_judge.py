"Everyday sentences are judged without the models' names."
import json
import pytest
import judge
from transformer_nb.support.core import InputError
from transformer_nb.corpora import everyday_sentences

class FakeTranslator:
    "The model in folder 'good' writes the first reference, every other its own name"
    def __init__(self, folder): self.folder = folder

    def translate(self, sources):
        known = {row['source']: row['references'][0] for row in everyday_sentences()}
        return [known[s] if self.folder == 'good' else self.folder for s in sources]

@pytest.fixture
def sheet(tmp_path, monkeypatch):
    monkeypatch.setattr(judge, 'Translator', FakeTranslator)
    models = dict(first='good', second='bad', twin='bad')
    judge.write_sheet('de-en', models, tmp_path)
    return tmp_path

def write_judgements(sheet, name, verdict, ids=None):
    "A judge who says the same of all translations that a reference equals, else *wrong*"
    rows = []
    for row in judge.read_lines(sheet/'sheet.jsonl'):
        for i, text in row['translations'].items():
            if ids is not None and i not in ids: continue
            right = text == row['references'][0]
            rows.append(dict(id=i, verdict=verdict if right else 'wrong'))
    judge.write_lines(sheet/name, rows)
    return sheet/name

def test_equal_translations_are_judged_once_and_no_model_is_named(sheet):
    text = (sheet/'sheet.jsonl').read_text(encoding='utf8')
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) == 100 and all(len(row['translations']) == 2 for row in rows)
    assert 'twin' not in text and 'models' not in text
    firsts = [next(iter(row['translations'].values())) for row in rows]
    assert 20 < firsts.count('bad') < 80 # no model stands always first
    key = json.loads((sheet/'key.json').read_bytes())
    wrote = sorted(map(tuple, key.values()))
    assert wrote == [('first',)] * 100 + [('second', 'twin')] * 100

def test_counts_are_of_models(sheet):
    judges = [write_judgements(sheet, name, 'right') for name in ('a', 'b')]
    rows, counts = judge.count(sheet, judges)
    assert counts == {('first', 'right'): 100, ('second', 'wrong'): 100,
                      ('twin', 'wrong'): 100}
    assert len(rows) == 200 and rows[0]['judges'] in (['right']*2, ['wrong']*2)

def test_a_third_judge_decides(sheet):
    judges = [write_judgements(sheet, 'a', 'right'),
              write_judgements(sheet, 'b', 'understandable')]
    with pytest.raises(InputError, match='needs a third'): judge.count(sheet, judges)
    third = write_judgements(sheet, 'c', 'understandable')
    _, counts = judge.count(sheet, [*judges, third])
    assert counts['first', 'understandable'] == 100

def test_judgements_are_checked(sheet):
    some = write_judgements(sheet, 'a', 'right', ids=['de-en-1a'])
    with pytest.raises(InputError, match='needs two judges'): judge.count(sheet, [some]*2)
    bad = write_judgements(sheet, 'b', 'fine')
    with pytest.raises(InputError, match="is 'fine'"): judge.count(sheet, [bad]*2)
