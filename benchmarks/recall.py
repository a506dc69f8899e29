"""Chapter 20: one head that recalls the last value of a key, by linear attention or by the
gated delta rule; the rule stands in nbs/results/RULES.md.

    python benchmarks/recall.py > recall.txt
"""
import json, torch
from torch import nn
from torch.nn import functional as F
torch.set_num_threads(1)
N_KEYS, N_VALUES, WRITES = 8, 16, 24
def phi(x): return F.elu(x) + 1
class StateReader(nn.Module):
    def __init__(self, kind, d=32, d_k=16):
        super().__init__()
        self.kind = kind
        self.keys, self.values = nn.Embedding(N_KEYS, d), nn.Embedding(N_VALUES, d)
        self.query, self.key, self.value = (nn.Linear(d, d_k, bias=False) for _ in range(3))
        self.gates = nn.Linear(d, 2)
        self.output = nn.Linear(d_k, N_VALUES)
    def forward(self, keys, values, wanted):
        x = self.keys(keys) + self.values(values)
        q, k, v = self.query(self.keys(wanted)), self.key(x), self.value(x)
        if self.kind == 'linear':
            q, k = phi(q), phi(k)
            state, total = torch.einsum('bsk,bsv->bkv', k, v), k.sum(1)
            read = torch.einsum('bk,bkv->bv', q, state) / (q * total).sum(-1, keepdim=True)
        else:
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            alpha, beta = self.gates(x).sigmoid().unbind(-1)
            decay = alpha.log().cumsum(1)                            # (b, s)
            gap = (decay[:, :, None] - decay[:, None]).tril().exp().tril(-1)
            A = beta[:, :, None] * gap * (k @ k.mT)
            eye = torch.eye(x.shape[1])
            u = torch.linalg.solve_triangular(eye + A, beta[..., None] * v, upper=False,
                                              unitriangular=True)
            left = (decay[:, -1:] - decay).exp() # what is left at the end
            read = torch.einsum('bk,bsk,bs,bsv->bv', q, k, left, u)
        return self.output(read)
def draw(b, g):
    keys = torch.randint(N_KEYS, (b, WRITES), generator=g)
    values = torch.randint(N_VALUES, (b, WRITES), generator=g)
    wanted = keys[torch.arange(b), torch.randint(WRITES, (b,), generator=g)]
    last = (keys == wanted[:, None]).int().cumsum(1).argmax(1)
    return keys, values, wanted, values[torch.arange(b), last]
def train(kind, lr, seed, steps=300):
    torch.manual_seed(seed); model = StateReader(kind)
    opt = torch.optim.Adam(model.parameters(), lr)
    g = torch.Generator().manual_seed(1000 + seed)
    for _ in range(steps):
        *inputs, right = draw(64, g)
        loss = F.cross_entropy(model(*inputs), right)
        opt.zero_grad(); loss.backward(); opt.step()
    g = torch.Generator().manual_seed(2000 + seed)
    *inputs, right = draw(4000, g)
    with torch.no_grad(): found = model(*inputs).argmax(-1)
    return (found == right).float().mean().item()
if __name__ == '__main__':
    for kind in ('linear', 'delta'):
        tried = {lr: train(kind, lr, 0) for lr in (.003, .01, .03)}
        best = max(tried, key=tried.get)
        right = [train(kind, best, seed) for seed in range(1, 6)]
        row = dict(row=kind, rates=tried, rate=best, accuracy=right)
        print(json.dumps(row), flush=True)
