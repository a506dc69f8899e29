#!/usr/bin/env python3
"""Is right code refused by the grader of chapter 15c? Right submissions, written otherwise.

    python benchmarks/rewrites.py --each 50                  # versions of every file
    python benchmarks/rewrites.py --each 9 --stage 3 --keep FOLDER
    python benchmarks/rewrites.py --each 9 --out nbs/results/grader.jsonl

Each version of a file of tests/submission is that file after some of the changes below,
which leave what it computes as it is: other names, another order of methods, keywords for
positions, loops for comprehensions, methods for functions, other ways of PyTorch to say
the same. Every version has to get full points; one that does not is a false alarm, or one
of the changes is wrong, and a person decides which. `--keep` writes the versions.
"""
import argparse, ast, copy, random, textwrap
from collections import Counter
from pathlib import Path
from grader import ROOT, STAGES, answered, commit, fate, graded_cheaply, write
from transformer_nb.grading.report import report

# What a file may say instead, word for word: the first of a row stands in tests/submission

WAYS = {
    'attention.py': [
        ["torch.einsum('bhtd,bhsd->bhts', query, key)", 'query @ key.transpose(-2, -1)',
         'torch.matmul(query, key.mT)', "torch.einsum('...td,...sd->...ts', query, key)",
         '(query[..., :, None, :] * key[..., None, :, :]).sum(-1)'],
        [' / math.sqrt(d_k)', ' * d_k ** -0.5', ' / d_k ** 0.5',
         ' / torch.tensor(float(d_k), dtype=query.dtype).sqrt()'],
        ["scores.masked_fill(mask == False, float('-inf'))",
         'scores.masked_fill(~mask, -torch.inf)', 'scores.masked_fill(mask.logical_not(), '
         '-math.inf)', 'torch.where(mask, scores, -torch.inf)',
         'scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)'],
        ['torch.nan_to_num(weights, nan=0.0)', 'weights.nan_to_num(0.0)',
         'torch.where(torch.isnan(weights), torch.zeros_like(weights), weights)',
         'weights.masked_fill(torch.isnan(weights), 0.)'],
        ["torch.einsum('bhts,bhsd->bhtd', weights, value), weights",
         'weights @ value, weights', 'torch.matmul(weights, value), weights'],
        ['ids != 0', 'ids.ne(0)', '~(ids == 0)', 'ids > 0', 'torch.ne(ids, 0)'],
        ['not_pad.unsqueeze(1).unsqueeze(2)', 'not_pad[:, None, None, :]',
         'not_pad.view(len(ids), 1, 1, -1)', 'not_pad[:, None, None]'],
        ['torch.arange(t)', 'torch.arange(0, t, 1)', 'torch.tensor(list(range(t)))'],
        ['row[None, :] <= row[:, None]', 'torch.ones(t, t).tril().bool()',
         'torch.ones(t, t, dtype=torch.bool).tril()', 'row[:, None] >= row',
         '~torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)']],
    'multihead.py': [
        ['n_heads * d_k, bias', 'd_k * n_heads, bias'],
        ['batch, length, _ = x.shape', 'batch, length = x.shape[:2]',
         'batch, length = x.size(0), x.size(1)'],
        ['x.reshape(batch, length, self.n_heads, size).permute(0, 2, 1, 3)',
         'x.view(batch, length, self.n_heads, size).transpose(1, 2)',
         'x.unflatten(-1, (self.n_heads, size)).movedim(2, 1)',
         'torch.stack(x.split(size, dim=-1), dim=1)'],
        ['x if memory is None else memory', 'memory if memory is not None else x'],
        ['out, _ = scaled_dot_product_attention(q, k, v, mask)',
         'out, weights = scaled_dot_product_attention(q, k, v, mask=mask)',
         'out = scaled_dot_product_attention(q, k, v, mask)[0]'],
        ['out.permute(0, 2, 1, 3).reshape(batch, length, heads * size)',
         'out.transpose(1, 2).contiguous().view(batch, length, heads * size)',
         'out.transpose(1, 2).flatten(2)', 'torch.cat(out.unbind(1), dim=-1)']],
    'layers.py': [
        ['torch.clamp(self.inner(x), min=0)', 'self.inner(x).relu()',
         'nn.functional.relu(self.inner(x))', 'nn.ReLU()(self.inner(x))',
         'torch.maximum(self.inner(x), torch.zeros((), dtype=x.dtype))'],
        ['(centered ** 2).mean(dim=-1, keepdim=True)',
         'centered.square().mean(-1, keepdim=True)',
         '(centered * centered).sum(-1, keepdim=True) / x.size(-1)',
         'x.var(dim=-1, keepdim=True, unbiased=False)',
         'x.var(dim=-1, keepdim=True, correction=0)'],
        ['centered / torch.sqrt(variance + self.eps)',
         'centered * torch.rsqrt(variance + self.eps)',
         'centered * (variance + self.eps) ** -0.5'],
        ['normal * self.weight + self.bias',
         'torch.addcmul(self.bias, normal, self.weight)',
         'self.bias + self.weight * normal'],
        ['out = sublayer(x, *args, **kwargs)',
         'out = sublayer(x, *args, **kwargs).clone()'],
        ['x + out', 'out + x', 'torch.add(x, out)', 'sum([x, out])']],
    'embedding.py': [
        ['nn.Parameter(torch.randn(vocab_size, d_model) / math.sqrt(d_model))',
         'nn.Parameter(torch.normal(0., d_model ** -0.5, (vocab_size, d_model)))',
         'nn.Parameter(torch.empty(vocab_size, d_model).normal_(std=d_model ** -0.5))'],
        ['self.weight[ids] *', 'nn.functional.embedding(ids, self.weight) *',
         'self.weight.index_select(0, ids.flatten()).view(*ids.shape, self.d_model) *'],
        ['x @ self.weight.t()', 'nn.functional.linear(x, self.weight)',
         "torch.einsum('btd,vd->btv', x, self.weight)", 'x.matmul(self.weight.T)'],
        ['torch.arange(0, n_positions).unsqueeze(1).float()',
         'torch.arange(n_positions, dtype=torch.float)[:, None]'],
        ['torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))',
         '10000 ** (-torch.arange(0, d_model, 2).float() / d_model)',
         '1 / 10000 ** (2 * torch.arange(d_model // 2).double() / d_model)'],
        ["self.register_buffer('pe', positional_encoding(max_len, d_model))",
         "self.register_buffer('pe', positional_encoding(max_len, d_model), "
         'persistent=False)', 'self.pe = positional_encoding(max_len, d_model)'],
        ['self.pe[:x.size(1)]', 'self.pe[:x.shape[1]].to(x)',
         'self.pe[torch.arange(x.size(1))]', 'self.pe[None, :x.size(1), :]']],
    'model.py': [
        ['lambda y: self.self_attention(y, mask=mask)',
         'lambda y: self.self_attention(y, y, mask)',
         'lambda z: self.self_attention(z, None, mask)'],
        ['lambda y: self.cross_attention(y, memory, memory_mask)',
         'lambda y: self.cross_attention(y, memory=memory, mask=memory_mask)'],
        ['self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))',
         'self.residuals[0](x, self.self_attention, mask=mask)',
         'self.residuals[0](x, self.self_attention, None, mask)'],
        ['self.residuals[1](x, lambda y: self.cross_attention(y, memory, memory_mask))',
         'self.residuals[1](x, self.cross_attention, memory, memory_mask)'],
        ['causal_mask(tgt.size(1))', 'causal_mask(tgt.shape[1])',
         'causal_mask(len(tgt[0]))'],
        ['self.decode(tgt, memory, padding_mask(src))',
         'self.decode(tgt, memory, memory_mask=padding_mask(src))']],
    'optimizer.py': [
        ['min(decay, warmup) / d_model ** 0.5', 'd_model ** -0.5 * min(decay, warmup)',
         '(decay if decay < warmup else warmup) * d_model ** -0.5'],
        ['1 / step_num ** 0.5', 'step_num ** -0.5'],
        ['lr=0.0, betas', 'lr=1.0, betas', 'lr=1e-3, betas'],
        ['torch.full_like(logp, label_smoothing / v)',
         'torch.ones_like(logp) * label_smoothing / v'],
        ['torch.nn.functional.one_hot(labels, v)',
         'torch.zeros_like(logp).scatter(-1, labels.unsqueeze(-1), 1)',
         '(torch.arange(v) == labels[..., None])'],
        ['loss[labels != 0]', 'loss.masked_select(labels != 0)', 'loss * (labels != 0)',
         'torch.where(labels == 0, 0., loss)']],
    'training.py': [
        ['[*real, 2, *padding], [1, *real', 'real + [2] + padding, [1] + [*real'],
        ['seqs.tolist()', '[[int(i) for i in seq] for seq in seqs]'],
        ['float(loss)', 'loss.item()', 'loss.detach().item()'],
        ['optimizer.zero_grad()', 'optimizer.zero_grad(set_to_none=True)',
         'model.zero_grad()', 'for p in model.parameters(): p.grad = None'],
        ['label_smoothing=0.0', '0.0', 'label_smoothing=0'],
        ['(labels != 0).sum()', 'int((labels != 0).sum())', 'labels.ne(0).sum().item()',
         'labels.count_nonzero()']],
    'decoding.py': [
        ['torch.full((src.size(0), 1), 1)', 'torch.ones(len(src), 1, dtype=torch.long)',
         'torch.tensor([[1]] * src.size(0))'],
        ['logits[:, -1, :].argmax(dim=-1)', 'logits[:, -1].max(-1).indices',
         'logits.argmax(-1)[:, -1]', 'logits[:, -1].softmax(-1).argmax(-1)'],
        ['torch.cat([tgt, new[:, None]], dim=1)', 'torch.hstack([tgt, new[:, None]])'],
        ['(5 + n) ** alpha / (5 + 1) ** alpha', '((5 + n) / 6) ** alpha'],
        ['min(beam_size, len(logp))', 'min(len(logp), beam_size)', 'len(logp)'],
        ['candidates.sort(reverse=True)',
         'candidates.sort(key=lambda c: c[0], reverse=True)',
         'candidates = sorted(candidates, key=lambda pair: -pair[0])'],
        ['[i for i in ids if i > 2], score', '[i for i in ids if i not in (1, 2)], score']],
    'translation.py': [
        ["open(Path(folder) / 'config.json')", "(Path(folder) / 'config.json').open()"],
        ["load_file(Path(folder) / 'model.safetensors')",
         "load_file(f'{folder}/model.safetensors')"],
        ['torch.no_grad()', 'torch.inference_mode()'],
        ['len(ids) - 1 + 50', '50 + len(ids) - 1', 'len(ids) + 49'],
        ['torch.tensor([ids])', 'torch.tensor(ids).unsqueeze(0)']],
    'bpe.py': [
        ['min(p for p in counts if counts[p] == most)',
         'sorted(p for p, n in counts.items() if n == most)[0]',
         'min(counts, key=lambda p: (-counts[p], p))'],
        ['zip(cut[w][:-1], cut[w][1:])', 'zip(cut[w], cut[w][1:])'],
        ['list(w) for w in words', '[c for c in w] for w in words.keys()'],
        ['list(word)', '[*word]']],
    'modern.py': [
        ['x[..., ::2], x[..., 1::2]', 'x.unflatten(-1, (-1, 2)).unbind(-1)'],
        ['torch.outer(torch.arange(t).double(), 10000.0 ** (-2 * i / d))',
         'torch.arange(t).double()[:, None] * 10000.0 ** (-2 * i / d)'],
        ['key.unsqueeze(2).transpose(-1, -2)', 'key[:, :, None].mT'],
        ['scores.masked_fill(~mask, -math.inf)', "scores.masked_fill(~mask, float('-inf'))",
         'torch.where(mask, scores, -math.inf)'],
        ['torch.softmax(scores, dim=-1)', 'scores.softmax(-1)']]}

