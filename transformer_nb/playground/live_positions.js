// Chapter 04: two positions as clocks, and the product of their encodings
import {el, shape} from './dom.js'
import {sum, range, fixed} from './words.js'
import {PositionalEncoding} from './engine.js'
import {slider, caption, drawing, axes, line} from './live_parts.js'

const SIZES = [8, 16, 64, 512] // of an encoding
const LAST = 99                // position
const SHOWN = 6                // clocks, from the fastest to the slowest
const HEIGHT = 240

const encoding = (d, pos) => new PositionalEncoding(null, d).row(pos)

function product(d, first, second) { // of two encodings
  const p = encoding(d, first), q = encoding(d, second)
  return sum([...p].map((x, i) => x * q[i]))
}

function shownPairs(d) { // as many as there is room for, of all speeds
  const n = Math.min(SHOWN, d / 2), last = d / 2 - 1
  return range(n).map(k => Math.round(last * k / (n - 1)))
}

function paintClocks(svg, width, {d, first, second}) {
  const pairs = shownPairs(d), across = Math.min(pairs.length, width < 600 ? 3 : 6)
  const cell = width / across, r = Math.min(cell / 2 - 12, 40), row = 2 * r + 44
  const p = encoding(d, first), q = encoding(d, second)
  pairs.forEach((i, k) => {
    const x = cell * (k % across + 0.5)
    const y = row * Math.floor(k / across) + r + 6
    const hand = (at, look) => {
      const [dx, dy] = [r * at[2 * i], -r * at[2 * i + 1]] // sine to the right, cosine up
      return shape('path', {d: `M${x},${y}l${dx},${dy}`, class: look})
    }
    const name = {x, y: y + r + 18, class: 'middle name'}
    const [sine, cosine] = [2 * i, 2 * i + 1].map(k => p[k] * q[k])
    svg.append(shape('circle', {cx: x, cy: y, r, class: 'clock'}),
               hand(p, 'hand'), hand(q, 'hand other'),
               shape('text', name, `pair ${i}: ${fixed(sine + cosine)}`))
  })
  svg.setAttribute('aria-label', `${pairs.length} clocks, each with a hand for position `
    + `${first} and one for position ${second}`)
  return Math.ceil(pairs.length / across) * row
}

function paintProduct(svg, width, {d, first, second}) {
  const offset = second - first, most = product(d, 0, 0)
  const share = k => product(d, 0, Math.abs(k)) / most
  const x = {domain: [-LAST, LAST], ticks: [-80, -40, 0, 40, 80], name: 'offset',
             says: n => String(n).replace('-', '−')}
  const y = {domain: [-0.5, 1], ticks: [-0.5, 0, 0.5, 1], says: n => fixed(n, 1),
             name: 'dot product, as a share of its largest'}
  const scales = axes(svg, width, HEIGHT, x, y), {toX, toY} = scales
  const points = range(2 * LAST + 1).map(i => [i - LAST, share(i - LAST)])
  const cx = toX(offset), cy = toY(share(offset))
  svg.append(line(points, scales, {class: 'curve'}),
             shape('path', {d: `M${cx},${toY(-0.5)}V${cy}`, class: 'guide'}),
             shape('circle', {cx, cy, r: 5, class: 'dot'}))
  svg.setAttribute('aria-label', 'The product of two encodings against their offset: '
    + `highest at 0, and ${fixed(share(offset))} of that at ${offset}`)
}

function inWords({d, first, second}) {
  const dot = product(d, first, second), offset = second - first
  const signed = String(offset).replace('-', '−')
  const some = d / 2 > SHOWN
    ? ` Six of the ${d / 2} pairs are drawn, from the fastest to the slowest.` : ''
  return `Positions ${first} (blue) and ${second} (orange), offset ${signed}: `
    + `the product is ${fixed(dot)} of at most ${d / 2}.${some}`
}

function positions(stage) {
  const state = {d: 16, first: 3, second: 7}, says = caption()
  const clocks = drawing(130, (svg, width) => paintClocks(svg, width, state))
  const curve = drawing(HEIGHT, (svg, width) => paintProduct(svg, width, state))
  const set = change => {
    Object.assign(state, change)
    clocks.draw()
    curve.draw()
    both.set(Math.min(state.first, state.second))
    first.set(state.first)
    second.set(state.second)
    says.tell(inWords(state))
  }
  const places = {min: 0, max: LAST, value: 0}
  const first = slider('first position', places, x => set({first: x}))
  const second = slider('second position', places, x => set({second: x}))
  const both = slider('both together', places, x => { // as far as there are positions
    const {first, second} = state
    const room = LAST - Math.abs(second - first)
    const by = Math.min(x, room) - Math.min(first, second)
    set({first: first + by, second: second + by})
  })
  const size = slider('d_model', {min: 0, max: 3, value: 1, says: i => String(SIZES[i])},
    i => set({d: SIZES[i]}))
  const sliders = [first, second, both, size].map(({node}) => node)
  stage.append(el('div', {className: 'live-controls'}, ...sliders), clocks.svg, curve.svg,
               says.node)
  set({})
}

export {positions, product}
