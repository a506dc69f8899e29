"""The commands of *Build it yourself*: begin, check, grade a class"""
import csv, html, io, json, os, subprocess, sys, tempfile, transformer_nb
from collections import Counter
from contextlib import suppress
from datetime import date
from pathlib import Path
from ..checkpoint import write_folder
from ..support.core import (
    Arg, FieldError, InputError, arguments_of, check_new_file, check_positive, check_range,
    command, printable, read_json, write_atomically)
from .kit import EMPTY, Kit, kit_file
from .marking import StageResult, grade, gradescope, message, report
from .stages import STAGES
from .table import Stage
from .teacher import TEACHERS, WEEKS, write_for_teachers
from .together import SHOWN, together

def start(folder:Arg('folder to write', str, 'DIR'),
          layout:Arg('axes of queries, keys and values: bhtd or bthd', str)='bhtd',
          masks:Arg('allowed, hidden or additive', str)='allowed',
          teacher:Arg("what graders need, too", action='store_true')=False,
          key:Arg("the key for the teacher's files", str)='choose a key of your own'):
    "Write an empty project: a file per stage, to be filled in from the paper"
    kit, target = Kit(layout, masks), Path(folder)
    if not key.isprintable() or "'" in key or '\\' in key:
        raise FieldError('key', 'has a quotation mark, a backslash or a control character')
    if target.exists() and any(target.iterdir()):
        raise InputError(f'{folder} is not empty; name a new folder')
    def write(out:Path): # into another folder, which takes its place when it is whole
        for name in sorted(path.name for path in EMPTY.iterdir() if path.is_file()):
            if name[0] == '_' or name in TEACHERS: continue
            (out/name).write_text(kit_file(name, kit), encoding='utf8')
        (out/'kit.json').write_text(json.dumps(dict(layout=layout, masks=masks)), 'utf8')
        if teacher: write_for_teachers(out, kit, key)
    write_folder(target, write)
    if teacher: print(f'{folder}: begin with TEACHER.md; it holds your key, so hand out '
                      'another folder, written without --teacher')
    else: print(f'{folder}: begin with README.md; grade with tnb_check {folder}')

@command
def tnb_check(argv:list[str]|None=None): # by default the arguments of this process
    "Begin with `tnb_check start DIR`, grade by `tnb_check DIR` and `tnb_check class DIR`"
    argv = sys.argv[1:] if argv is None else argv
    part = _PARTS.get(argv[0]) if argv else None
    if part: part(**arguments_of(part, argv[1:], f'tnb_check {argv[0]}'))
    else: check(**arguments_of(check, argv, 'tnb_check'))

def check(folder:Arg('of the submission', str, 'DIR'),
          stage:Arg('grade this stage alone', int)=None,
          week:Arg('grade the stages of this week of a course, from 1 to 5', int)=None,
          key:Arg('fixes hidden sizes and numbers', str)='',
          layout:Arg('of the kit; by default what kit.json says', str)=None,
          masks:Arg('of the kit; by default what kit.json says', str)=None,
          json:Arg("file to write for Gradescope's autograder", str, 'FILE')=None,
          seconds:Arg('limit of time for each check', int)=30,
          model:Arg("model folder for stage 9; by default the book's", str, 'DIR')=None,
          certificate:Arg('picture to draw for 100 points', str, 'FILE.svg')=None):
    "Grade a submission: what differs, when, and where (see also tnb_check start, class)"
    check_positive(seconds=seconds)
    if not Path(folder).is_dir(): raise InputError(f'{folder} is not a folder')
    _check_json(json)
    _check_certificate(certificate, is_whole=stage is week is None)
    folder = Path(folder)
    kit = _kit_of(folder, layout, masks, key, model)
    stages = _with_model(_chosen(stage, week), kit)
    if not json: _refuse_another_folder(folder) # a program needs its report
    results = []
    for stage_of in stages:
        results.append(grade(folder, stage_of, kit, seconds))
        print(report(results[-1]) + '\n')
        if json: _write_json(json, results, _UNFINISHED)
    whole = {result.stage.number for result in results} if stage is None else {stage} & {9}
    if week is None or 9 in whole: _tell_together(folder, whole, kit, seconds)
    print(_total(results))
    if json: _write_json(json, results)
    if stage is week is None: _certify(certificate, folder, results, kit, seconds)

def _tell_together(folder:Path, numbers:set[int], kit:Kit, seconds:float):
    "What the submission's files do without any of the right ones"
    for stage in [x for x in together(kit.model) if x.number in numbers]:
        for m in grade(folder, stage, kit, seconds, own=True).marked:
            answer = f'not yet ({message(m)})' if m.found else 'yes'
            print(f'All together: {m.check.title}: {answer}')
    print()

