"Solutions of the exercises of chapter 15, each with the check that the chapter makes."
from sacrebleu.metrics import CHRF
from transformer_nb.checkpoint import save_model
from transformer_nb.decoding import alignment
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator

def looked_up(translator, text):
    "Exercise 1. The row of a target piece belongs to the step at which it was predicted."
    bpe, ids = translator.tokenizer, translator.tokenizer.encode(text)
    [[found, *_]] = translator.search([text])
    pieces = [bpe.decode([i]) for i in ids] + ['</s>']
    best = alignment(translator.model, ids, found.ids).argmax(-1).tolist()
    return [(pieces[s], bpe.decode([t])) for s, t in zip(best, found.ids)]

def oracle(translator, sources, references, n_best):
    "Exercise 2. What no system can do that does not know the reference; so it bounds what a better score could reach."
    metric = CHRF()
    def chosen(hypotheses, reference):
        texts = [translator.text(h) for h in hypotheses[:n_best]]
        return max(texts, key=lambda text: metric.sentence_score(text, [reference]).score, default='')
    return [chosen(found, reference) for found, reference in zip(translator.search(sources), references)]

def test_looked_up(tmp_path):
    bpe = BPETokenizer.train(['ein Haus am See'], 280)
    save_model(tmp_path, Transformer(TransformerConfig.tiny(280)), bpe)
    translator = Translator(tmp_path, beam_size=1)
    pairs = looked_up(translator, 'ein Haus')
    [[found]] = translator.search(['ein Haus'])
    assert [target for _, target in pairs] == [bpe.decode([i]) for i in found.ids]
    assert {source for source, _ in pairs} <= {'</s>', *(bpe.decode([i]) for i in bpe.encode('ein Haus'))}

def test_oracle(tmp_path):
    bpe = BPETokenizer.train(['ein Haus am See'], 280)
    save_model(tmp_path, Transformer(TransformerConfig.tiny(280, max_len=20)), bpe)
    translator = Translator(tmp_path, beam_size=4, n_best=4)
    [found] = translator.search(['ein Haus'])
    texts = [translator.text(h) for h in found]
    assert len(set(texts)) > 1
    for text in texts:
        if text: assert oracle(translator, ['ein Haus', ''], [text, 'x'], 4) == [text, '']
    assert oracle(translator, ['ein Haus'], texts[-1:], 1) == texts[:1] == translator.translate(['ein Haus'])
