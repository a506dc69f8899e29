"The commands, run as a user runs them: what they write, and how they refuse bad input."
import gzip, json, os, random, shlex, subprocess, sys
from pathlib import Path
import pytest, torch
from transformer_nb.checkpoint import save_model
from transformer_nb.core import BOS, EOS
from transformer_nb.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parent.parent

def run(*args, stdin=b'', cwd=None, **env):
    return subprocess.run([BIN/args[0], *map(str, args[1:])], input=stdin, capture_output=True, cwd=cwd, timeout=300,
                          env={**os.environ, 'TRANSFORMER_NB_DATA': '', **env})

def write(path, lines): path.write_text(''.join(line + '\n' for line in lines), encoding='utf8')

@pytest.fixture(scope='session')
def texts(tmp_path_factory):
    "Four small files, and one that is not UTF-8"
    folder = tmp_path_factory.mktemp('texts')
    pairs = mini_corpus()['train'][:400]
    for name, part in dict(train=pairs[:300], valid=pairs[300:]).items():
        for i, lang in enumerate(('de', 'en')): write(folder/f'{name}.{lang}', [pair[i] for pair in part])
    write(folder/'short.en', ['one line'])
    (folder/'empty').write_bytes(b'')
    (folder/'latin1').write_bytes('gut\nnicht gut: ü\n'.encode('latin1'))
    return folder

def train(texts, out, *more):
    return run('tnb_train', '--out', out, '--src', texts/'train.de', '--tgt', texts/'train.en', '--valid_src', texts/'valid.de',
               '--valid_tgt', texts/'valid.en', '--vocab_size', 400, '--max_steps', 6, '--save_every', 3, '--valid_every', 3, *more)

@pytest.fixture(scope='session')
def model(texts, tmp_path_factory):
    out = tmp_path_factory.mktemp('run')/'model'
    done = train(texts, out)
    assert done.returncode == 0, done.stderr.decode()
    assert b'6 updates' in done.stdout and f'tnb_translate {out}'.encode() in done.stdout
    return out

def test_model_folder(model):
    assert sorted(p.name for p in model.iterdir()) == ['checkpoints', 'config.json', 'metrics.jsonl', 'model.safetensors', 'tokenizer.json']
    data, *lines = [json.loads(line) for line in (model/'metrics.jsonl').read_text().splitlines()]
    assert data['pairs'] == 300 and data['valid_pairs'] == 100
    assert [line['step'] for line in lines] == [3, 6] and 'average_loss' in lines[-1]
    config = json.loads((model/'config.json').read_text())
    assert config['format'] == 1 and config['model']['vocab_size'] == 400 and config['training']['step'] == 6
    assert set(config['versions']) == {'transformer_nb', 'torch', 'tokenizers'}

def test_training_repeats_itself(texts, model, tmp_path):
    assert train(texts, tmp_path/'again').returncode == 0
    assert (tmp_path/'again'/'model.safetensors').read_bytes() == (model/'model.safetensors').read_bytes()

def test_translate_one_line_for_each(model):
    text = 'Der Hund schläft.\n\n  \r\nEin\u2028Satz\x85 mit </s> und 🙂\n' + 'sehr ' * 600 + '\nkein Ende'
    done = run('tnb_translate', model, stdin=text.encode())
    out = done.stdout.decode().split('\n')
    assert done.returncode == 0 and len(out) == 7 and out[-1] == ''    # six lines, each with its end
    assert out[1] == out[2] == ''
    assert done.stderr.decode().strip().count('\n') == 0 and 'line 5' in done.stderr.decode()

def test_translate_nothing(model): assert run('tnb_translate', model).stdout == b''

def test_translate_streams(model):
    "The first translation is there before the second line is"
    process = subprocess.Popen([BIN/'tnb_translate', model, '--beam_size', '1'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, 'IN_TEST': '1'})
    process.stdin.write('Der Hund schläft.\n'.encode())
    process.stdin.flush()
    assert process.stdout.readline().endswith(b'\n')
    rest, _ = process.communicate(b'Das Kind.\n\n', timeout=60)
    assert rest.count(b'\n') == 2 and process.returncode == 0

