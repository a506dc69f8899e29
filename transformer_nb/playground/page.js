// The page that `tnb_export MODEL page.html` writes. One object, `state`, says what is wanted;
// `render` draws it, asks the engine for what is missing, and is called again by the answer.
'use strict'

const KINDS = ['encoder', 'decoder', 'cross']
const VIEWS = {type: 'Type', looked: 'Look', break: 'Break', step: 'Step', inside: 'Inside'}
const PARTS = { // what can be taken away besides heads: in links, while there, when gone
  no_scale: ['scale', 'scores divided by √dₖ', 'no √dₖ'],
  no_positions: ['positions', 'positions', 'no positions'],
  causal_encoder: ['causal', 'encoder sees what follows', 'causal encoder'],
}
const MOST = 60     // tokens: the maps of longer sentences would be a blur
const LONGEST = 2000 // characters
const UNSURE = -0.7 // nats per token: translations of captions lie above, of odd inputs below
const FAINT = 0.05  // a weight below this has no line
const NOTHING = {heads: [], attention: []} // switched off

const state = {
  view: 'type', model: null, text: '',
  force: [],          // ids of the first tokens, up to one that the reader has chosen
  off: [],            // 'cross.3.1' (a head), 'cross.3' (all of a layer), 'no_scale', …
  pin: null,          // 't4': token 4 of the translation; 's2': token 2 of the source
  hover: null,        // the same, while it is pointed at: a preview, which never moves the pin
  head: 'cross.1.1', lines: 'layer',
  beam: 4, alpha: 0.6,
  step: Infinity,     // how far the beam is drawn
  row: 0, col: 0,     // the pair whose score is computed by hand
}
const past = []       // what was off and forced: for undo
const models = {}     // by key: what the engine says of each
let scene = null      // the newest translation all of whose numbers are here
let busy = false, trouble = '', foreign = false, wrong = ''

// ---- Small helpers ----------------------------------------------------------------------

const $ = id => document.getElementById(id)
const fixed = (x, n = 2) => x.toFixed(n).replace('-', '−')
const percent = p => p < 0.005 ? '<1%' : `${Math.round(100 * p)}%`
const sum = xs => xs.reduce((a, b) => a + b, 0)
const range = n => Array.from({length: n}, (_, i) => i)
const model = () => models[state.model]
const at = () => state.hover ?? state.pin

function el(tag, props = {}, ...children) {
  const node = Object.assign(document.createElement(tag), props)
  node.append(...children)
  return node
}

const make = (tag, ...children) => () => el(tag, {}, ...children.map(name => el(name)))
const button = className => () => el('button', {type: 'button', className})

function attributes(node, values) {
  for (const [name, value] of Object.entries(values)) node.setAttribute(name, value)
}

function enable(node, yes) { // `disabled` would take the focus away from who just used it
  node.setAttribute('aria-disabled', !yes)
}

function style(node, values) { // style attributes are forbidden here, properties are not
  for (const [name, value] of Object.entries(values)) node.style.setProperty(name, value)
}

function write(node, text) { // and do not disturb what is selected or read out, if it is there
  if (node.textContent !== text) node.textContent = text
}

// As many children as items. Those that are there are filled again, so that focus stays.
function keep(box, items, make, fill) {
  while (box.children.length > items.length) box.lastElementChild.remove()
  items.forEach((item, i) => fill(box.children[i] ?? box.appendChild(make(item, i)), item, i))
}

function path(svg, d, values = {}) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', 'path')
  attributes(node, {d, ...values})
  svg.append(node)
}

function label({text, byte}) { // as in chapter 16: ␣ where a word begins
  return byte ? `${byte[2]} ${byte[0]}/${byte[1]}` : text.replace(/^ /, '␣')
}

function nameOf(x) { // 'cross.3.1' → 'cross 3.1'
  if (PARTS[x]) return PARTS[x][2]
  const [kind, layer, head] = x.split('.')
  return head ? `${kind} ${layer}.${head}` : `${kind} layer ${layer}`
}

const likelier = delta => `${fixed(Math.abs(delta))} nats ${delta < 0 ? 'less' : 'more'} likely`

const layersOf = kind =>
  model().config[kind === 'encoder' ? 'n_encoder_layers' : 'n_decoder_layers']

const headsOf = kind => range(layersOf(kind)).flatMap(layer =>
  range(model().config.n_heads).map(head => `${kind}.${layer + 1}.${head + 1}`))

// Above its first layers the decoder looks up the word that comes next (chapter 16)
const firstHead = () => `cross.${Math.max(1, layersOf('cross') - 1)}.1`

function exists(x) {
  return PARTS[x] || KINDS.some(kind => headsOf(kind).some(h => h === x || h.startsWith(x + '.')))
}

// ---- The engine: in a worker, so that typing stays smooth, or else in this thread ----------

const tnb = window.tnb = {}
const waiting = new Map() // by number: messages without an answer yet
let send, count = 0

function request(method, args = {}, {onProgress, transfer = []} = {}) {
  return new Promise((resolve, reject) => {
    waiting.set(++count, {resolve, reject, onProgress})
    send({id: count, method, args}, transfer)
  })
}

function receive({id, result, progress, error}) {
  const asked = waiting.get(id)
  if (progress) return asked.onProgress?.(progress)
  waiting.delete(id)
  if (error) asked.reject(Object.assign(new Error(error.message), {name: error.name}))
  else asked.resolve(result)
}

function startEngine() {
  const source = $('engine').textContent
  return new Promise(resolve => {
    const here = () => {
      document.head.append(el('script', {textContent: source}))
      send = message => globalThis.tnbHandle(message, receive)
      resolve()
    }
    try {
      const file = new Blob([source], {type: 'text/javascript'})
      const worker = new Worker(URL.createObjectURL(file))
      worker.onmessage = event => receive(event.data)
      worker.onerror = here
      send = (message, transfer) => worker.postMessage(message, transfer)
      request('models').then(resolve) // of which it has none yet: but it runs
    } catch { here() }
  })
}

function takeWeights(key) { // out of the page, where they would stay as text
  const node = $(`weights-${key}`), text = node.textContent.trim()
  node.remove()
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text).buffer
  return Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer
}

