import torch.nn as nn
from optimizer import smoothed_loss

PAD, BOS, EOS = 0, 1, 2

def shifted(seqs): # source, target and labels of the copy task
    lengths = (seqs != PAD).sum(dim=1, keepdim=True)
    src = nn.functional.pad(seqs, (0, 1)).scatter(1, lengths, EOS)
    tgt = nn.functional.pad(seqs, (1, 0), value=BOS)
    return src, tgt, src.clone()

def copy_loss(model, seqs):
    src, tgt, labels = shifted(seqs)
    logits = model(src, tgt)
    n = (labels != PAD).sum()
    return smoothed_loss(logits, labels, label_smoothing=0.0) / n

def train(model, optimizer, batches, lr_of):
    model.train()
    losses = []
    for step, seqs in enumerate(batches, start=1):
        for group in optimizer.param_groups:
            group['lr'] = lr_of(step)
        optimizer.zero_grad()
        loss = copy_loss(model, seqs)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 100 == 0: print(f'step {step}: loss {losses[-1]:.4f}')
    return losses
