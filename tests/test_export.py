"""Exported models beyond chapter 15b's own proofs: options that its models do not have, and
what a page says of itself. `test_engine.py` and `test_playground.py` open pages."""
import json, re
from html.parser import HTMLParser
from pathlib import Path
from textwrap import dedent
import pytest
import tokenizers
import torch
from torch import nn
from transformer_nb.formats import page as export
from transformer_nb.checkpoint import save_model
from transformer_nb.commands import tnb_export
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.decoding import SearchConfig, search
from transformer_nb.formats.page import (
    _rows_of_8_bits, _stored_check, export_page, round_to_8_bits)
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.formats.marian import export_marian
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator

EVERYDAY = Path(__file__).parents[1]/'nbs/models/everyday-en-de'

TEXTS = [text for pair in mini_corpus(0, 60, 0, 0)['train'] for text in pair]

def made(**options): # a model of random weights, and a tokenizer
    set_seed(0)
    sizes = dict(d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1)
    config = TransformerConfig(300, max_len=64, **sizes | options)
    return Transformer(config).eval(), BPETokenizer.train(TEXTS, 300)

def log_probs(model, src, ids): # of the tokens, the last one perhaps `</s>`
    with torch.inference_mode():
        logits = model(torch.tensor([src + [EOS]]), torch.tensor([[BOS] + ids[:-1]]))[0]
    return logits.log_softmax(-1)[range(len(ids)), ids]

# What a folder says of itself, done

AWKWARD = [['He isn’t here.', 'Can  I\u00a0pay?', 'Write </s> at the end.',
           '<pad> <s> <unk>', 'I love you 😀', '犬', '½ ① ﬁ',
           'a\u200bb', '12', 'I LOVE YOU'],
           ['We are very tired and ' * 120 + 'hungry.']] # 601 words

def run_readme(place, change, **names):
    "The code that stands in the folder's README, with one change"
    lines = (place/'README.md').read_text(encoding='utf8').splitlines()
    code = dedent('\n'.join(line for line in lines if line.startswith('    ')))
    old, new = change
    assert code.count(old) == 1
    exec(code.replace(old, new), names)
    return names['lines']

def greedy_lines(texts, model=EVERYDAY):
    translator = Translator(model, 'cpu', beam_size=1)
    found = translator.search(texts)
    return [translator.tokenizer.decode(best.ids) for [best] in found]

def test_the_readme_of_ctranslate2(tmp_path, monkeypatch):
    ctranslate2 = pytest.importorskip('ctranslate2')
    tnb_export(str(EVERYDAY), str(tmp_path/'ct2'))
    monkeypatch.chdir(tmp_path/'ct2')
    translator = ctranslate2.Translator('.', compute_type='float32')
    change = 'beam_size=4', 'beam_size=1'
    names = dict(translator=translator, tokenizers=tokenizers)
    found = [run_readme(Path(), change, texts=texts, **names) for texts in AWKWARD]
    assert found == list(map(greedy_lines, AWKWARD))

def test_the_readme_for_transformers(tmp_path):
    transformers = pytest.importorskip('transformers')
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    export_marian(EVERYDAY, tmp_path/'hub')
    change = 'max_length=', 'num_beams=1, max_length='
    names = dict(folder=tmp_path/'hub')
    found = [run_readme(tmp_path/'hub', change, texts=texts, **names) for texts in AWKWARD]
    assert found == list(map(greedy_lines, AWKWARD))

class Tags(HTMLParser):
    "The attributes of each `<link>` and `<meta>`"
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)
    def handle_starttag(self, tag, attributes):
        if tag in ('link', 'meta'): self.found.append(dict(attributes))

def test_the_head_of_a_page(tmp_path):
    "A title may hold anything; and nothing but the page's own scripts runs"
    save_model(tmp_path/'model', *made())
    title, address = 'From "A" to <b>', 'a.html?x="1"&y=2'
    out = tmp_path/'page.html'
    export_page([tmp_path/'model'], out, 'https://book/?a="b"', {address: title})
    tags = Tags(out.read_text(encoding='utf8')).found
    [link] = [tag for tag in tags if tag.get('rel') == 'alternate']
    assert link == dict(rel='alternate', href=address, title=title)
    [book] = [tag for tag in tags if tag.get('rel') == 'contents']
    assert book['href'] == 'https://book/?a="b"'
    [policy] = [tag['content'] for tag in tags if tag.get('http-equiv')]
    assert re.sub(r"'sha256-[\w+/=]{44}'", 'HASH', policy) == (
        "default-src 'none'; script-src HASH HASH; style-src HASH; worker-src blob:; "
        "img-src data: blob:; base-uri 'none'; frame-src 'self'") # the page beside it

@pytest.mark.parametrize('size', [1e-7, 1e-3, 1., 300.])
def test_rounding_is_small_and_seen_again_by_the_page(size):
    model = nn.Linear(37, 400)
    with torch.no_grad():
        model.weight.mul_(size * torch.rand(400, 1))
        model.weight[7] = 0
    before, bias = model.weight.clone(), model.bias.clone()
    round_to_8_bits(model)
    rounded = model.weight.detach()
    most = before.abs().amax(1, keepdim=True).clamp(min=2**-14)
    step = most * 9/8 / 127 # at most
    assert ((rounded - before).abs() <= step * 0.501).all()
    assert torch.equal(model.bias, bias) and torch.equal(rounded.half().float(), rounded)
    packed = _rows_of_8_bits(rounded)
    assert len(packed) == 2*400 + 37*400
    scales = torch.frombuffer(bytearray(packed[:800]), dtype=torch.float16).float()
    whole = torch.frombuffer(bytearray(packed[800:]), dtype=torch.int8).view(400, 37)
    assert torch.equal(whole * scales[:, None], rounded)

@pytest.mark.parametrize('ends', [False, True])
def test_the_check_of_a_page_is_what_the_search_finds(ends):
    "Also where the translation is cut off, so that it has no end"
    model, tokenizer = made()
    last = model.decoder.layers[-1].residuals[-1].norm
    size = 50 if ends else -50
    with torch.no_grad(): last.bias.add_(size * model.output.weight[EOS])
    config = SearchConfig(beam_size=2, alpha=0.6, max_extra=2)
    found = _stored_check(model, tokenizer, config, TEXTS[0])
    ids = tokenizer.encode(TEXTS[0])
    [[best]] = search(model, [ids], **vars(config))
    assert found['ids'] == best.ids + [EOS]*ends
    assert len(best.log_probs) == len(found['ids'])
    assert found['log_prob'] == pytest.approx(sum(best.log_probs), abs=1e-4)
    wanted = log_probs(model, ids, found['ids']).sum().item()
    assert found['log_prob'] == pytest.approx(wanted, abs=1e-4)
    _stored_check(model, tokenizer, config, ' '.join(TEXTS)) # longer than the model reads

@pytest.mark.parametrize('src, tgt, title', [
    ('en', 'fr', 'English → French'), ('jpn', 'eng', 'Japanese → English'),
    ('en', 'nob', 'English → Norwegian'), ('no', 'en', 'Norwegian → English')])
def test_a_page_names_languages_by_either_code(src, tgt, title, tmp_path):
    data = dict(corpus='tatoeba', src_lang=src, tgt_lang=tgt)
    record = dict(training=dict(config=dict(data=data)))
    (tmp_path/'config.json').write_text(json.dumps(record), encoding='utf8')
    assert export._languages(tmp_path)['title'] == title
