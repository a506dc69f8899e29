"""The first page of the site, from docs/landing.md: what can be seen before any script or
weight has come is computed here, when the site is built.

A translation by the shipped model stands ready, with the lines of its attention, in the box
of the live figure that takes its place. A picture of a model that learns stands in the box
of the slider. And the grader answers a first try at stage 1.
"""
import html, json, re, subprocess, sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from urllib.parse import quote
import live
from live import EXAMPLES, LONGEST, SHOWN
from look import parts
from readme import fenced
from transformer_nb.formats.page import FAINT

MODEL, END = 'everyday-en-de', '</s>'
TRY = ('**Try it.** A small Transformer, the kind of network that is inside ChatGPT, '
       'translates what you type into German, here in your browser. It makes mistakes.')
LOOK = ('Click on another German word: where did the model look while it wrote that? '
        '<a href="{workbench}">Every head and every step of it</a>')
LEARN = ('Here are 600 steps of its training; the slider goes back. When does it begin to '
         'look in the right place, and what has it written until then?')
STUDENT = '''def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1)
    if mask is not None: scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).nan_to_num()
    return weights @ value, weights'''
MASKS = '''def padding_mask(ids): return (ids != 0)[:, None, None]
def causal_mask(t): return torch.ones(t, t).tril().bool()'''

escape = html.escape

# The translation

def first_example(translator):
    "Sentence and translation: the first of `EXAMPLES` that the model gets right"
    for text, right in EXAMPLES.items():
        [candidates] = translator.candidates([text], alignments=True)
        if candidates[0].text == right: return text, candidates[0]
    raise SystemExit(f'{MODEL} translates none of the examples of docs/live.py as it '
                     'should; add one that it gets right')

def label(pieces, i):
    "As `label` in words.js: -n goes on with a word"
    goes_on = i > 0 and pieces[i][:1].isalnum()
    return f'-{pieces[i]}' if goes_on else pieces[i].removeprefix(' ')

def first_pick(best):
    "The token that looked mostly at a word, the further back the better, as in the figure"
    def value(i, weights):
        found = [w + (w >= .5)*(2 + i - j) for j, w in enumerate(weights)
                 if re.match(r' \S{4}', best.source_pieces[j])]
        return max(found, default=0)
    values = [value(i, row) for i, row in enumerate(best.alignment.tolist())]
    return values.index(max(values))

def looked_at(best, pick):
    "In words: where the model looked while it wrote a token"
    weights = best.alignment[pick].tolist()
    order = sorted(range(len(weights)), key=lambda j: -weights[j])
    def name(j):
        text = label(best.source_pieces, j)
        return 'the end of the sentence' if text == END else f'“{text}”'
    named = [f'{name(j)} ({weights[j]:.0%})' for j in order[:2]]
    token = label(best.pieces, pick)
    return (f'To write “{token}”, the model looked most at {named[0]}, then at {named[1]}.')

PADDING, GAP, NARROWEST = .7, .12, 1.45 # em
WIDE, LETTER, NARROW = .85, .52, .3 # about, of m, of most, and of i
HIGH = 100 # of no unit: CSS stretches the lines

def letters(text):
    return sum(WIDE if x in 'mwMW' else NARROW if x in "fijlrt.,'I" else LETTER
               for x in text)

def places(labels):
    "Left edge and width of each token, in em"
    found, x = [], 0
    for text in labels:
        width = max(NARROWEST, PADDING + letters(text))
        found.append((x, width))
        x += width + GAP
    return found

def token_row(labels, pick=None):
    made = []
    for i, ((x, width), text) in enumerate(zip(places(labels), labels)):
        name = ' class="chosen"' if i == pick else ''
        style = f'left:{x:.2f}em;width:{width:.2f}em'
        made.append(f'<span{name} style="{style}">{escape(text)}</span>')
    return ''.join(made)

def drawn_lines(source, target, weights, pick):
    "From the token that was picked to each that it looked at, as wide as its weight"
    def middle(labels, i):
        x, width = places(labels)[i]
        return 10*(x + width/2)
    start, y = middle(target, pick), HIGH
    for j, weight in enumerate(weights[:len(source)]):
        if weight < FAINT: continue
        end = middle(source, j)
        path = f'M{start:.0f},{y}C{start:.0f},{y/2:.0f} {end:.0f},{y/2:.0f} {end:.0f},0'
        yield f'<path class="look" d="{path}" stroke-width="{1 + 9*weight:.1f}"/>'

