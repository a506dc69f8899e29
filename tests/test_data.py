"Encoded pairs, in memory and on disk; splits, budgets, batches."
import pickle
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from transformer_nb.corpora import load_corpus
from transformer_nb.support.core import BOS, EOS, PAD, InputError
from transformer_nb.data import (
    EncodedPairs, TokenBatches, check_encoded, encode_pairs, encode_to_disk, make_batch,
    open_encoded, order_by_length, split_by_budget)
from transformer_nb.text import BPETokenizer

@given(st.lists(st.integers(1, 30), max_size=60), st.integers(1, 80))
def test_a_split_is_complete_and_keeps_the_budget(sizes, budget):
    pieces = split_by_budget(sizes, budget)
    assert [i for piece in pieces for i in piece] == list(range(len(sizes)))
    for piece in pieces:
        longest = max(sizes[i] for i in piece)
        assert len(piece) == 1 or len(piece) * longest <= budget
    assert pieces == split_one_by_one(sizes, budget)

def split_one_by_one(sizes, budget):
    pieces, start = [], 0
    for i in range(1, len(sizes) + 1):
        if i < len(sizes) and max(sizes[start:i+1]) * (i + 1 - start) <= budget: continue
        pieces.append(range(start, i))
        start = i
    return pieces

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
    assert list(map(list, plan)) == list(map(list, batches.plan(epoch)))
    counts = [batches.count_targets(rows) for rows in plan]
    assert counts == [b.n_tokens for b in batches.epoch(epoch)]
    for b in batches.epoch(epoch):
        assert max(b.src.numel(), b.labels.numel()) <= budget
        assert b.n_tokens == (b.labels != PAD).sum()
        assert (b.src == EOS).sum() == len(b.src)

@settings(deadline=None)
@given(lengths)
def test_a_batch_is_its_pairs_and_padding(sizes):
    pairs = [(list(range(4, 4 + s)), list(range(40, 40 + t))) for s, t in sizes]
    ids = np.array([i for pair in pairs for side in pair for i in side], dtype=np.int32)
    arrays = EncodedPairs(ids, np.array(sizes, dtype=np.int32))
    for batch in (make_batch(pairs), make_batch(list(arrays))):
        sides = zip(*(x.tolist() for x in (batch.src, batch.tgt, batch.labels)))
        for (src, tgt), rows in zip(pairs, sides, strict=True):
            for row, ids in zip(rows, (src + [EOS], [BOS] + tgt, tgt + [EOS])):
                assert row == ids + [PAD]*(len(row) - len(ids))

@given(st.lists(st.tuples(st.integers(1, 70_000), st.integers(1, 70_000)), min_size=1))
def test_the_order_is_one_sort_by_three_keys(sizes):
    "Also where lengths do not fit into 16 bits"
    lengths = np.array(sizes, dtype=np.int32)
    longer, difference = lengths.max(axis=1), lengths[:, 0] - lengths[:, 1]
    in_turn = np.where(longer % 2 == 0, difference, -difference)
    chance = np.random.default_rng(3).random(len(lengths))
    expected = np.lexsort((chance, in_turn, longer))
    assert (order_by_length(lengths, np.random.default_rng(3)) == expected).all()

@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from([0.25, 0.5, 1, 1.5, 3])),
                min_size=1, max_size=4))
def test_parts_are_seen_as_often_as_asked(mix):
    sizes = [(3, 3 + i % 4) for i in range(sum(n for n, _ in mix))]
    batches = TokenBatches(pairs_of(sizes), 60, mix=mix)
    for epoch in range(2):
        counts = np.bincount(np.concatenate(batches.plan(epoch)), minlength=len(sizes))
        start = 0
        for n, times in mix:
            part = counts[start:start + n]
            more = max(1, round(times % 1 * n)) if times % 1 else 0
            assert part.sum() == int(times) * n + more
            assert part.max() - part.min() <= 1
            start += n

