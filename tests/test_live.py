"""The live figures of the chapters, driven in a browser as a reader drives them, and their
numbers beside what the chapters' Python computes.

Every figure stands in a bare page that was opened from a file, with the site's own colors.
At its end each test looks whether the page complained, or asked anyone for anything.
"""
import ast, json, math, re, shutil
from pathlib import Path
import pytest
import torch
import live
from book import cells, chapters
from browser import PHONE, pause
from test_site import (
    ALL_RULES, BUT_CONTRAST, HTML, OWN_HEIGHT, prepare_axe, unreadable,
    violations)
from safetensors.torch import load_file
from transformer_nb.attention import scaled_dot_product_attention, to_ids
from transformer_nb.embedding import positional_encoding
from transformer_nb.translation import Translator

ROOT = Path(__file__).parent.parent
CHAPTERS = {name: path.stem for path in chapters(ROOT)
            for cell in cells(path, 'markdown') for name in live.names(cell.source)}
NAMES = sorted(CHAPTERS)

@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    "Pages with a figure each, beside the files that they share"
    folder = tmp_path_factory.mktemp('site')
    shutil.copytree(ROOT/'docs/static/fonts', folder/'fonts')
    live.write(ROOT/'nbs/models', folder/'live')
    style = (ROOT/'docs/static/book.css').read_text(encoding='utf8')
    for name in NAMES:
        box = live.boxes(f'<!-- live {name}: Try it, and look. -->')
        text = (f'<!doctype html><html lang="en" data-theme="light"><title>{name}</title>'
                f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
                f'<style>{style}</style>'
                f'<main class="bd-article"><h1>{name}</h1><div style="height: 40px"></div>'
                f'{box}</main>{live.LOADER}')
        (folder/f'{name}.html').write_text(text, encoding='utf8')
    return folder

@pytest.fixture
def open_figure(watched, folder):
    "Opens a figure: in the page that is open already, or (`fresh`) in its own"
    def open_page(name, fresh=False, ready=True, **options):
        if fresh: page = watched.page(**options)
        else: page = watched.keep('figures', **options)
        if not fresh and page.url.startswith('file:'): page.evaluate(REPLACE_FIGURE, name)
        else: page.goto((folder/f'{name}.html').as_uri())
        if ready: settle(page)
        return page
    return open_page

# The models that earlier figures of the page have asked for are there
REPLACE_FIGURE = '''name => {
    const [old, ...others] = document.querySelectorAll('.live'), box = old.cloneNode(true)
    for (const other of others) other.remove()
    box.querySelector('.live-stage').replaceChildren()
    box.classList.remove('live-busy')
    delete box.dataset.started
    box.dataset.live = name
    old.replaceWith(box)
    document.querySelector('h1').textContent = name
    scrollTo(0, 0)
    return modules.live.start(box)
}'''

SETTLED = '''document.querySelector('.live-says')
             && !document.querySelector('.live-busy')'''

def settle(page): page.wait_for_function(SETTLED, polling=20)

def says(page): return page.inner_text('.live-says')

def numbers(text):
    "The decimal ones; their minus signs are typographic"
    return [float(x) for x in re.findall(r'-?\d+\.\d+(?:e-?\d+)?', text.replace('−', '-'))]

def slide(page, name, value):
    "Moves a slider as the keyboard does, with its events"
    page.get_by_label(name, exact=True).fill(str(value))

def chapter_functions(chapter, **known):
    "What a chapter defines for itself, such as a loop that its package does not have"
    path, space = ROOT/f'nbs/{chapter}.ipynb', dict(known)
    for cell in cells(path, 'code'):
        if cell.is_exported: continue
        nodes = ast.parse(cell.text).body
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        module = ast.Module(functions, type_ignores=[])
        try: exec(compile(module, str(path), 'exec'), space)
        except NameError: pass # of another cell's imports
    return space

# The ground

def test_figures_in_chapters_are_those_that_exist(open_figure):
    page = open_figure(NAMES[0], fresh=True)
    assert sorted(page.evaluate('Object.keys(modules.live.FIGURES)')) == NAMES

