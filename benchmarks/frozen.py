#!/usr/bin/env python3
"""What one checkout does beside another: a move changes none of it.

    python benchmarks/frozen.py 7dfb14d .
    python benchmarks/frozen.py 7dfb14d . --parts numbers text --captions 100

A side is a folder or a commit, which gets a worktree for as long as it takes. Its parts
run in one process, one thread, with its package, and are kept under --cache by commit and
processor. Names are looked up in whichever module defines them: code may move. Integers and
texts are equal; floats differ by 1e-5 at most, in float64 by 1e-9 of their size. Models and
submissions are the first side's. The status is 1 where anything differs or fails.
"""
import argparse, hashlib, io, json, os, re, subprocess, sys, tempfile, traceback
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from unicodedata import normalize as unicode_form
import numpy as np
import torch

PARTS = {} # of what is compared: functions of the first side's folder, and the options

def part(run):
    PARTS[run.__name__] = run
    return run

@cache
def find(name):
    "What some module of this side defines under this name"
    place = Path('transformer_nb').resolve()
    defined = re.compile(rf'^(def {name}\b|class {name}\b|{name}(:.*)? = )', re.M)
    for path in sorted(place.rglob('*.py')):
        if 'assignment' in path.parts: continue
        if not defined.search(path.read_text('utf8')): continue
        module = '.'.join(path.relative_to(place.parent).with_suffix('').parts)
        return getattr(import_module(module), name)
    raise LookupError(f'no module defines {name}')

def digest(tensor): # which hardly any change leaves as it is
    x = tensor.detach().double().flatten()
    weights = torch.arange(1, len(x) + 1, dtype=torch.double).cos()
    return [float(x.norm()), float(x @ weights)]

def weights_of(model):
    state = model.state_dict()
    arrays = [x.contiguous().numpy() for x in state.values()]
    code = hashlib.sha256(b''.join(x.tobytes() for x in arrays)).hexdigest()
    return dict(hash=code, weights={name: digest(x) for name, x in state.items()})

def models_of(first): return sorted((first/'nbs/models').glob('*-*-*'))

@part
def translations(first, options):
    "Text, score and ids of captions and of the everyday lists, greedy and by beam search"
    result, captions = {}, options['captions']
    for folder in models_of(first):
        kind, src, tgt = folder.name.split('-')
        if kind == 'multi30k':
            texts = [x for x, _ in find('load_corpus')(kind, src, tgt)['test']][:captions]
        else: texts = [row['source'] for name in ('everyday', 'typed')
                       for row in find('everyday_sentences')(name)
                       if row['direction'] == f'{src}-{tgt}']
        for beam_size in 1, 4:
            translator = find('Translator')(folder, beam_size=beam_size)
            found = zip(texts, translator.search(texts))
            result[f'{folder.name}, beam {beam_size}'] = {
                text: [[translator.text(h), h.score, h.ids] for h in some[:2]]
                for text, some in found}
        lines = translator.translate_lines([x.lower() for x in texts[:50]])
        result[f'{folder.name}, lines'] = [[line.text, line.notes] for line in lines]
    return result

def small_configs():
    "Every preset, shrunk, and tiny with each value of each choice"
    sizes = dict(vocab_size=50, d_model=32, d_ff=48, n_heads=4, d_k=None, d_v=None,
                 n_encoder_layers=2, n_decoder_layers=2, max_len=40)
    small = {name: replace(run().model, **sizes) for name, run in find('PRESETS').items()}
    choices = dict(positions=find('POSITIONS'), norm_type=find('NORM_TYPES'),
                   activation=find('ACTIVATIONS'), biases=find('BIASES'), norm=['pre'],
                   n_kv_heads=[1, 2], qk_norm=[True], tie_embeddings=[False],
                   scale_embeddings=[False])
    return small | {f'{field} {value}': replace(small['tiny'], **{field: value})
                    for field, values in choices.items() for value in values}

