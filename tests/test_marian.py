"""Chapter 15d beyond its own proofs: models of transformers read, written and read again,
texts that are meant to break a tokenizer, and files that are refused by name."""
import json, math, shutil
from io import BytesIO
from itertools import product
import pytest, torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.testing import assert_close
from test_export import EVERYDAY
from transformer_nb import hub
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.commands import (
    tnb_evaluate, tnb_export, tnb_prepare, tnb_train, tnb_translate)
from transformer_nb.support.core import BOS, EOS, PAD, InputError, set_seed
from transformer_nb.decoding import beam_search
from transformer_nb.formats.marian import export_marian
from transformer_nb.hub import (
    _load_model, _marian_config, _their_ids, describe_marian,
    load_marian, open_model, open_tokenizer)
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator, evaluate, load_search, score_pairs

transformers = pytest.importorskip('transformers', reason='needs the extra `bench`')
sentencepiece = pytest.importorskip('sentencepiece', reason='needs the extra `bench`')
from transformers.models.marian import MarianConfig, MarianMTModel, MarianTokenizer

TEXTS = ['The dog sleeps in the garden.', 'Der Hund schläft.', 'Äpfel, Öl und Größe',
         "It's 10:30 – isn't it?", 'A cat sees the old house.', 'one two three four'] * 20
NASTY = ['', ' ', '  two  spaces ', 'a\nb\tc', '犬', '😀 ok', 'ﬁ ½ ①', '\u200b\u00a0x',
         'Größe', '▁ under', '>>fra<< The dog', 'The >>fra<< dog', '>>xyz<< dog',
         '>> dog', 'e\u0301', '“quoted” …', '\x00\x01', 'x' * 300, '\u202e rtl',
         '<s> literally']

@pytest.fixture(autouse=True, scope='module')
def quiet():
    from transformers.utils import logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()

def trained_cutter(texts, vocab_size):
    "A small SentencePiece model"
    file = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=file, vocab_size=vocab_size,
        hard_vocab_limit=False, minloglevel=2)
    return file.getvalue()

@pytest.fixture(scope='module')
def cutter(): return trained_cutter(TEXTS, 60)

def random_marian(n, activation='swish', std=0.3, end=0.):
    sizes = dict(d_model=24, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3,
                 decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=40)
    config = MarianConfig(
        vocab_size=n, max_position_embeddings=40, activation_function=activation,
        scale_embedding=True, pad_token_id=n - 1, decoder_start_token_id=n - 1,
        eos_token_id=0, attn_implementation='eager', **sizes)
    set_seed(1)
    model = MarianMTModel(config).eval()
    for p in model.parameters():
        if p.requires_grad: nn.init.normal_(p, std=std)
    nn.init.normal_(model.final_logits_bias)
    model.final_logits_bias[0, 0] += end
    return model

def write_opus(folder, cutter, **options):
    spm = sentencepiece.SentencePieceProcessor(model_proto=cutter)
    pieces = spm.id_to_piece(list(range(3, spm.vocab_size())))
    vocab = ['</s>', '<unk>', *pieces, '>>fra<<', '<pad>']
    for side in ('source', 'target'): (folder/f'{side}.spm').write_bytes(cutter)
    ids = {piece: i for i, piece in enumerate(vocab)}
    (folder/'vocab.json').write_text(json.dumps(ids), encoding='utf8')
    model = random_marian(len(vocab), **options)
    model.save_pretrained(folder)
    return model

def their_ids(folder):
    config = _marian_config(folder)
    return torch.tensor(_their_ids(config, unk=1))

@pytest.fixture(scope='module')
def opus(tmp_path_factory, cutter):
    folder = tmp_path_factory.mktemp('opus')
    return folder, write_opus(folder, cutter)

def batch(v, seed=0):
    generator = torch.Generator().manual_seed(seed)
    src, tgt = torch.randint(4, v, (3, 7), generator=generator), torch.full((3, 5), BOS)
    tgt[:, 1:] = torch.randint(4, v, (3, 4), generator=generator)
    src[:, -1], src[1, 4], src[1, 5:] = EOS, EOS, PAD
    return src, tgt

