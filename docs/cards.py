"""What a link to a page shows where somebody sends it: title, sentence and picture. The
picture of a chapter is drawn from its main figure, by Debian's Chromium; without it, pages
have no picture."""
import html, re
from pathlib import Path
from book import cells, chapters, number
from repository import repository, settings

CHROMIUM = Path('/usr/bin/chromium')
FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-background-networking']
SIZE = dict(width=1200, height=630) # pixels, as the sites that show cards ask for
BOOK = 'book' # of pages that have no figure
CARD = '''<!doctype html><meta charset="utf-8"><style>
@font-face {{ font-family: S; src: url("{fonts}/source-serif-400-normal.woff2"); }}
@font-face {{ font-family: S; font-weight: 600;
  src: url("{fonts}/source-serif-600-normal.woff2"); }}
body {{ margin: 0; width: 1200px; height: 630px; box-sizing: border-box; color: #1f2328;
  background: #fff; border-left: 18px solid #0b5c9e; padding: 44px 56px; font-family: S;
  display: flex; flex-direction: column; }}
h1 {{ font-size: 58px; line-height: 1.1; margin: 0 0 24px; font-weight: 600; }}
div {{ flex: 1; min-height: 0; display: flex; align-items: center; }}
svg {{ width: 100%; height: 100%; filter: brightness(.8); }}
p {{ margin: 24px 0 0; font-size: 30px; color: #57606a; }}
</style><h1>{title}</h1><div>{figure}</div><p>{book}</p>'''

def main_figure(path):
    "The first figure that is a slide, else the first one; None: there is none"
    found = []
    for cell in cells(path, 'code'):
        for output in cell.outputs:
            svg = ''.join(output.get('data', {}).get('image/svg+xml', ''))
            if svg: found.append(('slide' not in cell.flags, svg))
    return min(found, key=lambda x: x[0])[1] if found else None

def inline(svg): # without its prologue
    return svg[svg.index('<svg'):]

def contents(root): # name of a card -> its title and figure
    figure = (root/'nbs/figures/attention.svg').read_text(encoding='utf8')
    yield BOOK, settings(root)['title'], figure
    for path in chapters(root):
        if path.stem == 'index': continue
        title = re.match('# (.*)', cells(path)[0].source)[1]
        figure = main_figure(path)
        if figure: yield path.stem, f'{number(path.stem)} {title}', figure

def draw(root, folder):
    "A file for each card"
    if not CHROMIUM.exists(): return print(f'no {CHROMIUM} here: links show no pictures')
    from playwright.sync_api import sync_playwright
    folder.mkdir(parents=True, exist_ok=True)
    about, sheet = settings(root), folder/'card.html'
    below = f"{about['title']} · {about['description']}"
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page(viewport=SIZE)
        for name, title, figure in contents(root):
            text = CARD.format(title=html.escape(title), figure=inline(figure), book=below,
                               fonts=(root/'docs/static/fonts').resolve().as_uri())
            sheet.write_text(text, encoding='utf8')
            page.goto(sheet.resolve().as_uri())
            page.evaluate('document.fonts.ready.then(() => true)')
            page.screenshot(path=folder/f'{name}.png')
            make_light(folder/f'{name}.png')
        browser.close()
    sheet.unlink()

def make_light(path): # a few colors are enough
    from PIL import Image
    with Image.open(path) as picture: made = picture.convert('RGB').quantize(64)
    made.save(path, optimize=True)

def card(root, folder, page): # its address; empty: there is none
    "Where the book has an address, the whole one, as those who show cards ask"
    name = page if (folder/f'{page}.png').exists() else BOOK
    if not (folder/f'{name}.png').exists(): return ''
    return f'{site(root)}cards/{name}.png'

def site(root):
    home = repository(root)
    return home.site if home else ''

def tags(title, words, picture, kind='article'):
    "For the head of a page"
    about = {'og:title': title, 'og:description': words, 'og:type': kind,
             'og:image': picture}
    kind_of_card = 'summary_large_image' if picture else 'summary'
    cards = {'description': words, 'twitter:card': kind_of_card,
             'twitter:title': title, 'twitter:description': words,
             'twitter:image': picture}
    def tag(key, name, value):
        return f'<meta {key}="{name}" content="{html.escape(value)}">'
    made = [tag('property', name, value) for name, value in about.items() if value]
    made += [tag('name', name, value) for name, value in cards.items() if value]
    return '\n'.join(made)
