// The picture of the whole machine: the model of Figure 5.2 with the numbers of one
// sentence, and of one token of its translation
import {attributes, drawn} from './dom.js'
import {model} from './store.js'
import {planOf} from './plan.js'
import {drawBoxes, drawLanes, drawAttention, drawHeads, drawNetworks,
        drawTiles} from './machine_flow.js'
import {drawNames, drawLayers, drawWords, drawOutput, drawReturn} from './machine_words.js'

// A picture is {scene, at (the token that is written), near (a token of the sentence, or
// null), vectors (or undefined, while they are computed)}
function drawPicture(svg, picture, {width, isTurned}) { // -> its plan
  const {scene: {src, tgt}} = picture, {config} = model()
  const plan = planOf({
    n_src: src.length, n_tgt: tgt.length, n_encoder: config.n_encoder_layers,
    n_decoder: config.n_decoder_layers, width, isTurned})
  svg.replaceChildren()
  attributes(svg, {width: plan.width, height: plan.height,
                   viewBox: `0 0 ${plan.width} ${plan.height}`})
  const flow = [drawBoxes, drawLanes, drawAttention, drawNetworks, drawHeads]
  if (picture.vectors) flow.push(drawTiles)
  drawTip(svg)
  for (const draw of [...flow, drawWords, drawNames, drawOutput, drawReturn]) {
    draw(svg, plan, picture) // what comes later lies above
  }
  if (!isTurned) drawLayers(svg, plan)
  return plan
}

function drawTip(svg) { // of an arrow
  const size = {markerWidth: 6, markerHeight: 6, refX: 5, refY: 3}
  const defs = drawn(svg, 'defs', {})
  const marker = drawn(defs, 'marker', {id: 'tip', orient: 'auto', ...size})
  drawn(marker, 'path', {d: 'M0,0L6,3L0,6Z', class: 'tip'})
}

export {drawPicture}
