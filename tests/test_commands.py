"The commands, run as a user runs them: what they write, and how they refuse bad input."
import gzip, json, os, random, shlex, shutil, subprocess, sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import fields
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
import pytest, torch, yaml
from transformer_nb.checkpoint import load_verified, save_model, save_verified
from transformer_nb.commands import (
    _SECTIONS, _build_run, _train_parser, tnb_evaluate, tnb_train, tnb_translate)
from transformer_nb.core import BOS, EOS
from transformer_nb.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator, preset

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parent.parent

def run(*args, stdin=b'', cwd=None, **env):
    name, *rest = args
    env = {**os.environ, 'TRANSFORMER_NB_DATA': '', **env}
    return subprocess.run([BIN/name, *map(str, rest)], input=stdin, capture_output=True,
                          cwd=cwd, timeout=300, env=env)

def call(command, *args, **options):
    "The same without a process of its own, where a start of two seconds shows nothing"
    out, error, status = StringIO(), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(error):
        try: command(*args, **options)
        except SystemExit as end: status = end.code
    return SimpleNamespace(returncode=status, stdout=out.getvalue().encode(),
                           stderr=error.getvalue().encode())

def write(path, lines):
    text = ''.join(line + '\n' for line in lines)
    path.write_text(text, encoding='utf8')

def read_lines(path): return path.read_text(encoding='utf8').splitlines()

@pytest.fixture(scope='session')
def texts(tmp_path_factory):
    "Four small files, and one that is not UTF-8"
    folder = tmp_path_factory.mktemp('texts')
    pairs = mini_corpus()['train'][:400]
    for name, part in dict(train=pairs[:300], valid=pairs[300:]).items():
        for i, lang in enumerate(('de', 'en')):
            write(folder/f'{name}.{lang}', [pair[i] for pair in part])
    write(folder/'short.en', ['one line'])
    (folder/'empty').write_bytes(b'')
    (folder/'latin1').write_bytes('gut\nnicht gut: ü\n'.encode('latin1'))
    return folder

def train(texts, out, *more):
    files = ['--src', texts/'train.de', '--tgt', texts/'train.en',
             '--valid_src', texts/'valid.de', '--valid_tgt', texts/'valid.en']
    return run('tnb_train', '--out', out, *files, '--vocab_size', 400, '--max_steps', 6,
               '--save_every', 3, '--valid_every', 3, *more)

@pytest.fixture(scope='session')
def model(texts, tmp_path_factory):
    out = tmp_path_factory.mktemp('run')/'model'
    done = train(texts, out)
    assert done.returncode == 0, done.stderr.decode()
    assert b'6 steps' in done.stdout
    assert f'tnb_translate {out}' in done.stdout.decode()
    return out

def refuses(done, *words):
    "Status 2, one line on standard error that has the words, nothing on standard output"
    error = done.stderr.decode()
    assert done.returncode == 2 and done.stdout == b'', error
    check_message(error, words)

def check_message(error, words):
    lines = [line for line in error.splitlines() if 'pairs to train on' not in line]
    assert len(lines) == 1 and 'Traceback' not in error, error
    for word in words: assert word in lines[0], lines[0]

# tnb_train

def test_model_folder(model):
    assert sorted(path.name for path in model.iterdir()) == [
        'checkpoints', 'config.json', 'metrics.jsonl', 'model.safetensors', 'run.yaml',
        'tokenizer.json']
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
    done = run('tnb_train', '--out', out, '--config', model/'run.yaml')
    assert done.returncode == 0, done.stderr.decode()
    for name in ('run.yaml', 'model.safetensors'):
        assert (out/name).read_bytes() == (model/name).read_bytes(), name

def test_help_has_every_field():
    text = run('tnb_train', '--help').stdout.decode()
    names = [field.name for config in _SECTIONS.values() for field in fields(config)]
    assert len(set(names)) == len(names) - 1 # vocab_size: the model's is not an option
    for name in names: assert f'--{name}' in text, name
    for bool_name in ('compile', 'tie_embeddings'): assert f'--no-{bool_name}' in text

