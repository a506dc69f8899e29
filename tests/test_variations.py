"""Chapter 18 beyond its own proofs: what a row changes, what it leaves alone, a table that
is interrupted, and the rule on losses whose effects are known."""
import json, re
from copy import deepcopy
from itertools import islice
from math import exp, nan, sqrt
from pathlib import Path
from unittest import mock
import numpy as np
import pytest, torch
from book import read_notebook
from matplotlib import pyplot
from running import call, call_script, definitions, refuses
from torch.testing import assert_close
from transformer_nb import judging
from transformer_nb.checkpoint import _n_parameters as n_parameters
from transformer_nb.core import BOS, EOS, InputError, set_seed
from transformer_nb.corpora import load_corpus
from transformer_nb.decoding import search
from transformer_nb.embedding import Embedding
from transformer_nb.judging import (
    Difference, compare_rows, judge_rows, pooled_rows, t_p_value, t_quantile)
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.optimizer import paper_lr
from transformer_nb.training import batch_groups
from transformer_nb.studies import variations
from transformer_nb.studies.variations import (
    BASE, DEPTH, LEFT_OUT, N_STEPS, PEAK_LR, RATES, ROWS, TABLE, WARMUP_STEPS, ablate,
    confirmation, row_lr, train_row)
import train_variations as protocol
from runs import read_results
from train_variations import train_rows

chapter = definitions('18_variations')
from_chapter = [getattr(chapter, name) for name in (
    'LADDERS', 'Slope', '_slope', 'after_rates', 'beside_paper', 'best_rates', 'direction',
    'judge_heads', 'trends', 'whole_seeds')]
(LADDERS, Slope, _slope, after_rates, beside_paper, best_rates, direction, judge_heads,
 trends, whole_seeds) = from_chapter

NOT_CONFIG = 'label_smoothing', 'warmup', 'without', 'rate'
RESULTS = Path(__file__).parent.parent/'nbs'/'results'/'variations.jsonl'
TEN = RESULTS.parent/'variations_ten.jsonl'

def config(name, vocab_size=2000):
    settings = BASE | ROWS[name]
    for field in NOT_CONFIG: settings.pop(field, None)
    return TransformerConfig(vocab_size, **settings)

@pytest.mark.parametrize('name', ROWS)
def test_parameters(name):
    "Counted in shallow models and in the model itself"
    model = Transformer(config(name))
    assert sum(p.numel() for p in model.parameters()) == n_parameters(model.config)

def test_parameters_beside_base():
    count = {name: n_parameters(config(name)) for name in ROWS}
    same = ['A1', 'A2', 'A8', 'A16', 'D-drop0', 'D-drop0.2', 'D-ls0', 'D-ls0.2',
            'no-sqrt-d', 'no-sqrt-dk']
    assert {count[name] for name in same} == {count['base']}
    for name, d_k in (('B4', 4), ('B8', 8)):
        saved = 9 * 2*64*4*(16 - d_k) # W^Q and W^K of 9 attentions
        assert count['base'] - count[name] == saved
    chains = ['C-N1 C-N2 base C-N4', 'C-d32 base C-d128 big', 'C-ff128 base C-ff512',
              'base E', 'base untied']
    for chain in chains:
        sizes = [count[name] for name in chain.split()]
        assert sizes == sorted(set(sizes)), chain

@pytest.mark.smoke
def test_rows_change_one_thing():
    one_thing = [
        {'n_heads', 'd_k', 'd_v'}, {'d_k'}, {'n_encoder_layers', 'n_decoder_layers'},
        {'d_model'}, {'d_ff'}, {'dropout'}, {'label_smoothing'}, {'positions'},
        {'tie_embeddings'}, {'without'}]
    for name in {*TABLE, *LEFT_OUT} - {'base', 'big'}:
        assert set(ROWS[name]) in one_thing, name
    for changes in DEPTH.values():
        assert set(changes) == {'n_encoder_layers', 'n_decoder_layers', 'norm', 'warmup'}
    assert not any(set(name) & set(', /') for name in ROWS) # names that --rows can hold

