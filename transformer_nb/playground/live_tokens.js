// Rows of tokens in live figures, and lines from one token to those that it looked at
import {FAINT} from './shared.js'
import {el, attributes, style, write, keep, drawn} from './dom.js'
import {label, isSpecial} from './words.js'

// Buttons, of which Tab reaches one and the arrows the others
function roving(box, onPick) {
  box.dataset.roving = ''
  box.onkeydown = event => {
    const nodes = [...box.querySelectorAll('button')], i = nodes.indexOf(event.target)
    const places = {ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: nodes.length - 1}
    const next = nodes[places[event.key]]
    if (!next) return
    event.preventDefault()
    onPick(nodes.indexOf(next))
    next.focus() // which may have been hidden
  }
}

// `onPick(i)` is called for the token that is clicked or gone to; without it, nothing can
// be picked. `draw(pieces, chosen, weights)` marks one token, and underlines by weights.
function tokenRow(name, lang, onPick) {
  const node = el('div', {className: 'live-tokens', role: 'group', ariaLabel: name, lang})
  if (onPick) roving(node, onPick)
  const newToken = () => onPick ? el('button', {type: 'button'}) : el('span')
  const fill = (token, piece, i, chosen, weight) => {
    write(token, label(piece, i))
    token.classList.toggle('special', isSpecial(piece))
    style(token, {'--w': weight})
    if (!onPick) return
    const isStop = i === (chosen ?? 0)
    attributes(token, {'aria-pressed': i === chosen, tabindex: isStop ? 0 : -1})
    token.onclick = () => onPick(i)
  }
  const draw = (pieces, chosen, weights = []) => keep(node, pieces, newToken,
    (token, piece, i) => fill(token, piece, i, chosen, weights[i] ?? 0))
  return {node, draw}
}

const LEAST = 0.62 // of their size: smaller, tokens could not be read

// Smaller tokens, all alike, where that keeps a sentence in one row
function fit(rows) {
  const set = (isOneRow, share) => rows.forEach(row => {
    row.classList.toggle('one-row', isOneRow)
    style(row, {'--fit': share})
  })
  set(true, 1)
  const share = Math.min(1, ...rows.map(row => row.clientWidth / (row.scrollWidth + 1)))
  set(share >= LEAST, share >= LEAST ? share : 1)
}

const isOneRow = nodes => nodes[0]?.offsetTop === nodes[nodes.length - 1]?.offsetTop

// From one token to each of the others, as wide as its weight. Where a sentence takes two
// rows, lines would run behind other words, and the underlines say it alone
function drawLines(svg, from, to, weights) {
  svg.replaceChildren()
  if (!from || !isOneRow(to) || !isOneRow(from.parentElement.children)) return
  const origin = svg.getBoundingClientRect()
  const start = from.getBoundingClientRect(), isBelow = start.top > origin.top
  weights.forEach((w, j) => {
    if (w < FAINT || !to[j]) return
    const end = to[j].getBoundingClientRect()
    const x1 = start.left + start.width / 2 - origin.left
    const x2 = end.left + end.width / 2 - origin.left
    const y1 = (isBelow ? start.top : start.bottom) - origin.top
    const y2 = (isBelow ? end.bottom : end.top) - origin.top
    const middle = (y1 + y2) / 2
    const d = `M${x1},${y1}C${x1},${middle} ${x2},${middle} ${x2},${y2}`
    drawn(svg, 'path', {d, class: 'look', 'stroke-width': 1 + 9 * w})
  })
}

export {tokenRow, fit, drawLines}