def test_jupyter_gets_a_line_where_a_figure_is():
    for path in chapters(ROOT):
        for cell in cells(path, 'markdown'):
            if path.stem == 'index' or not live.names(cell.source): continue
            assert '*(On the site, ' in cell.source, path.stem
            assert 'On the site, there' not in live.boxes(cell.source)

def test_nothing_is_loaded_before_the_reader_is_near(watched, folder):
    name, asked = NAMES[0], []
    page = watched.page(own=True) # whose cache is empty
    page.on('request', lambda request: asked.append(request.url.rpartition('/')[2]))
    far = folder/'far.html'
    text = (folder/f'{name}.html').read_text(encoding='utf8')
    far.write_text(text.replace('height: 40px', 'height: 4000px'), encoding='utf8')
    page.goto(far.as_uri())
    pause(page, 300)
    scripts = [file for file in asked if not file.endswith('.woff2')] # the page's own
    assert scripts == ['far.html', 'live_load.js']
    assert (folder/'live/live_load.js').stat().st_size < 3000
    page.locator('.live').scroll_into_view_if_needed()
    settle(page)
    assert {'live.js', 'live.css'} <= set(asked)
    assert name in NEED_THE_MODEL or not any('_weights' in f for f in asked)

def test_on_paper_and_without_javascript_there_is_no_box(open_figure):
    page = open_figure(NAMES[0])
    assert page.locator('.live').is_visible()
    page.emulate_media(media='print')
    assert not page.locator('.live').is_visible()
    page = open_figure(NAMES[0], ready=False, java_script_enabled=False, fresh=True)
    assert not page.locator('.live').is_visible()

def test_a_figure_that_fails_says_so(open_figure):
    page = open_figure(NAMES[0], fresh=True)
    page.evaluate('''() => {
        modules.live.FIGURES.broken = () => { throw Error('a screw is loose') }
    }''')
    page.evaluate(REPLACE_FIGURE, 'broken')
    assert 'a screw is loose' in page.inner_text('[role=alert]')

NEED_THE_MODEL = {'neighbors', 'shuffle', 'translation'}

@pytest.mark.parametrize('name', NAMES)
def test_figure_for_everyone(open_figure, name):
    "It fits a phone, each control is reached by keyboard, and axe finds nothing"
    page = open_figure(name, viewport=PHONE, fresh=True)
    assert page.evaluate('document.documentElement.scrollWidth') <= 390
    for box in page.locator('.live-scroll').all():
        assert box.evaluate('node => node.scrollWidth <= node.clientWidth')
    assert not_reached_by_keyboard(page) == []
    prepare_axe(page)
    assert violations(page, 'light', ['body'], ALL_RULES, BUT_CONTRAST) == []
    for theme in ('light', 'dark'): assert unreadable(page, theme) == [], theme

def not_reached_by_keyboard(page):
    wanted = page.locator('.live-stage :is(button, input, select):visible').count()
    assert wanted > 0
    page.keyboard.press('Tab')
    for _ in range(wanted + 30):
        page.evaluate('''() => { // each control once, a group of radio buttons as one
            const seen = window.seen ??= new Set(), node = document.activeElement
            seen.add(node)
            const group = node.closest('[data-roving]')
            for (const other of group?.querySelectorAll('button') ?? []) seen.add(other)
            for (const other of document.querySelectorAll('input[type=radio]'))
                if (other.name === node.name) seen.add(other)
        }''')
        page.keyboard.press('Tab')
    return page.evaluate('''() => [...document.querySelectorAll(
        '.live-stage :is(button, input, select)')].filter(node => node.offsetParent)
        .filter(node => !seen.has(node)).map(node => node.outerHTML)''')

@pytest.mark.slow
@pytest.mark.parametrize('name', NAMES)
def test_figure_on_its_page(watched, name):
    "In the chapter that `make docs` built it fits a phone, and the place kept for it"
    path = HTML/f'{CHAPTERS[name]}.html'
    if not path.exists(): pytest.skip('no site here; `make docs` builds it')
    page = watched.page(PHONE)
    page.goto(path.as_uri())
    box = page.locator(f'.live[data-live={name}]')
    box.evaluate('node => node.closest("details")?.setAttribute("open", "")')
    box.scroll_into_view_if_needed()
    told = box.locator('.live-says')
    told.wait_for()
    page.wait_for_function('''name => {
        const box = document.querySelector(`.live[data-live=${name}]`)
        const isBusy = box.querySelector('.live-busy')
        return box.querySelector('.live-says').textContent && !isBusy
    }''', arg=name)
    assert page.evaluate('document.documentElement.scrollWidth') <= 390
    assert box.evaluate(OWN_HEIGHT) == pytest.approx(live.HEIGHTS[name][1], abs=60)