async function load() {
  await startEngine()
  const files = [...document.querySelectorAll('script[id^="model-"]')].map(node =>
    ({header: JSON.parse(node.textContent), weights: takeWeights(node.id.replace('model-', ''))}))
  await request('load', {models: files}, {transfer: files.map(file => file.weights)})
  for (const found of await request('models')) models[found.key] = found
}

// Does this browser compute what PyTorch did? One log-probability says so.
async function checkItself() {
  for (const {key, check} of Object.values(models)) {
    if (!check) continue
    const {log_prob} = await request('inspect', {model: key, ...check, broken: NOTHING})
    if (Math.abs(log_prob - check.log_prob) < 0.01) continue
    wrong = `The self-check failed. This browser computes log p ${fixed(log_prob, 3)}, where `
      + `PyTorch has ${fixed(check.log_prob, 3)}: do not trust what you see.`
  }
}

// Scripts ask one after the other, and the page waits for them
let guests = 0, line = Promise.resolve()
tnb.call = (method, args, onProgress) => {
  guests++
  const turn = line.then(() => request(method, args, {onProgress}))
  line = turn.catch(() => {}).finally(() => { guests--; render() })
  return turn
}
tnb.translate = async (text, options = {}) => {
  await tnb.ready
  const found = await tnb.call('translate', {model: state.model, text, ...options})
  return {text: found.text, ids: found.ids, score: found.score, ms: found.ms}
}

// ---- Asking: an answer is kept; what has none yet is asked for, one thing at a time --------

const answers = new Map(), partial = new Map(), failed = new Set()
let wanted = [], running = null

function ask(method, args) {
  const key = JSON.stringify([method, args])
  if (!answers.has(key) && !failed.has(key)) wanted.push({key, method, args})
  return answers.get(key) ?? partial.get(key)
}

function pump() { // what runs and is no longer wanted is superseded by what is
  if (guests || !wanted.length || wanted[0].key === running) return
  const {key, method, args} = wanted[0], parts = {}
  running = key
  const onProgress = ({key: head, delta}) => {
    partial.set(key, Object.assign(parts, {[head]: delta}))
    soon()
  }
  request(method, args, {onProgress}).then(result => {
    answers.set(key, result)
    if (answers.size > 80) answers.delete(answers.keys().next().value)
  }).catch(error => {
    if (error.name === 'Superseded') return
    failed.add(key)
    trouble = error.message
  }).finally(() => {
    partial.delete(key)
    if (running === key) running = null
    render()
  })
}

let frame
function soon() { frame ??= requestAnimationFrame(() => { frame = undefined; render() }) }

const shown = {} // by name: the last answer, which stays until the next one is here
const latest = (name, found) => shown[name] = found ?? shown[name]

function asBroken(off) {
  const broken = {heads: [], attention: []}
  for (const x of off) {
    if (PARTS[x]) broken[x] = true
    else broken[x.split('.').length === 3 ? 'heads' : 'attention'].push(x)
  }
  return broken
}

function forget() { // another model has other heads
  scene = null
  for (const name in shown) delete shown[name]
  $('maps').replaceChildren()
  $('switches').replaceChildren()
}

// Everything that belongs to one translation; until all of it is here the last one stays
function look() {
  const {model, text, off, force, beam, alpha} = state, broken = asBroken(off)
  if (scene && scene.model !== model) forget()
  if (!text.trim()) { scene = null; busy = false; return }
  const of = {model, text}, search = {...of, beam_size: beam, alpha, prefix: force}
  const read = ask('tokenize', of)
  const intact = ask('translate', {...search, broken: NOTHING})
  const now = intact && ask('translate', {...search, broken})
  const seen = now && ask('inspect', {...of, ids: now.ids, broken})
  const old = now && ask('inspect', {...of, ids: intact.ids, broken})
  const back = now && ask('inspect', {...of, ids: now.ids, broken: NOTHING})
  busy = wanted.length > 0
  const key = JSON.stringify([search, off])
  if (!read || !seen || !old || !back || scene?.key === key) return
  scene = {key, ...of, off, force, read, intact, now, seen, old, back, ids: now.ids,
           src: seen.src, tgt: seen.tgt,
           long: Math.max(seen.src.length, seen.tgt.length) > MOST}
  for (const name of ['pin', 'hover']) { // of a token that is no longer there
    const [side, ...i] = state[name] ?? ''
    if (!(i.join('') in (side === 's' ? scene.src : scene.tgt))) state[name] = null
  }
  speak()
}

function worth() { // of each head, for what the intact model wrote
  const {model, text, intact} = scene ?? {}
  return scene && ask('worth', {model, text, ids: intact.ids}) || {}
}

// ---- The address holds the state: it can be kept, sent, and gone back to -------------------

const short = x => PARTS[x]?.[0] ?? x[0] + x.slice(x.indexOf('.') + 1)

function long(x) { // 'c3.1' → 'cross.3.1'
  const part = Object.keys(PARTS).find(key => PARTS[key][0] === x)
  const name = part ?? `${KINDS.find(kind => kind[0] === x[0])}.${x.slice(1)}`
  return exists(name) ? name : null
}

function writeHash(push) {
  const {view, text, off, force, pin, head, beam, alpha} = state
  const q = new URLSearchParams({m: state.model, t: text})
  if (off.length) q.set('off', off.map(short))
  if (force.length) q.set('f', force.join('.'))
  if (pin) q.set('pin', pin.replace('t', ''))
  if (head !== firstHead()) q.set('h', short(head))
  if (beam !== 4) q.set('b', beam)
  if (alpha !== 0.6) q.set('a', alpha)
  if (off.length || force.length) q.set('c', model().checksum.slice(0, 8))
  const hash = `#${view}?${q}`
  if (hash !== location.hash) remember(push ? 'pushState' : 'replaceState', hash)
}

function remember(method, hash) {
  try { history[method]('ours', '', hash) }
  catch {} // a frame in a notebook has no address of its own
}

function viewOfHash() {
  const view = location.hash.slice(1).split('?')[0]
  return view === 'heads' ? 'looked' : view in VIEWS ? view : 'type'
}

