import torch

def shifted(seqs):
    start = torch.full((len(seqs), 1), 1)
    longer = torch.cat([seqs, torch.zeros_like(start)], dim=1)
    ends = (seqs != 0).sum(dim=1, keepdim=True)
    trg = longer.scatter(1, ends, 2)
    return trg, torch.cat([start, trg[:, :-1]], dim=1), trg

def copy_loss(model, seqs):
    src, trg, labels = shifted(seqs)
    output = model(src, trg)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=0)
    return criterion(output.reshape(-1, output.shape[-1]), labels.reshape(-1))

def train(model, optimizer, batches, lr_of):
    model.train()
    losses = []
    for i, seqs in enumerate(batches):
        optimizer.param_groups[0]['lr'] = lr_of(i + 1)
        optimizer.zero_grad()
        loss = copy_loss(model, seqs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        losses.append(loss.item())
    return losses