# In

@pytest.mark.parametrize('activation', ['swish', 'gelu_new'])
def test_logits(tmp_path, cutter, activation):
    theirs = write_opus(tmp_path, cutter, activation=activation)
    ids, config = their_ids(tmp_path), _marian_config(tmp_path)
    src, tgt = batch(len(ids))
    for dtype, atol in ((torch.float32, 1e-4), (torch.float64, 1e-10)):
        ours = _load_model(tmp_path, config, ids.tolist(), dtype)
        real = (src != PAD).long()
        with torch.no_grad():
            found = ours(src, tgt)
            expected = theirs.to(dtype)(input_ids=ids[src], attention_mask=real,
                                        decoder_input_ids=ids[tgt]).logits
        assert found.dtype == dtype
        assert_close(found[..., EOS:], expected[..., ids[EOS:]], atol=atol, rtol=0)
        assert (found[..., :EOS] < -9e3).all()

@pytest.mark.parametrize('end, beam_size', [(-30., 5), (4., 1)])
def test_search(tmp_path, cutter, end, beam_size):
    "By beams only where no sentence ends, since the two searches treat an end differently"
    theirs = write_opus(tmp_path, cutter, end=end)
    model, _ = load_marian(tmp_path)
    ids, lengths = their_ids(tmp_path), set()
    for seed in range(6):
        src, _ = batch(len(ids), seed)
        src = src[:1]
        options = dict(alpha=1., penalty='power', max_extra=6)
        [[best]] = beam_search(model, src, beam_size, **options)
        found = theirs.generate(
            ids[src], num_beams=beam_size, do_sample=False, max_new_tokens=12,
            early_stopping='never' if beam_size > 1 else False, length_penalty=1.,
            forced_eos_token_id=None, renormalize_logits=True, output_scores=True,
            bad_words_ids=[[int(ids[PAD])]], return_dict_in_generate=True)
        expected = [i for i in found.sequences[0, 1:].tolist() if i != 0]
        assert ids[best.ids].tolist() == expected
        lengths.add(len(expected))
        if beam_size > 1: assert abs(best.score - found.sequences_scores.item()) < 1e-5
    assert (min(lengths) < 12) == (end > 0)

def test_tokenizer(opus):
    folder, _ = opus
    _, ours = load_marian(folder)
    theirs, ids = MarianTokenizer.from_pretrained(folder), their_ids(folder)
    for text in NASTY:
        found, expected = ours.encode(text), theirs(text).input_ids
        assert ids[found + [EOS]].tolist() == expected, text
        assert ours.decode(found) == theirs.decode(expected, skip_special_tokens=True)

# All that a `Translator` does

PAIRS = [('The dog sleeps.', 'Der Hund schläft.'), ('A  cat', 'Eine Katze'),
         ('one two', 'eins zwei drei'), ('three four', 'Größe und Öl')]
GERMAN = ['Der Hund schläft.', 'Eine Katze geht.', 'Größe und Öl', 'eins zwei drei'] * 20

@pytest.fixture(scope='module')
def two(tmp_path_factory):
    "A folder with a model for each language, and the model of transformers in it"
    folder, pieces = tmp_path_factory.mktemp('two'), []
    for side, texts in dict(source=TEXTS, target=GERMAN).items():
        cutter = trained_cutter(texts, 50)
        (folder/f'{side}.spm').write_bytes(cutter)
        spm = sentencepiece.SentencePieceProcessor(model_proto=cutter)
        pieces += spm.id_to_piece(list(range(3, spm.vocab_size())))
    vocab = ['</s>', '<unk>', *dict.fromkeys(pieces), '<pad>']
    ids = {piece: i for i, piece in enumerate(vocab)}
    (folder/'vocab.json').write_text(json.dumps(ids), encoding='utf8')
    model = random_marian(len(vocab), end=3.)
    model.save_pretrained(folder)
    return folder, model

