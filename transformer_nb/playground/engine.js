// The book's Transformer in plain JavaScript: model (chapters 01 to 05) and cached beam
// search (13), with their names and in that order. With its tokenizer (08) it needs nothing
// but the language itself, so it runs in a page, in a worker and in Node.
//
// A tensor (t, d) is a list of t rows, each a Float32Array of d numbers: one sentence at a
// time, hence no batch axis and no padding. Sums are taken in double precision, which is
// what JavaScript computes in, and rounded when they are stored.
import {BOS, EOS, DEFAULTS} from './shared.js'
import {Tokenizer} from './tokenizer.js'

// ---- What PyTorch brings along: a linear map, a norm, a softmax ------------------------

// x (t, n) -> x·Wᵀ + b (t, m). W is stored as in PyTorch, a row for each output (m, n).
class Linear {
  constructor(weight, bias, m) { Object.assign(this, {weight, bias, m}) }

  forward(x) {
    const out = x.map(() => new Float32Array(this.m))
    let t = 0
    for (; t + 1 < x.length; t += 4) {
      const end = t + 4
      this.fourRows(x.slice(t, end), out.slice(t, end))
    }
    if (t < x.length) this.oneRow(x[t], out[t])
    return out
  }

  // Each weight is read once for four rows, each number of a row once for two outputs. The
  // eight sums do not wait for one another, as the additions of a single sum would.
  fourRows([x0, x1, x2 = x1, x3 = x1], [out0, out1, out2 = out1, out3 = out1]) {
    const {weight, bias, m} = this, n = x0.length
    for (let j = 0; j < m; j += 2) {
      const k = Math.min(j + 1, m - 1) // where m is odd, the last one twice
      const start = bias ? bias[j] : 0, start_k = bias ? bias[k] : 0
      let sum0 = start, sum1 = start, sum2 = start, sum3 = start
      let sum0_k = start_k, sum1_k = start_k, sum2_k = start_k, sum3_k = start_k
      for (let i = 0, w = j * n, w_k = k * n; i < n; i++) {
        const weight_ji = weight[w++], weight_ki = weight[w_k++]
        const a = x0[i], b = x1[i], c = x2[i], d = x3[i]
        sum0 += weight_ji * a
        sum1 += weight_ji * b
        sum2 += weight_ji * c
        sum3 += weight_ji * d
        sum0_k += weight_ki * a
        sum1_k += weight_ki * b
        sum2_k += weight_ki * c
        sum3_k += weight_ki * d
      }
      out3[j] = sum3
      out2[j] = sum2
      out1[j] = sum1
      out0[j] = sum0
      out3[k] = sum3_k
      out2[k] = sum2_k
      out1[k] = sum1_k
      out0[k] = sum0_k
    }
  }

  oneRow(x, out) { // four sums of one output
    const {weight, bias, m} = this, n = x.length, whole = n - n % 4
    for (let j = 0; j < m; j++) {
      const w = j * n
      let sum0 = bias ? bias[j] : 0, sum1 = 0, sum2 = 0, sum3 = 0
      for (let i = 0; i < whole; i += 4) {
        sum0 += weight[w + i] * x[i]
        sum1 += weight[w + i + 1] * x[i + 1]
        sum2 += weight[w + i + 2] * x[i + 2]
        sum3 += weight[w + i + 3] * x[i + 3]
      }
      for (let i = whole; i < n; i++) sum0 += weight[w + i] * x[i]
      out[j] = sum0 + sum1 + sum2 + sum3
    }
  }
}

class LayerNorm { // ε stands inside the root, and the variance is divided by d, not d - 1
  constructor(weight, bias) { Object.assign(this, {weight, bias}) }

  forward(x) { // (t, d) -> (t, d)
    return x.map(row => {
      const d = row.length
      let sum = 0, squares = 0
      for (let i = 0; i < d; i++) sum += row[i]
      const mean = sum / d
      for (let i = 0; i < d; i++) squares += (row[i] - mean)**2
      const scale = 1 / Math.sqrt(squares / d + 1e-5)
      return row.map((value, i) => {
        const normal = (value - mean) * scale
        return normal * this.weight[i] + this.bias[i]
      })
    })
  }
}

function logSumExp(x) { // without the maximum taken off, exp would overflow
  let max = -Infinity, sum = 0
  for (let i = 0; i < x.length; i++) if (x[i] > max) max = x[i]
  for (let i = 0; i < x.length; i++) sum += Math.exp(x[i] - max)
  return max + Math.log(sum)
}

