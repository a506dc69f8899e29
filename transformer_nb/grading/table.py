"""What the stages of *Build it yourself* ask: a row for each check

A check is a signature of the engine, with points, a title, and where the book tells of it.
Whoever adds a row closes a hole for every submission."""
import torch
from collections import Counter
from dataclasses import dataclass, replace
from torch import Tensor
from zlib import crc32
from ..assignment.config import TransformerConfig
from ..assignment.right.bpe import merge
from ..support.core import BOS, PAD
from ..proving.draw import (
    LONGER, Case, Causal, Choice, Ids, Later, Made, Mask, Memory, Numbers, Padding, Part,
    Size)
from .toys import Batches, Net, Steep, Steps, SubLayer, Toy, searched, steps_of

@dataclass(frozen=True)
class Check:
    points: int
    title: str
    part: Part
    read: tuple                # chapter and heading
    ignored: tuple = ()        # what another check asks
    expected: dict|None = None # what is right, where the book's version is not run
    tries: int = 0             # changes of a text, where it is wrong: see `proving.repair`

@dataclass(frozen=True)
class Stage:
    "A file of the kit"
    number: int
    file: str
    title: str
    checks: tuple
    optional: bool = False

    @property
    def points(self)->int: return sum(check.points for check in self.checks)
    @property
    def module(self)->str: return self.file.removesuffix('.py')

    def keyed(self, key:str, numbers:tuple=())->'Stage': # with its sizes and numbers
        def seeded(check):
            seed = crc32(f'{key}/{check.title}'.encode())
            return replace(check, part=replace(check.part, seed=seed, numbers=numbers))
        return replace(self, checks=tuple(map(seeded, self.checks)))

# What several rows draw

DROPS = 2, 6 # the numbers of the cases in which something is dropped

def dropout(case:Case)->float: return {2: .25, 6: .6}.get(case.n, 0.)

def config(case:Case)->TransformerConfig:
    return TransformerConfig(
        case.size('w'), d_model=case.size('d'), d_ff=case.size('f'), n_heads=case.size('h'),
        d_k=case.size('k'), d_v=case.size('v'), dropout=dropout(case),
        n_encoder_layers=case.size('N'), n_decoder_layers=case.size('M'),
        max_len=max(14, LONGER + case.size('s'), LONGER + case.size('t')))

def vocabulary(case:Case)->int: # first a large one
    return 400 if case.n == 0 else 12 + case.n % 7

def table(case:Case)->int: # with many first values
    return 40_000 // case.size('d') if case.n == 0 else vocabulary(case)

def usual(case:Case)->int: # d_model, which is h·d_k in some cases
    if case.kind == 'unlike': return case.pool.pop()
    return case.size('h') * case.size('k')

def real(x, mask:Tensor): # positions that are padding do not count
    if not isinstance(x, Tensor) or x.shape[:2] != mask.shape: return x
    return x * mask.view(*mask.shape, *[1] * (x.dim() - 2))

HEADS = dict(query=Numbers('b h t k', heads=True), key=Numbers('b h s k', heads=True),
             value=Numbers('b h s v', heads=True))
def attention(mask:Mask|None=None, cases:int=24)->Part:
    calls = HEADS if mask is None else HEADS | dict(mask=mask)
    return Part('scaled_dot_product_attention', {'': calls}, cases=cases, back=both)
def both(y, kit): return (kit.heads(y[0]), *y[1:]) if kit else y
def own_mask(y, kit): return kit.allowed(y) if kit else y

EQ1 = '01_attention', 'Eq. (1): all queries at once'
MASKED = '01_attention', 'A mask takes keys away'
EMPTY = '01_attention', 'Aside: no NaN, forward or backward'
TWO_MASKS = '02_multihead', 'Three uses, two masks'

ATTENTION = (
    Check(4, 'attention without a mask', attention(), EQ1),
    Check(4, 'attention with a mask',
          attention(Mask('b h t s', needed=True, empty=False), 48), MASKED),
    Check(1, 'a query that may attend to nothing gets zeros',
          attention(Mask('b h t s', needed=True), 32), EMPTY),
    Check(2, 'which keys padding_mask hides', Part(
        'padding_mask', {'': dict(ids=Ids('b s', least=1, empty=True))}, sizes=dict(w=vocabulary),
        back=own_mask), TWO_MASKS),
    Check(1, 'which keys causal_mask hides', Part(
        'causal_mask', {'': dict(t=Made(lambda case: case.size('t') + 1100 * (case.n == 6)))},
        back=own_mask, cases=12), TWO_MASKS))