def test_lr_is_the_curve_of_the_paper():
    factor = PEAK_LR / paper_lr(WARMUP_STEPS, BASE['d_model'], WARMUP_STEPS)
    for step in (1, WARMUP_STEPS//2, WARMUP_STEPS, 3*WARMUP_STEPS):
        for d_model in (32, 64, 128):
            lr = row_lr(dict(d_model=d_model), step)
            assert abs(lr / paper_lr(step, d_model, WARMUP_STEPS) - factor) < 1e-9
        after_warmup = row_lr({}, max(step, WARMUP_STEPS))
        assert abs(row_lr(dict(warmup=False), step) - after_warmup) < 1e-12
    assert row_lr(dict(warmup=False), 1) == PEAK_LR
    assert row_lr(dict(rate=0.5), 70) == row_lr({}, 70)/2
    assert row_lr(RATES['A1@2'], 70) == row_lr(TABLE['A1'], 70)*2

@pytest.fixture(scope='module')
def mini():
    pairs = load_corpus('mini', 'en', 'de')
    return {'train': pairs['train'][:60], 'valid': pairs['valid'][:3]}

def trained_on(name, seed, mini):
    "The batches that a row sees, and its label smoothing"
    seen = []
    def note(model, optimizer, batches, n_steps, lr_of, loss_of):
        for _, _, [rows] in islice(batch_groups(batches, 1), n_steps):
            batch = batches.batch(rows)
            seen.append((batch.src.tolist(), batch.labels.tolist(),
                         loss_of.keywords['label_smoothing']))
        return {}, []
    with (mock.patch.object(variations, 'train_steps', note),
          mock.patch.object(variations, 'measure_losses', return_value={}),
          mock.patch.object(variations, '_scores', return_value={})):
        train_row(ROWS[name], seed, mini, 5)
    return seen

def test_equal_batches_for_all_rows_of_a_seed(mini):
    with mock.patch.object(variations, 'BATCH_TOKENS', 100):
        base = trained_on('base', 0, mini)
        assert len(base) == 5
        for name in ('A1', 'E', 'C-d32', 'post6-cold'):
            assert trained_on(name, 0, mini) == base
        assert trained_on('base', 1, mini) != base
        smooth = trained_on('D-ls0.2', 0, mini)
    assert [batch[:2] for batch in smooth] == [batch[:2] for batch in base]
    assert {label_smoothing for _, _, label_smoothing in smooth} == {0.2}

def test_short_pairs_have_few_words_in_the_source():
    pairs = [(' '.join('a' * n), 'b ' * 20) for n in (8, 9, 10)]
    assert variations.short_corpus(dict(train=pairs, valid=[])) == dict(
        train=pairs[:2], valid=[])
    many = variations.short_corpus(dict(train=pairs[:1] * 4001, valid=[]))
    assert len(many['train']) == 4000

def test_the_training_loss_is_of_as_many_pairs(monkeypatch):
    seen = []
    def loss(model, pairs):
        seen.append(pairs)
        return 1.
    monkeypatch.setattr(variations, 'mean_loss', loss)
    variations.measure_losses(None, list(range(9)), list('abc'))
    assert seen == [list('abc'), [0, 1, 2]]

def timeless(result): return {k: v for k, v in result.items() if k != 'seconds'}

def test_a_result_repeats(mini):
    first, second = (train_row(ROWS['C-N1'], 3, mini, 2) for _ in range(2))
    assert timeless(first) == timeless(second)

def small_model(seed):
    set_seed(seed)
    return Transformer(TransformerConfig(30, d_model=16, d_ff=32, n_heads=2,
                                         n_encoder_layers=2, n_decoder_layers=2)).eval()

PARTS = ['√d_model', '1/√d_k']

@pytest.mark.parametrize('part', PARTS)
def test_ablate_in_training_and_in_search(part):
    "A search without a part scores its tokens as the model without it does"
    model = small_model(1)
    source = [5, 6, 7, 8]
    whole = search(model, [source])[0][0]
    ablate(model, part)
    found = search(model, [source])[0][0]
    src, tgt = torch.tensor([source + [EOS]]), torch.tensor([[BOS] + found.ids])
    with torch.no_grad(): log_probs = model(src, tgt)[0].log_softmax(-1)
    labels = (found.ids + [EOS])[:len(found.log_probs)]
    expected = log_probs[range(len(labels)), labels]
    assert_close(expected, torch.tensor(found.log_probs), rtol=0, atol=1e-5)
    assert found.score != whole.score

def loss_and_gradients(model):
    src = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, 0]])
    tgt = torch.tensor([[BOS, 4, 3], [BOS, 11, 12]])
    loss = model(src, tgt).square().mean()
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]

embed, project = Embedding.forward, MultiHeadAttention.project

def divided(self, ids): return embed(self, ids) / sqrt(self.weight.shape[1])

def longer(self, x, memory):
    q, k, v = project(self, x, memory)
    return q * sqrt(q.shape[-1]), k, v

PATCHES = {
    '√d_model': mock.patch.object(Embedding, 'forward', divided),
    '1/√d_k': mock.patch.object(MultiHeadAttention, 'project', longer)}

@pytest.mark.parametrize('part', PARTS)
def test_ablate_computes_what_other_methods_in_its_place_do(part):
    "The rows on disk were trained by a patched model; the numbers must be the same"
    model = small_model(2)
    with PATCHES[part]: patched = loss_and_gradients(model)
    assert_close(loss_and_gradients(ablate(deepcopy(model), part)), patched)
    whole = loss_and_gradients(model)
    assert whole[0] != patched[0]

