"The engine: what is drawn, compared, and told of when and where"
import inspect, pytest, torch
from contextlib import suppress
from dataclasses import replace
from torch import nn
from transformer_nb.proving.compare import compare, observed
from transformer_nb.proving.draw import Choice, Mask, Numbers, Part, Size
from transformer_nb.proving.match import fill
from transformer_nb.proving.when import when
from transformer_nb.proving.repair import repaired
from transformer_nb.proving.where import is_among, sums_of, traced, where

def attention(query, key, value, mask=None):
    scores = query @ key.mT / query.shape[-1]**.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.)
    return weights @ value, weights

PART = Part('attention', {'': dict(
    query=Numbers('b h t k'), key=Numbers('b h s k'), value=Numbers('b h s v'),
    mask=Mask('b h t s'))}, cases=48)

@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)

def without_clearing(query, key, value, mask=None):
    scores = query @ key.mT / query.shape[-1]**.5
    if mask is not None: scores = scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(-1)
    return weights @ value, weights

def wrong(old, new): # of the function above, with one line changed
    text = inspect.getsource(attention)
    assert old in text
    found = dict(torch=torch)
    exec(text.replace(old, new), found)
    return found['attention']

def test_another_way_to_write_it_is_right():
    def other(query, key, value, mask=None):
        scores = torch.einsum('bhtd,bhsd->bhts', query / query.shape[-1]**.5, key)
        if mask is not None: scores = torch.where(mask, scores, -1e30)
        weights = scores.softmax(-1) * (1. if mask is None else mask)
        return torch.einsum('bhts,bhsd->bhtd', weights, value), weights
    assert not compare(PART, other, attention)

WRONG = {
    'softmax over queries': ('softmax(-1)', 'softmax(-2)'),
    'weights without gradients': ('value, weights', 'value, weights.detach()'),
    'one sentence, unscaled': ('query.shape[-1]**.5',
                               '(query.shape[-1]**.5 if len(query) > 1 else 1.)'),
    "the first sentence's mask for all": ('fill(~mask, -', 'fill(~mask[:1], -'),
    'rows of masks by head are not cleared': (
        '    if mask is not None:\n        weights', '    if mask is not None and '
        '(mask.dim() < 4 or mask.shape[1] == 1):\n        weights'),
    'queries without a gradient': ('query @', '(query.detach() + 0 * query) @'),
    'the scale is kept': ('query.shape[-1]**.5', 'attention.__dict__.setdefault("k", '
                          'query.norm())'),
}

@pytest.mark.parametrize('name', WRONG)
def test_a_difference_is_found(name):
    assert compare(PART, wrong(*WRONG[name]), attention, most=1)

def test_arguments_are_given_by_name_too():
    def own(q, k, v, mask=None): return attention(q, k, v, mask)
    found = compare(PART, own, attention, most=1)
    assert 'TypeError' in found[0].came and found[0].step == 'attention, by name'

def test_arguments_afterward_are_compared():
    def own(query, key, value, mask=None):
        result = attention(query, key, value, mask)
        query.data += 1
        return result
    found = compare(PART, own, attention, most=1)
    assert {d.what for d in found} >= {'query afterward'}

def test_when_is_the_empty_row():
    found = compare(PART, without_clearing, attention, most=99)
    first = {d.n for d in found if d.in_first_call}
    passed = {*range(48)} - {d.n for d in found}
    found = when(*([*map(PART.case_features, n)] for n in (first, passed)))
    assert (found.feature, found.there, found.failed) == (
        'a query may attend to nothing', True, found.having)

def test_when_says_no_more_than_was_counted():
    assert 'each of the 3 calls' in str(when([{'a'}, {'b'}, set()], []))
    assert not when([{'a'}], [set(), {'b'}]).feature  # one case is chance
    found = when([{'a', 'x = y'}, {'a', 'x = y'}], [{'c'}, set(), set()])
    assert found.feature == 'a'                       # before what sizes happen to be

