// Chapter 05: one token on its way through the model, and which tokens its vector is like
import {el, style, write, keep} from './dom.js'
import {fixed, label, percent} from './words.js'
import {choice, presets, textField, caption} from './live_parts.js'
import {tokenRow, readBy} from './live_tokens.js'
import {asker, onItsWay} from './live_model.js'

const MODEL = 'captions'
const EXAMPLES = ['A girl is riding a bike.', 'Two dogs are playing in the snow.']
const STACKS = [['encoder', 'encoder'], ['decoder', 'decoder']]
const START = {encoder: 3, decoder: 1} // the token that is shown first

// Of a token by itself; in small letters and without a space, it goes on with a word
const nameOf = text => /^\p{Ll}/u.test(text) ? `-${text}` : text.trim() || '␣'

// A row for each step: where, what, its shape, and the nearest tokens
function fillRow(row, {name, layer, shape, near}, i, steps) {
  const [where, what, size, ...tokens] = row.children
  const isNew = i === 0 || steps[i - 1].layer !== layer
  write(where, !isNew ? '' : layer ? `layer ${layer}` : 'embedding')
  row.className = isNew ? 'first' : ''
  write(what, name)
  write(size, `(${shape.join(', ')})`)
  tokens.forEach((cell, k) => {
    const [bar, text, number] = cell.children, {cosine} = near[k]
    style(bar, {'--p': Math.max(0, cosine)})
    write(text, nameOf(near[k].text))
    write(number, fixed(cosine))
  })
}

function newRow() {
  const near = () => el('td', {className: 'live-near'}, el('i'), el('span'), el('small'))
  const cells = ['td', 'td', 'td'].map(tag => el(tag))
  cells[2].className = 'live-wide'
  return el('tr', {}, ...cells, near(), near(), near())
}

function newTable() {
  const names = ['where', 'step', 'shape', 'most similar', 'second', 'third']
  const head = names.map(name => el('th', {scope: 'col', textContent: name}))
  head[2].className = 'live-wide'
  return el('table', {className: 'live-table live-walk'},
            el('thead', {}, el('tr', {}, ...head)), el('tbody'))
}

function inWords({stack, token, pieces, steps, next}) {
  const name = `“${label(pieces[token], token)}”`, [last] = steps.at(-1).near
  const end = `ends most like “${last.text.trim()}” (cosine ${fixed(last.cosine)})`
  if (stack === 'encoder') return `The vector of ${name} ${end}.`
  const written = `“${next.text.trim()}” next, with a probability of ${percent(next.prob)}`
  return `The vector of ${name} ${end}. The model writes ${written}.`
}

// Everything about one token: what is read, the steps, and what the decoder writes next
async function walkOf(request, {text, stack, token}) {
  const {ids} = await request('translate', {text})
  if (!ids.length) return {pieces: []}
  const {src, tgt, alternatives} = await request('inspect', {text, ids})
  const pieces = stack === 'encoder' ? src : readBy(tgt)
  const at = Math.min(token, pieces.length - 1)
  const all = await request('similar', {text, ids, stack, token: at})
  const steps = all.filter(({name}) => name !== 'memory')
  return {stack, token: at, pieces, steps, next: alternatives[at]?.[0]}
}

async function walk(stage) {
  const state = {text: EXAMPLES[0], stack: 'decoder', token: START.decoder}
  const says = caption(), table = newTable()
  const ask = asker(MODEL, stage, message => says.tell(`No walk: ${message}.`))
  const tokens = tokenRow('Tokens that are read', '', token => look({token}))
  const look = async change => {
    Object.assign(state, change)
    const found = await ask(request => walkOf(request, state))
    if (!found) return
    const {pieces, token, stack} = found
    tokens.node.lang = stack === 'encoder' ? 'en' : 'de'
    tokens.draw(pieces, token)
    keep(table.tBodies[0], found.steps ?? [], newRow,
         (row, step, i) => fillRow(row, step, i, found.steps))
    says.tell(pieces.length ? inWords(found) : 'Type a sentence.')
  }
  const field = textField('English', {value: state.text, lang: 'en'}, text => look({text}))
  const examples = presets('Examples', EXAMPLES.map(text => [text, () => field.set(text)]))
  const stacks = choice('Stack', STACKS, state.stack,
    stack => look({stack, token: START[stack]}))
  says.tell(onItsWay(MODEL))
  stage.append(field.node, examples, el('div', {className: 'live-row'}, stacks),
    tokens.node, el('div', {className: 'live-scroll', tabIndex: 0, role: 'group',
               ariaLabel: 'Steps of the token'}, table), says.node)
  await look({})
}

export {walk}