function readHash() {
  const q = new URLSearchParams(location.hash.split('?')[1] ?? '')
  if (q.get('m') in models) state.model = q.get('m')
  // Heads and ids mean something only in the model that the link was made with
  foreign = q.has('c') && !model().checksum.startsWith(q.get('c'))
  const list = (name, by) => foreign ? [] : (q.get(name) ?? '').split(by).filter(Boolean)
  const pin = /^(s?)(\d+)$/.exec(q.get('pin') ?? '')
  const one = (name, allowed, usual) =>
    allowed.includes(Number(q.get(name) ?? usual)) ? Number(q.get(name) ?? usual) : usual
  Object.assign(state, {
    view: viewOfHash(), hover: null, step: Infinity,
    text: (q.get('t') ?? ($('text').value || exampleText())).slice(0, LONGEST),
    off: list('off', ',').map(long).filter(Boolean),
    force: list('f', '.').map(Number).filter(id => id < model().config.vocab_size),
    pin: pin && (pin[1] || 't') + pin[2],
    head: headsOf('cross').concat(headsOf('decoder'), headsOf('encoder'))
      .find(x => short(x) === q.get('h')) ?? firstHead(),
    beam: one('b', BEAMS, 4), alpha: one('a', ALPHAS, 0.6),
  })
  $('text').value = state.text
}

const BEAMS = [1, 2, 4, 8], ALPHAS = [0, 0.6, 1]

function update(patch, push = false) {
  Object.assign(state, patch)
  if ('text' in patch) $('text').value = state.text // else it may be further than we are
  if ('text' in patch || 'off' in patch) foreign = false
  trouble = ''
  writeHash(push)
  render()
}

function change(patch) { // of what is off or forced
  past.push({off: state.off, force: state.force})
  update(patch)
}

function undo() { if (past.length) update(past.pop()) }

function toggle(x) {
  const rest = state.off.filter(y => y !== x)
  change({off: rest.length < state.off.length ? rest : [...rest, x]})
}

// ---- Sentence and translation --------------------------------------------------------------

const beginsWord = piece => /^ |^<\/?s>$/.test(piece?.text ?? ' ')

function drawChips(box, pieces, side, nameFor) {
  keep(box, pieces, button('chip'), (node, piece, i) => {
    const here = side + i, forced = side === 't' && i < scene.force.length
    write(node, label(piece).replace('␣', ''))
    node.dataset.at = here
    node.className = 'chip'
    node.classList.toggle('end', beginsWord(pieces[i + 1]))
    node.classList.toggle('forced', forced)
    node.classList.toggle('special', /^<\/?s>$/.test(piece.text))
    node.classList.toggle('near', state.hover === here)
    attributes(node, {'aria-pressed': state.pin === here})
    const [n, of, character] = piece.byte ?? []
    node.title = (n ? `byte ${n} of ${of} of ${character}` : label(piece)) + nameFor(i)
      + (forced ? ', fixed' : '')
    style(node, {'--w': 0})
  })
}

function drawTop() {
  $('stage').classList.toggle('busy', busy)
  drawChips($('src'), scene?.src ?? [], 's', () => '')
  drawChips($('tgt'), scene?.tgt ?? [], 't',
    i => `, ${percent(Math.exp(scene.seen.token_log_probs[i]))}`)
  attributes($('tgt'), {'aria-label': `Translation: ${scene?.now.text ?? ''}`})
  write($('status'), trouble || status())
  keep($('notes'), notes(), make('li'), fillNote)
  drawBanner()
  drawLines()
}

function status() {
  if (!scene) return ''
  const {log_prob, ms} = scene.now
  return `log p ${fixed(log_prob)}, per token ${fixed(log_prob / scene.ids.length)}`
    + ` · in ${Math.round(ms)} ms`
}

function notes() {
  const found = [], {text} = state
  if (wrong) found.push(wrong)
  if (foreign) found.push('This link was made with another model: nothing is switched off.')
  if (text.length >= LONGEST) found.push(`The field holds no more than ${LONGEST} characters.`)
  if (!scene) return found
  const {now, ids, read, long} = scene
  if (now.log_prob / ids.length < UNSURE) {
    found.push(model().captions_only
      ? 'This is a guess: the model has learned only from photo captions.'
      : 'This is a guess: the model is unsure of this translation.')
  }
  if (read.cut) found.push(`Too long: only the first ${read.read} tokens are read.`)
  if (long) found.push(`More than ${MOST} tokens: no maps, and nothing to see in Inside.`)
  if (ids.at(-1) !== 2) found.push('Cut off: the translation reached its maximum length.')
  const plain = text.normalize('NFC').replace(/[’‘]/g, '\'').replace(/[“”]/g, '"')
  const other = plain !== text && ask('tokenize', {model: state.model, text: plain})
  if (other && String(other.ids) !== String(read.ids)) {
    found.push('Curly quotes or combining accents change the tokens: typed plainly, this '
      + 'text would be split differently.')
  }
  const example = model().examples?.find(x => x.text === text && x.off?.length)
  if (example && !state.off.length) found.push(example)
  return found
}

function fillNote(node, note) {
  if (node.note === note) return // the button in it keeps the focus
  node.note = note
  if (typeof note === 'string') return write(node, note)
  const onclick = () => { change({off: note.off}); $('undo').focus() } // the button goes
  const off = el('button', {type: 'button', onclick},
    `Switch off ${note.off.map(nameOf).join(', ')}`)
  node.replaceChildren('Try: ', off, note.then ? ` and see: ${note.then}` : '')
}

function drawBanner() {
  const {off, force} = state, texts = []
  if (off.length) texts.push(`${off.length} off: ${off.map(nameOf).join(', ')}`)
  if (off.length && scene?.off.length) {
    texts.push(`old text: log p ${fixed(scene.intact.log_prob)} → ${fixed(scene.old.log_prob)}`)
  }
  if (force.length === 1) texts.push('the first token is fixed')
  if (force.length > 1) texts.push(`the first ${force.length} tokens are fixed`)
  write($('banner-text'), texts.join(' · ') || 'Nothing is switched off.')
  $('banner').classList.toggle('some', texts.length > 0)
  enable($('undo'), past.length > 0)
  enable($('reset'), texts.length > 0)
}

