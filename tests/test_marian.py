"""Chapter 15d beyond its own proofs: models of transformers read, written and read again,
texts that are meant to break a tokenizer, and files that are refused by name."""
import json, math, pickle, shutil
from dataclasses import asdict
from io import BytesIO
import pytest, torch
from running import sample
from safetensors.torch import load_file, save_file
from torch import nn
from torch.testing import assert_close
from test_export import EVERYDAY, run_readme
from transformer_nb import hub
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.commands import score_pairs, tnb_evaluate, tnb_train, tnb_translate
from transformer_nb.support.core import BOS, EOS, PAD, SPECIAL_TOKENS, InputError, set_seed
from transformer_nb.decoding import SearchConfig, beam_search, greedy, search
from transformer_nb.formats.page import export_page, tnb_export
from transformer_nb.speed.fast import accelerate
from transformer_nb.foreign import SentencePieceTokenizer
from transformer_nb.formats.marian import export_marian
from transformer_nb.hub import (
    _load_model, _marian_config, _their_ids, alternate, describe_marian, import_marian,
    load_marian, open_model)
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import (
    Translator, evaluate, load_search, plot_attention)

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

@pytest.fixture(scope='module')
def cutter():
    "A small SentencePiece model"
    file = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=file, vocab_size=60,
        hard_vocab_limit=False, minloglevel=2)
    return file.getvalue()

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

def test_features_alternate():
    from transformers.models.marian.modeling_marian import (
        MarianSinusoidalPositionalEmbedding)
    ours = Transformer(TransformerConfig(9, d_model=24, max_len=40)).src_positions.table
    theirs = MarianSinusoidalPositionalEmbedding(40, 24).create_weight()
    assert_close(theirs[:, alternate(24)], ours, atol=1e-7, rtol=0)

@pytest.mark.parametrize('activation', ['swish', 'relu', 'gelu', 'gelu_new'])
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

@pytest.mark.parametrize('end', [-30., 4.])
@pytest.mark.parametrize('beam_size', [1, 5])
def test_search(tmp_path, cutter, end, beam_size):
    "By beams only where no sentence ends, since the two searches treat an end differently"
    if beam_size > 1 and end > 0: beam_size = 1
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

def test_no_translation_contains_padding(opus):
    folder, _ = opus
    model, _ = load_marian(folder)
    found = search(model, [[10, 11, 12], [20]], n_best=4)
    assert not {PAD, BOS} & {i for best in found for h in best for i in h.ids}

def test_biases_survive_acceleration(opus):
    "The joint product of a training step knows of no biases"
    folder, _ = opus
    model, _ = load_marian(folder)
    src, tgt = batch(len(their_ids(folder)))
    before = model(src, tgt)
    assert before.requires_grad
    assert_close(accelerate(model)(src, tgt)[..., EOS:], before[..., EOS:])

@pytest.mark.parametrize('text', NASTY)
def test_tokenizer(opus, text):
    folder, _ = opus
    _, ours = load_marian(folder)
    theirs, ids = MarianTokenizer.from_pretrained(folder), their_ids(folder)
    found = ours.encode(text)
    expected = theirs(text).input_ids
    assert ids[found + [EOS]].tolist() == expected
    assert ours.decode(found) == theirs.decode(expected, skip_special_tokens=True)

def test_special_tokens_are_text(opus):
    "Theirs reads `</s>` in a text as the end; for this book it is four characters"
    _, ours = load_marian(opus[0])
    assert not {PAD, BOS, EOS} & set(ours.encode('a </s> b <pad>'))
    assert ours.decode([10, EOS, PAD]) == ours.decode([10])
    assert ours.pieces[:4] == SPECIAL_TOKENS

def test_tokenizer_is_named(opus):
    assert describe_marian(opus[0])['tokenizer'] == 'SentencePieceTokenizer'

def test_tokenizer_is_stored(opus):
    _, ours = load_marian(opus[0])
    for other in (pickle.loads(pickle.dumps(ours)),
                  SentencePieceTokenizer.from_json(ours.to_json())):
        assert other.encode_batch(TEXTS) == ours.encode_batch(TEXTS)
        assert other.vocab_size == ours.vocab_size

