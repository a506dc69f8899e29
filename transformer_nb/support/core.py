"""What every chapter shares: four token ids, a seed, a device, files that are never half written, and error messages that help."""

import argparse, errno, gc, io, json, math, os, platform, random, re, signal, stat
import subprocess, sys, warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from threading import get_native_id
from types import UnionType
from typing import get_args, get_origin, get_type_hints
import numpy as np
import torch
import transformer_nb

PAD, BOS, EOS, UNK = range(4)
SPECIAL_TOKENS = ['<pad>', '<s>', '</s>', '<unk>']

def set_seed(seed:int=0): # 64 bits, as in PyTorch
    "Seed the random generators of Python, NumPy and PyTorch"
    check_range(-2**63, 2**63 - 1, seed=seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)

def default_device()->torch.device: # a CUDA GPU if there is one, else the CPU
    "Where models run unless told otherwise"
    return torch.device('cuda' if torch.cuda.is_available() else 'cpu')

def _sync_folder(folder:Path):
    "Force the names in a folder to disk, if its file system can do that"
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try: os.fsync(descriptor)
        finally: os.close(descriptor)

def temporary_path(path:Path)->Path: # beside it
    return path.with_name(f'.{path.name}.{get_native_id()}.{os.getpid()}.tnb.tmp')

