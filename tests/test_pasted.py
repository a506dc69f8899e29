"""Text as people paste it, through the shipped models: what is typed must not change a
translation by its form. Rows of reports: where it was reported, what was typed, and the
clean text that must give the same translation (None: it comes back as it is)."""
from functools import cache
from pathlib import Path
import pytest
from transformer_nb.reading import read_text
from transformer_nb.translation import Translator

MODELS = Path(__file__).parents[1]/'nbs/models'

@cache
def everyday(direction): return Translator(MODELS/f'everyday-{direction}', 'cpu')

SAME = [ # of a review of commit 9b972b3, and their sisters
    ('He isn’t here.', "He isn't here."), ('I can‘t come.', "I can't come."),
    ('He isn´t here.', "He isn't here."), ('He isn`t here.', "He isn't here."),
    ('He isn＇t here.', "He isn't here."), ('He isnʼt here.', "He isn't here."),
    ('Can  I  pay  by  credit  card?', 'Can I pay by credit card?'),
    (' Can I pay by credit card?', 'Can I pay by credit card?'),
    ('Can I\u00a0pay by credit card?\u202f', 'Can I pay by credit card?'),
    ('Can\tI pay\u2003by credit card?\r', 'Can I pay by credit card?'),
    ('Can I\u200b pay\u2060 by cred\u00adit card?\ufeff', 'Can I pay by credit card?'),
    ('\u202aCan I pay by credit card?\u202c', 'Can I pay by credit card?'),
    ('\x1b[1mCan I pay\x1b[0m by credit card?', 'Can I pay by credit card?'),
    ('Ｃａｎ　Ｉ　ｐａｙ　ｂｙ　ｃｒｅｄｉｔ　ｃａｒｄ？', 'Can I pay by credit card?'),
    ('hello', 'Hello.'), ('how are you?', 'How are you?'), ('how are you', 'How are you?'),
    ('what is your name', 'What is your name?'), ('can i pay?', 'Can I pay?'),
    ('SO AM I, YOU KNOW', 'So am I, you know.'), ('I love you…', 'I love you...'),
    ('He said: “I am tired.”', 'He said: "I am tired."'),
    ('The oﬃce is closed.', 'The office is closed.'),
    ('It is cold \u2013 very cold.', 'It is cold - very cold.')]

SAME += [ # of public reports of other translators, after the review
    ('I can&#39;t come.', "I can't come."), # LibreTranslate #203
    ('Tom &amp; Mary are here.', 'Tom & Mary are here.'), # translate-html #16
    ('He said &quot;no&quot;.', 'He said "no".'), # integreat-cms #2721
    ('Can&nbsp;I pay?', 'Can I pay?'), # deepl-dotnet #64, wp-calypso #52361
    ('Are you there ?', 'Are you there?'), ('Hello , Tom !', 'Hello, Tom!'),
    ('"Hello"', '"Hello."'), ('He said "no"', 'He said "no."'),
    ('<i>They are here.</i>', 'They are here.'), # SubtitleEdit #3599
    ('♪ I love you ♪', 'I love you.'), ('Core ▾', 'Core.'), # mozilla/translations #1450
    ('DID YOU KNOW?', 'Did you know?'), # firefox-translations #486
    ('He is here。', 'He is here.'), ('¡Hello!', 'Hello!'), ('¿Is it you?', 'Is it you?'),
    ('1.Please wait.', 'Please wait.'), ('**I am here.**', 'I am here.'),
    ('I __really__ love you.', 'I really love you.'), ('Hello,Tom', 'Hello, Tom.'),
    ('[OVER PHONE] They are here.', 'They are here.'), ('(I love you.)', 'I love you.'),
    ('I LOVE you.', 'I love you.'), ('tHIS IS WRONG', 'This is wrong.'),
    ('I dont know', "I don't know."), ('whats this', "What's this?"),
    ('Go!!!', 'Go!'), ('Is it you?!', 'Is it you?'), ('It&rsquo;s me.', "It's me."),
    ('« I love you. »', '"I love you."'), ('I love you;', 'I love you.'),
    ('{name} is here', '{name} is here.'), ('%s is here', '%s is here.')]

