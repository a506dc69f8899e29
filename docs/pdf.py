#!/usr/bin/env python3
"""The site as one book, docs/_build/transformer_nb.pdf, printed by Debian's Chromium.

    python docs/pdf.py        # after `make docs`; `make pdf` does both

Chromium prints each page by itself, with folds open. The prints become one file with a
cover, a table of contents, an outline and page numbers. A link from one page to another is
an address of a file at first; it becomes a place in the book. A link to what a book cannot
hold, such as the page that translates, is dropped.
"""
import re, sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent
HTML, BOOK = ROOT/'docs/_build/html', ROOT/'docs/_build/transformer_nb.pdf'
CHROMIUM = Path('/usr/bin/chromium')
FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
         '--disable-background-networking', '--disable-component-update', '--disable-sync']
# The names from A to Z, and a page for the screen
LEFT_OUT = {'genindex', 'translate_here'}
WIDTH = 690 # CSS pixels between the margins of an A4 page
MARGINS = dict(top='14mm', bottom='17mm', left='14mm', right='14mm')

@dataclass
class Page:
    "A page of the site on its way into the book"
    name: str                # such as `01_attention.html`
    title: str
    part: str = ''
    headings: list = field(default_factory=list) # (id, text) of its sections
    first: int = 0           # its first page in the book, from 0
    places: dict = field(default_factory=dict)   # of ids: (page in the book, height)

class Contents(HTMLParser):
    "Parts and pages as the sidebar of the first page lists them"
    def __init__(self):
        super().__init__()
        self.pages, self.part, self.text = [], '', None
        self.in_part = self.in_list = False

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get('class') == 'caption-text': self.in_part, self.part = True, ''
        kind = attrs.get('class', '')
        if tag == 'nav' and kind.startswith('bd-links'): self.in_list = True
        if tag == 'a' and self.in_list and 'reference' in kind:
            self.text = ''
            self.pages.append(Page(attrs['href'], '', self.part))

    def handle_endtag(self, tag):
        if tag == 'nav': self.in_list = False
        if tag == 'span': self.in_part = False
        if tag == 'a' and self.text is not None:
            self.pages[-1].title, self.text = ' '.join(self.text.split()), None

    def handle_data(self, data):
        if self.in_part: self.part += data
        if self.text is not None: self.text += data

def listed_pages(folder):
    "In reading order; the first page is its own"
    parser = Contents()
    parser.feed((folder/'index.html').read_text(encoding='utf8'))
    found = [Page('index.html', 'About this book')]
    names = {'#'}
    for page in parser.pages:
        if page.name in names or Path(page.name).stem in LEFT_OUT: continue
        names.add(page.name)
        found.append(page)
    return found

def wanted_ids(folder, pages):
    "For each page, the ids that any page links to"
    found = {page.name: set() for page in pages}
    for page in pages:
        text = (folder/page.name).read_text(encoding='utf8')
        for href in re.findall(r'href="([^"]*#[^"]+)"', text):
            name, _, fragment = href.partition('#')
            if re.match('[a-z]+:', name): continue
            target = str(Path(page.name).parent/name) if name else page.name
            if target in found: found[target].add(unquote(fragment))
    return found

# Printing

PREPARE = """async ([ids, width]) => {
    document.documentElement.dataset.theme = 'light'
    document.querySelectorAll('details').forEach(e => e.open = true)
    document.querySelectorAll('img').forEach(e => e.loading = 'eager')
    const article = document.querySelector('article') || document.body
    article.style.width = width + 'px'
    for (const wide of article.querySelectorAll('pre, table, .math')) {
        const room = wide.parentElement.clientWidth
        if (wide.scrollWidth > room + 1) wide.style.zoom = room / wide.scrollWidth
    }
    const edge = article.getBoundingClientRect().left + width + 1
    const problems = [...article.querySelectorAll('pre, table, .math, img')]
        .filter(e => e.getBoundingClientRect().right > edge)
        .map(e => 'too wide: ' + (e.innerText || e.src).slice(0, 60))
    const formulas = article.querySelectorAll('.math').length
    const set = article.querySelectorAll('.math > math').length
    if (set < formulas) problems.push(`${set} of ${formulas} formulas`)
    article.style.width = ''
    const found = [...article.querySelectorAll('section[id] > h2')]
    const links = document.createElement('div')
    for (const id of [...ids, ...found.map(h => h.parentElement.id)]) {
        const link = document.createElement('a')
        link.href = '#' + encodeURIComponent(id)
        links.append(link)
    }
    document.body.append(links)
    await Promise.all([...document.images].map(e => e.decode().catch(() => {})))
    const named = h => [h.parentElement.id, h.innerText.replace(/#$/, '').trim()]
    return [found.map(named), problems]
}"""

