"""What `docs/pages.py` makes of chapters and results, function by function. `test_site.py`
looks at the built site, which is well-formed even where a page says something wrong."""
from pathlib import Path
from types import SimpleNamespace
import pages

ROOT = Path(__file__).parent.parent

def book_of(root=ROOT, **fields):
    "A book of one chapter, whose text has nothing to link"
    made = dict(root=root, title={'07_x': '07 Title'}, cells={'07_x': []}, quotes={},
                linked=lambda text, chapter: text)
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
            pages.SiteCell(1, 'code', '#| slow\n#| commit 365efc8\n1', ['an output'])]
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
