"The small tasks on eight digits of chapters 02 and 03: drawn, learned, and graded."
from collections.abc import Callable
from os import environ
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformer_nb.support.core import set_seed

def draw_digits(n:int # number of sequences
               )->Tensor: # (n, 8)
    return torch.randint(10, (n, 8))

class DigitModel(nn.Module):
    "For each of 8 places a score for every answer; `look` decides what a place reads"
    def __init__(self, look:Callable,    # wanted (b, 8, d), source (b, 8, d) -> (b, 8, d)
                 n_answers:int=10,
                 d_model:int=32):
        super().__init__()
        self.digit = nn.Embedding(10, d_model)
        self.place = nn.Embedding(8, d_model)
        self.look = look
        self.score = nn.Linear(d_model, n_answers)

    def forward(self, digits:Tensor # (b, 8)
               )->Tensor:           # (b, 8, n_answers)
        places = self.place.weight
        source = self.digit(digits) + places
        wanted = places.expand_as(source)
        return self.score(self.look(wanted, source))

def share_exact(model:nn.Module,
                task:Callable, # digits (b, 8) to right answers (b, 8)
               )->float:       # share of 1,000 new sequences answered without a mistake
    digits = draw_digits(1000)
    right = model(digits).argmax(-1) == task(digits)
    return right.all(1).float().mean().item()

def learn_digits(model:nn.Module, # digits (b, 8) to scores (b, 8, n_answers)
                 task:Callable,   # digits (b, 8) to right answers (b, 8)
                 steps:int=200,
                 lr:float=0.01,
                 batch_size:int=64):
    "Train in place"
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True) # fused: in one pass
    for _ in range(steps):
        digits = draw_digits(batch_size)
        loss = F.cross_entropy(model(digits).mT, task(digits))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def three_runs(name:str,       # printed before the three shares
               make:Callable,  # makes a model
               task:Callable,
               **options       # of `learn_digits`
              )->str:          # 'learns', 'fails' or 'varies'
    "At least 95% in every run is *learns*, at most 5% in every run *fails*"
    shares = []
    with torch.random.fork_rng(): # leaves the random state of the notebook as it was
        for seed in range(1 if 'TNB_TWIN' in environ else 3): # a check trains once
            set_seed(seed)
            model = make()
            learn_digits(model, task, **options)
            shares.append(share_exact(model, task))
    verdict = 'varies'
    if min(shares) >= 0.95: verdict = 'learns'
    if max(shares) <= 0.05: verdict = 'fails'
    print(f'{name:32}', *(f'{share:4.0%}' for share in shares), f'  {verdict}')
    return verdict