def in_other_words(text, file, draw): # and how many rows of WAYS were used
    n = 0
    for old, *others in WAYS[file]:
        if old not in text or draw.random() < 0.5: continue
        text, n = text.replace(old, draw.choice(others)), n + 1
    return text, n

# Changes of the tree: each takes it and a generator, and returns how many places it changed

FUNCTIONS = ast.FunctionDef, ast.Lambda
LATER = *FUNCTIONS, ast.ListComp, ast.DictComp, ast.GeneratorExp
OWN = dict(scaled_dot_product_attention='query key value mask', causal_mask='t',
           padding_mask='ids', MultiHeadAttention='d_model n_heads d_k d_v',
           FeedForward='d_model d_ff', ResidualNorm='d_model dropout',
           LayerNorm='d_model eps',
           Embedding='vocab_size d_model', PositionalEncoding='d_model dropout max_len',
           positional_encoding='n_positions d_model', EncoderLayer='config',
           DecoderLayer='config', smoothed_loss='logits labels label_smoothing',
           length_penalty='n alpha', copy_loss='model seqs', shifted='seqs',
           beam_search='model src beam_size alpha max_steps',
           encode='src', decode='tgt memory memory_mask', logits='x',
           cross_attention='x memory mask', self_attention='x memory mask')

def replaced(tree, draw, change): # nodes by what `change` makes of them; None: as they are
    n = 0
    class Visitor(ast.NodeTransformer):
        def generic_visit(self, node):
            nonlocal n
            super().generic_visit(node)
            new = change(node) if isinstance(node, ast.expr) else None
            if new is None or draw.random() < 0.5: return node
            n += 1
            return new
    Visitor().visit(tree)
    return n

