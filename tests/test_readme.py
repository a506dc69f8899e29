"Every command and every snippet of README.md is run; only times are cut short."
import os, re, subprocess, sys
import pytest
from running import BIN, ROOT, call_script, run, write
from transformer_nb import commands
from transformer_nb.lessons import grammar
from transformer_nb.commands import tnb_demo
from transformer_nb.copy_task import train_copy
from transformer_nb.lessons.grammar import mini_corpus

README = (ROOT/'README.md').read_text(encoding='utf8')
BLOCKS = re.findall(r'```(\w*)\n(.*?)```', README, re.S)

def test_python():
    "The snippet prints what stands below it"
    [place] = [i for i, (kind, _) in enumerate(BLOCKS) if kind == 'python']
    (_, code), (_, printed) = BLOCKS[place:place + 2]
    command = [sys.executable, '-W', 'error', '-c', code]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == printed

def write_small_corpus(folder):
    pairs = mini_corpus(0, 300, 0, 0)['train']
    for name, part in dict(train=pairs, valid=pairs[:50], test=pairs[50:100]).items():
        for side, lang in enumerate(('de', 'en')):
            write(folder/f'{name}.{lang}', [pair[side] for pair in part])
    write(folder/'sentences.de', ['Das ist gut.', '', pairs[0][0]])

@pytest.mark.slow
def test_own_text(tmp_path):
    pytest.importorskip('ctranslate2')
    write_small_corpus(tmp_path)
    [block] = [text for kind, text in BLOCKS if kind == 'sh' and '--max_minutes 30' in text]
    assert block.count('--max_minutes 30') == 1
    script = block.replace('--max_minutes 30', '--max_steps 4')
    env = {**os.environ, 'PATH': f'{BIN}{os.pathsep}{os.environ["PATH"]}'}
    done = subprocess.run(['bash', '-euc', script], cwd=tmp_path, env=env,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path/'sentences.en').read_text().splitlines()) == 3
    assert '"bleu"' in done.stdout
    assert (tmp_path/'model_ct2/model.bin').exists()
    assert 'tnb:' not in (tmp_path/'page.html').read_text(encoding='utf8')[:2000]

@pytest.mark.slow
def test_demo(tmp_path, monkeypatch):
    "With a third of the copy task's steps, and 50 sentences to translate, not 1,000"
    small = mini_corpus(0, 2000, 30, 50)
    monkeypatch.setattr(grammar, 'mini_corpus', lambda: small)
    def shorter(model, steps): return train_copy(model, 700)
    monkeypatch.setattr(commands, 'train_copy', shorter)
    done = call_script(tnb_demo, '--out', tmp_path/'demo', '--max_minutes', 0.05)
    printed = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    exact = re.search(r'(\d+) of 1000 held-out sequences exact', printed)
    assert int(exact[1]) > 500
    assert re.search(r'BLEU [\d.]+ on 50 held-out sentences', printed)
    figures = {p.name for p in (tmp_path/'demo').rglob('*.svg')}
    assert figures >= {'loss.svg', 'attention.svg'}
    translations = (tmp_path/'demo/translations.txt').read_text(encoding='utf8')
    assert len(translations.splitlines()) == 50
    assert 'too few to learn from' in printed # in three seconds

def test_model_of_the_book(tmp_path):
    [command] = re.findall(r'`(tnb_translate everyday-[\w-]+)`', README)
    done = run(*command.split(), stdin=b'I love you.\n', cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.decode() in README