def located(folder, part, texts, step=None, n=0):
    "Where the first of two files leaves the second"
    made = []
    for name, text in zip(('own', 'book'), texts):
        path = folder/f'{name}.py'
        path.write_text(text, encoding='utf8')
        found = dict(torch=torch, nn=nn)
        exec(compile(text, str(path), 'exec'), found)
        made.append((found[part.name], str(path)))
    runs = [traced(part, call, n, step or part.name, made[1][0],
                   is_own=lambda file, path=path: file == path) for call, path in made]
    return where(*(run.made for run in runs))

TEXT = '''
def attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1)
    scores = scores / query.shape[-1]**.5
    weights = scores.softmax(-1)
    output = weights @ value
    return output, weights
'''

@pytest.mark.parametrize('old, new, line', [
    ('shape[-1]**.5', 'shape[-1]', 4), ('softmax(-1)', 'softmax(-2)', 5),
    ('weights @ value', 'scores @ value', 6), ('query @ key', '3 * query @ key', 3)])
def test_the_line_is_told(tmp_path, old, new, line):
    place = located(tmp_path, PART, (TEXT.replace(old, new), TEXT))
    assert (place.line.number, place.book.number) == (line, line)

def test_another_way_before_the_mistake_is_not_told(tmp_path):
    text = TEXT.replace('query @ key', '(query / query.shape[-1]**.5) @ key').replace(
        '    scores = scores / query.shape[-1]**.5\n', '')
    text = text.replace('weights @', '2 * weights @')
    place = located(tmp_path, PART, (text, TEXT))
    assert place.line.text == 'output = 2 * weights @ value'

def test_what_never_comes_is_the_line_of_the_book(tmp_path):
    text = TEXT.replace('weights @ value', 'weights')
    place = located(tmp_path, PART, (text, TEXT))
    assert place.line is None and place.book.text == 'output = weights @ value'

def test_where_nothing_is_shared_no_line_is_told(tmp_path):
    part = Part('table', {'': dict(n=Choice((6,)))})
    texts = ('def table(n): return torch.rand(n).cumsum(0) * 3.1',
             'def table(n): return torch.arange(n).double().sin()')
    assert located(tmp_path, part, texts) is None

class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))
    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return x * self.weight + self.bias

class Turned(Norm): # defined in another order, by other names
    def __init__(self, d):
        nn.Module.__init__(self)
        self.shift, self.gain = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.ones(d))
    @property
    def weight(self): return self.gain
    @property
    def bias(self): return self.shift

NORM = Part('Norm', {'': dict(x=Numbers('b t d'))}, dict(d=Size('d')), 12,
            first=('weight', 'bias'))

def test_parameters_are_matched_whatever_their_names_and_order():
    assert not compare(NORM, Turned, Norm)
    mine, ours = Turned(5).double(), Norm(5).double()
    names = fill(mine, ours, lambda m: m(torch.arange(10.).view(2, 5).square()))
    assert names['weight'] is mine.gain

@pytest.mark.parametrize('change', [
    dict(ones=2.), dict(keeps=True), dict(frozen=True), dict(train=True)])
def test_what_only_models_can_do_wrong(change):
    "First values, an output kept, statistics without a gradient, another training mode"
    class Own(Norm):
        def __init__(self, d):
            super().__init__(d)
            self.weight.data *= change.get('ones', 1.)
            self.kept = None
        def forward(self, x):
            if 'train' in change and self.training: return super().forward(2 * x) + 1
            said = super().forward(x)
            if 'frozen' in change: return 0 * said + super().forward(x.detach())
            if 'keeps' not in change: return said
            if self.kept is None or self.kept.shape != x.shape: self.kept = said
            return self.kept
    found = compare(NORM, Own, Norm, most=1)
    assert found
    if 'frozen' not in change: assert not any(d.in_first_call for d in found)

class Drop(nn.Module):
    def __init__(self, p, before=False, scaled=True):
        super().__init__()
        self.p, self.before, self.scaled = p, before, scaled
    def forward(self, x):
        drop = nn.functional.dropout
        if self.before: return drop(x, self.p, self.training).tanh() + x
        dropped = drop(x.tanh(), self.p, self.training)
        return dropped * (1 if self.scaled or not self.training else 1 - self.p) + x

