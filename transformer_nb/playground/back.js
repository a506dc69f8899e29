// The way back: whoever cannot read the translation reads what it becomes when it is
// translated back, by the model of the same kind that is in this page or in one beside it
import {$, attributes, write} from './dom.js'
import {now, models, model, languages, draw} from './store.js'
import {ask, whyNot} from './answers.js'

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
  const text = now.scene?.written.text
  $('way-back').hidden = !name || !text || !isInside && !isWanted
  if (!$('way-back').hidden) drawText(questionBack(name, text))
}

function questionBack(name, text) { // that model searches as it always does
  return name in models ? ['translate', {model: name, text}]
    : ['beside', {address: name, text}]
}

function drawText(question) {
  const answer = ask(...question), trouble = whyNot(...question)
  const [title, text] = $('way-back').children
  $('way-back').classList.toggle('old', !answer && !trouble)
  write(title, trouble ? `It cannot be read back: ${trouble}.` : 'Read back:')
  text.lang = languages().src
  if (trouble) write(text, '')
  if (answer) write(text, answer.text)
}

export {allModels, titleOf, directionBack, modelBack, drawBack}