function softmax(x) { // of one row; of no numbers, no numbers
  const all = logSumExp(x)
  return x.map(score => Math.exp(score - all))
}

const add = (x, y) => x.map((row, t) => row.map((value, i) => value + y[t][i])) // (t, d)

// ---- One run: what is switched off in it, and who watches ------------------------------

class Run {
  constructor(broken = {}) {
    const {heads = [], attention = []} = broken
    this.off = new Set([...heads, ...attention]) // 'cross.3.1'; 'cross.3': all its heads
    this.scale = !broken.no_scale
    this.positions = !broken.no_positions
    this.sourcePositions = this.positions && !broken.no_source_positions
    this.causalEncoder = Boolean(broken.causal_encoder)
    this.known = {} // by layer: what comes out of it, where an earlier run has computed it
  }
  isOff(name, head) { return this.off.has(name) || this.off.has(`${name}.${head + 1}`) }
  attention(name, q, keysOf, weights) {} // called by each attention
  note(where, name, rows) {}             // called along the way of chapter 05
}

// ---- Chapters 01 and 02: attention -----------------------------------------------------

class MultiHeadAttention {
  constructor(weights, path, name, c) {
    this.name = name // such as 'cross.3'
    Object.assign(this, {n_heads: c.n_heads, d_k: c.d_k, d_v: c.d_v})
    for (const part of ['query', 'key', 'value', 'output']) // W^Q, W^K, W^V, W^O: no bias
      this[part] = weights.linear(`${path}.${part}`)
  }

  // Eq. (1) for one query of one head. The heads lie side by side in a row, so a head is an
  // offset. Keys that a mask would hide are not in the list.
  scaledDotProductAttention(q, keys, values, head, run) { // q (h·d_k), keys (s, h·d_k)
    const {d_k, d_v} = this, start = head * d_k
    const scores = keys.map(k => {
      let dot = 0
      for (let i = start; i < start + d_k; i++) dot += q[i] * k[i]
      return run.scale ? dot / Math.sqrt(d_k) : dot
    })
    const weights = softmax(scores) // (s)
    const output = new Float64Array(d_v)
    weights.forEach((weight, s) => {
      for (let i = 0; i < d_v; i++) output[i] += weight * values[s][head * d_v + i]
    })
    return {output, weights}
  }

  // MultiHead(Q, K, V): a list of keys and values for each query, which is its mask
  attend(q, keysOf, valuesOf, run) { // (t, h·d_k) -> (t, d)
    const all = [] // weights of each head (h, t, s)
    const concatenated = q.map(() => new Float32Array(this.n_heads * this.d_v))
    for (let head = 0; head < this.n_heads; head++) {
      all.push(q.map((row, t) => {
        const {output, weights} = this.scaledDotProductAttention(
          row, keysOf[t], valuesOf[t], head, run)
        if (!run.isOff(this.name, head)) concatenated[t].set(output, head * this.d_v)
        return weights
      }))
    }
    run.attention(this.name, q, keysOf, all)
    return this.output.forward(concatenated)
  }

  forward(x, memory, causal, run) { // (t, d), (s, d) -> (t, d)
    const k = this.key.forward(memory), v = this.value.forward(memory)
    const seen = rows => x.map((_, t) => causal ? rows.slice(0, t + 1) : rows)
    return this.attend(this.query.forward(x), seen(k), seen(v), run)
  }
}

// ---- Chapter 03: feed-forward network and residual -------------------------------------

class FeedForward { // Eq. (2)
  constructor(weights, path) {
    this.inner = weights.linear(`${path}.inner`)
    this.outer = weights.linear(`${path}.outer`)
  }
  forward(x) { // (t, d) -> (t, d)
    const relu = row => row.map(value => Math.max(0, value))
    const hidden = this.inner.forward(x).map(relu)
    return this.outer.forward(hidden)
  }
}

class ResidualNorm { // LayerNorm(x + Sublayer(x)), or with 'pre' x + Sublayer(LayerNorm(x))
  constructor(weights, path, c) {
    this.norm = weights.norm(`${path}.norm`)
    this.pre = c.norm === 'pre'
  }
  forward(x, sublayer) {
    if (this.pre) return add(x, sublayer(this.norm.forward(x)))
    return this.norm.forward(add(x, sublayer(x)))
  }
}

// ---- Chapter 04: embedding and positions -----------------------------------------------

