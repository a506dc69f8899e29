#!/usr/bin/env python3
"""How long each chapter takes to read: 200 words and 15 lines of code per minute.

    python tools/minutes.py          # each chapter, Part I, and the line
    python tools/minutes.py 05       # where the minutes of chapter 05 go, by section

Counted is what a first reader sees: prose, tables, and shown code. Asides, what the site
folds (imports, plumbing, checks marked `fold`), and exercises are counted by themselves.

That is skimming. To *study* a chapter, with a pencil in hand, adds a minute for each
displayed formula, two seconds for each number or symbol in the prose, the printed output,
and ten minutes for each exercise.
"""
import re, sys
from collections import defaultdict
from book import ROOT, cells, chapters
from folds import FOLDED
sys.path.insert(0, str(ROOT/'docs'))
import live
from look import parts
from pages import look

WORDS, LINES = 200, 15 # per minute
FORMULA, NUMBER, EXERCISE = 1, 1/30, 10 # minutes for each
NUMBERED = re.compile(r'^\*\*\d\. ', re.M) # an exercise
FENCE = re.compile(r'^```\w*\n(.*?)^```', re.M | re.S)

def word_count(text): # `[chapter](file)` is read as `chapter`
    text = live.COMMENT.sub(r'\2', text) # without what only JupyterLab shows
    text = re.sub(r'\]\([^)]*\)', ']', FENCE.sub('', text))
    return sum(any(map(str.isalnum, word)) for word in text.split())

def line_count(text): return sum(bool(line.strip()) for line in text.splitlines())

def is_shown(cell):
    tags = look(cell)['tags'] if cell.text and 'hide' not in cell.flags else ['hide']
    return not {'hide', 'hide-input', 'remove-input'} & set(tags)

def kind_of(heading, before):
    level = len(heading) - len(heading.lstrip('#'))
    if heading.startswith(FOLDED): return 'asides'
    if level == 2 and 'Exercises' in heading: return 'exercises'
    return before if level > 3 or before == 'exercises' and level == 3 else 'core'

def sections(path):
    "Words and lines of each section: [(kind, heading, words, lines), …]"
    found, kind = [], 'core'
    for cell in cells(path):
        if cell.kind == 'code':
            if is_shown(cell) and found: found[-1][3] += line_count(cell.text)
            continue
        for part in re.split(r'^(?=#{1,6} )', cell.source, flags=re.M):
            heading = part.split('\n')[0] if part.startswith('#') else None
            if heading:
                kind = kind_of(heading, kind)
                found.append([kind, heading, 0, 0])
            if found: found[-1][2] += word_count(part)
            if found: found[-1][3] += sum(map(line_count, FENCE.findall(part)))
    return found

def minutes(path):
    "Minutes of core, asides and exercises"
    total = defaultdict(float)
    for kind, _, words, lines in sections(path): total[kind] += words/WORDS + lines/LINES
    return total

def the_line(): # its chapters, as the map has them
    rows = [entry for _, entries in parts(ROOT) for entry in entries]
    return {row.page for row in rows if row.minutes and not row.is_workshop}

def printed_lines(cell):
    texts = [''.join(output.get('text', '')) for output in cell.outputs]
    return sum(map(line_count, texts))

def study(path):
    "Minutes of the core with a pencil in hand, and of the exercises"
    kind, more = 'core', 0.
    for cell in cells(path):
        if cell.kind == 'code':
            if kind != 'asides': more += printed_lines(cell) / LINES
            continue
        for part in re.split(r'^(?=#{1,6} )', cell.source, flags=re.M):
            if part.startswith('#'): kind = kind_of(part.split('\n')[0], kind)
            if kind == 'asides': continue
            more += FORMULA * part.count('$$') / 2
            more += NUMBER * len(re.findall(r'\S*[$\d]\S*', part))
            if kind == 'exercises': more += EXERCISE * len(NUMBERED.findall(part))
    return minutes(path)['core'] + more

def main(wanted):
    rows = [p for p in chapters(ROOT) if not wanted or p.stem.startswith(tuple(wanted))]
    kinds = 'core', 'asides', 'exercises'
    print(f'{"":22}', *(f'{kind:>9}' for kind in (*kinds, 'study')))
    for path in rows:
        counted = [minutes(path)[kind] for kind in kinds]
        print(f'{path.stem:22}', *(f'{n:9.1f}' for n in (*counted, study(path))))
        if not wanted: continue
        for kind, heading, words, lines in sections(path):
            spent = words/WORDS + lines/LINES
            print(f'    {spent:5.1f} {kind:9} {words:5} words {lines:3} lines  {heading}')
    part = [p for p in rows if re.match(r'0[0-7]_|07a_', p.stem)]
    core, whole = sum(minutes(p)['core'] for p in part), sum(map(study, part))
    print(f'Part I: {core:.0f} minutes of core, {whole:.0f} to study')
    line = sum(minutes(p)['core'] for p in rows if p.stem in the_line())
    print(f'The line: {line:.0f} minutes of core')

if __name__ == '__main__': main(sys.argv[1:])
