// The first page, and chapter 00: a model that learns to copy, as pictures of its training.
// A row for each token that it writes, a column for each that it reads; the bluer a square,
// the more attention.
import {EOS} from './shared.js'
import {el, shape, player, isStill} from './dom.js'
import {range} from './words.js'
import {slider, caption, drawing, scale} from './live_parts.js'
import {modelHeader} from './live_model.js'

const LEFT = 62, TOP = 44, WIDEST = 460, TEMPO = 350

const name = id => id === EOS ? 'end' : String(id)

function squares(svg, weights, to, size) {
  weights.forEach((row, i) => row.forEach((w, j) => {
    const at = {x: to(j), y: TOP + size * i, width: size, height: size}
    svg.append(shape('rect', {...at, class: 'square', 'fill-opacity': w / 100}))
  }))
}

function names(svg, {source, written}, to, size) {
  const middle = i => TOP + size * (i + 0.5) + 4
  const text = (words, x, y, kind) => svg.append(shape('text', {x, y, class: kind}, words))
  source.forEach((id, j) => text(name(id), to(j + 0.5), TOP - 6, 'middle'))
  written.forEach((id, i) => {
    const kind = id === source[i] ? 'end' : 'end wrong'
    text(name(id), LEFT - 8, middle(i), kind)
  })
  text('reads', to(0), 14, 'name')
  text('writes', 0, TOP - 6, 'name')
}

function paint(svg, width, picture) {
  const n = picture.source.length, right = Math.min(width, WIDEST)
  const to = scale([0, n], [LEFT, right]), size = to(1) - to(0)
  const frame = {x: LEFT, y: TOP, width: size * n, height: size * n, class: 'frame'}
  squares(svg, picture.weights, to, size)
  svg.append(shape('rect', frame))
  names(svg, picture, to, size)
  return TOP + size * n + 4
}

function inWords({step, loss, exact, of, source, written}) {
  const n_right = range(source.length).filter(i => source[i] === written[i]).length
  return `After ${step} steps the loss is ${loss.toFixed(2)}. Of this sequence, ${n_right} `
    + `of ${source.length} tokens are right (a wrong one is struck out), and ${exact} of `
    + `${of} sequences that the model has never seen are copied without a mistake.`
}

async function learning(stage) {
  const {pictures, shown} = await modelHeader('learning'), says = caption()
  let at = isStill() ? shown : 0
  const map = drawing(380, (svg, width) => paint(svg, width, pictures[at]))
  map.svg.setAttribute('aria-label', 'Where the model looks: the diagonal is right')
  const show = i => {
    at = i
    map.draw()
    says.tell(inWords(pictures[at]))
  }
  const steps = slider('step of the training', {
    min: 0, max: pictures.length - 1, value: at, says: i => String(pictures[i].step),
  }, show)
  const button = el('button', {type: 'button', textContent: 'Play'})
  const goTo = i => {
    steps.set(i)
    show(i)
  }
  const isOver = () => at === pictures.length - 1
  const stop = player(button, TEMPO, () => {
    if (!isOver()) goTo(at + 1)
    return !isOver()
  }, () => isOver() && goTo(0))
  steps.input.addEventListener('input', stop)
  const controls = el('div', {className: 'live-play'}, button, steps.node)
  stage.replaceChildren(controls, map.svg, says.node)
  show(at)
  if (!isStill()) whenSeen(map.svg, () => at || button.click()) // if it is where it was
}

function whenSeen(node, begin) { // once
  const watcher = new IntersectionObserver(([{isIntersecting}]) => {
    if (!isIntersecting) return
    watcher.disconnect()
    begin()
  }, {threshold: 0.7})
  watcher.observe(node)
}

export {learning}