class Embedding {
  constructor(weight, d) {
    this.d = d
    this.toScores = new Linear(weight, null, weight.length / d) // (v, d)
  }
  row(id) { return this.toScores.weight.subarray(id * this.d, (id + 1) * this.d) }
  forward(ids) { // -> (t, d), multiplied by √d
    const scale = Math.sqrt(this.d)
    return ids.map(id => this.row(id).map(value => value * scale))
  }
  logits(x) { return this.toScores.forward(x) } // (t, d) -> (t, v)
}

class PositionalEncoding {
  constructor(table, d) { Object.assign(this, {table, d}) } // the learned one, or null
  row(pos) {
    if (this.table) return this.table.subarray(pos * this.d, (pos + 1) * this.d)
    return Float32Array.from({length: this.d}, (_, i) => {
      const angle = pos / 10000**((i - i % 2) / this.d)
      return i % 2 ? Math.cos(angle) : Math.sin(angle)
    })
  }
  forward(x, at) { // (t, d), their positions (t) -> (t, d)
    return add(x, at.map(pos => this.row(pos)))
  }
}

// ---- Chapter 05: the model -------------------------------------------------------------

const ofHalf = Float32Array.from({length: 2**16}, (_, bits) => fromHalf(bits))

function fromHalves(buffer, start, n) {
  const halves = new Uint16Array(buffer, start, n), floats = new Float32Array(n)
  for (let i = 0; i < n; i++) floats[i] = ofHalf[halves[i]] // `from` would be slow
  return floats
}

function fromRows(buffer, start, n, nRows) { // scales, then numbers of eight bits
  const scales = fromHalves(buffer, start, nRows)
  const whole = new Int8Array(buffer, start + 2*nRows, n), floats = new Float32Array(n)
  for (let i = 0; i < n; i++) floats[i] = whole[i] * scales[Math.floor(i * nRows / n)]
  return floats
}

class Weights { // by PyTorch's names; 16 or 8 bits in the file, float32 from here on
  constructor(tensors, buffer) {
    this.tensors = {}
    let start = 0 // of a tensor, in bytes
    for (const [name, shape, bits] of tensors) {
      const n = shape.reduce((product, n) => product * n), isShort = bits === 8
      const read = isShort ? fromRows : fromHalves
      this.tensors[name] = {data: read(buffer, start, n, shape[0]), shape}
      start += isShort ? 2*shape[0] + n + n % 2 : 2*n
    }
  }
  data(name) { return this.tensors[name]?.data ?? null }
  linear(path) {
    const {data, shape} = this.tensors[`${path}.weight`]
    return new Linear(data, this.data(`${path}.bias`), shape[0])
  }
  norm(path) {
    const weight = this.data(`${path}.weight`), bias = this.data(`${path}.bias`)
    return new LayerNorm(weight, bias)
  }
}

function fromHalf(bits) { // one sign, five bits of exponent, ten of fraction
  const sign = bits >> 15 ? -1 : 1, exponent = bits >> 10 & 31, fraction = bits & 1023
  if (exponent === 31) return fraction ? NaN : sign * Infinity
  if (exponent === 0) return sign * fraction * 2**-24 // below the smallest normal number
  return sign * (1024 + fraction) * 2**(exponent - 25)
}

class EncoderLayer {
  constructor(weights, path, layer, c) {
    const attention = `${path}.self_attention`
    this.where = `encoder layer ${layer}`
    this.selfAttention = new MultiHeadAttention(weights, attention, `encoder.${layer}`, c)
    this.feedForward = new FeedForward(weights, `${path}.feed_forward`)
    this.residuals = [0, 1].map(i => new ResidualNorm(weights, `${path}.residuals.${i}`, c))
  }
  forward(x, run) { // (s, d) -> (s, d)
    const [attend, transform] = this.residuals
    x = attend.forward(x, x => this.selfAttention.forward(x, x, run.causalEncoder, run))
    run.note(this.where, 'after self-attention', x)
    x = transform.forward(x, x => this.feedForward.forward(x))
    run.note(this.where, 'after feed-forward', x)
    return x
  }
}

