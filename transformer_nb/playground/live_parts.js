// What the live figures of the chapters share: controls, drawings, and words for all ears
import {el, make, attributes, write, keep, shape, selectsSample} from './dom.js'

// ---- Controls --------------------------------------------------------------------------

let n_named = 0
const newId = () => `live-${++n_named}`

// `says` writes its value, for the eye and for the ear; `set` moves it without `onInput`
function slider(name, {min, max, step = 1, value, says = String}, onInput) {
  const id = newId(), input = el('input', {type: 'range', id})
  const shown = el('span', {ariaHidden: true})
  attributes(input, {min, max, step})
  const set = x => {
    input.value = x
    write(shown, says(x))
    input.setAttribute('aria-valuetext', says(x))
  }
  input.oninput = () => {
    const x = Number(input.value)
    set(x)
    onInput(x)
  }
  set(value)
  const label = el('label', {htmlFor: id, textContent: name})
  const node = el('div', {className: 'live-slider'}, label, input, shown)
  return {node, input, set}
}

// Buttons that set the figure; presets are [text, what happens]
function presets(name, all) {
  const box = el('div', {className: 'live-presets', role: 'group', ariaLabel: name})
  keep(box, all, make('button'), (node, [text, onclick]) => {
    Object.assign(node, {type: 'button', onclick})
    write(node, text)
  })
  return box
}

const PAUSE = 250 // ms without a key, before what was typed is used

function textField(name, {value, lang = '', maxLength = tnb.longest}, onText) {
  const id = newId(), input = el('input', {type: 'text', id, value, lang, maxLength})
  const full = el('span', {className: 'live-full', role: 'status'})
  const words = `The field is full: ${maxLength} characters.`
  Object.assign(input, {autocomplete: 'off', spellcheck: false})
  let timer, sample = value
  selectsSample(input, text => text === sample)
  input.oninput = ({isComposing}) => {
    write(full, input.value.length < maxLength ? '' : words)
    clearTimeout(timer)
    if (!isComposing) timer = setTimeout(() => onText(input.value), PAUSE)
  }
  input.addEventListener('compositionend', () => input.oninput({}))
  const label = el('label', {htmlFor: id, textContent: name})
  const set = text => {
    input.value = sample = text
    write(full, '')
    onText(text)
  }
  return {node: el('div', {className: 'live-field'}, label, full, input), input, set}
}

// ---- Words -----------------------------------------------------------------------------

const QUIET = 700 // ms without a change, before a screen reader says what is new

function caption() { // a line that says what the figure shows
  const shown = el('p', {className: 'live-says'})
  const spoken = el('p', {className: 'unseen', role: 'status'})
  let timer
  const tell = text => {
    write(shown, text)
    clearTimeout(timer)
    timer = setTimeout(() => write(spoken, text), QUIET)
  }
  return {node: el('div', {}, shown, spoken), tell}
}

// ---- Drawings --------------------------------------------------------------------------

// As wide as its place, in pixels of the screen: text is as large on a phone as elsewhere.
// `paint(svg, width)` draws it anew whenever that is called for, and returns its height if
// that is another one.
function drawing(height, paint) {
  const svg = shape('svg', {role: 'img', height})
  const draw = () => {
    const {width} = svg.getBoundingClientRect()
    if (!width) return
    svg.replaceChildren()
    const used = paint(svg, width) ?? height
    attributes(svg, {height: used, viewBox: `0 0 ${width} ${used}`})
  }
  new ResizeObserver(draw).observe(svg)
  return {svg, draw}
}

function scale([low, high], [from, to]) { // numbers -> pixels
  const perUnit = (to - from) / (high - low)
  return x => from + (x - low) * perUnit
}

// Axes with ticks; x and y are {domain, ticks, name, says}. Returns both scales.
function axes(svg, width, height, x, y) {
  const left = 50, right = width - 22, top = 22, bottom = height - 40
  const toX = scale(x.domain, [left, right])
  const toY = scale(y.domain, [bottom, top])
  const text = (words, at) => svg.append(shape('text', at, words))
  for (const tick of x.ticks) {
    text(x.says(tick), {x: toX(tick), y: bottom + 17, class: 'middle'})
    svg.append(shape('path', {d: `M${toX(tick)},${bottom}v4`, class: 'axis'}))
  }
  for (const tick of y.ticks) {
    text(y.says(tick), {x: left - 7, y: toY(tick) + 4, class: 'end'})
    svg.append(shape('path', {d: `M${left},${toY(tick)}H${right}`, class: 'grid'}))
  }
  text(x.name, {x: right, y: bottom + 34, class: 'end name'})
  text(y.name, {x: 2, y: 11, class: 'name'})
  svg.append(shape('path', {d: `M${left},${top}V${bottom}H${right}`, class: 'axis'}))
  return {toX, toY}
}

function line(points, {toX, toY}, values) { // through points [x, y]
  const steps = points.map(([x, y]) => `${toX(x).toFixed(1)},${toY(y).toFixed(1)}`)
  return shape('path', {d: `M${steps.join('L')}`, ...values})
}

export {slider, presets, textField, caption, drawing, scale, axes, line}
