"""What `docs/pages.py` makes of chapters and results, function by function. `test_site.py`
looks at the built site, which is well-formed even where a page says something wrong."""
import io, re
from pathlib import Path
from types import SimpleNamespace
import matplotlib.pyplot as plt
import pages, pytest
from alternative import alternative
from book import cells, chapters

ROOT = Path(__file__).parent.parent

def book_of(root=ROOT, **fields):
    "A book of one chapter, whose text has nothing to link"
    made = dict(root=root, title={'07_x': '07 Title'}, cells={'07_x': []}, quotes={},
                questions=[], linked=lambda text, chapter: text)
    return SimpleNamespace(**made | fields)

def test_an_aside_ends_before_the_next_heading():
    asides = pages.Asides()
    cells = ['### Aside: one\n\nText.', 'More of it.', '## Next\n\nMore.',
             '### Aside: two\n\nText.\n\n### Aside: three']
    lines = '\n'.join(map(asides.fold, cells)).splitlines()
    start, end = asides.START.strip(), asides.END.strip()
    found = [line for line in lines if line in (start, end) or line.startswith('#')]
    assert found == ['### Aside: one', start, end, '## Next',
                     '### Aside: two', start, end, '### Aside: three', start]
    assert asides.is_open

def test_an_aside_ends_with_its_chapter():
    rows = [pages.SiteCell(i, 'markdown', text)
            for i, text in enumerate(['# Title', '### Aside: one'])]
    book = book_of(cells={'07_x': rows})
    made = ''.join(cell['source'] for cell in pages.page(book, '07_x'))
    assert made.count('<details') == made.count('</details>') == 1

def test_a_stored_output_names_its_commit():
    rows = [pages.SiteCell(0, 'markdown', '# Title'),
            pages.SiteCell(1, 'code', '#| slow\n#| commit 365efc8\n1', [dict(text='x')])]
    *_, caption = pages.page(book_of(cells={'07_x': rows}), '07_x')
    assert caption['source'] == '{.caption}\nOutput of commit 365efc8'

SOLVED = '''import torch

def used(x): return x + 1

def unused(x): return x

@torch.no_grad()
def answer(x): return used(x)
'''

def test_a_solution_brings_the_functions_that_it_alone_uses(tmp_path):
    (tmp_path/'nbs/solutions').mkdir(parents=True)
    (tmp_path/'nbs/solutions/test_solutions_07.py').write_text(SOLVED)
    used, answer = 'def used(x): return x + 1', SOLVED[SOLVED.index('@'):].strip()
    exercise = 'def answer(x): raise NotImplementedError'
    def solved(*sources):
        cells = [pages.SiteCell(i, 'code', source) for i, source in enumerate(sources)]
        return pages.solution(book_of(tmp_path, cells={'07_x': cells}), '07_x', 'answer')
    assert solved(exercise) == f'{used}\n\n{answer}'
    assert solved(exercise, used) == answer # the reader has it already

def test_of_a_claim_the_cell_that_always_runs_comes_first():
    answers = [(True, '07_x', 'claim-slow'), (False, '07_x', 'claim-quick')]
    book = book_of(claims_text='- C01 It is so.', claims={'C01': answers})
    assert pages.claims(book).endswith('[07 Title](#claim-quick), [2](#claim-slow)')

def test_a_bar_inside_code_ends_no_column():
    assert pages.escape('`a|b` | <x>') == '`a\\|b` \\| \\<x>'

def test_who_reads_a_file_of_results():
    rows = {name: [pages.SiteCell(0, 'code', "read('results/x.jsonl')")]
            for name in ('index', '07_x')}
    assert pages.reader_of(book_of(cells=rows), 'x.jsonl') == '07_x'

def test_results_over_seeds():
    rows = [dict(row='A', weights=None, beam_size=None, ppl=p, bleu=30.) for p in (1., 3.)]
    assert list(pages.over_seeds(rows)) == [
        {'change': 'A', 'seeds': 2, 'perplexity': '2.00 ± 1.41', 'BLEU': '30.00 ± 0.00'}]

def test_the_speed_is_the_median_of_the_rounds():
    kind = dict(part='training', hardware='EPYC (2 cores)', size='tiny', memory_kept=True,
                processes=1, threads=2, system='ours')
    rows = [kind | dict(tokens_per_second=speed) for speed in (100., 7000., 2000.)]
    [row] = pages.training_speeds(rows)
    assert row['ours'] == '2,000' and row['machine'] == 'EPYC'