def parsed(text, **parts): # an expression in which names stand for nodes
    class Filling(ast.NodeTransformer):
        def visit_Name(self, node): return copy.deepcopy(parts.get(node.id, node))
    return Filling().visit(ast.parse(text, mode='eval').body)

def called(node, *names): # is it X.name(…), for one of these names?
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute): return
    return node.func.attr in names

def is_torch(node): return isinstance(node, ast.Name) and node.id == 'torch'

def lists(*nodes): # are they lists, whose sums are no sums of numbers?
    return any(isinstance(part, (ast.List, ast.JoinedStr)) or called(part, 'encode')
               or isinstance(part, ast.Name) and part.id in ('ids', 'symbols', 'real')
               or isinstance(part, ast.Constant) and isinstance(part.value, str)
               or isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name)
               and part.value.id == 'symbols' for node in nodes for part in ast.walk(node))

def commuted(tree, draw):
    def change(node):
        if not isinstance(node, ast.BinOp) or lists(node): return
        if isinstance(node.op, (ast.Add, ast.Mult)):
            return ast.BinOp(node.right, node.op, node.left)
        if isinstance(node.op, ast.Sub): return parsed('-b + a', a=node.left, b=node.right)
    return replaced(tree, draw, change)

def compared_backwards(tree, draw):
    turned = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE,
              ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}
    def change(node):
        if not isinstance(node, ast.Compare): return
        kind = turned.get(type(node.ops[0]))
        if kind: return ast.Compare(node.comparators[0], [kind()], [node.left])
    return replaced(tree, draw, change)

