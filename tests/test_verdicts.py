"Words and intervals that chapters 18, 20, 21 and 22 print are those of independent code."
import json, re
from pathlib import Path
import numpy as np
import pytest
from scipy import stats
import verdicts
from transformer_nb.judging import judge_rows
from transformer_nb.support.notebook import read_jsonl
from transformer_nb.studies import variations as v

NBS = Path(__file__).parent.parent/'nbs'
CELLS = { # of each chapter, the cells that print verdicts, by what follows a row's name
    '21': {'': ['f21verdicts', 'f21sidestest'], 'again': ['f21asked1']},
    '22': {'': ['s22clm66', 's22clm67', 's22clm68']}}
PRINTED = {'C66': 'F1', 'the right side': 'the encoder at equal steps'}

def printed(number): # lines of text by cell
    [path] = NBS.glob(f'{number}_*.ipynb')
    cells = json.loads(path.read_text(encoding='utf8'))['cells']
    return {cell['id']: [line for output in cell.get('outputs', [])
                         for line in ''.join(output.get('text', '')).splitlines()]
            for cell in cells}

def shows(line, number):
    "Does a line have this number, to its digits? (Some of ours are drawn, not exact.)"
    printed = re.findall(r'[-+]?\d+\.(\d+)', line)
    numbers = re.findall(r'[-+]?\d+\.\d+', line)
    return any(abs(float(x) - number) < 0.5 * 10**-len(digits) + 2e-4
               for x, digits in zip(numbers, printed))

def test_a_number_is_missed():
    line = 'D-drop0.2  2.893  +0.019  [+0.000, +0.039]  +0.006  worse: undecided'
    assert shows(line, .0193) and shows(line, .0001) and not shows(line, .0009)
    assert not shows('rotary -0.101 [-0.141, -0.061]', -.1024)

@pytest.mark.parametrize('number', CELLS)
def test_words_are_found_again(number):
    lines = printed(number)
    for name, says in verdicts.CHAPTERS[number]().items():
        if name.endswith('on validation'): continue # told in the article
        suffix = max((s for s in CELLS[number] if not s or name.endswith(f' {s}')), key=len)
        row = name.removesuffix(suffix).strip()
        start = re.compile(re.escape(PRINTED.get(row, row)) + r'(?![\w.@-])')
        found = [line for cell in CELLS[number][suffix] for line in lines[cell]
                 if start.match(line)]
        told = [line for line in found if re.search(rf'\b{re.escape(says)}(?!\w)', line)]
        numbers = getattr(says, 'numbers', ())
        assert any(all(shows(line, x) for x in numbers) for line in told), (
            name, says, numbers, found)
        if suffix: assert len(found) <= 2, name # a row of two tables in one cell

def test_chapter_18_judges_as_code_that_shares_nothing_with_it():
    everything = read_jsonl(NBS/'results/variations_ten.jsonl')
    results = [r for r in everything if r['row'] in v.TABLE and r['seed'] < 10]
    differences, best = judge_rows(results)[0], v.best_rates(everything)
    twice = [r for name in ('controls', 'since_2017_rates')
             for r in read_jsonl(NBS/f'results/{name}.jsonl')]
    ours = {}
    for row, d in differences.items():
        word = v.after_rates(d.verdict(), row, best)
        beside = v.beside_paper(d, word, v.EFFECTS[row])
        if word == 'no difference found': word += f', at most {d.at_most():.3f}'
        ours[row] = d, f'{word}: {beside}'
    ours |= {f'{row} beside two': (d, d.verdict())
             for row, d in v.judge_heads(results)[1].items()}
    for row in ('A1', 'D-ls0'):
        ours[f'{row} at twice'] = v.at_twice(twice, row), 'worse'
        again = v.at_twice(twice, row, 'test_loss')
        ours[f'{row} twice again'] = again, v.confirmation('worse', again)
    from_2 = {row: n for row, n in v.LADDERS['N'].items() if n > 1}
    for name, ladder in (v.LADDERS | {'N from 2': from_2}).items():
        for told, rate in (('half', 0.5), ('twice', 2)):
            ours[f'{name} at {told} rate'] = v.slope(everything, ladder, rate), 'rate'
    theirs = verdicts.chapter_18()
    for name, (d, word) in ours.items():
        if name not in theirs: continue # no slope of the width was asked at other rates
        assert theirs[name].numbers == pytest.approx(d[:3], abs=1e-9), name
        assert theirs[name].startswith(word), name
    slopes = v.trends(results)
    assert theirs['C56'] == v.direction([slopes['d_k']])
    assert theirs['C57'] == v.direction([slopes[x] for x in ('N', 'd_model', 'd_ff')])
    printed_18 = printed('18')
    assert [line.split()[-1] for line in printed_18['v18main'] if line.endswith('%')] == [
        theirs[f'{row} again'] for row in v.TABLE if f'{row} again' in theirs]
    for claim in ('C50', 'C37', 'C58', 'C56'):
        [line] = [line for line in printed_18['v18claim'] if line.startswith(claim)]
        assert line.endswith(theirs[claim]), line

def test_the_article_says_how_far_captions_move():
    found = verdicts.moves()
    [told] = re.findall(r'move by (0\.\d{3}) to (0\.\d{3}) nats \(root mean square',
                        (NBS.parent/'docs/article.md').read_text(encoding='utf8'))
    assert [f'{x:.3f}' for x in (min(found.values()), max(found.values()))] == [*told]

def test_the_five_on_all_captions():
    "The words of chapter 20 by arithmetic of its own: two intervals below 0"
    results = read_jsonl(NBS/'results/five.jsonl')
    def table(row):
        runs = sorted((r['seed'], r['captions']) for r in results if r['row'] == row)
        return np.array([captions for _, captions in runs])
    others = [row for row in dict.fromkeys(r['row'] for r in results) if row != 'base@1.4']
    base, rng, better = table('base@1.4'), np.random.default_rng(7), []
    tokens = base[0, :, 1]
    for row in others:
        nats, drawn = table(row)[..., 0] - base[..., 0], []
        by_seed = nats.sum(1) / tokens.sum()
        width = stats.t.ppf(1 - 0.025/len(others), 6) * stats.sem(by_seed)
        high = by_seed.mean() + width
        for _ in range(3000):
            seeds, captions = rng.integers(7, size=7), rng.integers(1000, size=1000)
            mean = nats[seeds].mean(0)[captions]
            drawn.append(mean.sum() / tokens[captions].sum())
        if high < 0 and np.quantile(drawn, 0.995) < 0: better.append(row)
    assert better == ['rotary@2', 'together@4']
