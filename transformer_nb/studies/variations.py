"""Table 3 of the paper in small (chapter 18): its rows, how one is trained, and what becomes
of a difference beside the paper. How a row is compared with base is chapter 14b's."""

import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from math import exp, isfinite, log, sqrt
from statistics import stdev
from typing import NamedTuple
import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer
from ..checkpoint import fingerprint
from ..support.core import default_device, provenance, set_seed
from ..data import TokenBatches, encode_pairs
from ..decoding import search
from ..embedding import Embedding
from ..evaluation import score
from ..speed.fast import accelerate
from ..judging import (
    MARGIN, Difference, compare_rows, holm, mean_interval, t_p_value)
from ..model import Transformer, TransformerConfig
from ..multihead import MultiHeadAttention
from ..optimizer import adam, adamw, inverse_sqrt_lr
from ..parts import UnscaledEmbedding
from ..text import BPETokenizer
from ..training import token_loss, train_steps, valid_loss

BASE = dict(
    d_model=64, d_ff=256, n_heads=4, n_encoder_layers=3, n_decoder_layers=3,
    dropout=0.1, max_len=128, label_smoothing=0.1, warmup=True, without='')
N_STEPS = 700
BATCH_TOKENS = 1024
VOCAB_SIZE = 2000
_MAX_WORDS = 9      # of a source sentence
_MAX_PAIRS = 4000
PEAK_LR = 5e-3     # of base; reached at the end of the warm-up
WARMUP_STEPS = 200

def _heads(h:int)->dict: # h heads whose sizes add up to d_model
    d_k = BASE['d_model'] // h
    return dict(n_heads=h, d_k=d_k, d_v=d_k)

def _n_layers(n:int, **more)->dict: # n layers in each stack
    return dict(n_encoder_layers=n, n_decoder_layers=n, **more)

TABLE = {
    'base':      {},
    'A1':        _heads(1),
    'A2':        _heads(2),
    'A8':        _heads(8),
    'A16':       _heads(16),
    'B4':        dict(d_k=4),
    'B8':        dict(d_k=8),
    'C-N1':      _n_layers(1),
    'C-N2':      _n_layers(2),
    'C-N4':      _n_layers(4),
    'C-d32':     dict(d_model=32),
    'C-d128':    dict(d_model=128),
    'C-ff128':   dict(d_ff=128),
    'C-ff512':   dict(d_ff=512),
    'D-drop0':   dict(dropout=0.),
    'D-drop0.2': dict(dropout=0.2),
    'D-ls0':     dict(label_smoothing=0.),
    'D-ls0.2':   dict(label_smoothing=0.2),
    'E':         dict(positions='learned'),
    'big':       dict(d_model=128, d_ff=512, n_heads=8, dropout=0.3)}

LEFT_OUT = {
    'no-sqrt-d':  dict(without='√d_model'),
    'untied':     dict(tie_embeddings=False),
    'no-sqrt-dk': dict(without='1/√d_k')}

def _depth_rows()->dict[str,dict]:
    rows = {}
    for n in (2, 6, 12):
        for norm in ('post', 'pre'):
            rows[f'{norm}{n}'] = _n_layers(n, norm=norm, warmup=True)
            rows[f'{norm}{n}-cold'] = _n_layers(n, norm=norm, warmup=False)
    del rows['post2'] # the same as C-N2
    return rows

def _rate_rows()->dict[str,dict]: # the table at half and at twice the learning rate
    return {f'{name}@{factor}': changes | dict(rate=factor)
            for factor in (0.5, 2) for name, changes in TABLE.items()}

DEPTH = _depth_rows()
RATES = _rate_rows()
GROUPS = dict(table=TABLE, left_out=LEFT_OUT, depth=DEPTH, rates=RATES)
ROWS = TABLE | LEFT_OUT | DEPTH | RATES

THEIRS = { # of the paper: perplexity and BLEU
    'base':      (4.92, 25.8), 'A1':     (5.29, 24.9), 'A2':      (5.00, 25.5),
    'A8':        (4.91, 25.8), 'A16':    (5.01, 25.4), 'B4':      (5.16, 25.1),
    'B8':        (5.01, 25.4), 'C-N1':   (6.11, 23.7), 'C-N2':    (5.19, 25.3),
    'C-N4':      (4.88, 25.5), 'C-d32':  (5.75, 24.5), 'C-d128':  (4.66, 26.0),
    'C-ff128':   (5.12, 25.4), 'C-ff512': (4.75, 26.2), 'D-drop0': (5.77, 24.6),
    'D-drop0.2': (4.95, 25.5), 'D-ls0':  (4.67, 25.3), 'D-ls0.2': (5.47, 25.7),
    'E':         (4.92, 25.7), 'big':    (4.33, 26.4)}
