"""Stage 9, which needs the book's model, and what a submission's files do all together"""
import json, sys, torch
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from safetensors.torch import load_file
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from ..assignment.config import TransformerConfig
from .. import model as book
from ..checkpoint import load_model, load_record, save_model
from ..proving.draw import Later, Made, Part
from ..proving.prove import prove
from .table import BOS, PAD, Check, Stage, real
from .toys import EOS, Digits, Toy

@cache
def tokenizer_of(folder:str): return load_model(folder)[1] # which a submission may not read

@contextmanager
def single(): # as fast as it is
    torch.set_default_dtype(torch.float32)
    try: yield
    finally: torch.set_default_dtype(torch.float64)

# Stage 9

READ = '15_translation', 'From a model folder to translations'
ANY = '23_any_transformer', 'Properties: what must hold of any Transformer'
SHOWN = 'Two children are playing in the snow with a small dog.'

@cache
def deep_folder(folder:str)->str: # as long as this process
    "A model with more than ten layers and 512 positions, as a folder"
    sizes = dict(d_model=6, d_ff=5, n_heads=2, d_k=4, d_v=7, max_len=530)
    words = load_record(folder)['model']['vocab_size']
    config = book.TransformerConfig(words, n_encoder_layers=11, n_decoder_layers=12, **sizes)
    book.place = TemporaryDirectory()
    with torch.random.fork_rng(devices=[]): deep = book.Transformer(config)
    save_model(book.place.name, deep, tokenizer_of(folder))
    record = load_record(book.place.name) # to be as the kit tells it
    fields = {name: record['model'][name] for name in TransformerConfig.__dataclass_fields__}
    record['model'] = fields | dict(norm='post', positions='sinusoidal', tie_embeddings=True)
    Path(book.place.name, 'config.json').write_text(json.dumps(record), encoding='utf8')
    return book.place.name

def logits_of(loaded, args)->list: # which weights are not the file's; loaded again, too
    stored = [*load_file(Path(args[0], 'model.safetensors')).values()]
    other = [name for name, p in loaded.named_parameters()
             if not any(x.shape == p.shape and p.equal(x.to(p)) for x in stored)]
    more = f' and {len(other) - 2} more' * (len(other) > 2)
    wrong = f'a model whose {", ".join(other[:2])}{more} are not numbers of the file'
    src, tgt = torch.tensor([[9, 8, 7, 6, EOS, PAD], [5, 9, 30, 41, 8, EOS]]), torch.tensor(
        [[BOS, 7, 9, 4, 11], [BOS, 50, 60, 7, PAD]])
    long = torch.arange(load_record(args[0])['model']['max_len'])[None] % 20 + 4
    try: at_length = ['a model for `max_len` tokens', loaded.double()(long, long[:, :9])]
    except Exception as e: at_length = [f'a model that fails with `max_len` tokens: {e}']
    logits = real(loaded.double()(src, tgt), tgt != PAD)
    with torch.no_grad():
        for p in loaded.train().parameters(): p.zero_()
    again = import_module('translation').load_model(args[0]).double()
    return [wrong if other else 'a model with the numbers of the file', logits,
            real(again(src, tgt), tgt != PAD), *at_length]

def state_of(loaded, args)->str:
    mode = f'a model in {"training" if loaded.training else "evaluation"} mode'
    is_half = any(p.element_size() < 4 for p in loaded.parameters())
    return mode + ', half precision' * is_half

def long_running(case)->Toy: # where the limit of steps counts
    end = 0. if case.n == 12 else (-30., 0., -1.5, -3.)[case.n % 4] # 12: α decides
    model = sys.modules.get('model') # whose class it has, for who asks
    kind = type('Toy', (Toy, model.Transformer), {}) if model else Toy
    return kind(16 if case.n == 12 else case.random.randrange(10**6), end=end,
                max_len=max(90, case.size('n') + 60))

def digits(case)->str: # two to a word, so that words are not tokens
    ids = [str(case.random.randrange(4, 8)) for _ in range(case.size('n'))]
    if case.n == 12: ids = [*'7767']
    return ' '.join(''.join(ids[i:i + 2]) for i in range(0, len(ids), 2))

def loading(folder:str, shown, cases:int=1, **options)->Part:
    deep = folder and deep_folder(folder) # made before a submission runs, which may not write
    def either(case): # the other one as a `Path`
        if case.n == 0: return folder
        case.features.add('a folder of the grader\'s own has 11 encoder layers, 12 decoder '
                          'layers, and 530 positions')
        return Path(deep)
    return Part('load_model', {'': dict(folder=Made(either))}, cases=cases, once=True,
                shown=shown, **options)

def stage_9(folder:str)->Stage:
    def loaded(args): return import_module('translation').load_model(folder).float()
    book = dict(model=Made(lambda case: Later(loaded)),
                tokenizer=Made(lambda case: tokenizer_of(folder)), text=Made(lambda case: SHOWN))
    toys = dict(model=Made(long_running), tokenizer=Made(lambda case: Digits(case.n % 2)),
                text=Made(digits))
    return Stage(9, 'translation.py', "the book's weights", (
        Check(1, 'the model is in evaluation mode', loading(folder, state_of), READ),
        Check(2, "the logits of the book's model",
              loading(folder, logits_of, 2, tolerance=1e-4), READ),
        Check(1, 'translations by toy models', Part('translate', {'': toys}, cases=13, sizes=dict(
            n=lambda case: {4: 1, 8: 20}.get(case.n, 2 + case.random.randrange(6)))), READ),
        Check(2, "the book's translations", Part(
            'translate', {'': book}, cases=1, once=True), READ)))

# All together

SMALL = TransformerConfig(24, d_model=16, d_ff=32, n_heads=4, d_k=4, d_v=4, dropout=.1,
                          n_encoder_layers=2, n_decoder_layers=2, max_len=64)
PROVED = 'your whole model is the paper\'s, and keeps what `tnb_prove` asks of any'

def proved(model, args)->list[str]:
    "What the book asks of anybody's Transformer, as `tnb_prove` does"
    def own(module, name): return getattr(import_module(module), name)
    def loss(logits, labels):
        return own('optimizer', 'smoothed_loss')(logits, labels) / (labels != PAD).sum()
    doors = SimpleNamespace(
        vocab_size=SMALL.vocab_size, pad=PAD, bos=BOS, eos=EOS, loss=loss,
        logits=lambda model, src, tgt: model(src, tgt),
        greedy=lambda model, src, n: own('decoding', 'greedy')(model, src, n),
        schedule=lambda step: own('optimizer', 'paper_lr')(step, 512))
    with single(): proof = prove(model, doors, training=False)
    is_same = proof.found.difference < 1e-6
    said = [f'{v.name}: {v.outcome}' for v in proof.verdicts if v.outcome != 'not asked']
    return [*said, f'the same function as the paper\'s: {"yes" if is_same else "no"}']

def translated(loaded, args)->str:
    translate, tokenizer = import_module('translation').translate, tokenizer_of(args[0])
    with single(): return translate(loaded.float(), tokenizer, SHOWN)

def together(folder:str)->list[Stage]:
    "With points for nothing, and without any of the right files"
    whole = Part('Transformer', {'': dict(config=Made(lambda case: SMALL))}, cases=1,
                 once=True, shown=proved)
    return [Stage(5, 'model.py', '', (Check(0, PROVED, whole, ANY),)),
            Stage(9, 'translation.py', '', (Check(
                0, "the book's translations, by all of your own files",
                loading(folder, translated), READ),))]
