"""The kit, and what a teacher may vary"""
import torch
from dataclasses import dataclass
from pathlib import Path
from torch import Tensor
from ..support.core import FieldError

EMPTY = Path(__file__).parents[1]/'assignment' # the folder of the empty files
MASKS = dict(
    allowed='boolean, True where attention is allowed',
    hidden='boolean, True where attention is forbidden',
    additive='added to the scores: 0 where attention is allowed, -inf where not')

@dataclass(frozen=True)
class Kit:
    "What a teacher may vary: conventions of the signatures, and the numbers of the checks"
    layout: str = 'bhtd'   # axes of queries, keys and values: batch, head, token, feature
    masks: str = 'allowed' # boolean, True where allowed; 'hidden': True where not; or
                           # 'additive': 0 where allowed, -inf where not
    key: str = ''          # fixes the sizes and the numbers of all checks
    model: str = ''        # the book's model folder, for stage 9

    def __post_init__(self):
        if self.layout not in ('bhtd', 'bthd'):
            raise FieldError('layout', f'is {self.layout!r}; it must be bhtd or bthd')
        if self.masks not in MASKS:
            wanted = ', '.join(MASKS)
            raise FieldError('masks', f'is {self.masks!r}; it must be one of {wanted}')

    @property
    def is_ours(self)->bool: return (self.layout, self.masks) == ('bhtd', 'allowed')

    def heads(self, x:Tensor)->Tensor: # between (b, h, t, d) and the kit's layout
        return x.transpose(1, 2) if self.layout == 'bthd' else x

    def mask(self, allowed:Tensor|None)->Tensor|None: # of a boolean, the kit's
        if allowed is None or self.masks == 'allowed': return allowed
        if self.masks == 'hidden': return ~allowed
        return torch.zeros(allowed.shape).masked_fill(~allowed, -torch.inf)

    def allowed(self, mask:Tensor|None)->Tensor|None: # and back
        if mask is None or self.masks == 'allowed': return mask
        return ~mask if self.masks == 'hidden' else mask == 0

def kit_file(name:str, kit:Kit)->str: # its text, with the conventions of a kit
    text = (EMPTY/name).read_text(encoding='utf8')
    if kit.layout == 'bthd':
        for axes in ('t, d_k', 's, d_k', 's, d_v', 't, d_v'):
            token, size = axes.split(', ')
            text = text.replace(f'(b, h, {axes})', f'(b, {token}, h, {size})')
    text = text.replace(_PADDING['allowed'], _PADDING[kit.masks])
    return text.replace(MASKS['allowed'], MASKS[kit.masks])

_PADDING = dict(allowed='True at real tokens, False at padding',
                hidden='False at real tokens, True at padding',
                additive='0 at real tokens, -inf at padding')
