"""Two ways out of the book: a folder for a production engine, and a single file that translates in any browser."""

import base64, hashlib, json, os, re
from collections.abc import Iterable
from dataclasses import asdict, fields
from html import escape
from pathlib import Path
import torch
import transformer_nb
from torch import Tensor, nn
from transformer_nb.checkpoint import check_output_folder, find_model, write_folder
from transformer_nb.hub import open_model
from transformer_nb.support.core import (
    BOS, EOS, UNK, InputError, check_new_file, find_in, write_atomically)
from transformer_nb.corpora import short_code
from transformer_nb.decoding import SEARCH_BOUNDS, SearchConfig, search
from transformer_nb.embedding import Embedding
from transformer_nb.layers import ResidualNorm
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.multihead import MultiHeadAttention
from transformer_nb.parts import ACTIVATIONS, UnscaledEmbedding
from transformer_nb.reading import SPACES, packed_reading
from transformer_nb.text import BPETokenizer, Tokenizer
from transformer_nb.translation import DOUBTFUL, NONSENSE, load_search, needs_tag

def _copy(part, layers:list[nn.Module], names:tuple[str,...]=('weight', 'bias')):
    "Weights and biases, side by side, to the leaves of a specification with these names"
    for name, kind in zip(names, ('weight', 'bias')):
        found = [getattr(layer, kind) for layer in layers if hasattr(layer, kind)]
        if found and found[0] is not None: setattr(part, name, _array(torch.cat(found)))

def _array(x:Tensor): return x.detach().cpu().float().numpy()

def _copy_norm(part, norm:nn.Module):
    _copy(part, [norm], ('gamma', 'beta'))
    no_bias = isinstance(norm, nn.LayerNorm) and norm.bias is None
    if no_bias: part.beta = _array(torch.zeros_like(norm.weight))

def _copy_attention(part, attention:MultiHeadAttention, residual:ResidualNorm,
                    cross:bool=False): # are the queries made from other vectors?
    query, key, value = attention.query, attention.key, attention.value
    joint = [[query], [key, value]] if cross else [[query, key, value]]
    for linear, layers in zip(part.linear, [*joint, [attention.output]]):
        _copy(linear, layers)
    if hasattr(attention, 'query_norm'):
        _copy_norm(part.q_norm, attention.query_norm)
        _copy_norm(part.k_norm, attention.key_norm)
    _copy_norm(part.layer_norm, residual.norm)

def _copy_layer(part, layer:nn.Module): # of the encoder or of the decoder
    residuals, network = layer.residuals, layer.feed_forward
    _copy_attention(part.self_attention, layer.self_attention, residuals[0])
    if hasattr(layer, 'cross_attention'):
        _copy_attention(part.attention, layer.cross_attention, residuals[1], cross=True)
    gated = hasattr(network, 'gate') # theirs is the one with the activation
    _copy(part.ffn.linear_0, [network.gate if gated else network.inner])
    if gated: _copy(part.ffn.linear_0_noact, [network.inner])
    _copy(part.ffn.linear_1, [network.outer])
    _copy_norm(part.ffn.layer_norm, residuals[-1].norm)

def _copy_stack(part, stack:nn.Module, embedding:Embedding, positions:nn.Module):
    of_tokens = part.embeddings # the encoder's is a list, for models with several inputs
    if isinstance(of_tokens, list): [of_tokens] = of_tokens
    _copy(of_tokens, [embedding], ('weight',))
    if positions.table is not None:
        part.position_encodings.encodings = _array(positions.table)
    part.scale_embeddings = not isinstance(embedding, UnscaledEmbedding)
    for layer_part, layer in zip(part.layer, stack.layers): _copy_layer(layer_part, layer)
    if hasattr(part, 'layer_norm'): # pre-norm has one more at the end
        _copy_norm(part.layer_norm, stack.norm)