def test_every_epoch_draws_other_pairs():
    batches = TokenBatches(pairs_of([(3, 3)] * 100), 60, mix=[(100, 0.1)])
    first, second = [set(np.concatenate(batches.plan(n)).tolist()) for n in (0, 1)]
    assert len(first) == len(second) == 10 and first != second

def test_pairs_of_equal_lengths_are_shuffled():
    batches = TokenBatches(pairs_of([(3, 3)] * 50), 60)
    first, second = [np.concatenate(batches.plan(n)).tolist() for n in (0, 1)]
    assert first != second and sorted(first) != first
    other = TokenBatches(pairs_of([(3, 3)] * 50), 60, seed=1)
    assert np.concatenate(other.plan(0)).tolist() != first

def test_the_ratio_counts_the_end_of_the_sentence():
    bpe = BPETokenizer.train(['a'], 260) # bytes only
    at_limit, over = ('a', 'a'*17), ('a', 'a'*18) # 2 tokens against 18 and 19
    kept, dropped = encode_pairs([at_limit, over], bpe, 512)
    assert len(kept) == 1 and dropped['out of proportion'] == 1

@pytest.fixture
def encoded(tmp_path):
    "A small corpus on disk: a function that encodes it, and what it was encoded from"
    bpe = BPETokenizer.train(['ab ba', 'abba'], 262)
    pairs = [('ab', 'ba'), ('', 'b'), ('abba', 'a b'), ('a'*40, 'b'*40)]
    (tmp_path/'data').mkdir()
    def encode(*corpora, max_len=30):
        return encode_to_disk(tmp_path/'data'/'train', corpora or [pairs], bpe, max_len)
    return encode, pairs, bpe, tmp_path/'data'

@pytest.mark.smoke
def test_what_is_on_disk_is_what_is_in_memory(encoded):
    encode, pairs, bpe, folder = encoded
    info = encode()
    kept, dropped = encode_pairs(pairs, bpe, 30)
    assert list(open_encoded(folder/'train')) == kept
    assert info['pairs'] == len(kept) == 2 and info['dropped'] == dropped
    check_encoded(folder/'train', info)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ['train.ids', 'train.lengths']

def test_damaged_files_are_refused(encoded):
    encode, _, _, folder = encoded
    for name in ('ids', 'lengths'):
        info = encode()
        path = folder/f'train.{name}'
        whole = path.read_bytes()
        for damaged in (whole[:-3], whole[:5] + b'x' + whole[6:], b'', None):
            path.unlink()
            if damaged is not None: path.write_bytes(damaged)
            with pytest.raises(InputError, match='damaged|missing'):
                check_encoded(folder/'train', info)

def test_two_texts_that_differ_at_the_end(encoded):
    encode = encoded[0]
    texts = [[('a'*3000, 'b'), ('c', end)] for end in ('d', 'e')]
    found = [encode(text)['fingerprint'] for text in texts]
    assert found[0] != found[1]
    texts = [('ab', 'c')], [('a', 'bc')], [('a', 'b'), ('', 'c')]
    assert len({encode(text)['fingerprint'] for text in texts}) == 3

def test_another_process_gets_the_path_and_not_the_array(encoded):
    encode, _, _, folder = encoded
    encode([('ab', 'ba')] * 500)
    pairs = open_encoded(folder/'train')
    stored = pickle.dumps(pairs)
    assert len(stored) < 1000
    again = pickle.loads(stored)
    assert [again[i] for i in range(len(again))] == [pairs[i] for i in range(len(pairs))]
    in_memory = EncodedPairs(np.array(pairs.ids), np.array(pairs.lengths))
    again = pickle.loads(pickle.dumps(in_memory))
    assert again[3] == pairs[3] and len(again) == len(pairs)

FIRST = ('Two young, White males are outside near many bushes.',
         'Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.')

def test_multi30k(multi30k_dir):
    corpus = load_corpus('multi30k', 'en', 'de', multi30k_dir)
    sizes = {split: len(pairs) for split, pairs in corpus.items()}
    assert sizes == dict(train=29_000, valid=1014, test=1000)
    assert corpus['train'][0] == FIRST