def test_translator(opus):
    folder, _ = opus
    translator = Translator(folder, torch.device('cpu'), max_extra=4)
    found = translator.translate(['The dog sleeps.', '', 'Größe'])
    assert len(found) == 3 and found[1] == ''
    assert translator.options['penalty'] == 'power'
    assert len(translator.candidates(['The dog'], 2, alignments=True)[0]) == 2

# All that a `Translator` does

PAIRS = [('The dog sleeps.', 'Der Hund schläft.'), ('A  cat', 'Eine Katze'),
         ('one two', 'eins zwei drei'), ('three four', 'Größe und Öl')]
GERMAN = ['Der Hund schläft.', 'Eine Katze geht.', 'Größe und Öl', 'eins zwei drei'] * 20

@pytest.fixture(scope='module')
def two(tmp_path_factory):
    "A folder with a model for each language, and the model of transformers in it"
    folder, cutters = tmp_path_factory.mktemp('two'), []
    for texts in (TEXTS, GERMAN):
        file = BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=file, vocab_size=50,
            hard_vocab_limit=False, minloglevel=2)
        cutters.append(file.getvalue())
    pieces = []
    for side, cutter in zip(('source', 'target'), cutters):
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

def test_alternatives(translator):
    [found] = translator.candidates(['The dog sleeps.'], n_best=3, alignments=True)
    assert 1 < len({x.text for x in found}) == len(found) <= 3
    scores = [x.score for x in found]
    assert scores == sorted(scores, reverse=True)
    assert found[0].alignment.shape == (len(found[0].pieces), len(found[0].source_pieces))
    plot_attention(translator, 'The dog sleeps.')

def test_sampling(translator):
    seeded = torch.Generator().manual_seed(0)
    found = translator.sample(['The dog', ''], generator=seeded, temperature=1.)
    assert len(found[0]) == 1 and found[1] == []
    assert not {PAD, BOS} & set(found[0][0].ids)
    sure = translator.sample(['The dog'], generator=seeded, top_k=1)
    greedy_one = translator.search(['The dog'], beam_size=1)
    assert sure[0][0].ids == greedy_one[0][0].ids

def test_lines_and_their_notes(translator):
    long = 'The dog sleeps. ' * 30
    lines = translator.translate_lines(
        ['The dog. A cat.', '12', long, 'He isn’t here', ''], split=True)
    assert [len(line.sentences) for line in lines] == [2, 1, 30, 1, 0]
    assert lines[1].text == '12' and lines[4].text == ''
    assert lines[3].sentences[0].read == "He isn't here."
    [whole] = translator.translate_lines([long], split=False)
    assert whole.notes[0] == 'has more than 39 tokens; it is translated up to there'
    assert translator.too_long(['one', long]) == [1]
    assert translator.translate(['the dog']) == translator.translate(['The dog']) != ['']
    [line] = translator.translate_lines(['The 犬 sees ж.'])
    assert any(note == 'the model hardly knows 犬 ж' for note in line.notes)

def test_a_line_without_the_tag_of_its_language_is_told(opus):
    translator = Translator(opus[0], 'cpu', max_extra=2)
    with_tag, without = translator.translate_lines(['>>fra<< The dog.', 'The dog.'])
    assert 'tags >>fra<<' in ' '.join(without.notes)
    assert not any('tags' in note for note in with_tag.notes)

def test_no_page_of_two_sentencepieces(opus, tmp_path):
    "The page knows neither such biases nor such a tokenizer, and one line says so"
    with pytest.raises(InputError, match='the page cannot do') as error:
        export_page([opus[0]], tmp_path/'page.html')
    assert '\n' not in str(error.value)

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

def test_damaged_parts(parts):
    first, *_ = sorted(parts.glob('model-*.safetensors'))
    index = parts/'model.safetensors.index.json'
    content, data = json.loads(index.read_text()), first.read_bytes()
    first.unlink()
    with pytest.raises(InputError, match=f'{first.name} is missing'): load_marian(parts)
    first.write_bytes(data[:-5])
    with pytest.raises(InputError, match=f'{first.name} is damaged'): load_marian(parts)
    first.write_bytes(data)
    places = content['weight_map']
    save_file(load_file(first), parts/'again.safetensors')
    for harm, message in [
            ({'x': 'again.safetensors'}, 'another part has'),
            ({'x': '../model.safetensors'}, 'which is not a file beside it'),
            ({'x': 'pytorch_model.bin'}, 'which is not a file beside it'),
            ([], 'no weight_map')]:
        changed = places | harm if harm else harm
        index.write_text(json.dumps(dict(weight_map=changed)))
        with pytest.raises(InputError, match=message): load_marian(parts)
    few = {name: file for name, file in places.items() if file != first.name}
    index.write_text(json.dumps(dict(weight_map=few)))
    with pytest.raises(InputError, match='index.json has no|json: .* has no place'):
        load_marian(parts)

