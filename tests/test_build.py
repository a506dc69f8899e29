"Build it yourself: the grader gives the points, and the names that a mistake has"
import errno, json, math, os, re, resource, shutil, signal, subprocess, sys, time, types
from datetime import date
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from xml.etree import ElementTree
import nbformat, pytest, torch
from zipfile import ZipFile
from book import cells
from book_submission import write_book
from mistakes import MISTAKES
from repository import settings
from running import sample
from transformer_nb.copy_task import copy_model
from transformer_nb.support.core import InputError
from transformer_nb.decoding import beam_search
from transformer_nb.grading import (
    attention, checks, commands, decoding, process, translation)
from transformer_nb.grading.checks import Kit, MASKS, PROBES
from transformer_nb.grading.commands import (
    kit_file, points, tnb_check, tnb_class, tnb_start)
from transformer_nb.grading.naming import (
    _BATCH, _RANDOM, Outcome, _code, _differs, _double, _expected, explanations, observed,
    run_probe)
from transformer_nb.grading.properties import _changed, _changes, _relation
from transformer_nb.grading.process import _stand_ins, collect, right_before
from transformer_nb.grading.report import (
    Check, StageResult, _is_fixed, _of_parts_called, grade, judged, report)
from transformer_nb.grading.stages import STAGES, mistake_name, mistakes
from transformer_nb.translation import Translator

HERE = Path(__file__).parent
MODEL = str(HERE.parent/'nbs/models/multi30k-en-de')
KIT = Kit(model=MODEL)

@cache
def source(file): return (HERE/'submission'/file).read_text(encoding='utf8')

def changed(file, changes):
    text = source(file)
    for old, new in changes:
        assert old in text, f'{file} has no {old!r}'
        text = text.replace(old, new)
    return text

def loaded(stage, text, kit):
    "A submission's file as a module, in this process, after right earlier stages"
    module = types.ModuleType(stage.module)
    config = types.ModuleType('config')
    exec(kit_file('config.py', kit), vars(config))
    before = dict(sys.modules)
    sys.modules.update(_stand_ins(stage, kit), config=config)
    try:
        with _double(): exec(compile(text, stage.file, 'exec'), vars(module))
    finally:
        for name in {*sys.modules} - {*before}: del sys.modules[name]
        sys.modules.update(before)
    return module

def graded(stage, text, kit=KIT, probes=None):
    probes = probes or [p for p in stage.probes if p.points and not p.must]
    code = loaded(stage, text, kit)
    found = {}
    for probe in probes:
        with right_before(probe.part, code, kit): found[probe] = run_probe(probe, code, kit)
    return judged(stage, found, kit)

def names(result): return [remark.partition(':')[0] for remark in result.remarks]

def wrong_steps(stage, name):
    [steps] = [m for part in stage.parts for m in mistakes(part) if mistake_name(m) == name]
    return steps

SAID = {'no scale': ['gradient of the queries at sentence ', 'weights at sentence '],
        'causal mask upper': ['causal_mask(', ' at query 0, key '],
        'wrong base': [' at position '],
        'default betas': ['β₂ should be 0.98, and is 0.999'],
        'width missing': ['paper_lr(1, 512) should be '],
        'no end': ['source of sequence 0 should be ['],
        'steps from zero': ['learning rate of step 1 should be 0.04, and is 0.03'],
        'greedy keeps end': [', 2]'], 'no penalty': ['score of search '],
        'source without end': ['translation of "A man sleeps." should be Ein Mann '],
        'joins once': ['the symbols of '], 'rarest pair': ['the first 3 merges should be '],
        'final norm in encoder': ['not asked for: end.weight (', 'end.bias ('],
        'causal mask of wrong type': [') should be of True and False, and is of numbers',
                                      'are boolean, True where attention is allowed.'],
        'mask inverted': ['`scaled_dot_product_attention` reads the mask the wrong way'],
        'forward shifts': ['logits should have shape (2, 4, 20), and has (2, 3, 20)'],
        'last position only': ['gradients of all parameters: logits should have shape '],
        'embeddings too small': ['should be 1, and is 0.08'],
        'positions dropout in eval': ['✔ 1/1 the sum, in training mode', '`__init__`'],
        'dropout in eval': ['created in `forward` always drops'],
        'one layer repeated': ['for _ in range(N)', '] * N'],
        'empty row is mean': ['Set its weights to zero'],
        'no source gradient': ['size of the gradient of encoder.0.self_attention']}

WRONG = [(number, name) for number, named in MISTAKES.items() for name in named]

@pytest.mark.parametrize('number, name', sample(WRONG, 6), ids=[name for _, name in WRONG])
def test_a_mistake_loses_its_points_and_gets_its_name(number, name):
    stage = STAGES[number - 1]
    result = graded(stage, changed(stage.file, MISTAKES[number][name]))
    assert names(result) == [name], report(result)
    for words in SAID.get(name, []): assert words in report(result), report(result)
    assert not re.search(r'\w\[\d', report(result)), report(result) # places are words
    steps = wrong_steps(stage, name)
    part = next(part for part in stage.parts if issubclass(steps, part))
    lost = {c.probe for c in result.checks if c.message}
    assert lost == {c.probe for c in result.checks if c.probe.part is part
                    and _differs(c.probe, _expected(steps, c.probe, KIT), KIT)}

# What no class of the catalogue does

SEEN = [
    (2, [('self.value(source)', 'self.value(source).relu()')],
     'in its step `project`, its third result is after a ReLU'),
    (4, [('10000.0', '7000.0')], 'the base of your angles is 7000'),
    (6, [('step_num ** 0.5', 'step_num ** 0.6')],
     'the power of step_num after it is -0.6, and should be -0.5'),
    (6, [('label_smoothing / v', 'label_smoothing / v / 2')],
     'in its step `others`, its result is halved'),
    (7, [('n = (labels != 0).sum()', 'n = (labels != 0).sum() + 1')],
     'the sum is divided by 17'),
    (8, [('(5 + n)', '(4 + n)')], 'in `length_penalty`, `n` is reduced by 1'),
    (1, [('query, key) /', 'query, key * 3) /')],
     'the scores before the softmax are 3 times what they should be'),
    (11, [('masked_fill(~mask', 'masked_fill(mask')],
     'is NaN or infinite only at query'),
    (1, [('ids != 0', 'ids != 1')], 'padding_mask is True everywhere.'),
    (3, [('centered / torch', 'centered * torch')],
     'in its step `deviation`, its result is replaced by its reciprocal'),
    (4, [('x + self.pe[', 'self.pe[')], 'output should have shape ('),
    (5, [('self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))',
          'self.residuals[0](x, lambda y: y)')],
     '`self_attention` gives back what it gets'),
    (8, [('/ (5 + 1)', '/ (6 + 1)')], 'those of ((n + 5) / 7) to the power of alpha'),
    (10, [('merges.append(pair)', 'pass')], 'every list that comes back is empty'),
    (10, [('while i < len(symbols)', 'while i < symbols')], 'check ends with "TypeError'),
    (3, [('super().__init__()', 'pass')], 'Call `super().__init__()` first.'),
    (1, [('torch.softmax(scores, dim=-1)', 'torch.sigmoid(scores)')],
     'in its step `softmax`, a sigmoid stands in its place'),
    (1, [(' / math.sqrt(d_k)', ''), ('torch.softmax(scores, dim=-1)',
                                     'torch.softmax(scores, dim=-1) / math.sqrt(d_k)')],
     'those of each query should sum to 1, and sum to 0.3'),
    (1, [('if mask is not None:', 'if mask is not None and mask.dim() == 4:')],
     'some of your results are right, and those that are wrong (as in "'),
    (2, [('v = self.to_heads(self.value(source), self.d_v)',
          'v = self.value(source).reshape(x.size(0), self.n_heads, -1, self.d_v)')],
     'the values alone have the mistake "split without transpose"'),
    (3, [('(centered ** 2).mean', '(centered ** 2).amax')],
     'right but for a factor that is the same at every feature'),
    (3, [('eps=1e-5', 'eps=1e-3')], 'the eps in the numbers of a new LayerNorm is 0.001'),
    (3, [('normal * self.weight + self.bias', '(normal + self.bias) * self.weight')],
     'right but for a summand of its own for each feature'),
    (3, [('keepdim=True)\n        normal', 'keepdim=True).detach()\n        normal')],
     'in its step `variance`, its result is cut from the graph'),
    (4, [('self.pe[:x.size(1)]', 'self.pe[-x.size(1):]')],
     'the rows of the table that you add are 31, 32,'),
    (4, [('return self.weight[ids]', 'return nn.functional.dropout(self.weight, 0.1, '
          'self.training)[ids]')],
     'train() and eval() give different numbers, but there is no dropout inside'),
    (4, [('torch.cos(position * div)', 'torch.cos(position / div)')],
     'is wrong only at feature 3, 5, 7'),
    (5, [('x = self.residuals[1](x, self.feed_forward)\n        return x\n\nclass Dec',
          'x = self.residuals[1](x, self.feed_forward)\n'
          '        x = self.residuals[1](x, self.feed_forward)\n'
          '        return x\n\nclass Dec')], 'in its step `transform`, it is called twice')]

@pytest.mark.parametrize('number, changes, words', sample(SEEN, 4))
def test_what_has_no_name_is_told_as_it_is_seen(number, changes, words):
    stage = STAGES[number - 1]
    text = report(graded(stage, changed(stage.file, changes)))
    assert words in text, text

def test_a_crash_is_explained_and_only_its_checks_are_named():
    text = report(graded(STAGES[4], changed('model.py', [
        ('cross_attention(y, memory, memory_mask)',
         'cross_attention(y, memory, mask[:2])')])))
    assert '(model.py, line 33)": a decoder layer' in text, text

@pytest.mark.parametrize('x, y', [([3e-9, 6e-9, 9e-9], [1e-9, 2e-9, 4e-9]),
                                  ([1., 2., 3.], [1., 2., 4.])])
def test_small_numbers_are_not_taken_for_equal(x, y):
    assert _relation('rate', *(torch.tensor(z, dtype=torch.float64) for z in (x, y))) == ''

@pytest.mark.parametrize('turn, words', [
    (lambda y: 3*y, '3 times'), (lambda y: y/3**0.5, '1 over the root of 3'),
    (lambda y: y / math.log(2), '1 over the logarithm of 2'), (lambda y: y + 2, '+2 from'),
    (lambda y: y.mT, 'transposed'),
    (lambda y: y[:, [1, 0, 3, 2]], 'another order along the axis "column"'),
    (lambda y: y[:, :1].expand(4, 4), 'the same at every column'),
    (lambda y: torch.where(y == y[1], torch.nan, y), 'NaN or infinite only at row 1'),
    (lambda y: y + torch.eye(4)*(y == y[0, 0]), 'wrong only at row 0'),
    (lambda y: y[..., None], 'in the shape (4, 4, 1), not (4, 4)'),
    (lambda y: y.exp() + y, ''), (lambda y: y > 9, 'False everywhere'),
    (lambda y: y.flatten(), 'in the shape (16,), not (4, 4)')])
def test_a_relation_is_told(turn, words):
    y = torch.randn(4, 4, dtype=torch.float64)
    said = _relation('the table', turn(y), y, 'row column')
    assert words in said and bool(words) == bool(said), said

@pytest.mark.parametrize('number, changes, words', [
    (3, ('hidden = torch.clamp(self.inner(x), min=0)',
         'hidden = self.inner(x).relu() + 0.1*torch.rand(self.inner(x).shape)'),
     'what you return is random: the same inputs and weights give other numbers with'),
    (3, ('x.mean(dim=-1, keepdim=True)', 'x.mean()'),
     'what comes for a sentence depends on the other sentences of the batch'),
    (1, ('weights = torch.nan_to_num(weights, nan=0.0)',
         'weights = weights / weights.sum(0, keepdim=True)'),
     'what comes for a sentence depends on the other sentences of the batch'),
    (3, ('normal * self.weight', 'normal * normal'), '')])
def test_what_the_seed_and_the_batch_change_is_told(number, changes, words, tmp_path):
    "Two questions that need a second run; the last file is wrong, but neither of them"
    stage = STAGES[number - 1]
    write(tmp_path, **{stage.module: changed(stage.file, [changes])})
    text = report(grade(tmp_path, stage, KIT, 10))
    assert words in text, text
    if not words: assert 'is random' not in text and 'of the batch' not in text, text

# What a check sees while a submission runs: calls, gradients, hypotheses

LOSS = 'return smoothed_loss(logits, labels, label_smoothing=0.0) / n'
STEP = 'optimizer.step()'