def _refuse_another_folder(folder:Path, may_be_empty:bool=False): # no chapter helps there
    files = [stage.file for stage in STAGES]
    beside = sorted({path.parent for path in folder.glob('*/*.py') if path.name in files})
    has_any = any((folder/file).exists() for file in files)
    if has_any or may_be_empty and not beside: return
    hint = f'; do you mean {beside[0]}?' if beside else ''
    raise InputError(f"{folder} has none of the kit's files, such as {files[0]}{hint}")

def _read_json(path:Path)->dict|None: # untrusted; None: it holds none
    with suppress(InputError): return read_json(path)

def _kit_of(folder:Path, layout, masks, key, model)->Kit:
    path, stored = folder/'kit.json', {}
    if path.is_file() and not (layout and masks): stored = _read_json(path)
    if stored is None or not {str}.issuperset(map(type, stored.values())):
        raise InputError(f'{path} is not the file that `tnb_check start` wrote')
    layout = layout or stored.get('layout', 'bhtd')
    masks = masks or stored.get('masks', 'allowed')
    return Kit(layout, masks, key, _model_folder(model))

def _model_folder(model:str|None)->str: # empty: there is none
    if model and not Path(model, 'config.json').is_file():
        raise FieldError('model', f'{model} is not a model folder')
    in_the_book = EMPTY.parents[1]/'nbs/models/multi30k-en-de'
    if not model and in_the_book.is_dir(): model = in_the_book
    return str(Path(model).resolve()) if model else ''

def _chosen(number:int|None, week:int|None)->list[Stage]:
    if None not in (number, week):
        raise FieldError('week', 'does not go together with --stage')
    check_range(1, len(STAGES), stage=number)
    check_range(1, len(WEEKS), week=week)
    if number: return [STAGES[number - 1]]
    return WEEKS[week] if week else STAGES

def _total(results:list[StageResult])->str:
    parts = []
    for optional, name in ((False, 'total'), (True, 'optional')):
        some = [r for r in results if r.stage.optional == optional]
        most = sum(r.stage.points for r in some)
        if some: parts.append(f'{name}: {sum(r.points for r in some)} of {most} points')
    return ', '.join(parts)

def _check_json(path:str|None): # before anything is graded
    "Raise `FieldError` for a file that is not the result of an earlier grading"
    if path is None or not os.path.lexists(path): return check_new_file(path)
    if {'score', 'output', 'tests'} == set(_read_json(Path(path)) or ()): return
    raise FieldError('json', f'{path} exists already, and was not written by tnb_check')

def _write_json(path:str, results:list[StageResult], note:str=''):
    text = json.dumps(gradescope(results, note), indent=1, ensure_ascii=False)
    write_atomically(path, text.encode())

_UNFINISHED = ('The time was over before everything was graded. What is missing below has '
               'no points; a loop that does not end may be the reason.\n\n')

def _check_certificate(path:str|None, is_whole:bool): # before anything is graded
    if path is None: return
    if not is_whole: raise FieldError('certificate', 'needs all stages')
    if Path(path).suffix != '.svg':
        raise FieldError('certificate', f'{path} does not end in .svg')
    check_new_file(path)

def _certify(path:str|None, folder:Path, results:list[StageResult], kit:Kit,
             seconds:float):
    "For all points: draw a certificate, or say that there is one"
    points = sum(r.points for r in results if not r.stage.optional)
    if points < 100:
        if path: print(f'No certificate yet: {points} of 100 points')
    elif path is None: print('All points: --certificate FILE.svg draws a certificate')
    else:
        try: drawn = _drawn(folder, kit, seconds)
        except InputError as e: return print(f'No certificate: {e}')
        write_atomically(path, drawn.encode())
        print(f'{path}: your certificate')

def _drawn(folder:Path, kit:Kit, seconds:float)->str: # as SVG
    "Raise `InputError` where the files do not work together"
    proof, translated = [m for stage in together(kit.model)
                         for m in grade(folder, stage, kit, seconds, own=True).marked]
    for m in (translated, proof):
        if m.found: raise InputError(f'{m.check.title}: {message(m)}')
    n = sum(str(x).endswith(': holds') for x in proof.notes[0].values())
    text = html.escape(translated.notes[0]['load_model · result'])
    page = (EMPTY/'_certificate.svg').read_text(encoding='utf8')
    return page.format(day=date.today(), version=transformer_nb.__version__, n=n, read=SHOWN,
                       wrote=text)