def _fill_spec(spec, model:Transformer):
    "Our parameters, where CTranslate2 wants them"
    _copy_stack(spec.encoder, model.encoder, model.src_embedding, model.src_positions)
    _copy_stack(spec.decoder, model.decoder, model.tgt_embedding, model.tgt_positions)
    _copy(spec.decoder.projection, [model.output])

_NOTE = """# A Transformer for CTranslate2

Written by `tnb_export`. Translate with the settings of the model's author by

    tokenizer = tokenizers.Tokenizer.from_file('tokenizer.json')
    tokenizer.encode_special_tokens = True # in a text, `</s>` is not its end
    batch = [tokenizer.encode(text).tokens[:{limit}] for text in texts]
    longest = max(map(len, batch))
    how = dict(beam_size={beam_size}, length_penalty={alpha}, max_input_length=0,
               max_decoding_length=min(longest + {max_extra}, {limit} + 1))
    found = translator.translate_batch(batch, **how)
    ids = [[tokenizer.token_to_id(t) for t in x.hypotheses[0]] for x in found]
    lines = tokenizer.decode_batch(ids, skip_special_tokens=False)

CTranslate2 divides a score by |Y|^α, and the model's author by {penalty}; with
`beam_size=1` the translations are the same. What this package does besides, such as taking
several sentences on a line one by one, it leaves to you.
"""
FORMULAS = dict(paper='((5 + |Y|)/6)^α', power='|Y|^α') # of a penalty, by its name

def _new_spec(c:TransformerConfig): # CTranslate2's description of a model, still empty
    try: from ctranslate2.specs import common_spec, transformer_spec
    except ImportError:
        message = 'CTranslate2 is not installed; run: pip install ctranslate2'
        raise InputError(message) from None
    names = dict(relu='RELU', gelu='GELU', gelu_new='GELUTanh', silu='SWISH',
                 swiglu='SWISH')
    options = dict(num_heads=c.n_heads, pre_norm=c.norm == 'pre',
                   activation=common_spec.Activation[names[c.activation]],
                   ffn_glu=c.activation == 'swiglu', rms_norm=c.norm_type == 'rmsnorm',
                   num_heads_kv=c.n_kv_heads, qk_norm=c.qk_norm)
    if c.positions == 'rotary': options |= dict(rotary_dim=0, rotary_base=c.rope_base)
    encoder = transformer_spec.TransformerEncoderSpec(c.n_encoder_layers, **options)
    decoder = transformer_spec.TransformerDecoderSpec(c.n_decoder_layers, **options)
    for stack in (encoder, decoder):
        if c.positions == 'rotary' and hasattr(stack, 'position_encodings'):
            del stack.position_encodings
    if c.qk_norm: # in self-attention only
        for layer in decoder.layer: del layer.attention.q_norm, layer.attention.k_norm
    return transformer_spec.TransformerSpec(encoder, decoder)

def export_ctranslate2(model_folder:str|Path,
                        out:Path): # folder to write; must be new, or empty
    model, tokenizer = open_model(model_folder)
    c = model.config
    check_heads(c, 'CTranslate2')
    check_fields(c, 'our export to CTranslate2', _CTRANSLATE2)
    check_tokenizer(tokenizer, 'our export to CTranslate2 (its own converter reads what '
                    '--format transformers writes)', True)
    check_output_folder(out, can_resume=False)
    spec = _new_spec(c)
    _fill_spec(spec, model)
    pieces = [tokenizer.tokenizer.id_to_token(i) for i in range(c.vocab_size)]
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = '<s>'
    spec.config.bos_token = '<s>'
    spec.config.eos_token = '</s>'
    spec.config.unk_token = '<unk>'
    spec.validate()
    spec.optimize()
    def write(folder):
        spec.save(str(folder))
        tokenizer.save(folder/'tokenizer.json')
        own = load_search(model_folder)
        how = asdict(own) | dict(penalty=FORMULAS[own.penalty], limit=c.max_len - 1)
        write_atomically(folder/'README.md', _NOTE.format(**how).encode())
    write_folder(out, write)

