// Inside: the walk of chapter 05, and one score by hand
import {$, el, make, attributes, style, write, writeMixed, keep, choose} from './dom.js'
import {fixed, percent, label} from './words.js'
import {state, now, languages, pointed, update} from './store.js'
import {KINDS, headsOf, nameOf} from './parts.js'
import {translationArgs} from './scene.js'
import {ask, latest} from './answers.js'
import {axisNames, axisLanguages, drawMap} from './maps.js'

function drawInside() {
  const {scene} = now, isDrawn = scene && !scene.isLong
  drawWalk(isDrawn ? latest('walk', ask('walk', translationArgs())) ?? [] : [])
  $('by-hand').hidden = !isDrawn
  if (isDrawn) drawPair()
}

// The walk: a table for each stack, with a column for each token

function drawWalk(walk) {
  const sides = walk.length ? ['encoder', 'decoder'] : []
  keep($('walk'), sides, newWalk, (box, side) =>
    fillWalk(box, side, side === 'encoder' ? encoderRows(walk) : decoderRows(walk)))
}

function fillWalk(box, side, rows) {
  const [head, body] = box.firstChild.children, isSource = side === 'encoder'
  const isNear = pointed()?.[0] === (isSource ? 's' : 't')
  const near = isNear ? Number(pointed().slice(1)) : null
  const fill = (cell, item, i) => fillCell(cell, item, i - 2 === near)
  const ownWords = i => i < 2 ? {lang: 'en'} : {} // the page's, not a sentence's
  const newHead = (_, i) => el('th', ownWords(i))
  const newCell = (_, i) => el(i ? 'td' : 'th', ownWords(i))
  const columns = isSource ? now.scene.src.map(label)
    : ['<s>', ...now.scene.tgt.map(label).slice(0, -1)]
  box.firstChild.lang = languages()[isSource ? 'src' : 'tgt']
  keep(head.firstChild, [side, 'shape', ...columns], newHead, fill)
  keep(body, rows, make('tr'), (tr, row) => keep(tr, row, newCell, fill))
}

function newWalk(side) {
  const head = el('thead', {}, el('tr'))
  const box = el('div', {className: 'scroll', tabIndex: 0},
    el('table', {}, head, el('tbody')))
  attributes(box, {role: 'region', 'aria-label': `Walk through the ${side}`})
  return box
}

const encoderRows = walk => normRows(walk.filter(stage => stage.where === 'encoder'))

function decoderRows(walk) { // it ends with a prediction in place of a vector's length
  const stages = walk.filter(stage => stage.where !== 'encoder').slice(0, -1)
  const tgt = now.scene.tgt.map(label)
  const probabilities = now.scene.seen.token_log_probs.map(x => {
    const p = Math.exp(x)
    return {text: percent(p), p}
  })
  return [...normRows(stages),
    ['predicts', '', ...tgt.map(text => ({text}))],
    ['with probability', '', ...probabilities]]
}

const SAME = {memory: 'memory: what the encoder ends with'}

function normRows(stages) { // bars relative to the longest vector; logits lie far above
  const ofVectors = stages.filter(stage => stage.name !== 'logits')
  const longest = Math.max(...ofVectors.flatMap(stage => [...stage.norms]))
  return stages.map(({name, layer, shape, norms}) => {
    const bars = Array.from(norms, x => {
      const p = x <= longest ? x / longest : undefined
      return {text: fixed(x, 1), p}
    })
    const title = layer ? `layer ${layer}, ${name}` : SAME[name] ?? name
    return [title, shape.join(' × '), ...bars]
  })
}

function fillCell(cell, item, isNear) {
  const {text, p} = typeof item === 'string' ? {text: item} : item
  write(cell, text)
  cell.className = p === undefined ? '' : 'number'
  cell.classList.toggle('near', isNear)
  style(cell, {'--p': p ?? 0})
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

export {drawInside, newWalk, normRows, fillWalk}
