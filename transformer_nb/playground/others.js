// Other models, in this page or in pages beside it; and the translation turned round
import {$, choose, write} from './dom.js'
import {state, models, model} from './store.js'
import {firstPin} from './address.js'
import {wholeTranslation} from './stage.js'

const beside = [...document.querySelectorAll('link[rel=alternate]')]
const isHere = link => link.href === location.href.split('#')[0]

function titleOf({title}) { // as the pages around call it
  return Object.keys(models).length === 1 ? beside.find(isHere)?.title ?? title : title
}

function goBeside(href, text) {
  const {view} = state, pin = firstPin(view)
  const q = new URLSearchParams({t: text, ...pin ? {pin: pin.replace('t', '')} : {}})
  location.href = `${href}#${view}?${q}`
}

// `chooseModel` is for those of this page
function drawModels(chooseModel) {
  const inside = Object.values(models).map(model => [model.key, titleOf(model)])
  const others = beside.filter(link => !isHere(link))
  const options = [...inside, ...others.map(({href, title}) => [href, title])]
  const goTo = (name, text) => name in models ? chooseModel(name, text)
    : goBeside(name, text ?? state.text)
  const back = optionBack(options)
  $('model').hidden = options.length < (back ? 3 : 2) // else the button is enough
  const pick = name => goTo(name, isTurned(name, options) ? wholeTranslation() : undefined)
  choose($('model'), options, state.model, pick)
  drawTurn(back, goTo)
}

function optionBack(options) { // the model of the same kind, into the other language
  const {src, tgt} = model()
  const title = titleOf(model()).replace(`${src} → ${tgt}`, directionBack())
  return options.find(option => option[1] === title)
}

function directionBack() {
  const {src, tgt} = model()
  return `${tgt} → ${src}`
}

function isTurned(name, options) { // does it read what this one writes?
  const [, title] = options.find(option => option[0] === name)
  return name !== state.model && title.startsWith(directionBack())
}

function drawTurn(back, goTo) { // with what was translated
  $('turn').hidden = !back
  write($('turn'), `⇄ ${directionBack()}`)
  $('turn').onclick = () => goTo(back[0], wholeTranslation())
}

export {drawModels}
