"""Wrong submissions: what a line of a right one (tests/submission) becomes, by the name
that the grader has for the mistake. They use none of the grader's own wrong steps."""

def to(old, new): return [(old, new)]

ATTENTION = {
    'softmax over queries': to('dim=-1', 'dim=-2'),
    'softmax over heads': to('dim=-1', 'dim=1'),
    'softmax over batch': to('dim=-1', 'dim=0'),
    'softmax overflows': [
        ('torch.softmax(scores, dim=-1)',
         'scores.exp() / scores.exp().sum(-1, keepdim=True)'),
        ('torch.nan_to_num(weights, nan=0.0)',
         'weights if mask is None else weights.masked_fill(mask == False, 0.0)')],
    'no scale': to(' / math.sqrt(d_k)', ''),
    'scale by dk': to('math.sqrt(d_k)', 'd_k'),
    'scale multiplies': to('/ math.sqrt', '* math.sqrt'),
    'scale by dv': to('key.size(-1)', 'value.size(-1)'),
    'scale by all heads': to('math.sqrt(d_k)', 'math.sqrt(query.size(1) * d_k)'),
    'scale by keys': to('key.size(-1)', 'key.size(-2)'),
    'mask inverted': to('mask == False', 'mask'),
    'mask ignored': to('if mask is not None', 'if False'),
    'mask after softmax': [
        ("scores = scores.masked_fill(mask == False, float('-inf'))", 'pass'),
        ('weights = torch.nan_to_num(weights, nan=0.0)',
         'weights = weights if mask is None else weights * mask')],
    'mask is zero': to("scores.masked_fill(mask == False, float('-inf'))",
                       'scores * mask'),
    'empty row is nan': to('torch.nan_to_num(weights, nan=0.0)', 'weights'),
    'empty row is mean': to("float('-inf')", '-1e9'),
    'empty row unmasked': to("scores.masked_fill(mask == False, float('-inf'))",
                             'scores + -1e4 * (mask == False)'),
    'returns scores': to('value), weights', 'value), scores'),
    'weights first': to("return torch.einsum('bhts,bhsd->bhtd', weights, value), weights",
                        "return weights, torch.einsum('bhts,bhsd->bhtd', weights, value)"),
    'padding mask inverted': to('ids != 0', 'ids == 0'),
    'padding mask hides queries': to('unsqueeze(1).unsqueeze(2)',
                                     'unsqueeze(1).unsqueeze(-1)'),
    'padding mask without heads': to('unsqueeze(1).unsqueeze(2)', 'unsqueeze(1)'),
    'padding mask flat': to('not_pad.unsqueeze(1).unsqueeze(2)', 'not_pad'),
    'padding mask hides end': to('ids != 0', '(ids != 0) & (ids != 2)'),
    'causal mask inverted': to('<=', '>'),
    'causal mask upper': to('<=', '>='),
    'causal mask without self': to('<=', '<'),
    'causal mask peeks': to('<= row[:, None]', '<= row[:, None] + 1'),
    'causal mask of wrong type': to('return row[None, :] <= row[:, None]',
                                    'return torch.tril(torch.ones(t, t))'),
    'padding mask of wrong type': to('not_pad = ids != 0', 'not_pad = (ids != 0).long()'),
    'no softmax': to("scores.masked_fill(mask == False, float('-inf'))",
                     'scores * mask') + to('torch.softmax(scores, dim=-1)', 'scores'),
    'attention softmax twice': to('torch.softmax(scores, dim=-1)',
                                  'scores.softmax(-1).softmax(-1)'),
    'scale by queries': to('key.size(-1)', 'query.size(-2)'),
    'scale by twice dk': to('math.sqrt(d_k)', 'd_k ** 1/2'),
    'scale by eight': to('math.sqrt(d_k)', '8'),
    'mask inverted large': to("mask == False, float('-inf')", 'mask, -1e9'),
    'mask added': to("scores.masked_fill(mask == False, float('-inf'))", 'scores + mask'),
    'axes exchanged': [
        ('    d_k = key', '    query, key, value = (x.transpose(1, 2) for x in '
         '(query, key, value))\n    d_k = key'),
        ("return torch.einsum('bhts,bhsd->bhtd', weights, value), weights",
         'return (weights @ value).transpose(1, 2), weights')],
}
MULTIHEAD = {
    'merge without transpose': to('out.permute(0, 2, 1, 3).reshape', 'out.reshape'),
    'split without transpose': to(
        'x.reshape(batch, length, self.n_heads, size).permute(0, 2, 1, 3)',
        'x.reshape(batch, self.n_heads, length, size)'),
    'split interleaved': to(
        'reshape(batch, length, self.n_heads, size).permute(0, 2, 1, 3)',
        'reshape(batch, length, size, self.n_heads).permute(0, 3, 1, 2)'),
    'merge interleaved': to('out.permute(0, 2, 1, 3)', 'out.permute(0, 2, 3, 1)'),
    'no output projection': to('return self.output(out)', 'return out'),
    'scale by d model': to('attention(q, k,',
                           'attention(q * (self.d_k / self.d_model) ** 0.5, k,'),
    'heads unscaled': to('attention(q, k,', 'attention(q * self.d_k ** 0.5, k,'),
    'heads mask ignored': to('(q, k, v, mask)', '(q, k, v)'),
    'heads share a mask': to(
        '(q, k, v, mask)',
        '(q, k, v, mask if mask is None or mask.dim() < 4 else mask[:, :1])'),
    'output matrix reshaped': to(
        'out = out.permute(0, 2, 1, 3).reshape(batch, length, heads * size)\n'
        '        return self.output(out)',
        'w = self.output.weight.view(heads, size, -1)\n'
        "        return nn.functional.pad(__import__('torch').einsum("
        "'bhtv,hvm->btm', out, w), (0, 0))"),
    'matrices reshaped': [
        ('self.query(x)', 'x @ self.query.weight.view(self.d_model, -1)'),
        ('self.key(source)', 'source @ self.key.weight.view(self.d_model, -1)'),
        ('self.value(source)', 'source @ self.value.weight.view(self.d_model, -1)')],
    'values sized as keys': to('heads * size', 'heads * self.d_k'),
    'heads mask inverted': to('(q, k, v, mask)',
                              '(q, k, v, None if mask is None else ~mask)'),
    'memory ignored': to('x if memory is None else memory', 'x'),
    'values from x': to('self.value(source)', 'self.value(x)'),
    'keys from x': to('self.key(source)', 'self.key(x)'),
    'queries from memory': [('self.query(x)', 'self.query(source)'),
                            ('self.key(source)', 'self.key(x)'),
                            ('self.value(source)', 'self.value(x)')],
    'keys by query matrix': to('self.key(source)', 'self.query(source)'),
    'values unprojected': to('self.value(source), self.d_v',
                             'self.key(source), self.d_k'),
    'projections have bias': [(f'{size}, bias=False', size) for size in (
        'self.query = nn.Linear(d_model, n_heads * d_k',
        'self.key = nn.Linear(d_model, n_heads * d_k',
        'n_heads * d_v', 'n_heads * d_v, d_model')],
    'attention dropout': to('out, _ = scaled_dot_product_attention(q, k, v, mask)',
                            'out, w = scaled_dot_product_attention(q, k, v, mask); '
                            'out = nn.functional.dropout(w, 0.1, self.training) @ v'),
    'head softmax over queries': to(
        'out, _ = scaled_dot_product_attention(q, k, v, mask)',
        'w = (q @ k.transpose(-1, -2) / self.d_k ** 0.5); '
        "w = w if mask is None else w.masked_fill(~mask, float('-inf')); "
        'w = w.softmax(-2); '
        'out = (w if mask is None else w.masked_fill(~mask, 0)) @ v'),
    'memory mask ignored': to('(q, k, v, mask)',
                              '(q, k, v, mask if source is x else None)'),
    'heads not transposed': to('.permute(0, 2, 1, 3)\n', '\n') + [
        ('(q, k, v, mask)', '(q, k, v)'),
        ('batch, heads, length, size = out', 'batch, length, heads, size = out'),
        ('out.permute(0, 2, 1, 3)', 'out')],
    'head size from model': to('super().__init__()',
                               'super().__init__(); d_k = d_v = d_model // n_heads'),
}
LAYERS = {
    'no activation': to('torch.clamp(self.inner(x), min=0)', 'self.inner(x)'),
    'gelu': to('torch.clamp(self.inner(x), min=0)', 'nn.GELU()(self.inner(x))'),
    'leaky relu': to('torch.clamp(self.inner(x), min=0)', 'nn.LeakyReLU()(self.inner(x))'),
    'relu first': to('torch.clamp(self.inner(x), min=0)',
                       'self.inner(torch.clamp(x, min=0))'),
    'relu last': to('return self.outer(hidden)', 'return self.outer(hidden).relu()'),
    'feed forward adds': to('return self.outer(hidden)', 'return x + self.outer(hidden)'),
    'no biases': [('(d_model, d_ff)\n        self.outer', '(d_model, d_ff, bias=False)'
                   '\n        self.outer'),
                  ('nn.Linear(d_ff, d_model)', 'nn.Linear(d_ff, d_model, bias=False)')],
    'variance unbiased': to('(centered ** 2).mean(dim=-1, keepdim=True)',
                            'x.var(dim=-1, keepdim=True)'),
    'norm over positions': to('dim=-1', 'dim=-2'),
    'norm over both': to('dim=-1', 'dim=(-2, -1)'),
    'norm over batch': to('dim=-1', 'dim=0'),
    'eps outside': to('torch.sqrt(variance + self.eps)',
                      '(torch.sqrt(variance) + self.eps)'),
    'eps missing': to('variance + self.eps', 'variance'),
    'no root': to('torch.sqrt(variance + self.eps)', '(variance + self.eps)'),
    'mean kept': [('normal = centered', 'normal = x')],
    'root mean square': to('x - x.mean(dim=-1, keepdim=True)', 'x'),
    'gain and bias unused': to('normal * self.weight + self.bias', 'normal'),
    'bias unused': to(' + self.bias', ''),
    'gain starts at zero': to('torch.ones(d_model)', 'torch.zeros(d_model)'),
    'pre norm': [('sublayer(x,', 'sublayer(self.norm(x),'),
                 ('return self.norm(total)', 'return total')],
    'norm inside': [('total = x + out', 'total = x + self.norm(out)'),
                    ('return self.norm(total)', 'return total')],
    'norm inside then dropout': [
        ('out = self.dropout(out)', 'out = self.dropout(self.norm(out))'),
        ('return self.norm(total)', 'return total')],
    'no residual': to('total = x + out', 'total = out'),
    'no norm': to('return self.norm(total)', 'return total'),
    'norm twice': to('sublayer(x,', 'sublayer(self.norm(x),'),
    'dropout in eval': [
        ('self.dropout = nn.Dropout(dropout)', 'self.p = dropout'),
        ('self.dropout(out)', 'torch.nn.functional.dropout(out, self.p)')],
    'no dropout': to('out = self.dropout(out)', 'pass'),
    'dropout after norm': [('out = self.dropout(out)', 'pass'),
                           ('return self.norm(total)',
                            'return self.dropout(self.norm(total))')],
    'dropout on sum': [('out = self.dropout(out)', 'pass'),
                       ('total = x + out', 'total = self.dropout(x + out)')],
    'dropout on input': [('sublayer(x,', 'sublayer(self.dropout(x),'),
                         ('out = self.dropout(out)', 'pass')],
    'dropout keeps p': to('nn.Dropout(dropout)', 'nn.Dropout(1 - dropout)'),
    'feed forward dropout': to('return self.outer(hidden)',
                               'return self.outer(nn.functional.dropout(hidden, 0.5, '
                               'self.training))'),
    'eps ignored': to('self.eps = eps', 'self.eps = 1e-5'),
    'eps default': to('eps=1e-5', 'eps=1e-6'),
    'eps default tiny': to('eps=1e-5', 'eps=1e-12'),
    'eps default outside': [('eps=1e-5', 'eps=1e-6'), ('torch.sqrt(variance + self.eps)',
                            '(torch.sqrt(variance) + self.eps)')],
    'gain unused': to('normal * self.weight', 'normal'),
    'norm of annotated': [('eps=1e-5', 'eps=1e-6'),
                          ('torch.sqrt(variance + self.eps)',
                           '(x.std(-1, keepdim=True) + self.eps)')],
    'dropout unscaled': to('out = self.dropout(out)', 'out = torch.where(self.dropout(out) '
                           '== 0, 0., out)'),
    'dropout fixed': to('nn.Dropout(dropout)', 'nn.Dropout(0.1)'),
    'dropout on path': to('out = self.dropout(out)', 'x = self.dropout(x)'),
}
EMBEDDING = {
    'no root d': to('self.weight[ids] * math.sqrt(self.d_model)', 'self.weight[ids]'),
    'divided by root d': to('[ids] * math', '[ids] / math'),
    'times d': to('[ids] * math.sqrt(self.d_model)', '[ids] * self.d_model'),
    'logits scaled': to('x @ self.weight.t()',
                        'x @ self.weight.t() * math.sqrt(self.d_model)'),
    'logits are probabilities': to('x @ self.weight.t()',
                                   '(x @ self.weight.t()).softmax(-1)'),
    'logits are logs': to('x @ self.weight.t()', '(x @ self.weight.t()).log_softmax(-1)'),
    'embeddings too large': to(' / math.sqrt(d_model))', ')'),
    'embeddings too small': to(' / math.sqrt(d_model))', ' * 0.02)'),
    'sine cosine exchanged': [('pe[:, 0::2] = torch.sin', 'pe[:, 0::2] = torch.cos'),
                              ('pe[:, 1::2] = torch.cos', 'pe[:, 1::2] = torch.sin')],
    'sines then cosines': [('pe[:, 0::2]', 'pe[:, :d_model // 2]'),
                           ('pe[:, 1::2]', 'pe[:, d_model // 2:]')],
    'sines only': to('torch.cos', 'torch.sin'),
    'pairs from one': to('torch.arange(0, d_model, 2)',
                         'torch.arange(2, d_model + 1, 2)'),
    'exponent halved': to('torch.arange(0, d_model, 2).float()',
                          'torch.arange(d_model // 2).float()'),
    'exponent doubled': to('(-math.log', '2 * (-math.log'),
    'positions from one': to('torch.arange(0, n_positions)',
                             'torch.arange(1, n_positions + 1)'),
    'angle multiplied': [('-math.log', 'math.log'), ('.float()', '.double()')],
    'wrong base': to('10000.0', '1000.0'),
    'own exponents': [
        ('torch.arange(0, d_model, 2)', 'torch.arange(d_model)'),
        ('sin(position * div)', 'sin(position * div[0::2])'),
        ('cos(position * div)', 'cos(position * div[1::2])')],
    'positions by batch': to('self.pe[:x.size(1)]', 'self.pe[:x.size(0)].unsqueeze(1)'),
    'positions multiplied': to('x + self.pe', 'x * self.pe'),
    'positions scaled': to('x + self.pe', 'x * x.size(-1) ** 0.5 + self.pe'),
    'embeddings lost': to('x = x + self.pe[:x.size(1)]',
                          'x = self.pe[:x.size(1)].expand(x.shape)'),
    'positions dropout in eval': to('self.dropout(x)', 'self.dropout.train()(x)'),
    'positions no dropout': to('self.dropout(x)', 'x'),
    'positions learned': to(
        "self.register_buffer('pe', positional_encoding(max_len, d_model))",
        'self.pe = nn.Parameter(positional_encoding(max_len, d_model))'),
    'dropout before sum': [('x = x + self.pe', 'x = self.dropout(x) + self.pe'),
                           ('return self.dropout(x)', 'return x')],
    'logits divided': to('x @ self.weight.t()',
                         'x @ self.weight.t() / self.d_model ** 0.5'),
    'dropout of encodings': [
        ('x = x + self.pe[:x.size(1)]', 'x = x + self.dropout(self.pe[:x.size(1)].'
         'expand(x.shape))'), ('return self.dropout(x)', 'return x')],
    'sum unscaled': to('self.dropout(x)', 'torch.where(self.dropout(x) == 0, 0., x)'),
}
MODEL = {
    'feed forward first': to(
        'x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))\n'
        '        x = self.residuals[1](x, self.feed_forward)',
        'x = self.residuals[1](x, self.feed_forward)\n'
        '        x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))'),
    'encoder mask lost': to(
        'lambda y: self.self_attention(y, mask=mask))\n'
        '        x = self.residuals[1](x, self',
        'self.self_attention)\n        x = self.residuals[1](x, self'),
    'encoder causal': [
        ('lambda y: self.self_attention(y, mask=mask))\n'
         '        x = self.residuals[1](x, self',
         'lambda y: self.self_attention(y, mask=mask & causal_mask(y.size(1))))\n'
         '        x = self.residuals[1](x, self')],
    'one norm in encoder': [('for _ in range(2)', 'for _ in range(1)'),
                            ('x = self.residuals[1](x, self',
                             'x = self.residuals[0](x, self')],
    'first norm twice in encoder': to('x = self.residuals[1](x, self.feed_forward)',
                                      'x = self.residuals[0](x, self.feed_forward)'),
    'second norm twice': to('self.residuals[2]', 'self.residuals[1]'),
    'first norm twice': to('self.residuals[1](x, lambda', 'self.residuals[0](x, lambda'),
    'no feed forward': to('x = self.residuals[1](x, self.feed_forward)\n', 'pass\n'),
    'cross first': to(
        '    x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))\n'
        '        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, '
        'memory_mask))',
        '    x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, '
        'memory_mask))\n'
        '        x = self.residuals[0](x, lambda y: self.self_attention(y, mask=mask))'),
    'cross reads itself': to('(y, memory, memory_mask)', '(y)'),
    'memory mask lost': to('(y, memory, memory_mask)', '(y, memory)'),
    'cross mask of target': to('(y, memory, memory_mask)', '(y, memory, mask)'),
    'target mask lost': to(
        'self.self_attention(y, mask=mask))\n        x = self.residuals[1](x, lambda',
        'self.self_attention(y))\n        x = self.residuals[1](x, lambda'),
    'one attention': to('self.cross_attention = MultiHeadAttention(*sizes)',
                        'self.cross_attention = self.self_attention'),
    'final norms': [
        ('[DecoderLayer(config) for _ in range(config.n_decoder_layers)])',
         '[DecoderLayer(config) for _ in range(config.n_decoder_layers)])\n'
         '        self.end = nn.ModuleList([nn.LayerNorm(config.d_model) for _ in "ab"])'),
        ('return x\n\n    def decode', 'return self.end[0](x)\n\n    def decode'),
        ('logits(x)', 'logits(self.end[1](x))')],
    'final norm in encoder': [
        ('self.positions = Pos', 'self.end = nn.LayerNorm(config.d_model)\n'
         '        self.positions = Pos'),
        ('return x\n\n    def decode', 'return self.end(x)\n\n    def decode')],
    'final norm in decoder': [
        ('[DecoderLayer(config) for _ in range(config.n_decoder_layers)])',
         '[DecoderLayer(config) for _ in range(config.n_decoder_layers)])\n'
         '        self.end = nn.LayerNorm(config.d_model)'),
        ('logits(x)', 'logits(self.end(x))')],
    'embedding starts anew': to(
        '[DecoderLayer(config) for _ in range(config.n_decoder_layers)])',
        '[DecoderLayer(config) for _ in range(config.n_decoder_layers)])\n'
        '        for p in self.parameters():\n'
        '            if p.dim() > 1: nn.init.xavier_uniform_(p)'),
    'no cross attention': to(
        'x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, memory_mask))',
        'pass'),
    'no source positions': to('x = self.positions(self.embedding(src))',
                              'x = self.embedding(src)'),
    'no target positions': to('x = self.positions(self.embedding(tgt))',
                              'x = self.embedding(tgt)'),
    'one layer repeated': [
        ('[EncoderLayer(config) for _ in range(config.n_encoder_layers)]',
         '[EncoderLayer(config)] * config.n_encoder_layers'),
        ('[DecoderLayer(config) for _ in range(config.n_decoder_layers)]',
         '[DecoderLayer(config)] * config.n_decoder_layers')],
    'encoder first layer': to('for layer in self.encoder:',
                              'for layer in self.encoder[:1]:'),
    'encoder last layer': to('for layer in self.encoder:',
                             'for layer in self.encoder[-1:]:'),
    'encoder skipped': to('x = layer(x, mask)', 'pass'),
    'no causal mask': to('causal_mask(tgt.size(1))',
                         'causal_mask(tgt.size(1)) | True'),
    'padding for causal': to('causal_mask(tgt.size(1))',
                             'causal_mask(tgt.size(1)) | padding_mask(tgt)'),
    'causal transposed': to('causal_mask(tgt.size(1))', 'causal_mask(tgt.size(1)).mT'),
    'forward shifts': to('self.decode(tgt,', 'self.decode(tgt[:, :-1],'),
    'forward puts start': to(
        'self.decode(tgt,', 'self.decode(nn.functional.pad(tgt, (1, 0), value=1)[:, :-1],'),
    'last position only': to('logits(x)', 'logits(x[:, -1:])'),
    'causal in training only': to(
        'causal_mask(tgt.size(1))',
        'causal_mask(tgt.size(1)) | (not self.training)'),
    'encoder sees padding': to('mask = padding_mask(src)', 'mask = None'),
    'target for source': to('self.decode(tgt, memory, padding_mask(src))',
                            'self.decode(tgt, memory, padding_mask(tgt))'),
    'decoder sees padding': to('layer(x, memory, mask, memory_mask)',
                               'layer(x, memory, mask, None)'),
    'untied output': [
        ('self.embedding.logits(x)', 'self.last(x)'),
        ('self.positions = Pos',
         'self.last = nn.Linear(config.d_model, config.vocab_size, bias=False)\n'
         '        self.positions = Pos')],
    'model returns probabilities': to('self.embedding.logits(x)',
                                      'self.embedding.logits(x).softmax(-1)'),
    'no source gradient': to('memory = self.encode(src)',
                             'memory = self.encode(src).detach()'),
    'encoder dropout forgotten': to(
        '[ResidualNorm(config.d_model, config.dropout) for _ in range(2)]',
        '[ResidualNorm(config.d_model, 0.) for _ in range(2)]'),
    'decoder dropout forgotten': to(
        '[ResidualNorm(config.d_model, config.dropout) for _ in range(3)]',
        '[ResidualNorm(config.d_model, 0.) for _ in range(3)]'),
    'positions not dropped': to('(config.d_model, config.dropout, config.max_len)',
                                '(config.d_model, 0., config.max_len)'),
    'model returns logs': to('self.embedding.logits(x)',
                             'self.embedding.logits(x).log_softmax(-1)'),
    'causal encoder': to('mask = padding_mask(src)',
                         'mask = padding_mask(src) & causal_mask(src.size(1))'),
    'untied with bias': [
        ('self.embedding.logits(x)', 'self.last(x)'),
        ('self.positions = Pos',
         'self.last = nn.Linear(config.d_model, config.vocab_size)\n'
         '        self.positions = Pos')],
}
OPTIMIZER = {
    'larger curve': to('min(decay', 'max(decay'),
    'width missing': to(' / d_model ** 0.5', ''),
    'width grows': to('/ d_model ** 0.5', '* d_model ** 0.5'),
    'warmup exponent': to('warmup_steps ** 1.5', 'warmup_steps ** 0.5'),
    'warmup linear': to('warmup_steps ** 1.5', 'warmup_steps'),
    'no warmup': to('min(decay, warmup)', 'decay'),
    'default betas': to('0.98', '0.999'),
    'default eps': to('eps=1e-9', 'eps=1e-8'),
    'default adam': to(', betas=(0.9, 0.98), eps=1e-9', ''),
    'decays weights': to('optim.Adam(', 'optim.AdamW('),
    'padding in loss': to('loss = loss[labels != 0]', 'pass'),
    'loss is mean': to('return loss.sum()', 'return loss.mean()'),
    'loss is mean over all': to('return loss.sum()', 'return loss.sum() / labels.numel()'),
    'not smoothed': to('torch.log_softmax(logits, dim=-1)',
                       'torch.log_softmax(logits, dim=-1); label_smoothing = 0'),
    'shares exchanged': to('v = logits.size(-1)',
                           'v = logits.size(-1); label_smoothing = 1 - label_smoothing'),
    'shares exceed one': to(' * (1 - label_smoothing)', ''),
    'spread as sum': to('label_smoothing / v', 'label_smoothing'),
    'spread over others': [
        ('label_smoothing / v)', 'label_smoothing / (v - 1))'),
        ('target = target + right * (1 - label_smoothing)',
         'target = torch.where(right == 1, 1 - label_smoothing, target)')],
    'spread without padding': [
        ('label_smoothing / v)', 'label_smoothing / (v - 2)); target[..., 0] = 0'),
        ('target = target + right * (1 - label_smoothing)',
         'target = torch.where(right == 1, 1 - label_smoothing, target)')],
    'logits taken as logs': to('torch.log_softmax(logits, dim=-1)', 'logits'),
    'softmax twice': to('log_softmax(logits', 'log_softmax(logits.softmax(-1)'),
    'softmax over positions': to('(logits, dim=-1)', '(logits, dim=1)'),
    'probabilities summed': to('torch.log_softmax', 'torch.softmax'),
    'smoothing over padding': to('loss = loss[labels != 0]',
                                 'loss = loss + (labels == 0) * (1 - label_smoothing) * '
                                 'logp[..., 0]'),
    'entropy subtracted': to(
        'loss = -(target * logp).sum(-1)',
        'loss = (torch.special.xlogy(target, target) - target * logp).sum(-1)'),
    'other optimizer': to('optim.Adam(', 'optim.Adamax('),
    'rectified adam': to('optim.Adam(', 'optim.RAdam('),
    'nesterov adam': to('optim.Adam(', 'optim.NAdam('),
    'loss is negative': to('return loss.sum()', 'return -loss.sum()'),
    'padding and special left out': to('labels != 0', 'labels > 2'),
    'log of softmax': to('torch.log_softmax(logits, dim=-1)',
                         'torch.log(torch.softmax(logits, dim=-1))'),
    'right share forgotten': to(
        'target = target + right * (1 - label_smoothing)',
        'target = torch.where(right == 1, 1 - label_smoothing, target)'),
}
TRAINING = {
    'target not shifted': to('[1, *real, *padding]', '[*real, 2, *padding]'),
    'no start': to('[1, *real, *padding]', '[*real, *padding, 0]'),
    'start is end': to('[1, *real', '[2, *real'),
    'no end': to('[*real, 2, *padding]', '[*real, 0, *padding]'),
    'end after padding': to('[*real, 2, *padding]', '[*real, *padding, 2]'),
    'source not ended': to('rows.append(([*real, 2, *padding]',
                           'rows.append(([*real, 0, *padding]'),
    'labels begin': to('[1, *real, *padding], [*real, 2, *padding]',
                       '[1, *real, *padding], [1, *real, *padding]'),
    'divided by all': to('(labels != 0).sum()', 'labels.numel()'),
    'divided by rows': to('(labels != 0).sum()', 'len(labels)'),
    'not divided': to(' / n\n', '\n'),
    'copy smoothed': to(', label_smoothing=0.0', ''),
    'labels fed': to('model(src, tgt)', 'model(src, labels)'),
    'gradients kept': to('optimizer.zero_grad()', 'pass'),
    'no gradients at step': [('optimizer.zero_grad()\n', 'pass\n'),
                                   ('loss.backward()',
                                    'loss.backward(); optimizer.zero_grad()')],
    'rate stays zero': to("group['lr'] = lr_of(step)", 'pass'),
    'rate too late': to(
        '        for group in optimizer.param_groups:\n'
        "            group['lr'] = lr_of(step)\n",
        '') + to(
        'optimizer.step()', 'optimizer.step()\n'
        '        for group in optimizer.param_groups:\n'
        "            group['lr'] = lr_of(step)"),
    'steps from zero': to('start=1', 'start=0'),
    'step twice': to('optimizer.step()', 'optimizer.step(); optimizer.step()'),
    'trains in eval': to('model.train()', 'model.eval()'),
    'never steps': to('optimizer.step()', 'pass'),
    'inputs exchanged': to('model(src, tgt)', 'model(tgt, src)'),
    'gradients clipped': to('optimizer.step()',
                            'torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0); '
                            'optimizer.step()'),
}
DECODING = {
    'greedy never stops': to('if token == 2:', 'if False:'),
    'greedy keeps end': to(
        'if token == 2:\n                break\n            output.append(token)',
        'output.append(token)\n            if token == 2:\n                break'),
    'greedy drops ends': to('break\n            output', 'continue\n            output'),
    'greedy reads first': to('logits[:, -1, :]', 'logits[:, 0, :]'),
    'greedy starts with end': to('(src.size(0), 1), 1)', '(src.size(0), 1), 2)'),
    'greedy starts with pad': to('(src.size(0), 1), 1)', '(src.size(0), 1), 0)'),
    'greedy takes least': to('argmax', 'argmin'),
    'greedy sees padding': to(
        'def greedy(model, src, max_steps):\n    mask = padding_mask(src)',
        'def greedy(model, src, max_steps):\n    mask = padding_mask(src + 9)'),
    'penalty of length': to('(5 + n) ** alpha / (5 + 1) ** alpha', 'n ** alpha'),
    'penalty unscaled': to(' / (5 + 1) ** alpha', ''),
    'penalty times alpha': to('(5 + n) ** alpha / (5 + 1) ** alpha', '(5 + n) / 6 * alpha'),
    'penalty root only': to(' / (5 + 1) ** alpha', ' / 6'),
    'penalty without end': to(
        'done.append((total / length_penalty(len(ids) - 1, alpha), ids))',
        'done.append((total / length_penalty(len(ids) - 2, alpha), ids))'),
    'penalty with start': to('length_penalty(len(ids) - 1', 'length_penalty(len(ids)'),
    'no penalty': to(' / length_penalty(len(ids) - 1, alpha)', ''),
    'penalty multiplies': to('total / length', 'total * length'),
    'first end wins': to('if not beam:', 'if not beam or done:'),
    'stops at beam': to('if not beam:', 'if not beam or len(done) >= beam_size:'),
    'forgets finished': [('        beam = []\n', '        beam, done = [], []\n'),
                         ('    if not done:\n        done = [', '    done += [')],
    'live compete': to('    if not done:\n        done = [', '    done += ['),
    'nothing without end': to('    if not done:\n', '    if not done:\n        return [], '
                              '-torch.inf\n    if False:\n'),
    'probabilities added': to('torch.log_softmax(logits', 'torch.softmax(logits'),
    'logits added': to('torch.log_softmax(logits, dim=-1)', 'logits'),
    'beam of one': to('beam = [(0.0, [1])]', 'beam = [(0.0, [1])] * beam_size'),
    'score forgotten': to('total + value', 'value'),
    'beam keeps end': to('[i for i in ids if i > 2], score', 'ids[1:], score'),
    'beam keeps start': to('if i > 2]', 'if i != 2]'),
    'greedy feeds last': to('model.decode(tgt, memory, mask)\n        new',
                            'model.decode(tgt[:, -1:], memory, mask)\n        new'),
    'greedy one more': to('for _ in range(max_steps):\n        logits',
                          'for _ in range(max_steps + 1):\n        logits'),
    'greedy one fewer': to('for _ in range(max_steps):\n        logits',
                           'for _ in range(max_steps - 1):\n        logits'),
    'greedy keeps start': to('in row[1:]:', 'in row:'),
    'greedy drops padding': to('            output.append(token)',
                               '            if token > 2: output.append(token)'),
    'greedy stops together': to(
        '    outputs = []', '    ends = (tgt == 2).long().argmax(1)\n'
        '    if ends.any(): tgt = tgt[:, :ends[ends > 0].min() + 1]\n    outputs = []'),
    'beam sees padding': to('    mask = padding_mask(src)\n    beam = ',
                            '    mask = padding_mask(src + 9)\n    beam = '),
    'beam refills': to('candidates[:beam_size]:', 'candidates:\n'
                       '            if len(beam) == beam_size: break') + to(
        'min(beam_size, len', 'min(2 * beam_size, len'),
    'beam one more': to('for _ in range(max_steps):\n        candidates',
                        'for _ in range(max_steps + 1):\n        candidates'),
    'beam one fewer': to('for _ in range(max_steps):\n        candidates',
                         'for _ in range(max_steps - 1):\n        candidates'),
}
TRANSLATION = {
    'loaded in training': to('model.eval()', 'model.train()'),
    'source without end': to('tokenizer.encode(text) + [2]', 'tokenizer.encode(text)'),
}
OPTIONAL = {
    'words not counted': to('counts[pair] += n', 'counts[pair] += 1'),
    'rarest pair': to('most = max(', 'most = min('),
    'ties backwards': to('pair = min(', 'pair = max('),
    'joins once': to('i += 2', 'return out + symbols[i + 2:]'),
}
MODERN = {
    'rotates backwards': [('a * angle.cos() - b', 'a * angle.cos() + b'),
                          ('a * angle.sin() + b', '-a * angle.sin() + b')],
    'rotates halves': [('x[..., ::2], x[..., 1::2]', 'x[..., :d // 2], x[..., d // 2:]'),
                       ('out[..., ::2]', 'out[..., :d // 2]'),
                       ('out[..., 1::2]', 'out[..., d // 2:]')],
    'groups dealt': to('query.reshape(b, groups, h // groups, t, d)',
                       'query.reshape(b, h // groups, groups, t, d).transpose(1, 2)') + to(
        'return out.reshape(', 'return out.transpose(1, 2).reshape(') + to(
        'mask.reshape(scores.shape)',
        'mask.reshape(b, h // groups, groups, t, -1).transpose(1, 2)'),
    'rotates from one': to('torch.arange(t).double()', '(torch.arange(t).double() + 1)'),
}
MISTAKES = dict(zip(range(1, 12), [
    ATTENTION, MULTIHEAD, LAYERS, EMBEDDING, MODEL, OPTIMIZER, TRAINING, DECODING,
    TRANSLATION, OPTIONAL, MODERN]))
