"""A small German–English grammar (chapter 09) that makes a training corpus without a download,
and a test set of combinations that training never saw."""

import hashlib, re
from random import Random
from typing import NamedTuple

def _rows(table:str)->list[list[str]]: # the fields of each line
    return [line.split() for line in table.strip().splitlines()]

def join_words(*words:str|None)->str: # the words that are there, with spaces between
    return ' '.join(word for word in words if word)

class _Noun(NamedTuple):
    "An entry of the lexicon, or a pronoun"
    german: str
    gender: str         # m, f or n
    german_plural: str  # '-' where none is used
    english: str
    english_plural: str
    kinds: set[str]
    determiners: list[str] # '-' for none
    adjectives: list[str]
    person: int = 2

def _nouns(kinds:str,        # these three are shared by all nouns of the table
           determiners:str,
           adjectives:str,
           table:str,        # German, gender, plural, English, plural
          )->list[_Noun]:
    shared = set(kinds.split()), determiners.split(), adjectives.split()
    return [_Noun(*fields, *shared) for fields in _rows(table)]

def _pronoun(german:str, english:str, person:int=2, kind:str='pronoun')->_Noun:
    return _Noun(german, '', '', english, english, {kind}, ['-'], [], person)

_PEOPLE = _nouns('who whom', 'der ein', 'alt jung nett', """
    Mann     m  Männer     man      men
    Frau     f  Frauen     woman    women
    Lehrer   m  Lehrer     teacher  teachers
    Ärztin   f  Ärztinnen  doctor   doctors
""") + _nouns('who whom', 'der der+ ein #', 'klug nett', """
    Kind     n  Kinder     child    children
    Junge    m  Jungen     boy      boys
    Mädchen  n  Mädchen    girl     girls
    Bauer    m  Bauern     farmer   farmers
""") + _nouns('who whom', 'mein dein unser', '', """
    Vater    m  -          father     -
    Mutter   f  -          mother     -
    Bruder   m  -          brother    -
    Tante    f  -          aunt       -
    Nachbar  m  Nachbarn   neighbour  -
""") + [
    _pronoun('ich', 'I', 0, 'who'),
    _pronoun('du', 'you', 1, 'who'),
    _pronoun('er', 'he', 2, 'who'),
    _pronoun('sie', 'she', 2, 'who'),
    _pronoun('wir', 'we', 3, 'who')]

_ANIMALS = _nouns('animal', 'der der+ ein mein', 'jung braun schwarz', """
    Hund    m  Hunde    dog     dogs
    Katze   f  Katzen   cat     cats
    Hase    m  Hasen    rabbit  rabbits
    Maus    f  Mäuse    mouse   mice
""")
_FOOD = _nouns('food', 'der ein #', 'groß klein frisch', """
    Apfel   m  Äpfel    apple   apples
    Ei      n  Eier     egg     eggs
    Birne   f  Birnen   pear    pears
    Kuchen  m  Kuchen   cake    cakes
""")

_THINGS = _nouns('print', 'der der+ ein', 'alt neu dick', """
    Buch     n  Bücher    book       books
    Zeitung  f  Zeitungen newspaper  newspapers
    Heft     n  Hefte     notebook   notebooks
""") + _nouns('dish', 'der ein #', 'klein blau weiß', """
    Tasse    f  Tassen    cup        cups
    Glas     n  Gläser    glass      glasses
    Teller   m  Teller    plate      plates
    Flasche  f  Flaschen  bottle     bottles
""") + _nouns('clothes', 'der ein mein', 'alt neu warm rot', """
    Hemd     n  Hemden    shirt      shirts
    Jacke    f  Jacken    jacket     jackets
    Mantel   m  Mäntel    coat       coats
""")

