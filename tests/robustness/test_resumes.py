"Trainings that go on past their limit, with other settings, or after damage."
import random, shutil
from functools import partial
from itertools import product
from watched import copes, refuses, works
from staged import (
    ODD, SHORT, TRAIN, TRANSLATE, after, cases, change_checkpoint, checkpoint_paths, flip,
    overwrite, remove, resume, resumes)

@cases
def test_past_limits():
    for options in ('--max_steps 1', '--max_steps 4', '--max_minutes 0.0001',
                    '--max_minutes 1e-9', '--patience 1', '--average 1',
                    '--valid_every_minutes 1e-9', '--save_every_minutes 1e-9'):
        further = partial(resumes, options=options, check=works)
        yield f'stopped, {options}', partial(further, name='t')
        yield f'finished, {options}', partial(further, name='f')

OTHER = {
    'seed': 1, 'lr': 0.001, 'batch_tokens': 300, 'd_ff': 32, 'dropout': 0.2, 'norm': 'pre',
    'label_smoothing': 0.2, 'warmup_steps': 9, 'max_ratio': 5, 'grad_accum_steps': 2,
    'src': 'train.en', 'max_grad_norm': 1, 'positions': 'learned', 'vocab_size': 300,
    'n_heads': 4, 'max_len': 32}

NAMED = dict(grad_accum_steps='batches_per_step', vocab_size='vocab')

@cases
def test_other_settings():
    for name, value in OTHER.items():
        has = NAMED.get(name, name)
        text = f'--{name} {value}'
        yield f'resume with {text}', partial(resumes, name='t', check=refuses, options=text,
                                             has=has)

METRICS = {
    'cut off': b'{"pairs": 1}\n{"step": 2, "tr', 'empty': b'',
    'binary': b'\xff\x00\xfe' * 99, 'a list': b'[]\n', 'a number': b'5\n',
    'null': b'null\n', 'text as step': b'{"step": "a"}\n',
    'NaN': b'{"step": NaN}\n', 'step null': b'{"step": null}\n', 'empty lines': b'\n\n\n',
    'no losses': b'{"pairs": 1}\n{"step": 2}\n', 'deep': b'[' * 100_000}

@cases
def test_damaged_trainings():
    for (what, data), name in product(METRICS.items(), ('t', 'f')):
        damage = overwrite(f'{name}/metrics.jsonl', data)
        yield f'{name}/metrics.jsonl: {what}', after(damage, resumes, name)
        if name == 'f': yield f'{what}, nothing to do', after(damage, resumes_nothing)
    for file in ('f/metrics.jsonl', 'f/tokenizer.json', 'f/run.yaml', 'f/checkpoints',
                 't/tokenizer.json', 't/run.yaml', 't/checkpoints'):
        gone = partial(remove, name=file)
        yield f'no {file}', after(gone, resumes, file[0])
    for name in ('t', 'f'):
        for change in INFO_CHANGES:
            changed = partial(changed_state, name=name, change=change)
            yield f'{name}: {change.__name__}', changed
        for place in MISPLACED:
            shown = ' as '.join(place)
            yield f'{name}: {shown}', partial(misplaced, name=name, place=place)
    for file in ('tokenizer.json', 'run.yaml', 'config.json', 'model.safetensors'):
        for data in (b'', b'{}', b'\xff\x00'):
            damage = overwrite(f'f/{file}', data)
            yield f'{file} is {data}', after(damage, resumes, 'f')
    yield 'nothing to do, no metrics', after(partial(remove, name='f/metrics.jsonl'),
                                             resumes_nothing)
    for options, check in FOREIGN_WEIGHTS.items():
        foreign = partial(foreign_weights, options=options, check=check)
        yield f'weights of {options}', foreign
    for kind in ('weights', 'state', 'best'):
        for odd in ('a pipe', 'a folder', '/dev/zero', 'a link to nothing'):
            yield f'{kind} is {odd}', partial(odd_checkpoint, kind=kind, make=ODD[odd])

