"""Points for what a submission gave, and what is told of it: what differs, when, where"""
import torch
from dataclasses import dataclass, replace
from pathlib import Path
from torch import Tensor
from ..proving.compare import (
    AGAIN, DRAWS, ERROR, LATER, LINE, NEW, NOT_WRITTEN, SECOND, SINGLE, TEXTS,
    Difference, differences, kind_of, observed)
from ..proving.draw import AXES
from ..proving.when import When, when
from . import rights
from .child import BESIDE, collect, numbers_in
from .kit import Kit
from .stages import with_kit
from .table import Check, Stage
from .telling import Asked
from .toys import Toy

@dataclass
class Marked:
    check: Check
    found: list                # differences, the plainest first
    notes: dict                # number of a case → what came
    right: dict                # and what is right
    failed: list[int]

    @property
    def points(self)->int: return 0 if self.found else self.check.points

@dataclass
class StageResult:
    stage: Stage
    marked: list[Marked]
    remarks: list[str]         # one for each part that differs

    @property
    def points(self)->int: return sum(m.points for m in self.marked)

# What is right

_NOTES = {} # by module, title, seed and case: they are the same for a whole class

def right_notes(check:Check, n:int, module:str)->dict:
    if check.expected: return check.expected
    kept = _NOTES if n < check.part.cases else {} # others are beside a submission's numbers
    key = module, check.title, check.part.seed, n # the model of stage 9 is one
    if key not in kept:
        modules, before = rights.right(), torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.random.fork_rng(devices=[]), rights.only(modules):
                kept[key] = observed(check.part, getattr(modules[module], check.part.name), n)
        finally: torch.set_default_dtype(before)
    return kept[key]

# Marking

def grade(folder:str|Path, # of a submission
          stage:Stage,
          kit:Kit=Kit(),
          seconds:float=30., # for each check
          own:bool=False,    # with its own earlier stages
         )->StageResult:
    folder = Path(folder)
    torch.set_num_threads(1) # a process that forks has one thread
    if own or stage.number in (6, 7): torch._dynamo # noqa: B018 which Adam imports
    stage = with_kit(stage.number, kit, own, numbers_in(folder, stage.file))
    notes = collect(folder, stage, kit, seconds, own=own)
    marked = [judged(check, by_key, stage.module)
              for check, by_key in zip(stage.checks, notes)]
    jobs = [(i, BESIDE) for i, m in enumerate(marked) if not m.found and m.check.part.edges]
    more = collect(folder, stage, kit, seconds, jobs, own) if jobs else []
    for (i, _), by_key in zip(jobs, more): # what is right so far is asked at the edges, too
        marked[i] = judged(stage.checks[i], notes[i] | by_key, stage.module, True)
    remarks = _remarks(folder, stage, kit, marked, seconds) if not own else []
    return StageResult(stage, marked, remarks)

def judged(check:Check, by_key:dict, module:str, beside:bool=False)->Marked:
    if stopped := by_key.get(f'{NEW} · {ERROR}'):
        return Marked(check, [Difference(-1, NEW, ERROR, stopped, None)], {}, {}, [])
    notes = {n: {} for n in range(check.part.cases + beside * len(check.part.edges))}
    for key, x in by_key.items():
        n, _, rest = key.partition(' · ')
        if n.isdigit() and int(n) in notes: notes[int(n)][rest] = x
    if all(NOT_WRITTEN in came.values() for came in notes.values()): # no case tells more
        return Marked(check, [Difference(0, NEW, ERROR, NOT_WRITTEN, None)], {}, {}, [])
    right, found, failed = {n: right_notes(check, n, module) for n in notes}, [], []
    for n, came in notes.items():
        other = [d for d in differences(came, right[n], n, check.part.tolerance)
                 if d.what not in check.ignored]
        if other: failed.append(n)
        found += other
    return Marked(check, found, notes, right, failed)

# What is told

