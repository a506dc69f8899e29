"The commands, run as a user runs them: what they write, and how they refuse bad input."
import json, os, subprocess, sys
from pathlib import Path
import pytest
from transformer_nb.grammar import mini_corpus

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
               '--valid_tgt', texts/'valid.en', '--vocab_size', 400, '--max_steps', 6, '--save_every', 3, *more)

@pytest.fixture(scope='session')
def model(texts, tmp_path_factory):
    out = tmp_path_factory.mktemp('run')/'model'
    done = train(texts, out)
    assert done.returncode == 0, done.stderr.decode()
    assert b'6 updates' in done.stdout and f'tnb_translate {out}'.encode() in done.stdout
    return out

def test_model_folder(model):
    assert sorted(p.name for p in model.iterdir()) == ['config.json', 'metrics.jsonl', 'model.safetensors', 'tokenizer.json']
    lines = [json.loads(line) for line in (model/'metrics.jsonl').read_text().splitlines()]
    assert [line['step'] for line in lines] == [3, 6] and 'average_loss' in lines[-1]
    config = json.loads((model/'config.json').read_text())
    assert config['model']['vocab_size'] == 400 and config['training']['step'] == 6

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

def test_evaluate_is_one_json_object(model, texts):
    done = run('tnb_evaluate', model, '--src', texts/'valid.de', '--ref', texts/'valid.en')
    scores = json.loads(done.stdout)
    assert set(scores) == {'bleu', 'chrf', 'signatures', 'sentences', 'seconds'} and scores['sentences'] == 100

def test_no_overwriting(texts, model):
    before = {p: p.read_bytes() for p in model.iterdir()}
    refuses(train(texts, model), 'not empty')
    assert {p: p.read_bytes() for p in model.iterdir()} == before

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

def test_damaged_models_are_refused(model, tmp_path):
    refuses(run('tnb_translate', tmp_path, stdin=b'x\n'), 'no config.json')
    for name, data in [('model.safetensors', b'half'), ('tokenizer.json', b'{}'), ('config.json', b'{"model": {"vocab_size": 1, "x": 2}}')]:
        folder = tmp_path/name
        folder.mkdir()
        for p in model.iterdir(): (folder/p.name).write_bytes(p.read_bytes())
        (folder/name).write_bytes(data)
        refuses(run('tnb_translate', folder, stdin=b'x\n'), name, 'damaged')
        (folder/name).unlink()
        refuses(run('tnb_translate', folder, stdin=b'x\n'), name)

def test_translate_refuses_other_bytes(model):
    refuses(run('tnb_translate', model, stdin=b'gut\n\xff\n'), 'standard input:2', 'UTF-8')

def test_evaluate_refuses(model, texts):
    refuses(run('tnb_evaluate', model, '--src', texts/'valid.de'), '--ref')
    refuses(run('tnb_evaluate', model, '--src', texts/'valid.de', '--ref', texts/'short.en'), '100 lines')

def test_copy_task_refuses(): refuses(run('tnb_copy_task', '--steps', 0), '0')

def test_help():
    for name in ('tnb_train', 'tnb_translate', 'tnb_evaluate', 'tnb_copy_task', 'tnb_demo'):
        assert run(name, '--help').returncode == 0
