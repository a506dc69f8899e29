"""Maps, measures and ablation, on small random models; dependencies of the grammar, and
which heads follow them, by hand and by brute force."""
import copy
from math import log
from random import Random
from unittest import mock
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.testing import assert_close
from transformer_nb.checkpoint import save_model
from transformer_nb.support.core import BOS, EOS, SPECIAL_TOKENS, UNK, InputError, set_seed
from transformer_nb.data import make_batch
from transformer_nb.lessons.grammar import (
    PATTERNS, draw_question, split_of_facts, mini_corpus)
from transformer_nb.model import (Transformer, TransformerConfig, attention_modules,
                                  attention_weights)
from transformer_nb.text import BPETokenizer
from transformer_nb.training import valid_loss
from transformer_nb.translation import Translator
from transformer_nb.studies.attention_maps import (
    Maps, attention_maps, head_costs, head_measures, plot_heads, readable, without_heads)
import transformer_nb.studies.attention_maps as am
import train_roles as protocol
from runs import read_results
from running import definitions

chapter = definitions('16_attention_maps')

TEXTS = ['ein alter Mann sitzt auf einer Bank.', 'Zwei Mädchen, die tanzen', 'größere Füße']

@pytest.fixture(scope='module')
def translator(tmp_path_factory):
    set_seed(0)
    bpe = BPETokenizer.train(TEXTS, 300)
    config = TransformerConfig.tiny(bpe.vocab_size, d_model=24, d_ff=32, n_heads=3, d_v=5,
                                    n_encoder_layers=2, n_decoder_layers=3, max_len=24)
    folder = tmp_path_factory.mktemp('model')
    save_model(folder, Transformer(config), bpe)
    translator = Translator(folder, torch.device('cpu'), beam_size=1)
    translator.model.double()
    return translator

@pytest.fixture(scope='module')
def batch(translator):
    ids = [translator.tokenizer.encode(text)[:20] for text in TEXTS]
    return make_batch(list(zip(ids, ids[1:] + ids[:1])))

def test_maps_are_the_weights_of_the_model(translator):
    bpe, (text, translation) = translator.tokenizer, TEXTS[1:]
    maps = attention_maps(translator, text, translation)
    src = bpe.encode(text)[:23] + [EOS]
    tgt = [BOS] + bpe.encode(translation)[:23]
    weights = attention_weights(translator.model, torch.tensor([src]), torch.tensor([tgt]))
    for kind, w in weights.items():
        m = maps[kind]
        assert m.weights.equal(w[:, 0])
        assert m.allowed.shape == m.weights.shape[-2:]
        assert m.allowed.shape == (len(m.rows), len(m.columns))
        assert (m.weights[..., ~m.allowed] == 0).all()
    encoder, decoder, cross = maps['encoder'], maps['decoder'], maps['cross']
    assert encoder.rows == encoder.columns == cross.columns == readable(bpe, src)
    assert decoder.rows == decoder.columns == readable(bpe, tgt)
    assert cross.rows == decoder.rows[1:] + ['</s>']

def test_without_a_translation_the_models_own(translator):
    [[found]] = translator.search([TEXTS[2]])
    predicted = found.ids[:translator.limit] + [EOS]
    rows = attention_maps(translator, TEXTS[2])['cross'].rows
    assert rows == readable(translator.tokenizer, predicted)

def test_too_long_is_cut_and_empty_refused(translator):
    maps = attention_maps(translator, 'ein Mann '*30, 'Bank '*40)
    assert max(len(maps['encoder'].rows), len(maps['decoder'].rows)) == 24
    for text in ('', ' \n'):
        with pytest.raises(ValueError, match='empty'): attention_maps(translator, text)
    assert attention_maps(translator, 'ein', '')['decoder'].rows == ['<s>']

def test_readable(translator):
    bpe = translator.tokenizer
    assert readable(bpe, range(4)) == SPECIAL_TOKENS
    for text in TEXTS + ['Ångström 🙂 €5']:
        names = readable(bpe, bpe.encode(text))
        assert all(name and ' ' not in name and '\ufffd' not in name for name in names)
    assert ''.join(readable(bpe, bpe.encode(TEXTS[0]))) == TEXTS[0].replace(' ', '␣')

def random_maps(seed, t, s, causal):
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.ones(t, s, dtype=torch.bool)
    if causal: allowed = allowed.tril()
    scores = 3*torch.randn(2, 3, t, s, dtype=torch.float64, generator=generator)
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    return Maps(weights, ['a']*t, [*'abc,defghijkl'[:s-1], '</s>'], allowed)

def even_maps(maps):
    "The same with all weights spread evenly"
    even = maps.allowed.double() / maps.allowed.sum(-1, keepdim=True)
    return Maps(even.expand(2, 3, -1, -1), maps.rows, maps.columns, maps.allowed)

@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), t=st.integers(2, 12), s=st.integers(3, 12),
       causal=st.booleans())
def test_measures_stay_in_their_ranges(seed, t, s, causal):
    maps = random_maps(seed, s if causal else t, s, causal)
    m = head_measures(maps)
    for name, x in m.items():
        assert x.shape == (2, 3) and (x >= 0).all(), name
        assert name == 'distance' or (x <= 1 + 1e-12).all(), name
    assert (m['previous'] + m['same'] + m['next'] <= 1 + 1e-12).all()
    even, ones = head_measures(even_maps(maps)), torch.ones(2, 3, dtype=torch.float64)
    for name in ('entropy', 'distance'): assert_close(even[name], ones, rtol=0, atol=1e-6)

