// Experiments with a name, one click each
import {$, button, attributes, write, writeMixed, keep} from './dom.js'
import {range, compareWords} from './words.js'
import {state, now, model, languages, change} from './store.js'
import {sentencesOf, sentence} from './sentences.js'

const EXPERIMENTS = [
  {name: 'Make it forget what it has written', off: 'decoder',
   says: 'All self-attention of the decoder is off: while it writes, it sees its last '
     + 'token and not what came before.', isCompared: true},
  {name: 'Blindfold it', off: 'cross',
   says: 'All cross-attention is off: it cannot see your sentence, and makes one up. '
     + 'Type something else: does it notice?'},
  {name: 'Does it need to think about the source?', off: 'encoder',
   says: 'All self-attention of the encoder is off: no word of your sentence knows the '
     + 'others.', isCompared: true},
]

const isOn = ({off}) => state.off.length === 1 && state.off[0] === off
const experimentOf = off => EXPERIMENTS.find(x => off.length === 1 && x.off === off[0])
const isShuffled = () => now.shuffle?.to === state.text

function drawExperiments() {
  const buttons = [...EXPERIMENTS, {name: 'Shuffle the words'}]
  keep($('experiments'), buttons, button('experiment'), (node, experiment) => {
    const isPressed = experiment.off ? isOn(experiment) : isShuffled()
    write(node, experiment.name)
    attributes(node, {'aria-pressed': isPressed})
    node.onclick = () => experiment.off ? switchExperiment(experiment) : shuffle()
  })
  writeMixed($('experiment-says'), experimentSays())
  const isHint = !state.off.length && !isShuffled()
  $('experiment-says').classList.toggle('hint', isHint)
}

function switchExperiment(experiment) {
  change({off: isOn(experiment) ? [] : [experiment.off]})
}

function shuffle() { // a second click puts the words back
  if (isShuffled()) return change({text: now.shuffle.from})
  const old = sentence(), text = shuffled(old)
  const sentences = sentencesOf(state.text)
  const others = sentences.map(x => x === old ? text : x)
  const all = sentences.length < 2 ? text : others.join(' ')
  if (all === state.text) return
  now.shuffle = {from: state.text, to: all}
  change({text: all})
}

function reset() { // all that the bar names
  const inOrder = isShuffled() ? {text: now.shuffle.from} : {}
  change({off: [], force: [], ...inOrder})
}

// A sentence begins with a capital, whichever word comes first
const capital = word => word[0].toUpperCase() + word.slice(1)
const small = word => /^(?!I$)\p{Lu}\p{Ll}*$/u.test(word) ? word.toLowerCase() : word

function shuffled(text, random = Math.random) { // the mark at its end stays
  const [, inside, end] = /^(.*?)([.!?]*\s*)$/s.exec(text)
  const words = inside.split(/\s+/).filter(Boolean)
  if (words.length) words[0] = small(words[0])
  for (const i of range(words.length).reverse()) {
    const j = Math.floor(random() * (i + 1))
    const word = words[i]
    words[i] = words[j]
    words[j] = word
  }
  if (words.length) words[0] = capital(words[0])
  const result = words.join(' ') + end
  const canChange = new Set(words.map(small)).size > 1
  return result === text && canChange ? shuffled(text, random) : result
}

// Before: which one to try with this example. Then what has been done, and what came of it
function experimentSays() {
  const {scene} = now, experiment = EXPERIMENTS.find(isOn)
  const list = experiment ? [experiment.says] : state.off.length ? [] : whatToTry()
  const isHere = scene && experimentOf(scene.off) === experiment
  if (experiment?.isCompared && isHere) list.push(...comparison(scene))
  if (isShuffled()) list.push(list.length ? ` ${SHUFFLED}` : SHUFFLED)
  return list
}

function whatToTry() {
  const {off = [], then} = model().examples?.find(({text}) => text === sentence()) ?? {}
  const place = ['first', 'second', 'third'][EXPERIMENTS.indexOf(experimentOf(off))]
  return place && then ? [`Try the ${place}: ${then}.`] : []
}

const SHUFFLED = 'The words are shuffled; click again to put them back. It knows their '
  + 'order only by the positions added to them: does the translation still mean the same?'

const MANY = 6 // words that are named

function comparison({intact, written}) { // of the new text with the old one
  if (intact.text === written.text) return [' The translation stays the same.']
  const {again, added, lost} = compareWords(intact.text, written.text)
  const named = (name, words) => words.length
    ? [` ${name}: `, [firstOf(words), languages().tgt], '.'] : []
  const says = [...named('Said again', again), ...named('New', added),
                ...named('Gone', lost)]
  return says.length ? says : [' The same words come in another order.']
}

function firstOf(words) {
  return words.slice(0, MANY).join(', ') + (words.length > MANY ? ', …' : '')
}

export {experimentOf, isShuffled, reset, drawExperiments, shuffled}
