"""The Transformer of *Attention Is All You Need* (Vaswani et al., 2017), whole.

    python transformer.py                                         # learns to copy, a minute
    python transformer.py translate everyday-en-de "I love you."  # with the book's weights

Needs torch; to translate, also safetensors and tokenizers. Axes: b batch, h head, t target,
s source, d feature, v vocabulary. Masks are True where attention is allowed. Ids: <pad> 0,
<s> 1, </s> 2, <unk> 3. The book explains this file. `make export` joins it from the right
stages of Build it yourself, and tests/test_one_file.py proves it equal to the package."""
import json, math, sys
from dataclasses import dataclass
from pathlib import Path
import torch
from torch import nn

# §3, Table 3: the sizes of a model
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

# §3.2.1: attention, and two masks
def scaled_dot_product_attention(query, key, value, mask=None): # Eq. (1)
    d_k = key.size(-1)
    scores = torch.einsum('bhtd,bhsd->bhts', query, key) / math.sqrt(d_k) # (b, h, t, s)
    if mask is not None:
        scores = scores.masked_fill(~mask, float('-inf'))
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return torch.einsum('bhts,bhsd->bhtd', weights, value), weights

def padding_mask(ids): # (b, 1, 1, s)
    not_pad = ids != 0
    return not_pad.unsqueeze(1).unsqueeze(2)

def causal_mask(t): # (t, t)
    row = torch.arange(t)
    return row[None, :] <= row[:, None]

# §3.2.2: several heads
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_k, d_v):
        super().__init__()
        self.n_heads, self.d_k, self.d_v, self.d_model = n_heads, d_k, d_v, d_model
        self.query = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.key = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.value = nn.Linear(d_model, n_heads * d_v, bias=False)
        self.output = nn.Linear(n_heads * d_v, d_model, bias=False)

    def to_heads(self, x, size): # (b, t, h·size) to (b, h, t, size)
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.n_heads, size).permute(0, 2, 1, 3)

    def forward(self, x, memory=None, mask=None): # queries are made of x
        source = x if memory is None else memory
        q = self.to_heads(self.query(x), self.d_k)
        k = self.to_heads(self.key(source), self.d_k)
        v = self.to_heads(self.value(source), self.d_v)
        out, _ = scaled_dot_product_attention(q, k, v, mask)
        batch, heads, length, size = out.shape
        out = out.permute(0, 2, 1, 3).reshape(batch, length, heads * size)
        return self.output(out)

# §3.3, §3.1, §5.4: feed-forward; residual, dropout, norm
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

    def forward(self, x, sublayer, *args, **kwargs):
        return self.norm(x + self.dropout(sublayer(x, *args, **kwargs)))

