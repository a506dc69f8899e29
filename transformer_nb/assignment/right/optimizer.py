import torch

PAD = 0

def paper_lr(step_num, d_model, warmup_steps=4000): # Eq. (3)
    return d_model ** -0.5 * min(step_num ** -0.5, step_num * warmup_steps ** -1.5)

def make_adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)

def smoothed_loss(logits, labels, label_smoothing=0.1):
    logp = torch.log_softmax(logits, dim=-1)
    right = logp.gather(-1, labels.unsqueeze(-1)).squeeze(-1) # (b, t)
    loss = -(1 - label_smoothing) * right - label_smoothing * logp.mean(dim=-1)
    return loss[labels != PAD].sum()
