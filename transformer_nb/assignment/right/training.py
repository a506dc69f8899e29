import torch
from optimizer import smoothed_loss

def shifted(seqs): # source, target and labels of the copy task
    rows = []
    for seq in seqs.tolist():
        real = [i for i in seq if i != 0]
        padding = [0] * (len(seq) - len(real))
        rows.append(([*real, 2, *padding], [1, *real, *padding], [*real, 2, *padding]))
    src, tgt, labels = (torch.tensor(column) for column in zip(*rows))
    return src, tgt, labels

def copy_loss(model, seqs):
    src, tgt, labels = shifted(seqs)
    logits = model(src, tgt)
    n = (labels != 0).sum()
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
        losses.append(float(loss))
    return losses