def _remarks(folder:Path, stage:Stage, kit:Kit, marked:list[Marked], seconds)->list[str]:
    wrong = [m for m in marked if m.found]
    if not wrong: return []
    first, *others = [m.found[0] for m in wrong]
    is_one = first.n < 0 and all(d == first for d in others)
    if is_one and len(wrong) == len(marked):
        return [f'{what(first, wrong[0])}.'] # no file, for example
    said = []
    for name in dict.fromkeys(m.check.part.name for m in wrong):
        of_part = [m for m in marked if m.check.part.name == name]
        if all(d.came == NOT_WRITTEN for m in of_part for d in m.found[:1]): continue
        said.append(_remark(name, folder, stage, kit, of_part, seconds))
    return said

def _remark(name:str, folder:Path, stage:Stage, kit:Kit, marked:list[Marked], seconds)->str:
    "What differs, when, where, what the book has there, what to read"
    first = next(m for m in marked if m.found)
    d = _plainest(first.found)
    answer, mended, unlike = {}, [], [d]
    if d.n >= 0:
        cases = [(m.check, n, right) for m in marked for n, right in m.right.items()]
        cases.sort(key=lambda x: (x[0] != first.check, x[1] != d.n))
        asked = Asked(first.check, d.n, d.step, d.what, what(d, first), cases, [])
        i, are_many = stage.checks.index(first.check), first.check.expected is None
        jobs = [(i, asked), (i, (asked,))][:1 + are_many] # what mends it may end the process
        answer, *mended = collect(folder, stage, kit, seconds, jobs)
        is_answered = asked.is_traced and f'{NEW} · {ERROR}' not in answer
        if is_answered: unlike = asked.unlike(answer)
    method, _, which = d.step.partition(', ')
    if unlike and which == LATER and asked.is_traced: # first, it differs, too
        d = replace(unlike[0], step=method)
        first.notes[d.n][f'{method} · {LINE}'] = answer.get(LINE, '')
    told = [f'{name}: {what(d, first)}.']
    if not unlike and d.what.startswith((ERROR, 'result')):
        if which in _STEPS and which != AGAIN:
            told[0] = told[0].replace(_STEPS[which], ' in a later call')
        told.append(_KEPT)
    else:
        it, found = _when(d, first, marked)
        if found and found.failed: told.append(f'{it} is wrong {found}.')
        told += _example(d, first, which in SECOND, not (found and found.feature))
        features = first.check.part.once and first.check.part.case_features(max(d.n, 0))
        if features: told.append(f'That is so where {", ".join(sorted(features))}.')
        said = [answer[key] for key in sorted(answer) if key.startswith('said')]
        told += [x['said'] for x in mended if 'said' in x] or said
    chapter, heading = first.check.read
    told.append(f'Read chapter {chapter[:chapter.index("_")]}, "{heading}" '
                f'(nbs/{chapter}.ipynb).')
    return ' '.join(told)

_KEPT = ('That is so after other calls; the same call alone, in a new process, gives what '
         'is right. Is something kept from one call to the next, or shared by two objects?')

def _plainest(found:list[Difference])->Difference:
    """Of the first case whose first call fails, or else of the first that fails: its
    error, its parameters, or what comes first"""
    first = [d for d in found if d.in_first_call or d.step == NEW] or found
    of_case = [d for d in first if d.n == first[0].n]
    def rank(d): return d.what != ERROR, d.what != 'parameters'
    return min(of_case, key=rank)

def what(d:Difference, marked:Marked)->str: # in words of the task
    step = _STEPS.get(d.step.partition(', ')[2], '')
    line = marked.notes.get(d.n, {}).get(f'{d.step} · {LINE}', '')
    if d.what in TEXTS: return str(d.came)
    if d.what == ERROR:
        file, _, number = str(line).rpartition(':')
        place = f' ({file}, line {number})' if file else ''
        is_told = d.n < 0 or d.step == NEW and not line # in words of the grader
        return f'{d.came}{place}' if is_told else f'it ends with "{d.came}"{place}{step}'
    if d.what == 'parameters':
        told = marked.notes[d.n].get(f'{NEW} · told parameters')
        return str(told or 'its parameters have other shapes than those asked for')
    if d.what == DRAWS:
        return ('in training mode, its elements are not dropped one by one, each as likely as '
                'was asked for')
    name = _name(d.what, marked.check.part)
    if d.what.startswith('first values'):
        mine, ours = (f'{float(x.mean()):.3g} ± {float(x.std()):.3g}' for x in (d.came, d.right))
        return f'{name} are not those asked for: they are {mine}, and should be {ours}'
    if d.what.endswith('afterward') and '.' not in name:
        return f'it changes `{name}`, which it was given{step}'
    return f'{name} {_unlike(d.came, d.right)}{step}'

