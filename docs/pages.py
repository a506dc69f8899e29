#!/usr/bin/env python3
"""The pages of the site, made from the notebooks and written to docs/_build/pages, where
Sphinx finds them.

    python docs/pages.py

A chapter stays as it is; its directives become folds, labels and anchors, asides fold, and
below its exercises their solutions are folded. Backticked names link to their definitions,
paper sections to where they are quoted. One page is gathered from all chapters: the claims,
which docs/claims.md has in words.
"""
import ast, json, re, shutil, sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT/'tools'))
from book import Cell, cells, chapters, module, number
import doors, figures, landing, live, machines, proved, teaching
from folds import FOLDED
from alternative import alternative
from repository import settings
from look import TOOL, UNLISTED, parts as parts_of_the_book

# before a quotation that ends with its section
QUOTE = re.compile(r'^(?=>.*— §([\d.]*\d))', re.M)
CAPTION = re.compile(r'^\*(Figure(?: \w+\.\d+)?: .*)\*$', re.M) # with a number or without
# what is not prose: code, formulas, names, addresses, headings
NOT_PROSE = [r'^```.*?^```', r'\$\$.*?\$\$', r'\$[^$\n]+\$', r'`[^`\n]+`', r'\]\([^)\n]*\)',
             r'^#.*?$']
PROTECTED = re.compile(f'({"|".join(NOT_PROSE)})', re.M | re.S)
# a view of the page that translates, which a notebook has only as a page of reference
VIEW = re.compile(r'\[(!\[[^]]*\]\([^)]*\)|[^]]+)\]'
                  r'\(\.\./docs/reference/exports\.md#translate-here "(\w+)"\)')
CARDS = re.compile(r'^<!-- cards -->\n(.*?)\n<!-- end of cards -->$', re.M | re.S)
HOW_IT_RUNS = {'slow', 'cuda', 'notest'}

@dataclass
class SiteCell(Cell):
    "A cell, and the anchors that the site puts before it"
    labels: list = field(default_factory=list)
    names: list = field(default_factory=list)

    @property
    def claims(self): return re.findall(r'C\d+', self.directives.get('claim', ''))

def site_cells(path): return [SiteCell(**vars(cell)) for cell in cells(path)]

def module_of(chapter): return chapter.partition('_')[2] # `05_model` holds `model`

TEST = re.compile(r'^def (test_\w+)\(.*?(?=^\S|\Z)', re.M | re.S)

def claims_of_tests(folder):
    "The tests that answer a claim: its file and name, by claim"
    found = defaultdict(list)
    for path in sorted(folder.glob('test_*.py')):
        for test in TEST.finditer(path.read_text(encoding='utf8')):
            for line in re.findall(r'^ *#\| claim (.*)$', test[0], re.M):
                for claim in line.split(): found[claim].append((path.name, test[1]))
    return found

def definitions(source):
    "Names that a cell defines; `_private` ones left out"
    for node in ast.parse(source).body:
        found = names_of(node)
        if isinstance(node, ast.ClassDef):
            methods = [f.name for f in node.body if isinstance(f, ast.FunctionDef)]
            found += [f'{node.name}.{name}' for name in methods]
        yield from (name for name in found if not re.search(r'(^|\.)_', name))

def names_of(node):
    "What a statement defines; a patched method belongs to the class of its first argument"
    if isinstance(node, ast.Assign):
        targets = [n for target in node.targets for n in ast.walk(target)]
        return [n.id for n in targets if isinstance(n, ast.Name)]
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef)): return []
    decorators = ' '.join(map(ast.unparse, node.decorator_list))
    if 'patch' not in decorators: return [node.name]
    of_class = ast.unparse(node.args.args[0].annotation)
    return [f'{of_class}.{node.name}']

