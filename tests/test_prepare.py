"Data prepared once: filters, tags, mixtures, and trainings from the folder."
import json, shutil
from collections import Counter
from dataclasses import replace
from itertools import islice
import pytest
import tokenizers
from hypothesis import given, strategies as st
from transformer_nb import prepare
from transformer_nb.checkpoint import load_model
from transformer_nb.commands import tnb_evaluate, tnb_prepare, tnb_train, tnb_translate
from transformer_nb.support.core import FieldError, InputError
from transformer_nb.corpora import JoinedPairs, load_corpus
from transformer_nb.commands import tnb_export
from transformer_nb.prepare import (
    DataConfig, clean_corpora, _share_of, clean_splits,
    open_prepared, prepare_data)
from transformer_nb.foreign import ForeignTokenizer, load_any_tokenizer
from transformer_nb.translation import (Translator, model_languages, preset,
                                        train_translator)
from running import call, read_lines, refuses, write

SMALL = dict(d_model=16, d_ff=16, n_heads=2, n_encoder_layers=1, n_decoder_layers=1,
             max_steps=4, valid_every=2, save_every=2)
AS_OPTIONS = [f'--{name}={value}' for name, value in SMALL.items()]

def prepared(*arguments): return call(tnb_prepare, [str(x) for x in arguments])
def train(*arguments): return call(tnb_train, [str(x) for x in [*AS_OPTIONS, *arguments]])

@pytest.fixture(scope='module')
def texts(tmp_path_factory):
    "Two corpora, the second with a third of the first, and sentences to validate on"
    folder, corpus = tmp_path_factory.mktemp('texts'), load_corpus('mini')
    parts = dict(own=corpus['train'][:150], web=corpus['train'][100:300],
                 valid=corpus['valid'][:20])
    for name, pairs in parts.items():
        for lang, lines in zip(('de', 'en'), zip(*pairs)):
            write(folder/f'{name}.{lang}', lines)
    return folder

def sources(texts):
    return ['--src', texts/'own.de', texts/'web.de', '--tgt', texts/'own.en',
            texts/'web.en', '--valid_src', texts/'valid.de', '--valid_tgt',
            texts/'valid.en', '--vocab_size', 400]

@pytest.fixture(scope='module')
def data(texts, tmp_path_factory):
    "A folder from the two, mixed and tagged"
    folder = tmp_path_factory.mktemp('prepared')/'data'
    done = prepared(folder, *sources(texts), '--tag', 'none', '<web>', '--mix', 2, 0.5,
                    '--drop_duplicates')
    assert done.returncode == 0, done.stderr.decode()
    return folder, done.stdout.decode()

# Filters

def faults(pairs, **filters):
    [clean] = clean_corpora(pairs, DataConfig(**filters))
    return list(clean), clean.dropped

def test_no_filter_is_on_unless_asked():
    pairs = [('Ja.', 'Ja.'), ('Ja.', 'Ja.'), ('12', '34')]
    assert faults(pairs) == (pairs, {})

def test_duplicates_are_found_in_other_corpora():
    parts = clean_corpora(JoinedPairs([[('a', 'b')], [('a', 'b'), ('c', 'd')]]),
                          DataConfig(drop_duplicates=True))
    assert [list(part) for part in parts] == [[('a', 'b')], [('c', 'd')]]
    assert [list(part) for part in parts] == [[('a', 'b')], [('c', 'd')]] # read again

@given(st.lists(st.tuples(st.sampled_from('abc'), st.sampled_from('abc')), max_size=30))
def test_the_first_of_equal_pairs_stays(pairs):
    kept, _ = faults(pairs, drop_duplicates=True)
    assert kept == list(dict.fromkeys(pairs))

def test_the_same_on_both_sides():
    kept, dropped = faults([('Berlin', 'Berlin '), ('Bonn', 'Bonn!')], drop_same=True)
    assert kept == [('Bonn', 'Bonn!')] and dropped == {'same on both sides': 1}

def test_share_of_letters():
    shares = {'abcd': 1, 'ab12': 0.5, '....': 0, '': 1, 'e\u0301!': 2/3, 'नमस्ते': 1,
              '１２': 0, '你好': 1, 'a_': 0.5}
    for text, share in shares.items(): assert _share_of(text) == pytest.approx(share)