WATCHED = [
    (6, [('=0.1):', '=0.1):\n    labels = torch.cat([labels[:, 1:], 0*labels[:, :1]], 1)')],
     'compared with the label of the next position, not with its label'),
    (6, [('return loss.sum()', 'return (loss * labels[labels != 0]).sum()')],
     'multiplied by its id'),
    (7, [('([*real, 2, *padding], [1', '([1, *real, 2, *padding][:-1], [1')],
     'source is wrong in every row: without its padding, row 0 should be'),
    (7, [(', [*real, 2, *padding]))', ', [*real, *padding, 0]))')],
     'labels lacks its last id'),
    (7, [('model(src, tgt)', 'model(src, torch.ones_like(tgt))')],
     'the target that the model gets is `<s>` everywhere'),
    (7, [('model(src, tgt)', 'model(src.flip(1), tgt)')],
     'the source that the model gets stands in reverse order'),
    (7, [(LOSS, 'losses = [smoothed_loss(x[None], y[None], 0.) / (y != 0).sum() '
          'for x, y in zip(logits, labels)]\n    return sum(losses) / len(losses)')],
     "as in a mean of the sentences' means; every token should"),
    (7, [('n = (labels', 'labels = labels.where(labels != 2, 0)\n    n = (labels')],
     'no label `</s>` counts in the loss'),
    (7, [('smoothed_loss(logits, labels', 'smoothed_loss(logits[:, :-1], labels[:, :-1]')],
     ' labels does not count in the loss'),
    (7, [('(labels != 0).sum()', 'labels.size(1)')],
     'should count 0.0625: the sum is divided by the 7 positions of a row'),
    (7, [('label_smoothing=0.0', 'label_smoothing=0.2')],
     'that is spread over the vocabulary is 0.2, and should be 0'),
    (7, [('smoothed_loss(logits, labels,', 'smoothed_loss(logits, tgt,')],
     'each position is compared with the target, not with its label'),
    (7, [('smoothed_loss(logits, ', 'smoothed_loss(logits.detach(), ')],
     'the loss has no gradient: something was cut from the graph'),
    (7, [(STEP, f'{STEP}; return [float(loss)]')],
     'of 3 batches the model gets only 1: batch 2, 3 is not trained on'),
    (7, [('enumerate(batches,', 'enumerate(reversed(list(batches)),')],
     'the model gets the batches in the order 3, 2, 1'),
    (7, [('return losses', 'return sum(losses)/len(losses)')],
     'train returned a float; a list of losses is asked for'),
    (7, [('losses.append', 'model.eval(); losses.append')],
     'in step 2, 3 the model is in evaluation mode'),
    (7, [('loss.backward()', 'loss.backward(retain_graph=True); loss.backward()')],
     '`backward` is called 6 times for 3 batches'),
    (7, [(STEP, f'if step == 2: {STEP}')],
     'for 3 batches, the optimizer takes a step once'),
    (7, [('lr_of(step)', 'lr_of(1)')], '`lr_of` is called with 1, and should be with 1, 2'),
    (7, [('lr_of(step)', 'lr_of(step) * 2')],
     'in step 1 the learning rate of the optimizer is 0.08, and lr_of(1) is 0.04'),
    (7, [('loss.backward()', '(loss * 10).backward()')],
     'are those of the mean loss times 10'),
    (7, [(STEP, f'torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5); {STEP}')],
     'the gradients are all given the length 0.5 before the step'),
    (7, [(STEP, f'torch.nn.utils.clip_grad_value_(model.parameters(), 0.05); {STEP}')],
     'every gradient is cut off at 0.05'),
    (7, [(STEP, f'[p.grad.add_(p.data, alpha=0.1) for p in model.parameters()]; {STEP}')],
     'in step 1, 0.1 times the weights are added to the gradients'),
    (7, [(STEP, f'model.embedding.weight.grad = None; {STEP}')],
     'in step 1 there is no gradient of embedding.weight'),
    (7, [(STEP, f'{STEP}; [p.data.mul_(0.99) for p in model.parameters()]')],
     'after step 1 the weights are changed by something else than the step'),
    (7, [('losses.append(float(loss))', 'losses.append(float(loss)); model.eval(); '
          'copy_loss(model, seqs)')], 'in step 2, 3 the model is in evaluation mode'),
    (7, [('losses.append(float(loss))', 'losses.append(float(copy_loss(model, seqs)))')],
     'that of its batch, before the step, is'),
    (7, [('model(src, tgt)', 'model(src, tgt[:, :-1])'),
         ('= (labels != 0)', ', labels = 1, labels[:, 1:]\n    n = (labels != 0)')],
     'the target that the model gets lacks its last column'),
    (7, [('    losses = []', '    losses, base = [], 0.\n    lr = lr_of\n'
          '    lr_of = lambda step: base * lr(step)')],
     'or what `LambdaLR` sets is multiplied by it'),
    (7, [('for group in optimizer.param_groups:\n            group',
          'optimizer.param_groups[0]')],
     'in step 1 the learning rate of the parameter group 1 is 0, and lr_of(1) is 0.04'),
    (7, [('losses.append(float(loss))', 'losses.append(round(float(loss), 2))')],
     'the losses you return are rounded'),
    (8, [('logits[:, -1, :].argmax(dim=-1)', 'logits[:, -1, :].topk(2).indices[:, 1]')],
     'every token that you choose is the second likeliest'),
    (8, [('max(done)', 'min(done)')], 'returns another one than the best'),
    (8, [('[i for i in ids if i > 2], score', '[i for i in ids if i > 2], -score')],
     'the score of the ids that you return is that with the other sign'),
    (8, [('candidates.sort(reverse=True)', 'pass')], ', and in the right search 1, '),
    (8, [('candidates[:beam_size]', 'candidates[:max(1, beam_size - len(done))]')],
     'extends 2 hypotheses, the right search 3'),
    (8, [('done.append((total /', 'done.append(((total - logp[2].item()) /')],
     'that without the log-probability of `</s>`'),
    (10, [('p for p in counts if', 'p for p in [*counts][::-1] if'), ('min(p', 'next(p')],
     'are as frequent, and come first by `<`'),
    (9, [('tokenizer.encode(text) + [2]', 'tokenizer.encode(text.lower()) + [2]')],
     'for "A man sleeps." the tokenizer gets "a man sleeps."'),
    (9, [('tokenizer.encode(text) + [2]', '[1] + tokenizer.encode(text) + [2]')],
     'the source that the model gets begins with `<s>`, which does not belong there'),
    (9, [(".replace('.layers.', '.')", '')],
     '.weight and 79 more of your model still have their first values, which are'),
    (10, [('counts[pair] += n', 'counts[pair] += n + 2*len(w)')], ' times; "'),
    (10, [('    out, i = [], 0\n', "    return ' '.join(symbols).replace(' '.join(pair), "
           "''.join(pair)).split()\n    out, i = [], 0\n")],
     '"banana" should be cut into b an ana, and comes back as b anan a'),
    (10, [('merges.append(pair)', 'merges.append(pair[::-1])')],
     'which never stand side by side there'),
    (10, [('for pair in merges:', 'for pair in merges[::-1]:')], 'by the merges a+n, an+a'),
    (11, [('-2 * i / d', '-i / d')],
     'features 2 and 3 are turned by 0.3162 at position 1, and should be by 0.1'),
    (11, [('out[..., ::2] =', 'out[..., :d//2] ='),
          ('out[..., 1::2] =', 'out[..., d//2:] =')],
     'feature 1 comes back as feature 4'),
    (11, [('torch.arange(t).double()', 'torch.arange(x.size(1)).double()'),
          ('    a, b =', '    angle = angle[:, None]\n    a, b =')],
     'two heads with the same vectors are turned by different angles'),
    (11, [('value.unsqueeze(2)', 'value.flip(1).unsqueeze(2)')],
     '6 query heads read the values of heads 1, 1, 1, 0, 0, 0, and should read those of 0'),
    (7, [('        optimizer.zero_grad()\n',
          "        for p in optimizer.param_groups[0]['params']: p.grad = None\n")],
     'are still there for 15 of 31 parameters, as encoder'),
    (7, [('        optimizer.zero_grad()\n',
          '        if step % 2 == 0: optimizer.zero_grad()\n')],
     'in step 3 the gradients of step 2 are still there, and are added'),
    (7, [('        optimizer.step()\n', '        torch.nn.utils.clip_grad_value_('
          'model.parameters(), 0.5)\n        optimizer.step()\n')],
     'every gradient is cut off at 0.5'),
    (7, [('    rows = []\n', '    rows = []\n    last = seqs.tolist()\n    seqs[:] = 0\n'),
         ('in seqs.tolist()', 'in last')], 'is changed in place, as by `+=`'),
    (6, [('labels != 0', 'labels > 1')], 'no label `<s>` counts in the loss'),
    (8, [('    memory = model.encode(src)\n    tgt', "    if not hasattr(model, 'last'):\n"
          '        model.last = model.encode(src)\n    memory = model.last\n    tgt'),
         ('model.last', 'model.own_memory'), ("'last'", "'own_memory'")],
     '`encode` is not called'),
    (8, [('        outputs.append(output)', '        if output: outputs.append(output)')],
     'outputs come for 12 sentences'),
    (2, [('        k = self.to_heads', "        if not hasattr(self, 'kept'):\n"
          '            self.kept = self.to_heads(self.key(source), self.d_k)\n'
          '        k = self.kept\n        0 and self.to_heads')],
     'something is kept from one call to the next'),
    (1, [('    not_pad = ids != 0\n', '    n = (ids == 0).int().argmax(1)[:, None]\n'
          '    not_pad = torch.arange(ids.size(1)) < n\n')],
     'of rows without padding it hides something'),
    (3, [('LayerNorm(d_model)', 'LayerNorm(d_model, dropout)')],
     'the eps of its norm is 0 where dropout is 0, and 0.5 where dropout is 0.5'),
    (3, [('sublayer(x, *args, **kwargs)', 'sublayer(x, **kwargs)')],
     'an argument by position does not reach the sub-layer'),
    (4, [('torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))',
          '10000.0 ** -torch.linspace(0, 1, d_model // 2)')],
     'from 0 to 1 inclusive, and should grow by 0.25'),
    (6, [('    decay = 1', '    if step_num > warmup_steps:\n        return ((step_num - '
          'warmup_steps) * d_model)**-0.5\n    decay = 1')],
     'the rate of step_num is that of step_num -4000'),
    (11, [('    scores = q @', '    n = h // groups\n    q = q.reshape(b, groups, n*t, d)\n'
           '    scores = q @'),
          ('mask = mask.expand(b, h, t, key.size(2))', 'mask = mask.repeat_interleave(n, '
           '0) if mask.dim() == 2 else mask.reshape(b, groups, n*t, -1)'),
          ('mask.reshape(scores.shape)', 'mask'),
          ('key.unsqueeze(2)', 'key'), ('value.unsqueeze(2)', 'value')],
     'query 1 of head 0 reads the keys 0, and should read 0, 1'),
    (8, [('torch.log_softmax', 'torch.softmax'), ('[(0.0, [1])]', '[(1.0, [1])]'),
         ('total + value', 'total * value'),
         ('done.append((total /', 'done.append((math.log(total) /'),
         ('done = [(total /', 'done = [(math.log(total or 1e-400) /'),
         ('import torch\n', 'import math, torch\n')],
     'Of many tokens, the product of the probabilities is 0 in a computer'),
    (8, [('candidates[:beam_size]', 'candidates[:2*beam_size]'),
         ('min(beam_size,', 'min(2*beam_size,'),
         ('            else:\n', '            elif len(beam) < beam_size:\n')],
     'is only number 2 of all continuations of its last step'),
    (8, [('candidates.append((total + value, ', 'candidates.append(((total + value) / '
          'length_penalty(len(ids), alpha), '),
         ('(total / length_penalty(len(ids) - 1, alpha), ids)', '(total, ids)')],
     'divided by penalties again and again (it is divided in every step)'),
    (9, [('def translate(model, tokenizer, text):', 'KEPT = {}\ndef translate(model, '
          'tokenizer, text):\n    if text in KEPT: return KEPT[text]'),
         ('return tokenizer.decode(best)', 'KEPT[text] = tokenizer.decode(best)\n'
          '    return KEPT[text]')], 'something is kept from one call to the next'),
    (9, [('tokenizer.encode(text) + [2]', 'tokenizer.encode(text); ids.append(2)'),
         ('len(ids) - 1', 'len(ids)')],
     'takes 55 steps, and should take 54; the list that `encode` gave has become longer'),
    (9, [('len(ids) - 1', 'len(text.split())')], 'takes 52 steps, and should take 54'),
    (7, [('losses.append(float(loss))', 'losses.append(float(loss))\n        '
          'if step % 25 == 0:\n            model.eval(); copy_loss(model, seqs)')],
     'from step 26 on the model is in evaluation mode when it is called'),
    (7, [('    losses = []\n', '    losses, n = [], sum(1 for _ in batches)\n')],
     'all batches are taken before the model is called, and the loop finds none'),
    (7, [("lr_of(step)\n", "lr_of(min(step, 100))\n")],
     '`lr_of` is called with 1 to 100 alone, and should be with 1 to 130'),
    (3, [('out = self.dropout(out)', "if getattr(self, 'kept', x[:0]).shape != x.shape:\n"
          '            self.kept = self.dropout(torch.ones_like(out))\n'
          '        out = out * self.kept')],
     'two calls in training mode give equal numbers'),
    (4, [('        x = x + self.pe', '        if x.size(1) == 1:\n'
          "            self.n = getattr(self, 'n', -1) + 1\n"
          '            return self.dropout(x + self.pe[self.n])\n        x = x + self.pe')],
     'something is kept from one call to the next'),
    (10, [('if not counts:', 'if not counts or max(counts.values()) < 2:')],
     'the list ends after 1 of 8 merges, though "x" and "y" still stand side by side'),
    (10, [('merge(s, pair) for w',
           "' '.join(s).replace(' '.join(pair), ''.join(pair)).split() for w")],
     'the list ends after 2 of 8 merges, though "ca" and "b" still stand side by side')]

