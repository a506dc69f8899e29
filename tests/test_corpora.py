"Files: strict reading, bounded downloads, damaged archives, splits without leaks."
import errno, gzip, hashlib, io, os, random, re, time, zipfile
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
import pytest
from hypothesis import given, strategies as st
from transformer_nb import corpora
from transformer_nb.support.core import InputError
from transformer_nb.corpora import (
    PairFiles, _split_of_sentence, _split_without_leaks, _tatoeba_pairs, data_file,
    decode_lines, everyday_sentences, in_a_hurry, load_corpus, own_pairs, read_lines,
    read_pairs, tatoeba, with_other_names, with_typing, without_everyday_sentences)
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
        for bom in ('', '\ufeff'):
            assert split_lines((bom + text).encode(), 'x') == lines

@given(st.binary())
def test_any_bytes_are_read_or_refused_with_their_line(raw):
    try: lines = split_lines(raw, 'file')
    except InputError as e: assert str(e).startswith('file:') and 'UTF-8' in str(e)
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

@pytest.mark.parametrize('n_src, n_tgt', [(3, 2), (2, 3), (3, 0), (0, 3), (1, 1000)])
def test_both_counts_are_named(tmp_path, n_src, n_tgt):
    write_lines(tmp_path/'a', n_src)
    write_lines(tmp_path/'b', n_tgt)
    expected = f'a has {n_src} lines and .*b has {n_tgt}; they must match'
    with pytest.raises(InputError, match=expected): read_pairs(tmp_path/'a', tmp_path/'b')
    pairs = PairFiles(tmp_path/'a', tmp_path/'b')
    with pytest.raises(InputError, match=expected): # while a vocabulary is learned
        BPETokenizer.train((text for pair in pairs for text in pair), 300)

def test_empty_files(tmp_path):
    for name in 'ab': (tmp_path/name).touch()
    with pytest.raises(InputError, match='a is empty'):
        list(PairFiles(tmp_path/'a', tmp_path/'b'))

@pytest.mark.parametrize('name', ['src', 'valid_tgt'])
def test_all_files_are_checked_before_the_work(files, name):
    files[name].unlink()
    with pytest.raises(FileNotFoundError, match=name): load_corpus(**files)
    os.mkfifo(files[name]) # would be empty at the second pass
    with pytest.raises(InputError, match=f'{name} is not a file'): load_corpus(**files)

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
    with pytest.raises(InputError, match='SHA-256 is .* remove it'):
        data_file('x.gz', '', tmp_path/'cache', sha)

def test_a_corrupt_download_leaves_nothing(tmp_path):
    source = tmp_path/'source'
    source.write_bytes(b'half')
    with pytest.raises(InputError, match='SHA-256'):
        data_file('x', source.as_uri(), tmp_path/'cache', '0'*64)
    assert not (tmp_path/'cache').exists()

def test_offline_says_where_to_put_it(tmp_path):
    missing = (tmp_path/'missing').as_uri()
    with pytest.raises(InputError, match='get .* elsewhere and put it there'):
        data_file('x', missing, tmp_path, None)

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

def test_a_whole_download(tmp_path):
    for header in (b'Content-Length: 9\r\n', b''): # until the connection ends
        def whole(write): write(OK + header + b'\r\nsome data')
        with server(whole) as url: path = data_file('x', url, tmp_path)
        assert path.read_bytes() == b'some data'
        path.unlink()

@pytest.mark.parametrize('reply, reason', [
    (OK + b'Content-Length: 100\r\n\r\nhalf', 'cut off: 4 of 100 bytes'),
    (OK + b'Transfer-Encoding: chunked\r\n\r\n5\r\nha', 'IncompleteRead'),
    (OK + b'Transfer-Encoding: chunked\r\n\r\nzz\r\nha', 'IncompleteRead|cut off'),
    (b'garbage\r\n\r\n', 'garbage'),
    (b'', 'closed connection'),
    (OK + b'Content-Length: ten\r\n\r\nx', 'invalid literal'),
    (b'HTTP/1.1 500 no\r\n\r\n', 'HTTP Error 500'),
    (OK + b'X: ' + b'x'*70_000 + b'\r\n\r\nx', 'more than')])
