"Ours is what its configuration says, strangers raise no false alarm, faults are found"
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
import pytest, torch
from torch import nn
from torch.nn import functional as F
from transformer_nb.embedding import RotaryAttention, rotate
from transformer_nb.layers import FeedForward, ResidualNorm
from transformer_nb.model import DecoderLayer, EncoderLayer, Transformer, TransformerConfig
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.parts import ActivatedFeedForward, ModernAttention
from transformer_nb.optimizer import paper_lr, smoothed_loss
from transformer_nb.proving import prove as properties
from transformer_nb.proving.command import load_adapter, tnb_prove
from transformer_nb.proving.foreign import Foreign
from transformer_nb.proving.identify import values_of
from transformer_nb.proving.prove import ask, prove
from transformer_nb.proving.record import record
from transformer_nb.proving.settings import identify
from transformer_nb.studies.since_2017 import PARTS
from transformer_nb.support.core import InputError

def made(layers=1, seed=0, **fields):
    torch.manual_seed(seed)
    sizes = dict(d_model=16, d_ff=24, n_heads=4, n_encoder_layers=layers,
                 n_decoder_layers=layers, dropout=0.1)
    return Transformer(TransformerConfig(30, **sizes | fields))

def book(**doors):
    def logits(model, src, tgt): return model(src, tgt)
    return SimpleNamespace(logits=logits, vocab_size=30, pad=0, bos=1, eos=2, **doors)

def asked(model, adapter, *names): # by name
    f = Foreign(model, adapter)
    return {v.name: v for v in (ask(f, getattr(properties, name)) for name in names)}

# Which Transformer it is

MORE = [{}, dict(norm_eps=0.01), dict(activation='gelu_new'), dict(biases='all'),
        dict(tie_embeddings=False), dict(scale_embeddings=False), dict(positions='learned'),
        dict(d_k=3, d_v=5), dict(n_heads=1)]

@pytest.mark.parametrize('norm', ['post', 'pre'])
@pytest.mark.parametrize('fields', [*PARTS.values(), *MORE], ids=str)
def test_ours_is_its_configuration(fields, norm):
    is_its_configuration(made(norm=norm, **fields))

def is_its_configuration(model):
    found = identify(Foreign(model, book()))
    here, right = asdict(found.config), asdict(model.config)
    for name in ('dropout', 'max_len'): here[name] = right[name] # neither shows
    assert here == right
    exact = found.difference if found.difference <= 1e-10 else found.own_tables
    assert exact <= 1e-10
    assert not [row for row in found.rows if row[3] == 'unusual']

def test_no_false_alarm_on_the_library_and_a_place(monkeypatch):
    torch.manual_seed(0)
    theirs = load_adapter(Path(__file__).parents[1]/'benchmarks/adapters/nn_transformer.py')
    proof = prove(theirs.make(), theirs, training=False)
    assert not proof.failures and proof.found.difference < 1e-10, proof.text()
    right = nn.TransformerDecoder.forward
    def unmasked(*args, memory_key_padding_mask, **more): return right(*args, **more)
    monkeypatch.setattr(nn.TransformerDecoder, 'forward', unmasked)
    assert asked(theirs.make(), theirs, 'source_padding')['source padding'].where

def test_ours_fails_nothing():
    doors = dict(
        loss=lambda logits, labels: smoothed_loss(logits, labels) / (labels != 0).sum(),
        schedule=lambda step: paper_lr(step, 512), greedy=greedy, beam=beam,
        encode=lambda model, src: model.encode(src),
        decode=lambda model, tgt, memory, src: model.decode(tgt, memory,
                                                            (src != 0)[:, None, None]))
    proof = prove(made(), book(**doors))
    assert {v.outcome for v in proof.verdicts} == {'holds'}, proof.text()
    assert '((5 + length) / 6)^0.65' in proof.text()

def greedy(model, src, max_len):
    rows = torch.full((len(src), 1), 1)
    assert torch.get_default_dtype() == model.embeddings[0].weight.dtype # for masks
    for _ in range(max_len):
        rows = torch.cat([rows, model(src, rows)[:, -1:].argmax(-1)], 1)
    return rows[:, 1:].tolist()

