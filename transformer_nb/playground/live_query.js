// Chapter 01: one query, three keys, three values in the plane. The query can be dragged.
import {el, attributes, keep, shape, style, write} from './dom.js'
import {sum, range, fixed} from './words.js'
import {softmax} from './engine.js'
import {slider, presets, caption, drawing, scale} from './live_parts.js'

const KEYS = [[0, Math.log(4)], [Math.log(2), 0], [Math.log(3), 0]]
const VALUES = [[6, 0], [0, 6], [6, 6]]
const QUERIES = [[Math.SQRT2, 0], [0, Math.SQRT2], [0, 0]]
const REACH = 4 // of the plane, in each direction
const HEIGHT = 290

// Eq. (1) for one query; a key that is not allowed has the score −∞
function attend(query, keys, values, {d_k, allowed}) {
  const products = keys.map(key => sum(key.map((x, i) => x * query[i])))
  const scores = products.map((x, j) => allowed[j] ? x / Math.sqrt(d_k) : -Infinity)
  const isBlind = !allowed.includes(true)
  const weights = isBlind ? keys.map(() => 0) : softmax(scores)
  const output = [0, 1].map(i => sum(values.map((value, j) => weights[j] * value[i])))
  return {products, scores, weights, output}
}

// A square plane in the middle of its drawing: scales for x and y
function plane(svg, width, [low, high], names, tick = '') {
  const side = Math.min(width - 20, HEIGHT - 40), left = (width - side) / 2
  const toX = scale([low, high], [left, left + side])
  const toY = scale([low, high], [side + 12, 12])
  const right = {x: toX(high), y: toY(0) + 15, class: 'end name'}
  const above = {x: toX(0) + 5, y: toY(high) + 10, class: 'name'}
  svg.append(shape('path', {d: `M${toX(low)},${toY(0)}H${toX(high)}`, class: 'axis'}),
             shape('path', {d: `M${toX(0)},${toY(low)}V${toY(high)}`, class: 'axis'}),
             shape('text', right, tick), shape('text', above, tick),
             shape('text', {x: width / 2, y: HEIGHT - 8, class: 'middle name'}, names))
  return {toX, toY}
}

function arrow({toX, toY}, [x, y], values) { // from the origin
  const x0 = toX(0), y0 = toY(0), x1 = toX(x), y1 = toY(y)
  return shape('path', {d: `M${x0},${y0}L${x1},${y1}`, ...values})
}

function paintKeys(svg, width, state, handle) {
  const names = 'the query, and the keys 1, 2, 3'
  const at = plane(svg, width, [-REACH, REACH], names, String(REACH))
  const [x, y] = state.query, {toX, toY} = at
  KEYS.forEach(([x, y], j) => {
    const look = state.allowed[j] ? 'key' : 'key away'
    const aside = x ? {x: toX(x) - 4, y: toY(y) + 18} : {x: toX(x) - 16, y: toY(y) + 4}
    svg.append(arrow(at, [x, y], {class: look}),
               shape('circle', {cx: toX(x), cy: toY(y), r: 4, class: look}),
               shape('text', {...aside, class: look}, String(j + 1)))
  })
  svg.append(arrow(at, state.query, {class: 'query'}), handle)
  attributes(handle, {transform: `translate(${toX(x)},${toY(y)})`})
  const where = `(${fixed(x)}, ${fixed(y)})`
  svg.setAttribute('aria-label', `A plane with three keys and the query at ${where}`)
  const perUnit = toX(1) - toX(0)
  state.place = (left, top) => [(left - toX(0)) / perUnit, (toY(0) - top) / perUnit]
}

function paintValues(svg, width, state) {
  const names = `the values ${VALUES.map(([x, y]) => `(${x}, ${y})`).join(', ')}, mixed`
  const at = plane(svg, width, [-0.5, 7], names)
  const {toX, toY} = at, {weights, output} = state.found
  const corners = VALUES.map(([x, y]) => `${toX(x)},${toY(y)}`).join(' ')
  svg.append(shape('polygon', {points: corners, class: 'between'}))
  const [x, y] = output
  VALUES.forEach(([vx, vy], j) => {
    const d = `M${toX(vx)},${toY(vy)}L${toX(x)},${toY(y)}`, size = 8 + 14 * weights[j]
    const corner = {x: toX(vx) - size / 2, y: toY(vy) - size / 2}
    const beside = {x: toX(vx) + (vx ? 14 : 16), y: toY(vy) + (vy ? -8 : 18)}
    svg.append(shape('path', {d, class: 'pull', 'stroke-width': 10 * weights[j]}),
               shape('rect', {...corner, width: size, height: size, class: 'value'}),
               shape('text', beside, String(j + 1)))
  })
  svg.append(shape('circle', {cx: toX(x), cy: toY(y), r: 8, class: 'output'}))
  const where = `(${fixed(x)}, ${fixed(y)})`
  svg.setAttribute('aria-label', `A triangle of three values, the output at ${where}`)
}

