"""The paper's claims that no reader needs to see proved: each test answers those named in
its first lines, against the formula written out, PyTorch's own module or a count."""
import math
from copy import deepcopy
from dataclasses import replace
from functools import partial
import pytest, torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode
from running import definitions
from transformer_nb.attention import attention, scaled_dot_product_attention as attend
from transformer_nb.support.core import BOS, EOS, PAD
from transformer_nb.embedding import Embedding, PositionalEncoding, positional_encoding
from transformer_nb.layers import FeedForward, ResidualNorm
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.multihead import MultiHeadAttention, causal_mask, padding_mask
from transformer_nb.support.notebook import swap
from transformer_nb.optimizer import (
    adam, inverse_sqrt_lr, paper_lr, set_lr, smoothed_loss)

AdditiveAttention = definitions('01_attention').AdditiveAttention

def randn64(*shape, **options): return torch.randn(*shape, dtype=torch.float64, **options)

assert_close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)

# 01 Attention

def plain(query, key, value, mask=None): return attend(query, key, value, mask)[0]

def test_distance_does_not_matter():
    #| claim C01
    q, k, v = randn64(20, 8), randn64(20, 8), randn64(20, 3)
    output, w = attend(q, k, v)
    order = torch.randperm(20)
    assert_close(plain(q, k[order], v[order]), output)
    # ∂o_ti/∂v_sj as (t, i, s, j): the weight w_ts where i = j, else 0
    jacobian = torch.autograd.functional.jacobian(partial(plain, q, k), v)
    I = torch.eye(3, dtype=v.dtype)
    assert_close(jacobian, w[:, None, :, None] * I[None, :, None, :])

def coins(*shape): return torch.randint(2, shape) * 2. - 1

@pytest.mark.parametrize('draw', [torch.randn, coins])
@pytest.mark.parametrize('d_k', [16, 1024])
def test_how_large_a_dot_product_gets(draw, d_k):
    #| claim C09
    dots = (draw(8000, d_k) * draw(8000, d_k)).sum(-1)
    assert abs(dots.mean().item()) / math.sqrt(d_k) < 0.05
    assert dots.var().item() / d_k == pytest.approx(1, abs=0.05)

def test_additive_attention_is_the_network_for_each_pair():
    #| claim C07
    additive = AdditiveAttention(d_k=8, d_hidden=6).double()
    W = torch.cat([additive.query.weight, additive.key.weight], 1) # (d_hidden, 2·d_k)
    q, k, v = randn64(5, 8), randn64(7, 8), randn64(7, 3)
    output, weights = additive(q, k, v)
    for t in range(5):
        hidden = [torch.tanh(W @ torch.cat([q[t], key])) for key in k]
        scores = torch.stack(hidden) @ additive.score.weight[0]
        expected = scores.softmax(-1)
        assert_close(weights[t], expected)
        assert_close(output[t], expected @ v)