def write_atomically(path:str|Path, # where the file will be
                     data:bytes):   # its contents
    "Write a file so that a reader finds the old version or the new one, never half of one"
    path = Path(path)
    if path.exists() and not path.is_file(): # a device, for example, would be replaced
        raise OSError(errno.EEXIST, 'not a plain file', str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        with open(temporary, 'wb') as f:
            if path.exists(): os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as e: # a full disk, for example, does not name the file
        raise OSError(e.errno, e.strerror, str(path)) from None
    finally: temporary.unlink(missing_ok=True)

def remove_half_written(folder:str|Path): # in which no other process writes
    "Remove what killed calls of `write_atomically` left in it and in its subfolders"
    for path in Path(folder).rglob('.*.tnb.tmp'):
        with suppress(PermissionError, IsADirectoryError): path.unlink() # it may be open

def shorten(text:str, longest:int)->str: # its beginning and its end
    if len(text) <= longest: return text
    half = (longest - 1) // 2
    return f'{text[:half]}…{text[-half:]}'

def _readable(message:str)->str: # on one line, within a screen, whatever it quotes
    printable = ''.join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
    words = re.sub(r'\S+', lambda word: shorten(word[0], 200), printable)
    return shorten(words, 1000)

class InputError(ValueError):
    "The user's input cannot be used; the message says what, where, and what to do"
    def __init__(self, message:str): super().__init__(_readable(message))

class FieldError(InputError):
    "A setting cannot be used: the message is its name and what is wrong with its value"
    def __init__(self, field:str, problem:str): # such as 'alpha', 'is -1; it must be …'
        super().__init__(f'{field} {problem}')
        self.field = field

def _each(values:Iterable, is_one:Callable, kind:str, such)->Iterator: # such: an example
    """Raises `InputError` for the first that is not one, and for a string, a set, or a table,
    whose characters, order, or columns would pass for sentences"""
    no_list = isinstance(values, (str, bytes, set, frozenset)) or hasattr(values, 'columns')
    if no_list or not isinstance(values, Iterable):
        raise InputError(f'a list of {kind}s is expected, such as {[such]}, not '
                         f'{shorten(repr(values), 40)}, a {type(values).__name__}')
    for i, value in enumerate(values):
        if not is_one(value):
            raise InputError(f'{kind} {i} is {shorten(repr(value), 40)}, a '
                             f'{type(value).__name__}; it should be such as {such!r}')
        yield value

def _is_text(value)->bool: return isinstance(value, str)

def _is_pair(value)->bool: # and neither two letters nor a row whose keys are languages
    is_row = isinstance(value, (tuple, list, np.ndarray))
    return is_row and len(value) == 2 and all(map(_is_text, value))

def each_text(texts:Iterable[str])->Iterator[str]:
    return _each(texts, _is_text, 'text', 'A dog.')

def as_texts(texts:Iterable[str])->list[str]: return list(each_text(texts)) # read once
def as_pairs(pairs:Iterable[tuple[str,str]])->list[tuple[str,str]]:
    return list(_each(pairs, _is_pair, 'pair', ('A dog.', 'Ein Hund.')))

def check_plain_file(path:str|Path):
    "Raise `InputError` for a pipe or a device, which could be read forever"
    if not Path(path).is_file(): raise InputError(f'{path} is missing, or not a plain file')

def check_new_file(path:str|Path|None): # None: nothing will be written
    "Raise `InputError` now if a file is there, `OSError` if it could not be written later"
    if path is None: return
    path = Path(path)
    if os.path.lexists(path):
        raise InputError(f'{path} exists already; choose another name')
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try: temporary.touch()
    except OSError as e: raise OSError(e.errno, e.strerror, str(path)) from None
    temporary.unlink()

class Arg:
    "Of a command: its help, its type, and what stands for its value in the help"
    def __init__(self, help:str, type:type|None=None, metavar:str|None=None,
                 **how): # what else argparse has to know
        self.help, self.how = help, dict(how)
        if type is bool: self.how['action'] = 'store_true'
        elif type: self.how['type'] = type
        if metavar: self.how['metavar'] = metavar

    def add(self, parser:argparse.ArgumentParser, name:str,
            default): # of the function's parameter; `Parameter.empty` if it has none
        has_default = default is not Parameter.empty
        is_option = has_default and self.how.get('nargs') != '?'
        how = dict(self.how, help=self.help)
        if has_default and default is not None:
            how.update(default=default, help=f'{self.help} (default: {default})')
        if is_option and 'type' in how: how.setdefault('metavar', METAVARS[how['type']])
        parser.add_argument(f'--{name}' if is_option else name, **how)

METAVARS = {int: 'N', float: 'X', str: 'TEXT'} # unless an argument has its own

def add_version(parser:argparse.ArgumentParser):
    parser.add_argument('--version', action='version', help='print the version',
                        version=f'%(prog)s {transformer_nb.__version__}')

def command_parser(func:Callable, # of a command
                   name:str=''    # by default the function's
                  )->argparse.ArgumentParser:
    name = name or func.__name__
    parser = argparse.ArgumentParser(name, description=func.__doc__)
    add_version(parser)
    for parameter in signature(func).parameters.values():
        parameter.annotation.add(parser, parameter.name, parameter.default)
    return parser

def _key(name:str)->str: return name.replace('-', '_').strip('_') # of an option

def _spell(names:list[str], argv:list[str])->list[str]:
    "The same arguments, with the names of options as the parser knows them"
    known = {_key(name): name for name in names}
    spelled = list(argv)
    for i, argument in enumerate(argv):
        if argument == '--': break # no options any more
        name, equals, value = argument.partition('=')
        if name.startswith('--'): spelled[i] = known.get(_key(name), name) + equals + value
    return spelled

def _not_known(names:list[str], arguments:list[str])->str: # of those a parser has left
    options = [argument for argument in arguments if argument.startswith('-')]
    if not options:
        return f'{arguments[0]!r} is one argument too many; put quotes around text'
    name = options[0].partition('=')[0]
    known = {_key(other): other for other in names}
    close = get_close_matches(_key(name), known, 1)
    hint = f'did you mean {known[close[0]]}?' if close else '`help` lists them'
    return f'there is no option {name}; {hint}'

def _refuse(message:str): raise InputError(message)

def read_arguments(parser:argparse.ArgumentParser, argv:list[str])->dict: # by name
    "Raises `InputError` where argparse would print its usage and exit"
    parser.error = _refuse
    names = [name for name in parser._option_string_actions if name.startswith('--')]
    found, unknown = parser.parse_known_intermixed_args(_spell(names, argv))
    if unknown: raise InputError(_not_known(names, unknown))
    for name, value in vars(found).items():
        if value == '' and parser.get_default(name) != '':
            raise InputError(f"{_shown(parser, name)} is empty, ''")
    return vars(found)

def _shown(parser:argparse.ArgumentParser, name:str)->str: # an argument, for a message
    option = f'--{name}'
    return option if option in parser._option_string_actions else name

def find_in(record, *names:str, kind:type=str): # of JSON that may be untrusted
    "What stands there in dictionaries within dictionaries; None if it is not of that kind"
    for name in names: record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, kind) else None

