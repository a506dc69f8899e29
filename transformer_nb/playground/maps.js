// One head's weights as a large map with its tokens
import {attributes, style, write, keep, make} from './dom.js'
import {fixed, label} from './words.js'
import {state, now, languages} from './store.js'
import {nameOf} from './parts.js'
import {mapOf} from './scene.js'
import {paint} from './colors.js'

function axisNames(kind) { // rows and columns: cross predicts its rows, the decoder reads
  const src = now.scene.src.map(label), tgt = now.scene.tgt.map(label)
  const read = ['start', ...tgt.slice(0, -1)]
  return {encoder: [src, src], decoder: [read, read], cross: [tgt, src]}[kind]
}

function axisLanguages(kind) {
  const {src, tgt} = languages()
  return {encoder: [src, src], decoder: [tgt, tgt], cross: [tgt, src]}[kind]
}

// With row and column marked. `onPick(row, column)` is called when a square is clicked, or
// gone to by an arrow key. -> what the marked square says
function drawMap(box, row, col, onPick) {
  const map = mapOf(state.head)
  box.hidden = !map || now.scene.isLong
  if (box.hidden) return
  const [cols, rows, field] = box.children, [canvas, rowMark, cellMark] = field.children
  const [kind] = state.head.split('.'), [rowNames, colNames] = axisNames(kind)
  const [rowLang, colLang] = axisLanguages(kind)
  const [cell, font] = cellSize(map)
  style(box, {'--cell': `${cell}px`, '--font': `${font}px`, '--row': row, '--col': col,
              '--rows': map.rows, '--cols': map.cols})
  rows.lang = rowLang
  cols.lang = colLang
  drawNames(rows, rowNames, row)
  drawNames(cols, colNames, col)
  rowMark.hidden = row === undefined
  cellMark.hidden = col === undefined || row === undefined
  paint(canvas, map)
  attributes(canvas, {role: 'img', 'aria-label': `Weights of ${nameOf(state.head)}`})
  const says = (i, j) => [[rowNames[i], rowLang], ' → ', [colNames[j], colLang],
                          `: ${fixed(map.data[i * map.cols + j])}`]
  const plain = parts => parts.map(x => typeof x === 'string' ? x : x[0]).join('')
  canvas.onclick = event => onPick(...squareAt(event, map))
  canvas.onpointermove = event => canvas.title = plain(says(...squareAt(event, map)))
  box.onkeydown = event => {
    const square = squareBeside(event.key, row, col, map)
    if (!square) return
    event.preventDefault()
    onPick(...square)
    cellMark.scrollIntoView({block: 'nearest', inline: 'nearest'}) // a long map scrolls
  }
  return cellMark.hidden ? [] : says(row, col)
}

function squareBeside(key, row, col, {rows, cols}) {
  const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}
  if (!step[key]) return null
  if (row === undefined) return [0, 0]
  const [down, right] = step[key]
  const within = (x, n) => Math.min(n - 1, Math.max(0, x))
  return [within(row + down, rows), within((col ?? 0) + right, cols)]
}

// Of a square and of its name, in pixels: names never overlap, long maps scroll
function cellSize({rows, cols}) {
  const longest = Math.max(rows, cols)
  if (longest <= 18) return [24, 14]
  return longest <= 30 ? [18, 13] : [14, 12]
}

function drawNames(box, names, chosen) {
  keep(box, names, make('span'), (node, name, i) => {
    write(node, name)
    node.classList.toggle('chosen', i === chosen)
  })
}

function squareAt({target, clientX, clientY}, {rows, cols}) { // row, column
  const {left, top, width, height} = target.getBoundingClientRect()
  const place = (x, n) => Math.min(n - 1, Math.max(0, Math.floor(x * n)))
  return [place((clientY - top) / height, rows), place((clientX - left) / width, cols)]
}

export {axisNames, axisLanguages, drawMap}
