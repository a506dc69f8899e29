"""Chapter 21a beyond its own proofs: logits in two precisions, two hundred greedy tokens,
the layouts of files that lie on the hub, tokenizers on texts that are meant to break them,
and what is refused by name."""
import json, shutil
import pytest, tokenizers, torch
from safetensors.torch import load_file, save_file
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from torch import nn
from torch.testing import assert_close
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.support.core import InputError, set_seed
from transformer_nb.studies.families import DecoderOnly
from transformer_nb.studies.pretrained import (
    PretrainedTokenizer, TextCache, continue_ids, from_pretrained,
    load_tokenizer, read_on)
from transformer_nb.text import BPETokenizer

transformers = pytest.importorskip('transformers', reason='needs the extra `bench`')
from transformers import (
    GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM)
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX
from transformers.models.qwen3 import modeling_qwen3

TEXTS = ['The dog sleeps in the garden.', "Don't they've 1,234 books?", 'Größe  und Öl\n\n',
         'def f(x):\n    return x + 1', 'a\tb  c', '日本語のテキスト', 'naïve café'] * 5
NASTY = ['', ' ', '   ', '\n\n\n', 'a\r\nb', "I'LL we'Ve", '  indent', 'x' * 500, '日本語 犬',
         '😀👨‍👩‍👧 ok', '\u200b\ufeff\u00a0', 'e\u0301 é ﬁ ½', '\x00\x01\x7f',
         '\u202eabc', '1234567890 3.14', '<|endoftext|>', 'a<|endoftext|>b', '<|endoftext',
         '<|im_start|>user\nhi<|im_end|>', 'tab\tend \t', '…—“”', 'ÀÈ' * 50, '𝔘𝔫𝔦',
         '\ud7ff\ue000', 'the  the']

@pytest.fixture(autouse=True, scope='module')
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

SPECIAL = dict(gpt2=['<|endoftext|>'],
               qwen3=['<|endoftext|>', '<|im_start|>', '<|im_end|>'])

def train_bpe(kind):
    "A small tokenizer that cuts as GPT-2's or Qwen3's does"
    bpe = tokenizers.Tokenizer(models.BPE())
    if kind == 'gpt2': bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        bpe.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), 'isolated')
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        bpe.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False)
    bpe.train_from_iterator(TEXTS, trainer)
    bpe.add_special_tokens(SPECIAL[kind])
    return bpe

def random_model(kind, **changes):
    if kind == 'gpt2':
        sizes = dict(n_embd=24, n_layer=2, n_head=3, n_positions=230, bos_token_id=None)
        made, config = GPT2LMHeadModel, GPT2Config
    else:
        turns = dict(rope_theta=1e6, rope_type='default')
        sizes = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, head_dim=10,
                     num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
                     max_position_embeddings=230, rope_parameters=turns)
        made, config = Qwen3ForCausalLM, Qwen3Config
    sizes |= dict(vocab_size=350, eos_token_id=7) | changes
    set_seed(3)
    model = made(config(**sizes, attn_implementation='eager')).eval()
    for p in model.parameters(): nn.init.normal_(p, mean=float(p.dim() == 1), std=0.25)
    if kind == 'gpt2': nn.init.normal_(model.transformer.wpe.weight) # less repetition
    return model

@pytest.fixture(scope='module', params=['gpt2', 'qwen3'])
def hub(request, tmp_path_factory):
    "A folder, the model of transformers in it, and their tokenizer"
    kind = request.param
    folder = tmp_path_factory.mktemp(kind)
    theirs, bpe = random_model(kind), train_bpe(kind)
    theirs.save_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=SPECIAL[kind][0],
        additional_special_tokens=SPECIAL[kind])
    tokenizer.save_pretrained(folder)
    return folder, theirs, tokenizer

cpu = torch.device('cpu')

def some_ids(*shape):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(350, shape, generator=generator)

# The same function

def angles_in_float64(self, x, position_ids):
    d_k = self.config.head_dim
    i = torch.arange(0, d_k, 2, dtype=torch.float64)
    angle = position_ids[..., None] / 1e6**(i / d_k)
    angle = torch.cat([angle, angle], -1)
    return angle.cos(), angle.sin()

