"""The Transformer of *Attention Is All You Need* (Vaswani et al., 2017) in one file

    python transformer.py                                         # learns to copy, a minute
    python transformer.py translate everyday-en-de "I love you."  # with the book's weights

Needs torch; to translate, also safetensors and tokenizers. Axes: b batch, h head, t queries
(target), s keys (source), d feature, v vocabulary. Masks: True where attention is allowed.
The chapters are in nbs/. tools/onefile.py writes this file; tests compare it with them."""
import json, math, sys
from dataclasses import dataclass
from pathlib import Path
import torch
from torch import nn

PAD, BOS, EOS = 0, 1, 2 # the ids of <pad>, <s> and </s>

# §3, Table 3: the sizes of a model (chapter 05)
@dataclass(frozen=True)
class TransformerConfig:
    vocab_size: int            # one vocabulary for source and target
    d_model: int = 512         # size of every position's vector
    d_ff: int = 2048           # inner size of the feed-forward network
    n_heads: int = 8           # number of attention heads
    d_k: int = 64              # size of a head's queries and keys
    d_v: int = 64              # size of a head's values
    n_encoder_layers: int = 6
    n_decoder_layers: int = 6
    dropout: float = 0.1       # probability that an element is dropped
    max_len: int = 512         # maximum sequence length in tokens

# §3.2.1, §3.2.3: attention, and two masks (chapters 01 and 02)
def scaled_dot_product_attention(query, key, value, mask=None): # Eq. (1)
    d_k = key.size(-1)
    scores = torch.einsum('bhtd,bhsd->bhts', query, key) / math.sqrt(d_k) # (b, h, t, s)
    if mask is not None:
        scores = scores.masked_fill(~mask, float('-inf'))
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0) # no key allowed: 0, not NaN
    return torch.einsum('bhts,bhsd->bhtd', weights, value), weights

def padding_mask(ids): # (b, 1, 1, s)
    not_pad = ids != PAD
    return not_pad.unsqueeze(1).unsqueeze(2)

def causal_mask(t): # (t, t)
    row = torch.arange(t)
    return row[None, :] <= row[:, None]

# §3.2.2: several heads (chapter 02)
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_k, d_v):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.key = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.value = nn.Linear(d_model, n_heads * d_v, bias=False)
        self.output = nn.Linear(n_heads * d_v, d_model, bias=False)

    def to_heads(self, x): # (b, t, h·d) to (b, h, t, d)
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x, memory=None, mask=None): # queries are made of x
        source = x if memory is None else memory
        q = self.to_heads(self.query(x))
        k = self.to_heads(self.key(source))
        v = self.to_heads(self.value(source))
        out, _ = scaled_dot_product_attention(q, k, v, mask)
        return self.output(out.transpose(1, 2).flatten(2))

# §3.3, §3.1, §5.4: feed-forward; residual, dropout, norm (chapter 03)
class FeedForward(nn.Module): # Eq. (2)
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))

class ResidualNorm(nn.Module):
    def __init__(self, d_model, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, out): # of the sub-layer
        return self.norm(x + self.dropout(out))

# §3.4, §3.5: tokens and positions (chapter 04)
class Embedding(nn.Module): # its first values are the book's; other layers have PyTorch's
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.d_model = d_model
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) / math.sqrt(d_model))

    def forward(self, ids):
        return self.weight[ids] * math.sqrt(self.d_model)

    def logits(self, x): # the same matrix, (b, t, d) to (b, t, v)
        return x @ self.weight.t()

def positional_encoding(n_positions, d_model):
    pe = torch.zeros(n_positions, d_model)
    position = torch.arange(n_positions).unsqueeze(1)
    angle = position / 10000 ** (torch.arange(0, d_model, 2).double() / d_model)
    pe[:, 0::2] = torch.sin(angle)
    pe[:, 1::2] = torch.cos(angle)
    return pe

class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer('pe', positional_encoding(max_len, d_model), persistent=False)

    def forward(self, x):
        assert x.size(1) <= len(self.pe), f'{x.size(1)} tokens, {len(self.pe)} positions'
        return self.dropout(x + self.pe[:x.size(1)])

# §3.1: the model (chapter 05)
class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        sizes = (config.d_model, config.n_heads, config.d_k, config.d_v)
        self.self_attention = MultiHeadAttention(*sizes)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.residuals = nn.ModuleList(
            [ResidualNorm(config.d_model, config.dropout) for _ in range(2)])

    def forward(self, x, mask):
        x = self.residuals[0](x, self.self_attention(x, mask=mask))
        return self.residuals[1](x, self.feed_forward(x))

class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        sizes = (config.d_model, config.n_heads, config.d_k, config.d_v)
        self.self_attention = MultiHeadAttention(*sizes)
        self.cross_attention = MultiHeadAttention(*sizes)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.residuals = nn.ModuleList(
            [ResidualNorm(config.d_model, config.dropout) for _ in range(3)])

    def forward(self, x, memory, mask, memory_mask):
        x = self.residuals[0](x, self.self_attention(x, mask=mask))
        x = self.residuals[1](x, self.cross_attention(x, memory, memory_mask))
        return self.residuals[2](x, self.feed_forward(x))