@pytest.fixture
def translator(two): return Translator(two[0], 'cpu', max_extra=6)

def test_scores(two, translator):
    "Of a download beside one's own; perplexity is that of the library"
    folder, theirs = two
    found = evaluate(translator, PAIRS, baseline=['x'] * 4)
    assert found['sentences'] == 4 and found['cut'] == [] and found['left_out'] == {}
    assert found['bleu'] >= 0 and 'randomization' in found['comparison']
    tokenizer, losses = MarianTokenizer.from_pretrained(folder), []
    for source, target in PAIRS:
        inputs = tokenizer(source, text_target=target, return_tensors='pt')
        with torch.no_grad(): logits = theirs(**inputs).logits[0]
        logits[:, tokenizer.pad_token_id] = -torch.inf # which no translation contains
        losses += nn.functional.cross_entropy(logits, inputs.labels[0], reduction='none')
    expected = torch.stack(losses).mean().exp()
    assert found['ppl'] == pytest.approx(expected.item(), rel=1e-3)

def test_targets_are_cut_by_the_other_model(two):
    tokenizer = load_marian(two[0])[1]
    theirs = MarianTokenizer.from_pretrained(two[0])
    for _, text in PAIRS:
        [ids] = tokenizer.encode_targets([text])
        pieces = [tokenizer.pieces[i] for i in ids] # theirs are in another order
        *expected, _ = theirs(text_target=text).input_ids
        assert pieces == theirs.convert_ids_to_tokens(expected)
        assert tokenizer.decode(ids) == text

# Weights in parts, and keys of the hub

@pytest.fixture
def parts(opus, tmp_path):
    folder = shutil.copytree(opus[0], tmp_path/'parts')
    (folder/'model.safetensors').unlink()
    opus[1].save_pretrained(folder, max_shard_size='20KB')
    assert len(list(folder.glob('model-*.safetensors'))) > 2
    return folder

def test_weights_in_parts(opus, parts):
    whole, _ = load_marian(opus[0])
    found, _ = load_marian(parts)
    state = found.state_dict()
    for name, x in whole.state_dict().items(): assert state.pop(name).equal(x), name
    assert not state

# Refused

def changed(opus, tmp_path, **config):
    folder = tmp_path/'opus'
    shutil.copytree(opus[0], folder)
    path = folder/'config.json'
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return folder

REFUSED = [
    (dict(normalize_before=True), 'normalize_before is True; only False'),
    (dict(scale_embedding=False), 'scale_embedding is False; only True'),
    (dict(decoder_attention_heads=2), 'decoder_attention_heads is 2; only 3'),
    (dict(activation_function='quick_gelu'), "activation_function is 'quick_gelu'; known"),
    (dict(transformer_dim_aan=7, x={}), 'is 7; .* file: transformer_dim_aan, x'),
    (dict(forced_bos_token_id=5), 'forced_bos_token_id is 5; only None'),
    (dict(model_type='t5'), "model_type is 't5'; only 'marian'"),
    (dict(d_model=25), 'd_model is 25; it must be'),
    (dict(encoder_layers=3), 'has no model.encoder.layers.2'),
    (dict(vocab_size=70, decoder_vocab_size=70), 'vocab.json should have the ids')]

def test_refused_configurations(opus, tmp_path):
    for i, (config, message) in enumerate(REFUSED):
        folder = changed(opus, tmp_path/str(i), **config)
        with pytest.raises(InputError, match=message) as error: load_marian(folder)
        assert '\n' not in str(error.value) and str(folder) in str(error.value)

