"What is special about a case by what is right there, in words of the task"
from ast import literal_eval
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from .toys import PAD

def _true(features:dict)->set[str]: return {name for name, x in features.items() if x}
def _length(x)->int: return 0 if isinstance(x, str) else len(x) # of a list, as it is noted

def of_outputs(right, answer, model, ids, max_steps)->set[str]:
    lengths = {_length(x) for at, x in answer.items() if at.startswith('result')}
    return _true({'one output ends before another': len(lengths) > 1,
                  'an output is empty': 0 in lengths,
                  'an output ends before `max_steps`': min(lengths) < max_steps,
                  'several tokens come': max(lengths) > 1,
                  'more than <s> was begun': len(ids) == 1 < ids.size(1)})

def of_beam(right, answer, model, src, beam_size, alpha, max_steps)->set[str]:
    "By how many live hypotheses the right version asks about, step by step"
    live = Counter()
    model.limit(0)
    def decode(tgt, *rest):
        live[tgt.size(1)] += len(tgt)
        return model.decode(tgt, *rest)
    watched = SimpleNamespace(encode=model.encode, decode=decode)
    right(watched, src, beam_size, alpha, max_steps + 1)
    ended = [min(beam_size, n * min(beam_size, model.made[1])) - live[t + 1]
             for t, n in sorted(live.items()) if t < max(live)] # at the last: not known
    before, goes_on = sum(ended[:_length(answer['result[0]'])]), max(live) > max_steps
    return _true({'no hypothesis has ended after `max_steps`': goes_on and not sum(ended),
                  'some have ended after `max_steps`, and others go on': goes_on and sum(ended),
                  'others end before the best': before,
                  'as many as the beam end before the best': before >= beam_size,
                  'the source is padded': (src == PAD).any()})

def of_learning(right, answer, words, n_merges)->set[str]:
    merges, cut = literal_eval(answer['result']), {word: list(word) for word in words}
    said = _true({'a word occurs more than once': max(words.values(), default=0) > 1,
                  'a word has one character': 1 in map(len, words),
                  'no pairs are left before `n_merges`': len(merges) < n_merges})
    for pair in merges:
        counts = Counter()
        for word, symbols in cut.items():
            for p in pairwise(symbols): counts[p] += words[word]
        most = [p for p, n in counts.items() if n == counts[pair]] # as they are met
        said |= _true({
            'several pairs are the most frequent': len(most) > 1,
            'of the most frequent pairs, the first by `<` is not met first': most[0] != pair,
            'the most frequent pair occurs once': counts[pair] == 1})
        for word, symbols in cut.items(): cut[word] = _joined(right, symbols, pair, said)
    return said

def of_applying(right, answer, word, merges)->set[str]:
    said, symbols = set(), list(word)
    for pair in merges: symbols = _joined(right, symbols, pair, said)
    return said | _true({
        'the word has one character': len(word) == 1,
        'the word is empty': not word,
        'several merges fit at first': len({*pairwise(word)} & {*merges}) > 1,
        'an earlier merge fits again after a later one': {*pairwise(symbols)} & {*merges}})

def _joined(right, symbols:list, pair:tuple, said:set)->list:
    made = right.__globals__['merge'](symbols, pair)
    joins, pairs = len(symbols) - len(made), [*pairwise(symbols)]
    near = any(a.endswith(pair[0]) and b.startswith(pair[1]) for a, b in pairs if (a, b) != pair)
    said |= _true({
        'a pair occurs twice in a word': joins > 1,
        'a pair overlaps itself, as (a, a) in "aaa"': pairs.count(pair) > joins,
        'two symbols only end and begin like a pair': near,
        'a joined symbol is joined again': joins and max(map(len, pair)) > 1})
    return made
