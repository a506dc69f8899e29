// The model has learned single sentences. Several sentences at once are taken one by one.
import {state} from './store.js'

const BETWEEN = /(?<=[.!?]["”’')\]]*)\s+(?=["“‘'(]?\p{Lu})|\s*\n\s*/u
const NO_END = /(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|\p{Lu})|\d)\.$/u // this point ends no sentence

// Longer than any sentence that the models have read; what follows would only be waited for
const MAX_SENTENCE = 300 // characters

function withinLimit(text) { // whole words, where there are any
  const characters = [...text]
  if (characters.length <= MAX_SENTENCE) return text
  const start = characters.slice(0, MAX_SENTENCE).join(''), end = start.lastIndexOf(' ')
  return end > start.length / 2 ? start.slice(0, end) : start
}

const splitSentences = text => wholeSentences(text).map(withinLimit)
const isTooLong = text => wholeSentences(text).some(x => [...x].length > MAX_SENTENCE)

function wholeSentences(text) {
  const sentences = []
  for (const part of text.trim().split(BETWEEN)) {
    if (!part.trim()) continue
    const last = sentences.at(-1)
    if (last && NO_END.test(last)) sentences[sentences.length - 1] = `${last} ${part}`
    else sentences.push(part)
  }
  return sentences
}

// The one that is shown, without spaces at its ends: they are tokens to the model, which
// has read no sentence with one, but one types them without a thought
function sentence() {
  const sentences = splitSentences(state.text)
  if (sentences.length < 2) return withinLimit(state.text.trim())
  return sentences[state.nth] ?? sentences.at(-1)
}

// Which sentence a place in the text belongs to
function sentenceAt(text, place) {
  const before = splitSentences(text.slice(0, place)).length
  return Math.max(0, before - 1)
}

export {MAX_SENTENCE, isTooLong, splitSentences, sentence, sentenceAt}
