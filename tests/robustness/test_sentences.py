"What may stand in a text: byte order marks, odd line ends, endless lines, escapes."
import gzip, json, os, random, select, shlex, subprocess
from functools import partial
from pathlib import Path
from watched import (
    BIN, TEXT, Ran, Scene, check_end, check_result, must, refuses, snapshot, works)
from staged import (
    SHORT, TRAIN, TRANSLATE, after, bits, cases, edit, runs, seal, setting, unsealed)
from transformer_nb.support.core import InputError
from transformer_nb.translation import Translator

BOM = b'\xef\xbb\xbf'

@cases
def test_byte_order_marks():
    for text in (b'Ein Hund rennt.\n', TEXT, b'x\n', b'Ein Hund rennt.'):
        yield f'stdin {text[:9]!r}', partial(bom_in_stdin, text=text)
    yield 'a file', partial(bom_in_file, name='text')
    yield 'a .gz file', partial(bom_in_file, name='text.gz')
    yield 'to train on', bom_in_training
    yield 'to evaluate', bom_in_evaluation
    yield 'run.yaml', after(partial(prepend, name='tiny.yaml'), works, TRAIN, may='new')
    yield 'nothing else', runs('tnb_translate m', stdin=BOM, check=Scene.run)
    yield 'in a later line', runs('tnb_translate m', stdin=b'x\n' + BOM + b'x\n')
    utf16 = 'Ein Hund.\n'.encode('utf-16')
    yield 'UTF-16', runs('tnb_translate m', refuses, stdin=utf16)

def prepend(scene, name):
    path = scene/name
    path.write_bytes(BOM + path.read_bytes())

def bom_in_stdin(scene, text):
    plain = works(scene, 'tnb_translate m', stdin=text)
    marked = works(scene, 'tnb_translate m', stdin=BOM + text)
    must(plain.out == marked.out, f'{marked.out[:40]} instead of {plain.out[:40]}')

def bom_in_file(scene, name):
    pack = gzip.compress if name.endswith('.gz') else bytes
    (scene/name).write_bytes(pack(BOM + TEXT))
    plain = works(scene, 'tnb_translate m')
    marked = works(scene, f'tnb_translate m {name}')
    must(plain.out == marked.out, f'{marked.out[:40]} instead of {plain.out[:40]}')

def bom_in_training(scene):
    works(scene, TRAIN, may='new')
    for name in ('train.de', 'train.en', 'valid.de', 'valid.en'): prepend(scene, name)
    works(scene, TRAIN.replace('new', 'marked'), may='marked')
    same = bits(scene/'new') == bits(scene/'marked')
    must(same, 'another model is trained')

def bom_in_evaluation(scene):
    plain = works(scene, f'tnb_evaluate m {SHORT}')
    for name in ('short.de', 'short.en'): prepend(scene, name)
    marked = works(scene, f'tnb_evaluate m {SHORT}')
    scores = [json.loads(ran.out)['bleu'] for ran in (plain, marked)]
    must(scores[0] == scores[1], f'BLEU {scores}')

# Lines

LINES = {
    'CRLF': b'Ein Hund.\r\nEine Katze.\r\n', 'a lone CR': b'Ein\rHund.\n',
    'NUL': b'a\x00b\nc\n', 'U+2028': 'a\u2028b\nc\n'.encode(),
    'U+0085': 'a\x85b\nc\n'.encode(), 'form feed': b'a\x0cb\x0bc\n',
    'no end': b'Ein Hund.', 'empty lines': b'\n\n\n',
    'spaces': b'  \n\t\nx\n', 'an escape': b'\x1b[31mx\n', 'emoji': '🐕‍🦺\n'.encode(),
    'combining': ('e' + '\u0301' * 500 + '\n').encode(), 'right to left': 'שלום\n'.encode(),
    'special tokens': b'<pad> <s> </s> <unk>\n', 'bars': b'a ||| b\n',
    'controls': b'\x01\x02\x03\x07\x08\n', 'the largest': '\U0010ffff\n'.encode(),
    'CR CR LF': b'a\r\r\n'}

NOT_UTF8 = (b'\xff\n', b'ok\nf\xfcr\n', b'\xed\xa0\x80\n', b'\xc0\x80\n', b'\xe2\x82',
            b'\xf5\x80\x80\x80\n')