def test_ablate_nothing_and_one_model_only():
    model = small_model(3)
    whole = loss_and_gradients(model)
    for part in PARTS:
        changed = ablate(deepcopy(model), part)
        assert changed.state_dict().keys() == model.state_dict().keys()
    for now in (model, ablate(model, ''), small_model(3)):
        assert_close(loss_and_gradients(now), whole, rtol=0, atol=0)
    with pytest.raises(KeyError): ablate(model, '√d_k')

def jobs_in(path): return [(r['row'], r['seed']) for r in read_results(path)]

def test_what_is_confirmed_was_judged_and_had_other_seeds(monkeypatch):
    asked = []
    def note(*arguments): asked.extend(arguments)
    monkeypatch.setattr(protocol, 'train_rows', note)
    protocol.confirm_rows('out', {'test': []})
    out, [base, *rows], seeds, *_ = asked
    stored = read_results(TEN)
    assert not set(seeds) & {r['seed'] for r in stored} and len(seeds) == 3
    results = [r for r in stored if r['row'] in TABLE and r['seed'] < 10]
    judged = {row for row, d in judge_rows(results, compare=pooled_rows)[0].items()
              if d.verdict() in ('worse', 'better')}
    assert base == 'base' and set(rows) == judged and len(rows) == len(judged)

def test_the_task_has_a_split_that_chose_nothing(multi30k_dir):
    corpus = variations.task_corpus(multi30k_dir)
    assert list(corpus) == ['train', 'valid', 'test']
    assert not set(corpus['test']) & {*corpus['train'], *corpus['valid']}
    two = variations.short_corpus(load_corpus('multi30k', 'en', 'de', multi30k_dir))
    assert two == {split: corpus[split] for split in ('train', 'valid')}

def test_interrupted_and_continued(mini, tmp_path):
    out, calls = tmp_path/'sub'/'x.jsonl', []
    def interrupted(*job):
        calls.append(job)
        if len(calls) == 3: raise KeyboardInterrupt
        return dict(ppl=1., bleu=0.)
    with mock.patch.object(protocol, 'train_row', interrupted):
        with pytest.raises(KeyboardInterrupt):
            train_rows(out, ['E', 'base'], range(2), mini, 1)
        assert jobs_in(out) == [('E', 0), ('E', 1)]
        train_rows(out, ['E', 'base'], range(2), mini, 1)
        train_rows(out, ['base'], range(3), mini, 1) # one seed more
        train_rows(out, ['base', 'E'], range(3), mini, 1)
    in_order = [('E', 0), ('E', 1), ('base', 0), ('base', 1), ('base', 2), ('E', 2)]
    assert jobs_in(out) == in_order
    assert len(calls) == 7
    assert [p.name for p in out.parent.iterdir()] == ['x.jsonl']

def test_other_settings_are_refused(mini, tmp_path):
    out = tmp_path/'x.jsonl'
    other = mini | dict(valid=mini['valid'][:1])
    def refuses(words, rows, corpus=mini, n_steps=1):
        with pytest.raises(InputError, match=words):
            train_rows(out, rows, range(2), corpus, n_steps)
    with mock.patch.object(protocol, 'train_row', return_value=dict(ppl=1., bleu=0.)):
        train_rows(out, ['base', 'A1'], range(1), mini, 1)
        before = out.read_bytes()
        words = 'row base was run with other settings'
        refuses(words, ['A1'], n_steps=2)
        refuses(words, ['A1'], corpus=other)
        with mock.patch.dict(ROWS, A1=dict(n_heads=2)): refuses('row A1', ['base'])
        assert out.read_bytes() == before
        out.write_text(before.decode().replace('"A1"', '"A7"')) # there is no such row
        refuses('row A7', ['base'])

def test_reported_results_are_those_of_this_code(multi30k_dir, tmp_path):
    "The script finds nothing missing in the file that the chapter reads"
    copy = tmp_path/'x.jsonl'
    copy.write_bytes(RESULTS.read_bytes())
    for rows, seeds in (('table,left_out', 3), ('depth', 1)):
        options = ['--rows', rows, '--seeds', seeds, '--data_dir', multi30k_dir]
        done = run(*options, '--out', copy)
        assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')
    assert copy.read_bytes() == RESULTS.read_bytes()

def test_processes(mini, tmp_path, copies):
    "Trainings in processes of their own come out as one in this process does"
    rows = ['C-N1', 'no-sqrt-dk']
    results = train_rows(tmp_path/'x.jsonl', rows, range(1), mini, 1, processes=2)
    assert {r['row'] for r in results} == set(rows)
    assert {r['threads'] for r in results} == {1}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    here = timeless(train_row(ROWS['C-N1'], 0, mini, 1))
    torch.set_num_threads(threads)
    there = next(r for r in results if r['row'] == 'C-N1')
    assert {k: there[k] for k in here} == here
    numbers = ['parameters', 'steps', 'epochs', 'valid_loss', 'train_loss', 'ppl', 'bleu',
               'seconds']
    assert all(type(there[k]) in (int, float) for k in numbers)
    assert there['commit']

def run(*args): return call_script(protocol.train_variations, *args)