def test_measures_by_loops():
    maps = random_maps(1, 6, 6, causal=True)
    w, measured = maps.weights[1, 2].tolist(), head_measures(maps)
    entropy = delimiter = previous = 0.
    for i in range(1, 6):
        of_the_row = -sum(x*log(x) for x in w[i][:i+1] if x)
        entropy += of_the_row / log(i + 1) / 5
        delimiter += (w[i][3] + w[i][5]) / 5
        previous += w[i][i-1] / 5
    words = [(i, j) for i in range(6) for j in range(i + 1) if j not in (3, 5)]
    def distance(weights):
        total = sum(weights[i][j] * (i - j) for i, j in words)
        return total / sum(weights[i][j] for i, j in words)
    even = [[1/(i + 1)]*6 for i in range(6)]
    wanted = dict(entropy=entropy, delimiter=delimiter, previous=previous, next=0.,
                  distance=distance(w) / distance(even))
    for name, x in wanted.items():
        assert measured[name][1, 2].item() == pytest.approx(x, rel=1e-6)

@pytest.mark.parametrize('head', [('encoder', 0, 2), ('decoder', 2, 0), ('cross', 1, 1)])
def test_without_a_head_is_without_its_part_of_W_O(translator, batch, head):
    model, (kind, layer, k) = translator.model, head
    before = model(batch.src, batch.tgt)
    with without_heads(model, [head]) as same:
        assert same is model
        without = model(batch.src, batch.tgt)
    W_O = attention_modules(model)[kind][layer].W_O.unflatten(0, (3, 5))
    kept = W_O.detach().clone()
    try:
        with torch.no_grad(): W_O[k] = 0
        assert_close(without, model(batch.src, batch.tgt), rtol=0, atol=1e-12)
    finally:
        with torch.no_grad(): W_O[k] = kept[k]
    assert not torch.equal(without, before)
    assert torch.equal(model(batch.src, batch.tgt), before)

def test_it_acts_in_cached_search_too(translator):
    "A decoder without cross-attention writes the same for every source"
    cross = [('cross', layer, head) for layer in range(3) for head in range(3)]
    src = ['ein', 'Bank']
    with without_heads(translator.model, cross): [[a], [b]] = translator.search(src)
    [[whole], _] = translator.search(src)
    assert a.ids == b.ids and whole.log_probs != a.log_probs

def test_nothing_is_left_behind(translator, batch):
    model = translator.model
    before = model(batch.src, batch.tgt)
    for heads in ([('cross', 0, 0), ('encoder', 2, 0)], [('sideways', 0, 0)]):
        with pytest.raises((IndexError, KeyError)):
            with without_heads(model, heads): raise AssertionError('entered')
    with pytest.raises(IndexError):
        with without_heads(model, [('cross', 0, 3)]): model(batch.src, batch.tgt)
    with pytest.raises(ZeroDivisionError):
        with without_heads(model, [('decoder', 0, 0)]): raise ZeroDivisionError
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert torch.equal(model(batch.src, batch.tgt), before)

@pytest.mark.smoke
def test_costs(translator, batch):
    costs = head_costs(translator.model, [batch])
    shapes = {kind: tuple(x.shape) for kind, x in costs.items()}
    assert shapes == dict(encoder=(2, 3), decoder=(3, 3), cross=(3, 3))
    full = valid_loss(translator.model, [batch])
    with without_heads(translator.model, [('decoder', 1, 2)]):
        cost = valid_loss(translator.model, [batch]) - full
    assert costs['decoder'][1, 2].item() == pytest.approx(cost, rel=1e-5, abs=1e-7)

def test_grid(translator):
    import matplotlib.pyplot as plt
    fig = plot_heads(attention_maps(translator, 'ein $5 Mann $', 'Bank')['cross'])
    titles = [ax.get_title() for ax in fig.axes if ax.get_title()]
    assert len(titles) == 9
    assert titles[0] == 'layer 1, head 1' and titles[-1] == 'layer 3, head 3'
    fig.canvas.draw()
    plt.close(fig)

# Dependencies of the grammar, and which heads follow them

