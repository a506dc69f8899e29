"""JupyterLab in a real browser: open a chapter, run all cells by the menu's own command,
and read the notebook that it saves."""
import json, os, re, shutil, socket, subprocess, sys, time
from pathlib import Path
from urllib.request import urlopen
import pytest

ROOT = Path(__file__).parents[2]

def wait_for(condition, seconds=180):
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f'not within {seconds} s'
        time.sleep(2)
    return found

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]

def own_folders(home):
    "Settings of a user who has none yet"
    names = ('_CONFIG', '_DATA', '_RUNTIME', 'LAB_WORKSPACES', 'LAB_SETTINGS')
    env = {k: v for k, v in os.environ.items() if k not in ('IN_TEST', 'TNB_SLOW')}
    return env | {f'JUPYTER{name}_DIR': str(home/name) for name in names}

@pytest.fixture(scope='module')
def lab(tmp_path_factory):
    "Address of a server on a copy of the chapters, and the folder"
    home = tmp_path_factory.mktemp('lab')
    nbs = shutil.copytree(ROOT/'nbs', home/'nbs')
    port = free_port()
    url = f'http://127.0.0.1:{port}'
    options = ['--no-browser', '--allow-root', '--IdentityProvider.token=',
               '--ServerApp.ip=127.0.0.1', f'--ServerApp.port={port}',
               f'--ServerApp.root_dir={nbs}', '--LabApp.expose_app_in_browser=True']
    with open(home/'log', 'w') as log:
        server = subprocess.Popen([sys.executable, '-m', 'jupyterlab', *options],
                                  env=own_folders(home), stdout=log, stderr=log)
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

RUN_ALL = '''() => { window.outcome = null; (async () => {
    const panel = window.jupyterapp.shell.currentWidget;
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    await window.jupyterapp.commands.execute('notebook:run-all-cells');
    await panel.context.save();
    return 'done'; })().then(String, String).then(outcome => window.outcome = outcome) }'''

def code_cells(file):
    cells = json.loads(file.read_text(encoding='utf8'))['cells']
    return [c for c in cells if c['cell_type'] == 'code' and ''.join(c['source']).strip()]

def run_all(page, picture):
    "Run the chapter that is open; how that ended"
    page.evaluate(RUN_ALL)
    try: page.wait_for_function('window.outcome', timeout=240_000, polling=200)
    except Exception:
        page.screenshot(path=picture)
        raise
    return page.evaluate('window.outcome')

OPEN = '''async path => { // as a double click does, without what was open before
    const {shell, commands} = window.jupyterapp
    for (const widget of [...shell.widgets('main')]) widget.dispose()
    await commands.execute('docmanager:open', {path})
}'''

def open_chapter(page, url, name):
    "By its address, or in the JupyterLab that an earlier test has loaded"
    if page.url.startswith(url): page.evaluate(OPEN, f'{name}.ipynb')
    else: page.goto(f'{url}/lab/tree/{name}.ipynb')
    page.wait_for_selector('.jp-Notebook .jp-Cell', timeout=120_000)

STORED = [dict(output_type='stream', name='stdout', text=['loss 4.2\n', 'loss 3.1\n']),
          dict(output_type='display_data', metadata={},
               data={'image/svg+xml': '<svg/>', 'text/plain': 'a figure'}),
          dict(output_type='execute_result', metadata={}, execution_count=None,
               data={'text/plain': '42'})]

TRAINS = '''from transformer_nb.copy_task import copy_model, train_copy
losses = train_copy(copy_model(), 3)'''

def write_notebook(path):
    "A chapter whose second cell is slow, and raises an error when it runs; the last trains"
    first = 'from transformer_nb.support.notebook import begin_chapter\nbegin_chapter()'
    new = [(first, []), ('#| slow\n#| commit 1234567\n1/0', STORED), ('1 + 1', []),
           (TRAINS, [])]
    cells = [dict(cell_type='code', id=f'cell-{i}', metadata={}, execution_count=None,
                  source=source, outputs=outputs)
             for i, (source, outputs) in enumerate(new)]
    kernel = dict(name='python3', display_name='Python 3', language='python')
    path.write_text(json.dumps(dict(cells=cells, metadata=dict(kernelspec=kernel),
                                    nbformat=4, nbformat_minor=5)))

def shown(outputs): # what a reader sees, whatever the kind of message
    found = []
    for output in outputs:
        parts = output.get('data') or dict(text=output['text'])
        found.append({kind: ''.join(part) for kind, part in parts.items()})
    return found

def test_a_skipped_cell_shows_its_stored_output_however_often_it_runs(lab, window):
    url, nbs = lab
    file = nbs/'long.ipynb'
    write_notebook(file)
    open_chapter(window, url, 'long')
    for _ in range(2):
        assert run_all(window, nbs.parent/'long.png') == 'done'
        _, slow, plain, trains = [shown(cell['outputs']) for cell in code_cells(file)]
        assert 'skipped: a slow cell' in slow[0]['text/plain']
        assert slow[1:] == shown(STORED)
        assert plain == [{'text/plain': '2'}]
        assert re.search('step/s|s/step', trains[0]['text']), 'no progress bar'