def printed(tab, address, ids=()):
    "A page as bytes of a PDF, its sections, and problems; what is linked to has a place"
    tab.emulate_media(media='print', color_scheme='light')
    tab.set_viewport_size(dict(width=WIDTH, height=1000))
    tab.goto(address)
    headings, problems = tab.evaluate(PREPARE, [sorted(ids), WIDTH])
    data = tab.pdf(format='A4', print_background=True, margin=MARGINS)
    return data, headings, problems

# Putting together

class Merger:
    "The book, as it grows"
    def __init__(self, folder):
        from pypdf import PdfWriter
        self.folder, self.writer = folder, PdfWriter()

    def add(self, data, page):
        "Append a print, and note where its ids are"
        from io import BytesIO
        from pypdf import PdfReader
        reader = PdfReader(BytesIO(data))
        page.first = len(self.writer.pages)
        numbers = {p.indirect_reference.idnum: i for i, p in enumerate(reader.pages)}
        for name, place in reader.named_destinations.items():
            number = numbers.get(getattr(place.page, 'idnum', None))
            if number is None: continue
            page.places[unquote(name.lstrip('/'))] = page.first + number, place.top
        for sheet in reader.pages: self.writer.add_page(sheet)

    def bend_links(self, pages):
        "Every link within the book leads to its place; returns those that lead nowhere"
        by_name, lost = {page.name: page for page in pages}, []
        begins = sorted(pages, key=lambda page: page.first)
        for number, sheet in enumerate(self.writer.pages):
            own = [page for page in begins if page.first <= number]
            kept = []
            for reference in sheet.get('/Annots') or []:
                link = reference.get_object()
                address = self.address_of(link, own[-1] if own else None)
                if address is None: kept.append(reference)
                elif self.bend(link, address, by_name, lost): kept.append(reference)
            if '/Annots' in sheet: self.replace_links(sheet, kept)
        return lost

    def replace_links(self, sheet, links):
        from pypdf.generic import ArrayObject, NameObject
        sheet[NameObject('/Annots')] = ArrayObject(links)

    def address_of(self, link, page):
        "Name and fragment of a link within the site; None: it leads out of it"
        if '/Dest' in link:
            return page.name, unquote(str(link['/Dest']).lstrip('/'))
        uri = str(link.get('/A', {}).get('/URI', ''))
        parts = urlsplit(uri)
        if parts.scheme != 'file': return None
        path = Path(unquote(parts.path))
        if not path.is_relative_to(self.folder): return str(path), ''
        return path.relative_to(self.folder).as_posix(), unquote(parts.fragment)

    def bend(self, link, address, by_name, lost):
        "Does the link stay, because its place is in the book?"
        name, fragment = address
        page = by_name.get(name)
        if page is None: return False
        if fragment and fragment not in page.places: lost.append(f'{name}#{fragment}')
        number, top = page.places.get(fragment, (page.first, None))
        self.lead(link, number, top)
        return True

    def lead(self, link, number, top):
        from pypdf.generic import ArrayObject, FloatObject, NameObject, NullObject
        height = NullObject() if top is None else FloatObject(top)
        sheet = self.writer.pages[number].indirect_reference
        parts = [sheet, NameObject('/XYZ'), NullObject(), height, NullObject()]
        link.pop('/A', None)
        link[NameObject('/Dest')] = ArrayObject(parts)

    def add_outline(self, pages):
        add, parts = self.writer.add_outline_item, {}
        for page in pages:
            above = None
            if page.part:
                if page.part not in parts:
                    parts[page.part] = add(title=page.part, page_number=page.first)
                above = parts[page.part]
            entry = add(title=page.title, page_number=page.first, parent=above)
            for anchor, text in page.headings:
                number, _ = page.places.get(anchor, (page.first, None))
                add(title=text, page_number=number, parent=entry)

    def number_pages(self, first):
        "A number at the foot of each page from this one on; the first is 1"
        for number, sheet in enumerate(self.writer.pages):
            if number >= first: self.stamp(sheet, str(number - first + 1))

    def stamp(self, sheet, text):
        from pypdf.generic import ArrayObject, DictionaryObject, NameObject, StreamObject
        before, after = StreamObject(), StreamObject()
        before.set_data(b'q\n')
        place = sheet.mediabox.width / 2 - 2.5 * len(text)
        show = f'\nQ BT /Number 9 Tf 0.35 g {place:.1f} 24 Td ({text}) Tj ET\n'
        after.set_data(show.encode())
        content = sheet['/Contents'].get_object()
        is_one = not isinstance(content, ArrayObject)
        drawn = [sheet.raw_get('/Contents')] if is_one else content
        parts = [self.writer._add_object(before), *drawn, self.writer._add_object(after)]
        sheet[NameObject('/Contents')] = ArrayObject(parts)
        font = DictionaryObject({NameObject('/Type'): NameObject('/Font'),
                                 NameObject('/Subtype'): NameObject('/Type1'),
                                 NameObject('/BaseFont'): NameObject('/Helvetica')})
        resources = sheet['/Resources'].get_object()
        fonts = resources.get('/Font', DictionaryObject()).get_object()
        fonts[NameObject('/Number')] = font
        resources[NameObject('/Font')] = fonts