# The searches take seconds
@pytest.mark.parametrize('number, changes, words', sample(WATCHED, 16))
def test_what_is_done_is_told_while_it_is_done(number, changes, words):
    stage = STAGES[number - 1]
    text = report(graded(stage, changed(stage.file, changes)))
    assert words in text, text

def test_a_second_call_that_learns_nothing_costs_no_points():
    "The training accuracy by a call of its own, in training mode, which draws dropout anew"
    stage, told = STAGES[6], 'losses.append(float(loss))'
    more = 'src, tgt, labels = shifted(seqs); model(src, tgt).argmax(-1) == labels'
    result = graded(stage, changed(stage.file, [(told, f'{told}\n        {more}')]))
    assert not result.remarks, report(result)

def test_a_loop_that_ends_early_is_told():
    stage, told = STAGES[6], 'losses.append(float(loss))'
    text = changed(stage.file, [(told, f'{told}\n        if step == 5: break')])
    said = report(graded(stage, text, probes=[p for p in stage.probes if p.points]))
    assert 'the loop ends after 5 of 130 batches' in said, said

def test_a_mask_of_the_first_sentence_is_not_taken_for_none():
    for number, end in (5, ''), (8, '    m'):
        stage, line = STAGES[number - 1], f'mask = padding_mask(src)\n{end}'
        text = changed(stage.file, [(line, line.replace('(src)', '(src[:1])'))])
        said = report(graded(stage, text))
        assert 'sees padding' not in said and '\u2718' in said, said

def test_a_hypothesis_that_is_extended_twice_is_told():
    said = decoding._step_in_words([(1, 4), (1, 4)], [(1, 4), (1, 5)])
    assert said == 'step 2 extends one hypothesis more than once'

# Sentences that misled a student who saw this for the first time

MISLED = [
    (2, [('q = self.to_heads(self.query(x), self.d_k)',
          'q = self.query(x).reshape(x.size(0), self.n_heads, -1, self.d_k)')],
     [], ['of the batch']),
    (3, [('sublayer(x, *args, **kwargs)', 'sublayer(x)'),
         ('total = x + out', 'x += out; total = x')],
     ['is changed in place, as by `+=`'], ['is random', 'of the batch']),
    (3, [('return self.norm(total)', 'return x + self.norm(total)')], [], ['is random']),
    (2, [('source = x if', 'length = memory.shape[1]\n        source = x if')],
     ['Something on that line is None: an argument that was not passed'],
     ['A function ends without']),
    (2, [('out.permute(0, 2, 1, 3).reshape(batch', 'out.reshape(7, batch')],
     ['write beside each number which axis it is'], ['no two sizes']),
    (2, [(', bias=False', ''), ('nn.Linear(n_heads * d_v, d_model',
                                'nn.Linear(d_v, d_model')],
     ['output.weight should have shape (', 'not asked for: query.bias ('], []),
    (1, [('value), weights', "value), torch.einsum('bhts,bhsd->bhtd', weights, value)")],
     [], ['weights first']),
    (1, [('weights, value), weights', 'weights.detach(), value), weights')],
     ['there is no gradient of the queries: something was cut'], ['without `return`']),
    (1, [("float('-inf')", '-100.')], [], ['should sum to 1, and sum to 1']),
    (2, [('self.query(x)', 'self.query(source)')],
     ['output should have shape ('], ['before that line']),
    (3, [('out = self.dropout(out)', 'out = self.dropout(self.norm(out))'),
         ('return self.norm(total)', 'return total')],
     ['share of the output below the mean of its row'], ['share that is dropped']),
    (4, [('self.dropout(x)', 'self.dropout(self.dropout(x))')],
     ['in its step `drop`, it is called twice'], ['is doubled']),
    (4, [('x = x + self.pe[:x.size(1)]', 'x = self.dropout(x) + self.dropout('
          'self.pe[:x.size(1)].expand(x.shape))'), ('return self.dropout(x)', 'return x')],
     ['share of zeros should be 0.25, and is 0.0625'], ['halved', 'no dropout']),
    (4, [('nn.Dropout(dropout)', 'nn.Dropout(0.1)')],
     ['in `__init__`, `dropout` is always 0.1, whatever is passed'], ['no dropout']),
    (4, [('torch.cos(position * div)', 'torch.cos((position + 1) * div)')],
     ['is wrong only at every odd feature'], ['of its own for each']),
    (3, [('out = sublayer(x, *args, **kwargs)',
          'out = sublayer(sublayer(x, *args, **kwargs), *args, **kwargs)')],
     ['its first input is not that of the right version, at call 1 of `LayerNorm` ('],
     ['what the parts before it get']),
    (6, [('model.parameters()', '[p for p in model.parameters() if p.dim() > 1]')],
     ['number of parameters that it moves should be 2, and is 1'], ['sinusoids']),
    (6, [('decay = 1', 'step_num = max(step_num - 1, 1)\n    decay = 1')],
     ['the power of step_num from step 1 to 10 is 0.954, and should be 1.'], ['is -0.5']),
    (6, [('eps=1e-9)', 'eps=1e-9), None')],
     ['make_adam returned a tuple of 2 results; one optimizer is asked for'],
     ['has no attribute']),
    (6, [('torch.log_softmax(logits, dim=-1)',
          '(torch.softmax(logits, dim=-1) + 1e-9).log()')],
     ['only one of your 6 numbers and tensors is wrong: loss of logits in the thousands'],
     ['none of the']),
    (6, [('return loss.sum()', 'return loss.sum() * (labels != 0).sum() / labels.numel()')],
     [], ['right to four digits']),
    (4, [('return self.weight[ids] * math',
          'return nn.functional.embedding(ids, self.weight, padding_idx=1) * math')],
     ['gradient of the rows of `<s>` and `</s>` at '], [])]

@pytest.mark.parametrize('number, changes, words, never', sample(MISLED, 4))
def test_nothing_misleads(number, changes, words, never):
    text = report(watched(STAGES[number - 1], changed(STAGES[number - 1].file, changes)))
    for said in words: assert said in text, text
    for said in never: assert said not in text, text

def test_a_layer_that_leaves_no_trace_is_told():
    call = 'layer(x, memory, mask, memory_mask)'
    change = f'x = {call}', call
    [probe] = [p for p in STAGES[4].probes if p.title == 'the logits of one sentence']
    code = loaded(STAGES[4], changed('model.py', [change]), KIT)
    with right_before(probe.part, code, KIT): found = {probe: observed(probe, code, KIT)}
    said = _of_parts_called([probe], found, KIT)
    assert 'input is that of call 1 once more, at call 2 of `DecoderLayer`' in said

def test_no_question_takes_minutes_and_gigabytes():
    "A beam of -3 keeps all hypotheses but three: it was tried for every wrong search"
    [search] = [part for part in STAGES[7].parts if 'beam_search' in part.names]
    title = 'a limit that comes before the end'
    [probe] = [p for p in STAGES[7].probes if p.title == title]
    said = '`beam_size` is with the other sign'
    [change] = [c for c in _changes(search) if (c.name, c.said) == ('beam_search', said)]
    assert 'below 0' in _expected(_changed(search, change), probe, KIT).error

def watched(stage, text):
    "As `graded`, with a second run: what depends on the seed or the batch?"
    code, found = loaded(stage, text, KIT), {}
    for probe in [p for p in stage.probes if p.points and not p.must]:
        with right_before(probe.part, code, KIT): found[probe] = observed(probe, code, KIT)
    return judged(stage, found, KIT)

@pytest.mark.parametrize('stage', STAGES, ids=[stage.file for stage in STAGES])
def test_what_is_right_is_not_said_to_depend_on_seed_or_batch(stage):
    for probe in stage.probes:
        if probe.must or not probe.points or stage.number == 9: continue
        seen = observed(probe, _code(probe.part, KIT), KIT)
        assert not seen.error and _BATCH not in seen.values, probe.title
        assert _RANDOM not in seen.values or not _is_fixed(probe, KIT), probe.title

def test_no_warning_of_pytorch_stands_above_a_report(recwarn):
    "The grader tries sizes of 0, for which PyTorch warns"
    text = changed('multihead.py', [('self.query(x)', 'self.query(x) * 1.5 + x.mean()')])
    graded(STAGES[1], text)
    assert not [str(w.message) for w in recwarn if 'zero-element' in str(w.message)]

# What everybody copies: our own code, in the conventions of four well-known ones

STYLES = {
    'annotated/attention.py': ['empty row is mean', 'padding mask without heads',
                               'causal_mask'],
    'annotated/multihead.py': ['projections have bias'],
    'annotated/layers.py': ['feed forward dropout', 'norm of annotated', 'pre norm'],
    'annotated/optimizer.py': ['smoothing of annotated'],
    'bentrevett/attention.py': ['empty row is mean'],
    'bentrevett/layers.py': ['feed forward dropout'],
    'd2l/attention.py': ['empty row is mean'],
    'd2l/multihead.py': [], 'd2l/layers.py': [],
    'hyunwoongko/attention.py': ['empty row is mean'],
    'hyunwoongko/layers.py': ['feed forward dropout', 'eps default tiny']}

@pytest.mark.parametrize('file', STYLES)
def test_what_everybody_copies_is_right_or_named(file):
    [stage] = [stage for stage in STAGES if stage.file == Path(file).name]
    result = graded(stage, source(f'styles/{file}'))
    assert names(result) == STYLES[file], report(result)
    assert bool(result.remarks) == (result.points < stage.points)
    assert 'none of the' not in report(result)

# Two mistakes at once

PAIRS = {1: [('no scale', 'mask inverted'), ('softmax over queries', 'mask ignored'),
             ('scale by dk', 'empty row is mean'), ('scale by dv', 'weights first'),
             ('mask after softmax', 'causal mask peeks'), ('no scale', 'padding mask flat'),
             ('scale multiplies', 'mask is zero'), ('returns scores', 'scale by keys')],
         2: [('merge without transpose', 'scale by d model'), ('no output projection',
             'values from x'), ('heads mask ignored', 'keys by query matrix'),
             ('memory ignored', 'merge interleaved'),
             ('split interleaved', 'heads unscaled'),
             ('split interleaved', 'merge interleaved')],
         3: [('variance unbiased', 'bias unused'), ('eps outside', 'no dropout'),
             ('gelu', 'pre norm'), ('no residual', 'dropout keeps p'),
             ('mean kept', 'eps missing'), ('relu last', 'norm over positions')],
         4: [('no root d', 'logits scaled'), ('sines then cosines', 'wrong base'),
             ('positions from one', 'exponent halved'), ('times d', 'positions scaled'),
             ('sine cosine exchanged', 'positions no dropout')],
         5: [('final norms', 'embedding starts anew'),
             ('encoder mask lost', 'memory mask lost'), ('no source positions',
             'model returns probabilities'), ('encoder skipped', 'no causal mask')],
         6: [('larger curve', 'width missing'), ('not smoothed', 'padding in loss'),
             ('default eps', 'loss is mean'), ('softmax twice', 'shares exchanged')],
         7: [('no start', 'no end'), ('divided by all', 'copy smoothed'),
             ('gradients kept', 'steps from zero'), ('rate too late', 'trains in eval')],
         8: [('greedy keeps end', 'greedy starts with end'),
             ('no penalty', 'beam keeps end'),
             ('penalty without end', 'first end wins'), ('penalty unscaled',
             'nothing without end')]}
TWO = [(number, *pair) for number, pairs in PAIRS.items() for pair in pairs]

@pytest.mark.parametrize('number, a, b', sample(TWO, 14), ids=[
    f'{a} + {b}' for _, a, b in TWO])
def test_two_mistakes_get_no_false_name(number, a, b):
    stage, named = STAGES[number - 1], MISTAKES[number]
    result = graded(stage, changed(stage.file, named[a] + named[b]))
    assert result.points < stage.points
    found = names(result)
    known = {mistake_name(m) for part in stage.parts for m in mistakes(part)}
    assert known & {*found} <= {a, b}, report(result)
    for remark in result.remarks: # said to be one of several: the right one is among them
        if remark.startswith('One of'): assert a in remark or b in remark, remark
    print(f'{a} + {b}: {found}')

def test_the_catalogue_is_told_apart():
    "Every mistake does harm, and its own name alone explains it"
    n = 0
    for stage in STAGES:
        if stage.number == 9: continue # its three load a model: see below
        for part in stage.parts:
            probes = [p for p in stage.probes if p.part is part and p.points and not p.must]
            for steps in mistakes(part):
                found = {p: _expected(steps, p, KIT) for p in probes}
                assert explanations(part, found, KIT) == [(steps,)], steps
                told = ' '.join(steps.__doc__.split())
                assert told.count('. ') >= 1 and told[-1] == '.', told
                n += 1
    assert n >= 190

