"Files: strict reading, bounded downloads, damaged archives, splits without leaks."
import gzip, hashlib, io, os, random, re, zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
import pytest
from hypothesis import given, strategies as st
from transformer_nb import corpora
from transformer_nb.support.core import InputError
from transformer_nb.corpora import (
    PairFiles, _split_without_leaks, data_file,
    decode_lines, load_corpus, read_lines,
    read_pairs, tatoeba)
from transformer_nb.text import BPETokenizer

def split_lines(data, where): return list(decode_lines(io.BytesIO(data), where))

letters = st.characters(blacklist_characters='\n\r', blacklist_categories=['Cs'])
texts = st.lists(st.text(letters), min_size=1)

@given(texts)
def test_lines_come_back(lines):
    if lines == ['']: return # one empty line without an end is an empty file
    if lines[0].startswith('\ufeff'): return
    if lines[-1]: assert split_lines('\n'.join(lines).encode(), 'x') == lines
    for end in ('\n', '\r\n'):
        text = ''.join(line + end for line in lines)
        for bom in ('', '\ufeff'): assert split_lines((bom + text).encode(), 'x') == lines

@given(st.binary())
def test_any_bytes_are_read_or_refused_with_their_line(raw):
    try: lines = split_lines(raw, 'file')
    except InputError as e: assert re.match('file(:.*UTF-8| is UTF-16| is packed)', str(e))
    else:
        n_lines = raw.removesuffix(b'\n').count(b'\n') + 1 if raw else 0
        assert len(lines) == n_lines

def test_the_longest_line():
    longest = 'x' * (2**20 - 1) + '\n'
    assert len(split_lines(longest.encode()*2, 'x')[1]) == 2**20 - 1
    with pytest.raises(InputError, match='f:3: more than 1048576 bytes without a line end'):
        split_lines(b'a\nb\nx' + longest.encode(), 'f')

def test_endless_input_is_not_read_to_its_end(tmp_path):
    with pytest.raises(InputError, match='/dev/zero:1: more than'): read_lines('/dev/zero')
    (tmp_path/'nul.gz').write_bytes(gzip.compress(bytes(20_000_000)))
    with pytest.raises(InputError, match='nul.gz:1: more than'):
        read_lines(tmp_path/'nul.gz')

def test_gzip(tmp_path):
    (tmp_path/'a.gz').write_bytes(gzip.compress('\ufeffä\nb\n'.encode()))
    assert read_lines(tmp_path/'a.gz') == ['ä', 'b']
    whole = gzip.compress(random.randbytes(5000).hex().encode())
    (tmp_path/'b.gz').write_bytes(whole[:-20])
    (tmp_path/'c.gz').write_bytes(b'no gzip')
    for name in ('b.gz', 'c.gz'):
        with pytest.raises(InputError, match=f'{name}: not a whole gzip file'):
            read_lines(tmp_path/name)

# pairs of files

def write_lines(path, n): path.write_text(''.join(f'{path.name} {i}\n' for i in range(n)))

@pytest.fixture
def files(tmp_path):
    "Options of a training on files of one's own"
    sizes = dict(src=3, tgt=3, valid_src=2, valid_tgt=2)
    for name, n in sizes.items(): write_lines(tmp_path/name, n)
    return {name: tmp_path/name for name in sizes}

@pytest.mark.smoke
def test_pairs_are_read_anew_at_every_pass(files):
    corpus = load_corpus(**files)
    expected = [(f'src {i}', f'tgt {i}') for i in range(3)]
    for _ in range(2): assert list(corpus['train']) == expected
    assert list(corpus['valid']) == read_pairs(files['valid_src'], files['valid_tgt'])
    first = next(iter(corpus['train'])) # not everything is read
    assert first == expected[0] and list(corpus['train']) == expected

@pytest.mark.parametrize('n_src, n_tgt', [(3, 2), (0, 3)])
def test_both_counts_are_named(tmp_path, n_src, n_tgt):
    write_lines(tmp_path/'a', n_src)
    write_lines(tmp_path/'b', n_tgt)
    expected = f'a has {n_src} lines and .*b has {n_tgt}; they must match'
    with pytest.raises(InputError, match=expected): read_pairs(tmp_path/'a', tmp_path/'b')
    pairs = PairFiles(tmp_path/'a', tmp_path/'b')
    with pytest.raises(InputError, match=expected): # while a vocabulary is learned
        BPETokenizer.train((text for pair in pairs for text in pair), 300)

@pytest.mark.parametrize('name', ['src', 'valid_tgt'])
def test_all_files_are_checked_before_the_work(files, name):
    files[name].unlink()
    with pytest.raises(InputError, match=f'{name} is missing'): load_corpus(**files)
    os.mkfifo(files[name]) # would be empty at the second pass
    with pytest.raises(InputError, match='not a plain file'): load_corpus(**files)

