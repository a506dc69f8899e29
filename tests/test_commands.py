"The commands, run as a user runs them: what they write, and how they refuse bad input."
import base64, gzip, importlib.util, json, math, multiprocessing, os, re
import select, shlex
import shutil, subprocess, sys, termios, types
from dataclasses import fields
from functools import cache
from pathlib import Path
import pytest, torch, yaml
from running import (
    BIN, ROOT, call, call_script, check_message, read_lines, refuses, run, write)
from transformer_nb import __version__, commands, translation
from transformer_nb.lessons import grammar
from transformer_nb.checkpoint import (
    load_model, save_model, training_lock)
from transformer_nb.commands import (
    SECTIONS, _build_run, _train_parser, tnb_demo, tnb_evaluate,
    tnb_score, tnb_train, tnb_translate)
from transformer_nb.support.core import InputError, command_parser, read_arguments
from transformer_nb.decoding import Hypothesis
from transformer_nb.commands import tnb_export
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.reading import Sentence
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import (
    PRESETS, Translator, preset, train_translator)

TINY = ['--d_model', 32, '--d_ff', 64, '--n_encoder_layers', 1, '--n_decoder_layers', 1]

def train(texts, out, *more):
    files = ['--src', texts/'train.de', '--tgt', texts/'train.en',
             '--valid_src', texts/'valid.de', '--valid_tgt', texts/'valid.en']
    options = ['--vocab_size', 400, '--max_steps', 6, '--save_every', 3, '--valid_every', 3]
    return call_train('--out', out, *files, *TINY, *options, *more)

def call_train(*arguments): return call(tnb_train, [str(a) for a in arguments])

@pytest.fixture(scope='session')
def model(texts, tmp_path_factory):
    out = tmp_path_factory.mktemp('run')/'model'
    done = train(texts, out)
    assert done.returncode == 0, done.stderr.decode()
    printed = done.stdout.decode()
    assert '6 steps' in printed and f'tnb_translate {out}' in printed
    assert b'rising (--warmup_steps 1000); train for longer' in done.stderr
    return out

# tnb_train

@pytest.mark.smoke
def test_model_folder(model):
    assert sorted(path.name for path in model.iterdir()) == [
        'checkpoints', 'config.json', 'data', 'metrics.jsonl', 'model.safetensors',
        'run.yaml', 'tokenizer.json']
    data, *lines = map(json.loads, read_lines(model/'metrics.jsonl'))
    assert data['pairs'] == 300 and data['valid_pairs'] == 100
    assert [line['step'] for line in lines] == [3, 6] and 'average_loss' in lines[-1]
    config = json.loads((model/'config.json').read_text())
    assert config['format'] == 2 and config['model']['vocab_size'] == 400
    assert set(config['versions']) == {'transformer_nb', 'torch', 'tokenizers'}
    about = config['training']
    assert about['data'] == data and about['result'] == lines[-1]
    assert about['config'] == yaml.safe_load((model/'run.yaml').read_text())

def test_its_run_file_repeats_the_training(model, tmp_path):
    out = tmp_path/'again'
    done = call_train('--out', out, '--config', model/'run.yaml')
    assert done.returncode == 0, done.stderr.decode()
    for name in ('run.yaml', 'model.safetensors'):
        assert (out/name).read_bytes() == (model/name).read_bytes(), name

@pytest.mark.smoke
def test_every_field_is_an_option():
    shown = set(re.findall('^  (--[a-z_]+)', _train_parser().format_help(), re.M))
    names = {field.name for config in SECTIONS.values() for field in fields(config)}
    assert len(shown) < 50 and names >= set(commands._NOT_SHOWN)
    assert {f'--{name}' for name in names - set(commands._NOT_SHOWN)} <= shown
    model = build('--norm=pre', '--no-tie-embeddings').model
    assert model.norm == 'pre' and not model.tie_embeddings

def build(*arguments): return _build_run(read_arguments(_train_parser(), arguments))

def test_preset_base_is_the_papers_recipe():
    run = build('--preset', 'base')
    assert run == preset('base')
    c, data, training = run.model, run.data, run.training
    assert (c.d_model, c.d_ff, c.n_heads, c.d_k, c.d_v) == (512, 2048, 8, 64, 64)
    assert (c.n_encoder_layers, c.n_decoder_layers, c.dropout) == (6, 6, 0.1)
    assert (c.norm, c.positions, c.tie_embeddings) == ('post', 'sinusoidal', True)
    assert (data.vocab_size, data.batch_tokens) == (37_000, 25_000)
    assert (training.max_steps, training.warmup_steps) == (100_000, 4000)
    assert training.lr == pytest.approx(512**-0.5 * 4000**-0.5)
    assert (training.label_smoothing, training.average) == (0.1, 5)
    assert training.save_every_minutes == 10 and training.grad_accum_steps == 1
    assert training.max_grad_norm is None and training.patience is None
    assert training.weights == 'mean'
    big = build('--preset', 'big')
    c, training = big.model, big.training
    assert (c.d_model, c.d_ff, c.n_heads, c.dropout) == (1024, 4096, 16, 0.3)
    assert (training.max_steps, training.average) == (300_000, 20)
    assert training.lr == pytest.approx(1024**-0.5 * 4000**-0.5)
def run_file(folder, text):
    path = folder/'run.yaml'
    path.write_text(text, encoding='utf8')
    return path

def test_preset_then_file_then_command_line(tmp_path):
    path = run_file(tmp_path, 'preset: base\n'
                              'model: {d_model: 256, dropout: 0.3}\n'
                              'data: {tgt_lang: no, drop_same: true}\n'
                              'training: {lr: 5e-3, max_minutes: null, patience: 4}\n')
    found = build('--config', str(path), '--dropout', '0.2', '--patience', 'none')
    base = preset('base')
    assert found == base.override(d_model=256, dropout=0.2, lr=0.005, tgt_lang='no',
                                  drop_same=True) # Norwegian is a language
    assert found.model.d_k == 32 and found.training.max_steps == 100_000
    assert build('--config', str(path), '--preset', 'tiny').model.d_ff == 256

def test_minutes_alone_end_a_training_where_only_they_are_given(tmp_path):
    limit = ['--max_minutes', '5']
    path = run_file(tmp_path, 'training: {max_steps: 7}\n')
    assert build(*limit).training.max_steps >= 10**9
    assert build(*limit, '--max_steps', '8').training.max_steps == 8
    assert build(*limit, '--config', str(path)).training.max_steps == 7
    path = run_file(tmp_path, 'training: {max_steps: null, max_minutes: 5}\n')
    assert build('--config', str(path)).training.max_steps >= 10**9
    assert build(*limit, '--decay_steps', '6000').training.max_steps == 6000 # lr is 0 there

def test_any_run_survives_its_file(tmp_path):
    run = build('--preset', 'big', '--corpus', 'no', '--src_lang', 'ü: #', '--lr', '1e-5',
                '--compile', '--max_grad_norm', '1').override(d_k=8, tie_embeddings=False)
    path = run_file(tmp_path, run.to_yaml())
    assert build('--config', str(path)) == run
    assert run.model.d_k == 8 and run.training.compile and not run.model.tie_embeddings

