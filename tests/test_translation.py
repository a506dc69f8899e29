"""Chapter 15 beyond its own proofs: runs as objects, what is stored and refused,
candidates, samples and reports."""
import json
from pathlib import Path
import pytest, torch, yaml
from transformer_nb.checkpoint import last_weights
from transformer_nb.support.core import InputError
from transformer_nb.corpora import load_corpus
from transformer_nb.model import TransformerConfig
from transformer_nb.prepare import DataConfig
from transformer_nb.training import TrainingConfig
from transformer_nb.translation import (
    RunConfig, Translator, evaluate, fine_tuning, preset, train_translator)

MODELS = Path(__file__).parent.parent/'nbs/models'

def test_a_run_is_overridden_stored_and_read():
    run = RunConfig(TransformerConfig.base(6000), DataConfig(), TrainingConfig())
    wide = run.override(d_model=1024, batch_tokens=8192)
    assert (wide.model.d_k, wide.data.batch_tokens) == (128, 8192)
    assert RunConfig.from_dict(yaml.safe_load(wide.to_yaml())) == wide
    sections = run.to_dict().values() # a field belongs to one of them
    assert len({name for fields in sections for name in fields}) == sum(map(len, sections))
    with pytest.raises(InputError, match="'learning_rate' is not a field"):
        run.override(learning_rate=1.)
    for wrong in (dict(n_heads=7), dict(max_steps=0), dict(label_smoothing=1.),
                  dict(batch_tokens=-3)):
        with pytest.raises(InputError): run.override(**wrong)

def test_fine_tuning_takes_a_tenth():
    run = fine_tuning(MODELS/'multi30k-en-de', corpus='tatoeba')
    assert (run.training.max_steps, run.training.warmup_steps) == (5220, 261)
    shorter = fine_tuning(MODELS/'multi30k-en-de', corpus='tatoeba', max_steps=600, lr=1e-4)
    assert (shorter.training.warmup_steps, shorter.training.decay_steps) == (30, 600)
    assert (shorter.training.lr, shorter.training.weight_decay) == (1e-4, 0.1)
    assert (shorter.model.dropout, shorter.data.batch_tokens) == (0.2, 1024)

@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    "A model that has learned a little: its folder, its run and its corpus"
    folder = tmp_path_factory.mktemp('runs')/'small'
    corpus = load_corpus('mini', 'de', 'en')
    run = preset('tiny').override(
        corpus='mini', vocab_size=1000, batch_tokens=1000, d_model=32, d_ff=64,
        n_encoder_layers=1, n_decoder_layers=1, dropout=0., max_steps=60, lr=8e-3,
        warmup_steps=20, valid_every=30, save_every=10, average=5, weights='mean')
    train_translator(folder, run)
    return folder, run, corpus

def test_the_folder_stores_the_run_and_is_not_written_over(trained):
    folder, run, _ = trained
    stored = yaml.safe_load((folder/'run.yaml').read_text(encoding='utf8'))
    assert RunConfig.from_dict(stored) == run
    about = json.loads((folder/'config.json').read_text(encoding='utf8'))
    assert about['training']['config'] == stored
    with pytest.raises(InputError, match='not empty'): train_translator(folder, run)

def test_the_mean_of_the_last_checkpoints_taken_again(trained):
    folder, _, corpus = trained
    sources = [source for source, _ in corpus['test'][:10]]
    translator = Translator(folder)
    before = translator.translate(sources)
    translator.model.load_state_dict(last_weights(folder, 5))
    assert translator.translate(sources) == before
    with pytest.raises(InputError, match='checkpoints has'): last_weights(folder, 99)

def test_nothing_is_translated_to_nothing_and_long_lines_are_named(trained):
    translator = Translator(trained[0])
    assert translator.translate(['', '   ']) == ['', ''] and translator.translate([]) == []
    at_limit = translator.tokenizer.decode([300] * translator.limit)
    assert translator.too_long([at_limit, at_limit + 'x']) == [1]

def test_candidates_and_samples(trained):
    folder, _, corpus = trained
    translator, texts = Translator(folder), [corpus['test'][0][0], '']
    [first, second], nothing = translator.candidates(texts, n_best=2, alignments=True)
    assert first.text == translator.translate(texts)[0] != second.text and nothing == []
    assert first.score > second.score
    assert ''.join(first.pieces[:-1]).strip() == first.text
    assert first.alignment.shape == (len(first.pieces), len(first.source_pieces))
    assert torch.allclose(first.alignment.sum(1), torch.ones(len(first.pieces)), atol=1e-5)
    [drawn], nothing = translator.sample(texts, temperature=1e-3)
    [greedy, *_], _ = translator.search(texts, beam_size=1)
    assert (drawn.ids, nothing) == (greedy.ids, [])

def test_a_report_says_what_it_left_out(trained, tmp_path):
    folder, _, corpus = trained
    translator, fifty = Translator(folder), list(corpus['test'][:50])
    scores = evaluate(translator, fifty, lang='en', out=tmp_path/'fifty.txt')
    written = (tmp_path/'fifty.txt').read_text(encoding='utf8').splitlines()
    assert written == translator.translate([source for source, _ in fifty])
    at_limit = translator.tokenizer.decode([300] * translator.limit)
    odd = evaluate(translator, [*fifty, ('', 'Nothing.'), (at_limit + 'x', 'Much.')])
    assert odd['left_out'] == {'empty': [51], 'too long': [52]}
    assert (odd['cut'], odd['sentences'], odd['ppl']) == ([52], 52, scores['ppl'])
