#!/usr/bin/env python3
"""The site as one book, docs/_build/transformer_nb.pdf, printed by Debian's Chromium.

    python docs/pdf.py        # after `make docs`; `make pdf` does both

The articles of all pages become one page, asides open, folded code by its name, after a
cover and a table of contents; Chromium makes the outline and the page numbers. A link from
one page to another becomes one within the book. One to what a book cannot hold, such as the
page that translates, is dropped.
"""
import re, sys
from html import escape
from pathlib import Path
from posixpath import join, normpath

ROOT = Path(__file__).parent.parent
HTML, BOOK = ROOT/'docs/_build/html', ROOT/'docs/_build/transformer_nb.pdf'
CHROMIUM = Path('/usr/bin/chromium')
LEFT_OUT = 'translate_here.html' # a page for the screen
WIDTH = 690 # CSS pixels between the margins of an A4 page

def listed_pages(text):
    "Part, name and title of each page, as the sidebar of the first page lists them"
    nav = re.search(r'<nav class="bd-links".*?</nav>', text, re.S)[0]
    part, found = '', {'index.html': ('', 'About this book')}
    row = (r'class="caption-text">(.*?)</span>'
           r'|<a class="reference[^>]*href="([^"#]+)"[^>]*>(.*?)</a>')
    for m in re.finditer(row, nav, re.S):
        if m[1]: part = m[1]
        elif m[2] != LEFT_OUT: found[m[2]] = part, re.sub(r'<.*?>', '', m[3]).strip()
    return found

def article(folder, name, pages):
    "What a page says; its ids begin with its name, and links lead to ids or out of it all"
    text = (folder/name).read_text(encoding='utf8')
    text = re.search(r'<article.*</article>', text, re.S)[0]
    text = re.sub(r'<script.*?</script>', '', text, flags=re.S)
    def here(path): return normpath(join(name, '..', path))
    def link(m):
        target, _, fragment = m[1].partition('#')
        page = here(target) if target else name
        if re.match('[a-z]+:', target): return m[0]
        if page not in pages: return ''
        return f' href="#{page}--{fragment}"' if fragment else f' href="#{page}"'
    text = re.sub(r' href="([^"]*)"', link, text)
    text = re.sub(r' src="([^":]*)"', lambda m: f' src="{here(m[1])}"', text)
    text = re.sub(r' id="', f' id="{name}--', text)
    return f'<div class="sheet" id="{name}">{text}</div>'

STYLE = '''@page { size: A4; margin: 12mm 14mm 15mm;
    @bottom-center { content: counter(page); font: 9pt sans-serif; color: #57606a; } }
@page :first { @bottom-center { content: none; } }
.sheet { break-before: page; }
article { padding-top: 2px; } /* or the outline says some titles twice */
.cover { text-align: center; padding-top: 5cm; color: #57606a; }
.cover p:first-child { font-size: 30pt; margin: 0 0 .6cm; color: #1f2328; }
.cover img { width: 12cm; margin: 1cm; }
.part { margin: .5cm 0 .1cm; font-weight: bold; }
.row { display: flex; line-height: 1.55; }
.row a { color: inherit; text-decoration: none; }
.row i { flex: 1; border-bottom: 1px dotted #999; margin: 0 .2cm .3em; }'''

def cover(about):
    import doors
    return f'''<div class="cover"><p>{about['title']}</p><p>{about['description']}:
the paper’s words, the code that is those words, and the proof that it is right</p>
<img src="{(ROOT/'nbs/figures/map.svg').as_uri()}" alt="">
<p>{about['version']}<br>{doors.last_run(ROOT)}</p></div>'''

def contents(pages):
    "Rows that wait for the number of a page"
    before = ''
    yield '<div class="sheet"><h1>Contents</h1>'
    for name, (part, title) in pages.items():
        if part != before: yield f'<p class="part">{part}</p>'
        before = part
        yield f'<div class="row"><a href="#{name}">{title}</a><i></i><span></span></div>'
    yield '<p>Of code that the site folds, only the name is printed.</p></div>'

