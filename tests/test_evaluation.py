"Scores on the corpus's own tokenised files, intervals, comparisons, and what is refused."
import json, logging
from math import exp
from random import Random
import pytest, torch
from sacrebleu.metrics import BLEU, CHRF
from transformer_nb.core import InputError
from transformer_nb.corpora import load_corpus, read_lines
from transformer_nb.data import make_batch
from transformer_nb.evaluation import moses_lc, paired_test, perplexity, score
from transformer_nb.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.training import valid_loss

REFERENCES = [english for _, english in mini_corpus()['test'][:200]]

def spoiled(share, seed=0):
    rng = Random(seed)
    return [' '.join('x' if rng.random() < share else word for word in line.split()) for line in REFERENCES]

@pytest.mark.parametrize('lang', ['de', 'en'])
def test_the_corpus_own_tokenised_file(multi30k_dir, lang):
    "Multi30k's test_2016_flickr.lc.norm.tok, line by line, from the raw file"
    pairs = load_corpus('multi30k', 'en', 'de', multi30k_dir)['test']
    made = moses_lc([pair[lang == 'de'] for pair in pairs], lang)
    theirs = read_lines(multi30k_dir/'multi30k'/'tok'/f'test_2016_flickr.lc.norm.tok.{lang}')
    assert len(made) == 1000 and made == theirs

def test_moses_score_is_that_of_the_tokenised_file(multi30k_dir):
    "Scoring the corpus's file with itself, or raw text by `lang`, is one and the same; signatures say which"
    tok = read_lines(multi30k_dir/'multi30k'/'tok'/'test_2016_flickr.lc.norm.tok.de')
    references = [tgt for _, tgt in load_corpus('multi30k', 'en', 'de', multi30k_dir)['test']]
    rng = Random(0)
    translations = [' '.join(w for w in line.split() if rng.random() > 0.1) for line in references]
    wanted = BLEU(tokenize='none', force=True).corpus_score(moses_lc(translations, 'de'), [tok]).score
    assert score(translations, references, 'de')['bleu_moses_lc'] == round(wanted, 2) < 90

@pytest.mark.parametrize('text, lang, tokens', [
    ('Ein Mann.', 'de', 'ein mann .'),
    ('„Hallo“, sagt Dr. Berg.', 'de', '&quot; hallo &quot; , sagt dr. berg .'),
    ("It's a dog's life & more", 'en', 'it &apos;s a dog &apos;s life &amp; more'),
    ('', 'de', '')])
def test_moses(text, lang, tokens): assert moses_lc([text], lang) == [tokens]

@pytest.mark.parametrize('lang', ['xx', 'DE', 'german', ''])
def test_unknown_language_is_refused(lang):
    with pytest.raises(InputError, match=repr(lang)): moses_lc(['Ein Mann.'], lang)

def test_score_without_options():
    scores = score(spoiled(0.1), REFERENCES)
    assert set(scores) == {'bleu', 'bleu_lc', 'chrf', 'signatures'} and set(scores['signatures']) == {'bleu', 'bleu_lc', 'chrf'}
    assert scores['bleu'] == round(BLEU().corpus_score(spoiled(0.1), [REFERENCES]).score, 2)
    assert scores['chrf'] == round(CHRF().corpus_score(spoiled(0.1), [REFERENCES]).score, 2)

def test_score_with_all_of_it(caplog):
    with caplog.at_level(logging.WARNING): scores = score(spoiled(0.1), REFERENCES, lang='en', n_bootstrap=1000)
    assert not caplog.records                                  # no warning that the Moses text is tokenised: it shall be
    assert set(scores) == {'bleu', 'bleu_lc', 'bleu_moses_lc', 'chrf', 'ci', 'signatures'}
    low, high = scores['ci']
    assert low < scores['bleu'] < high and high - low < 10
    assert 'bs:1000|seed:' in scores['signatures']['bleu']
    assert scores['signatures']['bleu_moses_lc'].count('moses-en') == 1
    assert json.loads(json.dumps(scores)) == scores
    assert score(spoiled(0.1), REFERENCES, lang='en', n_bootstrap=1000) == scores

def test_case_counts_only_where_it_should():
    shouted = [line.upper() for line in REFERENCES]
    scores = score(shouted, REFERENCES, lang='en')
    assert scores['bleu'] < 20 and scores['bleu_lc'] == scores['bleu_moses_lc'] == 100

def test_interval_narrows_with_the_square_root():
    def width(n):
        low, high = score(spoiled(0.2)[:n], REFERENCES[:n], n_bootstrap=1000)['ci']
        return high - low
    assert 1.4 < width(50) / width(200) < 2.8

def test_nothing_right_has_a_score():
    scores = score(['x'] * 200, REFERENCES, lang='en', n_bootstrap=100)
    assert scores['bleu'] < 0.01 and scores['ci'][1] < 0.01

@pytest.mark.parametrize('translations, references, words', [
    (['a'], [], '1 translations and 0 references'), ([], ['a'], '0 translations and 1 references'), ([], [], 'no sentences')])
def test_sentences_must_match(translations, references, words):
    with pytest.raises(InputError, match=words): score(translations, references)

def test_paired_test():
    worse, better = spoiled(0.2), spoiled(0.1)
    result = paired_test(worse, better, REFERENCES)
    assert result['baseline'] == score(worse, REFERENCES)['bleu'] and result['system'] == score(better, REFERENCES)['bleu']
    assert abs(result['difference'] - (result['system'] - result['baseline'])) < 0.011 and result['p'] < 0.01
    back = paired_test(better, worse, REFERENCES)
    assert back['difference'] == -result['difference'] and back['p'] < 0.01
    assert 'ar:10000' in result['signature'] and json.dumps(result)

def test_equals_are_equal():
    assert paired_test(spoiled(0.2), spoiled(0.2), REFERENCES)['p'] == 1
    p = [paired_test(spoiled(0.2, 2*i), spoiled(0.2, 2*i + 1), REFERENCES, n_samples=1000)['p'] for i in range(20)]
    assert sum(x < 0.05 for x in p) <= 3 and 0.2 < sum(p)/20 < 0.8, p

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
    assert abs(paired_test(system, mended, REFERENCES)['p'] - exact) < 0.0002 and exact == 2**(1 - k)

def test_other_words_with_the_same_counts_are_no_difference():
    "Wrong words in place of wrong words: nothing that BLEU counts is different"
    first = spoiled(0.2)
    assert paired_test(first, [line.replace(' x ', ' y ') for line in first], REFERENCES)['p'] == 1

@pytest.mark.parametrize('wrong', ['baseline', 'system'])
def test_paired_test_names_the_side_that_is_short(wrong):
    sides = dict(baseline=spoiled(0.1), system=spoiled(0.2))
    sides[wrong] = sides[wrong][:-1]
    with pytest.raises(InputError, match=f'199 {wrong}'): paired_test(**sides, references=REFERENCES)

def test_perplexity():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig.tiny(30, n_encoder_layers=1, n_decoder_layers=1, d_model=16)) # in train mode
    batches = [make_batch([([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9])]), make_batch([([4], [4])])]
    assert perplexity(model, batches) == exp(valid_loss(model, batches)) and model.training
    with torch.no_grad():
        for p in model.parameters(): p.zero_()
    assert abs(perplexity(model, batches) - 30) < 1e-3
