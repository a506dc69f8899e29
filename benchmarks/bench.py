#!/usr/bin/env python3
"""Speed and memory, measured on this machine: one JSON object per line, read by chapter 19.

    python benchmarks/bench.py --out FILE [--parts PART,PART]
    python benchmarks/bench.py --out /tmp/FILE --quick     # does everything work?

Lines that FILE has of other machines, or of other parts, stay. The allocator and the
threads belong to a whole process, so every measurement runs in a process of its own. In a
line, `memory_kept` says whether freed memory was kept, as `accelerate` does for the
commands; `processes` is the number of processes, and `threads` that of the threads of each.
"""
import json, os, subprocess, sys
from argparse import ArgumentParser
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from shutil import which
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from unittest import mock
import torch
import transformer_nb
from torch import nn
from torch.profiler import record_function
from transformer_nb.attention import scaled_dot_product_attention
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.support.core import (
    PAD, InputError, command, provenance, write_atomically)
from transformer_nb.corpora import corpus_folder, load_corpus
from transformer_nb.data import Batch, TokenBatches, encode_pairs
from transformer_nb.decoding import Beams, power_penalty
from transformer_nb.support.distributed import (
    broadcast_from_rank0, process_group, rank, world_size)
from transformer_nb.commands import tnb_export
from transformer_nb.speed.fast import (HAS_ONEDNN, USE_ONEDNN, FastDropout, accelerate,
                                 by_onednn, exchange, keep_freed_memory, unaccelerate)
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam
from transformer_nb.text import BPETokenizer
from transformer_nb.training import TrainingConfig, batch_groups, train_step, wrap_model
from transformer_nb.translation import Translator
from transformer_nb.studies.layer_types import PeakMemory
from transformer_nb.studies.performance import (
    Marian, OpCounter, TorchTransformer, compared, interleave, product_seconds, seconds_of,
    where_time_goes)

WIDE = dict(
    d_model=512,
    d_ff=2048,
    n_heads=8,
    n_encoder_layers=3,
    n_decoder_layers=3,
    dropout=0.1)
SIZES = dict(tiny={}, d512=WIDE) # beside the preset tiny
BATCH_TOKENS = dict(tiny=4096, d512=1024) # at most, on either side
GROWTH = dict(
    length=(32, 64, 128, 256, 512),
    width=(64, 128, 256, 512),
    depth=(1, 2, 4, 8),
    batch=(2, 4, 8, 16, 32),
    vocabulary=(1000, 2000, 4000, 8000, 16000))
BEAMS = (1, 2, 4, 8, 16)
SHARED = dict(inter_threads=1, intra_threads=2) # CTranslate2: all threads in each operation
EACH = dict(inter_threads=2, intra_threads=1, batch_tokens=1024) # or one for each batch
OUR_DECODERS = {
    'ours': {},
    'ours, two processes': dict(threads=1, processes=2),
    'ours, one thread': dict(threads=1),
    "ours, CTranslate2's rule": dict(early=True)}
THEIR_DECODERS = {
    'CTranslate2': SHARED,
    'CTranslate2, one thread each': EACH,
    'CTranslate2, one thread': dict(inter_threads=1, intra_threads=1),
    'CTranslate2, one thread each, larger batches': EACH | dict(batch_tokens=4096),
    'CTranslate2, one thread each, memory as it is': EACH,
    'CTranslate2, one thread each, patience 2': EACH | dict(patience=2),
    'CTranslate2, one thread each, patience 5': EACH | dict(patience=5),
    'CTranslate2, one thread each, patience 10': EACH | dict(patience=10),
    'CTranslate2, one thread each, 8 bits': EACH | dict(compute_type='int8')}
WIDE_DECODERS = (
    'ours',
    'CTranslate2',
    'ours, two processes',
    'CTranslate2, one thread each')
DECODERS = (
    *WIDE_DECODERS,
    'ours, one thread',
    'CTranslate2, one thread',
    "ours, CTranslate2's rule",
    *[name for name in THEIR_DECODERS if name.startswith('CTranslate2, one thread each, ')])
CPU = torch.device('cpu')

# A model and its training

