"""The page without a browser: `tests/js/*.test.mjs`, run by `node --test`, drive its own
script with an engine that only says what it was asked. All is decided by a clock of its
own, and nothing by the machine's.
"""
import json, os, subprocess, sys
from pathlib import Path
import pytest
from node import NODE
from transformer_nb.formats.page import _join, _read, _tokenizer_header
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.reading import packed_reading
from transformer_nb.text import BPETokenizer

HERE = Path(__file__).parent
CONFIG = dict(n_heads=2, n_encoder_layers=2, n_decoder_layers=2, d_model=8, d_ff=8, d_k=4,
              vocab_size=10_000_000, max_len=512)
LANGUAGES = dict(en='English', de='German')

def header_of(src, tgt, tokenizer):
    title = f'{LANGUAGES[src]} → {LANGUAGES[tgt]}, sentences'
    examples = [dict(text=text) for text in ('A dog sleeps.', 'A cat sees a dog.', 'Go!')]
    tour = [dict(link=f'type?t=A+tour+{end}.', point='#tgt', says='', asks='')
            for end in ('begins', 'ends')]
    return dict(key=f'{src}-{tgt}', title=title, src=LANGUAGES[src], tgt=LANGUAGES[tgt],
                config=CONFIG, n_parameters=1000, checksum='0123456789abcdef', check=None,
                search=dict(beam_size=4, alpha=0.6, max_extra=50), heads={}, read=None,
                promise='', credit='', examples=examples, tour=tour,
                patterns=packed_reading(), **_tokenizer_header(tokenizer))

def write_page(path):
    sentences = [text for pair in mini_corpus(0, 200, 0, 0)['train'] for text in pair]
    tokenizer = BPETokenizer.train(sentences, 300)
    headers = [header_of(*pair, tokenizer) for pair in (('en', 'de'), ('de', 'en'))]
    is_old = 'modules.field' not in (script := _join('page')) # of the fourth edition
    page = dict(script=script, markup=_read('page.html'), headers=headers, is_old=is_old)
    path.write_text(json.dumps(page), 'utf8')

@pytest.mark.parametrize('name', [path.name for path in (HERE/'js').glob('*.test.mjs')])
def test_in_node(name, tmp_path):
    write_page(tmp_path/'page.json')
    done = subprocess.run([NODE, '--test', HERE/'js'/name], text=True, encoding='utf8',
                          capture_output=True, timeout=300,
                          env=os.environ | dict(TNB_PAGE=str(tmp_path/'page.json')))
    assert done.returncode == 0, done.stdout + done.stderr

if __name__ == '__main__': write_page(Path(sys.argv[1])) # for `node --test` by hand
