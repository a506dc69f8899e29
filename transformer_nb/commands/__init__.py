"""The book at the command line: train, translate and evaluate without writing Python."""

import argparse, ctypes, json, math, os, shlex, sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import get_args, get_type_hints
import torch, yaml
from tqdm import tqdm
from transformer_nb.checkpoint import (
    SHIPPED, check_output_folder, find_model, last_weights, load_weights)
from transformer_nb.copy_task import copy_model, draw_sequences, exact_match, train_copy
from transformer_nb.support.core import (
    METAVARS, InputError, Arg, add_version, check_choice, check_names,
    check_new_file, check_positive, command, default_device, find_device, find_in,
    memory_advice, read_arguments, set_seed, shorten)
from transformer_nb.corpora import (
    PairFiles, decode_lines, load_corpus, read_lines, read_pairs, stream_lines)
from transformer_nb.decoding import SEARCH_TOKENS
from transformer_nb.support.distributed import process_group, rank
from transformer_nb.speed.fast import accelerate
from transformer_nb.prepare import (
    PreparedData, as_list, format_dropped, format_leaks, format_vocabulary, prepare_data)
from transformer_nb.hub import open_record, open_tokenizer
from transformer_nb.training import TrainingConfig
from transformer_nb.recipe import (
    PRESETS, SECTIONS, RunConfig, fine_tuning, load_search, preset)
from transformer_nb.translation import (
    Line, Translator, distinct, evaluate, evaluate_lines, model_languages, score_pairs,
    train_translator)

@dataclass(frozen=True)
class _Option:
    "A field of a run, as an option"
    section: str   # model, data, training or search
    name: str
    kind: type     # int, float, str or bool
    optional: bool # can it be none?
    many: bool     # can it be a list?
    help: str

@cache
def _options()->dict[str,_Option]: # by name
    from fastcore.docments import docments # here, because it reads files and parses them
    options = {}
    for section, config in SECTIONS.items():
        types = get_type_hints(config)
        comments = docments(config)
        for name in (field.name for field in fields(config)):
            if (section, name) == ('model', 'vocab_size'): continue # the tokenizer's size
            assert name not in options, f'{name} is a field of two sections'
            kind, *rest = get_args(types[name]) or [types[name]]
            optional, many = type(None) in rest, list[kind] in rest
            options[name] = _Option(section, name, kind, optional, many,
                                    comments[name] or '')
    return options

_NOT_SHOWN = '''activation biases d_k d_v n_kv_heads norm norm_eps norm_type positions
    qk_norm rope_base scale_embeddings tie_embeddings alpha beam_size max_extra penalty
    data_dir drop_duplicates drop_leaks drop_same held_out max_ratio min_letters normalize
    tokenizer_pairs valid_tag fixed_shapes log_every patience_on save_every_minutes
    valid_every_minutes'''.split() # whose options `tnb_train --help` does not show

def _train_parser()->argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        'tnb_train', 'tnb_train --out DIR [--preset NAME] [--config FILE] [options]',
        'Train a translation model and write it as a folder; in several processes if '
        'torchrun starts it. Command line overrides file, and file overrides preset. '
        'With --max_minutes alone, the number of steps has no limit. With --init alone, '
        "schedule and settings come from the model's own run: a tenth of its learning "
        'rate, for a tenth of its steps. A run.yaml of --out shows all fields of a run, '
        'which are options, too, and can be set in such a file.',
        argument_default=argparse.SUPPRESS)
    add = parser.add_argument
    add('--out', metavar='DIR', help='model folder to write')
    add('--resume', action='store_true', help='continue from the last checkpoint in --out')
    add('--init', metavar='MODEL', type=find_model, help='model folder to start from, '
        'instead of random weights: takes its architecture, weights and tokenizer')
    _add_options(parser, _options().values(), _NOT_SHOWN)
    return parser

def _add_options(parser:argparse.ArgumentParser, options:Iterable[_Option],
                 hidden:Collection[str]=()): # their names
    "These, by section, and what every parser has"
    add = parser.add_argument
    add('--preset', metavar='NAME', choices=[*PRESETS],
        help=f'{", ".join(PRESETS)}; tiny by default')
    add('--config', metavar='FILE', help="a run as YAML, such as a model's run.yaml")
    add('--tokenizer', metavar='MODEL', help='whose tokenizer to use, instead of learning '
        'one: a model folder, or a tokenizer.json')
    add_version(parser)
    presets = {name: make().to_dict() for name, make in PRESETS.items()}
    groups = {}
    for option in options:
        section = option.section
        if section not in groups: groups[section] = parser.add_argument_group(section)
        values = {name: run[section][option.name] for name, run in presets.items()}
        text = option.help + _format_defaults(values)
        if option.name in hidden: text = argparse.SUPPRESS
        _add_option(groups[section], option, text)