def test_the_worse_side_decides():
    pairs = [('Haus', '12 34'), ('12 34', 'house'), ('ab12', 'ab 34')]
    kept, dropped = faults(pairs, min_letters=0.5)
    assert kept == pairs[2:] and dropped == {'few letters': 2}

def test_settings_of_no_use_are_refused():
    for options, message in [
            (dict(min_letters=1.5), 'min_letters is 1.5; it must be from 0 to 1'),
            (dict(mix=[1., 0.]), 'mix is 0.0; it must be above 0'),
            (dict(mix=[1., 2.], src=['a'] * 3), 'mix has 2 values; there are 3 corpora'),
            (dict(tag='a b'), "tag is 'a b'; it must be text without spaces"),
            (dict(tag='</s>'), "tag is '</s>'"),
            (dict(tag='<français>'), "it must be ASCII between marks"),
            (dict(tokenizer_pairs=0), 'tokenizer_pairs is 0')]:
        with pytest.raises(FieldError, match=message): DataConfig(**options)

# Sentences held out

LEAKS = [('Ein Hund.', 'A dog.'), ('ein  HUND.', 'Another.'), ('Neu.', 'A cat.'),
         ('x', 'y')]
VALID = [('Ein Hund.', 'The dog.'), ('Was?', 'A cat.'), ('', '')]

def test_leaks_are_counted_and_removed_where_asked():
    corpus = dict(train=LEAKS, valid=VALID)
    for drop, kept in ((False, LEAKS), (True, [('x', 'y')])):
        splits = clean_splits(corpus, DataConfig(drop_leaks=drop))
        [train], [valid] = splits['train'], splits['valid']
        assert list(train) == kept and list(valid) == VALID
        assert train.leaks == len(kept) - 1 and valid.leaks == 0
        assert train.dropped == ({'held out': 3} if drop else {})

def test_further_sentences_are_held_out(tmp_path):
    write(tmp_path/'test.en', ['Y', ''])
    config = DataConfig(drop_leaks=True, held_out=str(tmp_path/'test.en'))
    [train] = clean_splits(dict(train=[*LEAKS, ('', '')], valid=VALID[:1]), config)['train']
    assert list(train) == [('Neu.', 'A cat.'), ('', '')]

def test_leaks_are_told(texts, tmp_path):
    "By both commands, and once they are removed, as what was left out"
    options = sources(texts)
    options[7], options[9] = texts/'own.de', texts/'own.en' # validation is in the training
    files = ['--vocab_size', 9000]
    done = prepared(tmp_path/'d', *options, *files).stdout.decode()
    assert 'of those kept, 150 also have a sentence of the validation' in done
    assert '9000 were requested' in done
    done = train('--data', tmp_path/'d', '--out', tmp_path/'m').stderr.decode()
    assert 'also have a sentence of the validation' in done
    done = prepared(tmp_path/'e', *options, '--drop_leaks').stdout.decode()
    assert '150 held out' in done and 'with a sentence' not in done

# The tokenizer

def test_every_pair_is_as_likely_in_the_sample(monkeypatch):
    rng, times = prepare.random.Random(0), 3000
    monkeypatch.setattr(prepare.random, 'Random', lambda seed: rng)
    samples = [prepare._draw_sample('abcd', 2) for _ in range(times)]
    counts = Counter(letter for sample in samples for letter in sample)
    assert [abs(counts[letter] - times / 2) < 120 for letter in 'abcd'] == [True] * 4

def test_the_sample_follows_the_mixture():
    corpora = [[('a', 'b')] * 100, [('c', 'd')] * 100]
    mixed = list(prepare._mixed(corpora, DataConfig(mix=[3., 0.5])))
    counts = Counter(mixed)
    assert counts['a', 'b'] == 300 and 30 < counts['c', 'd'] < 70

@pytest.fixture(scope='module')
def foreign(tmp_path_factory):
    "A tokenizer of another kind, as a file"
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=200, show_progress=False, unk_token='<unk>', special_tokens=['<unk>'])
    texts = [text for pair in load_corpus('mini')['train'][:300] for text in pair]
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.enable_padding(length=500)
    path = tmp_path_factory.mktemp('foreign')/'tokenizer.json'
    tokenizer.save(str(path))
    return path

