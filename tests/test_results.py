"What is kept beside the chapters: four small trained models, and the reports of real runs."
import json, re
from dataclasses import asdict
from pathlib import Path
import pytest, yaml
from transformer_nb.checkpoint import load_model
from transformer_nb.corpora import load_corpus, read_lines
from transformer_nb.evaluation import score
from transformer_nb.translation import RunConfig, Translator

ROOT = Path(__file__).parent.parent
CAPTIONS = [ROOT/'nbs/models/multi30k-en-de', ROOT/'nbs/models/multi30k-de-en']
EVERYDAY = [ROOT/'nbs/models/everyday-en-de', ROOT/'nbs/models/everyday-de-en']
RESULTS = ROOT/'nbs/results'

def read_jsonl(path):
    return [json.loads(line) for line in path.read_text(encoding='utf8').splitlines()]

all_models = pytest.mark.parametrize('model', CAPTIONS + EVERYDAY, ids=lambda f: f.name)

@all_models
def test_model_is_small_and_has_a_card(model):
    files = {path.name for path in model.iterdir()}
    assert files == {'README.md', 'config.json', 'metrics.jsonl', 'model.safetensors',
                     'run.yaml', 'tokenizer.json'}
    assert sum(path.stat().st_size for path in model.iterdir()) <= 6.5e6
    card = (model/'README.md').read_text(encoding='utf8')
    terms = 'CC BY 2.0 FR', 'Tatoeba', 'any purpose'
    if model in CAPTIONS: terms = 'non-commercial', 'Multi30k'
    assert all(words in card for words in terms) and '@' not in card
    if model in EVERYDAY: assert 'Multi30k' not in card

@pytest.mark.parametrize('model, text, translation', [
    (CAPTIONS[0], 'Two dogs are playing in the snow.', 'Zwei Hunde spielen im Schnee.'),
    (CAPTIONS[1], 'Zwei Hunde spielen im Schnee.', 'Two dogs play in the snow.'),
    (EVERYDAY[0], 'I love you.', 'Ich liebe dich.'),
    (EVERYDAY[1], 'Ich liebe dich.', 'I love you.')])
@pytest.mark.smoke
def test_model_translates(model, text, translation):
    assert Translator(model).translate([text, '']) == [translation, '']

@all_models
def test_model_says_how_it_was_trained(model):
    about = json.loads((model/'config.json').read_text(encoding='utf8'))['training']
    stored = yaml.safe_load((model/'run.yaml').read_text(encoding='utf8'))
    run = RunConfig.from_dict(stored)
    assert about['config'] == stored
    for section, fields in run.to_dict().items(): # later fields have their defaults
        assert stored[section].items() <= fields.items()
    assert asdict(run.model) == asdict(load_model(model)[0].config)
    data, *lines = read_jsonl(model/'metrics.jsonl')
    assert about['data'] == data and about['result'] == lines[-1]
    assert all(line['lr'] <= run.training.lr for line in lines if line['step'])

def test_kept_translations_have_the_reported_scores(multi30k_dir):
    for row in read_jsonl(RESULTS/'translation.jsonl'):
        name = row['row']
        if 'test_2016_flickr, beam' not in name or 'in the book' in name: continue
        run = row['command'].split()[1].removeprefix('runs/')
        src, tgt, _ = run.split('-')
        pairs = load_corpus('multi30k', src, tgt)['test']
        lines = read_lines(RESULTS/f'translations/{run}.txt')
        scores = score(lines, [reference for _, reference in pairs], tgt)
        assert scores['bleu_moses_lc'] == row['bleu_moses_lc'], run

def everyday_reports():
    return {row['row']: row for row in read_jsonl(RESULTS/'everyday_models.jsonl')}

def test_kept_everyday_translations_have_the_reported_scores(multi30k_dir):
    if not (multi30k_dir/'tatoeba-deu-eng').exists(): pytest.skip('Tatoeba is not here')
    for name, row in everyday_reports().items():
        found = re.fullmatch(
            r'(..) → (..), (seed \d|in the book, eight bits): Tatoeba, test', name)
        if not found: continue
        src, tgt, which = (text.lower() for text in found.groups())
        run = 'second-2e-3' if 'bits' in which else which.removeprefix('seed ')
        pairs = load_corpus('tatoeba', src, tgt)['test']
        lines = read_lines(RESULTS/f'translations/everyday-{src}-{tgt}-{run}.txt')
        scores = score(lines, [reference for _, reference in pairs])
        assert scores['bleu'] == row['bleu'], name

def judgements(model): # of what the model of the book wrote
    direction = model.name.removeprefix('everyday-')
    rows = [row for row in read_jsonl(RESULTS/'everyday.jsonl')
            if row['direction'] == direction and 'second' in row['models']]
    assert len(rows) == 100
    return rows

@pytest.mark.parametrize('model', EVERYDAY, ids=lambda folder: folder.name)
def test_what_was_judged_is_what_the_model_writes(model):
    rows = judgements(model)
    sources = [row['source'] for row in rows]
    assert Translator(model).translate(sources) == [row['translation'] for row in rows]

def test_the_best_runs_by_validation_are_shipped():
    reports = read_jsonl(RESULTS/'translation.jsonl')
    rows = {row['row']: row['bleu_moses_lc'] for row in reports}
    for pair, model in zip(('EN → DE', 'DE → EN'), CAPTIONS):
        search = 'beam 5, α 1.8' # chosen on the validation set
        seeds = [seed for seed in range(3) if f'{pair}, seed {seed}, val, {search}' in rows]
        best = max(seeds, key=lambda seed: rows[f'{pair}, seed {seed}, val, {search}'])
        config = json.loads((model/'config.json').read_text(encoding='utf8'))
        assert config['training']['config']['training']['seed'] == best
        score_of_run, score_in_book = (rows[f'{pair}, {which}, test_2016_flickr, {search}']
                                       for which in (f'seed {best}', 'in the book'))
        assert abs(score_of_run - score_in_book) < 0.1 # half precision
