"The checkout keeps the house rules, and each rule catches a violation planted in a copy."
import json, os, shutil, subprocess
from functools import cache
from pathlib import Path
import nbformat
import pytest
import chapters, figures, house

ROOT = Path(__file__).parent.parent
FOLDERS = ('nbs', 'tests', 'tools', 'docs', 'benchmarks', 'transformer_nb')
PLANT_IN = '09_grammar.ipynb'

@pytest.fixture(scope='module')
def clean(tmp_path_factory):
    root = tmp_path_factory.mktemp('checkout')
    left_out = shutil.ignore_patterns('__pycache__', '.*', '_build')
    for name in FOLDERS: shutil.copytree(ROOT/name, root/name, ignore=left_out)
    for path in ROOT.iterdir():
        if path.is_file() and path.name != '.git': shutil.copy2(path, root)
    return root

@pytest.fixture
def copy(clean):
    "A copy of the checkout, which afterwards gets back what a test changes"
    before = versions(clean)
    yield clean
    shutil.rmtree(clean/'.git', ignore_errors=True)
    for name, _ in before ^ versions(clean):
        (clean/name).unlink(missing_ok=True)
        if (ROOT/name).exists(): shutil.copy2(ROOT/name, clean/name)
    assert versions(clean) == before

@pytest.fixture(scope='module')
def is_kept(clean):
    "Does a rule find nothing in a copy in which nothing is planted yet?"
    return cache(lambda rule: rule(clean) == [])

@pytest.mark.parametrize('rule', house.RULES, ids=lambda r: r.__name__)
def test_rule_is_kept(rule, clean, is_kept): assert is_kept(rule), rule(clean)

def test_what_git_has_is_not_made(): assert house.what_is_made_stays_out(ROOT) == []

def versions(root):
    found = {path.relative_to(root): path.stat() for path in root.rglob('*')
             if path.is_file() and '.ruff_cache' not in path.parts}
    return {(name, (about.st_mtime_ns, about.st_size)) for name, about in found.items()}

def edit(root, name, change):
    "Apply `change` to the cells of a notebook"
    path = root/'nbs'/name
    notebook = json.loads(path.read_text(encoding='utf8'))
    change(notebook['cells'])
    path.write_text(json.dumps(notebook), encoding='utf8')

def cell(source, **more):
    return dict(cell_type='code', id='planted', metadata={}, execution_count=None,
                outputs=[], source=source) | more

def plant(source, name=PLANT_IN, at=1, n=1, **more):
    "A violation: n copies of a new cell in a chapter"
    def violate(root):
        new = [cell(source, **more)] * n
        edit(root, name, lambda cells: cells.__setitem__(slice(at, at), new))
    return violate

FOLDED = {'jp-MarkdownHeadingCollapsed': True}

def plant_text(source, **metadata): # a cell of Markdown
    new = dict(cell_type='markdown', id='planted', metadata=metadata, source=source)
    return lambda root: edit(root, PLANT_IN, lambda cells: cells.insert(1, new))

def swap_rows_of_the_map(root):
    name = 'nbs/index.ipynb'
    for old, new in (('02_multihead', '0x'), ('03_layers', '02_multihead'),
                     ('0x', '03_layers')):
        replace(name, f']({old}.ipynb)', f']({new}.ipynb)')(root)

def drop_id(root): edit(root, PLANT_IN, lambda cells: cells[3].pop('id'))

def export_elsewhere(root):
    def change(cells):
        for c in cells:
            if 'default_exp' in ''.join(c['source']): c['source'] = '#| default_exp core'
    edit(root, '01_attention.ipynb', change)

def export_to_the_library(root): # a study
    violate = replace('nbs/22_parsing.ipynb', 'default_exp studies.', 'default_exp ')
    violate(root)

def write(name, text): return lambda root: (root/name).write_text(text, encoding='utf8')

def replace(name, old, new):
    def violate(root):
        text = (root/name).read_text(encoding='utf8')
        assert old in text
        (root/name).write_text(text.replace(old, new), encoding='utf8')
    return violate

def append(*names_and_texts): # to scripts of the page
    def violate(root):
        for name, text in zip(names_and_texts[::2], names_and_texts[1::2]):
            with open(root/'transformer_nb/playground'/name, 'a', encoding='utf8') as f:
                f.write(text + '\n')
    return violate