def faster_layers(model):
    "What `accelerate` does to the model; what becomes of freed memory, `measure` decides"
    with mock.patch('transformer_nb.speed.fast.keep_freed_memory'): return accelerate(model)

def encoded(corpus): # English to German, a vocabulary of 6,000
    pairs = load_corpus(corpus, 'en', 'de')['train']
    bpe = BPETokenizer.train((text for pair in pairs for text in pair), 6000)
    ids, _ = encode_pairs(pairs, bpe, 512)
    return ids, bpe.vocab_size

def load_task(size, corpus, batch_tokens):
    "A model of ours and its batches"
    ids, vocab_size = broadcast_from_rank0(lambda: encoded(corpus))
    torch.manual_seed(0)
    config = TransformerConfig.tiny(vocab_size, **SIZES[size])
    return faster_layers(Transformer(config)), TokenBatches(ids, batch_tokens)

def other_adam(model, **how):
    "Our Adam, but not in one fused loop"
    return torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, **how)

fused_adam = partial(adam, fused=True)

def stepper(model, make_optimizer=fused_adam, compile=False):
    "A function that takes a step with a group of batches, one for each process"
    network = wrap_model(model.train(), TrainingConfig(compile=compile))
    optimizer = make_optimizer(model)
    def step(group):
        [n_tokens] = target_tokens([group])
        mine = [group[rank()]]
        train_step(network, optimizer, mine, 1e-4, label_smoothing=0.1, n_tokens=n_tokens)
    return step

def first_groups(batches, n, epoch):
    "The first n groups of batches, each with a batch for every process"
    groups = islice(batch_groups(batches, world_size(), epoch), n)
    return [[batches.batch(rows) for rows in group] for _, _, group in groups]

def target_tokens(groups): # of each group
    return [sum(batch.n_tokens for batch in group) for group in groups]

# Training beside the peers, and beside ourselves with one thing changed

@torch.no_grad()
def logits_of(model, batch): # at real positions
    return model.eval()(batch.src, batch.tgt)[batch.labels != PAD]

def training(n, size, round, **options): # in every round the arrangements take turns
    "Ours and, in one process, two peers take turns at n steps, after six that warm up"
    alone = world_size() == 1
    if alone: import transformers # noqa: F401 where it is missing, nothing is loaded first
    ours, batches = load_task(size, **options)
    models = dict(ours=ours)
    if alone: models |= dict(torch=TorchTransformer(ours), Marian=Marian(ours))
    groups = first_groups(batches, n + 6, round)
    logits = {name: logits_of(model, groups[0][0]) for name, model in models.items()}
    systems = {name: stepper(model) for name, model in models.items()}
    rows = compared(interleave(systems, groups, warm_up=6), target_tokens(groups[6:]))
    parameters = sum(p.numel() for p in ours.parameters())
    for row in rows:
        difference = logits[row['system']] - logits['ours']
        row['logit_difference'] = difference.abs().max().item()
        row['parameters'] = parameters
    return rows

def by_other_library(model):
    "Large products by MKL where ours takes oneDNN, and the other way round"
    step = stepper(model)
    def other(group):
        use = HAS_ONEDNN and not USE_ONEDNN
        with mock.patch('transformer_nb.speed.fast.USE_ONEDNN', use): step(group)
    return other

def variants(n, size, round, **options): # in every round all take turns
    "Ours beside itself with one thing changed: a row for each"
    ours, batches = load_task(size, **options)
    def copy(): return deepcopy(ours)
    library = 'MKL' if USE_ONEDNN else 'oneDNN'
    one_parameter = partial(other_adam, foreach=False)
    one_operation = partial(other_adam, foreach=True)
    systems = {
        'ours': stepper(copy()),
        'nn.Dropout': stepper(exchange(copy(), {FastDropout: nn.Dropout})),
        'plain layers': stepper(unaccelerate(copy())),
        f'products by {library}': by_other_library(copy()),
        'Adam, one parameter at a time': stepper(copy(), one_parameter),
        'Adam, one operation at a time': stepper(copy(), one_operation)}
    if which('g++'):
        systems['plain layers, torch.compile'] = stepper(unaccelerate(copy()), compile=True)
    groups = first_groups(batches, n + 6, round)
    return compared(interleave(systems, groups, warm_up=6), target_tokens(groups[6:]))