def test_refused_weights(opus, tmp_path, monkeypatch):
    folder = changed(opus, tmp_path)
    path = folder/'model.safetensors'
    weights = load_file(path)
    shared, table = weights['model.shared.weight'], torch.zeros(40, 24)
    names = 'lm_head.weight', 'model.decoder.embed_tokens.weight'
    copies = {name: shared.clone() for name in names}
    for extra, message in [
            ({'model.encoder.embed_positions.weight': table}, 'positions.weight is not'),
            ({'lm_head.weight': shared + 1}, 'lm_head.weight is not what it should repeat'),
            ({'model.shared.weight': shared * torch.nan}, 'values that are NaN'),
            (copies | {'other': table}, 'other has no place')]:
        save_file(weights | extra, path)
        with pytest.raises(InputError, match=message): load_marian(folder)
    save_file(weights | copies, path)
    load_marian(folder)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match='safetensors is damaged'): load_marian(folder)
    with monkeypatch.context() as patched, pytest.raises(InputError, match='more memory'):
        def too_large(path): raise MemoryError # of 10 GB, where 8 are allowed
        patched.setattr(hub, 'load_file', too_large)
        load_marian(folder)
    path.unlink()
    with pytest.raises(InputError, match='safetensors is missing'): load_marian(folder)

NUMBERS = ['vocab_size', 'd_model', 'encoder_layers', 'decoder_layers', 'encoder_ffn_dim',
           'encoder_attention_heads', 'max_position_embeddings', 'pad_token_id',
           'eos_token_id', 'decoder_start_token_id']
ODD_VALUES = [None, True, -1, 1.5, 'x', '5', [], [1], {}, {'a': 1}, 10**12, math.inf]

def test_a_number_that_is_none(opus, tmp_path):
    "A tokenizer of 10^12 pieces took all memory; text, lists, and infinity were tracebacks"
    folder = changed(opus, tmp_path)
    path = folder/'config.json'
    whole = json.loads(path.read_text())
    for name, value in product(NUMBERS, ODD_VALUES):
        twin = name.replace('encoder_', 'decoder_').replace('vocab', 'decoder_vocab')
        odd = {key: value for key in (name, twin) if key in whole}
        path.write_text(json.dumps(whole | odd))
        with pytest.raises(InputError, match=r'(config|vocab)\.json') as error:
            load_marian(folder)
        assert '\n' not in str(error.value)

def test_missing_files(opus, tmp_path):
    folder = changed(opus, tmp_path)
    for name in ('target.spm', 'vocab.json', 'config.json'):
        (folder/name).unlink()
        with pytest.raises(InputError, match=f'{name} is missing'): load_marian(folder)

def test_what_is_no_tokenizer_is_told(opus, tmp_path):
    folder = changed(opus, tmp_path)
    (folder/'source.spm').write_bytes(b'x')
    with pytest.raises(InputError, match='source.spm .* is no model'): load_marian(folder)
    for name in ('target.spm', 'vocab.json'):
        with pytest.raises(InputError, match='plain vocab'): open_tokenizer(folder/name)

def test_an_index_names_files_beside_it(opus, tmp_path):
    folder = changed(opus, tmp_path)
    weights = folder/'model.safetensors'
    weights.rename(tmp_path/'other.safetensors')
    index = folder/'model.safetensors.index.json'
    index.write_text(json.dumps(dict(weight_map=dict(x='../other.safetensors'))))
    with pytest.raises(InputError, match='not a file beside it'): load_marian(folder)

# Out, and in again

def our_folder(folder, **tags):
    tokenizer = BPETokenizer.train(TEXTS, 300, **tags)
    sizes = dict(d_model=24, d_ff=40, n_heads=3, max_len=40)
    model = Transformer(TransformerConfig(tokenizer.vocab_size, **sizes)).eval()
    save_model(folder, model, tokenizer)
    return model, tokenizer

def test_exported_tokenizer(tmp_path):
    _, ours = our_folder(tmp_path/'model')
    export_marian(tmp_path/'model', tmp_path/'out')
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path/'out')
    for text in NASTY:
        assert theirs(text).input_ids == ours.encode(text) + [EOS], text
        decoded = theirs.decode(ours.encode(text), skip_special_tokens=True)
        assert decoded == ours.decode(ours.encode(text))
    assert (theirs.pad_token_id, theirs.eos_token_id) == (PAD, EOS)

# What we write is read by ourselves, by transformers, and by CTranslate2's own converter

