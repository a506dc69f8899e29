// What is wanted (`state`, which the address holds, too), what is here (`now`), and the few
// ways to change what is wanted. Whoever wants to know of changes says so to `onUpdate`.
const state = {
  view: 'type', model: null, text: '',
  nth: 0,             // which sentence of the text is shown
  exact: false,       // read exactly as it is typed, and not as what it means
  force: [],          // ids of the first tokens, up to one that the reader has chosen
  off: [],            // 'cross.3.1' (a head), 'cross.3' (all of a layer), 'no_scale', …
  pin: null,          // 't4': token 4 of the translation; 's2': token 2 of the source
  hover: null,        // the same, while it is pointed at: a preview, which moves no pin
  head: 'cross.1.1', lines: 'layer',
  beam: null, alpha: null,
  step: 1,            // how far the beam is drawn
  row: 0, col: 0,     // the pair whose score is computed by hand
  box: null,          // of the machine, which is open
  present: false,     // for a whole room
}
const now = {
  scene: null,        // the newest translation all of whose numbers are here
  loading: 'Loading the model…',
  busy: false,        // a newer one is wanted
  warnings: [],       // what should be known of the sentence, in words
  trouble: '',        // why there is no model, or no translation
  wrong: '',          // what is wrong with the engine in this browser
  foreign: false,     // the link was made with another model
  ownPin: null,       // the last pin that the reader set, and not a view
  shuffle: null,      // {from, to}: a text, and the same with its words shuffled
}
const models = Object.create(null) // by key, '__proto__' like any other
const past = []       // what was there before each change: for undo

const model = () => models[state.model]

function languages() { // codes of source and target, where the model's key names them
  const [, src = '', tgt = ''] = /^([a-z]{2,3})-([a-z]{2,3})$/.exec(state.model) ?? []
  return {src, tgt}
}

const pointed = () => state.hover ?? state.pin

const listeners = {update: [], draw: []}
const onUpdate = listener => listeners.update.push(listener)
const onDraw = listener => listeners.draw.push(listener)
const draw = () => listeners.draw.forEach(listener => listener())

// In Look and in Machine there are lines before anyone has pointed at anything: those of
// the second token
const firstPin = view => ['looked', 'machine'].includes(view) ? 't1' : null

const sentenceOf = ({model, text, nth, exact}) => JSON.stringify([model, text, nth, exact])

// Another sentence has no token that is fixed or pinned. Push: as a new entry of the history
function update(patch, {push = false} = {}) {
  const view = patch.view ?? state.view, fresh = {force: [], pin: firstPin(view), step: 1}
  const isOther = sentenceOf({...state, ...patch}) !== sentenceOf(state)
  if (isOther) now.ownPin = null
  Object.assign(state, isOther ? fresh : {}, patch)
  if ('text' in patch || 'off' in patch) now.foreign = false
  listeners.update.forEach(listener => listener(patch, push))
  draw()
}

function pinIt(pin, others = {}) { // what the reader pins stays in every view
  now.ownPin = pin
  update({pin, ...others})
}

let timer
function drawSoon() { // ten times a second is enough for what comes in bit by bit
  timer ??= setTimeout(() => {
    timer = undefined
    draw()
  }, 100)
}

function change(patch) { // of what is off or forced, or of the order of words
  const {off, force, text} = state, of = sentenceOf(state)
  past.push({of, off, force, ...'text' in patch ? {text} : {}})
  update(patch)
}

function undo() { // ids of another sentence's translation are not fixed again
  if (!past.length) return
  const {of, ...before} = past.pop()
  const isOther = sentenceOf({...state, ...before}) !== of
  update({...before, ...isOther ? {force: []} : {}})
}

function toggle(part) {
  const rest = state.off.filter(x => x !== part)
  const wasOff = rest.length < state.off.length
  change({off: wasOff ? rest : [...rest, part]})
}

export {state, now, models, past, model, languages, pointed, firstPin, onUpdate, onDraw,
        draw, drawSoon, update, pinIt, change, undo, toggle}
