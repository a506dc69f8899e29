"What a day with a GPU has found, in the chapters that show it."
import json, os, sys, time
from contextlib import chdir
import pytest
from book import cells
from gpu import STAGES, Day, why_ended
from running import ROOT
from transformer_nb.support.notebook import show_gpu

def shows(name): # the cell of a chapter
    [cell] = [cell for cell in cells(ROOT/f'nbs/{name}.ipynb', 'code')
              if 'show_gpu(' in cell.text]
    return cell.text

CHAPTERS = '15_translation', '19_performance'
ABOUT = dict(seed=0, commit='1234567', hardware='NVIDIA H100', threads=4, torch='2.13.0',
             python='3.12.1')
FOUND = {
    'captions': dict(bleu=41.234567, speeds=[90_000, 91_000], weights='best', seconds=400.),
    'processes': dict(skipped='there is one GPU'),
    'base_throughput': dict(tokens_per_second=dict(ours=54_321, torch=40_000), mfu=0.412),
    'compiled': dict(failed='over 8.9 minutes')}

@pytest.mark.parametrize('name', CHAPTERS)
def test_a_chapter_shows_what_was_measured(name, tmp_path, capsys):
    folder = tmp_path/'results'
    folder.mkdir()
    with chdir(tmp_path): exec(shows(name), {})
    assert capsys.readouterr().out.count('\n') == 1
    lines = [json.dumps(dict(row=row) | ABOUT | found) for row, found in FOUND.items()]
    (folder/'gpu.jsonl').write_text('\n'.join(lines) + '\n', encoding='utf8')
    with chdir(tmp_path): exec(shows(name), {})
    printed = [' '.join(line.split()) for line in capsys.readouterr().out.splitlines()]
    wanted = {
        '15_translation': ['captions, NVIDIA H100, torch 2.13.0, commit 1234567',
                           'bleu 41.23', 'speeds 90,000 91,000', 'weights best',
                           'skipped there is one GPU', 'failed it was not run'],
        '19_performance': ['tokens_per_second, ours 54,321', 'mfu 0.412',
                           'failed over 8.9 minutes', 'failed it was not run']}
    for line in wanted[name]: assert line in printed, printed
    assert 'seed 0' not in printed and max(map(len, printed)) <= 92

def test_every_stage_is_shown_somewhere(capsys, tmp_path):
    "But for those that run whole chapters, which print for themselves"
    shown = ' '.join(map(shows, CHAPTERS))
    ladder = ROOT/'nbs/19_performance.ipynb' # its table has a cell of its own
    shown += ladder.read_text(encoding='utf8')
    for name in STAGES: assert f"'{name}'" in shown or name.startswith('smoke_'), name
    path = tmp_path/'gpu.jsonl'
    path.touch()
    show_gpu(path, ['decoding'])
    assert 'it was not run' in capsys.readouterr().out

LATE = """
import subprocess, sys, time
other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
open(sys.argv[1], 'w').write(str(other.pid))
time.sleep(600)
"""

def has_ended(pid): # gone, or waiting for nobody but its parent
    try: status = open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[0]
    except OSError: return True
    return status in 'ZX'

@pytest.mark.skipif(not os.path.exists('/proc'), reason='looks for processes there')
def test_a_stage_is_cut_off_with_all_that_it_has_started(tmp_path):
    ended = why_ended([sys.executable, '-c', LATE, tmp_path/'pid'], 0.05)
    assert ended == dict(failed='over 0.05 minutes')
    pid = int((tmp_path/'pid').read_text())
    for _ in range(100):
        if has_ended(pid): break
        time.sleep(0.1)
    assert has_ended(pid)

def test_why_a_stage_has_failed():
    assert why_ended([sys.executable, '-c', 'pass'], 1) == {}
    found = why_ended([sys.executable, '-c', 'raise ValueError("no room")'], 1)
    assert found == dict(failed='ValueError: no room')

def test_what_a_stage_notes_is_whole(tmp_path):
    "Cut off at any time, it leaves a line that can be read"
    day = Day(True, tmp_path, tmp_path/'result.json', tmp_path)
    before = (day.note(dict(a=1)), (tmp_path/'result.json').stat().st_ino)
    day.note(before[0] | dict(b=2))
    found = json.loads((tmp_path/'result.json').read_text())
    assert (found['a'], found['b']) == (1, 2) and 'commit' in found
    assert (tmp_path/'result.json').stat().st_ino != before[1] # replaced, not rewritten