_STEPS = { # which call it is, if not the first
    'by name': ' where its arguments are given by the names of the kit',
    'a second call': ' in a second call',
    'with other weights': ' with other weights, though it is right with those before',
    SINGLE: ' in single precision, where the numbers given are around 1000',
    'without gradients': ' under `no_grad()`, where a tensor comes again with other numbers',
    'in training mode': (' in training mode when nothing happens to be dropped, though it is '
                         'right in evaluation mode'),
    'the first call again': ' where the first call comes again, though it was right before'}

def _name(place:str, part)->str:
    if place.startswith('gradient of '): return f'the gradient of `{place[12:]}`'
    place = place.removesuffix(' afterward')
    i, names = place[7:-1], _RESULTS.get(part.name, ())
    if place.startswith('result[') and i.isdigit():
        return names[int(i)] if int(i) < len(names) else f'result {i}'
    return 'the result' if place == 'result' else place

_RESULTS = dict(scaled_dot_product_attention=('the output', 'the tensor of weights'),
                shifted=('the source', 'the target', 'the tensor of labels'),
                beam_search=('the list of ids', 'the score'),
                load_model=('the result', 'the tensor of its logits', 'the same, once the first '
                            'model is all zeros and the folder is loaded again,', 'the result'))

def _unlike(x, y)->str: # x came, y is right
    if x is None: return 'does not come'
    if y is None: return 'comes, and is not asked for'
    x, y = ({'0 results': 'an empty list', '': 'an empty text'}.get(z, z) for z in (x, y))
    if str in (type(x), type(y)): return f'is {_shown(x)}, and should be {_shown(y)}'
    is_list = x.dim() == y.dim() == 1 and max(len(x), len(y)) < 45
    if x.shape != y.shape and not is_list:
        return f'has the shape {tuple(x.shape)}, and should have {tuple(y.shape)}'
    if kind_of(x) != kind_of(y) and (kind_of(x), kind_of(y)) != ('whole numbers', 'numbers'):
        return f'holds {kind_of(x)}, and should hold {kind_of(y)}'
    if x.isnan().any() and not y.isnan().any(): return 'has NaN in it'
    if (is_list or y.numel() < 12) and _shown(x) != _shown(y):
        return f'is {_shown(x)}, and should be {_shown(y)}'
    wrong = ~torch.isclose(x.double(), y.double(), 1e-6, 1e-9, equal_nan=True)
    if not wrong.any(): return 'differs'
    at, n = tuple(wrong.nonzero()[0].tolist()), int(wrong.sum())
    share = 'everywhere' if wrong.all() else f'in {n} of {wrong.numel()} places{_along(wrong)}'
    mine, ours = (_shown(z[at], 9) for z in (x, y))
    return f'differs {share}: at {list(at)} it is {mine}, not {ours}'

def _along(wrong:Tensor)->str: # an axis, some of whose places alone are wrong
    for axis in reversed(range(wrong.dim())):
        found = wrong.movedim(axis, 0).flatten(1).any(1).nonzero().flatten().tolist()
        if 2 * len(found) > wrong.shape[axis]: continue
        places = ', '.join(map(str, found[:4])) + ', …' * (len(found) > 4)
        return f', all of them at {places} along axis {axis}'
    return ''

