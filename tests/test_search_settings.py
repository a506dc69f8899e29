"The settings of a search are part of a run: stored with the model, read by all who search."
import json
import pytest
from running import call, refuses
from transformer_nb.formats import page as export
from transformer_nb.checkpoint import save_model
from transformer_nb.commands import tnb_evaluate, tnb_train, tnb_translate
from transformer_nb.support.core import InputError
from transformer_nb.decoding import SearchConfig
from transformer_nb.formats.page import export_page
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.text import BPETokenizer
from transformer_nb.translation import Translator, load_search, preset

OWN = dict(beam_size=2, alpha=1.5, max_extra=7)
PAPER = dict(beam_size=4, alpha=0.6, max_extra=50)
USUAL = dict(penalty='paper') # which no command changes
BPE = BPETokenizer.train(['der Hund', 'the dog'], 270)

def put_model(folder, **options):
    config = TransformerConfig.tiny(BPE.vocab_size, n_encoder_layers=1, n_decoder_layers=1)
    save_model(folder, Transformer(config), BPE, **options)
    return folder

def edit_search(folder, search): # as a user might, or a stranger
    path = folder/'config.json'
    config = json.loads(path.read_text())
    if search is None: del config['search']
    else: config['search'] = search
    path.write_text(json.dumps(config))

@pytest.fixture(scope='module')
def own(tmp_path_factory): # a model whose author wants another search than the paper's
    return put_model(tmp_path_factory.mktemp('own')/'m', search=OWN)

def test_a_folder_without_the_section_is_searched_as_in_the_paper(tmp_path):
    assert load_search(put_model(tmp_path/'m')) == SearchConfig()
    edit_search(tmp_path/'m', None) # as older versions wrote it
    assert load_search(tmp_path/'m') == SearchConfig()
    assert PAPER.items() <= Translator(tmp_path/'m').options.items()

def test_the_stored_search_is_the_one_that_runs(own):
    lines = ['der Hund', 'the dog der']
    stored = Translator(own).search(lines)
    assert stored == Translator(own, **OWN).search(lines)
    assert stored != Translator(own, **PAPER).search(lines)
    for [hypothesis], line in zip(stored, lines): # this model hardly ever ends a sentence
        assert len(hypothesis.log_probs) <= len(BPE.encode(line)) + 7
    for [drawn], line in zip(Translator(own).sample(lines), lines):
        assert len(drawn.log_probs) <= len(BPE.encode(line)) + 7

def test_commands_take_what_is_stored_and_options_override_it(own, tmp_path):
    (tmp_path/'x').write_text('der Hund\n')
    def searched(**options):
        done = call(tnb_evaluate, own, src=tmp_path/'x', ref=tmp_path/'x', **options)
        return json.loads(done.stdout)['search']
    assert searched() == OWN | USUAL
    assert searched(beam_size=3) == OWN | USUAL | dict(beam_size=3)
    assert searched(**PAPER) == PAPER | USUAL
    def translated(**options):
        return call(tnb_translate, own, tmp_path/'x', **options).stdout
    assert translated(n_best=2) == translated(n_best=2, **OWN)
    many = call(tnb_translate, own, tmp_path/'x', n_best=3)
    refuses(many, '--n_best is 3', 'beam_size, 2')
    for name, value in PAPER.items(): # a search that will not happen
        done = call(tnb_evaluate, hyp=tmp_path/'x', ref=tmp_path/'x', **{name: value})
        refuses(done, f'--{name} and --hyp cannot be combined')

@pytest.mark.parametrize('settings', [
    dict(beam_size=513), dict(alpha=-0.1), dict(max_extra=0)], ids=str)
def test_the_bounds_are_the_same_everywhere(settings, own, tmp_path):
    [name] = settings
    with pytest.raises(InputError) as refused: SearchConfig(**settings)
    message = str(refused.value)
    with pytest.raises(InputError) as refused: Translator(own, **settings).search(['Hund'])
    assert str(refused.value) == message
    with pytest.raises(InputError) as refused: preset('tiny').override(**settings)
    assert str(refused.value) == message
    for command in (tnb_translate, tnb_evaluate):
        options = dict(src=own/'config.json', ref=own/'config.json')
        if command is tnb_translate: options = {}
        refuses(call(command, own, stdin=b'Hund\n', **options, **settings), f'--{message}')

def test_a_value_from_a_file_is_not_called_an_option(tmp_path):
    "`--label_smoothing is 2`, it said, where no such option was typed"
    (tmp_path/'run.yaml').write_text('training: {label_smoothing: 2}\nsearch: {alpha: 1}\n')
    argv = ['--out', str(tmp_path/'m'), '--corpus', 'mini', '--config',
            str(tmp_path/'run.yaml')]
    done = call(tnb_train, argv)
    refuses(done, 'tnb_train: label_smoothing is 2')
    done = call(tnb_train, [*argv, '--label_smoothing', '3'])
    refuses(done, 'tnb_train: --label_smoothing is 3')

def test_the_other_length_penalty(tmp_path, capsys):
    "By name, in a model's folder: every search has it, and the page refuses it"
    folder = put_model(tmp_path/'m', search=OWN | dict(penalty='power'))
    found = Translator(folder).search(['der Hund'], n_best=2)
    by_hand = Translator(folder, penalty=lambda n, alpha: n**alpha).search(['der Hund'],
                                                                           n_best=2)
    assert found == by_hand
    assert found != Translator(folder, penalty='paper').search(['der Hund'], n_best=2)
    with pytest.raises(InputError, match="penalty is 'power', which the page cannot do"):
        export_page([folder], tmp_path/'page.html')
    pytest.importorskip('ctranslate2')
    export.export_ctranslate2(folder, tmp_path/'ct2')
    assert 'author by |Y|^α' in (tmp_path/'ct2/README.md').read_text()
    edit_search(folder, OWN | dict(penalty='none'))
    with pytest.raises(InputError, match="penalty is 'none'; it must be one of: paper"):
        load_search(folder)
