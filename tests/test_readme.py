"Every command and every snippet of README.md is run; only times are cut short."
import os, re, subprocess, sys
from pathlib import Path
import pytest
from test_commands import BIN, ROOT, run, write
from transformer_nb.grammar import mini_corpus

README = (ROOT/'README.md').read_text(encoding='utf8')
BLOCKS = re.findall(r'```(\w*)\n(.*?)```', README, re.S)

def test_python():
    [(code, printed)] = [(a, b) for (kind, a), (_, b) in zip(BLOCKS, BLOCKS[1:]) if kind == 'python']
    done = subprocess.run([sys.executable, '-W', 'error', '-c', code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert done.stdout == printed

def test_own_text(tmp_path):
    pytest.importorskip('ctranslate2')
    [block] = [text for kind, text in BLOCKS if kind == 'sh' and 'tnb_train' in text]
    pairs = mini_corpus()['train'][:300]
    for name, part in dict(train=pairs, valid=pairs[:50], test=pairs[50:100]).items():
        for i, lang in enumerate(('de', 'en')): write(tmp_path/f'{name}.{lang}', [pair[i] for pair in part])
    write(tmp_path/'sentences.de', ['Das ist gut.', '', pairs[0][0]])
    assert block.count('--max_minutes 30') == 1
    env = {**os.environ, 'PATH': f'{BIN}{os.pathsep}{os.environ["PATH"]}'}
    done = subprocess.run(['bash', '-euc', block.replace('--max_minutes 30', '--max_steps 4')], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path/'sentences.en').read_text().splitlines()) == 3 and '"bleu"' in done.stdout and (tmp_path/'model_ct2/model.bin').exists()

def test_make():
    targets = set(re.findall(r'`?make (\w+)', README))
    assert targets == {'demo', 'test', 'lab', 'docs'}
    for target in targets: subprocess.run(['make', '-n', target], check=True, capture_output=True, cwd=ROOT)
    assert 'tnb_demo --out demo' in subprocess.run(['make', '-n', 'demo'], check=True, capture_output=True, text=True, cwd=ROOT).stdout

def test_demo(tmp_path):
    done = run('tnb_demo', '--out', 'demo', '--max_minutes', 0.1, cwd=tmp_path)
    said = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert int(re.search(r'(\d+) of 1000 held-out sequences exact', said)[1]) > 950 and re.search(r'BLEU [\d.]+ on 1000 held-out sentences', said)
    assert {p.name for p in (tmp_path/'demo').rglob('*.svg')} >= {'loss.svg', 'attention.svg'} and len((tmp_path/'demo/translations.txt').read_text().splitlines()) == 1000

def test_model_of_the_book():
    [command] = re.findall(r'`(tnb_translate nbs/models/[\w-]+)`', README)
    done = run(*command.split(), stdin=b'A man is riding a bicycle.\n', cwd=ROOT)
    assert done.returncode == 0 and done.stdout.decode().split()[0] in ('Ein', 'Mann')

def test_options():
    said = run('tnb_train', '--help').stdout.decode()
    named = set(re.findall(r'`--([a-z_]+)(?: (\w+))?`', README))
    assert len(named) >= 4
    for name, value in named: assert f'--{name}' in said and value in said, name