def test_a_closed_pipe_ends_quietly(model, texts):
    done = subprocess.run(f'{shlex.quote(str(BIN/"tnb_translate"))} {shlex.quote(str(model))} {shlex.quote(str(texts/"train.de"))} --beam_size 1 | head -n 1',
                          shell=True, capture_output=True, timeout=300)
    assert done.stdout.count(b'\n') == 1 and done.stderr == b''

def test_translate_file_gzip_and_n_best(model, texts, tmp_path):
    (tmp_path/'x.gz').write_bytes(gzip.compress('Der Hund schläft.\n\nDas Kind.\n'.encode()))
    plain = run('tnb_translate', model, tmp_path/'x.gz').stdout.decode().splitlines()
    best = [line.split(' ||| ') for line in run('tnb_translate', model, tmp_path/'x.gz', '--n_best', 2).stdout.decode().splitlines()]
    assert len(plain) == 3 and {row[0] for row in best} == {'0', '2'} and all(len(row) == 3 for row in best)
    assert next(row[1] for row in best if row[0] == '0') == plain[0]
    refuses(run('tnb_translate', model, tmp_path/'x.gz', '--n_best', 5), '--n_best is 5', '--beam_size, 4')
    refuses(run('tnb_translate', model, tmp_path/'none'), 'none', 'No such file')
    for data, whole in ((b'no gzip', 0), (gzip.compress(b'Ja.\n')[:-9], 1)): # a line before the damage may still be translated
        (tmp_path/'cut.gz').write_bytes(data)
        done = run('tnb_translate', model, tmp_path/'cut.gz')
        assert done.returncode == 2 and done.stdout.count(b'\n') <= whole and not done.stdout.rpartition(b'\n')[2]
        assert done.stderr.count(b'\n') == 1 and b'cut.gz: not a whole gzip file' in done.stderr, done.stderr
    refuses(run('tnb_translate', model, '--device', 'abacus'), '--device abacus')
    refuses(run('tnb_translate', model, '--alpha', -1), '--alpha is -1')

def odd_lines(n):
    rng = random.Random(0)
    kinds = [lambda: '', lambda: ' \t ', lambda: ''.join(chr(rng.choice([*range(10), 11, 12, *range(14, 32), 127])) for _ in range(5)), lambda: 'a\0b',
             lambda: 'eins\u2028zwei\x85drei\x0bvier', lambda: '👩‍🔬🇩🇪' * rng.randint(1, 9), lambda: 'שלום עולם', lambda: 'Haus ' * rng.randint(1, 30), lambda: '</s> <pad>',
             lambda: ''.join(chr(rng.choice([rng.randrange(32, 0xD800), rng.randrange(0xE000, 0x110000)])) for _ in range(rng.randint(1, 20)))]
    return [rng.choice(kinds)() for _ in range(n)] + ['sehr ' * 5000, 'x' * 30_000, bytes(range(256)).decode('latin1').replace('\n', '').replace('\r', '')]

def test_ten_thousand_odd_lines(model):
    lines = odd_lines(10_000)
    done = run('tnb_translate', model, '--beam_size', 1, '--batch_tokens', 8192, stdin='\n'.join(lines).encode())
    out = done.stdout.decode().split('\n')
    assert done.returncode == 0 and len(out) == len(lines) + 1 and out[-1] == '', done.stderr.decode()[-500:]
    assert all(not o for line, o in zip(lines, out) if not line.strip())
    said = done.stderr.decode().splitlines()
    assert all('more than 511 tokens' in s for s in said)
    for n in (len(lines) - 2, len(lines) - 1): assert any(f'line {n} has' in s for s in said)

