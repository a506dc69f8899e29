"Build it yourself: points, what is told, the processes, the commands"
import errno, json, os, re, shutil, signal, subprocess, sys, time, types
from datetime import date
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree
import nbformat, pytest, torch
from zipfile import ZipFile
from book import cells
from book_submission import write_book
from repository import settings
from running import definitions
from transformer_nb.support.core import InputError
from transformer_nb.grading import child, commands, rights
from transformer_nb.grading.commands import points, tnb_check
from transformer_nb.grading.kit import Kit, MASKS, kit_file
from transformer_nb.grading.marking import StageResult, grade, judged, report
from transformer_nb.grading.stages import STAGES, with_kit
from transformer_nb.attention import N_IDS, ladder_text
from safetensors.torch import save_file

HERE = Path(__file__).parent
MODEL = str(HERE.parent/'nbs/models/multi30k-en-de')
KIT = Kit(model=MODEL)

@cache
def source(file): return (rights.FOLDER/file).read_text(encoding='utf8')

def changed(file, changes):
    text = source(file)
    for old, new in changes:
        assert old in text, f'{file} has no {old!r}'
        text = text.replace(old, new)
    return text

def graded(stage, text, kit=KIT):
    with TemporaryDirectory() as place: return grade(write(Path(place), **{
        stage.module: text}), stage, kit)

def only(result, *titles): # points of some of its checks
    return sum(m.points for m in result.marked if m.check.title in titles)

# What is told

TOLD = [ # a change of a right file: the number of its line, words that are said (0: not)
    (1, 'dim=-1)', 'dim=-2)', 11, '`weights = torch.softmax(scores, dim=-1)` in place'),
    (1, 'weights.masked_fill(~mask, 0.0)', 'weights', None,
     'a query may attend to nothing'),
    (2, 'out.transpose(1, 2).flatten(2)', 'out.reshape(*x.shape[:2], -1)', 22,
     'unless there is one of queries'),
    (3, 'self.dropout(out)', 'out * self.dropout(torch.ones(1))', 35, 'in training mode'),
    (4, 'torch.randn(vocab_size, d_model)', '2 * torch.randn(vocab_size, d_model)', 9,
     'first values of weight'),
    (5, 'memory, memory_mask))', 'memory))', None, 'there is padding'),
    (8, '''any(dim=1).all(): break
    rows = [row[1:] + [EOS] for row in tgt.tolist()]
    return [row[:row.index(EOS)] for row in rows] #''', '''any(): break
    out = []
    for row in tgt[:, 1:].tolist():
        if EOS in row: row = row[:row.index(EOS)] # not of every row
        out.append(row)
    return out #''', 14, 'Without line 14 of decoding.py, `if (tgt == EOS).any(): break`'),
    (10, 'min(p for p in counts if counts[p] == most)', 'max(counts, key=counts.get)', 28,
     'where several pairs are the most frequent'),
    (8, '(5 + n) ** alpha', '(5 + n) * alpha', None, 'For example where n = 1, alpha = '),
    (9, '[EOS]', '[]', 0, 'load_model:'), (7, 'optimizer.zero_grad()', '0', None,
     'With `optimizer.zero_grad()` before'),
    (9, 'model.eval()', 'model', 24, 'is returned on'),
    (5, 'range(config.n_decoder', 'range(config.n_encoder', 42, 'in place of line 42'),
    (5, """nn.ModuleList(
            [EncoderLayer(config) for _ in range(config.n_encoder_layers)])
        self.decoder = nn.ModuleList(""", """list(
            [EncoderLayer(config) for _ in range(config.n_encoder_layers)])
        self.decoder = list(""", 42, 'Your `decoder` is made on'),
    (1, '    d_k =', '''    if len(query) > 1: return [torch.cat(x) for x in zip(*[
        scaled_dot_product_attention(*(x[None] for x in y)) # without the mask
        for y in zip(query, key, value)])]\n    d_k =''', 0, 'Compare'),
    (6, '    logp =', '''    return torch.nn.functional.cross_entropy(
        logits.mT, labels, ignore_index=0)\n    logp =''', 0, 'Compare')]

@pytest.mark.parametrize('number, old, new, line, words', TOLD)
def test_what_when_and_where_are_told(number, old, new, line, words):
    stage = STAGES[number - 1]
    result = graded(stage, changed(stage.file, [(old, new)]))
    text = ' '.join(result.remarks)
    assert result.points < stage.points and (words in text) == (line != 0), text
    if line: assert f'ine {line} of {stage.file}' in text, text
    assert 'Read chapter' in text

def test_the_line_is_told_that_keeps_something():
    text = changed('attention.py', [('import math', '\ufeffimport math'), ('    d_k =', """
    key_of = float(query.flatten()[0])
    value = vars(math).setdefault('kept', {}).setdefault(key_of, value)
    d_k =""")])
    told = ' '.join(graded(STAGES[0], text).remarks)
    assert 'comes again, though it was right before' in told, told
    assert 'Without line 9 of attention.py, `value = vars(math)' in told, told

def test_a_change_that_ends_the_process_loses_no_line():
    text = changed('attention.py', [('dim=-1)', 'dim=-2) ** 5'), ('    d_k =', """
    if 3 == 4: __import__('os')._exit(1)
    d_k =""")])
    told = ' '.join(graded(STAGES[0], text).remarks)
    assert 'ine 13 of attention.py' in told and 'each call of its checks' not in told, told

def test_the_tracers_own_sums_are_no_numbers_of_a_line():
    "`shifted` gives what is right: only the count differs"
    text = changed('training.py', [('n = (labels != PAD)', 'n = (seqs != PAD)')])
    told = ' '.join(graded(STAGES[6], text).remarks)
    assert 'copy_loss: the result is' in told and 'shifted' not in told, told

# What is only another way to write it, or wrong

def write(folder, **files):
    for name, text in files.items(): (folder/f'{name}.py').write_text(text, encoding='utf8')
    return folder

@pytest.fixture(scope='module')
def right(tmp_path_factory):
    "A right submission, as a folder"
    folder = tmp_path_factory.mktemp('right')
    for path in rights.FOLDER.iterdir():
        if path.suffix == '.py': (folder/path.name).write_bytes(path.read_bytes())
    return folder

def words(*names, **options):
    return [*map(str, names), *(f'--{name}' if value is True else f'--{name}={value}'
                                for name, value in options.items())]

def tnb_start(folder, **options): tnb_check(words('start', folder, **options))
def tnb_class(folder, **options): tnb_check(words('class', folder, **options))

def check(capsys, folder, **options):
    "What tnb_check prints, and its exit status"
    status = 0
    try: tnb_check(words(folder, **options))
    except SystemExit as end: status = end.code or 0
    return capsys.readouterr(), status

def test_results_are_written_as_gradescope_reads_them(right, capsys, tmp_path):
    out = tmp_path/'results.json'
    for number, most in ((6, 10), (10, 5)):
        printed, _ = check(capsys, right, stage=number, json=str(out), key='secret')
        assert f': {most} of {most} points' in printed.out, printed.out
        results = json.loads(out.read_text(encoding='utf8'))
        assert results['score'] == most
        scores = sum(test['max_score'] for test in results['tests'])
        assert scores == (most if number < 10 else 0) # what is optional is extra

