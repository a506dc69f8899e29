// All heads, small, at fixed places. In one view they choose the large map, in the other
// they are switches.
import {el, make, button, attributes, style, write, keep, segments} from './dom.js'
import {likelier} from './words.js'
import {state, now, model, update} from './store.js'
import {KINDS, layersOf, headsOfLayer, nameOf} from './parts.js'
import {costs, mapOf} from './scene.js'
import {paint} from './colors.js'

// `fillHead(node, head)` makes a button of what is drawn; with `fillLayer(node, layer)`,
// each row ends with a button for the whole layer.
function drawHeads(box, fillHead, fillLayer = null) {
  const {n_heads} = model().config, known = costs()
  if (box.model !== state.model) box.replaceChildren() // another one has other heads
  box.model = state.model
  keep(box, KINDS, make('div', 'h2', 'div'), (node, kind) => {
    const [title, grid] = node.children
    write(title, kind)
    node.className = 'kind'
    node.classList.toggle('chosen', state.head.startsWith(kind))
    grid.className = 'grid'
    style(grid, {'--heads': n_heads})
    attributes(grid, {role: 'group', 'aria-label': `${kind}, layers from top to bottom`,
                      'data-roving': '', 'data-down': n_heads + (fillLayer ? 1 : 0)})
    const places = layersOf(kind).flatMap(layer =>
      [...headsOfLayer(kind, layer), ...fillLayer ? [`${kind}.${layer}`] : []])
    keep(grid, places, newPlace, (child, part) => {
      if (isLayer(part)) return fillLayer(child, part)
      drawSmallMap(child, part, known)
      fillHead(child, part)
    })
  })
}

const isLayer = part => part.split('.').length === 2

function newPlace(part) {
  if (isLayer(part)) return button('layer')()
  const props = {type: 'button', className: 'head'}
  return el('button', props, el('canvas'), el('b'), el('i'))
}

function drawSmallMap(node, head, known) {
  const [canvas, letter, bar] = node.children, note = model().heads?.[head]
  const cost = known[head], most = Math.max(0.5, ...Object.values(known).map(Math.abs))
  paint(canvas, now.scene?.isLong ? undefined : mapOf(head))
  write(letter, note?.letter ?? '')
  style(bar, {'--p': Math.abs(cost ?? 0) / most})
  bar.classList.toggle('gain', cost > 0)
  node.dataset.head = head
  const ofClass = note ? `, ${note.class}` : ''
  const price = cost === undefined ? '' : `; ${likelier(cost)} without it`
  node.title = nameOf(head) + ofClass + price
}

function headsLegend() {
  const notes = Object.values(model().heads ?? {})
  const classes = new Set(notes.map(note => `${note.letter} ${note.class}`))
  const letters = [...classes].sort().join(', ')
  return 'One row per layer, the first layer on top. '
    + (letters && `Letters are the classes of chapter 16: ${letters}. `)
    + 'The bar under each map shows how much less likely this translation becomes without '
    + 'that head (hollow: more likely). “cross 3.1” is head 1 of layer 3 of '
    + 'cross-attention, by which the decoder looks at the source. A row of the decoder is '
    + 'the token that is read, a row of cross-attention the token that is written next; '
    + 'pinning a token marks the row that predicts it.'
}

// Its class in words that need no chapter, from what was measured on many sentences
const LOOKS = {
  delimiter: 'It looks mostly at the ends of the sentence and at punctuation.',
  broad: 'It spreads its look over the whole sentence.',
  'long-distance': 'It picks out tokens, whether they are near or far.',
  previous: 'It often looks one token back.', same: 'It often looks at the token itself.',
  next: 'It often looks one token ahead.', local: 'It picks out tokens nearby.',
  'cross.previous': 'It often looks one place further back in the sentence.',
  'cross.same': 'It often looks at the same place in the sentence.',
  'cross.next': 'It often looks one place further on in the sentence.'}

function inPlainWords(head) {
  const known = model().heads?.[head], isCross = head.startsWith('cross')
  if (!known) return ''
  if (known.class !== 'local') return LOOKS[known.class]
  const [place = 'local'] = known.note.match(/\b(previous|same|next)\b/) ?? []
  return LOOKS[isCross && place !== 'local' ? `cross.${place}` : place]
}

function drawKinds(box) { // on a phone the heads of one kind are shown at a time
  const [chosen, , head] = state.head.split('.')
  const options = KINDS.map(kind => [kind, kind])
  const pick = kind => update({head: `${kind}.1.${head}`})
  segments(box, box.id, options, chosen, pick)
}

export {drawHeads, headsLegend, inPlainWords, drawKinds}
