"Every cell of every quick chapter may be run again: nothing is registered or used up."
import pytest
import chapters
from book import ROOT
from book import chapters as all_chapters

# More than ten seconds: run twice by hand, `python tools/chapters.py --twice 07`
LONG = ('00_', '01', '03', '07', '10_', '12', '13', '15_', '15a', '16', '17', '18', '19')
QUICK = [path for path in all_chapters(ROOT) if not path.name.startswith(LONG)]

@pytest.mark.parametrize('path', QUICK, ids=lambda path: path.stem)
def test_every_cell_twice(path): chapters.execute_twice(path)
