"""The table of others' Transformers, from nbs/results/proved.jsonl, as Markdown."""
import json, re

PLACE = '*(On the site the table stands here; its lines: `nbs/results/proved.jsonl`.)*'
SHORT = ('norm', 'kind of norm', 'activation', 'positions')

def rows(root):
    path = root/'nbs/results/proved.jsonl'
    if not path.exists(): return []
    found = [json.loads(line) for line in path.read_text(encoding='utf8').splitlines()]
    for row in found: # the first digits of a commit name it
        row['what'] = re.sub(r'\b([0-9a-f]{7})[0-9a-f]{33}\b', r'\1', row.get('what', ''))
    return found

def same_to(row):
    numbers = [x for x in (row['difference'], row['own_tables']) if x is not None]
    if numbers: return f'{min(numbers):.0e}'
    return f'not explained: {row["unexplained"][0]}'

def overview(found):
    yield f'| model | {" | ".join(SHORT)} | the same function to |'
    yield '|---|' + '---|' * (len(SHORT) + 1)
    for row in found:
        if 'refused' in row: continue
        here = {name: value for name, value, *_ in row['rows']}
        cells = [here.get(name, '–') for name in SHORT]
        yield f'| {row["what"]} | {" | ".join(cells)} | {same_to(row)} |'

def each(found):
    for row in found:
        if 'refused' in row:
            yield f'### {row["name"]}\n\nNot asked: {row["refused"]}\n'
            continue
        yield f'### {row["what"]}\n\n{row["identity"]}\n'
        for name, here, paper, verdict, where in row['rows']:
            if verdict != 'as in the paper':
                yield f'- {verdict}: {name} {here} (paper: {paper})'
        for v in row['verdicts']:
            if v['outcome'] in ('fails', 'differs', 'undecided'):
                parts = [v['told'], v['case'], v['where']]
                yield f'- {v["outcome"]}: {v["name"]}. {" ".join(x for x in parts if x)}'
        held = [v['name'] for v in row['verdicts'] if v['outcome'] == 'holds']
        yield f'- holds: {", ".join(held)}\n'

def table(root):
    found = rows(root)
    return '\n'.join(['', *overview(found), '', *each(found)])
