"""GPT-2 and Qwen3 in your layers: weights as the hub stores them, in the classes of Part I."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Self
import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor
from transformer_nb.support.core import (
    InputError, default_device, find_in, read_json, shorten)
from transformer_nb.decoding import draw_tokens
from transformer_nb.hub import (
    WeightFile, alternate, read_activation, read_config)
from transformer_nb.model import TransformerConfig
from transformer_nb.multihead import MultiHeadAttention, causal_mask
from transformer_nb.text import Tokenizer
from transformer_nb.studies.families import DecoderOnly

def _gpt2_model(c:dict,   # of `read_config`
               )->DecoderOnly:
    sizes = dict(d_model=c['n_embd'], d_ff=c['n_inner'] or 4*c['n_embd'],
                 n_heads=c['n_head'], n_encoder_layers=c['n_layer'],
                 max_len=c['n_positions'])
    parts = dict(norm='pre', norm_eps=c['layer_norm_epsilon'], positions='learned',
                 activation=c['activation_function'], biases='attention',
                 scale_embeddings=False)
    return DecoderOnly(TransformerConfig(c['vocab_size'], **sizes, **parts))

def _gpt2_weights(file:WeightFile, n_layers:int)->dict[str,Tensor]: # by our names
    whole = 'transformer.wte.weight' in file.tensors # older files leave the first word out
    prefix = 'transformer.' if whole else ''
    file.skip(rf'{prefix}h\.\d+\.attn\.(masked_)?bias')
    def take(name): return file.take(prefix + name)
    weights = {ours: take(theirs) for ours, theirs in _GPT2_ENDS.items()}
    file.skip(r'lm_head\.weight', weights['embedding.weight'])
    for i in range(n_layers):
        layer = _gpt2_layer(take, f'h.{i}')
        weights |= {f'stack.layers.{i}.{name}': x for name, x in layer.items()}
    return weights

_GPT2_ENDS = {'embedding.weight': 'wte.weight', 'positions.table': 'wpe.weight',
              'stack.norm.weight': 'ln_f.weight', 'stack.norm.bias': 'ln_f.bias'}

_GPT2_PARTS = {'attn.c_proj': 'self_attention.output', 'mlp.c_fc': 'feed_forward.inner',
               'mlp.c_proj': 'feed_forward.outer', 'ln_1': 'residuals.0.norm',
               'ln_2': 'residuals.1.norm'}

def _gpt2_layer(take:Callable, at:str)->dict[str,Tensor]: # by our names
    layer = {}
    for kind in ('weight', 'bias'):
        joint = take(f'{at}.attn.c_attn.{kind}').chunk(3, -1) # columns of a matrix
        for name, x in zip(('query', 'key', 'value'), joint):
            layer[f'self_attention.{name}.{kind}'] = x.T if kind == 'weight' else x
        for theirs, ours in _GPT2_PARTS.items():
            x = take(f'{at}.{theirs}.{kind}')
            layer[f'{ours}.{kind}'] = x.T if x.dim() == 2 else x
    return layer

def _qwen3_model(c:dict,      # of `_qwen3_config`
                 **changes    # fields that should differ
                )->DecoderOnly:
    sizes = dict(d_model=c['hidden_size'], d_ff=c['intermediate_size']*3 // 2,
                 n_heads=c['num_attention_heads'], d_k=c['head_dim'], d_v=c['head_dim'],
                 n_kv_heads=c['num_key_value_heads'],
                 n_encoder_layers=c['num_hidden_layers'],
                 max_len=c['max_position_embeddings'])
    parts = dict(norm='pre', norm_type='rmsnorm', norm_eps=c['rms_norm_eps'],
                 activation='swiglu', positions='rotary', rope_base=c['rope_theta'],
                 qk_norm=True, biases='none', scale_embeddings=False)
    return DecoderOnly(TransformerConfig(c['vocab_size'], **sizes | parts | changes))

def by_neighbors(x:Tensor, # rows of W^Q or W^K, or gains; of whole heads (h·d_k, …)
                 d_k:int,  # pairs stand at a distance of d_k / 2
                )->Tensor: # pairs are neighbors (h·d_k, …)
    heads = x.unflatten(0, (-1, d_k)) # (h, d_k, …)
    return heads[:, alternate(d_k)].flatten(0, 1)

_QWEN3_PARTS = {
    'self_attn.q_proj': 'self_attention.query', 'self_attn.k_proj': 'self_attention.key',
    'self_attn.v_proj': 'self_attention.value', 'self_attn.o_proj': 'self_attention.output',
    'self_attn.q_norm': 'self_attention.query_norm',
    'self_attn.k_norm': 'self_attention.key_norm',
    'mlp.gate_proj': 'feed_forward.gate', 'mlp.up_proj': 'feed_forward.inner',
    'mlp.down_proj': 'feed_forward.outer', 'input_layernorm': 'residuals.0.norm',
    'post_attention_layernorm': 'residuals.1.norm'}
_TURNED = 'q_proj', 'k_proj', 'q_norm', 'k_norm'

def _qwen3_weights(file:WeightFile, n_layers:int, d_k:int,
                   parts:dict=_QWEN3_PARTS # of a layer: our names by theirs
                  )->dict[str,Tensor]:
    weights = {'embedding.weight': file.take('model.embed_tokens.weight'),
               'stack.norm.weight': file.take('model.norm.weight')}
    file.skip(r'lm_head\.weight', weights['embedding.weight'])
    for i in range(n_layers):
        for theirs, ours in parts.items():
            x = file.take(f'model.layers.{i}.{theirs}.weight')
            if theirs.endswith(_TURNED): x = by_neighbors(x, d_k)
            weights[f'stack.layers.{i}.{ours}.weight'] = x
    return weights

_GPT2 = dict.fromkeys('vocab_size n_positions n_embd n_layer n_head'.split(), ...) | dict(
    n_inner=None, layer_norm_epsilon=1e-5, activation_function='gelu_new',
    eos_token_id=None)
_OF_GPT2 = dict(
    model_type='gpt2', scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False,
    reorder_and_upcast_attn=False, tie_word_embeddings=True)
_GPT2_HARMLESS = '''attn_pdrop embd_pdrop is_decoder n_ctx n_special pad_token_id
    predict_special_tokens resid_pdrop summary_activation summary_first_dropout
    summary_proj_to_labels summary_type summary_use_proj'''.split()

def _gpt2_config(folder:Path)->dict:
    c = read_config(folder, _GPT2, _OF_GPT2, _GPT2_HARMLESS)
    return c | dict(activation_function=read_activation(folder, c))

_QWEN3 = dict.fromkeys('''vocab_size hidden_size intermediate_size num_hidden_layers
    num_attention_heads num_key_value_heads max_position_embeddings'''.split(), ...) | dict(
    head_dim=128, rms_norm_eps=1e-6, rope_theta=None, rope_parameters=None,
    layer_types=None, eos_token_id=None, tie_word_embeddings=False)
_OF_QWEN3 = dict(
    model_type='qwen3', hidden_act='silu', attention_bias=False, use_sliding_window=False,
    rope_scaling=None, tie_word_embeddings=True)
_QWEN3_HARMLESS = 'is_decoder max_window_layers pad_token_id sliding_window'.split()

def _qwen3_config(folder:Path)->dict:
    c = read_config(folder, _QWEN3, _OF_QWEN3, _QWEN3_HARMLESS)
    path = folder/'config.json'
    c['rope_theta'] = _base_of(path, c)
    types = c['layer_types'] or []
    if not isinstance(types, list) or types.count('full_attention') < len(types):
        raise InputError(f'{path}: layer_types are {str(c["layer_types"])[:60]}; only '
                         'full_attention can be represented')
    _check_divides(path, c, 'num_key_value_heads', 'num_attention_heads')
    if c['intermediate_size'] % 4: raise InputError(
        f'{path}: intermediate_size is {c["intermediate_size"]}; it must divide by 4')
    return c

def _base_of(path:Path, c:dict)->float: # of the turns; newer files have it in an object
    turns = c['rope_parameters'] or dict(rope_theta=c['rope_theta'], rope_type='default')
    base = find_in(turns, 'rope_theta', kind=(int, float))
    plain = dict(rope_theta=base, rope_type='default')
    if base is not None and turns == plain: return base
    raise InputError(f'{path}: rope_parameters are {turns}; only plain turns with a '
                     'rope_theta can be represented')

def _check_divides(path:Path, c:dict, small:str, large:str):
    if c[small] in range(1, c[large] + 1) and c[large] % c[small] == 0: return
    raise InputError(f'{path}: {small} is {c[small]}; it must divide {large}, {c[large]}')

def _gpt2(folder:Path, dtype:torch.dtype)->DecoderOnly:
    c = _gpt2_config(folder)
    model = empty_model(folder, _gpt2_model, c)
    file = WeightFile(folder, dtype)
    file.fill(model, _gpt2_weights(file, c['n_layer']))
    return model

def _qwen3(folder:Path, dtype:torch.dtype)->DecoderOnly:
    c = _qwen3_config(folder)
    model = empty_model(folder, _qwen3_model, c)
    file = WeightFile(folder, dtype)
    file.fill(model, _qwen3_weights(file, c['num_hidden_layers'], c['head_dim']))
    return model

def empty_model(folder:Path, build:Callable, # the model, of its configuration
                c:dict)->DecoderOnly:        # shapes, without numbers
    try:
        with torch.device('meta'): return build(c).eval()
    except (TypeError, ValueError) as e:
        raise InputError(f'{folder/"config.json"}: {e}') from None

def _check_ids(folder:Path, tokenizer:'PretrainedTokenizer', n:int): # tokens of the model
    ids = tokenizer.tokenizer.get_vocab().values()
    if len(set(ids)) < len(ids):
        raise InputError(f'{folder}: two tokens of the tokenizer have one id')
    if (largest := max(ids, default=0)) >= n:
        raise InputError(f'{folder}: the tokenizer has {largest + 1} tokens, and the '
                         f'model {n}')
    for i in tokenizer.ends: # a text would never end
        if i >= n: raise InputError(f'{folder}: eos_token_id is {i}; there are {n} tokens')

FORMATS = dict(gpt2=_gpt2, qwen3=_qwen3) # by `model_type`

def from_pretrained(folder:str|Path, # as it lies on the hub
                    device:torch.device|None=None, # by default the GPU if there is one
                    dtype:torch.dtype=torch.float32
                   )->tuple[DecoderOnly,'PretrainedTokenizer']: # model in evaluation mode
    "Raises `InputError`, naming file and key, for what would be another function here"
    folder = Path(folder)
    kind = read_json(folder/'config.json').get('model_type')
    if kind not in FORMATS:
        raise InputError(f'{folder/"config.json"}: model_type is {kind!r}; '
                         f'known are {", ".join(FORMATS)}')
    model = FORMATS[kind](folder, dtype)
    tokenizer = load_tokenizer(folder)
    _check_ids(folder, tokenizer, model.config.vocab_size)
    return model.to(device or default_device()), tokenizer

class PretrainedTokenizer(Tokenizer):
    "A tokenizer of the hub; a special token in a text is that token, not its characters"
    def __init__(self, tokenizer:tokenizers.Tokenizer,
                 ends:list[int]): # tokens that end a text
        self.tokenizer, self.ends = tokenizer, ends
        tokenizer.no_padding()
        tokenizer.no_truncation()

    @property
    def vocab_size(self)->int: return self.tokenizer.get_vocab_size()

    def encode(self, text:str)->list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids)->str: # without special tokens
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def to_json(self)->str:
        return json.dumps(dict(tokenizer=self.tokenizer.to_str(), ends=self.ends))

    @classmethod
    def from_json(cls, text:str)->Self:
        content = json.loads(text)
        tokenizer = tokenizers.Tokenizer.from_str(content['tokenizer'])
        return cls(tokenizer, content['ends'])

def load_tokenizer(folder:str|Path)->PretrainedTokenizer:
    "From `tokenizer.json`, or from GPT-2's `vocab.json` and `merges.txt`"
    folder = Path(folder)
    path = folder/'tokenizer.json'
    if not path.is_file(): tokenizer = _gpt2_tokenizer(folder)
    else:
        read_json(path) # the library takes the last of equal names
        try: tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as e: # the library raises nothing narrower
            raise InputError(f'{path} is damaged: {str(e)[:200]}') from None
    return PretrainedTokenizer(tokenizer, _ends(folder))

def _ends(folder:Path)->list[int]: # ids that end a text
    ends = read_json(folder/'config.json').get('eos_token_id')
    search = folder/'generation_config.json'
    if search.is_file(): ends = read_json(search).get('eos_token_id', ends)
    found = ends if isinstance(ends, list) else [] if ends is None else [ends]
    if all(type(i) is int and i >= 0 for i in found): return found
    raise InputError(f'{folder}: eos_token_id is {shorten(repr(ends), 60)}; it must be '
                     'the id of a token, or a list of them')

def _gpt2_tokenizer(folder:Path)->tokenizers.Tokenizer:
    if read_json(folder/'config.json').get('model_type') != 'gpt2':
        raise InputError(f'{folder/"tokenizer.json"} is missing')
    files = folder/'vocab.json', folder/'merges.txt'
    for path in files:
        if not path.is_file(): raise InputError(f'{path} is missing')
    ids = read_json(files[0]).values()
    if not {int}.issuperset(map(type, ids)): # the library would leave their tokens out
        raise InputError(f'{files[0]} is damaged: not every token has an id')
    try: model = models.BPE.from_file(*map(str, files))
    except Exception as e: # the library raises nothing narrower
        raise InputError(f'{folder}: vocab.json or merges.txt is damaged: {e}') from None
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(['<|endoftext|>'])
    return tokenizer

class TextCache:
    "Keys and values of the text so far, for each attention of a decoder"
    def __init__(self):
        self.n = 0 # tokens read so far
        self.read = {}

    def project(self, attention:MultiHeadAttention,
                x:Tensor,                      # the newest positions (b, t, d)
               )->tuple[Tensor,Tensor,Tensor]: # q of them, k and v of all positions
        q, k, v = attention.project(x, x, self.positions(x.shape[1]))
        if attention in self.read:
            old_k, old_v = self.read[attention] # (b, n_kv, n, d_k), with d_v
            k, v = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
        self.read[attention] = k, v
        return q, k, v

    def positions(self, t:int)->Tensor: # of the next t tokens (t,)
        return torch.arange(self.n, self.n + t)

def read_on(model:DecoderOnly,
            ids:Tensor,      # what comes next (b, t)
            cache:TextCache, # of all that came before; gains these
           )->Tensor:        # logits of the token after each (b, t, v)
    b, t = ids.shape
    x = model.positions(model.embedding(ids), cache.positions(t))
    mask = None # one token sees all
    if t > 1: mask = causal_mask(cache.n + t, ids.device)[cache.n:]
    for layer in model.stack.layers:
        residual_1, residual_2 = layer.residuals
        x = residual_1(x, layer.self_attention, mask=mask, cache=cache)
        x = residual_2(x, layer.feed_forward)
    cache.n += t
    return model.embedding.logits(model.stack.norm(x))

@torch.inference_mode()
def continue_ids(model:DecoderOnly,        # in evaluation mode
                 ids:list[int],            # of the prompt, at least one
                 max_tokens:int=60,        # added to the prompt
                 n:int=1,                  # continuations
                 ends:list[int]=(),        # tokens that end a text
                 generator:torch.Generator|None=None, # on the CPU; None: the global one
                 **options                 # of `draw_tokens`; `top_k=1` is greedy
                )->list[list[int]]:        # what was added, without the token that ends it
    _check_prompt(model, ids, max_tokens)
    device = model.embedding.weight.device
    tokens = torch.tensor([ids] * n, device=device)
    cache, added = TextCache(), [[] for _ in range(n)]
    live = set(range(n))
    for _ in range(max_tokens):
        logits = read_on(model, tokens, cache)[:, -1]
        uniform = torch.rand(n, generator=generator).to(device)
        tokens = draw_tokens(logits, uniform, **options)[:, None]
        for i, [token] in enumerate(tokens.tolist()):
            if token in ends: live.discard(i)
            if i in live: added[i].append(token)
        if not live: break
    return added

def _check_prompt(model:DecoderOnly, ids:list[int], max_tokens:int):
    if not ids: raise InputError('the prompt is empty; give it at least one token')
    longest = model.config.max_len + 1 # the last token is not read again
    if len(ids) + max_tokens > longest:
        raise InputError(f'the prompt has {len(ids)} tokens; with {max_tokens} more, it '
                         f'would be longer than the {longest} that the model can write')

def continue_text(model:DecoderOnly, tokenizer:PretrainedTokenizer, prompt:str,
                  **options       # of `continue_ids`
                 )->list[str]:    # the prompt, continued
    ids = tokenizer.encode(prompt)
    continuations = continue_ids(model, ids, ends=tokenizer.ends, **options)
    return [tokenizer.decode(ids + added) for added in continuations]