class Traffic(TorchDispatchMode):
    "Counts numbers that go through exp or tanh, and bytes that operations read and write"
    def __init__(self):
        super().__init__()
        self.n_functions = self.n_bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        read = [x for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
        places = [x.untyped_storage().data_ptr() for x in read]
        is_view = result.untyped_storage().data_ptr() in places
        if not is_view: self.n_bytes += sum(x.nbytes for x in [*read, result])
        is_function = func.name() in ('aten::tanh', 'aten::_softmax')
        if is_function: self.n_functions += result.numel()
        return result

def kept_bytes(form, *inputs):
    "Of each tensor that is kept for the backward pass, the largest first"
    kept = {}
    def note(x):
        storage = x.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes(), x
        return x
    with saved_tensors_hooks(note, lambda x: x): form(*inputs)
    return sorted((n for n, _ in kept.values()), reverse=True)

def counts(form, t, s, d): # a pass forward and backward
    inputs = [torch.randn(n, d, requires_grad=True) for n in (t, s, s)]
    with FlopCounterMode(display=False) as products, Traffic() as traffic:
        form(*inputs)[0].sum().backward()
    return products.get_total_flops(), traffic, kept_bytes(form, *inputs)

@pytest.mark.parametrize('t, s, d', [(256, 256, 64), (50, 40, 64), (20, 30, 16),
                                     (100, 1, 8)])
def test_dot_products_need_less_work_and_space(t, s, d):
    #| claim C08
    flops, traffic, kept = counts(attend, t, s, d)
    more_flops, more, kept_more = counts(AdditiveAttention(d, d), t, s, d)
    pairs, all_three = t*s, t*s*d
    assert flops == 12*all_three # two products, each forward, twice back
    assert more_flops == flops + 6*d*d*(t + s)         # the projections
    assert (traffic.n_functions, more.n_functions) == (pairs, pairs + all_three)
    assert traffic.n_bytes < 4 * 20*(pairs + t*d + s*d) # nothing of size t·s·d
    assert more.n_bytes > max(4 * 8*all_three, traffic.n_bytes)
    assert kept[0] == 4*max(pairs, t*d, s*d) and kept_more[0] == 4*all_three
    assert sum(kept_more) > sum(kept)

def with_gradients(form, *inputs):
    inputs = [x.detach().requires_grad_() for x in inputs]
    output = form(*inputs)
    sent = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return output.detach(), *torch.autograd.grad(output, inputs, sent)

@pytest.mark.parametrize('form', [plain, attention])
def test_forbidden_keys_are_as_if_they_were_not_there(form):
    #| claim C11
    q, k, v = randn64(2, 3, 5, 8), randn64(2, 3, 7, 8), randn64(2, 3, 7, 4)
    mask = torch.rand(5, 7) < 0.5
    mask[2] = False                                    # a row that may attend to nothing
    output, *gradients = with_gradients(partial(form, mask=mask), q, k, v)
    assert all(x.isfinite().all() for x in (output, *gradients))
    assert (output[:, :, 2] == 0).all() and (gradients[0][:, :, 2] == 0).all()
    _, weights = attend(q, k, v, mask)
    assert (weights[..., ~mask] == 0).all()            # exactly 0
    sees_any = mask.any(-1).double()
    assert_close(weights.sum(-1), sees_any.expand(2, 3, 5))
    for t in (0, 1, 3, 4):
        if mask[t].any():
            alone = plain(q[:, :, t:t+1], k[:, :, mask[t]], v[:, :, mask[t]])
            assert_close(output[:, :, t:t+1], alone)

# 02 Multi-head attention

def multihead(m, Q, K, V, mask=None):
    k, _ = m.keys_values(K)
    _, v = m.keys_values(V)
    return m.attend(m.queries(Q), k, v, mask)

def matrices(m): # W_Q, W_K and W_V of all heads (h, d, d_k), and W_O, as views
    maps = m.query, m.key, m.value
    of_heads = [linear.weight.unflatten(0, (m.n_heads, -1)).mT for linear in maps]
    return *of_heads, m.output.weight.T

def loop(Q, K, V, W_Q, W_K, W_V, W_O, mask=None):
    heads = [attend(Q @ q, K @ k, V @ v, mask)[0] for q, k, v in zip(W_Q, W_K, W_V)]
    return torch.cat(heads, -1) @ W_O

def gradients(output, *tensors): # of a sum in which no two elements count alike
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype)
    return torch.autograd.grad((output.flatten() * weights).sum(), tensors)

def case(d, h, d_k, d_v):
    inputs = [randn64(2, n, d, requires_grad=True) for n in (5, 7, 7)]
    return inputs, MultiHeadAttention(d, h, d_k, d_v).double()

def stored(g): return g.mT.flatten(0, 1) # (h, d, d_k) to (h·d_k, d)

SOME_MASK = torch.ones(5, 7, dtype=torch.bool).tril(2) # no row is empty

@pytest.mark.parametrize('mask', [None, SOME_MASK])
@pytest.mark.parametrize('sizes', [(12, 3, 4, 4), (12, 3, 5, 7), (12, 4, 6, 1),
                                   (12, 1, 12, 12)])
def test_the_heads_at_once_are_the_loop(sizes, mask):
    #| claim C16
    inputs, m = case(*sizes)
    parts = [W.detach().clone().requires_grad_() for W in matrices(m)]
    expected, module = loop(*inputs, *parts, mask), multihead(m, *inputs, mask)
    assert_close(module, expected)
    weights = m.query.weight, m.key.weight, m.value.weight, m.output.weight
    *g_inputs, g_Q, g_K, g_V, g_O = gradients(expected, *inputs, *parts)
    wanted = *g_inputs, stored(g_Q), stored(g_K), stored(g_V), g_O.T
    for a, b in zip(gradients(module, *inputs, *weights), wanted): assert_close(a, b)
    x, memory, _ = inputs
    assert_close(m(x), multihead(m, x, x, x))
    assert_close(m(x, memory, mask), multihead(m, x, memory, memory, mask))

@pytest.mark.parametrize('d_model, h, d_k, d_v',
                         [(512, 8, 64, 64), (512, 8, 16, 64), (12, 3, 5, 7)])
