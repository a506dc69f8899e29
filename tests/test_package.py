"What is installed is the package and nothing else; importing it needs no notebook or development tool, nor spaCy, which loads slowly."
import os, platform, shutil, subprocess, sys, zipfile
from pathlib import Path
import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted(p.stem for p in (ROOT/'transformer_nb').glob('[a-z]*.py'))

def test_wheel_has_what_belongs(tmp_path):
    source = tmp_path/'source'
    source.mkdir()
    for name in ('setup.py', 'settings.ini', 'README.md', 'LICENSE'): shutil.copy(ROOT/name, source)
    for name in ('transformer_nb', 'tests', 'nbs'): shutil.copytree(ROOT/name, source/name, ignore=shutil.ignore_patterns('__pycache__', '.*'))
    subprocess.run([sys.executable, '-m', 'pip', 'wheel', '-qq', '--no-deps', '--no-build-isolation', '-w', tmp_path, '.'], cwd=source, check=True)
    [wheel] = tmp_path.glob('*.whl')
    names = zipfile.ZipFile(wheel).namelist()
    assert {f'transformer_nb/{m}.py' for m in MODULES} <= set(names)
    assert all(n.startswith('transformer_nb/') and n.endswith('.py') or '.dist-info/' in n for n in names), names

def test_no_development_tool_is_imported():
    tools = ['IPython', 'nbdev', 'jupyterlab', 'nbclient', 'pytest', 'hypothesis', 'spacy', 'transformers', 'matplotlib_inline']
    code = f'import sys\nfor m in {tools}: sys.modules[m] = None\n' + '\n'.join(f'import transformer_nb.{m}' for m in MODULES)
    subprocess.run([sys.executable, '-W', 'error', '-c', code], check=True, cwd='/', env={**os.environ})

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
    run = subprocess.run([sys.executable, '-c', ASK_AGAIN], capture_output=True, text=True, check=True)
    handed_back, kept = map(int, run.stdout.split())
    assert kept < handed_back / 5