def track_what_is_made(root):
    def git(*args): subprocess.run(['git', '-C', root, *args], check=True)
    git('init', '-q')
    git('add', 'setup.py')
    with open(root/'.git/info/exclude', 'a') as file: file.write('setup.py\n')

def crowd_the_package(root):
    "Many lines of ten operations: none breaks the limit of a line, all together the mean"
    crowded = 'x = 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1\n' * 3000
    with open(root/'transformer_nb/support/core.py', 'a') as f: f.write(crowded)

LONG = '#| exports\n' + '\n'.join(f'x{i} = {i}' for i in range(41))
ERROR = dict(output_type='error', ename='E', evalue='', traceback=[])
PRINTED = dict(output_type='stream', name='stdout', text='1')
SKIPPED = PRINTED | dict(text='skipped: a slow cell; set TNB_SLOW=1')
UNUSED = '__all__ = [' + ' '.join(f"'new{i}'," for i in range(50))
ATTENTION, IMPORT = '01_attention.ipynb', 'from transformer_nb.{} import x'
VIOLATIONS = [
    ('package_in_sync', plant('#| exports\ndef new(): pass', at=4)),
    ('what_is_made_stays_out', track_what_is_made),
    ('notebooks_clean', drop_id),
    ('notebooks_clean', plant('1', n=2)), # two cells with one id
    ('notebooks_clean', plant('1', execution_count=7)),
    ('notebooks_clean', plant('1', metadata={'scrolled': True})),
    ('asides_are_folded', plant_text('### Aside: more of it')),
    ('asides_are_folded', plant_text('First.\n\n### Aside: more of it', **FOLDED)),
    ('folds_agree', plant('#| fold\nprint(1)')),
    ('folds_agree', plant('1', metadata={'jupyter': {'source_hidden': True}})),
    ('one_module_each', export_elsewhere),
    ('every_name_has_one_home', plant('#| exports\ndef set_seed(): pass', ATTENTION)),
    ('every_name_has_one_home',
     plant('#| exports\n@cache\ndef set_seed(): pass', ATTENTION)),
    ('patches_are_declared',
     plant('#| export\n@patch\ndef x(self:Checkpoints): 1', '11_checkpoint.ipynb', at=-1)),
    ('patches_are_declared',
     replace('nbs/11_checkpoint.ipynb', 'intact:Callable', 'other:Callable')),
    ('exports_are_used', replace('transformer_nb/support/core.py', '__all__ = [', UNUSED)),
    ('imports_point_back', plant(IMPORT.format('model'), ATTENTION)),
    ('imports_point_back', plant(IMPORT.format('corpora'), '10_data.ipynb')),
    ('one_module_each', export_to_the_library),
    ('the_library_needs_no_study',
     plant('from transformer_nb.studies import parsing', '15_translation.ipynb')),
    ('the_library_needs_no_study', plant(IMPORT.format('studies.parsing'), ATTENTION)),
    ('the_library_needs_no_study', plant(IMPORT.format('grading.stages'), ATTENTION)),
    ('private_names_stay_at_home',
     plant('from transformer_nb.model import (\n    x, _hidden)', '15_translation.ipynb')),
    ('private_names_stay_at_home',
     plant('from transformer_nb.text import top_tokens', '15_translation.ipynb')),
    ('the_library_speaks_of_fields',
     replace('transformer_nb/training.py', 'go on with `resume`', 'go on with --resume')),
    ('speed_has_its_room', plant(IMPORT.format('fast'), '13_decoding.ipynb')),
    ('speed_has_its_room', plant(IMPORT.format('fast'), '14_evaluation.ipynb')),
    ('drawing_is_imported_late', plant('#| export\nimport matplotlib.pyplot as plt')),
    ('drawing_is_imported_late', plant('#| export\ndef f():\n    import matplotlib')),
    ('cells_are_short', plant(LONG)),
    ('cells_are_short', plant('#| exports\n' + 'x = 1\n' * 30, ATTENTION, n=15)),
    ('directives_lead', plant('x = 1\n#| export\ny = 2')),
    ('names_come_first', plant('#| slow\n[set_seed(i) for i in range(3)]')),
    ('names_come_first', plant('#| slow\nclass Late:\n    x = set_seed(1)')),
    ('no_star_imports', plant('#| export\nfrom math import *')),
    ('claims_assert', plant('#| claim C04\nprint(1)')),
    ('errors_are_rare', plant('1/0', n=2, outputs=[ERROR])),
    ('stored_runs_name_their_commit', plant('#| slow\nprint(1)', outputs=[PRINTED])),
    ('stored_runs_name_their_commit',
     plant('#| slow\n#| commit 365efc8\n1', outputs=[SKIPPED])),
    ('stored_runs_name_their_commit', write('nbs/results/sweep.jsonl', '{"row": "x"}\n')),
    ('stored_outputs_are_of_this_code',
     plant("#| slow\n#| commit 365efc8\nprint(f'{1} steps')", outputs=[PRINTED])),
    ('lines_carry_one_thought', plant('x = ' + ' ' * 90 + '1')),
    ('lines_carry_one_thought', plant('x = ' + '-' * 11 + '1')),
    ('lines_carry_one_thought', write('tests/test_new.py', 'x = ' + '-' * 11 + '1')),
    ('lines_carry_one_thought', crowd_the_package),
    ('tests_leave_nothing_to_chance', write('tests/test_new.py', f'x = Random{()}')),
    ('tests_leave_nothing_to_chance',
     write('nbs/solutions/test_new.py', f'x = np.random.default_rng{()}')),
    ('tests_leave_nothing_to_chance', write('tests/test_new.py', 'p.chromium' '.launch()')),
    ('tests_leave_nothing_to_chance', replace('conftest.py', '(autouse=True)', '')),
    ('tests_leave_nothing_to_chance', replace('conftest.py', 'random-seed', 'seed')),
    ('scripts_carry_one_thought', append('lines.js', f'// {"x" * 90}')),
    ('scripts_carry_one_thought', append('lines.js', f'`${{{"x + " * 11}x}}`')),
    ('scripts_carry_one_thought',
     append('lines.js', 'function long() {' + '\n  go()' * 40 + '\n}')),
    ('scripts_import_what_is_there',
     append('dom.js', "import {nothing} from './words.js'\nnothing()")),
    ('scripts_import_what_is_there',
     append('lines.js', "import {fixed} from './words.js'")),
    ('scripts_import_what_is_there',
     append('words.js', "import {$} from './dom.js'\n$()", 'dom.js',
            "import {sum} from './words.js'\nsum()")),
    ('ruff_is_silent', write('tests/test_new.py', 'import os\n')),
    ('ruff_is_silent', plant('import colorsys', ATTENTION)),
    ('shown_code_fits', plant_text(f'```sh\n{"x" * 93}\n```')),
    ('shown_code_fits', write('nbs/models/new.md', f'```\n{"x" * 93}\n```\n')),
    ('links_exist', plant_text('[x](99_nothing.ipynb)')),
    ('links_exist', write('CHANGELOG.md', '[x](docs/nothing.md)')),
    ('links_exist', write('nbs/results/new.md', '[x](nothing.jsonl)')),
    ('figures_are_numbered', plant_text('*Figure: without a number.*')),
    ('figures_are_numbered', plant_text('Figure 0a.1 shows more.')),
    ('figures_are_numbered', # two captions changed places
     replace('nbs/12_training.ipynb', '*Figure 12.2:', '*Figure 12.3:')),
    ('made_files_are_fresh', replace('README.md', 'Run it', 'Run this')),
    ('made_files_are_fresh', replace('settings.ini', 'user =', 'user = someone')),
    ('scripts_exist', replace('settings.ini', 'commands:tnb_train', 'commands:tnb_trian')),
    ('every_chapter_is_on_the_map', lambda root: (root/'nbs/01_attention.ipynb').unlink()),
    ('every_chapter_is_on_the_map', swap_rows_of_the_map),
    ('next_follows_the_line', # as chapter 08 did
     replace('nbs/08_text.ipynb', '[chapter 10](10_data.ipynb)', '[9](09_grammar.ipynb)')),
    ('next_follows_the_line', replace('nbs/10_data.ipynb', 'A workshop chapter', 'See')),
    ('headings_are_judged', # a verdict that nobody reached
     replace('nbs/18_variations.ipynb', '### Learned positions: open',
             '### Learned positions are no worse')),
    ('headings_are_judged', replace('docs/headings.md', 'A parser learns', 'A parser')),
]
NAMES = [f'{name}-{i}' for i, (name, _) in enumerate(VIOLATIONS)]

