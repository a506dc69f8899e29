"""The page that `tnb_export MODEL page.html` writes, in a browser: where things are, how it
is reached, how it loads. What it says and computes is asked in Node (`test_page.py`).
Every page is opened from a file, and must not complain or ask anyone for anything."""
import re, shutil, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
import pages, pytest
from beside import BOY, MODEL, VIEWS
from browser import PATIENCE, pause
from test_site import ALL_RULES, AXE, MOST_SHIFT, WATCH, load_axe
from transformer_nb.formats.page import export_page

ROOT = Path(__file__).parent.parent
DESK, PHONE = dict(width=1280, height=800), dict(width=390, height=844)

@pytest.fixture(scope='module')
def address(chromium, tmp_path_factory):
    path = tmp_path_factory.mktemp('playground')/'a page.html'
    export_page([str(MODEL)], path)
    return path.as_uri()

@pytest.fixture(scope='module')
def site(chromium, tmp_path_factory):
    "Addresses of the pages that translate, by name, as the site has them"
    folder = tmp_path_factory.mktemp('site')
    pages.playground(ROOT, folder)
    return {name: (folder/name).as_uri() for name in pages.TRANSLATE}

@pytest.fixture
def new_page(watched, address): return opener(watched, address)

def opener(watched, address):
    "Opens pages with this end of their address; `fresh`: not one that is open already"
    def open_page(hash='', address=address, fresh=False, script=None, **options):
        if hash and 't=' not in hash: # else the first example
            hash += ('&' if '?' in hash else '?') + f't={BOY}'
        is_kept = not (fresh or script)
        if is_kept: page = watched.keep(address, **options)
        else: page = watched.page(own=bool(script), **options)
        if is_kept and page.url.startswith(address):
            page.evaluate(AS_AT_FIRST, hash)
            settle(page)
            return page
        if script: page.add_init_script(script)
        page.goto(f'{address}{hash}')
        when_ready(page)
        return page
    return open_page

# As the page is when it has just been opened, and then follows a link
AS_AT_FIRST = '''hash => {
    const $ = id => document.getElementById(id)
    $('tour-end').click()
    for (const node of document.querySelectorAll('details')) node.open = false
    const top = {top: 0, left: 0, behavior: 'instant'}
    for (const node of document.querySelectorAll('*')) node.scrollTo(top)
    document.activeElement.blur()
    $('text').value = ''
    past.length = 0
    for (const name in shown) delete shown[name]
    Object.assign(now, {scene: null, trouble: '', wrong: '', ownPin: null, shuffle: null})
    Object.assign(state, {model: Object.keys(models)[0], row: 0, col: 0, lines: 'layer'})
    history.replaceState(null, '', hash || location.pathname)
    dispatchEvent(new PopStateEvent('popstate'))
}'''

INSIDE = '''() => {
    const {store, parts, answers, scene, words} = modules
    Object.assign(window, store, parts, answers, scene, words)
}'''

def when_ready(page):
    "What the modules export has its names in the tests, too"
    page.evaluate('tnb.ready')
    page.evaluate(INSIDE)
    settle(page)

SETTLED = '''!document.querySelector('.busy')
    && (document.querySelectorAll('#tgt .chip').length > 0) == (state.text.trim() != '')'''

def wait(page, condition, arg=None):
    "Until a condition holds (`wait_for_function` would need eval, which the page forbids)"
    page.evaluate('''arg => new Promise((resolve, reject) => {
        const last = Date.now() + %d
        const look = () => %s ? resolve() : Date.now() > last ? reject(Error('too late'))
            : setTimeout(look, 20)
        look()
    })''' % (PATIENCE, f'({condition})'), arg)

def settle(page): wait(page, SETTLED)
def at_rest(page): wait(page, '!queue.wanted.length && !queue.running')
def go_to(page, view): page.click(f'#tab-{view}')
def texts(page, selector): return page.locator(selector).all_inner_texts()

def type_text(page, text):
    page.fill('#text', text)
    wait(page, 'state.text == arg', text)
    settle(page)