EFFECTS = {row: log(ppl / THEIRS['base'][0]) for row, (ppl, _) in THEIRS.items()} # nats

IN_WORDS = {
    'A1': 'one head', 'A2': 'two heads', 'A8': 'eight heads', 'A16': 'sixteen heads',
    'B4': 'keys of size 4', 'B8': 'keys of size 8',
    'C-N1': 'one layer', 'C-N2': 'two layers', 'C-N4': 'four layers',
    'C-d32': 'half the width', 'C-d128': 'twice the width',
    'C-ff128': 'half of d_ff', 'C-ff512': 'twice d_ff',
    'D-drop0': 'no dropout', 'D-drop0.2': 'twice the dropout',
    'D-ls0': 'no label smoothing', 'D-ls0.2': 'twice the smoothing',
    'E': 'learned positions', 'big': 'big'}

# How a row is trained

class _UnscaledAttention(MultiHeadAttention):
    def attend(self, q:Tensor, k:Tensor, v:Tensor, mask:Tensor|None=None)->Tensor:
        d_k = q.shape[-1]
        return super().attend(q * sqrt(d_k), k, v, mask)

_ABLATED = {'': {}, '√d_model': {Embedding: UnscaledEmbedding},
            '1/√d_k': {MultiHeadAttention: _UnscaledAttention}}

def ablate(model:nn.Module, # changed in place
           part:str,        # '√d_model', '1/√d_k', or '' for none
          )->nn.Module:     # the same model
    "Leave a part out, in every layer that has it; parameters and their names stay"
    classes = _ABLATED[part]
    for module in model.modules():
        module.__class__ = classes.get(type(module), type(module))
    return model

def row_lr(changes:dict, # to BASE
           step:int,     # counted from 1
          )->float:      # learning rate of that step
    settings = BASE | changes
    peak_lr = PEAK_LR * sqrt(BASE['d_model'] / settings['d_model'])
    peak_lr *= settings.get('rate', 1)
    if not settings['warmup']: step = max(step, WARMUP_STEPS)
    return inverse_sqrt_lr(step, peak_lr, WARMUP_STEPS)

def row_config(changes:dict, vocab_size:int)->TransformerConfig:
    known = {field.name for field in fields(TransformerConfig)}
    settings = {name: x for name, x in (BASE | changes).items() if name in known}
    return TransformerConfig(vocab_size, **settings)

def build_row(changes:dict, vocab_size:int)->Transformer:
    model = Transformer(row_config(changes, vocab_size))
    part = (BASE | changes)['without']
    return accelerate(ablate(model, part)).to(default_device())

def row_optimizer(model:nn.Module, changes:dict)->Optimizer:
    decay = changes.get('weight_decay') # of a row of chapter 20
    return adamw(model, decay, fused=True) if decay else adam(model, fused=True)

def seeded(build:Callable, # makes a model
           seed:int
          )->nn.Module:
    "The seed is set for the weights, and again for dropout, however many numbers they took"
    set_seed(seed)
    model = build()
    set_seed(seed)
    return model

def _train(model:Transformer, optimizer:Optimizer, changes:dict,
           batches:TokenBatches, n_steps:int,
          )->dict: # how far it came
    settings = BASE | changes
    loss_of = partial(token_loss, label_smoothing=settings['label_smoothing'])
    lr_of = partial(row_lr, changes)
    progress, _ = train_steps(model, optimizer, batches, n_steps, lr_of, loss_of)
    return progress

def prepare_task(corpus:dict # sentence pairs of 'train' and 'valid'
                )->tuple:    # tokenizer, encoded pairs of both
    texts = [text for pair in corpus['train'] for text in pair]
    tokenizer = BPETokenizer.train(texts, VOCAB_SIZE)
    train, _ = encode_pairs(corpus['train'], tokenizer, BASE['max_len'])
    valid, _ = encode_pairs(corpus['valid'], tokenizer, BASE['max_len'])
    return tokenizer, train, valid

