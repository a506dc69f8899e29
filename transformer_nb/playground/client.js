// The models of the page, loaded into the engine and checked; and scripts that ask it
import {$} from './dom.js'
import {fixed} from './words.js'
import {models, now, draw} from './store.js'
import {NOTHING} from './parts.js'
import {Tokenizer} from './tokenizer.js'
import {Reader} from './reading.js'
import {request, startEngine, bytesOf} from './connection.js'

function takeWeights(key) { // out of the page, where they would stay as text
  const node = $(`weights-${key}`), text = node.textContent.trim()
  node.remove()
  return bytesOf(text)
}

async function load() {
  await startEngine($('engine').textContent)
  const headers = [...document.querySelectorAll('script[id^="model-"]')]
  const files = headers.map(node => {
    const weights = takeWeights(node.id.replace('model-', ''))
    return {header: JSON.parse(node.textContent), weights}
  })
  const transfer = files.map(file => file.weights)
  const readers = files.map(({header}) => // here, too, as they are asked at each key
    [header.key, new Reader(header.patterns, new Tokenizer(header))])
  await request('load', {models: files}, {transfer})
  for (const model of await request('models')) models[model.key] = model
  for (const [key, reader] of readers) models[key].reader = reader
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
