// The scene: everything that belongs to one translation. Until all of it is here, the last
// scene stays.
import {state, now} from './store.js'
import {NOTHING, toBroken} from './parts.js'
import {queue, shown, ask, answerTo} from './answers.js'
import {sum, range, isSpecial} from './words.js'
import {paragraphsOf, sentencesOf, sentence, reading, isKept} from './sentences.js'
import {finish} from './reading.js'

const MAX_DRAWN = 60 // tokens: the maps of longer sentences would be a blur

const NO_SCENE = {scene: null, busy: false, trouble: ''}

function lookAtScene() {
  if (now.scene && now.scene.model !== state.model) forget()
  if (!sentence() || isKept()) return Object.assign(now, NO_SCENE)
  const scene = newScene()
  now.busy = queue.wanted.length > 0
  now.trouble = queue.trouble
  if (now.trouble) now.scene = null // which is of another text
  if (!scene || now.scene?.key === scene.key) return
  now.scene = scene
  dropLostTokens()
}

// Is the scene that is seen of the sentence that is asked for, read as it is asked for?
function isCurrent() {
  const typed = sentence(), {model, reading: read} = now.scene ?? {}
  return model === state.model && read.typed === typed && read.read === reading(typed).read
}

// All that is typed: {text, translation, isCut}; the translation is '' until it is here
function allSentences() {
  const sentences = sentencesOf(state.text)
  return sentences.length < 2 ? [] : sentences.map(text => {
    return {text, ...translationOf(text)}
  })
}

function translationOf(typed) {
  const {model, beam, alpha, off} = state, broken = toBroken(off), read = reading(typed)
  if (!read.read) return {translation: typed}
  const isShown = typed === now.scene?.reading.typed && !now.busy
  const args = {model, text: read.read, beam_size: beam, alpha, prefix: [], broken}
  const answer = isShown ? now.scene.written : ask('translate', args)
  return {translation: answer ? finish(read, answer.text) : '', isCut: answer?.isCut}
}

// Of the text as it stands now, whatever is typed while it is waited for
async function wholeTranslation() {
  const {model, beam, alpha, off, force} = state, broken = toBroken(off), ours = sentence()
  const questionOf = typed => {
    const read = reading(typed), prefix = typed === ours ? force : []
    return {read, args: {model, text: read.read, beam_size: beam, alpha, prefix, broken}}
  }
  const paragraphs = paragraphsOf(state.text).map(list => list.map(questionOf)), texts = []
  for (const questions of paragraphs) {
    const parts = []
    for (const {read, args} of questions) {
      const answer = args.text && await answerTo('translate', args)
      parts.push(answer ? finish(read, answer.text) : read.typed)
    }
    texts.push(parts.join(' '))
  }
  return texts.join('\n\n')
}

function forget() { // another model has other heads
  now.scene = null
  for (const name in shown) delete shown[name]
}

function newScene() { // or undefined, while something is missing
  const {model, off, force, beam, alpha} = state
  const typed = reading(sentence()), text = typed.read
  const of = {model, text}, broken = toBroken(off)
  const search = {...of, beam_size: beam, alpha, prefix: force}
  const intact = ask('translate', {...search, broken: NOTHING})
  const written = intact && ask('translate', {...search, broken})
  if (!written) return
  const {ids} = written
  const seen = ask('inspect', {...of, ids, broken})
  const old = ask('inspect', {...of, ids: intact.ids, broken}) // old text, broken model
  const back = ask('inspect', {...of, ids, broken: NOTHING})   // new text, intact model
  if (!seen || !old || !back) return
  const {src, tgt} = seen, longest = Math.max(src.length, tgt.length)
  const key = JSON.stringify([search, off, typed])
  const given = finish(typed, written.text)
  return {...of, key, off, force, reading: typed, given, intact, written, seen, old, back,
          ids, src, tgt, isLong: longest > MAX_DRAWN, isCut: !isSpecial(tgt.at(-1))}
}

function dropLostTokens() { // pinned or pointed at, but no longer there
  for (const name of ['pin', 'hover']) {
    const [side, ...digits] = state[name] ?? ''
    const tokens = side === 's' ? now.scene.src : now.scene.tgt
    if (!(digits.join('') in tokens)) state[name] = null
  }
}

// What the engine computes once more, for a view that shows its insides
function translationArgs() {
  const {model, text, ids, off} = now.scene
  return {model, text, ids, broken: toBroken(off)}
}

function costs() { // of each head: what the intact text loses without it
  if (!now.scene) return {}
  const {model, text, intact} = now.scene
  return ask('worth', {model, text, ids: intact.ids}) ?? {}
}

function mapOf(head) { // of weights: {rows, cols, data}
  const [kind, layer, n] = head.split('.')
  return now.scene?.seen.maps[kind][layer - 1]?.[n - 1]
}

function meanWeights(heads, i, isColumn) { // row i (or column i), the mean over the heads
  const maps = heads.map(mapOf).filter(Boolean)
  if (!maps.length) return []
  const [{rows, cols}] = maps
  const mean = k => sum(maps.map(map => map.data[k])) / maps.length
  if (isColumn) return range(rows).map(j => mean(j * cols + i))
  return range(cols).map(j => mean(i * cols + j))
}

export {MAX_DRAWN, lookAtScene, isCurrent, allSentences, wholeTranslation, translationArgs, costs,
        mapOf, meanWeights}