# 01: the query

K = torch.tensor([[0, math.log(4)], [math.log(2), 0], [math.log(3), 0]])
V = torch.tensor([[6., 0], [0, 6], [6, 6]])

@pytest.mark.parametrize('query', [(1.41, 0), (0, 1.41), (-4, -2.5), (0.3, 4)])
def test_query_equals_attention(open_figure, query):
    page = open_figure('query')
    for i, x in enumerate(query, 1): slide(page, f'query, component {i}', x)
    for log_size, allowed in ((1, [1, 1, 1]), (6, [1, 1, 1]), (1, [1, 0, 1]), (1, [0]*3)):
        slide(page, 'd_k', log_size)
        for j, is_allowed in enumerate(allowed, 1):
            page.get_by_label(f'Key {j} may be seen').set_checked(bool(is_allowed))
        q = torch.tensor([query]) / math.sqrt(2**log_size / 2) # of the size 2 there
        mask = torch.tensor([allowed], dtype=torch.bool)
        output, weights = scaled_dot_product_attention(q, K, V, mask)
        shown = page.locator('.live-bar').all_inner_texts()
        assert [float(x) for x in shown] == pytest.approx(weights[0].tolist(), abs=0.0051)
        assert numbers(says(page))[-2:] == pytest.approx(output[0].tolist(), abs=0.0051)
        row = page.locator('tbody tr').nth(0).locator('td').all_inner_texts()
        score = (q @ K[0]).item() / math.sqrt(2)
        if allowed[0]: assert numbers(row[3]) == [pytest.approx(score, abs=0.0051)]
        else: assert row[3] == '−∞'

def test_a_finger_drags_the_query_and_scrolls_beside_it(open_figure):
    page = open_figure('query', viewport=dict(width=390, height=700), has_touch=True,
                       is_mobile=True, fresh=True)
    device = page.context.new_cdp_session(page)
    def touch(kind, *points):
        points = [dict(x=x, y=y) for x, y in points]
        device.send('Input.dispatchTouchEvent', dict(type=kind, touchPoints=points))
    def swipe(x, y, dx, dy):
        touch('touchStart', (x, y))
        for i in range(1, 11): touch('touchMove', (x + dx*i/10, y + dy*i/10))
        touch('touchEnd')
        pause(page, 200)
    box, before = page.locator('.handle .dot').bounding_box(), says(page)
    assert before.endswith('(4.00, 5.00).') # as in the chapter
    x, y = box['x'] + box['width']/2, box['y'] + box['height']/2
    swipe(x, y, -40, -60)
    moved = page.locator('.handle .dot').bounding_box()
    assert moved['x'] == pytest.approx(box['x'] - 40, abs=3)
    assert moved['y'] == pytest.approx(box['y'] - 60, abs=3)
    assert page.evaluate('scrollY') == 0 and says(page) != before
    before = says(page)
    swipe(60, y + 100, 0, -120)
    assert page.evaluate('scrollY') > 50 and says(page) == before

# 08: merges

TEXTS = ['A skateboarder is skateboarding.', 'Die Mäuse im Haus.', 'aaaa  aa\n a',
         'qwertz 🐶 123 don’t', 'Ein Mann mit einem orangefarbenen Hut starrt etwas an.']

