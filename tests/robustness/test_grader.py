"What tests/test_build.py samples: every mistake of the grader, and all pairs of two"
import pytest
from test_build import FEW, SAMPLE, TWO, WRONG, check_mistake, check_pair

REST = [wrong for wrong in WRONG if wrong not in SAMPLE]

@pytest.mark.parametrize('number, name', REST, ids=[name for _, name in REST])
def test_a_mistake_gets_its_name(number, name): check_mistake(number, name)

PAIRS = [pair for pair in TWO if pair not in FEW]

@pytest.mark.parametrize('number, a, b', PAIRS, ids=[f'{a} + {b}' for _, a, b in PAIRS])
def test_two_mistakes_get_no_false_name(number, a, b): check_pair(number, a, b)
