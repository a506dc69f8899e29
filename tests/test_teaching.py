"""What a teacher gets: the answers of the questions are computed, the Moodle file has the
form that Moodle reads, and the routes add up."""
import ast, importlib, re, textwrap
import xml.etree.ElementTree as ET
from collections import Counter
from functools import cache
from math import log, sqrt
from pathlib import Path
from pkgutil import walk_packages
import torch
from book import cells
import transformer_nb
from running import definitions
from teaching import chapter_questions, moodle, read_questions, with_minutes

ROOT = Path(__file__).parent.parent
ASKED = read_questions(ROOT)

ROW = re.compile(r'^\| \[[^]]+\]\((\w+)\.ipynb\).*\| (\d+) \|$', re.M)

def rows_of_the_map(): # chapter and minutes of each
    text = '\n'.join(c.source for c in cells(ROOT/'nbs/index.ipynb', 'markdown'))
    for chapter, n in ROW.findall(text): yield chapter, int(n)

ASKED_ABOUT = sorted(chapter for chapter, _ in rows_of_the_map())

@cache
def known():
    "The library's names; questions import the grader's and those of studies"
    names = dict(torch=torch, nn=torch.nn, log=log, sqrt=sqrt, Path=Path,
                 MODEL=str(ROOT/'nbs/models/multi30k-en-de'))
    for found in walk_packages(transformer_nb.__path__, 'transformer_nb.'):
        if re.search('studies|proving|grading|commands|assignment', found.name): continue
        for name, x in vars(importlib.import_module(found.name)).items():
            names.setdefault(name, x)
    names['mini_corpus'] = cache(names['mini_corpus'])
    return names

def value(code, names):
    "What the last line gives"
    *before, last = ast.parse(textwrap.dedent(code)).body
    exec(compile(ast.Module(before, []), '<question>', 'exec'), names)
    return eval(compile(ast.Expression(last.value), '<question>', 'eval'), names)

@cache
def of_parsing(): return definitions('22_parsing')

def computed(question): # is it so?
    torch.manual_seed(0)
    names = dict(known())
    if question['chapter'] == '22_parsing': names |= vars(of_parsing()) # it exports nothing
    if 'code' in question: return str(value(question['code'], names)) == question['right']
    return value(question['proof'], names) in (True, torch.tensor(True))

def test_the_answers_are_what_the_code_gives():
    wrong = [q['ask'] for q in ASKED if not computed(q)]
    assert len(ASKED) > 100 and wrong == []

def test_who_is_asked_is_asked_five_times():
    counts = Counter(question['chapter'] for question in ASKED)
    assert list(counts) == [chapter for chapter in ASKED_ABOUT if chapter in counts]
    assert min(counts.values()) >= 5, counts

def test_questions_are_whole():
    for q in ASKED:
        assert set(q) - {'code', 'proof'} == {'chapter', 'ask', 'right', 'wrong', 'why'}
        assert ('code' in q) != ('proof' in q), q['ask']
        answers = [q['right'], *q['wrong']]
        assert len(answers) == len(set(answers)) == 4, q['ask']

# The file for Moodle

TITLES = {chapter: chapter for chapter in ASKED_ABOUT}
LEAVES = dict(defaultgrade=float, penalty=float, hidden=int, single=str, shuffleanswers=str,
              answernumbering=str)

def has_text(element, tag, form='html'): # Moodle: a text inside, and its format
    [found] = element.findall(tag)
    assert [child.tag for child in found] == ['text'] and found.find('text').text.strip()
    assert found.get('format') == form
    return found.find('text').text