@cache
def headings(chapter):
    texts = [cell.source for cell in cells(HERE.parent/f'nbs/{chapter}.ipynb', 'markdown')]
    return re.findall(r'^##+ (.*)$', '\n'.join(texts), re.M)

def test_every_section_is_there():
    for stage in STAGES:
        for steps in {*stage.parts}.union(*map(mistakes, stage.parts)):
            chapter, heading = steps.section
            assert heading in headings(chapter), f'{chapter}: {heading}'

# What is only another way to write it

OTHER = [
    (2, [('self.query', 'self.w_q'), ('self.key', 'self.w_k'), ('self.value', 'self.w_v'),
         ('self.output', 'self.w_o')]),
    (3, [('nn.Linear(d_model, d_ff)', 'nn.Conv1d(d_model, d_ff, 1)'),
         ('nn.Linear(d_ff, d_model)', 'nn.Conv1d(d_ff, d_model, 1)'),
         ('self.inner(x)', 'self.inner(x.mT)'),
         ('self.outer(hidden)', 'self.outer(hidden).mT'),
         ('self.weight', 'self.gain'), ('self.bias', 'self.shift')]),
    (4, [("self.register_buffer('pe', positional_encoding(max_len, d_model))",
          'self.pe = nn.Parameter(positional_encoding(max_len, d_model), False)')]),
    (5, [('self.self_attention', 'self.attn'), ('self.encoder', 'self.enc'),
         ('self.decoder', 'self.dec'), ('self.embedding', 'self.embed'),
         ('mask = causal_mask(tgt.size(1))',
          'mask = causal_mask(tgt.size(1)) & padding_mask(tgt)')])]

@pytest.mark.parametrize('number, changes', OTHER, ids=[str(number) for number, _ in OTHER])
def test_another_way_to_write_it_costs_nothing(number, changes):
    stage = STAGES[number - 1]
    result = graded(stage, changed(stage.file, changes))
    assert result.points == stage.points, report(result)

# What once got full points, though it is wrong

HOLES = [
    (1, [("mask == False, float('-inf'))", "mask == False, float('-inf'))\n"
          "        mask |= (~mask).all(-1, keepdim=True)")]),
    (2, [('source = x if', 'mask = mask[:, None] if mask is not None and mask.dim() == 3 '
          'else mask\n        source = x if')]),
    (4, [('math.sqrt(d_model))',
          'math.sqrt(d_model)); nn.init.uniform_(self.weight, -(3/d_model)**.5, '
          '(3/d_model)**.5)')]),
    (11, [('mask.reshape(scores.shape)', 'mask[:, None, :h // groups]')]),
    (2, [('x if memory is None else memory', 'x if memory is None else memory.detach()')]),
    (2, [('x if memory is None else memory', """x if memory is None else memory
        if memory is not None and not self.query(x).requires_grad:
            kept = self.__dict__.setdefault('kept', {})
            source = kept.setdefault(memory.shape, memory)""")]),
    (5, [('mask = causal_mask(tgt.size(1))', """n = tgt.size(1)
        self.n = max(vars(self).get('n', 0), n)
        mask = causal_mask(self.n)[-n:, :n]""")]),
    (1, [("scores = scores.masked_fill(mask == False, float('-inf'))",
          'scores = scores * mask'),
         ('weights = torch.nan_to_num(weights, nan=0.0)',
          'if mask is not None: weights = weights * mask; '
          'weights = weights / (weights.sum(-1, keepdim=True) + 1e-13)')]),
    (6, [('torch.log_softmax(logits, dim=-1)',
          'torch.log(torch.softmax(logits, dim=-1) + 1e-9)')]),
    (4, [('math.sqrt(d_model))',
          'math.sqrt(d_model)); nn.init.xavier_normal_(self.weight)')]),
    (4, [('positional_encoding(max_len, d_model))',
          'positional_encoding(5000, d_model))')]),
    (7, [('torch.tensor(column)', 'torch.tensor(column).float()')]),
    (7, [('model(src, tgt)', 'model(src.flip(1), tgt)')]),
    (7, [('smoothed_loss(logits, ', 'smoothed_loss(logits.detach(), ')]),
    (5, [('self.positions(self.embedding(tgt))',
          'self.positions(self.embedding(tgt).detach())')]),
    (9, [('4, 0.6', '1, 0.6')]), (9, [('4, 0.6', '5, 0.6')]), (9, [('4, 0.6', '4, 1.0')]),
    (9, [('- 1 + 50', '- 1')]), (9, [('- 1 + 50', '+ 50')]),
    (10, [('if not counts:\n            break', 'pass')]),
    (10, [("out, i = [], 0", "line = ' '.join(symbols).replace(' '.join(pair), "
           "''.join(pair)); return line.split(); out, i = [], 0")])]

@pytest.mark.parametrize('number, changes', sample(HOLES, 4))
def test_nothing_wrong_passes(number, changes):
    "Beside the mistakes with names: each of these had 100 of 100 points (2026)"
    stage = STAGES[number - 1]
    code = loaded(stage, changed(stage.file, changes), KIT)
    assert any(is_wrong(probe, code) for probe in stage.probes
               if probe.points and not probe.must)

def is_wrong(probe, code): # without asking why, which takes longer
    with right_before(probe.part, code, KIT):
        return _differs(probe, run_probe(probe, code, KIT), KIT)

def test_another_folder_is_no_empty_submission(tmp_path, capsys):
    "One above the kit, where a student stood: no chapter helps there"
    printed, status = check(capsys, tmp_path, stage=1)
    assert "has none of the kit's files" in printed.err and status == 2
    tnb_start(str(tmp_path/'kit'))
    printed, status = check(capsys, tmp_path, stage=1)
    assert f'do you mean {tmp_path}/kit?' in printed.err and status == 2
    printed, status = check(capsys, tmp_path/'kit', stage=1)
    assert 'not written yet' in printed.out and status == 0

def test_layers_may_stand_in_any_order():
    "Norms first, the decoder before the encoder, keys before queries, bias before gain"
    lines = source('model.py').splitlines()
    for i, line in enumerate(lines):
        if 'self.residuals = nn.ModuleList(' not in line: continue
        lines[i-2:i+2] = [*lines[i:i+2], *lines[i-2:i]] # before what stands above
    text = '\n'.join(lines)
    stacks = re.findall(r' +self\.(?:en|de)coder = nn\.ModuleList\(\n.*\n', text)
    text = text.replace(''.join(stacks), ''.join(reversed(stacks)))
    text = text.replace('self.residuals', 'self.norms').replace('self.encoder', 'self.enc')
    assert text.index('self.norms =') < text.index('self.feed_forward =')
    assert graded(STAGES[4], text).points == 16
    text = changed('multihead.py', [('self.query', 'self.a'), ('self.key', 'self.w')])
    first, second = re.findall(r' +self\.[aw] = .*\n', text)
    assert graded(STAGES[1], text.replace(first + second, second + first)).points == 12
    text = changed('layers.py', [('self.weight', 'self.gain'), ('self.bias', 'self.shift')])
    first, second = re.findall(r' +self\.(?:gain|shift) = .*\n', text)
    text = text.replace(first + second, second + first)
    assert graded(STAGES[2], text).points == 12

def test_an_order_that_is_right_alone_is_right_in_the_whole_model():
    "Shift before gain under names of one's own, in layers that the model takes"
    own = [('self.weight', 'self.gain'), ('self.bias', 'self.shift')]
    layers = changed('layers.py', own)
    first, second = re.findall(r' +self\.(?:gain|shift) = .*\n', layers)
    layers = layers.replace(first + second, second + first)
    model = changed('model.py', [('from layers import FeedForward, ResidualNorm\n', '')])
    assert graded(STAGES[4], layers + model).points == 16
    wrong = changed('model.py', [('from layers import FeedForward, ResidualNorm\n', ''),
                                 ('self.residuals[1](x, self.feed_forward)', 'x')])
    assert graded(STAGES[4], layers + wrong).points < 16

@pytest.mark.parametrize('number, change, words', sample([
    (1, ('value), weights', 'value)'), 'scaled_dot_product_attention returned one tensor'),
    (2, ('return self.output(out)', 'return self.output(out), out'),
     'MultiHeadAttention returned a tuple of 2 results; one tensor is asked for'),
    (2, ('self.query = nn.Linear(d_model, n_heads * d_k', 'self.query = nn.Linear(d_model, '
     'd_k'), 'query.weight should have shape ('),
    (8, ('argmax(dim=-1)', 'argmax(dim=last)'), "name 'last' is not defined")], 3))
def test_messages_are_in_the_students_words(number, change, words):
    stage = STAGES[number - 1]
    text = report(graded(stage, changed(stage.file, [change])))
    assert words in text, text
    assert 'isclose()' not in text and 'output is missing' not in text, text

def test_only_what_is_empty_is_not_written():
    "A module without `forward` raises the same error as an empty file"
    call = 'logits = torch.nn.Module()(tgt)\n        new'
    change = 'logits = model.decode(tgt, memory, mask)\n        new', call
    text = report(graded(STAGES[7], changed('decoding.py', [change])))
    assert 'not written yet' not in text, text

def test_the_usual_shift_is_right():
    "`<s>` and the labels without their last: what differs is behind the last label"
    usual = ('[1, *real, *padding]', '[1, *real, 2, *padding][:len(seq) + 1]')
    assert graded(STAGES[6], changed('training.py', [usual])).points == 7

@pytest.mark.parametrize('key', sample(['', 'a', 'b', 'c', 'd', 'e'], 3))
def test_no_key_decides(key):
    "Arguments handed on by name alone are wrong under every key; so are refilled places"
    kit = Kit(key=key)
    by_name = changed('layers.py', [('sublayer(x, *args, **', 'sublayer(x, **')])
    assert graded(STAGES[2], by_name, kit).points == 11
    refills = changed('decoding.py', MISTAKES[8]['beam refills'])
    assert names(graded(STAGES[7], refills, kit)) == ['beam refills']

# Whole submissions, in processes of their own

def write(folder, **files):
    for name, text in files.items(): (folder/f'{name}.py').write_text(text, encoding='utf8')
    return folder

@pytest.fixture(scope='module')
def right(tmp_path_factory):
    "A right submission, as a folder"
    folder = tmp_path_factory.mktemp('right')
    for path in (HERE/'submission').iterdir():
        if path.suffix == '.py': (folder/path.name).write_bytes(path.read_bytes())
    return folder

def check(capsys, folder, **options):
    "What tnb_check prints, and its exit status"
    status = 0
    try: tnb_check(str(folder), **options)
    except SystemExit as end: status = end.code or 0
    return capsys.readouterr(), status

def test_results_are_written_as_gradescope_reads_them(right, capsys, tmp_path):
    out = tmp_path/'results.json'
    for number, most in ((6, 10), (10, 5)):
        printed, _ = check(capsys, right, stage=number, json=str(out), key='secret')
        assert f': {most} of {most} points' in printed.out, printed.out
        results = json.loads(out.read_text(encoding='utf8'))
        assert results['score'] == most
        scores = sum(test['max_score'] for test in results['tests'])
        assert scores == (most if number < 10 else 0) # what is optional is extra

def test_what_is_graded_when_time_is_over_counts(tmp_path, monkeypatch, capsys):
    "Gradescope gives nothing to a grading that it ends: `run_autograder` ends it before"
    write(tmp_path, optimizer=source('optimizer.py'))
    out, grade = tmp_path/'results.json', commands.grade
    def run_out(folder, stage, *rest):
        if stage.number == 6: return grade(folder, stage, *rest)
        if stage.number > 6: raise KeyboardInterrupt
        return judged(stage, {p: Outcome({}, 'lost') for p in stage.probes})
    monkeypatch.setattr(commands, 'grade', run_out)
    ends = KeyboardInterrupt, SystemExit
    with pytest.raises(ends): tnb_check(str(tmp_path), json=str(out))
    results = json.loads(out.read_text(encoding='utf8'))
    assert results['score'] == 10 and results['output'].startswith('The time was over')
    assert 'timeout 570 tnb_check' in kit_file('run_autograder', KIT)
    monkeypatch.setattr(commands, 'grade', grade) # the same file, of a grading that ends
    assert '10 of 10' in check(capsys, tmp_path, stage=6, json=str(out))[0].out
    assert 'time was over' not in out.read_text(encoding='utf8')

def test_options_reach_the_checks(capsys, tmp_path):
    "The key fixes the numbers, the conventions are the teacher's, a week has two stages"
    write(tmp_path, attention=changed('attention.py', MISTAKES[1]['no scale']),
          multihead=source('multihead.py'))
    shown = [check(capsys, tmp_path, stage=1, key=key)[0].out for key in ('', 'a')]
    assert all('no scale: ' in out for out in shown) and shown[0] != shown[1]
    out = check(capsys, tmp_path, stage=1, masks='hidden')[0].out
    assert 'padding mask inverted: ' in out
    out = check(capsys, tmp_path, week=1)[0].out
    assert 'Stage 2' in out and 'Stage 3' not in out and 'total: 15 of 24 points' in out
    for wrong in (dict(week=6), dict(week=1, stage=1)):
        printed, status = check(capsys, tmp_path, **wrong)
        assert status == 2 and '--week' in printed.err

