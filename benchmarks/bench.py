#!/usr/bin/env python3
"""Speed and memory, measured on this machine: a JSON object a line, which chapter 19 reads.

    python benchmarks/bench.py --out FILE [--parts training,variants,limit,parts,growth,beams,decoding,memory] [--models FOLDER,FOLDER] ...

The allocator and the threads belong to a whole process, so every measurement runs in one of its own. `kept` in a line says
whether freed memory was kept (`keep_freed_memory`, as the commands do), `processes` and `threads` how many there were.
"""
import json, os, subprocess, sys
from argparse import ArgumentParser
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from shutil import which
from statistics import quantiles
from tempfile import TemporaryDirectory
from unittest import mock
import torch
from torch import nn
from torch.profiler import record_function
from transformer_nb.attention import scaled_dot_product_attention
from transformer_nb.checkpoint import load_model, save_model
from transformer_nb.fast import HAS_ONEDNN, USE_ONEDNN, by_onednn, keep_freed_memory
from transformer_nb.core import PAD, InputError, command, write_atomically
from transformer_nb.data import Batch, TokenBatches, encode_pairs
from transformer_nb.corpora import corpus_folder, load_corpus
from transformer_nb.decoding import Beams, power_penalty
from transformer_nb.layer_types import PeakMemory
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam
from transformer_nb.performance import OpCounter, Marian, TorchTransformer, compared, product_seconds, seconds_of, interleave, where_time_goes
from transformer_nb.text import BPETokenizer
from transformer_nb.training import TrainingConfig, wrap_model, train_step, batch_groups
from transformer_nb.distributed import process_group, world_size, rank
from transformer_nb.translation import Translator
from transformer_nb.export import tnb_export

SIZES = dict(tiny={}, d512=dict(d_model=512, d_ff=2048, n_heads=8, n_encoder_layers=3, n_decoder_layers=3, dropout=0.1))
GROWTH = dict(length=(32, 64, 128, 256, 512), width=(64, 128, 256, 512), depth=(1, 2, 4, 8), batch=(2, 4, 8, 16, 32),
              vocabulary=(1000, 2000, 4000, 8000, 16000))
BEAMS = (1, 2, 4, 8, 16)

def task(size, corpus, batch_tokens):
    "A model of ours to train, and batches for it; English to German, a vocabulary of 6,000"
    pairs = load_corpus(corpus, 'en', 'de')['train']
    bpe = BPETokenizer.train((text for pair in pairs for text in pair), 6000)
    torch.manual_seed(0)
    return Transformer(TransformerConfig.tiny(bpe.vocab_size, **SIZES[size])), TokenBatches(encode_pairs(pairs, bpe, 512)[0], batch_tokens)

def stepper(model, compile=False, **how):
    "Trains with a group of batches, one for each process; `how` is for an Adam that works in another way than ours"
    network = wrap_model(model.train(), TrainingConfig(compile=compile))
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, **how) if how else adam(model)
    return lambda group: train_step(network, optimizer, [group[rank()]], 1e-4, 0.1, n_tokens=sum(b.n_tokens for b in group))

def first_groups(batches, n):
    return [[batches.batch(rows) for rows in group] for _, (_, _, group) in zip(range(n), batch_groups(batches, world_size()))]

def training(n, size, round, **options): # of rounds, the arrangements take turns
    "Ours and two peers take turns at n updates, after six in which the heap finds its size: a row for each system"
    ours, batches = task(size, **options)
    models, groups = dict(ours=ours, torch=TorchTransformer(ours), Marian=Marian(ours)), first_groups(batches, n + 6)
    first, real = groups[0][0], groups[0][0].labels != PAD
    with torch.no_grad(): logits = {name: m.eval()(first.src, first.tgt)[real] for name, m in models.items()}
    rows = compared(interleave({name: stepper(m) for name, m in models.items()}, groups, warm_up=6), [sum(b.n_tokens for b in group) for group in groups[6:]])
    return [row | dict(off=(logits[row['system']] - logits['ours']).abs().max().item(), parameters=sum(p.numel() for p in ours.parameters())) for row in rows]

def variants(n, size, **options):
    "Ours beside itself with one thing changed: a row for each"
    ours, batches = task(size, **options)
    old, groups = deepcopy(ours), first_groups(batches, n + 3)
    for m in old.modules():
        if isinstance(m, nn.Dropout): m.__class__ = nn.Dropout
    def by_the_other(group, step=stepper(deepcopy(ours))):
        with mock.patch('transformer_nb.core.USE_ONEDNN', not USE_ONEDNN and HAS_ONEDNN): step(group)
    systems = {'ours': stepper(ours), 'nn.Dropout': stepper(old), 'products by MKL' if USE_ONEDNN else 'products by oneDNN': by_the_other, 'Adam, one parameter at a time': stepper(deepcopy(ours), foreach=False),
               'Adam, one operation at a time': stepper(deepcopy(ours), foreach=True)}
    if which('g++'): systems['torch.compile'] = stepper(deepcopy(ours), compile=True)
    return compared(interleave(systems, groups, warm_up=3), [sum(b.n_tokens for b in group) for group in groups[3:]])

