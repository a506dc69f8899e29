// Asking the engine: an answer is kept; what has none yet is asked for, one at a time.
// Whoever draws asks for what it needs, draws with what is here, and is called again.
import {now, draw, drawSoon} from './store.js'
import {request, guests} from './client.js'
import {askBeside} from './connection.js'

const MAX_KEPT = 80
const answers = new Map(), partial = new Map(), failed = new Map() // by what was asked
const queue = {wanted: [], running: null}
const shown = {} // by name: the last answer, which stays until the next one is here

function ask(method, args) {
  const key = JSON.stringify([method, args])
  const isKnown = answers.has(key) || failed.has(key)
  if (!isKnown) queue.wanted.push({key, method, args})
  return answers.get(key) ?? partial.get(key)
}

function latest(name, answer) {
  if (answer) shown[name] = answer
  return shown[name]
}

function store(key, answer) {
  answers.set(key, answer)
  const [oldest] = answers.keys()
  if (answers.size > MAX_KEPT) answers.delete(oldest)
}

function fail({key, method}, error) {
  if (error.name === 'Superseded') return
  failed.set(key, error.message)
  if (method !== 'beside') now.trouble = error.message
}

const whyNot = (method, args) => failed.get(JSON.stringify([method, args]))

async function pump() { // what runs and is no longer wanted is superseded by what is
  const [next] = queue.wanted
  if (guests.n || !next || next.key === queue.running) return
  const {key, method, args} = next, parts = {}
  queue.running = key
  const onProgress = ({key: name, value}) => {
    parts[name] = value
    partial.set(key, parts)
    drawSoon()
  }
  const asked = method === 'beside' ? askBeside(args)
    : request(method, args, {onProgress})
  try { store(key, await asked) }
  catch (error) { fail(next, error) }
  partial.delete(key)
  if (queue.running === key) queue.running = null
  draw()
}

export {queue, shown, ask, whyNot, latest, pump}