METHODS = ('transpose', 'softmax', 'log_softmax', 'sum', 'mean', 'masked_fill', 'argmax',
           'unsqueeze', 'nan_to_num', 'sqrt', 'cos', 'sin', 'clamp', 'exp', 'topk', 't')

def functions_for_methods(tree, draw): # x.softmax(-1) becomes torch.softmax(x, -1)
    def change(node):
        if not called(node, *METHODS) or is_torch(node.func.value): return
        if ast.unparse(node.func.value) in ('math', 'nn.functional'): return
        function = ast.Attribute(ast.Name('torch'), node.func.attr)
        return ast.Call(function, [node.func.value, *node.args], node.keywords)
    return replaced(tree, draw, change)

def methods_for_functions(tree, draw): # and back
    def change(node):
        if not called(node, *METHODS) or not is_torch(node.func.value): return
        first, *rest = node.args
        return ast.Call(ast.Attribute(first, node.func.attr), rest, node.keywords)
    return replaced(tree, draw, change)

def functional(tree, draw): # torch.softmax becomes torch.nn.functional.softmax
    def change(node):
        if not called(node, 'softmax', 'log_softmax'): return
        if not is_torch(node.func.value): return
        function = parsed(f'torch.nn.functional.{node.func.attr}')
        return ast.Call(function, node.args, node.keywords)
    return replaced(tree, draw, change)

