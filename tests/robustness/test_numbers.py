"NaN, divergence, and absurd numbers and names as options."
import math
from functools import partial
from itertools import product
import numpy as np
from safetensors.numpy import load_file, save_file
from watched import copes, must, refuses
from staged import (
    SHORT, TRAIN, after, cases, change_checkpoint, checkpoint_paths, resumes, runs, seal)

POISON = dict(nan=math.nan, inf=math.inf, minus_inf=-math.inf, huge=3e38)

@cases
def test_not_a_number():
    for alpha in ('nan', 'inf', '-inf', '-1', '1e308', '-nan'):
        yield f'translate, alpha {alpha}', runs(f'tnb_translate m --alpha={alpha}')
        yield f'evaluate, alpha {alpha}', runs(f'tnb_evaluate m {SHORT} --alpha={alpha}')
    for (name, value), every in product(POISON.items(), (True, False)):
        poison = partial(poison_model, value=value, every=every)
        what = f'{name} in {"all weights" if every else "one"}'
        commands = ('tnb_translate m', f'tnb_evaluate m {SHORT}', 'tnb_export m new')
        for text in commands:
            yield f'{text}: {what}', after(poison, copes, text, may='new')
    for option in ('lr inf', 'lr 1e308', 'lr 1e30', 'lr nan', 'max_grad_norm nan',
                   'label_smoothing nan', 'dropout nan', 'max_ratio nan', 'lr 1e38'):
        for steps in (2, 30):
            text = f'{TRAIN} --max_steps {steps} --{option}'
            yield text, partial(copes, work=text, may='new')
    for name in ('weights', 'best'):
        yield f'NaN in a {name} checkpoint', partial(poisoned_checkpoint, kind=name)

def poison_model(scene, value, every):
    path = scene/'m/model.safetensors'
    weights = load_file(path)
    for weight in weights.values():
        if every: weight[:] = value
    for weight in weights.values(): weight.flat[-1] = value
    save_file(weights, path)
    seal(scene/'m')

def poisoned_checkpoint(scene, kind):
    def change(tensors, info):
        for x in tensors.values(): x.fill_(math.nan)
    for path in checkpoint_paths(scene, 'f', kind): change_checkpoint(path, change)
    copes(scene, f'tnb_evaluate f {SHORT} --average 2')
    resumes(scene, 'f')

@cases
def test_divergence():
    for lr, every in product(('1e30', '1e10', '1e20'), (1, 2)):
        options = f'--lr {lr} --warmup_steps 1 --save_every {every} --max_steps 50'
        yield options, partial(diverges, options=options)

def diverges(scene, options):
    "What is said to be kept must be worth keeping, and a resume must not crash"
    ran = refuses(scene, f'{TRAIN} {options}', may='new')
    paths = checkpoint_paths(scene, 'new', 'weights')
    largest = max((largest_weight(path) for path in paths), default=0)
    told = not paths or 'kept' not in ran.error or largest < 1e6
    must(told, f'kept, with weights of {largest:.0e}: {ran.error}')
    copes(scene, f'{TRAIN} --resume {options}', may='new')

def largest_weight(path): return max(np.abs(x).max() for x in load_file(path).values())

@cases
def test_demo_limits():
    for minutes in ('0', '-1', 'nan', 'inf', '-inf', 'x'):
        text = f'tnb_demo --out new --max_minutes={minutes}'
        yield text, runs(text, refuses, seconds=10)

# Absurd numbers and names

WHOLE = ('d_model d_ff n_heads d_k d_v n_encoder_layers n_decoder_layers max_len '
         'vocab_size batch_tokens max_steps patience warmup_steps valid_every save_every '
         'average seed grad_accum_steps workers').split()

REAL = ('dropout max_ratio max_minutes lr label_smoothing max_grad_norm '
        'valid_every_minutes save_every_minutes').split()

HUGE = '1' + 23 * '0'
WEIRD_WHOLE = ('0', '-1', 'nan', '1.5', HUGE, '')
WEIRD_REAL = ('0', '-1', 'nan', 'inf', '1e308', 'word')

DEVICES = ('meta', 'hpu', 'cuda', 'cuda:99', 'cpu:-1', 'xpu', 'vulkan', '../x', 'cpu;rm',
           '1', 'CPU')

