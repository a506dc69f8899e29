// What the reader should know about the sentence: notes under the translation
import {$, el, attributes, write} from './dom.js'
import {state, now, model, languages, update, change} from './store.js'
import {KINDS, OTHERS, headsOf, nameOf} from './parts.js'
import {MAX_DRAWN, allSentences, isCurrent} from './scene.js'
import {MAX_LENGTH} from './address.js'
import {doubt, isInTarget} from './guess.js'
import {MAX_SENTENCE, isTooLong, sentencesOf, sentence, reading} from './sentences.js'
import {experimentOf, isShuffled} from './experiments.js'

function notes() { // strings, what is read instead ({warns}), an example to try
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
  if (sentence()) list.push(whatIsRead(), unknown(), ...differences())
  if (isCurrent() && !isShuffled()) list.push(...whetherToTrust(now.scene))
  if (isCurrent()) list.push(...limits(now.scene))
  if (now.scene) list.push(thingToTry())
  return list.filter(Boolean)
}

function whatIsRead() { // where that is not what was typed
  const {typed, read, before, after, left_out, is_loud, tail} = reading(sentence())
  if (state.exact) return {warns: 'Read exactly as typed.'}
  if (read === typed) return
  if (!read) return {warns: `Nothing to translate: ${typed} comes back as it is.`}
  const aside = [before, tail, after].filter(Boolean).join(' ')
  const more = [is_loud && ' and given back in capitals',
                aside && `, with ${aside} put back afterwards`,
                left_out && `, without ${left_out}`].filter(Boolean).join('')
  return {warns: `Read as “${read}”${more && more + '.'}`}
}

function unknown() { // characters, in all sentences
  const read = sentencesOf(state.text).map(text => reading(text).read)
  const odd = model().reader.strange(read.join(' '))
  return odd && `The model hardly knows ${odd}.`
}

function whetherToTrust(scene) {
  if (!isInTarget(scene.text, languages())) return [doubt(scene, subject())]
  const {src, tgt} = model(), turn = $('turn')
  const how = turn.hidden ? '' : ` The button ${turn.textContent} turns round.`
  return [`This looks like ${tgt}, but the model reads ${src}.${how}`]
}

function subject() { // what a note speaks of
  const sentences = sentencesOf(state.text), {typed} = now.scene.reading
  return sentences.length < 2 ? 'This' : `Sentence ${sentences.indexOf(typed) + 1}`
}

function differences() { // of numbers and addresses, as far as translations are here
  const all = allSentences(), {scene} = now, {reader} = model()
  const inWords = says => `${says[0].toUpperCase()}${says.slice(1)}.`
  if (!all.length) {
    return isCurrent() ? reader.doubts(sentence(), scene.given).map(inWords) : []
  }
  return all.flatMap(({text, translation, isCut}, i) => {
    if (!translation) return []
    const isElsewhere = isCut && text !== sentence() // else it is said below
    const cut = isElsewhere ? ['the translation was cut at its limit'] : []
    const says = [...cut, ...reader.doubts(text, translation)]
    return says.map(says => `Sentence ${i + 1}: ${says}.`)
  })
}

function bytes(src) {
  const [, n, character] = src.find(({byte}) => byte)?.byte ?? []
  return n && `“${character}” is no token that it has, and is read as its ${n} bytes.`
}

function limits({src, written, isLong, isCut, ids}) {
  return [
    bytes(src),
    written.cut && `Too long: only the first ${src.length - 1} tokens are read.`,
    isLong && `More than ${MAX_DRAWN} tokens: no maps, no words below the tokens, and `
      + 'nothing to see in Inside.',
    isCut && `Stopped after ${ids.length} tokens, the most that are written here: the `
      + 'model found no end.']
}

function thingToTry() { // it stays while it is tried
  const example = model().examples?.find(example => example.text === sentence())
  if (!example?.off?.length || state.force.length) return
  const isOtherOff = state.off.length && !isTried(example)
  return isOtherOff || experimentOf(example.off) ? undefined : example
}

const isTried = ({off}) => String(off) === String(state.off)

function fillNote(node, note) {
  const key = JSON.stringify(note)
  if (node.note !== key) fillAnew(node, note) // else the button in it keeps the focus
  node.note = key
  if (!note.off && !note.warns) return
  const isPressed = note.off ? isTried(note) : state.exact
  attributes(node.querySelector('button'), {'aria-pressed': isPressed})
}

function fillAnew(node, note) {
  if (typeof note === 'string') return write(node, note)
  if (note.warns) return fillReading(node, note)
  const onclick = () => change({off: isTried(note) ? [] : note.off})
  const off = el('button', {type: 'button', onclick}, nameOfTrial(note.off))
  node.replaceChildren('Try: ', off, note.then ? ` and see: ${note.then}` : '')
}

function fillReading(node, {warns}) {
  const onclick = () => update({exact: !state.exact})
  const exact = el('button', {type: 'button', onclick}, 'Exactly as typed')
  attributes(exact, {'aria-pressed': state.exact})
  node.replaceChildren(`${warns} `, exact)
}

function nameOfTrial(off) {
  const [first] = off
  const isHead = off.length === 1 && first.split('.').length === 3
  if (!isHead) return `Switch off ${off.map(x => OTHERS[x]?.[1] ?? nameOf(x)).join(', ')}`
  return `Switch off one of ${KINDS.flatMap(headsOf).length} heads, ${nameOf(first)}`
}

export {notes, fillNote}
