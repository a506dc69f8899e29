"""What graders need: files for Gradescope and nbgrader, with a key and conventions"""
import io, json
from pathlib import Path
from zipfile import ZipFile, ZipInfo
from ..support.core import write_atomically
from .kit import Kit, kit_file
from .stages import STAGES

WEEKS = {1: STAGES[:2], 2: STAGES[2:4], 3: STAGES[4:6], 4: STAGES[6:8], 5: STAGES[8:9]}

def _nbgrader(week:int, kit:Kit, key:str)->dict: # a notebook, as JSON
    "An assignment of nbgrader: for each stage of a week, a cell that gives its points"
    told = kit_file('_week.md', kit).strip()
    cells = [dict(cell_type='markdown', id='what', metadata={}, source=told)]
    for stage in WEEKS[week]:
        options = f"key='{key}', layout='{kit.layout}', masks='{kit.masks}'"
        code = _HIDDEN.format(room=__package__, number=stage.number, options=options)
        graded = dict(grade=True, grade_id=f'stage{stage.number}', locked=True,
                      points=stage.points, schema_version=3, solution=False, task=False)
        cells.append(dict(cell_type='code', id=f'stage{stage.number}', execution_count=None,
                          metadata=dict(nbgrader=graded), outputs=[], source=code))
    kernel = dict(name='python3', display_name='Python 3', language='python')
    return dict(cells=cells, metadata=dict(kernelspec=kernel), nbformat=4, nbformat_minor=5)

_HIDDEN = """### BEGIN HIDDEN TESTS
from {room}.commands import points
points('.', {number}, {options})
### END HIDDEN TESTS"""

TEACHERS = ('setup.sh', 'run_autograder', 'TEACHER.md')

def write_for_teachers(target:Path, kit:Kit, key:str):
    "Scripts and a zip for Gradescope, and a notebook for each week of nbgrader"
    texts = {name: kit_file(name, kit) for name in TEACHERS}
    rows = ''.join(f"    'week{week}': {[stage.file for stage in stages]!r},\n"
                   for week, stages in WEEKS.items()) # they stay the students'
    texts['nbgrader_config.py'] = kit_file('_nbgrader_config.txt', kit).format(rows=rows)
    options = f'--layout {kit.layout} --masks {kit.masks}'
    script = texts['run_autograder'].replace('choose a key of your own', key)
    texts['run_autograder'] = script.replace('--layout bhtd --masks allowed', options)
    for week in WEEKS:
        notebook = json.dumps(_nbgrader(week, kit, key), indent=1, ensure_ascii=False)
        texts[f'week{week}.ipynb'] = notebook + '\n'
    for name, text in texts.items(): write_atomically(target/name, text.encode())
    packed = io.BytesIO()
    with ZipFile(packed, 'w') as archive:
        for name in ('setup.sh', 'run_autograder'):
            entry = ZipInfo(name)
            entry.external_attr = 0o100755 << 16 # a file that can be run
            archive.writestr(entry, texts[name])
    write_atomically(target/'autograder.zip', packed.getvalue())
