// The page that `tnb_export MODEL page.html` writes: draws everything, and begins
import {$, phone, el, button, attributes, write, keep, choose, glide} from './dom.js'
import {state, now, models, past, model, languages, onUpdate, onDraw, draw, update,
        undo} from './store.js'
import {percent} from './words.js'
import {firstHead} from './parts.js'
import {load, checkItself} from './client.js'
import {askEngine, isBeside, answerBeside} from './connection.js'
import {startDrawing, pump, tryAgain} from './answers.js'
import {exactly, finish} from './reading.js'
import {MAX_DRAWN, lookAtScene} from './scene.js'
import {sentence, isKept} from './sentences.js'
import {listenToText} from './field.js'
import {VIEWS, pinFor, exampleText, linkedText, writeHash, remember, viewOfHash,
        readHash, searchChoices} from './address.js'
import {drawStage, speakSoon, listenToChips} from './stage.js'
import {drawSticky, listenToScrolling} from './sticky.js'
import {isShuffled, reset} from './experiments.js'
import {drawType} from './view_type.js'
import {drawLook} from './view_look.js'
import {drawBreak} from './view_break.js'
import {drawStep, listenToSteps} from './view_step.js'
import {drawInside} from './view_inside.js'
import {drawMachine, listenToMachine} from './view_machine.js'
import {followTheme, linkChapters} from './book.js'
import {drawPresent, listenToSharing} from './share.js'
import {startTour, followTour, listenToTour, drawTourButton} from './tour.js'
import {drawModels} from './others.js'
import {drawRoving, onKey} from './keys.js'

const DRAW = {type: drawType, looked: drawLook, break: drawBreak, step: drawStep,
              inside: drawInside, machine: drawMachine}

function drawPage() {
  if (!state.model) return write($('status'), now.trouble || now.loading)
  startDrawing()
  lookAtScene()
  showAll()
  drawStage()
  drawSticky()
  drawTabs()
  drawEmptiness()
  DRAW[state.view]()
  followTour()
  drawPresent()
  drawRoving()
  speakSoon()
  pump()
}

// What stands below the translation waits for the first one, or it would jump
function showAll() {
  if (now.scene || !sentence() || isKept()) document.body.classList.add('ready')
}

// Until the weights are here, the page shows its first example and the translation of that,
// but not below another text, which a link or the reader may bring
function drawFirst() {
  if (state.model || $('text').value === $('text').defaultValue) return
  for (const id of ['src', 'tgt']) $(id).replaceChildren()
  write($('field-note').firstElementChild, 'Loading the model…')
}

function showLoading(share) {
  now.loading = `The model is on its way: ${percent(share)} of it is here.`
  draw()
}

function drawTabs() {
  keep($('tabs'), Object.keys(VIEWS), button('tab'), (node, view) => {
    const isChosen = state.view === view
    write(node, VIEWS[view])
    node.id = `tab-${view}`
    node.onclick = () => goToView(view)
    attributes(node, {role: 'tab', 'aria-controls': `panel-${view}`,
                      'aria-selected': isChosen})
    $(`panel-${view}`).hidden = !isChosen
  })
}

function goToView(view) {
  update({view, pin: pinFor(view), box: null}, {push: true})
  showView()
}

// Most of the screen is for the view. Above it stand the tabs and, where there is room, the
// tokens; on a phone the line at the top repeats them.
function showView() {
  const {top, bottom} = $('tabs').getBoundingClientRect(), most = 0.4 * innerHeight
  if (top >= 0 && bottom <= most) return
  const above = bottom - $('src').getBoundingClientRect().top
  glide(phone.matches || above > most ? $('tabs') : $('src'), 'start')
}

function drawEmptiness() { // why a view shows nothing
  const {scene} = now, isOfMaps = ['machine', 'looked', 'inside'].includes(state.view)
  const isTooLong = scene?.isLong && isOfMaps
  $('nothing').hidden = Boolean(scene) && !isTooLong
  $('views').classList.toggle('empty', !scene)
  const empty = sentence() ? '' : 'Type a sentence above, or choose an example.'
  write($('nothing'), isTooLong ? `More than ${MAX_DRAWN} tokens: no maps here.` : empty)
}

// What changes only with the model

function drawChoices() {
  const {beams, alphas} = searchChoices()
  const options = numbers => numbers.map(n => [n, n])
  drawModels(chooseModel)
  drawExamples()
  choose($('beam'), options(beams), state.beam, x => update({beam: Number(x)}))
  choose($('alpha'), options(alphas), state.alpha, x => update({alpha: Number(x)}))
  drawLanguages()
  drawTourButton()
}

function chooseModel(key, text) { // by default its first example
  const {beam_size, alpha} = models[key].search
  Object.assign(state, {model: key, off: [], force: [], pin: null, box: null,
                        beam: beam_size, alpha})
  past.length = 0
  drawChoices()
  update({head: firstHead(), text: text ?? exampleText()})
}

