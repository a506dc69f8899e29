"""The page that `tnb_export MODEL page.html` writes, driven in a browser as a reader drives
it, and its numbers beside PyTorch's.

Every page is opened from a file. At its end each test looks whether the page complained, or
asked anyone for anything.
"""
import math, re, shutil, threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
import pytest
import torch
import pages
from browser import PATIENCE, pause
from running import sample
from test_site import ALL_RULES, AXE, MOST_SHIFT, WATCH, load_axe
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.corpora import everyday_sentences
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.decoding import search
from transformer_nb.formats.page import export_page
from transformer_nb.model import Transformer, TransformerConfig, attention_weights
from transformer_nb.multihead import causal_mask, padding_mask
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator
from transformer_nb.studies.attention_maps import without_heads

ROOT = Path(__file__).parent.parent
MODEL = ROOT/'nbs/models/multi30k-en-de'
BOY, BOY_DE = 'A boy is picking up a ball.', 'Ein Junge hebt einen Ball auf.'
VIEWS = ['type', 'machine', 'looked', 'break', 'step', 'inside']

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

@pytest.fixture(scope='module')
def own_model(tmp_path_factory):
    "A reader's own: pre-norm, five heads, two layers and three, without notes and examples"
    folder = tmp_path_factory.mktemp('own')/'mine'
    sentences = [text for pair in mini_corpus(0, 500, 0, 0)['train'] for text in pair]
    tokenizer = BPETokenizer.train(sentences, 300)
    set_seed(0)
    config = TransformerConfig(300, d_model=40, d_ff=64, n_heads=5, d_k=6, d_v=4,
                               n_encoder_layers=2, n_decoder_layers=3, norm='pre',
                               positions='learned', max_len=64, tie_embeddings=False)
    save_model(folder, Transformer(config), tokenizer)
    return folder

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

def type_text(page, text):
    page.fill('#text', text)
    wait(page, 'state.text == arg', text)
    settle(page)

def go_to(page, view): page.click(f'#tab-{view}')

def choose_example(page, text):
    page.click('#examples summary')
    page.click(f'#examples-list button:text-is("{text}")')
    wait(page, 'now.scene?.text == arg', text)

def texts(page, selector): return page.locator(selector).all_inner_texts()

def translation(page):
    "As the chips have it"
    label = page.get_attribute('#tgt', 'aria-label')
    return label.removeprefix('Translation: ')

def numbers(text):
    "The decimal ones; their minus signs are typographic"
    return [float(x) for x in re.findall(r'-?\d+\.\d+', text.replace('−', '-'))]

@pytest.fixture(scope='module')
def torch_model(): return Translator(MODEL, torch.device('cpu'))

def inputs(translator, text, ids):
    src = translator.tokenizer.encode(text) + [EOS]
    return torch.tensor([src]), torch.tensor([[BOS] + ids[:-1]])

def torch_maps(translator, page, text=BOY):
    "Of what the page shows: by kind, (N, h, t, s)"
    with torch.no_grad():
        maps = attention_weights(translator.model, *inputs(translator, text, ids_of(page)))
    return {kind: x[:, 0] for kind, x in maps.items()}

def log_prob(translator, text, ids, heads=()): # heads count from 0
    src, tgt = inputs(translator, text, ids)
    with torch.no_grad(), without_heads(translator.model, heads):
        log_probs = translator.model(src, tgt).log_softmax(-1)
    return sum(log_probs[0, t, i].item() for t, i in enumerate(ids))

def ids_of(page): return page.evaluate('now.scene.ids')

# Type

def test_it_translates_while_one_types(new_page, torch_model):
    page = new_page('#type?t=', fresh=True)
    assert texts(page, '#tgt .chip') == []
    page.locator('#text').press_sequentially('Two dogs are playing', delay=20)
    page.locator('#text').press_sequentially(' in the snow.', delay=20)
    wait(page, 'now.scene?.text == "Two dogs are playing in the snow."')
    settle(page)
    [wanted] = torch_model.translate(['Two dogs are playing in the snow.'])
    assert translation(page) == wanted
    assert ''.join(page.evaluate('now.scene.tgt.map(x => x.text)')) == wanted + '</s>'
    assert texts(page, '#tgt .chip > span')[-1] == 'end'
    assert 'log p' not in page.inner_text('main') # not at first sight
    go_to(page, 'looked')
    log_p = page.evaluate('now.scene.written.log_prob')
    assert numbers(page.inner_text('#log-p'))[0] == pytest.approx(log_p, abs=.005)
    again = page.evaluate("tnb.translate('Two dogs are playing in the snow.')")
    assert again['text'] == translation(page)
    assert sorted(again) == ['ids', 'ms', 'score', 'text'] and again['ids'][-1] == EOS

def test_typing_is_not_disturbed_by_answers(new_page):
    page = new_page('#looked', fresh=True) # the worth of 48 heads comes in all the time
    text = 'A dog is chasing a cat.'
    page.fill('#text', '')
    page.locator('#text').press_sequentially(text, delay=90)
    assert page.input_value('#text') == text
    wait(page, 'now.scene?.text == arg', text)

def test_alternatives_are_the_likeliest_next_tokens(new_page, torch_model):
    page = new_page('#type')
    ids = ids_of(page)
    with torch.no_grad(): logits = torch_model.model(*inputs(torch_model, BOY, ids))
    likeliest = logits[0].softmax(-1).topk(5)
    cards = page.locator('.card')
    assert cards.count() == len(ids)
    for i, values in enumerate(likeliest.values.tolist()):
        wanted = [f'{100*p:.0f}%' if p >= .005 else '<1%' for p in values]
        assert texts(page, f'.card:nth-child({i + 1}) .choice small') == wanted

def test_a_token_is_forced_and_the_rest_follows(new_page):
    page = new_page('#type')
    assert translation(page) == BOY_DE
    page.locator('.card').nth(5).locator('.choice', has_text='hoch').click()
    wait(page, "now.scene.written.text.includes('hoch')")
    assert translation(page) == 'Ein Junge hebt einen Ball hoch.'
    assert page.locator('#tgt .forced').count() == 6
    assert 'the first 6 tokens are fixed' in page.inner_text('#banner') # in every view
    page.locator('.card').first.locator('.choice', has_text='Eine').click()
    wait(page, "now.scene.written.text.startsWith('Eine')")
    assert page.locator('#tgt .forced').count() == 1
    page.click('#undo')
    wait(page, "now.scene.written.text.includes('hoch')")
    page.click('#reset')
    wait(page, 'now.scene.force.length == 0')
    settle(page)
    assert translation(page) == BOY_DE

def test_an_unfinished_character_is_waited_for(new_page):
    page = new_page('#type')
    compose = '''unfinished => {
        const field = document.getElementById('text')
        field.value = 'A cat.'
        const event = unfinished ? new InputEvent('input', {isComposing: true})
            : new CompositionEvent('compositionend')
        field.dispatchEvent(event)
    }'''
    page.evaluate(compose, True)
    pause(page, 300)
    assert page.evaluate('state.text') == BOY
    page.evaluate(compose, False)
    wait(page, "now.scene.text == 'A cat.'")

def test_notes(new_page):
    page = new_page('#looked?t=&b=1')
    notes = {
        'The parliament adopted the resolution.': 'captions of photos',
        BOY: 'Switch off one of 48 heads, cross 4.4',
        'A dog and ' * 22: 'no maps'} # of more than sixty tokens
    for text, note in notes.items():
        type_text(page, text)
        wait(page, "document.getElementById('notes').innerText.includes(arg)", note)
    type_text(page, 'A man is riding a bike.')
    wait(page, "document.getElementById('notes').innerText == ''")

@pytest.mark.long # test_limits in test_engine.py has a short model
def test_too_long(new_page): # the engine reads 511 tokens; the field holds 2,000 characters
    page = new_page('#type?x=1&t=' + '😀'*300 + '&b=1')
    wait(page, 'now.scene')
    assert 'Too long: only the first 511 tokens are read.' in texts(page, '#notes li')
    n, status = page.evaluate('now.scene.ids.length'), page.inner_text('#status')
    assert f'stopped after {n} tokens' in status # where one looks, and why below
    notes = texts(page, '#notes li')
    assert any(note.startswith(f'Stopped after {n} tokens') for note in notes)
    assert page.locator('#tgt .chip small').first.is_hidden() # no empty line below each
    page.fill('#text', 'y' * 2000)
    page.locator('#text').press('End')
    page.keyboard.insert_text('zz')
    assert page.input_value('#text') == 'y' * 2000

def test_no_doubt_of_an_older_sentence_is_told_of_a_newer_one(new_page):
    page = new_page('#type')
    type_text(page, 'The parliament adopted the resolution. A man is sleeping.')
    page.click('.sentence:nth-child(1)')
    settle(page)
    assert 'Sentence 1 is' in page.inner_text('#notes')
    notes = page.evaluate('''() => { // at once, while the newer one is being translated
        update({text: 'A dog is running. A cat is sleeping.', nth: 0})
        return [now.busy, document.getElementById('notes').innerText]
    }''')
    assert notes == [True, '']

@pytest.mark.long
def test_a_long_sentence_is_cut_between_words(new_page):
    page = new_page('#type?t=&b=1')
    note = 'Of a sentence, the first 300 characters are translated here.'
    type_text(page, 'A dog sleeps. ' + 'A cat '*60) # the last one is long
    wait(page, 'now.scene?.text == arg', ('A cat '*50).strip() + '.')
    assert note in texts(page, '#notes li')
    cut = 'text => modules.sentences.sentencesOf(text).map(x => [...x].length)'
    assert page.evaluate(cut, 'A ' + '🐶'*400) == [300] # between characters, if need be
    assert page.evaluate(cut, 'y'*300) == [300]
    type_text(page, 'A cat '*49)
    assert note not in texts(page, '#notes li')

def test_spaces_at_the_ends_do_not_count(new_page, site):
    texts_in = {'translate_here.html': ('I have a dog.', 'Ich habe einen Hund.'),
                'translate_german.html': ('Hallo.', 'Hello.')}
    for name, (text, wanted) in texts_in.items():
        page = new_page('#type?t=', site[name])
        for typed in (f'{text} ', f'  {text}\n ', f'{text} {text} '):
            type_text(page, typed)
            wait(page, 'now.scene.text == arg', text)
            settle(page)
            assert translation(page) == wanted
            assert '␣' not in texts(page, '#src .chip > span')
            assert page.input_value('#text') == typed # what is typed stays

def test_of_several_sentences_it_says_which_is_meant(new_page):
    page = new_page('#type')
    assert page.locator('#sentences-note').is_hidden()
    type_text(page, 'A man is riding a bike. The parliament adopted the resolution.')
    page.click('.sentence:nth-child(2)')
    settle(page)
    assert page.locator('#sentences-note').is_visible()
    assert texts(page, '#notes li')[0].startswith('Sentence 2 is ')

def test_bytes_of_a_character_are_named(new_page):
    page = new_page('#type')
    page.evaluate('update({exact: true})')
    type_text(page, 'A dog 🐶.')
    said = '“🐶” is no token that it has, and is read as its 4 bytes.'
    assert said in page.inner_text('#notes')
    titles = [x.get_attribute('title') for x in page.locator('#src .chip').all()]
    assert [t for t in titles if t.startswith('byte')][-1] == 'byte 4 of 4 of 🐶'

def test_text_is_never_markup(new_page):
    page = new_page('#type')
    type_text(page, '<img src=x onerror=alert(1)> A dog. </s> <b>')
    for view in VIEWS:
        go_to(page, view)
        settle(page)
        assert page.locator('main :is(img, b:has(*))').count() == 0
    assert page.locator('#src .chip').last.inner_text() == 'end'

# Looked

def test_lines_are_the_weights(new_page, torch_model):
    page = new_page('#looked', fresh=True)
    maps = torch_maps(torch_model, page)
    mean = {kind: x[2].mean(0) for kind, x in maps.items()} # of layer 3
    i = 5 # auf
    page.locator('#tgt .chip').nth(i).hover()
    cross = mean['cross'][i]
    self_attention = mean['decoder'][i, 1:] # without <s>, which has no chip
    drawn = [w.item() for w in torch.cat([cross, self_attention]) if w >= .05]
    lines = page.locator('#lines path').all()
    widths = [float(line.get_attribute('stroke-width')) for line in lines]
    assert widths == pytest.approx([1 + 8*w for w in drawn], abs=1e-3)
    shares = page.evaluate('''[...document.querySelectorAll('#src .chip')]
        .map(x => Number(x.style.getPropertyValue('--w')))''')
    assert shares == pytest.approx([w if w >= .05 else 0 for w in cross.tolist()], abs=1e-4)
    page.locator('#src .chip').nth(1).hover()
    seen, seen_by = mean['encoder'][1], mean['cross'][:, 1]
    n = (torch.cat([seen, seen_by]) >= .05).sum()
    assert page.locator('#lines path').count() == n
    page.mouse.move(5, 5)
    assert page.locator('#lines path').count() == 0
    page.evaluate("update({lines: 'head', head: 'cross.3.4'})")
    page.locator('#tgt .chip').nth(i).hover()
    drawn = [w for w in maps['cross'][2, 3, i].tolist() if w >= .05]
    lines = page.locator('#lines path').all() # of this head, which sees only the source
    widths = [float(line.get_attribute('stroke-width')) for line in lines]
    assert widths == pytest.approx([1 + 8*w for w in drawn], abs=1e-3)

def test_a_pin_stays_and_hovering_previews(new_page):
    page = new_page('#looked')
    chips = page.locator('#tgt .chip')
    chips.nth(2).click()
    page.mouse.move(5, 5)
    pinned = page.inner_html('#lines')
    assert 'pin=2' in page.url and chips.nth(2).get_attribute('aria-pressed') == 'true'
    chips.nth(4).hover()
    assert page.inner_html('#lines') != pinned
    assert chips.nth(2).get_attribute('aria-pressed') == 'true'
    assert texts(page, '#map .rows .chosen') == ['Ball']
    page.mouse.move(5, 5)
    assert page.inner_html('#lines') == pinned
    page.keyboard.press('Escape')
    assert page.locator('#lines path').count() == 0 and 'pin' not in page.url

