"""Chapter 17 beyond its own proofs: sweeps against oracles, and the three measures on cases whose answer is known."""
import gc
import pytest, torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from transformer_nb.attention import scaled_dot_product_attention
from transformer_nb.layer_types import (Convolution, PeakMemory, Recurrent, RestrictedAttention, longest_chain, path_length,
                                        window_attention)
from transformer_nb.multihead import MultiHeadAttention

few = settings(max_examples=25, deadline=None)

def band(n, width):
    i = torch.arange(n)
    return (i[:, None] - i).abs() <= width//2

@few
@given(b=st.integers(1, 3), n=st.integers(1, 20), d_k=st.integers(1, 6), d_v=st.integers(1, 6), side=st.integers(0, 12))
def test_window_is_a_band(b, n, d_k, d_v, side):
    q, k, v = (torch.randn(b, 2, n, d, dtype=torch.float64, requires_grad=True) for d in (d_k, d_k, d_v))
    ours = window_attention(q, k, v, 2*side + 1)
    theirs, _ = scaled_dot_product_attention(q, k, v, band(n, 2*side + 1))
    assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    for a, b in zip(*(torch.autograd.grad(y.square().sum(), (q, k, v)) for y in (ours, theirs))):
        assert_close(a, b, rtol=1e-9, atol=1e-9)

def test_wide_window_is_full_attention():
    full, window = MultiHeadAttention(8, 2, 4, 4).double(), RestrictedAttention(8, 2, 4, 4, width=21).double()
    window.load_state_dict(full.state_dict())
    x = torch.randn(2, 11, 8, dtype=torch.float64)
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
    assert largest_tensor(lambda: window_attention(q, k, v, r)) <= r*n*d < n*n
    assert largest_tensor(lambda: scaled_dot_product_attention(q, k, v, band(n, r))) >= n*n
    with PeakMemory() as memory: window_attention(q, k, v, r)
    assert memory.peak < 4*n*n

@few
@given(n=st.integers(1, 20), d=st.integers(1, 6), width=st.integers(1, 5), dilation=st.integers(1, 6))
def test_convolution(n, d, width, dilation):
    layer, x = Convolution(d, width, dilation).double(), torch.randn(2, n, d, dtype=torch.float64, requires_grad=True)
    padded = F.pad(x.mT, ((width - 1)*dilation, 0))
    theirs = F.conv1d(padded, layer.taps.permute(2, 1, 0), layer.bias, dilation=dilation).mT
    assert_close(layer(x), theirs, rtol=1e-10, atol=1e-10)
    for a, b in zip(*(torch.autograd.grad(y.square().sum(), (x, *layer.parameters())) for y in (layer(x), theirs))):
        assert_close(a, b, rtol=1e-9, atol=1e-9)

def test_convolution_is_causal():
    layer, x = Convolution(4, 3, dilation=2), torch.randn(1, 9, 4)
    other = x.clone()
    other[:, 5:] = 7.
    assert torch.equal(layer(x)[:, :5], layer(other)[:, :5])

@pytest.mark.parametrize('cell, oracle', [(nn.RNNCell, nn.RNN), (nn.GRUCell, nn.GRU), (nn.LSTMCell, nn.LSTM)])
@pytest.mark.parametrize('n', [1, 2, 17])
def test_recurrent(cell, oracle, n):
    layer, theirs = Recurrent(6, cell).double(), oracle(6, 6, batch_first=True).double()
    theirs.load_state_dict({f'{name}_l0': weight for name, weight in layer.cell.state_dict().items()})
    x = torch.randn(3, n, 6, dtype=torch.float64)
    assert_close(layer(x), theirs(x)[0], rtol=1e-12, atol=1e-12)

def test_longest_chain():
    x, W = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    assert longest_chain(x + 1) == 0
    assert longest_chain(x @ W) == 1
    assert longest_chain(x @ W + W @ x) == 1            # side by side
    assert longest_chain((x @ W) @ (W @ x)) == 2
    y = x
    for _ in range(3000): y = (y @ W).tanh()            # far deeper than Python may recurse
    assert longest_chain(y + x @ W) == 3000
    assert longest_chain(y, only='Tanh') == 3000
    assert longest_chain(y, only='') >= 6000

def search(edges, n):
    "The same as `path_length`, one position after the other, with sets"
    longest = 0
    for start in range(n):
        heard, steps = {start}, 0
        while (more := heard | {i for i in range(n) if any(edges(steps)[i, j] for j in heard)}) != heard:
            heard, steps = more, steps + 1
        longest = max(longest, steps)
    return longest

@few
@given(n=st.integers(2, 9), seed=st.integers(0, 10**6), density=st.floats(0.05, 0.6))
def test_path_length_of_any_graph(n, seed, density):
    generator = torch.Generator().manual_seed(seed)
    reads = (torch.rand(n, n, generator=generator) < density) | torch.eye(n, dtype=torch.bool)
    if (reads == torch.eye(n, dtype=torch.bool)).all(): reads[0, 1] = True # nobody to hear from: no path at all
    assert path_length(lambda step: reads) == search(lambda step: reads, n)

def test_peak_memory():
    with PeakMemory() as memory:
        a = torch.zeros(1000)
        for _ in range(5): b = a + 1                        # the old one is dropped when the new one stands
        assert (memory.held, memory.peak) == (8000, 12000)
        c = b[10:].view(9, 110)                             # a view costs nothing
        del a, b
        gc.collect()
        assert memory.held == 4000                          # and keeps alive what it looks at
        del c
    assert memory.held == 0

def test_peak_memory_counts_no_inputs():
    x, layer = torch.randn(1, 64, 16), nn.Linear(16, 16)
    with PeakMemory() as memory, torch.no_grad(): layer(x).view(-1)
    assert memory.peak == 4*64*16

def test_peak_memory_sees_the_backward_pass():
    x = torch.randn(1000, requires_grad=True)
    with PeakMemory() as memory: x.exp().sum().backward()
    assert memory.peak >= 2*4000 and memory.held == 4000    # the gradient of x remains
