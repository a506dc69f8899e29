"Where two things meet: iterables, threads, a class of one's own, names that people guess."
import re, threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from inspect import signature
from itertools import product
from pathlib import Path
from unicodedata import normalize
import numpy as np
import pytest, torch
import transformer_nb
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.decoding import beam_search, search
from transformer_nb.evaluation import (
    moses_lc, paired_bootstrap, paired_test, score, seeds_bootstrap)
from transformer_nb.model import Transformer
from transformer_nb.prepare import DataConfig, _find_fault, find_held_out, prepare_data
from transformer_nb.support.core import InputError, write_atomically
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import (
    Translator, evaluate, evaluate_lines, preset, score_pairs, train_translator)

ROOT = Path(__file__).parent.parent
TEXTS = ['I love you.', '', 'The dog sleeps.']

@pytest.fixture(scope='module')
def translator(): return Translator('everyday-en-de', torch.device('cpu'), beam_size=2)

class Series: # as of pandas: an index of its own, values in another order
    def __init__(self, values): self.values = dict(zip(range(len(values), 0, -1), values))
    def __getitem__(self, label): return self.values[label]
    def __len__(self): return len(self.values)
    def __iter__(self): return iter(self.values.values())

def forms(tmp_path): # of the same texts
    (tmp_path/'texts').write_text('\n'.join(TEXTS))
    yield tuple(TEXTS)
    yield iter(TEXTS)
    yield (text for text in TEXTS)
    yield filter(lambda text: True, TEXTS)
    yield map(str, TEXTS)
    yield OrderedDict.fromkeys(TEXTS).keys()
    yield np.array(TEXTS)
    yield Series(TEXTS)
    yield open(tmp_path/'texts', encoding='utf8')

def test_any_iterable_is_a_list_of_texts(translator, tmp_path):
    "Each function reads what it gets once, in its order"
    lines = translator.translate(TEXTS)
    assert lines[1] == '' and lines[0] and lines[2]
    for texts in forms(tmp_path): assert translator.translate(texts) == lines
    for name in ('search', 'candidates'):
        wanted = getattr(translator, name)(TEXTS)
        for texts in forms(tmp_path):
            assert str(getattr(translator, name)(texts)) == str(wanted)
    for texts in forms(tmp_path): assert len(translator.sample(texts)) == 3
    pairs = [(text, line) for text, line in zip(TEXTS, lines) if text]
    wanted = evaluate(translator, pairs)['bleu']
    assert evaluate(translator, iter(pairs))['bleu'] == wanted == 100
    references = [line for line in lines if line]
    assert score(iter(references), (line for line in references))['bleu'] == 100

class Table(list): columns = ['a'] # as of pandas, whose columns pass for sentences

@pytest.mark.parametrize('texts', ['a', b'a', {'a'}, frozenset('ab'), 5, None, Table('a')])
def test_what_is_no_list_of_texts_is_refused(translator, texts):
    for name in ('translate', 'search', 'candidates', 'sample', 'too_long'):
        with pytest.raises(InputError, match='a list of texts is expected'):
            getattr(translator, name)(texts)

NO_TEXTS = None, float('nan'), 5, b'text', ['a'], Path('a')
NO_PAIRS = 'ab', {'de': 'a', 'en': 'b'}, ('a',), ('a', 'b', 'c'), ('a', None), 5, None

def test_what_is_no_text_or_pair_is_named_with_its_place(translator, tmp_path):
    tokenizer, config, two = translator.tokenizer, preset('tiny'), ['a', 'b']
    takers = [
        translator.translate, translator.search, translator.candidates, translator.sample,
        translator.too_long, tokenizer.encode_batch, tokenizer.encode_targets,
        partial(BPETokenizer.train, vocab_size=300), partial(moses_lc, lang='en'),
        partial(score, two), lambda x: score(x, two), partial(evaluate_lines, two),
        partial(paired_test, two, two), partial(paired_bootstrap, two, two),
        partial(evaluate_lines, two, two, None), partial(seeds_bootstrap, [two])]
    for bad, take in product(NO_TEXTS, takers):
        with pytest.raises(InputError, match=r'text 1 is .*, an? \w+;'): take(['a', bad])
    def train(pairs):
        train_translator(tmp_path/'m', config, corpus=dict(train=pairs, valid=pairs))
    takers = train, partial(evaluate, translator), partial(score_pairs, translator)
    for bad, take in product(NO_PAIRS, takers):
        with pytest.raises(InputError, match='pair 1 is '): take([('a', 'b'), bad])
    for corpus in (dict(train=[('a', 'b')]), [('a', 'b')]):
        with pytest.raises(InputError, match="'(train|valid)' is not in the corpus"):
            prepare_data(tmp_path/'p', DataConfig(vocab_size=300), corpus=corpus)

def test_maps_belong_to_their_thread(translator):
    [[wanted]] = translator.candidates(['The dog sleeps.'], alignments=True)
    is_over, alone, given = threading.Event(), translator.translate(TEXTS), []
    def others():
        while not is_over.is_set(): given.append(translator.translate(TEXTS))
    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(8):
            [[found]] = translator.candidates(['The dog sleeps.'], alignments=True)
            torch.testing.assert_close(found.alignment, wanted.alignment)
    finally:
        is_over.set()
        thread.join()
    assert all(lines == alone for lines in given) and given

