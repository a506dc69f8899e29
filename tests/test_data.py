"Corpora and batches: strict reading, downloads, splits, budgets."
import gzip, hashlib, io, random, zipfile
import pytest
from hypothesis import given, settings, strategies as st
from transformer_nb.core import EOS, InputError, PAD
from transformer_nb.data import TokenBatches, by_length, split_by_budget, split_of
from transformer_nb.corpora import data_file, load_corpus, read_lines, read_pairs, decode_lines, tatoeba

def split_lines(data, where): return list(decode_lines(io.BytesIO(data), where))

texts = st.lists(st.text(st.characters(blacklist_characters='\n\r', blacklist_categories=['Cs'])), min_size=1)

@given(texts)
def test_lines_come_back(lines):
    if lines == ['']: return # one empty line without an end is an empty file
    assert split_lines('\n'.join(lines).encode(), 'x') == lines if lines[-1] else True
    assert split_lines(''.join(line + '\n' for line in lines).encode(), 'x') == lines
    assert split_lines(''.join(line + '\r\n' for line in lines).encode(), 'x') == lines

@given(st.binary())
def test_any_bytes_are_read_or_refused_with_their_line(raw):
    try: lines = split_lines(raw, 'file')
    except InputError as e: assert str(e).startswith('file:') and 'UTF-8' in str(e)
    else: assert len(lines) == raw.removesuffix(b'\n').count(b'\n') + 1 if raw else lines == []

def test_gzip(tmp_path):
    (tmp_path/'a.gz').write_bytes(gzip.compress('ä\nb\n'.encode()))
    assert read_lines(tmp_path/'a.gz') == ['ä', 'b']
    (tmp_path/'b.gz').write_bytes(gzip.compress(random.randbytes(5000).hex().encode())[:-20])
    (tmp_path/'c.gz').write_bytes(b'no gzip')
    for name in ('b.gz', 'c.gz'):
        with pytest.raises(InputError, match=f'{name}: not a whole gzip file'): read_lines(tmp_path/name)

def test_both_counts_are_named(tmp_path):
    for name, n in (('a', 3), ('b', 2)): (tmp_path/name).write_text('x\n' * n)
    with pytest.raises(InputError, match='a has 3 lines and .*b has 2'): read_pairs(tmp_path/'a', tmp_path/'b')

def as_url(path): return path.as_uri()

def test_a_download_is_checked_kept_and_read_again(tmp_path):
    (tmp_path/'source').write_bytes(b'some data')
    sha = hashlib.sha256(b'some data').hexdigest()
    path = data_file('x.gz', as_url(tmp_path/'source'), tmp_path/'cache', sha)
    (tmp_path/'source').unlink() # from now on there is no network
    assert data_file('x.gz', as_url(tmp_path/'source'), tmp_path/'cache', sha).read_bytes() == b'some data' and path.parent.name == 'cache'
    path.write_bytes(b'some dato')
    with pytest.raises(InputError, match='SHA-256 is .* remove it'): data_file('x.gz', '', tmp_path/'cache', sha)

def test_a_corrupt_download_leaves_nothing(tmp_path):
    (tmp_path/'source').write_bytes(b'half')
    with pytest.raises(InputError, match='SHA-256'): data_file('x', as_url(tmp_path/'source'), tmp_path/'cache', '0'*64)
    assert not (tmp_path/'cache').exists()

def test_offline_says_where_to_put_it(tmp_path):
    with pytest.raises(InputError, match='get .* elsewhere and put it there'): data_file('x', as_url(tmp_path/'missing'), tmp_path, None)

def zipped(folder, **members):
    with zipfile.ZipFile(folder/'deu-eng.zip', 'w') as z:
        for name, text in members.items(): z.writestr(name.replace('__', '../').replace('_', '.'), text)
    return folder