def here(capsys, arguments, words):
    "As `refuses`, without another process"
    with pytest.raises(SystemExit) as e: tnb_train([str(a) for a in arguments])
    printed = capsys.readouterr()
    assert e.value.code == 2 and printed.out == ''
    check_message(printed.err, words)

@pytest.mark.parametrize('text, words', [
    ('trainig: {lr: 1}', ["'trainig' is not a section", 'do you mean training?']),
    ('training: {peak_rate: 0.1}', ["'peak_rate' is not a field of training"]),
    ('training: {lr: .nan}', ["--lr: invalid float value: '.nan'"]),
    ('preset: huge', ["--preset: invalid choice: 'huge'", *PRESETS]),
    ('training:\n  {lr: 1', ['run.yaml:2: not YAML']),
    ('training: [7]', ['training must hold fields']), ('7', ['it must hold sections']),
    ('training: {compile: maybe}', ["--compile", "'maybe'"]),
    ('training: {seed: 1, seed: 2}', ['not YAML', "'seed' is there twice"]),
    ('training: {seed: 1:30}', ["--seed: invalid int value: '1:30'"]),
    ('training: {seed: ' + 5000*'9' + '}', ['--seed: invalid int value: ', '999…999']),
])
def test_bad_run_files_are_refused(text, words, tmp_path, capsys):
    path = run_file(tmp_path, text)
    arguments = ['--out', tmp_path/'m', '--corpus', 'mini', '--config', path]
    here(capsys, arguments, [f'{path}:', *words])
    assert list(tmp_path.iterdir()) == [path]

MINI = ['--out', 'm', '--corpus', 'mini']
HUGE = str(10**23)

@pytest.mark.parametrize('options, words', [
    ([], ['--out is needed']),
    (['--out', 'm'], ['--src is needed']),
    (['--out', 'm', '--corpus', 'wmt'], ["'wmt'", 'mini, multi30k']),
    ([*MINI, '--src', 'x'], ['cannot be used together']),
    ([*MINI, '--tgt_lang', 'fr'], ["'fr'", 'de, en']),
    ([*MINI, '--max_steps', '0'], ['--max_steps is 0']),
    ([*MINI, '--d_model', HUGE], ['d_model 100,', '256 MiB']),
    ([*MINI, '--lr', 'fast'], ["--lr: invalid float value: 'fast'"]),
    ([*MINI, '--device', 'abacus'], ['--device abacus']),
    ([*MINI, '--seed', '9' * 23], ['seed', '9' * 23]),
    ([*MINI, '--init', 'none'], ['none is not a model folder']),
    ([*MINI, '--tokenizer', 'none', '--vocab_size', '300'], ['cannot be combined']),
], ids=lambda x: ' '.join(x) or 'none')
def test_train_refuses(options, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here(capsys, options, words)
    assert list(tmp_path.iterdir()) == []

@pytest.mark.parametrize('change, words', [
    ({'--src': 'missing'}, ['missing is missing']),
    ({'--tgt': 'short.en'}, ['300 lines', '1;']),
    ({'--src': 'latin1'}, ['latin1:2', 'UTF-8']),
    ({'--max_len': '2'}, ['no sentence pair is left', '300 too long', 'at most 2 tokens']),
], ids=str)
def test_train_refuses_files(change, words, texts, tmp_path, monkeypatch):
    files = {'--src': 'train.de', '--tgt': 'train.en', '--valid_src': 'valid.de',
             '--valid_tgt': 'valid.en'} | change
    options = [word for option in files.items() for word in option]
    monkeypatch.chdir(texts)
    refuses(call_train('--out', tmp_path/'m', *options), *words)
    assert list(tmp_path.iterdir()) == []

def test_no_overwriting(texts, model):
    def files(): return {p: p.read_bytes() for p in model.rglob('*') if p.is_file()}
    before = files()
    refuses(train(texts, model), 'not empty', '--resume')
    assert files() == before

def hold_lock(folder, held, done):
    with training_lock(folder):
        held.set()
        done.wait(60)

def test_one_training_per_folder(texts, tmp_path):
    "Another process trains there, and has not written anything yet"
    fork = multiprocessing.get_context('fork')
    held, done = fork.Event(), fork.Event()
    other = fork.Process(target=hold_lock, args=(tmp_path/'m', held, done))
    other.start()
    assert held.wait(60)
    refuses(train(texts, tmp_path/'m'), 'another run is using')
    done.set()
    other.join()
    assert train(texts, tmp_path/'m').returncode == 0

def small_run(**options):
    small = dict(vocab_size=300, d_model=16, d_ff=16, n_encoder_layers=1,
                 n_decoder_layers=1, max_steps=2, valid_every=1)
    return preset('tiny').override(**small | options)

@cache
def few_pairs():
    pairs = mini_corpus(0, 40, 0, 0)['train']
    return dict(train=pairs[:30], valid=pairs[30:])

def test_from_a_model(texts, model, tmp_path):
    "Its weights, architecture, dropout and tokenizer; only dropout may change"
    files = ['--src', texts/'train.de', '--tgt', texts/'train.en',
             '--valid_src', texts/'valid.de', '--valid_tgt', texts/'valid.en']
    begin = ['--init', model, *files, '--max_steps', 1, '--lr', 1e-12, '--dropout', 0]
    done = call_train('--out', tmp_path/'m', *begin)
    assert done.returncode == 0, done.stderr
    old, new = load_model(model)[0], load_model(tmp_path/'m')[0]
    for name, weight in old.state_dict().items():
        torch.testing.assert_close(new.state_dict()[name], weight)
    assert new.config.dropout == 0 and new.config.d_model == 32
    run = yaml.safe_load((tmp_path/'m'/'run.yaml').read_text())
    assert run['data']['vocab_size'] == 400 and run['model']['d_model'] == 32
    old, new = (folder/'tokenizer.json' for folder in (model, tmp_path/'m'))
    assert old.read_bytes() == new.read_bytes()
    other = call_train('--out', tmp_path/'n', *begin, '--d_ff', 32)
    refuses(other, '--init keeps the architecture', f'd_ff is 32, not 64 as in {model}')
    assert not (tmp_path/'n').exists()
    again = ['--config', tmp_path/'m'/'run.yaml', '--max_steps', 2]
    assert call_train('--out', tmp_path/'m', *again, '--resume').returncode == 0
    config = json.loads((tmp_path/'m'/'config.json').read_text())
    assert config['training']['data']['init'] == str(model) # though a resume ended it
    done = call_train('--out', tmp_path/'m', '--resume', *begin, '--max_steps', 2)
    assert done.returncode == 0, done.stderr
    assert b'init and tokenizer are ignored' in done.stderr
    _, *lines = map(json.loads, read_lines(tmp_path/'m'/'metrics.jsonl'))
    assert [line['step'] for line in lines] == [0, 1, 2] # its start is not judged again

def tune(texts, model, out, *more):
    "Fine-tuned on its own text"
    files = ['--src', texts/'train.de', '--tgt', texts/'train.en',
             '--valid_src', texts/'valid.de', '--valid_tgt', texts/'valid.en']
    done = call_train('--out', out, '--init', model, *files, *more)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), list(map(json.loads, read_lines(out/'metrics.jsonl')))[1:]

