"OpenNMT-py 3.5.1, its classes with its defaults for a Transformer"
from onmt.decoders import TransformerDecoder
from onmt.encoders import TransformerEncoder
from onmt.modules import Embeddings
from onmt.models import NMTModel
from torch import nn
vocab_size, pad, bos, eos = 40, 1, 2, 3
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        one, two = (Embeddings(16, 40, 1, position_encoding=True) for _ in range(2))
        encoder = TransformerEncoder(2, 16, 4, 32, 0.1, 0.1, one, 0, 0)
        decoder = TransformerDecoder(
            2, 16, 4, 32, False, 'scaled-dot', 0.1, 0.1, two, 0, 0, False, False, 0, 0)
        self.body, self.generator = NMTModel(encoder, decoder), nn.Linear(16, 40)
        for p in self.parameters(): nn.init.normal_(p, std=0.3) # it leaves them empty
def make(): return Model()
def logits(model, src, tgt): # its decoder drops the last token of a target
    tgt = nn.functional.pad(tgt, (0, 1), value=3)[..., None]
    return model.generator(model.body(src[..., None], tgt, (src != 1).sum(1))[0])
