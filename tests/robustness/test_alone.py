"""Chapters that are downloaded: the copies of docs/doors.py, in an empty folder of an
environment that lacks the package, with an archive of this checkout as their source."""
import json, subprocess, sys
from pathlib import Path
from zipfile import ZipFile
import pytest, torch
import doors

ROOT = Path(__file__).parents[2]

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
