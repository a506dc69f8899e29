"""Optional: byte-pair encoding (§5.1), here on characters

Begin with words cut into characters. Again and again, join the most frequent pair of
neighbours into one symbol. The joins, in this order, are the merges.
"""

def learn_bpe(
    words: dict[str, int],        # how often each word occurs, at least once
    n_merges: int,                # fewer where no pairs are left
) -> list[tuple[str, str]]:       # the pairs that are joined, in order
    """A pair counts as often as it occurs in all words together: in "aaa", (a, a) occurs twice,
    though only one of them can be joined. Of several equally frequent pairs, join the first in
    the order of Python's `<`. Join every occurrence in a word, from left to right."""
    raise NotImplementedError

def apply_bpe(
    word: str,
    merges: list[tuple[str, str]],
) -> list[str]:  # the symbols of the word after all merges, one merge after the other
    raise NotImplementedError
