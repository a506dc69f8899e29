// Where the parts of the machine lie in its picture, in pixels. Along the picture (u) the
// vectors flow, across it (v) each token has a lane: first those of the sentence, which
// become the memory, then those of the translation. On a wide page the flow goes from left
// to right; on a phone the picture is turned, and it goes down.
import {range} from './words.js'

const WORDS = 84, TILE = 14, FORWARD = 12, GAP = 4 // along: names, vectors, networks
const SELF = 'self-attention', CROSS = 'cross-attention'

class Flow { // boxes and tiles, in the order in which vectors pass them
  constructor(attention) {
    Object.assign(this, {attention, u: WORDS, boxes: [], tiles: []})
  }
  take(size) {
    const from = this.u, to = from + size
    this.u = to + GAP
    return {from, to}
  }
  tile(stack, where, name) { this.tiles.push({stack, where, name, ...this.take(TILE)}) }
  attend(kind, stack, layer, after) {
    const key = `${kind}.${layer}`, place = this.take(this.attention)
    this.boxes.push({key, kind, stack, layer, isAttention: true, ...place})
    this.tile(stack, `${stack} layer ${layer}`, `after ${after}`)
  }
  transform(stack, layer) {
    const key = `forward.${stack}.${layer}`
    this.boxes.push({key, kind: 'forward', stack, layer, ...this.take(FORWARD)})
    this.tile(stack, `${stack} layer ${layer}`, 'after feed-forward')
  }
  frame(key, kind, stack, names) { // a box around tiles
    const from = this.u - GAP / 2
    for (const name of names) this.tile(stack, stack, name)
    this.boxes.push({key, kind, stack, from, to: this.u - GAP / 2})
  }
  embed(stack) {
    this.frame(`embedding.${stack}`, 'embedding', stack, ['· √d_model', '+ position'])
  }
}

function flowOf(attention, n_encoder, n_decoder, isTurned = false) {
  const flow = new Flow(attention)
  flow.embed('encoder')
  for (const i of range(n_encoder)) {
    flow.attend('encoder', 'encoder', i + 1, SELF)
    flow.transform('encoder', i + 1)
  }
  flow.frame('memory', 'memory', 'encoder', ['memory'])
  flow.memory = flow.u
  const before = 3 * (TILE + GAP) + attention + GAP // what needs no memory yet
  flow.u += isTurned ? WORDS : -before
  flow.start = flow.u
  flow.embed('decoder')
  for (const i of range(n_decoder)) {
    flow.attend('decoder', 'decoder', i + 1, SELF)
    flow.attend('cross', 'decoder', i + 1, CROSS)
    flow.transform('decoder', i + 1)
  }
  return flow
}

const LANE = {most: 22, least: 13}                // across
const BETWEEN = 1.6                               // lanes, between the sentences
const ATTENTION = {most: 90, least: 26, turned: 46}
const HEAD = 150, FOOT = 188, EDGE = 4            // across: names of the parts
const OUTPUT = 196                                // along: the likeliest tokens,
const BAR = 25, N_BARS = 5, WRITTEN = 40          // a bar for each, and the one written

const within = (x, {least, most}) => Math.min(most, Math.max(least, x))

function planOf({n_src, n_tgt, n_encoder, n_decoder, width, isTurned}) {
  const free = width - flowOf(0, n_encoder, n_decoder).u - OUTPUT
  const share = within(free / (n_encoder + 2 * n_decoder - 1), ATTENTION)
  const attention = isTurned ? ATTENTION.turned : share
  const flow = flowOf(attention, n_encoder, n_decoder, isTurned)
  const n_lanes = n_src + BETWEEN + n_tgt
  const pitch = isTurned ? within((width - 2 * EDGE) / n_lanes, LANE) : LANE.most
  const first = isTurned ? EDGE : HEAD, second = first + pitch * (n_src + BETWEEN)
  const edges = {encoder: [first, first + pitch * n_src],
                 decoder: [second, second + pitch * n_tgt]}
  const lane = (stack, i) => edges[stack][0] + pitch * (i + 0.5)
  const point = (u, v) => isTurned ? [v, u] : [u, v]
  const bars = BAR * N_BARS + WRITTEN
  const length = Math.ceil(flow.u + (isTurned ? bars + 70 : OUTPUT))
  const breadth = Math.ceil(edges.decoder[1] + (isTurned ? EDGE : FOOT))
  const size = isTurned ? {width: Math.max(breadth, width), height: length}
    : {width: Math.max(length, width), height: breadth}
  const plan = {...flow, ...size, end: flow.u, pitch, edges, lane, point, isTurned}
  const output = {key: 'output', kind: 'output', place: outputOf(plan, bars)}
  return {...plan, parts: [...plan.boxes, output], output: output.place}
}

function outputOf({width, height, end, edges: {decoder: [first, last]}, isTurned}, bars) {
  if (isTurned) {
    return {left: EDGE, top: height - bars - 36, width: width - 2 * EDGE, height: bars}
  }
  const top = Math.min((first + last - bars) / 2, height - bars - 40), left = end + 42
  return {left, top, width: width - left - 2, height: bars}
}

// Of a part: cross-attention reaches over both sentences
function placeOf({kind, stack, from, to, place}, {edges, point}) {
  if (place) return place
  const first = edges[kind === 'cross' ? 'encoder' : stack][0], [, last] = edges[stack]
  const [left, top] = point(from, first), [right, bottom] = point(to, last)
  return {left, top, width: right - left, height: bottom - top}
}

export {TILE, BAR, planOf, placeOf}
