import torch
from attention import padding_mask

PAD, BOS, EOS = 0, 1, 2

@torch.no_grad()
def greedy(model, src, max_steps):
    mask = padding_mask(src)
    memory = model.encode(src)
    tgt = torch.full((src.size(0), 1), BOS, device=src.device)
    for _ in range(max_steps):
        logits = model.decode(tgt, memory, mask)[:, -1]
        tgt = torch.cat([tgt, logits.argmax(dim=-1, keepdim=True)], dim=1)
        if (tgt == EOS).any(dim=1).all(): break
    rows = [row[1:] + [EOS] for row in tgt.tolist()]
    return [row[:row.index(EOS)] for row in rows] # up to the first </s>

def length_penalty(n, alpha):
    return (5 + n) ** alpha / (5 + 1) ** alpha

@torch.no_grad()
def beam_search(model, src, beam_size, alpha, max_steps):
    assert len(src) == 1, f'one sentence at a time, not {len(src)}'
    memory = model.encode(src)
    mask = padding_mask(src)
    beam = [(0.0, [BOS])]
    done = []
    for _ in range(max_steps):
        tgt = torch.tensor([ids for _, ids in beam], device=src.device)
        logits = model.decode(tgt, memory.expand(len(beam), -1, -1), mask)[:, -1]
        candidates = []
        for (total, ids), logp in zip(beam, torch.log_softmax(logits, dim=-1)):
            top = torch.topk(logp, min(beam_size, len(logp)))
            for value, index in zip(top.values.tolist(), top.indices.tolist()):
                candidates.append((total + value, ids + [index]))
        candidates.sort(reverse=True)
        beam = []
        for total, ids in candidates[:beam_size]:
            if ids[-1] == EOS:
                done.append((total / length_penalty(len(ids) - 1, alpha), ids))
            else:
                beam.append((total, ids))
        most = beam[0][0] / length_penalty(max_steps, alpha) if beam else float('-inf')
        if done and max(done)[0] >= most: break # no live hypothesis can win any more
    if not done:
        done = [(total / length_penalty(len(ids) - 1, alpha), ids) for total, ids in beam]
    score, ids = max(done)
    return [i for i in ids if i > EOS], score
