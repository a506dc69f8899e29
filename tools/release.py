#!/usr/bin/env python3
"""The files of a release, in dist/: wheel, source archive, the site, the models, the book
as a PDF where `make pdf` has made it, notes from CHANGELOG.md, and checksums of them all.

    python tools/release.py      # after `make docs`; `make release` does both
"""
import hashlib, re, shutil, subprocess, sys
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo
from book import ROOT
from repository import git, repository, settings

BUILD = 'import sys, setuptools.build_meta as m; m.build_{}(sys.argv[1])'
SINCE_1980 = (1980, 1, 1, 0, 0, 0) # a date, so that the same files make the same archive

def release_of(version): return re.sub(r'\.?(dev|rc|a|b)\d+$', '', version)

def notes(text, version):
    "The section of CHANGELOG.md that tells of a version, as a page of its own"
    section = rf'^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)'
    found = re.search(section, text, re.M | re.S)
    if not found: sys.exit(f'CHANGELOG.md has no section for {version}')
    return f'# {version}\n\n{found[1].strip()}\n'

def pack(folder, archive, top, extra=None):
    "A zip file with all of a folder below `top`, and some texts by name"
    with ZipFile(archive, 'w', ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob('*')):
            if not path.is_file(): continue
            name = f'{top}/{path.relative_to(folder).as_posix()}'
            put(packed, name, path.read_bytes())
        for name, text in (extra or {}).items(): put(packed, f'{top}/{name}', text.encode())

def put(packed, name, data):
    about = ZipInfo(name, SINCE_1980)
    about.external_attr = 0o644 << 16
    packed.writestr(about, data, ZIP_DEFLATED)

def build_package(root, out):
    shutil.rmtree(root/'build', ignore_errors=True) # a wheel takes what lies there
    for kind in ('sdist', 'wheel'): # each in a process of its own, or the second is lost
        command = [sys.executable, '-c', BUILD.format(kind), str(out)]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        if done.returncode: sys.exit(done.stderr)

def about_models(home):
    where = f' {home.url}' if home else ''
    return ('The models of the book transformer_nb' + where + '. The cards beside them say '
            'what they learned from, and what one may do with them.\n')

def make(root, out):
    "Write all files; returns their names"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    about, home = settings(root), repository(root)
    version, name = about['version'], about['lib_name']
    build_package(root, out)
    site, book = root/'docs/_build/html', root/'docs/_build/transformer_nb.pdf'
    if not (site/'index.html').exists(): sys.exit('no site here; `make docs` builds it')
    pack(site, out/f'{name}-{version}-site.zip', f'{name}-site')
    models = {'README.txt': about_models(home)}
    pack(root/'nbs/models', out/f'{name}-{version}-models.zip', f'{name}-models', models)
    if book.exists(): shutil.copy(book, out/f'{name}-{version}.pdf')
    else: print('without the PDF, which `make pdf` makes')
    text = notes((root/'CHANGELOG.md').read_text(encoding='utf8'), release_of(version))
    (out/'NOTES.md').write_text(text, encoding='utf8')
    names = sorted(path.name for path in out.iterdir())
    sums = [f'{checksum(out/x)}  {x}\n' for x in names]
    (out/'SHA256SUMS').write_text(''.join(sums), encoding='utf8')
    return [*names, 'SHA256SUMS']

def checksum(path):
    with open(path, 'rb') as file: return hashlib.file_digest(file, 'sha256').hexdigest()

if __name__ == '__main__':
    for made in make(ROOT, ROOT/'dist'):
        print(f'{(ROOT/"dist"/made).stat().st_size / 1e6:8.2f} MB  dist/{made}')
    changed = git(ROOT, 'status', '--porcelain')
    if changed: print('not from a commit: files have changed since the last one')