# What a step needs, and where its time goes

def one_batch(size, **options):
    "A step on the same rows again and again, the making of their batch included"
    model, batches = load_task(size, **options)
    step, rows = stepper(model), batches.plan(0)[0]
    def whole():
        with record_function('data'): batch = batches.batch(rows)
        step([batch])
    return whole, batches.batch(rows)

def plain_attention(q, k, v, mask): # the fused kernel hides its products
    return scaled_dot_product_attention(q, k, v, mask)[0]

def fastest(func, n): # seconds: a limit is what the machine can do, not what it often does
    return min(interleave({'it': lambda _: func()}, range(n + 2))['it'])

def square_rate(n): # FLOP/s of a large product, by the faster library
    square = torch.randn(2048, 2048)
    libraries = [torch.matmul]
    if HAS_ONEDNN: libraries.append(by_onednn)
    seconds = [fastest(partial(multiply, square, square), n) for multiply in libraries]
    return 2*2048**3 / min(seconds)

def bandwidth(n): # bytes read or written per second
    x, y = torch.ones(2**26), torch.ones(2**26)
    return 2*x.nbytes / fastest(lambda: y.copy_(x), n)

def limit(n, **options):
    "What a step computes and moves, and how fast this machine is at both: one row"
    step, batch = one_batch(**options)
    with OpCounter() as fused: step()
    with mock.patch('transformer_nb.multihead.attention', plain_attention):
        with OpCounter() as counted: step()
    return [dict(
        tokens=batch.n_tokens,
        flops=counted.flops,
        bytes=fused.bytes,
        step=seconds_of(step, n),
        products=product_seconds(counted.products),
        square_rate=square_rate(n),
        bandwidth=bandwidth(n))]

def parts(n, **options):
    "Where the time of a step goes, mean of n: a row for each part"
    step, _ = one_batch(**options)
    for _ in range(5): step() # warms up
    where_time_goes(step)     # the profiler, too
    total = Counter()
    for _ in range(n): total.update(where_time_goes(step))
    return [dict(name=name, seconds=seconds/n) for name, seconds in total.most_common()]

# How cost grows

def cost(func, n):
    with PeakMemory() as memory: func()
    return dict(seconds=seconds_of(func, n), peak=memory.peak)

def step_of_size(length=64, width=128, depth=2, batch=8, vocabulary=1000):
    "A training step whose time and memory can be measured"
    config = TransformerConfig.tiny(
        vocabulary,
        d_model=width,
        d_ff=2*width,
        n_encoder_layers=depth,
        n_decoder_layers=depth)
    step = stepper(faster_layers(Transformer(config)))
    ids = torch.randint(4, vocabulary, (batch, length))
    group = [Batch(ids, ids, ids, ids.numel())]
    return lambda: step(group)

def growth(n, axis):
    "The cost of a step as one size grows and the others stay: a row for each value"
    rows = []
    for value in GROWTH[axis]:
        step = step_of_size(**{axis: value})
        rows.append(dict(axis=axis, value=value) | cost(step, n))
    return rows

# Decoding

def widened(model):
    """A model four times as wide that computes the same function.

    Each number of a vector stands there four times, and whatever sums over a vector
    divides by that. The inner layer is eight times as wide; there are twice as many heads,
    each twice as long.
    """
    c = model.config
    config = replace(
        c,
        d_model=4*c.d_model,
        d_ff=8*c.d_ff,
        n_heads=2*c.n_heads,
        d_k=2*c.d_k,
        d_v=2*c.d_v,
        positions='learned',
        tie_embeddings=False)
    wide = Transformer(config).to(model.output.weight)
    state = {name: widened_weight(name, x, c) for name, x in model.state_dict().items()
             if name.startswith(('encoder', 'decoder'))}
    wide.load_state_dict(state | widened_embeddings(model))
    return wide.eval()

def double_heads(x, d_head): # rows: twice as many heads, each twice as long
    heads = x.unflatten(0, (-1, d_head))
    return heads.repeat_interleave(2, 0).repeat(1, 2, 1).flatten(0, 1)

