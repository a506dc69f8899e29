"""Which line makes it wrong: small changes of a text, tried until one makes it right

What is wrong in one place is right after one change there. Each line that ran is changed in
every small way: an operator, a number, a name, an argument or a condition is another one or is
left out, two lines change places, a line of ours is put in. The first change after which every
call gives what is right is told: no sentence could be surer."""
import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

@dataclass
class Change:
    rank: int                  # the likelier slips come first
    line: int
    start: int                 # of what is exchanged: its place in the text, in bytes
    end: int
    new: str
    verb: str = 'changed'      # left out, moved, put in
    shown: str = ''            # the new line

KINDS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (
    ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub), (
    ast.Div, ast.Mult, ast.FloorDiv)
OTHERS = {x: [y for y in kinds if y is not x] for kinds in KINDS for x in kinds}

NAMED = ast.Name | ast.Call | ast.Attribute | ast.Subscript
VALUED = ast.Assign | ast.AugAssign | ast.Return
COUNTS = 'range', 'min', 'max', 'torch.arange'

def repaired(text:str,
             ours:str,                 # what a line may be taken from
             lines:set[int],           # that ran
             near:int,                 # where to begin
             works:Callable[[str],bool], # is a text right?
             most:int,                 # changes to try
            )->Change|None:
    found = [x for x in Changes(text, ours).every() if x.line in lines]
    old, tried = text.encode(), {text}
    for change in sorted(found, key=lambda x: (x.rank, abs(x.line - near))):
        new = (old[:change.start] + change.new.encode() + old[change.end:]).decode()
        if new in tried: continue
        if len(tried) > most: return None
        tried.add(new)
        if not works(new): continue
        n = change.line + change.new.rstrip().count('\n') # its last line
        change.shown = ' '.join(map(str.strip, new.splitlines()[change.line - 1:n]))
        return change