def test_threads_that_save_to_one_place(tmp_path, translator):
    datas = [bytes([65 + i]) * 2_000_000 for i in range(4)]
    models = [translator.model, deepcopy(translator.model)] * 2
    with torch.no_grad(): models[1].output.weight.add_(1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda data: write_atomically(tmp_path/'x', data), datas))
        list(pool.map(lambda x: save_model(tmp_path/'m', x, translator.tokenizer), models))
    assert (tmp_path/'x').read_bytes() in datas
    assert load_model(tmp_path/'m') and len(list(tmp_path.glob('m/*'))) == 3

# A class of one's own

class Mine(Transformer):
    def decode(self, *args, **kwargs): return -super().decode(*args, **kwargs)

def test_a_class_of_ones_own_is_kept_and_asked_for(tmp_path):
    tokenizer = BPETokenizer.train(['a dog', 'a cat'] * 9, 270)
    config = preset('tiny').override(d_model=32, d_ff=64).model
    model = Mine(type(config).tiny(tokenizer.vocab_size)).eval()
    save_model(tmp_path/'m', model, tokenizer)
    for opened in (load_model, Translator, transformer_nb.open_model):
        with pytest.raises(InputError, match='was saved by Mine.*pass family=Mine'):
            opened(tmp_path/'m')
    with pytest.raises(InputError, match='was saved by Mine'):
        transformer_nb.export_page([tmp_path/'m'], tmp_path/'page.html')
    loaded, _ = load_model(tmp_path/'m', family=Mine)
    src = tgt = torch.tensor([[4, 5, 6]])
    assert torch.equal(loaded(src, tgt), model(src, tgt))
    translator = Translator(tmp_path/'m', family=Mine, beam_size=1)
    assert isinstance(translator.model, Mine)

# What people guess

def test_every_option_of_the_search_is_taken():
    own = {name for function in (search, beam_search)
           for name in signature(function).parameters}
    given = {name: None for name in own - {'model', 'sentences', 'src', 'options'}}
    given |= dict(precision='fp32')
    assert Translator('everyday-en-de', torch.device('cpu'), **given)

@pytest.mark.parametrize('guess, meant', [
    (lambda: Translator('everyday-en-de', beam=4), 'do you mean beam_size'),
    (lambda: preset('tiny').override(learning_rate=1.), 'do you mean lr')])
def test_a_wrong_name_is_told_the_right_one(guess, meant):
    with pytest.raises(InputError, match=meant): guess()

def test_the_front_door(tmp_path, monkeypatch):
    "The page *From Python* runs from top to bottom; the package lists eight names"
    names = [name for name in dir(transformer_nb) if name[0] != '_']
    assert set(transformer_nb.__all__) <= set(names) and len(transformer_nb.__all__) == 8
    text = (ROOT/'docs/reference/python.md').read_text(encoding='utf8')
    code = ''.join(re.findall(r'^```python\n(.*?)^```', text, re.M | re.S))
    assert len(code.splitlines()) <= 40
    monkeypatch.chdir(tmp_path)
    exec(code, {'__name__': 'page'})
    assert (tmp_path/'page.html').exists()

# What is long, or written otherwise

def test_a_number_of_any_length(translator):
    lines = translator.translate_lines(['7' * 5000 + ' dogs sleep.', 'A dog sleeps.'])
    assert lines[1].text == 'Ein Hund schläft.'
    assert lines[1].notes == [] # no doubt

@pytest.mark.parametrize('change', [
    lambda s: s.replace('d', 'd\u00ad'), lambda s: s.replace('d', '\u200bd'),
    lambda s: normalize('NFD', s), lambda s: '\ufeff' + s, lambda s: s.upper(),
    lambda s: s.replace('s', '\uff53')])
def test_a_leak_is_seen_as_the_tokenizer_reads(change, tmp_path):
    valid = [('Der Hund schläft über Nacht.', 'The dog sleeps over night.')]
    config = DataConfig(drop_leaks=True, normalize='plain', src=[tmp_path])
    assert config.src == [str(tmp_path)] # so that it can be stored
    held_out = find_held_out(valid, config)
    src, tgt = map(change, valid[0])
    assert _find_fault(src, 'Another.', False, held_out, config) == 'held out'
    assert _find_fault('Anderes.', tgt, False, held_out, config) == 'held out'
    assert _find_fault('Anderes.', 'Another.', False, held_out, config) == ''

def test_a_training_in_another_thread(tmp_path):
    pairs = [('a b', 'b a'), ('b c', 'c b')] * 20
    run = preset('tiny').override(max_steps=2, warmup_steps=1, vocab_size=270, d_model=32,
                                  d_ff=64)
    found = []
    def train():
        corpus = dict(train=pairs, valid=pairs[:2])
        try: found.append(train_translator(tmp_path/'m', run, corpus=corpus))
        except Exception as e: found.append(e)
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert not isinstance(found[0], Exception), found
    load_model(tmp_path/'m')
