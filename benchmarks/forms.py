#!/usr/bin/env python3
"""What a form of writing changes: the test sentences written in nine ways, translated.

    python benchmarks/forms.py everyday-de-en everyday-en-de            # adds lines to
    python benchmarks/forms.py multi30k-de-en multi30k-en-de  # nbs/results/forms.jsonl
    python benchmarks/forms.py --before everyday-de-en everyday-en-de

Tatoeba's test set for the everyday models, Multi30k's for those of captions; greedy search;
BLEU without case, because a line in capitals is translated into capitals. `--before` takes
away what chapters 08 and 08a do, so that the model reads each line as it is typed: of the
first 250 sentences only, since what comes out then is long.
"""
import argparse, unicodedata
from transformer_nb.core import provenance
from transformer_nb.corpora import load_corpus
from transformer_nb.evaluation import score
from transformer_nb.translation import Translator
from runs import read_results, write_results

PATH = 'nbs/results/forms.jsonl'
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

def translator_of(model, before):
    translator = Translator(f'nbs/models/{model}', 'cpu', beam_size=1)
    if before: translator.tokenizer.tokenizer.normalizer = None
    return translator

def remembering(search):
    "What is read alike is searched once"
    known = {}
    def find(texts):
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, search(new)))
        return [known[text] for text in texts]
    return find

def translate(translator, texts, find, before):
    lines = translator.translate_lines(texts, find, exact=before)
    if not before: return [line.text for line in lines]
    return [translator.text(line.results[0][0]) for line in lines] # nothing put back

def lines_of(model, before):
    corpus, *languages = model.split('-')
    pairs = list(load_corpus(CORPORA[corpus], *languages)['test'])
    sources, references = map(list, zip(*pairs[:250] if before else pairs))
    translator = translator_of(model, before)
    find = remembering(translator.search)
    for name, write in FORMS.items():
        texts = translate(translator, list(map(write, sources)), find, before)
        scores = score(texts, references)
        first = score(texts[:250], references[:250]) # to compare with `before`
        yield dict(row=f'{model}, {"before" if before else "after"}, {name}',
                   sentences=len(texts), bleu_lc=scores['bleu_lc'],
                   bleu_lc_250=first['bleu_lc']) | provenance()

def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('models', nargs='+')
    parser.add_argument('--before', action='store_true')
    options = parser.parse_args()
    for model in options.models:
        new = list(lines_of(model, options.before))
        rows = {line['row'] for line in new}
        old = [line for line in read_results(PATH) if line['row'] not in rows]
        write_results(PATH, old + new)
        for line in new: print(line['row'], line['bleu_lc'], line['bleu_lc_250'])

if __name__ == '__main__': main()