def test_a_class_is_graded_into_a_table(tmp_path, capsys):
    folder, out, reports = tmp_path/'class', tmp_path/'class.csv', tmp_path/'reports'
    work = {'ada': [], '=cmd': 'no scale', 'eve': 'no scale', 'zoe': 'mask inverted'}
    times_3 = [('query, key) /', 'query, key * 3) /')] # what is seen, without a name
    for name, mistake in (work | {'lea': 'times 3'}).items():
        (folder/name).mkdir(parents=True)
        changes = MISTAKES[1].get(mistake, times_3) if mistake else []
        write(folder/name, attention=changed('attention.py', changes))
    for other in ('.git', '__MACOSX', 'kim'): (folder/other).mkdir() # one is a student
    tnb_class(str(folder), str(out), reports=str(reports), stage=1)
    printed = capsys.readouterr().out
    assert 'ada: total: 12 of 12 points' in printed
    assert printed.endswith('mistakes:\n  2 of 6  no scale\n  1 of 6  mask inverted\n')
    rows = out.read_text(encoding='utf8').splitlines()
    assert rows[0] == 'student,1 attention.py,total,mistakes' and len(rows) == 7
    assert 'the scores before the softmax are 3 times what they should be' in rows[5]
    assert rows[4] == 'kim,0,0,attention.py is missing'
    assert rows[1] == "'=cmd,3,3,no scale" and rows[2] == 'ada,12,12,'
    assert '→ mask inverted: ' in (reports/'zoe.txt').read_text(encoding='utf8')
    for wrong in (dict(out=str(out)), dict(folder=str(folder/'ada'))):
        asked = dict(folder=str(folder), out=str(tmp_path/'new.csv')) | wrong
        with pytest.raises(SystemExit): tnb_class(**asked)
        assert capsys.readouterr().err.count('\n') == 1

def test_one_odd_folder_stops_no_class(tmp_path, capsys):
    "A damaged kit.json, files one folder below, a name that no terminal should see"
    folder, out = tmp_path/'class', tmp_path/'class.csv'
    for name in ('ada', 'ben', 'joe/week1', os.fsdecode(b'\x1b[2J\xff')):
        (folder/name).mkdir(parents=True)
        write(folder/name, attention=source('attention.py'))
    (folder/'ada/kit.json').write_text('[1, 2')
    tnb_class(str(folder), str(out), stage=1)
    printed = capsys.readouterr().out
    _, odd, ada, ben, joe = out.read_text(encoding='utf8').splitlines()
    assert odd == r'\x1b[2J\udcff,12,12,' and ben == 'ben,12,12,' and '\x1b' not in printed
    assert ada.startswith('ada,,,not graded: ') and 'kit.json is not' in ada
    assert joe.startswith('joe,,,') and f'do you mean {folder}/joe/week1?' in joe
    assert 'ada: not graded: ' in printed and 'No mistake that has a name.' in printed
    tnb_class(str(folder), str(tmp_path/'all.csv'), stage=1, layout='bhtd', masks='allowed')
    assert 'ada,12,12,' in (tmp_path/'all.csv').read_text(encoding='utf8').splitlines()
    for wrong in (dict(masks='soft'), dict(stage=9, model='nowhere')):
        with pytest.raises(SystemExit): tnb_class(str(folder), str(tmp_path/'new'), **wrong)
        assert capsys.readouterr().err.count('\n') == 1

def test_a_class_without_the_model_leaves_its_stage_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(commands, '_model_folder', lambda model: '')
    monkeypatch.setattr(commands, 'grade', lambda folder, stage, *rest: judged(
        stage, {p: Outcome({}, 'lost') for p in stage.probes}))
    for name in ('ada', 'ben'): write_one(tmp_path/'class'/name)
    tnb_class(str(tmp_path/'class'), str(tmp_path/'all.csv'))
    printed = capsys.readouterr().out
    assert printed.count('Stage 9 is not graded') == 1 and '0 of 94 points' in printed
    with pytest.raises(SystemExit): tnb_class(str(tmp_path/'class'), 'new.csv', week=5)
    assert '--model is missing' in capsys.readouterr().err and not Path('new.csv').exists()

def write_one(folder):
    folder.mkdir(parents=True)
    write(folder, attention=source('attention.py'))

def test_no_cell_of_a_table_is_a_formula():
    row = dict(student='=a', total=3, mistakes="=HYPERLINK('x')")
    assert commands._as_csv([row]).splitlines()[1] == "'=a,3,'=HYPERLINK('x')"

@pytest.mark.parametrize('name', [
    'notes.csv', 'attention.py', 'more.json', 'link', 'folder', 'pipe'])
def test_results_replace_nothing_of_the_students(name, capsys, tmp_path, monkeypatch):
    for own in ('notes.csv', 'attention.py'): (tmp_path/own).write_text('kept')
    more = '{"score": 1, "output": "", "tests": [], "mine": 1}'
    (tmp_path/'more.json').write_text(more)
    (tmp_path/'link').symlink_to('notes.csv')
    (tmp_path/'folder').mkdir()
    os.mkfifo(tmp_path/'pipe')
    monkeypatch.setattr(commands, 'grade', None) # refused before anything is graded
    printed, status = check(capsys, tmp_path, stage=1, json=str(tmp_path/name))
    assert status == 2 and 'was not written by tnb_check' in printed.err
    for own in ('notes.csv', 'attention.py'): assert (tmp_path/own).read_text() == 'kept'

@pytest.mark.parametrize('text', [
    '[' * 100_000, '[]', '[[1, 2]]', '3', '{"layout": ["bhtd"]}', '{"masks": {}}',
    '{"masks": "hidden", "masks": "allowed"}'])
def test_a_kit_that_nobody_wrote(text, capsys, tmp_path):
    (tmp_path/'kit.json').write_text(text)
    printed, status = check(capsys, tmp_path, stage=1)
    assert status == 2 and 'kit.json is not the file that tnb_start wrote' in printed.err
    assert 'Traceback' not in printed.err and printed.out == ''

def test_where_a_teacher_gives_the_conventions_no_kit_counts(capsys, tmp_path):
    "Once a broken kit.json left Gradescope without a result"
    write(tmp_path, attention=source('attention.py'))
    (tmp_path/'kit.json').write_text('[1, 2')
    printed, _ = check(capsys, tmp_path, stage=1, layout='bhtd', masks='allowed')
    assert '12 of 12' in printed.out
    (tmp_path/'kit.json').write_text('{"layout": "bthd", "masks": "hidden"}')
    assert ': 12 of 12' not in check(capsys, tmp_path, stage=1)[0].out
    for one in (dict(layout='bhtd'), dict(masks='allowed')): # the other is the student's
        assert ': 12 of 12' not in check(capsys, tmp_path, stage=1, **one)[0].out

def test_a_kit_of_twenty_gigabytes_is_not_read(capsys, tmp_path):
    with (tmp_path/'kit.json').open('wb') as file: file.truncate(20 * 2**30)
    printed, status = check(capsys, tmp_path, stage=1)
    assert status == 2 and 'kit.json is not the file that tnb_start wrote' in printed.err

def test_whoever_ignores_the_end_of_children_can_grade(tmp_path):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    write(tmp_path, attention=source('attention.py'))
    try: assert grade(tmp_path, STAGES[0], KIT, 10).points == 12
    finally: signal.signal(signal.SIGCHLD, before)

@pytest.mark.parametrize('number', [9, 11])
def test_right_files_get_every_point(number):
    stage = STAGES[number - 1]
    assert graded(stage, source(stage.file)).points == stage.points

def test_gradescope_gets_nothing_for_blank_files(tmp_path):
    "The autograder's own script, with another root and a command from this package"
    tnb_start(str(tmp_path/'submission'), teacher=True)
    script = (tmp_path/'submission/run_autograder').read_text(encoding='utf8')
    command = tmp_path/'venv/bin/tnb_check'
    command.parent.mkdir(parents=True)
    command.write_text(f'#!{sys.executable}\n'
                       'from transformer_nb.grading.commands import tnb_check\n'
                       "if __name__ == '__main__': tnb_check()\n", encoding='utf8')
    command.chmod(0o755)
    script = script.replace('/autograder', str(tmp_path))
    done = subprocess.run(['bash', '-c', script], capture_output=True, text=True)
    assert 'total: 0 of 100 points, optional: 0 of 10 points' in done.stdout, done.stderr
    assert '→' not in done.stdout and 'Traceback' not in done.stdout + done.stderr
    results = json.loads((tmp_path/'results/results.json').read_text(encoding='utf8'))
    assert results['score'] == 0
    assert sum(test['max_score'] for test in results['tests']) == 100
    setup = tmp_path/'submission/setup.sh'
    assert subprocess.run(['bash', '-n', setup]).returncode == 0

def test_a_crash_is_sent_to_the_book_for_each_function():
    text = source('attention.py').replace('return row[', 'return rows[')
    result = graded(STAGES[0], text.replace('ids != 0', 'ids == 0'))
    assert names(result) == ['padding mask inverted', 'causal_mask'], report(result)
    assert 'Read chapter 02' in result.remarks[1]

def test_a_missing_file_is_sent_to_the_book_once(tmp_path):
    result = grade(tmp_path, STAGES[0])
    assert len(result.remarks) == 1 and 'Read chapter 01' in result.remarks[0]
    assert 'attention.py is missing' in report(result)
    result = grade(write(tmp_path, attention='import nowhere'), STAGES[0])
    told = 'attention.py cannot be imported: ModuleNotFoundError: No module named'
    assert len(result.remarks) == 1 and told in result.remarks[0]

def test_a_file_that_cannot_be_imported_is_sent_to_no_chapter(tmp_path):
    (tmp_path/'decoding.py').write_text('def beam_search():\n  x = 1\n    y = 2\n')
    result = grade(tmp_path, STAGES[7])
    [told] = result.remarks
    assert told.startswith('decoding.py cannot be imported: IndentationError')
    assert '(decoding.py, line 3). Until that is mended' in told and 'Read' not in told

def test_the_first_optimizer_of_a_machine_costs_nothing(tmp_path):
    "It makes a folder for torch, which the guard took for the submission's own doing"
    (tmp_path/'right').mkdir()
    (tmp_path/'right'/'optimizer.py').write_text(source('optimizer.py'))
    (tmp_path/'tmp').mkdir()
    fresh = {k: v for k, v in os.environ.items() if k != 'TORCHINDUCTOR_CACHE_DIR'}
    said = subprocess.run(
        [sys.executable, '-c', 'from transformer_nb.grading.commands import tnb_check\n'
         f"tnb_check({str(tmp_path/'right')!r}, stage=6)"],
        env=fresh | dict(TMPDIR=str(tmp_path/'tmp')), capture_output=True, text=True)
    assert 'total: 10 of 10 points' in said.stdout, said.stdout + said.stderr

def test_a_new_folder_has_no_solution(tmp_path, capsys):
    tnb_start(str(tmp_path/'new'))
    names = sorted(path.name for path in (tmp_path/'new').iterdir())
    files = [stage.file for stage in STAGES]
    assert names == sorted([*files, 'config.py', 'README.md', 'AGENTS.md', 'kit.json'])
    for file in files:
        text = (tmp_path/'new'/file).read_text(encoding='utf8')
        assert 'raise NotImplementedError' in text and 'return' not in text.split('"""')[2]
        assert not re.search(r'^(from|import) transformer_nb', text, re.M)
    assert 'begin with README.md' in capsys.readouterr().out
    tnb_start(str(tmp_path/'all'), teacher=True, key='k 1', masks='hidden')
    assert 'it holds your key, so hand out another folder' in capsys.readouterr().out
    with ZipFile(tmp_path/'all/autograder.zip') as archive:
        assert {x.external_attr >> 16 & 0o111 for x in archive.infolist()} == {0o111}
        script = archive.read('run_autograder').decode()
    assert "KEY='k 1'" in script and '--layout bhtd --masks hidden' in script
    for week in range(1, 6):
        text = (tmp_path/f'all/week{week}.ipynb').read_text(encoding='utf8')
        graded = [c for c in nbformat.reads(text, 4).cells if c.cell_type == 'code']
        for cell in graded:
            stage = STAGES[int(cell.metadata.nbgrader.grade_id[5:]) - 1]
            assert cell.metadata.nbgrader.points == stage.points
            assert f"points('.', {stage.number}, key='k 1', " in cell.source
        assert len(graded) == 2 - (week == 5)
    for file in files: # where True is hidden, no comment says what a mask shows
        text = (tmp_path/'all'/file).read_text(encoding='utf8')
        assert not re.search(r'[mM]ask: .*(may see|are tokens|allowed)', text), file
    config = types.SimpleNamespace(
        Autograde=types.SimpleNamespace(), ExecutePreprocessor=types.SimpleNamespace())
    exec((tmp_path/'all/nbgrader_config.py').read_text(), dict(get_config=lambda: config))
    kept = config.Autograde.exclude_overwriting # or nbgrader grades the empty files
    assert sorted(sum(kept.values(), [])) == sorted(STAGES[i].file for i in range(9))
    assert kept['week1'] == ['attention.py', 'multihead.py']
    with pytest.raises(SystemExit): tnb_start(str(tmp_path/'odd'), key="a'; rm -r x")
    assert '--key' in capsys.readouterr().err
    with pytest.raises(SystemExit): tnb_start(str(tmp_path/'all'))
    assert 'is not empty' in capsys.readouterr().err