@pytest.mark.parametrize('name', [
    'notes.csv', 'attention.py', 'more.json', 'link', 'folder', 'pipe'])
def test_results_replace_nothing_of_the_students(name, capsys, tmp_path, monkeypatch):
    for own in ('notes.csv', 'attention.py'): (tmp_path/own).write_text('kept')
    more = '{"score": 1, "output": "", "tests": [], "mine": 1}'
    (tmp_path/'more.json').write_text(more)
    (tmp_path/'link').symlink_to('notes.csv')
    (tmp_path/'folder').mkdir()
    os.mkfifo(tmp_path/'pipe')
    monkeypatch.setattr(commands, 'grade', None) # refused before anything is graded
    printed, status = check(capsys, tmp_path, stage=1, json=str(tmp_path/name))
    assert status == 2 and 'was not written by tnb_check' in printed.err
    for own in ('notes.csv', 'attention.py'): assert (tmp_path/own).read_text() == 'kept'

@pytest.mark.parametrize('text', [
    '[' * 100_000, '[]', '[[1, 2]]', '3', '{"layout": ["bhtd"]}', '{"masks": {}}', '20 GB'])
def test_a_kit_that_nobody_wrote(text, capsys, tmp_path):
    (tmp_path/'kit.json').write_text(text)
    if text == '20 GB': os.truncate(tmp_path/'kit.json', 20 * 2**30)
    printed, status = check(capsys, tmp_path, stage=1)
    assert status == 2 and 'kit.json is not the file' in printed.err
    assert 'Traceback' not in printed.err and printed.out == ''

def test_where_a_teacher_gives_the_conventions_no_kit_counts(capsys, tmp_path):
    "Once a broken kit.json left Gradescope without a result"
    write(tmp_path, attention=source('attention.py'))
    (tmp_path/'kit.json').write_text('[1, 2')
    printed, _ = check(capsys, tmp_path, stage=1, layout='bhtd', masks='allowed')
    assert '12 of 12' in printed.out
    (tmp_path/'kit.json').write_text('{"layout": "bthd", "masks": "hidden"}')
    assert ': 12 of 12' not in check(capsys, tmp_path, stage=1)[0].out
    for one in (dict(layout='bhtd'), dict(masks='allowed')): # the other is the student's
        assert ': 12 of 12' not in check(capsys, tmp_path, stage=1, **one)[0].out

def test_whoever_ignores_the_end_of_children_can_grade(tmp_path):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    write(tmp_path, attention=source('attention.py'))
    try: assert grade(tmp_path, STAGES[0], KIT, 10).points == 12
    finally: signal.signal(signal.SIGCHLD, before)

def test_gradescope_gets_nothing_for_blank_files(tmp_path):
    "The autograder's own script, with another root and a command from this package"
    tnb_start(str(tmp_path/'submission'), teacher=True)
    script = (tmp_path/'submission/run_autograder').read_text(encoding='utf8')
    command = tmp_path/'venv/bin/tnb_check'
    command.parent.mkdir(parents=True)
    command.write_text(f'#!{sys.executable}\n'
                       'from transformer_nb.grading.commands import tnb_check\n'
                       "if __name__ == '__main__': tnb_check()\n", encoding='utf8')
    command.chmod(0o755)
    script = script.replace('/autograder', str(tmp_path))
    done = subprocess.run(['bash', '-c', script], capture_output=True, text=True)
    assert 'total: 0 of 100 points, optional: 0 of 15 points' in done.stdout, done.stderr
    assert '→' not in done.stdout and 'Traceback' not in done.stdout + done.stderr
    results = json.loads((tmp_path/'results/results.json').read_text(encoding='utf8'))
    assert results['score'] == 0
    assert sum(test['max_score'] for test in results['tests']) == 100
    setup = tmp_path/'submission/setup.sh'
    assert subprocess.run(['bash', '-n', setup]).returncode == 0

def test_another_folder_is_no_empty_submission(tmp_path, capsys):
    "One above the kit, where a student stood: no chapter helps there"
    printed, status = check(capsys, tmp_path, stage=1)
    assert "has none of the kit's files" in printed.err and status == 2
    tnb_start(str(tmp_path/'kit'))
    printed, status = check(capsys, tmp_path, stage=1)
    assert f'do you mean {tmp_path}/kit?' in printed.err and status == 2
    printed, status = check(capsys, tmp_path/'kit', stage=1)
    assert 'not written yet' in printed.out and status == 0

def test_the_first_optimizer_of_a_machine_costs_nothing(tmp_path):
    "It makes a folder for torch, which the guard took for the submission's own doing"
    (tmp_path/'right').mkdir()
    (tmp_path/'right'/'optimizer.py').write_text(source('optimizer.py'))
    (tmp_path/'tmp').mkdir()
    fresh = {k: v for k, v in os.environ.items() if k != 'TORCHINDUCTOR_CACHE_DIR'}
    said = subprocess.run(
        [sys.executable, '-c', 'from transformer_nb.grading.commands import tnb_check\n'
         f"tnb_check([{str(tmp_path/'right')!r}, '--stage', '6'])"],
        env=fresh | dict(TMPDIR=str(tmp_path/'tmp')), capture_output=True, text=True)
    assert 'total: 10 of 10 points' in said.stdout, said.stdout + said.stderr

def test_a_new_folder_has_no_solution(tmp_path, capsys):
    tnb_start(str(tmp_path/'new'))
    names = sorted(path.name for path in (tmp_path/'new').iterdir())
    files = [stage.file for stage in STAGES]
    assert names == sorted([*files, 'config.py', 'README.md', 'AGENTS.md', 'kit.json'])
    for file in files:
        text = (tmp_path/'new'/file).read_text(encoding='utf8')
        assert 'raise NotImplementedError' in text and 'return' not in text.split('"""')[2]
        assert not re.search(r'^(from|import) transformer_nb', text, re.M)
    assert 'begin with README.md' in capsys.readouterr().out
    tnb_start(str(tmp_path/'all'), teacher=True, key='k 1', masks='hidden')
    assert 'it holds your key, so hand out another folder' in capsys.readouterr().out
    with ZipFile(tmp_path/'all/autograder.zip') as archive:
        assert {x.external_attr >> 16 & 0o111 for x in archive.infolist()} == {0o111}
        script = archive.read('run_autograder').decode()
    assert "KEY='k 1'" in script and '--layout bhtd --masks hidden' in script
    for week in range(1, 6):
        text = (tmp_path/f'all/week{week}.ipynb').read_text(encoding='utf8')
        graded = [c for c in nbformat.reads(text, 4).cells if c.cell_type == 'code']
        for cell in graded:
            stage = STAGES[int(cell.metadata.nbgrader.grade_id[5:]) - 1]
            assert cell.metadata.nbgrader.points == stage.points
            assert f"points('.', {stage.number}, key='k 1', " in cell.source
        assert len(graded) == 2 - (week == 5)
    for file in files: # where True is hidden, no comment says what a mask shows
        text = (tmp_path/'all'/file).read_text(encoding='utf8')
        assert not re.search(r'[mM]ask: .*(may see|are tokens|allowed)', text), file
    config = types.SimpleNamespace(
        Autograde=types.SimpleNamespace(), ExecutePreprocessor=types.SimpleNamespace())
    exec((tmp_path/'all/nbgrader_config.py').read_text(), dict(get_config=lambda: config))
    kept = config.Autograde.exclude_overwriting # or nbgrader grades the empty files
    assert sorted(sum(kept.values(), [])) == sorted(STAGES[i].file for i in range(9))
    assert kept['week1'] == ['attention.py', 'multihead.py']
    with pytest.raises(SystemExit): tnb_start(str(tmp_path/'odd'), key="a'; rm -r x")
    assert '--key' in capsys.readouterr().err
    with pytest.raises(SystemExit): tnb_start(str(tmp_path/'all'))
    assert 'is not empty' in capsys.readouterr().err