@pytest.mark.parametrize('name, violate', VIOLATIONS, ids=NAMES)
def test_violation_is_caught(copy, is_kept, name, violate):
    rule = getattr(house, name)
    assert is_kept(rule)
    violate(copy)
    assert rule(copy)

def test_every_rule_has_a_violation():
    assert {name for name, _ in VIOLATIONS} == {rule.__name__ for rule in house.RULES}

def test_a_new_figure_gets_its_number_and_references_follow(copy):
    plant_text('See Figure 12.3.')(copy)
    new = dict(cell_type='markdown', id='new', metadata={}, source='*Figure: new.*')
    edit(copy, '12_training.ipynb', lambda cells: cells.insert(1, new))
    names = [path.name for path in figures.renumber(copy)]
    assert PLANT_IN in names and '12_training.ipynb' in names
    assert figures.stored(copy/'nbs/12_training.ipynb')[:2] == ['12.1', '12.2']
    assert 'See Figure 12.4.' in (copy/'nbs'/PLANT_IN).read_text(encoding='utf8')
    assert house.figures_are_numbered(copy) == [] and figures.renumber(copy) == []

# The runner of the chapters

def stored(source, text):
    outputs = [dict(output_type='stream', name='stdout', text=text)]
    return nbformat.from_dict(dict(nbformat=4, nbformat_minor=5, metadata={},
                                   cells=[cell(source, outputs=outputs)]))