def build(*arguments): return _build_run(vars(_train_parser().parse_args(arguments)))

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

def test_preset_big_is_the_papers_recipe():
    run = build('--preset', 'big')
    c, training = run.model, run.training
    assert (c.d_model, c.d_ff, c.n_heads, c.dropout) == (1024, 4096, 16, 0.3)
    assert (training.max_steps, training.average) == (300_000, 20)
    assert training.lr == pytest.approx(1024**-0.5 * 4000**-0.5)
    assert run.data == preset('base').data and training.save_every_minutes == 10

def run_file(folder, text):
    path = folder/'run.yaml'
    path.write_text(text, encoding='utf8')
    return path

def test_preset_then_file_then_command_line(tmp_path):
    path = run_file(tmp_path, 'preset: base\n'
                              'model: {d_model: 256, dropout: 0.3}\n'
                              'training: {lr: 5e-3, max_minutes: null, patience: 4}\n')
    found = build('--config', str(path), '--dropout', '0.2', '--patience', 'none')
    base = preset('base')
    assert found == base.override(d_model=256, dropout=0.2, lr=0.005)
    assert found.model.d_k == 32 and found.training.max_steps == 100_000
    assert build('--config', str(path), '--preset', 'tiny').model.d_ff == 256

def test_nothing_given_is_the_tiny_preset(tmp_path):
    assert build() == preset('tiny')
    for text in ('', 'model:\n', 'training: {}\n'):
        assert build('--config', str(run_file(tmp_path, text))) == preset('tiny')

def test_minutes_alone_end_a_training_where_only_they_are_given(tmp_path):
    limit = ['--max_minutes', '5']
    path = run_file(tmp_path, 'training: {max_steps: 7}\n')
    assert build(*limit).training.max_steps >= 10**9
    assert build(*limit, '--max_steps', '8').training.max_steps == 8
    assert build(*limit, '--config', str(path)).training.max_steps == 7
    path = run_file(tmp_path, 'training: {max_steps: null, max_minutes: 5}\n')
    assert build('--config', str(path)).training.max_steps >= 10**9

def test_any_run_survives_its_file(tmp_path):
    run = build('--preset', 'big', '--d_k', '8', '--corpus', 'no', '--src_lang', 'ü: #',
                '--lr', '1e-5', '--compile', '--no-tie_embeddings', '--max_grad_norm', '1')
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
    ('trainig: {lr: 1}', ["'trainig' is not a section", 'model, data, training']),
    ('training: {peak_rate: 0.1}', ["training has no field 'peak_rate'", '0.1']),
    ('model: {vocab_size: 100}', ["model has no field 'vocab_size'", '100']),
    ('model: {lr: 1}', ["model has no field 'lr'"]),
    ('training: {lr: fast}', ["training: lr is 'fast'", 'a number']),
    ('training: {lr: .nan}', ['training: lr is nan', 'a number']),
    ('training: {lr: [1]}', ['training: lr is [1]', 'a number']),
    ('training: {max_steps: 1.5}', ['training: max_steps is 1.5', 'a whole number']),
    ('training: {max_steps: true}', ['training: max_steps is True', 'a whole number']),
    ('training: {compile: 1}', ['training: compile is 1', 'true or false']),
    ('training: {patience: x}', ["training: patience is 'x'", 'a whole number or none']),
    ('data: {src_lang: no}', ['data: src_lang is False', 'text']),
    ('preset: huge', ["preset is 'huge'", 'tiny, base, big']),
    ('preset: [tiny]', ["preset is ['tiny']", 'tiny, base, big']),
    ('model: 5', ['model is 5', 'fields']),
    ('- model', ["['model']", 'sections']),
    ('training:\n  {lr: 1', ['run.yaml:2: not YAML']),
    ('a: &a [*b]', ['not YAML', 'undefined alias']),
    ('\0', ['not YAML']),
])
def test_bad_run_files_are_refused(text, words, tmp_path, capsys):
    path = run_file(tmp_path, text)
    arguments = ['--out', tmp_path/'m', '--corpus', 'mini', '--config', path]
    here(capsys, arguments, [f'{path}:', *words])
    assert list(tmp_path.iterdir()) == [path]

