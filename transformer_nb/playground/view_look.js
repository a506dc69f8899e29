// Look: where each token looked; all heads, one of them large
import {$, phone, attributes, write, writeMixed, segments} from './dom.js'
import {likelier} from './words.js'
import {state, now, model, pointed, update, pinIt} from './store.js'
import {nameOf, spokenHead} from './parts.js'
import {costs} from './scene.js'
import {glossLayer} from './gloss.js'
import {axisNames, drawMap} from './maps.js'
import {drawHeads, headsLegend, inPlainWords, drawKinds} from './heads.js'

function chooseHead(head) { // on a phone, what is said of it stands far below its map
  update({head})
  if (phone.matches) $('head-name').scrollIntoView({block: 'start'})
}

function drawLook() {
  if (!now.scene) return
  const [kind, layer] = state.head.split('.')
  const lines = [['layer', `mean of layer ${layer}`],
                 ['head', `${nameOf(state.head)} alone`],
                 ['all', 'mean of all heads']]
  segments($('lines-of'), 'lines', lines, state.lines, lines => update({lines}))
  drawKinds($('kinds-looked'))
  drawHeads($('maps'), (node, head) => {
    attributes(node, {'aria-pressed': head === state.head, 'aria-label': spokenHead(head)})
    node.onclick = () => chooseHead(head)
  })
  write($('maps-legend'), `${headsLegend()} The word below a token is the one that `
    + `cross-attention looked at most, in the mean of layer ${glossLayer()}.`)
  drawHeadNote()
  const side = kind === 'encoder' ? 's' : 't'
  const isOfRows = pointed()?.[0] === side
  const row = isOfRows ? Number(pointed().slice(1)) : undefined
  const isByKeys = document.activeElement === $('map')
  const col = isByKeys ? Math.min(state.col, axisNames(kind)[1].length - 1) : undefined
  const pick = (row, col) => pinIt(side + row, {col})
  writeMixed($('map-says'), drawMap($('map'), row, col, pick) ?? [])
}

function drawHeadNote() {
  const note = model().heads?.[state.head]?.note, cost = costs()[state.head]
  const inGeneral = note ? ` ${inPlainWords(state.head)} Measured: ${note}` : ''
  const here = cost === undefined ? ''
    : ` In this sentence, without it the translation is ${likelier(cost)}.`
  write($('head-name'), nameOf(state.head))
  write($('head-note'), inGeneral + here)
}

export {drawLook}
