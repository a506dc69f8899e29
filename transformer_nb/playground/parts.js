// The parts of the model that can be switched off, and their names: 'cross.3.1' is head 1
// of layer 3 of cross-attention, 'cross.3' all heads of that layer, 'cross' all heads of
// all layers; in links c3.1, c3 and c.
import {range} from './words.js'
import {model} from './store.js'

const KINDS = ['encoder', 'decoder', 'cross']
const STACKS = {encoder: 'encoder self-attention', decoder: 'decoder self-attention',
                cross: 'cross-attention'}
const OTHERS = { // besides heads: in links, while they are there, when they are gone
  no_scale: ['scale', 'scores divided by √dₖ', 'no √dₖ'],
  no_positions: ['positions', 'positions', 'no positions'],
  causal_encoder: ['causal', 'encoder sees what follows', 'causal encoder'],
}
const NOTHING = {heads: [], attention: []} // is switched off

function layersOf(kind) {
  const {n_encoder_layers, n_decoder_layers} = model().config
  return range(kind === 'encoder' ? n_encoder_layers : n_decoder_layers).map(i => i + 1)
}

function headsOfLayer(kind, layer) {
  return range(model().config.n_heads).map(i => `${kind}.${layer}.${i + 1}`)
}

const headsOf = kind => layersOf(kind).flatMap(layer => headsOfLayer(kind, layer))

// Above its first layers the decoder looks up the word that comes next (chapter 16)
function firstHead() {
  const layer = Math.max(1, layersOf('cross').length - 1)
  return `cross.${layer}.1`
}

function exists(part) {
  if (OTHERS[part]) return true
  const isOrHolds = head => head === part || head.startsWith(`${part}.`)
  return KINDS.flatMap(headsOf).some(isOrHolds)
}

function nameOf(part) { // 'cross.3.1' → 'cross 3.1'
  if (OTHERS[part]) return OTHERS[part][2]
  if (STACKS[part]) return `all ${STACKS[part]}`
  const [kind, layer, head] = part.split('.')
  return head ? `${kind} ${layer}.${head}` : `${kind} layer ${layer}`
}

function spokenHead(head) {
  const [kind, layer, n] = head.split('.'), known = model().heads?.[head]
  const ofClass = known ? `, ${known.class}` : ''
  return `${kind}, layer ${layer}, head ${n}${ofClass}`
}

function toShort(part) { // for links
  if (OTHERS[part]) return OTHERS[part][0]
  const [kind, ...numbers] = part.split('.')
  return kind[0] + numbers.join('.')
}

function fromShort(text) {
  const other = Object.keys(OTHERS).find(part => OTHERS[part][0] === text)
  const kind = KINDS.find(kind => kind[0] === text[0])
  const part = other ?? (text === kind?.[0] ? kind : `${kind}.${text.slice(1)}`)
  return exists(part) ? part : null
}

function toBroken(off) { // as the engine wants it
  const broken = {heads: [], attention: []}
  for (const part of off) {
    const isHead = part.split('.').length === 3
    if (OTHERS[part]) broken[part] = true
    else if (isHead) broken.heads.push(part)
    else broken.attention.push(...STACKS[part] ? layerNames(part) : [part])
  }
  return broken
}

const layerNames = kind => layersOf(kind).map(layer => `${kind}.${layer}`)

function isCovered(head, off) { // by a layer or a stack that is off
  const [kind, layer] = head.split('.')
  return off.includes(kind) || off.includes(`${kind}.${layer}`)
}

export {KINDS, STACKS, OTHERS, NOTHING, layersOf, headsOfLayer, headsOf, firstHead, nameOf,
        spokenHead, toShort, fromShort, toBroken, isCovered}
