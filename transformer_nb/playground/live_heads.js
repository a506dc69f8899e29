// Chapter 02: the heads of one layer for a sentence, switched off one by one
import {el, make, attributes, write, keep} from './dom.js'
import {range, label, percent, likelier} from './words.js'
import {paint} from './colors.js'
import {choice, presets, textField, caption} from './live_parts.js'
import {tokenRow, readBy} from './live_tokens.js'
import {modelHeader, asker, onItsWay} from './live_model.js'

const MODEL = 'everyday'
const EXAMPLES = ['He was wearing a blue jacket.', 'The man bit the dog.',
                  'I gave my sister a book.']
const KINDS = [['encoder', 'encoder'], ['decoder', 'decoder'], ['cross', 'cross']]

// The tokens that name a map's rows and its columns; the decoder reads what it has written
function axisNames(kind, {src, tgt}) {
  const read = readBy(tgt)
  return {encoder: [src, src], decoder: [read, read], cross: [tgt, src]}[kind]
}

function strongest({data, cols}, row, names) { // the two largest weights of a row, in words
  const weights = data.slice(row * cols, (row + 1) * cols)
  const order = range(cols).sort((a, b) => weights[b] - weights[a])
  const inWords = j => `${label(names[j], j)} ${percent(weights[j])}`
  return order.slice(0, 2).map(inWords).join(', ')
}

function newHead() { // a map, the tokens that name its columns and its rows, and words
  const names = className => el('span', {className, ariaHidden: true})
  const field = el('span', {className: 'live-map'}, names('live-columns'),
    names('live-rows'), el('span', {className: 'live-squares'}, el('canvas'), el('i')))
  return el('button', {type: 'button', className: 'live-head'}, field, el('b'), el('small'))
}

function drawNames(box, pieces) {
  keep(box, pieces, make('span'), (node, piece, i) => write(node, label(piece, i)))
}

function drawHeads(box, {kind, layer, token, off, found}, toggle) {
  const maps = found.intact.maps[kind][layer - 1]
  const [rows, columns] = axisNames(kind, found.intact)
  box.style.setProperty('--columns', columns.length)
  keep(box, maps, newHead, (node, map, i) => {
    const [{children: [above, beside, squares]}, name, looks] = node.children
    const isOn = !off.includes(i + 1), [canvas, mark] = squares.children
    drawNames(above, columns)
    drawNames(beside, rows)
    paint(canvas, map)
    squares.style.setProperty('aspect-ratio', `${map.cols} / ${map.rows}`)
    mark.style.setProperty('top', `${100 * token / map.rows}%`)
    mark.style.setProperty('height', `${100 / map.rows}%`)
    write(name, `head ${i + 1} ${isOn ? 'on' : 'off'}`)
    write(looks, strongest(map, token, columns))
    attributes(node, {role: 'switch', 'aria-checked': isOn})
    node.onclick = () => toggle(i + 1)
  })
}

function inWords({off, found}) {
  const {intact, broken} = found
  if (!off.length) return `With all heads: “${intact.german}”`
  const names = off.length > 1 ? `heads ${off.join(', ')}` : `head ${off[0]}`
  const delta = broken.log_prob - intact.log_prob
  const now = broken.german === intact.german ? 'the translation stays the same.'
    : `it becomes “${broken.german}”`
  return `Before: “${intact.german}” Without ${names} ${now} To this model, the old `
    + `translation is ${likelier(delta)}.`
}

// The intact model's translation and maps, and what becomes of both
async function compare(request, {text, kind, layer, off}) {
  const {ids, text: german} = await request('translate', {text})
  if (!ids.length) return null
  const intact = {german, ...await request('inspect', {text, ids})}
  if (!off.length) return {intact, broken: intact}
  const broken = {heads: off.map(head => `${kind}.${layer}.${head}`)}
  const other = await request('translate', {text, broken})
  const {log_prob} = await request('inspect', {text, ids, broken})
  return {intact, broken: {german: other.text, log_prob}}
}

function drawAll(state, {tokens, box, says}, toggle) {
  const {found, kind} = state
  box.hidden = !found
  if (!found) {
    tokens.draw([])
    return says.tell('Type a sentence.')
  }
  const [rows] = axisNames(kind, found.intact)
  state.token = Math.min(state.token, rows.length - 1)
  tokens.node.lang = kind === 'encoder' ? 'en' : 'de'
  tokens.draw(rows, state.token)
  drawHeads(box, state, toggle)
  says.tell(inWords(state))
}

async function heads(stage) {
  const {config} = await modelHeader(MODEL), says = caption()
  const n_layers = Math.min(config.n_encoder_layers, config.n_decoder_layers)
  const state = {text: EXAMPLES[0], kind: 'cross', layer: n_layers, token: 2, off: []}
  const ask = asker(MODEL, stage, message => says.tell(`No maps: ${message}.`))
  const box = el('div', {className: 'live-heads', role: 'group', ariaLabel: 'Heads'})
  const tokens = tokenRow('Tokens that look', '', token => {
    state.token = token
    draw()
  })
  const toggle = head => {
    const rest = state.off.filter(other => other !== head)
    look({off: rest.length < state.off.length ? rest : [...state.off, head].sort()})
  }
  const draw = () => drawAll(state, {tokens, box, says}, toggle)
  const look = async change => {
    Object.assign(state, change)
    const found = await ask(request => compare(request, state))
    if (found === undefined) return
    state.found = found
    draw()
  }
  const field = textField('English', {value: state.text, lang: 'en'}, text => look({text}))
  const examples = presets('Examples', EXAMPLES.map(text => [text, () => field.set(text)]))
  const kinds = choice('Attention', KINDS, state.kind, kind => look({kind, off: []}))
  const numbers = range(n_layers).map(i => [i + 1, String(i + 1)])
  const layers = choice('Layer', numbers, state.layer, layer => look({layer, off: []}))
  says.tell(onItsWay(MODEL))
  stage.append(field.node, examples, el('div', {className: 'live-row'}, kinds, layers),
               tokens.node, box, says.node)
  await look({})
}

export {heads, axisNames}
