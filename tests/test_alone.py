"""Chapters that are downloaded: the copies of docs/doors.py, in an empty folder of an
environment that lacks the package, with an archive of this checkout as their source."""
import json, re, shutil, subprocess, sys
from pathlib import Path
from zipfile import ZipFile
import pytest, torch, yaml
from jinja2 import Template
import doors
from book import chapters
from repository import Repository, citation, repository
from readme import with_addresses

ROOT = Path(__file__).parent.parent
CITATION = ROOT/'CITATION.cff'
HOME = Repository('someone', 'book', 'main')
TRANSLATION = ROOT/'nbs/13_decoding.ipynb'

@pytest.fixture(scope='module')
def archive(tmp_path_factory):
    "The repository as its host packs it, without what this test does not read"
    path = tmp_path_factory.mktemp('archive')/'book.zip'
    folders = 'transformer_nb', *(f'nbs/models/{name}' for name in (
        'multi30k-en-de', 'everyday-en-de', 'everyday-de-en'))
    files = [p for p in ROOT.iterdir() if p.is_file() and p.name != '.git']
    files += [p for name in folders for p in (ROOT/name).rglob('*') if p.is_file()]
    with ZipFile(path, 'w') as packed:
        for file in files:
            if '__pycache__' in file.parts: continue
            packed.write(file, f'book-1234567/{file.relative_to(ROOT).as_posix()}')
    return path

@pytest.fixture(scope='module')
def python(tmp_path_factory):
    "An environment with everything that is installed here, except for the package"
    folder = tmp_path_factory.mktemp('environment')
    command = [sys.executable, '-m', 'venv', '--without-pip', folder] # ours will do
    subprocess.run(command, check=True)
    [packages] = folder.glob('lib/*/site-packages')
    (packages/'more.pth').write_text(str(Path(torch.__file__).parents[1]), encoding='utf8')
    return folder/'bin/python'

RUN = '''
import json, sys
from pathlib import Path
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for source in json.loads(sys.argv[1]):
    if not shell.run_cell(source).success: sys.exit(1)
'''
WHERE = '''
print(util.find_spec('transformer_nb').origin)
'''
SAY = '''
import torch, transformer_nb
from transformer_nb.translation import Translator
print(Translator('models/multi30k-en-de').translate(['Two dogs are playing.']))
print(torch.__version__, transformer_nb.__file__)
'''

