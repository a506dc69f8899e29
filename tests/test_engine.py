"""The engine of `tnb_export MODEL page.html` beside PyTorch: the same tokens, logits and
translations. It is asked in Node; that it runs in a page, too, two tests see in Chromium,
and these skip where there is none.
"""
import base64, math, random, re
from pathlib import Path
from types import SimpleNamespace
from unicodedata import ucd_3_2_0
import numpy as np
import pytest
import torch
from node import Node
from torch import nn
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.support.core import BOS, EOS, set_seed
from transformer_nb.corpora import everyday_sentences
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.decoding import search
from transformer_nb.formats.page import (
    _header_and_weights, _join, _pack_weights, _tokenizer_header, export_page,
    round_to_8_bits)
from transformer_nb.model import Transformer, TransformerConfig, attention_weights
from transformer_nb.multihead import causal_mask
from transformer_nb.reading import (
    doubts, packed_reading, read_sentence, split_sentences, strange, tidy)
from transformer_nb.pieces import NORMALIZERS, normalize
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator
from transformer_nb.studies.attention_maps import without_heads

ROOT = Path(__file__).parent.parent
SHIPPED = ROOT/'nbs/models/multi30k-en-de'

# What the tests ask the engine for, beyond the messages of its worker
LAB = '''
const {engine, worker} = modules
const models = {}, tokenizers = {}
let n_asked = 0
const call = (method, args) => new Promise((resolve, reject) => {
  const post = m => m.error ? reject(Error(`${m.error.name}: ${m.error.message}`))
                            : 'result' in m && resolve(m.result)
  worker.handle({id: ++n_asked, method, args}, post)
})
const base64 = rows => { // of each row
  const encode = row => btoa(String.fromCharCode(...new Uint8Array(row.buffer)))
  return rows.map(encode)
}
const load = ([header, weights]) => {
  const {buffer} = Uint8Array.fromBase64(weights)
  models[header.key] = new engine.Transformer(header.config, header.tensors, buffer)
  return call('load', {models: [{header, weights: buffer}]})
}
const logits = ([key, src, tgt, broken]) => {
  const run = new engine.Run(broken), model = models[key]
  return base64(model.decode(tgt, model.encode(src, run), run))
}
const found = ([key, src, options]) => {
  const steps = engine.search(models[key], src, options, new engine.Run())
  let step = steps.next()
  while (!step.done) step = steps.next()
  return step.value.map(({ids, score, logProbs}) => [ids, score, logProbs])
}
'''

@pytest.fixture(scope='module')
def tab():
    node = Node(_join('worker', 'reading') + LAB)
    yield node
    node.close()

def load(tab, folder, key): # -> the model as it is in the page, its tokenizer
    model, tokenizer = load_model(folder)
    header, weights = _header_and_weights(folder)
    header['key'] = key
    tab.evaluate('load', [header, base64.b64encode(weights).decode()])
    with torch.no_grad():
        for weight in model.parameters(): weight.copy_(weight.half())
    return model, tokenizer

@pytest.fixture(scope='module')
def shipped(tab): return load(tab, SHIPPED, 'shipped')

def test_a_model_that_knows_a_tag_and_needs_none(tab, tmp_path):
    tokenizer = BPETokenizer.train(SENTENCES, 300, tags=['<bt>'])
    save_model(tmp_path, Transformer(TransformerConfig.tiny(300)), tokenizer)
    load(tab, tmp_path, 'tagged') # which compares a sentence's numbers
    header, _ = _header_and_weights(tmp_path)
    [[ids, text, _]] = tab.evaluate(TOKENS, [header, ['ein <bt>']])
    assert header['tokens'][299] == '<bt>' and 299 not in ids and text == 'ein <bt>'

# Tokens

SENTENCES = [text for pair in mini_corpus(0, 500, 0, 0)['train'] for text in pair]

