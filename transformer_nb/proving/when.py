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
    n, found = len(failed) + len(passed), []
    for name in sorted(set().union(*failed, *passed)):
        for there in (True, False):
            if any((name in features) != there for features in failed): continue
            others = sum((name in features) == there for features in passed)
            if not _is_told(name, len(failed), others, len(passed) - others): continue
            rank = bool(others), _is_of_sizes(name), others, not there # the task, then sizes
            found.append((rank, When(name, there, len(failed), n, len(failed) + others)))
    return min(found, key=lambda x: x[0])[1] if found else When('', True, len(failed), n, n)

def _is_told(name:str, failed:int, others:int, without:int)->bool:
    "All that fail have it: do few others, and would chance seldom choose so?"
    having, n = failed + others, failed + others + without
    is_seldom = 500 * comb(having, failed) < comb(n, failed)
    if failed < 2 or without < 2: return False
    if _is_of_sizes(name): return not others and is_seldom
    is_seldom = is_seldom and (others <= failed or 2 * having <= n)
    return not others or is_seldom or others <= failed <= without

def _is_of_sizes(name:str)->bool: return ' = ' in name or 'one of' in name
