"""Solutions of the exercises of chapter 22."""

def cross(a, b): # two brackets (label, start, end)
    _, start, end = a
    _, other_start, other_end = b
    return start < other_start < end < other_end or other_start < start < other_end < end

def n_crossing(gold, output):
    """Exercise 1. Compare every bracket of the output with every one of gold.

    The example has none: its seventh bracket lies between two others. Nothing crosses the
    bracket of a flat tree, which holds all words.
    """
    wanted = brackets(gold)
    crossing = [bracket for bracket in brackets(output).elements()
                if any(cross(bracket, other) for other in wanted)]
    return len(crossing)

def next_kinds(tokens, n):
    """Exercise 2. Keep the labels that are open, and count the words.

    A bracket may open while a word is left for it. The innermost may close once it has a
    child; the root must wait for the last word. What remains possible are trees over the
    sentence that are wrong, and outputs that open brackets without end.
    """
    opened, n_words, has_child = [], 0, False
    for token in tokens:
        if token[0] == '(': opened.append(token[1:])
        elif token[0] == ')': opened.pop()
        else: n_words += 1
        has_child = token[0] != '('
    if not opened: return {'</s>'} if tokens else {'('}
    kinds = {'(', 'XX'} if n_words < n else set()
    may_end = len(opened) > 1 or n_words == n
    return kinds | {')' + opened[-1]} if has_child and may_end else kinds
