"What every test begins with."
import gc, os, random, sys
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from zlib import crc32
import pytest

ROOT, CHROMIUM = Path(__file__).parent, Path('/usr/bin/chromium')
# For its address bar Chromium keeps two pages ready in every new context, which takes more
# than a second. Playwright's own list comes first: a second one would replace it.
OFF = ['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose',
       'HttpsUpgrades', 'HttpsFirstBalancedModeAutoEnable', 'LensOverlay', 'MediaRouter',
       'PaintHolding', 'ThirdPartyStoragePartitioning', 'OptimizationHints',
       'AvoidCorsURLLoaderRestartOnRedirect', 'NetworkTimeServiceQuerying', 'AimEnabled',
       'PreconnectToSearch', 'WebUIOmniboxPopup', 'WebUIOmniboxAimPopup']
FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-sync',
         '--disable-background-networking', '--disable-component-update',
         f'--disable-features={",".join(OFF)}',
         '--js-flags=--random-seed=1'] # Math.random, of every page, frame and worker
for folder in ('tests', 'tools', 'docs', 'benchmarks'): sys.path.insert(0, str(ROOT/folder))
os.environ['IN_TEST'] = '1' # no progress bars
sys.modules['rfc3987_syntax'] = None # what jsonschema loads to check addresses: 1.4 s
for name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'): # the tests' models are small
    os.environ.setdefault(name, '1')

def pytest_configure(config):
    gc.disable() # what is imported leaves no garbage, and is too much to look through often
    import once
    from hypothesis import HealthCheck, settings
    once.keep_mini_corpus()
    by_the_clock = [HealthCheck.too_slow] # the machine may be busy
    settings.register_profile('book', derandomize=True, deadline=None,
                              suppress_health_check=by_the_clock)
    settings.load_profile('book')
    slow = 'slow: takes more than ten seconds; `make check` leaves it to `make test`'
    smoke = 'smoke: a few of each room; `make check` runs them for any change of code'
    for line in (slow, smoke): config.addinivalue_line('markers', line)

def pytest_collection_modifyitems(items):
    "`TNB_ORDER=7`: the files, and the tests of each, in the order of this draw"
    order = os.environ.get('TNB_ORDER')
    if order is None: return
    def draw(name): return random.Random(f'{order} {name}').random()
    items.sort(key=lambda item: (draw(item.path.name), draw(item.nodeid)))

def pytest_collection_finish():
    gc.freeze()
    gc.enable()

# Chance: what a test draws depends on its name, and not on what ran before it

def seed_by_name(name):
    import numpy, torch
    seed = crc32(name.encode())
    for library in (random.seed, numpy.random.seed, torch.manual_seed): library(seed)

def pytest_collectstart(collector): seed_by_name(collector.nodeid) # a file may draw, too

@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    "What several tests share is made by whichever comes first, and stays the same"
    if fixturedef.scope == 'function': return (yield)
    with as_before():
        seed_by_name(f'{request.node.nodeid} {request.fixturename}')
        return (yield)

@contextmanager
def as_before():
    "Afterwards the generators go on where they were"
    import numpy, torch
    states = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(states[0])
    numpy.random.set_state(states[1])
    torch.set_rng_state(states[2])

@pytest.fixture(autouse=True)
def seeded(request): seed_by_name(request.node.nodeid)

@pytest.fixture
def copies(monkeypatch):
    """New processes as copies of one that has imported PyTorch, which takes seconds, and
    nothing else; chapter 11a and test_checkpoint.py start them as users do"""
    import runs
    context = get_context('forkserver')
    context.set_forkserver_preload(['torch._dynamo', 'transformer_nb.translation'])
    contexts = dict(spawn=context).__getitem__
    monkeypatch.setattr(runs, 'get_context', contexts)
    return contexts

@pytest.fixture(scope='session')
def multi30k_dir():
    "The folder of the real corpora; tests that need it skip where there is none"
    folder = os.environ.get('TRANSFORMER_NB_DATA')
    if not folder: pytest.skip('TRANSFORMER_NB_DATA is unset: Multi30k is not here')
    return Path(folder)

@pytest.fixture(scope='module')
def chromium():
    "A browser; tests that need it skip where there is none"
    if not CHROMIUM.exists(): pytest.skip(f'no {CHROMIUM} here')
    from browser import patient
    from playwright.sync_api import sync_playwright
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        browser.new_context = patient(browser.new_context)
        browser.new_page = patient(browser.new_page)
        yield browser
        browser.close()

@pytest.fixture(scope='module')
def window(chromium): return chromium.new_page()

@pytest.fixture(scope='module')
def kept():
    "Pages that stay open for all tests of a file, by address"
    return {}

@pytest.fixture
def watched(chromium, window, kept):
    "Opens pages; afterwards: did one complain, or ask anyone?"
    from browser import Pages
    pages = Pages(chromium, window, kept)
    yield pages
    pages.close()
    assert pages.complaints == []

@pytest.fixture(scope='session')
def texts(tmp_path_factory):
    "Four small files, and one that is not UTF-8"
    folder = tmp_path_factory.mktemp('texts')
    from transformer_nb.lessons.grammar import mini_corpus
    from running import write
    pairs = mini_corpus(0, 400, 0, 0)['train']
    for name, part in dict(train=pairs[:300], valid=pairs[300:]).items():
        for i, lang in enumerate(('de', 'en')):
            write(folder/f'{name}.{lang}', [pair[i] for pair in part])
    write(folder/'short.en', ['one line'])
    (folder/'empty').write_bytes(b'')
    (folder/'latin1').write_bytes('gut\nnicht gut: ü\n'.encode('latin1'))
    return folder
