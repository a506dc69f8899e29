#!/usr/bin/env python3
"""The everyday sentences, translated by several models and judged without their names.

    python benchmarks/judge.py sheet --direction en-de --out SHEET \\
        --models captions=nbs/models/multi30k-en-de seed-0=runs/en-de-0 …
    python benchmarks/judge.py count --sheet SHEET --judges JUDGE1 JUDGE2 JUDGE3 \\
        --out nbs/results/everyday.jsonl

SHEET/sheet.jsonl is what a judge sees: source, references, and the different translations
in an order of chance. A judge writes one line for each translation, {"id": "en-de-7b",
"verdict": "right"}, where the verdict is right, understandable or wrong; the third needs
only those on which the first two differ. SHEET/key.json says which model wrote what.
The rule stands in nbs/results/RULES.md.
"""
import argparse, json, random
from collections import Counter, defaultdict
from pathlib import Path
from string import ascii_lowercase
from transformer_nb.support.core import InputError, provenance, write_atomically
from transformer_nb.corpora import everyday_sentences
from transformer_nb.translation import Translator

VERDICTS = 'right', 'understandable', 'wrong'

def write_lines(path, rows):
    text = ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)
    write_atomically(path, text.encode())

def read_lines(path):
    lines = Path(path).read_text(encoding='utf8').splitlines()
    return [json.loads(line) for line in lines]

def translations(models, sources): # for each sentence the models of each translation
    by_sentence = [defaultdict(list) for _ in sources]
    for name, folder in models.items():
        for found, text in zip(by_sentence, Translator(folder).translate(sources)):
            found[text].append(name)
    return by_sentence

def write_sheet(direction, models, folder, sentences='everyday'):
    rows = [row for row in everyday_sentences(sentences) if row['direction'] == direction]
    draws = random.Random(0)
    sheet, key = [], {}
    for row, found in zip(rows, translations(models, [row['source'] for row in rows])):
        texts = draws.sample(sorted(found), len(found))
        ids = [f"{direction}-{row['number']}{letter}" for letter in ascii_lowercase]
        shown = dict(zip(ids, texts))
        sheet.append(row | dict(translations=shown))
        key |= {i: found[text] for i, text in shown.items()}
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(folder/'sheet.jsonl', sheet)
    write_atomically(folder/'key.json', json.dumps(key, indent=1).encode())

def read_judgements(path):
    found = {row['id']: row['verdict'] for row in read_lines(path)}
    for i, verdict in found.items():
        if verdict not in VERDICTS: raise InputError(f'{path}: {i} is {verdict!r}')
    return found

def decide(i, judges): # by two, or by the third where they differ
    given = [judge[i] for judge in judges if i in judge]
    if len(given) < 2: raise InputError(f'{i} needs two judges')
    if given[0] == given[1]: return given[0]
    if len(given) < 3: raise InputError(f'{i} is {" and ".join(given)}; it needs a third')
    return given[2]

def count(folder, judge_files):
    "A line for each translation, with its models and judgements; and counts by model"
    judges = [read_judgements(path) for path in judge_files]
    key = json.loads((folder/'key.json').read_text(encoding='utf8'))
    rows = []
    for row in read_lines(folder/'sheet.jsonl'):
        for i, text in row.pop('translations').items():
            given = [judge.get(i) for judge in judges]
            about = dict(translation=text, models=key[i], judges=given)
            rows.append(row | about | dict(verdict=decide(i, judges)))
    counts = Counter((model, row['verdict']) for row in rows for model in row['models'])
    return rows, counts

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    tasks = parser.add_subparsers(dest='task', required=True)
    sheet = tasks.add_parser('sheet')
    sheet.add_argument('--direction', choices=['en-de', 'de-en'], required=True)
    sheet.add_argument('--list', choices=['everyday', 'typed'], default='everyday')
    sheet.add_argument('--models', nargs='+', required=True, metavar='NAME=FOLDER')
    counting = tasks.add_parser('count')
    counting.add_argument('--sheet', type=Path, required=True)
    counting.add_argument('--judges', nargs='+', required=True)
    for task in (sheet, counting): task.add_argument('--out', type=Path, required=True)
    a = parser.parse_args()
    if a.task == 'sheet':
        models = dict(item.split('=', 1) for item in a.models)
        return write_sheet(a.direction, models, a.out, a.list)
    rows, counts = count(a.sheet, a.judges)
    others = [row for row in read_lines(a.out) if row['direction'] != rows[0]['direction']
              ] if a.out.exists() else []
    write_lines(a.out, others + [row | provenance() for row in rows])
    for model in sorted({model for model, _ in counts}):
        print(model, {verdict: counts[model, verdict] for verdict in VERDICTS})

if __name__ == '__main__': main()