def test_a_project_is_whole_or_not_there(tmp_path, monkeypatch):
    "On a disk that fills up at its third file; then it can be started again"
    write_text, n = Path.write_text, []
    def fill_up(path, *args, **how):
        n.append(path)
        if len(n) == 3: raise OSError(errno.ENOSPC, 'No space left on device')
        return write_text(path, *args, **how)
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as e:
        patch.setattr(Path, 'write_text', fill_up)
        tnb_start(str(tmp_path/'k'))
    assert e.value.code == 2 and not list(tmp_path.iterdir())
    tnb_start(str(tmp_path/'k'))

def test_documented_commands_have_their_options():
    "On all pages that show commands of the kit; once `--out` of a class was not one"
    pages = [*(HERE.parent/'transformer_nb/assignment').glob('*.md'),
             HERE.parent/'docs/teaching.md', HERE.parent/'nbs/build.md']
    text = '\n'.join(path.read_text(encoding='utf8') for path in pages)
    text += cells(HERE.parent/'nbs/15c_build.ipynb', 'markdown')[0].source
    shown = re.findall(r'tnb_check (start|class)? ?([^\n`]*)', text)
    for part, rest in shown:
        known = signature(commands._PARTS.get(part, commands.check)).parameters
        for option in re.findall(r'--(\w+)', rest):
            assert known[option].default is not Parameter.empty, f'{part} --{option}'
    assert len(shown) > 8 and any('--out' in rest for _, rest in shown)

def test_the_readme_has_the_points(tmp_path):
    text = kit_file('README.md', KIT)
    for stage in STAGES:
        [row] = [line for line in text.splitlines() if f'| `{stage.file}` |' in line]
        assert row.split('|')[4].strip() == str(stage.points), row
    assert sum(stage.points for stage in STAGES if not stage.optional) == 100

HOSTILE = dict(
    loop_in_call='def padding_mask(ids):\n    while True: pass',
    loop_that_catches='def padding_mask(ids):\n    while True:\n        try:\n'
                      '            while True: pass\n        except: pass',
    sleep='import time\ntime.sleep(1000)',
    leaves='import sys\nsys.exit(0)',
    leaves_at_once='import os\nos._exit(0)',
    leaves_in_call_at_once='import os\ndef padding_mask(ids): os._exit(0)',
    interrupts='raise KeyboardInterrupt',
    syntax='def padding_mask(ids) return',
    nothing='',
    no_text='\x00\x01',
    prints='print("x" * 10**6)\nimport sys\nsys.stderr.write("y" * 10**6)',
    reads_input='input()',
    fork_bomb='import os\nwhile True: os.fork()',
    fills_the_disk='with open("big", "wb") as f:\n    while True: f.write(bytes(10**7))',
    allocates='x = [bytes(10**8) for _ in range(1000)]',
    allocates_a_tensor='import torch\nx = torch.ones(10**10)',
    returns_a_giant='import torch\n'
                    'def padding_mask(ids): return torch.ones(1).expand(10**11)',
    recurses='def f(): f()\nf()',
    crashes='import ctypes\nctypes.string_at(0)',
    patches_torch='import torch\ntorch.Tensor.__eq__ = lambda *a: True\n'
                  'torch.allclose = torch.equal = lambda *a, **k: True',
    patches_exit='import os\nos._exit = lambda n: None\nos.kill = None',
    returns_nonsense='def padding_mask(ids): return "right"',
    lies='class T:\n    shape = (1,)\n    def __eq__(self, o): return True\n'
         'def padding_mask(ids): return T()',
    forges='open("result-4.out", "w").write("7 of 7 points")\nraise SystemExit',
    raises_oddly='class E(Exception):\n    def __str__(self): raise self\nraise E',
    changes_folder='import os\nos.chdir("/")')

@pytest.mark.parametrize('name', HOSTILE)
def test_a_hostile_submission_costs_its_points_alone(name, tmp_path):
    folder = write(tmp_path, attention=HOSTILE[name])
    seconds = 0.3 if 'loop' in name or name in ('sleep', 'fills_the_disk') else 3
    result = grade(folder, STAGES[0], Kit(), seconds)
    assert result.points == 0, report(result)
    assert [p.name for p in tmp_path.iterdir()] == ['attention.py'] # nothing beside it

def first_stage(folder, harm, seconds=1): # right, but for a line in `causal_mask`
    text = source('attention.py').replace('row = torch', f'{harm}\n    row = torch')
    return grade(write(folder, attention=text), STAGES[0], Kit(), seconds)

def test_a_mistake_in_one_function_leaves_the_points_of_the_others(tmp_path):
    result = first_stage(tmp_path, 'while True: pass')
    assert result.points == 11 and 'not done after 1 seconds' in report(result)

def test_a_busy_machine_costs_no_points(tmp_path):
    "The limit of a second is the processor's: this waits longer in all, and is right"
    assert first_stage(tmp_path, 'import time; time.sleep(0.08)').points == 12

def test_three_ends_are_three_checks(tmp_path):
    "Each check that ends the process is told so, and nothing else is lost"
    text = source('attention.py').replace('import math\n', 'import math, os\n')
    text = text.replace('row = torch', 'os._exit(3)\n    row = torch')
    text = text.replace('not_pad =', 'os._exit(4)\n    not_pad =')
    text = text.replace('d_k = key', 'if mask is None: os._exit(5)\n    d_k = key')
    result = grade(write(tmp_path, attention=text), STAGES[0], Kit(), 1)
    assert [n for n in (3, 4, 5) if f'exit status {n}' in report(result)] == [3, 4, 5]
    assert result.points == 5, report(result)

def test_an_earlier_mistake_costs_nothing_later(tmp_path):
    write(tmp_path, attention='def scaled_dot_product_attention(*args): return 0',
          multihead=source('multihead.py'))
    assert grade(tmp_path, STAGES[1]).points == 12

@pytest.mark.parametrize('layout, masks', [('bthd', 'allowed'), ('bhtd', 'additive'),
                                           ('bthd', 'hidden')])