_PLACES = _nouns('seat', 'der ein unser', 'alt klein schön', """
    Tisch    m  Tische   table   tables
    Regal    n  Regale   shelf   shelves
    Stuhl    m  Stühle   chair   chairs
    Bank     f  Bänke    bench   benches
""") + _nouns('place', 'der', 'alt klein schön', """
    Haus     n  Häuser   house   houses
    Garten   m  Gärten   garden  gardens
    Park     m  Parks    park    parks
    Schule   f  Schulen  school  schools
""") + _nouns('door', 'der der+', 'groß klein', """
    Tür      f  Türen    door    doors
    Fenster  n  Fenster  window  windows
""")
NOUNS = _PEOPLE + _ANIMALS + _FOOD + _THINGS + _PLACES

_DETERMINERS = {
    'der':   'the',
    'ein':   'a',
    'kein':  'a', # the English verb is negated instead
    'mein':  'my',
    'dein':  'your',
    'unser': 'our'}
_NUMBERS = {
    'zwei':   'two',
    'drei':   'three',
    'vier':   'four',
    'fünf':   'five',
    'sechs':  'six',
    'sieben': 'seven',
    'acht':   'eight',
    'neun':   'nine',
    'zehn':   'ten',
    'elf':    'eleven',
    'zwölf':  'twelve'}
_PREPOSITIONS = {
    'in':     'in',
    'auf':    'on',
    'unter':  'under',
    'neben':  'next to',
    'vor':    'in front of',
    'hinter': 'behind',
    'mit':    'with',
    'zu':     'to',
    'aus':    'out of',
    'durch':  'through',
    'ohne':   'without',
    'für':    'for'}

_ADJECTIVES = {
    'alt':     'old',
    'neu':     'new',
    'jung':    'young',
    'klein':   'small',
    'groß':    'big',
    'dick':    'thick',
    'schön':   'beautiful',
    'frisch':  'fresh',
    'warm':    'warm',
    'klug':    'clever',
    'nett':    'nice',
    'rot':     'red',
    'blau':    'blue',
    'weiß':    'white',
    'schwarz': 'black',
    'braun':   'brown'}
_WORDS = _DETERMINERS | _NUMBERS | _PREPOSITIONS | _ADJECTIVES

class Phrase(NamedTuple):
    noun: _Noun
    determiner: str # '-' for none
    adjective: str
    person: int     # 0 ich, 1 du, 2 er and any singular, 3 wir and any plural

    @property
    def is_plural(self)->bool: return self.person == 3

class _Forms(NamedTuple):
    m: str
    f: str
    n: str
    plural: str
    after_number: str

_ARTICLES = { # the whole word for `der`, the ending for `ein` and all others
    ('der', 'nom'): _Forms('der', 'die', 'das', 'die', ''),
    ('der', 'acc'): _Forms('den', 'die', 'das', 'die', ''),
    ('der', 'dat'): _Forms('dem', 'der', 'dem', 'den', ''),
    ('ein', 'nom'): _Forms('',    'e',   '',    'e',   ''),
    ('ein', 'acc'): _Forms('en',  'e',   '',    'e',   ''),
    ('ein', 'dat'): _Forms('em',  'er',  'em',  'en',  '')}

_ADJECTIVE_ENDINGS = {
    ('der', 'nom'): _Forms('e',   'e',   'e',   'en',  ''),
    ('der', 'acc'): _Forms('en',  'e',   'e',   'en',  ''),
    ('der', 'dat'): _Forms('en',  'en',  'en',  'en',  ''),
    ('ein', 'nom'): _Forms('er',  'e',   'es',  'en',  'e'),
    ('ein', 'acc'): _Forms('en',  'e',   'es',  'en',  'e'),
    ('ein', 'dat'): _Forms('en',  'en',  'en',  'en',  'en')}

def _german_noun(p:Phrase, case:str)->str:
    word, plural = p.noun.german, p.noun.german_plural
    if p.is_plural:
        takes_n = case == 'dat' and plural[-1] not in 'ns'
        return plural + 'n' if takes_n else plural
    is_weak = p.noun.gender == 'm' and plural in (word + 'n', word + 'en')
    return plural if is_weak and case != 'nom' else word