def test_a_pin_that_a_view_set_stays_there(new_page):
    page = new_page('#type')
    pinned = page.locator('#tgt .chip[aria-pressed=true]').count
    go_to(page, 'looked')
    assert pinned() == 1 # of which there are lines at once
    for leave in (lambda: go_to(page, 'type'), lambda: page.go_back()):
        leave()
        wait(page, "state.view == 'type'")
        assert pinned() == 0 and 'pin' not in page.url
        go_to(page, 'looked')
    page.locator('#tgt .chip').nth(2).click()
    go_to(page, 'break')
    assert pinned() == 1 and 'pin=2' in page.url # the reader's own

def test_48_heads_one_large_and_as_a_table(new_page, torch_model):
    page = new_page('#looked')
    assert page.locator('#maps .head').count() == 48
    page.click('#maps [data-head="encoder.3.1"]')
    assert page.inner_text('#head-name') == 'encoder 3.1'
    pressed = page.locator('#maps .head[aria-pressed=true]')
    assert [x.get_attribute('data-head') for x in pressed.all()] == ['encoder.3.1']
    page.click('#as-table summary')
    maps = torch_maps(torch_model, page)['encoder']
    for head in (2, 1): # the table, which is open, follows the map
        page.click(f'#maps [data-head="encoder.3.{head}"]')
        wanted = maps[2, head - 1]
        shown = numbers(' '.join(texts(page, '#as-table td')))
        shown = torch.tensor(shown).view_as(wanted)
        torch.testing.assert_close(shown, wanted, atol=.0051, rtol=0)
    assert texts(page, '#as-table th[scope=row]') == texts(page, '#map .rows span')
    page.locator('#map canvas').click(position=dict(x=30, y=2.5*24))
    assert 'pin=s2' in page.url # the third row

def test_the_worth_of_each_head(new_page, torch_model):
    page = new_page('#looked?h=c3.4')
    wait(page, 'Object.keys(costs()).length == 48 && !queue.running')
    costs, ids = page.evaluate('costs()'), ids_of(page)
    full = log_prob(torch_model, BOY, ids)
    for key in ('cross.3.1', 'cross.4.2', 'encoder.3.1', 'decoder.1.1'):
        kind, layer, head = key.split('.')
        without = log_prob(torch_model, BOY, ids, [(kind, int(layer) - 1, int(head) - 1)])
        assert costs[key] == pytest.approx(without - full, abs=2e-3)
    assert f'{abs(costs["cross.3.4"]):.2f} nats' in page.inner_text('#head-note')
    for head, known in page.evaluate('Object.entries(model().heads)'):
        said = page.evaluate(f'modules.heads.inPlainWords({head!r})')
        measured = re.search(r'(previous|same|next) (token|place)', known['note'])
        plain = dict(previous='back', same='same|itself', next='ahead|further on',
                     delimiter='punctuation', broad='whole sentence', local='nearby')
        plain['long-distance'] = 'near or far'
        assert re.search(plain[measured[1] if measured else known['class']], said), head

# On paper

def test_on_paper_stand_sentence_translation_and_the_whole_machine(new_page):
    landscape = dict(width=1000, height=690)
    page = new_page('#machine', viewport=landscape, media='print')
    left_out = page.locator('#tabs, #experiments, #machine-steps, #machine-boxes, #tour')
    assert left_out.locator('visible=true').count() == 0
    for shown in ('#text', '#src', '#tgt', '#machine-picture', '#machine-says'):
        box = page.locator(shown).bounding_box()
        assert box['x'] >= 0 and box['x'] + box['width'] <= landscape['width'], shown
    assert page.evaluate('document.documentElement.scrollWidth') <= landscape['width']

# Break

def test_a_head_is_switched_off_and_honestly_told(new_page, torch_model):
    page = new_page('#break')
    assert page.inner_text('#banner-text') == 'Nothing is switched off.'
    old_ids = ids_of(page)
    page.click('#switches [data-head="cross.4.4"]')
    wait(page, 'now.scene.off.length == 1')
    assert translation(page) == 'Ein Junge hebt einen Ball hoch.'
    new_ids, head = ids_of(page), [('cross', 3, 3)]
    intact, broken = (log_prob(torch_model, BOY, old_ids, off) for off in ([], head))
    ours, theirs = (log_prob(torch_model, BOY, new_ids, off) for off in (head, []))
    lines = texts(page, '#honest dd:last-child')
    close = lambda x: pytest.approx(x, abs=.006)
    assert numbers(lines[0]) == close([intact, broken, intact - broken])
    assert numbers(lines[1]) == close([ours])
    assert numbers(lines[2]) == close([theirs, intact - theirs])
    assert texts(page, '#honest del') == ['auf'] and texts(page, '#honest ins') == ['hoch']
    for view in VIEWS: # the banner is everywhere
        go_to(page, view)
        banner = page.inner_text('#banner-text')
        assert '1 off: cross 4.4' in banner
        assert numbers(banner)[1:] == close([intact, broken])
    go_to(page, 'break')
    page.click('#undo')
    wait(page, 'now.scene.off.length == 0')
    assert translation(page) == BOY_DE and 'off=' not in page.url

def test_unchanged_is_normal(new_page):
    page = new_page('#break?off=e1.2', fresh=True)
    assert translation(page) == BOY_DE
    assert 'Unchanged. That is normal' in page.inner_text('#honest')

@pytest.mark.long
def test_whole_layers_and_other_parts(new_page):
    page = new_page('#break')
    seen = {translation(page)}
    for part in ('scores divided by √dₖ', 'positions', 'encoder sees what follows',
                 'cross, all heads of layer 3'):
        switch = page.get_by_role('switch', name=part)
        assert switch.get_attribute('aria-checked') == 'true'
        switch.click()
        settle(page)
        assert switch.get_attribute('aria-checked') == 'false'
    assert page.inner_text('#banner-text').startswith(
        '4 off: no √dₖ, no positions, causal encoder, cross layer 3')
    assert page.locator('#switches .covered').count() == 4
    assert 'off=scale%2Cpositions%2Ccausal%2Cc3' in page.url
    assert translation(page) not in seen
    page.click('#reset')
    wait(page, 'now.scene.off.length == 0')
    page.click('#undo') # of the reset
    wait(page, 'now.scene.off.length == 4')

def test_an_example_says_what_to_try(new_page):
    page = new_page('#type')
    choose_example(page, 'The dog is chasing the cat.')
    assert translation(page) == 'Der Hund jagt die Katze.'
    page.click('#notes button')
    wait(page, 'now.scene.off.length == 1')
    assert translation(page) == 'Ein Hund jagt die Katze.' and 'off=c4.3' in page.url

def test_the_list_of_examples_closes(new_page):
    page = new_page('#type')
    is_open = "document.getElementById('examples').open"
    click_elsewhere = lambda: page.mouse.click(700, 880)
    for close in (lambda: page.keyboard.press('Escape'), click_elsewhere):
        page.click('#examples summary')
        page.keyboard.press('Tab')
        assert page.evaluate(is_open)
        close()
        assert not page.evaluate(is_open)
    page.click('#examples summary')
    page.keyboard.press('Tab')
    page.keyboard.press('Escape')
    assert page.evaluate('document.activeElement.tagName') == 'SUMMARY'

def test_a_new_sentence_has_lines_at_once(new_page):
    page = new_page('#looked')
    type_text(page, 'The dog is chasing the cat.')
    assert page.locator('#lines path').count() > 0

def test_no_card_breaks_a_common_word(new_page):
    page = new_page('#type?t=A+girl+in+an+orange+shirt+is+kicking+a+black+ball.')
    tall = page.eval_on_selector_all('.choice span', '''all => all.map(x => {
        const range = document.createRange()
        range.selectNodeContents(x)
        return range.getClientRects().length > 1 ? x.textContent : ''
    }).filter(Boolean)''')
    assert tall == []

# Step

def test_the_beam_grows(new_page):
    page = new_page('#step', fresh=True)
    page.wait_for_selector('#steps > li')
    n = int(page.get_attribute('#step', 'max'))
    assert page.inner_text('#step-name') == f'step 1 of {n}' # the reader makes it grow
    assert page.locator('#steps > li').count() == 1
    page.locator('#step').focus()
    page.keyboard.press('End')
    assert page.locator('#steps > li').count() == n
    best = page.locator('#steps .best > span:first-child')
    ways = page.evaluate('now.scene.tgt.map(label)')
    assert [t.removeprefix('■ ') for t in best.all_inner_texts()] == ways
    assert page.locator('#steps .ended').count() >= 1
    page.keyboard.press('Home')
    assert page.locator('#steps > li').count() == 1
    page.click('#forth')
    assert page.locator('#steps > li').count() == 2
    second = page.locator('#steps > li').nth(1)
    assert second.locator('ul:not(.gone) li').count() == 4
    assert page.locator('#steps .dropped').count() == 8
    assert page.locator('#edges path').count() == 4
    assert 'after “Ein”' in second.locator('li').first.text_content()
    assert texts(page, '#ends dt') == ['Beam of 4', 'Greedy']

def test_the_beam_keeps_what_the_reader_fixed(new_page):
    page = new_page('#type')
    page.locator('#cards .card').first.locator('.choice').nth(1).click()
    wait(page, 'now.scene.force.length == 1 && !queue.running')
    page.click('#tab-step')
    wait(page, '!queue.running && shown.steps.best')
    assert page.evaluate('shown.steps.best.ids') == page.evaluate('now.scene.ids')
    first = page.locator('#steps > li').first
    assert first.locator('ul:not(.gone) li').count() == 1
    assert page.evaluate('shown.steps.greedy.ids[0] == state.force[0]')

def test_greedy_beside_the_beam(new_page):
    page = new_page('#step?t=A+man+is+standing+on+a+ladder+and+painting+a+house.')
    page.select_option('#beam', '1')
    wait(page, "state.beam == 1 && !queue.running && shown.steps.best")
    assert 'the same text' in page.inner_text('#ends') and 'b=1' in page.url
    page.select_option('#alpha', '1')
    wait(page, '!queue.running')
    n = page.evaluate('shown.steps.best.ids.length')
    score, log_p = page.evaluate('[shown.steps.best.score, shown.steps.best.log_prob]')
    assert score == pytest.approx(log_p / ((5 + n)/6))
    assert 'a=1' in page.url.split('&')
    page = new_page('#step?t=A+man+cutting+branches+of+trees.')
    wait(page, '!queue.running && shown.steps?.best')
    best, greedy = page.evaluate('[shown.steps.best.score, shown.steps.greedy.score]')
    assert best > greedy and f'{best - greedy:.2f} below' in page.inner_text('#ends')

# Inside

def test_one_score_by_hand(new_page, torch_model):
    page = new_page('#inside')
    page.select_option('#pair-head', 'cross.3.4')
    page.locator('#pair-map canvas').click(position=dict(x=4.5*24, y=5.5*24))
    wait(page, "document.getElementById('sum').innerText.includes('auf')")
    assert page.input_value('#pair-row') == '5' and page.input_value('#pair-col') == '4'
    dot, score, weight = numbers(page.inner_text('#sum'))
    products = numbers(' '.join(texts(page, '#products b')))
    assert len(products) == 32 and sum(products) == pytest.approx(dot, abs=.2)
    assert score == pytest.approx(dot / math.sqrt(32), abs=.01)
    wanted = torch_maps(torch_model, page)['cross'][2, 3, 5, 4].item()
    assert weight == pytest.approx(wanted, abs=.006)
    query = lambda: page.inner_text('#sum').partition(' · ')[0]
    assert query() == 'Query that writes auf' # it has not been read when this is made
    assert page.inner_text('#pair-query') == 'Query that writes'
    page.select_option('#pair-head', 'decoder.3.4')
    wait(page, "document.getElementById('sum').innerText.startsWith('Query of')")
    assert page.inner_text('#pair-query') == 'Query of'

def test_what_is_masked_cannot_be_chosen(new_page):
    page = new_page('#inside?h=d2.1&pin=1', fresh=True)
    page.select_option('#pair-row', '2')
    assert page.locator('#pair-col option').count() == 3 # the rest is masked

# Machine

def machine(page, at): # once its vectors are there
    wait(page, "!queue.wanted.length && !queue.running && document.querySelector('.tiles')")
    assert page.input_value('#machine-step') == str(at + 1)

def line_widths(page, box):
    "Of the lines in a box: width by row and column"
    lines = page.locator(f'.weights[data-key="{box}"] path').all()
    return {tuple(map(int, line.get_attribute('data-at').split(','))):
            float(line.get_attribute('stroke-width')) for line in lines}

def check_lines(page, box, rows, weights): # (t, s)
    "Those of a machine are as wide as the weights, and faint ones are left out"
    wanted = {(i, j): .4 + 6*w for i in rows for j, w in enumerate(weights[i].tolist())}
    found = line_widths(page, box)
    assert {k for k, w in wanted.items() if w > .4 + 6*.031} <= found.keys()
    assert found.keys() <= {k for k, w in wanted.items() if w > .4 + 6*.029}
    assert found == pytest.approx({k: wanted[k] for k in found}, abs=2e-3)

def test_lines_of_the_machine_are_the_weights(new_page, torch_model):
    page, at = new_page('#machine?pin=5', fresh=True), 5
    machine(page, at)
    for kind, maps in torch_maps(torch_model, page).items():
        for layer, of_heads in enumerate(maps, 1):
            n = of_heads.shape[1]
            rows = range(n) if kind == 'encoder' else [at]
            check_lines(page, f'{kind}.{layer}', rows, of_heads.mean(0))

PIXELS = """(all, [where, name]) => { // of a column of tiles: alpha of each pixel, by row
    const i = document.getElementById('machine-picture').plan.tiles
        .findIndex(tile => tile.where === where && tile.name === name)
    const canvas = document.createElement('canvas'), g = canvas.getContext('2d')
    const image = new Image()
    image.src = all[i].getAttribute('href')
    return image.decode().then(() => {
        Object.assign(canvas, {width: image.width, height: image.height})
        g.drawImage(image, 0, 0)
        const {data} = g.getImageData(0, 0, image.width, image.height)
        const rows = Array.from({length: image.height}, () => [])
        data.forEach((x, k) => {
            if (k % 4 === 3) rows[Math.floor(k / 4 / image.width)].push(x)
        })
        return rows
    })
}"""

