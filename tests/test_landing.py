"The first page of the site, before and after a script and the model have come."
import base64, gzip, re, shutil, threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
import landing, live, pytest
from repository import settings
from test_site import HTML
from transformer_nb.translation import Translator

ROOT = Path(__file__).parent.parent

@pytest.fixture(scope='module')
def translator(): return Translator(ROOT/'nbs/models'/landing.MODEL)

@pytest.fixture(scope='module')
def folder(tmp_path_factory, translator):
    "The box as it comes, and below it the ways on"
    folder = tmp_path_factory.mktemp('first')
    shutil.copytree(ROOT/'docs/static/fonts', folder/'fonts')
    live.write(ROOT/'nbs/models', folder/'live')
    style = (ROOT/'docs/static/book.css').read_text(encoding='utf8')
    box = landing.translation(translator)
    page = (f'<!doctype html><html lang="en" data-theme="light"><title>x</title>'
            f'<meta charset="utf-8"><link rel="stylesheet" href="live/live.css">'
            f'<style>{style}</style><main class="bd-article home">{box}'
            f'</main>')
    (folder/'favicon.ico').touch() # a browser asks for it
    (folder/'asleep.html').write_text(page, encoding='utf8')
    (folder/'index.html').write_text(page + live.LOADER, encoding='utf8')
    return folder

AWAKE = '''document.querySelector('.live-tokens button')
           && !document.querySelector('.live-busy')'''
WAKE = '''() => document.head.append(Object.assign(document.createElement('script'),
                                                   {src: 'live/live_load.js'}))'''

def tokens(page, name):
    row = page.get_by_role('group', name=name, exact=True)
    return row.locator('span, button').all_inner_texts()

def test_what_stands_ready_is_what_the_model_says(watched, folder):
    page = watched.page(java_script_enabled=False)
    page.goto((folder/'index.html').as_uri())
    typed = page.get_by_label('English').input_value()
    both = 'Tokens of the sentence', 'Translation'
    ready = [tokens(page, name) for name in both]
    chosen, said = page.inner_text('.chosen'), page.inner_text('.live-says')
    lines, whole = page.locator('.ready path').count(), page.inner_text('.live-whole')
    assert chosen == 'kommen' and '“come”' in said # a line that crosses
    assert '</s>' not in page.inner_text('.live') and 'robability' not in said
    assert whole == landing.EXAMPLES[typed]
    assert landing.EXAMPLES[typed].split()[0] == ready[1][0] and lines > 1
    page = watched.page()
    page.goto((folder/'index.html').as_uri())
    page.wait_for_function(AWAKE)
    assert page.get_by_label('English').input_value() == typed
    assert [tokens(page, name) for name in both] == ready
    assert page.inner_text('.live-tokens [aria-pressed=true]') == chosen
    assert page.inner_text('.live-says').startswith(said)
    assert page.inner_text('.live-whole') == whole
    assert page.locator('.live-lines path').count() == lines
    page.get_by_role('button', name='kommen').click() # what waits for a click
    assert 'Its probability was' in page.inner_text('.live-says')
    page.get_by_label('English').click() # what is typed replaces the example
    page.keyboard.type('I love you.')
    page.wait_for_selector('.live-whole:text("Ich liebe dich.")')

TOPS = """() => ['.live-whole', '.live-sides', '.live-says'].map(name =>
    Math.round(document.querySelector(name).getBoundingClientRect().top))"""

def test_the_picture_stays_when_the_model_arrives(watched, folder):
    "On a phone, too, its lines are there, and nothing has moved"
    for width in (390, 1280):
        page = watched.page(dict(width=width, height=844), own=True)
        page.goto((folder/'asleep.html').as_uri())
        before = page.evaluate(TOPS), page.locator('.ready path').count()
        page.evaluate(WAKE)
        page.wait_for_function(AWAKE)
        assert page.locator('.live-lines path').count() == before[1] > 1
        assert page.evaluate('document.documentElement.scrollWidth') <= width
        after = page.evaluate(TOPS)
        moved = [abs(x - y) for x, y in zip(after, before[0])]
        assert max(moved) <= 8, (width, after, before)

