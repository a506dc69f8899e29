// Chapter 00: a sentence, its translation, and where each token of it looked
import {el} from './dom.js'
import {sum, range, label, percent} from './words.js'
import {asSentence, doubtInWords, isSmall} from './guess.js'
import {splitSentences} from './sentences.js'
import {presets, textField, caption, shape} from './live_parts.js'
import {tokenRow, drawLines} from './live_tokens.js'
import {asker, onItsWay} from './live_model.js'

const MODEL = 'everyday'
const EXAMPLES = ['I think that she will come tomorrow.', 'I love you.',
                  'I know this man.', 'I know that he is ill.']

// Row i of the cross-attention of the last layer, the mean over its heads (as the figure)
function lookedAt({maps}, i) {
  const heads = maps.cross.at(-1), [{cols}] = heads
  const total = j => sum(heads.map(({data}) => data[i * cols + j]))
  return range(cols).map(j => total(j) / heads.length)
}

function firstPick(found) { // the token that looked most at one word of some length
  const isLong = ({text}) => text.trim().length > 3 && text.startsWith(' ')
  const most = found.tgt.map((_, i) => {
    const atWords = lookedAt(found, i).filter((_, j) => isLong(found.src[j]))
    return Math.max(0, ...atWords)
  })
  return most.indexOf(Math.max(...most))
}

function inWords(found, i, weights) {
  const name = (pieces, j) => `“${label(pieces[j], j)}”`
  const order = range(weights.length).sort((a, b) => weights[b] - weights[a])
  const [first, second] = order.map(j => `${name(found.src, j)} (${percent(weights[j])})`)
  const [best, next] = found.alternatives[i], isBest = best.id === found.tgt[i].id
  const {text, prob} = isBest ? next : best, rival = `“${text.trim()}”`
  const chances = isBest
    ? `Its probability was ${percent(best.prob)}; ${rival} had ${percent(prob)}.`
    : `By itself ${rival} was likelier (${percent(prob)}), but not the sentence as a whole.`
  return `To write ${name(found.tgt, i)}, the model looked most at ${first}, then at `
    + `${second}. ${chances}`
}

// What the reader should know first: it takes one sentence, and it may be nonsense
function warnings({text, log_prob, src, tgt, isCut}) {
  const rest = isCut && 'Only the first sentence is translated here.'
  const doubt = doubtInWords(log_prob, tgt.length), better = asSentence(text)
  const mayBeWrong = isSmall(src[0].text) || doubt
  const written = mayBeWrong && better !== text
    && `Try “${better}”: the model has read only sentences with a capital letter first `
    + 'and a mark at the end.'
  return [rest, written, doubt].filter(Boolean)
}

function drawAll({found, pin}, {src, tgt, lines, says}) {
  if (!found) return
  const isEmpty = !found.tgt.length, weights = isEmpty ? [] : lookedAt(found, pin)
  src.draw(found.src, undefined, weights)
  tgt.draw(found.tgt, pin)
  drawLines(lines, tgt.node.children[pin], src.node.children, weights)
  const words = () => [...warnings(found), inWords(found, pin, weights)].join(' ')
  says.tell(isEmpty ? 'Type a sentence.' : words())
}

async function translation(stage) {
  const says = caption(), state = {found: null, pin: 0}
  const ask = asker(MODEL, stage, message => says.tell(`No translation: ${message}.`))
  const lines = shape('svg', {class: 'live-lines', 'aria-hidden': true})
  const src = tokenRow('Tokens of the sentence', 'en')
  const tgt = tokenRow('Translation', 'de', pin => {
    state.pin = pin
    draw()
  })
  const draw = () => drawAll(state, {src, tgt, lines, says})
  const look = async typed => {
    const [text = '', ...rest] = splitSentences(typed)
    const found = await ask(async request => {
      const {ids} = await request('translate', {text})
      return ids.length ? request('inspect', {text, ids}) : {src: [], tgt: []}
    })
    if (!found) return
    Object.assign(found, {text, isCut: rest.length > 0})
    Object.assign(state, {found, pin: firstPick(found)})
    draw()
  }
  const field = textField('English', {value: EXAMPLES[0], lang: 'en'}, look)
  const examples = presets('Examples', EXAMPLES.map(text => [text, () => field.set(text)]))
  const sides = el('div', {className: 'live-sides'}, lines, src.node, tgt.node)
  says.tell(onItsWay(MODEL))
  stage.append(field.node, examples, sides, says.node)
  new ResizeObserver(draw).observe(sides)
  await look(EXAMPLES[0])
}

export {translation}