def test_evaluate_is_one_json_object(model, texts):
    done = run('tnb_evaluate', model, '--src', texts/'valid.de', '--ref', texts/'valid.en', '--lang', 'en', '--beam_size', 2)
    scores = json.loads(done.stdout)
    assert set(scores) == {'bleu', 'bleu_lc', 'bleu_moses_lc', 'chrf', 'ci', 'ppl', 'signatures', 'sentences', 'tokens_per_second', 'seconds'}
    assert scores['sentences'] == 100 and scores['ppl'] > 1 and scores['ci'][0] <= scores['bleu'] <= scores['ci'][1]
    averaged = json.loads(run('tnb_evaluate', model, '--src', texts/'valid.de', '--ref', texts/'valid.en', '--average', 1, '--beam_size', 1).stdout)
    assert averaged['ppl'] != scores['ppl'] and 'bleu_moses_lc' not in averaged
    refuses(run('tnb_evaluate', model, '--src', texts/'valid.de', '--ref', texts/'valid.en', '--average', 9), '2 checkpoints', 'asks for 9')

def test_export_runs_in_ctranslate2(model, texts, tmp_path):
    ctranslate2 = pytest.importorskip('ctranslate2')
    done = run('tnb_export', model, tmp_path/'ct2')
    assert done.returncode == 0, done.stderr.decode()
    refuses(run('tnb_export', model, tmp_path/'ct2'), 'not empty')
    ours, theirs = Translator(model), ctranslate2.Translator(str(tmp_path/'ct2'), compute_type='float32')
    bpe = ours.tokenizer
    pieces = lambda ids: [bpe.tokenizer.id_to_token(i) for i in ids]
    sources = [bpe.encode(s) for s in (texts/'valid.de').read_text().splitlines()[:20]]
    targets = [bpe.encode(s) for s in (texts/'valid.en').read_text().splitlines()[:20]]
    scored = theirs.score_batch([pieces(s) for s in sources], [pieces(t) for t in targets])
    for s, t, row in zip(sources, targets, scored):
        logits = ours.model(torch.tensor([s + [EOS]]), torch.tensor([[BOS] + t]))[0]
        expected = logits.log_softmax(-1)[range(len(t) + 1), t + [EOS]]
        torch.testing.assert_close(torch.tensor(row.log_probs), expected.detach(), rtol=0, atol=1e-4)

def test_export_refuses_what_ctranslate2_cannot(tmp_path):
    bpe = BPETokenizer.train(['a'], 260)
    save_model(tmp_path/'odd', Transformer(TransformerConfig.tiny(260, d_k=8)), bpe)
    refuses(run('tnb_export', tmp_path/'odd', tmp_path/'ct2'), 'd_k = d_v = d_model / n_heads', '8')

def test_no_overwriting(texts, model):
    files = lambda: {p: p.read_bytes() for p in model.rglob('*') if p.is_file()}
    before = files()
    refuses(train(texts, model), 'not empty', '--resume')
    assert files() == before

def refuses(done, *words):
    "Exit status 2, one line on standard error that has the words, nothing on standard output"
    error = done.stderr.decode()
    lines = [l for l in error.splitlines() if 'pairs to train on' not in l]
    assert done.returncode == 2 and done.stdout == b'', error
    assert len(lines) == 1 and 'Traceback' not in error, error
    for word in words: assert word in lines[0], lines[0]

@pytest.mark.parametrize('options, words', [
    ([], ['--out is needed']),
    (['--out', 'm'], ['--src is needed']),
    (['--out', 'm', '--corpus', 'wmt'], ["'wmt'", 'mini, multi30k']),
    (['--out', 'm', '--corpus', 'mini', '--src', 'x'], ['exclude']),
    (['--out', 'm', '--corpus', 'mini', '--tgt_lang', 'fr'], ["'fr'", 'de, en']),
    (['--out', 'm', '--corpus', 'mini', '--tgt_lang', 'de'], ["both 'de'"]),
    (['--out', 'm', '--corpus', 'mini', '--preset', 'huge'], ["'huge'"]),
    (['--out', 'm', '--corpus', 'mini', '--vocab_size', '100'], ['100', '260']),
    (['--out', 'm', '--corpus', 'mini', '--max_steps', '0'], ['--max_steps is 0']),
    (['--out', 'm', '--corpus', 'mini', '--batch_tokens', '-3'], ['--batch_tokens is -3']),
    (['--out', 'm', '--corpus', 'mini', '--dropout', '1.5'], ['dropout is 1.5']),
], ids=lambda x: ' '.join(x) or 'none')
def test_train_refuses(options, words, tmp_path):
    refuses(run('tnb_train', *options, cwd=tmp_path), *words)
    assert list(tmp_path.iterdir()) == []

