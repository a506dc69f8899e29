"A script such as users write. mypy reads it (tests/test_types.py), and nobody runs it."
from pathlib import Path
import torch
from transformer_nb.evaluation import score
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator, preset, train_translator

def small_model(pairs: list[tuple[str, str]], file: Path) -> tuple[Transformer, int]:
    texts = [text for pair in pairs for text in pair]
    BPETokenizer.train(texts, vocab_size=2000, normalize='nfc').save(file)
    tokenizer = BPETokenizer.load(file)
    n_pieces: int = len(tokenizer.encode(texts[0]))
    config = TransformerConfig.tiny(tokenizer.vocab_size, n_heads=8)
    config = TransformerConfig.from_json(config.to_json())
    assert config.d_model == TransformerConfig.base(10).d_model
    return Transformer(config), n_pieces

def trained(folder: Path, pairs: list[tuple[str, str]]) -> Translator:
    config = preset('tiny').override(max_steps=100, lr=1e-3)
    corpus = dict(train=pairs[:100], valid=pairs[100:])
    lines: list[dict] = train_translator(folder, config, corpus=corpus)
    print(lines[-1]['valid_loss'])
    return Translator(folder, torch.device('cpu'), beam_size=5, alpha=0.6)

def compared(translator: Translator, texts: list[str], references: list[str]) -> float:
    lines: list[str] = translator.translate(texts)
    for rows in translator.candidates(texts, n_best=3, alignments=True):
        for candidate in rows: print(candidate.text, round(candidate.score, 1))
    for [drawn] in translator.sample(texts, temperature=0.8, seed=1):
        print(translator.text(drawn), sum(drawn.log_probs))
    return score(lines, references, 'de')['bleu']
