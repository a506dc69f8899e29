"Downloads that are interrupted or are something else; damaged results and archives."
import gzip, hashlib, os, signal, socket, time, urllib.request, zipfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
import yaml
from watched import Scene, copes, must, refuses, works
from staged import TINY, TRAIN, after, cases, flip, overwrite
from transformer_nb import corpora

@contextmanager
def server(reply):
    "The address of one that answers every request so, in a process of its own"
    listening = socket.create_server(('127.0.0.1', 0))
    port = listening.getsockname()[1]
    pid = os.fork()
    if pid == 0: serve(listening, reply)
    listening.close()
    try: yield f'http://127.0.0.1:{port}/file'
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

def serve(listening, reply): # until it is killed
    while True:
        connection, _ = listening.accept()
        try:
            with connection:
                connection.recv(10_000)
                for part in reply(): connection.sendall(part)
        except OSError: pass

def parts(*data): return lambda: data

def head(length, more=''):
    return f'HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{more}\r\n'.encode()

def endless():
    yield b'HTTP/1.1 200 OK\r\n\r\n'
    while True: yield bytes(2**20)

def larger(): # than memory
    yield head(10**12)
    while True: yield bytes(2**20)

def silent():
    time.sleep(60)
    yield b''

def dripping():
    yield head(10**6)
    while True:
        time.sleep(0.05)
        yield b'x'

CHUNKED = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

REPLIES = {
    'too short': parts(head(1000), b'only this'),
    'a bad chunk': parts(CHUNKED, b'ZZ\r\nxx\r\n'),
    'a chunk cut off': parts(CHUNKED, b'ff\r\nxx'),
    'garbage': parts(b'\x00\xff\x13garbage\r\n\r\n'),
    'nothing': parts(),
    'a very long header': parts(b'HTTP/1.1 200 OK\r\nX: ' + b'x' * 10**6 + b'\r\n\r\n'),
    'many headers': parts(b'HTTP/1.1 200 OK\r\n' + b'X: y\r\n' * 1000 + b'\r\n'),
    'a bad length': parts(head('many'), b'x'),
    'a negative length': parts(head(-5), b'x'),
    'a bad status': parts(b'HTTP/1.1 abc OK\r\n\r\n'),
    'not there': parts(b'HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n'),
    'an error': parts(b'HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n'),
    'round and round': parts(b'HTTP/1.1 302 Found\r\nLocation: /file\r\n\r\n'),
    'elsewhere, badly': parts(b'HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n'),
    'to a local file': parts(b'HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n'),
    'another file': parts(head(5), b'other'),
    'an empty file': parts(head(0)),
    'without end': endless,
    'a terabyte': larger,
    'drop by drop': dripping,
    'silent': silent}

@cases
def test_downloads():
    for name, reply in REPLIES.items(): yield name, partial(bad_download, reply=reply)
    yield 'nobody there', partial(fetch, url='http://127.0.0.1:9/file', check=refuses)
    yield 'as it should be', good_download

def fetch(scene, url, check, content=b'right'):
    sha256 = hashlib.sha256(content).hexdigest()
    def download():
        hurry()
        corpora.data_file('file', url, Path('cache'), sha256)
    check(scene, download, may='cache')

def hurry():
    "The clock runs 300 times as fast, and who is silent is given up after a second"
    urlopen, clock = urllib.request.urlopen, time.monotonic
    def soon(*args, timeout, **more): return urlopen(*args, timeout=timeout/30, **more)
    def fast(): return 300 * clock()
    urllib.request.urlopen = soon
    time.monotonic = time.perf_counter = time.time = fast
    corpora.monotonic = corpora.perf_counter = fast # however it is imported there

def bad_download(scene, reply):
    with server(reply) as url: fetch(scene, url, refuses)
    must(not list(scene.folder.glob('cache/*')), 'it is stored all the same')

def good_download(scene):
    with server(parts(head(5), b'right')) as url: fetch(scene, url, Scene.run)
    must((scene/'cache/file').read_bytes() == b'right', 'not stored')

# Damaged archives

def archive(content=None, name='deu.txt'):
    "By default a good one"
    def prepare(scene):
        texts = [(scene/f'train.{side}').read_text() for side in ('en', 'de')]
        sides = [text.splitlines() for text in texts]
        good = ''.join(f'{english}\t{german}\n' for english, german in zip(*sides))
        text = good if content is None else content
        with zipfile.ZipFile(scene/'deu-eng.zip', 'w', zipfile.ZIP_DEFLATED) as file:
            file.writestr(name, text)
    return prepare

