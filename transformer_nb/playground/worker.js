// ---- The messages that the page sends, in a worker or, where there is none, in the page 
//
// {id, method, args} in; {id, result}, {id, progress} and {id, error: {name, message}} out.
// Requests run in steps, side by side; {abort: id} in stops one at its next step.
import {BOS, EOS, DEFAULTS, BOUNDS} from './shared.js'
import {Tokenizer, strip} from './tokenizer.js'
import {Transformer, Run, search, logSumExp, topTokens, lengthPenalty} from './engine.js'

const models = new Map() // by key: header, tokenizer, model

function load({models: files}) { // header as exported, weights as an ArrayBuffer
  for (const {header, weights} of files) {
    const model = new Transformer(header.config, header.tensors, weights)
    models.set(header.key, {header, model, tokenizer: new Tokenizer(header)})
  }
  return true
}

function find(key) { // the only model, or the first, needs no name
  const found = key === undefined ? [...models.values()][0] : models.get(key)
  if (!found) throw new Error(`there is no model ${key} in this page`)
  return found
}

function source({tokenizer, model}, text) { // ids that are read, and whether some are not
  if (typeof text !== 'string') throw new Error(`text is ${text}; it must be a string`)
  const ids = tokenizer.encode(text), limit = model.config.max_len - 1
  return {src: [...ids.slice(0, limit), EOS], cut: ids.length > limit}
}

const sum = numbers => numbers.reduce((total, x) => total + x, 0)

// ---- Methods: generators where they take long, so that newer messages are heard --------

function listModels() {
  const names = ['key', 'title', 'src', 'tgt', 'config', 'checksum', 'n_parameters',
                 'examples', 'heads', 'tour', 'read', 'promise', 'credit', 'check']
  return [...models.values()].map(({header}) => {
    const shown = Object.fromEntries(names.map(name => [name, header[name]]))
    return {...shown, search: {...DEFAULTS, ...header.search}}
  })
}

function tokenize({model: key, text}) {
  const found = find(key), {src, cut} = source(found, text)
  return {ids: src, pieces: found.tokenizer.pieces(src), read: src.length - 1, cut}
}

function searchOptions({header, model}, wanted) { // as the header says, or as is wanted
  const options = {...DEFAULTS, ...header.search, ...wanted}
  for (const [name, [low, high, isWhole]] of Object.entries(BOUNDS)) {
    const value = options[name], kind = isWhole ? 'whole number' : 'number'
    const isKind = isWhole ? Number.isInteger(value) : Number.isFinite(value)
    if (isKind && value >= low && value <= high) continue
    throw new Error(`${name} is ${value}; it must be a ${kind} from ${low} to ${high}`)
  }
  checkIds(options.prefix ?? [], model)
  return options
}

function checkIds(ids, {config: {vocab_size}}) {
  const isId = id => Number.isInteger(id) && id >= 0 && id < vocab_size
  if (Array.isArray(ids) && ids.every(isId)) return ids
  throw new Error(`tokens are a list of whole numbers from 0 to ${vocab_size - 1}`)
}

function* translate({model: key, text, broken, ...wanted}) {
  const start = performance.now(), found = find(key), {tokenizer, model} = found
  const {src, cut} = source(found, text)
  if (!strip(text)) return {text: '', ids: [], score: 0, log_prob: 0, token_log_probs: [],
                            ms: 0, cut}
  const options = searchOptions(found, wanted)
  const [best] = yield* search(model, src, options, new Run(broken))
  const {ids, score, logProbs: token_log_probs} = best
  return {text: tokenizer.text(ids), ids, score, log_prob: sum(token_log_probs),
          token_log_probs, isCut: ids.at(-1) !== EOS, ms: performance.now() - start, cut}
}

// Reads ids as a translation of the text (teacher forcing): what each position predicts
function force(model, src, ids, run, memory = model.encode(src, run)) {
  const logits = model.decode([BOS, ...ids.slice(0, -1)], memory, run) // (t, v)
  const token_log_probs = ids.map((id, t) => logits[t][id] - logSumExp(logits[t]))
  return {logits, token_log_probs, log_prob: sum(token_log_probs)}
}

