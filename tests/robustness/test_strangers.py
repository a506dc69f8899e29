"A model folder from a stranger: its configuration, its tokenizer, its weights."
import json, math
from functools import partial
from itertools import product
import numpy as np
from safetensors.numpy import load_file, save_file
from watched import copes, refuses
from staged import (
    ODD, TRAIN, TRANSLATE, after, cases, edit, overwrite, runs, seal, setting, unsealed)

SIZES = [ # fields of a model, and what a stranger wrote there
    *product(['d_ff'], [10**7, 10**12, 10**30, 0, -1, 1.5, '64', None, True, [64]]),
    *product(['d_model'], [2 * 10**5, 10**12, 10**30, 31, 0]),
    *product(['n_encoder_layers', 'n_decoder_layers'], [10**5, 10**12, 0, 2]),
    *product(['n_heads'], [10**6, 10**30, 0, 3]),
    *product(['d_k', 'd_v'], [10**7, 10**30, -1]),
    *product(['vocab_size'], [10**12, 10**30, 10**8, 401, 399, 0]),
    *product(['max_len'], [10**8, 10**12, 10**30, 0, -1, 1]),
    *product(['dropout'], [math.nan, -1, 1, 'x', None]),
    *product(['norm', 'positions'], ['x', None, 5, []]),
    *product(['tie_embeddings'], [False, None, 'yes']),
    ('stranger', 1)]

CONFIGS = {
    'empty': b'', 'null': b'null', 'a list': b'[]', 'a number': b'1', 'cut off': b'{"a',
    'deep': b'[' * 100_000, 'deeper': b'{"a":' * 10**6, 'not UTF-8': b'{"\xff": 1}',
    'UTF-16': '{}'.encode('utf-16'), 'long number': b'{"format": ' + b'9' * 5000 + b'}',
    'format 3': b'{"format": 3}', 'format text': b'{"format": "2"}',
    'format list': b'{"format": [2]}', 'format NaN': b'{"format": NaN}',
    'nothing': b'{}', 'NULs': bytes(1000), 'a pickle': b'\x80\x04cos\nsystem\n(S"id"\ntR.'}

def removal(*keys):
    def change(content):
        *way, last = keys
        for key in way: content = content[key]
        del content[last]
    return change

def shown(value): return repr(value)[:40]

@cases
def test_strangers():
    for name, value in SIZES:
        change = edit('config.json', setting('model', name, value=value))
        yield f'{name} {shown(value)}', after(change, copes, TRANSLATE)
    for name, data in CONFIGS.items():
        change = overwrite('m/config.json', data)
        yield f'config.json: {name}', after(change, refuses, TRANSLATE)
    for keys in (['model'], ['sha256'], ['format'], ['model', 'vocab_size'],
                 ['sha256', 'tokenizer.json'], ['sha256', 'model.safetensors']):
        change = removal(*keys)
        yield f'without {keys}', after(unsealed(change), refuses, TRANSLATE)
        for value in (None, 5, [], 'x', {}):
            change = unsealed(setting(*keys, value=value))
            yield f'{keys} is {value}', after(change, refuses, TRANSLATE)
    yield from stranger_tokenizers()
    yield from stranger_weights()
    yield from stranger_files()

# Its tokenizer

PADDING = dict(direction='Right', pad_to_multiple_of=None, pad_id=0, pad_type_id=0,
               pad_token='<pad>')

def padding(n): return dict(PADDING, strategy=dict(Fixed=n))
TRUNCATION = dict(direction='Right', max_length=2, strategy='LongestFirst', stride=0)
SPLIT = dict(type='Split', behavior='Isolated', invert=False)
def split_at(regex): return dict(SPLIT, pattern=dict(Regex=regex))
def replaced(regex, by): return dict(type='Replace', pattern=dict(Regex=regex), content=by)

def special(i): # one more token
    return dict(id=i, content='<x>', single_word=False, lstrip=False, rstrip=False,
                normalized=False, special=True)

TOKENIZERS = {
    'fixed padding': (['padding'], padding(3 * 10**8)),
    'padding': (['padding'], padding(20)),
    'padding of 0': (['padding'], padding(0)),
    'truncation': (['truncation'], TRUNCATION),
    'truncation to 0': (['truncation'], TRUNCATION | dict(max_length=0)),
    'a slow regex': (['pre_tokenizer'], split_at('(a+)+b')),
    'a slower regex': (['pre_tokenizer'], split_at('(x+x+)+y')),
    'a bad regex': (['pre_tokenizer'], split_at('(')),
    'normalizer of spaces': (['normalizer'], replaced('.', ' ')),
    'normalizer that grows': (['normalizer'], replaced('.', 'x' * 10**6)),
    'normalizer regex': (['normalizer'], replaced('(a|a)*b', '')),
    'no pre-tokenizer': (['pre_tokenizer'], None),
    'whitespace': (['pre_tokenizer'], dict(type='Whitespace')),
    'no decoder': (['decoder'], None),
    'subword prefix': (['model', 'continuing_subword_prefix'], '##'),
    'a long subword prefix': (['model', 'continuing_subword_prefix'], 'x' * 500),
    'word suffix': (['model', 'end_of_word_suffix'], '</w>'),
    'dropout of merges': (['model', 'dropout'], 0.5),
    'dropout 2': (['model', 'dropout'], 2.),
    'unknown token': (['model', 'unk_token'], '<none>'),
    'byte fallback': (['model', 'byte_fallback'], True),
    'no merges': (['model', 'merges'], []),
    'a strange merge': (['model', 'merges'], [['strange', 'merge']]),
    'a merge of three': (['model', 'merges'], ['a b c']),
    'an empty vocabulary': (['model', 'vocab'], {}),
    'an id too large': (['model', 'vocab', 'a'], 400),
    'an id far too large': (['model', 'vocab', 'a'], 10**9),
    'an id beyond 32 bits': (['model', 'vocab', 'a'], 2**32),
    'a negative id': (['model', 'vocab', 'a'], -1),
    'an id twice': (['model', 'vocab', 'a'], 10),
    'an id as text': (['model', 'vocab', 'a'], '10'),
    'one more token': (['added_tokens'], [special(400)]),
    'a far token': (['added_tokens'], [special(10**9)]),
    'another first token': (['added_tokens', 0, 'content'], '<x>'),
    'the second twice': (['added_tokens', 1, 'id'], 2),
    'no added tokens': (['added_tokens'], []),
    'words': (['model'], dict(type='WordLevel', vocab={'<unk>': 0}, unk_token='<unk>')),
    'a stranger model': (['model', 'type'], 'Stranger'),
    'another version': (['version'], '9.0'),
    'post-processor': (['post_processor'], dict(type='ByteLevel', trim_offsets=True,
                                                add_prefix_space=True, use_regex=True))}