def test_the_matrices_have_the_shapes_of_the_paper(d_model, h, d_k, d_v):
    #| claim C17
    m = MultiHeadAttention(d_model, h, d_k, d_v)
    W_Q, W_K, W_V, W_O = matrices(m)
    assert W_Q.shape == W_K.shape == (h, d_model, d_k)
    assert W_V.shape == (h, d_model, d_v) and W_O.shape == (h*d_v, d_model)
    n_learned = sum(p.numel() for p in m.parameters()) # these matrices and nothing else
    assert n_learned == h*(2*d_model*d_k + d_model*d_v) + h*d_v*d_model
    with torch.no_grad(): W_Q[0] = 7. # a view: the parameter changes
    assert (m.query.weight[:d_k] == 7).all()

def test_equal_values_leave_no_trace_of_query_and_keys():
    #| claim C20
    for _ in range(1000):
        m = MultiHeadAttention(d_model=4, n_heads=1, d_k=8, d_v=8).double()
        query, keys, x = 3*randn64(1, 1, 4), 3*randn64(1, 2, 4), randn64(1, 1, 4)
        *_, W_V, W_O = matrices(m)
        assert_close(multihead(m, query, keys, x.expand(1, 2, 4)), x @ W_V[0] @ W_O)

# 03 Layers

@pytest.fixture
def network(): return FeedForward(8, 32).double()

def written_out(network, x):
    "Eq. (2), unit after unit"
    y = network.outer.bias.clone()
    for pattern, bias, row in zip(network.inner.weight, network.inner.bias,
                                  network.outer.weight.T):
        y = y + max(x @ pattern + bias, 0) * row
    return y

def test_the_network_is_the_equation_at_every_position(network):
    #| claim C24
    x = randn64(2, 5, 8)
    for sentence, output in zip(x, network(x)):
        for vector, y in zip(sentence, output):
            assert_close(y, written_out(network, vector))

def test_separately_and_identically(network):
    #| claim C25
    x = randn64(5, 8)
    jacobian = torch.autograd.functional.jacobian(network, x)    # (t, d, t, d)
    size = jacobian.square().sum((1, 3)).sqrt()
    assert torch.equal(size > 0, torch.eye(5).bool())            # only the diagonal
    for order in (torch.randperm(5), torch.arange(5).flip(0), torch.tensor([0, 0, 0])):
        assert_close(network(x[order]), network(x)[order]) # in any order; twins, too

def test_two_convolutions_of_kernel_size_1(network):
    #| claim C26
    x = randn64(2, 5, 8)
    first = nn.Conv1d(8, 32, kernel_size=1).double()
    second = nn.Conv1d(32, 8, kernel_size=1).double()
    for convolution, linear in ((first, network.inner), (second, network.outer)):
        kernel = linear.weight[:, :, None]                       # (out, in, 1)
        convolution.load_state_dict({'weight': kernel, 'bias': linear.bias})
    assert_close(second(first(x.mT).relu()).mT, network(x))

def normalized(x, norm): # the formula
    deviation = x - x.mean(-1, keepdim=True)
    variance = deviation.square().mean(-1, keepdim=True)
    return norm.weight * deviation / (variance + 1e-5).sqrt() + norm.bias

def norm_after_training():
    norm = nn.LayerNorm(8).double()
    for parameter in norm.parameters(): nn.init.normal_(parameter)
    return norm

@pytest.mark.parametrize('p_drop', [0., 0.3, 1.])
@pytest.mark.parametrize('kind', ['attention', 'network'])
def test_add_and_norm_is_the_composition(kind, p_drop, network):
    #| claim C21
    sublayer = network
    if kind == 'attention': sublayer = MultiHeadAttention(8, 2, 4, 4).double()
    x, norm = randn64(2, 5, 8), norm_after_training()
    for order in ('post', 'pre'):
        around = ResidualNorm(8, p_drop, order).double()
        around.norm.load_state_dict(norm.state_dict())
        for mode in (True, False):
            around.train(mode)
            drop = nn.Dropout(p_drop).train(mode)
            torch.manual_seed(1)
            output = around(x, sublayer)
            torch.manual_seed(1)
            if order == 'post': expected = normalized(x + drop(sublayer(x)), norm)
            else: expected = x + drop(sublayer(normalized(x, norm)))
            assert_close(output, expected)
    assert_close(norm(x), normalized(x, norm))

# 04 Embedding