class Book:
    "The chapters, and where they define names, quote sections and answer claims"
    def __init__(self, root):
        self.root = root
        self.cells = {p.stem: site_cells(p) for p in chapters(root)}
        self.title = {chapter: self.titled(chapter) for chapter in self.cells}
        self.module = {p.stem: module(p) or '' for p in chapters(root)}
        self.questions = teaching.read_questions(root)
        self.claims_text = (root/'docs/claims.md').read_text(encoding='utf8')
        self.names = defaultdict(list)   # name: the chapters that define it
        self.quotes = defaultdict(list)  # section: chapters that quote it
        self.claims = defaultdict(list)  # claim: (run by hand?, chapter, anchor)
        self.tested = claims_of_tests(root/'tests')
        for chapter, rows in self.cells.items():
            for cell in rows: self.collect(chapter, cell)

    def titled(self, chapter):
        first = self.cells[chapter][0].source
        return f"{number(chapter)} {re.match('# (.*)', first)[1]}"

    def collect(self, chapter, cell):
        if cell.is_exported: self.collect_names(chapter, cell)
        for claim in cell.claims: self.collect_claim(chapter, cell, claim)
        if cell.kind == 'markdown':
            for section in QUOTE.findall(cell.text):
                if chapter not in self.quotes[section]: self.quotes[section].append(chapter)

    def collect_names(self, chapter, cell):
        for name in definitions(cell.text):
            if chapter in self.names[name]: continue
            self.names[name].append(chapter)
            cell.names.append(name)
            cell.labels.append(f'def-{module_of(chapter)}.{name}')

    def collect_claim(self, chapter, cell, claim):
        before = sum(c == chapter for _, c, _ in self.claims[claim])
        label = f'claim-{claim}-{module_of(chapter)}'.lower()
        if before: label += f'-{before + 1}'
        cell.labels.append(label)
        by_hand = bool(cell.flags & HOW_IT_RUNS)
        self.claims[claim].append((by_hand, chapter, label))

    def chapter_of(self, name, chapter):
        "Where a name is defined, as seen from a chapter that imports or defines it"
        homes = self.names.get(name, [])
        if chapter in homes: return chapter
        code = '\n'.join(c.text for c in self.cells.get(chapter, []) if c.kind == 'code')
        for home in homes:
            origin = rf'transformer_nb\.{re.escape(self.module[home])}(?:\.\w+)?'
            pattern = rf'^from {origin} import .*\b{name}\b'
            if re.search(pattern, code, re.M): return home
        if re.search('[A-Z_]', name): return next(iter(homes), None) # not a plain word
        return None

    def section(self, name, chapter):
        "A paper section, linked to its first quotation, else its first claim"
        homes = [(c, f'quote-{name}-{module_of(c)}') for c in self.quotes[name]]
        pattern = rf'^## §{re.escape(name)} .*\n\n- (C\d+)'
        first_claim = re.search(pattern, self.claims_text, re.M)
        if first_claim: homes += [found[1:] for found in self.claims[first_claim[1]]]
        if not homes or homes[0][0] == chapter: return f'§{name}'
        return f'[§{name}](#{homes[0][1]})'

    def linked(self, text, chapter):
        "Markdown with its names and sections as links, and links to files bent to the site"
        text = VIEW.sub(view_link, text.replace('](index.ipynb', '](overview.ipynb'))
        text = text.replace('](../docs/', '](').replace('](../', '](')
        parts = PROTECTED.split(text)
        for i, part in enumerate(parts):
            if i % 2 == 0:
                link = lambda m: self.section(m[1], chapter)
                part = re.sub(r'§(\d[\d.]*\d|\d)', link, part)
                parts[i] = figures.REFERENCE.sub(figure_link, part)
            elif re.match(r'`\([^`]{,30}\)`$', part): # a shape stays in one piece
                parts[i] = part.replace(' ', '\N{NO-BREAK SPACE}')
            elif part[0] == '`' and not parts[i-1].endswith('['):
                parts[i] = self.linked_name(part, chapter)
        return ''.join(parts)

    def linked_name(self, part, chapter):
        name = re.sub(r'\(.*\)$', '', part.strip('`')) # of a call, what is called
        home = self.chapter_of(name, chapter)
        return f'[{part}](#def-{module_of(home)}.{name})' if home else part

def view_link(m):
    "To a view of the page"
    return f'<a href="translate_here.html#{m[2]}">{m[1]}</a>'

# A chapter

def page(book, chapter):
    "The cells as the site shows them"
    quoted, stubs, asides = set(), [], Asides()
    rows = book.cells[chapter]
    for cell in rows:
        if cell.kind == 'markdown':
            text = prose(book, chapter, cell, quoted)
            yield markdown(asides.fold(with_questions(book, chapter, text)))
        elif cell.text and 'hide' not in cell.flags:
            above = before_code(cell)
            if above: yield markdown(above)
            yield code(cell.text, look(cell), cell.outputs)
            if cell.outputs and 'commit' in cell.flags:
                commit = cell.directives['commit']
                yield markdown(f'{{.caption}}\nOutput of commit {commit}')
            if not cell.names and 'raise NotImplementedError' in cell.text:
                stubs += re.findall(r'^(?:def|class) (\w+)', cell.text, re.M)
            if 'with attempt()' in cell.text:
                look_of_solution = folded('Solution', 'solution')
                for name in stubs:
                    yield code(solution(book, chapter, name), look_of_solution)
                stubs = []
    if asides.is_open: yield markdown(asides.END)
    if any(live.names(cell.text) for cell in rows): yield markdown(live.LOADER)

