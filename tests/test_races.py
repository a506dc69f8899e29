"""Races in Chromium, with the real models: some of the stories that test_page_in_node.py
tells with an engine of its own. Each is told three times."""
import pytest
from browser import pause
from beside import BOY, BOY_DE, MODEL
from test_playground import at_rest, opener, settle, translation, wait
from transformer_nb.formats.page import export_page

@pytest.fixture(scope='module')
def address(chromium, tmp_path_factory):
    "Of a page that translates both ways"
    path = tmp_path_factory.mktemp('races')/'both.html'
    export_page([MODEL, MODEL.parent/'multi30k-de-en'], path)
    return path.as_uri()

@pytest.fixture
def new_page(watched, address): return opener(watched, address)

DOG, TWO = 'A dog is running.', f'{BOY} A dog is running.'
BENCH = 'Two men are sitting on a bench.'
FIVE = ' '.join([BOY, DOG, BENCH, 'A child is sleeping.', 'A cat.'])
DO = """async steps => { // each [what, value, ms to wait afterwards]
    const $ = id => document.getElementById(id)
    const does = {
        type: text => {
            $('text').value = text
            $('text').dispatchEvent(new InputEvent('input', {bubbles: true}))
        },
        click: selector => document.querySelector(selector).click(),
        press: words => [...document.querySelectorAll('button')].find(
            node => node.textContent.includes(words) && node.checkVisibility()).click(),
        pick: ([id, value]) => {
            $(id).value = value
            $(id).dispatchEvent(new Event('change', {bubbles: true}))
        }}
    for (const [what, value, ms] of steps) {
        does[what](value)
        if (ms) await new Promise(done => setTimeout(done, ms))
    }
}"""
STORIES = {}

def race(hash, *steps):
    "Both ends of a story: where the page is at first, and what is done there"
    def keep(check):
        STORIES[check.__name__] = hash, steps, check
        return check
    return keep

def typed(text, ms=0): return 'type', text, ms
def clicked(selector, ms=0): return 'click', selector, ms
def pressed(words, ms=0): return 'press', words, ms

@race('#type', typed(TWO, 80), clicked('.sentence:nth-child(1)'))
def the_first_of_two_is_clicked_early(page):
    assert page.evaluate('now.scene.text') == BOY and translation(page) == BOY_DE

@race('#type', typed(FIVE, 80), *[clicked(f'.sentence:nth-child({i})', 15)
                                  for i in (1, 4, 2, 5, 3, 1)])
def five_are_clicked_quickly(page):
    assert page.evaluate('now.scene.text') == BOY

@race('#type', typed('a dog is running', 450), pressed('Exactly as typed', 2),
      pressed('Exactly as typed'))
def exactly_as_typed_twice(page):
    assert page.evaluate('state.exact') is False

@race('#step', ('pick', ['beam', '2'], 1), ('pick', ['beam', '4'], 0))
def a_beam_is_changed_and_changed_back(page):
    assert page.evaluate('[state.beam, shown.steps.best.ids]') == [
        4, page.evaluate('now.scene.ids')]

@race('#break', typed(DOG, 500), clicked('#tab-step', 1), clicked('#tab-break'))
def there_and_back_while_heads_are_costed(page):
    wait(page, 'Object.keys(costs()).length == 48')

@race('#type', typed('Ich habe Hunger.'), clicked('#turn'))
def words_of_the_other_language_stay(page):
    assert page.evaluate('state.model').endswith('de-en')
    assert page.input_value('#text') == 'Ich habe Hunger.'

@race('#type', typed(DOG), clicked('#turn'))
def the_new_translation_is_turned_round(page):
    assert page.evaluate('state.model').endswith('de-en')
    assert page.input_value('#text') == 'Ein Hund rennt.'

@race('#type', typed(DOG), clicked('#copy-text', 20), typed('A cat.'))
def what_stood_there_is_copied(page):
    assert page.evaluate('navigator.clipboard.readText()') == 'Ein Hund rennt.'
    assert page.evaluate('now.scene.text') == 'A cat.'

@race('#type', typed(BENCH), pressed('Shuffle the words'))
def the_new_words_are_shuffled(page):
    words = sorted(page.input_value('#text').lower().strip('.').split())
    assert words == sorted(BENCH.lower().strip('.').split())

@race('#type', typed(DOG, 10), clicked('.card:nth-child(1) .choice:not(.taken)'))
def no_token_of_the_old_sentence_is_fixed(page):
    assert page.evaluate('[state.force.length, now.scene.force.length]') == [0, 0]
    assert translation(page) == 'Ein Hund rennt.'

@pytest.mark.parametrize('name', STORIES)
def test_races(new_page, name):
    hash, steps, check = STORIES[name]
    for _ in range(3):
        page = new_page(hash)
        at_rest(page)
        page.context.grant_permissions(['clipboard-read', 'clipboard-write'])
        page.evaluate(DO, steps)
        pause(page, 500) # until what was typed has been read
        settle(page)
        at_rest(page)
        check(page)