# downloads

def test_a_download_is_checked_kept_and_read_again(tmp_path):
    source = tmp_path/'source'
    source.write_bytes(b'some data')
    sha = hashlib.sha256(b'some data').hexdigest()
    path = data_file('x.gz', source.as_uri(), tmp_path/'cache', sha)
    assert path.parent.name == 'cache'
    source.unlink() # from now on there is no network
    again = data_file('x.gz', source.as_uri(), tmp_path/'cache', sha)
    assert again.read_bytes() == b'some data'
    path.write_bytes(b'some dato')
    with pytest.raises(InputError, match='SHA-256 is not .* remove it'):
        data_file('x.gz', '', tmp_path/'cache', sha)

@contextmanager
def server(answer): # a function that writes a reply, byte by byte
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            try: answer(self.wfile.write)
            except OSError: pass # the other side has hung up
        def log_message(self, *args): pass
    with HTTPServer(('127.0.0.1', 0), Handler) as running:
        Thread(target=running.serve_forever, kwargs=dict(poll_interval=0.01)).start()
        try: yield f'http://127.0.0.1:{running.server_port}/x'
        finally: running.shutdown()

OK = b'HTTP/1.1 200 OK\r\n'

@pytest.mark.parametrize('reply, reason', [
    (OK + b'Transfer-Encoding: chunked\r\n\r\n5\r\nha', 'IncompleteRead'),
    (OK + b'Transfer-Encoding: chunked\r\n\r\nzz\r\nha', 'IncompleteRead'),
    (b'garbage\r\n\r\n', 'garbage'),
    (b'', 'closed connection'),
    (OK + b'Content-Length: ten\r\n\r\nx', 'invalid literal'),
    (b'HTTP/1.1 500 no\r\n\r\n', 'HTTP Error 500'),
    (OK + b'X: ' + b'x'*70_000 + b'\r\n\r\nx', 'more than')])
def test_a_broken_download_is_one_line_and_nothing_is_kept(reply, reason, tmp_path):
    with server(lambda write: write(reply)) as url:
        with pytest.raises(InputError, match=rf'cannot be downloaded \(.*({reason})'):
            data_file('x', url, tmp_path/'cache')
    assert not any((tmp_path/'cache').iterdir())

# Tatoeba