def translation(page):
    "As the chips have it"
    label = page.get_attribute('#tgt', 'aria-label')
    return label.removeprefix('Translation: ')

def width_of(page): return page.evaluate('document.documentElement.scrollWidth')
def focused(page): return page.evaluate('document.activeElement.id')

# A sentence, by keyboard and by mouse

def test_it_translates_while_one_types(new_page):
    page = new_page('#looked?t=', fresh=True) # the worth of 48 heads comes in all the time
    assert texts(page, '#tgt .chip') == []
    page.fill('#text', 'Two dogs') # half a word is waited for
    pause(page, 200)
    assert page.evaluate('state.text') == ''
    page.locator('#text').press('End')
    page.locator('#text').press_sequentially(' are playing in the snow.', delay=40)
    wait(page, 'now.scene?.text == "Two dogs are playing in the snow."')
    assert page.input_value('#text') == 'Two dogs are playing in the snow.'
    assert translation(page) == 'Zwei Hunde spielen im Schnee.'
    type_text(page, '<img src=x onerror=alert(1)> A dog. </s> <b>') # text is never markup
    for view in VIEWS:
        go_to(page, view)
        assert page.locator('main :is(img, b:has(*))').count() == 0
    assert page.locator('#src .chip').last.inner_text() == 'end'

def test_by_keyboard_only(new_page):
    page = new_page('#type', fresh=True)
    name = 'document.activeElement.id || document.activeElement.className'
    def tab_to(wanted):
        for _ in range(25):
            page.keyboard.press('Tab')
            if wanted in page.evaluate(name): return
        raise AssertionError(f'Tab does not reach {wanted}')
    def press(*keys):
        for key in keys: page.keyboard.press(key)
    tab_to('text')
    press('Control+a')
    page.keyboard.type('A dog is running on the beach.')
    wait(page, "now.scene.text == 'A dog is running on the beach.'")
    tab_to('chip') # of the source
    tab_to('chip') # of the translation: arrows within, Enter pins
    press('ArrowRight', 'Enter')
    assert page.evaluate('state.pin') == 't1'
    tab_to('tab-type')
    press('ArrowRight', 'ArrowRight', 'Enter')
    assert page.evaluate('state.view') == 'looked'
    press('Escape')
    assert page.evaluate('state.pin') is None
    tab_to('head')
    press('ArrowDown', 'Enter')
    assert page.evaluate('state.head == document.activeElement.dataset.head')
    go_to(page, 'break')
    tab_to('switch')
    tab_to('head')
    press('ArrowDown')
    key = page.evaluate('document.activeElement.dataset.head')
    press('Space')
    wait(page, 'now.scene.off.length == 1')
    assert page.evaluate('state.off') == [key] and key.split('.')[1] == '2'
    assert page.evaluate('document.activeElement.dataset.head') == key # focus stays
    for button in ('reset', 'undo'): # each keeps it, though it can do no more
        page.focus(f'#{button}')
        press('Enter')
        assert focused(page) == button
    press('Control+z')
    wait(page, 'now.scene.off.length == 0')
    go_to(page, 'type')
    tab_to('choice')
    press('ArrowRight', 'ArrowDown', 'Enter') # second choice of the second token
    wait(page, 'now.scene.force.length == 2')
    page.click('#examples summary')
    press('Tab', 'Escape')
    assert page.evaluate('document.activeElement.tagName') == 'SUMMARY'
    page.click('#examples summary')
    page.mouse.click(700, 880)
    assert not page.evaluate("document.getElementById('examples').open")
    go_to(page, 'machine')
    page.focus('[data-box="memory"]')
    press('Enter', 'Escape')
    assert page.evaluate('document.activeElement.dataset.box') == 'memory'

