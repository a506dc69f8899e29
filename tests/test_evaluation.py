"Scores on the corpus's own tokenised files, intervals, comparisons, and what is refused."
import json, logging
from contextlib import nullcontext
from math import exp
from random import Random
import pytest, torch
from sacrebleu import significance
from sacrebleu.metrics import BLEU
from transformer_nb import evaluation
from transformer_nb.support.core import InputError
from transformer_nb.corpora import load_corpus, read_lines
from transformer_nb.data import make_batch
from transformer_nb.evaluation import (moses_lc, paired_bootstrap, paired_test,
                                       perplexity, score, seeds_bootstrap)
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import normalize
from transformer_nb.training import valid_loss

REFERENCES = [english for _, english in mini_corpus(0, 200, 0, 0)['train']]

def test_a_low_score_says_why(caplog):
    lines = ['Er hört „nichts“ und geht.', 'Sie mögen es sehr gern.']
    plain = list(map(normalize, lines))
    assert 'notes' not in score(plain, plain) and 'notes' not in score(lines, lines)
    assert 'in another form' in score(plain, lines)['notes'][0]
    pieces, fours = score(['hö▁rt'], ['hört'])['notes']
    assert 'pieces' in pieces and 'four words in a row' in fours
    assert 'marks: 1' in score([plain[0].replace('"', '', 1)], plain[:1])['notes'][0]
    assert 'pieces' in score(['Er geht hin .'] * 101, ['Er geht hin.'] * 101)['notes'][0]
    assert 'alone: 2' in score([*lines, '', 'Er'], [*lines, 'Er', ''])['notes'][0]
    assert not caplog.records # sacreBLEU would advise options that are not here

def spoiled(share, seed=0):
    rng = Random(seed)
    def spoil(word): return 'x' if rng.random() < share else word
    return [' '.join(map(spoil, line.split())) for line in REFERENCES]

@pytest.mark.parametrize('lang', ['de', 'en'])
def test_the_corpus_own_tokenised_file(multi30k_dir, lang):
    "Multi30k's test_2016_flickr.lc.norm.tok, line by line, from the raw file"
    pairs = load_corpus('multi30k', 'en', 'de', multi30k_dir)['test']
    made = moses_lc([pair[lang == 'de'] for pair in pairs], lang)
    folder = multi30k_dir/'multi30k'/'tok'
    theirs = read_lines(folder/f'test_2016_flickr.lc.norm.tok.{lang}')
    assert len(made) == 1000 and made == theirs

def test_moses_score_is_that_of_the_tokenised_file(multi30k_dir):
    "Scoring raw text by `lang` is scoring against the corpus's own tokenised file"
    tok = read_lines(multi30k_dir/'multi30k'/'tok'/'test_2016_flickr.lc.norm.tok.de')
    pairs = load_corpus('multi30k', 'en', 'de', multi30k_dir)['test']
    references = [tgt for _, tgt in pairs]
    rng = Random(0)
    def shortened(line): return ' '.join(w for w in line.split() if rng.random() > 0.1)
    translations = [shortened(line) for line in references]
    bleu = BLEU(tokenize='none', force=True)
    wanted = bleu.corpus_score(moses_lc(translations, 'de'), [tok]).score
    assert score(translations, references, 'de')['bleu_moses_lc'] == round(wanted, 2) < 90

@pytest.mark.parametrize('text, lang, tokens', [
    ('Ein Mann.', 'de', 'ein mann .'),
    ('„Hallo“, sagt Dr. Berg.', 'de', '&quot; hallo &quot; , sagt dr. berg .'),
    ("It's a dog's life & more", 'en', 'it &apos;s a dog &apos;s life &amp; more'),
    ('', 'de', '')])
def test_moses(text, lang, tokens): assert moses_lc([text], lang) == [tokens]

CHINESE = ['两只狗在雪地里玩耍。', '一个男人在弹吉他。', '孩子们在公园里踢足球。']
NEARLY = ['两只狗在雪中玩耍。', '一个男人正在弹吉他。', '孩子们在公园踢足球。']

