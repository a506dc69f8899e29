// Step: the beam, a tree that grows to the right
import {$, el, make, style, enable, write, writeMixed, keep, drawn, player} from './dom.js'
import {fixed, label} from './words.js'
import {state, now, languages, draw} from './store.js'
import {toBroken} from './parts.js'
import {ask, latest} from './answers.js'

const MAX_DROPPED = 8 // the likeliest of those that were dropped are shown
let n_drawn // steps that the tree has

function drawStep() {
  const {steps, best, greedy, isSearching} = beamSteps()
  const n = steps.length, last = Math.min(state.step, n)
  Object.assign($('step'), {max: Math.max(n, 1), value: last})
  enable($('back'), last > 1)
  enable($('forth'), last < n)
  write($('step-name'), n ? `step ${last} of ${n}` : isSearching ? 'searching…' : '')
  const box = $('tree-box')
  const isAtTip = box.scrollLeft + box.clientWidth > box.scrollWidth - 2
  box.classList.toggle('old', isSearching)
  drawTree(steps.slice(0, last), best, greedy)
  if (isAtTip || n_drawn !== last) box.scrollLeft = box.scrollWidth
  n_drawn = last
  drawEnds(best, greedy)
}

function beamSteps() { // the last known, while newer ones are computed
  const {model, off, force: prefix, beam: beam_size, alpha} = state
  if (!now.scene) return {steps: [], isSearching: false}
  const {text} = now.scene
  const args = {model, text, beam_size, alpha, prefix, broken: toBroken(off)}
  const answer = now.busy ? undefined : ask('steps', args)
  return {...latest('steps', answer) ?? {steps: []}, isSearching: !answer}
}

function drawTree(steps, best, greedy) {
  const n_dropped = Math.min(MAX_DROPPED, state.beam**2 - state.beam)
  style($('tree'), {'--beam': state.beam, '--gone': n_dropped})
  const columns = familyTree(steps, best, greedy)
  keep($('steps'), columns, make('li', 'h2', 'ul', 'ul'), (node, candidates, i) => {
    const [title, live, gone] = node.children
    const isDropped = c => c.state === 'dropped'
    const dropped = candidates.filter(isDropped).slice(0, MAX_DROPPED)
    const isLast = i === columns.length - 1
    write(title, String(i + 1))
    gone.className = 'gone'
    keep(live, candidates.filter(c => !isDropped(c)), newCandidate, fillCandidate)
    keep(gone, isLast ? dropped : [], newCandidate, fillCandidate)
  })
  $('edges').replaceChildren()
  columns.flat().forEach(drawEdge)
}

function familyTree(steps, best, greedy) { // who continues whom, and on whose way
  let parents = []
  return steps.map(({candidates}) => {
    const column = candidates.map(c => {
      const from = parents[c.parent], ids = [...from?.ids ?? [], c.id]
      const leadsTo = other => ids.every((id, i) => id === other.ids[i])
      return {...c, from, ids, isBest: leadsTo(best), isGreedy: leadsTo(greedy)}
    })
    parents = []
    for (const c of column) if (c.state === 'kept') parents[c.index] = c
    return column
  })
}

function newCandidate() {
  const unseen = el('span', {className: 'unseen', lang: 'en'})
  return el('li', {}, el('span'), el('small'), unseen)
}

function fillCandidate(node, c) {
  const [token, number, unseen] = node.children, isEnded = c.state === 'ended'
  write(token, (isEnded ? '■ ' : '') + label({text: c.piece}, c.ids.length - 1))
  write(number, fixed(isEnded ? c.score : c.log_prob))
  const {tgt} = languages()
  const after = c.from ? [', after “', [c.from.text, tgt], '”'] : []
  const best = c.isBest ? ', on the way to the best' : ''
  const greedy = c.isGreedy ? ', greedy' : ''
  writeMixed(unseen, [`, ${c.state}`, ...after, best + greedy])
  node.title = `${c.text} (${c.state})`
  node.className = c.state
  node.classList.toggle('best', c.isBest)
  node.classList.toggle('greedy', c.isGreedy)
  c.node = node
}

function drawEdge({state, from, node, isBest}) {
  if (!from || state === 'dropped') return
  const {left, top} = $('tree').getBoundingClientRect()
  const a = from.node.getBoundingClientRect(), b = node.getBoundingClientRect()
  const middleOf = r => r.top + r.height / 2 - top
  const x1 = a.right - left, y1 = middleOf(a)
  const x2 = b.left - left, y2 = middleOf(b)
  const x = (x1 + x2) / 2
  const d = `M${x1},${y1} C${x},${y1} ${x},${y2} ${x2},${y2}`
  drawn($('edges'), 'path', {d, class: isBest ? 'best' : ''})
}

function drawEnds(best, greedy) {
  const ends = best ? [[`Beam of ${state.beam}`, best, ''],
                       ['Greedy', greedy, compare(greedy, best)]] : []
  keep($('ends'), ends, make('div', 'dt', 'dd', 'dd'), (node, [name, end, more]) => {
    const [title, body, small] = node.children
    write(title, name)
    write(body, end.text)
    body.lang = languages().tgt
    write(small, `score ${fixed(end.score, 3)}${more}`)
  })
}

function compare(greedy, best) {
  if (best.text === greedy.text) return ': the same text'
  const gap = best.score - greedy.score
  return `: ${fixed(Math.abs(gap))} ${gap < 0 ? 'above' : 'below'} the beam’s`
}

const TEMPO = 600 // ms for a step
function listenToSteps() {
  const go = by => {
    const step = Number($('step').value) + by
    if (step < 1 || step > Number($('step').max)) return
    state.step = step
    draw()
  }
  const isAtEnd = () => state.step >= Number($('step').max)
  const step = () => {
    state.step++
    draw()
    return !isAtEnd() && state.view === 'step'
  }
  player($('play'), TEMPO, step, () => { // from the beginning, if it has ended
    if (isAtEnd()) state.step = 1
    draw()
  })
  $('step').oninput = () => go(0)
  $('back').onclick = () => go(-1)
  $('forth').onclick = () => go(1)
}

export {drawStep, listenToSteps}
