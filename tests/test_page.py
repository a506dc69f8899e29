"""What the page that `tnb_export MODEL page.html` writes says and computes, beside PyTorch.
It is asked in Node, with its own script, engine and model, and a document without layout;
`test_playground.py` looks at it in Chromium.
"""
import math, re, shutil
from collections import Counter
import pytest
import torch
from beside import (
    BOY, BOY_DE, MODEL, MODELS, VIEWS, ids_of, inputs, log_prob, logits_of, maps_of,
    numbers, shares)
from node import Window, packed
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.corpora import everyday_sentences
from transformer_nb.decoding import search
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.multihead import causal_mask, padding_mask
from transformer_nb.support.core import EOS, set_seed
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator

CAT, CAT_DE = 'A cat is sleeping on a bed.', 'Eine Katze schläft auf einem Bett.'
CHASE = 'The dog is chasing the cat.'
PARLIAMENT = 'The parliament adopted the resolution.'

def opened(folder, *folders):
    page = Window(packed(folder/'page.json', folders))
    yield page
    page.close()

@pytest.fixture(scope='module')
def captions(tmp_path_factory): yield from opened(tmp_path_factory.mktemp('c'), MODEL)

@pytest.fixture(scope='module')
def both(tmp_path_factory):
    "The two everyday models in one page"
    names = 'everyday-en-de', 'everyday-de-en'
    yield from opened(tmp_path_factory.mktemp('b'), *(MODELS/name for name in names))

@pytest.fixture
def page(captions):
    captions.go(f'#type?t={BOY}')
    return captions

@pytest.fixture
def everyday(both):
    both.go('#type?m=en-de&t=I have a dog.')
    return both

@pytest.fixture(scope='module')
def model(): return Translator(MODEL, torch.device('cpu'))

@pytest.fixture(scope='module')
def english(): return Translator(MODELS/'everyday-en-de', torch.device('cpu'))

def translation(page):
    return page.attribute('#tgt', 'aria-label').removeprefix('Translation: ')

def go_to(page, view): page.click(f'#tab-{view}')
def state(page, name): return page.evaluate(f'state.{name}')
def head(kind, layer, n): return kind, layer - 1, n - 1

# Type

def test_alternatives_are_the_likeliest_next_tokens(page, model):
    likeliest = logits_of(model, page).softmax(-1).topk(5).values.tolist()
    for i, probs in enumerate(likeliest, 1):
        assert page.texts(f'.card:nth-child({i}) .choice small') == shares(probs)
    assert page.count('.card') == len(likeliest)
    assert page.texts('#tgt .chip > span')[-1] == 'end'

def test_tokens_are_fixed_and_let_go(page):
    page.click('.card:nth-child(6) .choice:not(.taken)')
    assert translation(page) == 'Ein Junge hebt einen Ball hoch.'
    assert 'the first 6 tokens are fixed' in page.text('#banner-text')
    forced = page.attributes('#tgt .forced', 'data-at')
    assert forced == [f't{i}' for i in range(6)]
    page.click('.card:nth-child(1) .choice:not(.taken)')
    assert page.attributes('#tgt .forced', 'data-at') == ['t0']
    page.click('#undo')
    assert 'hoch' in translation(page)
    page.click('#reset')
    assert translation(page) == BOY_DE and state(page, 'force') == []
    page.click('.card:nth-child(1) .choice:not(.taken)')
    page.type('A cat sleeps.')
    page.evaluate('undo()') # which stays with its sentence
    assert state(page, 'force') == [] and 'fixed' not in page.text('#banner')

def test_notes(page):
    page.evaluate('update({beam: 1})')
    notes = {PARLIAMENT: ('#notes', 'captions of photos'),
             BOY: ('#experiment-says', 'Switch off one of 48 heads, cross 4.4'),
             '12 '*120: ('#field-note', 'Only its first 300 characters are translated.'),
             'A 中 dog sleeps.': ('#notes', '“中” is no token that it has')}
    for text, (place, note) in notes.items():
        page.type(text)
        assert note in page.text(place), text
    page.type('A man is riding a bike.')
    assert page.texts('#notes li') == []
    cut = 'text => modules.sentences.sentencesOf(text).map(x => [...x].length)'
    assert page.evaluate(cut, 'A ' + '🐶'*400) == [300] # between characters, if need be
    assert page.evaluate(cut, 'y'*300) == [300]
    full = 'The field holds no more than 2000 characters.'
    for text in ('😀'*999 + '1', '😀'*1000): # of which each is two
        page.type(text)
        assert (full in page.text('#field-note')) == ('1' not in text)
    page.go('#type?x=1&t=A dog 🐶.')
    assert 'is read as its 4 bytes.' in page.text('#notes')
    titles = page.attributes('#src .chip', 'title')
    assert [x for x in titles if x.startswith('byte')][-1] == 'byte 4 of 4 of 🐶'

def test_two_sentences_are_translated_one_by_one(page):
    page.type('A man is riding a bike. Two dogs are playing in the snow.')
    both = ['Ein Mann fährt Fahrrad.', 'Zwei Hunde spielen im Schnee.']
    assert page.texts('.sentence strong') == both
    page.click('.sentence:nth-child(2)')
    assert translation(page) == both[1] and 'n=1' in page.hash()
    assert page.evaluate('wholeTranslation()') == ' '.join(both)
    page.push('Examples') # what is chosen is shown from its beginning
    page.click('#examples-list li:nth-child(6) button')
    assert state(page, 'nth') == 0 and 'n=' not in page.hash()
    page.go('#type?t=A man is riding a bike. Two dogs are playing.&n=7')
    assert translation(page) == 'Zwei Hunde spielen.' # where there is none, the last
    page.type('I see it.\nI am tired.\n\nIt is late.')
    assert page.evaluate('wholeTranslation()').count('\n\n') == 1

def test_under_each_token_stands_what_it_looked_at(page, model):
    page.go('#type')
    words = page.texts('#tgt .chip > small')
    cross = maps_of(model, page)['cross'][2].mean(0)
    text = page.evaluate('now.scene.text')
    src = [model.tokenizer.decode([i]).strip() for i in model.tokenizer.encode(text)]
    most = [[*src, ''][i] for i in cross.argmax(-1)]
    assert words[:-2] == most[:-2] and words[-2:] == ['', '']