@pytest.mark.parametrize('source, old, new, ok', [
    ('x', 'loss 1.00 at 5', 'loss 1.005 at 5', True),
    ('x', 'loss 1.00', 'loss 1.02', False),
    ('x', 'agrees', 'disagrees', False),
    ('x', '3 rows', '3 rows', True),
    ('x', '-1', '1', False),
    ('#| varies\nx', 'BLEU 80', 'BLEU 60', True),
    ('#| slow\nx', 'a', 'b', True)])
def test_stale_outputs_are_seen(source, old, new, ok):
    found = chapters.differences(stored(source, old), stored(source, new))
    assert (found == []) == ok

@pytest.mark.parametrize('kind', ['text/markdown', 'text/html', 'text/plain'])
def test_a_stale_table_is_seen(kind):
    "Of what Jupyter shows, the plain text of a table says only that there is one"
    def shown(text):
        data = {'text/plain': '<a table>', kind: text}
        outputs = [dict(output_type='display_data', data=data, metadata={})]
        cells = [cell('x', outputs=outputs)]
        return nbformat.from_dict(dict(nbformat=4, nbformat_minor=5, metadata={},
                                       cells=cells))
    assert chapters.differences(shown('| base |'), shown('| big |'))
    assert chapters.differences(shown('| base |'), shown('| base |')) == []

def test_missing_output_is_seen():
    was, now = stored('#| varies\nx', 'something'), stored('#| varies\nx', 'something')
    now.cells[0].outputs = []
    assert chapters.differences(was, now)

@pytest.fixture
def book_of(tmp_path, monkeypatch):
    "Makes a book of one chapter"
    def make(*sources):
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        notebook = nbformat.v4.new_notebook(cells=cells)
        nbformat.write(notebook, tmp_path/'01_wrong.ipynb')
        monkeypatch.setattr(chapters, 'NBS', tmp_path)
    return make

def run(*args):
    with pytest.raises(SystemExit) as end: chapters.main([], *args)
    return end.value.code

def test_failing_chapter_fails(book_of, capsys):
    book_of('assert 1 + 1 == 3')
    assert run() == 1 and 'AssertionError' in capsys.readouterr().out

def test_a_cell_that_cannot_run_twice_is_seen(book_of, capsys):
    book_of('x = [1]', 'x.pop()')
    assert run(chapters.execute_twice) == 1 and 'IndexError' in capsys.readouterr().out

def test_a_chapter_has_a_process_of_its_own(tmp_path, monkeypatch):
    "Nothing of another chapter is left in it, and it ends"
    for i in range(3):
        cell = f"""import math, os, pathlib
assert math.pi > 3
math.pi = 3
_ = pathlib.Path({str(tmp_path/f'pid{i}')!r}).write_text(str(os.getpid()))"""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
        nbformat.write(notebook, tmp_path/f'0{i}_chapter.ipynb')
    monkeypatch.setattr(chapters, 'NBS', tmp_path)
    assert run() == 0
    ids = {int(path.read_text()) for path in tmp_path.glob('pid*')}
    assert len(ids) == 3
    for process in ids:
        with pytest.raises(ProcessLookupError): os.kill(process, 0)

def test_unknown_chapter_is_refused():
    with pytest.raises(SystemExit, match='no chapter'): chapters.main(['99'])