@part
def numbers(first, options):
    "Logits, loss and gradients in float64, plain and accelerated"
    src = torch.tensor([[4, 9, 17, 33, 2], [5, 6, 2, 0, 0]])
    tgt = torch.tensor([[1, 8, 12, 40], [1, 7, 8, 0]])
    labels, result = torch.tensor([[8, 12, 40, 2], [7, 8, 2, 0]]), {}
    for name, config in small_configs().items():
        find('set_seed')(0)
        model = find('Transformer')(config).double().eval()
        for title in name, f'{name}, accelerated':
            if title != name: find('accelerate')(model)
            model.zero_grad()
            logits = model(src, tgt)
            loss = find('smoothed_loss')(logits, labels, label_smoothing=0.1)
            loss.backward()
            result[title] = dict(logits=logits.tolist(), loss=loss.item(), gradients={
                n: digest(p.grad) for n, p in model.named_parameters()})
    return result

@cache
def some_pairs():
    corpus = find('mini_corpus')(0, 1000, 40, 10)
    return {split: list(corpus[split]) for split in ('train', 'valid')}

def train_tiny(out, steps, **more):
    run = find('preset')('tiny').override(vocab_size=600, batch_tokens=500, valid_every=20,
                                          save_every=8, max_steps=steps)
    history = find('train_translator')(out, run, corpus=some_pairs(), **more)
    varies = 'seconds', 'minutes', 'tokens_per_second', 'memory', 'time'
    for line in history:
        for name in varies: line.pop(name, None)
    return dict(history=history) | weights_of(find('load_model')(out)[0])

class Writer(torch.nn.Module): # of chapter 07a
    def __init__(self, c):
        super().__init__()
        self.embedding = find('Embedding')(c.vocab_size, c.d_model)
        self.positions = find('PositionalEncoding')(c.d_model, c.dropout, c.max_len)
        self.stack = find('Stack')(find('EncoderLayer'), c.n_encoder_layers, c)
    def forward(self, ids):
        x = self.positions(self.embedding(ids))
        return self.embedding.logits(self.stack(x, find('causal_mask')(ids.shape[1])))

@part
def learning(first, options):
    "200 steps of the copy task, of tiny and of the writer"
    find('set_seed')(0)
    copier = find('copy_model')()
    losses = find('train_copy')(copier, steps=200)
    with tempfile.TemporaryDirectory() as folder: tiny = train_tiny(folder, 200)
    find('set_seed')(0)
    model = Writer(find('TransformerConfig')(find('N_IDS'), d_model=64, d_ff=256, n_heads=4,
                                             n_encoder_layers=2, dropout=0., max_len=64))
    train, held_out = find('ladder_text')()
    find('learn_sentences')(model, train, 200, peak=0.003)
    loss = find('held_out_loss')(model, held_out[:200])
    return dict(tiny=tiny, copied=losses, copier=weights_of(copier), loss=loss,
                writer=weights_of(model))

@part
def resume(first, options):
    "A run that is killed between two checkpoints and goes on, beside one in one go"
    with tempfile.TemporaryDirectory() as folder:
        killed, whole = f'{folder}/killed', f'{folder}/whole'
        child = os.fork()
        if not child:
            try: train_tiny(killed, 40, on_validate=lambda _: os.kill(os.getpid(), 9))
            finally: os._exit(1)
        assert os.waitpid(child, 0)[1] == 9, 'it was not killed'
        left = sorted(x.name for x in Path(killed).rglob('*') if x.suffix != '.tmp')
        return dict(left=left, killed=train_tiny(killed, 40, resume=True),
                    whole=train_tiny(whole, 40))

@part
def batches(first, options):
    "Which pairs make up each batch, of several seeds, passes and budgets"
    pairs = some_pairs()['train']
    tokenizer = find('BPETokenizer').train([text for pair in pairs for text in pair], 600)
    ids, dropped = find('encode_pairs')(pairs, tokenizer, 64)
    def rows(seed, budget, mix=None):
        batches = find('TokenBatches')(ids, budget, seed, mix)
        return [[[int(i) for i in rows] for rows in batches.plan(n)] for n in (0, 1, 5)]
    return dict(dropped=dropped, ids=ids[:50], plain=rows(0, 500), another=rows(1, 999),
                mixed=rows(2, 700, [(600, 1), (400, 2.5)]))

@part
def folders(first, options):
    "Configurations of every preset, and what the stored model folders hold"
    result = {name: json.loads(x.to_json()) for name, x in small_configs().items()}
    for folder in models_of(first):
        model, tokenizer = find('load_model')(folder)
        result[folder.name] = weights_of(model) | dict(
            config=json.loads(model.config.to_json()), record=find('load_record')(folder),
            search=vars(find('load_search')(folder)), ids=tokenizer.encode('Café, “Fuß”…'))
    return result

