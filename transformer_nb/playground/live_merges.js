// Chapter 08: a text cut into tokens, one merge after the other, as they were learned
import {el, write, keep, player} from './dom.js'
import {label} from './words.js'
import {Tokenizer, pairKey} from './tokenizer.js'
import {slider, presets, textField, caption} from './live_parts.js'
import {modelHeader} from './live_model.js'

const MODEL = 'captions'
const EXAMPLES = ['A skateboarder is skateboarding.', 'Das Stadthaus steht am Seehafen.',
                  'Die Mäuse im Haus.', 'qwertz 🐶']

// Where two neighbors make the pair, one piece takes their place, in every word
function join(ids, [a, b], merged) {
  const joined = []
  for (let i = 0; i < ids.length; i++) {
    const isPair = ids[i] === a && ids[i + 1] === b
    joined.push(isPair ? merged : ids[i])
    if (isPair) i++
  }
  return joined
}

function nextJoin(words, merges) { // of all pairs of neighbors, the one learned first
  const found = words.flatMap(ids => ids.slice(1).map((b, i) => {
    const [rank, merged] = merges.get(pairKey(ids[i], b)) ?? [Infinity]
    return {rank, merged, pair: [ids[i], b]}
  }))
  return found.reduce((first, other) => other.rank < first.rank ? other : first,
                      {rank: Infinity})
}

// The words after each merge, from single bytes on: {words, join}
function mergeSteps(tokenizer, text) {
  const utf8 = new TextEncoder(), found = tokenizer.normalize(text).match(tokenizer.word)
  const bytes = word => Array.from(utf8.encode(word), b => tokenizer.idOfByte[b])
  let words = (found ?? []).map(bytes), steps = [{words}]
  while (true) {
    const {rank, pair, merged} = nextJoin(words, tokenizer.merges)
    if (rank === Infinity) return steps
    words = words.map(ids => join(ids, pair, merged))
    steps.push({words, join: {rank, pair, merged}})
  }
}

function inWords(tokenizer, steps, at) {
  const n = steps[at].words.flat().length, tokens = `${n} ${n === 1 ? 'piece' : 'pieces'}`
  const {join} = steps[at], last = steps.length - 1
  if (!join) return `Before the first merge: ${tokens}, one for each byte of the text.`
  const [a, b] = join.pair.map(id => `“${tokenizer.pieces([id])[0].text}”`)
  const nth = (join.rank + 1).toLocaleString('en')
  const end = at === last ? ' No other merge fits: these are the tokens.' : ''
  return `Merge ${at} of ${last}: ${a} and ${b} become one, number ${nth} of the merges `
    + `that the tokenizer learned. ${tokens} are left.${end}`
}

function drawWords(box, tokenizer, {words, join}) {
  const newWord = () => el('span', {className: 'live-word'})
  const newPiece = () => el('span')
  keep(box, words, newWord, (node, ids) => {
    keep(node, tokenizer.pieces(ids), newPiece, (piece, token, i) => {
      write(piece, label(token, 0))
      piece.classList.toggle('new', ids[i] === join?.merged)
    })
  })
}

const TEMPO = 350 // ms for a merge

async function merges(stage) {
  const tokenizer = new Tokenizer(await modelHeader(MODEL)), says = caption()
  const state = {steps: [], at: 0}
  const box = el('div', {className: 'live-words', role: 'group', ariaLabel: 'The pieces'})
  const go = at => {
    state.at = at
    place.set(at)
    drawWords(box, tokenizer, state.steps[at])
    says.tell(inWords(tokenizer, state.steps, at))
  }
  const button = el('button', {type: 'button', textContent: 'Play'})
  const stop = player(button, TEMPO, () => {
    const last = state.steps.length - 1
    go(Math.min(state.at + 1, last))
    return state.at < last
  })
  const look = text => {
    stop()
    state.steps = mergeSteps(tokenizer, text)
    place.input.max = state.steps.length - 1
    go(0)
  }
  const place = slider('merges made', {min: 0, max: 1, value: 0}, at => {
    stop()
    go(at)
  })
  const field = textField('Text', {value: EXAMPLES[0]}, look)
  const examples = presets('Examples', EXAMPLES.map(text => [text, () => field.set(text)]))
  const row = el('div', {className: 'live-play'}, button, place.node)
  stage.append(field.node, examples, box, row, says.node)
  look(EXAMPLES[0])
}

export {merges, mergeSteps}