@pytest.mark.slow
def test_a_copy_runs_alone_and_leaves_torch_as_it_was(archive, python, tmp_path):
    copy = doors.alone(TRANSLATION, archive.as_uri())
    first = copy['cells'][1]['source']
    offline = dict(PATH='/usr/bin:/bin', PIP_NO_INDEX='1', PIP_NO_BUILD_ISOLATION='0',
                   HOME=str(tmp_path))
    def run(*cells):
        command = [python, '-c', RUN, json.dumps(cells)]
        done = subprocess.run(command, cwd=tmp_path, env=offline, capture_output=True,
                              text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip().splitlines()
    *_, said, versions = run(first, SAY)
    assert said == "['Zwei Hunde spielen.']"
    version, where = versions.split()
    assert version == torch.__version__ and where.startswith(str(python.parents[1]))
    installed = Path(where).stat().st_mtime_ns
    assert run(first, WHERE) == [where] # the second time it is all there
    assert Path(where).stat().st_mtime_ns == installed
    assert not list(python.parents[1].glob('lib/*/site-packages/torch*'))

# What the copies are made of

def test_what_a_chapter_reads_is_fetched():
    read = {path.stem: doors.files_read(json.loads(path.read_text('utf8')), path.parent)
            for path in chapters(ROOT)}
    assert read['06_optimizer'] == []
    assert read['05_model'] == ['models/multi30k-en-de', 'results/ladder.jsonl']
    assert read['21_families'] == ['models/families/decoder',
                                   'models/families/encoder-long',
                                   'results/families.jsonl',
                                   'results/families_test.jsonl']
    assert 'results/translations' in read['15_translation']

def test_results_that_nobody_has_yet_are_not_fetched(tmp_path):
    "Nor, in their place, the folder with all the others"
    (tmp_path/'results').mkdir()
    names = dict(cell_type='code', source=["f(['a'], 'results/gpu.jsonl')"])
    assert doors.files_read(dict(cells=[names]), tmp_path) == []
    (tmp_path/'results/gpu.jsonl').touch()
    assert doors.files_read(dict(cells=[names]), tmp_path) == ['results/gpu.jsonl']

def test_a_link_out_of_the_folder_of_chapters_leads_into_the_repository():
    cell = dict(cell_type='markdown', source='[a](../RELEASING.md) [b](models/x.md)')
    doors.bend_links(cell, HOME)
    blob = 'https://github.com/someone/book/blob/main'
    assert cell['source'] == f'[a]({blob}/RELEASING.md) [b]({blob}/nbs/models/x.md)'

def test_links_of_a_copy_lead_to_the_site_or_into_the_repository():
    copy = doors.alone(TRANSLATION, HOME.archive('1234567'), HOME)
    prose = '\n'.join(''.join(c['source']) for c in copy['cells']
                      if c['cell_type'] == 'markdown')
    assert '](https://someone.github.io/book/08_text.html)' in prose
    assert re.search(r'\]\(https://github.com/someone/book/blob/main/nbs/solutions', prose)
    assert not re.search(r'\]\((?!https?:|#)', prose)
    assert 'archive/1234567.zip' in copy['cells'][1]['source']

def test_a_copy_without_an_address_says_what_it_needs():
    cell = doors.alone(TRANSLATION)['cells'][1]
    assert cell['cell_type'] == 'markdown' and 'pip install .' in cell['source']

# One setting for all addresses

@pytest.fixture
def owned(tmp_path):
    "settings.ini of a book that somebody has published"
    text = (ROOT/'settings.ini').read_text(encoding='utf8')
    text = re.sub('^user =.*$', 'user = someone', text, flags=re.M)
    text = re.sub('^repo =.*$', 'repo = book', text, flags=re.M)
    (tmp_path/'settings.ini').write_text(text, encoding='utf8')
    return tmp_path

def test_pages_have_doors(owned):
    line = doors.door_line(owned, '01_attention')
    assert '"notebooks/01_attention.ipynb" download' in line
    assert 'github/someone/book/blob/notebooks/01_attention.ipynb"' in line
    assert 'Colab' not in doors.door_line(ROOT, '01_attention') or repository(ROOT)

def foot(**about):
    "What the layout of the pages writes below them"
    text = (ROOT/'docs/templates/layout.html').read_text(encoding='utf8')
    footer = Template(re.search('<footer>.*?</footer>', text, re.S)[0])
    return footer.render(pathto=lambda page: f'{page}.html', **about)

def test_the_foot_of_a_page_leads_to_the_source(owned):
    assert f'<a href="{HOME.url}">Source</a>' in foot(source=repository(owned).url)
    assert re.findall('<a href="(.*?)"', foot(source=None)) == ['about.html']

def test_readme_and_citation_of_the_book_have_the_address(owned):
    "The real ones, and the real first page of the site"
    plain = (ROOT/'README.md').read_text(encoding='utf8')
    if repository(ROOT) is None:
        assert plain.count('git clone URL') == 1
        assert 'colab' not in plain.lower() and 'github' not in plain.lower()
        text = with_addresses(plain, repository(owned))
        assert 'git clone https://github.com/someone/book transformer_nb\n' in text
        assert ' URL' not in text and text.count('](https://someone.github.io/book/)') == 1
        about = yaml.safe_load(citation(CITATION.read_text(encoding='utf8'), owned))
        assert about['url'] == 'https://someone.github.io/book/'
        assert about['repository-code'] == 'https://github.com/someone/book'
    assert ('url' in yaml.safe_load(CITATION.read_text('utf8'))) == bool(repository(ROOT))

def test_readme_and_citation_have_the_address(owned):
    page = '# T\n\n> P\n\ngit clone URL book    # URL: x\n'
    text = with_addresses(page, repository(owned))
    assert 'git clone https://github.com/someone/book book\n' in text
    assert '> P\n\n[Read it online](https://someone.github.io/book/)' in text
    cited = citation((ROOT/'CITATION.cff').read_text(encoding='utf8'), owned)
    assert 'repository-code: https://github.com/someone/book\n' in cited
    assert citation(cited, owned) == cited

def test_wheel_has_the_address(owned):
    for name in ('setup.py', 'README.md'): shutil.copy(ROOT/name, owned)
    command = [sys.executable, 'setup.py', '--quiet', 'egg_info']
    subprocess.run(command, cwd=owned, check=True, capture_output=True)
    metadata = next(owned.glob('*.egg-info/PKG-INFO')).read_text(encoding='utf8')
    assert 'Project-URL: Source, https://github.com/someone/book\n' in metadata

def test_without_a_user_nothing_has_an_address(owned):
    path = owned/'settings.ini'
    path.write_text(path.read_text('utf8').replace('user = someone', 'user ='), 'utf8')
    assert repository(owned) is None and doors.source_of(owned) is None
    assert with_addresses('git clone URL book', None) == 'git clone URL book'

def test_the_foot_of_a_page_says_what_ran_it():
    said = doors.last_run(ROOT)
    if not said: pytest.skip('not a checkout')
    assert re.fullmatch(r'Last run on \d{4}-\d\d-\d\d \(commit [0-9a-f]{7,}\) '
                        r'with torch [\d.]+\S*, Python [\d.]+', said)