def test_merges_are_those_of_the_tokenizer(open_figure, translator):
    "Step by step, the chapter's `merge`; at the end, the tokens of the library"
    merge = chapter_functions('08_text')['merge']
    tokenizer = translator.tokenizer
    known = json.loads(tokenizer.to_json())['model']['merges']
    page = open_figure('merges')
    steps_of = '''async text => {
        const {Tokenizer} = modules.tokenizer
        const tokenizer = new Tokenizer(await modules.live_model.modelHeader('captions'))
        return modules.live_merges.mergeSteps(tokenizer, text)
            .map(({words}) => words.map(ids => ids.map(id => tokenizer.tokens[id])))
    }'''
    for text in TEXTS:
        plain = tokenizer.tokenizer.normalizer.normalize_str(text)
        split = tokenizer.tokenizer.pre_tokenizer.pre_tokenize_str(plain)
        words = [tuple(word) for word, _ in split]
        wanted = [words]
        for pair in known:
            words = [merge(word, tuple(pair)) for word in words]
            if words != wanted[-1]: wanted.append(words)
        found = page.evaluate(steps_of, text)
        assert [[tuple(word) for word in words] for words in found] == wanted
        tokens = [tokenizer.tokenizer.id_to_token(i) for i in tokenizer.encode(text)]
        assert [piece for word in found[-1] for piece in word] == tokens

def test_merges_play_and_stop(open_figure):
    page = open_figure('merges')
    page.get_by_label('Text').fill('Ein')
    pieces = 'document.querySelectorAll(".live-word span").length == %d'
    page.wait_for_function(pieces % 3)
    page.get_by_role('button', name='Play', exact=True).click()
    page.wait_for_function(pieces % 1)
    assert says(page).endswith('these are the tokens.')
    page.get_by_role('button', name='Play', exact=True).wait_for() # it has stopped
    slide(page, 'merges made', 0)
    assert page.locator('.live-word span').all_inner_texts() == list('Ein')

# 00: a translation, and where it looked

@pytest.fixture(scope='module')
def translator(): return model_called('captions')

@pytest.fixture(scope='module')
def everyday(): return model_called('everyday')

def model_called(name):
    folder = (live.MODELS | live.TOKENIZERS)[name]
    return Translator(ROOT/'nbs/models'/folder, torch.device('cpu'))

def type_text(page, text):
    page.get_by_label('English').fill(text)
    pause(page, 300) # until it counts as typed
    settle(page)

@pytest.mark.parametrize('text', [
    'I think that she will come tomorrow.', 'Hello!', 'A girl is riding a bike'])
def test_translation_equals_pytorch(open_figure, everyday, text):
    page = open_figure('translation')
    type_text(page, text)
    read = text if text[-1] in '.!' else f'{text}.'
    [[best]] = everyday.candidates([read], alignments=True)
    rows = page.locator('.live-tokens')
    german = rows.nth(1).locator('button')
    shown = [piece.removeprefix('-') for piece in german.all_inner_texts()]
    assert shown == [piece.strip() for piece in best.pieces[:-1]] + ['end']
    for i in range(german.count()):
        german.nth(i).click()
        weights = rows.nth(0).locator('span').evaluate_all(
            "nodes => nodes.map(node => Number(node.style.getPropertyValue('--w')))")
        assert weights == pytest.approx(best.alignment[i].tolist(), abs=2e-3)
        drawn = page.locator('.live-lines path').count()
        assert drawn == sum(w >= 0.05 for w in weights)

def test_translation_by_keyboard_and_without_text(open_figure):
    page = open_figure('translation')
    german = page.locator('.live-tokens button')
    german.first.focus()
    for key in ('End', 'ArrowLeft'): page.keyboard.press(key)
    assert page.evaluate('document.activeElement.textContent') == '.'
    assert 'To write “.”' in says(page)
    type_text(page, '   ')
    page.get_by_text('Type a sentence', exact=False).wait_for()
    assert german.count() == 0

def test_nonsense_and_a_second_sentence_are_said(open_figure):
    page = open_figure('translation')
    assert 'The German is' not in says(page)
    type_text(page, 'The court dismissed the appeal as unfounded.')
    assert says(page).startswith('The German is probably nonsense: the model gave its own')
    type_text(page, 'Two dogs are playing in the snow. A man is riding a bike.')
    assert says(page).startswith('Only the first sentence is translated here. To write')
    german = page.locator('.live-tokens').nth(1).locator('button').all_inner_texts()
    assert german == ['Zwei', 'Hunde', 'spielen', 'im', 'Schnee', '.', 'end']
    assert page.inner_text('.live-whole') == 'Zwei Hunde spielen im Schnee.'
    type_text(page, 'I love you ❤')
    assert page.inner_text('.live-whole') == 'Ich liebe dich ❤'
    type_text(page, 'I love you. 12')
    assert says(page).startswith('Only the first sentence')
    type_text(page, 'Call 555-1234.')
    assert says(page).startswith('Beware: the numbers differ: 555, 1234 is missing and')
    type_text(page, '12')
    assert page.inner_text('.live-whole') == 'Nothing to translate: 12 comes back as it is.'
    type_text(page, 'Ich habe den Hund nicht gesehen.')
    assert says(page).startswith('This looks like German, but the model reads English. To')
    type_text(page, 'I know that ' * 10)
    assert page.inner_text('.live-full') == 'The field is full: 120 characters.'

