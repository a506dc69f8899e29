// The words of the picture of the machine: names, tokens, the likeliest next tokens, and
// the title, which holds both sentences
import {el, attributes} from './dom.js'
import {percent, label, isSpecial, specialName} from './words.js'
import {model} from './store.js'
import {nameOf} from './parts.js'
import {EDGE, TILE, BAR} from './plan.js'
import {shape, pathOf, headsOff, isBoxOff, hasNoPositions} from './machine_flow.js'

// ---- Names of the parts ----------------------------------------------------------------

const NAMES = {embedding: 'embedding + position', encoder: 'self-attention',
               decoder: 'masked self-attention', cross: 'cross-attention',
               forward: 'feed-forward', memory: 'memory', output: 'next token'}

function nameOfPart(box, off) { // -> the name, and whether something is missing
  const name = NAMES[box.kind]
  if (hasNoPositions(box, off)) return ['embedding, no position', true]
  const lost = box.isAttention ? headsOff(box, off) : []
  const plain = name.replace('masked ', '')
  if (isBoxOff(box, off)) return [`${name}, off`, true]
  if (lost.length > 1) return [`${plain}, ${lost.length} heads off`, true]
  if (lost.length) return [`${plain}, head ${lost[0].split('.')[2]} off`, true]
  return [name, false]
}

// Where the name of a box stands, and whether it begins or ends there
function nameAt({stack, kind, from, to}, {edges, point, isTurned}) {
  const [first, last] = edges[stack], isOfEncoder = stack === 'encoder'
  if (isTurned && kind === 'cross') // below the lines, which come from above
    return [...point(to - 9, edges.encoder[0] + 16), 'start']
  const sides = isTurned ? [last + 6, first - 6] : [first - 16, last + 10]
  const [x, y] = point((from + to) / 2, sides[isOfEncoder ? 0 : 1])
  return [x, y, isOfEncoder ? 'start' : 'end']
}

const MIDDLE = {'dominant-baseline': 'central'}
const upwards = (x, y) => ({transform: `rotate(-90 ${x} ${y})`})

function drawNames(svg, plan, {scene}) {
  for (const box of plan.boxes) {
    const [x, y, anchor] = nameAt(box, plan), [text, isOff] = nameOfPart(box, scene.off)
    const turn = plan.isTurned ? {} : upwards(x, y)
    const look = {...MIDDLE, ...turn, class: `name ${box.kind}${isOff ? ' off' : ''}`}
    const values = {x, y, 'text-anchor': anchor, 'data-names': box.key}
    shape(svg, 'text', {...values, ...look}, text)
  }
}

function drawLayers(svg, plan) { // a bracket with a number for each
  for (const {stack, layer, to} of plan.boxes.filter(({kind}) => kind === 'forward')) {
    const isOfLayer = box => box.stack === stack && box.layer === layer
    const {from} = plan.boxes.find(isOfLayer), end = to + TILE + 4
    const isOfEncoder = stack === 'encoder', v = isOfEncoder ? 18 : plan.height - 44
    const place = {x: (from + end) / 2, y: v + (isOfEncoder ? -6 : 14)}
    shape(svg, 'path', {d: pathOf(plan, [[from, v], [end, v]]), class: 'bracket'})
    shape(svg, 'text', {...place, 'text-anchor': 'middle', class: 'layer'},
          `layer ${layer}`)
  }
}

// ---- Tokens ----------------------------------------------------------------------------

const LONG = 12 // characters
const cut = text => text.length > LONG ? `${text.slice(0, LONG - 1)}…` : text
const wordOf = (piece, i) => isSpecial(piece) ? specialName(piece) : cut(label(piece, i))

function drawWords(svg, plan, {scene, at, near}) {
  const draw = (text, stack, i, from, kind) => {
    const [x, y] = plan.point(from - 8, plan.lane(stack, i))
    const [turn, anchor] = plan.isTurned ? [upwards(x, y), 'start'] : [{}, 'end']
    const look = {...MIDDLE, ...turn, class: `word ${kind}`}
    shape(svg, 'text', {x, y, 'text-anchor': anchor, ...look}, text)
  }
  scene.src.forEach((piece, i) => {
    draw(wordOf(piece, i), 'encoder', i, plan.boxes[0].from, i === near ? 'near' : '')
  })
  const read = ['start', ...scene.tgt.slice(0, at).map(wordOf)]
  read.forEach((text, i) => draw(text, 'decoder', i, plan.start, i === at ? 'now' : ''))
}

// ---- The likeliest next tokens, and the one that is written ----------------------------

function choices({seen, ids, tgt}, at) { // what is written is always among them
  const list = seen.alternatives[at], id = ids[at], {text} = tgt[at]
  const prob = Math.exp(seen.token_log_probs[at])
  const isThere = list.some(choice => choice.id === id)
  const shown = isThere ? list : [...list.slice(0, -1), {id, text, prob}]
  return shown.map(choice => ({...choice, isWritten: choice.id === id}))
}

function drawOutput(svg, plan, {scene, at}) {
  const g = shape(svg, 'g', {class: 'output'}), {left, top, height} = plan.output
  const from = plan.point(plan.end, plan.lane('decoder', at))
  choices(scene, at).forEach((choice, i) => {
    const y = top + BAR * i
    drawFan(g, plan, from, [left, y + BAR / 2], choice)
    drawBar(g, plan.output, y, choice, at)
  })
  const values = {x: left, y: top + height - 10, class: 'writes'}
  shape(g, 'text', values, wordOf(scene.tgt[at], at))
}

