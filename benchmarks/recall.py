"""Chapter 20: one head that recalls the last value of a key, by linear attention or by the
gated delta rule; the rule stands in nbs/results/RULES.md. Writes nbs/results/recall.jsonl.

    python benchmarks/recall.py
"""
from pathlib import Path
import torch
from torch import nn
from torch.nn import functional as F
from transformer_nb.studies.since_2017 import delta_chunk
from transformer_nb.support.core import provenance, set_seed
from runs import write_results

FILE = Path(__file__).parents[1]/'nbs/results/recall.jsonl'
N_KEYS, N_VALUES, WRITES = 8, 16, 24

class StateReader(nn.Module):
    def __init__(self, kind, d=32, d_k=16):
        super().__init__()
        self.kind = kind
        self.keys, self.values = nn.Embedding(N_KEYS, d), nn.Embedding(N_VALUES, d)
        self.query, self.key, self.value = (nn.Linear(d, d_k, bias=False) for _ in range(3))
        self.gates = nn.Linear(d, 2)
        self.output = nn.Linear(d_k, N_VALUES)

    def forward(self, keys, values, wanted): # (b, s), (b, s), (b,) to logits (b, v)
        x = self.keys(keys) + self.values(values)
        q, k, v = self.query(self.keys(wanted)), self.key(x), self.value(x)
        if self.kind == 'linear':
            q, k = F.elu(q) + 1, F.elu(k) + 1
            state = v.mT @ k
            total = q * k.sum(1)
            return self.output((state @ q[..., None])[..., 0] / total.sum(-1, keepdim=True))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        alpha, beta = self.gates(x).sigmoid().unbind(-1)
        nothing = v.new_zeros(len(v), v.shape[-1], k.shape[-1])
        _, state = torch.vmap(delta_chunk)(k, k, v, alpha, beta, nothing)
        return self.output((state @ q[..., None])[..., 0])

def draw(b, generator): # keys, values, the key that is asked for, its last value
    keys = torch.randint(N_KEYS, (b, WRITES), generator=generator)
    values = torch.randint(N_VALUES, (b, WRITES), generator=generator)
    rows = torch.arange(b)
    wanted = keys[rows, torch.randint(WRITES, (b,), generator=generator)]
    last = (keys == wanted[:, None]).int().cumsum(1).argmax(1)
    return keys, values, wanted, values[rows, last]

def train(kind, lr, seed, steps=300): # share right of 4,000 fresh sequences
    set_seed(seed)
    model = StateReader(kind)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    drawn = torch.Generator().manual_seed(1000 + seed)
    for _ in range(steps):
        *inputs, right = draw(64, drawn)
        optimizer.zero_grad()
        F.cross_entropy(model(*inputs), right).backward()
        optimizer.step()
    *inputs, right = draw(4000, torch.Generator().manual_seed(2000 + seed))
    with torch.no_grad(): found = model(*inputs).argmax(-1)
    return round((found == right).double().mean().item(), 5)

def measure(row):
    tried = {lr: train(row, lr, 0) for lr in (.003, .01, .03)}
    best = max(tried, key=tried.get)
    right = [train(row, best, seed) for seed in range(1, 6)]
    return dict(row=row, rates=tried, rate=best, accuracy=right) | provenance()

if __name__ == '__main__':
    torch.set_num_threads(1)
    write_results(FILE, [measure(row) for row in ('linear', 'delta')])