// Words of a and b in one row: − only in a, + only in b (longest common subsequence)
function marked(a, b) {
  const words = text => text.match(/ ?[\p{L}\p{N}]+| ?\S/gu) ?? []
  const x = words(a), y = words(b), n = range(x.length + 1).map(() => [])
  const shared = (i, j) => n[i]?.[j] ?? 0 // words in common from here on
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      n[i][j] = x[i] === y[j] ? 1 + shared(i + 1, j + 1)
        : Math.max(shared(i + 1, j), shared(i, j + 1))
    }
  }
  const row = []
  for (let i = 0, j = 0; i < x.length || j < y.length;) {
    const more = i < x.length && j < y.length
    if (more && x[i] === y[j]) row.push({sign: '', word: x[i++], same: j++})
    else if (i < x.length && (!more || shared(i + 1, j) >= shared(i, j + 1))) {
      row.push({sign: '−', word: x[i++]})
    } else row.push({sign: '+', word: y[j++]})
  }
  return row
}

let speaking
function speak() { // what is read out, once the reader has stopped
  clearTimeout(speaking)
  speaking = setTimeout(() => {
    if (!scene) return
    const {now, intact, old, off} = scene, of = (name, sign) => {
      const words = marked(intact.text, now.text).filter(x => x.sign === sign)
      return words.length ? ` ${name}: ${words.map(x => x.word.trim()).join(' ')}.` : ''
    }
    $('spoken').firstChild.textContent = now.text
    $('spoken').lastChild.textContent = !off.length ? ''
      : (now.text === intact.text ? ' Unchanged.' : of('Lost', '−') + of('New', '+'))
        + ` Old text ${likelier(old.log_prob - intact.log_prob)}.`
  }, 800)
}

// ---- Lines from a token to what was looked at ------------------------------------------------

function mapOf(head) {
  const [kind, layer, h] = head.split('.')
  return scene?.seen.maps[kind][layer - 1]?.[h - 1]
}

// Row i (or column i): of the large map's head, or the mean over several heads
function weights(kind, i, column) {
  const [of, layer] = state.head.split('.')
  const heads = state.lines === 'all' ? headsOf(kind)
    : state.lines === 'layer' ? headsOf(kind).filter(x => x.split('.')[1] === layer)
    : kind === of ? [state.head] : []
  if (!heads.length) return []
  const {rows, cols} = mapOf(heads[0])
  const mean = k => sum(heads.map(head => mapOf(head).data[k])) / heads.length
  return range(column ? rows : cols).map(j => mean(column ? j * cols + i : i * cols + j))
}

function drawLines() {
  $('lines').replaceChildren()
  if (state.view !== 'looked' || !scene || !at()) return
  const i = Number(at().slice(1)), src = $('src').children, tgt = $('tgt').children
  const from = (at()[0] === 't' ? tgt : src)[i]
  const draw = (kind, chips, side, column) => weights(kind, i, column).forEach((w, j) => {
    if (w < FAINT || !chips[j]) return
    style(chips[j], {'--w': w})
    drawLine(from, chips[j], side, w)
  })
  if (!from) return
  if (at()[0] === 't') {
    draw('cross', src, 0)
    draw('decoder', [null, ...tgt], 1) // its column 0 is <s>, which has no chip
  } else {
    draw('encoder', src, -1)
    draw('cross', tgt, 0, true)
  }
}

function drawLine(a, b, side, w) { // arcs above (−1) or below (1) a sentence; 0: across
  const origin = $('lines').getBoundingClientRect()
  const p = a.getBoundingClientRect(), q = b.getBoundingClientRect()
  const x = r => r.left + r.width / 2 - origin.left
  const y = (r, bottom) => (bottom ? r.bottom : r.top) - origin.top
  const down = side ? side > 0 : q.top > p.top
  const y1 = y(p, down), y2 = y(q, side ? down : !down)
  const arc = side * (14 + Math.min(14, Math.abs(x(p) - x(q)) / 14))
  const [c1, c2] = side ? [y1 + arc, y2 + arc] : [(y1 + y2) / 2, (y1 + y2) / 2]
  path($('lines'), `M${x(p)},${y1} C${x(p)},${c1} ${x(q)},${c2} ${x(q)},${y2}`,
    {'stroke-width': 1 + 8 * w})
}

// ---- Maps ----------------------------------------------------------------------------------

// Ten colors of matplotlib's viridis; between two of them, their mixture
const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]]

function color(w) {
  const x = Math.min(Math.max(w, 0), 1) * 9, i = Math.min(Math.floor(x), 8)
  return VIRIDIS[i].map((c, k) => c + (x - i) * (VIRIDIS[i + 1][k] - c))
}

function paint(canvas, map) { // a pixel for each weight; the style sheet enlarges them
  if (canvas.painted === map) return
  canvas.painted = map
  Object.assign(canvas, {width: map?.cols ?? 1, height: map?.rows ?? 1})
  if (!map) return
  const image = new ImageData(map.cols, map.rows)
  map.data.forEach((w, i) => image.data.set([...color(w), 255], 4 * i))
  canvas.getContext('2d').putImageData(image, 0, 0)
}

function names(kind) { // of rows and columns: cross predicts its rows, the decoder reads them
  const src = scene.src.map(label), tgt = scene.tgt.map(label), read = ['<s>', ...tgt.slice(0, -1)]
  return {encoder: [src, src], decoder: [read, read], cross: [tgt, src]}[kind]
}