HARMLESS = dict( # of configurations as they lie in public repositories
    _num_labels=3, output_past=True, finetuning_task=None, return_dict=True,
    output_attentions=False, output_hidden_states=False, chunk_size_feed_forward=0,
    tokenizer_class='MarianTokenizer', num_return_sequences=1, top_k=50, xla_device=None,
    tie_encoder_decoder=False, pruned_heads={}, add_cross_attention=False)

def test_the_hubs_harmless_keys(opus, tmp_path):
    load_marian(changed(opus, tmp_path, **HARMLESS))

def test_dropout_is_that_of_the_folder(opus, tmp_path):
    "A model goes on learning as it has learned; 0.1 is what a missing key means there"
    folder = changed(opus, tmp_path, dropout=0.25)
    assert load_marian(folder)[0].config.dropout == 0.25
    record = json.loads((folder/'config.json').read_text())
    for dropout, wanted in ((None, 'dropout is None'), (1.5, 'dropout is 1.5')):
        (folder/'config.json').write_text(json.dumps(record | dict(dropout=dropout)))
        with pytest.raises(InputError, match=wanted): load_marian(folder)
    del record['dropout']
    (folder/'config.json').write_text(json.dumps(record))
    assert load_marian(folder)[0].config.dropout == 0.1

def test_past_a_key_that_is_not_known(opus, tmp_path):
    "The message names all of them, and what to write"
    folder = changed(opus, tmp_path, favorite_color='red', mood=dict(today='fine'))
    message = r"pass ignore_keys=\['favorite_color', 'mood'\]$"
    with pytest.raises(InputError, match=message): load_marian(folder)
    keys = ['favorite_color', 'mood']
    import_marian(folder, tmp_path/'ours', ignore_keys=keys)
    translator = Translator(tmp_path/'ours', 'cpu', max_extra=2)
    plain = Translator(opus[0], 'cpu', max_extra=2)
    assert translator.options == plain.options
    assert translator.translate(['The dog']) == plain.translate(['The dog'])
    folder = changed(opus, tmp_path/'more', normalize_before=True)
    with pytest.raises(InputError, match='normalize_before is True'):
        load_marian(folder, ignore_keys=['normalize_before'])

# Refused

def changed(opus, tmp_path, **config):
    folder = tmp_path/'opus'
    shutil.copytree(opus[0], folder)
    path = folder/'config.json'
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return folder

REFUSED = [
    (dict(normalize_before=True), 'normalize_before is True; only False'),
    (dict(normalize_embedding=True), 'normalize_embedding is True'),
    (dict(scale_embedding=False), 'scale_embedding is False; only True'),
    (dict(decoder_ffn_dim=41), 'decoder_ffn_dim is 41; only 40'),
    (dict(decoder_attention_heads=2), 'decoder_attention_heads is 2; only 3'),
    (dict(share_encoder_decoder_embeddings=False), 'share_encoder_decoder_embeddings'),
    (dict(decoder_vocab_size=9), 'decoder_vocab_size is 9'),
    (dict(activation_function='quick_gelu'), "activation_function is 'quick_gelu'; known"),
    (dict(transformer_dim_aan=7), 'transformer_dim_aan is 7; this key is not known'),
    (dict(forced_bos_token_id=5), 'forced_bos_token_id is 5; only None'),
    (dict(quantization_config=dict(bits=4)), 'quantization_config is'),
    (dict(model_type='t5'), "model_type is 't5'; only 'marian'"),
    (dict(d_model=25), 'd_model is 25; it must be'),
    (dict(encoder_layers='two'), "encoder_layers is 'two'; it must be a whole number"),
    (dict(encoder_ffn_dim=48, decoder_ffn_dim=48), 'feed_forward.inner.weight is'),
    (dict(encoder_layers=1), 'encoder.layers.1.*has no place'),
    (dict(encoder_layers=3), 'has no model.encoder.layers.2'),
    (dict(vocab_size=70, decoder_vocab_size=70), 'vocab.json should have the ids')]

