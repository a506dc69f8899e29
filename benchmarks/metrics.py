#!/usr/bin/env python3
"""Five numbers for each judged translation, as nbs/results/RULES.md asks for them
(*Which metric agrees with the judges*).

    python benchmarks/metrics.py --out nbs/results/metrics.jsonl
"""
import argparse, json, math
from pathlib import Path
from sacrebleu.metrics import BLEU, CHRF, TER
from transformer_nb.commands import score_pairs
from transformer_nb.support.core import provenance
from transformer_nb.translation import Translator
from runs import write_results

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = {'en-de': 'everyday-en-de', 'de-en': 'everyday-de-en'}
OURS = {'seed-0', 'seed-1'}

def judged()->list[dict]: # what our everyday models wrote, in any direction
    lines = (ROOT/'nbs/results/everyday.jsonl').read_text(encoding='utf8').splitlines()
    return [row for row in map(json.loads, lines) if OURS & set(row['models'])]

def mean_log_probs(translator:Translator, rows:list[dict])->list[float]: # per token
    pairs = [(row['source'], row['translation']) for row in rows]
    found, left_out = score_pairs(translator, pairs)
    assert not left_out, left_out
    return [math.fsum(found[n]) / len(found[n]) for n in range(1, len(rows) + 1)]

def numbers(direction:str, other:str, rows:list[dict])->list[dict]: # one for each row
    bleu, chrf, ter = BLEU(effective_order=True), CHRF(), TER()
    returned = Translator(SHIPPED[other]).translate([r['translation'] for r in rows])
    log_probs = mean_log_probs(Translator(SHIPPED[direction]), rows)
    found = []
    for row, log_prob, back in zip(rows, log_probs, returned):
        text, references = row['translation'], row['references']
        found.append(dict(
            bleu=bleu.sentence_score(text, references).score,
            chrf=chrf.sentence_score(text, references).score,
            ter=-ter.sentence_score(text, references).score,
            log_prob=log_prob,
            round_trip=chrf.sentence_score(back, [row['source']]).score))
    return found

def measure()->list[dict]:
    lines = []
    for direction, other in (('en-de', 'de-en'), ('de-en', 'en-de')):
        rows = [row for row in judged() if row['direction'] == direction]
        for row, found in zip(rows, numbers(direction, other, rows), strict=True):
            about = {name: row[name] for name in ('number', 'translation', 'verdict')}
            rounded = {name: round(x, 4) for name, x in found.items()}
            lines.append(dict(row=direction, seed=0) | about | rounded | provenance())
    return lines

def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--out', type=Path, required=True)
    a = parser.parse_args()
    write_results(a.out, measure())

if __name__ == '__main__': main()