KNOWN = { # by seed: the sentences, and what a reader finds in them
    2: ('Der Lehrer kauft sechs frische Birnen, damit die alte Frau sie essen kann.',
        'determiner Der Lehrer, subject Lehrer kauft, determiner sechs Birnen, '
        'adjective frische Birnen, complement Birnen kauft, conjunction damit kann, '
        'determiner die Frau, adjective alte Frau, subject Frau kann, '
        'complement sie essen, bracket essen kann, pronoun sie Birnen',
        'The teacher is buying six fresh pears so that the old woman can eat them.',
        'determiner The teacher, subject teacher is, bracket buying is, '
        'determiner six pears, adjective fresh pears, complement pears buying, '
        'conjunction that can, determiner the woman, adjective old woman, '
        'subject woman can, complement them eat, bracket eat can, pronoun them pears'),
    51: ('Die netten Bauern machen am Sonntag die kleinen Fenster auf.',
         'determiner Die Bauern, adjective netten Bauern, subject Bauern machen, '
         'determiner die Fenster, adjective kleinen Fenster, complement Fenster machen, '
         'bracket auf machen',
         'The nice farmers open the small windows on Sunday.',
         'determiner The farmers, adjective nice farmers, subject farmers open, '
         'determiner the windows, adjective small windows, complement windows open'),
    77: ('Mein Bruder holt die Tasse, weil das Kind sie braucht.',
         'determiner Mein Bruder, subject Bruder holt, determiner die Tasse, '
         'complement Tasse holt, conjunction weil braucht, determiner das Kind, '
         'subject Kind braucht, complement sie braucht, pronoun sie Tasse',
         'My brother is fetching the cup because the child needs it.',
         'determiner My brother, subject brother is, bracket fetching is, '
         'determiner the cup, complement cup fetching, conjunction because needs, '
         'determiner the child, subject child needs, complement it needs, '
         'pronoun it cup'),
    333: ('Warum hat der junge Hase gestern im alten Park geschlafen?',
          'question Warum geschlafen, determiner der Hase, adjective junge Hase, '
          'subject Hase hat, determiner im Park, adjective alten Park, '
          'complement Park geschlafen, bracket geschlafen hat',
          'Why did the young rabbit sleep in the old park yesterday?',
          'question Why sleep, determiner the rabbit, adjective young rabbit, '
          'subject rabbit did, determiner the park, adjective old park, '
          'complement park sleep, bracket sleep did'),
    461: ('Er sagt, dass der nette Lehrer gestern zum alten Garten gegangen ist.',
          'conjunction dass ist, determiner der Lehrer, adjective nette Lehrer, '
          'subject Lehrer ist, determiner zum Garten, adjective alten Garten, '
          'complement Garten gegangen, bracket gegangen ist',
          'He says that the nice teacher went to the old garden yesterday.',
          'conjunction that went, determiner the teacher, adjective nice teacher, '
          'subject teacher went, determiner the garden, adjective old garden, '
          'complement garden went'),
    1782: ('Wird die alte Ärztin der Frau die dicke Zeitung geben?',
           'determiner die Ärztin, adjective alte Ärztin, subject Ärztin Wird, '
           'determiner der Frau, complement Frau geben, determiner die Zeitung, '
           'adjective dicke Zeitung, complement Zeitung geben, bracket geben Wird',
           'Will the old doctor give the woman the thick newspaper?',
           'determiner the doctor, adjective old doctor, subject doctor Will, '
           'determiner the woman, complement woman give, determiner the newspaper, '
           'adjective thick newspaper, complement newspaper give, bracket give Will')}

def in_words(sentence, found):
    words = sentence.words
    return sorted(f'{kind} {words[i]} {words[j]}' for kind, i, j in found)

@pytest.mark.parametrize('seed', KNOWN)
def test_dependencies_a_reader_finds(seed):
    *pair, _ = am.draw_labeled(Random(seed))
    for sentence, text, wanted in zip(pair, KNOWN[seed][::2], KNOWN[seed][1::2]):
        assert sentence.text == text
        found = am.dependencies(sentence)
        assert in_words(sentence, found) == sorted(wanted.split(', '))
        n_nouns = sum(role.endswith('noun') for role in sentence.roles)
        assert n_nouns == sum(kind in ('subject', 'complement') for kind, *_ in found)

def test_alignments_a_reader_finds():
    german, english, _ = am.draw_labeled(Random(2))
    found = sorted((kind, english.words[i], german.words[j])
                   for kind, i, j in am.alignments(german, english))
    assert found == sorted([
        ('determiner', 'The', 'Der'), ('noun', 'teacher', 'Lehrer'),
        ('verb', 'buying', 'kauft'), ('determiner', 'six', 'sechs'),
        ('adjective', 'fresh', 'frische'), ('noun', 'pears', 'Birnen'),
        ('conjunction', 'that', 'damit'), ('determiner', 'the', 'die'),
        ('adjective', 'old', 'alte'), ('noun', 'woman', 'Frau'),
        ('auxiliary', 'can', 'kann'), ('verb', 'eat', 'essen'),
        ('noun', 'them', 'sie'), ('antecedent', 'them', 'Birnen')])

def test_labels_are_those_of_chapter_09():
    "The same text and the same split from the same random numbers"
    for seed in range(400):
        *pair, home = am.draw_labeled(Random(seed))
        pattern = (rng := Random(seed)).choice(PATTERNS)
        *texts, clauses = pattern(rng)
        for sentence, text in zip(pair, texts):
            assert sentence.text[:-1] == text[0].upper() + text[1:]
            places = [i for role, i in sentence.roles.items() if 'question' not in role]
            assert len(set(places)) == len(places) # *wer* is the subject, too
            assert (sentence.text[-1] == '?') == (pattern is draw_question)
        facts = [(c.subject.noun.german, c.verb.infinitive, a.phrase.noun.german)
                 for c in clauses for a in c.complements]
        assert home == split_of_facts(facts)

def test_dependencies_make_a_tree():
    """Each word depends on one at most, never in a circle; but a pronoun has an antecedent,
    too, and *wer* is subject and question"""
    for seed in range(400):
        for sentence in am.draw_labeled(Random(seed))[:2]:
            found = am.dependencies(sentence)
            twice = 'pronoun', 'question'
            head_of = {i: j for kind, i, j in found if kind not in twice}
            n = sum(kind not in twice for kind, *_ in found)
            assert len(head_of) == n
            for i in head_of:
                steps = 0
                while i in head_of and steps < 9: i, steps = head_of[i], steps + 1
                assert steps < 9