def test_results_in_a_row():
    rows = [dict(ppl=4.), dict(ppl=1.), dict(ppl=1.)]
    assert pages.spread(rows, 'ppl') == '2.00 ± 1.73' # the median is 1
    assert pages.spread(rows[:1], 'ppl') == '4.00'
    [row] = pages.translations([dict(row='one', bleu_moses_lc=40., ci_moses_lc=[39., 41.],
                                     bleu=30., ci=[29., 31.], chrf=60., ppl=4.)])
    assert row['95%'] == '39.0 to 41.0' and row['BLEU, lower-cased Moses'] == '40.0'

# Folds

@pytest.mark.parametrize('source, name', [
    ('#| fold\ndef f(x): # a sum\n    return x', 'f: a sum'),
    ('#| fold\ndef f(x): return x', 'f(x)'),
    ('#| fold\ndef f(x): return x\nclass G: pass', 'f, G'),
    ('#| export\ndef _f(x): # a sum\n    return x', '_f: a sum'),
    ('#| export\nimport torch', 'Imports of the module'),
    ('#| fold\nA, B = 1, 2', 'Definition of A, B'),
    ('#| fold\ny = f(sum(x))\nassert g(y).mean() < 1', 'Check of f, g'),
    ('#| fold\ntest_close(x.softmax(-1).sum(), 1)', 'Check of softmax'),
    ('#| fold\nprint(f(1))', 'Code with f'),
    ('#| fold the first three runs\nprint(f(1))', 'the first three runs')])
def test_a_fold_is_named_by_what_it_holds(source, name):
    shown = pages.look(pages.SiteCell(0, 'code', source))['mystnb']
    assert shown['code_prompt_show'] == shown['code_prompt_hide'] == name

def test_no_fold_of_the_book_has_a_name_that_says_nothing():
    for chapter, rows in pages.Book(ROOT).cells.items():
        for cell in rows:
            if cell.kind != 'code' or not cell.text or not cell.hides_code: continue
            name = pages.look(cell)['mystnb'].get('code_prompt_show')
            if name is None or name.startswith('Imports of'): continue # hidden, or imports
            given = cell.directives.get('fold')
            words = re.findall(r'[A-Za-z]\w+', name.removeprefix('Check of'))
            assert given or any(word in cell.text for word in words), (chapter, name)
            assert name not in ('The code', 'Helpers', 'Check of a value'), chapter

# Pictures in words

def test_a_figure_in_words():
    figure, (left, right) = plt.subplots(1, 2)
    left.plot([0, 2], [1, 3], label='one & all')
    left.set(xlabel='step', ylabel='$d_k$', title='A & B', xticks=[0, 1, 2])
    left.set_yticks([1, 2], ['low', 'high'])
    left.legend()
    right.imshow([[0, 1]])
    right.set(xlabel='key', xticks=[0, 1], yticks=[])
    figure.suptitle('Both')
    file = io.StringIO()
    figure.savefig(file, format='svg')
    plt.close(figure)
    assert alternative(file.getvalue()) == (
        '2 panels. Panel 1: Words: A & B. Legend: one & all. Horizontal, step: from 0 to 2.'
        ' Vertical, d_k: low; high. Panel 2: Horizontal, key: 0; 1. Beside them: Both.')

def test_every_figure_of_the_book_has_words_of_its_own():
    said = 0
    for path in chapters(ROOT):
        rows = cells(path)
        for cell, below in zip(rows, rows[1:]):
            pictures = [o.get('data', {}).get('image/svg+xml', '') for o in cell.outputs]
            for svg in filter(None, pictures):
                words = alternative(''.join(svg))
                assert 30 < len(words) < 700, (path.stem, cell.number, words)
                assert words not in below.text and '\\' not in words and '&' not in words
                said += 1
    assert said > 100

# Questions

def test_questions_stand_before_the_way_on():
    question = dict(chapter='07_x', ask='What?', right='this', why='So.',
                    wrong=dict(that='No.', these='No.', all='No.'))
    book = book_of(questions=[question])
    for way in ('**Next:** more.', '**Now write it: stage 2.** x\n\n**Next:** more.'):
        made = pages.with_questions(book, '07_x', f'Text.\n\n{way}')
        assert made.startswith('Text.\n\n\n\n## Questions')
        assert made.endswith(f'</div>\n\n{way}')
        assert pages.with_questions(book, '08_x', way) == way # has none
    assert pages.with_questions(book, '07_x', 'Text.') == 'Text.'
