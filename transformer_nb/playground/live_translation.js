// Chapter 00: a sentence, its translation, and where each token of it looked
import {el, write, shape} from './dom.js'
import {sum, range, isSpecial, label, percent} from './words.js'
import {doubtInWords, isInTarget} from './guess.js'
import {finish} from './reading.js'
import {presets, textField, caption} from './live_parts.js'
import {tokenRow, fit, drawLines} from './live_tokens.js'
import {readFirst, doubts, asker, onItsWay} from './live_model.js'

const MODEL = 'everyday'
const EXAMPLES = tnb.examples

// Row i of the cross-attention of the last layer, the mean over its heads (as the figure)
function lookedAt({maps}, i) {
  const heads = maps.cross.at(-1), [{cols}] = heads
  const total = j => sum(heads.map(({data}) => data[i * cols + j]))
  return range(cols).map(j => total(j) / heads.length)
}

// The token that looked mostly at a word, the further back the better: a line that crosses
// the others says more than one that leads straight up
function firstPick(found) {
  const isLong = ({text}) => text.trim().length > 3 && text.startsWith(' ')
  const value = i => lookedAt(found, i).map((weight, j) => isLong(found.src[j])
    ? weight + (weight >= 0.5 ? 2 + i - j : 0) : 0)
  const best = found.tgt.map((_, i) => Math.max(...value(i)))
  return best.indexOf(Math.max(...best))
}

function inWords(found, i, weights, isAsked) {
  const name = (pieces, j) => isSpecial(pieces[j]) ? 'the end of the sentence'
    : `“${label(pieces[j], j)}”`
  const order = range(weights.length).sort((a, b) => weights[b] - weights[a])
  const [first, second] = order.map(j => `${name(found.src, j)} (${percent(weights[j])})`)
  const [best, next] = found.alternatives[i], isBest = best.id === found.tgt[i].id
  const {text, prob} = isBest ? next : best, rival = `“${text.trim()}”`
  const chances = isBest
    ? `Its probability was ${percent(best.prob)}; ${rival} had ${percent(prob)}.`
    : `By itself ${rival} was likelier (${percent(prob)}), but not the sentence as a whole.`
  return `To write ${name(found.tgt, i)}, the model looked most at ${first}, then at `
    + `${second}.${isAsked ? ` ${chances}` : ''}`
}

// What one should know first: it reads one sentence, as what it means, and may be wrong
function warnings({text, log_prob, tgt, isFirst, isCut, reading}) {
  const {typed, read} = reading, differ = doubts(MODEL, typed, text)
  const isGerman = isInTarget(typed, {src: 'en', tgt: 'de'})
  return [isFirst && 'Only the first sentence is translated here.',
          isGerman && 'This looks like German, but the model reads English.',
          read !== typed && `Read as “${read}”`,
          isCut && 'The translation was cut at its limit.',
          ...differ.map(says => `Beware: ${says}.`),
          !isGerman && doubtInWords(log_prob, tgt.length, 'The German')].filter(Boolean)
}

function inAll({found, pin, isAsked}, weights) {
  return [...warnings(found), inWords(found, pin, weights, isAsked)].join(' ')
}

function nothing({reading: {typed}}) { // why there is no German
  if (!typed) return 'Type a sentence, or choose an example.'
  return `Nothing to translate: ${typed} comes back as it is.`
}

// On the first page the end of a sentence is no token that is shown
const shown = ({isHome}, pieces) => isHome ? pieces.filter(x => !isSpecial(x)) : pieces

function drawAll(state, {whole, src, tgt, lines, says}) {
  const {found, pin} = state, isHere = found.tgt.length > 0
  fillWhole(whole, isHere ? found.text : nothing(found), isHere)
  const weights = isHere ? lookedAt(found, pin) : []
  src.draw(shown(state, found.src), undefined, weights)
  tgt.draw(shown(state, found.tgt), pin)
  fit([src.node, tgt.node])
  drawLines(lines, tgt.node.children[pin], src.node.children, weights)
  says.tell(isHere ? inAll(state, weights) : '')
}

