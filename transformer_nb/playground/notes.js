// What the reader should know about the sentence: notes under the translation
import {$, el, attributes, write} from './dom.js'
import {state, now, model, languages, update, change} from './store.js'
import {KINDS, OTHERS, NOTHING, headsOf, nameOf} from './parts.js'
import {ask} from './answers.js'
import {MAX_DRAWN} from './scene.js'
import {MAX_LENGTH} from './address.js'
import {levelOfDoubt, doubt, asSentence, isInTarget, isSmall} from './guess.js'
import {MAX_SENTENCE, isTooLong, splitSentences, sentence} from './sentences.js'
import {experimentOf, isShuffled} from './experiments.js'

function notes() { // strings, an example to try, another way to write the sentence
  const list = [now.wrong]
  if (now.foreign) {
    list.push('This link was made with another model: nothing is switched off.')
  }
  if (state.text.length >= MAX_LENGTH) {
    list.push(`The field holds no more than ${MAX_LENGTH} characters.`)
  }
  if (isTooLong(state.text)) {
    list.push(`Of a sentence, the first ${MAX_SENTENCE} characters are translated here.`)
  }
  if (now.scene && !isShuffled()) list.push(...whetherToTrust(now.scene))
  if (now.scene) list.push(...limits(now.scene), isOddlyTyped(), thingToTry())
  return list.filter(Boolean)
}

function whetherToTrust(scene) {
  if (!isInTarget(scene.text, languages())) return [doubt(scene, subject()), waysToWrite()]
  const {src, tgt} = model(), turn = $('turn')
  const how = turn.hidden ? '' : ` The button ${turn.textContent} turns round.`
  return [`This looks like ${tgt}, but the model reads ${src}.${how}`]
}

function subject() { // what a note speaks of
  const sentences = splitSentences(state.text), {text} = now.scene
  return sentences.length < 2 ? 'This' : `Sentence ${sentences.indexOf(text) + 1}`
}

function bytes(src) {
  const [, n, character] = src.find(({byte}) => byte)?.byte ?? []
  return n && `“${character}” is no token that it has, and is read as its ${n} bytes.`
}

function limits({src, read, isLong, isCut, ids}) {
  return [
    bytes(src),
    read.cut && `Too long: only the first ${read.read} tokens are read.`,
    isLong && `More than ${MAX_DRAWN} tokens: no maps, no words below the tokens, and `
      + 'nothing to see in Inside.',
    isCut && `Stopped after ${ids.length} tokens, the most that are written here: the `
      + 'model found no end.']
}

function isOddlyTyped() { // so that the tokens are others
  const {text, read} = now.scene
  const plain = text.normalize('NFC').replace(/[’‘]/g, '\'').replace(/[“”]/g, '"')
  const other = plain !== text && ask('tokenize', {model: state.model, text: plain})
  if (!other || String(other.ids) === String(read.ids)) return
  return 'Curly quotes or combining accents change the tokens: typed plainly, this text '
    + 'would be split differently.'
}

function waysToWrite() { // what may be wrong only because of capitals or a mark
  const text = now.scene.text, better = asSentence(text)
  const mayBeWrong = isSmall(text) || doubt(now.scene)
  if (!mayBeWrong || !model().read || better === text || !isTrusted(better)) return
  return {better, whole: state.text.replace(text, better)}
}

function isTrusted(text) { // as far as it is translated already
  const {model, beam, alpha} = state
  const args = {model, text, beam_size: beam, alpha, prefix: [], broken: NOTHING}
  const answer = ask('translate', args)
  return answer && !levelOfDoubt(answer.log_prob, answer.ids.length)
}

function thingToTry() { // it stays while it is tried
  const example = model().examples?.find(example => example.text === sentence())
  if (!example?.off?.length || state.force.length) return
  const isOtherOff = state.off.length && !isTried(example)
  return isOtherOff ? undefined : example
}

const isTried = ({off}) => String(off) === String(state.off)

function fillNote(node, note) {
  const key = JSON.stringify(note)
  if (node.note !== key) fillAnew(node, note) // else the button in it keeps the focus
  node.note = key
  if (note.off) attributes(node.querySelector('button'), {'aria-pressed': isTried(note)})
}

function fillAnew(node, note) {
  if (typeof note === 'string') return write(node, note)
  if (note.better) return fillBetter(node, note)
  const onclick = () => change({off: isTried(note) ? [] : note.off})
  const off = el('button', {type: 'button', onclick}, nameOfTrial(note.off))
  node.replaceChildren('Try: ', off, note.then ? ` and see: ${note.then}` : '')
}

function fillBetter(node, {better, whole}) {
  const onclick = () => {
    update({text: whole, force: []})
    $('text').focus()
  }
  node.replaceChildren('The sentences that it has read are written otherwise. Try: ',
    el('button', {type: 'button', onclick}, better))
}

function nameOfTrial(off) {
  const experiment = experimentOf(off), [first] = off
  if (experiment) return experiment.name
  const isHead = off.length === 1 && first.split('.').length === 3
  if (!isHead) return `Switch off ${off.map(x => OTHERS[x]?.[1] ?? nameOf(x)).join(', ')}`
  return `Switch off one of ${KINDS.flatMap(headsOf).length} heads, ${nameOf(first)}`
}

export {notes, fillNote}
