"""The verdicts of chapters 18, 20, 21 and 22 once more, by code that shares nothing with
the book: NumPy, SciPy, the stored results, and what `nbs/results/RULES.md` says.

    python tests/verdicts.py
"""
import json
from itertools import product
from pathlib import Path
import numpy as np
from scipy import stats

RESULTS = Path(__file__).parent.parent/'nbs'/'results'
PAPER = { # perplexities of its Table 3; its 8 heads are our 4, its d_k of 64 our 16
    'A1': 5.29, 'A2': 5.00, 'A8': 4.91, 'A16': 5.01, 'B4': 5.16, 'B8': 5.01, 'C-N1': 6.11,
    'C-N2': 5.19, 'C-N4': 4.88, 'C-d32': 5.75, 'C-d128': 4.66, 'C-ff128': 5.12,
    'C-ff512': 4.75, 'D-drop0': 5.77, 'D-drop0.2': 4.95, 'D-ls0': 4.67, 'D-ls0.2': 5.47,
    'E': 4.92, 'big': 4.33}
SINCE = ['pre-norm', 'rmsnorm', 'rotary', 'swiglu', 'gqa', 'mqa', 'no-bias', 'adamw',
         'qk-norm', 'together']

class Said(str):
    "A word, with the mean and the ends of the interval from which it comes"
    def __new__(cls, says, mean, half):
        said = super().__new__(cls, says)
        said.numbers = mean, mean - half, mean + half
        return said

def lines(name):
    return [json.loads(line) for line in (RESULTS/f'{name}.jsonl').open(encoding='utf8')]

def table(results, rows, seeds, measure='valid_loss', key='row'):
    "Seeds down, rows across; nothing may have diverged"
    found = {(r[key], r['seed']): r for r in results}
    runs = [[found[row, seed] for row in rows] for seed in seeds]
    assert all(r['skipped'] == 0 and r['valid_loss'] < 5 for row in runs for r in row)
    return np.array([[r[measure] for r in row] for row in runs])

def together(differences):
    "Means and half widths that hold for all rows at once, by Bonferroni"
    n, n_rows = differences.shape
    reach = stats.t.ppf(1 - 0.025/n_rows, n - 1)
    return differences.mean(0), reach * stats.sem(differences)

def word(mean, half): return Said(plain_word(mean, half), mean, half)

def plain_word(mean, half):
    if mean - half > 0: return 'worse'
    if mean + half < 0: return 'better'
    most = abs(mean) + half
    return 'equal' if most <= 0.01 else f'no difference found, at most {most:.3f}'

def words(differences, rows):
    return {row: word(*x) for row, *x in zip(rows, *together(differences))}

def beside(ours, low, high, effect):
    "Our word and interval beside the paper's effect"
    theirs = 'equal' if abs(effect) < 0.01 else 'worse' if effect > 0 else 'better'
    if ours == theirs: return 'agrees'
    if ours.startswith('depends'): return 'undecided'
    outside = dict(worse=high < 0.01, better=low > -0.01, equal=low > 0.01 or high < -0.01)
    return 'disagrees' if outside[theirs] else 'undecided'

def sign_stays(ours, row, results):
    "Its sign, with row and base at the best of three rates by seeds 0 to 2"
    def best(row):
        names = row, f'{row}@0.5', f'{row}@2'
        return table(results, names, range(3)).mean(0).min()
    is_worse = best(row) > best('base')
    stays = ours not in ('worse', 'better') or is_worse == (ours == 'worse')
    return ours if stays else 'depends on the learning rate'

def slopes(losses, rows):
    "Signs of the slopes per doubling of each size, of each seed; p by Holm"
    ladders = [['B4', 'B8', 'base'], ['C-N1', 'C-N2', 'base', 'C-N4'],
               ['C-d32', 'base', 'C-d128'], ['C-ff128', 'base', 'C-ff512']]
    sizes = [[4, 8, 16], [1, 2, 3, 4], [32, 64, 128], [128, 256, 512]]
    found = []
    for ladder, size in zip(ladders, sizes):
        x = np.log2(size) - np.log2(size).mean()
        of_seeds = losses[:, [rows.index(row) for row in ladder]] @ x / (x @ x)
        found.append((of_seeds.mean(), stats.ttest_1samp(of_seeds, 0).pvalue))
    ps = holm([p for _, p in found])
    return [np.sign(slope) * (p <= 0.05) for (slope, _), p in zip(found, ps)]

def holm(ps):
    order, corrected, largest = np.argsort(ps), np.zeros(len(ps)), 0
    for rank, i in enumerate(order):
        largest = max(largest, min(1, ps[i] * (len(ps) - rank)))
        corrected[i] = largest
    return corrected

def along(signs): # of slopes: is a larger model better?
    if 1 in signs: return 'disagrees'
    return 'agrees' if all(sign == -1 for sign in signs) else 'undecided'