// One head, large, with its tokens. `onPick(row, column)` when a square is clicked.
function drawMap(box, row, col, onPick) {
  const map = mapOf(state.head)
  box.hidden = !map || scene.long
  if (box.hidden) return
  const [cols, rows, field] = box.children, [canvas, rowMark, cellMark] = field.children
  const [rowNames, colNames] = names(state.head.split('.')[0])
  const most = Math.max(map.rows, map.cols)
  style(box, {'--cell': `${most <= 18 ? 24 : most <= 30 ? 16 : 11}px`, '--rows': map.rows,
              '--cols': map.cols, '--row': row, '--col': col})
  const fill = chosen => (node, name, i) => {
    write(node, name)
    node.classList.toggle('chosen', i === chosen)
  }
  keep(rows, rowNames, make('span'), fill(row))
  keep(cols, colNames, make('span'), fill(col))
  rowMark.hidden = row === undefined
  cellMark.hidden = col === undefined || row === undefined
  paint(canvas, map)
  attributes(canvas, {role: 'img', 'aria-label': `Weights of ${nameOf(state.head)}`})
  const square = event => {
    const {left, top, width, height} = canvas.getBoundingClientRect()
    const place = (x, n) => Math.min(n - 1, Math.max(0, Math.floor(x * n)))
    return [place((event.clientY - top) / height, map.rows),
            place((event.clientX - left) / width, map.cols)]
  }
  canvas.onclick = event => onPick(...square(event))
  canvas.onpointermove = event => {
    const [i, j] = square(event)
    canvas.title = `${rowNames[i]} → ${colNames[j]}: ${fixed(map.data[i * map.cols + j])}`
  }
}

// All heads, at fixed places. In one view they choose the large map, in the other they switch.
function drawHeads(box, fillHead, fillLayer = null) {
  const costs = worth(), most = Math.max(0.5, ...Object.values(costs).map(Math.abs))
  const wide = model().config.n_heads + (fillLayer ? 1 : 0)
  const fillSmall = (node, key) => {
    const [canvas, letter, bar] = node.children, found = model().heads?.[key]
    paint(canvas, scene?.long ? undefined : mapOf(key))
    write(letter, found?.letter ?? '')
    style(bar, {'--p': Math.abs(costs[key] ?? 0) / most})
    bar.classList.toggle('gain', costs[key] > 0)
    node.dataset.head = key
    node.title = `${nameOf(key)}${found ? `, ${found.class}` : ''}`
      + (key in costs ? `; ${likelier(costs[key])} without it` : '')
    fillHead(node, key)
  }
  keep(box, KINDS, make('div', 'h2', 'div'), (node, kind) => {
    const [title, grid] = node.children
    write(title, kind)
    node.className = 'kind'
    node.classList.toggle('chosen', state.head.startsWith(kind))
    grid.className = 'grid'
    style(grid, {'--heads': model().config.n_heads})
    attributes(grid, {role: 'group', 'aria-label': `${kind}, layers from top to bottom`,
                      'data-roving': '', 'data-down': wide})
    const places = range(layersOf(kind)).flatMap(l => [
      ...range(model().config.n_heads).map(h => `${kind}.${l + 1}.${h + 1}`),
      ...fillLayer ? [`${kind}.${l + 1}`] : []])
    keep(grid, places, key => key.split('.').length === 2 ? button('layer')()
      : el('button', {type: 'button', className: 'head'}, el('canvas'), el('b'), el('i')),
      (child, key) => key.split('.').length === 2 ? fillLayer(child, key) : fillSmall(child, key))
  })
}

function spokenHead(key) {
  const [kind, layer, head] = key.split('.'), found = model().heads?.[key]
  return `${kind}, layer ${layer}, head ${head}${found ? `, ${found.class}` : ''}`
}

function legend() {
  const classes = new Set(Object.values(model().heads ?? {}).map(x => `${x.letter} ${x.class}`))
  const letters = [...classes].sort().join(', ')
  return 'One row per layer, the first layer on top. '
    + (letters && `Letters are the classes of chapter 16: ${letters}. `)
    + 'The bar under each map shows how much less likely this translation becomes without '
    + 'that head (hollow: more likely). “cross 3.1” is head 1 of layer 3 of cross-attention, '
    + 'by which the decoder looks at the source. A row of the decoder is the token that is '
    + 'read; pinning a token marks the row that predicts it.'
}

function segments(box, name, options, value, onPick) { // a row of radio buttons
  keep(box, options, () => el('label', {}, el('input', {type: 'radio', name}), el('span')),
    (node, [key, text]) => {
      const [input, span] = node.children
      Object.assign(input, {checked: key === value, onchange: () => onPick(key)})
      write(span, text)
    })
}

function drawKinds(box) { // on a phone the heads of one kind are shown at a time
  const [chosen, , head] = state.head.split('.')
  segments(box, box.id, KINDS.map(kind => [kind, kind]), chosen,
    kind => update({head: `${kind}.1.${head}`}))
}

function choose(select, options, value, onPick) {
  keep(select, options, make('option'), (node, [key, text]) => {
    node.value = key
    write(node, String(text))
  })
  select.value = value
  select.onchange = () => onPick(select.value)
}

// ---- Type: five alternatives for each token --------------------------------------------------

function drawType() {
  const newCard = () => el('section', {className: 'card'},
    el('h2', {}, el('span'), el('small')), el('ul'))
  const newChoice = () => el('li', {}, el('button', {type: 'button', className: 'choice'},
    el('i'), el('span'), el('small')))
  keep($('cards'), scene?.seen.alternatives ?? [], newCard, (card, five, i) => {
    const [title, list] = card.children
    write(title.firstChild, label(scene.tgt[i]))
    write(title.lastChild, percent(Math.exp(scene.seen.token_log_probs[i])))
    card.classList.toggle('near', at() === `t${i}`)
    keep(list, five, newChoice, (item, choice) => {
      const node = item.firstChild, [bar, token, share] = node.children
      const taken = choice.id === scene.ids[i]
      write(token, label(choice))
      write(share, percent(choice.prob))
      style(bar, {'--p': choice.prob})
      node.classList.toggle('taken', taken)
      attributes(node, {'aria-pressed': taken})
      node.onclick = () => {
        if (!taken) change({force: [...scene.ids.slice(0, i), choice.id], pin: null})
      }
    })
  })
}

// ---- Looked: where each token looked; all heads, one of them large ---------------------------

function drawLooked() {
  const [kind, layer] = state.head.split('.'), found = model().heads?.[state.head]
  const lines = {layer: `mean of layer ${layer}`, head: `${nameOf(state.head)} alone`,
                 all: 'mean of all heads'}
  segments($('lines-of'), 'lines', Object.entries(lines), state.lines, x => update({lines: x}))
  drawKinds($('kinds-looked'))
  drawHeads($('maps'), (node, key) => {
    attributes(node, {'aria-pressed': key === state.head, 'aria-label': spokenHead(key)})
    node.onclick = () => update({head: key})
  })
  write($('maps-legend'), legend())
  const cost = worth()[state.head]
  write($('head-name'), nameOf(state.head))
  write($('head-note'), (found ? ` On average over many captions: ${found.note}` : '')
    + (cost === undefined ? ''
      : ` In this sentence, without it the translation is ${likelier(cost)}.`))
  const side = kind === 'encoder' ? 's' : 't', i = Number(at()?.slice(1))
  drawMap($('map'), at()?.[0] === side ? i : undefined, undefined,
    row => update({pin: side + row}))
  drawTable(kind)
}

