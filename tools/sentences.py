#!/usr/bin/env python3
"""The sentences of the ladder, chosen from Tatoeba: transformer_nb/sentences.txt.gz.

    python tools/sentences.py        # writes the file anew, from TRANSFORMER_NB_DATA

They are ordinary English sentences of one length, each once, in a random order, without Tom
and Mary, who otherwise would be in every fourth. The first lines say whose they are.
"""
import gzip, random, re
from pathlib import Path
from transformer_nb.support.core import write_atomically
from transformer_nb.corpora import tatoeba

FILE = Path(__file__).parents[1]/'transformer_nb/sentences.txt.gz'
N_SENTENCES, SHORTEST, LONGEST = 30_000, 16, 32
PLAIN = re.compile(r"[A-Z][A-Za-z ,'-]*[.!?]")
NAMES = re.compile(r'\b(Tom|Mary)\b')
WHOSE = """\
# 30,000 English sentences of 16 to 32 characters, by the contributors of tatoeba.org, from
# the English-German pairs of www.manythings.org/anki. License: Creative Commons Attribution
# 2.0 France (CC BY 2.0 FR), https://creativecommons.org/licenses/by/2.0/fr/
# Changes: a selection, each sentence once, without Tom and Mary, in a random order.
"""

def is_wanted(sentence):
    if not SHORTEST <= len(sentence) <= LONGEST: return False
    return bool(PLAIN.fullmatch(sentence)) and not NAMES.search(sentence)

def choose(english): # an iterable of sentences, which may repeat
    wanted = sorted({sentence for sentence in english if is_wanted(sentence)})
    return random.Random(0).sample(wanted, N_SENTENCES)

def main():
    splits = tatoeba().values()
    chosen = choose(english for pairs in splits for _, english in pairs)
    text = WHOSE + ''.join(f'{sentence}\n' for sentence in chosen)
    write_atomically(FILE, gzip.compress(text.encode('ascii'), mtime=0))

if __name__ == '__main__': main()