def resumes_nothing(scene):
    copes(scene, resume(scene, 'f', 0), may='f')

# states of other programs, or of other versions of this one
def no_progress(tensors, info): del info['progress']

def strange_progress(tensors, info): info['progress']['stranger'] = 1
def no_random(tensors, info): drop(tensors, 'random')
def no_optimizer(tensors, info): drop(tensors, 'optimizer')
def no_model(tensors, info): drop(tensors, 'model')

def drop(tensors, start):
    for name in list(tensors):
        if name.startswith(start): del tensors[name]

INFO_CHANGES = (no_progress, strange_progress, no_random, no_optimizer, no_model)

def changed_state(scene, name, change):
    for path in checkpoint_paths(scene, name, 'state'): change_checkpoint(path, change)
    resumes(scene, name)

MISPLACED = [('state', 'weights'), ('weights', 'state'), ('state', 'best'),
             ('weights', 'best'), ('best', 'state'), ('weights', 'weights-abc'),
             ('state', 'state-abc'), ('state', 'state-99999999'),
             ('weights', 'weights-00000001'), ('best', 'other')]

def misplaced(scene, name, place):
    "A checkpoint in the place of another, or under a name of nobody's"
    source, target = place
    sources = checkpoint_paths(scene, name, source)
    if not sources: return
    folder = scene/name/'checkpoints'
    exact = checkpoint_paths(scene, name, target)
    path = exact[-1] if exact else folder/f'{target}.safetensors'
    shutil.copy(sources[-1], path)
    resumes(scene, name)

FOREIGN_WEIGHTS = {'--seed 0': works, '--seed 1': refuses, '--vocab_size 300': refuses,
                   '--vocab_size 401': refuses, '--d_ff 32': refuses, '--norm pre': refuses}

def foreign_weights(scene, options, check):
    "Those of another run, among the checkpoints whose mean is asked for"
    other = TRAIN.replace('new', 'other')
    works(scene, f'{other} {options} --max_steps 8', may='other')
    target = checkpoint_paths(scene, 'f', 'weights')[-1]
    shutil.copy(checkpoint_paths(scene, 'other', 'weights')[-1], target)
    check(scene, f'tnb_evaluate f {SHORT} --average 2')
    resumes(scene, 'f')

def odd_checkpoint(scene, kind, make):
    path = checkpoint_paths(scene, 'f', kind)[-1]
    path.unlink()
    make(path)
    resumes(scene, 'f')

# Bits

@cases
def test_bit_flips():
    rng = random.Random(0)
    for name in ('config.json', 'tokenizer.json', 'model.safetensors'):
        verdict = copes if name == 'config.json' else refuses
        for share in [rng.random() for _ in range(12)]:
            yield f'a bit of {name}', partial(damaged, name=f'm/{name}', share=share,
                                              check=verdict)
        for share in (0, 0.01, 0.3, 0.5, 0.9, 0.999):
            yield f'{share:.1%} of {name}', partial(damaged, name=f'm/{name}', share=share,
                                                   check=refuses, cut=True)
    for kind, cut in product(('state', 'weights', 'best'), (False, True)):
        for share in [rng.random() for _ in range(4)]:
            yield f'a damaged {kind}', partial(damaged_checkpoint, kind=kind, share=share,
                                               cut=cut)
    yield 'no state is whole', partial(damaged_checkpoint, kind='state', share=0.5,
                                       cut=True, check=refuses, every=True)

def damage(path, share, cut):
    data = path.read_bytes()
    place = int(share * len(data))
    path.write_bytes(data[:place] if cut else flip(data, place))

def damaged(scene, name, share, check, cut=False):
    damage(scene/name, share, cut)
    check(scene, TRANSLATE)

def damaged_checkpoint(scene, kind, share, cut, check=works, every=False):
    paths = checkpoint_paths(scene, 'f', kind)
    for path in paths if every else paths[-1:]: damage(path, share, cut)
    resumes(scene, 'f', check)