@pytest.fixture(scope='module')
def words():
    return am.grammar_tokenizer(mini_corpus(0, 800, 0, 0))

@pytest.mark.parametrize('direction', ['de-en', 'en-de'])
def test_labeled_pairs(words, direction):
    halves = [am.labeled_pairs(split, 60, words, direction) for split in ('valid', 'test')]
    texts = [[source.text for source, _ in half] for half in halves]
    assert not set(texts[0]) & set(texts[1])
    for half, split in zip(halves, ('valid', 'test')):
        germans = [pair[direction == 'en-de'].text for pair in half]
        assert len(set(germans)) == 60
        rng, homes = Random(f'labeled {split}'), {}
        while not set(germans) <= set(homes):
            german, _, home = am.draw_labeled(rng)
            homes[german.text] = home
        assert {homes[text] for text in germans} == {split}
        for sentence in (sentence for pair in half for sentence in pair):
            assert len(sentence.text.split()) <= 16
            assert UNK not in words.encode(sentence.text)
    ids = am.encode_labeled(halves[0], words)
    for pair, encoded in zip(halves[0], ids): # a token for each word
        assert [len(x.words) for x in pair] == [len(x) for x in encoded]
    joined = am.Labeled(['am Abend', '.'], {})
    with pytest.raises(ValueError, match='not the words'):
        am.encode_labeled([(joined, joined)], words)

def test_cases_by_hand():
    "Der Hund schläft hinter dem Haus ein: the particle is five words from its verb"
    german = am.Labeled('Der Hund schläft hinter dem Haus ein .'.split(),
                        {'0 subject noun': 1, '0 verb': 2, '0 particle': 6})
    english = am.Labeled('Now the dog falls asleep .'.split(),
                         {'0 subject noun': 2, '0 verb': 3})
    cases = am.find_cases([(german, german), (german, english)])
    found = {key: x.tolist() for key, x in cases.items()}
    twice = [[0, 6, 2, 4], [1, 6, 2, 4]]
    assert found['encoder', 'bracket →'] == twice
    assert found['encoder', 'bracket ←'] == [[n, 2, 6, 4] for n in range(2)]
    # the column of word 2 is 3: the decoder reads <s> first
    assert found['decoder reads', 'bracket →'] == [[0, 7, 3, 4]]
    assert found['decoder predicts', 'bracket →'] == [[0, 6, 3, 4]]
    # the subject stands before its verb: only the verb can look back
    assert found['decoder reads', 'subject ←'] == [[0, 3, 2, 1], [1, 4, 3, 1]]
    assert found['decoder predicts', 'subject ←'] == [[0, 2, 2, 1], [1, 3, 3, 1]]
    assert ('decoder reads', 'subject →') not in found
    assert found['cross reads', 'noun'] == [[0, 2, 1, 0], [1, 3, 1, 1]]
    assert found['cross predicts', 'verb'] == [[0, 2, 2, 0], [1, 3, 2, 1]]
    assert found['cross predicts', 'particle'] == [[0, 6, 6, 0]]

@pytest.fixture(scope='module')
def grammar(words):
    "40 labeled pairs, their ids and cases, and a small random model"
    pairs = am.labeled_pairs('test', 40, words)
    set_seed(0)
    config = TransformerConfig(words.vocab_size, d_model=16, d_ff=16, n_heads=2,
                               n_encoder_layers=2, n_decoder_layers=3)
    return pairs, am.encode_labeled(pairs, words), am.find_cases(pairs), \
        Transformer(config).eval()

def test_hits_one_by_one(grammar):
    _, ids, cases, model = grammar
    found = am.head_hits(model, ids, cases, size=13)
    assert set(found) == set(cases)
    alone = []
    for pair in ids:
        batch = make_batch([pair])
        alone.append(attention_weights(model, batch.src, batch.tgt))
    n_others = 0
    for (place, task), table in cases.items():
        kind = place.split()[0]
        assert len(found[place, task]) == len(table)
        for (n, row, column, _), x in zip(table.tolist(), found[place, task]):
            w = alone[n][kind][:, 0]
            hits = (w.argmax(-1) == column).float()
            rest = [i for i in range(w.shape[2]) if i != row]
            if kind == 'decoder': rest = [i for i in rest if i >= column]
            others = hits[..., rest].mean(-1) if rest else torch.zeros(hits.shape[:2])
            n_others += int(others.sum() > 0)
            assert_close(x, torch.stack([hits[..., row], w[..., row, column], others]))
    assert n_others > 100

def table(*rows): return torch.tensor(rows)

def test_fixed_rules():
    lengths = torch.tensor([9, 9, 8, 7])
    offset = table((0, 5, 3, 2), (1, 4, 2, 2), (2, 7, 5, 2), (3, 6, 0, 6))
    assert am._fixed_hits(offset, lengths).tolist() == [1, 1, 1, 0]
    beginning = table((0, 5, 2, 3), (1, 4, 2, 2), (2, 7, 2, 5), (3, 6, 0, 6))
    assert am._fixed_hits(beginning, lengths).tolist() == [1, 1, 1, 0]
    end = table((0, 1, 7, 6), (1, 3, 7, 4), (2, 1, 6, 5), (3, 6, 5, 1)) # two from the end
    assert am._fixed_hits(end, lengths).tolist() == [1, 1, 1, 1]

