"What is special about a case by what is right there, in words of the task"
from collections import Counter
from types import SimpleNamespace
from .toys import PAD

def _true(features:dict)->set[str]: return {name for name, x in features.items() if x}
def _length(x)->int: return 0 if isinstance(x, str) else len(x) # of a list, as it is noted

def of_outputs(right, answer, model, ids, max_steps)->set[str]:
    lengths = {_length(x) for at, x in answer.items() if at.startswith('result')}
    return _true({'one output ends before another': len(lengths) > 1,
                  'an output is empty': 0 in lengths,
                  'an output ends before `max_steps`': min(lengths) < max_steps,
                  'several tokens come': max(lengths) > 1,
                  'more than <s> was begun': len(ids) == 1 < ids.size(1)})

def of_beam(right, answer, model, src, beam_size, alpha, max_steps)->set[str]:
    "By how many live hypotheses the right version asks about, step by step"
    live = Counter()
    model.limit(0)
    def decode(tgt, *rest):
        live[tgt.size(1)] += len(tgt)
        return model.decode(tgt, *rest)
    watched = SimpleNamespace(encode=model.encode, decode=decode)
    right(watched, src, beam_size, alpha, max_steps + 1)
    ended = [min(beam_size, n * min(beam_size, model.made[1])) - live[t + 1]
             for t, n in sorted(live.items()) if t < max(live)] # at the last: not known
    before, goes_on = sum(ended[:_length(answer['result[0]'])]), max(live) > max_steps
    return _true({'no hypothesis has ended after `max_steps`': goes_on and not sum(ended),
                  'some have ended after `max_steps`, and others go on': goes_on and sum(ended),
                  'others end before the best': before,
                  'as many as the beam end before the best': before >= beam_size,
                  'the source is padded': (src == PAD).any()})
