// To the engine: in a worker, so that the page stays smooth, or else in the page's thread
import {el} from './dom.js'

const waiting = new Map() // by number: messages without an answer yet
let send, n_sent = 0

function askEngine(method, args = {}, {onProgress, signal, transfer = []} = {}) {
  return new Promise((resolve, reject) => {
    const id = ++n_sent
    waiting.set(id, {resolve, reject, onProgress})
    signal?.addEventListener('abort', () => {
      waiting.delete(id)
      reject(signal.reason)
      send({abort: id})
    })
    send({id, method, args}, transfer)
  })
}

function receive({id, result, progress, error}) {
  const asked = waiting.get(id)
  if (!asked) return // it was stopped
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
      askEngine('models').then(resolve) // of which it has none yet: but it runs
    } catch { here() }
  })
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64).buffer
  return Uint8Array.from(atob(base64), c => c.charCodeAt(0)).buffer
}

// A page beside this one, in a frame that is not seen, translates what it is sent
const pages = {} // by address: the promise of a function that asks
const MUST_SPEAK = 5000 // ms after it has been loaded; a page that is missing never does

function askBeside({address, text}) {
  return once(pages, address, () => openBeside(address)).then(asks => asks(text))
}

// What several wait for is made once; what was rejected is forgotten, and tried again
function once(kept, name, make) {
  const forget = error => {
    delete kept[name]
    throw error
  }
  return kept[name] ??= make().catch(forget)
}

function openBeside(address) {
  const frame = el('iframe', {src: `${address}#beside`, hidden: true, title: 'Engine'})
  const ports = new MessageChannel(), asked = new Map()
  return new Promise((resolve, reject) => {
    const asks = text => new Promise((resolve, reject) => {
      const id = ++n_sent
      asked.set(id, {resolve, reject})
      ports.port1.postMessage({id, text})
    })
    ports.port1.onmessage = ({data: {id, answer, error}}) => {
      if (!id) return resolve(asks) // its first words
      if (error) asked.get(id).reject(new Error(error))
      else asked.get(id).resolve(answer)
      asked.delete(id)
    }
    frame.onload = () => {
      frame.contentWindow.postMessage('tnb', '*', [ports.port2])
      const missing = () => reject(new Error(`${address.split('/').pop()} is missing`))
      setTimeout(missing, MUST_SPEAK)
    }
    document.body.append(frame)
  }).catch(error => {
    frame.remove()
    throw error
  })
}

const isBeside = () => location.hash === '#beside' && parent !== window

function answerBeside(translate) { // the other end, in that frame
  addEventListener('message', ({data, source, ports: [port]}) => {
    if (data !== 'tnb' || source !== parent || !port) return
    port.onmessage = async ({data: {id, text}}) => {
      try { port.postMessage({id, answer: await translate(text)}) }
      catch ({message}) { port.postMessage({id, error: message}) }
    }
    port.postMessage({})
  })
}

export {askEngine, once, startEngine, bytesOf, askBeside, isBeside, answerBeside}