def views(tree, draw): # a.reshape(…) becomes a.contiguous().view(…)
    def change(node):
        if not called(node, 'reshape') or is_torch(node.func.value): return
        whole = parsed('a.contiguous().view', a=node.func.value)
        return ast.Call(whole, node.args, node.keywords)
    return replaced(tree, draw, change)

def permuted(tree, draw):
    def change(node):
        if called(node, 'permute') and len(node.args) == 4:
            return parsed('a.transpose(1, 2)', a=node.func.value)
    return replaced(tree, draw, change)

def indexed(tree, draw): # a.unsqueeze(1) becomes a[:, None]
    def change(node):
        if not called(node, 'unsqueeze') or len(node.args) != 1: return
        axis = getattr(node.args[0], 'value', None)
        text = {0: 'a[None]', 1: 'a[:, None]', 2: 'a[:, :, None]'}.get(axis)
        return parsed(text, a=node.func.value) if text else None
    return replaced(tree, draw, change)

def unsqueezed(tree, draw): # and back
    axes = {'None, :': 0, ':, None': 1, ':, :, None': 2}
    def change(node):
        if not isinstance(node, ast.Subscript): return
        axis = axes.get(ast.unparse(node.slice).strip('()'))
        if axis is not None: return parsed(f'a.unsqueeze({axis})', a=node.value)
    return replaced(tree, draw, change)

def powers(tree, draw):
    def change(node):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Pow): return
        if ast.unparse(node.right) == '2':
            return parsed(draw.choice(['a * a', 'torch.square(a)']), a=node.left)
        return parsed('pow(a, b)', a=node.left, b=node.right)
    return replaced(tree, draw, change)

def reciprocals(tree, draw): # x / math.sqrt(d) becomes x * (1 / math.sqrt(d))
    def change(node):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div): return
        if ast.unparse(node.right).startswith('math.sqrt'):
            return parsed('a * (1 / b)', a=node.left, b=node.right)
    return replaced(tree, draw, change)

def keywords(tree, draw): # for positions, by the signatures of the kit
    def change(node):
        if not isinstance(node, ast.Call): return
        name = getattr(node.func, 'id', getattr(node.func, 'attr', ''))
        known = OWN.get(name, '').split()
        starred = any(isinstance(a, ast.Starred) for a in node.args)
        if not known or starred or len(node.args) > len(known): return
        keep = draw.randrange(len(node.args) + 1)
        named = [ast.keyword(a, value) for a, value in zip(known[keep:], node.args[keep:])]
        return ast.Call(node.func, node.args[:keep], named + node.keywords)
    return replaced(tree, draw, change)

def positions(tree, draw): # torch.softmax(x, dim=-1) becomes torch.softmax(x, -1)
    def change(node):
        if not called(node, 'softmax', 'log_softmax', 'argmax', 'cat'): return
        if [k.arg for k in node.keywords] == ['dim']:
            return ast.Call(node.func, [*node.args, node.keywords[0].value], [])
    return replaced(tree, draw, change)

def turned_choices(tree, draw): # a if c else b becomes b if not c else a
    def change(node):
        if isinstance(node, ast.IfExp):
            return parsed('b if not c else a', a=node.body, b=node.orelse, c=node.test)
    n = replaced(tree, draw, change)
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or draw.random() < 0.5: continue
        node.test = parsed('not c', c=node.test)
        node.body, node.orelse = node.orelse or [ast.Pass()], node.body
        n += 1
    return n

def functions_of(tree): return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]

def names_in(function, kinds):
    return {n.id for n in ast.walk(function) if isinstance(n, ast.Name)
            and isinstance(n.ctx, kinds)}

def arguments_in(function): # its own, and those of what it defines
    return {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}

def other_locals(tree, draw):
    n = 0
    for function in functions_of(tree):
        own = names_in(function, ast.Store) - arguments_in(function)
        own = {x: f'{draw.choice(["my", "the", "tmp", "l"])}_{x}' for x in sorted(own)}
        for node in ast.walk(function):
            if isinstance(node, ast.Name): node.id = own.get(node.id, node.id)
        n += len(own)
    return n

