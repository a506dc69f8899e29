// The model has learned single sentences. Several sentences at once are taken one by one.
import {state} from './store.js'

const BETWEEN = /(?<=[.!?]["”’')\]]*)\s+(?=["“‘'(]?\p{Lu})|\s*\n\s*/u
const NO_END = /(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|\p{Lu})|\d)\.$/u // this point ends no sentence

function splitSentences(text) {
  const sentences = []
  for (const part of text.split(BETWEEN)) {
    if (!part.trim()) continue
    const last = sentences.at(-1)
    if (last && NO_END.test(last)) sentences[sentences.length - 1] = `${last} ${part}`
    else sentences.push(part)
  }
  return sentences
}

function sentence() { // the one that is shown
  const sentences = splitSentences(state.text)
  if (sentences.length < 2) return state.text
  return sentences[state.nth] ?? sentences.at(-1)
}

// Which sentence a place in the text belongs to
function sentenceAt(text, place) {
  const before = splitSentences(text.slice(0, place)).length
  return Math.max(0, before - 1)
}

export {splitSentences, sentence, sentenceAt}