class DecoderLayer {
  constructor(weights, path, layer, c) {
    const attention = `${path}.self_attention`, cross = `${path}.cross_attention`
    this.where = `decoder layer ${layer}`
    this.selfAttention = new MultiHeadAttention(weights, attention, `decoder.${layer}`, c)
    this.crossAttention = new MultiHeadAttention(weights, cross, `cross.${layer}`, c)
    this.feedForward = new FeedForward(weights, `${path}.feed_forward`)
    this.residuals = [0, 1, 2].map(i =>
      new ResidualNorm(weights, `${path}.residuals.${i}`, c))
  }
  forward(x, memory, run) { // (t, d), (s, d) -> (t, d)
    return this.sublayers(x, run,
      x => this.selfAttention.forward(x, x, true, run),
      x => this.crossAttention.forward(x, memory, false, run))
  }
  sublayers(x, run, lookBack, lookAcross) {
    const [attend, attendMemory, transform] = this.residuals
    x = attend.forward(x, lookBack)
    run.note(this.where, 'after self-attention', x)
    x = attendMemory.forward(x, lookAcross)
    run.note(this.where, 'after cross-attention', x)
    x = transform.forward(x, x => this.feedForward.forward(x))
    run.note(this.where, 'after feed-forward', x)
    return x
  }
}

class Transformer {
  constructor(c, tensors, buffer) { // configuration; names, shapes and bits; bytes
    const weights = new Weights(tensors, buffer)
    const numbers = n => Array.from({length: n}, (_, i) => i)
    const embedding = i => new Embedding(weights.data(`embeddings.${i}.weight`), c.d_model)
    const positions = side => {
      return new PositionalEncoding(weights.data(`${side}_positions.table`), c.d_model)
    }
    this.config = c
    this.srcEmbedding = embedding(0)
    this.tgtEmbedding = c.tie_embeddings ? this.srcEmbedding : embedding(1)
    this.output = c.tie_embeddings ? this.srcEmbedding : embedding(2)
    this.srcPositions = positions('src')
    this.tgtPositions = positions('tgt')
    this.encoderLayers = numbers(c.n_encoder_layers).map(
      i => new EncoderLayer(weights, `encoder.layers.${i}`, i + 1, c))
    this.decoderLayers = numbers(c.n_decoder_layers).map(
      i => new DecoderLayer(weights, `decoder.layers.${i}`, i + 1, c))
    // Layers that have their norms at the beginning leave one to be done at the end
    const identity = {forward: x => x}
    this.encoderNorm = c.norm === 'pre' ? weights.norm('encoder.norm') : identity
    this.decoderNorm = c.norm === 'pre' ? weights.norm('decoder.norm') : identity
  }

  embed(embedding, positions, ids, where, run) { // -> (t, d)
    run.note(where, 'row of the matrix', ids.map(id => embedding.row(id)))
    let x = embedding.forward(ids)
    run.note(where, '· √d_model', x)
    const isOn = where === 'encoder' ? run.sourcePositions : run.positions
    if (isOn) x = positions.forward(x, ids.map((_, t) => t))
    run.note(where, '+ position', x)
    return x
  }

  encode(src, run) { // ids, the last one `</s>` -> memory (s, d)
    let x = this.embed(this.srcEmbedding, this.srcPositions, src, 'encoder', run)
    for (const layer of this.encoderLayers)
      x = run.known[layer.where] ?? layer.forward(x, run)
    x = this.encoderNorm.forward(x)
    run.note('encoder', 'memory', x)
    return x
  }

  decode(tgt, memory, run) { // ids, the first one `<s>` -> logits (t, v)
    let x = this.embed(this.tgtEmbedding, this.tgtPositions, tgt, 'decoder', run)
    for (const layer of this.decoderLayers)
      x = run.known[layer.where] ?? layer.forward(x, memory, run)
    return this.output.logits(this.decoderNorm.forward(x))
  }
}

// ---- Chapter 13: cached beam search ----------------------------------------------------

// Source length (without `</s>`) + max_extra, never more than the model has positions
function outputLimit(model, src, max_extra) {
  return Math.min(src.length - 1 + max_extra, model.config.max_len)
}

class Cache {
  constructor(model, src, run) {
    const memory = model.encode(src, run)
    this.source = model.decoderLayers.map(({crossAttention: a}) => // one for all hypotheses
      ({keys: a.key.forward(memory), values: a.value.forward(memory)}))
    // for each layer and hypothesis, the keys and values of its tokens so far
    this.target = model.decoderLayers.map(() => [{keys: [], values: []}])
    this.n = 0 // target tokens read so far
  }
  select(parents) { // the hypotheses to go on with; only pointers to rows are copied
    this.target = this.target.map(layer => parents.map(p =>
      ({keys: [...layer[p].keys], values: [...layer[p].values]})))
  }
}

