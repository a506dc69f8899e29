"""What a link to a page shows where somebody sends it, and what programs read
of the book."""
import html, json, re
from pathlib import Path
import cards, look, machines, pytest
from PIL import Image
from book import chapters
from repository import Repository, settings
from test_site import HTML

ROOT = Path(__file__).parent.parent
TITLE = settings(ROOT)['title']
PAGES = sorted(HTML.glob('*.html'))

def head(path):
    "Its metadata, by name"
    text = path.read_text(encoding='utf8').partition('</head>')[0]
    found = re.findall(r'<meta (?:property|name)="([\w:]+)" content="([^"]*)"', text)
    return {name: html.unescape(value) for name, value in found}

@pytest.mark.parametrize('path', PAGES, ids=lambda path: path.stem)
def test_a_link_shows_title_words_and_a_picture(path):
    about = head(path)
    if path.stem in ('search', 'genindex'): return # nobody sends these
    assert about['og:title'] and len(about['og:description']) > 20
    assert about['twitter:title'] == about['og:title']
    assert about['description'] == about['og:description']
    if not cards.CHROMIUM.exists(): return
    assert about['twitter:card'] == 'summary_large_image'
    picture = HTML/about['og:image'].removeprefix(cards.site(ROOT))
    with Image.open(picture) as image: assert image.size == (1200, 630)
    assert 5_000 < picture.stat().st_size < 150_000

def test_a_chapter_has_a_picture_of_its_own():
    if not PAGES or not cards.CHROMIUM.exists(): pytest.skip('no site here, or no pictures')
    pictures = {head(HTML/f'{name}.html')['og:image'] for name in
                ('index', '01_attention', '05_model', '13_decoding')}
    assert len(pictures) == 4

def test_addresses_are_whole_where_the_book_has_one(monkeypatch, tmp_path):
    (tmp_path/'book.png').touch()
    assert cards.card(ROOT, tmp_path, '01_attention') == f'{cards.site(ROOT)}cards/book.png'
    home = Repository('someone', 'book', 'main')
    monkeypatch.setattr('cards.repository', lambda root: home)
    address = 'https://someone.github.io/book/'
    assert cards.card(ROOT, tmp_path, 'x') == f'{address}cards/book.png'
    assert f'({address}01_attention.md)' in machines.list_of(ROOT, look.parts(ROOT))
    assert json.loads(machines.about_the_book(ROOT))['url'] == address
    assert cards.card(ROOT, tmp_path/'gone', 'x') == ''

def test_words_that_would_end_a_tag_do_not():
    made = cards.tags('A "<b>"', 'x & y', '')
    assert 'content="A &quot;&lt;b&gt;&quot;"' in made and 'og:image' not in made
    assert 'content="summary"' in made

# For programs

@pytest.mark.parametrize('path', chapters(ROOT), ids=lambda path: path.stem)
def test_a_copy_has_the_prose_and_the_code(path):
    text = machines.copy(path)
    assert text.startswith('# ') and '<!-- live' not in text
    assert not re.search(r'\]\(\w+\.ipynb', text)
    fences = re.findall('^```', text, re.M)
    assert len(fences) % 2 == 0
    assert not re.search('^(#[|] |<svg)', text, re.M) # code may name one

def test_the_list_leads_to_every_copy():
    if not PAGES: pytest.skip('no site here; `make docs` builds it')
    text = (HTML/'llms.txt').read_text(encoding='utf8')
    assert text.startswith(f'# {TITLE}\n\n> ')
    listed = re.findall(r'^- \[.*\]\((.*)\)$', text, re.M)
    names = {name.removeprefix(cards.site(ROOT)) for name in listed}
    for name in names: assert (HTML/name).exists(), name
    assert {f'{path.stem}.md' for path in chapters(ROOT) if path.stem != 'index'} <= names
    page = (HTML/'01_attention.html').read_text(encoding='utf8')
    assert '<link rel="alternate" type="text/markdown" href="01_attention.md">' in page

def test_a_search_engine_is_told_of_a_book():
    if not PAGES: pytest.skip('no site here; `make docs` builds it')
    page = (HTML/'index.html').read_text(encoding='utf8')
    told = re.search('<script type="application/ld\\+json">(.*?)</script>', page)[1]
    found = json.loads(told)
    assert (found['@type'], found['name']) == ('Book', TITLE)
    assert found['about']['name'] == 'Attention Is All You Need'

def test_nobody_is_sent_where_nobody_is():
    if not PAGES: pytest.skip('no site here; `make docs` builds it')
    page = (HTML/'01_attention.html').read_text(encoding='utf8')
    has_owner = bool(settings(ROOT)['user'])
    assert ('A mistake on this page?' in page) == has_owner
    about = (HTML/'about.html').read_text(encoding='utf8')
    assert ('A mistake, or a question?' in about) == has_owner

def test_a_picture_is_signed(watched):
    if not PAGES: pytest.skip('no site here; `make docs` builds it')
    page = watched.page()
    page.goto((HTML/'translate_here.html').as_uri())
    page.wait_for_selector('body.ready')
    assert page.evaluate('modules.picture.wordsBelow().at(-1)').endswith(TITLE)
