// A weight from 0 to 1 as a color, and a map of weights as a picture
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

export {color, paint}
