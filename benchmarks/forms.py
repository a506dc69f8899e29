#!/usr/bin/env python3
"""What a form of writing changes: whole test sets, written in nine ways, translated.

    python benchmarks/forms.py everyday-de-en everyday-en-de multi30k-de-en multi30k-en-de

Tatoeba's test set for the models of everyday sentences, Multi30k's for those of captions;
greedy search; BLEU without case, because a line in capitals is translated into capitals.
The lines go into nbs/results/forms.jsonl, those of earlier calls stay. In a clone of commit
9b972b3, which has none of chapters 08 (`normalize`) and 08a, the same file writes *before*.
"""
import json, sys, unicodedata
from pathlib import Path
import torch
from transformer_nb.support.core import provenance, write_atomically
from transformer_nb.corpora import load_corpus
from transformer_nb.evaluation import score
from transformer_nb.translation import Translator

PATH = Path('nbs/results/forms.jsonl')
CORPORA = dict(everyday='tatoeba', multi30k='multi30k')
FORMS = {
    'as they are': str,
    'curly marks': lambda text: text.replace("'", '’').replace('...', '…'),
    'a space before each': lambda text: ' ' + text,
    'double spaces': lambda text: text.replace(' ', '  '),
    'one no-break space': lambda text: text.replace(' ', '\u00a0', 1),
    'letters decomposed': lambda text: unicodedata.normalize('NFD', text),
    'soft hyphens': lambda text: text.replace('e', 'e\u00ad'),
    'lower case': str.lower,
    'capitals': str.upper}
IS_AFTER = hasattr(Translator, 'translate_lines')

def remembering(search):
    "What is read alike is searched once"
    known = {}
    def find(texts):
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, search(new)))
        return [known[text] for text in texts]
    return find

def translate(translator, texts, find):
    if IS_AFTER: return [line.text for line in translator.translate_lines(texts, find)]
    return [translator.text(found[0]) for found in find(texts)]

def measure(model):
    corpus, *languages = model.split('-')
    pairs = load_corpus(CORPORA[corpus], *languages)['test']
    sources, references = map(list, zip(*pairs))
    translator = Translator(f'nbs/models/{model}', beam_size=1)
    find = remembering(translator.search)
    for form, write in FORMS.items():
        texts = translate(translator, list(map(write, sources)), find)
        yield dict(model=model, form=form, when='after' if IS_AFTER else 'before',
                   sentences=len(texts), bleu_lc=score(texts, references)['bleu_lc']
                   ) | provenance()

def key(line): return line['model'], line['when'], line['form']

def main(models):
    torch.set_num_threads(1)
    new = []
    for model in models:
        for line in measure(model):
            print(*key(line), line['bleu_lc'], sep='\t', flush=True)
            new.append(line)
    old = PATH.read_text(encoding='utf8').splitlines() if PATH.exists() else []
    made = {key(line): line for line in [*map(json.loads, old), *new]}
    lines = [json.dumps(line, ensure_ascii=False) + '\n' for line in made.values()]
    write_atomically(PATH, ''.join(lines).encode())

if __name__ == '__main__': main(sys.argv[1:])
