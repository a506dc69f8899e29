#!/usr/bin/env python3
"""What the grader of chapter 15c does with submissions that nobody wrote for it.

    python benchmarks/grader.py FOLDER ...                   # right submissions, mutated
    python benchmarks/grader.py --each 6 --out FILE FOLDER   # six mutants of each file
    python benchmarks/grader.py --stage 3 FOLDER             # one stage
    python benchmarks/grader.py --versions                   # tests/versions.py, held out
    python benchmarks/grader.py --strangers FOLDER           # FOLDER/wrong/NN, not /right

Each file is changed in one place: an operator, a constant, an option, an argument, a
call left out, two lines exchanged. A mutant is graded in a copy of this process, and a
line of FILE says what became of it: `full` points; `named` (a mistake of the catalogue),
`seen` (what the numbers show), `parameters` (missing or too many), `stopped` (Python's
error with its line), or `unnamed`. A mutant with full points is another way to write the
same, or a check that is missing, and a person decides which; a person also reads the names.
"""
import argparse, ast, copy, json, os, pickle, random, re, shutil, signal, subprocess, sys
from collections import Counter
from difflib import ndiff
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
import torch

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT/folder) for folder in ('', 'tests', 'tools')]
os.environ['IN_TEST'] = '1'

from test_build import KIT, changed, loaded
from transformer_nb.grading.checks import Kit
from transformer_nb.grading.naming import Outcome, observed
from transformer_nb.grading.process import right_before
from transformer_nb.grading.report import grade, judged
from transformer_nb.grading.stages import STAGES, mistake_name, mistakes
from versions import VERSIONS, looked_at

OPERATORS = {ast.Add: [ast.Sub], ast.Sub: [ast.Add],
             ast.Mult: [ast.Div], ast.Div: [ast.Mult], ast.Pow: [ast.Mult],
             ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.GtE],
             ast.Gt: [ast.GtE, ast.Lt], ast.GtE: [ast.Gt], ast.Eq: [ast.NotEq],
             ast.NotEq: [ast.Eq], ast.BitAnd: [ast.BitOr], ast.BitOr: [ast.BitAnd]}

KEPT = ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef

def constants(value): # others in the place of one
    if isinstance(value, bool): return [not value]
    if isinstance(value, int): return [value + 1, value - 1, -value] if value else [1]
    if isinstance(value, float): return [2*value, -value] if value else [1.]
    return []

def changes(node): # functions that change a copy of a node, or a node to stand in its place
    kind = type(getattr(node, 'op', None))
    for other in OPERATORS.get(kind, ()):
        yield with_operator(node, other())
    if isinstance(node, ast.BinOp): yield from (node.left, node.right)
    if isinstance(node, ast.BinOp) and kind in (ast.Sub, ast.Div, ast.MatMult, ast.Pow):
        yield ast.BinOp(node.right, node.op, node.left)
    if isinstance(node, ast.UnaryOp): yield node.operand
    if isinstance(node, ast.Compare):
        for other in OPERATORS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [other()], node.comparators)
    if isinstance(node, ast.Constant):
        yield from (ast.Constant(value) for value in constants(node.value))
    if isinstance(node, ast.IfExp): yield from (node.body, node.orelse)
    if isinstance(node, ast.Call): yield from calls(node)

def with_operator(node, operator): # of a + b, or of a += b
    new = copy.copy(node)
    new.op = operator
    return new

def calls(node):
    for i in range(len(node.keywords)):
        yield ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i+1:])
    for i in range(len(node.args) - 1): # two neighbours exchanged
        a = node.args
        yield ast.Call(node.func, [*a[:i], a[i+1], a[i], *a[i+2:]], node.keywords)
    if isinstance(node.func, ast.Attribute): yield node.func.value # x.relu() becomes x
    if node.args: yield node.args[0]                               # drop(x) becomes x

def mutants(text): # line, text
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    for n, node in enumerate(nodes):
        for i, _ in enumerate(changes(node)):
            new = copy.deepcopy(tree)
            twin = list(ast.walk(new))[n]
            put(new, twin, list(changes(twin))[i])
            yield node.lineno, new
        body = getattr(node, 'body', None)
        if not isinstance(body, list): continue
        for i, line in enumerate(body):
            if isinstance(line, KEPT): continue
            new = copy.deepcopy(tree)
            list(ast.walk(new))[n].body[i] = ast.Pass()
            yield line.lineno, new
            if i + 1 == len(body) or isinstance(body[i+1], ast.Return): continue
            new = copy.deepcopy(tree)
            rows = list(ast.walk(new))[n].body
            rows[i], rows[i+1] = rows[i+1], rows[i]
            yield line.lineno, new

def put(tree, old, new):
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is old: setattr(node, name, new)
            if isinstance(value, list) and old in value: value[value.index(old)] = new

def in_copy(run, seconds=300): # what a function returns, in a copy of this process
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(seconds)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(1, 2)
        with os.fdopen(write, 'wb') as out: pickle.dump(run(), out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, 'rb') as found: data = found.read()
    os.waitpid(pid, 0)
    return pickle.loads(data) if data else None

def outcomes(stage, text, probes):
    code, found = loaded(stage, text, KIT), {}
    for probe in probes:
        with right_before(probe.part, code, KIT):
            found[probe.title] = observed(probe, code, KIT)
    return found