DROP = Part('Drop', {'': dict(x=Numbers('b t d'))}, dict(p=Choice((.4,))), 2, drops=(0, 1))

@pytest.mark.parametrize('own', [lambda p: Drop(.5 * p), lambda p: Drop(p, before=True),
                                 lambda p: Drop(p, scaled=False), lambda p: Drop(0.)])
def test_rate_place_and_scale_of_dropout(own):
    found = compare(DROP, own, Drop)
    assert {'result', 'draws'} <= {d.what for d in found}

def test_masks_have_every_shape_and_some_rows_are_empty():
    shapes, empty = set(), set()
    for n in range(PART.cases):
        mask = PART.drawn(n).calls[''][0]['mask']
        if mask is None: continue
        one = tuple('1' if size == 1 else 'n' for size in mask.shape)
        if PART.case(n).kind != 'ones': shapes.add(one)
        hides_all = (~mask).all(-1)
        empty.add((len(one), bool(hides_all.any())))
    assert len(shapes) == 9 and len(empty) == 6

def test_an_error_has_its_line(tmp_path):
    path = tmp_path/'own.py'
    text = 'def attention(query, key, value, mask=None):\n    return query @ value'
    found = {}
    exec(compile(text, str(path), 'exec'), found)
    notes = observed(PART, found['attention'], 0)
    assert notes['attention · line'] == f'{path}:2'

def test_rounding_of_large_numbers_is_no_difference():
    "A gradient is 0 where there is one key; of large numbers, the fused form leaves some"
    def by(attend):
        def call(x, matrix):
            return attend((x @ matrix)[:, None], x[:, None, :1], x[:, None, :1])
        return call
    part = Part('project', {'': dict(x=Numbers('b t d'), matrix=Numbers('d d'))}, cases=30)
    fused = nn.functional.scaled_dot_product_attention
    assert not compare(part, by(fused), by(lambda *args: attention(*args)[0]))

def test_what_is_hidden_at_other_places_is_not_alike():
    "A large number for each hidden score once left nothing of the others"
    x = torch.randn(6, 6)
    one, other = (x.masked_fill(mask, -torch.inf) for mask in (x > 1, (x > 1).mT))
    assert not is_among(sums_of(one), sums_of(other)[None])

def test_large_sizes_beside_a_texts_numbers_are_few():
    part = replace(PART, numbers=(512, 300, 128, *range(3, 60)))
    sizes = [n for _, n in part.edges]
    assert 2 == sum(n > 64 for n in sizes) < len(sizes) < 20
    assert all(part.drawn(n).case.sizes['h'] < 3 for n in range(part.cases, 99)
               if n - part.cases < len(sizes) and sizes[n - part.cases] > 64)

# The change that mends

TOTAL = '''def total(xs, n, start=1):
    found = start
    for i, x in enumerate(xs[:n]):
        if x < -7: break
        found = found + x * (i + 1)
    return found
'''

@pytest.mark.parametrize('old, new, line', [
    ('x < -7', 'x <= -7', 4), ('x < -7', 'x < 7', 4), ('i + 1', 'i', 5), ('x *', '5 *', 5),
    ('xs[:n]', 'xs', 3), ('= start', '= n', 2), ('    found = start\n', '', 2),
    ('return found', 'return found + n', 6),
    ('enumerate(xs[:n])', 'enumerate(xs[:n], 1)', 3)])
def test_the_line_is_found_whose_change_is_enough(old, new, line):
    cases = [([*map(int, torch.randint(-9, 9, (8,)))], n) for n in range(9)]
    def works(text):
        with suppress(Exception):
            spaces = {}, {'found': 0}
            for x, space in zip((TOTAL, text), spaces): exec(x, space)
            return all(len({space['total'](*x) for space in spaces}) == 1 for x in cases)
    wrong = TOTAL.replace(old, new)
    change = repaired(wrong, TOTAL, {*range(1, 7)}, 0, works, 1000)
    assert not works(wrong) and change.line == line
