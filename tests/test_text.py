"Tokenizers: every string, every learned merge, and files damaged on purpose."
import copy, json, pickle, unicodedata
from collections import Counter
from itertools import product
import pytest
from tokenizers import models, pre_tokenizers, trainers
from hypothesis import example, given, settings, strategies as st
from running import definitions
from transformer_nb.support.core import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, InputError
from transformer_nb.corpora import load_corpus
from transformer_nb.pieces import NORMALIZERS, assemble, is_settled, normalize
from transformer_nb.text import BPETokenizer, Tokenizer

SENTENCES = ['Das Haus am See ist alt.',
             'Die Maus wohnt im Haus.',
             'The house by the lake is old.',
             'The mouse lives in the house.']
BPE = BPETokenizer.train(SENTENCES, 320)
WordTokenizer = definitions('08_text').WordTokenizer
WORDS = WordTokenizer.train(SENTENCES, 'de', 100)
ANY_WORDS = {lang: WordTokenizer([], lang) for lang in ('de', 'en', 'fr', 'xx')}

SPELLED = st.sampled_from(SPECIAL_TOKENS + [
    '<', '>', '/s', ' ', '  ', '\n', '\r\n', '\u2028', 'Ġ', '\ufffd', '\x00',
    'Haus', ' Haus', 'ä', "can't", 'z. B.', ':-)'])
PARTS = st.lists(st.one_of(SPELLED, st.text(max_size=3)))
STRINGS = st.one_of(st.text(), PARTS.map(''.join)) # st.text makes no surrogates
both = pytest.mark.parametrize('tokenizer', [BPE, WORDS], ids=['pieces', 'words'])
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
@both
def test_a_batch_is_its_texts_one_by_one(tokenizer, texts):
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]

@settings(max_examples=40, deadline=None)
@given(st.lists(STRINGS, max_size=6), STRINGS)
@example(['<s></s><pad><unk>'] * 9, '</s>')
@example([' <unk>', ' ', '<unk> <unk>'], ' <unk>')
def test_trained_on_anything(texts, other):
    def comes_back(tokenizer, text):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert all(i > UNK for i in ids)

    bpe = BPETokenizer.train(texts, 300)
    words = WordTokenizer.train(texts, 'de', 10**6)
    for text in [*texts, other]: comes_back(bpe, text)
    for text in texts: comes_back(words, text)
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
    for i, piece in zip(ids, pieces):
        if piece in WORDS.words: assert i > UNK and WORDS.decode([i]) == piece
        else: assert i == UNK

def test_an_unknown_word_is_shown():
    ids = WORDS.encode('Die Katze wohnt im Haus.')
    assert WORDS.decode(ids) == 'Die <unk> wohnt im Haus.'
    assert WORDS.decode([UNK]) == '<unk>'
    for tokenizer in (WORDS, BPE):
        ids = [BOS, *tokenizer.encode('Die Maus'), EOS, PAD, PAD]
        assert tokenizer.decode(ids) == 'Die Maus'

LEARN = definitions('08_text').learn

@settings(max_examples=100, deadline=None)
@given(st.lists(st.text('abcäß 1.', min_size=1, max_size=14), min_size=1, max_size=12))
@example([text for pair in load_corpus('mini', 'de', 'en')['train'][:16] for text in pair])
def test_the_library_makes_all_merges_of_the_chapter(texts): # with many ties
    "On bytes, each of which the library writes as a visible character"
    #| claim C47
    bpe = BPETokenizer.train(texts, 1000)
    cut = bpe.tokenizer.pre_tokenizer.pre_tokenize_str
    words = Counter(tuple(w) for text in texts for w, _ in cut(text))
    merges = json.loads(bpe.to_json())['model']['merges']
    found = [pair for pair, _ in LEARN(words, len(merges))]
    assert list(map(tuple, merges)) == found

NFC = BPETokenizer.train(SENTENCES, 320, 'nfc')
PLAIN = BPETokenizer.train(SENTENCES, 320, 'punctuation')

EUROPEAN = st.characters(max_codepoint=0x36f) # where all versions of Unicode agree

@quick
@given(st.one_of(st.text(EUROPEAN), st.lists(SPELLED).map(''.join)))
@example('a\u0308 «…»\u00a0—\u202f’')
def test_normalised_as_unicode_says(text):
    composed = unicodedata.normalize('NFC', text)
    assert NFC.decode(NFC.encode(text)) == composed
    assert NFC.encode(text) == NFC.encode(composed) == BPE.encode(composed)
    plain = PLAIN.decode(PLAIN.encode(text))
    assert plain == PLAIN.decode(PLAIN.encode(plain)) # once is enough
    assert not set(plain) & set('“”„‟«»‘’‚‛‹›‐‑‒–—―−…\u00a0\u202f')
    if text.isascii(): assert plain == text

