"What people type, read as sentences (chapter 08a); `test_pasted.py` translates it"
import random, sys
from pathlib import Path
from unicodedata import category
import pytest
from hypothesis import given, strategies as st
from test_pasted import everyday
from transformer_nb.decoding import Hypothesis
from transformer_nb.reading import (
    READING, __file__ as PLACE, _compiled, doubts, rare_words, read_sentence, read_text,
    split_sentences, strange, tidy)
from transformer_nb.text import BPETokenizer, normalize

# Rows of sentences that are apart, whatever stands beside them
APART = [
    ['I am tired.', 'She worked all night.', 'Can I pay by credit card?', 'I love you.'],
    ['Städte wie z. B. Berlin sind groß.', 'Hr. Schmidt ist krank.'],
    ['I am 30.', 'Tom is 40.'], ['Ich bin 30.', 'Tom ist 40.'],
    ['Am 3. Oktober ist frei.', 'Der Unterricht beginnt am 10. April.'],
    ['Tom wurde am 5. Mai 2010 geboren.', 'Er wohnt im 2. Stock.'],
    ['Mr. Smith met Dr. J. P. Morgan on Mt. Fuji.', 'It rained.'],
    ['He left at 5 p.m.', 'She left, too.'], ['So am I.', 'No.', 'Tom is.'],
    ['Er kam ca. 5 Mal.', 'Vgl. Abs. 3 und Nr. 7.', 'Es ist eine Art.', 'Gut.'],
    ['E.S.E. Electronics is here.', 'See No. 5.', 'No.', 'Five is enough.'],
    ['"Stop!" he cried.', '"Who is it?" she asked.'],
    ['hello!', 'how are you?', 'i am fine.'], ['Ja 😀', 'Gut.'],
    ['Really?!', 'Yes...', 'Ok.'],
    ['1. Tom kommt.', '2. Sie geht.'], ['Mein 30. Geburtstag war schön.', 'D. h. gut.'],
    ['- Ja.', '- Nein.'], ['"Yes."', '- "No."'],
    ['Der Preis ist 3.50.', 'Das ist viel.'], ['u. a. Tom kam.', 'Er ging.'],
    ['I AM TIRED.', 'the train is late.'], ['It rained.', 'we left!', 'nobody knew.'],
    ['Äpfel usw. und Birnen sind da, max. 5.'], ['Philipp II. war jung.'],
    ['He met Tom et al. in London.'], ['"Nein!" rief er.', 'dann ging er.']]

def test_sentences_apart():
    for row in APART: assert split_sentences(' '.join(row)) == row

# What is typed -> before, read, after, left out
READ = {
    'hello': ('', 'Hello.', '', ''), 'how are you': ('', 'How are you?', '', ''),
    'was ist das': ('', 'Was ist das?', '', ''), 'Hello': ('', 'Hello.', '', ''),
    'I love you 😀': ('', 'I love you.', '😀', ''), 'Yes! 👩‍🔬❤️': ('', 'Yes!', '👩‍🔬❤️', ''),
    '😀😀 I love you.': ('😀😀', 'I love you.', '', ''), 'Nice :-)': ('', 'Nice.', ':-)', ''),
    'I 😀 you.': ('', 'I you.', '', '😀'), '- Hallo': ('-', 'Hallo.', '', ''),
    '• Milch kaufen': ('•', 'Milch kaufen.', '', ''), '2. Tom': ('2.', 'Tom.', '', ''),
    '3. Oktober': ('', '3. Oktober.', '', ''), 'b) Tom kam.': ('b)', 'Tom kam.', '', ''),
    'WAIT': ('', 'Wait.', '', ''), 'I.': ('', 'I.', '', ''),
    'iPhone': ('', 'iPhone.', '', ''),
    '**Hello** Tom': ('', 'Hello Tom.', '', '** **'), '_Hello._': ('_', 'Hello.', '_', ''),
    'I *love* you!': ('', 'I love you!', '', '* *'), 'a_b * c': ('', '', '', ''),
    '[OVER PHONE] Yes.': ('[OVER PHONE]', 'Yes.', '', ''), '(Yes.)': ('(', 'Yes.', ')', ''),
    'Tom (my son) left.': ('', 'Tom left.', '', '(my son)'),
    '[MUSIC]': ('[', 'Music.', ']', ''),
    '<b>Hi</b> Tom': ('', 'Hi Tom.', '', '<b> </b>'), 'I 😀.': ('', 'I.', '', '😀'),
    '<a href="x y">Hi</a>': ('<a href="x y">', 'Hi.', '</a>', ''), '(12)': ('', '', '', ''),
    'Go!!!': ('', 'Go!', '', ''), 'dont go': ('', "Don't go.", '', '')}

