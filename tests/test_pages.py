"""What `docs/` makes of chapters, function by function. `test_site.py` looks at the built
site, which is well-formed even where a page says something wrong."""
import html, io, re
from pathlib import Path
from types import SimpleNamespace
import matplotlib.pyplot as plt
import machines, pages, pytest
from alternative import alternative
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

def test_a_claim_may_be_answered_by_a_test(tmp_path):
    test = 'def test_it():\n    #| claim C01 C02\n    assert True\n\ndef test_no(): pass\n'
    (tmp_path/'test_x.py').write_text(test, encoding='utf8')
    tested = pages.claims_of_tests(tmp_path)
    assert tested == {'C01': [('test_x.py', 'test_it')], 'C02': [('test_x.py', 'test_it')]}
    book = book_of(claims_text='- C01 It is so.', claims={'C01': []}, tested=tested)
    assert pages.claims(book).endswith('It is so. → `test_it` in `test_x.py`')

# Folds

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

# Questions

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
