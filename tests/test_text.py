"Tokenizers: every string, every learned join, and files damaged on purpose."
import copy, gzip, json, pickle
from collections import Counter
import pytest, tokenizers
from hypothesis import example, given, settings, strategies as st
from transformer_nb.core import SPECIAL_TOKENS, UNK, InputError
from transformer_nb.text import BPETokenizer, Tokenizer, WordTokenizer

SENTENCES = ['Das Haus am See ist alt.', 'Die Maus wohnt im Haus.', 'The house by the lake is old.', 'The mouse lives in the house.']
BPE = BPETokenizer.train(SENTENCES, 320)
WORDS = WordTokenizer.train(SENTENCES, 'de', 100)
SPELLED = st.sampled_from(SPECIAL_TOKENS + ['<', '>', '/s', ' ', '  ', '\n', '\r\n', '\u2028', 'Ġ', '\ufffd', '\x00', 'Haus', ' Haus', 'ä', "can't", 'z. B.', ':-)'])
ANY_WORDS = {lang: WordTokenizer([], lang) for lang in ('de', 'en', 'fr', 'xx')}
STRINGS = st.one_of(st.text(), st.lists(st.one_of(SPELLED, st.text(max_size=3))).map(''.join)) # no surrogates: they are no Unicode strings
quick = settings(max_examples=150, deadline=None)

@quick
@given(STRINGS)
@example('</s>')
def test_pieces_bring_back_every_string(text):
    ids = BPE.encode(text)
    assert BPE.decode(ids) == text
    assert all(len(SPECIAL_TOKENS) <= i < BPE.vocab_size for i in ids)

@quick
@given(st.lists(STRINGS, max_size=5))
@pytest.mark.parametrize('tokenizer', [BPE, WORDS], ids=['pieces', 'words'])
def test_a_batch_is_its_texts_one_by_one(tokenizer, texts): assert tokenizer.encode_batch(texts) == [tokenizer.encode(t) for t in texts]

@settings(max_examples=40, deadline=None)
@given(st.lists(STRINGS, max_size=6), STRINGS)
@example(['<s></s><pad><unk>'] * 9, '</s>')
@example([' <unk>', ' ', '<unk> <unk>'], ' <unk>')
def test_trained_on_anything(texts, other):
    bpe = BPETokenizer.train(texts, 300)
    for text in [*texts, other]: assert bpe.decode(bpe.encode(text)) == text and all(i > UNK for i in bpe.encode(text))
    words = WordTokenizer.train(texts, 'de', 10**6)
    for text in texts: assert words.decode(words.encode(text)) == text and all(i > UNK for i in words.encode(text))
    assert all(i >= UNK for i in words.encode(other))

@quick
@given(STRINGS, st.sampled_from(list(ANY_WORDS)))
def test_words_are_cut_without_loss(text, lang):
    pieces = ANY_WORDS[lang].split(text)
    assert ''.join(pieces) == text and all(pieces)

@quick
@given(STRINGS)
def test_known_words_come_back_and_others_are_unknown(text):
    ids, pieces = WORDS.encode(text), WORDS.split(text)
    assert len(ids) == len(pieces)
    for i, piece in zip(ids, pieces): assert (WORDS.decode([i]) == piece) if i > UNK else (i == UNK and piece not in WORDS.words)

def test_an_unknown_word_is_shown():
    assert WORDS.decode(WORDS.encode('Die Katze wohnt im Haus.')) == 'Die <unk> wohnt im Haus.'
    assert WORDS.decode([UNK]) == '<unk>'
    assert WORDS.decode([1, *WORDS.encode('Die Maus'), 2, 0, 0]) == BPE.decode([1, *BPE.encode('Die Maus'), 2, 0, 0]) == 'Die Maus'

def learn(words, n_joins): # the book's `learn`, in one piece
    number, joins = {c: i for i, c in enumerate(sorted({c for w in words for c in w}))}, []
    for _ in range(n_joins):
        pairs = Counter()
        for pieces, n in words.items():
            for pair in zip(pieces, pieces[1:]): pairs[pair] += n
        if not pairs: break
        a, b = best = min(pairs, key=lambda p: (-pairs[p], number[p[0]], number[p[1]]))
        number.setdefault(a + b, len(number))
        joins.append(best)
        shorter = Counter()
        for pieces, n in words.items():
            out = []
            for p in pieces:
                if out and (out[-1], p) == best: out[-1] += p
                else: out.append(p)
            shorter[tuple(out)] += n
        words = shorter
    return joins

@settings(max_examples=100, deadline=None)
@given(st.lists(st.text('abcäß 1.', min_size=1, max_size=14), min_size=1, max_size=12))
def test_the_library_joins_as_the_book_says(texts): # with many ties
    bpe = BPETokenizer.train(texts, 300)
    cut = bpe.tokenizer.pre_tokenizer.pre_tokenize_str
    words = Counter(tuple(w) for text in texts for w, _ in cut(text))
    assert [tuple(m) for m in json.loads(bpe.to_json())['model']['merges']] == learn(words, 40)