def test_by_mouse(new_page):
    page = new_page('#looked')
    for selected in (len(BOY), 0): # a second click sets the cursor
        page.click('#text')
        place = page.evaluate("[text.selectionStart, text.selectionEnd]")
        assert place[1] - place[0] == selected
    chips = page.locator('#tgt .chip')
    chips.nth(2).click()
    page.mouse.move(5, 5)
    pinned = page.inner_html('#lines')
    chips.nth(4).hover() # a preview, which moves no pin
    assert page.inner_html('#lines') != pinned and 'pin=2' in page.url
    assert texts(page, '#map .rows .chosen') == ['Ball']
    page.mouse.move(5, 5)
    assert page.inner_html('#lines') == pinned
    page.locator('#map canvas').click(position=dict(x=30, y=4.5*24))
    assert 'pin=4' in page.url # the fifth row
    page.locator('#map canvas').hover(position=dict(x=1.5*24, y=4.5*24))
    title = page.get_attribute('#map canvas', 'title')
    assert title.startswith('Ball → boy: ')
    go_to(page, 'inside')
    page.locator('#pair-map canvas').click(position=dict(x=4.5*24, y=5.5*24))
    assert page.input_value('#pair-row') == '5' and page.input_value('#pair-col') == '4'
    go_to(page, 'machine')
    wait(page, "document.querySelector('[data-names]')")
    for word, token in dict(t1='t1', s1='s1').items(): # each is followed
        page.click(f'#machine-picture [data-at={word}]')
        assert page.evaluate('state.pin') == token
    page.set_viewport_size(DESK)
    for box in ('[data-names="memory"]', '[data-box="decoder.4"]'): # its name opens it, too
        page.click(box)
        wait(page, IN_SIGHT, '#machine-open')
        page.click('#panel-machine .look') # beside it
        assert page.locator('#machine-open').is_hidden()

def test_back_and_a_reload(new_page):
    page = new_page('#type')
    go_to(page, 'looked')
    go_to(page, 'break')
    page.click('#switches [data-head="cross.3.4"]')
    type_text(page, 'A dog is chasing a cat.')
    page.go_back()
    wait(page, "state.view == 'looked'")
    assert page.locator('#panel-looked').is_visible()
    assert page.input_value('#text') == 'A dog is chasing a cat.' # it is not undone
    before = translation(page)
    page.reload()
    when_ready(page)
    assert translation(page) == before and page.evaluate('state.off') == ['cross.3.4']
    page.evaluate("location.hash = '#step?t=A+cat.&off=c3.1'") # a link brings everything
    wait(page, "state.view == 'step' && now.scene.text == 'A cat.'")

# One screen

IN_SIGHT = """(() => { // as a whole
    const {left, right, top, bottom} = document.querySelector(arg).getBoundingClientRect()
    return left >= 0 && right <= innerWidth && top >= 0 && bottom <= innerHeight + 1
})()"""
VIEW = """(() => { // its tabs and its beginning
    const {top, bottom} = document.getElementById('tabs').getBoundingClientRect()
    return top >= 0 && bottom <= 0.45 * innerHeight
})()"""
TABS = "document.getElementById('tabs').getBoundingClientRect().top"

def test_sentence_translation_and_view_are_on_one_screen(new_page, site):
    "Nothing moves when a view opens, and nothing when a part is switched off"
    for size, most in ((DESK, 480), (PHONE, 800), (dict(width=320, height=640), 1000)):
        page = new_page('', site['translate_here.html'], fresh=True, viewport=size,
                        reduced_motion='reduce') # a click may scroll, which ends a glide
        places = set()
        for off in ('', 'cross.3.1'):
            if off: page.evaluate('off => toggle(off)', off)
            for view in VIEWS if not off else VIEWS[:1]:
                go_to(page, view)
                at_rest(page)
                wait(page, VIEW)
                places.add(page.evaluate(f'Math.round({TABS} + scrollY)'))
                assert width_of(page) <= size['width'], view
        wait(page, IN_SIGHT, '#banner')
        assert len(places) == 1 and places.pop() < most, size