def test_in_a_variant_copied_code_fails_and_adapted_code_passes(layout, masks):
    kit, stage = Kit(layout, masks, 'key'), STAGES[0]
    text = source('attention.py')
    copied = graded(stage, text, kit)
    assert copied.points <= 8, report(copied)
    if layout == 'bthd': text = text.replace('bhtd', 'bthd').replace('bhsd', 'bshd')
    if masks == 'hidden':
        text = text.replace('~mask', 'mask').replace('ids != PAD', 'ids == PAD')
        text = text.replace('<=', '>')
    if masks == 'additive':
        text = text.replace('~mask', 'mask == -math.inf')
        text = text.replace('not_pad.unsqueeze(1).unsqueeze(2)',
                            'torch.where(not_pad, 0., -torch.inf)[:, None, None]')
        text = text.replace('row[None, :] <= row[:, None]',
                            'torch.where(row <= row[:, None], 0., -torch.inf)')
    result = graded(stage, text, kit)
    assert result.points == 12, report(result)

@pytest.mark.parametrize('number', [2, 3, 4, 6, 8]) # and 5, in another way: below
def test_the_kit_varies_and_a_right_file_stays_right(number):
    "What does not touch masks or heads itself is right in every variant, and for every key"
    stage = STAGES[number - 1]
    result = graded(stage, source(stage.file), ADDITIVE)
    assert result.points == stage.points, report(result)

def test_the_variant_is_in_the_files(tmp_path, capsys):
    tnb_start(str(tmp_path/'new'), layout='bthd', masks='additive')
    text = (tmp_path/'new/attention.py').read_text(encoding='utf8')
    assert '(b, t, h, d_k)' in text and '(b, s, h, d_v)' in text
    assert '0 where attention is allowed' in text and 'True where' not in text
    assert '0 at real tokens, -inf at padding' in text and 'True at' not in text
    assert text.count(MASKS['additive']) == 2 # causal_mask says it once more
    printed, _ = check(capsys, tmp_path/'new', stage=1)
    assert 'Stage 1' in printed.out and '0 of 12' in printed.out

def test_nbgrader_gets_a_number(right, capsys, monkeypatch):
    "And the report, in a process that has computed with several threads before"
    x = torch.ones(300, 300)
    assert (x @ x)[0, 0] == 300
    assert points(right, 10, key='a key') == 5
    assert '✔ 2/2 ' in capsys.readouterr().out
    with pytest.raises(InputError, match='not a model folder'):
        points(right, 9, model='nowhere')

GUARDED = ['import transformer_nb', 'import transformer_nb.attention', 'os.fork()',
           'os.execv("/bin/true", ["true"])', 'os.posix_spawn("/bin/true", ["true"], {})',
           'os.system("true")', 'os.kill(os.getpid(), 0)', 'os.remove("a")',
           'os.rmdir("a")', 'os.rename("a", "b")', 'os.mkdir("a")', 'os.link("a", "b")',
           'os.symlink("a", "b")',
           'os.truncate("a", 0)', 'os.chmod("a", 0)', 'os.chown("a", 0, 0)',
           'import shutil; shutil.copyfile("a", "b")', 'import pty; pty.spawn("true")',
           'import subprocess; subprocess.run(["true"])', 'import socket; socket.socket()',
           'import ctypes; ctypes.CDLL(None) # ctypes.dlopen', 'import signal, threading; '
           'signal.pthread_kill(threading.get_ident(), 0)', 'import resource; '
           'resource.setrlimit(resource.RLIMIT_CPU, (9, 9))', 'import gc; gc.get_objects()',
           'import gc; gc.get_referrers(os)', 'import gc; gc.get_referents(os)',
           'import sys; sys._current_frames()', 'open("/tmp/tnb_hostile", "r+")',
           'open("/tmp/tnb_hostile", "w")', 'os.open("/tmp/tnb_hostile", os.O_CREAT)',
           'open(os.getcwd() + "-", "w")', 'open(b"/tmp/tnb_hostile", "a")',
           'open("{package}/marking.py")', 'open(os.path.relpath("{package}/marking.py"))']

def test_the_guard_refuses_one_harmful_line_in_a_right_file(tmp_path):
    "Each line alone, in one function that goes on, and then the file is right"
    lines = [line.replace('{package}', str(Path(child.__file__).parent))
             for line in GUARDED]
    harm = (f'import os\n    for line in {lines!r}:\n        try: exec(line)\n'
            "        except PermissionError as e: assert 'submission may not' in str(e)\n"
            '        else: raise ValueError(line)')
    result = first_stage(tmp_path, harm, 20)
    assert result.points == 12, report(result)
    tried = ' '.join(GUARDED)
    assert not [event for event in child._FORBIDDEN if event not in tried]
    assert not Path('/tmp/tnb_hostile').exists()
    result = first_stage(tmp_path, 'import transformer_nb', 20)
    assert result.points == 11 and 'a submission may not' in report(result)

LIMITS = """import os, resource
    for kind, most in ('CPU', 81), ('FSIZE', 2**26), ('CORE', 0):
        assert resource.getrlimit(getattr(resource, f'RLIMIT_{kind}')) == (most, most), kind
    assert os.read(0, 1) == b'', 'something to read'
    print('loud')
    os.write(1, b'loud'), os.write(2, b'loud')
    open(os.devnull, 'w').write('loud')
    before = open('/proc/self/statm').read(); torch.empty(2**30, dtype=torch.uint8)
    assert open('/proc/self/statm').read().split()[0] == before.split()[0]"""

def test_a_submission_is_limited_and_silent(tmp_path, capfd):
    child.CDLL(None).mallopt(-4, 0) # as a training before it does
    result = first_stage(tmp_path, LIMITS, 20)
    assert result.points == 12 and capfd.readouterr() == ('', ''), report(result)

@pytest.mark.parametrize('harm, seconds, said', [
    ('bytearray(3 * 2**30)', 20, 'MemoryError'),
    ("open('big', 'wb').write(bytes(2**27))", 20, 'File too large'),
    ('import time; time.sleep(9)', 1, 'not done after 1 seconds')])
def test_what_goes_beyond_a_limit_says_so(harm, seconds, said, tmp_path):
    result = first_stage(tmp_path, harm, seconds)
    assert result.points == 11 and said in report(result), report(result)

def test_only_files_of_the_folder_are_taken(tmp_path):
    "No link, nothing huge, and the kit's config.py"
    for name in ('kit', 'work', 'place'): (tmp_path/name).mkdir()
    write(tmp_path/'kit', attention=source('attention.py'))
    (tmp_path/'work/attention.py').symlink_to('../kit/attention.py')
    write(tmp_path/'work', config='raise ValueError', mine='x = 1')
    with (tmp_path/'work/huge.py').open('wb') as file: file.truncate(2**26)
    child._copy(tmp_path/'work', tmp_path/'place')
    assert sorted(p.name for p in (tmp_path/'place').iterdir()) == ['config.py', 'mine.py']
    assert 'ValueError' not in (tmp_path/'place/config.py').read_text(encoding='utf8')

SLEEPER = """import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from transformer_nb.grading import child
from transformer_nb.grading.kit import Kit
from transformer_nb.grading.stages import STAGES
try: child.collect(child.Path(sys.argv[1]), STAGES[0], Kit(), 100)
except KeyboardInterrupt: time.sleep(1000) # as the kernel of a notebook lives on"""