def graded(stage, text, must): # with the checks that train, or without
    probes = [p for p in stage.probes if p.points and (must or not p.must)]
    def run():
        try: return outcomes(stage, text, probes)
        except BaseException as e: return {p.title: Outcome({}, f'{type(e).__name__}: {e}')
                                           for p in probes}
    found = in_copy(run) or {}
    lost = Outcome({}, 'the process ended, or not done')
    return judged(stage, {p: found.get(p.title, lost) for p in probes}, KIT)

KINDS = {'unnamed': 'none of the', 'stopped': r'ends? with "',
         'parameters': 'begin with the parameters|not registered'}

def kind_of(remark, stage): # `named`, or what else
    known = {mistake_name(m) for part in stage.parts for m in mistakes(part)}
    if remark.partition(':')[0] in known or remark.startswith('One of'): return 'named'
    return next((kind for kind, words in KINDS.items() if re.search(words, remark)), 'seen')

def fate(result):
    if not any(check.message for check in result.checks): return 'full'
    kinds = [kind_of(remark, result.stage) for remark in result.remarks]
    order = 'named', 'seen', 'parameters', 'stopped', 'unnamed'
    return next((kind for kind in order if kind in kinds), 'unnamed')

def commit():
    return subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], cwd=ROOT, text=True,
                          capture_output=True, check=True).stdout.strip()

def chosen(text, each, seed=1): # line, text: different ones; some at random, or all
    same = ast.unparse(ast.parse(text))
    found = {}
    for line, tree in mutants(text):
        found[ast.unparse(ast.fix_missing_locations(tree))] = line
    rows = [(line, new) for new, line in found.items() if new != same]
    return rows if each is None else random.Random(seed).sample(rows, min(each, len(rows)))

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('folders', nargs='*', type=Path)
    parser.add_argument('--versions', action='store_true',
                        help='grade the versions of tests/versions.py that were held out')
    parser.add_argument('--strangers', type=Path,
                        help='a folder: right/, and wrong/NN/ with a file that differs')
    parser.add_argument('--stage', type=int)
    parser.add_argument('--each', type=int, help='take so many mutants of each file')
    parser.add_argument('--seed', type=int, default=1, help='which ones')
    parser.add_argument('--out', type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    total = Counter()
    if options.versions: written(options, total)
    if options.strangers: by_strangers(options, total)
    for folder, stage in product(options.folders, STAGES):
        path = folder/stage.file
        if options.stage not in (None, stage.number) or not path.exists(): continue
        text = path.read_text(encoding='utf8')
        for line, mutant in chosen(text, options.each, options.seed):
            result = graded_cheaply(stage, mutant)
            gone, new = difference(text, mutant)
            record = dict(commit=commit(), folder=folder.name, file=stage.file, line=line,
                          was=gone, became=new, fate=fate(result), said=result.remarks)
            total[record['fate']] += 1
            print(f"{record['fate']} {stage.file}:{line} {gone} -> {new}", flush=True)
            if options.out: write(options.out, record)
    print(dict(total), {k: f'{n/total.total():.1%}' for k, n in total.items()})

def graded_cheaply(stage, text): # the checks that train come only where all else is right
    result = graded(stage, text, False)
    if fate(result) != 'full' or not any(p.must for p in stage.probes): return result
    return graded(stage, text, True)

def written(options, total): # by a person, before the grader had seen them
    done = answered(options.out, 'versions')
    for version in VERSIONS:
        number, words, changes = version
        stage = STAGES[number - 1]
        if looked_at(version) or options.stage not in (None, number): continue
        if (stage.file, words) in done: continue
        result = graded_cheaply(stage, changed(stage.file, changes))
        record = dict(commit=commit(), folder='versions', file=stage.file, line=0,
                      was=[words], became=[], fate=fate(result), said=result.remarks)
        total[record['fate']] += 1
        print(f"{record['fate']} {stage.file}: {words}", flush=True)
        if options.out: write(options.out, record)

def by_strangers(options, total): # each differs from the right ones in a file
    "As `tnb_check` grades it, in a process of its own, by the conventions of their kit"
    folder, done = options.strangers, answered(options.out, options.strangers.name)
    kit = Kit(**json.loads((folder/'right/kit.json').read_text()), model=KIT.model)
    for path, stage in product(sorted((folder/'wrong').glob('[0-9]*')), STAGES):
        number_ok = options.stage in (None, stage.number)
        if not (path/stage.file).exists() or not number_ok: continue
        if (stage.file, path.name) in done: continue
        with TemporaryDirectory() as place:
            shutil.copytree(folder/'right', place, dirs_exist_ok=True)
            shutil.copy(path/stage.file, place)
            result = grade(place, stage, kit)
        record = dict(commit=commit(), folder=folder.name, file=stage.file, line=0,
                      was=[path.name], became=[], fate=fate(result), said=result.remarks)
        total[record['fate']] += 1
        print(f"{record['fate']} {stage.file}: {path.name}", flush=True)
        if options.out: write(options.out, record)

def answered(path, folder): # file, words: so that a run that was ended goes on
    if path is None or not path.exists(): return set()
    rows = map(json.loads, path.read_text(encoding='utf8').splitlines())
    return {(row['file'], row['was'][0]) for row in rows if row['folder'] == folder}

def write(path, record):
    with path.open('a', encoding='utf8') as out:
        out.write(json.dumps(record, ensure_ascii=False) + '\n')

def difference(text, mutant): # lines that are gone, lines that are new
    before, after = ast.unparse(ast.parse(text)).splitlines(), mutant.splitlines()
    lines = list(ndiff(before, after))
    return [[line[2:].strip() for line in lines if line[0] == sign] for sign in '-+']

if __name__ == '__main__': main()
