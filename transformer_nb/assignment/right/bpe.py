from collections import Counter

def merge(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out

def learn_bpe(words, n_merges):
    cut = {w: list(w) for w in words}
    merges = []
    for _ in range(n_merges):
        counts = Counter()
        for w, n in words.items():
            for pair in zip(cut[w][:-1], cut[w][1:]):
                counts[pair] += n
        if not counts:
            break
        most = max(counts.values())
        pair = min(p for p in counts if counts[p] == most)
        merges.append(pair)
        cut = {w: merge(s, pair) for w, s in cut.items()}
    return merges

def apply_bpe(word, merges):
    symbols = list(word)
    for pair in merges:
        symbols = merge(symbols, pair)
    return symbols
