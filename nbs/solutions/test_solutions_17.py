"""Solutions of the exercises of chapter 17, each with the check that the chapter makes."""
import pytest, torch
from torch.profiler import ProfilerActivity, profile
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode
from running import definitions

chapter = definitions('17_layer_types')
Recurrent, longest_chain = chapter.Recurrent, chapter.longest_chain
path_length = chapter.path_length

def meeting_length(g, d):
    """Exercise 1. 8nd² + 4n²d = 4gnd² gives 8d + 4n = 4gd, so n = (g - 2)·d.

    With g = 1, and with g = 2, this is not a length: attention costs more than such a cell
    from the first position on.
    """
    return (g - 2)*d if g > 2 else None

def square_edges(n, r):
    """Exercise 2. The band, and the first row and the first column.

    From anyone to the square and from the square to anyone: two steps, whatever n is. A
    layer computes r scores for each position, n more in the first row and n in the first
    column: about (r + 2)·n.
    """
    i = torch.arange(n)
    reads = (i[:, None] - i).abs() <= r//2
    reads[0], reads[:, 0] = True, True
    return lambda step: reads

def recurrent_hoisted(layer, x):
    """Exercise 3. One product for all inputs, then the loop over what is left.

    The state before the first position is zero. Its product is computed all the same, as
    the cell computes it.
    """
    cell = layer.cell
    inputs = x @ cell.weight_ih.T + cell.bias_ih + cell.bias_hh # (b, n, d)
    h, states = torch.zeros_like(x[:, 0]), []
    for inputs_t in inputs.unbind(1):
        h = torch.tanh(inputs_t + h @ cell.weight_hh.T)
        states.append(h)
    return torch.stack(states, 1)

@pytest.mark.parametrize('d', [8, 16, 512])
def test_meeting_length(d):
    def attention(n): return 8*n*d**2 + 4*n**2*d
    def cell(g, n): return 4*g*n*d**2
    for g in (3, 4, 7):
        n = meeting_length(g, d)
        assert attention(n) == cell(g, n)
        assert attention(n - 1) < cell(g, n - 1)
        assert attention(n + 1) > cell(g, n + 1)
    for g in (1, 2):
        assert meeting_length(g, d) is None
        assert all(attention(n) > cell(g, n) for n in range(1, 4*d))

@pytest.mark.parametrize('n, r', [(9, 3), (64, 3), (200, 3), (200, 17)])
def test_square(n, r):
    assert path_length(square_edges(n, r)) == 2
    assert square_edges(n, r)(0).sum() < (r + 2)*n

@pytest.mark.parametrize('n', [1, 2, 12])
def test_hoisted(n):
    layer = Recurrent(8).double()
    x = torch.randn(2, n, 8, dtype=torch.float64, requires_grad=True)
    inputs = [x, *layer.parameters()]
    ours, theirs = recurrent_hoisted(layer, x), layer(x)
    assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    our_gradients = torch.autograd.grad(ours.square().sum(), inputs)
    their_gradients = torch.autograd.grad(theirs.square().sum(), inputs)
    assert_close(our_gradients, their_gradients, rtol=1e-12, atol=1e-12)

def count_flops(form, x):
    with FlopCounterMode(display=False) as counter, torch.no_grad(): form(x)
    return counter.get_total_flops()

def count_products(form, x):
    with profile(activities=[ProfilerActivity.CPU]) as seen, torch.no_grad(): form(x)
    products = 'aten::mm', 'aten::addmm', 'aten::bmm'
    return sum(event.name in products for event in seen.events())

def test_hoisted_costs_the_same_in_fewer_products():
    layer, x, n = Recurrent(8), torch.randn(2, 12, 8), 12
    def hoisted(x): return recurrent_hoisted(layer, x)
    assert count_flops(hoisted, x) == count_flops(layer, x) == 2*4*n*8**2
    assert longest_chain(hoisted(x)) == longest_chain(layer(x)) == n
    assert count_products(hoisted, x) == n + 1