def test_nothing_jumps(new_page):
    page = new_page('#looked', reduced_motion='reduce')
    page.evaluate('scrollTo(0, 0)')
    def places():
        return [page.locator(x).bounding_box()['y'] for x in ('#tabs', '#maps', '#map')]
    wait(page, 'Object.keys(costs()).length == 48 && !queue.running')
    before = places()
    page.locator('#tgt .chip').nth(2).click()
    assert places() == before
    for text in ('A boy is picking up a ball', 'a boy is picking up a ball', ''):
        type_text(page, text)
        assert page.locator('#tabs').bounding_box()['y'] == before[0], text
    hint = "getComputedStyle(document.getElementById('tgt'), '::before').content"
    assert 'translation' in page.evaluate(hint) # of nothing
    assert page.locator('#read-back, #copy-text').locator('visible=true').count() == 0
    type_text(page, BOY)
    page.click('#tab-break')
    head = page.locator('#switches [data-head="cross.4.4"]')
    place = head.bounding_box()
    head.click()
    settle(page)
    assert head.bounding_box() == place
    bar = page.locator('#banner').bounding_box()
    assert bar['y'] + bar['height'] <= page.locator('#panel-break').bounding_box()['y'] + 1

CAMERA = 'A+man+who+is+holding+a+camera+is+standing+in+front+of+a+church+and+'
PHONE_ORDER = ['#text', '#tgt', '#status', '#choices', '#try', '#tabs']

def test_a_phone(new_page, site):
    page = new_page('', site['translate_here.html'], viewport=PHONE, fresh=True)
    tops = [page.locator(part).bounding_box()['y'] for part in PHONE_ORDER]
    assert tops == sorted(tops) # the sentence, its translation and a try come first
    names = 'all => all.map(node => `#${node.id}`)'
    found = page.eval_on_selector_all(', '.join(PHONE_ORDER), names)
    assert found == PHONE_ORDER # in the document, too, for who cannot see it
    go_to(page, 'looked') # lines would run behind other rows: the tint is all
    colors = page.eval_on_selector_all('#src .chip',
        'all => all.map(node => getComputedStyle(node).backgroundColor)')
    assert page.locator('#lines path').count() == 0 and len(set(colors)) > 1
    line, head = page.locator('#sticky'), page.locator('#switches [data-head="cross.4.4"]')
    go_to(page, 'break')
    wait(page, "document.getElementById('sticky').matches('.seen')")
    assert texts(page, '#sticky > *') == [page.input_value('#text'), translation(page)]
    page.evaluate("""() => { // a head that stands where the bar will
        const head = document.querySelector('#switches [data-head="cross.4.4"]')
        const {bottom} = head.getBoundingClientRect()
        scrollBy({top: bottom - innerHeight, behavior: 'instant'})
    }""")
    head.click()
    wait(page, 'now.scene.off.length == 1')
    bar = page.locator('#banner').bounding_box()
    assert head.bounding_box()['y'] + head.bounding_box()['height'] <= bar['y']
    page.evaluate("toggle('cross')")
    wait(page, 'now.scene.off.length == 2')
    box = line.bounding_box() # what came of it, where one looks
    assert page.locator('#sticky .changed').count() == 1 and line.is_visible()
    assert box['y'] == 0 and box['width'] == 390 and box['height'] < 100
    head.focus()
    page.keyboard.press('Shift+Tab') # what has the focus is not below a line or a bar
    place = page.evaluate('document.activeElement.getBoundingClientRect().toJSON()')
    assert place['top'] >= box['height']
    assert place['bottom'] <= page.locator('#banner').bounding_box()['y']
    page.click('#reset')
    go_to(page, 'step')
    page.wait_for_selector('#steps > li')
    page.evaluate('update({step: 99})') # of the tree, the newest column is seen
    at_end = 'box => box.scrollLeft + box.clientWidth >= box.scrollWidth - 1'
    assert page.eval_on_selector('#tree-box', at_end)
    page.set_viewport_size(DESK) # turned, or a window made wide
    wait(page, "document.getElementById('choices').parentElement.tagName == 'HEADER'")