NASTY = [
    *'abcXYZäöüßéçñ0123456789', *'.,;:!?-_"\'()[]{}<>/\\|@#$%^&*+=~`',
    ' ', '  ', '   ', '\t', '\n', '\r', '\r\n', '\v', '\f', '\x1c', '\x1f', '\x85', '\xa0',
    '\u1680', '\u180e', '\u2000', '\u200b', '\u2028', '\u202f', '\u3000', '\ufeff',
    "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", '’s', "s'", ' don', ' don\'t',
    '</s>', '<s>', '<pad>', '<unk>', '< /s>', '�', '\x00', '\x7f', '\xad',
    'e\u0301', 'u\u0308', '\u0301', '\u0308', 'a\u0323\u0302', 'a\u0302\u0323', 'Å',
    '\u212b', '\u0344', '\u0f73', '\u0958', '\u2126', '\ufb01', '한국', '\u1112\u1161\u11ab',
    '\uac00\u11a8', 'नमस्ते', 'ภาษาไทย', 'العربية', 'עברית', '漢字', 'カタカナ', 'か\u3099',
    'ελληνικά', 'Кириллица',
    '٣', '५', '²', '½', 'Ⅷ', '①', '㊿', '〇', '𝟘', '🐶', '👩‍👩‍👧‍👦', '🇩🇪', '👍🏽', '❤️',
    '\ue000', '\uffff', '\U000e0041', '\U0010ffff',
    '“', '”', '„', '«', '‘', '’', '‹', '‐', '–', '—', '−', '…']

def nasty_strings(n):
    rng = random.Random(0)
    words = [word for text in SENTENCES for word in text.split()]
    for _ in range(n):
        kinds = rng.choices([NASTY, words, [' ']], k=rng.randint(0, 30))
        yield ''.join(map(rng.choice, kinds))

TOKENS = '''([header, texts]) => {
  const tokenizer = new engine.Tokenizer(header)
  return texts.map(text => {
    const ids = tokenizer.encode(text)
    return [ids, tokenizer.decode(ids), tokenizer.text(ids)]
  })
}'''

def on_one_line(tokenizer, ids):
    return Translator.text(SimpleNamespace(tokenizer=tokenizer), SimpleNamespace(ids=ids))

def check_tokens(tab, tokenizer, texts):
    found = tab.evaluate(TOKENS, [_tokenizer_header(tokenizer), texts])
    for text, (ids, decoded, line) in zip(texts, found):
        wanted = tokenizer.encode(text)
        assert ids == wanted, ascii(text)
        assert decoded == tokenizer.decode(wanted), ascii(text)
        assert line == on_one_line(tokenizer, wanted), ascii(text)

@pytest.fixture(scope='module')
def texts(): return list(nasty_strings(1000))

def test_tokens_of_each_normalization(tab, texts):
    texts = texts[::4]
    for rule in NORMALIZERS:
        check_tokens(tab, BPETokenizer.train(SENTENCES + texts, 800, rule), texts)

# All of a Unicode that library and browser know; each knows other characters since then
CODE_POINTS = [c for n in range(0x110000)
               if ucd_3_2_0.category(c := chr(n)) not in ('Cn', 'Cs')]

def test_every_character_is_split_as_by_the_library(tab):
    "Letters, numbers and spaces"
    tokenizer = BPETokenizer.train(['a'], 260)
    text = ''.join(f'a{c}1,' for c in CODE_POINTS)
    pieces = tokenizer.tokenizer.pre_tokenizer.pre_tokenize_str(text)
    ends = [end for _, (_, end) in pieces]
    lengths = ''.join(str(end - start) for start, end in zip([0] + ends, ends))
    assert tab.evaluate('''([header, text, lengths]) => {
      const pieces = text.match(new engine.Tokenizer(header).word)
      return pieces.map(piece => [...piece].length).join('') === lengths
    }''', [_tokenizer_header(tokenizer), text, lengths])

@pytest.mark.parametrize('rule', ['punctuation', 'plain'])
def test_every_character_is_normalized_as_by_the_library(tab, rule):
    tokenizer = BPETokenizer.train(['a'], 260, rule)
    texts = [''.join(CODE_POINTS), '\u0323'.join(CODE_POINTS)]
    wanted = [normalize(text, rule) for text in texts]
    assert tab.evaluate('''([header, texts, wanted]) => {
      const tokenizer = new engine.Tokenizer(header)
      return texts.map((text, i) => tokenizer.normalize(text) === wanted[i])
    }''', [_tokenizer_header(tokenizer), texts, wanted]) == [True]*2

