"""The site that `make docs` builds: complete, light, linked, and at home in a browser without a network.

Without a site, or for the browser tests without Debian's Chromium, these tests skip and say so.
"""
import ast, re, threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit
import pytest
import house

ROOT, CHROMIUM = Path(__file__).parent.parent, Path('/usr/bin/chromium')
HTML, LEDGER = ROOT/'docs/_build/html', ROOT.parent/'shared/paper/claims.md'
MOST = 1_500_000 # bytes of a page with its own images

class Page(HTMLParser):
    "Ids, links, images and other files of one page"
    def __init__(self, path):
        super().__init__()
        self.path, self.ids, self.links, self.images, self.files = path, set(), [], [], []
        self.feed(path.read_text(encoding='utf8'))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[k] for k in ('id', 'name') if attrs.get(k)}
        if tag == 'a' and 'href' in attrs: self.links.append(attrs['href'])
        if tag == 'img': self.images.append((attrs['src'], attrs.get('alt', '')))
        if tag in ('script', 'link', 'img') and attrs.get('rel') != 'canonical': self.files.append(attrs.get('src') or attrs.get('href') or '')

def problems(folder):
    "A line for each dead link, each file from elsewhere or not there, each image without words, each heavy page"
    pages = {p.resolve(): Page(p) for p in sorted(folder.glob('*.html'))}
    for path, page in pages.items():
        for url in page.links + page.files:
            parts = urlsplit(url)
            target = (path.parent/unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or parts.netloc:
                if url in page.files: yield f'{path.name}: {url} comes from another machine'
            elif not target.exists(): yield f'{path.name}: no file {url}'
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids: yield f'{path.name}: no anchor {url}'
        yield from (f'{path.name}: {src} has no words for those who cannot see it' for src, alt in page.images if len(alt) < 10 or alt == src)
        weight = path.stat().st_size + sum((folder/src).stat().st_size for src in {src for src, _ in page.images} if (folder/src).exists())
        if weight > MOST: yield f'{path.name}: {weight:,} bytes with its images'

@pytest.fixture(scope='module')
def site():
    if not (HTML/'index.html').exists(): pytest.skip('no site here; `make docs` builds it')
    return HTML

def test_links_images_weights(site): assert list(problems(site)) == []

@pytest.mark.parametrize('body', ['<a href="gone.html">x</a>', '<a href="#gone">x</a>', '<a href="page.html#gone">x</a>', '<img src="page.html">',
    '<img src="page.html" alt="page.html">', '<script src="https://example.org/x.js"></script>', '<img src="gone.svg" alt="a figure in words">', 'x'*(MOST + 1)], ids=range(8))
def test_problems_are_seen(tmp_path, body):
    (tmp_path/'page.html').write_text('<p id="here"><a href="#here">x</a> <a href="https://example.org">x</a> <img src="page.html" alt="a page in words">')
    assert list(problems(tmp_path)) == []
    (tmp_path/'other.html').write_text(body)
    assert list(problems(tmp_path))

def test_every_chapter_has_its_page(site):
    assert {p.stem for p in house.chapters(ROOT)} <= {p.stem for p in site.glob('*.html')}

def test_every_exercise_has_its_solution_in_a_fold(site):
    for path in house.chapters(ROOT):
        exercises = '\n'.join(text for _, text in house.cells(path, 'markdown')).partition('## Exercises\n')[2]
        page = (site/f'{path.stem}.html').read_text(encoding='utf8')
        folds = re.findall(r'<div class="cell[^"]* tag_solution.*?<details.*?</details>', page, re.S)
        assert len(folds) == len(re.findall(r'^\*\*\d\. ', exercises, re.M)), path.stem
        assert all('Solution' in x and 'Exercise' in x and '<details open' not in x and 'NotImplementedError' not in x for x in folds), path.stem

def test_every_exported_name_is_listed(site):
    listed = Page(site/'api.html').links
    for path in (ROOT/'transformer_nb').glob('[a-z]*.py'):
        names = ast.literal_eval(re.search(r'__all__ = (\[.*?\])', path.read_text(encoding='utf8'), re.S)[1])
        for name in names: assert any(link.lower().endswith(f'#def-{path.stem}-{name}'.lower().replace('_', '-')) for link in listed), f'{path.stem}.{name}'

def test_every_claim_has_a_line():
    lines = re.findall(r'^- (C\d+) ', (ROOT/'docs/claims.md').read_text(encoding='utf8'), re.M)
    answered = {c for p in house.chapters(ROOT) for _, s in house.cells(p) for d in house.head(s) if d.startswith('claim') for c in re.findall(r'C\d+', d)}
    assert len(set(lines)) == len(lines) and answered <= set(lines)
    if LEDGER.exists(): assert sorted(lines) == sorted(re.findall(r'^\| (C\d+) ', LEDGER.read_text(encoding='utf8'), re.M))

@pytest.fixture(scope='module')
def address(site):
    "The site served on this machine"
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args): pass
    with ThreadingHTTPServer(('127.0.0.1', 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()

@pytest.fixture(scope='module')
def chromium():
    if not CHROMIUM.exists(): pytest.skip(f'no {CHROMIUM} here')
    from playwright.sync_api import sync_playwright
    flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-component-update', '--disable-sync']
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        yield browser
        browser.close()

@pytest.fixture
def tab(chromium, address):
    "A tab as wide as a phone; afterwards: did it complain, or ask another machine?"
    page, complaints = chromium.new_page(viewport=dict(width=390, height=800)), []
    page.on('console', lambda m: complaints.append(m.text) if m.type in ('error', 'warning') else None)
    page.on('pageerror', lambda e: complaints.append(str(e)))
    page.on('request', lambda r: None if r.url.startswith((address, 'data:', 'blob:')) else complaints.append(r.url))
    yield page
    page.close()
    assert complaints == []

@pytest.mark.parametrize('name', [p.name for p in sorted(HTML.glob('*.html'))] or ['index.html'])
def test_page_in_a_browser(tab, address, name):
    tab.goto(f'{address}/{name}')
    tab.evaluate('window.MathJax?.startup?.promise')
    assert tab.evaluate('document.documentElement.scrollWidth') <= 390, 'wider than a phone'
    assert tab.locator('.math').count() == tab.locator('mjx-container').count() and tab.locator('mjx-merror').count() == 0
    prose = tab.evaluate("[...document.querySelectorAll('article :is(p, td, li)')].filter(e => !e.closest('.cell')).map(e => e.innerText).join('\\n')")
    assert not re.search(r'\\(frac|sqrt|mathrm|begin)\b|\$\$', prose), 'a formula is not rendered'

@pytest.mark.parametrize('query, found', [('MultiHeadAttention', '02_multihead.html#'), ('3.2.1', 'claims.html#'), ('d_k', '01_attention.html'), ('warm-up', '06_optimizer.html')])
def test_search_finds(tab, address, query, found):
    tab.goto(f'{address}/search.html?q={query}')
    tab.wait_for_selector('#search-results li a')
    hrefs = [a.get_attribute('href') for a in tab.locator('#search-results li > a').all()]
    assert any(found in h for h in hrefs[:1 if '#' in found else 6]), hrefs # what is defined there comes first

def test_theme_switches_and_code_copies(tab, address):
    tab.set_viewport_size(dict(width=1280, height=800))
    tab.goto(f'{address}/01_attention.html')
    for theme, color in (('dark', 'rgb(18, 18, 18)'), ('light', 'rgb(255, 255, 255)')):
        tab.locator('.theme-switch-button:visible').click()
        tab.locator(f'.theme-change-button[data-mode={theme}]:visible').click()
        tab.wait_for_function('c => getComputedStyle(document.body).backgroundColor == c', arg=color)
        assert tab.evaluate('document.documentElement.dataset.theme') == theme
    assert tab.locator('button.copybtn').count() > 20
    figure = tab.locator('.cell_output img').first
    assert figure.evaluate('e => getComputedStyle(e).backgroundColor') == 'rgba(0, 0, 0, 0)' # drawn for both

def test_keyboard_reaches_everything(tab, address):
    tab.set_viewport_size(dict(width=1280, height=800))
    tab.goto(f'{address}/01_attention.html')
    tab.keyboard.press('Control+k')
    tab.keyboard.type('causal_mask')
    tab.keyboard.press('Enter')
    tab.wait_for_selector('#search-results li a')
    tab.goto(f'{address}/01_attention.html')
    reached = []
    for _ in range(60):
        tab.keyboard.press('Tab')
        reached.append(tab.evaluate('document.activeElement.href || document.activeElement.tagName'))
    assert any('02_multihead' in r for r in reached) and 'SUMMARY' in reached and 'BUTTON' in reached