def one_batch(size, **options):
    "A step on the same rows again and again, the making of their batch included"
    model, batches = task(size, **options)
    step, rows = stepper(model), batches.plan(0)[0]
    def whole():
        with record_function('data'): batch = batches.batch(rows)
        step([batch])
    return whole, batches.batch(rows)

def limit(n, **options):
    "What a step computes and moves, and how fast this machine multiplies and copies: one row"
    step, batch = one_batch(**options)
    def plain(q, k, v, mask): return scaled_dot_product_attention(q, k, v, mask)[0] # the fused kernel hides its products
    with OpCounter() as fused: step()
    with mock.patch('transformer_nb.multihead.attention', plain), OpCounter() as counted: step()
    x, y, square = torch.ones(2**26), torch.ones(2**26), torch.randn(2048, 2048)
    return [dict(tokens=batch.n_tokens, flops=counted.flops, bytes=fused.bytes, step=seconds_of(step, n), products=product_seconds(counted.products),
                 square_rate=2*2048**3 / min(seconds_of(lambda: f(square, square), n) for f in (by_onednn, torch.matmul)[not HAS_ONEDNN:]), bandwidth=2*x.nbytes / seconds_of(lambda: y.copy_(x), n))]

def parts(n, **options):
    "Where the time of a step goes, mean of n: a row for each part"
    (step, _), total = one_batch(**options), Counter()
    for i in range(n + 6):
        found = where_time_goes(step)
        if i > 5: total.update(found)
    return [dict(name=name, seconds=seconds/n) for name, seconds in total.most_common()]

def cost(func, n):
    with PeakMemory() as memory: func()
    return dict(seconds=seconds_of(func, n), peak=memory.peak)

def growth(n, axis):
    "The cost of a training step as one size grows and the others stay: a row for each value"
    def step(length=64, width=128, depth=2, batch=8, vocabulary=1000):
        train = stepper(Transformer(TransformerConfig.tiny(vocabulary, d_model=width, d_ff=2*width, n_encoder_layers=depth, n_decoder_layers=depth)))
        ids = torch.randint(4, vocabulary, (batch, length))
        return lambda: train([Batch(ids, ids, ids, ids.numel())])
    return [dict(axis=axis, value=value) | cost(step(**{axis: value}), n) for value in GROWTH[axis]]

def widened(model):
    "A model four times as wide that computes the same: each number of a vector stands there four times, and products divide by that"
    c = model.config
    wide = Transformer(replace(c, d_model=4*c.d_model, d_ff=8*c.d_ff, n_heads=2*c.n_heads, d_k=2*c.d_k, d_v=2*c.d_v, positions='learned', tie_embeddings=False))
    def heads(x, d): return x.unflatten(0, (-1, d)).repeat_interleave(2, 0).repeat(1, 2, 1).flatten(0, 1) # twice as many, each twice as long
    def rows(name, x):
        if not name.endswith('qkv'): return x.repeat(8 if 'inner' in name else 4, *[1]*(x.dim() - 1))
        q, k, v = x.split([c.n_heads*d for d in (c.d_k, c.d_k, c.d_v)])
        return torch.cat([heads(q, c.d_k) * 0.5**0.5, heads(k, c.d_k), heads(v, c.d_v)]) # scores are sums of twice as many products, over √2 times the root
    def columns(name, x):
        if x.dim() == 1: return x
        if 'attention.output' in name: return heads(x.T, c.d_v).T / 4
        return x.repeat(1, 8) / 8 if 'outer' in name else x.repeat(1, 4) / 4
    state = {name: columns(name, rows(name, x)) for name, x in model.state_dict().items() if name.startswith(('encoder', 'decoder'))}
    for i, (embedding, by) in enumerate([(model.src_embedding, 2), (model.tgt_embedding, 2), (model.output, 4)]): # embeddings grow with √d
        state[f'embeddings.{i}.weight'] = embedding.weight.repeat(1, 4) / by
    for side in ('src_positions', 'tgt_positions'): state[f'{side}.table'] = getattr(model, side).table.repeat(1, 4)
    wide.to(model.output.weight).load_state_dict(state)
    return wide.eval()