def test_fine_tuning_never_ends_worse_than_it_began(texts, model, tmp_path):
    "Its start is validated as step 0 and can be the best, also after a resume"
    ruin = ['--lr', 10, '--warmup_steps', 1, '--max_grad_norm', 1, '--valid_every', 2]
    text, lines = tune(texts, model, tmp_path/'m', *ruin, '--max_steps', 4)
    start, *later = lines
    assert start['step'] == 0 and 'train_loss' not in start
    assert min(line['valid_loss'] for line in later) > start['valid_loss'] + .1 # it hurts
    assert later[-1]['weights'] == 'best'
    assert later[-1]['final_loss'] == later[-1]['best_loss'] == start['valid_loss']
    assert 'start' in text and 'no step made it better' in text
    old, new = (load_model(folder)[0].state_dict() for folder in (model, tmp_path/'m'))
    for name in old: assert torch.equal(old[name], new[name]), name
    again = ['--config', tmp_path/'m'/'run.yaml', '--valid_every', 1, '--resume']
    assert call_train('--out', tmp_path/'m', *again).returncode == 0
    lines = list(map(json.loads, read_lines(tmp_path/'m'/'metrics.jsonl')))
    assert lines[1] == start and lines[-1]['best_loss'] == start['valid_loss']

def test_fine_tuning_continues_the_models_own_run(tmp_path):
    "Not tiny's, whose learning rate undoes what a long decay has settled"
    run = small_run(lr=4e-3, weight_decay=0.1, label_smoothing=0.2, batch_tokens=900,
                    beam_size=3, dropout=0.25, max_minutes=5., weights='last', seed=4)
    train_translator(tmp_path/'m', run, corpus=few_pairs())
    about = json.loads((tmp_path/'m'/'config.json').read_text())
    about['training']['result']['step'] = 5000
    (tmp_path/'m'/'config.json').write_text(json.dumps(about))
    tuned = build('--init', str(tmp_path/'m'), '--corpus', 'mini')
    t = tuned.training
    assert (t.max_steps, t.warmup_steps, t.decay_steps, t.lr) == (500, 25, 500, 4e-4)
    assert (t.weight_decay, t.label_smoothing, t.seed) == (0.1, 0.2, 4)
    assert (t.max_minutes, t.weights, t.valid_every, t.save_every) == (None, 'auto', 25, 25)
    assert tuned.data.batch_tokens == 900 and tuned.search.beam_size == 3
    assert tuned.model.dropout == 0.25 and tuned.data.corpus == 'mini'
    given = build('--init', str(tmp_path/'m'), '--lr', '1e-4', '--max_steps', '90',
                  '--decay_steps', 'none', '--warmup_steps', '7', '--dropout', '0').training
    assert (given.lr, given.max_steps, given.decay_steps) == (1e-4, 90, None)
    assert given.warmup_steps == 7
    whole = build('--init', str(tmp_path/'m'), '--preset', 'tiny')
    assert whole.training == preset('tiny').training and whole.model == tuned.model

def test_bleu_is_of_sentences_from_all_of_the_set(monkeypatch):
    "The first ones of a sorted file would be the shortest"
    read = []
    def search(model, sources, **options):
        read.extend(sources)
        return [[types.SimpleNamespace(ids=ids)] for ids in sources]
    monkeypatch.setattr(translation, 'search', search)
    bpe = BPETokenizer.train(['ein Hund'], 280)
    pairs = [(bpe.encode(word), bpe.encode(word)) for word in ('a', 'b', 'c', 'd', 'e')]
    scores = translation._sample_scores(small_run(valid_bleu=2), bpe, pairs[:4])
    assert scores(None)['chrf'] == 100 and read == [pairs[0][0], pairs[2][0]]
    read.clear()
    translation._sample_scores(small_run(valid_bleu=9), bpe, pairs)(None)
    assert read == [src for src, _ in pairs]

@pytest.mark.parametrize('error', [
    torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 11.03 GiB. GPU 0 …'),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to …"),
    MemoryError()], ids=['CUDA', 'CPU', 'Python'])
def test_out_of_memory_is_one_line(error, model, texts, tmp_path, monkeypatch):
    def fail(*args, **options): raise error
    monkeypatch.setattr(translation.Trainer, 'run', fail)
    done = train(texts, tmp_path/'m')
    refuses(done, 'out of memory', 'lower --batch_tokens and raise --grad_accum_steps')
    assert ('11.03 GiB' in str(error)) == (b'11.03 GiB' in done.stderr)
    monkeypatch.setattr(Translator, 'search', fail)
    refuses(call(tnb_translate, model, stdin=b'Hund\n'), 'out of memory', '--search_tokens')
    files = dict(src=texts/'valid.de', ref=texts/'valid.en')
    refuses(call(tnb_evaluate, model, **files), 'out of memory', '--search_tokens')

def test_with_a_tokenizer(texts, model, tmp_path):
    path = tmp_path/'tokenizer.json'
    BPETokenizer.train(['ein Haus am See'], 270).save(path)
    train_translator(tmp_path/'m', small_run(), corpus=few_pairs(), tokenizer=path)
    assert (tmp_path/'m'/'tokenizer.json').read_bytes() == path.read_bytes()
    assert load_model(tmp_path/'m')[0].config.vocab_size == 270
    for origin in (dict(init=model, tokenizer=path), dict(init=model)):
        with pytest.raises(InputError, match='cannot be combined|keeps the architecture'):
            train_translator(tmp_path/'n', small_run(), corpus=few_pairs(), **origin)

# tnb_translate

@pytest.mark.smoke
def test_translate_one_line_for_each(model):
    lines = ['Der Hund schläft.', '', '  \r', 'Ein\u2028Satz\x85 mit </s> und 🙂',
             'sehr ' * 600, 'kein Ende']
    done = call(tnb_translate, model, stdin='\n'.join(lines).encode())
    *out, rest = done.stdout.decode().split('\n')
    assert done.returncode == 0 and len(out) == 6 and rest == '' # each line has its end
    assert out[1] == out[2] == ''
    beyond = [x for x in done.stderr.decode().splitlines() if '511 tokens' in x]
    assert beyond == ['tnb_translate: line 5: has more than 511 tokens; it is translated '
                      'up to there']

