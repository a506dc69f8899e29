// Other models, in this page or in pages beside it; and the translation turned round
import {$, choose, write} from './dom.js'
import {state, models, model} from './store.js'
import {wholeTranslation} from './stage.js'

const beside = [...document.querySelectorAll('link[rel=alternate]')]
const isHere = link => link.href === location.href.split('#')[0]

function titleOf({title}) { // as the pages around call it
  return Object.keys(models).length === 1 ? beside.find(isHere)?.title ?? title : title
}

function goBeside(href, text) {
  location.href = `${href}#${state.view}?${new URLSearchParams({t: text})}`
}

// `chooseModel` is for those of this page
function drawModels(chooseModel) {
  const inside = Object.values(models).map(model => [model.key, titleOf(model)])
  const others = beside.filter(link => !isHere(link))
  const options = [...inside, ...others.map(({href, title}) => [href, title])]
  const goTo = (name, text) => name in models ? chooseModel(name, text)
    : goBeside(name, text ?? state.text)
  $('model').hidden = options.length < 2
  choose($('model'), options, state.model, name => goTo(name))
  drawTurn(options, goTo)
}

function drawTurn(options, goTo) { // into the other language, with what was translated
  const {src, tgt} = model(), direction = `${tgt} → ${src}`
  const back = titleOf(model()).replace(`${src} → ${tgt}`, direction)
  const found = options.find(([, title]) => title === back)
  $('turn').hidden = !found
  write($('turn'), `⇄ ${direction}`)
  $('turn').onclick = () => goTo(found[0], wholeTranslation())
}

export {drawModels}