@pytest.mark.parametrize('typed, clean', SAME)
def test_read_alike(typed, clean):
    bpe = everyday('en-de').tokenizer
    [ours], [theirs] = read_text(typed, bpe), read_text(clean, bpe)
    assert ours.read == theirs.read == clean

@pytest.mark.parametrize('typed, clean', [
    ('Ich mo\u0308chte zahlen.', 'Ich möchte zahlen.'), ('„Hallo!“', '"Hallo!"'),
    (',,Hallo!\'\'', '"Hallo!"'), ('»Hallo!«', '"Hallo!"'),
    ('ich habe einen hund', 'Ich habe einen Hund.'), ('WO IST DER BAHNHOF?',
    'Wo ist der Bahnhof?'), ('DIE STRASSE IST GROSS.', 'Die Straße ist groß.'),
    ('Ich weiss es.', 'Ich weiß es.'), ('Ich moechte gehen', 'Ich möchte gehen.'),
    ('Aepfel fuer dich', 'Äpfel für dich.'), ('Ich LIEBE dich.', 'Ich liebe dich.'),
    ('Die neue Quelle muss bleiben.', 'Die neue Quelle muss bleiben.')])
def test_german_read_alike(typed, clean):
    [read] = read_text(typed, everyday('de-en').tokenizer)
    assert read.read == clean

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

@pytest.mark.parametrize('typed, sentences', [
    ('Can I go?No.', ['Can I go?', 'No.']),
    ('He left.She stayed.', ['He left.', 'She stayed.']),
    ('See www.Example.Com.', ['See www.Example.Com.']), ('Er kam z.B. um 8.', None),
    ('ICH HEIßE TOM.', ['Ich heiße Tom.'])])
def test_spaces_that_are_missing(typed, sentences):
    "The second sentence was lost (argos-translate #382, #409)"
    tokenizer = everyday('de-en' if typed[0] in 'EI' else 'en-de').tokenizer
    read = [x.read for x in read_text(typed, tokenizer)]
    assert read == (sentences or [typed])

def test_what_a_program_would_miss_is_told():
    "Placeholders and tags (quarkusio/cn.quarkus.io #31, amethyst PR 2869)"
    [line] = everyday('en-de').translate_lines(['{name} is in <b>Berlin</b> now.'])
    assert '{name}' in line.text or 'not copied: {name}' in ' '.join(line.notes)
    assert everyday('en-de').translate(['{name}', '%s']) == ['{name}', '%s']

def test_doubt_is_said():
    translator = everyday('en-de')
    [price, middle, fine] = translator.translate_lines(
        ['It costs 3.50.', 'I 😀 love you.', 'I love you.'])
    assert price.notes == ['the numbers differ: 3.50 is missing and 350 is new']
    assert middle.notes == ['left out: 😀'] and fine.notes == []
    phone, plus, either = translator.translate_lines(
        ['[OVER PHONE] They are here.', 'I love C++.', 'Tom/Mary'])
    assert phone.notes == ['not translated: [OVER PHONE]']
    assert plus.notes == ['the model hardly knows +']
    assert either.notes == ['the model hardly knows /']
    short = Translator(MODELS/'everyday-en-de', 'cpu', max_extra=1)
    [cut] = short.translate_lines(['She is tired because she worked all night.'])
    assert cut.notes == ['the translation was cut at its limit']
    [[candidate]] = short.candidates(['She is tired because she worked all night.'])
    assert candidate.is_cut

def test_no_text_twice():
    [found] = everyday('en-de').candidates(['They saw Tom.'], n_best=8)
    texts = [candidate.text for candidate in found]
    assert len(texts) == len(set(texts)) > 1