def test_translate_in_several_processes(model):
    lines = 'Der Hund schläft.\n\nDas Kind.\nEin (großes) Haus.\nsehr alt\nJa.\n'.encode()
    alone = call(tnb_translate, model, stdin=lines)
    shared = run('tnb_translate', model, '--processes', 2, stdin=lines)
    assert shared.returncode == 0 and shared.stdout == alone.stdout
    assert shared.stdout.count(b'\n') == 6 and shared.stderr == alone.stderr
    refuses(call(tnb_translate, model, processes=2, sample=True), 'cannot be combined')

def test_a_process_that_is_killed_is_told(model):
    command = [BIN/'tnb_translate', model, '--processes', '2']
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, bufsize=0)
    process.stdin.write(b'Ja.\n')
    assert process.stdout.readline().endswith(b'\n')
    children = Path(f'/proc/{process.pid}/task/{process.pid}/children').read_text().split()
    for child in children:
        is_worker = b'spawn_main' in Path(f'/proc/{child}/cmdline').read_bytes()
        if is_worker: os.kill(int(child), 9)
    _, error = process.communicate(b'Nein.\nDoch.\n', timeout=60)
    assert process.returncode == 2 and b'killed' in error and b'Traceback' not in error

def test_threads_that_wait_sleep():
    "Before PyTorch is imported, and unless somebody decided"
    look = 'import transformer_nb, os; print(os.environ.get("GOMP_SPINCOUNT"))'
    for given, seen in ({}, b'3000'), (dict(GOMP_SPINCOUNT='7'), b'7'), (
            dict(OMP_WAIT_POLICY='active'), b'None'):
        done = subprocess.run([sys.executable, '-c', look], env=given, capture_output=True)
        assert done.stdout.strip() == seen, done

def test_translate_streams(model):
    "A program that sends a line and waits gets each answer"
    command = [BIN/'tnb_translate', model, '--beam_size', '1']
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               bufsize=0, env={**os.environ, 'IN_TEST': '1'})
    for line in ('Der Hund schläft.', 'Das Kind.', '', 'Ein Haus.'):
        process.stdin.write((line + '\n').encode())
        answered, _, _ = select.select([process.stdout], [], [], 60)
        if not answered: process.kill()
        assert answered and process.stdout.readline().endswith(b'\n'), line
    rest, _ = process.communicate('zwei\nauf einmal'.encode(), timeout=60)
    assert rest.count(b'\n') == 2 and process.returncode == 0

def test_a_sentence_is_not_a_file(model):
    text = "It's"
    refuses(call(tnb_translate, model, text), 'there is no file',
            f'echo {shlex.quote(text)} | tnb_translate {model}')