@pytest.mark.parametrize('tokenizer', [BPE, NFC, PLAIN],
                         ids=['pieces', 'nfc', 'punctuation'])
@pytest.mark.smoke
def test_saved_and_copied(tokenizer, tmp_path):
    path = tmp_path/'new folder'/'tokenizer.json'
    tokenizer.save(path)
    load = type(tokenizer).load
    pickled = pickle.loads(pickle.dumps(tokenizer))
    for again in (load(path), load(str(path)), copy.deepcopy(tokenizer), pickled):
        assert isinstance(again, Tokenizer)
        assert again.vocab_size == tokenizer.vocab_size
        assert again.to_json() == tokenizer.to_json()
        for text in ['</s>', 'x <pad>\r\n', 'Das Haus am See', '\u2028 "\\', 'a\u0308 »…«']:
            assert again.encode(text) == tokenizer.encode(text)

@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_file_is_refused_or_still_works(tmp_path_factory, data):
    path = tmp_path_factory.mktemp('damaged')/'tokenizer.json'
    whole = BPE.to_json().encode()
    at = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.sampled_from([at + 1, len(whole)]))
    path.write_bytes(whole[:at] + data.draw(st.binary(max_size=3)) + whole[end:])
    try: again = BPETokenizer.load(path)
    except InputError as e: assert str(path) in str(e)
    else: # a changed letter: chapter 11's checksums find it
        assert all(i >= UNK for i in again.encode('</s>'))

def refused(content): # why a tokenizer.json is
    with pytest.raises(Exception) as caught: BPETokenizer.from_json(json.dumps(content))
    return str(caught.value)

def test_ids_are_those_of_the_rows():
    content = json.loads(BPE.to_json())
    for i in (1, BPE.vocab_size, 10**12, -1, None, '5', 4.5): # 1 is `<s>`
        content['model']['vocab']['/'] = i
        said = refused(content)
        assert 'ids should be 0, 1, 2' in said or 'not supported between' in said

def test_a_token_is_one_byte_or_more():
    "The page died of an empty token, and wrote zeros for one that has no bytes"
    for token in ('', '漢'):
        content = json.loads(BPE.to_json())
        content['model']['vocab'][token] = BPE.vocab_size
        assert refused(content) == f'its token {token!r} should be one byte or more'

def test_all_bytes_and_all_merged_tokens_are_there():
    def renamed(token):
        content = json.loads(BPE.to_json())
        vocab = content['model']['vocab']
        vocab['other'] = vocab.pop(token)
        return content

    last = BPE.tokenizer.id_to_token(BPE.vocab_size - 1)
    assert refused(renamed('ÿ')) == 'it should hold all 256 bytes'
    assert refused(renamed(last)).endswith(f'Token `{last}` out of vocabulary')
    content = json.loads(BPE.to_json())
    for merges in ([['a', 'none such']], [['a']], ['a b'], [[1, 2]], 5, None):
        content['model']['merges'] = merges
        refused(content)

def fixed_padding(n): # the tokens of every text, however short
    return dict(strategy=dict(Fixed=n), direction='Right', pad_to_multiple_of=None,
                pad_id=0, pad_type_id=0, pad_token='<pad>')

ENDLESS = dict(Regex='(a+)+b') # on a long row of `a`
SPLIT = dict(type='Split', pattern=ENDLESS, behavior='Isolated', invert=False)
REPLACE = dict(type='Replace', pattern=ENDLESS, content='')
TRUNCATION = dict(direction='Right', max_length=3, strategy='LongestFirst', stride=0)
BOS_FIRST = dict(type='TemplateProcessing', single=[], pair=[], special_tokens={})

def test_a_strangers_settings_are_refused():
    content = json.loads(BPE.to_json())
    for name, value in dict(
            padding=fixed_padding(3 * 10**8), truncation=TRUNCATION, pre_tokenizer=SPLIT,
            normalizer=REPLACE, decoder=None, post_processor=BOS_FIRST, added_tokens=[],
            version='9.9').items():
        assert refused(content | {name: value}).startswith(f'its {name} is ')
    for name, value in {
            'type': 'WordPiece', 'dropout': 0.5, 'unk_token': '<unk>', 'fuse_unk': True,
            'continuing_subword_prefix': '##', 'end_of_word_suffix': '</w>',
            'byte_fallback': True, 'ignore_merges': True, 'new in 2030': 1}.items():
        changed = content | dict(model=content['model'] | {name: value})
        assert refused(changed).startswith(f'its {name} is ')