def test_a_model_with_a_tokenizer_of_others(texts, foreign, tmp_path):
    out = tmp_path/'m'
    done = prepared(tmp_path/'data', *sources(texts)[:-2], '--tokenizer', foreign)
    assert done.returncode == 0, done.stderr.decode()
    assert train('--data', tmp_path/'data', '--out', out).returncode == 0
    model, tokenizer = load_model(out)
    assert isinstance(tokenizer, ForeignTokenizer)
    assert model.config.vocab_size == tokenizer.vocab_size == 204
    ids = tokenizer.encode('Anna schläft.')
    assert len(ids) < 50 and min(ids) >= 4 # neither padded nor special
    assert tokenizer.decode(ids) == 'Anna schläft.'
    done = call(tnb_translate, out, stdin=b'Anna.\n')
    assert done.returncode == 0 and done.stdout.count(b'\n') == 1
    for target in ('page.html', 'folder'):
        refuses(call(tnb_export, out, tmp_path/target), 'made by others', 'tnb_translate')

# The folder

def test_the_report_counts_each_corpus(data, texts):
    lines = data[1].splitlines()
    assert lines[0].startswith(f'{texts}/own.de: 150 pairs, left out: 0 duplicate')
    assert lines[1].startswith(f'{texts}/web.de: 150 pairs, left out: 50 duplicate')
    assert lines[2].startswith('validation: 20 pairs, left out: 0 empty')
    assert f'tnb_train --data {data[0]}' in lines[3]
    record = json.loads((data[0]/'prepared.json').read_text())
    parts = record['splits']['train']['corpora']
    assert [part['dropped']['duplicate'] for part in parts] == [0, 50]

def test_sources_stand_behind_their_tag(data, texts):
    folder = open_prepared(data[0])
    decode = folder.tokenizer.decode
    pairs = folder.pairs('train')
    assert decode(pairs[0][0]) == read_lines(texts/'own.de')[0]
    assert decode(pairs[150][0]) == '<web>' + read_lines(texts/'web.de')[50]
    assert decode(pairs[150][1]) == read_lines(texts/'web.en')[50]
    assert decode(folder.pairs('valid')[0][0]) == read_lines(texts/'valid.de')[0]

def test_a_preparation_is_whole_or_not_there(texts, tmp_path, monkeypatch):
    "Also if it was killed"
    left = tmp_path/'.d.tnb.tmp'
    left.mkdir()
    (left/'train.ids').write_bytes(b'half')
    def stop(*args): raise KeyboardInterrupt
    with monkeypatch.context() as m:
        m.setattr(prepare, 'write_atomically', stop)
        assert prepared(tmp_path/'d', *sources(texts)).returncode == 130
    assert not list(tmp_path.iterdir())
    assert prepared(tmp_path/'d', *sources(texts)).returncode == 0
    open_prepared(tmp_path/'d')
    assert [path.name for path in tmp_path.iterdir()] == ['d']

def test_nothing_is_ours_by_its_name(texts, tmp_path):
    names = ['train.ids', 'train.json', 'tokenizer.json', '.hidden', 'train.ids.tnb.tmp']
    for name in names: (tmp_path/name).write_text('mine')
    refuses(prepared(tmp_path, *sources(texts)), 'is not empty')
    found = [path for path in tmp_path.rglob('*') if path.is_file()]
    assert sorted(found) == sorted(tmp_path/name for name in names)
    assert all(path.read_text() == 'mine' for path in found)

def test_a_damaged_folder_is_refused(data, tmp_path):
    harmed = {'train.ids': (data[0]/'train.ids').read_bytes()[:-4], 'valid.lengths': None,
              'tokenizer.json': b'{}', 'prepared.json': b'{"data": {"colour": 1}}'}
    for name, content in harmed.items():
        folder, out = shutil.copytree(data[0], tmp_path/name), tmp_path/'m'
        (folder/name).unlink()
        if content: (folder/name).write_bytes(content)
        refuses(train('--data', folder, '--out', out), str(folder))
        assert not out.exists()

# Trainings from it