def test_unlikely_tokens_are_those_below_three_tenths(page, model):
    found = 0
    for text in ('A man with 3 dogs and 27 cats.', 'She is my sister.', BOY):
        page.type(text)
        ids = ids_of(page)
        probs = logits_of(model, page).softmax(-1)[range(len(ids)), ids].tolist()
        assert all(abs(p - .3) > .005 for p in probs) # or else rounding might decide
        unlikely = [f't{i}' for i, p in enumerate(probs) if p < .3]
        assert page.attributes('#tgt .unlikely', 'data-at') == unlikely
        found += sum(.1 < p < .3 for p in probs)
    assert found # which a bound of a tenth would leave out

def test_a_guess_is_called_one(page, everyday):
    page.type('The president gave a speech about the economy.')
    note = page.text('#notes')
    assert 'probably nonsense' in note and '“president”' in note
    assert page.count('#tgt .unlikely') > 0
    page.push('Blindfold it') # from here on it is not the sentence's fault
    assert 'nonsense' not in page.text('#notes')
    for text in ('qwrt zxcvb plmok', 'the enzyme catalyzes the hydrolysis of proteins'):
        everyday.type(text)
        assert 'This is' in everyday.text('#notes') # however it is written
        assert everyday.count('#exact') == 1, text

def test_confidence_is_the_models_own(page):
    probs = page.evaluate('now.scene.seen.token_log_probs.map(Math.exp)')
    share = round(100 * math.prod(probs) ** (1 / len(probs)))
    assert f'confidence: {share}% per token' in page.text('#status')
    assert .87 < max(probs) < .95 and 'log p' not in page.text('main')
    for view in VIEWS[1:]:
        go_to(page, view)
        assert 'log p' in page.text('#units') and 'nat' in page.text('#units'), view

def test_the_closest_race_is_of_tokens(everyday):
    for text, is_close in {'Hello.': False, # but for the mark
                           'Turn off the light before you go to bed.': True}.items():
        everyday.type(text)
        assert ('“Sch” (60%)' in everyday.text('#rivals')) == is_close
        assert all(everyday.texts('.choice > span')) # each has a name, a space too

# What people type and paste

FORMS = ['He isn’t here.', " He isn't  here.\u00a0", 'He\tisn\u2019t\nhere.',
         "He is\u00adn\u200b't here.\ufeff", "Ｈe isn't here．"]

def test_its_form_changes_no_translation(everyday, english):
    [german] = english.translate(["He isn't here."])
    assert 'nicht' in german
    for text in FORMS: # whatever keyboard, phone or program wrote it
        everyday.type(text)
        assert translation(everyday) == german, ascii(text)
        assert everyday.count('#exact') == 0 # nothing was added to it

READ_AS = {
    'hello': ('Hello.', 'Read as “Hello.”'),
    'what time is it': ('What time is it?', 'Read as “What time is it?”'),
    'I LOVE YOU': ('I love you.', 'Read as “I love you.” and given back in capitals.'),
    'I love you 😀': ('I love you.', 'Read as “I love you.”, with 😀 put back afterwards.'),
    'I love 🐶 dogs.': ('I love dogs.', 'Read as “I love dogs.”, without 🐶.')}

def test_what_is_typed_is_read_as_what_it_means(everyday, english):
    for text, (read, note) in READ_AS.items():
        everyday.type(text)
        assert everyday.evaluate('now.scene.text') == read
        [german] = english.translate([text])
        assert translation(everyday) == everyday.evaluate('wholeTranslation()') == german
        assert everyday.texts('#field-note span') == [note]
        everyday.wait(1000)
        assert note in everyday.evaluate("document.getElementById('spoken').textContent")
    everyday.push('Exactly as typed') # of the last one
    [german] = english.translate([text], exact=True)
    assert translation(everyday) == german and 'x=1' in everyday.hash()
    assert everyday.attribute('#exact', 'aria-pressed') == 'true'
    everyday.push('Exactly as typed')
    assert everyday.evaluate('now.scene.text') == read and 'x=1' not in everyday.hash()

@pytest.mark.parametrize('text', ['12', '3.50 €', 'https://a.org/b?c', '👩‍👩‍👧‍👦 ❤️'])
def test_what_is_no_language_comes_back_as_it_is(everyday, english, text):
    everyday.type(text)
    [same] = english.translate([text])
    assert translation(everyday) == same == everyday.evaluate('wholeTranslation()')
    assert everyday.count('#tgt .chip') == 0
    note = f'Nothing to translate: {same} comes back as it is.'
    assert everyday.text('#field-note').startswith(note)
    again = everyday.evaluate('text => tnb.translate(text)', text)
    assert again['text'] == same and again['ids'] == []
    everyday.push('Exactly as typed') # the model's own answer
    assert everyday.count('#tgt .chip') > 0

def test_other_numbers_are_a_warning(everyday):
    text = 'Call 555-1234.'
    note = 'The numbers differ: 555, 1234 is missing and 5534 is new.'
    everyday.type(text)
    assert note in everyday.texts('#notes li')
    everyday.type(f'I love you. {text}') # and of a sentence that is not shown
    assert 'Sentence 2: the numbers differ' in everyday.text('#notes')
    everyday.type('I am 30.')
    assert 'differ' not in everyday.text('#notes')

def test_a_cut_translation_says_so_wherever_it_is(page):
    page.go('#type?b=1&x=1&t=A ' + 'y'*120 + '. A dog runs.&n=1')
    note = 'the translation was cut at its limit'
    assert f'Sentence 1: {note}' in page.text('#notes')
    page.click('.sentence:nth-child(1)')
    assert f'stopped after {len(ids_of(page))} tokens' in page.text('#status')
    assert note not in page.text('#notes')

def test_scripts_read_as_the_page_does(everyday, english):
    text, ask = 'hello. I AM TIRED 😀', '([text, exact]) => tnb.translate(text, {exact})'
    read, exact = (everyday.evaluate(ask, [text, x])['text'] for x in (False, True))
    assert read == english.translate([text])[0] != exact
    assert exact == english.translate([text], exact=True)[0]

