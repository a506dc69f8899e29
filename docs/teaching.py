"""What the site has for teachers, besides docs/teaching.md: the questions at the end of
each chapter, and the same as a file for Moodle."""
import re
import xml.etree.ElementTree as ET
from html import escape
from zlib import crc32
import yaml

QUESTIONS = 'docs/questions.yaml'
MOODLE = 'transformer_nb_moodle.xml'

def read_questions(root): # in the order of the chapters
    return yaml.safe_load((root/QUESTIONS).read_text(encoding='utf8'))

def shuffled(question):
    "Its four answers, in an order that is always the same and gives nothing away"
    answers = [question['right'], *question['wrong']]
    return sorted(answers, key=lambda answer: crc32((question['ask'] + answer).encode()))

# The routes: what is read takes the minutes of the map, and the totals follow

def with_minutes(text, minutes): # of docs/teaching.md; minutes by chapter
    parts = re.split('^(?=## )', text, flags=re.M)
    return ''.join(one_route(part, minutes) for part in parts)

def one_route(part, minutes):
    total = 0
    def row(m):
        nonlocal total
        read = re.findall(r'\((\w+)\.ipynb\)', m[1]) if 'read' in m[1] else []
        n = sum(minutes[c] for c in read) if read else int(m[2].replace(',', ''))
        total += n
        return f'|{m[1]}| {n:,} |'
    part = re.sub(r'^\|((?! \*\*).*)\| ([\d,]+) \|$', row, part, flags=re.M)
    return re.sub(r'(\*\*total\*\* .*\*\*)[\d,]+', lambda m: f'{m[1]}{total:,}', part)

# The end of each chapter

def chapter_questions(questions):
    """Markdown of those of a chapter. The answers lie in folds, so that one can think
    first; static/questions.js makes radio buttons of them."""
    yield '## Questions'
    yield ('Choose what you think is right before you look. Every wrong answer is one that '
           'people give.')
    for number, question in enumerate(questions, 1):
        yield from one_question(question, number)

def one_question(question, number):
    yield '<div class="question">'
    yield f"**{number}.** {question['ask']}"
    if 'code' in question: yield f"```python\n{question['code'].rstrip()}\n```"
    letters = dict(zip(shuffled(question), 'abcd'))
    yield '\n'.join(f'- **{letter}** {shown(question, answer)}'
                    for answer, letter in letters.items())
    yield f'<details class="answer"><summary>Answer to question {number}</summary>'
    yield f"**{letters[question['right']]}** is right. {question['why']}"
    yield '\n'.join(f"- **{letter}** {question['wrong'][answer]}"
                    for answer, letter in letters.items() if answer in question['wrong'])
    yield '</details>'
    yield '</div>'

def shown(question, answer): # what code prints looks like code, and a sentence does not
    is_prose = re.match('(it|an|all|about) ', answer)
    return answer if is_prose or 'code' not in question else f'`{answer}`'

# The file for Moodle

def moodle(questions, titles):
    "Moodle's XML format: a category for each chapter, and its questions"
    quiz, before = ET.Element('quiz'), None
    for i, question in enumerate(questions, 1):
        chapter = question['chapter']
        if chapter != before:
            category = ET.SubElement(quiz, 'question', type='category')
            path = f'$course$/Attention Is All You Need/{titles[chapter]}'
            text(category, 'category', path, None)
        before = chapter
        add_question(quiz, question, f'{chapter} {i}')
    ET.indent(quiz)
    return ET.tostring(quiz, encoding='unicode', xml_declaration=True)

def add_question(quiz, question, name):
    element = ET.SubElement(quiz, 'question', type='multichoice')
    text(element, 'name', name, None)
    asked = f"<p>{html(question['ask'])}</p>"
    if 'code' in question: asked += f"<pre>{escape(question['code'].rstrip())}</pre>"
    text(element, 'questiontext', asked)
    text(element, 'generalfeedback', f"<p>{html(question['why'])}</p>")
    settings = dict(defaultgrade='1', penalty='0.3333333', hidden='0', single='true',
                    shuffleanswers='true', answernumbering='abc')
    for tag, setting in settings.items(): ET.SubElement(element, tag).text = setting
    for answer in shuffled(question):
        right = answer == question['right']
        choice = ET.SubElement(element, 'answer', fraction='100' if right else '0',
                               format='html')
        ET.SubElement(choice, 'text').text = html(shown(question, answer))
        why = question['why'] if right else question['wrong'][answer]
        text(choice, 'feedback', f'<p>{html(why)}</p>')

def text(parent, tag, content, form='html'):
    element = ET.SubElement(parent, tag, **(dict(format=form) if form else {}))
    ET.SubElement(element, 'text').text = content

def html(markdown): # as far as the questions use it
    found = escape(markdown, quote=False)
    found = re.sub(r'`([^`]+)`', r'<code>\1</code>', found)
    found = re.sub(r'\$([^$]+)\$', r'\\(\1\\)', found)
    return re.sub(r'(?<![\w*])\*([^*]+)\*(?![\w*])', r'<em>\1</em>', found)