def test_standard_error_is_that_of_sentences():
    rng = torch.Generator().manual_seed(0)
    values = torch.rand(50, 2, dtype=torch.float64, generator=rng)
    mean, low, high = am._mean_interval(values, torch.arange(50), 2.)
    error = values.std(0) / 50**0.5 # where each case has a sentence of its own
    assert_close(mean, values.mean(0))
    assert_close(high - mean, 2 * error)
    assert_close(mean - low, 2 * error)
    twice = values.repeat_interleave(2, 0) # the same case twice adds no knowledge
    sentence = torch.arange(50).repeat_interleave(2) + 7
    assert_close(am._mean_interval(twice, sentence, 2.), am._mean_interval(
        values, torch.arange(50), 2.))

KEY = 'encoder', 'x →'

def half(cases, hits, untrained=(), weight=0.5, others=0.): # hits: (n, heads)
    def measures(hits):
        x = torch.tensor(hits, dtype=torch.float32)
        full = [x, torch.full_like(x, weight), torch.full_like(x, others)]
        return {KEY: torch.stack(full, 1)[:, :, None]} # one layer (n, 3, 1, heads)
    return am.Half({KEY: cases}, dict(encoder=torch.full((99,), 20)), measures(hits),
                   [measures(h) for h in untrained])

def test_far_begins_at_four():
    cases = table((0, 9, 6, 3), (0, 9, 5, 4), (1, 9, 4, 5))
    x = half(cases, [[1.]] * 3)
    assert x.pick(KEY, 'near').tolist() == [True, False, False]
    assert x.pick(KEY, 'far').tolist() == [False, True, True]
    assert x.pick(KEY, 'all').all()

def test_a_task_is_judged_with_the_head_of_the_other_half():
    far = torch.tensor([[n, 10, n % 5, 10 - n % 5] for n in range(20)])
    near = table((0, 3, 2, 1), (1, 3, 2, 1))
    cases = torch.cat([far, near])
    def hits(*counts): # of each head on far cases, all of the near ones for head 0
        rows = [[float(n < k) for k in counts] for n in range(20)]
        return rows + [[1., 0., 0.]] * 2
    untrained = [hits(3, 0, 0), hits(0, 5, 8), hits(1, 1, 1)]
    scored_untrained = [hits(2, 20, 20), hits(0, 9, 6), hits(4, 20, 20)]
    choosing = half(cases, hits(9, 15, 11), untrained)
    scoring = half(cases, hits(20, 12, 18), scored_untrained, weight=0.25, others=0.1)
    found = am.judge_task(choosing, scoring, KEY, 'far', 2.)
    assert found['head'] == (0, 1) # best on the choosing half, worst on the other
    assert (found['hit'], found['weight'], found['others']) == (0.6, 0.25, 0.1)
    assert found['fixed'] == 0.2    # every fifth case
    assert found['untrained'] == 0.3 # the second model, with the head it chose
    assert found['n'] == [20, 20] and found['distances'] == 'far'
    ours = torch.tensor([float(n < 12) for n in range(20)])
    rivals = [torch.tensor([float(n % 5 == 0) for n in range(20)]), torch.full((20,), .1),
              torch.tensor([float(n < 6) for n in range(20)])]
    for k, rival in enumerate(rivals):
        # of places that are equally good, the rule may take any
        if k == 0: assert found['low'][0] < 0.4 < found['high'][0]; continue
        x = ours - rival
        error = 2 * x.std().item() / 20**0.5
        assert found['low'][k] == pytest.approx(x.mean().item() - error, abs=1e-3)
        assert found['high'][k] == pytest.approx(x.mean().item() + error, abs=1e-3)

def test_specialization_by_hand():
    keys = [('encoder', name) for name in 'abc']
    n = torch.arange(10)
    cases = torch.stack([n, n, n + 5, n * 0 + 5], 1)
    def hits(*rates): # of three heads
        x = torch.tensor([[float(i < 10*r) for r in rates] for i in range(10)])
        return x[:, None, None].expand(-1, 3, -1, -1)
    choose = dict(zip(keys, (hits(.9, .1, 0), hits(.8, .7, .1), hits(0, .2, .6))))
    score = dict(zip(keys, (hits(.7, .5, .3), hits(.6, 1, .4), hits(.2, .2, .8))))
    x = am.Half(dict.fromkeys(keys, cases), {}, {}, [])
    mean, error = am.specialization(x, x, choose, score, keys, 'far')
    # heads 0, 0 and 2 are chosen
    others = [(.7 + .3)/2, (.6 + .4)/2, (.2 + .2)/2]
    gains = [a - b for a, b in zip((.7, .6, .8), others)]
    assert mean == pytest.approx(sum(gains) / 3)
    by_sentence = torch.zeros(10)
    for key, own, others in zip(keys, (0, 0, 2), ((0, 2), (0, 2), (0, 0))):
        h = score[key][:, 0, 0]
        gain = h[:, own] - h[:, list(others)].mean(1)
        by_sentence += (gain - gain.mean()) / 10 / 3
    variance = by_sentence.square().sum().item() * 10 / 9
    assert error == pytest.approx(variance**0.5)

