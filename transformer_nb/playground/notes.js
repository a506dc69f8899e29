// What the reader should know about the sentence: notes under the translation
import {$, attributes, write} from './dom.js'
import {state, now, model, languages} from './store.js'
import {allSentences, isCurrent} from './scene.js'
import {MAX_LENGTH} from './address.js'
import {doubt, isInTarget} from './guess.js'
import {MAX_SENTENCE, isTooLong, sentencesOf, sentence, reading} from './sentences.js'
import {isShuffled} from './experiments.js'

function notes() { // below the translation
  const list = [now.wrong]
  if (now.foreign) {
    list.push('This link was made with another model: nothing is switched off.')
  }
  if (sentence()) list.push(unknown(), ...differences())
  if (isCurrent() && !isShuffled()) list.push(...whetherToTrust(now.scene))
  if (isCurrent()) list.push(...limits(now.scene))
  return list.filter(Boolean)
}

function drawFieldNote() { // what of the text is read, at the field
  const {length} = state.text, isRead = sentence() ? whatIsRead() : ''
  const says = [
    length >= MAX_LENGTH && `The field holds no more than ${MAX_LENGTH} characters.`,
    isTooLong(state.text) && `Only its first ${MAX_SENTENCE} characters are translated.`,
    isRead].filter(Boolean)
  const [text, exact] = $('field-note').children
  write(text, says.join(' '))
  text.title = text.textContent
  exact.hidden = !isRead
  attributes(exact, {'aria-pressed': state.exact})
  return says
}

function whatIsRead() { // where that is not what was typed
  const {typed, read, before, after, left_out, is_loud, tail} = reading(sentence())
  if (state.exact) return 'Read exactly as typed.'
  if (read === typed) return ''
  if (!read) return `Nothing to translate: ${typed} comes back as it is.`
  const aside = [before, tail, after].filter(Boolean).join(' ')
  const more = [is_loud && ' and given back in capitals',
                aside && `, with ${aside} put back afterwards`,
                left_out && `, without ${left_out}`].filter(Boolean).join('')
  return `Read as “${read}”${more && more + '.'}`
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

function limits({src, written, isCut, ids}) {
  return [
    bytes(src),
    written.cut && `Too long: only the first ${src.length - 1} tokens are read.`,
    isCut && `Stopped after ${ids.length} tokens, the most that are written here: the `
      + 'model found no end.']
}

export {notes, drawFieldNote}
