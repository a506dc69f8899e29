// Chapter 20: how many heads share keys and values, and what the cache weighs then
import {el} from './dom.js'
import {range} from './words.js'
import {slider, choice, presets, caption, shape, drawing} from './live_parts.js'

const HEIGHT = 190
const LLAMA = {layers: 32, heads: 32, groups: 8, size: 128, tokens: 8192, bytes: 2}
const OURS = {layers: 4, heads: 4, groups: 4, size: 32, tokens: 64, bytes: 4}

function cacheBytes({layers, groups, size, tokens, bytes}) { // keys and values
  return 2 * layers * groups * size * tokens * bytes
}

function readable(n) {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  const i = Math.min(units.length - 1, Math.floor(Math.log2(n) / 10))
  return `${Number((n / 2**(10 * i)).toPrecision(3)).toLocaleString('en')} ${units[i]}`
}

const whole = n => n.toLocaleString('en')

// Heads of queries in a row, below them the heads of keys and values that they use
function paintHeads(svg, width, {heads, groups}) {
  const cell = width / heads, r = Math.min(9, cell / 2 - 1), inGroup = heads / groups
  for (const g of range(groups)) {
    const middle = cell * inGroup * (g + 0.5), w = Math.min(2.4 * r, cell * inGroup - 2)
    for (const i of range(inGroup)) {
      const x = cell * (g * inGroup + i + 0.5)
      svg.append(shape('path', {d: `M${x},${30 + r}L${middle},95`, class: 'axis'}),
                 shape('circle', {cx: x, cy: 30, r, class: 'output'}))
    }
    for (const y of [95, 120]) {
      const box = {x: middle - w / 2, y, width: w, height: 18}
      svg.append(shape('rect', {...box, class: 'value'}))
    }
  }
  const text = (words, y) => svg.append(shape('text', {x: 0, y, class: 'name'}, words))
  text(`${heads} ${heads === 1 ? 'head' : 'heads'} of queries`, 12)
  text(`${groups} ${groups === 1 ? 'head' : 'heads'} of keys and of values`, 158)
}

function paintBar(svg, width, state) { // beside the cache of heads that share nothing
  const share = state.groups / state.heads, y = 170
  svg.append(shape('rect', {x: 0, y, width: width, height: 12, class: 'between'}),
             shape('rect', {x: 0, y, width: width * share, height: 12, class: 'value'}))
  const words = `${state.heads} heads of queries share ${state.groups} of keys and values`
  svg.setAttribute('aria-label', `${words}; the cache is ${Math.round(100 * share)}%`)
}

function inWords(state) {
  const {layers, groups, heads, size, tokens, bytes, isLowered} = state
  const own = readable(cacheBytes({...state, groups: heads}))
  const product = `2 · ${layers} · ${groups} · ${size} · ${whole(tokens)} · ${bytes}`
  const total = readable(cacheBytes(state))
  const why = isLowered ? 'Each head of keys and values serves at least one head of '
    + `queries, so that there can be only ${groups} of them. ` : ''
  return `${why}Cache of one text: ${product} = ${total}, for keys and values · layers · `
    + `heads · size · tokens · bytes. If each head of queries had keys of its own: ${own}.`
}

const power = (name, most, value, key, set) => slider(name,
  {min: 0, max: most, value: Math.log2(value), says: x => whole(2**x)},
  x => set({[key]: 2**x}))

function cache(stage) {
  const state = {...LLAMA}, says = caption()
  const {svg, draw} = drawing(HEIGHT, (svg, width) => {
    paintHeads(svg, width, state)
    paintBar(svg, width, state)
  })
  const set = change => {
    Object.assign(state, change)
    state.isLowered = state.groups > state.heads
    state.groups = Math.min(state.groups, state.heads)
    for (const [key, {set}] of Object.entries(powers)) set(Math.log2(state[key]))
    layers.set(state.layers)
    draw()
    says.tell(inWords(state))
  }
  const layers = slider('layers', {min: 1, max: 80, value: 32}, layers => set({layers}))
  const powers = {heads: power('heads of queries', 6, 32, 'heads', set),
                  groups: power('heads of keys and values', 6, 8, 'groups', set),
                  size: power('size of a head', 8, 128, 'size', set),
                  tokens: power('tokens', 20, 8192, 'tokens', set)}
  const {heads, groups, size, tokens} = powers
  const sliders = [heads, groups, layers, size, tokens].map(({node}) => node)
  const bytes = choice('bytes per number', [['4', '4'], ['2', '2'], ['1', '1']], '2',
    n => set({bytes: Number(n)}))
  const examples = presets('Models', [['Like Llama 3 8B', () => set(LLAMA)],
    ['The captions model', () => set(OURS)]])
  stage.append(el('div', {className: 'live-controls'}, ...sliders),
               el('div', {className: 'live-row'}, examples, bytes), svg, says.node)
  set({})
}

export {cache, cacheBytes, readable}