IN_GERMAN = ['Einen Kaffee, bitte.', 'Ich möchte ein Bier', 'Wie ist das Wetter?']
IN_ENGLISH = ['I like you.', 'The man bit the dog.', 'Please help me!']

def test_the_other_language_is_recognized(everyday):
    look = '([texts, src, tgt]) => texts.map(x => modules.guess.isInTarget(x, {src, tgt}))'
    for src, tgt, ours, theirs in (('en', 'de', IN_ENGLISH, IN_GERMAN),
                                   ('de', 'en', IN_GERMAN, IN_ENGLISH)):
        assert everyday.evaluate(look, [theirs + ours, src, tgt]) == [True]*3 + [False]*3
    assert everyday.evaluate(look, [IN_GERMAN, 'fr', 'de']) == [False]*3
    sources = [row['source'] for row in everyday_sentences() if row['direction'] == 'en-de']
    assert not any(everyday.evaluate(look, [sources, 'en', 'de']))
    everyday.type('Ich möchte ein Bier')
    [note] = everyday.texts('#notes li')
    assert 'looks like German' in note and note.endswith('⇄ German → English turns round.')

def test_a_translation_is_read_back_by_the_other_model(everyday):
    "For those who cannot read it: at once, where both models are in the page"
    back = Translator(MODELS/'everyday-de-en', torch.device('cpu'))
    for text in ('I have lost my keys.', 'I love you.'):
        everyday.type(text)
        assert everyday.text('#way-back q') == back.translate([translation(everyday)])[0]
    assert everyday.attribute('#way-back q', 'lang') == 'en'
    assert everyday.count('#read-back') == 0 # it needs no button
    everyday.click('#turn')
    assert state(everyday, 'model') == 'de-en'
    assert everyday.attribute('#way-back q', 'lang') == 'de'
    everyday.type('')
    assert everyday.count('#way-back') == everyday.count('#gloss-note') == 0

# Look

def check_lines(page, rows): # of weights
    wanted = [w for w in rows if w >= .05]
    widths = map(float, page.attributes('#lines path', 'stroke-width'))
    assert list(widths) == pytest.approx([1 + 8*w for w in wanted], abs=1e-3)

def test_lines_are_the_weights(page, model):
    page.go(f'#looked?t={BOY}&pin=5') # auf
    maps = maps_of(model, page)
    mean = {kind: x[2].mean(0) for kind, x in maps.items()} # of layer 3
    cross = mean['cross'][5].tolist()
    check_lines(page, cross + mean['decoder'][5, 1:].tolist()) # <s> has no chip
    shown = page.styles('#src .chip', '--w')
    assert shown == pytest.approx([w if w >= .05 else 0 for w in cross], abs=1e-4)
    page.click('#src .chip:nth-child(2)')
    check_lines(page, mean['encoder'][1].tolist() + mean['cross'][:, 1].tolist())
    page.evaluate("update({lines: 'head', head: 'cross.3.4', pin: 't5'})")
    check_lines(page, maps['cross'][2, 3, 5].tolist()) # which sees only the source
    page.press('Escape')
    assert page.count('#lines path') == 0
    page.type(CHASE)
    assert page.count('#lines path') > 0 # of a new sentence, at once

def test_a_pin_that_a_view_set_stays_there(page):
    pinned = '#tgt .chip[aria-pressed=true]'
    for _ in range(2):
        go_to(page, 'looked')
        assert page.count(pinned) == 1 # of which there are lines at once
        assert 'pin' not in page.hash() # and which is nobody's own
        go_to(page, 'type')
        assert page.count(pinned) == 0 and 'pin' not in page.hash()
    page.click('#tgt .chip:nth-child(3)')
    go_to(page, 'break')
    assert page.count(pinned) == 1 and 'pin=2' in page.hash() # the reader's own

def test_each_head_has_its_map_its_worth_and_its_words(page, model):
    page.go(f'#looked?t={BOY}&h=c3.4')
    assert page.count('#maps .head') == 48
    costs, ids = page.evaluate('costs()'), ids_of(page)
    full = log_prob(model, BOY, ids)
    for key in ('cross.3.1', 'cross.4.2', 'encoder.3.1', 'decoder.1.1'):
        kind, layer, n = key.split('.')
        without = log_prob(model, BOY, ids, [head(kind, int(layer), int(n))])
        assert costs[key] == pytest.approx(without - full, abs=2e-3)
    assert f'{abs(costs["cross.3.4"]):.2f} nats' in page.text('#head-note')
    page.click('#maps [data-head="encoder.3.1"]')
    assert page.text('#head-name') == 'encoder 3.1'
    pressed = page.attributes('#maps .head[aria-pressed=true]', 'data-head')
    assert pressed == ['encoder.3.1']
    plain = {'previous': 'back', 'same': 'same|itself', 'next': 'ahead|further on',
             'delimiter': 'punctuation', 'broad': 'whole sentence', 'local': 'nearby',
             'long-distance': 'near or far'}
    for key, known in page.evaluate('Object.entries(model().heads)'):
        said = page.evaluate(f'modules.heads.inPlainWords({key!r})')
        measured = re.search(r'(previous|same|next) (token|place)', known['note'])
        assert re.search(plain[measured[1] if measured else known['class']], said), key

def test_arrow_keys_in_a_map(page, model):
    page.go(f'#looked?t={BOY}&pin=1&h=c3.4')
    page.evaluate("document.getElementById('map').focus()")
    for key in ('ArrowDown', 'ArrowRight'): page.press(key, '#map')
    assert page.evaluate('[state.pin, state.col]') == ['t2', 1]
    says, wanted = page.text('#map-says'), maps_of(model, page)['cross'][2, 3, 2, 1].item()
    assert says.startswith('hebt → boy: ')
    assert numbers(says) == pytest.approx([wanted], abs=.006)

# With the end, 60 and 61 tokens, whose translations are shorter
SIXTY = (
    'There is a ball and a house and a boy and a small cat and a white horse and a tree '
    'and two dogs and a table and two dogs and a table and a table and a black dog '
    'and a man and two dogs and three children and a girl and a girl in the snow.')
SIXTY_ONE = (
    'There is a tree and three children and a small cat and two dogs and a white horse and '
    'three children and a red car and a red car and a small cat and a table and a red car '
    'and two dogs and a ball and a ball and a house and an old man in the snow.')