def widened_weight(name, x, config):
    "A parameter of a layer: rows (outputs) are repeated, columns (inputs) averaged"
    if x.dim() == 1: return x.repeat(8 if 'inner' in name else 4)
    d_k, d_v = config.d_k, config.d_v
    layer = name.split('.')[-2]
    # A score sums over twice as many products, and is divided by a root √2 times as large.
    if layer == 'query': x = double_heads(x, d_k) / 2**0.5
    elif layer == 'key': x = double_heads(x, d_k)
    elif layer == 'value': x = double_heads(x, d_v)
    elif layer == 'inner': x = x.repeat(8, 1)
    else: x = x.repeat(4, 1)
    if layer == 'output': return double_heads(x.T, d_v).T / 4
    if layer == 'outer': return x.repeat(1, 8) / 8
    return x.repeat(1, 4) / 4

def widened_embeddings(model):
    "Embeddings are multiplied by √d, which doubles; logits sum four times as many products"
    def wide(weight): return weight.repeat(1, 4)
    return {
        'embeddings.0.weight': wide(model.src_embedding.weight) / 2,
        'embeddings.1.weight': wide(model.tgt_embedding.weight) / 2,
        'embeddings.2.weight': wide(model.output.weight) / 4,
        'src_positions.table': wide(model.src_positions.table),
        'tgt_positions.table': wide(model.tgt_positions.table)}

def english_sentences(corpus, n): # of the test set
    pairs = load_corpus(corpus, 'en', 'de')['test'][:n]
    return [source for source, _ in pairs]

def our_translator(folder, threads=None, early=False):
    "A function that gives the token ids of the best translation of each text"
    if threads: torch.set_num_threads(threads)
    ours = Translator(folder, CPU, penalty=power_penalty)
    def best(texts): return [found[0].ids for found in ours.search(texts)]
    if not early: return best
    ours.options['n_best'] = 4
    def stop(beams): # once as many hypotheses have ended as there are beams
        has_all = (beams.best.scores > -torch.inf).all(1)
        return has_all | (beams.limits == beams.n)
    return mock.patch.object(Beams, 'done', stop)(best)

def start_worker(folder, threads): # of several processes, each with its own translator
    global best_of_worker
    best_of_worker = our_translator(folder, threads)

def work(texts): return best_of_worker(texts)

def in_processes(folder, threads, processes):
    "The same by several processes; each gets every second of the texts, longest first"
    pools = [ProcessPoolExecutor(1, get_context('spawn'), start_worker, (folder, threads))
             for _ in range(processes)]
    def best(texts):
        longest_first = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        shares = [longest_first[i::processes] for i in range(processes)]
        asked = [pool.submit(work, [texts[i] for i in share])
                 for pool, share in zip(pools, shares) if share]
        found = {}
        for share, answer in zip(shares, asked): found.update(zip(share, answer.result()))
        return [found[i] for i in range(len(texts))]
    return best

def their_translator(folder, patience=1, compute_type='float32', batch_tokens=4096,
                     **threads):
    "The same by CTranslate2, with our weights and our tokens"
    import ctranslate2
    with TemporaryDirectory() as d:
        tnb_export(folder, f'{d}/model')
        engine = ctranslate2.Translator(f'{d}/model', compute_type=compute_type, **threads)
    bpe = BPETokenizer.load(Path(folder, 'tokenizer.json'))
    id_of = bpe.tokenizer.get_vocab()
    piece_of = {i: piece for piece, i in id_of.items()}
    def best(texts):
        rows = bpe.encode_batch(texts)
        found = engine.translate_batch(
            [[piece_of[i] for i in ids] for ids in rows],
            beam_size=4,
            length_penalty=0.6,
            patience=patience,
            batch_type='tokens',
            max_batch_size=batch_tokens,
            max_decoding_length=max(len(ids) for ids in rows) + 50)
        return [[id_of[piece] for piece in result.hypotheses[0]] for result in found]
    return best

def translator(system, folder):
    if system in THEIR_DECODERS: return their_translator(folder, **THEIR_DECODERS[system])
    settings = OUR_DECODERS[system]
    make = in_processes if 'processes' in settings else our_translator
    return make(folder, **settings)

