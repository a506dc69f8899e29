"""What `docs/` makes of chapters, function by function. `test_site.py` looks at the built
site, which is well-formed even where a page says something wrong."""
import html, io, json, re
from pathlib import Path
from types import SimpleNamespace
import matplotlib.pyplot as plt
import look, machines, pages, pytest
from alternative import alternative
from book import cells, chapters
from repository import Repository, settings
from test_site import HTML

ROOT = Path(__file__).parent.parent

def book_of(root=ROOT, **fields):
    "A book of one chapter, whose text has nothing to link"
    made = dict(root=root, title={'07_x': '07 Title'}, cells={'07_x': []}, quotes={},
                questions=[], tested={}, linked=lambda text, chapter: text)
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

def test_a_claim_may_be_answered_by_a_test(tmp_path):
    test = 'def test_it():\n    #| claim C01 C02\n    assert True\n\ndef test_no(): pass\n'
    (tmp_path/'test_x.py').write_text(test, encoding='utf8')
    tested = pages.claims_of_tests(tmp_path)
    assert tested == {'C01': [('test_x.py', 'test_it')], 'C02': [('test_x.py', 'test_it')]}
    book = book_of(claims_text='- C01 It is so.', claims={'C01': []}, tested=tested)
    assert pages.claims(book).endswith('It is so. → `test_it` in `test_x.py`')

# Folds

FOLDS = {
    '#| fold\ndef f(x): # a sum\n    return x': 'f: a sum',
    '#| fold\ndef f(x): return x': 'f(x)',
    '#| fold\ndef f(x): return x\nclass G: pass': 'f, G',
    '#| export\ndef _f(x): # a sum\n    return x': '_f: a sum',
    '#| export\nimport torch': 'Imports of the module',
    '#| fold\ny = f(sum(x))\nassert g(y).mean() < 1':
        'Code that ends in assert g(y).mean() < 1',
    '#| fold the first three runs\nprint(f(1))': 'the first three runs'}

def test_a_fold_is_named_by_what_it_holds():
    for source, name in FOLDS.items():
        shown = pages.look(pages.SiteCell(0, 'code', source))['mystnb']
        assert shown['code_prompt_show'] == shown['code_prompt_hide'] == name

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

# What a link to a page shows where somebody sends it, and what programs read

def head(path):
    "Its metadata, by name"
    text = path.read_text(encoding='utf8').partition('</head>')[0]
    found = re.findall(r'<meta (?:property|name)="([\w:]+)" content="([^"]*)"', text)
    return {name: html.unescape(value) for name, value in found}

def test_a_link_shows_title_words_and_a_picture():
    site = sorted(HTML.glob('*.html'))
    if not site: pytest.skip('no site here; `make docs` builds it')
    for path in site:
        if path.stem in ('search', 'genindex'): continue # nobody sends these
        about = head(path)
        assert about['og:title'] and len(about['og:description']) > 20, path.stem
        picture = about['og:image'].removeprefix(machines.site(ROOT))
        assert (HTML/picture).exists(), path.stem

def test_addresses_are_whole_where_the_book_has_one(monkeypatch):
    home = Repository('someone', 'book', 'main')
    monkeypatch.setattr('machines.repository', lambda root: home)
    address = 'https://someone.github.io/book/'
    assert f'({address}01_attention.md)' in machines.list_of(ROOT, look.parts(ROOT))
    assert json.loads(machines.about_the_book(ROOT))['url'] == address

def test_words_that_would_end_a_tag_do_not():
    made = machines.tags('A "<b>"', 'x & y', 'x.png')
    assert 'content="A &quot;&lt;b&gt;&quot;"' in made

def test_a_copy_has_the_prose_and_the_code():
    for path in chapters(ROOT):
        text = machines.copy(path)
        assert text.startswith('# ') and '<!-- live' not in text, path.stem
        assert not re.search(r'\]\(\w+\.ipynb', text), path.stem
        assert len(re.findall('^```', text, re.M)) % 2 == 0, path.stem
        assert not re.search('^(#[|] |<svg)', text, re.M), path.stem # code may name one

def test_the_list_leads_to_every_copy():
    if not (HTML/'llms.txt').exists(): pytest.skip('no site here; `make docs` builds it')
    text = (HTML/'llms.txt').read_text(encoding='utf8')
    assert text.startswith(f'# {settings(ROOT)["title"]}\n\n> ')
    listed = re.findall(r'^- \[.*\]\((.*)\)$', text, re.M)
    names = {name.removeprefix(machines.site(ROOT)) for name in listed}
    for name in names: assert (HTML/name).exists(), name
    assert {f'{path.stem}.md' for path in chapters(ROOT) if path.stem != 'index'} <= names
