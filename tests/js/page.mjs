// The page without a browser: its own script and markup, as much of a document as it uses, an
// engine that only says what it was asked, and a clock that a test turns.
import vm from 'node:vm'
import {readFileSync} from 'node:fs'

const FIXTURE = JSON.parse(readFileSync(process.env.TNB_PAGE, 'utf8')) // by test_page_in_node.py
const SCRIPT = new vm.Script(FIXTURE.script)

// ---- Time ------------------------------------------------------------------------------

class Clock {
  constructor() { Object.assign(this, {time: 0, n: 0, due: []}) }
  set(job, ms = 0) {
    const entry = {at: this.time + Math.max(0, ms), n: ++this.n, job}
    this.due.push(entry)
    return entry
  }
  clear(entry) { this.due = this.due.filter(other => other !== entry) }
  every(job, ms) {
    const again = {}
    const step = () => {
      job()
      if (!again.isOver) again.entry = this.set(step, ms)
    }
    again.entry = this.set(step, ms)
    return again
  }
  async until(isDone, limit) { // -> did it come, before that much time had passed?
    const end = this.time + limit
    for (let i = 0; ; i++) {
      await new Promise(setImmediate) // what has been promised comes first
      if (isDone()) return true
      const next = this.due.reduce((a, b) => !a || b.at < a.at || b.at === a.at && b.n < a.n
        ? b : a, null)
      if (!next || next.at > end || i > 20_000) {
        if (i <= 20_000) this.time = end
        return isDone()
      }
      this.clear(next)
      this.time = next.at
      next.job()
    }
  }
}

// ---- A document ------------------------------------------------------------------------

const PART = new RegExp(/(?<tag>[\w-]+)|#(?<id>[\w-]+)|\.(?<kind>[\w-]+)/.source
  + /|\[(?<name>[\w-]+)(?:(?<starts>\^?)=["']?(?<value>[^"'\]]*)["']?)?\]/.source
  + /|:not\((?<not>[^)]*)\)|:nth-child\((?<nth>\d+)\)|:(?<other>[\w-]+)/.source, 'g')
const camel = name => name.slice(5).replace(/-./g, x => x[1].toUpperCase()) // of data-…

function isPart(node, {tag, id, kind, name, starts, value, not, nth, other}) {
  if (tag) return tag === node.tagName
  if (id) return id === node.id
  if (kind) return node.classList.has(kind)
  if (not) return !isOne(node, not)
  if (nth) return node.parent?.children[nth - 1] === node
  if (other) return other === 'last-child' && node.parent?.lastElementChild === node
  const own = node.getAttribute(name)
  return value === undefined ? own !== undefined : starts ? Boolean(own?.startsWith(value))
    : own === value
}

const isOne = (node, text) =>
  [...text.matchAll(PART)].every(({groups}) => isPart(node, groups))

function isLast(node, parts) { // of a chain such as ['#maps', '>', '.head']
  const before = parts.slice(0, -1)
  if (!node || !isOne(node, parts.at(-1))) return false
  if (!before.length) return true
  if (before.at(-1) === '>') return isLast(node.parent, before.slice(0, -1))
  for (let up = node.parent; up; up = up.parent) if (isLast(up, before)) return true
  return false
}

class Classes extends Set {
  toggle(name, isOn = !this.has(name)) { this[isOn ? 'add' : 'delete'](name) }
  remove(name) { this.delete(name) }
  contains(name) { return this.has(name) }
}