function fillWhole(whole, text, isGerman) { // as a sentence, not in pieces
  write(whole, text)
  whole.lang = isGerman ? 'de' : 'en'
  whole.closest('.live')?.classList.remove('live-old')
}

async function lookUp(request, text) {
  const {reading, isFirst} = readFirst(MODEL, text)
  const found = {reading, isFirst}
  const answer = await request('translate', {text})
  if (!answer.ids.length) return {...found, src: [], tgt: [], text: reading.typed}
  const {ids, isCut} = answer, inside = await request('inspect', {text, ids})
  const whole = finish(reading, answer.text)
  return {...inside, ...found, isCut, text: whole}
}

// What stands here before the model does: its first example may have come with the page
function whatIsThere(stage) {
  const {value, selectionEnd} = stage.querySelector('input') ?? {value: EXAMPLES[0]}
  const isTyping = stage.contains(document.activeElement)
  return {first: value, ready: stage.querySelector('.ready'),
          said: stage.querySelector('.live-says')?.textContent ?? '',
          german: stage.querySelector('.live-whole')?.textContent ?? '',
          place: isTyping ? selectionEnd : undefined}
}

function goOnTyping(input, place) {
  if (place === undefined) return
  input.focus()
  input.setSelectionRange(place, place)
}

// Links of this page to the page that has all views bring the sentence that stands here
function lead(text) {
  const ways = ['looked', 'tour'].map(view => `a[href*="translate_here.html#${view}"]`)
  for (const link of document.querySelectorAll(ways.join())) {
    const [page] = link.href.split('?')
    link.href = `${page}?t=${encodeURIComponent(text)}`
  }
}

async function translation(stage) {
  const {first, ready, said, german, place} = whatIsThere(stage)
  const says = caption(), isHome = Boolean(stage.closest('.home'))
  const state = {found: null, pin: 0, isAsked: false, isHome}
  const clear = (text, below) => { // what is there of another sentence
    state.found = null
    for (const row of [src, tgt]) row.draw([])
    lines.replaceChildren()
    ready?.replaceWith(sides)
    fillWhole(whole, text)
    says.tell(below)
  }
  const ask = asker(MODEL, stage, message => clear('', `No translation: ${message}.`))
  const lines = shape('svg', {class: 'live-lines', 'aria-hidden': true})
  const src = tokenRow('Tokens of the sentence', 'en')
  const tgt = tokenRow('Translation', 'de', pin => {
    Object.assign(state, {pin, isAsked: true})
    draw()
  })
  const whole = el('p', {className: 'live-whole', lang: 'de', textContent: german})
  const draw = () => {
    if (!state.found) return
    ready?.replaceWith(sides)
    drawAll(state, {whole, src, tgt, lines, says})
  }
  const look = async typed => {
    lead(typed)
    const found = await ask(request => lookUp(request, typed))
    if (!found) return
    Object.assign(state, {found, pin: found.tgt.length ? firstPick(found) : 0})
    draw()
  }
  const field = textField('English', {value: first, lang: 'en'}, look)
  const waits = () => state.found || clear('Loading the model…', onItsWay(MODEL))
  field.input.addEventListener('input', () => {
    lead(field.input.value)
    waits()
  })
  const examples = presets('Examples', EXAMPLES.map(text => [text, () => field.set(text)]))
  const sides = el('div', {className: 'live-sides'}, lines, src.node, tgt.node)
  says.tell([said, onItsWay(MODEL)].filter(Boolean).join(' '))
  stage.replaceChildren(field.node, whole, examples, ready ?? sides, says.node)
  if (first !== EXAMPLES[0]) waits()
  goOnTyping(field.input, place)
  new ResizeObserver(draw).observe(sides)
  await look(first)
}

export {translation}
