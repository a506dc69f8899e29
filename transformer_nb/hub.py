"""Translators from the Hugging Face hub in the book's classes, and one door for any model folder.

The features of a stream can be put in any order, and so can the tokens, so that most of what
separates Marian's models from ours is which number comes first; docs/reference/exports.md has
the table."""
import json, math, re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from pickle import UnpicklingError
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformer_nb.checkpoint import (
    check_model_size, check_weights, find_model, load_model, load_record)
from transformer_nb.decoding import SearchConfig
from transformer_nb.foreign import SentencePieceTokenizer, load_any_tokenizer
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.parts import ACTIVATIONS
from transformer_nb.support.core import (
    BOS, PAD, SPECIAL_TOKENS, InputError, find_in, read_json, shorten, untrusted)
from transformer_nb.text import BPETokenizer, Tokenizer

def alternate(d_model:int # even
             )->Tensor:   # Marian's place of each of our features (d,)
    "Ours alternate; Marian has the sines first, then the cosines"
    sines = torch.arange(d_model // 2)
    return torch.stack([sines, sines + d_model//2], 1).flatten()

_READERS = 'query', 'key', 'value', 'inner', 'embeddings.0'

def reorder_features(name:str,     # of a parameter of `Transformer`
                     x:Tensor,
                     order:Tensor, # new places (d,)
                    )->Tensor:     # the parameter of a model with a reordered stream
    part, _, kind = name.rpartition('.')
    if not part.endswith(_READERS): return x[order]
    return x[:, order] if kind == 'weight' else x

def _their_ids(config:dict, # of `read_config`
               unk:int      # Marian's id of `<unk>`
              )->list[int]: # Marian's id of each of ours
    special = [config['pad_token_id'], config['decoder_start_token_id'],
               config['eos_token_id'], unk]
    others = [i for i in range(config['vocab_size']) if i not in special]
    return special + others

_HARMLESS = '''_attn_implementation _attn_implementation_autoset _commit_hash
    _name_or_path _num_labels architectures attention_dropout attn_implementation
    bad_words_ids begin_suppress_tokens bos_token_id chunk_size_feed_forward
    cls_token_id diversity_penalty do_sample dtype early_stopping
    encoder_no_repeat_ngram_size exponential_decay_length_penalty finetuning_task
    forced_eos_token_id gradient_checkpointing id2label init_std initializer_range
    label2id length_penalty max_length min_length model_max_length no_repeat_ngram_size
    num_beam_groups num_beams num_labels num_return_sequences output_attentions
    output_hidden_states output_past output_scores prefix problem_type
    remove_invalid_values repetition_penalty return_dict return_dict_in_generate
    sep_token_id suppress_tokens task_specific_params temperature tf_legacy_loss
    tokenizer_class top_k top_p torch_dtype torchscript transformers.js_config
    transformers_version typical_p unsloth_fixed unsloth_version use_bfloat16 use_cache
    xla_device'''.split() # of any model: training, search, storage
_OF_ANY = dict( # what would change a model, where it is another value
    add_cross_attention=False, cross_attention_hidden_size=None, forced_bos_token_id=None,
    is_encoder_decoder=False, pruned_heads={}, quantization_config=None,
    tie_encoder_decoder=False)

def read_config(folder:Path,
                read:dict,        # keys that we use; their values where they are missing
                fixed:dict,       # the only value that we accept; for missing keys, too
                harmless:list[str]=(), # further keys that change nothing in a trained model
               )->dict:           # values of the keys in `read`
    "Raises `InputError` for a key that it does not know, or a value that it can't accept"
    path, fixed = folder/'config.json', _OF_ANY | fixed
    stored = read_json(path)
    unknown = sorted(stored.keys() - {*read, *fixed, *_HARMLESS, *harmless})
    for key in unknown:
        raise InputError(f'{path}: {key} is {str(stored[key])[:60]}; this key is not known '
                         'here. If it changes nothing in a trained model, remove from the '
                         f'file: {", ".join(unknown)}')
    for key, wanted in fixed.items():
        value = stored.get(key, read.get(key, wanted))
        if value != wanted: raise InputError(f'{path}: {key} is {value!r}; '
                                             f'only {wanted!r} can be represented')
    needed = [key for key, default in read.items() if default is ...]
    for key in needed:
        if key not in stored: raise InputError(f'{path} has no {key}')
    for key in needed: _check_number(path, stored, key)
    return read | {key: value for key, value in stored.items() if key in read}

def _check_number(path:Path, stored:dict, key:str):
    "Of what a folder must say, all but the activation are sizes and ids"
    if key == 'activation_function': return
    value, low, high = stored[key], 1, 1000 if 'layer' in key else 10**9
    if key.endswith('_id'): low, high = 0, stored['vocab_size'] - 1
    if type(value) is int and low <= value <= high: return
    raise InputError(f'{path}: {key} is {shorten(repr(value), 60)}; it must be a whole '
                     f'number from {low} to {high}')

class WeightFile:
    "The tensors of a folder's weights, of one file or several, each to be taken once"
    def __init__(self, folder:Path, dtype:torch.dtype=torch.float32):
        self.path, self.dtype, self.tensors = _weights_of(folder), dtype, {}
        for path in _parts_of(self.path):
            load = _load_pickled if path.suffix == '.bin' else load_file
            with untrusted(path): tensors = load(path)
            for name in tensors.keys() & self.tensors.keys():
                raise InputError(f'{path}: another part has {name}, too')
            self.tensors |= tensors

    def take(self, name:str)->Tensor:
        if name not in self.tensors: raise InputError(f'{self.path} has no {name}')
        return self.tensors.pop(name).to(self.dtype)

    def skip(self, pattern:str, # of names
             expected:Tensor|None=None): # what they must hold, nearly; None: anything
        "Leave out tensors that hold nothing new"
        for name in [n for n in self.tensors if re.fullmatch(pattern, n)]:
            x = self.take(name)
            same = expected is None or x.shape == expected.shape and x.allclose(expected)
            if same: continue
            raise InputError(f'{self.path}: {name} is not what it should repeat')

    def fill(self, model:nn.Module, weights:dict[str,Tensor]):
        "Put weights into a model; none may be left over, and every shape must fit"
        for name in self.tensors:
            raise InputError(f'{self.path}: {name} has no place in this model')
        with untrusted(self.path): check_weights(weights, model.state_dict())
        weights = {name: x.contiguous() for name, x in weights.items()}
        model.load_state_dict(weights, assign=True)

_WEIGHTS = ('model.safetensors', 'model.safetensors.index.json',
            'pytorch_model.bin') # the first that is there

def _weights_of(folder:Path)->Path:
    for path in (folder/name for name in _WEIGHTS):
        if path.is_file(): return path
    others = ', '.join(_WEIGHTS[1:])
    raise InputError(f'{folder/_WEIGHTS[0]} is missing, and so are {others}')

def _parts_of(path:Path)->list[Path]: # the file itself, or those that an index names
    if path.suffix != '.json': return [path]
    places = read_json(path).get('weight_map')
    if not isinstance(places, dict): raise InputError(f'{path} has no weight_map')
    names = sorted(set(map(str, places.values())))
    for name in names:
        if Path(name).name != name or not name.endswith('.safetensors'):
            raise InputError(f'{path} names {name!r}, which is not a file beside it')
    return [path.with_name(name) for name in names]

def _load_pickled(path:Path)->dict[str,Tensor]: # nothing but tensors, so no code can run
    try: found = torch.load(path, map_location='cpu', weights_only=True)
    except UnpicklingError:
        raise ValueError('it holds more than tensors, which could run code') from None
    if isinstance(found, dict) and all(isinstance(x, Tensor) for x in found.values()):
        return dict(found)
    raise ValueError('it holds something other than tensors by name')

_MARIAN = dict.fromkeys('''vocab_size d_model encoder_layers decoder_layers
    encoder_attention_heads encoder_ffn_dim activation_function max_position_embeddings
    pad_token_id eos_token_id decoder_start_token_id'''.split(), ...)
_MARIAN |= dict(scale_embedding=False, dropout=0.1, transformer_nb={}) # if they are missing
_OF_MARIAN = dict(
    model_type='marian', scale_embedding=True, tie_word_embeddings=True,
    share_encoder_decoder_embeddings=True,
    normalize_before=False, normalize_embedding=False, add_final_layer_norm=False,
    add_bias_logits=False, static_position_embeddings=True, is_encoder_decoder=True,
    is_decoder=False)
_MARIAN_HARMLESS = '''activation_dropout classif_dropout classifier_dropout
    decoder_layerdrop encoder_layerdrop extra_pos_embeddings
    force_bos_token_to_be_generated num_hidden_layers'''.split()

def _marian_config(folder:Path)->dict:
    stored = read_json(folder/'config.json')
    fixed = _OF_MARIAN | dict( # encoder and decoder alike
        decoder_vocab_size=stored.get('vocab_size'),
        decoder_ffn_dim=stored.get('encoder_ffn_dim'),
        decoder_attention_heads=stored.get('encoder_attention_heads'))
    return read_config(folder, _MARIAN, fixed, _MARIAN_HARMLESS)

_ATTENTION = dict(query='q_proj', key='k_proj', value='v_proj', output='out_proj')

def _layer_names(side:str)->Iterator[tuple[str,str]]: # parts of a layer, ours and Marian's
    attentions = [('self_attention', 'self_attn')]
    if side == 'decoder': attentions.append(('cross_attention', 'encoder_attn'))
    for n, (ours, theirs) in enumerate(attentions):
        yield from ((f'{ours}.{a}', f'{theirs}.{b}') for a, b in _ATTENTION.items())
        yield f'residuals.{n}.norm', f'{theirs}_layer_norm'
    yield 'feed_forward.inner', 'fc1'
    yield 'feed_forward.outer', 'fc2'
    yield f'residuals.{len(attentions)}.norm', 'final_layer_norm'

def marian_names(c:TransformerConfig)->Iterator[tuple[str,str]]:
    "Of each parameter of the layers, our name and Marian's"
    depths = dict(encoder=c.n_encoder_layers, decoder=c.n_decoder_layers)
    for side, depth in depths.items():
        for i in range(depth):
            for ours, theirs in _layer_names(side):
                for kind in ('weight', 'bias'):
                    yield (f'{side}.layers.{i}.{ours}.{kind}',
                           f'model.{side}.layers.{i}.{theirs}.{kind}')

NEVER = -1e4 # bias of a token that no translation contains
POSITIONS = 'model.decoder.embed_positions.weight'

def _load_model(folder:Path,
                config:dict,       # of `_marian_config`
                ids:list[int],     # Marian's of each of ours
                dtype:torch.dtype=torch.float32,
               )->Transformer:
    model = _empty_model(folder, config, len(ids))
    file = WeightFile(folder, dtype)
    shared, bias = file.take('model.shared.weight'), file.take('final_logits_bias')
    file.skip(r'(lm_head|model\.(en|de)coder\.embed_tokens)\.weight', shared)
    order = alternate(config['d_model'])
    table = model.src_positions.table[:, order.argsort()].to(dtype)
    matrix, token_bias = shared[ids], bias[0, ids]
    if find_in(config, 'transformer_nb', 'start_in_positions', kind=bool):
        matrix[BOS] += _take_start(file, table) / math.sqrt(config['d_model'])
    file.skip(r'model\.(en|de)coder\.embed_positions\.weight', table)
    if ids[PAD] == ids[BOS]: # neither is in Marian's own vocabulary
        token_bias[[PAD, BOS]] = NEVER
    weights = {'embeddings.0.weight': matrix, 'embeddings.0.bias': token_bias}
    for ours, theirs in marian_names(model.config): weights[ours] = file.take(theirs)
    weights = {name: reorder_features(name, x, order) for name, x in weights.items()}
    file.fill(model.to(dtype), weights)
    return model

def read_activation(folder:Path, config:dict)->str: # a name in `ACTIVATIONS`
    name = config['activation_function']
    if name == 'swish': return 'silu' # two names of one function
    if isinstance(name, str) and name in ACTIVATIONS: return name
    raise InputError(f'{folder/"config.json"}: activation_function is {name!r}; '
                     f'known are {", ".join(ACTIVATIONS)}, swish')

def _take_start(file:WeightFile, table:Tensor)->Tensor: # (d,)
    "What `export_marian` added to the decoder's first position; puts the table there"
    if POSITIONS not in file.tensors:
        raise InputError(f'{file.path} has no {POSITIONS}, in which the start of every '
                         'translation was written: transformers has left it out where it '
                         'saved the model again; copy the exported folder as it was')
    first = file.tensors[POSITIONS][0].to(table) - table[0]
    file.tensors[POSITIONS] = table
    return first

def _empty_model(folder:Path, config:dict, vocab_size:int)->Transformer:
    names = dict(d_model='d_model', d_ff='encoder_ffn_dim',
                 n_heads='encoder_attention_heads', max_len='max_position_embeddings',
                 n_encoder_layers='encoder_layers', n_decoder_layers='decoder_layers')
    sizes = {ours: config[theirs] for ours, theirs in names.items()}
    parts = dict(activation=read_activation(folder, config), biases='all',
                 dropout=config['dropout'])
    try:
        c = TransformerConfig(vocab_size, **sizes, **parts)
        check_model_size(c) # before memory is allocated
        return Transformer(c).eval()
    except ValueError as e: raise InputError(f'{folder/"config.json"}: {e}') from None

def load_marian(folder:str|Path, # of OPUS-MT, or written by `export_marian`
                device:torch.device|None=None
               )->tuple[Transformer,Tokenizer]: # the model in evaluation mode
    "A translator of the hub; raises `InputError` if it would be another function here"
    folder = Path(folder)
    config = _marian_config(folder)
    tokenizer, ids = _marian_tokenizer(folder, config)
    return _load_model(folder, config, ids).to(device), tokenizer

def _marian_tokenizer(folder:Path, config:dict # of `_marian_config`
                     )->tuple[Tokenizer,list[int]]: # and Marian's id of each of ours
    path = _vocab_path(folder)
    vocab = _read_vocab(path, config['vocab_size'])
    ids = _their_ids(config, vocab['<unk>'])
    if path.name == 'tokenizer.json': return _bpe_of(path, ids), ids
    added = find_in(config, 'transformer_nb', 'added', kind=list) or []
    return _sentencepiece_of(folder, vocab, ids, [x for x in added if x in vocab]), ids

def _vocab_path(folder:Path)->Path: # of the pieces
    path, ours = folder/'vocab.json', folder/'tokenizer.json' # byte-level pieces
    return path if path.exists() or not ours.exists() else ours

def _read_vocab(path:Path, vocab_size:int)->dict[str,int]: # id of each piece
    content = read_json(path)
    if path.name == 'tokenizer.json':
        with untrusted(path):
            added = {token['content']: token['id'] for token in content['added_tokens']}
            content = content['model']['vocab'] | added
    ids = [i for i in content.values() if type(i) is int]
    if len(content) != vocab_size or sorted(ids) != list(range(vocab_size)):
        raise InputError(f'{path} should have the ids from 0 to {vocab_size - 1}, '
                         'each once')
    if '<unk>' not in content: raise InputError(f'{path} has no <unk>')
    return content

def _sentencepiece_of(folder:Path, vocab:dict[str,int], ids:list[int], added:list[str]
                     )->SentencePieceTokenizer:
    models = []
    for side in ('source', 'target'):
        path = folder/f'{side}.spm'
        if not path.is_file(): raise InputError(f'{path} is missing')
        models.append(path.read_bytes())
    theirs = sorted(vocab, key=vocab.get)
    pieces = SPECIAL_TOKENS + [theirs[i] for i in ids[len(SPECIAL_TOKENS):]]
    return SentencePieceTokenizer(*models, pieces, added)

def _bpe_of(path:Path, ids:list[int])->BPETokenizer:
    "From a `tokenizer.json` of `export_marian`; raises `InputError` for another one"
    content = read_json(path)
    with untrusted(path):
        if ids != sorted(ids): raise ValueError('its special tokens are not ours')
        content['post_processor'] = None # which appended `</s>`
        return BPETokenizer.from_json(json.dumps(content))

def describe_marian(folder:str|Path)->dict: # what `config.json` of a folder of ours would say
    folder = Path(folder)
    config = _marian_config(folder)
    search = find_in(config, 'transformer_nb', 'search', kind=dict)
    if search is None: # not from here
        search = asdict(SearchConfig(alpha=1., penalty='power'))
        for name in ('config.json', 'generation_config.json'):
            path = folder/name
            stored = read_json(path) if path.is_file() else {}
            search['beam_size'] = stored.get('num_beams', search['beam_size'])
            search['alpha'] = stored.get('length_penalty', search['alpha'])
    is_bpe = _vocab_path(folder).name == 'tokenizer.json'
    tokenizer = BPETokenizer if is_bpe else SentencePieceTokenizer
    return dict(search=search, tokenizer=tokenizer.__name__, training={})

# Any folder

def _is_of_the_hub(folder:Path)->bool: # else it is ours, or damaged
    path = folder/'config.json'
    if not path.is_file(): return False
    stored = read_json(path)
    kind = stored.get('model_type')
    if 'format' in stored or kind is None: return False
    if kind == 'marian': return True
    raise InputError(f'{path} is that of a model of the library transformers, of type '
                     f'{str(kind)[:60]!r}; only marian can be read')

def open_model(folder:str|Path,               # of `save_model`, or of Marian
               device:torch.device|None=None, # by default the CPU
               family:type[nn.Module]=Transformer, # or a class of your own, of a config
              )->tuple[nn.Module,Tokenizer]:  # the model in evaluation mode
    "The model of a folder, or of a name such as 'everyday-en-de', and its tokenizer"
    folder = find_model(folder)
    if _is_of_the_hub(folder): return load_marian(folder, device)
    return load_model(folder, device, family)

def open_record(folder:str|Path)->dict: # `config.json`, or what it would be for Marian's
    folder = find_model(folder)
    read = describe_marian if _is_of_the_hub(folder) else load_record
    return read(folder)

def open_tokenizer(path:str|Path # of a model folder, or a `tokenizer.json`
                  )->Tokenizer:
    folder = find_model(path)
    if not folder.is_dir(): return load_any_tokenizer(folder)
    if not _is_of_the_hub(folder): return load_any_tokenizer(folder/'tokenizer.json')
    return _marian_tokenizer(folder, _marian_config(folder))[0]