def test_command_refuses(tmp_path):
    out = tmp_path/'x'
    done = run('--corpus', 'mini', '--out', out, '--rows', 'base,A3')
    refuses(done, "--rows has 'A3'", 'table, left_out, depth', 'base, A1')
    assert not out.exists()

@pytest.mark.parametrize('options, words', [
    (dict(rows=''), "--rows has ''"),
    (dict(seeds=0), '--seeds is 0'),
    (dict(processes=-1), '--processes is -1'),
    (dict(n_steps=0), '--n_steps is 0'),
    (dict(corpus='wmt'), "'wmt'")])
def test_options_that_no_training_can_use(options, words, tmp_path):
    out = tmp_path/'x'
    options = dict(corpus='mini', out=str(out)) | options
    refuses(call(protocol.train_variations, **options), words)
    assert not out.exists()

@pytest.mark.slow
def test_command(mini, tmp_path, copies):
    out = tmp_path/'x.jsonl'
    options = ['--corpus', 'mini', '--rows', 'C-N1', '--seeds', 1, '--processes', 1]
    for n in (1, 0): # what is there is not trained again
        with mock.patch.object(protocol, 'load_corpus', return_value=mini) as loaded:
            done = run(*options, '--n_steps', 10, '--out', out)
        loaded.assert_called_once_with('mini', 'en', 'de', None)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.count(b'\n') == n
    [result] = map(json.loads, out.read_text().splitlines())
    assert result['row'] == 'C-N1' and result['steps'] == 10
    assert result['hardware'] and result['commit']
    assert result['torch'] == torch.__version__

# The rule, on losses that are made up

def made_up(effects, seeds=range(10), rows=TABLE, s=0.02, measure='valid_loss'):
    "Trainings whose losses are a number for the row, one for the seed, and luck"
    rng, results = np.random.default_rng(1), []
    for seed in seeds:
        of_seed = 0.03*np.sin(seed)
        for row in rows:
            loss = 2.9 + effects.get(row, 0.) + of_seed + s*rng.normal()
            results.append(dict(row=row, seed=seed, skipped=0) | {measure: loss})
    return results

@pytest.fixture
def quick(monkeypatch):
    "Without an integral: of one row the t test, of several stricter than Dunnett's"
    def replaced(correlation, free):
        n = int(sqrt(len(correlation) / 8))
        return t_quantile(1 - 0.05/2/n, free)
    monkeypatch.setattr(judging, '_dunnett_value', replaced)

def losses_of(results, row):
    return np.array([r['valid_loss'] for r in results if r['row'] == row])

def paired(results, row, base='base'):
    "Mean and standard error of the differences within each seed"
    d = losses_of(results, row) - losses_of(results, base)
    return d.mean(), d.std(ddof=1) / sqrt(len(d))

def test_whole_seeds():
    results = made_up({}, range(3), ['base', 'A1']) + made_up({}, range(5, 7), ['base'])
    assert whole_seeds(results, ['base', 'A1']) == [0, 1, 2]
    assert whole_seeds(results[:-2], ['base']) == [0, 1, 2]
    assert whole_seeds(results, ['base']) == [0, 1, 2, 5, 6]
    assert whole_seeds(results, ['base', 'E']) == []

FAILURES = dict(skipped=1), dict(valid_loss=5.), dict(valid_loss=nan)

@pytest.mark.parametrize('failure', FAILURES)
def test_a_row_with_a_failed_run_diverges(quick, failure):
    results = made_up({'D-ls0': 0.5})
    next(r for r in results if r['row'] == 'D-ls0').update(failure)
    found, gone = judge_rows(results)
    assert gone == ['D-ls0'] and set(found) == set(TABLE) - {'base'}
    assert found['D-ls0'].verdict() == 'diverges'
    others = compare_rows([r for r in results if r['row'] != 'D-ls0'])
    assert found['A1'] == others['A1']
    assert beside_paper(found['D-ls0'], 'diverges', -0.05) == 'undecided'
    next(r for r in results if r['row'] == 'base').update(failure)
    with pytest.raises(AssertionError, match='nothing to compare with'): judge_rows(results)

def test_nothing_failed(quick):
    results = made_up({'E': 0.03}, measure='gap')
    for r in results: r['valid_loss'] = 4.99
    found, gone = judge_rows(results, 'gap')
    assert gone == [] and abs(found['E'].mean - 0.03) < 0.03

WORSE, SURELY = Difference(.04, .01, .07, .05), Difference(.09, .06, .12, .05)
BETTER, SURELY_BETTER = Difference(-.04, -.07, -.01, .05), Difference(-.09, -.12, -.06, .05)
LARGE = Difference(.06, .01, .11, .05) # in the mean, but not surely
LOW = Difference(-.02, -.045, .009, .05) # not found better, and not as much as worse
EQUAL, OPEN = Difference(0., -.008, .008, .01), Difference(.04, -.02, .1, .1)