@pytest.mark.parametrize('config, message', REFUSED)
def test_refused_configurations(opus, tmp_path, config, message):
    folder = changed(opus, tmp_path, **config)
    with pytest.raises(InputError, match=message) as error: load_marian(folder)
    assert '\n' not in str(error.value) and str(folder) in str(error.value)

def test_a_missing_scale_means_none(opus, tmp_path):
    folder = changed(opus, tmp_path)
    path = folder/'config.json'
    config = json.loads(path.read_text())
    del config['scale_embedding']
    path.write_text(json.dumps(config))
    with pytest.raises(InputError, match='scale_embedding is False'): load_marian(folder)

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
            ({'model.shared.weight': shared * torch.nan}, 'values that are not finite'),
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

@pytest.mark.parametrize('name, size', [
    ('d_model', 10**12), ('max_position_embeddings', 10**12), ('encoder_layers', 10**9)])
def test_sizes_are_looked_at_before_memory_is_taken(opus, tmp_path, name, size):
    folder = changed(opus, tmp_path, **{name: size})
    with pytest.raises(InputError, match='config.json: '): load_marian(folder)

NUMBERS = ['vocab_size', 'd_model', 'encoder_layers', 'decoder_layers', 'encoder_ffn_dim',
           'encoder_attention_heads', 'max_position_embeddings', 'pad_token_id',
           'eos_token_id', 'decoder_start_token_id']
ODD_VALUES = [None, True, -1, 1.5, 'x', '5', [], [1], {}, {'a': 1}, 10**12, math.inf]

@pytest.mark.parametrize('name', NUMBERS)
def test_a_number_that_is_none(opus, tmp_path, name):
    "A tokenizer of 10^12 pieces took all memory; text, lists, and infinity were tracebacks"
    folder = changed(opus, tmp_path)
    path = folder/'config.json'
    whole = json.loads(path.read_text())
    twin = name.replace('encoder_', 'decoder_').replace('vocab', 'decoder_vocab')
    beyond = [whole['vocab_size']] if name.endswith('_id') else []
    for value in ODD_VALUES + beyond:
        odd = {key: value for key in (name, twin) if key in whole}
        path.write_text(json.dumps(whole | odd))
        with pytest.raises(InputError, match=r'(config|vocab)\.json') as error:
            load_marian(folder)
        assert '\n' not in str(error.value)
    for value in (['relu'], {'relu': 1}, None, 5):
        path.write_text(json.dumps(whole | dict(activation_function=value)))
        with pytest.raises(InputError, match='activation_function is'): load_marian(folder)

def odd_tokenizers(content): # of a folder of `export_marian`
    token = content['added_tokens'][0]
    for value in (None, 5, 'x', [], [[1]], {'a': 1}):
        yield content | dict(added_tokens=value)
        yield content | dict(model=value)
        yield content | dict(model=content['model'] | dict(vocab=value))
        yield content | dict(model=content['model'] | dict(merges=value or 7))
        yield content | dict(added_tokens=[value, *content['added_tokens'][1:]])
        for name in ('id', 'content', 'special'):
            changed = {**token, name: value}
            if bool(value) is False and name == 'special':
                changed['content'] = 'a stranger'
            yield content | dict(added_tokens=[changed, *content['added_tokens'][1:]])
    yield {name: value for name, value in content.items() if name != 'added_tokens'}
    yield content | dict(added_tokens=[dict(t, special=False)
                                       for t in content['added_tokens']])

def test_a_tokenizer_of_others_that_is_none(tmp_path):
    "Each a traceback before, or read as another tokenizer"
    our_folder(tmp_path/'ours')
    export_marian(tmp_path/'ours', tmp_path/'hub')
    path = tmp_path/'hub/tokenizer.json'
    for content in list(odd_tokenizers(json.loads(path.read_text()))):
        path.write_text(json.dumps(content))
        try: load_marian(tmp_path/'hub')
        except InputError as error: assert 'tokenizer.json' in str(error), error

@pytest.mark.parametrize('name', ['config.json', 'vocab.json', 'target.spm'])
def test_missing_files(opus, tmp_path, name):
    folder = changed(opus, tmp_path)
    (folder/name).unlink()
    with pytest.raises(InputError, match=f'{name} is missing'): load_marian(folder)

# Out, and in again