MAX_JSON = 2**26 # bytes; a vocabulary of 37,000 tokens takes 3 MB

def text_of(path:str|Path)->str: # of a file of ordinary size; else raises `ValueError`
    if Path(path).stat().st_size <= MAX_JSON: return Path(path).read_text(encoding='utf8')
    raise ValueError(f'it has more than {MAX_JSON:,} bytes')

def _finite(number:str)->float: # 1e999 is infinite
    if math.isinf(float(number)): _refuse(number)
    return float(number)

def read_json(path:str|Path)->dict:
    "Raises `InputError` unless it holds one object, of ordinary size and depth"
    with untrusted(path):
        content = json.loads(text_of(path), parse_constant=_refuse, parse_float=_finite)
        if isinstance(content, dict): return content
        raise ValueError('it is not a JSON object')

@contextmanager
def untrusted(path:str|Path)->Iterator[None]: # a file that may hold anything
    "Raises `InputError`, naming it, where what it holds cannot be used"
    check_plain_file(path)
    try: yield
    except OSError: raise
    except MemoryError:
        raise InputError(f'{path} takes more memory than there is') from None
    except Exception as e:
        reason = f'it has no {e}' if isinstance(e, KeyError) else ' '.join(str(e).split())
        raise InputError(f'{path} is damaged: {shorten(reason, 200)}') from None

# What people write in place of a name that is not close to it in letters
_MEANT = dict(learning_rate='lr', beams='beam_size', beam='beam_size', num_beams='beam_size',
              length_penalty='alpha', epochs='max_steps', steps='max_steps',
              batch_size='batch_tokens', warmup='warmup_steps', heads='n_heads')

def check_names(given:Iterable[str], known:Collection[str], kind:str):
    "Raises `InputError` for a name that is not known, with the one that was meant"
    for name in given:
        if name in known: continue
        close = [_MEANT.get(name), *get_close_matches(name, known, 1)]
        meant = next((x for x in close if x in known), None)
        hint = f'; do you mean {meant}?' if meant else f'; known are {", ".join(known)}'
        raise InputError(f'{name!r} is not {kind}{hint}')

def _fits(value, hint)->bool: # is a value of JSON of this type?
    if isinstance(hint, UnionType): return any(_fits(value, x) for x in get_args(hint))
    if get_origin(hint) is list:
        item = get_args(hint)[0] | None
        return isinstance(value, list) and all(_fits(x, item) for x in value)
    if hint is float and type(value) is int: return True
    return type(value) is hint

def check_types(kind:type, values:dict): # a dataclass, and its fields by name
    "Raise `InputError`, naming the field, for an unknown one or a value of another type"
    hints = get_type_hints(kind)
    for name, value in values.items():
        if name not in hints: raise InputError(f'{name} is not known')
        if _fits(value, hints[name]): continue
        wanted = getattr(hints[name], '__name__', hints[name])
        raise FieldError(name, f'is {shorten(repr(value), 60)}; it must be {wanted}')

def _stop(name:str, message:str, status:int):
    if sys.stdout and not _can_be_flushed(sys.stdout): _discard(sys.stdout)
    print(f'{name}: {_readable(message)}', file=sys.stderr)
    sys.exit(status)

