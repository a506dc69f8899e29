// Elements: found, made, filled. A drawing function is called again whenever something has
// changed; what is right already is left alone, so that focus and selection stay.
const $ = id => document.getElementById(id)

function el(tag, props = {}, ...children) {
  const node = Object.assign(document.createElement(tag), props)
  node.append(...children)
  return node
}

const phone = matchMedia('(max-width: 700px)')

const make = (tag, ...children) => () => el(tag, {}, ...children.map(name => el(name)))
const button = className => () => el('button', {type: 'button', className})

function attributes(node, values) {
  for (const [name, value] of Object.entries(values)) node.setAttribute(name, value)
}

function style(node, values) { // style attributes are forbidden here, properties are not
  for (const [name, value] of Object.entries(values)) node.style.setProperty(name, value)
}

function enable(node, isEnabled) { // `disabled` would take the focus from who just used it
  node.setAttribute('aria-disabled', !isEnabled)
}

const isStill = () => matchMedia('(prefers-reduced-motion: reduce)').matches

function glide(node, block) { // until it is seen
  node.scrollIntoView({block, behavior: isStill() ? 'auto' : 'smooth'})
}

// The page's own text is replaced by what is typed; a second click sets the cursor
function selectsSample(input, isSample) {
  let isNew // has the reader just come to the field?
  const select = ({type}) => {
    if (type === 'focus') isNew = true
    if (isNew && isSample(input.value)) input.select()
    if (type === 'click') isNew = false
  }
  for (const type of ['focus', 'click']) input.addEventListener(type, select)
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text
}

// In several languages: parts are strings, or [text, language]
function writeMixed(node, parts) {
  const key = JSON.stringify(parts)
  if (node.written === key) return
  node.written = key
  const ofOther = ([textContent, lang]) => el('span', {textContent, lang})
  node.replaceChildren(...parts.map(x => typeof x === 'string' ? x : ofOther(x)))
}

function keep(box, items, make, fill) { // as many children as items
  while (box.children.length > items.length) box.lastElementChild.remove()
  items.forEach((item, i) => {
    const child = box.children[i] ?? box.appendChild(make(item, i))
    fill(child, item, i)
  })
}

function shape(tag, values = {}, ...children) { // of an SVG
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag)
  attributes(node, values)
  node.append(...children)
  return node
}

const drawn = (box, ...what) => box.appendChild(shape(...what))

// A button that takes a step again and again, until `onStep` returns false
function player(button, tempo, onStep, onStart = () => {}) { // -> what stops it
  let timer
  const stop = () => {
    clearInterval(timer)
    timer = undefined
    write(button, 'Play')
  }
  button.onclick = () => {
    if (timer) return stop()
    onStart()
    timer = setInterval(() => onStep() || stop(), tempo)
    write(button, 'Stop')
  }
  return stop
}

// Options are [key, text]
function choose(select, options, value, onPick) {
  keep(select, options, make('option'), (node, [key, text]) => {
    node.value = key
    write(node, String(text))
  })
  select.value = value
  select.onchange = () => onPick(select.value)
}

function segments(box, name, options, value, onPick) { // a row of radio buttons
  const newSegment = () => el('label', {}, el('input', {type: 'radio', name}), el('span'))
  keep(box, options, newSegment, (node, [key, text]) => {
    const [input, span] = node.children
    Object.assign(input, {checked: key === value, onchange: () => onPick(key)})
    write(span, text)
  })
}

export {$, phone, el, make, button, attributes, style, enable, isStill, glide,
        selectsSample, write, writeMixed, keep, shape, drawn, player, choose, segments}