@pytest.mark.parametrize('d, effect, says', [
    (WORSE, .01, 'agrees'), (WORSE, .009, 'undecided'), (WORSE, -.009, 'undecided'),
    (WORSE, -.01, 'disagrees'), (LARGE, 0., 'undecided'), (LOW, .02, 'disagrees'),
    (LOW, -.02, 'undecided'), (LOW, 0., 'undecided'),
    (SURELY, 0., 'disagrees'), (SURELY, .2, 'agrees'),
    (BETTER, -.01, 'agrees'), (BETTER, 0., 'undecided'), (BETTER, .01, 'disagrees'),
    (SURELY_BETTER, 0., 'disagrees'), (EQUAL, .009, 'agrees'), (EQUAL, .01, 'disagrees'),
    (EQUAL, -.009, 'agrees'), (EQUAL, .051, 'disagrees'), (EQUAL, -.051, 'disagrees'),
    (OPEN, 0., 'undecided'), (OPEN, .2, 'undecided'), (OPEN, -.2, 'undecided')])
def test_beside_the_paper(d, effect, says):
    assert beside_paper(d, d.verdict(), effect) == says
    word = 'depends on the learning rate'
    assert beside_paper(d, word, effect) == 'undecided'

def test_words():
    words = [d.verdict() for d in (WORSE, SURELY, BETTER, EQUAL, OPEN)]
    assert words == ['worse', 'worse', 'better', 'equal', 'no difference found']
    assert Difference(.01, .005, .02, .1).verdict() == 'worse' # small, but above 0

@pytest.mark.parametrize('word, d, says', [
    ('worse', WORSE, 'confirmed'), ('worse', BETTER, 'contradicted'),
    ('worse', EQUAL, 'not confirmed'), ('worse', OPEN, 'not confirmed'),
    ('better', BETTER, 'confirmed'), ('better', WORSE, 'contradicted'),
    ('better', OPEN, 'not confirmed')])
def test_a_verdict_asked_again(word, d, says):
    assert confirmation(word, d) == says

RATED = [*TABLE, *RATES]

def test_best_rates():
    effects = dict.fromkeys(RATES, .1) | {'A2': -.1, 'A8@2': -.1}
    effects |= {'base@2': -.3, 'A1@0.5': -.2}
    results = made_up(effects, range(4), RATED, s=0.)
    for r in results:
        if r['row'] == 'A16@2': r['valid_loss'] = nan if r['seed'] == 1 else 0.1
        if r['row'] == 'E' and r['seed'] == 0: r['valid_loss'] = nan
        if r['row'] == 'E@2': r['valid_loss'] -= 50*(r['seed'] == 3) # is not looked at
        if r['row'] == 'A8@2': r['valid_loss'] += .6*(r['seed'] == 0) # the mean decides
    best = best_rates(results)
    assert set(best) == set(TABLE)
    rates = {row: rate for row, (_, rate) in best.items()}
    special = dict(base=2, A1=0.5, E=0.5)
    assert rates == dict.fromkeys(TABLE, 1) | special
    mean = np.mean([2.9 + 0.03*np.sin(seed) for seed in range(3)])
    assert abs(best['base'][0] - (mean - .3)) < 1e-9
    assert abs(best['A2'][0] - (mean - .1)) < 1e-9

@pytest.mark.parametrize('word, loss, says', [
    ('worse', 3., 'worse'), ('worse', 2.7, ''), ('worse', 2.8, ''),
    ('better', 2.7, 'better'),
    ('better', 3., ''), ('equal', 3., 'equal'), ('equal', 2.7, 'equal'),
    ('no difference found', 2.7, 'no difference found')])
def test_after_rates(word, loss, says):
    best = dict(base=(2.8, 1), E=(loss, 2))
    assert after_rates(word, 'E', best) == (says or 'depends on the learning rate')

def test_heads():
    "Chosen on five seeds, judged on five others"
    results = made_up({'A1': .1, 'A16': -.1, 'A8': -.05})
    for r in results: # later, the chosen row is bad, and another would be chosen
        if r['row'] == 'A8' and r['seed'] >= 5: r['valid_loss'] += .2
        if r['row'] in ('A1', 'A16') and r['seed'] < 5: r['valid_loss'] += 9
    results += made_up({'A1': 9}, range(10, 13))
    chosen, found = judge_heads(results)
    assert chosen == 'A8' and set(found) == {'A1', 'A16'}
    later = [r for r in results if 5 <= r['seed'] < 10]
    for row, d in found.items():
        mean, error = paired(later, row, 'A8')
        assert abs(d.mean - mean) < 1e-9
        assert abs((d.mean - d.low) / error - t_quantile(0.975, 4)) < 0.02
    for best in ('A2', 'base'):
        results = made_up({best: -.1})
        assert judge_heads(results)[0] == best

LADDER_OF = {'d_k': [4, 8, 16], 'N': [1, 2, 3, 4], 'd_model': [32, 64, 128],
             'd_ff': [128, 256, 512]}

