"Solutions of the exercises of chapter 19."

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
