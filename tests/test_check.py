"What `make check` runs: enough to see what else is stale, and few enough to wait for."
import copy
from pathlib import Path
import nbformat, pytest
import book, check

ROOT = Path(__file__).parent.parent

@pytest.mark.parametrize('kind, is_exported, what', [
    ('markdown', False, 'prose'), ('code', False, 'code'), ('code', True, 'exports')])
def test_what_changed_in_a_chapter(kind, is_exported, what):
    notebook = book.read_notebook(ROOT/'nbs/05_model.ipynb')
    new = copy.deepcopy(notebook)
    place = next(cell.number for cell in book.cells_of(notebook, kind)
                 if cell.is_exported == is_exported)
    new['cells'][place]['source'].append('\n1')
    assert check.difference(notebook, new) == what

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