def decoding(round, system, folder, wide, sentences, corpus): # systems take turns by rounds
    "All sentences at once, then one at a time; if `wide`, by the widened model: one row"
    model, tokenizer = load_model(folder) # refused before the corpus is made
    texts = english_sentences(corpus, sentences)
    if wide: model = widened(model)
    with TemporaryDirectory() as d:
        save_model(d, model, tokenizer)
        translate = translator(system, d)
        ids = translate(texts) # warms up, too; the folder is read
    single = interleave({system: translate}, [[text] for text in texts[:32]])
    whole = interleave({system: translate}, [texts]*3, warm_up=0)
    return [dict(
        folder=Path(folder).name,
        d_model=model.config.d_model,
        tokens=sum(len(row) for row in ids),
        seconds=median(whole[system]),
        latency=quantiles(single[system], n=10),
        ids=ids)]

def beams(n, folder, corpus):
    "The cost of a search as the beam grows: a row for each size"
    texts, rows = english_sentences(corpus, 64), []
    for k in BEAMS:
        ours = Translator(folder, CPU, beam_size=k)
        row = dict(folder=Path(folder).name, value=k)
        rows.append(row | cost(partial(ours.search, texts), n))
    return rows

def resident_bytes(): # memory of this process; of Linux
    pages = Path('/proc/self/statm').read_text(encoding='utf8').split()[1]
    return int(pages) * os.sysconf('SC_PAGE_SIZE')

def memory(translations, folder, sentences, corpus):
    "The same sentences again and again: the memory of the process after each tenth"
    texts = english_sentences(corpus, sentences)
    ours = Translator(folder, CPU)
    done, rows = 0, []
    while done < translations:
        ours.translate(texts)
        done += len(texts)
        if 10*done // translations <= len(rows): continue
        row = dict(folder=Path(folder).name, translated=done, resident=resident_bytes())
        rows.append(row)
    return rows

# Processes

PARTS = dict(
    training=training,
    variants=variants,
    limit=limit,
    parts=parts,
    growth=growth,
    decoding=decoding,
    beams=beams,
    memory=memory)

def peer_versions():
    found = {}
    for name in ('transformers', 'ctranslate2'):
        try: found[name] = version(name)
        except PackageNotFoundError: pass
    return found

def measure(part, memory_kept, options):
    "What a process of its own does"
    if memory_kept: keep_freed_memory()
    with process_group():
        rows = PARTS[part](**options)
        machine = provenance() | peer_versions()
        if rank() == 0: print(json.dumps([row | machine for row in rows]))

def failure(stderr): # in one line
    errors = [line for line in stderr.splitlines() if 'Error: ' in line]
    if not errors: return 'it was stopped'
    kind, _, message = errors[0].partition('Error: ')
    missing = 'Import' in kind or 'ModuleNotFound' in kind
    hint = '; the peers come with: pip install transformer_nb[bench]'
    return message + hint if missing else message

