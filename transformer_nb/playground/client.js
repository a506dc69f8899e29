// The engine: in a worker, so that typing stays smooth, or else in this thread
import {$, el} from './dom.js'
import {fixed} from './words.js'
import {models, now, draw} from './store.js'
import {NOTHING} from './parts.js'

const waiting = new Map() // by number: messages without an answer yet
let send, n_sent = 0

function request(method, args = {}, {onProgress, transfer = []} = {}) {
  return new Promise((resolve, reject) => {
    const id = ++n_sent
    waiting.set(id, {resolve, reject, onProgress})
    send({id, method, args}, transfer)
  })
}

function receive({id, result, progress, error}) {
  const asked = waiting.get(id)
  if (progress) return asked.onProgress?.(progress)
  waiting.delete(id)
  if (!error) return asked.resolve(result)
  const {name, message} = error
  asked.reject(Object.assign(new Error(message), {name}))
}

function startInThisThread(source) {
  document.head.append(el('script', {textContent: source}))
  send = message => modules.worker.handle(message, receive)
}

function startEngine() {
  const source = $('engine').textContent
  return new Promise(resolve => {
    const here = () => {
      startInThisThread(source)
      resolve()
    }
    try {
      const file = new Blob([source], {type: 'text/javascript'})
      const worker = new Worker(URL.createObjectURL(file))
      worker.onmessage = event => receive(event.data)
      worker.onerror = here
      send = (message, transfer) => worker.postMessage(message, transfer)
      request('models').then(resolve) // of which it has none yet: but it runs
    } catch { here() }
  })
}

function takeWeights(key) { // out of the page, where they would stay as text
  const node = $(`weights-${key}`), text = node.textContent.trim()
  node.remove()
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text).buffer
  return Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer
}

async function load() {
  await startEngine()
  const headers = [...document.querySelectorAll('script[id^="model-"]')]
  const files = headers.map(node => {
    const weights = takeWeights(node.id.replace('model-', ''))
    return {header: JSON.parse(node.textContent), weights}
  })
  const transfer = files.map(file => file.weights)
  await request('load', {models: files}, {transfer})
  for (const model of await request('models')) models[model.key] = model
}

// Does this browser compute what PyTorch did? One log-probability says so.
async function checkItself() {
  for (const {key, check} of Object.values(models)) {
    if (!check) continue
    const {log_prob} = await request('inspect', {model: key, ...check, broken: NOTHING})
    if (Math.abs(log_prob - check.log_prob) < 0.01) continue
    now.wrong = `The self-check failed. This browser computes log p ${fixed(log_prob, 3)}, `
      + `where PyTorch has ${fixed(check.log_prob, 3)}: do not trust what you see.`
  }
}

// Scripts ask one after the other, and the page waits for them
const guests = {n: 0, line: Promise.resolve()}
function call(method, args, onProgress) {
  guests.n++
  const turn = guests.line.then(() => request(method, args, {onProgress}))
  guests.line = turn.catch(() => {}).finally(() => {
    guests.n--
    draw()
  })
  return turn
}

export {request, load, checkItself, guests, call}
