"""Maps, measures and ablation, on small random models; dependencies of the grammar, and
which heads follow them, by hand and by brute force."""
from math import log
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close
from transformer_nb.checkpoint import save_model
from transformer_nb.support.core import BOS, EOS, SPECIAL_TOKENS, set_seed
from transformer_nb.data import make_batch
from transformer_nb.model import (Transformer, TransformerConfig, attention_modules,
                                  attention_weights)
from transformer_nb.text import BPETokenizer
from transformer_nb.training import valid_loss
from transformer_nb.translation import Translator
from transformer_nb.studies.attention_maps import (
    Maps, attention_maps, head_costs, head_measures, plot_heads, readable, without_heads)
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