def test_logits_in_float64(hub, tmp_path, monkeypatch):
    folder, _, _ = hub
    theirs = type(hub[1]).from_pretrained(folder, attn_implementation='sdpa').double()
    for module in list(theirs.modules()):
        for name, part in module.named_children():
            if type(part).__name__ != 'Qwen3RMSNorm': continue
            exact = nn.RMSNorm(len(part.weight), part.variance_epsilon)
            exact.weight = part.weight
            setattr(module, name, exact)
    rotary = modeling_qwen3.Qwen3RotaryEmbedding
    monkeypatch.setattr(rotary, 'forward', angles_in_float64)
    ours, _ = from_pretrained(folder, cpu, torch.float64)
    ids = some_ids(2, 200)
    with torch.no_grad(): found, expected = ours(ids), theirs(ids).logits
    assert found.dtype == torch.float64
    assert_close(found, expected, atol=1e-10, rtol=0)

def test_two_hundred_greedy_tokens(hub):
    folder, theirs, _ = hub
    ours, _ = from_pretrained(folder, cpu)
    row = some_ids(1, 20)
    expected = theirs.generate(row, attention_mask=torch.ones_like(row), max_new_tokens=200,
                               do_sample=False, eos_token_id=None, pad_token_id=0)
    [found] = continue_ids(ours, row[0].tolist(), 200, top_k=1)
    assert found == expected[0, 20:].tolist()
    assert len(set(found)) > 5

def test_reading_in_pieces(hub):
    ours, _ = from_pretrained(hub[0], cpu, torch.float64)
    ids = some_ids(2, 30)
    with torch.no_grad():
        whole = ours(ids)
        for sizes in ([30], [1]*30, [7, 1, 1, 20, 1]):
            cache = TextCache()
            pieces = [read_on(ours, piece, cache) for piece in ids.split(sizes, 1)]
            assert_close(torch.cat(pieces, 1), whole)

# Writing

def test_continuations_end(hub):
    "A text ends where its first ending token would be, and the others go on"
    ours, _ = from_pretrained(hub[0], cpu)
    generator = torch.Generator().manual_seed(0)
    free = continue_ids(ours, [5, 6], 40, n=6, generator=generator)
    end = free[0][10]
    generator = torch.Generator().manual_seed(0)
    found = continue_ids(ours, [5, 6], 40, n=6, ends=[end], generator=generator)
    cut = [ids[:ids.index(end)] if end in ids else ids for ids in free]
    assert found == cut and any(len(ids) == 40 for ids in cut)

def test_what_ends_a_text(hub, tmp_path):
    "The file for writing, or the model's own where that says nothing of it"
    folder = shutil.copytree(hub[0], tmp_path/'model')
    (folder/'generation_config.json').unlink()
    assert load_tokenizer(folder).ends == [7]
    for told, ends in (('{"do_sample": true}', [7]), ('{"eos_token_id": [3, 7]}', [3, 7])):
        (folder/'generation_config.json').write_text(told)
        assert load_tokenizer(folder).ends == ends

def test_the_prompt_has_to_fit(hub):
    ours, _ = from_pretrained(hub[0], cpu)
    assert len(continue_ids(ours, [5]*228, 3, top_k=1)[0]) == 3
    with pytest.raises(InputError, match='longer than the 231'):
        continue_ids(ours, [5]*228, 4)
    with pytest.raises(InputError, match='at least one token'): continue_ids(ours, [], 4)

# Tokenizers

def test_tokenizers(hub):
    folder, _, theirs = hub
    ours = load_tokenizer(folder)
    for text in NASTY + TEXTS:
        ids = ours.encode(text)
        assert ids == theirs(text).input_ids, text
        expected = theirs.decode(ids, skip_special_tokens=True,
                                 clean_up_tokenization_spaces=False)
        assert ours.decode(ids) == expected, text
    assert ours.encode_batch(NASTY) == [ours.encode(text) for text in NASTY]
    assert ours.encode('<|endoftext|>') == [theirs.eos_token_id]

