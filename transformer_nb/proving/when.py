"""When two parts differ: the one feature of a case that tells failing from passing"""
from dataclasses import dataclass
from .compare import Comparison

@dataclass
class When:
    feature: str               # '': none tells them apart
    there: bool                # do the cases with it fail, or those without it?
    failed: int                # so many cases fail
    cases: int                 # of so many
    exact: bool                # and none of the others

    def __str__(self)->str:
        if self.failed == self.cases: return f'in each of {self.cases} cases'
        if not self.feature: return f'in {self.failed} of {self.cases} cases'
        where = 'where' if self.there else 'unless'
        others = 'and in no other' if self.exact else 'and only there'
        which = 'in each case' if self.exact else 'in some cases'
        return f'{which} {where} {self.feature}, {others} ({self.failed} of {self.cases})'

def when(failed:list[set], # the features of the cases that fail
         passed:list[set], # and of the others
        )->When:
    "Counted over the cases that were tried, and no more is said"
    n = len(failed) + len(passed)
    if not failed or not passed: return When('', True, len(failed), n, True)
    names = sorted(set().union(*failed, *passed), key=_rank)
    for exact in (True, False):
        for there in (True, False):
            for name in names:
                if _tells(name, there, exact, failed, passed):
                    return When(name, there, len(failed), n, exact)
    return When('', True, len(failed), n, False)

def when_of(found:Comparison)->When:
    "Told by first calls: those that fail, and those of the cases that pass"
    features = found.part.case_features
    first = dict.fromkeys(d.n for d in found.differences if d.in_first_call)
    return when([*map(features, first)], [*map(features, found.passed)])

def _tells(name, there, exact, failed, passed)->bool:
    "Is it in all failing cases, and in none that passes (or in few)?"
    if any((name in features) != there for features in failed): return False
    others = sum((name in features) == there for features in passed)
    without = len(passed) - others
    if len(failed) < 2 or without < 2: return False # by chance, then
    return others == 0 if exact else others <= len(failed) and without >= len(failed)

def _rank(name:str)->tuple: # what a task is about comes before sizes
    return (' = ' in name or 'one of' in name, name)
