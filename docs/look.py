"""How the site looks, besides templates/layout.html and static/: the contents with the
minutes of each chapter, the way from page to page, code and figures made light.
"""
import base64, html, re
from dataclasses import dataclass
from pathlib import Path
import machines
from PIL import Image
from book import cells

# Words of the code that have no color of their own
PLAIN = re.compile(r'<span class="(?:n|nn|o|p|w)">([^<]*)</span>')
MATH = re.compile(r'(<span class="math">(?:(?!</math>).)*</math></span>[,.;:?!)]+)')
IMAGE = re.compile(r'<img [^>]*?src="(?:\.\./)?_images/([^"]+)"')
TOOL = 'translate_here' # not a page of Sphinx's
TRY = 'Try, build, teach'
RECORDS = 'claims article smoothing results/README models bibliography about'.split()
# Pages that other pages link to, and the table of contents does not list
UNLISTED = ['results/RULES', 'genindex', 'CONTRIBUTING', 'RELEASING']
FOLDED = 'Workshop', 'Records'

@dataclass(frozen=True)
class Entry:
    "A line of the table of contents"
    page: str
    title: str = ''     # as the map has it; else the page's own
    minutes: int = 0
    is_workshop: bool = False

def parts(root): # -> [(name of the part, entries)]
    """The line: the map of index.ipynb, part by part. Then what one can do and look up,
    and in folds the workshop, which the map lists in a table of its own, and records."""
    text = '\n'.join(cell.source for cell in cells(Path(root, 'nbs/index.ipynb')))
    row = r'^\| (?:\*\*(.+?)\*\*|\[(.+?)\]\((\w+)\.ipynb\)( ⚒)?.*\| (\d+)) \|'
    found, workshop = [('', [])], []
    for part, title, page, hammers, minutes in re.findall(row, text, re.M):
        if part: found.append((part, []))
        else:
            rows = workshop if hammers else found[-1][1]
            rows.append(Entry(page, title, int(minutes), bool(hammers)))
    to_do = [Entry(TOOL, 'Translate here'), *map(Entry, ['build', 'teaching'])]
    pages = [f'reference/{path.stem}' for path in sorted(root.glob('docs/reference/*.md'))]
    gathered = {TRY: to_do, 'Reference': list(map(Entry, ['overview', *pages])),
                'Workshop': workshop, 'Records': list(map(Entry, RECORDS))}
    return [*found, *((part, rows) for part, rows in gathered.items() if rows)]

def neighbors(book, page):
    "Pages before and after; the line goes on around the workshop"
    entries = [entry for _, rows in book for entry in rows if entry.page != TOOL]
    if page == 'index': return None, entries[0]
    here = next((entry for entry in entries if entry.page == page), None)
    if here is None: return None, None
    way = entries
    if not here.is_workshop: way = [entry for entry in entries if not entry.is_workshop]
    place = way.index(here)
    before = way[place - 1] if place else Entry('index')
    return before, way[place + 1] if place + 1 < len(way) else None

def described(body):
    "The promise of a page, or its first sentence, for search engines and shared links"
    promise = re.search(r'<(blockquote|p)\b[^>]*>(.*?)</\1>', body, re.S)
    text = re.sub(r'<[^>]+>', '', promise[2]) if promise else ''
    return ' '.join(text.split())[:200]

# For Sphinx

def shown_where_sent(app, page, context):
    "Title, words, picture and kind of a page, for a link to it"
    site, is_first = machines.site(Path(app.confdir).parent), page == 'index'
    title = re.sub('<[^>]+>', '', app.config.html_title if is_first else context['title'])
    words = described(context['body'])
    picture = machines.PICTURE
    picture = f'{site}{picture}' if site else context['pathto'](picture, 1)
    return html.unescape(title), words, picture, 'book' if is_first else 'article'

