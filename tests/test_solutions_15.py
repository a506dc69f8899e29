"Solutions of the exercises of chapter 15, each with the check that the chapter makes."
from transformer_nb.checkpoint import save_model
from transformer_nb.decoding import alignment
from transformer_nb.evaluation import score
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

def bleu_by_length(sources, translations, references, edges):
    "Exercise 2."
    groups = {}
    for row in zip(sources, translations, references):
        edge = next((edge for edge in edges if len(row[0].split()) <= edge), None)
        if edge is not None: groups.setdefault(edge, []).append(row[1:])
    return {edge: score(*map(list, zip(*groups[edge])))['bleu'] for edge in edges if edge in groups}

def test_looked_up(tmp_path):
    bpe = BPETokenizer.train(['ein Haus am See'], 280)
    save_model(tmp_path, Transformer(TransformerConfig.tiny(280)), bpe)
    translator = Translator(tmp_path, beam_size=1)
    pairs = looked_up(translator, 'ein Haus')
    [[found]] = translator.search(['ein Haus'])
    assert [target for _, target in pairs] == [bpe.decode([i]) for i in found.ids]
    assert {source for source, _ in pairs} <= {'</s>', *(bpe.decode([i]) for i in bpe.encode('ein Haus'))}

def test_bleu_by_length():
    found = bleu_by_length(['a b', 'a b c d', 'a b c d'], ['x y z u', 'x y z u v', 'q'], ['x y z u', 'x y z u v', 'q r'], [2, 5, 9])
    assert list(found) == [2, 5] and found[2] > 99 and found[5] < 99
