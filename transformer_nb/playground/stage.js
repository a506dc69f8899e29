// The stage, above all views: sentence, translation, notes, and what is switched off
import {$, el, make, attributes, style, enable, write, writeMixed, keep} from './dom.js'
import {fixed, percent, likelier, isSpecial, beginsWord, label, marked} from './words.js'
import {state, now, past, languages, draw, update, pinIt} from './store.js'
import {nameOf} from './parts.js'
import {sentence, isKept} from './sentences.js'
import {allSentences} from './scene.js'
import {unlikelyTokens} from './guess.js'
import {glosses} from './gloss.js'
import {isShuffled, drawExperiments} from './experiments.js'
import {notes, drawFieldNote} from './notes.js'
import {drawLines} from './lines.js'
import {drawBack} from './back.js'

function drawStage() {
  const {scene} = now
  $('stage').classList.toggle('busy', now.busy)
  if (scene || isReady()) drawTokens(scene) // until then those of the page stay
  const words = glosses()
  if (scene) markTokens(scene, words)
  $('tgt').classList.toggle('plain', Boolean(scene?.isLong)) // without words below
  $('gloss-note').hidden = !words.some(Boolean)
  $('gloss-note').classList.toggle('away', state.view === 'looked') // arcs go there
  attributes($('tgt'), {'aria-label': `Translation: ${givenText()}`})
  drawSentences()
  drawBack()
  drawExperiments()
  write($('status'), now.trouble ? `No translation: ${now.trouble}.` : status())
  $('again').hidden = !now.trouble
  $('units').hidden = !scene || state.view === 'type' && !state.off.length
  write($('log-p'), scene ? fixed(scene.written.log_prob) : '')
  const list = notes()
  keep($('notes'), list, make('li'), write)
  now.warnings = [...drawFieldNote(), ...list]
  drawBanner()
  drawLines()
}

const isReady = () => document.body.classList.contains('ready')

function drawTokens(scene) {
  drawChips($('src'), scene?.src ?? [], 's')
  drawChips($('tgt'), scene?.tgt ?? [], 't')
}

function newChip() {
  const props = {type: 'button', className: 'chip'}
  return el('button', props, el('span'), el('small'))
}

function drawChips(box, pieces, side) {
  keep(box, pieces, newChip, (node, piece, i) => {
    const at = side + i
    write(node.firstChild, label(piece, 0))
    node.dataset.at = at
    node.className = 'chip'
    node.classList.toggle('end', beginsWord(pieces[i + 1]))
    node.classList.toggle('special', isSpecial(piece))
    node.classList.toggle('near', state.hover === at)
    attributes(node, {'aria-pressed': state.pin === at})
    node.title = whole(piece)
    style(node, {'--w': 0})
  })
}

function whole(piece) {
  if (isSpecial(piece)) return `${piece.text}, which ends a sentence`
  if (!piece.byte) return label(piece, 0)
  const [n, of, character] = piece.byte
  return `byte ${n} of ${of} of ${character}`
}

// Of the translation: what is fixed, new or unlikely, and the word that was looked at most
function markTokens(scene, words) {
  const {src} = languages(), unlikely = new Set(unlikelyTokens(scene))
  const changed = new Set(changedTokens(scene))
  for (const [i, node] of [...$('tgt').children].entries()) {
    const isForced = i < scene.force.length
    node.classList.toggle('forced', isForced)
    node.classList.toggle('changed', changed.has(i))
    node.classList.toggle('unlikely', unlikely.has(i))
    write(node.lastChild, words[i] ?? '')
    node.lastChild.lang = src
    const share = percent(Math.exp(scene.seen.token_log_probs[i]))
    node.title += `, ${share}${isForced ? ', fixed' : ''}`
    if (words[i]) node.title += `; it looked at “${words[i]}” most`
  }
}

function changedTokens({intact, ids, off}) { // places of those that the intact model lacks
  if (!off.length) return []
  let place = 0
  return marked(intact.ids, ids).flatMap(({sign}) => {
    if (sign === '−') return []
    const i = place++
    return sign === '+' ? [i] : []
  })
}