def test_who_types_before_the_model_is_here_loses_nothing(watched, folder):
    page = watched.page()
    page.goto((folder/'asleep.html').as_uri())
    page.get_by_label('English').fill('I love you.')
    page.get_by_label('English').press('Home')
    page.keyboard.type('Yes, ')
    page.evaluate('''() => new MutationObserver(() => (window.noted ??= []).push(
        document.querySelector('.live-whole')?.innerText
        + document.querySelectorAll('.ready, .live-tokens *').length
    )).observe(document.body, {subtree: true, childList: true, characterData: true})''')
    page.evaluate(WAKE)
    page.wait_for_selector('.live-presets button:not([aria-disabled])')
    page.keyboard.type('but ')
    page.wait_for_function(AWAKE)
    assert 'Loading the model…0' in page.evaluate('noted') # and not other German
    assert page.get_by_label('English').input_value() == 'Yes, but I love you.'
    page.wait_for_selector('.live-tokens :text("but")')
    href = page.get_by_role('link', name='Every head').get_attribute('href')
    assert href.endswith('translate_here.html#looked?t=Yes%2C%20but%20I%20love%20you.')

@pytest.fixture
def served(folder):
    with ThreadingHTTPServer(('127.0.0.1', 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()

def test_over_the_web_it_shows_how_much_of_the_model_is_here(watched, served):
    watched.allowed.append(served)
    page, asked = watched.page(own=True), []
    page.on('request', lambda request: asked.append(request.url.rpartition('/')[2]))
    page.add_init_script(COLLECT)
    page.goto(f'{served}/index.html')
    page.wait_for_function(AWAKE)
    shares = page.evaluate('shares')
    assert shares == sorted(shares) and shares[-1] == 1 and len(set(shares)) > 1
    of_model = [name for name in asked if name.startswith('everyday')]
    assert of_model == ['everyday_weights.bin', 'everyday_header.bin'] # once, in this order

@pytest.mark.parametrize('file', ['everyday_weights.bin', 'live.js'])
def test_what_failed_once_is_tried_again(chromium, served, file):
    "And until it is here, no German of another sentence stands there"
    page = chromium.new_page() # which complains of the file, too
    page.route(f'**/{file}', lambda route: route.abort(), times=1)
    page.goto(f'{served}/index.html')
    again = page.get_by_role('button', name='Try again')
    again.wait_for()
    if file != 'live.js': assert page.text_content('.live-whole') == ''
    again.click()
    page.wait_for_function(AWAKE)
    page.get_by_label('English').fill('I love you.')
    page.wait_for_selector('.live-whole:text("Ich liebe dich.")')
    assert again.count() == 0
    page.close()

MOST = 3_300_000 # bytes until a first translation: 9 seconds at 3 Mbit/s
NEEDED = ('live.js live.css live_load.js everyday_header.bin everyday_weights.bin '
          'learning_header.bin').split()

def test_little_is_needed_until_a_first_translation(folder):
    "With what the page of the site loads at first, of which `test_site.py` says how much"
    files = [folder/'live'/name for name in NEEDED]
    at_first = 250_000
    assert at_first + sum(path.stat().st_size for path in files) < MOST

def test_what_is_fetched_is_what_a_script_has(folder):
    def script(name, first, last): # between its first character of these and its last
        text = (folder/f'live/{name}.js').read_text(encoding='utf8')
        return text[text.index(first):text.rindex(last) + 1]
    def unpacked(name): return gzip.decompress((folder/f'live/{name}.bin').read_bytes())
    for name in (*live.MODELS, 'writer', 'learning'):
        header = script(f'{name}_header', '{', '}')
        assert unpacked(f'{name}_header').decode() == header
    for name in live.MODELS:
        encoded = script(f'{name}_weights', '"', '"')
        assert unpacked(f'{name}_weights') == base64.b64decode(encoded)

class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args): pass

COLLECT = '''globalThis.shares = []
const {setProperty} = CSSStyleDeclaration.prototype
CSSStyleDeclaration.prototype.setProperty = function (name, value) {
    if (name === '--share') shares.push(value)
    return setProperty.call(this, name, value)
}'''

def test_an_example_that_is_no_longer_right_is_not_shown(translator):
    best = SimpleNamespace(text='Ich liebe dich.')
    wrong = SimpleNamespace(candidates=lambda texts, alignments: [[best]])
    assert landing.first_example(wrong) == ('I love you.', best)
    best.text = 'Ich.'
    with pytest.raises(SystemExit, match='none of the examples'):
        landing.first_example(wrong)

def test_the_grader_answers():
    said = landing.graded(landing.STUDENT)
    assert said.startswith('Stage 1 · attention.py') and 'math.sqrt(d_k)' in said
    right = landing.STUDENT.replace('-2, -1)', '-2, -1) / query.shape[-1]**.5')
    assert '12 of 12' in (said := landing.graded(right)) and '→' not in said

# The page itself

@pytest.fixture(scope='module')
def first_page():
    if not (HTML/'index.html').exists(): pytest.skip('no site here; `make docs` builds it')
    return (HTML/'index.html').read_text(encoding='utf8')

def test_the_first_page_shows_what_the_grader_says(first_page):
    "It was graded while the site was built, by a process that had computed before"
    assert 'math.sqrt(d_k)' in first_page
    assert 'not reached' not in first_page

def test_the_first_screen_says_what_it_is_and_where_to_go(watched, first_page):
    "On a phone, too; and nobody is sent to a shell"
    article = re.search('<article.*</article>', first_page, re.S)[0]
    words = re.sub('<[^>]+>', ' ', article)
    for word in ('make ', '_build', 'git ', 'transformer_nb', '.venv'):
        assert word not in words, word
    page = watched.page(dict(width=390, height=844))
    page.goto((HTML/'index.html').as_uri())
    ways = page.locator('.ways a').all()
    hrefs = [way.evaluate('way => way.href.split("/").pop().split("?")[0]') for way in ways]
    assert hrefs == ['translate_here.html#tour', '00_introduction.html', 'build.html']
    says = page.locator('blockquote'), page.get_by_text('translates what you')
    for node in (*says, *ways):
        box = node.bounding_box()
        assert box['y'] + box['height'] < 844

def test_one_setting_names_the_book(first_page):
    title = settings(ROOT)['title']
    assert title != 'transformer_nb'
    assert f'<title>{title}: ' in first_page and f'<h1>{title}<' in first_page
    for name in ('01_attention', 'claims', 'search'):
        page = (HTML/f'{name}.html').read_text(encoding='utf8')
        assert f' – {title}</title>' in page, name

# The model that learns

def step_of(page): return int(page.locator('.live input[type=range]').input_value())

def test_it_moves_from_its_first_step_where_things_may_move(watched, first_page):
    for motion, first in (('no-preference', 0), ('reduce', 10)):
        page = watched.page(reduced_motion=motion)
        page.goto((HTML/'index.html').as_uri())
        page.get_by_role('heading', name='Watch one learn').scroll_into_view_if_needed()
        page.wait_for_selector('.live input[type=range]')
        if motion == 'reduce':
            assert step_of(page) == first
            continue
        page.locator('[data-live=learning]').scroll_into_view_if_needed()
        slider = "document.querySelector('.live input[type=range]')"
        page.wait_for_function(f'{slider}.value > 2')
        page.get_by_role('button', name='Stop').click()
        at = step_of(page)
        page.evaluate('() => new Promise(done => setTimeout(done, 800))')
        assert step_of(page) == at
