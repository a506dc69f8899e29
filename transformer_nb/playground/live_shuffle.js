// Chapter 04: the words of a sentence in other orders, with positions and without
import {el, make, write, keep} from './dom.js'
import {permuted} from './words.js'
import {presets, textField, caption} from './live_parts.js'
import {asker, onItsWay} from './live_model.js'

const MODEL = 'everyday'
const EXAMPLES = ['The man bit the dog.', 'The dog bit the man.',
                  'My brother gave the woman a book.']
const BROKEN = {no_source_positions: true}
const MOST = 6 // orders that are kept

// The first word and the mark at the end stay in place: the tokens are the same ones
function shuffled(text, random = Math.random) {
  const [, plain, mark] = text.match(/^(.*?)([.!?]*)$/)
  const [first, ...rest] = plain.split(' ')
  return [first, ...permuted(rest, random)].join(' ') + mark
}

const inOrder = text => text.replace(/[.!?]+$/, '').split(' ').sort().join(' ')

function isNewOrder(text, orders) { // of the same words
  if (!orders.length || orders.some(order => order.text === text)) return false
  return inOrder(text) === inOrder(orders[0].text)
}

function anotherOrder(orders) { // that is not among them, if one is soon found
  for (let tries = 0; tries < 50; tries++) {
    const text = shuffled(orders[0].text)
    if (isNewOrder(text, orders)) return text
  }
  return undefined
}

function inWords(orders) {
  const texts = name => new Set(orders.map(order => order[name])).size
  if (orders.length < 2) return 'Now shuffle the words: the first keeps its place.'
  const same = texts('without') === 1 ? 'one and the same translation'
    : `${texts('without')} translations`
  const sentences = `${texts('withThem')} ${texts('withThem') === 1 ? '' : 'different '}`
  return `${orders.length} orders of the same words. With positions there are ${sentences}`
    + `translation${texts('withThem') === 1 ? '' : 's'}; without them, ${same}.`
}

function newTable() {
  const names = ['English', 'with positions', 'without']
  const head = names.map(name => el('th', {scope: 'col', textContent: name}))
  return el('table', {className: 'live-table live-orders'},
            el('thead', {}, el('tr', {}, ...head)), el('tbody'))
}

function drawTable(table, orders) {
  keep(table.tBodies[0], orders, make('tr', 'td', 'td', 'td'), (row, order) => {
    const [text, withThem, without] = row.children
    withThem.lang = without.lang = 'de'
    write(text, order.text)
    write(withThem, order.withThem)
    write(without, order.without)
  })
}

async function shuffle(stage) {
  const state = {orders: []}, says = caption(), table = newTable()
  const ask = asker(MODEL, stage, message => says.tell(`No translation: ${message}.`))
  const look = async (text, before) => {
    const found = await ask(async request => {
      const intact = await request('translate', {text})
      const broken = await request('translate', {text, broken: BROKEN})
      return {text, withThem: intact.text, without: broken.text}
    })
    if (!found) return
    state.orders = [...before, found]
    drawTable(table, state.orders)
    says.tell(inWords(state.orders))
  }
  const begin = text => look(text.trim().replace(/\s+/g, ' '), [])
  const add = text => {
    const [first, ...rest] = state.orders
    return look(text, [first, ...rest.slice(-MOST + 2)])
  }
  const again = () => {
    if (!state.orders.length) return
    const text = anotherOrder(state.orders)
    if (text) add(text)
    else says.tell('There is no other order of these words.')
  }
  const pick = text => isNewOrder(text, state.orders) ? add(text) : field.set(text)
  const field = textField('English', {value: EXAMPLES[0], lang: 'en'}, begin)
  const buttons = [['Shuffle the words', again],
                   ...EXAMPLES.map(text => [text, () => pick(text)])]
  says.tell(onItsWay(MODEL))
  stage.append(field.node, presets('Orders and examples', buttons),
    el('div', {className: 'live-scroll', tabIndex: 0, role: 'group',
               ariaLabel: 'Translations'}, table), says.node)
  await begin(EXAMPLES[0])
}

export {shuffle, shuffled}