def test_maps_are_drawn_up_to_sixty_tokens(page):
    page.go('#machine?b=1&t=')
    assert 'Type a sentence' in page.text('#nothing')
    for n, text, is_drawn in ((60, SIXTY, True), (61, SIXTY_ONE, False)):
        page.type(text)
        assert page.evaluate('now.scene.src.length') == n >= len(ids_of(page))
        assert ('no maps here' in page.text('#nothing')) != is_drawn

# Break

def check_outcome(page, model, text, off):
    "What Break says of the old text and the new one, by both models"
    old, new = page.evaluate('now.scene.intact.ids'), ids_of(page)
    intact, broken = (log_prob(model, text, old, x) for x in ([], off))
    ours, theirs = (log_prob(model, text, new, x) for x in (off, []))
    lines = [numbers(line) for line in page.texts('#honest dd:last-child')]
    close = lambda x: pytest.approx(x, abs=.006)
    assert lines[0] == close([intact, broken, intact - broken])
    if old != new: assert lines[1:] == [close([ours]), close([theirs, intact - theirs])]
    return intact, broken

def test_a_head_is_switched_off_and_honestly_told(page, model):
    go_to(page, 'break')
    page.click('#switches [data-head="cross.4.4"]')
    assert translation(page) == 'Ein Junge hebt einen Ball hoch.'
    both = check_outcome(page, model, BOY, [head('cross', 4, 4)])
    assert page.texts('#honest del') == ['auf'] and page.texts('#honest ins') == ['hoch']
    page.wait(1000)
    spoken = page.evaluate("document.getElementById('spoken').textContent")
    assert spoken == ('Ein Junge hebt einen Ball hoch. Lost: auf. New: hoch. '
                      'Old text 2.64 nats less likely.')
    switch = '#switches [data-head="cross.4.4"]'
    assert page.attribute(switch, 'aria-checked') == 'false'
    for view in VIEWS: # the banner is everywhere
        go_to(page, view)
        banner = page.text('#banner-text')
        assert '1 off: cross 4.4' in banner
        assert numbers(banner)[1:] == pytest.approx(both, abs=.006)
    page.go(f'#break?t={BOY}&off=e1.2,e1.2') # named twice, off once
    assert translation(page) == BOY_DE and page.text('#banner-text').startswith('1 off: ')
    assert 'Unchanged. That is normal' in page.text('#honest')

def test_whole_layers_and_other_parts(page):
    go_to(page, 'break')
    for part in ('scores divided by √dₖ', 'positions', 'encoder sees what follows'):
        page.push(part)
    page.click('#switches [aria-label="cross, all heads of layer 3"]')
    assert page.text('#banner-text').startswith(
        '4 off: no √dₖ, no positions, causal encoder, cross layer 3')
    assert page.count('#switches .covered') == 4 and translation(page) != BOY_DE
    assert 'off=scale%2Cpositions%2Ccausal%2Cc3' in page.hash()
    go_to(page, 'inside')
    said = page.text('#sum')
    assert '√dₖ is switched off' in said and 'divided by' not in said
    page.click('#reset')
    assert state(page, 'off') == []
    page.click('#undo') # of the reset
    assert len(state(page, 'off')) == 4

def test_experiments_have_names(page):
    page.push('Blindfold it')
    blind = translation(page)
    assert 'off=c&' in page.hash() and page.texts('#tgt small:not(:empty)')[0] == ''
    page.type(CAT)
    assert translation(page) == blind # whatever is typed
    page.push('Does it need to think')
    assert translation(page) == CAT_DE and state(page, 'off') == ['encoder']
    assert 'the translation is unchanged' in page.text('#banner-text')

def test_words_are_shuffled_and_put_back(page):
    page.push('Shuffle the words')
    shuffled, words = page.evaluate('state.text'), BOY.lower().strip('.').split()
    assert sorted(shuffled.lower().strip('.').split()) == sorted(words)
    assert shuffled[0].isupper() and shuffled[1:].islower() and shuffled[-1] == '.'
    assert page.text('#banner-text') == 'the words are shuffled'
    page.evaluate("toggle('cross.4.4')") # and still says it, when more is changed
    page.settle()
    banner = page.text('#banner-text')
    assert banner.startswith('1 off: cross 4.4 · ') and 'words are shuffled' in banner
    page.click('#reset')
    assert state(page, 'text') == BOY and 'Nothing' in page.text('#banner-text')
    page.click('#undo')
    assert state(page, 'text') == shuffled
    page.push('Shuffle the words')
    assert state(page, 'text') == BOY
    found = page.evaluate("""() => { // each order comes in its turn
        let n = 7
        const random = () => (n = n * 48271 % 2147483647) / 2147483647
        const {shuffled} = modules.experiments
        return Array.from({length: 400}, () => shuffled('One two three four!', random))
    }""")
    orders = Counter(text.lower().rstrip('!') for text in found)
    assert 'one two three four' not in orders and len(orders) == 23
    assert max(orders.values()) < 4*min(orders.values())

# Step

def test_the_beam_grows(page):
    go_to(page, 'step')
    n = int(page.evaluate("document.getElementById('step').max"))
    assert page.count('#steps > li') == 1 # the reader makes it grow
    page.click('#forth')
    assert page.count('#steps > li:nth-child(2) ul:not(.gone) li') == 4
    assert page.count('#steps .dropped') == 8 and page.count('#edges path') == 4
    assert 'after “Ein”' in page.texts('#steps > li:nth-child(2) li')[0]
    page.evaluate('update({step: 99})')
    best = page.texts('#steps .best > span:nth-child(1)')
    labels = page.evaluate('now.scene.tgt.map(label)')
    assert [x.removeprefix('■ ') for x in best] == labels
    assert page.count('#steps .ended') >= 1
    assert page.texts('#ends dt') == ['Beam of 4', 'Greedy']
    page.go('#step?t=A man cutting branches of trees.')
    best, greedy = page.evaluate('[shown.steps.best.score, shown.steps.greedy.score]')
    assert best > greedy and f'{best - greedy:.2f} below' in page.text('#ends')
    page.go(f'#step?t={BOY}')
    page.click('#play')
    page.wait(20_000)
    assert page.text('#play') == 'Play' # at the end
    assert page.count('#steps > li') == n

