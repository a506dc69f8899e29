// What the reader should know about the sentence: notes under the translation
import {$, el, write} from './dom.js'
import {state, now, model, change} from './store.js'
import {nameOf} from './parts.js'
import {ask} from './answers.js'
import {MAX_DRAWN} from './scene.js'
import {MAX_LENGTH} from './address.js'

const EOS = 2
const UNSURE = -0.7 // nats per token: translations of captions lie above

function notes() { // strings, and an example that has something to switch off
  const list = [now.wrong]
  if (now.foreign) {
    list.push('This link was made with another model: nothing is switched off.')
  }
  if (state.text.length >= MAX_LENGTH) {
    list.push(`The field holds no more than ${MAX_LENGTH} characters.`)
  }
  if (now.scene) list.push(isGuess(), ...limits(now.scene), isOddlyTyped(), thingToTry())
  return list.filter(Boolean)
}

function isGuess() {
  const {written, ids} = now.scene
  if (written.log_prob / ids.length >= UNSURE) return
  return model().captions_only
    ? 'This is a guess: the model has learned only from photo captions.'
    : 'This is a guess: the model is unsure of this translation.'
}

function limits({read, isLong, ids}) {
  return [
    read.cut && `Too long: only the first ${read.read} tokens are read.`,
    isLong && `More than ${MAX_DRAWN} tokens: no maps, and nothing to see in Inside.`,
    ids.at(-1) !== EOS && 'Cut off: the translation reached its maximum length.']
}

function isOddlyTyped() { // so that the tokens are others
  const {text, read} = now.scene
  const plain = text.normalize('NFC').replace(/[’‘]/g, '\'').replace(/[“”]/g, '"')
  const other = plain !== text && ask('tokenize', {model: state.model, text: plain})
  if (!other || String(other.ids) === String(read.ids)) return
  return 'Curly quotes or combining accents change the tokens: typed plainly, this text '
    + 'would be split differently.'
}

function thingToTry() {
  if (state.off.length) return
  const example = model().examples?.find(example => example.text === state.text)
  return example?.off?.length ? example : undefined
}

function fillNote(node, note) {
  if (node.note === note) return // the button in it keeps the focus
  node.note = note
  if (typeof note === 'string') return write(node, note)
  const onclick = () => {
    change({off: note.off})
    $('undo').focus() // the button goes
  }
  const name = `Switch off ${note.off.map(nameOf).join(', ')}`
  const off = el('button', {type: 'button', onclick}, name)
  node.replaceChildren('Try: ', off, note.then ? ` and see: ${note.then}` : '')
}

export {notes, fillNote}
