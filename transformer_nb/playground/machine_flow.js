// What flows through the picture of the machine: lanes, boxes, lines that are weights of
// attention, and tiles that are vectors
import {$, el, drawn} from './dom.js'
import {range} from './words.js'
import {headsOfLayer, isCovered} from './parts.js'
import {meanWeights} from './scene.js'
import {placeOf} from './plan.js'

// ---- What is switched off --------------------------------------------------------------

const isHeadOff = (head, off) => off.includes(head) || isCovered(head, off)
const headsOf = ({kind, layer}) => headsOfLayer(kind, layer)
const headsOff = (box, off) => headsOf(box).filter(head => isHeadOff(head, off))
const headsOn = (box, off) => headsOf(box).filter(head => !isHeadOff(head, off))
const isBoxOff = (box, off) => Boolean(box.isAttention) && !headsOn(box, off).length
const hasNoPositions = ({kind}, off) => kind === 'embedding' && off.includes('no_positions')
const isWithout = (box, off) => isBoxOff(box, off) || hasNoPositions(box, off)

// ---- Lanes and boxes -------------------------------------------------------------------

const pathOf = (plan, points) => `M${points.map(([u, v]) => plan.point(u, v)).join('L')}`

function curveOf({point}, [u1, v1], [u2, v2]) {
  const middle = (u1 + u2) / 2
  const [a, b, c, d] = [[u1, v1], [middle, v1], [middle, v2], [u2, v2]]
  return `M${point(...a)} C${point(...b)} ${point(...c)} ${point(...d)}`
}

function drawBoxes(svg, plan, {scene}) {
  for (const box of plan.boxes) {
    const {left: x, top: y, width, height} = placeOf(box, plan)
    const off = isWithout(box, scene.off) ? ' off' : ''
    const look = {rx: 5, class: `box ${box.kind}${off}`, 'data-key': box.key}
    drawn(svg, 'rect', {x, y, width, height, ...look})
  }
}

function drawLanes(svg, plan, {scene, at, near}) {
  const box = drawn(svg, 'g', {class: 'lanes'}), {src, tgt} = scene
  const line = (stack, i, from, to, kind) => {
    const v = plan.lane(stack, i)
    drawn(box, 'path', {d: pathOf(plan, [[from, v], [to, v]]), class: `lane ${kind}`})
  }
  const {from: end} = plan.boxes.findLast(({kind}) => kind === 'cross')
  src.forEach((_, i) => {
    const kind = i === near ? 'near' : ''
    line('encoder', i, plan.boxes[0].from, plan.memory, kind)
    line('encoder', i, plan.memory, end, `kept ${kind}`)
  })
  tgt.forEach((_, i) => {
    const kind = i < at ? '' : i === at ? 'now' : 'ahead'
    line('decoder', i, plan.start, plan.end, kind)
  })
}

// ---- Attention -------------------------------------------------------------------------

const FAINT = 0.03 // a weight below this has no line

function drawAttention(svg, plan, picture) {
  for (const box of plan.boxes.filter(box => box.isAttention)) {
    const g = drawn(svg, 'g', {class: `weights ${box.kind}`, 'data-key': box.key})
    const heads = headsOn(box, picture.scene.off), {src} = picture.scene
    const rows = box.kind === 'encoder' ? [...src.keys()] : [picture.at]
    for (const i of rows) drawRow(g, plan, box, i, meanWeights(heads, i), picture)
  }
}

function drawRow(g, plan, {kind, stack, from, to}, i, weights, {near}) { // of one query
  const keys = kind === 'decoder' ? 'decoder' : 'encoder', end = [to, plan.lane(stack, i)]
  const isNear = kind === 'encoder' && i === near
  weights.forEach((w, j) => {
    if (w < FAINT) return
    const d = curveOf(plan, [from, plan.lane(keys, j)], end)
    const width = 0.4 + 6 * w, opacity = 0.12 + 0.88 * w**0.7
    drawn(g, 'path', {d, class: isNear ? 'near' : '', 'data-at': `${i},${j}`,
                      'stroke-width': width.toFixed(3),
                      'stroke-opacity': opacity.toFixed(3)})
  })
}

