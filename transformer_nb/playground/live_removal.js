// Chapter 16: every head's map for a sentence, and what the removal of a head costs
import {el, make, attributes, style, write, keep, segments} from './dom.js'
import {range, fixed, label, likelier} from './words.js'
import {paint} from './colors.js'
import {presets, textField, caption, shape, drawing} from './live_parts.js'
import {axisNames} from './live_heads.js'
import {roving} from './live_tokens.js'
import {asker, onItsWay} from './live_model.js'

const MODEL = 'captions'
const EXAMPLES = ['A boy is picking up a ball.', 'A soccer player is kicking the ball.',
                  'The dog is chasing the cat.']
const KINDS = ['encoder', 'decoder', 'cross']
const FIRST = {kind: 'cross', layer: 1, head: 1} // until all costs are known

const nameOf = ({kind, layer, head}) => `${kind}.${layer}.${head}`
const inFull = ({kind, layer, head}) => `${kind}, layer ${layer}, head ${head}`

// ---- All heads, small, in rows of layers, each with a bar for its cost ------------------

function newHead() {
  return el('button', {type: 'button'}, el('canvas'), el('i'))
}

function fillHead(node, head, {found, pick}, onPick) {
  const [canvas, bar] = node.children, {kind, layer} = head
  const cost = found.costs[nameOf(head)]
  const most = Math.max(0.5, ...Object.values(found.costs).map(Math.abs))
  paint(canvas, found.maps[kind][layer - 1][head.head - 1])
  style(bar, {'--p': Math.abs(cost ?? 0) / most})
  bar.className = cost > 0 ? 'gain' : ''
  const isChosen = nameOf(head) === nameOf(pick)
  const price = cost === undefined ? '' : `: ${likelier(cost)} without it`
  const words = inFull(head) + price
  attributes(node, {'aria-pressed': isChosen, 'aria-label': words, title: words,
                    tabindex: isChosen ? 0 : -1})
  node.onclick = () => onPick(head)
}

function headsOf(found) { // in the order of the grid: kind, layer, head
  return KINDS.flatMap(kind => found.maps[kind].flatMap((maps, i) =>
    maps.map((_, j) => ({kind, layer: i + 1, head: j + 1}))))
}

function drawHeads(kinds, box, state, onPick) {
  const all = headsOf(state.found)
  drawKinds(kinds, state, onPick)
  const newNames = () => el('div', {className: 'live-names', ariaHidden: true})
  const newKind = () => el('div', {}, el('strong'), newNames(), newNames(),
                           el('div', {className: 'live-grid'}))
  keep(box, KINDS, newKind, (node, kind) => {
    const [title, above, beside, grid] = node.children, maps = state.found.maps[kind]
    const heads = all.filter(head => head.kind === kind)
    write(title, kind)
    node.className = kind === state.pick.kind ? 'chosen' : ''
    drawNames(above, 'head', maps[0].length)
    drawNames(beside, 'layer', maps.length)
    style(node, {'--heads': maps[0].length})
    keep(grid, heads, newHead, (child, head) => fillHead(child, head, state, onPick))
  })
}

// On a phone the heads of one kind are shown at a time
function newHeads() { // which kind, and all heads
  return [el('fieldset', {className: 'live-narrow'}, el('legend', {textContent: 'Heads'}),
             el('span', {className: 'segments'})),
          el('div', {className: 'live-kinds', role: 'group', ariaLabel: 'All heads'})]
}

function drawKinds(box, {pick}, onPick) {
  const options = KINDS.map(kind => [kind, kind])
  segments(box.lastChild, 'live-kind', options, pick.kind, kind => onPick({...pick, kind}))
}

function drawNames(box, name, n) {
  keep(box, range(n), make('span'), (node, i) => write(node, `${name} ${i + 1}`))
}

// ---- One head, large, with its tokens --------------------------------------------------

const SIDE = 300