def test_tokenizer_of_older_folders(tmp_path):
    "`vocab.json` and `merges.txt`, as GPT-2 was published"
    bpe = tokenizers.Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, special_tokens=SPECIAL['gpt2'],
        show_progress=False))
    bpe.model.save(str(tmp_path))
    (tmp_path/'config.json').write_text('{"model_type": "gpt2", "eos_token_id": 0}')
    ours = load_tokenizer(tmp_path)
    theirs = transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    for text in NASTY + TEXTS: assert ours.encode(text) == theirs(text).input_ids, text
    assert ours.vocab_size == 330
    (tmp_path/'merges.txt').unlink()
    with pytest.raises(InputError, match='merges.txt is missing'): load_tokenizer(tmp_path)
    (tmp_path/'config.json').write_text('{"model_type": "qwen3"}')
    with pytest.raises(InputError, match='tokenizer.json is missing'):
        load_tokenizer(tmp_path)

def test_a_model_of_the_hub_is_saved_and_loaded(hub, tmp_path):
    "Its classes are asked for: a file names no code that is run"
    model, tokenizer = from_pretrained(hub[0], cpu)
    save_model(tmp_path/'m', model, tokenizer)
    for given in ({}, dict(tokenizer=BPETokenizer)):
        with pytest.raises(InputError, match='is a PretrainedTokenizer; .*argument tok'):
            load_model(tmp_path/'m', family=DecoderOnly, **given)
    again, its_own = load_model(tmp_path/'m', family=DecoderOnly,
                                tokenizer=PretrainedTokenizer)
    assert its_own.encode_batch(NASTY) == tokenizer.encode_batch(NASTY)
    ids = torch.randint(0, 330, (2, 20))
    assert again(ids).equal(model(ids)) and its_own.ends == tokenizer.ends

# Layouts

def copy_of(hub, tmp_path, **config):
    folder = tmp_path/'copy'
    shutil.copytree(hub[0], folder)
    path = folder/'config.json'
    content = json.loads(path.read_text()) | config
    content = {key: value for key, value in content.items() if value is not ...}
    path.write_text(json.dumps(content))
    return folder

def test_layouts_of_the_hub(hub, tmp_path):
    "GPT-2 there lacks the first word and stores masks; Qwen3-0.6B stores its matrix twice"
    folder, theirs = copy_of(hub, tmp_path), hub[1]
    path = folder/'model.safetensors'
    weights = load_file(path)
    if 'transformer.wte.weight' in weights:
        weights = {name.removeprefix('transformer.'): x for name, x in weights.items()}
        for i in range(2): weights[f'h.{i}.attn.bias'] = torch.ones(1, 1, 230, 230).tril()
        weights['lm_head.weight'] = weights['wte.weight'].clone()
    else:
        weights['lm_head.weight'] = weights['model.embed_tokens.weight'].clone()
    save_file(weights, path)
    ours, _ = from_pretrained(folder, cpu)
    ids = some_ids(1, 9)
    with torch.no_grad(): assert_close(ours(ids), theirs(ids).logits, atol=1e-4, rtol=0)
    save_file(weights | {'lm_head.weight': weights['lm_head.weight'] + 1}, path)
    with pytest.raises(InputError, match='lm_head.weight is not what it should repeat'):
        from_pretrained(folder, cpu)

# Refused