def test_slopes():
    "Least squares through the means of the rows, with luck estimated from all rows"
    true = {'B4': .04, 'B8': .02, 'C-N1': .3, 'C-d32': .2, 'C-d128': -.2, 'C-ff512': -.01}
    results = made_up(true)
    y = np.array([losses_of(results, row) for row in TABLE])
    left = y - y.mean(1, keepdims=True) - y.mean(0) + y.mean()
    free = 19*9
    s = sqrt(np.square(left).sum() / free)
    for name, ladder in LADDERS.items():
        assert list(ladder.values()) == LADDER_OF[name]
        found = _slope(results, ladder)
        x = np.log2(LADDER_OF[name])
        means = [losses_of(results, row).mean() for row in ladder]
        assert abs(found.mean - np.polyfit(x, means, 1)[0]) < 1e-9
        error = s / sqrt(10 * np.square(x - x.mean()).sum())
        assert abs(found.high - found.mean - t_quantile(0.975, free)*error) < 1e-9
        assert abs(found.high + found.low - 2*found.mean) < 1e-9
        assert abs(found.p - t_p_value(found.mean/error, free)) < 1e-9
        critical = t_quantile(1 - 0.05/4/2, free)
        assert abs(found.detectable - (critical + t_quantile(0.8, free))*error) < 1e-9
    exact = made_up(true, s=1e-6)
    assert abs(_slope(exact, LADDERS['d_k']).mean + .02) < 1e-5
    assert abs(_slope(exact, LADDERS['d_model']).mean + .2) < 1e-5

def test_trends_are_corrected_for_their_number():
    results, given = made_up({}, range(2)), iter([.01, .04, .03, .005])
    def slope(*_): return Slope(-1., -2., 0., next(given), 1.)
    with mock.patch.object(chapter, '_slope', slope):
        found = trends(results)
    assert list(found) == list(LADDERS)
    assert_close([s.p for s in found.values()], [.03, .06, .06, .02])

def test_a_trend_with_a_failed_training():
    results = made_up({'C-N1': .1})
    next(r for r in results if r['row'] == 'C-N1')['skipped'] = 2
    with mock.patch.object(chapter, '_slope', wraps=_slope) as made: trends(results)
    rows_of = [{r['row'] for r in call.args[0]} for call in made.call_args_list]
    sound = set(TABLE) - {'C-N1'}
    assert rows_of == [sound, set(LADDERS['N']), sound, sound]

@pytest.mark.parametrize('slopes, says', [
    ([(-.1, .01)], 'agrees'), ([(-.1, .05)], 'agrees'), ([(-.1, .051)], 'undecided'),
    ([(.1, .01)], 'disagrees'), ([(.1, .06)], 'undecided'),
    ([(-.1, .01)]*3, 'agrees'), ([(-.1, .01), (-.1, .2), (-.1, .01)], 'undecided'),
    ([(-.1, .01), (.1, .2), (-.1, .01)], 'undecided'),
    ([(-.1, .01), (.1, .02), (-.1, .3)], 'disagrees')])
def test_direction(slopes, says):
    assert direction([Slope(mean, mean, mean, p, 1.) for mean, p in slopes]) == says

# The cells that read the results, on files that are made up

CHAPTER = RESULTS.parent.parent/'18_variations.ipynb'
READING = (
    '3816b348', '82ebb717', 'v18pap1', 'v18both', 'v18pap3', 'results0', 'b58e15d7',
    'v18tab', '9babe303', '3b929438', '1305eb09', 'v18left', '19fcc0e6', 'v18pfig',
    '60a88707', '952a3c6d', 'v18ptab', 'v18best', '6e50f566', 'e9c36fc0', 'b7c87d74',
    '4d4a5a3e', 'ffc56411', 'v18rtab')

PAPER = { # what the paper found, in nats beside base; effects within 0.01 are equal
    'A1': .073, 'A2': .016, 'A16': .018, 'B4': .048, 'B8': .018, 'C-N1': .217, 'C-N2': .053,
    'C-N4': 0., 'C-d32': .156, 'C-d128': -.054, 'C-ff128': .04, 'C-ff512': -.035,
    'D-drop0': .159, 'D-drop0.2': 0., 'D-ls0': -.052, 'D-ls0.2': .106, 'big': -.128}

def a_file(effects, n_seeds=10, n_base=13, n_rates=3, s=.003):
    "What the runs would write"
    every = {row: effects.get(row.partition('@')[0], 0.) for row in ROWS} | effects
    jobs = made_up(every, range(n_seeds), s=s)
    jobs += made_up(every, range(n_seeds, n_base), ['base'], s=s)
    jobs += made_up(every, range(n_rates), RATES, s=s)
    about = dict(settings='x', parameters=1000, steps=700, epochs=12, bleu=20.,
                 signature='s', hardware='h', torch='t', python='p', commit='c')
    for r in jobs:
        drops_nothing = r['row'].startswith('D-drop0') and '0.2' not in r['row']
        r |= about | dict(train_loss=r['valid_loss'] - (2. if drops_nothing else 1.),
                          ppl=exp(r['valid_loss']))
    return jobs