def test_the_newest_sentence_is_answered(open_figure):
    page = open_figure('translation')
    for text in ('A dog.', 'A cat is sleeping.', 'A man is sleeping.'):
        page.get_by_label('English').fill(text)
        pause(page, 255)
    page.wait_for_function('document.querySelector(".live-says").textContent.length > 0')
    settle(page)
    assert 'Mann' in page.locator('.live-tokens').nth(1).inner_text()

@pytest.mark.parametrize('name', ['translation', 'merges', 'shuffle'])
def test_odd_sentences(open_figure, name):
    "None at all, half a character's bytes, and a word that is wider than a phone"
    page = open_figure(name, viewport=PHONE)
    field = page.locator('.live-field input')
    for text in ('', '🐶', 'A', 'a'*80):
        field.fill(text)
        pause(page, 300)
        settle(page)
        assert page.evaluate('document.documentElement.scrollWidth') <= 390, text
        if not text and name == 'translation':
            assert page.inner_text('.live-whole').startswith('Type a sentence')

# 04: positions

@pytest.mark.parametrize('log_size, first, second', [(1, 3, 7), (0, 0, 99), (3, 50, 50)])
def test_positions_equal_the_encoding(open_figure, log_size, first, second):
    d = (8, 16, 64, 512)[log_size]
    page = open_figure('positions')
    for name, x in (('d_model', log_size), ('first position', first),
                    ('second position', second)): slide(page, name, x)
    p, q = positional_encoding(100, d)[[first, second]]
    assert numbers(says(page)) == [pytest.approx((p @ q).item(), abs=0.0051)]
    pairs = (p*q).view(-1, 2).sum(1).tolist()
    texts = page.locator('svg .middle.name').all_text_contents()
    shown = [numbers(text)[-1] for text in texts if text.startswith('pair')]
    some = {8: [0, 1, 2, 3], 16: [0, 1, 3, 4, 6, 7], 512: [0, 51, 102, 153, 204, 255]}[d]
    assert shown == pytest.approx([pairs[i] for i in some], abs=0.0051) # fast to slow
    names = [text.split(':')[0] for text in texts if text.startswith('pair')]
    assert names == [f'pair {i}' for i in some]
    assert (f' Six of the {d//2} pairs are drawn' in says(page)) == (d > 8)

def test_shuffled_words_without_positions(open_figure, everyday):
    "One translation for all orders; with positions, PyTorch's own"
    page = open_figure('shuffle')
    assert says(page) == 'Now shuffle the words: the first keeps its place.'
    for n in (2, 3):
        page.get_by_role('button', name='Shuffle the words').click()
        page.wait_for_function(f'document.querySelectorAll("tbody tr").length == {n}')
        settle(page)
    rows = [row.locator('td').all_inner_texts() for row in page.locator('tbody tr').all()]
    english, german, without = map(list, zip(*rows))
    assert len(set(english)) == 3
    assert all(text.endswith('.') for text in english) # the mark stays at the end
    assert len({tuple(sorted(text[:-1].split())) for text in english}) == 1
    assert german == everyday.translate(english)
    assert len(set(without)) == 1
    assert 'without them, one and the same translation' in says(page)

# 04: words with similar rows