HEADS_NEW = dict(d_model=Size('d'), n_heads=Size('h'), d_k=Size('k'), d_v=Size('v'))
def multihead(calls:dict, cases:int)->Part:
    return Part('MultiHeadAttention', calls, HEADS_NEW, cases, sizes=dict(d=usual))
X, READ = Numbers('b t d'), Numbers('b s d')
MULTIHEAD = (
    Check(1, 'shapes of the parameters, without biases', multihead({}, 3),
          ('02_multihead', 'Queries, keys and values')),
    Check(4, 'self-attention', multihead({'': dict(x=X)}, 20),
          ('02_multihead', 'Queries, keys and values'), ('parameters',)),
    Check(3, 'attention to a memory', multihead({'': dict(x=X, memory=READ)}, 20),
          TWO_MASKS, ('parameters',)),
    Check(4, 'attention with masks', multihead(
        {'': dict(x=X, memory=Memory('b s d'), mask=Mask('b h t s', needed=True, empty=False))},
        40), TWO_MASKS, ('parameters',)))

FF, NORM = ('03_layers', 'The feed-forward network'), ('03_layers', 'Layer normalization')
RESIDUAL = '03_layers', 'Residual connections'
FF_NEW = dict(d_model=Size('d'), d_ff=Size('f'))
SUB = Made(lambda case: SubLayer(case.has('the sub-layer gives its input back', .2)))
ANY = Numbers('b t d', free=True)
LAYERS = (
    Check(1, 'FeedForward: shapes of the parameters', Part('FeedForward', {}, FF_NEW, 3), FF),
    Check(2, 'FeedForward: the output', Part('FeedForward', {'': dict(x=ANY)}, FF_NEW), FF,
          ('parameters',)),
    Check(3, 'LayerNorm', Part(
        'LayerNorm', {'': dict(x=ANY)}, dict(d_model=Size('d'), eps=Choice((1e-5, ..., .5),
        'eps')), first=('weight', 'bias'), single=True), NORM),
    Check(3, 'ResidualNorm in evaluation mode', Part(
        'ResidualNorm', {'': dict(x=X, sublayer=SUB)},
        dict(d_model=Size('d'), dropout=Choice((0., .4)))), RESIDUAL),
    Check(1, "the sub-layer's own arguments", Part(
        'ResidualNorm', {'': dict(x=X, sublayer=SUB, more=Choice((3., 5., None)),
                                  added=Choice((2., None, 4.)))},
        dict(d_model=Size('d'), dropout=Choice((0.,))), 24), RESIDUAL), # also by name
    Check(2, 'ResidualNorm in training mode', Part(
        'ResidualNorm', {'': dict(x=X, sublayer=Made(lambda case: SubLayer(case.n == 6)))},
        dict(d_model=Size('d'), dropout=Made(dropout)), 8, drops=DROPS),
        ('03_layers', 'Dropout')))

EMBED, SINES = ('04_embedding', 'One matrix, three uses'), ('04_embedding', 'Sinusoids')
EMBED_NEW = dict(vocab_size=Size('w'), d_model=Size('d'))
POSITIONS_NEW = dict(d_model=Size('d'), dropout=Made(dropout),
                     max_len=Made(lambda case: case.size('t') + LONGER * (case.n % 2)
                                  + case.random.randrange(3)))
EMBEDDING = (
    Check(2, 'vectors of token ids', Part(
        'Embedding', {'': dict(ids=Ids('b t', least=1, padded=False))}, EMBED_NEW,
        first=('weight',), sizes=dict(w=table)), EMBED),
    Check(1, 'logits', Part('Embedding', {'logits': dict(x=X)}, EMBED_NEW,
                            sizes=dict(w=vocabulary)), EMBED, ('parameters',)),
    Check(4, 'the table of sinusoids', Part(
        'positional_encoding', {'': dict(
            n_positions=Made(lambda case: case.size('t') * (1, 1, 40)[case.n % 3]),
            d_model=Made(lambda case: 2 * case.size('d')))}, tolerance=1e-4), SINES),
    Check(2, 'the sum, in evaluation mode', Part(
        'PositionalEncoding', {'': dict(x=X)}, POSITIONS_NEW, tolerance=1e-4, even='d'),
        SINES),
    Check(1, 'the sum, in training mode', Part(
        'PositionalEncoding', {'': dict(x=X)}, POSITIONS_NEW, 8, drops=DROPS,
        tolerance=1e-4, even='d'), ('03_layers', 'Dropout')))

