"""Wrong versions of a right submission (tests/submission) that no check was written for:
one mistake each, of kinds that people make, written down before the grader had seen any.
`looked_at` are those by which it was mended; the others were held out and measure it."""

from zlib import crc32

ATTENTION = [
    ('divides by the root of the number of heads', [('key.size(-1)', 'key.size(1)')]),
    (
        'scales after the softmax',
        [
            (' / math.sqrt(d_k)', ''),
            (
                'torch.softmax(scores, dim=-1)',
                'torch.softmax(scores, dim=-1) / math.sqrt(d_k)',
            ),
        ],
    ),
    ('sigmoid for softmax', [('torch.softmax(scores, dim=-1)', 'torch.sigmoid(scores)')]),
    (
        'cosines for products',
        [
            (
                "query, key) / math.sqrt(d_k)",
                "torch.nn.functional.normalize(query, dim=-1), "
                "torch.nn.functional.normalize(key, dim=-1)) / math.sqrt(d_k)",
            )
        ],
    ),
    ('hides <s>, not padding', [('ids != 0', 'ids != 1')]),
    (
        'a square padding mask',
        [
            (
                'return not_pad.unsqueeze(1).unsqueeze(2)',
                'return (not_pad.unsqueeze(1) & not_pad.unsqueeze(2)).unsqueeze(1)',
            )
        ],
    ),
    (
        'a causal mask with an axis for the batch',
        [
            (
                'return row[None, :] <= row[:, None]',
                'return (row[None, :] <= row[:, None]).unsqueeze(0)',
            )
        ],
    ),
    ('a causal mask one too large', [('torch.arange(t)', 'torch.arange(t + 1)')]),
    (
        'drops weights, always',
        [
            (
                'torch.nan_to_num(weights, nan=0.0)',
                'torch.dropout(torch.nan_to_num(weights, nan=0.0), 0.1, True)',
            )
        ],
    ),
    ('weights averaged over heads', [('value), weights', 'value), weights.mean(1)')]),
    (
        'single precision in the softmax',
        [
            (
                'torch.softmax(scores, dim=-1)',
                'torch.softmax(scores.float(), dim=-1).to(value.dtype)',
            )
        ],
    ),
    (
        'only masks of four axes',
        [('if mask is not None:', 'if mask is not None and mask.dim() == 4:')],
    ),
    ('hidden scores become the least score', [("float('-inf')", 'float(scores.min())')]),
    ('hidden scores are -100', [("float('-inf')", '-100.')]),
    (
        'weights cut from the graph',
        [
            (
                'torch.nan_to_num(weights, nan=0.0)',
                'torch.nan_to_num(weights, nan=0.0).detach()',
            )
        ],
    ),
    (
        'softmax over queries and keys',
        [
            (
                'torch.softmax(scores, dim=-1)',
                'torch.softmax(scores.flatten(2), dim=-1).view_as(scores)',
            )
        ],
    ),
    (
        'returns the output twice',
        [('value), weights', 'value), torch.einsum(\'bhts,bhsd->bhtd\', weights, value)')],
    ),
    (
        'the mask hides in the product with the values',
        [
            ("scores = scores.masked_fill(mask == False, float('-inf'))", 'pass'),
            (
                'torch.nan_to_num(weights, nan=0.0)',
                'weights if mask is None else weights.masked_fill(mask == False, 1e-9)',
            ),
        ],
    ),
    (
        'causal mask of ints',
        [
            (
                'return row[None, :] <= row[:, None]',
                'return (row[None, :] <= row[:, None]).int()',
            )
        ],
    ),
    (
        'rows of the causal mask from the end',
        [('row = torch.arange(t)', 'row = torch.arange(t).flip(0)')],
    ),
]
MULTIHEAD = [
    (
        'mask with one more axis',
        [('(q, k, v, mask)', '(q, k, v, None if mask is None else mask.unsqueeze(1))')],
    ),
    ('adds its input', [('return self.output(out)', 'return x + self.output(out)')]),
    (
        'values split by a wrong view',
        [
            (
                'v = self.to_heads(self.value(source), self.d_v)',
                'v = self.value(source).reshape(x.size(0), self.n_heads, -1, self.d_v)',
            )
        ],
    ),
    (
        'queries split by a wrong view',
        [
            (
                'q = self.to_heads(self.query(x), self.d_k)',
                'q = self.query(x).reshape(x.size(0), self.n_heads, -1, self.d_k)',
            )
        ],
    ),
    ('scales once more', [('attention(q, k,', 'attention(q / self.d_k ** 0.5, k,')]),
    (
        'keys are the queries in self-attention',
        [
            (
                'k = self.to_heads(self.key(source), self.d_k)',
                'k = q if memory is None else self.to_heads(self.key(source), self.d_k)',
            )
        ],
    ),
    (
        'norm of the heads',
        [
            (
                'return self.output(out)',
                'return self.output(nn.functional.layer_norm(out, out.shape[-1:]))',
            )
        ],
    ),
    (
        'heads averaged',
        [
            (
                'batch, heads, length, size = out.shape',
                'out = out.mean(1, keepdim=True).expand_as(out)\n'
                '        batch, heads, length, size = out.shape',
            )
        ],
    ),
    ('a ReLU on the queries', [('self.query(x)', 'self.query(x).relu()')]),
    (
        'mask transposed',
        [
            (
                '(q, k, v, mask)',
                '(q, k, v, None if mask is None else mask.transpose(-1, -2))',
            )
        ],
    ),
    (
        'a bias at the end alone',
        [('n_heads * d_v, d_model, bias=False', 'n_heads * d_v, d_model')],
    ),
    (
        'every head reads the first features',
        [
            (
                'return x.reshape(batch, length, self.n_heads, size).permute(0, 2, 1, 3)',
                'return x[..., :size].unsqueeze(1).expand(-1, self.n_heads, -1, -1)',
            )
        ],
    ),
    ('queries from the memory', [('self.query(x)', 'self.query(source)')]),
    (
        'drops by a layer made in forward',
        [('return self.output(out)', 'return nn.Dropout(0.1)(self.output(out))')],
    ),
    (
        'merges by length and batch',
        [
            (
                'out.permute(0, 2, 1, 3).reshape(batch, length, heads * size)',
                'out.permute(2, 0, 1, 3).reshape(batch, length, heads * size)',
            )
        ],
    ),
    (
        'splits as if the length came first',
        [
            (
                'return x.reshape(batch, length, self.n_heads, size).permute(0, 2, 1, 3)',
                'return x.reshape(length, batch, self.n_heads, size).permute(1, 2, 0, 3)',
            )
        ],
    ),
    (
        'one matrix for all three',
        [
            ('        self.key = nn.Linear(d_model, n_heads * d_k, bias=False)\n', ''),
            ('        self.value = nn.Linear(d_model, n_heads * d_v, bias=False)\n', ''),
            (
                'nn.Linear(d_model, n_heads * d_k, bias',
                'nn.Linear(d_model, n_heads * (2 * d_k + d_v), bias',
            ),
            (
                'q = self.to_heads(self.query(x), self.d_k)',
                'd = self.n_heads * self.d_k\n'
                '        q = self.to_heads(self.query(x)[..., :d], self.d_k)',
            ),
            ('self.key(source)', 'self.query(source)[..., d:2*d]'),
            ('self.value(source)', 'self.query(source)[..., 2*d:]'),
        ],
    ),
    (
        'no mask in self-attention',
        [('(q, k, v, mask)', '(q, k, v, None if memory is None else mask)')],
    ),
    (
        'keys divided, not scores',
        [('(self.key(source), self.d_k)', '(self.key(source) / self.d_k, self.d_k)')],
    ),
    (
        'the output of the last head alone',
        [
            (
                'return self.output(out)',
                'out = out.clone(); out[..., :-size] = 0; return self.output(out)',
            )
        ],
    ),
]
LAYERS = [
    ('tanh', [('torch.clamp(self.inner(x), min=0)', 'torch.tanh(self.inner(x))')]),
    ('sigmoid', [('torch.clamp(self.inner(x), min=0)', 'torch.sigmoid(self.inner(x))')]),
    ('relu clipped at 6', [('min=0)', 'min=0, max=1)')]),
    (
        'norm inside the feed-forward',
        [
            (
                'return self.outer(hidden)',
                'return self.outer(nn.functional.layer_norm(hidden, hidden.shape[-1:]))',
            )
        ],
    ),
    (
        'mean of the absolute deviations',
        [
            (
                'variance = (centered ** 2).mean(dim=-1, keepdim=True)',
                'variance = centered.abs().mean(dim=-1, keepdim=True) ** 2',
            )
        ],
    ),
    ('default of eps is 1e-3', [('eps=1e-5', 'eps=1e-3')]),
    ('eps squared', [('variance + self.eps', 'variance + self.eps ** 2')]),
    (
        'eps in the numerator',
        [
            (
                'centered / torch.sqrt(variance + self.eps)',
                '(centered + self.eps) / torch.sqrt(variance)',
            )
        ],
    ),
    ('weight begins at random', [('torch.ones(d_model)', 'torch.randn(d_model)')]),
    ('bias begins with ones', [('torch.zeros(d_model)', 'torch.ones(d_model)')]),
    ('gain counts from one', [('normal * self.weight', 'normal * (1 + self.weight)')]),
    (
        'bias before the gain',
        [('normal * self.weight + self.bias', '(normal + self.bias) * self.weight')],
    ),
    (
        'mean over the sentence',
        [('x.mean(dim=-1, keepdim=True)', 'x.mean(dim=(-2, -1), keepdim=True)')],
    ),
    ('variance at least eps', [('variance + self.eps', 'variance.clamp(min=self.eps)')]),
    (
        'statistics without a gradient',
        [
            (
                '(centered ** 2).mean(dim=-1, keepdim=True)',
                '(centered ** 2).mean(dim=-1, keepdim=True).detach()',
            )
        ],
    ),
    (
        'dropped twice',
        [('out = self.dropout(out)', 'out = self.dropout(self.dropout(out))')],
    ),
    ('input added twice', [('total = x + out', 'total = x + x + out')]),
    (
        'sub-layer called twice',
        [
            (
                'out = sublayer(x, *args, **kwargs)',
                'out = sublayer(sublayer(x, *args, **kwargs), *args, **kwargs)',
            )
        ],
    ),
    (
        'only the input is normalized',
        [('return self.norm(total)', 'return self.norm(x) + out')],
    ),
    (
        'adds the input after the norm, too',
        [('return self.norm(total)', 'return x + self.norm(total)')],
    ),
    ('input dropped instead', [('out = self.dropout(out)', 'x = self.dropout(x)')]),
    ('subtracts', [('total = x + out', 'total = x - out')]),
    ('arguments lost', [('sublayer(x, *args, **kwargs)', 'sublayer(x)')]),
    (
        'arguments lost, sum in place',
        [
            ('sublayer(x, *args, **kwargs)', 'sublayer(x)'),
            ('total = x + out', 'x += out; total = x'),
        ],
    ),
    (
        'a new norm in every call',
        [
            ('self.norm = LayerNorm(d_model)', 'self.d_model = d_model'),
            ('self.norm(total)', 'LayerNorm(self.d_model)(total)'),
        ],
    ),
    ('the sum is halved', [('total = x + out', 'total = (x + out) / 2')]),
    (
        'centers after dividing',
        [
            (
                'normal = centered / torch.sqrt(variance + self.eps)',
                'normal = x / torch.sqrt(variance + self.eps) - x.mean(dim=-1, '
                'keepdim=True)',
            )
        ],
    ),
    (
        'maximum for the variance',
        [
            (
                '(centered ** 2).mean(dim=-1, keepdim=True)',
                '(centered ** 2).amax(dim=-1, keepdim=True)',
            )
        ],
    ),
]
EMBEDDING = [
    ('root of the vocabulary', [('self.d_model = d_model', 'self.d_model = vocab_size')]),
    (
        'uniform first values',
        [
            (
                'nn.Parameter(torch.randn(vocab_size, d_model) / math.sqrt(d_model))',
                'nn.Parameter(torch.empty(vocab_size, d_model).uniform_(-0.1, 0.1))',
            )
        ],
    ),
    (
        'zeros at first',
        [('torch.randn(vocab_size, d_model)', 'torch.zeros(vocab_size, d_model)')],
    ),
    (
        'cosines lag by one',
        [('torch.cos(position * div)', 'torch.cos((position + 1) * div)')],
    ),
    (
        'positions as shares',
        [
            (
                'torch.arange(0, n_positions).unsqueeze(1).float()',
                'torch.arange(0, n_positions).unsqueeze(1).float() / n_positions',
            )
        ],
    ),
    ('cosines divided', [('torch.cos(position * div)', 'torch.cos(position / div)')]),
    (
        'a table with an axis for the batch',
        [('    return pe\n', '    return pe.unsqueeze(0)\n')],
    ),
    ('a transposed table', [('    return pe\n', '    return pe.T\n')]),
    ('dropped twice', [('self.dropout(x)', 'self.dropout(self.dropout(x))')]),
    (
        'both summands dropped',
        [
            (
                'x = x + self.pe[:x.size(1)]',
                'x = self.dropout(x) + self.dropout(self.pe[:x.size(1)].expand(x.shape))',
            ),
            ('return self.dropout(x)', 'return x'),
        ],
    ),
    ('one row for all', [('self.pe[:x.size(1)]', 'self.pe[x.size(1)]')]),
    ('first row for all', [('self.pe[:x.size(1)]', 'self.pe[:1]')]),
    ('rows from the second on', [('self.pe[:x.size(1)]', 'self.pe[1:x.size(1) + 1]')]),
    ('the last rows of the table', [('self.pe[:x.size(1)]', 'self.pe[-x.size(1):]')]),
    ('share dropped is fixed', [('nn.Dropout(dropout)', 'nn.Dropout(0.1)')]),
    (
        'logits of directions',
        [('x @ self.weight.t()', 'x @ nn.functional.normalize(self.weight, dim=-1).t()')],
    ),
    (
        'drops tokens',
        [
            (
                'return self.weight[ids] * math.sqrt(self.d_model)',
                'return nn.functional.dropout(self.weight[ids] * '
                'math.sqrt(self.d_model), 0.1, self.training)',
            )
        ],
    ),
    (
        'base to the power',
        [('-math.log(10000.0) / d_model', '-math.log(10000.0 / d_model)')],
    ),
    ('divided by half the width', [('/ d_model))', '/ (d_model // 2 - 1)))')]),
    ('encodings scaled', [('x + self.pe[', 'x + x.size(-1) ** 0.5 * self.pe[')]),
    (
        'padding is zero',
        [('return self.weight[ids]', 'return (ids != 0).unsqueeze(-1) * self.weight[ids]')],
    ),
    (
        'sum normalized',
        [
            (
                'return self.dropout(x)',
                'return self.dropout(nn.functional.layer_norm(x, x.shape[-1:]))',
            )
        ],
    ),
    (
        'logits with a norm',
        [
            (
                'x @ self.weight.t()',
                'nn.functional.layer_norm(x, x.shape[-1:]) @ self.weight.t()',
            )
        ],
    ),
    ('logs to base 10', [('math.log(10000.0)', 'math.log10(10000.0)')]),
]
MODEL = [
    (
        'two feed-forwards',
        [
            (
                'x = self.residuals[1](x, self.feed_forward)\n        return '
                'x\n\nclass Dec',
                'x = self.residuals[1](x, self.feed_forward)\n'
                '        x = self.residuals[1](x, self.feed_forward)\n        return '
                'x\n\nclass Dec',
            )
        ],
    ),
    (
        'positions in every layer',
        [('x = layer(x, mask)\n', 'x = layer(self.positions(x), mask)\n')],
    ),
    (
        'the stack is read from its end',
        [('for layer in self.encoder:', 'for layer in reversed(self.encoder):')],
    ),
    (
        'the decoder is read from its end',
        [('for layer in self.decoder:', 'for layer in reversed(self.decoder):')],
    ),
    (
        'one layer too few',
        [('range(config.n_decoder_layers)', 'range(config.n_decoder_layers - 1)')],
    ),
    (
        'as many decoder layers as encoder layers',
        [('range(config.n_decoder_layers)', 'range(config.n_encoder_layers)')],
    ),
    (
        'memory dropped',
        [
            (
                '            x = layer(x, mask)\n        return x',
                '            x = layer(x, mask)\n        return nn.functional.'
                'dropout(x, 0.1, self.training)',
            )
        ],
    ),
    (
        'scaled twice',
        [
            (
                'self.embedding(src)',
                'self.embedding(src) * (self.embedding(src).size(-1)) ** 0.5',
            )
        ],
    ),
    ('mask turned around', [('mask = padding_mask(src)', 'mask = ~padding_mask(src)')]),
    (
        'decoder layers leave no trace',
        [
            (
                'x = layer(x, memory, mask, memory_mask)',
                'layer(x, memory, mask, memory_mask)',
            )
        ],
    ),
    ('input of every layer added', [('x = layer(x, mask)\n', 'x = x + layer(x, mask)\n')]),
    (
        'cross-attention asks with the input of the layer',
        [
            (
                'x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))\n'
                '        x = self.residuals[1](x, lambda y: self.cross_attention(y, '
                'memory, '
                'memory_mask))',
                'y = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))\n'
                '        x = y + self.residuals[1](x, lambda y: '
                'self.cross_attention(y, memory, '
                'memory_mask))',
            )
        ],
    ),
    ('a ReLU between layers', [('x = layer(x, mask)\n', 'x = layer(x, mask).relu()\n')]),
    (
        'logits divided',
        [
            (
                'return self.embedding.logits(x)',
                'return self.embedding.logits(x) / x.size(-1) ** 0.5',
            )
        ],
    ),
    (
        'logits dropped',
        [
            (
                'return self.embedding.logits(x)',
                'return nn.functional.dropout('
                'self.embedding.logits(x), 0.1, self.training)',
            )
        ],
    ),
    (
        'four times the width',
        [
            (
                'FeedForward(config.d_model, config.d_ff)',
                'FeedForward(config.d_model, 4 * config.d_model)',
            )
        ],
    ),
    (
        'heads and their size exchanged',
        [
            (
                '(config.d_model, config.n_heads, config.d_k, config.d_v)',
                '(config.d_model, config.d_k, config.n_heads, config.d_v)',
            )
        ],
    ),
    (
        'norm without parameters at the end',
        [
            (
                'return self.embedding.logits(x)',
                'return self.embedding.logits(nn.functional.layer_norm(x, x.shape[-1:]))',
            )
        ],
    ),
    (
        'decodes the source',
        [
            (
                'x = self.positions(self.embedding(tgt))',
                'x = self.positions(self.embedding(tgt.clamp(max=3)))',
            )
        ],
    ),
    (
        'attention twice, no cross-attention',
        [
            (
                'self.cross_attention(y, memory, memory_mask)',
                'self.self_attention(y, memory, memory_mask)',
            )
        ],
    ),
    (
        'a layer for the memory alone',
        [
            (
                'x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, '
                'memory_mask))',
                'x = self.residuals[1](memory.mean(1, keepdim=True).expand_as(x), '
                'lambda y: '
                'self.cross_attention(x, memory, memory_mask))',
            )
        ],
    ),
    (
        'decoder reads embeddings of the source',
        [('memory = self.encode(src)', 'memory = self.positions(self.embedding(src))')],
    ),
    (
        'target padding hidden as queries',
        [
            (
                'mask = causal_mask(tgt.size(1))',
                'mask = causal_mask(tgt.size(1)) & padding_mask(tgt).transpose(-1, -2)',
            )
        ],
    ),
    (
        'no gradient through the embedding',
        [
            (
                'self.positions(self.embedding(tgt))',
                'self.positions(self.embedding(tgt).detach())',
            )
        ],
    ),
    (
        'self-attention reads its own mask inverted',
        [('mask = causal_mask(tgt.size(1))', 'mask = ~causal_mask(tgt.size(1))')],
    ),
    (
        'the first residual of the encoder has no input',
        [
            (
                'x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))\n'
                '        x = self.residuals[1](x, self.feed_forward)',
                'x = self.self_attention(x, mask=mask)\n'
                '        x = self.residuals[1](x, self.feed_forward)',
            )
        ],
    ),
]
OPTIMIZER = [
    ('counts steps once more', [('decay = 1', 'step_num = step_num + 1\n    decay = 1')]),
    ('twice the rate', [('return min(decay, warmup)', 'return 2 * min(decay, warmup)')]),
    (
        'width on one curve',
        [('min(decay, warmup) / d_model ** 0.5', 'min(decay / d_model ** 0.5, warmup)')],
    ),
    ('warmup fixed', [('warmup_steps ** 1.5', '4000 ** 1.5')]),
    (
        'a break for the minimum',
        [
            (
                'return min(decay, warmup)',
                'return (step_num / warmup_steps if step_num < warmup_steps else decay)',
            )
        ],
    ),
    ('betas exchanged', [('(0.9, 0.98)', '(0.98, 0.9)')]),
    ('L2 decay', [('eps=1e-9', 'eps=1e-9, weight_decay=1e-4')]),
    (
        'momentum',
        [
            (
                'torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)',
                'torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)',
            )
        ],
    ),
    (
        'weights alone',
        [('model.parameters()', '[p for p in model.parameters() if p.dim() > 1]')],
    ),
    ('climbs', [('eps=1e-9', 'eps=1e-9, maximize=True')]),
    (
        'share of smoothing fixed',
        [('v = logits.size(-1)', 'v = logits.size(-1); label_smoothing = 0.1')],
    ),
    (
        'bits',
        [
            ('return loss.sum()', 'return loss.sum() / math.log(2)'),
            ('import torch\n', 'import math\nimport torch\n'),
        ],
    ),
    ('perplexity', [('return loss.sum()', 'return loss.sum().exp()')]),
    ('a loss for every token', [('return loss.sum()', 'return loss')]),
    ('ends left out', [('labels != 0', 'labels != 2')]),
    (
        'logits smoothed',
        [
            (
                'torch.log_softmax(logits, dim=-1)',
                'torch.log_softmax(logits * (1 - label_smoothing), dim=-1)',
            )
        ],
    ),
    ('cut from the graph', [('return loss.sum()', 'return loss.sum().detach()')]),
    (
        'padding gets no share',
        [('target = target + right', 'target[..., 0] = 0\n    target = target + right')],
    ),
    (
        'squares',
        [
            (
                'loss = -(target * logp).sum(-1)',
                'loss = ((target - logp.exp()) ** 2).sum(-1)',
            )
        ],
    ),
    ('share over v + 1', [('label_smoothing / v)', 'label_smoothing / (v + 1))')]),
    ('mean over sentences', [('return loss.sum()', 'return loss.sum() / labels.size(0)')]),
    ('softmax over the batch', [('(logits, dim=-1)', '(logits, dim=0)')]),
]
TRAINING = [
    (
        'source begins',
        [('rows.append(([*real, 2, *padding]', 'rows.append(([1, *real, *padding]')],
    ),
    (
        'target and labels exchanged',
        [('return src, tgt, labels', 'return src, labels, tgt')],
    ),
    (
        'end is 3',
        [('[1, *real, *padding], [*real, 2,', '[1, *real, *padding], [*real, 3,')],
    ),
    ('the first token is lost', [('[1, *real, *padding]', '[1, *real[1:], *padding, 0]')]),
    (
        'the last label is lost',
        [(', [*real, 2, *padding]))', ', [*real[:-1], 2, *padding, 0]))')],
    ),
    (
        'mean of the sentences\' means',
        [
            (
                'return smoothed_loss(logits, labels, label_smoothing=0.0) / n',
                'return sum(smoothed_loss(a[None], b[None], 0.0) / (b != 0).sum() for '
                'a, b in '
                'zip(logits, labels)) / len(labels)',
            )
        ],
    ),
    ('ends do not count', [('n = (labels != 0).sum()', 'n = (labels > 2).sum()')]),
    (
        'rate set once',
        [
            (
                "        for group in optimizer.param_groups:\n"
                "            group['lr'] = lr_of(step)\n",
                '',
            ),
            (
                '    losses = []',
                "    losses = []\n    for group in optimizer.param_groups:\n"
                "        group['lr'] = lr_of(1)",
            ),
        ],
    ),
    (
        'loss after the step',
        [('losses.append(float(loss))', 'losses.append(float(copy_loss(model, seqs)))')],
    ),
    (
        'stops training after the first batch',
        [('losses.append(float(loss))', 'losses.append(float(loss)); model.eval()')],
    ),
    (
        'first batch left out',
        [('enumerate(batches, start=1)', 'enumerate(list(batches)[1:], start=1)')],
    ),
    (
        'two batches a step',
        [
            ('optimizer.zero_grad()', 'if step % 2: optimizer.zero_grad()'),
            ('optimizer.step()', 'if step % 2 == 0: optimizer.step()'),
        ],
    ),
    ('twice the rate', [('lr_of(step)', '2 * lr_of(step)')]),
    ('mean of the losses', [('return losses', 'return sum(losses) / len(losses)')]),
    (
        'running means',
        [
            (
                'return losses',
                'return [sum(losses[:i]) / i for i in range(1, len(losses) + 1)]',
            )
        ],
    ),
    (
        'an optimizer of its own',
        [
            (
                '    losses = []',
                '    losses = []\n    optimizer = torch.optim.Adam('
                'model.parameters(), lr=0.)',
            )
        ],
    ),
    (
        'a sum for the mean',
        [
            (
                'loss = copy_loss(model, seqs)',
                'loss = copy_loss(model, seqs) * (seqs != 0).sum()',
            )
        ],
    ),
    ('labels are the sequence', [(', [*real, 2, *padding]))', ', [*real, *padding, 0]))')]),
    ('target is not read', [('model(src, tgt)', 'model(src, torch.ones_like(tgt))')]),
    ('source is the target', [('model(src, tgt)', 'model(tgt, tgt)')]),
    (
        'backward twice',
        [('loss.backward()', 'loss.backward(retain_graph=True); loss.backward()')],
    ),
    (
        'clipped by value',
        [
            (
                'optimizer.step()',
                'torch.nn.utils.clip_grad_value_('
                'model.parameters(), 0.01); optimizer.step()',
            )
        ],
    ),
]
DECODING = [
    (
        'draws',
        [
            (
                'logits[:, -1, :].argmax(dim=-1)',
                'torch.multinomial(logits[:, -1, :].softmax(-1), 1)[:, 0]',
            )
        ],
    ),
    (
        'takes the last token of the vocabulary out',
        [('logits[:, -1, :].argmax(dim=-1)', 'logits[:, -1, :-1].argmax(dim=-1)')],
    ),
    ('stops at padding', [('if token == 2:', 'if token == 0:')]),
    (
        'a mask of the target',
        [
            (
                'logits = model.decode(tgt, memory, mask)\n        new',
                'logits = model.decode(tgt, memory, torch.ones_like(mask))\n        new',
            )
        ],
    ),
    (
        'the second best',
        [('logits[:, -1, :].argmax(dim=-1)', 'logits[:, -1, :].topk(2).indices[:, 1]')],
    ),
    (
        'inverse penalty',
        [('(5 + n) ** alpha / (5 + 1) ** alpha', '(5 + 1) ** alpha / (5 + n) ** alpha')],
    ),
    ('one plus n', [('(5 + n) ** alpha', '(1 + n) ** alpha')]),
    (
        'a root of the penalty',
        [('(5 + n) ** alpha / (5 + 1) ** alpha', '((5 + n) / 6) ** (alpha / 2)')],
    ),
    (
        'prunes by penalized scores',
        [
            (
                'candidates.sort(reverse=True)',
                'candidates.sort(key=lambda c: c[0] / length_penalty(len(c[1]) - 1, '
                'alpha), '
                'reverse=True)',
            )
        ],
    ),
    ('the worst wins', [('score, ids = max(done)', 'score, ids = min(done)')]),
    (
        'the shortest wins',
        [('score, ids = max(done)', 'score, ids = min(done, key=lambda d: len(d[1]))')],
    ),
    (
        'alpha fixed',
        [
            (
                '    memory = model.encode(src)\n    mask = padding_mask(src)\n    beam',
                '    alpha = 0.6\n    memory = model.encode(src)\n'
                '    mask = padding_mask(src)\n    beam',
            )
        ],
    ),
    ('a beam twice as wide', [('candidates[:beam_size]', 'candidates[:2 * beam_size]')]),
    (
        'the beam shrinks',
        [('candidates[:beam_size]', 'candidates[:max(1, beam_size - len(done))]')],
    ),
    ('counts twice', [('(total + value, ids', '(total + 2 * value, ids')]),
    (
        'positive scores',
        [
            (
                'return [i for i in ids if i > 2], score',
                'return [i for i in ids if i > 2], -score',
            )
        ],
    ),
    (
        'the end costs nothing',
        [
            (
                '(total + value, ids + [index])',
                '(total + value * (index != 2), ids + [index])',
            )
        ],
    ),
    ('the last finished wins', [('score, ids = max(done)', 'score, ids = done[-1]')]),
    ('the first finished wins', [('score, ids = max(done)', 'score, ids = done[0]')]),
    (
        'logs to base 10',
        [
            (
                'torch.log_softmax(logits, dim=-1)',
                'torch.log10(torch.softmax(logits, dim=-1))',
            )
        ],
    ),
    (
        'mask forgotten in the beam',
        [('memory, mask)[0, -1]', 'memory, torch.ones_like(mask))[0, -1]')],
    ),
    ('three is special, too', [('if i > 2', 'if i > 4')]),
    (
        'a mean for the penalty',
        [
            (
                'length_penalty(len(ids) - 1, alpha), ids))\n            else',
                '(len(ids) - 1), ids))\n            else',
            )
        ],
    ),
]
TRANSLATION = [
    (
        'a start before the source',
        [('tokenizer.encode(text) + [2]', '[1] + tokenizer.encode(text) + [2]')],
    ),
    ('in small letters', [('tokenizer.encode(text)', 'tokenizer.encode(text.lower())')]),
    ('no weights are found', [(".replace('.layers.', '.')", '')]),
    (
        'the source as it came back',
        [('return tokenizer.decode(best)', 'return tokenizer.decode(best + [2])')],
    ),
]

STAGES = (
    ATTENTION,
    MULTIHEAD,
    LAYERS,
    EMBEDDING,
    MODEL,
    OPTIMIZER,
    TRAINING,
    DECODING,
    TRANSLATION,
)
VERSIONS = [
    (number, words, changes)
    for number, versions in enumerate(STAGES, 1)
    for words, changes in versions
]


def looked_at(version):
    return crc32(version[1].encode()) % 2 == 0