# §3.4, §3.5: tokens and positions
class Embedding(nn.Module):
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
    position = torch.arange(0, n_positions).unsqueeze(1).double()
    div = torch.exp(torch.arange(0, d_model, 2).double() * (-math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(position * div)
    pe[:, 1::2] = torch.cos(position * div)
    return pe

class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer('pe', positional_encoding(max_len, d_model))

    def forward(self, x):
        return self.dropout(x + self.pe[:x.size(1)])

# §3.1: the model
class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        sizes = (config.d_model, config.n_heads, config.d_k, config.d_v)
        self.self_attention = MultiHeadAttention(*sizes)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.residuals = nn.ModuleList(
            [ResidualNorm(config.d_model, config.dropout) for _ in range(2)])

    def forward(self, x, mask):
        x = self.residuals[0](x, self.self_attention, mask=mask)
        return self.residuals[1](x, self.feed_forward)

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
        x = self.residuals[0](x, self.self_attention, mask=mask)
        x = self.residuals[1](x, self.cross_attention, memory, memory_mask)
        return self.residuals[2](x, self.feed_forward)

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
        mask = causal_mask(tgt.size(1))
        for layer in self.decoder:
            x = layer(x, memory, mask, memory_mask)
        return self.embedding.logits(x)

    def forward(self, src, tgt):
        memory = self.encode(src)
        return self.decode(tgt, memory, padding_mask(src))

# §5.3, §5.4: learning rate, Adam, label smoothing
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

# The training loop, on the copy task
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
        losses.append(loss.item())
    return losses

# §6.1: greedy and beam search
def greedy(model, src, max_steps):
    mask = padding_mask(src)
    memory = model.encode(src)
    tgt = torch.full((src.size(0), 1), 1)
    for _ in range(max_steps):
        logits = model.decode(tgt, memory, mask)
        new = logits[:, -1, :].argmax(dim=-1)
        tgt = torch.cat([tgt, new[:, None]], dim=1)
    rows = [row[1:] + [2] for row in tgt.tolist()]
    return [row[:row.index(2)] for row in rows] # up to the first </s>

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
        if not beam: break
    if not done:
        done = [(total / length_penalty(len(ids) - 1, alpha), ids) for total, ids in beam]
    score, ids = max(done)
    return [i for i in ids if i > 2], score

# The book's weights
def load_model(folder):
    from safetensors.torch import load_file
    fields = json.loads(Path(folder, 'config.json').read_text(encoding='utf8'))['model']
    known = TransformerConfig.__dataclass_fields__
    config = TransformerConfig(**{k: v for k, v in fields.items() if k in known})
    model = Transformer(config)
    weights = {}
    for name, tensor in load_file(Path(folder, 'model.safetensors')).items():
        ours = name.replace('embeddings.0.', 'embedding.').replace('.layers.', '.')
        weights[ours] = tensor
    model.load_state_dict(weights, strict=False) # the table of positions is not stored
    return model.eval()

def translate(model, tokenizer, text):
    ids = tokenizer.encode(text).ids + [2]
    with torch.no_grad():
        best, _ = beam_search(model, torch.tensor([ids]), 4, 0.6, len(ids) - 1 + 50)
    return tokenizer.decode(best)

# Run it
def draw(n, held_out): # n sequences of 4 to 20 tokens; a tenth of all is held out
    seqs = torch.randint(4, 24, (20 * n, 20))
    seqs[torch.arange(20) >= torch.randint(4, 21, (20 * n, 1))] = 0
    side = (seqs * torch.arange(1, 21)).sum(1) % 10 == 0
    return seqs[side == held_out][:n]

def learn_to_copy(steps=1000, n_test=500):
    torch.manual_seed(0)
    config = TransformerConfig(24, d_model=64, d_ff=128, n_heads=4, d_k=16, d_v=16,
                               n_encoder_layers=1, n_decoder_layers=1, dropout=0)
    model = Transformer(config)
    batches = (draw(32, held_out=False) for _ in range(steps))
    def lr_of(step): # up, then down to 0: so short a run wants it, where paper_lr goes on
        return 5e-3 * min(12 * step / steps, 12/11 * (1 - step / (steps + 1)))
    losses = train(model, make_adam(model), batches, lr_of)
    seqs = draw(n_test, held_out=True)
    with torch.no_grad(): copies = greedy(model.eval(), shifted(seqs)[0], max_steps=21)
    right = sum(copy == [i for i in seq if i] for copy, seq in zip(copies, seqs.tolist()))
    print(f'loss {losses[0]:.2f} -> {losses[-1]:.4f} nats per token in {steps} steps;',
          f'{right} of {n_test} sequences that it never saw are copied without a mistake')

if __name__ == '__main__':
    if len(sys.argv) == 1: learn_to_copy()
    elif sys.argv[1] == 'translate' and len(sys.argv) == 4:
        from tokenizers import Tokenizer
        shipped = Path(__file__).parent/'nbs/models'/sys.argv[2]
        folder = shipped if shipped.is_dir() else Path(sys.argv[2])
        if not (folder/'config.json').is_file(): sys.exit(f'{folder} is not a model folder')
        tokenizer = Tokenizer.from_file(str(folder/'tokenizer.json'))
        tokenizer.encode_special_tokens = True # a typed </s> is text, not the end
        print(translate(load_model(folder), tokenizer, sys.argv[3]))
    else: sys.exit(__doc__)
