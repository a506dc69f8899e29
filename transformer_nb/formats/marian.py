"""The book's translators as folders for the library *transformers*."""
import json, math
from dataclasses import asdict
from pathlib import Path
import tokenizers
from safetensors.torch import save_file
from tokenizers import processors
from torch import Tensor
from transformer_nb.checkpoint import check_output_folder, write_folder
from transformer_nb.decoding import SearchConfig
from transformer_nb.foreign import SentencePieceTokenizer
from transformer_nb.formats.page import check_fields
from transformer_nb.hub import (
    NEVER, POSITIONS, alternate, marian_names, open_model, reorder_features)
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.parts import ACTIVATIONS
from transformer_nb.support.core import BOS, EOS, PAD, SPECIAL_TOKENS, UNK, InputError
from transformer_nb.text import BPETokenizer, Tokenizer
from transformer_nb.translation import load_search

_AS_MARIAN = dict(biases=('all', 'attention'), activation=tuple(ACTIVATIONS))

def _check_is_marian(c:TransformerConfig, tokenizer:Tokenizer):
    if not isinstance(tokenizer, (BPETokenizer, SentencePieceTokenizer)):
        raise InputError(f'the tokenizer is a {type(tokenizer).__name__}, which '
                         'transformers cannot read; tnb_translate can')
    check_fields(c, 'a Marian model', _AS_MARIAN)
    d_head = c.d_model / c.n_heads
    wanted = dict(norm='post', tie_embeddings=True, d_k=d_head, d_v=d_head)
    for name, value in wanted.items():
        actual = getattr(c, name)
        if actual != value:
            raise InputError(f'{name} is {actual!r}; a Marian model has {value!r}')

def _marian_weights(model:Transformer,
                    rows:list[int] # our id of each of theirs
                   )->dict[str,Tensor]: # by Marian's names
    state, order = model.state_dict(), alternate(model.config.d_model).argsort()
    for name, x in state.items(): state[name] = reorder_features(name, x, order)
    embedding = state['embeddings.0.weight']
    token_bias = state.get('embeddings.0.bias', embedding.new_zeros(len(embedding)))
    weights = {'model.shared.weight': embedding[rows],
               'final_logits_bias': token_bias[None, rows]}
    if BOS not in rows: _start_at_zero(weights, embedding[BOS], model, order)
    for ours, theirs in marian_names(model.config):
        if ours not in state: # the bias of a projection
            projection = state[ours.removesuffix('bias') + 'weight']
            state[ours] = projection.new_zeros(len(projection))
        weights[theirs] = state[ours]
    return weights

def _start_at_zero(weights:dict[str,Tensor], start:Tensor, # (d,)
                   model:Transformer, order:Tensor):
    "The vector of `<s>` moves to the decoder's first position; `<pad>` is last, and zero"
    table = model.tgt_positions.table[:, order].clone()
    table[0] += start * math.sqrt(model.config.d_model)
    weights[POSITIONS] = table
    weights['model.shared.weight'][-1] = 0
    weights['final_logits_bias'][0, -1] = NEVER

def _marian_settings(c:TransformerConfig, special:dict, # ids
                     search:SearchConfig,
                     at_zero:bool # does every translation begin with zeros, without `<s>`?
                    )->dict:      # `config.json`
    sides = {}
    for side, depth in dict(encoder=c.n_encoder_layers, decoder=c.n_decoder_layers).items():
        sides |= {f'{side}_layers': depth, f'{side}_attention_heads': c.n_heads,
                  f'{side}_ffn_dim': c.d_ff}
    return sides | special | dict(
        architectures=['MarianMTModel'], model_type='marian', is_encoder_decoder=True,
        vocab_size=c.vocab_size - at_zero, d_model=c.d_model, dropout=c.dropout,
        max_position_embeddings=c.max_len, activation_function=c.activation,
        scale_embedding=True, tie_word_embeddings=True,
        share_encoder_decoder_embeddings=True,
        transformer_nb=dict(search=asdict(search), start_in_positions=at_zero))

def _special_ids(rows:list[int])->dict:
    bos = rows.index(BOS) if BOS in rows else None
    pad = rows.index(PAD)
    return dict(pad_token_id=pad, bos_token_id=bos, eos_token_id=rows.index(EOS),
                decoder_start_token_id=pad if bos is None else bos,
                forced_eos_token_id=None)

def _hub_tokenizer(tokenizer:BPETokenizer, rows:list[int])->str: # `tokenizer.json`
    content = json.loads(tokenizer.to_json())
    place = {ours: theirs for theirs, ours in enumerate(rows)}
    vocab = tokenizer.tokenizer.get_vocab() # tags included
    added = [token | dict(id=place[token['id']]) for token in content['added_tokens']
             if token['id'] in place]
    content['added_tokens'] = sorted(added, key=lambda token: token['id'])
    content['model']['vocab'] = {piece: place[i] for piece, i in vocab.items()
                                 if i in place}
    copy = tokenizers.Tokenizer.from_str(json.dumps(content))
    end = [('</s>', place[EOS])]
    copy.post_processor = processors.TemplateProcessing('$A </s>', special_tokens=end)
    return copy.to_str(pretty=True)