@pytest.mark.skipif(sys.platform != 'linux', reason='/proc is needed')
@pytest.mark.parametrize('sign', [signal.SIGKILL, signal.SIGINT])
def test_a_sleeping_submission_ends_with_its_grader(sign, tmp_path):
    text = 'import time\nopen("asleep", "w")\ntime.sleep(1000)'
    write(tmp_path, attention=text)
    command = [sys.executable, '-c', SLEEPER, tmp_path]
    ended = time.monotonic() + 100
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as grader:
        children = Path(f'/proc/{grader.pid}/task/{grader.pid}/children')
        try:
            while not (pids := children.read_text().split()): waited(ended)
            [child] = pids
            while not Path(f'/proc/{child}/cwd/asleep').exists(): waited(ended)
            grader.send_signal(sign)
            if sign == signal.SIGINT: # before the grader itself is gone
                while Path(f'/proc/{child}').exists(): waited(ended)
        finally: grader.kill()
    while Path(f'/proc/{child}').exists(): waited(ended)

def waited(ended):
    assert time.monotonic() < ended
    time.sleep(0.01)

def test_the_hosts_limits_are_kept(tmp_path):
    "Hard limits below the grader's own cost no points"
    script = 'ulimit -t 100; ulimit -f 60000; exec "$@"'
    write(tmp_path, attention=source('attention.py'))
    command = [sys.executable, '-c', COMMAND, tmp_path, '--seconds', '30', '--stage', '1']
    done = subprocess.run(['bash', '-c', script, 'bash', *map(str, command)], text=True,
                          capture_output=True)
    assert '12 of 12' in done.stdout, done.stdout + done.stderr

def test_what_fails_before_the_submission_costs_no_points(tmp_path, monkeypatch, capsys):
    def fail(*args): raise OSError('no such limit')
    monkeypatch.setattr(child, '_limit', fail)
    with pytest.raises(InputError, match='the grader cannot start a submission here'):
        child.collect(write(tmp_path, attention=source('attention.py')), STAGES[0], KIT, 3)
    printed, status = check(capsys, tmp_path, stage=1)
    assert status == 2 and printed.out == '' and printed.err.count('\n') == 1

def test_what_fails_before_the_next_process_costs_no_points_either(tmp_path, monkeypatch):
    "Once the second process failed, and right checks behind a crash lost their points"
    def fail_later(*args): # the first process has written what it began
        if list(Path(place[0]).glob('result-*')): raise OSError('no such limit')
    place, copy = [], child._copy
    def copied(folder, to): return copy(folder, place.append(to) or to)
    monkeypatch.setattr(child, '_copy', copied)
    monkeypatch.setattr(child, '_limit', fail_later)
    with pytest.raises(InputError, match='the grader cannot start a submission here'):
        harm = 'import os; os._exit(3)\n    not_pad ='
        text = source('attention.py').replace('not_pad =', harm)
        child.collect(write(tmp_path, attention=text), STAGES[0], Kit(), 20)

def test_an_error_of_the_students_writes_no_terminal_code(tmp_path):
    text = 'def padding_mask(ids): raise ValueError("\x1b[2J\u202eabc")'
    shown = report(grade(write(tmp_path, attention=text), STAGES[0], Kit(), 3))
    assert '\\x1b[2J' in shown and '\x1b' not in shown and '\u202e' not in shown

@pytest.mark.parametrize('folder, options, words', [
    ('nowhere', {}, 'nowhere is not a folder'),
    ('.', dict(stage=13), '--stage is 13'),
    ('.', dict(masks='soft'), "--masks is 'soft'"),
    ('.', dict(layout='hbtd'), "--layout is 'hbtd'"),
    ('.', dict(seconds=0), '--seconds is 0'),
    ('.', dict(model='nowhere'), 'not a model folder'),
    ('.', dict(certificate='a.svg', stage=1), '--certificate needs all stages'),
    ('.', dict(certificate='a.png'), 'a.png does not end in .svg')])
def test_bad_input_is_refused(folder, options, words, capsys):
    printed, status = check(capsys, folder, **options)
    assert status == 2 and words in printed.err and printed.err.count('\n') == 1

def test_a_hundred_points_get_a_certificate(right, capsys, tmp_path):
    path = tmp_path/'mine.svg'
    assert '--certificate' in certified(capsys, right, None)
    assert certified(capsys, right, path, 99) == 'No certificate yet: 99 of 100 points'
    assert certified(capsys, right, None, 99) == '' and not path.exists()
    assert certified(capsys, right, path).startswith(str(path))
    drawing, text = ElementTree.parse(path), path.read_text(encoding='utf8')
    assert settings(HERE.parent)['title'] in text and '100 of 100 points' in text
    assert f'{date.today().year}-' in text and str(right) not in text
    said = ' '.join(node.text for node in drawing.findall('.//{*}text'))
    assert 'children' in said and 'Kinder' in said

def certified(capsys, folder, path, points=100): # of a submission that was graded before
    class Given(StageResult): points = property(lambda self: points)
    results = [Given(STAGES[0], [], [])]
    commands._certify(path, folder, results, KIT, 30)
    return capsys.readouterr().out.strip()

def test_no_certificate_for_files_that_fail_together(right, capsys, tmp_path):
    shutil.copytree(right, tmp_path/'other')
    text = changed('attention.py', [('return', 'raise ValueError\n    return')])
    (tmp_path/'other/attention.py').write_text(text, encoding='utf8')
    line = certified(capsys, tmp_path/'other', tmp_path/'mine.svg')
    assert line.startswith('No certificate: ') and 'ValueError' in line and '\n' not in line
    assert not (tmp_path/'mine.svg').exists()

def test_the_books_own_code_gets_a_hundred_points(tmp_path):
    "By the command, in a process of its own: the right files have the book's numbers"
    write_book(tmp_path)
    texts = [path.read_text(encoding='utf8') for path in tmp_path.glob('*.py')]
    assert not re.search(r'^(from|import) transformer_nb', '\n'.join(texts), re.M)
    done = subprocess.run([sys.executable, '-c', COMMAND, tmp_path, '--seconds', '120'],
                          capture_output=True, text=True)
    assert 'total: 100 of 100 points, optional: 0 of 15' in done.stdout, done.stdout
    assert 'by all of your own files: yes' in done.stdout, done.stdout

COMMAND = """import sys
from transformer_nb.grading.commands import tnb_check
tnb_check(sys.argv[1:])"""

OTHER = {
    'convolutions': (3, [('nn.Linear(d_model, d_ff)', 'nn.Conv1d(d_model, d_ff, 1)'),
         ('nn.Linear(d_ff, d_model)', 'nn.Conv1d(d_ff, d_model, 1)'),
         ('self.inner(x)', 'self.inner(x.reshape(1, -1, x.size(-1)).mT)'),
         ('self.outer(hidden)', 'self.outer(hidden).mT.reshape(x.shape)'),
         ('self.weight', 'self.gain'), ('self.bias', 'self.shift')], KIT),
    'other names, and targets that begin': (5, [
         ('x = self.positions(self.embedding(tgt))', 'assert (tgt[:, 0] == 1).all()\n'
          '        x = self.positions(self.embedding(tgt))'),
         ('self.self_attention', 'self.attn'), ('self.encoder', 'self.enc'),
         ('self.decoder', 'self.dec'), ('self.embedding', 'self.embed'),
         ('mask = causal_mask(tgt.size(1))',
          'mask = causal_mask(tgt.size(1)) & padding_mask(tgt)')], KIT)}