@pytest.mark.parametrize('change, words', [
    ({'--src': 'missing'}, ['missing', 'No such file']), ({'--src': '.'}, ['directory']), ({'--tgt': 'short.en'}, ['300 lines', '1;']),
    ({'--src': 'latin1'}, ['latin1:2', 'UTF-8']), ({'--src': 'empty', '--tgt': 'empty'}, ['empty'])], ids=str)
def test_train_refuses_files(change, words, texts, tmp_path):
    files = {'--src': 'train.de', '--tgt': 'train.en', '--valid_src': 'valid.de', '--valid_tgt': 'valid.en'} | change
    refuses(run('tnb_train', '--out', tmp_path/'m', *[x for pair in files.items() for x in pair], cwd=texts), *words)
    assert list(tmp_path.iterdir()) == []

def test_multi30k_offline_says_where_to_put_it(tmp_path):
    done = run('tnb_train', '--out', tmp_path/'m', '--corpus', 'multi30k', '--data_dir', tmp_path, https_proxy='http://127.0.0.1:9')
    refuses(done, 'train.de.gz', '--data_dir', 'TRANSFORMER_NB_DATA')

def copied(model, folder):
    folder.mkdir()
    for p in model.iterdir():
        if p.is_file(): (folder/p.name).write_bytes(p.read_bytes())
    return folder

def test_damaged_models_are_refused(model, tmp_path):
    refuses(run('tnb_translate', tmp_path, stdin=b'x\n'), 'no config.json')
    for name, data in [('model.safetensors', b'half'), ('tokenizer.json', b'{}'), ('config.json', b'{"model": {"vocab_size": 1, "x": 2}}')]:
        folder = copied(model, tmp_path/name)
        (folder/name).write_bytes(data)
        refuses(run('tnb_translate', folder, stdin=b'x\n'), name, 'damaged')
        (folder/name).unlink()
        refuses(run('tnb_translate', folder, stdin=b'x\n'), name)

def test_files_of_another_model_are_refused(model, texts, tmp_path):
    "Another tokenizer of the same size, other weights of the same shapes, a tokenizer of another size, another format"
    other = tmp_path/'other'
    assert train(texts, other, '--seed', 1).returncode == 0
    small = BPETokenizer.train(['a b'], 300).to_json().encode()
    bpe = BPETokenizer.train(texts.joinpath('valid.de').read_text().splitlines(), 400)
    for i, (name, data) in enumerate([('model.safetensors', (other/'model.safetensors').read_bytes()), ('tokenizer.json', small), ('tokenizer.json', bpe.to_json().encode())]):
        folder = copied(model, tmp_path/str(i))
        (folder/name).write_bytes(data)
        refuses(run('tnb_translate', folder, stdin=b'x\n'), f'{folder/name} is damaged', 'not the file that was saved')
    folder = copied(model, tmp_path/'newer')
    (folder/'config.json').write_text((folder/'config.json').read_text().replace('"format": 1', '"format": 2'))
    refuses(run('tnb_translate', folder, stdin=b'x\n'), 'its format is 2')

def test_translate_refuses_other_bytes(model):
    refuses(run('tnb_translate', model, stdin=b'\xff\ngut\n'), 'standard input:1', 'UTF-8')
    done = run('tnb_translate', model, stdin=b'gut\n\xff\n') # line 1 was translated before line 2 was read
    assert done.returncode == 2 and done.stdout.count(b'\n') == 1 and b'standard input:2' in done.stderr

def test_evaluate_refuses(model, texts):
    refuses(run('tnb_evaluate', model, '--src', texts/'valid.de'), '--ref')
    refuses(run('tnb_evaluate', model, '--src', texts/'valid.de', '--ref', texts/'short.en'), '100 lines')

def test_copy_task_refuses(): refuses(run('tnb_copy_task', '--steps', 0), '0')

def test_help():
    for name in ('tnb_train', 'tnb_translate', 'tnb_evaluate', 'tnb_copy_task', 'tnb_demo', 'tnb_export'):
        assert run(name, '--help').returncode == 0
