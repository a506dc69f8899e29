"""The book for programs that read: a Markdown copy of each chapter beside its page, their
list in llms.txt, what a search engine is told of the book, and what a link to a page shows
where somebody sends it."""
import html, json, re
from alternative import alternative
from book import cells, chapters
from readme import fenced
from repository import repository, settings

def site(root): # its address; empty: it has none
    home = repository(root)
    return home.site if home else ''

def copy(path):
    "A chapter as Markdown: code, what it prints, and figures in words"
    parts = []
    for cell in cells(path):
        if cell.kind == 'markdown': parts.append(bent(cell.source))
        elif cell.text and 'hide' not in cell.flags: parts += shown(cell)
    return '\n\n'.join(parts) + '\n'

def shown(cell):
    if 'echo' not in cell.flags: yield fenced(cell.text, 'python')
    for output in cell.outputs:
        data = output.get('data', {})
        svg = ''.join(data.get('image/svg+xml', ''))
        text = ''.join(output.get('text') or data.get('text/plain', ''))
        if svg: yield f'[A figure. {alternative(svg)}]'
        elif text.strip(): yield fenced(text.rstrip())

def bent(text): # links lead to the copies; live figures are left out
    text = re.sub(r'<!-- live .*? -->\n*', '', text)
    text = re.sub(r'\]\((\w+)\.ipynb(#[\w-]+)?', r'](\1.md', text.replace('index.ipynb',
                                                                        'overview.ipynb'))
    text = re.sub(r'\]\(\.\./docs/(\S+)\.md', r'](\1.html', text)
    return re.sub(r'\]\(\.\./', '](', text)

def list_of(root, book):
    "llms.txt: what the book is, and where each part of it stands"
    about, home = settings(root), site(root)
    lines = [f"# {about['title']}", f"> {about['description']}: the words of the paper by "
             'Vaswani et al. (2017), the PyTorch code that is those words, and the proof '
             'that it is right. The links lead to Markdown copies of its chapters.']
    for part, entries in book:
        rows = [f'- [{entry.title}]({home}{entry.page}.md)' for entry in entries
                if entry.minutes]
        if rows: lines.append(f'## {part or "Introduction"}\n\n' + '\n'.join(rows))
    more = {'overview.md': 'Setup, commands, results, and notation',
            'claims.html': "The paper's claims, and the cells that answer them"}
    rows = [f'- [{title}]({home}{name})' for name, title in more.items()]
    return '\n\n'.join([*lines, '## Optional\n\n' + '\n'.join(rows)]) + '\n'

def about_the_book(root):
    "As schema.org describes a book, for the first page"
    about, home = settings(root), site(root)
    paper = {'@type': 'ScholarlyArticle', 'name': 'Attention Is All You Need',
             'datePublished': '2017'}
    found = {'@context': 'https://schema.org', '@type': 'Book', 'name': about['title'],
             'description': about['description'], 'inLanguage': 'en',
             'bookFormat': 'https://schema.org/EBook', 'isAccessibleForFree': True,
             'author': {'@type': 'Organization', 'name': about['author']},
             'license': 'https://www.apache.org/licenses/LICENSE-2.0', 'about': paper}
    if home: found['url'] = home
    return json.dumps(found, ensure_ascii=False).replace('<', r'\u003c')

# A picture of 1,200 × 630 pixels, as the sites that show links ask for
PICTURE = '_static/card.png'

def tags(title, words, picture, kind='article'):
    "For the head of a page"
    about = {'og:title': title, 'og:description': words, 'og:type': kind,
             'og:image': picture}
    cards = {'description': words, 'twitter:card': 'summary_large_image',
             'twitter:title': title, 'twitter:description': words,
             'twitter:image': picture}
    def tag(key, name, value):
        return f'<meta {key}="{name}" content="{html.escape(value)}">'
    made = [tag('property', name, value) for name, value in about.items() if value]
    made += [tag('name', name, value) for name, value in cards.items() if value]
    return '\n'.join(made)

def write(root, book, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for path in chapters(root):
        name = 'overview' if path.stem == 'index' else path.stem
        (folder/f'{name}.md').write_text(copy(path), encoding='utf8')
    (folder/'llms.txt').write_text(list_of(root, book), encoding='utf8')