def check_tiles(page, where, name, vectors): # (t, d)
    "A tile has 4 by 6 pixels between two empty rows; full is 2.5 root mean squares"
    rows = page.eval_on_selector_all('.tiles', PIXELS, [where, name])
    full = 2.5 * vectors.pow(2).mean().sqrt()
    wanted = (255 * (vectors[:, :24] / full).abs().clamp(max=1)).view(-1, 6, 4)
    shown = torch.tensor(rows, dtype=torch.float32).view(-1, 8, 4)
    assert not shown[:, [0, 7]].any()
    torch.testing.assert_close(shown[:, 1:7], wanted, atol=1., rtol=0)

def test_tiles_of_the_machine_are_the_vectors(new_page, torch_model):
    page = new_page('#machine?pin=7')
    machine(page, 7)
    model = torch_model.model
    src, tgt = inputs(torch_model, BOY, ids_of(page))
    with torch.no_grad():
        x, memory = model.src_embedding(src), model.encode(src)
        y = model.tgt_positions(model.tgt_embedding(tgt))
        check_tiles(page, 'encoder', '· √d_model', x[0])
        check_tiles(page, 'encoder', '+ position', model.src_positions(x)[0])
        check_tiles(page, 'encoder', 'memory', memory[0])
        check_tiles(page, 'decoder', '+ position', y[0])
        for i, layer in enumerate(model.decoder.layers, 1):
            y = layer(y, memory, causal_mask(tgt.shape[1]), padding_mask(src))
            check_tiles(page, f'decoder layer {i}', 'after feed-forward', y[0])

def test_the_machine_writes_token_by_token(new_page, torch_model):
    page = new_page('#machine?pin=1')
    machine(page, 1)
    ids = ids_of(page)
    with torch.no_grad(): logits = torch_model.model(*inputs(torch_model, BOY, ids))
    likeliest = logits[0].softmax(-1).topk(5).values.tolist()
    track = page.locator('.output .track').first
    full = float(track.get_attribute('width'))
    written = 'Ein Junge hebt einen Ball auf . end'.split()
    maps = attention_weights(torch_model.model, *inputs(torch_model, BOY, ids))
    first = maps['decoder'][0, 0].mean(0) # of layer 1, in the mean of its heads
    for at in range(1, len(ids)):
        shown = page.locator('.output .percent').all_text_contents()
        probs = likeliest[at]
        assert shown == [f'{100*p:.0f}%' if p >= .005 else '<1%' for p in probs]
        bars = page.locator('.output .bar').all()
        widths = [float(bar.get_attribute('width')) for bar in bars]
        assert widths == pytest.approx([max(1, full*p) for p in probs], abs=.5)
        assert page.text_content('.output .writes') == written[at]
        assert page.locator('.return').count() == (at < len(ids) - 1)
        assert f'writes “{written[at].replace("end", "the end")}”' in page.inner_text(
            '#machine-says')
        words = page.locator('.word').all_text_contents()
        n_src = page.evaluate('now.scene.src.length')
        read = ['start'] + written[:at]
        assert words[n_src:] == read # nothing that is still to come
        assert page.text_content('.word.now') == read[-1]
        spoken = page.get_attribute('[data-box="decoder.1"]', 'aria-label')
        assert f'most at “{read[first[at].argmax()]}”' in spoken
        if at + 1 < len(ids): page.click('#machine-forth')
    assert f'pin={len(ids) - 1}' in page.url
    page.locator('#machine-step').press('Home')
    assert page.text_content('.output .writes') == 'Ein'
    page.locator('#tgt .chip').nth(3).click() # above, too
    assert page.text_content('.output .writes') == 'einen'

def test_what_is_off_is_seen_in_the_machine(new_page, torch_model):
    page = new_page('#machine?off=c4.4,d2,positions&pin=2')
    machine(page, 2)
    boxes = page.locator('.box.off').all()
    off = [box.get_attribute('data-key') for box in boxes]
    assert off == ['embedding.encoder', 'embedding.decoder', 'decoder.2']
    dashed = [box.evaluate('x => getComputedStyle(x).strokeDasharray') for box in boxes]
    assert 'none' not in dashed
    assert not line_widths(page, 'decoder.2') and line_widths(page, 'decoder.3')
    names = page.locator('.name.off').all_text_contents()
    assert names == ['embedding, no position', 'embedding, no position',
                     'masked self-attention, off', 'cross-attention, head 4 off']
    assert page.locator('circle.head.off').count() == 5
    says = ' '.join(page.locator('.title').all_text_contents())
    assert 'Switched off: cross 4.4, decoder layer 2, no positions' in says
    label = page.get_attribute('[data-box="decoder.2"]', 'aria-label')
    assert label == 'masked self-attention, decoder layer 2, switched off'
    page.click('#reset')
    settle(page)
    assert page.locator('.box.off, .head.off, .name.off').count() == 0
    page.click('[data-box="cross.3"]')
    page.get_by_role('switch', name='head 1', exact=True).click()
    settle(page)
    assert page.evaluate('state.off') == ['cross.3.1']
    with torch.no_grad(), without_heads(torch_model.model, [('cross', 2, 0)]):
        args = inputs(torch_model, BOY, ids_of(page))
        maps = attention_weights(torch_model.model, *args)['cross'][2, 0]
    check_lines(page, 'cross.3', [2], maps[1:].mean(0)) # the mean of those that are on

def kind_of(key): return key.partition('.')[0] # of a box: `cross.3`

def test_every_box_of_the_machine_opens_in_place(new_page, torch_model):
    page = new_page('#machine?pin=3')
    machine(page, 3)
    keys = page.eval_on_selector_all('[data-box]', 'all => all.map(x => x.dataset.box)')
    assert len(keys) == 2 + 4*2 + 1 + 4*3 + 1
    maps = torch_maps(torch_model, page)
    for key in {kind_of(key): key for key in keys}.values(): # one of each kind
        page.focus(f'[data-box="{key}"]')
        page.keyboard.press('Enter')
        wait(page, '!queue.wanted.length && !queue.running')
        assert page.get_attribute(f'[data-box="{key}"]', 'aria-expanded') == 'true'
        kind, _, rest = key.partition('.')
        assert page.locator('#open-map').is_visible() == (kind in maps)
        assert page.locator('#open-heads [role=switch]').count() == 4*(kind in maps)
        lengths = page.locator('#open-vectors .number')
        if kind in maps:
            pictures = 'all => new Set(all.map(map => map.toDataURL())).size'
            assert page.eval_on_selector_all('#open-heads canvas', pictures) == 4
            assert page.inner_text('#open-title').endswith(f'layer {rest}')
            assert page.evaluate('state.head').startswith(key)
        elif key == 'output':
            assert page.locator('#open-cards .choice').count() == 5
        else: assert lengths.count() >= 7
        page.keyboard.press('Escape')
        assert page.locator('#machine-open').is_hidden()
        assert page.evaluate('document.activeElement.dataset.box') == key
    with torch.no_grad(): memory = torch_model.model.encode(inputs(torch_model, BOY, [])[0])
    page.click('[data-names="memory"]') # its name opens a box, too
    shown = numbers(' '.join(texts(page, '#open-vectors .number')))
    assert shown == pytest.approx(memory[0].norm(dim=-1).tolist(), abs=.051)
    assert page.locator('#open-more').is_hidden() # no view has more of it
    go_to(page, 'inside')
    go_to(page, 'machine')
    assert page.locator('#machine-open').is_hidden() # nobody finds it open

def test_a_map_in_the_machine_goes_with_the_token(new_page, torch_model):
    page = new_page('#machine?pin=3')
    machine(page, 3)
    page.click('[data-box="cross.3"]')
    page.locator('#open-heads .head').nth(3).click()
    assert page.evaluate('state.head') == 'cross.3.4'
    assert texts(page, '#open-map .rows .chosen') == ['einen']
    page.focus('#open-map')
    for key in ('ArrowDown', 'ArrowRight'): page.keyboard.press(key)
    assert page.text_content('.output .writes') == 'Ball'
    wanted = torch_maps(torch_model, page)['cross'][2, 3, 4, 1].item()
    says = page.inner_text('#open-map-says')
    assert says.startswith('Ball → boy: ')
    assert numbers(says) == pytest.approx([wanted], abs=.006)
    page.keyboard.press('Escape')
    page.click('[data-box="encoder.2"]')
    assert page.locator('#open-map .rows .chosen').count() == 0 # none of the sentence
    page.evaluate("update({pin: 's1'})")
    wait(page, '!queue.wanted.length && !queue.running')
    assert texts(page, '#open-map .rows .chosen') == ['boy']

def test_the_machine_plays(new_page):
    page = new_page('#machine?pin=5', reduced_motion='reduce')
    page.click('#machine-play')
    wait(page, "document.getElementById('machine-play').innerText == 'Play'")
    assert page.text_content('.output .writes') == 'end'
    assert page.evaluate('document.getAnimations().length') == 0

def test_on_a_phone_the_machine_is_turned(new_page, site):
    page = new_page('#machine?pin=2', site['translate_here.html'],
                    viewport=dict(width=390, height=844), color_scheme='dark')
    machine(page, 2)
    box = page.locator('#machine-picture').bounding_box()
    assert box['width'] <= 390 < 1000 < box['height']
    tops = {key: page.locator(f'[data-box="{key}"]').bounding_box()['y']
            for key in ('embedding.encoder', 'encoder.4', 'memory', 'cross.1', 'output')}
    assert list(tops.values()) == sorted(tops.values()) # it goes down
    page.click('[data-box="cross.2"]')
    opened = page.locator('#machine-open').bounding_box()
    assert opened['x'] >= 0 and opened['x'] + opened['width'] <= 390
    assert opened['y'] >= page.locator('[data-box="cross.2"]').bounding_box()['y']
    assert page.evaluate('document.documentElement.scrollWidth') <= 390
    texts = page.eval_on_selector_all('#machine-picture text', """all => all.map(x => {
        const {left, right} = x.getBoundingClientRect()
        return [x.textContent, left, right]
    })""")
    assert [t for t, left, right in texts if left < 8 or right > 390] == []

# The address

def test_a_reload_brings_everything_back(new_page):
    page = new_page('#type')
    type_text(page, 'A girl gives the dog a ball.')
    go_to(page, 'break')
    page.click('#switches [data-head="cross.3.4"]')
    page.locator('#tgt .chip').nth(2).click()
    wait(page, 'now.scene.off.length == 1')
    def all_of_it():
        state = page.evaluate('JSON.stringify({...state, step: 0, hover: 0})')
        return state, translation(page)
    before = all_of_it()
    page.reload()
    when_ready(page)
    assert all_of_it() == before

def test_back_goes_to_the_view_before(new_page):
    page = new_page('#type')
    go_to(page, 'looked')
    go_to(page, 'step')
    choose_example(page, 'The dog is chasing the cat.')
    page.go_back()
    wait(page, "state.view == 'looked'")
    assert page.locator('#panel-looked').is_visible()
    assert page.locator('#panel-step').is_hidden()
    assert page.input_value('#text') == 'The dog is chasing the cat.' # it is not undone
    page.go_back()
    wait(page, "state.view == 'type'")
    page.evaluate("location.hash = '#heads?t=A+cat.&off=c3.1'") # a link brings everything
    wait(page, "state.view == 'looked' && now.scene.off.length")
    wait(page, "now.scene.text == 'A cat.'")

def test_a_link_of_another_model(new_page):
    page = new_page('#break?off=c3.1&f=281&c=12345678')
    assert 'another model' in page.inner_text('#notes')
    assert page.evaluate('[state.off.length, state.force.length]') == [0, 0]

@pytest.mark.parametrize('hash', [
    '#nonsense',
    '#type?pin=99&off=c9.9,x,,c3.1.1&f=a.99999&h=q&b=7',
    '#type?m=none&a=x&pin=t&c=', '#constructor?m=__proto__&f=-1', '#type?m=toString'],
    ids=range(5))
def test_nonsense_in_the_address(new_page, hash):
    page = new_page(hash, fresh='__proto__' in hash) # in a link, and in what is opened
    assert translation(page) == BOY_DE and page.evaluate('state.off.length') == 0

def test_a_part_that_a_link_names_twice_is_off_once(new_page):
    page = new_page('#break?off=c4.4,c4.4,scale,scale')
    assert page.inner_text('#banner-text').startswith('2 off: ')

# For everyone

def test_by_keyboard_only(new_page):
    page = new_page('#type', fresh=True)
    focused = 'document.activeElement.id || document.activeElement.className'
    def tab_to(name):
        for _ in range(25):
            page.keyboard.press('Tab')
            if name in page.evaluate(focused): return
        raise AssertionError(f'Tab does not reach {name}')
    tab_to('text')
    page.keyboard.press('Control+a')
    page.keyboard.type('A dog is running on the beach.')
    wait(page, "now.scene.text == 'A dog is running on the beach.'")
    settle(page)
    tab_to('chip') # of the source
    tab_to('chip') # of the translation: arrows within, Enter pins
    page.keyboard.press('ArrowRight')
    page.keyboard.press('Enter')
    assert page.evaluate('state.pin') == 't1'
    tab_to('tab-type')
    for _ in range(2): page.keyboard.press('ArrowRight')
    page.keyboard.press('Enter')
    assert page.evaluate('state.view') == 'looked'
    assert page.locator('#lines path').count() > 0
    page.keyboard.press('Escape')
    assert page.evaluate('state.pin') is None
    tab_to('head')
    page.keyboard.press('ArrowDown')
    page.keyboard.press('Enter')
    assert page.evaluate('state.head == document.activeElement.dataset.head')
    go_to(page, 'break')
    tab_to('switch')
    tab_to('head')
    page.keyboard.press('ArrowDown')
    key = page.evaluate('document.activeElement.dataset.head')
    page.keyboard.press('Space')
    wait(page, 'now.scene.off.length == 1')
    assert page.evaluate('state.off') == [key] and key.split('.')[1] == '2'
    assert page.evaluate('document.activeElement.dataset.head') == key # focus stays
    page.keyboard.press('Control+z')
    wait(page, 'now.scene.off.length == 0')
    go_to(page, 'type')
    tab_to('choice')
    page.keyboard.press('ArrowRight')
    page.keyboard.press('ArrowDown') # second choice of the second token
    page.keyboard.press('Enter')
    wait(page, 'now.scene.force.length == 2')

