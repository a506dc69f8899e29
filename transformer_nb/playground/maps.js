// One head's weights as a large map with its tokens
import {attributes, style, write, keep, make} from './dom.js'
import {fixed, label} from './words.js'
import {state, now} from './store.js'
import {nameOf} from './parts.js'
import {mapOf} from './scene.js'

// Ten colors of matplotlib's viridis; between two of them, their mixture
const VIRIDIS = [
  [68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142],
  [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]]

function color(w) {
  const x = Math.min(Math.max(w, 0), 1) * (VIRIDIS.length - 1)
  const i = Math.min(Math.floor(x), VIRIDIS.length - 2), share = x - i
  const next = VIRIDIS[i + 1]
  return VIRIDIS[i].map((c, k) => c + share * (next[k] - c))
}

function paint(canvas, map) { // a pixel for each weight; the style sheet enlarges them
  if (canvas.painted === map) return
  canvas.painted = map
  Object.assign(canvas, {width: map?.cols ?? 1, height: map?.rows ?? 1})
  if (!map) return
  const image = new ImageData(map.cols, map.rows)
  map.data.forEach((w, i) => image.data.set([...color(w), 255], 4 * i))
  canvas.getContext('2d').putImageData(image, 0, 0)
}

function axisNames(kind) { // rows and columns: cross predicts its rows, the decoder reads
  const src = now.scene.src.map(label), tgt = now.scene.tgt.map(label)
  const read = ['<s>', ...tgt.slice(0, -1)]
  return {encoder: [src, src], decoder: [read, read], cross: [tgt, src]}[kind]
}

// With row and column marked. `onPick(row, column)` is called when a square is clicked.
function drawMap(box, row, col, onPick) {
  const map = mapOf(state.head)
  box.hidden = !map || now.scene.isLong
  if (box.hidden) return
  const [cols, rows, field] = box.children, [canvas, rowMark, cellMark] = field.children
  const [rowNames, colNames] = axisNames(state.head.split('.')[0])
  style(box, {'--cell': `${cellSize(map)}px`, '--rows': map.rows, '--cols': map.cols,
              '--row': row, '--col': col})
  drawNames(rows, rowNames, row)
  drawNames(cols, colNames, col)
  rowMark.hidden = row === undefined
  cellMark.hidden = col === undefined || row === undefined
  paint(canvas, map)
  attributes(canvas, {role: 'img', 'aria-label': `Weights of ${nameOf(state.head)}`})
  canvas.onclick = event => onPick(...squareAt(event, map))
  canvas.onpointermove = event => {
    const [i, j] = squareAt(event, map)
    const weight = fixed(map.data[i * map.cols + j])
    canvas.title = `${rowNames[i]} → ${colNames[j]}: ${weight}`
  }
}

function cellSize({rows, cols}) { // in pixels
  const longest = Math.max(rows, cols)
  if (longest <= 18) return 24
  return longest <= 30 ? 16 : 11
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

export {paint, axisNames, drawMap}