def hub_greedy(folder, texts):
    model = MarianMTModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = [tokenizer(text, return_tensors='pt') for text in texts]
    found = [model.generate(**row, num_beams=1, max_length=31)[0] for row in rows]
    return tokenizer.batch_decode(found, skip_special_tokens=True)

def converted_greedy(folder, out, texts):
    "By `ct2-transformers-converter`, as its own manual says to use it"
    ctranslate2 = pytest.importorskip('ctranslate2')
    ctranslate2.converters.TransformersConverter(str(folder)).convert(str(out))
    translator = ctranslate2.Translator(str(out), compute_type='float32')
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = [tokenizer.convert_ids_to_tokens(tokenizer.encode(text)) for text in texts]
    found = translator.translate_batch(rows, beam_size=1, max_decoding_length=30)
    ids = [tokenizer.convert_tokens_to_ids(x.hypotheses[0]) for x in found]
    return [tokenizer.decode(row, skip_special_tokens=True) for row in ids]

def greedy_texts(folder, texts):
    translator = Translator(folder, 'cpu', beam_size=1, max_extra=50)
    find = [translator.search([text]) for text in texts]
    ids = [best.ids[:30] for [[best]] in find]
    return [translator.tokenizer.decode(row) for row in ids]

SOME = ['The dog sleeps in the garden.', "I don't know what you mean.", 'Where is Größe?']

def test_one_folder_two_readers(tmp_path):
    "The shipped model, whose translations begin with a vector that it has learned"
    wanted = greedy_texts(EVERYDAY, SOME)
    export_marian(EVERYDAY, tmp_path/'hub')
    assert greedy_texts(tmp_path/'hub', SOME) == wanted == hub_greedy(tmp_path/'hub', SOME)
    tokenizer = load_marian(tmp_path/'hub')[1]
    assert tokenizer.to_json() == load_model(EVERYDAY)[1].to_json()
    assert describe_marian(tmp_path/'hub')['tokenizer'] == 'BPETokenizer'

def test_tags_go_out_and_come_back(tmp_path):
    model, tokenizer = our_folder(tmp_path/'model', tags=['>>de<<', '>>fr<<'])
    export_marian(tmp_path/'model', tmp_path/'hub')
    back, its_own = load_marian(tmp_path/'hub')
    assert its_own.to_json() == tokenizer.to_json()
    for ours, x in model.state_dict().items(): assert back.state_dict()[ours].equal(x)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path/'hub')
    for text in ('>>fr<< The dog', 'The dog', '>>de<< Größe'):
        pieces = [tokenizer.tokenizer.id_to_token(i) for i in tokenizer.encode(text)]
        assert theirs.convert_ids_to_tokens(theirs(text).input_ids) == [*pieces, '</s>']

# A folder of the hub, at every door

def test_weights_in_a_pickle(opus, tmp_path):
    "`pytorch_model.bin`; nothing but tensors is taken from it"
    wanted = load_marian(opus[0])[0].state_dict()
    folder = shutil.copytree(opus[0], tmp_path/'bin')
    weights = load_file(folder/'model.safetensors')
    weights |= {'lm_head.weight': weights['model.shared.weight']}
    (folder/'model.safetensors').unlink()
    torch.save(weights, folder/'pytorch_model.bin')
    found = load_marian(folder)[0].state_dict()
    assert all(found[name].equal(x) for name, x in wanted.items())

class Harm:
    def __reduce__(self): return print, ('this must not be printed',)

def test_a_pickle_with_more_than_tensors(opus, tmp_path, capsys):
    folder = shutil.copytree(opus[0], tmp_path/'bin')
    (folder/'model.safetensors').unlink()
    for content, message in ((dict(x=1), 'something other'), (dict(x=Harm()), 'more than')):
        torch.save(content, folder/'pytorch_model.bin')
        with pytest.raises(InputError, match=message): load_marian(folder)
    assert 'printed' not in capsys.readouterr().out
    data = (folder/'pytorch_model.bin').read_bytes()
    (folder/'pytorch_model.bin').write_bytes(data[:-30])
    with pytest.raises(InputError, match='damaged|more than tensors'): load_marian(folder)