def check_heads(c:TransformerConfig, engine:str):
    d_head = c.d_model / c.n_heads
    if not c.d_k == c.d_v == d_head:
        raise InputError(f'{engine} wants d_k = d_v = d_model / n_heads; here they are '
                         f'{c.d_k}, {c.d_v} and {d_head:g}')

def check_tokenizer(tokenizer:Tokenizer, engine:str, knows_tags:bool):
    if not isinstance(tokenizer, BPETokenizer):
        raise InputError(f'the tokenizer was made by others, which {engine} cannot read; '
                         'tnb_translate can')
    if tokenizer.tags and not knows_tags:
        raise InputError(f'{engine} does not know tags, such as {tokenizer.tags[0]}; '
                         'tnb_translate does')

_SIZES = '''vocab_size d_model d_ff n_heads d_k d_v n_encoder_layers n_decoder_layers
    dropout max_len'''.split() # any engine knows them

def check_fields(c:TransformerConfig, engine:str,
                 known:dict[str,tuple|None], # other fields: values that it knows; None: any
                ):
    "Raise `InputError`, naming the first field that an engine would leave out"
    for field in fields(c):
        name, value = field.name, getattr(c, field.name)
        values = None if name in _SIZES else known.get(name, ())
        if values is None or value in (field.default, *values): continue
        raise InputError(f'{name} is {value!r}, which {engine} cannot do; '
                         'tnb_translate can')

_CTRANSLATE2 = dict(
    norm=None, tie_embeddings=None, positions=('learned', 'rotary'), rope_base=None,
    norm_type=('rmsnorm',), activation=(*ACTIVATIONS, 'swiglu'), n_kv_heads=None,
    qk_norm=(True,), biases=('none', 'attention', 'all'), scale_embeddings=(False,))

def _tokenizer_header(tokenizer:BPETokenizer)->dict: # what the engine's tokenizer reads
    content = json.loads(tokenizer.to_json())
    vocab = content['model']['vocab']
    merges = [[vocab[a], vocab[b], vocab[a + b]] for a, b in content['model']['merges']]
    return dict(tokens=sorted(vocab, key=vocab.get) + tokenizer.tags, # no text has these
                merges=merges,
                normalizer=_normalizer_steps(content['normalizer']))

def _normalizer_steps(normalizer:dict|None # of a `tokenizer.json`
                     )->list: # in order: pattern and replacement, or None to compose
    if not normalizer: return []
    parts = normalizer.get('normalizers', [normalizer])
    return [[part['pattern']['Regex'], part['content']] if 'pattern' in part else None
            for part in parts]

def _four_bits(x:Tensor)->Tensor: # the next number of four significant bits
    fraction, exponent = torch.frexp(x)
    return torch.ldexp((16 * fraction).ceil() / 16, exponent)

def _smallest_scale(weight:Tensor)->Tensor: # (rows, 1): 127 times as much covers the row
    most = weight.abs().amax(1, keepdim=True)
    return _four_bits(most.clamp(min=2**-14) / 127)

@torch.no_grad()
def round_to_8_bits(model:nn.Module):
    "In place: each row of a matrix becomes a scale times whole numbers up to 127"
    for weight in model.parameters():
        if weight.dim() != 2: continue
        scale = _smallest_scale(weight)
        weight.copy_((weight / scale).round() * scale)

def _rows_of_8_bits(weight:Tensor # (rows, n)
                   )->bytes|None: # scales, then whole numbers; None: they do not suffice
    scale = _smallest_scale(weight)
    for _ in range(3): # rounding may have lowered the largest number of a row a little
        whole = (weight / scale).round()
        fits = (whole * scale == weight) & (whole.abs() <= 127)
        is_whole = fits.all(1, keepdim=True)
        if is_whole.all(): break
        scale = torch.where(is_whole, scale, _four_bits(scale * 17/16))
    if not is_whole.all(): return None
    numbers = whole.to(torch.int8).numpy().tobytes()
    scales = scale.half().numpy().astype('<f2').tobytes()
    return scales + numbers + b'\0'*(len(numbers) % 2) # to an even number of bytes