@pytest.mark.parametrize('text, words', [
    ('training: {lr: -1}', ['lr is -1', 'above 0']),
    ('model: {n_heads: 7}', ['d_model is 128', 'n_heads, 7']),
    ('model: {norm: middle}', ["norm is 'middle'", "'post' or 'pre'"]),
])
def test_run_files_with_values_of_no_use_are_refused(text, words, tmp_path, capsys):
    path = run_file(tmp_path, text)
    arguments = ['--out', tmp_path/'m', '--corpus', 'mini', '--config', path]
    here(capsys, arguments, words)
    assert list(tmp_path.iterdir()) == [path]

def test_a_run_file_of_other_bytes_is_refused(tmp_path, capsys):
    path = tmp_path/'run.yaml'
    path.write_bytes(b'model: {norm: \xff}')
    here(capsys, ['--out', tmp_path/'m', '--config', path], [str(path), 'not YAML'])
    here(capsys, ['--out', tmp_path/'m', '--config', tmp_path/'none'], ['No such file'])
    here(capsys, ['--out', tmp_path/'m', '--config', tmp_path], ['directory'])

MINI = ['--out', 'm', '--corpus', 'mini']

@pytest.mark.parametrize('options, words', [
    ([], ['--out is needed']),
    (['--out', 'm'], ['--src is needed']),
    (['--out', 'm', '--corpus', 'wmt'], ["'wmt'", 'mini, multi30k']),
    ([*MINI, '--src', 'x'], ['exclude']),
    ([*MINI, '--tgt_lang', 'fr'], ["'fr'", 'de, en']),
    ([*MINI, '--tgt_lang', 'de'], ["both 'de'"]),
    ([*MINI, '--preset', 'huge'], ["'huge'"]),
    ([*MINI, '--vocab_size', '100'], ['100', '260']),
    ([*MINI, '--max_steps', '0'], ['--max_steps is 0']),
    ([*MINI, '--batch_tokens', '-3'], ['--batch_tokens is -3']),
    ([*MINI, '--dropout', '1.5'], ['dropout is 1.5']),
    ([*MINI, '--label_smoothing', '1'], ['--label_smoothing is 1']),
    ([*MINI, '--lr', 'fast'], ["--lr is 'fast'", 'a number']),
    ([*MINI, '--lr', 'inf'], ["--lr is 'inf'", 'a number']),
    ([*MINI, '--patience', '1.5'], ["--patience is '1.5'", 'a whole number or none']),
    ([*MINI, '--peak_rate', '1'], ['--peak_rate']),
    ([*MINI, '--lr'], ['--lr', 'expected one argument']),
    ([*MINI, '--device', 'abacus'], ['--device abacus']),
    ([*MINI, '--precision', 'fp64'], ["'fp64'", 'auto, fp32 or bf16']),
], ids=lambda x: ' '.join(x) or 'none')
def test_train_refuses(options, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here(capsys, options, words)
    assert list(tmp_path.iterdir()) == []

@pytest.mark.parametrize('change, words', [
    ({'--src': 'missing'}, ['missing', 'No such file']),
    ({'--src': '.'}, ['directory']),
    ({'--tgt': 'short.en'}, ['300 lines', '1;']),
    ({'--src': 'latin1'}, ['latin1:2', 'UTF-8']),
    ({'--src': 'empty', '--tgt': 'empty'}, ['empty'])], ids=str)
def test_train_refuses_files(change, words, texts, tmp_path):
    files = {'--src': 'train.de', '--tgt': 'train.en', '--valid_src': 'valid.de',
             '--valid_tgt': 'valid.en'} | change
    options = [word for option in files.items() for word in option]
    refuses(run('tnb_train', '--out', tmp_path/'m', *options, cwd=texts), *words)
    assert list(tmp_path.iterdir()) == []

def test_multi30k_offline_says_where_to_put_it(tmp_path):
    done = run('tnb_train', '--out', tmp_path/'m', '--corpus', 'multi30k',
               '--data_dir', tmp_path, https_proxy='http://127.0.0.1:9')
    refuses(done, 'train.de.gz', '--data_dir', 'TRANSFORMER_NB_DATA')

def test_no_overwriting(texts, model):
    def files(): return {p: p.read_bytes() for p in model.rglob('*') if p.is_file()}
    before = files()
    refuses(train(texts, model), 'not empty', '--resume')
    assert files() == before

# tnb_translate

def test_translate_one_line_for_each(model):
    lines = ['Der Hund schläft.', '', '  \r', 'Ein\u2028Satz\x85 mit </s> und 🙂',
             'sehr ' * 600, 'kein Ende']
    done = run('tnb_translate', model, stdin='\n'.join(lines).encode())
    *out, rest = done.stdout.decode().split('\n')
    assert done.returncode == 0 and len(out) == 6 and rest == '' # each line has its end
    assert out[1] == out[2] == ''
    [message] = done.stderr.decode().splitlines()
    assert 'line 5' in message

def test_translate_nothing(model): assert run('tnb_translate', model).stdout == b''

def test_translate_streams(model):
    "The first translation is there before the second line is"
    command = [BIN/'tnb_translate', model, '--beam_size', '1']
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, 'IN_TEST': '1'})
    process.stdin.write('Der Hund schläft.\n'.encode())
    process.stdin.flush()
    assert process.stdout.readline().endswith(b'\n')
    rest, _ = process.communicate(b'Das Kind.\n\n', timeout=60)
    assert rest.count(b'\n') == 2 and process.returncode == 0

