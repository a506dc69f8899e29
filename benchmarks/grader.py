#!/usr/bin/env python3
"""What the grader says of wrong versions, and of right ones.

    python benchmarks/grader.py --out FILE                   # of wrong.jsonl
    python benchmarks/grader.py --out FILE --versions SEALED # such as sealed.jsonl
    python benchmarks/grader.py --count FILE                 # counts and exact intervals

A version differs from a right submission in one file. It is graded as `tnb_check` grades,
and a line of FILE says what it got and what was said. Who reads it puts a word into `read`:
*true* (with the line, or when), *vague* (true, without either), *false* (a sentence that is
not so), or *right* (only another way to write it). Lines that are there already are not
graded again.
"""
import argparse, json, os, resource, shutil, subprocess, sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
import torch
from scipy.stats import binomtest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
os.environ['IN_TEST'] = '1'

from transformer_nb.grading.kit import Kit
from transformer_nb.grading.marking import grade
from transformer_nb.grading.stages import STAGES
from transformer_nb.grading.writer import WEIGHTS
from transformer_nb.support.core import provenance

RIGHT, MODEL = ROOT/'transformer_nb/assignment/right', str(ROOT/'nbs/models/multi30k-en-de')
BY_FILE = {stage.file: stage for stage in STAGES}

def versions_of(path): # sample, name, file, text
    for line in path.read_text(encoding='utf8').splitlines():
        row = json.loads(line)
        text = row.get('text') or (RIGHT/row['file']).read_text(encoding='utf8')
        for old, new in row.get('changes', []):
            assert old in text, row
            text = text.replace(old, new)
        yield row['by'], row['what'], row['file'], text

FIT = """import safetensors.torch as files, torch
def save(model, *_, **options):
    weights = {name: x.contiguous() for name, x in model.state_dict().items()}
    files.save_file(weights, 'fit')
torch.nn.Module.load_state_dict = save
import writer
writer.load_writer('writer.safetensors')"""

def fitted(place): # the weights that its own model has at first, trained by nobody
    subprocess.run([sys.executable, '-c', FIT], cwd=place, capture_output=True, timeout=60)
    return shutil.move(f'{place}/fit', f'{place}/{WEIGHTS}') if Path(place, 'fit').exists() else ''

def graded(file, text):
    with TemporaryDirectory() as place:
        for path in RIGHT.glob('*.py'): shutil.copy(path, place)
        Path(place, file).write_text(text, encoding='utf8')
        shutil.copy(ROOT/'nbs/models/writer/model.safetensors', Path(place, WEIGHTS))
        result = grade(place, BY_FILE[file], Kit(model=MODEL))
        lost = [m for m in result.marked if m.check.part.name == 'load_writer'
                and any(d.what == 'error' for d in m.found)]
        if lost and fitted(place):
            result = grade(place, BY_FILE[file], Kit(model=MODEL))
            lost = [m for m in result.marked if m.check.expected][-2:] # what training gives
    is_told = any(m.found for m in result.marked if m.check.expected and m not in lost)
    said = [x for x in result.remarks if is_told or not (lost and x.startswith('load_writer'))]
    if lost: said.append(f'not asked of load_writer: {", ".join(m.check.title for m in lost)}')
    most = result.stage.points - sum(m.check.points for m in lost)
    return dict(points=result.points, most=most, said=said)

def seconds(): # of the processor, of this process and its children
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(x.ru_utime + x.ru_stime for x in used)

def read_rows(path):
    if not path.exists(): return []
    return [*map(json.loads, path.read_text(encoding='utf8').splitlines())]

def key(row): return row['sample'], row['what'], row['file']

def run(versions, out, stage):
    done = set(map(key, read_rows(out)))
    for sample, what, file, text in versions:
        if stage not in (None, BY_FILE[file].number): continue
        if (sample, what, file) in done: continue
        before = seconds()
        row = dict(commit=provenance()['commit'], sample=sample, what=what, file=file,
                   **graded(file, text))
        row |= dict(seconds=round(seconds() - before, 2), read='', by='')
        print(f"{row['points']} of {row['most']} {file}: {what}", flush=True)
        with out.open('a', encoding='utf8') as lines:
            lines.write(json.dumps(row, ensure_ascii=False) + '\n')

def share(k, n): # with Clopper and Pearson's interval
    interval = binomtest(k, n).proportion_ci()
    return f'{k} of {n}, {k/n:.1%} [{interval.low:.1%}, {interval.high:.1%}]'

def count(path):
    rows = read_rows(path)
    for sample in [*dict.fromkeys(row['sample'] for row in rows), 'all']:
        some = [row for row in rows if sample in (row['sample'], 'all')]
        right = [row for row in some if row['read'] == 'right']
        wrong = [row for row in some if row['read'] != 'right']
        words = Counter(row['read'] for row in wrong)
        refused = sum(row['points'] < row['most'] for row in right)
        full = sum(row['points'] == row['most'] for row in wrong)
        print(f'{sample}: full points to wrong work {share(full, len(wrong))}; told truly, '
              f'with line or when, {share(words["true"], len(wrong))}; vague '
              f'{words["vague"]}, false {words["false"]}, not read {words[""]}; right work '
              f'refused {refused} of {len(right)}')

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--out', type=Path)
    parser.add_argument('--versions', type=Path, default=ROOT/'benchmarks/wrong.jsonl')
    parser.add_argument('--stage', type=int)
    parser.add_argument('--count', type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.count: return count(options.count)
    run(versions_of(options.versions), options.out, options.stage)

if __name__ == '__main__': main()