@pytest.mark.parametrize('lang, rule', [('zh', 'zh'), ('yue', 'zh'), ('th', 'char')])
def test_languages_without_spaces_have_their_own_rule(lang, rule):
    scores = score(NEARLY, CHINESE, lang, n_bootstrap=100)
    wanted = BLEU(tokenize=rule).corpus_score(NEARLY, [CHINESE]).score
    assert scores['bleu'] == scores['bleu_lc'] == round(wanted, 2) > 60
    assert f'tok:{rule}|' in scores['signatures']['bleu']
    assert 'bleu_moses_lc' not in scores and 'ci_moses_lc' not in scores
    with pytest.raises(InputError, match='Moses has no rules'): moses_lc(CHINESE, lang)

def test_sentences_without_spaces_are_not_taken_for_words():
    for text, is_refused in (('你好 text', False), ('你好吗 text', True)): # a third, and more
        with nullcontext() if not is_refused else pytest.raises(InputError):
            score([text], [text])
    with pytest.raises(InputError, match='no spaces between words'): score(NEARLY, CHINESE)
    with pytest.raises(InputError, match='no spaces between words'):
        score(NEARLY, CHINESE, 'en')
    assert score(NEARLY, CHINESE, tokenize='char')['bleu'] > 60
    assert score(['你好 hello'], ['你好 means hello there'])['chrf'] > 0 # a few are no matter

def test_score_with_all_of_it(caplog):
    options = dict(lang='en', n_bootstrap=1000)
    with caplog.at_level(logging.WARNING):
        scores = score(spoiled(0.1), REFERENCES, **options)
    assert not caplog.records # no warning that the Moses text is tokenised, as it should be
    assert set(scores) == {'bleu', 'bleu_lc', 'bleu_moses_lc', 'chrf', 'ci', 'ci_moses_lc',
                           'signatures'}
    for name, interval in dict(bleu='ci', bleu_moses_lc='ci_moses_lc').items():
        low, high = scores[interval]
        assert low < scores[name] < high and high - low < 10
        assert 'bs:1000|seed:' in scores['signatures'][name]
    assert scores['signatures']['bleu_moses_lc'].count('moses-en') == 1
    assert json.loads(json.dumps(scores)) == scores
    assert score(spoiled(0.1), REFERENCES, **options) == scores

def test_case_counts_only_where_it_should():
    shouted = [line.upper() for line in REFERENCES]
    scores = score(shouted, REFERENCES, lang='en')
    assert scores['bleu'] < 20 and scores['bleu_lc'] == scores['bleu_moses_lc'] == 100

def test_every_list_of_references_must_match():
    with pytest.raises(InputError, match='2 translations and 1 references'):
        score(['a b', 'c d'], [['a b', 'c d'], ['a b']])

def test_paired_test():
    worse, better = spoiled(0.2), spoiled(0.1)
    result = paired_test(worse, better, REFERENCES)
    assert result['baseline'] == score(worse, REFERENCES)['bleu']
    assert result['system'] == score(better, REFERENCES)['bleu']
    difference = result['system'] - result['baseline']
    assert abs(result['difference'] - difference) < 0.011 # each of the three is rounded
    assert 0 < result['p'] < 0.01
    back = paired_test(better, worse, REFERENCES)
    assert back['difference'] == -result['difference'] and back['p'] < 0.01
    assert 'ar:10000' in result['signature'] and json.dumps(result)

@pytest.mark.parametrize('k', [1, 2, 3, 5])
def test_few_mended_sentences_are_no_proof(k):
    "Against all 2^k exchanges of the k sentences that differ, one by one"
    system = spoiled(0.2)
    hit = [i for i, (t, r) in enumerate(zip(system, REFERENCES)) if t != r][:k]
    def exchanged(chosen): # two systems: mended where chosen, and mended elsewhere
        pair = [list(system), list(system)]
        for n, i in enumerate(hit): pair[chosen >> n & 1][i] = REFERENCES[i]
        return [BLEU().corpus_score(s, [REFERENCES]).score for s in pair]
    differences = [abs(a - b) for a, b in map(exchanged, range(2**k))]
    exact = sum(d >= differences[0] - 1e-9 for d in differences) / 2**k
    mended = [r if i in hit else t for i, (t, r) in enumerate(zip(system, REFERENCES))]
    assert exact == 2**(1 - k)
    assert abs(paired_test(system, mended, REFERENCES)['p'] - exact) < 0.02

