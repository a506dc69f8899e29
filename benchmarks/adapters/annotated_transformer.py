"github.com/harvardnlp/annotated-transformer, debc9fd747bb2123160a98046ad1c2d4da44a567"
import os, re, types
text = open(f'{os.environ["PEERS"]}/annotated-transformer/the_annotated_transformer.py', encoding='utf8').read()
kept = [c for c in re.split(r'\n# %%[^\n]*', text) if re.search(r'^(class|def) ', c, re.M)]
kept = [c for c in kept if not re.search(r'alt\.|def example|def inference|import |altair', c)]
at = types.ModuleType('at')
exec('import copy, math, torch\nimport torch.nn as nn\n'
     'from torch.nn.functional import log_softmax, pad\n' + '\n'.join(kept), vars(at))
vocab_size, pad, bos, eos = 40, 0, 1, 2
model = at.make_model(40, 40, N=2, d_model=16, d_ff=32, h=4)
crit = at.LabelSmoothing(40, 0, 0.1)
def loss(logits, labels):
    return crit(logits.log_softmax(-1).flatten(0, 1), labels.flatten()) / (labels != 0).sum()
def schedule(step): return at.rate(step, 512, 1., 4000)
def logits(model, src, tgt):
    tgt_mask = (tgt != 0).unsqueeze(-2) & at.subsequent_mask(tgt.shape[1])
    return model.generator(model(src, tgt, (src != 0).unsqueeze(-2), tgt_mask))
def greedy(model, src, max_len):
    mask = (src != 0).unsqueeze(-2)
    return [at.greedy_decode(model, x[None], m[None], max_len + 1, 1)[0, 1:].tolist()
            for x, m in zip(src, mask)]
