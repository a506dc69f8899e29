import torch
from attention import padding_mask

def greedy(model, src, max_steps):
    mask = padding_mask(src)
    memory = model.encode(src)
    tgt = torch.full((src.size(0), 1), 1)
    for _ in range(max_steps):
        logits = model.decode(tgt, memory, mask)
        new = logits[:, -1, :].argmax(dim=-1)
        tgt = torch.cat([tgt, new[:, None]], dim=1)
    outputs = []
    for row in tgt.tolist():
        output = []
        for token in row[1:]:
            if token == 2:
                break
            output.append(token)
        outputs.append(output)
    return outputs

def length_penalty(n, alpha):
    return (5 + n) ** alpha / (5 + 1) ** alpha

def beam_search(model, src, beam_size, alpha, max_steps):
    memory = model.encode(src)
    mask = padding_mask(src)
    beam = [(0.0, [1])]
    done = []
    for _ in range(max_steps):
        candidates = []
        for total, ids in beam:
            logits = model.decode(torch.tensor([ids]), memory, mask)[0, -1]
            logp = torch.log_softmax(logits, dim=-1)
            top = torch.topk(logp, min(beam_size, len(logp)))
            for value, index in zip(top.values.tolist(), top.indices.tolist()):
                candidates.append((total + value, ids + [index]))
        candidates.sort(reverse=True)
        beam = []
        for total, ids in candidates[:beam_size]:
            if ids[-1] == 2:
                done.append((total / length_penalty(len(ids) - 1, alpha), ids))
            else:
                beam.append((total, ids))
        if not beam:
            break
    if not done:
        done = [(total / length_penalty(len(ids) - 1, alpha), ids) for total, ids in beam]
    score, ids = max(done)
    return [i for i in ids if i > 2], score