function drawTable(kind) {
  const map = mapOf(state.head), box = $('as-table')
  box.hidden = !map || scene.long
  if (box.hidden || !box.open || box.drawn === map) return
  box.drawn = map
  const [rows, cols] = names(kind)
  const th = (textContent, scope) => el('th', {textContent, scope})
  const body = rows.map((name, i) => el('tr', {}, th(name, 'row'), ...cols.map((_, j) =>
    el('td', {textContent: fixed(map.data[i * map.cols + j])}))))
  box.lastElementChild.replaceChildren(el('table', {},
    el('caption', {textContent: `Weights of ${nameOf(state.head)}; each row sums to 1`}),
    el('tr', {}, el('td'), ...cols.map(name => th(name, 'col'))), ...body))
}

// ---- Break: what is switched off, and what came of it ----------------------------------------

function drawBreak() {
  drawHonest()
  keep($('surgery'), Object.keys(PARTS), button('switch'), (node, part) => {
    write(node, PARTS[part][1])
    asSwitch(node, part, PARTS[part][1])
  })
  drawKinds($('kinds-break'))
  drawHeads($('switches'), (node, key) => {
    asSwitch(node, key, spokenHead(key))
    const layer = key.slice(0, key.lastIndexOf('.'))
    node.classList.toggle('covered', state.off.includes(layer))
  }, (node, key) => {
    write(node, 'all')
    asSwitch(node, key, `${key.split('.')[0]}, all heads of layer ${key.split('.')[1]}`)
  })
  write($('switches-legend'), legend())
}

function asSwitch(node, key, name) {
  attributes(node, {role: 'switch', 'aria-checked': !state.off.includes(key),
                    'aria-label': name})
  node.onclick = () => toggle(key)
}

function drawHonest() { // three lines, whatever came of it
  const {now, intact, old, back} = scene ?? {}, broken = scene?.off.length > 0
  const same = now?.text === intact?.text
  const lines = [['Old text, scored by the broken model', intact?.text,
    broken ? `log p ${fixed(intact.log_prob)} → ${fixed(old.log_prob)}: `
        + likelier(old.log_prob - intact.log_prob)
      : 'Nothing is switched off yet.'],
  ['New text', !broken ? '–' : same ? now.text : marked(intact.text, now.text),
    !broken ? '' : same ? 'Unchanged. That is normal: other heads can stand in.'
      : `log p ${fixed(now.log_prob)} in the broken model`],
  ['New text, scored by the intact model', broken ? now.text : '–',
    !broken ? '' : same ? 'The same text as before.'
      : `log p ${fixed(back.log_prob)}: `
        + `${likelier(back.log_prob - intact.log_prob)} than the old text`]]
  keep($('honest'), lines, make('div', 'dt', 'dd', 'dd'), (node, [name, text = '', verdict]) => {
    const [title, body, small] = node.children
    write(title, name)
    write(small, verdict)
    if (typeof text === 'string') return write(body, text)
    const tags = {'−': 'del', '+': 'ins'}
    body.replaceChildren(...text.flatMap(({sign, word}) => sign
      ? [/^[.,;:!?]/.test(word) ? '' : ' ', el(tags[sign], {textContent: word.trim()})] : [word]))
  })
}

// ---- Step: the beam, a tree that grows to the right ------------------------------------------

const MOST_GONE = 8 // of the dropped, the likeliest that are shown

function drawStep() {
  const {model, text, off, force: prefix, beam: beam_size, alpha} = state
  const found = scene && !busy
    && ask('steps', {model, text, beam_size, alpha, prefix, broken: asBroken(off)})
  const {steps, best, greedy} = latest('steps', found || undefined) ?? {steps: []}
  const n = scene ? steps.length : 0, last = Math.min(state.step, n)
  Object.assign($('step'), {max: Math.max(n, 1), value: last})
  enable($('back'), last > 1)
  enable($('forth'), last < n)
  write($('step-name'), n ? `step ${last} of ${n}` : '')
  const columns = family(steps.slice(0, last), best, greedy)
  style($('tree'), {'--beam': beam_size, '--gone': Math.min(MOST_GONE, beam_size**2 - beam_size)})
  keep($('steps'), columns, make('li', 'h2', 'ul', 'ul'), (node, all, i) => {
    const [title, live, gone] = node.children, dropped = all.filter(c => c.state === 'dropped')
    write(title, String(i + 1))
    keep(live, all.filter(c => c.state !== 'dropped'), newCandidate, fillCandidate)
    gone.className = 'gone'
    keep(gone, i === last - 1 ? dropped.slice(0, MOST_GONE) : [], newCandidate, fillCandidate)
  })
  for (const c of columns.flat()) drawEdge(c)
  if (shown.last !== last) $('tree-box').scrollLeft = $('tree-box').scrollWidth
  shown.last = last
  drawEnds(scene ? best : null, greedy)
}

function family(steps, best, greedy) { // who continues whom, and on whose way
  $('edges').replaceChildren()
  let parents = []
  return steps.map(({candidates}) => {
    const all = candidates.map(c => {
      const from = parents[c.parent], ids = [...from?.ids ?? [], c.id]
      const leadsTo = other => ids.every((id, i) => id === other.ids[i])
      return {...c, from, ids, best: leadsTo(best), greedy: leadsTo(greedy)}
    })
    parents = []
    for (const c of all) if (c.state === 'kept') parents[c.index] = c
    return all
  })
}

const newCandidate = () => el('li', {}, el('span'), el('small'), el('span', {className: 'unseen'}))