NEW = dict(config=Made(config))
SRC, TGT = Ids('b s', empty=True), Ids('b t', first=BOS)
def of_source(y, args): return real(y, args[1][:, 0, 0])
def of_target(y, args): return real(y, args[1] != PAD)
def of_memory(y, args): return real(y, args[0] != PAD)
def deep(*n): return lambda case: 1 if case.is_big else n[case.n % len(n)]
def model(name, calls, cases=10, **options)->Part:
    stacks = dict(N=deep(2, 1, 3), M=deep(3, 2, 1)) if name == 'Transformer' else dict(N=1, M=1)
    sizes = dict(w=vocabulary, **stacks) | options.pop('sizes', {})
    exact = 1e-3 if name == 'Transformer' else 1e-5 # a table of positions is in float32
    return Part(name, calls, NEW, cases, sizes=sizes, even='d', tolerance=exact, **options)
DECODER = {'': dict(x=X, memory=READ, mask=Causal('t'), memory_mask=Padding('b s'))}
DECODE = {'decode': dict(tgt=Ids('b t', first=BOS, padded=False),
                         memory=Numbers('b s d', scaled=False), memory_mask=Padding('b s'))}
PADDED = '05_model', 'Aside: padding moves no logit'
MODEL = (
    Check(2, 'an encoder layer', model('EncoderLayer', {'': dict(x=READ, mask=Padding('b s'))},
                                       shown=of_source, drops=(2,), chance=False),
          ('05_model', 'One layer of the encoder')),
    Check(4, 'a decoder layer', model('DecoderLayer', DECODER),
          ('05_model', 'One layer of the decoder')),
    Check(2, 'the memory', model('Transformer', {'encode': dict(src=SRC)}, 8,
                                 first=('embedding.weight',), shown=of_memory,
                                 sizes=dict(w=table)), PADDED),
    Check(2, 'the decoder', model('Transformer', DECODE, 8), PADDED, ('parameters',)),
    Check(4, 'the logits', model('Transformer', {'': dict(src=SRC, tgt=TGT), **DECODE}, 8,
                                 shown=of_target, first=('norm.weight', 'norm.bias'),
                                 sizes=dict(N=deep(2, 1, 3, 2, 1, 11, 2, 1),
                                            M=deep(3, 2, 1, 3, 2, 11, 3, 2))), PADDED,
          ('parameters',)),
    Check(1, 'layers in training mode', model('DecoderLayer', DECODER, 3, drops=(2,), chance=False),
          ('05_model', 'Aside: where dropout acts'), ('parameters',)),
    Check(1, 'the model in training mode', model(
        'Transformer', {'': dict(src=SRC, tgt=TGT)}, 3, shown=of_target, drops=(2,), chance=False),
          ('05_model', 'Aside: where dropout acts'), ('parameters',)))

STEPS = 1, 10, 4000, 3999, 4001, 100_000, 7
def labels(case:Case)->Tensor:
    b, t = case.shape('b t')
    ids = torch.randint(1, case.size('w'), (b, t), generator=case.torch)
    if case.has('all labels are padding', .1): return 0 * ids
    if not case.has('there is padding', .7): return ids
    return ids.masked_fill(torch.rand(b, t, generator=case.torch) < .3, PAD)
def loss(cases:int, **options)->Part:
    args = dict(logits=Numbers('b t w'), labels=Made(labels)) | options
    return Part('smoothed_loss', {'': args}, cases=cases, sizes=dict(w=vocabulary),
                single=True)