def test_a_project_is_whole_or_not_there(tmp_path, monkeypatch):
    "On a disk that fills up at its third file; then it can be started again"
    write_text, n = Path.write_text, []
    def fill_up(path, *args, **how):
        n.append(path)
        if len(n) == 3: raise OSError(errno.ENOSPC, 'No space left on device')
        return write_text(path, *args, **how)
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as e:
        patch.setattr(Path, 'write_text', fill_up)
        tnb_start(str(tmp_path/'k'))
    assert e.value.code == 2 and not list(tmp_path.iterdir())
    tnb_start(str(tmp_path/'k'))


def test_titles_and_names_are_unique():
    titles = [probe.title for probe in PROBES]
    known = [m for stage in STAGES for part in stage.parts for m in mistakes(part)]
    assert len(titles) == len({*titles}) and len(known) == len({*map(mistake_name, known)})

def test_documented_commands_have_their_options():
    "On all pages that show commands of the kit; once `--out` of tnb_class was not one"
    pages = [*(HERE.parent/'transformer_nb/assignment').glob('*.md'),
             HERE.parent/'docs/teaching.md', HERE.parent/'nbs/build.md']
    text = '\n'.join(path.read_text(encoding='utf8') for path in pages)
    text += cells(HERE.parent/'nbs/15c_build.ipynb', 'markdown')[0].source
    shown = re.findall(r'(tnb_start|tnb_check|tnb_class) ([^\n`]*)', text)
    for name, rest in shown:
        known = signature(getattr(commands, name)).parameters
        for option in re.findall(r'--(\w+)', rest):
            assert known[option].default is not Parameter.empty, f'{name} --{option}'
    assert len(shown) > 8 and any('--out' in rest for _, rest in shown)

def test_the_readme_has_the_points(tmp_path):
    text = kit_file('README.md', KIT)
    for stage in STAGES:
        [row] = [line for line in text.splitlines() if f'| `{stage.file}` |' in line]
        assert row.split('|')[4].strip() == str(stage.points), row
    assert sum(stage.points for stage in STAGES if not stage.optional) == 100

HOSTILE = dict(
    loop='while True: pass',
    loop_in_call='def padding_mask(ids):\n    while True: pass',
    loop_that_catches='def padding_mask(ids):\n    while True:\n        try:\n'
                      '            while True: pass\n        except: pass',
    sleep='import time\ntime.sleep(1000)',
    leaves='import sys\nsys.exit(0)',
    leaves_in_call='def padding_mask(ids): raise SystemExit',
    leaves_at_once='import os\nos._exit(0)',
    leaves_in_call_at_once='import os\ndef padding_mask(ids): os._exit(0)',
    interrupts='raise KeyboardInterrupt',
    syntax='def padding_mask(ids) return',
    nothing='',
    no_text='\x00\x01',
    missing_name='from nowhere import something',
    prints='print("x" * 10**6)\nimport sys\nsys.stderr.write("y" * 10**6)',
    reads_input='input()',
    forks='import os\nos.fork()',
    fork_bomb='import os\nwhile True: os.fork()',
    starts='import subprocess\nsubprocess.run(["sleep", "100"])',
    shell='import os\nos.system("sleep 100")',
    writes='open("/tmp/tnb_hostile", "w").write("x")',
    removes='import shutil\nshutil.rmtree("/tmp/tnb_hostile_folder")',
    fills_the_disk='with open("big", "wb") as f:\n    while True: f.write(bytes(10**7))',
    allocates='x = [bytes(10**8) for _ in range(1000)]',
    allocates_a_tensor='import torch\nx = torch.ones(10**10)',
    returns_a_giant='import torch\n'
                    'def padding_mask(ids): return torch.ones(1).expand(10**11)',
    recurses='def f(): f()\nf()',
    crashes='import ctypes\nctypes.string_at(0)',
    kills='import os\nos.kill(os.getppid(), 9)',
    connects='import socket\nsocket.create_connection(("127.0.0.1", 9))',
    imports_the_book='from transformer_nb.multihead import *',
    reads_the_grader='import importlib.util as u, inspect, torch\n'
                     'p = torch.__file__\nopen("{package}/naming.py").read()',
    patches_torch='import torch\ntorch.Tensor.__eq__ = lambda *a: True\n'
                  'torch.allclose = torch.equal = lambda *a, **k: True',
    patches_exit='import os\nos._exit = lambda n: None\nos.kill = None',
    returns_nonsense='def padding_mask(ids): return "right"',
    returns_nothing='def padding_mask(ids): pass',
    lies='class T:\n    shape = (1,)\n    def __eq__(self, o): return True\n'
         'def padding_mask(ids): return T()',
    forges='open("result-7.out", "w").write("7 of 7 points")\nraise SystemExit',
    raises_oddly='class E(Exception):\n    def __str__(self): raise self\nraise E',
    changes_folder='import os\nos.chdir("/")')

@pytest.mark.parametrize('name', HOSTILE)
def test_a_hostile_submission_costs_its_points_alone(name, tmp_path):
    text = HOSTILE[name].replace('{package}', str(Path(process.__file__).parent))
    folder = write(tmp_path, attention=text)
    seconds = 0.3 if 'loop' in name or name in ('sleep', 'fills_the_disk') else 3
    found = collect(folder, STAGES[0], Kit(), seconds)
    result = judged(STAGES[0], found)
    assert result.points == 0 and len(result.checks) == len(STAGES[0].probes)
    assert all(check.message for check in result.checks), report(result)
    assert not Path('/tmp/tnb_hostile').exists()
    assert [p.name for p in tmp_path.iterdir()] == ['attention.py'] # nothing beside it

def first_stage(folder, harm, seconds=1): # right, but for a line in `causal_mask`
    text = source('attention.py').replace('row = torch', f'{harm}\n    row = torch')
    found = collect(write(folder, attention=text), STAGES[0], Kit(), seconds)
    return judged(STAGES[0], found)

def test_a_mistake_in_one_function_leaves_the_points_of_the_others(tmp_path):
    result = first_stage(tmp_path, 'while True: pass')
    assert result.points == 11 and 'not done after 1 seconds' in report(result)

def test_a_busy_machine_costs_no_points(tmp_path):
    "The limit of a second is the processor's: this waits longer in all, and is right"
    assert first_stage(tmp_path, 'import time; time.sleep(0.4)').points == 12

def test_early_ends_cost_the_checks_that_end(tmp_path):
    result = first_stage(tmp_path, 'import os; os._exit(3)')
    assert result.points == 11 and 'exit status 3' in report(result)

def test_what_ends_a_process_is_told_and_not_what_it_left_undone():
    found = {p: Outcome({}, process._LOST) for p in STAGES[0].probes}
    found[STAGES[0].probes[0]] = Outcome({}, 'the process ended (SIGABRT)')
    first, *_, last = judged(STAGES[0], found).remarks
    assert 'these checks end with "the process ended (SIGABRT)": the output, ' in first
    assert f'every check ends with "{process._LOST}". Read' in last

def test_three_ends_are_three_checks(tmp_path):
    "Each check that ends the process is told so, and nothing else is lost"
    text = source('attention.py').replace('import math\n', 'import math, os\n')
    text = text.replace('row = torch', 'os._exit(3)\n    row = torch')
    text = text.replace('not_pad =', 'os._exit(4)\n    not_pad =')
    text = text.replace('d_k = key', 'if query.size(2) == 1: os._exit(5)\n    d_k = key')
    found = collect(write(tmp_path, attention=text), STAGES[0], Kit(), 1)
    result = judged(STAGES[0], found)
    assert [n for n in (3, 4, 5) if f'exit status {n}' in report(result)] == [3, 4, 5]
    assert result.points == 8, report(result)

def test_an_earlier_mistake_costs_nothing_later(tmp_path):
    write(tmp_path, attention='def scaled_dot_product_attention(*args): return 0',
          multihead=source('multihead.py'))
    assert grade(tmp_path, STAGES[1]).points == 12

@pytest.mark.parametrize('layout, masks', [('bthd', 'allowed'), ('bhtd', 'additive'),
                                           ('bthd', 'hidden')])
def test_in_a_variant_copied_code_fails_and_adapted_code_passes(layout, masks):
    kit, stage = Kit(layout, masks, 'key'), STAGES[0]
    text = source('attention.py')
    copied = graded(stage, text, kit)
    assert copied.points <= 8, report(copied)
    if layout == 'bthd':
        text = text.replace('bhtd', 'bthd').replace('bhsd', 'bshd')
    if masks == 'hidden':
        text = text.replace('mask == False', 'mask').replace('ids != 0', 'ids == 0')
        text = text.replace('<=', '>')
    if masks == 'additive':
        text = text.replace("scores.masked_fill(mask == False, float('-inf'))",
                            'scores + mask')
        text = text.replace('not_pad.unsqueeze(1).unsqueeze(2)',
                            'torch.where(not_pad, 0., -torch.inf)[:, None, None]')
        text = text.replace('row[None, :] <= row[:, None]',
                            'torch.where(row <= row[:, None], 0., -torch.inf)')
    result = graded(stage, text, kit)
    assert result.points == 12, report(result)

@pytest.mark.parametrize('number', [2, 3, 4, 5, 6, 8])
def test_the_kit_varies_and_a_right_file_stays_right(number):
    "What does not touch masks or heads itself is right in every variant, and for every key"
    stage = STAGES[number - 1]
    result = graded(stage, source(stage.file), Kit('bhtd', 'additive', 'another key'))
    assert result.points == stage.points, report(result)

def test_the_variant_is_in_the_files(tmp_path, capsys):
    tnb_start(str(tmp_path/'new'), layout='bthd', masks='additive')
    text = (tmp_path/'new/attention.py').read_text(encoding='utf8')
    assert '(b, t, h, d_k)' in text and '(b, s, h, d_v)' in text
    assert '0 where attention is allowed' in text and 'True where' not in text
    assert '0 at real tokens, -inf at padding' in text and 'True at' not in text
    assert text.count(MASKS['additive']) == 2 # causal_mask says it once more
    printed, _ = check(capsys, tmp_path/'new', stage=1)
    assert 'Stage 1' in printed.out and '0 of 12' in printed.out

def test_nbgrader_gets_a_number(right, capsys, monkeypatch):
    "And the report, in a process that has computed with several threads before"
    x = torch.ones(300, 300)
    assert (x @ x)[0, 0] == 300
    assert points(right, 6, key='a key') == 10
    assert '✔ 2/2 the smoothed loss' in capsys.readouterr().out
    with pytest.raises(InputError, match='not a model folder'):
        points(right, 9, model='nowhere')

GUARDED = ['import transformer_nb', 'import transformer_nb.attention', 'os.fork()',
           'os.execv("/bin/true", ["true"])', 'os.posix_spawn("/bin/true", ["true"], {})',
           'os.system("true")', 'os.kill(os.getpid(), 0)', 'os.remove("a")',
           'os.rmdir("a")', 'os.rename("a", "b")', 'os.mkdir("a")', 'os.link("a", "b")',
           'os.symlink("a", "b")',
           'os.truncate("a", 0)', 'os.chmod("a", 0)', 'os.chown("a", 0, 0)',
           'import shutil; shutil.copyfile("a", "b")', 'import pty; pty.spawn("true")',
           'import subprocess; subprocess.run(["true"])', 'import socket; socket.socket()',
           'import ctypes; ctypes.CDLL(None) # ctypes.dlopen', 'import signal, threading; '
           'signal.pthread_kill(threading.get_ident(), 0)', 'import resource; '
           'resource.setrlimit(resource.RLIMIT_CPU, (9, 9))', 'import gc; gc.get_objects()',
           'import gc; gc.get_referrers(os)', 'import gc; gc.get_referents(os)',
           'import sys; sys._current_frames()', 'open("/tmp/tnb_hostile", "r+")',
           'open("/tmp/tnb_hostile", "w")', 'os.open("/tmp/tnb_hostile", os.O_CREAT)',
           'open(os.getcwd() + "-", "w")', 'open(b"/tmp/tnb_hostile", "a")',
           'open("{package}/naming.py")', 'open(os.path.relpath("{package}/naming.py"))']

def test_the_guard_refuses_one_harmful_line_in_a_right_file(tmp_path):
    "Each line alone, in one function that goes on, and then the file is right"
    lines = [line.replace('{package}', str(Path(process.__file__).parent))
             for line in GUARDED]
    harm = (f'import os\n    for line in {lines!r}:\n        try: exec(line)\n'
            "        except PermissionError as e: assert 'submission may not' in str(e)\n"
            '        else: raise ValueError(line)')
    result = first_stage(tmp_path, harm, 20)
    assert result.points == 12, report(result)
    tried = ' '.join(GUARDED)
    assert not [event for event in process._FORBIDDEN if event not in tried]
    result = first_stage(tmp_path, 'import transformer_nb', 20)
    assert result.points == 11 and 'a submission may not' in report(result)