# Cover and contents

FRONT = """<!doctype html><meta charset="utf-8"><style>
body {{ font-family: sans-serif; margin: 0; color: #1f2328; }}
.cover {{ text-align: center; padding-top: 5cm; break-after: page; }}
.cover h1 {{ font-size: 30pt; margin: 0 0 .6cm; }}
.cover img {{ width: 12cm; margin: 1cm; }}
.cover p {{ color: #57606a; }}
h2 {{ font-size: 20pt; }} h3 {{ margin: .5cm 0 .1cm; font-size: 11pt; }}
.row {{ display: flex; font-size: 10.5pt; line-height: 1.55; }}
.row a {{ color: inherit; text-decoration: none; }}
.row i {{ flex: 1; border-bottom: 1px dotted #999; margin: 0 .2cm .3em; }}
</style><div class="cover"><h1>{title}</h1><p>{description}: {promise}</p>
<img src="{figure}"><p>{version}<br>{run}</p></div>
<h2>Contents</h2>{rows}"""

def front(folder, pages, shift):
    "Cover and contents as HTML; page numbers count from the first page after them"
    from html import escape
    import doors
    from repository import settings
    about = settings(ROOT)
    rows, part = [], ''
    for page in pages:
        if page.part != part: rows.append(f'<h3>{escape(page.part)}</h3>')
        part = page.part
        link = f'<a href="{(folder/page.name).as_uri()}">{escape(page.title)}</a>'
        number = page.first - shift + 1
        rows.append(f'<div class="row">{link}<i></i><span>{number}</span></div>')
    promise = ('the paper’s words, the code that is those words, '
               'and the proof that it is right')
    return FRONT.format(title=about['title'], description=about['description'],
                        promise=promise, figure=(ROOT/'nbs/figures/map.svg').as_uri(),
                        version=about['version'],
                        run=doors.last_run(ROOT), rows='\n'.join(rows))

def write(tab, folder, out):
    "Print all pages of a site into one file; returns a line for each problem"
    pages, found = listed_pages(folder), []
    ids, prints = wanted_ids(folder, pages), {}
    for page in pages:
        print(page.name, flush=True)
        address = (folder/page.name).as_uri()
        data, page.headings, problems = printed(tab, address, ids[page.name])
        prints[page.name] = data
        found += [f'{page.name}: {problem}' for problem in problems]
    cover = Page('', 'Contents')
    length = 0
    for _ in range(2): # once to see how long the contents are
        merger = Merger(folder)
        file = out.with_name('front.html')
        file.write_text(front(folder, pages, length), encoding='utf8')
        merger.add(printed(tab, file.as_uri())[0], cover)
        length = len(merger.writer.pages)
        for page in pages: merger.add(prints[page.name], page)
    file.unlink()
    lost = merger.bend_links([cover, *pages])
    found += [f'{link} leads nowhere' for link in lost]
    merger.add_outline([cover, *pages])
    merger.number_pages(length)
    from repository import settings
    merger.writer.add_metadata({'/Title': settings(ROOT)['title']})
    merger.writer.compress_identical_objects()
    merger.writer.write(out)
    return found

def main():
    if not CHROMIUM.exists(): sys.exit(f'no {CHROMIUM} here, which prints the book')
    sys.path[:0] = [str(ROOT/'docs'), str(ROOT/'tools')]
    from playwright.sync_api import sync_playwright
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        problems = write(browser.new_page(), HTML.resolve(), BOOK)
        browser.close()
    print(*problems, sep='\n')
    print(f'{BOOK}: {BOOK.stat().st_size / 1e6:.1f} MB')
    sys.exit(bool(problems))

if __name__ == '__main__': main()
