// The address holds the state: it can be kept, sent, and gone back to
import {$} from './dom.js'
import {state, now, models, model, firstPin} from './store.js'
import {KINDS, headsOf, firstHead, toShort, fromShort} from './parts.js'

const VIEWS = {type: 'Type', machine: 'Machine', looked: 'Look', break: 'Break',
               step: 'Step', inside: 'Inside'}
const MAX_LENGTH = 2000 // characters

// A pin that only a view has set does not go with the reader to another one
const pinFor = view => state.pin && state.pin === now.ownPin ? state.pin : firstPin(view)

const exampleText = () => model().examples?.[0]?.text ?? ''

function writeHash(push) {
  const {view, text, nth, exact, off, force, head, beam, alpha, present} = state
  const {search, checksum} = model()
  const q = new URLSearchParams({m: state.model, t: text})
  if (nth) q.set('n', nth)
  if (exact) q.set('x', 1)
  if (present) q.set('p', 1)
  if (off.length) q.set('off', off.map(toShort))
  if (force.length) q.set('f', force.join('.'))
  if (pinFor()) q.set('pin', pinFor().replace('t', ''))
  if (head !== firstHead()) q.set('h', toShort(head))
  if (beam !== search.beam_size) q.set('b', beam)
  if (alpha !== search.alpha) q.set('a', alpha)
  if (off.length || force.length) q.set('c', checksum.slice(0, 8))
  const hash = `#${view}?${q}`
  if (hash !== location.hash) remember(push ? 'pushState' : 'replaceState', hash)
}

function remember(method, hash) {
  try { history[method]('ours', '', hash) }
  catch {} // a frame in a notebook has no address of its own
}

function viewOfHash(hash = location.hash) {
  const [view] = hash.slice(1).split('?')
  if (view === 'heads') return 'looked' // as an older edition called it
  return Object.hasOwn(VIEWS, view) ? view : 'type'
}

const queryOf = hash => new URLSearchParams(hash.split('?')[1] ?? '')

const linkedText = () => queryOf(location.hash).get('t')?.slice(0, MAX_LENGTH) ?? null

function readHash(hash = location.hash) {
  const q = queryOf(hash)
  if (q.get('m') in models) state.model = q.get('m')
  const text = q.get('t') ?? ($('text').value || exampleText())
  // Heads and ids mean something only in the model that the link was made with
  const {checksum, config: {vocab_size}} = model()
  now.foreign = q.has('c') && !checksum.startsWith(q.get('c'))
  const list = (name, by) => {
    const text = now.foreign ? '' : q.get(name) ?? ''
    return text.split(by).filter(Boolean)
  }
  const view = viewOfHash(hash)
  Object.assign(state, {
    view, text: text.slice(0, MAX_LENGTH), nth: Number(q.get('n')) || 0,
    exact: q.get('x') === '1', present: q.get('p') === '1', hover: null, step: 1, box: null,
    off: [...new Set(list('off', ',').map(fromShort).filter(Boolean))],
    force: list('f', '.').filter(id => /^\d+$/.test(id)).map(Number)
      .filter(id => id < vocab_size),
    pin: readPin(q.get('pin')) ?? firstPin(view), head: readHead(q.get('h')),
    ...readSearch(q),
  })
  now.ownPin = readPin(q.get('pin'))
  $('text').value = state.text
  state.text = $('text').value // whose ends of lines are its own
}

function readPin(text) {
  const pin = /^(s?)(\d+)$/.exec(text ?? '')
  return pin && (pin[1] || 't') + pin[2]
}

function readHead(short) {
  const heads = KINDS.flatMap(headsOf)
  return heads.find(head => toShort(head) === short) ?? firstHead()
}

const BEAMS = [1, 2, 4, 8], ALPHAS = [0, 0.6, 1] // the paper's: 4 and 0.6

function searchChoices() { // the usual ones and the model's own
  const {beam_size, alpha} = model().search
  const sorted = numbers => [...new Set(numbers)].sort((a, b) => a - b)
  return {beams: sorted([...BEAMS, beam_size]), alphas: sorted([...ALPHAS, alpha])}
}

function readSearch(q) {
  const {search} = model(), {beams, alphas} = searchChoices()
  const one = (name, allowed, usual) => {
    const number = Number(q.get(name) ?? usual)
    return allowed.includes(number) ? number : usual
  }
  return {beam: one('b', beams, search.beam_size), alpha: one('a', alphas, search.alpha)}
}

export {VIEWS, MAX_LENGTH, pinFor, exampleText, linkedText, writeHash, remember,
        viewOfHash, readHash, searchChoices}
