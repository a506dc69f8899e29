"""Chapter 17 beyond its own proofs: sweeps against oracles, and the three measures on cases
whose answer is known."""
import gc, json, re
from functools import cache, partial
from math import gamma, pi
from pathlib import Path
import pytest, torch
from book import read_notebook
from hypothesis import given, settings, strategies as st
from matplotlib import pyplot
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.attention import scaled_dot_product_attention
from transformer_nb.support.core import InputError, set_seed
from running import definitions
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.studies import layer_types
from transformer_nb.studies.layer_types import (
    Convolution, DeepReader, PeakMemory, Recurrent, RestrictedAttention, dose_path,
    dose_rates, dose_rows, draw_key, far_places, longest_chain, path_length, train_path,
    window_attention)
import train_paths as protocol
from runs import read_results, run_in_processes
from train_paths import train_paths

chapter = definitions('17_layer_types')
from_chapter = [getattr(chapter, name) for name in (
    'can_fit', 'compare_paths', 'dose_scores', 'dose_verdict', 'fit_censored',
    'judged_paths', 'mostly_learned', 'path_exponent', 'path_line', 'path_verdict')]
(can_fit, compare_paths, dose_scores, dose_verdict, fit_censored, judged_paths,
 mostly_learned, path_exponent, path_line, path_verdict) = from_chapter

few = settings(max_examples=25, deadline=None)

def randn64(*size):
    return torch.randn(*size, dtype=torch.float64, requires_grad=True)

def same_gradients(ours, theirs, inputs):
    "Both outputs send the same gradients back to the inputs"
    found = [torch.autograd.grad(y.square().sum(), inputs) for y in (ours, theirs)]
    assert_close(*found, rtol=1e-9, atol=1e-9)

def band(n, width):
    i = torch.arange(n)
    return (i[:, None] - i).abs() <= width//2

sizes = st.integers(1, 6)

@few
@given(b=st.integers(1, 3), n=st.integers(1, 20), d_k=sizes, d_v=sizes,
       side=st.integers(0, 12))
@pytest.mark.smoke
def test_window_is_a_band(b, n, d_k, d_v, side):
    width = 2*side + 1
    q, k, v = (randn64(b, 2, n, d) for d in (d_k, d_k, d_v))
    ours = window_attention(q, k, v, width)
    theirs, _ = scaled_dot_product_attention(q, k, v, band(n, width))
    assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    same_gradients(ours, theirs, (q, k, v))

def test_wide_window_is_full_attention():
    full = MultiHeadAttention(8, 2, 4, 4).double()
    window = RestrictedAttention(8, 2, 4, 4, width=21).double()
    window.load_state_dict(full.state_dict())
    x = randn64(2, 11, 8)
    assert_close(window(x), full(x), rtol=1e-12, atol=1e-12)

def largest_tensor(run):
    "Numbers in the largest tensor that autograd keeps, views counted by their storage"
    sizes = []
    def note(x):
        sizes.append(x.untyped_storage().nbytes() // x.element_size())
        return x
    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x): run()
    return max(sizes)

def test_window_never_forms_all_scores():
    n, d, r = 512, 4, 5
    q, k, v = (torch.randn(1, n, d, requires_grad=True) for _ in range(3))
    in_window = largest_tensor(lambda: window_attention(q, k, v, r))
    in_full = largest_tensor(lambda: scaled_dot_product_attention(q, k, v, band(n, r)))
    assert in_window <= r*n*d < n*n <= in_full
    with PeakMemory() as memory: window_attention(q, k, v, r)
    assert memory.peak < 4*n*n

@few
@given(n=st.integers(1, 20), d=sizes, width=st.integers(1, 5), dilation=sizes)
def test_convolution(n, d, width, dilation):
    layer = Convolution(d, width, dilation).double()
    x = randn64(2, n, d)
    ours = layer(x)
    padded = F.pad(x.mT, ((width - 1)*dilation, 0))
    kernel = layer.taps.permute(2, 1, 0)
    theirs = F.conv1d(padded, kernel, layer.bias, dilation=dilation).mT
    assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    same_gradients(ours, theirs, (x, *layer.parameters()))

def test_convolution_begins_as_pytorch_s_does():
    "Of `width` inputs each: uniform within 1/√(width·d), as `nn.Conv1d` draws them"
    set_seed(0)
    ours, theirs = Convolution(40, 4), nn.Conv1d(40, 40, 4)
    for taps in (ours.taps, theirs.weight):
        largest, spread = taps.abs().max().item(), taps.std().item()
        assert largest == pytest.approx(1 / 160**0.5, rel=1e-2)
        assert spread == pytest.approx(1 / 480**0.5, rel=1e-2)

