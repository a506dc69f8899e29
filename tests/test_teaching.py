"""What a teacher gets: the answers of the questions are computed, and the Moodle file has
the form that Moodle reads."""
import ast, importlib, re, textwrap
import xml.etree.ElementTree as ET
from functools import cache
from math import log, sqrt
from pathlib import Path
from pkgutil import walk_packages
import torch
import transformer_nb
from running import definitions
from teaching import moodle, read_questions

ROOT = Path(__file__).parent.parent
ASKED = read_questions(ROOT)

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

# The routes

def test_moodle_can_import_the_file():
    "Well-formed, with one right answer of four, each of which says why"
    quiz = ET.fromstring(moodle(ASKED, {q['chapter']: q['chapter'] for q in ASKED}))
    questions = [q for q in quiz if q.get('type') == 'multichoice']
    assert quiz.tag == 'quiz' and len(questions) == len(ASKED)
    for question in questions:
        answers = question.findall('answer')
        assert sorted(a.get('fraction') for a in answers) == ['0', '0', '0', '100']
        for answer in answers:
            for part in (answer.findtext('text'), answer.find('feedback').findtext('text')):
                assert part.strip()
                ET.fromstring(f'<div>{part}</div>') # HTML that is closed
