import torch

def paper_lr(step_num, d_model, warmup_steps=4000): # Eq. (3)
    decay = 1 / step_num ** 0.5
    warmup = step_num / warmup_steps ** 1.5
    return min(decay, warmup) / d_model ** 0.5

def make_adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)

def smoothed_loss(logits, labels, label_smoothing=0.1):
    logp = torch.log_softmax(logits, dim=-1)
    v = logits.size(-1)
    target = torch.full_like(logp, label_smoothing / v)
    right = torch.nn.functional.one_hot(labels, v)
    target = target + right * (1 - label_smoothing)
    loss = -(target * logp).sum(-1)
    loss = loss[labels != 0]
    return loss.sum()
