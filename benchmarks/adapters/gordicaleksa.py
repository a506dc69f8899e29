"github.com/gordicaleksa/pytorch-original-transformer, 63286547b9cd174a6cfc204832271814d685181f"
import os, sys, torch
sys.path.insert(0, f'{os.environ["PEERS"]}/gordicaleksa')
from models.definitions.transformer_model import Transformer
from utils.optimizers_and_distributions import CustomLRAdamOptimizer
vocab_size, pad, bos, eos = 40, 0, 1, 2
model = Transformer(16, 40, 40, 4, 2, 0.1)
def logits(model, src, tgt):
    later = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
    src_mask, tgt_mask = (src != 0)[:, None, None], (tgt != 0)[:, None, None] & ~later
    return model(src, tgt, src_mask, tgt_mask).view(*tgt.shape, -1)
def schedule(step):
    optimizer = CustomLRAdamOptimizer(None, 512, 4000)
    optimizer.current_step_number = step
    return optimizer.get_current_learning_rate()
