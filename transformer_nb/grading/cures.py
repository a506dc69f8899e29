"""What a line of the right file becomes, and one sentence of cure: tried by running"""

_FILLED = """float('-inf'))
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(mask == False, 0.0)
"""

CURES = dict(
    attention=[
        (' / math.sqrt(d_k)', '', 'Divide the scores by the square root of d_k.'),
        ('math.sqrt(d_k)', 'd_k', 'Divide by the square root of d_k, not by d_k itself.'),
        ('/ math.sqrt(d_k)', '* math.sqrt(d_k)', 'Divide by the square root of d_k: the '
         'dot products are too large, not too small.'),
        ('scores, dim=-1', 'scores, dim=-2', 'Take the softmax over the keys, the '
         'last axis, so that the weights of each query sum to 1.'),
        ('mask == False', 'mask', 'The mask is read the wrong way round.'),
        ('weights.masked_fill(mask == False, 0.0)', 'weights', 'Set the weights of what is '
         'forbidden to zero after the softmax: where all scores are -inf, they are NaN.'),
        (_FILLED, _FILLED.replace("float('-inf')", '-1e9').partition('    if')[0],
         'A large negative number cancels where a query may attend to nothing: set its '
         'weights to zero after the softmax.'),
        ('ids != 0', 'ids == 0', 'The mask is inverted: it hides the tokens.'),
        ('<= row', '< row', 'Let a position attend to itself, too.'),
        ('<= row', '>= row', 'The mask lets a position see what comes after it.')],
    multihead=[
        ('.reshape(batch, length, self.n_heads, size).permute(0, 2, 1, 3)',
         '.reshape(batch, self.n_heads, length, size)', 'Split the last axis into heads and '
         'features first; then exchange the axes of tokens and heads.'),
        ('permute(0, 2, 1, 3).reshape(batch, l', 'reshape(batch, l', 'Exchange the axes of '
         'heads and tokens before the heads are joined.'),
        ('(q, k, v, mask)', '(q, k, v)', 'The mask is not handed on.'),
        ('self.value(source)', 'self.value(x)', 'Make the values from the memory, too.'),
        ('return self.output(out)', 'return out', 'The last projection is missing.')],
    layers=[
        ('torch.clamp(self.inner(x), min=0)', 'self.inner(x)', 'There is no ReLU between '
         'the two maps.'),
        ('(centered ** 2).mean(dim=-1, keepdim=True)',
         'x.var(dim=-1, keepdim=True)', 'The variance divides by d_model, not by '
         'd_model - 1: `var(unbiased=False)`.'),
        ('torch.sqrt(variance + self.eps)', '(torch.sqrt(variance) + self.eps)',
         'Add eps to the variance, under the root.'),
        ('eps=1e-5', 'eps=1e-6', 'Take 1e-5 for eps.'),
        ('return self.norm(total)', 'return x + self.dropout(sublayer(self.norm(x), *args, '
         '**kwargs))', 'This is pre-norm: here the sum is normalized, after the sub-layer.'),
        ('total = x + out', 'total = out', 'The input is not added.')],
    embedding=[
        ('self.weight[ids] * math.sqrt(self.d_model)', 'self.weight[ids]', 'The vectors are '
         'not multiplied by the square root of d_model.'),
        ('pe[:, 0::2] = torch.sin', 'pe[:, 0::2] = torch.cos', 'Put the sines at even places.'),
        ('-math.log(10000.0)', '-math.log(1000.0)', 'Take 10,000 as the base.')],
    model=[
        ('mask = causal_mask(tgt.size(1))', 'mask = causal_mask(tgt.size(1)) | True', 'The '
         'decoder sees the tokens that it is to predict: its own mask is causal.'),
        ('self.positions(self.embedding(', '(self.embedding(', 'There are no positions.')],
    optimizer=[
        ('betas=(0.9, 0.98)', 'betas=(0.9, 0.999)', 'The paper has β₂ = 0.98.'),
        (', eps=1e-9', '', 'The paper has ε = 1e-9.'),
        ('betas=(0.9, 0.98), eps=1e-9', '', "These are PyTorch's constants, not the paper's: "
         'β₂ = 0.98, ε = 1e-9.'),
        ('min(decay, warmup)', 'max(decay, warmup)', 'Take the smaller of the two.'),
        ('loss.sum()', 'loss.mean()', 'The loss is the sum over all tokens, not the mean.'),
        ('loss = loss[labels != 0]', 'pass', 'Padding has no loss.')],
    training=[
        ('optimizer.zero_grad()', 'pass', 'The gradients of earlier steps are still there: '
         'call `optimizer.zero_grad()` in each step.'),
        ('model.train()', 'pass', 'The model is not put into training mode.'),
        ('start=1', 'start=0', 'Count the steps from 1.')],
    decoding=[
        ('if token == 2:', 'if False:', 'End an output before its first `</s>`.'),
        ('length_penalty(len(ids) - 1, alpha), ids))\n            else',
         'length_penalty(len(ids), alpha), ids))\n            else', 'Count `</s>` in |Y|, '
         'and not `<s>`.'),
        ('** alpha', '* alpha', 'Take α as an exponent.')])