def test_the_beam_keeps_what_the_reader_fixed(page):
    page.click('.card:nth-child(1) .choice:not(.taken)')
    go_to(page, 'step')
    assert page.evaluate('shown.steps.best.ids') == ids_of(page)
    assert page.evaluate('shown.steps.greedy.ids[0] == state.force[0]')

def test_a_finished_translation_shows_its_score(page, model):
    text = 'A man is standing on a ladder and painting a house.'
    page.go(f'#step?t={text}&a=1')
    page.evaluate('update({step: 99})')
    titles = page.attributes('#steps .ended', 'title')
    scores = [numbers(x)[0] for x in page.texts('#steps .ended small')]
    shown = {x.removesuffix(' (ended)'): score for x, score in zip(titles, scores)}
    source = [model.tokenizer.encode(text)]
    [[best]] = search(model.model, source, beam_size=4, alpha=1.)
    assert shown[model.text(best)] == pytest.approx(best.score, abs=.006)
    assert abs(best.score - sum(best.log_probs)) > .1 # another number
    for german, score in shown.items():
        ids = model.tokenizer.encode(german) + [EOS]
        penalty = (5 + len(ids)) / 6
        assert score == pytest.approx(log_prob(model, text, ids) / penalty, abs=.006)

# Inside

def test_one_score_by_hand(page, model):
    page.go(f'#inside?t={BOY}&h=c3.4')
    page.pick('pair-row', '5')
    page.pick('pair-col', '4')
    dot, score, weight = numbers(page.text('#sum'))
    products = numbers(' '.join(page.texts('#products b')))
    assert len(products) == 32 and sum(products) == pytest.approx(dot, abs=.2)
    assert score == pytest.approx(dot / math.sqrt(32), abs=.01)
    wanted = maps_of(model, page)['cross'][2, 3, 5, 4].item()
    assert weight == pytest.approx(wanted, abs=.006)
    query = page.text('#sum').partition(' · ')[0]
    assert query == 'Query that writes auf' # it has not been read when this is made
    page.pick('pair-head', 'decoder.3.4')
    assert page.text('#sum').startswith('Query of')
    page.pick('pair-row', '2')
    assert page.count('#pair-col option') == 3 # the rest is masked

# Machine

def check_machine(page, box, rows, weights): # (t, s)
    "Its lines are as wide as the weights, and faint ones are left out"
    lines = f'.weights[data-key="{box}"] path'
    places = [tuple(map(int, x.split(','))) for x in page.attributes(lines, 'data-at')]
    found = dict(zip(places, map(float, page.attributes(lines, 'stroke-width'))))
    wanted = {(i, j): .4 + 6*w for i in rows for j, w in enumerate(weights[i].tolist())}
    assert {k for k, w in wanted.items() if w > .4 + 6*.031} <= found.keys()
    assert found.keys() <= {k for k, w in wanted.items() if w > .4 + 6*.029}
    assert found == pytest.approx({k: wanted[k] for k in found}, abs=2e-3)

def test_lines_of_the_machine_are_the_weights(page, model):
    page.go(f'#machine?t={BOY}&pin=5')
    for kind, maps in maps_of(model, page).items():
        for layer, of_heads in enumerate(maps, 1):
            rows = range(of_heads.shape[1]) if kind == 'encoder' else [5]
            check_machine(page, f'{kind}.{layer}', rows, of_heads.mean(0))

TILES = '''([where, name]) => { // of a column of tiles: alpha of each pixel
    const {plan} = document.getElementById('machine-picture')
    const i = plan.tiles.findIndex(tile => tile.where === where && tile.name === name)
    const all = document.getElementById('machine-picture').querySelectorAll('.tiles')
    const {data} = all[i].getAttribute('href').image
    return [...data].filter((_, k) => k % 4 === 3)
}'''

def check_tiles(page, where, name, vectors): # (t, d)
    "A tile has 4 by 6 pixels between two empty rows; full is 2.5 root mean squares"
    full = 2.5 * vectors.pow(2).mean().sqrt()
    wanted = (255 * (vectors[:, :24] / full).abs().clamp(max=1)).view(-1, 6, 4)
    shown = torch.tensor(page.evaluate(TILES, [where, name])).float().view(-1, 8, 4)
    assert not shown[:, [0, 7]].any()
    torch.testing.assert_close(shown[:, 1:7], wanted, atol=1., rtol=0)

@torch.no_grad()
def test_tiles_of_the_machine_are_the_vectors(page, model):
    page.go(f'#machine?t={BOY}&pin=7')
    net, (src, tgt) = model.model, inputs(model, BOY, ids_of(page))
    x, memory = net.src_embedding(src), net.encode(src)
    y = net.tgt_positions(net.tgt_embedding(tgt))
    check_tiles(page, 'encoder', '· √d_model', x[0])
    check_tiles(page, 'encoder', '+ position', net.src_positions(x)[0])
    check_tiles(page, 'encoder', 'memory', memory[0])
    for i, layer in enumerate(net.decoder.layers, 1):
        y = layer(y, memory, causal_mask(tgt.shape[1]), padding_mask(src))
        check_tiles(page, f'decoder layer {i}', 'after feed-forward', y[0])
    page.evaluate("openBox = modules.machine_open.openBox, openBox('memory')")
    page.settle()
    lengths = numbers(' '.join(page.texts('#open-vectors .number')))
    assert lengths == pytest.approx(memory[0].norm(dim=-1).tolist(), abs=.051)

def test_the_machine_writes_token_by_token(page, model):
    page.go(f'#machine?t={BOY}&pin=1')
    likeliest = logits_of(model, page).softmax(-1).topk(5).values.tolist()
    full = float(page.attribute('.output .track', 'width'))
    written = 'Ein Junge hebt einen Ball auf . end'.split()
    first = maps_of(model, page)['decoder'][0].mean(0) # of layer 1
    n_src = page.evaluate('now.scene.src.length')
    for at in range(1, len(written)):
        probs, read = likeliest[at], ['start'] + written[:at]
        assert page.texts('.output .percent') == shares(probs)
        widths = map(float, page.attributes('.output .bar', 'width'))
        assert list(widths) == pytest.approx([max(1, full*p) for p in probs], abs=.5)
        assert page.text('.output .writes') == written[at]
        assert page.count('.return') == (at < len(written) - 1)
        says = page.text('#machine-says')
        assert f'writes “{written[at].replace("end", "the end")}”' in says
        assert page.texts('.word')[n_src:] == read # nothing that is still to come
        assert page.text('.word.now') == read[-1]
        spoken = page.attribute('[data-box="decoder.1"]', 'aria-label')
        assert f'most at “{read[first[at].argmax()]}”' in spoken
        page.click('#machine-forth')
    page.click('#tgt .chip:nth-child(4)') # above, too
    assert page.text('.output .writes') == 'einen'

