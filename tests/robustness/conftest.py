import signal, sys
from pathlib import Path
from tempfile import TemporaryDirectory
import pytest

sys.path.insert(0, str(Path(__file__).parent))

@pytest.fixture(scope='session')
def stage(tmp_path_factory):
    "A folder that every scene is a copy of"
    from staged import make_stage
    signal.signal(signal.SIGINT, signal.default_int_handler) # a shell's & ignores it
    return make_stage(tmp_path_factory.mktemp('stage'))

@pytest.fixture
def scene(stage):
    "A fresh folder with a model, two trainings and a few sentences"
    from watched import Scene
    with TemporaryDirectory() as folder: # pytest would keep all of them
        scene = Scene(folder, stage)
        yield scene
        scene.close()

def pytest_generate_tests(metafunc):
    if 'case' not in metafunc.fixturenames: return
    named = [pytest.param(case, id=' '.join(name.split())[:80])
             for name, case in metafunc.function.cases()]
    metafunc.parametrize('case', named)