def show_page(app, page, template, context, doctree):
    book = app.config.tnb_book
    titles = {name: node.astext() for name, node in app.env.titles.items()}
    titles |= {'genindex': 'Index', 'index': 'The first page'}
    named = lambda entry: entry.title or titles.get(entry.page, entry.page)
    before, after = neighbors(book, page)
    here = [(part, entry) for part, rows in book for entry in rows if entry.page == page]
    context |= dict(book=book, folded=FOLDED, named=named, before=before, after=after,
                    part=here[0][0] if here else '', entry=here[0][1] if here else None)
    context['css_files'] = [css for css in context['css_files']
                            if not re.search(r'basic|mystnb', str(css.filename))]
    if 'body' in context:
        context['shown'] = machines.tags(*shown_where_sent(app, page, context))
        context['body'] = light(app, context['body'])
    if page == 'index':
        context['schema'] = machines.about_the_book(Path(app.confdir).parent)
    context['copy'] = Path(app.confdir, f'_build/extra/{page}.md').exists()
    context['has_math'] = '<math' in context.get('body', '')

def light(app, body):
    "A page without marks that nothing shows; figures load when the reader comes near"
    body = PLAIN.sub(r'\1', body)
    body = MATH.sub(r'<span class="unbroken">\1</span>', body) # a comma begins no line
    files = {name: Path(app.srcdir, uri) for uri, name in app.builder.images.items()}
    def lazy(m):
        return f'{m[0]} loading="lazy"{dimensions(files.get(m[1]))}'
    body = re.sub('<table', '<div class="table-wrapper"><table', body)
    return IMAGE.sub(lazy, body.replace('</table>', '</table></div>'))

def dimensions(path):
    "Width and height of a picture, so that nothing moves when it comes"
    if not path or not path.exists(): return ''
    width, height = size_of_svg(path) if path.suffix == '.svg' else size_of_pixels(path)
    return f' width="{width}" height="{height}"' if width else ''

def size_of_svg(path):
    head = path.read_text(encoding='utf8')[:1000]
    size = re.search(r'<svg[^>]* width="([\d.]+)pt" height="([\d.]+)pt"', head)
    return [round(float(x)*4/3) for x in size.groups()] if size else (0, 0)

def size_of_pixels(path):
    with Image.open(path) as picture: return picture.size

def finish(app, error):
    "Colors of the code for both themes, fonts; figures without what nobody sees"
    if error: return
    static = Path(app.outdir, '_static')
    for name in ('book.css', 'math.css'): embed_fonts(static/name)
    (static/'pygments.css').write_text(colors(), encoding='utf8')
    for path in Path(app.outdir, '_images').glob('*.svg'):
        path.write_text(slim(path.read_text(encoding='utf8')), encoding='utf8')

def embed_fonts(path):
    "Into a style sheet: a page is never seen in another font first, whose lines are longer"
    def data(m):
        font = base64.b64encode((path.parent/m[1]).read_bytes()).decode()
        return f'url("data:font/woff2;base64,{font}")'
    text = re.sub(r'url\("(fonts/.*?)"\)', data, path.read_text(encoding='utf8'))
    path.write_text(text, encoding='utf8')

def colors():
    from pygments.formatters import HtmlFormatter
    rules = []
    for theme in ('light', 'dark'):
        made = HtmlFormatter(style=f'a11y-high-contrast-{theme}')
        rules += made.get_style_defs(f'html[data-theme={theme}] .highlight').splitlines()
    return '\n'.join(rule for rule in rules if ' { ' in rule) + '\n'

def slim(text):
    "An SVG without comments, metadata and digits below a hundredth of a point"
    text = re.sub(r'<!--.*?-->|<metadata>.*?</metadata>', '', text, flags=re.S)
    short = lambda m: re.sub(r'-?\d+\.\d{3,}', rounded, ' '.join(m[0].split()))
    text = re.sub(r'<\w[^>]*>', short, text)
    return re.sub(r'>\s+<', '>\n<', text)

def rounded(m):
    x = float(m[0])
    return f'{x:.2f}'.rstrip('0').rstrip('.') if abs(x) >= 1 else f'{x:.5g}'

def setup(app):
    app.add_config_value('tnb_book', parts(Path(app.confdir).parent), 'html')
    app.connect('html-page-context', show_page)
    app.connect('build-finished', finish)
    return dict(parallel_read_safe=True, parallel_write_safe=True)