def test_what_is_off_is_seen_in_the_machine(page, model):
    page.go(f'#machine?t={BOY}&off=c4.4,d2,positions&pin=2')
    off = ['embedding.encoder', 'embedding.decoder', 'decoder.2']
    assert page.attributes('.box.off', 'data-key') == off
    assert page.count('.weights[data-key="decoder.2"] path') == 0
    assert page.texts('.name.off') == [
        'embedding, no position', 'embedding, no position', 'masked self-attention, off',
        'cross-attention, head 4 off']
    assert page.count('circle.head.off') == 5
    page.click('#reset')
    page.click('[data-box="cross.3"]')
    page.click('#open-heads [aria-label="head 1"]')
    assert state(page, 'off') == ['cross.3.1']
    maps = maps_of(model, page, [head('cross', 3, 1)])['cross'][2]
    check_machine(page, 'cross.3', [2], maps[1:].mean(0)) # the mean of those that are on

def test_every_box_of_the_machine_opens_in_place(page):
    page.go(f'#machine?t={BOY}&pin=3')
    keys = page.attributes('#machine-boxes button', 'data-box')
    assert len(keys) == 2 + 4*2 + 1 + 4*3 + 1
    for key in {key.partition('.')[0]: key for key in keys}.values(): # one of each kind
        page.click(f'[data-box="{key}"]')
        is_of_heads = key.partition('.')[0] in ('encoder', 'decoder', 'cross')
        assert page.attribute(f'[data-box="{key}"]', 'aria-expanded') == 'true'
        assert page.count('#open-map') == is_of_heads
        assert page.count('#open-heads [role=switch]') == 4*is_of_heads
        if is_of_heads: assert state(page, 'head').startswith(key)
        elif key == 'output': assert page.count('#open-cards .choice') == 5
        else: assert page.count('#open-vectors .number') >= 7
        page.press('Escape')
        assert page.count('#machine-open') == 0
    page.click('[data-box="cross.3"]')
    go_to(page, 'inside')
    go_to(page, 'machine')
    assert page.count('#machine-open') == 0 # nobody finds it open

def test_a_map_in_the_machine_goes_with_the_token(page, model):
    page.go(f'#machine?t={BOY}&pin=3')
    page.click('[data-box="cross.3"]')
    page.click('#open-heads div:nth-child(4) .head')
    assert page.texts('#open-map .rows .chosen') == ['einen']
    page.evaluate("document.getElementById('open-map').focus()")
    for key in ('ArrowDown', 'ArrowRight'): page.press(key, '#open-map')
    assert page.text('.output .writes') == 'Ball'
    says = page.text('#open-map-says')
    assert says.startswith('Ball → boy: ')
    wanted = maps_of(model, page)['cross'][2, 3, 4, 1].item()
    assert numbers(says) == pytest.approx([wanted], abs=.006)
    page.click('[data-box="encoder.2"]')
    assert page.count('#open-map .rows .chosen') == 0 # none of the sentence
    page.click('#src .chip:nth-child(2)')
    assert page.texts('#open-map .rows .chosen') == ['boy']

# The address

def test_an_address_brings_everything_back(page):
    page.type('A girl gives the dog a ball.')
    go_to(page, 'break')
    page.click('#switches [data-head="cross.3.4"]')
    page.click('#tgt .chip:nth-child(3)')
    def all_of_it():
        kept = page.evaluate('JSON.stringify({...state, step: 0, hover: 0})')
        return kept, translation(page)
    before = all_of_it()
    page.go(page.hash())
    assert all_of_it() == before
    page.go(f'#break?t={BOY}&off=c3.1&f=281&c=12345678')
    assert 'another model' in page.text('#notes')
    assert page.evaluate('[state.off.length, state.force.length]') == [0, 0]
    page.go('#heads?t=A cat.') # as an older edition called it
    assert state(page, 'view') == 'looked'

@pytest.mark.parametrize('hash', [
    '#nonsense?', '#type?pin=99&off=c9.9,x,,c3.1.1&f=a.99999&h=q&b=7',
    '#type?m=none&a=x&pin=t&c=', '#constructor?m=__proto__&f=-1', '#type?m=toString'],
    ids=range(5))
def test_nonsense_in_the_address(page, hash):
    page.go(f'{hash}&t={BOY}')
    assert translation(page) == BOY_DE and state(page, 'off') == []

# Models

@pytest.fixture(scope='module')
def own_model(tmp_path_factory):
    "A reader's own: pre-norm, five heads, two layers and three, without notes and examples"
    folder = tmp_path_factory.mktemp('own')/'2'
    sentences = [text for pair in mini_corpus(0, 500, 0, 0)['train'] for text in pair]
    tokenizer = BPETokenizer.train(sentences, 300)
    set_seed(0)
    config = TransformerConfig(300, d_model=40, d_ff=64, n_heads=5, d_k=6, d_v=4,
                               n_encoder_layers=2, n_decoder_layers=3, norm='pre',
                               positions='learned', max_len=64, tie_embeddings=False)
    search = dict(beam_size=5, alpha=1.8, max_extra=50)
    save_model(folder, Transformer(config), tokenizer, search=search)
    return folder

