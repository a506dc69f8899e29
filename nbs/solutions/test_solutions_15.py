"Solutions of the exercises of chapter 15, each with the check that the chapter makes."
import torch
from sacrebleu.metrics import CHRF
from transformer_nb.checkpoint import save_model
from transformer_nb.decoding import alignment
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator

def looked_up(translator, text):
    "Exercise 1. The row of a target piece belongs to the step at which it was predicted."
    bpe = translator.tokenizer
    ids = bpe.encode(text)
    [[found, *_]] = translator.search([text])
    pieces = [bpe.decode([i]) for i in ids] + ['</s>']
    best = alignment(translator.model, ids, found.ids).argmax(-1).tolist()
    return [(pieces[s], bpe.decode([t])) for s, t in zip(best, found.ids)]

def oracle(translator, sources, references, n_best):
    """Exercise 2. Only a system that knows the reference can do this, so it bounds what a
    better score could reach."""
    sentence_chrf = CHRF().sentence_score
    def best(hypotheses, reference):
        def chrf(text): return sentence_chrf(text, [reference]).score
        texts = [translator.text(hypothesis) for hypothesis in hypotheses[:n_best]]
        return max(texts, key=chrf, default='')
    return [best(found, ref) for found, ref in zip(translator.search(sources), references)]

def random_translator(folder, max_len=512, **options):
    bpe = BPETokenizer.train(['ein Haus am See'], 280)
    config = TransformerConfig.tiny(bpe.vocab_size, max_len=max_len)
    torch.manual_seed(0) # with others, one in fifteen, four hypotheses can be one text
    save_model(folder, Transformer(config), bpe)
    return Translator(folder, **options)

def test_looked_up(tmp_path):
    translator = random_translator(tmp_path, beam_size=1)
    bpe = translator.tokenizer
    pairs = looked_up(translator, 'ein Haus')
    [[found]] = translator.search(['ein Haus'])
    assert [target for _, target in pairs] == [bpe.decode([i]) for i in found.ids]
    source_pieces = {bpe.decode([i]) for i in bpe.encode('ein Haus')}
    assert {source for source, _ in pairs} <= source_pieces | {'</s>'}

def test_oracle(tmp_path):
    translator = random_translator(tmp_path, max_len=20, beam_size=4, n_best=4)
    [found] = translator.search(['ein Haus'])
    texts = [translator.text(hypothesis) for hypothesis in found]
    assert len(set(texts)) > 1
    for text in filter(None, texts):
        assert oracle(translator, ['ein Haus', ''], [text, 'x'], 4) == [text, '']
    first_only = oracle(translator, ['ein Haus'], texts[-1:], 1)
    assert first_only == texts[:1] == translator.translate(['ein Haus'])
