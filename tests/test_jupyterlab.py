"""JupyterLab in a real browser: open a chapter, run all cells by the menu's own command, and read the notebook that it saves."""
import json, os, shutil, socket, subprocess, sys, time
from pathlib import Path
from urllib.request import urlopen
import pytest

ROOT = Path(__file__).parent.parent
CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')
pytestmark = pytest.mark.skipif(not CHROMIUM, reason='no chromium is installed')

def wait_for(condition, seconds=180):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f'not within {seconds} s'
        time.sleep(2)
    return found

@pytest.fixture(scope='module')
def lab(tmp_path_factory):
    "Address of a server on a copy of the chapters, and the folder"
    home = tmp_path_factory.mktemp('lab')
    nbs = shutil.copytree(ROOT/'nbs', home/'nbs')
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        url = f'http://127.0.0.1:{s.getsockname()[1]}'
    env = {k: v for k, v in os.environ.items() if k not in ('IN_TEST', 'TNB_SLOW')} | {
        f'JUPYTER{name}_DIR': str(home/name) for name in ('_CONFIG', '_DATA', '_RUNTIME', 'LAB_WORKSPACES', 'LAB_SETTINGS')}
    with open(home/'log', 'w') as log:
        server = subprocess.Popen([sys.executable, '-m', 'jupyterlab', '--no-browser', '--allow-root', '--IdentityProvider.token=', '--ServerApp.ip=127.0.0.1',
            f'--ServerApp.port={url.rsplit(":")[-1]}', f'--ServerApp.root_dir={nbs}', '--LabApp.expose_app_in_browser=True'], env=env, stdout=log, stderr=log)
    def answers():
        assert server.poll() is None, (home/'log').read_text()
        try: return urlopen(f'{url}/api').status == 200
        except OSError: return False
    try:
        wait_for(answers)
        yield url, nbs
    finally:
        server.terminate()
        server.wait(30)

RUN_ALL = '''() => { (async () => {
    const panel = window.jupyterapp.shell.currentWidget;
    await panel.context.ready; await panel.sessionContext.ready; await panel.sessionContext.session.kernel.info;
    await window.jupyterapp.commands.execute('notebook:run-all-cells');
    await panel.context.save();
    return 'done'; })().then(String, String).then(outcome => window.outcome = outcome) }'''

@pytest.mark.parametrize('chapter', ['02_multihead', '12_training'])
def test_run_all(lab, chapter):
    from playwright.sync_api import sync_playwright
    url, nbs = lab
    file = nbs/f'{chapter}.ipynb'
    def code(): return [c for c in json.loads(file.read_text(encoding='utf8'))['cells'] if c['cell_type'] == 'code' and ''.join(c['source']).strip()]
    assert not any(c['execution_count'] for c in code())
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=['--no-sandbox', '--disable-gpu'])
        page = browser.new_page()
        page.goto(f'{url}/lab/workspaces/{chapter}/tree/{chapter}.ipynb')
        page.wait_for_selector('.jp-Notebook .jp-Cell', timeout=120_000)
        page.evaluate(RUN_ALL)
        page.wait_for_function('window.outcome', timeout=240_000)
        page.screenshot(path=nbs.parent/f'{chapter}.png')
        assert page.evaluate('window.outcome') == 'done'
        browser.close()
    cells = code()
    assert all(c['execution_count'] for c in cells)
    assert not [o for c in cells for o in c['outputs'] if o['output_type'] == 'error']
    if chapter == '12_training': assert any('update/s' in ''.join(o.get('text', '')) or 's/update' in ''.join(o.get('text', '')) for c in cells for o in c['outputs']), 'no progress bar'