# Reading: sentences, capitals, what is no language, and doubts

TYPED = [*'i - • # > ß ŉ İ ǅ ™ ☺'.split(), # beside words and NASTY
    'Mr. Smith', 'Hr. Schmidt', 'z. B.', 'd. h.', 'e.g.', 'No. 7', 'Nr. 3', 'am 3. Oktober',
    'der 2. Weltkrieg', 'I am 30.', 'Tom is 40.', 'p.m.', 'J. R. R.', 'He left.', '“Go!”',
    'Ja!', '...', '…', '?!', '3.50', '19,99', '10:30', '1,000', '555-1234', '12', '2.',
    '1)', '(a)', '😀', '👩‍👩‍👧‍👦', '❤️', '🇩🇪', ':-)', '<3', 'https://example.org/a?b=1.',
    'www.x.de', 'a@b.de', '@tom', '#tag', 'HELLO', 'STRASSE', 'GROSS', 'hello', 'straße',
    '&#39;', '&amp;', '&nbsp;', '&#x27;', '<i>', '</i>', '{name}', '%s', ' .', ' ?',
    'go?No', 'left.She', '**', '*', '_', '__', '~~', '(', ')', '[', ']', '[OVER PHONE]',
    '(laughs)', '。', '、', '؟', '¡', '¿', 'dont', 'Whats', 'CANT', 'STOP', 'USA', 'tHIS',
    'HAllo', '## **Hallo**', '{{x}}',
    'IS', 'fuer', 'Strasse', 'moechte', 'Uebel', 'Lehrer:innen', 'SchülerInnen', '« ',
    ' »', '-Ja', '!!', '?!', ':', ';', '\\n', '\\"', '&uuml;', '&rsquo;', '&#128512;',
    '&toString;', '%(name)s', '%.2f', '{{ name }}', '`make test`', '[the book](a/b)',
    '((Hello))', '((', '))', '<<', '>>', 'E = mc^2', 'C:\\x', '$HOME/x', '/usr/x', 'a_b',
    ':smile:', '1.1', 'main.py', '$x^2$', '{n, plural, one {# x}}', '\ufdd0', '[', '](x)',
    '&#xd800;', ' ,Tom', 'a,b', '1.Please', '2nd', '<a href="x y">', 'C++', '½',
    'HEIßE', '"Hallo"', "don't", "DON'T", 'wie', 'how are you', 'hast du',
    'iPhone', 'McDonald', 'Ünal', '你好', 'かな', 'नमस्ते', '\n', '\n\n',
    '\r\n \t\r\n', '\t', '\u200b', 'ＡＢＣ', 'isn’t']

def typed_strings(n):
    rng = random.Random(2)
    words = [word for text in SENTENCES[:200] for word in text.split()]
    for i in range(n):
        kinds = rng.choices([TYPED, TYPED, words, NASTY], k=rng.randint(1, 12))
        text = rng.choice([' ', ' ', '']).join(map(rng.choice, kinds))
        yield [text, text, text.upper(), text.lower()][i % 4]

READ = """([header, texts]) => {
  const {tokenizer: {Tokenizer}, reading: {Reader, finish}} = modules
  const reader = new Reader(header.patterns, new Tokenizer(header))
  const all = typed => {
    const read = reader.read(typed), translations = ['Die Straße hat 12,5 Meter.', 'Ja! 30']
    const given = translations.map(text => finish(read, text))
    return [read, given, given.map(text => reader.doubts(typed, text)),
            reader.strange(read.read)]
  }
  return texts.map(text => reader.paragraphs(text).map(x => reader.split(x).map(all)))
}"""

def read_here(text, tokenizer):
    for paragraph in re.split('\n[ \t]*\n', re.sub('\r\n?', '\n', text)):
        plain = tidy(paragraph, tokenizer.normalize)
        if not plain.strip(): continue
        sentences = [read_sentence(x, tokenizer.encode) for x in split_sentences(plain)]
        yield [[vars(sentence), given, [doubts(sentence.typed, text) for text in given],
                strange(sentence.read, tokenizer)]
               for sentence in sentences
               for given in [[sentence.write('Die Straße hat 12,5 Meter.'),
                              sentence.write('Ja! 30')]]]

