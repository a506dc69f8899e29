"""What is installed is the package and nothing else; importing it needs no notebook or
development tool, nor what loads slowly."""
import platform, shutil, subprocess, sys, zipfile
from pathlib import Path
import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(p.stem for p in (ROOT/'transformer_nb').glob('[a-z]*.py'))

def python(code, **options):
    "What a Python of its own prints"
    run = subprocess.run([sys.executable, '-W', 'error', '-c', code], check=True,
                         capture_output=True, text=True, **options)
    return run.stdout

def test_wheel_has_what_belongs(tmp_path):
    source = tmp_path/'source'
    source.mkdir()
    left_out = shutil.ignore_patterns('__pycache__', '.*')
    for name in ('setup.py', 'settings.ini', 'README.md', 'LICENSE'):
        shutil.copy(ROOT/name, source)
    for name in ('transformer_nb', 'tests', 'nbs'):
        shutil.copytree(ROOT/name, source/name, ignore=left_out)
    options = ['-qq', '--no-deps', '--no-build-isolation', '-w', tmp_path]
    build = [sys.executable, '-m', 'pip', 'wheel', *options, '.']
    subprocess.run(build, cwd=source, check=True)
    [wheel] = tmp_path.glob('*.whl')
    names = zipfile.ZipFile(wheel).namelist()
    assert {f'transformer_nb/{m}.py' for m in MODULES} <= set(names)
    for name in names:
        is_module = name.startswith('transformer_nb/') and name.endswith('.py')
        assert is_module or '.dist-info/' in name, name

def imports(modules): return '\n'.join(f'import transformer_nb.{m}' for m in modules)

def test_no_development_tool_is_imported():
    tools = ['IPython', 'nbdev', 'jupyterlab', 'nbclient', 'pytest', 'hypothesis', 'spacy',
             'transformers', 'matplotlib_inline']
    hide = f'import sys\nfor m in {tools}: sys.modules[m] = None\n'
    python(hide + imports(MODULES), cwd='/')

def test_nothing_is_drawn_before_it_is_drawn():
    "pyplot is slow to import"
    loaded = python(f'{imports(MODULES)}\nimport sys\nprint("matplotlib" in sys.modules)')
    assert loaded.strip() == 'False'

ASK_AGAIN = '''
import resource, torch
from transformer_nb.fast import keep_freed_memory
def faults(): # of a tensor of 64 MiB that is made ten times
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10): torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
handed_back = faults()
keep_freed_memory()
for _ in range(3): faults() # until the heap has found its size
print(handed_back, faults())
'''

@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='another C library')
def test_freed_memory_is_kept():
    handed_back, kept = map(int, python(ASK_AGAIN).split())
    assert kept < handed_back / 5
