#!/usr/bin/env python3
"""Decoding beside CTranslate2: the same weights, the same sentences, speed and agreement.

    python tests/decoding_speed.py MODEL_FOLDER SENTENCES [ROUNDS]

Beam 4 with the penalty |Y|^0.6, float32, as many threads as PyTorch uses. The two take turns, ROUNDS times (3). CTranslate2
runs twice: with its own stop rule, which is faster, and with `patience` 10, which hardly ever stops too early.
"""
import subprocess, sys, time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
import ctranslate2, torch
from transformer_nb.data import read_lines
from transformer_nb.decoding import power_penalty
from transformer_nb.translation import Translator

def main(folder, sentences, rounds=3):
    texts = [t for t in read_lines(sentences) if t.strip()]
    ours = Translator(folder, torch.device('cpu'), penalty=power_penalty)
    bpe = ours.tokenizer
    with TemporaryDirectory() as d:
        subprocess.run([Path(sys.executable).parent/'tnb_export', folder, f'{d}/ct2'], check=True)
        engine = ctranslate2.Translator(f'{d}/ct2', compute_type='float32', inter_threads=1, intra_threads=torch.get_num_threads())
    pieces = [[bpe.tokenizer.id_to_token(i) for i in bpe.encode(t)] for t in texts]
    index = {bpe.tokenizer.id_to_token(i): i for i in range(bpe.vocab_size)}
    def theirs(patience): return [[index[p] for p in r.hypotheses[0]] for r in engine.translate_batch(
        pieces, beam_size=4, length_penalty=0.6, patience=patience, batch_type='tokens', max_batch_size=4096, max_decoding_length=512)]
    systems = {'ours': lambda: [h[0].ids for h in ours.search(texts)], 'CTranslate2': lambda: theirs(1), 'CTranslate2, patience 10': lambda: theirs(10)}
    found, seconds = {name: run() for name, run in systems.items()}, {name: [] for name in systems} # the first run warms up
    for _ in range(rounds):
        for name, run in systems.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    print(f'{len(texts)} sentences, {torch.get_num_threads()} threads, torch {torch.__version__}, ctranslate2 {ctranslate2.__version__}, d_model {ours.model.config.d_model}')
    for name, times in seconds.items():
        same = sum(a == b for a, b in zip(found['ours'], found[name]))
        ratio = median(t / o for t, o in zip(times, seconds['ours']))
        print(f'{name:25} {median(times):6.2f} s ({min(times):.2f} to {max(times):.2f}), {ratio:.2f} times as long as ours, {same} translations as ours, '
              f'{sum(map(len, found[name]))} tokens')

if __name__ == '__main__': main(*sys.argv[1:3], *map(int, sys.argv[3:4]))
