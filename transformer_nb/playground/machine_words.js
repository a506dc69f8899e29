// The words of the picture of the machine: names, tokens and the likeliest next tokens
import {drawn} from './dom.js'
import {percent, label, isSpecial} from './words.js'
import {TILE, BAR} from './plan.js'
import {pathOf, headsOff, isBoxOff, hasNoPositions} from './machine_flow.js'

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
    drawn(svg, 'text', {...values, ...look}, text)
  }
}

function drawLayers(svg, plan) { // a bracket with a number for each
  for (const {stack, layer, to} of plan.boxes.filter(({kind}) => kind === 'forward')) {
    const isOfLayer = box => box.stack === stack && box.layer === layer
    const {from} = plan.boxes.find(isOfLayer), end = to + TILE + 4
    const isOfEncoder = stack === 'encoder', v = isOfEncoder ? 18 : plan.height - 44
    const place = {x: (from + end) / 2, y: v + (isOfEncoder ? -6 : 14)}
    drawn(svg, 'path', {d: pathOf(plan, [[from, v], [end, v]]), class: 'bracket'})
    drawn(svg, 'text', {...place, 'text-anchor': 'middle', class: 'layer'},
          `layer ${layer}`)
  }
}

// ---- Tokens ----------------------------------------------------------------------------

const LONG = 12 // characters
const cut = text => text.length > LONG ? `${text.slice(0, LONG - 1)}…` : text
const wordOf = (piece, i) => cut(label(piece, i))

function drawWords(svg, plan, {scene, at, near}) {
  const draw = (text, stack, i, from, at, kind) => { // a click goes to token `at`
    const [x, y] = plan.point(from - 8, plan.lane(stack, i))
    const [turn, anchor] = plan.isTurned ? [upwards(x, y), 'start'] : [{}, 'end']
    const look = {...MIDDLE, ...turn, class: `word ${kind}`, 'data-at': at}
    drawn(svg, 'text', {x, y, 'text-anchor': anchor, ...look}, text)
  }
  scene.src.forEach((piece, i) => {
    draw(wordOf(piece, i), 'encoder', i, plan.boxes[0].from, `s${i}`, i === near ? 'near' : '')
  })
  const read = ['start', ...scene.tgt.slice(0, at).map(wordOf)]
  const written = i => `t${Math.max(0, i - 1)}` // where it was
  read.forEach((text, i) =>
    draw(text, 'decoder', i, plan.start, written(i), i === at ? 'now' : ''))
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
  const g = drawn(svg, 'g', {class: 'output'}), {left, top, height} = plan.output
  const from = plan.point(plan.end, plan.lane('decoder', at))
  choices(scene, at).forEach((choice, i) => {
    const y = top + BAR * i
    drawFan(g, plan, from, [left, y + BAR / 2], choice)
    drawBar(g, plan.output, y, choice, at)
  })
  const values = {x: left, y: top + height - 10, class: 'writes'}
  drawn(g, 'text', values, wordOf(scene.tgt[at], at))
}

function drawBar(g, {left, width}, y, choice, at) {
  const kind = choice.isWritten ? ' written' : '', middle = y + (BAR - 5) / 2
  const bar = {x: left, y, height: BAR - 5, rx: 3}, share = Math.max(1, width * choice.prob)
  drawn(g, 'rect', {...bar, width, class: 'track'})
  drawn(g, 'rect', {...bar, width: share, class: `bar${kind}`})
  const text = {...MIDDLE, y: middle}
  drawn(g, 'text', {...text, x: left + 7, class: `choice${kind}`}, wordOf(choice, at))
  const end = {x: left + width - 7, 'text-anchor': 'end', class: 'percent'}
  drawn(g, 'text', {...text, ...end}, percent(choice.prob))
}

function drawFan(g, {isTurned}, [x1, y1], [x2, y2], {prob, isWritten}) {
  if (isTurned && !isWritten) return // its bars lie below one another
  const middle = (x1 + x2) / 2, width = (1 + 7 * prob).toFixed(2)
  const d = isTurned ? `M${x1},${y1}V${y2 - BAR / 2}`
    : `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${x2},${y2}`
  drawn(g, 'path', {d, class: `fan${isWritten ? ' written' : ''}`, 'stroke-width': width})
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
  drawn(svg, 'path', {d, class: 'return', 'marker-end': 'url(#tip)'})
}

const textOf = pieces => {
  const words = pieces.filter(piece => !isSpecial(piece))
  return words.map(({text}) => text).join('').trimStart()
}

export {NAMES, choices, textOf, drawNames, drawLayers, drawWords, drawOutput, drawReturn}
