"Foreign files, two trainings in one folder, and advice that helps."
import signal
from functools import partial
import yaml
from watched import Scene, check_end, copes, must, refuses, works
from staged import (
    TINY, TRAIN, after, await_step, cases, remove, resume, resumes, runs, stop)

FOREIGN = [ # files, and where a training should go
    ('proj/docs/.thesis.tmp proj/notes.txt', 'proj --resume'),
    ('proj/.metrics.jsonl.123.tmp proj/notes.txt', 'proj --resume'),
    ('proj/checkpoints/.state-00000001.safetensors.12.tmp proj/a.txt', 'proj --resume'),
    ('proj/.x.tmp/ proj/notes.txt', 'proj --resume'),
    ('.thesis.tmp', '. --resume'),
    ('proj/checkpoints/notes.txt', 'proj --resume'),
    ('proj/run.yaml proj/tokenizer.json proj/thesis.txt', 'proj --resume'),
    ('proj/config.json', 'proj'),
    ('proj/notes.txt', 'proj'),
    ('proj/.hidden', 'proj'),
    ('proj/docs/deep/a.txt', 'proj'),
    ('proj', 'proj'),
    ('proj', 'proj --resume'),
    ('proj', 'proj/x')]

@cases
def test_foreign_files():
    start = 'tnb_train --config tiny.yaml --out '
    for names, out in FOREIGN:
        put = partial(Scene.put, names=names)
        yield f'{out}: {names}', after(put, refuses, start + out)
    for name in ('.thesis.tmp', 'docs/.thesis.tmp', 'docs/.thesis.txt.123.tmp'):
        put = partial(Scene.put, names=f'proj/{name}')
        alone = after(put, copes, start + 'proj --resume', may='proj')
        yield f'proj/{name} alone', alone
    for name in ('.thesis.tmp', 'docs/.thesis.tmp', 'checkpoints/.notes.tmp',
                 'docs/.thesis.txt.12.tmp', '.x.tmp/', '.x.tmp/a', 'notes.txt'):
        put = partial(Scene.put, names=f't/{name}')
        yield f'{name} in a training', after(put, resumes, 't', works)
    yield 'its own half-written files go', own_half_files
    yield 'a link named .x.tmp', foreign_link
    for line in ('tnb_export m proj', 'tnb_demo --out proj'):
        yield line, after(partial(Scene.put, names='proj/notes.txt'), refuses, line)
    yield 'tnb_export over its model', lambda s: refuses(s, 'tnb_export m m')
    copy = 'tnb_copy_task --steps 1 --out train.de'
    yield copy, lambda s: refuses(s, copy)

def own_half_files(scene):
    names = ('.metrics.jsonl.99999.tnb.tmp',
             'checkpoints/.state-00000099.safetensors.99999.tnb.tmp')
    paths = [scene/'t'/name for name in names]
    for path in paths: path.write_text('half')
    resumes(scene, 't', works)
    must(not any(path.exists() for path in paths), 'half-written files are still there')

def foreign_link(scene):
    scene.put('proj/notes.txt')
    (scene/'proj/.x.tmp').symlink_to('../train.de')
    refuses(scene, 'tnb_train --config tiny.yaml --out proj --resume')

@cases
def test_two_trainings():
    yield 'the same one twice', partial(together, second=TRAIN)
    yield 'another seed', partial(together, second=TRAIN + ' --seed 1')
    yield 'one resumes, one begins', partial(together, second=TRAIN + ' --resume')
    yield 'resumed twice', resumed_twice
    yield 'many resume beside one', many_beside_one
    yield 'SIGKILL leaves no lock', lock_of_the_dead

def one_wins(children, names):
    runs = [child.wait(60) for child in children]
    statuses = sorted(ran.status for ran in runs)
    for ran in runs: check_end(ran)
    must(statuses == [0] + [2] * (len(runs) - 1), f'exit statuses {statuses}')
    must(not list(names.rglob('.*.tmp')), 'half a file is left behind')

def together(scene, second):
    use_mini(scene) # whose vocabulary takes a while
    lines = [f'{line} --max_steps 60' for line in (TRAIN, second)]
    one_wins([scene.start(line) for line in lines], scene/'new')

def use_mini(scene):
    run = dict(TINY, data=dict(corpus='mini', vocab_size=1000, batch_tokens=512))
    (scene/'tiny.yaml').write_text(yaml.safe_dump(run))

def resumed_twice(scene):
    line = resume(scene, 't', 60)
    one_wins([scene.start(line), scene.start(line)], scene/'t')

def many_beside_one(scene):
    first = scene.start(f'{TRAIN} --max_steps 1000000')
    await_step(first, scene/'new', 1)
    for _ in range(4): refuses(scene, f'{TRAIN} --resume', may='new')
    must(not first.ended(), 'the first one did not survive')
    stop(first, scene/'new', signal.SIGTERM)

def lock_of_the_dead(scene):
    child = scene.start(f'{TRAIN} --max_steps 1000000')
    await_step(child, scene/'new', 1)
    child.kill()
    resumes(scene, 'new', works)

@cases
def test_advice():
    empty = partial(remove, name='f/checkpoints')
    yield 'no checkpoints are left', after(empty, no_such_advice, TRAIN, 'f')
    yield 'a model only', partial(no_such_advice, line=TRAIN, name='m')
    for text in ('tnb_export m new', 'tnb_demo --out new'):
        yield text, partial(no_such_advice, line=text, name='f', more='')
    yield 'where it is right', runs(TRAIN.replace('new', 't'), refuses, has='--resume')

def no_such_advice(scene, line, name, more=' --resume'):
    "`--resume` is advised only where it exists and has not just been given"
    ran = refuses(scene, line.replace('new', name) + more)
    must('or --resume' not in ran.error, f'bad advice: {ran.error}')