def test_three_seeds_from_one_folder(data, tmp_path, monkeypatch):
    "None of them reads text"
    def no_text(*args, **kwargs): raise AssertionError('text was read')
    monkeypatch.setattr(prepare, 'load_corpus', no_text)
    before = {path: path.read_bytes() for path in data[0].iterdir()}
    weights = set()
    for seed in range(3):
        out = tmp_path/f'm{seed}'
        done = train('--data', data[0], '--out', out, '--seed', seed)
        assert done.returncode == 0, done.stderr.decode()
        assert not (out/'data').exists()
        weights.add((out/'model.safetensors').read_bytes())
    assert len(weights) == 3
    assert before == {path: path.read_bytes() for path in data[0].iterdir()}

def test_a_folder_gives_the_model_that_text_gives(data, texts, tmp_path):
    "And a run interrupted, whose text is gone, the model of one that was not"
    (tmp_path/'run.yaml').write_text('data: {drop_duplicates: true}')
    own = [*sources(texts), '--tag', 'none', '<web>', '--mix', 2, 0.5]
    own += ['--config', tmp_path/'run.yaml']
    copy = tmp_path/'texts'
    copy.mkdir()
    for path in texts.iterdir(): (copy/path.name).write_bytes(path.read_bytes())
    moved = [copy/x.name if x in list(texts.iterdir()) else x for x in own]
    for name, options in dict(folder=['--data', data[0]], text=own, cut=moved).items():
        steps = 2 if name == 'cut' else 4
        done = train('--out', tmp_path/name, *options, '--max_steps', steps)
        assert done.returncode == 0, done.stderr.decode()
    for path in copy.glob('own.*'): path.unlink()
    done = train('--out', tmp_path/'cut', *moved, '--resume')
    assert done.returncode == 0, done.stderr.decode()
    for name in ('model.safetensors', 'tokenizer.json'):
        found = {(tmp_path/run/name).read_bytes() for run in ('folder', 'text', 'cut')}
        assert len(found) == 1, name

def test_a_corpus_in_memory_is_recognized(tmp_path):
    pairs = load_corpus('mini')['train']
    corpus, *others = (dict(train=pairs[i:50 + i], valid=pairs[60 + j:70 + j])
                       for i, j in ((0, 0), (1, 0), (0, 1)))
    run = preset('tiny').override(vocab_size=300, tag='<a>', valid_tag='<b>', **SMALL)
    train_translator(tmp_path/'m', run, corpus=corpus)
    longer = run.override(max_steps=6)
    for other in others: # in one of the two parts
        with pytest.raises(InputError, match='another run'):
            train_translator(tmp_path/'m', longer, resume=True, corpus=other)
    train_translator(tmp_path/'m', longer, resume=True, corpus=corpus)

def test_what_contradicts_the_folder_is_refused(data, tmp_path):
    for options, words in [
            (['--max_len', 5], ['--max_len is 5', 'sentences of']),
            (['--vocab_size', 300], ['--vocab_size and --data cannot be combined']),
            (['--tgt_lang', 'fr'], ["--tgt_lang is 'fr'", 'was prepared with None'])]:
        refuses(train('--data', data[0], '--out', tmp_path/'m', *options), *words)
        assert not (tmp_path/'m').exists()

def test_fine_tuning_from_a_folder(data, texts, tmp_path):
    "Which has to be prepared with the tokenizer of the model"
    model, first, fitting = (tmp_path/name for name in ('m', 'first', 'fitting'))
    languages = ['--tgt_lang', 'en', '--src_lang']
    assert prepared(first, *sources(texts), *languages, 'de').returncode == 0
    assert train('--data', first, '--out', model).returncode == 0
    options = ['--init', model, '--max_steps', 2]
    def tune(folder, out):
        return call(tnb_train, [str(x) for x in [*options, '--data', folder, '--out', out]])
    words = 'tokenizer of the model', 'prepare it with the model'
    refuses(tune(data[0], tmp_path/'x'), *words)
    given = ['--tokenizer', model/'tokenizer.json', *languages, 'fr']
    assert prepared(fitting, *sources(texts)[:-2], *given).returncode == 0
    done = tune(fitting, tmp_path/'y')
    assert done.returncode == 0, done.stderr.decode()
    of_models = [model_languages(folder) for folder in (model, tmp_path/'y')]
    assert of_models == [('de', 'en'), ('fr', 'en')] # those of the data

