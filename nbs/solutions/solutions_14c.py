"Solutions of the exercises of chapter 14c."

def plain_and_recorded(shapes):
    """Exercise 2.

    The first step of each shape is plain, the second is recorded. A shape that comes once
    in the epoch is never recorded.
    """
    often = {shape for shape in shapes if shapes.count(shape) > 1}
    return len(set(shapes)), len(often)

def slope(z, y, label_smoothing):
    """Exercise 3.

    Whoever expects a term for the mean of the logits finds it in ε/v, which is the same
    for all entries.
    """
    gradient = z.softmax(-1) - label_smoothing / len(z)
    gradient[y] -= 1 - label_smoothing
    return gradient