def test_what_is_no_tokenizer(tmp_path):
    for text in ('', '{}', 'null', '['*10**5, '{"kind": "words"}'):
        (tmp_path/'t.json').write_text(text)
        with pytest.raises(InputError, match='t.json'): BPETokenizer.load(tmp_path/'t.json')

def test_sizes_that_cannot_be():
    for size in (259, -1, 10**6 + 1, 10**9, 10**20):
        with pytest.raises(InputError, match='at least 260 and at most 1000000'):
            BPETokenizer.train(SENTENCES, size)
    with pytest.raises(InputError, match="normalize is 'nfkc'; it must be one of: none,"):
        BPETokenizer.train(SENTENCES, 300, normalize='nfkc')
    assert WordTokenizer.train(SENTENCES, 'de', 7).vocab_size == 7
    assert BPETokenizer.train([], 1000).vocab_size == 260

def test_a_word_that_is_an_encoded_image_teaches_nothing():
    "Learning from a word of a megabyte took over 40 seconds, and nobody misses it"
    long = 'ab' * 501
    assert BPETokenizer.train(SENTENCES + [f'Haus {long}', ' ' * 2000], 320).to_json() == \
        BPE.to_json()
    assert BPETokenizer.train(SENTENCES + ['ab ' * 501], 320).to_json() != BPE.to_json()

def test_what_is_plain_is_not_looked_at_twice():
    "Most text is said to be plain at once: each of its letters, every three of its marks"
    letters = [chr(i) for i in range(33, 256) if is_settled(chr(i))]
    assert len(letters) == 94 - 1 + 62 # all of ASCII that is seen, but for the backtick
    rule = NORMALIZERS['plain']
    marks = [x for x in letters if not x.isalnum()] + list('aZ0ß')
    for typed in [*product(letters, ['', ' '], marks), *product(marks, repeat=3)]:
        typed = ''.join(typed)
        if is_settled(typed): assert rule.normalize_str(typed) == typed
    for typed in ["''", '`', 'a  b', ' a', 'a ', '\xa0', 'e\u0301', '“', '…', 'a\tb']:
        assert not is_settled(typed)

WRITTEN = st.sampled_from(list('“”„‟«»‘’‚‛‹›‐‑‒–—―−…\u00a0\u202f\'",- aeÄß×÷ŉſ＇，！Ω;й漢が')
                          + ['\u0301', '\u0308', '>>de<<', '>', '<<', '\u200b', '\u3099',
                             '</s>', '\ufe0f', '🏴', ',,', '. ', 'don’t', 'ﬁ', '\u0340'])
EASY = st.lists(st.one_of(WRITTEN, st.characters(exclude_categories=['Cs'])), max_size=9)
BY_RULE = {how: BPETokenizer.train(SENTENCES + ['Ein „Hund“ – „bellt…“'], 300, how,
                                   ['>>de<<', '>>de<<<<'])
           for how in NORMALIZERS}

@settings(max_examples=300, deadline=None)
@given(EASY.map(''.join), st.sampled_from(list(BY_RULE)))
@example('“ a”', 'plain')
@example('‘‘', 'plain')
@example('a—b', 'plain')
@example('>>de<< >>de<<<< “So” ', 'plain')
@example('>\u200b>de<< so', 'plain')
@example('e\u0301', 'nfc')
def test_the_short_ways_change_nothing(text, how):
    "Text becomes what the library's rule makes of it, and the same ids"
    bpe = BY_RULE[how]
    rule = bpe.tokenizer.normalizer
    assert normalize(text, how) == bpe.normalize(text)
    assert normalize(text, how) == (rule.normalize_str(text) if rule else text)
    assert bpe.encode_batch([text, 'x', text]) == [*map(bpe.encode, (text, 'x', text))]

@pytest.mark.parametrize('how', NORMALIZERS)
def test_learned_as_by_the_library(how):
    "Normalized by us, text gives the merges that the library's normalizer gives"
    texts = [f'{x} „{x}“ – e\u0301te\u0301\u00a0{x[::-1]}…  ' for x in SENTENCES]
    theirs = assemble(models.BPE(), how)
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=SPECIAL_TOKENS, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    theirs.train_from_iterator(texts, trainer)
    assert BPETokenizer.train(texts, 330, how).to_json() == theirs.to_str(pretty=True)

def test_what_looks_the_same_is_the_same():
    "A ligature is its letters, by Unicode's own table; spaces around a text are none"
    for x in 'ﬀﬁﬂﬃﬄﬅﬆ': assert normalize(x, 'plain') == unicodedata.normalize('NFKC', x)
    assert normalize('  a \u00a0 b ', 'plain') == 'a b'