@pytest.mark.parametrize('word', ['Mary', 'Hund', 'drink'])
def test_neighbors_equal_the_rows(open_figure, everyday, word):
    table = everyday.model.state_dict()['embeddings.0.weight'].float()
    rows = torch.nn.functional.normalize(table - table.mean(0), dim=1)
    _, token = everyday.tokenizer.encode(f'a {word}')
    cosines, near = (rows @ rows[token]).topk(11)
    page = open_figure('neighbors')
    page.get_by_label('Word').fill(word)
    pause(page, 300) # until it counts as typed
    settle(page)
    shown = page.locator('.live-stage svg text').all_text_contents()
    names = [everyday.tokenizer.decode([i]).strip() for i in near[1:].tolist()]
    assert [name.removeprefix('-') for name in shown[::2]] == names
    found = [float(x) for x in shown[1::2]]
    assert found == pytest.approx(cosines[1:].tolist(), abs=0.0051)
    assert f'“{names[0]}”' in says(page)

# 07a: the model that writes

def chapter_class(chapter, name, **known):
    for cell in cells(ROOT/f'nbs/{chapter}.ipynb', 'code'):
        if f'class {name}' in cell.text: exec(cell.text, known)
    return known[name]

def test_writer_equals_pytorch(open_figure):
    from transformer_nb.embedding import Embedding, PositionalEncoding
    from transformer_nb.model import EncoderLayer, Stack, TransformerConfig
    from transformer_nb.multihead import causal_mask
    Writer = chapter_class('07a_without_a_source', 'Writer', nn=torch.nn,
        Tensor=torch.Tensor, Embedding=Embedding, EncoderLayer=EncoderLayer, Stack=Stack,
        PositionalEncoding=PositionalEncoding, causal_mask=causal_mask,
        TransformerConfig=TransformerConfig)
    folder = ROOT/'nbs/models/writer'
    config = json.loads((folder/'config.json').read_text(encoding='utf8'))
    model = Writer(TransformerConfig(**config)).eval()
    model.load_state_dict(load_file(folder/'model.safetensors'))
    page = open_figure('writer')
    for text in ('', 'I want to', "Why didn't you"):
        ids = to_ids([text])[:, :-1]
        with torch.no_grad(): wanted = model(ids)[0, -1]
        found = page.evaluate('''async text => {
            const writer = await modules.live_writer.loadWriter()
            return [...writer.scores(writer.ids(text))]
        }''', text)
        assert found == pytest.approx(wanted.tolist(), abs=2e-3)

def test_two_sentences_at_once_are_one(open_figure):
    "And a character that is clicked meanwhile is of the sentence in the row"
    page = open_figure('writer')
    for _ in range(3):
        page.evaluate("""() => {
            const write = document.querySelector('.live-presets button')
            write.click()
            document.querySelector('.live-tokens button:nth-child(3)').click()
            write.click()
        }""")
        page.wait_for_function("!document.querySelector('.live-busy')")
        row = page.locator('.live-tokens button').all_text_contents()
        row = [x[1:] if x[0] == '-' and len(x) > 1 else x for x in row if x != 'end']
        assert ''.join(row).replace('␣', ' ') == page.text_content('.live-written')

# Second actions: the reader changes what an earlier action has chosen

STORIES = {}

def story(figure, *actions):
    "The last of these actions meets what the others left; then the check is called"
    def keep(check):
        STORIES[check.__name__] = figure, actions, check
        return check
    return keep

def press(page, name): page.get_by_role('button', name=name, exact=True).click()
def token(page, i): page.locator('.live-tokens button').nth(i).click()
def fill(page, name, text): page.get_by_label(name, exact=True).fill(text)
def drag(page, selector, dx, dy):
    box = page.locator(selector).bounding_box()
    x, y = box['x'] + box['width']/2, box['y'] + box['height']/2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx, y + dy, steps=4)
    page.mouse.up()

def do(page, act, *args):
    act(page, *args)
    pause(page, 300) # until what was typed counts
    settle(page)

def slides(page, *names):
    return [float(page.get_by_label(name, exact=True).input_value()) for name in names]

def cells_of(page):
    return [row.locator('td').all_inner_texts() for row in page.locator('tbody tr').all()]

@story('positions', (slide, 'both together', 95), (slide, 'first position', 10))
def the_second_position_stays_and_both_follow(page, captions, everyday):
    wanted = [10, 99, 10]
    assert slides(page, 'first position', 'second position', 'both together') == wanted
    p, q = positional_encoding(100, 16)[[10, 99]]
    assert numbers(says(page)) == [pytest.approx((p @ q).item(), abs=0.0051)]

