"""A process of its own for a submission, with limits; all comparing is done outside it"""
import faulthandler, io, linecache, os, shutil, signal, sys, tempfile, time, tokenize, torch
from collections.abc import Iterator
from contextlib import suppress
from ctypes import CDLL
from itertools import takewhile
from pathlib import Path
from safetensors.torch import load, save
from ..support.core import InputError, printable
from ..proving.compare import ERROR, NOT_WRITTEN, error_of, observed
from . import rights
from .kit import EMPTY, Kit
from .stages import STAGES
from .table import Stage
from .telling import Asked, mend, right_before, tell
from .together import tokenizer_of
from .writer import WEIGHTS, sentences

class _TooSlow(BaseException):
    "Raised in a submission whose check takes too long; `except Exception` does not stop it"
_FORBIDDEN = ('os.fork', 'os.exec', 'os.posix_spawn', 'os.system', 'os.kill', 'os.remove',
              'os.rename', 'os.rmdir', 'os.mkdir', 'os.link', 'os.symlink', 'os.truncate',
              'os.chmod', 'os.chown', 'shutil.', 'subprocess.', 'socket.', 'ctypes.dlopen',
              'pty.spawn', 'resource.setrlimit', 'signal.pthread_kill', 'gc.get_objects',
              'gc.get_referrers', 'gc.get_referents', 'sys._current_frames')

def _guard(place:str): # the only folder to be written to
    "From now on, this process cannot do what a solution has no need of"
    package, own = f'{EMPTY.parent}/', (f'{place}/', os.devnull)
    def refuse(what): raise PermissionError(f'a submission may not {what}')
    def watch(event, args):
        if event.startswith(_FORBIDDEN): refuse(f'call {event}')
        if event == 'import' and args[0].split('.')[0] == 'transformer_nb':
            refuse('import transformer_nb, which it is to replace')
        if event != 'open' or not isinstance(args[0], (str, bytes)): return
        path = os.path.abspath(os.fsdecode(args[0]))
        writes = args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes and not path.startswith(own): refuse(f'write {path}')
        if path.startswith(package): refuse(f'read {path}')
    sys.addaudithook(watch)

def _limit(seconds:float): # of processor time
    "Limits of this process, and of what it starts, where the system has them"
    limits = dict(CPU=int(seconds) + 1, FSIZE=2**26, CORE=0)
    with suppress(Exception): CDLL(None).mallopt(-4, 2**16) # a training kept what was freed
    import resource # which Windows lacks
    with suppress(OSError): # beyond what is in use
        pages = int(Path('/proc/self/statm').read_text(encoding='utf8').split()[0])
        limits['AS'] = pages * resource.getpagesize() + 2**31
    for name, most in limits.items(): # or less, where the host allows less
        kind = getattr(resource, f'RLIMIT_{name}')
        hard = resource.getrlimit(kind)[1]
        most = min(most, 2**62 if hard == resource.RLIM_INFINITY else hard)
        resource.setrlimit(kind, (most, most))

def _silence():
    "Nothing that a submission prints is shown, and it reads nothing"
    faulthandler.disable()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3): os.dup2(nowhere, descriptor)
    sys.stdin, sys.stdout, sys.stderr = ( # a notebook's are no descriptors
        os.fdopen(i, mode, encoding='utf8') for i, mode in enumerate('rww'))

def _set_alarm(seconds:float): # of the processor; 0: no alarm
    def too_slow(*_): raise _TooSlow()
    clocks = (signal.SIGPROF, signal.ITIMER_PROF, seconds), ( # so that a busy machine
        signal.SIGALRM, signal.ITIMER_REAL, _PATIENCE * seconds) # costs no points
    for sign, clock, most in clocks:
        signal.signal(sign, too_slow)
        signal.setitimer(clock, most)

_PATIENCE = 4 # times the limit, by the clock on the wall, for what sleeps

# What the process does

BESIDE = 'beside' # the cases behind the others

def _import(stage:Stage, folder:str, stand_ins:dict):
    theirs = 'transformer_nb', *rights.FILES
    for name in [*sys.modules]:
        if name.split('.')[0] in theirs: del sys.modules[name]
    sys.modules.update(stand_ins)
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True
    return __import__(stage.module)

