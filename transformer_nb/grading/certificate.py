"""The certificate: a picture with the attention of a submission's own files"""
import html, transformer_nb
from datetime import date
from pathlib import Path
from torch import Tensor
from ..support.core import EOS, InputError
from .kit import Kit, kit_folder
from .marking import grade, message
from .together import SHOWN, together, tokenizer_of

def certificate(folder:Path, kit:Kit, seconds:float)->str: # as SVG
    "Raise `InputError` where there is no attention of its own to be drawn"
    *_, proof, marked = [m for stage in together(kit.model)
                         for m in grade(folder, stage, kit, seconds, own=True).marked]
    for m in (marked, proof):
        if m.found: raise InputError(f'{m.check.title}: {message(m)}')
    n = sum(str(x).endswith(': holds') for x in proof.notes[0].values())
    notes = marked.notes[0]
    tokenizer, translated = tokenizer_of(kit.model), notes['load_model · result[0]']
    read, wrote = (tokenizer.encode(text) + [EOS] for text in (SHOWN, translated))
    weights = notes.get('load_model · result[1]')
    if weights is None or weights.shape != (len(wrote), len(read)):
        raise InputError('your model does not call your scaled_dot_product_attention, '
                         'so no weights are seen')
    tokens = [['</s>' if i == EOS else tokenizer.decode([i]).strip() for i in ids]
              for ids in (read, wrote)]
    return _drawn(weights.double().nan_to_num().clamp(0, 1), *tokens, n)

def _drawn(weights:Tensor, read:list[str], wrote:list[str], n:int)->str: # (t, s), tokens
    side = _MAP_SIDE / max(len(read), len(wrote))
    made = [f'<rect x="{j*side:.1f}" y="{i*side:.1f}" fill-opacity="{weight:.3f}" '
            f'width="{side:.1f}" height="{side:.1f}"/>'
            for i, row in enumerate(weights.tolist()) for j, weight in enumerate(row)]
    for j, token in enumerate(read):
        place = f'translate({(j + .6)*side:.1f} -8) rotate(-55)'
        made.append(f'<text transform="{place}">{html.escape(token)}</text>')
    for i, token in enumerate(wrote):
        place = f'x="-8" y="{(i + .65)*side:.1f}" text-anchor="end"'
        made.append(f'<text {place}>{html.escape(token)}</text>')
    page = (kit_folder()/'_certificate.svg').read_text(encoding='utf8')
    return page.format(day=date.today(), version=transformer_nb.__version__, n=n,
                       map='\n'.join(made))

_MAP_SIDE = 390 # pixels