def test_other_words_with_the_same_counts_are_no_difference():
    "Wrong words in place of wrong words: nothing that BLEU counts is different"
    first = spoiled(0.2)
    second = [line.replace(' x ', ' y ') for line in first]
    assert paired_test(first, second, REFERENCES)['p'] == 1

def test_paired_test_is_sacrebleus():
    "The same tosses, where nothing equals the measured difference but for rounding"
    worse, better = spoiled(0.2), spoiled(0.17, seed=1)
    named = [('worse', worse), ('better', better)]
    test = significance.PairedTest(named, {'BLEU': BLEU()}, [REFERENCES], 'ar', 1000)
    _, found = test()
    ours = paired_test(worse, better, REFERENCES, n_samples=1000)
    assert abs(ours['p'] - found['BLEU'][1].p_value) < 0.0011 and 0.001 < ours['p'] < 0.9

def test_the_ten_numbers_give_sacrebleus_score():
    "Also where no run of four is right and its smoothing shows, or where nothing is"
    pairs_only = [' x '.join(line.split()) for line in REFERENCES]
    nothing, empty = ['x'] * 200, [''] * 200
    for lines in (spoiled(0.2), pairs_only, nothing, empty):
        sums = evaluation._statistics(lines, REFERENCES).sum(0)
        wanted = BLEU().corpus_score(lines, [REFERENCES]).score
        assert evaluation._bleu(sums) == pytest.approx(wanted, abs=1e-9)
        assert paired_test(lines, nothing, REFERENCES, 50)['baseline'] == round(wanted, 2)
        assert paired_bootstrap(lines, empty, REFERENCES, 50)['difference'] <= 0

def test_paired_bootstrap():
    worse, better = spoiled(0.2), spoiled(0.1)
    result = paired_bootstrap(worse, better, REFERENCES)
    by_exchange = paired_test(worse, better, REFERENCES, n_samples=100)
    for name in ('baseline', 'system', 'difference'):
        assert result[name] == by_exchange[name]
    low, high = result['ci']
    assert 0 < low < result['difference'] < high and result['p'] < 0.01
    assert 'bs:1000' in result['signature'] and json.dumps(result)
    back = paired_bootstrap(better, worse, REFERENCES)
    assert back['ci'] == [-high, -low] and back['p'] == result['p']
    # half as wide with four times the sentences
    def width(n):
        low, high = paired_bootstrap(worse[:n], better[:n], REFERENCES[:n])['ci']
        return high - low
    assert 1.4 < width(50) / width(200) < 2.8

def width(result):
    low, high = result['ci']
    return high - low

def test_seeds_are_drawn_with_the_sentences():
    "Equal models add nothing, since all have the same sentences; different ones widen it"
    one, three = (seeds_bootstrap([spoiled(0.1)] * n, REFERENCES) for n in (1, 3))
    assert three['mean'] == one['mean']
    assert width(three) == pytest.approx(width(one), rel=0.2)
    good, bad = spoiled(0.05), spoiled(0.35)
    both = seeds_bootstrap([good, bad], REFERENCES, n_samples=400)
    low, high = (score(lines, REFERENCES)['bleu'] for lines in (bad, good))
    assert both['mean'] == pytest.approx((low + high) / 2, abs=0.01)
    # one draw in four has the bad one twice, one the good one twice
    assert both['ci'][0] < low < high < both['ci'][1]

@pytest.mark.parametrize('test', [paired_test, paired_bootstrap])
@pytest.mark.parametrize('wrong', ['baseline', 'system'])
def test_a_comparison_names_the_side_that_is_short(wrong, test):
    sides = dict(baseline=spoiled(0.1), system=spoiled(0.2))
    sides[wrong] = sides[wrong][:-1]
    with pytest.raises(InputError, match=f'199 {wrong}'):
        test(**sides, references=REFERENCES)

@pytest.mark.smoke
def test_perplexity():
    torch.manual_seed(0)
    config = TransformerConfig.tiny(30, n_encoder_layers=1, n_decoder_layers=1, d_model=16)
    model = Transformer(config) # in training mode
    long_and_short = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9])]
    batches = [make_batch(long_and_short), make_batch([([4], [4])])]
    loss = valid_loss(model, batches)
    assert perplexity(loss) == exp(loss) and model.training
    for p in model.parameters(): torch.nn.init.zeros_(p)
    assert abs(perplexity(valid_loss(model, batches)) - 30) < 1e-3
