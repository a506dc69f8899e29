// The page that `tnb_export MODEL page.html` writes: draws everything, and begins
import {$, button, attributes, write, keep, choose} from './dom.js'
import {state, now, models, past, model, onUpdate, onDraw, draw, update, change,
        undo} from './store.js'
import {firstHead} from './parts.js'
import {load, checkItself, call} from './client.js'
import {queue, pump} from './answers.js'
import {lookAtScene} from './scene.js'
import {VIEWS, exampleText, writeHash, remember, viewOfHash, readHash,
        searchChoices} from './address.js'
import {drawStage, speakSoon, listenToChips} from './stage.js'
import {drawType} from './view_type.js'
import {drawLook} from './view_look.js'
import {drawBreak} from './view_break.js'
import {drawStep, listenToSteps} from './view_step.js'
import {drawInside} from './view_inside.js'
import {drawRoving, onKey} from './keys.js'

const DRAW = {type: drawType, looked: drawLook, break: drawBreak, step: drawStep,
              inside: drawInside}

function drawPage() {
  if (!state.model) return write($('status'), now.trouble || 'Loading the model…')
  queue.wanted = []
  lookAtScene()
  drawStage()
  drawTabs()
  DRAW[state.view]()
  drawRoving()
  speakSoon()
  pump()
}

function drawTabs() {
  keep($('tabs'), Object.keys(VIEWS), button('tab'), (node, view) => {
    const isChosen = state.view === view
    write(node, VIEWS[view])
    node.id = `tab-${view}`
    node.onclick = () => update({view}, {push: true})
    attributes(node, {role: 'tab', 'aria-controls': `panel-${view}`,
                      'aria-selected': isChosen})
    $(`panel-${view}`).hidden = !isChosen
  })
}

// What changes only with the model

function drawChoices() {
  const {beams, alphas} = searchChoices()
  const options = numbers => numbers.map(n => [n, n])
  drawModels()
  drawExamples()
  choose($('beam'), options(beams), state.beam, x => update({beam: Number(x)}))
  choose($('alpha'), options(alphas), state.alpha, x => update({alpha: Number(x)}))
  drawLanguages()
}

function drawModels() {
  const options = Object.values(models).map(({key, title}) => [key, title])
  $('model').hidden = options.length < 2
  choose($('model'), options, state.model, chooseModel)
}

function chooseModel(key) {
  const {beam_size, alpha} = models[key].search
  Object.assign(state, {model: key, off: [], force: [], pin: null, beam: beam_size, alpha})
  past.length = 0
  drawChoices()
  update({head: firstHead(), text: exampleText()})
}

function drawExamples() {
  const examples = model().examples ?? []
  const name = ({text, shows}) => shows ? `${text} (${shows})` : text
  const options = examples.map(example => [example.text, name(example)])
  $('example').hidden = !options.length
  choose($('example'), [['', 'Examples'], ...options], '', text => {
    $('example').value = ''
    past.length = 0
    update({text, off: [], force: [], pin: null, step: Infinity})
  })
}

function drawLanguages() {
  const {key, title, src, tgt, n_parameters, checksum} = model()
  const [, source = '', target = ''] = /^([a-z]{2,3})-([a-z]{2,3})$/.exec(key) ?? []
  for (const node of [$('text'), $('src')]) node.lang = source
  for (const node of [$('tgt'), $('spoken').firstChild]) node.lang = target
  write($('src-name'), src ?? 'Source')
  write($('tgt-name'), tgt ?? 'Target')
  write($('about'), `${title}, ${n_parameters.toLocaleString('en')} parameters, `
    + `checksum ${checksum.slice(0, 8)}.`)
}

// What the reader does

const TYPING = 120 // ms without a key, after which the text is read
let typing
function listenToText() {
  const later = () => {
    clearTimeout(typing)
    typing = setTimeout(readText, TYPING)
  }
  $('text').addEventListener('compositionend', later) // of a character of several keys
  $('text').addEventListener('input', event => {
    if (!event.isComposing) later()
  })
}

function readText() {
  const text = $('text').value
  if (text === state.text) return
  for (const before of past) before.force = [] // ids of another sentence's translation
  update({text, force: [], pin: null, step: Infinity})
}

function listen() {
  listenToText()
  listenToChips($('src'))
  listenToChips($('tgt'))
  listenToSteps()
  document.addEventListener('keydown', onKey)
  $('undo').onclick = undo
  $('reset').onclick = () => {
    if (state.off.length || state.force.length) change({off: [], force: []})
  }
  $('as-table').ontoggle = draw
  addEventListener('popstate', onHistory)
  addEventListener('resize', draw)
}

function onHistory(event) { // our own entries are views; a link brings everything
  if (event.state === 'ours') return update({view: viewOfHash()})
  readHash()
  drawChoices()
  update({})
}

async function begin() {
  onDraw(drawPage)
  draw()
  await load()
  await checkItself()
  state.model = Object.keys(models)[0]
  readHash()
  remember('replaceState', location.hash)
  onUpdate((patch, push) => {
    if ('text' in patch) $('text').value = state.text // else it may be further than we are
    writeHash(push)
  })
  listen()
  drawChoices()
  update({})
}

// For scripts: `await tnb.ready`, then `await tnb.translate('A dog is running.')`
const tnb = {call, ready: begin().catch(fail)}
tnb.translate = async (text, options = {}) => {
  await tnb.ready
  const answer = await call('translate', {model: state.model, text, ...options})
  return {text: answer.text, ids: answer.ids, score: answer.score, ms: answer.ms}
}

function fail(error) {
  now.trouble = `The engine failed: ${error.message}`
  state.model = null
  draw()
}

globalThis.tnb = tnb
export {tnb}