WAY_ON = re.compile(r'^(?=\*\*(?:Now write it|Next:))', re.M)

def with_questions(book, chapter, text):
    "The questions of a chapter stand before its last paragraphs, which say how to go on"
    asked = [q for q in book.questions if q['chapter'] == chapter]
    place = WAY_ON.search(text)
    if not asked or not place: return text
    parts = [text[:place.start()], *teaching.chapter_questions(asked), text[place.start():]]
    return '\n\n'.join(parts)

class Asides:
    """Sections that a first reader may skip: each stands in a fold that ends with it. Its
    heading is a cell of its own, and the next heading begins one (tools/folds.py)"""
    START = '\n\n<details class="aside"><summary>Show this section</summary>\n\n'
    END = '\n\n</details>\n\n'

    def __init__(self): self.is_open = False

    def fold(self, text):
        if not re.match('#{1,3} ', text): return text
        before = self.END if self.is_open else ''
        self.is_open = text.startswith(FOLDED)
        return before + text + (self.START if self.is_open else '')

def prose(book, chapter, cell, quoted):
    "Markdown with anchors at quotations, links, captions, and the number in the title"
    def anchor(m):
        if m[1] in quoted: return ''
        quoted.add(m[1])
        entry = f'```{{index}} ! §{m[1]}\n```\n\n'
        return f'(quote-{m[1]}-{module_of(chapter)})=\n\n{entry}'
    text = book.linked(QUOTE.sub(anchor, cell.text), chapter)
    text = re.sub(r'— (?=\[?§)', '—\N{NO-BREAK SPACE}', text)
    text = CAPTION.sub(captioned, text)
    text = CARDS.sub(r'<div class="cards">\n\n\1\n\n</div>', live.boxes(text))
    if chapter == 'index':
        text = re.sub('^# .*', f'# {OVERVIEW}', BROWSER.sub('', text))
    elif cell.number == 0:
        text = re.sub('^# .*', f'# {book.title[chapter]}', text)
        line = doors.door_line(book.root, chapter)
        text = re.sub('^> .*$', rf'\g<0>\n\n{line}', text, count=1, flags=re.M)
    return text

# The first page of the notebooks, which has the site's own first page above it
OVERVIEW = 'Setup, commands, results, and notation'
BROWSER = re.compile(r'^## In your browser\n.*?(?=^## |\Z)', re.M | re.S)

def figure_id(number): return f'figure-{number.replace(".", "-")}'

def figure_link(m): return f'[{m[0]}](#{figure_id(m[1])})' # Sphinx says if it is not there

def captioned(m):
    "A caption, and the anchor to which references lead"
    number = figures.CAPTION.match(m[0])[1]
    anchor = f'({figure_id(number)})=\n' if number else ''
    return anchor + caption(m)

def caption(m):
    "In a notebook a caption is italic and an emphasized word upright; here it is italic"
    text = re.sub(r'\* ([^*]+?)( ?)\*', r' *\1*\2', m[1])
    number, colon, words = text.partition(':')
    return f'{{.caption}}\n**{number}{colon}**{words}'

def before_code(cell):
    "Anchors, index entries and the claims that a cell answers"
    lines = [f'({label})=\n' for label in cell.labels]
    if cell.names:
        entries = ', '.join(name if '.' in name else f'! {name}' for name in cell.names)
        lines.append(f'```{{index}} {entries}\n```\n')
    if cell.claims:
        links = ' · '.join(f'[{c}](#{c.lower()})' for c in cell.claims)
        lines.append(f'\n{{.claim}}\nClaim {links}\n')
    return ''.join(lines)