class Element {
  constructor(tagName, page) {
    const values = {}, style = {values, setProperty: (name, x) => values[name] = String(x)}
    Object.assign(this, {tagName, page, style, nodes: [], listeners: [], dataset: {},
                         attributes: {}, classList: new Classes(), value: '', hidden: false,
                         clientWidth: 1200})
  }
  get children() { return this.nodes.filter(node => node instanceof Element) }
  get firstChild() { return this.nodes[0] }
  get lastChild() { return this.nodes.at(-1) }
  get firstElementChild() { return this.children[0] }
  get lastElementChild() { return this.children.at(-1) }
  get parentElement() { return this.parent }
  get className() { return [...this.classList].join(' ') }
  set className(text) { this.classList = new Classes(text.split(' ').filter(Boolean)) }
  get textContent() { return this.nodes.map(node => node.textContent ?? node).join('') }
  set textContent(text) { this.replaceChildren(...text ? [text] : []) }
  get isConnected() { return this === this.page.body || Boolean(this.parent?.isConnected) }
  append(...nodes) {
    for (const node of nodes) if (node instanceof Element) {
      node.remove()
      node.parent = this
    }
    this.nodes.push(...nodes)
  }
  appendChild(node) {
    this.append(node)
    return node
  }
  replaceChildren(...nodes) {
    for (const node of this.children) node.parent = undefined
    this.nodes = []
    this.append(...nodes)
  }
  after(node) { this.parent.append(node) }
  remove() {
    if (!this.parent) return
    this.parent.nodes = this.parent.nodes.filter(node => node !== this)
    this.parent = undefined
  }
  contains(node) { return node === this || Boolean(node?.parent && this.contains(node.parent)) }
  setAttribute(name, value) {
    if (name === 'class') this.className = value
    this.attributes[name] = value instanceof Element ? value : String(value)
  }
  getAttribute(name) { // or what has been set as a property
    if (name.startsWith('data-') && camel(name) in this.dataset) return this.dataset[camel(name)]
    return this.attributes[name] ?? (['lang', 'title'].includes(name) ? this[name] : undefined)
  }
  matches(selector) {
    const parts = one => one.trim().split(/\s+(?![^[]*\])/) // but not of a value
    return selector.split(/,(?![^[]*\])/).some(one => isLast(this, parts(one)))
  }
  get innerText() { // of what is not hidden; elements in a row have no space between them
    if (this.hidden) return ''
    const end = ['span', 'strong', 'small', 'b', 'i', 'q', 'a', 'del', 'ins'].includes(this.tagName)
    return this.nodes.map(node => node.innerText ?? node).join('') + (end ? '' : '\n')
  }
  closest(selector) { return this.matches(selector) ? this : this.parent?.closest(selector) }
  querySelectorAll(selector) {
    return this.children.flatMap(node =>
      [...node.matches(selector) ? [node] : [], ...node.querySelectorAll(selector)])
  }
  querySelector(selector) { return this.querySelectorAll(selector)[0] ?? null }
  addEventListener(type, listener) { this.listeners.push([type, listener]) }
  getBoundingClientRect() { return {left: 0, right: 0, top: 0, bottom: 0, width: 0, height: 0} }
  getContext() { // all letters are as wide as each other, and what is painted is kept
    const known = {measureText: text => ({width: 8 * text.length}),
                   putImageData: image => this.image = image}
    return new Proxy(known, {get: (all, name) => all[name] ?? (() => {}), set: () => true})
  }
  toDataURL() { return this }
  focus() { this.page.document.activeElement = this }
  blur() {}
  select() {}
  scrollTo() {}
  scrollIntoView() {}
  checkVisibility() { return false }
}

class Head extends Element {
  append(script) { vm.runInContext(script.textContent, this.page.world) }
}

class Image { // of a canvas
  constructor(width, height) {
    Object.assign(this, {width, height, data: new Uint8ClampedArray(4 * width * height)})
  }
}

const VOID = ['meta', 'input', 'link', 'br', 'hr', 'img']
function build(markup, page) { // -> the body of the page's own markup
  const root = new Element('body', page), open = [root]
  const plain = markup.replace(/^[\s\S]*?<body>|<!--[\s\S]*?-->|<script[\s\S]*?<\/script>/g, '')
  for (const [, end, tag, rest, text] of plain.matchAll(/<(\/?)(\w+)([^>]*)>|([^<]+)/g)) {
    if (text?.trim()) open.at(-1).append(text.trim())
    if (!tag || tag === 'html' || tag === 'body') continue
    if (end) open.pop()
    else {
      const node = new Element(tag, page)
      for (const [, name, value] of rest.matchAll(/([\w-]+)(?:="([^"]*)")?/g)) {
        node.attributes[name] = value ?? ''
        if (name.startsWith('data-')) node.dataset[camel(name)] = value ?? ''
        if (name === 'lang') node.lang = value
        if (name === 'id') page.byId.set(node.id = value, node)
        if (name === 'class') node.className = value
        if (name === 'hidden') node.hidden = true
      }
      open.at(-1).append(node)
      if (!VOID.includes(tag)) open.push(node)
    }
  }
  return root
}

// ---- The engine ------------------------------------------------------------------------

// Ids say which text they belong to, so that a prefix of another sentence is noticed
const codeOf = text => [...text].reduce((n, c) => (31 * n + c.codePointAt(0)) % 5000, 7)
const idsOf = text => text.split(' ').map((_, i) => 1000 * codeOf(text) + 10 * (i + 1))
const belongs = (id, text) => Math.floor(id / 1000) === codeOf(text)

