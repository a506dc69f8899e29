"The real corpus, where it lies at hand."
from transformer_nb.support.core import EOS, PAD
from transformer_nb.corpora import load_corpus
from transformer_nb.data import TokenBatches, encode_pairs
from transformer_nb.text import BPETokenizer

FIRST = ('Two young, White males are outside near many bushes.',
         'Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.')

def test_multi30k(multi30k_dir):
    corpus = load_corpus('multi30k', 'en', 'de', multi30k_dir)
    sizes = {split: len(pairs) for split, pairs in corpus.items()}
    assert sizes == dict(train=29_000, valid=1014, test=1000)
    assert corpus['train'][0] == FIRST

    sentences = [text for pair in corpus['train'] for text in pair]
    bpe = BPETokenizer.train(sentences, vocab_size=6000)
    for pairs in corpus.values():
        for pair in pairs:
            for text in pair: assert bpe.decode(bpe.encode(text)) == text

    ids, dropped = encode_pairs(corpus['train'], bpe, max_len=512)
    assert len(ids) == 29_000 and not any(dropped.values())
    batches = list(TokenBatches(ids, batch_tokens=4096).epoch(0))
    assert sum(b.n_tokens for b in batches) == sum(len(t) + 1 for _, t in ids)
    assert max(max(b.src.numel(), b.labels.numel()) for b in batches) <= 4096
    assert sum(int((b.src == EOS).sum()) for b in batches) == 29_000

    for side in ('src', 'labels'): # padding
        matrices = [getattr(b, side) for b in batches]
        n_tokens = sum(int((x != PAD).sum()) for x in matrices)
        assert n_tokens > 0.96 * sum(x.numel() for x in matrices)