def test_it_is_read_out(new_page):
    page = new_page('#break')
    spoken = "document.getElementById('spoken').textContent == arg"
    wait(page, spoken, BOY_DE)
    page.click('#switches [data-head="cross.4.4"]')
    wait(page, spoken, 'Ein Junge hebt einen Ball hoch. Lost: auf. New: hoch. '
                       'Old text 2.64 nats less likely.')
    head = page.locator('#switches [data-head="cross.4.4"]')
    assert head.get_attribute('aria-label') == 'cross, layer 4, head 4, long-distance'
    assert head.get_attribute('role') == 'switch'
    assert head.get_attribute('aria-checked') == 'false'

def test_warnings_are_spoken(new_page):
    "A guess may not be read out as if it were sure"
    page = new_page('#type')
    spoken = "document.getElementById('spoken').textContent"
    wait(page, f'{spoken} == arg', BOY_DE) # what to try is no warning
    type_text(page, 'The parliament adopted the resolution.')
    wait(page, f"{spoken}.includes('This is probably nonsense')")
    assert page.evaluate(spoken).startswith(translation(page))
    assert page.get_attribute('#spoken', 'role') == 'status'
    type_text(page, BOY)
    wait(page, f'{spoken} == arg', BOY_DE)

CAMERA = 'A+man+who+is+holding+a+camera+is+standing+in+front+of+a+church+and+'
LONG = CAMERA * 2

def test_a_phone(new_page, site):
    page = new_page('#type?off=c3.1,positions&pin=3', site['translate_here.html'],
                    viewport=dict(width=390, height=800))
    page.evaluate(f"location.hash = '#type?off=c3.1,positions&pin=3&t={LONG}'")
    wait(page, 'state.text.length > 100')
    settle(page)
    for view in VIEWS:
        go_to(page, view)
        wait(page, '!queue.wanted.length')
        width = page.evaluate('document.documentElement.scrollWidth')
        assert width <= 390, view

PHONE_ORDER = ['#text', '#tgt', '#status', '#read-back', '#choices', '#experiments-fold',
               '#tabs']

def test_on_a_phone_a_sentence_its_translation_and_a_try_come_first(new_page, site):
    phone = dict(width=390, height=844)
    page = new_page('', site['translate_here.html'], viewport=phone, fresh=True)
    boxes = [page.locator(part).bounding_box() for part in PHONE_ORDER]
    tops = [box['y'] for box in boxes]
    assert tops == sorted(tops)
    assert tops[-1] + boxes[-1]['height'] < phone['height']
    names = 'all => all.map(node => `#${node.id}`)'
    found = page.eval_on_selector_all(', '.join(PHONE_ORDER), names)
    assert found == PHONE_ORDER # in the document, too, for who cannot see it
    page.set_viewport_size(dict(width=1280, height=900)) # turned, or a window made wide
    wait(page, "document.getElementById('choices').parentElement.tagName == 'HEADER'")

def test_on_a_phone_the_sentence_stays_in_sight(new_page):
    page = new_page('#break', viewport=dict(width=390, height=844))
    line = page.locator('#sticky')
    assert line.is_hidden()
    head = page.locator('#switches [data-head="cross.4.4"]')
    head.scroll_into_view_if_needed()
    wait(page, "document.getElementById('sticky').matches('.seen')")
    assert texts(page, '#sticky > *') == [BOY, BOY_DE]
    head.click()
    settle(page)
    new = page.locator('#sticky .changed') # what came of it, where one looks
    assert new.inner_text() == 'Ein Junge hebt einen Ball hoch.' and line.is_visible()
    box = line.bounding_box()
    assert box['y'] == 0 and box['width'] == 390 and box['height'] < 100
    page.keyboard.press('Shift+Tab') # what has the focus is not below the line
    focused = page.evaluate('document.activeElement.getBoundingClientRect().top')
    assert focused >= box['height']
    page.evaluate('scrollTo(0, 0)')
    wait(page, "!document.getElementById('sticky').matches('.seen')")
    page.set_viewport_size(dict(width=1280, height=844))
    page.evaluate('scrollTo(0, 9999)')
    assert line.is_hidden()

def test_on_a_phone_the_experiments_are_folded(new_page):
    page = new_page('', viewport=dict(width=390, height=844), fresh=True)
    experiment, fold = page.locator('.experiment').first, page.locator('#experiments-fold')
    assert experiment.is_hidden()
    fold.click()
    assert experiment.is_visible() and fold.get_attribute('aria-expanded') == 'true'
    fold.click()
    assert experiment.is_hidden()
    page.click('#start-tour')
    for _ in range(3): page.click('#tour-next')
    assert experiment.is_visible() # the tour speaks of it
    page.click('#tour-end')
    page.set_viewport_size(dict(width=1280, height=844))
    assert experiment.is_visible() and fold.is_hidden()

def test_on_a_phone_wide_tables_scroll_in_their_boxes(new_page):
    page = new_page('#inside', viewport=dict(width=390, height=844))
    wait(page, '!queue.wanted.length && !queue.running')
    widths = 'all => all.map(x => [x.clientWidth, x.scrollWidth, x.scrollLeft = 9999])'
    is_at_end = 'box => box.scrollLeft + box.clientWidth >= box.scrollWidth - 1'
    for view, box in {'step': '#tree-box'}.items():
        go_to(page, view)
        page.wait_for_selector(box)
        wait(page, '!queue.wanted.length && !queue.running')
        page.evaluate('update({step: 99})') # the whole tree
        if view == 'step': # the newest column is seen, and its numbers
            assert page.eval_on_selector(box, is_at_end)
        for shown, whole, _ in page.eval_on_selector_all(box, widths):
            assert shown <= 390 < whole
        assert 'sideways' in page.inner_text(f'#panel-{view} .legend')
        last = f'{box} th:last-child' if view == 'inside' else '#steps > li:last-child'
        end = page.locator(last).first.bounding_box()
        assert end['x'] + end['width'] <= 390 # the last column can be reached
        assert page.evaluate('document.documentElement.scrollWidth') <= 390
    page.select_option('#beam', '8') # the columns become wider
    wait(page, 'state.beam == 8 && !queue.wanted.length && !queue.running')
    assert page.eval_on_selector('#tree-box', is_at_end)

def test_on_a_phone_tokens_are_tinted_where_lines_would_run_behind_others(new_page):
    page = new_page('#looked?pin=1', viewport=dict(width=390, height=844))
    weights, colors = (page.eval_on_selector_all('#src .chip', f'all => all.map({what})')
        for what in ("node => Number(node.style.getPropertyValue('--w'))",
                     'node => getComputedStyle(node).backgroundColor'))
    assert page.locator('#lines path').count() == 0
    most, none = max(weights), min(weights)
    assert colors[weights.index(most)] != colors[weights.index(none)]
    page.keyboard.press('Escape')
    page.mouse.move(5, 5)
    assert page.locator('.looked').count() == 0

def test_nothing_jumps(new_page):
    page = new_page('#looked')
    def top(part): return page.locator(part).bounding_box()['y']
    def places(): return [top(part) for part in ('#tabs', '#maps', '#map')]
    wait(page, 'Object.keys(costs()).length == 48 && !queue.running')
    before = places()
    page.locator('#tgt .chip').nth(2).click()
    assert places() == before
    type_text(page, 'A boy is picking up a ball')
    assert places() == before
    page.evaluate("toggle('cross.3.1')") # what is off has a bar, above the views
    switched = places()
    assert len({round(y - x) for x, y in zip(before, switched)}) == 1
    settle(page)
    assert places() == switched

@pytest.mark.parametrize('name, scheme, width, paper', [
    ('translate_here.html', 'light', 1280, 'rgb(255, 255, 255)'),
    ('translate_german.html', 'dark', 390, 'rgb(18, 18, 18)')], ids=['light', 'dark'])
def test_accessible(new_page, site, name, scheme, width, paper):
    page = new_page('#type?pin=3&off=c3.1', site[name], color_scheme=scheme,
                    viewport=dict(width=width, height=900))
    color = 'getComputedStyle(document.body).backgroundColor'
    assert page.evaluate(color) == paper
    load_axe(page)
    for view in VIEWS:
        go_to(page, view)
        wait(page, '!queue.wanted.length && !queue.running')
        if view == 'looked': page.click('#as-table summary')
        assert page.evaluate(AXE, [['html'], ALL_RULES, []]) == [], view

def test_forced_colors_and_no_motion(new_page):
    page = new_page('#looked?pin=3', forced_colors='active', reduced_motion='reduce')
    background = 'e => getComputedStyle(e).backgroundColor'
    pinned = page.locator('.chip[aria-pressed=true]').evaluate(background)
    assert pinned != page.locator('#tgt .chip').first.evaluate(background)
    moving = "document.getAnimations().length"
    page.evaluate("toggle('cross.3.1')")
    assert page.evaluate(moving) == 0

def test_undo_stays_with_its_sentence(new_page):
    page = new_page('#type')
    wait(page, 'now.scene')
    for n in (1, 2): page.evaluate('n => change({force: now.scene.ids.slice(0, n)})', n)
    type_text(page, 'A cat sleeps.')
    page.click('#undo')
    assert page.evaluate('state.force.length') == 0
    assert 'fixed' not in page.inner_text('#banner')

def test_buttons_keep_the_focus(new_page):
    page = new_page('#break')
    page.evaluate("toggle('cross.3.1')")
    for name in ('reset', 'undo', 'undo'):
        page.focus(f'#{name}')
        page.keyboard.press('Enter')
        assert page.evaluate('document.activeElement.id') == name
    assert page.evaluate('state.off.length') == 0

# Models

def test_a_model_of_ones_own(new_page, own_model, tmp_path):
    export_page([str(own_model)], tmp_path/'page.html')
    page = new_page('', (tmp_path/'page.html').as_uri(), fresh=True)
    assert page.input_value('#text') == '' and page.locator('#examples').is_hidden()
    assert page.locator('#model').is_hidden()
    type_text(page, 'a dog sees a cat .')
    for view in VIEWS:
        go_to(page, view)
        wait(page, '!queue.wanted.length')
    assert page.evaluate("document.getElementById('smoothing').hidden") # who knows?
    go_to(page, 'break')
    for kind, n in dict(encoder=10, decoder=15, cross=15).items():
        assert page.locator(f'#switches [data-head^="{kind}"]').count() == n
    page.click('#switches [data-head="decoder.3.5"]')
    wait(page, 'now.scene.off.length == 1')
    assert 'chapter 16' not in page.inner_text('#switches-legend')

def test_two_models_in_one_page(new_page, own_model, tmp_path):
    export_page([str(MODEL), str(own_model)], tmp_path/'page.html')
    page = new_page('#break?off=c3.1', (tmp_path/'page.html').as_uri(), fresh=True)
    names = texts(page, '#model option')
    assert len(names) == 2 and page.locator('#model').is_visible()
    key = page.evaluate('Object.keys(models)[1]')
    page.evaluate("toggle('cross.3.2')")
    page.select_option('#model', key)
    undo = page.locator('#undo') # would switch off a head of the other model
    assert undo.get_attribute('aria-disabled') == 'true'
    type_text(page, 'a dog')
    assert page.evaluate('[state.model, state.off.length]') == [key, 0]
    assert page.locator('#switches .head').count() == 40
    page.reload()
    when_ready(page)
    assert page.input_value('#model') == key

def test_into_the_other_language(new_page, tmp_path):
    "By another model of the same page"
    back = MODEL.parent/'multi30k-de-en'
    export_page([MODEL, back], tmp_path/'both.html')
    page = new_page('#type', (tmp_path/'both.html').as_uri(), fresh=True)
    german = translation(page)
    assert page.inner_text('#turn') == '⇄ German → English'
    assert page.locator('#model').is_hidden()
    page.click('#turn')
    when_ready(page)
    assert page.input_value('#text') == german and 'boy' in translation(page).lower()
    assert page.inner_text('#turn') == '⇄ English → German'

def read_back(page):
    wait(page, """!queue.running && !queue.wanted.length
        && !document.getElementById('way-back').matches('.old')""")
    return page.inner_text('#way-back q')

def test_a_translation_is_read_back_by_the_other_model(new_page, tmp_path):
    "For those who cannot read it: at once, where both models are in the page"
    folders = [MODEL, MODEL.parent/'multi30k-de-en']
    export_page(folders, tmp_path/'both.html')
    page = new_page(f'#type?t={BOY}', (tmp_path/'both.html').as_uri(), fresh=True)
    back = Translator(folders[1], torch.device('cpu'))
    for text in (BOY, 'The dog is chasing the cat.'):
        type_text(page, text)
        [wanted] = back.translate([translation(page)])
        assert read_back(page) == wanted
    assert page.get_attribute('#way-back q', 'lang') == 'en'
    assert page.locator('#read-back').is_hidden() # it needs no button
    page.click('text=Make it forget')
    settle(page)
    assert read_back(page) == back.translate([translation(page)])[0]
    page.click('#turn')
    when_ready(page)
    wait(page, "state.model == 'de-en'")
    settle(page)
    assert page.get_attribute('#way-back q', 'lang') == 'de' and read_back(page)
    page.fill('#text', '')
    wait(page, "state.text == ''")
    assert page.locator('#way-back').is_hidden()

def test_a_page_of_the_site_reads_back_by_the_page_beside_it(new_page, site):
    "Which is loaded when the reader wants it, and not before"
    page = new_page('#type?t=I+have+lost+my+keys.', site['translate_here.html'], fresh=True)
    assert page.locator('iframe').count() == 0 and page.locator('#way-back').is_hidden()
    page.click('#read-back')
    assert read_back(page) == 'I lost my keys.'
    type_text(page, 'I love you.')
    assert read_back(page) == 'I love you.'
    assert page.locator('iframe').count() == 1
    page.click('#read-back')
    assert page.locator('#way-back').is_hidden()
    assert page.get_attribute('#read-back', 'aria-pressed') == 'false'