LIMITS = """import os, resource
    for kind, most in ('CPU', 81), ('FSIZE', 2**26), ('CORE', 0):
        assert resource.getrlimit(getattr(resource, f'RLIMIT_{kind}')) == (most, most), kind
    assert os.read(0, 1) == b'', 'something to read'
    print('loud')
    os.write(1, b'loud'), os.write(2, b'loud')
    open(os.devnull, 'w').write('loud')
    x = bytearray(2**30)"""

def test_a_submission_is_limited_and_silent(tmp_path, capfd):
    result = first_stage(tmp_path, LIMITS, 20)
    assert result.points == 12 and capfd.readouterr() == ('', ''), report(result)

@pytest.mark.parametrize('harm, seconds, said', [
    ('bytearray(3 * 2**30)', 20, 'MemoryError'),
    ("open('big', 'wb').write(bytes(2**27))", 20, 'File too large'),
    ('import time; time.sleep(9)', 1, 'not done after 1 seconds')])
def test_what_goes_beyond_a_limit_says_so(harm, seconds, said, tmp_path):
    result = first_stage(tmp_path, harm, seconds)
    assert result.points == 11 and said in report(result), report(result)

def test_only_files_of_the_folder_are_taken(tmp_path):
    "No link, nothing huge, and the kit's config.py"
    for name in ('kit', 'work', 'place'): (tmp_path/name).mkdir()
    write(tmp_path/'kit', attention=source('attention.py'))
    (tmp_path/'work/attention.py').symlink_to('../kit/attention.py')
    write(tmp_path/'work', config='raise ValueError', mine='x = 1')
    with (tmp_path/'work/huge.py').open('wb') as file: file.truncate(2**26)
    process._copy(tmp_path/'work', tmp_path/'place')
    assert sorted(p.name for p in (tmp_path/'place').iterdir()) == ['config.py', 'mine.py']
    assert 'ValueError' not in (tmp_path/'place/config.py').read_text(encoding='utf8')

SLEEPER = """import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from transformer_nb.grading import process
from transformer_nb.grading.checks import Kit
from transformer_nb.grading.stages import STAGES
try: process.collect(process.Path(sys.argv[1]), STAGES[0], Kit(), 100)
except KeyboardInterrupt: time.sleep(1000) # as the kernel of a notebook lives on"""

@pytest.mark.skipif(sys.platform != 'linux', reason='/proc is needed')
@pytest.mark.parametrize('sign', [signal.SIGKILL, signal.SIGINT])
def test_a_sleeping_submission_ends_with_its_grader(sign, tmp_path):
    text = 'import time\nopen("asleep", "w")\ntime.sleep(1000)'
    write(tmp_path, attention=text)
    command = [sys.executable, '-c', SLEEPER, tmp_path]
    ended = time.monotonic() + 100
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as grader:
        children = Path(f'/proc/{grader.pid}/task/{grader.pid}/children')
        try:
            while not (pids := children.read_text().split()): waited(ended)
            [child] = pids
            while not Path(f'/proc/{child}/cwd/asleep').exists(): waited(ended)
            grader.send_signal(sign)
            if sign == signal.SIGINT: # before the grader itself is gone
                while Path(f'/proc/{child}').exists(): waited(ended)
        finally: grader.kill()
    while Path(f'/proc/{child}').exists(): waited(ended)

def waited(ended):
    assert time.monotonic() < ended
    time.sleep(0.01)

def test_the_hosts_limits_are_kept(tmp_path):
    "Hard limits below the grader's own cost no points"
    script = 'ulimit -t 100; ulimit -f 60000; exec "$@"'
    write(tmp_path, attention=source('attention.py'))
    command = [sys.executable, '-c', COMMAND, tmp_path, '--seconds', '30', '1']
    done = subprocess.run(['bash', '-c', script, 'bash', *map(str, command)], text=True,
                          capture_output=True)
    assert '12 of 12' in done.stdout, done.stdout + done.stderr

def test_what_fails_before_the_submission_costs_no_points(tmp_path, monkeypatch, capsys):
    def fail(*args): raise OSError('no such limit')
    monkeypatch.setattr(process, '_limit', fail)
    with pytest.raises(InputError, match='the grader cannot start a submission here'):
        collect(write(tmp_path, attention=source('attention.py')), STAGES[0], Kit(), 3)
    printed, status = check(capsys, tmp_path, stage=1)
    assert status == 2 and printed.out == '' and printed.err.count('\n') == 1

def test_what_fails_before_the_next_process_costs_no_points_either(tmp_path, monkeypatch):
    "Once the second process failed, and right checks behind a crash lost their points"
    def fail_later(*args): # the first process has written what it began
        if list(Path(place[0]).glob('result-*')): raise OSError('no such limit')
    place, copy = [], process._copy
    def copied(folder, to): return copy(folder, place.append(to) or to)
    monkeypatch.setattr(process, '_copy', copied)
    monkeypatch.setattr(process, '_limit', fail_later)
    with pytest.raises(InputError, match='the grader cannot start a submission here'):
        harm = 'import os; os._exit(3)\n    not_pad ='
        text = source('attention.py').replace('not_pad =', harm)
        collect(write(tmp_path, attention=text), STAGES[0], Kit(), 20)

def test_an_error_of_the_students_writes_no_terminal_code(tmp_path):
    text = 'def padding_mask(ids): raise ValueError("\x1b[2J\u202eabc")'
    shown = report(grade(write(tmp_path, attention=text), STAGES[0], Kit(), 3))
    assert '\\x1b[2J' in shown and '\x1b' not in shown and '\u202e' not in shown

@pytest.mark.parametrize('folder, options, words', [
    ('nowhere', {}, 'nowhere is not a folder'),
    ('.', dict(stage=12), '--stage is 12'),
    ('.', dict(masks='soft'), "--masks is 'soft'"),
    ('.', dict(layout='hbtd'), "--layout is 'hbtd'"),
    ('.', dict(seconds=0), '--seconds is 0'),
    ('.', dict(model='nowhere'), 'not a model folder'),
    ('.', dict(certificate='a.svg', stage=1), '--certificate needs all stages'),
    ('.', dict(certificate='a.png'), 'a.png does not end in .svg')])
def test_bad_input_is_refused(folder, options, words, capsys):
    printed, status = check(capsys, folder, **options)
    assert status == 2 and words in printed.err and printed.err.count('\n') == 1

# The certificate

def certified(capsys, folder, path, points=100): # of a submission that was graded before
    checks = [Check(STAGES[0].probes[0], points, '')]
    results = [StageResult(STAGES[0], checks, [])]
    commands._certify(path, folder, results, KIT, 30)
    return capsys.readouterr().out.strip()

def test_a_hundred_points_get_a_certificate(right, capsys, tmp_path):
    path = tmp_path/'mine.svg'
    assert '--certificate' in certified(capsys, right, None)
    assert certified(capsys, right, path, 99) == 'No certificate yet: 99 of 100 points'
    assert certified(capsys, right, None, 99) == '' and not path.exists()
    assert certified(capsys, right, path).startswith(str(path))
    drawing, text = ElementTree.parse(path), path.read_text(encoding='utf8')
    assert settings(HERE.parent)['title'] in text and '100 of 100 points' in text
    assert f'{date.today().year}-' in text and str(right) not in text
    said = [node.text for node in drawing.findall('.//{*}text')]
    assert 'children' in said and 'Kinder' in said
    squares = drawing.findall('.//{*}g/{*}rect')
    drawn = [float(node.get('fill-opacity')) for node in squares]
    [[best]] = Translator(MODEL).candidates([translation._SHOWN], alignments=True)
    assert drawn == pytest.approx(best.alignment.flatten().tolist(), abs=2e-3)

@pytest.mark.parametrize('file, old, new, said', [
    ('multihead.py', 'out, _ = scaled_dot_product_attention(q, k, v, mask)',
     'out = nn.functional.scaled_dot_product_attention(q, k, v, mask)', 'no weights'),
    ('attention.py', 'return', 'raise ValueError\n    return', 'ValueError')])
def test_no_certificate_without_a_map(right, file, old, new, said, capsys, tmp_path):
    shutil.copytree(right, tmp_path/'other')
    (tmp_path/'other'/file).write_text(changed(file, [(old, new)]), encoding='utf8')
    line = certified(capsys, tmp_path/'other', tmp_path/'mine.svg')
    assert line.startswith('No certificate: ') and said in line and '\n' not in line
    assert not (tmp_path/'mine.svg').exists()

# The book's own code, as a folder

def test_the_books_own_code_gets_a_hundred_points(tmp_path):
    "By the command, in a process of its own; the processor time is printed (pytest -rP)"
    write_book(tmp_path)
    texts = [path.read_text(encoding='utf8') for path in tmp_path.glob('*.py')]
    assert not re.search(r'^(from|import) transformer_nb', '\n'.join(texts), re.M)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, '-c', COMMAND, tmp_path, '--seconds', '120'],
                          capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    assert 'total: 100 of 100 points, optional: 0 of 10' in done.stdout, done.stdout
    assert 'by all of your own files: yes' in done.stdout, done.stdout
    print(f'{seconds:.0f} s of processor time')

COMMAND = """import sys
from transformer_nb.grading.commands import tnb_check
sys.argv[0] = 'tnb_check'
stage = int(sys.argv[4]) if sys.argv[4:] else None
tnb_check(*sys.argv[1:2], stage, seconds=int(sys.argv[3]))"""

@pytest.mark.parametrize('k, alpha', [(1, 0.), (3, 0.6), (4, 2.)])
def test_the_right_search_is_the_books(k, alpha):
    "The book's beam search runs on whole models alone, the grader's on anything"
    torch.manual_seed(k)
    model = copy_model(d_model=16, d_ff=16, max_len=12).double().eval()
    for _ in range(4):
        for p in model.parameters(): torch.nn.init.normal_(p, std=0.5)
        src = torch.cat([torch.randint(4, 20, (1, 5)), torch.tensor([[2]])], 1)
        [[best]] = beam_search(model, src, beam_size=k, alpha=alpha, max_extra=5)
        ids, score = decoding._Search().beam_search(model, src, k, alpha, 10)
        assert ids == best.ids and score == pytest.approx(best.score)

# What a student is told

def stage_5(old, new): return graded(STAGES[4], changed('model.py', [(old, new)]))

def test_layers_in_a_plain_list_get_their_name():
    result = stage_5('self.decoder = nn.ModuleList(', 'self.decoder = list(')
    assert names(result) == ['layers in a plain list'], report(result)
    text = report(result)
    assert 'layers in a plain list: Transformer.decoder' in text and 'nn.ModuleList' in text
    layer = 'ResidualNorm(config.d_model, config.dropout)'
    for n in (2, 3):
        rows = f'\n            [{layer} for _ in range({n})])'
        result = stage_5(f'nn.ModuleList({rows}', f'list({rows}')
        assert names(result) == ['layers in a plain list'], report(result)

def test_plain_lists_in_several_classes_give_one_remark_for_each_class():
    result = stage_5('nn.ModuleList(', 'list(')
    assert [remark.partition('. ')[0] for remark in result.remarks] == [
        f'layers in a plain list: {found}'
        for found in ('EncoderLayer.residuals', 'DecoderLayer.residuals',
                      'Transformer.encoder, Transformer.decoder')], report(result)
    messages = [check.message for check in result.checks]
    assert sum('plain list' in message for message in messages) == 3, report(result)
    assert 'the same as above' in messages

@pytest.mark.long
def test_missing_parameters_have_names():
    text = report(graded(STAGES[2], changed('layers.py', [
        ('nn.Linear(d_ff, d_model)', 'nn.Linear(d_ff, d_model, bias=False)')])))
    assert 'missing parameters: outer.bias (' in text, text
    assert 'FeedForward: begin with the parameters' in text, text
    other = 'self.output(out)', 'self.output(out) + self.shift'
    end = 'self.output = nn', 'self.shift = nn.Parameter(torch.ones(d_model))\n'
    text = changed('multihead.py', [other, (end[0], end[1] + '        ' + end[0])])
    text = report(graded(STAGES[1], 'import torch\n' + text))
    assert 'not asked for: shift (' in text and 'missing parameters' not in text, text
    text = report(stage_5('x = self.residuals[1](x, lambda y: self.cross',
                          'x = self.residuals[0](x, lambda y: self.cross'))
    assert 'no gradient reaches' not in text and 'missing' not in text, text
    old = 'memory = self.encode(src)'
    text = report(stage_5(old, f'{old}.detach()'))
    assert 'gradient of encoder.0.self_attention.query.weight is missing' in text, text

def test_a_loop_that_does_not_learn_is_told_how_much_it_copies():
    [probe] = [p for p in STAGES[6].probes if p.must and p.points]
    nothing = 'def train(model, optimizer, batches, lr_of): return []'
    text = report(graded(STAGES[6], nothing, probes=[probe]))
    assert re.search(r': \d+.\d% of 300 new sequences are copied, 99 % are wanted', text)

FREE = [(4, [('nn.Parameter(torch.randn(vocab_size, d_model) / math.sqrt(d_model))',
              'nn.Embedding(vocab_size, d_model, padding_idx=0).weight'),
             ('    def forward(self, ids)', '        nn.init.normal_(self.weight, '
              'std=d_model**-0.5)\n\n    def forward(self, ids)')]),
        (5, [('[DecoderLayer(config) for _ in range(config.n_decoder_layers)])',
              '[DecoderLayer(config) for _ in range(config.n_decoder_layers)])\n'
              '        for name, p in self.named_parameters():\n'
              "            if p.dim() > 1 and 'embedding' not in name:\n"
              '                nn.init.xavier_uniform_(p)')])]

