#!/usr/bin/env python3
"""The GPU day: what a GPU has to show again whenever the code has changed.

    python benchmarks/gpu.py --out nbs/results/gpu.jsonl [--stages NAME,NAME] [--minutes N]
    python benchmarks/gpu.py --rehearse          # the same on a CPU, with tiny sizes

Each stage is a process of its own with 90 seconds, and the most telling come first, so that
twelve minutes are enough for those that matter. A stage adds one line to the file when it
ends. If it fails or runs out of time, the line has what was found until then and says why,
and the same command tries it again. `--rehearse` writes to a temporary file.
"""
import json, os, signal, subprocess, sys, time
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
import torch
from torch.nn.attention import SDPBackend
sys.path.insert(0, str(Path(__file__).resolve().parent.parent)) # it need not be installed
from transformer_nb.checkpoint import load_model, load_record
from transformer_nb.support.core import (
    InputError, find_in, provenance, set_seed, write_atomically)
from transformer_nb.corpora import load_corpus
from transformer_nb.data import TokenBatches
from transformer_nb.decoding import search
from transformer_nb.speed.fast import accelerate
from transformer_nb.support.distributed import mfu
from transformer_nb.speed.gpu import (
    CudaGraphs, FixedBatches, RecordedSearch, RecordedSteps, accelerate_on_gpu,
    prepare_gpu)
from transformer_nb.lessons.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam
from transformer_nb.training import accumulate_gradients, train_step
from transformer_nb.translation import (
    RunConfig, Translator, evaluate, preset, train_translator)
from runs import read_results, write_results

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT/'nbs'/'models'/'multi30k-en-de'
CPU = torch.device('cpu')

class Day:
    "What the stages need to know: sizes, and where they compute"
    def __init__(self, rehearse:bool, folder:Path, result:Path):
        self.rehearse, self.folder, self.result = rehearse, folder, result
        self.device = CPU if rehearse else torch.device('cuda')
        self.precision = 'fp32'
        if not rehearse:
            has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
            self.precision = 'bf16' if has_bf16 else 'fp16'

    def pick(self, full, small): return small if self.rehearse else full

    def config(self, name:str)->TransformerConfig: # 'base' or 'big'
        if self.rehearse: return TransformerConfig.tiny(500, n_encoder_layers=1,
                                                        n_decoder_layers=1, d_model=32)
        return getattr(TransformerConfig, name)(37_000)

    def note(self, found:dict)->dict:
        "Keep what a stage has found so far, in case that it is cut off"
        write_atomically(self.result, json.dumps(found | provenance()).encode())
        return found

    def graphs(self): return Now() if self.rehearse else CudaGraphs(self.device)

    def wait(self):
        if self.device.type == 'cuda': torch.cuda.synchronize()

class Now:
    "In place of `CudaGraphs` on a CPU, where nothing can be recorded: a replay is a call"
    def run(self, function): return function()
    def record(self, function):
        results = torch.zeros(()), torch.zeros((), dtype=torch.bool)
        def replay():
            for held, new in zip(results, function()): held.copy_(new)
        return replay, results