def our_folder(folder, **sizes):
    tokenizer = BPETokenizer.train(TEXTS, 300)
    sizes = dict(d_model=24, d_ff=40, n_heads=3, n_encoder_layers=2, n_decoder_layers=3,
                 max_len=40) | sizes
    set_seed(2)
    model = Transformer(TransformerConfig(tokenizer.vocab_size, **sizes)).eval()
    for p in model.parameters(): nn.init.normal_(p, std=0.3)
    save_model(folder, model, tokenizer)
    return model, tokenizer

def test_export(tmp_path):
    ours, tokenizer = our_folder(tmp_path/'model')
    export_marian(tmp_path/'model', tmp_path/'out')
    theirs = MarianMTModel.from_pretrained(tmp_path/'out').eval()
    searched = json.loads((tmp_path/'out'/'generation_config.json').read_text())
    assert searched['early_stopping'] == 'never' # as our search, which knows what may come
    src, tgt = batch(tokenizer.vocab_size)
    for dtype, atol in ((torch.float32, 1e-4), (torch.float64, 1e-10)):
        with torch.no_grad():
            expected = ours.to(dtype)(src, tgt)
            found = theirs.to(dtype)(input_ids=src, attention_mask=(src != PAD).long(),
                                     decoder_input_ids=tgt).logits
        assert_close(found, expected, atol=atol, rtol=0)
    ours.float(), theirs.float()
    options = dict(num_beams=1, max_new_tokens=12)
    rows = theirs.generate(src, attention_mask=(src != PAD).long(), **options)
    for found, expected in zip(rows[:, 1:].tolist(), greedy(ours, src)):
        n = min(len(expected), 11) # the last token is forced to be the end
        assert found[:n] == expected[:n]

def test_around_the_circle(tmp_path):
    "Ours, Marian's, ours: every weight at its place, and the same beams"
    ours, tokenizer = our_folder(tmp_path/'model')
    export_marian(tmp_path/'model', tmp_path/'out')
    theirs = MarianMTModel.from_pretrained(tmp_path/'out')
    theirs.save_pretrained(tmp_path/'again')
    config = _marian_config(tmp_path/'again')
    ids = _their_ids(config, unk=3)
    assert ids == list(range(tokenizer.vocab_size)) and describe_marian(
        tmp_path/'again')['search'] == asdict(SearchConfig())
    back = _load_model(tmp_path/'again', config, ids)
    state = back.state_dict()
    for name, x in ours.state_dict().items(): assert state.pop(name).equal(x), name
    assert all(not x.any() for x in state.values()) # the biases
    src, _ = batch(tokenizer.vocab_size)
    assert beam_search(back, src, n_best=4) == beam_search(ours, src, n_best=4)

def test_exported_tokenizer(tmp_path):
    _, ours = our_folder(tmp_path/'model')
    export_marian(tmp_path/'model', tmp_path/'out')
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path/'out')
    for text in NASTY:
        assert theirs(text).input_ids == ours.encode(text) + [EOS], text
        decoded = theirs.decode(ours.encode(text), skip_special_tokens=True)
        assert decoded == ours.decode(ours.encode(text))
    assert (theirs.pad_token_id, theirs.eos_token_id) == (PAD, EOS)

@pytest.mark.parametrize('sizes, message', [
    (dict(norm='pre'), "norm is 'pre'; a Marian model has 'post'"),
    (dict(positions='learned'), "positions is 'learned'"),
    (dict(tie_embeddings=False), 'tie_embeddings is False'),
    (dict(d_k=4), 'd_k is 4')])
def test_refused_exports(tmp_path, sizes, message):
    our_folder(tmp_path/'model', **sizes)
    with pytest.raises(InputError, match=message):
        export_marian(tmp_path/'model', tmp_path/'out')
    assert not (tmp_path/'out').exists()

def test_exports_do_not_overwrite(tmp_path):
    our_folder(tmp_path/'model')
    (tmp_path/'out').mkdir()
    (tmp_path/'out/file').touch()
    with pytest.raises(InputError): export_marian(tmp_path/'model', tmp_path/'out')

def test_biases_start_at_zero():
    def logits(**fields):
        set_seed(0)
        sizes = dict(d_model=16, d_ff=24, n_heads=2, max_len=20)
        model = Transformer(TransformerConfig(30, **sizes, **fields)).double().eval()
        set_seed(1)
        return model(*batch(30))
    assert logits(biases='all').equal(logits())
    assert not logits(biases='all', activation='gelu').allclose(logits())