def translation(translator):
    text, best = first_example(translator)
    pick = first_pick(best)
    source, target = ([label(pieces, i) for i in range(len(pieces)) if pieces[i] != END]
                      for pieces in (best.source_pieces, best.pieces))
    width = max(sum(places(labels)[-1]) for labels in (source, target))
    lines = ''.join(drawn_lines(source, target, best.alignment[pick].tolist(), pick))
    look = LOOK.format(workbench=f'translate_here.html#looked?t={quote(text)}')
    box = f'''<div class="live-field"><label for="live-first">English</label>\
<input type="text" id="live-first" value="{escape(text)}" lang="en" maxlength="{LONGEST}" \
autocomplete="off" spellcheck="false"></div>
<p class="live-whole" lang="de">{escape(best.text)}</p>
{still_asleep()}
<div class="live-sides ready" style="--ems:{width:.2f}"><div>
<div role="group" aria-label="Tokens of the sentence" lang="en">{token_row(source)}</div>
<svg viewBox="0 0 {10*width:.0f} {HIGH}" preserveAspectRatio="none" \
aria-hidden="true">{lines}</svg>
<div role="group" aria-label="Translation" lang="de">{token_row(target, pick)}</div>
</div></div>
<p class="live-says">{escape(looked_at(best, pick))}</p>'''
    return boxed('translation', TRY, box, look, model='everyday')

def still_asleep():
    "The examples of the figure, which it wakes: their place is taken from the beginning"
    buttons = [f'<button type="button" aria-disabled="true">{text}</button>'
               for text in EXAMPLES]
    return f'<div class="live-presets">{"".join(buttons)}</div>'

def boxed(name, words, stage, after='', model=None):
    "The box of a live figure that has something to show before the figure comes"
    needs = f' data-model="{model}"' if model else ''
    return (f'<div class="live" data-live="{name}"{needs} role="group" '
            f'aria-label="Live figure: {name}">\n\n{words}\n\n'
            f'<div class="live-stage">\n{stage}\n</div>\n\n{after}\n\n</div>')

# The model that learns

def learning(rows):
    "A picture as it was stored, until the slider comes"
    row = rows[SHOWN]
    squares = []
    for i, weights in enumerate(row['weights']):
        squares += [f'<rect x="{j}" y="{i}" width="1" height="1" fill-opacity="{w/100}"/>'
                    for j, w in enumerate(weights) if w]
    n = len(row['weights'])
    says = (f'After {row["step"]} steps the model copies {row["exact"]} of {row["of"]} '
            'sequences that it has never seen without a mistake.')
    words = ('Where it looks: a row for each token that it writes, a column for each that '
             'it reads.')
    stage = (f'<svg class="ready-map" viewBox="0 0 {n} {n}" role="img" '
             f'aria-label="{words}">{"".join(squares)}</svg>\n'
             f'<p class="live-says">{says}</p>')
    return boxed('learning', LEARN, stage)

# The grader

GRADE = '''import sys
from transformer_nb.grading.marking import grade, report
from transformer_nb.grading.stages import STAGES
print(report(grade(sys.argv[1], STAGES[0])))'''

def graded(code):
    """What it says of a first try at stage 1. It forks, which a process that has computed
    with several threads cannot: so it gets one of its own"""
    with TemporaryDirectory() as folder:
        text = f'import torch\n\n{code}\n\n{MASKS}\n'
        Path(folder, 'attention.py').write_text(text, encoding='utf8')
        done = subprocess.run([sys.executable, '-c', GRADE, folder], check=True,
                              stdout=subprocess.PIPE, text=True)
    said = done.stdout.splitlines()
    most = 4 # lines are enough to see how it speaks
    fold = partial(wrap, width=84, subsequent_indent='      ')
    shown = [part for line in said[:most]
             for part in fold(line, initial_indent=indent(line))]
    return '\n'.join([*shown, '  …'] if len(said) > most else shown)

def indent(line): return '' if line.startswith('Stage') else '  '

# The page

def page(root, translator):
    "Markdown for Sphinx"
    from repository import settings
    about = settings(root)
    box = translation(translator)
    lines = (root/'nbs/results/learning.jsonl').read_text(encoding='utf8').splitlines()
    answer = graded(STUDENT)
    if 'math.sqrt(d_k)' not in answer: raise ValueError(f'not graded: {answer}')
    made = dict(translation=box, learning=learning(list(map(json.loads, lines))),
                 student=fenced(STUDENT, 'python'), grader=fenced(answer, 'text'))
    text = (root/'docs/landing.md').read_text(encoding='utf8')
    minutes = {entry.page: entry.minutes for _, rows in parts(root) for entry in rows}
    text = text.format(title=about['title'], minutes=minutes['00_introduction'])
    for name, part in made.items(): text = text.replace(f'<!-- {name} -->', part)
    return text + live.LOADER