class Watch extends Run { // keeps what each attention and each step of the way computed
  constructor(broken) {
    super(broken)
    this.attentions = {}
    this.notes = []
  }
  attention(name, q, keysOf, weights) { this.attentions[name] = {q, keysOf, weights} }
  note(where, name, rows) { this.notes.push({where, name, rows}) }
}

function watched({model: key, text, ids, broken}) {
  const found = find(key), {src} = source(found, text), run = new Watch(broken)
  const tgt = checkIds(ids, found.model).slice(0, found.model.config.max_len)
  return {...found, src, tgt, run, ...force(found.model, src, tgt, run)}
}

function* inspect(args) {
  const {tokenizer, model, src, tgt, run, logits, token_log_probs, log_prob} = watched(args)
  yield
  const alternatives = logits.map(row => {
    const all = logSumExp(row)
    return topTokens(row, 5).map(id =>
      ({id, text: tokenizer.pieces([id])[0].text, prob: Math.exp(row[id] - all)}))
  })
  const mapsOf = (kind, layers) => layers.map((_, i) =>
    run.attentions[`${kind}.${i + 1}`].weights.map(toMap))
  const {encoderLayers, decoderLayers} = model
  return {src: tokenizer.pieces(src), tgt: tokenizer.pieces(tgt), log_prob, token_log_probs,
          alternatives, maps: {encoder: mapsOf('encoder', encoderLayers),
                               decoder: mapsOf('decoder', decoderLayers),
                               cross: mapsOf('cross', decoderLayers)}}
}

function toMap(weights) { // rows of any length -> one array; what is hidden has weight 0
  const rows = weights.length, cols = Math.max(...weights.map(row => row.length))
  const data = new Float32Array(rows * cols)
  weights.forEach((row, i) => data.set(row, i * cols))
  return {rows, cols, data}
}

function* worth({model: key, text, ids}) { // -> by head: change of log p without it
  const found = find(key), {model} = found, {src} = source(found, text), deltas = {}
  const tgt = checkIds(ids, model).slice(0, model.config.max_len), intact = new Watch()
  const memory = model.encode(src, intact)
  const {log_prob} = force(model, src, tgt, intact, memory)
  const layers = {cross: model.decoderLayers, decoder: model.decoderLayers,
                  encoder: model.encoderLayers}
  for (const [kind, all] of Object.entries(layers)) {
    const known = {} // a head leaves the layers before its own as they are, and the memory
    const read = kind === 'encoder' ? undefined : memory
    for (const [i, {where}] of all.entries()) {
      for (let head = 1; head <= model.config.n_heads; head++) {
        const name = `${kind}.${i + 1}.${head}`, run = new Run({heads: [name]})
        run.known = known
        const delta = force(model, src, tgt, run, read).log_prob - log_prob
        deltas[name] = delta
        yield {progress: {key: name, value: delta}}
      }
      known[where] = intact.notes.findLast(note => note.where === where).rows
    }
  }
  return deltas
}

function* steps({model: key, text, broken, ...wanted}) {
  const found = find(key), {tokenizer, model} = found, {src} = source(found, text)
  if (!strip(text)) return {steps: [], best: null, greedy: null}
  const options = searchOptions(found, wanted), shown = []
  const running = search(model, src, options, new Run(broken))
  let step = running.next()
  for (; !step.done; step = running.next()) {
    shown.push(showStep(step.value, tokenizer, options.alpha))
    yield
  }
  const [best] = step.value
  const [greedy] = yield* search(model, src, {...options, beam_size: 1}, new Run(broken))
  const show = ({ids, score, logProbs}) =>
    ({text: tokenizer.text(ids), ids, score, log_prob: sum(logProbs)})
  return {steps: shown, best: show(best), greedy: show(greedy)}
}

function showStep({n, candidates, kept, live}, tokenizer, alpha) {
  return {n, candidates: candidates.map((h, place) => {
    const index = live.indexOf(h), id = h.ids[n - 1], ended = place < kept && id === EOS
    const state = ended ? 'ended' : index < 0 ? 'dropped' : 'kept'
    const shown = {parent: h.parent, id, text: tokenizer.text(h.ids), log_prob: h.score,
                   piece: tokenizer.pieces(h.ids)[n - 1].text, state,
                   index: index < 0 ? null : index}
    return ended ? {...shown, score: h.score / lengthPenalty(n, alpha)} : shown
  })}
}

