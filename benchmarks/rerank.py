"""Does the reverse model choose better among the eight best translations?

    python benchmarks/rerank.py  # prints JSON; needs TRANSFORMER_NB_DATA

The rule, committed before the first run. Sources are 500 validation sentences of Tatoeba,
evenly spaced, from English to German, and the shipped everyday models in both directions.
The forward model writes eight candidates with a beam of eight. A candidate gets its own
score, divided by the length penalty as in the search, plus LAMBDA times the mean
log-probability per token of the source under the reverse model. LAMBDA is the one of
0, 0.25, 0.5, 1 and 2 with the highest BLEU on the even 250 sentences. It is compared with
the first candidate on the odd 250, by chapter 14's randomization test. *Better* is said
if p is below 0.05, else *no difference was found*. One run, one direction, no repetition.
"""
import json
from transformer_nb.commands import score_pairs
from transformer_nb.corpora import load_corpus
from transformer_nb.evaluation import paired_test, score
from transformer_nb.translation import Translator

LAMBDAS = 0, 0.25, 0.5, 1, 2

def candidates(sources): # of each source: text and score, the best first
    forward = Translator('everyday-en-de', 'cpu', beam_size=8)
    return [[(x.text, x.score) for x in found] for found in forward.candidates(sources, 8)]

def of_the_source(sources, found): # its mean log-probability for each candidate
    reverse = Translator('everyday-de-en', 'cpu')
    pairs = [(text, source) for source, texts in zip(sources, found) for text, _ in texts]
    scores, _ = score_pairs(reverse, pairs)
    means = [sum(scores[i]) / len(scores[i]) if i in scores else float('-inf')
             for i in range(1, len(pairs) + 1)]
    return [[means.pop(0) for _ in texts] for texts in found]

def chosen(found, back, weight):
    best = []
    for texts, means in zip(found, back):
        totals = [score + (weight * mean if weight else 0)
                  for (_, score), mean in zip(texts, means)]
        best.append(texts[totals.index(max(totals))][0])
    return best

def main():
    valid = load_corpus('tatoeba', 'en', 'de')['valid']
    pairs = [valid[i * len(valid) // 500] for i in range(500)]
    sources, references = map(list, zip(*pairs))
    found = candidates(sources)
    back = of_the_source(sources, found)
    lists = {weight: chosen(found, back, weight) for weight in LAMBDAS}
    even = {weight: score(lines[::2], references[::2])['bleu']
            for weight, lines in lists.items()}
    weight = max(even, key=even.get)
    odd = paired_test(lists[0][1::2], lists[weight][1::2], references[1::2])
    changed = sum(a != b for a, b in zip(lists[0][1::2], lists[weight][1::2]))
    print(json.dumps(dict(even=even, weight=weight, changed=changed, odd=odd)))

if __name__ == '__main__': main()
