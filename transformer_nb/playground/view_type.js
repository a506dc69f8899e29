// Type: five alternatives for each token
import {$, el, attributes, style, write, writeMixed, keep} from './dom.js'
import {percent, label} from './words.js'
import {state, now, languages, pointed, change} from './store.js'

function drawType() {
  const {scene} = now
  writeMixed($('rivals'), closestRival(scene))
  keep($('cards'), scene?.seen.alternatives ?? [], newCard, fillCard)
}

function fillCard(card, alternatives, i) { // of the i-th token
  const [title, list] = card.children, {tgt, seen} = now.scene
  write(title.firstChild, label(tgt[i], i))
  write(title.lastChild, percent(Math.exp(seen.token_log_probs[i])))
  card.classList.toggle('near', pointed() === `t${i}`)
  keep(list, alternatives, newChoice, (item, choice) => fillChoice(item, choice, i))
}

const CLOSE = 0.3 // a rival, relative to the first choice
const SURE = 0.7  // a first choice

// Where the second choice comes nearest to the first: a place worth a click
function closestRival(scene) {
  if (!scene) return []
  const cards = scene.seen.alternatives.map(([first, second], i) =>
    ({i, first, second, ratio: second.prob / first.prob}))
  const isWord = choice => /[\p{L}\p{N}]/u.test(choice.text)
  const words = cards.filter(x => isWord(x.first) && x.i >= scene.force.length)
  const races = words.filter(x => isWord(x.second))
  if (!races.length) return []
  const {i, first, second} = races.reduce((a, b) => b.ratio > a.ratio ? b : a)
  const isClear = second.prob < CLOSE * first.prob
  const isSure = isClear && words.every(x => x.first.prob > SURE)
  const isAfter = scene.force.length > 0
  const start = isAfter ? 'Of the tokens after the fixed ones, the closest are '
    : isSure ? 'It was confident of every word, right or wrong; the closest are '
    : 'The closest race between tokens: '
  return [start, ...quoted(first, i), ' and ', ...quoted(second, i), '.']
}

function quoted(choice, i) {
  return ['“', [label(choice, i), languages().tgt], `” (${percent(choice.prob)})`]
}

function newCard() {
  const title = el('h2', {}, el('span'), el('small'))
  return el('section', {className: 'card'}, title, el('ul'))
}

function newChoice() {
  const props = {type: 'button', className: 'choice'}
  return el('li', {}, el('button', props, el('i'), el('span'), el('small')))
}

function fillChoice(item, choice, i) {
  const node = item.firstChild, [bar, token, share] = node.children
  const {ids} = now.scene, isTaken = choice.id === ids[i]
  write(token, label(choice, i))
  write(share, percent(choice.prob))
  style(bar, {'--p': choice.prob})
  node.classList.toggle('taken', isTaken)
  attributes(node, {'aria-pressed': isTaken})
  node.onclick = () => {
    const pin = state.view === 'machine' ? `t${i}` : null // it is still written there
    if (!isTaken) change({force: [...ids.slice(0, i), choice.id], pin})
  }
}

export {drawType, newCard, fillCard}
