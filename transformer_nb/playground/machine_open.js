// A box of the machine, opened in place: the maps of its heads and their switches, the
// lengths of its vectors, or the likeliest tokens, as the other views have them
import {$, el, make, button, attributes, style, write, writeMixed, keep, glide} from './dom.js'
import {range, fixed, label} from './words.js'
import {state, now, model, languages, pointed, update, toggle, pinIt} from './store.js'
import {headsOfLayer, nameOf, spokenHead, isCovered, OTHERS} from './parts.js'
import {mapOf, translationArgs} from './scene.js'
import {ask} from './answers.js'
import {paint} from './colors.js'
import {drawMap} from './maps.js'
import {fillSwitch} from './view_break.js'
import {newCard, fillCard} from './view_type.js'
import {placeOf} from './plan.js'
import {NAMES} from './machine_words.js'

const SAYS = {
  embedding: 'Each token is looked up in a matrix: its row, times √d, plus a pattern that '
    + 'tells its position. Numbers are lengths of vectors.',
  encoder: 'Each token of the sentence looks at all of them, and takes up what it finds.',
  decoder: 'The token that was written last looks at those before it; what follows is '
    + 'masked, because it has not been written.',
  cross: 'Here the translation looks at the sentence: a query of the decoder meets keys '
    + 'and values of the memory.',
  forward: 'Each vector goes through the same small network, by itself: from {d_model} '
    + 'numbers to {d_ff}, of which the negative ones become 0, and back. Numbers below are '
    + 'lengths of vectors.',
  memory: 'The sentence, as every layer of the decoder sees it: a vector for each '
    + 'token, whose length is below.',
  output: 'The last vector is compared with the row of every token; a softmax makes '
    + 'probabilities of it. Choose another token, and the rest follows it.'}
const MORE = {output: ['step', 'How the search chooses: Step'],
              encoder: ['looked', 'All heads: Look']}
MORE.decoder = MORE.cross = MORE.encoder

function openBox(key) { // a head of it is chosen, unless one is already
  const isOfHeads = headsOf(key).length > 0, isChosen = headsOf(key).includes(state.head)
  update({box: key, ...isOfHeads && !isChosen ? {head: `${key}.1`} : {}})
  glide($('machine-open'), 'nearest')
}

function closeBox() {
  const {box} = state
  update({box: null})
  document.querySelector(`[data-box="${box}"]`)?.focus({preventScroll: true})
}

function headsOf(key) {
  const [kind, layer] = key.split('.')
  return ['encoder', 'decoder', 'cross'].includes(kind) ? headsOfLayer(kind, layer) : []
}

function drawOpen(plan, at) {
  const box = plan.parts.find(({key}) => key === state.box)
  $('machine-open').hidden = !box
  if (!box) return
  const {kind, stack, layer, key} = box, [view, words] = MORE[kind] ?? []
  write($('open-title'), NAMES[kind] + (layer ? `, ${stack} layer ${layer}` : ''))
  write($('open-says'), SAYS[kind].replace(/{(\w+)}/g, (_, size) => model().config[size]))
  $('open-more').hidden = !view
  write($('open-more'), words ?? '')
  $('open-more').onclick = () => $(`tab-${view}`).click()
  $('open-close').onclick = closeBox
  drawSwitches(box)
  drawHeads(headsOf(key))
  drawOpenMap(kind, at, Boolean(layer) && kind !== 'forward')
  drawVectors(box)
  drawCard(kind === 'output', at)
  putBeside(plan, placeOf(box, plan))
}

// Beside the box where there is room, and on a phone below it
function putBeside({isTurned}, {left, top, width, height}) {
  const open = $('machine-open'), shift = $('machine-scroll').scrollLeft
  const room = $('machine').clientWidth, own = open.offsetWidth
  const after = left + width + 8 - shift, before = left - own - 8 - shift
  const x = after + own <= room ? after : Math.max(0, before)
  const values = isTurned ? {left: 0, top: top + height + 8} : {left: x, top: top + 24}
  style(open, {left: `${values.left}px`, top: `${values.top}px`})
}

function drawSwitches({kind, stack, key}) { // of the box as a whole
  const all = {embedding: ['no_positions'], encoder: [key, 'causal_encoder', 'no_scale'],
               decoder: [key, 'no_scale'], cross: [key, 'no_scale']}[kind] ?? []
  keep($('open-switches'), all, button('switch'), (node, part) => {
    const name = OTHERS[part]?.[1] ?? 'all its heads'
    write(node, name)
    fillSwitch(node, part, name)
  })
}

