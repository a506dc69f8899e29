#!/usr/bin/env python3
"""The GPU day: everything in this book that only a GPU can show.

    python benchmarks/gpu.py --out nbs/results/gpu.jsonl [--stages NAME,NAME] [--minutes N]
    python benchmarks/gpu.py --rehearse          # the same on a CPU, with tiny sizes

Each stage is a process of its own, takes less than nine minutes, and adds one line to the
file when it ends, so a day that is cut off keeps what it has, and the same command goes on
with what is missing. A stage that fails or runs out of time leaves a line that says so, and
is tried again by the next call. `--rehearse` writes to a temporary file.
"""
import json, os, subprocess, sys, time
from argparse import ArgumentParser
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
import torch
from torch.amp import GradScaler
from transformer_nb.checkpoint import load_model
from transformer_nb.core import InputError, provenance, set_seed
from transformer_nb.corpora import load_corpus
from transformer_nb.data import TokenBatches
from transformer_nb.decoding import search
from transformer_nb.fast import accelerate
from transformer_nb.grammar import mini_corpus
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.optimizer import adam
from transformer_nb.studies.performance import Marian, TorchTransformer, interleave
from transformer_nb.training import (
    TrainingConfig, accumulate_gradients, train_step, valid_loss, wrap_model)
from transformer_nb.translation import Translator, evaluate, preset, train_translator
from runs import read_results, write_results

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT/'nbs'/'models'/'multi30k-en-de'
CPU = torch.device('cpu')
# dense 16-bit products, in operations per second; for others, MFU is left out
PEAKS = {'H200': 989e12, 'H100': 989e12, 'A100': 312e12, 'L4': 121e12, 'T4': 65e12,
         'V100': 125e12, 'A10': 125e12, '4090': 165e12, '3090': 71e12}

class Day:
    "What the stages need to know: sizes, and where they compute"
    def __init__(self, rehearse:bool, folder:Path):
        self.rehearse, self.folder = rehearse, folder
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

    def wait(self):
        if self.device.type == 'cuda': torch.cuda.synchronize()

