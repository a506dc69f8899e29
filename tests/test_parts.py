"""Every field of a model's configuration, at every door: it works, or is refused by name.

The values of choices are asked as the model lists them. Another field that is added later
is missing from `SETS`, and the first test says so.
"""
import math
from copy import deepcopy
from dataclasses import asdict, fields
from functools import partial
import pytest, torch
from torch import nn
from torch.testing import assert_close
from searching import check, check_samples, plain_beam, random_model, random_sentences
from transformer_nb.checkpoint import (
    check_model_size, load_model, load_verified, save_model)
from transformer_nb.support.core import BOS, EOS, InputError
from transformer_nb.data import TokenBatches
from transformer_nb.decoding import length_penalty, sample, search
from transformer_nb.embedding import Embedding, RotaryAttention
from transformer_nb.formats.page import export_ctranslate2, export_page
from transformer_nb.speed.fast import accelerate, unaccelerate
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.hub import open_model
from transformer_nb.layers import FeedForward
from transformer_nb.formats.marian import export_marian
from transformer_nb.model import (
    _CHOICES, Transformer, TransformerConfig, attention_weights)
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.parts import (
    ActivatedFeedForward, BiasedEmbedding, GroupedQKNormAttention, GroupedQueryAttention,
    GroupedRotaryAttention, ModernAttention, QKNormAttention, QKNormRotaryAttention,
    RMSNorm, SwiGLU, UnscaledBiasedEmbedding, UnscaledEmbedding)
from transformer_nb.text import BPETokenizer
from transformer_nb.training import Trainer, TrainingConfig
from transformer_nb.translation import PRESETS, RunConfig, Translator, preset

SIZES = '''vocab_size d_model d_ff n_heads d_k d_v n_encoder_layers n_decoder_layers dropout
    max_len'''.split()
DEFAULT = TransformerConfig(300)
SETS = {value: {name: value} for name, values in _CHOICES.items() for value in values
        if value != getattr(DEFAULT, name)}
SETS |= {field.name: {field.name: not field.default} for field in fields(TransformerConfig)
         if field.type is bool}
SETS |= dict(norm=dict(norm='pre'), norm_eps=dict(norm_eps=0.01),
             n_kv_heads=dict(n_kv_heads=2),
             rope_base=dict(positions='rotary', rope_base=50.))
MORE = { # several fields together
    'one head': dict(n_kv_heads=1),
    'biases, unscaled': dict(biases='all', scale_embeddings=False),
    'no bias, no mean': dict(biases='none', norm_type='rmsnorm', norm='pre'),
    'llama': dict(positions='rotary', n_kv_heads=2, norm_type='rmsnorm'),
    'qk, rotary': dict(positions='rotary', qk_norm=True, norm_eps=0.1),
    'qk, grouped': dict(qk_norm=True, n_kv_heads=2), 'modern': dict(
        norm='pre', norm_type='rmsnorm', activation='swiglu', positions='rotary',
        qk_norm=True, n_kv_heads=2)}
TEXTS = [text for pair in mini_corpus(0, 60, 0, 0)['train'] for text in pair]
BPE = BPETokenizer.train(TEXTS, 300)

ASKED = {name for options in SETS.values() for name in options}

def test_every_field_is_asked():
    assert {*SIZES, *ASKED} == {field.name for field in fields(TransformerConfig)}

def with_vectors(model):
    "Biases and gains away from 0 and 1, where they would hide"
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1: p.add_(0.3*torch.randn_like(p))
    return model

