// Chapter 04: the tokens whose rows of the embedding are most like that of a word
import {range, fixed} from './words.js'
import {shape} from './dom.js'
import {presets, textField, caption, drawing} from './live_parts.js'
import {asker, onItsWay} from './live_model.js'

const MODEL = 'everyday'
const EXAMPLES = ['Mary', 'Hund', 'tired', 'Monday', 'drink', 'kommt']
const ROW = 24 // pixels

const shown = text => text.startsWith(' ') ? text.slice(1) : `-${text}`

function paint(svg, width, {near}) { // a bar for each neighbor
  const left = 120, scale = width - left - 50
  for (const i of range(near.length)) {
    const {text, cosine} = near[i], y = ROW * i + 4
    const length = Math.max(0, scale * cosine)
    svg.append(
      shape('text', {x: left - 8, y: y + 14, class: 'end'}, shown(text)),
      shape('rect', {x: left, y, width: length, height: ROW - 6, class: 'value'}),
      shape('text', {x: left + length + 6, y: y + 14}, fixed(cosine)))
  }
  const words = near.map(({text, cosine}) => `${shown(text)} ${fixed(cosine)}`)
  svg.setAttribute('aria-label', `The nearest tokens, with cosines: ${words.join(', ')}`)
  return ROW * Math.max(near.length, 1) + 8
}

function inWords(word, {pieces, near}) {
  if (!word) return 'Type a word.'
  if (!near.length)
    return `The model has no row for “${word}”: it reads it as ${pieces.length} pieces, `
      + `${pieces.map(piece => `“${shown(piece.text)}”`).join(', ')}.`
  const [first, second] = near
  return `Nearest to “${word}” are “${shown(first.text)}”, with a cosine of `
    + `${fixed(first.cosine)}, and “${shown(second.text)}”, with ${fixed(second.cosine)}.`
}

async function neighbors(stage) {
  const says = caption(), state = {near: []}
  const ask = asker(MODEL, stage, message => says.tell(`No answer: ${message}.`))
  const {svg, draw} = drawing(ROW * 10 + 8, (svg, width) => paint(svg, width, state))
  const look = async typed => {
    const word = typed.trim().split(/ +/)[0]
    const found = await ask(request => request('neighbors', {text: word, exact: true}))
    if (!found) return
    Object.assign(state, {near: word ? found.near : []})
    draw()
    says.tell(inWords(word, found))
  }
  const field = textField('Word', {value: EXAMPLES[0], maxLength: 30}, look)
  const examples = presets('Examples', EXAMPLES.map(word => [word, () => field.set(word)]))
  says.tell(onItsWay(MODEL))
  stage.append(field.node, examples, svg, says.node)
  await look(EXAMPLES[0])
}

export {neighbors}