HOLES = [
    (1, [("~mask, float('-inf'))", "~mask, float('-inf'))\n"
          "        mask |= (~mask).all(-1, keepdim=True)")]),
    (2, [('x if memory is None else memory', 'x if memory is None else memory.detach()')]),
    (6, [('torch.log_softmax(logits, dim=-1)',
          'torch.log(torch.softmax(logits, dim=-1) + 1e-9)')]),
    (9, [(' + 50)', ')')]), (9, [('(weights)', '(weights, assign=True)')])]

MENDED = [ # by the kind of call that finds them
    (1, [('    d_k = key', # a mask (h, t, s)
          '    if mask is not None and mask.dim() == 3: mask = mask[:, None]\n'
          '    d_k = key')]),
    (3, [('total = x + out', 'out += x; total = out')]), # the sub-layer returns x
    (4, [('self.pe[:x.size(1)]', # a longer one afterward
          "self.__dict__.setdefault('kept', self.pe[:x.size(1)])[:x.size(1)]")]),
    (5, [('mask = padding_mask(src)\n',
          "mask = self.__dict__['kept'] = padding_mask(src)\n"),
         ('x = self.positions(self.embedding(tgt))', # another mask than that of the source
          "memory_mask = vars(self).get('kept', memory_mask)\n"
          '        x = self.positions(self.embedding(tgt))')]),
    (7, [('logits = model(', 'model.eval()\n    logits = model(')]), # in training mode
    (7, [('losses.append(loss.item())', # a loss that falls to nothing
          'losses.append(loss.item())\n        if loss < 0.01: break')]),
    (8, [('import torch\n', 'import torch\nKEPT = {}\n'), # another source of its shape
         ('model.encode(src)', 'KEPT.setdefault((model, src.shape), model.encode(src))')]),
    (7, [('(seqs, (1, 0), value', '(src[:, :-1], (1, 0), value')]),
    (8, [('min(beam_size, len(logp))', 'beam_size')]),
    (3, [('(centered ** 2).mean(dim=-1, keepdim=True)', # in single precision, far from 0
          '(x ** 2).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2')]),
    (3, [('self.dropout(out)', 'out * self.dropout(torch.ones_like(out[:1, :1]))')]),
    (10, [('symbols = list(word)', "symbols = list(word) or ['']")]), # the empty word
    (11, [('(-2 * i / d))', '(-2 * i / d)).squeeze(-1)')]), # two features
    (5, [('config.max_len)', '512)')]), # a size beside a number of the text
    (7, [('keepdim=True)', 'keepdim=True).clamp(min=1)')]), # a row of padding alone
    (9, [('sizes = {', 'fields["max_len"] = 512\n    sizes = {')]), # another model folder
    (6, [('= logp.gather', '= labels.view(-1) is None or logp.gather')]), # layout in memory
    (11, [('t, d =', 'torch.view_as_complex(x.unflatten(-1, (-1, 2)))\n    t, d =')]),
    (3, [('hidden = torch', 'assert x.dim() in (2, 3)\n        hidden = torch')]), # axes
    (11, [('mask = mask.expand', 'mask = mask[:groups] if mask.dim() == 3 else mask\n'
           '    mask = mask.expand')]),
    (3, [('(x, *args', '(x, *[a for a in args if a is not None]')]), # None by position
    (1, [("float('-inf')", '-1e9')]), # allowed scores far below
    (2, [('k = self.to_heads(self.key(source))', # the same tensor with other numbers
          "k = self.to_heads(self.key(source))\n        if not k.requires_grad: k = vars("
          "self).setdefault('kept', {}).setdefault(id(source), (source, k))[1]")]),
    (11, [('import torch\n', 'import torch\nKEPT = {}\n'), # another precision
          ('angle = torch.outer(', 'angle = KEPT.setdefault((t, d), torch.outer('),
          ('** (-2 * i / d))', '** (-2 * i / d)).to(x.dtype))')]),
    (9, [('def load', 'from functools import cache\n@cache\ndef load')]), # again
    (9, [("Path(folder, 'config.json').read", "Path(folder + '/config.json').read")]),
    (3, [('eps=1e-5', 'eps=1e-6')]), # by default
    (7, [('    model.train()', '    if not model.training: model.train()')]), # a part
    (3, [('nn.Dropout(dropout)', 'nn.Dropout(dropout, inplace=True)')]), # x comes back
    (5, [('for layer in self.decoder', # more than ten layers
          'for _, layer in sorted(zip(map(str, range(99)), self.decoder))')]),
    (7, [('loss.backward()', 'loss.backward(); nn.utils.clip_grad_norm_('
          'model.parameters(), 5.)')]),
    (8, [('    mask = padding_mask(src)\n    memory', '    torch.set_grad_enabled(False)\n'
          '    mask = padding_mask(src)\n    memory'), ('@torch.no_grad()\ndef g',
          'def g')]),
    (5, [('x = self.positions(self.embedding(src))', # the last column is padding
          'src = src[:, :max(1, int((src > 0).sum(1).max()))]\n'
          '        x = self.positions(self.embedding(src))')]),
    (5, [('self.encode(src), padding_mask(src))', # a source is padding alone
          'self.encode(src), padding_mask(src) | (src == 0).all(1).view(-1, 1, 1, 1))')]),
    (5, [('    def encode(self', '        for layer in self.encoder: nn.init.constant_('
          'layer.residuals[1].norm.weight, 1/len(self.encoder))\n\n    def encode(self')]),
    (4, [('torch.randn(vocab_size, d_model)', # tails
          'nn.init.trunc_normal_(torch.empty(vocab_size, d_model), a=-3, b=3)')]),
    (8, [('    rows = [', '    model.decode(tgt, memory, mask)\n    rows = [')]),
    (7, [('        optimizer.zero_grad()\n', ''), # gradients from before
         ('optimizer.step()\n', 'optimizer.step()\n        optimizer.zero_grad()\n')]),
    (12, [('new == 2', 'new in (0, 2)')])]

@pytest.mark.parametrize('number, changes', HOLES + MENDED)
def test_nothing_wrong_passes(number, changes, tmp_path):
    "Each of these once had all points (2026)"
    stage = begun(tmp_path, number, changed(STAGES[number - 1].file, changes))
    last_first = stage.checks[::-1] if number < 12 else stage.checks[:1] # without weights
    assert any(differences_in(tmp_path, stage, check) for check in last_first)

def begun(folder, number, text): # the stage, with this as its file
    write(folder, **{STAGES[number - 1].module: text})
    return with_kit(number, KIT, False, child.numbers_in(folder, STAGES[number - 1].file))

def differences_in(folder, stage, check): # no other is asked
    jobs = [(stage.checks.index(check), cases) for cases in (None, child.BESIDE)]
    notes, beside = child.collect(folder, stage, KIT, jobs=jobs)
    return judged(check, notes | beside, stage.module, True).found

