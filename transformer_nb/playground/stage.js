// The stage, above all views: sentence, translation, notes, and what is switched off
import {$, make, button, attributes, style, enable, write, keep} from './dom.js'
import {fixed, percent, likelier, isSpecial, beginsWord, label, marked} from './words.js'
import {state, now, past, draw, update} from './store.js'
import {nameOf} from './parts.js'
import {notes, fillNote} from './notes.js'
import {drawLines} from './lines.js'

function drawStage() {
  const {scene} = now
  $('stage').classList.toggle('busy', now.busy)
  drawChips($('src'), scene?.src ?? [], 's', () => '')
  drawChips($('tgt'), scene?.tgt ?? [], 't', i => `, ${probability(i)}`)
  attributes($('tgt'), {'aria-label': `Translation: ${scene?.written.text ?? ''}`})
  write($('status'), now.trouble || status())
  keep($('notes'), notes(), make('li'), fillNote)
  drawBanner()
  drawLines()
}

const probability = i => percent(Math.exp(now.scene.seen.token_log_probs[i]))

function drawChips(box, pieces, side, moreOf) {
  keep(box, pieces, button('chip'), (node, piece, i) => {
    const at = side + i, isForced = side === 't' && i < now.scene.force.length
    write(node, label(piece).replace('␣', ''))
    node.dataset.at = at
    node.className = 'chip'
    node.classList.toggle('end', beginsWord(pieces[i + 1]))
    node.classList.toggle('forced', isForced)
    node.classList.toggle('special', isSpecial(piece))
    node.classList.toggle('near', state.hover === at)
    attributes(node, {'aria-pressed': state.pin === at})
    node.title = whole(piece) + moreOf(i) + (isForced ? ', fixed' : '')
    style(node, {'--w': 0})
  })
}

function whole(piece) {
  if (!piece.byte) return label(piece)
  const [n, of, character] = piece.byte
  return `byte ${n} of ${of} of ${character}`
}

function status() {
  if (!now.scene) return ''
  const {written: {log_prob, ms}, ids} = now.scene
  const perToken = fixed(log_prob / ids.length)
  return `log p ${fixed(log_prob)}, per token ${perToken} · in ${Math.round(ms)} ms`
}

function drawBanner() {
  const {off, force} = state, {scene} = now, texts = []
  if (off.length) texts.push(`${off.length} off: ${off.map(nameOf).join(', ')}`)
  if (off.length && scene?.off.length) {
    const {intact, old} = scene
    texts.push(`old text: log p ${fixed(intact.log_prob)} → ${fixed(old.log_prob)}`)
  }
  if (force.length === 1) texts.push('the first token is fixed')
  if (force.length > 1) texts.push(`the first ${force.length} tokens are fixed`)
  write($('banner-text'), texts.join(' · ') || 'Nothing is switched off.')
  $('banner').classList.toggle('some', texts.length > 0)
  enable($('undo'), past.length > 0)
  enable($('reset'), texts.length > 0)
}

// What is read out, once the reader has stopped

const QUIET = 800 // ms
let speaking, spokenScene = null
function speakSoon() {
  if (now.scene === spokenScene) return
  spokenScene = now.scene
  clearTimeout(speaking)
  speaking = setTimeout(speak, QUIET)
}

function speak() {
  if (!now.scene) return
  const {written, off} = now.scene, [translation, change] = $('spoken').children
  translation.textContent = written.text
  change.textContent = off.length ? spokenChange(now.scene) : ''
}

function spokenChange({written, intact, old}) {
  const row = marked(intact.text, written.text)
  const words = (name, sign) => {
    const ofSign = row.filter(x => x.sign === sign)
    const text = ofSign.map(x => x.word.trim()).join(' ')
    return text && ` ${name}: ${text}.`
  }
  const isSame = written.text === intact.text
  const what = isSame ? ' Unchanged.' : words('Lost', '−') + words('New', '+')
  return `${what} Old text ${likelier(old.log_prob - intact.log_prob)}.`
}

// Chips are pointed at, and pinned

function listenToChips(box) {
  const chipOf = event => event.target.closest('.chip')?.dataset.at ?? null
  const hover = at => {
    if (at === state.hover) return
    state.hover = at
    draw()
  }
  box.onpointerover = event => {
    if (event.pointerType === 'mouse') hover(chipOf(event))
  }
  box.onpointerleave = () => hover(null)
  box.addEventListener('focusin', event => {
    if (event.target.matches(':focus-visible')) hover(chipOf(event))
  })
  box.addEventListener('focusout', () => hover(null))
  box.onclick = event => {
    const at = chipOf(event)
    if (at) update({pin: at === state.pin ? null : at})
  }
}

export {drawStage, speakSoon, listenToChips}
