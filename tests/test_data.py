"Corpora and batches: strict reading, downloads, splits, budgets."
import gzip, hashlib, io, random, zipfile
import pytest
from hypothesis import given, settings, strategies as st
from transformer_nb.core import EOS, InputError, PAD
from transformer_nb.corpora import (_split_of_sentence, data_file, decode_lines,
                                    load_corpus, read_lines, read_pairs, tatoeba)
from transformer_nb.data import TokenBatches, by_length, split_by_budget

def split_lines(data, where): return list(decode_lines(io.BytesIO(data), where))

letters = st.characters(blacklist_characters='\n\r', blacklist_categories=['Cs'])
texts = st.lists(st.text(letters), min_size=1)

@given(texts)
def test_lines_come_back(lines):
    if lines == ['']: return # one empty line without an end is an empty file
    if lines[-1]: assert split_lines('\n'.join(lines).encode(), 'x') == lines
    for end in ('\n', '\r\n'):
        text = ''.join(line + end for line in lines)
        assert split_lines(text.encode(), 'x') == lines

@given(st.binary())
def test_any_bytes_are_read_or_refused_with_their_line(raw):
    try: lines = split_lines(raw, 'file')
    except InputError as e: assert str(e).startswith('file:') and 'UTF-8' in str(e)
    else:
        n_lines = raw.removesuffix(b'\n').count(b'\n') + 1 if raw else 0
        assert len(lines) == n_lines

def test_gzip(tmp_path):
    (tmp_path/'a.gz').write_bytes(gzip.compress('ä\nb\n'.encode()))
    assert read_lines(tmp_path/'a.gz') == ['ä', 'b']
    whole = gzip.compress(random.randbytes(5000).hex().encode())
    (tmp_path/'b.gz').write_bytes(whole[:-20])
    (tmp_path/'c.gz').write_bytes(b'no gzip')
    for name in ('b.gz', 'c.gz'):
        with pytest.raises(InputError, match=f'{name}: not a whole gzip file'):
            read_lines(tmp_path/name)

def test_both_counts_are_named(tmp_path):
    for name, n in (('a', 3), ('b', 2)): (tmp_path/name).write_text('x\n' * n)
    with pytest.raises(InputError, match='a has 3 lines and .*b has 2'):
        read_pairs(tmp_path/'a', tmp_path/'b')

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

def zipped(folder, **members):
    with zipfile.ZipFile(folder/'deu-eng.zip', 'w') as archive:
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
    zipped(tmp_path, deu_txt=text, __escape_txt='out')
    corpus = load_corpus('tatoeba', 'en', 'de', tmp_path)
    assert corpus == dict(train=[('Hi.', 'Hallo!'), ('Hi.', 'Grüß Gott!')],
                          valid=[('Cheers!', 'Prost!')],
                          test=[('I did it.', 'Ich habe es getan.')])
    assert [path.name for path in tmp_path.iterdir()] == ['deu-eng.zip']
    assert not (tmp_path.parent/'escape.txt').exists()

@pytest.mark.parametrize('content', [b'no archive', b''])
def test_tatoeba_refuses_a_damaged_archive(content, tmp_path):
    (tmp_path/'deu-eng.zip').write_bytes(content)
    with pytest.raises(InputError, match='deu-eng.zip is damaged'): tatoeba(tmp_path)

def test_tatoeba_refuses_another_archive(tmp_path):
    with pytest.raises(InputError, match='damaged'): tatoeba(zipped(tmp_path, readme='x'))
    zipped(tmp_path, deu_txt='a\tb\nnothing\n')
    with pytest.raises(InputError, match='deu.txt:2: no tab'): tatoeba(tmp_path)

def test_tatoeba_itself(multi30k_dir):
    if not (multi30k_dir/'tatoeba-deu-eng').exists(): pytest.skip('Tatoeba is not here')
    corpus = load_corpus('tatoeba', 'de', 'en', multi30k_dir)
    sizes = {split: len(pairs) for split, pairs in corpus.items()}
    assert sizes == dict(train=166_408, valid=1671, test=1734)
    trained = {en for _, en in corpus['train']}
    assert not trained & {en for _, en in corpus['test'] + corpus['valid']}

def test_splits_are_about_a_hundredth():
    splits = [_split_of_sentence(f'sentence {i}') for i in range(20_000)]
    for split in ('valid', 'test'): assert 150 < splits.count(split) < 250

@given(st.lists(st.integers(1, 30), max_size=60), st.integers(1, 80))
def test_a_split_is_complete_and_keeps_the_budget(sizes, budget):
    pieces = split_by_budget(sizes, budget)
    assert [i for piece in pieces for i in piece] == list(range(len(sizes)))
    for piece in pieces:
        longest = max(sizes[i] for i in piece)
        assert len(piece) == 1 or len(piece) * longest <= budget

def pairs_of(sizes): return [([5]*s, [6]*t) for s, t in sizes]

sides = st.integers(1, 20)
lengths = st.lists(st.tuples(sides, sides), min_size=1, max_size=80)

@settings(deadline=None)
@given(lengths, st.integers(21, 200), st.integers(0, 3), st.integers(1, 4))
def test_batches_are_complete_shared_and_within_the_budget(sizes, budget, epoch, processes):
    batches = TokenBatches(pairs_of(sizes), budget, seed=2)
    plan = batches.plan(epoch)
    shares = [plan[rank::processes] for rank in range(processes)]
    shared = [i for share in shares for rows in share for i in rows]
    assert sorted(shared) == list(range(len(sizes)))
    assert plan == batches.plan(epoch)
    for b in batches.epoch(epoch):
        assert max(b.src.numel(), b.labels.numel()) <= budget
        assert b.n_tokens == (b.labels != PAD).sum()
        assert (b.src == EOS).sum() == len(b.src)

@given(lengths)
def test_by_length_is_an_order(sizes):
    order = by_length(pairs_of(sizes), random.Random(0))
    assert sorted(order) == list(range(len(sizes)))
    assert [max(sizes[i]) for i in order] == sorted(map(max, sizes))