def random_batches(vocab_size:int, n:int, batch_tokens:int):
    "Pairs of 10 to 50 random tokens a side, in batches"
    rng = torch.Generator().manual_seed(0)
    def ids():
        length = torch.randint(10, 51, (1,), generator=rng).item()
        return torch.randint(4, vocab_size, (length,), generator=rng).tolist()
    batches = TokenBatches([(ids(), ids()) for _ in range(n * batch_tokens // 30 + 20)],
                           batch_tokens)
    return [batches.batch(rows) for rows in batches.plan(0)[:n]]

def few_pairs(n_train:int)->dict:
    return {split: pairs[:dict(train=n_train, valid=100, test=20)[split]]
            for split, pairs in mini_corpus().items()}

def test_sentences(n:int)->list[str]: return [en for _, en in mini_corpus()['test'][:n]]

# Stages

def run_chapter(day:Day, name:str)->dict:
    "Its cells, those for a GPU among them, in a kernel of their own"
    sys.path.insert(0, str(ROOT/'tools'))
    import nbformat
    from chapters import is_run, run_cells
    notebook = nbformat.read(ROOT/'nbs'/f'{name}.ipynb', as_version=4)
    def is_wanted(cell):
        return is_run(cell) or ('#| cuda' in cell.source and not day.rehearse)
    cells = run_cells([cell for cell in notebook.cells if is_wanted(cell)])
    printed = [''.join(output.get('text', '')) for cell in cells if '#| cuda' in cell.source
               for output in cell.get('outputs', [])]
    return dict(cells=len(cells), printed=printed)

def smoke_attention(day): return run_chapter(day, '01_attention')
def smoke_performance(day): # its other cells take long on a CPU
    return run_chapter(day, '19_performance') if not day.rehearse else {}

def gradients(model:Transformer, batch, precision:str='fp32')->tuple[float,dict]:
    model.zero_grad()
    loss = accumulate_gradients(model, [batch], 0.1, precision=precision).item()
    return loss, {name: p.grad.cpu() for name, p in model.named_parameters()}

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

def sixteen_bits(day:Day)->dict:
    "Loss and translations in 16 bits beside float32"
    model, tokenizer = load_model(MODEL, day.device)
    sources = test_sentences(day.pick(300, 5))
    ids = tokenizer.encode_batch(sources)
    batches = [b.to(day.device) for b in random_batches(model.config.vocab_size, 3, 1000)]
    losses, found = {}, {}
    for precision in dict.fromkeys(('fp32', day.precision)):
        losses[precision] = valid_loss(model, batches, precision)
        found[precision] = search(model, ids, precision=precision)
    exact, rounded = found['fp32'], found[day.precision]
    same = sum(a[0].ids == b[0].ids for a, b in zip(exact, rounded))
    return dict(precision=day.precision, losses=losses, same_translations=same,
                sentences=len(ids))

def compiled(day:Day)->dict:
    "A step with torch.compile beside one without: seconds, and the loss of both"
    config = day.config('base')
    batches = random_batches(config.vocab_size, day.pick(30, 3), day.pick(6000, 300))
    batches = [batch.to(day.device) for batch in batches]
    results = {}
    for name, is_compiled in dict(plain=False, compiled=not day.rehearse).items():
        set_seed(0)
        model = Transformer(config).to(day.device)
        network = wrap_model(model, TrainingConfig(compile=is_compiled))
        optimizer = adam(model, fused=True)
        started = time.perf_counter()
        losses, seconds = timed_steps(day, network, optimizer, batches)
        results[name] = dict(first_loss=losses[0], seconds_per_step=median(seconds),
                             total_seconds=round(time.perf_counter() - started, 1))
    return results

def timed_steps(day:Day, network, optimizer, batches)->tuple[list,list]:
    losses, seconds = [], []
    for batch in batches:
        day.wait()
        started = time.perf_counter()
        loss, _ = train_step(network, optimizer, [batch], 1e-5, 0.1,
                             precision=day.precision)
        day.wait()
        seconds.append(time.perf_counter() - started)
        losses.append(loss.item())
    return losses, seconds[len(seconds) // 3:] # without the warm-up

def throughput(day:Day, size:str)->dict:
    "Target tokens per second of a step, beside nn.Transformer and Marian's layers; MFU"
    config = day.config(size)
    ours = accelerate(Transformer(config).to(day.device))
    models = dict(ours=ours, torch=TorchTransformer(ours).to(day.device),
                  Marian=Marian(ours).to(day.device))
    batches = random_batches(config.vocab_size, day.pick(40, 8), day.pick(12_000, 300))
    batches = [batch.to(day.device) for batch in batches]
    def stepper(model):
        optimizer = adam(model.train(), fused=True)
        def step(batch):
            train_step(model, optimizer, [batch], 1e-5, 0.1, precision=day.precision)
            day.wait()
        return step
    steppers = {name: stepper(model) for name, model in models.items()}
    seconds = interleave(steppers, batches, warm_up=day.pick(10, 4))
    tokens = sum(batch.n_tokens for batch in batches[day.pick(10, 4):])
    speeds = {name: round(tokens / sum(spent)) for name, spent in seconds.items()}
    return dict(tokens_per_second=speeds, precision=day.precision) | mfu(
        config, speeds['ours'])

def mfu(config:TransformerConfig, tokens_per_second:float)->dict:
    "6 operations for each weight and target token, attention not counted; tied weights"
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ''
    peaks = [peak for part, peak in PEAKS.items() if part in name]
    if not peaks: return {}
    with torch.device('meta'): model = Transformer(config)
    operations = 6 * sum(p.numel() for p in model.parameters())
    return dict(mfu=round(tokens_per_second * operations / peaks[0], 3))

def base_throughput(day): return throughput(day, 'base')
def big_throughput(day): return throughput(day, 'big')

def precisions(day:Day)->dict:
    "The same steps in float32, bf16 and fp16: the loss of each"
    config = day.config('base')
    batches = random_batches(config.vocab_size, day.pick(60, 4), day.pick(6000, 300))
    losses = {}
    for precision in ('fp32', 'bf16', 'fp16'):
        set_seed(0)
        model = Transformer(config).to(day.device)
        optimizer = adam(model, fused=True)
        scaler = GradScaler(day.device.type) if precision == 'fp16' else None
        taken = [train_step(model, optimizer, [batch.to(day.device)], 1e-4, 0.1,
                            precision=precision, scaler=scaler) for batch in batches]
        losses[precision] = [round(loss.item(), 4) for loss, _ in taken][::10]
        losses[f'{precision} skipped'] = sum(not was_taken for _, was_taken in taken)
    return losses

def decoding(day:Day)->dict:
    "Sentences per second with a beam of four, beside CTranslate2 on the same device"
    import ctranslate2
    from transformer_nb.export import tnb_export
    texts = test_sentences(day.pick(1000, 8))
    translator = Translator(MODEL, day.device, precision=day.precision)
    ct2 = day.folder/'ct2'
    tnb_export(str(MODEL), str(ct2))
    kind = dict(fp32='float32', bf16='bfloat16', fp16='float16')[day.precision]
    engine = ctranslate2.Translator(str(ct2), day.device.type, compute_type=kind)
    pieces = [[translator.tokenizer.tokenizer.id_to_token(i) for i in ids]
              for ids in translator.tokenizer.encode_batch(texts)]
    def theirs(pieces): engine.translate_batch(pieces, beam_size=4, max_batch_size=4096,
                                               batch_type='tokens')
    seconds = {}
    for name, run, given in (('ours', translator.translate, texts),
                             ('CTranslate2', theirs, pieces)):
        run(given) # warms up
        started = time.perf_counter()
        run(given)
        seconds[name] = time.perf_counter() - started
    return {name: round(len(texts) / spent, 1) for name, spent in seconds.items()}

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

def processes(day:Day)->dict:
    "Two processes, each with a GPU of its own, beside one with the same batches"
    if not day.rehearse and torch.cuda.device_count() < 2:
        return dict(skipped='there is one GPU')
    options = small_run(day, dropout=0., max_steps=6, valid_every=6, save_every=6)
    (day.folder/'run.yaml').write_text(options.to_yaml(), encoding='utf8')
    torchrun = ['torchrun', '--standalone', '--nproc_per_node=2', '--no-python', '--']
    losses = []
    for n, start in ((2, torchrun), (1, [])):
        out = day.folder/f'run{n}'
        run = [*start, 'tnb_train', '--config', day.folder/'run.yaml', '--out', out,
               '--grad_accum_steps', str(3 - n)]
        path = f'{Path(sys.executable).parent}:{os.environ["PATH"]}'
        subprocess.run(run, check=True, env=os.environ | dict(PATH=path))
        lines = (out/'metrics.jsonl').read_text(encoding='utf8').splitlines()
        losses.append(json.loads(lines[-1])['train_loss'])
    return dict(two=losses[0], one=losses[1])

def captions(day:Day)->dict:
    "The recipe of chapter 15's captions with the paper's base size, for six minutes"
    if day.rehearse: corpus = few_pairs(300)
    else: corpus = load_corpus('multi30k', 'en', 'de')
    config = preset('base').override(
        vocab_size=day.pick(8000, 500), dropout=0.3, batch_tokens=day.pick(12_000, 512),
        max_steps=day.pick(20_000, 4), max_minutes=6., warmup_steps=1000, lr=1e-3,
        valid_every=day.pick(200, 2), save_every=day.pick(200, 2), patience=10,
        device=day.device.type, corpus='multi30k', src_lang='en', tgt_lang='de')
    if day.rehearse: config = config.override(d_model=32, d_ff=32, n_encoder_layers=1,
                                              n_decoder_layers=1)
    history = train_translator(day.folder/'captions', config, corpus=corpus)
    translator = Translator(day.folder/'captions', day.device)
    scores = evaluate(translator, corpus['test'])
    names = ('step', 'seconds', 'valid_loss', 'weights')
    return dict(bleu=scores['bleu'], signature=scores['signatures']['bleu'],
                speeds=[line['tokens_per_second'] for line in history
                        if 'tokens_per_second' in line][1:4]
                ) | {name: history[-1][name] for name in names}

STAGES = dict(smoke_attention=smoke_attention, equality=equality, sixteen_bits=sixteen_bits,
              precisions=precisions, compiled=compiled, base_throughput=base_throughput,
              big_throughput=big_throughput, decoding=decoding, resumed=resumed,
              processes=processes, captions=captions, smoke_performance=smoke_performance)

# The day

def run_stage(name:str, rehearse:bool, result:Path):
    "In a process of its own: what it found goes into a file"
    with TemporaryDirectory() as folder:
        day = Day(rehearse, Path(folder))
        found = STAGES[name](day)
    result.write_text(json.dumps(found | provenance()), encoding='utf8')

def attempt_stage(name:str, rehearse:bool, minutes:float)->dict:
    "A line for the file, whatever happens"
    this = [sys.executable, __file__, '--child', name] + ['--rehearse'] * rehearse
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        result = Path(folder)/'result.json'
        try: done = subprocess.run(this + ['--out', result], timeout=60*minutes,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        except subprocess.TimeoutExpired: return dict(failed=f'over {minutes} minutes')
        if not result.exists():
            lines = done.stderr.strip().splitlines() or ['no message']
            return dict(failed=lines[-1][:500])
        found = json.loads(result.read_text(encoding='utf8'))
    return found | dict(seconds=round(time.perf_counter() - started, 1))

def run_day(out:Path, names:list[str], rehearse:bool, minutes:float):
    for name in names:
        lines = read_results(out)
        if any(line['row'] == name and 'failed' not in line for line in lines): continue
        found = attempt_stage(name, rehearse, minutes)
        others = [line for line in lines if line['row'] != name]
        write_results(out, [*others, dict(row=name, seed=0) | found])
        shown = found.get('failed') or f"{found['seconds']} s"
        print(f'{name}: {shown}', flush=True)

def main():
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add('--out', type=Path, help='file of results, such as nbs/results/gpu.jsonl')
    add('--stages', help=f'all by default: {",".join(STAGES)}')
    add('--minutes', type=float, default=8.9, help='that a stage may take')
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
