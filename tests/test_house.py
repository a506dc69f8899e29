"The checkout keeps the house rules, and each rule catches a violation planted in a copy."
import json, shutil
from pathlib import Path
import pytest
import chapters, house

ROOT = Path(__file__).parent.parent

@pytest.mark.parametrize('rule', house.RULES, ids=lambda r: r.__name__)
def test_rule_is_kept(rule): assert rule(ROOT) == []

@pytest.fixture
def copy(tmp_path):
    for name in ('nbs', 'tests', 'transformer_nb'): shutil.copytree(ROOT/name, tmp_path/name, ignore=shutil.ignore_patterns('__pycache__', '.*'))
    for name in ('settings.ini', 'README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'LICENSE'): shutil.copy(ROOT/name, tmp_path)
    return tmp_path

def edit(root, name, change):
    "Apply `change` to the notebook as JSON"
    path = root/'nbs'/name
    nb = json.loads(path.read_text(encoding='utf8'))
    change(nb['cells'])
    path.write_text(json.dumps(nb), encoding='utf8')

def cell(source, **more): return dict(cell_type='code', id='planted', metadata={}, execution_count=None, outputs=[], source=source) | more

def plant(source, at=1, **more): return lambda cells: cells.insert(at, cell(source, **more))

def replace(path, old, new):
    text = path.read_text(encoding='utf8')
    assert old in text
    path.write_text(text.replace(old, new), encoding='utf8')

LONG = '#| exports\n' + '\n'.join(f'x{i} = {i}' for i in range(41))
ERROR = [dict(output_type='error', ename='E', evalue='', traceback=[])]
VIOLATIONS = [
    ('package_in_sync', lambda r: (r/'transformer_nb/core.py').write_text('changed by hand\n')),
    ('package_in_sync', lambda r: (r/'transformer_nb/left_behind.py').write_text('x = 1\n')),
    ('package_in_sync', lambda r: edit(r, '00_core.ipynb', plant('#| exports\ndef new(): pass', at=4))),
    ('notebooks_clean', lambda r: edit(r, '00_core.ipynb', lambda cells: cells[3].pop('id'))),
    ('notebooks_clean', lambda r: edit(r, '00_core.ipynb', plant('1', execution_count=7))),
    ('notebooks_clean', lambda r: edit(r, '00_core.ipynb', plant('1', metadata={'scrolled': True}))),
    ('one_module_each', lambda r: edit(r, '01_attention.ipynb', lambda cells: [c.update(source='#| default_exp core') for c in cells if 'default_exp' in ''.join(c['source'])])),
    ('imports_point_back', lambda r: edit(r, '01_attention.ipynb', plant('from transformer_nb.model import Transformer'))),
    ('cells_are_short', lambda r: edit(r, '00_core.ipynb', plant(LONG))),
    ('cells_are_short', lambda r: edit(r, '01_attention.ipynb', lambda cells: [plant(LONG[:-40])(cells) for _ in range(15)])),
    ('directives_lead', lambda r: edit(r, '00_core.ipynb', plant('x = 1\n#| export\ny = 2'))),
    ('no_star_imports', lambda r: edit(r, '00_core.ipynb', plant('#| export\nfrom math import *'))),
    ('claims_assert', lambda r: edit(r, '01_attention.ipynb', plant('#| claim C04\nprint(1)'))),
    ('errors_are_rare', lambda r: edit(r, '00_core.ipynb', lambda cells: [plant('1/0', outputs=ERROR)(cells) for _ in range(2)])),
    ('links_exist', lambda r: edit(r, '00_core.ipynb', lambda cells: cells.insert(1, dict(cell_type='markdown', id='p', metadata={}, source='[x](99_nothing.ipynb)')))),
    ('links_exist', lambda r: (r/'CHANGELOG.md').write_text('[x](docs/nothing.md)')),
    ('readme_is_fresh', lambda r: replace(r/'README.md', 'Run it', 'Run this')),
    ('scripts_exist', lambda r: replace(r/'settings.ini', 'translation:tnb_train', 'translation:tnb_trian')),
]

@pytest.mark.parametrize('name, violate', VIOLATIONS, ids=[f'{n}-{i}' for i, (n, _) in enumerate(VIOLATIONS)])
def test_violation_is_caught(copy, name, violate):
    rule = getattr(house, name)
    assert rule(copy) == []
    violate(copy)
    assert rule(copy)

def test_every_rule_has_a_violation(): assert {name for name, _ in VIOLATIONS} == {r.__name__ for r in house.RULES}

def stored(source, text): return chapters.nbformat.from_dict(dict(nbformat=4, nbformat_minor=5, metadata={}, cells=[
    cell(source, outputs=[dict(output_type='stream', name='stdout', text=text)])]))

@pytest.mark.parametrize('source, old, new, ok', [
    ('x', 'loss 1.00 at 5', 'loss 1.005 at 5', True), ('x', 'loss 1.00', 'loss 1.02', False), ('x', 'agrees', 'disagrees', False),
    ('x', '3 rows', '3 rows', True), ('x', '-1', '1', False), ('#| varies\nx', 'BLEU 80', 'BLEU 60', True), ('#| slow\nx', 'a', 'b', True)])
def test_stale_outputs_are_seen(source, old, new, ok):
    assert (chapters.differences(stored(source, old), stored(source, new)) == []) == ok

def test_missing_output_is_seen():
    fresh = stored('#| varies\nx', 'something')
    fresh.cells[0].outputs = []
    assert chapters.differences(stored('#| varies\nx', 'something'), fresh)

def test_failing_chapter_fails(tmp_path, monkeypatch, capsys):
    nb = chapters.nbformat.v4.new_notebook(cells=[chapters.nbformat.v4.new_code_cell('assert 1 + 1 == 3')])
    chapters.nbformat.write(nb, tmp_path/'01_wrong.ipynb')
    monkeypatch.setattr(chapters, 'NBS', tmp_path)
    with pytest.raises(SystemExit) as e: chapters.main([])
    assert e.value.code == 1 and 'AssertionError' in capsys.readouterr().out

def test_unknown_chapter_is_refused():
    with pytest.raises(SystemExit, match='no chapter'): chapters.main(['99'])