def test_a_broken_download_is_one_line_and_nothing_is_kept(reply, reason, tmp_path):
    with server(lambda write: write(reply)) as url:
        with pytest.raises(InputError, match=rf'cannot be downloaded \(.*({reason})'):
            data_file('x', url, tmp_path/'cache')
    assert not (tmp_path/'cache').exists()

def long_reply(pieces, pause=0):
    def answer(write):
        write(OK + b'\r\n')
        for _ in range(pieces):
            write(b'x'*1000)
            time.sleep(pause)
    return answer

def test_a_download_is_bounded_in_size(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, '_MAX_DOWNLOAD', 10**6)
    with server(long_reply(3000)) as url:
        with pytest.raises(InputError, match='more than 1000000 bytes'):
            data_file('x', url, tmp_path)

def test_a_download_is_bounded_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, '_MAX_SECONDS', 0.2)
    with server(long_reply(100, pause=0.02)) as url: # never silent for long
        with pytest.raises(InputError, match='not complete after 0.2 s'):
            data_file('x', url, tmp_path)

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
    ('en', 'frr!', r"no language 'frr!' \(perhaps fr, "),
    ('zz', 'en', "no language 'zz'.* it takes the codes of ISO 639"),
    ('en', 'FR', "no language 'FR' .perhaps fr"),
    ('en', 'frq', "is 'frq' a language. .perhaps fr, fra"), # and its file cannot be had
    ('de', 'fr', 'pairs English with another language'),
    ('en', 'eng', 'pairs English with another language')])
def test_a_language_that_tatoeba_cannot_have(src, tgt, message, tmp_path, monkeypatch):
    def fails(*_): raise InputError('it cannot be downloaded')
    monkeypatch.setattr(corpora, 'data_file', fails)
    with pytest.raises(InputError, match=message):
        load_corpus('tatoeba', src, tgt, tmp_path)

@pytest.mark.parametrize('code, n, first', [
    ('fra', 142_424, 'Va !'), ('jpn', 55_066, '行け。'), ('cmn', 21_058, '嗨。')])
def test_languages_that_are_here(code, n, first, multi30k_dir):
    if not (multi30k_dir/f'tatoeba-{code}-eng').exists(): pytest.skip(f'no {code} here')
    corpus = load_corpus('tatoeba', code, 'en', multi30k_dir)
    assert sum(map(len, corpus.values())) == n and corpus['train'][0][0] == first
    assert_no_leak(corpus)

def assert_no_leak(corpus):
    for side in (0, 1):
        train, valid, test = [{pair[side] for pair in corpus[split]}
                              for split in ('train', 'valid', 'test')]
        assert not train & valid and not train & test and not valid & test

def test_no_german_sentence_stands_in_two_splits(tmp_path):
    english = dict(train='Hi.', valid='Cheers!', test='I did it.')
    in_all = [(english[split], 'überall') for split in ('train', 'valid', 'test')]
    in_two = [(english['valid'], 'zweimal'), (english['train'], 'zweimal')]
    own = [(english[split], split) for split in english]
    rows = in_all + in_two + own
    zipped(tmp_path, deu_txt=''.join(f'{e}\t{g}\n' for e, g in rows))
    corpus = load_corpus('tatoeba', 'de', 'en', tmp_path)
    assert_no_leak(corpus)
    assert corpus['train'] == [('train', 'Hi.')]
    assert corpus['valid'] == [('zweimal', 'Cheers!'), ('valid', 'Cheers!')]
    assert corpus['test'] == [('überall', 'I did it.'), ('test', 'I did it.')]

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

def test_tatoeba_itself(multi30k_dir):
    if not (multi30k_dir/'tatoeba-deu-eng').exists(): pytest.skip('Tatoeba is not here')
    corpus = load_corpus('tatoeba', 'de', 'en', multi30k_dir)
    sizes = {split: len(pairs) for split, pairs in corpus.items()}
    assert sizes == dict(train=166_408 - 516, valid=1671, test=1734)
    assert_no_leak(corpus)