def german_phrase(p:Phrase, case:str)->str: # in the case nom, acc or dat
    if p.determiner == '-': return p.noun.german
    if p.determiner in _NUMBERS: column = 'after_number'
    else: column = 'plural' if p.is_plural else p.noun.gender
    kind = 'der' if p.determiner == 'der' else 'ein'
    determiner = getattr(_ARTICLES[kind, case], column)
    if kind == 'ein': determiner = p.determiner + determiner
    adjective = p.adjective
    if adjective: adjective += getattr(_ADJECTIVE_ENDINGS[kind, case], column)
    return join_words(determiner, adjective, _german_noun(p, case))

def english_phrase(p:Phrase)->str: # the same in English
    determiner = _WORDS.get(p.determiner)
    if p.determiner == 'kein' and p.is_plural: determiner = 'any'
    adjective = _WORDS.get(p.adjective)
    noun = p.noun.english_plural if p.is_plural else p.noun.english
    return re.sub('^a (?=[aeiou])', 'an ', join_words(determiner, adjective, noun))

class _Verb(NamedTuple):
    infinitive: str
    er: str         # the form for er, without a prefix
    participle: str # '-' for a lasting state
    base: str       # of the English verb, as the next two
    past: str
    ing: str        # '-' where English does not use it

VERBS = [_Verb(*fields) for fields in _rows("""
    kaufen      kauft      gekauft      buy     bought    buying
    helfen      hilft      geholfen     help    helped    helping
    holen       holt       geholt       fetch   fetched   fetching
    brauchen    braucht    -            need    -         -
    sehen       sieht      gesehen      see     saw       -
    suchen      sucht      gesucht      look    looked    looking
    geben       gibt       gegeben      give    gave      giving
    essen       isst       gegessen     eat     ate       eating
    besuchen    besucht    besucht      visit   visited   visiting
    auf-machen  macht      aufgemacht   open    opened    opening
    an-ziehen   zieht      angezogen    put     put       putting
    an-rufen    ruft       angerufen    call    called    calling
    gehören     gehört     -            belong  -         -
    legen       legt       gelegt       put     put       putting
    liegen      liegt      gelegen      lie     lay       lying
    stellen     stellt     gestellt     put     put       putting
    stehen      steht      gestanden    stand   stood     standing
    lesen       liest      gelesen      read    read      reading
    gehen       geht       gegangen     go      went      going
    schlafen    schläft    geschlafen   sleep   slept     sleeping
    füttern     füttert    gefüttert    feed    fed       feeding
    laufen      läuft      gelaufen     run     ran       running
    tragen      trägt      getragen     wear    wore      wearing
    kommen      kommt      gekommen     come    came      coming
    warten      wartet     gewartet     wait    waited    waiting
    reparieren  repariert  repariert    repair  repaired  repairing
    sprechen    spricht    gesprochen   talk    talked    talking
    spielen     spielt     gespielt     play    played    playing""")]

def _present(verb:_Verb, person:int)->str: # the finite form: 0 ich, 1 du, 2 er, 3 wir
    wir = verb.infinitive.split('-')[-1]
    ich = wir.rstrip('n').rstrip('e') + 'e'
    du = verb.er[:-1] + 'st'
    du = re.sub('(?<=[sßz])st$', 't', du) # liest, not liesst
    return (ich, du, verb.er, wir)[person]

class _Auxiliary(NamedTuple):
    german: tuple[str,str,str,str] # by person
    english: str

AUXILIARIES = { # by the form for er, which names the tense
    'hat':  _Auxiliary(('habe', 'hast', 'hat', 'haben'), 'did'),
    'ist':  _Auxiliary(('bin', 'bist', 'ist', 'sind'), 'did'),
    'kann': _Auxiliary(('kann', 'kannst', 'kann', 'können'), 'can'),
    'darf': _Auxiliary(('darf', 'darfst', 'darf', 'dürfen'), 'may'),
    'soll': _Auxiliary(('soll', 'sollst', 'soll', 'sollen'), 'should'),
    'wird': _Auxiliary(('werde', 'wirst', 'wird', 'werden'), 'will')}

