// Requests: what the page asks the engine. Whoever draws asks for what it needs, draws with
// what is here, and is called again. This is the one place that decides what is begun, what
// is stopped for something that is wanted more, what is kept, and what is tried again.
import {draw, drawSoon} from './store.js'
import {askEngine, askBeside} from './connection.js'

const MAX_KEPT = 80
const requests = new Map() // by what was asked
const queue = {wanted: [], asked: [], running: null, trouble: ''} // of the last drawing
const shown = {} // by name: the last answer, which stays until the next one is here

function find(method, args) {
  const key = JSON.stringify([method, args])
  return requests.get(key) ?? {key, method, args, state: 'new'}
}

function startDrawing() { Object.assign(queue, {wanted: [], asked: [], trouble: ''}) }

function ask(method, args) { // -> the answer, or what is here of it
  const request = find(method, args), {state, answer, parts, error} = request
  queue.asked.push(request)
  if (state === 'new' || state === 'running') queue.wanted.push(request)
  if (state === 'failed') queue.trouble ||= error.message
  return answer ?? parts
}

const whyNot = (method, args) => find(method, args).error?.message

// For an action: it gets the answer to its own question, whatever is wanted next
function answerTo(method, args) {
  const request = find(method, args)
  if (request.state === 'new') begin(request)
  request.isHeld = true
  return request.done
}

function latest(name, answer) {
  if (answer) shown[name] = answer
  return shown[name]
}

// A request is new, then running, then answered or failed. One that is stopped is forgotten:
// who asks again makes a new one, and what still comes of the old one changes nothing.
function begin(request) {
  const {key, method, args} = request, stopper = new AbortController()
  const onProgress = ({key: name, value}) => {
    request.parts = {...request.parts, [name]: value}
    drawSoon()
  }
  Object.assign(request, {state: 'running', stopper})
  requests.set(key, request)
  request.done = method === 'beside' ? askBeside(args)
    : askEngine(method, args, {onProgress, signal: stopper.signal})
  request.done.then(answer => end(request, {state: 'answered', answer}),
                     error => end(request, {state: 'failed', error}))
}

function end(request, how) {
  if (request.stopper.signal.aborted) return
  Object.assign(request, how)
  if (queue.running === request) queue.running = null
  const isOld = other => other.state === 'answered' && !queue.asked.includes(other)
  const oldest = requests.size > MAX_KEPT && [...requests.values()].find(isOld)
  if (oldest) requests.delete(oldest.key)
  draw()
}

function stop(request) {
  if (request.isHeld) return
  requests.delete(request.key)
  request.stopper.abort()
}

// What the engine computes in one go, or another page does, runs beside all else
const isBeside = ({method}) => ['vectors', 'pair', 'beside'].includes(method)

function pump() { // of all that takes long, what is wanted first runs
  forget(request => !queue.asked.includes(request))
  for (const request of queue.wanted.filter(isBeside))
    if (!requests.has(request.key)) begin(request)
  const next = queue.wanted.find(request => !isBeside(request))
  if (!next || next === queue.running) return
  if (queue.running) stop(queue.running)
  queue.running = next
  if (next.state === 'new') begin(next)
}

function forget(isOver) { // what failed: when nobody asks for it, or it shall be tried again
  for (const request of requests.values())
    if (request.state === 'failed' && isOver(request)) requests.delete(request.key)
}

function tryAgain() {
  forget(() => true)
  draw()
}

export {queue, shown, startDrawing, ask, answerTo, whyNot, latest, pump, tryAgain}