// A row for each key: may it be seen, its product, its score, its weight
function newRow(j, onMask) {
  const name = `Key ${j + 1} may be seen`
  const input = el('input', {type: 'checkbox', checked: true, ariaLabel: name})
  input.oninput = () => onMask(j, input.checked)
  const bar = el('td', {className: 'live-bar'}, el('i'), el('span'))
  const cells = ['live-wide', '', ''].map(className => el('td', {className}))
  return el('tr', {}, el('td', {}, input), el('th', {scope: 'row'}), ...cells, bar)
}

// The keys with the largest weight, and the weight: more than one if they are equal
function largest(weights) {
  const most = Math.max(...weights), keys = range(weights.length)
  const best = keys.filter(j => most - weights[j] < 1e-9).map(j => j + 1)
  if (best.length === 1) return `key ${best[0]} gets the largest weight, ${fixed(most)}`
  const names = `${best.slice(0, -1).join(', ')} and ${best.at(-1)}`
  return `keys ${names} get the same weight, ${fixed(most)} each`
}

const score = x => x === -Infinity ? '−∞' : fixed(x)

function fillRow(node, j, {products, scores, weights}) {
  const [, name, key, product, scaled, {children: [bar, number]}] = node.children
  const [x, y] = KEYS[j]
  write(name, String(j + 1))
  write(key, `(${fixed(x)}, ${fixed(y)})`)
  write(product, fixed(products[j]))
  write(scaled, score(scores[j]))
  write(number, fixed(weights[j]))
  style(bar, {'--p': weights[j]})
}

function newTable(onMask) {
  const names = ['seen', 'key', 'k', 'q·k', '÷ √d_k', 'weight']
  const head = names.map(name => el('th', {scope: 'col', textContent: name}))
  head[2].className = 'live-wide' // a phone has no room for it
  const body = el('tbody', {}, ...range(3).map(j => newRow(j, onMask)))
  return el('table', {className: 'live-table'},
            el('thead', {}, el('tr', {}, ...head)), body)
}

function listenToDrag(svg, handle, state, set) {
  const noScroll = event => event.preventDefault()
  handle.addEventListener('touchstart', noScroll, {passive: false})
  const move = ({clientX, clientY}) => {
    const {left, top} = svg.getBoundingClientRect()
    const within = x => Math.max(-REACH, Math.min(REACH, x))
    set({query: state.place(clientX - left, clientY - top).map(within)})
  }
  svg.onpointerdown = event => { // a finger beside the handle scrolls the page
    const isOnHandle = handle.contains(event.target)
    if (event.pointerType !== 'mouse' && !isOnHandle) return
    svg.setPointerCapture(event.pointerId)
    event.preventDefault()
    svg.onpointermove = move
    move(event)
  }
  svg.onpointerup = svg.onpointercancel = () => svg.onpointermove = null
}

function inWords({query, d_k, allowed, found: {weights, output}}) {
  const where = `(${fixed(output[0])}, ${fixed(output[1])})`
  if (!allowed.includes(true))
    return `No key may be seen: all weights are 0, and so is the output ${where}.`
  const [x, y] = query.map(x => fixed(x))
  return `Query (${x}, ${y}) with d_k = ${d_k}: ${largest(weights)}. `
    + `The output is ${where}.`
}

function query(stage) {
  const state = {query: QUERIES[0], d_k: 2, allowed: [true, true, true]}
  const says = caption()
  const handle = shape('g', {class: 'handle'}, shape('circle', {r: 18, class: 'reach'}),
                       shape('circle', {r: 7, class: 'dot'}))
  const left = drawing(HEIGHT, (svg, width) => paintKeys(svg, width, state, handle))
  const right = drawing(HEIGHT, (svg, width) => paintValues(svg, width, state))
  const table = newTable((j, isAllowed) => set({allowed: state.allowed.with(j, isAllowed)}))
  const set = change => {
    Object.assign(state, change)
    state.found = attend(state.query, KEYS, VALUES, state)
    horizontal.set(state.query[0])
    vertical.set(state.query[1])
    left.draw()
    right.draw()
    const fill = (node, _, j) => fillRow(node, j, state.found)
    keep(table.tBodies[0], KEYS, null, fill)
    says.tell(inWords(state))
  }
  const steps = {min: -REACH, max: REACH, step: 0.01, value: 0, says: x => fixed(x)}
  const [horizontal, vertical] = [0, 1].map(i => slider(`query, component ${i + 1}`, steps,
    x => set({query: state.query.with(i, x)})))
  const size = slider('d_k', {min: 0, max: 10, value: 1, says: x => String(2**x)},
    x => set({d_k: 2**x}))
  const chosen = presets('Queries of the chapter', QUERIES.map(
    (query, i) => [`Query ${i + 1}`, () => set({query})]))
  const sliders = [horizontal, vertical, size].map(({node}) => node)
  stage.append(el('div', {className: 'live-pair'}, left.svg, right.svg),
    el('div', {className: 'live-controls'}, ...sliders), chosen,
    el('div', {className: 'live-scroll', tabIndex: 0, role: 'group',
               ariaLabel: 'Scores and weights'}, table), says.node)
  listenToDrag(left.svg, handle, state, set)
  set({})
}

export {query, attend}
