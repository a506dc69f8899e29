"""Maps, measures and ablation, on small random models; dependencies of the grammar, and
which heads follow them, by hand and by brute force."""
from math import log
import pytest, torch
from torch.testing import assert_close
from transformer_nb.checkpoint import save_model
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.data import make_batch
from transformer_nb.model import (Transformer, TransformerConfig, attention_modules,
                                  attention_weights)
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator
from transformer_nb.studies.attention_maps import (
    Maps, attention_maps, head_measures, readable, without_heads)

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

def random_maps(seed, t, s, causal):
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.ones(t, s, dtype=torch.bool)
    if causal: allowed = allowed.tril()
    scores = 3*torch.randn(2, 3, t, s, dtype=torch.float64, generator=generator)
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    return Maps(weights, ['a']*t, [*'abc,defghijkl'[:s-1], '</s>'], allowed)

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
    W_O = attention_modules(model)[kind][layer].output.weight.T.unflatten(0, (3, 5))
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