// Several sentences: which one is shown, and the translations of all

function drawSentences() {
  const sentences = allSentences(), shown = sentence(), {tgt} = languages()
  $('sentences').hidden = $('sentences-note').hidden = !sentences.length
  keep($('sentences'), sentences, newSentence, (node, {text, translation}, i) => {
    const [source, target] = node.children
    write(source, text)
    write(target, translation)
    target.lang = tgt
    attributes(node, {'aria-pressed': text === shown})
    node.onclick = () => update({nth: i})
  })
}

const newSentence = () => el('button', {type: 'button', className: 'sentence'},
  el('span'), el('strong'))

function status() {
  if (!now.scene) return ''
  const {written: {log_prob}, ids, isCut} = now.scene
  const share = percent(Math.exp(log_prob / ids.length))
  const stop = isCut ? ` · stopped after ${ids.length} tokens` : ''
  return `The model’s own confidence: ${share} per token${stop}`
}

function drawBanner() {
  const {off, force} = state, {scene} = now, texts = []
  if (off.length) texts.push(`${off.length} off: ${off.map(nameOf).join(', ')}`)
  if (isShuffled()) texts.push('the words are shuffled')
  if (force.length === 1) texts.push('the first token is fixed')
  if (force.length > 1) texts.push(`the first ${force.length} tokens are fixed`)
  const old = off.length && scene?.off.length ? scene.intact.text : '', bar = $('banner')
  const isSame = old === scene?.written.text
  if (old && isSame) texts.push('the translation is unchanged')
  if (old) texts.push(`old text: log p ${fixed(scene.intact.log_prob)} → `
    + fixed(scene.old.log_prob))
  $('banner-old').hidden = !old || isSame
  write($('banner-old').lastElementChild, old)
  write($('banner-text'), texts.join(' · ') || 'Nothing is switched off.')
  bar.title = [...texts, ...old && !isSame ? [`before: ${old}`] : []].join(' · ')
  bar.classList.toggle('some', texts.length > 0)
  const isInUse = texts.length > 0, isNew = bar.hidden && isInUse
  bar.hidden = !isInUse && !bar.contains(document.activeElement) // who reset may undo it
  if (isNew) document.activeElement.scrollIntoView({block: 'nearest'}) // not below it
  enable($('undo'), past.length > 0)
  enable($('reset'), texts.length > 0)
}

// What is given back for the sentence that is shown
const givenText = () => isKept() ? sentence() : now.scene?.given ?? ''

// What is read out, once the reader has stopped

const QUIET = 800 // ms
let speaking, spoken = ''
function speakSoon() { // the translation, what is new in it, and what one should know of it
  const says = [givenText(), now.scene?.key, ...now.warnings].join(' ')
  if (says === spoken) return
  spoken = says
  clearTimeout(speaking)
  speaking = setTimeout(speak, QUIET)
}

function speak() {
  const {scene} = now, [translation, change, doubts] = $('spoken').children
  write(translation, givenText())
  writeMixed(change, scene?.off.length ? spokenChange(scene) : [])
  write(doubts, now.warnings.map(note => ` ${note}`).join(''))
}

function spokenChange({written, intact, old}) {
  const row = marked(intact.text, written.text)
  const words = (name, sign) => {
    const ofSign = row.filter(x => x.sign === sign)
    const text = ofSign.map(x => x.word.trim()).join(' ')
    return text ? [` ${name}: `, [text, languages().tgt], '.'] : []
  }
  const isSame = written.text === intact.text
  const what = isSame ? [' Unchanged.'] : [...words('Lost', '−'), ...words('New', '+')]
  return [...what, ` Old text ${likelier(old.log_prob - intact.log_prob)}.`]
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
    if (at) pinIt(at === state.pin ? null : at)
  }
}

export {drawStage, speakSoon, listenToChips}