def made(**options):
    sizes = dict(d_model=16, d_ff=24, n_heads=4, n_encoder_layers=2, n_decoder_layers=2)
    config = TransformerConfig(300, max_len=40, dropout=0., **sizes | options)
    model = with_vectors(Transformer(config)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if 'query' in name or 'key' in name: p.mul_(2)
    return model

every = pytest.mark.parametrize('name', SETS | MORE)
def fields_of(name): return (SETS | MORE)[name]

# A field makes a part

def layer_of(**options): return made(**options).decoder.layers[0]

@pytest.mark.parametrize('options, own, across', [
    ({}, MultiHeadAttention, MultiHeadAttention),
    (dict(positions='rotary'), RotaryAttention, MultiHeadAttention),
    (dict(qk_norm=True), QKNormAttention, MultiHeadAttention),
    (dict(positions='rotary', qk_norm=True), QKNormRotaryAttention, MultiHeadAttention),
    (dict(n_kv_heads=2), GroupedQueryAttention, GroupedQueryAttention),
    (dict(n_kv_heads=2, positions='rotary'), GroupedRotaryAttention, GroupedQueryAttention),
    (dict(n_kv_heads=2, qk_norm=True), GroupedQKNormAttention, GroupedQueryAttention),
    (MORE['modern'], ModernAttention, GroupedQueryAttention)])
def test_fields_choose_the_attention(options, own, across):
    layer = layer_of(**options)
    assert type(layer.self_attention) is own and type(layer.cross_attention) is across

def test_fields_choose_the_other_parts():
    assert type(layer_of().feed_forward) is FeedForward
    assert type(layer_of(activation='silu').feed_forward) is ActivatedFeedForward
    assert type(layer_of(activation='swiglu').feed_forward) is SwiGLU
    assert type(layer_of().residuals[0].norm) is nn.LayerNorm
    assert type(layer_of(norm_type='rmsnorm').residuals[0].norm) is RMSNorm
    kinds = {(True, 'paper'): Embedding, (False, 'none'): UnscaledEmbedding,
             (True, 'all'): BiasedEmbedding, (False, 'all'): UnscaledBiasedEmbedding}
    for (scale, biases), kind in kinds.items():
        assert type(made(scale_embeddings=scale, biases=biases).output) is kind
    apart = made(tie_embeddings=False, biases='all')
    assert [type(e) for e in apart.embeddings] == [Embedding, Embedding, BiasedEmbedding]

def test_biases_are_where_they_should_be():
    def places(biases):
        names = [n for n, _ in made(biases=biases).named_parameters() if n.endswith('bias')]
        words = 'attention', 'feed_forward', 'norm', 'embeddings'
        return [word for word in words if any(word in name for name in names)]
    assert places('none') == [] and places('paper') == ['feed_forward', 'norm']
    assert places('attention') == ['attention', 'feed_forward', 'norm']
    assert places('all') == ['attention', 'feed_forward', 'norm', 'embeddings']

def test_numbers_reach_their_parts():
    model = made(norm_eps=0.25, rope_base=99., positions='rotary', qk_norm=True, norm='pre')
    found = {m.eps for m in model.modules() if isinstance(m, (nn.LayerNorm, RMSNorm))}
    assert found == {0.25} and model.decoder.layers[1].self_attention.base == 99
    x = torch.randn(2, 7, 16)
    near, far = (layer_of(positions='rotary', rope_base=base) for base in (2., 1e6))
    far.load_state_dict(near.state_dict())
    assert not near.self_attention(x).allclose(far.self_attention(x))

def test_as_many_heads_as_queries_is_the_default():
    assert made(n_kv_heads=4).config == made().config

@pytest.mark.parametrize('field', fields(TransformerConfig), ids=lambda field: field.name)
def test_a_wrong_value_is_refused_by_name(field):
    "Of whatever field: another type, and numbers that no model can have"
    wrong = ['x', [1], {}, -1., math.nan, math.inf]
    if None not in (field.default, getattr(made().config, field.name)): wrong.append(None)
    for value in wrong:
        with pytest.raises(ValueError, match=f'{field.name} is '):
            TransformerConfig(**dict(vocab_size=300, d_model=16, n_heads=4)
                              | {field.name: value})
    for name, value in dict(n_kv_heads=3, n_heads=3, activation='swish').items():
        with pytest.raises(ValueError, match=f'{name}'): made(**{name: value})

# The doors

@every
def test_searched(name):
    "In float64, with a cache, as by the whole model for each hypothesis"
    sizes = dict(n_heads=4, d_k=4, d_v=3)
    model = with_vectors(random_model(3, max_len=10, **sizes | fields_of(name)))
    sentences = random_sentences(3, 3)
    for beam_size in (1, 3):
        options = dict(alpha=0.6, n_best=beam_size, penalty=length_penalty)
        found = search(model, sentences, beam_size=beam_size, **options)
        for s, hypotheses in zip(sentences, found):
            check(hypotheses, plain_beam(model, s, beam_size, **options))
    check_samples(model, sentences, sample(model, sentences))

def results(model, src, tgt):
    logits = model(src, tgt)
    return logits, *torch.autograd.grad(logits.square().mean(), list(model.parameters()))

@every
def test_accelerated_and_looked_at(name):
    model = made(**fields_of(name)).double()
    fast = accelerate(deepcopy(model))
    src, tgt = torch.randint(4, 300, (3, 7)), torch.randint(4, 300, (3, 5))
    assert_close(results(fast, src, tgt), results(model, src, tgt), rtol=1e-9, atol=1e-12)
    types = [type(m) for m in unaccelerate(fast).modules()]
    assert types == [type(m) for m in model.modules()]
    for weights in attention_weights(model, src, tgt).values():
        assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))

@every
def test_saved_and_loaded(name, tmp_path):
    model = accelerate(made(**fields_of(name)))
    save_model(tmp_path/'m', model, BPE)
    loaded, _ = load_model(tmp_path/'m')
    assert loaded.config == model.config
    src, tgt = torch.randint(4, 300, (2, 2, 6))
    assert_close(loaded(src, tgt), model(src, tgt), rtol=1e-4, atol=1e-5)

def test_a_folder_of_an_older_version_is_read_as_before():
    old = asdict(made().config)
    for name in ASKED - {'norm', 'positions', 'tie_embeddings'}: del old[name]
    assert TransformerConfig(**old) == made().config

PAGE = 'norm', 'tie_embeddings', 'learned'
MARIAN = 'gelu', 'gelu_new', 'silu', 'attention', 'all'
NOT_CTRANSLATE2 = {'norm_eps': 'norm_eps', 'qk, rotary': 'norm_eps'}

def refused(name): return fr'^({"|".join(fields_of(name))}) is '