def zipped(folder, method=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(folder/'deu-eng.zip', 'w', method) as archive:
        for name, text in members.items():
            path = name.replace('__', '../').replace('_', '.')
            archive.writestr(path, text)
    return folder

def test_tatoeba(tmp_path):
    rows = [('Hi.', 'Hallo!', 'CC-BY 2.0'),
            ('Hi.', 'Grüß Gott!', ''),
            ('Cheers!', 'Prost!', ''),
            ('I did it.', 'Ich habe es getan.', '')]
    text = ''.join('\t'.join(row) + '\n' for row in rows)
    zipped(tmp_path, deu_txt='\ufeff' + text, __escape_txt='out')
    corpus = load_corpus('tatoeba', 'en', 'de', tmp_path)
    assert corpus == dict(train=[('Hi.', 'Hallo!'), ('Hi.', 'Grüß Gott!')],
                          valid=[('Cheers!', 'Prost!')],
                          test=[('I did it.', 'Ich habe es getan.')])
    assert [path.name for path in tmp_path.iterdir()] == ['deu-eng.zip']
    assert not (tmp_path.parent/'escape.txt').exists()

ROW_OF_THREE = 'Hi.\tSalut !\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (a)\n'

@pytest.mark.parametrize('lang, code', [('fr', 'fra'), ('fra', 'fra'), ('zh', 'cmn'),
                                        ('qqq', 'qqq')]) # which our table lacks
def test_any_language_of_tatoeba(lang, code, tmp_path):
    "By either standard, with English by either; authors are no sentence"
    (tmp_path/f'tatoeba-{code}-eng').mkdir()
    with zipfile.ZipFile(tmp_path/f'tatoeba-{code}-eng'/f'{code}-eng.zip', 'w') as archive:
        archive.writestr(f'{code}.txt', ROW_OF_THREE)
    pair = 'Salut !', 'Hi.'
    for en in ('en', 'eng'):
        assert load_corpus('tatoeba', lang, en, tmp_path)['train'] == [pair]
        assert load_corpus('tatoeba', en, lang, tmp_path)['train'] == [pair[::-1]]

@pytest.mark.parametrize('src, tgt, message', [
    ('en', 'fr!', "'fr!' is not a language of tatoeba; do you mean fr"),
    ('zz', 'en', "'zz' is not a language of tatoeba; known are af, ar"),
    ('en', 'frq', 'it cannot be downloaded'),
    ('de', 'fr', 'pairs English with another language'),
    ('en', 'eng', 'pairs English with another language')])
def test_a_language_that_tatoeba_cannot_have(src, tgt, message, tmp_path, monkeypatch):
    def fails(*_): raise InputError('it cannot be downloaded')
    monkeypatch.setattr(corpora, 'data_file', fails)
    with pytest.raises(InputError, match=message):
        load_corpus('tatoeba', src, tgt, tmp_path)

def assert_no_leak(corpus):
    for side in (0, 1):
        train, valid, test = [{pair[side] for pair in corpus[split]}
                              for split in ('train', 'valid', 'test')]
        assert not train & valid and not train & test and not valid & test

numbers = st.integers(0, 40)

@given(st.lists(st.tuples(numbers, numbers), max_size=60))
def test_no_sentence_leaks_whatever_the_pairs(rows):
    pairs = [(f'Satz {g}', f'sentence {3*e}') for g, e in rows]
    corpus = _split_without_leaks(pairs)
    assert_no_leak(corpus)
    kept = [pair for split in corpus.values() for pair in split]
    held_out = {g for split in ('valid', 'test') for g, _ in corpus[split]}
    for pair in pairs: # nothing is left out without need
        assert pair in kept or pair[0] in held_out

# Everyday sentences

def test_everyday_changes_only_the_training_set(tmp_path):
    rows = [('Hi.', 'Hallo!'), ('Cheers!', 'Prost!'), ('I did it.', 'Ich habe es getan.'),
            ('WHERE is the train station', 'Wo ist hier der Bahnhof?'), # in the list
            ('Where is the station?', 'Wo ist der Bahnhof?')]           # a reference of it
    rows += [('Go away!', 'Geh weg!'), ('Go away!', 'Verschwinde!'), ('Leave!', 'Geh weg!')]
    rows += [(f'Tom saw {i} of Tom’s dogs.', f'Tom sah {i} von Toms Hunden.')
             for i in range(1000)]
    zipped(tmp_path, deu_txt=''.join(f'{e}\t{g}\n' for e, g in rows))
    plain = load_corpus('tatoeba', 'en', 'de', tmp_path)
    corpus = load_corpus('everyday', 'en', 'de', tmp_path)
    for split in ('valid', 'test'): assert corpus[split] == plain[split]
    left_out = {'WHERE is the train station', 'Where is the station?', 'Verschwinde!'}
    kept = [pair for pair in plain['train'] if left_out.isdisjoint(pair)]
    assert len(corpus['train']) == len(kept) == len(plain['train']) - 3
    for before, after in zip(kept, corpus['train']):
        name = after[0].split()[0]
        assert after == tuple(text.replace('Tom', name) for text in before)
    into_english = load_corpus('everyday', 'de', 'en', tmp_path)['train']
    assert ('Geh weg!', 'Go away!') in into_english
    assert ('Geh weg!', 'Leave!') not in into_english
    assert ('Verschwinde!', 'Go away!') in into_english

def change(data, at, *new): return data[:at] + bytes(new) + data[at + len(new):]

def whole_archive(folder):
    text = ''.join(f'Sentence {i}.\tSatz {i}.\n' for i in range(300))
    zipped(folder, zipfile.ZIP_DEFLATED, deu_txt=text)
    data = (folder/'deu-eng.zip').read_bytes()
    return data, data.index(b'PK\1\2') # where its directory begins

DAMAGES = dict(
    empty=lambda data, directory: b'',
    text=lambda data, directory: b'no archive',
    half=lambda data, directory: data[:len(data)//2],
    corrupt_deflate=lambda data, directory: change(data, 60, *[255]*40),
    encrypted=lambda data, directory: change(data, directory + 8, 1),
    method_98=lambda data, directory: change(data, directory + 10, 98),
    checksum=lambda data, directory: change(data, directory + 16, 1, 2, 3, 4),
    moved=lambda data, directory: change(data, len(data) - 6, *[255]*3 + [127]))

def test_a_damaged_archive_is_to_be_removed(tmp_path):
    whole = whole_archive(tmp_path)
    for damage in DAMAGES.values():
        (tmp_path/'deu-eng.zip').write_bytes(damage(*whole))
        with pytest.raises(InputError, match=r'deu-eng.zip is damaged \(.*\); remove it'):
            tatoeba(tmp_path)

def test_another_archive(tmp_path):
    for members in (dict(readme='x'), dict(deu_txt='')):
        with pytest.raises(InputError, match='damaged .*; remove it'):
            tatoeba(zipped(tmp_path, **members))
    zipped(tmp_path, deu_txt='a\tb\nnothing\n')
    with pytest.raises(InputError, match='deu.txt:2: no tab'): tatoeba(tmp_path)
