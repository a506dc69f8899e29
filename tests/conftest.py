import os, sys
from pathlib import Path
import pytest

ROOT = Path(__file__).parent.parent
for folder in ('tests', 'tools', 'benchmarks'): sys.path.insert(0, str(ROOT/folder))
os.environ['IN_TEST'] = '1' # no progress bars
os.environ.setdefault('OMP_NUM_THREADS', '1') # the models of the tests are small

def pytest_configure(config):
    line = 'slow: takes more than ten seconds; `make check` leaves it to `make test`'
    config.addinivalue_line('markers', line)

@pytest.fixture(scope='session')
def multi30k_dir():
    "The folder of the real corpora; tests that need it skip where there is none"
    folder = os.environ.get('TRANSFORMER_NB_DATA')
    if not folder: pytest.skip('TRANSFORMER_NB_DATA is unset: Multi30k is not here')
    return Path(folder)