def test_a_page_alone_reads_nothing_back(new_page, own_model, tmp_path):
    page = new_page('#type')
    assert page.locator('#read-back').is_hidden() and page.locator('#way-back').is_hidden()
    for name in ('one', 'two'): shutil.copytree(own_model, tmp_path/name)
    export_page([tmp_path/'one', tmp_path/'two'], tmp_path/'page.html')
    page = new_page('#type?t=a+dog', (tmp_path/'page.html').as_uri(), fresh=True)
    for part in ('#read-back', '#way-back', '#turn'): # nobody knows their languages
        assert page.locator(part).is_hidden(), part

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

def test_the_site_translates_both_ways(new_page, site):
    page = new_page('', site['translate_here.html'], fresh=True) # which visitors open first
    assert page.locator('#model').is_hidden() # the button is enough
    for name in ('translate_german.html', 'translate_here.html'):
        text = translation(page)
        page.click('#turn')
        page.wait_for_url(f'**/{name}#type?t=*')
        when_ready(page)
        assert page.input_value('#text') == text
        assert 'everyday sentences' in page.inner_text('#promise')

def test_a_page_of_the_site_is_small_and_says_whose_sentences_it_read(new_page, site):
    for name, address in site.items():
        size = Path(address.removeprefix('file://')).stat().st_size
        assert size < 15e6, f'{name}: {size:,} bytes'
        if 'german' in name: continue # beside these, which earlier tests have opened
        whose = 'Tatoeba (tatoeba.org), CC BY 2.0 FR'
        assert whose in new_page('', address).inner_text('#about')

# The first visit

FIRST = 'Two children are playing in the snow with a small dog.'
FIRST_DE = 'Zwei Kinder spielen mit einem kleinen Hund im Schnee.'
TWICE = FIRST_DE[:-1] + ' mit einem kleinen Hund im Schnee.'
COMES = 'I think that she will come tomorrow.'
COMES_DE = 'Ich denke, dass sie morgen kommen wird.'
COMES_TWICE = 'Ich denke, dass sie kommt, dass sie morgen kommt.'

def test_a_first_visit_has_one_thing_to_try(new_page, site):
    page = new_page('', site['translate_here.html'], fresh=True)
    assert page.input_value('#text') == COMES and translation(page) == COMES_DE
    assert 'Say something simple in English' in page.inner_text('#promise')
    says = page.inner_text('#experiment-says')
    assert says == 'Try the first: it says twice that she is coming.'
    assert page.locator('#banner').is_hidden() and not texts(page, '#notes li')
    page.locator('.experiment').first.click()
    settle(page)
    assert translation(page) == COMES_TWICE
    assert page.inner_text('#banner-old') == f'before: {COMES_DE}'
    assert texts(page, '#tgt .changed > span') == ['kommt', ',', 'dass', 'sie', 'kommt']
    pressed = page.inner_text('.experiment[aria-pressed=true]')
    assert pressed == 'Make it forget what it has written'
    assert 'sees its last token' in page.inner_text('#experiment-says')
    page.click('.experiment[aria-pressed=true]')
    settle(page)
    assert translation(page) == COMES_DE and page.locator('#tgt .changed').count() == 0

PLACE = "document.getElementById('tabs').getBoundingClientRect().top"

def test_sentence_translation_and_view_are_on_one_screen(new_page, site):
    "Nothing moves when a view opens"
    for width, height, most in ((1280, 800, 480), (390, 844, 800)):
        page = new_page('', site['translate_here.html'], fresh=True,
                        viewport=dict(width=width, height=height))
        places = set()
        for view in VIEWS:
            go_to(page, view)
            wait(page, '!queue.running')
            places.add(page.evaluate(PLACE))
        assert len(places) == 1 and places.pop() < most, width

def test_on_a_narrow_phone_the_tabs_wrap(new_page, site):
    page = new_page('', site['translate_here.html'], viewport=dict(width=320, height=640))
    for view in VIEWS:
        go_to(page, view)
        assert page.evaluate('document.documentElement.scrollWidth') <= 320, view

def test_experiments_have_names(new_page):
    page = new_page()
    page.click('text=Blindfold it')
    settle(page)
    blind = translation(page)
    assert 'off=c&' in page.url and not texts(page, '#tgt small:not(:empty)')
    type_text(page, 'A cat is sleeping on a bed.')
    assert translation(page) == blind # whatever is typed
    page.click('text=Does it need to think')
    settle(page)
    assert translation(page) == 'Eine Katze schläft auf einem Bett.'
    assert page.evaluate('state.off') == ['encoder']
    assert 'the translation is unchanged' in page.inner_text('#banner-text')

# What comes out of examples whose notes say it in English
SAID_IN_ENGLISH = {
    COMES: COMES_TWICE, FIRST: TWICE,
    'A dog is jumping over a fence to catch a ball.':
        'Ein Hund springt über einen Zaun, um über einen Zaun zu fangen.',
    'Where is the train station?': 'Wo ist der Bahnhof.'}

def check_promise(then, before, after):
    "The words that a note names are there, or no longer, whatever their capitals"
    before, after = before.lower(), after.lower()
    words = re.sub(r' \([^)]*\)', '', then).lower() # without glosses
    if m := re.match(r'(.+) in place of ([^,]+)', words):
        assert m[1] in after and m[1] not in before
        assert m[2] in before and m[2] not in after
    elif m := re.match(r'(.+), again and again', words): assert after.count(m[1]) > 2
    elif m := re.match(r'(?:the verb )?([^:,]+) is gone', words):
        assert m[1] in before and m[1] not in after
    else:
        m = re.match(r'(.+?)(:|$)', words)
        assert m[1] in after and m[1] not in before

HALVES = [(name, i) for name in pages.TRANSLATE for i in range(2)]

@pytest.mark.parametrize('name, half', sample(HALVES, 8))
def test_every_example_keeps_its_promise(new_page, site, name, half):
    "What the notes say of it is what comes out"
    page = new_page('', site[name])
    for example in page.evaluate('model().examples')[half::2]:
        type_text(page, example['text'])
        before = translation(page)
        assert 'nonsense' not in page.inner_text('#notes')
        shown = re.search(r': ([^(:]+?)(?: \(| for |$)', example['shows'])
        for words in re.split(' … |, ', shown[1]) if shown else []:
            assert words.lower() in f'{example["text"]} {before}'.lower(), example
        if 'then' not in example: continue
        page.evaluate('off => update({off})', example['off']) # by its button
        wait(page, 'now.scene.off.length == 1')
        after = SAID_IN_ENGLISH.get(example['text'])
        if after: assert translation(page) == after
        else: check_promise(example['then'], before, translation(page))
        page.click('#reset')
        settle(page)

def test_words_are_shuffled_and_put_back(new_page):
    page = new_page('#type')
    page.click('text=Shuffle the words')
    wait(page, 'state.text != arg', BOY)
    shuffled = page.input_value('#text')
    words = BOY.lower().strip('.').split()
    shuffled_words = shuffled.lower().strip('.').split()
    assert sorted(shuffled_words) == sorted(words) and shuffled.endswith('.')
    assert shuffled[0].isupper() and shuffled[1:].islower()
    assert shuffled_words != words and 'shuffled' in page.inner_text('#experiment-says')
    page.click('text=Shuffle the words')
    wait(page, 'now.scene.text == arg', BOY)
    assert page.inner_text('#banner-text') == 'Nothing is switched off.'
    page.click('text=Shuffle the words')
    type_text(page, 'A cat.')
    undo = page.locator('#undo') # would bring an older text back
    assert undo.get_attribute('aria-disabled') == 'true'

def test_the_bar_says_that_words_are_shuffled(new_page):
    page = new_page()
    banner = lambda: page.inner_text('#banner-text')
    page.click('text=Shuffle the words')
    settle(page)
    assert banner() == 'the words are shuffled'
    page.evaluate("toggle('cross.4.4')") # and still says it, when more is changed
    settle(page)
    shuffled = page.input_value('#text')
    assert banner().startswith('1 off: cross 4.4 · ') and 'words are shuffled' in banner()
    page.click('#reset')
    wait(page, 'now.scene.text == arg', FIRST)
    settle(page)
    assert banner() == 'Nothing is switched off.'
    page.click('#undo')
    wait(page, 'now.scene.text == arg', shuffled)
    assert 'words are shuffled' in banner() and 'cross 4.4' in banner()
    type_text(page, 'A cat.')
    assert 'shuffled' not in banner()

@pytest.mark.parametrize('off, text, says', [
    ('decoder', 'A man is sleeping.', 'The translation stays the same.'),
    ('decoder', 'A dog is jumping over a fence to catch a ball.', ' Gone: zu, fangen.'),
    ('decoder', FIRST, ' Said again: mit, einem, kleinen, Hund, im, Schnee.'),
    ('encoder', 'A cat is sleeping on a bed.', 'The translation stays the same.')])
def test_experiments_say_what_came_of_any_sentence(new_page, off, text, says):
    page = new_page(f'#type?t={text}&off={off[0]}')
    wait(page, 'now.scene')
    settle(page)
    assert page.inner_text('#experiment-says').endswith(says)

def test_words_are_compared(new_page):
    page = new_page()
    compare = '([a, b]) => modules.words.compareWords(a, b)'
    both = ["Two cats, I'm told.", "I'm told two two dogs!"]
    wanted = dict(again=['two'], added=['dogs'], lost=['cats'])
    assert page.evaluate(compare, both) == wanted

def test_under_each_token_stands_what_it_looked_at(new_page, torch_model):
    page = new_page()
    words = texts(page, '#tgt .chip > small')
    assert words == ['Two', 'children', 'playing', 'with', 'small', 'small', 'dog', 'in',
                     'snow', '', '']
    ids = ids_of(page)
    with torch.no_grad():
        maps = attention_weights(torch_model.model, *inputs(torch_model, FIRST, ids))
    src = [torch_model.tokenizer.decode([i]).strip()
           for i in torch_model.tokenizer.encode(FIRST)] + ['']
    cross = maps['cross'][2, 0].mean(0) # of layer 3
    most = [src[i] for i in cross.argmax(-1)]
    assert words[:-2] == most[:-2]

# Sentences

def test_two_sentences_are_translated_one_by_one(new_page):
    page = new_page('#type')
    type_text(page, 'A man is riding a bike. Two dogs are playing in the snow.')
    wait(page, "document.querySelectorAll('.sentence strong:not(:empty)').length == 2")
    assert texts(page, '.sentence strong') == ['Ein Mann fährt Fahrrad.',
                                               'Zwei Hunde spielen im Schnee.']
    page.click('.sentence:nth-child(2)')
    settle(page)
    wait(page, "now.scene.text == 'Two dogs are playing in the snow.'")
    assert translation(page) == 'Zwei Hunde spielen im Schnee.' and 'n=1' in page.url
    whole = page.evaluate('modules.scene.wholeTranslation()')
    assert whole == 'Ein Mann fährt Fahrrad. Zwei Hunde spielen im Schnee.'
    page = new_page('#type?t=A+man+is+riding+a+bike.+Two+dogs+are+playing.&n=7')
    assert translation(page) == 'Zwei Hunde spielen.' # where there is none, the last

@pytest.mark.parametrize('text, sentences', [
    ('A man. Two dogs!  "Yes?" A cat', ['A man.', 'Two dogs!', '"Yes?"', 'A cat']),
    ('Städte wie z. B. Berlin sind groß.', ['Städte wie z. B. Berlin sind groß.']),
    ('Hr. Schmidt ist krank. Am 3. Oktober kommt er.',
     ['Hr. Schmidt ist krank.', 'Am 3. Oktober kommt er.']),
    ('I am 30. Tom is 40.', ['I am 30.', 'Tom is 40.']),
    ('Mr. Smith and Dr. B. Jones wait.', ['Mr. Smith and Dr. B. Jones wait.']),
    ('It is 3.5 m high.', ['It is 3.5 m high.']),
    ('I have been waiting\nfor two hours.\n\nIt is late',
     ['I have been waiting for two hours.', 'It is late']),
    ('One.\r\n \t\r\nTwo.', ['One.', 'Two.'])], ids=range(8))
def test_where_a_sentence_ends(new_page, site, text, sentences):
    page = new_page('#type', site['translate_here.html'])
    assert page.evaluate('text => modules.sentences.sentencesOf(text)', text) == sentences

def test_a_blank_line_stays_in_what_is_copied(new_page, site):
    page = new_page('#type', site['translate_here.html'])
    type_text(page, 'I love you.\nI am tired.\n\nIt is late.')
    wait(page, "document.querySelectorAll('.sentence strong:not(:empty)').length == 3")
    whole = page.evaluate('modules.scene.wholeTranslation()')
    assert whole == 'Ich liebe dich. Ich bin müde.\n\nEs ist spät.'

# What people type and paste

@pytest.fixture(scope='module')
def everyday(): return Translator(MODEL.parent/'everyday-en-de', torch.device('cpu'))

FORMS = { # the same sentence, whatever keyboard, phone or program wrote it
    "He isn't here.": ['He isn’t here.', " He isn't  here.\u00a0", 'He\tisn\u2019t\nhere.',
                       "He is\u00adn\u200b't here.\ufeff", "Ｈe isn't here．"],
    'I had a café.': ['I had a cafe\u0301.'],
    'Can I pay by credit card?': ['Can  I  pay  by  credit  card?']}

def test_its_form_changes_no_translation(new_page, site, everyday):
    page = new_page('#type', site['translate_here.html'])
    for plain, forms in FORMS.items():
        [german] = everyday.translate([plain])
        for text in (plain, *forms):
            type_text(page, text)
            wait(page, 'now.scene.text == arg', plain)
            settle(page)
            assert translation(page) == german, ascii(text)
            assert not page.locator('#notes button').count() # nothing was added to it
    assert 'nicht' in everyday.translate(['He isn’t here.'])[0]