def test_models_of_ones_own(own_model, tmp_path):
    "Folders keep their order, also those named by numbers, and searches are theirs"
    shutil.copytree(own_model, tmp_path/'1')
    page = Window(packed(tmp_path/'page.json', [own_model, tmp_path/'1']))
    assert page.texts('#model option') == ['2', '1'] and state(page, 'model') == 'model-2'
    assert state(page, 'text') == '' and page.count('#examples') == 0
    go_to(page, 'step')
    assert page.evaluate('[state.beam, state.alpha]') == [5, 1.8]
    assert page.texts('#beam option') == ['1', '2', '4', '5', '8']
    assert page.texts('#alpha option') == ['0', '0.6', '1', '1.8']
    page.type('a dog sees a cat .')
    for view in VIEWS: go_to(page, view)
    assert page.count('#smoothing') == 0 # who knows?
    for part in ('#read-back', '#way-back', '#turn'): # nobody knows their languages
        assert page.count(part) == 0, part
    go_to(page, 'break')
    for kind, n in dict(encoder=10, decoder=15, cross=15).items():
        assert page.count(f'#switches [data-head^="{kind}"]') == n
    page.click('#switches [data-head="decoder.3.5"]')
    assert 'chapter 16' not in page.text('#switches-legend')
    page.pick('model', 'model-1')
    assert page.count('#undo') == 0 # would switch off a head of the other model
    assert page.evaluate('[state.model, state.off.length]') == ['model-1', 0]
    model, tokenizer = load_model(own_model)
    with torch.no_grad():
        for weight in model.parameters(): weight.copy_(weight.half())
    [[best]] = search(model, [tokenizer.encode('a dog .')], beam_size=5, alpha=1.8)
    found = page.evaluate("tnb.translate('a dog .', {exact: true})")
    assert found['score'] == pytest.approx(best.score, abs=1e-3)
    page.close()

def test_a_failed_check_is_said(own_model, tmp_path):
    path = packed(tmp_path/'page.json', [own_model])
    text = path.read_text('utf8')
    number = re.search(r'"check": .*?"log_prob": (-[\d.]+)', text)
    off = f'{float(number[1]) + .05:.5f}'
    path.write_text(text[:number.start(1)] + off + text[number.end(1):], 'utf8')
    page = Window(path)
    assert 'The self-check failed' in page.text('#notes')
    page.close()

REFUSED = { # what scripts may not ask for, and why
    'beam_size is': [dict(beam_size=n) for n in (0, 101, 1000, 2.5, '4', None)],
    'alpha is': [dict(alpha=x) for x in (-1, 11, 'x')],
    'max_extra is': [dict(max_extra=n) for n in (0, 1e9, 'x')],
    'text is': [dict(text=x) for x in (None, 5, ['A dog.'])],
    'tokens are': [dict(prefix=x) for x in ([-1], [6000], [1.5], 'abc')]}

def test_calls_of_no_use_are_refused(page):
    "A beam of 1,000 weighs a million candidates in each step, while later calls wait"
    call = """options => tnb.call('translate', {text: 'A dog.', ...options})
        .then(x => x.text).catch(error => error.message)"""
    for why, cases in REFUSED.items():
        for options in cases: assert page.evaluate(call, options).startswith(why), options
    inspect = "ids => tnb.call('inspect', {text: 'A dog.', ids}).catch(e => e.message)"
    for ids in (None, [6000], 'abc'):
        assert page.evaluate(inspect, ids).startswith('tokens are')
    assert page.evaluate(call, dict(beam_size=2)) == 'Ein Hund.'

# Examples and the tour: what the notes say of them is what comes out

COMES = 'I think that she will come tomorrow.'
COMES_DE = 'Ich denke, dass sie morgen kommen wird.'
COMES_TWICE = 'Ich denke, dass sie kommt, dass sie morgen kommt.'

def test_a_first_visit_has_one_thing_to_try(everyday):
    everyday.go('#type?m=en-de')
    assert state(everyday, 'text') == COMES and translation(everyday) == COMES_DE
    assert everyday.count('#banner') == everyday.count('#notes li') == 0
    everyday.push('Make it forget')
    assert translation(everyday) == COMES_TWICE
    assert everyday.text('#banner-old q') == COMES_DE
    assert everyday.texts('#tgt .changed > span') == ['kommt', ',', 'dass', 'sie', 'kommt']
    everyday.push('Make it forget')
    assert translation(everyday) == COMES_DE and everyday.count('#tgt .changed') == 0

# What comes out of examples whose notes say it in English
SAID_IN_ENGLISH = {COMES: COMES_TWICE, 'Where is the train station?': 'Wo ist der Bahnhof.'}

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

@pytest.mark.parametrize('key', ['en-de', 'de-en'])
def test_every_example_keeps_its_promise(everyday, key):
    everyday.go(f'#type?m={key}')
    for example in everyday.evaluate('model().examples'):
        everyday.type(example['text'])
        before = translation(everyday)
        assert 'nonsense' not in everyday.text('#notes')
        shown = re.search(r': ([^(:]+?)(?: \(| for |$)', example['shows'])
        for words in re.split(' … |, ', shown[1]) if shown else []:
            assert words.lower() in f'{example["text"]} {before}'.lower(), example
        if 'then' not in example: continue
        everyday.evaluate('off => update({off})', example['off']) # by its button
        everyday.settle()
        after = SAID_IN_ENGLISH.get(example['text'])
        if after: assert translation(everyday) == after
        else: check_promise(example['then'], before, translation(everyday))
        everyday.click('#reset')

TOURS = {
    'en-de': [COMES_DE, COMES_DE, 'Ich habe meiner Schwester ein Buch gegeben.',
              COMES_TWICE, 'Es ist ganz schön, dass es in der Lage ist.',
              'Ich weiß diesen Mann.', COMES_DE, 'Wir haben keinen Hunger.'],
    'de-en': ['I think she will come tomorrow.', 'I think she will come tomorrow.',
              'The house he lives in is very old.',
              'He calls his mother calls his mother calls',
              "According to the world, it's a great deal.", 'How late is it?',
              'I think she will come tomorrow.', "She's on a diet."]}