def check_moodle(text):
    "Moodle's description of its XML format, for what we use of it; the number of questions"
    quiz = ET.fromstring(text)
    assert quiz.tag == 'quiz' and {q.tag for q in quiz} == {'question'}
    assert quiz[0].get('type') == 'category'
    names = set()
    for question in quiz:
        if question.get('type') == 'category':
            assert has_text(question, 'category', None).startswith('$course$/')
            continue
        assert question.get('type') == 'multichoice'
        names.add(has_text(question, 'name', None))
        texts = [has_text(question, tag) for tag in ('questiontext', 'generalfeedback')]
        for tag, kind in LEAVES.items(): kind(question.findtext(tag))
        assert question.findtext('single') == question.findtext('shuffleanswers') == 'true'
        assert question.findtext('answernumbering') in ('abc', 'ABCD', '123', 'none')
        answers = question.findall('answer')
        assert sorted(a.get('fraction') for a in answers) == ['0', '0', '0', '100']
        for answer in answers:
            assert answer.get('format') == 'html' and answer.findtext('text').strip()
            texts += [has_text(answer, 'feedback'), answer.findtext('text')]
        for part in texts: ET.fromstring(f'<div>{part}</div>') # HTML that is closed
        known = {'name', 'questiontext', 'generalfeedback', 'answer', *LEAVES}
        assert {child.tag for child in question} == known
    return len(names)

def test_moodle_can_import_the_file():
    assert check_moodle(moodle(ASKED, TITLES)) == len(ASKED)

def test_moodle_says_of_each_answer_why():
    question = dict(chapter='01_x', ask='What?', right='this', why='Because.',
                    wrong={'that': 'Not that.', 'these': 'Not these.', 'all': 'Not all.'})
    quiz = ET.fromstring(moodle([question], {'01_x': '01 X'}))
    found = {}
    for answer in quiz.iter('answer'):
        why = answer.find('feedback').findtext('text')
        found[answer.findtext('text')] = answer.get('fraction'), why
    assert found == {'this': ('100', '<p>Because.</p>'), 'that': ('0', '<p>Not that.</p>'),
                     'these': ('0', '<p>Not these.</p>'), 'all': ('0', '<p>Not all.</p>')}

def test_every_question_has_its_answer_in_a_fold():
    page = '\n\n'.join(chapter_questions(ASKED))
    assert page.count('<details') == page.count('</details>') == len(ASKED)
    assert all(question['why'] in page for question in ASKED)
    for fold in re.findall('<details.*?</details>', page, re.S):
        letters = re.findall(r'^- \*\*([a-d])\*\*', fold, re.M)
        [right] = re.findall(r'^\*\*([a-d])\*\* is right', fold, re.M)
        assert letters == sorted(letters) and {right, *letters} == set('abcd')

# The routes

MINUTES = dict(rows_of_the_map())
ROUTES = with_minutes((ROOT/'docs/teaching.md').read_text(encoding='utf8'), MINUTES)

def routes(): # by name, their rows: what is read, and its minutes; and the total
    for part in re.split(r'^## ', ROUTES, flags=re.M)[1:]:
        name = part.split('\n')[0]
        rows = re.findall(r'^\|(.*)\| ([\d,]+) \|$', part, re.M)
        total = re.search(r'^\| \*\*total\*\* .*\*\*([\d,]+)\*\* \|$', part, re.M)
        rows = [(text, int(n.replace(',', ''))) for text, n in rows]
        if total: yield name, rows, int(total[1].replace(',', ''))

def test_the_hours_of_the_routes_add_up():
    found = list(routes())
    assert len(found) == 3
    for name, rows, total in found:
        assert sum(n for _, n in rows) == total > 100, name
        for text, n in rows:
            read = re.findall(r'\((\w+)\.ipynb\)', text) if 'read' in text else []
            assert not read or n == sum(MINUTES[chapter] for chapter in read), text

def test_the_hours_of_the_kit_are_those_of_its_readme():
    readme = (ROOT/'transformer_nb/assignment/README.md').read_text(encoding='utf8')
    rows = re.findall(r'^\| (\d) \|.*\| (\d+) \|$', readme, re.M)
    hours = {int(stage): int(n) for stage, n in rows}
    for text, n in (row for _, rows, _ in routes() for row in rows):
        if 'build' not in text: continue
        first, last = map(int, re.search(r'stages (\d) to (\d)', text).groups())
        stages = range(first, last + 1)
        assert 60 * sum(hours[stage] for stage in stages) == n, text
