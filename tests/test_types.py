"Editors and type checkers see what users call: `Typing :: Typed` is kept."
import re
from pathlib import Path
import pytest
from mypy import api

pytestmark = pytest.mark.smoke
ROOT = Path(__file__).parent.parent
TYPED = ROOT/'tests/typed'

@pytest.fixture(scope='module')
def complaints():
    "What mypy says of the scripts in `typed`: file, line"
    config = ['--config-file', ROOT/'mypy.ini', '--cache-dir', ROOT/'.mypy_cache']
    printed, error, _ = api.run([*map(str, config), str(TYPED)])
    assert not error, error
    return [(Path(file).name, int(line)) for file, line in
            re.findall(r'^(.+\.py):(\d+): error', printed, re.M)], printed

def test_a_user_s_script(complaints):
    found, printed = complaints
    assert not [line for name, line in found if name == 'user.py'], printed

def test_every_wrong_line_is_seen(complaints):
    found, printed = complaints
    text = (TYPED/'wrong.py').read_text(encoding='utf8')
    calls = [i for i, line in enumerate(text.splitlines(), 1) if re.match(r'\w+[.(]', line)]
    assert len(calls) == 5 and [line for name, line in found if name == 'wrong.py'] == calls
