// Inside: one score by hand
import {$, make, style, write, writeMixed, keep, choose} from './dom.js'
import {fixed} from './words.js'
import {state, now, update} from './store.js'
import {KINDS, headsOf, nameOf} from './parts.js'
import {translationArgs} from './scene.js'
import {ask} from './answers.js'
import {axisNames, axisLanguages, drawMap} from './maps.js'

function drawInside() {
  const {scene} = now, isDrawn = scene && !scene.isLong
  $('by-hand').hidden = !isDrawn
  if (isDrawn) drawPair()
}

// One score by hand

// A row of cross-attention has the name of the word that is written next: when its query is
// made, that word has not been read
const QUERY = {encoder: 'Query of', decoder: 'Query of', cross: 'Query that writes'}

function drawPair() {
  const [kind, layer, head] = state.head.split('.').map((x, i) => i ? Number(x) : x)
  const [rows, cols] = axisNames(kind), [rowLang, colLang] = axisLanguages(kind)
  const row = Math.min(state.row, rows.length - 1)
  const visible = kind === 'decoder' ? cols.slice(0, row + 1) : cols // the future is masked
  const col = Math.min(state.col, visible.length - 1)
  const heads = KINDS.flatMap(headsOf).map(head => [head, nameOf(head)])
  const numbered = tokens => tokens.map((token, i) => [i, `${i + 1}: ${token}`])
  choose($('pair-head'), heads, state.head, head => update({head}))
  choose($('pair-row'), numbered(rows), row, x => update({row: Number(x)}))
  choose($('pair-col'), numbered(visible), col, x => update({col: Number(x)}))
  write($('pair-query'), QUERY[kind])
  $('pair-row').lang = rowLang
  $('pair-col').lang = colLang
  const pick = (i, j) => update({row: i, col: Math.min(j, kind === 'decoder' ? i : j)})
  drawMap($('pair-map'), row, col, pick)
  const pair = ask('pair', {...translationArgs(), kind, layer, head, row, col})
  $('sum').classList.toggle('old', !pair)
  if (!pair) return
  drawSum(pair, QUERY[kind], [rows[row], rowLang], [cols[col], colLang])
  drawProducts(pair)
}

function drawSum({dot, d_k, score, weight}, query, row, col) {
  const isScaled = !now.scene.off.includes('no_scale')
  const scaled = isScaled ? `divided by √${d_k}, the score is ${fixed(score)}`
    : '√dₖ is switched off, so that is the score'
  const sum = `: the ${d_k} products sum to ${fixed(dot)}; ${scaled}; after the softmax `
    + `over the row, the weight is ${fixed(weight)}.`
  writeMixed($('sum'), [`${query} `, row, ' · key of ', col, sum])
}

function drawProducts({q, k, products}) {
  const list = Array.from(products), most = Math.max(...list.map(Math.abs))
  keep($('products'), list, make('li', 'i', 'span', 'b'), (node, x, i) => {
    const [bar, factors, product] = node.children
    style(bar, {'--p': Math.abs(x) / most})
    bar.className = x < 0 ? 'minus' : ''
    write(factors, `${fixed(q[i])} · ${fixed(k[i])}`)
    write(product, fixed(x))
  })
}

export {drawInside}