def _can_be_flushed(stream)->bool:
    try: stream.flush()
    except OSError: return False
    return True

def _discard(stream):
    "Drop output that cannot be written; at exit Python would try again, and fail at length"
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())

def _prepare():
    "Undo what the package did for its imports, speak UTF-8, and check what was given"
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL: # see `transformer_nb/__init__.py`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.stdout is None: raise InputError('standard output is closed')
    if sys.stderr is None: sys.stderr = open(os.devnull, 'w', encoding='utf8')
    for name in ('stdin', 'stdout', 'stderr'): # should wait, and write all they are given
        stream = getattr(sys, name)
        with suppress(AttributeError, OSError, ValueError): # closed, or not a file
            os.set_blocking(stream.fileno(), True)
        if isinstance(getattr(stream, 'buffer', None), io.RawIOBase): # it writes a part
            how = dict(errors=stream.errors, closefd=False)
            setattr(sys, name, open(stream.fileno(), 'w', 1, 'utf8', **how))
    for stream in (sys.stdout, sys.stderr): # whatever the locale
        if hasattr(stream, 'reconfigure'): stream.reconfigure(encoding='utf8')
    for argument in sys.argv[1:]:
        try: argument.encode()
        except UnicodeEncodeError: # it would fail at the end, when a report names the file
            raise InputError(f'{argument!r} is not UTF-8') from None

def _explain(e:InputError, func:Callable, args:tuple)->str: # `args`: of the call
    "The message, with a field named as the option that it is on the command line"
    message = _as_options(str(e))
    if not isinstance(e, FieldError): return message
    is_parameter = e.field in signature(func).parameters
    was_given = re.search(rf'--{e.field}\b', f'{sys.argv} {args}')
    return f'--{message}' if is_parameter or was_given else message

def _as_options(message:str)->str: # `resume` is --resume for a user of the command
    return re.sub(r'`(\w+)`', r'--\1', message)

def _is_script(frame)->bool: # is it the body of a file that is run?
    names = frame.f_globals
    is_body = frame.f_locals is names and names.get('__name__') == '__main__'
    return is_body and '__file__' in names # a notebook has none

def arguments_of(func:Callable, argv:list[str], name:str='')->dict: # by name
    "The words of a command line as the function's arguments"
    found = read_arguments(command_parser(func, name), argv)
    return {name: found[name] for name in signature(func).parameters if name in found}

def command(func:Callable # of a console script; it may take `argv` as it is
           )->Callable:
    "Turn bad input, an unusable file or Ctrl-C into one line and an exit status"
    name, reads_own = func.__name__, 'argv' in signature(func).parameters
    @wraps(func)
    def run(*args, **kwargs):
        is_script = not (args or kwargs) and _is_script(sys._getframe(1))
        try:
            _prepare()
            if is_script and reads_own: args = [sys.argv[1:]]
            elif is_script: kwargs = arguments_of(func, sys.argv[1:])
            func(*args, **kwargs)
            sys.stdout.flush() # while an error is still one line
        except InputError as e: _stop(name, _explain(e, func, args), 2)
        except BrokenPipeError:
            has_enough = not _can_be_flushed(sys.stdout) # its reader, such as `head`
            _discard(sys.stdout)
            sys.exit(0 if has_enough else 2)
        except OSError as e: _stop(name, f'{e.filename or "file"}: {e.strerror or e}', 2)
        except KeyboardInterrupt as e:
            _stop(name, _as_options(str(e)) or 'interrupted', 130)
    return run

def _is_out_of_memory(e:Exception)->bool:
    text = str(e).lower()
    known = 'out of memory' in text or "can't allocate memory" in text
    return isinstance(e, (MemoryError, torch.OutOfMemoryError)) or known