@story('query', (press, 'Query 2'), (drag, '.handle .dot', 700, -700))
def a_query_dragged_beyond_the_plane_stays_in_it(page, captions, everyday):
    assert slides(page, 'query, component 1', 'query, component 2') == [4, 4]
    q = torch.tensor([[4., 4]])
    output, _ = scaled_dot_product_attention(q, K, V)
    assert numbers(says(page))[-2:] == pytest.approx(output[0].tolist(), abs=0.0051)

@story('neighbors', (fill, 'Word', 'Hund'), (fill, 'Word', 'Xylophon'))
def no_bars_stay_of_the_word_before(page, captions, everyday):
    assert page.locator('.live-stage svg rect').count() == 0
    assert 'Hund' not in says(page) and 'no row for “Xylophon”' in says(page)

SHUFFLES = [(press, 'Shuffle the words')]*6

@story('shuffle', (press, 'My brother gave the woman a book.'), *SHUFFLES)
def of_seven_orders_the_first_and_the_newest_are_kept(page, captions, everyday):
    rows = cells_of(page)
    assert len(rows) == 6 and rows[0][0] == 'My brother gave the woman a book.'
    assert says(page).startswith('6 orders of the same words.')
    assert [row[1] for row in rows] == everyday.translate([row[0] for row in rows])

@story('writer', (press, 'I want to …'), (token, 2), (press, 'Write a sentence'))
def another_sentence_begins_after_what_is_given(page, captions, everyday):
    assert page.inner_text('.live-written').startswith('I want to')
    assert says(page).startswith('After “I want to”, the likeliest were ')

@story('translation', (token, 7), (fill, 'English', 'Hello!'))
def another_sentence_has_a_token_of_its_own(page, captions, everyday):
    german = page.locator('.live-tokens button')
    assert page.locator('.live-tokens [aria-pressed=true]').count() == 1
    [[best]] = everyday.candidates(['Hello!'], alignments=True)
    assert german.count() == len(best.pieces)
    i = german.evaluate_all('all => all.findIndex(x => x.ariaPressed === "true")')
    shown = page.locator('.live-tokens').first.locator('span').evaluate_all(
        "all => all.map(node => Number(node.style.getPropertyValue('--w')))")
    assert shown == pytest.approx(best.alignment[i].tolist(), abs=2e-3)

# 00, and the first page: a model that learns

LINES = (ROOT/'nbs/results/learning.jsonl').read_text(encoding='utf8').splitlines()
LEARNING = list(map(json.loads, LINES))

@pytest.mark.parametrize('name', STORIES)
def test_a_second_action(open_figure, translator, everyday, name):
    figure, actions, check = STORIES[name]
    page = open_figure(figure)
    for act, *args in actions: do(page, act, *args)
    check(page, translator, everyday)

@pytest.mark.parametrize('i', [1, 9, 20])
def test_learning_shows_what_was_stored(open_figure, i):
    page, row = open_figure('learning'), LEARNING[i]
    slide(page, 'step of the training', i)
    text = says(page)
    assert f'After {row["step"]} steps the loss is {row["loss"]:.2f}.' in text
    assert f'{row["exact"]} of {row["of"]} sequences' in text
    shown = page.locator('.square').evaluate_all(
        "nodes => nodes.map(x => Math.round(100 * x.getAttribute('fill-opacity')))")
    assert shown == [w for weights in row['weights'] for w in weights]
    wrong = [a != b for a, b in zip(row['written'], row['source'])]
    assert page.locator('svg .wrong').count() == sum(wrong)

def test_learning_plays_to_its_end_and_again(open_figure):
    page = open_figure('learning')
    slide(page, 'step of the training', 19)
    page.get_by_role('button', name='Play').click()
    page.wait_for_selector('.live-says:text("After 600 steps")')
    page.wait_for_selector('.live-play button:text("Play")')
    page.get_by_role('button', name='Play').click()
    assert page.get_by_label('step of the training').input_value() != '20' # from its start
    slide(page, 'step of the training', 7) # which stops it
    page.wait_for_selector('.live-play button:text("Play")')
    assert f'After {LEARNING[7]["step"]} steps' in says(page)
