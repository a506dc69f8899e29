#!/usr/bin/env python3
"""A film of the tour for README.md: twenty seconds of the page Translate here, which a code
host cannot show. Debian's Chromium takes the pictures, after `make docs`.

    python tools/film.py     # writes nbs/figures/tour.webp
"""
from io import BytesIO
from book import ROOT

PAGE, FILM = 'docs/_build/html/translate_here.html', 'nbs/figures/tour.webp'
CHROMIUM, SIZE = '/usr/bin/chromium', dict(width=1200, height=800)
TYPED = 'I know this man.'
# Of the tour: number of the step, what is seen of it and said, the button that moves it
SCENES = [(1, '#sides', 'Where did it look while it wrote a word? This is kommen.', ''),
          (2, '#sides', 'Put another word in its place: the rest is written anew.', ''),
          (4, '#sides', 'Blindfolded, it makes up a sentence.', ''),
          (6, '#panel-machine', 'The whole machine at work.', 'machine-play'),
          (7, '#panel-step', 'Beam search keeps four beginnings at a time.', 'play')]
TICKS, TEMPO = 5, 1200 # pictures of what moves, and ms between them
TICK, REST = 450, 2000 # ms that each is shown, and the last of a scene
CAPTION = '''says => {
    const place = 'position: fixed; inset: auto 0 0; padding: 10px 24px; z-index: 99;'
    const look = 'font: 600 22px system-ui, sans-serif; color: white; background: #0b5c9e;'
    document.getElementById('film')?.remove()
    const html = `<p id="film" style="margin: 0; ${place} ${look}">`
    document.body.insertAdjacentHTML('beforeend', html)
    document.getElementById('film').textContent = says
}'''
SETTLED = '''!modules.store.now.busy && (document.querySelector('#panel-step').hidden
             || document.querySelector('#ends').children.length > 1)'''
GO = 'i => { location.hash = modules.store.model().tour[i].link }'
POINT = '''place => {
    const {top} = document.querySelector(place).getBoundingClientRect(), margin = 20
    scrollTo(0, scrollY + top - margin)
}'''

def shot(page, ms): return page.screenshot(), ms

def typing(page):
    "One picture a word: the page translates what stands there"
    page.wait_for_function('modules.store.now.scene')
    page.evaluate(CAPTION, 'Type a sentence, and a Transformer translates it.')
    words = TYPED.split()
    for n in range(len(words)):
        page.fill('#text', ' '.join(words[:n + 1]))
        page.wait_for_timeout(500)
        page.wait_for_function(SETTLED)
        yield shot(page, TICK)
    yield shot(page, REST)

def scene(page, i, place, says, button):
    page.evaluate(GO, i)
    page.wait_for_timeout(500)
    page.wait_for_function(SETTLED)
    page.evaluate(CAPTION, says)
    page.evaluate(POINT, place)
    if button:
        page.click(f'#{button}')
        for _ in range(TICKS):
            page.wait_for_timeout(TEMPO)
            yield shot(page, TICK)
    yield shot(page, REST)

def frames():
    from playwright.sync_api import sync_playwright
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=['--no-sandbox'])
        page = browser.new_page(viewport=SIZE, reduced_motion='reduce',
                                bypass_csp=True) # which forbids to wait for a state
        page.set_default_timeout(180_000) # ms: the machine may be busy
        page.goto((ROOT/PAGE).as_uri())
        page.fill('#text', TYPED) # so that the film begins with a model
        yield from typing(page)
        for row in SCENES: yield from scene(page, *row)
        browser.close()

def write(taken, path):
    from PIL import Image
    first, *others = [Image.open(BytesIO(data)).convert('RGB') for data, _ in taken]
    times = [ms for _, ms in taken]
    first.save(path, save_all=True, append_images=others, duration=times, loop=0,
               quality=60, method=6)
    return sum(times)

if __name__ == '__main__':
    ms = write(list(frames()), ROOT/FILM)
    print(f'{FILM}: {ms/1000:.1f} s, {(ROOT/FILM).stat().st_size:,} bytes')