def test_read_as():
    for typed, wanted in READ.items():
        read = read_sentence(normalize(typed))
        assert (read.before, read.read, read.after, read.left_out) == wanted

def test_without_words_it_comes_back():
    for typed in ['12', '-', '...', '3.50 €', '👍🏽 🇩🇪', '→', '¿?', '12:30', '١٢']:
        read = read_sentence(normalize(typed))
        assert read.read == '' and read.write('') == normalize(typed)

def test_what_was_made_is_undone():
    assert read_sentence('HELLO TOM').write('Hallo Tom.') == 'HALLO TOM'
    assert read_sentence('how are you').write('Wie geht es dir?') == 'Wie geht es dir?'
    for typed, back in {
            '- hello 😀': '- Hallo 😀', 'Hello.😀': 'Hallo.😀', '**Hello.**': '**Hallo.**',
            '(hello)': '(Hallo)', 'Hello!!!': 'Hallo!!!', 'Hello:': 'Hallo:',
            'Hello, 😀': 'Hallo, 😀', 'Hello -': 'Hallo -', '[HELLO]': '[HALLO]'}.items():
        assert read_sentence(typed).write('Hallo.') == back
    assert read_sentence('How are you,').write('Wie geht es dir?') == 'Wie geht es dir,'
    assert read_sentence('[COUGHS] (a) Hi. (2020)').kept == ['[COUGHS]']

@pytest.mark.parametrize('typed, plain', [
    ('Hello。Tom、too', 'Hello. Tom, too'), ('¿Is it? ¡Yes!', 'Is it? Yes!'), ('¿?', '¿?'),
    ('1.Please 12)Go', '1. Please 12) Go'), ('a ,b,c', 'a, b, c'), ('1,5', '1,5'),
    ('Can I go?No.', 'Can I go? No.'), ('See www.Example.Com.', 'See www.Example.Com.'),
    ('« Hi. »', '"Hi."'), (r'\"Hi\" I\'m', '"Hi" I\'m'), (r'Hi.\n', 'Hi. '),
    ('C:\\new', 'C:\\new'), ('-Ja.-Nein.', '- Ja. - Nein.'),
    ('Lehrer:innen', 'Lehrerinnen'), ('LehrerInnen', 'Lehrerinnen'),
    ('Gr&uuml;&szlig;e&no;', 'Grüße&no;'), ('你。好', '你。好'),
    ('&#128512;&#xD800;&#1114112;', '😀&#xD800;&#1114112;')])
def test_tidied(typed, plain):
    assert tidy(typed, normalize) == plain.strip()

def test_exactly_as_typed():
    bpe = BPETokenizer.train(['a'], 260, 'plain')
    [read] = read_text(' how ARE you?  I am. ', bpe, exact=True)
    assert read.read == 'how ARE you? I am.'
    assert read_text(' \u200b ', bpe) == []
    assert [x.read for x in read_text('Yes. No.', bpe, split=False)] == ['Yes. No.']

DIFFER = 'the numbers differ: {} is missing and {} is new'

@pytest.mark.parametrize('source, translation, notes', [
    ('It costs 3.50.', 'Es kostet 350.', [DIFFER.format('3.50', '350')]),
    ('19,99 Euro', '1999 euros', [DIFFER.format('19,99', '1999')]),
    ('$1,299 and 1.299 of 2024', '109 von 40',
     [DIFFER.format('1,299, 2024', '109, 40')]),
    ('555-1234', '5555534', [DIFFER.format('555, 1234', '5555534')]),
    ('It costs 3.50.', 'Es kostet 3,50.', []), ('1,000 men', '1.000 Männer', []),
    ('2 dogs', 'Zwei Hunde', []), ('Zwei Hunde', '2 dogs', []),
    ('See https://a.b/c.', 'Siehe dort.', ['not copied: https://a.b/c']),
    ('Ask me@a.org.', 'Frag me@a.org.', [])])
