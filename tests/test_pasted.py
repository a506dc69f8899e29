"""Text as people paste it, through the shipped models: what is typed must not change a
translation by its form. Rows of reports: where it was reported, what was typed, and the
clean text that must give the same translation (None: it comes back as it is)."""
from functools import cache
from pathlib import Path
from transformer_nb.reading import read_text
from transformer_nb.translation import Translator

MODELS = Path(__file__).parents[1]/'nbs/models'

@cache
def everyday(direction): return Translator(MODELS/f'everyday-{direction}', 'cpu')

def of_form(line): # its notes, but for what the model thinks of its own translation
    return [note for note in line.notes if '(geometric mean)' not in note]

SAME = [ # of a review of commit 9b972b3, one of each kind; `normalize` has tests of its own
    ('He isn’t here.', "He isn't here."),
    (' Can\tI  pay\u00a0by credit card?', 'Can I pay by credit card?'),
    ('\x1b[1mCan I pay\x1b[0m by cred\u00adit card?\ufeff', 'Can I pay by credit card?'),
    ('hello', 'Hello.'), ('how are you', 'How are you?'), ('can i pay?', 'Can I pay?'),
    ('It is cold \u2013 very cold.', 'It is cold - very cold.')]

SAME += [ # of public reports of other translators, after the review
    ('I can&#39;t come.', "I can't come."), # LibreTranslate #203
    ('"Hello"', '"Hello."'), ('He said "no"', 'He said "no."'),
    ('♪ I love you ♪', 'I love you.'), ('Core ▾', 'Core.'), # mozilla/translations #1450
    ('He is here。', 'He is here.'), ('¡Hello!', 'Hello!'), ('¿Is it you?', 'Is it you?'),
    ('Attention Is All You Need', 'Attention is all you need.'),
    ('THis is my HOuse', 'This is my house.'), ('I LOVE you.', 'I love you.'),
    ('tHIS IS WRONG', 'This is wrong.'),
    ('{name} is here', '{name} is here.'), ('%s is here', '%s is here.')]

GERMAN = [
    ('Ich mo\u0308chte zahlen.', 'Ich möchte zahlen.'), ('„Hallo!“', '"Hallo!"'),
    (',,Hallo!\'\'', '"Hallo!"'), ('»Hallo!«', '"Hallo!"'),
    ('ich habe einen hund', 'Ich habe einen Hund.'), ('WO IST DER BAHNHOF?',
    'Wo ist der Bahnhof?'), ('DIE STRASSE IST GROSS.', 'Die Straße ist groß.'),
    ('Aepfel fuer dich', 'Äpfel für dich.'), ('Ich LIEBE dich.', 'Ich liebe dich.'),
    ('Die neue Quelle muss bleiben.', 'Die neue Quelle muss bleiben.')]

def test_read_alike():
    for direction, rows in (('en-de', SAME), ('de-en', GERMAN)):
        bpe = everyday(direction).tokenizer
        for typed, clean in rows:
            [ours], [theirs] = read_text(typed, bpe), read_text(clean, bpe)
            assert ours.read == theirs.read == clean

# English -> German by the shipped model
TRANSLATED = {
    'He isn’t here.': 'Er ist nicht hier.', 'WHERE IS THE STATION?': 'WO IST DER BAHNHOF?',
    'Can  I  pay  by  credit  card?': 'Kann ich mit Kreditkarte bezahlen?',
    'how are you?': 'Wie geht es dir?', 'I LOVE YOU': 'ICH LIEBE DICH', '12': '12',
    'I love you 😀': 'Ich liebe dich 😀', '\u200b': '', '-': '-', '😀': '😀',
    'https://example.com/a?b=c': 'https://example.com/a?b=c',
    'I am tired. She worked all night. Can I pay by credit card? I love you.':
    'Ich bin müde. Sie hat die ganze Nacht gearbeitet. Kann ich mit Kreditkarte bezahlen? '
    'Ich liebe dich.'}

def test_translated_as_meant():
    assert everyday('en-de').translate(list(TRANSLATED)) == list(TRANSLATED.values())

def test_doubt_is_said():
    translator = everyday('en-de')
    [number, middle, fine] = translator.translate_lines(
        ['Call 555-1234.', 'I 😀 love you.', 'I love you.'])
    told = ['the numbers differ: 555, 1234 is missing and 5534 is new']
    assert of_form(number) == told
    assert of_form(middle) == ['left out: 😀'] and of_form(fine) == []
    phone, plus, either = translator.translate_lines(
        ['[OVER PHONE] They are here.', 'I love C++.', 'Tom/Mary'])
    assert of_form(phone) == ['not translated: [OVER PHONE]']
    assert of_form(plus) == ['the model hardly knows +']
    assert of_form(either) == ['the model hardly knows /']
    short = Translator(MODELS/'everyday-en-de', 'cpu', max_extra=1)
    [cut] = short.translate_lines(['She is tired because she worked all night.'])
    assert of_form(cut) == ['the translation was cut at its limit']
    [[candidate]] = short.candidates(['She is tired because she worked all night.'])
    assert candidate.is_cut
