"Each of these lines is wrong, and mypy says so (tests/test_types.py)."
from pathlib import Path
from transformer_nb.model import TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator

TransformerConfig.huge(100)
TransformerConfig.tiny('100')
BPETokenizer.train('one text', '300')
BPETokenizer.load(Path('file')).encode(5)
Translator('folder').sampled(['one sentence'])
