"What a release consists of, and what an owner is told about it."
import hashlib, json, re, subprocess
from pathlib import Path
from zipfile import ZipFile
import pytest, yaml
import release
from repository import settings

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT/'.github/workflows').glob('*.yml'))

@pytest.fixture(scope='module')
def dist(tmp_path_factory):
    "A release of a copy of the checkout whose site is a page"
    copy = tmp_path_factory.mktemp('release')
    command = ['git', 'ls-files', '-co', '--exclude-standard', '-z', '--', ':!tests',
               ':!*.ipynb']
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode: pytest.skip('not a checkout')
    for name in listed.stdout.strip('\0').split('\0'):
        (copy/name).parent.mkdir(parents=True, exist_ok=True)
        (copy/name).write_bytes((ROOT/name).read_bytes())
    (copy/'docs/_build/html').mkdir(parents=True)
    (copy/'docs/_build/html/index.html').write_text('<p>the site', encoding='utf8')
    (copy/'docs/_build/transformer_nb.pdf').write_bytes(b'%PDF')
    release.make(copy, copy/'dist')
    return copy/'dist'

def test_a_release_has_every_file_and_its_checksum(dist):
    version = settings(ROOT)['version']
    name = f'transformer_nb-{version}'
    lines = (dist/'SHA256SUMS').read_text(encoding='utf8').splitlines()
    sums = dict(reversed(line.split('  ')) for line in lines)
    assert set(sums) == {f'{name}-py3-none-any.whl', f'{name}.tar.gz', f'{name}-site.zip',
                         f'{name}-models.zip', f'{name}.pdf', 'NOTES.md'}
    for file, expected in sums.items():
        assert hashlib.sha256((dist/file).read_bytes()).hexdigest() == expected
    with ZipFile(next(dist.glob('*-models.zip'))) as models: names = models.namelist()
    assert 'transformer_nb-models/multi30k-en-de/model.safetensors' in names
    assert 'transformer_nb-models/multi30k-en-de/README.md' in names

def test_the_notes_are_the_section_of_the_version():
    text = '# C\n\n## 1.0.0 (in preparation)\n\nnew\n\n### a\n\nb\n\n## 0.2.0\n\nold\n'
    assert release.notes(text, '1.0.0') == '# 1.0.0\n\nnew\n\n### a\n\nb\n'
    assert release.notes(text, '0.2.0') == '# 0.2.0\n\nold\n'
    with pytest.raises(SystemExit, match='no section for 0.3.0'):
        release.notes(text, '0.3.0')
    for version in ('1.0.0.dev0', '1.0.0rc1', '1.0.0'):
        assert release.release_of(version) == '1.0.0'

def test_the_changelog_has_the_version_of_settings():
    text = (ROOT/'CHANGELOG.md').read_text(encoding='utf8')
    assert release.notes(text, release.release_of(settings(ROOT)['version']))

# No upper limits, and what the pinned nbdev is for

def test_nothing_is_capped():
    "A limit makes pip replace a newer PyTorch by an older one, some day"
    found = settings(ROOT)
    for extra in ('requirements', 'studies_requirements', 'bench_requirements'):
        assert not re.findall(r'\S*(?:<|==|~=|!=)\S*', found[extra]), extra

NBDEV = {'Makefile', 'tools/house.py', 'tests/test_package.py'}

def test_what_depends_on_nbdev_2():
    """nbdev 3 refuses a repository with a settings.ini and wants pyproject.toml. Whoever
    moves to it has these files to change: what runs nbdev, and what reads settings.ini."""
    running, reading = set(), set()
    for path in [ROOT/'Makefile', *ROOT.glob('*.py'), *ROOT.glob('[dt]*/*.py')]:
        text, name = path.read_text(encoding='utf8'), path.relative_to(ROOT).as_posix()
        if path.name == Path(__file__).name: continue
        if re.search(r"from nbdev|import nbdev|/nbdev_|'nbdev_\w+'\)", text):
            running.add(name)
        if re.search(r'\.read\([^)]*settings\.ini', text): reading.add(name)
    assert running == NBDEV
    assert reading == {'setup.py', 'tools/repository.py'}
    pinned = re.findall(r'nbdev==\S+', settings(ROOT)['dev_requirements'])
    assert pinned == ['nbdev==2.4.14']

# Workflows, which only an owner can run

@pytest.mark.parametrize('path', WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_sound_as_far_as_one_can_see(path):
    text = path.read_text(encoding='utf8')
    steps = [step for job in yaml.safe_load(text)['jobs'].values() for step in job['steps']]
    for step in steps:
        if 'uses' not in step: continue
        assert re.fullmatch(r'[\w.-]+/[\w.-]+@[0-9a-f]{40}', step['uses']), step['uses']
    makefile = (ROOT/'Makefile').read_text(encoding='utf8')
    for target in re.findall(r'\bmake ([a-z]+)', re.sub('#.*', '', text)):
        assert re.search(rf'^{target}:', makefile, re.M), target
    for name in re.findall(r'\b(?:tools|docs)/\w+\.py', text): assert (ROOT/name).exists()

def test_every_workflow_is_in_the_guide():
    guide = (ROOT/'RELEASING.md').read_text(encoding='utf8')
    for path in WORKFLOWS: assert f'`{path.name}`' in guide
    assert '## Not tried' in guide

def test_the_container_is_made_of_what_is_there():
    "As far as one can see without Docker"
    lines = (ROOT/'Dockerfile').read_text(encoding='utf8').splitlines()
    copied = [name for line in lines if line.startswith('COPY')
              for name in line.split()[2:-1]]
    assert copied and all((ROOT/name).exists() for name in copied)
    container = json.loads((ROOT/'.devcontainer/devcontainer.json').read_text('utf8'))
    assert (ROOT/'.devcontainer'/container['build']['dockerfile']).exists()
    started = json.loads(lines[-1].removeprefix('CMD '))
    assert (ROOT/started[-1]).exists()
    makefile = (ROOT/'Makefile').read_text(encoding='utf8')
    for target in re.findall(r'make ([\w./]+)', '\n'.join([*lines, str(container)])):
        assert re.search(rf'^{re.escape(target)}:', makefile, re.M), target