function nextLogits(model, tokens, cache, run) { // newest of each hypothesis (k) -> (k, v)
  let x = model.tgtEmbedding.forward(tokens)
  if (run.positions) x = model.tgtPositions.forward(x, tokens.map(() => cache.n)) // (k, d)
  model.decoderLayers.forEach((layer, i) => {
    const source = cache.source[i], target = cache.target[i]
    const lookBack = x => {
      const {query, key, value} = layer.selfAttention
      key.forward(x).forEach((row, h) => target[h].keys.push(row))
      value.forward(x).forEach((row, h) => target[h].values.push(row))
      return layer.selfAttention.attend(
        query.forward(x), target.map(h => h.keys), target.map(h => h.values), run)
    }
    const lookAcross = x => {
      const {crossAttention} = layer
      return crossAttention.attend(crossAttention.query.forward(x),
        x.map(() => source.keys), x.map(() => source.values), run)
    }
    x = layer.sublayers(x, run, lookBack, lookAcross)
  })
  cache.n++
  return model.output.logits(model.decoderNorm.forward(x))
}

const lengthPenalty = (n, alpha) => ((5 + n) / 6)**alpha // n counts `</s>`

function topTokens(x, k) { // the k largest of a row, of equal ones the first; largest first
  const top = []
  for (let id = 0; id < x.length; id++) {
    if (top.length === k && !(x[id] > x[top[k - 1]])) continue
    let place = top.length < k ? top.length : k - 1
    while (place > 0 && x[id] > x[top[place - 1]]) top[place] = top[--place]
    top[place] = id
  }
  return top
}

class Beams {
  constructor(limit, alpha, beamSize, nBest) {
    Object.assign(this, {limit, alpha, beamSize, nBest})
    this.longestPenalty = lengthPenalty(limit, alpha)
    this.live = [{ids: [], logProbs: [], score: 0, parent: 0}]
    this.best = [] // of those that have ended, the n best
  }

  // Replace the live hypotheses by their k best continuations; returns all k·k that stood
  // for election, the best first. A forced token leaves no choice.
  extend(logits, forced) { // (k, v)
    const candidates = this.live.flatMap((h, parent) => {
      const row = logits[parent], all = logSumExp(row)
      const tokens = forced === undefined ? topTokens(row, this.beamSize) : [forced]
      return tokens.map(id => {
        const logProb = row[id] - all
        return {ids: [...h.ids, id], logProbs: [...h.logProbs, logProb],
                score: h.score + logProb, parent}
      })
    })
    if (candidates.some(h => Number.isNaN(h.score)))
      throw new Error('the model predicts NaN: its weights are NaN, infinite or too large')
    candidates.sort((a, b) => b.score - a.score) // is stable: of equals, the first parent
    this.live = candidates.slice(0, this.beamSize)
    return candidates
  }

  storeFinished(n) { // set aside those that end with `</s>`; their places become empty
    const isEnded = h => h.ids[n - 1] === EOS
    const ended = this.live.filter(isEnded)
    this.live = this.live.filter(h => !isEnded(h))
    const penalty = lengthPenalty(n, this.alpha)
    this.best.push(...ended.map(h => ({...h, score: h.score / penalty})))
    this.best.sort((a, b) => b.score - a.score)
    this.best.length = Math.min(this.best.length, this.nBest)
  }

  done(n) { // can no live hypothesis enter the n best any more?
    if (this.live.length === 0 || n === this.limit) return true
    const worst = this.best[this.nBest - 1]?.score ?? -Infinity
    return worst >= this.live[0].score / this.longestPenalty
  }

  results() { // where none has ended, those that were cut off
    if (this.best.length) return this.best
    return this.live.slice(0, this.nBest).map(
      h => ({...h, score: h.score / this.longestPenalty}))
  }
}

// Yields what each step considered, so that whoever runs it can look up in between; returns
// the best hypotheses, whose ids end with `</s>` unless they were cut off
function* search(model, src, options, run) {
  const {beam_size, alpha, max_extra} = {...DEFAULTS, ...options}
  const {n_best = 1, prefix = []} = options
  const limit = outputLimit(model, src, max_extra)
  const beams = new Beams(limit, alpha, beam_size, n_best)
  const cache = new Cache(model, src, run)
  let tokens = [BOS]
  for (let n = 1; ; n++) {
    const candidates = beams.extend(nextLogits(model, tokens, cache, run), prefix[n - 1])
    const kept = beams.live.length
    beams.storeFinished(n)
    yield {n, candidates, kept, live: beams.live}
    if (beams.done(n)) return beams.results()
    cache.select(beams.live.map(h => h.parent))
    tokens = beams.live.map(h => h.ids[n - 1])
  }
}

export {Tokenizer, Weights, Transformer, Run, search, logSumExp, softmax, topTokens,
        lengthPenalty, Embedding, PositionalEncoding, EncoderLayer}