def altered_archive(change): # of its bytes
    def prepare(scene):
        archive()(scene)
        path = scene/'deu-eng.zip'
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)
    return prepare

def field(local, central, new):
    "The same field in the file's own header and in the archive's directory"
    def change(data):
        start = data.index(b'PK\x01\x02')
        for place in (local, start + central): data[place:place + len(new)] = new
    return altered_archive(change)

def corrupt(data): data[45:60] = b'\xff' * 15
def cut_off(data): del data[-300:]
def cut_within(data): del data[100:2000]
def bit_within(data): data[len(data) // 2] ^= 4

def bomb(scene):
    packing = dict(compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    with zipfile.ZipFile(scene/'deu-eng.zip', 'w', **packing) as file:
        with file.open('deu.txt', 'w', force_zip64=True) as text:
            for _ in range(3000): text.write(bytes(10**6))

ARCHIVES = {
    'corrupt deflate': altered_archive(corrupt), 'cut off': altered_archive(cut_off),
    'cut within': altered_archive(cut_within), 'a bit': altered_archive(bit_within),
    'method 98': field(8, 10, b'\x62\x00'), 'encrypted': field(6, 8, b'\x01\x00'),
    'a false checksum': field(14, 16, b'1234'), 'a false size': field(22, 24, b'5\0\0\0'),
    'empty': archive(b''),
    'only a line end': archive(b'\n'), 'no tab': archive(b'Hi.\n'),
    'not UTF-8': archive(b'\xff\tx\n'), 'another file': archive(b'x', 'x.txt'),
    'a folder': archive(b'', 'deu.txt/'), 'a path': archive(b'x', '../../deu.txt'),
    'not a zip': overwrite('deu-eng.zip', b'x' * 99),
    'no bytes': overwrite('deu-eng.zip', b''),
    'only an end': overwrite('deu-eng.zip', b'PK\x05\x06' + bytes(18)),
    'three gigabytes': bomb}

def squeezed(change=bytes):
    def prepare(scene):
        data = gzip.compress((scene/'train.de').read_bytes())
        (scene/'train.gz').write_bytes(change(data))
    return prepare

SQUEEZED = {
    'cut off': lambda data: data[:-20], 'a byte short': lambda data: data[:-1],
    'only a head': lambda data: data[:10], 'empty': lambda data: b'',
    'a false checksum': lambda data: flip(data, -6),
    'a false size': lambda data: flip(data, -2),
    'more after it': lambda data: data + b'garbage',
    'not gzip': lambda data: b'Ein Hund.\n',
    'a false method': lambda data: flip(data, 2),
    'false flags': lambda data: flip(data, 3)}

@cases
def test_archives():
    yield 'deu-eng.zip as it should be', after(archive(), archive_case, works)
    for name, damage in ARCHIVES.items():
        yield f'deu-eng.zip: {name}', after(damage, archive_case, refuses)
    train = f'{TRAIN} --src train.gz'
    for name, change in SQUEEZED.items():
        yield f'train.gz: {name}', after(squeezed(change), refuses, train)
        yield f'to translate: {name}', after(squeezed(change), gz_case)
    for place in range(0, 3000, 300):
        damage = squeezed(partial(flip, place=place))
        yield f'train.gz: byte {place} changed', after(damage, copes, train, may='new')
    for name in ('train.de.gz', 'val.en.gz'):
        yield f'multi30k: a false {name}', partial(false_multi30k, name=name)

def archive_case(scene, check):
    data = dict(corpus='tatoeba', data_dir='.', vocab_size=400, batch_tokens=512)
    (scene/'tiny.yaml').write_text(yaml.safe_dump(dict(TINY, data=data)))
    check(scene, TRAIN, may='new')

def gz_case(scene):
    "What could be read may have been translated"
    ran = scene.run('tnb_translate m train.gz')
    empty = (scene/'train.gz').stat().st_size == 0
    must(ran.status == 2 or empty, 'accepted')

def false_multi30k(scene, name):
    (scene/'multi30k').mkdir()
    (scene/'multi30k'/name).write_bytes(gzip.compress(b'Hi.\n'))
    for other in ('train.en.gz', 'train.de.gz'):
        (scene/'multi30k'/other).write_bytes(gzip.compress(b'Hi.\n'))
    refuses(scene, 'tnb_train --out new --corpus multi30k --data_dir .')
