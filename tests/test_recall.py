"Chapter 20's recall: the task, both layers against a loop over the tokens, the stored word"
import json
import pytest, recall, torch
from torch.nn import functional as F
from transformer_nb.judging import mean_interval
from transformer_nb.studies.since_2017 import gated_delta

def drawn(b): return recall.draw(b, torch.Generator().manual_seed(1))

def test_the_answer_is_the_last_value_of_the_key():
    for keys, values, wanted, right in zip(*(x.tolist() for x in drawn(200))):
        assert dict(zip(keys, values))[wanted] == right # later pairs overwrite

@torch.no_grad()
@pytest.mark.parametrize('kind', ['linear', 'delta'])
def test_a_layer_is_the_loop_over_its_tokens(kind):
    torch.manual_seed(0)
    model = recall.StateReader(kind).double()
    keys, values, wanted, _ = drawn(3)
    found = model(keys, values, wanted)
    for i in range(3):
        x = model.keys(keys[i]) + model.values(values[i])
        q, k, v = model.query(model.keys(wanted[i])), model.key(x), model.value(x)
        if kind == 'delta':
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            _, state = gated_delta(k, k, v, *model.gates(x).sigmoid().unbind(-1))
            read = state @ q
        else:
            shares = (F.elu(k) + 1) @ (F.elu(q) + 1)
            read = shares @ v / shares.sum()
        torch.testing.assert_close(found[i], model.output(read))

def test_a_run_gives_what_is_stored_and_the_rule_its_word():
    rows = {r['row']: r for r in map(json.loads, recall.FILE.open(encoding='utf8'))}
    for row in rows.values():
        assert row['rates'][str(row['rate'])] == max(row['rates'].values())
    again = recall.train('linear', rows['linear']['rate'], 1)
    assert again == pytest.approx(rows['linear']['accuracy'][0], abs=0.02)
    pairs = zip(rows['delta']['accuracy'], rows['linear']['accuracy'], strict=True)
    assert mean_interval([a - b for a, b in pairs])[1] > 0 # better
