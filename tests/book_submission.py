"""The book's own code as a submission to *Build it yourself*. The modules that the chapters
export are copied as they are, but for their imports: `transformer_nb.layers` becomes
`book_layers`. The files of the kit then give the book's functions the names and the
signatures that the kit asks for. Three of them add code of their own: the training loop,
which the book writes without a schedule that is handed over; and in the search a cache that
remembers nothing, because the grader's toy models can only be read from the start."""
import re
from pathlib import Path
import transformer_nb

PACKAGE = Path(transformer_nb.__file__).parent
MODULES = ['support/core', 'attention', 'multihead', 'layers', 'embedding', 'parts',
           'model', 'optimizer', 'copy_task', 'pieces', 'text', 'data', 'decoding',
           'checkpoint', 'foreign']

FILES = dict(
    book_notebook='INK = heatmap = new_axes = None # figures are no part of a submission\n',
    attention='from book_attention import scaled_dot_product_attention\n'
              'from book_multihead import causal_mask, padding_mask\n',
    multihead='from book_multihead import MultiHeadAttention\n',
    layers='from torch.nn import LayerNorm # as in the book\n'
           'from book_layers import FeedForward, ResidualNorm\n',
    embedding='from book_embedding import (\n'
              '    Embedding, PositionalEncoding, positional_encoding)\n',
    model='''
import book_model
from dataclasses import asdict

def of_the_book(kind): # a configuration of the book has more fields than the kit's
    class Own(kind):
        def __init__(self, config):
            super().__init__(book_model.TransformerConfig(**asdict(config)))
    return Own

DecoderLayer, EncoderLayer, Transformer = map(of_the_book, (
    book_model.DecoderLayer, book_model.EncoderLayer, book_model.Transformer))
''',
    optimizer='from book_optimizer import adam as make_adam, paper_lr, smoothed_loss\n',
    training='''
from book_copy_task import copy_batch as shifted, copy_loss
from book_optimizer import set_lr

def train(model, optimizer, batches, lr_of):
    model.train()
    losses = []
    for step, seqs in enumerate(batches, 1):
        loss = copy_loss(model, seqs)
        set_lr(optimizer, lr_of(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
''',
    decoding='''
import book_decoding, torch
from attention import padding_mask
from book_copy_task import greedy_decode
from book_decoding import Beams, best_continuations, length_penalty

def greedy(model, src, max_steps):
    rows = [row + [2] for row in greedy_decode(model, src, max_steps).tolist()]
    return [row[:row.index(2)] for row in rows]

class Cache: # in the place of the book's: whole beginnings, read again in every step
    def __init__(self, model, src, max_steps):
        self.memory, self.memory_mask = model.encode(src), padding_mask(src)
        self.tokens, self.n = [], 0 # what was read, by position and slot
        self.position = torch.zeros(1, dtype=torch.long)
    def drop_rows(self, close): pass # of one sentence, and then the search is over

def next_logits(model, tokens, cache, mask=None):
    cache.tokens.append(tokens[0].clone()) # (k,)
    cache.n += 1
    cache.position = cache.position + 1
    if mask is None: slots = torch.zeros(cache.n, 1, dtype=torch.long)
    else: slots = mask[0, 0].unflatten(-1, (cache.n, -1)).long().argmax(-1).T # ancestors
    rows = [tokens[slot] for tokens, slot in zip(cache.tokens, slots)]
    beginnings = torch.stack(rows, 1) # (k, n)
    memory = cache.memory.expand(len(beginnings), -1, -1)
    return model.decode(beginnings, memory, cache.memory_mask)[None, :, -1]

book_decoding.Cache, book_decoding.next_logits = Cache, next_logits

@torch.no_grad()
def beam_search(model, src, beam_size, alpha, max_steps):
    limits = torch.tensor([max_steps])
    penalties = length_penalty(torch.arange(max_steps + 1.), alpha)
    beams = Beams(limits, penalties, beam_size, 1)
    def choose(beams, logits, n): return best_continuations(beams.live.scores, logits)
    [[best]] = book_decoding._run(model, src, beams, choose)
    return best.ids, best.score
''',
    translation='''
import book_checkpoint, torch
from decoding import beam_search

def load_model(folder): return book_checkpoint.load_model(folder)[0].eval()

def translate(model, tokenizer, text):
    ids = tokenizer.encode(text)
    return tokenizer.decode(beam_search(model, torch.tensor([ids + [2]]), 4, 0.6,
                                        len(ids) + 50)[0])
''')

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