def _child(stage:Stage, kit:Kit, folder:str, jobs:list[tuple], seconds:float, own:bool):
    """Do the jobs, and write down what came: (place in a list, index of a check, None), or
    in place of None `BESIDE`, what is asked of a difference, or (that,) to mend it"""
    with suppress(Exception): CDLL(None).prctl(1, signal.SIGKILL) # as the grader ends
    _silence()
    _limit(4 * seconds)
    torch.set_default_dtype(torch.float64)
    modules = rights.stand_ins(kit)
    stand_ins = {name: modules[name] for name in rights.FILES[:1 if own else stage.number]}
    if stage.number == 9: tokenizer_of(kit.model).encode('a') # which a submission may not read
    if stage.number == 12: sentences()
    os.chdir(folder)
    os.environ['TORCHINDUCTOR_CACHE_DIR'] = tempfile.mkdtemp(dir=folder) # which Adam makes
    linecache.getlines(str(rights.FOLDER/stage.file)) # of which a line may be told
    Path(_BEGUN).touch() # what fails before this is the grader's own
    _guard(folder)
    code = problem = None
    try:
        _set_alarm(seconds)
        code = _import(stage, folder, stand_ins)
    except BaseException as e: problem = _not_imported(stage, folder, e)
    for i, check, case in jobs:
        found = problem or _timed(stage, stage.checks[check], case, code,
                                  modules[stage.module], kit, seconds, folder)
        _write(Path(folder, f'result-{i}.out'), found, folder)

def _timed(stage, check, case, code, right, kit, seconds, folder):
    part = check.part
    try:
        _set_alarm(seconds)
        with right_before(check, stage, code, right):
            own = vars(code).get(part.name)
            if own is None: return {f'new · {ERROR}': f'{stage.file} has no `{part.name}`'}
            truth = getattr(right, part.name, None)
            kit = None if kit.is_ours else kit
            numbers = range(part.cases, part.cases + len(part.edges)) # if beside
            if case in (None, BESIDE): return {
                f'{n} · {key}': x for n in (numbers if case else range(part.cases))
                for key, x in observed(part, own, n, truth, kit).items()}
            if isinstance(case, Asked): return tell(case, stage, own, right, kit, folder)
            return mend(case[0], stage, right, kit, folder, _set_alarm)
    except _TooSlow: return {f'new · {ERROR}': f'not done after {seconds:g} seconds'}
    except BaseException as e: return {f'new · {what}': x for what, x in error_of(e).items()}
    finally: _set_alarm(0)

def _not_imported(stage, folder, error)->dict:
    if isinstance(error, _TooSlow): error = TimeoutError('the import does not end')
    found = error_of(error)
    if not Path(folder, stage.file).exists(): found[ERROR] = f'{stage.file} is missing'
    elif found[ERROR] != NOT_WRITTEN: found[ERROR] = (
        f'{stage.file}: "coding:" in its first two lines names an encoding; reword it'
        if 'unknown encoding' in str(error) else
        f'{stage.file} cannot be imported: {found[ERROR]}')
    return {f'new · {what}': x for what, x in found.items()}

# Notes and traces, as files

def _write(path:Path, found, folder:str):
    tensors = {}
    for key, x in found.items():
        if isinstance(x, str):
            x = x.replace(f'{folder}/', '')[:500]
            tensors[f'text {key}'] = torch.tensor(list(x.encode()), dtype=torch.uint8)
        else: tensors[key] = x.detach().contiguous().clone()
    path.write_bytes(save(tensors))

def _read(path:Path)->dict|None: # None: a child wrote nothing usable
    with suppress(Exception): # whatever lies there may be a submission's
        if not _is_small(path): return None
        def read(x): return printable(bytes(x.tolist()).decode(errors='replace'))
        return {key.removeprefix('text '): read(x) if key.startswith('text ') else x
                for key, x in load(path.read_bytes()).items()}

def _is_small(path:Path)->bool:
    if path.is_symlink() or not path.is_file(): return False
    return path.stat().st_size < 2**26

