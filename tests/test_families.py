"""Chapter 21 beyond its own proofs: who sees whom, rows that are joined, texts that are
drawn token by token, gaps, and the weights of GPT-2 and BERT."""
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.support.core import BOS, EOS, PAD, UNK, set_seed
from transformer_nb.data import make_batch
from transformer_nb.model import TransformerConfig
from transformer_nb.studies.families import (
    MASK, DecoderOnly, EncoderOnly, PrefixDecoder, generate,
    join_rows, mask_tokens)

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
