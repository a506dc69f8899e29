"The small tasks of chapters 00 to 07a: the cells that they take, and the stored runs"
import json
from collections import defaultdict
import pytest, small_tasks

SEEDS = 10

def stored():
    found = defaultdict(dict)
    for line in small_tasks.FILE.read_text(encoding='utf8').splitlines():
        run = json.loads(line)
        found[run['row']][run['seed']] = run['measured']
    return {row: [runs[seed] for seed in sorted(runs)] for row, runs in found.items()}

@pytest.mark.parametrize('name', small_tasks.CELLS)
def test_the_cells_of_a_chapter_define_its_tasks(name):
    assert small_tasks.chapter(name).torch

def test_every_row_has_the_same_seeds():
    runs = stored()
    to_come = [row for row in small_tasks.TASKS if row.startswith(('03 two', '07a'))]
    assert list(runs) == [row for row in small_tasks.TASKS if row not in to_come]
    for row, measured in runs.items(): assert len(measured) == SEEDS, row

def test_a_row_measures_what_is_stored():
    "On another processor the last digits differ, and the verdict does not"
    again = small_tasks.measure('04 with positions', 0)['measured']
    assert again >= 95 and stored()['04 with positions'][0] >= 95

def learned(measured): return sum(share >= 95 for share in measured)
def failed(measured): return sum(share <= 5 for share in measured)

def test_what_the_chapters_say_of_the_runs():
    runs = stored()
    for row in ('01 attention', '02 one head, one digit is there', '03 NoNorm',
                '03 ResidualNorm', '03 and a feed-forward network', '04 with positions',
                '05 with the causal mask'):
        assert learned(runs[row]) == SEEDS, row
    for row in ('03 NoPath', '03 attention alone'): assert failed(runs[row]) == SEEDS, row
    assert max(runs['01 average'] + runs['01 table']) < 40 # the commonest label: 32
    assert max(runs['04 without positions']) < 60
    with_dropout, without = ([new for _, new in runs[f'03 {word} dropout']]
                             for word in ('with', 'without'))
    assert max(with_dropout) < min(without)

def test_where_seeds_differ_the_chapters_count_them():
    runs = stored()
    assert max(runs['02 one head subtracts']) < 17
    assert failed(runs['02 one head subtracts']) == 9
    for row, n in {'02 two heads subtract': 9, '02 one head adds': 7,
                   '02 one head fetches both, 1,000 steps': 3, '02 two heads fetch both': 9,
                   '03 digits query, two heads': 0, '03 digits query, four heads': 9,
                   '03 NoNorm, fast': 2, '03 ResidualNorm, fast': 7,
                   '05 without it': 3}.items():
        assert learned(runs[row]) == n, row
    for row, n in {'02 one head fetches both, 1,000 steps': 4, '03 NoNorm, fast': 8,
                   '03 ResidualNorm, fast': 2}.items():
        assert failed(runs[row]) == n, row
    assert 5 < min(runs['03 digits query, two heads']) < 42 < 78 < min(
        runs['03 digits query, four heads'])
    assert max(runs['03 digits query, two heads']) < 42
    at_once, climbing, gentle = (runs[row] for row in runs if row[:2] == '06')
    assert min(at_once) > 1.4 and sorted(climbing)[-2] < 0.6 < 1.1 < max(climbing) < 1.2
    assert all(x > y for x, y in zip(climbing, gentle))

def test_a_single_vector_is_slow_and_does_not_lose_them():
    runs = stored()
    at_12 = {row[3:]: [shares[-1] for shares in runs[row]] for row in runs
             if row.startswith('00 ')}
    slow = at_12['one vector, 4 × the steps']
    patient = at_12['one vector, 16 × the steps']
    assert 5 < min(slow) and max(slow) < 23
    assert 60 < min(patient) and max(patient) < min(at_12['looking back'])
    assert min(at_12['looking back']) >= 85

def test_without_the_mask_the_loss_promises_nothing():
    runs = stored()
    assert sorted(runs['07 without the mask'])[:-1] == [0] * 9
    assert 16 < max(runs['07 without the mask']) < 17
    for right, by_chance in runs['07 without positions']:
        assert abs(right - by_chance) < 2.5
