"""The book's own code as a submission to the first stages of *Build it yourself*. The
modules that the chapters export are copied as they are, but for their imports:
`transformer_nb.layers` becomes `book_layers`."""
import re
from pathlib import Path
import transformer_nb

PACKAGE = Path(transformer_nb.__file__).parent
MODULES = ['support/core', 'attention', 'multihead', 'layers']

FILES = dict(
    attention='from book_attention import scaled_dot_product_attention\n'
              'from book_multihead import causal_mask, padding_mask\n',
    multihead='from book_multihead import MultiHeadAttention\n',
    layers='from torch.nn import LayerNorm # as in the book\n'
           'from book_layers import FeedForward, ResidualNorm\n')

def write_book(folder:Path):
    "The book as a folder that `tnb_check` can grade"
    texts = {f'book_{Path(name).name}': (PACKAGE/f'{name}.py').read_text(encoding='utf8')
             for name in MODULES}
    texts['book_itself'] = (PACKAGE/'__init__.py').read_text(encoding='utf8')
    for name, text in (texts | FILES).items():
        inside = r'^from (\.|transformer_nb\.)(?:support\.)?(\w+)'
        text = re.sub(inside, r'from book_\2', text, flags=re.M)
        text = re.sub(r'^from \. ', 'from book_itself ', text, flags=re.M)
        itself = 'import book_itself as transformer_nb'
        text = re.sub(r'^import transformer_nb$', itself, text, flags=re.M)
        (folder/f'{name}.py').write_text(text, encoding='utf8')
