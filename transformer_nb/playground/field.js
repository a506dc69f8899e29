// The field. What is typed is read a moment later, and in any case before an action: that
// belongs to the text in the field, and not to the one that was read last.
import {$, selectsSample} from './dom.js'
import {state, past, model, update} from './store.js'
import {sentenceAt} from './sentences.js'
import {isCurrent} from './scene.js'

const WORD = 60, PAUSE = 400 // ms without a key, after which the text is read
let typing

function readLater() { // half a word translates into nonsense: wait until it is whole
  const {value, selectionEnd} = $('text')
  const isWhole = /(^|[\s.!?])$/.test(value.slice(0, selectionEnd))
  clearTimeout(typing)
  typing = setTimeout(readText, isWhole ? WORD : PAUSE)
}

function readText() { // -> is it another one?
  const {value: text, selectionEnd} = $('text')
  clearTimeout(typing)
  if (text === state.text) return false
  const others = past.filter(before => before.text === undefined) // of this text
  past.splice(0, past.length, ...others)
  update({text, nth: sentenceAt(text, selectionEnd)})
  return true
}

// Tokens, their choices and maps stay until those of the newer sentence are here, but what is
// done to them would be done to the newer one
const OF_SCENE = '#src, #tgt, #cards, #open-cards, .map, #by-hand, #machine-steps'

function beforeAction(event) {
  const {target, type, key} = event
  if (target === $('text') && key !== 'Escape') return // it is being typed
  const isOld = readText() || !isCurrent()
  if (isOld && type !== 'keydown' && target.closest?.(OF_SCENE)) event.stopImmediatePropagation()
}

const isExample = text => model().examples?.some(example => example.text === text)

function listenToText() {
  selectsSample($('text'), isExample)
  $('text').addEventListener('compositionend', readLater) // of a character of several keys
  $('text').addEventListener('input', event => {
    if (!event.isComposing) readLater()
  })
  for (const type of ['click', 'change', 'input', 'keydown'])
    addEventListener(type, beforeAction, true)
}

export {listenToText}