@torch.no_grad()
def _pack_weights(model:Transformer    # its weights are rounded to float16
                 )->tuple[list,bytes]: # names, shapes and bits; all weights
    tensors, parts = [], []
    for name, weight in model.state_dict().items():
        half = weight.half()
        if not half.isfinite().all():
            raise InputError(f'{name} has a value above 65,504, which float16 cannot hold')
        weight.copy_(half)
        rows = _rows_of_8_bits(weight) if weight.dim() == 2 else None
        tensors.append([name, list(weight.shape), 8 if rows else 16])
        parts.append(rows or half.numpy().astype('<f2').tobytes())
    return tensors, b''.join(parts)

def _stored_check(model:Transformer, tokenizer:BPETokenizer, config:SearchConfig, text:str
                 )->dict: # text, ids and log-probability of its translation
    ids = tokenizer.encode(text)[:model.config.max_len - 1]
    [[best]] = search(model, [ids], **asdict(config))
    n_ends = len(best.log_probs) - len(best.ids) # 0 where it was cut off
    return dict(text=text, ids=best.ids + [EOS]*n_ends,
                log_prob=round(sum(best.log_probs), 5))

_LANGUAGES = dict(ar='Arabic', cs='Czech', da='Danish', de='German', en='English',
                  eo='Esperanto', es='Spanish', he='Hebrew', hi='Hindi', hu='Hungarian',
                  fi='Finnish', fr='French', it='Italian', ja='Japanese', ko='Korean',
                  nb='Norwegian', nl='Dutch', no='Norwegian', pl='Polish',
                  pt='Portuguese', ro='Romanian', ru='Russian', sv='Swedish', tr='Turkish',
                  uk='Ukrainian', vi='Vietnamese', zh='Chinese')

def _languages(folder:Path)->dict: # of a model: key, title, src, tgt
    config = json.loads((folder/'config.json').read_text(encoding='utf8'))
    def of_data(name): return find_in(config, 'training', 'config', 'data', name) or ''
    if of_data('corpus'): codes = of_data('src_lang'), of_data('tgt_lang')
    else: codes = [Path(of_data(side)).suffix[1:] for side in ('src', 'tgt')]
    codes = [short_code(code) for code in codes]
    if not set(codes) <= set(_LANGUAGES): # files of unknown languages
        name = os.fsencode(folder.resolve().name).decode(errors='replace')
        return dict(key=name, title=name, src='Source', tgt='Target')
    src, tgt = (_LANGUAGES[code] for code in codes)
    return dict(key='-'.join(codes), title=f'{src} → {tgt}', src=src, tgt=tgt)

_PLAYGROUND = Path(transformer_nb.__file__).parent/'playground'

def _read(name:str)->str: return (_PLAYGROUND/name).read_text(encoding='utf8')

_IMPORT = re.compile(r"^import (\{[^}]*\}) from '\./(\w+)\.js'$", re.M)
_EXPORT = re.compile(r'^export (\{[^}]*\})$', re.M)

FAINT = 0.05 # a weight below this has no line
_MAX_BEAM = 100 # a larger one keeps a page busy for minutes

def shared()->dict: # constants of the book that the page uses, too, by their names there
    bounds = {name: (low, high, kind is int) for name, kind, low, high in SEARCH_BOUNDS}
    bounds['beam_size'] = 1, _MAX_BEAM, True
    return dict(BOS=BOS, EOS=EOS, UNK=UNK, SPACES=SPACES, FAINT=FAINT, DOUBTFUL=DOUBTFUL,
                NONSENSE=NONSENSE, BOUNDS=bounds, DEFAULTS=asdict(SearchConfig()))

