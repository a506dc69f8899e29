"benchmarks/controls.py: the controls of chapters 18 and 20, and one row with many seeds."
import json, sys
from pathlib import Path
import numpy as np
import pytest
from scipy import stats
from transformer_nb.corpora import load_corpus
import controls
from runs import read_results

@pytest.fixture(scope='module')
def mini():
    pairs = load_corpus('mini', 'en', 'de')
    valid = list(pairs['valid'])
    return dict(train=list(pairs['train'])[:60], valid=valid[:8], test=valid[8:12])

@pytest.mark.parametrize('changes', [dict(rate=2), dict(parts=['rmsnorm'])])
def test_captions_add_up_to_the_loss(mini, monkeypatch, changes):
    monkeypatch.setattr(controls.v, 'BATCH_TOKENS', 100)
    captions = mini['test']
    run = controls.train_control(changes, 3, mini, captions, 2)
    nats, tokens = np.array(run['captions']).sum(0)
    assert len(run['captions']) == len(captions)
    assert nats / tokens == pytest.approx(run['test_loss'], abs=2e-3)

def run_equal(tmp_path, monkeypatch, mini, seeds, gap): # results
    "The program, with losses in place of trainings"
    def note(changes, seed, *_):
        luck = np.random.default_rng([seed, bool(changes)]).normal() * 0.014
        loss = 2.8 + luck + (gap if changes else 0)
        return dict(valid_loss=loss, test_loss=loss, skipped=0, commit='none',
                    captions=[[20*loss, 10], [8*loss, 5]])
    monkeypatch.setattr(controls, 'train_control', note)
    monkeypatch.setattr(controls, 'EQUAL_SEEDS', seeds)
    monkeypatch.setattr(controls.v, 'task_corpus', lambda: mini)
    monkeypatch.setattr(controls, 'load_corpus', lambda *_: mini)
    out = tmp_path/'equal.jsonl'
    monkeypatch.setattr(sys, 'argv', ['controls.py', '--equal', '--out', str(out)])
    controls.main()
    return [json.loads(line) for line in out.open()]

@pytest.mark.parametrize('gap, word', [(0.001, 'equal'), (0.05, 'worse')])
def test_all_seeds_are_judged(tmp_path, monkeypatch, capsys, mini, gap, word):
    results = run_equal(tmp_path, monkeypatch, mini, range(100, 190), gap)
    jobs = [(r['row'], r['seed']) for r in results]
    assert jobs[:3] == [('base', 100), ('rmsnorm', 100), ('base', 101)] # seed by seed
    assert len(jobs) == 180
    *_, seeds, captions, verdict = capsys.readouterr().out.splitlines()
    assert verdict == word
    assert 'over seeds:' in seeds and 'over seeds and captions:' in captions

STORED = Path(__file__).parent.parent/'nbs'/'results'/'controls.jsonl'

def test_stored_controls_are_whole(multi30k_dir):
    "All runs of the rule, of one commit; the short captions of each give its test loss"
    results = read_results(STORED)
    jobs = {(row, seed) for row, seeds in controls.SEEDS.items() for seed in seeds}
    assert len(results) == len(jobs) and {(r['row'], r['seed']) for r in results} == jobs
    assert {r['commit'] for r in results} == {'eeb1b4f'}
    pairs = load_corpus('multi30k', 'en', 'de')['test']
    is_short = [len(source.split()) <= 9 for source, _ in pairs]
    assert (len(is_short), sum(is_short)) == (1000, 281)
    for r in results:
        nats, tokens = np.array(r['captions'])[is_short].sum(0)
        assert nats / tokens == pytest.approx(r['test_loss'], abs=2e-4)

def test_the_five_on_all_captions(multi30k_dir):
    "Whole, and the words of chapter 20 by arithmetic of its own: two intervals below 0"
    results = read_results(STORED.with_name('five.jsonl'))
    assert {(r['row'], r['seed']) for r in results} == {
        (row, seed) for row in controls.FIVE for seed in controls.FIVE_SEEDS}
    assert len(results) == len(controls.FIVE) * len(controls.FIVE_SEEDS) == 42
    def table(row):
        runs = sorted((r['seed'], r['captions']) for r in results if r['row'] == row)
        return np.array([captions for _, captions in runs])
    others = [row for row in controls.FIVE if row != 'base@1.4']
    tokens = table('base@1.4')[0, :, 1]
    nats = {row: table(row)[..., 0] - table('base@1.4')[..., 0] for row in others}
    by_seed = np.array([nats[row].sum(1) / tokens.sum() for row in others])
    means, errors = by_seed.mean(1), by_seed.std(1, ddof=1) / 7**0.5
    most = stats.t.ppf(1 - 0.025/len(others), 6)
    rng, better = np.random.default_rng(7), []
    for row, mean, error in zip(others, means, errors):
        drawn = []
        for _ in range(3000):
            seeds, captions = rng.integers(7, size=7), rng.integers(1000, size=1000)
            mean_nats = nats[row][seeds].mean(0)
            drawn.append(mean_nats[captions].sum() / tokens[captions].sum())
        if mean + most*error < 0 and np.quantile(drawn, 0.995) < 0: better.append(row)
    assert better == ['rotary@2', 'together@4']

def test_a_difference_by_captions():
    "Over seeds and captions: the mean of both, and an interval that holds it"
    mean, low, high = controls.over_captions(
        [r for r in read_results(STORED) if r['seed'] > 2], 'base@1.4', 'base@1')
    assert low < mean < high < 0