def test_enough_cases_and_the_correction(monkeypatch):
    monkeypatch.setattr(protocol, 'FEWEST', 4)
    def tables(n_far): # of task x, and of y, which is near
        x = [[n, 9, n % 3, 9] for n in range(n_far)]
        return {('encoder', 'x'): torch.tensor(x), ('encoder', 'y'): table(
                *[(n, 2, 1, 1) for n in range(6)]), ('cross reads', 'z'): torch.tensor(x)}
    def a_half(n_far):
        cases = tables(n_far)
        rng = torch.Generator().manual_seed(n_far)
        hits = {key: torch.rand(len(x), 3, 2, 2, generator=rng).round()
                for key, x in cases.items()}
        lengths = dict(encoder=torch.full((9,), 12))
        return am.Half(cases, lengths, hits, [hits])
    few, enough = a_half(3), a_half(4)
    assert protocol.tasks_of((enough, few), 'encoder', 'far') == []
    assert protocol.tasks_of((few, enough), 'encoder', 'far') == []
    assert protocol.tasks_of((enough, enough), 'encoder', 'far') == [('encoder', 'x')]
    assert protocol.tasks_of((few, few), 'encoder', 'near') == [('encoder', 'y')]
    both = (enough, enough)
    found = protocol.judge_place(both, 'encoder')
    assert found['tests'] == 1
    assert [t['task'] for t in found['tasks']] == ['x', 'y']
    alone = am.judge_task(*both, ('encoder', 'x'), 'far', 1.959964)
    assert found['tasks'][0]['low'] == alone['low'] # one task: 5 %, two-sided
    assert found['specialization']['far'] is None   # nothing to compare with
    heads = enough.hits['encoder', 'x'][:, 0].flatten(1).mean(0)
    assert found['tasks'][0]['heads'] == pytest.approx(heads.tolist(), abs=1e-4)
    more = {('encoder', name): enough.cases['encoder', 'x'] for name in 'abcde'}
    hits = {key: enough.hits['encoder', 'x'] for key in more}
    five = am.Half(more, enough.lengths, hits, [hits])
    found = protocol.judge_place((five, five), 'encoder')
    assert found['tests'] == 5
    corrected = am.judge_task(five, five, ('encoder', 'a'), 'far', 2.575829) # 1 %
    assert found['tasks'][0]['high'] == corrected['high']
    assert found['specialization']['far']['mean'] == 0 # one head is the best everywhere

def result(low, high, special=(0.5, 0.1, 0.2), distances='far'):
    mean, error, *untrained = special
    tasks = [dict(task='x', distances=distances, low=low, high=high)]
    special = dict(mean=mean, error=error, untrained=untrained)
    return dict(places=dict(encoder=dict(
        tasks=tasks, specialization=dict(all=special, far=None))))

@pytest.mark.parametrize('lows, highs, verdict', [
    ([[.1, .1, .1]] * 3, [[.2, .2, .2]] * 3, 'followed'),
    ([[.1, .1, .1]] * 2 + [[.1, 0, .1]], [[.2, .2, .2]] * 3, 'undecided'),
    ([[-.3, .1, .1]] * 3, [[-.1, .2, .2]] * 3, 'not followed'),
    ([[-.3, .1, .1], [.1, -.3, .1], [.1, .1, -.3]],       # another rival in each seed
     [[-.1, .2, .2], [.2, -.1, .2], [.2, .2, -.1]], 'not followed'),
    ([[-.3, .1, .1]] * 3, [[-.1, .2, .2]] * 2 + [[0, .2, .2]], 'undecided')])
def test_followed(lows, highs, verdict):
    results = [result(*ends) for ends in zip(lows, highs)]
    assert chapter.followed(results) == dict(x=verdict)
    near = [result(*ends, distances='near') for ends in zip(lows, highs)]
    assert chapter.followed(near) == {}

@pytest.mark.parametrize('specials, verdict', [
    ([(.5, .1, .2, .1)] * 3, 'specialized'),                   # 0.5 - 0.224 > 0.2
    ([(.5, .1, .2, .28)] * 3, 'undecided'),                    # not above the largest
    ([(.5, .1, .2)] * 2 + [(.4, .1, .2)], 'undecided'),
    ([(.1, .1, .1, .33)] * 3, 'not specialized'),
    ([(.1, .1, .1, .33)] * 2 + [(.1, .1, .1, .32)], 'undecided')])
def test_specialized(specials, verdict):
    results = [result([], [], special) for special in specials]
    assert chapter.specialized(results) == verdict
    assert chapter.specialized(results, distances='far') == 'undecided' # not measured

@pytest.fixture(scope='module')
def batches(grammar):
    ids = grammar[1]
    return [[make_batch(ids[i:i + 7]) for i in range(start, start + 14, 7)]
            for start in (0, 20)]

def test_losses_of_sentences(grammar, batches):
    model, choosing = grammar[3], batches[0]
    found = am.sentence_losses(model, choosing)
    assert found.shape == (14, 2)
    lengths = [len(target) + 1 for _, target in grammar[1][:14]]
    assert found[:, 1].tolist() == lengths
    total = valid_loss(model, choosing)
    nats, tokens = found.sum(0).tolist()
    assert nats / tokens == pytest.approx(total, rel=1e-5)
    alone = am.sentence_losses(model, [make_batch(grammar[1][9:10])])
    assert_close(found[9], alone[0])