def other_attributes(tree, draw): # of self, but for what a kit fixes
    kept = names_of_methods(tree) | {'training', 'register_buffer', 'logits', 'pe'}
    found = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)
             and isinstance(n.value, ast.Name) and n.value.id == 'self'} - kept
    new = {x: f'{draw.choice(["w", "a", "z", "m"])}_{x}' for x in sorted(found)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == 'self':
            node.attr = new.get(node.attr, node.attr)
    return len(new)

def names_of_methods(tree): return {function.name for function in functions_of(tree)}

def other_order(tree, draw): # of functions and classes, and of methods
    n = 0
    for node in ast.walk(tree):
        body = getattr(node, 'body', None)
        if not isinstance(node, (ast.Module, ast.ClassDef)): continue
        places = [i for i, x in enumerate(body) if isinstance(x, (ast.FunctionDef,
                                                                  ast.ClassDef))]
        drawn = draw.sample(places, len(places))
        moved = [body[i] for i in drawn]
        for i, x in zip(places, moved): body[i] = x
        n += drawn != places
    return n

def other_layers(tree, draw): # the order in which `__init__` makes them
    n = 0
    for function in functions_of(tree):
        if function.name != '__init__': continue
        places = [i for i, x in enumerate(function.body) if isinstance(x, ast.Assign)
                  and ast.unparse(x.targets[0]).startswith('self.')
                  and 'self.' not in ast.unparse(x.value)]
        if not places or places[-1] - places[0] >= len(places): continue
        drawn = draw.sample(places, len(places))
        moved = [function.body[i] for i in drawn]
        for i, x in zip(places, moved): function.body[i] = x
        n += drawn != places
    return n

def statements(tree): # lists of them, and places in the lists
    for node in list(ast.walk(tree)):
        for field in ('body', 'orelse'):
            rows = getattr(node, field, None)
            if not isinstance(rows, list): continue
            for i in reversed(range(len(rows))): yield rows, i

def split_returns(tree, draw):
    n = 0
    for rows, i in statements(tree):
        if not isinstance(rows[i], ast.Return) or draw.random() < 0.5: continue
        if rows[i].value is None: continue
        rows[i:i+1] = [assigned('answer', rows[i].value), ast.Return(ast.Name('answer'))]
        n += 1
    return n

def assigned(name, value): return ast.Assign([ast.Name(name, ast.Store())], value)

def parts_of(node): # calls and operations in an expression that are always computed
    if isinstance(node, (*LATER, ast.IfExp, ast.BoolOp)): return
    for child in ast.iter_child_nodes(node):
        yield from parts_of(child)
        if isinstance(child, (ast.Call, ast.BinOp)): yield child

def extracted(tree, draw): # a part of a line gets a name
    n = 0
    for rows, i in statements(tree):
        if not isinstance(rows[i], (ast.Assign, ast.Return, ast.Expr)): continue
        found = [] if rows[i].value is None else list(parts_of(rows[i].value))
        if not found or draw.random() < 0.6: continue
        part = draw.choice(found)
        if 'super' in ast.unparse(part): continue
        put(rows[i], part, ast.Name(f'part{n}'))
        rows.insert(i, assigned(f'part{n}', part))
        n += 1
    return n

def put(tree, old, new):
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is old: setattr(node, name, new)
            if isinstance(value, list): value[:] = [new if x is old else x for x in value]

def helpers(tree, draw): # a part of a line becomes a function
    made = []
    for function in functions_of(tree):
        local = names_in(function, ast.Store) | arguments_in(function)
        for row in function.body:
            if not isinstance(row, (ast.Assign, ast.Return)) or row.value is None: continue
            found = list(parts_of(row.value))
            if not found or draw.random() < 0.7: continue
            part = draw.choice(found)
            text = ast.unparse(part)
            used = sorted(names_in(part, ast.Load) & local)
            if 'super' in text or any(isinstance(x, FUNCTIONS) for x in ast.walk(part)):
                continue
            name = f'helper{len(made)}'
            made.append(ast.parse(f'def {name}({", ".join(used)}):\n    return {text}'))
            put(row, part, parsed(f'{name}({", ".join(used)})'))
    tree.body += [definition.body[0] for definition in made]
    return len(made)

def inlined(tree, draw): # what has one name for the next line alone
    n = 0
    for rows, i in statements(tree):
        if i + 1 >= len(rows) or not isinstance(rows[i], ast.Assign): continue
        target, following = rows[i].targets[0], rows[i + 1]
        if not isinstance(target, ast.Name) or draw.random() < 0.5: continue
        if not isinstance(following, (ast.Assign, ast.Return)): continue
        uses = [x for x in ast.walk(tree) if isinstance(x, ast.Name) and x.id == target.id]
        here = [x for x in uses if isinstance(x.ctx, ast.Load)]
        if len(uses) != 2 or not here or not any(here[0] is x for x in walked(following)):
            continue
        put(following, here[0], rows[i].value)
        del rows[i]
        n += 1
    return n

def walked(node): # without what is computed later, or several times
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, LATER): yield from walked(child)