def chapter_18():
    results = lines('variations_ten')
    rows = [*PAPER]
    losses = table(results, ['base', *rows], range(10))
    means, halves = together(losses[:, 1:] - losses[:, :1])
    says, ledger = {}, {}
    for row, mean, half in zip(rows, means, halves):
        ours = sign_stays(word(mean, half), row, results)
        effect = np.log(PAPER[row] / 4.92)
        ledger[row] = beside(ours, mean - half, mean + half, effect)
        says[row] = Said(f'{ours}: {ledger[row]}', mean, half)
    first, later = losses[:5].mean(0), losses[5:]
    at = dict(zip(['base', *rows], range(len(rows) + 1)))
    best = min(('A2', 'base', 'A8'), key=lambda row: first[at[row]])
    heads = {}
    for row in ('A1', 'A16'):
        heads |= words(later[:, [at[row]]] - later[:, [at[best]]], [row])
    says['C55'] = ('disagrees' if 'better' in heads.values() else
                   'agrees' if set(heads.values()) == {'worse'} else 'undecided')
    of_keys, *of_size = slopes(losses, ['base', *rows])
    says |= {'C56': along([of_keys]), 'C57': along(of_size)}
    says |= {f'{row} beside two': x for row, x in heads.items()}
    says |= at_other_rates(results)
    for row in ('A1', 'D-ls0'): says |= twice_again(row)
    gaps = losses - table(results, ['base', *rows], range(10), 'train_loss')
    gap = words(gaps[:, 1:] - gaps[:, :1], rows)['D-drop0']
    says['C58'] = ledger['D-drop0'] if gap == 'worse' else 'undecided'
    says |= {'C50': ledger['D-ls0'], 'C37': ledger['E']}
    return says | again_18(rows)

def twice(row, measure):
    runs = lines('controls') + lines('since_2017_rates')
    row, base = table(runs, (f'{row}@2', 'base@2'), range(3, 10), measure).T
    d = row - base
    return d.mean(), stats.t.ppf(1 - 0.0125, 6) * stats.sem(d)

def twice_again(row):
    "The same on the captions of its verdict, and on those that chose nothing"
    again = word(*twice(row, 'test_loss'))
    again = Said(confirmed('worse', again), *twice(row, 'test_loss'))
    first = word(*twice(row, 'valid_loss'))
    return {f'{row} at twice': first, f'{row} twice again': again}

def at_other_rates(results):
    "Slopes of three seeds at half and at twice the rate, by their own spread; no word"
    ladders = {'d_k': (['B4', 'B8', 'base'], [4, 8, 16]),
               'N from 2': (['C-N2', 'base', 'C-N4'], [2, 3, 4]),
               'd_ff': (['C-ff128', 'base', 'C-ff512'], [128, 256, 512])}
    says = {}
    for (name, (rows, sizes)), rate in product(ladders.items(), (0.5, 2)):
        x = np.log2(sizes) - np.log2(sizes).mean()
        losses = table(results, [f'{row}@{rate}' for row in rows], range(3))
        slope = losses @ x / (x @ x)
        half = stats.t.ppf(.975, 2) * stats.sem(slope)
        told = 'half' if rate == 0.5 else 'twice'
        says[f'{name} at {told} rate'] = Said('rate', slope.mean(), half)
    return says

def again_18(rows):
    "The mean of three further seeds on other captions; no word"
    results = lines('variations_test')
    rows = [row for row in rows if any(r['row'] == row for r in results)]
    losses = table(results, ['base', *rows], range(13, 16), 'test_loss')
    means = (losses[:, 1:] - losses[:, :1]).mean(0)
    return {f'{row} again': f'{100*np.expm1(mean):+.0f}%' for row, mean in zip(rows, means)}

def confirmed(before, now):
    if now == before: return 'confirmed'
    return 'contradicted' if now in ('worse', 'better') else 'not confirmed'

def chapter_20():
    losses = table(lines('since_2017'), ['base', *SINCE], range(10))
    says = words(losses[:, 1:] - losses[:, :1], SINCE)
    rates = lines('since_2017_rates') + lines('controls')
    chosen = {row: best_rate(row, rates) for row in ('base', *SINCE, 'muon')}
    losses = table(rates, chosen.values(), range(3, 10), 'test_loss')
    base, ten, adamw, muon = losses[:, :1], losses[:, 1:-1], losses[:, 8:9], losses[:, -1:]
    at_best = words(ten - base, SINCE) | words(muon - adamw, ['muon'])
    says |= {f'{row} at its best': x for row, x in at_best.items()}
    other = table(rates, chosen.values(), range(3, 10), 'valid_loss')
    of_other = words(other[:, 1:-1] - other[:, :1], SINCE)
    says |= {f'{row} on validation': x for row, x in of_other.items()}
    for rate in ('1', '1.4', '2'):
        base = table(rates, [f'base@{rate}'], range(3, 10), 'test_loss')
        better = [row for row, x in words(ten - base, SINCE).items() if x == 'better']
        says[f'base × {rate}'] = f"better: {' '.join(better)}"
    base, norm = table(lines('equal'), ['base', 'rmsnorm'], range(100, 190), 'test_loss').T
    half = stats.t.ppf(1 - 0.025, 89) * stats.sem(norm - base)
    return says | {'RMSNorm minus base': word((norm - base).mean(), half)}

