// Experiments with a name, one click each
import {$, button, attributes, write, keep} from './dom.js'
import {permuted} from './words.js'
import {state, now, model, change} from './store.js'
import {KINDS, OTHERS, headsOf, nameOf} from './parts.js'
import {sentencesOf, sentence} from './sentences.js'

const EXPERIMENTS = [
  {name: 'Make it forget what it has written', off: 'decoder',
   says: 'All self-attention of the decoder is off: while it writes, it sees its last '
     + 'token and not what came before.'},
  {name: 'Blindfold it', off: 'cross',
   says: 'All cross-attention is off: it cannot see your sentence, and makes one up. '
     + 'Type something else: does it notice?'},
  {name: 'Does it need to think about the source?', off: 'encoder',
   says: 'All self-attention of the encoder is off: no word of your sentence knows the '
     + 'others.'},
]

const isOn = ({off}) => state.off.length === 1 && state.off[0] === off
const isShuffled = () => now.shuffle?.to === state.text

function drawExperiments() {
  const buttons = [...EXPERIMENTS, {name: 'Shuffle the words'}]
  keep($('experiments'), buttons, button('experiment'), (node, experiment) => {
    const isPressed = experiment.off ? isOn(experiment) : isShuffled()
    write(node, experiment.name)
    attributes(node, {'aria-pressed': isPressed})
    node.onclick = () => experiment.off ? switchExperiment(experiment) : shuffle()
  })
  drawSays()
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
  const typed = inside.split(/\s+/).filter(Boolean)
  if (!typed.length) return text
  const words = permuted([small(typed[0]), ...typed.slice(1)], random)
  words[0] = capital(words[0])
  const result = words.join(' ') + end
  const canChange = new Set(words.map(small)).size > 1
  return result === text && canChange ? shuffled(text, random) : result
}

// Before: what to try with this example, which has a button here unless it has one above.
// Then what has been done
function drawSays() {
  const {off = [], then = ''} = model().examples?.find(x => x.text === sentence()) ?? {}
  const isTried = String(off) === String(state.off), experiment = EXPERIMENTS.find(isOn)
  const ours = EXPERIMENTS.find(experiment => String(off) === experiment.off)
  const isTrial = off.length > 0 && !ours && !experiment && !state.force.length
  const place = ['first', 'second', 'third'][EXPERIMENTS.indexOf(ours)]
  const hint = isTrial ? 'Try:' : place ? `Try the ${place}: ${then}.` : ''
  const says = experiment?.says ?? hint
  const [before, trial, after] = $('experiment-says').children
  write(before, [isShuffled() && SHUFFLED, says].filter(Boolean).join(' '))
  trial.hidden = !isTrial
  write(trial, isTrial ? nameOfTrial(off) : '')
  attributes(trial, {'aria-pressed': isTried})
  trial.onclick = () => change({off: isTried ? [] : off})
  write(after, isTrial && then ? `and see: ${then}` : '')
}

function nameOfTrial(off) {
  const isHead = off.length === 1 && off[0].split('.').length === 3
  if (!isHead) return `Switch off ${off.map(x => OTHERS[x]?.[1] ?? nameOf(x)).join(', ')}`
  return `Switch off one of ${KINDS.flatMap(headsOf).length} heads, ${nameOf(off[0])}`
}

const SHUFFLED = 'The words are shuffled; click again to put them back. It knows their '
  + 'order only by the positions added to them: does the translation still mean the same?'

export {isShuffled, reset, drawExperiments, shuffled}
