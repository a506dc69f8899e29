// The model has learned single sentences, written as in its corpus: several sentences at
// once are taken one by one, and what is typed otherwise is read as what it means
import {state, model} from './store.js'
import {exactly} from './reading.js'

// Longer than any sentence that the models have read; what follows would only be waited for
const MAX_SENTENCE = 300 // characters

function withinLimit(text) { // whole words, where there are any
  const characters = [...text]
  if (characters.length <= MAX_SENTENCE) return text
  const start = characters.slice(0, MAX_SENTENCE).join(''), end = start.lastIndexOf(' ')
  return end > start.length / 2 ? start.slice(0, end) : start
}

function wholeParagraphs(text) { // lists of sentences
  const {reader} = model()
  return reader.paragraphs(text, state.exact).map(paragraph => reader.split(paragraph))
}

const paragraphsOf = text => wholeParagraphs(text).map(list => list.map(withinLimit))
const sentencesOf = text => paragraphsOf(text).flat()
const isTooLong = text => wholeParagraphs(text).flat().some(x => withinLimit(x) !== x)

// The one that is shown, as it was typed
function sentence() {
  const sentences = sentencesOf(state.text)
  return sentences[state.nth] ?? sentences.at(-1) ?? ''
}

// What the model reads of it, and what its translation gets back
const reading = typed => state.exact ? exactly(typed) : model().reader.read(typed)

const isKept = () => Boolean(sentence()) && !reading(sentence()).read // as it is

// Which sentence a place in the text belongs to
function sentenceAt(text, place) {
  const before = sentencesOf(text.slice(0, place)).length
  return Math.max(0, before - 1)
}

export {MAX_SENTENCE, isTooLong, paragraphsOf, sentencesOf, sentence, reading, isKept,
        sentenceAt}