def beam(model, src, beam_size, max_len): # of greedy search, of several lengths
    rows = torch.tensor(greedy(model, src, max_len))
    if beam_size == 1: return [(row, None) for row in rows]
    log_probs = model(src, F.pad(rows, (1, -1), value=1)).log_softmax(-1)
    chosen = log_probs.gather(2, rows[..., None])[..., 0]
    return [(row[:n], p[:n].sum() / ((5 + n) / 6)**0.65)
            for n, row, p in zip(range(3, 9), rows, chosen)]

# Faults in our own parts

def unmasked(self, x, mask): return right_encoder(self, x, torch.ones_like(mask))
right_encoder = EncoderLayer.forward

def cut_off(self, x, memory, *masks): return right_decoder(self, x, memory.detach(), *masks)
right_decoder = DecoderLayer.forward

def mixed(self, x): return (right_network(self, x) + right_network(self, x).mean(0)) / 2
right_network = FeedForward.forward

@pytest.mark.parametrize('owner, name, value, ask, told', [
    (EncoderLayer, 'forward', unmasked, 'source_padding', 'source padding'),
    (DecoderLayer, 'forward', cut_off, 'gradients', 'gradients'),
    (FeedForward, 'forward', mixed, 'batch_mates', 'batch mates'),
    (FeedForward, 'forward', lambda self, x: F.dropout(right_network(self, x), 0.1, True),
     'evaluation', 'evaluation'),
    (MultiHeadAttention, 'split_heads', lambda self, x: x.view(len(x), self.n_heads,
     x.shape[1], -1), 'causality', 'causality')])
def test_a_fault_is_found(monkeypatch, owner, name, value, ask, told):
    monkeypatch.setattr(owner, name, value)
    verdict = asked(made(), book(), ask)[told]
    assert verdict.outcome == 'fails' and verdict.told

def halved(self, x, f, *args, **more): return self.norm(x/2 + f(x, *args, **more))
def lost(self, x, f, *args, **more): return self.norm(f(x, *args, **more))
def around(self, x, f, *args, **more): return x + self.norm(f(x, *args, **more))
def normalized(self, x, f, *args, **more):
    y = self.norm(x)
    return (y if isinstance(f, FeedForward) else x) + f(y, *args, **more)

@pytest.mark.parametrize('owner, value, norm, row, text', [
    (FeedForward, lambda self, x: self.outer(self.inner(x)), 'post', 'activation', 'none'),
    (ResidualNorm, lost, 'post', 'residual', 'missing'),
    (ResidualNorm, around, 'post', 'residual', 'around'),
    (ResidualNorm, normalized, 'pre', 'residual', 'yes; but of the normalized in enc')])
def test_what_is_unusual_is_told(monkeypatch, owner, value, norm, row, text):
    monkeypatch.setattr(owner, 'forward', value)
    found = identify(Foreign(made(2, norm=norm), book()))
    here = {name: value for name, value, *_ in found.rows}
    assert here[row].startswith(text) and here['norm'] == norm
    assert min(found.difference, found.own_tables) < 1e-10

def test_features_may_come_first():
    _, rec = record(nn.Linear(2, 2), lambda: torch.ones(3, 16, 11).cumsum(1))
    assert any(x.shape == (33, 16) and x[0, -1] == 16 for x in values_of(rec))

def test_layers_may_differ():
    model = made(layers=2)
    model.decoder.layers[1].feed_forward = ActivatedFeedForward(16, 24, 'gelu').eval()
    for name in ('src_positions', 'tgt_positions'): # and embeddings a norm
        setattr(model, name, nn.Sequential(getattr(model, name), nn.LayerNorm(16)))
    found = identify(Foreign(model, book()))
    [row] = [r for r in found.rows if r[3] == 'unusual']
    assert row[1] == 'relu; but gelu in decoder layer 2, feed-forward network'
    assert min(found.difference, found.own_tables) < 1e-10