LOSS = '06_optimizer', 'The loss, and why it never reaches zero'
RATE = '06_optimizer', 'The learning rate'
OPTIMIZER = (
    Check(4, 'the learning rate', Part('paper_lr', {'': dict(
        step_num=Choice(STEPS, 'step_num'), d_model=Choice((512, 64, 1024, 6), 'd_model'),
        warmup_steps=Choice((4000, ..., 100, 16), 'warmup_steps'))}, cases=50,
        tolerance=1e-9), RATE),
    Check(2, "the optimizer's constants and parameters", Part(
        'make_adam', {'': dict(model=Made(
            lambda case: Net(case.n, case.has('gradients are tiny'))))}, shown=steps_of, cases=8),
        ('06_optimizer', 'Adam')),
    Check(1, 'cross-entropy, without smoothing', loss(12, label_smoothing=Choice((0.,))), LOSS),
    Check(3, 'the smoothed loss', loss(32, label_smoothing=Choice((.1, ..., .3, .05), 'ε')), LOSS))

def sequences(case:Case)->Tensor: return Ids('b t', empty=True).draw(case)
def batches(case:Case)->Batches:
    if case.n == 5: return Batches([torch.tensor([[5, 0], [5, 0]])] * 30) # soon learned
    return Batches([case.laid(Ids('b t').draw(case)) for _ in range(case.size('n'))])
def sgd(case:Case)->Later: # of the model, which comes first
    has_gradients = case.has('there are gradients from before', .4)
    def made(args)->torch.optim.Optimizer:
        groups = [dict(params=[p], lr=.3) for p in args[0].parameters()]
        for p in args[0].parameters():
            if has_gradients: p.grad = torch.ones_like(p)
        return torch.optim.SGD(groups, momentum=.5)
    return Later(made)
def rate(step:int)->float: return .02 * (step + 3) / step**.5
def losses(y, args): # as numbers; a tensor that keeps its graph is none
    return ['keeps its graph' if getattr(x, 'requires_grad', False) else float(x) for x in y]
def toy(case:Case)->Toy:
    is_steep = case.n in (9, 13) # of one batch: what rounding does would grow with more
    if is_steep: case.features.add('gradients are large')
    made = (Steep if is_steep else Toy)(case.random.randrange(10**6), case.size('w'))
    made.train(case.n % 2 == 1)
    if case.n % 4 == 3:
        case.features.add('the model is in training mode, but a part of it is not')
        made.inner.eval()
    return made
TOY = Made(toy)
LOOP = '07_copy_task', 'The training loop'
TRAINING = (
    Check(2, 'source, target and labels', Part(
        'shifted', {'': dict(seqs=Made(sequences))}, sizes=dict(w=vocabulary)),
        ('05_model', 'The shift by one')),
    Check(2, 'the mean loss of a batch', Part(
        'copy_loss', {'': dict(model=TOY, seqs=Made(sequences))}, sizes=dict(w=vocabulary)),
        ('07_copy_task', 'From a sequence to a batch')),
    Check(6, 'the weights after some steps, and the losses', Part(
        'train', {'': dict(model=TOY, optimizer=Made(sgd),
                           batches=Made(batches), lr_of=Made(
                               lambda case: (lambda step: 2.) if case.n == 5 else rate))},
        shown=losses, cases=16, sizes=dict(
            w=vocabulary, n=lambda case: (3, 1, 4, 7)[case.n % 4])), LOOP,
        ('model.training afterward',), tries=200)) # in which mode it is left is free

SOURCE, ALONE = Ids('b s', vocab='8'), Ids('1 s', vocab='8')
def without_pad(y, args): # a beam's output may keep <pad> and <s>, or not
    return ([i for i in y[0] if i not in (PAD, BOS)], *y[1:])
def searches(cases:int, alpha)->Part:
    return Part('beam_search', {'': dict(
        model=Made(searched), src=ALONE, beam_size=Choice((2, 1, 3, 4, 8, 12), 'the beam'),
        alpha=alpha, max_steps=Steps((9, 14, 4, 2, 40)))}, cases=cases,
        shown=without_pad, batched=True)
DECODING = (
    Check(4, 'greedy search', Part('greedy', {'': dict(
        model=Made(searched), src=SOURCE, max_steps=Steps((9, 5, 2, 1, 30)))}, cases=40,
        batched=True), ('13_decoding', 'Many sentences at once')),
    Check(1, 'the length penalty', Part('length_penalty', {'': dict(
        n=Choice((1, 7, 20, 2), 'n'), alpha=Choice((.6, 0., 1., 2.)))}, tolerance=1e-9),
        ('13_decoding', 'The best sentence is not the likeliest: the length penalty')),
    Check(3, 'beam search without a length penalty', searches(40, Choice((0.,))),
          ('13_decoding', 'When to stop')),
    Check(4, 'beam search', searches(140, Choice((.6, 1., 2., .3), 'alpha')),
          ('13_decoding', 'The best sentence is not the likeliest: the length penalty')))