@cases
def test_line_ends():
    for name, text in LINES.items(): yield name, partial(works, work=TRANSLATE, stdin=text)
    for text in NOT_UTF8: yield f'{text}', partial(refuses, work=TRANSLATE, stdin=text)
    yield 'nothing', partial(Scene.run, work=TRANSLATE, stdin=b'')
    yield 'a pipe is answered line by line', line_by_line
    for text in ('tnb_translate m --n_best 4', f'tnb_evaluate m {SHORT}',
                 'tnb_translate m train.de --beam_size 1', 'tnb_export m new',
                 f'tnb_evaluate f {SHORT} --average 2',
                 f'tnb_evaluate m {SHORT} --lang en'):
        yield text, partial(Scene.run, work=text, may='new')

def line_by_line(scene):
    "As an editor or a server would ask"
    (in_reading, in_writing), (out_reading, out_writing) = os.pipe(), os.pipe()
    child = scene.start(TRANSLATE, stdin=in_reading, stdout=out_writing)
    try:
        for n in range(1, 8):
            os.write(in_writing, b'Ein Hund rennt.\n')
            ready, _, _ = select.select([out_reading], [], [], 5)
            must(ready, f'line {n} is not answered before the next is there')
            answer = os.read(out_reading, 10_000)
            must(answer.count(b'\n') == 1, f'{answer}')
    finally:
        for number in (in_reading, in_writing, out_reading, out_writing): os.close(number)
        child.kill()