def _add_option(group, option:_Option, text:str): # for its help
    def read(given): return None if can_be_none and given in _NOTHING else kind(given)
    kind, can_be_none = option.kind, option.optional
    read.__name__ = kind.__name__ # which argparse tells
    how = dict(metavar=METAVARS.get(kind), type=read)
    if option.many: how['nargs'] = '+'
    if kind is bool: how = dict(action=argparse.BooleanOptionalAction)
    group.add_argument(f'--{option.name}', help=text.replace('%', '%%'), **how)

_NOTHING = 'none', 'null', '~'

def _format_defaults(defaults:dict)->str: # as ' (default: 6000; base 37000, big 37000)'
    "The preset tiny's, and those that differ"
    shown = {name: f'{v:.3g}' if type(v) is float else str(v).lower()
             for name, v in defaults.items() if v is not None}
    own = shown.get('tiny')
    parts = [f'default: {own}'] if own else []
    others = [f'{name} {v}' for name, v in shown.items() if v != own]
    if others: parts.append(', '.join(others))
    return f' ({"; ".join(parts)})' if parts else ''

class _PlainLoader(yaml.BaseLoader):
    "YAML whose values are text, without repeated keys"
    def construct_mapping(self, node, deep=False):
        seen = set()
        for name in (key for key, _ in node.value):
            if name.value in seen:
                problem = f'{shorten(str(name.value), 40)!r} is there twice'
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=name.start_mark)
            seen.add(str(name.value))
        return super().construct_mapping(node, deep)

def _read_run_file(path:str|Path)->dict: # values by option
    "A file says what options can say; raises `InputError` with its name"
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS, add_help=False)
    parser.add_argument('--preset', choices=[*PRESETS])
    for option in _options().values(): _add_option(parser, option, '')
    try:
        content = yaml.load(Path(path).read_bytes(), _PlainLoader)
        return read_arguments(parser, _as_arguments(content or {}))
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1
        raise InputError(f'{path}:{line}: not YAML: {e.problem}') from None
    except InputError as e: raise InputError(f'{path}: {e}') from None
    except (yaml.YAMLError, ValueError, RecursionError) as e: # bytes, escapes, depth
        raise InputError(f'{path}: not YAML: {" ".join(str(e).split())}') from None

def _as_arguments(content)->list[str]: # of a run file
    if not isinstance(content, dict): raise InputError('it must hold sections')
    check_names(content, ['preset', *SECTIONS], 'a section')
    words = []
    for section, values in content.items():
        if section == 'preset':
            words.append(f'--preset={values}')
            continue
        if not isinstance(values or {}, dict):
            raise InputError(f'{section} must hold fields')
        known = {x.name: x for x in _options().values() if x.section == section}
        check_names(values or {}, known, f'a field of {section}')
        for name, value in (values or {}).items(): words += _as_words(known[name], value)
    return words

def _as_words(option:_Option, value)->list[str]: # none if it is null and cannot be none
    name = option.name
    if value in ('', *_NOTHING):
        return [f'--{name}=none'] if option.optional and option.kind is not bool else []
    if option.kind is bool:
        words = dict(true=f'--{name}', false=f'--no-{name}')
        return [words.get(str(value).lower(), f'--{name}={value}')]
    return [f'--{name}', *map(str, as_list(value))]

_UNLIMITED = 10**9 # steps

def _build_run(arguments:dict)->RunConfig: # options that were given
    "Preset, then file, then command line; raises `InputError`"
    given = _read_run_file(arguments['config']) if 'config' in arguments else {}
    for name, value in arguments.items():
        if name in _options() or name == 'preset': given[name] = value
    for name, value in given.items():
        if isinstance(value, list) and len(value) == 1: given[name] = value[0]
    init = arguments.get('init')
    if init and 'preset' not in given: return fine_tuning(init, **given)
    if given.get('max_minutes') and 'max_steps' not in given: # the clock ends the training
        given['max_steps'] = given.get('decay_steps') or _UNLIMITED
    start = preset(given.pop('preset', 'tiny'))
    if init: start = start.like(fine_tuning(init).model)
    return start.override(**given)

