"What `make check` runs: enough to see what else is stale, and few enough to wait for."
import copy, os, subprocess, sys
from functools import cache
from pathlib import Path
import nbformat, pytest
import book, check

ROOT = Path(__file__).parent.parent
MODULES = [path for path in book.chapters(ROOT) if book.module(path)]

@cache
def selected(*names, **options):
    selection = check.select(names, **options)
    tests = {path.stem for path in selection.tests}
    return {path.stem for path in selection.dependents}, tests, selection.smoke

@pytest.mark.parametrize('path', MODULES, ids=lambda path: path.stem)
def test_every_module_has_tests(path):
    dependents, tests, smoke = selected(f'nbs/{path.name}')
    tests = {name for name in tests if 'solutions' not in name}
    if path.stem != '09_grammar': assert tests # whose tests stand in the chapter
    assert smoke and all(name > path.stem for name in dependents)

@pytest.mark.parametrize('name, test', [
    ('transformer_nb/playground/page.js', 'test_playground'),
    ('transformer_nb/playground/engine.js', 'test_engine'),
    ('docs/pages.py', 'test_site'), ('docs/conf.py', 'test_site'),
    ('benchmarks/bench.py', 'test_performance'), ('tools/chapters.py', 'test_house'),
    ('nbs/results/sweep.jsonl', 'test_results'), ('tools/check.py', 'test_check'),
    ('nbs/models/multi30k-en-de/config.json', 'test_results'),
    ('nbs/03_layers.ipynb', 'test_oracles'), ('nbs/12_training.ipynb', 'test_training'),
    ('tests/test_text.py', 'test_text'),
    ('docs/pages.py', 'test_pages'), ('docs/teaching.py', 'test_teaching'),
    ('transformer_nb/playground/guess.js', 'test_guess'),
    ('benchmarks/runs.py', 'test_runs'), ('nbs/12_training.ipynb', 'test_recipe'),
    ('nbs/11_checkpoint.ipynb', 'test_commands'),
    ('nbs/04_embedding.ipynb', 'test_pretrained'), # by rotary positions
    ('nbs/05_model.ipynb', 'test_decoding'), ('nbs/06_optimizer.ipynb', 'test_since_2017'),
    ('nbs/15_translation.ipynb', 'test_commands'), ('conftest.py', 'test_house'),
    ('transformer_nb/assignment/attention.py', 'test_build')])
def test_what_is_no_chapter_has_tests(name, test): assert test in selected(name)[1]