def one_page(folder):
    "The whole book as HTML"
    from repository import settings
    about = settings(ROOT)
    first = (folder/'index.html').read_text(encoding='utf8')
    styles = re.findall(r'href="(_static/(?:pygments|book)\.css)', first)
    styles.append('_static/math.css')
    links = ''.join(f'<link rel="stylesheet" href="{x}">' for x in styles)
    pages = listed_pages(first)
    articles = [article(folder, name, pages) for name in pages]
    parts = [cover(about), *contents(pages), *articles]
    return ('<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">'
            f'<title>{escape(about["title"])}</title>{links}<style>{STYLE}</style>'
            + '\n'.join(parts))

# Printing

PREPARE = '''async width => {
    document.querySelectorAll('details:not(.above-input)').forEach(e => e.open = true)
    document.querySelectorAll('img').forEach(e => e.loading = 'eager')
    const problems = []
    for (const article of document.querySelectorAll('article')) {
        article.style.width = width + 'px'
        for (const wide of article.querySelectorAll('pre, table, .math')) {
            const room = wide.parentElement.clientWidth
            if (wide.scrollWidth > room + 1) wide.style.zoom = room / wide.scrollWidth
        }
        const edge = article.getBoundingClientRect().left + width + 1
        for (const e of article.querySelectorAll('pre, table, .math, img')) {
            const isWide = e.getBoundingClientRect().right > edge
            if (isWide) problems.push('too wide: ' + (e.innerText || e.src).slice(0, 60))
        }
        article.style.width = ''
    }
    const formulas = document.querySelectorAll('.math').length
    const set = document.querySelectorAll('.math > math').length
    if (set < formulas) problems.push(`${set} of ${formulas} formulas`)
    for (const link of document.querySelectorAll('a[href^="#"]')) {
        const id = decodeURIComponent(link.hash.slice(1))
        if (!document.getElementById(id)) problems.push(`${id} leads nowhere`)
    }
    await Promise.all([...document.images].map(e => e.decode().catch(() => {})))
    return problems
}'''
NUMBER = '''numbers => document.querySelectorAll('.row span').forEach(
    (place, i) => place.textContent = numbers[i])'''

def starts(data):
    "The number of the sheet on which each page begins: the headings of the outline"
    from io import BytesIO
    from pypdf import PdfReader
    book = PdfReader(BytesIO(data))
    titles = [x for x in book.outline if not isinstance(x, list)] # the contents come first
    return [book.get_destination_page_number(x) + 1 for x in titles[1:]]

def printed(tab, text, folder):
    "A PDF, and what is wrong with it"
    file = folder/'print.html'
    file.write_text(text, encoding='utf8')
    tab.emulate_media(media='print', color_scheme='light')
    tab.set_viewport_size(dict(width=WIDTH, height=1000))
    tab.goto(file.as_uri())
    problems = tab.evaluate(PREPARE, WIDTH)
    how = dict(prefer_css_page_size=True, print_background=True, outline=True, tagged=True)
    tab.evaluate(NUMBER, starts(tab.pdf(**how)))
    data = tab.pdf(**how)
    file.unlink()
    return data, problems

def main():
    if not CHROMIUM.exists(): sys.exit(f'no {CHROMIUM} here, which prints the book')
    sys.path[:0] = [str(ROOT/'docs'), str(ROOT/'tools')]
    from playwright.sync_api import sync_playwright
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=['--no-sandbox'])
        tab = browser.new_page()
        tab.set_default_timeout(0) # a book takes minutes
        data, problems = printed(tab, one_page(HTML), HTML)
        browser.close()
    BOOK.write_bytes(data)
    print(*problems, sep='\n')
    print(f'{BOOK}: {BOOK.stat().st_size / 1e6:.1f} MB')
    sys.exit(bool(problems))

if __name__ == '__main__': main()
