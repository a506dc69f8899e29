"""The certificate: a picture with the attention of a submission's own files"""
import html, transformer_nb
from datetime import date
from pathlib import Path
from torch import Tensor
from ..support.core import EOS, InputError
from .kit import Kit
from .marking import grade, message
from .together import SHOWN, together, tokenizer_of

def certificate(folder:Path, kit:Kit, seconds:float)->str: # as SVG
    "Raise `InputError` where there is no attention of its own to be drawn"
    stages = [stage for stage in together(kit.model) if stage.number != 7]
    *_, proof, marked = [m for stage in stages
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
    tokens = [[_token(tokenizer, i) for i in ids] for ids in (read, wrote)]
    return _drawn(weights.double().nan_to_num().clamp(0, 1), *tokens, n)

def _token(tokenizer, i:int)->str:
    return '</s>' if i == EOS else tokenizer.decode([i]).strip()

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
    lines = [f'<text x="60" y="{260 + 26*i}" font-size="17">{line.format(n=n)}</text>'
             for i, line in enumerate(_SAID)]
    return _PAGE.format(day=date.today(), version=transformer_nb.__version__,
                        map='\n'.join(made), said='\n'.join(lines))

_MAP_SIDE = 390 # pixels
_SAID = ('Nine empty files were filled in from the paper.',
         'Together they load the weights of the book,',
         'and translate. The map shows where they look,',
         'in the last layer of the decoder: each row is a',
         'token that they write, each column one they read.',
         'Asked by tnb_prove, their model is the function',
         'of the paper, and {n} properties hold of it.')

_PAGE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 620" width="1000" \
height="620" font-family="Georgia, serif" font-size="19" fill="#1f2328">
<title>The Transformer, Proved: 100 of 100 points</title>
<rect width="1000" height="620" fill="#fff"/>
<rect x="14" y="14" width="972" height="592" fill="none" stroke="#0b5c9e" stroke-width="3"/>
<text x="60" y="105" font-size="42" font-weight="bold">The Transformer, Proved</text>
<text x="60" y="160" font-size="26" fill="#9a5b00">Build it yourself</text>
<text x="60" y="215" font-size="32">100 of 100 points</text>
{said}
<text x="60" y="560" font-size="16">{day} · transformer_nb {version}</text>
<g transform="translate(570 175)" font-size="14" fill="#0b5c9e">
{map}
</g>
</svg>
"""
