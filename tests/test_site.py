"""The site that `make docs` builds: complete, light, linked, and at home in a browser
without a network.

Without a site, or for the browser tests without Debian's Chromium, these tests skip and say
so.
"""
import re, threading
from collections import Counter
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree
import formulas, pages, pytest
from book import cells, chapters
from browser import PHONE

ROOT = Path(__file__).parent.parent

HTML = ROOT/'docs/_build/html'
MOST = 1_500_000 # bytes of a page with all of its own images
ALIVE = pages.TRANSLATE # have a model in them, and tests of their own

class Page(HTMLParser):
    "Ids, links, images and other files of one page"
    def __init__(self, path):
        super().__init__()
        self.path, self.ids = path, set()
        self.links, self.images, self.files = [], [], []
        self.feed(path.read_text(encoding='utf8'))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[k] for k in ('id', 'name') if attrs.get(k)}
        if tag == 'a' and 'href' in attrs: self.links.append(attrs['href'])
        if tag == 'img': self.images.append((attrs['src'], attrs.get('alt', '')))
        if tag in ('script', 'link', 'img') and attrs.get('rel') != 'canonical':
            self.files.append(attrs.get('src') or attrs.get('href') or '')

def link_problem(path, page, url, pages):
    "What is wrong with a link or a file of a page, if anything"
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return 'comes from another machine' if url in page.files else None
    target = (path.parent/unquote(parts.path)).resolve() if parts.path else path
    if not target.exists(): return 'is no file'
    if target.name in ALIVE: # its anchors are views
        views = re.findall(r'id="panel-(\w+)"', target.read_text(encoding='utf8'))
        view = parts.fragment.partition('?')[0]
        return None if view in ['', 'tour', *views] else 'is no view'
    if parts.fragment and target in pages:
        if unquote(parts.fragment) not in pages[target].ids: return 'is no anchor'
    return None

def problems(folder):
    "A line for each dead link, foreign or missing file, image without words, heavy page"
    files = [p for p in sorted(folder.glob('*.html')) if p.name not in ALIVE]
    pages = {p.resolve(): Page(p) for p in files}
    for path, page in pages.items():
        for url in page.links + page.files:
            problem = link_problem(path, page, url, pages)
            if problem: yield f'{path.name}: {url} {problem}'
        for src, alt in page.images:
            if len(alt) < 10 or alt == src:
                yield f'{path.name}: {src} has no words for those who cannot see it'
        images = {folder/src for src, _ in page.images}
        weight = sum(p.stat().st_size for p in [path, *images] if p.exists())
        if weight > MOST: yield f'{path.name}: {weight:,} bytes with its images'

@pytest.fixture(scope='module')
def site():
    if not (HTML/'index.html').exists(): pytest.skip('no site here; `make docs` builds it')
    return HTML

def test_links_images_weights(site): assert list(problems(site)) == []

def test_every_exercise_has_its_solution_in_a_fold(site):
    "But for those whose answer is computed"
    fold = re.compile(r'<div class="cell[^"]* tag_solution.*?<details (?!open)', re.S)
    for path in chapters(ROOT):
        text = '\n'.join(cell.source for cell in cells(path)).partition('## Exercises\n')[2]
        exercises = re.split(r'^\*\*\d\. ', text, flags=re.M)[1:]
        page = (site/f'{path.stem}.html').read_text(encoding='utf8')
        to_solve = [x for x in exercises if '#| predict' not in x]
        assert len(fold.findall(page)) == len(to_solve), path.stem

def test_the_index_has_the_names_that_chapters_define(site):
    text = (site/'genindex.html').read_text(encoding='utf8')
    listed = set(re.findall(r'[\w.]+', text))
    book = pages.Book(ROOT)
    assert len(book.names) > 100 and set(book.names) - listed == set()

def test_every_formula_of_the_book_is_well_formed():
    "MathML that a strict reader accepts, with no command left over"
    texts = [cell.source for p in chapters(ROOT) for cell in cells(p, 'markdown')]
    code = re.compile('```.*?```|`[^`\n]*`', re.S)
    prose = '\n\n'.join(code.sub('', text) for text in texts)
    found = re.findall(r'\$\$(.+?)\$\$|\$([^$\n]+)\$', prose, re.S)
    assert len(found) > 1000
    for block, inline in found:
        tex = block.partition(r'\tag{')[0] or inline
        text = ''.join(ElementTree.fromstring(formulas.mathml(tex, bool(block))).itertext())
        assert '\\' not in text, tex

