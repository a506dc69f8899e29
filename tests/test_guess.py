"""Where the page says that a translation is a guess, tried on sentences made for it.

Two hundred translations by the everyday models were judged for chapter 15, and of the
thirty sentences below from news, science, law and other trades they translate none rightly.
The bounds of `guess.js` were chosen on every second sentence; the rest says how good they
are.
"""
import json
from pathlib import Path
import pytest
import torch
from node import Node
from transformer_nb.formats.page import _join
from transformer_nb.translation import Translator

ROOT = Path(__file__).parent.parent

FAR = """
The parliament adopted the resolution by a narrow majority.
The central bank raised interest rates by half a percentage point.
Shares of the company fell sharply after the announcement.
The minister resigned amid allegations of corruption.
Negotiators failed to agree on a ceasefire.
Inflation in the euro area slowed to its lowest level in two years.
The spacecraft entered orbit around Jupiter.
Neural networks are trained by gradient descent.
The attention weights are normalized by a softmax function.
Unplug the device before removing the battery cover.
The compiler optimizes nested loops.
The server rejected the request because the certificate had expired.
Quantum entanglement puzzles physicists.
Photosynthesis converts light energy into chemical energy.
The enzyme catalyzes the hydrolysis of proteins.
The tenant shall indemnify the landlord against all liabilities.
The defendant pleaded not guilty to all charges.
The court dismissed the appeal as unfounded.
This agreement is governed by the laws of England.
Patents expire twenty years after the filing date.
The patient was diagnosed with pneumonia.
Apply the ointment sparingly to the affected skin.
The cathedral was consecrated in the thirteenth century.
The philosopher denied that knowledge presupposes certainty.
A haiku consists of seventeen syllables.
Whisk the egg whites until stiff peaks form.
The goalkeeper parried the penalty in stoppage time.
Glaciers are retreating throughout the Himalayas.
The soprano's vibrato mesmerized the audience.
Beavers gnaw through saplings to dam streams.
""".strip().splitlines()

def levels_of(name, texts):
    "Of each sentence and a model, by the page's own rule: '', 'doubtful' or 'nonsense'"
    translator = Translator(ROOT/'nbs/models'/name, torch.device('cpu'))
    best = [h for [h] in translator.search(texts)]
    numbers = [[sum(h.log_probs), len(h.log_probs)] for h in best]
    node = Node(_join('guess'))
    levels = node.evaluate('numbers => numbers.map(x => modules.guess.levelOfDoubt(...x))',
                           numbers)
    node.close()
    return dict(zip(texts, levels))

def judged(): # -> sentences, and those of them that were translated wrongly
    path = ROOT/'nbs/results/everyday.jsonl'
    rows = map(json.loads, path.read_text(encoding='utf8').splitlines())
    verdicts = {row['source']: row['verdict'] for row in rows
                if row['direction'] == 'en-de' and 'second' in row['models']}
    wrong = {text for text, verdict in verdicts.items() if verdict == 'wrong'}
    return list(verdicts), wrong

@pytest.fixture(scope='module')
def everyday():
    "Levels, sentences, and the wrong ones of them"
    sentences, wrong = judged()
    return levels_of('everyday-en-de', sentences + FAR), sentences, wrong

@pytest.mark.parametrize('first', [0, 1], ids=['chosen', 'others'])
def test_bounds_hold_for_everyday_models(everyday, first):
    levels, sentences, wrong = everyday
    good = [text for text in sentences[first::2] if text not in wrong]
    false_alarms = [text for text in good if levels[text]]
    missed = [text for text in FAR[first::2] if not levels[text]]
    assert len(sentences) == 100 and len(missed) <= 1, missed
    assert len(false_alarms) <= 0.1*len(good), false_alarms

def test_what_is_called_nonsense_is_seldom_understood(everyday):
    levels, sentences, wrong = everyday
    called = [text for text, level in levels.items() if level == 'nonsense']
    understood = [text for text in called if text in sentences and text not in wrong]
    assert len(understood) <= 2 and len(set(called) & set(FAR)) >= 20, understood
