"""Which line makes it wrong: small changes of a text, tried until one makes it right

What is wrong in one place is right after one change there. Each line that ran is changed in
every small way: an operator, a number, a name, an argument or a condition is another one or is
left out, two lines change places, a line of ours is put in. The first change after which every
call gives what is right is told: no sentence could be surer."""
import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

@dataclass
class Change:
    rank: int                  # the likelier slips come first
    line: int
    start: int                 # of what is exchanged: its place in the text, in bytes
    end: int
    new: str
    verb: str = 'changed'      # left out, moved, put in
    shown: str = ''            # the new line

ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (
    ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div), (
    ast.Div, ast.Mult, ast.FloorDiv)

COUNTS = 'range', 'min', 'max', 'torch.arange'

def repaired(text:str,
             ours:str,                 # what a line may be taken from
             lines:set[int],           # that ran
             near:int,                 # where to begin
             works:Callable[[str],bool], # is a text right?
             most:int,                 # changes to try
            )->Change|None:
    found = [x for x in Changes(text, ours).every() if x.line in lines]
    tried = {text}
    for change in sorted(found, key=lambda x: (x.rank, abs(x.line - near))):
        new = changed(text, change)
        if new in tried: continue
        if len(tried) > most: return None
        tried.add(new)
        if not works(new): continue
        n = change.line - 1 + change.new.rstrip().count('\n') # its last line
        change.shown = ' '.join(map(str.strip, new.splitlines()[change.line - 1:n + 1]))
        return change

def changed(text:str, change:Change)->str:
    old = text.encode()
    return (old[:change.start] + change.new.encode() + old[change.end:]).decode()