def test_on_a_phone_the_machine_is_turned(new_page, site):
    page = new_page('#machine?pin=2', site['translate_here.html'], viewport=PHONE)
    at_rest(page)
    box = page.locator('#machine-picture').bounding_box()
    assert box['width'] <= 390 < 1000 < box['height']
    tops = [page.locator(f'[data-box="{key}"]').bounding_box()['y']
            for key in ('embedding.encoder', 'encoder.4', 'memory', 'cross.1', 'output')]
    assert tops == sorted(tops) # it goes down
    page.click('[data-box="cross.2"]')
    opened = page.locator('#machine-open').bounding_box()
    assert opened['x'] >= 0 and opened['x'] + opened['width'] <= 390
    outside = page.eval_on_selector_all('#machine-picture text', """all => all.filter(x => {
        const {left, right, top} = x.getBoundingClientRect()
        const above = x.ownerSVGElement.getBoundingClientRect().top
        return left < 8 || right > 390 || top < above
    }).map(x => x.textContent)""")
    assert outside == []

def test_words_have_room(new_page):
    page = new_page('#type?t=A+girl+in+an+orange+shirt+is+kicking+a+black+ball.')
    broken = page.eval_on_selector_all('.choice span', '''all => all.map(x => {
        const range = document.createRange()
        range.selectNodeContents(x)
        return range.getClientRects().length > 1 ? x.textContent : ''
    }).filter(Boolean)''')
    assert broken == [] # no card breaks a common word
    page = new_page(f'#looked?t={CAMERA * 3}')
    heights = page.eval_on_selector_all('#map .rows span', '''all => all.map(node => {
        const range = document.createRange()
        range.selectNodeContents(node)
        const {top, bottom} = range.getBoundingClientRect()
        return [top, bottom]
    })''')
    assert len(heights) > 30 # names beside a map do not touch
    assert all(a[1] <= b[0] + .5 for a, b in zip(heights, heights[1:]))

# For everyone

WRONG_TONGUE = '''() => { // words of one sentence that are marked as the other's language
    const words = tokens => new Set(tokens.map(x => x.text.trim())
        .filter(text => /^\\p{L}{3,}$/u.test(text)))
    const ofSentence = {de: words(now.scene.tgt), en: words(now.scene.src)}
    const walker = document.createTreeWalker(document.querySelector('main'), 4)
    const wrong = []
    while (walker.nextNode()) {
        const {textContent, parentElement: node} = walker.currentNode
        const {lang} = node.closest('[lang]'), other = {de: 'en', en: 'de'}[lang]
        const isQuoted = node.closest('#notes, #experiment-says, #examples')
        if (!node.offsetParent || isQuoted) continue
        for (const word of textContent.match(/\\p{L}+/gu) ?? []) {
            const isWrong = ofSentence[other].has(word) && !ofSentence[lang].has(word)
            if (isWrong) wrong.push(`${word} in ${node.outerHTML.slice(0, 80)}`)
        }
    }
    return wrong
}'''

# What can be hit: links in a text and the parts of the picture apart, which have names
SMALL = '''least => [...document.querySelectorAll('button, select, summary, input, a[id]')]
    .filter(node => {
        const {width, height} = node.getBoundingClientRect()
        const isOfText = node.matches('.chip, #exact, #to-book, [type=range], [type=radio]')
        const isSmall = width < 24 || height < (isOfText ? 24 : least)
        return node.checkVisibility({visibilityProperty: true}) && isSmall
            && !node.matches('.part')
    }).map(node => node.outerHTML.slice(0, 99))'''

@pytest.mark.parametrize('scheme, size, paper, asked', [
    ('light', DESK, 'rgb(255, 255, 255)', ('type', 'machine', 'step')),
    ('dark', PHONE, 'rgb(18, 18, 18)', ('looked', 'break', 'inside'))],
    ids=['light', 'dark'])