function drawHeads(heads) { // each with its map, by which it is chosen, and its switch
  const newHead = () => el('div', {}, button('head')(), button('switch')())
  $('open-heads').hidden = !heads.length
  keep($('open-heads'), heads, newHead, (node, head) => {
    const [choice, onOff] = node.children, n = head.split('.')[2]
    if (!choice.firstChild) choice.append(el('canvas'))
    paint(choice.firstChild, mapOf(head))
    const isOff = isCovered(head, state.off) || state.off.includes(head)
    attributes(choice, {'aria-pressed': head === state.head,
                        'aria-label': spokenHead(head)})
    choice.title = nameOf(head)
    choice.onclick = () => update({head})
    choice.classList.toggle('covered', isOff)
    write(onOff, n)
    fillSwitch(onOff, head, `head ${n}`)
  })
}

function drawOpenMap(kind, at, isShown) {
  const map = $('open-map'), isOfSource = kind === 'encoder'
  $('open-map-says').hidden = !isShown
  if (!isShown) {
    map.hidden = true
    return
  }
  const source = state.pin?.startsWith('s') ? Number(state.pin.slice(1)) : undefined
  const row = isOfSource ? source : at, {cols} = mapOf(state.head)
  const isByKeys = document.activeElement === map
  const col = isByKeys ? Math.min(state.col, cols - 1) : undefined
  const pick = (row, col) => pinIt((isOfSource ? 's' : 't') + row, {col})
  writeMixed($('open-map-says'), drawMap(map, row, col, pick) ?? [])
}

const STAGES = { // of the way, whose lengths are shown
  embedding: ['row of the matrix', '· √d_model', '+ position'], memory: ['memory'],
  forward: ['after self-attention', 'after cross-attention', 'after feed-forward']}

function drawVectors({kind, stack, layer}) {
  const names = STAGES[kind] ?? [], where = layer ? `${stack} layer ${layer}` : stack
  const all = ask('vectors', translationArgs()) ?? []
  const stages = all.filter(stage => stage.where === where && names.includes(stage.name))
  keep($('open-vectors'), stages.length ? [stack] : [], newTable, (table, side) =>
    fillTable(table, side, rowsOf(stages)))
}

function newTable(side) {
  const head = el('thead', {}, el('tr'))
  const box = el('div', {className: 'scroll', tabIndex: 0},
    el('table', {}, head, el('tbody')))
  attributes(box, {role: 'region', 'aria-label': `Lengths of vectors in the ${side}`})
  return box
}

function fillTable(box, side, rows) { // a column for each token
  const [head, body] = box.firstChild.children, isSource = side === 'encoder'
  const isNear = pointed()?.[0] === (isSource ? 's' : 't')
  const near = isNear ? Number(pointed().slice(1)) : null
  const fill = (cell, item, i) => fillCell(cell, item, i - 2 === near)
  const ownWords = i => i < 2 ? {lang: 'en'} : {} // the page's, not a sentence's
  const newHead = (_, i) => el('th', ownWords(i))
  const newCell = (_, i) => el(i ? 'td' : 'th', ownWords(i))
  const columns = isSource ? now.scene.src.map(label)
    : ['start', ...now.scene.tgt.map(label).slice(0, -1)]
  box.firstChild.lang = languages()[isSource ? 'src' : 'tgt']
  keep(head.firstChild, [side, 'shape', ...columns], newHead, fill)
  keep(body, rows, make('tr'), (tr, row) => keep(tr, row, newCell, fill))
}

function rowsOf(stages) { // bars relative to the longest vector
  const vector = ({cols, data}, i) => data.subarray(i * cols, (i + 1) * cols)
  const lengths = stages.map(stage =>
    range(stage.rows).map(i => Math.hypot(...vector(stage, i))))
  const longest = Math.max(...lengths.flat())
  return stages.map(({name, rows, cols}, k) => {
    const bars = lengths[k].map(x => ({text: fixed(x, 1), p: x / longest}))
    return [name, `${rows} × ${cols}`, ...bars]
  })
}

function fillCell(cell, item, isNear) {
  const {text, p} = typeof item === 'string' ? {text: item} : item
  write(cell, text)
  cell.className = p === undefined ? '' : 'number'
  cell.classList.toggle('near', isNear)
  style(cell, {'--p': p ?? 0})
}

function drawCard(isShown, at) {
  const all = isShown ? [now.scene.seen.alternatives[at]] : []
  keep($('open-cards'), all, newCard, (card, list) => fillCard(card, list, at))
}

export {openBox, closeBox, drawOpen}