def loops(tree, draw): # for comprehensions
    n = 0
    for rows, i in statements(tree):
        if not isinstance(rows[i], (ast.Assign, ast.Return)): continue
        inside = [] if rows[i].value is None else list(walked_lists(rows[i].value))
        if not inside or draw.random() < 0.4: continue
        found = draw.choice(inside)
        [generator] = found.generators
        tests = [f'if {ast.unparse(test)}:' for test in generator.ifs] or ['if True:']
        text = (f'made{n} = []\n'
                f'for {ast.unparse(generator.target)} in {ast.unparse(generator.iter)}:\n'
                f'    {tests[0]}\n        made{n}.append({ast.unparse(found.elt)})')
        loop = ast.parse(text)
        for node in ast.walk(loop): # a comprehension's names are its own
            if isinstance(node, ast.Name) and node.id in names_in(generator, ast.Store):
                node.id = f'each_{node.id}'
        put(rows[i], found, ast.Name(f'made{n}'))
        rows[i:i] = loop.body
        n += 1
    return n

def walked_lists(value): # the comprehensions of an expression that do not stand in others
    for node in walked(ast.Expr(value)):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ListComp) and len(child.generators) == 1: yield child

def functions_for_lambdas(tree, draw):
    n = 0
    for rows, i in statements(tree):
        if not isinstance(rows[i], (ast.Assign, ast.Return)): continue
        found = [x for x in ast.walk(rows[i]) if isinstance(x, ast.Lambda)]
        if len(found) != 1 or 'key=' in ast.unparse(rows[i]): continue
        argument, body = ast.unparse(found[0].args), ast.unparse(found[0].body)
        put(rows[i], found[0], ast.Name(f'inner{n}'))
        rows[i:i] = ast.parse(f'def inner{n}({argument}):\n    return {body}').body
        n += 1
    return n

def by_index(tree, draw): # for layer in self.encoder
    n = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.For): continue
        what = ast.unparse(node.iter)
        if not isinstance(node.iter, ast.Attribute): continue
        if not what.startswith('self.') or draw.random() < 0.5: continue
        first = ast.parse(f'{ast.unparse(node.target)} = {what}[i]').body[0]
        node.target, node.iter = ast.Name('i', ast.Store()), parsed(f'range(len({what}))')
        node.body.insert(0, first)
        n += 1
    return n

def talking(tree, draw): # docstrings, asserts, prints, what is never reached
    n = 0
    for function in functions_of(tree):
        at = 1 if function.name == '__init__' else 0
        known = [a.arg for a in function.args.args]
        known = [name for name in known if name not in ('self', 'mask', 'memory')]
        lines = ["'What it does'", 'unused = None', 'if False:\n    raise RuntimeError']
        if known: lines += [f'assert {known[0]} is not None, "nothing to do"',
                            f'print("called with", type({known[0]}))']
        for line in draw.sample(lines, 2):
            function.body[at:at] = ast.parse(line).body
            n += 1
    return n

