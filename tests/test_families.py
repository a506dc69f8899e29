"""Chapter 21 beyond its own proofs: who sees whom, rows that are joined, texts that are
drawn token by token, gaps, and the weights of GPT-2 and BERT."""
from collections import Counter
from math import sqrt
from unittest import mock
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.support.core import BOS, EOS, PAD, UNK, set_seed
from transformer_nb.data import make_batch
from transformer_nb.embedding import Embedding
from transformer_nb.layers import FeedForward
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.studies import families
from transformer_nb.studies.families import (
    MASK, DecoderOnly, EncoderOnly, PrefixDecoder, family_loss, generate,
    join_rows, mask_tokens, next_token_loss, target_logits)
from transformer_nb.studies.variations import ablate

V = 50 # tokens
PAIRS = [([10, 11, 12, 13], [20, 21]), ([14], [22, 23, 24, 25, 26]), ([15, 16], [27])]

def small(family, **sizes):
    "A model in double precision, in evaluation mode"
    set_seed(0)
    sizes = dict(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=2, max_len=64) | sizes
    return family(TransformerConfig(V, **sizes)).double().eval()

def random_ids(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(UNK + 1, V, shape, generator=generator)

same = pytest.approx

def exactly(a, b): assert_close(a, b, rtol=1e-12, atol=1e-12)

# Who sees whom

def influence(model, ids):
    "Which positions' logits (rows) change with which token (columns)"
    n, reach = ids.shape[1], []
    with torch.no_grad():
        base = model(ids)[0]
        for j in range(n):
            other = ids.clone()
            other[0, j] = 5 if ids[0, j] != 5 else 6
            reach.append((model(other)[0] != base).any(-1))
    return torch.stack(reach, 1)

def test_a_decoder_sees_the_left_and_all_of_it():
    seen = influence(small(DecoderOnly), random_ids(1, 7))
    assert seen.equal(torch.ones(7, 7).tril().bool())

def test_an_encoder_sees_everything():
    assert influence(small(EncoderOnly), random_ids(1, 7)).all()

def test_a_prefix_decoder_reads_its_source_in_both_directions():
    ids = torch.tensor([[10, 11, 12, EOS, BOS, 20, 21, 22]])
    mask = small(PrefixDecoder).mask(ids)[0, 0]
    expected = torch.ones(8, 8).tril().bool()
    expected[:, :4] = True
    assert mask.equal(expected)
    seen = influence(small(PrefixDecoder), ids)
    others = [j for j in range(8) if ids[0, j] not in (EOS, BOS)] # change who is who
    assert seen[:, others].equal(expected[:, others])

def test_padding_is_not_seen():
    ids = random_ids(2, 6)
    for family in (DecoderOnly, EncoderOnly, PrefixDecoder):
        model = small(family)
        ids[:, 3] = BOS
        padded = F.pad(ids, (0, 4), value=PAD)
        with torch.no_grad(): exactly(model(padded)[:, :6], model(ids))

@pytest.mark.smoke
def test_equal_layers_for_decoder_and_encoder():
    names = [dict(small(f).named_parameters()).keys() for f in (DecoderOnly, EncoderOnly)]
    assert names[0] == names[1]
    c = small(DecoderOnly).config
    attention, norms = 4*c.d_model**2, 4*c.d_model
    feed_forward = 2*c.d_model*c.d_ff + c.d_ff + c.d_model
    total = sum(p.numel() for p in small(DecoderOnly).parameters())
    assert total == V*c.d_model + 2*(attention + feed_forward + norms)

# Joined rows

pairs_of_ids = st.lists(st.tuples(st.lists(st.integers(4, V - 1), max_size=6),
                                  st.lists(st.integers(4, V - 1), max_size=6)),
                        min_size=1, max_size=5)

@settings(max_examples=50, deadline=None)
@given(pairs_of_ids)
def test_joined_rows_hold_their_pairs(pairs):
    batch = make_batch(pairs)
    rows, places = join_rows(batch.src, batch.tgt)
    assert rows.shape[1] == batch.src.shape[1] + batch.tgt.shape[1]
    for (src, tgt), row, place in zip(pairs, rows.tolist(), places.tolist()):
        joined = src + [EOS, BOS] + tgt
        assert row == joined + [PAD] * (len(row) - len(joined))
        assert [row[i] for i in place[:len(tgt) + 1]] == [BOS] + tgt
        assert place[0] == len(src) + 1
        assert all(row[i] == PAD for i in place[len(tgt) + 1:])

@pytest.mark.parametrize('family', [DecoderOnly, PrefixDecoder])
def test_a_pair_does_not_depend_on_its_batch(family):
    model, batch = small(family), make_batch(PAIRS)
    with torch.no_grad():
        together = target_logits(model, batch.src, batch.tgt)
        for logits, pair in zip(together, PAIRS):
            one = make_batch([pair])
            alone = target_logits(model, one.src, one.tgt)[0]
            exactly(logits[:len(alone)], alone)
            src, tgt = pair
            row = torch.tensor([src + [EOS, BOS] + tgt])
            exactly(model(row)[0, len(src) + 1:], alone)

def test_the_paper_s_model_keeps_its_own_logits():
    model, batch = small(Transformer, n_decoder_layers=1), make_batch(PAIRS)
    with torch.no_grad():
        logits = target_logits(model, batch.src, batch.tgt)
        exactly(logits, model(batch.src, batch.tgt))

def test_family_loss_is_the_mean_over_all_labels():
    model = small(DecoderOnly)
    with mock.patch.object(families, 'TokenBatches', wraps=families.TokenBatches) as made:
        found = family_loss(model, PAIRS, next_token_loss)
    assert made.called
    nats = []
    with torch.no_grad():
        for _, tgt in PAIRS:
            logits = model(torch.tensor([[BOS] + tgt]))[0]
            labels = torch.tensor(tgt + [EOS])
            nats.append(F.cross_entropy(logits, labels, reduction='none'))
    assert found == same(torch.cat(nats).mean().item(), rel=1e-9)

# Texts that are drawn

def greedy_alone(model, prompt, n):
    ids = list(prompt)
    for _ in range(n):
        token = int(model(torch.tensor([ids]))[0, -1].argmax())
        if token == EOS: break
        ids.append(token)
    return [i for i in ids[len(prompt):] if i != PAD]

@pytest.mark.parametrize('family', [DecoderOnly, PrefixDecoder])
def test_texts_do_not_depend_on_their_neighbors(family):
    model = small(family)
    prompts = [src + [EOS, BOS] for src, _ in PAIRS] + [[BOS]]
    found = generate(model, prompts, 12, top_k=1)
    with torch.no_grad():
        assert found == [greedy_alone(model, prompt, 12) for prompt in prompts]
    assert found != [[]]*4

class CountingUp(nn.Module):
    "The next token is one more, up to 19; then the end"
    def __init__(self):
        super().__init__()
        self.embedding = Embedding(V, V)
        self.embedding.weight.data = torch.eye(V)
        self.rows = []
    def states(self, ids):
        self.rows.append(len(ids))
        wanted = torch.where(ids >= 19, EOS, ids + 1)
        return 50. * F.one_hot(wanted, V)

def test_texts_end_where_they_end():
    model = CountingUp()
    found = generate(model, [[10], [5, 17], [19]], max_tokens=5)
    assert found == [[11, 12, 13, 14, 15], [18, 19], []]
    assert model.rows == [3, 2, 2, 1, 1] # a text that has ended is not read again

def test_drawing_repeats_with_its_generator():
    model = small(DecoderOnly)
    def drawn(seed, **options):
        generator = torch.Generator().manual_seed(seed)
        return generate(model, [[BOS]]*4, 8, generator=generator, **options)
    assert drawn(0) == drawn(0) != drawn(1)
    assert drawn(0, top_k=1) == drawn(1, top_k=1) == drawn(2, temperature=1e-6)

def test_texts_have_their_probabilities():
    "Of 4,000 first tokens, each must get its share within five standard deviations"
    model, n = small(DecoderOnly), 4000
    generator = torch.Generator().manual_seed(0)
    first = generate(model, [[BOS]]*n, 1, generator=generator)
    counts = Counter(ids[0] if ids else None for ids in first)
    with torch.no_grad(): probs = model(torch.tensor([[BOS]]))[0, -1].softmax(-1)
    for token in range(UNK, V):
        p = probs[token].item()
        assert abs(counts[token] - n*p) < 5*sqrt(n*p) + 1, token

# Gaps

def test_gaps():
    set_seed(0)
    ids = random_ids(500, 1000)
    ids[:, 0], ids[:, -1], ids[:, -2] = BOS, PAD, EOS
    masked, labels = mask_tokens(ids, V)
    chosen = labels != PAD
    assert not chosen[:, [0, -1, -2]].any()
    assert labels[chosen].equal(ids[chosen])
    assert masked[~chosen].equal(ids[~chosen])
    def share(which): return which[chosen].double().mean().item()
    assert chosen[:, 1:-2].double().mean().item() == same(0.15, abs=0.002)
    assert share(masked == MASK) == same(0.8, abs=0.005)
    expected = 0.1 + 0.1/(V - UNK - 1) # some random tokens are the old ones
    assert share(masked == ids) == same(expected, abs=0.004)
    strange = masked[chosen & (masked != MASK) & (masked != ids)]
    assert strange.min() == UNK + 1 and strange.max() == V - 1

def test_gaps_are_drawn_anew():
    ids = random_ids(4, 50)
    first, second = mask_tokens(ids, V), mask_tokens(ids, V)
    assert not first[0].equal(second[0])

# GPT-2 and BERT, as in the chapter

class GELUFeedForward(FeedForward):
    def forward(self, x): return self.outer(F.gelu(self.inner(x)))

class TanhFeedForward(FeedForward):
    def forward(self, x): return self.outer(F.gelu(self.inner(x), approximate='tanh'))

def exchange(model, feed_forward, eps):
    ablate(model, '√d_model')
    d = model.config.d_model
    for layer in model.stack.layers:
        layer.feed_forward.__class__ = feed_forward
        for name in ('query', 'key', 'value', 'output'):
            setattr(layer.self_attention, name, nn.Linear(d, d))
    for module in model.modules():
        if isinstance(module, nn.LayerNorm): module.eps = eps
    return model.eval()

def fill(ours, weight, bias): ours.load_state_dict(dict(weight=weight, bias=bias))

def as_gpt2(theirs, norm='pre', feed_forward=TanhFeedForward, family=DecoderOnly):
    c, t = theirs.config, theirs.transformer
    sizes = dict(d_model=c.n_embd, d_ff=4*c.n_embd, n_heads=c.n_head)
    sizes |= dict(n_encoder_layers=c.n_layer, max_len=c.n_positions)
    config = TransformerConfig(c.vocab_size, **sizes, norm=norm, positions='learned')
    ours = exchange(family(config).double(), feed_forward, c.layer_norm_epsilon).double()
    ours.embedding.weight, ours.positions.table = t.wte.weight, t.wpe.weight
    if norm == 'pre': ours.stack.norm.load_state_dict(t.ln_f.state_dict())
    for layer, block in zip(ours.stack.layers, t.h):
        attention, mlp = layer.self_attention, layer.feed_forward
        joint = block.attn.c_attn
        parts = zip(joint.weight.T.chunk(3), joint.bias.chunk(3))
        projections = [attention.query, attention.key, attention.value]
        for linear, part in zip(projections, parts): fill(linear, *part)
        others = [(attention.output, block.attn.c_proj), (mlp.inner, block.mlp.c_fc),
                  (mlp.outer, block.mlp.c_proj)]
        for linear, conv in others: fill(linear, conv.weight.T, conv.bias)
        for residual, norm_ in zip(layer.residuals, [block.ln_1, block.ln_2]):
            residual.norm.load_state_dict(norm_.state_dict())
    return ours

class BERTEmbedding(Embedding):
    def forward(self, ids): return F.embedding(ids, self.weight)
    def logits(self, x):
        x = self.norm(F.gelu(self.dense(x)))
        return super().logits(x) + self.bias

def as_bert(theirs, token_types=True, norm=True):
    c, e, head = theirs.config, theirs.bert.embeddings, theirs.cls.predictions
    sizes = dict(d_model=c.hidden_size, d_ff=c.intermediate_size)
    sizes |= dict(n_heads=c.num_attention_heads, n_encoder_layers=c.num_hidden_layers)
    sizes |= dict(positions='learned', max_len=c.max_position_embeddings)
    config = TransformerConfig(c.vocab_size, **sizes)
    ours = exchange(EncoderOnly(config), GELUFeedForward, c.layer_norm_eps).double()
    table = e.position_embeddings.weight
    if token_types: table = table + e.token_type_embeddings.weight[0]
    ours.positions.table = nn.Parameter(table)
    if norm: ours.positions = nn.Sequential(ours.positions, e.LayerNorm)
    ours.embedding.__class__ = BERTEmbedding
    ours.embedding.weight, ours.embedding.bias = e.word_embeddings.weight, head.bias
    ours.embedding.dense = head.transform.dense
    ours.embedding.norm = head.transform.LayerNorm
    for layer, block in zip(ours.stack.layers, theirs.bert.encoder.layer):
        a, own, end = layer.self_attention, block.attention.self, block.attention.output
        attend, transform = layer.residuals
        pairs = [(a.query, own.query), (a.key, own.key), (a.value, own.value),
                 (a.output, end.dense), (attend.norm, end.LayerNorm),
                 (layer.feed_forward.inner, block.intermediate.dense),
                 (layer.feed_forward.outer, block.output.dense),
                 (transform.norm, block.output.LayerNorm)]
        for linear, part in pairs: linear.load_state_dict(part.state_dict())
    return ours.eval()

def randomized(model):
    set_seed(1)
    for p in model.parameters(): nn.init.normal_(p, std=0.3 if p.dim() == 1 else 0.1)
    return model.double().eval()

@pytest.fixture(scope='module')
def gpt2():
    transformers = pytest.importorskip('transformers')
    sizes = dict(n_embd=32, n_layer=3, n_head=4, n_positions=40)
    sizes |= dict(vocab_size=97, bos_token_id=1, eos_token_id=2)
    config = transformers.GPT2Config(**sizes)
    return randomized(transformers.GPT2LMHeadModel(config))

@pytest.fixture(scope='module')
def bert():
    transformers = pytest.importorskip('transformers')
    sizes = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3)
    sizes |= dict(vocab_size=97, intermediate_size=64, max_position_embeddings=40)
    return randomized(transformers.BertForMaskedLM(transformers.BertConfig(**sizes)))