def test_accessible(new_page, scheme, size, paper, asked):
    "By axe each view once; in all of them each word has its language, and room"
    page = new_page('#type?pin=3&off=c3.1', color_scheme=scheme, viewport=size)
    color = 'getComputedStyle(document.body).backgroundColor'
    assert page.evaluate(color) == paper
    load_axe(page)
    for view in VIEWS:
        go_to(page, view)
        at_rest(page)
        if view == 'machine': page.click('[data-box="memory"]')
        if view == 'looked': # beside a map stands what a square says
            page.focus('#map')
            page.keyboard.press('ArrowDown')
        assert width_of(page) <= size['width'], view
        assert page.evaluate(WRONG_TONGUE) == [], view
        assert page.evaluate(SMALL, 40 if size is PHONE else 24) == [], view
        assert '</s>' not in page.inner_text('main'), view # it is called the end
        if view in asked: assert page.evaluate(AXE, [['html'], ALL_RULES, []]) == [], view
    page = new_page(f'#type?pin=3&off=c3.1&t={CAMERA * 2}', viewport=size)
    for view in VIEWS: # of a long sentence
        go_to(page, view)
        at_rest(page)
        assert width_of(page) <= size['width'], view

def test_forced_colors_no_motion_and_paper(new_page):
    page = new_page('#looked?pin=3', forced_colors='active', reduced_motion='reduce')
    background = 'e => getComputedStyle(e).backgroundColor'
    pinned = page.locator('.chip[aria-pressed=true]').evaluate(background)
    assert pinned != page.locator('#tgt .chip').first.evaluate(background)
    page.evaluate("toggle('cross.3.1')")
    assert page.evaluate('document.getAnimations().length') == 0
    landscape = dict(width=1000, height=690)
    page = new_page('#machine?off=c3.1', viewport=landscape, media='print')
    left_out = page.locator('#tabs, #experiments, #machine-steps, #machine-boxes, #tour')
    assert left_out.locator('visible=true').count() == 0
    assert page.locator('#banner').evaluate('e => getComputedStyle(e).position') == 'static'
    for shown in ('#text', '#src', '#tgt', '#machine-picture', '#machine-says'):
        box = page.locator(shown).bounding_box()
        assert box['x'] >= 0 and box['x'] + box['width'] <= landscape['width'], shown
    assert width_of(page) <= landscape['width']

# The tour's box covers neither the page nor what it points at, whose beginning is in view,
# as is the translation that changes
BESIDE = '''(() => {
    const place = name => document.querySelector(name).getBoundingClientRect()
    const isIn = ({top}) => top >= 0 && top < innerHeight - 100, tour = place('#tour')
    const isFree = ['main', '.pointed'].every(name => place(name).right <= tour.left)
    const isWhole = tour.bottom <= innerHeight
    const isBelow = place('.pointed').top + 300 < tour.top // of the machine, which is wide
    return (isFree || isBelow) && isWhole && isIn(place('.pointed')) && isIn(place(arg))
})()'''

def test_the_tour_hides_nothing_that_it_speaks_of(new_page, site):
    page = new_page('', site['translate_here.html'], viewport=DESK)
    page.focus('#start-tour')
    page.keyboard.press('Enter')
    for _ in range(8):
        settle(page)
        is_type = page.evaluate('state.view') == 'type'
        wait(page, BESIDE, '#tgt' if is_type else '.pointed')
        page.keyboard.press('Enter') # the focus is on Next
    page = new_page('', site['translate_german.html'], viewport=dict(PHONE, height=664),
                    reduced_motion='reduce')
    page.click('#start-tour')
    bottom = lambda box: box['y'] + box['height']
    for i in range(8):
        settle(page)
        card = page.locator('#tour').bounding_box()
        pointed = page.locator('.pointed').bounding_box()
        is_tall = pointed['height'] > card['y'] - 16 # then its beginning is seen
        if is_tall: assert pointed['y'] == pytest.approx(16, abs=1) and card['y'] > 300
        else: assert 0 <= pointed['y'] and bottom(pointed) <= card['y']
        if i < 2: assert bottom(page.locator('#tgt').bounding_box()) <= card['y']
        assert width_of(page) <= 390
        if i == 6: check_it_makes_room(page)
        page.click('#tour-next')

def check_it_makes_room(page):
    "For what it asks to try; a tap brings it back"
    page.click('#machine-play')
    assert page.locator('#tour').bounding_box()['height'] < 120
    assert page.locator('#tour-next').is_visible() and page.locator('#sticky').is_visible()
    wait(page, "document.getElementById('machine-says').innerText.startsWith('Token 2')")
    says = page.locator('#machine-says').bounding_box() # what changes is seen above it
    assert says['y'] + says['height'] <= page.locator('#tour').bounding_box()['y']
    page.click('#tour-title')
    assert page.locator('#tour-says').is_visible()