class Engine { // in the place of a worker, by its messages
  constructor(page) { Object.assign(this, {page, newest: 0, stopped: new Set(), asked: []}) }
  postMessage(message) { this.page.clock.set(() => this.take(message), this.page.random() / 2) }
  answer(message) {
    const send = () => this.onmessage({data: message})
    this.page.clock.set(send, this.page.random() / 2)
  }
  async take({id, method, args = {}, abort}) {
    if (abort) return this.stopped.add(abort)
    const number = ++this.newest
    const pause = () => new Promise(done => this.page.clock.set(done, 2 + 4 * this.page.random()))
    const isStopped = () => FIXTURE.is_old ? number !== this.newest : this.stopped.has(id)
    const {steps = 0, result} = this.does(method, args)
    this.asked.push({method, ...args})
    for (let i = 0; i < steps; i++) {
      if (method === 'worth') this.answer({id, progress: {key: `cross.1.${i % 2 + 1}`, value: -i}})
      await pause()
      const error = {name: FIXTURE.is_old ? 'Superseded' : 'AbortError', message: ''}
      if (isStopped()) return this.answer({id, error})
    }
    if (this.failing?.(method, args)) {
      return this.answer({id, error: {name: 'Error', message: 'it broke'}})
    }
    this.answer({id, result})
  }
  does(method, args) {
    const {headers} = FIXTURE, {text = ''} = args, words = `${text} </s>`.split(' ')
    const pieces = words.map((word, i) => ({id: i, text: word === '</s>' ? word : ` ${word}`}))
    const {n_heads, n_encoder_layers: n} = headers[0].config
    const map = {rows: words.length, cols: words.length,
                 data: new Float32Array(words.length**2).fill(1 / words.length)}
    const heads = Array.from({length: n}, () => Array(n_heads).fill(map))
    const tokens = [...idsOf(text), 2]
    const log_probs = tokens.map(() => -0.1)
    switch (method) {
      case 'load': return {result: true}
      case 'models': return {result: headers.map(header => ({...header, tokens: undefined}))}
      case 'translate': {
        const {prefix = [], broken = {attention: []}} = args
        const ids = [...prefix, ...tokens.slice(prefix.length)]
        const wrong = prefix.filter(id => id > 9 && !belongs(id, text))
        if (wrong.length) this.page.wrongs.push(`${wrong} are no tokens of ${text}`)
        const says = [text, prefix.length && `forced ${prefix.length}`,
                      broken.attention.length && 'broken'].filter(Boolean).join(' ')
        return {steps: 1 + words.length, result: {
          text: `Deutsch: ${says}`, ids, score: 0, log_prob: -1, ms: 1, cut: false,
          token_log_probs: ids.map(() => -0.1), isCut: false}}
      }
      case 'inspect': return {steps: 1, result: {
        src: pieces, tgt: pieces, log_prob: -1, token_log_probs: log_probs,
        alternatives: args.ids.map(id => [0, 1].map(k => ({id: id + k, text: ' a', prob: 0.5}))),
        maps: {encoder: heads, decoder: heads, cross: heads}}}
      case 'worth': return {steps: 12, result: {'cross.1.1': -1}}
      case 'steps': {
        const end = {text, ids: tokens, score: 0, log_prob: -1}
        return {steps: 4, result: {steps: [], best: end, greedy: end, of: text}}
      }
      case 'pair': return {result: {q: [1], k: [1], products: [1], dot: 1, d_k: 1, score: 1,
                                    weight: 1, of: text}}
      case 'vectors': { // one for all places
        const all = {rows: words.length, cols: 1, data: new Float32Array(words.length).fill(1)}
        return {result: Object.assign([], {find: () => all})}
      }
    }
  }
}

// ---- The page --------------------------------------------------------------------------

export const isHidden = node => node.hidden || Boolean(node.parent) && isHidden(node.parent)