def test_a_closed_pipe_ends_quietly(model, texts):
    paths = [BIN/'tnb_translate', model, texts/'train.de']
    command = ' '.join(shlex.quote(str(path)) for path in paths)
    done = subprocess.run(f'{command} --beam_size 1 | head -n 1', shell=True,
                          capture_output=True, timeout=300)
    assert done.stdout.count(b'\n') == 1 and done.stderr == b''

def test_translate_file_gzip_and_n_best(model, tmp_path):
    path = tmp_path/'x.gz'
    path.write_bytes(gzip.compress('Der Hund schläft.\n\nDas Kind.\n'.encode()))
    plain = run('tnb_translate', model, path).stdout.decode().splitlines()
    two = run('tnb_translate', model, path, '--n_best', 2).stdout.decode().splitlines()
    best = [line.split(' ||| ') for line in two]
    assert len(plain) == 3 and {row[0] for row in best} == {'0', '2'}
    assert all(len(row) == 3 for row in best)
    assert next(text for n, text, _ in best if n == '0') == plain[0]
    many = run('tnb_translate', model, path, '--n_best', 5)
    refuses(many, '--n_best is 5', '--beam_size, 4')

# a line before the damage may still be translated
@pytest.mark.parametrize('data, whole', [
    (b'no gzip', 0), (gzip.compress(b'Ja.\n')[:-9], 1)], ids=['no gzip', 'half of one'])
def test_translate_refuses_half_a_gzip_file(data, whole, model, tmp_path):
    (tmp_path/'cut.gz').write_bytes(data)
    done = run('tnb_translate', model, tmp_path/'cut.gz')
    assert done.returncode == 2 and done.stdout.count(b'\n') <= whole
    assert done.stdout == b'' or done.stdout.endswith(b'\n')
    check_message(done.stderr.decode(), ['cut.gz: not a whole gzip file'])

@pytest.mark.parametrize('options, words', [
    (['none'], ['none', 'No such file']),
    (['--device', 'abacus'], ['--device abacus']),
    (['--alpha', -1], ['--alpha is -1'])], ids=str)
def test_translate_refuses(options, words, model):
    refuses(run('tnb_translate', model, *options), *words)

