"""Chapter 17 beyond its own proofs: sweeps against oracles, and the three measures on cases
whose answer is known."""
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.attention import scaled_dot_product_attention
from running import definitions

chapter = definitions('17_layer_types')
Convolution, Recurrent = chapter.Convolution, chapter.Recurrent
longest_chain, path_length = chapter.longest_chain, chapter.path_length
window_attention = chapter.window_attention

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
