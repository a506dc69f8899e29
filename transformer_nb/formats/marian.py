"""The book's translators as folders for the library *transformers*."""
import json, math
from dataclasses import asdict
from pathlib import Path
import tokenizers
from safetensors.torch import save_file
from tokenizers import processors
from torch import Tensor
from transformer_nb.checkpoint import check_output_folder, write_folder
from transformer_nb.formats.page import (
    FORMULAS, check_fields, check_heads, check_tokenizer)
from transformer_nb.foreign import SentencePieceTokenizer
from transformer_nb.hub import (
    POSITIONS, alternate, marian_names, open_model, reorder_features)
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.parts import ACTIVATIONS
from transformer_nb.support.core import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from transformer_nb.text import BPETokenizer, Tokenizer
from transformer_nb.translation import load_search

_AS_MARIAN = dict(biases=('all', 'attention'), activation=tuple(ACTIVATIONS))

def _marian_weights(model:Transformer,
                    rows:list[int] # our id of each of theirs
                   )->tuple[dict[str,Tensor],bool]: # by Marian's names; see `_join_start`
    state, order = model.state_dict(), alternate(model.config.d_model).argsort()
    for name, x in state.items(): state[name] = reorder_features(name, x, order)
    embedding = state['embeddings.0.weight']
    token_bias = state.get('embeddings.0.bias', embedding.new_zeros(len(embedding)))
    weights = {'model.shared.weight': embedding[rows],
               'final_logits_bias': token_bias[None, rows]}
    in_positions = BOS not in rows and _join_start(weights, embedding, model, order)
    for ours, theirs in marian_names(model.config):
        if ours not in state: # the bias of a projection
            projection = state[ours.removesuffix('bias') + 'weight']
            state[ours] = projection.new_zeros(len(projection))
        weights[theirs] = state[ours]
    return weights, in_positions

def _join_start(weights:dict[str,Tensor], embedding:Tensor, # (v, d)
                model:Transformer, order:Tensor
               )->bool: # did the vector of `<s>` move to the decoder's first position?
    """Marian has one token, `<pad>`, for `<pad>` and `<s>`. Where training has parted them,
    it is zero, as other engines take it to be"""
    weights['final_logits_bias'][0, -1] = 0 # `bad_words_ids` keeps it out of translations
    if embedding[BOS].equal(embedding[PAD]): return False
    table = model.tgt_positions.table[:, order].clone()
    table[0] += embedding[BOS] * math.sqrt(model.config.d_model)
    weights[POSITIONS] = table
    weights['model.shared.weight'][-1] = 0
    return True

def _marian_settings(c:TransformerConfig, special:dict, # ids
                     ours:dict # what only this package reads
                    )->dict:   # `config.json`
    sides = {}
    for side, depth in dict(encoder=c.n_encoder_layers, decoder=c.n_decoder_layers).items():
        sides |= {f'{side}_layers': depth, f'{side}_attention_heads': c.n_heads,
                  f'{side}_ffn_dim': c.d_ff}
    return sides | special | dict(
        architectures=['MarianMTModel'], model_type='marian', is_encoder_decoder=True,
        vocab_size=c.vocab_size - (special['bos_token_id'] is None), d_model=c.d_model,
        dropout=c.dropout, max_position_embeddings=c.max_len,
        activation_function=c.activation, scale_embedding=True, tie_word_embeddings=True,
        share_encoder_decoder_embeddings=True, transformer_nb=ours)

def _special_ids(rows:list[int])->dict:
    bos = rows.index(BOS) if BOS in rows else None
    pad = rows.index(PAD)
    return dict(pad_token_id=pad, bos_token_id=bos, eos_token_id=rows.index(EOS),
                decoder_start_token_id=pad if bos is None else bos,
                forced_eos_token_id=None)

def _hub_tokenizer(tokenizer:BPETokenizer)->str: # `tokenizer.json`
    copy = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    end = [('</s>', EOS)]
    copy.post_processor = processors.TemplateProcessing('$A </s>', special_tokens=end)
    return copy.to_str(pretty=True)

def _write_tokenizer(folder:Path, tokenizer:Tokenizer, rows:list[int], limit:int):
    names = {f'{name}_token': f'<{name}>' for name in ('pad', 'unk')}
    names |= dict(eos_token='</s>', model_max_length=limit)
    if isinstance(tokenizer, BPETokenizer):
        text = _hub_tokenizer(tokenizer)
        (folder/'tokenizer.json').write_text(text, encoding='utf8')
        names |= dict(bos_token='<s>', tokenizer_class='PreTrainedTokenizerFast',
                      split_special_tokens=True, clean_up_tokenization_spaces=False)
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
The library divides a score by |Y|^α, and the model's author by {penalty}; with
`num_beams=1` the translations are the same. What transformer_nb does besides, such as
taking several sentences on a line one by one, is left to you.

CTranslate2's own converter reads the folder of a model that came from the hub; of ours,
`tnb_export` writes one for CTranslate2. Copy the folder only as it is: the start of every
translation may stand in the table of positions, which `save_pretrained` leaves out.
"""

def _write_json(path:Path, content:dict):
    path.write_text(json.dumps(content, indent=1) + '\n', encoding='utf8')

def export_marian(folder:str|Path, # model folder
                  out:str|Path):   # folder to write; must be new, or empty
    """Write what `MarianMTModel` and `AutoTokenizer` of *transformers* read, and a README. A
    translator that came from there gets its own order of tokens back"""
    model, tokenizer = open_model(folder)
    if not isinstance(tokenizer, SentencePieceTokenizer):
        check_tokenizer(tokenizer, 'transformers', True)
    check_fields(model.config, 'a Marian model', _AS_MARIAN)
    check_heads(model.config, 'a Marian model')
    out = Path(out)
    check_output_folder(out, can_resume=False)
    n, limit, search = model.config.vocab_size, model.config.max_len, load_search(folder)
    is_ours = isinstance(tokenizer, BPETokenizer)
    rows = [*range(n)] if is_ours else [EOS, UNK, *range(len(SPECIAL_TOKENS), n), PAD]
    special = _special_ids(rows)
    never = {} if is_ours else dict(bad_words_ids=[[special['pad_token_id']]])
    def write(folder:Path):
        weights, moved = _marian_weights(model, rows)
        weights = {name: x.contiguous() for name, x in weights.items()}
        save_file(weights, folder/'model.safetensors', dict(format='pt'))
        _write_tokenizer(folder, tokenizer, rows, limit)
        of_ours = dict(search=asdict(search), start_in_positions=moved)
        if not is_ours: of_ours |= dict(added=tokenizer.added)
        settings = _marian_settings(model.config, special, of_ours)
        _write_json(folder/'config.json', settings)
        _write_json(folder/'generation_config.json', special | never | dict(
            num_beams=search.beam_size, length_penalty=search.alpha,
            early_stopping='never', max_length=limit))
        note = _NOTE.format(limit=limit, max_extra=search.max_extra,
                            penalty=FORMULAS[search.penalty])
        (folder/'README.md').write_text(note, encoding='utf8')
    write_folder(out, write)
