// A picture of the stage, to keep or to send: both sentences, the lines between them, and
// what has been done to the model
import {$, el} from './dom.js'
import {model, pointed} from './store.js'

const SHARP = 2            // pixels of the picture for one of the page
const EDGE = 24, LINE = 26 // pixels of the page
const ARC = 30             // as high as lines rise above the sentence
const MIN_WIDTH = 360      // of the words below

function wordsBelow() {
  const {title, n_parameters} = model(), words = [whatIsSeen()], old = $('banner-old')
  if ($('banner').matches('.some')) words.push($('banner-text').textContent)
  if (!old.hidden) words.push(`before: “${old.lastChild.textContent}”`)
  const count = n_parameters.toLocaleString('en')
  const from = `${title}: a Transformer of ${count} parameters, in a browser.`
  const sign = isMachine() ? '' : signature() // that is signed itself
  return [...words, [from, sign].filter(Boolean).join(' ')]
}

const isMachine = () => $('machine-picture').checkVisibility()
const SEEN = 'Lines are attention: the thicker, the more. Tiles are vectors: blue is above '
  + 'zero, orange below. Bars are probabilities of the next token.'

function whatIsSeen() {
  if (isMachine()) return SEEN
  const find = selector => document.querySelector(selector)
  const says = ['Above, the tokens of the sentence; below, those of its translation.']
  if (find('.looked')) {
    const token = find(`[data-at="${pointed()}"] > span`).textContent
    const whose = find('#lines-of :checked + span').textContent
    says.push(`The bluer a token, the more attention between it and “${token}” (${whose}).`)
  }
  if (find('#tgt:not(.plain) small:not(:empty)')) {
    says.push('Under a token, the word that it looked at most.')
  }
  if (find('.changed')) says.push('Orange: new, since parts of the model are off.')
  return says.join(' ')
}

const book = () => document.querySelector('link[rel=contents]')?.title ?? ''
const isOnTheWeb = () => location.protocol.startsWith('http')
const signature = () => [book(), address()].filter(Boolean).join(', ')
const address = () => isOnTheWeb() ? location.host + location.pathname : ''

function inRows(g, text, width) { // -> lines no wider than that
  return text.split(' ').reduce(([line, ...before], word) => {
    const longer = line ? `${line} ${word}` : word
    const fits = !line || g.measureText(longer).width <= width
    return fits ? [longer, ...before] : [word, line, ...before]
  }, ['']).reverse()
}

function drawPicture() { // -> canvas
  const canvas = el('canvas'), g = canvas.getContext('2d')
  const chips = [...document.querySelectorAll('#sides .chip')]
  const {left, top} = $('src').getBoundingClientRect(), y = top - ARC
  const {bottom} = $('sides').getBoundingClientRect()
  const {font} = getComputedStyle($('experiment-says'))
  g.font = font
  const ends = chips.map(chip => chip.getBoundingClientRect().right - left)
  const width = Math.max(MIN_WIDTH, ...ends)
  const words = wordsBelow().flatMap(text => inRows(g, text, width))
  canvas.width = SHARP * (width + 2 * EDGE)
  canvas.height = SHARP * (bottom - y + LINE * words.length + 2 * EDGE)
  g.fillStyle = getComputedStyle(document.body).backgroundColor
  g.fillRect(0, 0, canvas.width, canvas.height)
  g.setTransform(SHARP, 0, 0, SHARP, SHARP * (EDGE - left), SHARP * (EDGE - y))
  chips.forEach(chip => paintChip(g, chip))
  document.querySelectorAll('#lines path').forEach(path => paintLine(g, path))
  Object.assign(g, {font, fillStyle: getComputedStyle(document.body).color})
  Object.assign(g, {textAlign: 'left', textBaseline: 'top'})
  words.forEach((text, i) => g.fillText(text, left, bottom + LINE * i))
  return canvas
}

function paintChip(g, chip) {
  const {x, y, width, height} = chip.getBoundingClientRect()
  const share = Number(chip.style.getPropertyValue('--w')) // it was looked at so much
  g.fillStyle = getComputedStyle(chip).backgroundColor
  g.fillRect(x, y, width, height)
  g.fillStyle = getComputedStyle(chip, '::after').backgroundColor
  g.fillRect(x, y + height + 1, width * share, 3)
  for (const node of chip.children) if (node.offsetWidth) paintText(g, node)
}

function paintText(g, node) {
  const {x, y, width, height} = node.getBoundingClientRect()
  const {font, color} = getComputedStyle(node)
  Object.assign(g, {font, fillStyle: color, textAlign: 'center', textBaseline: 'middle'})
  g.fillText(node.textContent, x + width / 2, y + height / 2)
  const isNew = node.matches('.changed > span')
  if (isNew) g.fillRect(x, y + height - 3, width, 2)
}

function paintLine(g, path) {
  const {x, y} = $('lines').getBoundingClientRect()
  const {stroke, opacity} = getComputedStyle(path)
  g.save()
  g.translate(x, y)
  Object.assign(g, {strokeStyle: stroke, globalAlpha: opacity, lineCap: 'round'})
  g.lineWidth = path.getAttribute('stroke-width')
  g.stroke(new Path2D(path.getAttribute('d')))
  g.restore()
}

// The machine is an SVG, whose colors the style sheet gives it
const DRAWN = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'font',
               'stroke-dasharray', 'stroke-linecap', 'paint-order', 'image-rendering',
               'text-decoration-line']

function withStyles(svg) {
  const copy = svg.cloneNode(true), copies = copy.querySelectorAll('*')
  svg.querySelectorAll('*').forEach((node, i) => {
    const style = getComputedStyle(node)
    for (const name of DRAWN) {
      copies[i].style.setProperty(name, style.getPropertyValue(name))
    }
  })
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg')
  return copy
}

async function drawMachine() { // -> canvas
  const svg = $('machine-picture'), canvas = el('canvas'), g = canvas.getContext('2d')
  const {width, height} = svg.getBoundingClientRect(), image = new Image()
  const source = new XMLSerializer().serializeToString(withStyles(svg))
  image.src = `data:image/svg+xml,${encodeURIComponent(source)}`
  await image.decode()
  const {font} = getComputedStyle($('experiment-says'))
  g.font = font
  const words = wordsBelow().flatMap(text => inRows(g, text, width))
  canvas.width = SHARP * (width + 2 * EDGE)
  canvas.height = SHARP * (height + LINE * words.length + 3 * EDGE)
  g.fillStyle = getComputedStyle(document.body).backgroundColor
  g.fillRect(0, 0, canvas.width, canvas.height)
  g.setTransform(SHARP, 0, 0, SHARP, SHARP * EDGE, SHARP * EDGE)
  g.drawImage(image, 0, 0, width, height)
  Object.assign(g, {font, fillStyle: getComputedStyle(document.body).color})
  words.forEach((text, i) => g.fillText(text, 0, height + EDGE + LINE * (i + 0.7)))
  return canvas
}

async function savePicture() {
  const canvas = isMachine() ? await drawMachine() : drawPicture()
  canvas.toBlob(file => {
    const href = URL.createObjectURL(file)
    el('a', {href, download: 'translate-here.png'}).click()
    setTimeout(() => URL.revokeObjectURL(href), 10_000) // by then it has been saved
  })
}

export {savePicture, wordsBelow, inRows, signature}
