import signal, sys
from pathlib import Path

__version__ = "1.0.0.dev0"

# Ctrl-C during the imports of a command ends it without a traceback; `core.command` then
# makes Ctrl-C an exception again
_name = Path(sys.argv[0]).name if sys.argv else ''
if _name.startswith('tnb_') and signal.getsignal(signal.SIGINT) == signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