def test_a_model_of_two_sentencepieces_is_saved_and_loaded(opus, tmp_path):
    model, tokenizer = load_marian(opus[0])
    save_model(tmp_path/'m', model, tokenizer)
    again, its_own = load_model(tmp_path/'m')
    assert its_own.encode_batch(NASTY) == tokenizer.encode_batch(NASTY)
    src, tgt = batch(tokenizer.vocab_size)
    assert again(src, tgt).equal(model(src, tgt))

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

@pytest.mark.parametrize('for_converter', sample([True, False], 2))
def test_one_folder_three_readers(tmp_path, for_converter):
    "The shipped model, whose translations begin with a vector that it has learned"
    wanted = greedy_texts(EVERYDAY, SOME)
    export_marian(EVERYDAY, tmp_path/'hub', for_converter)
    assert greedy_texts(tmp_path/'hub', SOME) == wanted == hub_greedy(tmp_path/'hub', SOME)
    tokenizer = load_marian(tmp_path/'hub')[1]
    assert tokenizer.to_json() == load_model(EVERYDAY)[1].to_json()
    assert describe_marian(tmp_path/'hub')['tokenizer'] == 'BPETokenizer'
    if for_converter:
        assert converted_greedy(tmp_path/'hub', tmp_path/'ct2', SOME) == wanted
    else: # in one line, before anything is written
        with pytest.raises(ValueError, match='[Vv]ocabulary'):
            converted_greedy(tmp_path/'hub', tmp_path/'ct2', SOME)

def test_saved_again_without_its_start_is_refused(tmp_path):
    "transformers leaves positions out where it saves; we do not translate with zeros"
    our_folder(tmp_path/'model')
    export_marian(tmp_path/'model', tmp_path/'hub', for_converter=True)
    MarianMTModel.from_pretrained(tmp_path/'hub').save_pretrained(tmp_path/'again')
    shutil.copy(tmp_path/'hub/tokenizer.json', tmp_path/'again')
    with pytest.raises(InputError, match='embed_positions.weight, in which the start'):
        load_marian(tmp_path/'again')

def test_tags_go_out_and_come_back(tmp_path):
    tokenizer = BPETokenizer.train(TEXTS, 300, tags=['>>de<<', '>>fr<<'])
    sizes = dict(d_model=24, d_ff=40, n_heads=3, max_len=40)
    model = Transformer(TransformerConfig(tokenizer.vocab_size, **sizes)).eval()
    save_model(tmp_path/'model', model, tokenizer)
    export_marian(tmp_path/'model', tmp_path/'hub', for_converter=True)
    back, its_own = load_marian(tmp_path/'hub')
    assert its_own.to_json() == tokenizer.to_json()
    for ours, x in model.state_dict().items():
        if ours == 'embeddings.0.weight': x[PAD] = 0. # which no one reads
        assert_close(back.state_dict()[ours], x, atol=1e-6, rtol=0)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path/'hub')
    for text in ('>>fr<< The dog', 'The dog', '>>de<< Größe'):
        pieces = [tokenizer.tokenizer.id_to_token(i) for i in tokenizer.encode(text)]
        assert theirs.convert_ids_to_tokens(theirs(text).input_ids) == [*pieces, '</s>']
    converted_greedy(tmp_path/'hub', tmp_path/'ct2', ['>>fr<< The dog'])
    vocab = json.loads((tmp_path/'ct2/shared_vocabulary.json').read_text())
    assert vocab == theirs.convert_ids_to_tokens(range(tokenizer.vocab_size - 2))

# A folder of the hub, at every door

def test_weights_in_a_pickle(opus, tmp_path):
    "`pytorch_model.bin`, of one part or several; nothing but tensors is taken from it"
    wanted = load_marian(opus[0])[0].state_dict()
    folder = shutil.copytree(opus[0], tmp_path/'bin')
    weights = load_file(folder/'model.safetensors')
    weights |= {'lm_head.weight': weights['model.shared.weight']}
    (folder/'model.safetensors').unlink()
    torch.save(weights, folder/'pytorch_model.bin')
    found = load_marian(folder)[0].state_dict()
    assert all(found[name].equal(x) for name, x in wanted.items())
    names = sorted(weights)
    places = {name: f'pytorch_model-0000{i % 2}.bin' for i, name in enumerate(names)}
    for part in set(places.values()):
        torch.save({n: weights[n] for n in names if places[n] == part}, folder/part)
    (folder/'pytorch_model.bin').unlink()
    index = folder/'pytorch_model.bin.index.json'
    index.write_text(json.dumps(dict(weight_map=places)))
    found = load_marian(folder)[0].state_dict()
    assert all(found[name].equal(x) for name, x in wanted.items())