def test_what_went_astray_is_said(source, translation, notes):
    assert doubts(source, translation) == notes

def test_what_the_vocabulary_hardly_knows():
    bpe = BPETokenizer.train(['Tom & Anna (or two)'] * 3, 290, 'plain')
    assert strange('Tom & (Anna): 5 % + 1/2 é -', bpe) == ') + / é'

def test_words_in_many_pieces():
    bpe = BPETokenizer.train(['Tom is here'] * 3, 290, 'plain')
    assert rare_words('Tom (Mary) is 犬 hereabout', bpe) == ['Mary', '犬', 'hereabout']
    assert rare_words('', bpe) == []

def test_brackets_that_the_vocabulary_knows_are_language():
    bpe = BPETokenizer.train(['Tom (my son) left'] * 3, 290, 'plain')
    assert read_sentence('Tom (my son) left.', bpe.encode).left_out == ''

def test_ascii_needs_no_long_sets():
    "The short pattern finds in ASCII what the long one finds"
    draws, some = random.Random(0), [*map(chr, range(128)), *'aeiou .!?\'', "n't", 'ss']
    for name in READING:
        short, long = (_compiled(name, x) for x in (True, False))
        for _ in range(200):
            text = ''.join(draws.choices(some, k=30))
            assert [x.span() for x in short.finditer(text)] == [
                x.span() for x in long.finditer(text)], text

def test_no_letter_is_forgotten():
    letters = [chr(n) for n in range(sys.maxunicode + 1) if category(chr(n))[0] == 'L']
    assert all(map(_compiled('letter', False).match, letters))

# Kinds of line that took time by the square of their length; with it, this takes an hour
@pytest.mark.parametrize('kind', [',', '!', '?!', ' -', '1. 2. 3. ', '😀', '→', '_a_ ',
                                  '🏴\U000e0067', '.', 'x', '%0', '[a](', '$a^', '{a'])
def test_a_long_line_is_read(kind):
    text = normalize(f'Hello a@{kind * (100_000 // len(kind))}@ b')
    assert ' '.join(split_sentences(text)) == text and len(doubts(text, text)) == 0
    [sentence] = read_text(text, BPETokenizer.train(['a'], 260, 'plain'), split=False)
    assert len(sentence.read) <= 2 * len(text)

# What is not language

ASIDE = ['👍🏽', ':smile:', '(2019)', '[1]', '<b>', '</b>', '^_^']
ROWS = Path(PLACE).with_name('reading.tsv').read_text('utf8').splitlines()
EXAMPLES = [row.split('\t')[2] for row in ROWS if row[0] not in '%=']
NAMED = st.builds(lambda example, name: example.replace('x', name), # as of printf or a path
                  st.sampled_from(EXAMPLES), st.from_regex('[a-z]{2,6}', fullmatch=True))
OTHERS = st.sampled_from('I love Tom you. Go! , " ( ) [ - *'.split())
PARTS = st.tuples(NAMED | st.sampled_from(ASIDE), st.just(True)) | st.tuples(
    OTHERS, st.just(False))

@given(st.lists(PARTS, max_size=9), st.sampled_from(['Ja.', 'ja "so"', '']))
def test_what_is_not_language_is_given_back_or_told(parts, given):
    "Whatever the model makes of the rest"
    translator = everyday('en-de')
    ids = translator.tokenizer.encode(given)
    hypothesis = Hypothesis(ids, 0., [0.] * (len(ids) + 1))
    def find(sources): return [[hypothesis] * bool(source) for source in sources]
    [line] = translator.translate_lines([' '.join(text for text, _ in parts)], find)
    found = ' '.join([line.text, *line.notes])
    assert [text for text, is_literal in parts if is_literal and text not in found] == []

def test_the_table_has_examples():
    assert all(map(_compiled('literal', False).fullmatch, EXAMPLES))

def test_words_in_brackets_or_links_are_read():
    for around in [('((', '))'), ('"(', ')"'), ('<< ', '>>'), ('[', '](a)'), ('1.1 ', '')]:
        read = read_sentence('Hello.'.join(around))
        assert (read.before, read.after) == (around[0].strip(), around[1])
        assert read.read == 'Hello.'
    assert read_sentence('Read [the book](a/b).').left_out == '[ ](a/b)'
    assert read_sentence('{Hello} (my son)!').kept == ['(my son)']