def train_row(changes:dict,             # to BASE
              seed:int,
              corpus:dict,              # pairs of 'train', 'valid' and perhaps 'test'
              n_steps:int,
              build:Callable=build_row, # a model, of changes and the size of the vocabulary
              optimizer_of:Callable=row_optimizer, # of the model and changes
             )->dict:                   # what was measured
    "Train base with changes; all rows of a seed see the same batches in the same order"
    start = time.perf_counter()
    tokenizer, train, valid = prepare_task(corpus)
    model = seeded(partial(build, changes, tokenizer.vocab_size), seed)
    result = dict(parameters=sum(p.numel() for p in model.parameters()))
    batches = TokenBatches(train, BATCH_TOKENS, seed)
    result |= _train(model, optimizer_of(model, changes), changes, batches, n_steps)
    result |= measure_losses(model.eval(), train, valid)
    if 'test' in corpus:
        test, _ = encode_pairs(corpus['test'], tokenizer, BASE['max_len'])
        result |= dict(test_loss=mean_loss(model, test))
    result |= _scores(model, tokenizer, corpus['valid'])
    seconds = round(time.perf_counter() - start, 1)
    return result | dict(seconds=seconds) | provenance()

def mean_loss(model:nn.Module, pairs:list # encoded
             )->float:                    # in nats per token
    batches = [b.to(default_device()) for b in TokenBatches(pairs, 4096).epoch(0)]
    return round(valid_loss(model, batches), 4)

def measure_losses(model:nn.Module, train:list, valid:list # encoded pairs
                  )->dict:
    "Losses in nats per token, and the perplexity of the validation set"
    valid_nats = mean_loss(model, valid)
    train_nats = mean_loss(model, train[:len(valid)])
    return dict(valid_loss=valid_nats, train_loss=train_nats, ppl=round(exp(valid_nats), 3))

def _scores(model:Transformer, tokenizer:BPETokenizer, pairs:list)->dict: # pairs of texts
    "BLEU and chrF of translations by beam search"
    results = search(model, [tokenizer.encode(source) for source, _ in pairs])
    translations = [tokenizer.decode(best.ids) for best, *_ in results]
    scores = score(translations, [reference for _, reference in pairs])
    signature = scores['signatures']['bleu']
    return dict(bleu=scores['bleu'], chrf=scores['chrf'], signature=signature)

def row_settings(rows:dict[str,dict], # changes to BASE
                 corpus:dict, # sentence pairs of each split
                 n_steps:int,
                )->dict[str,str]:     # a fingerprint of each row
    splits = [corpus[split] for split in ('train', 'valid', 'test') if split in corpus]
    task = fingerprint([*splits, n_steps, BATCH_TOKENS, VOCAB_SIZE, PEAK_LR, WARMUP_STEPS])
    return {row: fingerprint([BASE | changes, task]) for row, changes in rows.items()}

def short_corpus(corpus:dict)->dict: # its captions with few words in the source
    def short(pairs): return [pair for pair in pairs if len(pair[0].split()) <= _MAX_WORDS]
    return {split: short(corpus[split])[:_MAX_PAIRS] for split in ('train', 'valid')}

# What a difference says

def whole_seeds(results:list[dict], rows:list[str])->list[int]: # seeds that all rows have
    trained = [{r['seed'] for r in results if r['row'] == row} for row in rows]
    return sorted(set.intersection(*trained))

def best_rates(results:list[dict])->dict: # of each row, the lowest mean loss and its rate
    "Over seeds 0 to 2; a rate with a loss that is not finite is never the best"
    losses = {(r['row'], r['seed']): r['valid_loss'] for r in results}
    def mean_loss(row):
        mean = sum(losses[row, seed] for seed in range(3)) / 3
        return mean if isfinite(mean) else float('inf')
    best = {}
    for row in TABLE:
        tried = {1: row, 0.5: f'{row}@0.5', 2: f'{row}@2'}
        best[row] = min((mean_loss(name), rate) for rate, name in tried.items())
    return best

def after_rates(word:str, row:str, best:dict)->str: # a word
    "A verdict with a sign stands if it has the same sign at the best rates"
    sign = {'worse': 1, 'better': -1}.get(word)
    if sign is None: return word
    difference = best[row][0] - best['base'][0]
    return word if sign*difference > 0 else 'depends on the learning rate'