def test_what_no_setting_explains_is_named(monkeypatch):
    def cooled(model, src, tgt): return model(src, tgt) / tgt.shape[1]**.5
    proof = prove(made(), SimpleNamespace(**vars(book()) | dict(logits=cooled)), only=[])
    assert all(x not in proof.text() for x in ('same function', 'layer 2', 'unusual'))
    monkeypatch.setattr(ResidualNorm, 'forward', halved)
    found = identify(Foreign(made(), book()))
    assert not [r for r in found.rows if r[3] == 'unusual'] # of what was not reached
    assert found.unexplained[0].endswith('1, self-attention: the sum or the norm after it')

class Halves(ModernAttention):
    "Turns pairs of features that lie half a head apart"
    def project(self, x, memory, positions=None):
        q, k, v = super(RotaryAttention, self).project(x, memory)
        q, k = (rotate(x[..., [0, 2, 1, 3]])[..., [0, 2, 1, 3]] for x in (q, k))
        return q, k, v

class Fused(MultiHeadAttention):
    "One matrix for queries, keys, and values, head by head"
    def fused(self, x, *maps):
        parts = [linear.weight.unflatten(0, (self.n_heads, -1)) for linear in maps]
        y = F.linear(x, torch.stack(parts, 1).flatten(0, 2)) # (h, n, d_k, d)
        return y.unflatten(-1, (self.n_heads, len(maps), -1)).permute(3, 0, 2, 1, 4)

    def project(self, x, memory):
        if x is memory: return self.fused(x, self.query, self.key, self.value)
        return *self.fused(x, self.query), *self.fused(memory, self.key, self.value)

@pytest.mark.parametrize('kind, fields', [
    (Halves, dict(positions='rotary', qk_norm=True, n_kv_heads=2)), (Fused, {})])
def test_attention_in_another_form_is_the_books(kind, fields):
    model = made(**fields)
    for module in model.modules():
        if type(module) in (ModernAttention, MultiHeadAttention): module.__class__ = kind
    is_its_configuration(model)

class Odd(Transformer):
    "No gradient for the row of padding; a gain of 1, a matrix of 0; a dropout of its own"
    def forward(self, src, tgt):
        kept = (torch.arange(30) > 0)[:, None]
        self.embeddings[0].weight.register_hook(lambda g: g * kept)
        logits = super().forward(src, tgt)
        if self.training: logits = logits * (torch.rand_like(logits) > 0.1)
        return self.gain * logits + logits @ self.rest

def attend(self, q, k, v, mask):
    hidden = torch.where(mask, 0., -1e4).to(q) # as BERT does
    heads = F.scaled_dot_product_attention(q, k, v, hidden)
    return self.output(heads.transpose(1, 2).flatten(2))

def test_what_is_odd_is_not_a_fault(monkeypatch):
    monkeypatch.setattr(MultiHeadAttention, 'attend', attend)
    model = made(dropout=0.)
    model.__class__ = Odd
    model.gain, model.rest = map(nn.Parameter, (torch.ones(1, 1), torch.zeros(30, 30)))
    adapter = SimpleNamespace(**vars(book()) | dict(bos=0))
    found = asked(model, adapter, 'gradients', 'extremes', 'dropout')
    assert found['gradients'].outcome == found['extremes'].outcome == 'holds'
    assert 'Nothing' not in found['dropout'].told

def test_what_begins_equal_but_is_trained_apart():
    model = made(tie_embeddings=False)
    model.embeddings[2].weight.data = model.embeddings[1].weight.data.clone()
    assert asked(model, book(), 'ties')['ties'].outcome == 'fails'

# Loss and schedule

def counts_padding(x, labels): return F.cross_entropy(x.flatten(0, 1), labels.flatten())

def smoothed_by_hand(logits, labels, eps=0.2): # none on padding
    target = torch.full_like(logits, eps / 28).scatter(-1, labels[..., None], 1 - eps)
    target[..., 0] = 0.
    per_token = -(target * logits.log_softmax(-1)).sum(-1)
    return per_token[labels != 0].mean()

@pytest.mark.parametrize('loss, pad, outcome, words', [
    (counts_padding, 0, 'fails', 'padding'), (counts_padding, None, 'holds', 'over tokens'),
    (smoothed_by_hand, 0, 'holds', 'on padding'), (smoothed_loss, 0, 'holds', 'a sum')])
