"""Kernels that begin as a copy of a process which has imported what most chapters import.

To start Python and import torch and matplotlib takes longer than most chapters run. Each
chapter still has a process of its own, and nothing of it reaches the next.
"""
import asyncio, gc, os, random, sys, warnings
from contextlib import suppress
from subprocess import Popen
from jupyter_client.provisioning import local_provisioner
import once

INLINE = 'module://matplotlib_inline.backend_inline' # how a kernel draws
HERE = os.path.dirname(os.path.abspath(__file__))

class CopiedKernel(Popen):
    "Instead of a new Python, a fork of this one"
    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env,
                       *rest):
        self.pid, self._child_created = os.fork(), True
        if self.pid == 0: become_kernel(args, cwd, env)
        os.setpgid(self.pid, self.pid) # a signal to the kernel reaches its children, not us

def become_kernel(command, cwd, env):
    "Run the kernel that this command would start, and end with it"
    import matplotlib
    from ipykernel.kernelapp import IPKernelApp
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 2): os.dup2(nowhere, stream)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
        random.seed()
        matplotlib.rcParams['backend'] = INLINE # the variable is read by its import
        asyncio.set_event_loop(asyncio.new_event_loop()) # not the one that waits for it
        watched = f'--IPKernelApp.parent_handle={os.getppid()}' # ends when that ends
        IPKernelApp.launch_instance([*command[command.index('-f'):], watched])
        status = 0
    finally: os._exit(status)

def launch(command, cwd=None, env=None, **others):
    return CopiedKernel(command, cwd=cwd, env=env)

def warm_up():
    "What a dozen chapters pay for, each at its first optimizer, tokenizer or figure"
    import fastcore.test, sacremoses, scipy.stats, spacy, torch._dynamo # noqa: F401
    from matplotlib.figure import Figure
    from transformer_nb.lessons.grammar import mini_corpus
    with suppress(ImportError), warnings.catch_warnings(action='ignore'):
        import transformers.modeling_utils # noqa: F401
    mini_corpus()
    for lang in ('de', 'en'): spacy.blank(lang)
    Figure().subplots().figure.savefig(os.devnull, format='svg')
    gc.freeze() # nor does a copy look through all of it for garbage

def prepare(n_chapters):
    "Import, and let kernels begin as copies; elsewhere than on Linux nothing changes"
    if sys.platform != 'linux': return
    os.environ |= dict(IN_TEST='1', OMP_NUM_THREADS='1') # torch reads it once
    once.keep_mini_corpus()
    import ipykernel.kernelapp, matplotlib.pyplot, torch # noqa: F401
    import transformer_nb.support.notebook, transformer_nb.translation # noqa: F401
    if n_chapters > 3: warm_up()
    local_provisioner.launch_kernel = launch
