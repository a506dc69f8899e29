// To the engine: in a worker, so that the page stays smooth, or else in the page's thread
import {el} from './dom.js'

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

function startEngine(source) { // the text of the joined module `worker`
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

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64).buffer
  return Uint8Array.from(atob(base64), c => c.charCodeAt(0)).buffer
}

export {request, startEngine, bytesOf}