_LESS_MEMORY = 'lower --batch_tokens and raise --grad_accum_steps to match'

@command
def tnb_train(argv:list[str]): # in a script the arguments of the process
    "Train a translation model and write it as a folder"
    arguments = read_arguments(_train_parser(), argv)
    out = arguments.pop('out', None)
    if out is None: raise InputError('--out is needed: the model folder to write')
    _check_tokenizer_options(arguments)
    resume, init = arguments.pop('resume', False), arguments.get('init')
    tokenizer = arguments.pop('tokenizer', None)
    if resume and not _DATA & arguments.keys(): arguments['config'] = _own_run(out)
    with process_group(), memory_advice(_LESS_MEMORY):
        config = _build_run(arguments)
        history = train_translator(out, config, resume, init=init, tokenizer=tokenizer)
        if rank() == 0: print(_format_history(out, history))
        if rank() == 0: _tell_of_rise('tnb_train', history[-1]['step'], config.training)

def _tell_of_rise(command:str, steps:int, config:TrainingConfig):
    if steps >= config.warmup_steps: return
    print(f'{command}: it ended after {steps} steps, while the learning rate was still '
          f'rising (--warmup_steps {config.warmup_steps}); train for longer',
          file=sys.stderr)

_DATA = {'data', 'corpus', 'src', 'config', 'preset', 'init'} # each says what to train

def _own_run(out:str)->Path: # the settings of a run that goes on
    path = Path(out)/'run.yaml'
    if path.is_file(): return path
    raise InputError(f'--resume: {out} has no run to continue: there is no {path}')

def _check_tokenizer_options(arguments:dict):
    "Raise `InputError` for options of a new tokenizer if one exists already"
    for origin in ('init', 'tokenizer', 'data'):
        for name in ('vocab_size', 'normalize', 'tokenizer_pairs'):
            if origin in arguments and name in arguments:
                raise InputError(f'--{name} and --{origin} cannot be combined: '
                                 'the tokenizer exists already')

def _format_history(out:str|Path, history:list[dict])->str:
    "What was trained, for how long and how well, and how to use it"
    data = history[0]
    last = history[-1]
    speeds = [line['tokens_per_second'] for line in history if line.get('step')]
    speed = sum(speeds) / len(speeds)
    skipped = f", {last['skipped']} steps skipped" if last['skipped'] else ''
    rows = [
        f"{data['parameters']:,} parameters trained on {data['pairs']:,} pairs: "
        f"{last['step']} steps in {last['seconds']/60:.1f} minutes, "
        f"{speed:,.0f} target tokens/s{skipped}",
        _format_perplexities(history),
        f'translate with: tnb_translate {out} < sentences.txt > translations.txt']
    return '\n'.join(rows)

def _format_perplexities(history:list[dict])->str: # and which weights were taken
    from transformer_nb.evaluation import perplexity # here, because it is slow to import
    lines = [line for line in history if 'step' in line]
    last, best = lines[-1], min(lines, key=lambda line: line['valid_loss'])
    losses = {'start': lines[0]['valid_loss']} if lines[0]['step'] == 0 else {}
    losses[f"best step ({best['step']})"] = last['best_loss']
    losses['last step'] = last['last_loss']
    losses['mean of the last checkpoints'] = last['average_loss']
    shown = ', '.join(f'{name} {perplexity(loss):.2f}' for name, loss in losses.items())
    return f'validation perplexity: {shown}; {_format_choice(last, best["step"])}'

def _format_choice(last:dict, best_step:int)->str: # which weights the model has, and why
    chosen = dict(mean='the mean', best='the best step', last='the last step')
    others = [last[name] for name in ('average_loss', 'best_loss', 'last_loss')]
    why = 'the lowest' if last['final_loss'] <= min(others) else 'as asked, not the lowest'
    if last['weights'] == 'best' and best_step == 0:
        return 'no step made it better, so the model is what it was at the start'
    return f"the model is {chosen[last['weights']]}, {why}"

def _prepare_parser()->argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        'tnb_prepare', 'tnb_prepare DIR [--preset NAME] [--config FILE] [options]',
        'Read, filter and encode text once, for any number of training runs: '
        'tnb_train --data DIR. --src and --tgt may name several files each, pair by '
        'pair; then --tag and --mix may have a value for each pair of files.',
        argument_default=argparse.SUPPRESS)
    parser.add_argument('folder', metavar='DIR', help='folder to write')
    _add_options(parser, _options_of_text())
    return parser

