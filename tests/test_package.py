"""What is installed is the package and nothing else; importing it needs no notebook or
development tool, nor what loads slowly."""
import shutil, subprocess, sys, zipfile
from pathlib import Path
import pytest
from book import package
from transformer_nb.checkpoint import SHIPPED, find_model

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT/'transformer_nb'
MODULES = [path.relative_to(PACKAGE).with_suffix('').as_posix()
           for path in [*package(ROOT), *PACKAGE.rglob('__init__.py')]
           if 'assignment' not in path.parts]
PLAYGROUND = [p.name for p in (ROOT/'transformer_nb/playground').iterdir()
              if not p.name.startswith('live')] # which only the site needs
BUILD = 'import sys, setuptools.build_meta as s; s.build_sdist(sys.argv[1])'

def python(code, *arguments, **options):
    "What a Python of its own prints"
    run = subprocess.run([sys.executable, '-W', 'error', '-c', code, *arguments],
                         check=True, capture_output=True, text=True, **options)
    return run.stdout

@pytest.fixture(scope='module')
def sdist(tmp_path_factory):
    "The package as a source archive, built from a copy of the checkout"
    folder = tmp_path_factory.mktemp('package')
    checkout = folder/'checkout'
    checkout.mkdir()
    files = [path for path in ROOT.iterdir() if path.is_file()]
    for path in files: shutil.copy(path, checkout)
    for name in ('transformer_nb', 'tests', 'tools', 'benchmarks', 'nbs/models'):
        shutil.copytree(ROOT/name, checkout/name,
                        ignore=shutil.ignore_patterns('__pycache__'))
    python(BUILD, folder, cwd=checkout)
    [archive] = folder.glob('*.tar.gz')
    return archive

@pytest.fixture(scope='module')
def wheel(sdist):
    "The wheel that pip builds from the source archive"
    options = ['-qq', '--no-deps', '--no-index', '--no-build-isolation', '--use-pep517']
    build = [sys.executable, '-m', 'pip', 'wheel', *options, '-w', sdist.parent, sdist]
    subprocess.run(build, check=True)
    [built] = sdist.parent.glob('*.whl')
    return zipfile.ZipFile(built)

def test_wheel_has_what_belongs(wheel):
    names = {n for n in wheel.namelist() if not n.partition('/')[0].endswith('.dist-info')}
    modules = {f'transformer_nb/{m}.py' for m in MODULES}
    playground = {f'transformer_nb/playground/{name}' for name in PLAYGROUND}
    data = {f'transformer_nb/{name}' for name in (
        'py.typed', 'everyday.jsonl', 'typed.jsonl', 'typed.tsv', 'reading.tsv',
        'sentences.txt.gz')}
    folder = ROOT/'transformer_nb/assignment'
    kit = {f'transformer_nb/{path.relative_to(PACKAGE)}' for path in folder.rglob('*')
           if path.is_file() and '__pycache__' not in path.parts}
    models = {f'transformer_nb/models/{name}/{path.name}' for name in SHIPPED
              for path in (ROOT/'nbs/models'/name).iterdir()}
    assert names == modules | playground | data | kit | models
    assert 'transformer_nb/assignment/run_autograder' in kit
    assert any(name.endswith('licenses/LICENSE') for name in wheel.namelist())

def test_a_model_is_found_by_name(wheel, tmp_path, monkeypatch):
    "Beside the installed package; in a checkout, among the chapters; a folder wins"
    wheel.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr('transformer_nb.__file__', str(tmp_path/'transformer_nb/x.py'))
    for name in SHIPPED: assert find_model(name) == tmp_path/'transformer_nb/models'/name
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    for name in SHIPPED: assert find_model(name) == ROOT/'nbs/models'/name
    (tmp_path/SHIPPED[0]).mkdir()
    assert find_model(SHIPPED[0]) == Path(SHIPPED[0])
    assert find_model('multi30k-en-de') == Path('multi30k-en-de') # not with the package

# What does not belong to the package, and what is slow and needed by a few functions only
HIDDEN = ['IPython', 'nbdev', 'jupyterlab', 'nbclient', 'pytest', 'hypothesis', 'spacy',
          'transformers', 'matplotlib_inline', 'matplotlib', 'scipy']

def test_nothing_needless_is_imported():
    hide = f'import sys\nfor m in {HIDDEN}: sys.modules[m] = None\n'
    names = [m.replace('/', '.') for m in MODULES]
    imports = '\n'.join(f'import transformer_nb.{name}' for name in names)
    python(hide + imports, cwd='/')

def test_help_loads_nothing_slow():
    script = Path(sys.executable).with_name('tnb_translate')
    command = [sys.executable, '-X', 'importtime', script, '--help']
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    imported = {line.split('|')[-1].strip() for line in run.stderr.splitlines()}
    assert 'transformer_nb.commands' in imported
    slow = {'matplotlib', 'sacremoses', 'sacrebleu', 'spacy', 'fastcore.docments'}
    assert not slow & imported

ALONE = """
import gc, sys
for name in ('spacy', 'matplotlib', 'sacrebleu', 'sacremoses', 'scipy', 'transformers'):
    sys.modules[name] = None # as if it were not installed
from transformer_nb import Translator
[translation] = Translator('everyday-en-de').translate(['How are you?'])
assert translation and gc.isenabled() and gc.get_freeze_count()
"""

def test_a_translation_needs_little_as_the_README_says():
    python(ALONE)