def test_the_search_that_a_folder_wants(opus, tmp_path):
    folder = changed(opus, tmp_path, num_beams=6, length_penalty=0.5)
    (folder/'generation_config.json').unlink(missing_ok=True)
    found = Translator(folder, 'cpu').options
    assert (found['beam_size'], found['alpha'], found['penalty']) == (6, 0.5, 'power')
    (folder/'generation_config.json').write_text('{"num_beams": 2}')
    assert Translator(folder, 'cpu').options['beam_size'] == 2
    (folder/'generation_config.json').write_text('{"num_beams": "two"}')
    with pytest.raises(InputError, match='beam_size is two'): Translator(folder, 'cpu')

def test_commands_take_a_folder_of_the_hub(two, tmp_path, capsys):
    folder, theirs = two
    files = {}
    for side, texts in zip(('src', 'ref'), zip(*PAIRS)):
        files[side] = tmp_path/side
        files[side].write_text('\n'.join(texts) + '\n')
    tnb_translate(folder, str(files['src']), max_extra=6)
    lines = capsys.readouterr().out.splitlines()
    assert lines == Translator(folder, 'cpu', max_extra=6).translate([s for s, _ in PAIRS])
    tnb_evaluate(folder, src=str(files['src']), ref=[str(files['ref'])])
    scores = json.loads(capsys.readouterr().out)
    assert scores['search'] == dict(beam_size=4, alpha=1., max_extra=50, penalty='power')
    with pytest.raises(SystemExit): tnb_export([folder], str(tmp_path/'ct2'))
    assert '--format transformers' in capsys.readouterr().err # which its converter reads
    ctranslate2 = pytest.importorskip('ctranslate2')
    ctranslate2.converters.TransformersConverter(str(folder)).convert(str(tmp_path/'ct2'))
    engine = ctranslate2.Translator(str(tmp_path/'ct2'), compute_type='float32')
    ours = Translator(folder, 'cpu', beam_size=1)
    found, _ = score_pairs(ours, PAIRS) # translations of random weights are all alike
    for line, (src, tgt) in enumerate(PAIRS, 1):
        [ids] = ours.tokenizer.encode_targets([tgt])
        pieces = [[[ours.tokenizer.pieces[i] for i in row]]
                  for row in (ours.tokenizer.encode(src), ids)]
        [scored] = engine.score_batch(*pieces)
        assert scored.log_probs == pytest.approx(found[line], abs=0.01) # three digits

def write_pairs(folder, times):
    for name, texts in zip(('a.en', 'a.de'), zip(*PAIRS)):
        (folder/name).write_text('\n'.join(texts * times) + '\n')

def test_fine_tuning_keeps_what_it_loads(two, tmp_path, capsys):
    "Biases, activation, tokenizer and search; a learning rate of nearly 0 changes nothing"
    folder, theirs = two
    write_pairs(tmp_path, 1)
    files = [f'--{part}{side}={tmp_path}/a.{lang}' for part in ('', 'valid_')
             for side, lang in (('src', 'en'), ('tgt', 'de'))]
    how = ['--max_steps=3', '--warmup_steps=1', '--label_smoothing=0.1', '--average=1']
    tnb_train([f'--init={folder}', f'--out={tmp_path}/tuned', '--lr=1e-9', *files, *how])
    before, after = (open_model(x) for x in (folder, tmp_path/'tuned'))
    assert after[0].config == before[0].config and after[0].config.activation == 'silu'
    assert after[1].to_json() == before[1].to_json()
    for name, x in before[0].state_dict().items():
        assert_close(after[0].state_dict()[name], x, atol=1e-6, rtol=0)
    assert load_search(tmp_path/'tuned') == load_search(folder)
    lines = (tmp_path/'tuned/metrics.jsonl').read_text().splitlines()
    losses = [json.loads(line) for line in lines if 'valid_loss' in line]
    assert losses[0]['valid_loss'] == pytest.approx(losses[-1]['valid_loss'], abs=1e-4)
    assert losses[-1]['train_loss'] < 10 * losses[-1]['valid_loss']
    export_marian(tmp_path/'tuned', tmp_path/'hub')
    wanted = greedy_texts(tmp_path/'tuned', SOME)
    assert hub_greedy(tmp_path/'hub', SOME) == wanted == greedy_texts(tmp_path/'hub', SOME)
    assert converted_greedy(tmp_path/'hub', tmp_path/'converted', SOME) == wanted