def at_twice(results:list[dict], row:str, measure:str='valid_loss')->Difference:
    "To base, both at twice the rate; seeds 3 to 9; at 97.5 %, since two rows are asked"
    def losses(row):
        by_seed = {r['seed']: r[measure] for r in results if r['row'] == f'{row}@2'}
        return [by_seed[seed] for seed in range(3, 10)]
    paired = [row - base for row, base in zip(losses(row), losses('base'))]
    return Difference(*mean_interval(paired, 0.975))

def confirmation(word:str,     # worse or better
                 d:Difference, # of other seeds, on other captions
                )->str:
    "What becomes of a verdict that is asked again"
    if d.verdict() == word: return 'confirmed'
    opposite = {'worse': 'better', 'better': 'worse'}[word]
    return 'contradicted' if d.verdict() == opposite else 'not confirmed'

def beside_paper(d:Difference, # ours
                 word:str,     # ours, of `after_rates`
                 effect:float, # the paper's difference to base, in nats
                )->str:        # agrees, disagrees, undecided
    "The paper's word is a region; ours disagrees if no point of its interval lies there"
    is_equal = abs(effect) < MARGIN
    theirs = 'equal' if is_equal else 'worse' if effect > 0 else 'better'
    if word == theirs: return 'agrees'
    outside = {'worse':  d.high < MARGIN,
               'better': d.low > -MARGIN,
               'equal':  d.low > MARGIN or d.high < -MARGIN}
    if word == 'depends on the learning rate': return 'undecided'
    return 'disagrees' if outside[theirs] else 'undecided'

def judge_heads(results:list[dict])->tuple: # the chosen row, and two Differences to it
    "The best of 2, 4 and 8 heads by seeds 0 to 4, against 1 and 16 heads on seeds 5 to 9"
    def mean_loss(row):
        first = {r['seed']: r['valid_loss'] for r in results if r['row'] == row}
        return sum(first[seed] for seed in range(5))
    chosen = min(('A2', 'base', 'A8'), key=mean_loss)
    later = [r for r in results if 5 <= r['seed'] < 10]
    differences = {}
    for row in ('A1', 'A16'): # each a question of its own
        pair = [r for r in later if r['row'] in (chosen, row)]
        differences |= compare_rows(pair, base=chosen)
    return chosen, differences

LADDERS = { # rows and their sizes
    'd_k':     {'B4': 4, 'B8': 8, 'base': 16},
    'N':       {'C-N1': 1, 'C-N2': 2, 'base': 3, 'C-N4': 4},
    'd_model': {'C-d32': 32, 'base': 64, 'C-d128': 128},
    'd_ff':    {'C-ff128': 128, 'base': 256, 'C-ff512': 512}}

class Slope(NamedTuple):
    "Of the loss, in nats per doubling of a size"
    mean: float
    low: float  # 95 % interval
    high: float
    p: float    # two-sided

def slope(results:list[dict], ladder:dict[str,float], rate:float=1)->Slope:
    "Least squares for each seed, and Student's interval over seeds"
    names = [row if rate == 1 else f'{row}@{rate}' for row in ladder]
    losses = {(r['row'], r['seed']): r['valid_loss'] for r in results}
    seeds = whole_seeds(results, names)
    x = np.log2([*ladder.values()])
    slopes = [np.polyfit(x, [losses[row, seed] for row in names], 1)[0] for seed in seeds]
    mean, low, high = mean_interval(slopes)
    error = stdev(slopes) / sqrt(len(slopes))
    return Slope(mean, low, high, t_p_value(mean / error, len(slopes) - 1))

def trends(results:list[dict])->dict[str,Slope]: # with p corrected by Holm's method
    slopes = {name: slope(results, ladder) for name, ladder in LADDERS.items()}
    corrected = holm([s.p for s in slopes.values()])
    return {name: slopes[name]._replace(p=p) for name, p in zip(slopes, corrected)}

def direction(slopes:list[Slope])->str: # agrees, disagrees, undecided
    "Of the claim that losses fall along all of these ladders"
    signs = [np.sign(s.mean) if s.p <= 0.05 else 0 for s in slopes]
    if 1 in signs: return 'disagrees'
    return 'agrees' if set(signs) == {-1} else 'undecided'
