#!/usr/bin/env python3
"""The trainings of chapter 21: three families on one task, and readers of captions.

    python benchmarks/train_families.py --out families.jsonl [--models FOLDER]
    python benchmarks/train_families.py --out families_test.jsonl --confirm

The second asks the verdicts again, with seeds that judged nothing on captions that chose
nothing. A model starts with its seed, and dropout starts with it again, so that models of
different sizes draw the same random numbers. The rule stands in nbs/results/RULES.md. What
the file already has is not trained again.
"""
import time
from functools import partial
from math import exp
from pathlib import Path
import torch
from torch import nn
from transformer_nb.checkpoint import fingerprint, save_model
from transformer_nb.support.core import BOS, default_device, provenance
from transformer_nb.corpora import load_corpus
from transformer_nb.data import TokenBatches, encode_pairs
from transformer_nb.evaluation import score
from transformer_nb.speed.fast import accelerate
from transformer_nb.model import TransformerConfig
from transformer_nb.studies.families import (
    FAMILY_SIZES, TRANSLATORS, DecoderOnly, EncoderOnly, OneStack, family_loss, generate,
    hidden_logits, masked_loss, next_token_loss, train_family, translate_ids,
    translation_loss)
from transformer_nb.studies.variations import (
    BASE, BATCH_TOKENS, N_STEPS, PEAK_LR, VOCAB_SIZE, WARMUP_STEPS, prepare_task, seeded,
    task_corpus)
from transformer_nb.text import BPETokenizer
from runs import main, run_missing

READERS = { # and the number of steps
    'decoder':      (DecoderOnly, next_token_loss, 2000),
    'encoder':      (EncoderOnly, masked_loss, 2000),
    'encoder-long': (EncoderOnly, masked_loss, 13_333)} # about the decoder's predictions
CAPTION_VOCAB = 4000

def build(family:type, config:TransformerConfig)->nn.Module:
    return accelerate(family(config)).to(default_device())

def count(model:nn.Module)->dict:
    return dict(parameters=sum(p.numel() for p in model.parameters()))

def bleu_of(model:nn.Module, tokenizer:BPETokenizer, pairs:list)->dict: # pairs of texts
    translated = translate_ids(model, [tokenizer.encode(source) for source, _ in pairs])
    translations = [tokenizer.decode(ids) for ids in translated]
    scores = score(translations, [reference for _, reference in pairs])
    return dict(bleu=scores['bleu'], chrf=scores['chrf'],
                signature=scores['signatures']['bleu'], examples=translations[:4])

def train_translator(name:str, rate:float, seed:int, corpus:dict, n_steps:int)->dict:
    tokenizer, train, valid = prepare_task(corpus)
    family, layers = TRANSLATORS[name]
    config = TransformerConfig(tokenizer.vocab_size, **FAMILY_SIZES, **layers)
    model = seeded(partial(build, family, config), seed)
    loss_of = partial(translation_loss, label_smoothing=BASE['label_smoothing'])
    batches = TokenBatches(train, BATCH_TOKENS, seed)
    result = count(model) | train_family(model, batches, loss_of, n_steps, rate*PEAK_LR)
    result['valid_loss'] = round(family_loss(model, valid, translation_loss), 4)
    result['train_loss'] = round(
        family_loss(model, train[:len(valid)], translation_loss), 4)
    if 'test' in corpus:
        test, _ = encode_pairs(corpus['test'], tokenizer, BASE['max_len'])
        result['test_loss'] = round(family_loss(model, test, translation_loss), 4)
    return result | bleu_of(model, tokenizer, corpus['valid'])

def hidden_scores(model:OneStack, texts:list[list[int]])->dict:
    "Of each text, how many of its tokens are the likeliest, each hidden in turn"
    right, nats = [], 0.
    for ids in texts:
        logits = hidden_logits(model, ids)
        labels = torch.tensor(ids)
        right.append(int((logits.argmax(-1) == labels).sum()))
        nats += nn.functional.cross_entropy(logits, labels, reduction='sum').item()
    tokens = [len(ids) for ids in texts]
    accuracy = sum(right) / sum(tokens)
    return dict(accuracy=round(accuracy, 4), hidden_loss=round(nats / sum(tokens), 4),
                right=right, tokens=tokens)

SETTINGS = dict(plain={}, cool=dict(temperature=0.7), top_k=dict(top_k=10),
                 top_p=dict(top_p=0.9), greedy=dict(top_k=1))

def samples(model:DecoderOnly, tokenizer:BPETokenizer)->dict[str,list[str]]:
    "Captions drawn with the same seed and different options"
    texts = {}
    for name, options in SETTINGS.items():
        generator = torch.Generator().manual_seed(0)
        prompts = [[BOS]] * (1 if name == 'greedy' else 5)
        drawn = generate(model, prompts, generator=generator, **options)
        texts[name] = [tokenizer.decode(ids) for ids in drawn]
    return texts

