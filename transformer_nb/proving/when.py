"""When two parts differ: the one feature of a case that tells failing from passing"""
from dataclasses import dataclass
from math import comb

@dataclass
class When:
    feature: str               # '': none tells them apart
    there: bool                # do the cases with it fail, or those without it?
    failed: int                # so many cases fail
    cases: int                 # of so many
    having: int                # so many of them are of the kind of those that fail
    calls: str = 'calls'

    def __str__(self)->str:
        tried = f'of the {self.cases} {self.calls} tried'
        if self.failed == self.cases: return f'in each {tried}'
        if not self.feature: return f'in {self.failed} {tried}'
        where = 'where' if self.there else 'unless'
        which = f'in each of the {self.failed}' if self.failed == self.having else (
            f'in {self.failed} of the {self.having}')
        return (f'{which} {self.calls} tried {where} {self.feature}, and in none of the '
                f'{self.cases - self.having} others')

def when(failed:list[set], # the features of the cases that fail
         passed:list[set], # and of the others
        )->When:
    "Counted over the cases that were tried, and no more is said"
    n = len(failed) + len(passed)
    # what a task is about comes before sizes
    names = sorted(set().union(*failed, *passed), key=lambda x: (_is_of_sizes(x), x))
    for exact in (True, False):
        for there in (True, False):
            for name in names:
                if _tells(name, there, exact, failed, passed):
                    having = sum((name in x) == there for x in [*failed, *passed])
                    return When(name, there, len(failed), n, having)
    return When('', True, len(failed), n, n)

def _tells(name, there, exact, failed, passed)->bool:
    "Is it in all failing cases, and in none that passes (or in few)?"
    if any((name in features) != there for features in failed): return False
    others = sum((name in features) == there for features in passed)
    without = len(passed) - others
    ways = comb(len(failed) + len(passed), len(failed)) # to choose as many cases
    if len(failed) < 2 or without < 2: return False # by chance, then
    if _is_of_sizes(name) and (not exact or ways < 500): return False
    return others == 0 if exact else others <= len(failed) and without >= len(failed)

def _is_of_sizes(name:str)->bool: return ' = ' in name or 'one of' in name