def _shown(x, digits:int=6)->str:
    def rounded(x):
        if isinstance(x, list): return [*map(rounded, x)]
        return float(f'{x:.{digits}g}') if isinstance(x, float) else x
    if isinstance(x, Tensor): x = rounded(x.tolist())
    return str(x) if len(str(x)) < 160 else f'{str(x)[:160]}…'

def _when(d:Difference, m:Marked, marked:list[Marked])->tuple[str,When|None]:
    "Over all cases of the part, or of the check, as far as first calls or new models tell"
    if d.what == 'parameters': return 'It', _of_cases([m], 'models')
    if not d.in_first_call or m.check.part.once: return '', None
    for some, it in ((marked, 'It'), ([m], f'In the check "{m.check.title}" it')):
        found = _of_cases(some)
        if found.feature or found.failed == found.cases: break
    return it, found

def _of_cases(marked:list[Marked], calls:str='calls')->When:
    failed, passed = [], []
    for m in marked:
        first = {x.n for x in m.found if (x.what == 'parameters' if calls == 'models'
                                          else x.in_first_call)}
        if calls == 'calls' and not first.issuperset(m.failed): calls = 'first calls'
        for n in m.notes:
            (failed if n in first else passed).append(m.check.part.case_features(n))
    return replace(when(failed, passed), calls=calls)

def _example(d:Difference, m:Marked, second:bool, always:bool)->list[str]:
    "The call, where it can be written down; else its sizes, where no feature tells more"
    is_new = d.what == 'parameters'
    if not (d.in_first_call or is_new) or m.check.part.once: return []
    drawn, name = m.check.part.drawn(d.n), m.check.part.name
    args = drawn.new | next((x[second] for method, x in drawn.calls.items()
                             if (method or name) == d.step), {})
    args = {name: x for name, x in args.items() if x is not ...}
    if not all(map(_is_short, args.values())):
        if not always: return []
        sizes = drawn.case.sizes if second else drawn.sizes
        args = {name: x for name, x in args.items() if isinstance(x, (int, float, str))}
        args = {AXES[axis]: n for axis, n in sizes.items()
                if axis in AXES and not (is_new and axis in 'bts')} | args
    said = ', '.join(f'{name} = {x.tolist() if isinstance(x, Tensor) else repr(x)}'
                     for name, x in args.items())
    toy = ''.join(f' (`{name}` is in transformer_nb/grading/toys.py)'
                  for name in ('Toy', 'Steep', 'Speaker') if f'{name}(' in said)
    return [f'For example where {said}{toy}.'] if said else []

def _is_short(x)->bool: # masks are left out: a kit has its own
    if isinstance(x, Tensor): return x.dtype == torch.long and x.numel() < 60
    return isinstance(x, int | float | str | dict | list | Toy | None) and len(str(x)) < 300

# Reports

def report(result:StageResult)->str: # the remarks, then a line for each check
    s = result.stage
    lines = [f'Stage {s.number} · {s.file} · {s.title}: {result.points} of {s.points}']
    lines += [f'  → {remark}' for remark in result.remarks]
    for m in result.marked:
        line = f'  {"✘" if m.found else "✔"} {m.points}/{m.check.points} {m.check.title}'
        lines.append(f'{line}: {message(m)}' if m.found else line)
    return '\n'.join(lines)

def message(m:Marked)->str:
    text = what(_plainest(m.found), m)
    return f'{text} (in {len(m.failed)} of {len(m.notes)} calls)' if m.notes else text

def gradescope(results:list[StageResult], note:str)->dict: # for its results.json
    "One test for each check; the optional stages are extra points"
    tests = []
    for result in results:
        s = result.stage
        for i, m in enumerate(result.marked, 1):
            tests.append(dict(
                name=f'{s.file}: {m.check.title}', number=f'{s.number}.{i}', score=m.points,
                max_score=0 if s.optional else m.check.points,
                status='failed' if m.found else 'passed',
                output=message(m) if m.found else 'right', visibility='visible'))
    text = note + '\n\n'.join(map(report, results))
    return dict(score=sum(r.points for r in results), output=text, tests=tests)