def test_convolution_is_causal():
    layer, x = Convolution(4, 3, dilation=2), torch.randn(1, 9, 4)
    other = x.clone()
    other[:, 5:] = 7.
    assert torch.equal(layer(x)[:, :5], layer(other)[:, :5])

cells = [(nn.RNNCell, nn.RNN), (nn.GRUCell, nn.GRU), (nn.LSTMCell, nn.LSTM)]

@pytest.mark.parametrize('cell, oracle', cells)
@pytest.mark.parametrize('n', [1, 2, 17])
def test_recurrent(cell, oracle, n):
    layer = Recurrent(6, cell).double()
    theirs = oracle(6, 6, batch_first=True).double()
    state = layer.cell.state_dict()
    theirs.load_state_dict({f'{name}_l0': weight for name, weight in state.items()})
    x = randn64(3, n, 6)
    assert_close(layer(x), theirs(x)[0], rtol=1e-12, atol=1e-12)

def test_longest_chain():
    x, W = torch.randn(2, 3, 3, requires_grad=True)
    assert longest_chain(x + 1) == 0
    assert longest_chain(x @ W) == 1
    assert longest_chain(x @ W + W @ x) == 1            # side by side
    assert longest_chain((x @ W) @ (W @ x)) == 2
    y = x
    for _ in range(3000): y = (y @ W).tanh()            # far deeper than Python may recurse
    assert longest_chain(y + x @ W) == 3000
    assert longest_chain(y, only='Tanh') == 3000
    assert longest_chain(y, only='') >= 6000

def steps_from(start, edges, n):
    "Until the position hears nothing new, with sets"
    heard, steps = {start}, 0
    while True:
        reads = edges(steps)
        new = {i for i in range(n) if any(reads[i, j] for j in heard)}
        if new <= heard: return steps
        heard, steps = heard | new, steps + 1

@few
@given(n=st.integers(2, 9), seed=st.integers(0, 10**6), density=st.floats(0.05, 0.6))
def test_path_length_of_any_graph(n, seed, density):
    generator = torch.Generator().manual_seed(seed)
    itself = torch.eye(n, dtype=torch.bool)
    reads = (torch.rand(n, n, generator=generator) < density) | itself
    if torch.equal(reads, itself): reads[0, 1] = True # nobody to hear from: no path at all
    def edges(step): return reads
    assert path_length(edges) == max(steps_from(start, edges, n) for start in range(n))

def test_peak_memory():
    with PeakMemory() as memory:
        a = torch.zeros(1000)
        for _ in range(5): b = a + 1     # the old one is dropped when the new one stands
        assert (memory.held, memory.peak) == (8000, 12000)
        c = b[10:].view(9, 110)          # a view costs nothing
        del a, b
        gc.collect()
        assert memory.held == 4000       # and keeps alive what it looks at
        del c
    assert memory.held == 0

def test_peak_memory_counts_no_inputs():
    x, layer = torch.randn(1, 64, 16), nn.Linear(16, 16)
    with PeakMemory() as memory, torch.no_grad(): layer(x).view(-1)
    assert memory.peak == 4*64*16

def test_peak_memory_sees_the_backward_pass():
    x = torch.randn(1000, requires_grad=True)
    with PeakMemory() as memory: x.exp().sum().backward()
    assert memory.peak >= 2*4000
    assert memory.held == 4000           # the gradient of x remains

# The path as a dose: networks, trainings, and the rule that judges them

path_of = cache(dose_path)
ATTENTION = [(distance, row) for distance in (8, 32, 128)
             for row in layer_types.dose_rows(distance)[:4]]

def reach(taps, dilations):
    "The positions back from which something can be heard, by sums"
    heard = {0}
    for dilation in dilations:
        heard = {place + tap*dilation for place in heard for tap in range(taps)}
    return heard

def dilated_layers(distance):
    "How many of the dilated layers hear all positions up to so far back"
    cycle = [1, 3, 9, 27, 81, 1, 3, 9]
    all_back = set(range(distance + 1))
    return next(i for i in range(9) if all_back <= reach(3, cycle[:i]))

