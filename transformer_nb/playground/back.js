// The way back: whoever cannot read the translation reads what it becomes when it is
// translated back, by the model of the same kind that is in this page or in one beside it
import {$, attributes, write} from './dom.js'
import {now, models, model, languages, draw} from './store.js'
import {ask, whyNot} from './answers.js'
import {finish} from './reading.js'

const beside = [...document.querySelectorAll('link[rel=alternate]')]
const isHere = link => link.href === location.href.split('#')[0]

function titleOf({title}) { // as the pages around call it
  return Object.keys(models).length === 1 ? beside.find(isHere)?.title ?? title : title
}

function allModels() { // of this page, and of those beside it: [key or address, title]
  const inside = Object.values(models).map(model => [model.key, titleOf(model)])
  const others = beside.filter(link => !isHere(link))
  return [...inside, ...others.map(({href, title}) => [href, title])]
}

function directionBack() {
  const {src, tgt} = model()
  return `${tgt} → ${src}`
}

// Of the same kind, into the other language: [key or address, title], or nothing
function modelBack() {
  const {src, tgt} = model(), title = titleOf(model()), forth = `${src} → ${tgt}`
  if (!title.includes(forth)) return // nobody knows its languages
  return allModels().find(option => option[1] === title.replace(forth, directionBack()))
}

// One in this page reads back at once. The page beside is as large as this one: it is
// loaded when the reader wants it, and from then on reads back whatever is translated.
let isWanted = false

function drawBack() {
  const [name] = modelBack() ?? [], isInside = name in models
  $('read-back').hidden = !name || isInside
  attributes($('read-back'), {'aria-pressed': isWanted})
  $('read-back').onclick = () => {
    isWanted = !isWanted
    draw()
  }
  const text = now.scene?.given
  $('way-back').hidden = !name || !text || !isInside && !isWanted
  if (!$('way-back').hidden) drawText(isInside ? byModel(name, text) : byPage(name, text))
}

function byModel(model, text) { // {text, trouble}, of which nothing may be here yet
  const {reader} = models[model], paragraphs = reader.paragraphs(text)
  let trouble
  const typed = paragraphs.flatMap(paragraph => reader.split(paragraph))
  const texts = typed.map(sentence => {
    const read = reader.read(sentence)
    if (!read.read) return sentence
    const question = ['translate', {model, text: read.read}] // as it always searches
    const answer = ask(...question)
    trouble ||= whyNot(...question)
    return answer && finish(read, answer.text)
  })
  return {text: texts.includes(undefined) ? undefined : texts.join(' '), trouble}
}

function byPage(address, text) {
  const question = ['beside', {address, text}]
  return {text: ask(...question)?.text, trouble: whyNot(...question)}
}

function drawText({text, trouble}) {
  const [title, quote] = $('way-back').children
  $('way-back').classList.toggle('old', text === undefined && !trouble)
  write(title, trouble ? `It cannot be read back: ${trouble}.` : 'Read back:')
  quote.lang = languages().src
  quote.hidden = Boolean(trouble)
  if (text !== undefined) write(quote, text)
}

export {allModels, titleOf, directionBack, modelBack, drawBack}