@part
def commands(first, options):
    "Every option of every command, with its help and its default"
    result, settings = {}, Path('settings.ini').read_text('utf8')
    scripts = re.search(r'console_scripts = (.*?)\n\S', settings, re.S)[1].split()
    os.environ['COLUMNS'] = '10000'
    for name, place in (line.split('=') for line in scripts):
        module, function = place.split(':')
        sys.argv, said = [name, '--help'], io.StringIO()
        try:
            with redirect_stdout(said): # as a script, which reads the options
                exec(f'from {module} import {function}\n{function}()',
                     dict(__name__='__main__', __file__=name))
        except SystemExit: pass
        lines = [x.split() for x in said.getvalue().split('\n') if x[:2] == '  ']
        result[name] = {words[0]: ' '.join(words) for words in lines}
    return result

def typed_texts(options):
    sources = [row['source'] for row in find('everyday_sentences')('typed')]
    def forms(x):
        yield from (x.lower(), x.upper(), f' {x}', unicode_form('NFD', x))
        for old, new in ((' ', '  '), ("'", '’'), ('.', '…')): yield x.replace(old, new)
        yield from (x.replace('e', 'e\u00ad'), f'{x}\n\n{x} {x}')
        yield f'- “{x}” 😀 &amp; 3.50 € [LAUGHS]'
    texts = sources + [form for text in sources[::3] for form in forms(text)]
    if options['texts']: texts += Path(options['texts']).read_text('utf8').split('\n')
    return list(dict.fromkeys(texts))

@part
def text(first, options):
    "What becomes of a text before the model reads it"
    result, texts = {}, typed_texts(options)
    for folder in models_of(first)[1:3]: # an everyday model, and one of captions
        tokenizer = find('load_model')(folder)[1]
        for typed in texts: result[f'{folder.name}: {typed}'] = [
            tokenizer.encode(typed), [vars(x) for x in find('read_text')(typed, tokenizer)],
            find('strange')(typed, tokenizer), find('doubts')(typed, 'Ja, 30: www.x.de')]
    rules = 'plain', 'none', 'nfc', 'punctuation'
    return result | {x: [find('normalize')(x, rule) for rule in rules] for x in texts}

@part
def javascript(first, options):
    "The page's tokenizer and reading in Node, and which texts Python reads in another way"
    tokenizer, texts = find('load_model')(models_of(first)[1])[1], typed_texts(options)
    header = find('_tokenizer_header')(tokenizer) | dict(patterns=find('packed_reading')())
    in_node = Path(__file__).with_suffix('.js')
    with tempfile.TemporaryDirectory() as folder:
        script, given, out = (Path(folder, name) for name in ('script.js', 'given', 'out'))
        script.write_text(find('_join')('worker', 'reading'), 'utf8')
        given.write_text(json.dumps(dict(header=header, texts=texts)), 'utf8')
        done = subprocess.run(['node', in_node, script, given, out], stderr=-1)
        if done.returncode: raise RuntimeError(done.stderr.decode()[-500:])
        found = dict(zip(texts, json.loads(out.read_text('utf8'))))
    def here(typed):
        parts = find('split_paragraphs')(typed)
        plain = [find('tidy')(x, tokenizer.normalize) for x in parts]
        return [tokenizer.encode(typed), [
            [vars(find('read_sentence')(y, tokenizer.encode))
             for y in find('split_sentences')(x)] for x in plain if x.strip()]]
    return found | dict(other_in_python=[x for x in texts if found[x] != here(x)])

@part
def grader(first, options):
    "Points and remarks of the stored submissions"
    result, place = {}, first/'tests/submission'
    styles = sorted(x for x in (place/'styles').glob('*') if x.is_dir())
    for folder in [place, first/'transformer_nb/assignment/right', *styles]:
        for stage in find('STAGES'):
            if stage.number >= 9 or not (folder/stage.file).exists(): continue
            found = find('report')(find('grade')(folder, stage))
            result[f'{folder.name}/{stage.file}'] = found.split('\n')
    return result

