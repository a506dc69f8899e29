"Random models, and a search to compare with: the whole model for each hypothesis."
import random
from unittest import mock
import torch
from transformer_nb.support.core import BOS, EOS
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.studies.since_2017 import modernize

def random_model(seed, norm='post', vocab_size=12, max_len=12, end=1., parts=(), **options):
    """Random weights, float64, with `parts` of chapter 20

    `end` is added to the logit of `</s>` on average.
    """
    torch.manual_seed(seed)
    small = dict(d_model=16, d_ff=24, n_heads=2, d_k=6, d_v=5, n_encoder_layers=1,
                 n_decoder_layers=2, positions='learned', tie_embeddings=False)
    config = TransformerConfig(vocab_size, norm=norm, max_len=max_len, **small | options)
    config = modernize(config, *parts)
    m = Transformer(config).double().eval().requires_grad_(False)
    for p in m.parameters():
        if p.dim() > 1: torch.nn.init.normal_(p, std=0.4)
    table = m.tgt_positions.table
    if table is not None: torch.nn.init.normal_(table, std=2)
    src = torch.randint(4, vocab_size, (30, 5))
    tgt = torch.randint(vocab_size, (30, min(5, max_len)))
    with mock.patch.object(m.output, 'logits', lambda x: x):
        outputs = m(src[:, :max_len], tgt)
    common = outputs.mean((0, 1))
    common /= common.norm()
    W = m.output.weight
    W.copy_(2 * (W - torch.outer(W @ common, common)))
    W[EOS] += end * common / 4
    return m

def random_sentences(seed, n, vocab_size=12, longest=7):
    rng = random.Random(seed)
    def sentence():
        length = rng.randint(1, longest)
        return [rng.randrange(3, vocab_size) for _ in range(length)]
    return [sentence() for _ in range(n)]

def log_probs_of(model, sentence, *prefixes):
    "Of every next token (n, v), by the whole model; the prefixes are equally long"
    src = torch.tensor([sentence + [EOS]]).expand(len(prefixes), -1)
    tgt = torch.tensor([[BOS] + prefix for prefix in prefixes])
    return model(src, tgt)[:, -1].log_softmax(-1)

def token_ids(ids): return [t for t in ids if t != EOS]

def plain_beam(model, sentence, k, alpha, n_best, penalty):
    """The definition, without a cache and without an early stop

    Returns (score, ids, log-probabilities) of the `n_best`.
    """
    return ranked(hypotheses_of(model, sentence, k), alpha, n_best, penalty)

def hypotheses_of(model, sentence, k):
    "Ids and log-probabilities of all that ended, or else of those that were cut off"
    live, ended = [([], [])], []
    limit = min(len(sentence) + 50, model.config.max_len)
    for _ in range(limit):
        candidates = []
        rows = log_probs_of(model, sentence, *(ids for ids, _ in live)).tolist()
        for (ids, log_probs), row in zip(live, rows):
            for token, p in enumerate(row):
                candidates.append((ids + [token], log_probs + [p]))
        kept = sorted(candidates, key=lambda c: -sum(c[1]))[:k]
        ended += [c for c in kept if c[0][-1] == EOS]
        live = [c for c in kept if c[0][-1] != EOS]
        if not live: break
    return ended or live

def ranked(hypotheses, alpha, n_best, penalty):
    scored = [(sum(p) / penalty(len(p), alpha), ids, p) for ids, p in hypotheses]
    best = sorted(scored, key=lambda c: -c[0])[:n_best]
    return [(score, token_ids(ids), p) for score, ids, p in best]

def check(hypotheses, wanted, atol=1e-10):
    assert [h.ids for h in hypotheses] == [ids for _, ids, _ in wanted]
    for h, (score, _, log_probs) in zip(hypotheses, wanted):
        assert abs(h.score - score) < atol and len(h.log_probs) == len(log_probs)
        assert max(abs(a - b) for a, b in zip(h.log_probs, log_probs)) < atol

def all_log_probs(model, sentence, h):
    "Of every token at every step of a hypothesis, by one pass (t, v)"
    read = ([BOS] + h.ids)[:len(h.log_probs)]
    return model(torch.tensor([sentence + [EOS]]), torch.tensor([read]))[0].log_softmax(-1)

def check_samples(model, sentences, drawn):
    "Their log-probabilities are the model's own"
    for s, h in zip(sentences, drawn):
        labels = (h.ids + [EOS])[:len(h.log_probs)]
        wanted = all_log_probs(model, s, h)[range(len(labels)), labels].tolist()
        check([h], [(sum(wanted), h.ids, wanted)])