def _join(*names:str)->str: # modules -> one script, with all that they import
    "JavaScript's modules as functions, each after those that it imports from"
    joined = {}
    def add(name):
        if name == 'shared': source = f'return {json.dumps(shared())}'
        else: source = _read(f'{name}.js')
        for _, needed in _IMPORT.findall(source):
            if needed not in joined: add(needed)
        body = _EXPORT.sub(r'return \1', _IMPORT.sub(r'const \1 = modules.\2', source))
        joined[name] = f'modules.{name} = (() => {{\n{body}}})()\n'
    for name in names: add(name)
    return "'use strict'\nglobalThis.modules ??= {}\n" + ''.join(joined.values())

def _first_tokens(tokenizer:BPETokenizer, check:dict
                 )->dict|None: # texts of the tokens of a sentence and of its translation
    "What stands in the page until the model comes; None if a token cuts a character"
    def texts(ids): return [tokenizer.decode([i]) for i in ids if i != EOS]
    src, tgt = texts(tokenizer.encode(check['text'])), texts(check['ids'])
    if any('\ufffd' in text or not text.strip() for text in src + tgt): return
    return dict(src=src, tgt=tgt)

_PRIVATE = 'What you type stays on this page.'

def _promise(header:dict)->str: # what the page is
    if not header.get('read'): return f'A Transformer, alive in your browser. {_PRIVATE}'
    return (f'This Transformer has read {header["read"]}, and nothing else. '
            f'{header["write"]} in {header["src"]}, and look inside while it translates. '
            f'{_PRIVATE}')

def _header_and_weights(folder:Path)->tuple[dict,bytes]:
    model, tokenizer = open_model(folder)
    known = dict(norm=None, tie_embeddings=None, positions=('learned',))
    check_fields(model.config, 'the page', known)
    check_tokenizer(tokenizer, 'the page', not needs_tag(folder))
    shapes, weights = _pack_weights(model)
    checksum = hashlib.sha256(weights).hexdigest()[:16]
    known = json.loads(_read('notes.json')) # examples, heads, limits of some models
    notes = known.get(checksum, dict(examples=[], heads={}))
    texts = [example['text'] for example in notes['examples']] or ['Hello, world.']
    own_search = load_search(folder)
    if own_search.penalty != 'paper':
        raise InputError(f"{folder}: the model's penalty is {own_search.penalty!r}, which "
                         'the page cannot do; tnb_translate can')
    if own_search.beam_size > _MAX_BEAM:
        raise InputError(f"{folder}: the model's beam_size is {own_search.beam_size}; "
                         f'a page searches with at most {_MAX_BEAM}')
    header = dict(config=asdict(model.config), tensors=shapes, checksum=checksum,
                  search=asdict(own_search),
                  n_parameters=sum(p.numel() for p in model.parameters()),
                  check=_stored_check(model, tokenizer, own_search, texts[0]))
    if notes['examples']: header['first'] = _first_tokens(tokenizer, header['check'])
    header |= notes | dict(patterns=packed_reading()) | _tokenizer_header(tokenizer)
    header = _languages(folder) | header
    return header | dict(promise=_promise(header)), weights

def _make_distinct(headers:list[dict]):
    "Keys that can stand in an HTML id, each once"
    keys = set()
    for header in headers:
        stem = re.sub('[^0-9A-Za-z_-]+', '-', header['key'])
        if stem.isdecimal(): stem = f'model-{stem}' # JavaScript lists numbers first
        key = stem
        n = 1
        while key in keys:
            n += 1
            key = f'{stem}-{n}'
        keys.add(key)
        header['key'] = key
        if n > 1: header['title'] += f' ({n})'

def _header_block(header:dict)->str: # a script of data
    text = json.dumps(header, ensure_ascii=False).replace('<', r'\u003c')
    return f'<script type="application/json" id="model-{header["key"]}">{text}</script>\n'