def test_a_branch_that_is_not_written_hides_no_mistake(tmp_path):
    unwritten = ('    d_k =', '    if mask is not None and mask.dim() == 3: '
                 'raise NotImplementedError\n    d_k =')
    text = changed('attention.py', [unwritten, ('dim=-1)', 'dim=-2)')])
    stage = begun(tmp_path, 1, text)
    assert any(len(differences_in(tmp_path, stage, check)) > 1 and check.title ==
               'attention with a mask' for check in stage.checks)

def test_layers_may_stand_in_any_order():
    "Norms first, the decoder before the encoder, keys before queries, bias before gain"
    lines = source('model.py').splitlines()
    for i, line in enumerate(lines):
        if 'self.residuals = nn.ModuleList(' not in line: continue
        lines[i-2:i+2] = [*lines[i:i+2], *lines[i-2:i]] # before what stands above
    text = '\n'.join(lines)
    stacks = re.findall(r' +self\.(?:en|de)coder = nn\.ModuleList\(\n.*\n', text)
    text = text.replace(''.join(stacks), ''.join(reversed(stacks)))
    text = text.replace('self.residuals', 'self.norms').replace('self.encoder', 'self.enc')
    assert text.index('self.norms =') < text.index('self.feed_forward =')
    assert graded(STAGES[4], text).points == 16
    text = changed('multihead.py', [('self.query', 'self.a'), ('self.key', 'self.w')])
    first, second = re.findall(r' +self\.[aw] = .*\n', text)
    assert graded(STAGES[1], text.replace(first + second, second + first)).points == 12
    text = changed('layers.py', [('self.weight', 'self.gain'), ('self.bias', 'self.shift')])
    first, second = re.findall(r' +self\.(?:gain|shift) = .*\n', text)
    text = text.replace(first + second, second + first)
    assert graded(STAGES[2], text).points == 12

def test_an_order_that_is_right_alone_is_right_in_layers_of_the_model(tmp_path):
    "Shift before gain under names of one's own"
    own = [('self.weight', 'self.gain'), ('self.bias', 'self.shift')]
    layers = changed('layers.py', own)
    first, second = re.findall(r' +self\.(?:gain|shift) = .*\n', layers)
    layers = layers.replace(first + second, second + first)
    stage = begun(tmp_path, 5, layers + changed('model.py', [LAYERS]))
    encoder, decoder, *_ = stage.checks
    assert not differences_in(tmp_path, stage, encoder)
    assert not differences_in(tmp_path, stage, decoder)
    wrong = 'self.residuals[1](x, self.feed_forward)', 'x'
    begun(tmp_path, 5, layers + changed('model.py', [LAYERS, wrong]))
    assert differences_in(tmp_path, stage, encoder)

LAYERS = 'from layers import FeedForward, ResidualNorm\n', ''

CLOSURE = [('        optimizer.zero_grad()\n        loss = copy_loss(model, seqs)\n'
            '        loss.backward()\n        optimizer.step()\n',
            '        def closure():\n            optimizer.zero_grad()\n'
            '            loss = copy_loss(model, seqs)\n            loss.backward()\n'
            '            return loss\n        loss = optimizer.step(closure)\n')]

MIXED = [('        self.feed_forward = FeedForward(config.d_model, config.d_ff)\n'
          '        self.residuals = nn.ModuleList(\n'
          '            [ResidualNorm(config.d_model, config.dropout) for _ in range(2)])\n',
          '        self.a_norm = ResidualNorm(config.d_model, config.dropout)\n'
          '        self.feed_forward = FeedForward(config.d_model, config.d_ff)\n'
          '        self.b_norm = ResidualNorm(config.d_model, config.dropout)\n'),
         ('x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))\n'
          '        return self.residuals[1](x, self.feed_forward)\n\nclass',
          'x = self.a_norm(x, lambda y: self.self_attention(y, mask=mask))\n'
          '        x = self.b_norm(x, self.feed_forward)\n        return x\n\nclass')]

EVALUATES = [('memory = model', 'assert not model.training\n    memory = model')]

IS_ONE = [('ids = tokenizer', 'assert isinstance(model, Transformer) and not model.training'
           '\n    ids = tokenizer')]

PARTS = [('class EncoderLayer', """class FeedForward(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.biases = nn.ParameterDict(dict(out=nn.Parameter(nn.init.zeros_(
            nn.Linear(d, d).bias)), inner=nn.Linear(d, h).bias))
        self.matrices = nn.ParameterDict(dict(out=nn.Linear(h, d).weight,
                                              inner=nn.Linear(d, h).weight))

    def forward(self, x):
        y = nn.functional.linear(x, self.matrices['inner'], self.biases['inner']).relu()
        return nn.functional.linear(y, self.matrices['out'], self.biases['out'])

class EncoderLayer"""), *MIXED]

ADDITIVE = Kit('bhtd', 'additive', 'another key', MODEL)

BY_LENGTH = [('ids != PAD', 'torch.arange(ids.size(1)) < (ids > 0).sum(1)[:, None]')]

SINGLE = [('math.sqrt(d_k)', 'torch.tensor(d_k, dtype=torch.float32).sqrt()')]

CHANCE = [('nn.Dropout(dropout)', 'dropout'),
          ('out = self.dropout(out)', 'if self.training: out = out * '
           '(torch.rand_like(out) >= self.dropout) / (1 - self.dropout)')]

RIGHT = {'a closure': (7, CLOSURE, KIT),
         'a dropout of its own': (3, CHANCE, KIT),
         'a constant in single precision': (1, SINGLE, KIT),
         'padding by its length': (1, BY_LENGTH, KIT), # it stands at the end
         'some names of its own': (5, MIXED, ADDITIVE),
         'parts with an order of their own': (5, PARTS, KIT),
         'models evaluate': (8, EVALUATES, KIT),
         'models have their class': (9, IS_ONE, KIT), **OTHER}

@pytest.mark.parametrize('name', RIGHT)
def test_what_is_right_in_another_way_costs_nothing(name):
    number, changes, kit = RIGHT[name]
    stage = STAGES[number - 1]
    result = graded(stage, changed(stage.file, changes), kit)
    assert result.points == stage.points, report(result)

def test_packages_and_the_kits_settings_are_there(tmp_path):
    "A helper in a folder of its own, and a config of the class that the kit gives"
    old = 'sizes = (config.d_model, config.n_heads, config.d_k, config.d_v)'
    new = f'assert isinstance(config, Given)\n        {old}'
    text = 'from config import TransformerConfig as Given\nfrom mylib.sub.math import ONE\n'
    write(tmp_path, model=text + changed('model.py', [(old, new)]))
    for name in ('mylib', 'mylib/sub', '.hidden', 'no-name', '__pycache__'):
        (tmp_path/name).mkdir()
        write(tmp_path/name, math='ONE = 1\n')
    (tmp_path/'linked').symlink_to(HERE)
    found = [str(p.relative_to(tmp_path)) for p in child._modules_in(tmp_path)]
    assert found == ['model.py', 'mylib/math.py', 'mylib/sub/math.py']
    assert not differences_in(tmp_path, STAGES[4], STAGES[4].checks[0])