TEXTS = ('norm x', 'positions x', 'precision fp8', 'precision bf16', 'corpus x', 'preset x',
         'src_lang xx --corpus multi30k', 'src nothing', 'src .', 'src /dev/null',
         'config .', 'config nothing', 'config train.de', 'config /dev/null', 'unknown 1',
         'max_steps', 'corpus mini', 'data_dir nothing --corpus tatoeba', 'normalize x',
         'weights x', 'init nothing', 'init .', 'tokenizer nothing', 'tokenizer train.de',
         'preset tiny x')

@cases
def test_absurd():
    for option, value in [*product(WHOLE, WEIRD_WHOLE), *product(REAL, WEIRD_REAL)]:
        if (option, value) == ('grad_accum_steps', HUGE): continue # asked for, and given
        yield absurd_training(option, value)
    for value in ('999999999', '10000000', '100000'):
        yield absurd_training('vocab_size', value)
    for minutes in ('1e308', '1e300', 'inf', '1e-300', '0.001'):
        text = f'{TRAIN} --max_minutes {minutes}'
        yield f'{text}, with a bar', runs(text, may='new', IN_TEST='')
    search, evaluation = 'tnb_translate m', f'tnb_evaluate m {SHORT}'
    sizes = [('beam_size', '6000'), ('beam_size', '100000')]
    whole = product(('beam_size', 'n_best', 'search_tokens', 'min_len'), WEIRD_WHOLE)
    real = product(['alpha'], WEIRD_REAL)
    for option, value in [*sizes, *whole, *real]:
        yield absurd_search(search, option, value)
        if option in ('beam_size', 'alpha'): yield absurd_search(evaluation, option, value)
    sampling = [*product(('top_k', 'seed'), WEIRD_WHOLE),
                *product(('temperature', 'top_p'), WEIRD_REAL)]
    for option, value in sampling: yield absurd_search(f'{search} --sample', option, value)
    for value in WEIRD_WHOLE:
        yield absurd_search(f'tnb_evaluate f {SHORT}', 'average', value)
    commands = ('tnb_translate m', f'tnb_evaluate m {SHORT}', TRAIN)
    for device, text in product(DEVICES, commands):
        may = 'new' if text == TRAIN else ''
        yield f'{text} --device {device}', runs(f'{text} --device {device}', may=may)
    for text in TEXTS: yield f'--{text}', runs(f'{TRAIN} --{text}', may='new')
    yield from absurd_commands()

def absurd_training(option, value):
    minutes = '' if option == 'max_minutes' else ' --max_minutes 0.02'
    text = f"{TRAIN}{minutes} --{option}='{value}'"
    return f'{option} {value!r}', runs(text, may='new')

def absurd_search(start, option, value):
    text = f"{start} --{option}='{value}'"
    return text, runs(text)

def absurd_commands():
    for option, value in product(('steps', 'seed'), WEIRD_WHOLE):
        if (option, value) == ('steps', HUGE): continue # asked for, and given
        steps = '--steps 2 ' if option == 'seed' else ''
        text = f"tnb_copy_task {steps}--{option}='{value}'"
        yield text, runs(text)
    for text in ('tnb_train', 'tnb_translate', 'tnb_evaluate m', 'tnb_export m',
                 'tnb_translate m nothing', 'tnb_translate m m',
                 'tnb_evaluate m --src short.de --ref train.en',
                 'tnb_translate m --beam 2 3', 'tnb_translate m --n_best 9',
                 'tnb_evaluate m --src nothing --ref nothing',
                 f'tnb_evaluate m {SHORT} --average 2',
                 f'tnb_evaluate f {SHORT} --average 99',
                 f'tnb_evaluate m {SHORT} --lang ../x'):
        yield text, runs(text, refuses)
    for text in RUN_FILES: yield f'run file: {text[:30]!r}', partial(run_file, text=text)

RUN_FILES = (
    '[', '- 1', '5', 'model: 5', 'model: [1]', 'preset: x', 'preset: [tiny]', 'x: {}',
    'model: {x: 1}', 'model: {d_model: 2017-06-12}', 'model: {d_model: [1]}', 'a: *b',
    'training: {lr: .nan}', 'training: {lr: .inf}', 'training: {seed: 1e3}', '\t', '\x00',
    'training: {max_steps: yes}', '!!python/object/apply:os.system ["touch new"]',
    'data: {src: 5}', 'data: {src: [train.de]}', 'training: {lr: 1_0}', '{' * 5000,
    'training: {seed: ' + '9' * 5000 + '}', 'data: &a {src: *a}', '? {a: 1}\n: 2')

def run_file(scene, text):
    (scene/'bad.yaml').write_text(text)
    refuses(scene, 'tnb_train --config bad.yaml --out new')
