// Chapter 07a: a small language model, which writes a sentence character by character
import {el} from './dom.js'
import {range, percent} from './words.js'
import {BOS, EOS, UNK} from './shared.js'
import {Weights, Embedding, PositionalEncoding, EncoderLayer, Run, softmax,
        topTokens} from './engine.js'
import {slider, presets, textField, caption} from './live_parts.js'
import {tokenRow} from './live_tokens.js'
import {modelHeader} from './live_model.js'
import {bytesOf} from './connection.js'

const LONGEST = 60 // ids, of which the model knows positions
const BEGINNINGS = ['', 'I want to', 'Why did', 'She']

class Writer { // the chapter's
  constructor({config, tensors, characters, weights}) {
    const read = new Weights(tensors, bytesOf(weights))
    this.characters = characters
    this.embedding = new Embedding(read.data('embedding.weight'), config.d_model)
    this.positions = new PositionalEncoding(null, config.d_model)
    this.layers = range(config.n_encoder_layers).map(i =>
      new EncoderLayer(read, `stack.layers.${i}`, i + 1, config))
    this.score = read.linear('score')
    this.run = new Run({causal_encoder: true})
  }
  scores(ids) { // of each next token
    const embedded = this.embedding.forward(ids)
    let x = this.positions.forward(embedded, range(ids.length))
    for (const layer of this.layers) x = layer.forward(x, this.run)
    return this.score.forward([x.at(-1)])[0]
  }
  odds(ids, temperature) {
    const scores = this.scores(ids).map(score => score / temperature)
    for (const id of range(UNK + 1)) if (id !== EOS) scores[id] = -Infinity
    return softmax(scores)
  }
  ids(text) { // what the model has never read is left out
    const known = [...text].map(character => this.characters.indexOf(character))
    return [BOS, ...known.filter(i => i >= 0).map(i => UNK + 1 + i)]
  }
  text(id) { return id === EOS ? '</s>' : this.characters[id - UNK - 1] }
}

function drawn(odds) { // an id by its probability
  let rest = Math.random()
  return Math.max(odds.findIndex(p => (rest -= p) < 0), EOS)
}

const loaded = {}
async function loadWriter() {
  loaded.writer ??= new Writer(await modelHeader('writer'))
  return loaded.writer
}

const shown = text => text === ' ' ? 'a space' : text === '</s>' ? 'the end' : `“${text}”`

function inWords({writer, steps, pin}) {
  const {odds, id} = steps[pin]
  const best = topTokens(odds, 4).map(i => `${shown(writer.text(i))} ${percent(odds[i])}`)
  const before = steps.slice(0, pin).map(step => writer.text(step.id)).join('')
  const after = before ? `After “${before}”` : 'At the beginning'
  return `${after}, the likeliest were ${best.join(', ')}. Here stands `
    + `${shown(writer.text(id))}, with ${percent(odds[id])}.`
}

function pieces({writer, steps}) {
  return steps.map(({id}) => ({id, text: writer.text(id).replace(' ', '␣')}))
}

// One character for each frame of the screen; a newer sentence takes over from this one
async function writeSentence(state, onStep) {
  const {writer, temperature} = state, mine = ++state.n_written
  const given = writer.ids(state.begin).slice(0, LONGEST), ids = [BOS]
  state.steps = []
  while (ids.length <= LONGEST && ids.at(-1) !== EOS) {
    const odds = writer.odds(ids, temperature)
    ids.push(given[ids.length] ?? drawn(odds))
    state.steps.push({odds, id: ids.at(-1)})
    onStep()
    await new Promise(resolve => setTimeout(resolve))
    if (mine !== state.n_written) return false
  }
  return true
}

async function writer(stage) {
  const says = caption(), state = {begin: '', temperature: 0.7, n_written: 0, steps: []}
  let seen // of the sentence in the row; the next one may be on its way
  const pick = pin => {
    row.draw(pieces(seen), pin)
    says.tell(inWords({...seen, pin}))
  }
  const row = tokenRow('What the model wrote, character by character', 'en', pick)
  const sentence = el('p', {className: 'live-written', lang: 'en'})
  const go = async () => {
    stage.classList.add('live-busy')
    const isDone = await writeSentence(state, () => {
      const text = state.steps.map(({id}) => id === EOS ? '' : state.writer.text(id))
      sentence.textContent = text.join('')
    })
    if (!isDone) return
    const after = state.writer.ids(state.begin).length - 1 // the first that it chose
    seen = {...state}
    pick(Math.min(after, seen.steps.length - 1))
    stage.classList.remove('live-busy')
  }
  const field = textField('Beginning', {value: '', lang: 'en', maxLength: 40}, begin => {
    state.begin = begin
    go()
  })
  const warmth = slider('temperature', {min: 0.1, max: 2, step: 0.1, value: 0.7,
    says: x => x.toFixed(1)}, temperature => Object.assign(state, {temperature}))
  const again = presets('Write', [['Write a sentence', go], ...BEGINNINGS.slice(1).map(
    begin => [`${begin} …`, () => field.set(begin)])])
  says.tell('The model is on its way: 1 MB, once for this page.')
  stage.append(field.node, warmth.node, again, sentence, row.node, says.node)
  state.writer = await loadWriter()
  await go()
}

export {writer, loadWriter}
