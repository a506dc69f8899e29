// Type: five alternatives for each token
import {$, el, attributes, style, write, keep} from './dom.js'
import {percent, label} from './words.js'
import {now, pointed, change} from './store.js'

function drawType() {
  const {scene} = now
  keep($('cards'), scene?.seen.alternatives ?? [], newCard, (card, alternatives, i) => {
    const [title, list] = card.children
    write(title.firstChild, label(scene.tgt[i]))
    write(title.lastChild, percent(Math.exp(scene.seen.token_log_probs[i])))
    card.classList.toggle('near', pointed() === `t${i}`)
    keep(list, alternatives, newChoice, (item, choice) => fillChoice(item, choice, i))
  })
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
  write(token, label(choice))
  write(share, percent(choice.prob))
  style(bar, {'--p': choice.prob})
  node.classList.toggle('taken', isTaken)
  attributes(node, {'aria-pressed': isTaken})
  node.onclick = () => {
    if (!isTaken) change({force: [...ids.slice(0, i), choice.id], pin: null})
  }
}

export {drawType}
