"github.com/bentrevett/pytorch-seq2seq, legacy notebook 6, b3cd54c72cd6e4e63f672d334c795b4fe744ef92"
import json, os, types
path = f'{os.environ["PEERS"]}/bentrevett/legacy/6 - Attention is All You Need.ipynb'
cells = json.load(open(path, encoding='utf8'))['cells']
kept = [''.join(c['source']) for c in cells]
them = types.ModuleType('them')
exec('import torch\nfrom torch import nn\n'
     + '\n'.join(c for c in kept if c.startswith('class ')), vars(them))
vocab_size, pad, bos, eos = 40, 1, 2, 3
def make():
    encoder = them.Encoder(40, 16, 2, 4, 32, 0.1, 'cpu')
    return them.Seq2Seq(encoder, them.Decoder(40, 16, 2, 4, 32, 0.1, 'cpu'), 1, 1, 'cpu')
def logits(model, src, tgt): return model(src, tgt)[0]
