// Machine: the whole model in one picture, with the numbers of the sentence that is shown
import {$, phone, button, attributes, style, enable, write, writeMixed, keep,
        player} from './dom.js'
import {percent, label, isSpecial} from './words.js'
import {state, now, languages, pointed, pinIt, draw} from './store.js'
import {meanWeights, translationArgs} from './scene.js'
import {ask} from './answers.js'
import {placeOf} from './plan.js'
import {isBoxOff, headsOn} from './machine_flow.js'
import {NAMES, textOf} from './machine_words.js'
import {drawPicture} from './machine.js'
import {openBox, closeBox, drawOpen} from './machine_open.js'

let last = 0 // the token that was written when one of the sentence was pinned

// The token that is written: the one that is pointed at, else the one that is pinned
function placeWritten() {
  const token = [state.hover, state.pin].find(at => at?.startsWith('t'))
  const place = token ? Number(token.slice(1)) : pointed() ? last : 0
  last = Math.min(place, now.scene.tgt.length - 1)
  return last
}

function placeNear() { // of a token of the sentence that is pointed at or pinned
  const [side, ...digits] = pointed() ?? ''
  return side === 's' ? Number(digits.join('')) : null
}

function drawMachine() {
  const {scene} = now, isDrawn = Boolean(scene) && !scene.isLong
  $('machine').hidden = $('machine-steps').hidden = !isDrawn
  if (!isDrawn) return
  const at = placeWritten(), picture = {scene, at, near: placeNear()}
  const plan = drawOnce({...picture, vectors: ask('vectors', translationArgs())})
  drawButtons(plan, picture)
  drawStepper(at, scene.tgt)
  writeMixed($('machine-says'), summary(picture))
  drawOpen(plan, at)
}

function drawOnce(picture) { // -> its plan
  const svg = $('machine-picture'), width = $('machine').clientWidth
  const {scene, at, near, vectors} = picture
  const colors = getComputedStyle(svg).getPropertyValue('color')
  const key = JSON.stringify([scene.key, at, near, Boolean(vectors), width, colors])
  const page = {width, isTurned: phone.matches}
  if (svg.drawn !== key) svg.plan = drawPicture(svg, picture, page)
  svg.drawn = key
  return svg.plan
}

// Buttons lie over the boxes, so that these are found by keys and by ear

function drawButtons(plan, picture) {
  keep($('machine-boxes'), plan.parts, button('part'), (node, box) => {
    const place = Object.entries(placeOf(box, plan)), isOpen = state.box === box.key
    const says = spoken(box, picture)
    style(node, Object.fromEntries(place.map(([name, n]) => [name, `${n}px`])))
    attributes(node, {'aria-label': says, 'aria-expanded': isOpen,
                      'aria-controls': 'machine-open'})
    node.title = says
    node.dataset.box = box.key
    node.onclick = () => isOpen ? closeBox() : openBox(box.key)
  })
}

const OF = {encoder: 'of the sentence', decoder: 'of the translation'}

function spoken(box, picture) {
  const {kind, stack, layer} = box
  if (kind === 'output') return 'next token: the likeliest, and the one that is written'
  if (kind === 'memory') return 'memory of the sentence'
  const place = layer ? `, ${stack} layer ${layer}` : ` ${OF[stack]}`
  return NAMES[kind] + place + whereItLooks(box, picture)
}

function whereItLooks(box, {scene, at}) { // of the token that is written
  if (!box.isAttention) return ''
  if (isBoxOff(box, scene.off)) return ', switched off'
  if (box.kind === 'encoder') return ''
  const [text, share] = mostLooked(box, scene, at)
  return `: most at “${text}”, ${share}`
}

function mostLooked({kind, layer}, scene, at) { // in the mean of the heads that are on
  const weights = meanWeights(headsOn({kind, layer}, scene.off), at)
  const most = Math.max(...weights), i = weights.indexOf(most)
  const piece = kind === 'cross' ? scene.src[i] : scene.tgt[i - 1]
  const text = piece ? label(piece, i) : 'start'
  return [text, percent(most)]
}

// What the picture shows, in words

function summary({scene, at}) {
  const {src, tgt} = languages(), {length} = scene.tgt
  const read = textOf(scene.tgt.slice(0, at)).trim()
  const name = isSpecial(scene.tgt[at]) ? 'the end' : label(scene.tgt[at], at)
  const share = percent(Math.exp(scene.seen.token_log_probs[at]))
  const layers = scene.seen.maps.cross.length, layer = Math.max(1, layers - 1)
  const cross = {kind: 'cross', layer, isAttention: true}
  const blind = ` In layer ${layer} it cannot see the sentence: cross-attention is off.`
  const looks = isBoxOff(cross, scene.off) ? [blind]
    : crossSays(mostLooked(cross, scene, at), layer, src)
  const before = read ? ['After “', [read, tgt], '”'] : ['At the start']
  return [`Token ${at + 1} of ${length}. `, ...before, ' it writes “', [name, tgt],
          `” with a probability of ${share}.`, ...looks]
}

const crossSays = ([text, share], layer, lang) =>
  [` In layer ${layer} it looks most at “`, [text, lang], `” (${share}).`]

// From token to token

function drawStepper(at, tgt) {
  const n = tgt.length
  Object.assign($('machine-step'), {max: n, value: at + 1})
  enable($('machine-back'), at > 0)
  enable($('machine-forth'), at < n - 1)
  write($('machine-step-name'), `token ${at + 1} of ${n}`)
}

const TEMPO = 1200 // ms for a token
const isAtEnd = () => last >= now.scene.tgt.length - 1

function step() {
  if (!now.scene || state.view !== 'machine') return false
  go(1)
  return !isAtEnd()
}

function begin() {
  if (isAtEnd()) go(-last)
  if (phone.matches) $('machine-says').scrollIntoView({block: 'end'}) // it changes there
}

function go(by) {
  const at = last + by
  if (at in now.scene.tgt) pinIt(`t${at}`, {hover: null})
}

function listenToMachine() {
  $('machine-step').oninput = () => go(Number($('machine-step').value) - 1 - last)
  $('machine-back').onclick = () => go(-1)
  $('machine-forth').onclick = () => go(1)
  player($('machine-play'), TEMPO, step, begin)
  $('panel-machine').onclick = ({target}) => { // a name opens its box, a word is followed,
    const {names, at} = target.dataset         // and a click beside a box closes it
    if (names) openBox(names)
    else if (at) pinIt(at)
    else if (state.box && !target.closest('#machine-open, #machine-steps, button')) closeBox()
  }
  $('machine-scroll').onscroll = () => state.box && draw()
}

export {drawMachine, listenToMachine}