@pytest.mark.parametrize('distance', [8, 32, 128])
def test_the_paths_of_the_doses(distance):
    paths = {row: dose_path(row, distance) for row in dose_rows(distance)}
    assert list(paths.values())[:4] == [1, 2, 4, 8]
    assert paths['dilated, k = 3'] == dilated_layers(distance)
    recurrent = {'GRU': distance, 'RNN': distance} if distance < 128 else {}
    assert {row: paths.get(row) for row in recurrent} == recurrent
    assert len(paths) == 5 + len(recurrent)
    for row in list(paths)[1:4]: # exactly as far as eight layers, and all that are farther
        width = int(row.removeprefix('r = '))
        assert paths[row] == -(-distance // (width//2))
    for near in range(far_places(distance), distance + 1):
        assert all(dose_path(row, near) == paths[row] for row in dose_rows(distance)[:5])

def test_the_path_where_the_dilations_begin_again():
    assert dose_path('dilated, k = 3', 250) == dilated_layers(250) == 7

@pytest.mark.parametrize('distance', [8, 32, 128])
def test_far_places_are_an_eighth(distance):
    eighths = [(place - 1)*8 // distance for place in range(1, distance + 1)]
    assert eighths.index(7) + 1 == far_places(distance)
    assert eighths.count(7) == distance//8

@pytest.mark.parametrize('distance, nearest', [(8, 1), (8, 8), (32, 29), (128, 1)])
def test_draw_key(distance, nearest):
    draw = partial(draw_key, 4000, distance, nearest=nearest)
    ids, keys = draw(torch.Generator().manual_seed(1))
    assert ids.shape == (4000, distance + 1) and (ids[:, -1] == 16).all()
    is_key = ids[:, :-1] < 8
    before = ids[:, :-1]
    assert (is_key.sum(1) == 1).all() and torch.equal(before[is_key], keys)
    filler = before[~is_key]
    if len(filler): assert filler.min() >= 8 and filler.max() < 16
    places = distance - is_key.int().argmax(1) # positions before the question
    allowed = list(range(nearest, distance + 1))
    assert places.unique().tolist() == allowed and len(keys.unique()) == 8
    counts = torch.stack([(places == place).sum() for place in allowed]).double()
    expected = 4000 / len(allowed)
    assert (counts - expected).abs().max() < 5*expected**0.5
    again, other = (draw(torch.Generator().manual_seed(seed))[0] for seed in (1, 2))
    assert torch.equal(ids, again) and not torch.equal(ids, other)

def test_a_step_has_a_gradient_of_norm_1_at_most():
    set_seed(0)
    reader = DeepReader('whole')
    with torch.no_grad(): reader.answer.weight.mul_(100)
    ids, keys = draw_key(8, 5, torch.Generator().manual_seed(0))
    layer_types._take_step(reader, torch.optim.SGD(reader.parameters(), lr=0.), ids, keys)
    norms = [p.grad.norm() for p in reader.parameters() if p.grad is not None]
    assert torch.stack(norms).norm().item() == pytest.approx(1, rel=1e-4)

def test_windows_begin_with_the_same_weights():
    states = []
    for row in ('whole', 'r = 9', 'r = 5', 'r = 3'):
        torch.manual_seed(4)
        states.append(DeepReader(row).state_dict())
    for other in states[1:]:
        assert list(other) == list(states[0])
        assert all(torch.equal(other[name], x) for name, x in states[0].items())

def depends_on(reader, n):
    "From how far back a position moves the answer at the last one"
    ids, x = torch.zeros(1, n, dtype=torch.long), []
    def keep(module, args, output):
        x.append(output.detach().requires_grad_())
        return x[0]
    with reader.positions.register_forward_hook(keep): logits = reader(ids)
    [gradient] = torch.autograd.grad(logits.square().sum(), x)
    [moved] = gradient[0].abs().sum(-1).nonzero(as_tuple=True)
    return (n - 1 - moved).tolist()

@pytest.mark.parametrize('row, back', [
    ('whole', 39), ('r = 9', 32), ('r = 3', 8), ('GRU', 39), ('RNN', 39),
    ('dilated, k = 3', 39)])
def test_how_far_eight_layers_look_back(row, back):
    torch.manual_seed(0)
    reader = DeepReader(row).double()
    assert len(reader.layers) == len(reader.norms) == 8
    assert sorted(depends_on(reader, 40)) == list(range(back + 1))

def test_the_dilations_begin_again():
    reader = DeepReader('dilated, k = 3')
    dilations = [layer.starts for layer in reader.layers]
    assert dilations == [[0, d, 2*d] for d in (1, 3, 9, 27, 81, 1, 3, 9)]

def knows(places):
    "Logits of a reader that finds keys at most so many places back, and else says 0"
    def answer(ids):
        shown = ids.clone()
        shown[:, :max(ids.shape[1] - 1 - places, 0)] = 8
        is_key = shown < 8
        return F.one_hot((shown*is_key).sum(1), 8).float()
    return answer

def test_accuracy_by_place():
    generator = torch.Generator().manual_seed(0)
    found = layer_types._by_place(knows(20), 32, generator) # 20 places: five eighths
    assert found[:5] == [1.]*5 and max(found[5:]) < 0.35
    assert layer_types._by_place(knows(32), 32, generator) == [1.]*8
    ids, keys = draw_key(64, 8, generator)
    share = (keys == 0).float().mean().item()
    def says_0(ids): return F.one_hot(ids[:, -1] - 16, 8)
    assert layer_types._accuracy(says_0, ids, keys) == share

@pytest.fixture
def scripted(monkeypatch):
    "A training whose checks come out as written; what it drew is noted"
    def train(checks, cap, distance=32, seed=7):
        script, drawn, steps = iter(checks), [], []
        def draw(b, distance, generator, nearest=1):
            drawn.append((b, nearest, generator.initial_seed()))
            return draw_key(b, distance, generator, nearest)
        monkeypatch.setattr(layer_types, 'draw_key', draw)
        monkeypatch.setattr(layer_types, '_accuracy', lambda *args: next(script))
        monkeypatch.setattr(layer_types, '_take_step', lambda *args: steps.append(1))
        reader = nn.Linear(1, 1)
        found = layer_types._learn(reader, distance, 1e-3, seed, cap)
        return *found, drawn, len(steps)
    return train

@pytest.mark.parametrize('checks, learned', [
    ([.95, .95, .95], 5), ([.5, .9, .9, .9], 10), ([.9, .9, .89, .9, .9, .9], 20),
    ([.95, .5, .95, .95, .5, .95], None)])
def test_learned_means_three_good_checks_in_a_row(scripted, checks, learned):
    steps, seen, drawn, n = scripted(checks, 5*len(checks))
    assert steps == learned and seen == checks and n == 5*len(checks)
    training = [(b, nearest) for b, nearest, _ in drawn if b == 16]
    checking = [(b, nearest) for b, nearest, _ in drawn if b == 64]
    assert training == [(16, 1)]*n and checking == [(64, 29)]*len(checks)
    assert len({seed for b, _, seed in drawn if b == 16}) == 1
    assert len({seed for *_, seed in drawn}) == 2 # checks have a generator of their own

def test_a_training_ends_at_its_cap(scripted):
    steps, seen, _, n = scripted([.95]*9, 12) # checks after 5 and 10 steps
    assert (steps, seen, n) == (None, [.95, .95], 12)

def test_one_training_says_what_it_measured():
    found = train_path('r = 5', 8, 3e-3, seed=100, cap=5)
    assert found['steps'] is None and found['cap'] == 5 and found['path'] == 4
    assert found['finite'] and len(found['by_place']) == 8
    assert found['parameters'] == 19_424 and {'commit', 'hardware', 'torch'} <= set(found)
    assert 0 <= found['accuracy'] <= 1 and found['curve'] == []
    same = train_path('r = 5', 8, 3e-3, seed=100, cap=5)
    for changing in ('seconds', 'commit', 'hardware'): found[changing] = same[changing]
    assert same == found

def a_result(row='whole', distance=8, rate=1e-3, steps=None, places=0.5, seed=0, cap=3000):
    return dict(row=row, distance=distance, rate=rate, steps=steps, by_place=[places]*8,
                seed=seed, cap=cap, path=path_of(row, distance))

def test_the_rate_with_the_fewest_steps():
    def arm(row, steps, **options):
        return [a_result(row, rate=rate, steps=n, **options)
                for rate, taken in steps.items() for n in taken]
    geometric = {1e-3: [10, 1000], 3e-3: [110, 110]} # of the first, 100; its mean is 505
    assert dose_rates(arm('whole', geometric)) == {('whole', 8): 1e-3}
    censored = {1e-2: [2999, 2999], 3e-3: [None, 100], 1e-3: [None, None]}
    assert dose_rates(arm('whole', censored)) == {('whole', 8): 3e-3}
    two = arm('GRU', {1e-2: [50], 3e-3: [60]}) + arm('RNN', {1e-2: [60], 3e-3: [50]})
    assert dose_rates(two) == {('GRU', 8): 1e-2, ('RNN', 8): 3e-3}
    tie = arm('RNN', {1e-2: [None], 3e-3: [None]}, places=0.5)
    tie += arm('RNN', {1e-3: [None]}, places=0.2)
    assert dose_rates(tie) == {('RNN', 8): 3e-3}      # the better of equals, then the lower
    assert dose_rates(tie[::-1]) == {('RNN', 8): 3e-3}

@pytest.fixture
def quick(monkeypatch):
    "Trainings that only note that they were made; seeds that choose take the middle rate"
    made = []
    def train(row, distance, rate, seed, cap):
        made.append((seed, distance, row, rate))
        steps = 500 if seed >= 3 else 100 if rate == 3e-3 else 200
        result = a_result(row, distance, steps=steps, cap=cap)
        for name in ('row', 'distance', 'rate', 'seed'): del result[name]
        return result
    monkeypatch.setattr(protocol, 'train_path', train)
    return made

def test_trainings_go_seed_by_seed(quick, tmp_path, capsys):
    out = tmp_path/'paths.jsonl'
    found = train_paths(out, processes=0)
    assert len(found) == len(quick) == 361 and read_results(out) == found
    assert [key[0] for key in quick] == sorted(key[0] for key in quick)
    assert {key[3] for key in quick[:171]} == {1e-3, 3e-3, 1e-2}
    assert {key[3] for key in quick[171:]} == {3e-3}
    judged = {(r['seed'], r['distance'], r['row']) for r in found if r['seed'] >= 3}
    assert len(judged) == 190 and {seed for seed, *_ in judged} == set(range(3, 13))
    assert train_paths(out, processes=0) == found and len(quick) == 361
    assert capsys.readouterr().out.count('\n') == 361

@pytest.mark.parametrize('made', [30, 100]) # while seeds choose, and while they are judged
def test_trainings_go_on_after_a_kill(quick, tmp_path, monkeypatch, made):
    whole = train_paths(tmp_path/'whole.jsonl', (8,), processes=0)
    train, out = protocol.train_path, tmp_path/'cut.jsonl'
    def killed(*args):
        if len(quick) == n + made: raise KeyboardInterrupt
        return train(*args)
    n = len(quick)
    monkeypatch.setattr(protocol, 'train_path', killed)
    with pytest.raises(KeyboardInterrupt): train_paths(out, (8,), processes=0)
    assert read_results(out) == whole[:made]
    monkeypatch.setattr(protocol, 'train_path', train)
    assert train_paths(out, (8,), processes=0) == whole
    assert len(quick) == 2*n == 2*7*(9 + 10)

def test_other_settings_are_refused(quick, tmp_path):
    out = tmp_path/'paths.jsonl'
    train_paths(out, (8,), range(1), range(0), processes=0, cap=10)
    with pytest.raises(InputError, match='row whole was run with other settings'):
        train_paths(out, (8,), range(1), range(0), processes=0, cap=20)
    assert len(quick) == 21

@pytest.mark.slow
def test_processes_train_the_same(copies):
    keys = [(100, 8, row, 3e-3) for row in ('whole', 'r = 3')]
    jobs = {key: (key[2], key[1], key[3], key[0], 5) for key in keys}
    runs = [dict(run_in_processes(train_path, jobs, processes)) for processes in (0, 2)]
    for key in keys:
        here, there = (run[key] for run in runs)
        assert here['by_place'] == there['by_place']
        assert here['accuracy'] == there['accuracy'] and there['threads'] == 1

def test_only_complete_seeds_are_judged():
    rows = dose_rows(8)
    choosing = [a_result(row, seed=0, rate=rate) for row in rows for rate in (1e-3, 3e-3)]
    third = [a_result(row, seed=3) for row in rows]
    part = [a_result(row, seed=4) for row in rows[:-1]]
    assert judged_paths(choosing + third + part) == third
    assert judged_paths(part + third) == third
    assert judged_paths(choosing + part) == [] and judged_paths(choosing) == []
    assert judged_paths([]) == []

def attention_seed(seed, steps):
    "Results of a seed at distance 8, for paths 1, 2, 4, 8"
    rows = dose_rows(8)[:4]
    return [a_result(row, steps=n, seed=seed) for row, n in zip(rows, steps)]

@pytest.mark.parametrize('steps, score', [
    ([10, 20, 30, 40], 1), ([40, 30, 20, 10], -1), ([10, 10, 10, 10], 0),
    ([10, 20, None, None], 5/6), ([None]*4, 0), ([None, 10, 20, 30], 0),
    ([10, 30, 20, 30], 3/6)])
def test_scores(steps, score):
    found = attention_seed(3, steps)
    others = [a_result('GRU', steps=1, seed=3), a_result('dilated, k = 3', steps=1, seed=3)]
    assert_close(dose_scores(found + others), [float(score)])
    assert_close(dose_scores((found + others)[::-1]), [float(score)])

def test_a_score_for_each_seed_over_all_distances():
    found = attention_seed(3, [10, 20, 30, 40]) + attention_seed(4, [40, 30, 20, 10])
    far = [a_result('whole', 32, steps=9, seed=3), a_result('r = 9', 32, steps=9, seed=3)]
    assert_close(dose_scores(found + far), [6/7, -1.])

def t_share(t, df, n=20_000):
    "Share of Student's t with df degrees of freedom below t, by the middle of small steps"
    x = (torch.arange(n, dtype=torch.float64) + 0.5) * t/n
    density = (1 + x**2/df)**(-(df + 1)/2)
    constant = gamma((df + 1)/2) / (gamma(df/2)*(df*pi)**0.5)
    return 0.5 + constant*(density.sum()*t/n).item()

@pytest.mark.parametrize('n', range(5, 11))
def test_the_interval_is_that_of_t(n):
    scores = [0.1*i for i in range(n)]
    word, mean, low, high = dose_verdict(scores)
    assert_close(mean, sum(scores)/n)
    error = torch.tensor(scores, dtype=torch.float64).std().item() / n**0.5
    t = (high - low)/(2*error)
    assert_close(t_share(t, n - 1), 0.975, atol=2e-5, rtol=0)
    assert_close((low + high)/2, mean)
    assert word == 'agrees'

def test_the_words_of_the_dose():
    shifts = {0.9: 'agrees', 0.1: 'undecided', -0.1: 'undecided', -0.9: 'disagrees'}
    for shift, says in shifts.items():
        assert dose_verdict([shift + 0.1*x for x in (-2, -1, 0, 1, 2)])[0] == says
    assert dose_verdict([1., 1., 1., 1.])[0] == 'not judged'

def a_law(n=60, censor=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=generator, dtype=torch.float64)
    group = torch.arange(n) % 2
    x = torch.stack([group == 0, group == 1, torch.arange(n) % 4], 1).double()
    y = x @ torch.tensor([3., 4., 1.5], dtype=torch.float64) + 0.7*normal(n)
    censored = (y > 7) if censor else torch.zeros(n, dtype=torch.bool)
    return x, y.clamp(max=7) if censor else y, censored

def test_without_censoring_the_fit_is_least_squares():
    x, y, censored = a_law(censor=False)
    weights = torch.ones(1, len(y), dtype=y.dtype)
    expected = torch.linalg.lstsq(x, y).solution
    assert_close(fit_censored(x, y, censored, weights)[0], expected, rtol=1e-5, atol=1e-5)

def likeliest(x, y, censored, weights):
    "The same maximum, found by another method on the plain form of the likelihood"
    start = torch.cat([torch.linalg.lstsq(x, y).solution, torch.zeros(1, dtype=y.dtype)])
    free = start.requires_grad_()
    optimizer = torch.optim.LBFGS([free], max_iter=500, line_search_fn='strong_wolfe',
                                  tolerance_grad=1e-10, tolerance_change=1e-14)
    def closure():
        optimizer.zero_grad()
        z = (y - x @ free[:-1]) / free[-1].exp()
        learned = -z**2/2 - free[-1]
        likelihood = torch.where(censored, torch.special.log_ndtr(-z), learned)
        loss = -(weights*likelihood).sum()
        loss.backward()
        return loss
    optimizer.step(closure)
    return free[:-1].detach()

@pytest.mark.parametrize('seed', range(3))
def test_the_censored_fit_is_the_likeliest(seed):
    x, y, censored = a_law(seed=seed)
    assert 10 < censored.sum() < 50
    times = torch.randint(0, 4, (2, len(y)), generator=torch.Generator().manual_seed(seed))
    weights = torch.cat([torch.ones(1, len(y)), times]).double()
    found = fit_censored(x, y, censored, weights)
    for row, each in zip(found, weights):
        assert_close(row, likeliest(x, y, censored, each), rtol=1e-4, atol=1e-4)

def test_newton_needs_few_steps():
    x, y, censored = a_law()
    one = torch.ones(1, len(y), dtype=y.dtype)
    few, many = (fit_censored(x, y, censored, one, iterations=n) for n in (7, 50))
    assert_close(few, many, rtol=1e-9, atol=1e-9)

def test_censored_steps_are_not_taken_for_learned():
    x, y, censored = a_law()
    one = torch.ones(1, len(y), dtype=y.dtype)
    b = fit_censored(x, y, censored, one)[0, -1]
    naive = fit_censored(x, y, torch.zeros_like(censored), one)[0, -1]
    assert naive < 1.2 < b < 1.9 # the law has 1.5

def test_far_too_few_steps_leave_the_fit_finite():
    x, y, _ = a_law()
    censored = x[:, 1] == 1 # a whole distance
    weights = torch.ones(2, len(y), dtype=y.dtype)
    weights[1, censored] = 0 # a draw that has nothing of it
    assert fit_censored(x, y, censored, weights).isfinite().all()

def laws_of_seeds(slopes):
    "Each seed follows a line of its own, exactly"
    found = []
    for seed, b in enumerate(slopes, 3):
        for distance, row in ATTENTION:
            path = path_of(row, distance)
            found.append(a_result(row, distance, steps=50*distance*path**b, seed=seed))
    return found

def test_the_interval_is_over_seeds():
    slopes = torch.tensor([0.5, 1.1, 1.0, 1.6, 0.9, 1.2], dtype=torch.float64)
    results = laws_of_seeds(slopes.tolist())
    gru = [a_result('GRU', steps=1, seed=seed) for seed in range(3, 9)]
    b, low, high = path_exponent(results + gru)
    assert_close(b, slopes.mean().item(), rtol=1e-5, atol=1e-5)
    generator = torch.Generator().manual_seed(0)
    drawn = slopes[torch.randint(6, (2000, 6), generator=generator)].mean(1)
    expected = drawn.quantile(torch.tensor([0.025, 0.975], dtype=drawn.dtype))
    assert_close([low, high], expected.tolist(), rtol=1e-4, atol=1e-4)

def test_the_line_of_the_paths():
    a, b = path_line(laws_of_seeds([1., 2.]) + [a_result('RNN', steps=1, seed=3)])
    assert_close(b, 1.5, rtol=1e-5, atol=1e-5)
    assert list(a) == [8, 32, 128]
    starts = [2**start for start in a.values()]
    assert_close(starts, [400., 1600., 6400.], rtol=1e-4, atol=0)

def test_when_a_law_can_be_fitted():
    learned = attention_seed(3, [10, 9, None, None])
    not_learned = attention_seed(4, [10, None, None, None])
    assert can_fit(learned) and can_fit(learned + not_learned)
    assert not can_fit(not_learned) and not can_fit([])
    assert not can_fit(learned + 2*not_learned)      # one of three
    recurrent = [a_result('GRU', steps=5), a_result('whole', steps=5)]
    assert not can_fit(recurrent)                    # the line is through attention
    apart = [a_result('whole', 8, steps=5), a_result('whole', 32, steps=5)]
    assert not can_fit(apart)                        # two windows, but at two distances
    rows = {r['row'] for r in mostly_learned(learned + not_learned)}
    assert rows == {'whole', 'r = 9'} and mostly_learned(not_learned[1:]) == []

def arm_of(row, steps, distance=8):
    return [a_result(row, distance, steps=n, seed=seed) for seed, n in enumerate(steps, 3)]

def test_what_a_pair_says():
    fast, slow = range(10, 20), range(110, 120)
    results = arm_of('whole', slow) + arm_of('r = 9', fast) + arm_of('r = 3', [None]*10)
    results += arm_of('GRU', fast) + arm_of('dilated, k = 3', range(11, 21))
    results += arm_of('whole', fast, 32)             # has nobody to be compared with
    pairs = compare_paths(results)
    says = {frozenset(p['rows']): p['word'] for p in pairs}
    assert len(pairs) == len(says) == 10
    assert says[frozenset(('whole', 'r = 9'))] == 'opposes'
    assert says[frozenset(('r = 9', 'r = 3'))] == 'supports'
    assert says[frozenset(('r = 3', 'GRU'))] == 'differs'
    assert says[frozenset(('r = 9', 'dilated, k = 3'))] == 'open'
    assert says[frozenset(('r = 9', 'GRU'))] == 'open'
    for p in pairs:
        short, long = p['paths']
        assert short <= long and p['corrected'] >= p['p']
        assert [path_of(row, 8) for row in p['rows']] == [short, long]
    [pair] = [p for p in pairs if set(p['rows']) == {'whole', 'r = 9'}]
    assert pair['rows'] == ('whole', 'r = 9') and pair['share'] == 0.

def test_fifty_two_pairs_and_chance():
    "Ten seeds of noise: Holm's correction leaves hardly a pair"
    generator = torch.Generator().manual_seed(0)
    results = []
    for distance in (8, 32, 128):
        for row in dose_rows(distance):
            steps = torch.randint(50, 5000, (10,), generator=generator).tolist()
            results += arm_of(row, [n if n <= 3000 else None for n in steps], distance)
    pairs = compare_paths(results)
    assert len(pairs) == 52 and {p['word'] for p in pairs} == {'open'}
    assert min(p['p'] for p in pairs) < 0.05         # uncorrected, there would be one

@pytest.mark.parametrize('word, pairs, says', [
    ('agrees', ['supports', 'open', 'differs'], 'agrees'),
    ('agrees', ['supports', 'opposes'],
     'agrees within a kind of layer, not as a law for all kinds'),
    ('undecided', ['opposes'], 'undecided'), ('disagrees', ['opposes'], 'disagrees'),
    ('not judged', [], 'not judged')])
def test_the_verdict(word, pairs, says):
    assert path_verdict(word, [dict(word=pair) for pair in pairs]) == says

# The cells that read the results, on files that are made up

CHAPTER = Path(__file__).parent.parent/'nbs/17_layer_types.ipynb'
READING = ('p17dose7', 'p17read1', 'p17read2', 'p17read4', 'p17det1', 'p17det3', 'p17det5',
           'p17det7')

def a_file(n_judged, law=lambda path: 12*path**1.2):
    "What the trainings would write, if steps followed a law"
    generator = torch.Generator().manual_seed(0)
    arms = [(distance, row) for distance in (8, 32, 128) for row in dose_rows(distance)]
    lines = []
    def train(seed, distance, row, rate):
        luck = 2**(0.3*torch.randn((), generator=generator).item())
        steps = round(law(path_of(row, distance)) * luck * (1 if rate == 3e-3 else 1.8))
        result = a_result(row, distance, rate, steps if steps <= 3000 else None, seed=seed)
        return result | dict(settings='s', commit='abc1234', finite=True)
    for seed in range(3):
        lines += [train(seed, *arm, rate) for arm in arms for rate in (1e-3, 3e-3, 1e-2)]
    for seed in range(3, 3 + n_judged): lines += [train(seed, *arm, 3e-3) for arm in arms]
    return lines

@pytest.fixture
def read_chapter(tmp_path, monkeypatch, capsys):
    "What the reading cells print of some trainings"
    monkeypatch.chdir(tmp_path)
    cells = read_notebook(CHAPTER)['cells']
    sources = {cell['id']: ''.join(cell['source']) for cell in cells}
    def read(lines):
        (tmp_path/'results').mkdir(exist_ok=True)
        text = ''.join(json.dumps(line) + '\n' for line in lines)
        path = tmp_path/'results/path_lengths.jsonl'
        path.write_text(text, encoding='utf8')
        capsys.readouterr()
        names = dict(vars(chapter))
        exec(sources['6f41f279'], names)
        for name in READING: exec(sources[name], names)
        pyplot.close('all')
        return capsys.readouterr().out
    return read

def test_reading_all_seeds(read_chapter):
    text = read_chapter(a_file(10))
    assert '361 of 361 runs; complete seeds: 10 of 10' in text
    b = re.search(r'^slope b = (\S+), 95 % interval from (\S+) to (\S+)$', text, re.M)
    b, low, high = map(float, b.groups())
    assert low < 1.2 < high and high - low < 0.2 and low <= b <= high
    assert '10 seeds: agrees' in text and 'steps grow faster than the path' in text
    assert re.search(r'^C62: agrees$', text, re.M)
    assert 'the exceptions, pairs that oppose: 0' in text

def test_reading_exceptions(read_chapter):
    lines = a_file(10)
    for r in lines: # the GRU learns at once; windows of 33 never learn at 128
        if r['row'] == 'GRU': r['steps'] = 5 + r['seed']
        if (r['row'], r['distance']) == ('r = 33', 128): r['steps'] = None
    for r in lines:
        if r['row'] == 'GRU' and r['seed'] < 3: r['steps'] += r['rate'] != 3e-3
        if (r['row'], r['distance']) == ('r = 33', 128) and r['rate'] == 3e-3:
            r['by_place'] = [0.6]*8
    text = read_chapter(lines)
    assert 'C62: agrees within a kind of layer, not as a law for all kinds' in text
    assert re.search(r'^ +32 back: GRU \(path 32\) before r = 9 \(path 8\), 100%: opposes$',
                     text, re.M)
    assert re.search(r'^ +8 back: GRU \(path 8\) before RNN \(path 8\), 100%: differs$',
                     text, re.M)
    assert re.search(r'^ +128  r = 33 +8  0.003 +0/10  >3000  >3000 – >3000 +≥', text, re.M)

@pytest.mark.parametrize('n_judged, drop, complete', [(4, 0, 4), (6, 1, 5), (3, 0, 3)])
def test_reading_a_part(read_chapter, n_judged, drop, complete):
    lines = a_file(n_judged)
    lines = lines[:len(lines) - drop]
    text = read_chapter(lines)
    assert f'{len(lines)} of 361 runs; complete seeds: {complete} of 10' in text
    assert ('nothing is judged' in text) == (complete < 5) != ('C62' in text)
    assert ('no pair can be significant' in text) == (complete == 5)

def test_reading_the_first_lines(read_chapter):
    text = read_chapter(a_file(0)[:40])
    assert '40 of 361 runs; complete seeds: 0 of 10' in text
    assert 'nothing is judged' in text

def test_reading_no_file(read_chapter):
    text = read_chapter([])
    assert 'no runs yet' in text and 'nothing is judged' in text

@pytest.mark.parametrize('name, value', [
    ('rate', 1e-2), ('path', 3), ('cap', 150), ('commit', '1234567')])
def test_reading_other_trainings_fails(read_chapter, name, value):
    lines = a_file(5)
    lines[-1][name] = value
    with pytest.raises(AssertionError): read_chapter(lines)