class _Slot(NamedTuple):
    "A complement that a verb asks for, written `role=English preposition:kinds`"
    role: str    # case, or preposition+case, or +case where the preposition is drawn
    english: str # preposition; '' for the usual one
    kinds: set[str]

def _slot(text:str)->_Slot:
    left, kinds = text.split(':')
    role, _, english = left.partition('=')
    return _Slot(role, english, set(kinds.split(',')))

class _Frame(NamedTuple):
    verb: _Verb
    subjects: str # kinds, separated by commas
    slots: list[_Slot]

def _frames(table:str)->list[_Frame]: # infinitive, kinds of subject, complements
    verbs = {verb.infinitive: verb for verb in VERBS}
    return [_Frame(verbs[verb], subjects, [_slot(text) for text in slots])
            for verb, subjects, *slots in _rows(table)]

_FRAMES = _frames("""
    kaufen      who            acc:print,dish,food
    kaufen      who            acc:print  für+acc:whom
    helfen      who            dat:whom
    holen       who            acc:print,dish,clothes
    brauchen    who            acc:print,dish,clothes
    sehen       who            acc:whom,animal
    suchen      who            acc=for:print,clothes,animal
    geben       who            dat:whom  acc:print,dish,food
    essen       who            acc:food
    besuchen    who            acc:whom
    auf-machen  who            acc:door
    an-ziehen   who            acc=on:clothes
    an-rufen    who            acc:whom
    gehören     print,clothes  dat=to:whom
    legen       who            acc:print  +acc:seat
    liegen      print          +dat:seat
    stellen     who            acc:dish  +acc:seat
    stehen      dish           +dat:seat
    lesen       who            acc:print
    gehen       who            in+acc=into:place
    gehen       who            zu+dat:place
    schlafen    animal         +dat:seat
    schlafen    animal         +dat:place
    füttern     who            acc:animal
    laufen      animal         in+acc=into:place
    laufen      animal         durch+acc:place
    tragen      who            acc:clothes
    kommen      who            aus+dat:place
    kommen      who            ohne+acc:animal
    warten      who            auf+acc=for:whom
    reparieren  who            acc:seat,door
    sprechen    who            mit+dat=to:whom
    spielen     who            +dat:place
    spielen     who            mit+dat:animal""")

class Complement(NamedTuple):
    role: str         # as in the frame of the verb
    prep: str         # German preposition, or ''
    case: str
    english: str|None # preposition, where there is one
    phrase: Phrase

class Clause(NamedTuple):
    subject: Phrase
    verb: _Verb
    complements: list[Complement]
    tense: str           # present, habit, state, or an auxiliary
    time: tuple[str,str] # when, in German and in English; empty for none
    negation: str        # '', 'nicht' or 'kein'

def verb_parts(c:Clause)->tuple[str,str]: # the finite part and the closing one
    person = c.subject.person
    prefix, _, stem = c.verb.infinitive.rpartition('-')
    if c.tense not in AUXILIARIES: return _present(c.verb, person), prefix
    finite = AUXILIARIES[c.tense].german[person]
    closing = c.verb.participle if c.tense in ('hat', 'ist') else prefix + stem
    return finite, closing

_CONTRACTIONS = {'in dem': 'im', 'in das': 'ins', 'zu dem': 'zum', 'zu der': 'zur'}

def contract(text:str)->str:
    for long, short in _CONTRACTIONS.items(): text = re.sub(rf'\b{long}\b', short, text)
    return text

