// The picture of the whole machine: the model of Figure 5.2 with the numbers of one
// sentence, and of one token of its translation
import {attributes} from './dom.js'
import {model} from './store.js'
import {EDGE, WORDS, planOf} from './plan.js'
import {shape, drawBoxes, drawLanes, drawAttention, drawHeads, drawNetworks,
        drawTiles} from './machine_flow.js'
import {drawNames, drawLayers, drawWords, drawOutput, drawReturn, titleOf, heightOf,
        drawTitle} from './machine_words.js'

// A picture is {scene, at (the token that is written), near (a token of the sentence, or
// null), vectors (or undefined, while they are computed)}
function drawPicture(svg, picture, {width, isTurned}) { // -> its plan
  const {scene: {src, tgt}} = picture, {config} = model()
  const rows = isTurned ? titleOf(picture, width - 2 * EDGE) : []
  const plan = planOf({
    n_src: src.length, n_tgt: tgt.length, n_encoder: config.n_encoder_layers,
    n_decoder: config.n_decoder_layers, width, isTurned, top: heightOf(rows) + 30})
  svg.replaceChildren()
  attributes(svg, {width: plan.width, height: plan.height,
                   viewBox: `0 0 ${plan.width} ${plan.height}`})
  drawFlow(svg, plan, picture)
  drawTip(svg)
  for (const draw of [drawWords, drawNames, drawOutput, drawReturn]) {
    draw(svg, plan, picture)
  }
  if (isTurned) drawTitle(svg, rows, 0)
  else drawBeside(svg, plan, picture)
  return plan
}

function drawFlow(svg, plan, picture) { // what comes later lies above
  for (const draw of [drawBoxes, drawLanes, drawAttention, drawNetworks, drawHeads]) {
    draw(svg, plan, picture)
  }
  if (picture.vectors) drawTiles(svg, plan, picture)
}

function drawBeside(svg, plan, picture) { // below the encoder there is room
  const title = titleOf(picture, plan.start - WORDS - 16)
  drawTitle(svg, title, plan.edges.decoder[0])
  drawLayers(svg, plan)
}

function drawTip(svg) { // of an arrow
  const size = {markerWidth: 6, markerHeight: 6, refX: 5, refY: 3}
  const defs = shape(svg, 'defs', {})
  const marker = shape(defs, 'marker', {id: 'tip', orient: 'auto', ...size})
  shape(marker, 'path', {d: 'M0,0L6,3L0,6Z', class: 'tip'})
}

export {drawPicture}
