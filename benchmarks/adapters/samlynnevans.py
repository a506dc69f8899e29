"github.com/SamLynnEvans/Transformer, 49e01800aab01dcd83403a056c059f429a7d7512"
import os, sys, torch
sys.path.insert(0, f'{os.environ["PEERS"]}/samlynnevans')
from Models import Transformer
vocab_size, pad, bos, eos = 40, 0, 1, 2
model = Transformer(40, 40, 16, 2, 4, 0.1)
def logits(model, src, tgt):
    later = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
    return model(src, tgt, (src != 0).unsqueeze(-2), (tgt != 0).unsqueeze(-2) & ~later)
