// Other models, in this page or in pages beside it; and the translation turned round
import {$, choose, write} from './dom.js'
import {state, models, languages} from './store.js'
import {allModels, directionBack, modelBack} from './back.js'
import {isInTarget} from './guess.js'
import {wholeTranslation} from './scene.js'

function goBeside(href, text) {
  location.href = `${href}#${state.view}?${new URLSearchParams({t: text})}`
}

// `chooseModel` is for those of this page
function drawModels(chooseModel) {
  const options = allModels(), back = modelBack()
  const goTo = (name, text) => name in models ? chooseModel(name, text)
    : goBeside(name, text ?? state.text)
  const turnTo = async name => {
    const text = await textThere()
    if (text === undefined) $('model').value = state.model
    else goTo(name, text)
  }
  $('model').hidden = options.length < (back ? 3 : 2) // else the button is enough
  const pick = name => isTurned(name, options) ? turnTo(name) : goTo(name)
  choose($('model'), options, state.model, pick)
  $('turn').hidden = !back
  write($('turn'), `⇄ ${directionBack()}`)
  $('turn').onclick = () => turnTo(back[0])
}

// What the other model shall read: the translation, or what was typed, if that is in its
// language already. Nothing, if there is none, or the reader has typed on meanwhile.
async function textThere() {
  const {text} = state, isThere = isInTarget(text, languages())
  const there = isThere ? text : await wholeTranslation().catch(() => undefined)
  return $('text').value === text ? there : undefined
}

function isTurned(name, options) { // does it read what this one writes?
  const [, title] = options.find(option => option[0] === name)
  return name !== state.model && title.startsWith(directionBack())
}

export {drawModels}
