"Every cell of every quick chapter may be run again: nothing is registered or used up."
import pytest
import chapters
from book import ROOT
from book import chapters as all_chapters

# Trainings: run twice by hand, `python tools/chapters.py --twice 07`
LONG = ('01', '03', '07', '12', '15_', '16')
QUICK = [path for path in all_chapters(ROOT) if not path.name.startswith(LONG)]

@pytest.mark.parametrize('path', QUICK, ids=lambda path: path.stem)
def test_every_cell_twice(path): chapters.execute_twice(path)
