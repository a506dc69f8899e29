"The minutes that the front page and the chapters state are those counted"
import re, sys
import nbformat, pytest
from running import ROOT
sys.path.insert(0, str(ROOT/'tools'))
from book import cells, chapters
from minutes import is_line, minutes, sections, study

CHAPTERS = [path for path in chapters(ROOT) if path.stem != 'index']

def test_counts_what_a_first_reader_sees(tmp_path):
    new_markdown, new_code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    notebook = nbformat.v4.new_notebook(cells=[
        new_markdown('# Title\n\ntwo [words](and/no/address.md)'),
        new_code('import json\nX = 3'),                      # imports are folded
        new_code('#| exports\ndef f(x):\n\n    return x'),
        new_code('#| fold\nassert f(3) == 3'),
        new_code('#| echo: false\nprint(3)'),
        new_markdown('### Aside: more\n\none'),
        new_code('f(3)'),
        new_markdown('## Next\n\n```python\nf(4)\n```'),
        new_markdown('## Exercises\n\n### One\n\nthree')])
    path = tmp_path/'01_a.ipynb'
    nbformat.write(notebook, path)
    assert [tuple(section) for section in sections(path)] == [
        ('core', '# Title', 3, 2), ('asides', '### Aside: more', 3, 1),
        ('core', '## Next', 1, 1), ('exercises', '## Exercises', 1, 0),
        ('exercises', '### One', 2, 0)]
    assert minutes(path)['core'] == pytest.approx(4/200 + 3/15)

@pytest.mark.parametrize('path', CHAPTERS, ids=lambda path: path.stem)
def test_the_minutes_that_are_stated(path):
    "In the chapter and on the map: to two minutes, or 5% of a long chapter"
    counted = minutes(path)
    core, whole = counted['core'], counted['core'] + counted['asides']
    text = '\n'.join(cell.source for cell in cells(path, 'markdown'))
    stated = re.search(r'about (\d+) minutes(?:, with the asides (\d+))?', text)
    index = '\n'.join(cell.source for cell in cells(ROOT/'nbs/index.ipynb', 'markdown'))
    [row] = re.findall(rf'^\| \[[^|]*\({path.stem}\.ipynb\).*\| (\d+) \|$', index, re.M)
    advice = f'say {core:.0f} in the chapter and on the map; with the asides, {whole:.0f}'
    assert stated[1] == row, advice
    assert abs(int(row) - core) <= max(2, core/20), advice
    if stated[2]: assert abs(int(stated[2]) - whole) <= max(4, whole/20), advice

PART_I = [path for path in CHAPTERS if re.match(r'0[0-7]_|07a_', path.stem)]

@pytest.mark.parametrize('path', PART_I, ids=lambda path: path.stem)
def test_the_time_to_study_is_stated(path):
    "With a pencil and all the exercises, to ten percent"
    text = '\n'.join(cell.source for cell in cells(path, 'markdown'))
    [stated] = re.findall(r'To study it, with a pencil and all the exercises, takes '
                          r'about (\d+)\.', text)
    assert abs(int(stated) - study(path)) <= study(path) / 10, f'say {study(path):.0f}'

def test_part_one_can_be_read_in_two_hours_and_a_quarter():
    assert sum(minutes(path)['core'] for path in PART_I) <= 135

def test_the_line_takes_the_hours_that_are_stated():
    line = sum(minutes(path)['core'] for path in CHAPTERS if is_line(path))
    index = '\n'.join(cell.source for cell in cells(ROOT/'nbs/index.ipynb', 'markdown'))
    [hours] = re.findall(r'so the line takes about (\w+) hours', index)
    assert dict(eight=8, nine=9)[hours] - .5 < line/60 < dict(eight=8, nine=9)[hours] + .5

def test_studying_takes_a_pencil(tmp_path):
    new_markdown, new_code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    printed = nbformat.v4.new_output('stream', text='a\nb\nc\n')
    notebook = nbformat.v4.new_notebook(cells=[
        new_markdown('# Title\n\nSay $x$ and 3.\n\n$$y$$'),
        new_code('#| fold\nf(3)', outputs=[printed]),
        new_markdown('### Aside: more\n\n$$z$$'),
        new_markdown('## Exercises\n\n**1. Predict.** How?')])
    path = tmp_path/'01_a.ipynb'
    nbformat.write(notebook, path)
    # a formula, which is a symbol too; three symbols, two of them of numbers; an exercise
    more = study(path) - minutes(path)['core']
    assert more == pytest.approx(1 + 4/30 + 3/15 + 10)