def points(folder:str|Path, # of a submission
           number:int,      # of a stage
           **kit            # layout, masks, key, model
          )->int:           # for a cell that nbgrader grades: its last value is the score
    "Points of one stage, graded in a new process, whatever this one has computed before"
    with tempfile.TemporaryDirectory() as place:
        out = Path(place, 'results.json')
        asked = dict(stage=number, json=out) | {k: v for k, v in kit.items() if v}
        words = [*(f'--{name}={value}' for name, value in asked.items()), str(folder)]
        run = subprocess.run([sys.executable, '-X', 'utf8', '-c', _CHECK], encoding='utf8',
                             input=json.dumps(words), capture_output=True)
        if run.returncode: raise InputError(run.stderr.strip())
        results = _read_json(out)
    print(run.stdout.strip())
    return results['score']

_CHECK = """import json, sys
from transformer_nb.grading.commands import tnb_check
tnb_check(json.load(sys.stdin))""" # the key does not stand in the list of processes

def grade_class(folder:Arg('that holds a folder for each student', str, 'DIR'),
                out:Arg('table to write, as CSV', str, 'FILE')='class.csv',
                reports:Arg("folder to write for the students' reports", str, 'DIR')=None,
                stage:Arg('grade this stage alone', int)=None,
                week:Arg('grade the stages of this week of a course, from 1 to 5', int)=None,
                key:Arg('fixes hidden sizes and numbers', str)='',
                layout:Arg('of the kit; by default what each kit.json says', str)=None,
                masks:Arg('of the kit; by default what each kit.json says', str)=None,
                seconds:Arg('limit of time for each check', int)=30,
                model:Arg("model folder for stage 9; by default the book's", str, 'DIR')=None):
    "Grade a class into a table, and count what differs"
    check_positive(seconds=seconds)
    stages = _chosen(stage, week)
    for new in (out, reports): check_new_file(new)
    asked = Kit(layout or 'bhtd', masks or 'allowed', key, _model_folder(model))
    stages = _with_model(stages, asked)
    rows, counts = [], Counter()
    for student in _students(folder):
        problem = ''
        try: # what is wrong with one folder stops no class
            _refuse_another_folder(student, may_be_empty=True)
            kit = _kit_of(student, layout, masks, key, asked.model)
        except InputError as e: problem = f'not graded: {e}'
        results = [] if problem else [grade(student, x, kit, seconds) for x in stages]
        told = problem or _total(results)
        rows.append(_row(student.name, results, problem))
        write_atomically(out, _as_csv(rows).encode()) # as far as it is, if it is stopped
        counts.update(f'{result.stage.file}: {m.check.title}' for result in results
                      for m in result.marked if m.found)
        text = '\n\n'.join([*map(report, results), told])
        if reports: write_atomically(Path(reports, f'{student.name}.txt'), text.encode())
        print(f'{printable(student.name)}: {told}', flush=True)
    print('\nWhat fails most often:' if counts else '\nEvery check is passed by everybody.')
    for name, n in counts.most_common(10): print(f'  {n} of {len(rows)}  {name}')

def _students(folder:str)->list[Path]: # each student's folder, in the order of their names
    if not Path(folder).is_dir(): raise InputError(f'{folder} is not a folder')
    found = [path for path in sorted(Path(folder).iterdir())
             if path.is_dir() and not path.name.startswith(('.', '__'))]
    if not found: raise InputError(f'{folder} has no folder for any student')
    return found

def _with_model(stages:list[Stage], kit:Kit)->list[Stage]: # those that can be graded
    found = [stage for stage in stages if stage.number != 9 or kit.model]
    if not found: raise FieldError('model', "is missing: stage 9 needs the book's model")
    if len(found) < len(stages):
        print("Stage 9 is not graded: it needs the book's model, --model FOLDER\n")
    return found

def _row(student:str, results:list[StageResult], problem:str)->dict:
    points = {f'{r.stage.number} {r.stage.file}': r.points for r in results}
    total = '' if problem else sum(r.points for r in results if not r.stage.optional)
    told = [x.partition(' Read chapter')[0] for r in results for x in r.remarks]
    named = problem or '; '.join(x if len(x) < 150 else f'{x[:150]}…' for x in told)
    return dict(student=student) | points | {'total': total, 'what differs': named}

def _as_csv(rows:list[dict])->str:
    text = io.StringIO(newline='')
    table = csv.DictWriter(text, max(rows, key=len), lineterminator='\n')
    table.writeheader()
    for row in rows: table.writerow({name: _harmless(x) for name, x in row.items()})
    return text.getvalue()

def _harmless(x:str|int)->str: # for spreadsheets, which take what begins so for a formula
    text = printable(str(x))
    return f"'{text}" if text.startswith(('=', '+', '-', '@')) else text

_PARTS = {'start': start, 'class': grade_class}