function paintMap(svg, width, {found, pick: {kind, layer, head}}) {
  const map = found.maps[kind][layer - 1][head - 1], {rows, cols, data} = map
  const [rowNames, colNames] = axisNames(kind, found)
  const left = 84, top = 70, cell = Math.min((width - left) / cols, (SIDE - top) / rows, 26)
  const picture = el('canvas')
  paint(picture, map)
  const image = {href: picture.toDataURL(), x: left, y: top, width: cell * cols,
                 height: cell * rows, preserveAspectRatio: 'none', class: 'pixels'}
  svg.append(shape('image', image))
  const size = `${Math.min(12.5, cell)}px`
  rowNames.forEach((piece, i) => {
    const at = {x: left - 5, y: top + cell * (i + 0.7), class: 'end'}
    svg.append(shape('text', {...at, style: `font-size: ${size}`}, label(piece, i)))
  })
  colNames.forEach((piece, j) => {
    const x = left + cell * (j + 0.7), turn = `translate(${x},${top - 5}) rotate(-60)`
    const at = {transform: turn, style: `font-size: ${size}`}
    svg.append(shape('text', at, label(piece, j)))
  })
  const largest = range(rows).map(i => {
    const row = data.slice(i * cols, (i + 1) * cols), j = row.indexOf(Math.max(...row))
    return `${label(rowNames[i], i)} to ${label(colNames[j], j)} ${fixed(row[j])}`
  })
  svg.setAttribute('aria-label', `Where each token looked most: ${largest.join(', ')}`)
}

function inWords({found, pick, without}) {
  const cost = found.costs[nameOf(pick)], name = inFull(pick)
  if (cost === undefined) return 'Each head is now removed once, to see what it costs.'
  const price = `Without ${name}, “${found.german}” is ${likelier(cost)}.`
  if (!without) return price
  const now = without === found.german ? 'still writes the same.' : `writes “${without}”`
  return `${price} The model ${now}`
}

// ---- The figure ------------------------------------------------------------------------

async function mapsOf(request, text) { // of all heads; their costs come later
  const {ids, text: german} = await request('translate', {text})
  if (!ids.length) return null
  const {src, tgt, maps} = await request('inspect', {text, ids})
  return {text, ids, german, src, tgt, maps, costs: {}}
}

const dearest = found => headsOf(found).reduce((dear, head) =>
  found.costs[nameOf(head)] < found.costs[nameOf(dear)] ? head : dear)

// One alone would drop the reader's sentence when it asks for what a head changes
function askers(stage, says) {
  const trouble = message => says.tell(`No maps: ${message}.`)
  return range(3).map(() => asker(MODEL, stage, trouble))
}

async function removal(stage) {
  const state = {found: null, pick: null, without: ''}, says = caption()
  const [ask, askCosts, askWithout] = askers(stage, says)
  const [kinds, box] = newHeads()
  const {svg, draw: drawMap} = drawing(SIDE, (svg, width) =>
    state.found && paintMap(svg, width, state))
  const draw = () => {
    drawHeads(kinds, box, state, choose)
    drawMap()
    says.tell(inWords(state))
  }
  const choose = async pick => {
    Object.assign(state, {pick, without: ''})
    draw()
    const {text} = state.found, broken = {heads: [nameOf(pick)]}
    const found = await askWithout(request => request('translate', {text, broken}))
    if (state.pick !== pick) return // by now, another head or another sentence
    state.without = found?.text ?? ''
    draw()
  }
  roving(box, i => choose(headsOf(state.found)[i]))
  const look = async text => {
    const found = await ask(request => mapsOf(request, text))
    if (found === null) says.tell('Type a sentence.')
    if (!found) return
    Object.assign(state, {found, pick: FIRST, without: ''})
    draw()
    const {ids} = found, costs = await askCosts(request => request('worth', {text, ids}))
    if (!costs) return
    found.costs = costs
    if (state.pick === FIRST) await choose(dearest(found))
    else draw() // the reader has chosen by now
  }
  const field = textField('English', {value: EXAMPLES[0], lang: 'en'}, look)
  const examples = presets('Examples', EXAMPLES.map(text => [text, () => field.set(text)]))
  says.tell(onItsWay(MODEL))
  stage.append(field.node, examples, kinds, box,
               el('div', {className: 'live-pair'}, svg, says.node))
  await look(EXAMPLES[0])
}

export {removal}
