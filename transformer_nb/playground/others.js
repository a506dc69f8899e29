// Other models, in this page or in pages beside it; and the translation turned round
import {$, choose, write} from './dom.js'
import {state, models} from './store.js'
import {firstPin} from './address.js'
import {allModels, directionBack, modelBack} from './back.js'
import {wholeTranslation} from './scene.js'

function goBeside(href, text) {
  const {view} = state, pin = firstPin(view)
  const q = new URLSearchParams({t: text, ...pin ? {pin: pin.replace('t', '')} : {}})
  location.href = `${href}#${view}?${q}`
}

// `chooseModel` is for those of this page
function drawModels(chooseModel) {
  const options = allModels(), back = modelBack()
  const goTo = (name, text) => name in models ? chooseModel(name, text)
    : goBeside(name, text ?? state.text)
  $('model').hidden = options.length < (back ? 3 : 2) // else the button is enough
  const pick = name => goTo(name, isTurned(name, options) ? wholeTranslation() : undefined)
  choose($('model'), options, state.model, pick)
  drawTurn(back, goTo)
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
