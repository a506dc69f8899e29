"What PyTorch computes of the sentence that a page shows."
import re
from pathlib import Path
import torch
from transformer_nb.model import attention_weights
from transformer_nb.support.core import BOS, EOS
from transformer_nb.studies.attention_maps import without_heads

MODELS = Path(__file__).parent.parent/'nbs/models'
MODEL = MODELS/'multi30k-en-de'
BOY, BOY_DE = 'A boy is picking up a ball.', 'Ein Junge hebt einen Ball auf.'
VIEWS = ['type', 'machine', 'looked', 'break', 'step', 'inside']

def numbers(text):
    "The decimal ones; their minus signs are typographic"
    return [float(x) for x in re.findall(r'-?\d+\.\d+', text.replace('−', '-'))]

def inputs(translator, text, ids):
    src = translator.tokenizer.encode(text) + [EOS]
    return torch.tensor([src]), torch.tensor([[BOS] + ids[:-1]])

def ids_of(page): return page.evaluate('now.scene.ids')

@torch.no_grad()
def maps_of(translator, page, off=()):
    "Of the sentence that the page shows: by kind, (N, h, t, s)"
    args = inputs(translator, page.evaluate('now.scene.text'), ids_of(page))
    with without_heads(translator.model, off):
        maps = attention_weights(translator.model, *args)
    return {kind: x[:, 0] for kind, x in maps.items()}

@torch.no_grad()
def logits_of(translator, page):
    text = page.evaluate('now.scene.text')
    return translator.model(*inputs(translator, text, ids_of(page)))[0]

@torch.no_grad()
def log_prob(translator, text, ids, heads=()): # heads count from 0
    with without_heads(translator.model, heads):
        log_probs = translator.model(*inputs(translator, text, ids)).log_softmax(-1)
    return log_probs[0, range(len(ids)), ids].sum().item()

def shares(probs): return [f'{100*p:.0f}%' if p >= .005 else '<1%' for p in probs]
