"What every case begins with: texts, a model, a finished training and a stopped one."
import hashlib, json, os, shutil, signal, socket, time
from functools import cache, partial
from pathlib import Path
import yaml
from watched import SECONDS, Scene, check_end, copes, must, works
from transformer_nb.lessons import grammar
from transformer_nb.checkpoint import load_verified, save_verified

TRAIN = 'tnb_train --config tiny.yaml --out new'
TRANSLATE = 'tnb_translate m'
SHORT = '--src short.de --ref short.en'
TINY = dict(
    model=dict(d_model=32, d_ff=64, n_heads=2, n_encoder_layers=1, n_decoder_layers=1,
               dropout=0.1, max_len=64),
    data=dict(src='train.de', tgt='train.en', valid_src='valid.de', valid_tgt='valid.en',
              vocab_size=400, batch_tokens=512),
    training=dict(max_steps=4, warmup_steps=50, valid_every=2, save_every=2, average=2))

def set_stage(folder):
    "The texts"
    grammar.mini_corpus = cache(grammar.mini_corpus) # for all processes
    pairs = grammar.mini_corpus()['train'][:700]
    parts = dict(train=pairs[:600], valid=pairs[600:], short=pairs[:3])
    for name, part in parts.items():
        for i, language in enumerate(('de', 'en')):
            text = ''.join(pair[i] + '\n' for pair in part)
            (folder/f'{name}.{language}').write_text(text, encoding='utf8')
    (folder/'tiny.yaml').write_text(yaml.safe_dump(TINY))

def fill_stage(scene):
    "A finished training, its model without the checkpoints, and a stopped training"
    finished = TRAIN.replace('new', 'f') + ' --max_steps 300 --save_every 50'
    works(scene, finished, may='f', seconds=120)
    (scene/'m').mkdir()
    for name in ('config.json', 'tokenizer.json', 'model.safetensors'):
        shutil.copy(scene/'f'/name, scene/'m')
    endless = TRAIN.replace('new', 't') + ' --max_steps 1000000 --valid_every 1000000'
    stop(scene.start(endless), scene/'t', signal.SIGTERM)

def make_stage(folder):
    empty = folder/'empty'
    empty.mkdir()
    set_stage(empty)
    scene = Scene(folder, empty)
    fill_stage(scene)
    return scene.folder

# Trainings

def last_step(folder):
    "Of the newest state of a training; 0 before there is one"
    states = sorted(Path(folder, 'checkpoints').glob('state-0*.safetensors'))
    return int(states[-1].stem.split('-')[1]) if states else 0

def await_step(child, folder, step):
    until = time.monotonic() + SECONDS
    while last_step(folder) < step and not child.ended():
        must(time.monotonic() < until, 'it does not come to train')
        time.sleep(0.005)

def stop(child, folder, *signals):
    "As soon as it has taken a few steps"
    await_step(child, folder, 4)
    for number in signals:
        if not child.ended(): os.kill(child.pid, number)
        time.sleep(0.05)
    ran = child.wait()
    check_end(ran)
    must(ran.status == 130, f'exit status {ran.status} after {signals}')

def resume(scene, name, more=4): # the command that goes on for some steps
    steps = last_step(scene/name) + more
    return f'tnb_train --config tiny.yaml --out {name} --resume --max_steps {steps}'

def resumes(scene, name, check=copes, options='', **how):
    return check(scene, f'{resume(scene, name)} {options}', may=name, **how)

def bits(folder): return (folder/'model.safetensors').read_bytes()

# Cases

def cases(generator):
    "A test for each pair of name and function that a generator yields (see conftest.py)"
    def test(case, scene): case(scene)
    test.cases = generator
    return test

def after(prepare, check, *args, **how):
    "A case in which something is done to the folder first"
    def case(scene):
        prepare(scene)
        check(scene, *args, **how)
    return case

def runs(text, check=None, **how):
    "A case of one command"
    return partial(check or copes, work=text, **how)

def overwrite(name, data):
    def prepare(scene): (scene/name).write_bytes(data)
    return prepare

def remove(scene, name):
    path = scene/name
    if path.is_dir(): shutil.rmtree(path)
    else: path.unlink()

def flip(data, place):
    data = bytearray(data)
    data[place % len(data)] ^= 0x10
    return bytes(data)

def edit(name, change):
    "A preparation: part of a model's JSON file is changed, with right checksums"
    def prepare(scene):
        path = scene/'m'/name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
        seal(scene/'m')
    return prepare

def setting(*keys, value): # a change of one entry
    def change(content):
        *way, last = keys
        for key in way: content = content[key]
        content[last] = value
    return change

def unsealed(change):
    def prepare(scene):
        path = scene/'m/config.json'
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
    return prepare

def seal(folder):
    "Make the checksums in config.json right"
    config = json.loads((folder/'config.json').read_text())
    for name in config['sha256']:
        with (folder/name).open('rb') as file:
            config['sha256'][name] = hashlib.file_digest(file, 'sha256').hexdigest()
    (folder/'config.json').write_text(json.dumps(config))

def change_checkpoint(path, change):
    "Its tensors and its info, with a right checksum"
    tensors, info = load_verified(path)
    change(tensors, info)
    path.write_bytes(save_verified(tensors, info))

def checkpoint_paths(scene, name, kind):
    return sorted((scene/name/'checkpoints').glob(f'{kind}*.safetensors'))

def make_pipe(path): os.mkfifo(path)
def make_folder(path): path.mkdir()
def link_to(target): return lambda path: path.symlink_to(target)

def make_socket(path):
    with socket.socket(socket.AF_UNIX) as s: s.bind(os.path.relpath(path))

ODD = {'a pipe': make_pipe, 'a folder': make_folder, '/dev/zero': link_to('/dev/zero'),
       'a link to nothing': link_to('nothing'), 'a link to itself': link_to('config.json'),
       'a socket': make_socket, 'a terminal': link_to('/dev/tty')}