class Changes:
    "Of the functions of a text"
    def __init__(self, text:str, ours:str):
        self.tree, self.text = ast.parse(text), text.encode()
        self.begins = [0, *accumulate(len(row) + 1 for row in self.text.split(b'\n'))]
        book = [*ast.walk(ast.parse(ours))]
        self.numbers = {x.value for x in book if _is_number(x)}
        self.values = [x.value for x in book if isinstance(x, VALUED)]
        self.lines = [x for x in book if _is_short(x)]
        self.calls = [x for x in book if isinstance(x, ast.Call)]
        called, self.names = {id(x.func) for x in self.calls}, {True: set(), False: set()}
        for x in book: # attributes that are called, or not
            if isinstance(x, ast.Attribute): self.names[id(x) in called].add(x.attr)

    def every(self)->Iterator[Change]:
        functions = [x for x in ast.walk(self.tree) if isinstance(x, ast.FunctionDef)]
        for function in [self.tree, *functions]:
            is_tree = function is self.tree
            inside = [*_outside(function)] if is_tree else [
                x for statement in function.body for x in ast.walk(statement)]
            self.called = {id(x.func) for x in inside if isinstance(x, ast.Call)}
            self.iterated = {id(z) for x in inside for z in _iterated(x)}
            self.counted = {id(z) for x in inside for z in _counted(x)}
            self.own = {ast.unparse(x) for x in inside if isinstance(x, ast.stmt)}
            self.known = sorted({x.id for x in inside if isinstance(x, ast.Name)}
                                | {x.arg for x in ast.walk(function) if isinstance(x, ast.arg)})
            for x in () if is_tree else function.decorator_list:
                start, end = self.span(x)
                yield Change(0, x.lineno, start - 1, end, '', 'left out')
            for x in inside:
                for rank, new in self.instead(x) if isinstance(x, ast.expr) else ():
                    if isinstance(new, ast.AST):
                        is_plain = isinstance(new, NAMED | ast.Constant)
                        new = ast.unparse(new) if is_plain else f'({ast.unparse(new)})'
                    yield Change(rank + 3 * is_tree, x.lineno, *self.span(x), new)
            for owner in [function, *inside]:
                for block in (getattr(owner, 'body', []), getattr(owner, 'orelse', [])):
                    if isinstance(block, list): yield from self.of_block(block)

    def span(self, x)->tuple[int,int]:
        return (self.begins[x.lineno - 1] + x.col_offset,
                self.begins[x.end_lineno - 1] + x.end_col_offset)

    def said(self, x)->str: return self.text[slice(*self.span(x))].decode()

    def fitting(self, ours:list)->list[str]: # what needs no other names
        return [ast.unparse(x) for x in ours if _loaded(x) <= {*self.known}]

    def instead(self, x)->Iterator[tuple]: # of an expression: rank, node or text
        if isinstance(x, ast.Compare) and len(x.ops) == 1:
            for kind in OTHERS[type(x.ops[0])]:
                yield 0, ast.Compare(x.left, [kind()], x.comparators)
        if isinstance(x, ast.BoolOp):
            for y in x.values: yield 0, y
            for kind in OTHERS[type(x.op)]: yield 0, ast.BoolOp(kind(), x.values)
        if isinstance(x, ast.UnaryOp): yield 0, x.operand
        if isinstance(x, ast.BinOp):
            yield from ((0, x.left), (0, x.right))
            for kind in OTHERS.get(type(x.op), ()):
                yield 0, ast.BinOp(x.left, kind(), x.right)
            yield 2, ast.BinOp(x.right, x.op, x.left)
            if isinstance(x.op, ast.Add): yield 1, ast.BoolOp(ast.Or(), [x.left, x.right])
        if isinstance(x, ast.Compare | ast.BoolOp): yield 1, ast.UnaryOp(ast.Not(), x)
        if isinstance(x, ast.IfExp): yield from ((0, x.body), (0, x.orelse))
        if _is_number(x):
            steps = {x.value + 1, x.value - 1, -x.value} if type(x.value) is int else {-x.value}
            for y in sorted(steps - {x.value}): yield 0, repr(y)
            for y in sorted(self.numbers - steps - {x.value}): yield 1, repr(y)
            for name in self.known: yield 3, name
        if isinstance(x, ast.Constant) and isinstance(x.value, bool): yield 0, repr(not x.value)
        if isinstance(x, ast.Subscript): yield from self.of_slice(x)
        if isinstance(x, ast.Call): yield from self.of_call(x)
        if isinstance(x, ast.Attribute) and isinstance(x.ctx, ast.Load):
            for name in sorted(self.names[id(x) in self.called]):
                if name != x.attr and name[0] != '_': yield 2, f'{self.said(x.value)}.{name}'
        if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load):
            for name in self.known: yield 3, name
        if id(x) in self.iterated:
            for name in self.known: yield 3, f'{x.id}[:{name}]'
        if id(x) in self.counted:
            for more in (' + 1', ' - 1'): yield 1, f'({self.said(x)}{more})'
            for name in self.known:
                yield 4, f'({self.said(x)} + {name})'
                yield 4, f'len({name})'

    def of_slice(self, x)->Iterator[tuple]:
        cuts = x.slice.elts if isinstance(x.slice, ast.Tuple) else [x.slice]
        if any(isinstance(cut, ast.Slice) for cut in cuts): yield 0, x.value
        for cut in cuts:
            if not isinstance(cut, ast.Slice) or not cut.lower or not cut.upper: continue
            for bounds in ((cut.lower, None), (None, cut.upper)):
                others = [ast.Slice(*bounds) if y is cut else y for y in cuts]
                new = ast.Tuple(others) if len(cuts) > 1 else others[0]
                yield 0, ast.Subscript(x.value, new, x.ctx)

    def of_call(self, x)->Iterator[tuple]:
        if isinstance(x.func, ast.Attribute): yield 2, x.func.value
        for y in x.args:
            if not isinstance(y, ast.Starred | ast.GeneratorExp): yield 2, y
        for i in range(len(x.args)):
            yield 2, ast.Call(x.func, x.args[:i] + x.args[i + 1:], x.keywords)
        for i in range(len(x.args) - 1):
            turned = [*x.args[:i], x.args[i + 1], x.args[i], *x.args[i + 2:]]
            yield 2, ast.Call(x.func, turned, x.keywords)
        alike = [y for y in self.calls if ast.unparse(y.func) == self.said(x.func)]
        for call in self.fitting(alike): yield 1, call
        for y in x.keywords:
            yield 0, ast.Call(x.func, x.args, [z for z in x.keywords if z != y])

    def of_block(self, block:list)->Iterator[Change]:
        "Two statements change places, one is left out, one of ours is put in"
        for x, y in pairwise(block):
            (start, middle), (begin, end) = self.span(x), self.span(y)
            new = self.said(y) + self.text[middle:begin].decode() + self.said(x)
            yield Change(1, y.lineno, start, end, new, 'moved')
        for x in block:
            start, end = self.span(x)
            if not isinstance(x, ast.FunctionDef | ast.Return):
                yield Change(0, x.lineno, start, end, 'pass', 'left out')
            if isinstance(x, ast.With):
                end = self.span(x.items[-1].context_expr)[1]
                yield Change(0, x.lineno, start, end, 'if True')
            if isinstance(x, VALUED) and x.value:
                for value in self.fitting(self.values):
                    yield Change(1, x.lineno, *self.span(x.value), value)
            for line in self.fitting(self.lines):
                new = f'{line}\n'.replace('\n', '\n' + ' ' * x.col_offset)
                rank = 3 if line in self.own else 1
                yield Change(rank, x.lineno, start, start, new, 'put in')

def _counted(x)->list: # what may be one more or one less
    called = ast.unparse(x.func) if isinstance(x, ast.Call) else ''
    found = x.args if called in COUNTS else []
    if called == 'len': found = [x]
    if isinstance(x, ast.Slice): found = [x.lower, x.upper]
    if isinstance(x, ast.Compare | ast.BinOp): found = ast.iter_child_nodes(x)
    if isinstance(x, ast.Assign): found = [x.value]
    return [y for y in found if isinstance(y, NAMED)]
def _iterated(x)->list: # what may be cut at a length
    is_counted = isinstance(x, ast.Call) and ast.unparse(x.func) == 'enumerate'
    found = [x.iter] if isinstance(x, ast.For) else x.args if is_counted else []
    return [y for y in found if isinstance(y, ast.Name)]
def _loaded(node)->set[str]: # names that it needs
    inside = [*ast.walk(node)]
    made = {y.id for x in inside if isinstance(x, ast.For | ast.comprehension)
            for y in ast.walk(x.target) if isinstance(y, ast.Name)}
    return {x.id for x in inside if isinstance(x, ast.Name)
            and isinstance(x.ctx, ast.Load)} - made
def _outside(x)->Iterator: # of all functions
    for y in ast.iter_child_nodes(x):
        if isinstance(y, ast.FunctionDef): continue
        yield y
        yield from _outside(y)
def _is_number(x)->bool: return isinstance(x, ast.Constant) and type(x.value) in (int, float)
def _is_short(x)->bool: # a statement in a line or two
    if isinstance(x, ast.For): return len(x.body) == 1 and _is_short(x.body[0])
    is_text = isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant)
    return isinstance(x, ast.Expr | ast.Assign | ast.AugAssign) and not is_text
