"""Doors into the book: of each chapter a copy that runs alone, and the line of links that a
page has under its title; and when the chapters were last run, for the foot of a page."""
import json, platform, re, sys
from importlib.metadata import version
from pathlib import Path
from repository import git, repository

# The first cell of a copy.
INSTALL = """# This copy runs alone: here it gets the package, if that is missing.
from importlib import metadata, util
SOURCE = {source!r}
if not util.find_spec('transformer_nb'):
    torch = 'torch==' + metadata.version('torch') if util.find_spec('torch') else 'torch'
    %pip install -q {{SOURCE}} {{torch}}
"""
FETCH = """import glob, os, shutil, urllib.request
missing = [name for name in {names} if not os.path.exists(name)]
if missing: shutil.unpack_archive(urllib.request.urlretrieve(SOURCE)[0], 'book', 'zip')
for name in missing: os.renames(glob.glob('book/*/nbs/' + name)[0], name)
"""
BY_HAND = """This copy needs the package `transformer_nb`, and the files that lie beside \
the chapters: install the book with `pip install .` in its repository, and run the copy \
there, in the folder `nbs`.
"""

def source_of(root):
    "The archive of the repository at this commit; None where the book has no address"
    home = repository(root)
    return home.archive(git(root, 'rev-parse', 'HEAD') or home.branch) if home else None

def files_read(notebook, nbs):
    "Files and folders of models and results that the code of a chapter names"
    code = '\n'.join(''.join(cell['source']) for cell in notebook['cells']
                     if cell['cell_type'] == 'code')
    found = set()
    for name in re.findall(r'''['"/]((?:models|results)\b[\w./-]*)''', code):
        path = Path(name)
        if path.suffix and not (nbs/path).exists(): continue # not measured yet
        while not (nbs/path).exists(): path = path.parent # '…/{seed}.txt' was cut off
        if path.name: found.add(path.as_posix())
    return sorted(x for x in found if not any(x.startswith(f'{y}/') for y in found))

def alone(path, source=None, home=None):
    "A chapter with a first cell that gets what it needs from `source`"
    notebook = json.loads(path.read_text(encoding='utf8'))
    names = files_read(notebook, path.parent)
    text = BY_HAND
    if source: text = INSTALL.format(source=source)
    if source and names: text += FETCH.format(names=names)
    cell = dict(cell_type='code' if source else 'markdown', id='standalone', metadata={},
                source=text.rstrip())
    if source: cell |= dict(execution_count=None, outputs=[])
    notebook['cells'].insert(1, cell)
    if home:
        for cell in notebook['cells']: bend_links(cell, home)
    return notebook

def bend_links(cell, home):
    "To other chapters: links to their pages; to files: links into the repository"
    if cell['cell_type'] == 'code': return
    text = ''.join(cell['source'])
    text = re.sub(r'\]\((\w+)\.ipynb', rf']({home.site}\1.html', text)
    text = re.sub(r'\]\(\.\./(?=\w)', f']({home.file("")}', text)
    cell['source'] = re.sub(r'\]\((?![a-z]+:|#)', f']({home.file("nbs/")}', text)

def write_copies(root, paths, folder, source=None):
    folder.mkdir(parents=True, exist_ok=True)
    source, home = source or source_of(root), repository(root)
    for path in paths:
        text = json.dumps(alone(path, source, home), indent=1, ensure_ascii=False)
        (folder/path.name).write_text(text + '\n', encoding='utf8')

def door_line(root, chapter):
    "Markdown for a page"
    links = [f'<a href="notebooks/{chapter}.ipynb" download>Download notebook</a>']
    home = repository(root)
    if home: links.append(f'<a href="{home.colab(chapter)}">Open in Colab</a>')
    return '{.doors}\n' + ' · '.join(links)

def contact(root):
    "Whom to tell of a mistake; empty where the book has no owner"
    home = repository(root)
    if not home: return ''
    return f'[A mistake, or a question?]({home.url}/issues) · [Source]({home.url})'

def last_run(root):
    "In which state, with which versions; empty where there is no commit"
    found = git(root, 'log', '-1', '--format=%cs (commit %h)')
    if not found: return ''
    return (f"Last run on {found} with torch {version('torch')}, "
            f'Python {platform.python_version()}')

if __name__ == '__main__': # PYTHONPATH=tools python docs/doors.py SOURCE FOLDER FILE …
    source, folder, *paths = sys.argv[1:]
    write_copies(Path(), map(Path, paths), Path(folder), source)
