"""Chapter 17 beyond its own proofs: sweeps against oracles, and the three measures on cases
whose answer is known."""
import gc
from functools import cache, partial
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.attention import scaled_dot_product_attention
from running import definitions
from transformer_nb.studies.layer_types import PeakMemory

chapter = definitions('17_layer_types')
(Convolution, DeepReader, Recurrent, dose_path, dose_rows, far_places,
 fit_censored, longest_chain, path_length, window_attention) = (
    getattr(chapter, name) for name in (
        'Convolution DeepReader Recurrent dose_path dose_rows far_places '
        'fit_censored longest_chain path_length window_attention').split())

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

# The path as a dose: networks, trainings, and the rule that judges them

path_of = cache(dose_path)
ATTENTION = [(distance, row) for distance in (8, 32, 128)
             for row in dose_rows(distance)[:4]]

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