@torch.no_grad()
def off_gpt2(theirs, **changes):
    ids = torch.randint(4, 97, (2, 17), generator=torch.Generator().manual_seed(0))
    differences = as_gpt2(theirs, **changes)(ids) - theirs(ids).logits
    return differences.abs().max().item()

@torch.no_grad()
def off_bert(theirs, **changes):
    ids = torch.randint(4, 97, (2, 17), generator=torch.Generator().manual_seed(0))
    ids[1, 12:] = PAD
    real = ids != PAD
    expected = theirs(ids, attention_mask=real.long()).logits
    differences = as_bert(theirs, **changes)(ids) - expected
    return differences[real].abs().max().item()

def test_gpt2_in_our_parts(gpt2): assert off_gpt2(gpt2) < 1e-12

def test_bert_in_our_parts(bert): assert off_bert(bert) < 1e-12

def test_every_exchange_matters(gpt2, bert):
    assert off_gpt2(gpt2, norm='post') > 0.1
    assert off_gpt2(gpt2, family=EncoderOnly) > 1e-2
    assert 1e-6 < off_gpt2(gpt2, feed_forward=GELUFeedForward) < 1e-2
    assert off_gpt2(gpt2, feed_forward=FeedForward) > 1e-2
    assert off_bert(bert, token_types=False) > 1e-3
    assert off_bert(bert, norm=False) > 1e-3