def test_tatoeba(tmp_path):
    rows = [('Hi.', 'Hallo!', 'CC-BY 2.0'), ('Hi.', 'Grüß Gott!', ''), ('Cheers!', 'Prost!', ''), ('I did it.', 'Ich habe es getan.', '')]
    zipped(tmp_path, deu_txt=''.join('\t'.join(row) + '\n' for row in rows), __escape_txt='out')
    corpus = load_corpus('tatoeba', 'en', 'de', tmp_path)
    assert corpus == dict(train=[('Hi.', 'Hallo!'), ('Hi.', 'Grüß Gott!')], valid=[('Cheers!', 'Prost!')], test=[('I did it.', 'Ich habe es getan.')])
    assert sorted(p.name for p in tmp_path.iterdir()) == ['deu-eng.zip'] and not (tmp_path.parent/'escape.txt').exists()

@pytest.mark.parametrize('content', [b'no archive', b''])
def test_tatoeba_refuses_a_damaged_archive(content, tmp_path):
    (tmp_path/'deu-eng.zip').write_bytes(content)
    with pytest.raises(InputError, match='deu-eng.zip is damaged'): tatoeba(tmp_path)

def test_tatoeba_refuses_another_archive(tmp_path):
    with pytest.raises(InputError, match='damaged'): tatoeba(zipped(tmp_path, readme='x'))
    with pytest.raises(InputError, match='deu.txt:2: no tabulator'): tatoeba(zipped(tmp_path, deu_txt='a\tb\nnothing\n'))

def test_tatoeba_itself(multi30k_dir):
    if not (multi30k_dir/'tatoeba-deu-eng').exists(): pytest.skip('Tatoeba is not here')
    corpus = load_corpus('tatoeba', 'de', 'en', multi30k_dir)
    assert {k: len(v) for k, v in corpus.items()} == dict(train=166_408, valid=1671, test=1734)
    assert not {en for _, en in corpus['train']} & {en for _, en in corpus['test'] + corpus['valid']}

def test_splits_are_about_a_hundredth():
    counts = [split_of(f'sentence {i}') for i in range(20_000)]
    assert 150 < counts.count('valid') < 250 and 150 < counts.count('test') < 250

@given(st.lists(st.integers(1, 30), max_size=60), st.integers(1, 80))
def test_cut_is_complete_and_keeps_the_budget(sizes, budget):
    pieces = split_by_budget(sizes, budget)
    assert [i for piece in pieces for i in piece] == list(range(len(sizes)))
    assert all(len(p) == 1 or len(p) * max(sizes[i] for i in p) <= budget for p in pieces)

lengths = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=80)

@settings(deadline=None)
@given(lengths, st.integers(21, 200), st.integers(0, 3), st.integers(1, 4))
def test_batches_are_complete_shared_and_within_the_budget(sizes, budget, epoch, processes):
    batches = TokenBatches([([5]*s, [6]*t) for s, t in sizes], budget, seed=2)
    plan = batches.plan(epoch)
    assert sorted(i for r in range(processes) for rows in plan[r::processes] for i in rows) == list(range(len(sizes)))
    assert plan == batches.plan(epoch)
    for b in batches.epoch(epoch):
        assert max(b.src.numel(), b.labels.numel()) <= budget and b.n_tokens == (b.labels != PAD).sum() and (b.src == EOS).sum() == len(b.src)

@given(lengths)
def test_by_length_is_an_order(sizes):
    pairs = [([5]*s, [6]*t) for s, t in sizes]
    order = by_length(pairs, random.Random(0))
    assert sorted(order) == list(range(len(pairs)))
    assert [max(map(len, pairs[i])) for i in order] == sorted(max(s, t) for s, t in sizes)

def test_padding_on_multi30k(multi30k_dir):
    from transformer_nb.data import encode_pairs
    from transformer_nb.text import BPETokenizer
    corpus = load_corpus('multi30k', 'en', 'de', multi30k_dir)['train']
    ids, dropped = encode_pairs(corpus, BPETokenizer.train((s for pair in corpus for s in pair), 6000), 512)
    assert len(ids) == 29_000 and not any(dropped.values())
    for side in ('src', 'labels'):
        made = [getattr(b, side) for b in TokenBatches(ids, 4096).epoch(0)]
        assert sum((x == PAD).sum() for x in made) / sum(x.numel() for x in made) < 0.04