function fillCandidate(node, c) {
  const [token, number, hidden] = node.children, ended = c.state === 'ended'
  write(token, (ended ? '■ ' : '') + label({text: c.piece}))
  write(number, fixed(ended ? c.score : c.log_prob))
  write(hidden, `, ${c.state}${c.from ? `, after “${c.from.text}”` : ''}`
    + (c.best ? ', on the way to the best' : '') + (c.greedy ? ', greedy' : ''))
  node.title = `${c.text} (${c.state})`
  node.className = `${c.state}${c.best ? ' best' : ''}${c.greedy ? ' greedy' : ''}`
  c.node = node
}

function drawEdge({state, from, node, best}) {
  if (!from || state === 'dropped') return
  const origin = $('tree').getBoundingClientRect()
  const a = from.node.getBoundingClientRect(), b = node.getBoundingClientRect()
  const x1 = a.right - origin.left, x2 = b.left - origin.left, middle = (x1 + x2) / 2
  const y1 = a.top + a.height / 2 - origin.top, y2 = b.top + b.height / 2 - origin.top
  path($('edges'), `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`,
    {class: best ? 'best' : ''})
}

function drawEnds(best, greedy) {
  const gap = best && best.score - greedy.score
  const verdict = !best ? '' : best.text === greedy.text ? ': the same text'
    : `: ${fixed(Math.abs(gap))} ${gap < 0 ? 'above' : 'below'} the beam’s`
  const ends = best ? [[`Beam of ${state.beam}`, best, ''], ['Greedy', greedy, verdict]] : []
  keep($('ends'), ends, make('div', 'dt', 'dd', 'dd'), (node, [name, {text, score}, more]) => {
    const [title, body, small] = node.children
    write(title, name)
    write(body, text)
    write(small, `score ${fixed(score, 3)}${more}`)
  })
}

// ---- Inside: the walk of chapter 05, and one score by hand -----------------------------------

function drawInside() {
  const {model, text, ids, off} = scene ?? {}
  const of = scene && {model, text, ids, broken: asBroken(off)}
  drawWalk(scene && !scene.long ? latest('walk', ask('walk', of)) ?? [] : [])
  const every = KINDS.flatMap(headsOf)
  choose($('pair-head'), every.map(x => [x, nameOf(x)]), state.head, head => update({head}))
  $('by-hand').hidden = !scene || scene.long
  if ($('by-hand').hidden) return
  const [kind, layer, head] = state.head.split('.'), [rows, cols] = names(kind)
  const row = Math.min(state.row, rows.length - 1)
  const seen = kind === 'decoder' ? cols.slice(0, row + 1) : cols // the future is masked
  const col = Math.min(state.col, seen.length - 1)
  const numbered = tokens => tokens.map((token, i) => [i, `${i + 1}: ${token}`])
  choose($('pair-row'), numbered(rows), row, x => update({row: Number(x)}))
  choose($('pair-col'), numbered(seen), col, x => update({col: Number(x)}))
  drawMap($('pair-map'), row, col, (i, j) => update({row: i, col: j}))
  const found = ask('pair', {...of, kind, layer: Number(layer), head: Number(head), row, col})
  $('sum').classList.toggle('old', !found)
  if (found) drawPair(found, rows[row], cols[col])
}

function drawWalk(walk) {
  const sides = walk.length ? ['encoder', 'decoder'] : []
  keep($('walk'), sides, newWalk, (box, side) => {
    const [head, body] = box.firstChild.children, ofSide = side === 'encoder' ? 's' : 't'
    const src = scene.src.map(label), tgt = scene.tgt.map(label)
    const tokens = side === 'encoder' ? src : ['<s>', ...tgt.slice(0, -1)]
    const stages = walk.filter(x => (x.where === 'encoder') === (side === 'encoder'))
    const near = i => at() === ofSide + i
    const longest = Math.max(...stages.flatMap(x => x.name === 'logits' ? [] : [...x.norms]))
    const rows = stages.map(({name, layer, shape, norms}) =>
      [`${layer ? `layer ${layer}, ` : ''}${name}`, shape.join(' × '),
       ...Array.from(norms, x => ({text: fixed(x, 1), p: x <= longest ? x / longest : undefined}))])
    if (side === 'decoder') { // the last one is a row of probabilities, whose length says little
      rows.pop()
      rows.push(['predicts', '', ...tgt.map(text => ({text}))])
      rows.push(['with probability', '',
        ...scene.seen.token_log_probs.map(x => ({text: percent(Math.exp(x)), p: Math.exp(x)}))])
    }
    const fill = (cell, item, i) => {
      const {text, p} = typeof item === 'string' ? {text: item} : item
      write(cell, text)
      cell.className = p === undefined ? '' : 'number'
      style(cell, {'--p': p ?? 0})
      cell.classList.toggle('near', near(i - 2))
    }
    keep(head.firstChild, [side, 'shape', ...tokens], make('th'), fill)
    keep(body, rows, make('tr'), (tr, row) =>
      keep(tr, row, (_, i) => el(i ? 'td' : 'th'), fill))
  })
}

const newWalk = (side, i) => {
  const box = el('div', {className: 'scroll', tabIndex: 0},
    el('table', {}, el('thead', {}, el('tr')), el('tbody')))
  attributes(box, {role: 'region', 'aria-label': `Walk through the ${side}`})
  return box
}

function drawPair({q, k, products, dot, d_k, score, weight}, row, col) {
  const scaled = scene.off.includes('no_scale') ? '√dₖ is switched off, so that is the score'
    : `divided by √${d_k}, the score is ${fixed(score)}`
  write($('sum'), `Query of ${row} · key of ${col}: the ${d_k} products sum to ${fixed(dot)}; `
    + `${scaled}; after the softmax over the row, the weight is ${fixed(weight)}.`)
  const all = Array.from(products), most = Math.max(...all.map(Math.abs))
  keep($('products'), all, make('li', 'i', 'span', 'b'), (node, x, i) => {
    const [bar, factors, product] = node.children
    style(bar, {'--p': Math.abs(x) / most})
    bar.className = x < 0 ? 'minus' : ''
    write(factors, `${fixed(q[i])} · ${fixed(k[i])}`)
    write(product, fixed(x))
  })
}

// ---- Drawing everything ----------------------------------------------------------------------