@pytest.mark.parametrize('key', TOURS)
def test_the_tour_says_what_is_there(everyday, key):
    everyday.go(f'#looked?m={key}')
    before, seen = everyday.hash(), []
    everyday.click('#start-tour')
    for i, wanted in enumerate(TOURS[key], 1):
        assert everyday.text('#tour-title') == f'Tour, {i} of 8'
        assert translation(everyday).startswith(wanted)
        seen.append(state(everyday, 'view'))
        says = everyday.text('#tour-says') + everyday.text('#tour-asks')
        shown = everyday.evaluate('''(({text, written, given, intact}) =>
            [text, written.text, given, intact.text])(now.scene)''')
        shown = ' '.join(shown + everyday.texts('#cards .choice span')).lower()
        for words in re.findall('“(.+?)[.]?”', says): # what it quotes is on the page
            if 'such as' not in says.partition(words)[0][-20:]:
                assert words.lower() in shown, words
        if i == 2: # the word that it speaks of
            pinned = everyday.text('#tgt .chip[aria-pressed=true] > span')
            assert re.match(f'While it wrote “?{pinned}”? it', says)
            most = re.search(r'most at “?(\w+)', says)
            looked_at = everyday.text('#tgt .chip[aria-pressed=true] > small')
            assert not most or most[1] == looked_at
        if i < 8: everyday.click('#tour-next')
    everyday.evaluate('update({step: 99})')
    places = everyday.evaluate("""document.getElementById('steps').querySelectorAll(
        'ul:not(.gone) .best').map(node => node.parent.children.indexOf(node))""")
    assert max(places) > 0 # the winner is not always on top
    assert everyday.text('#tour-next') == 'Your turn'
    assert seen == ['type', 'looked'] + ['type']*4 + ['machine', 'step']
    everyday.press('Escape')
    assert everyday.count('#tour') == 0 and everyday.hash() == before

# Second actions in each view: the reader changes what an earlier action has chosen

VIEW_STORIES = {}

def view_story(hash, *actions):
    "The last of these actions meets what the others left; then the check is called"
    def keep(check):
        VIEW_STORIES[check.__name__] = hash, actions, check
        return check
    return keep

@view_story('#type', ('click', '.card:nth-child(1) .choice:not(.taken)'), ('type', CAT))
def a_new_sentence_has_no_token_fixed(page, model):
    assert state(page, 'force') == [] and translation(page) == model.translate([CAT])[0]
    likeliest = logits_of(model, page).softmax(-1).topk(5).values.tolist()
    for i, probs in enumerate(likeliest, 1):
        assert page.texts(f'.card:nth-child({i}) .choice small') == shares(probs)

@view_story('#machine?pin=7', ('click', '[data-box="cross.3"]'), ('type', 'A dog.'))
def the_machine_shows_a_token_that_is_there(page, model):
    maps, n = maps_of(model, page), len(ids_of(page))
    assert page.evaluate("document.getElementById('machine-step').max") == n
    check_machine(page, 'cross.3', [1], maps['cross'][2].mean(0))
    check_machine(page, 'encoder.4', range(len(maps['encoder'][0, 0])),
                  maps['encoder'][3].mean(0))
    assert page.count('#open-map .rows span') == n

@view_story('#machine?pin=5', ('click', '[data-box="output"]'), ('push', 'hoch'))
def the_machine_goes_on_with_a_token_that_was_chosen(page, model):
    assert page.text('.output .writes') == 'hoch'
    assert page.texts('.choice.written') == ['hoch'] # not the first
    assert len(state(page, 'force')) == 6
    check_machine(page, 'cross.4', [5], maps_of(model, page)['cross'][3].mean(0))
    page.click('#undo')
    assert page.text('.output .writes') == 'auf'

@view_story('#machine?pin=3&off=c3', ('click', '[data-box="cross.3"]'),
            ('click', '#open-switches .switch'))
def a_layer_switched_on_again_has_its_lines(page, model):
    assert page.count('.box.off') == 0
    check_machine(page, 'cross.3', [3], maps_of(model, page)['cross'][2].mean(0))

@view_story('#machine?pin=3', ('click', '#src .chip:nth-child(3)'),
            ('click', '#machine-forth'))
def a_token_of_the_sentence_loses_its_mark(page, model):
    assert page.count('.lane.near') == page.count('.word.near') == 0
    assert page.text('.output .writes') == 'Ball' # after `einen`

@view_story('#looked?pin=7&h=d3.2', ('click', '#maps [data-head="decoder.3.1"]'),
            ('type', 'A dog.'))
def the_map_is_that_of_the_new_sentence(page, model):
    wanted = maps_of(model, page)['decoder'][2, 0]
    found = page.evaluate("({...mapOf(state.head), data: [...mapOf(state.head).data]})")
    assert [found['rows'], found['cols']] == list(wanted.shape)
    assert found['data'] == pytest.approx(wanted.flatten().tolist(), abs=2e-3)
    assert page.count('#map .rows .chosen') == 1

@view_story('#break', ('click', '#switches [data-head="cross.4.4"]'), ('type', CAT))
def what_is_off_stays_off_for_another_sentence(page, model):
    check_outcome(page, model, CAT, [head('cross', 4, 4)])

@view_story('#break?off=c3.1,c3', ('click', '#switches .layer[aria-checked=false]'))
def a_head_stays_off_when_its_layer_is_on_again(page, model):
    assert state(page, 'off') == ['cross.3.1'] and page.count('#switches .covered') == 0
    check_outcome(page, model, BOY, [head('cross', 3, 1)])

@view_story('#step', ('pick', 'beam', '2'), ('type', CAT))
def the_beam_of_two_searches_the_new_sentence(page, model):
    [[best]] = search(model.model, [model.tokenizer.encode(CAT)], beam_size=2)
    assert page.evaluate('shown.steps.best.ids') == [*best.ids, EOS]
    assert page.count('#steps > li') == 1 # from its first step
    assert page.count('#steps ul:not(.gone) li') == 2

@view_story('#inside?h=d3.4', ('pick', 'pair-row', '7'), ('pick', 'pair-col', '6'),
            ('type', 'A dog.'))
def the_pair_is_one_of_the_shorter_sentence(page, model):
    n = len(ids_of(page))
    wanted = maps_of(model, page)['decoder'][2, 3, n - 1, n - 1].item()
    assert numbers(page.text('#sum'))[-1] == pytest.approx(wanted, abs=.006)

@pytest.mark.parametrize('name', VIEW_STORIES)
def test_a_second_action_in_a_view(captions, model, name):
    hash, actions, check = VIEW_STORIES[name]
    captions.go(hash + ('&' if '?' in hash else '?') + f't={BOY}')
    for what, *args in actions: getattr(captions, what)(*args)
    check(captions, model)