def test_rise():
    full = torch.tensor([[4., 2], [9, 3], [10, 5]])
    mean, low, high = am._rise(full + torch.tensor([[1., 0], [2, 0], [0, 0]]), full)
    parts = torch.tensor([1 - .3*2, 2 - .3*3, -.3*5]) / 10
    variance = parts.square().sum().item() * 3 / 2
    margin = 1.96 * variance**0.5
    assert (mean, low, high) == pytest.approx((.3, .3 - margin, .3 + margin), abs=1e-4)

def test_redundancy(grammar, batches):
    "Chosen on one half, scored on the other, and the same on one"
    model, (choosing, scoring) = grammar[3], batches
    heads = [(kind, layer, head) for kind, n in dict(encoder=2, decoder=3, cross=3).items()
             for layer in range(n) for head in range(2)]
    found, costs, full = am.redundancy(model, choosing, scoring, seed=5)
    assert am._all_heads(model) == heads
    def rise(batches, gone):
        with without_heads(model, gone): return valid_loss(model, batches) - valid_loss(
            model_as_it_was, batches)
    model_as_it_was = copy.deepcopy(model)
    for name, half in dict(other=choosing, same=scoring).items():
        single = torch.cat([x.flatten() for x in head_costs(model, half).values()])
        assert found['single'][name] == pytest.approx(single.tolist(), abs=2e-4)
        in_order = single[found['orders'][name]]
        assert (in_order.diff() > -2e-5).all() # cheapest first
    assert found['orders']['other'] != found['orders']['same']
    assert found['loss'] == pytest.approx(valid_loss(model, scoring), abs=1e-4)
    assert [p['k'] for p in found['curve']] == [4, 8, 12, 16]
    rng = Random(5)
    shuffled = [rng.sample(range(16), 16) for _ in range(5)]
    for point in found['curve']:
        for name, order in found['orders'].items():
            gone = [heads[i] for i in order[:point['k']]]
            assert point[name][0] == pytest.approx(rise(scoring, gone), abs=2e-4)
            assert point[name][1] < point[name][0] < point[name][2]
        luck = [rise(scoring, [heads[i] for i in x[:point['k']]]) for x in shuffled]
        assert point['random'] == pytest.approx(sum(luck) / 5, abs=2e-4)
    assert_close(full, am.sentence_losses(model, scoring))
    with without_heads(model, heads[3:4]): without = am.sentence_losses(model, scoring)
    assert_close(costs[3], without[:, 0] - full[:, 0])

def test_costs_where_a_dependency_is():
    cases = {('encoder', 'x →'): table((1, 9, 2, 7), (1, 8, 2, 6), (3, 9, 1, 8),
                                       (0, 2, 1, 1), (9, 9, 1, 8)),
             ('encoder', 'x ←'): table((2, 1, 9, 8)),
             ('encoder', 'y →'): table((2, 2, 1, 1)),
             ('cross reads', 'z →'): table((2, 9, 1, 8))}
    full = torch.tensor([[9., 3], [8, 4], [7, 2], [6, 6]]) # sentence 9 has no losses
    costs = torch.tensor([[5., 1, 7, 2], [0, 0, 9, -1]])
    found = protocol.costs_where(costs, full, am.Half(cases, {}, {}, []))
    assert found == {'x →': dict(sentences=2, costs=[0.3, -0.1])}

SMALL = dict(d_model=16, d_ff=16, n_heads=2, n_encoder_layers=1, n_decoder_layers=1,
             dropout=0.1, max_len=64)

@pytest.fixture
def small(monkeypatch):
    for module in (am, protocol): monkeypatch.setattr(module, 'GRAMMAR_MODEL', SMALL)
    monkeypatch.setattr(protocol, 'FEWEST', 10)