def test_translate_refuses_other_bytes(model):
    bad_first = run('tnb_translate', model, stdin=b'\xff\ngut\n')
    refuses(bad_first, 'standard input:1', 'UTF-8')
    done = run('tnb_translate', model, stdin=b'gut\n\xff\n')
    assert done.returncode == 2 and b'standard input:2' in done.stderr
    assert done.stdout.count(b'\n') == 1 # line 1 was translated before line 2 was read

def odd_lines(n):
    rng = random.Random(0)
    control = [chr(i) for i in [*range(10), 11, 12, *range(14, 32), 127]]
    anything = [*range(32, 0xD800), *range(0xE000, 0x110000)]
    def from_controls(): return ''.join(rng.choices(control, k=5))
    def from_anything():
        return ''.join(map(chr, rng.choices(anything, k=rng.randint(1, 20))))
    kinds = [
        lambda: '',
        lambda: ' \t ',
        from_controls,
        lambda: 'a\0b',
        lambda: 'eins\u2028zwei\x85drei\x0bvier',
        lambda: '👩‍🔬🇩🇪' * rng.randint(1, 9),
        lambda: 'שלום עולם',
        lambda: 'Haus ' * rng.randint(1, 30),
        lambda: '</s> <pad>',
        from_anything]
    all_bytes = bytes(range(256)).decode('latin1')
    last = ['sehr ' * 5000, 'x' * 30_000, all_bytes.replace('\n', '').replace('\r', '')]
    return [rng.choice(kinds)() for _ in range(n)] + last

@pytest.mark.slow
def test_three_thousand_odd_lines(model):
    lines = odd_lines(3000)
    done = run('tnb_translate', model, '--beam_size', 1, '--batch_tokens', 8192,
               stdin='\n'.join(lines).encode())
    error = done.stderr.decode()
    *out, rest = done.stdout.decode().split('\n')
    assert done.returncode == 0 and len(out) == len(lines) and rest == '', error[-500:]
    assert all(not o for line, o in zip(lines, out) if not line.strip())
    messages = error.splitlines()
    assert all('more than 511 tokens' in message for message in messages)
    for n in (len(lines) - 2, len(lines) - 1): assert f'line {n} has' in error

# tnb_evaluate

@pytest.mark.slow
def test_evaluate_is_one_json_object(model, texts):
    files = ['--src', texts/'valid.de', '--ref', texts/'valid.en']
    def evaluate(*options): return run('tnb_evaluate', model, *files, *options)
    scores = json.loads(evaluate('--lang', 'en', '--beam_size', 2).stdout)
    assert set(scores) == {'bleu', 'bleu_lc', 'bleu_moses_lc', 'chrf', 'ci', 'signatures',
                           'ppl', 'sentences', 'tokens_per_second', 'seconds'}
    low, high = scores['ci']
    assert scores['sentences'] == 100 and scores['ppl'] > 1
    assert low <= scores['bleu'] <= high
    averaged = json.loads(evaluate('--average', 1, '--beam_size', 1).stdout)
    assert averaged['ppl'] != scores['ppl'] and 'bleu_moses_lc' not in averaged
    refuses(evaluate('--average', 9), '2 checkpoints', 'asks for 9')

PROJECTIONS = ('query', 'key', 'value')

def as_format_1(weights):
    "One matrix where there are three projections, as 0.1 wrote it"
    old = {}
    for name, weight in weights.items():
        attention, _, rest = name.rpartition('.query.')
        if rest == 'weight':
            parts = [weights[f'{attention}.{part}.weight'] for part in PROJECTIONS]
            old[f'{attention}.qkv'] = torch.cat(parts)
        elif name.split('.')[-2] not in PROJECTIONS: old[name] = weight
    return old

def test_evaluate_averages_checkpoints_of_format_1(model, texts, tmp_path):
    old = shutil.copytree(model, tmp_path/'old')
    for path in old.glob('checkpoints/weights-*.safetensors'):
        weights, info = load_verified(path)
        path.write_bytes(save_verified(as_format_1(weights), info))
    def perplexity(folder):
        done = call(tnb_evaluate, folder, src=texts/'valid.de', ref=texts/'valid.en',
                    beam_size=1, average=2)
        return json.loads(done.stdout)['ppl']
    assert perplexity(old) == perplexity(model)