READ_AS = {
    'hello': ('Hello.', 'Read as “Hello.”'),
    'how are you?': ('How are you?', 'Read as “How are you?”'),
    'what is your name': ('What is your name?', 'Read as “What is your name?”'),
    'I LOVE YOU': ('I love you.', 'Read as “I love you.” and given back in capitals.'),
    'I love you 😀': ('I love you.', 'Read as “I love you.”, with 😀 put back afterwards.'),
    'I love 🐶 dogs.': ('I love dogs.', 'Read as “I love dogs.”, without 🐶.')}

@pytest.mark.parametrize('width, scheme', sample([(390, 'dark'), (1280, 'light')], 2))
def test_what_is_typed_is_read_as_what_it_means(new_page, site, everyday, width, scheme):
    page = new_page('#type', site['translate_here.html'], color_scheme=scheme,
                    viewport=dict(width=width, height=844))
    spoken = "document.getElementById('spoken').textContent.includes(arg)"
    for text, (read, note) in READ_AS.items():
        type_text(page, text)
        wait(page, 'now.scene.text == arg', read)
        settle(page)
        assert translation(page) == everyday.translate([text])[0]
        assert texts(page, '#notes li')[0] == f'{note} Exactly as typed'
        assert page.evaluate('modules.scene.wholeTranslation()') == translation(page)
        wait(page, spoken, note)
        box = page.locator('#notes button').bounding_box()
        assert box['x'] + box['width'] <= width
        assert page.evaluate('document.documentElement.scrollWidth') <= width

def test_exactly_as_typed_is_one_click_away(new_page, site, everyday):
    page = new_page('#type?t=I+LOVE+YOU', site['translate_here.html'])
    assert translation(page) == 'ICH LIEBE DICH'
    page.click('#notes button:text-is("Exactly as typed")')
    wait(page, "now.scene.text == 'I LOVE YOU'")
    settle(page)
    [german] = everyday.translate(['I LOVE YOU'], exact=True)
    assert translation(page) == german and 'x=1' in page.url
    assert page.get_attribute('#notes button', 'aria-pressed') == 'true'
    assert 'Read exactly as typed.' in page.inner_text('#notes')
    page.reload()
    when_ready(page)
    assert translation(page) == german
    page.click('#notes button:text-is("Exactly as typed")')
    wait(page, "now.scene.text == 'I love you.'")
    assert 'x=1' not in page.url

@pytest.mark.parametrize('text', sample(
    ['12', '555-1234', '—', '😀', '3.50 €', 'https://a.org/b?c', '👩‍👩‍👧‍👦 ❤️', '...'], 3))
def test_what_is_no_language_comes_back_as_it_is(new_page, site, everyday, text):
    page = new_page('#type', site['translate_here.html'])
    type_plain(page, text)
    [same] = everyday.translate([text])
    assert translation(page) == same == page.evaluate('modules.scene.wholeTranslation()')
    assert texts(page, '#tgt .chip') == []
    note = f'Nothing to translate: {same} comes back as it is.'
    assert texts(page, '#notes li')[0].startswith(note)
    assert 'it comes back as it is' in page.inner_text('#nothing')
    wait(page, "document.getElementById('spoken').textContent.startsWith(arg)", same)
    again = page.evaluate('text => tnb.translate(text)', text)
    assert again['text'] == same and again['ids'] == []
    page.click('#notes button') # the model's own answer
    wait(page, 'now.scene')
    settle(page)
    assert texts(page, '#tgt .chip')

def type_plain(page, text): # which has no tokens to wait for
    page.fill('#text', text)
    wait(page, 'state.text == arg', text)

@pytest.mark.parametrize('text, note', [
    ('My number is 555-1234.',
     'The numbers differ: 555, 1234 is missing and 55534 is new.'),
    ('Call 555-1234.', 'The numbers differ: 555, 1234 is missing and 5534 is new.')])
def test_other_numbers_are_a_warning(new_page, site, text, note):
    page = new_page('#type', site['translate_here.html'])
    type_text(page, text)
    wait(page, 'now.scene.text == arg', text)
    assert note in texts(page, '#notes li')
    wait(page, "document.getElementById('spoken').textContent.includes(arg)", note)
    type_text(page, f'I love you. {text}') # and of a sentence that is not shown
    wait(page, "document.getElementById('notes').innerText.includes(arg)",
         'Sentence 2: the numbers differ')
    type_text(page, 'I am 30.')
    assert 'differ' not in page.inner_text('#notes')

def test_a_cut_translation_says_so_wherever_it_is(new_page):
    page = new_page('#type?b=1&x=1')
    cut, note = 'A ' + 'y'*120, 'the translation was cut at its limit'
    type_text(page, f'{cut}. A dog runs.')
    page.evaluate('update({nth: 1})')
    wait(page, "now.scene.text == 'A dog runs.'")
    wait(page, "document.getElementById('notes').innerText.includes(arg)",
         f'Sentence 1: {note}')
    page.evaluate('update({nth: 0})')
    wait(page, "now.scene.text != 'A dog runs.'")
    settle(page)
    notes = ' '.join(texts(page, '#notes li'))
    assert 'Stopped after' in notes and note not in notes

def test_scripts_read_as_the_page_does(new_page, site, everyday):
    page = new_page('#type', site['translate_here.html'])
    text = 'hello. I AM TIRED 😀'
    read, exact = (page.evaluate('([text, exact]) => tnb.translate(text, {exact})',
                                 [text, exact])['text'] for exact in (False, True))
    assert read == everyday.translate([text])[0]
    assert exact == everyday.translate([text], exact=True)[0] != read

# An honest domain

def test_a_guess_is_called_one(new_page):
    page = new_page('#type')
    type_text(page, 'The president gave a speech about the economy.')
    note = page.inner_text('#notes')
    assert 'probably nonsense' in note and '“president”' in note
    assert page.locator('#tgt .unlikely').count() > 0
    page.click('text=Blindfold it') # from here on it is not the sentence's fault
    settle(page)
    assert 'nonsense' not in page.inner_text('#notes')

def test_nothing_is_tried_that_would_be_doubted_too(new_page, site):
    page = new_page('#type?t=', site['translate_here.html'])
    for text in ('qwrt zxcvb plmok', 'the enzyme catalyzes the hydrolysis of proteins'):
        type_text(page, text)
        wait(page, '!queue.wanted.length && !queue.running')
        assert 'This is' in page.inner_text('#notes') # however it is written
        assert texts(page, '#notes button') == ['Exactly as typed'], text

def test_confidence_is_the_models_own(new_page):
    page = new_page('#type')
    status = page.inner_text('#status')
    probs = page.evaluate('now.scene.seen.token_log_probs.map(Math.exp)')
    share = round(100 * math.prod(probs) ** (1 / len(probs)))
    assert f'confidence: {share}% per token' in status
    assert 'geometric mean' in page.get_attribute('#status', 'title')
    assert 'label smoothing' in page.inner_text('#panel-type') # why it is never surer
    most = page.evaluate('Math.max(...now.scene.seen.token_log_probs.map(Math.exp))')
    assert .87 < most < .95
    assert 'not whether it is right' in page.inner_text('#panel-type')

@pytest.mark.parametrize('text, starts', [
    ('I have a dog.', 'It was confident of every word'),
    ('Hello.', 'It was confident of every word'), # but not of the mark: !, or a full stop
    ('Turn off the light before you go to bed.',
     'The closest race between tokens: “Sch” (60%)')])
def test_the_closest_race_is_of_tokens(new_page, site, text, starts):
    page = new_page('#type?t=', site['translate_here.html'])
    type_text(page, text)
    assert page.inner_text('#rivals').startswith(starts)
    assert all(texts(page, '.choice > span')) # each has a name, a space too

def test_log_p_is_explained_where_it_appears(new_page):
    page = new_page('#type')
    explained = page.locator('#units').is_visible
    assert not explained() and 'log p' not in page.inner_text('main')
    for view in VIEWS[1:]:
        go_to(page, view)
        assert explained() and 'log p' in page.inner_text('#units'), view
    go_to(page, 'type')
    page.evaluate("toggle('cross.3.1')")
    settle(page)
    assert explained() and 'log p' in page.inner_text('#banner-text')
    assert 'nat' in page.inner_text('#units')

def test_a_question_in_small_letters_becomes_one(new_page, site):
    "As it is typed, its translation is wrong, and the model does not doubt it"
    page = new_page('#type?t=', site['translate_here.html'])
    type_text(page, 'what time is it')
    wait(page, "now.scene.text == 'What time is it?'")
    settle(page)
    assert translation(page) == 'Wie spät ist es?'
    page.click('#notes button')
    wait(page, "now.scene.text == 'what time is it'")
    settle(page)
    assert translation(page) != 'Wie spät ist es?'
    assert 'This is' not in page.inner_text('#notes')

REWRITTEN = {
    'how are you': 'How are you?', 'can i help you': 'Can I help you?', 'who': 'Who?',
    'when I was young, I sang': 'When I was young, I sang.', 'what a day': 'What a day.',
    'WHEN DOES IT BEGIN': 'When does it begin?', 'what is it?': 'What is it?',
    'thank you': 'Thank you.', 'kannst du mir helfen': 'Kannst du mir helfen?',
    'wo ist er': 'Wo ist er?', 'wollen wir gehen!': 'Wollen wir gehen!',
    'ist gut': 'Ist gut.'}

def test_how_a_sentence_is_written(new_page, site):
    page = new_page('#type', site['translate_here.html'])
    rewrite = 'texts => texts.map(text => model().reader.read(text).read)'
    assert page.evaluate(rewrite, list(REWRITTEN)) == list(REWRITTEN.values())

IN_GERMAN = ['Einen Kaffee, bitte.', 'Ich möchte ein Bier', 'Wie ist das Wetter?']
IN_ENGLISH = ['I like you.', 'The man bit the dog.', 'Please help me!']

def test_the_other_language_is_recognized(new_page, site):
    page = new_page('#type', site['translate_here.html'])
    look = '([texts, src, tgt]) => texts.map(x => modules.guess.isInTarget(x, {src, tgt}))'
    for src, tgt, ours, theirs in (('en', 'de', IN_ENGLISH, IN_GERMAN),
                                   ('de', 'en', IN_GERMAN, IN_ENGLISH)):
        assert page.evaluate(look, [theirs + ours, src, tgt]) == [True]*3 + [False]*3
    assert page.evaluate(look, [IN_GERMAN, 'fr', 'de']) == [False]*3
    sources = [row['source'] for row in everyday_sentences() if row['direction'] == 'en-de']
    assert not any(page.evaluate(look, [sources, 'en', 'de']))
    type_text(page, 'Ich möchte ein Bier')
    read, note = texts(page, '#notes li')
    assert read.startswith('Read as “Ich möchte ein Bier.”')
    assert note == ('This looks like German, but the model reads English. '
                    'The button ⇄ German → English turns round.')
    type_text(page, 'I would like a beer.')
    assert not page.inner_text('#notes')

def test_a_character_is_named_and_not_its_bytes(new_page):
    page = new_page('#type')
    type_text(page, 'A 中 dog sleeps.')
    assert '“中” is no token that it has' in page.inner_text('#notes')

# The tour, and what can be taken away

@pytest.mark.parametrize('name, wanted', sample([
    ('translate_here.html', [
        COMES_DE, COMES_DE, 'Ich habe meiner Schwester ein Buch gegeben.', COMES_TWICE,
        'Es ist ganz schön, dass es in der Lage ist.', 'Ich weiß diesen Mann.',
        COMES_DE, 'Wir haben keinen Hunger.']),
    ('translate_german.html', [
        'I think she will come tomorrow.', 'I think she will come tomorrow.',
        'The house he lives in is very old.', 'He calls his mother calls his mother calls',
        "According to the world, it's a great deal.", 'How late is it?',
        'I think she will come tomorrow.', "She's on a diet."])], 4),
    ids=['everyday', 'everyday into English'])
def test_the_tour_says_what_is_there(new_page, site, name, wanted):
    page = new_page('#looked', site[name])
    page.set_viewport_size(dict(width=1280, height=800))
    wait(page, 'now.scene')
    before = page.url
    page.focus('#start-tour')
    page.keyboard.press('Enter')
    seen = []
    for i in range(8):
        wait(page, "document.getElementById('tour-title').innerText == arg",
             f'Tour, {i + 1} of 8')
        settle(page)
        seen.append((page.evaluate('state.view'), translation(page)))
        assert page.locator('.pointed').count() == 1
        wait(page, BESIDE, '#tgt' if seen[-1][0] == 'type' else '.pointed')
        if i == 1: # the word that it speaks of
            pinned = page.inner_text('#tgt .chip[aria-pressed=true] > span')
            says = page.inner_text('#tour-says')
            assert re.match(f'While it wrote “?{pinned}”? it', says)
            most = re.search(r'most at “?(\w+)', says)
            looked_at = page.inner_text('#tgt .chip[aria-pressed=true] > small')
            assert not most or most[1] == looked_at
        check_quotes(page)
        if i < 7: page.keyboard.press('Enter') # the focus is on Next
    wait(page, '!queue.running && shown.steps?.best')
    page.evaluate('update({step: 99})')
    places = page.eval_on_selector_all('#steps ul:not(.gone) .best',
        'all => all.map(node => [...node.parentElement.children].indexOf(node))')
    assert max(places) > 0 # the winner is not always on top
    assert 'Your turn' == page.inner_text('#tour-next')
    views = ['type', 'looked'] + ['type'] * 4 + ['machine', 'step']
    assert [view for view, _ in seen] == views
    assert all(text.startswith(start) for (_, text), start in zip(seen, wanted)), seen
    page.keyboard.press('Escape')
    assert page.locator('#tour').is_hidden() and page.url == before
    assert page.evaluate('document.activeElement.id') == 'start-tour'

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

def check_quotes(page):
    "What the tour has between quotes is on the page, before or after"
    says = page.inner_text('#tour-says') + page.inner_text('#tour-asks')
    shown = page.evaluate('[now.scene.text, now.scene.written.text, now.scene.intact.text]')
    shown.append(' '.join(texts(page, '#cards .choice span')))
    for words in re.findall('“(.+?)[.]?”', says):
        if 'such as' not in says.partition(words)[0][-20:]:
            assert words.lower() in ' '.join(shown).lower(), words