@pytest.mark.parametrize('d_model', [2, 6, 64, 512])
def test_the_encodings_are_the_sines_and_cosines_of_the_formula(d_model):
    #| claim C32
    PE = positional_encoding(300, d_model, torch.float64)
    for pos in (0, 1, 2, 17, 299):
        for i in range(d_model // 2):
            angle = pos / 10000**(2*i/d_model)
            assert PE[pos, 2*i].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert PE[pos, 2*i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)

@pytest.mark.parametrize('d_model, last', [(16, 3162), (64, 7499), (512, 9647)])
def test_the_wavelengths_never_reach_the_paper_s_limit(d_model, last):
    #| claim C33
    sines, cosines = positional_encoding(2, d_model, torch.float64)[1].view(-1, 2).T
    turns = 1 / torch.atan2(sines, cosines) # wavelengths in units of 2π
    assert turns[0].item() == pytest.approx(1, rel=1e-12)
    growth = turns[1:] / turns[:-1]
    torch.testing.assert_close(growth, torch.full_like(growth, 10000**(2/d_model)))
    assert round(turns[-1].item()) == last and turns[-1] < 10_000

def shift(k, omega): # the block of M_k
    c, s = math.cos(omega*k), math.sin(omega*k)
    return torch.tensor([[c, s], [-s, c]], dtype=torch.float64)

@pytest.mark.parametrize('d_model, k', [(8, 1), (512, 100)])
def test_to_move_on_is_to_turn(d_model, k):
    #| claim C34
    PE = positional_encoding(1100, d_model, torch.float64)
    blocks = [shift(k, 10000**(-2*i/d_model)) for i in range(d_model // 2)]
    moved = PE[:1000] @ torch.block_diag(*blocks).T
    torch.testing.assert_close(moved, PE[k:1000 + k], rtol=0, atol=1e-10)

complex128 = partial(torch.tensor, dtype=torch.complex128)

def test_the_same_law_on_a_power_line():
    #| claim C60
    def line(l, z, y): # ABCD matrix of a line of length l
        gamma, Z_C = complex128(y*z).sqrt(), complex128(z/y).sqrt()
        A, S = torch.cosh(gamma*l), torch.sinh(gamma*l)
        return torch.stack([A, Z_C*S, S/Z_C, A]).view(2, 2)
    z, y, l = 0.03 + 0.32j, 4e-6j, 300.
    ABCD = line(l, z, y)
    assert_close(torch.matrix_exp(l * complex128([[0, z], [y, 0]])), ABCD)
    assert_close(torch.linalg.det(ABCD), complex128(1.))
    assert_close(line(100., z, y) @ line(200., z, y), ABCD)
    for omega in (1., 0.1, 0.001):
        law = torch.tensor([[0, omega], [-omega, 0]], dtype=torch.float64)
        for k in (1, 5, 100): assert_close(torch.matrix_exp(k * law), shift(k, omega))
    z, y = 0.32j, 4e-6j # without losses it is a turn
    beta, Z_C = (0.32 * 4e-6)**0.5, (0.32 / 4e-6)**0.5
    unit = complex128([[1, 0], [0, 1j*Z_C]])
    assert_close(unit @ line(l, z, y) @ unit.inverse(), shift(l, beta).to(torch.complex128))

def test_embeddings_come_to_the_scale_of_the_positions():
    #| claim C29
    embed, PE = Embedding(1000, 512), positional_encoding(50, 512)
    def rms(x): return x.square().mean().sqrt().item()
    assert rms(embed(torch.arange(1000))) == pytest.approx(1, abs=0.02)
    assert rms(PE) == pytest.approx(0.5**0.5, abs=1e-5)
    torch.testing.assert_close(PE.norm(dim=-1), torch.full((50,), 16.)) # √(512/2)
    tokens, positions = torch.arange(1000), PE[torch.randint(50, (1000,))]
    def recognized(factor): # which token was it?
        sums = embed(tokens)*factor + positions
        return (embed.logits(sums).argmax(-1) == tokens).double().mean()
    assert recognized(1.) > 0.99 and recognized(512**-0.5) < 0.2

# 05 Model

SMALL = TransformerConfig(vocab_size=20, d_model=16, d_ff=32, n_heads=4, dropout=0.,
                          n_encoder_layers=2, n_decoder_layers=3)

def drawn(*shape): return torch.randint(4, 20, shape)

def watched(model, src, tgt):
    "By the name of every module in one run: the module, what it read, what it gave"
    seen, hooks = {}, []
    def watch(name, module, args, kwargs, output):
        seen[name] = module, args, kwargs, output
    for name, module in model.named_modules():
        hooks.append(module.register_forward_hook(partial(watch, name), with_kwargs=True))
    with torch.no_grad(): model(src, tgt)
    for hook in hooks: hook.remove()
    return seen

class Watched:
    "The base model, and what a hook saw of a run with 9 source and 7 target tokens"
    def __init__(self):
        torch.manual_seed(0)
        self.model = Transformer(TransformerConfig.base(37_000)).eval()
        self.src = torch.randint(4, 37_000, (2, 9))
        self.tgt = torch.randint(4, 37_000, (2, 7))
        self.seen = watched(self.model, self.src, self.tgt)

    def read_by(self, name): return self.seen[name][1][0]
    def given_by(self, name): return self.seen[name][3]

@pytest.fixture(scope='module')
def base(): return Watched()

def test_one_size_everywhere(base):
    #| claim C22
    sizes, kinds = {}, (MultiHeadAttention, FeedForward, ResidualNorm, PositionalEncoding,
                        Embedding)
    for module, _, _, output in base.seen.values():
        if not isinstance(module, kinds): continue
        sizes.setdefault(type(module).__name__, []).append(output.shape[-1])
    # of the embedding, which is called twice, the later call was kept
    assert sizes == dict(Embedding=[512], PositionalEncoding=[512]*2,
                         MultiHeadAttention=[512]*18, FeedForward=[512]*12,
                         ResidualNorm=[512]*30)

def test_eight_heads_of_size_64(base):
    #| claim C18
    c = base.model.config
    assert (c.n_heads, c.d_k, c.d_v, c.d_model / c.n_heads) == (8, 64, 64, 64)
    names = [name for name in base.seen if name.endswith('_attention')]
    assert len(names) == 18
    for name in names: # eight separate heads are what is handed to W^O
        m, (x,), kwargs, _ = base.seen[name]
        memory, mask = kwargs.get('memory', x), kwargs['mask']
        if mask.dim() == 4: mask = mask[:, 0]
        heads = []
        for W_Q, W_K, W_V in zip(*matrices(m)[:3]):
            assert W_Q.shape == W_K.shape == W_V.shape == (512, 64)
            scores = (x @ W_Q) @ (memory @ W_K).mT / 8
            weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
            heads.append(weights @ (memory @ W_V))
        assert len(heads) == 8
        read = base.read_by(f'{name}.output')
        torch.testing.assert_close(torch.cat(heads, -1), read, rtol=0, atol=1e-5)

def structure(layer): return {name: p.shape for name, p in layer.named_parameters()}

def test_six_identical_layers_and_a_third_sublayer(base):
    #| claim C23
    for stack, n_sublayers in ((base.model.encoder, 2), (base.model.decoder, 3)):
        assert len(stack.layers) == 6
        for layer in stack.layers:
            assert structure(layer) == structure(stack.layers[0])
            assert len(layer.residuals) == n_sublayers
    for i in range(6):
        _, _, kwargs, _ = base.seen[f'decoder.layers.{i}.cross_attention']
        assert kwargs['memory'] is base.given_by('encoder')
    for stack in ('encoder', 'decoder'):
        for i in range(1, 6): # each layer reads what the one below gave
            below = base.given_by(f'{stack}.layers.{i - 1}')
            assert base.read_by(f'{stack}.layers.{i}') is below

def head_outputs(m, x, memory, mask):
    "What the heads of an attention give, before W^O mixes them (b, h, t, d_v)"
    kept = []
    def keep(output, args): kept.append(m.split_heads(args[0]))
    with m.output.register_forward_pre_hook(keep): m(x, memory, mask)
    return kept[0]

@torch.no_grad()
def who_reads_whom(m, args, kwargs, output):
    "True where head h at position i uses the key or the value of position j (b, h, i, j)"
    x, mask = args[0], kwargs['mask']
    memory = kwargs.get('memory', x)
    before, columns = head_outputs(m, x, memory, mask), []
    for j in range(memory.shape[1]):
        other = memory.clone()
        other[:, j] += torch.randn_like(other[:, j])
        columns.append((head_outputs(m, x, other, mask) != before).any(-1))
    return torch.stack(columns, -1)

def test_who_attends_to_whom():
    #| claim C14 C15
    model = Transformer(SMALL).double()
    src, tgt = drawn(2, 40), drawn(2, 30)
    src[1, 25:] = PAD
    calls = watched(model, src, tgt)
    real, past = (src != PAD)[:, None, None], causal_mask(30)
    expected = {'encoder.layers.{}.self_attention': (2, real.expand(2, 4, 40, 40)),
                'decoder.layers.{}.cross_attention': (3, real.expand(2, 4, 30, 40)),
                'decoder.layers.{}.self_attention': (3, past.expand(2, 4, 30, 30))}
    for name, (n_layers, allowed) in expected.items():
        for i in range(n_layers):
            assert torch.equal(who_reads_whom(*calls[name.format(i)]), allowed), name
    logits = model(src, tgt)
    for b, j in (src != PAD).nonzero().tolist(): # every source token reaches every logit
        other = src.clone()
        other[b, j] = 4 + (other[b, j] - 3) % 16 # another of the 16 tokens
        moved = (model(other, tgt) != logits).any(-1)
        assert moved[b].all() and not moved[1 - b].any()

def test_every_network_has_parameters_of_its_own(base):
    #| claim C27
    layers = [*base.model.encoder.layers, *base.model.decoder.layers]
    networks = [layer.feed_forward for layer in layers]
    for f in networks:
        assert f.inner.weight.shape == (2048, 512) and f.outer.weight.shape == (512, 2048)
    assert base.given_by('encoder.layers.0.feed_forward.inner').shape == (2, 9, 2048)
    assert len({p.data_ptr() for f in networks for p in f.parameters()}) == 12*4
    for name in ('inner', 'outer'):
        assert len({getattr(f, name).weight.sum().item() for f in networks}) == 12

def test_positions_at_the_bottoms_of_both_stacks(base):
    #| claim C35
    for stack, tokens in (('encoder', base.src), ('decoder', base.tgt)):
        vectors = base.model.output.weight[tokens] * math.sqrt(512)
        encodings = positional_encoding(tokens.shape[1], 512)
        bottom = base.read_by(f'{stack}.layers.0')
        torch.testing.assert_close(bottom, vectors + encodings, rtol=0, atol=1e-5)
    tables = [name for name, module in base.model.named_modules()
              if isinstance(module, PositionalEncoding)]
    assert tables == ['src_positions', 'tgt_positions']

def test_one_matrix_in_three_places(base):
    #| claim C28
    matrix = base.model.output.weight
    assert base.model.src_embedding.weight is base.model.tgt_embedding.weight is matrix
    tied = Transformer(SMALL).double()
    apart = Transformer(replace(SMALL, tie_embeddings=False)).double()
    copies = {f'embeddings.{i}.weight': tied.output.weight for i in range(3)}
    apart.load_state_dict(tied.state_dict() | copies)
    src, tgt, labels = drawn(2, 5), drawn(2, 6), drawn(2, 6)
    for m in (tied, apart): F.cross_entropy(m(src, tgt).mT, labels).backward()
    assert_close(apart(src, tgt), tied(src, tgt))
    gradients = [e.weight.grad for e in apart.embeddings]
    assert all(g.abs().max() > 0 for g in gradients) # every use has its say
    assert_close(sum(gradients), tied.output.weight.grad)
    probe = torch.randn(1, 1, 16, dtype=torch.float64)
    def uses(): return (tied.src_embedding(src).detach(), tied.tgt_embedding(tgt).detach(),
                        tied.output.logits(probe).detach())
    before = uses()
    torch.optim.SGD(tied.parameters(), lr=0.1).step()
    for old, new in zip(before, uses()): assert (new - old).abs().max() > 1e-4

def probability_of_all(model, n):
    "Sum of the probabilities of all sequences of n tokens, given some source"
    every = torch.cartesian_prod(*[torch.arange(model.config.vocab_size)]*n) # (v^n, n)
    tgt = torch.cat([torch.full((len(every), 1), BOS), every[:, :-1]], 1)
    src = torch.tensor([[3, 4, EOS]]).expand(len(every), -1)
    probabilities = model(src, tgt).softmax(-1)
    return probabilities.gather(-1, every[..., None]).prod(1).sum().item()

def see_all(t, device=None): return torch.ones(t, t, dtype=torch.bool, device=device)

def test_all_sequences_share_a_probability_of_1():
    #| claim C30
    of_five = Transformer(replace(SMALL, vocab_size=5)).double()
    assert probability_of_all(of_five, 3) == pytest.approx(1, abs=1e-12)
    with swap(causal_mask, see_all): assert abs(probability_of_all(of_five, 3) - 1) > 1e-3

def drop(x): return F.dropout(x, 0.3)

def encoder_layer(layer, x, mask):
    first, second = layer.residuals
    x = first.norm(x + drop(layer.self_attention(x, mask=mask)))
    return second.norm(x + drop(layer.feed_forward(x)))

def decoder_layer(layer, y, memory, mask, memory_mask):
    first, second, third = layer.residuals
    y = first.norm(y + drop(layer.self_attention(y, mask=mask)))
    y = second.norm(y + drop(layer.cross_attention(y, memory, memory_mask)))
    return third.norm(y + drop(layer.feed_forward(y)))

def whole_model(m, src, tgt):
    "The model as the paper describes it, with `drop` where §5.4 has it"
    matrix, d = m.output.weight, m.config.d_model
    memory_mask, mask = padding_mask(src), causal_mask(tgt.shape[1])
    x = drop(matrix[src] * math.sqrt(d) + positional_encoding(src.shape[1], d))
    for layer in m.encoder.layers: x = encoder_layer(layer, x, memory_mask)
    y = drop(matrix[tgt] * math.sqrt(d) + positional_encoding(tgt.shape[1], d))
    for layer in m.decoder.layers: y = decoder_layer(layer, y, x, mask, memory_mask)
    return y @ matrix.T

def test_what_dropout_acts_on():
    "One dropout more, fewer, or elsewhere, would draw or use other random numbers"
    #| claim C48
    model, src, tgt = Transformer(replace(SMALL, dropout=0.3)), drawn(2, 5), drawn(2, 6)
    torch.manual_seed(1)
    logits = model(src, tgt)
    torch.manual_seed(1)
    torch.testing.assert_close(logits, whole_model(model, src, tgt), rtol=0, atol=1e-5)
    in_use = model.eval()(src, tgt)
    assert torch.equal(model(src, tgt), in_use)
    assert not torch.equal(model.train()(src, tgt), in_use)
    without = deepcopy(model)
    for m in without.modules():
        if isinstance(m, nn.Dropout): m.p = 0.
    assert torch.equal(without(src, tgt), in_use) # nothing else is random

# Table 3, and what a run costs

def both(n): return dict(n_encoder_layers=n, n_decoder_layers=n)
def heads(h, d): return dict(n_heads=h, d_k=d, d_v=d)

BIG = dict(d_model=1024, d_ff=4096, n_heads=16, dropout=0.3)
TABLE_3 = [ # row, difference to base, parameters in millions
    ('base', {}, 65), ('A', heads(1, 512), None), ('A', heads(4, 128), None),
    ('A', heads(16, 32), None), ('A', heads(32, 16), None),
    ('B', dict(d_k=16), 58), ('B', dict(d_k=32), 60),
    ('C', both(2), 36), ('C', both(4), 50), ('C', both(8), 80),
    ('C', dict(d_model=256), 28),
    ('C', dict(d_model=1024), 168), ('C', dict(d_ff=1024), 53), ('C', dict(d_ff=4096), 90),
    ('D', dict(dropout=0.), None), ('D', dict(dropout=0.2), None),
    ('E', dict(positions='learned'), None), ('big', BIG, 213)]

def row(changes, vocab_size=37_000): return TransformerConfig.base(vocab_size, **changes)

def counted(config):
    with torch.device('meta'): model = Transformer(config)
    return sum(p.numel() for p in model.parameters())

def by_hand(c):
    "Number of parameters of a model with tied embeddings"
    attention = c.d_model * c.n_heads * (2*c.d_k + 2*c.d_v)
    feed_forward = 2*c.d_model*c.d_ff + c.d_ff + c.d_model
    encoder = attention + feed_forward + 2 * 2*c.d_model
    decoder = 2*attention + feed_forward + 3 * 2*c.d_model
    positions = 2*c.max_len*c.d_model if c.positions == 'learned' else 0
    layers = c.n_encoder_layers*encoder + c.n_decoder_layers*decoder
    return c.vocab_size*c.d_model + positions + layers

def test_one_vocabulary_explains_ten_rows_and_not_big():
    #| claim C54
    assert TransformerConfig.big(37_000) == row(BIG)
    for _, changes, _ in TABLE_3: assert counted(row(changes)) == by_hand(row(changes))
    def prints(changes, vocab_size): return round(counted(row(changes, vocab_size)) / 1e6)
    for vocab_size in (41_004, 41_208): # sharp ends
        for name, changes, millions in TABLE_3:
            if millions and name != 'big': assert prints(changes, vocab_size) == millions
    assert counted(row(dict(d_ff=1024), 41_003)) == 52_499_968 # would print 52, not 53
    assert counted(row(both(4), 41_209)) == 50_500_096         # would print 51, not 50
    assert prints(BIG, 36_000) == 213 != prints(BIG, 41_004)
    for name, changes, _ in TABLE_3:
        if name == 'A': assert counted(row(changes)) == counted(row({}))
    millions = [round(counted(row(changes)) / 1e6, 1) for changes in ({}, BIG)]
    assert millions == [63.0, 214.2]
    untied = counted(row({}, 41_100)) + 41_100*512 # a matrix of its own for the output
    assert round(untied / 1e6) == 86

def counted_flops(config, length=25, tokens=25_000):
    "FLOPs of one step on `tokens` source and target tokens, in sentences of `length`"
    with torch.device('meta'), swap(attention, plain):
        model = Transformer(config)
        ids = torch.zeros(tokens // length, length, dtype=torch.long)
        with FlopCounterMode(display=False) as counter: model(ids, ids).sum().backward()
    return counter.get_total_flops()

def flops_by_hand(c, n=25, tokens=25_000):
    projections = c.d_model * (2*c.d_k + 2*c.d_v)
    attention = c.n_heads * (projections + n * (c.d_k + c.d_v))
    feed_forward = 2*c.d_model*c.d_ff
    encoder = c.n_encoder_layers * (attention + feed_forward)
    decoder = c.n_decoder_layers * (2*attention + feed_forward)
    return 3 * 2*tokens * (encoder + decoder + c.vocab_size*c.d_model)

def test_what_a_run_costs():
    #| claim C53
    base = TransformerConfig.base(37_000)
    odd = TransformerConfig.tiny(99, d_k=5, d_v=7, n_decoder_layers=3) # all sizes different
    for config, n in ((base, 25), (base, 100), (odd, 10)):
        assert counted_flops(config, n) == flops_by_hand(config, n)
    runs = [(base, 12*3600, 100_000, 3.3e18, 0.29),   # seconds, steps, Table 2, share used
            (TransformerConfig.big(37_000), 3.5*24*3600, 300_000, 2.3e19, 0.42)]
    for config, seconds, steps, table, share in runs:
        estimate = seconds * 8 * 9.5e12               # 8 P100, FLOPs per second
        assert abs(estimate / table - 1) < 0.01
        assert steps * flops_by_hand(config) / estimate == pytest.approx(share, abs=0.005)
    for _, changes, _ in TABLE_3: # six FLOPs per parameter and token
        rule = 6 * 25_000 * by_hand(row(changes))
        assert flops_by_hand(row(changes)) == pytest.approx(rule, rel=0.03)

# 06 Optimizer

def adam_step(theta, g, m, v, t, lr): # §5.3, written out
    m = 0.9*m + 0.1*g
    v = 0.98*v + 0.02*g**2
    step = (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
    return theta - lr*step, m, v

def test_the_optimizer_takes_the_steps_of_the_paper():
    #| claim C44
    config = TransformerConfig(20, d_model=16, d_ff=32, n_heads=2, dropout=0.,
                               n_encoder_layers=1, n_decoder_layers=1)
    model = Transformer(config).double()
    optimizer = adam(model)
    assert optimizer.defaults['betas'] == (0.9, 0.98) and optimizer.defaults['eps'] == 1e-9
    parameters = list(model.parameters())
    states = [(p.detach().clone(), 0., 0.) for p in parameters]  # theta, m, v
    for t in range(1, 6):
        src, tgt = torch.randint(4, 20, (3, 7)), torch.randint(4, 20, (3, 5))
        optimizer.zero_grad()
        model(src, tgt).logsumexp(-1).sum().backward()
        set_lr(optimizer, 0.01*t)
        optimizer.step()
        for i, p in enumerate(parameters):
            theta, m, v = states[i]
            states[i] = adam_step(theta, p.grad, m, v, t, lr=0.01*t)
            assert_close(p.detach(), states[i][0])

@pytest.mark.parametrize('d_model, warmup', [(64, 1), (512, 4000)])
def test_the_rate_rises_on_a_line_and_falls_with_the_root(d_model, warmup):
    #| claim C45
    rates = [paper_lr(step, d_model, warmup) for step in range(1, 5*warmup + 1)]
    peak = (d_model * warmup)**-0.5
    rising = [peak * step/warmup for step in range(1, warmup + 1)]
    falling = [peak * (warmup/step)**0.5 for step in range(warmup, 5*warmup + 1)]
    assert rates[:warmup] == pytest.approx(rising)
    assert rates[warmup - 1:] == pytest.approx(falling)
    assert max(rates) == rates[warmup - 1] == pytest.approx(peak)
    named = [inverse_sqrt_lr(step, peak, warmup) for step in range(1, 5*warmup + 1)]
    assert named == pytest.approx(rates)

def test_the_smoothed_loss_is_divergence_plus_entropy():
    #| claim C49
    logits = randn64(2, 6, 11, requires_grad=True)
    labels = torch.randint(4, 11, (2, 6))
    labels[0, 4:] = 0                                            # padding
    real = labels != 0
    p = logits[real].softmax(-1)
    q = torch.full_like(p, 0.1/11).scatter_add(
        1, labels[real][:, None], torch.full((len(p), 1), 0.9, dtype=torch.float64))
    divergence = (q * (q/p).log()).sum()
    entropy = -(q * q.log()).sum()
    builtin = F.cross_entropy(logits[real], labels[real], label_smoothing=0.1,
                              reduction='sum')
    ours = smoothed_loss(logits, labels)
    def gradient(loss): return torch.autograd.grad(loss, logits, retain_graph=True)[0]
    for loss in (divergence + entropy, builtin):
        assert_close(ours, loss)
        assert_close(gradient(ours), gradient(loss))
    assert_close(gradient(ours)[real], (p - q).detach())                 # the closed form
    assert not gradient(ours)[~real].any()
    assert math.isclose(smoothed_loss(torch.zeros(1, 1, 5), torch.tensor([[4]])).item(),
                        math.log(5), rel_tol=1e-6)