def german_clause(c:Clause,
                  order:str='main' # the finite verb second (main), first (ask), last (last)
                 )->str:
    finite, closing = verb_parts(c)
    complements = [join_words(a.prep, german_phrase(a.phrase, a.case))
                   for a in c.complements]
    if c.negation == 'nicht':
        n_objects = sum(not a.prep for a in c.complements)
        complements.insert(n_objects, 'nicht')
    subject = german_phrase(c.subject, 'nom')
    middle = join_words(c.time[0], *complements)
    if order == 'main': return contract(join_words(subject, finite, middle, closing))
    if order == 'ask': return contract(join_words(finite, subject, middle, closing))
    space = ' ' if c.tense in AUXILIARIES else '' # angerufen haben, but anrufe
    return contract(join_words(subject, middle, closing + space + finite))

def english_verb(c:Clause)->tuple[str,str,str]: # auxiliary, verb with it, verb without it
    v = c.verb
    person = c.subject.person
    if c.tense == 'present' and v.ing != '-':
        am = ('am', 'are', 'is', 'are')[person]
        return am, v.ing, ''
    if c.tense in ('hat', 'ist'): return 'did', v.base, v.past
    if c.tense in AUXILIARIES: return AUXILIARIES[c.tense].english, v.base, ''
    if person != 2: return 'do', v.base, v.base
    ending = 'es' if v.base[-1] in 'ho' else 's'
    return 'does', v.base, v.base + ending

def english_clause(c:Clause, order:str='main')->str: # a statement (main), a question (ask)
    auxiliary, verb, alone = english_verb(c)
    if alone and order == 'main' and not c.negation: auxiliary, verb = '', alone
    subject = english_phrase(c.subject)
    head = [auxiliary, subject] if order == 'ask' else [subject, auxiliary]
    if c.negation: head.append('not')
    complements = [join_words(a.english, english_phrase(a.phrase)) for a in c.complements]
    text = join_words(*head, verb, *complements, c.time[1])
    return text.replace('can not', 'cannot')

def _draw_phrase(rng:Random,
                 kinds:set[str],
                 settled:bool=False, # neither ein nor a number
                )->Phrase:
    noun = rng.choice([n for n in NOUNS if kinds & n.kinds])
    excluded = ('ein', '#') if settled else ()
    determiner = rng.choice([d for d in noun.determiners if d not in excluded])
    adjective = rng.choice(['', '', ''] + noun.adjectives)
    person = 3 if determiner[-1] in '#+' else noun.person
    if determiner == '#': determiner = rng.choice(list(_NUMBERS))
    return Phrase(noun, determiner.rstrip('+'), adjective, person)

_WHERE = dict(seat=['auf', 'unter', 'neben', 'hinter'],
              place=['in', 'vor', 'hinter', 'neben'])

def _draw_complement(rng:Random, slot:_Slot, settled:bool=False)->Complement:
    prep, _, case = slot.role.rpartition('+')
    if slot.role.startswith('+'):
        kind, = slot.kinds
        prep = rng.choice(_WHERE[kind])
    phrase = _draw_phrase(rng, slot.kinds, settled and slot.role != 'acc')
    return Complement(slot.role, prep, case, slot.english or _WORDS.get(prep), phrase)

class _Time(NamedTuple):
    tense: str
    german: str
    english: str

_TIMES = [
    _Time('present', '',             ''),
    _Time('present', 'jetzt',        'now'),
    _Time('present', 'heute',        'today'),
    _Time('hat',     '',             ''),
    _Time('hat',     'gestern',      'yesterday'),
    _Time('hat',     'letzte Woche', 'last week'),
    _Time('habit',   'am Abend',     'in the evening'),
    _Time('habit',   'am Sonntag',   'on Sunday'),
    _Time('wird',    '',             ''),
    _Time('wird',    'morgen',       'tomorrow'),
    _Time('darf',    '',             ''),
    _Time('kann',    '',             ''),
    _Time('soll',    '',             '')]

_TENSES = dict( # of subjects that cannot have them all
    print=['present', 'hat'],
    dish=['present', 'hat'],
    animal=['present', 'hat', 'habit', 'wird', 'darf'])