class Harm:
    def __reduce__(self): return print, ('this must not be printed',)

@pytest.mark.parametrize('content, message', [
    (Harm(), 'more than tensors'), (dict(x=Harm()), 'more than tensors'),
    (dict(x=1), 'something other than tensors'), ([torch.ones(2)], 'something other')])
def test_a_pickle_with_more_than_tensors(opus, tmp_path, capsys, content, message):
    folder = shutil.copytree(opus[0], tmp_path/'bin')
    (folder/'model.safetensors').unlink()
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

def test_commands_take_a_folder_of_the_hub(two, tmp_path, capsys, monkeypatch):
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
    tnb_export([folder], str(tmp_path/'ct2'))
    ctranslate2 = pytest.importorskip('ctranslate2')
    monkeypatch.chdir(tmp_path/'ct2')
    engine = ctranslate2.Translator('.', compute_type='float32')
    names = dict(translator=engine, sentencepiece=sentencepiece, texts=SOME)
    found = run_readme(tmp_path/'ct2', ('beam_size=4', 'beam_size=1'), **names)
    ours = Translator(folder, 'cpu', beam_size=1)
    assert found == [ours.text(ours.search([text])[0][0]) for text in SOME]
    found, _ = score_pairs(ours, PAIRS) # translations of random weights are all alike
    for line, (src, tgt) in enumerate(PAIRS, 1):
        [ids] = ours.tokenizer.encode_targets([tgt])
        pieces = [[[ours.tokenizer.pieces[i] for i in row]]
                  for row in (ours.tokenizer.encode(src), ids)]
        [scored] = engine.score_batch(*pieces)
        assert scored.log_probs == pytest.approx(found[line], abs=1e-4)

def test_fine_tuning_keeps_what_it_loads(two, tmp_path, capsys):
    "Biases, activation, tokenizer and search; a learning rate of nearly 0 changes nothing"
    folder, theirs = two
    for name, texts in zip(('a.en', 'a.de'), zip(*PAIRS)):
        (tmp_path/name).write_text('\n'.join(texts) + '\n')
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
    export_marian(tmp_path/'tuned', tmp_path/'hub', for_converter=True)
    wanted = greedy_texts(tmp_path/'tuned', SOME)
    assert hub_greedy(tmp_path/'hub', SOME) == wanted == greedy_texts(tmp_path/'hub', SOME)
    assert converted_greedy(tmp_path/'hub', tmp_path/'converted', SOME) == wanted

def test_a_tuned_model_learns_and_goes_on_after_a_break(two, tmp_path):
    folder, _ = two
    for name, texts in zip(('a.en', 'a.de'), zip(*PAIRS)):
        (tmp_path/name).write_text('\n'.join(texts) + '\n')
    files = [f'--{part}{side}={tmp_path}/a.{lang}' for part in ('', 'valid_')
             for side, lang in (('src', 'en'), ('tgt', 'de'))]
    start = [f'--init={folder}', f'--out={tmp_path}/tuned', '--lr=1e-3', *files]
    tnb_train([*start, '--max_steps=10', '--warmup_steps=1', '--decay_steps=40',
               '--weights=last'])
    tnb_train(['--resume', f'--out={tmp_path}/tuned', '--max_steps=20'])
    lines = (tmp_path/'tuned/metrics.jsonl').read_text().splitlines()
    losses = [json.loads(line)['valid_loss'] for line in lines if 'valid_loss' in line]
    assert losses[-1] < losses[0] - 0.3
    biases = load_model(tmp_path/'tuned')[0].output.bias
    assert (biases[[PAD, BOS]] < -9e3).all()

def test_another_folder_of_transformers_is_named(tmp_path):
    (tmp_path/'config.json').write_text('{"model_type": "t5"}')
    with pytest.raises(InputError, match="of type 't5'; only marian"): open_model(tmp_path)
