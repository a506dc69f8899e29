"Solutions of the exercises of chapter 19, each with the check that the chapter makes."
import pytest

def shortest_time(operations, P, B):
    """Exercise 1. Each operation waits for the slower of its two needs.

    The sum of the longer times is at least the longer of the two sums: while one operation
    computes, memory rests, unless another operation runs at the same time.
    """
    return sum(max(flops / P, moved / B) for flops, moved in operations)

def speedup(p, k):
    """Exercise 2, Amdahl's law. What was 1 is now (1 - p) + p/k.

    With a part for nothing, 1/(1 - p).
    """
    return 1 / (1 - p + p/k)

@pytest.mark.parametrize('operations, P, B, seconds', [
    ([(100., 10.)], 100., 20., 1.),
    ([(100., 10.)], 100., 5., 2.),
    ([(100., 0.), (0., 20.)], 100., 20., 2.),
    ([], 1., 1., 0.)])
def test_shortest_time(operations, P, B, seconds):
    assert shortest_time(operations, P, B) == pytest.approx(seconds)
    computing = sum(flops for flops, _ in operations) / P
    moving = sum(moved for _, moved in operations) / B
    assert shortest_time(operations, P, B) >= max(computing, moving)

@pytest.mark.parametrize('p, k, times', [
    (0.5, 2, 4/3),
    (0.1, float('inf'), 1/0.9),
    (0.3, 1, 1),
    (1., 8, 8)])
def test_speedup(p, k, times):
    assert speedup(p, k) == pytest.approx(times)
