"What counts as a copy, and what a run shows."
from transformer_nb import copy_task
from transformer_nb.copy_task import (
    copy_batch, copy_model, draw_sequences, exact_match, train_copy)
from transformer_nb.support.core import EOS

def test_a_copy_that_does_not_end_is_wrong(monkeypatch):
    sequences = draw_sequences(4, held_out=True)
    _, _, labels = copy_batch(sequences)
    predicted = labels.clone()
    predicted[1:][labels[1:] == EOS] = 7 # all but the first go on
    monkeypatch.setattr(copy_task, 'greedy_decode', lambda *args: predicted)
    assert exact_match(copy_model(), sequences).tolist() == [True, False, False, False]

def test_watch_sees_each_step_and_the_losses_so_far():
    seen = []
    def watch(step, losses): seen.append((step, losses[:]))
    losses = train_copy(copy_model(), steps=3, watch=watch)
    assert seen == [(1, losses[:1]), (2, losses[:2]), (3, losses)]