function vectors(args) { // along chapter 05's way, all numbers of each token's vector
  return watched(args).run.notes.map(({where, name, rows}) =>
    ({where, name, ...toMap(rows)}))
}

// The tokens whose rows point most nearly the same way, the mean of all rows taken off
function neighbors({model: key, text, n = 10}) {
  const {tokenizer, model} = find(key), {srcEmbedding} = model
  const [, ...ids] = tokenizer.encode(`a ${text}`), pieces = tokenizer.pieces(ids)
  if (ids.length !== 1) return {pieces, near: []}
  const all = tokenizer.tokens.map((_, id) => srcEmbedding.row(id))
  const column = i => all.map(row => row[i])
  const mean = all[0].map((_, i) => sum(column(i)) / all.length)
  const rows = all.map(row => row.map((x, i) => x - mean[i]))
  const dot = (a, b) => a.reduce((total, x, i) => total + x * b[i], 0)
  const length = rows.map(row => Math.sqrt(dot(row, row))), [id] = ids
  const cosine = (row, i) => dot(row, rows[id]) / (length[i] * length[id])
  const cosines = rows.map(cosine)
  const near = topTokens(cosines, n + 1).filter(i => i !== id).map(i =>
    ({id: i, text: tokenizer.pieces([i])[0].text, cosine: cosines[i]}))
  return {pieces, near: near.slice(0, n)}
}

function pair(args) { // one score of one head, by hand
  const {tokenizer, model, src, tgt, run} = watched(args)
  const {kind, layer, head, row, col} = args, {d_k} = model.config
  const {q, keysOf, weights} = run.attentions[`${kind}.${layer}`]
  const ofHead = x => x.slice((head - 1) * d_k, head * d_k) // heads count from 1
  const key = keysOf[row]?.[col]
  if (!key) throw new Error('the mask hides this key from this query')
  const query = ofHead(q[row]), products = query.map((x, i) => x * ofHead(key)[i])
  const dot = sum(products), read = [BOS, ...tgt.slice(0, -1)]
  const rows = {encoder: src, decoder: read, cross: tgt}[kind]
  const columns = kind === 'decoder' ? read : src
  const label = (ids, i) => tokenizer.pieces(ids)[i].text
  return {q: query, k: ofHead(key), products, dot, d_k,
          score: run.scale ? dot / Math.sqrt(d_k) : dot,
          weight: weights[head - 1][row][col],
          row_label: label(rows, row), col_label: label(columns, col)}
}

const methods = {load, models: listModels, tokenize, translate, inspect, worth, steps,
                 vectors, neighbors, pair}

// ---- Requests ----------------------------------------------------------------------------

// A task of its own in the browser's queue, after the messages that have arrived meanwhile.
// (setTimeout would wait for 4 ms each time.)
const channel = new MessageChannel(), waiting = []
channel.port1.onmessage = () => waiting.shift()()
const pause = () => new Promise(resolve => {
  waiting.push(resolve)
  channel.port2.postMessage(null)
})

const SLICE = 8 // ms between two pauses

async function run(generator, signal, onProgress) {
  let paused = performance.now()
  while (true) {
    const {value, done} = generator.next()
    if (done) return value
    if (value?.progress) onProgress(value.progress)
    if (performance.now() - paused < SLICE) continue
    await pause()
    signal.throwIfAborted()
    paused = performance.now()
  }
}

const running = new Map() // by id: what stops it

async function handle({id, method, args = {}, abort}, post) {
  if (abort) return running.get(abort)?.abort()
  const stopper = new AbortController(), onProgress = progress => post({id, progress})
  running.set(id, stopper)
  try {
    if (!Object.hasOwn(methods, method)) throw new Error(`there is no method ${method}`)
    let result = methods[method](args)
    if (result?.next) result = await run(result, stopper.signal, onProgress)
    post({id, result})
  } catch ({name, message}) { post({id, error: {name, message}}) }
  running.delete(id)
}

if (!globalThis.document) onmessage = ({data}) => handle(data, postMessage)

export {handle}