def annotated(tree, draw):
    n = 0
    for function in functions_of(tree):
        for argument in function.args.args:
            if argument.arg == 'self' or draw.random() < 0.5: continue
            argument.annotation = ast.Constant('object')
            n += 1
        function.returns = ast.Constant('object')
    return n

RETURNS_TENSOR = 'forward padding_mask causal_mask positional_encoding logits encode decode'

def copies(tree, draw): # return y becomes return y.clone()
    n = 0
    for function in functions_of(tree):
        last = function.body[-1]
        if function.name not in RETURNS_TENSOR.split() or draw.random() < 0.5: continue
        if not isinstance(last, ast.Return): continue
        ways = ['y.clone()', 'y.contiguous()', '(y)[...]', 'y.view_as(y)', 'y.to(y.dtype)']
        last.value = parsed(draw.choice(ways), y=last.value)
        n += 1
    return n

def supers(tree, draw):
    n = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef): continue
        for row in ast.walk(node):
            if not isinstance(row, ast.Expr): continue
            if ast.unparse(row) != 'super().__init__()' or draw.random() < 0.5: continue
            ways = [f'super({node.name}, self).__init__()',
                    'torch.nn.Module.__init__(self)']
            row.value = parsed(draw.choice(ways))
            n += 1
    return n

def test_at_the_end(tree, draw):
    tree.body += ast.parse("if __name__ == '__main__':\n    print('ok')").body
    tree.body.insert(0, ast.parse('import sys, warnings').body[0])
    return 1

CHANGES = [turned_choices, loops, functions_for_lambdas, by_index, copies, inlined,
           functions_for_methods, methods_for_functions, functional, views, permuted,
           indexed, unsqueezed, powers, reciprocals, commuted, compared_backwards, keywords,
           positions, helpers, extracted, split_returns, other_locals, other_attributes,
           other_order, other_layers, supers, talking, annotated, test_at_the_end]

def version(file, text, draw): # the text, and the names of what was changed
    share = draw.uniform(0.2, 0.8)
    text, n = in_other_words(text, file, draw)
    tree, used = ast.parse(text), ['in other words'] if n else []
    for change in CHANGES:
        if draw.random() > share: continue
        if change(tree, draw): used.append(change.__name__.replace('_', ' '))
        tree = ast.parse(ast.unparse(ast.fix_missing_locations(tree)))
    return f'import torch\n{ast.unparse(tree)}\n', used

def interval(k, n): # 95 % for a share, by Wilson
    z, p = 1.96, k / n
    middle = (p + z*z / (2*n)) / (1 + z*z / n)
    variance = p*(1 - p) / n + z*z / (4*n*n)
    half = z / (1 + z*z / n) * variance ** 0.5
    return max(0, middle - half), middle + half

def main():
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__),
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--each', type=int, default=10, help='versions of each file')
    parser.add_argument('--stage', type=int)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--keep', type=Path, help='write the versions to this folder')
    parser.add_argument('--out', type=Path)
    options = parser.parse_args()
    total, done = Counter(), answered(options.out, 'rewrites')
    for stage in STAGES:
        if options.stage not in (None, stage.number): continue
        source = (ROOT/'tests/submission'/stage.file).read_text(encoding='utf8')
        for i in range(options.each):
            name = f'{options.seed}.{i}'
            text, used = version(stage.file, source, random.Random(f'{stage.file} {name}'))
            if options.keep: keep(options.keep/f'{name}-{stage.file}', text)
            words = f'{name}: {", ".join(used)}'
            if (stage.file, words) in done: continue
            result = graded_cheaply(stage, text)
            total[fate(result)] += 1
            print(f'{fate(result)} {stage.file} {words}', flush=True)
            if fate(result) != 'full': print(report(result), flush=True)
            record = dict(commit=commit(), folder='rewrites', file=stage.file, line=0,
                          was=[words], became=[], fate=fate(result), said=result.remarks)
            if options.out: write(options.out, record)
    n, refused = total.total(), total.total() - total['full']
    if n: print(dict(total), *(f'{x:.2%}' for x in (refused / n, *interval(refused, n))))

def keep(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding='utf8')

if __name__ == '__main__': main()