const DRAW = {type: drawType, looked: drawLooked, break: drawBreak, step: drawStep,
              inside: drawInside}

function render() {
  if (!state.model) return write($('status'), trouble || 'Loading the model…')
  wanted = []
  look()
  drawTop()
  keep($('tabs'), Object.keys(VIEWS), button('tab'), (node, view) => {
    write(node, VIEWS[view])
    node.id = `tab-${view}`
    node.onclick = () => update({view}, true)
    attributes(node, {role: 'tab', 'aria-controls': `panel-${view}`,
                      'aria-selected': state.view === view})
    $(`panel-${view}`).hidden = state.view !== view
  })
  DRAW[state.view]()
  drawRoving()
  pump()
}

// ---- Keyboard: Tab goes from group to group, the arrows within one ---------------------------

const reachable = box =>
  [...box.querySelectorAll('button:not(:disabled)')].filter(node => node.offsetParent)

function drawRoving() { // Tab reaches one of each group: the last one used, or the chosen one
  for (const box of document.querySelectorAll('[data-roving]')) {
    const all = reachable(box)
    const chosen = all.find(node => node === document.activeElement)
      ?? all.find(node => node === box.used)
      ?? all.find(node => node.matches('[aria-pressed=true], [aria-selected=true]')) ?? all[0]
    for (const node of all) node.tabIndex = node === chosen ? 0 : -1
  }
}

function onArrow(event) {
  const box = event.target.closest('[data-roving]')
  if (!box || event.ctrlKey || event.altKey || event.metaKey) return
  const all = reachable(box), across = Number(box.dataset.across ?? 1)
  const down = Number(box.dataset.down ?? 1), i = all.indexOf(event.target)
  const to = {ArrowRight: i + across, ArrowLeft: i - across, ArrowDown: i + down,
              ArrowUp: i - down, Home: 0, End: all.length - 1}[event.key]
  if (!all[to]) return
  event.preventDefault()
  box.used = all[to]
  all[to].tabIndex = 0
  all[to].focus()
  drawRoving()
}

function onKey(event) {
  if (event.key === 'Escape') update({pin: null, hover: null})
  const isUndo = event.key === 'z' && (event.ctrlKey || event.metaKey) && !event.shiftKey
  if (isUndo && event.target !== $('text')) {
    event.preventDefault()
    undo()
  }
  onArrow(event)
}

function listenToChips(box) {
  const chip = event => event.target.closest('.chip')?.dataset.at ?? null
  const hover = where => { if (where !== state.hover) { state.hover = where; render() } }
  box.onpointerover = event => { if (event.pointerType === 'mouse') hover(chip(event)) }
  box.onpointerleave = () => hover(null)
  box.addEventListener('focusin', event => {
    if (event.target.matches(':focus-visible')) hover(chip(event))
  })
  box.addEventListener('focusout', () => hover(null))
  box.onclick = event => {
    const where = chip(event)
    if (where) update({pin: where === state.pin ? null : where})
  }
}

function typed() {
  const text = $('text').value
  if (text === state.text) return
  for (const before of past) before.force = [] // ids of another sentence's translation
  update({text, force: [], pin: null, step: Infinity})
}

function listen() {
  let typing
  const later = () => { clearTimeout(typing); typing = setTimeout(typed, 120) }
  $('text').addEventListener('input', event => { if (!event.isComposing) later() })
  $('text').addEventListener('compositionend', later) // of a character made of several keys
  listenToChips($('src'))
  listenToChips($('tgt'))
  document.addEventListener('keydown', onKey)
  $('undo').onclick = undo
  $('reset').onclick = () => {
    if (state.off.length || state.force.length) change({off: [], force: []})
  }
  const go = by => {
    const step = Number($('step').value) + by
    if (step >= 1 && step <= Number($('step').max)) { state.step = step; render() }
  }
  $('step').oninput = () => go(0)
  $('back').onclick = () => go(-1)
  $('forth').onclick = () => go(1)
  $('as-table').ontoggle = render
  addEventListener('popstate', event => { // our own entries are views; a link brings everything
    if (event.state === 'ours') return update({view: viewOfHash()})
    readHash()
    drawChoices()
    update({})
  })
  addEventListener('resize', render)
}

// ---- Beginning -------------------------------------------------------------------------------

const exampleText = () => model().examples?.[0]?.text ?? ''

function drawChoices() { // what changes only with the model
  const {key, title, src, tgt, examples, n_parameters, checksum} = model()
  $('model').hidden = Object.keys(models).length < 2
  choose($('model'), Object.values(models).map(m => [m.key, m.title]), key, chosen => {
    Object.assign(state, {model: chosen, off: [], force: [], pin: null})
    past.length = 0
    drawChoices()
    update({head: firstHead(), text: exampleText()})
  })
  $('example').hidden = !examples?.length
  const options = (examples ?? []).map(({text, shows}) =>
    [text, text + (shows ? ` (${shows})` : '')])
  choose($('example'), [['', 'Examples'], ...options], '', text => {
    $('example').value = ''
    past.length = 0
    update({text, off: [], force: [], pin: null, step: Infinity})
  })
  choose($('beam'), BEAMS.map(n => [n, n]), state.beam, x => update({beam: Number(x)}))
  choose($('alpha'), ALPHAS.map(n => [n, n]), state.alpha, x => update({alpha: Number(x)}))
  write($('src-name'), src ?? 'Source')
  write($('tgt-name'), tgt ?? 'Target')
  const languages = /^([a-z]{2,3})-([a-z]{2,3})$/.exec(key) ?? []
  for (const id of ['text', 'src']) $(id).lang = languages[1] ?? ''
  for (const node of [$('tgt'), $('spoken').firstChild]) node.lang = languages[2] ?? ''
  write($('about'), `${title}, ${n_parameters.toLocaleString('en')} parameters, `
    + `checksum ${checksum.slice(0, 8)}.`)
}

async function begin() {
  render()
  await load()
  await checkItself()
  state.model = Object.keys(models)[0]
  readHash()
  remember('replaceState', location.hash)
  listen()
  drawChoices()
  update({})
}

tnb.ready = begin().catch(error => {
  trouble = `The engine failed: ${error.message}`
  state.model = null
  render()
})