@contextmanager
def memory_advice(advice:str): # such as 'lower --batch_tokens'
    "Turn an error of too little memory into an `InputError` that says what to do"
    try: yield
    except (MemoryError, RuntimeError) as e:
        if not _is_out_of_memory(e): raise
        tried = re.search(r'[Tt]ried to allocate ([\d.]+ \w+)', str(e))
        size = f' (it tried to allocate {tried[1]})' if tried else ''
        raise InputError(f'out of memory{size}; {advice}') from None

def check_positive(**values): # numbers by their names
    "Raise `InputError` for a number that is not positive or not finite; None passes"
    for name, value in values.items():
        if value is None or 0 < value < math.inf: continue
        wanted = 'finite' if value == math.inf else 'above 0'
        raise FieldError(name, f'is {value}; it must be {wanted}')

def check_range(low:float, high:float, **values): # numbers by their names
    "Raise `FieldError` for a number below `low` or above `high`; None passes"
    for name, value in values.items():
        if value is None or low <= value <= high: continue
        raise FieldError(name, f'is {value}; it must be from {low} to {high}')

def check_choice(name:str, value, choices:Collection[str]):
    if value in choices: return
    raise FieldError(name, f'is {value!r}; it must be one of: {", ".join(choices)}')

def _devices()->list[str]: # kinds that this machine has
    there = dict(cuda=torch.cuda.is_available(), mps=torch.backends.mps.is_available())
    return ['cpu', *(kind for kind, is_there in there.items() if is_there)]

def find_device(name:str|None # 'cpu', 'cuda', 'cuda:1' or 'mps'; None for the default
               )->torch.device:
    "The device of that name, tried out; raises `InputError` if PyTorch cannot use it"
    try:
        with warnings.catch_warnings(): # the error says enough
            warnings.simplefilter('ignore')
            tried = torch.zeros(1, device=name or default_device())
        tried.cpu() # 'meta' computes shapes only and has no numbers to give back
        return tried.device
    except (RuntimeError, AssertionError, ImportError) as e:
        why = shorten(re.split('[.] |\n', str(e).strip())[0], 120)
        kinds = _devices()
        if str(name).partition(':')[0] not in kinds:
            why = f'this machine has no such device; use {" or ".join(kinds)}'
        raise FieldError('device', f'{name}: {why}') from None

def autocast(precision:str, device:torch.device, cache_enabled:bool=True)->torch.autocast:
    "A context in which matrix products have that precision: 'fp32', 'bf16' or 'fp16'"
    dtypes = dict(fp32=None, bf16=torch.bfloat16, fp16=torch.float16)
    check_choice('precision', precision, dtypes)
    dtype = dtypes[precision]
    return torch.autocast(device.type, dtype, dtype is not None, cache_enabled)

def _git(*args:str)->str: # what git prints in the package's folder; empty if it fails
    folder = Path(transformer_nb.__file__).parent
    try: run = subprocess.run(['git', '-C', folder, *args], capture_output=True, text=True)
    except OSError: return '' # git is not installed
    return run.stdout.strip() if run.returncode == 0 else ''

def _commit()->str: # short hash of the checkout's commit, or the version of the package
    is_checkout = _git('ls-files', '--error-unmatch', '__init__.py')
    described = is_checkout and _git('describe', '--always', '--dirty', '--exclude=*')
    return described or transformer_nb.__version__

def _processor()->str: # name of the CPU if Linux has it, else its architecture
    try: lines = Path('/proc/cpuinfo').read_text(encoding='utf8').splitlines()
    except OSError: lines = []
    for line in lines:
        if line.startswith('model name'): return line.partition(': ')[2]
    return platform.machine()

def provenance()->dict: # commit, hardware, threads, torch, python
    "Where a result comes from: the code, the machine and the versions"
    if torch.cuda.is_available(): hardware = torch.cuda.get_device_name()
    else: hardware = f'{_processor()}, {os.cpu_count()} cores'
    return dict(commit=_commit(), hardware=hardware, threads=torch.get_num_threads(),
                torch=torch.__version__, python=platform.python_version())
