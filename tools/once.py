"What takes seconds and comes out the same each time, done once in a process."
from functools import cache, wraps
from transformer_nb.lessons import grammar

def keep_mini_corpus():
    "Let `mini_corpus` draw its 23,500 pairs once; to be called before others import it"
    if hasattr(grammar.mini_corpus, '__wrapped__'): return
    drawn = cache(grammar.mini_corpus)
    @wraps(grammar.mini_corpus)
    def mini_corpus(*sizes, **more):
        return {split: list(pairs) for split, pairs in drawn(*sizes, **more).items()}
    grammar.mini_corpus = mini_corpus