def _draw_time(rng:Random, verb:_Verb, subjects:str)->_Time:
    if verb.participle == '-': return _Time('state', '', '')
    times = _TIMES
    if subjects in _TENSES:
        tenses = _TENSES[subjects]
        times = [time for time in _TIMES if time.tense in tenses]
    time = rng.choice(times)
    is_motion = verb.infinitive in ('gehen', 'laufen', 'kommen')
    return time._replace(tense='ist') if time.tense == 'hat' and is_motion else time

def draw_clause(rng:Random, settled:bool=False, frames:list[_Frame]=_FRAMES)->Clause:
    frame = rng.choice(frames)
    subject = _draw_phrase(rng, set(frame.subjects.split(',')), settled)
    complements = [_draw_complement(rng, slot, settled) for slot in frame.slots]
    if subject.noun in [a.phrase.noun for a in complements]: # a boy visits a boy
        return draw_clause(rng, settled, frames)
    tense, german, english = _draw_time(rng, frame.verb, frame.subjects)
    return Clause(subject, frame.verb, complements, tense, (german, english), '')

def _with_kein(a:Complement)->Complement: # ein and numbers turn into kein
    if a.phrase.determiner not in ('ein', *_NUMBERS): return a
    return a._replace(phrase=a.phrase._replace(determiner='kein'))

def _negate(c:Clause)->Clause: # with kein where it can be, otherwise with nicht
    complements = [_with_kein(a) for a in c.complements]
    negation = 'nicht' if complements == c.complements else 'kein'
    return c._replace(complements=complements, negation=negation)

NEVER = ('', '') # no time

def draw_statement(rng:Random)->tuple[str,str,list[Clause]]: # German, English, the clauses
    if rng.random() < .4: c = _negate(draw_clause(rng, settled=True))
    else: c = draw_clause(rng)
    time_first = c.negation or rng.random() < .6
    if not (time_first and c.time[0]): return german_clause(c), english_clause(c), [c]
    rest = c._replace(time=NEVER)
    german = join_words(c.time[0], german_clause(rest, 'ask'))
    english = join_words(c.time[1], english_clause(rest))
    return german, english, [c]

REPORTS = [
    ('ich weiß, dass', 'I know that'),
    ('er sagt, dass',  'he says that'),
    ('sie fragt, ob',  'she asks if')]

def draw_report(rng:Random)->tuple[str,str,list[Clause]]: # a clause with dass or ob
    c = draw_clause(rng, settled=True)
    german, english = rng.choice(REPORTS)
    german = join_words(german, german_clause(c, 'last'))
    return german, join_words(english, english_clause(c)), [c]

def _pronoun_phrase(german:str, english:str)->Phrase:
    return Phrase(_pronoun(german, english), '-', '', 2)

_GAP_WORDS = { # what asks for a complement, by its role
    'acc':    ('was', 'what'),
    'dat':    ('wem', 'who'),
    '+dat':   ('wo', 'where'),
    '+acc':   ('wohin', 'where'),
    'in+acc': ('wohin', 'where')}

def _gap_question(c:Clause)->tuple[str,str,Clause]: # question words; clause with a gap
    *others, last = c.complements
    german, english = _GAP_WORDS[last.role]
    is_person = 'whom' in last.phrase.noun.kinds
    if last.role == 'acc' and is_person: german, english = 'wen', 'who'
    prep = '' if '+' in last.role else last.english # what is she looking for?
    gap = last._replace(prep='', english=prep, phrase=_pronoun_phrase('', ''))
    return german, english, c._replace(complements=[*others, gap])

