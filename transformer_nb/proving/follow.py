"Which lines gave what a function returns its value, where no tensor tells it"
import ast, linecache
from collections.abc import Callable
from torch import Tensor

class Follow:
    "The function of a file that is called from outside, line by line: for `sys.settrace`"
    def __init__(self, is_own:Callable):
        self.is_own, self.inside, self.ran = is_own, None, []

    def __call__(self, frame, event, _):
        if event == 'call':
            if self.inside or not self.is_own(frame.f_code.co_filename): return
            self.inside, self.file = frame, frame.f_code.co_filename
            self.ran, self.values, self.changed = [], {}, {}
            return self
        for name, x in frame.f_locals.items(): # after the line that ran
            value = _state(x)
            if value and self.ran and self.values.get(name) != value:
                self.changed[name] = self.ran[-1], dict(self.changed)
            self.values[name] = value
        if event == 'line': self.ran.append(frame.f_lineno)
        if event == 'return': self.inside = None
        return self

    def told(self)->dict[str, tuple]: # file and number of a line
        """'from 1 …', of a place in the result: the line that last changed the variable
        there, 'from 2 …': what that is made of …"""
        if not self.ran: return {}
        tree = ast.parse(''.join(linecache.getlines(self.file)))
        self.statements = {n: x for x in ast.walk(tree) if isinstance(x, ast.stmt)
                           for n in range(x.lineno, _head(x) + 1)}
        self.choices = {x: {n for block in (x.body, x.orelse) for y in block
                            for n in range(y.lineno, y.end_lineno + 1)}
                        for x in ast.walk(tree) if isinstance(x, (ast.If, ast.For, ast.While))}
        node = self.statements[self.ran[-1]]
        if not isinstance(node, ast.Return): return {}
        found, several = {}, isinstance(node.value, ast.Tuple)
        for i, x in enumerate(node.value.elts if several else [node.value]):
            at = f'result[{i}]' if several else 'result'
            lines = enumerate(self.lines_of(x, self.changed), 1)
            found |= {f'from {k} {at}': n for k, n in lines}
        return {what: (self.file, n) for what, n in (found | self.ends()).items()}

    def ends(self)->dict[str, int]:
        "'ended …', of a loop: the condition that ended it"
        loops = [x for x in self.choices if not isinstance(x, ast.If)]
        inner = {n for x in loops for n in self.choices[x]}
        found = {}
        for x in (x for x in loops if x.lineno not in inner):
            ran = [n for n in self.ran if x.lineno <= n <= x.end_lineno]
            if ran and isinstance(self.statements[ran[-1]], (ast.Break, ast.Return)):
                around = [y for y in self.choices if ran[-1] in self.choices[y]]
                found[f'ended {x.lineno}'] = max(y.lineno for y in around)
            elif ran and isinstance(x, ast.While): found[f'ended {x.lineno}'] = x.lineno
        return found

    def lines_of(self, node, changed:dict, most:int=4)->list[int]:
        "Back from one variable to the one that it is made of, while there is one"
        found, own = [], ''
        while node and len(found) < most:
            names = {x.id for x in ast.walk(node) if isinstance(x, ast.Name)
                     and isinstance(x.ctx, ast.Load) and x.id in changed} - {own}
            lines = {changed[name][0] for name in names}
            if len(lines) != 1 or lines.issubset(found): break
            if found and self.may_skip(*lines, found[-1]): break
            found += lines
            own = min(names)
            node, changed = self.statements[found[-1]], changed[own][1]
            if isinstance(node, ast.For): node = node.iter
        return found

    def may_skip(self, line:int, after:int)->bool:
        "In another round of their loop, perhaps that of what differs, is the line left out?"
        around = [(x, after in lines) for x, lines in self.choices.items() if line in lines]
        in_loop = any(both for x, both in around if not isinstance(x, ast.If))
        return in_loop and not all(both for _, both in around)

def _head(x:ast.stmt)->int: # the last line of a statement, without what is inside it
    body = getattr(x, 'body', None)
    return max(x.lineno, body[0].lineno - 1) if body else x.end_lineno

def _state(x): # what changes with a value; nothing: other objects
    if isinstance(x, Tensor): return id(x), x.is_inference() or x._version
    return repr(x) if isinstance(x, (list, tuple, dict, set, str, int, float)) else ''