def solution(book, chapter, name):
    "Source of a solution, after the functions that it alone uses"
    path = book.root/f'nbs/solutions/solutions_{number(chapter)}.py'
    source = path.read_text(encoding='utf8')
    nodes = {node.name: node for node in ast.parse(source).body
             if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    known = '\n'.join(cell.text for cell in book.cells[chapter])
    def text(node):
        first = min(n.lineno for n in [node, *node.decorator_list])
        return '\n'.join(source.splitlines()[first - 1:node.end_lineno])
    def is_helper(other):
        called = re.search(rf'\b{other}\(', text(nodes[name]))
        return called and not re.search(rf'^(def|class) {other}\b', known, re.M)
    wanted = [*filter(is_helper, nodes), name]
    return '\n\n'.join(text(nodes[n]) for n in wanted)

def markdown(text): return dict(cell_type='markdown', metadata={}, source=text)

def code(source, metadata, outputs=()):
    return dict(cell_type='code', execution_count=None, metadata=metadata, source=source,
                outputs=list(outputs))

def folded(prompt, *tags):
    shown = dict(code_prompt_show=prompt, code_prompt_hide=prompt)
    return dict(tags=['hide-input', *tags], mystnb=shown)

def look(cell):
    "Folds, labels and the words for a figure, as MyST-NB understands them"
    tags, more = [flag for flag in ('slow', 'cuda') if flag in cell.flags], {}
    if cell.is_exported: tags.append('exported')
    if 'predict' in cell.flags:
        tags.append('hide-output')
        more = dict(code_prompt_show='Show what it prints', code_prompt_hide='Hide it')
    if 'echo' in cell.flags: tags.append('remove-input')
    elif cell.hides_code:
        tags.append('hide-input')
        words = cell.directives.get('fold', 'Imports of this chapter')
        more = folded(words)['mystnb']
    for output in cell.outputs:
        if svg := ''.join(output.get('data', {}).get('image/svg+xml', '')):
            more['image'] = dict(alt=alternative(svg))
    return dict(tags=tags, mystnb=more)

def contents(root):
    "For Sphinx, which wants every page in a table of contents; templates/ shows ours"
    entries = [entry for _, rows in parts_of_the_book(root) for entry in rows]
    names = [entry.page for entry in entries if entry.page != TOOL]
    return '\n'.join(['```{toctree}', ':hidden:', '', *names, *UNLISTED, '```'])

# The gathered pages

def claims(book):
    "docs/claims.md, with links to the cells that answer and to the quotations"
    def answered(m):
        found = sorted(book.claims[m[1]], key=lambda answer: answer[0])
        links = [f'[{n}](#{label})' for n, (_, _, label) in enumerate(found, 1)]
        if found: links[0] = f'[{book.title[found[0][1]]}](#{found[0][2]})'
        links += [f'`{test}` in `{file}`' for file, test in book.tested.get(m[1], [])]
        return f'({m[1].lower()})=\n**{m[1]}**\n: {m[2]} → {", ".join(links) or "open"}'
    def quoted(m):
        links = ' · '.join(f'[{book.title[c]}](#quote-{m[1]}-{module_of(c)})'
                           for c in book.quotes[m[1]])
        return f'{m[0]}\n' + (f'\n{{.quoted}}\nQuoted in {links}\n' if links else '')
    text = re.sub(r'^- (C\d+) (.*)$', answered, book.claims_text, flags=re.M)
    return re.sub(r'^## §([\d.]*\d) .*$', quoted, text, flags=re.M)

def models(root):
    "The cards of the trained models"
    yield '# The models of the book'
    for path in sorted((root/'nbs/models').glob('*/README.md')):
        yield re.sub('^#', '##', path.read_text(encoding='utf8'), flags=re.M)

# Writing

TRANSLATE = {'translate_here.html': ('English → German', 'everyday-en-de'), # opens first
             'translate_german.html': ('German → English', 'everyday-de-en')}

def playground(root, folder):
    "The pages that translate, one for each model, which Sphinx copies as they are"
    from transformer_nb.formats.page import export_page # slow
    folder.mkdir(parents=True, exist_ok=True)
    beside = {name: title for name, (title, _) in TRANSLATE.items()}
    for name, (_, model) in TRANSLATE.items():
        export_page([root/'nbs/models'/model], folder/name, './', beside)
        introduce(root, folder/name, beside[name])

HERE = ('Type a sentence, see it translated by a small Transformer in your browser, and '
        'look inside: where it looked, what each head is worth, how the search goes.')

def introduce(root, path, languages):
    "In its head: the name of the book, and what a link to it shows"
    title = settings(root)['title']
    text = path.read_text(encoding='utf8')
    picture = f'{machines.site(root)}{machines.PICTURE}'
    shown = machines.tags(f'Translate here: {languages}', HERE, picture)
    book = f'<link rel="contents" href="./" title="{title}">\n{shown}'
    text = text.replace('<link rel="contents" href="./">', book, 1)
    text = text.replace('<title>Translate here<', f'<title>Translate here – {title}<', 1)
    path.write_text(text, encoding='utf8')

# Teaching

def write_teaching(book, out):
    rows = [entry for _, entries in parts_of_the_book(book.root) for entry in entries]
    text = (book.root/'docs/teaching.md').read_text(encoding='utf8')
    text = teaching.with_minutes(text, {entry.page: entry.minutes for entry in rows})
    (out/'teaching.md').write_text(text, encoding='utf8')
    file = out.parent/'extra'/teaching.MOODLE
    file.parent.mkdir(exist_ok=True)
    file.write_text(teaching.moodle(book.questions, book.title), encoding='utf8')

def write_notebook(path, made):
    metadata = dict(language_info=dict(name='python'))
    notebook = dict(cells=list(made), metadata=metadata, nbformat=4, nbformat_minor=4)
    path.write_text(json.dumps(notebook), encoding='utf8')

def copy_linked_files(book, out):
    "Figures, and what else the chapters link to"
    prose = '\n'.join(cell.text for rows in book.cells.values() for cell in rows
                      if cell.kind == 'markdown')
    for link in set(re.findall(r'\]\((?!\.\./docs/)([^)#:\s]+)', prose)):
        if link == '../CONTRIBUTING.md': continue
        source, target = book.root/'nbs'/link, out/link.removeprefix('../')
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_file() and target.suffix != '.ipynb': shutil.copy(source, target)

def write_guides(root, out):
    "For those who work on the book: links to chapters lose their folder"
    for name in ('CONTRIBUTING.md', 'RELEASING.md'):
        text = (root/name).read_text(encoding='utf8')
        text = text.replace('](nbs/index.ipynb', '](overview.ipynb').replace('](nbs/', '](')
        (out/name).write_text(text, encoding='utf8')

def write_first_page(root, out):
    from transformer_nb.translation import Translator # slow
    translator = Translator(root/'nbs/models'/landing.MODEL)
    text = landing.page(root, translator)
    (out/'index.md').write_text(f'{text}\n\n{contents(root)}\n', encoding='utf8')

def write_reference(root, out):
    "Markdown that needs no chapter: what a user looks up"
    for path in sorted((root/'docs/reference').glob('*.md')):
        text = path.read_text(encoding='utf8').replace('](../../nbs/', '](../../')
        text = text.replace('](../../', '](../')
        text = text.replace(f'\n{proved.PLACE}\n', proved.table(root))
        target = out/'reference'/path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding='utf8')