@every
def test_page(name, tmp_path):
    "What it can, `test_engine.py` compares"
    save_model(tmp_path/'m', made(**fields_of(name)), BPE)
    if name in PAGE: return export_page([tmp_path/'m'], tmp_path/'page.html')
    with pytest.raises(InputError, match=refused(name) + '.*, which the page cannot do'):
        export_page([tmp_path/'m'], tmp_path/'page.html')
    assert not (tmp_path/'page.html').exists()

@every
def test_ctranslate2(name, tmp_path):
    ctranslate2 = pytest.importorskip('ctranslate2')
    model = made(**fields_of(name))
    save_model(tmp_path/'m', model, BPE)
    if name in NOT_CTRANSLATE2:
        with pytest.raises(InputError, match=f'^{NOT_CTRANSLATE2[name]} is .*CTranslate2'):
            export_ctranslate2(tmp_path/'m', tmp_path/'ct2')
        return
    export_ctranslate2(tmp_path/'m', tmp_path/'ct2')
    theirs = ctranslate2.Translator(str(tmp_path/'ct2'), compute_type='float32')
    src, tgt = map(BPE.encode, TEXTS[:2])
    pieces = [[BPE.tokenizer.id_to_token(i) for i in ids] for ids in (src, tgt)]
    [scored] = theirs.score_batch(pieces[:1], pieces[1:])
    with torch.inference_mode():
        logits = model(torch.tensor([src + [EOS]]), torch.tensor([[BOS] + tgt]))[0]
    wanted = logits.log_softmax(-1)[range(len(tgt) + 1), tgt + [EOS]]
    assert_close(torch.tensor(scored.log_probs), wanted, rtol=0, atol=1e-4)

@every
def test_marian(name, tmp_path):
    transformers = pytest.importorskip('transformers')
    model = made(**fields_of(name))
    save_model(tmp_path/'m', model, BPE)
    if name not in MARIAN:
        with pytest.raises(InputError, match=refused(name)):
            export_marian(tmp_path/'m', tmp_path/'hub')
        return
    export_marian(tmp_path/'m', tmp_path/'hub')
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path/'hub').eval()
    src, tgt = torch.randint(4, 300, (2, 2, 6))
    with torch.inference_mode():
        found = theirs(input_ids=src, decoder_input_ids=tgt).logits
        assert_close(found, model(src, tgt), rtol=1e-4, atol=1e-4)

# Runs

PAIRS = [tuple(BPE.encode(text)[:30] for text in TEXTS[i:i + 2]) for i in range(0, 80, 2)]

@pytest.mark.parametrize('name', ['modern', 'biases, unscaled'])
def test_averaged(name, tmp_path):
    "The model that a run hands over is the mean of its last weights, and can be kept"
    batches = TokenBatches(PAIRS, 100)
    config = TrainingConfig(max_steps=6, save_every=2, average=2, weights='mean',
                            valid_every=3, lr=0.1, warmup_steps=2)
    model = accelerate(made(**fields_of(name)))
    t = Trainer(model, batches, [batches.batch(batches.plan(0)[0])], config, tmp_path/'run')
    t.run()
    [a, b] = [load_verified(path)[0] for path in t.files.checkpoints.paths()]
    save_model(tmp_path/'m', t.model, BPE)
    weights = load_model(tmp_path/'m')[0].state_dict()
    assert weights.keys() == a.keys() == b.keys()
    for key, w in weights.items():
        assert not a[key].equal(b[key]), key
        assert_close(w, (a[key] + b[key]) / 2)

def test_presets_of_later_models():
    modern, gqa, tiny = preset('modern'), preset('gqa'), preset('tiny')
    assert gqa == tiny.override(n_kv_heads=2)
    assert modern == tiny.override(**MORE['modern'], weight_decay=0.1)
    for name in PRESETS:
        run = preset(name)
        assert RunConfig.from_dict(run.to_dict()) == run
        check_model_size(run.model)

def test_wrong_guesses_get_a_line():
    with pytest.raises(TypeError, match='config is 100; it must be a TransformerConfig'):
        Transformer(100)
    for kind in ('sinusoidal', 'learned'):
        config = TransformerConfig(20, d_model=8, d_ff=8, n_heads=2, n_encoder_layers=1,
                                   n_decoder_layers=1, max_len=16, positions=kind)
        model, ids = Transformer(config), torch.ones(1, 17, dtype=torch.long)
        for src, tgt in ((ids, ids[:, :4]), (ids[:, :4], ids)):
            with pytest.raises(ValueError, match='17 tokens; max_len is 16'):
                model(src, tgt)
        model(ids[:, :16], ids[:, :16])
    for wrong in ('I love you.', ['I love you.'], [5, 6]):
        with pytest.raises(TypeError, match='not a list of ids'): search(model, wrong)
    with pytest.raises(InputError, match='no config.json .known are everyday-en-de'):
        open_model('everyday')
    with pytest.raises(TypeError, match='tokenizer is None'): save_model('m', model, None)
    for use in (open_model, Translator, partial(export_page, out='page.html')):
        with pytest.raises(TypeError, match='not a folder: .*Transformer'): use(model)