def at_twice(lines):
    "The rows of chapter 20's controls, with the losses that they have at the rate 1"
    losses = {(r['row'], r['seed']): r['valid_loss'] for r in lines}
    n = sum(row == 'A1' for row, _ in losses)
    return [dict(row=f'{row}@2', seed=seed, valid_loss=losses[row, seed % n])
            for row in ('base', 'A1', 'D-ls0') for seed in range(3, 10)]

@pytest.fixture
def read_chapter(tmp_path, monkeypatch, capsys, quick):
    "What the reading cells print of some runs"
    monkeypatch.chdir(tmp_path)
    cells = read_notebook(CHAPTER)['cells']
    sources = {cell['id']: ''.join(cell['source']) for cell in cells}
    def read(lines, controls=None):
        (tmp_path/'results').mkdir(exist_ok=True)
        files = dict(variations_ten=lines, controls=controls or at_twice(lines),
                     since_2017_rates=[])
        for name, stored in files.items():
            text = ''.join(json.dumps(line) + '\n' for line in stored)
            (tmp_path/f'results/{name}.jsonl').write_text(text, encoding='utf8')
        capsys.readouterr()
        names = dict(vars(chapter))
        for name in READING: exec(sources[name], names)
        pyplot.close('all')
        return capsys.readouterr().out
    return read

def claims(text):
    found = re.findall(r'^(C\d\d)[^:\n]*: (\w+)(.*)$', text, re.M)
    return {claim: word for claim, word, _ in found}, [rest for *_, rest in found]

CLAIMS = ('C55', 'C56', 'C57', 'C58', 'C50', 'C37')

def test_reading_what_the_paper_found(read_chapter):
    text = read_chapter(a_file(PAPER))
    assert '323 of 323 runs; whole seeds: 10 of 10; rows that diverged: none\n' in text
    assert 'preliminary' not in text and 'so far' not in text and 'No verdict' not in text
    words, rest = claims(text)
    assert words == dict.fromkeys(CLAIMS, 'agrees') and set(rest) == {''}
    assert re.search(r'^A8 .* equal: agrees$', text, re.M)
    assert re.search(r'^C-N4 .* -0.008  equal: agrees$', text, re.M)
    assert re.search(r'^D-drop0 +rate × \S+ +\+0\.1\d\d  worse$', text, re.M)
    assert re.search(r'^chosen: (A8 \(8|base \(4|A2 \(2) heads\)$', text, re.M)
    assert not re.search('disagrees|undecided|depends', text)

def test_reading_the_opposite(read_chapter):
    text = read_chapter(a_file({row: -d for row, d in PAPER.items()} | {'E': .1}))
    words, _ = claims(text)
    assert words == dict.fromkeys(CLAIMS, 'disagrees')
    assert re.search(r'^A1 .* better: disagrees$', text, re.M)
    assert re.search(r'^E .* worse: disagrees$', text, re.M)
    assert 'agrees' in text and not re.search(': agrees', text.partition('C55')[0][:200])

def test_reading_half_of_a_claim(read_chapter):
    "One head is as good; keys turn the other way; d_ff does nothing; D-ls0 as in the paper"
    halves = {'A1': 0., 'B4': -.05, 'B8': -.02, 'D-ls0.2': -.1}
    halves |= {'C-ff128': 0., 'C-ff512': 0.}
    words, _ = claims(read_chapter(a_file(PAPER | halves)))
    expected = dict.fromkeys(CLAIMS, 'agrees') | {'C56': 'disagrees'}
    assert words == expected | {'C55': 'undecided', 'C57': 'undecided'}

def test_reading_much_luck(read_chapter):
    text = read_chapter(a_file(PAPER, s=.6) )
    words, _ = claims(text)
    assert words == dict.fromkeys(CLAIMS, 'undecided')
    unfound = r'no difference found, at most \d\.\d{3}: undecided$'
    assert len(re.findall(unfound, text, re.M)) == 19

def test_reading_equal_rows(read_chapter):
    text = read_chapter(a_file({}))
    words, _ = claims(text)
    assert words['C37'] == 'agrees' and words['C50'] == words['C58'] == 'disagrees'
    assert words['C55'] == words['C57'] == 'undecided'
    assert re.search(r'^D-drop0 .* equal: disagrees$', text, re.M)
    assert re.search(r'^gap .*\]  wider$', text, re.M)