def train_reader(name:str, rate:float, seed:int, corpus:dict, n_steps:int,
                  models:Path|None=None)->dict: # folder for the model of seed 0
    tokenizer = BPETokenizer.train(corpus['train'], CAPTION_VOCAB)
    train = [([], ids) for ids in tokenizer.encode_batch(corpus['train'])]
    valid = tokenizer.encode_batch(corpus['valid'])
    family, loss_of, _ = READERS[name]
    config = TransformerConfig(tokenizer.vocab_size, **FAMILY_SIZES, n_encoder_layers=7)
    model = seeded(partial(build, family, config), seed)
    batches = TokenBatches(train, BATCH_TOKENS, seed)
    result = count(model) | train_family(model, batches, loss_of, n_steps, rate*PEAK_LR)
    model.cpu().eval()
    result |= hidden_scores(model, valid)
    if family is DecoderOnly:
        loss = family_loss(model, [([], ids) for ids in valid], next_token_loss)
        result |= dict(valid_loss=round(loss, 4), ppl=round(exp(loss), 3))
        result['samples'] = samples(model, tokenizer)
    if models and seed == 0: save_model(Path(models)/name, model, tokenizer)
    return result

Job = tuple[str,str,float,int] # task, model, rate, seed

def family_jobs()->list[Job]: # seed by seed
    jobs = []
    for seed in range(6):
        jobs += [('translate', name, 1, seed) for name in TRANSLATORS]
        if seed < 3:
            jobs += [('captions', 'decoder', 1, seed), ('masks', 'encoder', 1, seed)]
        if seed == 0: jobs.append(('masks', 'encoder-long', 1, seed))
    for seed in range(2):
        for rate in (0.5, 2):
            jobs += [('translate', name, rate, seed) for name in TRANSLATORS]
    return jobs

def run_job(task:str, model:str, rate:float, seed:int, corpus:dict, n_steps:int,
             models:Path|None)->dict: # what was measured
    start = time.perf_counter()
    if task == 'translate': result = train_translator(model, rate, seed, corpus, n_steps)
    else: result = train_reader(model, rate, seed, corpus, n_steps, models)
    result = dict(task=task, model=model, rate=rate) | result
    seconds = round(time.perf_counter() - start, 1)
    return result | dict(seconds=seconds) | provenance()

def family_corpora(data_dir:str|Path|None=None # folder with the files of multi30k
                  )->dict[str,dict]:           # of each task, its splits
    "Chapter 18's short pairs, English to German, and all captions in English"
    pairs = load_corpus('multi30k', 'en', 'de', data_dir)
    captions = {split: [english for english, _ in pairs[split]]
                for split in ('train', 'valid')}
    return dict(translate=task_corpus(data_dir), captions=captions, masks=captions)

def n_steps(task:str, model:str)->int:
    return N_STEPS if task == 'translate' else READERS[model][-1]

def row(task:str, model:str, rate:float, *_)->str: return f'{task}/{model}/{rate}'

def family_settings(jobs:list[Job], corpora:dict, steps:int|None
                    )->dict[str,str]: # a fingerprint of each row
    shared = [FAMILY_SIZES, BASE['label_smoothing'], BATCH_TOKENS, PEAK_LR, WARMUP_STEPS]
    own = dict.fromkeys(('captions', 'masks'), CAPTION_VOCAB) | dict(translate=VOCAB_SIZE)
    texts = {task: fingerprint([corpora[task]['train'], corpora[task]['valid']])
             for task, *_ in jobs}
    settings = {}
    for task, model, rate, _ in jobs:
        everything = [shared, own[task], texts[task], model, rate]
        everything.append(steps or n_steps(task, model))
        settings[row(task, model, rate)] = fingerprint(everything)
    return settings

def train_families(out:str|Path,     # file of results; what it has is not trained again
                   corpora:dict,     # of `family_corpora`
                   jobs:list[Job]|None=None, # None: all
                   processes:int=2,  # runs at the same time, one thread each
                   steps:int|None=None, # of every run, to try it out
                   models:str|Path|None=None, # folder for the readers of seed 0
                  )->list[dict]:     # all results in the file
    "Raises `InputError` where a line of the file has other settings"
    jobs = jobs or family_jobs()
    arguments = {}
    for task, model, rate, seed in jobs:
        rest = corpora[task], steps or n_steps(task, model), models
        arguments[row(task, model, rate), seed] = task, model, rate, seed, *rest
    settings = family_settings([*jobs, *family_jobs()], corpora, steps)
    return run_missing(out, run_job, arguments, settings, processes)

def confirm_families(out:str|Path, # file of results
                     corpora:dict|None=None, # None: `family_corpora`
                     **options     # for `train_families`
                    )->list[dict]: # all results in the file
    "The translators with seeds that judged nothing, on captions that chose nothing"
    jobs = [('translate', name, 1, seed) for seed in range(6, 10) for name in TRANSLATORS]
    return train_families(out, corpora or family_corpora(), jobs, **options)

def command(out:Path, processes:int, models:Path|None, confirm:bool):
    if confirm: confirm_families(out, processes=processes)
    else: train_families(out, family_corpora(), processes=processes, models=models)

if __name__ == '__main__':
    main(__doc__, command, models=dict(type=Path, help='folder for the readers of seed 0'),
         confirm=dict(action='store_true', help='ask the verdicts again'))
