"The runner of the chapters sees what is stale, what fails, and what cannot run twice."
import nbformat
import pytest
import chapters

def cell(source, **more):
    return dict(cell_type='code', id='planted', metadata={}, execution_count=None,
                outputs=[], source=source) | more

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