@pytest.mark.parametrize('number, changes', FREE)
def test_what_the_kit_leaves_free_costs_nothing(number, changes):
    "Zeros for padding, and first values of all matrices but the embedding"
    stage = STAGES[number - 1]
    result = graded(stage, changed(stage.file, changes))
    assert result.points == stage.points, report(result)

def test_numbers_that_differ_are_shown_with_digits_that_differ():
    text = changed('attention.py', [('/ math.sqrt(d_k)', '/ math.sqrt(d_k) * 1.00003')])
    for check in graded(STAGES[0], text).checks:
        match = re.search(r'should be (.*), and is (.*)', check.message)
        assert not match or match[1] != match[2], check.message
    text = report(graded(STAGES[0], changed('attention.py', [('ids != 0', 'ids == 0')])))
    assert 'should be True, and is False' in text or 'should be False, and is True' in text
    text = report(graded(STAGES[0], changed('attention.py', [(' / math.sqrt(d_k)', '')])))
    assert 'gradient of the queries at sentence ' in text, text

@pytest.mark.long
def test_a_crash_hides_no_name_and_shows_its_line():
    text = changed('embedding.py', [('[ids] * math.sqrt(self.d_model)', '[ids]'),
                                    ('x @ self.weight.t()', 'x @ self.weight')])
    result = graded(STAGES[3], text)
    line = 1 + text[:text.index('x @ self.weight')].count('\n')
    assert names(result) == ['no root d'], report(result)
    assert f'(embedding.py, line {line})' in report(result), report(result)
    text = changed('embedding.py', [('x @ self.weight.t()', 'x @ self.weight')])
    text = report(graded(STAGES[3], text))
    assert 'Embedding: these checks end with "RuntimeError: ' in text, text
    assert 'Two tensors meet whose sizes do not fit.' in text, text

def test_a_result_is_not_stretched_to_the_right_shape():
    text = report(stage_5('logits(x)', 'logits(x[:, -1:])'))
    [line] = [line for line in text.splitlines() if 'logits of a padded batch' in line]
    assert 'logits should have shape (4, ' in line and 'and has (4, 1, 20)' in line, text

def test_masks_may_differ_by_head():
    [probe] = [p for p in STAGES[1].probes if p.title == 'masks that differ by head']
    text = changed('multihead.py', MISTAKES[2]['heads share a mask'])
    assert [c.probe for c in graded(STAGES[1], text).checks if c.message] == [probe]
    one = 'mask[0, 0].expand_as(mask) if mask is not None and mask.shape[0] == 1 else mask'
    text = changed('multihead.py', [('(q, k, v, mask)', f'(q, k, v, {one})')])
    assert '✘ 0/1 masks that differ by head' in report(graded(STAGES[1], text))

def test_dropout_is_told_in_a_sentence_and_apart_from_gradients():
    text = report(stage_5('logits(x)', 'logits(nn.functional.dropout(x, 0.1))'))
    assert 'alone: two calls after eval() give different numbers' in text, text
    keep = 'self.dropout(x)', 'x * (self.dropout(x) != 0)'
    text = report(graded(STAGES[3], changed('embedding.py', [keep])))
    assert 'most numbers that are kept stay what they were' in text, text

@pytest.mark.parametrize('number, change, name', [
    (3, ('nn.Parameter(torch.ones(d_model))', 'torch.ones(d_model, requires_grad=True)'),
     'LayerNorm.weight'),
    (3, ('nn.Parameter(torch.zeros(d_model))', 'torch.zeros(d_model)'), 'LayerNorm.bias'),
    (4, ('nn.Parameter(torch.randn(vocab_size, d_model) / math.sqrt(d_model))',
         'torch.randn(vocab_size, d_model).requires_grad_()'), 'Embedding.weight')])
def test_a_tensor_that_is_no_parameter_gets_its_name(number, change, name):
    stage = STAGES[number - 1]
    result = graded(stage, changed(stage.file, [change]))
    assert names(result) == ['not registered'], report(result)
    assert f'not registered: {name}. ' in report(result), report(result)
    assert 'wrap it in `nn.Parameter`' in report(result)

@pytest.mark.long
def test_first_weights_of_any_size_are_named_and_shown():
    anew = MISTAKES[5]['embedding starts anew']
    small = [(old, new.replace('xavier_uniform_(p)', 'normal_(p, std=0.02)'))
             for old, new in anew]
    result = graded(STAGES[4], changed('model.py', small))
    assert names(result) == ['embedding starts anew'], report(result)
    assert 'should be 1, and is 0.08' in report(result), report(result)
    result = graded(STAGES[4], changed('model.py', MISTAKES[5]['final norms'] + anew))
    assert names(result) == ['final norms', 'embedding starts anew'], report(result)

def test_padding_alone_is_no_causal_mask():
    result = stage_5('causal_mask(tgt.size(1))', 'padding_mask(tgt)')
    assert names(result) == ['padding for causal'], report(result)

@pytest.mark.parametrize('masks', MASKS)
def test_a_mistake_is_told_in_the_words_of_the_kit(masks):
    kit = Kit(masks=masks)
    wrong = attention._CausalMaskInverted
    found = {p: _expected(wrong if issubclass(wrong, p.part) else p.part, p, kit)
             for p in STAGES[0].probes}
    text = report(judged(STAGES[0], found, kit))
    assert f'Masks of this kit are {MASKS[masks]}.' in text, text

def test_a_crash_without_a_name_says_so():
    text = report(graded(STAGES[1], changed('multihead.py', [('heads * size', 'size')])))
    assert 'MultiHeadAttention: every check ends with "' in text or \
        'MultiHeadAttention: these checks end with "' in text, text

def test_names_come_before_the_lines_of_the_checks():
    text = report(graded(STAGES[0], changed('attention.py', [(' / math.sqrt(d_k)', '')])))
    assert text.index('→ no scale: ') < min(text.index('✔'), text.index('✘')), text

def test_no_shape_stands_beside_the_line_to_replace():
    for stage in STAGES:
        lines = kit_file(stage.file, KIT).splitlines()
        todo = [line.strip() for line in lines if 'raise NotImplementedError' in line]
        assert {*todo} == {'raise NotImplementedError'}, stage.file

def test_dropout_that_is_created_in_forward_is_named_with_its_cure():
    for number, name, line in ((3, 'dropout in eval', 'out'),
                               (4, 'positions dropout in eval', 'x')):
        stage = STAGES[number - 1]
        changes = [('self.dropout = nn.Dropout(dropout)', 'self.p = dropout'),
                   (f'self.dropout({line})', f'nn.Dropout(self.p)({line})')]
        result = graded(stage, changed(stage.file, changes))
        assert names(result) == [name], report(result)
        assert 'Create `nn.Dropout` in `__init__`' in report(result)

def test_a_boolean_mask_is_of_the_wrong_type_where_masks_are_added():
    kit = Kit(masks='additive')
    stage = STAGES[0]
    result = graded(stage, source(stage.file), kit,
                    [p for p in stage.probes if p.part is not attention._Attention])
    assert names(result) == [
        'padding mask of wrong type', 'causal mask of wrong type'], report(result)
    assert 'should be of numbers, and is of True and False' in report(result)

def test_fifty_files_and_the_settings_are_read(tmp_path):
    folder, place = tmp_path/'submission', tmp_path/'place'
    place.mkdir()
    folder.mkdir()
    names = [f'a{i:02}.py' for i in range(51)]
    for name in names: (folder/name).write_text('x = 1\n', encoding='utf8')
    process._copy(folder, place)
    assert sorted(path.name for path in place.iterdir()) == [*names[:50], 'config.py']

# What is right, and was refused once

CLOSURE = [('        optimizer.zero_grad()\n        loss = copy_loss(model, seqs)\n'
            '        loss.backward()\n        optimizer.step()\n',
            '        def closure():\n            optimizer.zero_grad()\n'
            '            loss = copy_loss(model, seqs)\n            loss.backward()\n'
            '            return loss\n        loss = optimizer.step(closure)\n')]
HOOK = [('        for group in optimizer.param_groups:\n            group[\'lr\'] = '
         'lr_of(step)\n', ''),
        ('    losses = []\n', '    losses, rates = [], map(lr_of, range(1, 1000))\n'
         '    def set_rate(optimizer, args, options):\n        rate = next(rates)\n'
         '        for group in optimizer.param_groups: group[\'lr\'] = rate\n'
         '    optimizer.register_step_pre_hook(set_rate)\n')]
MIXED = [('        self.feed_forward = FeedForward(config.d_model, config.d_ff)\n'
          '        self.residuals = nn.ModuleList(\n'
          '            [ResidualNorm(config.d_model, config.dropout) for _ in range(2)])\n',
          '        self.a_norm = ResidualNorm(config.d_model, config.dropout)\n'
          '        self.feed_forward = FeedForward(config.d_model, config.d_ff)\n'
          '        self.b_norm = ResidualNorm(config.d_model, config.dropout)\n'),
         ('x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))\n'
          '        x = self.residuals[1](x, self.feed_forward)\n        return x\n\nclass',
          'x = self.a_norm(x, lambda y: self.self_attention(y, mask=mask))\n'
          '        x = self.b_norm(x, self.feed_forward)\n        return x\n\nclass')]
BEGUN = [('x = self.positions(self.embedding(tgt))', 'assert (tgt[:, 0] == 1).all()\n'
          '        x = self.positions(self.embedding(tgt))')]
EVALUATES = [('memory = model.encode(src)',
              'assert not model.training\n    memory = model.encode(src)')]
IS_ONE = [('ids = tokenizer', 'assert isinstance(model, Transformer) and not model.training'
           '\n    ids = tokenizer')]
PARTS = [('class EncoderLayer', """class FeedForward(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.biases = nn.ParameterDict(dict(out=nn.Parameter(nn.init.zeros_(
            nn.Linear(d, d).bias)), inner=nn.Linear(d, h).bias))
        self.matrices = nn.ParameterDict(dict(out=nn.Linear(h, d).weight,
                                              inner=nn.Linear(d, h).weight))

    def forward(self, x):
        y = nn.functional.linear(x, self.matrices['inner'], self.biases['inner']).relu()
        return nn.functional.linear(y, self.matrices['out'], self.biases['out'])

class EncoderLayer"""), *MIXED]
HIDDEN = Kit(masks='hidden', model=MODEL)
RIGHT = {'a closure': (7, CLOSURE, KIT, 'the weights after'),
         'a hook before the step': (7, HOOK, KIT, 'the weights after'),
         'some names of its own': (5, MIXED, HIDDEN, 'an encoder layer'),
         'parts with an order of their own': (5, PARTS, KIT, 'an encoder layer'),
         'all targets begin': (5, BEGUN, KIT, 'gradients'),
         'models evaluate': (8, EVALUATES, KIT, ''),
         'models have their class': (9, IS_ONE, KIT, 'translations by toy')}

@pytest.mark.parametrize('name', RIGHT)
def test_what_is_right_in_another_way_costs_nothing(name):
    number, changes, kit, begins = RIGHT[name]
    stage = STAGES[number - 1]
    probes = [p for p in stage.probes if p.points and not p.must
              and p.title.startswith(begins)]
    result = graded(stage, changed(stage.file, changes), kit, probes)
    assert result.points == sum(p.points for p in probes) > 0, report(result)

def test_wrong_layers_with_some_names_of_their_own_are_matched_by_order():
    shapes = dict(a=(2, 2), first=(2,), b=(3, 2), second=(2,))
    wanted = dict(a=(2, 2), b=(3, 2), c=(2,), d=(2,))
    assert checks._aligned(shapes, wanted) == ['a', 'c', 'b', 'd']

def test_packages_and_the_kits_settings_are_there(tmp_path):
    "A helper in a folder of its own, and a config of the class that the kit gives"
    old = 'sizes = (config.d_model, config.n_heads, config.d_k, config.d_v)'
    new = f'assert isinstance(config, Given)\n        {old}'
    text = 'from config import TransformerConfig as Given\nfrom mylib.sub.math import ONE\n'
    write(tmp_path, model=text + changed('model.py', [(old, new)]))
    for name in ('mylib', 'mylib/sub', '.hidden', 'no-name', '__pycache__'):
        (tmp_path/name).mkdir()
        write(tmp_path/name, math='ONE = 1\n')
    (tmp_path/'linked').symlink_to(HERE)
    found = [str(p.relative_to(tmp_path)) for p in process._modules_in(tmp_path)]
    assert found == ['model.py', 'mylib/math.py', 'mylib/sub/math.py']
    outcomes = collect(tmp_path, STAGES[4], KIT, 20)
    assert not [x.error for x in outcomes.values() if x.error]

def test_numbers_that_are_nearly_right_are_not_cut_from_the_graph():
    y = torch.randn(4, dtype=torch.float64)
    said = _relation('bias', y + 1e-9, y)
    assert said == 'bias differs by less than a ten millionth of its largest number'