def _in_child(seconds:float, *args)->str: # how it ended
    "Run `_child` in a process of its own, and end it and its children"
    if not hasattr(os, 'fork'):
        raise InputError('a submission is graded on Linux or macOS: here no process can fork')
    with suppress(ValueError): signal.signal(signal.SIGCHLD, signal.SIG_DFL) # if ignored
    pid = os.fork()
    if pid == 0: # the child
        try:
            os.setsid()
            _child(*args)
        finally: _leave(0)
    ended, deadline = 0, time.monotonic() + seconds
    try:
        while not ended and time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended: time.sleep(0.005)
    finally: # also where the grader is interrupted
        with suppress(OSError): os.killpg(pid, signal.SIGKILL)
        if not ended:
            with suppress(ChildProcessError): os.waitpid(pid, 0)
    if not ended: return f'not done after {seconds:g} seconds'
    code = os.waitstatus_to_exitcode(status)
    name = signal.Signals(-code).name if code < 0 else f'exit status {code}'
    return f'the process ended ({name})'

_LOST = {f'new · {ERROR}': 'not reached: earlier checks end the process'}
_BEGUN = 'begun' # a file: the submission is imported from now on
_leave = os._exit # as it is before a submission can exchange it

def collect(folder:Path, # of a submission
            stage:Stage, kit:Kit,
            seconds:float=30., # for each check
            jobs:list|None=None, # by default all checks
            own:bool=False,    # with the submission's earlier stages, not the right ones
           )->list[dict]:      # notes, for each job
    "What a submission gives; it cannot break what runs this"
    jobs = jobs or [(i, None) for i in range(len(stage.checks))]
    found = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        place = os.path.realpath(place)
        _copy(folder, Path(place))
        for _ in range(3): # a process that ends too early gets two more chances
            Path(place, _BEGUN).unlink(missing_ok=True) # of the process before
            todo = [(i, *job) for i, job in enumerate(jobs)][len(found):]
            how = _in_child(2*_PATIENCE*seconds + 10, stage, kit, place, todo, seconds, own)
            if not Path(place, _BEGUN).exists():
                raise InputError(f'the grader cannot start a submission here: {how}')
            came = (_read(Path(place, f'result-{i}.out')) for i, *_ in todo)
            found += takewhile(lambda x: x is not None, came)
            if len(found) < len(jobs): found.append({f'new · {ERROR}': how})
            if len(found) == len(jobs): break
    return found + [_LOST] * (len(jobs) - len(found))

def _copy(folder:Path, place:Path): # only what can be a module, and no links out of it
    ours = {stage.file for stage in STAGES} # first, whatever else lies there
    def first(path): return len(path.parts), path.name not in ours, path
    for path in sorted(_modules_in(folder), key=first)[:50]:
        target = place/path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    if _is_small(folder/WEIGHTS): shutil.copyfile(folder/WEIGHTS, place/WEIGHTS)
    shutil.copyfile(EMPTY/'config.py', place/'config.py') # given, whatever became of it

def numbers_in(folder:Path, file:str)->tuple[int, ...]: # the largest first
    "The whole numbers in the code of a submission's file, and of modules of its own"
    others, found = {stage.file for stage in STAGES} - {file} | {'config.py'}, set()
    for path in _modules_in(folder):
        if path.name in others: continue
        text = io.StringIO(path.read_bytes()[:2**18].decode(errors='replace'))
        with suppress(SyntaxError, tokenize.TokenError): # as far as it is Python
            words = (x.string for x in tokenize.generate_tokens(text.readline))
            found.update(int(word) for word in words if word.isdecimal() and len(word) < 8)
    return tuple(sorted((n for n in found if n > 2), reverse=True)[:40])

def _modules_in(folder:Path, depth:int=3)->Iterator[Path]: # and in packages of its own
    for path in sorted(folder.iterdir()):
        if path.is_symlink(): continue
        if path.suffix == '.py' and _is_small(path): yield path
        is_package = path.name.isidentifier() and path.name[0] != '_' and path.is_dir()
        if is_package and depth: yield from _modules_in(path, depth - 1)