def _weights_block(header:dict, weights:bytes)->str: # which says how long it is
    encoded = base64.b64encode(weights).decode()
    return (f'<script type="application/octet-stream" data-size="{len(encoded)}" '
            f'id="weights-{header["key"]}">{encoded}</script>\n')

def _policy(style:str, scripts:list[str], beside:bool # are there pages beside it?
           )->str: # as an element of HTML
    def hashed(text):
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"
    scripts = ' '.join(map(hashed, scripts))
    rules = ["default-src 'none'", f'script-src {scripts}', f'style-src {hashed(style)}',
             'worker-src blob:', 'img-src data: blob:', "base-uri 'none'"]
    if beside: rules.append("frame-src 'self'") # which read translations back
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">'

def _chip(texts:list[str], i:int)->str: # token i of a sentence, as stage.js draws it
    is_end = i == len(texts)
    text = 'end' if is_end else texts[i].removeprefix(' ')
    next_text = ' '.join(texts[i + 1:i + 2]) or ' '
    kind = 'chip end' if next_text.startswith(' ') else 'chip'
    if is_end: kind += ' special'
    parts = f'<span>{escape(text)}</span><small></small>'
    return f'<button type="button" tabindex="-1" class="{kind}">{parts}</button>'

def _first_seen(header:dict)->dict: # of the first model: places in the page -> HTML
    made = {name: escape(header[name]) for name in ('promise', 'src', 'tgt')}
    first = header.pop('first', None) or dict(src=[], tgt=[])
    made['text'] = escape(header['check']['text']) if first['src'] else ''
    for name, texts in first.items(): # and the end of each
        chips = [_chip(texts, i) for i in range(len(texts) + 1) if texts]
        made[f'{name}-chips'] = ''.join(chips)
    return made

def _assemble(models:list[tuple[dict,bytes]], # header and weights of each
              book:str|None=None,             # address of the book's pages, for links
              beside:dict[str,str]|None=None # titles of pages beside it, by address
             )->str:                          # the page
    _make_distinct([header for header, _ in models])
    style, script, engine = _read('style.css'), _join('page'), _join('worker')
    link = '' if book is None else f'<link rel="contents" href="{escape(book)}">'
    others = [f'<link rel="alternate" href="{escape(address)}" title="{escape(title)}">'
              for address, title in (beside or {}).items()] # pages with other models
    blocks = dict(csp=_policy(style, [engine, script], bool(beside)),
                  style=f'<style>{style}</style>',
                  book=link,
                  beside=''.join(others),
                  **_first_seen(models[0][0]),
                  models=''.join(_header_block(header) for header, _ in models),
                  engine=f'<script type="text/plain" id="engine">{engine}</script>',
                  page=f'<script>{script}</script>',
                  weights=''.join(_weights_block(*model) for model in models))
    page = _read('page.html')
    for name, block in blocks.items(): page = page.replace(f'<!-- tnb:{name} -->', block)
    return page

_MAX_PAGE = 2**29 # characters; Chrome reads no longer text

def export_page(folders:Iterable[str|Path], # model folders
                out:str|Path,               # file to write; must be new
                book:str|None=None,         # address of the book's pages, if it has one
                beside:dict[str,str]|None=None # titles of pages beside it, by address
               ):
    "Write model folders as one HTML file that translates in any browser, offline"
    if isinstance(folders, (str, Path, nn.Module)): folders = [folders]
    out = Path(out)
    check_new_file(out)
    models = [_header_and_weights(find_model(folder)) for folder in folders]
    size = sum(len(weights) for _, weights in models) * 4 // 3
    if size > _MAX_PAGE:
        raise InputError(f'{out} would have {size / 1e6:,.0f} MB; Chrome reads '
                         f'at most {_MAX_PAGE / 1e6:,.0f}')
    write_atomically(out, _assemble(models, book, beside).encode())