def random_batches(vocab_size:int, n:int, batch_tokens:int, kind:type=TokenBatches):
    "Pairs of 10 to 50 random tokens, the sides alike to a tenth, in batches"
    rng = torch.Generator().manual_seed(0)
    def ids(length): return torch.randint(4, vocab_size, (length,), generator=rng).tolist()
    pairs = []
    for _ in range(n * batch_tokens // 30 + 20):
        length = torch.randint(10, 51, (1,), generator=rng).item()
        more = torch.randint(-length // 10, length // 10 + 1, (1,), generator=rng).item()
        pairs.append((ids(length), ids(length + more)))
    batches = kind(pairs, batch_tokens)
    return [batches.batch(rows) for rows in batches.plan(0)[:n]]

def few_pairs(n_train:int)->dict:
    return {split: pairs[:dict(train=n_train, valid=100, test=20)[split]]
            for split, pairs in mini_corpus().items()}

def test_sentences(n:int)->list[str]: return [en for _, en in mini_corpus()['test'][:n]]

# Stages

RUNGS = { # what `tnb_train` takes comes first, in case the time runs out
    'recorded': 'cudnn fixed named record', 'as it was': '', 'no cuDNN': 'cudnn',
    'few shapes': 'cudnn fixed', 'few shapes, plans of cuDNN': 'fixed',
    'causal by name': 'cudnn fixed named'}

def ladder(day:Day, size:str, batch_tokens:int)->dict:
    "A step on each rung: target tokens per second, median and longest milliseconds"
    config, found = day.config(size), {}
    for name, parts in RUNGS.items():
        for measure, value in climb(day, config, batch_tokens, parts.split()).items():
            found.setdefault(measure, {})[name] = value
        day.note(found)
    return found

def climb(day:Day, config:TransformerConfig, batch_tokens:int, parts:list[str])->dict:
    torch.backends.cuda.enable_cudnn_sdp('cudnn' not in parts)
    kind = FixedBatches if 'fixed' in parts else TokenBatches
    n = day.pick(40, 4)
    batches = random_batches(config.vocab_size, n, day.pick(batch_tokens, 300), kind)
    batches.sort(key=lambda batch: -batch.src.numel()) # the largest first
    step, model = stepper(day, config, parts)
    for batch in batches[:2] * 2: step(batch.to(day.device))
    seconds = []
    # Once a shape is new; the second time, a step is recorded; the third is measured.
    for batch in batches * day.pick(3, 1):
        started = time.perf_counter()
        step(batch.to(day.device))
        day.wait()
        seconds.append(time.perf_counter() - started)
    steady = seconds[-n:]
    tokens = sum(batch.n_tokens for batch in batches)
    found = dict(tokens_per_second=round(tokens / sum(steady)),
                 median_ms=round(1000 * median(steady), 2),
                 longest_ms=round(1000 * max(steady), 2),
                 first_round_seconds=round(sum(seconds[:n]), 2))
    found |= utilization(config, found['tokens_per_second'])
    found['attention'] = attention_kernels(day, config.d_k)
    if day.device.type == 'cuda':
        found['num_alloc_retries'] = torch.cuda.memory_stats()['num_alloc_retries']
        found['peak_gb'] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
        torch.cuda.reset_peak_memory_stats()
    return found

def attention_kernels(day:Day, d_k:int)->str: # as PyTorch chooses them
    "With a mask, as in the encoder, and with the causal one by its name"
    dtype = dict(fp32=None, bf16=torch.bfloat16, fp16=torch.float16)[day.precision]
    q = torch.zeros(2, 2, 16, d_k, dtype=dtype, device=day.device)
    mask = torch.ones(2, 1, 1, 16, dtype=torch.bool, device=day.device)
    masked = SDPBackend(torch._fused_sdp_choice(q, q, q, mask))
    causal = SDPBackend(torch._fused_sdp_choice(q, q, q, is_causal=True))
    return f'{masked.name}, causal {causal.name}'

def stepper(day:Day, config:TransformerConfig, parts:list[str]):
    "A function that takes one step on a batch, and the model"
    set_seed(0)
    model = accelerate(Transformer(config).to(day.device)).train()
    optimizer = adam(model, fused=True, capturable=not day.rehearse)
    take_step = train_step
    if 'named' in parts: accelerate_on_gpu(model)
    if 'record' in parts: take_step = RecordedSteps(take_step, day.graphs(), day.device)
    def step(batch, lr=1e-5):
        how = 0.1, None, batch.n_tokens, day.precision, None
        return take_step(model, optimizer, [batch], lr, *how)
    return step, model

def ladder_tiny(day): return ladder(day, 'tiny', 2048)
def ladder_base(day): return ladder(day, 'base', 12_000)
def ladder_big(day): return ladder(day, 'big', 25_000)

def recorded(day:Day)->dict:
    "200 steps, recorded and plain, from the same seed: the losses"
    config, losses = day.config('tiny'), {}
    n = day.pick(40, 4)
    batches = random_batches(config.vocab_size, n, day.pick(2048, 300), FixedBatches)
    for name, parts in dict(plain='fixed named', recorded='fixed named record').items():
        step, _ = stepper(day, config, parts.split())
        taken = [step(batch.to(day.device), 1e-3) for batch in batches * day.pick(5, 1)]
        losses[name] = torch.stack([loss for loss, _ in taken]).tolist()
        day.note({name: losses[name][::20] for name in losses})
    differences = [abs(a - b) for a, b in zip(*losses.values())]
    return {name: [round(x, 4) for x in found[::20]] for name, found in losses.items()
            } | dict(largest_difference=max(differences))

def gradients(model:Transformer, batch, precision:str='fp32')->tuple[float,dict]:
    model.zero_grad()
    loss = accumulate_gradients(model, [batch], 0.1, precision=precision).item()
    # `cpu` alone would give the very tensors of a CPU, which then move with the model
    return loss, {name: p.grad.clone().cpu() for name, p in model.named_parameters()}

def equality(day:Day)->dict:
    "Loss, gradients and translations of the CPU, again on the device, in float32"
    model, tokenizer = load_model(MODEL)
    sources = test_sentences(day.pick(100, 5))
    ids = tokenizer.encode_batch(sources)
    [batch] = random_batches(model.config.vocab_size, 1, day.pick(2000, 300))
    loss, grads = gradients(model, batch)
    found = search(model.eval(), ids, beam_size=4)
    model.to(day.device)
    loss_there, grads_there = gradients(model, batch.to(day.device))
    found_there = search(model, ids, beam_size=4)
    relative = []
    for name, gradient in grads.items():
        difference = (gradient - grads_there[name]).norm()
        relative.append((difference / gradient.norm()).item())
    same = sum(a[0].ids == b[0].ids for a, b in zip(found, found_there))
    return dict(loss_difference=abs(loss - loss_there), gradient_difference=max(relative),
                same_translations=same, sentences=len(ids))

def throughput(day:Day, size:str)->dict:
    "Tokens per second of a plain step, beside nn.Transformer and Marian's layers; MFU"
    from transformer_nb.studies.performance import Marian, TorchTransformer, interleave
    config = day.config(size)
    ours = accelerate(Transformer(config).to(day.device))
    models = dict(ours=ours, torch=TorchTransformer(ours).to(day.device),
                  Marian=Marian(ours).to(day.device))
    batches = random_batches(config.vocab_size, day.pick(40, 8), day.pick(12_000, 300))
    batches = [batch.to(day.device) for batch in batches]
    def plain_stepper(model):
        optimizer = adam(model.train(), fused=True)
        def step(batch):
            train_step(model, optimizer, [batch], 1e-5, 0.1, precision=day.precision)
            day.wait()
        return step
    steppers = {name: plain_stepper(model) for name, model in models.items()}
    seconds = interleave(steppers, batches, warm_up=day.pick(10, 4))
    tokens = sum(batch.n_tokens for batch in batches[day.pick(10, 4):])
    speeds = {name: round(tokens / sum(spent)) for name, spent in seconds.items()}
    return dict(tokens_per_second=speeds, precision=day.precision) | utilization(
        config, speeds['ours'])

def utilization(config:TransformerConfig, tokens_per_second:float)->dict:
    with torch.device('meta'): model = Transformer(config)
    return mfu(sum(p.numel() for p in model.parameters()), tokens_per_second)

def base_throughput(day): return throughput(day, 'base')
def big_throughput(day): return throughput(day, 'big')

def decoding(day:Day)->dict:
    "Sentences per second with a beam of four; one sentence; CTranslate2, if it is here"
    texts = test_sentences(day.pick(1000, 8))
    translator = Translator(MODEL, day.device, precision=day.precision)
    recorded = RecordedSearch(translator.model, day.graphs())
    ways, found = dict(plain=partial(search, translator.model), recorded=recorded), {}
    def one_by_one(texts):
        for text in texts: translator.translate([text])
    for name, find in ways.items():
        translator.find = find
        translations = translator.translate(texts) # warms up
        found[f'{name}, sentences per second'] = speed(day, translator.translate, texts)
        one = 1 / speed(day, one_by_one, texts[:50])
        found[f'{name}, one sentence, ms'] = round(1000 * one, 1)
        found[f'{name}, of the first'] = translations[0]
        day.note(found)
    return found | by_ctranslate2(day, translator, texts)

def speed(day:Day, run, given:list)->float: # items per second
    started = time.perf_counter()
    run(given)
    day.wait()
    return round(len(given) / (time.perf_counter() - started), 1)

def by_ctranslate2(day:Day, translator, texts:list[str])->dict:
    try: import ctranslate2
    except ImportError: return dict(CTranslate2='is not installed')
    if not day.rehearse and not ctranslate2.get_cuda_device_count():
        return dict(CTranslate2='was built for another CUDA')
    from transformer_nb.commands import tnb_export
    ct2 = day.folder/'ct2'
    tnb_export(str(MODEL), str(ct2))
    kind = dict(fp32='float32', bf16='bfloat16', fp16='float16')[day.precision]
    engine = ctranslate2.Translator(str(ct2), day.device.type, compute_type=kind)
    pieces = [[translator.tokenizer.tokenizer.id_to_token(i) for i in ids]
              for ids in translator.tokenizer.encode_batch(texts)]
    def run(pieces): engine.translate_batch(pieces, beam_size=4, max_batch_size=4096,
                                            batch_type='tokens')
    run(pieces)
    return {'CTranslate2, sentences per second': speed(day, run, pieces)}

def small_run(day:Day, **options):
    small = dict(corpus='mini', vocab_size=1000, batch_tokens=1024, max_steps=40,
                 valid_every=20, save_every=20, device=day.device.type)
    tiny = dict(n_encoder_layers=1, n_decoder_layers=1, d_model=32, d_ff=32)
    return preset('tiny').override(**small | day.pick({}, tiny) | options)

def resumed(day:Day)->dict:
    "A training that was stopped halfway beside one that was not"
    corpus = few_pairs(day.pick(22_000, 300))
    weights, whole, cut = [], day.folder/'whole', day.folder/'cut'
    train_translator(whole, small_run(day), corpus=corpus)
    train_translator(cut, small_run(day, max_steps=20), corpus=corpus)
    train_translator(cut, small_run(day), resume=True, corpus=corpus)
    for folder in (whole, cut): weights.append(load_model(folder)[0].state_dict())
    largest = 0.
    for name, weight in weights[0].items():
        difference = (weight - weights[1][name]).abs().max()
        largest = max(largest, difference.item())
    return dict(largest_difference=largest)

def captions(day:Day)->dict:
    "The captions model of chapter 15 once more, by its own recipe, beside the shipped one"
    if day.rehearse: corpus = few_pairs(300)
    else: corpus = load_corpus('multi30k', 'en', 'de')
    stored = find_in(load_record(MODEL), 'training', 'config', kind=dict)
    config = RunConfig.from_dict(stored).override(device=day.device.type, precision='auto')
    if day.rehearse: config = config.override(
        d_model=32, d_ff=32, n_encoder_layers=1, n_decoder_layers=1, max_steps=4,
        vocab_size=500, valid_every=2, save_every=2, batch_tokens=512, warmup_steps=2)
    started = time.perf_counter()
    history = train_translator(day.folder/'captions', config, corpus=corpus)
    spent = time.perf_counter() - started
    found = {name: history[-1][name] for name in ('step', 'valid_loss', 'weights')}
    day.note(found | dict(training_seconds=round(spent)))
    for name, folder in dict(here=day.folder/'captions', shipped=MODEL).items():
        scores = evaluate(Translator(folder, day.device), corpus['test'])
        found.setdefault('bleu', {})[name] = round(scores['bleu'], 2)
    speeds = [line['tokens_per_second'] for line in history if 'tokens_per_second' in line]
    return found | dict(training_seconds=round(spent), speeds=speeds[1:4],
                        signature=scores['signatures']['bleu'])

STAGES = dict(
    ladder_base=ladder_base, ladder_tiny=ladder_tiny, equality=equality, recorded=recorded,
    decoding=decoding, captions=captions, ladder_big=ladder_big, resumed=resumed,
    base_throughput=base_throughput, big_throughput=big_throughput)
LIMITS = dict(captions=2.9) # minutes; of the others, `--minutes`

# The day

def run_stage(name:str, rehearse:bool, result:Path):
    "In a process of its own: what it found goes into a file"
    with TemporaryDirectory() as folder:
        prepare_gpu()
        day = Day(rehearse, Path(folder), result)
        day.note(STAGES[name](day))

def attempt_stage(name:str, rehearse:bool, minutes:float)->dict:
    "A line for the file, whatever happens"
    this = [sys.executable, __file__, '--child', name] + ['--rehearse'] * rehearse
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        result = Path(folder)/'result.json'
        ended = why_ended(this + ['--out', result], LIMITS.get(name, minutes))
        found = provenance()
        if result.exists(): found = json.loads(result.read_text(encoding='utf8'))
    return found | ended | dict(seconds=round(time.perf_counter() - started, 1))

def why_ended(command:list, minutes:float)->dict: # `failed`, unless it went well
    "Commands that the stage has started end with it"
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    try: _, told = running.communicate(timeout=60*minutes)
    except subprocess.TimeoutExpired: return dict(failed=f'over {minutes} minutes')
    finally: end_group(running)
    if running.returncode == 0: return {}
    print(told, file=sys.stderr) # where it failed
    lines = told.strip().splitlines() or ['no message']
    return dict(failed=lines[-1][:500])

def end_group(running:subprocess.Popen): # of processes, which it leads
    with suppress(ProcessLookupError): os.killpg(running.pid, signal.SIGKILL)
    running.wait()

def run_day(out:Path, names:list[str], rehearse:bool, minutes:float):
    for name in names:
        lines = read_results(out)
        if any(line['row'] == name and 'failed' not in line for line in lines): continue
        found = attempt_stage(name, rehearse, minutes)
        others = [line for line in lines if line['row'] != name]
        write_results(out, [*others, dict(row=name, seed=0) | found])
        shown = found.get('failed') or f"{found['seconds']} s"
        print(f'{name}: {shown}', flush=True)
    sys.exit(any('failed' in line for line in read_results(out)))

def main():
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add('--out', type=Path, help='file of results, such as nbs/results/gpu.jsonl')
    add('--stages', help=f'all by default: {",".join(STAGES)}')
    add('--minutes', type=float, default=1.5, help='that a stage may take')
    add('--rehearse', action='store_true', help='on a CPU, with tiny sizes')
    add('--child', choices=STAGES, help='used by this program')
    args = parser.parse_args()
    if args.child: return run_stage(args.child, args.rehearse, args.out)
    names = args.stages.split(',') if args.stages else list(STAGES)
    unknown = set(names) - set(STAGES)
    if unknown: raise InputError(f'no such stage: {", ".join(sorted(unknown))}')
    if not (args.rehearse or torch.cuda.is_available()):
        raise InputError('there is no GPU that PyTorch can use; try --rehearse')
    if args.rehearse and args.out is None:
        with TemporaryDirectory() as folder:
            return run_day(Path(folder)/'gpu.jsonl', names, True, args.minutes)
    if args.out is None: raise InputError('--out is needed: the file of results')
    run_day(args.out, names, args.rehearse, args.minutes)

if __name__ == '__main__':
    try: main()
    except InputError as e: sys.exit(f'gpu.py: {e}')