# In a browser

@pytest.fixture(scope='module')
def address(site):
    "The site served on this machine"
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args): pass
    class Patient(ThreadingHTTPServer): # a full queue would drop a request for seconds
        request_queue_size = 100
    with Patient(('127.0.0.1', 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()

@pytest.fixture
def tab(watched, address):
    "A page as wide as a phone"
    watched.allowed.append(address)
    return watched.page(PHONE)

PROSE = '''[...document.querySelectorAll('article :is(p, td, li)')]
    .filter(e => !e.closest('.cell')).map(e => e.innerText).join('\\n')'''
SCROLLING = '''[...document.querySelectorAll('article :is(pre, table)')]
    .map(e => e.closest('.table-wrapper') || e)
    .filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.innerText.slice(0, 80))'''

# Without `preload`, axe does not look for style sheets beside the page. To describe every
# element that passes takes it longer than all of its rules. A heading that is a formula it
# takes for an empty one. What is hidden it only counts. A link must differ from the words
# around it by more than its color: that is known without a look at what is behind it.
PREPARE = """() => {
    const links = {id: 'link-in-text-block', any: ['link-in-text-block-style']}
    axe.configure({rules: [links]})
    document.querySelectorAll('th math').forEach(e => e.replaceWith(e.textContent))
    document.head.append(Object.assign(document.createElement('style'),
                                       {textContent: '* { transition: none !important }'}))
}"""
WITHOUT_COLORS = """() => { // code, which the rules leave out, is thousands of elements
    for (const pre of document.querySelectorAll('pre')) pre.textContent = pre.textContent
}"""
AXE = """async ([parts, runOnly, less]) => {
    const rules = Object.fromEntries(less.map(rule => [rule, {enabled: false}]))
    const options = {preload: false, selectors: false, resultTypes: ['violations']}
    const found = await axe.run(parts, {...options, runOnly, rules})
    return found.violations.map(v => [v.id, v.nodes[0].html.slice(0, 150)])
}"""
ALL_RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
BUT_CODE, BUT_CONTRAST = dict(exclude=['pre']), ['color-contrast', 'hidden-content']

def load_axe(tab):
    package = Path(pytest.importorskip('axe_playwright_python').__file__).parent
    tab.evaluate((package/'axe.min.js').read_text(encoding='utf8'))

def prepare_axe(tab):
    load_axe(tab)
    tab.evaluate(PREPARE)

def use_theme(tab, theme):
    tab.evaluate('t => { document.documentElement.dataset.theme = t }', theme)

def violations(tab, theme, parts, rules, less=()):
    "What axe finds on a page"
    use_theme(tab, theme)
    return tab.evaluate(AXE, [parts, rules, list(less)])

# To measure the contrast of all words takes axe longer than all of its other rules. What it
# depends on is color, size, weight, and what is behind, and pages share most of such looks.
# So three examples of each are measured, until axe finds one of them readable, or could not
# judge those of three pages.
LOOKS = """within => {
    const known = new Map()
    const around = node => { // what is behind it, and how much shines through
        if (!node) return ['nothing', 1]
        if (known.has(node)) return known.get(node)
        const {backgroundColor, opacity} = getComputedStyle(node)
        const [color, more] = around(node.parentElement)
        const isClear = backgroundColor == 'rgba(0, 0, 0, 0)'
        known.set(node, [isClear ? color : backgroundColor, more * opacity])
        return known.get(node)
    }
    window.looks = {}
    for (const node of document.querySelectorAll(`${within} *`)) {
        const hasText = [...node.childNodes].some(x => x.nodeType == 3 && x.data.trim())
        if (!hasText || !node.checkVisibility({visibilityProperty: true})) continue
        if (node.getBoundingClientRect().width <= 1) continue
        const {color, fontSize, fontWeight} = getComputedStyle(node)
        const examples = looks[[color, fontSize, fontWeight, ...around(node)]] ??= []
        if (examples.length < 3) examples.push(node)
    }
    return Object.keys(looks)
}"""
CONTRAST = """async fresh => {
    const include = fresh.flatMap(look => looks[look])
    const options = {preload: false, selectors: false, elementRef: true,
                     resultTypes: ['violations', 'passes']}
    const runOnly = ['color-contrast']
    const {violations, passes} = await axe.run({include}, {...options, runOnly})
    const nodes = results => results.flatMap(result => result.nodes)
    const passed = new Set(nodes(passes).map(node => node.element))
    const readable = fresh.filter(look => looks[look].some(node => passed.has(node)))
    return [nodes(violations).map(node => node.html.slice(0, 150)), readable]
}"""
measured = Counter() # looks that need no more than what was measured: 3

def unreadable(tab, theme, within='body'):
    "Words that stand out too little from what is behind them"
    use_theme(tab, theme)
    fresh = [key for key in tab.evaluate(LOOKS, within) if measured[key] < 3]
    if not fresh: return []
    pale, readable = tab.evaluate(CONTRAST, fresh)
    for key in fresh: measured[key] += 3 if key in readable else 1
    return pale

UNFOLD = "document.querySelectorAll('details').forEach(e => { e.open = true })"
READ = ['index.html', '05_model.html'] # what stands on others stands on these

def test_pages_in_a_browser(tab, address):
    "On a phone and at a desk, for everyone"
    for name in READ:
        tab.set_viewport_size(PHONE)
        tab.goto(f'{address}/{name}')
        width = tab.evaluate('document.documentElement.scrollWidth')
        assert width <= 390, f'{name} is wider than a phone'
        assert tab.locator('.math').count() == tab.locator('.math > math').count()
        raw = re.search(r'\\(frac|sqrt|mathrm|begin)\b|\$\$', tab.evaluate(PROSE))
        assert not raw, f'{name}: a formula is not rendered'
        tab.set_viewport_size(dict(width=1280, height=800))
        tab.evaluate(UNFOLD)
        assert tab.evaluate(SCROLLING) == [], 'what has to be scrolled sideways'
        prepare_axe(tab)
        for theme in ('light', 'dark'): assert unreadable(tab, theme) == [], (name, theme)
        tab.evaluate(WITHOUT_COLORS)
        assert violations(tab, 'light', BUT_CODE, ALL_RULES, BUT_CONTRAST) == [], name

FOUND = {'MultiHeadAttention': '02_multihead.html#', '3.2.1': '01_attention.html#',
         '5.3': '06_optimizer.html#', 'd_k': '01_attention.html',
         'warm-up': '06_optimizer.html'}

def test_search_finds(tab, address):
    for query, found in FOUND.items():
        tab.goto(f'{address}/search.html?q={query}')
        tab.wait_for_selector('#search-results li a')
        links = tab.locator('#search-results li > a').all()
        hrefs = [a.get_attribute('href') for a in links]
        first = 1 if '#' in found else 6 # what is defined there comes first
        assert any(found in href for href in hrefs[:first]), (query, hrefs)

OWN_HEIGHT = '''box => { // without the place that is kept for it; test_live.py asks
    box.style.minHeight = 0
    const {height} = box.getBoundingClientRect()
    box.style.minHeight = ''
    return height
}'''

def test_theme_switches_and_code_copies(tab, address):
    tab.set_viewport_size(dict(width=1280, height=800))
    tab.goto(f'{address}/01_attention.html')
    has_color = 'c => getComputedStyle(document.body).backgroundColor == c'
    for theme, color in (('light', 'rgb(255, 255, 255)'), ('dark', 'rgb(18, 18, 18)')):
        tab.get_by_role('button', name='Theme').click()
        tab.wait_for_function(has_color, arg=color)
        assert tab.evaluate('document.documentElement.dataset.theme') == theme
        assert tab.evaluate("localStorage.getItem('mode')") == theme # for Translate here
    copies = tab.locator('button.copybtn').all_text_contents() # one reads what it does
    assert {text.strip() for text in copies} == {'Copy'} and len(copies) > 20
    figure = tab.locator('.cell_output img').first
    background = figure.evaluate('e => getComputedStyle(e).backgroundColor')
    assert background == 'rgba(0, 0, 0, 0)' # drawn for both

# Questions and figures

def stored_in(tab): return tab.evaluate('localStorage.length + sessionStorage.length')

def test_a_question_says_why_an_answer_is_wrong(tab, address):
    tab.goto(f'{address}/01_attention.html#questions')
    question = tab.locator('.question').first
    verdict = question.get_by_role('status')
    check = question.get_by_role('button', name='Check')
    assert question.get_by_role('radio').count() == 4
    assert question.get_by_role('group').get_attribute('aria-labelledby') == 'question-1'
    assert not question.locator('details').is_visible()
    check.click()
    assert verdict.inner_text() == 'Choose an answer first.'
    question.get_by_label('0.0', exact=True).click()
    check.click()
    assert verdict.inner_text().startswith('No. A query of zeros scores every key with 0.')
    assert verdict.get_attribute('class').split() == ['verdict']
    question.get_by_label('4.0', exact=True).click()
    assert verdict.inner_text() == '' # not what was said of another answer
    check.click()
    assert verdict.inner_text().startswith('Right. All scores are 0, all weights 1/5')
    assert verdict.get_attribute('class').split() == ['verdict', 'right']
    assert stored_in(tab) == 0
    tab.reload()
    assert tab.locator('.question input:checked').count() == 0

def test_a_figure_opens_at_full_size(tab, address):
    tab.goto(f'{address}/01_attention.html')
    figure = tab.locator('.cell_output img').nth(1)
    figure.scroll_into_view_if_needed()
    small = figure.bounding_box()['width']
    window = tab.locator('dialog.figure-window')
    alone = window.locator('img')
    button = tab.get_by_role('button', name='Figure 1.2 at full size')
    def is_open(): return bool(tab.evaluate("!!document.querySelector('dialog[open]')"))
    def opened(open_it):
        open_it()
        tab.wait_for_function("document.querySelector('dialog[open] img')?.width > 0")
        assert window.get_by_text('Figure 1.2:').is_visible()
        assert alone.get_attribute('alt') == figure.get_attribute('alt')
        return alone.bounding_box()['width']
    assert opened(figure.click) > 1.5 * small # as large as it was drawn
    assert tab.evaluate('document.documentElement.scrollWidth') <= 390
    alone.click(position=dict(x=5, y=5))
    assert not is_open()
    button.focus()
    opened(lambda: tab.keyboard.press('Enter'))
    prepare_axe(tab)
    for theme in ('light', 'dark'): assert unreadable(tab, theme, 'dialog') == []
    assert violations(tab, 'light', dict(include=['dialog']), ALL_RULES) == []
    tab.keyboard.press('Escape')
    assert not is_open() and button.evaluate('e => e == document.activeElement')

# Over a slow line nothing that is seen jumps, and little is needed before the first of it
# is seen. No times: a machine may be busy.

MOST_SHIFT = 0.05 # of the screen, weighted by how far; 0.1 counts as good
SLOW = dict(offline=False, latency=40, uploadThroughput=375_000,
            downloadThroughput=375_000) # 3 Mbit/s, in bytes
WATCH = '''() => {
    globalThis.shift = 0
    const add = list => list.getEntries().forEach(e => {
        if (!e.hadRecentInput) shift += e.value
    })
    new PerformanceObserver(add).observe({type: 'layout-shift', buffered: true})
}'''
BEFORE_PAINT = '''() => {
    const [{startTime}] = performance.getEntriesByName('first-contentful-paint')
    const files = performance.getEntriesByType('resource')
        .filter(e => e.responseEnd <= startTime)
    return files.map(e => [e.name, e.encodedBodySize])
}'''

def slowly(chromium, url, width):
    "A page of a context of its own, whose cache is empty"
    context = chromium.new_context(viewport=dict(width=width, height=800))
    context.add_init_script(f'({WATCH})()')
    page = context.new_page()
    device = context.new_cdp_session(page)
    device.send('Network.enable')
    device.send('Network.emulateNetworkConditions', SLOW)
    page.goto(url, wait_until='domcontentloaded', timeout=120_000)
    page.evaluate('document.fonts.ready.then(() => true)')
    page.wait_for_timeout(200) # until they are drawn
    return context, page

def test_nothing_jumps(chromium, address):
    "Whatever their words are: no text is seen before its fonts, and pictures have a size"
    context, page = slowly(chromium, f'{address}/index.html', 390)
    fonts = page.evaluate('[...document.fonts].map(font => font.status)')
    assert len(fonts) > 2 and {*fonts} == {'loaded'}
    assert page.evaluate('document.body.checkVisibility({visibilityProperty: true})')
    assert page.evaluate('shift') <= MOST_SHIFT
    before = page.evaluate(BEFORE_PAINT)
    assert not [name for name, _ in before if 'weights' in name]
    assert sum(size for _, size in before) < 250_000, before
    context.close()