def test_presenting(new_page):
    page = new_page()
    size = "parseFloat(getComputedStyle(document.querySelector('#tgt')).fontSize)"
    before = page.evaluate(size)
    page.click('#present')
    assert page.evaluate(size) > 1.3 * before and 'p=1' in page.url
    assert page.locator('footer').is_hidden()
    for key in ('PageDown', 'PageUp', 'PageDown'): page.keyboard.press(key)
    wait(page, 'now.scene.text == arg', BOY)
    pause(page, 300) # a page would scroll smoothly
    assert page.evaluate('scrollY') == 0 # the sentence stays in view
    page.keyboard.press('Escape')
    assert page.locator('footer').is_visible() and 'p=1' not in page.url

# Beside other pages

def test_a_page_of_the_site_reads_back_by_the_page_beside_it(new_page, site):
    "Which is loaded when the reader wants it, and not before"
    page = new_page('#type?t=I+have+lost+my+keys.', site['translate_here.html'], fresh=True)
    def read_back():
        wait(page, """!queue.running && !queue.wanted.length
            && !document.getElementById('way-back').matches('.old')""")
        return page.inner_text('#way-back q')
    assert page.locator('iframe').count() == 0 and page.locator('#way-back').is_hidden()
    page.click('#read-back')
    assert read_back() == 'I lost my keys.'
    type_text(page, 'I love you.')
    assert read_back() == 'I love you.' and page.locator('iframe').count() == 1
    page.click('#read-back')
    assert page.locator('#way-back').is_hidden()
    for name in ('translate_german.html', 'translate_here.html'): # it translates both ways
        text = translation(page)
        page.click('#turn')
        page.wait_for_url(f'**/{name}#type?t=*')
        when_ready(page)
        assert page.input_value('#text') == text
        assert 'everyday sentences' in page.inner_text('#promise')
    assert 'Tatoeba (tatoeba.org), CC BY 2.0 FR' in page.inner_text('#about')
    for name, address in site.items():
        size = Path(address.removeprefix('file://')).stat().st_size
        assert size < 15e6, f'{name}: {size:,} bytes'

def test_a_page_that_is_missing_says_so(chromium, site, tmp_path):
    "One of the site's pages, taken away alone"
    shutil.copy(site['translate_here.html'].removeprefix('file://'), tmp_path)
    page = chromium.new_page() # whose browser complains of the missing file, too
    page.goto((tmp_path/'translate_here.html').as_uri() + '#type?t=I+love+you.')
    when_ready(page)
    page.click('#read-back')
    says = 'It cannot be read back: translate_german.html is missing.'
    wait(page, "document.getElementById('way-back').innerText.trim() == arg", says)
    assert translation(page) == 'Ich liebe dich.'
    assert 'engine' not in page.inner_text('#status')
    page.close()

def test_it_leads_to_the_book_where_there_is_one(new_page, tmp_path):
    page = new_page('#type')
    assert page.locator('a[href]').count() == 0 # a page by itself has no book
    export_page([str(MODEL)], tmp_path/'page.html', book='./')
    page = new_page('#looked', (tmp_path/'page.html').as_uri(), color_scheme='light',
                    script="localStorage.setItem('mode', 'dark')")
    color = 'getComputedStyle(document.body).backgroundColor'
    assert page.evaluate(color) == 'rgb(18, 18, 18)' # the theme of the site
    assert page.locator('#to-book').get_attribute('href') == './index.html'
    links = page.eval_on_selector_all('a[data-chapter]', 'all => all.map(a => a.href)')
    chapters = {link.rpartition('/')[2].removesuffix('.html') for link in links}
    assert chapters and all((ROOT/f'nbs/{name}.ipynb').exists() for name in chapters)

# While it loads

def path_of(address): return Path(address.removeprefix('file://').replace('%20', ' '))

