"Words and intervals that chapters 18, 20, 21 and 22 print are those of independent code."
import json, re
from pathlib import Path
import pytest
import verdicts

NBS = Path(__file__).parent.parent/'nbs'
CELLS = { # of each chapter, the cells that print verdicts, by what follows a row's name
    '18': {'': ['v18tab', '952a3c6d', '6e50f566', 'e9c36fc0', 'b7c87d74', '4d4a5a3e',
                'ffc56411'], 'again': ['v18new1'], 'beside two': ['952a3c6d'],
           'at twice': ['v18ctl1'], 'twice again': ['v18ctl1'],
           'at half rate': ['v18best'], 'at twice rate': ['v18best']},
    '20': {'': ['s20res03', 's20ratm9', 's20num06'], 'at its best': ['s20ratm7'],
           'on validation': ['s20val01']},
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

@pytest.mark.parametrize('number', verdicts.CHAPTERS)
def test_words_are_found_again(number):
    lines = printed(number)
    for name, says in verdicts.CHAPTERS[number]().items():
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

def test_the_article_says_how_far_captions_move():
    found = verdicts.moves()
    [told] = re.findall(r'move by (0\.\d{3}) to (0\.\d{3}) nats \(root mean square',
                        (NBS.parent/'docs/article.md').read_text(encoding='utf8'))
    assert [f'{x:.3f}' for x in (min(found.values()), max(found.values()))] == [*told]
    assert any(f"root mean square: {found['base@1.4']:.3f}" in line
               for line in printed('20')['s20val01'])