function drawExamples() {
  const examples = model().examples ?? [], {src} = languages()
  const newExample = () => el('li', {}, button('example')(), el('small'))
  $('examples').hidden = !examples.length
  keep($('examples-list'), examples, newExample, (node, {text, shows}) => {
    const [name, small] = node.children
    write(name, text)
    write(small, shows ?? '')
    name.lang = src
    name.onclick = () => chooseExample(text)
  })
}

function chooseExample(text) {
  $('examples').open = false
  past.length = 0
  update({text, nth: 0, off: []})
  $('text').focus()
}

function drawLanguages() {
  const {title, src, tgt, n_parameters, checksum, read, credit, promise} = model()
  const codes = languages()
  for (const node of [$('text'), $('src')]) node.lang = codes.src
  const targets = [$('tgt'), $('spoken').firstChild, $('cards'), $('steps'),
                   $('banner-old').lastElementChild]
  for (const node of targets) node.lang = codes.tgt
  $('smoothing').hidden = !read // what other models were trained with, nobody says
  write($('promise'), promise)
  write($('src-name'), src ?? 'Source')
  write($('tgt-name'), tgt ?? 'Target')
  write($('about'), `${title}, ${n_parameters.toLocaleString('en')} parameters, `
    + `checksum ${checksum.slice(0, 8)}. ${credit ?? ''}`)
}

// On a phone the sentence, its translation and what to try come first

function placeChoices() {
  if (phone.matches) $('notes').after($('choices'))
  else document.querySelector('header').append($('choices'))
  const before = $(phone.matches ? 'views' : 'read-back')
  before.after($('taken'))
}

// What the reader does

function listen() {
  listenToText()
  listenToChips($('src'))
  listenToChips($('tgt'))
  listenToSteps()
  listenToMachine()
  listenToScrolling()
  listenToSharing()
  listenToTour(goToLink)
  document.addEventListener('keydown', onKey)
  $('undo').onclick = undo
  $('again').onclick = tryAgain
  $('exact').onclick = () => update({exact: !state.exact})
  $('reset').onclick = () => {
    if (state.off.length || state.force.length || isShuffled()) reset()
  }
  addEventListener('pointerdown', event => {
    if (!$('examples').contains(event.target)) $('examples').open = false
  })
  addEventListener('popstate', onHistory)
  addEventListener('resize', draw)
  phone.onchange = placeChoices
}

function onHistory(event) { // our own entries are views; a link brings everything
  if (event.state === 'ours') return update(viewBefore())
  goToLink(location.hash)
}

function viewBefore() {
  const view = viewOfHash()
  return {view, pin: pinFor(view)}
}

function goToLink(hash) {
  readHash(hash)
  drawChoices()
  update({})
}

async function begin() {
  if (isBeside()) return serve()
  followTheme()
  linkChapters()
  placeChoices()
  onDraw(drawPage)
  draw()
  $('text').value = linkedText() ?? $('text').value // or what a browser brings back
  $('text').oninput = drawFirst
  drawFirst()
  await load(showLoading)
  await checkItself()
  state.model = Object.keys(models)[0]
  remember('replaceState', location.hash)
  onUpdate((patch, push) => {
    if ('text' in patch) $('text').value = state.text // else it may be further than we are
    writeHash(push)
  })
  listen()
  const isForTour = /^#tour\b/.test(location.hash)
  const typed = $('text').value // meanwhile
  goToLink(location.hash)
  if (typed && typed !== state.text) update({text: typed})
  if (isForTour && model().tour?.length) startTour()
}

async function serve() { // in a frame of the page beside, whose translations it reads back
  answerBeside(async text => {
    await tnb.ready
    if (now.wrong) throw new Error('the self-check of that page has failed')
    return tnb.translate(text)
  })
  await load()
  await checkItself()
}

// For scripts: `await tnb.ready`, then `await tnb.translate('A dog is running.')`, which
// reads a text as the page does; with {exact: true}, as it is typed
const call = (method, args, onProgress) => askEngine(method, args, {onProgress})
const tnb = {call, ready: begin().catch(fail)}
tnb.translate = async (text, {exact = false, model: key, ...options} = {}) => {
  await tnb.ready
  const model = key ?? state.model ?? Object.keys(models)[0], {reader} = models[model]
  const parts = reader.paragraphs(text, exact)
  const typed = parts.flatMap(part => exact ? part : reader.split(part))
  const read = typed.map(sentence => exact ? exactly(sentence) : reader.read(sentence))
  const answers = await Promise.all(read.map(
    ({read: text}) => call('translate', {model, text, ...options})))
  const sum = name => answers.reduce((total, answer) => total + answer[name], 0)
  return {text: answers.map(({text}, i) => finish(read[i], text)).join(' '),
          ids: answers.flatMap(({ids}) => ids), score: sum('score'), ms: sum('ms')}
}

function fail(error) {
  now.trouble = `The engine failed: ${error.message}`
  state.model = null
  draw()
}

globalThis.tnb = tnb
export {tnb}