def test_evaluate_refuses(model, texts):
    refuses(call(tnb_evaluate, model, src=texts/'valid.de'), '--ref')
    done = call(tnb_evaluate, model, src=texts/'valid.de', ref=texts/'short.en')
    refuses(done, '100 lines')

# tnb_export

def test_export_runs_in_ctranslate2(model, texts, tmp_path):
    ctranslate2 = pytest.importorskip('ctranslate2')
    folder = tmp_path/'ct2'
    done = run('tnb_export', model, folder)
    assert done.returncode == 0, done.stderr.decode()
    refuses(run('tnb_export', model, folder), 'not empty')
    ours = Translator(model)
    theirs = ctranslate2.Translator(str(folder), compute_type='float32')
    encode = ours.tokenizer.encode
    piece = ours.tokenizer.tokenizer.id_to_token
    sources = [encode(s) for s in read_lines(texts/'valid.de')[:20]]
    targets = [encode(s) for s in read_lines(texts/'valid.en')[:20]]
    scored = theirs.score_batch([list(map(piece, s)) for s in sources],
                                [list(map(piece, t)) for t in targets])
    for s, t, row in zip(sources, targets, scored):
        logits = ours.model(torch.tensor([s + [EOS]]), torch.tensor([[BOS] + t]))[0]
        labels = t + [EOS]
        expected = logits.log_softmax(-1)[range(len(labels)), labels].detach()
        torch.testing.assert_close(torch.tensor(row.log_probs), expected, rtol=0, atol=1e-4)

def test_export_refuses_what_ctranslate2_cannot(tmp_path):
    bpe = BPETokenizer.train(['a'], 260)
    save_model(tmp_path/'odd', Transformer(TransformerConfig.tiny(260, d_k=8)), bpe)
    done = run('tnb_export', tmp_path/'odd', tmp_path/'ct2')
    refuses(done, 'd_k = d_v = d_model / n_heads', '8')

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

def test_folders_without_a_model_are_refused(tmp_path):
    refuses(run('tnb_translate', tmp_path, stdin=b'x\n'), 'no config.json')

@pytest.mark.slow
def test_files_of_another_model_are_refused(model, texts, tmp_path):
    "A tokenizer of the same size or of another, weights of the same shapes, another format"
    other = tmp_path/'other'
    assert train(texts, other, '--seed', 1).returncode == 0
    small = BPETokenizer.train(['a b'], 300)
    bpe = BPETokenizer.train(read_lines(texts/'valid.de'), 400)
    exchanged = [('model.safetensors', (other/'model.safetensors').read_bytes()),
                 ('tokenizer.json', small.to_json().encode()),
                 ('tokenizer.json', bpe.to_json().encode())]
    for i, (name, data) in enumerate(exchanged):
        folder = copied(model, tmp_path/str(i))
        (folder/name).write_bytes(data)
        done = call(tnb_translate, folder)
        refuses(done, f'{folder/name} is damaged', 'not the file that was saved')
    config = copied(model, tmp_path/'newer')/'config.json'
    config.write_text(config.read_text().replace('"format": 2', '"format": 3'))
    refuses(call(tnb_translate, config.parent), 'its format is 3')

# the others

def test_copy_task_refuses(): refuses(run('tnb_copy_task', '--steps', 0), '--steps is 0')

@pytest.mark.parametrize('name', ['translate', 'evaluate', 'copy_task', 'demo', 'export'])
def test_help(name): assert run(f'tnb_{name}', '--help').returncode == 0

def test_translate_imports_nothing_that_draws_or_scores():
    code = ('import sys; from transformer_nb.commands import tnb_translate; '
            'print(*{name.partition(".")[0] for name in sys.modules})')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    heavy = {'matplotlib', 'sacrebleu', 'sacremoses', 'spacy', 'IPython', 'ctranslate2'}
    assert not heavy & set(done.stdout.split())