def _write_tokenizer(folder:Path, tokenizer:Tokenizer, rows:list[int], limit:int):
    names = {f'{name}_token': f'<{name}>' for name in ('pad', 'unk')}
    names |= dict(eos_token='</s>', model_max_length=limit)
    if isinstance(tokenizer, BPETokenizer):
        text = _hub_tokenizer(tokenizer, rows)
        (folder/'tokenizer.json').write_text(text, encoding='utf8')
        if BOS in rows: names |= dict(bos_token='<s>')
        names |= dict(tokenizer_class='PreTrainedTokenizerFast', split_special_tokens=True,
                      clean_up_tokenization_spaces=False)
    else:
        for side, model in zip(('source', 'target'), tokenizer.models):
            (folder/f'{side}.spm').write_bytes(model)
        _write_json(folder/'vocab.json', {tokenizer.pieces[i]: place
                                          for place, i in enumerate(rows)})
        names |= dict(tokenizer_class='MarianTokenizer')
    _write_json(folder/'tokenizer_config.json', names)

_NOTE = """# A Transformer for the library *transformers*

Written by `export_marian`. Translate with the settings of `generation_config.json` by

    from transformers import AutoTokenizer, MarianMTModel
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder)
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors='pt')
    longest = batch.input_ids.shape[1] - 1
    found = model.generate(**batch, max_length=min(longest + {max_extra}, {limit}) + 1)
    lines = tokenizer.batch_decode(found, skip_special_tokens=True)

The model reads at most {limit} tokens, `</s>` included; `truncation` cuts longer sources.
{text} What transformer_nb does besides, such as taking several
sentences on a line one by one, is left to you. {scores}
With `num_beams=1` they are the same, sentence by sentence, up to {max_extra} tokens
more than the source has.

{converter}
"""
_TEXT = {True: """A written `</s>` is text, not the end. The tokenizer makes one form of
quotation marks, spaces and the like.""",
         False: 'A written `</s>` ends a source here, and is text for transformer_nb.'}
_SCORES = dict(
    paper="""The library divides the score
of a translation by |Y|^alpha, and transformer_nb by ((5 + |Y|)/6)^alpha, so the two can
choose different translations.""",
    power="""Both divide the score of
a translation by |Y|^alpha, and stop a beam by rules of their own.""")
_CONVERTER = {
    False: """CTranslate2's own converter cannot read this folder: it begins every
translation with a vector of zeros, and this model with one that it has learned.
`tnb_export` writes a folder for CTranslate2, and `export_marian(..., for_converter=True)`
one for its converter.""",
    True: """CTranslate2's own converter, `ct2-transformers-converter`, reads this folder,
too. Copy the folder only as it is. Where *transformers* saves the model again
(`save_pretrained`, `push_to_hub`), it leaves out the table of positions, and here the first
row of that table is how every translation begins. Without `for_converter`,
`export_marian` writes a folder that may be saved again."""}

def _write_json(path:Path, content:dict):
    path.write_text(json.dumps(content, indent=1) + '\n', encoding='utf8')

def export_marian(folder:str|Path, # model folder
                  out:str|Path,    # folder to write; must be new, or empty
                  for_converter:bool=False # of CTranslate2? Then never save it again
                 ):
    "Write what `MarianMTModel` and `AutoTokenizer` of *transformers* read, and a README"
    model, tokenizer = open_model(folder)
    _check_is_marian(model.config, tokenizer)
    out = Path(out)
    check_output_folder(out, can_resume=False)
    n, limit, search = model.config.vocab_size, model.config.max_len, load_search(folder)
    rows = [EOS, UNK, *range(len(SPECIAL_TOKENS), n), PAD] if for_converter else [*range(n)]
    special = _special_ids(rows)
    never = dict(bad_words_ids=[[special['pad_token_id']]]) if for_converter else {}
    def write(folder:Path):
        weights = {name: x.contiguous() for name, x in _marian_weights(model, rows).items()}
        save_file(weights, folder/'model.safetensors', dict(format='pt'))
        _write_tokenizer(folder, tokenizer, rows, limit)
        settings = _marian_settings(model.config, special, search, for_converter)
        _write_json(folder/'config.json', settings)
        _write_json(folder/'generation_config.json', special | never | dict(
            num_beams=search.beam_size, length_penalty=search.alpha,
            early_stopping='never', max_length=limit))
        note = _NOTE.format(limit=limit, max_extra=search.max_extra,
                            text=_TEXT[isinstance(tokenizer, BPETokenizer)],
                            scores=_SCORES[search.penalty],
                            converter=_CONVERTER[for_converter])
        (folder/'README.md').write_text(note, encoding='utf8')
    write_folder(out, write)