def test_the_tour_goes_back_and_ends(new_page):
    page = new_page('#type')
    page.click('#start-tour')
    page.click('#tour-next')
    page.click('#tour-back')
    assert page.inner_text('#tour-title') == 'Tour, 1 of 8'
    page.click('#tour-end')
    settle(page)
    assert page.locator('#tour, .pointed').first.is_hidden()
    assert page.input_value('#text') == BOY

@pytest.mark.parametrize('name', sample(pages.TRANSLATE, 4))
@pytest.mark.parametrize('height', sample([664, 844], 2))
def test_the_tour_on_a_phone_hides_nothing_that_it_speaks_of(new_page, site, name, height):
    phone = dict(width=390, height=height)
    page = new_page('', site[name], viewport=phone, reduced_motion='reduce')
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
        assert page.evaluate('document.documentElement.scrollWidth') <= 390
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

def test_link_and_translation_are_copied(new_page):
    page = new_page('#type')
    page.context.grant_permissions(['clipboard-read', 'clipboard-write'])
    pasted = 'navigator.clipboard.readText()'
    page.click('#copy-text')
    wait(page, "document.getElementById('copy-text').innerText == 'Copied'")
    assert page.evaluate(pasted) == BOY_DE
    page.click('#copy-link')
    wait(page, "document.getElementById('copy-link').innerText == 'Copied'")
    assert page.evaluate(pasted) == page.url

def test_presenting(new_page):
    page = new_page()
    size = "parseFloat(getComputedStyle(document.querySelector('#tgt')).fontSize)"
    before = page.evaluate(size)
    page.click('#present')
    assert page.evaluate(size) > 1.3 * before and 'p=1' in page.url
    assert page.locator('footer').is_hidden()
    page.keyboard.press('PageDown')
    wait(page, 'now.scene.text == arg', BOY)
    pause(page, 300) # a page would scroll smoothly
    assert page.evaluate('scrollY') == 0 # the sentence stays in view
    for key in ('PageDown', 'PageUp')*2: page.keyboard.press(key)
    pause(page, 300)
    assert page.evaluate('scrollY') == 0
    page.keyboard.press('Escape')
    assert page.locator('footer').is_visible() and 'p=1' not in page.url

def test_it_leads_to_the_book_where_there_is_one(new_page, tmp_path):
    page = new_page('#type')
    assert page.locator('a[href]').count() == 0 # a page by itself has no book
    export_page([str(MODEL)], tmp_path/'page.html', book='./')
    page = new_page('#looked', (tmp_path/'page.html').as_uri(), fresh=True)
    assert page.locator('#to-book').get_attribute('href') == './index.html'
    links = page.eval_on_selector_all('a[data-chapter]', 'all => all.map(a => a.href)')
    chapters = {link.rpartition('/')[2].removesuffix('.html') for link in links}
    assert chapters and all((ROOT/f'nbs/{name}.ipynb').exists() for name in chapters)

def test_it_has_the_theme_of_the_site(new_page):
    script = "localStorage.setItem('mode', 'dark')"
    page = new_page('#type', script=script, color_scheme='light')
    color = 'getComputedStyle(document.body).backgroundColor'
    assert page.evaluate(color) == 'rgb(18, 18, 18)'

# Maps

def test_arrow_keys_in_a_map(new_page, torch_model):
    page = new_page('#looked?pin=1&h=c3.4')
    page.focus('#map')
    page.keyboard.press('ArrowDown')
    page.keyboard.press('ArrowRight')
    assert page.evaluate('[state.pin, state.col]') == ['t2', 1]
    says = page.inner_text('#map-says')
    wanted = torch_maps(torch_model, page)['cross'][2, 3, 2, 1].item()
    assert says.startswith('hebt → boy: ')
    assert numbers(says) == pytest.approx([wanted], abs=.006)
    page.locator('#map canvas').hover(position=dict(x=1.5*24, y=2.5*24))
    assert page.get_attribute('#map canvas', 'title') == says

@pytest.mark.long # of a map that fits, the test above asks the same keys
def test_arrow_keys_bring_a_long_map_into_view(new_page):
    phone = dict(width=390, height=800)
    page = new_page(f'#looked?t={LONG}&pin=1', viewport=phone)
    wait(page, 'now.scene')
    page.focus('#map')
    for _ in range(30): page.keyboard.press('ArrowRight')
    box, cell = (page.locator(x).bounding_box() for x in ('#map', '#map .cell'))
    assert cell['x'] + cell['width'] <= box['x'] + box['width']
    go_to(page, 'inside')
    page.eval_on_selector('#pair-map', 'node => node.scrollLeft = 9999')
    for name in ('#map', '#pair-map'): # the names of the rows stay in view
        go_to(page, 'looked' if name == '#map' else 'inside')
        box, rows = (page.locator(x).bounding_box() for x in (name, f'{name} .rows'))
        assert page.eval_on_selector(name, 'node => node.scrollLeft') > 50
        assert rows['x'] == pytest.approx(box['x'], abs=4)

def test_names_beside_a_map_do_not_touch(new_page):
    page = new_page(f'#looked?t={CAMERA * 3}')
    wait(page, 'now.scene')
    heights = page.eval_on_selector_all('#map .rows span', '''all => all.map(node => {
        const range = document.createRange()
        range.selectNodeContents(node)
        const {top, bottom} = range.getBoundingClientRect()
        return [top, bottom]
    })''')
    assert len(heights) > 30
    assert all(a[1] <= b[0] + .5 for a, b in zip(heights, heights[1:]))

def test_empty_and_long_are_said_where_one_looks(new_page):
    page = new_page('#looked?t=')
    assert 'Type a sentence' in page.inner_text('#nothing')
    assert page.locator('#maps').is_hidden()
    type_text(page, 'A dog and ' * 40)
    assert 'no maps here' in page.inner_text('#nothing')

def test_german_is_marked_as_german(new_page):
    page = new_page('#looked?off=c4.4')
    places = {'type': '#cards', 'step': '#steps', 'break': '#honest dd'}
    for view, where in places.items():
        go_to(page, view)
        wait(page, '!queue.wanted.length')
        assert page.locator(where).first.get_attribute('lang') == 'de', view
    go_to(page, 'looked')
    assert page.get_attribute('#map .rows', 'lang') == 'de'
    assert page.get_attribute('#map .cols', 'lang') == 'en'

WRONG_TONGUE = '''() => { // words of one sentence that are marked as the other's language
    const words = tokens => new Set(tokens.map(x => x.text.trim())
        .filter(text => /^\\p{L}{3,}$/u.test(text)))
    const ofSentence = {de: words(now.scene.tgt), en: words(now.scene.src)}
    const walker = document.createTreeWalker(document.querySelector('main'), 4)
    const wrong = []
    while (walker.nextNode()) {
        const {textContent, parentElement: node} = walker.currentNode
        const {lang} = node.closest('[lang]'), other = {de: 'en', en: 'de'}[lang]
        if (!node.offsetParent || node.closest('#notes')) continue
        for (const word of textContent.match(/\\p{L}+/gu) ?? []) {
            const isWrong = ofSentence[other].has(word) && !ofSentence[lang].has(word)
            if (isWrong) wrong.push(`${word} in ${node.outerHTML.slice(0, 80)}`)
        }
    }
    return wrong
}'''

def test_each_word_is_marked_as_its_language(new_page):
    page = new_page('#looked?pin=1')
    page.click('#as-table summary')
    page.focus('#map')
    page.keyboard.press('ArrowDown')
    for view in VIEWS:
        go_to(page, view)
        wait(page, '!queue.wanted.length && !queue.running')
        assert page.evaluate(WRONG_TONGUE) == [], view

def test_nothing_is_said_of_an_empty_sentence(new_page):
    page = new_page('#type')
    assert page.locator('#gloss-note').is_visible()
    page.fill('#text', '')
    wait(page, "state.text == ''")
    assert page.locator('#gloss-note').is_hidden()

def test_half_a_word_is_waited_for(new_page):
    page = new_page('#type?t=')
    page.fill('#text', 'A dog')
    pause(page, 200)
    assert page.evaluate('state.text') == ''
    page.fill('#text', 'A dog ')
    wait(page, "state.text == 'A dog '")

def test_the_beam_plays(new_page):
    page = new_page('#step')
    page.wait_for_selector('#steps > li')
    n = int(page.get_attribute('#step', 'max'))
    shown = page.evaluate("""() => {
        document.getElementById('play').click()
        return document.querySelectorAll('#steps > li').length
    }""")
    assert shown < n
    wait(page, "document.querySelectorAll('#steps > li').length == arg", n)
    wait(page, "document.getElementById('play').innerText == 'Play'")

def test_the_search_is_the_models_own(new_page, own_model, tmp_path):
    folder, (model, tokenizer) = tmp_path/'mine', load_model(own_model)
    save_model(folder, model, tokenizer, search=dict(beam_size=5, alpha=1.8, max_extra=50))
    export_page([str(folder)], tmp_path/'page.html')
    page = new_page('#step?t=a+dog', (tmp_path/'page.html').as_uri(), fresh=True)
    assert page.evaluate('[state.beam, state.alpha]') == [5, 1.8]
    assert texts(page, '#beam option') == ['1', '2', '4', '5', '8']
    assert texts(page, '#alpha option') == ['0', '0.6', '1', '1.8']
    translate = "options => tnb.translate('a dog sees a cat .', options)"
    score = lambda **options: page.evaluate(translate, options)['score']
    assert score() == score(beam_size=5, alpha=1.8) != score(beam_size=4, alpha=0.6)

# Second actions, places and bounds: each beside what Python says of it

def places(page, selector): # of the tokens that are marked so
    return page.eval_on_selector_all('#tgt .chip', '''(all, selector) => all.flatMap(
        (node, i) => node.matches(selector) ? [i] : [])''', selector)

def test_the_tokens_that_are_fixed_are_the_first(new_page):
    page = new_page('#type')
    page.locator('.card').nth(2).locator('.choice').nth(1).click()
    wait(page, 'now.scene.force.length == 3')
    assert places(page, '.forced') == [0, 1, 2]
    page.locator('.card').first.locator('.choice').nth(1).click()
    wait(page, 'now.scene.force.length == 1')
    assert places(page, '.forced') == [0]

def test_unlikely_tokens_are_those_below_three_tenths(new_page, torch_model):
    page, found = new_page('#type'), 0
    for text in ('A man with 3 dogs and 27 cats.', 'She is my sister.', BOY):
        type_text(page, text)
        ids = ids_of(page)
        with torch.no_grad(): logits = torch_model.model(*inputs(torch_model, text, ids))
        probs = logits[0].softmax(-1)[range(len(ids)), ids].tolist()
        assert all(abs(p - .3) > .005 for p in probs) # or else rounding might decide
        assert places(page, '.unlikely') == [i for i, p in enumerate(probs) if p < .3]
        found += sum(.1 < p < .3 for p in probs)
    assert found # which a bound of a tenth would leave out

def test_a_score_without_its_root_says_so(new_page):
    page = new_page('#inside?h=c3.4')
    wait(page, "document.getElementById('sum').innerText.includes('√32')")
    dot, score, _ = numbers(page.inner_text('#sum'))
    assert score == pytest.approx(dot / math.sqrt(32), abs=.01)
    go_to(page, 'break')
    page.get_by_role('switch', name='scores divided by √dₖ').click()
    settle(page)
    go_to(page, 'inside')
    wait(page, "document.getElementById('sum').innerText.includes('switched off')")
    dot, weight = numbers(page.inner_text('#sum'))
    assert 'divided by' not in page.inner_text('#sum')
    assert page.evaluate('''() => {
        const {model, text, ids} = now.scene, [kind, layer, head] = state.head.split('.')
        return tnb.call('pair', {model, text, ids, kind, layer: Number(layer),
            head: Number(head), row: 0, col: 0, broken: {no_scale: true}})
            .then(({dot, score}) => [dot, score])
    }''') == pytest.approx([dot, dot], abs=.006)

def test_a_finished_translation_shows_its_score(new_page, torch_model):
    text = 'A man is standing on a ladder and painting a house.'
    page = new_page(f'#step?t={text}')
    page.select_option('#alpha', '1')
    wait(page, "!queue.running && shown.steps?.best && state.alpha == 1")
    page.locator('#step').press('End')
    ended = page.locator('#steps .ended')
    shown = {node.get_attribute('title').removesuffix(' (ended)'):
             numbers(node.locator('small').inner_text())[0] for node in ended.all()}
    source = [torch_model.tokenizer.encode(text)]
    [wanted] = search(torch_model.model, source, beam_size=4, alpha=1., n_best=1)
    best = wanted[0]
    assert shown[torch_model.text(best)] == pytest.approx(best.score, abs=.006)
    assert abs(best.score - sum(best.log_probs)) > .1 # another number
    lengths = {text: len(torch_model.tokenizer.encode(text)) + 1 for text in shown}
    log_probs = {text: log_prob(torch_model, page.evaluate('now.scene.text'),
                                torch_model.tokenizer.encode(text) + [EOS])
                 for text in shown}
    for german, score in shown.items():
        penalty = (5 + lengths[german]) / 6
        assert score == pytest.approx(log_probs[german] / penalty, abs=.006), german

def test_an_example_is_shown_from_its_beginning(new_page):
    page = new_page('#type')
    type_text(page, 'A man sleeps. A dog runs. A cat is sleeping on a bed.')
    page.click('.sentence:nth-child(3)')
    wait(page, "now.scene.text == 'A cat is sleeping on a bed.'")
    assert page.evaluate('state.nth') == 2 and 'n=2' in page.url
    choose_example(page, 'The dog is chasing the cat.')
    assert page.evaluate('state.nth') == 0 and 'n=' not in page.url
    type_text(page, 'A man sleeps. A dog runs.')
    page.evaluate('update({nth: 0})')
    wait(page, "now.scene.text == 'A man sleeps.'")

# With the end, 60 and 61 tokens, whose translations are shorter
SIXTY = (
    'There is a ball and a house and a boy and a small cat and a white horse and a tree '
    'and two dogs and a table and two dogs and a table and a table and a black dog '
    'and a man and two dogs and three children and a girl and a girl in the snow.')