class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = Embedding(config.vocab_size, config.d_model)
        self.positions = PositionalEncoding(config.d_model, config.dropout, config.max_len)
        self.encoder = nn.ModuleList(
            [EncoderLayer(config) for _ in range(config.n_encoder_layers)])
        self.decoder = nn.ModuleList(
            [DecoderLayer(config) for _ in range(config.n_decoder_layers)])

    def encode(self, src): # ids (b, s) to (b, s, d)
        x = self.positions(self.embedding(src))
        mask = padding_mask(src)
        for layer in self.encoder:
            x = layer(x, mask)
        return x

    def decode(self, tgt, memory, memory_mask): # logits (b, t, v)
        x = self.positions(self.embedding(tgt))
        # padding comes last: no token sees it, and the loss skips what it predicts
        mask = causal_mask(tgt.size(1)).to(tgt.device)
        for layer in self.decoder:
            x = layer(x, memory, mask, memory_mask)
        return self.embedding.logits(x)

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), padding_mask(src))

# §5.3, §5.4: learning rate, Adam, label smoothing (chapter 06)
def paper_lr(step_num, d_model, warmup_steps=4000): # Eq. (3)
    return d_model ** -0.5 * min(step_num ** -0.5, step_num * warmup_steps ** -1.5)

def make_adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)

def smoothed_loss(logits, labels, label_smoothing=0.1):
    logp = torch.log_softmax(logits, dim=-1)
    right = logp.gather(-1, labels.unsqueeze(-1)).squeeze(-1) # (b, t)
    loss = -(1 - label_smoothing) * right - label_smoothing * logp.mean(dim=-1)
    return loss[labels != PAD].sum()

# The training loop, on the copy task (chapter 07)
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

# §6.1: greedy and beam search (chapter 13)
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

# The book's weights (chapter 15)
PAPER = dict(family='Transformer', positions='sinusoidal', activation='relu', norm_eps=None,
             n_kv_heads=None, scale_embeddings=True) # what the names of weights do not tell

def load_model(folder): # whose weights are named as the layers of the package
    from safetensors.torch import load_file
    record = json.loads(Path(folder, 'config.json').read_text(encoding='utf8'))
    fields = record | record['model']
    for name, value in PAPER.items():
        assert fields.get(name, value) == value, f'{folder}: {name} is {fields[name]}'
    sizes = {name: fields[name] for name in TransformerConfig.__dataclass_fields__}
    model = Transformer(TransformerConfig(**sizes))
    weights = {name.replace('embeddings.0.', 'embedding.').replace('.layers.', '.'): tensor
               for name, tensor in load_file(Path(folder, 'model.safetensors')).items()}
    assert weights.keys() == model.state_dict().keys(), f'{folder} is another model'
    model.load_state_dict(weights)
    return model.eval()

def translate(model, tokenizer, text):
    ids = tokenizer.encode(text).ids
    best, _ = beam_search(model, torch.tensor([ids + [EOS]]), 4, 0.6, len(ids) + 50)
    return tokenizer.decode(best)

# Run it
def draw(n, held_out): # n sequences of 4 to 20 tokens, padded
    seqs = torch.randint(4, 24, (20 * n, 20)) # more than n, as only one side is taken
    seqs[torch.arange(20) >= torch.randint(4, 21, (20 * n, 1))] = PAD
    side = (seqs * torch.arange(1, 21)).sum(1) % 10 == 0 # a tenth: for the test alone
    return seqs[side == held_out][:n]

def learn_to_copy(steps=1000, n_test=500):
    torch.manual_seed(0)
    config = TransformerConfig(24, d_model=64, d_ff=128, n_heads=4, d_k=16, d_v=16,
                               n_encoder_layers=1, n_decoder_layers=1, dropout=0)
    model = Transformer(config)
    batches = (draw(32, held_out=False) for _ in range(steps))
    warmup = steps / 12
    def lr_of(step): # falls to nearly 0, which helps so short a run; paper_lr falls slowly
        return 5e-3 * min(step / warmup, (steps + 1 - step) / (steps + 1 - warmup))
    losses = train(model, make_adam(model), batches, lr_of)
    seqs = draw(n_test, held_out=True)
    copies = greedy(model.eval(), shifted(seqs)[0], max_steps=21)
    right = sum(copy == [i for i in seq if i] for copy, seq in zip(copies, seqs.tolist()))
    print(f'loss {losses[0]:.2f} -> {losses[-1]:.4f} nats per token in {steps} steps;',
          f'{right} of {n_test} sequences that it never saw are copied without a mistake')

if __name__ == '__main__':
    if len(sys.argv) == 1: learn_to_copy()
    elif sys.argv[1] == 'translate' and len(sys.argv) == 4:
        from tokenizers import Tokenizer
        shipped = Path(__file__).parent/'nbs/models'/sys.argv[2]
        folder = shipped if shipped.is_dir() else Path(sys.argv[2])
        if not (folder/'tokenizer.json').is_file(): sys.exit(f'{folder} has no tokenizer')
        tokenizer = Tokenizer.from_file(str(folder/'tokenizer.json'))
        tokenizer.encode_special_tokens = True # a typed </s> is text, not the end
        try: print(translate(load_model(folder), tokenizer, sys.argv[3]))
        except AssertionError as error: sys.exit(str(error))
    else: sys.exit(__doc__)