def in_own_process(part, options, processes=1, memory_kept=True):
    "The rows of a measurement, with everything that it depends on; two threads in all"
    launch = []
    if processes > 1:
        launch = ['-m', 'torch.distributed.run', '--standalone']
        launch.append(f'--nproc_per_node={processes}')
    order = json.dumps([part, memory_kept, options])
    environment = {k: v for k, v in os.environ.items() if k != 'GOMP_SPINCOUNT'}
    environment['OMP_NUM_THREADS'] = str(2 // processes)
    done = subprocess.run([sys.executable, *launch, __file__, 'measure', order],
                          capture_output=True, text=True, env=environment)
    if done.returncode: raise InputError(f'{part}: {failure(done.stderr)}')
    settings = dict(part=part, memory_kept=memory_kept, processes=processes) | options
    return [settings | row for row in json.loads(done.stdout.splitlines()[-1])]

# The command

ARRANGEMENTS = ( # of a training; the last one at the first size alone
    dict(memory_kept=False),
    dict(memory_kept=True),
    dict(memory_kept=True, processes=2))
MODEL = 'nbs/models/multi30k-en-de' # which is also measured four times as wide
FULL = dict(steps=30, calls=5, rounds=5, sentences=1000, translations=50_000)
QUICK = dict(steps=2, calls=1, rounds=2, sentences=64, translations=640)

def corpus_here():
    file = 'train.en.gz'
    found = corpus_folder('multi30k', file, None)/file
    return 'multi30k' if found.exists() else 'mini'

def decoding_options(much, first):
    "The wide model, which is slow, gets a quarter of the sentences"
    n = much['sentences']
    return [dict(round=i, system=system, wide=wide, sentences=n // 4 if wide else n) | first
            for wide, systems in ((False, DECODERS), (True, WIDE_DECODERS))
            for i in range(much['rounds'])
            for system in (systems[::-1] if i % 2 else systems)]

def jobs(wanted, much):
    "Every measurement asked for: its part, its options, and the settings of its process"
    corpus, rounds = corpus_here(), [dict(round=i) for i in range(much['rounds'])]
    usual = dict(n=much['steps'], corpus=corpus)
    sized = [usual | dict(size=size, batch_tokens=BATCH_TOKENS[size]) for size in SIZES]
    first = dict(folder=MODEL, corpus=corpus)
    many = dict(translations=much['translations'], sentences=much['sentences'])
    options = dict(
        training=[x | i for x in sized for i in rounds],
        variants=[sized[0] | i for i in rounds],
        limit=sized,
        parts=sized,
        growth=[dict(n=much['calls'], axis=axis) for axis in GROWTH],
        beams=[dict(n=2) | first],
        decoding=decoding_options(much, first),
        memory=[many | first])
    return [(part, x, settings) for part in wanted for x in options[part]
            for settings in settings_of(part, x)]

def settings_of(part, options): # of the processes that measure it
    if part == 'training': return ARRANGEMENTS[:2 if options['size'] == 'd512' else 3]
    as_it_is = 'memory as it is' in options.get('system', '')
    return [dict(memory_kept=False)] if as_it_is else [{}]

def count_same_output(row, ours):
    "Replace a row's token ids by the number of sentences that ours translates alike"
    ids = row.pop('ids')
    row['same_output'] = sum(a == b for a, b in zip(ids, ours))

def lines_to_keep(out, parts): # of other machines, or of parts that are not measured now
    lines = out.read_text(encoding='utf8').splitlines(True) if out.exists() else []
    here = provenance()['hardware']
    rows = [json.loads(line) for line in lines]
    kept = [line for line, row in zip(lines, rows)
            if row['hardware'] != here or row['part'] not in parts]
    if lines: print(f'{out}: {len(kept)} lines stay, {len(lines) - len(kept)} '
                    'of this machine are replaced at the end', flush=True)
    return kept

def check_package(): # what is measured must be the code of this commit
    here, package = Path(__file__), Path(transformer_nb.__file__)
    if here.resolve().parents[1] == package.resolve().parents[1]: return
    raise InputError(f'{package.parent} would be measured, which is not beside {here}')

@command
def bench(out, parts, much):
    check_package()
    todo, kept = jobs(parts, much), lines_to_keep(out, parts)
    unfinished = out.with_name(out.name + '.unfinished')
    rows, first_ids = [], {} # token ids that a model found first, which is by our search
    for i, (part, options, settings) in enumerate(todo, 1):
        shown = [f'{name} {value}' for name, value in (options | settings).items()]
        print(f'{i} of {len(todo)}:', part, *shown, flush=True)
        rows += in_own_process(part, options, **settings)
        if part == 'decoding':
            ours = first_ids.setdefault(options['wide'], rows[-1]['ids'])
            count_same_output(rows[-1], ours)
        lines = [json.dumps(row) + '\n' for row in rows]
        write_atomically(unfinished, ''.join(lines).encode())
    write_atomically(out, ''.join(kept + lines).encode())
    unfinished.unlink()

def main():
    if sys.argv[1:2] == ['measure']: return measure(*json.loads(sys.argv[2]))
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--out', required=True, type=Path, help='file to write')
    parser.add_argument('--parts', type=lambda text: text.split(','), default=list(PARTS),
                        help=f'what is measured ({",".join(PARTS)})')
    parser.add_argument('--quick', action='store_const', const=QUICK, default=FULL,
                        help='a few steps and sentences')
    given = parser.parse_args()
    unknown = {*given.parts} - {*PARTS}
    if unknown: parser.error(f'no such part: {", ".join(sorted(unknown))}')
    bench(given.out, given.parts, given.quick)

if __name__ == '__main__': main()
