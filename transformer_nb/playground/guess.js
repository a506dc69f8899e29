// Where a translation is a guess, the page says so. The model does not know what it does
// not know, but it gives its own tokens less probability there. The bounds were chosen on
// sentences made for it (tests/test_guess.py).
import {DOUBTFUL, NONSENSE} from './shared.js'
import {percent} from './words.js'
import {now, model} from './store.js'

const UNLIKELY = 0.3                   // probability of a token that is marked
const RARE = 3                         // pieces of a word that the vocabulary hardly knows

function levelOfDoubt(logProb, n) { // of all n tokens -> '', 'doubtful' or 'nonsense'
  const mean = logProb / n
  if (mean < NONSENSE) return 'nonsense'
  return mean < DOUBTFUL ? 'doubtful' : ''
}

function doubtInWords(logProb, n, what = 'This') { // -> a sentence, or nothing
  const level = levelOfDoubt(logProb, n), share = percent(Math.exp(logProb / n))
  if (!level) return ''
  const start = level === 'nonsense' ? 'probably nonsense' : 'doubtful'
  return `${what} is ${start}: the model gave its own tokens only ${share} each, `
    + 'on average.'
}

function doubt({written, ids, force, off}, what) { // of a scene -> sentences, or nothing
  const says = doubtInWords(written.log_prob, ids.length, what)
  if (!says || off.length || force.length) return '' // a broken model is not to blame
  const knows = model().read ? ` It has read nothing but ${model().read}.` : ''
  return says + knows + rareWords()
}

function rareWords() {
  const words = wordsOf(now.scene.src).filter(word => word.n >= RARE)
  if (!words.length) return ''
  const texts = [...new Set(words.map(word => `“${word.text}”`))].slice(0, 3).join(', ')
  return ` It hardly knows ${texts}.`
}

// Tokens -> words {text, first, n}: the place of the first token, and how many there are
function wordsOf(tokens) {
  const words = []
  tokens.forEach((piece, i) => {
    const text = plainText(piece), last = words.at(-1)
    const isLetter = Boolean(piece.byte) || /^ ?[\p{L}\p{N}]/u.test(text)
    const goesOn = isLetter && !text.startsWith(' ') && last?.isLetter
    if (goesOn) Object.assign(last, {text: last.text + text, n: last.n + 1})
    else words.push({text: text.trim(), first: i, n: 1, isLetter})
  })
  return words
}

function plainText({text, byte}) { // a character stands where the first of its bytes does
  if (!byte) return text
  const [n, , character] = byte
  return n === 1 ? character : ''
}

function unlikelyTokens({seen, off}) { // their places in the translation
  if (off.length) return []
  const places = [...seen.token_log_probs.keys()]
  return places.filter(i => Math.exp(seen.token_log_probs[i]) < UNLIKELY)
}

// Little words of each language, by which one sees that the other one was typed
const LITTLE = {
  en: 'the|and|is|are|i|you|of|to|that|this|it|my|your|not|she|he|we|do|does|what|please',
  de: 'der|das|und|ist|ich|du|nicht|ein|eine|einen|mein|dein|wir|sie|zu|möchte|wie|bitte'}

function isInTarget(text, {src, tgt}) { // codes of languages; false where in doubt
  if (!LITTLE[src] || !LITTLE[tgt]) return false
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? []
  const known = code => words.filter(word => LITTLE[code].split('|').includes(word)).length
  return known(tgt) > known(src)
}

export {levelOfDoubt, doubtInWords, doubt, isInTarget, wordsOf, unlikelyTokens}
