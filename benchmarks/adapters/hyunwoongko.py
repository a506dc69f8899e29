"github.com/hyunwoongko/transformer, d5b29a41c5c3f68e1bcd0c528a58281632fa9d6d"
import os, sys
sys.path.insert(0, f'{os.environ["PEERS"]}/hyunwoongko')
from models.model.transformer import Transformer
vocab_size, pad, bos, eos = 40, 1, 2, 3
model = Transformer(1, 1, 2, 40, 40, 16, 4, 60, 32, 2, 0.1, 'cpu')
def logits(model, src, tgt): return model(src, tgt)