const DOT = 2.5, APART = 8 // pixels: a head

function drawHeads(svg, plan, {scene}) { // filled: on; empty: off
  for (const box of plan.boxes.filter(box => box.isAttention)) {
    const [first] = plan.edges[box.kind === 'cross' ? 'encoder' : box.stack]
    const heads = headsOf(box), step = Math.min(APART, (box.to - box.from) / heads.length)
    const start = (box.from + box.to - step * heads.length) / 2
    heads.forEach((head, i) => {
      const u = start + step * (i + 0.5), v = first + (plan.isTurned ? 6 : -7)
      const [cx, cy] = plan.point(u, v), off = isHeadOff(head, scene.off) ? ' off' : ''
      drawn(svg, 'circle', {cx, cy, r: DOT, class: `head ${box.kind}${off}`})
    })
  }
}

function drawNetworks(svg, plan, {scene, at}) {
  for (const {stack, from, to} of plan.boxes.filter(({kind}) => kind === 'forward')) {
    const tokens = stack === 'encoder' ? scene.src : scene.tgt
    tokens.forEach((_, i) => {
      const [cx, cy] = plan.point((from + to) / 2, plan.lane(stack, i))
      const isAhead = stack === 'decoder' && i > at
      drawn(svg, 'circle', {cx, cy, r: 3.5, class: isAhead ? 'ahead' : 'network'})
    })
  }
}

// ---- Vectors ---------------------------------------------------------------------------

const CELLS = [4, 6] // of a tile: the first numbers of a vector, along the flow and across
const N_CELLS = CELLS[0] * CELLS[1]
const FULL = 2.5     // root mean squares of all numbers there: from here a color is full

function shades({data, rows, cols}) { // -1 to 1, of the first numbers of each vector
  const squares = data.reduce((total, x) => total + x * x, 0)
  const full = FULL * Math.sqrt(squares / data.length) || 1
  const within = x => Math.max(-1, Math.min(1, x / full))
  return range(rows).map(i => {
    const firsts = data.subarray(i * cols, i * cols + Math.min(cols, N_CELLS))
    return Array.from(firsts, within)
  })
}

function rgb(name) { // a color of the picture: 'rgb(11, 92, 158)' → [11, 92, 158]
  const value = getComputedStyle($('machine-picture')).getPropertyValue(name)
  return value.match(/\d+/g).map(Number)
}

// The vectors of one place in the flow, a pixel for each number -> canvas
function paintTiles(rows, isTurned, n_lanes) {
  const [along, across] = CELLS, step = across + 2 // pixels from lane to lane
  const size = [along, step * n_lanes], colors = [rgb('color'), rgb('caret-color')]
  const [width, height] = isTurned ? size.reverse() : size
  const canvas = el('canvas', {width, height}), image = new ImageData(width, height)
  rows.forEach((row, lane) => row.forEach((shade, i) => {
    const u = i % along, v = lane * step + 1 + Math.floor(i / along)
    const pixel = isTurned ? u * width + v : v * width + u
    const color = colors[shade < 0 ? 1 : 0], alpha = Math.round(255 * Math.abs(shade))
    image.data.set([...color, alpha], 4 * pixel)
  }))
  canvas.getContext('2d').putImageData(image, 0, 0)
  return canvas
}

function drawTiles(svg, plan, {vectors, at}) {
  for (const {stack, where, name, from, to} of plan.tiles) {
    const stage = vectors.find(x => x.where === where && x.name === name)
    const n = stack === 'decoder' ? at + 1 : stage.rows // the others are not there yet
    const canvas = paintTiles(shades(stage).slice(0, n), plan.isTurned, stage.rows)
    const [first, last] = plan.edges[stack]
    const [x, y] = plan.point(from, first), [right, bottom] = plan.point(to, last)
    drawn(svg, 'image', {x, y, width: right - x, height: bottom - y, class: 'tiles',
                         href: canvas.toDataURL(), preserveAspectRatio: 'none'})
  }
}

export {pathOf, headsOn, headsOff, isBoxOff, hasNoPositions,
        shades, drawBoxes, drawLanes, drawAttention, drawHeads, drawNetworks, drawTiles}
