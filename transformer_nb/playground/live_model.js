// The models of the live figures: each is loaded when the first figure asks for it, and
// then shared
import {el, style} from './dom.js'
import {askEngine, once, startEngine, bytesOf} from './connection.js'
import {Tokenizer} from './tokenizer.js'
import {Reader, exactly} from './reading.js'

const folder = new URL('.', document.currentScript.src)
const scripts = {} // by name: the promise that it has run

function script(name) {
  return once(scripts, name, () => new Promise((resolve, reject) => {
    const onerror = () => reject(new Error(`${name} is missing`))
    const src = `${folder}${name}`
    document.head.append(el('script', {src, onload: resolve, onerror}))
  }))
}

// Files come compressed, if they may be fetched: what stands on a disk may not
const isPacked = location.protocol !== 'file:' && 'DecompressionStream' in globalThis

async function unpacked(file, onBytes = () => {}) {
  const early = globalThis.tnbEarly?.[file] // live_load.js has asked for it
  delete globalThis.tnbEarly?.[file]
  const answer = await (early ?? fetch(`${folder}${file}.bin`))
  if (!answer.ok) throw new Error(`${file}.bin is missing`)
  const count = new TransformStream({
    transform(chunk, controller) {
      onBytes(chunk.length)
      controller.enqueue(chunk)
    },
  })
  const bytes = answer.body.pipeThrough(count)
  return new Response(bytes.pipeThrough(new DecompressionStream('gzip')))
}

// `onShare` is told how much of the weights is here, where that can be known
async function weightsOf(name, onShare) {
  const file = `${name}_weights`
  if (isPacked) {
    let n = 0
    const whole = await unpacked(file, more => {
      n += more
      onShare(n / 1e6 / tnb.megabytes[name])
    })
    const weights = await whole.arrayBuffer()
    onShare(1)
    return weights
  }
  await script(`${file}.js`)
  const text = tnb.weights[name]
  delete tnb.weights[name] // of which a copy as text would stay in memory
  return bytesOf(text)
}

// What a model has beside its weights, such as its tokenizer
const headers = {} // by name: the promise of one
const modelHeader = name =>
  once(headers, name, () => headerOf(`${name}_header`, name))

async function headerOf(file, name) {
  if (isPacked) return (await unpacked(file)).json()
  await script(`${file}.js`)
  return tnb.headers[name]
}

// Every text is read as in the page that translates: its first sentence as what it means
const readers = {} // by name of the model
function readFirst(name, text, exact = false) { // -> how it is read, and are there more?
  const reader = readers[name], paragraphs = reader.paragraphs(text)
  const [first = '', ...rest] = paragraphs.flatMap(paragraph => reader.split(paragraph))
  return {reading: exact ? exactly(first) : reader.read(first), isFirst: rest.length > 0}
}

const doubts = (name, source, translation) => readers[name].doubts(source, translation)

let engine
async function load(name, onShare) { // -> a function that asks this model
  engine ??= startEngine(tnb.engine)
  const coming = weightsOf(name, onShare)
  coming.catch(() => {}) // it is said below
  const header = await modelHeader(name)
  readers[name] = new Reader(header.patterns, new Tokenizer(header))
  const [weights] = await Promise.all([coming, engine])
  await askEngine('load', {models: [{header, weights}]}, {transfer: [weights]})
  const ask = (method, {text, exact, ...args}) => {
    const {read} = readFirst(name, text, exact).reading
    return askEngine(method, {...args, text: read, model: header.key})
  }
  const {log_prob} = await ask('inspect', {...header.check, exact: true})
  if (!(Math.abs(log_prob - header.check.log_prob) < 0.01))
    throw new Error('this browser computes other numbers than PyTorch')
  return ask
}

function countWaiting(box, change) { // for its answers; as long as it does, it looks busy
  box.n_waiting = (box.n_waiting ?? 0) + change
  box.classList.toggle('live-busy', box.n_waiting > 0)
}

function showShare(share) { // as a line that grows, in every figure that waits
  for (const box of document.querySelectorAll('.live-busy'))
    style(box, {'--share': Math.min(1, share)})
}

// Questions of a figure, one at a time: `job` may make several requests. A question that a
// newer one of the same asker has overtaken is not answered; one that failed can be asked
// once more.
let line = Promise.resolve() // of all figures
const models = {}            // by name: the promise that one can be asked
function asker(name, box, onTrouble) {
  const again = el('button', {type: 'button', textContent: 'Try again'})
  let newest = 0
  const answerTo = async job => job(await once(models, name, () => load(name, showShare)))
  return async job => {
    const mine = ++newest, isNewest = () => mine === newest
    again.remove()
    while (isNewest()) {
      countWaiting(box, 1)
      const turn = line.then(() => isNewest() ? answerTo(job) : undefined)
      const settle = () => countWaiting(box, -1)
      line = turn.catch(() => {}).finally(settle)
      try {
        const answer = await turn
        return isNewest() ? answer : undefined
      } catch ({message}) {
        if (!isNewest()) return undefined
        onTrouble(message)
        box.append(again)
        await new Promise(resolve => again.onclick = resolve)
        again.remove()
      }
    }
    return undefined
  }
}

function onItsWay(name) {
  return `The model is on its way: ${tnb.megabytes[name]} MB, once for this page.`
}

export {modelHeader, readFirst, doubts, asker, onItsWay}