def test_a_person_who_types_is_prompted(model):
    "And nothing is glued to the translations: no bar"
    ours, theirs = os.openpty()
    settings = termios.tcgetattr(theirs)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    env = {name: value for name, value in os.environ.items() if name != 'IN_TEST'}
    process = subprocess.Popen([BIN/'tnb_translate', model, '--beam_size', '1'], env=env,
                               stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b''
    def read_to(end):
        nonlocal seen
        while not seen.endswith(end):
            assert select.select([ours], [], [], 120)[0], seen
            seen += os.read(ours, 1000)
    read_to(b'> ')
    assert b'Ctrl-D ends' in seen
    seen = b''
    os.write(ours, b'Der Hund.\n')
    read_to(b'\n> ')
    os.write(ours, b'\x04') # Ctrl-D
    assert process.wait(60) == 0
    answer = seen.removesuffix(b'> ').decode()
    cut, guess, answer = answer.split('\n', 2) # this model never ends a sentence
    assert cut.strip() == 'tnb_translate: line 1: the translation was cut at its limit'
    assert guess.startswith('tnb_translate: line 1: probably nonsense')
    assert answer.count('\n') == 1 and 'lines' not in answer and '\r' not in answer[:-2]
    os.close(ours)

def test_translate_file_gzip_and_n_best(model, tmp_path):
    path = tmp_path/'x.gz'
    path.write_bytes(gzip.compress('Der Hund schläft.\n\nDas Kind.\n'.encode()))
    plain = call(tnb_translate, model, path).stdout.decode().splitlines()
    two = call(tnb_translate, model, path, n_best=2).stdout.decode().splitlines()
    best = [line.split(' ||| ') for line in two]
    assert len(plain) == 3 and {row[0] for row in best} == {'0', '2'}
    assert all(len(row) == 3 for row in best)
    assert next(text for n, text, _ in best if n == '0') == plain[0]
    many = call(tnb_translate, model, path, n_best=5)
    refuses(many, '--n_best is 5', 'from 1 to beam_size, 4')

# a line before the damage may still be translated
@pytest.mark.parametrize('data, whole', [
    (b'no gzip', 0), (gzip.compress(b'Ja.\n')[:-9], 1)], ids=['no gzip', 'half of one'])
def test_translate_refuses_half_a_gzip_file(data, whole, model, tmp_path):
    (tmp_path/'cut.gz').write_bytes(data)
    done = call(tnb_translate, model, tmp_path/'cut.gz')
    assert done.returncode == 2 and done.stdout.count(b'\n') <= whole
    assert done.stdout == b'' or done.stdout.endswith(b'\n')
    *_, error = done.stderr.decode().splitlines() # others are about the translation
    check_message(error, ['cut.gz: not a whole gzip file'])

@pytest.mark.parametrize('options, words', [
    (dict(file='none'), ['there is no file', 'none']),
    (dict(device='abacus'), ['--device abacus']),
    (dict(beam_size=100_000), ['--beam_size is 100000', '512']),
    (dict(sample=True, beam_size=4), ['--beam_size and --sample cannot be combined']),
    (dict(seed=3), ['--seed needs --sample']),
    (dict(sample=True, top_p=1.5), ['top_p is 1.5']),
    (dict(sample=True, n_best=2), ['--n_best and --sample cannot be combined'])], ids=str)
def test_translate_refuses(options, words, model):
    refuses(call(tnb_translate, model, stdin=b'Ja.\n', **options), *words)

def test_translate_refuses_weights_that_are_not_numbers(model, tmp_path):
    network, bpe = load_model(model)
    network.output.weight.data[5, 5] = math.nan
    save_model(tmp_path/'m', network, bpe)
    refuses(call(tnb_translate, tmp_path/'m', stdin=b'Ja.\n'), 'NaN')
    refuses(run('tnb_translate', tmp_path/'m', '--processes', 2, stdin=b'Ja.\n'), 'NaN')

@pytest.mark.parametrize('from_file', [False, True], ids=['stream', 'file'])
def test_a_bad_byte_does_not_end_a_stream(from_file, model, tmp_path):
    lines = [b'Der Hund.\n'] * 12
    lines[5] = b'Der H\xfcnd.\n'
    (tmp_path/'x').write_bytes(b''.join(lines))
    source = dict(file=str(tmp_path/'x')) if from_file else dict(stdin=b''.join(lines))
    done = call(tnb_translate, model, beam_size=1, **source)
    assert done.returncode == 0 and done.stdout.count(b'\n') == 12
    told = [x for x in done.stderr.decode().splitlines() if 'UTF-8' in x]
    name = tmp_path/'x' if from_file else 'standard input'
    assert told == [f'tnb_translate: {name}:6: byte 0xfc is not UTF-8; it is replaced']
    strict = call(tnb_translate, model, beam_size=1, strict=True, **source)
    assert strict.returncode == 2 and b':6: byte 0xfc' in strict.stderr
    before = done.stdout.splitlines(keepends=True)[:5] # in the same or in other batches
    assert strict.stdout.splitlines(keepends=True) == before

def test_all_bytes_bad_is_another_encoding(model, tmp_path):
    text = 'Ein Hund.\nEine Katze.\n'.encode('utf-16')
    refuses(call(tnb_translate, model, stdin=text), 'standard input is UTF-16')
    for data, words in (text, 'x is UTF-16; convert'), (gzip.compress(text), 'x is packed'):
        (tmp_path/'x').write_bytes(data)
        refuses(call(tnb_translate, model, str(tmp_path/'x')), words)

def test_translate_draws(model):
    lines = 'Der Hund.\n\nDas Kind.\n'.encode() * 3
    def drawn(**options):
        done = call(tnb_translate, model, stdin=lines, sample=True, **options)
        assert done.returncode == 0 and done.stdout.count(b'\n') == 9, done.stderr
        return done.stdout
    assert drawn() == drawn(seed=0) != drawn(seed=1)
    greedy = call(tnb_translate, model, stdin=lines, beam_size=1).stdout
    assert drawn(top_k=1) == greedy != drawn(temperature=2.)

def test_options_reach_search_and_sampling(model, monkeypatch):
    "The model of the tests hardly ever ends a sentence, so its output cannot show it"
    seen = []
    def record(translator, texts, **options):
        seen.append((translator.options, options))
        return [[] for _ in texts]
    for method in ('search', 'sample'): monkeypatch.setattr(Translator, method, record)
    searching = dict(beam_size=3, alpha=1., n_best=2, search_tokens=50)
    call(tnb_translate, model, stdin=b'Ja.\n', **searching)
    drawing = dict(temperature=2., top_k=5, top_p=0.5)
    call(tnb_translate, model, stdin=b'Ja.\n', sample=True, search_tokens=50, **drawing)
    (found, _), (of_sampling, drawn) = seen
    assert searching.items() <= found.items() and found['precision'] == 'fp32'
    assert drawn == drawing and of_sampling['search_tokens'] == 50

def test_precision_is_asked_for(model, texts, tmp_path, monkeypatch):
    seen = []
    def record(translator, texts, **options):
        seen.append(translator.options['precision'])
        return [[] for _ in texts]
    monkeypatch.setattr(Translator, 'search', record)
    gpu = dict(auto='bf16', fp32='fp32') # what a GPU that has it would take
    monkeypatch.setattr(translation, 'choose_precision', lambda name, device: gpu[name])
    call(tnb_translate, model, stdin=b'Hund\n')
    call(tnb_translate, model, stdin=b'Hund\n', precision='fp32')
    files = dict(src=texts/'valid.de', ref=texts/'valid.en')
    call(tnb_evaluate, model, precision='fp32', **files)
    assert seen == ['bf16', 'fp32', 'fp32']
    monkeypatch.undo()
    for command, more in ((tnb_translate, {}), (tnb_evaluate, files)):
        done = call(command, model, precision='bf16', device='cpu', **more)
        refuses(done, '--precision bf16 needs a CUDA GPU')

# tnb_evaluate

def evaluate(*args, **options):
    done = call(tnb_evaluate, *args, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

@pytest.mark.smoke
def test_evaluate_is_one_json_object(model, texts, tmp_path):
    files = dict(src=texts/'valid.de', ref=texts/'valid.en')
    scores = evaluate(model, lang='en', beam_size=2, out=tmp_path/'out', **files)
    assert set(scores) - {'notes'} == {
        'bleu', 'bleu_lc', 'bleu_moses_lc', 'chrf', 'ci', 'ci_moses_lc', 'signatures',
        'ppl', 'left_out', 'cut', 'search', 'sentences', 'tokens_per_second', 'seconds'}
    assert scores['sentences'] == 100 and scores['ppl'] > 1
    for name, interval in dict(bleu='ci', bleu_moses_lc='ci_moses_lc').items():
        low, high = scores[interval]
        assert low <= scores[name] <= high
    assert scores['left_out'] == {} and scores['cut'] == []
    written = evaluate(hyp=tmp_path/'out', ref=texts/'valid.en', lang='en')
    for name in written: assert written[name] == scores[name], name
    assert 'ppl' not in written
    averaged = evaluate(model, average=1, beam_size=1, **files)
    assert averaged['ppl'] > 1 and 'bleu_moses_lc' not in averaged
    too_many = call(tnb_evaluate, model, average=9, **files)
    refuses(too_many, '--average is 9', 'checkpoints has 2')

def test_evaluate_reports_what_does_not_count(model, tmp_path):
    write(tmp_path/'src', ['Hund', '', 'sehr ' * 600, *['']*12])
    write(tmp_path/'ref', ['The dog ' * 20, 'Nothing.', 'very ' * 600, *['x']*12])
    done = call(tnb_evaluate, model, src=tmp_path/'src', ref=tmp_path/'ref', beam_size=1)
    scores = json.loads(done.stdout)
    assert scores['left_out'] == {'empty': [2, *range(4, 16)], 'too long': [3]}
    assert scores['cut'] == [3] and scores['sentences'] == 15 and scores['ppl'] > 1
    empty, too_long, cut, *notes = done.stderr.decode().splitlines()
    assert empty.endswith('empty: lines 2, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 3 more')
    assert too_long.endswith('too long: line 3') and cut.endswith('only: line 3')

def test_evaluate_compares(model, texts):
    files = dict(hyp=texts/'valid.en', ref=texts/'valid.en')
    same = evaluate(baseline=texts/'valid.en', **files)['comparison']
    other = evaluate(baseline=texts/'valid.de', **files)['comparison']
    for name in ('randomization', 'bootstrap'):
        assert same[name]['difference'] == 0 and same[name]['p'] == 1
        assert other[name]['difference'] > 50 and other[name]['p'] < 0.01
    ours = evaluate(model, src=texts/'valid.de', ref=texts/'valid.en', beam_size=1,
                    baseline=texts/'valid.en')['comparison']
    assert ours['randomization']['baseline'] == 100

def test_evaluate_refuses(model, texts):
    ref, short, src = (texts/name for name in ('valid.en', 'short.en', 'valid.de'))
    for folder, files, word in [
            ([model], dict(src=src), '--ref'), ([], dict(ref=ref), 'or --hyp'),
            ([model], dict(src=src, ref=short), '100 lines'),
            ([model], dict(hyp=ref, ref=ref), 'model folder and --hyp cannot'),
            ([], dict(hyp=ref, ref=ref, src=ref), '--src and --hyp cannot'),
            ([], dict(hyp=short, ref=ref), '100'),
            ([], dict(hyp=ref, ref=ref, baseline=short), '100')]:
        refuses(call(tnb_evaluate, *folder, **files), word)

def test_evaluate_a_corpus(model, tmp_path, monkeypatch):
    "In the languages that the model was trained for, the same as with two files"
    small = mini_corpus(0, 2000, 30, 50)
    monkeypatch.setattr(grammar, 'mini_corpus', lambda: small)
    refuses(call(tnb_evaluate, model, corpus='mini'), 'does not say its languages')
    run = tmp_path/'run'
    sizes = ['--vocab_size', 400, '--max_steps', 2]
    done = call_train('--out', run, '--corpus', 'mini', '--src_lang', 'en',
                      '--tgt_lang', 'de', *TINY, *sizes)
    assert done.returncode == 0, done.stderr.decode()
    short = dict(beam_size=1, max_extra=2)
    scores = evaluate(run, corpus='mini', **short)
    assert scores['sentences'] == 50
    german, english = zip(*small['test'])
    write(tmp_path/'src', english)
    write(tmp_path/'ref', german)
    same = evaluate(run, src=tmp_path/'src', ref=tmp_path/'ref', **short)
    for name in ('bleu', 'chrf', 'ppl'): assert same[name] == scores[name]
    valid = evaluate(run, corpus='mini', split='valid', **short)
    assert valid['sentences'] == 30
    for options, *words in [
            (dict(corpus='mini', split='val'), '--split', 'valid, test'),
            (dict(corpus='mini', split='train'), '--split', 'valid, test'),
            (dict(corpus='minni'), 'minni', 'multi30k'),
            (dict(corpus='mini', src=tmp_path/'src'), '--src and --corpus cannot'),
            (dict(corpus='mini', ref=tmp_path/'ref'), '--ref and --corpus cannot'),
            (dict(split='test', ref=tmp_path/'ref'), '--corpus')]:
        refuses(call(tnb_evaluate, run, **options), *words)
    refuses(call(tnb_evaluate, corpus='mini'), 'a model folder')

CHINESE = ['两只狗在雪地里玩耍。', '孩子们在公园里踢足球。']

def test_evaluate_chinese(model, tmp_path):
    "Not 0.0 with status 0: by its own rule, or refused"
    write(tmp_path/'ref.zh', CHINESE)
    write(tmp_path/'hyp.zh', [line.replace('在', '正在') for line in CHINESE])
    write(tmp_path/'src', ['Hund', 'Kinder'])
    files = dict(hyp=tmp_path/'hyp.zh', ref=tmp_path/'ref.zh')
    for how in (dict(lang='zh'), dict(tokenize='char'), dict(lang='zh', tokenize='char')):
        scores = evaluate(**files, baseline=files['hyp'], **how)
        assert scores['bleu'] > 50 and 'bleu_moses_lc' not in scores
        assert scores['comparison']['bootstrap']['system'] == scores['bleu']
    refuses(call(tnb_evaluate, **files), 'no spaces between words', '--lang', '--tokenize')
    refuses(call(tnb_evaluate, **files, tokenize='words'), "--tokenize is 'words'", 'char')
    done = call(tnb_evaluate, model, src=tmp_path/'src', ref=tmp_path/'ref.zh',
                out=tmp_path/'out')
    refuses(done, 'no spaces between words')
    assert not (tmp_path/'out').exists() # refused before anything is translated
    chinese = copied(model, tmp_path/'model')
    config = json.loads((chinese/'config.json').read_text())
    config['training']['config']['data']['tgt_lang'] = 'zh'
    (chinese/'config.json').write_text(json.dumps(config))
    scores = evaluate(chinese, src=tmp_path/'src', ref=tmp_path/'ref.zh')
    assert 'tok:zh' in scores['signatures']['bleu']

# tnb_export

@pytest.mark.smoke
def test_export_runs_in_ctranslate2(model, texts, tmp_path):
    ctranslate2 = pytest.importorskip('ctranslate2')
    folder = tmp_path/'ct2'
    folder.mkdir() # an empty one will do
    done = call(tnb_export, model, folder)
    assert done.returncode == 0, done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ['ct2']
    again = call(tnb_export, model, folder)
    refuses(again, 'not empty; choose another folder')
    assert b'resume' not in again.stderr
    ctranslate2.Translator(str(folder), compute_type='float32')
def test_export_refuses_a_page(model, tmp_path):
    page = tmp_path/'page.html'
    refuses(call(tnb_export, [model, model], tmp_path/'ct2'), 'ct2 does not end in .html')
    refuses(call(tnb_export, tmp_path, page), 'no config.json')
    large, bpe = Transformer(TransformerConfig.tiny(260)), BPETokenizer.train(['a'], 260)
    large.output.weight.data[0, 0] = 1e5
    save_model(tmp_path/'large', large, bpe)
    refuses(call(tnb_export, tmp_path/'large', page), 'float16')
    assert not page.exists()

def test_a_modern_model_from_end_to_end(texts, tmp_path):
    "Trained, resumed, translated with, exported where that can be, and fine-tuned"
    m, small = tmp_path/'model', ('--preset', 'modern', '--n_heads', '4')
    done = train(texts, m, *small)
    assert done.returncode == 0, done.stderr.decode()
    model, _ = load_model(m)
    assert type(model.decoder.layers[0].self_attention).__name__ == 'ModernAttention'
    assert not any('bias' in name for name in model.state_dict())
    done = call(tnb_translate, m, stdin='Ein Haus.\nDas Kind.\n'.encode())
    assert done.returncode == 0 and done.stdout.count(b'\n') == 2
    refuses(call(tnb_export, m, tmp_path/'page.html'),
            "norm_type is 'rmsnorm', which the page cannot do")
    if importlib.util.find_spec('ctranslate2'):
        done = call(tnb_export, m, tmp_path/'ct2')
        assert done.returncode == 0 and (tmp_path/'ct2'/'model.bin').exists()
    done = call_train('--out', tmp_path/'tuned', '--src', texts/'train.de', '--tgt',
                      texts/'train.en', '--valid_src', texts/'valid.de', '--valid_tgt',
                      texts/'valid.en', '--init', m, '--max_steps', 2)
    assert done.returncode == 0, done.stderr.decode()
    tuned, _ = load_model(tmp_path/'tuned')
    assert tuned.config == model.config

def test_export_writes_a_page(model, texts, tmp_path):
    page = tmp_path/'new'/'page.html'
    done = call(tnb_export, [model, model], page)
    assert done.returncode == 0, done.stderr.decode()
    assert [path.name for path in page.parent.iterdir()] == ['page.html']
    text = page.read_text(encoding='utf8')
    assert '<!-- tnb:' not in text
    headers = re.findall(r'<script type="application/json" id="model-[^"]+">([^<]*)<', text)
    [header, twin] = map(json.loads, headers)
    assert [header['key'], twin['key']] == ['de-en', 'de-en-2']
    assert [header['title'], twin['title']] == ['German → English', 'German → English (2)']
    first, *_ = read_lines(texts/'valid.de')
    assert header['examples'] == [] and first not in text # nothing it was trained on
    for encoded in re.findall(r'id="weights-[^"]+">([^<]*)<', text):
        assert len(base64.b64decode(encoded)) == 2*header['n_parameters']
    refuses(call(tnb_export, model, page), 'page.html exists already')
    assert page.read_text(encoding='utf8') == text

# damaged models

def copied(model, folder):
    folder.mkdir()
    for path in model.iterdir():
        if path.is_file(): (folder/path.name).write_bytes(path.read_bytes())
    return folder

@pytest.mark.parametrize('name, data', [
    ('model.safetensors', b'half'),
    ('tokenizer.json', b'{}'),
    ('config.json', b'{"model": {"vocab_size": 1, "x": 2}}')])
def test_damaged_models_are_refused(name, data, model, tmp_path):
    folder = copied(model, tmp_path/'copy')
    (folder/name).write_bytes(data)
    refuses(call(tnb_translate, folder), name, 'damaged')
    (folder/name).unlink()
    refuses(call(tnb_translate, folder), name)

# the others

COMMANDS = [tnb_demo, tnb_evaluate, tnb_export, tnb_score, tnb_translate]

def test_help_and_version(capsys):
    for command in COMMANDS:
        for option in ('--help', '--version'):
            with pytest.raises(SystemExit) as e:
                command_parser(command.__wrapped__).parse_args([option])
            assert e.value.code == 0
        assert capsys.readouterr().out.endswith(f'\n{command.__name__} {__version__}\n')

@pytest.mark.parametrize('typed, meant', [
    ('--beam-sise', '--beam_size'), ('--alfa=1', '--alpha'), ('--colour', None)])
def test_a_misspelled_option_is_answered_in_one_line(typed, meant, model):
    done = call_script(tnb_translate, model, typed, 5)
    hint = f'did you mean {meant}?' if meant else '--help lists them'
    refuses(done, f'there is no option {typed.partition("=")[0]}; {hint}')

def test_hyphens_or_underscores():
    assert build('--batch-tokens', '99', '--src-lang=fr') == build(
        '--batch_tokens', '99', '--src_lang', 'fr')
    assert not build('--no-compile').training.compile
    parser = command_parser(tnb_translate.__wrapped__)
    found = read_arguments(parser, ['m', '--n-best', '3', '--beam-size=7', '--', '--x-y'])
    assert (found['n_best'], found['beam_size'], found['file']) == (3, 7, '--x-y')

def test_options_may_stand_before_the_file(model, texts):
    "argparse alone would call the file an argument too many"
    done = call_script(tnb_translate, model, '--beam_size', 1, texts/'short.en')
    assert done.returncode == 0 and done.stdout.count(b'\n') == 1, done.stderr

def test_a_word_too_many(model):
    done = call_script(tnb_translate, model, 'Zwei', 'Hunde')
    refuses(done, "'Hunde' is one argument too many; put quotes around text")

# Files of the user that a command could replace

@pytest.fixture
def test_set(model, texts, tmp_path, monkeypatch):
    "A folder with two sentences, their references, a model, and what else may be there"
    monkeypatch.chdir(tmp_path)
    for lang in ('de', 'en'):
        write(tmp_path/f's.{lang}', read_lines(texts/f'valid.{lang}')[:2])
    shutil.copytree(model, tmp_path/'m')
    Path('link').symlink_to('s.de')
    Path('nothing').symlink_to('not there')
    os.mkfifo('pipe')
    return tmp_path

def contents(folder): return {p: p.read_bytes() for p in folder.rglob('*') if p.is_file()}

def test_evaluate_replaces_nothing(test_set, monkeypatch):
    "And says so before it translates"
    def translates(*args, **options): raise AssertionError('translated')
    monkeypatch.setattr(commands, 'Translator', translates)
    before = contents(test_set)
    for out in ('s.de', 'link', 'nothing', 'pipe', 'm', 'm/model.safetensors', '/dev/null'):
        done = call(tnb_evaluate, 'm', src='s.de', ref='s.en', out=out)
        refuses(done, 'exists already')
    refuses(call(tnb_evaluate, 'm', src='s.de', ref='s.en', out='s.de/x'), 's.de')
    assert contents(test_set) == before and Path('pipe').is_fifo()

def test_terminal_codes_of_a_strangers_tokens(model):
    translator = Translator(model)
    class Codes:
        def decode(self, ids): return '\x1b[31mred\x07\n\x9b!\tblue\x00'
    translator.tokenizer = Codes()
    shown = translator.text(types.SimpleNamespace(ids=[]))
    assert shown == '[31mred   !\tblue'

def test_candidates_are_numbered_over_all_chunks():
    "The second “red” is left out: two ways to cut a text are two hypotheses"
    hypotheses = [Hypothesis([i], -i, [0.]) for i in (1, 2, 3)]
    translator = types.SimpleNamespace(text=lambda h: ['', 'red', 'red', 'blue'][h.ids[0]])
    line = translation.Line('red', [Sentence('rot', 'rot')], [hypotheses], [])
    found = commands._output_lines(translator, [line] * 2, 4000, 3)
    assert list(found) == [f'{n} ||| {x}\n' for n in (4000, 4001)
                           for x in ('red ||| -1.0000', 'blue ||| -3.0000')]

# What users have is enough

def test_resume_alone_takes_the_run_of_the_folder(texts, tmp_path):
    assert train(texts, tmp_path/'m').returncode == 0
    run = (tmp_path/'m'/'run.yaml').read_text()
    done = call_train('--out', tmp_path/'m', '--resume', '--max_steps', 9)
    assert done.returncode == 0, done.stderr
    assert 'continued after step 6' in done.stderr.decode()
    changed = run.replace('max_steps: 6', 'max_steps: 9')
    assert (tmp_path/'m'/'run.yaml').read_text() == changed
    refuses(call_train('--out', tmp_path/'mm', '--resume'), 'has no run to continue')
    assert not (tmp_path/'mm').exists()

def test_standard_input_by_its_usual_name(model):
    lines = b'Der Hund.\nDie Katze.\n'
    wanted = call(tnb_translate, model, stdin=lines).stdout
    assert call(tnb_translate, model, '-', stdin=lines).stdout == wanted != b''

def test_several_references(tmp_path):
    write(tmp_path/'hyp', ['a small dog runs here', 'he sleeps all day long'])
    write(tmp_path/'one', ['a little dog is running', 'he sleeps all day long'])
    write(tmp_path/'two', ['a small dog runs here', 'all day he sleeps'])
    write(tmp_path/'few', ['a small dog runs here'])
    one = evaluate(hyp=tmp_path/'hyp', ref=tmp_path/'one')['bleu']
    hyp, first, second = (tmp_path/name for name in ('hyp', 'one', 'two'))
    both = evaluate(hyp=hyp, ref=[first, second])['bleu']
    assert one < both == 100
    done = call(tnb_evaluate, hyp=hyp, ref=[first, tmp_path/'few'])
    refuses(done, 'match line by line')
    done = call(tnb_evaluate, hyp=hyp, ref=[first, second], baseline=first)
    refuses(done, 'one list of references')

def test_without_tags_a_line_is_told(model):
    translator = Translator(model)
    translator.tokenizer = BPETokenizer.train(['Hund'], 270, tags=['>>en<<'])
    translator.needs_tag = True
    note = 'it begins with none of the tags >>en<<'
    lines = ['>>en<< Hund. Hund.', 'Hund.']
    tagged, plain = translator.translate_lines(lines, find=lambda texts: [[]] * len(texts))
    assert [s.read for s in tagged.sentences] == ['>>en<< Hund.'] * 2
    found = [[Hypothesis([], 0., [0.])]] * 3
    tagged, plain = translator.translate_lines(lines, find=lambda texts: found)
    assert (tagged.notes, plain.notes) == ([], [note])

def test_normalized_by_default_and_the_folder_says_so(tmp_path):
    train_translator(tmp_path/'m', small_run(), corpus=few_pairs())
    translator = Translator(tmp_path/'m')
    encode = translator.tokenizer.encode
    assert encode(' „gut“\u00a0…') == encode('"gut" ...')
    assert 'normalize: plain' in (tmp_path/'m'/'run.yaml').read_text()

# tnb_score

def scored(*args, **options):
    done = call(tnb_score, *args, **options)
    assert done.returncode == 0, done.stderr
    rows = [line.split('\t') for line in done.stdout.decode().splitlines()]
    return [(float(total), float(mean), *rest) for total, mean, *rest in rows], done.stderr

@pytest.mark.smoke
def test_score_counts_as_the_search_does(model, texts, tmp_path):
    "And neither order nor batches matter"
    translator = Translator(model)
    sources = (texts/'valid.de').read_text(encoding='utf8').splitlines()[:30]
    found = [h for [h, *_] in translator.search(sources, beam_size=2)]
    write(tmp_path/'src', sources)
    write(tmp_path/'tgt', [translator.text(h) for h in found])
    rows, said = scored(model, tmp_path/'src', tmp_path/'tgt', tokens=True)
    assert len(rows) == 30 and not said
    n_same = 0
    for h, (total, mean, pieces) in zip(found, rows):
        pieces = json.loads(pieces)
        [again] = translator.tokenizer.encode_targets([translator.text(h)])
        assert len(pieces) == len(again) + 1 and pieces[-1][0] == '</s>'
        assert total == pytest.approx(sum(x for _, x in pieces), abs=0.01)
        assert mean == pytest.approx(total / len(pieces), abs=1e-3)
        if again != h.ids or len(pieces) != len(h.log_probs):
            continue # the same text was cut otherwise, or has a token without text
        assert [x for _, x in pieces] == pytest.approx(h.log_probs, abs=1e-3)
        n_same += 1
    assert n_same > 5
    for name in ('src', 'tgt'):
        lines = (tmp_path/name).read_text(encoding='utf8').splitlines()
        write(tmp_path/f'{name}2', lines[::-1])
    other, _ = scored(model, tmp_path/'src2', tmp_path/'tgt2', search_tokens=40)
    assert [row[0] for row in other[::-1]] == pytest.approx([row[0] for row in rows],
                                                            abs=1e-3)

def test_scores_are_told_as_they_come(model, monkeypatch):
    told = []
    def pairs(src, tgt):
        for n in range(5000):
            if n == 4100: told.append(sys.stdout.buffer.getvalue().count(b'\n'))
            yield 'Hund', 'dog'
    def score(translator, pairs): return {i + 1: [-1.] for i in range(len(pairs))}, {}
    monkeypatch.setattr(commands, 'PairFiles', pairs)
    monkeypatch.setattr(commands, 'score_pairs', score)
    rows, _ = scored(model, 'src', 'tgt')
    assert len(rows) == 5000 and told == [4096]

def test_score_says_what_it_leaves_out(model, tmp_path):
    write(tmp_path/'src', ['Hund', '', 'sehr ' * 600, 'Hund'])
    write(tmp_path/'tgt', ['dog', 'Nothing.', 'very ' * 600, ''])
    rows, said = scored(model, tmp_path/'src', tmp_path/'tgt')
    assert [math.isnan(row[0]) for row in rows] == [False, True, True, True]
    assert said.decode().splitlines() == [
        'tnb_score: not scored, empty: lines 2, 4',
        'tnb_score: not scored, too long: line 3']
    write(tmp_path/'tgt', ['dog'])
    refuses(call(tnb_score, model, tmp_path/'src', tmp_path/'tgt'), '4', '1')
    refuses(call(tnb_score, model, tmp_path/'no', tmp_path/'tgt'), 'no')
    write(tmp_path/'src', [''])
    [[total, mean, pieces]], _ = scored(model, tmp_path/'src', tmp_path/'tgt', tokens=True)
    assert math.isnan(total) and pieces == '[]'

def test_week(tmp_path):
    "What the page shows is the script, which runs on files of any name"
    folder = ROOT/'docs/reference'
    script = (folder/'week.sh').read_text(encoding='utf8')
    page = (folder/'week.md').read_text(encoding='utf8')
    shown = re.findall('```sh\n(.*?)```', page, re.S)
    assert len(shown) == 5 and all(block in script for block in shown)
    pairs = mini_corpus(0, 60, 0, 0)['train']
    for name, part in dict(text=pairs[:40], valid=pairs[40:50], test=pairs[50:]).items():
        for side, texts in zip(('src', 'tgt'), zip(*part)):
            write(tmp_path/f'my {name}.{side}', [x.replace(' ', '\t', 1) for x in texts])
    tiny = dict(data=dict(vocab_size=300), search=dict(beam_size=1, max_extra=3),
                model=dict(d_model=16, d_ff=16, n_encoder_layers=1, n_decoder_layers=1),
                training=dict(max_steps=2, warmup_steps=1))
    (tmp_path/'my run.yaml').write_text(yaml.safe_dump(tiny))
    packed = gzip.compress((tmp_path/'my text.tgt').read_bytes())
    (tmp_path/'my text.gz').write_bytes(packed)
    files = {'src': 'my text.src', 'tgt': 'my text.gz', 'mono': 'my test.tgt'}
    files |= {f'{x}_{y}': f'my {x}.{y}' for x in ('valid', 'test') for y in ('src', 'tgt')}
    env = {**os.environ, **files, 'run': 'my run.yaml', 'IN_TEST': '1',
           'PATH': f'{BIN}:{os.environ["PATH"]}'}
    done = subprocess.run(['bash', folder/'week.sh'], cwd=tmp_path, env=env,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'comparison' in json.loads((tmp_path/'mixed.json').read_text())
    assert {*read_lines(tmp_path/'clean.tgt')} < {*read_lines(tmp_path/'my text.tgt')}
    assert (tmp_path/'hub/tokenizer.json').exists()
