"The ladder of chapters 01 to 05: its sentences, its loss and its stored runs"
import math
import pytest, torch
import ladder
from transformer_nb.attention import (
    CHARACTERS, N_IDS, SentenceModel, held_out_loss, ladder_text, learn_sentences, to_ids,
    to_text)
from transformer_nb.support.core import BOS, EOS, PAD

def test_no_held_out_sentence_is_trained_on():
    train, held_out = ladder_text()
    assert len(train) == 29_000 and len(held_out) == 1000
    seen = {tuple(row) for row in train.tolist()}
    assert not seen & {tuple(row) for row in held_out.tolist()}

def test_ids_and_back():
    text = ["She's ill.", 'No!']
    ids = to_ids(text)
    assert ids[:, 0].tolist() == [BOS, BOS] and ids[1].tolist()[4:6] == [EOS, PAD]
    assert [to_text(row) for row in ids.tolist()] == text
    assert N_IDS == 4 + len(set(CHARACTERS))

def test_pairs_are_counted():
    log_p = ladder.chapter_01.count_pairs(to_ids(['ab', 'ac', 'ab']))
    a, b, c = (4 + CHARACTERS.index(x) for x in 'abc')
    total = 3 + 0.1*N_IDS
    assert log_p[a, b].exp().item() == pytest.approx(2.1 / total)
    assert log_p[a, c].exp().item() == pytest.approx(1.1 / total)
    assert log_p[BOS, a].exp().item() == pytest.approx(3.1 / total)

def test_the_loss_is_that_of_an_even_guess():
    ids = to_ids(['ab', 'abcdef'])                                # padding does not count
    assert held_out_loss(lambda ids: torch.zeros(*ids.shape, N_IDS), ids) == pytest.approx(
        math.log(N_IDS))

@pytest.mark.parametrize('rung', ladder.RUNGS)
def test_a_rung_never_looks_ahead(rung):
    _, make_body = ladder.RUNGS[rung]
    model = SentenceModel(make_body()).eval()
    ids = to_ids(['She is ill.', 'She is here'])
    scores = model(ids)
    changed = (scores[0] != scores[1]).any(-1)
    assert not changed[:8].any() and changed[8:].any()

def test_a_rung_learns():
    train, held_out = ladder_text()
    model = SentenceModel(ladder.RUNGS['one head'][1]())
    before = held_out_loss(model, held_out)
    learn_sentences(model, train, steps=60)
    assert held_out_loss(model, held_out) < 2.8 < before