def test_a_page_that_is_cut_says_so(chromium, address, tmp_path):
    "Half a download: in the weights, in the engine, or in the last script"
    text, page = path_of(address).read_text(encoding='utf8'), chromium.new_page()
    for at in ('id="weights-', 'id="engine"', 'globalThis.tnb ='):
        assert text.count(at) == 1
        (tmp_path/'page.html').write_text(text[:text.index(at) + 40], encoding='utf8')
        page.goto((tmp_path/'page.html').as_uri())
        said = 'the file is incomplete: download it again'
        page.wait_for_selector(f'#status:text("{said}")', state='attached')
    page.close()

@pytest.fixture
def slow_page(address):
    "The page as a server sends it that stops in the weights, until it may go on"
    data, may_go_on = path_of(address).read_bytes(), threading.Event()
    half = (data.index(b'id="weights-') + len(data)) // 2
    class Slow(BaseHTTPRequestHandler):
        def log_message(self, *args): pass
        def do_GET(self):
            self.send_response(200)
            self.send_header('Content-Type', 'text/html')
            self.send_header('Content-Length', str(len(data)))
            self.end_headers()
            self.wfile.write(data[:half])
            may_go_on.wait(PATIENCE/1000)
            self.wfile.write(data[half:])
    with ThreadingHTTPServer(('127.0.0.1', 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}/', may_go_on
        may_go_on.set()
        server.shutdown()

SEEN_SO_FAR = '''() => [...document.querySelectorAll('#stage .chip')].map(chip => {
    const {x, y, width, height} = chip.getBoundingClientRect()
    return [chip.firstChild.innerText, x, y, width, height]
})'''
ON_ITS_WAY = '#status:text-matches("on its way: [1-9]")'

@pytest.mark.parametrize('width', [320, 1280])
def test_while_the_weights_come_there_is_something_to_see(chromium, slow_page, width):
    "And when they are here, nothing has moved"
    url, may_go_on = slow_page
    page = chromium.new_page(viewport=dict(width=width, height=800))
    page.add_init_script(f'({WATCH})()')
    page.goto(url, wait_until='commit')
    page.wait_for_selector(ON_ITS_WAY)
    share = int(re.search(r'(\d+)%', page.inner_text('#status'))[1])
    assert 20 < share < 80
    ready, promise = page.evaluate(SEEN_SO_FAR), page.inner_text('#promise')
    labels = [chip[0] for chip in ready]
    assert labels.count('end') == 2 and labels[-1] == 'end' and len(labels) > 10
    assert not page.locator('#tabs').is_visible() # which would do nothing
    assert page.locator('.chip:not([tabindex="-1"])').count() == 0 # nor would they
    first = page.input_value('#text')
    may_go_on.set()
    page.wait_for_selector('body.ready')
    page.wait_for_selector('#stage:not(.busy)')
    assert page.input_value('#text') == first and page.inner_text('#promise') == promise
    assert page.evaluate(SEEN_SO_FAR) == ready
    assert page.locator('.chip[tabindex="0"]').count() == 2 # one of each side
    pause(page, 200)
    assert page.evaluate('shift') <= MOST_SHIFT
    page.close()

def test_what_is_typed_while_the_weights_come_is_translated(chromium, slow_page):
    "And meanwhile nothing is shown of another sentence"
    url, may_go_on = slow_page
    page = chromium.new_page()
    for hash in ('#type?t=A+cat+is+sleeping.', ''): # a linked one, and the page's own
        page.goto(url + hash, wait_until='commit')
        page.wait_for_selector(ON_ITS_WAY)
        assert (page.input_value('#text') == 'A cat is sleeping.') == bool(hash)
        assert (page.locator('#stage .chip').count() == 0) == bool(hash)
    page.fill('#text', 'A dog is running.')
    assert page.locator('#stage .chip').count() == 0
    assert page.inner_text('#field-note') == 'Loading the model…'
    may_go_on.set()
    page.wait_for_selector('#src .chip:has-text("dog")')
    assert page.input_value('#text') == 'A dog is running.'
    page.close()
