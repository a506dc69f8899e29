"transformer.py is what `make export` joins, and the package's model, loss and search."
import re, runpy, subprocess, sys
import onefile, pytest, torch
from running import ROOT
from torch.testing import assert_close
from transformer_nb import optimizer
from transformer_nb.checkpoint import load_model
from transformer_nb.copy_task import copy_batch
from transformer_nb.decoding import search
from transformer_nb.translation import Translator
sys.path.insert(0, str(ROOT))
import transformer

MODEL = ROOT/'nbs/models/everyday-en-de'

@pytest.fixture(scope='module')
def two(): # the book's weights in both
    with torch.random.fork_rng(): return transformer.load_model(MODEL), load_model(MODEL)[0]

def test_it_is_fresh():
    text = (ROOT/'transformer.py').read_text('utf8')
    assert text == onefile.one_file(ROOT) and text.count('\n') <= 320
    right = '\n'.join(p.read_text('utf8') for p in (ROOT/onefile.RIGHT).glob('*.py'))
    for long, _ in onefile.SHORTER: assert re.search(long, right), long

def test_the_same_logits_and_gradients(two):
    ours, theirs = (model.double() for model in two)
    src, tgt = torch.randint(4, 8000, (2, 3, 9))
    src[1, 6:] = tgt[2, 5:] = 0
    found = []
    for model, weight in ((ours, ours.embedding.weight), (theirs, theirs.output.weight)):
        logits = model(src, tgt)
        loss = transformer.smoothed_loss if model is ours else optimizer.smoothed_loss
        total = loss(logits, src.roll(1, 1), 0.1)
        found.append([logits.detach(), total.detach(), *torch.autograd.grad(total, weight)])
    for mine, book in zip(*found): assert_close(mine, book, rtol=1e-6, atol=1e-6)

def test_the_same_schedule_and_batches():
    for n in (1, 7, 3999, 4000, 4001, 10**6):
        assert transformer.paper_lr(n, 512) == pytest.approx(optimizer.paper_lr(n, 512))
    seqs = transformer.draw(9, held_out=True)
    for mine, book in zip(transformer.shifted(seqs), copy_batch(seqs)):
        assert torch.equal(mine, book)

def test_the_same_search(two):
    ours, theirs = (model.double() for model in two)
    for length in (3, 8):
        src = torch.randint(4, 8000, (1, length))
        [[best]] = search(theirs, src.tolist(), beam_size=4, alpha=0.6, max_extra=5)
        src = torch.cat([src, torch.tensor([[2]])], 1)
        ids, score = transformer.beam_search(ours, src, 4, 0.6, length + 5)
        assert ids == best.ids and score == pytest.approx(best.score, abs=1e-9)
        [[best]] = search(theirs, src[:, :-1].tolist(), beam_size=1, max_extra=5)
        assert transformer.greedy(ours, src, length + 5) == [best.ids]
    with pytest.raises(AssertionError, match='one sentence at a time, not 2'):
        transformer.beam_search(ours, src.expand(2, -1), 4, 0.6, 1)

def test_a_search_ends_early(two, monkeypatch): # and decodes its hypotheses together
    model, calls = two[0], []
    decode = model.decode
    monkeypatch.setattr(model, 'decode', lambda *args: calls.append(1) or decode(*args))
    src = torch.tensor([[44, 1137, 307, 17, 2]]) # I love you.
    transformer.greedy(model, src, 50)
    transformer.beam_search(model, src, 4, 0.6, 50)
    assert len(calls) < 15

def test_masks_are_where_the_ids_are():
    model = transformer.Transformer(transformer.TransformerConfig(9, 8, 8)).to('meta')
    ids = torch.ones(2, 3, dtype=torch.int64, device='meta')
    assert model(ids, ids).shape == (2, 3, 9)

@pytest.mark.parametrize('old, new, said', [
    ('"sinusoidal"', '"rotary"', 'positions is rotary'),
    ('"format"', '"family": "Mine", "format"', 'family is Mine')])
def test_another_model_is_refused(old, new, said, tmp_path):
    config = (MODEL/'config.json').read_text('utf8').replace(old, new)
    (tmp_path/'config.json').write_text(config)
    with pytest.raises(AssertionError, match=said): transformer.load_model(tmp_path)

def test_it_translates_as_the_package_does(monkeypatch):
    text = 'Can I pay by credit card?'
    command = [sys.executable, 'transformer.py', 'translate', 'everyday-en-de', text]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == Translator(MODEL).translate([text])[0]
    for name, source, said in (('nowhere', text, 'no tokenizer'),
                               ('families/decoder', text, 'another model'),
                               ('everyday-en-de', 600 * 'dog ', '512 positions')):
        monkeypatch.setattr(sys, 'argv', [*command[1:3], name, source])
        with pytest.raises(SystemExit, match=rf'^.*{said}.*\Z'): # a line, and status 1
            runpy.run_path(str(ROOT/'transformer.py'), run_name='__main__')

def test_it_learns(capsys):
    "A tenth of the steps that `python transformer.py` takes"
    transformer.learn_to_copy(steps=100, n_test=20)
    first, last = capsys.readouterr().out.splitlines()[-1].split()[1:4:2]
    assert float(last) < 0.7 * float(first)
