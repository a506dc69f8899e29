// Chapter 20: one query and one key along a text, with positions added and turned
import {el} from './dom.js'
import {sum, range, fixed} from './words.js'
import {PositionalEncoding} from './engine.js'
import {slider, presets, caption, shape, drawing, axes, line} from './live_parts.js'

const D = 16, LAST = 90, SHOWN = 4, HEIGHT = 230
const QUERY = range(D).map(i => Math.cos(1.3 * i)) // two vectors like any others
const KEY = range(D).map(i => Math.sin(0.7 * i + 1))

const dot = (p, q) => sum(p.map((x, i) => x * q[i]))

function added(m, n) { // as in the paper: each vector and its position
  const encoding = new PositionalEncoding(null, D)
  const at = (x, pos) => [...encoding.row(pos)].map((p, i) => x[i] + p)
  return dot(at(QUERY, m), at(KEY, n))
}

function turned(x, pos) { // each pair of numbers by the angle of its clock
  return range(D / 2).flatMap(i => {
    const [a, b] = x.slice(2 * i, 2 * i + 2)
    const angle = pos / 10000**(2 * i / D)
    const cos = Math.cos(angle), sin = Math.sin(angle)
    return [a * cos - b * sin, a * sin + b * cos]
  })
}

const rotated = (m, n) => dot(turned(QUERY, m), turned(KEY, n))

function beside(x, width) { // where a label has room
  const isLeft = x > width - 110
  return {x: isLeft ? x - 9 : x + 9, class: isLeft ? 'beside end' : 'beside'}
}

function paintScores(svg, width, {m, distance}) {
  const x = {domain: [0, LAST], ticks: [0, 20, 40, 60, 80], says: String,
             name: 'position of the query'}
  const y = {domain: [-6, 12], ticks: [-5, 0, 5, 10], name: 'score, q·k',
             says: n => String(n).replace('-', '−')}
  const scales = axes(svg, width, HEIGHT, x, y), {toX, toY} = scales
  const starts = range(4 * (LAST - distance) + 1).map(i => distance + i / 4)
  for (const [score, look, name] of [[added, 'before', 'added'],
                                     [rotated, 'curve', 'turned']]) {
    const at = m => score(m, m - distance), value = at(m)
    svg.append(line(starts.map(m => [m, at(m)]), scales, {class: look}),
               shape('circle', {cx: toX(m), cy: toY(value), r: 5, class: 'dot'}),
               shape('text', {...beside(toX(m), width), y: toY(value) - 9},
                     `${name} ${fixed(value)}`))
  }
  svg.setAttribute('aria-label', 'The score of a query and a key at a fixed distance along '
    + 'a text: with positions added it swings, with vectors turned it is a flat line')
}

function paintClocks(svg, width, {m, distance}) {
  const cell = width / SHOWN, r = Math.min(cell / 2 - 8, 42)
  const q = turned(QUERY, m), k = turned(KEY, m - distance)
  for (const i of range(SHOWN)) {
    const x = cell * (i + 0.5), y = r + 4
    const name = {x, y: y + r + 18, class: 'middle name'}
    const hand = (vector, look) => {
      const [a, b] = vector.slice(2 * i, 2 * i + 2), length = Math.hypot(a, b)
      const d = `M${x},${y}l${r * a / length},${-r * b / length}`
      return shape('path', {d, class: look})
    }
    svg.append(shape('circle', {cx: x, cy: y, r, class: 'clock'}), hand(k, 'hand other'),
               hand(q, 'hand'), shape('text', name, `pair ${i}`))
  }
  svg.setAttribute('aria-label', `${SHOWN} pairs of the turned query and the turned key, `
    + 'as hands of clocks')
}

function inWords({m, distance}) {
  const n = m - distance
  return `Query (blue) at ${m}, key (orange) at ${n}, ${distance} apart: the score is `
    + `${fixed(added(m, n))} with encodings added, ${fixed(rotated(m, n))} turned.`
}

function rotary(stage) {
  const state = {m: 10, distance: 3}, says = caption()
  const clocks = drawing(120, (svg, width) => paintClocks(svg, width, state))
  const scores = drawing(HEIGHT, (svg, width) => paintScores(svg, width, state))
  const set = change => {
    Object.assign(state, change)
    state.m = Math.max(state.m, state.distance) // the key has a place, too
    clocks.draw()
    scores.draw()
    along.set(state.m)
    apart.set(state.distance)
    says.tell(inWords(state))
  }
  const places = {min: 0, max: LAST, value: 0}, distances = {min: 0, max: 30, value: 0}
  const along = slider('both along the text', places, m => set({m}))
  const apart = slider('their distance', distances, distance => set({distance}))
  const chosen = presets('Places of the chapter', [3, 10, 30, 80].map(
    m => [`${m} and ${m - 3}`, () => set({m, distance: 3})]))
  stage.append(el('div', {className: 'live-controls'}, along.node, apart.node), chosen,
               clocks.svg, scores.svg, says.node)
  set({})
}

export {rotary, added, rotated, QUERY, KEY}