@pytest.mark.parametrize('tokenizer', [BPE, WORDS, WordTokenizer.train(['</s> \r\n', '\u2028 "\\', ' <unk>'], 'xx', 50)], ids=['pieces', 'words', 'strange'])
def test_saved_and_copied(tokenizer, tmp_path):
    path = tmp_path/'new folder'/'tokenizer.json'
    tokenizer.save(path)
    for again in (type(tokenizer).load(path), type(tokenizer).load(str(path)), copy.deepcopy(tokenizer), pickle.loads(pickle.dumps(tokenizer))):
        assert isinstance(again, Tokenizer) and again.vocab_size == tokenizer.vocab_size and again.to_json() == tokenizer.to_json()
        for text in ['</s>', 'x <pad>\r\n', 'Das Haus am See', '\u2028 "\\']: assert again.encode(text) == tokenizer.encode(text)

@settings(max_examples=200, deadline=None)
@given(st.data())
@pytest.mark.parametrize('tokenizer', [BPE, WORDS], ids=['pieces', 'words'])
def test_a_damaged_file_is_refused_by_name_or_still_works(tokenizer, tmp_path_factory, data):
    path = tmp_path_factory.mktemp('damaged')/'tokenizer.json'
    whole = tokenizer.to_json().encode()
    at = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.sampled_from([at + 1, len(whole)]))
    path.write_bytes(whole[:at] + data.draw(st.binary(max_size=3)) + whole[end:])
    try: again = type(tokenizer).load(path)
    except InputError as e: assert str(path) in str(e)
    else: assert again.encode('</s>') == [] or min(again.encode('</s>')) >= UNK # a changed letter: chapter 11's checksums find it

def test_two_tokens_of_one_id(tmp_path):
    text, other = BPE.to_json(), BPE.tokenizer.token_to_id('/')
    assert f'"/": {other},' in text
    (tmp_path/'t.json').write_text(text.replace(f'"/": {other},', '"/": 1,')) # as if `</s>` were text
    with pytest.raises(InputError, match='t.json.*id of its own'): BPETokenizer.load(tmp_path/'t.json')

@pytest.mark.parametrize('text', ['', '{}', 'null', '[]', '{"kind": "words"}', '{"kind": "words", "lang": "de", "words": "abc"}', '{"kind": "words", "lang": 5, "words": []}',
                                  '{"kind": "words", "lang": "de", "words": ["a", "a"]}', '{"kind": "words", "lang": "no such", "words": []}'])
def test_what_is_no_tokenizer(text, tmp_path):
    (tmp_path/'t.json').write_text(text)
    for kind in (BPETokenizer, WordTokenizer):
        with pytest.raises(InputError, match='t.json'): kind.load(tmp_path/'t.json')

def test_other_kinds_are_refused(tmp_path):
    BPE.save(tmp_path/'pieces.json')
    WORDS.save(tmp_path/'words.json')
    with pytest.raises(InputError, match='pieces.json: not a tokenizer of words'): WordTokenizer.load(tmp_path/'pieces.json')
    with pytest.raises(InputError, match='words.json: not a tokenizer of pieces'): BPETokenizer.load(tmp_path/'words.json')
    for decoder, special in ((tokenizers.decoders.ByteLevel(), ['[PAD]', '[UNK]']), (None, SPECIAL_TOKENS)):
        foreign = tokenizers.Tokenizer(tokenizers.models.BPE())
        if decoder: foreign.decoder = decoder
        foreign.train_from_iterator(SENTENCES, tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False))
        foreign.save(str(tmp_path/'foreign.json'))
        with pytest.raises(InputError, match='foreign.json: not a tokenizer of pieces'): BPETokenizer.load(tmp_path/'foreign.json')
    with pytest.raises(FileNotFoundError): BPETokenizer.load(tmp_path/'missing.json')

def test_sizes_and_languages_that_cannot_be():
    with pytest.raises(InputError, match='at least 260'): BPETokenizer.train(SENTENCES, 259)
    with pytest.raises(InputError, match='at least 5'): WordTokenizer.train(SENTENCES, 'de', 4)
    with pytest.raises(InputError, match="lang is 'zz'"): WordTokenizer.train(SENTENCES, 'zz', 100)
    assert WordTokenizer.train(SENTENCES, 'de', 7).vocab_size == 7 and BPETokenizer.train([], 1000).vocab_size == 260

def test_the_same_texts_give_the_same_vocabulary():
    for texts in (SENTENCES, SENTENCES[::-1]):
        assert WordTokenizer.train(texts, 'de', 20).words == WordTokenizer.train(SENTENCES, 'de', 20).words
        assert BPETokenizer.train(texts, 300).to_json() == BPETokenizer.train(SENTENCES, 300).to_json()

def test_multi30k_comes_back(multi30k_dir):
    val = {lang: gzip.open(multi30k_dir/'multi30k'/f'val.{lang}.gz', 'rt', encoding='utf8').read().strip('\n').split('\n') for lang in ('de', 'en', 'fr')}
    bpe = BPETokenizer.train(val['de'] + val['en'], 4000)
    for lang, texts in val.items():
        assert len(texts) == 1014
        words = WordTokenizer.train(texts, lang, 10**6)
        for tokenizer in (bpe, words):
            ids = tokenizer.encode_batch(texts)
            assert [tokenizer.decode(row) for row in ids] == texts
            assert all(i > UNK for row in ids for i in row)