def test_the_loss_is_read_from_its_gradients(loss, pad, outcome, words):
    adapter = SimpleNamespace(**vars(book(loss=loss)) | dict(pad=pad))
    verdict = asked(made(), adapter, 'loss')['loss']
    assert verdict.outcome == outcome and words in verdict.told

def test_a_schedule_is_compared_with_equation_3():
    for rate, outcome in ((lambda step: paper_lr(step, 512, 300), 'holds'),
                          (lambda step: min(step / 300, 300 / step), 'differs'),
                          (lambda step: 0. * step, 'differs')):
        verdict = asked(made(), book(schedule=rate), 'schedule')['schedule']
        assert verdict.outcome == outcome and ' at step ' in verdict.told

def test_a_search_that_is_not_greedy():
    def second(*args): return [[9, *row[1:]] for row in greedy(*args)]
    verdict = asked(made(), book(greedy=second), 'greedy_search')['greedy search']
    assert verdict.outcome == 'fails' and verdict.case

def test_a_token_that_is_never_allowed():
    def banned(model, *ids): return F.pad(model(*ids)[..., 1:], (1, 0), value=-torch.inf)
    adapter = SimpleNamespace(**vars(book()) | dict(logits=banned))
    found = asked(made(), adapter, 'causality', 'batch_mates', 'extremes')
    assert {v.outcome for v in found.values()} == {'holds'}

# Bad input

def other_model(model, src, tgt): return OTHER(src, tgt).to(next(model.parameters()))
def equal_only(model, src, tgt):
    return model(src, tgt) + (src[..., None] - tgt[..., None]) * 0.
OTHER = made().eval()

def test_a_bad_adapter_gets_one_line():
    for change, message in [
            (dict(logits=lambda model, *ids: model(*ids).flatten(0, 1)),
             r'returned shape \(15, 30\); it must be \(3, 5, 30\)'),
            (dict(logits=lambda model, *ids: model(*ids).softmax(-1)), 'are probabilities'),
            (dict(logits=lambda model, *ids: (model(*ids), None)), 'logits returned tuple'),
            (dict(logits=lambda model, *ids: model(*ids).long()), 'returned torch.int64'),
            (dict(logits=other_model), 'does not use the model that it is given'),
            (dict(logits=equal_only), 'equal lengths work'),
            (dict(vocab_size=40), 'vocabularies of 40 and 40 right'),
            (dict(logits=3), 'not a function'), (dict(vocab_size=None), 'vocab_size'),
            (dict(pad=30), 'pad is 30; it must be an id below 30')]:
        adapter = SimpleNamespace(**vars(book()) | change)
        with pytest.raises(InputError, match=message): Foreign(made(), adapter)

    for name, junk in ('greedy', None), ('greedy', [['a']] * 6), ('beam', [[3, 4]] * 6):
        adapter = book(**{name: lambda *args, junk=junk: junk})
        with pytest.raises(InputError, match=f'{name} must return'):
            asked(made(), adapter, f'{name}_search')

def test_a_bad_model_gets_one_line():
    with pytest.raises(InputError, match='float16; convert'): Foreign(made().half(), book())
    with pytest.raises(InputError, match='is on meta'): Foreign(made().to('meta'), book())
    with pytest.raises(InputError, match='not a torch.nn.Module'): Foreign(print, book())

ADAPTER = '''
from transformer_nb.model import Transformer, TransformerConfig
vocab_size, pad, bos, eos = 30, 0, 1, 2
def make(): return Transformer(TransformerConfig(30, 16, 24, 2, n_encoder_layers=1))
def logits(model, src, tgt): return model(src, tgt)
'''

def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(properties, 'PROPERTIES', {properties.causality: []})
    path = tmp_path/'adapter.py'
    for text, status, words in ((ADAPTER, None, 'same function'),
                                ('x = 1', 2, 'neither model'),
                                ('def make(): 1/0', 2, 'ZeroDivisionError'),
                                ('1/0', 2, 'adapter.py cannot be run: ZeroDivisionError')):
        path.write_text(text)
        if status is None: tnb_prove(str(path))
        else:
            with pytest.raises(SystemExit) as stopped: tnb_prove(str(path))
            assert stopped.value.code == status
        out = capsys.readouterr()
        assert words in out.out + out.err
        assert len(out.err.splitlines()) <= 1
