"Every command and every snippet of README.md is run; only times are cut short."
import os, re, subprocess, sys
import pytest
from markdown_it import MarkdownIt
from running import BIN, ROOT, write
from transformer_nb.lessons.grammar import mini_corpus

def test_emphasis_of_a_caption_ends(): # `at* it*, where*` would leave an asterisk
    for path in (ROOT/'nbs').glob('*.ipynb'):
        for line in re.findall(r'^ +"(\*Fig.*?)(?:\\n)?",?$', path.read_text('utf8'), re.M):
            assert '*' not in MarkdownIt().render(line), line

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