WORDS = ('banana', 'ananas', 'nasss', 'x', 'aaaa', 'abab', 'low', 'lower', 'newest', 'widest',
         'a.b(a.b)', 'Straße')
def counts(case:Case)->dict:
    words = case.random.sample(WORDS, 1 + case.n % 6 if case.n != 11 else 0)
    case.words = {word: 1 + case.random.randrange(4) for word in words}
    return case.words
def word(case:Case)->str:
    case.word = WORDS[0] if case.n < 2 else case.random.choice((*WORDS, ''))
    return case.word
def merges(case:Case)->list: # joins in some order, of which some never come
    drawn = case.random.sample([('a', 'n'), ('an', 'a'), ('b', 'an'), ('s', 's'), ('n', 'a'),
                                ('a', 'b'), ('ab', 'ab'), ('e', 's'), ('es', 't'), ('a', 'a'),
                                ('l', 'o'), ('lo', 'w'), ('a', '.'), ('a.', 'b')], 14)
    drawn = sorted(drawn, key=lambda p: ''.join(p) not in case.word)[:8] # those that can come
    case.random.shuffle(drawn)
    symbols = [*case.word]
    for a, b in drawn:
        if any(x.endswith(a) and y.startswith(b) and (x, y) != (a, b)
               for x, y in zip(symbols, symbols[1:])):
            case.features.add('longer symbols end and begin as a pair does')
        symbols = merge(symbols, (a, b))
    return drawn

class NMerges(Choice):
    def draw(self, case):
        n, cut = super().draw(case), [([*word], k) for word, k in case.words.items()]
        for _ in range(n):
            counts = Counter()
            for symbols, k in cut: counts.update(k * [*zip(symbols, symbols[1:])])
            most = [pair for pair in counts if counts[pair] == max(counts.values())]
            if len(most) > 1: case.features.add('several pairs are the most frequent')
            if most: cut = [(merge(symbols, min(most)), k) for symbols, k in cut]
        return n
BPE = (
    Check(3, 'the merges of a small text', Part('learn_bpe', {'': dict(
        words=Made(counts), n_merges=NMerges((3, 1, 0, 6, 40), 'n_merges'))},
        shown=lambda y, _: repr([tuple(p) for p in y]), cases=40),
        ('08_text', 'Byte-pair encoding')),
    Check(2, 'words cut by given merges', Part('apply_bpe', {'': dict(
        word=Made(word), merges=Made(merges))}, shown=lambda y, _: repr(list(y)), cases=60),
        ('08_text', 'Byte-pair encoding')))

MODERN = (
    Check(3, 'turned vectors', Part('rotate', {'': dict(x=Numbers('b h t k'))}, even='k',
                                    tolerance=1e-4), ('20_since_2017', 'Rotary positions')),
    Check(2, 'attention with groups of heads', Part('grouped_attention', {'': dict(
        query=Numbers('b h t k', heads=True), key=Numbers('b g s k', heads=True),
        value=Numbers('b g s v', heads=True), mask=Mask('b h t s'))},
        sizes=dict(g=lambda case: 1 + case.n // 2 % 3, h=lambda case: case.size('g') * (1 + case.n % 4)),
        back=lambda y, kit: kit.heads(y) if kit else y, cases=32),
        ('20_since_2017', 'Fewer keys and values')))

FIRST = [
    Stage(1, 'attention.py', 'attention and masks', ATTENTION),
    Stage(2, 'multihead.py', 'several heads', MULTIHEAD),
    Stage(3, 'layers.py', 'feed-forward, residual, normalization', LAYERS),
    Stage(4, 'embedding.py', 'embedding and positions', EMBEDDING),
    Stage(5, 'model.py', 'encoder, decoder, whole model', MODEL),
    Stage(6, 'optimizer.py', 'schedule and label smoothing', OPTIMIZER),
    Stage(7, 'training.py', 'the training loop', TRAINING),
    Stage(8, 'decoding.py', 'greedy and beam search', DECODING)]
OPTIONAL = [
    Stage(10, 'bpe.py', 'byte-pair encoding', BPE, optional=True),
    Stage(11, 'modern.py', 'rotary positions, grouped queries', MODERN, optional=True)]
