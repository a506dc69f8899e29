"The ladder of chapters 01 to 05: its sentences, its loss and its stored runs"
import gzip, json, math
import pytest, torch
from running import ROOT
import ladder, sentences
from transformer_nb.attention import (
    CHARACTERS, N_IDS, SentenceModel, count_pairs, held_out_loss, ladder_text,
    learn_sentences, read_sentences, to_ids, to_text, write_sentences)
from transformer_nb.support.core import BOS, EOS, PAD
from transformer_nb.corpora import tatoeba
from transformer_nb.support.notebook import read_ladder

LADDER = ROOT/'nbs/results/ladder.jsonl'

def test_the_sentences_are_those_that_the_file_promises():
    lines = gzip.decompress(sentences.FILE.read_bytes()).decode('ascii').splitlines()
    first = ' '.join(line for line in lines if line.startswith('#'))
    for said in ('tatoeba.org', 'CC BY 2.0 FR', 'manythings.org', 'Changes'):
        assert said in first
    text = read_sentences()
    assert len(text) == len(set(text)) == 30_000
    assert all(map(sentences.is_wanted, text))
    assert sentences.FILE.stat().st_size < 500_000

def test_the_file_is_what_the_tool_makes(multi30k_dir):
    if not (multi30k_dir/'tatoeba-deu-eng').exists(): pytest.skip('Tatoeba is not here')
    pairs = [pair for split in tatoeba(multi30k_dir).values() for pair in split]
    assert sentences.choose(english for _, english in pairs) == read_sentences()

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
    log_p = count_pairs(to_ids(['ab', 'ac', 'ab']))
    a, b, c = (4 + CHARACTERS.index(x) for x in 'abc')
    total = 3 + 0.1*N_IDS
    assert log_p[a, b].exp().item() == pytest.approx(2.1 / total)
    assert log_p[a, c].exp().item() == pytest.approx(1.1 / total)
    assert log_p[BOS, a].exp().item() == pytest.approx(3.1 / total)

def test_the_loss_is_that_of_an_even_guess():
    ids = to_ids(['ab', 'abcdef'])                                # padding does not count
    assert held_out_loss(lambda ids: torch.zeros(*ids.shape, N_IDS), ids) == pytest.approx(
        math.log(N_IDS))

def test_what_is_written_is_drawn_by_its_seed():
    even = lambda ids: torch.zeros(*ids.shape, N_IDS)
    first, again, other = (write_sentences(even, 3, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    ends = lambda ids: torch.eye(N_IDS)[EOS].mul(100).expand(*ids.shape, N_IDS)
    assert write_sentences(ends, 2) == ['', '']

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

def test_the_stored_runs_are_all_there():
    rungs = read_ladder(LADDER, '07')
    assert list(rungs) == ['pairs counted', *ladder.RUNGS]
    for rung, (chapter, _) in ladder.RUNGS.items():
        assert len(rungs[rung]) >= 3
        assert [run['seed'] for run in rungs[rung]] == list(range(len(rungs[rung])))
        assert {run['chapter'] for run in rungs[rung]} == {chapter}
    stored = [json.loads(line) for line in LADDER.read_text(encoding='utf8').splitlines()]
    assert all(math.isfinite(run['nats']) and len(run['wrote']) == 3 for run in stored)

def test_what_the_chapters_say_of_the_runs():
    rungs = read_ladder(LADDER, '07')
    nats = {rung: [run['nats'] for run in runs] for rung, runs in rungs.items()}
    def every_run_is_better(rung, than): return max(nats[rung]) < min(nats[than])
    assert every_run_is_better('four heads', 'one head')
    assert every_run_is_better('feed-forward', 'four heads')
    assert every_run_is_better('positions', 'normalization')
    assert every_run_is_better('second layer', 'positions')
    assert abs(sum(nats['normalization']) - sum(nats['residual connection'])) / 10 < 0.03

def test_only_what_is_missing_is_run(tmp_path, monkeypatch):
    def train(rung, seed):
        about = dict(rung=rung, nats=1.5)
        return about if seed is None else about | dict(seed=seed)
    monkeypatch.setattr(ladder, 'train', train)
    out = tmp_path/'out.jsonl'
    ladder.main(1, 2, out)
    [*first] = out.read_text().splitlines()
    assert len(first) == 1 + len(ladder.RUNGS)
    ladder.main(0, 2, out)
    again = [json.loads(line) for line in out.read_text().splitlines()]
    assert [run.get('seed') for run in again] == [None] + [0, 1] * len(ladder.RUNGS)
    assert set(first) <= set(out.read_text().splitlines())
    assert not ladder.missing(again, range(2))