def translator(system, folder):
    "Token ids of the best translation of each text, by us or by CTranslate2"
    ours = Translator(folder, torch.device('cpu'), penalty=power_penalty)
    def best(texts): return [found[0].ids for found in ours.search(texts)]
    if system == 'ours': return ours, best
    if system == "ours, CTranslate2's rule":
        ours.options['n_best'] = 4
        def ended(beams, n): return (beams.best_scores > -torch.inf).all(1) | (beams.limits == n)
        return ours, mock.patch.object(Beams, 'done', ended)(best)
    from ctranslate2 import Translator as Engine
    bpe, library, patience, n = ours.tokenizer, ours.tokenizer.tokenizer, 10 if 'patience' in system else 1, torch.get_num_threads()
    with TemporaryDirectory() as d:
        tnb_export(folder, f'{d}/model')
        engine = Engine(f'{d}/model', compute_type='float32', **dict(zip(('inter_threads', 'intra_threads'), (n, 1) if 'one thread' in system else (1, n))))
    def theirs(texts):
        rows = bpe.encode_batch(texts)
        found = engine.translate_batch([[library.id_to_token(i) for i in ids] for ids in rows], beam_size=4, length_penalty=0.6, patience=patience,
                                       batch_type='tokens', max_batch_size=4096, max_decoding_length=max(map(len, rows)) + 50)
        return [[library.token_to_id(piece) for piece in x.hypotheses[0]] for x in found]
    return ours, theirs

def decoding(round, system, folder, wide, sentences, corpus): # of rounds, the systems take turns: the threads of each are alone
    "All sentences at once, and then one at a time: one row; if `wide`, by the model of the folder made four times as wide"
    texts = [source for source, _ in load_corpus(corpus, 'en', 'de')['test'][:sentences]]
    with TemporaryDirectory() as d:
        if wide:
            model, tokenizer = load_model(folder)
            save_model(d, widened(model), tokenizer)
        ours, run = translator(system, d if wide else folder)
    ids = run(texts) # warms up, too
    single = interleave({system: run}, [[text] for text in texts[:102]])[system]
    return [dict(folder=Path(folder).name, d_model=ours.model.config.d_model, tokens=sum(map(len, ids)), seconds=min(interleave({system: run}, [texts]*2, 0)[system]), latency=quantiles(single, n=10), ids=ids)]

def beams(n, folder, corpus):
    "The cost of a search as the beam grows: a row for each size"
    texts, rows = [source for source, _ in load_corpus(corpus, 'en', 'de')['test'][:64]], []
    for k in BEAMS:
        wide = Translator(folder, torch.device('cpu'), beam_size=k)
        rows.append(dict(folder=Path(folder).name, value=k) | cost(lambda: wide.search(texts), n))
    return rows

def memory(translations, folder, sentences, corpus):
    "The same sentences again and again: a row for each tenth of all translations, with the memory of the process"
    texts, ours = [source for source, _ in load_corpus(corpus, 'en', 'de')['test'][:sentences]], Translator(folder, torch.device('cpu'))
    done, rows = 0, []
    while done < translations:
        ours.translate(texts)
        done += len(texts)
        if 10*done // translations > len(rows): rows.append(dict(folder=Path(folder).name, translated=done, resident=int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')))
    return rows

PARTS = dict(training=training, variants=variants, limit=limit, parts=parts, growth=growth, decoding=decoding, beams=beams, memory=memory)
DECODERS = ('ours', "ours, CTranslate2's rule", 'CTranslate2', 'CTranslate2, patience 10', 'CTranslate2, one thread each')

def measure(part, kept, options):
    "What a process of its own does"
    if kept: keep_freed_memory()
    with process_group():
        rows = PARTS[part](**options)
        if rank() == 0: print(json.dumps(rows))