def best_rate(row, results):
    names = {r['row'] for r in results if r['row'].startswith(f'{row}@')}
    return min(names, key=lambda name: table(results, [name], range(3)).mean())

def chapter_21():
    results = lines('families')
    names = [f'translate/{name}/1' for name in ('encoder-decoder', 'decoder', 'prefix')]
    both, alone, prefix = table(results, names, range(6)).T[:, :, None]
    rows = 'prefix − decoder', 'prefix − encoder-decoder'
    says = words(alone - both, ['decoder − encoder-decoder'])
    says |= words(np.hstack([prefix - alone, prefix - both]), rows)
    asked = lines('families_test')
    names = 'encoder-decoder', 'decoder', 'prefix'
    both, alone, prefix = table(asked, names, range(6, 10), 'test_loss', 'model').T
    pairs = ('decoder', .975, alone - both), ('prefix', .9875, prefix - both)
    for row, level, d in pairs:
        half = stats.t.ppf(level, 3) * stats.sem(d)
        now = confirmed('worse', word(d.mean(), half))
        says[f'{row} again'] = Said(now, d.mean(), half)
    return says | {'the right side': right_side(results)}

def right_side(results):
    "Does the encoder guess more hidden tokens? An interval over captions for each seed"
    runs = {(r['row'], r['seed']): r for r in results}
    rng, signs = np.random.default_rng(1), set()
    for seed in range(3):
        masks, captions = (runs[f'{row}/1', seed] for row in
                           ('masks/encoder', 'captions/decoder'))
        tokens = np.array(masks['tokens'])
        gained = np.array(masks['right']) - np.array(captions['right'])
        drawn = rng.integers(len(tokens), size=(10_000, len(tokens)))
        low, high = np.quantile(gained[drawn].sum(1) / tokens[drawn].sum(1), [.025, .975])
        signs.add(int(low > 0) - int(high < 0))
    return {(1,): 'better', (-1,): 'worse'}.get(tuple(signs), 'not resolved')

def chapter_22():
    f1 = {(r['row'], r['seed'], name): r[name]['f1'] for r in lines('parsing')
          for name in ('test', 'longer', 'deeper', 'both')}
    def of(share, name): return np.array([f1[share, seed, name] for seed in range(5)])
    low, high = stats.t.interval(0.95, 4, of('100%', 'test').mean(),
                                 stats.sem(of('100%', 'test')))
    ours = 'agrees' if low > 90 else 'disagrees' if high < 90 else 'undecided'
    says = {'C66': Said(ours, (low + high) / 2, (high - low) / 2)}
    def judge(differences, positive, negative):
        ps = holm([stats.ttest_1samp(d, 0).pvalue for d in differences.values()])
        for (name, d), p in zip(differences.items(), ps):
            ours = 'undecided' if p > .05 else positive if d.mean() > 0 else negative
            says[name] = Said(ours, d.mean(), stats.t.ppf(.975, 4) * stats.sem(d))
    judge({'100% minus 10%': of('100%', 'test') - of('10%', 'test'),
           '10% minus 1%': of('10%', 'test') - of('1%', 'test')}, 'agrees', 'disagrees')
    judge({name: of('100%', name) - of('100%', 'test')
           for name in ('longer', 'deeper', 'both')}, 'better', 'worse')
    return says

def moves():
    "Root mean square of what differences to base move between the two sets of captions"
    rates = lines('since_2017_rates') + lines('controls')
    rows = [best_rate(row, rates) for row in SINCE]
    asked = [r for r in lines('variations_test') if r['row'] != 'base']
    of_18 = lines('variations_test'), ['base', *dict.fromkeys(r['row'] for r in asked)]
    of_21 = lines('families_test'), ['encoder-decoder', 'decoder', 'prefix']
    tables = {'18': (*of_18, range(13, 16), 'row'), '21': (*of_21, range(6, 10), 'model')}
    for base in ('base@1.4', 'base@2'):
        tables[base] = rates, [base, *rows], range(3, 10), 'row'
    found = {}
    for name, (results, names, seeds, key) in tables.items():
        test, valid = (table(results, names, seeds, f'{split}_loss', key)
                       for split in ('test', 'valid'))
        moved = (test - valid).mean(0)
        found[name] = np.sqrt(np.mean((moved[1:] - moved[0])**2))
    return found

CHAPTERS = {'18': chapter_18, '20': chapter_20, '21': chapter_21, '22': chapter_22}

if __name__ == '__main__':
    for number, verdicts in CHAPTERS.items():
        for name, says in verdicts().items():
            mean, low, high = getattr(says, 'numbers', [np.nan]*3)
            print(f'{number}  {name:26} {says}  {mean:+.4f} [{low:+.4f}, {high:+.4f}]')