def stranger_tokenizers():
    text = ('a' * 60 + ' xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx Ein Hund.\n').encode()
    for name, (keys, value) in TOKENIZERS.items():
        change = edit('tokenizer.json', setting(*keys, value=value))
        yield f'tokenizer: {name}', after(change, copes, TRANSLATE, stdin=text)
        train = after(change, copes, f'{TRAIN} --init m --tokenizer m/tokenizer.json',
                      may='new')
        if name in TRIED_IN_TRAINING: yield f'tokenizer: {name}, --init', train
    for name, data in CONFIGS.items():
        yield f'tokenizer.json: {name}', partial(stranger_bytes, name='tokenizer.json',
                                                 data=data)

TRIED_IN_TRAINING = ('fixed padding', 'a slow regex', 'subword prefix', 'an id too large')

def stranger_bytes(scene, name, data): # whose checksum is right
    (scene/'m'/name).write_bytes(data)
    seal(scene/'m')
    refuses(scene, TRANSLATE)
    (scene/'m'/name).unlink()
    refuses(scene, TRANSLATE)

# Its weights

def packed(header, body=b''): # a safetensors file
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, 'little') + text + body

def entry(shape, offsets, dtype='F32'):
    return dict(dtype=dtype, shape=shape, data_offsets=offsets)

WEIGHTS = {
    'empty': b'', 'short': b'abc', 'a header without end': b'\xff' * 8,
    'a header of 10^12': (10**12).to_bytes(8, 'little'), 'only zeros': bytes(10_000),
    'no JSON': packed(b'{"a'), 'a list': packed([]), 'nothing': packed({}),
    'deep': packed(b'[' * 100_000), 'a pickle': b'\x80\x04cos\nsystem\n(S"id"\ntR.',
    'a zip': b'PK\x03\x04' + bytes(100),
    'negative offsets': packed(dict(a=entry([1], [-4, 0]))),
    'offsets beyond': packed(dict(a=entry([10**9], [0, 4 * 10**9])), bytes(4)),
    'reversed offsets': packed(dict(a=entry([1], [4, 0])), bytes(4)),
    'an overflow': packed(dict(a=entry([2**40, 2**40], [0, 4])), bytes(4)),
    'many sizes': packed(dict(a=entry([1] * 10_000, [0, 4])), bytes(4)),
    'a strange type': packed(dict(a=entry([1], [0, 4], 'X32')), bytes(4)),
    'another tensor': packed(dict(a=entry([1], [0, 4])), bytes(4)),
    'text as offsets': packed(dict(a=entry([1], ['a', 'b'])), bytes(4)),
    'metadata only': packed(dict(__metadata__=dict(a='b')))}

def lose_one(weights): weights.popitem()
def add_one(weights): weights['stranger'] = np.zeros(3, np.float32)
def empty_one(weights): weights[min(weights)] = np.zeros(0, np.float32)
def enlarge(weights): change_type(weights, lambda x: np.tile(x, 3))
def turn(weights): change_type(weights, lambda x: x.T.copy())
def halve(weights): change_type(weights, lambda x: x.astype(np.float16))
def round_off(weights): change_type(weights, lambda x: x.astype(np.int64))
def double(weights): change_type(weights, lambda x: x.astype(np.float64))

def change_type(weights, change):
    for name, x in weights.items(): weights[name] = change(x)

def stranger_weights():
    for name, data in WEIGHTS.items():
        strange = partial(stranger_bytes, name='model.safetensors', data=data)
        yield f'weights: {name}', strange
    for change in (lose_one, add_one, empty_one, enlarge, turn, halve, round_off, double):
        yield f'weights: {change.__name__}', partial(changed_weights, change=change)

def changed_weights(scene, change):
    path = scene/'m/model.safetensors'
    weights = load_file(path)
    change(weights)
    save_file(weights, path)
    seal(scene/'m')
    copes(scene, TRANSLATE)

def stranger_files():
    names = ('config.json', 'tokenizer.json', 'model.safetensors')
    for file, odd in product(names, ODD):
        yield f'{file} is {odd}', partial(odd_file, file=f'm/{file}', make=ODD[odd])
    for odd in ('a pipe', '/dev/zero'):
        place = partial(odd_file, file='m/config.json', make=ODD[odd],
                        line='tnb_export m new')
        yield f'tnb_export: config.json is {odd}', place
    for name in ('nothing', 'train.de', '/dev/null', '/', 'm/config.json', 'checkpoints'):
        yield f'the model is {name}', runs(f'tnb_translate {name}', refuses)

def odd_file(scene, file, make, line=TRANSLATE):
    (scene/file).unlink()
    make(scene/file)
    refuses(scene, line)