def in_own_process(part, options, threads, processes=1, kept=True):
    "The rows of a measurement, with everything that it depends on"
    launch = ['-m', 'torch.distributed.run', '--standalone', f'--nproc_per_node={processes}'] if processes > 1 else []
    done = subprocess.run([sys.executable, *launch, __file__, 'measure', json.dumps([part, kept, options])], capture_output=True, text=True,
                          env={k: v for k, v in os.environ.items() if k != 'GOMP_SPINCOUNT'} | dict(OMP_NUM_THREADS=str(threads // processes)))
    if done.returncode:
        why = [line.partition('Error: ') for line in done.stderr.splitlines() if 'Error: ' in line] or [('', '', 'it was stopped')]
        lacks = 'Import' in why[0][0] or 'ModuleNotFound' in why[0][0]
        raise InputError(f"{part}: {why[0][2]}{'; the peers come with: pip install transformer_nb[bench]' if lacks else ''}")
    settings = dict(part=part, kept=kept, processes=processes, threads=threads // processes) | options
    return [settings | row | machine() for row in json.loads(done.stdout.splitlines()[-1])]

def machine():
    from importlib.metadata import distributions
    info = Path('/proc/cpuinfo')
    names = [line.split(': ')[1] for line in info.read_text().splitlines() if line.startswith('model name')] if info.exists() else []
    versions = {d.name: d.version for d in distributions() if d.name in ('torch', 'transformers', 'ctranslate2')}
    return dict(cpu=names[0] if names else 'unknown', cores=os.cpu_count(), python=sys.version.split()[0], **dict(sorted(versions.items())))

def jobs(o):
    "Every measurement that is asked for: its part, its options, and the settings of its process"
    found = corpus_folder('multi30k', 'train.en.gz', None)/'train.en.gz'
    corpus = o.corpus or ('multi30k' if found.exists() else 'mini')
    folders = o.models.split(',')
    sizes = dict(x.partition(':')[::2] for x in o.sizes.split(','))
    for name, known in [(x, PARTS) for x in o.parts.split(',')] + [(x, SIZES) for x in sizes]:
        if name not in known: raise InputError(f'{name!r} is not known; there are {", ".join(known)}')
    if wrong := [n for n in sizes.values() if not n.isdecimal() or int(n) < 2]: raise InputError(f'--sizes: {wrong[0]!r} must be a number of updates, at least 2')
    sized = [dict(n=int(n), size=size, corpus=corpus, batch_tokens=o.batch_tokens) for size, n in sizes.items()]
    options = dict(variants=sized, limit=sized, parts=sized, growth=[dict(n=o.n, axis=axis) for axis in GROWTH],
                   beams=[dict(n=2, folder=folders[0], corpus=corpus)],
                   decoding=[dict(round=i, system=system, folder=folder, wide=wide, sentences=o.sentences, corpus=corpus)
                             for folder, wide in [*((folder, False) for folder in folders), (folders[0], True)] for i in range(o.rounds) for system in DECODERS],
                   memory=[dict(translations=o.translations, folder=folders[0], sentences=o.sentences, corpus=corpus)])
    arranged = [dict(kept=False), dict(kept=True), dict(kept=True, processes=2)]
    in_turns = [('training', x | dict(round=i), settings) for x in sized for i in range(o.rounds) for settings in arranged]
    return [job for part in o.parts.split(',') for job in (in_turns if part == 'training' else [(part, x, {}) for x in options[part]])]

@command
def bench(o):
    for name, least in dict(threads=2, n=1, batch_tokens=1, sentences=4, rounds=2).items():
        if getattr(o, name) < least: raise InputError(f'--{name} is {getattr(o, name)}; it must be at least {least}')
    rows, todo, found = [], jobs(o), {}
    for i, (part, options, settings) in enumerate(todo, 1):
        print(f'{i} of {len(todo)}:', part, *(f'{k} {v}' for k, v in (options | settings).items()), flush=True)
        rows += in_own_process(part, options, o.threads, **settings)
        if part == 'decoding':
            ids = rows[-1].pop('ids')
            rows[-1]['same'] = sum(map(list.__eq__, ids, found.setdefault((options['folder'], options['wide']), ids))) # sentences, as found by ours
        write_atomically(o.out, ''.join(json.dumps(row) + '\n' for row in rows).encode())

def main():
    if sys.argv[1:2] == ['measure']: return measure(*json.loads(sys.argv[2]))
    p = ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--out', required=True, help='file to write, a JSON object a line')
    p.add_argument('--parts', default='training,variants,limit,parts,growth,beams,decoding', help='what is measured (%(default)s); memory, too, if asked for')
    p.add_argument('--sizes', default='tiny:8,d512:4', help='models that are trained, and how many updates are timed in a round (%(default)s)')
    p.add_argument('--models', default='nbs/models/multi30k-en-de', help='folders of models that translate English to German (%(default)s); the first is made four times as wide, too')
    p.add_argument('--corpus', help='multi30k or mini (multi30k where TRANSFORMER_NB_DATA has it)')
    p.add_argument('--threads', type=int, default=2, help='of all processes together (%(default)s)')
    p.add_argument('--n', type=int, default=5, help='calls that are timed where cost grows (%(default)s)')
    p.add_argument('--batch_tokens', type=int, default=4096, help='the most tokens of a batch on either side (%(default)s)')
    p.add_argument('--sentences', type=int, default=1000, help='that are translated (%(default)s)')
    p.add_argument('--rounds', type=int, default=2, help='times that they are, and that the arrangements of a training take turns (%(default)s)')
    p.add_argument('--translations', type=int, default=100_000, help='sentences that the part memory translates (%(default)s)')
    bench(p.parse_args())

if __name__ == '__main__': main()