SIXTY_ONE = (
    'There is a tree and three children and a small cat and two dogs and a white horse and '
    'three children and a red car and a red car and a small cat and a table and a red car '
    'and two dogs and a ball and a ball and a house and an old man in the snow.')

def test_maps_are_drawn_up_to_sixty_tokens(new_page):
    page = new_page('#looked?b=1')
    for n, text, is_drawn in ((60, SIXTY, True), (61, SIXTY_ONE, False)):
        type_text(page, text)
        wait(page, 'now.scene.src.length == arg', n)
        assert page.evaluate('now.scene.tgt.length') <= 60
        assert page.locator('#nothing').is_visible() != is_drawn

def test_the_field_is_full_at_its_last_character(new_page):
    page = new_page('#type?t=&b=1')
    note = 'The field holds no more than 2000 characters.'
    for n in (1999, 2000):
        type_text(page, 'A dog. ' * 285 + 'A'*(n - 1995))
        assert (note in texts(page, '#notes li')) == (n == 2000)

def test_words_are_shuffled_by_chance_alone(new_page):
    "Of three words after the first, each order comes in its turn"
    page = new_page('#type')
    found = page.evaluate('''() => {
        let n = 7
        const random = () => (n = n * 48271 % 2147483647) / 2147483647
        const {shuffled} = modules.experiments
        return Array.from({length: 400}, () => shuffled('One two three four!', random))
    }''')
    orders = Counter(text.lower().rstrip('!') for text in found)
    assert 'one two three four' not in orders and len(orders) == 23
    assert max(orders.values()) < 4*min(orders.values())
    assert all(text.endswith('!') and text[0].isupper() for text in found)

# Second actions in each view: the reader changes what an earlier action has chosen

CAT = 'A cat is sleeping on a bed.'
VIEW_STORIES = {}

def view_story(hash, *actions):
    "The last of these actions meets what the others left; then the check is called"
    def keep(check):
        VIEW_STORIES[check.__name__] = hash, actions, check
        return check
    return keep

def click(page, selector): page.locator(selector).first.click()
def at_rest(page): wait(page, '!queue.wanted.length && !queue.running')

@view_story('#type', (click, '.card:nth-child(1) .choice >> nth=1'), (type_text, CAT))
def a_new_sentence_has_no_token_fixed(page, translator):
    assert page.evaluate('state.force') == []
    ids = ids_of(page)
    assert translation(page) == translator.translate([CAT])[0]
    with torch.no_grad(): logits = translator.model(*inputs(translator, CAT, ids))
    for i, probs in enumerate(logits[0].softmax(-1).topk(5).values.tolist()):
        shown = texts(page, f'.card:nth-child({i + 1}) .choice small')
        assert shown == [f'{100*p:.0f}%' if p >= .005 else '<1%' for p in probs]

@view_story('#machine?pin=7', (click, '[data-box="cross.3"]'), (type_text, 'A dog.'))
def the_machine_shows_a_token_that_is_there(page, translator):
    maps, n = torch_maps(translator, page, 'A dog.'), len(ids_of(page))
    assert page.get_attribute('#machine-step', 'max') == str(n)
    check_lines(page, 'cross.3', [1], maps['cross'][2].mean(0))
    check_lines(page, 'decoder.2', [1], maps['decoder'][1].mean(0))
    check_lines(page, 'encoder.4', range(len(maps['encoder'][0, 0])),
                maps['encoder'][3].mean(0))
    assert page.locator('#open-map .rows span').count() == n

@view_story('#machine?pin=5', (click, '[data-box="output"]'),
            (click, '#open-cards .choice:has-text("hoch")'))
def the_machine_goes_on_with_a_token_that_was_chosen(page, translator):
    assert page.text_content('.output .writes') == 'hoch'
    assert page.locator('.choice.written').all_text_contents() == ['hoch'] # not the first
    assert page.evaluate('state.force.length') == 6
    maps = torch_maps(translator, page)
    check_lines(page, 'cross.4', [5], maps['cross'][3].mean(0))
    page.click('#undo')
    wait(page, 'now.scene.force.length == 0')
    assert page.text_content('.output .writes') == 'auf'

@view_story('#machine?pin=3&off=c3', (click, '[data-box="cross.3"]'),
            (click, '#open-switches .switch'))
def a_layer_switched_on_again_has_its_lines(page, translator):
    assert page.locator('.box.off').count() == 0
    check_lines(page, 'cross.3', [3], torch_maps(translator, page)['cross'][2].mean(0))

@view_story('#machine?pin=3', (click, '#src .chip >> nth=2'), (click, '#machine-forth'))
def a_token_of_the_sentence_loses_its_mark(page, translator):
    assert page.locator('.lane.near, .word.near').count() == 0
    assert page.text_content('.output .writes') == 'Ball' # after `einen`

@view_story('#looked?pin=7&h=d3.2', (click, '#as-table summary'), (type_text, 'A dog.'))
def the_table_is_that_of_the_new_sentence(page, translator):
    wanted = torch_maps(translator, page, 'A dog.')['decoder'][2, 1]
    shown = torch.tensor(numbers(' '.join(texts(page, '#as-table td'))))
    torch.testing.assert_close(shown.view_as(wanted), wanted, atol=.0051, rtol=0)
    assert page.locator('#map .rows .chosen').count() == 1

@view_story('#break', (click, '#switches [data-head="cross.4.4"]'), (type_text, CAT))
def what_is_off_stays_off_for_another_sentence(page, translator):
    head, ids = [('cross', 3, 3)], ids_of(page)
    old = page.evaluate('now.scene.intact.ids')
    intact, broken = (log_prob(translator, CAT, old, off) for off in ([], head))
    theirs = log_prob(translator, CAT, ids)
    lines = [numbers(line) for line in texts(page, '#honest dd:last-child')]
    assert lines[0] == pytest.approx([intact, broken, intact - broken], abs=.006)
    assert lines[2] == pytest.approx([theirs, intact - theirs], abs=.006)

@view_story('#break?off=c3.1,c3', (click, '#switches .layer[aria-checked="false"]'))
def a_head_stays_off_when_its_layer_is_on_again(page, translator):
    assert page.evaluate('state.off') == ['cross.3.1']
    off = page.locator('#switches .head[aria-checked=false], #switches .covered')
    assert off.count() == 1
    shown = numbers(page.inner_text('#honest dd:last-child >> nth=0'))
    old = page.evaluate('now.scene.intact.ids')
    assert shown[1] == pytest.approx(log_prob(translator, BOY, old, [('cross', 2, 0)]),
                                     abs=.006)

def choose_beam(page, n): page.select_option('#beam', str(n))

@view_story('#step', (choose_beam, 2), (type_text, CAT))
def the_beam_of_two_searches_the_new_sentence(page, translator):
    at_rest(page)
    source = [translator.tokenizer.encode(CAT)]
    [[best]] = search(translator.model, source, beam_size=2)
    assert page.evaluate('shown.steps.best.ids') == [*best.ids, EOS]
    assert page.locator('#steps > li').count() == 1 # from its first step
    assert page.locator('#steps ul:not(.gone) li').count() == 2

def choose_pair(page, row, col):
    page.select_option('#pair-row', str(row))
    page.select_option('#pair-col', str(col))

@view_story('#inside?h=d3.4', (choose_pair, 7, 6), (type_text, 'A dog.'))
def the_pair_is_one_of_the_shorter_sentence(page, translator):
    at_rest(page)
    n = len(ids_of(page))
    assert page.input_value('#pair-row') == page.input_value('#pair-col') == str(n - 1)
    wanted = torch_maps(translator, page, 'A dog.')['decoder'][2, 3, n - 1, n - 1].item()
    assert numbers(page.inner_text('#sum'))[-1] == pytest.approx(wanted, abs=.006)

@pytest.mark.parametrize('name', VIEW_STORIES)
def test_a_second_action_in_a_view(new_page, torch_model, name):
    hash, actions, check = VIEW_STORIES[name]
    page = new_page(hash)
    for act, *args in actions:
        act(page, *args)
        settle(page)
        at_rest(page)
    check(page, torch_model)

def test_every_view_has_a_story():
    names = {re.match(r'#(\w+)', hash)[1] for hash, _, _ in VIEW_STORIES.values()}
    assert names == set(VIEWS)

# The engine's side

def test_without_a_worker(new_page):
    no_worker = 'window.Worker = class { constructor() { throw Error() } }'
    page = new_page('#type', script=no_worker)
    assert translation(page) == BOY_DE
    assert page.evaluate("tnb.translate('A cat.')")['text']

def test_scripts_and_the_reader_do_not_disturb_each_other(new_page):
    page = new_page('#looked')
    both = page.evaluate('''() => {
        update({text: 'The dog is chasing the cat.'})
        const texts = ['A cat.', 'A boy is picking up a ball.']
        return Promise.all(texts.map(text => tnb.translate(text)))
    }''')
    assert both[1]['text'] == BOY_DE
    wait(page, 'Object.keys(costs()).length == 48 && !queue.running')
    assert translation(page) == 'Der Hund jagt die Katze.'

@pytest.mark.parametrize('at', ['id="weights-', 'id="engine"', 'globalThis.tnb ='])
def test_a_page_that_is_cut_says_so(chromium, address, tmp_path, at):
    "Half a download: in the weights, in the engine, or in the last script"
    path = Path(address.removeprefix('file://').replace('%20', ' '))
    text = path.read_text(encoding='utf8')
    assert text.count(at) == 1
    (tmp_path/'page.html').write_text(text[:text.index(at) + 40], encoding='utf8')
    page = chromium.new_page()
    page.goto((tmp_path/'page.html').as_uri())
    said = 'the file is incomplete: download it again'
    page.wait_for_selector(f'#status:text("{said}")', state='attached')
    page.close()

@pytest.fixture
def slow_page(address):
    "The page as a server sends it that stops in the weights, until it may go on"
    path = Path(address.removeprefix('file://').replace('%20', ' '))
    data, may_go_on = path.read_bytes(), threading.Event()
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
    return [...[...chip.children].map(child => child.innerText), x, y, width, height]
})'''

@pytest.mark.parametrize('width', [320, 1280])
def test_while_the_weights_come_there_is_something_to_see(chromium, slow_page, width):
    "And when they are here, nothing has moved"
    url, may_go_on = slow_page
    page = chromium.new_page(viewport=dict(width=width, height=800))
    page.add_init_script(f'({WATCH})()')
    page.goto(url, wait_until='commit')
    page.wait_for_selector('#status:text-matches("on its way: [1-9]")')
    share = int(re.search(r'(\d+)%', page.inner_text('#status'))[1])
    assert 20 < share < 80
    ready, promise = page.evaluate(SEEN_SO_FAR), page.inner_text('#promise')
    labels = [chip[0] for chip in ready]
    assert labels.count('end') == 2 and labels[-1] == 'end' and len(labels) > 10
    assert sum(chip[1] != '' for chip in ready) > 3 # the words that were looked at
    assert 'has read' in promise
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
    "Be it after a linked sentence, which is not shown with the tokens of another one"
    url, may_go_on = slow_page
    page = chromium.new_page()
    page.goto(f'{url}#type?t=A+cat+is+sleeping.', wait_until='commit')
    page.wait_for_selector('#status:text-matches("on its way: [1-9]")')
    assert page.input_value('#text') == 'A cat is sleeping.'
    assert page.locator('#stage .chip').count() == 0
    page.fill('#text', 'A dog is running.')
    may_go_on.set()
    page.wait_for_selector('body.ready')
    page.wait_for_selector('#src .chip:has-text("dog")')
    assert page.input_value('#text') == 'A dog is running.'
    page.close()

def test_folders_keep_their_order(new_page, own_model, tmp_path):
    "Also those whose names are numbers, which JavaScript would sort"
    for name in ('2', '1'): shutil.copytree(own_model, tmp_path/name)
    export_page([tmp_path/'2', tmp_path/'1'], tmp_path/'page.html')
    page = new_page('', (tmp_path/'page.html').as_uri(), fresh=True)
    assert page.evaluate('Object.values(models).map(({title}) => title)') == ['2', '1']
    assert page.evaluate('state.model') == 'model-2'

REFUSED = { # what scripts may not ask for, and why
    'beam_size is': [dict(beam_size=n) for n in (0, 101, 1000, 2.5, '4', None)],
    'alpha is': [dict(alpha=x) for x in (-1, 11, 'x')],
    'max_extra is': [dict(max_extra=n) for n in (0, 1e9, 'x')],
    'text is': [dict(text=x) for x in (None, 5, ['A dog.'])],
    'tokens are': [dict(prefix=x) for x in ([-1], [6000], [1.5], 'abc')]}

def test_calls_of_no_use_are_refused(new_page):
    "A beam of 1,000 weighs a million candidates in each step, while later calls wait"
    page = new_page('#type')
    call = """options => tnb.call('translate', {text: 'A dog.', ...options})
        .then(x => x.text).catch(error => error.message)"""
    for why, cases in REFUSED.items():
        for options in cases: assert page.evaluate(call, options).startswith(why), options
    inspect = "ids => tnb.call('inspect', {text: 'A dog.', ids}).catch(e => e.message)"
    for ids in (None, [6000], 'abc'):
        assert page.evaluate(inspect, ids).startswith('tokens are')
    assert page.evaluate(call, dict(beam_size=2)) == 'Ein Hund.'

def test_a_failed_check_is_said(chromium, address, tmp_path):
    path = Path(address.removeprefix('file://').replace('%20', ' '))
    text = path.read_text(encoding='utf8')
    def off(m): return f'{m[1]}{float(m[2]) + .05:.5f}'
    text, n = re.subn(r'("check": ?\{[^}]*"log_prob": ?)(-[\d.]+)', off, text, count=1)
    assert n == 1
    (tmp_path/'page.html').write_text(text, encoding='utf8')
    page = chromium.new_page()
    page.goto((tmp_path/'page.html').as_uri())
    when_ready(page)
    assert 'The self-check failed' in page.inner_text('#notes')
    page.close()