export class Page {
  constructor(seed, {hash = '', links = []} = {}) {
    Object.assign(this, {clock: new Clock(), byId: new Map(), listeners: [], wrongs: [],
                         copied: [], left: [], seed})
    const {clock} = this, page = this
    this.body = build(FIXTURE.markup, this)
    const script = (id, textContent, size = 0) => {
      const node = new Element('script', this)
      Object.assign(node, {id, textContent, dataset: {size}})
      this.byId.set(id, node)
      return node
    }
    script('engine', FIXTURE.engine ?? '')
    const models = FIXTURE.headers.map(header =>
      script(`model-${header.key}`, JSON.stringify(header)))
    const weights = FIXTURE.headers.map(({key, weights = 'AAAA'}) =>
      script(`weights-${key}`, weights, weights.length))
    const listen = (type, listener, isFirst = false) =>
      this.listeners.push([type, listener, isFirst])
    const lists = {'script[id^="model-"]': models, 'script[id^="weights-"]': weights,
                   'link[rel=alternate]': links}
    const root = new Element('html', this)
    this.document = {
      body: this.body, head: new Head('head', this), documentElement: root,
      activeElement: this.body, readyState: 'complete', addEventListener: listen,
      createElement: tag => new Element(tag, this), execCommand: () => false,
      createElementNS: (_, tag) => new Element(tag, this),
      getElementById: id => this.byId.get(id) ?? null,
      querySelectorAll: selector => lists[selector] ?? [],
      querySelector: selector => selector === 'header' ? this.body.querySelector(selector) : null}
    const location = {
      hash, protocol: 'file:', host: '', pathname: '/page.html',
      get href() { return `file:///page.html${this.hash}` },
      set href(address) { page.left.push(decodeURIComponent(address).replaceAll('+', ' ')) }}
    const go = (_, __, hash) => location.hash = hash
    const navigator = {clipboard: {writeText: async text => this.copied.push(text)}}
    const engine = this.engine = new Engine(this)
    const clear = entry => entry && (entry.entry ? (entry.isOver = true, clock.clear(entry.entry))
                                                 : clock.clear(entry))
    const world = {
      document: this.document, location, navigator, console, URL, URLSearchParams, Blob, atob,
      AbortController, TextEncoder, TextDecoder, addEventListener: listen, history: {replaceState: go, pushState: go},
      matchMedia: () => ({matches: false}), scrollBy() {}, localStorage: {getItem: () => null},
      getComputedStyle: () => ({getPropertyValue: () => 'rgb(0, 0, 0)'}), innerHeight: 800,
      IntersectionObserver: class { observe() {} },
      innerWidth: 1280, ImageData: Image,
      Worker: FIXTURE.engine ? undefined : function () { return engine }, // else the book's own
      performance: {now: () => clock.time}, MessageChannel,
      setTimeout: (job, ms) => clock.set(job, ms), clearTimeout: clear, clearInterval: clear,
      setInterval: (job, ms) => clock.every(job, ms)}
    this.world = vm.createContext(world)
    SCRIPT.runInContext(this.world)
    Object.assign(this, world.modules.store)
  }
  random() { return (this.seed = this.seed * 16807 % 2147483647) / 2147483647 }
  static async open(seed, options) {
    const page = new Page(seed, options)
    let isReady = false
    page.world.tnb.ready.then(() => isReady = true)
    const isHere = await page.clock.until(() => isReady, 10_000)
    if (!isHere || page.now.trouble) throw new Error(page.now.trouble || 'it does not begin')
    await page.settle()
    return page
  }
  $(id) { return this.byId.get(id) }
  inside(name) { return this.world.modules[name] }
  wait(ms) { return this.clock.until(() => false, ms) }
  fire(target, type, more = {}) { // as a browser does: first the window hears, then the target
    let isStopped = false
    const stop = () => isStopped = true
    const event = {type, target, preventDefault() {}, stopPropagation: stop,
                   stopImmediatePropagation: stop, ...more}
    const tell = listener => isStopped || listener?.call?.(target, event)
    const told = isFirst => this.listeners.forEach(([name, listener, first]) =>
      name === type && Boolean(first) === isFirst && tell(listener))
    told(true)
    for (let node = target; node; node = node.parent) {
      tell(node[`on${type}`])
      for (const [name, listener] of node.listeners) if (name === type) tell(listener)
    }
    told(false)
  }
  click(target) {
    const node = typeof target === 'string' ? this.$(target) : target
    if (!node || isHidden(node)) return
    node.focus()
    this.fire(node, 'click')
  }
  pick(id, value) {
    this.$(id).value = value
    this.fire(this.$(id), 'change')
  }
  press(key, more = {}) { this.fire(more.target ?? this.body, 'keydown', {key, ...more}) }
  type(text) {
    Object.assign(this.$('text'), {value: text, selectionEnd: text.length})
    this.fire(this.$('text'), 'input')
  }
  button(box, words) { // by what stands on it
    return this.$(box).querySelectorAll('button').find(node => node.textContent.includes(words))
  }
  sentence(i) { return this.$('sentences').children[i] }
  choice(i, k = 1) { return this.$('cards').children[i]?.querySelectorAll('button')[k] }
  view(name) { this.click(this.$('tabs').children.find(node => node.id === `tab-${name}`)) }
  get text() { return this.$('text').value }
  get german() { return this.$('tgt').attributes['aria-label'] }
  get isQuiet() {
    const {queue} = this.inside('answers')
    return !this.now.busy && !queue.wanted.length && !queue.running
  }
  // Everything comes to rest, and what is there belongs to the text in the field
  async settle() {
    await this.wait(500) // until what is typed has been read
    if (!await this.clock.until(() => this.isQuiet, 20_000)) throw new Error('busy for ever')
    await this.wait(200)
    if (!this.isQuiet) throw new Error('busy again')
    if (this.state.text !== this.text) this.wrongs.push('what is typed was never read')
    const {sentence, isKept} = this.inside('sentences'), {scene} = this.now
    const typed = isKept() ? '' : sentence()
    if (scene && scene.reading.typed !== typed)
      this.wrongs.push(`“${scene.reading.typed}” is shown, and “${typed}” was typed`)
    if (typed && !scene && !this.engine.failing) this.wrongs.push(`no scene for “${typed}”`)
    if (this.wrongs.length) throw new Error(this.wrongs.join('; '))
  }
}
