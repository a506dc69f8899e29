"""In a submission's process: on which line is it wrong, and which change of it is enough?"""
import re, sys, time, tokenize, types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch
from ..proving.compare import DRAWS, ERROR, GROWN, NEW, SINGLE, Difference, differences, steps
from ..proving.record import Line
from ..proving.repair import Change, repaired
from ..proving.where import Place, traced, where
from . import rights
from .table import Check, Stage

@dataclass
class Asked:
    "A difference, of which more is to be told"
    check: Check
    n: int                     # of its case
    step: str
    what: str
    told: str                  # what is said of it
    cases: list                # check, number, notes of the right version: first those of it
    near: list                 # numbers of lines that are told of it

    @property
    def is_alone(self)->bool: # can the call be made again, as the first of its process?
        which, once = self.step.partition(', ')[2], self.check.part.once
        is_error = self.what == ERROR and (self.step == NEW or once)
        return not is_error and which != SINGLE and self.what != GROWN

    @property
    def is_traced(self)->bool: # beside ours
        once = self.check.part.once
        return self.is_alone and not (self.step == NEW or self.what == DRAWS or once)

    def unlike(self, notes:dict)->list[Difference]: # of the call alone
        *_, right = self.cases[0]
        came = {f'{self.step} · {what}': x for what, x in notes.items()}
        ours = {key: x for key, x in right.items() if key.startswith(f'{self.step} · result')}
        return [x for x in differences(came, ours, self.n, self.check.part.tolerance)
                if x.what not in self.check.ignored]

def right_before(check:Check, stage:Stage, code, right):
    "Inside, what the file defines for earlier checks is right: a mistake costs only once"
    names = [c.part.name for c in stage.checks]
    earlier = names[:names.index(check.part.name)]
    return patch.dict(vars(code), {name: vars(right)[name] for name in earlier})

def tell(asked:Asked, stage:Stage, own:Callable, right:types.ModuleType, kit, folder:str)->dict:
    "What the call gives alone, and sentences, as 'said 1' …"
    part, path, notes, said = asked.check.part, Path(folder, stage.file), {}, []
    truth, (method, _, which) = getattr(right, part.name, None), asked.step.partition(', ')
    if asked.is_alone:
        run = traced(part, own, asked.n, method, truth, kit,
                     lambda file: file.startswith(folder), which)
        book, notes, what = None, run.notes, asked.what
        if asked.is_traced:
            ours = str(rights.FOLDER/stage.file)
            book = traced(part, truth, asked.n, method, None, kit,
                          lambda file: file == ours, which)
            unlike = asked.unlike(notes)
            if not unlike and what.startswith((ERROR, 'result')): return notes
            if unlike: what = unlike[0].what
        if what != ERROR: said = _lines(run, book, asked, what)
    if asked.step == NEW and not said: said = _of_attributes(path, asked.told)
    asked.near += [int(n) for n in re.findall(r'ine (\d+) of', ' '.join(said))]
    return notes | {f'said {i}': x for i, x in enumerate(said)}

# The change that mends it

def mend(asked:Asked, stage:Stage, right:types.ModuleType, kit, folder:str,
         alarm:Callable        # ends what takes more seconds
        )->dict:               # 'said'
    "The change of one line after which all checks of the part are right"
    path, ran, least = Path(folder, stage.file), set(), 5.
    with tokenize.open(path) as file: text = file.read() # in its own encoding
    def differs(check, n, ours, own):
        for step, notes in steps(check.part, own, n, getattr(right, check.part.name, None), kit):
            came = {f'{step} · {what}': x for what, x in notes.items()}
            of_step = {key: x for key, x in ours.items() if key.startswith(f'{step} · ')
                       and (step != NEW or key in came)} # which comes in two pieces
            found = differences(came, of_step, n, check.part.tolerance)
            if any(d.what not in check.ignored for d in found): return True
    def works(text, cases=asked.cases):
        limit = least
        try:
            for check, n, ours in cases:
                alarm(limit)
                sys.modules[stage.module] = module = types.ModuleType(stage.module)
                exec(compile(text, str(path), 'exec'), vars(module))
                with right_before(check, stage, module, right):
                    own = vars(module).get(check.part.name)
                    if differs(check, n, ours, own): return False
                limit = 5.
            return True
        except BaseException: return False
        finally: alarm(0)
    def note(frame, event, _):
        if frame.f_code.co_filename != str(path): return
        ran.add(frame.f_lineno)
        return note
    sys.settrace(note)
    works(text, asked.cases[:1])
    sys.settrace(None)
    begin = time.process_time()
    works(text, asked.cases[:1])
    least = .05 + 5 * (time.process_time() - begin)
    check, part = asked.check, asked.check.part
    most = check.tries or (40 if part.once else 150 if part.new else 1000)
    near = (*asked.near, 0)[0]
    change = repaired(text, rights.text_of(stage.module), ran, near, works, most)
    return {'said': _of_change(change, Line(str(path), change.line))} if change else {}