def test_tatoeba_is_as_10a_says(multi30k_dir):
    "What would leak if the English sentence alone decided, and how people are called"
    path = multi30k_dir/'tatoeba-deu-eng'/'deu-eng.zip'
    if not path.exists(): pytest.skip('Tatoeba is not here')
    german = dict(train=set(), valid=set(), test=set())
    for de, en in _tatoeba_pairs(path, 'deu.txt'): german[_split_of_sentence(en)].add(de)
    assert len(german['test']) == 1733
    assert len(german['test'] & german['train']) == 187
    train = load_corpus('tatoeba', 'de', 'en', multi30k_dir)['train']
    names = Counter(name for _, en in train for name in re.findall(r'\b[A-Z]\w+', en)
                    if name in ('Tom', 'Mary', 'John', 'Alice', 'Jackson'))
    assert names['Tom'] > len(train)/5
    assert names['Mary'] > len(train)/25
    assert max(names['John'], names['Alice'], names['Jackson']) < len(train)/500

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

@pytest.mark.parametrize('direction', ['en-de', 'de-en'])
def test_the_list_has_ten_sentences_of_each_kind(direction):
    rows = [row for row in everyday_sentences() if row['direction'] == direction]
    assert [row['number'] for row in rows] == list(range(1, 101))
    assert set(Counter(row['kind'] for row in rows).values()) == {10}
    assert all(row['references'] for row in rows)

@pytest.mark.parametrize('direction', ['en-de', 'de-en'])
def test_the_newer_list(direction):
    rows = [row for row in everyday_sentences('typed') if row['direction'] == direction]
    assert [row['number'] for row in rows] == list(range(1, 201))
    kinds = Counter(row['kind'] for row in rows)
    assert sorted(kinds.values()) == [10]*10 + [50]*2
    assert [row['number'] for row in rows if 'learned' in row] == [101, *range(151, 201)]
    older = {row['source'] for row in everyday_sentences()}
    assert all(row['references'] and row['source'] not in older for row in rows)

def test_pairs_of_our_own():
    pairs = own_pairs()
    assert len(pairs) > 4000
    for pair in pairs:
        english, german = pair
        assert english.strip() == english and german.strip() == german, pair
        assert not set('ßäöüÄÖÜ') & set(english.replace('TÜV', '')), pair
        assert {c for c in english + german if not c.isascii()} <= set('äöüÄÖÜßé„“–…'), pair
    assert pairs[0] == ('Attention is all you need.',
                        'Aufmerksamkeit ist alles, was du brauchst.')
    assert {'Hello.', 'Hi.', 'the cinema', 'the neural network'} <= dict(pairs).keys()

def test_typed_holds_both_lists_out_and_what_is_ours_comes_first(tmp_path):
    "But for first words, and the title of the paper"
    rows = [('Hi.', 'Grüß dich!'), ('I did it.', 'Es ist getan.'), ('Cheers!', 'Zum Wohl!')]
    rows += [(f'Sentence {i}.', f'Satz {i}.') for i in range(600)]
    for row in everyday_sentences('typed') + everyday_sentences():
        pair = row['source'], row['references'][0]
        rows.append(pair if row['direction'] == 'en-de' else pair[::-1])
    zipped(tmp_path, deu_txt=''.join(f'{e}\t{g}\n' for e, g in rows))
    plain = load_corpus('tatoeba', 'en', 'de', tmp_path)
    for src, tgt in (('en', 'de'), ('de', 'en')):
        corpus = load_corpus('typed', src, tgt, tmp_path)
        pairs = corpus['valid'] + corpus['test']
        asked = {text for pair in pairs for text in pair}
        assert 'Cheers!' in asked # which is one of ours
        assert all(asked.isdisjoint(pair) for pair in corpus['train'])
        if src == 'en': assert all(corpus[x] == plain[x] for x in ('valid', 'test'))
        sources = {source.lower().rstrip('.?!') for source, _ in corpus['train']}
        for row in everyday_sentences('typed') + everyday_sentences():
            if row['direction'] != f'{src}-{tgt}' or row.get('learned'): continue
            assert row['source'].lower().rstrip('.?!') not in sources, row
    train = load_corpus('typed', 'en', 'de', tmp_path)['train']
    title = 'Attention is all you need.', 'Aufmerksamkeit ist alles, was du brauchst.'
    assert train.count(title) >= 3
    assert len({target for source, target in train if source == 'Hello.'}) == 1
    in_small_letters = sum(source == source.lower() for source, _ in train)
    assert 0.02 < in_small_letters / len(train)

