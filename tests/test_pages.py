"""What `docs/` makes of chapters, function by function. `test_site.py` looks at the built
site, which is well-formed even where a page says something wrong."""
import html, io, re
from pathlib import Path
from types import SimpleNamespace
import matplotlib.pyplot as plt
import folds, machines, pages, pytest
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
    cells = ['### Aside: one', 'Text.', '## Next\n\nMore.', '### Aside: two', 'Text.',
             '### Aside: three']
    lines = '\n'.join(map(asides.fold, cells)).splitlines()
    start, end = asides.START.strip(), asides.END.strip()
    found = [line for line in lines if line in (start, end) or line.startswith('#')]
    assert found == ['### Aside: one', start, end, '## Next',
                     '### Aside: two', start, end, '### Aside: three', start]
    assert asides.is_open

# Folds

def notebook_of(*sources):
    return dict(cells=[dict(cell_type=kind, id=f'c{i}', metadata={}, source=[text],
                            outputs=[]) for i, (kind, text) in enumerate(sources)])

def test_jupyterlab_folds_an_aside_whole():
    "Its heading is a cell of its own, the next begins one; ids stay, a number follows"
    aside = 'Before.\n\n### Aside: why\n\nBecause.\n\n```\n# no heading\n```'
    end = '*Figure 2.1: so.*\n\n## Next\n\nText.\n\n### More'
    notebook = notebook_of(('markdown', '# Title\n\n## One'), ('markdown', aside),
                           ('code', '#| fold draws Figure\n#| echo:\nf'), ('markdown', end))
    for _ in range(2): # the second time nothing changes
        notebook['cells'] = made = folds.folded(notebook)
        rows = [(x['id'], ''.join(x['source'])) for x in made]
        assert rows == [
            ('c0', '# Title\n\n## One'), ('c1', 'Before.'), ('c1-1', '### Aside: why'),
            ('c1-2', 'Because.\n\n```\n# no heading\n```'),
            ('c2', '#| fold draws Figure 2.1\n#| echo:\nf'), ('c3', '*Figure 2.1: so.*'),
            ('c3-1', '## Next\n\nText.\n\n### More')]
        assert [x['id'] for x in made if folds.COLLAPSED in x['metadata']] == ['c1-1']

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
