// The models of the page, loaded into the engine and checked
import {$} from './dom.js'
import {fixed, sum} from './words.js'
import {models, now} from './store.js'
import {NOTHING} from './parts.js'
import {Tokenizer} from './tokenizer.js'
import {Reader} from './reading.js'
import {askEngine, startEngine, bytesOf} from './connection.js'

const dataOf = kind => [...document.querySelectorAll(`script[id^="${kind}-"]`)]

const sizeOf = node => Number(node.dataset.size)

// Of the models, in the order of the page
const readHeaders = () => dataOf('model').map(node => JSON.parse(node.textContent))

// The weights stand at the end of the page, and may still be on their way
const TICK = 250 // ms
function wholePage(onShare) {
  const here = node => sum([...node.childNodes].map(text => text.length))
  const timer = setInterval(() => {
    const nodes = dataOf('weights'), size = sum(nodes.map(sizeOf))
    if (nodes.length) onShare(sum(nodes.map(here)) / size)
  }, TICK)
  return new Promise(resolve => {
    if (document.readyState !== 'loading') return resolve()
    addEventListener('DOMContentLoaded', resolve)
  }).finally(() => clearInterval(timer))
}

function takeWeights({key}) { // out of the page, where they would stay as text
  const node = $(`weights-${key}`), text = node?.textContent ?? ''
  if (!node || text.length < sizeOf(node))
    throw new Error('the file is incomplete: download it again')
  node.remove()
  return bytesOf(text)
}

async function load(onShare = () => {}) {
  await Promise.all([startEngine($('engine').textContent), wholePage(onShare)])
  const files = readHeaders().map(header => ({header, weights: takeWeights(header)}))
  const transfer = files.map(file => file.weights)
  const readers = files.map(({header}) => // here, too, as they are asked at each key
    [header.key, new Reader(header.patterns, new Tokenizer(header))])
  await askEngine('load', {models: files}, {transfer})
  for (const model of await askEngine('models')) models[model.key] = model
  for (const [key, reader] of readers) models[key].reader = reader
}

// Does this browser compute what PyTorch did? One log-probability says so.
async function checkItself() {
  for (const {key, check} of Object.values(models)) {
    if (!check) continue
    const {log_prob} = await askEngine('inspect', {model: key, ...check, broken: NOTHING})
    if (Math.abs(log_prob - check.log_prob) < 0.01) continue
    now.wrong = `The self-check failed. This browser computes log p ${fixed(log_prob, 3)}, `
      + `where PyTorch has ${fixed(check.log_prob, 3)}: do not trust what you see.`
  }
}

export {load, checkItself}