def test_text_is_read_as_by_python(tab, n=600):
    "Strings of what people type, and of what nobody does"
    tokenizer = BPETokenizer.train(SENTENCES + TYPED, 700, 'plain')
    texts = [*typed_strings(n * 5//6), *nasty_strings(n//6)]
    header = _tokenizer_header(tokenizer) | dict(patterns=packed_reading())
    n_sentences, n_kept = 0, 0
    for text, found in zip(texts, tab.evaluate(READ, [header, texts])):
        assert found == list(read_here(text, tokenizer)), ascii(text)
        sentences = [sentence for paragraph in found for sentence, *_ in paragraph]
        n_sentences += len(sentences)
        n_kept += sum(not sentence['read'] for sentence in sentences)
    assert n_sentences > 1.15*n and n_kept > n/20

# Logits

def test_every_half_precision_number(tab):
    "Those below the smallest normal one as well; infinities and NaN are never exported"
    halves = np.arange(2**16, dtype='<u2').view('<f2')
    rows = tab.evaluate('''() => {
      const halves = Uint16Array.from({length: 2**16}, (_, bits) => bits)
      const read = new engine.Weights([['x', [2**16]]], halves.buffer)
      const weights = read.data('x')
      return base64(Array.from({length: 64}, (_, i) => weights.slice(1024*i, 1024*(i + 1))))
    }''')
    found = np.frombuffer(b''.join(map(base64.b64decode, rows)), '<f4')
    np.testing.assert_array_equal(found, halves.astype('<f4'))

def test_rows_of_eight_bits_beside_halves(tab):
    "Odd sizes, too: what follows begins at an even byte"
    model = nn.ModuleDict(dict(a=nn.Linear(5, 3), b=nn.Linear(3, 2)))
    round_to_8_bits(model)
    with torch.no_grad(): model['b'].weight[0, 0] = 0.123 # which is no multiple
    tensors, packed = _pack_weights(model)
    assert [bits for _, _, bits in tensors] == [8, 16, 16, 16]
    rows = tab.evaluate("""([tensors, packed]) => {
      const weights = new engine.Weights(tensors, Uint8Array.fromBase64(packed).buffer)
      return base64(tensors.map(([name]) => weights.data(name)))
    }""", [tensors, base64.b64encode(packed).decode()])
    for row, (name, weight) in zip(rows, model.state_dict().items(), strict=True):
        found = np.frombuffer(base64.b64decode(row), '<f4')
        np.testing.assert_array_equal(found, weight.flatten().numpy(), name)

def logits_of(tab, key, src, tgt, broken=None):
    rows = tab.evaluate('logits', [key, src, tgt, broken or {}])
    data = b''.join(map(base64.b64decode, rows))
    return torch.frombuffer(bytearray(data), dtype=torch.float32).view(len(tgt), -1)

@torch.inference_mode()
def logits_here(model, src, tgt): return model(torch.tensor([src]), torch.tensor([tgt]))[0]

BASE = dict(vocab_size=300, d_model=12, d_ff=20, n_heads=3, n_encoder_layers=2,
            n_decoder_layers=2, dropout=0., max_len=64)
OPTIONS = {
    'as in the paper': {},
    'pre-norm': dict(norm='pre'),
    'learned positions': dict(positions='learned'),
    'untied': dict(tie_embeddings=False),
    'd_k and d_v, no multiple': dict(n_heads=5, d_k=3, d_v=2),
    'unequal stacks': dict(n_encoder_layers=1, n_decoder_layers=3),
    'short': dict(max_len=9),
    'all at once': dict(norm='pre', positions='learned', tie_embeddings=False,
                        d_k=3, d_v=7)}

def random_model(folder, **options):
    "Its weights are large, so that attention is sharp; and now and then it ends a sentence"
    config = TransformerConfig(**BASE | options)
    set_seed(0)
    model = Transformer(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1: weight.mul_(2)
            else: weight.add_(0.3*torch.randn_like(weight))
        last = model.decoder.norm
        if config.norm == 'post': last = model.decoder.layers[-1].residuals[-1].norm
        last.bias.add_(3*model.output.weight[EOS])
    tokenizer = BPETokenizer.train(SENTENCES, 300)
    save_model(folder, model, tokenizer)

@pytest.fixture(scope='module')
def tiny(tab, tmp_path_factory):
    "The random model of these options, in the page and here"
    loaded = {}
    def get(name):
        if name not in loaded:
            folder = tmp_path_factory.mktemp('tiny')/'model'
            random_model(folder, **OPTIONS[name])
            loaded[name] = load(tab, folder, name)[0]
        return loaded[name]
    return get

def close(found, wanted): torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)

SRC, TGT = [7, 299, 20, 4, 56, 90, EOS], [BOS, 31, 31, 200, 9, 77]

@pytest.mark.parametrize('name', OPTIONS)
def test_logits_of_every_option(tab, tiny, name):
    model = tiny(name)
    close(logits_of(tab, name, SRC, TGT), logits_here(model, SRC, TGT))

# Translations

def best_of(tab, key, src, **options): return tab.evaluate('found', [key, src, options])

@pytest.mark.parametrize('name', OPTIONS)
@pytest.mark.parametrize('beam_size, alpha', [(4, 0.6), (7, 3.)])
def test_search_of_every_option(tab, tiny, name, beam_size, alpha):
    "Several hypotheses with their scores; cached, unlike the logits above"
    options = dict(beam_size=beam_size, alpha=alpha, n_best=beam_size)
    sources = [5], [7, 299, 20, 4], [8] * 7
    for src, wanted in zip(sources, search(tiny(name), sources, **options)):
        found = best_of(tab, name, src + [EOS], **options)
        assert len(found) == len(wanted)
        for (ids, score, log_probs), h in zip(found, wanted):
            assert [i for i in ids if i != EOS] == h.ids
            assert score == pytest.approx(h.score, abs=1e-4)
            assert log_probs == pytest.approx(h.log_probs, abs=1e-4)
            assert (EOS in ids) == (len(h.log_probs) > len(h.ids))

def test_limits(tab, tiny):
    "A translation that does not end stops where it must; a long source is read up to there"
    tiny('short')
    [ids, _, log_probs] = best_of(tab, 'short', SRC)[0]
    assert len(log_probs) <= 9
    text = 'a man is reading the very long book of the old woman'
    done = tab.evaluate('call("tokenize", {model: "short", text: "%s"})' % text)
    assert done['cut'] and done['read'] == 8
    assert len(done['ids']) == 9 and done['ids'][-1] == EOS
    tokenize = 'text => call("tokenize", {model: "short", text})'
    for text, is_cut in (('1' * 8, False), ('1' * 9, True)): # a token for each digit
        done = tab.evaluate(tokenize, text)
        assert (done['read'], done['cut']) == (8, is_cut)

# What can be switched off

def test_heads_switched_off(tab, tiny):
    model = tiny('d_k and d_v, no multiple')
    for kind in ('encoder', 'decoder', 'cross'):
        for heads in ([1], [0, 2], [0, 1, 2, 3, 4]):
            off = [(kind, 1, head) for head in heads]
            with without_heads(model, off): wanted = logits_here(model, SRC, TGT)
            names = [f'{kind}.2.{head + 1}' for head in heads]
            close(logits_of(tab, 'd_k and d_v, no multiple', SRC, TGT, dict(heads=names)),
                  wanted)
        whole = dict(attention=[f'{kind}.2'])
        close(logits_of(tab, 'd_k and d_v, no multiple', SRC, TGT, whole), wanted)

@pytest.mark.parametrize('name', ['as in the paper', 'all at once'])
def test_scale_positions_and_mask_switched_off(tab, tiny, name, tmp_path):
    intact = tiny(name)
    def twin():
        model = Transformer(intact.config).eval()
        model.load_state_dict(intact.state_dict())
        return model.requires_grad_(False)
    without_scale, without_positions, causal = twin(), twin(), twin()
    source_only = twin()
    source_only.src_positions.table.zero_()
    for part in without_scale.modules():
        if hasattr(part, 'query'): part.query.weight.mul_(intact.config.d_k**0.5)
    for part in (without_positions.src_positions, without_positions.tgt_positions):
        part.table.zero_()
    run_encoder = causal.encoder.forward
    causal.encoder.forward = lambda x, mask: run_encoder(x, causal_mask(x.shape[1]))
    for switch, model in dict(no_scale=without_scale, no_positions=without_positions,
                              no_source_positions=source_only,
                              causal_encoder=causal).items():
        wanted = logits_here(model, SRC, TGT)
        assert (wanted - logits_here(intact, SRC, TGT)).abs().max() > 0.01
        close(logits_of(tab, name, SRC, TGT, {switch: True}), wanted)

# The messages

TEXT = 'A boy is picking up a ball.'

def asked(tab, method, **args): return tab.evaluate(f'args => call("{method}", args)', args)

INSPECTED = '''async args => {
  const found = await call('inspect', args)
  for (const layers of Object.values(found.maps))
    for (const heads of layers) for (const map of heads) map.data = [...map.data]
  return found
}'''

def test_inspect_and_worth(tab, shipped):
    model, tokenizer = shipped
    src = tokenizer.encode(TEXT) + [EOS]
    [[best]] = search(model, [src[:-1]])
    ids = best.ids + [EOS]
    read = torch.tensor([[BOS] + best.ids])
    found = tab.evaluate(INSPECTED, dict(model='shipped', text=TEXT, ids=ids))
    assert found['token_log_probs'] == pytest.approx(best.log_probs, abs=1e-3)
    assert [p['id'] for p in found['src']] == src and [p['id'] for p in found['tgt']] == ids
    wanted = attention_weights(model, torch.tensor([src]), read)
    for kind, layers in found['maps'].items():
        for layer, heads in enumerate(layers):
            for head, m in enumerate(heads):
                weights = wanted[kind][layer, 0, head]
                assert [m['rows'], m['cols']] == list(weights.shape)
                close(torch.tensor(m['data']), weights.flatten())
    probs = logits_here(model, src, [BOS] + best.ids).softmax(-1)
    for row, alternatives in zip(probs, found['alternatives']):
        top, tokens = row.topk(5)
        assert [a['id'] for a in alternatives] == tokens.tolist()
        assert [a['prob'] for a in alternatives] == pytest.approx(top.tolist(), abs=1e-4)

    deltas = asked(tab, 'worth', model='shipped', text=TEXT, ids=ids)
    assert len(deltas) == 48
    for name in ('encoder.3.1', 'decoder.2.4', 'cross.3.1'):
        kind, layer, head = name.split('.')
        off = [(kind, int(layer) - 1, int(head) - 1)]
        with without_heads(model, off): logits = logits_here(model, src, [BOS] + best.ids)
        log_prob = logits.log_softmax(-1)[range(len(ids)), ids].sum().item()
        assert deltas[name] == pytest.approx(log_prob - sum(best.log_probs), abs=1e-3)

def test_steps_pair_and_vectors(tab, shipped):
    translated = asked(tab, 'translate', model='shipped', text=TEXT)
    assert translated['text'] == 'Ein Junge hebt einen Ball auf.'
    assert translated['log_prob'] == pytest.approx(sum(translated['token_log_probs']))
    found = asked(tab, 'steps', model='shipped', text=TEXT)
    assert found['best']['ids'] == translated['ids']
    assert found['best']['score'] == translated['score']
    check_steps(found['steps'])
    check_pairs(tab, translated['ids'])
    check_vectors(tab, shipped, translated['ids'])

def check_steps(steps):
    n_kept = 1
    for step in steps:
        states = [c['state'] for c in step['candidates']]
        assert len(states) == 4*n_kept
        assert all(c['parent'] < n_kept for c in step['candidates'])
        assert set(states[:4]) <= {'kept', 'ended'} and set(states[4:]) <= {'dropped'}
        scores = [c['log_prob'] for c in step['candidates']]
        assert scores == sorted(scores, reverse=True)
        indices = [c['index'] for c in step['candidates'] if c['state'] == 'kept']
        assert indices == list(range(n_kept := len(indices)))

def check_pairs(tab, ids):
    for kind, row, col in (('cross', 2, 3), ('encoder', 8, 0), ('decoder', 5, 2)):
        place = dict(kind=kind, layer=3, head=3, row=row, col=col)
        pair = tab.evaluate('''async args => {
          const found = await call('pair', args), {maps} = await call('inspect', args)
          const map = maps[args.kind][2][2]
          found.in_map = map.data[args.row * map.cols + args.col]
          found.other = await call('pair', {...args, col: 1})
          for (const name of ['q', 'k', 'products']) found[name] = [...found[name]]
          return found
        }''', dict(model='shipped', text=TEXT, ids=ids) | place)
        assert pair['d_k'] == 32 and pair['weight'] == pytest.approx(pair['in_map'])
        dot = sum(q*k for q, k in zip(pair['q'], pair['k']))
        assert pair['dot'] == pytest.approx(dot, abs=1e-4)
        assert pair['score'] == pytest.approx(pair['dot'] / 32**0.5)
        ratio = math.exp(pair['score'] - pair['other']['score']) # by the softmax
        assert pair['weight'] / pair['other']['weight'] == pytest.approx(ratio, rel=1e-3)

def check_vectors(tab, shipped, ids):
    n, shape, memory = tab.evaluate('''async args => {
      const way = await call('vectors', args), found = way.find(x => x.name === 'memory')
      return [way.length, [found.rows, found.cols], [...found.data]]
    }''', dict(model='shipped', text=TEXT, ids=ids))
    assert n == 3 + 4*2 + 1 + 3 + 4*3 and shape == [9, 128]
    model, tokenizer = shipped
    src = torch.tensor([tokenizer.encode(TEXT) + [EOS]])
    with torch.no_grad(): wanted = model.encode(src)
    assert memory == pytest.approx(wanted.flatten().tolist(), abs=2e-3)

# Captions, and what people say to each other

def translated_otherwise(tab, folder, key, texts):
    "By the page; where its score is the same, a different text is a tie"
    translator = Translator(folder, torch.device('cpu'))
    found = tab.evaluate('''async ([model, texts]) => {
      const found = []
      for (const text of texts) {
        const {text: line, score} = await call('translate', {model, text})
        found.push([line, score])
      }
      return found
    }''', [key, texts])
    for text, (line, score), [best] in zip(texts, found, translator.search(texts)):
        assert score == pytest.approx(best.score, abs=1e-4), text
        if line != translator.text(best): yield text

@pytest.mark.slow
def test_translations_of_everyday_sentences(tab):
    texts = [row['source'] for row in everyday_sentences() if row['direction'] == 'en-de']
    folder = ROOT/'nbs/models/everyday-en-de'
    load(tab, folder, 'en-de')
    assert list(translated_otherwise(tab, folder, 'en-de', texts[::3])) == []

# The page

@pytest.fixture
def fresh(chromium):
    "A tab; afterwards: did it complain, or ask for anything?"
    tab, complaints = chromium.new_page(), []
    def on_request(request):
        if not request.url.startswith(('file:', 'blob:', 'data:', 'about:')):
            complaints.append(request.url)
    def on_console(message):
        if message.type in ('error', 'warning'): complaints.append(message.text)
    tab.on('request', on_request)
    tab.on('console', on_console)
    tab.on('pageerror', lambda error: complaints.append(str(error)))
    yield tab
    tab.close()
    assert complaints == []

def test_exported_page_translates_without_a_network(fresh, tmp_path):
    "In a worker, from a file, under its policy"
    page = tmp_path/'page.html'
    export_page([SHIPPED], page)
    assert page.stat().st_size < 8_000_000
    fresh.goto(page.as_uri())
    fresh.evaluate('tnb.ready')
    found = fresh.evaluate('text => tnb.translate(text, {beam_size: 4, alpha: 0.6})', TEXT)
    assert found['text'] == 'Ein Junge hebt einen Ball auf.' and found['ms'] > 0
    assert found['ids'][-1] == EOS and found['score'] < 0
    assert len(fresh.workers) == 1
