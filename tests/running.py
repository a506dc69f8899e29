"Commands run as a user runs them, and what the tests of several files share."
import ast, os, re, subprocess, sys
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock
from book import cells

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parent.parent

def run(*args, stdin=b'', cwd=None, **env):
    name, *rest = args
    env = {**os.environ, 'TRANSFORMER_NB_DATA': '', **env}
    return subprocess.run([BIN/name, *map(str, rest)], input=stdin, capture_output=True,
                          cwd=cwd, timeout=300, env=env)

def call(command, *args, stdin=b'', **options):
    "The same without a process of its own, which takes seconds to start"
    streams = [TextIOWrapper(BytesIO(data), 'utf8', newline='', write_through=True)
               for data in (stdin, b'', b'')]
    new_stdin, out, error = streams
    status, old_stdin = 0, sys.stdin
    with redirect_stdout(out), redirect_stderr(error):
        sys.stdin = new_stdin
        try: command(*args, **options)
        except SystemExit as end: status = end.code
        finally: sys.stdin = old_stdin
    return SimpleNamespace(returncode=status, stdout=out.buffer.getvalue(),
                           stderr=error.buffer.getvalue())

def call_script(command, *words, stdin=b''):
    "What the console script of that name does with these words, in this process"
    module = dict(__name__='__main__', __file__=command.__name__, command=command)
    arguments = [command.__name__, *map(str, words)]
    with mock.patch.object(sys, 'argv', arguments):
        return call(lambda: exec('command()', module), stdin=stdin)

def write(path, lines):
    text = ''.join(line + '\n' for line in lines)
    path.write_text(text, encoding='utf8')

def read_lines(path): return path.read_text(encoding='utf8').splitlines()

def refuses(done, *words):
    "Status 2, one line on standard error that has the words, nothing on standard output"
    error = done.stderr.decode()
    assert done.returncode == 2 and done.stdout == b'', error
    check_message(error, words)

def check_message(error, words):
    lines = [line for line in error.splitlines() if 'pairs to train on' not in line]
    assert len(lines) == 1 and 'Traceback' not in error, error
    for word in words: assert word in lines[0], lines[0]

# What a chapter defines without exporting it

def definitions(stem):
    "A module of its imports, functions, classes and constants"
    module = ModuleType(stem)
    for cell in cells(ROOT/f'nbs/{stem}.ipynb', 'code'):
        for node in filter(is_definition, ast.parse(cell.text).body):
            code = compile(ast.Module([node], []), f'{stem} cell {cell.number}', 'exec')
            try: exec(code, vars(module))
            except NameError: continue # it is made of what the chapter computes
    return module

def is_definition(node):
    if isinstance(node, ast.If): return ast.unparse(node.test) == 'TYPE_CHECKING'
    if not isinstance(node, ast.Assign): # but an import or a function
        kinds = ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef
        return isinstance(node, kinds)
    sides = [getattr(target, 'elts', [target]) for target in node.targets]
    names = [ast.unparse(name) for side in sides for name in side]
    return all(re.fullmatch(r'_?[A-Z]\w*', name) for name in names)
