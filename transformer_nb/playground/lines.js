// Lines from the token that is pinned or pointed at to what was looked at, which is tinted,
// too. On a phone, where lines would run behind other rows of tokens, the tint is all.
import {FAINT} from './shared.js'
import {$, style, phone, drawn} from './dom.js'
import {state, now, pointed} from './store.js'
import {headsOf, headsOfLayer} from './parts.js'
import {meanWeights} from './scene.js'

function headsMeant(kind) {
  const [ofKind, layer] = state.head.split('.')
  if (state.lines === 'all') return headsOf(kind)
  if (state.lines === 'layer') return headsOfLayer(kind, layer)
  return kind === ofKind ? [state.head] : []
}

function drawLines() {
  $('lines').replaceChildren()
  if (state.view !== 'looked' || !now.scene || !pointed()) return
  const i = Number(pointed().slice(1)), isTarget = pointed()[0] === 't'
  const src = $('src').children, tgt = $('tgt').children
  const from = (isTarget ? tgt : src)[i]
  if (!from) return
  const lines = []
  const fan = (kind, chips, side, isColumn) => {
    meanWeights(headsMeant(kind), i, isColumn).forEach((w, j) => {
      if (w < FAINT || !chips[j]) return
      style(chips[j], {'--w': w, '--tint': Math.sqrt(w)}) // so that a few percent are seen
      chips[j].classList.add('looked')
      lines.push({to: chips[j], side, w})
    })
  }
  if (isTarget) {
    fan('cross', src, 0)
    fan('decoder', [null, ...tgt], 1) // its column 0 is <s>, which has no chip
  } else {
    fan('encoder', src, -1)
    fan('cross', tgt, 0, true)
  }
  if (!phone.matches) drawAll(from, lines)
}

function drawAll(from, lines) { // all are measured before one changes the page
  const curves = lines.map(({to, side}) => curve(from, to, side))
  const widths = lines.map(({w}) => 1 + 8 * w)
  curves.forEach((d, i) => drawn($('lines'), 'path', {d, 'stroke-width': widths[i]}))
}

function curve(a, b, side) { // an arc above (−1) or below (1) a sentence; 0: across
  const origin = $('lines').getBoundingClientRect()
  const p = a.getBoundingClientRect(), q = b.getBoundingClientRect()
  const x = r => r.left + r.width / 2 - origin.left
  const y = (r, isBottom) => (isBottom ? r.bottom : r.top) - origin.top
  const isDown = side ? side > 0 : q.top > p.top
  const x1 = x(p), y1 = y(p, isDown)
  const x2 = x(q), y2 = y(q, side ? isDown : !isDown)
  const arc = side * (14 + Math.min(14, Math.abs(x1 - x2) / 14))
  const middle = (y1 + y2) / 2
  const [c1, c2] = side ? [y1 + arc, y2 + arc] : [middle, middle]
  return `M${x1},${y1} C${x1},${c1} ${x2},${c2} ${x2},${y2}`
}

export {drawLines}
