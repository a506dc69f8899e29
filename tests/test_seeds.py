"Nothing fails or passes by chance: what a test draws depends on its name alone."
import random
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32
import conftest, numpy, pytest, torch
from hypothesis import given, settings, strategies as st

ROOT = Path(__file__).parent.parent
AT_IMPORT = random.random(), numpy.random.rand(), torch.rand(1).item()

def drawn(): return random.random(), numpy.random.rand(), torch.rand(1).item()

def expected(name):
    seed = crc32(name.encode())
    numbers = random.Random(seed), numpy.random.RandomState(seed)
    generator = torch.Generator().manual_seed(seed)
    return numbers[0].random(), numbers[1].rand(), torch.rand(1, generator=generator).item()

@pytest.fixture(scope='module')
def shared(): return drawn()

@pytest.fixture
def own(): return drawn()

def test_a_test_draws_by_its_name(request): assert drawn() == expected(request.node.nodeid)

def test_a_fixture_of_its_own_draws_before_it(own, request):
    assert own == expected(request.node.nodeid) and drawn() != own

@pytest.mark.parametrize('time', [1, 2])
def test_whoever_asks_first_for_what_is_shared(shared, time, request):
    assert shared == expected(f'{Path(__file__).relative_to(ROOT)} shared')
    assert drawn() == expected(request.node.nodeid)

def test_asked_for_within_a_test(request):
    before = random.getstate()
    request.getfixturevalue('late')
    assert random.getstate() == before

@pytest.fixture(scope='module')
def late(): return drawn()

def test_a_file_is_read_from_a_seed():
    assert AT_IMPORT == expected(str(Path(__file__).relative_to(ROOT)))

DRAWN = []

@settings(max_examples=5)
@given(st.floats(0, 1))
def draw_some(x): DRAWN.append(x)

def test_hypothesis_draws_the_same():
    draw_some()
    first = DRAWN.copy()
    DRAWN.clear()
    draw_some()
    assert DRAWN == first

@pytest.mark.parametrize('order', '12345')
def test_any_order(order, monkeypatch):
    "Files stay together: what their tests share is made once"
    paths = [path for name in 'xyz' for path in [Path(f'tests/test_{name}.py')] * 3]
    there = [SimpleNamespace(path=path, nodeid=f'{path}::test_{i}')
             for i, path in enumerate(paths)]
    monkeypatch.setenv('TNB_ORDER', order)
    items, again = there.copy(), there[::-1]
    for several in (items, again): conftest.pytest_collection_modifyitems(several)
    assert items == again != there and {*map(id, items)} == {*map(id, there)}
    assert [len({*paths}) for paths in thirds([item.path for item in items])] == [1, 1, 1]

LONG = SimpleNamespace(option=SimpleNamespace(markexpr='long'))
NOT_LONG = SimpleNamespace(option=SimpleNamespace(markexpr='not slow'))

@pytest.mark.parametrize('mark, config, is_left_out', [
    (None, NOT_LONG, False), ('long', NOT_LONG, True), ('long', LONG, False)])
def test_long_tests_are_left_out_unless_asked_for(mark, config, is_left_out):
    item = SimpleNamespace(get_closest_marker=lambda name: mark, config=config)
    try: conftest.pytest_runtest_setup(item)
    except pytest.skip.Exception as said: assert is_left_out and 'make robust' in str(said)
    else: assert not is_left_out

def test_how_many_are_left_out_is_told():
    said, reasons = [], [conftest.LEFT_OUT, 'no browser here', conftest.LEFT_OUT]
    reports = [SimpleNamespace(longrepr=('file', 1, f'Skipped: {x}')) for x in reasons]
    reporter = SimpleNamespace(stats=dict(skipped=reports), write_line=said.append)
    conftest.pytest_terminal_summary(reporter)
    assert said == ['2 long tests are left out: make robustness']

def thirds(values): return values[:3], values[3:6], values[6:]

DRAW = """async () => {
    const answer = 'postMessage(Math.random())'
    const worker = new Worker(URL.createObjectURL(new Blob([answer])))
    const its = await new Promise(done => worker.onmessage = event => done(event.data))
    return [Math.random(), Math.random(), its]
}"""
PAGE = 'data:text/html,<title>empty</title>'

def test_pages_and_their_workers_draw_the_same(chromium):
    "Also those of another context"
    pages = chromium.new_page(), chromium.new_page()
    drawn = [page.evaluate(DRAW) for page in pages]
    for page in pages: page.close()
    assert drawn[0] == drawn[1] and drawn[0][0] != drawn[0][1]

@pytest.mark.parametrize('time', [1, 2])
def test_a_page_that_stays_open_starts_again(watched, kept, time):
    page = watched.keep(PAGE)
    numbers = page.evaluate(DRAW)[:2]
    assert kept.setdefault('numbers', numbers) == numbers and numbers[0] != numbers[1]