def draw_question(rng:Random)->tuple[str,str,list[Clause]]:
    c = draw_clause(rng, settled=True)
    choices = [('', '', c, 'ask'),          # question words, clause, order
               ('warum', 'why', c, 'ask')]
    if 'who' in c.subject.noun.kinds:
        who = c._replace(subject=_pronoun_phrase('wer', 'who'))
        choices.append(('', '', who, 'main'))
    if c.complements[-1].role in _GAP_WORDS:
        choices += [(*_gap_question(c), 'ask')] * 2 # twice as likely as the others
    german, english, c, order = rng.choice(choices)
    german = join_words(german, german_clause(c, order))
    return german, join_words(english, english_clause(c, order)), [c]

def object_pronoun(thing:Phrase)->Phrase: # German goes by the gender of the noun
    if thing.is_plural: return _pronoun_phrase('sie', 'them')
    german = dict(m='ihn', f='sie', n='es')[thing.noun.gender]
    return _pronoun_phrase(german, 'it')

def _frames_of(*infinitives:str)->list[_Frame]:
    return [frame for frame in _FRAMES if frame.verb.infinitive in infinitives]

_GETTING = [frame for frame in _frames_of('kaufen', 'holen', 'suchen')
            if len(frame.slots) == 1]
_USING = _frames_of('essen', 'lesen', 'tragen', 'füttern', 'brauchen')

def draw_purpose(rng:Random)->tuple[str,str,list[Clause]]:
    get = draw_clause(rng, True, _GETTING)._replace(tense='present', time=NEVER)
    thing = get.complements[0].phrase
    suitable = [frame for frame in _USING if thing.noun.kinds & frame.slots[0].kinds]
    use = draw_clause(rng, True, suitable)
    if use.subject.noun == get.subject.noun: return draw_purpose(rng)
    clauses = [get, use._replace(complements=get.complements)]

    it = use.complements[0]._replace(phrase=object_pronoun(thing))
    use = use._replace(complements=[it], time=NEVER)
    german, english = 'weil', 'because'
    if use.tense != 'state':
        use = use._replace(tense='kann')
        german, english = 'damit', 'so that'
    german = f"{german_clause(get)}, {german} {german_clause(use, 'last')}"
    english = f'{english_clause(get)} {english} {english_clause(use)}'
    return german, english, clauses

def split_of_facts(facts:list)->str: # by the hash of each (subject, verb, complement)
    hashes = [hashlib.sha256(' '.join(fact).encode()).hexdigest() for fact in facts]
    lowest = min(int(digits, 16) % 100 for digits in hashes)
    if lowest < 5: return 'test'
    return 'valid' if lowest < 9 else 'train'

# by frequency
PATTERNS = [draw_statement]*3 + [draw_question]*2 + [draw_report, draw_purpose]

def draw_pair(rng:Random)->tuple: # German, English, their facts
    pattern = rng.choice(PATTERNS)
    german, english, clauses = pattern(rng)
    mark = '?' if pattern is draw_question else '.'
    facts = [(c.subject.noun.german, c.verb.infinitive, a.phrase.noun.german)
             for c in clauses for a in c.complements]
    def finished(text): return text[0].upper() + text[1:] + mark
    return finished(german), finished(english), facts

def mini_corpus(seed:int=0,        # another seed draws other sentences
                n_train:int=22_000,
                n_valid:int=500,
                n_test:int=1_000,
               )->dict[str,list[tuple[str,str]]]: # pairs (German, English) of each split
    """Distinct sentence pairs of 3 to 16 words. Each pair of valid and test combines
    something that train never combines, whatever the seed; their words are all in train"""
    rng = Random(seed)
    known = set() # the words of train
    corpus = {}
    for split, size in dict(train=n_train, valid=n_valid, test=n_test).items():
        pairs = corpus[split] = {}
        while len(pairs) < size:
            german, english, facts = draw_pair(rng)
            if split_of_facts(facts) != split: continue
            if max(len(german.split()), len(english.split())) > 16: continue
            words = {*german.split(), *english.split()}
            if split == 'train': known |= words
            elif not words <= known: continue
            pairs[german] = english
    return {split: list(pairs.items()) for split, pairs in corpus.items()}
