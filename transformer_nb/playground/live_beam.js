// Chapter 13: beam search as a tree that grows step by step, with its size and α
import {el, make, write, keep} from './dom.js'
import {fixed, label} from './words.js'
import {lengthPenalty} from './engine.js'
import {slider, presets, textField, player, caption, shape} from './live_parts.js'
import {asker, onItsWay} from './live_model.js'

const MODEL = 'captions'
const EXAMPLES = ['Three teenagers in a subway playing around.',
                  'Man and boy play with dog at sunset on a beach.']
const TEMPO = 700 // ms for a step

// The steps with each candidate's parent in the place of its number, and which of the
// candidates lead to the sentence that wins
function family({steps, best}) {
  let parents = []
  return steps.map(({n, candidates}) => {
    const column = candidates.filter(({state}) => state !== 'dropped').map(c => {
      const from = parents[c.parent], ids = [...from?.ids ?? [], c.id]
      const isBest = ids.every((id, i) => id === best.ids[i])
      return {...c, n, from, ids, isBest}
    })
    parents = []
    for (const c of column) if (c.state === 'kept') parents[c.index] = c
    return column
  })
}

function drawTree(tree, columns) {
  const [edges, list] = tree.children
  keep(list, columns, make('li', 'span', 'ol'), (node, candidates, i) => {
    const [number, box] = node.children
    write(number, String(i + 1))
    keep(box, candidates, make('li', 'span', 'small', 'span'), fillCandidate)
  })
  edges.replaceChildren()
  const origin = tree.getBoundingClientRect()
  for (const c of columns.flat()) if (c.from) edges.append(edge(c, origin))
}

function fillCandidate(node, c) {
  const [token, number, unseen] = node.children, isEnded = c.state === 'ended'
  c.node = node
  write(token, label({text: c.piece}, c.n - 1))
  write(number, fixed(c.log_prob))
  unseen.className = 'unseen'
  const after = c.from ? `, after “${c.from.text}”` : ''
  write(unseen, `${after}${isEnded ? ', ended' : ''}${c.isBest ? ', of the winner' : ''}`)
  node.className = isEnded ? 'ended' : ''
  node.classList.toggle('best', c.isBest)
}

function edge({from, node, isBest}, {left, top}) {
  const a = from.node.getBoundingClientRect(), b = node.getBoundingClientRect()
  const x1 = a.right - left, y1 = a.top + a.height / 2 - top
  const x2 = b.left - left, y2 = b.top + b.height / 2 - top
  const x = (x1 + x2) / 2
  const d = `M${x1},${y1}C${x},${y1} ${x},${y2} ${x2},${y2}`
  return shape('path', {d, class: isBest ? 'best' : ''})
}

// What has ended so far, the best score first, each with the sum that gives its score
function drawEnds(table, columns, alpha) {
  const ended = columns.flat().filter(({state}) => state === 'ended')
  ended.sort((a, b) => b.score - a.score)
  const newRow = make('tr', 'td', 'td', 'td', 'td', 'td')
  keep(table.tBodies[0], ended.slice(0, 5), newRow, (row, c, i) => {
    const [text, length, logProb, penalty, score] = row.children
    write(text, c.text)
    text.lang = 'de'
    row.className = i ? '' : 'best'
    write(length, String(c.n))
    write(logProb, fixed(c.log_prob))
    write(penalty, fixed(lengthPenalty(c.n, alpha)))
    write(score, fixed(c.score, 3))
  })
}

function newEnds() {
  const names = ['finished so far', '|Y|', 'log P', 'lp', 'score']
  const head = names.map(name => el('th', {scope: 'col', textContent: name}))
  return el('table', {className: 'live-table live-ends'},
            el('thead', {}, el('tr', {}, ...head)), el('tbody'))
}

function inWords({found, at, size, alpha}) {
  const last = found.columns.length, {best, greedy} = found
  const what = `Step ${at} of ${last} with a beam of ${size} and α = ${fixed(alpha, 1)}.`
  if (at === 1 && at < last) return `${what} Press Play, and watch the tree grow.`
  if (at < last) return what
  const same = greedy.text === best.text ? 'and greedy search writes the same.'
    : `and greedy search writes “${greedy.text}” (log P ${fixed(greedy.log_prob)}).`
  return `${what} The winner is “${best.text}”, ${same}`
}

// What the reader sets; `look` searches anew
function newControls({text, size, alpha}, look) {
  const field = textField('English', {value: text, lang: 'en'}, text => look({text}))
  const examples = presets('Examples', EXAMPLES.map(text => [text, () => field.set(text)]))
  const sizes = {min: 1, max: 6, value: size}, says = x => fixed(x, 1)
  const alphas = {min: 0, max: 2, step: 0.1, value: alpha, says}
  const sliders = [slider('beam size', sizes, size => look({size})),
                   slider('α', alphas, alpha => look({alpha}))]
  const row = el('div', {className: 'live-controls'}, ...sliders.map(({node}) => node))
  return [field.node, examples, row]
}

function scrolling(ariaLabel, child) { // a box that is reached, and scrolled, by keyboard
  const className = 'live-scroll', role = 'group'
  return el('div', {className, role, ariaLabel, tabIndex: 0}, child)
}

function drawAll({found, at, alpha, ...state}, tree, ends, says) {
  if (!found) return
  const columns = found.columns.slice(0, at)
  drawTree(tree, columns)
  drawEnds(ends, columns, alpha)
  const isEmpty = !columns.length
  says.tell(isEmpty ? 'Type a sentence.' : inWords({found, at, alpha, ...state}))
}

function scrollToTip(box) {
  const tip = box.querySelector('.live-tree > ol').lastElementChild
  if (tip) box.scrollLeft = tip.offsetLeft + tip.offsetWidth - box.clientWidth
}

// Of n steps: a new sentence is seen from its first one, and the end stays the end
function placeAfter(change, {at, found}, n) {
  if ('text' in change) return 1
  return at === found?.columns.length ? n : Math.min(at, n)
}

async function beam(stage) {
  const state = {text: EXAMPLES[0], size: 4, alpha: 0.6, at: 0, found: null}
  const says = caption(), ends = newEnds()
  const ask = asker(MODEL, stage, message => says.tell(`No search: ${message}.`))
  const tree = el('div', {className: 'live-tree', lang: 'de'},
                  shape('svg', {'aria-hidden': true}), el('ol'))
  const box = scrolling('The tree', tree), draw = () => drawAll(state, tree, ends, says)
  const go = at => {
    state.at = at
    place.set(at)
    draw()
    scrollToTip(box)
  }
  const {button, stop} = player(TEMPO, () => {
    const last = state.found?.columns.length
    if (last) go(state.at < last ? state.at + 1 : 1)
    return state.at < last
  })
  const look = async change => {
    stop()
    const before = {...state}
    Object.assign(state, change)
    const {text, size: beam_size, alpha} = state
    const found = await ask(request => request('steps', {text, beam_size, alpha}))
    if (!found) return
    state.found = {...found, columns: family(found)}
    place.input.max = found.steps.length
    go(placeAfter(change, before, found.steps.length))
  }
  const place = slider('step', {min: 1, max: 1, value: 1}, at => {
    stop()
    go(at)
  })
  says.tell(onItsWay(MODEL))
  stage.append(...newControls(state, look),
    el('div', {className: 'live-play'}, button, place.node), box,
    scrolling('Finished sentences', ends), says.node)
  new ResizeObserver(draw).observe(tree)
  await look({text: state.text})
}

export {beam}
