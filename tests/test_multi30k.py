"The real corpus, where it lies at hand."
from transformer_nb.core import EOS
from transformer_nb.data import TokenBatches, encode_pairs
from transformer_nb.corpora import load_corpus
from transformer_nb.text import BPETokenizer

def test_multi30k(multi30k_dir):
    corpus = load_corpus('multi30k', 'en', 'de', multi30k_dir)
    assert {k: len(v) for k, v in corpus.items()} == dict(train=29_000, valid=1014, test=1000)
    assert corpus['train'][0] == ('Two young, White males are outside near many bushes.', 'Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.')
    bpe = BPETokenizer.train((s for pair in corpus['train'] for s in pair), vocab_size=6000)
    for pairs in corpus.values():
        for text in (side for pair in pairs for side in pair): assert bpe.decode(bpe.encode(text)) == text
    ids, dropped = encode_pairs(corpus['train'], bpe, max_len=512)
    assert not any(dropped.values())
    batches = list(TokenBatches(ids, batch_tokens=4096).epoch(0))
    assert sum(b.n_tokens for b in batches) == sum(len(t) + 1 for _, t in ids)
    assert max(max(b.src.numel(), b.labels.numel()) for b in batches) <= 4096
    assert sum(int((b.src == EOS).sum()) for b in batches) == 29_000