class Changes:
    "Of the functions of a text"
    def __init__(self, text:str, ours:str):
        self.tree, book = ast.parse(text), [*ast.walk(ast.parse(ours))]
        rows = text.encode().split(b'\n')
        self.begins = [0, *accumulate(len(row) + 1 for row in rows)] # of lines
        self.text = text.encode()
        called = {id(x.func) for x in book if isinstance(x, ast.Call)}
        self.names = {True: set(), False: set()} # of attributes that are called, or not
        for x in book:
            if isinstance(x, ast.Attribute): self.names[id(x) in called].add(x.attr)
        self.numbers = {x.value for x in book if _is_number(x)}
        self.values = {ast.unparse(x.value): _loaded(x.value) for x in book if isinstance(
            x, ast.Assign | ast.AugAssign | ast.Return)}
        self.lines = {ast.unparse(x): _loaded(x) for x in book if _is_short(x)}
        self.calls = [(ast.unparse(x.func), ast.unparse(x), _loaded(x)) for x in book
                      if isinstance(x, ast.Call)]

    def every(self)->Iterator[Change]:
        functions = [x for x in ast.walk(self.tree) if isinstance(x, ast.FunctionDef)]
        for function in [self.tree, *functions]:
            if function is self.tree: inside = [*_outside(function)]
            else: inside = [x for statement in function.body for x in ast.walk(statement)]
            self.called = {id(x.func) for x in inside if isinstance(x, ast.Call)}
            self.own = {ast.unparse(x) for x in inside if isinstance(x, ast.stmt)}
            self.iterated = {id(z) for x in inside for z in _iterated(x)}
            self.counted = {id(z) for x in inside for z in _counted(x)}
            self.known = sorted({x.id for x in inside if isinstance(x, ast.Name)}
                                | {x.arg for x in ast.walk(function) if isinstance(x, ast.arg)})
            for x in getattr(function, 'decorator_list', []):
                start, end = self.span(x)
                yield Change(0, x.lineno, start - 1, end, '', 'left out')
            later = 3 if function is self.tree else 0 # what stands outside functions
            for x in inside: yield from self.of(x, later)
            for owner in [function, *inside]:
                for name in ('body', 'orelse'):
                    block = getattr(owner, name, [])
                    if isinstance(block, list): yield from self.of_block(block)

    def span(self, x)->tuple[int,int]:
        return (self.begins[x.lineno - 1] + x.col_offset,
                self.begins[x.end_lineno - 1] + x.end_col_offset)

    def said(self, x)->str:
        start, end = self.span(x)
        return self.text[start:end].decode()

    def of(self, x, later:int)->Iterator[Change]:
        "In place of an expression"
        if not isinstance(x, ast.expr): return
        for rank, new in self.instead(x):
            if isinstance(new, ast.AST):
                is_plain = isinstance(new, ast.Name | ast.Constant | ast.Call | ast.Attribute
                                      | ast.Subscript)
                new = ast.unparse(new) if is_plain else f'({ast.unparse(new)})'
            yield Change(rank + later, x.lineno, *self.span(x), new)

    def instead(self, x)->Iterator[tuple]: # rank, node or text
        if isinstance(x, ast.Compare) and len(x.ops) == 1:
            for kind in _others(x.ops[0]): yield 0, ast.Compare(x.left, [kind()], x.comparators)
        if isinstance(x, ast.BoolOp):
            for y in x.values: yield 0, y
            for kind in _others(x.op): yield 0, ast.BoolOp(kind(), x.values)
        if isinstance(x, ast.UnaryOp): yield 0, x.operand
        if isinstance(x, ast.BinOp):
            yield from ((0, x.left), (0, x.right))
            for kind in _others(x.op): yield 0, ast.BinOp(x.left, kind(), x.right)
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
            for name in self.known:
                if name != x.id: yield 3, name
        if id(x) in self.iterated:
            for name in self.known: yield 3, f'{x.id}[:{name}]'
        if id(x) in self.counted:
            for more in (' + 1', ' - 1'): yield 1, f'({self.said(x)}{more})'
            for name in self.known:
                yield 4, f'({self.said(x)} + {name})'
                yield 4, f'len({name})'

    def of_slice(self, x)->Iterator[tuple]:
        cuts = x.slice.elts if isinstance(x.slice, ast.Tuple) else [x.slice]
        if not any(isinstance(cut, ast.Slice) for cut in cuts): return
        yield 0, x.value
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
        for name, call, names in self.calls:
            if name == self.said(x.func) and names <= {*self.known}: yield 1, call
        for y in x.keywords:
            yield 0, ast.Call(x.func, x.args, [z for z in x.keywords if z != y])

    def of_block(self, block:list)->Iterator[Change]:
        "A statement is left out, two change places, one of ours is put in"
        for x in block:
            if isinstance(x, ast.stmt) and not isinstance(x, ast.FunctionDef | ast.Return):
                yield Change(0, x.lineno, *self.span(x), 'pass', 'left out')
            if isinstance(x, ast.With):
                end = self.span(x.items[-1].context_expr)[1]
                yield Change(0, x.lineno, self.span(x)[0], end, 'if True')
        for x, y in zip(block, block[1:]):
            if not isinstance(y, ast.stmt): continue
            (start, middle), (begin, end) = self.span(x), self.span(y)
            between = self.text[middle:begin].decode()
            yield Change(1, y.lineno, start, end, self.said(y) + between + self.said(x), 'moved')
        for x in block:
            if not isinstance(x, ast.stmt): continue
            if isinstance(x, ast.Assign | ast.AugAssign | ast.Return) and x.value:
                for line, names in self.values.items():
                    if names <= {*self.known}: yield Change(1, x.lineno, *self.span(x.value), line)
            start, _ = self.span(x)
            for line, names in self.lines.items():
                if not names <= {*self.known}: continue
                new = f'{line}\n'.replace('\n', '\n' + ' ' * x.col_offset)
                rank = 3 if line in self.own else 1
                yield Change(rank, x.lineno, start, start, new, 'put in')

def _others(x)->Iterator[type]: # of the same kind
    for kinds in ORDERS:
        if type(x) in kinds: yield from (kind for kind in kinds if type(x) is not kind)

def _counted(x)->list: # what may be one more or one less
    if isinstance(x, ast.Compare): found = [x.left, *x.comparators]
    elif isinstance(x, ast.Slice): found = [x.lower, x.upper]
    elif isinstance(x, ast.Call) and ast.unparse(x.func) in COUNTS: found = x.args
    elif isinstance(x, ast.BinOp): found = [x.left, x.right]
    elif isinstance(x, ast.Assign): found = [x.value]
    elif isinstance(x, ast.Call) and ast.unparse(x.func) == 'len': found = [x]
    else: found = []
    return [y for y in found if isinstance(y, ast.Name | ast.Call | ast.Attribute | ast.Subscript)]
def _iterated(x)->list: # what may be cut at a length
    if isinstance(x, ast.For): found = [x.iter]
    else: found = x.args if isinstance(x, ast.Call) and ast.unparse(x.func) == 'enumerate' else []
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