def git(*args):
    done = subprocess.run(['git', *args], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines()

def selected_by_nothing(root, *names):
    "Tests that run when they themselves change, and not when what they test does"
    sources = [name for name in names if not check.is_test(name)]
    there = {path.stem for folder in ('tests', 'nbs/solutions')
             for path in (root/folder).glob('test_*.py')}
    return there - {path.stem for path in check.select(sources, root).tests}

def test_every_test_is_selected_by_something():
    assert selected_by_nothing(ROOT, *git('ls-files')) == set()

def test_a_new_test_is_named_until_something_selects_it(tmp_path, monkeypatch):
    (tmp_path/'tests').mkdir()
    for name in ('test_trial.py', 'test_pages.py'): (tmp_path/'tests'/name).touch()
    names = 'tests/test_trial.py', 'docs/pages.py', 'docs/trials.py'
    assert selected_by_nothing(tmp_path, *names) == {'test_trial'}
    monkeypatch.setitem(check.TESTS_OF, 'test_trial', 'docs/trial*')
    assert selected_by_nothing(tmp_path, *names) == set()
    monkeypatch.delitem(check.TESTS_OF, 'test_trial')
    assert selected_by_nothing(tmp_path, *names, 'tools/trial.py') == set() # by its name

OTHERS = ('tools/*.py', 'docs/*.py', 'benchmarks/*.py', 'conftest.py', 'pytest.ini',
          'transformer_nb/playground/*', 'transformer_nb/assignment/*', 'nbs/results/*')

@pytest.mark.parametrize('pattern', OTHERS)
def test_everything_beside_the_chapters_selects_tests(pattern):
    names = git('ls-files', pattern)
    assert names and [name for name in names if not selected(name)[1]] == []

def test_solutions_are_tested_with_their_chapter():
    assert 'test_solutions_07' in selected('nbs/07_copy_task.ipynb')[1]

def test_few_tests_for_any_chapter():
    "05 selected 961 tests once, since every file that imports the model was run"
    for path in MODULES: assert len(selected(f'nbs/{path.name}')[1]) <= 9, path.stem

@pytest.mark.parametrize('kind, is_exported, what', [
    ('markdown', False, 'prose'), ('code', False, 'code'), ('code', True, 'exports')])
def test_what_changed_in_a_chapter(kind, is_exported, what):
    notebook = book.read_notebook(ROOT/'nbs/05_model.ipynb')
    new = copy.deepcopy(notebook)
    place = next(cell.number for cell in book.cells_of(notebook, kind)
                 if cell.is_exported == is_exported)
    new['cells'][place]['source'].append('\n1')
    assert check.difference(notebook, new) == what

@pytest.mark.parametrize('name, smoke', [
    ('transformer_nb/playground/page.js', True), ('docs/pages.py', False),
    ('CHANGELOG.md', False)])
def test_a_few_tests_of_each_room_follow_the_package(name, smoke):
    assert selected(name)[2] == smoke

def test_prose_and_inner_code_change_nothing_elsewhere():
    for what in ('prose', 'code'):
        name = 'nbs/05_model.ipynb'
        selection = check.select([name], what=lambda path: what)
        assert check.stems(selection.changed) == ['05_model'] * (what == 'code')
        assert selection.dependents == [] and not selection.smoke
        assert check.stems(selection.tests) == [
            'test_solutions_05']
    assert 'test_readme' in selected('nbs/index.ipynb', what=lambda path: 'prose')[1]

def test_all_listed_tests_are_there():
    for name in check.TESTS_OF: assert (ROOT/f'tests/{name}.py').exists(), name

def chapter(folder, stem, *sources):
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder/'nbs'/f'{stem}.ipynb')

def test_dependents_of_dependents(tmp_path):
    (tmp_path/'nbs').mkdir()
    uses = 'from transformer_nb.{} import x'.format
    chapter(tmp_path, '02_a', '#| default_exp a')
    chapter(tmp_path, '04_b', '#| default_exp b', uses('a'))
    chapter(tmp_path, '08_c', '#| default_exp studies.c', uses('b'))
    chapter(tmp_path, '09_d', '#| default_exp d', 'import torch')
    chapter(tmp_path, '11_e', uses('studies.c'))
    chapter(tmp_path, '07_f', uses('a')) # takes a minute
    def dependents(name):
        return check.stems(check.select([f'nbs/{name}.ipynb'], tmp_path).dependents)
    assert dependents('02_a') == ['04_b', '08_c', '11_e']
    assert dependents('08_c') == ['11_e'] and dependents('11_e') == []

@pytest.mark.parametrize('part', [
    'house rules', 'chapters', 'every cell twice', 'a few tests of each room', None])
def test_one_part_that_fails_is_enough(part, monkeypatch):
    parts = []
    def run(what, *command):
        parts.append(what)
        return what == part
    monkeypatch.setattr(check, 'run', run)
    monkeypatch.setattr(check, 'is_quick', lambda path: True)
    monkeypatch.setattr(check, 'changed_files', lambda commit: ['nbs/01_attention.ipynb'])
    monkeypatch.setattr(check, 'what_changed', lambda path, commit: 'exports')
    problems = ['a long line'] * (part == 'house rules')
    monkeypatch.setattr(check, 'violations', lambda root: problems)
    with pytest.raises(SystemExit) as end: check.main()
    assert end.value.code == (part is not None) and part in [None, 'house rules', *parts]
    assert len(parts) == 4 # the others run all the same

def run(folder, *args):
    env = {k: v for k, v in os.environ.items() if k != 'IN_TEST'} # or no export is made
    env['PYTHONPATH'] = str(folder)
    return subprocess.run([sys.executable, *args], cwd=folder, capture_output=True,
                          text=True, env=env)
