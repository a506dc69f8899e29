"github.com/jadore801120/attention-is-all-you-need-pytorch, 132907dd272e2cc92e3c10e6c4e783a87ff8893d"
import os, sys
sys.path.insert(0, f'{os.environ["PEERS"]}/jadore801120')
from transformer.Models import Transformer
from transformer.Optim import ScheduledOptim
from transformer.Translator import Translator
from torch.optim import SGD
vocab_size, pad, bos, eos = 40, 0, 1, 2
model = Transformer(40, 40, 0, 0, d_word_vec=16, d_model=16, d_inner=32, n_layers=2,
                    n_head=4, d_k=4, d_v=4, n_position=60)
def logits(model, src, tgt): return model(src, tgt).view(*tgt.shape, -1)
def schedule(step):
    optimizer = ScheduledOptim(SGD(model.parameters()), 1., 512, 4000)
    optimizer.n_steps = step
    return optimizer._get_lr_scale()
def beam(model, src, beam_size, max_len):
    search = Translator(model, beam_size, max_len + 1, 0, 0, 1, 2)
    return [(search.translate_sentence(x[None])[1:], None) for x in src]