def test_from_two_corpora_to_scores_and_an_export(data, texts, tmp_path):
    "Tags reach CTranslate2 as tokens; of a page they are none, unless each text needs one"
    pytest.importorskip('ctranslate2')
    out = tmp_path/'m'
    assert train('--data', data[0], '--out', out).returncode == 0
    assert Translator(out).tokenizer.tags == ['<web>']
    hyp = tmp_path/'hyp'
    files = dict(src=texts/'valid.de', ref=texts/'valid.en')
    assert call(tnb_evaluate, out, out=hyp, **files).returncode == 0
    done = call(tnb_evaluate, out, baseline=hyp, **files)
    assert 'comparison' in json.loads(done.stdout)
    assert call(tnb_export, out, tmp_path/'ct2').returncode == 0
    again = load_any_tokenizer(tmp_path/'ct2'/'tokenizer.json')
    assert again.tags == ['<web>']
    assert call(tnb_export, out, tmp_path/'page.html').returncode == 0
    record = json.loads((out/'config.json').read_text())
    record['training']['config']['data']['tag'] = ['<web>', '<web>']
    (out/'config.json').write_text(json.dumps(record))
    refuses(call(tnb_export, out, tmp_path/'no.html'), 'does not know tags', '<web>')

def test_a_record_of_other_kinds_is_refused(data, tmp_path):
    changes = [
        lambda r: r.update(splits=[]), lambda r: r.update(format=2),
        lambda r: r['data'].update(src={})]
    folder = shutil.copytree(data[0], tmp_path/'d')
    text = (folder/'prepared.json').read_text()
    for change in changes:
        record = json.loads(text)
        change(record)
        (folder/'prepared.json').write_text(json.dumps(record))
        with pytest.raises(InputError, match='is damaged'): open_prepared(folder)

def test_duplicates_are_found_in_any_form():
    pairs = [("It's Mu\u0308ller.", 'a'), ('It’s\u00a0Müller.', 'a'), ('Other.', 'b')]
    def kept(**options):
        [corpus] = clean_corpora(pairs, DataConfig(drop_duplicates=True, **options))
        return len(list(corpus))
    assert kept() == 2 and kept(normalize='none') == 3

def test_a_given_tokenizer_gets_new_tags(tmp_path):
    "Else one would be read as several pieces, without a word; one of others is refused"
    pairs = [('a b', 'c d')] * 9
    config = DataConfig(vocab_size=300, tag='<bt>')
    corpus = dict(train=pairs, valid=pairs[:1])
    known = prepare_data(tmp_path/'one', config, corpus=corpus).tokenizer
    assert len(known.encode('<bt>')) == 1
    prepare_data(tmp_path/'two', config, corpus=corpus, tokenizer=known)
    other = replace(config, tag='<web>')
    grown = prepare_data(tmp_path/'three', other, corpus=corpus, tokenizer=known).tokenizer
    assert grown.tags == ['<bt>', '<web>'] and grown.encode('<web>') == [known.vocab_size]
    strange = ForeignTokenizer.from_json(known.to_json())
    with pytest.raises(InputError, match="tag is '<web>', which is not a token of this"):
        prepare_data(tmp_path/'four', other, corpus=corpus, tokenizer=strange)
    assert not (tmp_path/'four').exists()

def test_a_pair_is_judged_once(monkeypatch):
    "Text is read for the tokenizer, too; judging it again took as long as encoding"
    judged = []
    find = prepare._find_fault
    monkeypatch.setattr(prepare, '_find_fault',
                        lambda src, *args: judged.append(src) or find(src, *args))
    pairs = [('a', 'b'), ('12', '34'), ('x', 'x'), ('v', 'w'), ('c', 'd'), ('c', 'd')]
    config = DataConfig(drop_duplicates=True, drop_same=True, min_letters=0.5)
    known = prepare.find_held_out([('v', 'y')], config)
    [corpus] = clean_corpora(pairs, config, held_out=known)
    first = list(islice(corpus, 2))
    for _ in range(3):
        assert list(corpus) == [('a', 'b'), ('v', 'w'), ('c', 'd')]
        assert first == [('a', 'b'), ('v', 'w')] and corpus.leaks == 1
        assert corpus.dropped == {'duplicate': 1, 'same on both sides': 1, 'few letters': 1}
    assert judged == [src for src, _ in pairs]