def write(root, out):
    book = Book(root)
    shutil.rmtree(out.parent, ignore_errors=True) # no page outlives its chapter
    out.mkdir(parents=True)
    copy_linked_files(book, out)
    write_guides(root, out)
    write_reference(root, out)
    for name in ('about.md', 'article.md', 'smoothing.md', 'bibliography.md'):
        text = (root/'docs'/name).read_text(encoding='utf8')
        text = text.replace('](../nbs/', '](').replace('](../', '](')
        if name == 'about.md': # whom to ask stands below its title
            text = text.replace('\n', f'\n\n{doors.contact(root)}\n', 1)
        (out/name).write_text(text, encoding='utf8')
    playground(root, out.parent/'extra')
    machines.write(root, parts_of_the_book(root), out.parent/'extra')
    live.write(root/'nbs/models', out.parent/'extra/live')
    runnable = [path for path in chapters(root) if path.stem != 'index']
    doors.write_copies(root, runnable, out.parent/'extra/notebooks')
    shutil.copytree(root/'nbs/results', out/'results',
                    dirs_exist_ok=True)
    for chapter in book.cells:
        name = 'overview' if chapter == 'index' else chapter
        write_notebook(out/f'{name}.ipynb', page(book, chapter))
    write_first_page(root, out)
    write_teaching(book, out)
    pages = dict(claims=[claims(book)], models=models(root))
    for name, parts in pages.items():
        (out/f'{name}.md').write_text('\n\n'.join(parts) + '\n', encoding='utf8')

if __name__ == '__main__': write(ROOT, ROOT/'docs/_build/pages')