def _options_of_text()->list[_Option]:
    options = _options()
    names = [name for name, option in options.items() if option.section == 'data']
    for name in ('data', 'batch_tokens'): names.remove(name) # a training's
    return [options[name] for name in [*names, 'max_len']]

@command
def tnb_prepare(argv:list[str]): # in a script the arguments of the process
    "Read, filter and encode text once, for any number of training runs"
    arguments = read_arguments(_prepare_parser(), argv)
    folder = Path(arguments.pop('folder'))
    _check_tokenizer_options(arguments)
    path = arguments.pop('tokenizer', None)
    tokenizer = open_tokenizer(path) if path else None
    config = _build_run(arguments).override(data=None)
    check_output_folder(folder, can_resume=False)
    max_len = config.model.max_len
    data = prepare_data(folder, config.data, max_len, tokenizer=tokenizer)
    print(_format_report(data))

def _format_report(data:PreparedData)->str: # what was kept and what was left out, and why
    c, train = data.config, data.splits['train']['corpora']
    names = as_list(c.src) or [c.corpus]
    lines = []
    for name, part in [*zip(names, train), ('validation', data.splits['valid'])]:
        lines.append(f"{name}: {part['pairs']:,} pairs, "
                     f"left out: {format_dropped(part['dropped'])}{format_leaks(part)}")
    vocabulary = format_vocabulary(data.tokenizer.vocab_size, c.vocab_size)
    lines.append(f'{vocabulary}; train with: tnb_train --data {data.folder} --out MODEL')
    return '\n'.join(lines)

def _in_chunks(lines:Iterable[str], largest:int,
               waiting:Collection|None=None # lines that have arrived; by default all
              )->Iterator[list[str]]: # of 1, 2, 4, … lines, at most `largest`
    lines = iter(lines)
    size = 1
    for line in lines:
        more = size - 1
        if waiting is not None: more = min(more, len(waiting))
        chunk = [line]
        try: chunk.extend(islice(lines, more))
        finally: yield chunk # also what stood before a fault
        size = min(2*size, largest)

_LONGEST_READ = 2**18 # bytes; a pipe holds a quarter of it

class _Arriving:
    "A file whose lines arrive one by one, and the lines that have arrived"
    def __init__(self, file):  # open for reading, in bytes
        self.file = file
        self.waiting = deque() # whole lines, not yet taken
        self.rest = b''        # start of the next

    def readline(self, limit:int)->bytes: # empty at the end
        "Waits only if no complete line has arrived"
        while not self.waiting and len(self.rest) < limit:
            data = self.file.read1(_LONGEST_READ) # one system call
            if not data: break
            *whole, self.rest = (self.rest + data).split(b'\n')
            self.waiting.extend(line + b'\n' for line in whole)
        if self.waiting: return self.waiting.popleft()
        last, self.rest = self.rest, b''
        return last

def _input_chunks(path:str|None, # None: standard input
                  folder:str='MODEL', # the model's, for a message
                  tell:Callable|None=None)->Iterator[list[str]]: # of bytes replaced
    if path == '-': path = None # as other commands call it
    if path and not os.path.exists(path): raise InputError(_no_such_file(path, folder))
    if path and Path(path).is_file(): return _in_chunks(stream_lines(path, tell), 2048)
    if not path and sys.stdin is None: raise InputError('standard input is closed')
    file = _Arriving(open(path, 'rb') if path else sys.stdin.buffer)
    lines = decode_lines(file, path or 'standard input', tell)
    chunks = _in_chunks(lines, 2048, file.waiting)
    return chunks if path or not sys.stdin.isatty() else _prompted(chunks)

def _no_such_file(path:str, folder:str)->str: # a sentence, perhaps
    shown = shorten(repr(path), 120)
    said = shlex.quote(path if len(path) <= 100 else '…')
    return (f'there is no file {shown}; if that is a sentence to translate: '
            f'echo {said} | tnb_translate {shlex.quote(str(folder))}')

def _tell(message:str): print(f'tnb_translate: {message}', file=sys.stderr)

def _prompted(chunks:Iterator[list[str]])->Iterator[list[str]]: # of a person who types
    print('Type a sentence, then Enter. Ctrl-D ends.', file=sys.stderr)
    while True:
        print('> ', end='', file=sys.stderr, flush=True)
        chunk = next(chunks, None)
        if chunk is None: break
        yield chunk
    print(file=sys.stderr)