@cases
def test_endless_lines():
    yield 'a .gz of 200 MB of NULs', nuls_squeezed
    yield '1 GB of NULs', partial(sparse, size=10**9)
    yield '20 GB of NULs', partial(sparse, size=20 * 10**9)
    for text in ('tnb_translate m /dev/zero',
                 'tnb_evaluate m --src /dev/zero --ref short.en',
                 f'{TRAIN} --src /dev/zero', f'{TRAIN} --config /dev/zero',
                 'tnb_evaluate m --src short.de --ref /dev/zero',
                 f'{TRAIN} --tokenizer /dev/zero'):
        yield text, runs(text, refuses)
    yield 'stdin is /dev/zero', zero_stdin
    for size in (10**4, 10**5, 9 * 10**5):
        for letter in ('a', 'ab ', 'ü'):
            text = (letter * (size // len(letter)) + '\nEin Hund.\n').encode()
            yield f'a line of {size} {letter!r}', runs('tnb_translate m', stdin=text)
    yield 'a pipe as a file', pipe_as_file

def nuls_squeezed(scene):
    with gzip.open(scene/'text.gz', 'wb', 1) as file:
        for _ in range(200): file.write(bytes(10**6))
    refuses(scene, 'tnb_translate m text.gz')

def sparse(scene, size):
    with open(scene/'text', 'wb') as file: file.truncate(size)
    try: ran = scene.start('tnb_translate m text').wait()
    finally: (scene/'text').unlink()
    check_end(ran)
    must(ran.status == 2, 'accepted')

def zero_stdin(scene):
    ran = scene.run('tnb_translate m', stdin=Path('/dev/zero'))
    must(ran.status == 2, 'accepted')

def pipe_as_file(scene):
    "Such as the shell makes of <(zcat file)"
    reading, writing = os.pipe()
    os.write(writing, TEXT)
    os.close(writing)
    child = scene.start('tnb_translate m /dev/stdin', stdin=reading)
    os.close(reading)
    ran = child.wait()
    check_end(ran)
    check_result(scene, ran, TEXT)

# Strings, escapes and names

ESCAPE = '\x1b[31mred\x07'

NAMES = (b'\xff', b'a\xffb', 'ü'.encode(), b'with space', b'-x', b'a\nb', b'x' * 300, b'',
         b"quote'", b'\x1b[31m', '\u202e'.encode(), b'a/../new', b'new/')

@cases
def test_strings():
    for text in ('Ein Hund.', 'x', ''):
        yield f'translate({text!r})', partial(bare_string, text=text)
    for name in ('norm', 'positions', 'd_model', ESCAPE):
        change = edit('config.json', setting('model', name, value=ESCAPE))
        yield f'escapes in {name!r}', after(change, escapes)
    for keys in (['format'], ['sha256', 'tokenizer.json']):
        change = unsealed(setting(*keys, value=ESCAPE))
        yield f'escapes in {keys[0]}', after(change, escapes)
    for file in ('tokenizer.json', 'config.json', 'model.safetensors'):
        data = f'{{"{ESCAPE}": "{ESCAPE}"}}'.encode()
        yield f'escapes in {file}', partial(escape_file, name=file, data=data)
    for name in NAMES:
        yield f'--out {name!r}', partial(strange_name, name=name)
        yield f'translate {name!r}', partial(strange_source, name=name)
    for env in (dict(LC_ALL='C'), dict(LC_ALL='C', PYTHONUTF8='0', PYTHONCOERCECLOCALE='0'),
                dict(PYTHONIOENCODING='ascii')):
        yield f'{env}', partial(other_locale, env=env)

def bare_string(scene, text):
    "A line that says so, instead of a translation of every letter"
    def translate(): print(Translator('m').translate(text))
    refuses(scene, translate)

def escapes(scene): refuses(scene, TRANSLATE)

def escape_file(scene, name, data):
    (scene/'m'/name).write_bytes(data)
    if name != 'config.json': seal(scene/'m')
    refuses(scene, TRANSLATE)

def strange_name(scene, name):
    "Either it is refused before anything is trained, or it works"
    args = [*shlex.split(TRAIN)[:-1], os.fsdecode(name)]
    before = snapshot(scene.folder)
    ran = scene.start(args).wait()
    check_end(ran)
    if ran.status: scene.check_files(before)

def other_locale(scene, env):
    "In a new process, since a locale belongs to the start of one"
    run = subprocess.run([BIN/'tnb_translate', 'm'], input=TEXT, capture_output=True,
                         cwd=scene.folder, env=os.environ | env)
    ran = Ran('tnb_translate m', run.returncode, run.stdout, run.stderr.decode())
    check_end(ran)
    check_result(scene, ran, TEXT)

def strange_source(scene, name):
    path = os.path.join(os.fsencode(scene.folder), name)
    try: Path(os.fsdecode(path)).write_bytes(TEXT)
    except OSError: pass # there can be no such file
    scene.run(['tnb_translate', 'm', '--', os.fsdecode(name)])

# The same translations

@cases
def test_same_translations():
    for n in (64, 1000): yield f'batches of {n} tokens', partial(batch_sizes, n=n)
    yield 'shuffled', shuffled
    yield '500 duplicates', duplicates
    yield 'four threads', four_threads
    yield 'flat memory', flat_memory

def batch_sizes(scene, n):
    plain = scene.run('tnb_translate m train.de')
    other = scene.run(f'tnb_translate m train.de --search_tokens {n}')
    must(plain.out == other.out, 'other translations')

def shuffled(scene):
    lines = (scene/'train.de').read_bytes().splitlines(True)[:200]
    order = random.Random(0).sample(range(len(lines)), len(lines))
    plain = translated(scene, lines)
    other = translated(scene, [lines[i] for i in order])
    must([plain[i] for i in order] == other, 'other translations')

def translated(scene, lines):
    return works(scene, 'tnb_translate m', stdin=b''.join(lines)).out.splitlines()

def duplicates(scene):
    lines = translated(scene, [b'Ein Hund rennt.\n'] * 500)
    must(len(set(lines)) == 1, f'{len(set(lines))} translations of one sentence')

def four_threads(scene):
    def threads():
        from concurrent.futures import ThreadPoolExecutor
        translator = Translator('m')
        texts = Path('train.de').read_text().splitlines()[:60]
        parts = [texts[i:i + 15] for i in range(0, 60, 15)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(translator.translate, parts))
        if sum(found, []) != translator.translate(texts): raise InputError('others')
    ran = scene.run(threads)
    must(ran.status == 0, ran.error)

def flat_memory(scene):
    peaks = []
    lines = (scene/'train.de').read_bytes().splitlines(True)
    for n in (2000, 10_000):
        text = b''.join(random.Random(n).choices(lines, k=n))
        child = scene.start('tnb_translate m --beam_size 1', stdin=text)
        check_end(child.wait(60))
        peaks.append(child.peak / 2**20)
    must(peaks[1] < peaks[0] + 50, f'{peaks[0]:.0f} MB, then {peaks[1]:.0f} MB')