REFUSED = dict(
    gpt2=[(dict(tie_word_embeddings=False), 'tie_word_embeddings is False; only True'),
          (dict(model_type='llama'), "model_type is 'llama'; known are gpt2, qwen3"),
          (dict(vocab_size=300), 'embedding.weight is .350, 24., in the model .300'),
          (dict(vocab_size=...), 'has no vocab_size'),
          (dict(scale_attn_by_inverse_layer_idx=True), 'scale_attn_by_inverse_layer_idx'),
          (dict(activation_function='quick_gelu'), "activation_function is 'quick_gelu'"),
          (dict(n_head=5), 'd_model is 24; it must be a multiple'),
          (dict(n_layer=1), 'h.1.*has no place in this model'),
          (dict(n_layer=3), 'has no transformer.h.2'),
          (dict(n_layer=10**6), 'n_layer is 1000000; .* from 1 to 1000')],
    qwen3=[(dict(attention_bias=True), 'attention_bias is True'),
           (dict(layer_types=['full_attention', 'sliding_attention']), 'layer_types are'),
           (dict(layer_types=[[1]]), 'layer_types are'),
           (dict(rope_parameters=[1]), 'rope_parameters are'),
           *[(dict(hidden_size=odd), 'hidden_size is .*; it must be a whole number')
             for odd in (None, True, 0, 1.5, 'x', [1])],
           (dict(rope_parameters=dict(rope_type='yarn')), 'rope_parameters are'),
           (dict(rope_scaling=dict(type='linear')), 'rope_scaling is'),
           (dict(num_key_value_heads=3), 'num_key_value_heads is 3; it must divide'),
           (dict(num_experts=8), 'num_experts is 8; this key is not known')])

@pytest.mark.parametrize('hub', ['gpt2'], indirect=True)
def test_ends_that_are_no_tokens(hub, tmp_path):
    "A text would never have ended"
    folder = copy_of(hub, tmp_path)
    for ends in (-1, True, 'x', [[1]], [7, None], 350):
        (folder/'generation_config.json').write_text(json.dumps(dict(eos_token_id=ends)))
        with pytest.raises(InputError, match='the id of a token|is 350; there are 350'):
            from_pretrained(folder, cpu)

def older_folder(hub, tmp_path, change): # with GPT-2's vocab.json, changed
    folder = copy_of(hub, tmp_path)
    model = json.loads((folder/'tokenizer.json').read_text())['model']
    (folder/'tokenizer.json').unlink()
    merges = [' '.join(pair) for pair in model['merges']]
    (folder/'merges.txt').write_text('\n'.join(['#version: 0.2', *merges]))
    text = json.dumps(model['vocab'])
    (folder/'vocab.json').write_text(change(text, model['vocab']))
    return folder

@pytest.mark.parametrize('hub', ['gpt2'], indirect=True)
def test_a_vocabulary_that_nobody_learned(hub, tmp_path):
    "A token without an id was left out in silence; two may have had one"
    changes = {
        'two tokens .* have one id': lambda text, v: json.dumps(v | dict(aa=v['a'])),
        'has 401 tokens, and the': lambda text, v: json.dumps(v | dict(aa=400)),
        'not every token has an id': lambda text, v: json.dumps(v | dict(aa=1.5))}
    for i, (message, change) in enumerate(changes.items()):
        folder = older_folder(hub, tmp_path/str(i), change)
        with pytest.raises(InputError, match=message): from_pretrained(folder, cpu)

def test_refused_configurations(hub, tmp_path):
    kind = json.loads((hub[0]/'config.json').read_text())['model_type']
    for i, (config, message) in enumerate(REFUSED[kind]):
        folder = copy_of(hub, tmp_path/str(i), **config)
        with pytest.raises(InputError, match=message) as error: from_pretrained(folder, cpu)
        assert '\n' not in str(error.value) and str(folder) in str(error.value)

def test_refused_files(hub, tmp_path):
    folder = copy_of(hub, tmp_path)
    path = folder/'model.safetensors'
    weights = load_file(path)
    some = next(iter(weights))
    save_file(weights | dict(other=torch.ones(2)), path)
    with pytest.raises(InputError, match='other has no place'): from_pretrained(folder, cpu)
    save_file(weights | {some: weights[some] * torch.inf}, path)
    with pytest.raises(InputError, match='NaN or infinite'): from_pretrained(folder, cpu)
    (folder/'tokenizer.json').write_text('{}')
    save_file(weights, path)
    with pytest.raises(InputError, match='tokenizer.json is damaged'):
        from_pretrained(folder, cpu)
    path.unlink()
    with pytest.raises(InputError, match='model.safetensors is missing'):
        from_pretrained(folder, cpu)
    with pytest.raises(InputError, match='config.json is missing'):
        from_pretrained(tmp_path/'nowhere', cpu)