_MODEL = f'model folder, or {" or ".join(SHIPPED)}, which come with the package'
_BEAM_SIZE = Arg("hypotheses kept; 1 is greedy search (default: the model's own)", int)
_ALPHA = Arg("exponent of the length penalty (default: the model's own)", float)
_MAX_EXTRA = Arg('tokens that a translation may have more than its source (default: the '
                 "model's own)", int)
_PRECISION = Arg('fp32, bf16, fp16; or auto: 16 bits on a GPU', str, 'NAME')

@command
def tnb_translate(
    folder:Arg(_MODEL, find_model, 'MODEL'),
    file:Arg('lines to translate (plain or .gz); by default, or -, standard input', str,
                'FILE', nargs='?')=None,
    beam_size:_BEAM_SIZE=None,
    alpha:_ALPHA=None,
    max_extra:_MAX_EXTRA=None,
    n_best:Arg('translations per line, as `number ||| translation ||| score`', int)=1,
    sample:Arg('draw each translation at random, instead of the best of a beam',
                 bool)=False,
    temperature:Arg('with --sample: below 1 safer, above 1 bolder', float)=None,
    top_k:Arg('with --sample: draw from the k likeliest tokens', int)=None,
    top_p:Arg('with --sample: draw from the likeliest that sum to this', float)=None,
    seed:Arg('with --sample: seed of the random numbers', int)=None,
    no_split:Arg('take each line for one sentence', bool)=False,
    exact:Arg('read each line as it is typed: capitals, marks, symbols', bool)=False,
    strict:Arg('stop at a byte that is not UTF-8, in place of replacing it', bool)=False,
    search_tokens:Arg('maximum source tokens per batch', int)=SEARCH_TOKENS,
    threads:Arg('of the processor (default: all; 1 for each of --processes)', int)=None,
    processes:Arg('share the lines, with a thread each: for long files', int)=1,
    device:Arg('such as cpu, cuda or mps', str, 'NAME')=None,
    precision:_PRECISION='auto'):
    "Translate a file or standard input, with one output line for each input line"
    check_positive(threads=threads, processes=processes)
    given = _given(beam_size=beam_size, alpha=alpha, max_extra=max_extra)
    drawing = _given(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    _check_sampling(sample, drawing, given, n_best)
    options = _search_options(folder, given, search_tokens, precision, n_best)
    set_seed(drawing.pop('seed', 0))
    device = find_device(device)
    if threads: torch.set_num_threads(threads)
    translator = Translator(folder, device, **options)
    find = translator.search
    if sample: find = partial(translator.sample, **drawing)
    how = dict(exact=exact, split=not no_split and n_best == 1)
    translate = partial(translator.translate_lines, find=find, **how)
    with memory_advice('lower --search_tokens or --beam_size'), ExitStack() as stack:
        if processes > 1:
            other = '--sample' if sample else f'--device {device}'
            if sample or device.type != 'cpu':
                raise InputError(f'--processes and {other} cannot be combined')
            begin = partial(_open_translator, threads or 1, folder, options, how)
            translate = stack.enter_context(_shared(processes, begin))
        chunks = _input_chunks(file, folder, None if strict else _tell)
        _translate_lines(translator, translate, chunks, n_best)

_translate_here = None # what a process of `--processes` translates lines with

def _open_translator(threads:int, folder:str, options:dict, how:dict):
    global _translate_here
    torch.set_num_threads(threads)
    _translate_here = partial(Translator(folder, 'cpu', **options).translate_lines, **how)

def _translate_part(lines:list[str])->list[Line]: return _translate_here(lines)

@contextmanager
def _shared(processes:int, begin:Callable)->Iterator[Callable]: # translates a chunk
    from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
    from multiprocessing import get_context
    with ProcessPoolExecutor(processes, get_context('spawn'), begin) as pool:
        def translate(lines):
            results = [None] * len(lines)
            parts = [lines[i::processes] for i in range(processes)] # of like lengths
            for i, part in enumerate(pool.map(_translate_part, parts)):
                results[i::processes] = part
            return results
        try: yield translate
        except BrokenProcessPool:
            raise InputError('a process was killed; with fewer --processes there is '
                             'more memory') from None

def _translate_lines(translator:Translator,
                     translate:Callable, # a `Line` for each line of a chunk
                     chunks:Iterable[list[str]], n_best:int):
    beside_text = sys.stdout.isatty() # a bar would be glued to it
    quiet = bool(os.environ.get('IN_TEST')) or beside_text or None # None: if a terminal
    n = 0
    with tqdm(unit=' lines', disable=quiet) as bar:
        for chunk in chunks:
            lines = translate(chunk)
            for i, line in enumerate(lines, n + 1):
                for note in line.notes: _tell(f'line {i}: {note}')
            text = ''.join(_output_lines(translator, lines, n, n_best))
            sys.stdout.buffer.write(text.encode())
            sys.stdout.buffer.flush()
            n += len(chunk)
            bar.update(len(chunk))

def _output_lines(translator:Translator, lines:list[Line], # of a chunk
                  n:int,      # number of its first line
                  n_best:int)->Iterator[str]:
    for i, line in enumerate(lines, n):
        if n_best == 1: yield f'{line.text}\n'
        elif line.text: yield from (f'{i} ||| {x}\n' for x in _n_best(translator, line))

def _n_best(translator:Translator, line:Line)->Iterator[str]: # one sentence's
    [sentence], [hypotheses] = line.sentences, line.results
    if not hypotheses: yield f'{line.text} ||| {0:.4f}' # it comes back as it is
    for hypothesis in distinct(translator, hypotheses):
        text = sentence.write(translator.text(hypothesis))
        yield f'{text} ||| {hypothesis.score:.4f}'

def _given(**options)->dict: # those that have a value
    return {name: value for name, value in options.items() if value is not None}

def _search_options(folder:str, given:dict, search_tokens:int, precision:str,
                    n_best:int=1)->dict: # of a `Translator`
    "The model's own settings, except for those that are given"
    check_positive(search_tokens=search_tokens)
    config = replace(load_search(folder), **given)
    how = dict(search_tokens=search_tokens, precision=precision, n_best=n_best)
    return asdict(config) | how

def _check_sampling(sample:bool, drawing:dict, given:dict, n_best:int):
    "Raise `InputError` for options that do not go together"
    if drawing and not sample: raise InputError(f'--{next(iter(drawing))} needs --sample')
    others = {name: given.get(name) for name in ('beam_size', 'alpha')}
    if sample: _exclude('--sample', **others, n_best=n_best if n_best > 1 else None)

@command
def tnb_evaluate(
    folder:Arg(f'{_MODEL}; not needed with --hyp', find_model, 'MODEL',
               nargs='?')=None,
    src:Arg('sentences to translate, one per line (plain or .gz)', str, 'FILE')=None,
    ref:Arg('their references, one file or several', str, 'FILE', nargs='+')=None,
    corpus:Arg('a public corpus in place of --src and --ref', str, 'NAME')=None,
    split:Arg('of the corpus: valid or test (default: test)', str, 'NAME')=None,
    lang:Arg('language of the references, such as de: how words are split', str,
             'CODE')=None,
    tokenize:Arg("sacreBLEU's rule for words, such as zh, char or intl (default: 13a, or "
                   'that of the language)', str, 'RULE')=None,
    hyp:Arg('translations to score, in place of a model; - for standard input', str,
            'FILE')=None,
    baseline:Arg("another system's translations, to compare with", str, 'FILE')=None,
    out:Arg('file for the translations', str, 'FILE')=None,
    beam_size:_BEAM_SIZE=None,
    alpha:_ALPHA=None,
    max_extra:_MAX_EXTRA=None,
    average:Arg('use the mean of the last N checkpoints, not the final model', int)=None,
    search_tokens:Arg('maximum source tokens per batch', int)=SEARCH_TOKENS,
    device:Arg('such as cpu, cuda or mps', str, 'NAME')=None,
    precision:_PRECISION='auto'):
    "Translate a test set and score it, or score translations: one JSON object"
    check_positive(average=average)
    check_new_file(out)
    if hyp == '-': hyp = '/dev/stdin'
    given = _given(beam_size=beam_size, alpha=alpha, max_extra=max_extra)
    if hyp: _exclude('--hyp', folder=folder, src=src, corpus=corpus, out=out,
                     average=average, **given)
    elif folder is None: raise InputError(f'{_NEEDED}, or --hyp: translations')
    pairs, more = _load_scored(folder, src or hyp, ref, corpus, split)
    other = _read_baseline(baseline, pairs) if baseline else None
    if hyp:
        hyps, refs = map(list, zip(*pairs))
        return _tell_scores(evaluate_lines(hyps, refs, lang, other, tokenize, more))
    options = _search_options(folder, given, search_tokens, precision)
    translator = Translator(folder, find_device(device), **options)
    if average: load_weights(translator.model, last_weights(folder, average))
    with memory_advice('lower --search_tokens or --beam_size'):
        scores = evaluate(translator, pairs, lang, other, out, tokenize, more)
    _report_left_out(scores, translator.limit)
    _tell_scores(scores | _weights_of(folder, average))

def _weights_of(folder:Path, average:int|None)->dict: # which were scored, if it is known
    found = find_in(open_record(folder), 'training', 'result') or {}
    weights = f'mean of the last {average}' if average else found.get('weights')
    return _given(weights=weights, step=None if weights == 'best' else found.get('step'))

def _tell_scores(scores:dict):
    for note in scores.get('notes', ()): print(f'tnb_evaluate: {note}', file=sys.stderr)
    print(json.dumps(scores))

_NEEDED = 'a model folder and --src are needed'

def _exclude(option:str, **others): # options that make no sense with it
    for name, value in others.items():
        if value is None: continue
        name = 'a model folder' if name == 'folder' else f'--{name}'
        raise InputError(f'{name} and {option} cannot be combined')

def _load_scored(folder:str|None, src:str|None, ref:list[str]|None, corpus:str|None,
                 split:str|None
                )->tuple[list[tuple[str,str]],list[list[str]]]: # further references
    "From two files, or from a corpus in the languages of the model"
    if corpus:
        _exclude('--corpus', src=src, ref=ref)
        return _load_split(folder, corpus, split or 'test'), []
    if split: raise InputError('--split is that of a corpus; give --corpus, too')
    if not ref: raise InputError('--ref is needed: the reference translations')
    if src is None: raise InputError(f'{_NEEDED}, or --hyp: translations')
    first, *others = as_list(ref)
    pairs = read_pairs(src, first)
    return pairs, [_read_baseline(path, pairs) for path in others]

def _load_split(folder:str, corpus:str, split:str)->list[tuple[str,str]]:
    src_lang, tgt_lang = model_languages(folder)
    if None in (src_lang, tgt_lang):
        raise InputError(f'{folder} does not say its languages; give --src and --ref')
    check_choice('split', split, ('valid', 'test'))
    return list(load_corpus(corpus, src_lang, tgt_lang)[split])

def _read_baseline(path:str, pairs:list)->list[str]: # as many lines as pairs
    lines = list(stream_lines(path))
    if len(lines) == len(pairs): return lines
    raise InputError(f'{path} has {len(lines)} lines and there are {len(pairs)} '
                     'references; they must match line by line')

def _report_left_out(scores:dict, limit:int): # from `evaluate`
    "Name on standard error the lines that were cut or left out"
    for reason, lines in scores['left_out'].items():
        print(f'tnb_evaluate: left out of the perplexity, {reason}: {_name_lines(lines)}',
              file=sys.stderr)
    if scores['cut']:
        print(f'tnb_evaluate: translated up to {limit} tokens only: '
              f'{_name_lines(scores["cut"])}', file=sys.stderr)

def _name_lines(lines:list[int], most:int=10)->str: # such as 'lines 3, 7 and 120 more'
    names = ', '.join(map(str, lines[:most]))
    more = f' and {len(lines) - most} more' if len(lines) > most else ''
    return f'line{"s" * (len(lines) > 1)} {names}{more}'

def _give_back_memory(): # which glibc keeps for each shape of a batch
    with suppress(AttributeError, OSError, TypeError): ctypes.CDLL(None).malloc_trim(0)

@command
def tnb_score(
    folder:Arg(_MODEL, find_model, 'MODEL'),
    src:Arg('sentences, one per line (plain or .gz)', str, 'SRC'),
    tgt:Arg('their translations, to be scored', str, 'TGT'),
    tokens:Arg('a third column: pieces with their log-probabilities, as JSON', bool)=False,
    search_tokens:Arg('maximum tokens per batch', int)=SEARCH_TOKENS,
    device:Arg('such as cpu, cuda or mps', str, 'NAME')=None,
    precision:_PRECISION='auto'):
    "Log-probability of given translations: of each pair, and its mean per token"
    options = _search_options(folder, {}, search_tokens, precision)
    pairs, n, left_out = iter(PairFiles(src, tgt)), 0, {}
    translator = Translator(folder, find_device(device), **options)
    while chunk := list(islice(pairs, 2048)): # each is forgotten when it is printed
        with memory_advice('lower --search_tokens'):
            found, faults = score_pairs(translator, chunk)
        for line, (_, target) in enumerate(chunk, 1):
            print(_format_score(translator, found.get(line), target if tokens else None))
        sys.stdout.flush()
        _give_back_memory()
        for reason, lines in faults.items():
            left_out.setdefault(reason, []).extend(n + line for line in lines)
        n += len(chunk)
    for reason, lines in left_out.items():
        print(f'tnb_score: not scored, {reason}: {_name_lines(lines)}', file=sys.stderr)

def _format_score(translator:Translator, log_probs:list[float]|None, # None: not scored
                  target:str|None # to show its pieces
                 )->str: # columns, with tabs between them
    if log_probs is None: return 'nan\tnan' + '\t[]' * (target is not None)
    total = math.fsum(log_probs)
    columns = [f'{total:.4f}', f'{total / len(log_probs):.4f}']
    if target is not None:
        [ids] = translator.tokenizer.encode_targets([target])
        pieces = [translator.tokenizer.decode([i]) for i in ids] + ['</s>']
        shown = [[piece, round(x, 4)] for piece, x in zip(pieces, log_probs, strict=True)]
        columns.append(json.dumps(shown, ensure_ascii=False))
    return '\t'.join(columns)

@command
def tnb_export(folders:Arg('model folders, or ' + ' or '.join(SHIPPED) + '; '
                       'a page holds several', find_model, 'MODEL', nargs='+'),
               out:Arg('page.html, or a folder; must be new', str, 'OUT'),
               format:Arg('page, ctranslate2, or transformers (default: page for a name in '
                          '.html, else ctranslate2)', str, 'NAME')=None):
    "Write a page that translates in a browser, or a folder for another engine"
    from transformer_nb.formats.marian import export_marian # here, because it is slow
    from transformer_nb.formats.page import export_ctranslate2, export_page
    if isinstance(folders, (str, Path)): folders = [folders]
    out = Path(out)
    is_html = out.name.lower().endswith(('.html', '.htm'))
    format = format or ('page' if is_html else 'ctranslate2')
    writers = dict(ctranslate2=export_ctranslate2, transformers=export_marian)
    if format == 'page' and is_html: return export_page(folders, out)
    if format == 'page': raise InputError(f'{out} does not end in .html')
    check_choice('format', format, ['page', *writers])
    if out.suffix[1:].isalpha() and not out.exists():
        raise InputError(f'{out}: a page ends in .html, and a folder in no {out.suffix}')
    if len(folders) > 1:
        raise InputError(f'{out} does not end in .html, and a folder holds one model; '
                         f'{len(folders)} were given')
    writers[format](folders[0], out)

@command
def tnb_demo(
    out:Arg('folder for model and translations; must be new', str, 'DIR')='demo',
    max_minutes:Arg('time limit of the translation training', float)=2.5):
    "The copy task, then German to English on the built-in corpus"
    check_positive(max_minutes=max_minutes)
    check_output_folder(out, can_resume=False)
    out = Path(out)
    print('1. The copy task: repeat a sequence that was never seen\n', flush=True)
    _copy_task()
    print('\n2. Translation: German to English, on the built-in corpus\n', flush=True)
    config = preset('tiny').override(
        corpus='mini', vocab_size=1000, batch_tokens=2048,
        n_encoder_layers=2, n_decoder_layers=2, dropout=0.1,
        max_steps=1500, max_minutes=max_minutes, lr=5e-3, warmup_steps=300,
        valid_every=50, save_every=50, average=5)
    history = train_translator(out/'model', config)
    print('\n' + _format_history(out/'model', history) + '\n')
    test = load_corpus('mini', 'de', 'en')['test']
    _show_results(Translator(out/'model'), test, out)
    _tell_of_rise('tnb_demo', history[-1]['step'], config.training)

def _copy_task():
    "Train a small Transformer to copy sequences, and test it on 1,000 held-out ones"
    set_seed()
    model = accelerate(copy_model().to(default_device()))
    train_copy(model, 2000)
    right = exact_match(model, draw_sequences(1000, held_out=True))
    print(f'{right.sum()} of {len(right)} held-out sequences exact')

def _show_results(translator:Translator, pairs:list[tuple[str,str]], out:Path):
    "Score and sample translations of the demo"
    path = out/'translations.txt'
    scores = evaluate(translator, pairs, out=path)
    for (source, reference), translation in zip(pairs[:10], read_lines(path)):
        print(f'{source}\n  → {translation}\n  = {reference}')
    signature = scores['signatures']['bleu']
    print(f"\nBLEU {scores['bleu']} on {len(pairs)} held-out sentences ({signature})\n")
    print('Written:', path, out/'model', sep='\n')