def git(folder, *args): # what it prints
    return subprocess.check_output(['git', '-C', folder, *args], text=True).strip()

def open_side(side, temporary):
    "Its folder, and the commit of its results: none for a package with changes"
    folder = Path(side).resolve()
    if not folder.is_dir():
        folder = Path(temporary, side)
        git('.', 'worktree', 'add', '--detach', '--quiet', str(folder), side)
    changed = git(folder, 'status', '--porcelain', 'transformer_nb', 'settings.ini')
    return folder, 'changed' if changed else git(folder, 'rev-parse', '--short=9', 'HEAD')

def results_of(folder, commit, first, parts, options):
    "Of each part: stored, or found by one process for all that is missing"
    cpu = re.search('model name.*: (.*)', Path('/proc/cpuinfo').read_text('utf8'))
    given = json.dumps([options, cpu and cpu[1], Path(__file__).read_text('utf8')])
    known = hashlib.sha256(given.encode()).hexdigest()[:8]
    stored = {x: Path(options['cache'], f'{commit}-{x}-{known}.json') for x in parts}
    missing = {name: str(path) for name, path in stored.items() if commit == 'changed'
               or not path.exists() or b'"failed"' in path.read_bytes()}
    given = json.dumps([missing, str(first), options])
    env = os.environ | dict(PYTHONPATH=str(folder), OMP_NUM_THREADS='1', IN_TEST='1')
    call = [sys.executable, str(Path(__file__).resolve()), '--inside', given]
    if missing: subprocess.run(call, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    return {name: json.loads(path.read_text('utf8')) for name, path in stored.items()
            if path.exists()} # a process that was killed has left some out

def run_parts(given):
    import transformer_nb
    assert Path(transformer_nb.__file__).is_relative_to(Path.cwd()), transformer_nb.__file__
    torch.set_num_threads(1)
    missing, first, options = json.loads(given)
    for name, out in missing.items():
        try: found = PARTS[name](Path(first), options)
        except Exception as e:
            traceback.print_exc()
            found = dict(failed=f'{type(e).__name__}: {e}')
        Path(out).write_text(json.dumps(found, default=str), 'utf8')

def differences(a, b, close, path):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a | b:
            here = f'{path} › {str(key)[:60]}'
            if key in a and key in b: yield from differences(a[key], b[key], close, here)
            else: yield f'{here}: only on side {1 if key in a else 2}'
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from differences(x, y, close, f'{path}[{i}]')
    elif isinstance(a, float) and isinstance(b, float):
        absolute, relative = close
        alike = np.isclose(a, b, relative, absolute, equal_nan=True)
        if not alike: yield f'{path}: {a} | {b}'
    elif a != b: yield f'{path}: {str(a)[:300]!r} | {str(b)[:300]!r}'

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('sides', nargs=2, help='folders or commits; the old one first')
    parser.add_argument('--parts', nargs='+', choices=PARTS, default=list(PARTS))
    parser.add_argument('--captions', type=int, default=1000, help='to translate')
    parser.add_argument('--texts', type=os.path.abspath, help='file of more lines to read')
    parser.add_argument('--cache', type=os.path.abspath,
                        default=str(Path.home()/'.cache/transformer_nb/frozen'))
    options = vars(parser.parse_args())
    os.makedirs(options['cache'], exist_ok=True)
    sides, parts, n = options.pop('sides'), options.pop('parts'), 0
    with tempfile.TemporaryDirectory() as temporary:
        opened = [open_side(side, temporary) for side in sides]
        both = [results_of(*side, opened[0][0], parts, options) for side in opened]
        for name in parts:
            close = (1e-12, 1e-9) if name == 'numbers' else (1e-5, 1e-6)
            a, b = (side.get(name, dict(failed='it was killed')) for side in both)
            found = [f'{name} failed: {x["failed"][:300]}' for x in (a, b) if 'failed' in x]
            found = found or list(differences(a, b, close, name))
            print(*found[:30], f'{name}: {len(found) or "no"} differences', sep='\n')
            n += len(found)
        for folder, _ in opened:
            if temporary in str(folder): git('.', 'worktree', 'remove', '-f', folder)
    sys.exit(n > 0)

if __name__ == '__main__':
    if sys.argv[1:2] == ['--inside']: run_parts(sys.argv[2])
    else: main()