def test_what_is_measured(small):
    setup = protocol.prepare_roles('en-de', 600, 60)
    assert len(setup.train) == 600 and [len(x) for x in setup.ids] == [60, 60]
    source, target = setup.pairs[0][0]
    assert 'The' in {source.words[0] for source, _ in setup.pairs[0]} # English first
    assert setup.ids[0][0][0] == setup.tokenizer.encode(source.text)
    german, english = mini_corpus(0, 600, 0, 0)['train'][0]
    wanted = [setup.tokenizer.encode(text) for text in (english, german)]
    assert [list(x) for x in setup.train[0]] == wanted
    training = {tuple(source) for source, _ in setup.train}
    assert not training & {tuple(source) for ids in setup.ids for source, _ in ids}
    model, progress = am.train_grammar_model(setup.train, setup.tokenizer.vocab_size, 3, 4)
    assert (progress['steps'], progress['skipped'], progress['epochs']) == (4, 0, 1)
    assert type(attention_modules(model)['encoder'][0]).__name__ == 'MultiHeadAttention'
    assert not model.training
    again, _ = am.train_grammar_model(setup.train, setup.tokenizer.vocab_size, 3, 4)
    other, _ = am.train_grammar_model(setup.train, setup.tokenizer.vocab_size, 4, 4)
    x = [m.src_embedding.weight for m in (model, again, other)]
    assert torch.equal(x[0], x[1]) and not torch.equal(x[0], x[2])
    x = protocol.half_of(setup, 0, model, [])
    assert x.lengths['encoder'].tolist() == [len(s) + 1 for s, _ in setup.ids[0]]
    assert x.lengths['decoder'].tolist() == [len(t) + 1 for _, t in setup.ids[0]]
    assert x.lengths['cross'].equal(x.lengths['encoder'])
    scores = protocol.translation_scores(model, setup.tokenizer, setup.pairs[1][:5])
    assert scores['exact'] == 0 and scores['bleu'] < 5

    seen = []
    new_model = am.new_grammar_model
    def noted(size, seed): return seen.append(seed) or new_model(size, seed)
    protocol.new_grammar_model = noted
    try: found = protocol.measure_roles(model, setup, 2, n_untrained=2, n_losses=60)
    finally: protocol.new_grammar_model = new_model
    assert seen == [3000, 3001] # no seed of a training
    assert tuple(found['places']) == protocol.PLACES
    hits = am.head_hits(model, setup.ids[1], setup.cases[1])
    for place, x in found['places'].items():
        for t in x['tasks']:
            key = place, t['task']
            far = setup.cases[1][key][:, 3] >= 4
            rates = hits[key][far if t['distances'] == 'far' else ~far][:, 0].flatten(1)
            assert t['heads'] == pytest.approx(rates.mean(0).tolist(), abs=1e-4)
            layer, head = t['head']
            assert t['hit'] == t['heads'][2*layer + head]
            assert len(t['low']) == len(t['high']) == 3
    tasks = found['places']['encoder']['tasks']
    far = [t['task'] for t in tasks if t['distances'] == 'far']
    assert [e['task'] for e in found['examples']] == far and far
    for e in found['examples']:
        sentence = next(s for s, _ in setup.pairs[1] if s.words == e['words'])
        relation, arrow = e['task'].split()
        places = [(i, j)[::1 if arrow == '→' else -1]
                  for kind, i, j in am.dependencies(sentence) if kind == relation]
        assert (e['row'], e['column']) in places
        assert abs(e['row'] - e['column']) >= 4
        weights = torch.tensor(e['weights'])
        assert weights.shape == (len(e['words']) + 1,) * 2
        assert_close(weights.sum(1), torch.ones(len(weights)), rtol=0, atol=0.1)
    losses = [make_batch(ids) for ids in setup.ids]
    again, costs, full = am.redundancy(model, losses[:1], losses[1:], 2)
    assert again == found['redundancy']
    for task, x in found['costs_where'].items():
        cases = setup.cases[1]['encoder', task]
        sentences = cases[cases[:, 3] >= 4][:, 0].unique()
        assert x['sentences'] == len(sentences)

def test_translations_are_scored_on_the_half_that_chose_no_head(monkeypatch):
    pairs = [[f'{half} {n}' for n in range(600)] for half in ('choosing', 'scoring')]
    setup = protocol.RolesSetup(mock.Mock(vocab_size=9), [], pairs, [], [])
    scored = []
    def scores(model, tokenizer, pairs): return scored.append(pairs) or {}
    monkeypatch.setattr(protocol, 'prepare_roles', lambda *args: setup)
    def train(*args): return nn.Linear(1, 1), {}
    monkeypatch.setattr(protocol, 'train_grammar_model', train)
    monkeypatch.setattr(protocol, 'measure_roles', lambda *args: {})
    monkeypatch.setattr(protocol, 'translation_scores', scores)
    protocol.train_roles('de-en', 0, 1, protocol.SIZES, None)
    assert scored == [pairs[1][:500]]

def test_a_seed_decides_the_batches_too(small, monkeypatch):
    seeds = []
    class Batches(am.TokenBatches):
        def __init__(self, ids, batch_tokens, seed):
            seeds.append(seed)
            super().__init__(ids, batch_tokens, seed)
    monkeypatch.setattr(am, 'TokenBatches', Batches)
    ids = [([5, 6, 7], [8, 9])] * 9
    _, progress = am.train_grammar_model(ids, 12, 7, 2)
    assert seeds == [7] and progress['epochs'] == 2

def test_trainings_go_on_where_they_were(tmp_path, monkeypatch):
    calls = []
    def train(*job):
        calls.append(job)
        return dict(bleu=99., commit='c')
    monkeypatch.setattr(protocol, 'train_roles', train)
    out = tmp_path/'roles.jsonl'
    protocol.train_head_roles(out, range(1), 0, models='m', n_losses=7)
    assert [job[:3] for job in calls] == [('de-en', 0, 2000), ('en-de', 0, 2000)]
    assert calls[0][3] == dict(n_train=22_000, n_labeled=2_000, n_untrained=10, n_losses=7)
    assert str(calls[0][4]) == 'm'
    calls.clear()
    results = protocol.train_head_roles(out, range(2), 0, n_losses=7)
    assert [job[:2] for job in calls] == [('de-en', 1), ('en-de', 1)]
    assert [(r['row'], r['seed']) for r in results] == [
        ('de-en', 0), ('en-de', 0), ('de-en', 1), ('en-de', 1)]
    assert read_results(out) == results
    stored = out.read_bytes()
    for other in (dict(n_steps=9), dict(n_train=5)):
        with pytest.raises(InputError, match='other settings'):
            protocol.train_head_roles(out, range(3), 0, **dict(n_losses=7) | other)
    assert out.read_bytes() == stored
    assert read_results(tmp_path/'none.jsonl') == []