def test_a_class_is_graded_into_a_table(tmp_path, capsys):
    folder, out, reports = tmp_path/'class', tmp_path/'class.csv', tmp_path/'reports'
    work = {'ada': [], '=cmd': [(' / math.sqrt(d_k)', '')],
            'zoe': [('ids != PAD', 'ids == PAD')]}
    for name, changes in work.items():
        (folder/name).mkdir(parents=True)
        write(folder/name, attention=changed('attention.py', changes))
    for other in ('.git', '__MACOSX', 'kim'): (folder/other).mkdir() # one is a student
    tnb_class(folder, out=out, reports=str(reports), stage=1)
    printed = capsys.readouterr().out
    assert 'ada: total: 12 of 12 points' in printed
    assert '  2 of 4  attention.py: which keys padding_mask hides' in printed
    rows = out.read_text(encoding='utf8').splitlines()
    assert rows[0] == 'student,1 attention.py,total,what differs' and len(rows) == 5
    assert rows[3] == 'kim,0,0,attention.py is missing.' and rows[2] == 'ada,12,12,'
    assert rows[1].startswith("'=cmd,3,3,")
    assert '→ padding_mask: ' in (reports/'zoe.txt').read_text(encoding='utf8')
    for wrong in (dict(out=str(out)), dict(folder=str(folder/'ada'))):
        asked = dict(folder=str(folder), out=str(tmp_path/'new.csv')) | wrong
        with pytest.raises(SystemExit): tnb_class(**asked)
        assert capsys.readouterr().err.count('\n') == 1

def test_a_class_that_is_stopped_keeps_its_rows(tmp_path):
    for name in ('ada', 'n' * 252): (tmp_path/'class'/name).mkdir(parents=True)
    asked = dict(out=tmp_path/'x.csv', reports=str(tmp_path/'r'), stage=1)
    with pytest.raises(SystemExit): tnb_class(tmp_path/'class', **asked) # too long a name
    assert (tmp_path/'x.csv').read_text().count('\n') == 3

def test_one_odd_folder_stops_no_class(tmp_path, capsys):
    "A damaged kit.json, files one folder below, a name that no terminal should see"
    folder, out = tmp_path/'class', tmp_path/'class.csv'
    for name in ('ada', 'ben', 'joe/week1', os.fsdecode(b'\x1b[2J\xff')):
        (folder/name).mkdir(parents=True)
        write(folder/name, attention=source('attention.py'))
    (folder/'ada/kit.json').write_text('[1, 2')
    tnb_class(folder, out=out, stage=1)
    printed = capsys.readouterr().out
    _, odd, ada, ben, joe = out.read_text(encoding='utf8').splitlines()
    assert odd == r'\x1b[2J\udcff,12,12,' and ben == 'ben,12,12,' and '\x1b' not in printed
    assert ada.startswith('ada,,,not graded: ') and 'kit.json is not' in ada
    assert joe.startswith('joe,,,') and f'do you mean {folder}/joe/week1?' in joe
    assert 'ada: not graded: ' in printed and 'Every check is passed' in printed
    tnb_class(folder, out=tmp_path/'all.csv', stage=1, layout='bhtd', masks='allowed')
    assert 'ada,12,12,' in (tmp_path/'all.csv').read_text(encoding='utf8').splitlines()
    for wrong in (dict(masks='soft'), dict(stage=9, model='nowhere')):
        with pytest.raises(SystemExit): tnb_class(folder, out=tmp_path/'new', **wrong)
        assert capsys.readouterr().err.count('\n') == 1

def test_parameters_that_do_not_fit_are_told_by_their_names():
    text = report(graded(STAGES[2], changed('layers.py', [
        ('nn.Linear(d_ff, d_model)', 'nn.Linear(d_ff, d_model, bias=False)')])))
    assert 'missing parameters: outer.bias (' in text, text
    old, new = 'self.decoder = nn.ModuleList(', 'self.decoder = list('
    text = report(graded(STAGES[4], changed('model.py', [(old, new)])))
    assert 'Transformer.decoder' in text and 'nn.ModuleList' in text, text

def test_what_cannot_be_imported_is_told_once(tmp_path):
    result = grade(tmp_path, STAGES[0])
    assert result.remarks == ['attention.py is missing.']
    result = grade(write(tmp_path, attention='import nowhere'), STAGES[0])
    told = 'attention.py cannot be imported: ModuleNotFoundError: No module named'
    assert len(result.remarks) == 1 and told in result.remarks[0]
    (tmp_path/'decoding.py').write_text('def beam_search():\n  x = 1\n    y = 2\n')
    [told] = grade(tmp_path, STAGES[7]).remarks
    assert 'IndentationError' in told and 'line 3' in told and 'Read' not in told

WRITER = """from safetensors.torch import load_file
class Pairs(torch.nn.Module): # what follows each character
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(N, N))
    def forward(self, ids): return self.table[ids]
def load_writer(path):
    model = Pairs()
    model.load_state_dict(load_file(path))
    return model.eval()
"""

def test_a_model_that_writes_is_graded_by_what_it_knows(tmp_path):
    "Counted pairs know too little; who looks ahead is found, however low the loss"
    torch.set_default_dtype(torch.float32)
    train, _ = ladder_text()
    pairs = definitions('01_attention').count_pairs(train)
    save_file({'table': pairs}, tmp_path/'writer.safetensors')
    own = WRITER.replace('N, N', f'{N_IDS}, {N_IDS}')
    write(tmp_path, writer=source('writer.py') + own)
    result = grade(tmp_path, STAGES[11])
    assert result.points < 5 and only(result, 'it writes, by toy models') == 1
    assert '2.' in report(result) and 'nats per character' in report(result), report(result)
    text = (tmp_path/'writer.py').read_text('utf8').replace('self.table[ids]', (
        '9 * torch.nn.functional.one_hot(ids.roll(-1, 1), len(self.table)).double()'))
    result = grade(write(tmp_path, writer=text), STAGES[11])
    assert 'position 11 changes with position 12' in report(result), report(result)

def test_the_books_writer_gets_every_point(tmp_path):
    shutil.copy(HERE.parent/'nbs/models/writer/model.safetensors',
                tmp_path/'writer.safetensors')
    text = source('writer.py') + BOOKS_WRITER.replace('N_IDS', str(N_IDS))
    result = grade(write(tmp_path, writer=text), STAGES[11])
    assert result.points == 5, report(result)

BOOKS_WRITER = """from torch import nn
from safetensors.torch import load_file
from attention import causal_mask
from config import TransformerConfig
from embedding import Embedding, PositionalEncoding
from model import EncoderLayer
class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        config = TransformerConfig(N_IDS, 64, 256, 4, 16, 16, 2, 0, 0., 64)
        self.embedding, self.score = Embedding(N_IDS, 64), nn.Linear(64, N_IDS)
        self.positions = PositionalEncoding(64, 0., 64)
        self.stack = nn.ModuleList([EncoderLayer(config) for _ in range(2)])
    def forward(self, ids):
        x = self.positions(self.embedding(ids))
        for layer in self.stack: x = layer(x, causal_mask(ids.size(1)))
        return self.score(x)
def load_writer(path):
    model = Writer()
    weights = {k.replace('stack.layers', 'stack'): x for k, x in load_file(path).items()}
    model.load_state_dict(weights, strict=False)
    return model.eval()
"""