def test_nothing_is_drawn_anew():
    pairs = [(f'Das ist Satz {i}.', f'This is sentence {i}.') for i in range(600)]
    assert with_typing(pairs) == with_typing(pairs) != pairs
    assert with_typing(pairs)[:600] == pairs
    assert in_a_hurry('', random.Random(0)) == ''

def test_invented_names_are_new_each_time():
    pairs = [(f'Tom has {i} cats.', f'Tom hat {i} Katzen.') for i in range(2000)]
    renamed = with_other_names(pairs)
    names = [source.split()[0] for source, _ in renamed]
    assert [target.split()[0] for _, target in renamed] == names
    assert 900 < names.count('Tom') < 1100
    once = {name for name in names if names.count(name) == 1}
    assert 400 < len(once) < 600
    assert all(name.istitle() for name in once)
    listed = with_other_names(pairs, invented=0.)
    assert len({source.split()[0] for source, _ in listed}) == 170

def test_everyday_itself(multi30k_dir):
    if not (multi30k_dir/'tatoeba-deu-eng').exists(): pytest.skip('Tatoeba is not here')
    train = load_corpus('tatoeba', 'de', 'en', multi30k_dir)['train']
    assert len(without_everyday_sentences(train)) == 166_408 - 516 - 178
    sizes = {('de', 'en'): 155_693, ('en', 'de'): 132_328}
    for direction, size in sizes.items():
        train = load_corpus('everyday', *direction, multi30k_dir)['train']
        assert len(train) == len({source for source, _ in train}) == size

def test_splits_are_about_a_hundredth():
    splits = [_split_of_sentence(f'sentence {i}') for i in range(20_000)]
    for split in ('valid', 'test'): assert 150 < splits.count(split) < 250

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
    bomb=lambda data, directory: change(data, directory + 24, *[255]*3 + [127]),
    moved=lambda data, directory: change(data, len(data) - 6, *[255]*3 + [127]))

@pytest.mark.parametrize('damage', DAMAGES)
def test_a_damaged_archive_is_to_be_removed(damage, tmp_path):
    damaged = DAMAGES[damage](*whole_archive(tmp_path))
    (tmp_path/'deu-eng.zip').write_bytes(damaged)
    with pytest.raises(InputError, match=r'deu-eng.zip is damaged \(.*\); remove it'):
        tatoeba(tmp_path)

def test_another_archive(tmp_path):
    for members in (dict(readme='x'), dict(deu_txt='')):
        with pytest.raises(InputError, match='damaged .*; remove it'):
            tatoeba(zipped(tmp_path, **members))
    zipped(tmp_path, deu_txt='a\tb\nnothing\n')
    with pytest.raises(InputError, match='deu.txt:2: no tab'): tatoeba(tmp_path)

def test_an_archive_that_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    whole_archive(tmp_path)
    def refuse(*args): raise PermissionError(errno.EACCES, 'Permission denied', args[0])
    monkeypatch.setattr(corpora, 'open', refuse, raising=False)
    with pytest.raises(PermissionError): tatoeba(tmp_path)

def test_one_line_end_is_removed():
    assert list(decode_lines(io.BytesIO(b'a\r\r\nb\n'), 'x')) == ['a\r', 'b']