def _of_change(change:Change, line:Line)->str:
    said = dict(changed=f'With `{change.shown}` in place of l{_at(line)}',
                moved=f'With l{_at(line)}, before what stands above it')
    said |= {'left out': f'Without l{_at(line)}',
             'put in': f'With `{change.shown}` before l{_at(line)}'}
    return f'{said[change.verb]}, each call of its checks gives what is right.'

# Where the numbers part

def _lines(run, book, asked:Asked, what:str)->list[str]:
    lines = run.lines
    if asked.step == NEW: return _of_parameters(lines, asked.told)
    if 'made' in lines: return _of_model(lines)
    if what == DRAWS:
        chance = lines.get('chance')
        return [f'There, chance first comes in on l{_at(chance)}.'] if chance else []
    if what.endswith('afterward') and what in lines: # of an argument that is changed
        return [f'That happens on l{_at(lines[what])}.']
    if not what.startswith('result'): return []
    place, last = book and where(run.made, book.made), lines.get(what)
    said = _of_place(place) if place else []
    if place and (place.kind == 'order' or place.line == last): return said
    if last: return [f'What differs comes from l{_at(last)}.', *said]
    line = lines.get('')
    if not line or line.text.startswith('with '): return said # it only ends
    return [f'What differs is returned by l{_at(line)}.', *said]

def _of_parameters(lines:dict, told:str)->list[str]:
    "The line that made the first that is told of, or wrote to it last, or made its place"
    for name in re.findall(_PARAMETER, told):
        name = name.removesuffix('.')
        alike = [x for x in lines if x.endswith(f'.{name}')] # under a name of its own
        if name not in lines and len(alike) == 1: [name] = alike
        if line := lines.get(name): return [f'The numbers of `{name}` come from l{_at(line)}.']
        while name := name.rpartition('.')[0]:
            if line := lines.get(name): return [f'Your `{name}` is made on l{_at(line)}.']
    return []

_PARAMETER = (r'[\w.]+(?= \(\d| \(\)| should have)|'
              r'(?:(?<=values of )|(?<=begin with equal )|(?<=requires_grad=False: ))[\w.]+')

def _of_attributes(path:Path, told:str)->list[str]:
    "Of `Class.name` in what is told, the line that makes it"
    rows = path.read_text(encoding='utf8', errors='replace').splitlines()
    made = {name: [i for i, row in enumerate(rows, 1) if re.search(rf'self\.{name}\b.* = ', row)]
            for name in re.findall(r'\b[A-Z]\w+\.(\w+)', told)}
    return [f'Your `{name}` is made on l{_at(Line(str(path), found[0]))}.'
            for name, found in made.items() if len(found) == 1]

def _of_model(lines:dict)->list[str]:
    steps = {'made': 'made', 'given weights': 'given weights', '': 'returned'}
    said = [f'is {verb} on l{_at(lines[at])}' for at, verb in steps.items() if lines.get(at)]
    return [f'The model {"; it ".join(said)}.'] if said else []

def _of_place(place:Place)->list[str]:
    said, line = [], place.line
    if line: said.append(f'L{_at(line)}, ' + dict(
        number='makes a tensor that the book\'s version does not make',
        order='has the book\'s numbers in another order or shape')[place.kind] + '.')
    if place.book and not (line and place.book.text == line.text):
        said.append(f'Compare `{place.book.text}` in the book\'s version.')
    return said

def _at(line:Line)->str: return f'ine {line.number} of {line.name}, `{line.text}`'