function drawBar(g, {left, width}, y, choice, at) {
  const kind = choice.isWritten ? ' written' : '', middle = y + (BAR - 5) / 2
  const bar = {x: left, y, height: BAR - 5, rx: 3}, share = Math.max(1, width * choice.prob)
  shape(g, 'rect', {...bar, width, class: 'track'})
  shape(g, 'rect', {...bar, width: share, class: `bar${kind}`})
  const text = {...MIDDLE, y: middle}
  shape(g, 'text', {...text, x: left + 7, class: `choice${kind}`}, wordOf(choice, at))
  const end = {x: left + width - 7, 'text-anchor': 'end', class: 'percent'}
  shape(g, 'text', {...text, ...end}, percent(choice.prob))
}

function drawFan(g, {isTurned}, [x1, y1], [x2, y2], {prob, isWritten}) {
  if (isTurned && !isWritten) return // its bars lie below one another
  const middle = (x1 + x2) / 2, width = (1 + 7 * prob).toFixed(2)
  const d = isTurned ? `M${x1},${y1}V${y2 - BAR / 2}`
    : `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${x2},${y2}`
  shape(g, 'path', {d, class: `fan${isWritten ? ' written' : ''}`, 'stroke-width': width})
}

function drawReturn(svg, plan, {scene, at}) { // what is written is read next
  if (at + 1 >= scene.tgt.length) return
  const [x, y] = plan.point(plan.start - 10, plan.lane('decoder', at + 1))
  const {left, top, height} = plan.output, r = 12, low = plan.height - 20
  const right = plan.width - 2, begin = `M${left + 10},${top + height - 2}`
  const round = (dx, dy, isFlat) => isFlat ? `q${dx},0 ${dx},${dy}` : `q0,${dy} ${dx},${dy}`
  const d = plan.isTurned ? `${begin}V${low}H${right}V${y - 24}H${x}V${y}`
    : `${begin}V${low - r}${round(-r, r)}H${plan.start - 46 + r}${round(-r, -r, true)}`
      + `V${y + r}${round(r, -r)}H${x}`
  shape(svg, 'path', {d, class: 'return', 'marker-end': 'url(#tip)'})
}

// ---- The title: both sentences, and what is off ----------------------------------------

const pen = el('canvas').getContext('2d')
function rowsOf(text, size, width) {
  pen.font = `${size > SMALL ? 600 : 400} ${size}px system-ui, sans-serif`
  return inRows(pen, text, width)
}

const SMALL = 12, SIZES = [21, 15] // pixels
const MOST = 4                     // rows of a sentence

function sentenceRows(text, width) {
  const [large, less] = SIZES, size = rowsOf(text, large, width).length > 2 ? less : large
  const rows = rowsOf(text, size, width), shown = rows.slice(0, MOST)
  if (rows.length > MOST) shown[MOST - 1] += ' …'
  return shown.map(row => ({size, text: row, kind: 'sentence'}))
}

const smallRows = (text, width, kind = '') =>
  rowsOf(text, SMALL, width).map(row => ({size: SMALL, text: row, kind}))

const textOf = pieces => {
  const words = pieces.filter(piece => !isSpecial(piece))
  return words.map(({text}) => text).join('').trimStart()
}

function titleOf({scene, at}, width) { // -> rows, from the top
  const count = model().n_parameters.toLocaleString('en'), {src, tgt, off} = scene
  const ends = [at, at + 1].map(n => textOf(tgt.slice(0, n)).length)
  let start = 0
  const written = sentenceRows(textOf(tgt), width).map(row => {
    const cuts = ends.map(end => end - start)
    start += row.text.length + 1
    return {...row, cuts}
  })
  const lost = off.length ? `Switched off: ${off.map(nameOf).join(', ')}` : ''
  return [...smallRows(`A Transformer of ${count} parameters reads`, width),
          ...sentenceRows(textOf(src), width),
          ...smallRows('and writes, token by token,', width), ...written,
          ...lost ? smallRows(lost, width, 'off') : []]
}

// A small row keeps some distance from the sentence above it
const stepOf = ({size}, i) => size * (size === SMALL && i ? 2.2 : 1.4)
const heightOf = rows => rows.map(stepOf).reduce((a, b) => a + b, 0)

function drawTitle(svg, rows, top) {
  let y = top
  rows.forEach((row, i) => {
    y += stepOf(row, i)
    const node = shape(svg, 'text', {x: EDGE, y, class: `title ${row.kind}`})
    attributes(node, {'font-size': row.size})
    if (row.cuts) drawParts(node, row)
    else node.textContent = row.text
  })
}

function drawParts(node, {text, cuts}) { // what is written, new, and still to come
  const [a, b] = cuts.map(i => Math.max(0, Math.min(text.length, i)))
  const parts = {written: text.slice(0, a), new: text.slice(a, b), ahead: text.slice(b)}
  for (const [kind, part] of Object.entries(parts)) {
    if (part) shape(node, 'tspan', {class: kind}, part)
  }
}

function inRows(g, text, width) { // -> lines no wider than that
  return text.split(' ').reduce(([line, ...before], word) => {
    const longer = line ? `${line} ${word}` : word
    const fits = !line || g.measureText(longer).width <= width
    return fits ? [longer, ...before] : [word, line, ...before]
  }, ['']).reverse()
}

export {NAMES, choices, drawNames, drawLayers, drawWords, drawOutput, drawReturn, titleOf,
        textOf, heightOf, drawTitle}