def test_a_guest_goes_out_as_it_came_in(two, tmp_path):
    "Once with a token more, which CTranslate2's converter refused"
    folder = shutil.copytree(two[0], tmp_path/'guest')
    weights = load_file(folder/'model.safetensors')
    weights['model.shared.weight'][-1] = 0 # as in all of OPUS-MT
    weights['final_logits_bias'][0, -1] = 0
    save_file(weights, folder/'model.safetensors', dict(format='pt'))
    save_model(tmp_path/'ours', *open_model(folder))
    for source, out in ((folder, 'a'), (tmp_path/'ours', 'b')):
        tnb_export([source], str(tmp_path/out), format='transformers')
        found = load_file(tmp_path/out/'model.safetensors')
        assert all(found.pop(name).equal(x) for name, x in weights.items()) and not found
        for name in ('source.spm', 'target.spm'):
            assert (tmp_path/out/name).read_bytes() == (folder/name).read_bytes()
        vocabs = [json.loads((x/'vocab.json').read_text()) for x in (folder, tmp_path/out)]
        assert vocabs[0] == vocabs[1]
    wanted = greedy_texts(folder, SOME)
    assert hub_greedy(tmp_path/'a', SOME) == wanted == greedy_texts(tmp_path/'a', SOME)
    assert converted_greedy(tmp_path/'a', tmp_path/'converted', SOME) == wanted

@pytest.mark.parametrize('prepared', [True, False])
def test_a_new_tag_for_a_model_of_others(prepared, two, tmp_path, capsys):
    "Once refused: its tokenizer was learned in Helsinki"
    write_pairs(tmp_path, 3)
    en, de = (str(tmp_path/f'a.{lang}') for lang in ('en', 'de'))
    files = ['--src', en, en, '--tgt', de, de, '--valid_src', en, '--valid_tgt', de]
    files += ['--tag', 'none', '<bt>']
    if prepared:
        tnb_prepare([str(tmp_path/'data'), '--tokenizer', str(two[0]), *files])
        files = ['--data', str(tmp_path/'data')]
    how = ['--max_steps=2', '--warmup_steps=1', '--lr=1e-9', '--weights=last']
    tnb_train([f'--init={two[0]}', f'--out={tmp_path}/m', *files, *how])
    (before, theirs), (after, ours) = (open_model(x) for x in (two[0], tmp_path/'m'))
    n = theirs.vocab_size
    assert ours.vocab_size == n + 1 == after.config.vocab_size and ours.tags == ['<bt>']
    [bt, *rest] = ours.encode('<bt> The dog')
    assert bt == n and rest == theirs.encode('The dog') and not ours.needs_tag
    old, new = (x.state_dict()['embeddings.0.weight'] for x in (before, after))
    assert_close(new[:n], old, atol=1e-6, rtol=0)
    assert_close(new[n], old[4:].mean(0), atol=1e-6, rtol=0)
    tnb_export([tmp_path/'m'], str(tmp_path/'hub'), format='transformers')
    assert load_marian(tmp_path/'hub')[1].to_json() == ours.to_json()
    wanted = greedy_texts(tmp_path/'m', SOME)
    assert hub_greedy(tmp_path/'hub', SOME) == wanted == greedy_texts(tmp_path/'hub', SOME)
    assert converted_greedy(tmp_path/'hub', tmp_path/'converted', SOME) == wanted