def test_reading_rates_that_turn_verdicts(read_chapter):
    turned = {'D-drop0@0.5': -.5, 'D-ls0@2': .4, 'E@2': -.4, 'base@2': -.2, 'big@0.5': -.9}
    text = read_chapter(a_file(PAPER | turned))
    words, _ = claims(text)
    word = 'depends on the learning rate'
    depends = set(re.findall(rf'^(\S+) .*  {word}: undecided$', text, re.M))
    assert {'D-ls0', 'C-d128'} <= depends and not depends & {'E', 'big', 'C-N1', 'A8'}
    assert 'D-drop0' in depends and words['C58'] == words['C50'] == 'undecided'
    assert words['C37'] == 'agrees' # equal has no sign
    assert re.search(r'^D-drop0 +rate × 0.5 .* depends on the learning rate$', text, re.M)

def test_reading_a_control_that_does_not_disagree(read_chapter):
    opposite = a_file({row: -d for row, d in PAPER.items()})
    text = read_chapter(opposite, at_twice(a_file(PAPER)))
    words, rest = claims(text)
    assert 'C50: depends on the learning rate' in text
    assert re.search(r'^A1 .* better: depends on the learning rate$', text, re.M)
    assert words['C58'] == 'disagrees' # which has no control

def test_reading_a_trend_that_turns_at_the_best_rates(read_chapter):
    text = read_chapter(a_file(PAPER | {'C-ff128@2': -.5}))
    words, rest = claims(text)
    assert words['C57'] == 'agrees'
    assert ' for N and d_model and N from 2; for d_ff not at the best rates' in rest

def test_reading_a_gap_that_is_not_wider(read_chapter):
    lines = a_file(PAPER)
    for r in lines: r['train_loss'] = r['valid_loss'] - 1
    text = read_chapter(lines)
    assert claims(text)[0]['C58'] == 'undecided'
    assert re.search(r'^gap .* not wider$', text, re.M)

@pytest.mark.parametrize('n_seeds, n_base, n_rates, drop, whole', [
    (3, 10, 0, 0, 3), (6, 10, 0, 1, 5), (10, 13, 0, 0, 10), (10, 13, 2, 0, 10),
    (10, 12, 3, 0, 10), (9, 13, 3, 0, 9), (10, 13, 3, 1, 9)])
def test_reading_a_part(read_chapter, n_seeds, n_base, n_rates, drop, whole):
    lines = a_file(PAPER, n_seeds, n_base, n_rates)
    last = drop and ('big', n_seeds - 1)
    lines = [r for r in lines if (r['row'], r['seed']) != last]
    text = read_chapter(lines)
    assert f'{len(lines)} of 323 runs; whole seeds: {whole} of 10' in text
    assert 'The numbers below are preliminary.' in text
    assert ('No verdict has been checked at other' in text) == (n_rates < 3)
    assert ('C55 needs seeds 0 to 9' in text) == (whole < 10)
    words, rest = claims(text)
    assert set(words) == set(CLAIMS) and (words['C55'] == 'not') == (whole < 10)
    assert set(rest) - {' judged yet'} == {f', so far ({whole} of 10 seeds)'}
    assert ('These runs are still missing' in text) == (n_rates < 3)

def test_reading_whole_seeds_only(read_chapter):
    lines = a_file(PAPER, 4, 10, 0)
    extreme = [r | dict(valid_loss=4.) for r in lines if r['seed'] == 3]
    lines = [r for r in lines if r['seed'] != 3] + extreme[:-1]
    text = read_chapter(lines)
    assert 'whole seeds: 3 of 10' in text
    shorter = read_chapter(a_file(PAPER, 3, 10, 0))
    assert text.partition('\n')[2] == shorter.partition('\n')[2]

def test_reading_too_little(read_chapter):
    with pytest.raises(AssertionError): read_chapter(a_file(PAPER, 2, 10, 0))

def test_reading_a_failed_training(read_chapter):
    lines = a_file(PAPER)
    failed = [r for r in lines if (r['row'], r['seed']) in (('D-ls0', 4), ('E@2', 1))]
    for r in failed: r['skipped'] = 3
    text = read_chapter(lines)
    assert 'rows that diverged: D-ls0\n' in text
    assert 'failed runs: D-ls0, seed 4 E@2, seed 1\n' in text
    wanted = dict.fromkeys(CLAIMS, 'agrees') | dict(C50='undecided')
    assert claims(text)[0] == wanted

def test_ten_seeds_are_of_one_code(multi30k_dir, tmp_path):
    "Of this table, of one commit, and of the settings that the rows have today"
    results = read_results(TEN)
    jobs = [(r['row'], r['seed']) for r in results]
    allowed = {(row, seed) for row in TABLE for seed in range(10)}
    allowed |= {('base', seed) for seed in range(13)}
    allowed |= {(row, seed) for row in RATES for seed in range(3)}
    assert len(set(jobs)) == len(jobs) and set(jobs) <= allowed
    [commit] = {r['commit'] for r in results}
    assert len(commit) >= 7 and int(commit, 16)
    assert {r['steps'] for r in results} == {N_STEPS}
    copy = tmp_path/'x.jsonl'
    copy.write_bytes(TEN.read_bytes())
    done = run('--rows', 'base', '--seeds', 10, '--data_dir', multi30k_dir, '--out', copy)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')
